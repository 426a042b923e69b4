"""Folders with odd names: spaces, letters of other alphabets, signs that option files read, and
paths longer than a socket's may be. And names of arms that look alike."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import moved
from live import Live, asked
from noisefloor import model as study
from noisefloor import schedule, studies
from noisefloor.measure.folder import Folder
from noisefloor.model import Arm, StudyError
from noisefloor.servers import engines
from noisefloor.servers.sandbox import sandbox
from noisefloor.servers.server import Server
from test_pages_harmed import assert_whole_page, project, rendered

ODD = "Größe & Maß #1; 'Übung' 測定 \\ 50 %"
LONG = "/".join(["a-folder-with-quite-a-long-name"] * 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [ODD, LONG], ids=["odd", "long"])
def test_a_campaign_in_such_a_folder(tmp_path, mysql, name):
    home = tmp_path / name
    home.mkdir(parents=True)
    live = Live(home, mysql, *asked(0.1))
    assert len(str(home)) > 107 or name == ODD
    live.finish()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mysql", "mariadb"])
def test_a_server_made_in_such_a_folder(tmp_path, kind):
    """From nothing: initialised, with a keyring, an option file and a copy."""
    (tmp_path / ODD).mkdir()
    with moved(tmp_path / ODD), sandbox() as shop:
        server = Server(engines.find(kind), shop / "one", keyring=True).initialise()
        with server.copy(shop / "two") as copy:
            where = copy.query("SELECT @@datadir AS d")[0]["d"]
            assert where.rstrip("/") == str(shop / "two" / "data")


@pytest.mark.slow
def test_a_page_in_such_a_folder(project):
    out = project / ODD
    rendered(project, out)
    assert_whole_page(out)


SMOKE = studies.load(study.Request("binlog-encryption", profile="smoke"))


def test_such_a_folder_is_not_kept_with_a_server_s_variables(tmp_path):
    place = tmp_path / f'{ODD} "q"' / "s1"
    values = {"datadir": f"{place}/data/", "tmpdir": str(place.parent), "init_connect": 'ü "\\'}
    server = SimpleNamespace(
        folder=place, socket=Path("/tmp/s1.sock"), settings={}, variables=lambda: values
    )
    campaign = object.__new__(Folder)
    campaign.study, campaign.folder = SMOKE, tmp_path
    text = (tmp_path / campaign._variables(server)["file"]).read_text()
    shown = {"datadir": "<server>/data/", "tmpdir": "<server>"}
    assert json.loads(text) == values | shown


@pytest.mark.parametrize(
    ("baseline", "arms", "said"),
    [
        ("größer", ("grösser",), ""),
        ("無", ("有",), ""),
        ("plain", ("PLAIN",), "'PLAIN' and 'plain' would have the same folders"),
        ("plain", ("a b", "a-b"), "would have the same folders"),
        ("plain", ("twice", "twice"), "would have the same folders"),
        ("plain", ("plain again",), "would have the same folders"),
        ("plain", ("±",), "would have the same folders"),
        ("plain", ("x" * 250,), "names of 1 to about 60 letters"),
        ("plain", ("測" * 60,), "names of 1 to about 60 letters"),
    ],
)
def test_names_that_look_alike(baseline, arms, said):
    chosen = replace(SMOKE, baseline=Arm(baseline), arms=tuple(map(Arm, arms)))
    if said:
        with pytest.raises(StudyError, match=said):
            schedule.check(chosen)
    else:
        schedule.check(chosen)
        cells = [c for c in schedule.cells(chosen) if c.workload == chosen.workloads[0]]
        assert len({c.key for c in cells}) == 2
        controls = [c for c in cells if c.control]
        assert all(c.key.endswith(schedule.slug(study.CONTROL_SUFFIX)) for c in controls)
