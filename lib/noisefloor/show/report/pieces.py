"""What a notebook shows besides figures: the verdict box, tables, provenance; and the verdict table
beside its page, as CSV and JSON."""

import json
import math
import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from noisefloor import paths
from noisefloor.data import results, tidy
from noisefloor.data.archive import in_order
from noisefloor.show.markup import (
    TOLD,
    Shown,
    cell,
    csv_link,
    has_value,
    joined,
    piece,
    safe,
    text_of_html,
)
from noisefloor.show.plots.canvas import mirror
from noisefloor.show.report import statement, words
from noisefloor.show.rows import ENDS, Row, arm_label, differing, is_control, joint, metric_label
from noisefloor.text import amounts, sheet, upper
from noisefloor.text.reasons import Why, without

OUT = "NOISEFLOOR_REPORT_OUT"  # where the notebook's own tables go; set for its kernel
# reasons that stand in headlines, and not below them
_IN_HEADLINES = (Why.SO_FAR, Why.RANGE, Why.COUNTS_DIFFER, Why.SOME_SATURATED)
_WHOLE = 30  # characters of a name that stays on one line
_LONG = 40  # rows of a table above which it scrolls in a box of its own
_MOST = 100  # rows of a table that a page shows


# -- one comparison as a drawing -------------------------------------------------------------------


def drawing(row: Row, x: Callable[[float], float]) -> dict[str, Any]:
    """The fields of a comparison's small drawing: verdict, words, places of the margin (left, wide),
    interval (bar; None without one) and change (middle). `x`: change in percent -> its place."""
    middle, lo, hi = (float(row[c]) if has_value(row.get(c)) else math.nan for c in ENDS)
    ends = [x(mirror(row["margin_pct"])), x(row["margin_pct"])]
    return {
        "verdict": row["verdict"],
        "words": f"{words.word(row)}: {words.effect(row)}",
        "left": ends[0],
        "wide": round(ends[1] - ends[0], 1),
        "bar": None if math.isnan(lo) or math.isnan(hi) else (x(lo), x(hi)),
        "middle": x(middle),
    }


# -- the box ---------------------------------------------------------------------------------------


def verdict_box(
    verdicts: pd.DataFrame,
    campaign: Mapping[str, Any] | None = None,
    *,
    primary: Any = None,
    answer: str = "",
    r: results.Results | None = None,
) -> Shown:
    """The box at the top of a page, moved there wherever the notebook shows it: a sentence for each row
    that leads, the first with its worst and its best case, `answer` (sentences of the page's own, made
    from its tables), what to do, how often and where it was measured, and doubts.

    `verdicts`: verdict table; `campaign`: the facts of campaign.json; `primary`: see `primary`, or
    a list of rows; `r`: the results that the rows are from, without which there is no advice."""
    rows, campaign = words.leading(verdicts, primary), campaign or {}
    above = {why for row in rows for why in words.doubts(row)}  # they are in the headlines
    notes: dict[str, list[str]] = {}
    for row in rows:
        for note in without(row.get("warnings", ()), *_IN_HEADLINES):
            notes.setdefault(note, []).append(words.cost(row["metric"]))
    verdict = (row["verdict"] for row in rows)
    change = (words.change_in_units(x, r) if n == 0 else "" for n, x in enumerate(rows))
    leads = [*zip(verdict, _brief(rows, r), change, strict=True)]
    do, measured = "", words.where(campaign)
    if rows:  # there is none if the first workload was saturated
        measured = words.measured(rows[0], campaign, r)
    if rows and r:
        do = statement.advice(rows[0], r)
    doubts = [
        note if len(of) == len(rows) else f"{of[0]}: {note}"
        for note, of in notes.items()
        if note not in above
    ]
    text = "\n".join(f"{row['verdict']}: {words.sentence(row)}" for row in rows)
    inner = piece("answer", leads, [answer] if answer else [], do, measured)
    return Shown(piece("box", inner, doubts), text)


def _brief(rows: Sequence[Row], r: results.Results | None) -> list[str]:
    """Short sentences, one a row: an arm is named once; how often it was measured is left out."""
    before = zip([None, *rows], rows, strict=False)
    return [statement.headline_of(row, r, brief=True, after=last) for last, row in before]


# -- tables ----------------------------------------------------------------------------------------


def html_table(
    frame: pd.DataFrame,
    caption: str = "",
    *,
    name: str = "table",
    numbers: Sequence[str] = (),
    raw: Sequence[str] = (),
) -> Shown:
    """Any frame as a plain HTML table with its caption and its data as a CSV link.

    `numbers`: columns set flush right (numeric columns are anyway); `raw`: columns that hold HTML
    already, and are not in the data. The table scrolls inside its own box on a narrow screen, and when
    it is long; of very many rows only the first are shown, and the data have all."""
    types, sizes, columns = pd.api.types, TOLD["sizes"], []
    link = csv_link(frame.drop(columns=[*raw]), name) if len(frame) else ""
    if len(frame) > _MOST:
        caption = f"{caption} The first {_MOST} of {len(frame):,} rows; its data hold all.".strip()
        frame = frame.head(_MOST)
    for column, values in frame.items():
        values = values.map(arm_label, na_action="ignore") if column == "arm" else values
        number = types.is_numeric_dtype(values) and not types.is_bool_dtype(values)
        cells = [safe(v) if column in raw else cell(v) for v in values]
        if column in sizes:
            cells = [amounts.change(v) if has_value(v) else "–" for v in values]
        kind = (
            "nf-r" if number or column in numbers else _kind([text_of_html(text) for text in cells])
        )
        head = re.sub("_pct$", ", %", sizes.get(str(column), str(column))).replace("_", " ")
        shown = column if "=" in str(column) else head  # an arm, sync_binlog=0
        columns.append((shown, kind, cells))
    look = " nf-long" if len(frame) > _LONG else ""
    return Shown(piece("table", caption, columns, len(frame), link, look), frame.to_string())


def _kind(texts: Sequence[str]) -> str:
    """The CSS class of a column: `nf-n` for short cells without spaces, `nf-w` for long text."""
    widest = max(map(len, texts), default=0)
    if widest <= _WHOLE and not any(" " in t for t in texts):
        return "nf-n"
    return "nf-w" if widest > 30 else ""


def _sittings(row: Row) -> str:
    """`2 of 3` boots; the number alone if none is missing; `–` if sittings are not known."""
    if not has_value(row["sittings"]):
        return "–"
    n, asked = int(row["sittings"]), int(row["asked"])
    return f"{n} of {asked}" if n < asked else str(n)


def _next(row: Row) -> str:
    """The range in which the next campaign is expected, in words; `–` if it is not known."""
    if not has_value(row.get("next_lo_pct")):
        return "–"
    return words.interval_text({**row, "lo_pct": row["next_lo_pct"], "hi_pct": row["next_hi_pct"]})


# head, class, what `_several` must name for it ("": nothing), text of a cell
_COLUMNS: tuple[tuple[str, str, str, Callable[[Row], str]], ...] = (
    ("Arm", "", "arm", lambda row: arm_label(row["arm"])),
    ("Processor", "", "processor", lambda row: row["processor"]),
    ("Threads", "nf-r", "threads", lambda row: "all" if joint(row) else cell(row["threads"])),
    ("Verdict", "", "", lambda row: piece("badge", row["verdict"])),
    ("Change", "nf-r", "", words.change),
    ("Interval", "nf-i", "", words.interval_text),
    ("Boots", "nf-r", "sittings", _sittings),
    ("Next", "nf-i", "sittings", _next),
    ("n", "nf-r", "n", lambda row: cell(row["n_arm"])),
)


def verdict_table(
    verdicts: pd.DataFrame,
    caption: str = "Every comparison, in words and numbers.",
    name: str = "verdicts",
) -> Shown:
    """The verdict table for reading: a group a question, workload and metric, one row a comparison
    and processor: the verdict as a word, all numbers, and what is known and would decide it."""
    ordered, several = _in_groups(verdicts), _several(verdicts)
    columns = [(head, kind, show) for head, kind, of, show in _COLUMNS if of in ("", *several)]
    groups = []
    for heading, group in ordered:
        rows = []
        for row, again in zip(group.to_dict("records"), is_control(group), strict=True):
            cells = [(kind, show(row)) for _, kind, show in columns]
            rows.append((again, cells, _known(row)))
        groups.append((heading, rows))
    heads = [(head, kind) for head, kind, _ in columns]
    if "sittings" in several:
        caption = f"{caption.strip().removesuffix('.')}. {TOLD['says']['verdicts']}"
    whole = pd.concat([group for _, group in ordered]) if ordered else verdicts
    shown = caption, heads, groups, "arm" in several, csv_link(flat(whole), name)
    return Shown(piece("verdicts", *shown), whole.to_string())


def _several(verdicts: pd.DataFrame) -> list[str]:
    """The columns that tell rows apart, and `sittings` if these are known, else `n`."""
    names = differing(verdicts, "arm", "processor")
    names += ["threads"] if not verdicts["threads"].eq(0).fillna(False).all() else []
    there = "sittings" in verdicts and verdicts["sittings"].notna().any()
    return [*names, "sittings" if there else "n"]


def _in_groups(verdicts: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """[(heading, rows)]: a group a question, workload and metric, in the order of the questions, the
    same comparison on several processors below each other."""
    frame = in_order(verdicts) if differing(verdicts, "workload") else verdicts
    if "processor" in frame:
        short = words.short_names(list(frame["processor"].unique()))
        frame = frame.assign(processor=frame["processor"].map(short))
    names = differing(frame, "question", "workload")
    first = (
        {q: n for n, q in enumerate(verdicts["question"].unique())} if "question" in names else {}
    )
    groups = []
    for (metric, *named), group in frame.groupby(["metric", *names], sort=False, dropna=False):
        same = group.groupby(["arm", "joint", "threads"], sort=False, dropna=False).ngroup()
        heading = ": ".join(filter(None, (", ".join(map(str, named)), metric_label(str(metric)))))
        groups.append((heading, group.loc[same.sort_values(kind="stable").index]))
    if "question" in names:
        groups.sort(key=lambda part: first[part[1]["question"].iloc[0]])
    return groups


def _known(row: Row) -> str:
    """What is known of a row beside its numbers: range, doubts, limits, what would decide it."""
    ranged = f"range of {row['sittings']} boots" if row.get("ranged") else ""
    clauses = [ranged, *words.doubts(row), words.limits(row), words.settle_clause(row)]
    return upper("; ".join(filter(None, clauses)))


# -- pieces of several ------------------------------------------------------------------------------


def fold(title: str, *shown: Shown | None) -> Shown | None:
    """These pieces of a page behind a line that opens them; None without any."""
    inner = joined_shown(*shown)
    return Shown(piece("fold", title, inner.markup), f"{title}\n{inner.text}") if inner else None


def joined_shown(*shown: Shown | None) -> Shown | None:
    """Several pieces as one, for the last line of a cell; None where there is none."""
    there = [s for s in shown if s is not None]
    return (
        Shown(joined(s.markup for s in there), "\n".join(s.text for s in there)) if there else None
    )


def remark(sentence: str, code: str = "") -> Shown:
    """A sentence in place of a figure, and a command after it."""
    return Shown(piece("sentence", sentence, code))


# -- provenance ------------------------------------------------------------------------------------


def provenance(campaign: Any) -> Shown:
    """Where a page's numbers come from: campaign, commit, parameters, versions, machine, files.

    `campaign`: the facts of campaign.json, or opened campaigns; facts that differ between these are
    shown for each question."""
    parts, shown = getattr(campaign, "parts", ()), TOLD["lists"]["facts"]
    facts = dict(parts[0].meta if parts else campaign)
    for name in shown if len(parts) > 1 else ():
        each = {p.study.key: p.meta.get(name) for p in parts}
        if any(value != facts.get(name) for value in each.values()):
            facts[name] = each
    names = ("noisefloor", "numpy", "pandas", "scipy", "statsmodels", "matplotlib", "nbconvert")
    software = {"python": platform.python_version()} | {n: metadata.version(n) for n in names}
    facts = {k: facts[k] for k in shown if k in facts} | {"software": software}
    facts = {k: v for k, v in facts.items() if v not in (None, "", [], {}, 0)}
    return Shown(piece("facts", facts), "\n".join(f"{k}: {v}" for k, v in facts.items()))


# -- beside the page -------------------------------------------------------------------------------


def flat(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The verdict table with lists joined, for CSV."""

    def text(value: Any) -> Any:
        return "; ".join(map(str, value)) if isinstance(value, (list, tuple)) else value

    types: Any = verdicts.dtypes
    mixed: Any = verdicts.loc[:, types.eq(object)].map(text)
    return verdicts.assign(**mixed)


def records(verdicts: pd.DataFrame) -> list[dict[Any, Any]]:
    """The verdict table as JSON rows: NaN, NA and infinity become null."""
    cells = verdicts.astype(object).replace([math.inf, -math.inf], math.nan)
    return cells.where(cells.notna(), None).to_dict("records")


def save(
    verdicts: pd.DataFrame,
    study: str,
    campaign: Mapping[str, Any] | None = None,
    *,
    primary: Any = None,
    title: str = "",
    headline: str = "",
    advice: str = "",
    campaigns: Mapping[str, str] | None = None,
    raw: Iterable[Path] = (),
    r: results.Results | None = None,
) -> None:
    """Store the verdict table as CSV and JSON: beside the page when `render` runs the notebook,
    else under ``data/processed/`` so that exploring never changes a page. `campaign`: the facts of
    campaign.json; `primary`: the row or the list of rows at the top of the page; `headline`, `advice`:
    the page's own sentences, if it is about more than these rows (`advice`: only without rows or
    `r`); `r`: the results that the rows are from. A lead also has its other thread counts (`counts`, if
    there is no joint row) and the same comparison on other processors (`others`).

    What gives the same page again is stored as well: `campaigns`, the notebook's parameters that
    name campaigns (by default those that `campaign` is about), and a digest of each folder of raw
    files: the campaigns' and `raw`."""
    folder = Path(os.environ.get(OUT) or paths.processed())
    folder.mkdir(parents=True, exist_ok=True)
    campaign = campaign or {}
    profile = campaign.get("profile")
    name = campaign.get("campaign") or campaign.get("name")
    names = campaign.get("campaigns") or [name]
    if not campaigns:
        campaigns = {"campaign": ", ".join(names)} if set(names) <= {*paths.campaigns()} else {}
    folders = [*(f for v in campaigns.values() for f in results.named(v)), *raw]
    rows = words.leading(verdicts, primary) if len(verdicts) else []
    leads = [_lead(row, r) for row in rows]
    headlines = [headline] if headline else [statement.headline_of(row, r) for row in rows]
    facts = {
        "study": study,
        "title": title or campaign.get("title"),
        "campaign": name,
        "profile": profile.get("name") if isinstance(profile, dict) else profile,
        "date": words.when(campaign) or None,
        "machine": words.machine(campaign) or None,
        "engine": words.engine(campaign) or None,
        "measured": words.effort(rows[0], r) if rows else None,
        "advice": statement.advice(rows[0], r) if rows and r is not None else advice or None,
        "minutes": round(sum(map(words.minutes, r.parts[:1])), 1)
        if r is not None and rows
        else None,
        "campaigns": campaigns,
        "raw": {paths.relative(f): tidy.digest(f) for f in folders if f.exists()},
        "verdict": rows[0]["verdict"] if rows else None,
        "headline": " ".join(headlines) or None,
        "headlines": headlines,
        "brief": headlines if headline else _brief(rows, r),
        "primary": leads[0] if leads else None,
        "leads": leads,
        "comparisons": records(verdicts),
    }
    (folder / f"{study}.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    sheet.cells(flat(verdicts)).to_csv(folder / f"{study}.csv", index=False, lineterminator="\n")


def _lead(row: pd.Series, r: results.Results | None) -> dict[Any, Any]:
    """A row that a page leads with, as JSON, with its thread counts and on other processors."""
    here, *there = words.placed(row, r)
    beside = {
        "counts": here[1] if len(here[1]) > 1 else [],
        "others": [x for _, rows in there for x in rows],
    }
    columns = row.index.drop("does", errors="ignore")
    return records(row.to_frame().T)[0] | {
        name: records(pd.DataFrame(rows).reindex(columns=columns)) for name, rows in beside.items()
    }
