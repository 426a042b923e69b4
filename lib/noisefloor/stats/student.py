"""Student's t and the normal distribution for single numbers.

Plain Python: `noisefloor judge` answers in a third of a second, and importing scipy takes longer.
"""

import functools
import math
from statistics import NormalDist

NORMAL = NormalDist()


def tail(t: float, df: float) -> float:
    """P(T > t) for Student's t with df degrees of freedom (df may be inf)."""
    if df == math.inf:
        return math.erfc(t / math.sqrt(2)) / 2
    x = df / (df + t * t)
    upper = _beta(df / 2, 0.5, x) / 2
    return upper if t > 0 else 1 - upper


@functools.cache
def quantile(q: float, df: float) -> float:
    """The q-quantile of Student's t, by Newton's method from the normal quantile. For q >= 0.5 that
    is not above it, so the steps only go up. df may be inf."""
    if q < 0.5:
        return -quantile(1 - q, df)
    t = NORMAL.inv_cdf(q) if q < 1 else math.inf
    if math.inf in (t, df):
        return t
    front = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    while True:
        density = math.exp(front - (df + 1) / 2 * math.log1p(t * t / df))
        step = (tail(t, df) - (1 - q)) / density
        t += step
        if step <= 1e-13 * t:
            return t


def _beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, 500):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + step * d or tiny)
            c = 1 + step / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * value / a
