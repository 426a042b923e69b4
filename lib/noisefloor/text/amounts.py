"""How changes are written: percentages, factors beyond +100 % and -50 %, intervals, their words.

Plain Python, the one place that turns a change into text. A change is that of the metric's own
value: fewer transactions a second are -4 %, more processor time is +4 %. All values are in percent;
one that is missing (None, NaN, pandas' NA) is "not known"."""

import math
from typing import Any

from noisefloor.model import metric as metric_of

Amount = Any  # a number in percent, None, or pandas' NA
MINUS, THIN = "−", "\u202f"
_MANY = 100.0  # a change beyond this is told as a factor
_FEW = -50.0  # and one below this
_NEAR = 10.0  # below it a lower end stays a percentage: "1 to 2 times" would name no difference
NONE = "no interval"


def words(metric: str = "") -> tuple[str, str]:
    """(word for a larger value, word for a smaller one) of a metric: more and less, slower and
    faster."""
    of_metric = metric_of(metric)
    return of_metric.larger, of_metric.smaller


def large(value: Amount, metric: str = "") -> bool:
    """Whether a change is told as a factor. A tenth of the bytes is 90 % less, never 10 times."""
    value = _float(value)
    return value > _MANY or (value < _FEW and words(metric)[1] not in ("less", "smaller"))


def factor(value: float) -> float:
    """How many times larger (or smaller) a value became: +739 % is 8.4, -90 % is 10."""
    return 1 + value / 100 if value >= 0 else 100 / max(100 + value, 1e-9)


def percent(value: Amount, digits: int = 1, sign: bool = True) -> str:
    """A percentage with a real minus, a narrow no-break space and, unless `sign` is False, a `+`;
    "not known" for a missing value."""
    value = _float(value)
    if math.isnan(value):
        return "not known"
    if math.isinf(value):
        return f"{MINUS if value < 0 else ''}∞"
    if abs(value) >= 99.95:
        digits = 0
    text = f"{abs(value):,.{digits}f}"
    zero = not text.strip("0.,")
    mark = "" if zero else MINUS if value < 0 else "+" if sign else ""
    return f"{mark}{text}{THIN}%"


def size(value: Amount, metric: str = "") -> str:
    """The size of a change without its direction: `4.1 %`, `8.4 times`."""
    value = _float(value)
    if large(value, metric):
        return f"{_bare(value)} times"
    return percent(abs(value), sign=False)


def change(value: Amount, metric: str = "") -> str:
    """A change as it is told: `+3.7 %`, `8.4 times slower`, `10 times faster`."""
    value = _float(value)
    if not (text := size(value, metric)).endswith("times"):
        return percent(value)
    return f"{text} {words(metric)[value < 0]}"


def interval(lo: Amount, hi: Amount, metric: str = "") -> str:
    """`-1.2 to +3.4 %`, `7 to 10.9 times slower`; "no interval" where there is none."""
    return " ".join(filter(None, _interval(_float(lo), _float(hi), metric)))


def in_times(*changes: Amount, metric: str = "") -> bool:
    """Whether changes that stand side by side are all told as factors: one of them is `large`, and
    none so small that it would be "1 times"."""
    values = [v for v in map(_float, changes) if not math.isnan(v)]
    small = any(factor(v) < 1 + _NEAR / 200 for v in values)
    return any(large(v, metric) for v in values) and not small


def spread(lo: Amount, hi: Amount, metric: str = "", *, times: bool | None = None) -> str:
    """From one change to another, both in one unit: `-8.9 to +1.4 %`, `1.2 to 2.9 times slower`.
    times: whether as factors, None where these two decide (`in_times`)."""
    lo, hi = _float(lo), _float(hi)
    if math.isnan(lo) or math.isnan(hi):
        return NONE
    if not (in_times(lo, hi, metric=metric) if times is None else times):
        low, high = percent(lo), percent(hi)
        return high if low == high else f"{low.removesuffix(f'{THIN}%')} to {high}"
    larger, smaller = words(metric)
    if lo < 0 < hi:
        return f"{_bare(lo)} times {smaller} to {_bare(hi)} times {larger}"
    near, far = (_bare(lo), _bare(hi)) if lo >= 0 else (_bare(hi), _bare(lo))
    ends = far if near == far else f"{near} to {far}"
    return f"{ends} times {larger if lo >= 0 else smaller}"


def with_interval(value: Amount, lo: Amount = None, hi: Amount = None, metric: str = "") -> str:
    """A change, then its interval: `+1.0 % (-1.2 to +3.4 %)`, `10 times slower (7 to 11 times)`."""
    first, (ends, word) = change(value, metric), _interval(_float(lo), _float(hi), metric)
    if not word or first.endswith(word):
        word = ""
    return f"{first} ({ends}{word and ' '}{word})"


def bounds(lo: Amount, hi: Amount, metric: str = "") -> str:
    """What an interval says although it does not decide: "at most 4.1 % slower, at most 1.3 %
    faster", "not slower, at most 1.3 % faster", "between 7 and 10.9 times slower"; "" without an
    interval. What is worse stands first."""
    lo, hi = _float(lo), _float(hi)
    if math.isnan(lo) or math.isnan(hi):
        return ""
    larger, smaller = words(metric)
    if lo <= 0 <= hi:
        ends = [(size(hi, metric), larger), (size(lo, metric), smaller)]
        ends = ends if metric_of(metric).worse_up else ends[::-1]
        return ", ".join(f"not {w}" if s == size(0) else f"at most {s} {w}" for s, w in ends)
    near, far, word = (lo, hi, larger) if lo > 0 else (hi, lo, smaller)
    first, last = size(near, metric), size(far, metric)
    if last.endswith("times") and factor(near) >= 1 + _NEAR / 100:
        first = _bare(near)
    elif last.endswith("%"):
        first = first.removesuffix(f"{THIN}%")
    return f"between {first} and {last} {word}"


def ascii_only(text: str) -> str:
    """`text` in the characters that every terminal has."""
    return text.replace(MINUS, "-").replace(THIN, " ")


def _float(value: Amount) -> float:
    try:
        return math.nan if value is None else float(value)
    except TypeError:  # pandas' NA
        return math.nan


def _interval(lo: float, hi: float, metric: str) -> tuple[str, str]:
    """(the ends in words, the word for their direction or "")."""
    if math.isnan(lo) or math.isnan(hi):
        return NONE, ""
    larger, smaller = words(metric)
    if lo >= _NEAR and hi > _MANY:
        return f"{_bare(lo)} to {_bare(hi)} times", larger
    if factor(hi) >= 1 + _NEAR / 100 and hi < 0 and size(lo, metric).endswith("times"):
        return f"{_bare(hi)} to {_bare(lo)} times", smaller
    low, high = change(lo, metric), change(hi, metric)
    return f"{low.removesuffix(f'{THIN}%') if high.endswith('%') else low} to {high}", ""


def _bare(value: float) -> str:
    """The factor of a change, as a number alone: `8.4`."""
    times = factor(value)
    if not times < 1e6:
        return "more than a million"
    return f"{times:,.0f}" if times >= 19.95 else f"{times:.1f}".removesuffix(".0")
