"""One row of a verdict table: the same columns and words for everything that is judged."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from noisefloor.model import CONTROL_SUFFIX, Comparison
from noisefloor.stats import verdict as words
from noisefloor.text import amounts

KEY = ("study", "workload", "metric", "baseline", "arm")
Key = tuple[str, str, str, str, str]
COLUMNS = [field.name for field in fields(Comparison)]  # of a verdict table


def row(
    key: Key,
    n: tuple[int, int],
    logs: Sequence[float],
    *,
    margin_pct: float,
    verdict: str,
    needed: int | None = None,
    seconds: float | None = None,
    warnings: Iterable[str] = (),
    **more: Any,
) -> Comparison:
    """A comparison; `more` are its other fields.

    n: runs or pairs of (baseline, arm); logs: log change and its interval's ends, infinite or NaN
    without one; needed: runs an arm, or pairs in all, that would decide it; seconds: what a run of
    each arm, or a pair, takes."""
    change, lo, hi = (percent(x) if math.isfinite(x) else math.nan for x in logs)
    open_ = verdict == words.CANNOT_TELL
    return Comparison(
        **dict[str, Any](zip(KEY, key, strict=True)),
        n_baseline=n[0],
        n_arm=n[1],
        change_pct=change,
        lo_pct=lo,
        hi_pct=hi,
        margin_pct=margin_pct,
        verdict=verdict,
        worse=words.worse(verdict, key[2]),
        known=amounts.ascii_only(amounts.bounds(lo, hi, key[2])) if open_ else "",
        runs_needed=needed if needed is not None else math.nan,
        minutes_needed=needed * seconds / 60 if needed and seconds and open_ else math.nan,
        warnings=tuple(dict.fromkeys(warnings)),
        control=key[4] == f"{key[3]}{CONTROL_SUFFIX}",
        **more,
    )


def as_dict(row: Comparison) -> dict[str, Any]:
    """A comparison for a table or JSON: its columns, the warnings as a list."""
    return {name: getattr(row, name) for name in COLUMNS} | {"warnings": [*row.warnings]}


def from_frame(row: Any) -> Comparison:
    """The comparison in a row (dict or Series) of a verdict table; other columns are ignored. Raises
    KeyError for a missing column."""
    given: dict[str, Any] = {name: row[name] for name in COLUMNS}
    given["warnings"] = tuple(given["warnings"])
    try:
        given["threads"] = int(given["threads"])
    except (TypeError, ValueError):  # pandas' NA, None, NaN
        given["threads"] = None
    return Comparison(**given)


def percent(log: float) -> float:
    """A log ratio as a change in percent; NaN stays NaN."""
    if math.isnan(log):
        return math.nan
    return 100 * math.expm1(log) if log < 700 else math.inf
