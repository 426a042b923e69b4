"""The loop: the declared blocks in the order of the plan."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import cast

from noisefloor import schedule
from noisefloor.measure import tools
from noisefloor.measure.campaign import Campaign
from noisefloor.measure.server_pool import ServerPool
from noisefloor.model import SIDE_BY_SIDE, Arm
from noisefloor.servers.server import start_together

_COLD = ("backup", "restore")  # tools whose every run begins with nothing in a cache


def _block(campaign: Campaign, pool: ServerPool, arm: Arm | None) -> None:
    """Measure what is missing of the block of an arm (None: of all): as many whole rounds of pairs
    as the plan says. The first block sets that number: as many as fit into its share of the budget,
    one at least. Lost pairs are tried once more at the end."""
    study, meta, plan = campaign.study, campaign.meta, campaign.plan
    cells = campaign.cells(arm)
    share_s = schedule.share_s(study, campaign.turns) + schedule.starting_s(study)  # with warm-up
    number, compared = 0, [x for x in cells if arm or not x.control]
    while not all(map(campaign.skips, compared)) and campaign.left_s > 0:
        again = number == plan["pairs"] > 0  # the lost pairs
        have, round_s = campaign.done(campaign.block), 0.0
        first = 0 if again else number
        for cell in schedule.round_of(campaign.seed, campaign.block, first, cells):
            planned = 1 if cell.control else number + (not again)
            began = meta["spent_s"]
            _make(campaign, pool, cell, planned - have.get(cell.key, 0))
            round_s += 0 if cell.control else meta["spent_s"] - began
        if again:
            break
        number += 1
        if not plan["pairs"] and number >= max((have.get(x.key, 0) for x in cells), default=0):
            plan["pairs"] = number if meta["spent_s"] + round_s > share_s else 0
    campaign.save()


def _make(campaign: Campaign, pool: ServerPool, cell: schedule.Cell, lacks: int) -> None:
    """Make a pair if the block lacks one and time is left. An arm or workload that this machine
    does not allow is skipped for good."""
    if lacks <= 0 or campaign.skips(cell) or campaign.left_s <= 0:
        return
    try:
        pool.ready(cell.arm, cell.workload)
        campaign.pair(pool, cell)
        for server in pool.servers:
            server.purge()
    except tools.NotHere as e:
        campaign.meta["skipped"][e.name] = e.reason
        campaign.progress.say(f"{e.name} is skipped: {e.reason}")


def _blocks(campaign: Campaign) -> Iterator[Arm | None]:
    """The arm of each block that is still to be measured (None: all of them). A block that was
    interrupted is continued with the same random choices. Ends early if, after a whole round, every
    window so far was saturated: later ones would be, too."""
    campaign.begin()
    for number, (whole_rounds, arm) in enumerate(campaign.turns):
        if campaign.left_s <= 0 or (whole_rounds and campaign.saturated()):
            return
        if number < campaign.block or (arm and arm.name in campaign.meta["skipped"]):
            continue
        campaign.block = number
        campaign.proved.clear()
        yield arm


def _switched(campaign: Campaign, pool: ServerPool) -> None:
    """One server, restarted for every block; the arm is switched between slices."""
    study = campaign.study
    pool.servers = [pool.fresh(study.baseline)]
    arms = [(0, a) for a in study.compared]
    campaign.prebuild(pool)
    for _ in _blocks(campaign):
        pool.servers[0].stop()
        pool.servers[0].start()
        if any(w.tool not in _COLD for w in study.workloads):
            campaign.warm(pool, arms[:1])
        _block(campaign, pool, None)
        campaign.closing(pool, arms)
        pool.close(keep=True)


def as_guest(campaign: Campaign, pool: ServerPool) -> None:
    """One server that is not ours: switched between slices, never restarted. A block is a number of
    pairs one after the other."""
    campaign.begin()
    campaign.warm(pool, [(0, campaign.study.baseline)])
    for _ in _blocks(campaign):
        _block(campaign, pool, None)


def _side_by_side(campaign: Campaign, pool: ServerPool) -> None:
    """Two servers: for every block a fresh copy for each arm, made in random order and started at
    the same time. The old ones are removed meanwhile."""
    with ThreadPoolExecutor(1) as broom:
        gone: list[Future[None]] = []
        for arm in _blocks(campaign):
            arms = [campaign.study.baseline, cast(Arm, arm)]
            coin = schedule.generator(campaign.seed, campaign.block, "deal")
            order = [int(i) for i in coin.permutation(2)]
            servers = {i: pool.fresh(arms[i]) for i in order}
            pool.servers = [servers[0], servers[1]]
            start_together(*servers.values())
            for old in gone:
                old.result()  # nothing else runs while something is measured
            works = [x.workload for x in campaign.cells(arm)]
            # a restart has a load of its own first; a replica can catch up only once
            if not all(w.tool in ("restart", "replica") for w in works):
                campaign.warm(pool, [(i, arms[i]) for i in order])
            _block(campaign, pool, arm)
            campaign.closing(pool, list(enumerate(arms)))
            gone = [broom.submit(old.remove) for old in pool.servers]
            pool.servers = []
            pool.close()


DESIGNS = {"switched": _switched, SIDE_BY_SIDE: _side_by_side}
