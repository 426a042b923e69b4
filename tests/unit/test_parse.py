"""parse: real captured outputs, formats written by hand, what is refused. Damage by the million:
tests/faults/test_fuzz.py."""

import pickle
import re
import tomllib

import numpy as np
import pytest

import archive
from conftest import DATA
from noisefloor import parse, tools
from noisefloor.parse import rows
from noisefloor.tools import sysbench


def texts(folder: str) -> dict[str, str]:
    return {p.stem: p.read_text() for p in sorted((DATA / folder).glob("*.txt"))}


SYSBENCH, TIME = texts("sysbench"), texts("time")
TABLES = tomllib.loads((DATA / "parse.toml").read_text())
WHOLE = [
    "mariadb-cpu", "mariadb-deadlocks-ignored", "mariadb-events", "mariadb-memory", "mariadb-oltp-rw-hist",
    "mariadb-rate", "mariadb-write-only", "mysql97-deadlocks-16thr-10rows", "mysql97-load-while-clone",
    "mysql97-ok-ro-hist", "mysql97-ok-rw-hist", "mysql97-ok-rw-nohist",
]  # fmt: skip
RW, OTHER = SYSBENCH["mysql97-ok-rw-hist"], SYSBENCH["mariadb-write-only"]


def plain_numbers(result: dict) -> dict:
    """`result` with arrays as tuples, to be compared."""
    if isinstance(result, dict):
        return {k: plain_numbers(v) for k, v in result.items()}
    return tuple(result.tolist()) if isinstance(result, np.ndarray) else result


def refused(text: str | bytes, read=parse.sysbench) -> parse.ParseError:
    with pytest.raises(parse.ParseError) as caught:
        read(text)
    return caught.value


# -- whole runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WHOLE)
def test_real_run_is_read_without_a_warning(name):
    result = parse.sysbench(SYSBENCH[name])
    assert result["warnings"] == []
    assert result["version"] == "1.0.20"
    assert tools.tool_of(SYSBENCH[name]).NAME == "sysbench"


def test_every_number_of_a_real_run():
    r = parse.sysbench(RW)
    told = {
        "threads": 4, "rate": None, "report_interval": 1, "duration_s": 10.0161, "events": 5080,
        "transactions": 5080, "tps": 507.16, "queries": 101600, "qps": 10143.29, "reads": 71120,
        "writes": 20320, "other": 10160, "ignored_errors": 0, "reconnects": 0, "percentile": 99,
    }  # fmt: skip
    assert {name: r[name] for name in told} == told
    latency = {"min": 0.00151, "mean": 0.00788, "max": 0.10838, "sum": 40.00867}
    assert r["latency"] == latency | {"percentile": {99: 0.02111}}
    assert {k: v[1] for k, v in r["intervals"].items()} == {
        "t_s": 2, "threads": 4, "tps": 576.18, "qps": 11536.69, "reads_per_s": 8083.59,
        "writes_per_s": 2300.74, "other_per_s": 1152.37, "errors_per_s": 0, "reconnects_per_s": 0,
        "latency_s": pytest.approx(0.02574), "ok": True,
    }  # fmt: skip
    assert all(len(v) == 10 for v in r["intervals"].values())
    assert r["histogram_counts"].sum() == 5080
    assert r["histogram_s"][[0, -1]] == pytest.approx([0.001523, 0.108685])
    assert r["histogram_counts"].dtype.kind == "i"


@pytest.mark.parametrize(
    "name", ["mysql97-ok-rw-hist", "mysql97-ok-ro-hist", "mariadb-oltp-rw-hist"]
)
def test_quantile_is_the_percentile_that_sysbench_prints(name):
    r = parse.sysbench(SYSBENCH[name])
    own = parse.quantile(r["histogram_s"], r["histogram_counts"], 0.99)
    assert own == pytest.approx(r["latency"]["percentile"][99], abs=5.1e-6)


@pytest.mark.parametrize(("q", "value"), [(0, 1), (0.25, 1), (0.5, 2), (0.75, 3), (1, 3)])
def test_quantile_by_hand(q, value):
    assert parse.quantile([1, 2, 3], [1, 1, 2], q) == value


@pytest.mark.parametrize("wrong", [([], [], 0.5), ([1], [0], 0.5), ([1], [1], 95)])
def test_quantile_refuses(wrong):
    with pytest.raises(ValueError, match="quantile"):
        parse.quantile(*wrong)


LONG = archive.text(np.random.default_rng(1), 4, 200)


def test_many_rows_at_once_are_the_rows_one_by_one(monkeypatch):
    assert rows.block("\n" + LONG) is not None
    at_once = plain_numbers(parse.sysbench(LONG))
    monkeypatch.setattr(rows, "_WORTH", len(LONG))
    assert plain_numbers(parse.sysbench(LONG)) == at_once
    assert len(at_once["intervals"]["t_s"]) == 200


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        (r"tps: (\d+)\.(\d)\d", r"tps: \1.\2"),
        (r"tps: (\d+)\.(\d\d)", r"tps: \1.\g<2>7"),
        (r"tps: (\d+)\.(\d\d)", r"tps: \1\2"),
        (r"tps: \d+\.", "tps: ."),
        (r"\(ms,99%\)", "(99ms,%)"),
        (r"thds: 4 ", "thds:  "),
        (r"\[ 50s \]", "[ 48s ]"),
        (r"\[ 50s \]", "[ 5000000000s ]"),
    ],
)
def test_a_harmed_row_among_many_is_refused_as_one_among_few(there, instead, monkeypatch):
    first, last = LONG.split("[ 50s ]")
    text = first + re.sub(there, instead, "[ 50s ]" + last, count=1)
    assert text != LONG
    at_once = refused(text)
    monkeypatch.setattr(rows, "_WORTH", len(text))
    assert str(refused(text)) == str(at_once)


# -- other versions and kinds ----------------------------------------------------------------------

WRITTEN = texts("sysbench/by-hand")
OLDER = WRITTEN["0.5-older"]


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_other_versions(name):
    told = dict(TABLES["versions"][name])
    if "tps" not in told:  # other kinds of test have events alone
        told |= dict.fromkeys(("transactions", "tps", "queries", "qps"))
    r, latency, row = parse.sysbench(WRITTEN[name]), told.pop("latency"), told.pop("row", {})
    assert {k: r[k] for k in told} == told
    shown = {str(q): value for q, value in r["latency"]["percentile"].items()}
    assert {k: r["latency"][k] for k in ("mean", "max")} | {"percentile": shown} == latency
    last = {k: r["intervals"][k][-1] for k in row}
    assert last == {k: pytest.approx(value) for k, value in row.items()}
    assert tools.tool_of(WRITTEN[name]).NAME == "sysbench"
    assert bool(r["warnings"]) == (name == "1.0-checkpoint-wrapped")


def test_rate_adds_a_queue():
    r = parse.sysbench(SYSBENCH["mariadb-rate"])
    assert r["rate"] == 500
    none = (0, 0, 0)
    assert plain_numbers(r["queue"]) == {"t_s": (1, 2, 3), "length": none, "concurrency": none}
    queue = parse.sysbench(WRITTEN["1.0-cpu-rate"])["queue"]
    assert (queue["length"][0], queue["concurrency"][0]) == (3, 1)


def test_last_block_after_a_checkpoint_is_the_run_and_the_wrapped_row_is_left_out():
    text = WRITTEN["1.0-checkpoint-wrapped"]
    r = parse.sysbench(text)
    assert [c["events"] for c in r["checkpoints"]] == [200]
    assert r["intervals"]["t_s"].tolist() == [1, 3]
    assert "latency_s" not in r["intervals"]  # percentile disabled: 0.00 is no latency
    assert any("impossible rate" in w for w in r["warnings"])
    assert "checkpoint reports only" in refused(text[: text.rindex("SQL statistics")]).reason


def test_command_line_gives_test_and_options_without_secrets():
    r = parse.sysbench(WRITTEN["1.1-lua-reporter"])
    assert r["test"] == "oltp_read_write"
    assert r["options"] == {
        "mysql-host": "db1", "mysql-user": "sbtest", "mysql-password": "***", "threads": "2",
        "time": "3", "tables": "4", "table-size": "1000", "report-interval": "1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("echo", "test"),
    [
        ("sysbench --test=/usr/share/doc/sysbench/tests/db/oltp.lua --num-threads=4 run", "oltp"),
        ("$ sysbench cpu --cpu-max-prime=20000 run", "cpu"),
        ("sysbench --mysql-user=x \\\n  --tables=10 \\\n  oltp_point_select run", "oltp_point_select"),
        ("sysbench oltp_read_only --tables=10 prepare", None),
        ("we use sysbench for this", None),
        ("sysbench 'oltp_read_only run", None),
    ],
)  # fmt: skip
def test_command_line_forms(echo, test):
    assert parse.sysbench(echo + "\n" + RW)["test"] == test


def test_rows_of_an_unknown_form_leave_the_summary():
    d = parse.sysbench(re.sub(r"tps: (\S+), reads/s", r"speed: \1, reads/s", OLDER))
    assert (d["tps"], d["intervals"]) == (509.2, {})
    assert any("2 rows of a form that is not known here" in w for w in d["warnings"])


def test_events_count_where_no_transaction_does():
    text = OLDER.replace("5093   (509.20 per sec.)", "0      (0.00 per sec.)")
    d = parse.sysbench(re.sub(r"tps: \S+,", "tps: 0.00,", text))
    assert d["tps"] is None
    assert d["events_per_s"] == pytest.approx(509.2, rel=1e-3)
    assert "tps" not in d["intervals"]


def test_a_time_limit_that_passed_is_a_warning():
    late = "FATAL: The --max-time limit has expired, forcing shutdown...\n"
    left = "Number of unfinished transactions on forced shutdown: 398\n\nGeneral"
    text = OLDER.replace("General", left, 1)
    d = parse.sysbench(text.replace("OLTP test", late + "OLTP test", 1))
    assert d["tps"] == 509.2
    assert any("time limit" in w for w in d["warnings"])
    assert "no summary" in refused(OLDER[: OLDER.index("OLTP test")] + late).reason


def test_harmed_rows_of_json():
    text = WRITTEN["1.1-json-reporter"]
    assert "no summary" in refused(text.partition("SQL statistics")[0]).reason
    assert "not whole" in refused(text.replace("2000.00", "2000")).reason
    assert "backwards" in refused(text.replace('"time":    3', '"time":    1')).reason


# -- what surrounds a run, and what breaks it ------------------------------------------------------

VMSTAT = "procs -----------memory----------\n r  b   swpd   free\n 1  0      0 123456\n"
EXPLAIN = "           id: 1\n  select_type: SIMPLE\n          max: 3 apples\n"
PREPARE = "sysbench 1.0.20 (using system LuaJIT)\n\nCreating table 'sbtest1'...\n"


@pytest.mark.parametrize(
    "text",
    [
        PREPARE + EXPLAIN + RW + "rc=0\n" + VMSTAT,
        RW.replace("[ 5s ]", "mysql: [Warning] something\n[ 5s ]"),
        RW.replace("\n", "\r\n"),
        RW.encode(),
        RW.encode("utf-16"),
        "\ufeff" + RW,
        RW.rstrip("\n"),
    ],
    ids=["junk around", "between rows", "CRLF", "bytes", "UTF-16", "mark", "no line end"],
)
def test_the_same_numbers_whatever_is_around_them(text):
    assert plain_numbers(parse.sysbench(text)) == plain_numbers(parse.sysbench(RW))


@pytest.mark.parametrize("name", sorted(set(SYSBENCH) - set(WHOLE)))
def test_failed_run_is_a_parse_error_naming_the_failure(name):
    text = SYSBENCH[name]
    e = refused(text)
    assert text.split("\n")[e.line - 1].startswith(e.text[:50])
    failed = "FATAL" in text or "invalid option" in text
    assert (e.text if failed else "no summary") in e.reason
    assert str(pickle.loads(pickle.dumps(e))) == str(e)
    assert tools.tool_of(text).NAME == "sysbench"


BROKEN = {
    "NUL bytes": RW[:500] + "\0\0" + RW[500:],
    "NUL bytes: a damaged": RW.encode("utf-16-le"),
    "not a whole number": RW.replace(".", ","),
    "interval row that is not whole": RW.replace("tps: 576.18", "tps: 576"),
    "histogram row that is not whole": RW.replace("1.608 |*", "1,608 |*"),
    "inside the summary": RW.replace("General statistics:", "WARNING: x\nGeneral statistics:"),
    "stands twice": RW.replace("         avg:", "         min:      1.00\n         avg:"),
    "second run": RW + RW,
    "second summary": RW + "x\n" + RW[RW.index("SQL statistics") :],
    "second summary begins": RW + "x\nSQL statistics:\n    queries performed:\n        read:    71",
    "row after the summary": RW + "[ 11s ] thds: 4 tps: 1.00",
    "time runs backwards": RW.replace("[ 5s ]", "[ 2s ]"),
    "two forms": RW.replace("[ 5s ]", "[ 5s ] thds: 4 eps: 5.00 lat (ms,99%): 1.00\n[ 5s ]"),
    "rows of 16 threads": RW.replace("thds: 4 tps: 576.18", "thds: 16 tps: 576.18"),
    "heading says 64 threads": RW.replace("Number of threads: 4", "Number of threads: 64"),
    "values fall": RW.replace("       1.637 |", "       1.523 |"),
    "histogram after": OTHER + "Latency histogram (values are in milliseconds)\n",
    "a summary without them": RW.replace("SQL statistics:", "SQL statistic:"),
    "no 'sum'": RW[: RW.index("         sum:")],
    "no summary": RW[: RW.index("SQL statistics")],
    "sysbench failed: FATAL: The --max-time": RW.replace("SQL s", "FATAL: The --max-time limit\nSQL s"),
    "no summary: the run": "",
    "whole number": RW.replace("(507.16 per sec.)", "(inf per sec.)"),
    "total time": RW.replace("10.0161s", "10.01s"),
    "does not go on": RW.replace("5080   (", "9" * 5000 + " ("),
}  # fmt: skip


@pytest.mark.parametrize("reason", BROKEN)
def test_broken_text_is_a_parse_error(reason):
    assert reason in refused(BROKEN[reason]).reason


def test_buckets_that_print_alike_are_one_histogram():
    """Below 0.05 ms neighbours have the same three digits."""
    found = parse.sysbench(RW.replace("       1.637 |", "       1.608 |"))
    assert (np.diff(found["histogram_s"]) == 0).sum() == 1


def test_an_error_names_the_line_without_secrets_and_control_characters():
    text = RW.replace("tps: 576.18", "tps: 576")
    lines = text.split("\n")
    e = refused(text)
    assert (e.line, e.text) == next((i, x) for i, x in enumerate(lines, 1) if "tps: 576 " in x)
    said = str(refused("sysbench 1.0.20\nFATAL: \x1b[31mmysql://u:hunter2@h refused\n"))
    assert "hunter2" not in said
    assert said.isprintable()


WARNED = {
    "are not the 600": RW.replace("(507.16 per", "(600.00 per"),
    "do not add up to 101600 queries": RW.replace("71120", "71121"),
    "queries per transaction": RW.replace("(10143.29 per", "(9143.29 per"),
    "the histogram holds 5079": re.sub(r"(29\.194 \| +)1\n", r"\g<1>0\n", RW),
    "percentile 99 is 0.1 s": RW.replace("21.11\n", "100.00\n"),
    "percentile 99 is clipped": RW.replace("21.11\n", "100000.00\n"),
    "events in the histogram's last bucket": RW.replace(" 108.685 |", "100000.000 |"),
    "Little's law": RW.replace("40008.67", "20008.67").replace(" 7.88\n", " 3.94\n"),
    "the mean latency is not the sum": RW.replace("40008.67", "20008.67"),
    "not between": RW.replace(" 1.51\n", " 9.51\n"),
    "5081 events": RW.replace("events:              5080", "events:              5081"),
    "same time stamp": RW.replace("[ 5s ]", "[ 4s ]"),
    "gaps": RW.replace("[ 10s ]", "[ 20s ]"),
    "rows after the end": RW.replace("10.0161s", "3.0161s"),
    "add up to the summary's events": RW.replace("tps: 5", "tps: 9"),
}


@pytest.mark.parametrize("warning", WARNED)
def test_numbers_that_disagree_are_warned_about(warning):
    assert any(warning in w for w in parse.sysbench(WARNED[warning])["warnings"])


def test_runs_cuts_a_log_of_several():
    echo = "+ sysbench oltp_write_only --mysql-password=x run\n"
    log = "uptime\n" + echo + OTHER + echo + RW
    pieces = parse.split_runs(log)
    assert "".join(p for _, p in pieces) == log
    assert [parse.sysbench(p)["events"] for _, p in pieces] == [10927, 5080]
    assert [parse.sysbench(p)["test"] for _, p in pieces] == ["oltp_write_only"] * 2
    assert log.split("\n")[pieces[1][0] - 1] == echo.strip()
    assert parse.split_runs(RW) == [(1, RW)]


@pytest.mark.parametrize("name", WHOLE)
def test_cut_anywhere_gives_the_same_numbers_or_none(name):
    whole = SYSBENCH[name]
    expected, complete = plain_numbers(parse.sysbench(whole)), 0
    for end in range(len(whole)):
        try:
            result = parse.sysbench(whole[:end])
        except parse.ParseError:
            continue
        complete += 1
        assert plain_numbers(result) == expected
    assert complete < 100  # only the fairness lines may be missing


# -- time ------------------------------------------------------------------------------------------

CSH = "561.777u 159.042s 24:45.89 48.5%\n"
KILLED = "Command terminated by signal 9\n0.00user 0.00system 0:00.00elapsed ?%CPU (0avgtext+0avgdata 1maxresident)k\n"
RESULTS = [
    *TABLES["times"],
    *({"text": TIME[name]} | found for name, found in TABLES["samples"].items()),
    {"text": KILLED, "format": "GNU", "real_s": 0.0, "exit_code": -9, "cpu_pct": None},
]


@pytest.mark.parametrize("case", RESULTS, ids=lambda case: case["text"][:25])
def test_time_forms(case):
    told = {"real_s": None} | case
    text = told.pop("text")
    r, *_ = parse.time("some output\n" + text)
    assert {k: r[k] for k in told} == told
    assert tools.tool_of(text).NAME == "time"


def test_several_results_keep_their_order_and_lines():
    text = TIME["zsh-time"] + TIME["bash-time"] + TIME["gnu-time-v-fail"] + CSH
    found = parse.time(text)
    assert [r["format"] for r in found] == ["zsh", "zsh", "bash", "GNU -v", "csh"]
    assert [r["line"] for r in found] == [1, 2, 4, 7, 31]
    assert (found[3]["exit_code"], found[3]["label"], found[3]["maxrss_B"]) == (1, "false", 1134592)
    killed = TIME["gnu-time-v-fail"].replace(
        "exited with non-zero status 1", "terminated by signal 9"
    )
    assert parse.time(killed)[0]["exit_code"] == -9  # whatever its last line says


def test_time_label_holds_no_secret():
    [r] = parse.time("mysql -uroot -phunter2  0.01s user 0.01s system 5% cpu 0.40 total\n")
    assert r["label"] == "mysql -uroot -p***"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "real\t0m1.000s\nuser\t0m1.000s\n",
        "real\t0m1.000s\nuser\t0m1.000s\nsys\t0m0.0",
        "real 1.00\nuser 1.00\nsys 0.0",
        TIME["bash-time"] + "real\t0m1.000s\n",
        "561.777u 159.042s 24:45.8",
        "make  561.77s user 159.04s system 48% cpu 24:4",
        "10.00 4.00 1.00 90% 1656\n",  # the percentage is not of these numbers
        "10.00 4.00 1.00 50% 16",  # cut, or not: no line end
        TIME["gnu-time-v"][:600],
        TIME["bash-time"].replace("0", "\0"),
        "Executed in    5.02 secs\n",
    ],
)
def test_time_refuses(text):
    refused(text, parse.time)


# -- what a text is --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "hello", "innodb_buffer_pool_size = 1G\n", "100 200 300\n", "\0\0", b"\xff\xfe",
     "sysbench run", "a sysbench of 1.0 kind, in real user time\n",
     " 1  0  0 123456  0.5 99.5\n", b"\x89PNG\r\n\x1a\n"],
)  # fmt: skip
def test_kind_of_something_else(text):
    assert tools.tool_of(text) is None


@pytest.mark.parametrize(
    "text", [RW[RW.index("SQL statistics:") :].split("General", 1)[0], RW + TIME["bash-time"]]
)
def test_what_a_cut_left_of_sysbench_and_what_ran_under_time_is_sysbench(text):
    assert tools.tool_of(text).NAME == "sysbench"


TABLE = "sysbench 1.0.20\n\nCreating table 'sbtest1'...\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (TABLE + "Inserting 100 records into 'sbtest1'\n", "prepare"),
        ("sysbench 1.0.20\n\nCreating a secondary index on 'sbtest1'...\n", "prepare"),
        ("sysbench 1.0.20\n\n53687091200 bytes written in 208.55 seconds (245.50 MiB/sec).\n", "prepare"),
        ("sysbench 1.0.20\n\nDropping table 'sbtest1'...\n", "cleanup"),
        ("sysbench 1.0.20\n\nRemoving test files...\n", "cleanup"),
        (TABLE + "FATAL: `sysbench.cmdline.call_command' failed\n", None),
        (OLDER, None),
    ],
)  # fmt: skip
def test_a_log_of_prepare_or_cleanup_is_no_failed_run(text, what):
    assert sysbench.chore(text) == what


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("[OVERALL], Throughput(ops/sec), 100", "YCSB"),
        ("                 <TpmC>\n", "tpcc-mysql"),
        (OLDER, None),
    ],
)
def test_other_tools_are_named(text, tool):
    assert tools.unsupported(text) == tool


# ---- secrets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TABLES["secrets"]["hidden"])
def test_scrub_removes_the_secret_and_nothing_twice(text):
    clean, n = parse.scrub(text)
    assert "hunter2" not in clean
    assert n == 1
    assert parse.scrub(clean) == (clean, 0)


@pytest.mark.parametrize("text", [*TABLES["secrets"]["kept"], *SYSBENCH.values()])
def test_scrub_keeps_what_is_no_secret(text):
    assert parse.scrub(text) == (text, 0)


# -- several clients of one run --------------------------------------------------------------------


def test_clients_that_ran_at_once_are_one_run():
    one, other = parse.sysbench(RW), parse.sysbench(SYSBENCH["mysql97-ok-ro-hist"])
    found = parse.together([one, other], [100.0, 100.0])
    for name in ("threads", "events", "transactions", "queries", "reads", "writes", "other"):
        assert found[name] == one[name] + other[name]
    assert found["duration_s"] == pytest.approx(min(one["duration_s"], other["duration_s"]))
    assert found["tps"] == pytest.approx(one["tps"] + other["tps"], rel=0.01)
    assert found["histogram_counts"].sum() == found["events"]
    latency = found["latency"]
    assert latency["sum"] == one["latency"]["sum"] + other["latency"]["sum"]
    assert latency["mean"] == latency["sum"] / found["events"]
    assert latency["min"] == min(one["latency"]["min"], other["latency"]["min"])
    shared = min(len(r["intervals"]["t_s"]) for r in (one, other))
    rates = [r["intervals"]["tps"][:shared] for r in (one, other)]
    assert found["intervals"]["tps"].tolist() == (rates[0] + rates[1]).tolist()


def test_only_the_time_in_which_all_clients_ran_counts():
    one = parse.sysbench(RW)
    alone = parse.together([one], [0.0])
    assert alone["events"] == one["events"]
    assert alone["tps"] == pytest.approx(one["tps"], rel=1e-3)
    late = parse.together([one, one], [0.0, 1.0])
    assert late["duration_s"] == pytest.approx(one["duration_s"] - 1)
    assert late["tps"] == pytest.approx(2 * one["tps"], rel=0.2)
    assert late["warnings"] == ["the last client began 1.0 s after the first"]
    with pytest.raises(parse.ParseError, match="did not all run at the same time"):
        parse.together([one, one], [0.0, one["duration_s"] + 1])
