"""What it takes to settle a question: Student's t, the CV that would decide, pairs and seconds.

Plain Python: `noisefloor judge` answers in a third of a second, and importing scipy takes longer.
"""

import functools
import math
from dataclasses import dataclass

DOUBT = 1.5  # times by which a floor may have been underestimated without a false `same`
FEWEST = 6  # the signs of fewer units cannot reach 5 % on both sides


def t_tail(t, df):
    """P(T > t) for Student's t with df degrees of freedom (df may be inf)."""
    if df == math.inf:
        return math.erfc(t / math.sqrt(2)) / 2
    x = df / (df + t * t)
    tail = _beta(df / 2, 0.5, x) / 2
    return tail if t > 0 else 1 - tail


@functools.cache
def t_quantile(q, df):
    """The q-quantile of Student's t, by bisection."""
    if q < 0.5:
        return -t_quantile(1 - q, df)
    low, high = 0.0, 1.0
    while t_tail(high, df) > 1 - q:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, df) > 1 - q else (low, middle)
    return (low + high) / 2


def _beta(a, b, x):
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


@dataclass(frozen=True)
class Estimate:
    """A log overhead and the variances that add up in it, each with its degrees of freedom.

    parts: what these runs themselves scatter; floor: what was measured on other runs."""

    value: float
    parts: tuple[tuple[float, float], ...]
    floor: tuple[tuple[float, float], ...] = ()

    @property
    def variance(self):
        return sum(v for v, _ in (*self.parts, *self.floor))

    @property
    def df(self):
        """Degrees of freedom of the sum (Welch 1947, Satterthwaite 1946)."""
        doubt = sum(v * v / k for v, k in (*self.parts, *self.floor) if v > 0)
        df = self.variance**2 / doubt if doubt else math.inf
        return df if df < 1e7 else math.inf

    @property
    def known(self):
        """Whether there is a scatter to judge by at all."""
        return math.isfinite(self.variance) and self.variance > 0

    @property
    def p(self):
        """Two-sided p of no difference; 1 when nothing is known about the scatter."""
        if not self.known:
            return 1.0
        return 2 * t_tail(abs(self.value) / math.sqrt(self.variance), self.df)

    def half(self, alpha=0.05):
        """Half width of the interval, which is also the noise floor; infinite when not known."""
        if not self.known:
            return math.inf
        return t_quantile(1 - alpha / 2, self.df) * math.sqrt(self.variance)

    def verdict(self, margin, p_adjusted=None, alpha=0.05):
        """One of the four words: `same` first, when the whole interval lies inside the margin and,
        at level alpha, would if the floor had been measured DOUBT times too small."""
        half = self.half(alpha)
        if abs(self.value) + half < margin:
            doubted = Estimate(
                self.value, (*self.parts, *((DOUBT**2 * v, k) for v, k in self.floor))
            )
            inside = abs(self.value) + doubted.half(2 * alpha) < margin
            return "same" if inside else "cannot tell"
        if half < abs(self.value) and (self.p if p_adjusted is None else p_adjusted) <= alpha:
            return "slower" if self.value > 0 else "faster"
        return "cannot tell"


def deciding_cv(overhead, df, alpha=0.05):
    """Run-to-run CV (a fraction) below which two single runs differing by `overhead` (log) differ
    really: |L| / (t sqrt 2), when the CV is known from df + 1 A/A runs."""
    return abs(overhead) / (t_quantile(1 - alpha / 2, df) * math.sqrt(2))


def units_needed(estimate, sd, margin, alpha=0.05):
    """Units (pairs, or blocks side by side) in all after which the sequential test usually has its
    verdict, if `estimate` and the sd of one unit are the truth (all on the log scale).

    5 + 9 (sd / distance)^2, fitted to the calibration between half and three sd; the distance is
    to zero (slower, faster) or to the margin (same), whichever is farther."""
    if not sd > 0:
        return FEWEST
    distance = max(abs(estimate), margin - abs(estimate)) / sd
    if distance < 1e-3:
        return math.inf
    return max(FEWEST, math.ceil((5 + 9 / distance**2) * math.log(1 / alpha) / math.log(20)))


def slice_seconds(cost_s, within_sd, tau_s, between_sd):
    """Cheapest length of a slice in seconds: sqrt(C s_w^2 tau / s_r^2).

    cost_s: seconds lost per run (switch, settle, ramp); within_sd: sd of one second's log rate;
    tau_s: its integrated autocorrelation time; between_sd: sd between runs beyond that. inf when
    runs differ by no more than their seconds explain: then one length is as good as another."""
    if not between_sd > 0:
        return math.inf
    return math.sqrt(cost_s * within_sd**2 * tau_s) / between_sd
