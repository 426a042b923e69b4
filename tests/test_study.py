"""What is compared: studies and profiles are data."""

import json
from dataclasses import FrozenInstanceError

import pytest

from noisefloor import collect, engines, study

CASES = [(s, p) for s in study.STUDIES for p in study.PROFILES]


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_a_study_is_restored_from_its_campaign(name, profile):
    before = study.load(name, profile=profile, margin_pct=1.5)
    meta = json.loads(json.dumps(collect._meta(before, engines.find("mysql"), {})))
    after = study.restored(meta)
    assert after == before
    assert [a.name for a in after.arms] == [a.name for a in before.arms]  # their order, too


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
    assert p["quick"].budget_min <= 1
    assert p["standard"].budget_min <= 20
    assert p["standard"].blocks[0] >= 4
    assert p["standard"].blocks[1] >= 10
    assert p["quick"].blocks[1] >= 6  # sign flips over fewer cannot reach 5 %
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
