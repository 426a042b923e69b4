"""The README says what the software says: its examples are run, its findings are recomputed."""

import json
import re
import shlex
import tomllib

import pytest

from conftest import done
from noisefloor import paths
from noisefloor.cli import main
from noisefloor.model import METRICS
from noisefloor.stats import verdict

README = (paths.root() / "README.md").read_text()


def test_the_judge_example_is_what_the_command_prints():
    command, printed = re.search(r"```\n\$ noisefloor (judge .*?)\n(.*?)```", README, re.S).groups()
    assert done(*shlex.split(command)).split() == printed.split()


def test_the_words_of_the_table_are_those_that_the_rule_has():
    table = README.split("## How to read a result")[1].split("\n\n")[2]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    words = [w for cell in cells for w in re.findall(r"`([a-z ]+)`", cell)]
    changes = {m.word(up) for m in METRICS.values() if m.judged for up in (True, False)}
    assert sorted(words) == sorted({*changes, verdict.SAME, verdict.CANNOT_TELL, verdict.NOT_YET})


def test_every_command_stands_in_the_readme_and_every_one_there_exists():
    named = set(re.findall(r"^noisefloor ([a-z]+)", README, re.M))
    assert named == set(main.commands)


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_has_help(name):
    assert len(done(name, "--help").splitlines()[2].strip()) > 20


def test_every_dependency_stands_in_the_table_of_libraries():
    project = tomllib.loads((paths.root() / "pyproject.toml").read_text())["project"]
    table = README.split("## Libraries")[1].split("##")[0]
    assert [n for n in project["dependencies"] if n not in table] == []


def test_findings_are_those_of_the_published_pages():
    said = README.split("<!-- findings -->")[1].split("<!-- /findings -->")[0]
    headlines = re.findall(r"\]\((reports/published/[^)]+)\)\*\*: (.*)", said)
    assert headlines
    for page, sentence in headlines:
        facts = json.loads((paths.root() / page).with_suffix(".json").read_text())
        assert facts["headline"] == sentence


def test_links_lead_to_files():
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (paths.root() / link).exists(), link


def test_pictures_are_there_small_and_told_in_words():
    shown = {f: words for words, f in re.findall(r"!\[(.*?)\]\((docs/.*?\.png)\)", README)}
    assert set(shown) == {f"docs/{p.name}" for p in (paths.root() / "docs").glob("*.png")}
    assert len(shown) == 3
    for file, words in shown.items():
        assert len(words) > 60
        assert (paths.root() / file).stat().st_size <= 150_000
