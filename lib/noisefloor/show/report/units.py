"""A change in the units of its metric: the baseline's value, and that value after the change."""

import math

from noisefloor.data.results import Results, baseline_in_units
from noisefloor.model import METRICS
from noisefloor.show.markup import cell, has_value
from noisefloor.show.report import words
from noisefloor.show.rows import Row, joint
from noisefloor.text import amounts

_IN_UNITS = ("cpu_per_transaction", "cpu_per_connection", "user_sys", "wall", "tps", "p99")


def change_in_units(row: Row, r: Results | None) -> str:
    """`3.637 → 3.688 ms`: the baseline of the newest campaign behind a row, and the baseline times the
    row's change; `Baseline: 3.637 ms` while it is undecided whether the change matters; "" for thread
    counts together, and for metrics that are given in percent alone."""
    behind = words.campaigns_behind(row, r)
    alone = len(words.placed(row, r)[0][1]) == 1 and not joint(row) and has_value(row["threads"])
    if not behind or not alone or row["metric"] not in _IN_UNITS:
        return ""
    middle = baseline_in_units(behind[-1], row)
    if math.isnan(middle):
        return ""
    unit = METRICS[row["metric"]].shown_unit
    if words.undecided(row):
        return f"Baseline: {cell(middle)} {unit}"
    after = middle * amounts.as_written(row["change_pct"], row["metric"])
    return f"{cell(middle)} → {cell(after)} {unit}"
