"""The rule of a live campaign: levels, graph, blocks, words."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from noisefloor.stats import estimate, flips, plan, rule, spending, student
from noisefloor.stats.graph import JOINT, Graph, sweep

M = math.log(1.02)


def blocks(n, mean=0.0, sd=0.01, seed=0):
    return mean + np.random.default_rng(seed).normal(0, sd, n)


def judged(units, declared=12, **more):
    """The Outcome of one comparison that has these block means."""
    units = np.asarray(units, float)
    members = {("on", 4): (np.arange(len(units)), units)}
    return rule.family(members, blocks=declared, margin=M, **more)["on", 4]


@pytest.mark.parametrize("df", [1, 2.5, 4, 9, 44, 300, math.inf])
@pytest.mark.parametrize("q", [0.6, 0.9, 0.95, 0.975, 0.999])
def test_student(df, q):
    """Without scipy."""
    expected = scipy_stats.norm.ppf(q) if df == math.inf else scipy_stats.t.ppf(q, df)
    assert student.quantile(q, df) == pytest.approx(expected, rel=1e-6)
    assert student.quantile(1 - q, df) == pytest.approx(-expected, rel=1e-6)
    assert student.tail(expected, df) == pytest.approx(1 - q, rel=1e-6)


# -- levels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "published",
    [
        # O'Brien-Fleming type spending, 2.5 % on one side: Lan and DeMets 1983; Jennison and
        # Turnbull 2000
        [3.7103, 2.5114, 1.9930],
        [4.8769, 3.3569, 2.6803, 2.2898, 2.0310],
    ],
)
def test_levels_are_those_of_published_tables(published):
    k = len(published)
    levels = spending._levels(0.025, tuple(range(1, k + 1)), k, 1)
    assert scipy_stats.norm.isf(levels) == pytest.approx(published, abs=2e-3)


@pytest.mark.parametrize("share", [0.05, 0.04, 0.01, 0.01 / 3])
@pytest.mark.parametrize("declared", [8, 10, 12, 40])
def test_all_of_a_share_is_spent_and_a_look_that_signs_cannot_pass_spends_nothing(share, declared):
    found = spending.levels(share, spending.planned(declared), declared)
    assert list(found)[-1] == declared
    assert all(spending.fewest_flips(n) <= level for n, level in list(found.items())[:-1])
    assert list(found.values()) == sorted(found.values())
    assert found[declared] <= share * (1 + 1e-9)
    looks = np.array(list(found))
    z = np.random.default_rng(3).normal(size=(200_000, declared)).cumsum(1)[:, looks - 1]
    limits = scipy_stats.norm.isf(np.array(list(found.values())) / 2)
    crossed = (np.abs(z / np.sqrt(looks)) > limits).any(1)
    assert crossed.mean() == pytest.approx(share, rel=0.1)


def test_looks_are_at_sixty_eighty_and_a_hundred_percent():
    planned = [spending.planned(k) for k in (2, 8, 10, 12)]
    assert planned == [(2,), (5, 7, 8), (6, 8, 10), (8, 10, 12)]


def test_a_campaign_that_ended_early_may_spend_only_its_fraction():
    early = spending.levels(0.05, (7,), 12)[7]
    assert early == pytest.approx(spending.spent(0.05, 7 / 12), rel=1e-6)
    assert early < spending.levels(0.05, spending.planned(12), 12)[12] / 2


def test_a_campaign_that_ends_with_its_minutes_spends_all_that_is_left():
    found = spending.levels(0.05, (8, 9), 12, last=True)
    assert found[8] == spending.levels(0.05, (8,), 12)[8]
    z = np.random.default_rng(5).normal(size=(200_000, 9)).cumsum(1)[:, [7, 8]]
    limits = scipy_stats.norm.isf(np.array(list(found.values())) / 2)
    crossed = (np.abs(z / np.sqrt([8, 9])) > limits).any(1)
    assert crossed.mean() == pytest.approx(0.05, rel=0.05)
    units = blocks(6, 0.10)
    assert [judged(units, 11, spent=s).word for s in (False, True)] == ["cannot tell", "slower"]


# -- the graph -------------------------------------------------------------------------------------


def test_the_headline_comes_first_and_passes_its_share_to_its_thread_counts():
    graph = Graph({"on": [1, 4, 16]})
    assert graph.shares[("on", JOINT)] == pytest.approx(0.04)
    assert graph.shares[("on", 4)] == pytest.approx(0.01 / 3)
    graph.reject(("on", JOINT))
    assert graph.shares == pytest.approx(dict.fromkeys((("on", t) for t in (1, 4, 16)), 0.05 / 3))
    graph.reject(("on", 4))
    graph.reject(("on", 1))
    assert graph.shares == pytest.approx({("on", 16): 0.05})


def test_thread_counts_are_holms_without_the_headline():
    p = {1: 0.002, 4: 0.004, 16: 0.2}
    graph = Graph({"on": list(p)})
    found = sweep(graph, lambda h, share: h[1] is not JOINT and p[h[1]] <= share)
    assert [h[1] for h in found] == [1, 4]  # 0.01 / 3, then 0.01 / 2


def test_arms_divide_the_family_and_pass_it_on():
    graph = Graph({"aes": [2], "sm4": [2], "chacha": [2]})
    assert list(graph.shares.values()) == pytest.approx([0.05 / 3] * 3)
    graph.reject(("sm4", 2))
    assert graph.shares == pytest.approx({("aes", 2): 0.025, ("chacha", 2): 0.025})
    two = Graph({"a": [1, 4], "b": [1, 4]})
    for t in (JOINT, 1, 4):
        two.reject(("a", t))
    assert two.shares[("b", JOINT)] == pytest.approx(0.045, rel=1e-6)


@pytest.mark.parametrize(
    "arms", [{"a": [1]}, {"a": [1, 2, 3]}, {"a": [1, 2], "b": [3], "c": [1, 2]}]
)
def test_no_order_of_rejections_spends_more_than_the_family_has(arms):
    rng = np.random.default_rng(2)
    for _ in range(30):
        graph = Graph(arms)
        while graph.shares:
            assert sum(graph.shares.values()) <= 0.05 * (1 + 1e-6)
            names = list(graph.shares)
            graph.reject(names[rng.integers(len(names))])


# -- one comparison --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [5, 8, 11])
@pytest.mark.parametrize(("sides", "word"), [(2, "two-sided"), (1, "greater")])
def test_flips_are_the_permutation_test_of_scipy(n, sides, word):
    d = blocks(n, 0.004, seed=n)
    expected = scipy_stats.permutation_test(
        (d,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=False,
        alternative=word,
    )  # fmt: skip
    assert flips.flips(d, sides) == pytest.approx(expected.pvalue, abs=1e-9)
    many = blocks(40, 0.003, seed=4)
    assert flips.flips(many) == pytest.approx(scipy_stats.ttest_1samp(many, 0).pvalue, abs=0.01)


def test_moments_are_students():
    d = blocks(9, 0.01)
    m = rule.moments(d)
    expected = scipy_stats.ttest_1samp(d, 0)
    assert m.p == 2 * min(m.above(0.0), m.below(0.0)) == pytest.approx(expected.pvalue)
    lo, hi = expected.confidence_interval(0.98)
    assert (m.mean - m.half(0.02), m.mean + m.half(0.02)) == pytest.approx((lo, hi))


def test_a_start_that_was_never_repeated_widens_and_never_narrows():
    d = blocks(4, 0.0, 0.05)
    bare, wide = rule.moments(d), rule.moments(d, (2 * 0.007**2, 57))
    assert wide.half(0.05) >= bare.half(0.05)
    assert wide.p == 2 * min(wide.above(0.0), wide.below(0.0)) >= bare.p
    steady = blocks(10, 0.0, 0.001)
    assert rule.moments(steady, (2 * 0.007**2, 3)).half(0.05) > 2.5 * 0.007


def test_a_word_never_contradicts_its_interval():
    for seed in range(300):
        rng, members = np.random.default_rng(seed), {}
        for threads in (1, 4, 16):
            n = int(rng.integers(2, 13))
            members["on", threads] = np.arange(n), rng.normal(rng.normal(0, 0.03), 0.02, n)
        least = min(len(v) for _, v in members.values())
        means = np.mean([v[:least] for _, v in members.values()], 0)
        members["on", JOINT] = np.arange(least), means
        for o in rule.family(members, blocks=12, margin=M).values():
            excluded = o.lo > 0 or o.hi < 0
            within = o.same_lo > -M and o.same_hi < M
            if o.word == "same":
                assert within, seed
            elif o.word in ("slower", "faster"):
                assert excluded, seed
                assert (o.estimate > 0) == (o.word == "slower"), seed
            elif excluded or within:
                assert o.reason.startswith("too few blocks"), seed


def test_a_verdict_stays_as_it_was_at_the_look_that_gave_it():
    units = np.concatenate([blocks(8, 0.10), blocks(4, -0.10)])
    found = judged(units)
    assert (found.word, found.units) == ("slower", 8)
    assert found.estimate == pytest.approx(units[:8].mean())


def test_nothing_is_judged_between_the_looks():
    for ended in (False, True):  # what 7 of 12 may spend, 7 signs cannot reach
        assert judged(blocks(7, 0.10), ended=ended).word == "cannot tell"
    later = np.append(blocks(8, 0.0, 0.05), 5.0)
    assert judged(later, ended=False).units == 8
    assert judged(later).units == 9


def test_too_few_blocks_say_so_unless_the_difference_is_beyond_all_known_scatter():
    class Known:
        part, high = (0.1**2, 100), 0.1

    found = judged(blocks(5, 0.10), None)
    assert found.word == "cannot tell"
    assert found.reason == (
        "too few blocks (5): Student's t decides, the signs of the blocks do not"
    )
    assert judged(blocks(5, 0.10), None, population=Known).word == "cannot tell"
    found = judged(blocks(5, 2.3), None, population=Known)
    assert found.word == "slower"
    assert "published repeats" in found.reason


def test_without_a_declared_plan_it_is_judged_once_at_the_last_looks_level():
    found = judged(blocks(10, 0.03, 0.02), None)
    assert found.units == 10
    assert found.level == pytest.approx(spending.last_level(0.05, 10))


def test_many_campaigns_are_judged_as_one_is():
    units = np.random.default_rng(8).normal(0.008, 0.02, (200, 12))
    used, code = rule.decide(units, margin=M)
    words = {0: "cannot tell", 1: "slower", -1: "faster", 2: "same"}
    assert len(set(code)) > 2
    for row, n, c in zip(units, used, code, strict=True):
        one = judged(row)
        assert (one.word, one.units) == (words[int(c)], n)


# -- what would settle it --------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 0.02), (0.04, 0.03), (0.10, 0.05), (0.02, 0.02)])
def test_the_plan_is_enough_for_the_same_rule(mean, sd):
    k = plan.units_needed(mean, sd, M)
    enough, fewer = (
        (rule.decide(np.random.default_rng(seed).normal(mean, sd, (1500, n)), margin=M)[1] != 0)
        for seed, n in ((6, k), (7, max(4, round(0.6 * k))))
    )
    assert enough.mean() > 0.7  # 0.8 is asked for; t of few blocks is taken for normal
    assert fewer.mean() < enough.mean()


def test_the_last_level_that_plans_assume_is_the_rules():
    for n in (12, 40, 100):
        assert spending.last_level(0.05, n) / 0.05 == pytest.approx(plan.OBRIEN, abs=0.03)


def test_plans_ask_for_more_where_the_share_is_smaller_and_never_for_less_than_there_is():
    assert plan.units_needed(0.04, 0.03, M, share=0.003) > plan.units_needed(0.04, 0.03, M)
    assert plan.units_needed(0.04, 0.01, M, least=23) >= 23
    assert plan.runs_needed(0.0, 0.01, M, start=((2 * 0.05**2, 3),)) is None
    assert plan.units_needed(0.05, 0.0, M) == plan.FEWEST


# -- files -----------------------------------------------------------------------------------------


def test_an_estimate_takes_the_wider_of_its_two_readings():
    noisy = estimate.Estimate(0.05, ((0.03**2, 1), (0.03**2, 1)), ((2 * 0.005**2, 57),))
    assert noisy.half() >= estimate.Estimate(0.05, noisy.parts).half()
    steady = estimate.Estimate(0.05, ((0.001**2, 9), (0.001**2, 9)), ((2 * 0.01**2, 3),))
    assert steady.half() > 2 * estimate.Estimate(0.05, steady.parts).half()
    assert (steady.p <= 0.05) == (steady.half() < 0.05)


def test_same_is_both_one_sided_tests_at_five_percent():
    e = estimate.Estimate(0.002, ((0.005**2, 8), (0.005**2, 8)))
    low = scipy_stats.t.ppf(0.95, 16) * math.hypot(0.005, 0.005)
    assert e.inside(0.002 + low + 1e-6)
    assert not e.inside(0.002 + low - 1e-6)
    assert e.word(0.002 + low + 1e-6) == "same"
