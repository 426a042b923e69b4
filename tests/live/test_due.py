"""Which questions lack a sitting, and `noisefloor measure`, which measures what fits into the time."""

import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from conftest import done, noisefloor
from noisefloor import model, paths, studies
from noisefloor.data import packed, tidy
from noisefloor.measure import collect, loading
from noisefloor.measure import due as lacking
from noisefloor.measure.child import ToolError
from noisefloor.measure.folder import REBOOTED, description, write_json
from noisefloor.servers import doctor, engines
from noisefloor.text.answers import MOST_LINES

LEAD = ("binlog-encryption", "rate")
IN_TURN = ("binlog-encryption", "headline")  # which a busy machine saturates as it should
FACTS = doctor.host_facts()
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def written():
    """campaign.json of a published question, begun now."""
    chosen = studies.load(model.Request(LEAD[0], LEAD[1], profile="standard"))
    return description(chosen, engines.find("mysql"), {})


@pytest.fixture
def recorded(home, written):
    """recorded(**changes): a campaign that ended after 20 minutes is among those that are committed;
    `boot` and `processor` are its host's."""

    def add(**changes):
        host = FACTS | {k: changes.pop(k) for k in ("boot", "processor") if k in changes}
        meta = written | {"created": BEGAN.isoformat(), "host": host, "slices_s": 1.0}
        meta |= {"finished": (BEGAN + timedelta(minutes=20)).isoformat()} | changes
        folder = paths.recorded() / f"c{len(paths.campaigns())}"
        folder.mkdir(parents=True)
        write_json(folder / "campaign.json", meta)
        return folder

    return add


def found(of=LEAD) -> dict | None:
    """What `noisefloor due --json` says of a question; None where it is not due."""
    listed = json.loads(done("due", "--json"))["due"]
    return next((d for d in listed if (d["study"], d["question"]) == of), None)


# -- what is due -----------------------------------------------------------------------------------


def test_questions_are_listed_with_sittings_and_minutes_most_wanted_first(home):
    listed = json.loads(done("due", "--json"))["due"]
    assert listed[0] == {
        "study": "binlog-encryption",
        "question": "rate",
        "asks": studies.questions("binlog-encryption")["rate"],
        "sittings": 0,
        "asked": 3,
        "minutes": 30.8,  # 26 of measuring, a tenth for the gate, two to begin, 500,000 rows
        "headline": True,
    }
    names = [(d["study"], d["question"]) for d in listed]
    assert len(set(names)) == len(names) > 20
    assert not {"calibration", "own-study"} & {name for name, _ in names}
    order = [(not d["headline"], d["sittings"], d["minutes"]) for d in listed]
    assert order == sorted(order)
    assert list(home.iterdir()) == []


def test_the_most_wanted_are_printed_and_all_of_them_when_asked(home):
    printed = json.loads(done("due", "--json"))
    first, command = printed["answer"]
    count = len(printed["due"])
    short, every = (done("due", *more).splitlines() for more in ((), ("--verbose",)))
    assert first.startswith(f"{count} questions lack a sitting on this processor, ")
    assert command == "to measure what fits into an hour: make measure MINUTES=60"
    assert len(short) == MOST_LINES
    assert (short[0], short[-1]) == (first, f"{command} (--verbose lists all {count})")
    assert re.fullmatch(r"  binlog-encryption, rate +0 of 3 sittings +31 min", short[1])
    assert (every[0], every[-1], len(every)) == (first, command, count + 2)
    names = [f"{d['study']}, {d['question']}" for d in printed["due"]]
    assert [line.split("  ")[1].strip() for line in every[1:-1]] == names
    assert [line.split() for line in short[1:-1]] == [line.split() for line in every[1:4]]
    one = [d["asked"] == 1 for d in printed["due"]]
    assert [" of 1 sitting " in line for line in every[1:-1]] == one
    assert set(one) == {True, False}
    assert len({len(line) for line in every[1:-1]}) == 1


def test_a_question_is_due_until_it_has_its_sittings_and_never_twice_in_a_boot(recorded):
    for boot in ("one", "one", "two"):
        recorded(boot=boot)
    assert found()["sittings"] == 2  # one sitting twice is one
    recorded(boot="three")
    assert found() is None
    alone = ("binlog-encryption", "throttled")
    assert found(alone)["asked"] == 1


def test_what_this_boot_has_measured_is_not_due(recorded):
    recorded()
    assert found() is None
    assert found(("binlog-encryption", "throttled"))


@pytest.mark.parametrize(
    "changes",
    [
        {"finished": ""},
        {"finished": "yesterday"},
        {"finished": None},
        {"created": 5},
        {"processor": {"vendor": "x", "family": 1, "model": 2, "stepping": 3}},
        {"processor": "x"},
        {"tables": 6},
        {"plan": {"blocks": "ten"}},
        {"workloads": []},
        {"format": 9},
    ],
    ids=str,
)
def test_what_is_not_counted(recorded, changes):
    """One that has not ended, of another processor or design, or damaged: as if it were not there."""
    recorded(**changes)
    assert found()["sittings"] == 0


def test_a_campaign_that_measured_nothing_is_no_sitting(recorded):
    """All that it asked was skipped. The boot is not asked again, the next one is."""
    recorded(boot="one", slices_s=0.0)
    assert found()["sittings"] == 0
    recorded(slices_s=0.0)
    assert found() is None


def test_a_campaign_that_a_reboot_ended_is_measured_again(recorded):
    recorded(boot="one", ended_because=REBOOTED)
    assert found()["sittings"] == 0


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}'])
def test_a_damaged_campaign_is_not_counted(recorded, text):
    (recorded() / "campaign.json").write_text(text)
    assert found()["sittings"] == 0


def test_it_takes_as_long_as_it_took_last_time_but_for_interruptions(recorded):
    recorded(boot="one", finished=(BEGAN + timedelta(minutes=40)).isoformat())
    assert found()["minutes"] == 40
    later = BEGAN + timedelta(days=1)
    told = {"created": later.isoformat(), "finished": (later + timedelta(hours=9)).isoformat()}
    recorded(boot="two", **told)
    assert found()["minutes"] == 40
    assert found()["sittings"] == 2


def test_nothing_is_downloaded_and_no_other_build_takes_the_place(home, tmp_path, monkeypatch):
    empty = tmp_path / "engines"
    empty.mkdir()
    monkeypatch.setenv("NOISEFLOOR_ENGINES", str(empty))
    monkeypatch.delenv("CONDA_PREFIX", raising=False)

    def fetched(*_):
        raise AssertionError("something was downloaded")

    monkeypatch.setattr(engines.packages, "fetch", fetched)
    monkeypatch.setattr(engines, "unpacked", fetched)
    listed = {d.study for d in lacking.due()}
    assert all(studies.engine_of(name) == "mariadb" for name in listed)
    assert list(empty.iterdir()) == []


# -- measured --------------------------------------------------------------------------------------


def test_what_does_not_fit_is_not_begun(home, monkeypatch):
    monkeypatch.setattr(collect, "measure_study", None)
    said = noisefloor("measure", "--minutes", "1")
    assert said.exit_code == 0
    assert said.stdout == (
        "nothing was measured: `noisefloor due` lists what is due and the minutes that it takes\n"
    )
    least = min(asked.minutes for asked in lacking.due())
    begun = f"not begun: {len(lacking.due())} questions of {least:.0f} minutes or more"
    assert said.stderr == f"{begun} (noisefloor due)\n"
    assert list(home.iterdir()) == []


def test_the_most_wanted_that_fit_are_measured_and_a_failure_is_one_sentence(home, monkeypatch):
    clock, made = [0.0], []
    minutes = {"a": 24, "b": 40, "c": 20, "d": 13, "e": 2}

    def measured(asked):
        clock[0] += 60 * minutes[asked.question]
        made.append((asked.study, asked.question, asked.profile))
        if asked.question == "d":
            raise ToolError("the disk is full")
        return (home / asked.question,)

    listed = [lacking.Due("s", q, "?", 0, 1, m, q == "a") for q, m in minutes.items()]
    monkeypatch.setattr(lacking, "due", lambda: listed)
    monkeypatch.setattr(lacking, "_unpacked", list)
    monkeypatch.setattr(lacking, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(collect, "measure_study", measured)
    monkeypatch.setattr(lacking.pack, "pack", lambda folder: (folder, 1, 1))
    told = []
    found = list(lacking.measure(60, told.append))
    assert made == [("s", q, "standard") for q in "acde"]
    assert found == [home / q for q in "ace"]
    assert told == [
        "s, a: 24 minutes at the most",
        "s, c: 20 minutes at the most",
        "s, d: 13 minutes at the most",
        "the disk is full",
        "s, e: 2 minutes at the most",
        "not begun: 1 question of 40 minutes or more (noisefloor due)",
    ]


@pytest.fixture
def short(home, mysql, monkeypatch):
    """One question is published, and takes seconds."""
    smoke = replace(model.PROFILES["smoke"], budget_min=0.12)
    monkeypatch.setitem(model.PROFILES, "smoke", smoke)
    monkeypatch.setattr(lacking, "PROFILE", "smoke")
    monkeypatch.setattr(lacking.studies, "STUDIES", (LEAD[0],))
    every = lacking._questions
    monkeypatch.setattr(
        lacking, "_questions", lambda: (q for q in every() if q[0].key == IN_TURN[1])
    )
    monkeypatch.setattr(loading, "templates", lambda *a: {"": mysql})


@pytest.mark.slow  # test_kill has the same command, killed once
def test_what_was_measured_is_packed_and_no_longer_due(short):
    assert found(IN_TURN)["asked"] == 1
    said = noisefloor("measure", "--minutes", "4")
    assert said.exit_code == 0, said.output
    assert "binlog-encryption, headline: 2 minutes at the most\n" in said.stderr
    (folder,) = paths.recorded().iterdir()
    name = folder.name
    assert said.stdout == (f"git add data/raw/recorded/{name} && git commit -m 'data: {name}'\n")
    assert {p.name for p in folder.iterdir()} == {"campaign.json", "SHA256SUMS", f"{name}.tar.xz"}
    assert packed.archive(folder)
    assert tidy.digest(folder) == tidy.digest(paths.runs() / name)
    assert tidy.meta(folder)["host"]["boot"] == FACTS["boot"]
    assert found(IN_TURN) is None
    assert done("due").startswith("nothing is due: every question whose builds are here has its")

    shutil.rmtree(folder)  # as if it had been killed before it was packed
    again = noisefloor("measure", "--minutes", "4")
    assert again.stdout == said.stdout
    assert again.stderr == ""
    assert packed.archive(folder)
    assert noisefloor("measure").stdout.startswith("nothing was measured")
    assert json.loads(noisefloor("measure", "--json").stdout) == []
