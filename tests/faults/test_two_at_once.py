"""Two campaigns started at once on one machine: never both measure."""

import contextlib
import shutil
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
@pytest.mark.parametrize(
    "apart",
    ["other folder", pytest.param("same folder", marks=pytest.mark.slow),
     pytest.param("other network namespace", marks=pytest.mark.slow)],
)  # fmt: skip
def test_the_second_waits(tmp_path, mysql, apart):
    enter = ()
    if apart == "other network namespace":
        if (
            not shutil.which("unshare")
            or subprocess.run(["unshare", "-n", "true"], check=False).returncode
        ):
            pytest.skip("no network namespace is allowed here")
        enter = ("unshare", "-n")
    homes = [tmp_path / "one", tmp_path / ("one" if apart == "same folder" else "two")]
    for home in set(homes):
        home.mkdir()
    first, second = (
        Live(homes[0], mysql, *asked(0.05)),
        Live(homes[1], mysql, *asked(0.05), enter=enter),
    )
    first.start()
    first_said = first.said_in
    time.sleep(0.2)
    second.said_in = tmp_path / "second.said"
    second.start()
    both = seen = 0
    while first.running() or second.running():
        found = sum(map(measuring, set(homes)))
        both += found > 1
        seen += found
        time.sleep(0.05)
    assert both == 0
    assert seen > 2  # a look at all processes takes long where there are many
    assert first_said != second.said_in
    waited = [
        "another campaign is measuring on this machine; waiting for it to end" in one.words()
        for one in (first, second)
    ]
    assert any(waited)
    for live in (first, second):
        assert live.end() == 0
        live.check()
    campaigns = list(homes[0].glob("runs/*/campaign.json")) + list(
        homes[1].glob("runs/*/campaign.json")
    )
    assert len(set(campaigns)) == 2
