"""What a notebook shows besides figures: the verdict box, tables, provenance. HTML, no script."""

import html
import math
import platform
import re
from importlib import metadata

import pandas as pd

from .. import amounts, plots
from ..amounts import percent
from ..plots import GLYPH, contended, is_control, metric_label, threads_label
from ..schedule import CONTENDED, NOT_JUDGED
from .saved import flat
from .words import (
    MARGIN,
    as_list,
    campaign_facts,
    cost,
    engine,
    headline,
    joint,
    known,
    leading,
    limits,
    machine,
    measured,
    plan_text,
    reasons,
    same,
    sentence,
    settle,
    size,
    upper,
    when,
)

_FACTS = (
    *("campaign", "raw_files", "commit", "created", "finished", "ended_because", "profile"),
    *("parameters", "seed", "design", "margin_pct", "engine", "tools", "settings", "tables"),
    *("host", "skipped"),
)

WHOLE = 60  # characters of a name that stays on one line
KNOWN = "What is known, and what would settle it"
LONG = 40  # rows of a table above which it scrolls in a box of its own


def badge(verdict) -> str:
    """The verdict as a coloured word with its sign; never the colour alone."""
    kind = escaped(verdict).replace(" ", "-")
    glyph = GLYPH.get(verdict, "")
    return f'<span class="nf-badge nf-{kind}"><span aria-hidden="true">{glyph}</span> {escaped(verdict)}</span>'


def ruler(row, margin_pct=MARGIN) -> str:
    """A small inline SVG of one comparison: interval, margin band and noise floor on a ruler, with
    factors on a log scale where an overhead is told as a factor."""
    row = dict(row)
    lo, hi, mid, floor = (
        float(row[k]) if known(row.get(k)) else math.nan
        for k in ("lo_pct", "hi_pct", "overhead_pct", "noise_floor_pct")
    )
    if math.isnan(mid):
        return ""
    judged = row.get("verdict") != NOT_JUDGED
    floor = floor if judged else math.nan
    ends = [away for v in (lo, hi, mid, floor) if math.isfinite(away := _away(v))]
    limit = max([2 * margin_pct, 1.15 * max(ends, default=0)])
    limit = min(limit, max(60, 4 * margin_pct, 3 * _away(mid)))
    log = amounts.large(limit)
    if log:
        base = next((b for b in (2, 5, 10, 100) if 1 + limit / 100 <= b**3.5), 1000)
        at = [100 * (base**i - 1) for i in range(-3, 4)]
    else:
        step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50) if limit / s <= 3.5)
        at = [step * i for i in range(-4, 5)]

    def x(value):
        share = (
            math.log1p(max(value, -99.99) / 100) / math.log1p(limit / 100) if log else value / limit
        )
        return round(300 + 280 * max(-1.0, min(1.0, share)), 1)

    ticks = "".join(
        f'<path d="M{x(t)} 52v5" stroke="currentColor" stroke-opacity=".5"/><text x="{x(t)}" y="73" '
        f'text-anchor="middle" class="m">{f"{1 + t / 100:.4g}×" if log else percent(t, 1 if step < 1 else 0)}'
        "</text>"
        for t in at
        if abs(x(t) - 300) < 264
    )
    dashes = ""
    if floor < limit:
        below = -100 * floor / (100 + floor)
        low, high = x(below), x(floor)
        dashes = (
            f'<path d="M{low} 22V52M{high} 22V52" stroke="var(--nf-control,#8b949e)" '
            'stroke-width="1.5" stroke-dasharray="3 3"/>'
        )
        words = 'y="41" class="m w">noise floor</text>'
        if lo > below and low > 120:
            dashes += f'<text x="{low - 5}" text-anchor="end" {words}'
        elif hi < floor and high < 480:
            dashes += f'<text x="{high + 5}" {words}'
    mark = "var(--nf-mark,currentColor)"
    bar = ""
    if not (math.isnan(lo) or math.isnan(hi)):
        bar = (
            f'<line x1="{x(lo)}" x2="{x(hi)}" y1="37" y2="37" stroke="{mark}" stroke-width="9" '
            'stroke-opacity=".4" stroke-linecap="round"/>'
        )
    words = f"Overhead {amounts.told(mid, lo, hi)}, {f'margin ±{margin_pct:g} %' if judged else NOT_JUDGED}."
    left, wide = x(-margin_pct), round(x(margin_pct) - x(-margin_pct), 1)
    band = (
        f'<rect x="{left}" y="22" width="{wide}" height="30" '
        'fill="var(--nf-band,#22718f)" fill-opacity=".15"/>'
        f'<text x="300" y="14" text-anchor="middle" class="b">±{margin_pct:g} % counts as same</text>'
    )
    return (
        f'<svg class="nf-ruler" viewBox="0 0 600 80" role="img" aria-label="{escaped(words)}">'
        f'{band * judged}<text x="4" y="14" class="m">← faster</text>'
        '<text x="596" y="14" text-anchor="end" class="m">slower →</text>'
        f'<path d="M4 52H596M300 22V52" stroke="currentColor" stroke-opacity=".6"/>'
        f'{ticks}{dashes}{bar}<circle cx="{x(mid)}" cy="37" r="6.5" fill="{mark}"/></svg>'
    )


def _away(value):
    """The size of an overhead whichever its direction: -50 % is as far away as +100 %."""
    return 100 * (amounts.factor(value) - 1)


def verdict_box(verdicts, campaign=None, *, primary=None, margin_pct=None, also=6, answer=""):
    """The box at the top of a page, moved there wherever the notebook shows it.

    `verdicts`: verdict table; `campaign`: its folder, its name, or the dict of campaign.json;
    `primary`: see `primary`, or a list of rows, each told by its own word and sentence; `also`: how
    many other comparisons to list as single words for each; `answer`: sentences of the page's own,
    made from its tables, below the verdicts."""
    rows = leading(verdicts, primary)
    campaign = campaign_facts(campaign)
    margin = margin_pct or campaign.get("margin_pct") or verdicts.attrs.get("margin_pct") or MARGIN
    facts = [
        *_facts_of(rows),
        ("Date", when(campaign)),
        ("Machine", machine(campaign)),
        ("Server", engine(campaign)),
    ]
    facts = "".join(
        f"<div><dt>{escaped(name)}</dt><dd>{'<br>'.join(map(escaped, words.split(NEXT)))}</dd></div>"
        for name, words in facts
        if words
    )
    above = {why for row in rows for why in reasons(row, margin)}  # they are in the headlines
    notes = dict.fromkeys(w for row in rows for w in as_list(row.get("warnings")))
    notes = "".join(f"<li>{escaped(w)}</li>" for w in notes if w not in above)
    markup = (
        '<section class="nf-verdict nf-said" aria-label="Verdict">'
        + "".join(_told(row, verdicts, margin, also, len(rows) > 1) for row in rows)
        + (f'<p class="nf-answer">{plots.caption_html(answer)}</p>' if answer else "")
        + f"<dl>{facts}</dl>"
        + (f'<ul class="nf-notes">{notes}</ul>' if notes else "")
        + "</section>"
    )
    return plots.Shown(markup, "\n".join(f"{r['verdict']}: {sentence(r, margin)}" for r in rows))


NEXT = "\n"  # between the values of several rows


def _facts_of(rows) -> list:
    """(name, value) of what stands below the sentences; of several rows the values of each."""
    if len(rows) == 1:
        row = rows[0]
        facts = [
            ("Overhead", size(row)),
            (upper(_level(row)), amounts.interval(row["lo_pct"], row["hi_pct"], row["metric"])),
            ("Two one-sided tests at 5 %", same(row)),
        ]
    else:
        facts = []  # they are in the sentences
    for name, of in (
        ("Noise floor", lambda r: _floor(r.get("noise_floor_pct"))),
        ("Measured", measured),
        ("To settle it", lambda r: plan_text(r) or settle(r)),
    ):
        said = [(cost(r["metric"]).lower(), of(r)) for r in rows if r["verdict"] != NOT_JUDGED]
        alike = len({words for _, words in said}) == 1 and len(said) == len(rows)
        parts = [f"{words} ({what})" for what, words in said if words]
        facts.append((name, said[0][1] if alike else NEXT.join(parts)))
    return facts


def _told(row, verdicts, margin, also, named) -> str:
    """One row of the box: its word, its sentence, its ruler, and the others like it as words."""
    what = row["metric"]
    others = verdicts[~is_control(verdicts) & (verdicts.index != row.name)]
    others = others[others["metric"].eq(row["metric"])]
    if "workload" in others:
        others = others[others["workload"].astype(str).eq(str(row["workload"]))]
    if named:  # the box is long enough
        others = others[others["arm"].eq(row["arm"])]
    others = others.loc[others["arm"].ne(row["arm"]).sort_values(kind="stable").index]
    chips = "".join(
        f"<li>{escaped(_chip(o, row))} {badge(o['verdict'])} "
        f'<span class="nf-num">{escaped(limits(o) or amounts.overhead(o["overhead_pct"], what))}</span></li>'
        for _, o in others.head(also).iterrows()
    )
    label = f"<small>{escaped(cost(what))}</small> " if named else ""
    return (
        f'<div class="nf-{row["verdict"].replace(" ", "-")}">'
        f'<p class="nf-word">{label}{badge(row["verdict"])}</p>'
        f'<p class="nf-headline">{escaped(headline(row, margin))}</p>{ruler(row, margin)}'
        + (f'<ul class="nf-chips">{chips}</ul>' if chips else "")
        + "</div>"
    )


def _level(row) -> str:
    """`interval`, or with its level where that is not 95 %: `98.8 % interval`."""
    usual = amounts.confidence(row.get("level")) == amounts.USUAL
    return "interval" if usual else amounts.interval_name(row.get("level"))


def _chip(row, main) -> str:
    where = "all threads" if joint(dict(row)) else threads_label(row["threads"]).removeprefix("at ")
    return where if row["arm"] == main["arm"] else f"{row['arm']}, {where}".strip(", ")


def table(frame, caption="", *, name="table", numbers=(), index=False, raw=()):
    """Any frame as a plain HTML table with its caption and its data as a CSV link.

    `numbers`: columns set flush right (numeric columns are anyway); `raw`: columns that hold HTML
    already. The table scrolls inside its own box on a narrow screen, and when it is `LONG`."""
    frame = frame.reset_index() if index else frame
    types = pd.api.types
    right = {
        c
        for c in frame
        if c in numbers or (types.is_numeric_dtype(frame[c]) and not types.is_bool_dtype(frame[c]))
    }
    head = "".join(
        f'<th scope="col"{" class=nf-r" if c in right else ""}>{escaped(_head(str(c)))}</th>'
        for c in frame
    )
    shown = {
        c: [str(v) if c in raw else escaped(_size(v) if c in _SIZES else cell(v)) for v in frame[c]]
        for c in frame
    }
    plain = {c: [re.sub("<[^>]*>", "", v) for v in texts] for c, texts in shown.items()}
    kinds = {c: _kind(plain[c], c in right) for c in frame}
    rows = []
    for cells in zip(*shown.values(), strict=True):
        row = "".join(f"<td{kinds[c]}>{v}</td>" for c, v in zip(frame, cells, strict=True))
        rows.append(f"<tr>{row}</tr>")
    if not rows:
        rows = [f'<tr><td colspan="{len(frame.columns)}">none</td></tr>']
    data = frame.drop(columns=[c for c in raw if c in frame])
    kind = " nf-long" if len(rows) > LONG else ""
    link = plots.csv_link(data, name) if len(frame) else ""
    return plots.Shown(boxed(caption, head, rows, link, kind), frame.to_string())


# columns that hold an overhead in percent, and how they are headed
_SIZES = {"overhead_pct": "overhead", "lo_pct": "from", "hi_pct": "to", "off_pct": "off"}
_SIZES |= {f"{c}_pct": c for c in ("first", "second", "difference", "query_extra")}


def _head(column: str) -> str:
    if "=" in column:  # an arm, sync_binlog=0
        return column
    return re.sub("_pct$", ", %", _SIZES.get(column, column)).replace("_", " ")


def _size(value) -> str:
    return amounts.overhead(value) if known(value) else "–"


def _kind(texts, right) -> str:
    """How the cells of a column are set: flush right, names in one piece, or long words wide."""
    widest = max(map(len, texts), default=0)
    if right:
        return " class=nf-r"
    if widest <= WHOLE and not any(" " in t for t in texts):
        return " class=nf-n"
    return " class=nf-w" if widest > 30 else ""


def boxed(caption, head, rows, link, kind="") -> str:
    """A table in a box of its own that scrolls sideways, with caption and CSV link."""
    label = escaped(caption or "Table")
    return (
        f'<div class="nf-table{kind}"><div class="nf-scroll" role="region" aria-label="{label}" '
        'tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        f'<p class="nf-caption"><span>{plots.caption_html(caption)}</span> {link}</p></div>'
    )


_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?\+00:00")


def cell(value) -> str:
    """A value of a table as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return "; ".join(map(str, value))
    if not known(value) or value == "":
        return "–"
    if isinstance(value, float):
        text = f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:,.4g}"
        return text.replace("-", "−")
    return _STAMP.sub("\\1\u00a0\\2\u00a0UTC", str(value))


def verdict_table_html(
    verdicts, caption="Every comparison, in words and numbers.", name="verdicts"
):
    """The verdict table for reading: a group a workload and metric, one row a comparison, the
    verdict as a word, all numbers, and what a row that cannot tell knows."""
    arms = verdicts["arm"].nunique() > 1
    works = "workload" in verdicts and verdicts["workload"].astype(str).nunique() > 1
    levels = {amounts.confidence(v) for v in verdicts.get("level", ())} - {"", amounts.USUAL}
    margin = verdicts.attrs.get("margin_pct") or MARGIN
    heads = [
        *(["Arm"] if arms else []),
        *("Threads", "Verdict", "Overhead", "Interval"),
        *(["Level"] if levels else []),
        *(KNOWN, "Noise floor", "n"),
    ]
    if levels:
        caption = (
            f"{caption.strip().removesuffix('.')}. Level: how often such an interval holds the truth,"
            " above 95 % where several comparisons share the 5 %."
        )
    right = {"Threads", "Overhead", "Interval", "Level", "Noise floor", "n"}
    head = "".join(
        f'<th scope="col"{" class=nf-r" if h in right else ""}>{escaped(h)}</th>' for h in heads
    )
    rows = []
    if works:  # 40 ms before 170 ms
        verdicts = verdicts.sort_values(
            "workload",
            key=lambda c: c.astype(str).str.replace(r"\d+", lambda n: n[0].zfill(9), regex=True),
            kind="stable",
        )
    for (work, metric), group in verdicts.groupby(
        [verdicts["workload"].astype(str) if works else "metric", "metric"], sort=False
    ):
        label = f"{work}: {metric_label(metric)}" if works else metric_label(metric)
        rows.append(
            f'<tr class="nf-group"><th scope="rowgroup" colspan="{len(heads)}">{escaped(label)}</th></tr>'
        )
        for row in group.to_dict("records"):
            again = ' class="nf-again"' if row["arm"] == row["baseline"] + plots.AGAIN else ""
            threads = row["threads"]
            cells = {
                "Arm": escaped(row["arm"]),
                "Threads": "all" if joint(row) else "–" if pd.isna(threads) else int(threads),
                "Verdict": f"{badge(row['verdict'])}{_why(row, margin)}",
                "Overhead": escaped(amounts.overhead(row["overhead_pct"], metric)),
                "Interval": escaped(_ends(row)),
                "Level": escaped(amounts.confidence(row.get("level")) or "–"),
                "Noise floor": escaped(_floor(row["noise_floor_pct"])),
                "n": cell(row.get("n_arm")),
                KNOWN: f"<div class=nf-known>{escaped(_known(row, margin))}</div>",
            }
            inner = "".join(
                f"<td{' class=nf-r' if h in right else ''}>{cells[h]}</td>" for h in heads
            )
            rows.append(f"<tr{again}>{inner}</tr>")
    link = plots.csv_link(flat(verdicts), name)
    return plots.Shown(boxed(caption, head, rows, link, " nf-lines"), verdicts.to_string())


def _ends(row) -> str:
    """A row's interval beside its overhead, which says the direction."""
    _, _, ends = amounts.told(
        row["overhead_pct"], row["lo_pct"], row["hi_pct"], row["metric"]
    ).partition(" (")
    return ends.removesuffix(")")


def _floor(value) -> str:
    return amounts.size(value) if known(value) else "not known"


def _why(row, margin) -> str:
    """The reason beside a verdict, shortened; it is whole in the last column."""
    heads = "; ".join(why.partition(":")[0] for why in reasons(row, margin))
    return f" <small>({escaped(heads)})</small>" if heads else ""


def _known(row, margin) -> str:
    """What the last column of the verdict table says of a row."""
    tests = same(row) and f"two one-sided tests at 5 %: {same(row)}"
    at_once = [CONTENDED] if contended(row) else []
    at_once += ["both servers were loaded at once"] if row["verdict"] == NOT_JUDGED else []
    said = [*at_once, *reasons(row, margin), limits(row), settle(row), tests]
    return upper("; ".join(filter(None, said))) or "–"


def provenance(campaign, more=None):
    """Where a page's numbers come from: campaign, commit, parameters, versions, machine, files.

    `campaign`: its folder, its name, the dict of campaign.json, or opened campaigns, of which what
    differs is shown for each question; `more`: further facts."""
    parts = campaign.parts if hasattr(campaign, "study") else ()  # a path has parts, too
    known = campaign_facts(campaign if not parts else parts[0].meta)
    for k in _FACTS if len(parts) > 1 else ():
        each = {p.study.key: p.meta.get(k) for p in parts}
        known[k] = known.get(k) if all(v == known.get(k) for v in each.values()) else each
    facts = {k: known[k] for k in _FACTS if k in known} | {"software": _software()} | (more or {})
    facts = {k: v for k, v in facts.items() if v not in (None, "", [], {})}
    items = "".join(
        f"<div><dt>{escaped(str(key).replace('_', ' '))}</dt><dd>{_value(value)}</dd></div>"
        for key, value in facts.items()
    )
    markup = f'<dl class="nf-facts">{items}</dl>'
    return plots.Shown(markup, "\n".join(f"{k}: {v}" for k, v in facts.items()))


def _software() -> dict:
    names = ("noisefloor", "numpy", "pandas", "scipy", "statsmodels", "matplotlib", "nbconvert")
    return {"python": platform.python_version()} | {n: metadata.version(n) for n in names}


def _value(value) -> str:
    if isinstance(value, dict):
        inner = ", ".join(
            f"{escaped(str(k).replace('_', ' '))}\u202f=\u202f{_value(v)}"
            for k, v in value.items()
            if v not in (None, "", [], {})
        )
        return f"<span>{inner}</span>"
    if isinstance(value, (list, tuple)):
        return ", ".join(_value(v) for v in value)
    return f"<span>{escaped(cell(value))}</span>"


def escaped(text) -> str:
    """Text as HTML, quotes included."""
    return html.escape(str(text), quote=True)
