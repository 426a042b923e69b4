"""From a notebook to one self-contained page.

A page is rendered in a temporary folder and moved to ``reports/`` only when every cell ran. When
a rendering fails, the page of last time is moved to ``reports/previous/`` and the notebook of the
failure is kept as ``<study>.failed.ipynb``: nothing in ``reports/`` looks finished and is not.
"""

import hashlib
import html
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

from .. import paths, plots
from .given import checked, parameters
from .saved import OUT, raw_links
from .words import ReportError

TEMPLATE = Path(__file__).parents[1] / "template"
PARTS = (".html", ".ipynb", ".csv", ".json")  # what a finished study leaves in reports/
_BOX = '<section class="nf-verdict'
_NOT_PAGES = ("explore", "own-study")  # rendered when named, not with "all"


def notebook(study) -> Path:
    """The notebook of a study. Raises ReportError with the names that exist."""
    path = paths.notebooks() / f"{study}.ipynb"
    if str(study).startswith("ab-") and not path.exists():  # a question that own-study was asked
        path = paths.notebooks() / "own-study.ipynb"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", str(study)) or not path.exists():
        known = ", ".join(studies(everything=True)) or "none"
        raise ReportError(f"no study is called {study!r}; there are: {known}; nothing was run", 2)
    return path


def studies(everything=False) -> list:
    """Names of the notebooks that make a page."""
    names = sorted(p.stem for p in paths.notebooks().glob("*.ipynb"))
    return names if everything else [n for n in names if n not in _NOT_PAGES]


def method(source) -> str:
    """Fingerprint of all that makes a page from raw files: the library and the notebook `source`."""
    files = [*sorted(Path(__file__).parents[1].rglob("*.py")), source]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]


def render(study, given=None, out=None, timeout=3600, progress=False) -> Path:
    """Run the notebook of `study` with the parameters `given` and write ``<study>.html``,
    ``.ipynb``, ``.csv`` and ``.json`` into `out` (default ``reports/``). Returns the page's path.

    `timeout`: seconds a cell; `progress`: what the cells print is shown while they run. Raises
    ReportError: code 2 before anything ran, else 1, and then no file of this study is left that
    looks finished (see the top of this module)."""
    source = notebook(study)
    values = checked(source, given)
    out = Path(out or paths.reports()).resolve()
    out.mkdir(parents=True, exist_ok=True)
    for left in Path(tempfile.gettempdir()).glob("noisefloor-page-*-*"):  # by one that was killed
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"noisefloor-page-{os.getpid()}-") as scratch:
        scratch = Path(scratch)
        try:
            book = _execute(source, scratch / f"{study}.ipynb", values, timeout, progress)
            page = _page(book, study, source, values, scratch, out)
        except Exception:
            set_aside(study, out)
            if (scratch / f"{study}.ipynb").exists():
                text = _scrub((scratch / f"{study}.ipynb").read_text(), scratch)
                (out / f"{study}.failed.ipynb").write_text(text)
            raise
        (scratch / f"{study}.html").write_text(_scrub(page, scratch))
        _place(study, scratch, out)
    return out / f"{study}.html"


def _place(study, scratch, out):
    """Move what was rendered to `out`. All parts have room there before the first one of last time
    goes, and the page comes last: when it is there, so is all that it links to."""
    made = [part for part in PARTS if (scratch / f"{study}{part}").exists()]
    try:
        for part in made:
            shutil.copyfile(scratch / f"{study}{part}", out / f"{study}{part}.partial")
    except OSError:
        for part in made:
            (out / f"{study}{part}.partial").unlink(missing_ok=True)
        set_aside(study, out)
        raise
    for part in PARTS:
        (out / f"{study}{part}").unlink(missing_ok=True)
    for part in reversed(made):
        os.replace(out / f"{study}{part}.partial", out / f"{study}{part}")
    (out / f"{study}.failed.ipynb").unlink(missing_ok=True)


def write_whole(path, text):
    """Write a file, or leave what was there."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_text(text)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def set_aside(study, out):
    """Move the page of last time, with all that lies beside it, to previous/."""
    for part in PARTS:
        if (out / f"{study}{part}").exists():
            (out / "previous").mkdir(exist_ok=True)
            os.replace(out / f"{study}{part}", out / "previous" / f"{study}{part}")


def _execute(source, target, values, timeout, progress):
    """The executed notebook, also written to `target`; ReportError when any cell did not run."""
    import nbformat
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    sockets = target.parent / "kernel"
    logging.getLogger("papermill").setLevel(logging.ERROR)
    name = source.stem
    before = os.environ.get(OUT)
    os.environ[OUT] = str(target.parent)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = papermill.execute_notebook(
                source,
                target,
                values,
                kernel_name="python3",
                language="python",
                progress_bar={"desc": name, "leave": False, "disable": None},  # in a terminal
                stdout_file=sys.stderr if progress else None,
                stderr_file=sys.stderr if progress else None,
                execution_timeout=timeout,
                cwd=paths.root(),
                # unix sockets in our private folder: nobody else can talk to the kernel
                config=Config({"KernelManager": {"transport": "ipc", "ip": str(sockets)}}),
            )
    except PapermillExecutionError as problem:
        said = " ".join(str(problem.evalue).split())
        raise ReportError(
            f"{name} stopped in cell {problem.exec_count}: {problem.ename}: {said[:400]}"
        ) from None
    except CellTimeoutError:
        raise ReportError(f"{name} stopped: a cell took longer than {timeout} s") from None
    except RuntimeError as problem:  # a kernel that died before it answered has no class of its own
        if not isinstance(problem, DeadKernelError) and "Kernel died" not in str(problem):
            raise
        raise ReportError(f"{name} stopped: its kernel was killed or died") from None
    finally:
        os.environ.pop(OUT)
        if before is not None:
            os.environ[OUT] = before
    for number, cell in enumerate(book.cells, 1):
        if cell.cell_type == "code" and cell.source.strip() and not cell.execution_count:
            raise ReportError(f"{name} ended early: cell {number} of {len(book.cells)} never ran")
    # papermill notes paths and times: a page repeats to the byte without them
    book.metadata["papermill"] = {"parameters": values}
    for number, cell in enumerate(book.cells):
        cell.id = f"cell-{number}"
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
    nbformat.validate(book)
    target.write_text(_scrub(nbformat.writes(book), target.parent) + "\n")
    return book


def _scrub(text, scratch) -> str:
    """`text` without the folders of this machine: the project becomes '.', the home '~'."""
    for folder, word in (
        (scratch, "."),
        (paths.root(), "."),
        (Path(sys.prefix), ".venv"),
        (Path.home(), "~"),
    ):
        if len(str(folder)) > 1:
            text = re.sub(rf"(?<![\w.-]){re.escape(str(folder))}(?![\w.-])", word, text)
    return text


def _page(book, study, source, values, folder, out) -> str:
    """The HTML of the page that will stand in `out`, from an executed notebook."""
    from nbconvert import HTMLExporter

    held, verdict = [], ""
    for cell in book.cells:
        for output in list(cell.get("outputs", [])):
            text = output.get("data", {}).get("text/html")
            if text is None:
                continue
            if text.startswith((_BOX, plots.LAB)):
                verdict = verdict or (text if text.startswith(_BOX) else "")
                cell.outputs.remove(output)
                continue
            # held back from nbconvert's HTML rewriting, which would lower-case the SVG
            output["data"] = {"text/html": f"<nf-held>{len(held)}</nf-held>"}
            held.append(_tamed(text))
    exporter = HTMLExporter(
        template_name="template",
        extra_template_basedirs=[str(TEMPLATE.parent)],
        exclude_anchor_links=True,
    )
    exporter.log.setLevel(logging.ERROR)
    body, _ = exporter.from_notebook_node(book)
    body = re.sub(r"<nf-held>(\d+)</nf-held>", lambda m: held[int(m[1])], body)
    title, body = _take_title(body, study)
    body, contents = _headings(body)
    facts = {}
    if (folder / f"{study}.json").exists():
        facts = json.loads((folder / f"{study}.json").read_text())
    if study != source.stem:  # a template's own heading does not say what was asked
        title = facts.get("title", title)
    lead = re.search(r"<p>(.*?)</p>", body, re.S)
    description = facts.get("headline") or (re.sub("<[^>]+>", "", lead[1]) if lead else title)
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
    links += raw_links(facts, out)
    return shell(
        title=title,
        description=" ".join(description.split()),
        verdict=verdict,
        body=body,
        contents=contents,
        links=links,
        kind="study",
        made=json.dumps(made),
    )


def _tamed(text) -> str:
    """A cell's HTML output made fit for the page: pandas' own tables lose their style and scroll."""
    if 'class="dataframe"' not in text:
        return text
    text = re.sub(r"<style scoped>.*?</style>", "", text, flags=re.S)
    text = (
        text.replace("<th></th>", "<td></td>")
        .replace(' border="1"', "")
        .replace(' style="text-align: right;"', "")
    )
    return (
        '<div class="nf-table"><div class="nf-scroll" role="region" aria-label="Table" tabindex="0">'
        f"{text}</div></div>"
    )


def _take_title(body, study):
    found = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.S)
    if not found:
        return study.replace("-", " ").capitalize(), body
    title = html.unescape(re.sub("<[^>]+>", "", found[1])).strip()
    return title, body.replace(found[0], "", 1)


def _headings(body):
    """Body with unique heading ids, and the contents: (level, id, text) of h2 and h3."""
    seen, contents = set(), []

    def number(match):
        level, text = int(match[1]), match[3]
        plain = html.unescape(re.sub("<[^>]+>", "", text)).strip()
        slug = base = re.sub(r"[^\w]+", "-", plain.lower()).strip("-") or "section"
        count = 1
        while slug in seen:
            count += 1
            slug = f"{base}-{count}"
        seen.add(slug)
        if level == 2:
            contents.append((slug, plain))
        level = max(level, 2)  # the page has one h1, its title
        return f'<h{level} id="{slug}">{text}</h{level}>'

    return re.sub(r"<h([1-6])([^>]*)>(.*?)</h\1>", number, body, flags=re.S), contents


def shell(**page) -> str:
    """A whole HTML page: title description verdict body contents links kind made."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    css = plots.PARTS_CSS.read_text() + (TEMPLATE / "style.css").read_text()
    for key in ("verdict", "body"):
        page[key] = jinja2.utils.markupsafe.Markup(page.get(key, ""))
    return environment.get_template("page.html.j2").render(
        css=jinja2.utils.markupsafe.Markup(css), **page
    )
