"""Known scatter: between starts of a server (the recorded A/A campaign, or this machine's own), of
pairs, and of single runs (published repeats). Plain Python."""

import bisect
import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisefloor import paths
from noisefloor.model import metric as metric_of

# metrics of a command: a value is also about the length of its run
TIMED = ("wall", "wall_prepared", "user_sys", "user_cpu", "sys_cpu")
AT_RATE = {True: "at a rate, at once", False: "at a rate, in turn"}  # names in noise.json
# metrics of commands, which no start of a server changes
NO_SERVER = (*TIMED, "backup_size", "peak_memory")
_SIZES = ("backup_size", "data_size", "peak_memory")  # nothing is published of how they scatter
# start-to-start CV in percent, entries by metric, or a table of `paths.noise_file`
Floor = float | Mapping[str, Any] | str | None
_LONG_S = 60  # seconds from which runs are long: they scatter far less than slices


@dataclass(frozen=True)
class Start:
    """Start-to-start scatter of one server: CV (a fraction) and its degrees of freedom."""

    cv: float
    df: float

    @property
    def part(self) -> tuple[float, float]:
        """What it adds to the variance of the difference of two arms, with its df."""
        return 2 * self.cv**2, self.df


@functools.lru_cache(maxsize=8)
def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))


def start_scatter(metric: str, floor: Floor = None, local: bool = True) -> Start | None:
    """The Start of a metric, None where it has none.

    floor: a CV in percent, or a dict of entries by metric; else what `noisefloor calibrate --live`
    measured on this machine (local), else what is recorded, in the table `floor` or the one named. A
    metric without an entry takes that of its kin, else of throughput; instead of a CV of zero, the
    largest of all metrics counts. The time of a command has `levels` only."""
    if metric in NO_SERVER and not (floor == "levels" and metric in TIMED):
        return None
    if isinstance(floor, (int, float)):
        return Start(floor / 100, math.inf) if floor else None
    table = floor if isinstance(floor, str) else "floor"
    known = floor if floor and isinstance(floor, Mapping) else _read(paths.noise_file(table, local))
    entries = {k: v for k, v in known.items() if isinstance(v, Mapping)}
    entry = entries.get(metric) or entries.get(metric_of(metric).kin or "tps") or entries.get("tps")
    if entry and not entry["cv_pct"]:
        entry = max(entries.values(), key=lambda e: e["cv_pct"])
    if not entry or not entry["cv_pct"]:
        return None
    return Start(entry["cv_pct"] / 100, entry["df"])


def pair_sds(names: Iterable[str], metric: str, threads: Sequence[int]) -> dict[int, float]:
    """{threads: sd of a pair in percent, at the nearest thread count that is known}, as measured on
    this machine, else as recorded; {} where none is. names: of workloads; the first that is known
    counts."""
    tables = [_read(paths.noise_file("noise", local)) for local in (True, False)]
    known = [t[n][metric] for n in names for t in tables if metric in t.get(n, {})]
    sds = {int(t): float(sd) for t, sd in known[0].items() if sd > 0} if known else {}
    return {t: sds[min(sds, key=lambda k: abs(math.log(k / t)))] for t in threads if sds}


def fits() -> dict[str, Any]:
    """What `data/raw/published/scatter/fit.py` wrote: `fits`, metric -> "long" or "short" -> fit;
    `shares`, the shares of pairs that exceed each of a fit's `log_ratios`. `left_out` of a fit is
    its check, without one source at a time: source, groups, inside_pct, experimental."""
    return _read(Path(__file__).with_name("prediction.json"))


@dataclass(frozen=True)
class Prediction:
    """How far two runs of one unchanged server differ, predicted from published repeats (one of the
    `fits`). scale: factor for means of several runs, 1 for two single runs."""

    fit: Mapping[str, Any]
    scale: float = 1.0

    @property
    def high_cv(self) -> float:
        """The CV (a fraction) that four servers out of five stay below."""
        return self.fit["high_cv_pct"] / 100

    def half(self, share: float) -> float:
        """The |log ratio| that this share of pairs exceeds."""
        return math.exp(_between(math.log(share), *self._curve[::-1])) * self.scale

    def chance(self, value: float) -> float:
        """Share of pairs that differ by a log ratio of this size or more; 1 for no difference."""
        least = self.fit["log_ratios"][0]
        size = max(abs(value) / self.scale, 1e-300)
        return 1.0 if size < least else math.exp(_between(math.log(size), *self._curve))

    @property
    def _curve(self) -> tuple[list[float], list[float]]:
        """Logs of |log ratio|, rising, and of the share that exceeds it, falling."""
        return [math.log(x) for x in self.fit["log_ratios"]], [
            math.log(x) for x in fits()["shares"]
        ]


def prediction(
    metric: str, seconds: float | None = None, n: Sequence[int] = (1, 1)
) -> Prediction | None:
    """The Prediction of a metric for runs of so many seconds (None: a minute or more); None for a
    size. A metric, or a length of runs, without a fit takes its kin's, else that of throughput.
    n: number of runs behind each mean with unknown scatter."""
    if metric in _SIZES:
        return None
    length = "short" if seconds and seconds < _LONG_S else "long"
    kin = (metric, metric_of(metric).kin or "tps", "tps")
    fit = next(f for m in kin if (f := fits()["fits"].get(m, {}).get(length)))
    return Prediction(fit, math.sqrt(sum(1 / k for k in n) / 2))


def _between(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """y at x on the line through the two nearest points, no further than the last point. xs may
    rise or fall."""
    sign = 1 if xs[-1] > xs[0] else -1
    i = bisect.bisect_left(xs, sign * x, 1, len(xs) - 1, key=lambda v: sign * v)
    share = min((x - xs[i - 1]) / (xs[i] - xs[i - 1]), 1.0)
    return ys[i - 1] + share * (ys[i] - ys[i - 1])
