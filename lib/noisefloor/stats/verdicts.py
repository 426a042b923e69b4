"""From the tidy table to the verdict table: pairs, blocks, families, joint effects."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from noisefloor.model import AGAIN as CONTROL
from noisefloor.model import METRICS
from noisefloor.stats import estimate, plan, rule, runs, scatter
from noisefloor.stats.estimate import CANNOT_TELL, FASTER, SLOWER
from noisefloor.stats.graph import ALPHA, JOINT, Name
from noisefloor.stats.row import COLUMNS, KEY, Row, percent, row
from noisefloor.stats.runs import BUCKET, BUCKETS, PERCENTILES, Side
from noisefloor.stats.scatter import Floor

UNKNOWN = "unknown"  # design of pairs from elsewhere
STEAL = "steal"  # the metric: share of a slice that the host took away
NOTICEABLE = 0.1  # of an interval's width
CARRY_OVER = 0.02  # of the active server's CPU, used by the idle one
UNPLANNED = (
    "measured under an earlier plan: judged once, at the last look's level, for the blocks it has"
)
EARLY = "ended early: judged at what {} of {} declared blocks may spend"
ENDED = "ended early: the budget was spent after {} of {} declared blocks"
Weights = Mapping[int, float]  # of thread counts


@dataclass(frozen=True)
class Asked:
    """How a tidy table is to be judged: what `table` takes beside it."""

    margin_pct: float = 2.0
    blocks: int | None = None  # declared before the campaign, for each arm; None: nothing was
    looks: Sequence[int] | None = None  # after how many of them it is judged
    control: int | None = None  # declared for the copy of the baseline, where they are others
    ended: bool = True  # also judge what lies behind the last look
    spent: bool = False  # the campaign ended with its minutes, before its declared blocks
    baseline: str | None = None
    floor: Floor = None  # start-to-start CV in percent, or entries by metric
    restarts: bool = False  # no run needs it
    one_start: str = ""  # no server was ever restarted, so that pairs need it, too: whose it is
    series: Mapping[str, Any] | None = None  # {run: values per second}, for one run an arm
    pair_seconds: float | None = None  # what one pair costs
    # {(workload, metric): {threads: weight}} of a joint effect, declared before; else equal ones
    weights: Mapping[tuple[str, str], Weights] | None = None
    levelled: bool = False  # as `pairs` takes it


def baseline_of(tidy: pd.DataFrame, baseline: str | None = None) -> str:
    """Name of the baseline arm: the one given, that of the table's attrs, the arm that has a control
    copy, or the one that stands in every pair."""
    baseline = baseline or tidy.attrs.get("baseline")
    arms = list(dict.fromkeys(tidy["arm"]))
    listed = ", ".join(map(str, arms)) or "none"
    if baseline:
        if baseline not in arms:
            raise ValueError(
                f"baseline {baseline!r} is not an arm of this table (its arms: {listed}); "
                "nothing was judged"
            )
        return baseline
    copied = [a for a in arms if f"{a}{CONTROL}" in arms]
    if len(copied) == 1:
        return copied[0]
    if _is_paired(tidy):
        held = tidy.dropna(subset=["pair_id"]).groupby("arm")["pair_id"].nunique()
        everywhere = held[held == tidy["pair_id"].nunique()].index.tolist()
        if len(everywhere) == 1:
            return everywhere[0]
    raise ValueError(
        f"which arm is the baseline: {listed}? Name it (baseline=, or attrs['baseline']); "
        "nothing was judged"
    )


def pairs(
    tidy: pd.DataFrame, *, baseline: str | None = None, levelled: bool = False
) -> pd.DataFrame:
    """One row a pair: study workload threads metric baseline arm block pair overhead raw.

    `overhead` is a log ratio, positive when the arm is worse; `raw` the same before it was
    `levelled`. Warm-up runs, metrics that are shown and never judged, and half pairs are left out;
    `attrs["dropped"]` counts, by (metric, arm), the pairs with a value that has no logarithm (zero,
    negative, missing). levelled: for the processor time that the host took away (`_taken`)."""
    baseline = baseline_of(tidy, baseline)
    kept = _kept(tidy)
    kept = kept[kept["pair_id"].notna()]
    key = ["study", "campaign", "workload", "threads", "metric", "pair_id"]
    key = [k for k in key if k in kept]  # a pair's name is unique within its campaign only
    run = ["run"] if "run" in kept else []
    both = kept.loc[kept["arm"] != baseline, [*key, "arm", "block", "pair", "value", *run]].merge(
        kept.loc[kept["arm"] == baseline, [*key, "value", *run]], on=key, suffixes=("", "_baseline")
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.log(both["value"].to_numpy(float) / both["value_baseline"].to_numpy(float))
    both["overhead"] = both["raw"] = ratio * [runs.sign(m) for m in both["metric"]]
    both["baseline"] = baseline
    finite = np.isfinite(both["raw"])
    dropped = both.loc[~finite].groupby(["metric", "arm"]).size().to_dict()
    both = both[finite].copy()
    if levelled and run:
        taken = tidy[tidy["metric"] == STEAL].drop_duplicates("run").set_index("run")["value"]
        mine, other = (both[c].map(taken).astype(float) for c in ("run", "run_baseline"))
        both["overhead"] -= _taken(both, mine - other)
    columns = ["study", "workload", "threads", "metric", "baseline", "arm", "block", "pair"]
    out = both[[*columns, "overhead", "raw"]].sort_values(
        ["study", "workload", "metric", "arm", "threads", "pair"], ignore_index=True
    )
    out.attrs = {**tidy.attrs, "baseline": baseline, "dropped": dropped}
    return out


def _taken(frame: pd.DataFrame, steal: pd.Series) -> pd.Series:
    """A slope times `steal`, how much more of its slice the host took from the arm's run than from
    the baseline's: neighbours of a virtual machine, which no arm can cause.

    One slope a workload, metric and thread count, of the pairs around the means of their blocks, so
    that it knows nothing of what is judged, the means (analysis of covariance). Zero without two
    pairs in a block, or without any steal."""
    cell = [frame[c] for c in ("study", "workload", "metric", "threads")]
    block = [*cell, frame["arm"], frame["block"]]
    known = frame["overhead"].where(steal.notna())
    x, y = (v - v.groupby(block, dropna=False).transform("mean") for v in (steal, known))
    product, square = ((x * v).groupby(cell, dropna=False).transform("sum") for v in (y, x))
    return (product / square.where(square > 0) * steal).fillna(0.0)


def table(tidy: pd.DataFrame, **given: Any) -> pd.DataFrame:
    """The verdict table: a row a comparison, and a joint row an arm of several thread counts.

    given: fields of Asked. Pairs are judged by `rule`, runs without pairs by `runs`. ValueError:
    margin not above 0, no baseline, no usable row."""
    asked = Asked(**given)
    if not asked.margin_pct > 0:
        raise ValueError(
            f"margin {asked.margin_pct} %: the difference that matters must be above 0; nothing "
            "was judged"
        )
    if tidy.empty:
        raise ValueError("the table has no rows; at least one run per arm is needed")
    found = (_paired if _is_paired(tidy) else _unpaired)(tidy, asked)
    out = pd.DataFrame(found, columns=COLUMNS)
    out["threads"] = out["threads"].astype("Int64")
    out.attrs["margin_pct"] = asked.margin_pct
    return out


def units(
    frame: pd.DataFrame, blocks_of_arm: Sequence[int] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(turn of each block, its mean, pairs in it) of one comparison's rows of `pairs`.

    turn: place of the block among the arm's blocks (`blocks_of_arm`, ascending; its own without).
    The last block counts where it has as many pairs as the first."""
    each = frame.groupby("block", sort=True)["overhead"].agg(["mean", "size"])
    if len(each) > 1 and each["size"].iloc[-1] < each["size"].iloc[0]:
        each = each.iloc[:-1]
    order = each.index if blocks_of_arm is None else blocks_of_arm
    turn = np.searchsorted(np.asarray(order), each.index.to_numpy())
    return turn, each["mean"].to_numpy(float), each["size"].to_numpy(int)


def path(frame: pd.DataFrame, *, level: float = ALPHA, margin_pct: float = 2.0) -> pd.DataFrame:
    """How the interval of one comparison narrowed: n (pairs) overhead_pct lo_pct hi_pct verdict, a row
    a block. frame: its rows of `pairs`; level: of every interval, that of the row in the end."""
    _, means, sizes = units(frame)
    margin, out = math.log1p(margin_pct / 100), []
    for k in range(1, len(means) + 1):
        m = rule.moments(means[:k])
        half = float(m.half(level)) if k > 1 else math.nan
        lo, hi = float(m.mean) - half, float(m.mean) + half
        word = estimate.word_of(lo, hi, margin)
        ends = (percent(x) for x in (float(m.mean), lo, hi))
        out.append((int(sizes[:k].sum()), *ends, word))
    return pd.DataFrame(out, columns=["n", "overhead_pct", "lo_pct", "hi_pct", "verdict"])


def _is_paired(tidy: pd.DataFrame) -> bool:
    return "pair_id" in tidy and bool(tidy["pair_id"].notna().any())


def _kept(tidy: pd.DataFrame) -> pd.DataFrame:
    """Rows that are judged: no warm-ups, and no metrics that are shown and never judged."""
    judged = tidy["metric"].map(lambda m: m not in METRICS or METRICS[m].judged).astype(bool)
    return tidy[judged & ~tidy["warmup"].astype(bool)] if "warmup" in tidy else tidy[judged]


# -- pairs ------------------------------------------------------------------------------------------


class _Member(NamedTuple):
    """The blocks of one comparison."""

    turns: np.ndarray
    means: np.ndarray
    size: float  # pairs of a block
    known: float = 0.0  # variance of their mean that is known
    weights: Weights | None = None  # declared ones of a joint effect


def _paired(tidy: pd.DataFrame, asked: Asked) -> Iterator[Row]:
    """Verdict rows of paired runs: the arms are a family, and so is the copy of the baseline."""
    frame = pairs(tidy, baseline=asked.baseline, levelled=asked.levelled)
    own = (asked.blocks, asked.looks)
    copied = (asked.control, (asked.control,)) if asked.control else own
    said = ""
    carried = float(tidy["carry_over"].mean()) if "carry_over" in tidy else 0.0
    if carried > CARRY_OVER:
        said = (
            f"carry-over: the idle server still used {100 * carried:.0f} % of the active one's CPU, "
            "which hides a part of the overhead"
        )
    design, lost = tidy.attrs.get("design") or UNKNOWN, frame.attrs["dropped"]
    groups: Any = frame.groupby(list(KEY[:4]), sort=False)
    for key, rows in groups:
        copy = rows["arm"] == f"{key[3]}{CONTROL}"
        for family, declared in ((rows[~copy], own), (rows[copy], copied)):
            if len(family):
                yield from _family(family, key, declared, asked, design, said, lost)


def _family(
    family: pd.DataFrame,
    key: tuple[str, str, str, str],
    declared: tuple[int | None, Sequence[int] | None],
    asked: Asked,
    design: str,
    said: str,
    lost: Mapping[tuple[str, str], int],
) -> Iterator[Row]:
    """Verdict rows of the comparisons that share their 5 %. declared: blocks and looks; said: what
    is wrong with all of them; lost: pairs that were left out, by (metric, arm)."""
    (_, workload, metric, _), margin = key, math.log1p(asked.margin_pct / 100)
    planned = design != UNKNOWN
    blocks, looks = declared if planned else (None, None)
    one = not planned and family["block"].nunique() == 1
    needs = bool(asked.one_start) or (one and not asked.restarts)
    start, started = scatter.start(metric, asked.floor) if needs else None, ""
    if start:
        started = f"a start-to-start CV of {100 * start.cv:.2g} % is added"
        unsure = f"one start, and nothing says whether the servers were dealt anew: {started}"
        known = f"the server was not restarted: {started}, {asked.one_start}"
        started = known if asked.one_start else unsure
    weights = (asked.weights or {}).get((workload, metric), {})
    members = _members(family, metric, one, weights)
    read = rule.family(
        {name: (m.turns, m.means) for name, m in members.items()},
        blocks=blocks,
        looks=looks,
        population=scatter.population(metric),
        margin=margin,
        start=start.part if start else None,
        known={name: m.known for name, m in members.items()},
        ended=asked.ended,
        spent=asked.spent,
    )
    places = list(dict.fromkeys(family["arm"]))
    for arm, threads in sorted(read, key=lambda k: (places.index(k[0]), k[1] is JOINT)):
        o, size, joint = read[arm, threads], members[arm, threads].size, threads is JOINT
        word, needed, cv, n = o.word, None, math.nan, round(size * o.units)
        if hidden := not joint and _hidden(metric, o):
            word = CANNOT_TELL
        if o.units > 1 and o.hi > o.lo:
            cv = abs(o.estimate) / (o.hi - o.lo) * 2 * o.sd * math.sqrt(size / 2)
        if word != CANNOT_TELL:
            needed = n
        elif o.units > 1 and not hidden:
            more = plan.units_needed(o.estimate, o.sd, margin, share=o.share, least=o.units + 1)
            needed = math.ceil(more * size) if more else None
        gone = lost.get((metric, arm))
        early = o.word == CANNOT_TELL and o.units < (blocks or 0)
        mine = family[family["arm"] == arm]
        if not joint and threads != "":
            mine = mine[mine["threads"] == threads]
        parts = {t: x for (a, t), x in read.items() if a == arm and t is not JOINT}
        notes = (
            BUCKETS if hidden else "",
            o.reason,
            said,
            started,
            UNPLANNED if planned and blocks is None else "",
            (ENDED if asked.spent else EARLY).format(o.units, blocks) if early else "",
            f"{gone} pairs left out: a value is missing, zero or negative" if gone else "",
            "one block: two are needed for an interval" if o.units < 2 else "",
            *(_joint_notes(metric, o, members[arm, threads].weights, parts) if joint else ()),
            _moved(mine, o, weights),
        )
        yield row(
            (*key, arm),
            (n, n),
            (o.estimate, o.lo, o.hi, o.same_lo, o.same_hi),
            word,
            needed,
            asked.pair_seconds,
            filter(None, notes),
            threads=pd.NA if joint or threads == "" else threads,
            level=o.level,
            p=o.p,
            deciding_cv_pct=100 * cv,
            joint=joint,
            blocks=o.units,
            design=design,
        )


def _members(family: pd.DataFrame, metric: str, one: bool, weights: Weights) -> dict[Name, _Member]:
    """{(arm, threads): its blocks}, of each arm the joint effect first; one: every pair is a block
    of its own. weights: of thread counts."""
    members: dict[Name, _Member] = {}
    groups: Any = family.groupby("arm", sort=False)
    for arm, mine in groups:
        order = None if one else sorted(set(mine["block"]))
        found = {}
        for t, rows in mine.groupby("threads", dropna=False):
            rows = rows.assign(block=np.arange(len(rows))) if one else rows
            found["" if pd.isna(t) else int(t)] = units(rows, order)
        columns = {t: pd.Series(x, index=at) for t, (at, x, _) in found.items()}
        whole = pd.DataFrame(columns).dropna()  # blocks that hold every thread count
        if len(found) > 1 and len(whole):
            w, told = _weighed(whole.columns, weights)
            w = w / w.sum()
            size = sum(size.mean() for *_, size in found.values())
            declared: Any = dict(zip(whole.columns, w, strict=True)) if told else None
            means = whole.to_numpy() @ w
            members[arm, JOINT] = _Member(whole.index.to_numpy(), means, size, weights=declared)
        for t, (turn, means, size) in found.items():
            known = BUCKET**2 / 6 / max(size.sum(), 1) if metric in PERCENTILES else 0.0
            members[arm, t] = _Member(turn, means, size.mean(), known)
    return members


def _weighed(threads: Any, weights: Weights) -> tuple[np.ndarray, bool]:
    """(a weight for each thread count, whether they are declared ones): equal ones where a thread
    count has none."""
    w = np.array([weights.get(t, math.nan) for t in threads], float)
    return (w, True) if np.isfinite(w).all() else (np.ones(len(w)), False)


def _hidden(metric: str, o: rule.Outcome) -> bool:
    """Whether a percentile's difference is within one bucket of the tool's histogram."""
    return metric in PERCENTILES and abs(o.estimate) < BUCKET and o.word in (SLOWER, FASTER)


def _joint_notes(
    metric: str, joint: rule.Outcome, weights: Weights | None, own: Mapping[Any, rule.Outcome]
) -> Iterator[str]:
    words = {t: CANNOT_TELL if _hidden(metric, o) else o.word for t, o in own.items()}
    yield runs.apart(joint.word, words, [(o.lo, o.hi) for o in own.values()])
    if weights:
        told = ", ".join(f"{t}: {100 * w:.0f} %" for t, w in weights.items())
        yield f"thread counts weighted by the A/A scatter that is recorded for them ({told})"
    else:
        yield "thread counts weighted equally: no A/A scatter is recorded for them"


def _moved(rows: pd.DataFrame, o: rule.Outcome, weights: Weights) -> str:
    """That levelling moved the estimate noticeably: where it would be without. weights: of thread
    counts, as the joint effect has them."""
    rows = rows.assign(gap=rows["raw"] - rows["overhead"])
    each = rows.groupby(["threads", "block"], dropna=False)["gap"].mean().groupby(level=0).mean()
    gap = float(np.average(each, weights=_weighed(each.index, weights)[0])) if len(each) else 0.0
    if not abs(gap) > NOTICEABLE * (o.hi - o.lo):
        return ""
    without = f"{percent(o.estimate + gap):+.1f} % without"
    return f"levelled for the processor time that the host took from either run: {without}"


# -- runs without pairs -----------------------------------------------------------------------------


def _unpaired(tidy: pd.DataFrame, asked: Asked) -> Iterator[Row]:
    """Verdict rows of runs without pairs. In plain dicts: the groups are small and many."""
    baseline = baseline_of(tidy, asked.baseline)
    columns = [*KEY[:3], "arm", "threads", "value", "run", "duration_s"]
    kept = _kept(tidy).reindex(columns=columns).dropna(subset=columns[:4])
    kept = kept.astype({"duration_s": float})
    works: dict[Any, dict[Any, dict[Any, list[Any]]]] = {}
    for *key, arm, threads, value, run, span in kept.itertuples(index=False, name=None):
        arms = works.setdefault(tuple(key), {})
        count = None if pd.isna(threads) else int(threads)
        arms.setdefault(arm, {}).setdefault(count, []).append((value, run, span))

    def side(found: Sequence[Any]) -> Side:
        """The runs of one arm at one thread count."""
        rates = (asked.series or {}).get(found[0][1]) if len(found) == 1 else None
        return Side(tuple(v for v, *_ in found), rates)

    for (study, workload, metric), arms in works.items():
        first = arms.pop(baseline, {})
        for arm, mine in arms.items():  # each a question of its own, as two folders of logs are
            common = sorted((t for t in mine if t in first), key=lambda t: t or 0)
            spans = [span for t in common for *_, span in (*first[t], *mine[t]) if span > 0]
            yield from runs.judge(
                {arm: {t: (side(first[t]), side(mine[t])) for t in common}},
                metric=metric,
                baseline=baseline,
                study=study,
                workload=workload,
                margin_pct=asked.margin_pct,
                restarts=asked.restarts,
                floor=asked.floor,
                seconds=max(spans, default=None),
            )
