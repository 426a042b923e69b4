"""Pairs and blocks on real servers: the gate before each, what fails, what is proved, many
connections."""

import json
import os
import re
import signal
import threading
from dataclasses import replace

import numpy as np
import psutil
import pytest

from conftest import alive, campaigns, planned, signalled
from noisefloor import model, schedule, studies
from noisefloor.data import tidy
from noisefloor.measure import campaign as measuring
from noisefloor.measure import collect, loop, tools
from noisefloor.measure.gate import PROBE_S, Gate
from noisefloor.model import Arm, Workload
from noisefloor.servers.evidence import EvidenceError
from noisefloor.servers.server import ServerError
from test_collect import MAIN, SMOKE, cell_of, names

MISLABELLED = Arm("encrypted", expect={"binlog": "encrypted"})  # nobody switches it on
MANY = replace(SMOKE, design="side by side", workloads=(replace(MAIN, threads=(40,)),))


@pytest.fixture(scope="module")
def switched(shop, mysql, tmp_path_factory):
    """One running server, for the tests that leave it so."""
    with campaigns(shop, tmp_path_factory.mktemp("switched")) as begin:
        yield begin(SMOKE, mysql)[1]


@pytest.fixture
def on_one(campaign, mysql, switched):
    """on_one(study): as `campaign`, on that server."""
    return lambda chosen: campaign(chosen, mysql, bench=switched)


def whole(c) -> list[str]:
    """Names of the runs that count."""
    return [n for n in names(c.folder) if "." not in n]


def aside(c) -> list[str]:
    return [n for n in names(c.folder) if "." in n]


def no_data(c) -> None:
    """Nothing counts, and nothing is half-written."""
    assert tidy.tidy_table(c.folder).empty
    assert c.table.empty
    assert not list(c.folder.glob("*.partial"))
    assert [p for p in psutil.Process().children() if p.name() == "sysbench"] == []


# -- the gate before each pair ---------------------------------------------------------------------


class Told:
    """A gate that was asked so often, and what runs there were then; `wait` takes nothing."""

    def __init__(self, c):
        self.c, self.seen, self.waited_s = c, [], 0.0

    def wait(self) -> dict:
        self.seen.append(names(self.c.folder))
        self.waited_s += 0.5
        return {"waited_s": 0.5, "probes": 2, "speed": 1.0, "steal": 0.0, "first": [[1.0, 0.0]]}


def test_each_pair_asks_the_gate_once_before_either_of_its_runs(on_one):
    """A run that is made again, whose sysbench was killed, does not ask again; a warm-up never."""
    c, bench = on_one(SMOKE)
    c._gate = gate = Told(c)
    c.warm(bench, [(0, SMOKE.baseline)])
    (warm,) = names(c.folder)
    with signalled("sysbench"):
        c.pair(bench, cell_of(SMOKE))
    is_kept_as_failed(c)
    c.pair(bench, cell_of(SMOKE, "plain again"))
    assert len(gate.seen) == 2
    assert gate.seen[0] == [warm]
    assert not [n for n in gate.seen[1] if "plain-again" in n]
    runs = [tidy.read(r) for r in tidy.run_folders(c.folder)]
    assert len(runs) == 5
    assert all(f["gate"]["waited_s"] == 0.5 for f in runs if not f["warmup"])
    assert "gate" not in runs[0]
    assert tidy.meta(c.folder)["waited_s"] == 1.0
    again = measuring.Campaign(SMOKE, c.folder, tidy.meta(c.folder), c.progress)
    assert again._gate.waited_s == 1.0  # a pair counts once
    theirs = measuring.Campaign(
        replace(SMOKE, floor={"tps": (0.7, 3.0)}), c.folder, tidy.meta(c.folder), c.progress
    )
    assert theirs.quiet() == {}  # nobody looks at a server that is not ours


def is_kept_as_failed(c) -> None:
    """The first pair has a run that was made again."""
    (failed,) = aside(c)
    assert re.fullmatch(r"in-memory-t4-encrypted-p000-0-\w+\.failed1", failed)
    assert {p.name for p in (c.folder / failed).iterdir()} == {"failure.txt", "sysbench.txt"}
    assert len((c.folder / failed / "failure.txt").read_text().splitlines()) == 2
    assert len(whole(c)) == 3  # and the warm-up
    table, problems, _ = tidy.opened(c.folder).tidy_runs
    assert set(c.table["run"]) == set(table["run"]) == set(whole(c))
    assert problems == [
        f"{failed}: a run that failed, was changed or lost its partner; kept, not compared"
    ]


class Neighbours:
    """A host whose neighbours come and go, and come the more often after a run under the arm: what
    was measured may be known to the host, what follows cannot."""

    def __init__(self, seed: int):
        self.now, self.busy, self.after_arm = 0.0, False, False
        self.chance = np.random.default_rng(seed)

    def goes_on(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(round(seconds * 5)):
            comes = 0.03 if self.after_arm else 0.01
            self.busy = self.chance.random() < (0.9 if self.busy else comes)

    def probe(self) -> tuple[float, float]:
        self.goes_on(PROBE_S)
        return 1000 * self.chance.normal(0.8 if self.busy else 1.0, 0.02), 0.01

    def gate(self) -> Gate:
        return Gate(6000, probe=self.probe, sleep=self.goes_on, clock=lambda: self.now)


def apart(waited: np.ndarray, arm_first: np.ndarray, times: int = 2000) -> float:
    """How often chance alone makes the mean waiting times of the two orders differ by at least so
    much (a permutation test)."""

    def difference(order: np.ndarray) -> float:
        return abs(waited[order].mean() - waited[~order].mean())

    chance = np.random.default_rng(50)
    found = [difference(chance.permutation(arm_first)) for _ in range(times)]
    return (1 + sum(d >= difference(arm_first) - 1e-12 for d in found)) / (1 + times)


def orders(recorded, knows: bool, pairs: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """(seconds waited before each pair, whether the arm was measured first) of a campaign among such
    neighbours, by the code that measures; with those that know (`knows`) what follows."""
    meta, host = planned(tidy.meta(recorded), blocks=pairs), Neighbours(1)
    c = measuring.Campaign(model.study_of(meta), recorded, meta, collect.Progress())
    c._table, c._new, c._gate, made = c._table[:0], [], host.gate(), []
    cell = next(x for x in schedule.cells(c.study) if not x.control)

    def run(bench, s):
        host.goes_on(2)
        host.after_arm = s.arm is cell.arm
        made.append((s.facts["position"], s.facts["gate"]["waited_s"], s.arm is cell.arm))

    c.make_run, c.save = run, lambda: None
    for c.block in range(pairs):
        host.busy |= knows and schedule.order(c.seed, c.block, cell, 0) and c.block % 3 == 0
        c.pair(None, cell)
    first = np.array([f[1:] for f in made if f[0] == 0])
    assert len(first) == pairs
    return first[:, 0], first[:, 1].astype(bool)


def test_waiting_times_do_not_differ_by_the_order_of_the_pair_that_follows(recorded):
    waited, arm_first = orders(recorded, knows=False)
    assert 200 < arm_first.sum() < 400
    assert 50 < (waited > 0).sum() < 400
    assert apart(waited, arm_first) > 0.05


def test_waiting_that_knew_the_order_would_be_found(recorded):
    assert apart(*orders(recorded, knows=True)) < 0.001


# -- failing runs ----------------------------------------------------------------------------------


def test_a_run_that_fails_twice_costs_its_pair_and_three_the_campaign(on_one):
    """Also one with a setting that the server refuses."""
    bad = Arm("encrypted", options=("--no-such-option",))
    chosen = replace(SMOKE, arms=(bad, Arm("refused", switch={"port": "1"})))
    c, bench = on_one(chosen)
    c.pair(bench, cell_of(chosen, "refused"))
    assert "port: wanted 1, refused" in next(c.folder.glob("*.failed*/failure.txt")).read_text()
    c.pair(bench, cell_of(chosen))
    assert c.lost == 2
    with pytest.raises(
        measuring.CampaignError, match=r"3 pairs in a row were lost.*no-such-option"
    ):
        c.pair(bench, cell_of(chosen))
    no_data(c)
    assert whole(c) == []
    texts = [p.read_text() for p in c.folder.glob("*-encrypted.failed*/failure.txt")]
    assert len(texts) == 4
    assert all("no-such-option" in t for t in texts)
    c.pair(bench, cell_of(chosen, "plain again"))  # the others go on
    assert c.lost == 0
    assert c.done() == {"in-memory-t4-plain-again": 1}


def test_what_ends_a_campaign_leaves_no_data(campaign, mysql):
    """Evidence that contradicts the arm; a killed server."""
    chosen = replace(SMOKE, arms=(MISLABELLED,))
    c, bench = campaign(chosen, mysql)
    with pytest.raises(EvidenceError, match="the binlog should be encrypted, but SHOW BINARY LOGS"):
        c.pair(bench, cell_of(chosen))
    assert tidy.tidy_table(c.folder).empty  # nor is the other half of its pair
    assert not [n for n in names(c.folder) if n.endswith("encrypted")]
    threading.Timer(0.7, os.kill, (bench.servers[0].pid, signal.SIGKILL)).start()
    with pytest.raises(ServerError, match="the server is not running"):
        c.pair(bench, cell_of(chosen, "plain again"))
    assert tidy.tidy_table(c.folder).empty
    assert not list(c.folder.glob("*.partial"))


def test_arms_do_not_inherit_from_each_other(on_one):
    """The baseline says nothing of what the arm sets; each workload has settings of its own."""
    arms = (Arm("few", switch={"innodb_io_capacity": "321"}),)
    chosen = replace(SMOKE, baseline=Arm("default"), arms=arms)
    c, bench = on_one(chosen)
    before = bench.servers[0].variables()["innodb_io_capacity"]
    others = (Workload("other", "", settings={"sync_binlog": "3"}), Workload("none", ""))
    for workload in (MAIN, *others):
        c.proved.clear()  # it is looked at once a block
        c.pair(bench, cell_of(chosen, "few", workload))
    found = {}
    for run in tidy.run_folders(c.folder):
        facts = tidy.read(run)
        file = json.loads((run / "variables.json").read_text())["file"]
        v = json.loads((c.folder / file).read_text())
        found[facts["workload"], facts["arm"]] = (v["sync_binlog"], v["innodb_io_capacity"])
    assert found == {
        (workload, arm): (sync, capacity)
        for workload, sync in (("in memory", "1"), ("other", "3"), ("none", "1"))
        for arm, capacity in (("default", before), ("few", "321"))
    }


def test_a_lost_pair_is_made_anew_under_a_free_number(on_one):
    c, bench = on_one(SMOKE)
    for _ in range(2):
        c.pair(bench, cell_of(SMOKE))
    for run in c.folder.glob("*-p000-*"):
        (run / "sysbench.txt").write_text("edited")
    again = measuring.Campaign(SMOKE, c.folder, c.meta, c.progress)
    assert again.done() == {"in-memory-t4-encrypted": 1}
    again.pair(bench, cell_of(SMOKE))
    assert sorted(tidy.tidy_table(c.folder).drop_duplicates("run")["pair"]) == [0, 0, 1, 1]


def test_what_needs_perf_warms_up_without_it():
    chosen = studies.load(model.Request("binlog-encryption", "profile"))
    assert chosen.workloads[0].tool == "profile"
    assert measuring.warm_up(chosen).workload.tool == "sysbench"


def test_a_block_ends_where_this_machine_allows_no_arm(on_one, monkeypatch):
    """The control alone is nothing to go on with."""

    def allows(arm, work):
        if arm == SMOKE.arms[0]:
            raise tools.NotHere(arm.name, "no sshd")

    c, bench = on_one(SMOKE)
    c.block, c.plan["control"], rounds = 0, 1, iter([{}] * 9)
    monkeypatch.setattr(bench, "ready", allows)
    monkeypatch.setattr(c, "pair", lambda pool, cell: None)
    monkeypatch.setattr(c, "done", lambda block: next(rounds))
    loop._block(c, bench, None)
    assert c.meta["skipped"] == {"encrypted": "no sshd"}


def test_warnings_say_what_makes_a_run_less_trustworthy():
    used = {"cpu_s": 1.0, "written_B": 1000}

    def warnings(cpu_s, written_B, settled=True):
        idle = {"cpu_s": cpu_s, "written_B": written_B}
        settle = {"settled": settled, "dirty_pages": 12.0}
        return measuring._warnings({"usage": {"server": used, "idle0": idle}}, settle)

    over = "carry-over: the idle server used"
    assert warnings(0.02, 20) == []
    assert warnings(0.03, 20) == [f"{over} 3.0 % of the CPU"]
    assert warnings(0, 50) == [f"{over} 5.0 % of the writes"]
    assert warnings(0, 0, False) == ["not settled: 12 dirty pages after the wait"]


# -- other tools and conditions --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [1, 2])
def test_two_replicas_catch_up_at_once_with_plain_and_encrypted_logs(campaign, mysql, pairs):
    chosen = studies.load(model.Request("binlog-encryption", "replica", profile="smoke"))
    c, bench = campaign(chosen, mysql, chosen.baseline, *chosen.arms)
    (work,), (arm,) = chosen.workloads, chosen.arms
    bench.ready(arm, work)
    for _ in range(pairs):  # the second time with new replicas: one catches up once
        c.pair(bench, cell_of(chosen, workload=work))
    table = tidy.tidy_table(c.folder)
    assert set(table["metric"]) == {"apply_rate", "apply_cpu", "steal"}
    assert (table.loc[table["metric"] != "steal", "value"] > 0).all()
    for pair in ("p000", "p001")[:pairs]:
        both = [tidy.read(run) for run in tidy.run_folders(c.folder) if pair in run.name]
        assert len({f["apply_s"] for f in both}) == 1  # until the first has all
        assert max(f["applied"] / f["backlog"] for f in both) == 1
    for run in tidy.run_folders(c.folder):
        facts = tidy.read(run)
        assert facts["usage"].keys() == {"source", "replica"}
        checks = {(e["evidence"], e["found"]) for e in facts["replica_evidence"]}
        assert checks == {("source's log", facts["arm"]), ("relay log", facts["arm"])}
    lags = tidy.lags(c.folder)
    first = lags.groupby("run")["behind"].max()
    assert (first >= work.events * 0.5).all()
    assert lags.groupby("run")["behind"].min().min() <= 0
    pids = [s.pid for s in bench.servers]
    bench.close()
    assert not any(alive(p) for p in pids)


def test_a_large_transaction_does_not_fit_into_the_cache_of_its_session(campaign, mysql):
    chosen = studies.load(model.Request("binlog-encryption", "headline", profile="smoke"))
    c, bench = campaign(chosen, mysql)
    for name in ("in memory", "large transactions"):
        c.pair(bench, cell_of(chosen, workload=chosen.workload(name)))
    rows = tidy.tidy_table(c.folder)
    spilled = rows[rows["metric"].eq("binlog_spills")].groupby("workload")["value"]
    assert spilled.max()["in memory"] < 0.1
    assert spilled.min()["large transactions"] > 0.9


@pytest.mark.slow
def test_a_failed_run_leaves_no_slow_disk(campaign, mysql):
    slow = Workload("slow", "", writes_per_s=50, settings={"sync_binlog": "1"})
    chosen = replace(SMOKE, workloads=(slow,))
    c, bench = campaign(chosen, mysql)
    try:
        bench.throttle(bench.servers[0], slow)
    except tools.NotHere as e:
        pytest.skip(e.reason)
    with signalled("sysbench", 2):
        c.pair(bench, cell_of(chosen, workload=slow))
    assert c.lost == 1
    (slow_disk,) = bench._slow.values()
    group = slow_disk.group
    limits = group / "blkio.throttle.write_iops_device"
    text = (limits if limits.exists() else group / "io.max").read_text()
    assert "50" not in text.split()
    assert "wiops=50" not in text
    bench.close()
    assert not group.exists()


# -- evidence --------------------------------------------------------------------------------------


def test_evidence_is_taken_with_the_first_run_of_a_block_and_at_its_end(on_one, monkeypatch):
    """What was looked at with an attempt that failed does not count for the block."""
    real, lost = tidy.metrics, []

    def metrics(facts, folder):
        if not lost and facts["arm"] == "encrypted":
            lost.append(folder)
            raise tidy.Unusable("3 reconnects")
        return real(facts, folder)

    monkeypatch.setattr(tidy, "metrics", metrics)
    c, bench = on_one(SMOKE)
    c.warm(bench, [(0, SMOKE.baseline)])
    for _ in range(2):
        c.pair(bench, cell_of(SMOKE))
    runs = tidy.run_folders(c.folder)
    assert len(list(c.folder.glob("*-encrypted.failed1"))) == 1
    first, second = (r.name for r in runs if (r / "evidence.json").exists())
    assert first == "warm-up-b00-0-plain"
    assert re.fullmatch(r"in-memory-t4-encrypted-p000-\d-encrypted", second)
    c.closing(bench, [(0, a) for a in (SMOKE.baseline, *SMOKE.arms)])
    (file,) = tidy.blocks(c.folder)
    assert file.name == "block-00.json"
    closing = json.loads(file.read_text())
    kept = {n: json.loads((c.folder / v["file"]).read_text()) for n, v in closing.items()}
    for name, on in (("plain", "OFF"), ("encrypted", "ON")):
        assert {x["found"] for x in closing[name]["checks"]} == {name}
        assert kept[name]["binlog_encryption"] == on
    counted = tidy.evidence(c.folder).groupby("arm")["runs"].sum()
    assert counted["plain"] == counted["encrypted"] == 2 * 3  # a run and the end, three checks each


def test_an_arm_that_is_not_in_force_at_the_end_of_a_block_takes_the_block_with_it(on_one):
    seen = {"innodb_flush_neighbors": "0"}  # nothing sets it, so nothing sets it back
    base, arm = (replace(a, expect=seen) for a in (SMOKE.baseline, *SMOKE.arms))
    chosen = replace(SMOKE, baseline=base, arms=(arm,))
    c, bench = on_one(chosen)
    arms = [(0, base), (0, arm)]
    c.pair(bench, cell_of(chosen))
    c.closing(bench, arms)  # of a block that is whole
    c.block += 1
    c.proved.clear()
    c.warm(bench, [(0, base)])
    c.pair(bench, cell_of(chosen))
    bench.servers[0].query("SET GLOBAL innodb_flush_neighbors = 1")  # somebody did
    with pytest.raises(EvidenceError, match=r"innodb_flush_neighbors should be 0, but .* says 1"):
        c.closing(bench, arms)
    assert [f.name for f in tidy.blocks(c.folder)] == ["block-00.json"]
    assert c.done() == {"in-memory-t4-encrypted": 1}
    unproved = [n for n in names(c.folder) if ".unproved1" in n]
    assert len(unproved) == 3  # a pair, and the warm-up before it
    table, problems, _ = tidy.opened(c.folder).tidy_runs
    assert set(table["block"]) == {0}
    assert all(any(p.startswith(f"{n}: ") for p in problems) for n in unproved)
    again = measuring.Campaign(chosen, c.folder, c.meta, c.progress)
    assert again.done() == {"in-memory-t4-encrypted": 1}
    again.block = 1
    bench.servers[0].query("SET GLOBAL innodb_flush_neighbors = 0")
    again.pair(bench, cell_of(chosen))  # the same command measures the block anew
    assert again.done() == {"in-memory-t4-encrypted": 2}


# -- many connections, made before the clock -------------------------------------------------------


def test_many_connections_are_there_before_either_run_begins(campaign, mysql, monkeypatch):
    """Also where one of them is killed, and made again."""
    c, bench = campaign(MANY, mysql, MANY.baseline, *MANY.arms)
    seen, real = [], tools.Gated.go

    def go(gate):
        # the one that is not measured stands still: it is asked nothing
        found = [len(psutil.Process(s.pid).net_connections("unix")) for s in bench.servers]
        seen.append((found, gate.has_printed(b"Threads started!")))
        real(gate)

    cell = cell_of(MANY, workload=MANY.workloads[0])
    with monkeypatch.context() as patch:
        patch.setattr(tools.Gated, "go", go)
        c.pair(bench, cell)
    assert len(seen) == 2
    assert min(seen[0][0]) >= 40  # both servers have theirs before the first run
    assert not any(started for _, started in seen)
    assert c.done() == {"in-memory-t40-encrypted": 1}
    for run in tidy.run_folders(c.folder):
        out, facts = tidy.Run(run).sysbench, tidy.read(run)
        assert out["threads"] == 40
        assert facts["argv"][:2] == ["sysbench", "oltp_read_write"]  # not how it was held back
        assert 0.9 <= out["duration_s"] < 3
    assert not list(bench.folder.glob("gates-*"))
    with signalled("sysbench"):
        c.pair(bench, cell)
    failed = aside(c)  # more than one where a transaction met a deadlock as well
    assert failed
    assert all(".failed" in name for name in failed)
    assert c.done() == {"in-memory-t40-encrypted": 2}
