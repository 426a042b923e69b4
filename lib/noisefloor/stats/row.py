"""One row of a verdict table: the same columns, in the same words, wherever runs are judged."""

import math

from noisefloor import amounts

from .estimate import CANNOT_TELL

COLUMNS = [
    "study", "workload", "metric", "threads", "baseline", "arm", "n_baseline", "n_arm",
    "overhead_pct", "lo_pct", "hi_pct", "level", "p", "verdict", "known", "same_lo_pct",
    "same_hi_pct", "noise_floor_pct", "deciding_cv_pct", "runs_needed", "minutes_needed", "warnings",
    "control", "joint", "blocks", "design",
]  # fmt: skip


def row(
    *,
    key,
    threads,
    n,
    value,
    ends=None,
    level=math.nan,
    same_ends=None,
    p=math.nan,
    word,
    needed=None,
    minutes=None,
    deciding_cv=math.nan,
    warnings=(),
    control=False,
    joint=False,
    blocks=1,
    design="unpaired",
):
    """A verdict row as a dict with COLUMNS.

    key: (study, workload, metric, baseline, arm); n: runs or pairs of (baseline, arm); value, ends,
    same_ends: on the log scale, None without an interval; level: the interval holds the truth with
    1 - level, and p is compared with it; needed: runs an arm, pairs in all, that would settle it."""
    study, workload, metric, baseline, arm = key
    lo, hi = ends if ends and math.isfinite(ends[0]) else (math.nan, math.nan)
    said = amounts.plain(amounts.known(percent(lo), percent(hi), metric))
    same = same_ends if same_ends and math.isfinite(same_ends[0]) else (math.nan, math.nan)
    return {
        "study": study,
        "workload": workload,
        "metric": metric,
        "threads": threads,
        "baseline": baseline,
        "arm": arm,
        "n_baseline": n[0],
        "n_arm": n[1],
        "overhead_pct": percent(value),
        "lo_pct": percent(lo),
        "hi_pct": percent(hi),
        "level": level,
        "p": p,
        "verdict": word,
        "known": said if word == CANNOT_TELL else "",
        "same_lo_pct": percent(same[0]),
        "same_hi_pct": percent(same[1]),
        "noise_floor_pct": percent((hi - lo) / 2),
        "deciding_cv_pct": 100 * deciding_cv,
        "runs_needed": math.nan if needed is None else needed,
        "minutes_needed": math.nan if minutes is None else minutes,
        "warnings": list(dict.fromkeys(warnings)),
        "control": control,
        "joint": joint,
        "blocks": blocks,
        "design": design,
    }


def percent(log):
    """A log overhead in percent; NaN stays NaN."""
    if math.isnan(log):
        return math.nan
    return 100 * math.expm1(log) if log < 700 else math.inf
