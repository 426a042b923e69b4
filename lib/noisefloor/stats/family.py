"""From the tidy table to the verdict table: pairs, families of comparisons, Holm, the joint effect."""

import math

import numpy as np
import pandas as pd

from noisefloor.stats import paired, samples, sequential
from noisefloor.study import METRICS

CONTROL = " again"  # an arm called "<baseline> again" is a verbatim copy: the A/A control
FAMILY = ["study", "workload", "metric", "baseline", "arm"]
COLUMNS = [
    "study", "workload", "metric", "threads", "baseline", "arm", "n_baseline", "n_arm",
    "overhead_pct", "lo_pct", "hi_pct", "p", "p_adjusted", "verdict", "noise_floor_pct",
    "deciding_cv_pct", "runs_needed", "minutes_needed", "warnings",
    "control", "joint", "blocks", "design", "settled",
]  # fmt: skip


def baseline_of(tidy, baseline=None):
    """Name of the baseline arm: as given, from the table's attrs, or the arm that has a control copy
    or that stands in every pair."""
    baseline = baseline or tidy.attrs.get("baseline")
    arms = list(dict.fromkeys(tidy["arm"]))
    if baseline:
        if baseline not in arms:
            raise ValueError(
                f"baseline {baseline!r} is not an arm of this table; its arms are "
                f"{', '.join(map(str, arms))}; nothing was judged"
            )
        return baseline
    copied = [a for a in arms if f"{a}{CONTROL}" in arms]
    if len(copied) == 1:
        return copied[0]
    if "pair_id" in tidy and tidy["pair_id"].notna().any():
        held = tidy.dropna(subset=["pair_id"]).groupby("arm")["pair_id"].nunique()
        everywhere = held[held == tidy["pair_id"].nunique()].index.tolist()
        if len(everywhere) == 1:
            return everywhere[0]
    raise ValueError(
        f"the arms are {', '.join(map(str, arms))}: say which one is the baseline "
        "(baseline=, or attrs['baseline']); nothing was judged"
    )


def pairs(tidy, *, baseline=None):
    """One row a pair: study workload threads metric baseline arm block pair overhead.

    `overhead` is a log ratio, positive when the arm is worse. Warm-up runs, metrics that are never
    judged and half pairs are left out; `attrs["dropped"]` counts pairs whose values have no
    logarithm."""
    baseline = baseline_of(tidy, baseline)
    judged = [m for m in tidy["metric"].unique() if m not in METRICS or METRICS[m].judged]
    kept = tidy[
        tidy["metric"].isin(judged) & tidy["pair_id"].notna() & ~tidy["warmup"].astype(bool)
    ]
    key = ["study", "workload", "threads", "metric", "pair_id"]
    first = kept[kept["arm"] == baseline]
    other = kept[kept["arm"] != baseline]
    both = other[[*key, "arm", "block", "pair", "value"]].merge(
        first[[*key, "value"]], on=key, suffixes=("", "_baseline")
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.log(both["value"].to_numpy(float) / both["value_baseline"].to_numpy(float))
    higher = both["metric"].map(lambda m: METRICS[m].better == "higher" if m in METRICS else True)
    both["overhead"] = np.where(higher, -ratio, ratio)
    both["baseline"] = baseline
    finite = np.isfinite(both["overhead"])
    out = both.loc[
        finite,
        ["study", "workload", "threads", "metric", "baseline", "arm", "block", "pair", "overhead"],
    ].sort_values(["study", "workload", "metric", "arm", "threads", "pair"], ignore_index=True)
    out.attrs = {**tidy.attrs, "baseline": baseline, "dropped": int((~finite).sum())}
    return out


def table(
    tidy,
    *,
    margin_pct=2.0,
    alpha=0.05,
    sequential=True,
    floor=None,
    budget_pairs=None,
    pair_seconds=None,
    controls=True,
    baseline=None,
    restarts=False,
):
    """The verdict table: one row per comparison, and a joint row per family with several threads.

    floor: start-to-start CV in percent, or (CV, runs behind it), or a dict of these by metric.
    budget_pairs: pairs a comparison can have in all; pair_seconds: what one pair costs.
    Bounds are NaN where nothing is excluded yet. `settled` is True when measuring on is useless:
    a verdict is there, or the prediction is over the budget."""
    margin = math.log1p(margin_pct / 100)
    if not margin > 0:
        raise ValueError(f"margin {margin_pct} %: a margin above 0 is needed; nothing was judged")
    if "pair_id" not in tidy or tidy["pair_id"].isna().all():
        return samples.table(
            tidy, margin=margin, alpha=alpha, floor=floor, controls=controls,
            baseline=baseline_of(tidy, baseline), restarts=restarts,
        )  # fmt: skip
    frame = pairs(tidy, baseline=baseline)
    design = tidy.attrs.get("design") or "switched"
    rows = []
    for key, family in frame.groupby(FAMILY, sort=False):
        control = key[-1] == f"{key[-2]}{CONTROL}"
        if control and not controls:
            continue
        members = [
            (t, g.sort_values("pair"))
            for t, g in family.groupby("threads", sort=True, dropna=False)
        ]
        outcomes = [_one(g, design, margin, alpha) for _, g in members]
        adjusted = holm([o.p for o in outcomes])
        rows += [
            _row(key, t, o, p, control, False, design, margin, alpha, budget_pairs, pair_seconds)
            for (t, _), o, p in zip(members, outcomes, adjusted, strict=True)
        ]
        if len(members) > 1:
            o = _one(_rounds([g for _, g in members]), design, margin, alpha)
            rows.append(
                _row(
                    key,
                    pd.NA,
                    o,
                    o.p,
                    control,
                    True,
                    design,
                    margin,
                    alpha,
                    budget_pairs,
                    pair_seconds,
                )
            )
    out = pd.DataFrame(rows, columns=COLUMNS)
    out["threads"] = out["threads"].astype("Int64")
    return out


def path(tidy, *, margin_pct=2.0, alpha=0.05, baseline=None):
    """How one comparison went: n overhead_pct lo_pct hi_pct e_value verdict, a row per unit.

    tidy: the tidy table of one comparison, or its rows of `pairs`."""
    frame = tidy if "overhead" in tidy else pairs(tidy, baseline=baseline)
    design = tidy.attrs.get("design") or "switched"
    margin = math.log1p(margin_pct / 100)
    frame = frame.sort_values("pair")
    d, block = frame["overhead"].to_numpy(float), frame["block"].to_numpy()
    ends = range(1, len(d) + 1)
    if design == "side by side":
        ends = np.flatnonzero(np.append(block[1:] != block[:-1], True)) + 1
    rows = []
    for end in ends:
        o = paired.judge(d[:end], block[:end], design=design, margin=margin, alpha=alpha)
        rows.append((o.units, _pct(o.estimate), _pct(o.lo), _pct(o.hi), 1 / o.p, o.verdict))
    return pd.DataFrame(
        rows, columns=["n", "overhead_pct", "lo_pct", "hi_pct", "e_value", "verdict"]
    )


def holm(p):
    """Holm's adjusted p-values, in the order given (NaN counts as 1)."""
    p = np.nan_to_num(np.asarray(p, float), nan=1.0)
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    out = np.empty_like(p)
    out[order] = np.minimum(steps, 1)
    return out


def _rounds(members):
    """The k-th pair of every thread count averaged into one: symmetric about the mean effect."""
    size = min(len(m) for m in members)
    first = members[0].head(size)
    mean = np.mean([m["overhead"].to_numpy(float)[:size] for m in members], axis=0)
    return first.assign(overhead=mean)


def _one(g, design, margin, alpha):
    return paired.judge(
        g["overhead"].to_numpy(float),
        g["block"].to_numpy(),
        design=design,
        margin=margin,
        alpha=alpha,
    )


def _pct(log):
    return 100 * math.expm1(log) if math.isfinite(log) else math.nan


def _row(key, threads, o, p_adjusted, control, joint, design, margin, alpha, budget, seconds):
    study, workload, metric, baseline, arm = key
    word = o.verdict
    if word in ("slower", "faster") and p_adjusted > alpha:
        word = "cannot tell"
    half = (o.hi - o.lo) / 2
    needed = o.needed if word == "cannot tell" else o.units
    futile = word == "cannot tell" and budget is not None and needed > budget and o.units >= 8
    cv = math.nan
    if o.units > 1:
        t = paired.t_quantile(1 - alpha / 2, o.units - 1)
        cv = 100 * abs(o.estimate) * math.sqrt(o.units) / (t * math.sqrt(2))
    return (
        study, workload, metric, threads, baseline, arm, o.units, o.units,
        _pct(o.estimate), _pct(o.lo), _pct(o.hi), o.p, p_adjusted, word,
        _pct(half), cv, needed, needed * seconds / 60 if seconds else math.nan, o.warnings,
        control, joint, o.blocks, design, word != "cannot tell" or futile,
    )  # fmt: skip
