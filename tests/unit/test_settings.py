"""Settings that everybody argues about: a short list of what `ab` compares, a page each."""

import json
import shutil

import pytest

from conftest import ROOT, noisefloor, refused
from noisefloor import paths, studies
from noisefloor.data import results
from noisefloor.model import PROFILES, Request, Study, StudyError, as_guest
from noisefloor.show import bundle, report
from noisefloor.show.report import batch
from noisefloor.studies.ab import asked

KEYS = tuple(studies.questions("settings"))
ENGINES = ("mysql", "mariadb")


def setting(key: str, profile: str = "standard", **more) -> Study:
    return studies.load(Request("settings", key, profile=profile, **more))


def test_at_most_five_questions_and_the_password_cache_is_none_of_them():
    assert len(KEYS) <= 5
    assert {"doublewrite", "compression", "performance-schema", "gtid", "durability"} == {*KEYS}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("key", KEYS)
def test_a_setting_is_what_ab_compares_at_a_rate(key, profile):
    s = setting(key, profile)
    assert (s.name, s.key, s.title, s.question) == (
        "settings",
        key,
        *[studies.questions("settings")[key]] * 2,
    )
    assert s.design == "side by side"
    (work,) = s.workloads
    assert work.rate
    assert work.deciding == ("p99", "cpu_per_transaction")
    assert not {m for m in work.metrics if "written" in m or "disk" in m}  # both on one disk
    compared = asked(studies._read("settings")["questions"][key]["compare"])
    several = {n for n, values in compared.items() if len(values) > 1}
    for arm in s.compared:  # every value stands in my.cnf, and is read back
        assert set(arm.settings) == several
        assert not arm.switch
        assert arm.settings.items() <= arm.expect.items()
    assert {n: s.settings[n] for n in compared.keys() - several} == {
        n: v for n, (v, *_) in compared.items() if n not in several
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_every_server_has_a_gigabyte_of_memory_and_two_of_redo(engine):
    redo = {"mysql": "innodb_redo_log_capacity", "mariadb": "innodb_log_file_size"}[engine]
    for key in studies.questions("settings", engine):
        s = setting(key, "quick", engine=engine).settings
        assert (s["innodb_buffer_pool_size"], s[redo], s["innodb_flush_method"]) == (
            *("1G", "2G", "O_DIRECT"),
        )
    own = studies.load(Request("own-study", settings=("innodb_buffer_pool_size=1G,2G",)))
    assert "innodb_buffer_pool_size" not in own.settings  # what is asked about is not held


def test_a_standard_campaign_takes_less_than_an_hour():
    assert all(setting(key).profile.budget_min < 55 for key in KEYS)
    s = setting("doublewrite")
    assert s.tables * s.profile.rows * 240 > 3.5 * 2**30  # four times the pool
    assert s.profile.warmup_s == 60
    assert setting("doublewrite", budget_min=3).profile.budget_min == 3


def test_mariadb_is_asked_for_what_it_has():
    there = studies.questions("settings", "mariadb")
    assert set(there) == {"doublewrite", "durability", "performance-schema"}
    assert setting("durability", engine="mariadb").settings["log_bin"] == "binlog"
    with pytest.raises(StudyError, match="has no question 'gtid'"):
        setting("gtid", engine="mariadb")


def test_a_setting_that_needs_a_start_is_no_question_for_a_server_of_ones_own():
    with pytest.raises(StudyError, match="settings needs servers of its own"):
        as_guest(setting("doublewrite"), {}, "", cpu=True)


# -- a page each -----------------------------------------------------------------------------------


def test_a_question_has_a_page_of_its_own_where_its_study_says_so():
    assert studies.page_of("settings", "gtid") == "settings-gtid"
    assert studies.page_of("settings", "") == "settings"
    assert studies.page_of("binlog-encryption", "rate") == "binlog-encryption"
    assert studies.page_of("ab-sync-binlog", "") == "ab-sync-binlog"
    assert studies.own_pages() == {f"settings-{key}": ("settings", key) for key in KEYS}
    for page in studies.own_pages():
        assert report.notebook(page).stem == "own-study"
    assert batch.measures("settings-gtid") == "noisefloor run settings --question gtid"
    assert batch.measures("ab-sync-binlog") == "noisefloor ab VARIABLE=OFF,ON"


@pytest.fixture
def recorded(home):
    """recorded(key, day): a campaign of a setting that ended on that day of November."""

    def add(key: str, day: int, **more):
        folder = paths.recorded() / f"settings-{key}-standard-202611{day}"
        folder.mkdir(parents=True)
        facts = {"study": "settings", "key": key, "finished": f"2026-11-{day}T00:00:00+00:00"}
        facts |= {"engine": {"kind": "mysql", "label": "MySQL 9.7.4"}, "workloads": [{}]}
        facts |= {"profile": {"name": "standard"}} | more
        (folder / "campaign.json").write_text(json.dumps(facts))
        return folder

    return add


def test_the_page_of_a_setting_holds_its_sittings_and_no_other_setting(recorded):
    first, second = recorded("gtid", 20), recorded("gtid", 22)
    recorded("doublewrite", 23)
    assert results.beside(second) == (first, second)
    assert report.recorded_campaign("settings-gtid") == second.name
    assert report.recorded_campaign("settings") is None
    assert report.leading_campaign("settings-compression") is None


def test_a_page_of_recorded_campaigns_has_all_of_them_and_none_of_this_machines_runs(recorded):
    """The newest one was measured here, then packed: it lies in data/raw/runs, too, beside another."""
    paths.notebooks().mkdir()
    shutil.copy(ROOT / "notebooks" / "own-study.ipynb", paths.notebooks())
    both = [recorded("gtid", day) for day in (20, 22)]
    recorded("gtid", 24, profile={"name": "quick"})  # packed, and no reason to leave out the others
    for folder in (both[1], own := recorded("gtid", 26)):
        shutil.copytree(folder, paths.runs() / folder.name)
    shutil.rmtree(own)
    ((page, values, live),) = report.plan(["settings-gtid"], "recorded")
    assert (page, live) == ("settings-gtid", False)
    assert results.named(values["campaign"]) == tuple(both)
    words = f"--profile recorded takes no campaign, and '{own.name}' was given; nothing was run"
    with pytest.raises(report.ReportError, match=words):
        report.plan(["settings-gtid"], "recorded", {"campaign": own.name})
    assert bundle.chosen("settings-gtid") == ("settings-gtid", tuple(both))  # and so has its pack
    shutil.rmtree(paths.recorded())
    live = tuple(paths.runs() / folder.name for folder in (both[1], own))
    assert bundle.chosen("settings-gtid") == ("settings-gtid", live)


def test_what_is_not_of_the_recorded_campaigns_is_not_published(home):
    for profile in ((), ("--profile", "quick")):
        refused(
            noisefloor("report", *profile, "--publish"),
            words="--publish goes with --profile recorded",
        )
    assert not any(home.iterdir())


def test_the_arms_of_the_list_are_those_that_are_compared():
    arms = {a.name for key in KEYS for a in setting(key).arms}
    assert {*studies._read("settings")["arms"]} <= arms
    assert (
        studies.does("settings", "innodb_doublewrite=ON") == "switching the doublewrite buffer on"
    )
