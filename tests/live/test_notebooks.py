"""Every notebook as an exported script, on recorded campaigns: nothing is measured. (`test_report`
renders them, `test_lab` opens a Lab.)"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from nbconvert import PythonExporter
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from conftest import COMMAND
from noisefloor import paths
from noisefloor.show import report

# in the folder of the notebooks: papermill runs them in the root
BOOKS = report.studies(everything=True)


def filled(name: str, runs: Path):
    """What somebody has who writes the newest recorded campaign into a notebook's first cell:
    own-study, which has none, takes that of a study with the same design; of two commands, none of
    which is recorded, one is measured into `runs`."""
    book, given = paths.notebooks() / f"{name}.ipynb", {}
    if name == "time":
        env = os.environ | {"NOISEFLOOR_RUNS": str(runs)}
        subprocess.run([*COMMAND, "time", "true", "sleep 0.01", "--seconds", "2"], env=env, check=True)  # fmt: skip
        (measured,) = runs.iterdir()
        given["campaign"] = measured.name
    elif "campaign" in report.parameters(book):
        study = "binlog-encryption" if name == "own-study" else name
        given["campaign"] = report.recorded_campaign(study)
        assert given["campaign"], f"{name} has no recorded campaign"
    return parameterize_notebook(load_notebook_node(str(book)), given)


def ran(*command, out: Path, cwd: Path) -> str:
    """What a command says on stderr that must succeed; its tables go to `out`."""
    env = os.environ | {"NOISEFLOOR_RUNS": str(out / "runs"), report.OUT: str(out)}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", BOOKS)
def test_a_notebook_runs_as_a_script(name, tmp_path):
    script = tmp_path / f"{name}.py"
    book = filled(name, tmp_path / "runs")
    script.write_text(PythonExporter().from_notebook_node(book)[0])
    before = [*tmp_path.glob("runs/*")]
    assert "Warning" not in ran(sys.executable, script, out=tmp_path, cwd=paths.notebooks())
    assert [*tmp_path.glob("runs/*")] == before


def test_plain_papermill_takes_the_same_parameters(tmp_path):
    book, papermill = tmp_path / "out.ipynb", Path(sys.executable).with_name("papermill")
    command = (papermill, "notebooks/published-claims.ipynb", book, "-k", "python3")
    ran(*command, "-p", "margin_pct", "30", out=tmp_path, cwd=paths.root())
    facts = json.loads((tmp_path / "published-claims.json").read_text())
    assert {row["margin_pct"] for row in facts["comparisons"]} == {30}
    assert (tmp_path / "published-claims.csv").exists()
    assert "margin_pct = 30" in book.read_text()
