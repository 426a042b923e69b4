"""The binary log: its cost under two conditions, and the server's functions that take more time."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.estimates import block_mean, counting, figure, in_pairs, to_percent
from noisefloor import model
from noisefloor.show.rows import metric_label

MOST = 12  # functions that are shown
FALSE = 0.05  # share of false discoveries among functions
THROTTLED_TPS = 200, 250  # of the plain server on the slow disk; the source's made 221
BACKLOG_S = 120  # seconds that a replica takes to catch up, at least
KEY_SETUP = ("EVP_BytesToKey", "SHA512_Init")  # OpenSSL's functions that derive a key


def contrast(
    tidy: pd.DataFrame, baseline: str, arm: str, one: str, other: str, metrics: list[str]
) -> pd.DataFrame:
    """The effect of `arm` in two workloads that one campaign measured, and their difference: a row a
    metric, with the change in each workload and `apart_pct`, that of `one` against that of `other`; all
    in percent, with 95 % intervals by Student's t over the means of blocks. Empty without such a
    campaign."""
    rows, found = counting(tidy), []
    for metric in metrics:
        part = rows[rows["metric"].eq(metric) & rows["workload"].isin([one, other])]
        both = in_pairs(part, arm, baseline)
        logs = both["value"].transform(np.log)
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


def hides(effects: pd.DataFrame, other: str) -> str:
    """Whether the slow disk (`one` of `contrast`) hides the cost that `other` shows, by the interval of
    `apart_pct`: a sentence a metric; "" without rows."""
    sentences = []
    for row in effects.to_dict("records"):
        answer = "the slow disk does not hide the cost"
        if row["apart_pct"] * row[f"{other}_pct"] < 0:  # its effect is the smaller one
            answer = "the slow disk hides the cost, or a part of it"
        if not row["apart_pct lo"] * row["apart_pct hi"] > 0:
            answer = "cannot tell whether the slow disk hides the cost"
        sentences.append(f"{row['metric']}: {answer}.")
    return " ".join(sentences)


def outside(tidy: pd.DataFrame, baseline: str, slow: str) -> str:
    """A sentence if the throughput of `baseline` on the slow disk is outside THROTTLED_TPS, which the
    page promises; "" if it is inside, or was not measured."""
    rows = counting(tidy)
    rows = rows[rows["workload"].eq(slow) & rows["metric"].eq("tps") & rows["arm"].eq(baseline)]
    (least, most), made = THROTTLED_TPS, np.round(rows["value"].median())  # as it is printed
    if not (made < least or made > most):
        return ""
    return f"The {baseline} server made {made:,.0f} TPS, outside {least} to {most}."


def short(runs: pd.DataFrame, replica: str) -> str:
    """A sentence if the replicas caught up in less than BACKLOG_S, which the page promises; else ""."""
    counted = runs["workload"].eq(replica) & ~runs["warmup"].astype(bool)
    took = np.round(runs.loc[counted, "slice_s"].median())
    return f"Catching up took {took:,.0f} s, less than two minutes." if took < BACKLOG_S else ""


def grown(profiles: pd.DataFrame, tidy: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """The functions whose processor time differs between `baseline` and the other arm: the share of a
    run's samples times its CPU per transaction, in pairs. Columns function, `<baseline>, µs` and, with
    its interval, more_us; sorted by its size.

    Only functions that differ at a false discovery rate of at most 5 % (Benjamini and Hochberg 1995)
    among all functions, by Student's t over the means of blocks. Without another arm the A/A control
    takes its place; that table should be empty: show it beside that of the arm."""
    if profiles.empty:
        return pd.DataFrame()
    chosen = tidy["metric"].eq("cpu_per_transaction") & tidy["run"].isin(set(profiles["run"]))
    cpu = tidy[chosen].set_index("run")["value"]
    others = profiles[~profiles["arm"].isin([baseline, baseline + model.CONTROL_SUFFIX])]
    if len(others):
        profiles = profiles[profiles["pair_id"].isin(others["pair_id"])]
    rows = profiles.assign(us=1e6 * profiles["share"] * profiles["run"].map(cpu))
    rows["side"] = np.where(rows["arm"] == baseline, "base", "other")
    if rows["side"].nunique() < 2:  # no control was measured
        return pd.DataFrame()
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
    return pd.DataFrame(found)


def alike(profiles: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """The profiles of the A/A control, `baseline` on both sides."""
    return profiles[profiles["arm"].isin([baseline, baseline + model.CONTROL_SUFFIX])]


def functions_answer(profiles: pd.DataFrame, tidy: pd.DataFrame, baseline: str) -> str:
    """How many functions differ between the arms and, with a control, between two runs of the baseline,
    and whether more time goes to setting up keys, in sentences; "" if nothing was sampled."""
    if profiles.empty:
        return ""
    more, twins = grown(profiles, tidy, baseline), alike(profiles, baseline)
    answer = f"Of {profiles['function'].nunique():,} functions {len(more)} differ between the arms"
    if twins["arm"].nunique() > 1:
        answer += f", {len(grown(twins, tidy, baseline))} between two {baseline} runs"
    answer += "."
    names = [] if more.empty else list(more.loc[more["more_us"] > 0, "function"])
    if keys := [name for name in names if name.startswith(KEY_SETUP)]:
        answer += f" More time goes to setting up a key for each transaction: {', '.join(keys)}."
    return answer
