"""Damaged logs: a sample of what `make fuzz` does ten million times."""

import json
import random
import subprocess
import sys
from contextlib import suppress
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuzz
from noisefloor import parse, tools

RW = next(log for log in fuzz.LOGS if "queries performed" in log and "Latency histogram" in log)
OTHERS = [fuzz.OF_KIND[f"tools/{name}"][-1] for name in ("pgbench", "hammerdb", "mysqlslap")]


@settings(max_examples=300, deadline=None, derandomize=True)  # and the batches below
@given(st.randoms(use_true_random=False))
def test_a_damaged_log_is_a_result_or_a_parse_error(r):
    fuzz.check(fuzz.damaged(r))


@settings(max_examples=200, deadline=None)
@given(st.text() | st.binary())
def test_any_text_is_a_parse_error(text):
    assert fuzz.check(text) == "refused"


LINES = sorted({line for log in fuzz.SHORT for line in log.split("\n")})


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(LINES), max_size=60).map("\n".join))
def test_lines_of_all_logs_in_any_order(text):
    fuzz.check(text)


SLOW = pytest.mark.slow


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=SLOW) for n in (1, 2, 3))])
def test_a_batch(seed):
    found = fuzz.batch(f"sample-{seed}", 2_500)
    assert found["broken"] == []
    assert min(found[name] for name in fuzz.OUTCOMES) > 5  # all of them are reached


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_a_batch_of_one_kind_of_log(kind):
    found = fuzz.batch(f"sample-{kind}", 300, kind)
    assert found["broken"] == []
    most = max(fuzz.OUTCOMES[:-1], key=lambda name: found[name])  # the last one is "refused"
    assert most.lower() == kind.removeprefix("tools/").partition("/")[0]


def test_the_same_seed_damages_the_same_logs():
    first, again = ([fuzz.damaged(r) for _ in range(50)] for r in (random.Random("a"), random.Random("a")))  # fmt: skip
    assert first == again
    assert len(set(map(repr, first))) > 40


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (RW.replace("5080   (", "95080   ("), {"transactions": 5080}),
        (RW.replace("507.16 per", "-507.16 per"), {"tps": 507.16}),
        (RW.replace("507.16 per", "507.16e3 per"), {"tps": 507.16}),
        (RW.replace("507.16 per", "1507.16 per"), {"tps": 507.16}),
    ],
)
def test_the_judge_sees_a_number_that_is_not_in_the_text(text, found):
    with pytest.raises(fuzz.Broken, match="is not in the text"):
        fuzz._in_sysbench(text, parse.sysbench(RW) | found)


def test_the_judge_of_times_sees_a_number_that_is_not_in_the_text():
    text = "real\t1h2m3.00s\nuser\t0m1.000s\nsys\t0m0.500s\n"
    [found] = parse.time(text)
    fuzz._in_time(text, [found])
    for name, value in (("real_s", 123.0), ("user_s", 1.5), ("exit_code", 7)):
        with pytest.raises(fuzz.Broken, match="is not in the text"):
            fuzz._in_time(text, [found | {name: value}])


# -- found by it -----------------------------------------------------------------------------------


def test_what_was_read_wrongly_once_is_refused():
    with pytest.raises(parse.ParseError):  # it was read as one minute and three seconds
        parse.time("real\t1h 3.00s\nuser\t0m1.000s\nsys\t0m0.500s\n")


def test_a_part_of_a_number_is_no_number_of_virtual_users():  # 5 were read
    text = fuzz.OF_KIND["tools/hammerdb"][0].replace("10 Active", "101,234.5 Active")
    assert "101,234.5 Active" in text
    tool = tools.tool_of(text)
    assert tool.read_run("x", text).threads is None


# -- size ------------------------------------------------------------------------------------------

READING = """
import resource
from noisefloor import parse, tools
line, size = {line!r}, {size}
text = (line * (size // len(line) + 1))[:size].encode()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tools.tool_of(text)
for tool in tools.all_tools():
    try:
        for _, piece in tool.split_runs(text):
            tool.read_run("x", piece)
    except parse.ParseError as e:
        assert len(str(e)) < 3000, len(str(e))
    else:
        raise SystemExit("a result")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize(
    ("line", "size", "most_mib"),
    [
        ("x", 65 * 2**20, 10 * 65),
        ("[ 1s ] thds: 4 tps: ", 65 * 2**20, 10 * 65),
        pytest.param("sysbench 1.0.20 ", 2 * 10**9, 600, marks=SLOW),
    ],
    ids=["65 MiB", "65 MiB of rows", "2 GB"],
)
def test_a_long_line_is_one_sentence_and_little_memory(line, size, most_mib):
    """What a process that reads it takes at the most, in MiB, without the line itself."""
    code = READING.format(line=line, size=size)
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-500:] + done.stdout
    assert int(done.stdout) < most_mib


@pytest.mark.parametrize("piece", [" ", "0", "mysql ", "sysbench ", "1.00s user ", "[", "a_", "password=", "\t", "real ", "progress: ", "tps = 1 (", "TEST RESULT : ", "1 Vuser 1:", "/mysqlslap: ", "client 1 script "])  # fmt: skip
def test_a_long_line_takes_no_longer_than_its_length(piece):
    line, began = piece * (200_000 // len(piece)), perf_counter()
    texts = [line, RW.replace("[ 5s ]", line + "\n[ 5s ]")]
    texts += [each for log in (RW, *OTHERS) for each in (log + line, line + "\n" + log)]
    for text in texts:
        tools.tool_of(text)
        for tool in tools.all_tools():
            tool.chore(text)
            with suppress(parse.ParseError):
                for _, run in tool.split_runs(text):
                    tool.read_run("x", run)
    assert perf_counter() - began < 20  # quadratic takes minutes


@pytest.mark.parametrize(
    "piece", ["TEST RESULT : ", "TEST RESULT : \n", "transaction type: \n", "Benchmark\n"]
)
def test_many_runs_in_a_text_take_no_longer_than_its_length(piece):
    text, began = piece * (2**22 // len(piece)), perf_counter()
    for tool in tools.all_tools():
        with suppress(parse.ParseError):
            tool.split_runs(text)
    assert perf_counter() - began < 20  # quadratic takes minutes


# -- whole logs ------------------------------------------------------------------------------------


def test_two_logs_spliced_at_any_lines_are_never_one_clean_run():
    """What comes back is one of the two runs (its transactions may be cut off), nothing, or warned
    about."""
    a, b = (
        (fuzz.DATA / "sysbench" / f"{name}.txt").read_text()
        for name in ("mysql97-ok-rw-nohist", "mariadb-write-only")
    )
    runs = {found["events"]: found for found in map(parse.sysbench, (a, b))}
    first, second = ([0, *(i + 1 for i, c in enumerate(t) if c == "\n")] for t in (a, b))
    clean = 0
    for i, j in ((i, j) for i in first for j in second):
        with suppress(parse.ParseError):
            found = parse.sysbench(a[:i] + b[j:])
            own = runs[found["events"]]
            if not found["warnings"]:
                clean += 1
                assert found["tps"] in (own["tps"], None)
                assert found["latency"] == own["latency"]
    assert clean > 50


def test_every_block_of_a_log_doubled_is_seen():
    """Whatever stands twice, from one line to another: an error, a warning, or the same run."""
    text = next(log for log in fuzz.LOGS if "555.51 per sec" in log)
    told = parse.sysbench(text)
    ends = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
    for i, j in ((i, j) for n, i in enumerate(ends) for j in ends[n + 1 :]):
        with suppress(parse.ParseError):
            found = parse.sysbench(text[:j] + text[i:])
            assert [found[k] for k in ("events", "tps", "latency", "threads")] == [
                told[k] for k in ("events", "tps", "latency", "threads")
            ]
            assert found["warnings"] or len(found["intervals"]["t_s"]) == 5


@SLOW
def test_the_command_continues_from_its_record_and_counts_every_input_once(tmp_path):
    record = tmp_path / "fuzz.json"
    argv = [sys.executable, fuzz.__file__, "--record", str(record), "--seed", "5"]
    for inputs in (fuzz.BATCH, 2 * fuzz.BATCH, 2 * fuzz.BATCH):
        done = subprocess.run(
            [*argv, "--inputs", str(inputs)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-500:]
    told = json.loads(record.read_text())
    assert told["inputs"] == 2 * fuzz.BATCH == sum(told[name] for name in fuzz.OUTCOMES)
    assert told["broken"] == 0
    assert list(tmp_path.iterdir()) == [record]
