"""The rows that sysbench prints while it runs, of all versions and reporters -> columns."""

import re
from dataclasses import dataclass

import numpy as np

from .base import error, numbers, share

_IMPOSSIBLE = 1e12
_STAMP = r"\[ *+[0-9]{1,9}(?:\.[0-9]{1,3})?s ?\] "
_N = r"[0-9]{1,9}+"
_F = r"[0-9]{1,25}+\.[0-9]{2}"
_OLD = rf"{_STAMP}threads: {_N}, tps: {_F}, reads"


def _forms(forms: dict[str, tuple[str, str]]) -> dict[str, tuple[tuple[str, ...], re.Pattern]]:
    """{words that only this form has: (columns in the order of a row's numbers, runs of rows)}."""
    return {
        hint: (tuple(columns.split()), re.compile(rf"(?:\n{row} *+(?=\n))++"))
        for hint, (columns, row) in forms.items()
    }


_STAMPED = _forms(
    {
        " qps: ": (
            "t threads tps qps reads writes other percentile ms err rec",
            rf"{_STAMP}thds: {_N} tps: {_F} qps: {_F} \(r/w/o: {_F}/{_F}/{_F}\) lat \(ms,{_N}%\): {_F}"
            rf" err/s:? {_F} reconn/s:? {_F}",
        ),
        " eps: ": (
            "t threads eps percentile ms",
            rf"{_STAMP}thds: {_N} eps: {_F} lat \(ms,{_N}%\): {_F}",
        ),
        "ms (": (
            "t threads tps reads writes ms percentile err rec",
            rf"{_OLD}: {_F}, writes: {_F}, response time: {_F}ms \({_N}%\), errors: {_F}, reconnects: *+{_F}",
        ),
        "us (": (
            "t threads tps reads writes us percentile err rec",
            rf"{_OLD}: {_F}, writes: {_F}, response time: {_F}us \({_N}%\), errors: {_F}, reconnects: *+{_F}",
        ),
        ", reads/s: ": (
            "t threads tps reads writes ms percentile",
            rf"{_OLD}/s: {_F}, writes/s: {_F}, response time: {_F}ms \({_N}%\)",
        ),
    }
)
_CSV = _forms(
    {",": ("t threads tps qps reads writes other ms err rec", rf"{_N},{_N}(?:,{_F}){{8}}")}
)
_WORTH = 8192  # characters of rows from which on `block` pays
_DIGITS = b"0123456789"
_NOT_NUMERIC = bytes(sorted(set(range(256)) - set(_DIGITS + b".")))
_NUMBER = re.compile(rb"[0-9.]+")
_STAMPED_LIKE = re.compile(r"\n[ \t]{0,9}\[[^\n]{0,60}(?:thds|threads):[^\n]*")
_CSV_LIKE = re.compile(r"\n[0-9]{1,9},[0-9]{1,9},[0-9.][^\n]*")
_QUEUE = re.compile(rf"\n{_STAMP}queue length: {_N},? concurrency: {_N} *+(?=\n)")
_COLUMNS = {
    "t": "t_s",
    "eps": "events_per_s",
    "reads": "reads_per_s",
    "writes": "writes_per_s",
    "other": "other_per_s",
    "err": "errors_per_s",
    "rec": "reconnects_per_s",
}


def intervals(text: str, start: int, end: int, warnings: list) -> tuple[dict, int | float | None]:
    """(columns of the rows of a `plain` text between two positions, percentile of their latency).

    {} without rows. Rows with a rate that cannot be are left out with a line in `warnings`.
    ParseError for a row that is not whole, rows of two forms and time that runs backwards.
    """
    first, like, forms = text.find("\n[", start, end), _STAMPED_LIKE, _STAMPED
    if first < 0:
        found = _CSV_LIKE.search(text, start, end + 1)
        if found is None:
            return {}, None
        first, end, like, forms = found.start(), end + 1, _CSV_LIKE, _CSV
        there = len(like.findall(text, first, end))
    else:
        end = text.find("\n", text.rfind("\n[", first, end) + 1) + 1
        there = text.count("thds: ", first, end) + text.count(" threads: ", first, end)
    tables = [
        (columns, numbers("".join(found)).reshape(-1, len(columns)))
        for hint, (columns, rule) in forms.items()
        if text.find(hint, first, end) >= 0 and (found := rule.findall(text, first, end))
    ]
    columns, table = tables[0] if tables else ((), np.empty((0, 0)))
    if len(tables) > 1 or there != len(table):
        _refuse(text, first, end, like, forms, len(table))
    if not len(table):
        return {}, None
    backwards = np.flatnonzero(np.diff(table[:, 0]) < 0)
    if backwards.size:
        at = [m.start() for m in like.finditer(text, first, end)][backwards[0] + 1]
        raise error(text, at + 1, "time runs backwards: two runs in one text")
    return _possible(columns, table, warnings)


def _possible(columns, table: np.ndarray, warnings: list) -> tuple[dict, int | float | None]:
    """What `intervals` returns for a table of rows."""
    if not (table < _IMPOSSIBLE).all():
        possible = (table < _IMPOSSIBLE).all(axis=1)
        times = ", ".join(f"{t:g}" for t in table[~possible, 0][:5])
        warnings.append(
            f"rows with an impossible rate left out, at {times} s: {(~possible).sum()}"
            " (a counter wrapped, usually after a checkpoint)"
        )
        table = table[possible]
    return _columns(dict(zip(columns, table.T, strict=True)))


@dataclass(frozen=True)
class Block:
    """Rows that stand together and are all of one form: where in the text, and their numbers."""

    begin: int
    end: int
    columns: tuple[str, ...]
    table: np.ndarray

    def intervals(self, warnings: list) -> tuple[dict, int | float | None]:
        """As `intervals` of the text would return it."""
        return _possible(self.columns, self.table, warnings)


def block(text: str) -> Block | None:
    """All rows of a `plain` text at once, where they stand together and each is whole; else None,
    and `intervals` says what is the matter. Twenty times as fast for hundreds of rows: looked at
    is the text without its numbers, which then repeats, and where the numbers begin and end."""
    first = text.find("\n[")
    end = text.find("\n", text.rfind("\n[") + 1) + 1
    if first < 0 or end - first < _WORTH:
        return None
    body = text[first + 1 : end].encode("ascii", "replace")
    line = body[: body.index(b"\n") + 1]
    row = "\n" + line.decode()
    found = [
        columns for hint, (columns, rule) in _STAMPED.items() if hint in row and rule.match(row)
    ]
    words, word = body.translate(None, _DIGITS), line.translate(None, _DIGITS)
    n = len(words) // len(word)
    if len(found) != 1 or words != word * n:  # each number has its point, or none, from here on
        return None
    seen = np.frombuffer(body, np.uint8)
    numeric = (seen - ord("0") < 10) | (seen == ord("."))
    edges = np.flatnonzero(numeric[1:] != numeric[:-1]) + 1
    k = len(found[0])
    if len(edges) != 2 * n * k:
        return None
    steps = np.empty((n, 2 * k), edges.dtype)  # sizes of numbers and of the gaps after them
    np.subtract(edges[1:], edges[:-1], out=steps.reshape(-1)[:-1])
    steps[-1, -1] = edges[0] + len(body) - edges[-1]
    least, most = steps.min(axis=0), steps.max(axis=0)
    broken = np.array([b"." in number for number in _NUMBER.findall(line)])
    tidy = (
        not broken[0]
        and (least[1::2] == most[1::2]).all()
        and (least[::2] >= np.where(broken, 4, 1)).all()
        and (most[::2] <= np.where(broken, 28, 9)).all()
        and ((seen.take(edges[1::2] - 3).reshape(n, k) == ord(".")) == broken).all()
    )
    if not tidy:
        return None
    data = body.translate(None, _NOT_NUMERIC)
    table = _floats(data, steps[:, ::2]).reshape(n, k)
    if (table[1:, 0] < table[:-1, 0]).any():
        return None
    return Block(first, end - 1, found[0], table)


def _floats(data: bytes, size: np.ndarray) -> np.ndarray:
    """The numbers of these sizes that stand in `data` without anything between them."""
    import pyarrow as pa  # a quarter of the time of float() of each; not wanted for short texts

    offsets = np.zeros(size.size + 1, np.int32)
    np.cumsum(size, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), size.size, buffers).cast(pa.float64()).to_numpy()


def _columns(column: dict) -> tuple[dict, int | float | None]:
    """(columns under our names and in our units, the one percentile of their latency)."""
    shares = column.pop("percentile", np.empty(0))
    same = shares.size and shares[0] > 0 and (shares == shares[0]).all()
    percentile = share(f"{shares[0]:g}") if same else None
    latency = column.pop("ms") / 1e3 if "ms" in column else column.pop("us") / 1e6
    result = {_COLUMNS.get(name, name): values for name, values in column.items()}
    result["threads"] = result["threads"].astype(int)
    if percentile is not None or not shares.size:
        result["latency_s"] = latency
    return result, percentile


def _refuse(text: str, first: int, end: int, like: re.Pattern, forms: dict, count: int) -> None:
    """Raises ParseError at the first row-like line that no form matches; returns when there is
    none (the words stood in somebody else's line)."""
    there = 0
    for line in like.finditer(text, first, end):
        if not any(rule.match(text, line.start(), end) for _, rule in forms.values()):
            raise error(text, line.start() + 1, "an interval row that is not whole")
        there += 1
    if there != count:
        raise error(text, first + 1, "interval rows of two forms: two runs in one text")


def refuse_rows_after(text: str, end: int) -> None:
    """Raises ParseError for a row after the summary."""
    if (row := _STAMPED_LIKE.search(text, end)) is not None:
        raise error(text, row.start() + 1, "a row after the summary; one text holds one run")


def queue(text: str, start: int, end: int) -> dict:
    """Columns t_s, length, concurrency of the second line that --rate adds to each row; {} without."""
    if text.find("queue length: ", start, end) < 0:
        return {}
    rows = numbers("".join(_QUEUE.findall(text, start, end + 1))).reshape(-1, 3)
    return {
        "t_s": rows[:, 0],
        "length": rows[:, 1].astype(int),
        "concurrency": rows[:, 2].astype(int),
    }
