"""What is known of scatter from elsewhere: from one start of a server to the next (the recorded A/A
campaign, or this machine's own), and from run to run (published repeats). Plain Python."""

import csv
import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisefloor import paths

# a metric without an entry of its own takes that of its kin; `time` of a command has no server
KIN = {
    "mean_latency": "tps", "events_per_s": "tps", "qps": "tps", "connections_per_second": "tps",
    "apply_rate": "tps", "apply_cpu": "cpu_per_transaction", "p99": "p95",
    "cpu_per_connection": "cpu_per_transaction", "connect_time": "tps", "value": "tps",
}  # fmt: skip
NO_SERVER = ("wall", "wall_prepared", "user_sys", "backup_size")
Floor = float | Mapping[str, Any] | None  # start-to-start CV in percent, or entries by metric
RANGES = ((1, 1), (2, 16), (17, 64), (65, 10**9))  # threads
LONG_S = 60  # runs from here on scatter by a fraction of what slices do
Group = tuple[float, int | None, float | None, str]  # CV, threads, seconds, source
FEWEST = 5  # groups without which a metric is judged by its kin's
ENOUGH = 20  # groups in a range before it stands for itself


@dataclass(frozen=True)
class Start:
    """Start-to-start scatter of one server: CV (a fraction) and its degrees of freedom."""

    cv: float
    df: float
    given: bool = False  # by somebody, not recorded

    @property
    def part(self) -> tuple[float, float]:
        """What it adds to the variance of the difference of two arms, with its df."""
        return 2 * self.cv**2, self.df


@functools.lru_cache(maxsize=8)
def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))


def start(metric: str, floor: Floor = None, own: bool = True) -> Start | None:
    """The Start of a metric, None where it has none.

    floor: a CV in percent that somebody gave, or a dict of entries by metric; else the floor that
    `noisefloor calibrate --live` has measured on this machine (own), else the recorded one. An
    estimate of zero takes the largest among the other metrics."""
    if metric in NO_SERVER:
        return None
    if isinstance(floor, (int, float)):
        return Start(floor / 100, math.inf, True) if floor else None
    entries = floor or {
        k: v for k, v in _read(paths.known("floor", own)).items() if isinstance(v, dict)
    }
    entry = entries.get(metric) or entries.get(KIN.get(metric, "tps")) or entries.get("tps")
    if entry and not entry["cv_pct"]:
        entry = max(entries.values(), key=lambda e: e["cv_pct"])
    if not entry or not entry["cv_pct"]:
        return None
    return Start(entry["cv_pct"] / 100, entry["df"])


def pair_sds(names: Iterable[str], metric: str, threads: Sequence[int]) -> dict[int, float]:
    """{threads: scatter of a pair in percent at the nearest thread count that is known}, as measured
    on this machine, else as recorded; {} where none is. names: of workloads, the first that is known
    counts."""
    found = _read(paths.known("noise", own=False)) | _read(paths.known("noise"))
    own = [found[n][metric] for n in names if metric in found.get(n, {})]
    sds = {int(t): float(sd) for t, sd in own[0].items() if sd > 0} if own else {}
    return {t: sds[min(sds, key=lambda k: abs(math.log(k / t)))] for t in threads if sds}


@dataclass(frozen=True)
class Population:
    """CVs (fractions) of repeated runs of one server, published or recorded: one a group."""

    cvs: tuple[float, ...]
    sources: int
    like: str = ""  # what they have in common, in words

    @property
    def typical(self) -> float:
        """The 50th percentile."""
        return _percentile(self.cvs, 0.5)

    @property
    def high(self) -> float:
        """The 95th percentile: what a difference of single runs is held against."""
        return _percentile(self.cvs, 0.95)

    @property
    def part(self) -> tuple[float, float]:
        """What it adds to the variance of one run, with the df of a percentile of so many groups."""
        return self.high**2, len(self.cvs) - 1

    def above(self, cv: float) -> int:
        """How many groups scatter by more."""
        return sum(x > cv for x in self.cvs)


def population(metric: str, threads: Any = None, seconds: float | None = None) -> Population | None:
    """The Population of a metric at about so many threads, of runs about so long; None where nothing
    is known. A range counts where it holds ENOUGH groups, else all of them do."""
    file = paths.published() / "scatter" / "groups.csv"
    groups = _groups(file if file.exists() else Path(__file__).with_name("groups.csv"))
    own = groups.get(metric, ())
    if len(own) < FEWEST and metric not in NO_SERVER:
        own = groups.get(KIN.get(metric, "tps"), ())
    if len(own) < FEWEST:
        return None
    told = []
    if seconds:
        near = [g for g in own if g[2] is not None and (g[2] >= LONG_S) == (seconds >= LONG_S)]
        if len(near) >= ENOUGH:
            own = near
            told.append(f"runs of {'at least' if seconds >= LONG_S else 'less than'} {LONG_S} s")
    low, high = next((r for r in RANGES if r[0] <= (threads or 0) <= r[1]), (0, 0))
    near = [g for g in own if g[1] is not None and low <= g[1] <= high]
    if len(near) >= ENOUGH:
        own = near
        name = "1 thread" if high == 1 else f"{low} to {high} threads"
        told.append(f"{low} threads and more" if high > 10**6 else name)
    return Population(tuple(g[0] for g in own), len({g[3] for g in own}), ", ".join(told))


@functools.lru_cache(maxsize=4)
def _groups(file: Path) -> dict[str, list[Group]]:
    """{metric: groups} of the published table."""
    out: dict[str, list[Group]] = {}
    for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines()):
        threads = int(row["threads"]) if row["threads"] else None
        seconds = float(row["seconds"]) if row["seconds"] else None
        group = float(row["cv_pct"]) / 100, threads, seconds, row["source"]
        out.setdefault(row["metric"], []).append(group)
    return out


def _percentile(values: Sequence[float], share: float) -> float:
    """Linear between the order statistics, as numpy does."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])
