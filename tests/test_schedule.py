"""Which run comes next, when to stop: pure."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from noisefloor import schedule, study, tidy

QUICK = study.load("binlog-encryption", profile="quick")
STANDARD = study.load("binlog-encryption", profile="standard")
ARMS = tuple(study.Arm(n) for n in ("b", "c", "d"))
SIDE = replace(QUICK, design="side by side", arms=ARMS)


def measured(rows) -> pd.DataFrame:
    """A tidy table of (workload, threads, arm, block, pairs)."""
    found = [
        {
            "workload": w, "threads": t, "arm": a, "block": b, "warmup": False, "metric": "tps",
            "pair_id": f"{w} {t} {arm} {b} {i}",
        }
        for w, t, arm, b, n in rows
        for i in range(n)
        for a in ("plain", arm)
    ]  # fmt: skip
    return pd.DataFrame(found, columns=tidy.COLUMNS).astype({"warmup": bool})


def judged(*rows) -> pd.DataFrame:
    """A verdict table of (workload, metric, threads, arm, settled), no joint rows."""
    columns = ["workload", "metric", "threads", "arm", "settled"]
    return pd.DataFrame(rows, columns=columns).assign(joint=False)


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


def test_coins_are_fair():
    cells = schedule.cells(STANDARD)
    flips = [schedule.order(s, b, c, p) for s in range(5) for b in range(5) for c in cells for p in range(20)]  # fmt: skip
    n = len(flips)
    assert abs(sum(flips) - n / 2) < 5 * np.sqrt(n) / 2


def test_the_first_of_a_pair_says_nothing_about_the_next():
    cell = schedule.cells(QUICK)[0]
    f = np.array([schedule.order(s, 0, cell, p) for s in range(40) for p in range(50)])
    assert abs(np.corrcoef(f[:-1], f[1:])[0, 1]) < 5 / np.sqrt(len(f))


def test_names_of_cells_are_unique_and_fit_for_folders():
    for name in study.STUDIES:
        for profile in ("smoke", "standard"):
            keys = [c.key for c in schedule.cells(study.load(name, profile=profile))]
            assert len(set(keys)) == len(keys)
            assert all(schedule.slug(k) == k and len(k) < 80 for k in keys)


# -- rounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [QUICK, STANDARD], ids=lambda s: s.profile.name)
def test_controls_take_their_share_and_no_more(chosen):
    done: Counter = Counter()
    controls = {c.key for c in schedule.cells(chosen) if c.control}
    for number in range(40):
        for cell in schedule.round_of(1, 0, number, schedule.cells(chosen), done):
            done[cell.key] += 1
        if done.total() >= 10:
            share = sum(done[k] for k in controls) / done.total()
            assert 0.1 < share <= 0.25, (number, done)
    assert all(done[k] for k in controls)
    assert max(done[k] for k in controls) - min(done[k] for k in controls) <= 1


def test_every_open_cell_has_its_turn_and_rare_workloads_fewer():
    done: Counter = Counter()
    for number in range(30):
        for cell in schedule.round_of(3, 0, number, schedule.cells(QUICK), done):
            done[cell.key] += 1
    main, *rare = (c for c in schedule.cells(QUICK) if not c.control)
    assert rare
    for cell in rare:
        assert cell.workload.every > 1
        assert abs(done[cell.key] - done[main.key] / cell.workload.every) <= 1


def test_a_round_is_never_empty():
    for seed in range(300):
        rng = np.random.default_rng(seed)
        cells = [c for c in schedule.cells(QUICK) if rng.random() < 0.5]
        done = {c.key: int(rng.integers(30)) for c in schedule.cells(QUICK) if rng.random() < 0.7}
        found = schedule.round_of(seed, 0, int(rng.integers(9)), cells, done)
        assert bool(found) == bool(cells)
        assert all(c in cells for c in found)
        assert len({c.key for c in found}) == len(found)


def test_the_order_of_a_round_depends_on_seed_block_and_number_only():
    cells = schedule.cells(STANDARD)

    def order(*key):
        return [c.key for c in schedule.round_of(*key, cells, {})]

    first = order(1, 0, 0)
    assert order(1, 0, 0) == first
    assert sorted(order(2, 0, 0)) == sorted(first)
    assert len({tuple(order(*k)) for k in ((1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1))}) == 4


# -- blocks ----------------------------------------------------------------------------------------


def deal(cells, blocks: int) -> Counter:
    done: Counter = Counter()
    for block in range(blocks):
        done[schedule.block_arm(7, block, SIDE, cells, done).name] += 1
        share = done[SIDE.control.name] / done.total()
        assert share <= 0.25, (block, done)
    return done


def test_blocks_go_to_the_arms_in_turn_and_a_share_to_the_control():
    done = deal(schedule.cells(SIDE), 40)
    assert 6 <= done[SIDE.control.name] <= 9
    turns = [done[a.name] for a in SIDE.arms]
    assert max(turns) - min(turns) <= 1


def test_a_short_campaign_answers_the_first_question():
    cells, needed = schedule.cells(SIDE), SIDE.profile.blocks[1]
    done = deal(cells, needed + len(SIDE.arms) + 2)
    assert done[SIDE.arms[0].name] >= needed
    assert all(done[a.name] >= 1 for a in SIDE.arms)
    done = deal(cells, 3 * needed)
    assert done[SIDE.arms[1].name] >= needed > done[SIDE.arms[2].name]
    other = replace(SIDE, first=SIDE.arms[1].name)
    blocks = Counter()
    for block in range(2 * needed):
        blocks[schedule.block_arm(7, block, other, cells, blocks).name] += 1
    assert blocks.most_common(1)[0][0] == other.first


def test_every_arm_gets_an_interval_before_one_gets_a_verdict():
    long = replace(STANDARD, design="side by side", arms=ARMS)
    cells, done = schedule.cells(long), Counter()
    while min(done[a.name] for a in ARMS) < 6:
        done[schedule.block_arm(7, done.total(), long, cells, done).name] += 1
    assert max(done[a.name] for a in ARMS) == 6 < long.profile.blocks[1]
    while done[long.first or ARMS[0].name] == 6:
        done[schedule.block_arm(7, done.total(), long, cells, done).name] += 1
    assert sum(done[a.name] for a in ARMS) == 6 * len(ARMS) + 1
    assert done[long.control.name] == 6


def test_a_last_block_that_is_shorter_than_the_first_is_not_counted():
    """As the interval does not count it either: the arm is dealt another one."""
    rows = [("w", 1, "b", 0, 2), ("w", 1, "b", 1, 1), ("w", 1, "b", 2, 1), ("w", 1, "c", 3, 1)]
    table = measured(rows)
    keys = table["workload"] + "-t" + table["threads"].astype(str)
    arm = table["pair_id"].str.split().str[2]
    table["pair_id"] = [f"{k}-{a}-p{i:03d}" for i, (k, a) in enumerate(zip(keys, arm, strict=True))]
    work = replace(SIDE.workloads[0], name="w")
    cells = [schedule.Cell(work, 1, a) for a in ARMS]
    assert schedule.whole_blocks(table, cells) == {"b": 2, "c": 1, "d": 0}
    both = [*cells, schedule.Cell(work, 4, ARMS[0])]  # the comparison that has the fewest
    assert schedule.whole_blocks(table, both)["b"] == 0


def test_a_block_is_not_spent_on_an_arm_that_is_settled():
    left = [c for c in schedule.cells(SIDE) if c.arm.name == "d"]
    assert deal(left, 20) == {"d": 20}  # no open control either


# -- when to stop ----------------------------------------------------------------------------------

ALL = {c.key for c in schedule.cells(QUICK)}
MAIN, SECOND = QUICK.workloads[0].name, QUICK.workloads[1].name


def settle(cells, *, but=()):
    return judged(
        *(
            (c.workload.name, m, c.threads, c.arm.name, (c.workload.name, m) not in but)
            for c in cells
            for m in c.workload.metrics
        )
    )


@pytest.mark.parametrize(
    ("blocks", "unsettled", "still_open"),
    [
        (2, (), set()),
        (1, (), {w.name for w in QUICK.workloads}),  # one start of the server proves nothing
        (2, [(MAIN, "tps")], {MAIN}),
        (2, [(MAIN, "cpu_per_transaction")], {MAIN}),
        (2, [(MAIN, "p99")], set()),  # shown, but it does not keep a campaign going
        (2, [(SECOND, "tps"), (MAIN, "tps")], {MAIN, SECOND}),
    ],
)
def test_a_comparison_is_open_until_its_deciding_metrics_are_settled(blocks, unsettled, still_open):
    cells = schedule.cells(QUICK)
    rows = [(c.workload.name, c.threads, c.arm.name, b, 3) for c in cells for b in range(blocks)]
    found = schedule.open_cells(QUICK, measured(rows), settle(cells, but=unsettled), 2)
    assert {c.workload.name for c in found if not c.control} == still_open
    assert any(c.control for c in found) == bool(still_open)


def test_a_workload_may_want_more_pairs_than_a_verdict_needs():
    main = replace(QUICK.workloads[0], least=10)
    chosen = replace(QUICK, workloads=(main, *QUICK.workloads[1:]))
    cells = schedule.cells(chosen)
    for each, still_open in ((4, {MAIN}), (5, set())):  # pairs a block, in two blocks
        rows = [(c.workload.name, c.threads, c.arm.name, b, each) for c in cells for b in range(2)]
        found = schedule.open_cells(chosen, measured(rows), settle(cells), 2)
        assert {c.workload.name for c in found if not c.control} == still_open


def test_before_the_first_pair_everything_is_open():
    found = schedule.open_cells(QUICK, measured([]), pd.DataFrame(), 2)
    assert {c.key for c in found} == ALL


def test_so_many_pairs_whatever_they_say():
    chosen = replace(QUICK, pairs=4, workloads=QUICK.workloads[:1], arms=ARMS)
    rows = [(MAIN, 4, "b", 0, 4), (MAIN, 4, "c", 0, 2), (MAIN, 4, "c", 1, 1)]
    found = schedule.open_cells(chosen, measured(rows), pd.DataFrame(), 2)
    assert [c.arm.name for c in found] == ["c", "d"]
    rows += [(MAIN, 4, "c", 2, 1), (MAIN, 4, "d", 2, 4)]
    assert schedule.open_cells(chosen, measured(rows), pd.DataFrame(), 2) == []
