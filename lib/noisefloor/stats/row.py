"""One row of a verdict table: the same columns, in the same words, wherever runs are judged."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from noisefloor.model import AGAIN
from noisefloor.stats.estimate import CANNOT_TELL
from noisefloor.text import amounts

KEY = ("study", "workload", "metric", "baseline", "arm")
Key = tuple[str, str, str, str, str]
Row = dict[str, Any]  # of a verdict table: COLUMNS
COLUMNS = [
    "study", "workload", "metric", "threads", "baseline", "arm", "n_baseline", "n_arm",
    "overhead_pct", "lo_pct", "hi_pct", "level", "p", "verdict", "known", "same_lo_pct",
    "same_hi_pct", "noise_floor_pct", "deciding_cv_pct", "runs_needed", "minutes_needed", "warnings",
    "control", "joint", "blocks", "design",
]  # fmt: skip


def row(
    key: Key,
    n: tuple[int, int],
    logs: Sequence[float],
    verdict: str,
    needed: int | None,
    seconds: float | None,
    warnings: Iterable[str],
    **more: Any,
) -> Row:
    """A verdict row as a dict with COLUMNS; `more` are those that stand in it as they are.

    n: runs or pairs of (baseline, arm); logs: overhead, the ends of its interval and of that of the
    one-sided tests, infinite or NaN without one; needed: runs an arm, pairs in all, that would
    settle it; seconds: what one of them costs; more: threads level p deciding_cv_pct joint blocks
    design, where the interval holds the truth with 1 - level, and p is compared with it."""
    value, lo, hi, same_lo, same_hi = (x if math.isfinite(x) else math.nan for x in logs)
    open_ = verdict == CANNOT_TELL
    said = amounts.plain(amounts.known(percent(lo), percent(hi), key[2]))
    made = {
        **dict(zip(KEY, key, strict=True)),
        **more,
        "n_baseline": n[0],
        "n_arm": n[1],
        "overhead_pct": percent(value),
        "lo_pct": percent(lo),
        "hi_pct": percent(hi),
        "verdict": verdict,
        "known": said if open_ else "",
        "same_lo_pct": percent(same_lo),
        "same_hi_pct": percent(same_hi),
        "noise_floor_pct": percent((hi - lo) / 2),
        "runs_needed": needed if needed is not None else math.nan,
        "minutes_needed": needed * seconds / 60 if needed and seconds and open_ else math.nan,
        "warnings": list(dict.fromkeys(warnings)),
        "control": key[4] == f"{key[3]}{AGAIN}",
    }
    return {column: made[column] for column in COLUMNS}


def percent(log: float) -> float:
    """A log overhead in percent; NaN stays NaN."""
    if math.isnan(log):
        return math.nan
    return 100 * math.expm1(log) if log < 700 else math.inf
