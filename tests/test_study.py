"""What is compared: studies and profiles are data."""

import json
from dataclasses import FrozenInstanceError

import pytest

from noisefloor import collect, engines, schedule, study

CASES = [(s, p) for s in study.STUDIES for p in study.PROFILES]


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_a_study_is_restored_from_its_campaign(name, profile):
    before = study.load(name, profile=profile, margin_pct=1.5)
    meta = json.loads(json.dumps(collect._meta(before, engines.find("mysql"), {})))
    after = study.restored(meta)
    assert after == before
    assert [a.name for a in after.arms] == [a.name for a in before.arms]  # their order, too


def test_a_campaign_recorded_before_a_field_existed_has_its_default():
    before = study.load("binlog-encryption")
    later = {"upgrade_path", "kit", "facts", "reach", "engine", "engines", "how", "prove", "pin"}
    later |= {"environment", "reads_per_s", "share", "distance_ms"}

    def older(fields: dict) -> dict:
        return {k: v for k, v in fields.items() if k not in later}

    meta = older(json.loads(json.dumps(collect._meta(before, engines.find("mysql"), {}))))
    meta["arms"] = {n: older(a) for n, a in meta["arms"].items()}
    meta["workloads"] = [older(w) for w in meta["workloads"]]
    for w in meta["workloads"]:
        del w["arms"]
    assert study.restored(meta) == before


@pytest.mark.parametrize("name", study.STUDIES)
def test_a_study_names_metrics_arms_and_workloads_once(name):
    s = study.load(name, profile="standard")
    for w in s.workloads:
        assert set(w.deciding) <= set(w.metrics) <= study.METRICS.keys()
        assert all(study.METRICS[m].judged for m in w.metrics)
        assert s.workload(w.name) is w
    names = [a.name for a in (s.baseline, s.control, *s.arms)]
    assert len(set(names)) == len(names)
    assert [s.arm(n).name for n in names] == names
    assert s.control.switch == s.baseline.switch
    assert s.control.settings == s.baseline.settings
    assert s.control.expect == s.baseline.expect


def test_profiles_keep_their_promises():
    p = study.PROFILES
    assert p["quick"].budget_min <= 3
    assert p["standard"].budget_min <= 20
    assert p["standard"].blocks >= 10
    assert p["quick"].blocks == 8  # sign flips over fewer cannot reach the second look
    assert p["standard"].threads == (1, 4, 16, 64)
    assert (p["full"].slice_s, p["full"].threads) == (300, (4,))  # the source's own parameters


def test_max_latency_is_shown_and_never_judged():
    assert not study.METRICS["max_latency"].judged


@pytest.mark.parametrize(
    ("engine", "design", "where"),
    [("mysql", "switched", "switch"), ("mariadb", "side by side", "settings")],
)
def test_binlog_encryption_is_switched_where_it_can_be(engine, design, where):
    s = study.load("binlog-encryption", profile="standard", engine=engine)
    assert s.design == design
    (arm,) = s.arms
    assert list(getattr(arm, where).values()) == ["ON"]
    assert list(getattr(s.baseline, where).values()) == ["OFF"]
    assert arm.expect == {"binlog": "encrypted"}
    assert s.baseline.expect == {"binlog": "plain"}
    assert s.workloads[0].threads == (1, 4, 16, 64)


def test_parameters_reach_the_study():
    s = study.load("binlog-encryption", profile="smoke", threads=(1, 2), margin_pct=5, budget_min=3)
    assert (s.workloads[0].threads, s.margin_pct, s.profile.budget_min) == ((1, 2), 5, 3)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("binlog", {}, "no study is called 'binlog'; there are: binlog-encryption"),
        ("binlog-encryption", {"profile": "slow"}, "profile 'slow' is not one of smoke, quick"),
    ],
)
def test_a_wrong_parameter_is_one_sentence(name, parameters, message):
    with pytest.raises(study.StudyError, match=message):
        study.load(name, **parameters)


def test_a_study_cannot_be_changed():
    s = study.load("binlog-encryption")
    with pytest.raises(FrozenInstanceError):
        s.margin_pct = 9


# -- the two sweeps --------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["mysql", "mariadb"])
def test_tablespace_encryption_goes_from_nothing_to_everything(engine):
    s = study.load("tablespace-encryption", profile="full", engine=engine)
    assert [a.name for a in (s.baseline, *s.arms)][:3] == ["plain", "tables only", "everything"]
    assert s.workloads[0].threads == (1, 4, 16, 32, 64, 96, 128, 256, 512, 1024, 2048)
    assert s.workload("in memory").threads == s.workloads[0].threads
    only, everything = s.arms[:2]
    assert not only.settings  # tables alone: the source's arm
    assert "binlog" in only.expect
    assert set(everything.expect.values()) <= {"encrypted", "active", "off"}
    assert int(s.settings["max_connections"]) > 2048
    pool = int(s.settings["innodb_buffer_pool_size"].removesuffix("M")) * 2**20
    data = s.tables * s.profile.rows * 240
    assert 9 < data / pool < 11
    assert s.workload("in memory").share * data < 0.6 * pool
    assert s.settings["innodb_flush_method"] == "O_DIRECT"


def test_the_aes_arm_differs_in_the_environment_and_its_proof_only():
    s = study.load("tablespace-encryption", profile="standard")
    masked = s.arm("everything, AES masked")
    assert masked.environment == {"OPENSSL_ia32cap": "~0x200000200000000"}
    assert masked.prove["AES"] == "masked"
    everything = s.arm("everything")
    assert (masked.settings, masked.prepare, masked.expect) == (
        everything.settings,
        everything.prepare,
        everything.expect,
    )


def test_an_upgrade_changes_one_factor_at_a_time():
    s = study.load("version-upgrade", profile="full")
    pinned, new, pooled = s.arms
    assert {s.baseline.engine, new.engine} == {"mysql-8.0", "mysql"}
    assert pinned.pin == s.baseline.name
    assert (pinned.settings, new.settings, new.pin) == ({}, {}, "")
    assert pooled.settings["thread_pool_stall_limit"] == "6"  # 60 ms
    assert s.workloads[0].threads == (64, 100, 200, 300, 500)
    maria = study.load("version-upgrade", profile="standard", engine="mariadb").arms[-1]
    assert maria.settings["thread_pool_stall_limit"] == "60"  # 60 ms, too


def test_builds_without_a_name_are_called_by_their_folder():
    s = study.load(
        "version-upgrade", profile="standard", engine="/opt/mysql-8.4/", old="/srv/mysql-8.0.42"
    )
    assert s.baseline.name == "mysql-8.0.42"
    assert s.arms[1].name == "mysql-8.4"
    same = study.load("version-upgrade", profile="standard", engine="/a/mysql", old="/b/mysql")
    assert same.baseline.name != same.arms[1].name


def test_builds_that_were_found_are_called_by_what_they_are():
    found = {"/opt/new": ("mariadb", "MariaDB 11.8.2"), "mysql-8.0": ("mysql", "MySQL 8.0.31")}
    s = study.load("version-upgrade", profile="standard", engine="/opt/new", builds=found)
    assert [s.baseline.name, s.arms[1].name] == ["MySQL 8.0", "MariaDB 11.8.2"]
    assert s.arms[1].engine == "/opt/new"  # what will be started
    assert s.arms[2].settings["thread_handling"] == "pool-of-threads"
    other = study.load(
        "version-upgrade", profile="standard", builds={"mysql": ("mysql", "MySQL 8.4.6")}
    )
    assert other.arms[1].name == "MySQL 8.4.6"


@pytest.mark.parametrize("name", sorted(study.STUDIES.keys() - {"own-study"}))
def test_a_quick_campaign_asks_as_few_questions_as_a_page_needs(name):
    s = study.load(name, profile="quick")
    own = [c for c in schedule.cells(s) if not c.control]
    assert len(own) <= 5
    assert {c.threads for c in own} == {own[0].threads}


def test_a_workload_may_be_for_some_arms_only():
    s = study.load("tablespace-encryption", profile="standard")
    keys = {(c.workload.name, c.arm.name) for c in schedule.cells(s)}
    assert ("restart", "everything") in keys
    assert ("restart", "tables only") not in keys
    assert (s.workloads[0].name, "tables only") in keys
    assert (s.workloads[0].name, s.control.name) in keys


def test_pinned_values_join_an_arms_own():
    s = study.load("version-upgrade")
    name = s.arms[0].name
    found = study.with_pinned(s, {name: {"settings": {"gtid_mode": "OFF"}, "refused": {}}})
    assert found.arm(name).settings == {"gtid_mode": "OFF"}
    assert found.arms[1:] == s.arms[1:]
