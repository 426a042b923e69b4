"""Real campaigns: two identical servers, the A/A controls of all studies, known slowdowns.

Works on opened campaigns (`results.load`), each judged alone."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from noisefloor import stats
from noisefloor.data import design, results
from noisefloor.data.results import Results, main_workload
from noisefloor.model import METRICS, TWICE, Arm
from noisefloor.stats import rule

CPU = "cpu_per_transaction"
JUDGED = ("tps", CPU)  # of known slowdowns
COSTS = (*results.PROCESSOR, *results.THROUGHPUT)
PIECE = 6  # blocks of a piece of a campaign
NONE = "No campaign {} is recorded: what needs it is left out."


class TooShort(ValueError):
    """Campaigns are missing, or have too few pairs or blocks. One sentence."""


def asks(opened: Iterable[Results], *questions: str) -> list[Results]:
    """The judged calibration campaigns of these questions, in order of time. The very first one, of two
    identical servers, had a study of its own and no question."""
    ours = (r for r in opened if r.study.name in ("calibration", "calibration-aa"))
    asked = (r for r in ours if (r.study.key or "aa") in questions and len(r.judged()))
    return sorted(asked, key=lambda r: (design.began(r.meta), r.folder.name))


def called(opened: Iterable[Results], *, control: bool) -> pd.DataFrame:
    """Verdict rows of throughput and processor time, and of p99 at a rate: of the A/A control, or (not
    `control`) of two identical servers and of one server against itself. Joint rows where there are any,
    else each thread count. Columns design, metric, workload, threads, change_pct, lo_pct, hi_pct, verdict,
    blocks and campaign. Raises TooShort for none."""
    tables = []
    for r in opened if control else asks(opened, "aa", "switched", "rate-same"):
        rows = r.alone()
        leads = rows["metric"].isin(COSTS) | rows["metric"].isin(results.LATENCY) & rows["rate"].gt(
            0
        )
        rows = rows[rows["control"].astype(bool).eq(control) & leads & rows["lo_pct"].notna()]
        several = rows.groupby(["workload", "metric"])["joint"].transform("any")
        tables.append(rows[rows["joint"].eq(True) | ~several].assign(campaign=r.folder.name))
    if not any(map(len, tables)):
        kind = f"with {TWICE}" if control else "of two identical servers"
        raise TooShort(NONE.format(kind))
    rows = pd.concat([table for table in tables if len(table)], ignore_index=True)
    rows["threads"] = rows["threads"].astype(object).where(rows["threads"].notna(), "all")
    columns = ["metric", "workload", "threads", "change_pct", "lo_pct", "hi_pct", "verdict"]
    return rows[["design", *columns, "blocks", "campaign"]]


# -- known slowdowns ---------------------------------------------------------------------------------


def rounds(arm: Arm) -> int:
    """Rounds of hashing in each transaction of an arm (its option --work); 0 without."""
    return next((int(o.split("=")[1]) for o in arm.options if o.startswith("--work=")), 0)


def blocks(r: Results, metric: str, arm: Arm) -> np.ndarray:
    """Means of the whole blocks of a slowdown: log ratio of the (processor) time of a transaction."""
    sign = 1 if METRICS[metric].worse_up else -1
    return sign * stats.block_means(r.pairs(main_workload(r), metric, arm.name))["mean"].to_numpy()


def slowdowns(opened: Iterable[Results]) -> pd.DataFrame:
    """Known slowdowns, measured in turn, of the newest campaign: columns arm, metric, blocks, truth_pct,
    change_pct, lo_pct, hi_pct, verdict, covered (pieces whose 95 % interval contains the truth), pieces (of
    PIECE successive blocks).

    A transaction grows by a fixed amount for each round of hashing. The heaviest arm shows how much;
    it is left out of the rows, and its error is in the intervals of the pieces. Raises TooShort."""
    campaigns = asks(opened, "injected")
    if not campaigns:
        raise TooShort(NONE.format("of known slowdowns"))
    r, rows = campaigns[-1], []
    heavy, verdicts = max(r.study.arms, key=rounds), r.alone()
    for metric in JUDGED:
        units = blocks(r, metric, heavy)
        if len(units) < PIECE:
            raise TooShort(f"{r.folder.name} has {len(units)} whole blocks, fewer than {PIECE}")
        sign = 1 if METRICS[metric].worse_up else -1
        mean, lo, _ = map(float, rule.block_interval(units))
        grown, error = math.expm1(mean), math.exp(mean) * (mean - lo)
        for arm in (a for a in r.study.arms if a is not heavy):
            share = rounds(arm) / rounds(heavy)
            truth, doubt = math.log1p(grown * share), error * share / (1 + grown * share)
            units = blocks(r, metric, arm)
            row = verdicts[verdicts["metric"].eq(metric) & verdicts["arm"].eq(arm.name)]
            if row.empty or len(units) < PIECE:
                continue
            pieces = [units[i : i + PIECE] for i in range(0, len(units) + 1 - PIECE, PIECE)]
            middle, low, _ = rule.block_interval(pieces)
            covered = np.abs(middle - truth) <= np.hypot(middle - low, doubt)
            size = 100 * math.expm1(sign * truth)
            answer = row.iloc[0][["change_pct", "lo_pct", "hi_pct", "verdict"]]
            counts = int(covered.sum()), len(covered)
            rows.append((arm.name, metric, len(units), size, *answer, *counts))
    columns = "arm metric blocks truth_pct change_pct lo_pct hi_pct verdict covered pieces"
    return pd.DataFrame(rows, columns=columns.split())


# -- both servers at once, at a rate -----------------------------------------------------------------

ALONE, SHIPPED = "rate-alone", "shared cores"
AT_ONCE = {  # question: arrangement of the servers, or what is known of them
    "rate-same": "identical servers",
    "rate-sleep": "a sleep of 1 ms",
    "rate-work": SHIPPED,
    "rate-cores": "a core for each, swapped",
    "rate-arrivals": "the same arrivals",
}
SIZES = (CPU, "mean_latency", "p99")
SLEEP_S = 0.001  # of the arm that sleeps in every transaction


def at_rate(opened: Sequence[Results]) -> pd.DataFrame:
    """Known differences, measured with two servers under load at once, of the newest campaign of each
    question: columns arrangement, arm, metric, change_pct, lo_pct, hi_pct, verdict, truth_pct, told_pct
    (measured share of the true size, on the log scale) and half_pct (half its 95 % interval). A sleep is
    known by construction. Work is compared with the same work measured one server after the other, if that
    change is larger than its interval is wide; else, and for identical servers, the shares are NaN. Raises
    TooShort."""
    newest = {q: asked[-1] for q in (*AT_ONCE, ALONE) if (asked := asks(opened, q))}
    if not newest.keys() & AT_ONCE.keys():
        raise TooShort(NONE.format("of two servers at once"))
    tables = [r.alone().assign(arrangement=AT_ONCE.get(q, q)) for q, r in newest.items()]
    rows = pd.concat(tables, ignore_index=True)
    rows = rows[rows["metric"].isin(SIZES) & ~rows["control"].astype(bool)]
    key, ends = ["arm", "metric"], ["change_pct", "lo_pct", "hi_pct"]
    change, lo, hi = (np.log1p(rows[c].astype(float) / 100) for c in ends)
    rows, alone = rows.assign(log=change, error=(hi - lo) / 2), rows["arrangement"].eq(ALONE)
    sure = rows[alone & (np.abs(change) > hi - lo)].rename(
        columns={"log": "size", "error": "doubt"}
    )
    rows = rows[~alone].merge(sure[[*key, "size", "doubt"]], how="left", on=key)
    rows.loc[rows["arrangement"].eq(AT_ONCE["rate-same"]), ["size", "doubt"]] = 0.0
    if sleep := newest.get("rate-sleep"):
        mean = sleep.judged(metric="mean_latency").groupby("arm")["value"].median()
        slept = math.log1p(SLEEP_S / mean.get(sleep.study.baseline.name, math.nan))
        asleep = rows["arrangement"].eq(AT_ONCE["rate-sleep"]) & rows["metric"].eq("mean_latency")
        rows.loc[asleep, ["size", "doubt"]] = slept, 0.0
    size = rows["size"].where(rows["size"].ne(0))
    share = rows["log"] / size
    half = np.hypot(rows["error"], share * rows["doubt"]) / size.abs()
    shares = {"truth_pct": np.expm1(rows["size"]), "told_pct": share, "half_pct": half}
    rows = rows[["arrangement", *key, *ends, "verdict"]]
    return rows.assign(**{name: 100 * values for name, values in shares.items()})


def recovered_share(opened: Sequence[Results]) -> dict[str, Any]:
    """The share of a known difference that two servers on shared cores measure: {"source", metric:
    {"share_pct", "lo_pct", "hi_pct"}} on the log scale, with a 95 % interval, for the metrics whose true
    size `at_rate` knows. Arms are weighted by the inverse square of their half widths. {} if the work was
    not measured both at once and one server after the other."""
    newest = [asked[-1].folder.name for q in ("rate-work", ALONE) if (asked := asks(opened, q))]
    if len(newest) < 2:
        return {}
    table: dict[str, Any] = {"source": " against ".join(newest)}
    rows = at_rate(opened).dropna(subset="told_pct")
    for metric, part in rows[rows["arrangement"].eq(SHIPPED)].groupby("metric"):
        weights = part["half_pct"] ** -2
        share, half = np.average(part["told_pct"], weights=weights), weights.sum() ** -0.5
        ends = {"share_pct": share, "lo_pct": share - half, "hi_pct": share + half}
        table[str(metric)] = {name: round(float(end), 1) for name, end in ends.items()}
    return table
