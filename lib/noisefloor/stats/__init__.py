"""The statistics: frames and arrays in, verdicts out. Pure: no servers, no printing.

`table` judges a tidy table, by `rule` (pairs in blocks) or by `runs` (everything else); `two` judges
two numbers. All make the same `row`. Imports are late, so that ``stats.two`` answers without pandas.
"""

import importlib

_HOME = dict.fromkeys(
    ("pairs", "level", "table", "path", "units", "baseline_of", "UNKNOWN"), "verdicts"
)
_MODULES = (
    "estimate",
    "flips",
    "graph",
    "plan",
    "row",
    "rule",
    "runs",
    "scatter",
    "spending",
    "student",
    "synthetic",
    "two",
    "verdicts",
    "within",
)


def __getattr__(name):
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
