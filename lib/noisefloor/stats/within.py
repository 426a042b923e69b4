"""What the rows inside one run say of its scatter: a lower bound of that between runs."""

import math

import numpy as np


def mser5(rates):
    """Rows at the beginning that are warm-up: MSER-5 (White 1997), on means of five rows."""
    fives = np.asarray(rates, float)[: len(rates) // 5 * 5].reshape(-1, 5).mean(axis=1)
    mser = [fives[k:].var() / (len(fives) - k) for k in range(len(fives) // 2 + 1)]
    return 5 * int(np.argmin(mser))


def within(rates):
    """(standard error of the log mean, df, warnings) from rows of one run, or None below 20 rows.

    The warm-up is cut (`mser5`), then the means of ten batches stand for independent
    values: rows next to each other are alike, whole batches hardly."""
    rates = np.asarray(rates, float)
    if len(rates) < 20 or not (rates > 0).all():
        return None
    warnings = []
    if cut := mser5(rates):
        warnings.append(f"the first {cut} rows look like warm-up and do not count")
    kept = rates[cut:]
    batches = np.array([part.mean() for part in np.array_split(kept, min(10, len(kept) // 2))])
    early, late = np.array_split(batches, 2)
    spread = math.sqrt(early.var(ddof=1) / len(early) + late.var(ddof=1) / len(late))
    if spread and abs(early.mean() - late.mean()) > 4 * spread:
        warnings.append("throughput steps or drifts within the run")
    error = float(batches.std(ddof=1) / batches.mean()) / math.sqrt(len(batches))
    return error, len(batches) - 1, warnings
