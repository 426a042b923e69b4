"""The rule of a live campaign: from the means of its blocks to one 95 % interval a comparison.

A campaign declares its blocks and is judged once, at its end. The unit is the block: every array
has the blocks on its last axis. The axes before it are independent campaigns, so the calibration
runs ten thousand of them through this code. Values are log ratios, arm over baseline."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from noisefloor.stats.verdict import ALPHA

DIFFERENT = 0.1  # p-value up to which thread counts count as different: they have no joint row


def block_interval(
    units: ArrayLike,
    together: int = 1,
    start: tuple[float, float] | None = None,
    known: float = 0.0,
) -> tuple[Any, Any, Any]:
    """(mean, lower end, upper end) by Student's t over block means [..., blocks], each [...];
    infinite ends for one block.

    together: number of intervals that all contain the truth in 95 % of campaigns (Bonferroni).
    start: (variance that starts of the server add to a difference, its degrees of freedom), where
    runs share one start; the wider of the intervals with and without it counts (Welch 1947,
    Satterthwaite 1946). known: further variance of the mean, known exactly (histogram buckets)."""
    units = np.asarray(units, float)
    n, mean = units.shape[-1], units.mean(-1)
    if n < 2:
        endless = np.full_like(mean, np.inf)
        return mean, mean - endless, mean + endless
    variance = units.var(-1, ddof=1) / n + known
    q = 1 - ALPHA / together / 2
    half = special.stdtrit(n - 1, q) * np.sqrt(variance)
    if start is not None:
        total = variance + start[0]
        df = total**2 / (variance**2 / (n - 1) + start[0] ** 2 / start[1])
        half = np.maximum(half, special.stdtrit(df, q) * np.sqrt(total))
    return mean, mean - half, mean + half


def codes(lo: Any, hi: Any, margin: float) -> np.ndarray:
    """The words of intervals as codes: 2 same, 1 larger, -1 smaller, 0 cannot tell."""
    side = np.where(lo > 0, 1, np.where(hi < 0, -1, 0))
    return np.where((lo > -margin) & (hi < margin), 2, side)


def alike(members: ArrayLike) -> np.ndarray:
    """Whether thread counts do not differ significantly, [...]: a repeated-measures analysis of
    variance of their block means (blocks are the subjects), at level DIFFERENT. members: [...,
    thread counts, blocks], two blocks or more."""
    means = np.asarray(members, float)
    counts, blocks = means.shape[-2:]
    of_count, of_block = means.mean(-1, keepdims=True), means.mean(-2, keepdims=True)
    overall = of_count.mean(-2, keepdims=True)
    df = counts - 1, (counts - 1) * (blocks - 1)
    between = blocks * ((of_count - overall) ** 2).sum((-1, -2)) / df[0]
    left = ((means - of_count - of_block + overall) ** 2).sum((-1, -2)) / df[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        f = np.where(left > 0, between / left, np.where(between > 0, np.inf, 0.0))
    return special.fdtrc(*df, f) > DIFFERENT


def joint(members: ArrayLike, words: Any) -> np.ndarray:
    """Whether thread counts have a joint row, [...]: they are `alike`, and no two of them have
    opposite words. words: the `codes` of their words, [..., thread counts]."""
    words = np.asarray(words)
    return alike(members) & ~((words == 1).any(-1) & (words == -1).any(-1))
