"""The same runs get the same row, whoever is asked."""

import math

import numpy as np
import pytest

import archive
from conftest import comparisons, done
from noisefloor import explore, stats

SAME = [
    "metric", "threads", "n_baseline", "n_arm", "change_pct", "lo_pct", "hi_pct", "margin_pct",
    "verdict", "worse", "together", "known", "restarted", "restarted_lo_pct", "restarted_hi_pct",
    "runs_needed", "joint",
]  # fmt: skip


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Two servers, two thread counts, four runs each: a folder of logs, and its tables."""
    folder = tmp_path_factory.mktemp("logs")
    rng = np.random.default_rng(7)
    for server, version, rate in (("mysql", "8.4.8", 500.0), ("mariadb", "11.8.3", 470.0)):
        for threads in (4, 16):
            for run in range(1, 5):
                place = folder / "benchmark_logs" / server / version
                place.mkdir(parents=True, exist_ok=True)
                name = f"run{run}_Tier2G_RW_{threads}th.sysbench.txt"
                text = archive.text(rng, threads, 30, rate * math.exp(rng.normal(0, 0.02)))
                (place / name).write_text(text)
    tables = tmp_path_factory.mktemp("tables") / "out"
    done("ingest", folder, "--out", tables)
    return folder / "benchmark_logs", tables


def rows_of(records):
    """{(metric, threads): row} of what all of them have."""
    return {
        (r["metric"], int(r["threads"])): {
            k: None if isinstance(r[k], float) and math.isnan(r[k]) else r[k] for k in SAME
        }
        for r in records
    }


def every_way(logs, *options):
    """The rows of the same runs from the files, from the tables, from the explorer and from the
    verdict table of runs without pairs."""
    folder, tables = logs
    before, after = folder / "mysql" / "8.4.8", folder / "mariadb" / "11.8.3"
    yield "files", rows_of(comparisons("compare", *options, before, "--", after))
    asked = ("--from", tables, "--baseline", "server=mysql")
    yield "tables", rows_of(comparisons("compare", *asked, *options))
    opened = explore.opened(str(tables), baseline="mysql 8.4.8")
    if not options:
        work = opened.study.workloads[0].name
        yield "explorer", rows_of(opened.judge(workload=work).to_dict("records"))
    tidy = opened.tidy[~opened.tidy["warmup"]].drop(columns="pair_id")
    found = stats.table(tidy, baseline=opened.study.baseline.name, restarts=bool(options))
    yield "verdict table", rows_of(found.to_dict("records"))


@pytest.mark.parametrize("options", [(), ("--restarts",)], ids=["default", "restarts"])
def test_the_same_runs_get_the_same_row_from_files_tables_explorer_and_verdict_table(logs, options):
    answers = dict(every_way(logs, *options))
    first = answers["files"]
    assert {r["verdict"] for r in first.values()} >= {"slower"}
    for name, rows in answers.items():
        for place, row in rows.items():
            for column, value in row.items():
                expected = first[place][column]
                expected = pytest.approx(expected) if isinstance(expected, float) else expected
                assert value == expected, (name, place, column)
