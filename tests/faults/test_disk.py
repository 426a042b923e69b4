"""The disk is full, or read-only: while servers are made, while measuring, while raw text is
written. Each time on a small file system of its own."""

import os
import re
import time
from pathlib import Path

import pytest

from conftest import mostly, until
from live import Live, asked, mounts
from noisefloor.measure.preflight import room
from noisefloor.servers.prebuilt import size_of
from test_collect import SMOKE

slow = pytest.mark.slow


def fill(folder: Path, leave: int = 0) -> Path:
    """A file that takes all but `leave` bytes of a file system; it grows when called again."""
    ballast = folder / "ballast"
    with open(ballast, "ab") as f:
        while (space := os.statvfs(folder)).f_bavail * space.f_frsize > leave:
            try:
                f.write(bytes(min(1 << 16, space.f_bavail * space.f_frsize - leave)))
                f.flush()
            except OSError:
                break
    return ballast


@mostly("mysql")
def test_what_is_announced_holds_a_server_with_its_redo_log(campaign, template):
    """Which is made whole at its start, before anything is written to it."""
    c, bench = campaign(SMOKE, template, SMOKE.baseline)
    folder = bench.servers[0].folder
    until(lambda: size_of(folder) > 2 << 30, "redo log")
    there, announced = size_of(bench.folder), re.match(r"takes at most ([\d.]+) GB", room(c, bench))
    assert 1e9 * float(announced[1]) - there > size_of(folder)


@slow
def test_too_small_a_disk_is_refused_before_anything_is_measured(tmp_path, mysql, mounts):
    mounts.small(tmp_path / ".servers", "400m")
    live = Live(tmp_path, mysql, *asked(0.15), enter=mounts.enter)
    live.start()
    assert live.end() == 1
    assert "GB in .servers, where 0." in live.said
    assert live.said.endswith("GB are free; nothing was measured\n")
    assert live.whole() == []


@slow
def test_raw_text_meets_a_full_disk(tmp_path, mysql, mounts):
    mounts.small(tmp_path / "runs", "30m")
    live = Live(tmp_path, mysql, *asked(0.3), enter=mounts.enter)
    live.runs = mounts.seen(tmp_path / "runs")
    text_meets_a_full_disk(live)


def text_meets_a_full_disk(live):
    """The folder of a command's runs fills up; it ends, and finishes when there is room again."""
    live.start()
    live.until_whole(2)
    ballast = fill(live.runs)
    assert live.end() == 1
    assert "No space left on device" in live.said
    assert "whole runs are kept, the same command continues" in live.said
    ballast.unlink()
    live.finish()
    assert len(list(live.runs.iterdir())) == 1


@slow
def test_the_servers_meet_a_full_disk(tmp_path, mysql, mounts):
    mounts.small(tmp_path / ".servers", "3900m")
    live = Live(tmp_path, mysql, *asked(0.4), enter=mounts.enter)
    live.start()
    live.until_whole(2)
    live.servers = servers = mounts.seen(tmp_path / ".servers")
    while live.running():  # binary logs that are removed give some of it back
        ballast = fill(servers)
        time.sleep(0.1)
    if live.end() == 0:  # a server that waited for space has spent the budget
        assert "failed in every attempt" in live.said
    else:
        assert live.process.returncode == 1
    ballast.unlink()
    live.finish()


@slow
def test_a_read_only_data_folder(tmp_path, mysql, mounts):
    (tmp_path / "runs").mkdir()
    mounts.small(tmp_path / "runs", "30m")
    mounts.mount("-o", "remount,ro", str(tmp_path / "runs"))
    live = Live(tmp_path, mysql, *asked(0.15), enter=mounts.enter)
    live.start()
    assert live.end() == 1
    assert "Read-only file system" in live.said
    mounts.mount("-o", "remount,rw", str(tmp_path / "runs"))
    live.runs = mounts.seen(tmp_path / "runs")
    live.finish()
