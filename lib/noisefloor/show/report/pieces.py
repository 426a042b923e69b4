"""What a notebook shows besides figures: the verdict box, tables, provenance; and the verdict table
that lies beside its page, as CSV and JSON."""

import json
import math
import os
import platform
import re
from importlib import metadata
from pathlib import Path

import pandas as pd

from noisefloor import paths
from noisefloor.data import results, tidy
from noisefloor.data.archive import in_order
from noisefloor.schedule import CONTENDED, NOT_JUDGED
from noisefloor.show.markup import TOLD, Shown, cell, csv_link, joined, known, piece, plain, safe
from noisefloor.show.plots.canvas import away, mirror
from noisefloor.show.report import words
from noisefloor.show.rows import as_list, contended, is_control, metric_label
from noisefloor.text import amounts, sheet

OUT = "NOISEFLOOR_REPORT_OUT"  # where the notebook's own tables go; set for its kernel
ALSO = 6  # comparisons that the box lists as single words, for each that it leads with
WHOLE = 60  # characters of a name that stays on one line
LONG = 40  # rows of a table above which it scrolls in a box of its own
MOST = 100  # rows of a table that a page shows


def badge(verdict):
    """The verdict as a coloured word with its sign; never the colour alone."""
    return piece("badge", verdict)


# -- one comparison as a drawing -------------------------------------------------------------------


def _numbers(row) -> list[float]:
    """Overhead, both ends of its interval and noise floor; NaN for what is not known."""
    columns = ("overhead_pct", "lo_pct", "hi_pct", "noise_floor_pct")
    return [float(row[c]) if known(row.get(c)) else math.nan for c in columns]


def drawing(row, margin_pct, x) -> dict:
    """A comparison in words, and the places of what is drawn of it: `x` gives the place of an
    overhead on the scale."""
    middle, lo, hi, _ = _numbers(row)
    margin_pct = row.get("margin_pct") or margin_pct  # a duet's is narrower
    return {
        "verdict": row["verdict"],
        "words": f"Overhead {amounts.told(middle, lo, hi, row['metric'])}",
        "left": x(-margin_pct),
        "wide": round(x(margin_pct) - x(-margin_pct), 1),
        "bar": None if math.isnan(lo) or math.isnan(hi) else (x(lo), x(hi)),
        "middle": x(middle),
    }


def ruler(row, margin_pct=words.MARGIN):
    """A small inline SVG of one comparison: interval, margin band and noise floor on a ruler, with
    factors on a log scale where an overhead is told as a factor."""
    middle, lo, hi, floor = _numbers(row)
    margin_pct = row.get("margin_pct") or margin_pct
    if math.isnan(middle):
        return ""
    judged = row["verdict"] != NOT_JUDGED
    floor = floor if judged else math.nan
    ends = [end for end in map(away, (lo, hi, middle, floor)) if math.isfinite(end)]
    limit = max(2 * margin_pct, 1.15 * max(ends, default=0))
    limit = min(limit, max(60, 4 * margin_pct, 3 * away(middle)))
    log = amounts.large(limit)
    if log:
        base = next((b for b in (2, 5, 10, 100) if 1 + limit / 100 <= b**3.5), 1000)
        ticks = {100 * (base**i - 1): f"{base**i:.4g}×" for i in range(-3, 4)}
    else:
        step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50) if limit / s <= 3.5)
        ticks = {step * i: amounts.percent(step * i, int(step < 1)) for i in range(-4, 5)}

    def x(value):
        share = value / limit
        if log:
            share = math.log1p(max(value, -99.99) / 100) / math.log1p(limit / 100)
        return round(300 + 280 * max(-1.0, min(1.0, share)), 1)

    drawn = drawing(row, margin_pct, x) | {
        "judged": judged,
        "margin": f"{margin_pct:.2g}",
        "ticks": [(x(t), name) for t, name in ticks.items() if abs(x(t) - 300) < 264],
    }
    if floor < limit:
        low, high = drawn["floor"] = x(mirror(floor)), x(floor)
        if lo > mirror(floor) and low > 120:
            drawn["named"] = low - 5, True
        elif hi < floor and high < 480:
            drawn["named"] = high + 5, False
    return piece("ruler", drawn)


# -- the box ---------------------------------------------------------------------------------------


def verdict_box(verdicts, campaign=None, *, primary=None, answer=""):
    """The box at the top of a page, moved there wherever the notebook shows it.

    `verdicts`: verdict table; `campaign`: the facts of campaign.json; `primary`: see `primary`, or
    a list of rows, each told by its own word and sentence; `answer`: sentences of the page's own,
    made from its tables, below the verdicts."""
    rows, campaign = words.leading(verdicts, primary), campaign or {}
    margin, several = words.margin_of(verdicts, campaign), len(rows) > 1
    above = {why for row in rows for why in words.reasons(row, margin)}  # they are in the headlines
    notes: dict[str, list[str]] = {}
    for row in rows:
        for note in as_list(row.get("warnings")):
            notes.setdefault(note, []).append(words.cost(row["metric"]))
    told = [
        piece(
            "told",
            dict(row),
            several,
            row.get("margin_pct") or margin,
            ruler(row, margin),
            others,
            words,
            amounts,
        )
        for row, others in ((row, _others(row, verdicts, several)) for row in rows)
    ]
    told += [piece("answer", answer)] if answer else []
    doubts = [
        note if len(of) == len(rows) else f"{of[0]}: {note}"
        for note, of in notes.items()
        if note not in above
    ]
    said = "\n".join(f"{r['verdict']}: {words.sentence(r, margin)}" for r in rows)
    return Shown(piece("box", "nf-said", joined(told), words.where(campaign), doubts), said)


def _others(row, verdicts, several) -> list[dict]:
    """The first rows of the same question, metric and workload, those of its own arm before others;
    where the box leads with `several` rows, no others."""
    alike = ["question", "metric", "workload", *(["arm"] if several else [])]
    found = verdicts[~is_control(verdicts) & (verdicts.index != row.name)]
    for column in filter(found.columns.__contains__, alike):
        found = found[found[column].astype(str).eq(str(row[column]))]
    turn = found["arm"].ne(row["arm"]).sort_values(kind="stable").index
    return found.loc[turn].head(ALSO).to_dict("records")


# -- tables ----------------------------------------------------------------------------------------


def table(frame, caption="", *, name="table", numbers=(), raw=()):
    """Any frame as a plain HTML table with its caption and its data as a CSV link.

    `numbers`: columns set flush right (numeric columns are anyway); `raw`: columns that hold HTML
    already. The table scrolls inside its own box on a narrow screen, and when it is `LONG`; the rows
    after MOST are in its data alone."""
    types, sizes, columns = pd.api.types, TOLD["sizes"], []
    link = csv_link(frame.drop(columns=[*raw]), name) if len(frame) else ""
    if len(frame) > MOST:
        caption = f"{caption} The first {MOST} of {len(frame):,} rows; its data hold all.".strip()
        frame = frame.head(MOST)
    for c in frame:
        number = types.is_numeric_dtype(frame[c]) and not types.is_bool_dtype(frame[c])
        told = [safe(v) if c in raw else cell(v) for v in frame[c]]
        if c in sizes:
            told = [amounts.overhead(v) if known(v) else "–" for v in frame[c]]
        kind = "nf-r" if number or c in numbers else _kind([plain(v) for v in told])
        head = re.sub("_pct$", ", %", sizes.get(str(c), str(c))).replace("_", " ")
        columns.append((c if "=" in str(c) else head, kind, told))  # an arm, sync_binlog=0
    look = " nf-long" if len(frame) > LONG else ""
    return Shown(piece("table", caption, columns, len(frame), link, look), frame.to_string())


def _kind(texts) -> str:
    """How the cells of a column are set: names in one piece, or long words wide."""
    widest = max(map(len, texts), default=0)
    if widest <= WHOLE and not any(" " in t for t in texts):
        return "nf-n"
    return "nf-w" if widest > 30 else ""


def verdict_table(verdicts, caption="Every comparison, in words and numbers.", name="verdicts"):
    """The verdict table for reading: a group a question, workload and metric, one row a comparison,
    the verdict as a word, all numbers, and what a row that cannot tell knows."""
    works = "workload" in verdicts and verdicts["workload"].astype(str).nunique() > 1
    levels = {amounts.confidence(v) for v in verdicts.get("level", ())} - {"", amounts.USUAL}
    margin = words.margin_of(verdicts)
    if levels:
        caption = f"{caption.strip().removesuffix('.')}. {TOLD['says']['level']}"
    ordered = in_order(verdicts) if works else verdicts
    if "question" in ordered:
        turn = {q: n for n, q in enumerate(verdicts["question"].astype(str).unique())}
        by = ordered["question"].astype(str).map(turn)
        ordered = ordered.iloc[by.argsort(kind="stable").to_numpy()]
    names = [ordered[c].astype(str) for c in ("question", "workload") if c in ordered]
    names = [n for n in names if n.nunique() > 1]
    groups = []
    for (metric, *named), group in ordered.groupby(["metric", *names], sort=False):
        heading = ": ".join(filter(None, (", ".join(named), metric_label(metric))))
        rows = zip(group.to_dict("records"), is_control(group), strict=True)
        groups.append((heading, [(row, again, *_known(row, margin)) for row, again in rows]))
    arms, link = verdicts["arm"].nunique() > 1, csv_link(flat(ordered), name)
    shown = caption, groups, arms, bool(levels), link, words, amounts
    return Shown(piece("verdicts", *shown), ordered.to_string())


def _known(row, margin) -> tuple[str, str]:
    """Why a row has no word, in short, and all that is known beside its numbers."""
    why = words.reasons(row, margin)
    at_once = [CONTENDED] if contended(row) else []
    at_once += ["both servers were loaded at once"] if row["verdict"] == NOT_JUDGED else []
    said = [*at_once, *why, words.limits(row), words.settle(row, margin), words.same(row)]
    return "; ".join(w.partition(":")[0] for w in why), words.upper("; ".join(filter(None, said)))


# -- provenance ------------------------------------------------------------------------------------


def provenance(campaign):
    """Where a page's numbers come from: campaign, commit, parameters, versions, machine, files.

    `campaign`: the facts of campaign.json, or opened campaigns, of which what differs is shown for
    each question."""
    parts, shown = getattr(campaign, "parts", ()), TOLD["lists"]["facts"]
    facts = dict(parts[0].meta if parts else campaign)
    for k in shown if len(parts) > 1 else ():
        each = {p.study.key: p.meta.get(k) for p in parts}
        if any(v != facts.get(k) for v in each.values()):
            facts[k] = each
    names = ("noisefloor", "numpy", "pandas", "scipy", "statsmodels", "matplotlib", "nbconvert")
    software = {"python": platform.python_version()} | {n: metadata.version(n) for n in names}
    facts = {k: facts[k] for k in shown if k in facts} | {"software": software}
    facts = {k: v for k, v in facts.items() if v not in (None, "", [], {})}
    return Shown(piece("facts", facts), "\n".join(f"{k}: {v}" for k, v in facts.items()))


# -- beside the page -------------------------------------------------------------------------------


def flat(verdicts) -> pd.DataFrame:
    """The verdict table with lists joined, for CSV."""

    def told(value):
        return "; ".join(map(str, value)) if isinstance(value, (list, tuple)) else value

    return verdicts.assign(**verdicts.loc[:, verdicts.dtypes.eq(object)].map(told))


def records(verdicts) -> list:
    """The verdict table as JSON rows: NaN, NA and infinity become null."""
    found = verdicts.astype(object).replace([math.inf, -math.inf], math.nan)
    return found.where(found.notna(), None).to_dict("records")


def like(facts, main, *columns) -> pd.DataFrame:
    """The comparisons in a page's stored `facts` that have the values of `main` in these columns."""
    rows = pd.DataFrame(facts["comparisons"]).astype({"threads": "Int64"})
    for column in columns:
        if column in rows:
            rows = rows[rows[column].astype(str).eq(str(main.get(column)))]
    return rows


def raw_links(facts, out) -> list:
    """(href, name) of the raw files behind a page in folder `out`, from its stored `facts`; none
    where they do not lie in one project."""
    root, links = paths.root(), []
    if not Path(out).is_relative_to(root):
        return []
    folders = [root / shown for shown in facts.get("raw", {}) if (root / shown).is_dir()]
    for folder in folders:
        # a web server shows no folder without a README
        files = [f for f in ("campaign.json", "calibration.json") if (folder / f).exists()]
        href = os.path.relpath(folder / (files or [""])[0], out) + ("" if files else "/")
        links.append((href, folder.name))
    return links


def save(
    verdicts,
    study,
    campaign=None,
    *,
    primary=None,
    title="",
    headline="",
    also=(),
    campaigns=None,
    raw=(),
) -> None:
    """Store the verdict table as CSV and JSON: beside the page when `render` runs the notebook,
    else under ``data/processed/`` so that exploring never changes a page. `campaign`: the facts of
    campaign.json; `primary`: the row or the list of rows that the page leads with; `headline`: the
    page's own sentence, where it is about more; `also`: rows that the findings tell besides.

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
    main = {row["workload"] for row in rows}
    leads = [records(row.to_frame().T)[0] for row in rows]
    headlines = [headline] if headline else [words.headline(row) for row in rows]
    facts = {
        "study": study,
        "title": title or campaign.get("title") or study.replace("-", " ").capitalize(),
        "campaign": name,
        "profile": profile.get("name") if isinstance(profile, dict) else profile,
        "date": words.when(campaign) or None,
        "machine": words.machine(campaign) or None,
        "engine": words.engine(campaign) or None,
        "margin_pct": words.margin_of(verdicts, campaign),
        "campaigns": campaigns,
        "raw": {paths.shown(f): tidy.digest(f) for f in folders if f.exists()},
        "verdict": rows[0]["verdict"] if rows else None,
        "headline": " ".join(headlines) or None,
        "headlines": headlines,
        "also": [
            words.headline(row)
            if row["workload"] in main
            else f"{words.upper(row['workload'])}: {words.headline(row)}"
            for row in also
        ],
        "primary": leads[0] if leads else None,
        "leads": leads,
        "comparisons": records(verdicts),
    }
    (folder / f"{study}.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    sheet.cells(flat(verdicts)).to_csv(folder / f"{study}.csv", index=False, lineterminator="\n")
