"""mysqlslap and mariadb-slap: the mean time to run all queries of a benchmark."""

import re

from noisefloor.parse.base import error, last_line, pieces, safe_line, with_line_feeds
from noisefloor.tools.base import Run, labelled

NAME = "mysqlslap"
WRAPS = False
MUST = ("tool", "storage engine", "queries a client")

_R = r"([0-9]{1,12}\.[0-9]{3}) seconds"
_HEADING = re.compile(r"\nBenchmark[ \t]*(?=\n|\Z)")
_NAME = r"\n(?:[^\n]*/)?(?:mysqlslap|mariadb-slap)(?:\.exe)?: "
_FAILED = re.compile(rf"{_NAME}(?!\[Warning\]|Deprecated program name\.)[^\n]+")
_SIGN = re.compile(
    rf"\n[ \t]+(?:Average|Minimum|Maximum) number of seconds to run all queries: |{_NAME}"
)
_LABELS = {
    "storage engine": r"[ \t]+Running for engine ([^\n]{1,80})",
    "mean": rf"[ \t]+Average number of seconds to run all queries: {_R}",
    "least": rf"[ \t]+Minimum number of seconds to run all queries: {_R}",
    "most": rf"[ \t]+Maximum number of seconds to run all queries: {_R}",
    "clients": r"[ \t]+Number of clients running queries: ([0-9]{1,9})",
    "queries a client": r"[ \t]+Average number of queries per client: ([0-9]{1,18})",
}
_NEEDED = ("mean", "least", "most", "clients", "queries a client")


def recognises(text: str) -> bool:
    return _SIGN.search(text) is not None


def split_runs(text: str | bytes) -> list[tuple[int, str]]:
    text = with_line_feeds(text)
    return pieces(text, [m.start() for m in _HEADING.finditer(text)][1:])


def chore(text: str | bytes) -> None:
    """None: the tool has no other task."""


def read_run(name: str, text: str) -> Run:
    text = with_line_feeds(text)
    if failed := _FAILED.search(text):
        raise error(text, failed.start() + 1, f"mysqlslap failed: {safe_line(failed[0].strip())}")
    lines = labelled(text, _LABELS)
    if missing := [label for label in _NEEDED if label not in lines]:
        why = "the result is cut, or a line of it is not whole"
        raise error(text, last_line(text), f"{why}: no {missing[0]!r}")
    mean, least, most = (float(lines[k][1]) for k in ("mean", "least", "most"))
    if not mean > 0 or not least - 0.0005 <= mean <= most + 0.0005:
        why = "the mean is not between the minimum and the maximum" if mean else "it took no time"
        raise error(text, lines["mean"].start() + 1, why)
    keys = {"tool": NAME} | {k: safe_line(lines[k][1].strip()) for k in MUST if k in lines}
    notes = ("each number is the mean of several iterations",) if least != most else ()
    return Run(name, {"query_time": mean}, int(lines["clients"][1]), keys, notes=notes, must=MUST)
