"""What pgbench, HammerDB, mysqlslap and sysbench-tpcc print, from 2015 to today, is read."""

import re
from pathlib import Path

import pytest

from conftest import DATA, comparisons, done
from noisefloor import paths, tools
from noisefloor.data import compare
from noisefloor.model import METRICS, leading
from noisefloor.parse import ParseError
from noisefloor.stats import two
from noisefloor.text import Refusal
from noisefloor.text.reasons import Why, has
from noisefloor.tools import Run

TEXTS = DATA / "tools"
BY_NAME = {tool.NAME: tool for tool in tools.all_tools()}
WHOLE = [
    ("pgbench/9.5", {"tps": 108.83263, "mean_latency": 0.009188}, 1, 30),
    ("pgbench/9.5-progress", {"tps": 2401.013184, "mean_latency": 0.006663}, 16, 300),
    (
        "pgbench/9.6-manual",
        {"tps": 622.977698, "mean_latency": 0.015844},
        10,
        10000 / 622.977698,
    ),
    ("pgbench/10-manual", {"tps": 85.296346}, 10, 10000 / 85.296346),
    ("pgbench/11", {"tps": 1449.363391, "mean_latency": 0.0069}, 10, 100000 / 1449.363391),
    ("pgbench/14-rate", {"mean_latency": 0.007613}, 10, 30),
    ("pgbench/14-ignored", {"tps": 18507.150330, "mean_latency": 54e-6}, 1, 200000 / 18507.150330),
    ("pgbench/15", {"tps": 770.272084, "mean_latency": 0.001298}, 1, 600),
    ("pgbench/15-debian", {"tps": 1845.521872, "mean_latency": 0.002164}, 4, 10),
    ("pgbench/15-rate-debian", {"mean_latency": 0.001649}, 4, 10),
    ("pgbench/15-connect-debian", {"tps": 289.136872, "mean_latency": 0.006917}, 2, 3),
    (
        "pgbench/15-select-debian",
        {"tps": 19095.266283, "mean_latency": 0.000105},
        2,
        1000 / 19095.266283,
    ),
    ("pgbench/17-manual", {"tps": 896.967014, "mean_latency": 0.011013}, 10, 10000 / 896.967014),
    ("hammerdb/4.5-counter", {"new_orders_per_s": 11761 / 60, "tps": 27285 / 60}, 1, None),
    ("hammerdb/3.2", {"new_orders_per_s": 13207 / 60, "tps": 60501 / 60}, 10, None),
    ("mysqlslap/5.7", {"query_time": 0.522}, 100, None),
    ("mysqlslap/9.7-debian", {"query_time": 12.605}, 4, None),
    ("mysqlslap/mariadb-10.11-debian", {"query_time": 7.391}, 4, None),
    (
        "sysbench/1.0-tpcc",
        {"tps": 165.01, "mean_latency": 0.00606, "p95": 0.01446},
        1,
        3600.0045,
    ),
]
FAILED = [
    ("pgbench/13-fail-aborted", "pgbench failed: pgbench: fatal: Run was aborted"),
    ("pgbench/16-fail-rate-aborted", "pgbench failed: pgbench: error: Run was aborted"),
    ("pgbench/15-fail-server-debian", "pgbench failed: pgbench: error: client 2 aborted"),
    ("pgbench/15-fail-cut-debian", "no summary: the run failed, was killed, or the text is cut"),
    ("pgbench/16-fail-cut", "the summary is cut, or a line of it is not whole: no 'tps'"),
    ("hammerdb/4.9-fail-user", "a virtual user failed: Error in Virtual User 30"),
    ("mysqlslap/9.7-fail-connect-debian", "mysqlslap failed: mysqlslap: Error when connecting"),
    ("mysqlslap/9.7-fail-query-debian", "mysqlslap failed: mysqlslap: Error when connecting"),
    ("mysqlslap/mariadb-10.11-fail-query-debian", "mysqlslap failed: mariadb-slap: Error when"),
    ("hammerdb/4.0-fail-cut", "no result: the run failed, was ended, or the text is cut"),
]


def read(name: str) -> str:
    return (TEXTS / f"{name}.txt").read_text()


def runs_of(text: str) -> list[tools.Run]:
    tool = tools.tool_of(text)
    return [tool.read_run(str(line), piece) for line, piece in tool.split_runs(text)]


# -- what is read ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "values", "threads", "seconds"), WHOLE, ids=lambda v: str(v)[:20])
def test_a_text_is_one_run(name, values, threads, seconds):
    text = read(name)
    (run,) = runs_of(text)
    assert tools.tool_of(text).NAME.lower() == name.partition("/")[0]
    assert dict(run.values) == pytest.approx(values)
    assert (run.threads, run.keys["tool"]) == (threads, tools.tool_of(text).NAME)
    assert run.seconds == pytest.approx(seconds) if seconds else run.seconds is None
    (as_bytes,) = runs_of(text.replace("\n", "\r\n").encode())
    assert as_bytes.values == run.values


@pytest.mark.parametrize(("name", "reason"), FAILED)
def test_a_failed_or_cut_text_is_recognised_and_refused(name, reason):
    assert tools.tool_of(read(name)).NAME.lower() == name.partition("/")[0]
    with pytest.raises(ParseError) as raised:
        runs_of(read(name))
    assert raised.value.reason.startswith(reason)
    assert raised.value.line >= 1


def test_several_runs_in_one_text_are_taken_apart():
    first, second, third = runs_of(read("hammerdb/4.0-three-runs"))
    found = [(r.threads, round(60 * r.values["new_orders_per_s"])) for r in (first, second, third)]
    assert found == [(1, 35576), (2, 60364), (4, 103055)]
    assert [r.seconds for r in (first, second, third)] == [60, 60, 60]
    assert first.version == "4.0"
    pair = runs_of(read("pgbench/12-reconnect-twice"))
    assert [r.values["tps"] for r in pair] == [198.113048, 197.133239]
    assert [r.name for r in pair] == ["1", "14"]  # the lines at which they begin
    three = runs_of(read("pgbench/18-three-runs"))  # between lines of a script
    assert [r.values["tps"] for r in three] == [3976.442323, 3967.670593, 4020.635072]
    assert {(r.threads, r.seconds, r.keys["query mode"]) for r in three} == {(32, 600, "prepared")}
    assert {r.version for r in three} == {"18.3 (Ubuntu 18.3-1)"}
    twice = runs_of(2 * read("mysqlslap/5.7"))
    assert [r.values["query_time"] for r in twice] == [0.522, 0.522]
    for name, walls in (("9.7", [10.273, 5.109]), ("mariadb-10.11", [6.719, 3.140])):
        both = runs_of(read(f"mysqlslap/{name}-two-debian"))
        assert [(r.threads, r.values["query_time"]) for r in both] == [
            *zip((4, 16), walls, strict=True)
        ]


def test_rows_of_progress_are_its_intervals():
    (run,) = runs_of(read("pgbench/9.5-progress"))
    assert list(run.rows) == [2903.1, 3101.8, 3071.6]
    assert list(run.intervals["t_s"]) == [5, 10, 300]
    assert run.intervals["latency_s"][0] == pytest.approx(0.005482)
    (run,) = runs_of(read("pgbench/15-debian"))
    assert list(run.rows) == [1821.3, 1837.7, 1899.0, 1877.0, 1782.0]
    assert list(run.intervals["t_s"]) == [2, 4, 6, 8, 10]
    assert run.intervals["latency_s"][0] == pytest.approx(0.002179)
    (run,) = runs_of(read("pgbench/15-rate-debian"))  # with lag and skipped transactions
    assert list(run.rows) == [205.5, 191.5, 195.5, 202.0]


def test_the_counter_s_highest_row_is_kept():
    (run,) = runs_of(read("hammerdb/4.5-counter"))
    assert run.more == {"most_tps": 30210 / 60}


def test_conditions_are_keys():
    (run,) = runs_of(read("pgbench/15"))
    assert run.keys["test"] == "<builtin: TPC-B (sort of)>"
    assert run.keys["scaling factor"] == "1"
    assert run.keys["query mode"] == "simple"
    assert run.version.startswith("15.5")
    assert run.keys["max tries"] == "1"
    (run,) = runs_of(read("hammerdb/4.5-counter"))
    assert run.keys["database"] == "MariaDB"
    run, _ = runs_of(read("mysqlslap/9.7-two-debian"))
    assert (run.keys["storage engine"], run.keys["queries a client"]) == ("innodb", "1000")


CHANGED = [
    ("pgbench/17-manual", "10000/10000", "9000/10000", "9000 of 10000 transactions were processed"),
    ("pgbench/14-ignored", "pgbench: (ignoring this error and continuing anyway)\n", "", "pgbench failed: starting vacuum...pgbench: error: ERROR: "),
    ("pgbench/15", "462159", "0", "no transaction was processed"),
    ("pgbench/15", "tps = 770.272084 (", "tps = 770.272084e3 (", "no 'tps'"),
    ("pgbench/15", "scaling factor: 1\n", "scaling factor: 1\nscaling factor: 2\n", "a second time"),
    ("pgbench/9.5-progress", "tps, lat 5.162", "tps, la", "a row of --progress that is not whole"),
    ("pgbench/9.5-progress", "progress: 10.0", "progress: 400.0", "time runs backwards"),
    ("hammerdb/4.5-counter", " from 27285 MariaDB TPM", "", "that is not whole"),
    ("hammerdb/4.5-counter", "11761 NOPM", "0 NOPM", "no order was made"),
    ("mysqlslap/5.7", "Average number of seconds to run all queries: 0.522", "Average number of seconds to run all queries: 1.522", "not between the minimum"),
    ("mysqlslap/5.7", "\tNumber of clients running queries: 100\n", "", "no 'clients'"),
    ("mysqlslap/5.7", "Benchmark\n", "Benchmark\nmysqlslap: Cannot run query x\n", "mysqlslap failed"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "was", "now", "reason"), CHANGED)
def test_a_damaged_text_is_refused(name, was, now, reason):
    text = read(name)
    assert was in text
    with pytest.raises(ParseError, match=re.escape(reason)):
        runs_of(text.replace(was, now, 1))


def test_sysbench_tpcc_is_read_as_a_run_of_sysbench():
    """TPC-C for sysbench prints sysbench's report; a transaction that it rolls back is an error."""
    (run,) = runs_of(read("sysbench/1.0-tpcc"))
    assert (run.version, run.access, run.more["ignored_errors"]) == ("1.0.20", "RW", 2589)
    assert run.keys["statements a transaction"] == "13 read, 13 write, 2 other"
    assert list(run.rows) == [143.71, 147.08, 156.97, 173.0, 161.0, 208.0]
    assert run.notes == ("rows are missing: the time stamps have gaps", "2589 ignored errors")


def test_a_warning_of_a_client_is_no_failed_run():
    """MariaDB's clients warn where they are started under MySQL's names."""
    now = "It will be removed in a future release, use '/usr/bin/mariadb-slap' instead"
    for name in ("mysqlslap", "/usr/bin/mysqlslap"):
        (run,) = runs_of(f"{name}: Deprecated program name. {now}\n{read('mysqlslap/5.7')}")
        assert run.values == {"query_time": 0.522}


def test_failed_transactions_are_noted():
    text = read("pgbench/15").replace(
        "failed transactions: 0 (0.000%)", "failed transactions: 12 (0.003%)"
    )
    (run,) = runs_of(text)
    assert run.notes == ("12 failed transactions",)


@pytest.mark.parametrize(
    ("text", "tool", "chore"),
    [
        ("dropping old tables...\ncreating tables...\ngenerating data (client-side)...\n"
         "vacuuming...\ncreating primary keys...\ndone in 0.25 s.\n", "pgbench", "initialization"),
        ("HammerDB CLI v4.0\nVuser 1:RUNNING\nVuser 1:TPCC SCHEMA COMPLETE\nVuser 1:FINISHED SUCCESS\n",
         "HammerDB", "schema build"),
    ],
)  # fmt: skip
def test_what_a_tool_did_else_is_no_failed_run(text, tool, chore):
    assert (tools.tool_of(text).NAME, tools.tool_of(text).chore(text)) == (tool, chore)


def test_how_often_a_transaction_is_tried_at_most_is_a_condition(tmp_path):
    """pgbench 15 and later print the number where there is one, and always how many failed."""
    text, line = read("pgbench/15"), "maximum number of tries: 1\n"
    for now, tries in ((line, "1"), (line.replace("1", "10"), "10"), ("", "any")):
        (run,) = runs_of(text.replace(line, now))
        assert run.keys["max tries"] == tries
    (run,) = runs_of(read("pgbench/11"))  # which knows no second try
    assert run.keys["max tries"] == "1"
    logs = tmp_path / "1.txt", tmp_path / "10.txt"
    for log, now in zip(logs, ("1", "10"), strict=True):
        log.write_text(text.replace(line, f"maximum number of tries: {now}\n"))
    with pytest.raises(Refusal, match="the logs differ in max tries: 1 in 1"):
        compare.rows(*compare.read_both(logs[:1], logs[1:]))


# -- judged and ingested -----------------------------------------------------------------------------


def written(folder: Path, texts: list[str]) -> list[Path]:
    """Logs in a folder, which is made."""
    folder.mkdir(parents=True)
    logs = [folder / f"run{n}.txt" for n in range(len(texts))]
    for log, text in zip(logs, texts, strict=True):
        log.write_text(text)
    return logs


def slaps(seconds: float) -> list[str]:
    """Logs of four runs of mysqlslap that take about so long."""
    text = read("mysqlslap/9.7-debian")
    times = (seconds * (1 + n / 1000) for n in range(4))
    return [re.sub(r"[0-9.]+ seconds\n", f"{t:.3f} seconds\n", text) for t in times]


def test_runs_of_mysqlslap_that_may_share_a_start_have_both_answers(tmp_path):
    logs = [written(tmp_path / arm, slaps(s)) for arm, s in (("off", 10.0), ("on", 10.3))]
    floor = {"tps": {"cv_pct": 1.5, "df": 9}}
    (row,) = compare.rows(*compare.read_both(*logs), floor=floor)
    assert (row.metric, row.verdict, row.restarted) == ("query_time", "cannot tell", "slower")
    first, *_, last = compare.conclusion([row])
    assert first.endswith("share one server start: after against before, time for all queries.")
    assert last == "To settle it: restart the server between the runs (--restarts)."
    (known,) = compare.rows(*compare.read_both(*logs), restarts=True)
    assert known.verdict == "slower"
    (short,) = compare.rows(*compare.read_both(logs[0][:1], logs[1][:1]))
    (said,) = (w for w in short.warnings if has([w], Why.PREDICTED))
    assert said.given["groups"] == 24  # of runs below a minute
    row, _ = two.judge_two(
        "10", "10.3", metric="query_time", sd=("0.01", "0.01"), n="4", floor_cv_pct="1.5"
    )
    assert (row.verdict, row.restarted) == ("cannot tell", "slower")


def limited(tps: float, ms: float) -> list[str]:
    """Logs of four runs of pgbench -R."""
    text = read("pgbench/15-rate-debian")
    text = re.sub(r"progress: .*\n", "", text)
    return [
        text.replace("200.337051", f"{tps + n:.6f}").replace(
            "= 1.649 ms", f"= {ms + n / 100:.2f} ms"
        )
        for n in range(4)
    ]


def test_transactions_a_second_of_a_rate_that_is_not_printed_are_not_judged(tmp_path):
    (run,) = runs_of(read("pgbench/15-rate-debian"))
    assert (run.keys["rate"], run.more) == ("limited", {"reached_rate": 200.337051})
    assert run.notes == ("the rate of -R is not printed, so two rates look alike: no word on TPS",)
    arms = {"mysql/8.4.8": (200, 1.6), "mariadb/11.8.3": (400, 2.0)}
    logs = [written(tmp_path / "tree" / arm, limited(*of)) for arm, of in arms.items()]
    (row,) = compare.rows(*compare.read_both(*logs), restarts=True)
    done("ingest", tmp_path / "tree", "--out", tmp_path / "out")
    asked = ("--from", tmp_path / "out", "--baseline", "server=mysql", "--restarts")
    (archived,) = comparisons("compare", *asked)
    assert (row.metric, row.verdict) == ("mean_latency", "slower")
    assert (archived["metric"], archived["verdict"]) == ("mean_latency", "slower")
    for warnings in (row.warnings, archived["warnings"]):
        assert any("a fixed --rate" in w for w in warnings)
        assert not any("Little's law" in w for w in warnings)


def test_runs_at_a_rate_of_a_given_number_of_transactions_may_take_longer():
    """One server lagged: how long it took is a result."""
    sides = [
        [
            Run("log", {"mean_latency": ms / 1e3 + n / 1e5}, 4, {"tool": "pgbench", "rate": "limited"}, s, more={"reached_rate": 40_000 / s})
            for n in range(4)
        ]
        for ms, s in ((1.6, 40.0), (2.0, 44.4))
    ]  # fmt: skip
    (row,) = compare.rows(*sides, restarts=True)
    assert row.verdict == "slower"
    assert any(has([w], Why.LOGS_DIFFER) for w in row.warnings)


TREES = [
    ("pgbench/15", r"(?<=tps = )[0-9.]+", "{}", "tps", "factor: 1\n", "factor: 10\n"),
    ("pgbench/15", r"(?<=tps = )[0-9.]+", "{}", "tps", "mode: simple", "mode: prepared"),
    ("hammerdb/4.5-counter", "[0-9]+(?= NOPM)", "{}", "new_orders_per_s", " MariaDB TPM", " MySQL TPM"),
    ("mysqlslap/9.7-debian", r"[0-9.]+(?= seconds\n)", "{}.000", "query_time", "client: 1000", "client: 100"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "number", "form", "metric", "was", "now"), TREES)
def test_a_tree_of_a_tool_is_judged_apart_where_its_runs_cannot_be_pooled(
    tmp_path, name, number, form, metric, was, now
):
    text = read(name)
    assert was in text
    for arm, value in (("mysql/8.4.8", 1000), ("mariadb/11.8.3", 1030)):
        texts = [re.sub(number, form.format(value + n % 3), text) for n in range(6)]
        texts[3:] = [each.replace(was, now) for each in texts[3:]]
        written(tmp_path / "tree" / arm, texts)
    done("ingest", tmp_path / "tree", "--out", tmp_path / "out")
    asked = ("--from", tmp_path / "out", "--baseline", "server=mysql")
    word = METRICS[metric].word(up=True)
    for rule, words in (("--restarts", (word, "")), ("--floor=1.5", ("cannot tell", word))):
        rows = [r for r in comparisons("compare", *asked, rule) if r["metric"] == metric]
        assert len({r["workload"] for r in rows}) == len(rows) == 2
        for row in rows:
            assert (row["n_baseline"], row["n_arm"]) == (3, 3)
            assert row["change_pct"] == pytest.approx(3, abs=0.1)
            assert (row["verdict"], row["restarted"]) == words


def test_runs_of_another_tool_are_judged(tmp_path):
    for arm, tps in (("before", 770.0), ("after", 1540.0)):
        (tmp_path / arm).mkdir()
        for n in range(3):
            text = read("pgbench/15").replace("770.272084", f"{tps + n:.6f}")
            (tmp_path / arm / f"{n}.txt").write_text(text)
    rows = compare.rows(
        *compare.read_both([tmp_path / "before"], [tmp_path / "after"]), restarts=True
    )
    (tps,) = (row for row in rows if row.metric == "tps")
    assert (tps.verdict, tps.threads) == ("faster", 1)
    assert tps.change_pct == pytest.approx(100, abs=1)


def test_runs_of_two_tools_or_scales_are_not_judged_together(tmp_path):
    one, other = tmp_path / "1.txt", tmp_path / "2.txt"
    one.write_text(read("pgbench/15"))
    for text, key in (
        (read("mysqlslap/5.7"), "tool"),
        (read("pgbench/15").replace("factor: 1", "factor: 10"), "scaling factor"),
    ):
        other.write_text(text)
        with pytest.raises(Refusal, match=f"the logs differ in {key}: "):
            compare.rows(*compare.read_both([one], [other]))


# -- one file a tool ---------------------------------------------------------------------------------


def test_a_tool_is_named_in_its_own_module_alone():
    library = Path(tools.__file__).parents[1]
    for tool in BY_NAME.values():
        if tool.NAME in ("sysbench", "time"):  # which we run ourselves
            continue
        holds = [
            f.relative_to(library).as_posix()
            for f in library.rglob("*.py")
            if tool.NAME in f.read_text()
        ]
        assert holds == [f"tools/{tool.NAME.lower()}.py"]


def test_a_module_that_is_put_beside_them_is_found(tmp_path, monkeypatch):
    (tmp_path / "wrk.py").write_text(
        "from noisefloor.tools import Run\n"
        "NAME, WRAPS, MUST = 'wrk', False, ('tool',)\n"
        "def recognises(text): return 'Requests/sec:' in text\n"
        "def chore(text): return None\n"
        "def split_runs(text): return [(1, text)]\n"
        "def read_run(name, text): return Run(name, {'tps': float(text.split()[-1])}, 1, {'tool': NAME})\n"
    )
    monkeypatch.setattr(tools, "__path__", [*tools.__path__, str(tmp_path)])
    tools.all_tools.cache_clear()
    try:
        assert runs_of("Requests/sec: 748868.53")[0].values == {"tps": 748868.53}
        assert tools.tool_of(read("pgbench/15")).NAME == "pgbench"
    finally:
        monkeypatch.undo()
        tools.all_tools.cache_clear()


def test_every_text_has_its_source():
    told = (TEXTS / "README.md").read_text()
    rows = [row for row in told.splitlines() if row.startswith("| `") and "| ours: " not in row]
    names = {p.name for p in TEXTS.glob("*/*.txt") if not p.stem.endswith("-debian")}
    quoted = {Path(name).name for row in rows for name in re.findall(r"`([^`]+\.txt)`", row)}
    assert quoted == names
    assert not [row for row in rows if "https://" not in row]
    assert paths.root()


def test_a_run_has_only_metrics_of_which_the_table_says_what_is_better():
    with pytest.raises(KeyError, match=r"speed: no row of metrics\.csv says what is better"):
        tools.Run("1.txt", {"tps": 1.0, "speed": 2.0})


def test_what_leads_is_throughput_else_time_and_every_metric_has_a_label_in_a_line():
    assert leading(["p95", "tps", "mean_latency"]) == "tps"
    assert leading(["tps", "new_orders_per_s"]) == "new_orders_per_s"
    assert leading(["p95", "mean_latency"]) == "mean_latency"
    assert leading(["user_sys", "wall"]) == "wall"
    assert leading(["speed"]) == ""
    names = ("new_orders_per_s", "tps", "events_per_s", "mean_latency", "p95", "wall", "user_sys")
    labels = ["new orders/s", "TPS", "events/s", "mean latency", "p95 latency", "wall time"]
    assert [METRICS[name].in_line for name in names] == [*labels, "CPU time"]
