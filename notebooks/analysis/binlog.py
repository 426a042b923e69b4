"""The binary log: two conditions against each other, and the functions in which the server's time grows."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.estimates import block_mean, counting, figure, to_percent
from noisefloor import model
from noisefloor.show.rows import metric_label
from noisefloor.stats import verdict

MOST = 12  # functions that are shown
FALSE = 0.05  # share of false discoveries among functions


def contrast(
    tidy: pd.DataFrame, baseline: str, arm: str, one: str, other: str, metrics: list[str]
) -> pd.DataFrame:
    """The effect of `arm` in two workloads that one campaign measured, and how far they lie apart: a
    row a metric, with the change in each workload and `apart_pct`, of `one` against `other`; all in
    percent, with 95 % intervals by Student's t over the means of blocks. Without rows where there is
    no such campaign."""
    rows, found = counting(tidy), []
    for metric in metrics:
        part = rows[rows["metric"].eq(metric) & rows["workload"].isin([one, other])]
        sides = (part[part["arm"].eq(a)] for a in (arm, baseline))
        both = next(sides).merge(next(sides), on=["campaign", "pair_id"], suffixes=("", " there"))
        logs = (both["value"].astype(float) / both["value there"].astype(float)).transform(np.log)
        means: Any = logs.groupby([both["workload"], both["campaign"], both["block"]]).mean()
        if means.index.get_level_values("workload").nunique() < 2:
            continue
        found.append(
            dict[str, Any](metric=metric_label(metric))
            | figure(f"{one}_pct", block_mean(means[one]), to_percent)
            | figure(f"{other}_pct", block_mean(means[other]), to_percent)
            | figure("apart_pct", block_mean((means[one] - means[other]).dropna()), to_percent)
        )
    return pd.DataFrame(found)


def grown(profiles: pd.DataFrame, tidy: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """The functions whose processor time differs most between `baseline` and the other arm: samples of
    a run as shares of its CPU per transaction, in pairs. Columns function, baseline_us, and with its
    interval more_us, the largest first.

    Those alone that differ with a share of false discoveries of at most 5 % (Benjamini and Hochberg
    1995) among all functions, by Student's t over the means of blocks. The A/A control counts where
    there is no other arm; this table of it must be empty: show it beside that of the arm."""
    if profiles.empty:
        return pd.DataFrame()
    own = tidy["metric"].eq("cpu_per_transaction") & tidy["run"].isin(set(profiles["run"]))
    cpu = tidy[own].set_index("run")["value"]
    others = profiles[~profiles["arm"].isin([baseline, baseline + model.CONTROL_SUFFIX])]
    if len(others):
        profiles = profiles[profiles["pair_id"].isin(others["pair_id"])]
    rows = profiles.assign(us=1e6 * profiles["share"] * profiles["run"].map(cpu))
    rows["side"] = np.where(rows["arm"] == baseline, "base", "other")
    key = ["campaign", "block", "pair_id", "side"]
    wide = rows.pivot_table(
        index="function", columns=key, values="us", aggfunc="sum", fill_value=0.0
    )
    base, other = (wide.xs(s, axis=1, level="side") for s in ("base", "other"))
    both = base.columns.intersection(other.columns)
    more: Any = (other[both] - base[both]).T.groupby(level=["campaign", "block"]).mean()
    more = more.loc[:, more.std() > 0]
    if more.empty:
        return pd.DataFrame()
    p = stats.ttest_1samp(more.to_numpy(), 0.0).pvalue
    found = []
    for function in more.columns[stats.false_discovery_control(p) <= FALSE]:
        before = round(float(base.loc[function, both].mean()), 2)
        row: dict[str, Any] = {"function": function, f"{baseline}, µs": before}
        found.append(row | figure("more_us", block_mean(more[function])))
    found.sort(key=lambda r: -abs(r["more_us"]))
    return pd.DataFrame(found[:MOST])


def advice(rows: list[pd.Series]) -> pd.DataFrame:
    """Who should switch it on: the two domains of the binlog document, each with what it advised and
    what the first of `results.headlines` means for it. Columns domain, the document advised, measured
    here."""
    row = rows[0]  # processor time; the last one may be of latency
    sign = 1 if model.metric(row["metric"]).worse_up else -1  # a cost is a change for the worse
    least, most = sorted((sign * row["lo_pct"], sign * row["hi_pct"]))
    of = " of TPS" if row["metric"] == "tps" else " of processor time"
    known = pd.notna(most)
    cost = f"it costs at most {most:.1f} %{of}" if known and most > 0 else "no cost was found"
    ends = f"anything from {least:.1f} to {most:.1f} %{of} is possible".replace("-", "−")
    ends = ends if known else "too few pairs for an interval"
    by_kind = {
        "same": f"Switch it on: the cost lies within ±{row['margin_pct']:g} %{of}.",
        "better": "Switch it on: no cost was found.",
        "worse": f"It costs between {least:.1f} and {most:.1f} %{of}. Switch it on where the log"
        " leaves the machine; else weigh it.",
    }
    open_ = f"Not decided here: {ends}. Measure longer before you rely on a cost of nothing."
    mostly = by_kind.get(verdict.kind(row["verdict"], row["metric"]), open_)
    strict = f"Switch it on: {cost}, and that is the price of the rule."
    lines = [
        ("finance, medicine", "required: a leak is a legal disaster", strict),
        ("other services", "recommended: the loss is slight with AES instructions", mostly),
    ]
    return pd.DataFrame(lines, columns=["domain", "the document advised", "measured here"])
