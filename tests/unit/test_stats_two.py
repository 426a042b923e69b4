"""Two published numbers: verdicts, populations, spreads, units, Little's law, and bad input."""

import math
import re
import tomllib

import pytest
from scipy import stats as scipy_stats

from conftest import DATA
from noisefloor.stats import estimate, row, runs, scatter, two

TABLES = tomllib.loads((DATA / "two.toml").read_text())
EXAMPLE = {"threads": 4, "seconds": 300}
CVS = [0.5 + 0.1 * k for k in range(41)]  # 95th percentile 4.3 %
START = {"tps": {"cv_pct": 0.73, "df": 3}}


@pytest.fixture(autouse=True)
def known(tmp_path, monkeypatch):
    """A reference population of 41 groups and a start-to-start scatter that no campaign moves."""
    return known_are(CVS, tmp_path, monkeypatch)


def known_are(cvs, folder, monkeypatch):
    file = folder / "scatter" / "groups.csv"
    file.parent.mkdir(exist_ok=True)
    lines = [f"s{k % 3},{m},4,,5,{cv}" for m in ("tps", "p95") for k, cv in enumerate(cvs)]
    file.write_text("\n".join(["source,metric,threads,seconds,n,cv_pct", *lines]))
    scatter._groups.cache_clear()
    monkeypatch.setattr(scatter.paths, "published", lambda: folder)
    monkeypatch.setattr(scatter, "_read", lambda file: START)


def judged(*args, **given):
    out, lines = two.judge(*args, **given)
    assert list(out) == row.COLUMNS
    if not math.isnan(out["lo_pct"]) and out["verdict"] != "same":
        decided = out["verdict"] != "cannot tell" or runs.BUCKETS in out["warnings"]
        assert (out["lo_pct"] <= 0 <= out["hi_pct"]) != decided
    return out, " ".join(lines)


def test_a_tenfold_difference_has_its_word():
    out, text = judged(100, 1000)
    assert text.startswith("faster: 100 against 1000: 10 times faster (")
    assert (
        "Unless the server scatters by more than 83.1 % from run to run, which 0 of 41 published "
        "groups do." in text
    )
    assert "Significant only" not in text
    assert "settle" not in text
    assert out["runs_needed"] == 1


def test_three_percent_has_not_and_says_what_is_known():
    out, text = judged(221.19, 229.41, latency=(18.07, 17.43), **EXAMPLE)
    assert text.startswith("cannot tell: 221.19 against 229.41: -3.6 % overhead (-14.7 to +9.0 %),")
    assert out["known"].replace("\u202f", " ") == "at most 9.0 % slower, at most 14.7 % faster"
    assert "Known: at most 9.0 % slower, at most 14.7 % faster. " in text
    assert (
        "Significant only if run-to-run CV is below 1.28 % (CV known from 45 A/A pairs), 1.14 % "
        "(10 A/A runs) or 0.93 % (5 A/A runs)." in text
    )
    assert "221.4 and 229.5 TPS: TPS and average latency are one measurement, not two" in text
    assert "4.3 % (95th percentile of 41 published groups of repeats, 2 to 16 threads; " in text
    assert f"about {out['runs_needed']} coin-flipped pairs of 10 s slices" in text
    assert 6 <= out["runs_needed"] <= 20
    assert out["minutes_needed"] == pytest.approx(out["runs_needed"] * 22 / 60)


@pytest.mark.parametrize("cvs", [CVS, []])
@pytest.mark.parametrize("metric", ["tps", "p95", "mean_latency", "wall", "cpu_per_transaction"])
@pytest.mark.parametrize(("a", "b"), [(100, 1000), (10, 12), (1.0, 1.01), (5.0, 5.0), (0.3, 0.2)])
def test_one_number_an_arm_is_judged_like_one_run_an_arm(a, b, metric, cvs, tmp_path, monkeypatch):
    known_are(cvs, tmp_path, monkeypatch)
    out, text = judged(a, b, metric=metric, threads=4)
    sides = runs.Side((a,)), runs.Side((b,))
    (same,) = runs.judge({f"{b:g}": {4: sides}}, metric=metric, baseline=f"{a:g}")
    plan = ("runs_needed", "minutes_needed")  # two numbers come with the campaign that settles it
    left, right = ({k: v for k, v in r.items() if k not in plan} for r in (out, same))
    assert repr(left) == repr(right)  # NaN and all
    if not cvs:
        assert out["verdict"] == "cannot tell"
        assert math.isnan(out["p"])
        assert "how much runs scatter is not known" in text
        assert "To settle it: " in text


@pytest.mark.parametrize(
    ("cv", "k", "verdict"),
    [
        (1.13, 10, "faster"),
        (1.15, 10, "cannot tell"),
        (0.92, 5, "faster"),
        (0.94, 5, "cannot tell"),
    ],
)
def test_floor_decides_just_below_the_deciding_cv(cv, k, verdict):
    out, _ = judged(221.19, 229.41, floor_cv_pct=cv, floor_runs=k, **EXAMPLE)
    assert out["verdict"] == verdict
    t = math.log(229.41 / 221.19) / (cv / 100 * math.sqrt(2))
    assert out["p"] == pytest.approx(2 * scipy_stats.t.sf(t, k - 1))


@pytest.mark.parametrize("case", TABLES["verdicts"])
def test_verdicts(case):
    out, _ = judged(case["a"], case["b"], **case.get("given", {}))
    assert out["verdict"] == case["verdict"]


def test_an_sd_is_believed():
    out, text = judged(100, 90, sd=(2, 3), n="6,4", restarts=True)
    expected = scipy_stats.ttest_ind_from_stats(
        math.log(100), 2 / 100, 6, math.log(90), 3 / 90, 4, equal_var=False
    )
    assert out["p"] == pytest.approx(expected.pvalue)
    assert (out["n_baseline"], out["n_arm"]) == (6, 4)
    assert "±" not in text
    assert ", 6 and 4 runs." in text
    error, _ = judged(100, 90, se=(2 / math.sqrt(6), 3 / 2), n="6,4", restarts=True)
    assert error["p"] == pytest.approx(out["p"])  # is not divided again


def test_start_to_start_scatter_is_added_unless_the_server_was_restarted():
    without, _ = judged(100, 97, sd=(1, 1), n="4", restarts=True)
    added, text = judged(100, 97, sd=(1, 1), n="4")
    given, _ = judged(100, 97, sd=(1, 1), n="4", floor_cv_pct=0.73, floor_runs=4)
    assert added["p"] > without["p"]
    assert given["p"] == pytest.approx(added["p"])
    assert "a start-to-start CV of 0.73 % is added, as recorded; --restarts leaves it out" in text
    time, _ = judged(100, 97, sd=(1, 1), n="4", metric="wall")
    assert time["p"] == pytest.approx(without["p"])  # `time` of a command has no server start


def test_an_unexplained_plus_minus_is_tried_in_all_its_meanings():
    out, text = judged(100, 95, pm=(3, 3), n="6", restarts=True)
    assert (
        "± is taken for a standard error, its widest reading: `slower` if it is a standard "
        "deviation, `cannot tell` if it is a standard error, `slower` if it is a 95 % interval"
        in text
    )
    same, text = judged(100, 80, pm=(2, 2), n="6")
    assert "the verdict is the same whether ± is" in text
    for narrower in ("sd", "se"):
        other, _ = judged(100, 80, **{narrower: (2, 2)}, n="6")
        assert other["verdict"] == same["verdict"] == "slower"
        assert other["lo_pct"] >= same["lo_pct"]
    assert out["verdict"] == "cannot tell"


def test_repetitions_without_their_spread_are_not_one_run():
    out, text = judged(100, 93, n="5")
    high = scatter.population("tps").part
    found = estimate.Estimate(
        math.log(100 / 93), ((high[0] / 5, high[1]),) * 2, ((2 * 0.0073**2, 3),)
    )
    assert out["p"] == pytest.approx(found.p)
    assert "5 runs each" in text
    assert "one run" not in text
    assert "start-to-start CV of 0.73 %" in text


@pytest.mark.parametrize(("given", "value", "kind"), TABLES["numbers"])
def test_numbers_as_people_write_them(given, value, kind):
    found = two._quantity(given, "value")
    assert found[0] == pytest.approx(value)
    assert found[2] == kind


def test_a_time_without_a_metric_is_a_latency_and_less_is_better():
    out, text = judged("17.43ms", "0.01807 s")
    assert out["metric"] == "mean_latency"
    assert out["overhead_pct"] == pytest.approx(3.6718, abs=1e-3)
    assert "17.43ms against 0.01807 s" in text
    spread, _ = judged("17.43ms", "18.07ms", sd=("0.1", "100us"), n="5")
    plain, _ = judged(17.43, 18.07, sd=(0.1, 0.1), n="5", metric="mean_latency")
    assert spread["p"] == pytest.approx(plain["p"])
    assert judged("221 tps", 229)[0]["metric"] == "tps"


def test_max_latency_is_refused_as_evidence():
    out, _ = judged(316.57, 274.03, metric="max_latency", better="lower")
    assert math.isnan(out["deciding_cv_pct"])
    assert math.isnan(out["runs_needed"])
    assert "never judged" in out["warnings"][0]


def test_latency_that_contradicts_tps_is_reported():
    out, _ = judged(221.19, 229.41, threads=8, latency=(18.07, "17.43ms"))
    assert any("inconsistent" in w and "+100 %" in w for w in out["warnings"])


@pytest.mark.parametrize(("given", "says"), TABLES["bad"])
def test_bad_input_is_one_sentence(given, says):
    with pytest.raises(ValueError, match=re.escape(says)) as error:
        two.judge(**{"a": 100, "b": 101, **given})
    assert "\n" not in str(error.value)
