"""The page of encrypted tables: their cost in processor cores, and where rows stay readable."""

import pandas as pd

from noisefloor.data import results
from noisefloor.data.results import Results

CPU = "cpu_per_transaction"


def price(page: Results, workload: str) -> pd.DataFrame:
    """What an arm costs in processor cores at the throughput that the baseline reached: columns
    threads, arm, at TPS, baseline cores, more cores, lo, hi (the interval of CPU per transaction, at
    the baseline's median), verdict."""
    parts = [p for p in page.parts if len(p.judged(workload, "tps"))] or page.parts[:1]
    return pd.concat((_price(page, part, workload) for part in parts), ignore_index=True)


def _price(page: Results, part: Results, workload: str) -> pd.DataFrame:
    """The rows of `price` for the question of one leading campaign."""
    runs = results.only(part.judged(workload), arm=part.study.baseline.name)
    middle = runs.groupby(["threads", "metric"])["value"].median().unstack()
    rows = page.of(workload, CPU, control=False, question=part.study.key)
    rows = rows[~rows["joint"]].join(middle.reindex(columns=["tps", CPU]), on="threads")
    cores = rows["tps"] * rows[CPU]
    columns = {
        "threads": rows["threads"],
        "arm": rows["arm"],
        "at TPS": rows["tps"].round(0),
        "baseline cores": cores.round(3),
    }
    ends = {"more cores": "change_pct", "lo": "lo_pct", "hi": "hi_pct"}
    columns |= {name: (cores * rows[end] / 100).round(3) for name, end in ends.items()}
    return pd.DataFrame(columns | {"verdict": rows["verdict"]})


def everything(page: Results) -> pd.DataFrame:
    """What encrypting everything costs if pages are written: verdict rows of CPU per transaction; empty
    if that was not measured."""
    rows = page.of(metric=CPU, control=False, question="writes")
    return rows[rows["arm"].eq("everything")].assign(does="encrypting everything")


def exposed(page: Results) -> str:
    """A sentence for each arm that encrypts something but leaves rows readable elsewhere."""
    sentences = []
    for arm, part in results.evidence(page).groupby("arm", sort=False):
        clear = part[part["found"] == "plain"]["evidence"].unique()
        if len(clear) and (part["found"] == "encrypted").any():
            sentences.append(f"With {arm} the rows can still be read in the {', '.join(clear)}.")
    return " ".join(sentences) or "No arm that encrypts anything left rows readable elsewhere."
