"""sysbench's latency histogram: the rows, and quantiles with their resolution."""

import re

import numpy as np

from .base import error, numbers

RESOLUTION = 1e8 ** (1 / 1023) - 1
"""Width of a bucket: 1,024 logarithmic ones from 0.001 to 100,000 ms, so 1.8 %."""
CLIP_S = 100.0
"""Value of the last bucket: whatever took longer was counted there."""

_HEADING = "\nLatency histogram"
_HISTOGRAM = re.compile(
    r"\nLatency histogram[^\n]*\n *value +-[^\n]*count *"
    r"((?:\n *+[0-9]{1,9}+\.[0-9]{3} \|\**+ *+[0-9]{1,15}+(?=\n))*+)"
)


def read_histogram(text: str, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """(bucket values in s, events in each) of the run in a `plain` text whose summary begins at
    `end`; both empty without --histogram. ParseError when it is not whole or not alone."""
    at = text.find(_HEADING, start)
    if at < 0:
        return np.empty(0), np.empty(0, dtype=int)
    if at > end:
        raise error(text, at + 1, "a histogram after the summary; one text holds one run")
    found = _HISTOGRAM.match(text, at)
    after = found.end() + 1 if found else at + 1
    if found is None or "|" in text[after : after + 300].split("\n", maxsplit=1)[0]:
        raise error(text, after, "a histogram row that is not whole")
    if (second := text.find(_HEADING, after)) >= 0:
        raise error(text, second + 1, "a second histogram; one text holds one run")
    table = numbers(found[1]).reshape(-1, 2)
    if (np.diff(table[:, 0]) < 0).any():  # below 0.05 ms three digits print two buckets alike
        raise error(text, at + 1, "the histogram's values fall: two histograms in one")
    return table[:, 0] / 1e3, table[:, 1].astype(int)


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
