"""One row of a verdict table: the same columns and words for everything that is judged."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from noisefloor.model import CONTROL_SUFFIX
from noisefloor.stats import verdict as words
from noisefloor.text import amounts

KEY = ("study", "workload", "metric", "baseline", "arm")
Key = tuple[str, str, str, str, str]
Row = dict[str, Any]  # of a verdict table: COLUMNS
COLUMNS = [
    "study", "workload", "metric", "threads", "baseline", "arm", "n_baseline", "n_arm",
    "change_pct", "lo_pct", "hi_pct", "margin_pct", "verdict", "worse", "together", "known",
    "chance", "restarted", "restarted_lo_pct", "restarted_hi_pct", "runs_needed",
    "minutes_needed", "warnings", "control", "joint", "blocks", "design",
]  # fmt: skip


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
    together: int = 1,
    chance: float = math.nan,
    restarted: tuple[str, float, float] = ("", math.nan, math.nan),
    **more: Any,
) -> Row:
    """A verdict row as a dict with COLUMNS; `more` are columns that are copied: threads joint blocks
    design.

    n: runs or pairs of (baseline, arm); logs: change and the ends of its interval, infinite or NaN
    without one; needed: runs an arm, or pairs in all, that would decide it; seconds: what one of them
    takes; together: rows that hold at 95 % together; chance: how often two runs of one unchanged server
    differ by so much; restarted: the word and the ends of the interval if the server was restarted
    between the runs, where that is another answer."""
    value, lo, hi = (x if math.isfinite(x) else math.nan for x in logs)
    open_ = verdict == words.CANNOT_TELL
    made = {
        **dict(zip(KEY, key, strict=True)),
        **more,
        "n_baseline": n[0],
        "n_arm": n[1],
        "change_pct": percent(value),
        "lo_pct": percent(lo),
        "hi_pct": percent(hi),
        "margin_pct": margin_pct,
        "verdict": verdict,
        "worse": words.worse(verdict, key[2]),
        "together": together,
        "known": amounts.ascii_only(amounts.bounds(percent(lo), percent(hi), key[2]))
        if open_
        else "",
        "chance": chance,
        "restarted": restarted[0],
        "restarted_lo_pct": percent(restarted[1]),
        "restarted_hi_pct": percent(restarted[2]),
        "runs_needed": needed if needed is not None else math.nan,
        "minutes_needed": needed * seconds / 60 if needed and seconds and open_ else math.nan,
        "warnings": list(dict.fromkeys(warnings)),
        "control": key[4] == f"{key[3]}{CONTROL_SUFFIX}",
    }
    return {column: made[column] for column in COLUMNS}


def percent(log: float) -> float:
    """A log ratio in percent; NaN stays NaN."""
    if math.isnan(log):
        return math.nan
    return 100 * math.expm1(log) if log < 700 else math.inf
