"""From the tidy table to the verdict table: pairs, blocks, families, joint effects."""

import math

import numpy as np
import pandas as pd

from noisefloor.study import AGAIN as CONTROL
from noisefloor.study import METRICS

from . import estimate, plan, rule, runs, scatter
from .graph import ALPHA, JOINT
from .row import COLUMNS, percent, row
from .runs import BUCKET, BUCKETS, OPPOSITE, PERCENTILES, Side

UNKNOWN = "unknown"  # design of pairs from elsewhere
STEAL = "steal"  # the metric: share of a slice that the host took away
NOTICEABLE = 0.1  # of an interval's width
CARRY_OVER = 0.02  # of the active server's CPU, used by the idle one
UNPLANNED = (
    "measured under an earlier plan: judged once, at the last look's level, for the blocks it has"
)
EARLY = "ended early: judged at what {} of {} declared blocks may spend"


def baseline_of(tidy, baseline=None):
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


def pairs(tidy, *, baseline=None, levelled=False):
    """One row a pair: study workload threads metric baseline arm block pair overhead raw.

    `overhead` is a log ratio, positive when the arm is worse; `raw` the same before it was
    `levelled`. Warm-up runs, metrics that are shown and never judged, and half pairs are left out;
    `attrs["dropped"]` counts, by (metric, arm), the pairs with a value that has no logarithm (zero,
    negative, missing). levelled: for the processor time that the host took away (`level`)."""
    baseline = baseline_of(tidy, baseline)
    known = tidy["metric"].map(METRICS.get)
    judged = known.map(lambda m: m is None or m.judged).astype(bool)
    kept = tidy[judged & tidy["pair_id"].notna() & ~tidy["warmup"].astype(bool)]
    key = ["study", "campaign", "workload", "threads", "metric", "pair_id"]
    key = [k for k in key if k in kept]  # a pair's name is unique within its campaign only
    run = ["run"] if "run" in kept else []
    both = kept.loc[kept["arm"] != baseline, [*key, "arm", "block", "pair", "value", *run]].merge(
        kept.loc[kept["arm"] == baseline, [*key, "value", *run]], on=key, suffixes=("", "_baseline")
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.log(both["value"].to_numpy(float) / both["value_baseline"].to_numpy(float))
    both["overhead"] = ratio * [runs.sign(m) for m in both["metric"]]
    both["baseline"] = baseline
    finite = np.isfinite(both["overhead"])
    dropped = both.loc[~finite].groupby(["metric", "arm"]).size().to_dict()
    both["raw"] = both["overhead"]
    if levelled and run:
        taken = tidy[tidy["metric"] == STEAL].drop_duplicates("run").set_index("run")["value"]
        both["steal"] = both["run"].map(taken) - both["run_baseline"].map(taken)
        both["overhead"] = level(both[finite])["overhead"].reindex(both.index)
    columns = ["study", "workload", "threads", "metric", "baseline", "arm", "block", "pair"]
    out = both.loc[finite, [*columns, "overhead", "raw"]].sort_values(
        ["study", "workload", "metric", "arm", "threads", "pair"], ignore_index=True
    )
    out.attrs = {**tidy.attrs, "baseline": baseline, "dropped": dropped}
    return out


def level(frame):
    """`frame` with `overhead` less a slope times `steal`, how much more of its slice the host took from
    the arm's run than from the baseline's: neighbours of a virtual machine, which no arm can cause.

    One slope a workload, metric and thread count, of the pairs around the means of their blocks, so
    that it knows nothing of what is judged, the means (analysis of covariance). Without two pairs in
    a block, or without any steal, nothing changes."""
    known = frame["steal"].notna()
    around = ["study", "workload", "metric", "threads", "arm", "block"]
    part = frame.loc[known, [*around, "overhead", "steal"]]
    groups = part.groupby(around, dropna=False)[["overhead", "steal"]]
    apart = part[["overhead", "steal"]] - groups.transform("mean")
    cell = [part[c] for c in around[:4]]
    product = (apart["overhead"] * apart["steal"]).groupby(cell, dropna=False).transform("sum")
    square = (apart["steal"] ** 2).groupby(cell, dropna=False).transform("sum")
    slope = (product / square.where(square > 0)).fillna(0.0)
    less = (slope * part["steal"]).reindex(frame.index, fill_value=0.0)
    return frame.assign(overhead=frame["overhead"] - less)


def table(
    tidy,
    *,
    margin_pct=2.0,
    blocks=None,
    looks=None,
    control=None,
    ended=True,
    baseline=None,
    floor=None,
    restarts=False,
    one_start="",
    series=None,
    pair_seconds=None,
    weights=None,
    levelled=False,
):
    """The verdict table: a row a comparison, and a joint row an arm of several thread counts.

    Pairs are judged by `rule`, runs without pairs by `runs`. blocks: declared before the campaign,
    for each arm; None: nothing was declared. looks: after how many of them it is judged. control: blocks declared for
    the copy of the baseline, where they are others. ended: also judge what lies behind the last look.
    floor: start-to-start CV in percent, or entries by metric; restarts: no run needs it. one_start:
    the server was never restarted, so that pairs carry the floor, too: whose it is, in words.
    series: {run: values per second}, for one run an arm. pair_seconds: what one pair costs.
    weights: {(workload, metric): {threads: weight}} of the joint effect, declared beforehand; equal
    ones without. levelled: as `pairs` takes it. ValueError: margin not above 0, no baseline, no usable row."""
    if not margin_pct > 0:
        raise ValueError(
            f"margin {margin_pct} %: the difference that matters must be above 0; nothing was judged"
        )
    if tidy.empty:
        raise ValueError("the table has no rows; at least one run per arm is needed")
    if _is_paired(tidy):
        found = _paired(
            tidy, math.log1p(margin_pct / 100), ((blocks, looks), (control, (control,)) if control else (blocks, looks)), ended, baseline, floor, restarts, one_start,
            pair_seconds, weights or {}, levelled,
        )  # fmt: skip
    else:
        found = _unpaired(tidy, margin_pct, floor, baseline, restarts, series)
    out = pd.DataFrame(found, columns=COLUMNS)
    out["threads"] = out["threads"].astype("Int64")
    out.attrs["margin_pct"] = margin_pct
    return out


def units(frame, blocks_of_arm=None):
    """(turn of each block, its mean, pairs in it) of one comparison's rows of `pairs`.

    turn: place of the block among the arm's blocks (`blocks_of_arm`, ascending; its own without).
    The last block counts where it has as many pairs as the first."""
    each = frame.groupby("block", sort=True)["overhead"].agg(["mean", "size"])
    if len(each) > 1 and each["size"].iloc[-1] < each["size"].iloc[0]:
        each = each.iloc[:-1]
    order = each.index if blocks_of_arm is None else blocks_of_arm
    turn = np.searchsorted(np.asarray(order), each.index.to_numpy())
    return turn, each["mean"].to_numpy(float), each["size"].to_numpy(int)


def path(frame, *, level=ALPHA, margin_pct=2.0):
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


def _is_paired(tidy):
    return "pair_id" in tidy and tidy["pair_id"].notna().any()


# -- pairs ------------------------------------------------------------------------------------------


def _paired(
    tidy, margin, declared, ended, baseline, floor, restarts, one_start, seconds, weights, levelled
):
    """Verdict rows of paired runs."""
    frame = pairs(tidy, baseline=baseline, levelled=levelled)
    design = tidy.attrs.get("design") or UNKNOWN
    carried = 0.0 if "carry_over" not in tidy else float(tidy["carry_over"].mean())
    said = []
    if carried > CARRY_OVER:
        said.append(
            f"carry-over: the idle server still used {100 * carried:.0f} % of the active one's CPU, "
            "which hides a part of the overhead"
        )
    keys = ["study", "workload", "metric", "baseline"]
    for (study, workload, metric, base), rows in frame.groupby(keys, sort=False):
        copy = rows["arm"] == f"{base}{CONTROL}"
        for family, plan_ in ((rows[~copy], declared[0]), (rows[copy], declared[1])):
            if family.empty:
                continue
            one = design == UNKNOWN and family["block"].nunique() == 1
            known = scatter.start(metric, floor) if one_start or (one and not restarts) else None
            given = {
                "start": known,
                "weights": weights.get((workload, metric), {}),
                "notes": [*said, *_notes(known, one_start)],
                "declared": (None, None) if design == UNKNOWN else plan_,
                "unplanned": design != UNKNOWN and plan_[0] is None,
                "population": scatter.population(metric),
                "dropped": frame.attrs["dropped"],
            }
            made = _family(family, margin, ended, design, one, given)
            for (arm, threads), o, members, notes in made:
                mine = family[family["arm"] == arm]
                mine = (
                    mine if threads is JOINT or threads == "" else mine[mine["threads"] == threads]
                )
                notes = [*notes, *_moved(mine, o, given["weights"])]
                key = (study, workload, metric, base, arm)
                yield _paired_row(key, threads, o, members, notes, design, seconds, margin)


def _moved(rows, o, weights):
    """That levelling moved the estimate noticeably: where it would be without. weights: of thread
    counts, as the joint effect has them."""
    rows = rows.assign(gap=rows["raw"] - rows["overhead"])
    each = rows.groupby(["threads", "block"], dropna=False)["gap"].mean().groupby(level=0).mean()
    w = np.array([weights.get(t, math.nan) for t in each.index], float)
    w = np.ones(len(each)) if not np.isfinite(w).all() else w
    gap = float(np.average(each, weights=w)) if len(each) else 0.0
    if abs(gap) > NOTICEABLE * (o.hi - o.lo):
        yield (
            "levelled for the processor time that the host took from either run: "
            f"{percent(o.estimate + gap):+.1f} % without"
        )


def _notes(known, one_start):
    if not known:
        return
    if one_start:
        yield f"the server was not restarted: a start-to-start CV of {100 * known.cv:.2g} % is added, {one_start}"
    else:
        yield (
            "one start, and nothing says whether the servers were dealt anew: a start-to-start CV of "
            f"{100 * known.cv:.2g} % is added"
        )


def _family(family, margin, ended, design, one, given):
    """((arm, threads), rule.Outcome, pairs a block, warnings) of one metric's arms."""
    members, sizes, known, joints = {}, {}, {}, {}
    metric = family["metric"].iloc[0]
    for arm, mine in family.groupby("arm", sort=False):
        frames = {"" if pd.isna(t) else int(t): g for t, g in mine.groupby("threads", dropna=False)}
        if one:
            frames = {t: g.assign(block=np.arange(len(g))) for t, g in frames.items()}
        order = sorted(set(mine["block"])) if not one else None
        found = {t: units(g, order) for t, g in frames.items()}
        if len(found) > 1 and (joint := _joint(found, given["weights"])):
            turn, means, weight = joint
            members[arm, JOINT] = turn, means
            sizes[arm, JOINT] = sum(f[2].mean() for f in found.values())
            joints[arm] = weight
        for t, (turn, means, size) in found.items():
            members[arm, t], sizes[arm, t] = (turn, means), size.mean()
            if metric in PERCENTILES:
                known[arm, t] = BUCKET**2 / 6 / max(size.sum(), 1)
    read = rule.family(
        members,
        blocks=given["declared"][0],
        looks=given["declared"][1],
        population=given["population"],
        margin=margin,
        start=given["start"].part if given["start"] else None,
        known=known,
        ended=ended,
    )
    for (arm, t), o in sorted(
        read.items(), key=lambda i: (_place(i[0][0], family), i[0][1] is JOINT)
    ):
        notes = list(given["notes"])
        if o.reason:
            notes.insert(0, o.reason)
        if given["unplanned"]:
            notes.append(UNPLANNED)
        elif o.word == rule.CANNOT_TELL and o.units < (given["declared"][0] or 0):
            notes.append(EARLY.format(o.units, given["declared"][0]))
        if lost := given["dropped"].get((metric, arm)):
            notes.append(f"{lost} pairs left out: a value is missing, zero or negative")
        if o.units < 2:
            notes.append("one block: two are needed for an interval")
        if t is JOINT:
            notes += _joint_notes(joints[arm], {k: v for k, v in read.items() if k[0] == arm})
        yield (arm, t), o, sizes[arm, t], notes


def _place(arm, family):
    return list(dict.fromkeys(family["arm"])).index(arm)


def _joint(found, weights):
    """(turn, weighted mean over the thread counts, {threads: weight}) of the blocks that hold every
    thread count; None where none does."""
    frame = pd.DataFrame(
        {t: pd.Series(means, index=turn) for t, (turn, means, _) in found.items()}
    ).dropna()
    if frame.empty:
        return None
    w = np.array([weights.get(t, math.nan) for t in frame.columns], float)
    equal = not np.isfinite(w).all()
    w = np.ones(len(w)) if equal else w
    w = w / w.sum()
    shown = {} if equal else dict(zip(frame.columns, w, strict=True))
    return frame.index.to_numpy(), frame.to_numpy() @ w, shown


def _joint_notes(weight, read):
    members = [o for (_, t), o in read.items() if t is not JOINT]
    if any(o.lo > 0 for o in members) and any(o.hi < 0 for o in members):
        yield OPPOSITE
    if weight:
        told = ", ".join(f"{t}: {100 * w:.0f} %" for t, w in weight.items())
        yield f"thread counts weighted by the A/A scatter that is recorded for them ({told})"
    else:
        yield "thread counts weighted equally: no A/A scatter is recorded for them"


def _paired_row(key, threads, o, size, notes, design, seconds, margin):
    word = o.word
    metric, joint = key[2], threads is JOINT
    vetoed = metric in PERCENTILES and not joint and abs(o.estimate) < BUCKET
    if word in (rule.SLOWER, rule.FASTER) and vetoed:
        word, notes = rule.CANNOT_TELL, [BUCKETS, *notes]
    n = round(size * o.units)
    needed, cv = None, math.nan
    if o.units > 1:
        cv = abs(o.estimate) / (o.hi - o.lo) * 2 * o.sd * math.sqrt(size / 2) if o.hi > o.lo else cv
    if word != rule.CANNOT_TELL:
        needed = n
    elif o.units > 1 and word == o.word:
        blocks = plan.units_needed(o.estimate, o.sd, margin, share=o.share, least=o.units + 1)
        needed = math.ceil(blocks * size) if blocks else None
    return row(
        key=key,
        threads=pd.NA if joint or threads == "" else threads,
        n=(n, n),
        value=o.estimate,
        ends=(o.lo, o.hi),
        level=o.level,
        same_ends=(o.same_lo, o.same_hi),
        p=o.p,
        word=word,
        needed=needed,
        minutes=needed * seconds / 60 if needed and seconds and word == rule.CANNOT_TELL else None,
        deciding_cv=cv,
        warnings=notes,
        control=key[4] == f"{key[3]}{CONTROL}",
        joint=joint,
        blocks=o.units,
        design=design,
    )


# -- runs without pairs -----------------------------------------------------------------------------


def _unpaired(tidy, margin_pct, floor, baseline, restarts, series):
    """Verdict rows of runs without pairs."""
    baseline = baseline_of(tidy, baseline)
    kept = tidy[[m not in METRICS or METRICS[m].judged for m in tidy["metric"]]]
    if "warmup" in kept:
        kept = kept[~kept["warmup"].astype(bool)]
    keys = ["study", "workload", "metric"]
    for (study, workload, metric), group in kept.groupby(keys, sort=False):
        arms = {
            arm: {None if pd.isna(t) else int(t): r for t, r in g.groupby("threads", dropna=False)}
            for arm, g in group.groupby("arm", sort=False)
        }
        first = arms.pop(baseline, {})
        for arm, mine in arms.items():  # each a question of its own, as two folders of logs are
            common = sorted((t for t in mine if t in first), key=lambda t: t or 0)
            if not common:
                continue
            both = {t: (_side(first[t], series), _side(mine[t], series)) for t in common}
            for found in runs.judge(
                {arm: both},
                metric=metric,
                baseline=baseline,
                study=study,
                workload=workload,
                margin_pct=margin_pct,
                restarts=restarts,
                floor=floor,
                seconds=_longest([x[t] for x in (first, mine) for t in common]),
                again=f"{baseline}{CONTROL}",
            ):
                threads = found["threads"]
                yield {**found, "threads": pd.NA if threads is None else threads}


def _longest(rows):
    """Seconds of the longest run, where the table says how long they were."""
    spans = [r["duration_s"].max() for r in rows if "duration_s" in r]
    known = [float(s) for s in spans if s > 0]
    return max(known, default=None)


def _side(rows, series):
    """The runs of one arm at one thread count."""
    rates = (series or {}).get(rows["run"].iloc[0]) if len(rows) == 1 and "run" in rows else None
    return Side(tuple(rows["value"]), rates)
