"""Windows at a rate: what saturates, and the percentiles of a block."""

import math
import threading
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from noisefloor import schedule, studies
from noisefloor.data import question, tidy
from noisefloor.data.tidy import rates
from noisefloor.measure import campaign
from noisefloor.model import Request
from noisefloor.parse import RESOLUTION
from noisefloor.stats.verdict import CANNOT_TELL, PROVISIONAL

SECONDS, RATE, CLIENTS = 8, 500, 64


def text(n=SECONDS * RATE, length=(0,) * SECONDS, concurrency=(3,) * SECONDS, seconds=SECONDS):
    """What the parser gives of a window, as far as it is read."""
    queue = {"length": np.array(length), "concurrency": np.array(concurrency)}
    return {"transactions": n, "duration_s": float(seconds), "queue": queue}


@pytest.mark.parametrize(
    ("given", "saturated"),
    [
        ({}, 0),
        ({"concurrency": (1, 9, 2, 30, 4, 1, 6, 25)}, 0),  # bursts
        ({"length": (0, 0, 0, 0, 0, 0, 0, 39)}, 0),  # 99.03 % are finished
        ({"length": (0, 0, 0, 0, 0, 0, 0, 41)}, 1),  # 98.98 %
        ({"length": range(0, 320, 40), "n": 3_700}, 1),
        ({"concurrency": (2, 4, 8, 9, 50, 55, 60, 64)}, 1),  # all through the second half
        ({"n": SECONDS * RATE - 200}, 0),  # the arrivals are random: 3.2 standard deviations
        ({"n": SECONDS * RATE - 260}, 1),  # 4.1: the client did not offer so many
        ({"n": 0, "length": (), "concurrency": ()}, 1),
    ],
)
def test_a_window_is_saturated_when_its_load_is_not_served(given, saturated):
    found = rates.window(text(**given), RATE, CLIENTS)
    assert found["saturated"] == saturated
    assert found["reached_rate"] == pytest.approx(given.get("n", 4_000) / SECONDS)


def test_a_sample_is_busy_when_every_client_is():
    given = text(concurrency=(64, 3, 64, 63, 0, 64, 1, 2))
    assert rates.window(given, RATE, CLIENTS)["clients_busy"] == 3 / 8
    nothing = text(length=(), concurrency=())
    assert math.isnan(rates.window(nothing, RATE, CLIENTS)["clients_busy"])


def histogram(latencies_s):
    """Sysbench's buckets of 1.8 % and the events in each."""
    step = math.log1p(RESOLUTION)
    at, counts = np.unique(np.round(np.log(latencies_s / 1e-6) / step), return_counts=True)
    return {"histogram_s": 1e-6 * np.exp(at * step), "histogram_counts": counts}


def test_a_percentile_is_interpolated_within_its_bucket():
    drawn = np.random.default_rng(5).lognormal(math.log(0.01), 0.5, 200_000)
    for q in (0.5, 0.95, 0.99):
        h = histogram(drawn)
        found = rates.within(h["histogram_s"], h["histogram_counts"], q)
        assert found == pytest.approx(np.quantile(drawn, q), rel=0.002)  # a ninth of a bucket
    one = rates.within(np.array([0.01]), np.array([4]), 0.5)
    assert one == pytest.approx(0.01)


class Run:
    def __init__(self, name, out):
        self.name, self.sysbench = name, out


def block(*windows, arms=("OFF", "ON"), workload="load"):
    """(tidy rows, runs) of one block: windows of (saturated of each arm, latencies of each arm)."""
    rows, runs = [], []
    for n, (full, drawn) in enumerate(windows):
        for i, arm in enumerate(arms):
            name = f"p{n}-{i}"
            out = {"cpu_per_transaction": 0.001 * (1 + i), "saturated": float(full[i])}
            key = {"study": "s", "campaign": "c", "workload": workload, "threads": 64, "block": 0}
            key |= {"pair": n, "pair_id": f"p{n}", "position": i, "arm": arm, "warmup": False}
            rows += [
                key | {"metric": m, "value": v, "unit": "", "run": name} for m, v in out.items()
            ]
            runs.append(Run(name, histogram(drawn[i])))
    return tidy.frame(rows), runs


def test_the_percentiles_of_a_block_are_those_of_all_its_transactions():
    draw = np.random.default_rng(6).lognormal
    calm, busy = draw(-5, 0.3, 4_000), draw(-3, 0.3, 4_000)
    table, runs = block(((0, 0), (calm, calm)), ((0, 0), (calm, busy)))
    found = rates.by_block(table, runs)
    p99 = found[found["metric"] == "p99"].set_index("arm")["value"]
    assert p99["OFF"] == pytest.approx(np.quantile(calm, 0.99), rel=0.01)
    assert p99["ON"] == pytest.approx(np.quantile(np.concatenate([calm, busy]), 0.99), rel=0.01)
    each = np.mean([np.quantile(calm, 0.99), np.quantile(busy, 0.99)])
    assert p99["ON"] > 1.3 * each, "the mean of two windows' percentiles is another number"
    assert len(p99) == 2
    assert found.loc[found["metric"] == "p99", "pair_id"].tolist() == ["p0", "p0"]
    assert not found["metric"].eq("p999").any(), "8,000 transactions hold 8 beyond it"
    more = draw(-5, 0.3, 6_000)
    found = rates.by_block(*block(((0, 0), (calm, calm)), ((0, 0), (more, more))))
    p999 = found.loc[found["metric"] == "p999", "value"].tolist()
    whole = np.quantile(np.concatenate([calm, more]), 0.999)  # 10 of 10,000 lie beyond it
    assert p999 == pytest.approx([whole] * 2, rel=0.03)


def test_a_saturated_window_counts_for_neither_arm():
    draw = np.random.default_rng(7).lognormal
    calm, wild = draw(-5, 0.3, 4_000), draw(-1, 0.3, 4_000)
    table, runs = block(((0, 1), (calm, wild)), ((0, 0), (calm, calm)))
    found = rates.by_block(table, runs)
    assert set(found.loc[found["metric"] == "cpu_per_transaction", "pair_id"]) == {"p1"}
    p99 = found[found["metric"] == "p99"]
    assert set(p99["pair_id"]) == {"p1"}
    assert p99["value"].max() < 0.02
    assert rates.saturated(table, "OFF") == {"load": {"ON": [1, 2]}}


def judged(
    study, full=0, windows=20, seed=8, metric="cpu_per_transaction", swing=0.0, plan=None, kept=20
):
    """The verdict row of a metric of a study at one rate: 10 % more, so many of its windows
    saturated, and kept; swing: by which its blocks differ; plan: what was declared."""
    (work,), arms = study.workloads[:1], study.compared
    rng, rows = np.random.default_rng(seed), []
    for pair, (i, arm) in product(range(min(windows, kept)), enumerate(arms)):
        key = {"study": study.name, "campaign": "c", "workload": work.name, "threads": 64}
        key |= {"block": pair // 2, "pair": pair, "pair_id": f"p{pair}", "position": i}
        key |= {"arm": arm.name, "warmup": False, "run": f"p{pair}-{i}", "unit": "s"}
        value = 0.001 * (1 + 0.1 * i) * rng.normal(1, 0.005)
        value *= math.exp(i * swing * (-1) ** key["block"])
        rows.append(key | {"metric": metric, "value": value})
    saturated = {work.name: {study.arms[0].name: [full, windows]}} if full else {}
    return schedule.judge_campaign(
        study, tidy.frame(rows), plan, saturated=saturated, pair_seconds=8
    )


@pytest.fixture
def ab():
    return studies.load(Request("own-study", settings=("sync_binlog=1,0",), rate=RATE))


def test_minutes_are_those_of_windows_and_none_are_told_of_percentiles_of_a_block(ab):
    cpu, p99 = (judged(ab, metric=m, swing=0.3).iloc[0] for m in ("cpu_per_transaction", "p99"))
    assert cpu["verdict"] == p99["verdict"] == CANNOT_TELL
    assert cpu["minutes_needed"] == pytest.approx(cpu["runs_needed"] * 8 / 60)
    assert p99["runs_needed"] > 20
    assert math.isnan(p99["minutes_needed"])


def test_up_to_a_tenth_of_saturated_windows_is_said(ab):
    (row,) = judged(ab, full=2).to_dict("records")
    assert (row["verdict"], row["worse"]) == ("more", True)
    assert row["warnings"][0].startswith("saturated: 2 of 20 windows")


def test_over_a_tenth_of_saturated_windows_there_is_neither_interval_nor_word(ab):
    table = judged(ab, full=3)
    alone = table.iloc[0]
    whole = question.combined([("boot", table)], ab, "a CPU").iloc[0]
    for row in (alone, whole):  # of the campaign, and of all sittings of the question
        assert (row["verdict"], bool(row["worse"])) == (CANNOT_TELL, False)
        assert math.isnan(row["lo_pct"])
        assert row["warnings"][0] == "saturated in 3 of 20 windows: no word at this rate"
        assert (row["known"], math.isnan(row["minutes_needed"])) == ("", True)


@pytest.mark.parametrize(("blocks", "early"), [(10, False), (20, True)])
def test_a_campaign_that_was_cut_short_says_so_beside_its_saturated_windows(ab, blocks, early):
    """Its 20 windows are ten blocks of two; the two that were saturated are the last of them."""
    table = judged(ab, full=2, plan={"blocks": blocks, "pairs": 2}, kept=18)
    assert ("ended early" in " ".join(table.iloc[0]["warnings"])) == early


def test_a_campaign_that_a_reboot_ended_in_its_first_block_is_judged(ab):
    """Its plan does not know yet how many windows a block has."""
    table = judged(ab, full=1, plan={"blocks": 10, "pairs": 0}, kept=3)
    assert "ended early" in " ".join(table.iloc[0]["warnings"])


def test_a_sitting_that_saturated_says_nothing_beside_another(ab):
    asked = replace(ab, sittings=2)
    both = [("one", judged(ab)), ("two", judged(ab, full=3, seed=9))]
    row = question.combined(both, asked, "a CPU").iloc[0]
    assert (row["sittings"], row["verdict"]) == (1, PROVISIONAL)


@pytest.mark.parametrize(("deciding", "word"), [(("p99",), ""), (("mean_latency",), "slower")])
def test_mean_latency_has_its_interval_and_a_word_only_where_it_decides(ab, deciding, word):
    study = replace(ab, workloads=(replace(ab.workloads[0], deciding=deciding),), margin_pct=2.0)
    table = judged(study, metric="mean_latency")
    whole = question.combined([("boot", table)], study, "a CPU")
    for row in (
        table.iloc[0],
        whole.iloc[0],
    ):  # of the campaign, and of all sittings of the question
        assert (row["verdict"], bool(row["worse"])) == (word, word == "slower")
        assert row["lo_pct"] > 5
    unclear = judged(study, metric="mean_latency", swing=0.3).iloc[0]
    assert unclear["lo_pct"] < 0 < unclear["hi_pct"]
    silent = [unclear["known"] == "", *unclear[["runs_needed", "minutes_needed"]].isna()]
    assert silent == 3 * [not word]
    assert judged(study, metric="mean_latency", full=3).iloc[0]["verdict"] == (word and CANNOT_TELL)


def test_comparisons_at_all_rates_hold_95_percent_together():
    study = studies.load(Request("binlog-encryption", "rate", profile="standard"))
    assert len(study.workloads) == 4
    assert judged(study)["together"].tolist() == [4]


def test_both_servers_write_their_pages_at_once_before_a_window(ab, tmp_path, monkeypatch):
    both = threading.Barrier(2)  # one after the other would not pass it
    flushed = []

    def flush(server, limit_s):
        both.wait(5)
        flushed.append((server, limit_s))

    monkeypatch.setattr(campaign.innodb, "flush", flush)
    warms = SimpleNamespace(
        study=ab,
        block=0,
        folder=tmp_path,
        slice=lambda cell, arm, *given, **place: SimpleNamespace(server=arm.name),
        _plain=lambda work: True,
        _made=lambda *given: None,
    )
    campaign.Campaign.warm(warms, None, [*enumerate(ab.compared)])
    assert sorted(flushed) == sorted((arm.name, 5.0) for arm in ab.compared)
