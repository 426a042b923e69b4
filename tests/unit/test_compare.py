"""Logs from anywhere, read and judged."""

import csv
import math
import re

import numpy as np
import pytest
from scipy import stats

from conftest import DATA, noisefloor, refused
from noisefloor import parse
from noisefloor.data import compare
from noisefloor.stats import plan, scatter
from noisefloor.stats import runs as judging
from noisefloor.stats.within import within
from noisefloor.text import Refusal
from noisefloor.text.answers import MOST_LINES
from noisefloor.tools import Run
from noisefloor.tools.sysbench import MUST

SLICES = sorted((DATA / "compare").glob("00-*.txt"))
BEFORE = [p for p in SLICES if p.stem.endswith("A")]
AFTER = [p for p in SLICES if p.stem.endswith("B")]
FLOOR = {"tps": {"cv_pct": 1.5, "df": 9}, "p99": {"cv_pct": 0.0, "df": None}}
GOOD = [10.0, 10.05, 10.1, 9.95]
MORE = [12.0, 12.05, 12.1, 11.95]


def read(*paths):
    """The runs in the logs of an arm; the other arm has one good log."""
    return compare.read_both(paths, AFTER[:1])[0]


def made(values, threads=4, seconds=10.0, metric="tps", **keys):
    return [
        Run(
            f"{i}.txt",
            {metric: float(v)},
            threads,
            {"tool": "sysbench", **keys},
            seconds,
            must=MUST,
        )
        for i, v in enumerate(values)
    ]


def several(values):
    """Runs of several thread counts: {threads: values}."""
    return [run for threads, each in values.items() for run in made(each, threads)]


def lognormal(seed, n, mean=1000.0, cv=0.02):
    return mean * np.exp(np.random.default_rng(seed).normal(0, cv, n))


def only(rows, **where):
    kept = [r for r in rows if all(getattr(r, k) == v for k, v in where.items())]
    assert len(kept) == 1, kept
    return kept[0]


def judged(x, y, metric="tps", **how):
    """The one row of values of a metric; without a floor the server was restarted between runs."""
    how = {"restarts": "floor" not in how} | how
    return only(compare.rows(made(x, metric=metric), made(y, metric=metric), **how), metric=metric)


def wide(row):
    return row.hi_pct - row.lo_pct


def concluded(rows):
    """The answer of rows, which leaves a line for what points at the rest."""
    lines = compare.conclusion(rows)
    assert len(lines) < MOST_LINES
    assert "\n" not in "".join(lines)
    return lines


def said(row, words):
    return any(words in warning for warning in row.warnings)


# -- reading ---------------------------------------------------------------------------------------


def test_reads_what_sysbench_printed():
    (run,) = read(BEFORE[0])
    assert run.threads == 4
    assert run.values["tps"] == 933.16
    assert run.values["mean_latency"] == pytest.approx(0.00428)
    assert run.values["p99"] == pytest.approx(0.008895)
    assert run.keys["statements a transaction"] == "14 read, 4 write, 2 other"
    assert run.keys["sysbench version"] == "1.0.20"
    assert len(run.rows) == 8


def test_reads_every_run_of_a_log_that_holds_several(tmp_path):
    (tmp_path / "all.txt").write_bytes(b"".join(p.read_bytes() for p in BEFORE[:3]))
    found, alone = read(tmp_path / "all.txt"), read(*BEFORE[:3])
    assert [r.values for r in found] == [r.values for r in alone]
    assert len({r.name for r in found}) == 3
    assert all(r.name.startswith("all.txt:") for r in found)
    cut = b"".join(p.read_bytes() for p in BEFORE[:2])[:-400]
    (tmp_path / "cut.txt").write_bytes(cut)
    with pytest.raises(Refusal, match=r"cut.txt, line \d+") as e:
        read(tmp_path / "cut.txt")
    lines = BEFORE[0].read_text().count("\n")
    assert int(str(e.value).split("line ")[1].split(":")[0]) > lines


def test_reads_time_output_and_a_folder_of_it(tmp_path):
    for i, real in enumerate(("1m1.500s", "1m2.000s")):
        (tmp_path / f"{i}.txt").write_text(f"real\t{real}\nuser\t0m3.000s\nsys\t0m1.000s\n")
    (tmp_path / ".hidden").write_text("not a log")
    found = read(tmp_path)
    assert [r.values for r in found] == [{"wall": w, "user_sys": 4.0} for w in (61.5, 62.0)]


def test_peak_memory_is_judged_where_time_printed_it(tmp_path):
    text = (DATA / "time" / "gnu-time-v.txt").read_text()
    for arm, kib in (("before", 39_000), ("after", 46_800)):
        (tmp_path / arm).mkdir()
        for n in range(4):
            log = text.replace("39264", str(kib + 10 * n)).replace("0:00.09", f"0:00.1{n}")
            (tmp_path / arm / f"{n}.txt").write_text(log)
    rows = compare.judge([tmp_path / "before"], [tmp_path / "after"])
    assert [row.metric for row in rows] == ["wall", "user_sys", "peak_memory"]
    memory = only(rows, metric="peak_memory")
    assert (memory.verdict, memory.worse) == ("larger", True)
    assert memory.change_pct == pytest.approx(20, abs=0.1)
    assert "Also peak memory LARGER by 20.0 %." in compare.pointer(rows)


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (None, 1, "bad.txt: No such file or directory"),
        ("folder", 2, "holds no file"),
        (BEFORE[0].read_bytes()[:9000], 1, "line "),
        (BEFORE[0].read_bytes()[:700], 1, "line "),
        (bytes(range(256)) * 64, 1, "binary data"),
        (b" \n", 1, "bad.txt: empty"),
        (b"It was about 10 % slower.\n", 1, "text of something else"),
        (2 * 2**30, 2, "larger than 64 MiB"),
        (BEFORE[1].read_bytes(), 2, "one run cannot count twice"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_refuses_a_bad_file_in_one_sentence(tmp_path, content, code, words):
    path = tmp_path / "bad.txt"
    if content == "folder":
        path.mkdir()
    elif isinstance(content, int):
        with path.open("wb") as file:
            file.truncate(content)
    elif content:
        path.write_bytes(content)
    with pytest.raises(Refusal) as e:
        read(BEFORE[1], path)
    assert e.value.code == code
    assert words in str(e.value)
    assert "nothing was judged" in str(e.value)
    assert "\n" not in str(e.value)


FAILED = [*(DATA / "sysbench").glob("*-fail-*.txt"), DATA / "time" / "gnu-time-v-fail.txt"]


@pytest.mark.parametrize("log", sorted(FAILED), ids=lambda p: p.stem)
def test_a_failed_run_is_never_averaged_in(log):
    with pytest.raises(Refusal) as e:
        read(BEFORE[0], log)
    assert e.value.code == 1


def test_all_bad_logs_of_both_arms_stand_in_one_refusal(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    before, after = [*BEFORE, tmp_path / "no.txt"], [tmp_path / "empty.txt", BEFORE[0]]
    with pytest.raises(Refusal) as e:
        compare.read_both(before, after)
    assert e.value.code == 2
    assert str(e.value) == (
        f"3 of {len(BEFORE) + 3} logs cannot be used: {tmp_path / 'no.txt'}: No such file or directory;"
        f" {tmp_path / 'empty.txt'}: empty; {BEFORE[0]}: the same text as {BEFORE[0]}, and one run"
        " cannot count twice (allowed: logs of whole runs of HammerDB, mysqlslap, pgbench, sysbench,"
        " time, up to 64 MiB); nothing was judged"
    )


def test_of_many_bad_logs_five_are_named_and_all_with_verbose(tmp_path):
    bad = [tmp_path / f"{n}.txt" for n in range(7)]
    for path in bad:
        path.write_text("")  # the same text in each: the reason is that it is empty
    for more, named in (((), bad[:5]), (("--verbose",), bad)):
        result = noisefloor("compare", tmp_path, "--", AFTER[0], *more)
        refused(result, 1, "7 of 8 logs cannot be used: ")
        assert [path for path in bad if f"{path}: empty" in result.stderr] == named
        assert ("; and 2 more (" in result.stderr) == (named != bad)


# -- arithmetic ------------------------------------------------------------------------------------


def test_unpaired_is_welch_on_logs():
    x, y = lognormal(1, 7), lognormal(2, 5, 900, 0.04)
    row = judged(x, y)
    interval = stats.ttest_ind(np.log(y), np.log(x), equal_var=False).confidence_interval()
    assert row.lo_pct == pytest.approx(100 * math.expm1(interval.low))
    assert row.hi_pct == pytest.approx(100 * math.expm1(interval.high))
    assert row.verdict == "slower"
    assert (row.n_baseline, row.n_arm) == (7, 5)


def test_paired_is_the_paired_t_interval():
    drift = np.linspace(0, 0.5, 9)
    x, y = (lognormal(s, 9, m) * np.exp(drift) for s, m in ((3, 1000), (4, 970)))
    row = judged(x, y, paired=True)
    interval = stats.ttest_1samp(np.log(y / x), 0).confidence_interval()
    assert row.lo_pct == pytest.approx(100 * math.expm1(interval.low))
    assert row.hi_pct == pytest.approx(100 * math.expm1(interval.high))
    assert row.design == "pairs"
    assert wide(judged(x, y)) > 3 * wide(row)


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("tps", ("faster", "slower")),
        ("events_per_s", ("faster", "slower")),
        ("wall", ("slower", "faster")),
        ("user_sys", ("more", "less")),
        ("p95", ("slower", "faster")),
        ("mean_latency", ("slower", "faster")),
    ],
)
def test_the_sign_is_the_metrics_own_and_the_word_says_whether_it_is_worse(metric, words):
    row, back = judged(GOOD, MORE, metric), judged(MORE, GOOD, metric)
    assert (row.verdict, back.verdict) == words
    assert row.change_pct == pytest.approx(19.95, abs=0.01)
    rises = metric in ("tps", "events_per_s")  # of which more is better
    assert (row.worse, back.worse) == (not rises, rises)
    assert math.log1p(back.hi_pct / 100) == pytest.approx(-math.log1p(row.lo_pct / 100))


def test_runs_that_may_share_a_start_have_both_answers():
    x, y = lognormal(5, 10, cv=0.005), lognormal(6, 10, 970, 0.005)
    known, unknown = judged(x, y), judged(x, y, floor=FLOOR)
    assert (known.verdict, known.restarted) == ("slower", "")
    assert (unknown.verdict, unknown.restarted) == ("cannot tell", "slower")
    assert unknown.lo_pct < 0 < unknown.hi_pct
    for end in ("lo_pct", "hi_pct"):
        assert getattr(unknown, f"restarted_{end}") == pytest.approx(getattr(known, end))
        assert math.isnan(getattr(known, f"restarted_{end}"))
    # the floor alone: two starts, each with this CV, known from 9 degrees of freedom
    least = stats.t.ppf(0.975, 9) * 0.015 * math.sqrt(2)
    assert wide(unknown) > 2 * 100 * 0.9 * least
    both = "slower, -2.7 % (-3.3 to -2.2 %)"
    condition = "if the server was restarted between them (--restarts)"
    first, _, third, last = concluded([unknown])
    shared = "if an arm's runs share one server start: after against before, TPS."
    assert first == f"CANNOT TELL at 4 threads {shared}"
    assert third == f"SLOWER by 2.7 % at 4 threads {condition}: -2.7 % (-3.3 to -2.2 %)."
    assert last == "To settle it: restart the server between the runs (--restarts)."
    assert concluded([known]) == [
        "SLOWER by 2.7 % at 4 threads: after against before, TPS.",
        "-2.7 % (-3.3 to -2.2 %); 10 runs of each, 95 % interval.",
    ]
    for form in ("text", "markdown"):
        assert both in compare.as_text([unknown], form)
        assert "(--restarts)" in compare.as_text([unknown], form)
        assert "restarted" not in compare.as_text([known], form)
    (line,) = csv.DictReader(compare.as_csv([unknown]).splitlines())
    assert (line["verdict"], line["restarted"]) == ("cannot tell", "slower")


def test_where_both_answers_are_one_the_floor_is_named():
    x, y = lognormal(5, 10, cv=0.005), lognormal(6, 10, 995, 0.005)
    row = judged(x, y, floor={"tps": {"cv_pct": 9.0, "df": 9}}, margin_pct=0.1)
    assert (row.verdict, row.restarted) == ("cannot tell", "")
    assert said(row, "a start-to-start CV of 9 % is added; --restarts leaves it out")
    assert said(row, "more runs under the same server starts cannot settle it")
    assert concluded([row])[-1] == (
        "To settle it: restart the server between the runs (--restarts)."
    )


def test_a_floor_never_narrows_an_interval():
    """Two noisy pairs of runs have one degree of freedom each: a floor of 57 must not lend its."""
    x, y = lognormal(5, 2, cv=0.05), lognormal(6, 2, 970, 0.05)
    assert wide(judged(x, y, floor={"tps": {"cv_pct": 0.7, "df": 57}})) >= wide(judged(x, y))


@pytest.mark.parametrize("metric", ["wall", "user_sys"])
def test_time_of_a_command_has_no_start_to_start_scatter(metric):
    x, y = lognormal(5, 4, 10, 0.005), lognormal(6, 4, 10.5, 0.005)
    bare, own = judged(x, y, metric), judged(x, y, metric, restarts=False)
    assert (own.lo_pct, own.hi_pct) == (bare.lo_pct, bare.hi_pct)
    assert own.worse
    assert not said(own, "--restarts")
    shared = judged(x, y, metric, floor="levels")
    assert wide(shared) > 3 * wide(bare)
    assert said(shared, "a shared machine changes from arm to arm: a CV of ")
    assert not said(shared, "--restarts")
    assert (shared.restarted, shared.verdict) == ("", "cannot tell")
    assert math.isnan(shared.runs_needed)  # more runs would not help


@pytest.mark.parametrize("metric", ["mean_latency", "p99", "events_per_s"])
def test_a_metric_without_its_own_floor_takes_that_of_its_kin(metric):
    x, y = lognormal(5, 10, 10, 0.005), lognormal(6, 10, 9.9, 0.005)
    row = judged(x, y, metric, floor=FLOOR, margin_pct=0.1)
    assert wide(row) > 3 * wide(judged(x, y, metric))


def test_same_when_the_interval_lies_inside_the_margin():
    x, y = lognormal(7, 12, cv=0.01), lognormal(8, 12, cv=0.01)
    for margin in (0.2, 0.5, 1, 2, 5):
        row, bound = judged(x, y, margin_pct=margin), math.log1p(margin / 100)
        ends = [math.log1p(end / 100) for end in (row.lo_pct, row.hi_pct)]
        assert (row.verdict == "same") == (ends[0] > -bound and ends[1] < bound)
        assert row.margin_pct == margin
    assert row.verdict == "same"


def test_a_metric_has_its_own_margin():
    for metric, margin in (("tps", 2), ("p99", 10), ("user_sys", 1), ("wall", 2)):
        assert judged(GOOD, MORE, metric).margin_pct == margin
    sides = {"b": {None: (judging.Side(tuple(GOOD)), judging.Side(tuple(MORE)))}}
    (row,) = judging.judge_runs(sides, metric="p99", baseline="a", quick=True)
    assert row.margin_pct == 20


@pytest.mark.parametrize("session", ["one-start", "blocks"])
def test_two_identical_servers_are_not_called_different(session):
    """Real A/A sessions; a paired t-test on the first one says p = 0.013."""
    with open(DATA / "compare" / f"{session}.csv") as file:
        table = sorted(csv.DictReader(file), key=lambda r: (int(r["pair"]), int(r["block"])))
    sides = [
        [int(r["transactions"]) / float(r["seconds"]) for r in table if r["arm"] == arm]
        for arm in "AB"
    ]
    for paired in (True, False):
        row = judged(*sides, paired=paired, restarts=False)
        assert row.verdict == "cannot tell"
        assert row.lo_pct < 0 < row.hi_pct


def test_thread_counts_hold_95_percent_together_and_have_no_joint_row():
    means = {1: 970, 4: 1000, 16: 940}
    before = several({t: lognormal(t, 6) for t in means})
    after = several({t: lognormal(50 + t, 6, m) for t, m in means.items()})
    rows = compare.rows(before, after, restarts=True)
    assert [r.threads for r in rows] == [1, 4, 16]
    assert {r.together for r in rows} == {3}
    for r in rows:
        x, y = (np.log([run.values["tps"] for run in side if run.threads == r.threads])
                for side in (before, after))  # fmt: skip
        found = stats.ttest_ind(y, x, equal_var=False).confidence_interval(1 - 0.05 / 3)
        assert math.log1p(r.lo_pct / 100) == pytest.approx(found.low)
    assert "the intervals of these 3 rows hold 95 % together" in compare.as_text(rows)


def test_the_copy_of_the_baseline_is_counted_apart():
    sides = {4: (judging.Side((1.0, 1.1, 1.2)), judging.Side((1.3, 1.2, 1.4)))}
    arms = {"b": sides, "c": sides, "a again": sides}
    rows = judging.judge_runs(arms, metric="tps", baseline="a")
    assert [(r.arm, r.together) for r in rows] == [("b", 2), ("c", 2), ("a again", 1)]


# -- one run an arm --------------------------------------------------------------------------------


def test_one_run_an_arm_is_no_verdict_where_nothing_is_known_of_scatter():
    row = judged([1000], [400], "backup_size", restarts=False)
    assert row.verdict == "cannot tell"
    assert math.isnan(row.lo_pct)
    assert math.isnan(row.chance)


@pytest.mark.parametrize(
    ("after", "verdict"),
    [(100, "slower"), (700, "slower"), (970, "cannot tell"), (10_000, "faster")],
)
def test_one_run_an_arm_is_held_against_the_prediction(after, verdict):
    before, later = (made([v], seconds=300) for v in (1000, after))
    row = only(compare.rows(before, later), metric="tps")
    assert row.verdict == verdict
    half = scatter.prediction("tps", 300).half(0.05)
    assert math.log1p(row.hi_pct / 100) == pytest.approx(math.log(after / 1000) + half)
    assert (row.chance < 0.05) == (verdict != "cannot tell")
    if verdict == "cannot tell":
        _, why, settles = concluded([row])
        assert "Two runs of the same, unchanged server differ by at least that much about" in why
        assert settles == (
            "To settle it: several runs of each, the server restarted between them (--restarts)."
        )


def test_one_run_in_one_arm_takes_its_scatter_from_elsewhere():
    many = lognormal(3, 9)
    far, near = (
        only(compare.rows(made(many, seconds=300), made([y], seconds=300), restarts=True),
             metric="tps")
        for y in (700, 950)
    )  # fmt: skip
    assert (far.verdict, near.verdict) == ("slower", "cannot tell")
    assert said(far, "one run in one arm")
    own = stats.t.ppf(0.975, 8) * np.log(many).std(ddof=1) / 3
    alone = scatter.prediction("tps", 300).half(0.05) / math.sqrt(2)
    half = math.log1p(far.hi_pct / 100) - math.log1p(far.change_pct / 100)
    assert half == pytest.approx(math.hypot(own, alone))


def rates(rng):
    """Rows of one run whose autocorrelation is 0.8, on the log scale."""
    noise = np.zeros(300)
    for i in range(1, 300):
        noise[i] = 0.8 * noise[i - 1] + rng.normal(0, 0.03)
    return noise


def test_rows_within_one_run_only_add_to_the_prediction():
    rng = np.random.default_rng(9)

    def run(name, mean):
        rows = mean * np.exp(3 * rates(rng))
        rows[:20] *= np.linspace(0.3, 1, 20)
        return Run(name, {"tps": rows.mean()}, 4, {"tool": "sysbench"}, 300.0, rows)

    runs = run("a", 1000), run("b", 950)
    row = only(compare.rows(*([r] for r in runs)), metric="tps")
    bare = only(compare.rows(*(made([r.values["tps"]], seconds=300) for r in runs)), metric="tps")
    assert wide(row) > wide(bare)
    assert sum("warm-up; the throughput includes" in w for w in row.warnings) == 2


def test_rows_of_one_run_are_not_replicates():
    """Nominal 5 % on rows with autocorrelation 0.8: the interval must not be that of 300 runs."""
    rng = np.random.default_rng(10)
    missed = 0
    for _ in range(400):
        rows = 1000 * np.exp(rates(rng))
        error, df, _ = within(rows)
        missed += abs(math.log(rows.mean() / 1000)) > stats.t.ppf(0.975, df) * error
    assert missed / 400 < 0.13  # the naive interval misses in about half of them


@pytest.mark.parametrize("rates", [[1.0] * 10, [0.0] * 100, [5.0] * 99 + [0.0]])
def test_too_few_or_stalled_rows_give_no_interval(rates):
    assert within(rates) is None


# -- what nobody can tell --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y", "metric", "words"),
    [
        (10.0, 100.0, "p95", "clipped"),
        (18.0, 18.0, "tps", "do not scatter at all"),
    ],
)
def test_numbers_that_the_tool_rounded_are_not_evidence(x, y, metric, words):
    row = judged([x] * 5, [y] * 5, metric)
    assert row.verdict == "cannot tell"
    assert words in row.warnings[0]
    assert judged([10.0] * 5, [12.0] * 5, "p95").verdict == "slower"


def test_percentiles_in_one_bucket_are_known_to_half_a_bucket():
    row = judged([10.0] * 5, [10.05] * 5, "p95", margin_pct=0.5)
    assert row.verdict == "cannot tell"
    assert wide(row) == pytest.approx(100 * parse.RESOLUTION, rel=0.02)


def test_the_plan_would_settle_it():
    x, y = lognormal(11, 4, cv=0.03), lognormal(12, 4, 960, cv=0.03)
    row = judged(x, y)
    assert row.verdict == "cannot tell"
    n = row.runs_needed
    assert n > 4
    assert row.minutes_needed == pytest.approx(n * 2 * 10 / 60)
    found = 0
    sd = math.sqrt((np.log(x).var(ddof=1) + np.log(y).var(ddof=1)) / 2)
    effect = math.log1p(row.change_pct / 100)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        sides = (1000 * np.exp(rng.normal(m, sd, n)) for m in (0, effect))
        found += judged(*sides).verdict != "cannot tell"
    assert 0.72 < found / 200 <= 1


@pytest.mark.parametrize(("value", "together"), [(0.02, 1), (0.02, 4), (0.0, 1)])
def test_so_many_blocks_have_their_word_in_four_of_five_campaigns(value, together):
    sd, margin = 0.03, 0.01
    n = plan.units_needed(value, sd, margin, together=together)
    x = np.random.default_rng(3).normal(value, sd, (4000, n))
    half = stats.t.ppf(1 - 0.025 / together, n - 1) * x.std(ddof=1, axis=1) / math.sqrt(n)
    lo, hi = x.mean(axis=1) - half, x.mean(axis=1) + half
    words = np.where((lo > -margin) & (hi < margin), 2, np.sign(np.sign(lo) + np.sign(hi)))
    assert 0.77 < (words != 0).mean() < 0.87
    assert plan.units_needed(0.04, sd, margin, least=23) >= 23
    assert plan.units_needed(value, 0.0, margin) == plan.FEWEST
    assert plan.runs_needed(0.0, 0.01, margin, start=((2 * 0.05**2, 3),)) is None


def test_cannot_tell_says_what_is_known_and_never_asks_for_fewer_runs_than_there_were():
    for n in (2, 5, 12, 40):
        row = judged(lognormal(n, n, cv=0.05), lognormal(n + 1, n, 985, 0.05))
        if row.verdict == "cannot tell":
            assert row.known.startswith("at most")
            assert row.runs_needed > n
            assert row.lo_pct < 0 < row.hi_pct


def test_several_arms_are_counted_with_both_answers():
    x, y = lognormal(5, 10, cv=0.005), lognormal(6, 10, 970, 0.005)
    sides = {4: (judging.Side(tuple(x)), judging.Side(tuple(y)))}
    rows = judging.judge_runs({"b": sides, "c": sides}, metric="tps", baseline="a", floor=FLOOR)
    first, why, third, _ = concluded(rows)
    assert first == (
        "2 CANNOT TELL if an arm's runs share one server start: 2 arms against a, TPS."
    )
    assert why == "10 runs of each, 95 % for all intervals together."
    assert third == "2 SLOWER by 2.7 % if the server was restarted between them (--restarts)."


NOISY = [8.0, 12.0, 9.0, 11.0], [9.0, 11.5, 8.5, 12.0]


def test_thread_counts_of_one_word_stand_together_and_those_that_cannot_tell_last():
    sides = [{1: NOISY[k], 4: NOISY[k], 16: each, 64: each} for k, each in enumerate((GOOD, MORE))]
    first, why, settles = concluded(compare.rows(*map(several, sides), restarts=True))
    assert first == (
        "FASTER by 20.0 % at 16 and 64 threads, CANNOT TELL at 1 and 4 threads:"
        " after against before, TPS."
    )
    assert why.startswith("+20.0 % (+18.2 to +21.8 %) at 16 and 64 threads; +2.7 % (at most ")
    assert why.endswith(" at 1 and 4 threads; 4 runs of each, 95 % for all intervals together.")
    assert re.fullmatch(
        r"To settle it: up to [\d,]+ runs of each in all \(\d+ min\), if they scatter alike.",
        settles,
    )


def test_same_names_its_margin_and_has_nothing_to_settle():
    x, y = lognormal(7, 12, cv=0.005), lognormal(8, 12, cv=0.005)
    first, why = concluded([judged(x, y)])
    assert first == "SAME within ±2 % at 4 threads: after against before, TPS."
    assert "12 runs of each, 95 % interval." in why


def test_why_there_is_no_word_is_never_left_to_verbose():
    _, why = concluded([judged([10.0] * 5, [100.0] * 5, "p95")])
    assert why.endswith("Clipped at 100 s, the end of sysbench's histogram.")
    _, why = concluded([judged([18.0] * 5, [18.0] * 5)])
    assert why.startswith("0.0 % (no interval); 5 runs of each. The runs of an arm do not scatter")


def test_what_points_at_the_rest_says_what_else_counts():
    sides = [
        [
            Run(f"{i}.txt", {"tps": v, "p99": v * times}, 4, {"tool": "sysbench", "rate": "500"})
            for i, v in enumerate(values)
        ]
        for values, times in ((GOOD, 1), (MORE, 2))
    ]
    rows = compare.rows(*sides, restarts=True)
    assert concluded(rows)[0].startswith("FASTER by 20.0 % at 4 threads: ")
    assert compare.pointer(rows) == (
        "Mind: the runs had a fixed --rate: throughput is what was asked for."
        " Also p99 latency SLOWER by 2.4 times at 4 threads."
        " --verbose lists 2 comparisons and 2 notes."
    )
    assert compare.pointer(rows, ["3 runs of x", "2 of y"]).startswith(
        "Left out: 3 runs of x (and 1 more). Mind: "
    )


# -- what does not belong together -----------------------------------------------------------------


@pytest.mark.parametrize("values", [[1.0, 0.0, 2.0], [1.0, math.inf, 2.0], [1.0, math.nan]])
def test_a_value_without_a_logarithm_is_refused(values):
    with pytest.raises(Refusal, match="above 0"):
        compare.rows(made(values), made(values))


@pytest.mark.parametrize(
    ("key", "values", "words"),
    [
        ("test", ("oltp_read_write", "oltp_read_only"), "test: oltp_read_write in 0.txt"),
        ("tables", ("5", "20"), "tables: 5 in 0.txt"),
        ("table-size", ("10", "20"), "table-size"),
        ("rate", ("none", "500"), "rate"),
        ("tool", ("sysbench", "time"), "tool"),
        ("seconds", (10, 60), "duration: 10 s in 0.txt and 2 more, 60 s in 0.txt and 2 more"),
        ("seconds", (60, 1800), "duration: 60 s in 0.txt and 2 more, 1,800 s in 0.txt and 2 more"),
        ("seconds", (None, 60), "duration: not given in 0.txt and 2 more, 60 s"),
    ],
)
def test_refuses_other_tests(key, values, words):
    sides = [made([1, 2, 3], **{key: value}) for value in values]
    with pytest.raises(Refusal, match=f"differ in {words}"):
        compare.rows(*sides)


@pytest.mark.parametrize(
    ("key", "values", "words"),
    [
        ("sysbench version", ("1.0.20", "1.1.0"), ": 1.0.20 in 0.txt and 2 more, 1.1.0"),
        ("mysql-ssl", ("off", "on"), "the logs differ in mysql-ssl: off in"),
        ("rate", ("500", "500"), "fixed --rate"),
    ],
)
def test_footnotes_other_conditions(key, values, words):
    rows = compare.rows(*(made([1, 2, 3], **{key: value}) for value in values))
    assert all(said(row, words) for row in rows)


@pytest.mark.parametrize("arms", [(0, 1), (1, 0)])
def test_a_condition_that_one_log_does_not_name_has_another_value(arms):
    def sides(**key):
        both = made(GOOD), made(MORE, **key)
        return [both[arm] for arm in arms]

    with pytest.raises(Refusal, match="differ in tables: ") as e:
        compare.rows(*sides(tables="5"))
    for words in ("5 in 0.txt and 3 more", "not given in 0.txt and 3 more"):
        assert words in str(e.value)
    rows = compare.rows(*sides(**{"mysql-ssl": "on"}))
    (note,) = (w for w in rows[0].warnings if w.startswith("the logs differ in mysql-ssl: "))
    assert "on in 0.txt and 3 more" in note
    assert "not given in 0.txt and 3 more" in note


def test_runs_of_two_durations_are_not_pooled_inside_an_arm():
    mixed = [*made(GOOD[:2]), *made(GOOD[2:], seconds=60)]
    words = "differ in duration: 10 s in 0.txt and 5 more, 60 s in 0.txt and 1 more"
    with pytest.raises(Refusal, match=words):
        compare.rows(mixed, made(MORE))
    close = [*made(GOOD[:2]), *made(GOOD[2:], seconds=10.4)]
    assert not said(compare.rows(close, made(MORE))[0], "duration")


def test_the_duration_of_a_fixed_number_of_transactions_is_a_result():
    sides = ([r for v in side for r in made([v], seconds=600 / v)] for side in (GOOD, MORE))
    (row,) = compare.rows(*sides, restarts=True)
    assert row.verdict == "faster"
    assert said(row, "the logs differ in duration: 60 s in ")


def test_threads_on_one_side_only_are_left_out_and_named():
    rows = compare.rows(several({4: [1, 2, 3], 8: [1, 2, 3]}), made([1, 2, 3], 4))
    assert {r.threads for r in rows} == {4}
    assert compare.pointer(rows).startswith(
        "Mind: thread counts only in before, left out: 8. --verbose "
    )
    for threads, there in ((8, "8"), (None, "not given")):
        words = rf"no thread count is on both sides \(4 in before, {there} in after\)"
        with pytest.raises(Refusal, match=words):
            compare.rows(made([1, 2], 4), made([1, 2], threads))
    unknown = compare.rows([*made([1, 2], 4), *made([1, 2], None)], made([1, 2], 4))
    assert "thread counts only in before, left out: not given" in unknown[0].warnings


def test_names_come_from_the_folders():
    assert compare.names(["off/1.txt", "off/2.txt"], ["on/1.txt"]) == ("off", "on")
    for before in (["x/1.txt", "y/2.txt"], ["1.txt"]):
        assert compare.names(before, ["2.txt"]) == ("before", "after")


def test_the_buckets_are_those_of_the_parser():
    """Written twice, since importing the parser would import numpy."""
    assert math.log1p(parse.RESOLUTION) == pytest.approx(judging.BUCKET, rel=1e-4)
    assert judging.CLIP_S == parse.CLIP_S
