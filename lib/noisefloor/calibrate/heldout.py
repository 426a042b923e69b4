"""Does a repeat lie in the range that was predicted before it? Each sitting of a recorded
question is predicted from the earlier ones; and how much sittings scatter."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from noisefloor.calibrate.rivals import bounds
from noisefloor.data import design, question
from noisefloor.data.results import Results, main_workload
from noisefloor.stats import combine


@dataclass(frozen=True)
class Repeats:
    """One metric of a question on one processor: the joint row of its first workload and arm, else that
    of the most threads. sittings: in order of time, each the mean of its campaigns."""

    study: str
    question: str
    processor: str
    instrument: str
    metric: str
    sittings: tuple[combine.Campaign, ...]


def comparisons(opened: Iterable[Results]) -> list[Repeats]:
    """The Repeats of campaigns that are judged, one a metric of each question, processor and
    design."""
    groups: dict[tuple[str, ...], list[tuple[Results, pd.DataFrame]]] = {}
    for r in sorted(opened, key=lambda r: (design.began(r.meta), r.folder.name)):
        table = r.alone()
        arms = table["workload"].eq(main_workload(r)) & ~table["control"].astype(bool)
        rows = table[arms & table["lo_pct"].notna()]
        if len(rows):
            alike = (
                r.study.name,
                r.study.key,
                r.processor,
                design.fingerprint(design.design_of(r.meta)),
            )
            groups.setdefault(alike, []).append((r, rows))
    every = []
    for (study, key, processor, _), campaigns in groups.items():
        newest, rows = campaigns[-1]
        instrument = design.instrument(newest.study, main_workload(newest))
        for metric in rows["metric"].unique():
            if sittings := tuple(question.sittings(_alike(campaigns, metric))):
                every.append(Repeats(study, key, processor, instrument, metric, sittings))
    return every


def _alike(campaigns: Sequence[tuple[Results, pd.DataFrame]], metric: str) -> list[tuple[str, Any]]:
    """(sitting, row) of each campaign that measured a metric: the joint row, or that of the most
    threads, that all of them have. campaigns: (Results, verdict rows)."""
    measured = (
        (design.sitting_key(r.meta), rows[rows["metric"] == metric]) for r, rows in campaigns
    )
    tables: list[tuple[str, dict[tuple[str, float], Any]]] = [
        (sitting, {(row["arm"], _threads(row)): row for _, row in rows.iterrows()})
        for sitting, rows in measured
        if len(rows)
    ]
    common = set.intersection(*(set(table) for _, table in tables))
    turn = [a.name for a in campaigns[-1][0].study.arms]
    best = min(common, key=lambda key: (turn.index(key[0]), -key[1]), default=None)
    return [(sitting, table[best]) for sitting, table in tables] if best else []


def _threads(row: Any) -> float:
    """The thread count of a row; infinite for the joint one, which comes first."""
    return math.inf if row["joint"] else 0 if pd.isna(row["threads"]) else int(row["threads"])


def repeated(every: Iterable[Repeats], instrument: str, metric: str) -> list[Repeats]:
    """The Repeats of an instrument and metric that have two sittings or more."""
    alike = (c for c in every if (c.instrument, c.metric) == (instrument, metric))
    return [c for c in alike if len(c.sittings) > 1]


def held_out(every: Sequence[Repeats]) -> pd.DataFrame:
    """Every sitting but the first of these Repeats, predicted from those before it: rows study,
    question, instrument, metric, inside, half_pct (half the width of the range) and inside_tau.

    `inside`: in the range that pages show, without pooled scatter between sittings until
    combine.QUESTIONS other questions of the instrument have repeats. `inside_tau`: with that scatter,
    however few the other questions are."""
    rows = []
    for c in (c for c in every if len(c.sittings) > 1):
        about, kind = (c.study, c.question), (c.instrument, c.metric)
        rest = [
            other.sittings
            for other in repeated(every, *kind)
            if (other.study, other.question) != about
        ]
        taus = combine.pooled_tau(rest), combine.estimate_tau(rest)
        both = (combine.held_out(c.sittings, tau) for tau in taus)
        for one, *ranges in zip(c.sittings[1:], *both, strict=True):
            a, b = (question.no_closer(c.metric, one.effect, each) for each in ranges)
            rows.append((*about, *kind, not a.side, 50 * (a.hi - a.lo), not b.side))
    columns = ["study", "question", "instrument", "metric", "inside", "half_pct", "inside_tau"]
    return pd.DataFrame(rows, columns=columns).astype({"inside": bool, "inside_tau": bool})


def summary(repeats: pd.DataFrame, by: str) -> pd.DataFrame:
    """`held_out` counted by a column: a row for each of its values, with repeats, inside, share_pct and
    its bounds lo_pct and hi_pct (Clopper and Pearson), inside_tau, half_pct (median)."""
    rows = []
    for name, part in repeats.groupby(by, sort=True):
        inside, n = int(part["inside"].sum()), len(part)
        ends = (100 * x for x in (inside / n, *bounds(inside, n)))
        rows.append(
            (name, n, inside, *ends, int(part["inside_tau"].sum()), part["half_pct"].median())
        )
    columns = ["repeats", "inside", "share_pct", "lo_pct", "hi_pct", "inside_tau", "half_pct"]
    return pd.DataFrame(rows, columns=[by, *columns])
