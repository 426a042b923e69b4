"""The index: every study with its verdict in words, in numbers and as a small drawing."""

import json
import math
import os
from pathlib import Path

import pandas as pd

from .. import amounts, paths, plots
from ..plots import contended, is_control, is_joint, metric_label
from ..schedule import NOT_JUDGED
from .pages import shell, write_whole
from .pieces import badge, boxed, escaped
from .saved import flat, raw_links
from .words import MARGIN, cost, known

LAST = ("published-claims", "calibration")  # what others measured, and whether to believe us
PARTS = ((".html", "page"), (".ipynb", "notebook"), (".csv", "verdicts (CSV)"), (".json", "JSON"))
TICKS = (-10, 0, 10, 100)  # of the small scale, in percent


def index(out=None, pages=None) -> Path:
    """``index.html`` in `out` (default ``reports/``) over `pages`, by default those in `out`: from
    the verdict tables beside them. Links are relative, so it works from a disk and from any web
    server. Its path."""
    out = Path(out or paths.reports()).resolve()
    out.mkdir(parents=True, exist_ok=True)
    pages = [p for p in out.glob("*.html") if p.stem != "index"] if pages is None else pages
    order = {name: n for n, name in enumerate(LAST, 1)}
    found = [(p, _facts(p)) for p in sorted(pages, key=lambda p: (order.get(p.stem, 0), p.stem))]
    body = _table(found, out) if found else "<p>No page has been rendered yet.</p>"
    body += f'<div class="nf-cards">{"".join(_card(p, f, out) for p, f in found)}</div>'
    failed = [(f, f.name.removesuffix(".failed.ipynb")) for f in sorted(out.glob("*.failed.ipynb"))]
    older = sorted(set(out.glob("published/*/*.html")) | set(out.glob("*/*.html")) - set(pages))
    older = [(p, p.parent.name) for p in older if p.stem != "index" and p.parent.name != "previous"]
    for title, links, words in (
        ("Failed", failed, ": the last rendering failed; the notebook shows where"),
        ("Published pages", older, ""),
    ):
        items = "".join(f"<li>{_link(p, name, out)}{words}</li>" for p, name in links)
        body += f"<h2>{title}</h2><ul>{items}</ul>" if items else ""
    page = shell(
        title="What does it really cost?",
        description="Verdicts on changes to MySQL-family servers, each with its interval, its "
        "noise floor and the raw evidence.",
        body=body,
        contents=[],
        links=[],
        kind="index",
    )
    write_whole(out / "index.html", page)
    return out / "index.html"


def _facts(page) -> dict:
    beside = page.with_suffix(".json")
    return json.loads(beside.read_text()) if beside.exists() else {}


def _link(file, words, out) -> str:
    return f'<a href="{escaped(os.path.relpath(file, out))}">{escaped(words)}</a>'


def _table(found, out) -> str:
    """The main comparisons of every study; a study without one has its sentence in its card."""
    heads = ("Study", "Of", "Verdict", "Overhead", "Interval", f"{_axis()}", "Noise floor", "Measured")  # fmt: skip
    head = "".join(f'<th scope="col">{h}</th>' for h in heads)
    lines = []
    for page, facts in found:
        margin = facts.get("margin_pct") or MARGIN
        for n, row in enumerate(_leads(facts) if page.stem not in LAST else ()):
            judged = row["verdict"] != NOT_JUDGED
            contention = "<br><small>under contention</small>" if contended(row) else ""
            cells = (
                "" if n else _link(page, facts["title"], out),
                escaped(cost(row["metric"])),
                badge(row["verdict"]),
                f"{escaped(amounts.overhead(row['overhead_pct'], row['metric']))}{contention}",
                escaped(amounts.interval(row["lo_pct"], row["hi_pct"], row["metric"])),
                _strip(row, margin),
                escaped(amounts.size(row["noise_floor_pct"])) if judged else "–",
                "" if n else escaped(str(facts.get("date") or "–")[:10]),
            )
            lines.append("<tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>")
    words = (
        "The main comparisons of every study. The drawings share one scale, logarithmic beyond the "
        "band in which a difference counts as same; right is slower."
    )
    return boxed(words, head, lines, "", " nf-lines nf-overview") if lines else ""


def _leads(facts) -> list:
    """The rows that a page leads with; one, in pages of an earlier version."""
    return facts.get("leads") or [row for row in [facts.get("primary")] if row]


def _x(value) -> float:
    """Place of an overhead on the small scale, 190 wide: linear near zero, logarithmic beyond, and
    -50 % as far from it as +100 %."""
    away = min(100 * (amounts.factor(value) - 1), 1000.0 if value > 0 else 70.0)
    return round(70 + math.copysign(19.2 * math.log1p(away / 2), value), 1)


def _axis() -> str:
    marks = "".join(
        f'<text x="{_x(t)}" y="11" text-anchor="middle">{amounts.percent(t, 0) if t else "0"}</text>'
        for t in TICKS
    )
    return f'<svg class="nf-strip" viewBox="0 0 200 14" role="img" aria-label="Scale of the drawings: overhead">{marks}</svg>'


def _strip(row, margin) -> str:
    """One comparison on the scale that all rows of the table share."""
    if not known(row["overhead_pct"]):
        return ""
    lo, hi = (row[k] if known(row[k]) else row["overhead_pct"] for k in ("lo_pct", "hi_pct"))
    words = (
        f"Overhead {amounts.told(row['overhead_pct'], row['lo_pct'], row['hi_pct'], row['metric'])}"
    )
    kind = row["verdict"].replace(" ", "-")
    lines = "".join(f'<path d="M{_x(t)} 0V22"/>' for t in TICKS if t)
    return (
        f'<svg class="nf-strip nf-{kind}" viewBox="0 0 200 22" role="img" aria-label="{escaped(words)}">'
        f'<g stroke="var(--nf-rule)">{lines}</g>'
        f'<rect x="{_x(-margin)}" width="{_x(margin) - _x(-margin):.1f}" height="22" fill="var(--nf-band)" fill-opacity=".15"/>'
        f'<path d="M{_x(0)} 0V22" stroke="currentColor" stroke-opacity=".6"/>'
        f'<path d="M{_x(lo)} 11H{_x(hi)}" stroke="var(--nf-mark)" stroke-width="7" stroke-opacity=".4" stroke-linecap="round"/>'
        f'<circle cx="{_x(row["overhead_pct"])}" cy="11" r="4.5" fill="var(--nf-mark)"/></svg>'
    )


def _card(page, facts, out) -> str:
    title = facts.get("title") or page.stem.replace("-", " ").capitalize()
    files = [(page.with_suffix(part), words) for part, words in PARTS]
    hrefs = [(os.path.relpath(f, out), words) for f, words in files if f.exists()]
    links = " · ".join(
        f'<a href="{escaped(href)}">{escaped(words)}<span class="nf-sr"> of {escaped(title)}</span></a>'
        for href, words in [*hrefs, *raw_links(facts, out)]
    )
    where = " · ".join(str(facts[k]) for k in ("engine", "machine", "date") if facts.get(k))
    said = facts.get("headlines") or [text for text in [facts.get("headline")] if text]
    words = ""
    for sentence, row in zip(said, _leads(facts) or [None] * len(said), strict=True):
        if row and page.stem not in LAST:
            words += f'<p class="nf-word">{badge(row["verdict"])}</p>'
        words += f"<p>{escaped(sentence)}</p>"
    drawing = "" if page.stem in LAST else _drawing(facts, title)  # they are about many comparisons
    return (
        f'<section class="nf-card"><h2 id="{escaped(page.stem)}">{_link(page, title, out)}</h2>'
        f"{words}{drawing}"
        f'<p class="nf-meta">{escaped(where)}</p><p class="nf-links">{links}</p></section>'
    )


def _drawing(facts, title) -> str:
    """The main metric of a study: against threads where there are several, else row by row."""
    rows = pd.DataFrame(facts.get("comparisons") or [])
    main = next(reversed(_leads(facts)), None)  # throughput, of more thread counts
    if rows.empty or not main:
        return ""
    rows["threads"] = rows["threads"].astype("Int64")
    margin = facts.get("margin_pct") or MARGIN
    rows = rows[rows["metric"].eq(main["metric"])]
    for column in ("workload", "question"):
        if column in rows:
            rows = rows[rows[column].astype(str).eq(str(main.get(column)))]
    if rows.loc[~is_joint(rows), "threads"].nunique() > 1 and rows["arm"].nunique() <= 4:
        drawn = plots.overhead(rows, main["metric"], margin_pct=margin, by="metric", narrow=True)
    else:
        rows = rows[~is_control(rows)].head(8)
        drawn = plots.dots(rows, by=("workload", "threads"), margin_pct=margin, narrow=True)
    runs = rows.loc[~is_joint(rows), "n_arm"]
    least, most = runs.min(), runs.max()
    many = f"{least if least == most else f'{least} to {most}'} {'run' if most == 1 else 'runs'} an arm"
    words = f"{metric_label(main['metric'])}. Each point: {many}."
    shown = {"alt": plots.alt(rows), "caption": words, "title": title}
    return plots.show(drawn, **shown, data=flat(rows), name=facts["study"]).markup
