"""The README says what the software says: its examples are run, its findings are recomputed."""

import json
import re
import shlex

import pytest
from click.testing import CliRunner

from noisefloor import paths
from noisefloor.cli import main
from noisefloor.stats import rule

README = (paths.root() / "README.md").read_text()


def test_the_judge_examples_are_what_the_command_prints():
    block = re.search(r"```\n(\$ noisefloor judge .*?)```", README, re.S)[1]
    examples = re.findall(r"^\$ noisefloor (.*?)\n(.*?)(?=^\$|\Z)", block, re.S | re.M)
    assert len(examples) == 2
    for command, printed in examples:
        said = CliRunner().invoke(main, shlex.split(command)).output
        assert said.split() == printed.split()


def test_the_words_of_the_table_are_those_that_the_rule_has():
    table = README.split("## How to read a verdict")[1].split("\n\n")[1]
    words = [
        w for line in table.splitlines()[2:] for w in re.findall(r"`([a-z ]+)`", line.split("|")[1])
    ]
    assert words == [rule.SLOWER, rule.FASTER, rule.SAME, rule.CANNOT_TELL]


def test_every_command_stands_in_the_readme_and_every_one_there_exists():
    named = set(re.findall(r"^noisefloor ([a-z]+)", README, re.M))
    assert named == set(main.commands)


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_has_help(name):
    said = CliRunner().invoke(main, [name, "--help"])
    assert said.exit_code == 0
    assert len(said.output.splitlines()[2].strip()) > 20


def test_every_dependency_stands_in_the_table_of_libraries():
    wanted = re.search(
        r"^dependencies = \[(.*?)\]", (paths.root() / "pyproject.toml").read_text(), re.S | re.M
    )
    names = re.findall(r'"([a-z0-9]+)', wanted[1])
    table = README.split("## Libraries")[1].split("##")[0]
    assert [n for n in names if n not in table] == []


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
    shown = re.findall(r"!\[(.*?)\]\((docs/.*?\.png)\)", README)
    assert {f"docs/{p.name}" for p in (paths.root() / "docs").glob("*.png")} == {
        f for _, f in shown
    }
    assert len(shown) == 3
    for words, file in shown:
        assert len(words) > 60
        assert (paths.root() / file).stat().st_size <= 150_000
