"""The word of an interval, and whether it is a change for the worse. Plain Python."""

from noisefloor.model import CANNOT_TELL, METRICS, PROVISIONAL, SAME
from noisefloor.model import metric as metric_of

_WORSE = {m.word(m.worse_up) for m in METRICS.values()}  # a word is worse for every metric or none
ALPHA = 0.05  # an interval holds the truth in 95 of 100 campaigns


def word(lo: float, hi: float, margin: float, metric: str = "") -> str:
    """The word of an interval on the log scale: `same` if it lies inside the margin; else, if it
    leaves out zero, the metric's word for its side; else `cannot tell` (also for NaN)."""
    if -margin < lo and hi < margin:
        return SAME
    if lo > 0 or hi < 0:
        return metric_of(metric).word(lo > 0)
    return CANNOT_TELL


def differs(verdict: str) -> bool:
    """Whether a word names a difference."""
    return verdict not in (SAME, CANNOT_TELL, PROVISIONAL, "")


def worse(verdict: str, metric: str) -> bool:
    """Whether a word says that the metric changed for the worse."""
    known = metric_of(metric)
    return differs(verdict) and verdict == known.word(known.worse_up)


def kind(verdict: str) -> str:
    """What `--fail-on` calls a verdict: worse, better, same, cannot tell or provisional."""
    if not differs(verdict):
        return verdict
    return "worse" if verdict in _WORSE else "better"
