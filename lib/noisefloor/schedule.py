"""Which run comes next: coin-flipped pairs, blocks, and when to stop. Pure: no disk, no servers.

Every coin is a function of the campaign's seed and of what it decides, so a resumed campaign
deals as an uninterrupted one would have."""

import hashlib
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from noisefloor import stats
from noisefloor.model import AGAIN, Arm, Study, StudyError, Workload

CONTROL_BLOCKS = 6  # side by side: the fewest whose signs can reach 5 %
CONTROL_SHARE = 0.08  # of the time, at the most
WHOLE, MOST_BLOCKS = 10, 12  # blocks of a standard campaign
SHORT = ("smoke", "quick")  # profiles whose campaigns keep their plan
FILLED = 20  # blocks at most of one whose minutes hold more than it declared
WINDOW_S = 2.0  # of a duet
LEAST_WINDOWS = 3  # of a duet in a block
CONTROL_WINDOWS = 2  # of a duet in a block of the control, at least
LOST_S = 0.5  # of the clock between two slices, about
STARTING_S = 3.0  # of a block that are neither slices nor warm-up: its evidence, above all
AT_ONCE_S = 4.5  # the same of a duet, whose load begins before its first window
STARTS_S = 1.5  # of it that no budget counts: both servers start
SPENT = "the budget is spent"  # why a campaign ended
NOT_JUDGED = "not judged"  # throughput of two servers that are loaded at once: another question
CONTENDED = "size under contention: both servers were under load at once"

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
    """All comparisons, the study's own first, then the A/A control: the cell of the first workload
    with the fewest threads, which costs least."""
    own = [
        Cell(w, t, a)
        for a in study.arms
        for w in study.workloads
        for t in w.threads
        if not w.arms or a.name in w.arms
    ]
    first = study.workloads[0]
    return [*own, Cell(first, min(first.threads), study.control)]


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


def plan(study: Study) -> dict:
    """What a campaign declares before it measures: blocks (for each arm), looks (numbers of blocks
    after which it is judged), control (blocks of the A/A control side by side, 0 for none), pairs
    (of every comparison in a block; 0: as many as the first block's share of the budget holds),
    windows (of a duet in a block), weighing (workload -> metric -> thread count -> sd of a pair in
    percent, which weights the joint effect), levelled (whether pairs are levelled for what the host
    takes away: `stats.pairs`) and expected: metric -> half width in percent of the headline's
    interval that the recorded noise lets expect."""
    blocks, control = study.profile.blocks, 0
    if study.whole:
        looks = [blocks]
    else:
        if blocks >= WHOLE:  # a short campaign asks one question of its own
            blocks = next((k for k in range(blocks, MOST_BLOCKS) if _enough(study, k)), MOST_BLOCKS)
            control = CONTROL_BLOCKS if _has_time(study) else 0
        looks = list(stats.spending.planned(blocks))
    declared = {
        "blocks": blocks,
        "looks": looks,
        "control": control,
        "pairs": 0,
        "windows": _fitting(study, blocks)[1],
        "weighing": weighing(study),
        "levelled": True,
    }
    return declared | {"expected": expected(study, declared)}


def filled(study: Study, declared: dict, block_s: float) -> dict:
    """The plan with as many blocks as the budget holds, where its blocks are shorter than their share
    of it: `block_s` is what the first one took. What it measured is not looked at. A short campaign
    keeps its plan, and so does one that is judged once."""
    if study.whole or study.profile.name in SHORT or block_s <= 0:
        return declared
    switched = study.design == "switched"
    control = 0 if switched else declared["control"] * _control_s(study)
    each = block_s if switched else block_s * len(study.arms)
    holds = min(FILLED, int((60 * study.profile.budget_min - control) / each))
    if holds <= declared["blocks"]:
        return declared
    more = declared | {"blocks": holds, "looks": list(stats.spending.planned(holds))}
    return more | {"expected": expected(study, more, declared["pairs"])}


def kin(study: Study, work: Workload) -> tuple[str, ...]:
    """Under which names the scatter of a workload's pairs may be recorded, its own first: then that
    of its script, or of the calibration's duet."""
    script = "oltp_read_write" if work.script == "work.lua" else work.script  # which it adds to
    alike = work.tool == "sysbench" and not work.throttled and work.share == 1
    other = "calibration: at once" if work.at_once else script
    return (f"{study.name}: {work.name}", *((other,) if alike else ()))


def weighing(study: Study) -> dict[str, dict[str, dict[str, float]]]:
    """{workload: {metric: {threads: sd of a pair in percent}}} as it is known now."""
    out: dict[str, dict[str, dict[str, float]]] = {}
    for w in (w for w in study.workloads if len(w.threads) > 1):
        for m in w.metrics:
            sds = stats.scatter.pair_sds(kin(study, w), m, w.threads)
            if len(set(sds.values())) > 1:
                out.setdefault(w.name, {})[m] = {str(t): sd for t, sd in sds.items()}
    return out


def _fitting(study: Study, blocks: int) -> tuple[int, int]:
    """About how many pairs of every comparison, and how many windows of a duet, a block holds."""
    own = [c for c in cells(study) if not c.control]
    arms = 1 if study.design == "switched" else len(study.arms)  # that have a block of their own
    block = 60 * study.profile.budget_min / (blocks * arms) - starting_s(study)
    at_once = (block + STARTS_S) * arms / len(own)
    windows = max(LEAST_WINDOWS, int(at_once / window_s(study)) - 1)
    pairs = max(1, int(block * arms / sum(pair_s(study, c) for c in own)))
    return pairs, windows if any(w.at_once for w in study.workloads) else 0


def slice_s(study: Study, cell: Cell) -> int:
    """Seconds of a slice of a comparison."""
    return max(study.profile.slice_s, cell.workload.slices.get(str(cell.threads), 0))


def pair_s(study: Study, cell: Cell) -> float:
    """Seconds that a pair of a comparison takes, with what is lost between two slices."""
    return 2 * (slice_s(study, cell) + LOST_S)


def starting_s(study: Study) -> float:
    """Seconds of a block that are not measured, about: warm-up and evidence."""
    if all(w.at_once for w in study.workloads):
        return AT_ONCE_S
    return STARTING_S + study.profile.warmup_s + LOST_S


def window_s(study: Study) -> float:
    """Seconds of a window of a duet."""
    return min(WINDOW_S, study.profile.slice_s)


def windows(study: Study, declared: dict, *, control: bool) -> int:
    """Windows of a block; the A/A control's share of the time is bounded."""
    if not control:
        return declared["windows"]
    block = CONTROL_SHARE * 60 * study.profile.budget_min / CONTROL_BLOCKS
    # one window's time goes to the load that begins, as in `_fitting`
    return max(CONTROL_WINDOWS, int((block - starting_s(study)) / window_s(study)) - 1)


def expected(study: Study, declared: dict, pairs: int = 0) -> dict[str, float]:
    """{metric: half width in percent} of the headline's interval at the last look, by the recorded
    A/A noise of the first workload; without the metrics of which nothing is recorded."""
    work = study.workloads[0]
    blocks = declared["blocks"]
    fit = declared["windows"] if work.at_once else pairs or _fitting(study, blocks)[0]
    share = next(iter(stats.graph.Graph({study.arms[0].name: work.threads}).shares.values()))
    level = stats.spending.last_level(round(share / len(study.arms), 6), blocks)
    t = stats.student.quantile(1 - level / 2, blocks - 1)
    found = {}
    for metric in work.deciding:
        sds = stats.scatter.pair_sds(kin(study, work), metric, work.threads)
        if not sds:
            continue
        start = stats.scatter.start(metric) if study.design != "switched" else None
        one = 1 / sum((sd / 100) ** -2 * fit for sd in sds.values())
        both = (one + (2 * start.cv**2 if start else 0.0)) / blocks
        found[metric] = round(100 * math.expm1(t * math.sqrt(both)), 2)
    return found


def quickest_min(study: Study) -> int:
    """Whole minutes in which a campaign of the profile's blocks can end, about."""
    return math.ceil(least_min(study, {"blocks": study.profile.blocks, "windows": LEAST_WINDOWS}))


def least_min(study: Study, declared: dict) -> float:
    """Minutes of measuring that one pair of every comparison in every block takes, about."""
    each = [
        (declared["windows"] + 1) * window_s(study) if c.workload.at_once else pair_s(study, c)
        for c in cells(study)
        if not c.control
    ]
    blocks = 1 if study.design == "switched" else len(study.arms)
    return declared["blocks"] * (sum(each) + blocks * starting_s(study)) / 60


def _has_time(study: Study) -> bool:
    """Whether the A/A control's blocks take no more than their share of the time; switched it has no
    blocks of its own."""
    if study.design == "switched":
        return True
    return CONTROL_BLOCKS * _control_s(study) <= CONTROL_SHARE * 60 * study.profile.budget_min


def _control_s(study: Study) -> float:
    """Seconds that a block of the A/A control takes, about, where it has blocks of its own."""
    cell = next(c for c in cells(study) if c.control)
    if not cell.workload.at_once:
        return starting_s(study) + pair_s(study, cell)
    return starting_s(study) + (windows(study, {}, control=True) + 1) * window_s(study)


def _enough(study: Study, blocks: int) -> bool:
    """Whether the signs of so many blocks can reach the level of the smallest share."""
    threads = study.workloads[0].threads
    share = min(stats.graph.Graph({a.name: threads for a in study.arms}).shares.values())
    return stats.spending.fewest_flips(blocks) <= stats.spending.last_level(round(share, 6), blocks)


def turns(seed: int, study: Study, declared: dict) -> list[tuple[int, Arm | None]]:
    """(round, arm that is compared with the baseline) of every block, in order; None for all arms.

    Side by side every round holds each arm once, in an order dealt by coin, and the control's
    blocks are spread evenly."""
    if study.design == "switched":
        return [(k, None) for k in range(declared["blocks"])]
    out: list[tuple[int, Arm | None]] = []
    for k in range(declared["blocks"]):
        dealt = coin(seed, k, "arms").permutation(len(study.arms))
        out += [(k, study.arms[i]) for i in dealt]
        share = declared["control"] / declared["blocks"]
        if round((k + 1) * share) > round(k * share):
            out.append((k, study.control))
    return out


def share_s(study: Study, turns_: list[tuple[int, Arm | None]]) -> float:
    """Seconds of the budget that a block has for its pairs; blocks of the control have one pair."""
    control = sum(arm == study.control for _, arm in turns_)
    lost = control * pair_s(study, next(c for c in cells(study) if c.control))
    whole = 60 * study.profile.budget_min - lost - len(turns_) * starting_s(study)
    return whole / (len(turns_) - control)


def round_of(seed: int, block: int, number: int, found: list[Cell]) -> list[Cell]:
    """The cells of one round in random order: every comparison once, and in the first round of a
    block the control."""
    chosen = [c for c in found if not c.control] or found
    if number == 0:
        chosen = found
    return [chosen[i] for i in coin(seed, block, number, "round").permutation(len(chosen))]


def margin_pct(study: Study, duet: bool) -> float:
    """What counts as same, in percent: less for a duet whose calibration allows the word alone, by what
    it may understate."""
    narrower = min(0.8, 1 - study.shrinks) if duet and study.duet == "word" else 1.0
    return study.margin_pct * narrower


def verdicts(
    study: Study,
    tidy: pd.DataFrame,
    declared: dict | None,
    *,
    pair_seconds: float,
    ended: bool = True,
    spent: bool = False,
) -> pd.DataFrame:
    """The verdict table of what has been measured: the stop rule's and the report's. declared: the
    campaign's `plan`, None for one that was measured under another rule; ended, spent: as in
    `stats.rule.family`."""
    plan, tables = declared or {}, []
    judged = {(w.name, m) for w in study.workloads for m in (*w.metrics, stats.verdicts.STEAL)}
    kept = np.array([k in judged for k in zip(tidy["workload"], tidy["metric"], strict=True)], bool)
    at_once = tidy["workload"].isin([w.name for w in study.workloads if w.at_once]).to_numpy()
    weights = {
        (work, metric): {int(t): sd**-2.0 for t, sd in of.items()}
        for work, metrics in plan.get("weighing", {}).items()
        for metric, of in metrics.items()
    }
    for duet in [d for d in (False, True) if (at_once == d).any()] or [False]:
        part = tidy[kept & (at_once == duet)]
        part.attrs["design"] = "duet" if duet else study.design
        table = stats.table(
            part,
            margin_pct=margin_pct(study, duet),
            baseline=study.baseline.name,
            blocks=plan.get("blocks"),
            looks=plan.get("looks"),
            control=plan.get("control") if study.design != "switched" else None,
            ended=ended,
            spent=spent,
            pair_seconds=window_s(study) if duet else pair_seconds,
            floor={m: {"cv_pct": cv, "df": df} for m, (cv, df) in study.floor.items()} or None,
            one_start=study.floor_from,
            weights=weights,
            levelled=bool(plan.get("levelled")),
        )
        if duet:
            _as_duet(table, study.duet)
        tables.append(table)
    table = pd.concat(tables, ignore_index=True) if len(tables) > 1 else tables[0]
    table.attrs["margin_pct"] = study.margin_pct
    return table


_OF_A_WORD = ("ended early", "too few blocks")  # remarks that only a row with a word can need


def _as_duet(table: pd.DataFrame, says: str) -> None:
    """What a duet may say: processor time, by word alone where calibration allows no more."""
    for row in table.index:
        if table.at[row, "metric"] != "cpu_per_transaction" or not says:
            table.at[row, "verdict"] = NOT_JUDGED
            warned = table.at[row, "warnings"]
            table.at[row, "warnings"] = [w for w in warned if not w.startswith(_OF_A_WORD)]
        elif says == "word":
            table.at[row, "warnings"] = [CONTENDED, *table.at[row, "warnings"]]


def undecided(study: Study, table: pd.DataFrame) -> set[str]:
    """The arms with a comparison in a deciding metric, joint effects included, that has no word."""
    deciding = {(w.name, m) for w in study.workloads for m in w.deciding}
    own = table[~table["control"] & table["verdict"].isin(["cannot tell", NOT_JUDGED])]
    return {
        arm
        for work, metric, arm in zip(own["workload"], own["metric"], own["arm"], strict=True)
        if (work, metric) in deciding
    }
