"""The site: the index over pages, with every study's verdict in words, in numbers and as a small
drawing; the published pages; and the README's findings."""

import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from noisefloor import paths
from noisefloor.data.results import SHORT
from noisefloor.model import NO_WORD
from noisefloor.show.markup import piece, say
from noisefloor.show.plots.canvas import away
from noisefloor.show.report import words
from noisefloor.show.report.layout import PUBLISHED, facts_of, shell
from noisefloor.show.report.pages import PARTS, placed
from noisefloor.show.report.pieces import drawing
from noisefloor.show.report.statement import headline_of
from noisefloor.stats.verdict import ALPHA, PROVISIONAL, differs
from noisefloor.text import amounts

_LAST = ("published-claims", "calibration")  # about many comparisons: they come last
_TICKS = (-50, -10, 0, 10, 100)  # of the small scale, in percent
_FARTHEST = 1000.0  # percent, where the small scale ends

# -- the index -------------------------------------------------------------------------------------


def index(out: Path | str | None = None, pages: Sequence[Path] | None = None) -> Path:
    """Write ``index.html`` in `out` (default ``reports/``) over `pages`, by default those in `out`:
    one table from the JSON beside them. Links are relative, so it works from a disk and from any
    web server. Returns its path."""
    out = Path(out or paths.reports()).resolve()
    out.mkdir(parents=True, exist_ok=True)
    pages = [p for p in out.glob("*.html") if p.stem != "index"] if pages is None else pages
    facts = {page: facts_of(page) for page in pages}
    ordered = sorted(pages, key=lambda page: _turn(page.stem, facts[page]))
    rows = [_row(page, facts[page], out) for page in ordered]
    failed = [(f.name, f.name.removesuffix(".failed.ipynb")) for f in out.glob("*.failed.ipynb")]
    every = paths.root() / PUBLISHED / "index.html"
    published = os.path.relpath(every, out) if out != every.parent and every.exists() else ""
    short = [f for f in facts.values() if f.get("profile") in SHORT]
    scale, yours = {t: _x(t) for t in _TICKS}, _yours(short)
    every_row = (row for of_page in facts.values() for row in of_page.get("comparisons", ()))
    n = sum(row["verdict"] not in NO_WORD and not row.get("control") for row in every_row)
    total = say("total", words=n, missed=100 * ALPHA, wrong=round(n * ALPHA)) if n >= 20 else ""
    body = piece("index", rows, scale, sorted(failed), yours, published, amounts, total)
    title = "What does it really cost?"
    page = shell(title=title, description=say("index"), body=body, kind="index")
    placed(out, {"index.html": page.encode()})
    return out / "index.html"


def _yours(short: Sequence[Mapping[str, Any]]) -> str:
    """When the short campaigns were made, and how long the longest took, in a sentence; "" for none."""
    if not short:
        return ""
    days = sorted({str(facts.get("date"))[:10] for facts in short})
    took = max(facts.get("minutes") or 0 for facts in short)
    return say(
        "yours", days=" to ".join(dict.fromkeys((days[0], days[-1]))), minutes=max(1, round(took))
    )


def _x(value: float) -> float:
    """Place of a change (percent) on the small scale, 0 to 200: linear near zero, logarithmic beyond."""
    size = min(away(value), _FARTHEST)
    return round(100 + math.copysign(15.3 * math.log1p(size / 2), value), 1)


def _row(page: Path, facts: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """The row of a page in the index: question, answer in a line, drawings, and how often, on which
    processor and when it was measured; of a short run also the published answer."""
    leads = _leads(facts)[:1]
    boots = [words.word(x) for x in leads if x["verdict"] == PROVISIONAL]
    theirs = paths.root() / PUBLISHED / page.stem / f"{page.stem}.html"
    repeats = facts.get("profile") in SHORT and theirs.parent != page.parent
    often = boots or [str(facts.get("measured") or "")] * len(leads)
    on = [
        words.generation(x["processor"])
        for x in leads
        if x.get("processor") and not x.get("others")
    ]
    return {
        "href": os.path.relpath(page, out),
        "title": facts.get("title") or page.stem.replace("-", " ").capitalize(),
        "answer": words.sentences([_answer(facts)]),
        "strips": [strip for lead in leads for strip in _strips(lead)],
        "measured": [*often, *on, str(facts.get("date") or "")[:10]],
        "published": words.sentences([_answer(facts_of(theirs))]) if repeats else "",
        "theirs": os.path.relpath(theirs, out),
    }


def _ends(row: Mapping[str, Any]) -> tuple[float, ...]:
    """How far (`away`) the ends of a row's interval are from zero; () without one, or if it has zero."""
    lo, hi = row.get("lo_pct"), row.get("hi_pct")
    return () if lo is None or hi is None or lo <= 0 <= hi else (away(lo), away(hi))


def _leads(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows that a page leads with; [] for those in `_LAST`, which are about many comparisons."""
    leads: list[dict[str, Any]] = facts.get("leads", [])
    return [] if facts.get("study") in _LAST else leads


def _answer(facts: Mapping[str, Any]) -> str:
    """The first sentence of a page without its full stop: how much the first cost of its question
    changes on each processor; with several arms it names the first one."""
    leads, says = _leads(facts), (facts.get("brief") or [""])[0]
    if leads and (question := leads[0].get("question")):
        same, every = (question, leads[0]["workload"], leads[0]["metric"]), facts["comparisons"]
        alike = [x for x in every if (x["question"], x["workload"], x["metric"]) == same]
        does = leads[0]["arm"] if len({x["arm"] for x in alike if not x["control"]}) > 1 else "it"
        r: Any = SimpleNamespace(verdicts=pd.DataFrame(alike, dtype=object), by_processor={})
        says = headline_of(leads[0] | {"does": does}, r, brief=True)
    return str(says).split(". ")[0].rstrip(".")


def _strips(lead: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """[(drawing, name)] of a lead, one for each processor and thread count; the name has what differs
    between them."""
    on: dict[str, list[dict[str, Any]]] = {}
    for row in (*(lead.get("counts") or [lead]), *lead.get("others", [])):
        if row["change_pct"] is not None:
            on.setdefault(str(row.get("processor") or ""), []).append(row)
    strips = []
    names = words.short_names([*on])
    for name, rows in on.items():
        for row in rows:
            named = names[name] * (len(on) > 1), words.at(row) * (len(rows) > 1)
            strips.append((drawing(row, _x), ", ".join(filter(None, named))))
    return strips


# -- published -------------------------------------------------------------------------------------

_FIRST = 6  # pages in the README's findings
_SURPRISING = ("tablespace-encryption",)  # rows stay readable in three other places
_FINDINGS = re.compile(r"(?<=<!-- findings -->\n).*?(?=<!-- /findings -->)", re.S)


def publish(study: str, out: Path | str | None = None) -> tuple[Path, bool]:
    """Replace the published page of a study by that in `out` (default ``reports/``), with the files
    beside it, in ``reports/published/<study>/``. Returns (that folder, whether anything in it changed);
    if so, the index and the README's findings are written again."""
    out = Path(out or paths.reports()).resolve()
    target = paths.root() / PUBLISHED / study
    whole, old = (target.with_name(f"{study}.{part}") for part in ("partial", "old"))
    if old.exists() and not target.exists():  # what a killed command left
        old.rename(target)
    for left in (whole, old):
        shutil.rmtree(left, ignore_errors=True)
    whole.mkdir(parents=True)
    for part in PARTS:
        shutil.copy2(out / f"{study}{part}", whole / f"{study}{part}")
    page = whole / f"{study}.html"
    page.write_text(_moved(page.read_text(), out, whole))
    if target.exists() and _contents(whole) == _contents(target):
        shutil.rmtree(whole)
        return target, False
    if target.exists():
        target.rename(old)
    whole.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    index(target.parent, [page for page, _ in _published_pages()])
    readme = paths.root() / "README.md"
    readme.write_text(_FINDINGS.sub(lambda _: published_findings(), readme.read_text()))
    return target, True


def published_findings() -> str:
    """The README's findings in Markdown, a line for each of the first pages of the published index: its
    answer and the first clause of its advice; `_SURPRISING` ones first. Those in `_LAST`, which are
    about many comparisons, are left out."""
    pages = [(page, facts) for page, facts in _published_pages() if facts.get("headline")]
    costs = [(page, facts) for page, facts in pages if page.stem not in _LAST][:_FIRST]
    costs.sort(key=lambda one: one[0].stem not in _SURPRISING)
    return "".join(_finding(page, facts) for page, facts in costs)


def _finding(page: Path, facts: Mapping[str, Any]) -> str:
    title, do = facts["title"] or facts["study"], (facts.get("advice") or "").split("; ")[0]
    waits = [" *(provisional)*" for x in _leads(facts)[:1] if x["verdict"] == PROVISIONAL]
    texts = words.sentences((_answer(facts), do))
    return f"- [{title}]({paths.relative(page)}) {texts}{''.join(waits)}\n"


def _published_pages() -> list[tuple[Path, dict[str, Any]]]:
    """[(page, its facts)] of all published pages, in the order of their index."""
    pages = [(page, facts_of(page)) for page in (paths.root() / PUBLISHED).glob("*/*.html")]
    whole = [(p, facts) for p, facts in pages if p.stem == p.parent.name == facts.get("study")]
    return sorted(whole, key=lambda one: _turn(one[0].stem, one[1]))


def _contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def _moved(text: str, out: Path, target: Path) -> str:
    """The HTML of a page of `out`, moved to `target`: its links still lead to the same files."""

    def link(match: re.Match[str]) -> str:
        href = match[1]
        if href == "index.html":
            return "../index.html"
        return href if (target / href).exists() else os.path.relpath(out / href, target)

    return re.sub(r'(?<=<a href=")((?!#|\w+:)[^"]+)', link, text)


def _turn(study: str, facts: Mapping[str, Any]) -> tuple[bool, bool, bool, float, float, str]:
    """The sort key of a page in the index: own campaigns, then archives, then `_LAST`; pages with a
    difference first; then by the farthest end of an interval without zero, then the largest change."""
    leads = facts.get("leads", ())
    decided = [r for r in leads if differs(r["verdict"])]
    kept = [r for r in decided or leads if r["change_pct"] is not None]
    sure = max((max(_ends(r)) for r in kept if _ends(r)), default=0.0)
    largest = max((away(r["change_pct"]) for r in kept), default=0.0)
    return study in _LAST, study.startswith("archive-"), not decided, -sure, -largest, study
