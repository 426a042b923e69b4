"""Does a page say what its raw files say? It is made again from them, and the two are compared."""

import base64
import csv
import difflib
import html
import io
import json
import math
import re
import tempfile
from pathlib import Path

from .. import paths, results, tidy
from .pages import method, notebook, render
from .words import ReportError

SIGNIFICANT = 2e-5  # the data in a page have six digits
PIXELS = 0.05  # of a drawing
SHOWN = 12  # differences of a page that are printed
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def pages(*given) -> list[Path]:
    """The pages that a user means by the paths `given`: pages, or all pages of folders. An index is
    no page, and passed over. ReportError where there is none."""
    found, wrong = [], None
    for path in map(Path, given):
        page = path.suffix == ".html" and path.is_file()
        here = [path] if page else sorted(path.glob("*.html"))
        found += [p for p in here if p.name != "index.html"]
        wrong = wrong or (None if here else path)
    if wrong or not found:
        raise ReportError(
            f"{wrong or given[-1]} is no page and no folder with a page, such as "
            "reports/published/STUDY-DATE; nothing was verified",
            2,
        )
    found = list(dict.fromkeys(found))
    for page in found:
        _made(page)
    return found


def verify(page, timeout=3600) -> dict:
    """Make `page` again from the raw files that it names and compare the two.

    Keys: page, equal, numbers (that stand on the page and in the tables beside it), files (raw
    files whose checksum was looked at), raw (what is wrong with them, a sentence each),
    differences (where, page, recomputed), notes (what explains them). Raises ReportError, code 2,
    for a file that is no page of ours."""
    page = Path(page)
    made = _made(page)
    study = made["notebook"]
    found = {"page": paths.shown(page.resolve()), "equal": False, "numbers": 0, "files": 0}
    found |= {"raw": [], "differences": [], "notes": []}
    for name in made["campaigns"]:
        files, problems = _raw(name)
        found["files"] += files
        found["raw"] += problems
    if not all(map(_opens, made["campaigns"])):
        return found
    found["raw"] += [
        f"{shown} is not as it was when the page was made"
        for shown, digest in made["raw"].items()
        if (folder := _folder(shown)) and _digest(folder) != digest
    ]
    then, now = made["method"], method(notebook(study))
    if then != now:
        was = f"an earlier or later version of the method ({then}, here {now})" if then else "a version that did not yet name its method"  # fmt: skip
        found["notes"].append(f"the page was made by {was}: what differs may follow from that")
    with tempfile.TemporaryDirectory(prefix="noisefloor-verify-") as scratch:
        try:
            again = render(study, made["parameters"], scratch, timeout)
        except ReportError as problem:
            found["raw"].append(f"the page cannot be made again: {problem}")
            return found
        old, new = _leaves(page, study), _leaves(again, study)
    found["numbers"] = sum(
        len(_NUMBER.findall(str(v))) for k, v in old.items() if not k.endswith("drawing")
    )
    software = _software(old), _software(new)
    if software[0] not in ("", software[1]):
        found["notes"].append(f"the page was made with {software[0]}; here: {software[1]}")
    found["differences"] = [
        {"where": where, "page": a, "recomputed": b} for where, a, b in compared(old, new)
    ]
    found["equal"] = not found["differences"] and not found["raw"]
    return found


def text(found) -> str:
    """The result of `verify` for a terminal."""
    many, of = len(found["differences"]), f"{found['numbers']:,} numbers"
    raw = f"{found['files']:,} raw files" if found["files"] else "its raw files"
    if found["equal"]:
        return f"{found['page']}: all {of} are those that {raw} give"
    lines = [f"{found['page']}: {many or 'no'} difference{'s' * (many != 1)} in {of}"]
    lines += [f"raw files: {problem}" for problem in found["raw"][:SHOWN]]
    for row in found["differences"][:SHOWN]:
        lines.append(
            f"{row['where']}: {_short(row['page'])}; recomputed {_short(row['recomputed'])}"
        )
    if many > SHOWN:
        lines.append(f"and {many - SHOWN} more (--json has all)")
    return "\n  ".join([*lines, *(f"note: {n}" for n in found["notes"] if many)])


def compared(old, new):
    """What differs between two pages' leaves: (where, on the one, on the other)."""
    for where in old | new:
        a, b = old.get(where, ""), new.get(where, "")
        if a == b or where.endswith(_SOFTWARE):
            continue
        if where.endswith("drawing"):
            yield from _drawn(where, a, b)
        elif isinstance(a, list) and isinstance(b, list):
            yield from _cells(where, a, b)
        elif isinstance(a, list) or isinstance(b, list) or not _same(a, b):
            yield from _words(where, _plain(a), _plain(b))


# -- what a page says about itself -----------------------------------------------------------------


def _made(page) -> dict:
    """How a page was made: notebook, parameters, campaigns (names), raw (folder -> digest) and
    method; a page of the first version says it in the notebook beside it."""
    said = re.search(r'<meta name="noisefloor" content="([^"]*)">', page.read_text())
    if said:
        made = json.loads(html.unescape(said[1]))
    else:
        beside = page.with_suffix(".ipynb")
        try:
            values = json.loads(beside.read_text())["metadata"]["papermill"]["parameters"]
        except (OSError, ValueError, KeyError, TypeError):
            raise ReportError(
                f"{page} is no page of Noisefloor: it does not say how it was made, and no "
                f"{beside.name} that does lies beside it; nothing was verified",
                2,
            ) from None
        made = {"notebook": page.stem, "parameters": values}
        names = {k: v for k, v in values.items() if k == "campaign" and v}
        made["campaigns"] = names
    names = [name for text in made["campaigns"].values() for name in results.names(text)]
    return {"raw": {}, "method": "", **made, "campaigns": names}


def _folder(shown) -> Path | None:
    """A folder of raw data as a page names it; None when it is not here."""
    if (paths.root() / shown).is_dir():
        return paths.root() / shown
    try:
        return paths.campaign(Path(shown).name)
    except paths.NotFound:
        return None


def _opens(name) -> bool:
    """Whether a campaign is here and can be opened."""
    try:
        return (folder := _folder(name)) is not None and bool(tidy.inside(folder))
    except tidy.Damaged:
        return False


def _digest(folder) -> str:
    """The digest of a folder of raw data; "" where they cannot all be read."""
    try:
        return tidy.digest(folder)
    except (OSError, tidy.Damaged):
        return ""


def _raw(name) -> tuple[int, list[str]]:
    """How many files of a campaign have the checksum that was written down for them, and a
    sentence for each that has not."""
    try:
        campaign = paths.campaign(name)
    except paths.NotFound:
        return 0, [f"campaign {name} is missing"]
    try:
        runs = tidy.run_folders(campaign)
    except tidy.Damaged as problem:
        return 0, [f"{name}: {problem}"]
    files, problems = 0, [f"{name}/{sentence}" for sentence in tidy.broken(campaign)]
    for run in runs:
        try:
            files += 1 + len(tidy.read(run)["sha256"])
        except tidy.Damaged as problem:
            problems.append(f"{name}: {problem}")
    return files, problems


# -- what stands on a page -------------------------------------------------------------------------

_SOFTWARE = "provenance, software"


def _software(leaves) -> str:
    return next((v for k, v in leaves.items() if k.endswith(_SOFTWARE)), "")


def _leaves(page, study) -> dict:
    """Everything that a page and the tables beside it say: where it stands -> text, or a list of
    rows, the first of them the heads."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(page.read_text(), "html.parser")
    found = {"title": _text(soup.title)}
    found["description"] = soup.find("meta", {"name": "description"})["content"]
    main = soup.find("main")
    for code in main.select(".nf-code"):
        code.decompose()
    for n, figure in enumerate(main.select(".nf-figure"), 1):
        _figure(f"Figure {n}", figure, found)
        figure.decompose()
    for n, box in enumerate(main.select(".nf-table"), 1):
        found[f"Table {n}"] = [[_text(c) for c in r.find_all(["th", "td"])] for r in box("tr")]
        _caption(f"Table {n}", box, found)
        box.decompose()
    for name, box in (("verdict box", ".nf-verdict"), ("provenance", ".nf-facts")):
        for n, part in enumerate(main.select(box), 1):
            where = f"{name}{f' {n}' if n > 1 else ''}"
            for m, drawing in enumerate(part("svg"), 1):
                ruler = f"{where}, ruler{f' {m}' if m > 1 else ''}"
                found[ruler] = drawing["aria-label"]
                _drawing(ruler, drawing, found)
                drawing.decompose()
            found |= {f"{where}, {_text(d)}": _text(d.find_next("dd")) for d in part("dt")}
            for facts in part("dl"):
                facts.decompose()
            found[where] = _text(part) if box == ".nf-verdict" else ""
            part.decompose()
    for heading in main(["h2", "h3"]):
        between = [x for x in _until(heading)]
        found[f"under “{_text(heading)}”"] = " ".join(map(_text, between))
        for x in between:
            x.extract()
    found["text"] = _text(main)
    for part in (".json", ".csv"):
        beside = page.with_name(f"{study}{part}")
        if not beside.exists():
            continue
        if part == ".csv":
            found[beside.name] = _rows(beside.read_text())
        else:
            facts = json.loads(beside.read_text())
            found |= {f"{beside.name}, {k}": str(v) for k, v in _flat(facts) if k[:4] != "raw "}
    return found


def _until(heading):
    """What follows a heading up to the next one."""
    for x in heading.next_siblings:
        if x.name in ("h2", "h3"):
            return
        yield x


def _figure(where, figure, found):
    for words, drawing in zip(("", ", narrow"), figure("svg"), strict=False):
        alt = [_text(x) for x in drawing(["title", "desc"])]
        found[f"{where}{words}, alternative text"] = " ".join(alt)
        found[f"{where}{words}, labels"] = " ".join(_text(x) for x in drawing("text"))
        _drawing(f"{where}{words}", drawing, found)
    _caption(where, figure, found)


def _drawing(where, drawing, found):
    for x in drawing(["title", "desc", "text"]):
        x.decompose()
    markup = re.sub(
        r'((?:id|aria-labelledby)="|href="#|url\(#|\s)f[0-9a-f]{6}', r"\1", str(drawing)
    )
    found[f"{where}, drawing"] = re.sub(r' aria-label="[^"]*"', "", markup)


def _caption(where, part, found):
    """Caption and embedded data of a figure or table."""
    if words := part.select_one("figcaption > span, .nf-caption > span"):
        found[f"{where}, caption"] = _text(words)
    if link := part.select_one("a.nf-data"):
        data = base64.b64decode(link["href"].partition("base64,")[2]).decode()
        found[f"{where}, {link['download']}"] = _rows(data)
        found[f"{where}, data link"] = _text(link)


def _text(part) -> str:
    return " ".join(part.get_text(" ").split())


def _rows(text) -> list:
    return list(csv.reader(io.StringIO(text)))


def _flat(value, name=""):
    """(path, value) of every leaf of a JSON document."""
    if isinstance(value, dict):
        for k, v in value.items():
            yield from _flat(v, f"{name} {k}".strip())
    elif isinstance(value, list):
        for k, v in enumerate(value, 1):
            yield from _flat(v, f"{name} {k}")
    else:
        yield name, value


# -- what differs ----------------------------------------------------------------------------------


def _same(a, b) -> bool:
    if a == b:
        return True
    try:
        return math.isclose(float(a), float(b), rel_tol=SIGNIFICANT)
    except ValueError:
        return False


def _words(where, a, b):
    a, b = a.split(), b.split()
    if len(a) + len(b) < SHOWN:
        yield where, " ".join(a), " ".join(b)
        return
    for what, i, j, k, m in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if what != "equal":
            near = f" after “{' '.join(a[max(i - 3, 0) : i])}”" if i and j - i < len(a) else ""
            yield f"{where}{near}", " ".join(a[i:j]), " ".join(b[k:m])


def _cells(where, a, b):
    if a[:1] != b[:1] or len(a) != len(b):
        yield where, *(f"{len(x) - 1} rows of {', '.join(x[0] if x else [])}" for x in (a, b))
        return
    for n, (row, other) in enumerate(zip(a, b, strict=True)):
        if len(row) != len(other):
            yield f"{where}, row {n}", " ".join(row), " ".join(other)
            continue
        for head, x, y in zip(a[0] if len(a[0]) == len(row) else row, row, other, strict=True):
            if not _same(x, y):
                yield f"{where}, row {n}, {head}", x, y


def _drawn(where, a, b):
    """The first place at which two drawings differ by more than a printer would show."""
    one, two = (re.split(r"(-?\d+(?:\.\d+)?)", x) for x in (a, b))
    if len(one) != len(two):
        yield where, f"{len(one)} parts", f"{len(two)} parts"
        return
    for n, (x, y) in enumerate(zip(one, two, strict=True)):
        if x != y and not (n % 2 and abs(float(x) - float(y)) <= PIXELS):
            yield where, *("".join(z[max(n - 5, 0) : n + 4]) for z in (one, two))
            return


def _plain(value) -> str:
    return value if isinstance(value, str) else "\n".join(" ".join(row) for row in value)


def _short(value) -> str:
    value = " ".join(value.split())
    return "nothing" if not value else value if len(value) <= 60 else f"{value[:57]}..."
