"""What the parsers share: the error, the clean text, and positions in it."""

from typing import Any

import numpy as np

from noisefloor.parse.secrets import scrub

_SHOWN = 200  # characters of a line that an error quotes
MOST = 64 * 2**20  # of one text: a sysbench log of a day with a row a second has 13 MB
_DIGITS = bytes(code if chr(code) in "0123456789." else 32 for code in range(256))

Result = dict[str, Any]  # what one text says: names as `sysbench` and `time` list them


class ParseError(ValueError):
    """A text that cannot be read: `line` (from 1), its `text` (shortened, no secrets), `reason`."""

    def __init__(self, line: int, text: str, reason: str) -> None:
        super().__init__(line, text, reason)
        self.line, self.text, self.reason = line, text, reason

    def __str__(self) -> str:
        repeats = self.text and self.text in self.reason
        return f"line {self.line}: {self.reason}" + ("" if repeats else f"; it reads {self.text!r}")


def decoded(text: str | bytes) -> str:
    """`text` as str without a byte order mark; UTF-16 with such a mark is decoded as that."""
    if isinstance(text, bytes):
        utf16 = text[:2] in (b"\xff\xfe", b"\xfe\xff")
        text = text.decode("utf-16" if utf16 else "utf-8", "replace")
    return text.removeprefix("\ufeff")


def with_line_feeds(text: str | bytes) -> str:
    """`text` as str with a line feed before each line, also the first one, and no "\\r\\n".

    The line that begins at position p has the number ``count("\\n", 0, p)``, and "\\nX" finds an X
    at a line's beginning. Raises ParseError for NUL bytes (a damaged file, or UTF-16 without a
    mark) and for a text longer than MOST.
    """
    if len(text) > MOST:
        raise ParseError(1, "", f"longer than {MOST >> 20} MiB, the most that is read of one text")
    text = "\n" + decoded(text)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if (at := text.find("\0")) >= 0:
        raise error(text, at, "NUL bytes: a damaged file, or UTF-16 read as something else")
    return text


def error(text: str, at: int, reason: str) -> ParseError:
    """The ParseError for position `at` of a text with line feeds."""
    at = min(at, len(text))
    begin = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[begin : begin + _SHOWN if end < 0 else min(end, begin + _SHOWN)]
    return ParseError(max(1, text.count("\n", 0, begin)), safe_line(line), reason)


def safe_line(line: str) -> str:
    """`line` without secrets and control characters, shortened: safe for a terminal and a page."""
    line = scrub(line)[0][: 2 * _SHOWN]
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def pieces(text: str, begins: list[int]) -> list[tuple[int, str]]:
    """(number of its first line, text) of each piece of a text with line feeds. begins: position
    of the line feed before each piece but the first."""
    cuts, first, parts = [-1, 0, *begins], 0, list[tuple[int, str]]()
    for before, cut, end in zip(cuts, cuts[1:], [*begins, len(text)], strict=False):
        first += text.count("\n", before + 1, cut + 1)
        parts.append((first, text[cut + 1 : end] + ("\n" if end < len(text) else "")))
    return parts


def last_line(text: str) -> int:
    """Position of the last character of a text that is not white space; 0 without one."""
    return max(0, len(text.rstrip()) - 1)


def numbers(rows: str) -> np.ndarray:
    """All numbers in `rows`, in order; signs are ignored."""
    return np.array(rows.encode("ascii", "replace").translate(_DIGITS).split(), dtype=float)


def share(label: str) -> int | float:
    """The percentile that a label names: 95 for "95", 99.9 for "99.9" and for the "999" of patched
    builds."""
    value = float(label)
    while value > 100:
        value /= 10
    value = round(value, 6)
    return int(value) if value == int(value) else value
