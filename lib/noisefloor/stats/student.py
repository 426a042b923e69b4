"""Student's t with the standard library alone: importing scipy takes longer than an answer may."""

import math
from statistics import NormalDist

_NORMAL = 1e6  # degrees of freedom from which t is the normal distribution to six digits


def two_sided(t, df):
    """P(|T| > |t|) for Student's t with `df` > 0 degrees of freedom (not only whole ones)."""
    if math.isinf(t):
        return 0.0
    if df >= _NORMAL:
        return math.erfc(abs(t) / math.sqrt(2))
    return _beta(df / 2, 0.5, df / (df + t * t))


def quantile(q, df):
    """The value that Student's t with `df` degrees of freedom stays below with probability q."""
    if not 0 < q < 1 or not df > 0:
        raise ValueError(f"quantile({q}, {df}): 0 < q < 1 and df > 0 are needed; nothing was done")
    if df >= _NORMAL:
        return NormalDist().inv_cdf(q)
    tail = 2 * min(q, 1 - q)
    low, high = 0.0, 2.0
    while two_sided(high, df) > tail:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, df) > tail else (low, middle)
    return math.copysign(high, q - 0.5) if tail < 1 else 0.0


def _beta(a, b, x):
    """Regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz; DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    value = d
    for m in range(1, 10_000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + step * d or tiny)
            c = 1 + step / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * value / a
