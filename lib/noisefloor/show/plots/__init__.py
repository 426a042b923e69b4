"""Tables to figures: one theme, one colour an arm, everything a reader must know drawn in. Each
function takes frames in the shapes of the tidy and verdict tables and returns a Figure with
`narrow`, the same for a phone. `show` makes HTML of it (inline SVG, whose colours follow the page,
caption, alternative text, data), `write` a file."""
# ruff: noqa: F401

import hashlib
import io
import os
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from noisefloor.show.markup import Shown, csv_link, piece, safe
from noisefloor.show.plots import canvas
from noisefloor.show.plots.canvas import CSS, LAB, PARTS_CSS, Palette, spots, theme
from noisefloor.show.plots.series import (
    over_time,
    pairs_figure,
    quantiles_figure,
    runs_figure,
    timeline,
)
from noisefloor.show.plots.verdicts import (
    dots,
    history_figure,
    load_figure,
    sittings_figure,
    sittings_label,
    threads_figure,
)
from noisefloor.show.rows import arm_label, differing, is_joint, metric_label, threads_label
from noisefloor.text import amounts

_USE = re.compile("<use[^>]*/>")
FIGURES = "NOISEFLOOR_FIGURES"  # a folder where `show` leaves its figures as files, too


def svg(figure: Figure, title: str = "", description: str = "", themed: bool = True) -> str:
    """The figure as SVG text: same bytes for the same figure, text as text, no dates.

    `themed`: colours as CSS variables and `currentColor`, ids made unique, no fixed size, for
    embedding in a page; else a standalone file with plain colours on white."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "noisefloor"}):
        ground = "none" if themed else "white"
        figure.savefig(buffer, format="svg", facecolor=ground, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", text, flags=re.S)
    text = re.sub(r"<[^>]+>", _rounded, text)  # in tags only: labels stay
    text = re.sub(r"'?DejaVu Sans'?(, *[^;\"]*)?", "system-ui, sans-serif", text)
    if not themed:
        head = piece("alone", title, description)
        return re.sub(r"(<svg[^>]*)>", lambda m: f'{m[1]} role="img">{head}', text, count=1)
    text = text[text.index("<svg") :].replace("xlink:href", "href")
    text = re.sub(r": ?(#[0-9a-f]{6})\b", lambda m: ": " + CSS.get(m[1], m[1]), text)
    text = _slim(text)
    drawn = re.sub(r'(id="|="#|url\(#)[^")]+', r"\1", text)  # ids depend on unrounded places
    prefix = "f" + hashlib.sha256((title + description + drawn).encode()).hexdigest()[:6]
    used = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', text))  # other ids are dropped
    short = {name: f"{prefix}{i}" for i, name in enumerate(used)}
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{short[m[1]]}"' if m[1] in used else "", text)
    text = re.sub(r'(href="#|url\(#)([^")]+)', lambda m: m[1] + short[m[2]], text)
    box = re.findall(r'viewBox="([^"]+)"', text)[0]
    head = str(piece("drawing", box, title, description, prefix))
    return re.sub(r"<svg[^>]*>", lambda _: head, text, count=1).strip()


def _rounded(tag: re.Match[str]) -> str:
    digits = r"\d+\.\d{3,}"
    return re.sub(digits, lambda m: f"{float(m[0]):.1f}".rstrip("0").rstrip("."), tag[0])


def _slim(text: str) -> str:
    """The SVG a third shorter: no line ends, no rotations by 0, and one clip and one style for all
    neighbouring marks of one kind."""
    text = re.sub(r"\s*\n\s*", " ", text).replace("> <", "><")
    text = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", text)
    marks = r'(<g clip-path="[^"]*">)<use[^>]*/></g>(?:\1<use[^>]*/></g>)+'
    text = re.sub(marks, lambda m: f"{m[1]}{''.join(_USE.findall(m[0]))}</g>", text)
    alike = r'<use[^>]*?( style="[^"]*")/>(?:<use[^>]*?\1/>)+'
    return re.sub(alike, lambda m: f"<g{m[1]}>{m[0].replace(m[1], '')}</g>", text)


def write(figure: Figure, file: Path, title: str = "", alt: str = "") -> None:
    """The figure as a file of its own, `.svg` or `.png` (two dots a pixel), with `title` and `alt`
    inside it."""
    part = file.with_name(f"{file.name}.partial")
    if file.suffix == ".svg":
        part.write_text(svg(figure, title, alt, themed=False))
    else:
        words = {k: v for k, v in {"Title": title, "Description": alt}.items() if v}
        figure.savefig(part, format="png", dpi=144, facecolor="white", metadata=words)
    part.replace(file)


def alt(verdicts: pd.DataFrame) -> str:
    """Alternative text of a figure of verdicts: every comparison in words, from the table."""
    row: Any
    several = differing(verdicts, "workload")
    parts = []
    for row, joint in zip(verdicts.itertuples(), is_joint(verdicts), strict=True):
        rate = getattr(row, "rate", 0)
        where = f"at {rate:,.0f} a second" if rate > 0 else threads_label(row.threads, joint)
        where = getattr(row, "label", where) if joint else where  # a claim names its counts
        parts.append(
            f"{f'{row.workload}: ' if several else ''}{metric_label(row.metric)}"
            f"{f' {where}' if where else ''}, {arm_label(row.arm)} against {row.baseline}: "
            f"{', '.join(filter(None, (canvas.verdict_label(row), canvas.numbers(row))))}"
        )
    return "; ".join(parts) + "." if parts else "No comparison."


def sittings_alt(each: pd.DataFrame, both: pd.DataFrame) -> str:
    """Alternative text of `sittings_figure`: the campaigns of each processor, alone and together."""
    whole: Any
    parts = []
    for whole in both.itertuples():
        mine = each[each["processor"] == whole.processor].sort_values("date", kind="stable")
        rows: list[Any] = [*mine.itertuples()]
        changes = [
            f"{row.date[:10]} {amounts.with_interval(row.change_pct, row.lo_pct, row.hi_pct, row.metric)}"
            for row in rows
        ]
        ahead = amounts.interval(whole.next_lo_pct, whole.next_hi_pct, whole.metric)
        expected = "" if ahead == amounts.NONE else f"; the next campaign is expected at {ahead}"
        parts.append(
            f"{whole.processor}: {'; '.join(changes)}; {sittings_label(whole.sittings)}: "
            f"{canvas.verdict_label(whole)}, {canvas.numbers(whole)}{expected}."
        )
    return " ".join(parts)


def show(
    figure: Figure,
    *,
    alt: str = "",
    caption: str = "",
    data: pd.DataFrame | None = None,
    title: str = "",
    name: str = "figure",
) -> Shown:
    """The figure as an HTML `<figure>`: inline SVG for wide and for narrow pages, caption, and
    `data` as a CSV link named `name`. `alt` says in words what the figure shows: ValueError
    without it."""
    if not alt:
        raise ValueError("a figure needs alternative text (alt=...); plots.alt(verdicts) makes it")
    title = title or caption.partition(". ")[0] or "Figure"
    if folder := os.environ.get(FIGURES):
        stem = Path(folder) / f"{1 + len([*Path(folder).glob('*.svg')]):02d}-{name}"
        for kind in (".svg", ".png"):
            write(figure, stem.with_name(stem.name + kind), title, alt)
    narrow = svg(figure.narrow(), title, alt) if hasattr(figure, "narrow") else ""
    link = csv_link(data, name) if data is not None and len(data) else ""
    drawn = (safe(text) for text in (svg(figure, title, alt), narrow))
    return Shown(piece("figure", *drawn, caption, link), f"{title}. {alt}")
