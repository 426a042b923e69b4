"""From a notebook to one self-contained page.

Parameters are checked before anything runs. A page is rendered in a temporary folder and moved to
``reports/`` only when every cell ran. When a rendering fails, the page of last time is moved to
``reports/previous/`` and the notebook of the failure is kept as ``<study>.failed.ipynb``: nothing
in ``reports/`` looks finished and is not.
"""

import ast
import difflib
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from noisefloor import paths
from noisefloor.data import results
from noisefloor.parse import secrets
from noisefloor.show import plots
from noisefloor.show.identity import without_folders
from noisefloor.show.markup import TEMPLATE, environment, piece, safe, text_of_html
from noisefloor.show.report.pieces import OUT, raw_links
from noisefloor.show.report.words import ReportError
from noisefloor.studies import own_pages

PARTS = (".html", ".ipynb", ".csv", ".json")  # what a finished study leaves in reports/
_BOX = '<section class="nf-verdict'
_OWN, _TIMED = "own-study", "time"
# how pages begin that share a notebook
_SHARED = {"ab-": _OWN, "time-": _TIMED, "archive-": "archive"}
# notebooks of campaigns that answer their user's own question, and what measures one
MEASURED_BY = {_OWN: "ab VARIABLE=OFF,ON", _TIMED: "time 'COMMAND A' 'COMMAND B'"}
_NOT_PAGES = ("explore", *MEASURED_BY, "archive")  # rendered when named, not with "all"


def notebook(study: str) -> Path:
    """The notebook of a study. Raises ReportError with the names that exist."""
    path = paths.notebooks() / f"{study}.ipynb"
    if study in of_questions():
        path = paths.notebooks() / f"{_OWN}.ipynb"
    for start, shared in _SHARED.items():
        if study.startswith(start) and not path.exists():
            path = paths.notebooks() / f"{shared}.ipynb"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", study) or not path.exists():
        known = ", ".join([*studies(everything=True), *of_questions()]) or "none"
        raise _refused(f"no study is called {study!r}; there are: {known}")
    return path


def studies(everything: bool = False) -> list[str]:
    """Names of the notebooks that make a page; of all notebooks with `everything`."""
    names = sorted(p.stem for p in paths.notebooks().glob("*.ipynb"))
    return names if everything else [n for n in names if n not in _NOT_PAGES]


def of_questions() -> dict[str, tuple[str, str]]:
    """{name of a page: (study, question)} of the questions that have a page of their own, made by the
    notebook own-study."""
    return own_pages() if (paths.notebooks() / f"{_OWN}.ipynb").exists() else {}


def method(source: Path) -> str:
    """Fingerprint of all that makes a page from raw files: the library, its notebook and the analysis
    beside it."""
    library = sorted(Path(__file__).parents[2].rglob("*.*"))
    beside = sorted((source.parent / "analysis").glob("*.py"))
    files = [*(f for f in library if f.suffix in (".py", ".toml", ".j2")), *beside, source]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]


# -- parameters ------------------------------------------------------------------------------------

_CAMPAIGNS = ("campaign", "campaigns")  # their names, or ""
_OPENED = ("source", "against")  # a campaign's name or the path of an archive
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, SyntaxError)


class _Parameter(NamedTuple):
    """One line of a notebook's parameters cell; `like`: a value of its type, which an empty list
    names in its comment."""

    name: str
    default: Any
    like: Any


def parameters(notebook: Path) -> dict[str, _Parameter]:
    """The parameters of a notebook by name, read from the cell tagged `parameters` (literals only,
    one a line, a trailing comment is the help); none without such a cell. Raises ReportError for
    what is no notebook, or no literal. papermill's own inspection is not used: it stumbles over '='
    inside a string."""
    declared: dict[str, _Parameter] = {}
    try:
        cells = json.loads(notebook.read_text()).get("cells", [])
        tagged = (c["source"] for c in cells if "parameters" in c["metadata"].get("tags", []))
        source = "".join(next(tagged, ""))
        nodes = ast.parse(source).body
    except _UNREADABLE as e:
        words = f"{notebook.name} is no notebook that can be read ({e}); nothing was run"
        raise ReportError(words, 2) from None
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                pass
            case _:
                continue
        try:
            default = like = ast.literal_eval(value)
        except ValueError:
            raise ReportError(
                f"the parameters cell of {notebook.name} assigns {ast.unparse(node)!r}, which is "
                "not a literal; nothing was run"
            ) from None
        line = source.splitlines()[(node.end_lineno or 0) - 1]
        if default == [] and (named := re.search(r"#.*such as (\[[\d, ]+\])", line)):
            like = ast.literal_eval(named[1])
        declared[name] = _Parameter(name, default, like)
    return declared


def checked(notebook: Path, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """`given` values (text as from a command line, or Python values) in the types of the
    notebook's defaults. Raises ReportError in one sentence for a wrong name, a wrong type, or a
    campaign that does not exist."""
    known, study, result = parameters(notebook), notebook.stem, {}
    for name, value in (given or {}).items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            has = ", ".join(known) or "none"
            raise _refused(f"{study} has no parameter {name!r}{hint}; it has: {has}")
        result[name] = _typed(study, known[name], value)
        if secrets.scrub(str(result[name]))[1]:
            words = f"parameter {name!r} of {study} holds a password, which the page would print"
            raise _refused(words)
    for name in (*_CAMPAIGNS, *_OPENED):
        given_file = name in _OPENED and re.search(r"/|\.parquet$", result.get(name, ""))
        if result.get(name) and not given_file:  # a file is looked for by the notebook itself
            try:
                results.named(result[name])
            except paths.NotFound as problem:
                raise _refused(problem) from None
    return result


def _refused(words: object) -> ReportError:
    return ReportError(f"{words}; nothing was run", 2)


def _typed(study: str, parameter: _Parameter, value: Any) -> Any:
    """A value in the type of a parameter."""
    want = parameter.like
    if isinstance(value, str) and not isinstance(want, str):
        value = _literal(value)
    if isinstance(want, list):
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        if {*map(type, items)} <= ({*map(type, want)} or {str, int, float}):
            return items
    elif want is None or type(value) is type(want):
        return value
    elif type(want) is float and type(value) is int:
        return float(value)
    like = f" like {json.dumps(want)}" if want else ""
    kind = _KINDS.get(type(want), f"a list{like}")
    raise _refused(f"parameter {parameter.name!r} of {study} was given {value!r}; it is {kind}")


def _literal(text: str) -> Any:
    """What a text from a command line means: a literal, or a list without its brackets."""
    for attempt in (text, text.capitalize(), f"[{text}]"):  # true, false, none
        try:
            return ast.literal_eval(attempt)
        except (ValueError, SyntaxError):
            continue
    return text


# -- rendering -------------------------------------------------------------------------------------


def render(
    study: str,
    given: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    timeout: float = 3600,
) -> Path:
    """Run the notebook of `study` with the parameters `given` and write ``<study>.html``,
    ``.ipynb``, ``.csv`` and ``.json`` into `out` (default ``reports/``). Returns the page's path.

    `timeout`: seconds a cell. Raises ReportError: code 2 before anything ran, else 1, and then no
    file of this study is left that looks finished (see the top of this module)."""
    source = notebook(study)
    values = checked(source, given)
    out = Path(out or paths.reports()).resolve()
    out.mkdir(parents=True, exist_ok=True)
    for left in Path(tempfile.gettempdir()).glob("noisefloor-page-*-*"):  # by one that was killed
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"noisefloor-page-{os.getpid()}-") as temporary:
        scratch = Path(temporary)
        parts = [scratch / f"{study}{part}" for part in PARTS]
        page, executed, *_ = parts
        try:
            book = _execute(source, executed, values, timeout)
            text = _page(book, study, source, values, scratch, out)
            page.write_text(without_folders(text, scratch))
            last = [out / part.name for part in parts]
            placed(out, {p.name: p.read_bytes() for p in parts if p.exists()}, last)
        except Exception:
            set_aside(study, out)
            if executed.exists() and not page.exists():
                text = without_folders(executed.read_text(), scratch)
                (out / f"{study}.failed.ipynb").write_text(text)
            raise
    (out / f"{study}.failed.ipynb").unlink(missing_ok=True)
    return out / f"{study}.html"


def placed(out: Path, files: dict[str, bytes], last: Iterable[Path] = ()) -> None:
    """Write the `files` (name -> bytes) into `out`. All have room there before those of the `last`
    time go, and the first comes last: when the page is there, so is all that it links to."""
    partial = {name: out / f"{name}.partial" for name in files}
    try:
        for name, content in files.items():
            partial[name].write_bytes(content)
    except OSError:
        for file in partial.values():
            file.unlink(missing_ok=True)
        raise
    for file in last:
        file.unlink(missing_ok=True)
    for name in reversed(files):
        partial[name].replace(out / name)


def set_aside(study: str, out: Path) -> None:
    """Move the page of last time, with all that lies beside it, to previous/."""
    for part in PARTS:
        if (out / f"{study}{part}").exists():
            (out / "previous").mkdir(exist_ok=True)
            os.replace(out / f"{study}{part}", out / "previous" / f"{study}{part}")


def _execute(source: Path, target: Path, values: dict[str, Any], timeout: float) -> Any:
    """The executed notebook, also written to `target`; ReportError when any cell did not run."""
    import nbformat
    import papermill
    from jupyter_client import AsyncKernelManager
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    class Kernel(AsyncKernelManager):
        """What cells say comes as messages; what Jupyter says as a kernel ends is for nobody."""

        async def _async_launch_kernel(self, kernel_cmd: list[str], **given: Any) -> None:
            await super()._async_launch_kernel(kernel_cmd, stderr=subprocess.DEVNULL, **given)

    logging.getLogger("papermill").setLevel(logging.ERROR)
    name, sockets = source.stem, str(target.parent / "kernel")
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
                execution_timeout=timeout,
                cwd=paths.root(),
                kernel_manager_class=Kernel,
                # unix sockets in our private folder: nobody else can talk to the kernel
                config=Config({"KernelManager": {"transport": "ipc", "ip": sockets}}),
            )
    except PapermillExecutionError as problem:
        error = " ".join(str(problem.evalue).split())
        raise ReportError(
            f"{name} stopped in cell {problem.exec_count}: {problem.ename}: {error[:400]}"
        ) from None
    except CellTimeoutError:
        raise ReportError(f"{name} stopped: a cell took longer than {timeout} s") from None
    except RuntimeError as problem:  # a kernel that died before it answered has no class of its own
        if not isinstance(problem, DeadKernelError) and "Kernel died" not in str(problem):
            raise
        raise ReportError(f"{name} stopped: its kernel was killed or died") from None
    finally:
        del os.environ[OUT]
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
    text = nbformat.writes(book)  # type: ignore[no-untyped-call]  # no types
    target.write_text(without_folders(text, target.parent) + "\n")
    return book


# -- the page --------------------------------------------------------------------------------------


def _page(
    book: Any, study: str, source: Path, values: dict[str, Any], folder: Path, out: Path
) -> str:
    """The HTML of the page that will stand in `out`, from an executed notebook."""
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
    beside = folder / f"{study}.json"
    facts = json.loads(beside.read_text()) if beside.exists() else {}
    if study != source.stem:  # a template's own heading does not say what was asked
        title = facts.get("title", title)
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
        links=piece("links", links, raw_links(facts, out)),
        kind="study",
        made=json.dumps(made),
    )


def _headed(body: str, title: str) -> tuple[str, str, list[tuple[str, str]]]:
    """(title, body, contents) of a page: its first h1 is its title, every other heading has an id
    of its own, and the contents are (id, text) of h2."""
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
    """A whole HTML page: title description verdict body contents links kind made."""
    css = plots.PARTS_CSS.read_text() + (TEMPLATE / "style.css").read_text()
    markup = {key: safe(page.get(key, "")) for key in ("verdict", "body")}
    return environment().get_template("page.html.j2").render(page | markup, css=safe(css))
