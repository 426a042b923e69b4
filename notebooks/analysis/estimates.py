"""Figures with their 95 % intervals, and sentences that the pages of backups and connections share.

`x lo` and `x hi` are the ends of the interval of a figure `x`: Student's t over the means of
blocks; two arms are compared in their pairs. `written` writes it as text. The tables may have
several campaigns of a study, one after the other."""

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from noisefloor import model
from noisefloor.show.plots import canvas
from noisefloor.show.report import words
from noisefloor.stats.estimate import Estimate, paired
from noisefloor.stats.verdict import CANNOT_TELL, PROVISIONAL, kind
from noisefloor.text import amounts

NOTHING = Estimate(math.nan, ((math.inf, 1),))
Ends = tuple[float, float, float]  # a value and the ends of its interval


def columns_of(name: str) -> list[str]:
    return [name, f"{name} lo", f"{name} hi"]


def block_mean(units: Iterable[float]) -> Estimate:
    """The mean of values of independent blocks; of fewer than two without an interval."""
    known = [float(u) for u in units if np.isfinite(u)]
    if len(known) < 2:
        return Estimate(known[0], NOTHING.parts) if known else NOTHING
    return Estimate(math.fsum(known) / len(known), paired(known))


def with_ends(estimate: Estimate) -> Ends:
    """The value of an estimate and the ends of its interval, NaN without one."""
    lo, hi = estimate.ends() if math.isfinite(estimate.half()) else (math.nan, math.nan)
    return estimate.value, lo, hi


def figure(name: str, estimate: Estimate, of: Callable[[float], float] = float) -> dict[str, float]:
    """{`name`, `name lo`, `name hi`} of an estimate; `of` converts each number."""
    return dict(zip(columns_of(name), map(of, with_ends(estimate)), strict=True))


def scaled(scale: float) -> Callable[[float], float]:
    """Converts a logarithm: `scale` times its number."""
    return lambda log: scale * math.exp(log)


def above(scale: float) -> Callable[[float], float]:
    """Converts a log ratio to `scale`: the difference from `scale`, in its unit."""
    return lambda log: scale * math.expm1(log)


def to_percent(log: float) -> float:
    return 100 * math.expm1(log)


def counting(tidy: pd.DataFrame) -> pd.DataFrame:
    """Rows that count: no warm-ups, no control, nothing without a logarithm."""
    control = tidy["arm"].str.endswith(model.CONTROL_SUFFIX).astype(bool)
    return tidy[~tidy["warmup"].astype(bool) & ~control & (tidy["value"] > 0)]


def log_mean(rows: pd.DataFrame) -> Estimate:
    """The mean of the blocks, on the log scale."""
    logs = rows["value"].astype(float).transform(np.log)
    return block_mean(logs.groupby([rows["campaign"], rows["block"]]).mean())


def in_pairs(rows: pd.DataFrame, arm: str, baseline: str) -> pd.DataFrame:
    """The rows of `arm` that have a pair, each with its value over that of `baseline`."""
    one, other = (rows[rows["arm"] == a] for a in (arm, baseline))
    both = one.merge(other, on=["campaign", "pair_id"], suffixes=("", " there"))
    return both.assign(value=both["value"].astype(float) / both["value there"].astype(float))


def log_ratio(rows: pd.DataFrame, arm: str, baseline: str) -> Estimate:
    """Log of `arm` over `baseline`: from pairs if there are any, else from two independent means."""
    both = in_pairs(rows, arm, baseline)
    if len(both):
        return log_mean(both)
    first, second = (log_mean(rows[rows["arm"] == a]) for a in (arm, baseline))
    return Estimate(first.value - second.value, (*first.parts, *second.parts))


def written(frame: pd.DataFrame) -> pd.DataFrame:
    """The table for a page: every figure with its interval in one cell."""
    out: dict[str, Any] = {}
    for name in map(str, frame):
        if f"{name} lo" in frame:
            share = name.endswith("_pct")  # more or less of it, not slower or faster
            head = re.sub("_(us|ms|s|MB)$", r", \1", name.removesuffix("_pct")).replace("_", " ")
            out[head] = [
                ""
                if pd.isna(x[0])
                else amounts.with_interval(x[0], x[1], x[2], "user_sys")
                if share
                else number_text(*x)
                for x in frame[columns_of(name)].itertuples(index=False, name=None)
            ]
        elif not name.endswith((" lo", " hi")):
            out[name] = frame[name]
    return pd.DataFrame(out)


def number_text(value: float, lo: float, hi: float) -> str:
    """`2.03 (1.98 to 2.09)`, rounded to the second digit of its half width, to five digits at most. An
    infinite number is `never`."""
    if math.isinf(lo):
        return "never"
    reach = (hi - lo) / 2
    reach = max(reach, 1e-3 * abs(value)) if 0 < reach < math.inf else abs(value) / 10
    whole = all(float(x).is_integer() for x in (value, lo, hi) if math.isfinite(x))
    digits = 0 if whole or not 0 < reach < math.inf else max(0, 1 - math.floor(math.log10(reach)))

    def one(x: float) -> str:
        return "never" if math.isinf(x) else f"{x:,.{digits}f}".replace("-", amounts.MINUS)

    if math.isnan(lo) or math.isnan(hi):
        return amounts.around(one(value), amounts.NONE)
    return amounts.around(*map(one, (value, lo, hi)))


# -- verdicts in words ---------------------------------------------------------------------------


def leading_rows(verdicts: pd.DataFrame, metric: str, workloads: tuple[str, ...]) -> pd.DataFrame:
    """Verdict rows of a metric, for the first of `workloads` that has any, against one baseline: one an
    arm, the joint row, else its first; each question on its first processor."""
    rows = verdicts[~verdicts["control"].astype(bool) & (verdicts["metric"] == metric)]
    rows = rows[rows["processor"].eq(rows.groupby("question")["processor"].transform("first"))]
    first = next((w for w in workloads if w in set(rows["workload"])), "")
    rows = rows[rows["workload"] == first]
    rows = rows[rows["baseline"].isin(rows["baseline"][:1])]
    joint = rows["joint"].astype(bool)
    return rows[joint | ~rows["arm"].isin(rows["arm"][joint])].drop_duplicates("arm")


def in_words(rows: pd.DataFrame) -> str:
    """`slower with A (+40.0 %, +36.0 to +45.0 %); same with B (...)`, and of rows without a verdict yet
    `provisional, boot 1 of 3: C (...)`."""
    said: dict[str, list[str]] = {}
    turn = words.KINDS.index
    ordered: list[Any] = sorted(rows.itertuples(), key=lambda row: turn(kind(row.verdict)))
    for row in ordered:
        start = f"{row.verdict} with"
        if row.verdict == PROVISIONAL:
            start = f"{words.word(row._asdict())}:"
        said.setdefault(start, []).append(f"{row.arm} ({_size(row)})")
    return "; ".join(f"{start} {', '.join(arms)}" for start, arms in said.items())


def _size(row: Any) -> str:
    """A change and its interval, without the word for its direction; of a row that cannot tell, the
    interval in words."""
    if row.verdict == CANNOT_TELL:
        return amounts.bounds(row.lo_pct, row.hi_pct, row.metric) or amounts.NONE
    return ", ".join(canvas.change_and_interval(row))
