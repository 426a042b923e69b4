"""Published claims: the facts of ``data/raw/published``, the claims about them, and what pages show
of both.

A source with a control is judged by it: the in-memory table of the tablespace document, the two
names of one cipher in the backup document, the repetitions of STAR. For single numbers without a
control the difference between two such runs is predicted, as in `noisefloor judge`.
"""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pandas as pd

from noisefloor.claims import agree
from noisefloor.claims.judged import (
    SOURCES,
    TITLES,
    by_threads,
    judge_claims,
    published_facts,
    times,
    trend,
)
from noisefloor.data.results import Results, capacity, main_workload
from noisefloor.show import report
from noisefloor.show.markup import Shown, joined, piece
from noisefloor.show.report import statement, words
from noisefloor.show.rows import is_joint, threads_label
from noisefloor.stats.row import from_frame
from noisefloor.stats.verdict import CANNOT_TELL, PROVISIONAL
from noisefloor.text import amounts, answers, upper
from noisefloor.text.reasons import Why, without

Row = Mapping[Any, Any]  # of a verdict table
_AHEAD = "a repeat should give"


def here(r: Results) -> pd.DataFrame:
    """The claims of a study's source, judged by the study's margin (`judge_claims`)."""
    return judge_claims(published_facts(), times(), r.study.margin_pct, study=r.study.name)


def stands(r: Results, label: str, *, arm: str = "", claimed: float | None = None) -> str:
    """Whether a claim of a study's source agrees with opened campaigns, processor by processor, in
    words, by the rule of `claims.agree`; "" if the source has no claim of this label. Its number, 0 for
    "no difference", is compared with the range in which a repeat is expected, if that is known, else with
    the interval. If no campaign of ours can test it, or its load was not measured: the reason.

    label: of the claim; arm: the one that is compared, by default the first; claimed: the number in
    percent, if the source prints none."""
    theirs = here(r)
    theirs = theirs[theirs["label"].eq(label)]
    lead = capacity(r)
    rows = r.of(main_workload(lead), control=False, question=lead.study.key)
    rows = rows[rows["metric"].isin(theirs["metric"]) & (rows["arm"].eq(arm) | (not arm))]
    rows = rows[rows["lo_pct"].notna()]
    if theirs.empty:
        return ""
    source = theirs.iloc[0].to_dict()
    rows, seen = _about(source, rows, r)
    says = f"{SOURCES[r.study.name]['short']}: {source['said']}"
    if why := source["not_comparable"] or (rows.empty and SOURCES[r.study.name]["unmeasured"]):
        return f"{says}. Not comparable: {why}."
    if claimed is None:
        claimed = source["claimed_pct"] if pd.notna(source["claimed_pct"]) else source["change_pct"]
    limit = source["limit"]
    asserted = agree.claimed(claimed, most=limit == "most")
    answered: dict[str, list[str]] = {}
    for processor, measured in words.placed(rows.iloc[0], seen):
        alike: dict[str, list[Row]] = {}
        for row in (row for row in measured if pd.notna(row["lo_pct"])):
            alike.setdefault(_agrees(row, asserted), []).append(row)
        for word, part in alike.items():
            at = _at(part) if len(measured) > 1 else ""
            where = "".join(f" {w}" for w in (at, processor and f"on {processor}") if w)
            answered.setdefault(word, []).append(_measured(part, where))
    several = f"; {_AHEAD}"  # is said once
    sentences = [f"{w} {'; '.join(x).replace(several, ',')}." for w, x in answered.items()]
    printed = f"{abs(claimed):.3g}" in source["said"] and not limit
    unit = "" if printed else f"; that is {_in_unit(claimed, limit, source['metric'])}"
    of = label.removesuffix(
        f", {statement.terms_of(source['metric']).noun}"
    )  # which it says itself
    return " ".join([f"{says} ({of}{unit}).", *sentences])


def _about(source: Row, rows: pd.DataFrame, r: Results) -> tuple[pd.DataFrame, Any]:
    """(rows, an object with all `verdicts`), both of the thread counts that a claim is about."""
    each = rows[~is_joint(rows)]
    if pd.isna(source["from_threads"]) or each.empty:
        return rows, r
    low, high = source["from_threads"], source["to_threads"]
    every = r.verdicts[~is_joint(r.verdicts)]
    there = every[every["threads"].between(low, high).fillna(False)]
    return each[each["threads"].between(low, high)], SimpleNamespace(verdicts=there)


def _in_unit(claimed: float, limit: str, metric: str, times: bool | None = None) -> str:
    """A claimed change in the unit of ours: `-8.3 %`, `at most -9.0 %`."""
    if not claimed:
        return "no change"
    size = amounts.spread(claimed, claimed, metric, times=times)
    return f"at most {size}" if limit else size


def _at(part: Sequence[Row]) -> str:
    """`at 1, 4, 16 threads`"""
    counts = ", ".join(str(row["threads"]) for row in part)
    return threads_label(part[0]["threads"]) if len(part) == 1 else f"at {counts} threads"


def _measured(part: Sequence[Row], where: str) -> str:
    """Of several rows the range of their changes; of one row the range of a repeat, if that is known,
    else its change and interval."""
    first, *others = sorted(part, key=lambda row: row["change_pct"])
    if others:
        change = (
            f"here {amounts.spread(first['change_pct'], others[-1]['change_pct'], first['metric'])}"
        )
    elif pd.notna(first["next_lo_pct"]):
        ahead = first["next_lo_pct"], first["next_hi_pct"], first["metric"]
        change = f"{_AHEAD} {amounts.interval(*ahead)}"
    else:
        change = f"here {amounts.around(words.change(first), words.interval_text(first))}"
    return f"{change}{where}"


def _agrees(row: Row, theirs: agree.Range) -> str:
    """Whether a row agrees with a claimed range, as the first words of a sentence."""
    ours = row["lo_pct"], row["hi_pct"]
    if pd.notna(row["next_lo_pct"]):
        ours = row["next_lo_pct"], row["next_hi_pct"]
    so_far = " so far" * (row["verdict"] == PROVISIONAL)
    return f"{agree.agreement(theirs, ours).capitalize()}{so_far}:"


def claims_table(verdicts: pd.DataFrame, source: str) -> Shown:
    """The claims of one source as a table for reading, with the reasons below it."""
    kept = verdicts[verdicts["study"] == source]
    rows = [
        {
            "compared": r["label"],
            "they say": r["said"],
            **_sizes(r),
            "verdict": piece("badge", r["verdict"]),
            "by their own numbers": of_itself(r),
            "by chance": answers.often(r["chance"]) if r["chance"] < 1 else "–",
            "to settle it": r["settle"] if r["settle"][:1].isdigit() else "–",
        }
        for r in kept.to_dict("records")
    ]
    scatter = "; ".join(dict.fromkeys("; ".join(kept["scatter_from"]).split("; ")))
    several = [f" for {n} rows together" for n in sorted(set(kept["together"])) if n > 1]
    level = f"Intervals: 95 %{' and'.join(several)}." if kept["lo_pct"].notna().any() else ""
    caption = f"{TITLES[source]}. Scatter from: {scatter}. {level}"
    right = ("that is", "interval")
    name, frame = f"claims-{source}", pd.DataFrame(rows)
    if not kept["chance"].lt(1).any():
        frame = frame.drop(columns="by chance", errors="ignore")
    else:
        caption += " By chance: how often two runs of the same, unchanged server differ by as much."
    table = report.html_table(frame, caption, name=name, numbers=right, raw=("verdict",))
    _, order = trend(published_facts(), source)  # of arms as a whole, beside their pairs
    notes = [f"{', '.join(SOURCES[source]['ordered'])}, in this order: {order}."] if order else []
    return Shown(joined((table.markup, piece("notes", [*notes, *reasons(kept)]))), table.text)


def _sizes(row: Row) -> dict[str, str]:
    """The change that a source claims, the change between its numbers, and the interval of that, all
    three of the metric's own value and in one unit."""
    claimed, change, ends = row["claimed_pct"], row["change_pct"], (row["lo_pct"], row["hi_pct"])
    metric, noun = row["metric"], statement.terms_of(row["metric"]).noun
    noun *= noun != row["label"]  # which the table names beside it
    times = amounts.in_times(claimed, change, *ends, metric=metric)
    size = amounts.spread(change, change, metric, times=times)
    sizes = {
        "that is": _in_unit(claimed, row["limit"], metric, times),
        "change": f"{size} ({noun})" if times and noun else f"{size} {noun}".strip(),
        "interval": amounts.spread(*ends, metric, times=times),
    }
    known = map(pd.notna, (claimed, change, ends[0]))
    return {name: sizes[name] if there else "–" for name, there in zip(sizes, known, strict=True)}


def of_itself(row: Row) -> str:
    """Whether the claim of a source agrees with its own numbers (`agree`); a dash if it claims no
    number."""
    if pd.isna(row["claimed_pct"]):
        return "–"
    if pd.isna(row["lo_pct"]):
        return agree.NOT_COMPARABLE  # why stands below the table
    theirs = agree.claimed(row["claimed_pct"], most=row["limit"] == "most")
    return agree.agreement(theirs, (row["lo_pct"], row["hi_pct"]))


def reasons(kept: pd.DataFrame) -> list[str]:
    """Why each verdict is what it is, what would decide it, and what to mind: sentences."""
    lines = []
    for why, group in kept.groupby("why", sort=False):
        names = [*group["label"]] if len(group) < len(kept) or len(kept) == 1 else ["all"]
        listed = ", ".join(names) if len(names) < 4 else f"{names[0]} … {names[-1]}"
        other = dict.fromkeys(s for s in group["settle"] if s and not s[0].isdigit())
        settle = f" To settle it: {'; '.join(other)}." if other else ""
        lines.append(f"{listed}: {why}.{settle}")
    twice: list[Any] = kept[kept["restarted"] != ""].to_dict("records")
    for r in twice:
        again = f"{answers.restarted(from_frame(r))}, if the server was restarted between the runs"
        lines.append(f"{r['label']}: {again}.")
    weakest = itertools.chain(*kept[kept["verdict"].ne(CANNOT_TELL)]["warnings"])
    hidden = Why.UNLESS_STARTS_SCATTER, Why.RESTARTS_UNKNOWN, Why.PREDICTED  # the caption has them
    return lines + [f"{upper(w)}." for w in without(dict.fromkeys(weakest), *hidden)]


# --- beside our own ---------------------------------------------------------------------------------


def published_by_threads(
    facts: pd.DataFrame,
    claim: str = "io-bound",
    label: str = "published",
    threads: Collection[int] | None = None,
) -> pd.DataFrame:
    """A published table of tablespace encryption by thread count, to draw over our own: columns threads,
    change_pct, label. threads: only these thread counts, those that were measured."""
    logs = by_threads(facts, "tablespace-encryption", claim) if len(facts) else pd.Series()
    at = logs.index.astype(int) if threads is None else [t for t in logs.index if t in set(threads)]
    rows = [(t, 100 * math.expm1(logs[t]), label) for t in at]
    return pd.DataFrame(rows, columns=["threads", "change_pct", "label"])
