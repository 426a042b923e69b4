"""What every adapter of a tool returns, and what adapters share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from noisefloor.model import METRICS
from noisefloor.parse.base import error


@dataclass(frozen=True)
class Run:
    """What one text says about one run; values in base units (s, 1/s).

    `values`: metric -> value; raises KeyError for one that metrics.csv lacks. `keys`: conditions;
    runs that differ in one of `must` cannot be compared, a difference in another one is a note.
    `rows`: transactions per second, row by row, of the rows that count. `more`: further values, for
    an archive's table. `access`: RO, RW or WO, as the text counts its statements, else ""."""

    name: str
    values: Mapping[str, float]
    threads: int | None = None
    keys: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None  # of measuring
    rows: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    must: tuple[str, ...] = ("tool", "test", "rate")
    more: Mapping[str, float] = field(default_factory=dict)
    workload: str | None = None
    access: str = ""
    version: str | None = None  # of the tool
    host: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    intervals: Mapping[str, np.ndarray] = field(default_factory=dict)
    histogram: tuple[np.ndarray, np.ndarray] | None = None

    def __post_init__(self) -> None:
        if unknown := set(self.values).difference(METRICS):
            names = ", ".join(sorted(unknown))
            raise KeyError(f"{names}: no row of metrics.csv says what is better")


def labelled(text: str, labels: Mapping[str, str]) -> dict[str, re.Match[str]]:
    """Name -> match of each label in a text from `with_line_feeds`.

    labels: name -> regular expression of the whole line. Raises ParseError for a label that
    occurs twice."""
    lines: dict[str, re.Match[str]] = {}
    for name, rule in labels.items():
        matches = list(re.finditer(rf"\n{rule}[ \t]*(?=\n|\Z)", text))
        if len(matches) > 1:
            why = f"{matches[1][0].strip()!r} stands here a second time; one text holds one run"
            raise error(text, matches[1].start() + 1, why)
        if matches:
            lines[name] = matches[0]
    return lines
