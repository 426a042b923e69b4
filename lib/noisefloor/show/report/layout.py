"""An executed notebook as one HTML page, and the frame that every page has."""

import json
import os
import re
from itertools import chain, count
from pathlib import Path
from typing import Any

from noisefloor import paths
from noisefloor.data.results import SHORT
from noisefloor.show import plots
from noisefloor.show.markup import TEMPLATE, environment, piece, safe, text_of_html
from noisefloor.show.report.arguments import parameters
from noisefloor.show.report.notebooks import method

PUBLISHED = Path("reports", "published")  # in the project's folder
_BOX = '<section class="nf-verdict'


def page_of(
    book: Any, study: str, source: Path, values: dict[str, Any], folder: Path, out: Path
) -> str:
    """The HTML of the page that goes into `out`, from the executed notebook `book` of `source`
    and what its cells wrote into `folder`. values: its parameters."""
    from nbconvert.filters import Highlight2HTML, ansi2html
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    boxes: list[str] = []
    for cell in book.cells:
        for output in list(cell.get("outputs", [])):
            text = output.get("data", {}).get("text/html", "")
            if text.startswith((_BOX, plots.LAB)):
                boxes += [text] * text.startswith(_BOX)
                cell.outputs.remove(output)
    prose = MarkdownWithMath(IPythonRenderer(escape=False, exclude_anchor_links=True)).render
    code = Highlight2HTML()  # type: ignore[no-untyped-call]  # no types
    body = str(piece("cells", book.cells, prose, code, ansi2html))
    title, body, contents = _headed(body, study.replace("-", " ").capitalize())
    facts = facts_of(folder / f"{study}.html")
    theirs = paths.root() / PUBLISHED / study / f"{study}.html"
    title = facts.get("title") or title  # the notebook's heading names no builds and no settings
    if facts and not facts.get("title"):
        text = json.dumps(facts | {"title": title}, indent=1, ensure_ascii=False)
        (folder / f"{study}.json").write_text(f"{text}\n")
    lead = re.search(r"<p>(.*?)</p>", body, re.S)
    description = facts.get("headline") or (text_of_html(lead[1]) if lead else title)
    campaigns = facts.get("campaigns", {})
    made = {  # what `verified` needs to make the page again
        "notebook": study,
        "parameters": values | {k: v for k, v in campaigns.items() if k in parameters(source)},
        "campaigns": campaigns,
        "raw": facts.get("raw", {}),
        "method": method(source),
    }
    links = [(f"{study}.ipynb", "notebook")]
    links += [(f"{study}{p}", f"verdicts ({p[1:].upper()})") for p in (".csv", ".json") if facts]
    return shell(
        title=title,
        description=" ".join(description.split()),
        verdict="".join(boxes[:1]),
        body=body,
        contents=contents,
        links=piece("links", links, _raw_links(facts, out)),
        published=facts.get("profile") in SHORT and facts_of(theirs).get("headline"),
        theirs=os.path.relpath(theirs, out),
        kind="study",
        made=json.dumps(made),
    )


def _raw_links(facts: dict[str, Any], out: Path) -> list[tuple[str, str]]:
    """(href, name) of the raw files behind a page in folder `out`, from its stored `facts`; none if
    `out` lies outside the project."""
    root, links = paths.root(), []
    if not out.is_relative_to(root):
        return []
    folders = [root / shown for shown in facts.get("raw", {}) if (root / shown).is_dir()]
    for folder in folders:
        # web servers may not list a folder, so a file in it is linked
        files = [f for f in ("campaign.json", "calibration.json") if (folder / f).exists()]
        href = os.path.relpath(folder / (files or [""])[0], out) + ("" if files else "/")
        links.append((href, folder.name))
    return links


def facts_of(page: Path) -> dict[str, Any]:
    """The facts of a page, from the JSON beside it; {} if there is none."""
    beside = page.with_suffix(".json")
    return json.loads(beside.read_text()) if beside.exists() else {}


def _headed(body: str, title: str) -> tuple[str, str, list[tuple[str, str]]]:
    """(title, body, contents) of a page: the first h1 becomes the title and is left out, each other
    heading gets an id of its own, and the contents are (id, text) of each h2."""
    if first := re.search(r"<h1[^>]*>(.*?)</h1>", body, re.S):
        title, body = text_of_html(first[1]).strip(), body.replace(first[0], "", 1)
    seen: set[str] = set()
    contents: list[tuple[str, str]] = []

    def number(match: re.Match[str]) -> str:
        level, text = int(match[1]), match[2]
        words = text_of_html(text).strip()
        slug = re.sub(r"[^\w]+", "-", words.lower()).strip("-") or "section"
        more = (f"{slug}-{n}" for n in count(2))
        slug = next(s for s in chain([slug], more) if s not in seen)
        seen.add(slug)
        if level == 2:
            contents.append((slug, words))
        return str(piece("heading", max(level, 2), slug, safe(text)))

    return title, re.sub(r"<h([1-6])[^>]*>(.*?)</h\1>", number, body, flags=re.S), contents


def shell(**page: Any) -> str:
    """A whole HTML page: title description verdict body contents links published theirs kind made."""
    css = plots.PARTS_CSS.read_text() + (TEMPLATE / "style.css").read_text()
    markup = {key: safe(page.get(key, "")) for key in ("verdict", "body")}
    return environment().get_template("page.html.j2").render(page | markup, css=safe(css))
