"""Text of measuring tools -> dict: sysbench, ``time``, histograms. Pure: no disk, no servers.

Every function takes the text (or the bytes) that a tool printed and returns numbers in base units
(s, B, 1/s), or raises ParseError with the line, its text and the reason. Nothing is guessed: a
number comes back only when the text is whole where the number stands.
"""

from .base import ParseError
from .histogram import CLIP_S, RESOLUTION, quantile
from .secrets import HIDDEN, scrub
from .sysbench_text import looks_like_sysbench, runs, sysbench
from .time_text import looks_like_time, time
from .together import together

__all__ = [
    "CLIP_S",
    "HIDDEN",
    "RESOLUTION",
    "ParseError",
    "kind",
    "quantile",
    "runs",
    "scrub",
    "sysbench",
    "time",
    "together",
]


def kind(text: str | bytes) -> str | None:
    """Which tool printed `text`: "sysbench", "time" or None. Never raises.

    Decided by the text only. A cut or failed sysbench log is "sysbench" too, so that its parse
    error gets reported; a sysbench run under ``time`` is "sysbench".
    """
    if looks_like_sysbench(text):
        return "sysbench"
    return "time" if looks_like_time(text) else None
