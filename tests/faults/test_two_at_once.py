"""Two campaigns started at once on one machine: never both measure."""

import contextlib
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from live import Live, asked, processes


def measuring(home: Path) -> int:
    """How many sysbench of this project measure."""
    found = 0
    for p in processes(home):
        with contextlib.suppress(psutil.Error):  # it has just ended
            found += p.name() == "sysbench" and "run" in p.cmdline()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("apart", ["other folder", "same folder", "other network namespace"])
def test_the_second_waits(tmp_path, mysql, apart):
    enter = ("unshare", "-n") if apart == "other network namespace" else ()
    if enter and subprocess.run(["sh", "-c", "unshare -n true"], check=False).returncode:
        pytest.skip("no network namespace is allowed here")
    homes = [tmp_path / "one", tmp_path / ("one" if apart == "same folder" else "two")]
    for home in set(homes):
        home.mkdir()
    first = Live(homes[0], mysql, *asked(0.05))
    second = Live(homes[1], mysql, *asked(0.05), enter=enter)
    second.said_in = tmp_path / "second.said"
    first.start()
    time.sleep(0.2)
    second.start()
    seen = []
    while first.running() or second.running():
        seen.append(sum(map(measuring, set(homes))))
        time.sleep(0.05)
    assert max(seen) == 1
    assert sum(seen) > 2  # a look at all processes takes long where there are many
    says = "another campaign is measuring on this machine; waiting for it to end"
    assert any(says in one.words() for one in (first, second))
    for live in (first, second):
        assert live.end() == 0
        live.check()
    campaigns = {file for home in homes for file in home.glob("runs/*/campaign.json")}
    assert len(campaigns) == 2
