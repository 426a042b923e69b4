"""Wrong words in a command line, wrong parameters of notebooks, folders that were tampered with."""

import copy
import json
import random
import shutil
import tomllib

import click
import pytest

from conftest import DATA, ROOT, planned, refused
from conftest import noisefloor as run
from live import SEED
from noisefloor import paths, store, studies
from noisefloor.cli import main
from noisefloor.data import results, tidy
from noisefloor.data.ingest import build
from noisefloor.show import report

STUDY = "binlog-encryption"
NOTEBOOKS = sorted(p.stem for p in paths.notebooks().glob("*.ipynb"))


@pytest.fixture
def project(home):
    """A project folder with the notebooks and nothing measured."""
    shutil.copytree(ROOT / "notebooks", home / "notebooks")
    return home


def inside(folder) -> list:
    return sorted(p for p in folder.rglob("*") if p.is_file())


# -- commands --------------------------------------------------------------------------------------

WRONG = {  # a word that the type refuses; of text and paths every word may be right
    "integer": ["x", "1.5", ""],
    "integer range": ["x", "0", "1.5"],
    "float": ["x", "", "1,5"],
    "choice": ["nonsense", ""],
}


def generic():
    """Each command with a wrong word for each option that has a type, an option that it does not
    have, and one word too many."""
    for name, command in main.commands.items():
        takes = [p for p in command.params if isinstance(p, click.Argument)]
        needed = ["1"] * sum(p.required and p.nargs == 1 for p in takes)
        yield [name, *needed, "--no-such-option"]
        if all(p.nargs == 1 for p in takes):
            yield [name, *needed, "one", "too-many"]
        for p in command.params:
            if isinstance(p, click.Option) and not p.is_flag:
                for word in WRONG.get(p.type.name, []):
                    yield [name, *needed, p.opts[-1], *[word] * p.nargs]
        if needed:
            yield [name]
    yield ["no-such-command"]
    yield ["--no-such-option"]


@pytest.mark.parametrize("args", list(generic()), ids=" ".join)
def test_a_wrong_word_is_one_sentence_and_nothing_is_done(args, project):
    before = inside(project)
    refused(run(*args))
    assert inside(project) == before


REQUESTS = tomllib.loads((DATA / "refused.toml").read_text())["requests"]


@pytest.mark.parametrize(("line", "code", "words"), REQUESTS, ids=[r[0] for r in REQUESTS])
def test_a_wrong_request_is_one_sentence_and_nothing_is_done(line, code, words, project):
    before = inside(project)
    said = run(*line.replace("DATA", str(DATA)).split())
    refused(said, code, words)
    assert "hunter2" not in said.stderr
    assert "nothing was measured" in said.stderr or " --server " not in line
    assert inside(project) == before


@pytest.mark.parametrize("name", ["HOME", "RUNS", "ENGINES", "REPORTS", "STORE"])
@pytest.mark.parametrize("value", ["file", "nowhere", "unreadable", "\udcff"])
def test_a_folder_in_the_environment_that_is_none(name, value, project, tmp_path):
    place = tmp_path / f"odd-{value}"
    if value == "file":
        place.write_text("no folder\n")
    with pytest.MonkeyPatch.context() as patch:  # undone before the project's own
        patch.setenv(f"NOISEFLOOR_{name}", str(place))
        for line in ("store", f"history {STUDY}", f"run {STUDY} --profile nonsense", "report no-such"):  # fmt: skip
            result = run(*line.split())
            assert result.exception is None or isinstance(result.exception, SystemExit), line
            assert "Traceback" not in result.output


# -- notebooks -------------------------------------------------------------------------------------


def wrong_values():
    for name in NOTEBOOKS:
        yield name, "no_such_parameter", "1"
        for parameter in report.parameters(report.notebook(name)).values():
            if isinstance(parameter.default, bool | int | float):
                yield name, parameter.name, "a word"
                yield name, parameter.name, "[1, 2]"
            elif isinstance(parameter.default, list | tuple):
                yield name, parameter.name, "{'a': 1}"


@pytest.mark.parametrize(("name", "parameter", "value"), list(wrong_values()))
def test_a_wrong_parameter_of_a_notebook_is_one_sentence(name, parameter, value, project):
    before = inside(project)
    result = run("report", name, "-p", parameter, value)
    refused(result, words=parameter)
    assert "; nothing was " in result.stderr
    assert inside(project) == before


# -- campaigns -------------------------------------------------------------------------------------


def read_all(campaign):
    """Everything that a page, `store`, `history` and `ingest` read of a campaign."""
    build.build(campaign, campaign.with_name("tables"), None)
    opened = results.load(campaign)
    store._rows(campaign)
    for of in (results.proofs, results.warnings):
        of(opened)
    for of in (results.skipped, results.workloads):
        of(opened)
    opened.pairs(results.main_workload(opened), "tps")
    results.medians(opened, results.main_workload(opened), ("tps",))
    tidy.intervals(campaign)
    tidy.differences(campaign)
    report.verdict_box(opened.verdicts, opened.meta)
    report.verdict_table(opened.verdicts)
    report.provenance(opened.meta)


def places(value, where=()):
    """Every place in a JSON value."""
    yield where
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()  # fmt: skip
    for key, part in inside:
        yield from places(part, (*where, key))


ODD = [None, "x", "", -1, 0, 1e300, 10**400, True, [], {}, [[]], {"a": None}, "gone"]


def altered(content, where, odd):
    """The content with something else at a place ("gone": without it)."""
    if not where:
        return odd
    content = copy.deepcopy(content)
    at = content
    for key in where[:-1]:
        at = at[key]
    if odd == "gone":
        del at[where[-1]]
    else:
        at[where[-1]] = odd
    return content


def harm(recorded, file, values, most=None):
    """Put one of the values, chosen by a seed, into one place after another, or into `most` of
    them; each is harmless, or one sentence. How often it was a sentence."""
    content, points = json.loads(file.read_text()), random.Random(SEED)
    every = list(places(content))
    sentences = 0
    for where in points.sample(every, most) if most else every:
        odd = points.choice(values)
        file.write_text(json.dumps(altered(content, where, odd)))
        try:
            read_all(recorded)
        except (tidy.Damaged, store.StoreError):
            sentences += 1
        except Exception as e:
            raise AssertionError(f"{file.name}: {where} = {odd!r}: {e!r}") from e
    return sentences


def run_file(recorded):
    return sorted(recorded.glob("in-memory-t2-encrypted-p001-*/run.json"))[0]


FILES = {"run": run_file, "campaign": lambda c: c / "campaign.json"}


@pytest.fixture
def present(recorded):
    """The recorded campaign with all that campaigns hold now."""
    meta = planned(tidy.meta(recorded))
    model = {"vendor": "AuthenticAMD", "family": 25, "model": 1, "stepping": 1}
    meta["host"] |= {"processor": model, "boot": "9d2c5e3f"}
    (recorded / "campaign.json").write_text(json.dumps(meta | {"waited_s": 2.4, "sittings": 2}))
    for file in recorded.glob("*-p0*/run.json"):
        gate = {"waited_s": 1.2, "probes": 2, "speed": 0.97, "steal": 0.01, "first": [[1e9, 0.01]]}
        file.write_text(json.dumps(json.loads(file.read_text()) | {"gate": gate}))
    return recorded


@pytest.mark.parametrize(
    ("which", "values", "most"),
    [
        ("run", ODD, 4),
        ("campaign", ODD, 6),
        *(pytest.param(which, ODD, None, marks=pytest.mark.slow) for which in FILES),
        pytest.param("run", ["gone"], 20, marks=pytest.mark.slow),
        pytest.param("campaign", ["gone"], 40, marks=pytest.mark.slow),
    ],
)
def test_anything_in_the_place_of_anything(present, which, values, most):
    sentences = harm(present, FILES[which](present), values, most)
    if values == ["gone"]:  # a campaign is read without a run
        assert sentences > 3 if which == "campaign" else sentences == 0


NO_JSON = [b"{", b"null", b"[" * 100_000]
MORE = [b"", b"[]", b'"x"', b"\xff\xfe\x00", b"\0" * 99, b"9" * 10_000, b'{"format": NaN}']
NO_JSON += [pytest.param(text, marks=pytest.mark.slow) for text in MORE]


@pytest.mark.parametrize("name", ["campaign.json", "run.json"])
@pytest.mark.parametrize("text", NO_JSON, ids=lambda t: repr(t[:12]))
def test_a_file_that_is_no_json(recorded, name, text):
    file = recorded / name if name == "campaign.json" else run_file(recorded)
    file.write_bytes(text)
    if name == "campaign.json":
        with pytest.raises(tidy.Damaged, match="campaign"):
            read_all(recorded)
    else:
        problems = tidy.opened(recorded).tidy_runs.problems
        assert any(file.parent.name in p for p in problems)
        read_all(recorded)


@pytest.mark.parametrize("name", ["sysbench.txt", "evidence.json", "variables.json", "run.json"])
def test_a_missing_file_is_named(recorded, name):
    file = run_file(recorded).with_name(name)
    file.unlink()
    problems = tidy.opened(recorded).tidy_runs.problems
    assert any(file.parent.name in p or "only one run of the pair" in p for p in problems)
    read_all(recorded)


def test_a_link_out_of_a_run_is_not_followed(recorded, tmp_path):
    file = run_file(recorded).with_name("sysbench.txt")
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    problems = tidy.opened(recorded).tidy_runs.problems
    assert any("sysbench.txt is a link to somewhere else" in p for p in problems)


def test_what_a_link_in_the_place_of_a_run_leads_to_is_not_read(recorded, tmp_path):
    (tmp_path / "elsewhere").write_text("no JSON")
    file = run_file(recorded)
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    for verify in (True, False):
        with pytest.raises(tidy.Damaged, match=r"run\.json is a link to somewhere else"):
            tidy.read(file.parent, verify=verify)


@pytest.mark.parametrize("name", ["../../../secret.json", "/etc/passwd", ".."])
def test_a_run_cannot_name_a_file_outside_of_it(recorded, name, tmp_path):
    """Neither by its list of checksums nor by its pointer to the variables."""
    (tmp_path / "secret.json").write_text('{"secret": "hunter2"}')
    file = run_file(recorded)
    facts = json.loads(file.read_text())
    pointer = file.with_name("variables.json")
    pointer.write_text(json.dumps({"file": name}))
    facts["sha256"]["variables.json"] = tidy.sha256(pointer)
    file.write_text(json.dumps(facts))
    try:
        said = repr(tidy.variables(recorded))
    except tidy.Damaged as e:
        said = str(e)
    assert "hunter2" not in said
    facts["sha256"] = {name: "0" * 64}
    file.write_text(json.dumps(facts))
    assert any(file.parent.name in p for p in tidy.opened(recorded).tidy_runs.problems)


@pytest.mark.parametrize("version", [0, 2, "1", None, [1]])
def test_another_format_version_is_named_with_what_is_read(recorded, version):
    for file in (run_file(recorded), recorded / "campaign.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"format": version}))
        try:
            problems = tidy.opened(recorded).tidy_runs.problems
        except tidy.Damaged as e:
            problems = [str(e)]
        assert any("format" in p and "reads 1" in p for p in problems)


def test_a_foreign_notebook_is_not_run(project):
    """One of another kernel, one that is no notebook, one whose parameters cell is a program."""
    witness = project / "witness"
    source = f"x = open({str(witness)!r}, 'w')\n"
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": [source]}
    bodies = {
        "no-json": "{",
        "no-notebook": "[]",
        "no-cells": '{"cells": 3}',
        "program": json.dumps({"cells": [cell]}),
    }
    for name, body in bodies.items():
        (project / "notebooks" / f"{name}.ipynb").write_text(body)
        result = run("report", name, "-p", "profile", "quick")
        assert result.exit_code in (1, 2)
        refused(result, result.exit_code, name)
    assert not witness.exists()
