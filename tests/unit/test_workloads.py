"""Command lines of the measuring tools."""

from dataclasses import replace
from pathlib import Path

import pytest

from noisefloor import studies
from noisefloor.measure import workloads
from noisefloor.model import Request
from noisefloor.servers import session

MAIN = studies.load(Request("binlog-encryption", profile="quick")).workloads[0]
FILE = Path("/private/of/somebody/sysbench.cnf")


def argv(workload=MAIN, **options):
    given = {"tables": 5, "rows": 100, "threads": 4, "seconds": 2.0} | options
    return workloads.sysbench_argv(workload, FILE, **given)


def test_a_run_prints_seconds_and_a_histogram():
    found = argv()
    assert found[:2] == ["sysbench", "oltp_read_write"]
    assert found[-1] == "run"
    assert set(found) >= {
        *("--report-interval=1", "--histogram=on", "--time=2", "--threads=4", "--tables=5"),
        *("--table-size=100", f"--config-file={FILE}", *MAIN.options),
    }
    # without a time of 0 sysbench stops after ten seconds
    assert set(argv(events=300)) >= {"--events=300", "--time=0"}
    # the arm's own options come last and win
    found = argv(options=("--work=87", "--rand-type=zipfian"))
    assert found.index("--rand-type=zipfian") > found.index("--rand-type=uniform")
    assert found[-2:] == ["--rand-type=zipfian", "run"]


def test_our_own_script_is_a_path_that_is_not_written_down():
    found = argv(replace(MAIN, script="work.lua"))
    assert Path(found[1]).exists()
    assert Path(found[1]).name == "work.lua"
    assert workloads.script("oltp_write_only") == "oltp_write_only"
    assert workloads.script("absent.lua") == "absent.lua"
    shown = workloads.portable(found)
    assert not [a for a in shown if "/" in a]
    assert "--config-file=sysbench.cnf" in shown


def test_loading_and_a_statement_for_every_table():
    found = workloads.prepare_argv(FILE, MAIN, 5, 100)
    assert found[-1] == "prepare"
    assert {"--table-size=100", "--threads=2"} <= set(found)
    assert not [a for a in found if "password" in a]
    own = workloads.prepare_argv(FILE, replace(MAIN, sized=False, threads=(1, 8)), 5, 100)
    assert own[-2:] == ["--threads=8", "prepare"]  # a script may load a table a thread
    every = workloads.statements(["ALTER TABLE {table} FORCE", "FLUSH LOGS"], 2)
    tables = ("canary", "sbtest1", "sbtest2")
    assert every == [*(f"ALTER TABLE noisefloor.{t} FORCE" for t in tables), "FLUSH LOGS"]


@pytest.mark.parametrize(
    ("port", "where"),
    [(None, "mysql-socket=/s.sock\n"), (3307, "mysql-host=127.0.0.1\nmysql-port=3307\n")],
)
def test_the_option_file_holds_the_secret_and_the_way_to_the_server(port, where):
    text = session.option_file("u", "p=#w", Path("/s.sock"), port)
    assert text == f"mysql-user=u\nmysql-password=p=#w\nmysql-db=noisefloor\n{where}"
