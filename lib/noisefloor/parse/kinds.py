"""What a text is, by its words alone: sysbench's, ``time``'s, a chore's log or another tool's."""

import re

from noisefloor.parse.base import MOST, decoded, plain
from noisefloor.parse.forms import FORMS, compiled
from noisefloor.parse.sysbench_text import EVENTS, FAILED
from noisefloor.parse.time_text import looks_like_time

_SIGN = re.compile(
    r"\n(?:sysbench v?[0-9]+\.[0-9]+[.: ]|Running the test with following options:"
    r"|SQL statistics:|OLTP test statistics:|General statistics:\n +total time:"
    r"|Throughput:\n +events/s \(eps\):|\[ *[0-9.]+s ?\] (?:thds|threads): )"
)
_BEGUN = ("\nRunning the test with", "\nThreads started!", EVENTS, "thds: ")


def kind(text: str | bytes) -> str | None:
    """Which tool printed `text`: "sysbench", "time" or None. Never raises.

    Decided by the text only. A cut or failed sysbench log is "sysbench" too, so that its parse
    error gets reported; a sysbench run under ``time`` is "sysbench".
    """
    words = decoded(text[:MOST]).replace("\0", "").replace("\r", "")
    if _SIGN.search("\n" + words):
        return "sysbench"
    return "time" if looks_like_time(text) else None


def chore(text: str | bytes) -> str | None:
    """ "prepare", "cleanup" or "prewarm" for the log of such a command that did not fail, else
    None. Never raises."""
    try:
        text = plain(text)
    except ValueError:
        return None
    if any(sign in text for sign in _BEGUN) or FAILED.search(text):
        return None
    chores = FORMS["chore"].items()
    return next((name for name, sign in chores if compiled(sign).search(text)), None)


def foreign(text: str | bytes) -> str | None:
    """The benchmark that printed `text`, of those whose output is not read; else None."""
    words = decoded(text)
    tools = FORMS["foreign"].items()
    return next((tool for tool, signs in tools if any(sign in words for sign in signs)), None)
