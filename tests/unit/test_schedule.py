"""Which run comes next, when to stop: pure."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from noisefloor import model as study
from noisefloor import schedule, stats, studies

QUICK = studies.load("binlog-encryption", profile="quick")
STANDARD = studies.load("binlog-encryption", profile="standard")
ARMS = tuple(study.Arm(n) for n in ("b", "c", "d"))
QUICK4 = studies.load("binlog-encryption", profile="quick", threads=(1, 4))


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


@pytest.mark.parametrize(
    ("profile", "blocks", "looks"),
    [("smoke", 2, [2]), ("quick", 8, [5, 7, 8]), ("standard", 10, [6, 8, 10])],
)
def test_the_number_of_blocks_and_the_looks_are_declared(profile, blocks, looks):
    found = schedule.plan(studies.load("binlog-encryption", profile=profile))
    assert (found["blocks"], found["looks"]) == (blocks, looks)
    assert found["pairs"] == 0  # what the first block has time for
    assert found["control"] == (schedule.CONTROL_BLOCKS if profile == "standard" else 0)
    assert found["windows"] == 0  # of a duet, which it is not
    calibration = schedule.plan(studies.load("calibration", profile=profile))
    assert calibration["looks"] == [calibration["blocks"]]  # once, at its end


def test_more_arms_and_thread_counts_declare_more_blocks():
    """So many that the signs of the blocks can reach the level of the smallest share."""
    wide = replace(STANDARD, arms=ARMS)
    found = schedule.plan(wide)
    assert found["blocks"] == schedule.MOST_BLOCKS
    share = 0.05 / len(ARMS) * 0.2 / len(wide.workloads[0].threads)
    assert 2.0 ** (1 - found["blocks"]) <= share


@pytest.mark.parametrize("profile", ["smoke", "quick", "standard"])
def test_the_blocks_of_a_duet_hold_the_windows_that_the_budget_has_time_for(profile):
    chosen = studies.load("binlog-encryption", question="processor", profile=profile)
    found = schedule.plan(chosen)
    windows, each = found["windows"], schedule.window_s(chosen)
    # one that warms up, and a second to connect; what is left is for loading, settling and evidence
    took = found["blocks"] * ((windows + 1) * each + 1)
    assert windows >= 3
    assert 0.5 < took / (60 * chosen.profile.budget_min) <= 1
    assert schedule.windows(chosen, found, control=False) == windows
    few = schedule.windows(chosen, found, control=True)
    assert few >= schedule.CONTROL_WINDOWS
    control = found["control"] * (schedule.starting_s(chosen) + (few + 1) * each)
    assert control <= schedule.CONTROL_SHARE * 60 * chosen.profile.budget_min
    assert (found["control"] > 0) == (profile == "standard")


def test_a_plan_grows_to_the_blocks_that_the_minutes_hold():
    """By the first block's time; the two servers of a pair of arms have a block each, and the control
    keeps its minutes."""
    plan = schedule.plan(STANDARD) | {"pairs": 1}
    budget_s = 60 * STANDARD.profile.budget_min
    more = schedule.filled(STANDARD, plan, budget_s / 17.5)
    assert (more["blocks"], more["looks"]) == (17, [11, 14, 17])
    assert more["expected"]["tps"] < schedule.expected(STANDARD, plan, 1)["tps"]
    same = {"pairs", "control", "windows", "weighing", "levelled"}
    assert {k: more[k] for k in same} == {k: plan[k] for k in same}
    assert schedule.filled(STANDARD, plan, budget_s / 200)["blocks"] == schedule.FILLED
    few = replace(STANDARD, profile=replace(STANDARD.profile, blocks=8))  # its runs are long
    assert schedule.filled(few, schedule.plan(few), budget_s / 13.5)["blocks"] == 13
    wide = replace(STANDARD, design="side by side", arms=ARMS)
    declared = schedule.plan(wide) | {"pairs": 1}
    each = budget_s / (len(ARMS) * 16)
    assert declared["control"] > 0
    assert schedule.filled(wide, declared | {"control": 0}, each)["blocks"] == 16
    assert schedule.filled(wide, declared, each)["blocks"] in (14, 15)
    was, now = (
        schedule.turns(3, wide, d) for d in (declared, schedule.filled(wide, declared, each))
    )
    assert now[0] == was[0]  # which is measured already
    assert sum(arm == wide.control for _, arm in now) == schedule.CONTROL_BLOCKS


def test_a_plan_stays_where_the_minutes_hold_no_more():
    plan = schedule.plan(STANDARD)
    budget_s = 60 * STANDARD.profile.budget_min
    for block_s in (budget_s / 10, budget_s, 0.0):
        assert schedule.filled(STANDARD, plan, block_s) == plan
    short, once = schedule.plan(QUICK), replace(STANDARD, whole=True)
    assert schedule.filled(QUICK, short, 0.1) == short
    assert schedule.filled(once, schedule.plan(once), 0.1) == schedule.plan(once)


# -- what it is to find out ------------------------------------------------------------------------


@pytest.fixture
def noise(tmp_path, monkeypatch):
    """noise(fields): the recorded A/A scatter is this one."""

    def write(fields):
        (tmp_path / f"noise{len(list(tmp_path.iterdir()))}.json").write_text(json.dumps(fields))
        newest = max(tmp_path.glob("noise*.json"))
        monkeypatch.setattr(stats.scatter.paths, "known", lambda name, own=True: newest)

    return write


def test_the_half_width_to_expect_is_that_of_the_headline(noise):
    """By hand: eight blocks, the level of the last look, Student's t, the sd of a pair."""
    noise({"binlog-encryption: in memory": {"tps": {"4": 2.0, "64": 9.0}}})
    found = schedule.plan(QUICK)
    assert found["expected"].keys() == {"tps"}  # of nothing else is any recorded
    block = 60 * QUICK.profile.budget_min / 8 - schedule.starting_s(QUICK)
    pairs = int(block / (2 * (2 + schedule.LOST_S)))
    assert pairs > 0
    level = stats.spending.last_level(0.05, 8)
    half = stats.student.quantile(1 - level / 2, 7) * 0.02 / math.sqrt(8 * pairs)
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
    assert schedule.plan(STANDARD)["expected"].keys() == {"tps", "cpu_per_transaction"}


def test_a_duet_lets_expect_processor_time_alone_and_nothing_is_known_of_what_is_not_recorded(
    noise,
):
    noise({"calibration: at once": {"tps": {"4": 2.0}, "cpu_per_transaction": {"4": 2.0}}})
    chosen = studies.load("binlog-encryption", question="processor")
    assert schedule.plan(chosen)["expected"].keys() == {"cpu_per_transaction"}
    noise({})
    assert schedule.plan(QUICK)["expected"] == {}


# -- rounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["memory", "memory-processor"])
def test_the_control_side_by_side_has_its_share_of_the_time_or_no_block(question):
    side = studies.load("tablespace-encryption", question=question, profile="standard")
    cell = next(c for c in schedule.cells(side) if c.control)
    assert cell.threads == min(side.workloads[0].threads)
    duet = (schedule.CONTROL_WINDOWS + 1) * schedule.window_s(side)
    pair_s = duet if cell.workload.at_once else schedule.pair_s(side, cell)
    block = schedule.starting_s(side) + pair_s
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
    many = studies.load("binlog-encryption", profile="standard", threads=(1, 2, 4, 8, 16, 32, 64))
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
    wide = replace(STANDARD, design="side by side", arms=ARMS)
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


# -- when to stop ----------------------------------------------------------------------------------


def judged(*rows) -> pd.DataFrame:
    """A verdict table of (workload, metric, arm, verdict, control)."""
    return pd.DataFrame(rows, columns=["workload", "metric", "arm", "verdict", "control"])


def measured(rows: list[tuple], design: str) -> pd.DataFrame:
    """A tidy table."""
    columns = ["workload", "threads", "block", "pair", "pair_id", "arm", "metric", "value"]
    table = pd.DataFrame(rows, columns=columns).assign(
        study="s", campaign="c", position=0, unit="", warmup=False, run="r"
    )
    table.attrs["design"] = design
    return table


MAIN = STANDARD.workloads[0].name


@pytest.mark.parametrize(
    ("row", "still_open"),
    [
        ((MAIN, "tps", "b", "cannot tell", False), {"b"}),
        ((MAIN, "cpu_per_transaction", "b", "cannot tell", False), {"b"}),
        ((MAIN, "p99", "b", "cannot tell", False), set()),  # shown, but it keeps nothing going
        ((MAIN, "tps", "plain again", "cannot tell", True), set()),
        ((MAIN, "tps", "b", "same", False), set()),
        ((MAIN, "tps", "b", "not judged", False), {"b"}),
    ],
)
def test_an_arm_is_open_while_a_deciding_comparison_has_no_word(row, still_open):
    decided = (MAIN, "tps", "c", "slower", False)
    assert schedule.undecided(replace(STANDARD, arms=ARMS), judged(row, decided)) == still_open


def test_the_declared_scatter_weights_the_joint_effect(monkeypatch):
    known = {1: 3.0, 4: 1.0}
    monkeypatch.setattr(
        schedule.stats.scatter,
        "pair_sds",
        lambda w, m, threads: {t: known[t] for t in threads},
    )
    rows = []
    for block in range(8):
        for threads in (1, 4):
            for arm, value in (("plain", 100.0), ("encrypted", 90.0 + block % 3 + threads)):
                pair = f"{threads}-{block}"
                rows.append((MAIN, threads, block, block, pair, arm, "tps", value))
    table = measured(rows, "switched")
    declared = schedule.plan(QUICK4) | {"pairs": 1}
    assert declared["weighing"][MAIN]["tps"] == {"1": 3.0, "4": 1.0}
    known |= {1: 1.0, 4: 1.0}  # what is found later changes nothing
    found = schedule.verdicts(QUICK4, table, declared, pair_seconds=4.0)
    assert any("4: 90 %" in w for w in found[found["joint"]]["warnings"].iloc[0])


# -- both servers under load at once ---------------------------------------------------------------


def windows(chosen, overhead: float, rng=0) -> pd.DataFrame:
    """The tidy table of a duet of eight blocks whose arm costs so much, in both metrics."""
    (work,), arm = chosen.workloads, chosen.arms[0]
    draw, rows = np.random.default_rng(rng), []
    for block in range(8):
        for k in range(6):
            for arm_, factor in ((chosen.baseline.name, 1.0), (arm.name, 1 + overhead)):
                for metric, value in (("cpu_per_transaction", 0.01), ("tps", 500.0)):
                    noisy = value * factor ** (1 if metric != "tps" else -1) * draw.normal(1, 0.005)
                    pair = f"x-p{block * 6 + k:03d}"
                    rows.append((work.name, 4, block, block * 6 + k, pair, arm_, metric, noisy))
    return measured(rows, chosen.design)


DUET = studies.load("binlog-encryption", question="processor", profile="quick")
DECLARED = {"blocks": 8, "looks": [5, 7, 8], "control": 0, "pairs": 0, "windows": 6}


@pytest.mark.parametrize(
    ("says", "word", "warned"),
    [("size", "slower", False), ("word", "slower", True), ("", "not judged", False)],
)
def test_a_duet_judges_processor_time_as_calibration_allows_and_never_throughput(
    says, word, warned
):
    chosen = replace(DUET, duet=says)
    found = schedule.verdicts(chosen, windows(chosen, 0.2), DECLARED, pair_seconds=1.0)
    found = found.set_index("metric")
    assert dict(found["verdict"]) == {"cpu_per_transaction": word, "tps": "not judged"}
    assert (schedule.CONTENDED in found.loc["cpu_per_transaction", "warnings"]) == warned
    assert schedule.CONTENDED not in found.loc["tps", "warnings"]
    begun = windows(chosen, 0.2).query("block < 4")
    early = schedule.verdicts(chosen, begun, DECLARED, pair_seconds=1.0).set_index("metric")
    remarks = ("ended early", "too few blocks")
    told = early["warnings"].map(lambda all_: sum(w.startswith(remarks) for w in all_))
    assert dict(told) == {"cpu_per_transaction": 2 if says else 0, "tps": 0}


def test_a_duet_that_may_understate_calls_equal_only_what_is_nearer():
    """An overhead of 3.3 % lies within a margin of 5 %, and not where a duet shows but a part of it."""
    words = {}
    for shrinks in (0.0, 0.2, 0.5):
        chosen = replace(DUET, duet="word", shrinks=shrinks)
        found = schedule.verdicts(chosen, windows(chosen, 0.033), DECLARED, pair_seconds=1.0)
        words[shrinks] = found.set_index("metric").loc["cpu_per_transaction", "verdict"]
        assert found.attrs["margin_pct"] == chosen.margin_pct
    assert words[0.0] == words[0.2] == "same"
    assert words[0.5] != "same"
