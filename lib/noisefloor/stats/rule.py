"""The rule of a live campaign: the means of its blocks in, one 95 % interval a comparison out.

A campaign declares its blocks and is judged once, when it has ended. The unit is the block: every
array has the blocks on its last axis, and the axes before it are independent campaigns, so that the
calibration runs ten thousand of them through this very code. Log scale, the metric's own sign."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from noisefloor.stats.verdict import ALPHA

DIFFERENT = 0.1  # level at which thread counts are found to differ, so that they have no joint row
Start = tuple[float, float] | None  # variance of a difference between starts, degrees of freedom


def interval(
    units: ArrayLike, together: int = 1, start: Start = None, known: float = 0.0
) -> tuple[Any, Any, Any]:
    """(mean, lower end, upper end) by Student's t over block means, each [...]; endless for one.

    together: how many such intervals hold the truth in 95 % of campaigns all at once (Bonferroni).
    start: what a server that is never restarted cannot show of its starts; the wider of the
    intervals with and without it counts (Welch 1947, Satterthwaite 1946). known: a variance of the
    mean that is known exactly (histogram buckets)."""
    units = np.asarray(units, float)
    n, mean = units.shape[-1], units.mean(-1)
    if n < 2:
        endless = np.full_like(mean, np.inf)
        return mean, mean - endless, mean + endless
    own = units.var(-1, ddof=1) / n + known
    q = 1 - ALPHA / together / 2
    half = special.stdtrit(n - 1, q) * np.sqrt(own)
    if start is not None:
        both = own + start[0]
        df = both**2 / (own**2 / (n - 1) + start[0] ** 2 / start[1])
        half = np.maximum(half, special.stdtrit(df, q) * np.sqrt(both))
    return mean, mean - half, mean + half


def codes(lo: Any, hi: Any, margin: float) -> np.ndarray:
    """The words of many intervals: 2 same, 1 larger, -1 smaller, 0 cannot tell."""
    side = np.where(lo > 0, 1, np.where(hi < 0, -1, 0))
    return np.where((lo > -margin) & (hi < margin), 2, side)


def alike(members: ArrayLike) -> np.ndarray:
    """Whether nothing says that thread counts differ, [...]: a repeated-measures analysis of variance
    of their block means (blocks are the subjects), at DIFFERENT. members: [..., thread counts,
    blocks], two blocks or more."""
    x = np.asarray(members, float)
    k, n = x.shape[-2:]
    each, block = x.mean(-1, keepdims=True), x.mean(-2, keepdims=True)
    middle = each.mean(-2, keepdims=True)
    between = n * ((each - middle) ** 2).sum((-1, -2)) / (k - 1)
    left = ((x - each - block + middle) ** 2).sum((-1, -2)) / ((k - 1) * (n - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        f = np.where(left > 0, between / left, np.where(between > 0, np.inf, 0.0))
    return special.fdtrc(k - 1, (k - 1) * (n - 1), f) > DIFFERENT


def joint(members: ArrayLike, together: Any) -> np.ndarray:
    """Whether thread counts have a joint row, [...]: they are `alike`, and no two of them have
    opposite words. together: codes of their words, [..., thread counts]."""
    words = np.asarray(together)
    return alike(members) & ~((words == 1).any(-1) & (words == -1).any(-1))
