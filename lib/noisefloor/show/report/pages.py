"""From a notebook to one self-contained page, rendered in a temporary folder and moved to
``reports/`` only when every cell ran. Else the last page goes to ``reports/previous/`` and the
notebook is kept as ``<study>.failed.ipynb``: no unfinished page looks finished."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from noisefloor import paths
from noisefloor.show.identity import without_folders
from noisefloor.show.report.arguments import checked
from noisefloor.show.report.execute import execute
from noisefloor.show.report.layout import page_of
from noisefloor.show.report.notebooks import notebook

PARTS = (".html", ".ipynb", ".csv", ".json")  # what a finished study leaves in reports/


def render(
    study: str,
    given: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    timeout: float = 3600,
) -> Path:
    """Run the notebook of the page `study` with the parameters `given` and write ``<study>.html``,
    ``.ipynb``, ``.csv`` and ``.json`` into `out` (default ``reports/``). Returns the page's path.

    `timeout`: seconds a cell. Raises ReportError: code 2 before anything ran, else 1, and then no
    file of this study is left that looks finished (see the top of this module)."""
    source = notebook(study)
    values = checked(source, given)
    out = Path(out or paths.reports()).resolve()
    out.mkdir(parents=True, exist_ok=True)
    for left in Path(tempfile.gettempdir()).glob("noisefloor-page-*-*"):  # of killed processes
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"noisefloor-page-{os.getpid()}-") as temporary:
        scratch = Path(temporary)
        parts = [scratch / f"{study}{part}" for part in PARTS]
        page, executed, *_ = parts
        try:
            book = execute(source, executed, values, timeout)
            _written(book, executed, values)
            text = page_of(book, study, source, values, scratch, out)
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
    """Put the `files` (name -> bytes) into `out` in place of the `last` ones; without room for all,
    nothing changes (OSError). The first, the page, appears last: what it links to is there then."""
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
    """Move the last page of a study, with the files beside it, to `previous/` in `out`."""
    for part in PARTS:
        if (out / f"{study}{part}").exists():
            (out / "previous").mkdir(exist_ok=True)
            os.replace(out / f"{study}{part}", out / "previous" / f"{study}{part}")


def _written(book: Any, target: Path, values: dict[str, Any]) -> None:
    """Write an executed notebook to `target`, the same bytes each time: without the paths and times
    that papermill adds."""
    import nbformat

    book.metadata["papermill"] = {"parameters": values}
    for number, cell in enumerate(book.cells):
        cell.id = f"cell-{number}"
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
    nbformat.validate(book)
    text = nbformat.writes(book)  # type: ignore[no-untyped-call]  # no types
    target.write_text(without_folders(text, target.parent) + "\n")
