"""Two published numbers: what can be said about them, and what would decide it.

One number an arm gets the same row as one run an arm in `runs` (a test compares them); means may
come with their scatter. Plain Python, no numpy: the command answers in a third of a second."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from noisefloor.model import METRICS, PROFILES, Comparison
from noisefloor.stats import plan, runs, scatter, student
from noisefloor.stats.estimate import Estimate
from noisefloor.stats.scatter import Start
from noisefloor.stats.verdict import ALPHA, CANNOT_TELL
from noisefloor.text import answers, quantity
from noisefloor.text.quantity import Given
from noisefloor.text.reasons import Reason, Why

FLOOR_RUNS = 10  # A/A runs assumed behind a floor that comes without their number
# sd and seconds of a pair of 8 s slices: two identical MySQL 9.7 servers, restarted ten times
PAIR_SD, PAIR_S = 0.045, 22
# what may follow a ±, as the standard error of a mean of k runs
READINGS: dict[str, Callable[[float, int], float]] = {
    "a standard deviation": lambda spread, k: spread / math.sqrt(k),
    "a standard error": lambda spread, k: spread,
    "a 95 % interval": lambda spread, k: spread / student.quantile(1 - ALPHA / 2, k - 1),
}
SPREADS = dict(sd="a standard deviation", se="a standard error", pm="a standard error")


def judge_two(
    a: Given,
    b: Given,
    *,
    metric: str | None = None,
    better: str | None = None,
    threads: int | None = None,
    seconds: float | None = None,
    latency: Sequence[Given] | None = None,
    margin_pct: Given | None = None,
    floor_cv_pct: Given | None = None,
    floor_runs: int | None = None,
    sd: Sequence[Given] | None = None,
    se: Sequence[Given] | None = None,
    pm: Sequence[Given] | None = None,
    n: str | None = None,
    restarts: bool = False,
) -> tuple[Comparison, list[str]]:
    """(verdict row, at most five lines for a person) for b against the baseline a.

    Numbers may be text with a unit, which sets the metric if none is given. better: "lower" if less
    is better. latency: (a's, b's) mean latency, in ms. sd, se, pm: (a's, b's) standard deviation of
    n runs, standard error, or what follows a ±; at most one of them. floor_cv_pct: run-to-run CV
    of floor_runs A/A runs, in place of published repeats; with sd, se or pm the start-to-start CV.
    n: "5", or "5,3". restarts: every run had its own server start. Raises ValueError."""
    names = [x.strip() if isinstance(x, str) else f"{x:g}" for x in (a, b)]
    numbers = quantity.read(a, "value"), quantity.read(b, "value")
    (x, _, kind), (y, _, other) = numbers
    if kind != other and ("time" in (kind, other) or (kind and other)):
        raise ValueError(f"{names[0]} and {names[1]}: both numbers need the same unit")
    metric = quantity.metric(metric, kind or other)
    margin = METRICS[metric].margin_pct
    if margin_pct is not None:
        margin = quantity.read(margin_pct, "margin (percent)")[0]
    floor = None
    if floor_cv_pct is not None:
        if floor_runs is not None and floor_runs < 2:
            raise ValueError(f"floor from {floor_runs} runs: at least 2 are needed")
        cv = quantity.read(floor_cv_pct, "floor (percent)")[0] / 100
        floor = Start(cv, (floor_runs or FLOOR_RUNS) - 1)
    spreads = {k: v for k, v in (("sd", sd), ("se", se), ("pm", pm)) if v is not None}
    if len(spreads) > 1:
        raise ValueError(f"{' and '.join(spreads)} were given: one of sd, se and pm is allowed")
    counts = quantity.counts(n, next(iter(spreads), ""))
    notes = answers.little(x, y, metric, threads, latency)
    start = None if restarts else scatter.start_scatter(metric)
    if floor and spreads and not start:
        why = "with restarts none is shared" if restarts else f"{metric} has none"
        raise ValueError(f"floor with sd, se or pm is the scatter of server starts: {why}")
    start = floor if floor and spreads else start
    value, run_sd = math.log(y) - math.log(x), floor.cv if floor else math.nan
    # better="lower" for a metric such as `value`: the words are those of `wall`
    words = "wall" if better == "lower" and METRICS[metric].better == "higher" else metric
    if not METRICS[metric].judged:
        what = "a maximum is one transaction out of all" if "max" in metric else metric
        c = runs.Cell(threads, counts, Estimate(value), only=Reason(Why.NEVER_JUDGED, what=what))
    elif spreads:
        ((name, given),) = spreads.items()
        spread = list[tuple[float, int]]()
        for text, (mean, size, of), k in zip(given, numbers, counts, strict=True):
            s, _, unit = quantity.read(text, name)
            if unit and unit != of and (of or unit == "time"):
                raise ValueError(f"{name} {text}: {' and '.join(names)} have no such unit")
            # without a unit it is in the unit of its number
            spread.append((s * (1 if unit or of != "time" else size) / mean, k))
        meant = {}
        for reading, error in READINGS.items():
            parts = tuple((error(s, k) ** 2, k - 1) for s, k in spread)
            meant[reading] = runs.estimate_of_runs(value, parts, metric, counts, start)
        run_sd = max(READINGS[SPREADS[name]](s, k) * math.sqrt(k) for s, k in spread)
        c = runs.Cell(threads, counts, meant[SPREADS[name]])
        if name == "pm":
            verdicts = {r: m.word(words, math.log1p(margin / 100)) for r, m in meant.items()}
            notes.insert(0, answers.readings(verdicts))
    else:
        noise = (floor.cv, floor.df) if floor else None
        span = x if metric in scatter.TIMED else seconds
        c = runs.cell_of_single_runs(threads, counts, value, metric, span, start, noise)
        if c.estimate.single and not floor:
            run_sd = c.estimate.single.high_cv
    if floor and floor_runs is None:
        c.warnings.append(Reason(Why.FLOOR_RUNS, runs=FLOOR_RUNS))
    out = runs.verdict_row(c, ("", "", words, names[0], names[1]), margin)
    if out.verdict == CANNOT_TELL and METRICS[metric].judged:
        least = max(counts) + 1
        if start and (spreads or out.restarted):  # each run then has a start of its own
            run_sd = math.hypot(run_sd, start.cv)
            least = 2 if out.restarted else least
        needed, minutes = what_settles(value, metric, margin, run_sd, least)
        out = replace(out, runs_needed=needed, minutes_needed=minutes)
        notes.append(answers.what_settles(needed, minutes, metric not in scatter.NO_SERVER))
    reasons = (note for note in notes if isinstance(note, Reason))
    spare = c.estimate.spare(words, math.log1p(margin / 100)) if out.restarted else 0.0
    lines = answers.two_numbers(out, c.only, bool(spreads), spare, notes)
    return replace(out, metric=metric, warnings=(*out.warnings, *reasons)), lines


def what_settles(
    value: float, metric: str, margin_pct: float, run_sd: float, least: int = 2
) -> tuple[float, float]:
    """(runs of each, minutes of an `ab` campaign) that would decide a log ratio `value`; NaN where
    none does. run_sd: of one run, log scale, NaN if unknown; least: fewest runs of each."""
    margin, minutes = math.log1p(margin_pct / 100), math.nan
    needed = plan.runs_needed(value, run_sd, margin, least=least) if run_sd > 0 else None
    pairs = plan.units_needed(value, PAIR_SD, margin)
    if pairs and metric not in scatter.NO_SERVER:
        minutes = max(PROFILES["standard"].budget_min, pairs * PAIR_S / 60)
    return needed or math.nan, minutes
