"""Runs without a campaign (logs, archives, other pairs) to verdict rows.

`compare`, `compare --from`, the explorer and the verdict table of runs without pairs get the same
rows. No pandas and no scipy, so that a folder of logs is answered fast."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from noisefloor.model import CONTROL_SUFFIX, QUANTILES, Comparison
from noisefloor.model import metric as metric_of
from noisefloor.stats import estimate, plan, scatter, student
from noisefloor.stats.estimate import Estimate, Parts
from noisefloor.stats.row import Key, percent, row
from noisefloor.stats.scatter import Floor, Start
from noisefloor.stats.verdict import CANNOT_TELL
from noisefloor.text.reasons import Reason, Why, has

# sysbench's histogram, of the width of `parse.RESOLUTION` (importing that would import numpy)
BUCKET = math.log1p(0.01817)  # width of a bucket on the log scale
CLIP_S = 100.0  # its end
_GIVEN_DF = 10  # degrees of freedom of a floor that somebody gave for single runs


@dataclass(frozen=True)
class Side:
    """The runs of one arm at one thread count: values in base units, above 0; rates: the values per
    second of a single run, if it has any."""

    values: tuple[Any, ...]
    rates: Any = None


@dataclass
class Cell:
    """One comparison before its word."""

    threads: Any
    n: tuple[int, int]
    estimate: Estimate
    sd: float = math.nan  # of one run, of one pair when paired
    only: str = ""  # why the verdict can only be `cannot tell`
    warnings: list[str] = field(default_factory=list)
    chance: float = math.nan  # how often two single runs of one server differ by so much


def judge_runs(
    arms: Mapping[str, Mapping[Any, tuple[Side, Side]]],
    *,
    metric: str,
    baseline: str,
    study: str = "",
    workload: str = "",
    margin_pct: float = 0.0,
    quick: bool = False,
    paired: bool = False,
    restarts: bool = False,
    floor: Floor = None,
    local: bool = True,
    seconds: float | None = None,
    notes: Iterable[str] = (),
) -> list[Comparison]:
    """Verdict rows of one metric of one workload. All their intervals hold at 95 % together; those
    of a copy of the baseline are a group of their own.

    arms: {arm: {threads (None: unknown): (Side of the baseline, Side of the arm)}}; margin_pct: 0
    for the metric's own (quick: its wider one); paired: the k-th values belong together; restarts:
    every run had a start of its own, so that no start-to-start scatter is added; floor: that CV in
    percent (of a single run its run-to-run CV) or entries by metric, else this machine's (local) or
    the recorded, "levels" for arms measured one after the other on a shared host; seconds: length
    of a run. Raises ValueError for a value that has no logarithm."""
    of_metric = metric_of(metric)
    margin_pct = margin_pct or (of_metric.quick_pct if quick else of_metric.margin_pct)
    start = None if restarts else scatter.start_scatter(metric, floor, local)
    one = (floor / 100, _GIVEN_DF) if isinstance(floor, (int, float)) and floor else None
    rows: list[Comparison] = []

    def cell_of(threads: Any, a: Side, b: Side) -> Cell:
        """The comparison of two sides."""
        x, y = _logs(a.values, metric), _logs(b.values, metric)
        if min(len(x), len(y)) > 1:
            return _repeated(threads, x, y, metric, paired, start)
        n, value = (len(x), len(y)), math.fsum(y) / len(y) - math.fsum(x) / len(x)
        many, rates = tuple(v for v in (x, y) if len(v) > 1), (a.rates, b.rates)
        span = math.exp(x[0]) if metric in scatter.TIMED else seconds
        return cell_of_single_runs(threads, n, value, metric, span, start, one, many, rates)

    for copies in (False, True):
        cells = [
            (arm, cell_of(threads, *sides))
            for arm, by_threads in arms.items()
            if (arm == f"{baseline}{CONTROL_SUFFIX}") is copies
            for threads, sides in by_threads.items()
        ]
        together = max(1, sum(not cell.only for _, cell in cells))
        for arm, cell in cells:
            key = study, workload, metric, baseline, arm
            rows.append(verdict_row(cell, key, margin_pct, together, notes, paired, seconds))
    return rows


def _repeated(
    threads: Any, x: list[float], y: list[float], metric: str, paired: bool, start: Start | None
) -> Cell:
    """The cell of several runs an arm, by their own scatter."""
    n, only = (len(x), len(y)), ""
    warnings: list[str] = []
    value = math.fsum(y) / n[1] - math.fsum(x) / n[0]
    if paired:
        parts = estimate.paired([v - u for u, v in zip(x, y, strict=True)])
        sd = math.sqrt(parts[0][0] * n[0])
    else:
        parts = estimate.welch(x, y)
        sd = math.sqrt(sum(v * k for (v, _), k in zip(parts, n, strict=True)) / 2)
        warnings.append(Reason(Why.ORDER_UNKNOWN))
    if start and metric in scatter.TIMED:  # the time of a command has no server that is restarted
        warnings.append(Reason(Why.SHARED_HOST, cv_pct=100 * start.cv))
        parts, start = (*parts, start.part), None
    if metric in QUANTILES:
        if math.exp(max(*x, *y)) >= CLIP_S * 0.999:
            only = Reason(Why.CLIPPED, most_s=CLIP_S)
    elif not sum(v for v, _ in parts) > 0:
        only = Reason(Why.NO_SCATTER)
    if metric == "mean_latency":
        warnings.append(Reason(Why.SAME_AS_TPS))
    return Cell(threads, n, estimate_of_runs(value, parts, metric, n, start), sd, only, warnings)


def estimate_of_runs(
    value: float, parts: Parts, metric: str, n: Sequence[int], start: Start | None = None
) -> Estimate:
    """The Estimate of a log ratio `value` from n runs (baseline, arm). A percentile is only as exact
    as the buckets of sysbench's histogram: each run adds a variance, and the half width of the
    interval is at least half a bucket."""
    least = BUCKET / 2 if metric in QUANTILES else 0.0
    rounded = ((BUCKET**2 / 12 * sum(1 / k for k in n), math.inf),) if least else ()
    return Estimate(value, (*parts, *rounded), (start.part,) if start else (), least=least)


def _logs(values: Iterable[Any], metric: str) -> list[float]:
    """Their logarithms; ValueError unless all are finite and above 0."""
    known = [float(v) for v in values]
    if bad := [v for v in known if not 0 < v < math.inf]:
        raise ValueError(
            f"{metric}: {bad[0]:g} has no logarithm (values must be above 0); nothing was judged"
        )
    return [math.log(v) for v in known]


def cell_of_single_runs(
    threads: Any,
    n: tuple[int, int],
    value: float,
    metric: str,
    seconds: float | None = None,
    start: Start | None = None,
    floor: tuple[float, float] | None = None,
    many: Sequence[Sequence[float]] = (),
    rates: Sequence[Any] = (None,),
) -> Cell:
    """A cell in which an arm has one run, or several with unknown scatter. Their possible difference
    is predicted from published repeats.

    n: runs of (baseline, arm); value: log ratio; seconds: length of a run; floor: (run-to-run CV,
    df) in place of published repeats; start: counts if an arm has several runs; many: logs of such
    an arm; rates: values per second of both runs, whose scatter can only add to the rest."""
    several, parts = max(n) > 1, [part for x in many for part in estimate.paired(x)]
    sd = math.sqrt(parts[0][0] * max(n)) if parts else math.nan
    alone = [k for k in n if k == 1 or not many]  # runs whose scatter is unknown
    known = None if floor else scatter.prediction(metric, seconds, alone)
    chance, only = math.nan, ""
    warnings: list[str] = []
    if not several and all(r is not None for r in rates):
        from noisefloor.stats.within import within

        inside = [each for r in rates if (each := within(r))]
        if len(inside) == 2:
            parts += [(error**2, df) for error, df, _ in inside]
            warnings += [warning for *_, of_run in inside for warning in of_run]
    which = "one run in one arm" if many else "one run an arm"
    which = "runs without their scatter" if several and not many else which
    if floor:
        variance = floor[0] ** 2 * sum(1 / k for k in alone)
        parts.append((variance, floor[1]))
        warnings.append(Reason(Why.AS_GIVEN, which=which, cv_pct=100 * floor[0]))
        if not several:
            chance = 2 * student.tail(abs(value) / math.sqrt(variance), floor[1])
    elif known:
        repeats = {"groups": known.fit["groups"], "sources": known.fit["sources"]}
        repeats |= {"which": which, "cv_pct": known.fit["median_cv_pct"]}
        warnings.append(Reason(Why.PREDICTED, **repeats))
        if not several:
            chance = known.chance(value)
    else:
        only = Reason(Why.UNPREDICTED, which=which)
    estimated = estimate_of_runs(value, tuple(parts), metric, n, start if several else None)
    return Cell(threads, n, replace(estimated, single=known), sd, only, warnings, chance)


def verdict_row(
    cell: Cell,
    key: Key,
    margin_pct: float = 0.0,
    together: int = 1,
    notes: Iterable[str] = (),
    paired: bool = False,
    seconds: float | None = None,
) -> Comparison:
    """The row of a cell. margin_pct: 0 for the metric's own; together: number of intervals that all
    contain the truth (Bonferroni); seconds: length of a run.

    If runs may share a start of the server, the row has the cautious answer. If the answer for a
    server that was restarted between them differs, the row has that one, too."""
    metric, n, sd, estimated = key[2], cell.n, cell.sd, cell.estimate
    margin_pct = margin_pct or metric_of(metric).margin_pct
    margin = math.log1p(margin_pct / 100)
    word = CANNOT_TELL if cell.only else estimated.word(metric, margin, together)
    other = word if cell.only else estimated.word(metric, margin, together, restarted=True)
    warnings, needed = [*([cell.only] if cell.only else []), *cell.warnings, *notes], None
    if word != CANNOT_TELL:
        needed = max(n)
    elif sd > 0 and min(n) > 1 and not has(warnings, Why.SHARED_HOST):
        sides, least, start = 1 if paired else 2, max(n) + 1, estimated.start
        needed = plan.runs_needed(
            estimated.value, sd, margin, sides=sides, start=start, least=least, together=together
        )
    restarted: dict[str, Any] = {}
    if other != word:
        lo, hi = map(percent, estimated.ends(together, restarted=True))
        restarted = {"restarted": other, "restarted_lo_pct": lo, "restarted_hi_pct": hi}
    elif estimated.start:
        cv = 100 * math.sqrt(estimated.start[0][0] / 2)
        warnings.append(Reason(Why.RESTARTS_UNKNOWN, cv_pct=cv))
        if needed is None:
            warnings.append(Reason(Why.SHARED_STARTS))
    return row(
        key,
        n,
        (estimated.value, *estimated.ends(together)),
        margin_pct=margin_pct,
        verdict=word,
        needed=needed,
        seconds=2 * seconds if seconds else None,
        warnings=warnings,
        together=together,
        chance=cell.chance,
        threads=cell.threads,
        blocks=1,
        design="pairs" if paired else "unpaired",
        **restarted,
    )
