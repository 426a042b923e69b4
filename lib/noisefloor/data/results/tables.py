"""What a page computes from verdicts and medians: load, the cost of a cipher alone, and two campaigns
against each other."""

import math
from typing import Any

import numpy as np
import pandas as pd

from noisefloor import schedule, stats
from noisefloor.data.results.campaign import Results, only
from noisefloor.data.results.rows import PROCESSOR, at_a_rate, headlines, main_workload
from noisefloor.model import METRICS
from noisefloor.stats.row import percent

_CPU = PROCESSOR[0]
_ENDS = ["change_pct", "lo_pct", "hi_pct"]
_OF_WINDOWS = (
    *("reached_rate", "queue_length", "clients_busy", "p50", "p999"),
    *("log_syncs", "binlog_bytes_per_transaction", "written_bytes_per_transaction"),
)


def load_curve(page: Results) -> pd.DataFrame:
    """What the leading campaign at a rate says of each rate: columns rate (offered, 1/s), arm, windows,
    saturated_pct (of the windows, of either arm; of the baseline those beside the first arm), p50_s,
    p99_s, cpu_s (of the server, a transaction or a connection; medians, NaN where too many windows are
    saturated, or too few were served for a percentile); sorted by rate; empty without one."""
    columns = ["rate", "arm", "windows", "saturated_pct", "p50_s", "p99_s", "cpu_s"]
    if (part := at_a_rate(page)) is None:
        return pd.DataFrame(columns=columns)
    points = []
    for work in part.study.workloads:
        rows = part.judged(work.name)
        cpu = next((m for m in PROCESSOR if m in set(rows["metric"])), _CPU)
        saturated = part.opened.tidy_runs.saturated.get(work.name, {})
        pairs = rows.groupby(["metric", "pair_id"])["value"].transform("size")
        base, lead = part.study.baseline.name, part.study.arms[0].name
        beside = rows["pair_id"].isin(rows.loc[rows["arm"].eq(lead), "pair_id"])
        whole = rows[pairs.gt(1) & (rows["arm"].ne(base) | beside)]
        middle = whole.groupby(["arm", "metric"])["value"].median()
        for arm in (a.name for a in part.study.compared):
            full, windows = saturated.get(lead if arm == base else arm, (0, 0))
            share = full / windows if windows else math.nan
            below = share <= schedule.MOST_SATURATED
            values = [middle.get((arm, m), math.nan) for m in ("p50", "p99", cpu)]
            values = values if below else [math.nan] * 3
            points.append((work.rate, arm, windows, 100 * share, *values))
    return pd.DataFrame(points, columns=columns).sort_values("rate", kind="stable")


def each_load(page: Results) -> pd.DataFrame:
    """Metrics without a verdict of the windows of the leading campaign at a rate: columns metric (of
    `_OF_WINDOWS`, with its shown unit), offered (1/s), and for each arm the median (of clients_busy the
    mean); empty without such a campaign."""
    if (part := at_a_rate(page)) is None:
        return pd.DataFrame()
    rates = {work.name: work.rate for work in part.study.workloads}
    rows = part.judged()
    rows = rows[rows["metric"].isin(_OF_WINDOWS)]
    rows = rows.assign(offered=rows["workload"].map(rates))
    values = rows.groupby(["metric", "offered", "arm"], sort=False)["value"]
    middle = values.median()
    rare = middle.index.get_level_values("metric") == "clients_busy"  # 0 in most windows
    table = middle.mask(rare, values.mean()).unstack()[[arm.name for arm in part.study.compared]]
    each = [
        table.xs(name)
        .sort_index()
        .mul(m.scale)
        .assign(metric=f"{m.label}, {m.shown_unit}".strip(", "))
        for name in _OF_WINDOWS
        if name in table.index and (m := METRICS[name])
    ]
    return pd.concat(each).set_index("metric", append=True).swaplevel().reset_index()


def expectation(page: Results) -> pd.DataFrame:
    """What the cipher alone takes, beside what was measured (CPU per transaction): columns threads,
    bytes a transaction (median of the baseline), MB_per_s of the cipher, cipher_us, cpu_ms,
    expected_pct, and change_pct, lo_pct, hi_pct of the headline; empty where no cipher was timed."""
    meta, columns = page.meta, ["threads", "bytes", "MB_per_s", "cipher_us", "cpu_ms"]
    metric, rates = page.study.cipher.get("bytes"), meta.get("cipher_B_per_s")
    linked = meta.get("builds", {}).get(meta["engine"]["label"], {}).get("OpenSSL", "")
    if (timed := meta.get("cipher_library", "")) and f" {timed} " not in f"{linked} ":
        rates = []  # the server links another library than the one that was timed
    lead = next((row for row in headlines(page) if row["metric"] == _CPU), None)
    if not (metric and rates) or lead is None:
        return pd.DataFrame(columns=[*columns, "expected_pct", *_ENDS])
    rate = float(np.median(rates))
    runs = only(page.judged(main_workload(page)), arm=page.study.baseline.name)
    base = runs.groupby(["threads", "metric"])["value"].median().unstack()
    base = base.reindex(columns=[metric, _CPU]).dropna().reset_index()
    used, cpu = base[metric], base[_CPU]
    values = (base["threads"].astype(int), used, rate / 1e6, 1e6 * used / rate, 1e3 * cpu)
    table = pd.DataFrame(dict(zip(columns, values, strict=True)))
    table["expected_pct"] = 100 * used / rate / cpu
    return table.assign(**{end: lead[end] for end in _ENDS})


def apart(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """What two campaigns, independent of each other, say about the same comparisons: columns arm,
    threads, first_pct, second_pct, difference_pct, lo_pct, hi_pct and verdict (of the second against
    the first), a row a comparison that both verdict tables hold."""
    same = ["workload", "metric", "threads", "joint", "baseline", "arm"]
    both = first[[*same, *_ENDS, "margin_pct", "verdict"]].merge(
        second[[*same, *_ENDS]], on=same, suffixes=("", " then")
    )
    lines = []
    for row in both.to_dict("records"):
        # change and ends of each, on the log scale; their errors are independent and add as squares
        before, now = ([math.log1p(row[f"{c}{of}"] / 100) for c in _ENDS] for of in ("", " then"))
        step = now[0] - before[0]
        lo = step - math.hypot(now[0] - now[1], before[2] - before[0])
        hi = step + math.hypot(now[2] - now[0], before[0] - before[1])
        line: tuple[Any, ...] = (row["arm"], "all" if row["joint"] else row["threads"])
        line += (row["change_pct"], row["change_pct then"], *map(percent, (step, lo, hi)))
        margin = math.log1p(row["margin_pct"] / 100)
        word = row["verdict"] and stats.verdict.word(lo, hi, margin, row["metric"])
        lines.append((*line, word))
    columns = ["arm", "threads", "first_pct", "second_pct", "difference_pct", "lo_pct", "hi_pct"]
    return pd.DataFrame(lines, columns=[*columns, "verdict"])
