"""Which run comes next: pure."""

import itertools
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from noisefloor import model as study
from noisefloor import schedule, stats, studies
from noisefloor.measure.preflight import planned

QUICK = studies.load(study.Request("binlog-encryption", profile="quick"))
ASKED = study.Request("binlog-encryption", profile="standard")
STANDARD = studies.load(ASKED)
ARMS = tuple(study.Arm(n) for n in ("b", "c", "d"))


# -- coins -----------------------------------------------------------------------------------------


def test_a_coin_depends_on_all_of_its_key_and_on_nothing_else():
    one = schedule.cells(STANDARD)[0]
    flips = [schedule.order(5, 0, one, p) for p in range(64)]
    np.random.default_rng().integers(2, size=9)
    assert flips == [schedule.order(5, 0, one, p) for p in range(64)]
    others = [
        [schedule.order(6, 0, one, p) for p in range(64)],
        [schedule.order(5, 1, one, p) for p in range(64)],
        *([schedule.order(5, 0, c, p) for p in range(64)] for c in schedule.cells(STANDARD)[1:]),
    ]
    agree = [sum(a == b for a, b in zip(flips, o, strict=True)) for o in others]
    assert max(agree) < 52  # 32 expected; 2 in a million would go over this by chance
    assert min(agree) > 12


def test_coins_are_fair_and_the_first_says_nothing_about_the_next():
    cells = schedule.cells(STANDARD)
    every = itertools.product(range(5), range(5), cells, range(20))
    flips = [schedule.order(*key) for key in every]
    assert abs(sum(flips) - len(flips) / 2) < 5 * np.sqrt(len(flips)) / 2
    f = np.array([schedule.order(s, 0, cells[0], p) for s in range(40) for p in range(50)])
    assert abs(np.corrcoef(f[:-1], f[1:])[0, 1]) < 5 / np.sqrt(len(f))


# -- the plan --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("profile", "blocks"), [("smoke", 2), ("quick", 8), ("standard", 10)])
def test_the_number_of_blocks_is_declared(profile, blocks):
    found = schedule.plan(studies.load(study.Request("binlog-encryption", profile=profile)))
    assert found.keys() == {"blocks", "control", "pairs", "expected"}
    assert found["blocks"] == blocks
    assert found["pairs"] == 0  # what the first block has time for
    assert found["control"] == (schedule.CONTROL_BLOCKS if profile == "standard" else 0)


def test_a_budget_that_holds_no_slice_is_refused():
    short = replace(STANDARD, profile=replace(STANDARD.profile, budget_min=0.5))
    with pytest.raises(study.StudyError, match=r"budget 0\.5: more than [\d.]+ minutes are needed"):
        schedule.check(short)


def test_a_window_at_a_low_rate_needs_a_longer_budget():
    asked = study.Request("own-study", settings=("sync_binlog=1,0",), rate=10, budget_min=1)
    with pytest.raises(study.StudyError, match=r"budget 1: more than [\d.]+ minutes are needed"):
        schedule.check(studies.load(asked))


@pytest.mark.parametrize("profile", ["quick", "standard"])
def test_every_question_declares_blocks_enough(profile):
    """Eight in a quick campaign and ten in a standard one: fewer let Student's t say little."""
    least = {"quick": 8, "standard": 10}[profile]
    for name in studies.STUDIES:
        for key in studies.questions(name):
            asked = studies.load(study.Request(name, key, profile=profile))
            assert schedule.plan(asked)["blocks"] >= least, (name, key)


# -- what it is to find out ------------------------------------------------------------------------


@pytest.fixture
def noise(tmp_path, monkeypatch):
    """noise(fields): the recorded A/A scatter is this one."""

    def write(fields):
        (tmp_path / f"noise{len(list(tmp_path.iterdir()))}.json").write_text(json.dumps(fields))
        newest = max(tmp_path.glob("noise*.json"))
        monkeypatch.setattr(stats.scatter.paths, "noise_file", lambda name, local=True: newest)

    return write


def test_the_half_width_to_expect_is_that_of_a_thread_count(noise):
    """By hand: eight blocks, Student's t, the sd of a pair."""
    noise({"binlog-encryption: in memory": {"tps": {"4": 2.0, "64": 9.0}}})
    quick = replace(QUICK, workloads=QUICK.workloads[:1])
    found = schedule.plan(quick)
    assert found["expected"].keys() == {"tps"}  # of nothing else is any recorded
    block = 60 * QUICK.profile.budget_min / 8 - schedule.starting_s(quick)
    pairs = int(block / schedule._pair_s(quick, schedule.cells(quick)[0]))
    assert pairs > 0
    half = stats.student.quantile(0.975, 7) * 0.02 / math.sqrt(8 * pairs)
    assert found["expected"]["tps"] == pytest.approx(100 * math.expm1(half), abs=0.01)


def test_more_pairs_and_less_noise_let_expect_a_narrower_interval(noise):
    one = {"binlog-encryption: in memory": {"tps": {"4": 2.0}, "cpu_per_transaction": {"4": 1.0}}}
    noise(one | {"tps": {"cv_pct": 0.5, "df": 9}})
    declared = schedule.plan(QUICK)
    found = declared["expected"]
    assert 0 < found["cpu_per_transaction"] < found["tps"]
    assert schedule.expected(QUICK, declared, pairs=20)["tps"] < found["tps"]
    side = replace(QUICK, design="side by side")  # two servers differ by more than their pairs do
    assert schedule.expected(side, declared)["tps"] > found["tps"]
    four = replace(QUICK, arms=(*QUICK.arms, *ARMS))  # whose intervals hold the truth together
    assert (
        schedule.expected(four, declared, 9)["tps"] > schedule.expected(QUICK, declared, 9)["tps"]
    )
    assert schedule.plan(STANDARD)["expected"].keys() == {"tps", "cpu_per_transaction"}


def test_of_a_percentile_no_less_than_half_a_bucket_is_expected():
    asked = study.Request("own-study", settings=("sync_binlog=1,0",), rate=500, server="env")
    one_start = studies.load(asked)
    halves = schedule.expected(one_start, {"blocks": 8}, pairs=10**9)
    bucket = round(100 * math.expm1(stats.runs.BUCKET / 2), 2)
    assert halves == {"p99": bucket, "cpu_per_transaction": 0.0}


def test_of_what_is_not_recorded_nothing_is_expected(noise):
    noise({})
    assert schedule.plan(QUICK)["expected"] == {}


@pytest.mark.parametrize(
    ("rate", "lacks"),
    [
        (1, {"p99": "120 transactions, 1,000", "p95": "120 transactions, 200"}),
        (8, {"p99": "960 transactions, 1,000"}),
        (9, {}),
        (10, {}),
        (500, {}),
    ],
)
def test_no_percentile_is_expected_that_a_block_cannot_give_and_the_plan_says_why(rate, lacks):
    low = studies.load(study.Request("own-study", settings=("sync_binlog=1,0",), rate=rate))
    plan = schedule.plan(low)
    assert plan["expected"].keys() == {"p99", "cpu_per_transaction"} - lacks.keys()
    clauses = {m: f"no {m}: a block offers {why} are needed" for m, why in lacks.items()}
    assert schedule.too_few(low) == clauses
    said = planned(SimpleNamespace(study=low, plan=plan))
    assert all(said.count(clause) == 1 for clause in clauses.values())
    assert said.count("no p") == len(lacks)
    assert schedule.too_few(low, pairs=9) == {}  # of which a block has more


def test_connections_are_told_as_such():
    asked = studies.load(study.Request("ssl-connections", "rate", profile="smoke"))
    (why,) = schedule.too_few(asked, pairs=1).values()
    assert why == "no p99: a block offers 400 connections, 1,000 are needed"


# -- rounds ----------------------------------------------------------------------------------------


def test_the_control_side_by_side_has_its_share_of_the_time_or_no_block():
    side = studies.load(study.Request("tablespace-encryption", "memory", profile="standard"))
    cell = next(c for c in schedule.cells(side) if c.control)
    assert cell.threads == min(side.workloads[0].threads)
    block = schedule.starting_s(side) + schedule._pair_s(side, cell)
    minutes = schedule.CONTROL_BLOCKS * block / 60 / schedule.CONTROL_SHARE

    def control(budget_min, **other):
        profile = replace(side.profile, budget_min=budget_min)
        return schedule.plan(replace(side, profile=profile, **other))["control"]

    assert control(minutes * 1.01) == schedule.CONTROL_BLOCKS
    assert control(minutes * 0.99) == 0
    assert control(minutes / 2, design="switched") == schedule.CONTROL_BLOCKS  # in every block


def test_a_round_holds_every_comparison_once_and_the_first_one_the_control():
    cells = schedule.cells(STANDARD)
    assert sum(c.control for c in cells) == 1
    for number in range(4):
        found = schedule.round_of(3, 5, number, cells)
        assert len({c.key for c in found}) == len(found)
        assert {c.key for c in found if not c.control} == {c.key for c in cells if not c.control}
        assert any(c.control for c in found) == (number == 0)
    control = [c for c in cells if c.control]
    assert schedule.round_of(3, 5, 2, control) == control  # a block of its own, side by side


def test_the_order_of_a_round_depends_on_seed_block_and_number_only():
    many = studies.load(replace(ASKED, threads=(1, 2, 4, 8, 16, 32, 64)))
    cells = [c for c in schedule.cells(many) if not c.control]

    def order(*key):
        return [c.key for c in schedule.round_of(*key, cells)]

    first = order(1, 0, 0)
    assert order(1, 0, 0) == first
    assert sorted(order(2, 0, 0)) == sorted(first)
    assert len({tuple(order(*k)) for k in ((1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1))}) == 4


# -- blocks ----------------------------------------------------------------------------------------


def test_side_by_side_every_round_holds_each_arm_and_the_control_is_spread():
    declared = schedule.plan(STANDARD)  # switched, every block holds all arms
    assert schedule.turns(1, STANDARD, declared) == [(k, None) for k in range(10)]
    brief = replace(STANDARD.profile, warmup_s=2)  # a long warm-up leaves no time for a control
    wide = replace(STANDARD, design="side by side", arms=ARMS, profile=brief)
    declared = schedule.plan(wide)
    turns = schedule.turns(7, wide, declared)
    for k in range(declared["blocks"]):
        names = [arm.name for round_, arm in turns if round_ == k and arm != wide.control]
        assert sorted(names) == [a.name for a in ARMS]
    at = [k for k, arm in turns if arm == wide.control]
    assert len(at) == schedule.CONTROL_BLOCKS
    assert max(np.diff(at)) <= 3
    assert schedule.turns(7, wide, declared) == turns
    assert schedule.turns(8, wide, declared) != turns


# -- judged -----------------------------------------------------------------------------------------


def measured(rows: list[tuple]) -> pd.DataFrame:
    """A tidy table."""
    columns = ["workload", "threads", "block", "pair", "pair_id", "arm", "metric", "value"]
    return pd.DataFrame(rows, columns=columns).assign(
        study="s", campaign="c", position=0, unit="", warmup=False, run="r"
    )


@pytest.mark.parametrize(
    ("asked", "margin"), [(QUICK, 5.0), (STANDARD, 2.0), (replace(QUICK, margin_pct=7.0), 7.0)]
)
def test_a_campaign_is_judged_by_its_profiles_margins_or_by_the_one_that_was_asked_for(
    asked, margin
):
    work, rows = asked.workloads[0].name, []
    for block in range(8):
        for arm, value in (("plain", 100.0), ("encrypted", 90.0 + block % 3)):
            rows.append((work, 4, block, block, f"p{block}", arm, "tps", value))
    found = schedule.judge_campaign(
        asked, measured(rows), schedule.plan(asked), saturated={}, pair_seconds=4.0
    )
    assert found["margin_pct"].tolist() == [margin]
    assert found["design"].tolist() == [asked.design]
    assert found["verdict"].tolist() == ["slower"]
    assert schedule.margin_pct(asked, "tps") == margin
