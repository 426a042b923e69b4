"""The two tables that sysbench prints, of all versions and reporters, as columns: the rows printed
during the run, and the latency histogram."""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from noisefloor.parse.base import Result, error, numbers, safe_line, share
from noisefloor.parse.forms import FORMS, compiled

RESOLUTION = 1e8 ** (1 / 1023) - 1
"""Width of a bucket: 1,024 logarithmic ones from 0.001 to 100,000 ms, so 1.8 %."""
CLIP_S = 100.0
"""Value of the last bucket: whatever took longer was counted there."""

_IMPOSSIBLE = 1e12

_Rows = tuple[Result, int | float | None]  # columns, percentile of their latency


def _forms(kind: str) -> dict[str, tuple[tuple[str, ...], re.Pattern[str]]]:
    """{words that only this form has: (columns in a row's order, pattern of successive rows)}."""
    return {
        form["hint"]: (tuple(form["columns"].split()), compiled(rf"(?:\n{form['row']} *+(?=\n))++"))
        for form in FORMS["rows"][kind]
    }


_STAMPED = _forms("stamped")
STAMPED_LIKE = re.compile(r"\n[ \t]{0,9}\[[^\n]{0,60}?(?:thds|threads|reads):[^\n]*")
_KINDS = (  # (words of every row; pattern of a row, whole or cut; the forms of a whole row)
    ('"time"', re.compile(r'\n *"time": *[0-9.]+,(?=\n *"threads": )'), _forms("json")),
    ("[", STAMPED_LIKE, _STAMPED),
    (",", re.compile(r"\n[0-9]{1,9},[0-9]{1,9},[0-9.][^\n]*"), _forms("csv")),
)
_QUEUE = compiled(r"\n<STAMP>queue length: <N>,? concurrency: <N> *+(?=\n)")
_WORTH = 8192  # characters of rows from which on `block` is faster
_DIGITS = b"0123456789"
_NOT_NUMERIC = bytes(sorted(set(range(256)) - set(_DIGITS + b".")))
_NUMBER = re.compile(rb"[0-9.]+")
_HEADING = "\nLatency histogram"
_HISTOGRAM = re.compile(
    r"\nLatency histogram[^\n]*\n *value +-[^\n]*count *"
    r"((?:\n *+[0-9]{1,9}+\.[0-9]{3} \|\**+ *+[0-9]{1,15}+(?=\n))*+)"
)


class Block(NamedTuple):
    """Consecutive rows of one form: their place in the text, and their numbers."""

    begin: int
    end: int
    columns: tuple[str, ...]
    table: np.ndarray


def block(text: str) -> Block | None:
    """All rows of a text at once, if they are many, consecutive and whole. Else None: `intervals`
    then reads them, or says what is wrong.

    It is twenty times as fast for hundreds of rows: it compares the text without its digits, which
    repeats from row to row, and the places where numbers begin and end."""
    first = text.find("\n[")
    end = text.find("\n", text.rfind("\n[") + 1) + 1
    if first < 0 or end - first < _WORTH:
        return None
    body = text[first + 1 : end].encode("ascii", "replace")
    line = body[: body.index(b"\n") + 1]
    row = "\n" + line.decode()
    fitting = [
        columns for hint, (columns, rule) in _STAMPED.items() if hint in row and rule.match(row)
    ]
    words, word = body.translate(None, _DIGITS), line.translate(None, _DIGITS)
    n = len(words) // len(word)
    if len(fitting) != 1 or words != word * n:  # from here on rows differ in digits only
        return None
    (columns,) = fitting
    shape = n, len(columns)
    chars = np.frombuffer(body, np.uint8)
    numeric = (chars - ord("0") < 10) | (chars == ord("."))
    edges = np.flatnonzero(numeric[1:] != numeric[:-1]) + 1
    if len(edges) != 2 * n * len(columns):
        return None
    steps = np.diff(edges, append=edges[0] + len(body)).reshape(n, 2 * len(columns))
    size, gap = steps[:, ::2], steps[:, 1::2]
    fraction = np.array([b"." in number for number in _NUMBER.findall(line)])
    point = chars.take(edges[1::2] - 3).reshape(shape) == ord(".")
    tidy = (
        not fraction[0]
        and (gap == gap[0]).all()
        and (size >= np.where(fraction, 4, 1)).all()
        and (size <= np.where(fraction, 28, 9)).all()
        and (point == fraction).all()
    )
    if not tidy:
        return None
    table = _floats(body.translate(None, _NOT_NUMERIC), size).reshape(shape)
    if (table[1:, 0] < table[:-1, 0]).any():
        return None
    return Block(first, end - 1, columns, table)


def _floats(data: bytes, size: np.ndarray) -> np.ndarray:
    """The numbers of these sizes (characters) in `data`, with nothing between them."""
    import pyarrow as pa  # takes a quarter of the time of float(); short texts never import it

    offsets = np.zeros(size.size + 1, np.int32)
    np.cumsum(size, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), size.size, buffers).cast(pa.float64()).to_numpy()


def intervals(text: str, start: int, end: int, warnings: list[str]) -> _Rows:
    """(columns of the rows of a text between two positions, percentile of their latency).

    The columns are {} without rows. Rows of an unknown form, or with an impossible rate, are left
    out, with a line in `warnings`. Raises ParseError for a row that is not whole, rows of two forms
    and time that runs backwards.
    """
    end += 1  # the line feed after the last row
    lines: list[int] = []
    for hint, like, forms in _KINDS:
        if not lines and text.find(hint, start, end) >= 0:
            lines, known = [m.start() for m in like.finditer(text, start, end)], forms
    if not lines:
        return {}, None
    tables = [
        (columns, numbers("".join(rows)).reshape(-1, len(columns)))
        for hint, (columns, rule) in known.items()
        if text.find(hint, start, end) >= 0 and (rows := rule.findall(text, start, end))
    ]
    if not tables:
        kept = safe_line(text[lines[0] + 1 : text.find("\n", lines[0] + 1)].strip())
        warnings.append(
            f"{len(lines)} rows of a form that is not known here are left out: {kept!r}"
        )
        return {}, None
    columns, table = tables[0]
    if len(tables) > 1 or len(lines) != len(table):
        for at in lines:
            if not any(rule.match(text, at, end) for _, rule in known.values()):
                raise error(text, at + 1, "an interval row that is not whole")
        raise error(text, lines[0] + 1, "interval rows of two forms: two runs in one text")
    backwards = np.flatnonzero(np.diff(table[:, 0]) < 0)
    if backwards.size:
        at = lines[backwards[0] + 1]
        raise error(text, at + 1, "time runs backwards: two runs in one text")
    return in_columns(columns, table, warnings)


def in_columns(names: tuple[str, ...], table: np.ndarray, warnings: list[str]) -> _Rows:
    """What `intervals` returns, for a table of rows: columns in base units, and the one percentile
    of their latency."""
    if not (table < _IMPOSSIBLE).all():
        possible = (table < _IMPOSSIBLE).all(axis=1)
        times = ", ".join(f"{t:g}" for t in table[~possible, 0][:5])
        warnings.append(
            f"rows with an impossible rate left out, at {times} s: {(~possible).sum()}"
            " (a counter wrapped, usually after a checkpoint)"
        )
        table = table[possible]
    result: Result = dict(zip(names, table.T, strict=True))
    shares = result.pop("percentile", np.empty(0))
    same = shares.size and shares[0] > 0 and (shares == shares[0]).all()
    percentile = share(f"{shares[0]:g}") if same else None
    latency = result.pop("ms") / 1e3 if "ms" in result else result.pop("us") / 1e6
    result["threads"] = result["threads"].astype(int)
    if percentile is not None or not shares.size:
        result["latency_s"] = latency
    return result, percentile


def queue(text: str, start: int, end: int) -> Result:
    """Columns t_s, length, concurrency of the line that --rate adds to each row; {} without it."""
    if text.find("queue length: ", start, end) < 0:
        return {}
    rows = numbers("".join(_QUEUE.findall(text, start, end + 1))).reshape(-1, 3)
    length, concurrency = rows[:, 1:].T.astype(int)
    return {"t_s": rows[:, 0], "length": length, "concurrency": concurrency}


def read_histogram(text: str, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """(bucket values in s, events in each) of the run in a text whose summary begins at
    `end`; both empty without --histogram. Raises ParseError unless it is whole and alone."""
    at = text.find(_HEADING, start)
    if at < 0:
        return np.empty(0), np.empty(0, dtype=int)
    if at > end:
        raise error(text, at + 1, "a histogram after the summary; one text holds one run")
    histogram = _HISTOGRAM.match(text, at)
    after = histogram.end() + 1 if histogram else at + 1
    if histogram is None or "|" in text[after : after + 300].split("\n", maxsplit=1)[0]:
        raise error(text, after, "a histogram row that is not whole")
    if (second := text.find(_HEADING, after)) >= 0:
        raise error(text, second + 1, "a second histogram; one text holds one run")
    table = numbers(histogram[1]).reshape(-1, 2)
    if (np.diff(table[:, 0]) < 0).any():  # below 0.05 ms three digits print two buckets alike
        raise error(text, at + 1, "the histogram's values fall: two histograms in one")
    return table[:, 0] / 1e3, table[:, 1].astype(int)


def quantile(upper_s: ArrayLike, counts: ArrayLike, q: float) -> float:
    """Quantile `q` (0..1) in s of a histogram (bucket values in s, events in each), as sysbench
    takes it: the value of the bucket that holds event number round(q * n).

    It is exact within half of RESOLUTION; CLIP_S means "that or longer". Raises ValueError for an
    empty histogram or a `q` outside 0..1.
    """
    total = np.cumsum(np.asarray(counts, dtype=float))
    if not 0 <= q <= 1 or not total.size or total[-1] <= 0:
        raise ValueError(
            f"quantile {q!r} of {total.size} buckets: needs 0 <= q <= 1 and at least one event"
        )
    wanted = max(1.0, np.floor(total[-1] * q + 0.5))
    return float(np.asarray(upper_s, dtype=float)[np.searchsorted(total, wanted)])
