"""Quantiles of sysbench's latency histogram, with its resolution."""

import numpy as np

RESOLUTION = 1e8 ** (1 / 1023) - 1
"""Width of a bucket: 1,024 logarithmic ones from 0.001 to 100,000 ms, so 1.8 %."""
CLIP_S = 100.0
"""Value of the last bucket: whatever took longer was counted there."""


def quantile(upper_s, counts, q: float) -> float:
    """Quantile `q` (0..1) in s of a histogram (bucket values in s, events in each), as sysbench
    takes it: the value of the bucket in which event number round(q * n) is.

    True within half of RESOLUTION; CLIP_S means "that or longer". Raises ValueError for an empty
    histogram or a `q` outside 0..1.
    """
    total = np.cumsum(np.asarray(counts, dtype=float))
    if not 0 <= q <= 1 or not total.size or total[-1] <= 0:
        raise ValueError(
            f"quantile {q!r} of {total.size} buckets: needs 0 <= q <= 1 and at least one event"
        )
    wanted = max(1.0, np.floor(total[-1] * q + 0.5))
    return float(np.asarray(upper_s, dtype=float)[np.searchsorted(total, wanted)])
