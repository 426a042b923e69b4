"""The scatter of the rows inside one run: a lower bound of the scatter between runs."""

import math
from collections.abc import Sequence

import numpy as np

from noisefloor.text.reasons import Reason, Why


def mser5(rates: Sequence[float] | np.ndarray) -> int:
    """Number of rows at the beginning that are warm-up: MSER-5 (White 1997), on means of five."""
    fives = np.asarray(rates, float)[: len(rates) // 5 * 5].reshape(-1, 5).mean(axis=1)
    if not len(fives):
        return 0
    ends = fives[::-1] / (fives.mean() or 1.0) - 1  # reversed: cumulative sums cover what is kept
    n = np.arange(1, len(ends) + 1)
    scatter = np.cumsum(ends**2) / n - (np.cumsum(ends) / n) ** 2
    mser = np.where(scatter < 1e-15, 0.0, scatter)[::-1] / n[::-1]
    return 5 * int(np.argmin(mser[: len(fives) // 2 + 1]))


def within(rates: Sequence[float] | np.ndarray) -> tuple[float, int, list[str]] | None:
    """(standard error of the log mean, df, warnings) from rows of one run; None below 20 rows, or
    if one is not above 0.

    The warm-up is cut (`mser5`). The means of ten batches then count as independent values."""
    rates = np.asarray(rates, float)
    if len(rates) < 20 or not (rates > 0).all():
        return None
    warnings: list[str] = []
    if cut := mser5(rates):
        warnings.append(Reason(Why.WARM_UP, rows=cut))
    kept = rates[cut:]
    batches = np.array([part.mean() for part in np.array_split(kept, min(10, len(kept) // 2))])
    early, late = np.array_split(batches, 2)
    spread = math.sqrt(early.var(ddof=1) / len(early) + late.var(ddof=1) / len(late))
    if spread and abs(early.mean() - late.mean()) > 4 * spread:
        warnings.append(Reason(Why.DRIFT))
    error = float(batches.std(ddof=1) / batches.mean()) / math.sqrt(len(batches))
    return error, len(batches) - 1, warnings
