"""Which run comes next: pairs and blocks in random order. Pure: no disk, no servers.

Every random choice depends only on the campaign's seed and on its place in the campaign, so a
resumed campaign makes the same choices as an uninterrupted one."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from noisefloor import model, stats
from noisefloor.model import CONTROL_SUFFIX, SIDE_BY_SIDE, Arm, Study, StudyError, Workload
from noisefloor.text.reasons import Reason, Why

CONTROL_BLOCKS = 6  # of the A/A control, where it has blocks of its own
CONTROL_SHARE = 0.08  # of the campaign's time, at most, for those blocks
_WHOLE = 10  # blocks of a standard campaign, at least
LOST_S = 0.5  # seconds between two slices, about
STARTING_S = 3.0  # seconds of a block beside slices and warm-up, mostly for its evidence
MOST_SATURATED = 0.1  # share of saturated windows, above which there is no verdict
SPENT = "the budget is spent"  # why a campaign ended
# workload -> arm -> [saturated windows, all windows]
Saturated = Mapping[str, Mapping[str, list[int]]]

_LONGEST = 200  # letters of a run's folder: a file system allows 255 bytes, and suffixes follow


@dataclass(frozen=True)
class Cell:
    """One comparison: a workload at a thread count, `arm` against the baseline."""

    workload: Workload
    threads: int
    arm: Arm

    @property
    def control(self) -> bool:
        """Whether it is the A/A control: both runs of a pair are of the baseline."""
        return self.arm.name.endswith(CONTROL_SUFFIX)

    @property
    def key(self) -> str:
        """Name of the cell, fit for a folder's name."""
        return slug(f"{self.workload.name} t{self.threads} {self.arm.name}")


def slug(text: str) -> str:
    """`text` as lower-case letters a to z, digits and single dashes. Other letters become their
    code points (`ue9`), other characters a dash."""
    text = text.lower().replace("=-", "=minus ")  # x=-1 is not x=1
    kept = "".join(c if c.isalnum() else " " for c in text)
    return "-".join("".join(c if c.isascii() else f"u{ord(c):x}" for c in kept).split())


def cells(study: Study) -> list[Cell]:
    """All comparisons, the study's own first, then the A/A control: the cell of the first workload
    at its first thread count."""
    compared = [
        Cell(w, t, a)
        for a in study.arms
        for w in study.workloads
        for t in w.threads
        if (not w.arms or a.name in w.arms) and w.only_at.get(str(t), a.name) == a.name
    ]
    first = study.workloads[0]
    return [*compared, Cell(first, first.threads[0], study.control)]


def check(study: Study) -> None:
    """Raise StudyError for names that would give runs the same folder, and for a budget that ends
    before the first slice does."""
    comparisons, profile = cells(study), study.profile
    shortest_s = min(slice_s(study, cell) for cell in comparisons)
    if 60 * profile.budget_min < (first_s := profile.warmup_s + shortest_s):
        raise StudyError(
            f"budget {profile.budget_min:g}: more than {first_s / 60:.2g} minutes are needed, for"
            " a warm-up and a slice; nothing was measured"
        )
    names = [study.baseline.name, study.control.name, *(a.name for a in study.arms)]
    seen = {slug(name): name for name in reversed(names)}
    for name in names:
        if seen[slug(name)] != name or not slug(name) or names.count(name) > 1:
            raise StudyError(
                f"{name!r} and {seen[slug(name)]!r} would have the same folders: names of arms that"
                " differ in their letters and digits are needed; nothing was measured"
            )
    keys = {cell.key: cell for cell in comparisons}
    for cell in comparisons:
        work, arm = cell.workload.name, cell.arm.name
        if keys[cell.key] is not cell:
            raise StudyError(f"{cell.key} names two comparisons; nothing was measured")
        if len(cell.key) + max(map(len, seen)) > _LONGEST or slug(work) == "":
            raise StudyError(
                f"{work!r}, {arm!r}: names of 1 to about 60 letters are needed;"
                " nothing was measured"
            )


def generator(seed: int, *key: object) -> np.random.Generator:
    """The random generator for the choice that `key` names: seed and key alone decide its numbers."""
    # the whole key counts, so that cells which differ only in thread count choose independently
    digest = hashlib.blake2b(repr([str(k) for k in key]).encode(), digest_size=16).digest()
    return np.random.default_rng([seed, int.from_bytes(digest)])


def order(seed: int, block: int, cell: Cell, pair: int) -> bool:
    """Whether the arm of this pair is measured before the baseline."""
    return bool(generator(seed, block, cell.key, pair).integers(2))


def plan(study: Study) -> dict[str, Any]:
    """What a campaign declares before it measures: blocks (for each arm), control (blocks of the
    A/A control side by side, 0 for none), pairs (of every comparison in a block; always 0 here: as
    many as the first block's share of the budget holds) and `expected`, for the first workload."""
    blocks = study.profile.blocks
    control = CONTROL_BLOCKS if blocks >= _WHOLE and _has_time(study) else 0
    declared = {"blocks": blocks, "control": control, "pairs": 0}
    return declared | {"expected": expected(study, declared)}


def kin(study: Study, work: Workload) -> tuple[str, ...]:
    """Names under which the scatter of a workload's pairs may be recorded: its own, then its
    script's, or at a rate that of all workloads at a rate in the same arrangement."""
    script = "oltp_read_write" if work.script == "work.lua" else work.script  # it adds to that one
    if work.rate:
        script = stats.scatter.AT_RATE[at_once(study, work)]
    whole = work.share == 1 or bool(work.rate)
    alike = work.tool == "sysbench" and not work.throttled and whole
    return (f"{study.name}: {work.name}", *((script,) if alike else ()))


def _fitting(study: Study, blocks: int) -> int:
    """About how many pairs of every comparison a block holds."""
    compared = [c for c in cells(study) if not c.control]
    arms = 1 if study.design == "switched" else len(study.arms)  # that have a block of their own
    block = 60 * study.profile.budget_min / (blocks * arms) - starting_s(study)
    return max(1, int(block * arms / sum(_pair_s(study, c) for c in compared)))


def slice_s(study: Study, cell: Cell) -> float:
    """Seconds of a slice of a comparison."""
    return max(study.profile.slice_s, cell.workload.slices.get(str(cell.threads), 0))


def _pair_s(study: Study, cell: Cell) -> float:
    """Seconds that a pair of a comparison takes, with the time lost between two slices."""
    return (1 if at_once(study, cell.workload) else 2) * (slice_s(study, cell) + LOST_S)


def at_once(study: Study, work: Workload) -> bool:
    """Whether both servers are under load at the same time: at a rate, or catching up, side by
    side."""
    beside = work.tool == "replica" or (work.rate and not work.alone)
    return bool(beside) and study.design == SIDE_BY_SIDE


def starting_s(study: Study) -> float:
    """Seconds of a block that are not measured, about: warm-up and evidence."""
    return STARTING_S + study.profile.warmup_s + LOST_S


def expected(study: Study, declared: Mapping[str, Any], pairs: int = 0) -> dict[str, float]:
    """{metric: half width in percent} of the interval that the recorded A/A noise predicts for the
    first workload, the widest over its thread counts. Metrics without recorded noise and the
    percentiles of `too_few` are missing. `declared`: blocks; `pairs`: in a block, 0 for what fits."""
    work, blocks = study.workloads[0], declared["blocks"]
    fit = pairs or _fitting(study, blocks)
    together = sum(c.workload is work and not c.control for c in cells(study))
    together += _beside(study).get(work.name, 0)  # as they are judged
    q = 1 - stats.verdict.ALPHA / together / 2
    half_widths: dict[str, float] = {}
    for metric in (m for m in work.deciding if m not in too_few(study, fit)):
        sds = stats.scatter.pair_sds(kin(study, work), metric, work.threads)
        if not sds:
            continue
        start = stats.scatter.start_scatter(metric) if study.design != "switched" else None
        each = (max(sds.values()) / 100) ** 2 / fit + (2 * start.cv**2 if start else 0.0)
        half = stats.student.quantile(q, blocks - 1) * math.sqrt(each / blocks)
        # of a server that is not restarted, as `rule.block_interval` has it
        if metric in study.floor:
            cv, df = study.floor[metric]
            whole = each / blocks + (added := 2 * (cv / 100) ** 2)
            df = whole**2 / ((each / blocks) ** 2 / (blocks - 1) + added**2 / df)
            half = max(half, stats.student.quantile(q, df) * math.sqrt(whole))
        *_, half = stats.verdicts.at_least(metric, 0.0, -half, half)
        half_widths[metric] = round(100 * math.expm1(half), 2)
    return half_widths


def too_few(study: Study, pairs: int = 0) -> dict[str, Reason]:
    """Percentile -> why a block of so many `pairs` (0: as many as fit) cannot give it for the first
    workload: at its rate the block has too few transactions."""
    work = study.workloads[0]
    window_s = min(slice_s(study, c) for c in cells(study) if c.workload is work)
    n = work.rate * window_s * (pairs or _fitting(study, study.profile.blocks))
    noun = "connections" if work.tool == "connect" else "transactions"
    return {
        m: Reason(Why.TOO_FEW, metric=m, n=n, noun=noun, least=least)
        for m, q in model.QUANTILES.items()
        if work.rate and m in work.metrics and n < (least := round(model.BEYOND / (1 - q)))
    }


def quickest_min(study: Study) -> int:
    """Whole minutes that a campaign with the profile's blocks takes at least, about."""
    return math.ceil(least_min(study, {"blocks": study.profile.blocks}))


def least_min(study: Study, declared: Mapping[str, Any]) -> float:
    """Minutes of measuring that one pair of every comparison in every block takes, about."""
    each = [_pair_s(study, c) for c in cells(study) if not c.control]
    blocks = 1 if study.design == "switched" else len(study.arms)
    return declared["blocks"] * (sum(each) + blocks * starting_s(study)) / 60


def _has_time(study: Study) -> bool:
    """Whether the A/A control's blocks take no more than CONTROL_SHARE of the time. In the switched
    design it has no blocks of its own."""
    if study.design == "switched":
        return True
    cell = next(c for c in cells(study) if c.control)
    blocks_s = CONTROL_BLOCKS * (starting_s(study) + _pair_s(study, cell))
    return blocks_s <= CONTROL_SHARE * 60 * study.profile.budget_min


def turns(seed: int, study: Study, declared: Mapping[str, Any]) -> list[tuple[int, Arm | None]]:
    """(round, arm that is compared with the baseline) of every block, in order; None for all arms.

    Side by side every round has each arm once, in random order, and the control's blocks are spread
    evenly over the rounds."""
    if study.design == "switched":
        return [(k, None) for k in range(declared["blocks"])]
    out: list[tuple[int, Arm | None]] = []
    for number in range(declared["blocks"]):
        indices = generator(seed, number, "arms").permutation(len(study.arms))
        out += [(number, study.arms[i]) for i in indices]
        share = declared["control"] / declared["blocks"]
        if round((number + 1) * share) > round(number * share):
            out.append((number, study.control))
    return out


def share_s(study: Study, turns_: list[tuple[int, Arm | None]]) -> float:
    """Seconds of the budget that a block has for its pairs; blocks of the control have one pair."""
    control = sum(arm == study.control for _, arm in turns_)
    lost = control * _pair_s(study, next(c for c in cells(study) if c.control))
    whole = 60 * study.profile.budget_min - lost - len(turns_) * starting_s(study)
    return whole / (len(turns_) - control)


def round_of(seed: int, block: int, number: int, comparisons: list[Cell]) -> list[Cell]:
    """The cells of one round in random order: every comparison once, and in the first round of a
    block the control."""
    chosen = [c for c in comparisons if not c.control] or comparisons
    if number == 0:
        chosen = comparisons
    return [chosen[i] for i in generator(seed, block, number, "round").permutation(len(chosen))]


def margin_pct(study: Study, metric: str) -> float:
    """The margin of a metric in percent: what was asked for, else the metric's own."""
    return stats.verdicts.Asked(study.margin_pct, study.profile.quick).margin(metric)


def judge_campaign(
    study: Study,
    tidy: pd.DataFrame,
    declared: Mapping[str, Any] | None,
    *,
    saturated: Saturated,
    pair_seconds: float,
) -> pd.DataFrame:
    """The verdict table of a finished campaign. `declared`: its `plan`, or None; `pair_seconds`: of one
    pair. Mean latency has no verdict unless the question is about it. ValueError: no usable row."""
    plan = declared or {}
    judged = {(w.name, m) for w in study.workloads for m in w.metrics}
    kept = [k in judged for k in zip(tidy["workload"], tidy["metric"], strict=True)]
    rows = stats.table(
        tidy[np.array(kept, bool)],
        design=study.design,
        margin_pct=study.margin_pct,
        quick=study.profile.quick,
        baseline=study.baseline.name,
        blocks=plan.get("blocks"),
        control=plan.get("control") if study.design != "switched" else None,
        pair_seconds=pair_seconds,
        floor={m: {"cv_pct": cv, "df": df} for m, (cv, df) in study.floor.items()} or None,
        one_start=study.floor_from,
        beside=_beside(study),
    )
    bare = {(w.name, m) for w in study.workloads for m in {"mean_latency"} - {*w.deciding}}
    return _worded(rows, saturated, int(plan.get("pairs", 1)), bare)


def _beside(study: Study) -> dict[str, int]:
    """Workload at a rate -> how many comparisons the other rates have, which share its figure."""
    each = {
        w.name: sum(not c.control for c in cells(study) if c.workload is w)
        for w in study.workloads
        if w.rate
    }
    return {name: sum(each.values()) - n for name, n in each.items()}


def _is_explained(warning: str, blocks: float) -> bool:
    """Whether a warning of missing blocks is only due to saturated windows: `blocks` were measured."""
    if not isinstance(warning, Reason) or warning.why is not Why.ENDED_EARLY:
        return False
    return blocks >= int(warning.given["declared"])


def _worded(rows: pd.DataFrame, saturated: Saturated, pairs: int, bare: set[Any]) -> pd.DataFrame:
    """The rows, without interval and verdict where too many windows were saturated, and without a
    verdict where their (workload, metric) is in `bare`. pairs: windows of a block."""
    nan, unclear = math.nan, stats.verdict.CANNOT_TELL
    silent = {"verdict": "", "worse": False, "known": "", "runs_needed": nan, "minutes_needed": nan}
    nothing = silent | {"verdict": unclear, "lo_pct": nan, "hi_pct": nan}
    judged: list[dict[Any, Any]] = rows.to_dict("records")
    for row in judged:
        full, windows = saturated.get(row["workload"], {}).get(row["arm"], (0, 0))
        knee = full > MOST_SATURATED * windows
        if full:
            why = Why.SATURATED if knee else Why.SOME_SATURATED
            others = [
                w for w in row["warnings"] if not _is_explained(w, windows / (pairs or math.inf))
            ]
            row["warnings"] = [Reason(why, full=full, windows=windows), *others]
        row |= nothing if knee else {}
        row |= silent if (row["workload"], row["metric"]) in bare else {}
    return pd.DataFrame(judged, columns=rows.columns).astype({"threads": "Int64"})
