"""The quiet-host gate, on hosts that are made up, and one probe of this one."""

import inspect
import json
import os
import signal
import threading
import time
from pathlib import Path
from statistics import median

import pytest

from noisefloor.measure import gate
from noisefloor.measure.gate import FIRST, PAUSE_S, PROBE_S, Gate

USUAL, SLOW, STOLEN = (1000.0, 0.01), (800.0, 0.01), (1000.0, 0.2)


class Host:
    """A host with a clock of its own; every probe takes `PROBE_S` and the last of `seen` stays."""

    def __init__(self, *seen: tuple[float, float] | None):
        self.seen, self.now, self.pauses = list(seen), 0.0, []

    def probe(self):
        self.now += PROBE_S
        return self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)

    def gate(self, minutes: float = 60, history: list[dict] | None = None) -> Gate:
        return Gate(minutes, history, probe=self.probe, sleep=self.sleep, clock=lambda: self.now)


def usual(*then, minutes: float = 60) -> tuple[Gate, Host]:
    """A gate that knows what is usual, on a host that then is like this."""
    host = Host(*[USUAL] * FIRST, *then)
    one = host.gate(minutes)
    for _ in range(FIRST):
        one.wait()
    assert host.pauses == []
    return one, host


def test_a_quiet_host_is_never_waited_for():
    one, host = usual((1010.0, 0.0), (910.0, 0.05), USUAL)
    facts = [one.wait() for _ in range(3)]
    assert facts[1] == {"waited_s": 0.0, "probes": 1, "speed": 0.91, "steal": 0.05, "first": []}
    assert [f["speed"] for f in facts] == [1.01, 0.91, 1.0]
    assert host.pauses == []
    assert one.waited_s == 0


@pytest.mark.parametrize("noisy", [SLOW, STOLEN, (899.0, 0.0), (1000.0, 0.07)])
def test_a_noisy_host_is_probed_again_after_a_second_until_it_is_quiet(noisy):
    one, host = usual(noisy, noisy, noisy, USUAL)
    facts = one.wait()
    waited_s = pytest.approx(3 * (PAUSE_S + PROBE_S))
    assert facts == {"waited_s": waited_s, "probes": 4, "speed": 1.0, "steal": 0.01, "first": []}
    assert host.pauses == [PAUSE_S] * 3
    assert one.waited_s == waited_s
    assert one.wait()["waited_s"] == 0
    assert one.waited_s == waited_s


def test_a_host_that_is_always_like_this_is_quiet():
    one = Host((500.0, 0.3)).gate()
    for _ in range(2 * FIRST):
        facts = one.wait()
        assert (facts["speed"], facts["steal"], facts["probes"]) == (1.0, 0.3, 1)
    assert one.waited_s == 0


@pytest.mark.parametrize("minutes", [0, 0.1, 1, 3.3, 60])
def test_waiting_ends_at_a_tenth_of_the_minutes_and_probes_go_on(minutes):
    one, host = usual(SLOW, minutes=minutes)
    facts = [one.wait() for _ in range(5)]
    limit_s, again_s = 6 * minutes, PAUSE_S + PROBE_S
    assert limit_s - again_s < one.waited_s <= limit_s
    assert [f["waited_s"] for f in facts[1:]] == [0] * 4
    assert [(f["probes"], f["speed"]) for f in facts[1:]] == [(1, 0.8)] * 4
    assert (one.waited_s > 0) == (limit_s >= again_s)
    assert sum(host.pauses) == PAUSE_S * round(one.waited_s / again_s)


def test_what_is_usual_is_the_median_of_the_first_ten_and_of_fewer_before():
    seen = [1000.0, 1100.0, 1200.0, 1130.0, 1140.0, 1150.0, 1160.0, 1170.0, 1180.0, 1190.0]
    host = Host(*((s, 0.0) for s in [*seen, 4000.0, 4000.0, 1155.0]))
    one = host.gate()
    found = [one.wait() for _ in range(FIRST + 3)]
    expected = [s / median(seen[: i + 1]) for i, s in enumerate(seen)]
    assert [f["speed"] for f in found[:FIRST]] == pytest.approx(expected, abs=1e-4)
    later = [s / median(seen) for s in (4000, 4000, 1155)]  # these do not move it
    assert [f["speed"] for f in found[FIRST:]] == pytest.approx(later, abs=1e-4)
    assert [len(f["first"]) for f in found] == [1] * FIRST + [0] * 3


def test_probes_of_a_wait_count_among_the_first_ten():
    host = Host(USUAL, USUAL, SLOW, SLOW, USUAL)
    one = host.gate()
    found = [one.wait() for _ in range(3)]
    assert found[2]["probes"] == 3
    assert found[2]["first"] == [list(SLOW), list(SLOW), list(USUAL)]


def test_a_campaign_that_is_continued_has_the_same_reference_and_the_same_limit():
    seen = [USUAL, USUAL, SLOW, USUAL, *[(1100.0, 0.02)] * 4, STOLEN, USUAL, USUAL, SLOW, USUAL]
    whole = Host(*seen)
    one = whole.gate(minutes=0.5)
    expected = [one.wait() for _ in range(9)]
    for stopped in range(1, 9):
        host = Host(*seen)
        history = [host.gate(minutes=0.5).wait()]
        for _ in range(stopped - 1):
            history.append(host.gate(0.5, json.loads(json.dumps(history))).wait())
        continued = host.gate(0.5, history)
        history += [continued.wait() for _ in range(9 - stopped)]
        assert history == expected
        assert continued.waited_s == one.waited_s
    assert sum(facts["waited_s"] > 0 for facts in expected) > 1


def test_where_the_system_tells_nothing_it_never_waits(monkeypatch):
    with monkeypatch.context() as lacking:
        lacking.setattr(gate, "STAT", Path("/proc/no-such-file"))
        assert gate.probe() is None
    monkeypatch.delattr(gate.os, "sched_getaffinity")
    one = Gate(60)
    told = {"speed": None, "steal": None, "first": []}
    assert one.wait() == {"waited_s": 0.0, "probes": 0, **told}
    assert one.waited_s == 0


def test_the_gate_cannot_know_what_follows():
    assert list(inspect.signature(Gate.wait).parameters) == ["self"]
    given = list(inspect.signature(Gate).parameters)
    assert given == ["minutes", "history", "probe", "sleep", "clock"]


def test_a_probe_of_this_machine():
    before, began = set(threading.enumerate()), time.monotonic()
    facts = Gate(60).wait()
    assert PROBE_S <= time.monotonic() - began < 1
    assert facts["probes"] == 1
    assert (facts["waited_s"], facts["speed"]) == (0.0, 1.0)
    assert 0 <= facts["steal"] <= 1
    ((speed, steal),) = facts["first"]
    assert speed > 1e6
    assert steal == facts["steal"]
    assert json.loads(json.dumps(facts)) == facts
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("during", ["the probe", "the pause"])
def test_a_ctrl_c_ends_it_at_once(during, request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    host = Host(USUAL, USUAL, SLOW)
    one = Gate(60) if during == "the probe" else Gate(60, probe=host.probe)
    if during == "the pause":
        one.wait()
        one.wait()
    threads, began = set(threading.enumerate()), time.monotonic()
    ctrl_c = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    ctrl_c.start()
    with pytest.raises(KeyboardInterrupt):
        one.wait()
    assert time.monotonic() - began < 0.1 + 0.3
    ctrl_c.join()
    assert set(threading.enumerate()) <= threads
