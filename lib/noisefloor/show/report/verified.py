"""Verification of a page: make it again from its raw files, and compare both."""

import difflib
import html
import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from noisefloor import paths
from noisefloor.data import results, tidy
from noisefloor.show.markup import csv_data, text_of_html
from noisefloor.show.report.notebooks import method, notebook, refused
from noisefloor.show.report.pages import render
from noisefloor.show.report.words import ReportError

SHOWN = 12  # differences of a page that are printed
_WIDE = 60  # characters of each
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_FRACTION = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


def pages(*given: Path | str) -> list[Path]:
    """The pages that a user means by the paths `given`: pages, or all pages of folders; an index is
    left out. Raises ReportError, code 2, for a path without a page, or a page that is not ours."""
    here = {
        path: [path] if path.suffix == ".html" and path.is_file() else sorted(path.glob("*.html"))
        for path in map(Path, given)
    }
    chosen = dict.fromkeys(p for every in here.values() for p in every if p.name != "index.html")
    wrong = next((path for path, every in here.items() if not every), None)
    if wrong or not chosen:
        named = f"{wrong or given[-1]} is no page and no folder with a page"
        raise refused(f"{named}, such as reports/published/STUDY", "verified")
    for page in chosen:
        _made(page)
    return list(chosen)


def verify(page: Path | str, timeout: float = 3600) -> dict[str, Any]:
    """Make `page` again from the raw files that it names and compare the two.

    Keys: page, equal, numbers (on the page and in the tables beside it), files (raw files whose
    checksum was checked), raw (what is wrong with them, a sentence each),
    differences (where, page, recomputed), notes (what explains them). Raises ReportError, code 2,
    for a file that is no page of ours, or whose notebook is not here."""
    page = Path(page)
    made = _made(page)
    study = made["notebook"]
    files, raw, whole = _raw(made)
    notes: list[str] = []
    result: dict[str, Any] = {"page": paths.relative(page.resolve()), "equal": False, "numbers": 0}
    result |= {"files": files, "raw": raw, "differences": [], "notes": notes}
    if not whole:
        return result
    then, now = made["method"], method(notebook(study))
    if then != now:
        notes.append(
            f"the page was made by an earlier or later version of the method ({then}, here {now}): "
            "what differs may follow from that"
        )
    with tempfile.TemporaryDirectory(prefix="noisefloor-verify-") as scratch:
        try:
            again = render(study, made["parameters"], scratch, timeout)
        except ReportError as problem:
            raw.append(f"the page cannot be made again: {problem}")
            return result
        (old, was), (new, here) = _said(page), _said(again)
    result["numbers"] = sum(len(_NUMBER.findall(part)) for _, part in old if part[0] != "<")
    if was and was != here:
        notes.append(f"the page was made with {was}; here: {here}")
    result["differences"] = compared(old, new)
    result["equal"] = not result["differences"] and not raw
    return result


def text(result: Mapping[str, Any]) -> str:
    """The result of `verify` for a terminal."""
    many, of = len(result["differences"]), f"{result['numbers']:,} numbers"
    raw = f"{result['files']:,} raw files" if result["files"] else "its raw files"
    if result["equal"]:
        return f"{result['page']}: all {of} are those that {raw} give"
    lines = [f"{result['page']}: {many or 'no'} difference{'s' * (many != 1)} in {of}"]
    lines += [f"raw files: {problem}" for problem in result["raw"][:SHOWN]]
    for row in result["differences"][:SHOWN]:
        both = row["page"], row["recomputed"]
        apart = (n for n, (x, y) in enumerate(zip(*both, strict=False)) if x != y)
        start = max(0, next(apart, 0) - _WIDE // 3)
        was, here = (side[start:][:_WIDE] or "nothing" for side in both)
        lines.append(f"{row['where']}: {was}; recomputed {here}")
    if many > SHOWN:
        lines.append(f"and {many - SHOWN} more (--json has all)")
    return "\n  ".join([*lines, *(f"note: {note}" for note in result["notes"] if many)])


# -- what a page says about itself -----------------------------------------------------------------


def _made(page: Path) -> dict[str, Any]:
    """How a page was made: notebook, parameters, campaigns (names), raw (folder -> digest),
    method."""
    text = page.read_text()
    meta = re.search(r'<meta name="noisefloor" content="([^"]*)">', text)
    if not meta or "</main>" not in text:
        wrong = "no page of Noisefloor: it does not say how it was made" if not meta else "cut off"
        raise refused(f"{page} is {wrong}", "verified")
    made = json.loads(html.unescape(meta[1]))
    names = [name for text in made["campaigns"].values() for name in results.names(text)]
    return made | {"campaigns": names}


def _raw(made: Mapping[str, Any]) -> tuple[int, list[str], bool]:
    """(how many raw files of a page have their stored checksum, a sentence a problem, whether
    all of its campaigns can be opened)."""
    files, problems, whole = 0, [], True
    for name in made["campaigns"]:
        try:
            campaign = paths.campaign(name)
            runs = tidy.run_folders(campaign)
            problems += [f"{name}/{sentence}" for sentence in tidy.broken(campaign)]
        except (paths.NotFound, tidy.Damaged) as problem:
            gone = isinstance(problem, paths.NotFound)
            problems.append(f"campaign {name} is missing" if gone else f"{name}: {problem}")
            runs, whole = [], False
        for run in runs:
            try:
                files += 1 + len(tidy.read(run)["sha256"])
            except tidy.Damaged as problem:
                problems.append(f"{name}: {problem}")
    for shown, digest in made["raw"].items() if whole else ():
        folder = paths.root() / shown
        try:
            now = tidy.digest(folder if folder.is_dir() else paths.campaign(folder.name))
        except paths.NotFound:  # it is not here
            continue
        except (OSError, tidy.Damaged):
            now = ""
        if now != digest:
            problems.append(f"{shown} is not as it was when the page was made")
    return files, problems, whole


# -- what it says ----------------------------------------------------------------------------------

_CODE = re.compile(r'<details class="nf-code">.*?</details>', re.S)
_SAID = re.compile(r"(<title>.*?<meta name=.*?>).*(<h1\b.*?</h1>).*(<main.*</main>)", re.S)
_DATA = re.compile(r'href="data:[^"]*base64,([^"]*)"')
_LINK = re.compile(r'href="(?!\w+:|#)[^"]*"')  # which leads elsewhere once a page is published
_SOFTWARE = re.compile(r"<dt>software</dt><dd>(.*?)</dd>", re.S)
_NAMES = re.compile(r'((?:id|aria-labelledby)="|href="#|url\(#|\s)f[0-9a-f]{6}')  # of a drawing
_PLACE = re.compile(r'class="nf-(figure|table|verdict|facts|prose|open)\b|<h[23] id="([^"]*)"')
_PARTS = {"figure": "Figure", "table": "Table", "verdict": "verdict box", "facts": "provenance"}


def _said(page: Path) -> tuple[list[tuple[str, str]], str]:
    """([(where, text)]: every tag, text and line of data of a page and of the tables beside it, the
    data behind figures and tables included; the software it was made with)."""
    (whole,) = _SAID.findall(page.read_text())
    markup = _CODE.sub("", "".join(whole))
    markup = _DATA.sub(lambda m: f"\n{csv_data(m[1]).decode()}", markup)
    software = _SOFTWARE.search(markup)
    markup = _LINK.sub("", _NAMES.sub(r"\1", _SOFTWARE.sub("", markup)))
    parts: list[tuple[str, str]] = []
    counts: Counter[str] = Counter()
    where = section = "title and description"
    for part in re.split(r"(?=<)|(?<=>)|\n", markup):
        if place := _PLACE.search(part):
            kind, heading = place.groups()
            section = f"under “{heading}”" if heading else section
            counts[kind] += 1
            where = f"{_PARTS[kind]} {counts[kind]}" if kind in _PARTS else section
        parts.append((where, html.unescape(part.strip())))
    table, facts = page.with_suffix(".csv"), page.with_suffix(".json")
    if facts.exists():  # without the digests of the raw files, which `_raw` checks
        bare = json.dumps(json.loads(facts.read_text()) | {"raw": {}}, indent=1, ensure_ascii=False)
        for file, content in ((table, table.read_text()), (facts, bare)):
            lines = enumerate(content.splitlines(), 1)
            parts += [(f"{file.name}, line {n}", line.strip()) for n, line in lines]
    return [part for part in parts if part[1]], text_of_html(software[1]) if software else ""


def compared(
    old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]
) -> list[dict[str, str]]:
    """The differences between two pages, as `_said` reads them: where, page and recomputed of each.
    Fractions are compared with five significant digits."""
    before, after = (
        [_FRACTION.sub(lambda m: f"{float(m[0]):.5g}", part) for _, part in side]
        for side in (old, new)
    )
    differences = []
    for what, i, j, k, m in difflib.SequenceMatcher(None, before, after).get_opcodes():
        pairs = zip_longest(old[i:j], new[k:m], fillvalue=("", ""))
        for (where, a), (other, b) in pairs if what != "equal" else ():
            differences.append({"where": where or other, "page": a, "recomputed": b})
    return differences
