"""One change and its variances: runs of files, single runs, two numbers.

Plain Python, without numpy, so that a folder of logs and two numbers are answered fast. Values are
log ratios, arm over baseline."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from noisefloor.stats import student, verdict
from noisefloor.stats.scatter import Prediction
from noisefloor.stats.verdict import ALPHA

Parts = tuple[tuple[float, float], ...]  # variances, each with its degrees of freedom


@dataclass(frozen=True)
class Estimate:
    """A log ratio, arm over baseline, and what is known of its scatter. If nothing is known, its
    interval is infinite.

    parts: the scatter of these runs; start: what the starts of a server may add to it. The wider of
    the intervals with and without `start` counts: its degrees of freedom never narrow an interval.
    single: the predicted difference of single runs. least: smallest half width (histogram)."""

    value: float
    parts: Parts = ()
    start: Parts = ()
    single: Prediction | None = None
    least: float = 0.0

    def half(self, together: int = 1, restarted: bool = False) -> float:
        """Half the width of the 95 % interval; infinite when nothing is known. together: number of
        intervals that all contain the truth (Bonferroni); restarted: without `start`. Half widths
        of independent errors of different kinds add as squares."""
        q = 1 - ALPHA / together / 2
        sums = [self.parts] if restarted else [self.parts, (*self.parts, *self.start)]
        half = max(student.quantile(q, df) * error for error, df in map(_total, sums))
        if self.single:
            half = math.hypot(half, self.single.half(ALPHA / together))
        return max(half, self.least) if half > 0 else math.inf

    def ends(self, together: int = 1, restarted: bool = False) -> tuple[float, float]:
        """The ends of the interval of `half`."""
        half = self.half(together, restarted)
        return self.value - half, self.value + half

    def word(self, metric: str, margin: float, together: int = 1, restarted: bool = False) -> str:
        """What the interval says at a margin on the log scale."""
        return verdict.word(*self.ends(together, restarted), margin, metric)

    def spare(self, metric: str, margin: float, together: int = 1) -> float:
        """The largest start-to-start CV (a fraction, at most 10) that leaves the word without
        `start` as it is; 0 if that word is `cannot tell`."""
        word = self.word(metric, margin, together, restarted=True)
        if word == verdict.CANNOT_TELL:
            return 0.0
        low, high = 0.0, 10.0
        for _ in range(50):
            cv = (low + high) / 2
            other = replace(self, start=((2 * cv**2, math.inf),)).word(metric, margin, together)
            low, high = (cv, high) if other == word else (low, cv)
        return low


def _total(parts: Parts) -> tuple[float, float]:
    """(standard error, degrees of freedom) of summed variances (Welch 1947, Satterthwaite 1946)."""
    variance = sum(v for v, _ in parts)
    doubt = sum(v * v / k for v, k in parts if v > 0)
    df = variance**2 / doubt if 0 < doubt < math.inf else math.inf
    return math.sqrt(variance), (df if df < 1e7 else math.inf)


def welch(x: Sequence[float], y: Sequence[float]) -> Parts:
    """Variances of the two means with their degrees of freedom, from the logs of the runs (two or
    more an arm)."""
    return (*paired(x), *paired(y))


def paired(d: Sequence[float]) -> Parts:
    """The variance of a mean with its degrees of freedom, from two or more log values or ratios."""
    mean = math.fsum(d) / len(d)
    return ((math.fsum((v - mean) ** 2 for v in d) / (len(d) - 1) / len(d), len(d) - 1),)
