"""A change in the units of its metric: the baseline of a campaign, and what the change makes of it."""

import math
from typing import Any

from noisefloor import stats
from noisefloor.data.results import Results
from noisefloor.model import METRICS
from noisefloor.show.markup import cell, has_value
from noisefloor.show.report import words
from noisefloor.show.rows import Row, joint
from noisefloor.text import amounts

_IN_UNITS = ("cpu_per_transaction", "cpu_per_connection", "user_sys", "wall", "tps", "p99")


def baseline(part: Results, row: Row) -> float:
    """The median of the baseline's runs in the pairs that a campaign compares with a row's arm, in the
    unit in which the metric is shown, as it is printed; NaN without one."""
    runs = part.judged(row["workload"], row["metric"])
    pairs: Any = stats.pairs(runs, baseline=row["baseline"]) if len(runs) else runs
    if not len(pairs):
        return math.nan
    own = pairs[pairs["arm"].eq(row["arm"]) & pairs["threads"].eq(row["threads"])]
    blocks = stats.block_means(own).index
    runs = runs[runs["threads"].eq(row["threads"]) & runs["block"].isin(blocks)]
    paired = runs.loc[runs["arm"].eq(row["arm"]), "pair_id"]
    base = runs[runs["arm"].eq(row["baseline"]) & runs["pair_id"].isin(paired)]
    return float(f"{base['value'].median() * METRICS[row['metric']].scale:.4g}")


def change_in_units(row: Row, r: Results | None) -> str:
    """`3.637 → 3.688 ms`: the baseline of the newest campaign behind a row, and the baseline times the
    row's change; "" of thread counts together, and of metrics that are told in percent alone."""
    behind = words.campaigns_behind(row, r)
    if not behind or joint(row) or not has_value(row["threads"]) or row["metric"] not in _IN_UNITS:
        return ""
    middle = baseline(behind[-1], row)
    if math.isnan(middle):
        return ""
    after = middle * amounts.as_written(row["change_pct"], row["metric"])
    return f"{cell(middle)} → {cell(after)} {METRICS[row['metric']].shown_unit}"
