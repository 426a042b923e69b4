"""The result of a question: all of its campaigns, by sitting, separately for each processor."""

import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from noisefloor.data import design
from noisefloor.model import Study
from noisefloor.stats import combine, verdict
from noisefloor.stats.row import percent
from noisefloor.stats.student import quantile
from noisefloor.stats.verdicts import at_least
from noisefloor.text import amounts
from noisefloor.text.reasons import Reason, Why

COMPARISON = ["workload", "metric", "threads", "joint", "baseline", "arm"]  # what is combined
RESULT = [
    *("question", "workload", "rate", "threads", "joint", "metric", "baseline", "arm", "processor"),
    *("verdict", "change_pct", "lo_pct", "hi_pct", "margin_pct", "sittings", "asked"),
    *("next_lo_pct", "next_hi_pct"),
]  # of `Results.result`
MORE = ["question", "rate", "processor", "sittings", "asked", "ranged", *RESULT[-2:]]
_TAU = Path(__file__).parents[1] / "tau.json"


@functools.cache
def taus() -> dict[str, Any]:
    """{instrument: {metric: {"value", "df", "questions"}}}: the scatter between sittings, computed
    from the recorded campaigns by `calibrate.tables.tau`."""
    return json.loads(_TAU.read_text(encoding="utf-8"))


def tau(instrument: str, metric: str) -> combine.Tau | None:
    """The pooled scatter between sittings, log scale; None while too few questions have repeats."""
    known = taus().get(instrument, {}).get(metric)
    if not known or known["questions"] < combine.QUESTIONS:
        return None
    return combine.Tau(known["value"], known["df"], known["questions"])


def campaign(row: Mapping[Any, Any]) -> combine.Campaign | None:
    """The log change of a verdict row, with the variance and the degrees of freedom behind its
    interval; None without an interval, or if its blocks do not scatter at all, so that it cannot be
    weighted."""
    value, lo, hi = (_log(row[c]) for c in ("change_pct", "lo_pct", "hi_pct"))
    df = int(row["blocks"]) - 1
    if not (math.isfinite(lo) and math.isfinite(hi) and lo < hi) or df < 1:
        return None
    t = quantile(1 - verdict.ALPHA / int(row["together"]) / 2, df)
    return combine.Campaign(value, ((hi - lo) / 2 / t) ** 2, df)


def sittings(repeats: Iterable[tuple[str, Mapping[Any, Any]]]) -> list[combine.Campaign]:
    """The sittings of a comparison in the order in which they began, the campaigns of each averaged.
    On a guest the mean is no more certain than one campaign, because all share one start. Campaigns
    without an interval are left out. repeats: (sitting, verdict row of a campaign) by time."""
    by_sitting: dict[str, list[combine.Campaign]] = {}
    for sitting, row in repeats:
        if measured := campaign(row):
            by_sitting.setdefault(sitting, []).append(measured)
    means = []
    for sitting, campaigns in by_sitting.items():
        mean = combine.mean_of_sitting(campaigns)
        if sitting.startswith(design.GUEST):
            df = min(c.df for c in campaigns)
            mean = combine.Campaign(mean.effect, len(campaigns) * mean.variance, df)
        means.append(mean)
    return means


def no_closer(metric: str, effect: float, one: combine.Prediction) -> combine.Prediction:
    """The prediction with its range as pages show it (`at_least`); effect: of the campaign, log."""
    _, lo, hi = at_least(metric, (one.lo + one.hi) / 2, one.lo, one.hi)
    return combine.Prediction(lo, hi, 0 if lo <= effect <= hi else one.side, one.before)


def _log(pct: float) -> float:
    return math.log1p(pct / 100) if pct > -100 else math.nan


def combined(
    tables: Sequence[tuple[str, pd.DataFrame]], study: Study, processor: str
) -> pd.DataFrame:
    """The verdict table of all campaigns of a question on one processor, with the columns `MORE`.

    tables: (sitting, verdict table of a campaign) in the order of time. The rows and the A/A controls
    are those of the newest campaign; its changes are replaced by those of all sittings combined. A
    joint row stays if every campaign has one and no two thread counts lie on opposite sides of zero.
    A campaign without any interval (one block) is left out, unless none has one."""
    tables = [each for each in tables if each[1]["lo_pct"].notna().any()] or tables
    newest = tables[-1][1]
    by_key = [
        (sitting, {_key(row): row for row in table.to_dict("records")}) for sitting, table in tables
    ]
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for key, row in by_key[-1][1].items():
        repeats = [(sitting, table[key]) for sitting, table in by_key if key in table]
        if row["joint"] and len(repeats) < len(tables):
            continue
        rows[key] = _row(row, repeats[-1:] if row["control"] else repeats, study, processor)
    arms = {key: (*key[:2], *key[4:]) for key in rows}  # whatever the thread count
    each = [(arms[key], row) for key, row in rows.items() if not row["joint"]]
    apart = {a for a, x in each if x["lo_pct"] > 0} & {a for a, x in each if x["hi_pct"] < 0}
    kept = [row for key, row in rows.items() if not row["joint"] or arms[key] not in apart]
    out = pd.DataFrame(kept, columns=list(dict.fromkeys([*newest.columns, *MORE])))
    out["threads"] = out["threads"].astype("Int64")
    return out.astype({"joint": bool, "control": bool, "worse": bool, "ranged": bool})


def _key(row: Mapping[Any, Any]) -> tuple[Any, ...]:
    """A row's values of COMPARISON."""
    return tuple(None if pd.isna(row[c]) else row[c] for c in COMPARISON)


def _row(
    row: Mapping[Any, Any],
    repeats: Sequence[tuple[str, Mapping[Any, Any]]],
    study: Study,
    processor: str,
) -> dict[str, Any]:
    """One comparison over all sittings: the newest campaign's `row`, with the combined change and
    the warnings of all. repeats: (sitting, row of a campaign) in the order of time."""
    means = sittings(repeats)
    # a sitting without an interval (its rate saturated) does not count
    n = len(means or {sitting for sitting, _ in repeats})
    asked = 1 if row["control"] else study.sittings
    out = dict(row)
    out["question"], out["processor"] = study.key, processor
    out["sittings"], out["asked"], out["ranged"] = n, asked, False
    out["next_lo_pct"] = out["next_hi_pct"] = math.nan
    warnings = list(dict.fromkeys(w for _, repeat in repeats for w in repeat["warnings"]))
    metric = row["metric"]
    if means:
        spread = tau(design.instrument(study, row["workload"]), metric)
        both = combine.combine_sittings(means, spread, int(row["together"]))
        mean, lo, hi = at_least(metric, both.mean, both.lo, both.hi)
        _, *ahead = at_least(metric, both.mean, both.next_lo, both.next_hi)
        columns = ("change_pct", "lo_pct", "hi_pct", "next_lo_pct", "next_hi_pct")
        for column, value in zip(columns, (mean, lo, hi, *ahead), strict=True):
            out[column] = percent(value) if math.isfinite(value) else math.nan
        out["ranged"] = both.ranged
        margin = math.log1p(row["margin_pct"] / 100)
        out["verdict"] = row["verdict"] and verdict.word(lo, hi, margin, metric)  # "" stays ""
    for column in ("n_baseline", "n_arm", "blocks"):
        out[column] = sum(int(repeat[column]) for _, repeat in repeats)
    out["known"] = amounts.ascii_only(amounts.bounds(out["lo_pct"], out["hi_pct"], metric))
    if repeats[1:]:  # these are for the newest campaign alone
        out["runs_needed"] = out["minutes_needed"] = math.nan
    lacking = n < asked and row["verdict"]
    if lacking or out["ranged"]:
        out["verdict"] = row["verdict"] and verdict.PROVISIONAL
        warnings.insert(0, Reason(Why.SO_FAR if lacking else Why.RANGE, sittings=n, asked=asked))
    out["worse"] = verdict.worse(out["verdict"], metric)
    if out["verdict"] != verdict.CANNOT_TELL:
        out["known"], out["minutes_needed"] = "", math.nan
    out["warnings"] = warnings
    return out
