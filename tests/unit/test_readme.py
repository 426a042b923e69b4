"""README and docs say what the software says: their samples are run, their links are followed, and
the findings are those of the published pages."""

import glob
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import done
from noisefloor import paths
from noisefloor.cli import main
from noisefloor.model import METRICS
from noisefloor.show import report
from noisefloor.show.markup import GLYPHS
from noisefloor.stats import verdict

ROOT, DOCS = paths.root(), paths.root() / "docs"
README = (ROOT / "README.md").read_text()
TEXTS = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
FURTHER = [
    f
    for at in ("data/raw", "data/raw/published", "tests/data")
    for f in ROOT.glob(f"{at}/*/README.md")
]
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.S | re.M)
LINK = re.compile(r"\]\((?!\w+:)([^)\s]+)\)")


def by_name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


# -- length and parts ------------------------------------------------------------------------------


def test_the_readme_is_one_screen():
    assert len(README.split()) <= 700


def test_the_index_of_docs_names_every_page():
    pages = {p.name for p in DOCS.glob("[a-z]*.*") if p.suffix != ".png"}
    linked = re.findall(r"\]\(([^)/]+)\)", (DOCS / "README.md").read_text())
    assert sorted(linked) == sorted(pages)


def test_pictures_are_there_small_and_told_in_words():
    shown = {}
    for file in TEXTS:
        for words, picture in re.findall(r"!\[([^\]]*)\]\((?!\w+:)([^)]+)\)", file.read_text()):
            assert len(words) > 60
            assert (file.parent / picture).stat().st_size <= 150_000
            shown.setdefault((file.parent / picture).resolve(), []).append(by_name(file))
    assert sorted(shown) == sorted(p.resolve() for p in DOCS.glob("*.png"))
    assert [names for names in shown.values() if "README.md" in names] == [["README.md"]]


# -- links -----------------------------------------------------------------------------------------


def prose(text: str) -> str:
    """A Markdown text without its code."""
    return re.sub(r"`[^`\n]*`", "", BLOCK.sub("", text))


def anchors(text: str) -> set[str]:
    """What a link can name behind its `#`: the headings of a Markdown text, as GitHub writes them."""
    seen: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", BLOCK.sub("", text), re.M):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        names.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return names


def test_anchors_are_those_of_the_headings():
    text = "# One\n## Exit codes, and JSON\n```\n# no heading\n```\n## `ab`: it's\n### One\n"
    assert anchors(text) == {"one", "exit-codes-and-json", "ab-its", "one-1"}


@pytest.mark.parametrize("file", [*TEXTS, *FURTHER], ids=by_name)
def test_links_lead_to_files_and_headings(file):
    for link in LINK.findall(prose(file.read_text())):
        path, _, anchor = link.partition("#")
        target = file.parent / path if path else file
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text()), link


def test_there_are_links_to_follow():
    assert len(LINK.findall(prose(README))) > 10
    assert any("#" in link for file in TEXTS for link in LINK.findall(prose(file.read_text())))


# -- commands --------------------------------------------------------------------------------------


def samples() -> Iterator[tuple[str, str, str]]:
    """(file, command, what it prints) of each command behind a `$` in the code of a text."""
    for file in TEXTS:
        for block in BLOCK.findall(file.read_text()):
            for sample in re.split(r"^\$ noisefloor ", block, flags=re.M)[1:]:
                command, _, printed = sample.partition("\n")
                yield by_name(file), command, printed


SAMPLES = [pytest.param(c, printed, id=f"{name}: {c}") for name, c, printed in samples()]


@pytest.mark.parametrize(("command", "printed"), SAMPLES)
def test_a_sample_is_what_the_command_prints(command, printed, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = [
        name
        for word in shlex.split(command)
        for name in (sorted(glob.glob(word)) if "*" in word else [word])
    ]
    assert done(*words).split() == printed.split()


def test_readme_and_docs_have_samples():
    assert {name for name, *_ in samples()} >= {"README.md", "docs/archives.md"}


def test_every_command_stands_in_its_list_and_every_one_there_exists():
    named = set(re.findall(r"^noisefloor ([a-z]+)", (DOCS / "commands.md").read_text(), re.M))
    assert named == set(main.commands)


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_has_help(name):
    assert len(done(name, "--help").splitlines()[2].strip()) > 20


# -- words and libraries ---------------------------------------------------------------------------


def test_the_words_of_the_table_are_those_that_the_rule_has():
    text = (DOCS / "reading-a-page.md").read_text()
    table = text.split("## A number and its word")[1].split("\n\n")[2]
    words = [line.split("|")[1].strip(" `") for line in table.splitlines()[2:]]  # one a row
    changes = {m.word(up) for m in METRICS.values() if m.judged for up in (True, False)}
    assert sorted(words) == sorted({*changes, verdict.SAME, verdict.CANNOT_TELL})
    assert f"\n\n`{verdict.PROVISIONAL}` stands where there is no verdict yet" in text
    assert ", ".join(f"{sign} {kind}" for kind, sign in GLYPHS.items()) in text


def test_the_table_of_libraries_holds_what_is_installed_for_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].items()
    needed = [*project["dependencies"], *(n for extra, of in extras if extra != "dev" for n in of)]
    table = re.findall(r"^\| ([a-z0-9, ]+) \|", (DOCS / "libraries.md").read_text(), re.M)
    assert sorted(", ".join(table).split(", ")) == sorted(n.partition(">")[0] for n in needed)


# -- findings --------------------------------------------------------------------------------------


def test_findings_are_those_of_the_published_pages():
    findings = README.split("<!-- findings -->\n")[1].split("<!-- /findings -->")[0]
    assert findings == report.published_findings()
    lines = findings.splitlines()
    assert len(lines) == 6
    assert "or rows stay readable" in lines[0]  # what surprises
    told = [line.partition(".html) ")[2].split() for line in lines]
    counts = [sum(bool(re.search(r"\w", word)) for word in words) for words in told]
    assert 0 < min(counts) <= max(counts) <= 40  # two processors, too
    assert [line for line in lines if " ms" in line] == []  # milliseconds stand on the pages
