"""Command lines of the measuring tools."""

from dataclasses import replace
from pathlib import Path

import pytest

from noisefloor import studies, workloads

MAIN = studies.load("binlog-encryption", profile="quick").workloads[0]
FILE = Path("/private/of/somebody/sysbench.cnf")


def argv(workload=MAIN, **options):
    given = {"tables": 5, "rows": 100, "threads": 4, "seconds": 2.0} | options
    return workloads.sysbench(workload, FILE, **given)


def test_a_run_prints_seconds_and_a_histogram():
    found = argv()
    assert found[:2] == ["sysbench", "oltp_read_write"]
    assert found[-1] == "run"
    for option in (
        *("--report-interval=1", "--histogram=on", "--time=2", "--threads=4", "--tables=5"),
        *("--table-size=100", f"--config-file={FILE}", *MAIN.options),
    ):
        assert option in found


def test_events_instead_of_seconds():
    found = argv(events=300)
    assert "--events=300" in found
    assert "--time=0" in found  # without it sysbench stops after ten seconds


def test_the_arms_own_options_come_last_and_win():
    found = argv(options=("--work=87", "--rand-type=zipfian"))
    assert found.index("--rand-type=zipfian") > found.index("--rand-type=uniform")
    assert found[-2:] == ["--rand-type=zipfian", "run"]


def test_our_own_script_is_a_path_and_sysbenchs_own_a_name():
    found = argv(replace(MAIN, script="work.lua"))
    assert Path(found[1]).exists()
    assert Path(found[1]).name == "work.lua"
    assert workloads.script("oltp_write_only") == "oltp_write_only"
    assert workloads.script("absent.lua") == "absent.lua"


def test_what_is_written_down_names_no_folder_of_this_machine():
    found = workloads.shown(argv(replace(MAIN, script="work.lua")))
    assert not [a for a in found if "/" in a]
    assert "--config-file=sysbench.cnf" in found


def test_a_statement_for_every_table():
    every = workloads.statements(["ALTER TABLE {table} FORCE", "FLUSH LOGS"], 2)
    tables = ("canary", "sbtest1", "sbtest2")
    assert every == [*(f"ALTER TABLE noisefloor.{t} FORCE" for t in tables), "FLUSH LOGS"]


def test_loading():
    found = workloads.prepare(FILE, "oltp_read_write", 5, 100)
    assert found[-1] == "prepare"
    assert "--table-size=100" in found
    assert not [a for a in found if "password" in a]


@pytest.mark.parametrize(
    ("port", "where"),
    [(None, "mysql-socket=/s.sock\n"), (3307, "mysql-host=127.0.0.1\nmysql-port=3307\n")],
)
def test_the_option_file_holds_the_secret_and_the_way_to_the_server(port, where):
    text = workloads.option_file("u", "p=#w", Path("/s.sock"), port)
    assert text == f"mysql-user=u\nmysql-password=p=#w\nmysql-db=noisefloor\n{where}"
