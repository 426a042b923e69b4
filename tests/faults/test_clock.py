"""The machine's clock is stepped while a campaign measures: an hour back, a day ahead, and back.

libfaketime stands in for the administrator: it steps what `gettimeofday` and CLOCK_REALTIME say to
Noisefloor, server and sysbench, and leaves CLOCK_MONOTONIC alone, as `date -s` does."""

import signal
import time
from datetime import datetime

import pandas as pd
import pytest

from live import Live, asked
from noisefloor.data import results, tidy
from noisefloor.servers import engines
from noisefloor.stats import verdict


@pytest.fixture
def stepped(tmp_path):
    """(file that says how far the clock is off, environment of a command that has that clock)."""
    try:
        library = next(engines.unpacked("libfaketime").glob("usr/lib/**/libfaketimeMT.so.1"))
    except (engines.EngineMissing, StopIteration) as e:
        pytest.skip(f"no libfaketime here: {e}")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    return clock, {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        # or InnoDB's timed waits are over at once: as root its page cleaner (nice -20) takes a processor
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }


@pytest.mark.slow
def test_the_clock_is_stepped_and_nothing_is_lost(tmp_path, mysql, stepped):
    clock, environment = stepped
    live = Live(tmp_path / "home", mysql, *asked(3), **environment)
    live.home.mkdir()
    began = time.monotonic()
    live.start()
    live.until_whole(1)
    clock.write_text("-3600")
    live.until_whole(2)
    clock.write_text("+86400")
    live.until_whole(10)  # it is seen within two seconds
    live.process.kill()  # and the one who continues finds runs of tomorrow
    live.end()
    clock.write_text("-7200")
    live.start()
    live.until_whole(11)
    live.process.send_signal(signal.SIGINT)
    assert live.end() == 130
    took = time.monotonic() - began
    (folder,) = live.runs.iterdir()
    runs = [tidy.read(r) for r in tidy.run_folders(folder)]
    starts = [datetime.fromisoformat(f["start"]) for f in runs]
    spread = (max(starts) - min(starts)).total_seconds()
    assert spread > 86400, "the clock was not stepped"
    assert [f["block"] for f in runs] == sorted(f["block"] for f in runs)
    assert 0 < tidy.meta(folder)["spent_s"] < took
    for facts in runs:  # a run's own seconds come from clocks that nobody steps
        if not facts["warmup"]:
            out = tidy.Run(folder / facts["run"]).sysbench
            assert out["duration_s"] == pytest.approx(facts["slice_s"], abs=30)  # not an hour
    table = results.load(folder).verdicts
    assert isinstance(table, pd.DataFrame)
    kinds = {verdict.kind(word) for word in table["verdict"]}
    assert kinds <= {"worse", "better", "same", "cannot tell"}
