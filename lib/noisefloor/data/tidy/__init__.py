"""Run folders -> one table. The only reader of campaigns; text becomes numbers in `parse`.

A campaign is a folder, or packed: then `inside` is the door to its runs. Tidy table: a row per run
and metric, columns `COLUMNS`, base units (s, B, 1/s). ``folders`` reads and seals them, ``numbers``
makes the table, ``about`` tells what else runs say; all of their names are names of this package.
"""

from importlib import import_module
from typing import Any

_PARTS = ("folders", "numbers", "about")


def __getattr__(name: str) -> Any:
    parts = {part: import_module(f"{__name__}.{part}") for part in _PARTS}
    for part in parts.values():
        if not name.startswith("_") and hasattr(part, name):
            return getattr(part, name)
    if name in parts:
        return parts[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
