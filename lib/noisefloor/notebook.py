"""What notebooks use: ``from noisefloor.notebook import plots, report, results``. Each is loaded when it
is asked for."""

from importlib import import_module

_PLACES = {
    "archive": "data.archive",
    "calibration": "calibrate",
    "claims": "claims",
    "collect": "measure.collect",
    "explore": "explore",
    "paths": "paths",
    "plots": "show.plots",
    "report": "show.report",
    "results": "data.results",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"notebooks use {', '.join(_PLACES)}, not {name!r}")
    return import_module(f"noisefloor.{_PLACES[name]}")
