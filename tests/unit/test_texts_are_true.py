"""What comments, docstrings and documents say of the code."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import noisefloor
from noisefloor import paths
from noisefloor.data import ingest
from noisefloor.data.ingest import labels

LIBRARY = Path(noisefloor.__file__).parent
PACKAGES = {p.stem for p in LIBRARY.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
NAMED = re.compile(r"`((?:noisefloor\.)?[a-z_]+(?:\.[A-Za-z_]+)+)`")
TEXTS = [*LIBRARY.rglob("*.py"), *LIBRARY.rglob("*.toml"), *(LIBRARY.parents[1] / "docs").glob("*.md"), LIBRARY.parents[1] / "CONTRIBUTING.md"]  # fmt: skip
FILES = {
    ".toml",
    ".py",
    ".json",
    ".md",
    ".csv",
    ".cnf",
    ".txt",
    ".lua",
    ".xz",
    ".pem",
    ".zip",
    ".ipynb",
}


def there(name: str, beside: Path) -> bool:
    """Whether a dotted name is a module of ours, or something in one, seen from a file."""
    first, *rest = name.removeprefix("noisefloor.").split(".")
    package = (
        beside.relative_to(LIBRARY).parent.as_posix().replace("/", ".")
        if beside.is_relative_to(LIBRARY)
        else ""
    )
    for prefix in {"noisefloor", f"noisefloor.{package}".strip(".")}:
        try:
            found = importlib.import_module(f"{prefix}.{first}")
            for part in rest:
                try:
                    found = importlib.import_module(f"{found.__name__}.{part}")
                except (ImportError, AttributeError):
                    found = getattr(found, part)
            return True
        except (ImportError, AttributeError):
            continue
    return False


@pytest.mark.parametrize("file", TEXTS, ids=lambda f: f.name)
def test_every_name_that_a_text_quotes_exists(file):
    names = {
        n
        for n in NAMED.findall(file.read_text())
        if n.removeprefix("noisefloor.").split(".")[0] in PACKAGES
    }
    names = {n for n in names if f".{n.rsplit('.', 1)[1]}" not in FILES}
    assert [n for n in sorted(names) if not there(n, file)] == []


def test_the_package_is_a_command():
    argv = [sys.executable, "-m", "noisefloor", "judge", "100", "1000"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "FASTER")


@pytest.mark.parametrize("script", sorted((paths.root() / "data/raw/published/scatter").glob("*.py")), ids=lambda f: f.name)  # fmt: skip
def test_the_scripts_of_published_data_start(script):
    names = re.findall(
        r"^(?:from (noisefloor\S*) import (.+)|import (noisefloor\S*))$", script.read_text(), re.M
    )
    for package, members, whole in names:
        found = importlib.import_module(package or whole)
        for member in (m.partition(" as ")[0] for m in filter(None, members.split(", "))):
            assert hasattr(found, member) or importlib.import_module(f"{package}.{member}")


def test_a_column_that_no_table_has_is_an_error():
    with pytest.raises(KeyError, match="colour: no column of the table intervals"):
        ingest.arrow("intervals", [(1, {"run": "x", "colour": "red"})])


def test_what_was_read_by_another_parser_is_read_again(tmp_path, monkeypatch):
    """The edition of an ingested tree changes with each file that says how a text is read."""
    before = labels.edition()
    for name in (
        "parse/sysbench_text.py",
        "tools/pgbench.py",
        "data/ingest/layouts.toml",
        "parse/forms.toml",
    ):
        changed = LIBRARY / name
        read = Path.read_bytes
        monkeypatch.setattr(Path, "read_bytes", lambda f, c=changed, r=read: r(f) + b"#" * (f == c))
        labels.edition.cache_clear()
        assert labels.edition() != before
        monkeypatch.undo()
    labels.edition.cache_clear()
    assert labels.edition() == before


def test_nothing_travels_in_the_attributes_of_a_frame():
    """Which pandas drops where tables are put together."""
    books = paths.root() / "notebooks"
    files = [*LIBRARY.rglob("*.py"), *books.rglob("*.py"), *books.glob("*.ipynb")]
    assert books / "analysis" / "archives.py" in files
    assert [f.name for f in files if ".attrs" in f.read_text()] == []


def test_all_sql_goes_through_one_module():
    """But for that of a history, which is in a database of its user's choice."""
    found = [f for f in LIBRARY.rglob("*.py") if "create_engine(" in f.read_text()]
    assert sorted(f.relative_to(LIBRARY).as_posix() for f in found) == [
        "servers/session.py",
        "store.py",
    ]
