"""The result of a question: all of its campaigns, sitting by sitting, each processor by itself."""

import functools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from noisefloor.data import design
from noisefloor.model import Study
from noisefloor.stats import combine, verdict
from noisefloor.stats.row import percent
from noisefloor.stats.student import quantile
from noisefloor.text.reasons import Reason, Why

COMPARISON = ["workload", "metric", "threads", "joint", "baseline", "arm"]  # what is combined
MORE = [
    "question",
    "rate",
    "processor",
    "sittings",
    "asked",
    "ranged",
    "next_lo_pct",
    "next_hi_pct",
]
_TAU = Path(__file__).parents[1] / "tau.json"


@functools.cache
def taus() -> dict[str, Any]:
    """{instrument: {metric: {"value", "df", "questions"}}} of the scatter between sittings, as the
    recorded campaigns say (`calibrate.found.tau`)."""
    found: dict[str, Any] = json.loads(_TAU.read_text(encoding="utf-8"))
    return found


def tau(instrument: str, metric: str) -> combine.Tau | None:
    """The pooled scatter between sittings; None while too few questions have repeats."""
    known = taus().get(instrument, {}).get(metric)
    if not known or known["questions"] < combine.QUESTIONS:
        return None
    return combine.Tau(known["value"], known["df"], known["questions"])


def campaign(row: Mapping[str, Any]) -> combine.Campaign | None:
    """The log change of a verdict row with the variance and the degrees of freedom behind its
    interval; None without one."""
    value, lo, hi = (_log(row[c]) for c in ("change_pct", "lo_pct", "hi_pct"))
    df = int(row["blocks"]) - 1
    if not (math.isfinite(lo) and math.isfinite(hi)) or df < 1:
        return None
    t = quantile(1 - verdict.ALPHA / int(row["together"]) / 2, df)
    return combine.Campaign(value, ((hi - lo) / 2 / t) ** 2, df)


def _log(pct: float) -> float:
    return math.log1p(pct / 100) if pct > -100 else math.nan


def combined(
    tables: Sequence[tuple[str, pd.DataFrame]], study: Study, processor: str
) -> pd.DataFrame:
    """One verdict table of the campaigns of a question on one processor.

    tables: (sitting, verdict table of a campaign) in the order of time; the rows, remarks and A/A
    controls of the newest are kept, its changes replaced by what all sittings say. A joint row stays
    where every campaign has one."""
    newest = tables[-1][1]
    held = [(s, {_key(r): r for r in t.to_dict("records")}) for s, t in tables]
    rows = []
    for key, row in held[-1][1].items():
        found = [(s, table[key]) for s, table in held if key in table]
        if row["joint"] and len(found) < len(tables):
            continue
        rows.append(_row(row, found[-1:] if row["control"] else found, study, processor))
    columns = dict.fromkeys([*newest.columns, *MORE])
    out = pd.DataFrame(rows, columns=list(columns)).reset_index(drop=True)
    out["threads"] = out["threads"].astype("Int64")
    out.attrs = dict(newest.attrs)
    return out.astype({"joint": bool, "control": bool, "worse": bool, "ranged": bool})


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a row compares."""
    return tuple(None if pd.isna(row[c]) else row[c] for c in COMPARISON)


def _row(
    row: Mapping[str, Any],
    found: Sequence[tuple[str, Mapping[str, Any]]],
    study: Study,
    processor: str,
) -> dict[str, Any]:
    """One comparison of all sittings."""
    sat: dict[str, list[combine.Campaign]] = {}
    for name, each in found:
        if one := campaign(each):
            sat.setdefault(name, []).append(one)
    known = [combine.sitting(c) for c in sat.values()]
    # a rate that saturated has no interval: that sitting says nothing
    sittings = len(sat or {name for name, _ in found})
    asked = 1 if row["control"] else study.sittings
    out = dict(row)
    out["question"], out["processor"] = study.key, processor
    out["sittings"], out["asked"], out["ranged"] = sittings, asked, False
    out["next_lo_pct"] = out["next_hi_pct"] = math.nan
    warnings = list(dict.fromkeys(w for _, each in found for w in each["warnings"]))
    metric = row["metric"]
    if known:
        spread = tau(design.instrument(study, row["workload"]), metric)
        both = combine.combine(known, spread, int(row["together"]))
        for column, value in (
            ("change_pct", both.mean), ("lo_pct", both.lo), ("hi_pct", both.hi),
            ("next_lo_pct", both.next_lo), ("next_hi_pct", both.next_hi),
        ):  # fmt: skip
            out[column] = percent(value) if math.isfinite(value) else math.nan
        out["ranged"] = both.ranged
        margin = math.log1p(row["margin_pct"] / 100)
        out["verdict"] = verdict.word(both.lo, both.hi, margin, metric)
    for column in ("n_baseline", "n_arm", "blocks"):
        out[column] = sum(int(each[column]) for _, each in found)
    if sittings < asked:
        out["verdict"] = verdict.NOT_YET
        warnings.insert(0, Reason(Why.SO_FAR, sittings=sittings, asked=asked))
    elif out["ranged"]:
        out["verdict"] = verdict.NOT_YET
        warnings.insert(0, Reason(Why.RANGE, sittings=sittings))
    out["worse"] = verdict.worse(out["verdict"], metric)
    if out["verdict"] != verdict.CANNOT_TELL:
        out["known"], out["minutes_needed"] = "", math.nan
    out["warnings"] = warnings
    return out
