"""The only place that knows folders."""

from pathlib import Path

import pytest

from noisefloor import paths


def add(parent: Path, name: str) -> Path:
    (parent / name).mkdir(parents=True)
    (parent / name / "campaign.json").write_text("{}")
    return parent / name


def test_everything_lies_in_the_project_folder(home):
    assert paths.root() == home
    for folder in (paths.notebooks(), paths.recorded(), paths.published(), paths.reports()):
        assert folder.is_relative_to(home)


def test_the_project_folder_is_found_from_the_library(monkeypatch, tmp_path):
    monkeypatch.delenv("NOISEFLOOR_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert paths.root() == Path(__file__).resolve().parents[2]


def test_a_campaign_is_found_by_its_name_recorded_ones_first(home):
    live = add(paths.runs(), "binlog-1")
    assert paths.campaign("binlog-1") == live
    recorded = add(paths.recorded(), "binlog-1")
    assert paths.campaign("binlog-1") == recorded
    assert paths.campaign("binlog-1", paths.runs(), paths.recorded()) == live
    add(paths.runs(), "other-1")
    assert paths.campaigns("binlog") == ["binlog-1"]  # one that was packed lies in both
    assert paths.campaigns() == ["binlog-1", "other-1"]


def test_a_missing_campaign_names_those_that_are_there(home):
    add(paths.runs(), "binlog-1")
    (paths.runs() / "no-json").mkdir()
    with pytest.raises(paths.NotFound, match="no campaign is called 'x'; there are: binlog-1"):
        paths.campaign("x")
    with pytest.raises(paths.NotFound):
        paths.campaign("no-json")


def test_a_page_shows_no_path_of_this_machine(home):
    assert paths.relative(paths.runs() / "x") == "runs/x"
    assert paths.relative(Path("/somewhere/else/name")) == "name"
