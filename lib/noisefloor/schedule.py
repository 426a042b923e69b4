"""Which run comes next: coin-flipped pairs, blocks, and when to stop. Pure: no disk, no servers.

Every coin is a function of the campaign's seed and of what it decides, so a resumed campaign
deals as an uninterrupted one would have."""

import hashlib
from dataclasses import dataclass

import numpy as np
import pandas as pd

from . import stats
from .study import AGAIN, Arm, Study, StudyError, Workload

CONTROL_SHARE = 0.2  # of the pairs (switched) or blocks (side by side); a quarter at the most


LONGEST = 200  # letters of a run's folder: a file system allows 255 bytes, and suffixes follow


@dataclass(frozen=True)
class Cell:
    """One comparison of the family: a workload at a thread count, baseline against `arm`."""

    workload: Workload
    threads: int
    arm: Arm

    @property
    def control(self) -> bool:
        """Whether both runs of its pairs are made under the baseline."""
        return self.arm.name.endswith(AGAIN)

    @property
    def key(self) -> str:
        """Name of the cell, fit for a folder's name."""
        return slug(f"{self.workload.name} t{self.threads} {self.arm.name}")


def slug(text: str) -> str:
    """`text` with nothing but lower-case letters a to z, digits and single dashes; another
    alphabet's letters stand as their numbers."""
    text = text.lower().replace("=-", "=minus ")  # x=-1 is not x=1
    kept = "".join(c if c.isalnum() else " " for c in text)
    return "-".join("".join(c if c.isascii() else f"u{ord(c):x}" for c in kept).split())


def cells(study: Study) -> list[Cell]:
    """All comparisons, the study's own first, then the A/A controls of the first workload."""
    own = [
        Cell(w, t, a)
        for a in study.arms
        for w in study.workloads
        for t in w.threads
        if not w.arms or a.name in w.arms
    ]
    first = study.workloads[0]
    return own + [Cell(first, t, study.control) for t in first.threads]


def check(study: Study) -> None:
    """Raise StudyError for names whose runs could not be told apart on disk."""
    names = [study.baseline.name, study.control.name, *(a.name for a in study.arms)]
    seen = {slug(name): name for name in reversed(names)}
    for name in names:
        if seen[slug(name)] != name or not slug(name) or names.count(name) > 1:
            raise StudyError(
                f"{name!r} and {seen[slug(name)]!r} would have the same folders: names of arms that"
                " differ in their letters and digits are needed; nothing was measured"
            )
    found = cells(study)
    keys = {c.key: c for c in found}
    for c in found:
        if keys[c.key] is not c:
            raise StudyError(f"{c.key} stands for two comparisons; nothing was measured")
        if len(c.key) + max(map(len, seen)) > LONGEST or slug(c.workload.name) == "":
            raise StudyError(
                f"{c.workload.name!r}, {c.arm.name!r}: names of 1 to about 60 letters are needed;"
                " nothing was measured"
            )


def coin(seed: int, *key: object) -> np.random.Generator:
    """The generator that decides what `key` names."""
    # all of the key counts: cells that differ in their thread count only flip coins of their own
    digest = hashlib.blake2b(repr([str(k) for k in key]).encode(), digest_size=16).digest()
    return np.random.default_rng([seed, int.from_bytes(digest)])


def order(seed: int, block: int, cell: Cell, pair: int) -> bool:
    """Whether the arm of this pair is measured before the baseline."""
    return bool(coin(seed, block, cell.key, pair).integers(2))


def round_of(seed: int, block: int, number: int, open_cells: list[Cell], done: dict[str, int]):
    """The cells of one round in random order: every open comparison whose turn it is once, and,
    while controls hold less than their share, a pair of the control with the fewest pairs so far.
    Controls alone (a block of theirs, side by side) are all measured. Never empty.

    done: cell key -> pairs measured."""
    own = [c for c in open_cells if not c.control]
    controls = [c for c in open_cells if c.control]
    chosen = controls
    if own:
        turn = [done.get(c.key, 0) * c.workload.every for c in own]
        most = max(done.get(c.key, 0) for c in own)
        chosen = [c for c, t in zip(own, turn, strict=True) if t <= max(most, min(turn))]
        spent = sum(n for k, n in done.items() if k.endswith(slug(AGAIN)))
        if controls and spent < CONTROL_SHARE * (sum(done.values()) + len(chosen)):
            chosen = [*chosen, min(controls, key=lambda c: done.get(c.key, 0))]
    return [chosen[i] for i in coin(seed, block, number, "round").permutation(len(chosen))]


def block_arm(
    seed: int, block: int, study: Study, open_cells: list[Cell], done: dict[str, int]
) -> Arm:
    """Side by side: the arm that a block compares with the baseline, one with open comparisons.
    The control takes its share of the blocks, evenly spread, and is in time for an interval of its
    own. Every arm gets a block, then one arm after the other the fewest that an interval needs,
    then those that a verdict needs, the study's first question before all: a short campaign answers
    one question instead of none. done: arm name -> its `whole_blocks`."""
    names = {c.arm.name for c in open_cells}
    control = study.control
    held = done.get(control.name, 0)
    arms = [a for a in study.arms if a.name in names]
    arms.sort(key=lambda a: a.name != study.first)
    fewest, most = min(done.get(a.name, 0) for a in arms), study.profile.blocks[1]
    enough = min(stats.plan.FEWEST, most)
    late = held < enough <= fewest and 4 * (held + 1) <= block + 1  # a quarter at the most
    if control.name in names and (held < CONTROL_SHARE * block - 0.5 or late):
        return control
    for target in (enough, most):
        short = [a for a in arms if done.get(a.name, 0) < target]
        if fewest and short:
            return short[0]
    ties = [a for a in arms if done.get(a.name, 0) == fewest]
    return ties[int(coin(seed, block, "arm").integers(len(ties)))]


def whole_blocks(tidy: pd.DataFrame, open_cells: list[Cell]) -> dict[str, int]:
    """Arm name -> blocks that count in the open comparison that has the fewest: the last one counts
    where it has as many pairs as the first (`stats.sequential.complete`)."""
    pairs = tidy[~tidy["warmup"]].drop_duplicates("pair_id")
    keys = pairs["pair_id"].str.rsplit("-p", n=1).str[0]
    count = {k: int(stats.sequential.complete(b)[-1]) for k, b in pairs["block"].groupby(keys)}
    found: dict[str, int] = {}
    for c in open_cells:
        n = count.get(c.key, 0)
        found[c.arm.name] = min(n, found.get(c.arm.name, n))
    return found


def verdicts(study: Study, tidy: pd.DataFrame, *, pair_seconds: float, budget_pairs: int | None):
    """The verdict table of what has been measured: the stop rule's and the report's."""
    judged = {(w.name, m) for w in study.workloads for m in w.metrics}
    kept = [k in judged for k in zip(tidy["workload"], tidy["metric"], strict=True)]
    table = stats.table(
        tidy[kept],
        margin_pct=study.margin_pct,
        baseline=study.baseline.name,
        pair_seconds=pair_seconds,
        budget_pairs=budget_pairs,
        starts=study.profile.blocks[0] if study.design == "switched" and not study.floor else 1,
        floor=dict(study.floor) or None,
        one_start=study.floor_from,
    )
    far = table["overhead_pct"].abs() > table["metric"].map(study.reach).astype(float)
    for row in table.index[far]:
        table.at[row, "verdict"] = "cannot tell"
        table.at[row, "warnings"] = [
            *table.at[row, "warnings"],
            f"a first look is honest up to {study.reach[table.at[row, 'metric']]:.1f} % only: the two"
            " servers slow each other",
        ]
    return table


def open_cells(study: Study, tidy: pd.DataFrame, table: pd.DataFrame, blocks: int) -> list[Cell]:
    """The comparisons that still need pairs: without a settled verdict in a deciding metric, with
    fewer than the workload's least, or resting on fewer than `blocks` blocks. Controls stay open
    while any other cell is."""
    judged = tidy[~tidy["warmup"]].groupby(["workload", "threads", "arm"])
    made, seen = judged["pair_id"].nunique(), judged["block"].nunique()

    def key(c: Cell) -> tuple[str, int, str]:
        return c.workload.name, c.threads, c.arm.name

    if study.pairs:
        return [c for c in cells(study) if not c.control and made.get(key(c), 0) < study.pairs]
    if not len(table):
        return cells(study)
    singles = table[~table["joint"]]
    settled = singles.set_index(["workload", "metric", "threads", "arm"])["settled"]

    def is_open(c: Cell) -> bool:
        if seen.get(key(c), 0) < blocks or made.get(key(c), 0) < c.workload.least:
            return True
        keys = ((c.workload.name, m, c.threads, c.arm.name) for m in c.workload.deciding)
        return not all(bool(settled.get(k, False)) for k in keys)

    own = [c for c in cells(study) if not c.control and is_open(c)]
    return own + [c for c in cells(study) if c.control] if own else []
