"""From a notebook to one self-contained page.

A page is rendered in a temporary folder and moved to ``reports/`` only when every cell ran. When
a rendering fails, the page of last time is moved to ``reports/previous/`` and the notebook of the
failure is kept as ``<study>.failed.ipynb``: nothing in ``reports/`` looks finished and is not.
"""

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
from .given import checked
from .saved import OUT
from .words import ReportError

TEMPLATE = Path(__file__).parents[1] / "template"
PARTS = (".html", ".ipynb", ".csv", ".json")  # what a finished study leaves in reports/
_BOX = '<section class="nf-verdict'
_NOT_PAGES = ("explore", "own-study")  # rendered when named, not with "all"


def notebook(study) -> Path:
    """The notebook of a study. Raises ReportError with the names that exist."""
    path = paths.notebooks() / f"{study}.ipynb"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", str(study)) or not path.exists():
        known = ", ".join(studies(everything=True)) or "none"
        raise ReportError(f"no study is called {study!r}; there are: {known}; nothing was run", 2)
    return path


def studies(everything=False) -> list:
    """Names of the notebooks that make a page."""
    names = sorted(p.stem for p in paths.notebooks().glob("*.ipynb"))
    return names if everything else [n for n in names if n not in _NOT_PAGES]


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
    with tempfile.TemporaryDirectory(prefix="noisefloor-page-") as scratch:
        scratch = Path(scratch)
        try:
            book = _execute(source, scratch / f"{study}.ipynb", values, timeout, progress)
            page = _page(book, study, scratch)
        except Exception:
            set_aside(study, out)
            if (scratch / f"{study}.ipynb").exists():
                text = _scrub((scratch / f"{study}.ipynb").read_text(), scratch)
                (out / f"{study}.failed.ipynb").write_text(text)
            raise
        (scratch / f"{study}.html").write_text(_scrub(page, scratch))
        for part in PARTS:  # the page last: when it is there, so is all that it links to
            finished = scratch / f"{study}{part}"
            if part != ".html" and finished.exists():
                shutil.move(finished, out / finished.name)
            elif part != ".html":
                (out / finished.name).unlink(missing_ok=True)
        shutil.move(scratch / f"{study}.html", out / f"{study}.html")
        (out / f"{study}.failed.ipynb").unlink(missing_ok=True)
    return out / f"{study}.html"


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
                progress_bar=False,
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
    except DeadKernelError:
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


def _page(book, study, folder) -> str:
    """The page's HTML from an executed notebook."""
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
    lead = re.search(r"<p>(.*?)</p>", body, re.S)
    description = facts.get("headline") or (re.sub("<[^>]+>", "", lead[1]) if lead else title)
    links = [(f"{study}.ipynb", "notebook")]
    links += [(f"{study}{p}", f"verdicts ({p[1:].upper()})") for p in (".csv", ".json") if facts]
    return shell(
        title=title,
        description=" ".join(description.split()),
        verdict=verdict,
        body=body,
        contents=contents,
        links=links,
        kind="study",
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
    """A whole HTML page: title description verdict body contents links kind."""
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
