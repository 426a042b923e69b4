"""The answer about two numbers or two commands, in at most five lines: the verdict, why, what is
known, what to do. Plain Python."""

import math
from collections.abc import Mapping, Sequence

from noisefloor.model import CANNOT_TELL, SAME, Comparison
from noisefloor.model import metric as metric_of
from noisefloor.text import amounts, upper
from noisefloor.text.quantity import Given, read
from noisefloor.text.reasons import Reason, Why, has

MOST_LINES = 5
LITTLE = 0.02  # threads / latency may miss TPS by this much: rounding, ramp, think time
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
RAREST = 1e-4  # a smaller share is only called smaller than this


def often(chance: float) -> str:
    """A share of cases in words: "about one time in five"."""
    if chance < RAREST:
        return f"less than one time in {1 / RAREST:,.0f}"
    n = round(1 / chance)
    if n < 2:
        return "more often than not"
    rounded = float(f"{n:.2g}")
    return f"about one time in {NUMBERS[n - 2] if n <= 10 else f'{rounded:,.0f}'}"


def by_chance(row: Comparison) -> str:
    """How often two runs of one unchanged server differ as much as these did, in a sentence; "" if
    that is not known, or if these did not differ."""
    if not row.chance < 1:
        return ""
    rate = often(row.chance)
    return f"Two runs of the same, unchanged server differ by at least that much {rate}."


def restarted(row: Comparison) -> str:
    """The answer for restarted servers, of a row whose runs may share a server start: "faster, +3.1 %
    (+2.3 to +3.8 %)"; "" if the row has no other answer."""
    if not row.restarted:
        return ""
    ends = row.restarted_lo_pct, row.restarted_hi_pct
    return f"{row.restarted}, {amounts.with_interval(row.change_pct, *ends, row.metric)}"


def two_numbers(
    row: Comparison, only: str, scattered: bool, spare: float, notes: Sequence[str]
) -> list[str]:
    """The answer about two numbers, in lines.

    only: why they get no verdict, or ""; scattered: whether their scatter was given; spare: largest
    start-to-start CV (a fraction) with which the answer for restarted servers still holds; notes:
    further lines, the advice last."""
    a, b = row.baseline, row.arm
    b += " TPS" * (row.metric == "tps" and b[-1].isdigit())
    n = row.n_arm, row.n_baseline
    runs = f"{n[0]} and {n[1]} runs" if n[0] != n[1] else f"{n[0]} runs each"
    runs = "each run once" if n == (1, 1) else runs
    scatter = "the runs scatter too much" if scattered else "their scatter is not known"
    reason = only or ("each was run once" if n == (1, 1) else f"{scatter} ({runs})")
    if has([only], Why.UNPREDICTED):
        reason = "how much such runs scatter is not known"
    word, other = row.verdict.upper(), restarted(row)
    if row.verdict != CANNOT_TELL:
        change = amounts.with_interval(row.change_pct, row.lo_pct, row.hi_pct, row.metric)
        lines = [f"{word}: {b} against {a}: {change}{_within(row)}, {runs}."]
    elif other:
        lines = [f"{word} if an arm's runs share one server start: {_looks(row, a, b)}."]
    else:
        lines = [f"{word}: {_looks(row, a, b)}, but {reason}."]
    if other:
        other += ", if the server was restarted between them (--restarts)"
        other += f", or if its starts scatter by less than {100 * spare:.2g} %" * bool(spare)
        first, _, rest = other.partition(",")
        lines.append(f"{first.upper()},{rest}.")
    lines += [text for text in (by_chance(row), *notes) if text]
    if row.known and len(lines) < MOST_LINES:
        lines.insert(len(lines) - bool(notes), f"The real change: {row.known}.")
    return [amounts.ascii_only(line) for line in lines]


def timed(
    rows: Mapping[str, Comparison],
    baselines: Mapping[str, float],
    failed: Mapping[str, int],
    most: int,
) -> list[str]:
    """The answer about two commands that were timed in pairs, in lines.

    rows: metric -> its verdict row; baselines: metric -> median of A in the metric's shown unit;
    failed: arm -> its runs that ended with an error; most: pairs that a campaign can have."""
    first = rows["wall"]
    pairs = f"{first.n_arm:,} pair{'s' * (first.n_arm != 1)}"
    both = _in_units(first, baselines["wall"])
    lines = [f"{first.verdict.upper()}: {both}, {_change(first)}, {pairs}."]
    parts = ["; ".join(_says(rows[m]) for m in ("user_cpu", "sys_cpu") if m in rows)]
    if memory := rows.get("peak_memory"):
        parts.append(f"{_says(memory)}: {_in_units(memory, baselines['peak_memory'])}")
    notes: list[str] = [*first.warnings]
    notes += [f"{n:,} runs of {arm} ended with an error" for arm, n in failed.items() if n]
    parts.append("; ".join(notes))
    lines += [f"{upper(part)}." for part in parts if part]
    if first.minutes_needed > 0 and first.runs_needed <= most:
        longer = math.ceil(60 * first.minutes_needed)
        lines.append(f"To settle it: --seconds {longer}, if they scatter alike.")
    return [amounts.ascii_only(line) for line in lines]


def _within(row: Comparison) -> str:
    """The margin, as the end of a sentence, if the verdict is `same`; else ""."""
    if row.verdict != SAME:
        return ""
    return f", all of it within {amounts.plus_minus(row.margin_pct)}"


def _change(row: Comparison) -> str:
    """A change with its interval, beside the word of its verdict."""
    change = row.change_pct, row.lo_pct, row.hi_pct, row.metric, row.verdict
    return f"{amounts.with_interval(*change)}{_within(row)}"


def _says(row: Comparison) -> str:
    """`user more, +5.1 % (+3.0 to +7.2 %)`."""
    return f"{metric_of(row.metric).in_line} {row.verdict}, {_change(row)}"


def _in_units(row: Comparison, baseline: float) -> str:
    """`B 105 ms, A 99 ms`: the baseline with the change applied, and the baseline, which is given in
    the metric's shown unit."""
    unit = metric_of(row.metric).shown_unit
    if unit == "s" and baseline < 1:
        baseline, unit = 1000 * baseline, "ms"
    after = baseline * amounts.as_written(row.change_pct, row.metric)
    b, a = (f"{v:.3g}" if v < 999.5 else f"{v:,.0f}" for v in (after, baseline))
    return f"B {b} {unit}, A {a} {unit}"


def little(
    a: float, b: float, metric: str, threads: int | None, latency: Sequence[Given] | None
) -> list[str]:
    """Whether threads / mean latency = TPS (Little's law) holds for both numbers: one sentence; []
    without latencies. Raises ValueError for another metric, without threads, or for a wrong number."""
    if not latency:
        return []
    if metric != "tps":
        raise ValueError(
            f"latency goes with --metric tps (threads / latency = TPS), not with {metric!r}"
        )
    if not threads:
        raise ValueError("latency was given without threads: threads / latency = TPS needs both")
    times = [read(v, "latency (ms)") for v in latency]
    ms = [1000 * v if kind == "time" else v for v, _, kind in times]
    implied = [1000 * threads / v for v in ms]
    off = [i / x - 1 for i, x in zip(implied, (a, b), strict=True)]
    shown = f"{threads} threads / {ms[0]:g} and {ms[1]:g} ms = {implied[0]:.1f} and {implied[1]:.1f} TPS"
    if max(map(abs, off)) <= LITTLE:
        return [f"{shown}: TPS and average latency are one measurement, not two."]
    worst = 100 * max(off, key=abs)
    apart = amounts.ascii_only(amounts.percent(worst, 0))
    return [Reason(Why.INCONSISTENT, numbers=shown, off=apart)]


def readings(words: Mapping[str, str]) -> str:
    """What each reading of an unexplained ± means for the verdict. words: reading -> verdict."""
    if len(set(words.values())) == 1:
        return f"The verdict is the same whether ± is {' or '.join(words)}."
    listed = ", ".join(f"`{word}` if it is {reading}" for reading, word in words.items())
    return f"± is taken for a standard error, its widest reading: {listed}."


def what_settles(runs: float, minutes: float, server: bool) -> str:
    """What to measure for a verdict; "" if nothing helps. runs: of each; minutes: of an `ab` campaign
    (each NaN if it gives no verdict); server: whether a server is measured, so that restarts matter."""
    ways = []
    if not math.isnan(minutes):
        budget = "" if minutes <= 20 else f" --budget {minutes:.0f}"
        ab = f"noisefloor ab VARIABLE=OFF,ON --profile standard{budget}"
        ways.append(f"{ab} ({minutes:.0f} minutes)")
    if not math.isnan(runs):
        how = (", the server restarted before every run", " --restarts") if server else ("", "")
        ways.append(f"{runs:,.0f} runs of each{how[0]}: noisefloor compare{how[1]}")
    return f"To settle it: {', or '.join(ways)}" if ways else ""


def _looks(row: Comparison, a: str, b: str) -> str:
    """What two numbers look like: "229.41 TPS looks 3.7 % more than 221.19"."""
    change = row.change_pct
    if not change:
        return f"{b} looks the same as {a}"
    size = amounts.size(change, row.metric)
    if size.unit == amounts.TIMES:
        return f"{b} looks {size} {'as much as' if change > 0 else 'smaller than'} {a}"
    return f"{b} looks {size} {'more' if change > 0 else 'less'} than {a}"
