"""The statistics: frames and arrays in, verdicts out. Pure: no disk, no servers, no printing.

`pairs`, `table`, `path` and `check` read the tidy table; `sequential`, `paired`, `samples`, `two`
and `synthetic` hold the methods. Imports are late, so that ``stats.two`` answers without pandas.
"""

import importlib

_HOME = {
    "pairs": "family",
    "table": "family",
    "path": "family",
    "check": "family",
    "slice_seconds": "plan",
    "slice_from_rows": "samples",
}
_MODULES = (
    "family",
    "fixed",
    "outcome",
    "paired",
    "plan",
    "samples",
    "sequential",
    "synthetic",
    "two",
)


def __getattr__(name):
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
