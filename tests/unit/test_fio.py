"""The speed of the disk: what fio prints, and which limits it makes pointless."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from noisefloor import paths, studies
from noisefloor.data import tidy
from noisefloor.measure.campaign import Campaign
from noisefloor.servers import disk
from noisefloor.servers.sandbox import ServerError

RECORDED = "settings-doublewrite-standard-20261129-233625"
THROTTLED = studies.load("tablespace-encryption", question="throttled", profile="standard")


@pytest.fixture(scope="module")
def printed():
    """What fio printed in a recorded campaign."""
    return (tidy.runs_folder(paths.campaign(RECORDED)) / "fio.json").read_text()


def test_what_fio_printed_is_what_the_campaign_says(printed):
    assert disk.fio_facts(printed) == tidy.meta(paths.campaign(RECORDED))["disk"]


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda jobs: jobs.pop(), "is not understood"),  # the syncs
        (lambda jobs: jobs[0].pop("read"), "is not understood"),
        (lambda jobs: jobs[1]["read"].update(iops="many"), "is not understood"),
        (lambda jobs: jobs[1]["read"].update(iops=0), "measured nothing"),
    ],
)
def test_what_is_no_whole_text_of_fio_is_no_number(printed, harm, says):
    text = json.loads(printed)
    harm(text["jobs"])
    for broken in (json.dumps(text), "fio: no such file"):
        with pytest.raises(ServerError, match=says if broken[0] == "{" else "is not understood"):
            disk.fio_facts(broken)


def test_without_fio_nothing_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "which", lambda _: "")
    with pytest.raises(ServerError, match="fio is missing: apt-get install fio"):
        disk.run_fio(tmp_path, 0.5)


def skipped(folder, monkeypatch, facts, study=THROTTLED):
    """Which workloads a campaign leaves out on a disk of which fio says so."""
    monkeypatch.setattr(disk, "run_fio", lambda *_: "{}")
    monkeypatch.setattr(disk, "fio_facts", lambda _: facts)
    progress = SimpleNamespace(say=lambda _: None)
    campaign = SimpleNamespace(study=study, folder=folder, progress=progress, meta={"skipped": {}})
    Campaign._disk(campaign, folder)
    return campaign.meta["skipped"]


@pytest.mark.parametrize(
    ("reads", "writes", "left"), [(3001, 3001, 0), (3000, 9000, 3), (9000, 2999, 3)]
)
def test_a_limit_that_would_not_bind_is_left_out(tmp_path, monkeypatch, reads, writes, left):
    facts = {"reads_per_s": float(reads), "writes_per_s": float(writes)}
    found = skipped(tmp_path, monkeypatch, facts)
    assert len(found) == left
    for name, why in found.items():
        assert THROTTLED.workload(name).throttled
        assert why.startswith("a limit of 3,000 ")
        assert f"{min(reads, writes):,}" in why


def test_what_has_no_limit_is_measured_on_any_disk(tmp_path, monkeypatch):
    works = tuple(replace(w, reads_per_s=None) for w in THROTTLED.workloads)
    facts = {"reads_per_s": 10.0, "writes_per_s": 9000.0}
    assert skipped(tmp_path, monkeypatch, facts, replace(THROTTLED, workloads=works)) == {}


@pytest.mark.parametrize(("question", "asks"), [("rate", False), ("throttled", True)])
def test_a_quick_campaign_asks_the_disk_where_a_workload_limits_it(
    question, asks, tmp_path, monkeypatch
):
    seconds = []
    monkeypatch.setattr(disk, "run_fio", lambda _, s: seconds.append(s) or "{}")
    monkeypatch.setattr(disk, "fio_facts", lambda _: {"reads_per_s": 1.0, "writes_per_s": 1.0})
    for profile in ("smoke", "quick", "standard"):
        study = studies.load("tablespace-encryption", question=question, profile=profile)
        progress = SimpleNamespace(say=lambda _: None)
        Campaign._disk(
            SimpleNamespace(study=study, folder=tmp_path, progress=progress, meta={"skipped": {}}),
            tmp_path,
        )
    assert seconds == [*([0.5] * asks), 5.0]
