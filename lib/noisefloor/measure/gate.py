"""The quiet-host gate: a pair begins when the host is as quiet as at the campaign's beginning."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from noisefloor.servers.sandbox import ctrl_c

PROBE_S = 0.2  # steal is counted in hundredths of a second: on two cores these are 40 of them
PAUSE_S = 1.0  # between two probes: a neighbour's burst lasts for seconds
FIRST = 10  # probes that say what is usual here; their median is safe from four bursts
_SLOWEST = 0.9  # of the usual speed: on a quiet host two probes differ by a few per cent
_MORE_STEAL = 0.05  # share of the cores above the usual steal: a tenth of a core of two
WAITING = 0.1  # share of the campaign's minutes; a host that is never quiet is measured as it is
STAT = Path("/proc/stat")
_BUFFER = bytes(1 << 20)  # hashlib lets go of the GIL for it, and seldom asks for it again

_Probe = tuple[float, float]  # bytes hashed a second on all cores, share of the cores stolen


def probe() -> _Probe | None:
    """One look at the host: `PROBE_S` of work on every core that is ours. None on a system without
    /proc/stat or without threads that stay on a core."""
    try:
        cores = os.sched_getaffinity(0)
        before, began = stolen_s(cores), time.monotonic()
        until = began + PROBE_S
        with ThreadPoolExecutor(len(cores)) as executor:
            speed = sum(executor.map(lambda core: _hashed(core, until), cores))
        taken_s, took_s = stolen_s(cores) - before, time.monotonic() - began
    except (AttributeError, OSError):
        return None
    return float(round(speed)), round(taken_s / took_s / len(cores), 4)


def _hashed(core: int, until: float) -> float:
    """Bytes a second that this thread hashes on `core`, until `until` (monotonic s)."""
    os.sched_setaffinity(0, {core})
    began, hashed = time.monotonic(), 0
    while not hashed or time.monotonic() < until:
        hashlib.sha256(_BUFFER)
        hashed += len(_BUFFER)
    return hashed / (time.monotonic() - began)


def stolen_s(cores: Iterable[int]) -> float:
    """Seconds that the host took from these cores since boot. Raises OSError."""
    names = {f"cpu{core}" for core in cores}
    lines = map(str.split, STAT.read_text().splitlines())
    return sum(int(words[8]) for words in lines if words[0] in names) / os.sysconf("SC_CLK_TCK")


class Gate:
    """Waits until the host is quiet. It knows the campaign's minutes and its own earlier probes,
    and nothing of the runs that follow, so that waiting cannot favour an arm."""

    def __init__(
        self,
        minutes: float,
        history: list[dict[str, Any]] | None = None,
        *,
        probe: Callable[[], _Probe | None] = probe,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`minutes`: the whole campaign's. `history`: what `wait` returned in it before."""
        self.limit_s = WAITING * 60 * minutes
        self._probe, self._sleep, self._clock = probe, sleep, clock
        self._first: list[_Probe] = []
        self.waited_s = 0.0  # in all
        for facts in history or []:
            self._first += [(speed, steal) for speed, steal in facts["first"]]
            self.waited_s += facts["waited_s"]

    def wait(self) -> dict[str, Any]:
        """Probe, and wait while the host is not quiet and the campaign may wait longer. Facts to be
        kept: `waited_s`, `probes` (how many); of the last probe `speed` (1.0: as usual) and `steal`
        (share of the cores), None if the system does not report them; `first`, the probes of this
        call that count among the campaign's first ten."""
        before = len(self._first)
        facts: dict[str, Any] = {"waited_s": 0.0, "probes": 0}
        quiet, last = self._look(facts)
        began = self._clock()
        longest_s = self.limit_s - self.waited_s - PAUSE_S - PROBE_S  # with another pause and probe
        while not quiet and facts["waited_s"] <= longest_s:
            self._sleep(PAUSE_S)
            ctrl_c()
            quiet, last = self._look(facts)
            facts["waited_s"] = round(self._clock() - began, 3)
        self.waited_s += facts["waited_s"]
        return facts | last | {"first": [list(p) for p in self._first[before:]]}

    def _look(self, facts: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
        """One more probe: whether the host is quiet, and what is to be kept of the probe."""
        if (seen := self._probe()) is None:
            return True, {"speed": None, "steal": None}
        facts["probes"] += 1
        if len(self._first) < FIRST:
            self._first.append(seen)
        speeds, steals = zip(*self._first, strict=True)
        speed, steal = seen[0] / median(speeds), seen[1]
        quiet = speed >= _SLOWEST and steal <= median(steals) + _MORE_STEAL
        return quiet, {"speed": round(speed, 4), "steal": steal}
