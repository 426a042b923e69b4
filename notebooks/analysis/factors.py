"""The page of one's own settings: what each variable changes, alone and together with another."""

import math

import numpy as np
import pandas as pd

from noisefloor import schedule
from noisefloor.data.results import Results, capacity, main_workload
from noisefloor.show.rows import ENDS
from noisefloor.stats import verdict


def effects(page: Results, metric: str = "tps") -> pd.DataFrame:
    """The effect of each variable, averaged over the values of the others; for two variables with two
    values each also their interaction. Columns setting, change_pct, lo_pct, hi_pct, verdict. Empty for
    a single arm, and if an arm has no row.

    Weighted sums of the arms' log changes. Arms share no run, so their errors are independent and the
    distances to the ends add as squares (MOVER: Zou and Donner 2008). All verdicts are provisional
    while that of an arm is, because its ends may be a range of boots."""
    columns = ["setting", *ENDS, "verdict"]
    rows = _of_arms(page, metric).set_index("arm")
    arms = page.study.compared
    if len(arms) < 3 or not {a.name for a in arms[1:]} <= set(rows.index):
        return pd.DataFrame(columns=columns)
    ends = rows.loc[[a.name for a in arms[1:]], ENDS]
    logs = np.vstack([np.zeros(3), np.log1p(ends.to_numpy(float) / 100)])
    values = pd.DataFrame([dict(a.switch) | dict(a.settings) for a in arms])
    values = values.loc[:, values.nunique() > 1]  # the others have one value in all arms
    weights = {}
    for name in values:
        base, *others = pd.unique(values[name])
        low = (values[name] == base).to_numpy(float)
        for value in others:
            high = (values[name] == value).to_numpy(float)
            weights[f"{name}: {base} to {value}"] = high / high.sum() - low / low.sum()
    if values.shape == (4, 2):
        weights["both, beyond the sum of each alone"] = np.array([1.0, -1.0, -1.0, 1.0])
    open_ = rows.loc[ends.index, "verdict"].eq(verdict.PROVISIONAL).any()
    margin, lines = math.log1p(schedule.margin_pct(page.study, metric) / 100), []
    for change, w in weights.items():
        of, w = logs[w != 0], w[w != 0]
        middle = w @ of[:, 0]
        reach = w[:, None] * (of[:, 1:] - of[:, :1])
        lo = middle - np.hypot.reduce(reach.min(axis=1))
        hi = middle + np.hypot.reduce(reach.max(axis=1))
        word = verdict.PROVISIONAL if open_ else verdict.word(lo, hi, margin, metric)
        lines.append((change, *100 * np.expm1([middle, lo, hi]), word))
    return pd.DataFrame(lines, columns=columns)


def _of_arms(page: Results, metric: str) -> pd.DataFrame:
    """Rows of the main workload of the campaign of maximum throughput, one an arm: the joint rows if
    every arm has one, else those at the most threads."""
    rows = page.of(main_workload(capacity(page)), metric, control=False)
    joint, each = rows[rows["joint"]], rows[~rows["joint"]].sort_values("threads")
    whole = joint["arm"].nunique() == rows["arm"].nunique()
    return (joint if whole else each).drop_duplicates("arm", keep="last")
