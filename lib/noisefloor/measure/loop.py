"""The loop: the declared blocks in the order of the plan."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from noisefloor import schedule
from noisefloor.measure import tools
from noisefloor.measure.bench import Bench, start
from noisefloor.measure.campaign import Campaign
from noisefloor.model import Arm

COLD = ("backup", "restore")  # tools whose every run begins with nothing in a cache


def block(c: Campaign, bench: Bench, arm: Arm | None) -> None:
    """What is missing of the block of an arm (None: of all): whole rounds of pairs, as many as the
    plan says. The first block finds out how many its share of the budget holds, one at least. What
    was lost is tried once more at the end."""
    every = c.cells(arm)
    share_s = schedule.share_s(c.study, c.turns) + schedule.starting_s(c.study)  # warm-up and all
    number = 0
    while every and not all(map(c.skips, every)) and c.left_s > 0:
        again = number == c.plan["pairs"] > 0  # what was lost
        have, own_s = c.done(c.block), 0.0
        for cell in schedule.round_of(c.seed, c.block, 0 if again else number, every):
            due, began = c.due(cell, number if again else number + 1), c.meta["spent_s"]
            _made(c, bench, cell, due - have.get(cell.key, 0))
            own_s += 0 if cell.control else c.meta["spent_s"] - began
        if again:
            break
        number += 1
        if not c.plan["pairs"] and number >= max((have.get(x.key, 0) for x in every), default=0):
            c.plan["pairs"] = number if c.meta["spent_s"] + own_s > share_s else 0
    c.save()


def _made(c: Campaign, bench: Bench, cell: schedule.Cell, lacks: int) -> None:
    """A pair, where the block lacks some and time is left; left out for good where this machine does
    not allow it."""
    if lacks <= 0 or c.skips(cell) or c.left_s <= 0:
        return
    try:
        bench.kit.ready(cell.arm, cell.workload)
        c.pair(bench, cell)
        for server in bench.servers:
            server.purge()
    except tools.NotHere as e:
        c.meta["skipped"][e.name] = e.reason
        c.progress.say(f"{e.name} is skipped: {e.reason}")


def blocks(c: Campaign) -> Iterator[Arm | None]:
    """The arm of each block that is still to be measured (None: all of them). A block that was
    interrupted is continued, and keeps its deal."""
    c.begin()
    for number, (_, arm) in enumerate(c.turns):
        if c.left_s <= 0:
            return
        if number < c.block or (arm and arm.name in c.meta["skipped"]):
            continue
        c.block = number
        c.proved.clear()
        yield arm


def switched(c: Campaign, bench: Bench) -> None:
    """One server, restarted for every block; the arm is switched between slices."""
    bench.servers = [bench.fresh(c.study.baseline)]
    arms = [(0, a) for a in c.study.compared]
    c.stock(bench)
    for _ in blocks(c):
        bench.servers[0].restart()
        if any(w.tool not in COLD for w in c.study.workloads):
            c.warm(bench, arms[:1])
        block(c, bench, None)
        c.closing(bench, arms)
        bench.close(keep=True)


def as_guest(c: Campaign, bench: Bench) -> None:
    """One server that is not ours: switched between slices, never restarted. A block is a number of
    pairs one after the other."""
    c.begin()
    c.warm(bench, [(0, c.study.baseline)])
    for _ in blocks(c):
        block(c, bench, None)


def side_by_side(c: Campaign, bench: Bench) -> None:
    """Two servers; for every block fresh copies are dealt to the arms by coin and both start. The
    old ones end meanwhile."""
    with ThreadPoolExecutor(1) as broom:
        gone: list[Future] = []
        for arm in blocks(c):
            arms = [c.study.baseline, arm]
            dealt = [int(i) for i in schedule.coin(c.seed, c.block, "deal").permutation(2)]
            made = {i: bench.fresh(arms[i]) for i in dealt}  # the coin decides who comes first
            bench.servers = [made[0], made[1]]
            start(*made.values())
            for old in gone:
                old.result()  # nothing else runs while something is measured
            works = [x.workload for x in c.cells(arm)]
            # a restart is under load before its clock, a replica catches up once
            if not all(w.tool in ("restart", "replica") for w in works):
                c.warm(bench, [(i, arms[i]) for i in dealt])
            block(c, bench, arm)
            c.closing(bench, list(enumerate(arms)))
            gone = [broom.submit(old.remove) for old in bench.servers]
            bench.servers = []
            bench.close()


DESIGNS = {"switched": switched, "side by side": side_by_side}
