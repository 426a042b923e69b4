"""Two published numbers: what can be said about them, and what would settle it.

One number an arm gets the row that `runs` gives one run an arm (a test compares them); means may
bring their scatter. Plain Python, no numpy: the command answers in a third of a second."""

import math
import re
from collections.abc import Callable, Sequence

from noisefloor.model import METRICS
from noisefloor.stats import estimate, plan, runs, scatter, student
from noisefloor.stats.estimate import CANNOT_TELL, SAME, Estimate
from noisefloor.stats.graph import ALPHA
from noisefloor.stats.row import Row
from noisefloor.stats.runs import Cell
from noisefloor.stats.scatter import Start
from noisefloor.text import amounts

Given = float | str  # a number, or text with a unit
CVS = ((45, "CV known from 45 A/A pairs"), (10, "10 A/A runs"), (5, "5 A/A runs"))
FLOOR_RUNS = 10  # A/A runs assumed behind a floor that comes without their number
LITTLE = 0.02  # threads / latency may miss TPS by this much: rounding, ramp, think time
# sd of a pair of 8 s slices on two identical MySQL 9.7 servers restarted ten times, as recorded.
RECORDED_PAIR_SD = {"tps": 0.045, "cpu_per_transaction": 0.034}
SLICE_S, GAP_S = 10, 1
DURATIONS = ("wall", "user_sys")
MULTIPLES = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
TIMES = {
    "s": 1, "sec": 1, "seconds": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9,
    "min": 60,
}  # fmt: skip
RATES = {"tps": "tps", "cps": "connections_per_second", "qps": "value", "eps": "value"}  # metrics
_GIVEN = re.compile(
    r"\+?([0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?|[0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?"
    r"\s*([kKMG]?)\s*([^0-9]*)"
)
# what may follow a ±, as the standard error of a mean of k runs
READINGS: dict[str, Callable[[float, int], float]] = {
    "a standard deviation": lambda spread, k: spread / math.sqrt(k),
    "a standard error": lambda spread, k: spread,
    "a 95 % interval": lambda spread, k: spread / student.quantile(1 - ALPHA / 2, k - 1),
}
SPREADS = dict(sd="a standard deviation", se="a standard error", pm="a standard error")


def judge(
    a: Given,
    b: Given,
    *,
    metric: str | None = None,
    better: str | None = None,
    threads: int | None = None,
    seconds: float | None = None,
    latency: Sequence[Given] | None = None,
    margin_pct: Given = 2.0,
    floor_cv_pct: Given | None = None,
    floor_runs: int | None = None,
    sd: Sequence[Given] | None = None,
    se: Sequence[Given] | None = None,
    pm: Sequence[Given] | None = None,
    n: str | None = None,
    restarts: bool = False,
) -> tuple[Row, list[str]]:
    """(verdict row, lines for a person) for b against the baseline a.

    Numbers may be text with a unit, which says the metric when it is not given. latency: (a's, b's)
    mean latency, in ms. floor_cv_pct: run-to-run CV from floor_runs A/A runs, instead of published
    repeats; with sd, se or pm (standard deviations of n runs, standard errors, or what follows a ±; a
    pair each) from one server start to the next. n: "5", or "5,3". ValueError: what was given and
    what is allowed."""
    names = [x.strip() if isinstance(x, str) else f"{x:g}" for x in (a, b)]
    (x, size, kind), (y, _, other) = _quantity(a, "value"), _quantity(b, "value")
    if kind != other and ("time" in (kind, other) or (kind and other)):
        raise ValueError(f"{names[0]} and {names[1]}: both numbers need the same unit")
    metric = _metric(metric, kind or other)
    margin = _quantity(margin_pct, "margin (percent)")[0]
    floor = None
    if floor_cv_pct is not None:
        if floor_runs is not None and floor_runs < 2:
            raise ValueError(f"floor from {floor_runs} runs: at least 2 are needed")
        cv = _quantity(floor_cv_pct, "floor (percent)")[0] / 100
        floor = Start(cv, (floor_runs or FLOOR_RUNS) - 1, True)
    spreads = {k: v for k, v in (("sd", sd), ("se", se), ("pm", pm)) if v is not None}
    if len(spreads) > 1:
        raise ValueError(f"{' and '.join(spreads)} were given: one of sd, se and pm is allowed")
    counts = _counts(n, next(iter(spreads), ""))
    little = _little(x, y, metric, threads, latency)
    lower = (better or METRICS[metric].better) == "lower"
    value = (1 if lower else -1) * (math.log(y) - math.log(x))
    start = None if restarts else scatter.start(metric)
    start = floor if start and floor and spreads else start
    added = (start.part,) if start else ()
    judged, run_sd = METRICS[metric].judged, None
    c = Cell(threads, counts, Estimate(value, runs.UNKNOWN))
    if not judged:
        what = "a maximum is one transaction out of all" if "max" in metric else metric
        c.only = f"{what}: shown, never judged"
    elif spreads:
        ((name, given),) = spreads.items()
        found = [_quantity(s, name) for s in given]
        of = [s * (1 if k or kind != "time" else size) for s, _, k in found]  # in the numbers' unit
        spread = [(s / mean, k) for s, mean, k in zip(of, (x, y), counts, strict=True)]
        each = {
            reading: tuple((error(s, k) ** 2, k - 1) for s, k in spread)
            for reading, error in READINGS.items()
        }
        c.estimate = Estimate(value, each[SPREADS[name]] + runs.histogram(metric, counts), added)
        run_sd = max(READINGS[SPREADS[name]](s, k) * math.sqrt(k) for s, k in spread)
        if name == "pm":
            words = {
                reading: Estimate(value, parts, added).word(math.log1p(margin / 100))
                for reading, parts in each.items()
            }
            c.warnings = [_readings(words)]
    elif floor:
        part = floor.cv**2 * sum(1 / k for k in counts), floor.df
        c.estimate = Estimate(value, (part,), added if max(counts) > 1 else ())
        run_sd = floor.cv
    else:
        c = alone(value, counts, metric, threads, seconds, start)
    if start and c.estimate.start:
        c.warnings.append(runs.start_note(start))
    if floor and floor_runs is None:
        c.warnings.append(f"the floor is taken as measured by {FLOOR_RUNS} A/A runs")
    runs.decided({(names[1], threads or ""): c}, margin, metric)
    out = runs.verdict_row(c, ("", "", metric, names[0], names[1]), margin)
    warnings = list(out["warnings"])
    out["warnings"] += [line for line in little if "inconsistent" in line]
    lines = [_headline(out, seconds)]
    if unless := bool(warnings) and warnings[0].startswith("unless"):
        lines.append(f"U{warnings.pop(0)[1:]}.")
    lines += [f"Known: {out['known']}."] * bool(out["known"])
    if not judged:
        out["deciding_cv_pct"] = math.nan
    elif value and not spreads and not unless and c.word != SAME:
        *first, last = (
            f"{100 * estimate.deciding_cv(value, counts, df=k - 1):.2f} % ({how})" for k, how in CVS
        )
        lines.append(f"Significant only if run-to-run CV is below {', '.join(first)} or {last}.")
    lines += [*little, *(f"Note: {w}." for w in warnings)]
    if judged and c.word == CANNOT_TELL:
        slice_s = round((x + y) / 2, 1) if metric in DURATIONS else SLICE_S
        pairs, minutes, settle = plan_of(value, metric, margin, run_sd, max(counts) + 1, slice_s)
        out |= {"runs_needed": pairs or math.nan, "minutes_needed": minutes or math.nan}
        lines.append(settle)
    return out, [amounts.plain(line) for line in lines]


def alone(
    value: float,
    counts: tuple[int, int],
    metric: str,
    threads: int | None,
    seconds: float | None,
    start: Start | None,
) -> Cell:
    """The cell of two numbers that come without their scatter: held against published repeats, as
    `runs` does with single runs."""
    known = scatter.population(metric, threads, seconds)
    added = (start.part,) if start else ()
    return runs.single_cell(threads, counts, value, metric, known, added)


def _readings(words: dict[str, str]) -> str:
    """What an unexplained ± would mean: {reading: word}."""
    if len(set(words.values())) == 1:
        return f"the verdict is the same whether ± is {' or '.join(words)}"
    listed = ", ".join(f"`{word}` if it is {reading}" for reading, word in words.items())
    return f"± is taken for a standard error, its widest reading: {listed}"


# --- words ------------------------------------------------------------------------------------------


def _headline(r: Row, seconds: float | None) -> str:
    """The verdict in one line."""
    gap = amounts.overhead(r["overhead_pct"], r["metric"])
    gap += " overhead" * (not amounts.large(r["overhead_pct"]))
    if not math.isnan(r["lo_pct"]):
        gap += f" ({amounts.interval(r['lo_pct'], r['hi_pct'], r['metric'])})"
    n, m = r["n_baseline"], r["n_arm"]
    runs = ("one run" if n == 1 else f"{n} runs") + (f" of {seconds:g} s" if seconds else "")
    each = f"{runs} each" if n == m else f"{n} and {m} runs"
    return f"{r['verdict']}: {r['baseline']} against {r['arm']}: {gap}, {each}."


def _little(
    a: float, b: float, metric: str, threads: int | None, latency: Sequence[Given] | None
) -> list[str]:
    """What threads / average latency = TPS says about the two measurements."""
    if not latency:
        return []
    if metric != "tps":
        raise ValueError(
            f"latency goes with --metric tps (threads / latency = TPS), not with {metric!r}"
        )
    if not threads:
        raise ValueError("latency was given without threads: threads / latency = TPS needs both")
    found = [_quantity(v, "latency (ms)") for v in latency]
    ms = [1000 * v if kind == "time" else v for v, _, kind in found]
    implied = [1000 * threads / v for v in ms]
    off = [i / x - 1 for i, x in zip(implied, (a, b), strict=True)]
    shown = f"{threads} threads / {ms[0]:g} and {ms[1]:g} ms = {implied[0]:.1f} and {implied[1]:.1f} TPS"
    if max(map(abs, off)) <= LITTLE:
        return [f"{shown}: TPS and average latency are one measurement, not two."]
    worst = 100 * max(off, key=abs)
    return [
        f"inconsistent: {shown}, {worst:+.0f} % off the TPS given (other threads, a rate limit, or another run)"
    ]


def plan_of(
    value: float,
    metric: str,
    margin_pct: float,
    run_sd: float | None,
    least: int,
    slice_s: float = SLICE_S,
) -> tuple[int | None, float | None, str]:
    """(pairs, minutes, sentence): the shortest campaign that would settle it."""
    pair_sd, source = math.sqrt(2) * (run_sd or 0), "the noise given"
    if not run_sd:
        pair_sd = RECORDED_PAIR_SD.get(metric, RECORDED_PAIR_SD["tps"])
        source = "8 s slices of two identical MySQL 9.7 servers, as recorded"
    pairs = plan.units_needed(value, pair_sd, math.log1p(margin_pct / 100), least=least)
    if pairs is None:
        return None, None, "More runs of this kind will not settle it."
    minutes = pairs * 2 * (slice_s + GAP_S) / 60
    return pairs, minutes, (
        f"To settle it: about {pairs} coin-flipped pairs of {slice_s:g} s slices, {minutes:.0f} "
        f"minutes, if a pair varies by {100 * pair_sd:.1f} % ({source})."
    )  # fmt: skip


# --- what was given ---------------------------------------------------------------------------------


def _quantity(given: Given, what: str) -> tuple[float, float, str]:
    """(value in base units, size of its unit, kind) of a number, or of text as people write it.

    kind: "time", a name of RATES, or "". ValueError unless it is understood, finite and above 0."""
    text = str(given).strip()
    if text.endswith("%"):
        raise ValueError(
            f"{what} {text}: a percentage is no measurement; give the numbers themselves"
        )
    found = _GIVEN.fullmatch(text)
    unit = found[4].strip() if found else "?"
    kind = "time" if unit in TIMES else unit.lower().removesuffix("/s")
    if not found or kind not in ("", "time", *RATES) or (kind == "time" and found[3]):
        try:
            positive = 0 < float(text) < math.inf
        except ValueError:
            positive = True
        if positive:
            raise ValueError(
                f"{what} {text!r} is not understood: numbers such as 221.19, 1,234.5, 1.2k and 3M are "
                "allowed, with s, ms, us, ns, min, tps, qps, eps, cps, /s or no unit"
            )
        raise ValueError(f"{what} {text}: a number above 0 is needed; nothing was judged")
    size = TIMES.get(unit, MULTIPLES[found[3]])
    value = float(found[1].replace(",", "") + (found[2] or "")) * size
    if not 0 < value < math.inf:
        raise ValueError(f"{what} {text}: a number above 0 is needed; nothing was judged")
    return value, size, kind


def _metric(metric: str | None, kind: str) -> str:
    """The metric asked for, or the one that the unit says."""
    if metric is None:
        return "mean_latency" if kind == "time" else RATES.get(kind, "tps")
    if metric not in METRICS:
        raise ValueError(
            f"--metric {metric!r}: known are {', '.join(METRICS)}; for anything else take `value`, "
            "with --lower-is-better where less is better"
        )
    unit = METRICS[metric].unit
    if unit and kind and unit != ("s" if kind == "time" else "1/s"):
        named = "times" if kind == "time" else "rates"
        raise ValueError(f"{named} were given, but --metric {metric} is in {unit}")
    return metric


def _counts(n: str | None, spread: str) -> tuple[int, int]:
    """Runs behind each of the two numbers."""
    if n is None and spread:
        raise ValueError(
            f"{spread} was given without n: how many repetitions are behind it is needed"
        )
    try:
        counts = [int(k) for k in (n or "1").split(",")]
    except ValueError:
        counts = []
    if len(counts) not in (1, 2):
        raise ValueError(f"n {n}: one whole number or two (5 or 5,3) are allowed")
    if min(counts) < (least := 2 if spread else 1):
        raise ValueError(f"n = {min(counts)}: at least {least} is needed")
    return counts[0], counts[-1]
