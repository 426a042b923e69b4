"""Which rows of a page's verdict table lead it, answer a question, or compare the same elsewhere."""

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from noisefloor import studies
from noisefloor.data import question as results_of
from noisefloor.data.results.campaign import Results, only
from noisefloor.data.results.page import asked_by
from noisefloor.model import Request, Study, StudyError, Workload
from noisefloor.text.reasons import Reason, Why

# what a page leads with, the first of each that was measured
PROCESSOR = ("cpu_per_transaction", "cpu_per_connection", "user_sys")
THROUGHPUT = ("tps", "connections_per_second", "wall")
LATENCY = ("p99",)  # in place of throughput at a rate, which both arms reach


# -- the campaigns that lead a page ----------------------------------------------------------------


def leading(page: Results) -> Results:
    """The leading campaign of the question that leads the study's page."""
    name, by_key = page.study.name, {p.study.key: p for p in reversed(page.parts)}
    keys = studies.headline(name) if name in studies.STUDIES else ()
    return next((by_key[key] for key in keys if key in by_key), capacity(page))


def capacity(page: Results) -> Results:
    """The leading campaign of maximum throughput (question `headline`); without one the first."""
    return {p.study.key: p for p in reversed(page.parts)}.get("headline", page.parts[0])


def at_a_rate(page: Results) -> Results | None:
    """The first leading campaign of transactions or connections at a rate; None without one."""
    for part in page.parts:
        first = part.study.workloads[0]
        if first.rate and first.tool in ("sysbench", "connect"):
            return part
    return None


def highest_tps(page: Results) -> float:
    """The baseline's maximum transactions a second: the highest median over its thread counts; 0 if it
    was not measured on the page's processor."""
    part = capacity(page)
    first = part.study.workloads[0]
    rows = only(part.judged(first.name, "tps"), arm=part.study.baseline.name)
    if rows.empty or first.rate or part.processor != page.processor:
        return 0.0
    return float(rows.groupby("threads")["value"].median().max())


def _server_kind(page: Results) -> str:
    """The kind of a page's server, `mysql`; "" without a server, or if only its name is known."""
    engine = page.meta.get("engine")
    return str(engine.get("kind", "")) if isinstance(engine, dict) else ""


# -- what single figures are about -----------------------------------------------------------------


def main_workload(page: Results) -> str:
    """Name of the study's first workload."""
    return page.study.workloads[0].name


def main_metric(page: Results) -> str:
    """The first workload's first deciding metric that was measured; its first one if none was."""
    first = page.study.workloads[0]
    there = set(page.parts[0].judged(first.name)["metric"])
    return next((m for m in first.deciding if m in there), first.deciding[0])


def main_threads(page: Results) -> int:
    """The thread count that single figures show: the first workload's one that most workloads share;
    of several such the one nearest to the middle."""
    workloads = page.study.workloads
    shared, counts = Counter(t for w in workloads for t in w.threads), workloads[0].threads
    return max(counts, key=lambda t: (shared[t], -abs(counts.index(t) - len(counts) // 2)))


# -- rows ------------------------------------------------------------------------------------------


def questions(page: Results) -> dict[str, str]:
    """{key: what it asks} of the study's questions, in the order of its file; {} for a campaign that
    asked all of them at once, or the user's own question."""
    known = asked_by(page.parts[0].meta) if page.study.key else {}
    return known | {p.study.key: p.study.question for p in page.parts if p.study.key}


def answering(page: Results, question: str) -> pd.DataFrame:
    """Rows of the verdict table that answer a question, controls left out. Of a campaign that asked
    all of them at once: those of the question's workloads and arms."""
    if page.parts[0].study.key:
        return page.of(question=question, control=False)
    try:
        asked = studies.load(Request(page.study.name, question, "standard", _server_kind(page)))
    except StudyError:
        return page.verdicts[:0]
    rows = page.of(control=False)
    workloads, arms = ([x.name for x in of] for of in (asked.workloads, asked.arms))
    return rows[rows["workload"].isin(workloads) & rows["arm"].isin(arms)]


def elsewhere(page: Results, row: pd.Series) -> list[pd.Series]:
    """The rows of the same comparison on other processors."""
    rows = page.verdicts
    same = rows["question"].eq(row["question"]) & rows["processor"].ne(row["processor"])
    for column in results_of.COMPARISON:
        missing = pd.isna(row[column])
        alike = rows[column].isna() if missing else rows[column].eq(row[column])
        same &= alike.fillna(False)
    return [other for _, other in rows[same].iterrows()]


def costs(page: Results, workload: str, question: str | None = None) -> pd.DataFrame:
    """Rows of processor time and throughput of a workload."""
    rows = page.of(workload, question=question)
    return rows[rows["metric"].isin([*PROCESSOR, *THROUGHPUT])]


def headlines(page: Results, arm: str = "") -> list[pd.Series]:
    """The rows that a page leads with, for `arm` where it was measured: processor time, then
    throughput, or at a rate latency."""
    first = leading(page)
    rows = [lead(page, first, metrics, arm) for metrics in _leads(first.study.workloads[0])]
    if not any(row is not None for row in rows):
        first = page.parts[0]
        deciding = first.study.workloads[0].deciding[:2]
        rows = [lead(page, first, (metric,), arm) for metric in deciding]
    return [row for row in rows if row is not None]


def lead_rows(verdicts: pd.DataFrame, asked: Study) -> list[pd.Series]:
    """The rows of a verdict table that a question leads with, for its first arm: as `headlines`."""
    first = asked.workloads[0]
    rows = verdicts[verdicts["workload"].eq(first.name) & ~verdicts["control"].astype(bool)]
    leads = [_main_row(rows, metrics) for metrics in _leads(first)]
    if not any(row is not None for row in leads):
        leads = [_main_row(rows, (metric,)) for metric in first.deciding[:2]]
    return [row for row in leads if row is not None]


def _leads(first: Workload) -> tuple[tuple[str, ...], ...]:
    """What a question about this workload leads with, the first of each that was measured."""
    return PROCESSOR, LATENCY if first.rate else THROUGHPUT


def _main_row(rows: pd.DataFrame, metrics: Sequence[str], arm: str = "") -> pd.Series | None:
    """The main verdict row of one workload: the first of `metrics` that was measured; `arm`, or the
    first arm if that one was not measured; the joint row, or the one of the most threads. None
    without a row."""
    metric = next((m for m in metrics if m in set(rows["metric"])), "")
    rows = rows[rows["metric"] == metric]
    if rows.empty:
        return None
    rows = rows[rows["arm"] == (arm if arm in set(rows["arm"]) else rows["arm"].iloc[0])]
    joint = rows[rows["joint"].astype(bool)]
    return joint.iloc[0] if len(joint) else rows.sort_values("threads").iloc[-1]


def lead(page: Results, part: Results, metrics: tuple[str, ...], arm: str = "") -> pd.Series | None:
    """The `_main_row` of a leading campaign, with the column `does` (`studies.does`) of its arm."""
    rows = page.of(main_workload(part), control=False, question=part.study.key)
    main = _main_row(rows, metrics, arm)
    if main is None:
        return None
    row = main.copy()
    old = page.meta.get("parameters", {}).get("old", "")
    row["does"] = studies.does(part.study.name, row["arm"], _server_kind(page), old)
    if arm in {a.name for a in part.study.arms} and row["arm"] != arm:
        row["warnings"] = [*row["warnings"], Reason(Why.OTHER_ARM, arm=arm)]
    return row
