"""The page of a version upgrade: what changes if each version keeps its defaults, and the published
number for comparison."""

from collections.abc import Iterable

import pandas as pd

from noisefloor.data import results
from noisefloor.data.results import Results
from noisefloor.show.report import words
from noisefloor.show.rows import metric_label
from noisefloor.text import amounts

METRICS = ("cpu_per_transaction", "mean_latency", "p99")


def with_defaults(r: Results) -> pd.DataFrame:
    """The newer version with its defaults against the older one with its own: columns metric,
    difference_pct, lo_pct, hi_pct; empty if that was not measured. Both were measured against the same
    baseline, in different windows."""
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


def of_defaults(r: Results) -> str:
    """A sentence about the change of processor time from the older version with its defaults to the
    newer one with its own; "" if it was not measured, or its interval contains zero."""
    rows, part = with_defaults(r), results.leading(r)
    for row in rows[rows["metric"].eq(metric_label(METRICS[0]))].to_dict("records"):
        size = [row[f"{end}_pct"] for end in ("difference", "lo", "hi")]
        if size[1] > 0 or size[2] < 0:
            on = words.generation(part.processor)
            return (
                f"With each version's own defaults, on {on}: {amounts.change(size[0])} CPU"
                f" ({amounts.interval(*size[1:])})."
            )
    return ""


def across(verdicts: pd.DataFrame, claim: str, threads: Iterable[int]) -> pd.DataFrame:
    """One published number for all thread counts, to be drawn over our own: threads change_pct
    label."""
    size = verdicts.loc[verdicts["claim_id"] == claim, "change_pct"].to_list()
    rows = [(int(t), x, "published") for t in threads for x in size[:1]]
    return pd.DataFrame(rows, columns=["threads", "change_pct", "label"])
