"""One rule for every claim, one unit for both numbers; and whether an order falls or rises."""

import itertools

import numpy as np
import pytest
from scipy.stats import kendalltau

from noisefloor.claims import agree, order


@pytest.mark.parametrize(
    ("percent", "ahead", "of_leader", "expected"),
    [
        (35, False, True, -35.0),  # 35 % of the number of the one ahead
        (35, False, False, 100 * (1 / 1.35 - 1)),  # 35 % of the arm's own
        (15, True, False, 15.0),
        (15, True, True, 100 * (1 / 0.85 - 1)),
        (0, True, True, 0.0),
    ],
)
def test_a_share_of_either_number_becomes_a_change_of_the_arm(percent, ahead, of_leader, expected):
    change = agree.change_of_claim(percent, ahead=ahead, of_leader=of_leader)
    assert change == pytest.approx(expected)


@pytest.mark.parametrize(
    ("claimed", "ours", "word"),
    [
        (agree.claimed(5.0), (4.0, 6.0), agree.AGREES),
        (agree.claimed(5.0), (5.0, 6.0), agree.AGREES),
        (agree.claimed(5.0), (5.1, 6.0), agree.DISAGREES),
        (agree.claimed(0.0), (-1.0, 2.0), agree.AGREES),
        (agree.claimed(0.0), (0.5, 2.0), agree.DISAGREES),
        (agree.claimed(-9.0, most=True), (-7.0, -4.0), agree.AGREES),
        (agree.claimed(-9.0, most=True), (-12.0, -9.5), agree.DISAGREES),
        (agree.claimed(-9.0, most=True), (1.0, 3.0), agree.DISAGREES),
    ],
)
def test_a_claim_agrees_where_its_number_lies_in_our_range(claimed, ours, word):
    assert agree.agreement(claimed, ours) == word


# -- an order --------------------------------------------------------------------------------------


def test_five_in_falling_order_are_one_order_of_sixty():
    found = order.trend([[5.0], [4.0], [3.0], [2.0], [1.0]])
    assert (found.tau, found.p) == (pytest.approx(-1), pytest.approx(1 / 60))
    assert found.decided
    counted = [kendalltau(range(5), order).statistic for order in itertools.permutations(range(5))]
    assert found.p == pytest.approx(np.mean(np.abs(counted) > 1 - 1e-9))


def test_four_cannot_be_told_and_two_are_no_order():
    assert not order.trend([[4.0], [3.0], [2.0], [1.0]]).decided
    assert order.trend([[2.0], [1.0]]) is None
    assert order.trend([[2.0], [], [1.0]]) is None
    assert order.trend([[1.0], [1.0], [1.0]]) is None  # all equal: no order either


def test_equal_groups_rarely_look_like_an_order():
    """At most one in twenty, with one value a group and with three."""
    rng = np.random.default_rng(52)
    for each in (1, 3):
        draws = rng.normal(size=(400, 5, each))
        falls = np.mean([order.trend([list(g) for g in groups]).decided for groups in draws])
        assert falls < 0.08


def test_several_runs_a_group_count_as_such():
    steady = order.trend([[10.0, 10.2, 9.9], [9.5, 9.6, 9.4], [9.0, 9.1, 8.9]])
    assert steady.decided
    assert steady.tau < -0.8


def test_claims_are_counted_by_their_word():
    words = [agree.DISAGREES, agree.NOT_COMPARABLE, agree.AGREES, agree.AGREES]
    assert agree.in_numbers(words) == "2 agree, 1 disagrees, 1 not comparable"
    assert agree.in_numbers([agree.AGREES]) == "1 agrees"
    assert agree.in_numbers([]) == ""
