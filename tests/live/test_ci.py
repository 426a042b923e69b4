"""The GitHub Action: its steps, run with what a runner sets, on logs and on real commands; what a
job says; and how often it errs."""

import itertools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.stats import ttest_1samp

import bench_time
from conftest import COMMAND, DATA, ROOT, refused, until
from conftest import noisefloor as run
from noisefloor import paths, schedule, stats
from noisefloor.data import archive, compare, results, tidy
from noisefloor.measure import timing
from noisefloor.model import METRICS
from noisefloor.show import job, report
from noisefloor.stats import rule, verdict
from noisefloor.stats.row import from_frame
from noisefloor.text import Refusal, amounts
from noisefloor.text.reasons import Why, has
from noisefloor.tools.base import Run
from test_packaging import copied, link, needed
from test_time import FLAKY, LONG_S, LOUD, begun, gone, size_B

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
INSTALL, JUDGE, UPLOAD = STEPS = ACTION["runs"]["steps"]
INPUT = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
EVENT = {"action": "opened", "pull_request": {"number": 12, "head": {"sha": COMMIT}}}
EVENT_TEXT = json.dumps(EVENT)
GUIDE = (ROOT / "docs" / "ci.md").read_text()


@dataclass
class Done:
    """What a runner has after the step that judges."""

    code: int
    outputs: dict[str, str]
    summary: str
    stdout: str
    stderr: str
    folder: Path  # that is uploaded


def outputs_of(text):
    """{name: value} of what a step wrote into $GITHUB_OUTPUT, with several lines a value."""
    values, lines = {}, iter(text.splitlines())
    for line in lines:
        name, _, end = line.partition("<<")
        assert re.fullmatch(r"noisefloor-[0-9a-f]{32}", end), line
        values[name] = "\n".join(itertools.takewhile(end.__ne__, lines))
    return values


def stepped(step, folder, around, inputs):
    """What a step of the action did, run in a folder as a runner runs it. around: variables that a
    runner sets; inputs: of the action, with _ for -."""
    given = {name: facts["default"] for name, facts in ACTION["inputs"].items()}
    given |= {name.replace("_", "-"): str(value) for name, value in inputs.items()}
    assert given.keys() == ACTION["inputs"].keys()
    own = {name: INPUT.sub(lambda m: given[m[1]], text) for name, text in step["env"].items()}
    script = folder / "step.sh"
    script.write_text(step["run"])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        env=os.environ | own | {name: str(value) for name, value in around.items()},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1200,  # others may be measuring
        check=False,
    )


@pytest.fixture
def runner(tmp_path):
    """runner(event=…, **inputs): the step that judges. The step that installs is replaced by the
    command of this environment."""
    temp = tmp_path / "temp"
    command = temp / "noisefloor" / "bin" / "noisefloor"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    command.chmod(0o755)
    names = ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_EVENT_PATH")
    files = {name: tmp_path / name.lower() for name in names}

    def judge(event=EVENT_TEXT, **inputs):
        for file in files.values():
            file.write_text("")
        files["GITHUB_EVENT_PATH"].write_text(event)
        around = files | {"GITHUB_ACTION_PATH": ROOT, "RUNNER_TEMP": temp}
        done = stepped(JUDGE, tmp_path, around, inputs)
        return Done(
            done.returncode,
            outputs_of(files["GITHUB_OUTPUT"].read_text()),
            files["GITHUB_STEP_SUMMARY"].read_text(),
            done.stdout,
            done.stderr,
            temp / "noisefloor-result",
        )

    return judge


@pytest.fixture
def logs(tmp_path):
    """Two folders of logs of sysbench."""
    for name, letter in (("before", "A"), ("after", "B")):
        (tmp_path / name).mkdir()
        for file in (DATA / "compare").glob(f"00-*-{letter}.txt"):
            shutil.copy(file, tmp_path / name)
    return {"logs_a": tmp_path / "before", "logs_b": tmp_path / "after"}


# -- the action ------------------------------------------------------------------------------------


def test_the_steps_use_every_input_and_none_is_put_into_a_script():
    """A text inside a script would be run; in a variable it is a text."""
    assert {m[1] for m in INPUT.finditer((ROOT / "action.yml").read_text())} == {*ACTION["inputs"]}
    for step in STEPS:
        assert "${{" not in step.get("run", "")
        unused = [name for name in step.get("env", {}) if f"${name}" not in step["run"]]
        assert unused == []
        assert step.get("shell") == ("bash" if "run" in step else None)


def test_the_action_installs_this_folder_and_uploads_what_it_wrote():
    assert 'pip" install --quiet "$GITHUB_ACTION_PATH$extra"' in INSTALL["run"]
    assert UPLOAD["uses"].startswith("actions/upload-artifact@v")
    assert UPLOAD["with"]["path"].endswith("/noisefloor-result")


def test_no_secret_is_needed_and_nothing_is_sent(home, logs, monkeypatch):
    """Packages are installed, and the artifact is uploaded, by others."""

    def refuse(*given):
        raise AssertionError(f"a connection to {given[1:]}")

    assert re.findall("secret|token", (ROOT / "action.yml").read_text(), re.I) == []
    monkeypatch.setattr(socket.socket, "connect", refuse)
    for asked in (("--logs", *logs.values()), ("--commands", "true", "true", "--seconds", 0.1)):
        said = run("ci", *asked)
        assert said.exit_code == 0, said.output


@pytest.mark.slow
@pytest.mark.parametrize(("page", "extras"), [("true", ["lab"]), ("false", [])])
def test_what_the_action_installs_is_what_it_needs(
    runner, logs, tmp_path, monkeypatch, page, extras
):
    """Without a network: of other packages only those that are declared are there, and the one that
    builds ours."""
    packages, report, temp = (tmp_path / name for name in ("packages", "report.json", "temp"))
    packages.mkdir()
    for name in needed(*extras) | {"setuptools"}:
        link(name, packages)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    shutil.rmtree(temp / "noisefloor")  # what takes its place in other tests
    around = {"GITHUB_ACTION_PATH": copied(tmp_path / "checkout"), "RUNNER_TEMP": temp}
    around |= {"PIP_NO_INDEX": 1, "PIP_REPORT": report}
    around |= {"PIP_NO_BUILD_ISOLATION": 0}  # pip takes this variable the other way round
    done = stepped(INSTALL, tmp_path, around, {"page": page})
    assert done.returncode == 0, done.stderr
    (ours,) = json.loads(report.read_text())["install"]
    assert ours["metadata"]["name"] == "noisefloor"
    # pip before 23.1 does not report those of a folder
    assert ours.get("requested_extras", extras) == extras
    commands = {"command_a": "sleep 0.01", "command_b": "sleep 0.05", "seconds": 1}
    for inputs in (logs, commands):
        judged = runner(**inputs, page=page, fail_on="")
        assert judged.code == 0, judged.stderr
        assert bool(judged.outputs["page"]) == (page == "true")


def test_the_workflow_of_the_guide_has_ten_lines_and_the_inputs_of_the_action():
    first, *_ = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.S | re.M)
    assert len(first.splitlines()) <= 10
    (*_, step) = yaml.safe_load(first)["jobs"]["speed"]["steps"]
    assert step["with"].keys() <= ACTION["inputs"].keys()
    table = re.findall(r"^\| `([a-z-]+)` \|", GUIDE, re.M)
    named = {*table, "seconds", *step["with"], "logs-a", "logs-b"}
    assert named == ACTION["inputs"].keys()


def test_the_job_of_gitlab_takes_options_that_there_are():
    _, _, gitlab = (
        yaml.safe_load(t) for t in re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.S | re.M)
    )
    (line,) = (x for x in gitlab["speed"]["script"] if x.startswith("noisefloor ci "))
    words = shlex.split(line)[2:]
    known = run("ci", "--help").output
    assert [w for w in words if w.startswith("--") and f"{w} " not in known] == []
    assert words[words.index("--out") + 1] == gitlab["speed"]["artifacts"]["paths"][0].strip("/")


def test_the_job_of_gitlab_runs_again_where_its_runner_keeps_the_checkout(tmp_path):
    """Before a job it removes what git does not track, the other branch's folder too."""
    _, _, gitlab = (
        yaml.safe_load(t) for t in re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.S | re.M)
    )
    (line,) = (x for x in gitlab["speed"]["script"] if "worktree" in x)
    upstream, checkout = tmp_path / "upstream", tmp_path / "checkout"

    around = os.environ | {"CI_DEFAULT_BRANCH": "main", "GIT_CONFIG_GLOBAL": "/dev/null"}
    commit = "git add .; git -c user.name=a -c user.email=a@b commit -qm x"

    def shell(script):
        subprocess.run(["sh", "-ec", script], cwd=tmp_path, env=around, check=True)

    shell(f"git init -q -b main {upstream}; cd {upstream}; echo 0 > bench.py; {commit}")
    shell(f"git clone -q {upstream.as_uri()} {checkout}")
    for version in (1, 2):
        shell(f"cd {upstream}; echo {version} > bench.py; {commit}")
        shell(f"cd {checkout}; git clean -ffdxq; {line}")
        assert (checkout / "before" / "bench.py").read_text() == f"{version}\n"


# -- logs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fail_on", "code"), [("worse", 0), ("worse, cannot-tell", 3), ("", 0)])
def test_two_folders_of_logs_get_a_verdict(runner, logs, fail_on, code):
    done = runner(**logs, fail_on=fail_on, page="false")
    assert done.code == code, done.stderr
    assert (done.outputs["verdict"], done.outputs["page"]) == ("cannot tell", "")
    comment = done.outputs["comment"]
    heading, _, answer, *_ = comment.splitlines()
    assert heading == "## Noisefloor: pull request 12, 0123456"
    assert answer.startswith("**CANNOT TELL")
    assert "| metric | threads | verdict | change |" in comment
    assert {*map(str.strip, (done.summary, done.stdout))} == {comment}
    assert (done.folder / "comment.md").read_text().strip() == comment


def test_the_verdict_can_be_about_another_metric(runner, logs):
    done = runner(**logs, metric="mean_latency", restarts="true", page="false")
    assert (done.code, done.outputs["verdict"]) == (0, "same")
    assert ", mean latency." in done.outputs["comment"].splitlines()[2]


@pytest.mark.slow
def test_logs_get_a_page(runner, logs):
    done = runner(**logs)
    assert done.code == 0, done.stderr
    page = Path(done.outputs["page"])
    assert page.parent == done.folder
    text = page.read_text()
    assert "before" in text
    assert "after" in text
    rows = json.loads(page.with_suffix(".json").read_text())["comparisons"]
    assert [r["n_arm"] for r in rows if r["metric"] == "tps"] == [4]


@pytest.fixture
def no_notebook(monkeypatch):
    """The tables of a page are made, and no notebook is run: it takes a path from nowhere."""
    monkeypatch.setattr(report, "render_all", lambda jobs, out, say: [("", out / "page.html", 0.0)])


def test_a_second_job_has_the_page_of_its_own_logs(no_notebook, logs, tmp_path):
    """In the folder of the first: a runner keeps it, or a job has the step twice."""
    asked = ("ci", "--logs", *logs.values(), "--out", tmp_path / "out", "--page")
    for left in (8, 6):
        said = run(*asked)
        assert said.exit_code == 0, said.output
        runs = archive.load(tmp_path / "out" / "logs", "before", label="folder").runs
        assert len(runs) == left
        for folder in logs.values():
            min(folder.iterdir()).unlink()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["comment.md", "logs"]


@pytest.mark.parametrize("theirs", ["before/a.txt", "manifest.json", "ingested"])
def test_a_folder_of_somebody_else_costs_the_page_and_not_the_verdict(
    no_notebook, logs, tmp_path, theirs
):
    place = tmp_path / "out" / "logs"
    if theirs == "ingested":
        assert run("ingest", logs["logs_a"], "--out", place).exit_code == 0
    else:
        (place / theirs).parent.mkdir(parents=True)
        (place / theirs).write_text("{}")
    kept = sorted(place.rglob("*"))
    said = run("ci", "--logs", *logs.values(), "--out", tmp_path / "out", "--page")
    assert said.exit_code == 1
    assert said.stdout.startswith("## Noisefloor")
    assert (tmp_path / "out" / "comment.md").read_text() == said.stdout
    assert said.stderr.startswith("noisefloor: no page: ")
    assert said.stderr.count("\n") == 1
    assert sorted(place.rglob("*")) == kept


def test_times_of_two_commands_are_one_workload_on_their_page(no_notebook, tmp_path):
    """As `compare` judges them: every run is in the page's comparison, whatever its command."""
    text = (DATA / "time" / "gnu-time-v.txt").read_text()
    for arm, wall_s in (("before", 10), ("after", 12)):
        (tmp_path / arm).mkdir()
        for k in range(3):
            timed = text.replace("zstd -q", f"{arm} -o /tmp/{k}")
            timed = timed.replace("0:00.09", f"0:{wall_s}.1{k}")
            (tmp_path / arm / f"{k}.txt").write_text(timed)
    judged = job.judge_logs(str(tmp_path / "before"), str(tmp_path / "after"))
    assert job.page(judged, tmp_path / "out") == tmp_path / "out" / "page.html"
    assert judged.rule == {"shared_host": True}
    page = archive.load(tmp_path / "out" / "logs", "before", label="folder", floor="levels")
    seen = page.judge(metric="wall").iloc[0]
    (row,) = judged.deciding()
    for name in ("workload", "verdict", "n_baseline", "n_arm"):
        assert seen[name] == getattr(row, name)
    assert (row.workload, row.verdict, row.n_arm) == ("time", "slower", 3)
    assert seen["lo_pct"] == pytest.approx(row.lo_pct)


# -- commands --------------------------------------------------------------------------------------


def burn(times):
    """A command that does the same fixed work so many thousand times."""
    work = f"for _ in range({times}): sum(range(1000))"
    return shlex.join([sys.executable, "-I", "-S", "-c", work])


def measured(runner, extra_pct, times, **inputs):
    """The step on two commands, the second with so much more work: what it did, the interval of the
    change in percent, and whether A differs from itself. About CPU time, which depends least on what
    else this machine does. Its word has to follow from the files of its runs."""
    a, b = burn(times), burn(times + times * extra_pct // 100)
    done = runner(command_a=a, command_b=b, metric="user_sys", **inputs)
    assert done.stderr.count("Traceback") == 0, done.stderr
    comment, word = done.outputs["comment"], done.outputs["verdict"]
    assert f"    A: {a}\n    B: {b}" in comment
    assert re.search(r"^\| wall time \| ", comment, re.M)
    (campaign,) = (done.folder / "runs").glob("time-*")
    change, control = (cpu_interval(campaign, arm) for arm in ("B", "A again"))
    margin = inputs.get("margin", METRICS["user_sys"].margin_pct)
    itself = word_of(control, margin)
    differs = itself in ("more", "less")
    assert word == ("cannot tell" if differs else word_of(change, margin)), comment
    row, alone = (amounts.ascii_only(amounts.interval(*e, "user_sys")) for e in (change, control))
    assert re.search(rf"^\| CPU time \| {word} \| .*{re.escape(row)}", comment, re.M)
    assert re.search(rf"^A against itself, .* {itself}, .*{re.escape(alone)}", comment, re.M)
    assert done.code == 3 * (word == "more")
    return done, change, differs


def cpu_interval(campaign, arm):
    """Both ends of the 95 % interval of the change of CPU time from A to an arm, percent, from the
    files of the runs: Student's t over the means of the blocks."""
    logs = {}
    for facts in (json.loads(file.read_text()) for file in campaign.glob("*/run.json")):
        if not facts["warmup"]:
            used_s = facts["took"]["user_s"] + facts["took"]["sys_s"]
            logs[facts["block"], facts["pair"], facts["arm"]] = np.log(used_s)
    pairs = pd.Series(logs).unstack()
    blocks = (pairs[arm] - pairs["A"]).groupby(level=0).mean().to_numpy()
    return 100 * np.expm1(ttest_1samp(blocks, 0).confidence_interval(0.95))


def word_of(interval, margin):
    """The word of an interval of CPU time, as docs/time.md has it; both in percent."""
    lo, hi = interval
    if 100 / (1 + margin / 100) - 100 < lo and hi < margin:
        return "same"
    return "more" if lo > 0 else "less" if hi < 0 else "cannot tell"


@pytest.mark.parametrize(
    ("extra_pct", "words"),
    [pytest.param(0, {"same", "cannot tell"}, marks=pytest.mark.slow), (50, {"more"})],
)
def test_two_commands_get_the_verdict_that_is_true(runner, extra_pct, words):
    """With a margin of 20 %, so that a restless machine cannot make it another one."""
    done, *_ = measured(runner, extra_pct, 5_000, margin=20, seconds=2, page="false")
    assert done.outputs["verdict"] in words, done.outputs["comment"]


@pytest.mark.slow
@pytest.mark.parametrize("extra_pct", [0, 5])
def test_five_percent_more_work_is_seen_and_the_same_work_is_about_the_same(runner, extra_pct):
    """In the seconds that a job has, unless the machine is too restless. Without a difference one
    word in twenty is false, but of a small change: that rate is tested below."""
    done, (lo, hi), itself = measured(runner, extra_pct, 20_000)
    page = Path(done.outputs["page"])
    assert page.parent == done.folder
    rows = json.loads(page.with_suffix(".json").read_text())["comparisons"]
    (row,) = (r for r in rows if r["metric"] == "user_sys" and not r["control"])
    assert (row["lo_pct"], row["hi_pct"]) == pytest.approx((lo, hi))
    assert itself or row["verdict"] == done.outputs["verdict"]
    if hi - lo < 5:
        assert abs(row["change_pct"] - extra_pct) < 2.5
        assert itself or not extra_pct or done.outputs["verdict"] == "more"


@pytest.fixture
def by_a_clock(monkeypatch):
    """Nothing is started: `sleep N` takes N / 10 seconds of a clock that only commands move, and each
    run a little longer than the one before."""
    clock, numbers = [0.0], itertools.count()

    class Fake(timing.Stopwatch):
        def __init__(self):
            pass

        def time(self, argv, limit_s):
            took = float(argv[1]) / 10 * (1 + next(numbers) / 1e6) if argv[1:] else 0.0
            clock[0] += took
            answer = {"real_s": took, "user_s": took / 2, "sys_s": took / 4, "printed_B": 0}
            answer |= {"maxrss_B": 50_000_000 if argv[1:] else 10_000_000}
            return answer | {"exit_code": 0, "last": "", "late": False}

        def __exit__(self, *exc):
            pass

    monkeypatch.setattr(timing, "Stopwatch", Fake)
    monkeypatch.setattr(timing.time, "monotonic", lambda: clock[0])


def test_in_every_pair_a_runs_once_more_and_all_orders_are_as_likely(home, by_a_clock):
    """Measured apart, the control would not see what disturbs the pairs."""
    judged = job.judge_commands("sleep 1", "sleep 2", seconds=160, seed=1)
    (folder,) = paths.runs().glob("time-*")
    assert folder == judged.campaign
    plan = tidy.meta(folder)["plan"]
    assert plan["control"] == plan["blocks"]
    runs = tidy.run_table(folder)
    runs = runs[~runs["warmup"]].sort_values(["pair", "position"])
    orders = runs.groupby("pair")["arm"].agg(tuple)
    pairs = plan["blocks"] * plan["pairs"]
    assert len(orders) == pairs > 300
    counts = orders.value_counts()
    assert set(counts.index) == set(itertools.permutations(("A", "A again", "B")))
    assert counts.between(0.6 * pairs / 6, 1.4 * pairs / 6).all()
    for rows, arm, word in ((judged.rows, "B", "slower"), (judged.control, "A again", "same")):
        by_metric = {row.metric: row for row in rows}
        assert set(by_metric) == {"wall", "user_sys", "user_cpu", "sys_cpu", "peak_memory"}
        assert {(row.arm, row.n_arm) for row in rows} == {(arm, pairs)}
        assert by_metric["wall"].verdict == word


def test_minutes_are_counted_with_the_third_run_of_each_pair(home, by_a_clock, monkeypatch):
    took, judge = [], schedule.judge_campaign

    def noted(*given, pair_seconds, **more):
        took.append(round(pair_seconds, 3))
        return judge(*given, pair_seconds=pair_seconds, **more)

    monkeypatch.setattr(schedule, "judge_campaign", noted)
    for control in (False, True):
        results.load(timing.measure(("sleep 1", "sleep 1"), seconds=2, control=control)).alone()
    assert took == [0.2, 0.3]


# -- bad input -------------------------------------------------------------------------------------


def other_tool(folder):
    folder.mkdir()
    shutil.copy(DATA / "time" / "gnu-time-v.txt", folder)
    return folder


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "--commands A B or --logs BEFORE AFTER is needed, one of them"),
        ({"command_a": "true"}, "a command is needed"),
        ({"command_a": "true", "command_b": "no-such-program x"}, "no-such-program"),
        ({"command_a": "true", "command_b": "true", "restarts": "true"}, "--restarts"),
        ({"command_a": "true", "command_b": "true", "fail_on": "slower"}, "--fail-on slower"),
        ({"command_a": "true", "command_b": "true", "metric": "tps"}, "--metric tps"),
        ({"logs_a": "LOGS", "logs_b": "no-such-folder"}, "'no-such-folder' is no folder"),
        ({"logs_a": "LOGS", "logs_b": "EMPTY"}, "holds no file"),
        ({"logs_a": "LOGS", "logs_b": "OTHER"}, "the logs differ in tool"),
        ({"logs_a": "LOGS", "logs_b": "LOGS"}, "one run cannot count twice"),
        ({"logs_a": "LOGS", "logs_b": "AFTER", "metric": "wall"}, "--metric wall"),
        ({"logs_a": "LOGS", "logs_b": "AFTER", "shell": "true"}, "--shell"),
        ({"logs_a": "LOGS", "logs_b": "AFTER", "event": "[]"}, "is no event"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ({"logs_a": "LOGS", "logs_b": "AFTER", "event": "no JSON"}, "is no event"),
                ({"logs_a": "LOGS", "logs_b": ""}, "is no folder"),
                ({"command_a": "true", "command_b": "true", "seconds": "0"}, "--seconds 0"),
                ({"command_a": "true", "command_b": "true", "seconds": "x"}, "--seconds"),
                ({"command_a": "true", "command_b": "true", "margin": "0"}, "--margin 0"),
            )
        ),
    ],
    ids=str,
)
def test_wrong_inputs_are_one_sentence(runner, logs, tmp_path, inputs, words):
    (tmp_path / "empty").mkdir()
    places = {"LOGS": logs["logs_a"], "AFTER": logs["logs_b"], "EMPTY": tmp_path / "empty"}
    places["OTHER"] = other_tool(tmp_path / "other")
    done = runner(**{k: places.get(v, v) for k, v in inputs.items()}, page="false")
    assert (done.code, done.stdout, done.summary, done.outputs) == (2, "", "", {})
    assert done.stderr.startswith("noisefloor: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("false", "(B in the warm-up) ended with exit code 1"),
        ("sh flaky", "'sh flaky' (B in pair 9) ended with exit code 3 (boom)"),
        ("sh -c 'sleep 31.46 & sleep 31.46'", "(B in the warm-up) still ran after 2 s"),
    ],
)
def test_a_command_that_fails_or_hangs_is_one_sentence(runner, tmp_path, command, words):
    (tmp_path / "flaky").write_text(FLAKY)
    done = runner(command_a="true", command_b=command, seconds=2, timeout=2, page="false")
    assert (done.code, done.stdout, done.summary, done.outputs) == (1, "", "", {})
    last = done.stderr.splitlines()[-1]
    assert last.startswith("noisefloor: ")
    assert words in last
    assert last.endswith("; nothing was judged")
    assert [*(done.folder / "runs").glob("time-*")] == []
    gone("sleep 31.46")


def test_a_job_that_is_stopped_after_a_whole_pair_judges_nothing(home):
    """Fewer blocks than it declared are no answer of a job; `noisefloor time` has one."""
    asked = ("--commands", "sleep 0.011", "sleep 0.032", "--seconds", "60")
    process = begun(home, *asked, command="ci")
    until(lambda: len([*paths.runs().glob("time-*/commands*[abn]")]) >= 3, "a pair", LONG_S)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, ""), stderr
    last = stderr.splitlines()[-1]
    assert (
        last == "noisefloor: stopped before the declared blocks were measured; nothing was judged"
    )
    gone("sleep 0.032")


def test_nothing_of_a_gigabyte_that_a_command_prints_is_uploaded(runner, tmp_path):
    (tmp_path / "loud").write_text(LOUD)
    done = runner(command_a="true", command_b="sh loud", seconds="0.1", fail_on="", page="false")
    assert done.code == 0, done.stderr
    assert (tmp_path / "printed").exists()
    assert size_B(done.folder) < 10_000_000
    assert len(done.summary) < 10_000


def test_an_event_file_that_is_not_there_is_one_sentence(logs, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "no-such.json"))
    refused(run("ci", "--logs", *logs.values()), 2, "no-such.json, which GITHUB_EVENT_PATH names")


@pytest.mark.parametrize("option", ["--seconds", "--timeout"])
def test_what_is_of_commands_is_refused_with_logs(logs, option):
    refused(run("ci", "--logs", *logs.values(), option, 5), 2, "go with --commands")


def test_a_page_needs_a_folder(logs):
    refused(run("ci", "--logs", *logs.values(), "--page"), 2, "--page needs --out")


# -- what a job says -------------------------------------------------------------------------------


def judged(changes, metric="wall"):
    """Verdict rows of a campaign of A and B; changes: log ratios of its pairs, [blocks, pairs]."""
    rows = [
        {
            "arm": arm,
            "block": block,
            "pair_id": f"p{n}",
            "pair": n,
            "value": value,
            "run": f"{n}{arm}",
        }
        for n, (block, change) in enumerate(
            (block, change) for block, each in enumerate(changes) for change in each
        )
        for arm, value in (("A", 1.0), ("B", float(np.exp(change))))
    ]
    frame = pd.DataFrame(rows).assign(
        study="time-x", workload="commands", threads=0, metric=metric, warmup=False
    )
    table = stats.table(frame, baseline="A", design="switched", blocks=len(changes))
    return [from_frame(row | {"threads": None}) for row in table.to_dict("records")]


def around(pct, blocks=8):
    """Pairs of a campaign whose changes lie closely around so many percent."""
    noise = np.random.default_rng(1).normal(0, 0.002, (blocks, 4))
    return judged(np.log1p(pct / 100) + noise)


@pytest.mark.parametrize(
    ("b", "a", "word"),
    [(5, 0, "slower"), (5, 4, "cannot tell"), (0, 4, "cannot tell"), (0, 0, "same")],
)
def test_a_command_that_differs_from_itself_takes_the_word_away(b, a, word):
    control = around(a)
    (row,) = rows = job.with_control(around(b), control)
    assert (row.verdict, row.worse) == (word, word == "slower")
    assert has(row.warnings, Why.CONTROL_DIFFERS) == (a > 0)
    parts = job.comment(job.Judged(rows, control, ("old x", "new |\n`x`")), rows, "pull request 1")
    text = "\n\n".join(parts)
    assert parts[0] == "## Noisefloor: pull request 1"
    assert parts[1].startswith(f"**{word.upper()}")
    assert "; 32 pairs, 95 % interval." in parts[2]
    assert "    A: old x\n    B: new |\n    `x`" in text
    assert f"A against itself, 32 pairs: {'slower' if a else 'same'}, " in text
    assert ("A against itself differs, too" in parts[2]) == (a > 0 and b > 0)


def test_only_the_metric_that_differs_loses_its_word():
    rows = [*around(5), *(replace(row, metric="user_sys", verdict="more") for row in around(5))]
    wall, cpu = job.with_control(rows, around(4))
    assert (wall.verdict, cpu.verdict) == ("cannot tell", "more")
    both = job.Judged([wall, cpu])
    assert both.deciding() == [wall]
    assert both.deciding("user_sys") == [cpu]
    with pytest.raises(Refusal, match="wall, user_sys are there"):
        both.deciding("tps")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (EVENT, "pull request 12, 0123456"),
        ({"after": COMMIT}, "0123456"),
        ({}, ""),
        ({"pull_request": None, "after": None}, ""),
        ({"pull_request": {"number": "12`", "head": {"sha": "x](y)"}}}, ""),
        ({"pull_request": {"number": True, "head": []}}, ""),
    ],
)
def test_an_event_names_the_request_and_the_commit_and_nothing_else(facts, words, tmp_path):
    file = tmp_path / "event.json"
    file.write_text(json.dumps(facts))
    assert job.event(str(file)) == words


def test_a_comment_is_never_longer_than_a_comment_may_be(tmp_path, monkeypatch):
    output = tmp_path / "output"
    monkeypatch.setenv("GITHUB_OUTPUT", str(output))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    parts = ["## Noisefloor", "**SAME**", "x" * job.MOST]
    text = job.write(parts, "same", tmp_path / "out", None)
    assert (tmp_path / "out" / "comment.md").read_text() == f"{text}\n" == "\n\n".join(parts) + "\n"
    assert outputs_of(output.read_text()) == {
        "verdict": "same",
        "page": "",
        "comment": "## Noisefloor\n\n**SAME**\n\nAll rows: comment.md.",
    }


# -- how often it errs -----------------------------------------------------------------------------

JOBS, BLOCKS = 2_000, 8


@pytest.fixture(scope="module")
def recorded_blocks():
    """Throughput of runs of one unchanged server, [thread count, block, run]: its logarithms. Each
    block has a start of the server."""
    campaign = paths.recorded() / "calibration-switched-standard-20261123-033212"
    runs = tidy.tidy_table(campaign)
    runs = runs[runs["metric"].eq("tps") & ~runs["warmup"]]
    runs = runs.sort_values(["block", "pair", "position"])
    each = [np.log(of["value"].to_numpy().reshape(12, 8)) for _, of in runs.groupby("threads")]
    return np.stack(each)


@pytest.fixture(scope="module")
def recorded_runs(recorded_blocks):
    """The same, [thread count, block, pair, three in a row]. They were measured in pairs: the third
    run is one of a neighbouring pair."""
    return recorded_blocks[..., [(0, 1, 2), (2, 3, 4), (4, 5, 6), (5, 6, 7)]]


def simulated(runs, extra_pct=0.0):
    """[job, (A and B, A and A), block, pair] of jobs that are made of recorded blocks: in every pair
    a coin says which of three runs in a row are A's and which one is B's."""
    coins = np.random.default_rng(1)
    counts, blocks, *_ = runs.shape
    count = coins.integers(counts, size=(JOBS, 1))
    drawn = coins.permuted(runs[count, coins.integers(blocks, size=(JOBS, BLOCKS))], axis=-1)
    a, again, b = np.moveaxis(drawn, -1, 0)
    return np.stack([b - a + np.log1p(extra_pct / 100), again - a], axis=1)


def differing(jobs, margin_pct=METRICS["wall"].margin_pct):
    """[job, (A and B, A and A)]: whether a word names a difference."""
    _, lo, hi = rule.block_interval(jobs.mean(-1))
    return np.abs(rule.codes(lo, hi, np.log1p(margin_pct / 100))) == 1


def test_a_job_of_one_command_says_a_difference_in_at_most_six_of_a_hundred_cases(recorded_runs):
    alone, itself = differing(simulated(recorded_runs)).T
    assert alone.mean() <= 0.06
    assert (alone & ~itself).mean() <= 0.06
    assert itself.mean() > 0.02  # or there would be nothing to see


@pytest.mark.skipif(not bench_time.RAW.exists(), reason="tests/bench/bench_time.py measures it")
def test_jobs_of_recorded_commands_err_as_rarely_even_without_a_margin():
    kept = json.loads(bench_time.RAW.read_text())["comparisons"]
    each = [[s for *_, s in c["noisefloor"]["runs"]] for c in kept if not c["extra_pct"]]
    blocks = min(map(len, each)) // 12
    assert blocks > 1
    runs = np.log([times[: 12 * blocks] for times in each]).reshape(len(each), blocks, 4, 3)
    alone, itself = differing(simulated(runs), 0).T
    assert 0.02 < alone.mean() <= 0.06
    assert (alone & ~itself).mean() <= 0.06


def test_a_difference_of_twenty_percent_is_seen_and_the_control_costs_little(recorded_runs):
    alone, itself = differing(simulated(recorded_runs, 20)).T
    assert alone.mean() > 0.95
    assert (alone & ~itself).mean() > 0.9


def alarms(jobs, metric, **rule):
    """The share of jobs on two folders of logs in which a word names a difference. jobs: the
    logarithms of the runs before and after, [job, 2, run]."""
    several = []
    for both in np.exp(jobs):
        sides = [[Run("log", {metric: v}, 4, {"tool": "x"}) for v in of] for of in both.tolist()]
        (row,) = compare.rows(*sides, local=False, **rule)
        several.append(verdict.differs(row.verdict))
    return np.mean(several)


@pytest.fixture
def rule_of(logs, monkeypatch):
    """rule_of(restarts): how a job judges two folders of logs."""

    def found(restarts):
        with monkeypatch.context() as replaced:
            replaced.setattr(compare, "judge", lambda *_, **rule: [rule])
            (rule,) = job.judge_logs(*map(str, logs.values()), restarts=restarts).rows
        return rule

    return found


def test_a_job_on_logs_of_one_server_seldom_says_a_difference(recorded_blocks, rule_of):
    """Five runs before and five after, of ten starts of the server."""
    coins, counts = np.random.default_rng(1), len(recorded_blocks)
    jobs = np.empty((JOBS, 2, 5))
    for one in jobs:
        of_count = coins.permuted(
            coins.permutation(recorded_blocks[coins.integers(counts)]), axis=1
        )
        one[:] = of_count[:10, 0].reshape(2, 5)
    assert alarms(jobs, "tps", **rule_of(True)) <= 0.06


def test_so_does_a_job_whose_runs_share_a_start_on_each_side(rule_of):
    """On the average of the recorded campaigns of one unchanged server; docs say how often on the
    busiest host."""
    coins, rule, shares = np.random.default_rng(1), rule_of(False), []
    for campaign in map(paths.campaign, paths.campaigns()):
        if not re.match("calibration-(aa|switched)-", campaign.name):
            continue
        runs = tidy.tidy_table(campaign)
        runs = runs[
            runs["metric"].eq("tps") & ~runs["warmup"] & runs["arm"].eq(runs["arm"].iloc[0])
        ]
        of_counts = [
            [np.log(of["value"].to_numpy()) for _, of in part.groupby("block")]
            for _, part in runs.groupby("threads")
        ]
        jobs = []
        for _ in range(JOBS // 5):
            blocks = of_counts[coins.integers(len(of_counts))]
            pair = coins.permutation(len(blocks))[:2]
            jobs.append([coins.permutation(blocks[k])[:5] for k in pair])
        least = min(len(side) for one in jobs for side in one)
        shares.append(alarms(np.array([[s[:least] for s in one] for one in jobs]), "tps", **rule))
    assert len(shares) >= 7
    assert np.mean(shares) <= 0.06
    assert max(shares) <= 0.17


def test_the_simulated_jobs_have_the_words_of_real_ones(recorded_runs):
    jobs = simulated(recorded_runs, 4)[:20]
    named = differing(jobs)
    for (b, a), (alone, itself) in zip(jobs, named, strict=True):
        (row,) = job.with_control(judged(b), judged(a))
        assert verdict.differs(row.verdict) == (alone and not itself)
    assert 0 < named[:, 0].sum() < len(jobs)
