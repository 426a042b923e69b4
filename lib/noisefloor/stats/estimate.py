"""One difference and the variances that add up in it: runs of files, single runs, two numbers.

Plain Python, without numpy: a folder of logs and two numbers have to be answered at once. Log scale,
positive is worse."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from noisefloor.stats import student
from noisefloor.stats.graph import ALPHA

CANNOT_TELL, SLOWER, FASTER, SAME = "cannot tell", "slower", "faster", "same"
Parts = tuple[tuple[float, float], ...]  # variances, each with its degrees of freedom


@dataclass(frozen=True)
class Estimate:
    """A log overhead and the variances behind it, each with its degrees of freedom.

    parts: what these runs themselves scatter; start: what was measured on other runs and may or may
    not be in these (the scatter from one start of a server to the next). The wider of the intervals
    with and without `start` counts: a few noisy runs must not look better for knowing more."""

    value: float
    parts: Parts
    start: Parts = ()

    @property
    def _readings(self) -> Iterator[tuple[float, float]]:
        """(standard error, degrees of freedom) without and with `start`."""
        yield _total(self.parts)
        if self.start:
            yield _total((*self.parts, *self.start))

    @property
    def known(self) -> bool:
        """Whether there is a scatter to judge by at all."""
        return all(math.isfinite(error) and error > 0 for error, _ in self._readings)

    @property
    def error(self) -> float:
        """Standard error with everything in it."""
        return _total((*self.parts, *self.start))[0]

    def above(self, theta: float = 0.0) -> float:
        """p of "the truth is at most theta", one-sided; 1 when the scatter is not known."""
        if not self.known:
            return 1.0
        return max(student.tail((self.value - theta) / error, df) for error, df in self._readings)

    def below(self, theta: float = 0.0) -> float:
        """p of "the truth is at least theta"."""
        return Estimate(-self.value, self.parts, self.start).above(-theta)

    @property
    def p(self) -> float:
        """Two-sided p of no difference."""
        return min(1.0, 2 * min(self.above(), self.below()))

    def half(self, level: float = ALPHA) -> float:
        """Half the width of the interval at 1 - level; infinite when the scatter is not known."""
        if not self.known:
            return math.inf
        return max(student.quantile(1 - level / 2, df) * error for error, df in self._readings)

    def inside(self, margin: float) -> bool:
        """Whether both one-sided tests at the margin pass at 5 % each (Schuirmann 1987)."""
        return self.below(margin) <= ALPHA and self.above(-margin) <= ALPHA

    def word(self, margin: float, level: float = ALPHA, rejected: bool | None = None) -> str:
        """One of the four words. rejected: whether the family rejects zero, where there is one."""
        if self.inside(margin):
            return SAME
        if self.p <= level if rejected is None else rejected:
            return SLOWER if self.value > 0 else FASTER
        return CANNOT_TELL


def word_of(lo: float, hi: float, margin: float) -> str:
    """The word for an interval alone: `same` inside the margin, else by the side of zero."""
    if lo > -margin and hi < margin:
        return SAME
    return SLOWER if lo > 0 else FASTER if hi < 0 else CANNOT_TELL


def _total(parts: Parts) -> tuple[float, float]:
    """(standard error, degrees of freedom) of a sum of variances (Welch 1947, Satterthwaite 1946)."""
    variance = sum(v for v, _ in parts)
    doubt = sum(v * v / k for v, k in parts if v > 0)
    df = variance**2 / doubt if 0 < doubt < math.inf else math.inf
    return math.sqrt(variance), (df if df < 1e7 else math.inf)


def welch(x: Sequence[float], y: Sequence[float]) -> Parts:
    """Variances of the two means with their degrees of freedom, from the logs of the runs (two or
    more an arm)."""
    return tuple((_variance(v) / len(v), len(v) - 1) for v in (x, y))


def paired(d: Sequence[float]) -> Parts:
    """The variance of the mean of pairs, from their log ratios."""
    return ((_variance(d) / len(d), len(d) - 1),)


def _variance(values: Sequence[float]) -> float:
    """Unbiased variance."""
    mean = math.fsum(values) / len(values)
    return math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)


def joint(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of independent estimates; what the starts may add is the same in all of them."""
    k = len(estimates)
    value = sum(e.value for e in estimates) / k
    parts = tuple((v / k**2, df) for e in estimates for v, df in e.parts)
    return Estimate(value, parts, estimates[0].start)


def deciding_cv(
    value: float, n: tuple[int, ...] = (1, 1), df: float = math.inf, level: float = ALPHA
) -> float:
    """Run-to-run CV (a fraction) below which a log overhead of `value` between n runs an arm is real;
    df: how well that CV is known."""
    reach = student.quantile(1 - level / 2, df) * math.sqrt(1 / n[0] + 1 / n[1])
    return abs(value) / reach
