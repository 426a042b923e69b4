"""Logs from anywhere, read and judged."""

import csv
import math

import numpy as np
import pytest
from scipy import stats

from conftest import DATA
from noisefloor import parse
from noisefloor.data import compare
from noisefloor.data.compare import Refused, Run
from noisefloor.stats import runs as judging
from noisefloor.stats import scatter
from noisefloor.stats.within import within

SLICES = sorted((DATA / "compare").glob("00-*.txt"))
BEFORE = [p for p in SLICES if p.stem.endswith("A")]
FLOOR = {"tps": {"cv_pct": 1.5, "df": 9}, "p99": {"cv_pct": 0.0, "df": None}}
GOOD = [10.0, 10.05, 10.1, 9.95]


def made(values, threads=4, seconds=10.0, metric="tps", **keys):
    return [
        Run(f"{i}.txt", {metric: float(v)}, threads, {"tool": "sysbench", **keys}, seconds)
        for i, v in enumerate(values)
    ]


def several(values):
    """Runs of several thread counts: {threads: values}."""
    return [run for threads, each in values.items() for run in made(each, threads)]


def lognormal(seed, n, mean=1000.0, cv=0.02):
    return mean * np.exp(np.random.default_rng(seed).normal(0, cv, n))


def only(rows, **where):
    kept = [r for r in rows if all(r[k] == v for k, v in where.items())]
    assert len(kept) == 1, kept
    return kept[0]


def judged(x, y, metric="tps", **how):
    """The one row of values of a metric; without a floor the server was restarted between runs."""
    how = {"restarts": "floor" not in how} | how
    return only(compare.rows(made(x, metric=metric), made(y, metric=metric), **how), metric=metric)


def wide(row):
    return row["hi_pct"] - row["lo_pct"]


def said(row, words):
    return any(words in warning for warning in row["warnings"])


# -- reading ---------------------------------------------------------------------------------------


def test_reads_what_sysbench_printed():
    run = compare.runs([BEFORE[0]], "before")[0]
    assert run.threads == 4
    assert run.values["tps"] == 933.16
    assert run.values["mean_latency"] == pytest.approx(0.00428)
    assert run.values["p99"] == pytest.approx(0.008895)
    assert run.keys["statements a transaction"] == "14 read, 4 write, 2 other"
    assert run.keys["sysbench version"] == "1.0.20"
    assert len(run.rows) == 8


def test_reads_every_run_of_a_log_that_holds_several(tmp_path):
    (tmp_path / "all.txt").write_bytes(b"".join(p.read_bytes() for p in BEFORE[:3]))
    found = compare.runs([tmp_path / "all.txt"], "before")
    alone = [compare.runs([p], "before")[0] for p in BEFORE[:3]]
    assert [r.values for r in found] == [r.values for r in alone]
    assert len({r.name for r in found}) == 3
    assert all(r.name.startswith("all.txt:") for r in found)
    cut = b"".join(p.read_bytes() for p in BEFORE[:2])[:-400]
    (tmp_path / "cut.txt").write_bytes(cut)
    with pytest.raises(Refused, match=r"cut.txt, line \d+") as e:
        compare.runs([tmp_path / "cut.txt"], "before")
    lines = BEFORE[0].read_text().count("\n")
    assert int(str(e.value).split("line ")[1].split(":")[0]) > lines


def test_reads_time_output_and_a_folder_of_it(tmp_path):
    for i, real in enumerate(("1m1.500s", "1m2.000s")):
        (tmp_path / f"{i}.txt").write_text(f"real\t{real}\nuser\t0m3.000s\nsys\t0m1.000s\n")
    (tmp_path / ".hidden").write_text("not a log")
    found = compare.runs([tmp_path], "before")
    assert [r.values for r in found] == [{"wall": w, "user_sys": 4.0} for w in (61.5, 62.0)]


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (None, 1, "cannot be read (No such file or directory)"),
        ("folder", 2, "holds no file"),
        (BEFORE[0].read_bytes()[:9000], 1, "line "),
        (BEFORE[0].read_bytes()[:700], 1, "line "),
        (bytes(range(256)) * 64, 1, "binary data"),
        (b" \n", 1, "holds nothing"),
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
    with pytest.raises(Refused) as e:
        compare.runs([BEFORE[1], path], "before")
    assert e.value.code == code
    assert words in str(e.value)
    assert "nothing was judged" in str(e.value)
    assert "\n" not in str(e.value)


FAILED = [*(DATA / "sysbench").glob("*-fail-*.txt"), DATA / "time" / "gnu-time-v-fail.txt"]


@pytest.mark.parametrize("log", sorted(FAILED), ids=lambda p: p.stem)
def test_a_failed_run_is_never_averaged_in(log):
    with pytest.raises(Refused) as e:
        compare.runs([BEFORE[0], log], "before")
    assert e.value.code == 1


# -- arithmetic ------------------------------------------------------------------------------------


def test_unpaired_is_welch_on_logs():
    x, y = lognormal(1, 7), lognormal(2, 5, 900, 0.04)
    row = judged(x, y)
    expected = stats.ttest_ind(np.log(x), np.log(y), equal_var=False)
    interval = expected.confidence_interval()
    assert row["p"] == pytest.approx(expected.pvalue)
    assert row["lo_pct"] == pytest.approx(100 * math.expm1(interval.low))
    assert row["hi_pct"] == pytest.approx(100 * math.expm1(interval.high))
    assert row["verdict"] == "slower"
    assert (row["n_baseline"], row["n_arm"]) == (7, 5)


def test_paired_is_the_paired_t_interval_and_the_larger_of_two_p():
    drift = np.linspace(0, 0.5, 9)
    x, y = (lognormal(s, 9, m) * np.exp(drift) for s, m in ((3, 1000), (4, 970)))
    row, d = judged(x, y, paired=True), np.log(x / y)
    interval = stats.ttest_1samp(d, 0).confidence_interval()
    flips = stats.permutation_test(
        (d,), np.sum, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert row["lo_pct"] == pytest.approx(100 * math.expm1(interval.low))
    assert row["hi_pct"] == pytest.approx(100 * math.expm1(interval.high))
    assert row["p"] == pytest.approx(max(stats.ttest_1samp(d, 0).pvalue, flips.pvalue))
    assert wide(judged(x, y)) > 3 * wide(row)


@pytest.mark.parametrize(
    "metric", ["tps", "events_per_s", "wall", "user_sys", "p95", "mean_latency"]
)
def test_positive_always_means_worse(metric):
    worse = [8.0, 8.05, 8.1, 7.95] if metric in compare.HIGHER else [12.0, 12.05, 12.1, 11.95]
    row, back = judged(GOOD, worse, metric), judged(worse, GOOD, metric)
    assert (row["verdict"], back["verdict"]) == ("slower", "faster")
    assert row["lo_pct"] > 10
    assert math.log1p(back["hi_pct"] / 100) == pytest.approx(-math.log1p(row["lo_pct"] / 100))


def test_the_start_floor_widens_and_says_so():
    x, y = lognormal(5, 10, cv=0.005), lognormal(6, 10, 970, 0.005)
    known, unknown = judged(x, y), judged(x, y, floor=FLOOR)
    assert (known["verdict"], unknown["verdict"]) == ("slower", "cannot tell")
    assert unknown["lo_pct"] < 0 < known["lo_pct"]
    assert said(unknown, "--restarts")
    assert not said(known, "--restarts")
    # the floor alone: two starts, each with this CV, known from 9 degrees of freedom
    least = stats.t.ppf(0.975, 9) * 0.015 * math.sqrt(2)
    assert unknown["noise_floor_pct"] > 100 * math.expm1(0.98 * least)
    assert math.isnan(unknown["runs_needed"])
    assert said(unknown, "restart the server between runs")


def test_a_floor_never_narrows_an_interval():
    """Two noisy pairs of runs have one degree of freedom each: a floor of 57 must not lend its."""
    x, y = lognormal(5, 2, cv=0.05), lognormal(6, 2, 970, 0.05)
    assert wide(judged(x, y, floor={"tps": {"cv_pct": 0.7, "df": 57}})) >= wide(judged(x, y))


@pytest.mark.parametrize("metric", ["wall", "user_sys"])
def test_time_of_a_command_has_no_start_to_start_scatter(metric):
    x, y = lognormal(5, 4, 10, 0.005), lognormal(6, 4, 10.5, 0.005)
    bare, own = judged(x, y, metric), judged(x, y, metric, restarts=False)
    assert (own["lo_pct"], own["hi_pct"]) == (bare["lo_pct"], bare["hi_pct"])
    assert own["verdict"] == "slower"
    assert not said(own, "--restarts")


@pytest.mark.parametrize("metric", ["mean_latency", "p99", "events_per_s"])
def test_a_metric_without_its_own_floor_takes_that_of_its_kin(metric):
    x, y = lognormal(5, 10, 10, 0.005), lognormal(6, 10, 9.9, 0.005)
    row = judged(x, y, metric, floor=FLOOR)
    assert row["noise_floor_pct"] > 3 * judged(x, y, metric)["noise_floor_pct"]
    assert said(row, "--restarts")


def test_same_when_both_one_sided_tests_pass():
    x, y = lognormal(7, 12, cv=0.01), lognormal(8, 12, cv=0.01)
    for margin in (0.2, 0.5, 1, 2, 5):
        row, bound = judged(x, y, margin_pct=margin), math.log1p(margin / 100)
        ends = [math.log1p(row[end] / 100) for end in ("same_lo_pct", "same_hi_pct")]
        assert (row["verdict"] == "same") == (ends[0] > -bound and ends[1] < bound)
    assert row["verdict"] == "same"


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
        assert row["verdict"] == "cannot tell"
        assert row["lo_pct"] < 0 < row["hi_pct"]
    if session == "one-start":
        assert judged(*sides, paired=True)["p"] == pytest.approx(0.013, abs=0.003)


def test_thread_counts_are_one_family():
    before = several({t: lognormal(t, 6) for t in (1, 4, 16)})
    after = several({t: lognormal(50 + t, 6, m) for t, m in ((1, 970), (4, 1000), (16, 940))})
    rows = compare.rows(before, after, restarts=True)
    single = [r for r in rows if not r["joint"]]
    assert [r["threads"] for r in single] == [1, 4, 16]
    assert all((r["lo_pct"] > 0) == (r["verdict"] == "slower") for r in rows)
    assert all((r["p"] <= r["level"]) == (r["verdict"] == "slower") for r in rows)
    joint = only(rows, joint=True)
    assert joint["threads"] is None
    logs = [math.log1p(r["overhead_pct"] / 100) for r in single]
    assert math.log1p(joint["overhead_pct"] / 100) == pytest.approx(np.mean(logs))
    # within a family the start-to-start part does not average out
    floored = only(compare.rows(before, after, floor=FLOOR), joint=True)
    assert floored["noise_floor_pct"] > 100 * math.expm1(1.96 * 0.015 * math.sqrt(2))


# -- one run an arm --------------------------------------------------------------------------------


@pytest.fixture
def nobody_knows(monkeypatch):
    """No published repeats."""
    monkeypatch.setattr(scatter, "population", lambda *a: None)


@pytest.fixture
def known_scatter(monkeypatch):
    """Published repeats whose 95th percentile is 5 %."""
    found = scatter.Population(tuple(0.0005 * i for i in range(1, 106)), 7)
    monkeypatch.setattr(scatter, "population", lambda *a: found)
    return found


def test_one_run_an_arm_is_no_verdict_where_nothing_is_known_of_scatter(nobody_knows):
    row = judged([1000], [400], restarts=False)
    assert row["verdict"] == "cannot tell"
    assert math.isnan(row["lo_pct"])
    assert math.isnan(row["p"])
    assert row["deciding_cv_pct"] == pytest.approx(
        100 * math.log(2.5) / (stats.norm.ppf(0.975) * math.sqrt(2)), rel=1e-6
    )


@pytest.mark.parametrize(
    ("after", "verdict"),
    [(100, "slower"), (700, "slower"), (970, "cannot tell"), (10_000, "faster")],
)
def test_one_run_an_arm_is_held_against_published_scatter(known_scatter, after, verdict):
    row = judged([1000], [after], restarts=False)
    assert row["verdict"] == verdict
    reach = stats.t.ppf(0.975, 104) * math.sqrt(2) * known_scatter.high
    end = math.log(1000 / after) + reach
    assert math.log1p(row["hi_pct"] / 100) == pytest.approx(end, rel=1e-6)
    if verdict != "cannot tell":
        assert row["warnings"][0].startswith("unless the server scatters by more than")
        assert "of 105 published groups do" in row["warnings"][0]


def test_one_run_in_one_arm_takes_its_scatter_from_elsewhere(known_scatter):
    far, near = (judged(lognormal(3, 9), [y], restarts=False) for y in (700, 950))
    assert (far["verdict"], near["verdict"]) == ("slower", "cannot tell")
    assert said(far, "one run in one arm")


def rates(rng):
    """Rows of one run whose autocorrelation is 0.8, on the log scale."""
    noise = np.zeros(300)
    for i in range(1, 300):
        noise[i] = 0.8 * noise[i - 1] + rng.normal(0, 0.03)
    return noise


def test_rows_within_one_run_give_a_lower_bound_and_no_verdict(nobody_knows):
    rng = np.random.default_rng(9)

    def run(name, mean):
        rows = mean * np.exp(rates(rng))
        rows[:20] *= np.linspace(0.3, 1, 20)
        return Run(name, {"tps": rows[20:].mean()}, 4, {"tool": "sysbench"}, 300.0, rows)

    row = only(compare.rows([run("a", 1000)], [run("b", 500)], restarts=True), metric="tps")
    assert row["verdict"] == "cannot tell"
    assert row["lo_pct"] > 50
    assert said(row, "lower bound")
    assert sum("warm-up" in w for w in row["warnings"]) == 2


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
        (10.0, 10.0 * (1 + parse.RESOLUTION), "p95", "bucket"),
        (10.0, 100.0, "p95", "clipped"),
        (18.0, 18.0, "tps", "do not scatter at all"),
    ],
)
def test_numbers_that_the_tool_rounded_are_not_evidence(x, y, metric, words):
    row = judged([x] * 5, [y] * 5, metric)
    assert row["verdict"] == "cannot tell"
    assert words in row["warnings"][0]
    assert judged([10.0] * 5, [12.0] * 5, "p95")["verdict"] == "slower"


def test_the_plan_would_settle_it():
    x, y = lognormal(11, 4, cv=0.03), lognormal(12, 4, 960, cv=0.03)
    row = judged(x, y)
    assert row["verdict"] == "cannot tell"
    n = row["runs_needed"]
    assert n > 4
    assert row["minutes_needed"] == pytest.approx(n * 2 * 10 / 60)
    found = 0
    sd = math.sqrt((np.log(x).var(ddof=1) + np.log(y).var(ddof=1)) / 2)
    effect = math.log1p(row["overhead_pct"] / 100)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        sides = (1000 * np.exp(rng.normal(m, sd, n)) for m in (0, -effect))
        found += judged(*sides)["verdict"] != "cannot tell"
    assert 0.8 < found / 200 <= 1


def test_a_percentile_in_one_bucket_does_not_veto_the_joint_row():
    before = [r for t in (1, 4) for r in made([10.0] * 6, t, metric="p95")]
    after = made([10.0 * 1.01] * 6, 1, metric="p95") + made([14.0] * 6, 4, metric="p95")
    rows = compare.rows(before, after, restarts=True, margin_pct=0.5)
    assert [r["verdict"] for r in rows] == ["cannot tell", "slower", "slower"]


def test_opposite_effects_are_not_averaged_in_silence():
    before = several({t: lognormal(t, 8, cv=0.005) for t in (1, 64)})
    after = several({1: lognormal(5, 8, 800, 0.005), 64: lognormal(6, 8, 1250, 0.005)})
    rows = compare.rows(before, after, restarts=True)
    assert [r["verdict"] for r in rows[:2]] == ["slower", "faster"]
    assert "opposite effects" in only(rows, joint=True)["warnings"][0]


def test_cannot_tell_says_what_is_known_and_never_asks_for_fewer_runs_than_there_were():
    for n in (2, 5, 12, 40):
        row = judged(lognormal(n, n, cv=0.05), lognormal(n + 1, n, 985, 0.05))
        if row["verdict"] == "cannot tell":
            assert row["known"].startswith("at most")
            assert row["runs_needed"] > n
            assert row["lo_pct"] < 0 < row["hi_pct"]


@pytest.mark.parametrize("paired", [True, False])
def test_what_would_settle_the_joint_effect_is_told_too(paired):
    before = several({t: lognormal(t, 5, cv=0.03) for t in (1, 8)})
    after = several({t: lognormal(t + 9, 5, 985, 0.03) for t in (1, 8)})
    joint = only(compare.rows(before, after, restarts=True, paired=paired), joint=True)
    assert joint["verdict"] == "cannot tell"
    assert joint["runs_needed"] > 10


# -- what does not belong together -----------------------------------------------------------------


@pytest.mark.parametrize("values", [[1.0, 0.0, 2.0], [1.0, math.inf, 2.0], [1.0, math.nan]])
def test_a_value_without_a_logarithm_is_refused(values):
    with pytest.raises(Refused, match="above 0"):
        compare.rows(made(values), made(values))


@pytest.mark.parametrize(
    ("key", "values", "words"),
    [
        ("test", ("oltp_read_write", "oltp_read_only"), "test: oltp_read_write in 0.txt"),
        ("tables", ("5", "20"), "tables: 5 in 0.txt"),
        ("table-size", ("10", "20"), "table-size"),
        ("rate", ("none", "500"), "rate"),
        ("tool", ("sysbench", "time"), "tool"),
    ],
)
def test_refuses_other_tests(key, values, words):
    sides = [made([1, 2, 3], **{key: value}) for value in values]
    with pytest.raises(Refused, match=f"differ in {words}"):
        compare.rows(*sides)


@pytest.mark.parametrize(
    ("key", "values", "words"),
    [
        ("sysbench version", ("1.0.20", "1.1.0"), ": 1.0.20 in 0.txt and 2 more, 1.1.0"),
        ("mysql-ssl", ("off", "on"), "the logs differ in mysql-ssl: off in"),
        ("seconds", (10, 300), "differ in duration: 10 s in 0.txt and 2 more, 300 s"),
        ("rate", ("500", "500"), "fixed --rate"),
    ],
)
def test_footnotes_other_conditions(key, values, words):
    rows = compare.rows(*(made([1, 2, 3], **{key: value}) for value in values))
    assert all(said(row, words) for row in rows)


def test_threads_on_one_side_only_are_left_out_and_named():
    rows = compare.rows(several({4: [1, 2, 3], 8: [1, 2, 3]}), made([1, 2, 3], 4))
    assert {r["threads"] for r in rows} == {4}
    assert "threads 8 only in before: left out" in rows[0]["warnings"]
    with pytest.raises(Refused, match="no thread count is on both sides"):
        compare.rows(made([1, 2], 4), made([1, 2], 8))


def test_names_come_from_the_folders():
    assert compare.names(["off/1.txt", "off/2.txt"], ["on/1.txt"]) == ("off", "on")
    for before in (["x/1.txt", "y/2.txt"], ["1.txt"]):
        assert compare.names(before, ["2.txt"]) == ("before", "after")


def test_the_buckets_are_those_of_the_parser():
    """Written twice, since importing the parser would import numpy."""
    assert math.log1p(parse.RESOLUTION) == pytest.approx(judging.BUCKET, rel=1e-4)
    assert judging.CLIP_S == parse.CLIP_S
