"""Two published numbers: verdicts, deciding CV, Little's law, mean ± sd, and bad input."""

import math
import re
import subprocess
import sys

import pytest
from scipy import stats as scipy_stats

from noisefloor.stats import two

PUBLISHED = {"threads": 4, "seconds": 300}
KEYS = [
    "study",
    "workload",
    "metric",
    "threads",
    "baseline",
    "arm",
    "n_baseline",
    "n_arm",
    "overhead_pct",
    "lo_pct",
    "hi_pct",
    "p",
    "p_adjusted",
    "verdict",
    "noise_floor_pct",
    "deciding_cv_pct",
    "runs_needed",
    "minutes_needed",
    "warnings",
]


def test_the_published_example():
    row = two.judge(221.19, 229.41, latency=(18.07, 17.43), **PUBLISHED)
    text = " ".join(row["text"])
    assert [k for k in row if k in KEYS] == KEYS
    assert row["verdict"] == "cannot tell"
    assert row["overhead_pct"] == pytest.approx(-3.58, abs=0.005)
    for figure in ("1.28 %", "1.14 %", "0.93 %", "221.4", "229.5", "one measurement, not two"):
        assert figure in text
    assert row["noise_floor_pct"] is None
    assert row["plan"]["pairs"] == row["runs_needed"] > 6
    assert row["minutes_needed"] < 20


@pytest.mark.parametrize(
    ("cv", "runs", "verdict"),
    [
        (1.13, 10, "faster"),
        (1.15, 10, "cannot tell"),
        (0.92, 5, "faster"),
        (0.94, 5, "cannot tell"),
    ],
)
def test_floor_decides_just_below_the_deciding_cv(cv, runs, verdict):
    row = two.judge(221.19, 229.41, floor_cv_pct=cv, floor_runs=runs, **PUBLISHED)
    assert row["verdict"] == verdict
    assert (cv < row["deciding_cv_pct"]) == (verdict != "cannot tell")
    assert (row["lo_pct"] <= 0 <= row["hi_pct"]) == (verdict == "cannot tell")
    t = math.log(229.41 / 221.19) / (cv / 100 * math.sqrt(2))
    assert row["p"] == pytest.approx(2 * scipy_stats.t.sf(t, runs - 1))


@pytest.mark.parametrize(
    ("a", "b", "given", "verdict"),
    [
        (18.0, 18.0, {"metric": "wall", "better": "lower"}, "cannot tell"),  # n=1: not "the same"
        (100, 50, {}, "cannot tell"),  # n=1 never decides alone, however large the gap
        (100, 100.1, {"floor_cv_pct": 0.2, "floor_runs": 20}, "same"),
        (100, 100.1, {"floor_cv_pct": 2, "floor_runs": 20}, "cannot tell"),
        (100, 80, {"floor_cv_pct": 1}, "slower"),
        (10, 8, {"floor_cv_pct": 1, "metric": "p95", "better": "lower"}, "faster"),
        (316.57, 274.03, {"metric": "max_latency", "better": "lower", "floor_cv_pct": 0.1}, "cannot tell"),
        (100, 80, {"sd": 2, "n": 5}, "slower"),
        (100, 90, {"sd": (4, 3), "n": (3, 4)}, "cannot tell"),  # real only if ± is an sd
    ],
)  # fmt: skip
def test_verdicts(a, b, given, verdict):
    assert two.judge(a, b, **given)["verdict"] == verdict


def test_mean_and_sd_is_welch_on_logs():
    row = two.judge(100, 90, sd=2, n=(6, 6))
    assert "same whether" in " ".join(row["text"])
    errors = [2 / 100, 2 / 90]  # the widest reading: ± is a standard error
    t = math.log(100 / 90) / math.hypot(*errors)
    df = 5 * (errors[0] ** 2 + errors[1] ** 2) ** 2 / (errors[0] ** 4 + errors[1] ** 4)
    assert row["p"] == pytest.approx(2 * scipy_stats.t.sf(t, df))


def test_max_latency_is_refused_as_evidence():
    row = two.judge(316.57, 274.03, metric="max_latency", better="lower")
    assert row["deciding_cv_pct"] is None
    assert "never judged" in row["warnings"][0]


def test_latency_that_contradicts_tps_is_reported():
    row = two.judge(221.19, 229.41, threads=8, latency=(18.07, 17.43))
    assert any("inconsistent" in w and "+100 %" in w for w in row["warnings"])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"a": 0}, "value 0"),
        ({"b": -1}, "value -1"),
        ({"a": math.nan}, "value nan"),
        ({"b": math.inf}, "value inf"),
        ({"a": "x"}, "value x"),
        ({"margin_pct": 0}, "margin (percent) 0"),
        ({"sd": 2}, "sd was given without n"),
        ({"sd": 2, "n": 1}, "n = 1"),
        ({"sd": (1, 2, 3), "n": 5}, "3 figures"),
        ({"floor_cv_pct": -1}, "floor (percent) -1"),
        ({"floor_cv_pct": 1, "floor_runs": 1}, "at least 2"),
        ({"latency": (1, 2)}, "without threads"),
        ({"latency": (1, 2), "threads": 4, "metric": "p95"}, "--metric tps"),
    ],
)
def test_bad_input_is_one_sentence(given, says):
    with pytest.raises(ValueError, match=re.escape(says)) as error:
        two.judge(**{"a": 100, "b": 101, **given})
    assert "\n" not in str(error.value)


def test_nothing_slow_is_imported():
    code = (
        "import sys; from noisefloor.stats import two; two.judge(221.19, 229.41);"
        "print([m for m in ('numpy', 'scipy', 'pandas') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
