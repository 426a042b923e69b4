"""The examples of `--help` parse, and the Tab key offers commands, studies, questions and campaigns."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from conftest import COMMAND, done
from noisefloor import paths, studies
from noisefloor.cli import main
from noisefloor.show import report

COMMANDS = sorted(main.commands)
SHELLS = re.findall(r"^.*_NOISEFLOOR_COMPLETE=.*$", (paths.root() / "docs/install.md").read_text(), re.M)  # fmt: skip
PAGES = sorted([*report.studies(), *report.of_questions()])
SLOW = {"numpy", "pandas", "scipy", "jinja2", "MySQLdb"}


# -- examples --------------------------------------------------------------------------------------


def parsed(name: str, *given: str) -> dict:
    """The parameters of a command line, which nothing executes."""
    command = main.commands[name]
    with command.make_context(name, list(given), parent=click.Context(main)) as context:
        return context.params


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_two_examples_or_more_that_parse(name):
    lines = (main.commands[name].epilog or "").splitlines()
    assert len(set(lines)) == len(lines) >= 2
    assert done(name, "--help").endswith("\n\nExamples:\n" + "".join(f"  {x}\n" for x in lines))
    for line in lines:
        word, command, *given = shlex.split(line)
        assert (word, command) == ("noisefloor", name)
        asked = parsed(name, *given)
        named = [asked.get("study"), *asked.get("studies", ())]
        assert {n for n in named if n} <= {*studies.STUDIES, *PAGES}


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_stand_in_one_place(name):
    assert "\b" not in main.commands[name].help


def test_an_example_with_a_wrong_option_would_be_seen():
    with pytest.raises(click.UsageError, match="--thraeds"):
        parsed("judge", "1", "2", "--thraeds", "4")


DOCUMENTED = {
    (file.name, line): shlex.split(re.split(r" {2,}", line)[0], comments=True)
    for file in [paths.root() / "README.md", *(paths.root() / "docs").glob("*.md")]
    for line in re.findall(r"^(?:\$ |- |\s+- )?noisefloor (.*)", file.read_text(), re.M)
}


@pytest.mark.parametrize(("place", "words"), DOCUMENTED.items(), ids=str)
def test_the_docs_name_commands_and_options_that_exist(place, words):
    name, *given = words
    command = main.commands[name]
    command.make_parser(click.Context(command, info_name=name)).parse_args(given)


def test_the_docs_show_every_command():
    assert {words[0] for words in DOCUMENTED.values()} >= set(COMMANDS) - {"completion"}


def test_an_upgrade_of_a_build_of_ones_own_is_in_help_and_docs():
    asked = [words for words in DOCUMENTED.values() if "--old" in words]
    assert asked == [["run", "version-upgrade", "--old", "FOLDER", "--engine", "FOLDER"]]
    assert "the old build, a name or a FOLDER." in " ".join(done("run", "--help").split())


def test_time_measures_for_30_seconds_where_nobody_says_another():
    assert parsed("time", "a", "b")["seconds"] == 30


# -- the Tab key -----------------------------------------------------------------------------------


def offered(*words: str) -> list[tuple[str, str]]:
    """(text, kind) of what is offered for the last of the words."""
    *before, text = words
    complete = ShellComplete(main, {}, "noisefloor", "_NOISEFLOOR_COMPLETE")
    return [(item.value, item.type) for item in complete.get_completions(before, text)]


def names(*words: str) -> list[str]:
    assert {kind for _, kind in offered(*words)} <= {"plain"}
    return [name for name, _ in offered(*words)]


def test_tab_offers_commands():
    assert names("") == COMMANDS
    assert names("co") == ["compare"]


@pytest.mark.parametrize("command", ["run", "history"])
def test_tab_offers_studies(command):
    assert names(command, "") == sorted({*studies.STUDIES} - {"own-study"})
    assert names(command, "ta") == ["tablespace-encryption"]


@pytest.mark.parametrize("study", sorted({*studies.STUDIES} - {"own-study"}))
def test_tab_offers_the_questions_of_the_study(study):
    assert names("run", study, "--question", "") == [*studies.questions(study), "all"]
    assert names("run", study, "--profile", "quick", "--question", "al") == ["all"]


def test_tab_knows_no_question_without_a_study():
    assert names("run", "--question", "") == names("run", "no-such", "--question", "") == []
    assert names("run", "../studies/settings", "--profile", "") == []


def test_tab_offers_pages_and_campaigns():
    assert names("report", "") == PAGES
    assert names("report", PAGES[0], "settings-d") == [
        "settings-doublewrite",
        "settings-durability",
    ]
    assert names("pack", "") == names("store", "x", "") == paths.campaigns() != []
    assert names("bundle", "") == [*PAGES, *paths.campaigns()]


@pytest.mark.parametrize(
    "words",
    [
        *("compare", "compare a --", "compare --from", "ingest", "ingest --out", "ingest --labels"),
        *("verify a", "report --from", "ab x=1,2 --lua"),
    ],
)
def test_tab_offers_files_where_a_file_is_meant(words):
    assert offered(*words.split(), "bef") == [("bef", "file")]


def test_tab_offers_options_behind_a_mistake():
    assert names("judge", "1", "-5", "--thr") == ["--threads"]


@pytest.mark.parametrize("line", [["run", "settings", "--question"], ["report"], ["bundle"], []])
def test_tab_imports_nothing_slow(line):
    code = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n{COMMAND[-1]}"  # fmt: skip
    asked = {"_NOISEFLOOR_COMPLETE": "bash_complete", "COMP_CWORD": str(len(line) + 1)}
    asked["COMP_WORDS"] = "\n".join(["noisefloor", *line, ""])
    ran = subprocess.run(
        [*COMMAND[:-1], code], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("plain,")
    assert SLOW & set(ran.stderr.split()) == set()


def test_bash_completes_with_the_line_of_the_docs():
    (line,) = (s.partition("#")[0] for s in SHELLS if "bash_source" in s)
    script = (
        f"{line}\nCOMP_WORDS=(noisefloor run settings --question du) COMP_CWORD=4\n"
        'complete -p noisefloor; _noisefloor_completion noisefloor; echo "${COMPREPLY[@]}"'
    )
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", "-c", script], env=env, capture_output=True, text=True, check=True
    )
    set_up, completed = ran.stdout.splitlines()
    assert "-F _noisefloor_completion noisefloor" in set_up
    assert completed == "durability"


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete "), ("zsh", "compdef "), ("fish", "complete ")])  # fmt: skip
def test_the_docs_have_a_line_for_each_shell(shell, word):
    assert len([line for line in SHELLS if f"={shell}_source noisefloor" in line]) == 1
    asked = os.environ | {"_NOISEFLOOR_COMPLETE": f"{shell}_source"}
    ran = subprocess.run(COMMAND, env=asked, capture_output=True, text=True, check=True)
    assert word in ran.stdout
