import csv
import math
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from noisefloor import compare, parse
from noisefloor.compare import Refused, Run
from noisefloor.stats import runs as judging
from noisefloor.stats import scatter
from noisefloor.stats.within import within

DATA = Path(__file__).parent / "data"
SLICES = sorted((DATA / "compare").glob("00-*.txt"))
BEFORE = [p for p in SLICES if p.stem.endswith("A")]
AFTER = [p for p in SLICES if p.stem.endswith("B")]
FLOOR = {"tps": {"cv_pct": 1.5, "df": 9}, "p99": {"cv_pct": 0.0, "df": None}}


def made(values, threads=4, seconds=10.0, metric="tps", **keys):
    return [
        Run(f"{i}.txt", {metric: float(v)}, threads, {"tool": "sysbench", **keys}, seconds)
        for i, v in enumerate(values)
    ]


def lognormal(seed, n, mean=1000.0, cv=0.02):
    return mean * np.exp(np.random.default_rng(seed).normal(0, cv, n))


def session(name):
    with open(DATA / "compare" / f"{name}.csv") as file:
        table = sorted(csv.DictReader(file), key=lambda r: (int(r["pair"]), int(r["block"])))
    return [
        made(
            [int(r["transactions"]) / float(r["seconds"]) for r in table if r["arm"] == arm],
        )
        for arm in "AB"
    ]


def only(rows, **where):
    kept = [r for r in rows if all(r[k] == v for k, v in where.items())]
    assert len(kept) == 1, kept
    return kept[0]


# reading


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
    assert [r.values for r in found] == [
        {"wall": 61.5, "user_sys": 4.0},
        {"wall": 62.0, "user_sys": 4.0},
    ]


def bad(folder, name):
    path = folder / "bad.txt"
    if name == "missing":
        return folder / "nowhere.txt"
    if name == "empty folder":
        (folder / "empty").mkdir()
        return folder / "empty"
    if name == "cut":
        path.write_bytes(BEFORE[0].read_bytes()[:9000])
    elif name == "cut in the rows":
        path.write_bytes(BEFORE[0].read_bytes()[:700])
    elif name == "binary":
        path.write_bytes(bytes(range(256)) * 64)
    elif name == "empty":
        path.write_text(" \n")
    elif name == "prose":
        path.write_text("It was about 10 % slower.\n")
    elif name == "huge":
        with open(path, "wb") as file:
            os.truncate(file.fileno(), 2 * 2**30)
    return path


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("missing", 1, "cannot be read (No such file or directory)"),
        ("empty folder", 2, "holds no file"),
        ("cut", 1, "line "),
        ("cut in the rows", 1, "line "),
        ("binary", 1, "binary data"),
        ("empty", 1, "but nothing"),
        ("prose", 1, "text of something else"),
        ("huge", 2, "larger than 64 MiB"),
    ],
)
def test_refuses_a_bad_file_in_one_sentence(tmp_path, name, code, words):
    with pytest.raises(Refused) as e:
        compare.runs([bad(tmp_path, name)], "before")
    assert e.value.code == code
    assert words in str(e.value)
    assert "nothing was judged" in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_refuses_an_unreadable_folder(tmp_path):
    tmp_path.chmod(0)
    with pytest.raises(Refused, match="cannot be read") as e:
        compare.runs([tmp_path], "before")
    tmp_path.chmod(0o700)
    assert e.value.code == 1


@pytest.mark.parametrize(
    "log", sorted((DATA / "sysbench").glob("*-fail-*.txt")), ids=lambda p: p.stem
)
def test_a_failed_run_is_never_averaged_in(log):
    with pytest.raises(Refused) as e:
        compare.runs([BEFORE[0], log], "before")
    assert e.value.code == 1


def test_a_failed_command_under_time_is_refused():
    with pytest.raises(Refused, match="ended with 1, a failed run"):
        compare.runs([DATA / "time" / "gnu-time-v-fail.txt"], "before")


def test_one_text_cannot_count_twice(tmp_path):
    (tmp_path / "copy.txt").write_bytes(BEFORE[0].read_bytes())
    with pytest.raises(Refused, match="one run cannot count twice"):
        compare.runs([BEFORE[0], tmp_path / "copy.txt"], "before")


def test_no_file_at_all():
    with pytest.raises(Refused, match="no file for after"):
        compare.runs([], "after")


# arithmetic


def test_unpaired_is_welch_on_logs():
    x, y = lognormal(1, 7), lognormal(2, 5, 900, 0.04)
    row = only(compare.rows(made(x), made(y), restarts=True), metric="tps")
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
    row = only(compare.rows(made(x), made(y), paired=True, restarts=True), metric="tps")
    d = np.log(x / y)
    interval = stats.ttest_1samp(d, 0).confidence_interval()
    flips = stats.permutation_test(
        (d,), np.sum, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert row["lo_pct"] == pytest.approx(100 * math.expm1(interval.low))
    assert row["hi_pct"] == pytest.approx(100 * math.expm1(interval.high))
    assert row["p"] == pytest.approx(max(stats.ttest_1samp(d, 0).pvalue, flips.pvalue))
    unpaired = only(compare.rows(made(x), made(y), restarts=True), metric="tps")
    assert unpaired["hi_pct"] - unpaired["lo_pct"] > 3 * (row["hi_pct"] - row["lo_pct"])


@pytest.mark.parametrize(
    "metric", ["tps", "events_per_s", "wall", "user_sys", "p95", "mean_latency"]
)
def test_positive_always_means_worse(metric):
    worse = [8.0, 8.05, 8.1, 7.95] if metric in compare.HIGHER else [12.0, 12.05, 12.1, 11.95]
    good = made([10.0, 10.05, 10.1, 9.95], metric=metric)
    row = only(compare.rows(good, made(worse, metric=metric), restarts=True), metric=metric)
    assert row["verdict"] == "slower"
    assert row["lo_pct"] > 10
    back = only(compare.rows(made(worse, metric=metric), good, restarts=True), metric=metric)
    assert back["verdict"] == "faster"
    assert math.log1p(back["hi_pct"] / 100) == pytest.approx(-math.log1p(row["lo_pct"] / 100))


def test_the_start_floor_widens_and_says_so():
    x, y = lognormal(5, 10, cv=0.005), lognormal(6, 10, 970, 0.005)
    known = only(compare.rows(made(x), made(y), restarts=True), metric="tps")
    unknown = only(compare.rows(made(x), made(y), floor=FLOOR), metric="tps")
    assert known["verdict"] == "slower"
    assert unknown["verdict"] == "cannot tell"
    assert unknown["lo_pct"] < 0 < known["lo_pct"]
    assert any("--restarts" in w for w in unknown["warnings"])
    assert not any("--restarts" in w for w in known["warnings"])
    # the floor alone: two starts, each with this CV, known from 9 degrees of freedom
    least = stats.t.ppf(0.975, 9) * 0.015 * math.sqrt(2)
    assert unknown["noise_floor_pct"] > 100 * math.expm1(0.98 * least)
    assert math.isnan(unknown["runs_needed"])
    assert any("restart the server between runs" in w for w in unknown["warnings"])


def test_a_floor_never_narrows_an_interval():
    """Two noisy pairs of runs have one degree of freedom each: a floor of 57 must not lend them its."""
    x, y = lognormal(5, 2, cv=0.05), lognormal(6, 2, 970, 0.05)
    bare = only(compare.rows(made(x), made(y), restarts=True), metric="tps")
    known = {"tps": {"cv_pct": 0.7, "df": 57}}
    wide = only(compare.rows(made(x), made(y), floor=known), metric="tps")
    assert wide["hi_pct"] - wide["lo_pct"] >= bare["hi_pct"] - bare["lo_pct"]


def test_time_of_a_command_has_no_start_to_start_scatter():
    x, y = lognormal(5, 4, 10, 0.005), lognormal(6, 4, 10.5, 0.005)
    for metric in ("wall", "user_sys"):
        bare, own = (
            only(compare.rows(made(x, metric=metric), made(y, metric=metric), **how), metric=metric)
            for how in ({"restarts": True}, {})
        )
        assert (own["lo_pct"], own["hi_pct"]) == (bare["lo_pct"], bare["hi_pct"])
        assert own["verdict"] == "slower"
        assert not any("--restarts" in w for w in own["warnings"])


@pytest.mark.parametrize("metric", ["mean_latency", "p99", "events_per_s"])
def test_a_metric_without_its_own_floor_takes_that_of_its_kin(metric):
    x, y = lognormal(5, 10, 10, 0.005), lognormal(6, 10, 9.9, 0.005)
    narrow, wide = (
        only(compare.rows(made(x, metric=metric), made(y, metric=metric), **how), metric=metric)
        for how in ({"restarts": True}, {"floor": FLOOR})
    )
    assert wide["noise_floor_pct"] > 3 * narrow["noise_floor_pct"]
    assert any("--restarts" in w for w in wide["warnings"])


def test_same_when_both_one_sided_tests_pass():
    x, y = lognormal(7, 12, cv=0.01), lognormal(8, 12, cv=0.01)
    for margin in (0.2, 0.5, 1, 2, 5):
        row = only(compare.rows(made(x), made(y), restarts=True, margin_pct=margin), metric="tps")
        bound = math.log1p(margin / 100)
        inside = (
            math.log1p(row["same_lo_pct"] / 100) > -bound
            and math.log1p(row["same_hi_pct"] / 100) < bound
        )
        assert (row["verdict"] == "same") == inside
    assert row["verdict"] == "same"


def test_two_identical_servers_are_not_called_different():
    """Real A/A sessions; a paired t-test on the first one says p = 0.013."""
    for name in ("one-start", "blocks"):
        a, b = session(name)
        for paired in (True, False):
            row = only(compare.rows(a, b, paired=paired), metric="tps")
            assert row["verdict"] == "cannot tell"
            assert row["lo_pct"] < 0 < row["hi_pct"]
    a, b = session("one-start")
    naive = only(compare.rows(a, b, paired=True, restarts=True), metric="tps")
    assert naive["p"] == pytest.approx(0.013, abs=0.003)


def test_thread_counts_are_one_family():
    before = [r for t in (1, 4, 16) for r in made(lognormal(t, 6), t)]
    after = [
        r for t, m in ((1, 970), (4, 1000), (16, 940)) for r in made(lognormal(50 + t, 6, m), t)
    ]
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
    wide = only(compare.rows(before, after, floor=FLOOR), joint=True)
    assert wide["noise_floor_pct"] > 100 * math.expm1(1.96 * 0.015 * math.sqrt(2))


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
    row = only(compare.rows(made([1000]), made([400])), metric="tps")
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
    row = only(compare.rows(made([1000]), made([after])), metric="tps")
    assert row["verdict"] == verdict
    reach = stats.t.ppf(0.975, 104) * math.sqrt(2) * known_scatter.high
    assert math.log1p(row["hi_pct"] / 100) == pytest.approx(
        math.log(1000 / after) + reach, rel=1e-6
    )
    if verdict != "cannot tell":
        assert row["warnings"][0].startswith("unless the server scatters by more than")
        assert "of 105 published groups do" in row["warnings"][0]


def test_one_run_in_one_arm_takes_its_scatter_from_elsewhere(known_scatter):
    many = only(compare.rows(made(lognormal(3, 9)), made([700])), metric="tps")
    assert many["verdict"] == "slower"
    assert any("one run in one arm" in w for w in many["warnings"])
    near = only(compare.rows(made(lognormal(3, 9)), made([950])), metric="tps")
    assert near["verdict"] == "cannot tell"


def test_rows_within_one_run_give_a_lower_bound_and_no_verdict(nobody_knows):
    rng = np.random.default_rng(9)

    def run(name, mean):
        noise = np.zeros(300)
        for i in range(1, 300):
            noise[i] = 0.8 * noise[i - 1] + rng.normal(0, 0.03)
        rows = mean * np.exp(noise)
        rows[:20] *= np.linspace(0.3, 1, 20)
        return Run(name, {"tps": rows[20:].mean()}, 4, {"tool": "sysbench"}, 300.0, rows)

    row = only(compare.rows([run("a", 1000)], [run("b", 500)], restarts=True), metric="tps")
    assert row["verdict"] == "cannot tell"
    assert row["lo_pct"] > 50
    assert any("lower bound" in w for w in row["warnings"])
    assert sum("warm-up" in w for w in row["warnings"]) == 2


def test_rows_of_one_run_are_not_replicates():
    """Nominal 5 % on rows with autocorrelation 0.8: the interval must not be that of 300 runs."""
    rng = np.random.default_rng(10)
    missed = 0
    for _ in range(400):
        noise = np.zeros(300)
        for i in range(1, 300):
            noise[i] = 0.8 * noise[i - 1] + rng.normal(0, 0.03)
        rows = 1000 * np.exp(noise)
        error, df, _ = within(rows)
        missed += abs(math.log(rows.mean() / 1000)) > stats.t.ppf(0.975, df) * error
    assert missed / 400 < 0.13  # the naive interval misses in about half of them


@pytest.mark.parametrize("rates", [[1.0] * 10, [0.0] * 100, [5.0] * 99 + [0.0]])
def test_too_few_or_stalled_rows_give_no_interval(rates):
    assert within(rates) is None


def test_percentiles_of_neighbouring_buckets_are_not_told_apart():
    low, high = 10.0, 10.0 * (1 + parse.RESOLUTION)
    x, y = made([low] * 6, metric="p95"), made([high] * 6, metric="p95")
    row = only(compare.rows(x, y, restarts=True), metric="p95")
    assert row["verdict"] == "cannot tell"
    assert "bucket" in row["warnings"][0]
    far = made([1.2 * low] * 6, metric="p95")
    assert only(compare.rows(x, far, restarts=True), metric="p95")["verdict"] == "slower"
    clipped = made([100.0] * 6, metric="p95")
    row = only(compare.rows(x, clipped, restarts=True), metric="p95")
    assert row["verdict"] == "cannot tell"
    assert "clipped" in row["warnings"][0]


def test_numbers_without_any_scatter_are_not_evidence():
    row = only(compare.rows(made([18.0] * 5), made([18.0] * 5), restarts=True), metric="tps")
    assert row["verdict"] == "cannot tell"
    assert "do not scatter at all" in row["warnings"][0]


def test_the_plan_would_settle_it():
    x, y = lognormal(11, 4, cv=0.03), lognormal(12, 4, 960, cv=0.03)
    row = only(compare.rows(made(x), made(y), restarts=True), metric="tps")
    assert row["verdict"] == "cannot tell"
    n = row["runs_needed"]
    assert n > 4
    assert row["minutes_needed"] == pytest.approx(n * 2 * 10 / 60)
    found = 0
    sd = math.sqrt((np.log(x).var(ddof=1) + np.log(y).var(ddof=1)) / 2)
    effect = math.log1p(row["overhead_pct"] / 100)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        a, b = (1000 * np.exp(rng.normal(m, sd, n)) for m in (0, -effect))
        found += (
            only(compare.rows(made(a), made(b), restarts=True), metric="tps")["verdict"]
            != "cannot tell"
        )
    assert 0.8 < found / 200 <= 1


def test_a_percentile_in_one_bucket_does_not_veto_the_joint_row():
    before = [r for t in (1, 4) for r in made([10.0] * 6, t, metric="p95")]
    after = made([10.0 * 1.01] * 6, 1, metric="p95") + made([14.0] * 6, 4, metric="p95")
    rows = compare.rows(before, after, restarts=True, margin_pct=0.5)
    assert only(rows, threads=1)["verdict"] == "cannot tell"
    assert only(rows, threads=4)["verdict"] == "slower"
    assert only(rows, joint=True)["verdict"] == "slower"


def test_opposite_effects_are_not_averaged_in_silence():
    before = [r for t in (1, 64) for r in made(lognormal(t, 8, cv=0.005), t)]
    after = made(lognormal(5, 8, 800, 0.005), 1) + made(lognormal(6, 8, 1250, 0.005), 64)
    rows = compare.rows(before, after, restarts=True)
    assert [r["verdict"] for r in rows] == ["slower", "faster", only(rows, joint=True)["verdict"]]
    assert "opposite effects" in only(rows, joint=True)["warnings"][0]


def test_cannot_tell_says_what_is_known_and_never_asks_for_fewer_runs_than_there_were():
    for n in (2, 5, 12, 40):
        x, y = lognormal(n, n, cv=0.05), lognormal(n + 1, n, 985, 0.05)
        row = only(compare.rows(made(x), made(y), restarts=True), metric="tps")
        if row["verdict"] == "cannot tell":
            assert row["known"].startswith("at most")
            assert row["runs_needed"] > n
            assert row["lo_pct"] < 0 < row["hi_pct"]


@pytest.mark.parametrize(
    ("values", "words"),
    [([1.0, 0.0, 2.0], "above 0"), ([1.0, math.inf, 2.0], "above 0"), ([1.0, math.nan], "above 0")],
)
def test_a_value_without_a_logarithm_is_refused_or_left_out(values, words):
    with pytest.raises(Refused, match=words):
        compare.rows(made(values), made(values))


# what does not belong together


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"test": "oltp_read_write"}, {"test": "oltp_read_only"}, "differ in test: oltp_read_write in 0.txt"),
        ({"tables": "5"}, {"tables": "20"}, "differ in tables: 5 in 0.txt"),
        ({"table-size": "10"}, {"table-size": "20"}, "differ in table-size"),
        ({"rate": "none"}, {"rate": "500"}, "differ in rate"),
    ],
)  # fmt: skip
def test_refuses_other_tests(before, after, words):
    with pytest.raises(Refused, match=words):
        compare.rows(made([1, 2, 3], **before), made([1, 2, 3], **after))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"sysbench version": "1.0.20"}, {"sysbench version": "1.1.0"}, "differ in sysbench version: 1.0.20 in 0.txt and 2 more, 1.1.0"),
        ({"mysql-ssl": "off"}, {"mysql-ssl": "on"}, "differ in mysql-ssl: off in"),
        ({"seconds": 10}, {"seconds": 300}, "differ in duration: 10 s in 0.txt and 2 more, 300 s"),
        ({"rate": "500"}, {"rate": "500"}, "fixed --rate"),
    ],
)  # fmt: skip
def test_footnotes_other_conditions(before, after, words):
    rows = compare.rows(made([1, 2, 3], **before), made([1, 2, 3], **after))
    assert all(any(words in w for w in row["warnings"]) for row in rows)


def test_threads_on_one_side_only_are_left_out_and_named():
    rows = compare.rows(made([1, 2, 3], 4) + made([1, 2, 3], 8), made([1, 2, 3], 4))
    assert {r["threads"] for r in rows} == {4}
    assert "threads 8 only in before: left out" in rows[0]["warnings"]
    with pytest.raises(Refused, match="no thread count is on both sides"):
        compare.rows(made([1, 2], 4), made([1, 2], 8))


def test_pairs_need_two_sides_of_equal_length():
    with pytest.raises(Refused, match="there are 3 and 2 at 4 threads"):
        compare.rows(made([1, 2, 3]), made([1, 2]), paired=True)


def test_sysbench_and_time_do_not_mix():
    time = compare.runs([DATA / "time" / "gnu-time-v.txt"], "after")
    with pytest.raises(Refused, match="differ in tool"):
        compare.rows(compare.runs(BEFORE[:1], "before"), time)


def test_names_come_from_the_folders():
    assert compare.names(["off/1.txt", "off/2.txt"], ["on/1.txt"]) == ("off", "on")
    assert compare.names(["x/1.txt", "y/2.txt"], ["on/1.txt"]) == ("before", "after")
    assert compare.names(["1.txt"], ["2.txt"]) == ("before", "after")


@pytest.mark.parametrize("paired", [True, False])
def test_what_would_settle_the_joint_effect_is_told_too(paired):
    before = [r for t in (1, 8) for r in made(lognormal(t, 5, cv=0.03), t)]
    after = [r for t in (1, 8) for r in made(lognormal(t + 9, 5, 985, 0.03), t)]
    joint = only(compare.rows(before, after, restarts=True, paired=paired), joint=True)
    assert joint["verdict"] == "cannot tell"
    assert joint["runs_needed"] > 10


def test_the_buckets_are_those_of_the_parser():
    """Written twice, since importing the parser would import numpy."""
    assert math.log1p(parse.RESOLUTION) == pytest.approx(judging.BUCKET, rel=1e-4)
    assert judging.CLIP_S == parse.CLIP_S
