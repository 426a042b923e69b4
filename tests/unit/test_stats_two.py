"""Two published numbers: verdicts, predictions, spreads, units, Little's law, and bad input."""

import importlib.util
import math
import re
import tomllib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from conftest import DATA, ROOT
from noisefloor import paths
from noisefloor.stats import row, runs, scatter, two
from noisefloor.text import answers, quantity

TABLES = tomllib.loads((DATA / "two.toml").read_text())
SCATTER = ROOT / "data" / "raw" / "published" / "scatter"
START = {"tps": {"cv_pct": 0.73, "df": 3}}


@pytest.fixture(autouse=True)
def starts(monkeypatch):
    """A start-to-start scatter that no campaign moves."""
    read = scatter._read
    monkeypatch.setattr(
        scatter, "_read", lambda file: START if file.name == "floor.json" else read(file)
    )


def judged(*args, **given):
    out, lines = two.judge_two(*args, **given)
    assert len(lines) <= 5
    assert lines[0].startswith(out.verdict.upper())
    if not math.isnan(out.lo_pct) and out.verdict != "same":
        assert (out.lo_pct <= 0 <= out.hi_pct) == (out.verdict == "cannot tell")
    return out, "\n".join(lines)


def logs(out):
    return [math.log1p(pct / 100) for pct in (out.change_pct, out.lo_pct, out.hi_pct)]


def script(name):
    """A script beside the published repeats, as a module."""
    spec = importlib.util.spec_from_file_location(name, SCATTER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- two single numbers ----------------------------------------------------------------------------


def test_a_tenfold_difference_has_its_word():
    out, text = judged(100, 1000)
    assert text.startswith("FASTER: 1000 TPS against 100: 10 times faster (")
    assert "differ by at least that much about one time in 3,400." in text
    assert "settle" not in text
    assert out.worse is False
    assert out.runs_needed == 1


def test_three_percent_has_not_and_says_why():
    out, text = judged(221.19, 229.41)
    assert text.splitlines()[:2] == [
        "CANNOT TELL: 229.41 TPS looks 3.7 % more than 221.19, but each was run once.",
        "Two runs of the same, unchanged server differ by at least that much about one time in five.",
    ]
    assert "The real change: at most 6.5 % slower, at most 15.0 % faster." in text
    assert out.change_pct == pytest.approx(100 * (229.41 / 221.19 - 1))
    assert 0.14 < out.chance < 0.25
    assert "noisefloor ab VARIABLE=OFF,ON --profile standard (20 minutes)" in text
    restarted = "runs of each, the server restarted before every run: noisefloor compare --restarts"
    assert f"{out.runs_needed} {restarted}" in text
    short, _ = judged(221.19, 229.41, seconds=10)
    assert short.hi_pct > 3 * out.hi_pct


def test_little_says_that_two_measurements_are_one():
    _, text = judged(221.19, 229.41, threads=4, seconds=300, latency=(18.07, 17.43))
    assert "221.4 and 229.5 TPS: TPS and average latency are one measurement, not two" in text


@pytest.mark.parametrize("metric", ["tps", "p95", "mean_latency", "wall", "cpu_per_transaction"])
@pytest.mark.parametrize(("a", "b"), [(100, 1000), (10, 12), (1.0, 1.01), (5.0, 5.0), (0.3, 0.2)])
def test_one_number_an_arm_is_judged_like_one_run_an_arm(a, b, metric):
    out, _ = judged(a, b, metric=metric, threads=4)
    sides = runs.Side((a,)), runs.Side((b,))
    (same,) = runs.judge_runs({f"{b:g}": {4: sides}}, metric=metric, baseline=f"{a:g}")
    plan = ("runs_needed", "minutes_needed")  # two numbers come with the campaign that settles it
    left, right = (replace(r, **dict.fromkeys(plan, 0)) for r in (out, same))
    assert repr(left) == repr(right)  # NaN and all
    assert (out.chance < 0.05) == (not out.lo_pct <= 0 <= out.hi_pct)


@pytest.mark.parametrize("metric", ["backup_size", "peak_memory"])
def test_nothing_is_said_where_nothing_is_known_of_scatter(metric):
    out, text = judged(4, 5, metric=metric)
    assert math.isnan(out.lo_pct)
    assert (
        text
        == "CANNOT TELL: 5 looks 25.0 % more than 4, but how much such runs scatter is not known."
    )


@pytest.mark.parametrize(("cv", "k"), [(1.13, 10), (1.15, 10), (0.92, 5), (0.94, 5)])
def test_a_floor_is_believed_with_its_degrees_of_freedom(cv, k):
    out, _ = judged(221.19, 229.41, floor_cv_pct=cv, floor_runs=k, margin_pct=0.1)
    error = cv / 100 * math.sqrt(2)
    value, lo, _ = logs(out)
    assert out.chance == pytest.approx(2 * scipy_stats.t.sf(value / error, k - 1))
    assert value - lo == pytest.approx(scipy_stats.t.ppf(0.975, k - 1) * error)
    assert out.verdict == ("faster" if out.chance < 0.05 else "cannot tell")


@pytest.mark.parametrize("case", TABLES["verdicts"])
def test_verdicts(case):
    out, _ = judged(case["a"], case["b"], **case.get("given", {}))
    assert out.verdict == case["verdict"]


@pytest.mark.parametrize(
    ("metric", "margin"), [("tps", 2), ("cpu_per_transaction", 1), ("p99", 10), ("wall", 2)]
)
def test_a_metric_has_its_own_margin(metric, margin):
    assert judged(1, 2, metric=metric)[0].margin_pct == margin
    assert judged(1, 2, metric=metric, margin_pct=3)[0].margin_pct == 3


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.9, "more often than not"),
        (0.5, "about one time in two"),
        (0.198, "about one time in five"),
        (0.0712, "about one time in 14"),
        (1 / 3412, "about one time in 3,400"),
        (1e-5, "less than one time in 10,000"),
    ],
)
def test_a_share_in_words(share, words):
    assert answers.often(share) == words


# -- the prediction --------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["tps", "p99", "cpu_per_transaction", "wall", "value"])
@pytest.mark.parametrize("seconds", [None, 5, 300])
def test_chance_and_half_width_are_one_table(metric, seconds):
    known = scatter.prediction(metric, seconds)
    for share in (0.97, 0.5, 0.198, 0.05, 0.0123, 0.0004):
        assert known.chance(known.half(share)) == pytest.approx(share)
        assert known.chance(-known.half(share)) == pytest.approx(share)
    assert known.chance(0) == 1
    mean = scatter.prediction(metric, seconds, (4, 4))
    assert mean.half(0.05) == pytest.approx(known.half(0.05) / 2)


def test_the_table_is_what_its_script_fits():
    fit = script("fit")
    groups = pd.read_csv(SCATTER / "groups.csv")
    groups = groups[(groups["metric"] == "tps") & (groups["seconds"] >= fit.LONG_S)]
    groups = groups[~groups["source"].isin(fit.EXPERIMENTAL)]
    by = {source: fit.likelihood(g) for source, g in groups.groupby("source")}
    ratios = fit.log_ratios(fit.predicted(fit.posterior(list(by.values()))))
    known = scatter.fits()["fits"]["tps"]["long"]
    assert (known["sources"], known["groups"]) == (len(by), len(groups))
    np.testing.assert_allclose(ratios, known["log_ratios"], rtol=1e-3)
    assert scatter.fits()["shares"] == fit.SHARES


def test_a_fit_to_few_sources_is_wider_than_its_middle():
    """Two runs of a server with the median CV, and the same with what is not known of it."""
    known = scatter.fits()["fits"]["tps"]["long"]
    alone = scipy_stats.norm.isf(0.025) * math.sqrt(2) * known["median_cv_pct"] / 100
    assert scatter.prediction("tps").half(0.05) > 2 * alone


def test_the_source_that_breaks_it_is_named():
    checked = scatter.fits()["fits"]["tps"]["long"]["left_out"]
    broken = [c["source"] for c in checked if c["inside_pct"] < 90]
    assert broken == ["tidesdb/tidesdb.github.io"]
    assert {c["source"] for c in checked if c["experimental"]} == set(broken)


def test_the_script_of_the_published_repeats_reads_our_campaigns(tmp_path, monkeypatch):
    build, name = script("build"), "binlog-encryption-headline-standard-20261125-132426"
    (tmp_path / name).symlink_to(paths.campaign(name), target_is_directory=True)
    monkeypatch.setattr(build, "RECORDED", tmp_path)
    runs = build.campaigns()
    assert set(runs["source"]) == {name}
    assert {"tps", "cpu_per_transaction"} <= set(runs["metric"])
    assert runs["seconds"].gt(0).all()


# -- means with their scatter ----------------------------------------------------------------------


def sample(mean, cv, n):
    """n logs with exactly this mean and standard deviation."""
    z = scipy_stats.zscore(np.arange(n, dtype=float), ddof=1)
    return math.log(mean) + cv * z


def test_an_sd_is_believed():
    out, text = judged(100, 90, sd=(2, 3), n="6,4", restarts=True)
    expected = scipy_stats.ttest_ind(
        sample(90, 3 / 90, 4), sample(100, 2 / 100, 6), equal_var=False
    ).confidence_interval()
    assert logs(out)[1:] == pytest.approx([expected.low, expected.high])
    assert (out.n_baseline, out.n_arm) == (6, 4)
    assert "±" not in text
    assert text.startswith("SLOWER: 90 TPS against 100: ")
    assert ", 4 and 6 runs." in text
    error, _ = judged(100, 90, se=(2 / math.sqrt(6), 3 / 2), n="6,4", restarts=True)
    assert error.lo_pct == pytest.approx(out.lo_pct)  # is not divided again


def test_runs_that_may_share_a_start_have_two_answers():
    out, text = judged(980, 1010, sd=(12, 15), n="30")
    apart, _ = judged(980, 1010, sd=(12, 15), n="30", restarts=True)
    assert (out.verdict, out.restarted, apart.verdict) == (
        "cannot tell",
        "faster",
        "faster",
    )
    ends = out.restarted_lo_pct, out.restarted_hi_pct
    assert ends == pytest.approx((apart.lo_pct, apart.hi_pct))
    assert apart.restarted == ""
    assert text.splitlines()[0].startswith("CANNOT TELL if an arm's runs share one server start: ")
    assert (
        "FASTER, +3.1 % (+2.3 to +3.8 %), if the server was restarted between them (--restarts), or"
        in text
    )
    assert "the server restarted before every run: noisefloor compare --restarts" in text


def test_the_scatter_of_starts_that_is_named_is_the_one_that_decides():
    *_, text = judged(980, 1010, sd=(12, 15), n="30")
    limit = float(re.search(r"starts scatter by less than ([0-9.]+) %", text)[1])
    given = {"sd": (12, 15), "n": "30", "floor_runs": 10**7}
    assert judged(980, 1010, floor_cv_pct=limit * 0.95, **given)[0].verdict == "faster"
    assert judged(980, 1010, floor_cv_pct=limit * 1.05, **given)[0].verdict == "cannot tell"


def test_start_to_start_scatter_is_added_unless_the_server_was_restarted():
    without, _ = judged(100, 97, sd=(1, 1), n="4", restarts=True)
    added, _ = judged(100, 97, sd=(1, 1), n="4")
    given, _ = judged(100, 97, sd=(1, 1), n="4", floor_cv_pct=0.73, floor_runs=4)
    assert added.lo_pct < without.lo_pct
    assert given.lo_pct == pytest.approx(added.lo_pct)
    time, _ = judged(100, 97, sd=(1, 1), n="4", metric="wall")
    assert time.lo_pct == pytest.approx(without.lo_pct)  # a command has no server start


def test_runs_that_would_settle_it_have_the_scatter_of_starts_too():
    out, _ = judged(100, 101, sd=(1, 1), n="5")
    apart, _ = judged(100, 101, sd=(1, 1), n="5", restarts=True)
    assert (out.verdict, out.restarted, apart.verdict) == ("cannot tell", "", "cannot tell")
    assert out.runs_needed > 1.5 * apart.runs_needed


def test_an_unexplained_plus_minus_is_tried_in_all_its_meanings():
    out, text = judged(100, 95, pm=(3, 3), n="6", restarts=True)
    assert (
        "± is taken for a standard error, its widest reading: `slower` if it is a standard "
        "deviation, `cannot tell` if it is a standard error, `slower` if it is a 95 % interval"
        in text
    )
    same, text = judged(100, 80, pm=(2, 2), n="6")
    assert "The verdict is the same whether ± is" in text
    for narrower in ("sd", "se"):
        other, _ = judged(100, 80, **{narrower: (2, 2)}, n="6")
        assert other.verdict == same.verdict == "slower"
        assert other.lo_pct >= same.lo_pct
    assert out.verdict == "cannot tell"


def test_repetitions_without_their_spread_are_not_one_run():
    out, text = judged(100, 95, n="5")
    one, _ = judged(100, 95)
    half = scatter.prediction("tps").half(0.05) / math.sqrt(5)
    start = scipy_stats.t.ppf(0.975, 3) * 0.0073 * math.sqrt(2)
    value, lo, _ = logs(out)
    assert value - lo == pytest.approx(math.hypot(half, start))
    assert lo > logs(one)[1]
    assert math.log1p(out.restarted_lo_pct / 100) == pytest.approx(value - half)
    assert math.isnan(out.chance)
    assert "once" not in text


def test_a_percentile_is_no_better_known_than_its_bucket():
    out, _ = judged(10, 10.1, metric="p95", sd=(1e-6, 1e-6), n="9", restarts=True)
    value, lo, hi = logs(out)
    assert hi - value == pytest.approx(runs.BUCKET / 2)
    assert value - lo == pytest.approx(runs.BUCKET / 2)


# -- what was given --------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "value", "kind"), TABLES["numbers"])
def test_numbers_as_people_write_them(given, value, kind):
    found = quantity.read(given, "value")
    assert found[0] == pytest.approx(value)
    assert found[2] == kind


def test_a_time_without_a_metric_is_a_latency_and_less_is_better():
    out, text = judged("17.43ms", "0.0251 s")
    assert (out.metric, out.verdict, out.worse) == ("mean_latency", "slower", True)
    assert out.change_pct == pytest.approx(44.0, abs=0.1)
    assert "0.0251 s against 17.43ms" in text
    spread, _ = judged("17.43ms", "18.07ms", sd=("0.1", "100us"), n="5")
    plain, _ = judged(17.43, 18.07, sd=(0.1, 0.1), n="5", metric="mean_latency")
    assert spread.lo_pct == pytest.approx(plain.lo_pct)
    assert judged("221 tps", 229)[0].metric == "tps"


def test_a_spread_without_a_unit_is_in_that_of_its_own_number():
    mixed, _ = judged("800ms", "1s", sd=(5, 0.3), n="5")
    plain, _ = judged(800, 1000, sd=(5, 300), n="5", metric="mean_latency")
    assert logs(mixed) == pytest.approx(logs(plain))
    assert mixed.verdict == plain.verdict == "cannot tell"
    rate, _ = judged("980 tps", "1010 tps", sd=("12", "15 tps"), n="5")
    assert rate.lo_pct == pytest.approx(judged(980, 1010, sd=(12, 15), n="5")[0].lo_pct)


@pytest.mark.parametrize("metric", ["value", "tps"])
def test_the_sign_is_the_metrics_own_and_the_word_says_what_is_worse(metric):
    up, _ = judged(4, 6, metric=metric)
    back, _ = judged(4, 6, metric=metric, better="lower")
    assert up.change_pct == back.change_pct == pytest.approx(50)
    assert (up.verdict, up.worse) == ("faster", False)
    assert (back.verdict, back.worse, back.metric) == ("slower", True, metric)


def test_max_latency_is_refused_as_evidence():
    out, text = judged(316.57, 274.03, metric="max_latency")
    assert math.isnan(out.runs_needed)
    assert math.isnan(out.lo_pct)
    assert "never judged" in out.warnings[0]
    assert "settle" not in text


def test_latency_that_contradicts_tps_is_reported():
    out, text = judged(221.19, 229.41, threads=8, latency=(18.07, "17.43ms"))
    assert any("inconsistent" in w and "+100 %" in w for w in out.warnings)
    assert "inconsistent" in text


@pytest.mark.parametrize(("given", "says"), TABLES["bad"])
def test_bad_input_is_one_sentence(given, says):
    with pytest.raises(ValueError, match=re.escape(says)) as error:
        two.judge_two(**{"a": 100, "b": 101, **given})
    assert "\n" not in str(error.value)


def test_a_comparison_never_changes_and_has_no_column_that_is_not_known():
    """A row was a dict once, to which any module added what it liked."""
    out, _ = judged(100, 110)
    for name in ("verdict", "does"):
        with pytest.raises((AttributeError, TypeError)):  # the latter of a name without a slot
            setattr(out, name, "same")
    with pytest.raises(TypeError, match="does"):
        replace(out, does="it")
    with pytest.raises(AttributeError):
        out.warnings.append("a note")
    assert list(row.as_dict(out)) == row.COLUMNS
    again = row.from_frame(row.as_dict(out) | {"date": "today"})
    assert repr(again) == repr(out)  # NaN and all
    with pytest.raises(KeyError, match="study"):
        row.from_frame({"metric": "tps"})
