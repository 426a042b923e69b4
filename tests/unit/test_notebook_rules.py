"""Each rule of the notebooks is broken once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import notebook_rules


def notebook(
    *sources: str, parameters: str = 'profile = "quick"\nthreads = [1, 4]', **cell
) -> dict:
    cells = [{"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": [parameters]}]
    cells += [
        {"cell_type": "code", "metadata": {}, "source": s.splitlines(True), **cell} for s in sources
    ]
    return {"cells": cells}


def function(lines: int) -> str:
    """A function of so many lines."""
    return "def f(x):\n" + "    x += 1\n" * (lines - 1)


def loop(lines: int) -> str:
    return "for row in rows:\n" + "    print(row)\n" * (lines - 1)


def test_a_notebook_that_computes_and_shows_keeps_the_rules():
    good = "from noisefloor import plots\nplots.overhead(table, 'tps')\n[r.run for r in table]"
    assert notebook_rules.problems(notebook(good, '"Show what differs"')) == []
    assert notebook_rules.problems(notebook(parameters="x = {'a': [-1, (2.5, None)]}")) == []
    short = (function(12), loop(12), function(6) + loop(6), "f = lambda x: x + 1")
    assert notebook_rules.problems(notebook(*short)) == []


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (notebook("1", outputs=[{"text": "1"}]), "cell 2 holds outputs"),
        (notebook("1", execution_count=3), "cell 2 holds outputs or an execution count"),
        ({"cells": []}, "0 cells are tagged parameters"),
        ({"cells": notebook()["cells"] * 2}, "2 cells are tagged parameters"),
        (notebook(parameters="threads = list(range(4))"), "more than names and literals"),
        (
            notebook(parameters="import os"),
            "more than names and literals in the parameters: import",
        ),
        (notebook(parameters="x = -1 + y"), "more than names and literals"),
        (notebook(parameters=loop(2)), "more than names and literals"),
        (notebook(function(13)), "cell 2 has 13 lines of functions, classes and loops, 12 at most"),
        (notebook(loop(13)), "cell 2 has 13 lines"),
        (notebook(function(12) + loop(2)), "cell 2 has 14 lines"),  # of a cell together
        (notebook("class A:\n" + "    x = 1\n" * 12), "cell 2 has 13 lines"),
        (notebook("import sys\nsys.path.append('lib')"), "cell 2 uses sys.path"),
        (notebook("import os\nos.chdir('..')"), "cell 2 uses os.chdir"),
        (notebook("q('SELECT a FROM b')"), "cell 2 holds SQL"),
        (notebook("q('set global binlog_encryption=ON')"), "cell 2 holds SQL"),
        (notebook("!ls"), "cell 2 has a magic or a shell command"),
        (notebook("x ="), "cell 2 is not Python (line 1)"),
        (notebook("open('/home/me/x')"), "cell 2 names somebody's home folder"),
    ],
)
def test_each_rule(broken, says):
    assert [p for p in notebook_rules.problems(broken) if p.startswith(says) or says in p]


def test_the_command_names_file_and_rule(tmp_path):
    file = tmp_path / "bad.ipynb"
    file.write_text(json.dumps(notebook(function(20))))
    argv = [sys.executable, Path(notebook_rules.__file__)]
    ran = subprocess.run([*argv, file], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stdout == (
        f"{file}: cell 2 has 20 lines of functions, classes and loops, 12 at most: "
        "longer analysis belongs in notebooks/analysis\n"
    )


def test_the_notebooks_keep_the_rules():
    assert notebook_rules.main([]) == 0
