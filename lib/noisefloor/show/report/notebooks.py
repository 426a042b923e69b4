"""The notebooks that make pages, and the fingerprint of everything that makes a page."""

import hashlib
import re
from pathlib import Path

from noisefloor import paths
from noisefloor.show.report.words import ReportError
from noisefloor.studies import own_pages

_OWN, _TIMED = "own-study", "time"
# how the names of pages begin that share a notebook, and its name
_SHARED = {"ab-": _OWN, "time-": _TIMED, "archive-": "archive"}
# notebooks for the user's own questions, and the command that measures one
MEASURED_BY = {_OWN: "ab VARIABLE=OFF,ON", _TIMED: "time 'COMMAND A' 'COMMAND B'"}
_NOT_PAGES = ("explore", *MEASURED_BY, "archive")  # rendered only when they are named


def notebook(study: str) -> Path:
    """The notebook of a study or page. Raises ReportError with the names that exist."""
    path = paths.notebooks() / f"{study}.ipynb"
    if study in of_questions():
        path = paths.notebooks() / f"{_OWN}.ipynb"
    for start, shared in _SHARED.items():
        if study.startswith(start) and not path.exists():
            path = paths.notebooks() / f"{shared}.ipynb"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", study) or not path.exists():
        known = ", ".join([*studies(everything=True), *of_questions()]) or "none"
        raise refused(f"no study is called {study!r}; there are: {known}")
    return path


def studies(everything: bool = False) -> list[str]:
    """Names of the notebooks that make a page, sorted; of all notebooks with `everything`."""
    names = sorted(p.stem for p in paths.notebooks().glob("*.ipynb"))
    return names if everything else [n for n in names if n not in _NOT_PAGES]


def of_questions() -> dict[str, tuple[str, str]]:
    """{name of a page: (study, question)} of the questions that have a page of their own, made by the
    notebook own-study; {} without that notebook."""
    return own_pages() if (paths.notebooks() / f"{_OWN}.ipynb").exists() else {}


def method(source: Path) -> str:
    """Fingerprint (12 hex digits) of the code that makes a page: library, notebook (`source`)
    and the analysis beside it."""
    library = sorted(Path(__file__).parents[2].rglob("*.*"))
    beside = sorted((source.parent / "analysis").glob("*.py"))
    files = [*(f for f in library if f.suffix in (".py", ".toml", ".j2", ".csv")), *beside, source]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]


def refused(words: object, undone: str = "run") -> ReportError:
    """The error (code 2) of a wrong request. `undone`: what was not done ("nothing was run")."""
    return ReportError(f"{words}; nothing was {undone}", 2)
