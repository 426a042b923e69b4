"""The page of a version upgrade: what changes where each version keeps its defaults, and the published
number beside it."""

from collections.abc import Iterable

import pandas as pd

from noisefloor.data import results
from noisefloor.data.results import Results
from noisefloor.show.rows import metric_label

METRICS = ("cpu_per_transaction", "mean_latency", "p99")


def with_defaults(r: Results) -> pd.DataFrame:
    """The newer version with its defaults against the older one with its own: columns metric,
    difference_pct, lo_pct, hi_pct; empty where that was not measured. Both were measured against the same
    baseline, in windows of their own."""
    study = results.leading(r).study
    names = [f"{arm.name}, its defaults" for arm in study.compared[:2]]
    rows = r.of(control=False, question=study.key)
    changes = []
    for metric in METRICS:
        old, new = (
            rows[rows["metric"].eq(metric) & rows["arm"].eq(name)].assign(arm="its defaults")
            for name in names
        )
        changes.append(results.apart(old, new).assign(metric=metric_label(metric)))
    return pd.concat(changes)[["metric", "difference_pct", "lo_pct", "hi_pct"]]


def across(verdicts: pd.DataFrame, claim: str, threads: Iterable[int]) -> pd.DataFrame:
    """One published number for all thread counts, to be drawn over our own: threads change_pct
    label."""
    size = verdicts.loc[verdicts["claim_id"] == claim, "change_pct"].to_list()
    rows = [(int(t), x, "published") for t in threads for x in size[:1]]
    return pd.DataFrame(rows, columns=["threads", "change_pct", "label"])
