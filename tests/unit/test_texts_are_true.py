"""What comments, docstrings and documents say of the code."""

import ast
import html
import importlib
import itertools
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


def test_the_picture_has_every_package_and_the_way_to_a_verdict_at_most_eight_steps():
    text = (LIBRARY.parents[1] / "docs" / "architecture.md").read_text()
    picture = next(block for block in text.split("```") if "paths   " in block)
    named = set(re.findall(r"\w+", picture))
    assert PACKAGES - {"__init__", "__main__"} - named == set()
    _, way = text.split("## From a line of sysbench to a verdict")
    assert 0 < len(re.findall(r"^\d+\. ", way, re.M)) <= 8


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


def printed(code: str) -> str:
    """What a new interpreter prints."""
    argv = [sys.executable, "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_tables_are_made_without_pandas():
    """Its import takes as long as reading 500 files; a frame is made with it all the same."""
    code = (
        "import sys\nfrom noisefloor.data import ingest\n"
        "table = ingest.arrow('problems', [(1, {'file': 'a', 'line': 7, 'reason': 'cut'})])\n"
        "print('pandas' in sys.modules, table.to_pandas()['line'].tolist())"
    )
    assert printed(code) == "False [7]\n"


def test_pandas_is_found_again_where_arrow_breaks_meanwhile():
    code = (
        "import sys, pyarrow\n"
        "def array(values): raise MemoryError\n"
        "pyarrow.array, before = array, [*sys.meta_path]\n"
        "try:\n    import noisefloor.data.ingest\n"
        "except MemoryError:\n    print(sys.meta_path == before)"
    )
    assert printed(code) == "True\n"


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


SIGNED = re.compile(r"\{[^{}]*:\+")  # a number with its sign, in a text for `str.format`
CUTS = {"endswith", "removesuffix", "replace", "partition", "rpartition", "split", "rsplit"}
UNITS = {"%", " %", "\u202f%", "times", " times", "×", " to ", " (", "−"}
READS_TEXT = ("parse/", "tools/", "data/ingest/", "text/quantity.py")  # which others wrote


def is_a_text(node: ast.AST, of: str = "") -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and of in node.value


def has_a_sign(text: ast.JoinedStr) -> bool:
    """Whether an f-string writes a number with a sign: by `:+`, or after a sign."""
    for before, part in itertools.pairwise([ast.Constant(""), *text.values]):
        if isinstance(part, ast.FormattedValue) and isinstance(part.format_spec, ast.JoinedStr):
            first = part.format_spec.values[:1]
            if any(is_a_text(spec) and spec.value.startswith("+") for spec in first):
                return True
            if is_a_text(before) and before.value.endswith(("+", "−", "±")):
                return True
    return False


def writes_a_change(node: ast.AST) -> bool:
    """Whether code writes a change on its own, or takes the text of one apart."""
    if isinstance(node, ast.JoinedStr):
        return has_a_sign(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        cut = node.func.attr in CUTS and node.args
        return bool(cut) and is_a_text(node.args[0]) and node.args[0].value in UNITS
    return is_a_text(node, "−") or (is_a_text(node) and SIGNED.search(node.value) is not None)


def changes_written_in(source: str) -> list[int]:
    """The lines of a source that do; docstrings may show what is written."""
    nodes = list(ast.walk(ast.parse(source)))
    shown = {id(n.value) for n in nodes if isinstance(n, ast.Expr) and is_a_text(n.value)}
    return [n.lineno for n in nodes if id(n) not in shown and writes_a_change(n)]


@pytest.mark.parametrize(
    "code",
    [
        "f'{change:+.1f} %'",
        "f'{change:+g}'",
        "'{change:+.0f} %'.format(change=change)",
        "f'within ±{margin:g} %'",
        "f'up to +{change:.1f} %'",
        "number.replace('-', '\u2212')",
        "text.endswith(' times')",
        "text.removesuffix('\u202f%')",
        "text.partition(' (')",
    ],
)
def test_a_change_that_is_written_somewhere_else_is_seen(code):
    assert 1 in changes_written_in(code)


def test_one_module_writes_changes():
    """`text.amounts`; whoever needs a part of what it wrote asks it for that part."""
    files = {f.relative_to(LIBRARY).as_posix(): f for f in LIBRARY.rglob("*.py")}
    lines = {n: changes_written_in(f.read_text()) for n, f in files.items() if not n.startswith(READS_TEXT)}  # fmt: skip
    assert [name for name, written in lines.items() if written] == ["text/amounts.py"]


def test_all_sql_goes_through_one_module():
    """But for that of a history, which is in a database of its user's choice."""
    found = [f for f in LIBRARY.rglob("*.py") if "create_engine(" in f.read_text()]
    assert sorted(f.relative_to(LIBRARY).as_posix() for f in found) == [
        "servers/session.py",
        "store.py",
    ]


# what readers did not understand, or laughed at; the project's own name may stay
NOT_UNDERSTOOD = (
    *("noise floor", "not judged", "under contention", "levelled", "weighted by the A/A"),
    *("overhead", "costs throughput", "brings throughput", "two one-sided", r"\.\d.% interval"),
    *("would settle it", "too few blocks", "signs of the blocks", "read them one by one"),
    *("not what was measured", "some ten times slower", "same instructions exist"),
    "instrument is honest",
)
READ = (
    *(file for file in LIBRARY.rglob("*.*") if file.suffix not in (".pyc", ".json")),
    *(file for kind in ("*.ipynb", "*.py") for file in paths.notebooks().rglob(kind)),
    *(paths.root() / "docs").glob("*.md"),
    paths.root() / "README.md",
    *(paths.root() / "reports" / "published").glob("*/*.html"),
)


def read_text(file: Path) -> str:
    """What a reader sees of a file: of a page neither style nor code."""
    text = file.read_text()
    if file.suffix == ".html":
        text = re.sub(r"<(style|script|pre)\b.*?</\1>", " ", text, flags=re.S)
        text = html.unescape(re.sub("<[^>]+>", " ", text))
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("file", READ, ids=lambda f: f.name)
def test_no_text_says_what_readers_did_not_understand(file):
    found = re.findall("|".join(NOT_UNDERSTOOD), read_text(file), re.I)
    assert found == []


@pytest.mark.parametrize(
    "phrase", ["A noise\nfloor of 1.1 %", "two one-sided tests", "97.2 % interval"]
)
def test_a_phrase_that_readers_did_not_understand_is_seen(tmp_path, phrase):
    (tmp_path / "page.html").write_text(f"<p>{phrase}</p>")
    assert re.search("|".join(NOT_UNDERSTOOD), read_text(tmp_path / "page.html"), re.I)
