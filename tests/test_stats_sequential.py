"""The sequential test: exact properties, and agreement of its parts."""

import itertools

import numpy as np
import pytest
from scipy import stats as scipy_stats

from noisefloor.stats import outcome, sequential

M = np.log(1.02)


@pytest.mark.parametrize("size", [[1.0] * 8, [1, 2, 3, 4, 5, 6, 7, 8], [100, 1, 1, 1, 1, 1, 1, 50]])
def test_e_value_averages_one_over_all_coin_flips(size):
    signs = np.array(list(itertools.product([-1, 1], repeat=8)))
    for wealth in sequential.evidence(signs * np.asarray(size, float)):
        assert wealth.mean(0) == pytest.approx(np.ones(8))


def test_e_value_averages_one_when_the_coin_stops_early():
    signs = np.array(list(itertools.product([-1, 1], repeat=10)))
    up, _ = sequential.evidence(signs * np.arange(1.0, 11.0))
    hit = up >= 5
    at = np.where(hit.any(1), hit.argmax(1), 9)
    assert up[np.arange(len(up)), at].mean() == pytest.approx(1)


def test_six_pairs_of_one_sign_decide_and_five_do_not():
    d = np.full(6, 0.05) + np.arange(6) * 1e-4
    assert sequential.codes(d, margin=M).tolist() == [0, 0, 0, 0, 0, sequential.SLOWER]
    assert sequential.codes(-d, margin=M)[-1] == sequential.FASTER
    assert np.isinf(sequential.interval(d[:5], margin=M)).all()


@pytest.mark.parametrize("theta", [0.0, 0.01, 0.02, 0.06])
def test_interval_and_codes_say_the_same(theta):
    rng = np.random.default_rng(1)
    d = theta + 0.02 * rng.standard_t(4, (300, 25))
    lo, hi = sequential.interval(d, margin=M)
    words = [outcome.verdict(a, b, M) for a, b in zip(lo, hi, strict=True)]
    codes = [sequential.WORDS[c] for c in sequential.codes(d, margin=M)[:, -1]]
    assert np.mean([w == c for w, c in zip(words, codes, strict=True)]) > 0.99


def test_interval_moves_with_the_data_and_scales_with_it():
    d = np.random.default_rng(3).normal(0, 0.05, 30)
    far = 1e-6  # a margin so small that no point of the interval leans
    lo, hi = sequential.interval(d, margin=far)
    assert sequential.interval(d + 1, margin=far) == pytest.approx((lo + 1, hi + 1), abs=1e-3)
    assert sequential.interval(3 * d, margin=far) == pytest.approx((3 * lo, 3 * hi), abs=1e-3)


def test_a_batch_of_campaigns_is_judged_like_each_alone():
    rng = np.random.default_rng(2)
    d = rng.normal(0.01, 0.02, (20, 24))
    block = np.repeat(np.arange(6), 4)
    for design in ("switched", "side by side"):
        batch = sequential.decide(d, block, design=design, margin=M)
        alone = [sequential.decide(x, block, design=design, margin=M) for x in d]
        assert (batch == alone).all()


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ([0, 0, 0], [0, 0, 1]),
        ([0, 0, 1, 1], [0, 1, 1, 2]),
        ([0, 0, 1, 2, 2], [0, 1, 1, 2, 3]),  # a block cut short counts once it is left
        ([0, 0, 1], [0, 1, 1]),
    ],
)
def test_complete_blocks(block, expected):
    assert sequential.complete(block).tolist() == expected


def test_unequal_is_the_one_way_f_test_at_every_look():
    rng = np.random.default_rng(4)
    block = np.repeat(np.arange(6), 5)
    d = rng.normal(size=(40, 30)) + np.repeat(rng.normal(size=(40, 6)), 5, 1) * 0.4
    for look in (12, 19, 22, 29):
        flags = sequential.unequal(d, block)[:, look]
        for row, flag in zip(d, flags, strict=True):
            groups = [row[: look + 1][block[: look + 1] == b] for b in range(block[look] + 1)]
            p = scipy_stats.f_oneway(*groups).pvalue
            level = sequential.UNEQUAL if len(groups) >= 4 else sequential.UNEQUAL_FEW
            assert flag == (p < level)


def test_side_by_side_one_long_block_never_decides():
    d = np.full(60, 0.05)
    assert not sequential.decide(d, np.zeros(60), design="side by side", margin=M).any()
