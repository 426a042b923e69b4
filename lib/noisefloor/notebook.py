"""What notebooks use: ``from noisefloor.notebook import connections, report``. Each name is
loaded at its first use: a module of the library, or one in ``analysis`` beside the notebooks."""

import sys
from importlib import import_module

from noisefloor import paths

_PLACES = {
    "archive": "data.archive",
    "claims": "claims",
    "collect": "measure.collect",
    "explore": "explore",
    "paths": "paths",
    "plots": "show.plots",
    "report": "show.report",
    "results": "data.results",
    "tidy": "data.tidy",
}


def __getattr__(name: str) -> object:
    if name in _PLACES:
        return import_module(f"noisefloor.{_PLACES[name]}")
    beside = {p.stem for p in (paths.notebooks() / "analysis").glob("*.py")}
    if name not in beside:
        raise AttributeError(
            f"notebooks use {', '.join([*_PLACES, *sorted(beside)])}, not {name!r}"
        )
    if (folder := str(paths.notebooks())) not in sys.path:
        sys.path.append(folder)
    return import_module(f"analysis.{name}")
