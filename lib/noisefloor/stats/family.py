"""From the tidy table to the verdict table: pairs, families of comparisons, Holm, the joint effect."""

import math

import numpy as np
import pandas as pd

from noisefloor.stats import paired, samples
from noisefloor.stats.fixed import holm
from noisefloor.study import METRICS

FUTILE_FROM = 8  # pairs before a prediction is trusted enough to stop for it
UNKNOWN = "unknown"  # design of pairs from elsewhere
CARRY_OVER = 0.02  # of the active server's CPU, used by the idle one
PERCENTILES, BUCKET = ("p95", "p99"), math.log(1.01817)
CONTROL = " again"  # an arm called "<baseline> again" is a verbatim copy: the A/A control
FAMILY = ["study", "workload", "metric", "baseline", "arm"]
COLUMNS = [
    "study", "workload", "metric", "threads", "baseline", "arm", "n_baseline", "n_arm",
    "overhead_pct", "lo_pct", "hi_pct", "p", "p_adjusted", "verdict", "noise_floor_pct",
    "deciding_cv_pct", "runs_needed", "minutes_needed", "warnings",
    "control", "joint", "blocks", "design", "settled",
]  # fmt: skip


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


def pairs(tidy, *, baseline=None):
    """One row a pair: study workload threads metric baseline arm block pair overhead.

    `overhead` is a log ratio, positive when the arm is worse. Warm-up runs, metrics that are shown
    and never judged, and half pairs are left out; `attrs["dropped"]` counts, by (metric, arm), the
    pairs with a value that has no logarithm (zero, negative, missing)."""
    baseline = baseline_of(tidy, baseline)
    known = tidy["metric"].map(METRICS.get)
    judged = known.map(lambda m: m is None or m.judged).astype(bool)
    kept = tidy[judged & tidy["pair_id"].notna() & ~tidy["warmup"].astype(bool)]
    key = ["study", "campaign", "workload", "threads", "metric", "pair_id"]
    key = [k for k in key if k in kept]  # a pair's name is unique within its campaign only
    both = kept.loc[kept["arm"] != baseline, [*key, "arm", "block", "pair", "value"]].merge(
        kept.loc[kept["arm"] == baseline, [*key, "value"]], on=key, suffixes=("", "_baseline")
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.log(both["value"].to_numpy(float) / both["value_baseline"].to_numpy(float))
    both["overhead"] = ratio * [_sign(m) for m in both["metric"]]
    both["baseline"] = baseline
    finite = np.isfinite(both["overhead"])
    dropped = both.loc[~finite].groupby(["metric", "arm"]).size().to_dict()
    columns = ["study", "workload", "threads", "metric", "baseline", "arm", "block", "pair"]
    out = both.loc[finite, [*columns, "overhead"]].sort_values(
        ["study", "workload", "metric", "arm", "threads", "pair"], ignore_index=True
    )
    out.attrs = {**tidy.attrs, "baseline": baseline, "dropped": dropped}
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
    starts=1,
    series=None,
    one_start="",
):
    """The verdict table: a row per comparison, and a joint row per family of several thread counts.

    sequential: valid at every look (True), or the classical analysis of a number of pairs that was
    settled beforehand (False). floor: start-to-start CV in percent, or (CV, A/A starts behind it),
    or a dict of these by metric; used where the design is unknown and for unpaired runs, unless
    restarts says that every run had its own start. budget_pairs: pairs a comparison can have in
    all; pair_seconds: what one pair costs. starts: server starts without which there is no
    verdict. series: {run: values per second}, for one run an arm. one_start: the server was never
    restarted, so that pairs carry the floor, too: whose it is, in words.

    Bounds are NaN where nothing is excluded yet. `settled`: measuring on is useless, because a
    verdict is there or the prediction is far over the budget. p is 1 / the e-value and
    p_adjusted Holm's over the thread counts of the family and its joint row (threads NA), judged on
    rounds, the k-th pair of every thread count averaged into one.
    ValueError: margin not above 0, no baseline, no usable row."""
    if not margin_pct > 0:
        raise ValueError(
            f"margin {margin_pct} %: the difference that matters must be above 0; nothing was judged"
        )
    if tidy.empty:
        raise ValueError("the table has no rows; at least one run per arm is needed")
    margin = math.log1p(margin_pct / 100)
    if _is_paired(tidy):
        rule = {"floor": floor, "restarts": restarts, "one_start": one_start}
        comparisons = _paired(tidy, margin, alpha, sequential, controls, baseline, rule)
    else:
        comparisons = _unpaired(tidy, margin, alpha, floor, controls, baseline, restarts, series)
    rows = [
        _row(c, alpha=alpha, budget=budget_pairs, seconds=pair_seconds, starts=starts)
        for c in comparisons
    ]
    out = pd.DataFrame(rows, columns=COLUMNS)
    out["threads"] = out["threads"].astype("Int64")
    return out


def path(tidy, *, margin_pct=2.0, alpha=0.05, baseline=None, floor=None):
    """How one comparison went: n overhead_pct lo_pct hi_pct e_value verdict, a row per pair (per
    block side by side; n counts pairs).

    tidy: the tidy table of one comparison, or its rows of `pairs`; floor: as in `table`, for a
    server that was never restarted."""
    rule = {"margin": math.log1p(margin_pct / 100), "alpha": alpha}
    rule |= {"floor": floor, "one_start": "as given"} if floor else {}
    frame = tidy if "overhead" in tidy else pairs(tidy, baseline=baseline)
    design = tidy.attrs.get("design") or UNKNOWN
    frame = frame.sort_values("pair")
    ends = range(1, len(frame) + 1)
    if design not in ("switched", UNKNOWN):
        block = frame["block"].to_numpy()
        ends = np.flatnonzero(np.append(block[1:] != block[:-1], True)) + 1
    rows = []
    for end in ends:
        o = _one(frame.head(end), paired.judge, design, **rule)
        rows.append((end, _pct(o.estimate), _pct(o.lo), _pct(o.hi), 1 / o.p, o.verdict))
    return pd.DataFrame(
        rows, columns=["n", "overhead_pct", "lo_pct", "hi_pct", "e_value", "verdict"]
    )


def check(tidy, same=("test", "tables", "table_size", "duration_s", "version")):
    """Warnings, one per column of `same` in which runs that are compared differ: its name and values.

    Arms may differ in what the study changes; the columns named here must agree everywhere."""
    out = []
    for column in same:
        if column in tidy:
            values = list(dict.fromkeys(tidy[column].dropna().astype(str)))
            if len(values) > 1:
                out.append(f"the runs differ in {column}: {', '.join(sorted(values))}")
    return out


def _is_paired(tidy):
    return "pair_id" in tidy and tidy["pair_id"].notna().any()


def _sign(metric):
    """+1 where a larger value is worse."""
    return -1.0 if metric not in METRICS or METRICS[metric].better == "higher" else 1.0


def _paired(tidy, margin, alpha, sequential, controls, baseline, rule):
    """Comparisons of paired runs, each a dict of `_row`'s inputs."""
    frame = pairs(tidy, baseline=baseline)
    design = tidy.attrs.get("design") or UNKNOWN
    judge = paired.judge if sequential else paired.fixed

    carried = 0.0 if "carry_over" not in tidy else float(tidy["carry_over"].mean())

    def one(g):
        return _one(g, judge, design, margin=margin, alpha=alpha, **rule)

    for key, family in frame.groupby(FAMILY, sort=False):
        control = key[-1] == f"{key[-2]}{CONTROL}"
        if control and not controls:
            continue
        members = list(family.groupby("threads", sort=True, dropna=False))
        outcomes = [one(g) for _, g in members]
        rounds = _rounds([g for _, g in members])
        joint = one(rounds) if len(members) > 1 and len(rounds) else None
        adjusted = holm([o.p for o in outcomes] + ([joint.p] if joint else []))
        given = {"key": key, "control": control, "design": design, "notes": []}
        if lost := frame.attrs["dropped"].get((key[2], key[-1])):
            given["notes"].append(f"{lost} pairs left out: a value is missing, zero or negative")
        if carried > CARRY_OVER:
            given["notes"].append(
                f"carry-over: the idle server still used {100 * carried:.0f} % of the active one's "
                "CPU, which hides a part of the overhead"
            )
        for (threads, _), o, p in zip(members, outcomes, adjusted, strict=False):
            yield {**given, "threads": threads, "outcome": o, "p_adjusted": p, "joint": False}
        if joint:
            last = {"threads": pd.NA, "outcome": joint, "p_adjusted": adjusted[-1], "joint": True}
            yield {**given, **last}


def _one(g, judge, design, *, margin, alpha, floor=None, restarts=False, one_start=""):
    """Outcome of one comparison from its pairs in order. Where nothing says how the arms were dealt,
    pairs of one start carry a start-to-start floor; those of a server that is never restarted
    always do."""
    unsure = design == UNKNOWN and not restarts and g["block"].nunique() == 1
    unsure = unsure or bool(one_start)
    return judge(
        g["overhead"].to_numpy(float),
        g["block"].to_numpy(),
        design="switched" if design == UNKNOWN else design,
        margin=margin,
        alpha=alpha,
        floor=samples.start_floor(floor, g["metric"].iloc[0]) if unsure else None,
        whose=one_start,
    )


def _rounds(members):
    """The k-th pair in a block of every thread count averaged into one: symmetric about the mean
    effect when each pair is about its own. Pairs without a partner at every thread count drop out."""
    rounds = {}
    for m in members:
        turn = {}
        for block, overhead in zip(m["block"].tolist(), m["overhead"].tolist(), strict=True):
            turn[block] = turn.get(block, -1) + 1
            rounds.setdefault((block, turn[block]), []).append(overhead)
    full = sorted(key for key, values in rounds.items() if len(values) == len(members))
    return pd.DataFrame(
        {
            "overhead": [np.mean(rounds[k]) for k in full],
            "block": [k[0] for k in full],
            "metric": members[0]["metric"].iloc[0],
        }
    )


def _unpaired(tidy, margin, alpha, floor, controls, baseline, restarts, series):
    """Comparisons of runs without pairs, each a dict of `_row`'s inputs."""
    baseline = baseline_of(tidy, baseline)
    kept = tidy[[m not in METRICS or METRICS[m].judged for m in tidy["metric"]]]
    if "warmup" in kept:
        kept = kept[~kept["warmup"].astype(bool)]
    for (study, workload, metric), group in kept.groupby(
        ["study", "workload", "metric"], sort=False
    ):
        sign = _sign(metric)
        arms = {arm: g for arm, g in group.groupby("arm", sort=False)}
        if baseline not in arms:
            continue
        for arm in [a for a in arms if a != baseline]:
            control = arm == f"{baseline}{CONTROL}"
            if control and not controls:
                continue
            runs = [
                {t: g for t, g in arms[x].groupby("threads", sort=True, dropna=False)}
                for x in (baseline, arm)
            ]
            members = _common(*runs)
            rule = {
                "margin": margin,
                "alpha": alpha,
                "floor": samples.start_floor(floor, metric),
                "known_floor": metric in floor if isinstance(floor, dict) else floor is not None,
                "restarts": restarts,
            }
            parts = [
                [sign * np.log(samples.positive(g["value"], metric)) for g in pair]
                for _, *pair in members
            ]
            rows = [_rows_per_second(pair, series) for _, *pair in members]
            outcomes = [
                samples.judge([part], within=[r] if r else None, **rule)
                for part, r in zip(parts, rows, strict=True)
            ]
            given = {
                "key": (study, workload, metric, baseline, arm),
                "control": control,
                "design": "unpaired",
            }
            for (threads, *_), o, p in zip(
                members, outcomes, holm([o.p for o in outcomes]), strict=True
            ):
                yield {**given, "threads": threads, "outcome": o, "p_adjusted": p, "joint": False}
            if len(members) > 1:
                o = samples.judge(parts, within=rows if all(rows) else None, **rule)
                yield {**given, "threads": pd.NA, "outcome": o, "p_adjusted": o.p, "joint": True}


def _common(baseline, arm):
    """[(threads, baseline runs, arm runs)] of the thread counts that both have."""
    unknown = [k for k in arm if pd.isna(k)]
    known = [(k, baseline[k], arm[k]) for k in arm if not pd.isna(k) and k in baseline]
    other = [k for k in baseline if pd.isna(k)]
    return known + [(pd.NA, baseline[b], arm[a]) for a, b in zip(unknown, other, strict=False)]


def _rows_per_second(pair, series):
    """Values per second of the two runs, when there is one run an arm and both have them."""
    if not series or any(len(g) != 1 for g in pair):
        return None
    found = [series.get(g["run"].iloc[0]) for g in pair]
    return None if any(f is None for f in found) else found


def _row(comparison, *, alpha, budget, seconds, starts):
    """One row of the verdict table."""
    o, p_adjusted = comparison["outcome"], comparison["p_adjusted"]
    study, workload, metric, baseline, arm = comparison["key"]
    word, warnings = o.verdict, o.warnings + comparison.get("notes", [])
    if word in ("slower", "faster") and not p_adjusted <= alpha:
        word = "cannot tell"
        warnings.append("decided on its own, but not among all thread counts of its family (Holm)")
    if word in ("slower", "faster") and metric in PERCENTILES and abs(o.estimate) < BUCKET:
        word = "cannot tell"
        warnings.append("the difference is within one bucket of sysbench's histogram (1.8 %)")
    if word != "cannot tell" and o.blocks < starts:
        warnings.append(
            f"{word} so far, but {o.blocks} of the {starts} server starts that a verdict needs"
        )
        word = "cannot tell"
    decided = word != "cannot tell"
    needed = max(o.n_baseline, o.n_arm) if decided else o.needed
    futile = budget is not None and o.n_arm >= FUTILE_FROM and o.best > budget
    return (
        study, workload, metric, comparison["threads"], baseline, arm, o.n_baseline, o.n_arm,
        _pct(o.estimate), _pct(o.lo), _pct(o.hi), o.p, p_adjusted if o.p == o.p else math.nan, word,
        _pct(o.floor), 100 * o.deciding_cv, needed if math.isfinite(needed) else math.nan,
        needed * seconds / 60 if seconds and math.isfinite(needed) else math.nan, warnings,
        comparison["control"], comparison["joint"], o.blocks, comparison["design"],
        bool(decided or futile),
    )  # fmt: skip


def _pct(log):
    return 100 * math.expm1(log) if math.isfinite(log) else math.nan
