"""How changes are written: percentages, factors beyond +100 % and -50 %, intervals, their words.

Plain Python, the only module that turns a change into text. Code that needs a part of it asks for
an `Amount`, and never parses text. A change has the sign of its metric: fewer transactions a second
are -4 %, more processor time is +4 %. All values are in percent; a missing one (None, NaN,
pandas' NA) is "not known"."""

import math
from dataclasses import dataclass, replace
from typing import Any

from noisefloor.model import metric as metric_of

Percent = Any  # a number in percent, None, or pandas' NA
MINUS, THIN = "−", "\u202f"
PERCENT, TIMES = f"{THIN}%", " times"  # the units of an Amount
_MANY = 100.0  # a change above this is written as a factor
_FEW = -50.0  # and so is one below this
_WHOLE = 19.95  # a factor from here on is written without a decimal
_NEAR = 10.0  # a nearer end below it stays a percentage: "1 to 2 times" would show no difference
NONE = "no interval"


@dataclass(frozen=True)
class Amount:
    """A change in parts; its text is `str` of it."""

    number: str  # with the sign, where it has one: `+3.7`, `8.4`
    unit: str = ""  # PERCENT or TIMES; "" of what has none: `not known`
    word: str = ""  # the direction of a factor: `slower`

    def __str__(self) -> str:
        return f"{self.number}{self.unit}{self.word and ' '}{self.word}"

    def _next_to(self, word: str) -> "Amount":
        """The same, without its direction if `word` already names it beside."""
        return replace(self, word="") if self.word == word else self

    def to(self, other: "Amount", joiner: str = "to") -> str:
        """From this one to another; a unit and word that both have stand once: `-1.2 to +3.4 %`."""
        alike = self.word == other.word and other.unit in (self.unit, "")
        return f"{self.number if alike else self} {joiner} {other}"


def words(metric: str = "") -> tuple[str, str]:
    """(word for a larger value, word for a smaller one) of a metric: more and less, slower and
    faster."""
    of_metric = metric_of(metric)
    return of_metric.larger, of_metric.smaller


def large(value: Percent, metric: str = "") -> bool:
    """Whether a change is written as a factor: above +100 %, or below -50 % unless the metric's word
    is less or smaller (a tenth of the bytes is 90 % less, not 10 times smaller)."""
    value = _float(value)
    return value > _MANY or (value < _FEW and words(metric)[1] not in ("less", "smaller"))


def factor(value: float) -> float:
    """How many times as large, or as small, a value became: +739 % is 8.4, -90 % is 10."""
    return 1 + value / 100 if value >= 0 else 100 / max(100 + value, 1e-9)


def percent(value: Percent, digits: int = 1, sign: bool = True) -> str:
    """A percentage with a real minus, a narrow no-break space and, unless `sign` is False, a `+`;
    "not known" for a missing value."""
    return str(_percent(_float(value), digits, sign))


def plus_minus(*pct: float) -> str:
    """A margin, or several: `±2 %`, `±2 and ±5 %`."""
    return f"{' and '.join(f'±{p:g}' for p in pct)}{PERCENT}"


def tick(value: float, *, times: bool = False) -> Amount:
    """A change at an axis, without digits that say nothing: `+2.5 %`; as a factor `4×`, `÷4`."""
    if times:
        rises = value >= -1e-9
        return Amount(f"{1 + value / 100:,.6g}×" if rises else f"÷{factor(value):,.6g}")
    mark = MINUS if value < 0 else "+" if value > 0 else ""
    return Amount(f"{mark}{abs(value):,.9g}", PERCENT)


def size(value: Percent, metric: str = "") -> Amount:
    """The size of a change without its direction: `4.1 %`, `8.4 times`."""
    value = _float(value)
    return _times(value) if large(value, metric) else _percent(abs(value), sign=False)


def change(value: Percent, metric: str = "", known: str = "") -> str:
    """A change as it is written: `+3.7 %`, `8.4 times slower`, `10 times faster`. known: a direction
    that stands beside it already, and is left out."""
    return str(_change(_float(value), metric)._next_to(known))


def as_written(value: Percent, metric: str = "") -> float:
    """How many times as large a value is after a change, with the digits that the change is written
    with; NaN where it is not known."""
    value = _float(value)
    if not large(value, metric):
        return 1 + round(value, 1) / 100
    times = factor(value)
    times = round(times, 1 if times < _WHOLE else 0)
    return times if value > 0 else 1 / times


def interval(lo: Percent, hi: Percent, metric: str = "") -> str:
    """`-1.2 to +3.4 %`, `7 to 10.9 times slower`; "no interval" where there is none."""
    return " ".join(filter(None, _interval(_float(lo), _float(hi), metric)))


def in_times(*changes: Percent, metric: str = "") -> bool:
    """Whether changes side by side are all written as factors: one of them is `large`, and
    none so small that it would be "1 times"."""
    values = [v for v in map(_float, changes) if not math.isnan(v)]
    small = any(factor(v) < 1 + _NEAR / 200 for v in values)
    return any(large(v, metric) for v in values) and not small


def spread(lo: Percent, hi: Percent, metric: str = "", *, times: bool | None = None) -> str:
    """From one change to another, both in one unit: `-8.9 to +1.4 %`, `1.2 to 2.9 times slower`.
    times: whether as factors; None: `in_times` of these two."""
    lo, hi = _float(lo), _float(hi)
    if math.isnan(lo) or math.isnan(hi):
        return NONE
    if not (in_times(lo, hi, metric=metric) if times is None else times):
        return from_to(_percent(lo), _percent(hi))
    larger, smaller = words(metric)
    if lo < 0 < hi:
        return _times(lo, smaller).to(_times(hi, larger))
    near, far, word = (lo, hi, larger) if lo >= 0 else (hi, lo, smaller)
    return from_to(_times(near, word), _times(far, word))


def from_to(near: Amount, far: Amount) -> str:
    """From one to the other, or one alone if both are written alike: `3.1 to 6.5 %`, `6.5 %`."""
    return str(far) if near == far else near.to(far)


def interval_beside(
    value: Percent, lo: Percent, hi: Percent, metric: str = "", known: str = ""
) -> str:
    """The interval beside a change, without the word of the change, and without
    `known`: `-1.2 to +3.4 %`, `7 to 10.9 times`."""
    ends, word = _interval(_float(lo), _float(hi), metric, known)
    named = word in (known, _change(_float(value), metric).word)
    return ends if named or not word else f"{ends} {word}"


def with_interval(
    value: Percent, lo: Percent = None, hi: Percent = None, metric: str = "", known: str = ""
) -> str:
    """A change, then its interval, both without the word `known`: `+1.0 % (-1.2 to +3.4 %)`, `10
    times slower (7 to 11 times)`."""
    ends = interval_beside(value, lo, hi, metric, known)
    return around(change(value, metric, known), ends)


def around(value: object, *ends: object) -> str:
    """A value, and in parentheses its interval, given as one text or as two ends: `2.03 (1.98 to
    2.09)`; without ends the value alone."""
    return f"{value} ({' to '.join(map(str, ends))})" if ends else str(value)


def sizes(lo: float, hi: float, metric: str = "") -> str:
    """The sizes of an interval on one side of zero, the nearer end first: `0.5 to 2.9 %`."""
    near, far = _sizes(lo, hi, metric)
    return near.to(far)


def bounds(lo: Percent, hi: Percent, metric: str = "") -> str:
    """What an interval says without deciding: "at most 4.1 % slower, at most 1.3 %
    faster", "not slower, at most 1.3 % faster", "between 7 and 10.9 times slower"; "" without an
    interval. The worse end comes first."""
    lo, hi = _float(lo), _float(hi)
    if math.isnan(lo) or math.isnan(hi):
        return ""
    larger, smaller = words(metric)
    if lo <= 0 <= hi:
        ends = [(size(hi, metric), larger), (size(lo, metric), smaller)]
        ends = ends if metric_of(metric).worse_up else ends[::-1]
        return ", ".join(f"not {w}" if s == size(0) else f"at most {s} {w}" for s, w in ends)
    near, far = _sizes(lo, hi, metric)
    return f"between {near.to(far, 'and')} {larger if lo > 0 else smaller}"


def ascii_only(text: str) -> str:
    """`text` with an ASCII minus and ordinary blanks, for terminals. Other characters stay."""
    return text.replace(MINUS, "-").replace(THIN, " ")


def short(text: str) -> str:
    """`text` where room is short: `8.4×` for `8.4 times`."""
    return text.replace(TIMES, "×")


def _float(value: Percent) -> float:
    try:
        return math.nan if value is None else float(value)
    except TypeError:  # pandas' NA
        return math.nan


def _percent(value: float, digits: int = 1, sign: bool = True) -> Amount:
    if math.isnan(value):
        return Amount("not known")
    if math.isinf(value):
        return Amount(f"{MINUS if value < 0 else ''}∞")
    if abs(value) >= 99.95:
        digits = 0
    text = f"{abs(value):,.{digits}f}"
    zero = not text.strip("0.,")
    mark = "" if zero else MINUS if value < 0 else "+" if sign else ""
    return Amount(f"{mark}{text}", PERCENT)


def _times(value: float, word: str = "") -> Amount:
    """A change as a factor: `8.4 times`, with `word` behind it."""
    times = factor(value)
    if not times < 1e6:
        return Amount("more than a million", TIMES, word)
    text = f"{times:,.0f}" if times >= _WHOLE else f"{times:.1f}".removesuffix(".0")
    return Amount(text, TIMES, word)


def _change(value: float, metric: str) -> Amount:
    """A change with its direction, as a sign or as a word."""
    larger, smaller = words(metric)
    if not large(value, metric):
        return _percent(value)
    return _times(value, larger if value > 0 else smaller)


def _interval(lo: float, hi: float, metric: str, known: str = "") -> tuple[str, str]:
    """(the ends as text, without the word `known`; the word for the direction of both, or "")."""
    if math.isnan(lo) or math.isnan(hi):
        return NONE, ""
    larger, smaller = words(metric)
    if lo >= _NEAR and hi > _MANY:
        return _times(lo).to(_times(hi)), larger
    if factor(hi) >= 1 + _NEAR / 100 and hi < 0 and large(lo, metric):
        return _times(hi).to(_times(lo)), smaller
    low, high = (_change(end, metric)._next_to(known) for end in (lo, hi))
    return low.to(high), ""


def _sizes(lo: float, hi: float, metric: str) -> tuple[Amount, Amount]:
    """The sizes of an interval on one side of zero, the nearer end first, both as factors unless the
    nearer would be "1 times"."""
    near, far = (lo, hi) if lo > 0 else (hi, lo)
    both = large(far, metric) and factor(near) >= 1 + _NEAR / 100
    return _times(near) if both else size(near, metric), size(far, metric)
