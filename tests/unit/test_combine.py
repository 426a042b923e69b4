"""The result of a question: its sittings combined, on synthetic scatter of a known size.

Oracles: statsmodels' combine_effects, published results, closed forms, and simulation."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from noisefloor.stats import combine
from noisefloor.stats.combine import Campaign, Tau

DF = 7  # of a campaign of eight blocks
T = stats.t.ppf(0.975, DF)
NONE = Tau(0.0, 0.0, 10)


def sittings(*effects, sd=0.01, df=DF):
    """One sitting an effect; sd: their standard error, or one each."""
    sds = np.broadcast_to(sd, len(effects))
    return [Campaign(float(e), float(s) ** 2, df) for e, s in zip(effects, sds, strict=True)]


def world(rng, questions, n, tau, skew=0.0, sd=1.0):
    """Effects and variances [questions, n] around a true mean of 0: normal or (skew, the sd of its
    logarithm) lognormal scatter between sittings, standard errors that differ by question and by day
    and are known from eight blocks."""
    z = rng.normal(size=(questions, n))
    if skew:
        power = math.exp(skew**2)
        z = (np.exp(skew * z) - math.sqrt(power)) / math.sqrt((power - 1) * power)
    own = sd * np.exp(rng.normal(0, 0.5, (questions, 1)) + rng.normal(0, 0.3, (questions, n)))
    effects = tau * z + own * rng.normal(size=(questions, n))
    return effects, own**2 * rng.chisquare(DF, (questions, n)) / DF


def as_questions(effects, variances):
    return [
        [Campaign(e, v, DF) for e, v in zip(*row, strict=True)]
        for row in zip(effects, variances, strict=True)
    ]


# -- one sitting -----------------------------------------------------------------------------------


def test_campaigns_of_one_sitting_count_once():
    two = combine.mean_of_sitting([Campaign(0.01, 4e-4, 7), Campaign(0.03, 4e-4, 7)])
    assert (two.effect, two.variance, two.df) == pytest.approx((0.02, 2e-4, 14))
    uneven = combine.mean_of_sitting([Campaign(0.0, 9e-4, 7), Campaign(0.0, 1e-4, 3)])
    assert uneven.df == pytest.approx(10**2 / (81 / 7 + 1 / 3))  # Satterthwaite
    alone = combine.mean_of_sitting(sittings(0.02))
    assert (alone.effect, alone.variance, alone.df) == pytest.approx((0.02, 1e-4, 7))


@pytest.mark.parametrize(
    "given",
    [(0.01, 1e-4, 0), (0.01, math.inf, 7), (0.01, math.nan, 7), (math.nan, 1e-4, 7), (0, -1e-4, 7)],
)
def test_a_campaign_without_an_error_says_so(given):
    with pytest.raises(ValueError, match=r"cannot be combined; it needs two blocks"):
        Campaign(*given)


def test_no_campaign_says_so():
    for function in (
        combine.mean_of_sitting,
        lambda none: combine.combine_sittings(none, None),
    ):
        with pytest.raises(ValueError, match="No campaign was given"):
            function([])


# -- tau -------------------------------------------------------------------------------------------

# Thirteen trials of a vaccine (cases and others, vaccinated and not): Colditz et al. 1994. REML as
# published by Viechtbauer (Journal of Statistical Software 36(3), 2010): tau^2 0.3132 (0.1664),
# mean -0.7145 (0.1798)
VACCINE = np.array(
    [
        [4, 119, 11, 128], [6, 300, 29, 274], [3, 228, 11, 209], [62, 13536, 248, 12619],
        [33, 5036, 47, 5761], [180, 1361, 372, 1079], [8, 2537, 10, 619], [505, 87886, 499, 87892],
        [29, 7470, 45, 7232], [17, 1699, 65, 1600], [186, 50448, 141, 27197], [5, 2493, 3, 2338],
        [27, 16886, 29, 17825],
    ]
).T  # fmt: skip


def vaccine():
    a, b, c, d = VACCINE
    variances = 1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)
    return np.log(a / (a + b) / (c / (c + d))), variances


def test_tau_is_that_of_a_published_analysis():
    (question,) = as_questions(*(np.array([x]) for x in vaccine()))
    found = combine.estimate_tau([question])
    assert found.value**2 == pytest.approx(0.3132, abs=1e-4)
    assert found.df == pytest.approx(2 * 0.3132**2 / 0.1664**2, rel=2e-3)
    result = combine.combine_sittings(question, Tau(0.5638, math.inf, 10))  # own: 0.5640
    assert result.mean == pytest.approx(-0.7145, abs=1e-3)
    assert result.tau == pytest.approx(found.value, abs=0.005)


def test_tau_of_alike_questions_has_a_closed_form():
    """Equal errors: tau^2 is the variance within questions less that of the errors."""
    rng = np.random.default_rng(3)
    effects = rng.normal(0, 0.03, (12, 3)) + rng.normal(0, 1, (12, 1))
    squared, error = effects.var(1, ddof=1).mean(), 0.01
    tau2 = squared - error**2
    found = combine.estimate_tau([sittings(*row, sd=error) for row in effects])
    assert found.value == pytest.approx(math.sqrt(tau2), rel=1e-3)
    assert found.df == pytest.approx(24 * (tau2 / squared) ** 2, rel=1e-2)
    exact = combine.estimate_tau([sittings(*row, sd=0) for row in effects])
    assert exact.df == pytest.approx(24, rel=1e-3)  # sittings less questions


def test_tau_maximises_the_restricted_likelihood():
    """The same likelihood written with matrices, uneven questions, errors that span two decades."""
    rng = np.random.default_rng(4)
    questions = [
        sittings(*(0.02 * rng.normal(size=n) + i), sd=10 ** rng.uniform(-3, -1, n))
        for i, n in enumerate((2, 3, 5, 1, 2, 4))
    ]
    rows = [(i, c) for i, question in enumerate(questions) if len(question) > 1 for c in question]
    design = np.array([[i == j for j in range(6) if j != 3] for i, _ in rows], float)
    y = np.array([c.effect for _, c in rows])

    def likelihood(tau):
        inverse = np.diag([1 / (c.variance + tau**2) for _, c in rows])
        middle = design.T @ inverse @ design
        p = inverse - inverse @ design @ np.linalg.inv(middle) @ design.T @ inverse
        return (np.linalg.slogdet(inverse)[1] - np.linalg.slogdet(middle)[1] - y @ p @ y) / 2

    grid = np.linspace(0, 0.05, 251)
    found = combine.estimate_tau(questions)
    assert found.value == pytest.approx(grid[np.argmax([likelihood(t) for t in grid])], abs=2e-4)
    assert found.questions == 5


def test_there_is_no_pooled_tau_from_nine_questions():
    repeated = [sittings(0.01, 0.05)] * 9
    once = [sittings(0.01)] * 5
    assert combine.pooled_tau(repeated + once) is None
    assert combine.estimate_tau(repeated + once).questions == 9
    assert combine.pooled_tau([*repeated, sittings(0.0, 0.04)]).questions == combine.QUESTIONS
    assert combine.estimate_tau(once) is None


def test_bytes_that_repeat_exactly():
    """No scatter at all is a tau of zero, also beside a question that has some."""
    exact = [sittings(0.5, 0.5, 0.5, sd=0)] * 12
    tau = combine.pooled_tau(exact)
    assert tau == Tau(0.0, 0.0, 12)
    result = combine.combine_sittings(exact[0], tau)
    assert result.mean == pytest.approx(0.5)
    assert 0 < result.hi - result.lo < 1e-4
    assert combine.combine_sittings(sittings(0.5, 0.6, sd=0), tau).tau == pytest.approx(
        0.0707, abs=1e-4
    )


def own_tau(campaigns):
    """The tau of one question."""
    return math.sqrt(combine._own(*combine._arrays(campaigns)[:2]))


@pytest.mark.parametrize("effects", [(0.01, 0.05), (0.0, 0.02, 0.1), (0.01, 0.04, 0.02, 0.0, 0.3)])
def test_the_tau_of_one_question_is_paule_and_mandels(effects):
    """With it, the weighted sum of squares (statsmodels' q) equals its expectation."""
    sds = np.linspace(0.005, 0.02, len(effects))
    own = own_tau(sittings(*effects, sd=sds))
    oracle = combine_effects(np.array(effects), sds**2, method_re="pm")
    assert own**2 == pytest.approx(float(oracle.tau2), rel=1e-3)
    assert combine_effects(np.array(effects), sds**2 + own**2).q == pytest.approx(len(effects) - 1)
    assert own_tau(sittings(0.01, 0.011, 0.012)) == own_tau(sittings(0.01)) == 0


def test_own_tau_of_many_questions_at_once():
    effects, variances = world(np.random.default_rng(5), 50, 3, 1.0)
    each = [own_tau(question) ** 2 for question in as_questions(effects, variances)]
    assert combine._own(effects, variances) == pytest.approx(np.array(each), rel=1e-6, abs=1e-9)


# -- the combined interval and the next campaign ---------------------------------------------------


@pytest.mark.parametrize("tau", [0.0, 0.004, 0.05])
def test_mean_and_error_are_those_of_combine_effects(tau):
    effects, sds = np.array([0.010, 0.012, 0.013]), np.array([0.004, 0.01, 0.006])
    result = combine.combine_sittings(sittings(*effects, sd=sds, df=1e6), Tau(tau, 1e6, 10))
    oracle = combine_effects(effects, sds**2 + tau**2)
    assert own_tau(sittings(*effects, sd=sds)) == 0
    assert result.mean == pytest.approx(oracle.mean_effect_fe)
    assert (result.lo, result.hi) == pytest.approx(tuple(oracle.conf_int()[0]), rel=1e-4)
    ahead = math.hypot(oracle.sd_eff_w_fe, tau, 0.006) * stats.norm.ppf(0.975)
    assert (result.next_lo, result.next_hi) == pytest.approx(
        (result.mean - ahead, result.mean + ahead), rel=1e-4
    )
    assert (result.tau, result.sittings, result.ranged) == (tau, 3, False)


def test_the_larger_of_pooled_and_own_tau_counts():
    question = sittings(0.0, 0.1)
    own = own_tau(question)
    assert combine.combine_sittings(question, Tau(0.01, 10, 12)).tau == pytest.approx(own)
    assert combine.combine_sittings(question, Tau(0.2, 10, 12)).tau == 0.2
    oracle = combine_effects(np.array([0.0, 0.1]), np.array([1e-4, 1e-4]), method_re="dl")
    result = combine.combine_sittings(sittings(0.0, 0.1, df=1e6), NONE)
    assert (result.lo, result.hi) == pytest.approx(tuple(oracle.conf_int()[1]), rel=1e-4)


def test_the_pooled_tau_counts_from_the_first_sitting_on():
    result = combine.combine_sittings(sittings(0.05), Tau(0.02, 15, 12))
    variance, tau2 = 1e-4, 4e-4
    df = (variance + tau2) ** 2 / (variance**2 / DF + tau2**2 / 15)
    half = stats.t.ppf(0.975, df) * math.sqrt(variance + tau2)
    assert (result.mean, result.lo, result.hi) == pytest.approx((0.05, 0.05 - half, 0.05 + half))
    # the next one's tau and error are as much in doubt as this one's
    assert result.next_hi - result.mean == pytest.approx(math.sqrt(2) * half)


def test_one_sitting_without_a_pooled_tau_has_its_own_interval():
    result = combine.combine_sittings(sittings(0.05), None)
    assert (result.lo, result.hi) == pytest.approx((0.05 - 0.01 * T, 0.05 + 0.01 * T))
    assert result.next_hi - 0.05 == pytest.approx(math.sqrt(2) * 0.01 * T)
    assert math.isnan(result.tau)
    assert not result.ranged


def test_sittings_without_a_pooled_tau_are_a_range():
    result = combine.combine_sittings(sittings(0.05, 0.01, 0.03, sd=[0.01, 0.02, 0.01]), None)
    assert result.ranged
    assert result.mean == pytest.approx(0.03)  # the same weight each
    assert (result.lo, result.hi) == pytest.approx((0.01 - 0.02 * T, 0.05 + 0.01 * T))
    error = 1e-4 + result.tau**2 + (6e-4 + 3 * result.tau**2) / 9
    ahead = stats.t.ppf(0.975, 2) * math.sqrt(error)
    assert result.next_hi - result.mean == pytest.approx(ahead)


def test_rows_that_hold_together_are_wider_and_the_prediction_is_not():
    for tau, many in ((None, (0.05,)), (None, (0.05, 0.02)), (Tau(0.02, 15, 12), (0.05, 0.02))):
        one = combine.combine_sittings(sittings(*many), tau)
        five = combine.combine_sittings(sittings(*many), tau, together=5)
        assert five.lo < one.lo < one.hi < five.hi
        assert (five.next_lo, five.next_hi) == (one.next_lo, one.next_hi)
    alone = combine.combine_sittings(sittings(0.05), None, together=5)
    assert alone.hi == pytest.approx(0.05 + 0.01 * stats.t.ppf(1 - 0.05 / 10, DF))


def test_a_noisy_sitting_counts_less():
    result = combine.combine_sittings(sittings(0.0, 0.3, sd=[0.01, 0.5]), NONE)
    assert abs(result.mean) < 0.001


# -- held out --------------------------------------------------------------------------------------


def test_each_sitting_is_predicted_from_those_before_it():
    tau, question = Tau(0.01, 20, 12), sittings(0.05, 0.06, 0.5)
    second, third = combine.held_out(question, tau)
    assert (second.before, second.side) == (1, 0)
    assert (third.before, third.side) == (2, 1)
    before = combine.combine_sittings(question[:2], tau)
    assert (third.lo, third.hi) == (before.next_lo, before.next_hi)
    assert combine.held_out(sittings(0.1), tau) == []
    assert combine.held_out(sittings(0.05, 0.06, -0.05), None)[-1].side == 0  # 1 degree of freedom
    assert combine.held_out(sittings(0.05, 0.06, 0.05, -0.05), None)[-1].side == -1


def test_predictions_that_hold_together_are_wider():
    for tau, many in ((None, (0.05,)), (None, (0.05, 0.02)), (Tau(0.02, 15, 12), (0.05, 0.02))):
        newest, before = *sittings(0.03), sittings(*many)
        one, four = (combine.predicted(newest, before, tau, checks) for checks in (1, 4))
        assert four.lo < one.lo < one.hi < four.hi
    wide = combine.combine_sittings(sittings(0.05, 0.02), None, checks=4)
    one = combine.combine_sittings(sittings(0.05, 0.02), None)
    ratio = stats.t.ppf(1 - 0.05 / 8, 1) / stats.t.ppf(0.975, 1)
    assert wide.next_hi - wide.mean == pytest.approx(ratio * (one.next_hi - one.mean))


@pytest.mark.parametrize(("tau", "skew"), [(0.0, 0.0), (0.01, 0.0), (0.03, 0.6)])
def test_sittings_held_out_of_synthetic_scatter_lie_inside(tau, skew):
    rng, rows = np.random.default_rng(6), []
    for _ in range(4):
        made = as_questions(*world(rng, 40, 3, tau, skew, sd=0.01))
        pooled = combine.pooled_tau(made)
        rows += [one for question in made for one in combine.held_out(question, pooled)]
    assert len(rows) == 320
    assert np.mean([not row.side for row in rows]) > 0.92


# -- coverage --------------------------------------------------------------------------------------


def shares(tau, skew, worlds=40, many=300, use=combine.pooled_tau):
    """{sittings: (share of questions whose interval holds the true mean, share whose prediction holds
    the next campaign)}: each world has a pooled tau from 12 questions with two or three sittings, and
    as many new questions as `many` says."""
    rng, held = np.random.default_rng(7), {1: np.zeros(2), 3: np.zeros(2)}
    for _ in range(worlds):
        known = as_questions(*world(rng, 12, 3, tau, skew))
        pooled = use([q[: 2 + i % 2] for i, q in enumerate(known)])
        effects, variances = world(rng, many, 4, tau, skew)
        for n, share in held.items():
            seen = effects[:, :n], variances[:, :n], np.full((many, n), DF)
            mean, half, ahead, _ = combine.intervals_with_tau(*seen, pooled)
            share += (np.abs(mean) < half).mean(), (np.abs(effects[:, n] - mean) < ahead).mean()
    return {n: share / worlds for n, share in held.items()}


@pytest.mark.parametrize(("tau", "skew"), [(0, 0), (1, 0), (1, 0.6), (3, 0.6)])
def test_intervals_hold_what_they_say(tau, skew):
    """12,000 questions a cell. A skewed scatter three times the errors costs the first sitting's
    prediction one or two in a hundred."""
    for covers, predicts in shares(tau, skew).values():
        assert 0.935 < covers < 0.985
        assert 0.92 < predicts < 0.98


def test_without_tau_they_do_not(monkeypatch):
    """The check above finds the mistake: nothing is added, neither pooled nor own."""
    monkeypatch.setattr(combine, "_own", lambda effects, variances: np.zeros(len(effects)))
    for covers, predicts in shares(1, 0.6, use=lambda known: NONE).values():
        assert covers < 0.88
        assert predicts < 0.88
    for covers, predicts in shares(3, 0.6, use=lambda known: NONE).values():
        assert covers < 0.65
        assert predicts < 0.65


def test_tau_is_found_again():
    """The middle of 12 estimates from 40 questions of three sittings."""
    rng = np.random.default_rng(8)
    for tau, low, high in ((0, 0, 0.4), (1, 0.85, 1.15), (3, 2.8, 3.2)):
        found = [combine.pooled_tau(as_questions(*world(rng, 40, 3, tau))).value for _ in range(12)]
        assert low <= np.median(found) <= high
