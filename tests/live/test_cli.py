"""`judge` and `compare` as a person calls them; golden text under data/cli."""

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from conftest import DATA, ROOT, comparisons, done, refused
from conftest import noisefloor as run
from noisefloor import paths, studies
from noisefloor.cli import main
from noisefloor.data import results
from noisefloor.measure import collect
from noisefloor.show import report
from noisefloor.stats import scatter
from noisefloor.stats.row import COLUMNS
from noisefloor.text import amounts
from noisefloor.text.answers import MOST_LINES

BEFORE = [str(p) for p in sorted((DATA / "compare").glob("00-*A.txt"))]
AFTER = [str(p) for p in sorted((DATA / "compare").glob("00-*B.txt"))]
BOTH = (*BEFORE, "--", *AFTER)
BACKUP = ROOT / "data" / "raw" / "published" / "backup-encryption"


def golden(name, result):
    """Compare with data/cli/<name>.txt; a mismatch leaves <name>.got beside it."""
    assert result.exit_code == 0
    path, text = DATA / "cli" / f"{name}.txt", result.output
    if not path.exists() or path.read_text() != text:
        path.with_suffix(".got").write_text(text)
    assert text == path.read_text(), f"see {name}.got"


@pytest.fixture
def starts(monkeypatch):
    """A start-to-start scatter that no campaign moves."""
    read, known = scatter._read, {"tps": {"cv_pct": 0.73, "df": 3}}
    monkeypatch.setattr(
        scatter, "_read", lambda file: known if file.name == "floor.json" else read(file)
    )


# -- judge -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("judge-published", "221.19 229.41 --threads 4 --seconds 300"),
        ("judge-tenfold", "100 1000"),
        ("judge-times", "17.43ms 18.07ms --n 5"),
        ("judge-little", "221.19 229.41 --threads 4 --seconds 300 --latency 18.07 17.43"),
        ("judge-floor", "172 181 --metric wall --floor 0.2 --floor-runs 3"),
        ("judge-maximum", "274.03 316.57 --metric max_latency"),
        ("judge-sd", "980 1010 --sd 12 15 --n 30"),
        ("judge-pm", "980 1010 --pm 12 15 --n 5 --restarts"),
    ],
)
def test_judge_says(name, args, starts):
    golden(name, run("judge", *args.split()))


@pytest.mark.parametrize(
    ("numbers", "words", "code"),
    [
        ("1000 100", "worse", 3),
        ("1000 100", "better,cannot-tell", 0),
        ("100 1000", "worse, better", 3),
        ("100 101", "worse,better", 0),
        ("100 101", "cannot-tell", 3),
        ("100 101", "", 0),
        ("980 1010 --sd 12 15 --n 30", "better", 0),
        ("980 1010 --sd 12 15 --n 30", "cannot-tell", 3),
        ("980 1010 --sd 12 15 --n 30 --restarts", "better", 3),
    ],
)
def test_judge_fails_on_a_verdict_when_asked(numbers, words, code, starts):
    for more in ([], ["--json"]):
        result = run("judge", *numbers.split(), "--fail-on", words, *more)
        assert result.exit_code == code
        assert result.output


def test_the_old_words_of_fail_on_are_refused():
    said = run("judge", "1", "2", "--fail-on", "slower,cannot-tell")
    refused(said, 2, "--fail-on slower: worse, better and cannot-tell are allowed")


@pytest.mark.parametrize(
    ("more", "worse"), [((), False), (("--lower-is-better",), True), (("--metric", "p95"), True)]
)
def test_judge_lower_is_better_turns_what_is_worse(more, worse):
    (row,) = comparisons("judge", "4", "8", *more)
    assert row["change_pct"] == pytest.approx(100)
    assert row["worse"] is worse


def test_verbose_says_what_the_answer_rests_on():
    short, long = (run("judge", "221.19", "229.41", *more).output for more in ((), ("--verbose",)))
    assert long.startswith(short)
    assert "129 groups of repeats of 5 sources" in long.removeprefix(short)


# -- compare ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("compare", ("--floor", "1.3", *BOTH)),
        ("compare-verbose", ("--floor", "1.3", *BOTH, "--verbose")),
        ("compare-paired", ("--paired", "--restarts", *BOTH, "--margin", "5")),
        (
            "compare-time",
            (
                *(BACKUP / "none-backup.txt", "--", BACKUP / "sm4-backup.txt"),
                *("--baseline-name", "plain", "--arm-name", "sm4", "--markdown"),
            ),
        ),
    ],
)
def test_compare_says(name, args):
    golden(name, run("compare", *args))


@pytest.mark.parametrize(
    "args",
    [
        ("judge", "221.19", "229.41", "--threads", "4", "--latency", "18.07", "17.43"),
        ("judge", "980", "1010", "--pm", "12", "15", "--n", "5"),
        ("compare", *BOTH),
        ("compare", "--restarts", *BOTH),
        ("compare", BEFORE[0], "--", AFTER[0]),
    ],
)
def test_the_answer_fits_in_five_lines_and_has_the_same_words_in_every_form(args):
    short = done(*args).splitlines()
    answer = json.loads(done(*args, "--json"))["answer"]
    assert len(short) <= MOST_LINES
    assert answer
    pointer = short[len(answer) :]
    assert len(pointer) == (args[0] == "compare")
    assert all("--verbose lists 4 comparisons and " in line for line in pointer)
    forms = [["--verbose"], *([["--markdown"]] if args[0] == "compare" else [])]
    for form in ([], *forms):
        assert done(*args, *form).splitlines()[: len(answer)] == answer


@pytest.mark.parametrize("name", ["judge", "compare", "time", "run", "ab", "due"])
def test_the_option_that_prints_the_rest_is_one(name):
    assert "--verbose" in done(name, "--help")
    (option,) = (p for p in main.commands[name].params if p.name == "verbose")
    assert option.help == next(p for p in main.commands["judge"].params if p.name == "verbose").help


@pytest.mark.parametrize("args", [("judge", "4", "5"), ("compare", *BOTH)])
def test_judge_and_compare_print_the_same_keys(args):
    assert {tuple(row) for row in comparisons(*args)} == {tuple(COLUMNS)}


@pytest.mark.parametrize(
    ("more", "code"),
    [((), 0), (("cannot-tell",), 3), (("worse,better",), 0), (("worse, cannot-tell",), 3)],
)
def test_compare_can_fail_a_pipeline(more, code):
    asked = ("--fail-on", *more) if more else ()
    assert run("compare", *asked, *BOTH).exit_code == code


def test_compare_fails_a_pipeline_for_the_metric_of_its_answer_alone(tmp_path):
    """As `ci`: false alarms of several metrics would add up."""

    def code(wall_s, cpu_s):
        arms = {"a": (10, 1), "b": (wall_s, cpu_s)}
        for arm, (wall, cpu) in arms.items():
            (tmp_path / arm).mkdir(exist_ok=True)
            for k in range(1, 5):
                text = f"real {wall}.0{k}\nuser {cpu}.0{k}\nsys 0.50\n"
                (tmp_path / arm / f"{k}.txt").write_text(text)
        words = ("compare", tmp_path / "a", "--", tmp_path / "b")
        verdicts = {row["metric"]: row["verdict"] for row in comparisons(*words)}
        return verdicts, run(*words, "--fail-on", "worse,cannot-tell").exit_code

    assert code(10, 4) == ({"wall": "same", "user_sys": "more"}, 0)
    assert code(12, 1)[1] == 3


def test_a_floor_of_ones_own_is_the_scatter_that_is_added():
    def width(*more):
        row, *_ = comparisons("compare", *more, *BOTH)
        return row["hi_pct"] - row["lo_pct"]

    assert width("--restarts") == pytest.approx(width("--floor", "0"))
    assert width("--floor", "9") > width("--floor", "6") > width("--restarts")


def test_compare_csv_has_a_row_a_comparison():
    rows = list(csv.DictReader(io.StringIO(run("compare", "--csv", *BOTH).output)))
    assert list(rows[0]) == COLUMNS
    assert [r["metric"] for r in rows] == ["tps", "mean_latency", "p95", "p99"]
    assert rows[0]["verdict"] == "cannot tell"


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ([], 2, "0 times `--`"),
        (["--"], 2, "no file for before"),
        ([BEFORE[0], "--"], 2, "no file for after"),
        ([*BEFORE, *AFTER], 2, "0 times `--`"),
        (["--floor", "-1", *BOTH], 2, "at least 0 and below 100"),
        (["--floor", "1", "--restarts", *BOTH], 2, "exclude each other"),
        ([BEFORE[0], "--", AFTER[0], "--", AFTER[1]], 2, "2 times `--`"),
        ([BEFORE[0], "--", AFTER[0], "--margin", "0"], 2, "--margin 0"),
        ([BEFORE[0], "--", AFTER[0], "--margin", "nan"], 2, "--margin nan"),
        ([BEFORE[0], "--", AFTER[0], "--arm-name", "compare", "--baseline-name", "compare"], 2, "both arms are called"),
        ([*BEFORE, "--paired", "--", *AFTER[:2]], 2, "there are 4 and 2 at 4 threads"),
        ([BEFORE[0], "--", DATA / "sysbench" / "mysql97-fail-kill9-midrun.txt"], 1, "sysbench failed"),
        ([BEFORE[0], "--", DATA / "sysbench" / "mysql97-ok-ro-hist.txt"], 2, "differ in statements a transaction"),
        ([BEFORE[0], "--", DATA / "time" / "gnu-time-v.txt"], 2, "differ in tool"),
    ],
)  # fmt: skip
def test_compare_refuses_in_one_sentence(args, code, words, tmp_path, monkeypatch):
    args = [os.path.abspath(a) if Path(str(a)).exists() else a for a in args]
    monkeypatch.chdir(tmp_path)
    refused(run("compare", *args), code, words)
    assert list(tmp_path.iterdir()) == []


# -- what an answer needs --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "slow"),
    [
        (["judge", "221.19", "229.41", "--sd", "2", "2", "--n", "5"], {"numpy", "pandas", "scipy"}),
        (["judge", "4", "5"], {"numpy", "pandas", "scipy", "matplotlib", "statsmodels"}),
        (["compare", *BOTH], {"pandas", "scipy", "matplotlib", "statsmodels"}),
        (["ingest", str(DATA / "compare"), "--out", "OUT"], {"pandas", "scipy", "matplotlib"}),
    ],
)
def test_an_answer_imports_nothing_slow(args, slow, tmp_path):
    """Pandas takes as long to import as 500 files take to be read."""
    code = (
        "import sys; from noisefloor.cli import main\n"
        "main(sys.argv[1:], standalone_mode=False); print(*sys.modules)"
    )
    argv = [sys.executable, "-c", code, *(str(tmp_path) if a == "OUT" else a for a in args)]
    printed = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert not slow & set(printed.splitlines()[-1].split())


LAB = ("bs4", "ipywidgets", "jinja2", "matplotlib", "nbconvert", "papermill", "rocrate", "seaborn")
MEASURE = ("MySQLdb", "psutil", "sqlalchemy")


@pytest.mark.parametrize(
    ("args", "missing", "extra"),
    [
        (["judge", "4", "5"], (*LAB, *MEASURE, "distributed"), ""),
        (["compare", *BOTH], (*LAB, *MEASURE, "distributed"), ""),
        (["verify", "page.html"], LAB, "lab"),
        (["report", "--profile", "recorded"], LAB, "lab"),
        (["run", "binlog-encryption"], MEASURE, "measure"),
        (["store"], MEASURE, "measure"),
    ],
)
def test_a_missing_package_is_a_sentence_that_names_the_extra(args, missing, extra, tmp_path):
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
        "from noisefloor.cli import main; main()"
    )
    argv = [sys.executable, "-c", code, *args]
    ran = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == (1 if extra else 0)
    said = [line for line in ran.stderr.splitlines() if line]
    assert len(said) == bool(extra)
    assert f"pip install 'noisefloor[{extra}]'" in "".join(said) or not extra


# -- which question is measured --------------------------------------------------------------------


@pytest.fixture
def asked(home, monkeypatch):
    """What `collect.measure_study` is asked for; nothing is measured."""
    found = {}

    def measured(request, dry):
        found.update(vars(request))
        raise collect.StudyError("nothing was measured")

    monkeypatch.setattr(collect, "measure_study", measured)
    return found


@pytest.mark.parametrize("engine", ["", "mariadb"])
@pytest.mark.parametrize("study", sorted(set(studies.STUDIES) - {"own-study"}))
def test_a_wrong_question_is_answered_with_the_list(study, engine, asked, home):
    result = run("run", study, "--question", "cost", *(["--engine", engine] if engine else []))
    refused(result, 2, f"{study} has no question 'cost'; it has: ")
    told = result.stderr.split("it has: ")[1].split(";")[0].split(", ")
    assert told == list(studies.questions(study, engine))
    assert asked == {}
    assert not list(home.iterdir())


@pytest.mark.parametrize("question", ["all", "", "restart"])
def test_a_question_reaches_the_measurement(question, asked):
    more = ["--question", question] if question else []
    result = run("run", "tablespace-encryption", "--profile", "smoke", "--threads", "1,4", *more)
    assert result.stderr == "noisefloor: nothing was measured\n"
    assert (asked["study"], asked["question"]) == ("tablespace-encryption", question)
    assert (asked["profile"], asked["threads"]) == ("smoke", (1, 4))
    assert (asked["margin_pct"], asked["budget_min"]) == (0.0, 0.0)  # the profile's


@pytest.mark.parametrize("profile", ["smoke", "quick", "standard"])
def test_a_margin_that_is_given_is_the_margin(profile, asked):
    run("run", "binlog-encryption", "--profile", profile, "--margin", "3")
    assert asked["margin_pct"] == 3
    run("ab", "sync_binlog=1,0", "--profile", profile)
    assert asked["margin_pct"] == 0


@pytest.mark.parametrize("command", [("run", "binlog-encryption"), ("ab", "sync_binlog=1,0")])
def test_sigint_ends_a_measurement_that_a_shell_started_in_the_background(
    command, home, monkeypatch, request
):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a script's `&` leaves it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def measured(*given, **more):
        signal.raise_signal(signal.SIGINT)
        raise collect.StudyError("SIGINT was ignored")

    monkeypatch.setattr(collect, "measure_study", measured)
    refused(run(*command), 130, "stopped; what was finished is kept, the same command continues")


# -- what is printed at the end --------------------------------------------------------------------


@pytest.fixture
def measured(home, monkeypatch):
    """`run` and `ab` find this campaign measured; the page of `ab` is said to be made."""
    folder = paths.runs() / "binlog-encryption-smoke-test"
    shutil.copytree(DATA / "campaign", folder)
    page = paths.reports() / "binlog-encryption.html"
    monkeypatch.setattr(collect, "measure_study", lambda *given, **more: (folder,))
    monkeypatch.setattr(
        report, "render_all", lambda jobs, *given, **more: [(jobs[0][0], page, 0.0)]
    )
    return folder.name


@pytest.mark.parametrize(
    ("args", "where"),
    [
        (
            ("run", "binlog-encryption", "--profile", "smoke"),
            "noisefloor report binlog-encryption -p campaign binlog-encryption-smoke-test",
        ),
        (("ab", "binlog_encryption=OFF,ON"), "reports/binlog-encryption.html"),
    ],
    ids=["run", "ab"],
)
def test_run_and_ab_answer_first_and_name_the_page_last(args, where, measured):
    short = done(*args).splitlines()
    printed = json.loads(done(*args, "--json"))
    assert printed["answer"] == short
    assert len(short) <= MOST_LINES
    opened = results.load(paths.runs() / measured)
    words = [report.headline_of(row, opened) for row in results.headlines(opened)]
    assert short[:-3] == [amounts.ascii_only(sentence) for sentence in words]  # the page's
    assert re.fullmatch(r"Measured once, [^:]+: 1 of \d boots? on .+\.", short[-3])
    assert short[-2] == "For narrower intervals: the same command with --profile standard."
    count = len(printed["comparisons"])
    assert short[-1] == f"All comparisons ({count}): {where}"
    long = done(*args, "--verbose").splitlines()
    assert long[: len(short)] == short
    assert len(long) == len(short) + 1 + count


@pytest.fixture
def worded(measured, monkeypatch):
    """worded(word, more): the leading comparison has this verdict, and so `more` for another arm."""
    opened = results.load(paths.runs() / measured)
    lead, rows = results.headlines(opened)[0], opened.verdicts
    alike = (rows["workload"] == lead["workload"]) & (rows["metric"] == lead["metric"])
    monkeypatch.setattr(results, "load", lambda *folders: opened)

    def named(word, more=""):
        chosen = rows[alike & ~rows["control"]].assign(verdict=word)
        other = chosen.assign(arm="another", verdict=more)[: len(chosen) if more else 0]
        vars(opened)["verdicts"] = pd.concat([chosen, other], ignore_index=True)

    return named


@pytest.mark.parametrize(
    ("args", "word", "code"),
    [
        (("run", "binlog-encryption", "--profile", "smoke"), "more", 3),
        (("run", "binlog-encryption", "--profile", "smoke"), "less", 0),
        (("run", "binlog-encryption", "--profile", "smoke"), "same", 0),
        (("run", "binlog-encryption", "--profile", "smoke"), "provisional", 3),
        (("ab", "binlog_encryption=OFF,ON"), "cannot tell", 3),
    ],
)
def test_run_and_ab_fail_on_the_verdict_that_their_answer_begins_with(args, word, code, worded):
    worded(word)
    printed = done(*args, "--fail-on", "worse,cannot-tell", "--json", code=code)
    assert json.loads(printed)["comparisons"]


@pytest.mark.parametrize(("more", "code"), [("more", 3), ("same", 0)])
def test_one_of_several_arms_is_enough_to_fail(more, code, worded):
    worded("same", more)
    done("run", "binlog-encryption", "--fail-on", "worse", code=code)


def test_where_nothing_leads_run_cannot_tell(measured, monkeypatch):
    monkeypatch.setattr(results, "headlines", lambda r, arm="": [])
    done("run", "binlog-encryption", "--fail-on", "worse")
    done("run", "binlog-encryption", "--fail-on", "cannot-tell", code=3)
