"""Every notebook as an exported script, from the project's folder and from that of the notebooks, on
recorded campaigns: nothing is measured. (`test_report` renders them, `test_lab` opens JupyterLab.)"""

import os
import subprocess
import sys

import pytest
from nbconvert import PythonExporter
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from noisefloor import paths, report

QUICK = ("explore", "published-claims")  # the others read a whole campaign each
BOOKS = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
    for name in report.studies(everything=True)
]


@pytest.mark.parametrize("folder", [paths.root(), paths.notebooks()], ids=["root", "notebooks"])
@pytest.mark.parametrize("name", BOOKS)
def test_a_notebook_runs_as_a_script(name, folder, tmp_path):
    book = paths.notebooks() / f"{name}.ipynb"
    given = {}
    if "campaign" in report.parameters(book):
        given["campaign"] = report.recorded_campaign(name)
        if not given["campaign"]:
            pytest.skip(f"{name} has no recorded campaign")
    # what somebody does who writes the campaign into the first cell and exports the notebook
    written = parameterize_notebook(load_notebook_node(str(book)), given)
    script = tmp_path / f"{name}.py"
    script.write_text(PythonExporter().from_notebook_node(written)[0])
    env = os.environ | {"NOISEFLOOR_RUNS": str(tmp_path / "runs"), report.saved.OUT: str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, script], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "Warning" not in ran.stderr
    assert not (tmp_path / "runs").exists()
