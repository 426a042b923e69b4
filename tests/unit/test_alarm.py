"""The newest campaign against the sittings before it: answers, their words, and false alarms."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from noisefloor import paths
from noisefloor.data import alarm, question
from noisefloor.show import report
from noisefloor.stats import combine
from noisefloor.stats.combine import Tau
from noisefloor.stats.runs import BUCKET

CPU, TPS = "cpu_per_transaction", "tps"
DF = 9  # of a campaign of ten blocks
T = stats.t.ppf(0.975, DF)
EPYC = "AMD EPYC 23/1/2"


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """known(tau): so much is known of the scatter between sittings; at first nothing is."""

    def tau(value):
        entry = {"value": value, "df": 20.0, "questions": 12}
        monkeypatch.setattr(question, "taus", lambda: {"sysbench": {CPU: entry, TPS: entry}})

    monkeypatch.setattr(question, "taus", dict)
    return tau


def campaigns(*changes, metrics=(CPU,), se=0.001, **more):
    """Verdict rows of campaigns, a day and a sitting each. changes: log changes of each campaign, one
    or a metric each; se: their standard errors."""
    rows = []
    for day, change in enumerate(changes, 1):
        errors = np.broadcast_to(np.asarray(se)[..., day - 1] if np.ndim(se) else se, len(metrics))
        for metric, x, error in zip(
            metrics, np.broadcast_to(change, len(metrics)), errors, strict=True
        ):
            ends = [100 * math.expm1(end) for end in (x, x - T * error, x + T * error)]
            rows.append(
                dict(zip(("change_pct", "lo_pct", "hi_pct"), ends, strict=True))
                | {"campaign": f"{EPYC}-{day}", "date": f"2026-11-{day:02} 10:00", "metric": metric}
                | {"sitting": f"boot {day}", "fingerprint": "a design", "processor": EPYC}
                | {"study": "binlog-encryption", "question": "rate", "profile": "standard"}
                | {"workload": "w", "threads": pd.NA, "joint": True, "baseline": "off", "arm": "on"}
                | {"blocks": DF + 1, "together": 1} | more
            )  # fmt: skip
    return pd.DataFrame(rows).astype({"threads": "Int64"})


def checked(*tables):
    """The rows of these campaigns, checked."""
    rows = pd.concat(tables, ignore_index=True)
    return alarm.checked(alarm.marked(rows), lambda row: "sysbench")


def newest(*tables):
    """The row of the one newest campaign."""
    (row,) = (r for r in checked(*tables).to_dict("records") if r["answer"])
    return row


def lines(*tables):
    return report.alarm_lines(checked(*tables))


# -- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "change", "answer"),
    [
        (CPU, 0.011, "inside"), (CPU, 0.05, "worse"), (CPU, -0.05, "better"),
        (TPS, 0.011, "inside"), (TPS, 0.05, "better"), (TPS, -0.05, "worse"),
    ],
)  # fmt: skip
def test_the_newest_campaign_lies_inside_or_is_worse_or_better(metric, change, answer):
    row = newest(campaigns(0.010, 0.012, 0.011, change, metrics=(metric,)))
    assert (row["campaign"], row["answer"], row["before"]) == (f"{EPYC}-4", answer, 3)
    before = [combine.Campaign(x, 1e-6, DF) for x in (0.010, 0.012, 0.011)]
    both = combine.combine_sittings(before, None)
    ends = [100 * math.expm1(end) for end in (both.next_lo, both.next_hi)]
    assert [row[end] for end in alarm.EXPECTED] == pytest.approx(ends, rel=1e-6)
    outside = {"outside"} if answer != "inside" else set()
    table = checked(campaigns(0.010, 0.012, 0.011, change, metrics=(metric,)))
    assert alarm.answers(table) == {answer} | outside


def test_comparisons_that_are_checked_at_once_share_the_error():
    one = newest(campaigns(0.010, 0.012, 0.011, 0.011))
    two = checked(campaigns(0.010, 0.012, 0.011, 0.011, metrics=(CPU, TPS)))
    two = two[two["answer"].ne("")]
    assert len(two) == 2
    assert (two["expected_lo_pct"] < one["expected_lo_pct"]).all()
    other = campaigns(0.010, 0.012, 0.011, 0.011, processor="Intel Xeon").assign(campaign="other")
    both = checked(campaigns(0.010, 0.012, 0.011, 0.011), other)
    both = both[both["answer"].ne("")]
    assert both["expected_lo_pct"].tolist() == pytest.approx([*two["expected_lo_pct"]])
    alone = campaigns(0.010, processor="Intel Xeon").assign(campaign="other")
    first = checked(campaigns(0.010, 0.012, 0.011, 0.011), alone).iloc[3]
    assert first["expected_lo_pct"] == one["expected_lo_pct"]  # that other one is not checked


def test_nothing_is_told_without_two_sittings_before_it_until_their_scatter_is_known(known):
    first, second = newest(campaigns(0.01)), newest(campaigns(0.01, 0.05))
    assert first["answer"] == second["answer"] == "cannot tell"
    assert first["why"].startswith("only one sitting of this design")
    assert second["why"].startswith("only one earlier sitting; two are needed")
    assert math.isnan(second["expected_lo_pct"])
    known(0.002)
    assert newest(campaigns(0.01))["answer"] == "cannot tell"
    assert newest(campaigns(0.01, 0.05))["answer"] == "worse"
    known(0.02)
    assert newest(campaigns(0.01, 0.05))["answer"] == "inside"


def test_campaigns_of_its_sitting_another_design_or_processor_are_not_before_it():
    before = campaigns(0.010, 0.012, 0.011)
    last = campaigns(*[0.03] * 4).iloc[[3]]
    assert newest(before, last)["answer"] == "worse"
    same_boot = newest(before, last.assign(sitting="boot 3"))
    assert (same_boot["before"], same_boot["answer"]) == (2, "inside")  # one degree of freedom
    assert newest(before, last.assign(fingerprint="another"))["before"] == 0
    table = checked(before, last.assign(processor="Intel Xeon"))
    assert table[table["answer"].ne("")]["campaign"].tolist() == [f"{EPYC}-3", f"{EPYC}-4"]
    assert table["before"].tolist()[2:] == [2, 0]


def test_a_campaign_without_an_interval_or_cut_short_raises_no_alarm():
    table = campaigns(0.010, 0.012, 0.011, 0.5)
    last, before = table.iloc[[3]], table.iloc[:3]
    assert newest(before, last)["answer"] == "worse"
    open_ = newest(before, last.assign(lo_pct=-math.inf))
    assert (open_["answer"], open_["why"]) == ("cannot tell", "it has no interval")
    short = newest(before, last.assign(blocks=4))
    assert short["why"] == "it has 4 blocks, each earlier campaign 10 or more"


def test_a_percentile_is_expected_no_closer_than_half_a_bucket():
    """As on a page. Fifty rows judged together: each interval is wider than the expected range."""
    half, alike = BUCKET / 2, [0.0] * 6
    given = {"se": half / T, "together": 50}
    p99, cpu = (newest(campaigns(*alike, 0.8 * half, metrics=(m,), **given)) for m in ("p99", CPU))
    assert (p99["answer"], cpu["answer"]) == ("inside", "worse")
    ends = [math.log1p(p99[end] / 100) for end in alarm.EXPECTED]
    assert ends == pytest.approx([-half, half])
    beyond = newest(campaigns(*alike, 1.1 * half, metrics=("p99",), **given))
    assert beyond["answer"] == "worse"


def test_rows_without_a_campaign_stay_as_they_are():
    rows = alarm.marked(campaigns(0.010, 0.012, 0.011, 0.5))
    together = rows.iloc[[3]].assign(campaign=None)
    table = alarm.checked(pd.concat([rows, together], ignore_index=True), lambda row: "sysbench")
    assert table["answer"].tolist() == ["", "", "", "worse", ""]


# -- words -----------------------------------------------------------------------------------------


def test_the_answer_stands_first():
    (line,) = lines(campaigns(0.010, 0.012, 0.011, 0.0115))
    start = "INSIDE: the campaign of 2026-11-04 lies where the 3 sittings before it predict"
    assert line.startswith(f"{start} (CPU per transaction +1.2 %, expected +0.")
    assert line.isascii()
    two = campaigns(0.010, 0.012, 0.011, (0.05, 0.011), metrics=(CPU, TPS))
    line, advice = lines(two)
    assert line.startswith("OUTSIDE: the campaign of 2026-11-04 does not lie where the 3 sittings ")
    assert "predict: CPU per transaction +5.1 % is worse than the expected +0." in line
    assert " Inside: TPS +1.1 %, expected +" in line
    run = "noisefloor run binlog-encryption --question rate --profile standard"
    assert advice.endswith(f"after a restart of the machine: {run}, then noisefloor store")
    line, _ = lines(campaigns(0.01))
    assert line == (
        "CANNOT TELL: the campaign of 2026-11-01: only one sitting of this design on this processor."
    )


def test_the_answer_in_the_docs_is_what_such_rows_print():
    rows = checked(campaigns(0.010, 0.012, 0.011, 0.0115))
    lo, hi = alarm.EXPECTED
    shown = {"date": "2026-11-29 10:00", "change_pct": 1.4, lo: 0.9, hi: 1.8}
    for column, value in shown.items():
        rows.loc[rows["answer"].ne(""), column] = value
    text = "\n".join(["```", *report.alarm_lines(rows), "```"])
    assert text in (paths.root() / "docs" / "history.md").read_text()


def test_what_is_unknown_of_a_metric_is_told_beside_the_others():
    both = campaigns(0.010, 0.012, 0.011, 0.011, metrics=(CPU, TPS))
    last = both["metric"].eq(TPS) & both["campaign"].eq(f"{EPYC}-4")
    line, _ = lines(both.assign(hi_pct=both["hi_pct"].mask(last, math.inf)))
    assert line.startswith("INSIDE: ")
    assert line.endswith(" Cannot tell: TPS: it has no interval.")


def test_five_lines_at_most_and_what_is_outside_first():
    tables = [
        campaigns(0.010, 0.012, 0.011, 0.012 if n else 0.5, processor=f"CPU {9 - n}")
        for n in range(8)
    ]
    tables = [t.assign(campaign=t["campaign"] + t["processor"]) for t in tables[::-1]]
    text = lines(*tables)
    assert len(text) == 5
    assert text[0].startswith("OUTSIDE: the campaign of 2026-11-04 on CPU 9 does not lie")
    assert text[3] == "And 5 more campaigns: --json has them."
    assert report.alarm_lines(checked(campaigns(0.01)).iloc[:0]) == [
        "CANNOT TELL: the newest campaign did not measure this."
    ]


# -- false alarms ----------------------------------------------------------------------------------

MANY, METRICS, SE = 1000, 2, 0.003


def histories(rng, n, tau, shift=0.0, many=MANY):
    """Effects and variances [histories, metrics, n] of n sittings that scatter by tau, with standard
    errors that differ from day to day and are known from ten blocks. shift: of the newest."""
    own = SE * np.exp(rng.normal(0, 0.3, (many, 1, n)))
    scatter = tau * rng.normal(size=(many, METRICS, n))
    effects = scatter + own * rng.normal(size=scatter.shape)
    effects[..., -1] += shift
    return effects, own**2 * rng.chisquare(DF, effects.shape) / DF


def alarms(effects, variances, tau, checks=METRICS):
    """Whether a check of each history raises an alarm, with what `combine.predicted` calls."""
    before, known = effects[..., :-1], variances[..., :-1]
    dfs = np.full(before.shape, DF)
    mean, _, ahead, _ = combine.intervals_with_tau(before, known, dfs, tau, checks=checks)
    return (np.abs(effects[..., -1] - mean) > ahead).any(-1)


def share(tau, pooled, shift=0.0, checks=METRICS, seed=1):
    """(alarms of all histories of 3 to 8 sittings, how many histories these are)."""
    rng = np.random.default_rng(seed)
    raised = [alarms(*histories(rng, n, tau, shift), pooled, checks) for n in range(3, 9)]
    return int(np.sum(raised)), np.size(raised)


def least(raised, n):
    """The lower end of the 99 % interval of a share (Clopper and Pearson)."""
    return stats.binomtest(raised, n).proportion_ci(0.99, "exact").low


WORLDS = [(tau, pooled) for tau in (0.0, SE, 3 * SE) for pooled in (False, True)]


@pytest.mark.parametrize(("tau", "pooled"), WORLDS)
def test_a_check_of_an_unchanged_server_raises_an_alarm_in_at_most_5_percent(tau, pooled):
    """6,000 histories, two metrics at once."""
    known = Tau(tau, 20.0 if tau else 0.0, 12) if pooled else None
    assert least(*share(tau, known)) <= 0.05


def test_an_error_that_is_not_shared_is_seen():
    assert least(*share(3 * SE, Tau(0.0, 0.0, 12), checks=1)) > 0.05
    rng = np.random.default_rng(2)
    late = [alarms(*histories(rng, 8, 3 * SE), None, checks=1) for _ in range(4)]
    assert least(int(np.sum(late)), np.size(late)) > 0.05


@pytest.mark.parametrize(("tau", "pooled"), WORLDS[:4])
def test_a_shift_of_5_percent_is_found_in_most(tau, pooled):
    known = Tau(tau, 20.0 if tau else 0.0, 12) if pooled else None
    raised, n = share(tau, known, shift=math.log(1.05))
    assert raised > 0.8 * n


@pytest.mark.parametrize(("tau", "found"), [(SE, 99), (0.01, 57)])
def test_three_sittings_find_a_shift_of_5_percent_as_often_as_the_docs_say(tau, found):
    rng = np.random.default_rng(1)
    raised = [alarms(*histories(rng, 4, tau, math.log(1.05)), None) for _ in range(10)]
    assert 100 * np.mean(raised) == pytest.approx(found, abs=1.5)


@pytest.mark.parametrize("shift", [0.0, 0.015])
def test_the_simulation_has_the_answers_of_the_command(shift):
    effects, variances = histories(np.random.default_rng(3), 5, SE, shift, many=12)
    raised = alarms(effects, variances, None)
    for x, v, one in zip(effects, variances, raised, strict=True):
        table = checked(campaigns(*x.T, metrics=(CPU, TPS), se=np.sqrt(v)))
        assert ("outside" in alarm.answers(table)) == one
    assert 0 < raised.sum() < 12 if shift else raised.sum() < 3
