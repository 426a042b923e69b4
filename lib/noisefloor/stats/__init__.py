"""The statistics: frames and arrays in, verdicts out. Pure: no servers, no printing.

`table` judges a tidy table, by `rule` (pairs in blocks) or by `runs` (everything else); `two`
judges two numbers; `combine` combines the sittings of a question. `table` and `two` make the same
`row`. Imports are late, so that ``stats.two`` answers without pandas."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

_TABLE = ("pairs", "table", "block_means", "baseline_of", "UNKNOWN")


def __getattr__(name: str) -> Any:
    if name in _TABLE:
        return getattr(import_module(f"{__name__}.verdicts"), name)
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
