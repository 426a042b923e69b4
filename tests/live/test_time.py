"""`noisefloor time`: two commands, timed in coin-flipped pairs, and commands that fail, hang, print
too much or leave something behind."""

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import count

import psutil
import pytest

from conftest import COMMAND, ROOT, comparisons, done, environment, noisefloor, refused, until
from noisefloor import explore, paths, schedule
from noisefloor.data import results, tidy
from noisefloor.measure import timing
from noisefloor.measure.timing import MOST_BLOCKS, PAIRS, Stopwatch
from noisefloor.model import study_of
from noisefloor.show.report.answers import command
from noisefloor.stats.row import row
from noisefloor.studies.timed import BLOCKS, timed
from noisefloor.text import Refusal, answers

NOTEBOOKS = paths.notebooks()
SHORT = ("--seconds", "0.1")  # the fewest blocks
LONG_S = 600  # until nobody else measures on this machine
# two scripts of a shell: one fails in every tenth run, one prints a gigabyte in its first
FLAKY = """n=$(($(cat count 2> /dev/null || echo 0) + 1))
echo $n > count
[ $((n % 10)) != 0 ] || { echo boom; exit 3; }
"""
LOUD = "[ -e printed ] || { touch printed; head -c 1000000000 /dev/zero; }\n"


def alive(words: str) -> list[psutil.Process]:
    """The processes whose command line holds these words."""
    every = psutil.process_iter(["cmdline"])
    return [p for p in every if words in " ".join(p.info["cmdline"] or ())]


def gone(words: str) -> None:
    """Nothing with these words runs any more, or it ends soon."""
    until(lambda: not alive(words), f"end of {words}", 20)


def size_B(folder) -> int:
    """Of all files in it."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def campaign():
    """The folder of the only campaign."""
    (folder,) = paths.runs().glob("time-*")
    return folder


def not_judged(said, words: str, code: int = 1) -> None:
    """A command that began to measure ended with one sentence, and nothing is kept."""
    assert isinstance(said.exception, SystemExit), said.exception
    assert said.exit_code == code, said.output
    assert said.stdout == ""
    last = said.stderr.splitlines()[-1]
    assert re.search(words, last), last
    assert last.startswith("noisefloor: ")
    assert last.endswith("; nothing was judged")
    assert list(paths.runs().iterdir()) == []


# -- what is measured ------------------------------------------------------------------------------


def test_a_command_that_sleeps_longer_is_slower(home):
    argv = ("time", "sleep 0.03", "sleep 0.1", *SHORT)
    printed = json.loads(noisefloor(*argv, "--json").stdout)
    assert printed["answer"][0].startswith("SLOWER: B ")
    assert {row["threads"] for row in printed["comparisons"]} == {None}
    rows = {row["metric"]: row for row in printed["comparisons"]}
    assert rows["wall"]["verdict"] == "slower"
    assert 50 < rows["wall"]["change_pct"] < 240  # a busy machine adds to both
    assert rows["wall"]["blocks"] == BLOCKS
    assert rows["wall"]["margin_pct"] == 2
    assert set(rows) <= {"wall", "user_sys", "user_cpu", "sys_cpu", "peak_memory"}
    done(*argv, "--fail-on", "worse", code=3)
    done("time", "sleep 0.1", "sleep 0.03", *SHORT, "--fail-on", "worse,cannot-tell")
    assert len(list(paths.runs().glob("time-sleep-*"))) == 3


def test_the_answer_has_five_lines_at_most_and_its_campaign_is_like_any_other(home):
    argv = ("time", "sleep 0.01", "sleep 0.01", "--seconds", "1", "--seed", "7", "--verbose")
    said = noisefloor(*argv)
    assert said.exit_code == 0, said.output
    answer, rest = said.stdout.split("\n\n", 1)
    assert "wall time" in rest
    assert "threads" not in rest
    assert rest.splitlines()[-1] == f"The runs: {paths.relative(campaign())}"
    lines = answer.splitlines()
    word = "(SAME|CANNOT TELL|SLOWER|FASTER)"
    assert re.fullmatch(rf"{word}: B [\d.]+ ms, A [\d.]+ ms, .* pairs\.", lines[0])
    assert len(lines) <= answers.MOST_LINES
    meta, (table, problems, _) = tidy.meta(campaign()), tidy.opened(campaign()).tidy_runs
    assert problems == []
    assert meta["finished"]
    assert meta["seed"] == 7
    assert meta["engine"] == meta["engines"] == {}
    plan = meta["plan"]
    judged = table[~table["warmup"] & table["metric"].eq("wall")]
    sizes = judged.groupby("block")["pair_id"].nunique()
    assert len(sizes) == plan["blocks"] >= BLOCKS
    assert set(sizes) == {plan["pairs"]}
    assert table[table["warmup"]]["run"].nunique() == 2
    assert 0.009 < judged["value"].median() < 0.1
    r = results.load(campaign())
    assert r.verdicts["asked"].eq(1).all()
    assert "provisional" not in set(r.verdicts["verdict"])


def judged(metric, change, lo, hi, verdict):
    """A comparison with this change in percent."""
    key = ("time-x", "commands", metric, "A", "B")
    logs = [math.log1p(pct / 100) for pct in (change, lo, hi)]
    return row(key, (140, 140), logs, margin_pct=2.0, verdict=verdict, blocks=14, design="switched")


def test_the_numbers_of_an_answer_agree_and_a_direction_is_named_once():
    """B is A times the change as it is printed."""
    rows = {
        "wall": judged("wall", 106.0, 90.0, 130.0, "slower"),
        "sys_cpu": judged("sys_cpu", 1.9, -1.9, 5.8, "cannot tell"),
        "peak_memory": judged("peak_memory", 0.0, -0.1, 0.1, "same"),
    }
    baselines = {"wall": 0.099, "sys_cpu": 0.01, "peak_memory": 20.0}
    assert answers.timed(rows, baselines, {"A": 0, "B": 2}, 1000) == [
        "SLOWER: B 208 ms, A 99 ms, 2.1 times (1.9 to 2.3 times), 140 pairs.",
        "Sys cannot tell, +1.9 % (-1.9 to +5.8 %).",
        "Peak memory same, 0.0 % (-0.1 to +0.1 %), all of it within ±2 %: B 20 MB, A 20 MB.",
        "2 runs of B ended with an error.",
    ]
    longer = {"minutes_needed": 1.5, "runs_needed": 900}
    rows["wall"] = replace(rows["wall"], verdict="cannot tell", **longer)
    assert answers.timed(rows, baselines, {}, 1000)[-1].startswith("To settle it: --seconds 90,")
    assert "settle" not in answers.timed(rows, baselines, {}, 800)[-1]


def test_the_answer_in_the_docs_is_what_such_rows_print():
    rows = {
        "wall": judged("wall", 6.0, 4.5, 7.4, "slower"),
        "user_cpu": judged("user_cpu", 5.1, 3.0, 7.2, "more"),
        "sys_cpu": judged("sys_cpu", 1.9, -1.9, 5.8, "cannot tell"),
        "peak_memory": judged("peak_memory", 0.0, -0.1, 0.1, "same"),
    }
    lines = answers.timed(rows, {"wall": 0.099, "peak_memory": 20.0}, {}, 1000)
    assert "\n".join(["```", *lines, "```"]) in (ROOT / "docs" / "time.md").read_text()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_coin_decides_which_command_is_first(home, monkeypatch, seed):
    started = []

    class Fake(Stopwatch):
        """A stopwatch that starts nothing."""

        def __init__(self):
            pass

        def time(self, argv, limit_s):
            started.append(argv[-1])
            return made(real_s=1 + len(started) / 1000)

        def __exit__(self, *exc):
            pass

    monkeypatch.setattr(timing, "Stopwatch", Fake)
    folder = timing.measure(("sleep 1", "sleep 2"), seconds=0.2, seed=seed)
    study, plan = study_of(tidy.meta(folder)), tidy.meta(folder)["plan"]
    (cell,) = (c for c in schedule.cells(study) if not c.control)
    numbers = range(plan["blocks"] * plan["pairs"])
    coins = [schedule.order(seed, n // plan["pairs"], cell, n) for n in numbers]
    assert set(coins) == {True, False}
    first = started[3::2]  # after the empty command and the warm-up
    assert [words == "2" for words in first] == coins
    runs = tidy.run_table(folder)
    runs = runs[~runs["warmup"] & runs["position"].eq(0)].sort_values("pair")
    assert list(runs["arm"].eq("B")) == coins


def made(**other):
    """What a stopwatch answers."""
    usual = {"real_s": 0.1, "user_s": 0.05, "sys_s": 0.02, "maxrss_B": 50_000_000, "exit_code": 0}
    return usual | {"printed_B": 0, "last": "", "late": False} | other


@pytest.mark.parametrize(
    ("each_s", "seconds", "blocks", "pairs"),
    [
        (1, 30, 15, 1),  # two pairs do not fit into an eighth
        (20, 30, BLOCKS, 1),  # however long it takes
        (1 / 8, 30, 12, PAIRS),
        (1 / 2, 30, 10, 3),
        (1 / 1024, 30, MOST_BLOCKS, PAIRS),
    ],
)
def test_blocks_follow_from_what_the_first_one_took(
    home, monkeypatch, each_s, seconds, blocks, pairs
):
    """By a clock that only the commands move."""
    clock = [0.0]

    class Fake(Stopwatch):
        def __init__(self):
            pass

        def time(self, argv, limit_s):
            clock[0] += each_s * (argv != ["true"])
            return made()

        def __exit__(self, *exc):
            pass

    monkeypatch.setattr(timing, "Stopwatch", Fake)
    monkeypatch.setattr(timing.time, "monotonic", lambda: clock[0])
    folder = timing.measure(("sleep 1", "sleep 2"), seconds=seconds)
    plan = tidy.meta(folder)["plan"]
    assert (plan["blocks"], plan["pairs"]) == (blocks, pairs)
    assert len(tidy.run_table(folder)) == 2 * (blocks * pairs + 1)


@pytest.mark.parametrize(
    ("odd", "lacks"),
    [({"sys_s": 0.0}, {"sys_cpu"}), ({"maxrss_B": 10_000_000}, {"peak_memory"}), ({}, set())],
)
def test_what_one_run_lacks_is_not_judged(home, monkeypatch, odd, lacks):
    """Pairs without it would be those of the smaller runs."""
    numbers = count()

    class Fake(Stopwatch):
        def __init__(self):
            pass

        def time(self, argv, limit_s):
            if argv == ["true"]:
                return made(maxrss_B=9_900_000)
            return made(**(odd if next(numbers) == 6 else {}))

        def __exit__(self, *exc):
            pass

    monkeypatch.setattr(timing, "Stopwatch", Fake)
    rows = {row["metric"]: row for row in comparisons("time", "sleep 1", "sleep 2", *SHORT)}
    assert set(rows) == {"wall", "user_sys", "user_cpu", "sys_cpu", "peak_memory"} - lacks
    # which does not scatter at all
    wall = [rows["wall"][name] for name in ("verdict", "change_pct", "lo_pct", "hi_pct")]
    assert wall == ["same", 0, 0, 0]


def test_without_a_shell_nothing_is_expanded(home, monkeypatch):
    monkeypatch.chdir(home)
    monkeypatch.setenv("NAME", "by-the-shell")
    for more in ((), ("--shell",)):
        done("time", 'touch "$NAME"', "true", *SHORT, *more)
    assert {"$NAME", "by-the-shell"} <= {p.name for p in home.iterdir()}


@pytest.mark.slow
def test_a_page_that_can_be_verified_packed_stored_and_made_again(home):
    (home / "notebooks").symlink_to(NOTEBOOKS)
    said = noisefloor("time", "sleep 0.03", "sleep 0.1", *SHORT, "--page")
    assert said.exit_code == 0, said.output
    page = paths.reports() / "time-sleep.html"
    text = page.read_text()
    for words in ("A: sleep 0.03; B: sleep 0.1", "Wall time, s", "--seed"):
        assert words in text
    assert re.search(r"(more time than|times the time of) A", text)
    for words in ("0 threads", "1 thread", "my.cnf", "a restart"):
        assert words not in text
    assert ": all " in done("verify", str(page))
    refused(noisefloor("bundle", campaign().name), 2, "timed two commands")
    done("report", "time-sleep")
    done("pack", campaign().name)
    done("store", campaign().name)
    assert "slower" in done("history", "time-sleep")


# -- the stopwatch ---------------------------------------------------------------------------------


def test_the_stopwatch_says_what_the_kernel_says():
    with Stopwatch() as watch:
        slept = watch.time(["sleep", "0.2"], 10)
        busy = watch.time([sys.executable, "-S", "-c", "for i in range(3_000_000): i * i"], 60)
    assert 0.2 <= slept["real_s"] < 2
    assert slept["user_s"] + slept["sys_s"] < 0.1
    assert 0.05 < busy["user_s"] + busy["sys_s"] < 1.1 * busy["real_s"]
    assert watch.process.returncode == 0


def test_the_memory_of_a_command_is_not_that_of_this_process():
    """The kernel counts what a process had when it was forked."""
    ballast = bytearray(200 << 20)
    ballast[::4096] = b"x" * len(ballast[::4096])
    with Stopwatch() as watch:
        nothing = watch.time(["true"], 10)
        much = watch.time([sys.executable, "-S", "-c", "x = b'x' * 120_000_000"], 60)
    assert nothing["maxrss_B"] < 40_000_000
    assert 120_000_000 < much["maxrss_B"] < 160_000_000


def test_a_gigabyte_is_read_and_thrown_away():
    with Stopwatch() as watch:
        took = watch.time(["head", "-c", "1000000000", "/dev/zero"], 60)
        assert psutil.Process(watch.process.pid).memory_info().rss < 64 << 20
    assert (took["exit_code"], took["printed_B"]) == (0, 1_000_000_000)
    assert len(took["last"]) <= 4096


def test_a_command_that_prints_a_gigabyte_is_judged_and_nothing_of_it_is_kept(home, monkeypatch):
    monkeypatch.chdir(home)
    (home / "loud").write_text(LOUD)
    done("time", "true", "sh loud", *SHORT)
    runs = [json.loads(file.read_text())["took"] for file in campaign().glob("*/run.json")]
    assert max(run["printed_B"] for run in runs) == 1_000_000_000
    assert size_B(campaign()) < 10_000_000


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("no-such-program x", "true"), "no-such-program: there is no such program here"),
        (("true", "no-such-program x"), "no-such-program: there is no such program here"),
        (("/tmp", "true"), "/tmp: there is no such program here"),
        (("echo 'x", "true"), "cannot be split into words"),
        (("", "true"), "a command is needed"),
        (("true", "echo --password=hunter2"), "holds a password"),
        (("true", "true", "--seconds", "0"), "--seconds 0"),
        (("true", "true", "--seconds", "nan"), "--seconds nan"),
        (("true", "true", "--timeout", "-1"), "--timeout -1"),
        (("true", "true", "--margin", "100"), "--margin 100"),
        (("true", "true", "--fail-on", "slower"), "--fail-on slower"),
        (("true",), "Missing argument"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_refused_before_anything_runs(home, argv, words):
    said = noisefloor("time", *argv)
    refused(said, 2, words)
    assert "hunter2" not in said.output
    assert not paths.runs().exists()


def test_a_study_has_the_name_of_its_programs():
    named = {("/bin/gzip x", "zstd y"): "time-gzip-zstd", ("gzip x", "gzip y"): "time-gzip"}
    for commands, name in named.items():
        assert timed(commands, seconds=1).name == name
    assert timed(("./_ x", "./_ y"), seconds=1).name == "time-commands"
    assert len(timed(("a" * 300, "b" * 300), seconds=1).name) < 60


def test_a_command_that_fails_in_one_of_ten_runs_is_an_error(home, monkeypatch):
    monkeypatch.chdir(home)
    (home / "flaky").write_text(FLAKY)
    argv = ("time", "sh flaky", "true", "--seconds", "2")
    not_judged(noisefloor(*argv), r"'sh flaky' \(A in pair 9\) ended with exit code 3 \(boom\)")
    said = noisefloor(*argv, "--ignore-failure")
    assert said.exit_code == 0, said.output
    assert re.search(r"\d+ runs of A ended with an error", said.stdout)


def test_a_command_that_ends_by_a_signal_is_an_error(home):
    said = noisefloor("time", "sh -c 'kill -9 $$'", "true", *SHORT)
    not_judged(said, r"\(A in the warm-up\) was ended by signal 9")


def test_a_command_that_cannot_be_started_is_an_error(home):
    """It is there, and no program."""
    script = home / "script"
    script.write_text("\x7fnothing")
    script.chmod(0o755)
    not_judged(
        noisefloor("time", "true", str(script), *SHORT), "B in the warm-up.*(could not|ended)"
    )


def test_a_command_that_the_shell_does_not_find_is_an_error(home):
    said = noisefloor("time", "true", "no-such-program x", "--shell", *SHORT)
    not_judged(said, r"B in the warm-up\) ended with exit code 127 \(.*not found\)")


def test_a_command_that_hangs_is_ended_with_its_children(home):
    hangs = "sh -c 'sleep 31.41 & sleep 31.41'"
    said = noisefloor("time", "true", hangs, "--timeout", "0.5", *SHORT)
    not_judged(said, r"B in the warm-up\) still ran after 0.5 s and was ended: --timeout")
    gone("sleep 31.41")


def test_what_a_command_leaves_running_is_ended(home):
    done("time", "sh -c 'sleep 31.43 & exit 0'", "true", *SHORT)
    gone("sleep 31.43")


# -- stopped ---------------------------------------------------------------------------------------


def begun(home, *argv, command="time"):
    """The command in a process group of its own."""
    out = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    argv = (*COMMAND, command, *argv)
    return subprocess.Popen(argv, env=environment(home), cwd=home, start_new_session=True, **out)


@pytest.fixture
def long(home):
    """A process that measures a minute, of which six blocks are whole, and goes on."""
    process = begun(home, "sleep 0.011", "sleep 0.031", "--seconds", "60")
    whole = 2 * (6 * PAIRS + 3)
    until(lambda: len([*paths.runs().glob("time-*/commands*[ab]")]) > whole, "six blocks", LONG_S)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)


def test_a_campaign_that_is_measured_is_opened_when_its_process_is_gone(home, long):
    """Nobody sees an estimate before its end: in the explorer, on a page, in a pack."""
    (home / "notebooks").symlink_to(NOTEBOOKS)
    name = campaign().name
    left = rf"{name} is still being measured: at most \d\.\d of 1\.\d minutes of measuring are left"
    with pytest.raises(Refusal, match=f"{left}; it is judged once, at its end"):
        explore.opened(name)
    for argv in (("report", "time", "-p", "campaign", name), ("bundle", name)):
        said = noisefloor(*argv)
        refused(said, 2)
        assert re.search(left, said.stderr)
    assert long.poll() is None
    os.killpg(long.pid, signal.SIGKILL)
    long.communicate(timeout=60)
    assert tidy.meta(campaign())["finished"] == ""
    table = explore.opened(name).judge(metric="wall")
    assert "slower" in set(table["verdict"])
    early = r"ended early: \d+ of \d+ declared blocks were measured"
    assert all(any(re.fullmatch(early, str(w)) for w in row) for row in table["warnings"])


def test_ctrl_c_judges_the_pairs_that_are_whole(long):
    process = long
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert stdout.startswith("SLOWER: B "), stdout
    assert re.search(r"Ended early: \d+ of \d+ declared blocks were measured", stdout)
    assert "Traceback" not in stderr
    meta = tidy.meta(campaign())
    assert meta["finished"]
    assert meta["ended_because"] == timing.EARLY
    assert list(campaign().glob("*.partial")) == []
    gone("sleep 0.031")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)]
)
def test_stopped_in_the_first_pair_leaves_nothing_running(home, number, code):
    process = begun(home, "sleep 31.44", "true")
    until(
        lambda: [p for p in alive("sleep 31.44") if p.info["cmdline"][0] == "sleep"],
        "start",
        LONG_S,
    )
    os.killpg(process.pid, number)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (code, "")
    gone("sleep 31.44")
    if code == 130:
        assert stderr.splitlines()[-1].endswith("before a pair was whole; nothing was judged")
        assert list(paths.runs().iterdir()) == []


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, 1), (signal.SIGSTOP, 130)])
def test_a_stopwatch_that_is_killed_or_hangs_leaves_nothing_running(home, how, code):
    """Its command is no child of the process that gives up on it."""
    process = begun(home, "sh -c 'sleep 31.45 & sleep 31.45'", "true")

    def sleeping():
        return [p for p in alive("sleep 31.45") if p.info["cmdline"][0] == "sleep"]

    until(lambda: len(sleeping()) == 2, "start", LONG_S)
    children = psutil.Process(process.pid).children()
    (watch,) = (p for p in children if "stopwatch.py" in " ".join(p.cmdline()))
    watch.send_signal(how)
    if how == signal.SIGSTOP:
        os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (code, ""), stderr
    assert stderr.splitlines()[-1].endswith("; nothing was judged")
    assert not watch.is_running()
    gone("sleep 31.45")
    assert list(paths.runs().iterdir()) == []


def test_stopped_while_another_campaign_measures_nothing_is_said_to_be_kept(home, monkeypatch):
    def stopped(say):
        raise KeyboardInterrupt

    monkeypatch.setattr(timing, "alone", stopped)
    refused(noisefloor("time", "true", "true", *SHORT), 130, "stopped; nothing was judged")
    assert not paths.runs().exists()


def test_the_command_of_a_page_is_the_one_that_measured(home):
    done("time", "true", "echo 'a b'", *SHORT, "--margin", "5", "--ignore-failure")
    words = command(results.load(campaign()), "")
    assert words == (
        "noisefloor time --seconds 0.1 --timeout 600 --margin 5 --ignore-failure true"
        " 'echo '\"'\"'a b'\"'\"''"
    )
    shutil.rmtree(campaign())
    done(*shlex.split(words)[1:])
    assert tidy.meta(campaign())["margin_pct"] == 5
