"""Two campaigns started at once on one machine: never both measure."""

import shutil
import subprocess
import time

import pytest

from live import Live, asked, processes


def measuring(live: Live) -> bool:
    """Whether a sysbench of this project runs."""
    return any("sysbench" in p.name() for p in processes(live.home))


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
        if apart == "same folder":
            both += len([p for p in processes(homes[0]) if p.name() == "sysbench"]) > 1
        else:
            both += measuring(first) and measuring(second)
        seen += measuring(first) or measuring(second)
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
