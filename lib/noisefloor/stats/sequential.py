"""The sequential test: which differences the pairs so far rule out, valid at every look.

Every function takes arrays whose last axis is the order of measuring; any axes before it are
independent campaigns, so that the calibration runs ten thousand of them through this very code.
"""

import numpy as np
from scipy import special

# Bets in units of the scale, and how the wealth is spread over them: the large one ends obvious
# cases in six pairs, the small one lets a long campaign resolve a fifth of the pair sd.
BETS = np.array([0.2, 0.7, 2.5])
SHARES = np.array([0.1, 0.3, 0.6])
LEAN = 0.4  # extra share of alpha, at the margin, for "the truth is nearer to zero"
# p of the F test below which the starts count as different: generous where missing a difference
# is the dearer mistake, strict for the few starts that could only cry wolf.
UNEQUAL, UNEQUAL_FEW, FEW_STARTS = 0.4, 0.1, 4

CANNOT_TELL, SLOWER, FASTER, SAME = 0, 1, -1, 2
WORDS = {CANNOT_TELL: "cannot tell", SLOWER: "slower", FASTER: "faster", SAME: "same"}


def evidence(y):
    """Two running e-values for "y is centred on zero": against it from above, and from below.

    y: [..., n], in the order of measuring. Returns (up, down), each shaped like y; `up` grows when
    y lies above zero. Given |y_1|..|y_i| and the past, the sign of y_i is a fair coin when the
    order inside each pair was dealt by coin, whatever the noise looks like; a bet of a fraction
    tanh(b |y_i| / s_i) of the wealth on that sign therefore multiplies it by
    2 / (1 + exp(-2 b y_i / s_i)), with expectation 1. The scale s_i is the squared mean root of
    |y_1|..|y_i|: close to their median, little moved by stalls, and a running sum.
    """
    y = np.asarray(y, float)
    root = np.sqrt(np.abs(y))
    scale = (np.cumsum(root, -1) / np.arange(1, y.shape[-1] + 1)) ** 2
    x = np.clip(np.divide(y, scale, out=np.zeros_like(y), where=scale > 0), -25, 25)
    up = down = 0.0
    for bet, share in zip(BETS, SHARES, strict=True):
        odds = np.exp(-2 * bet * x)
        gain = 2 / (1 + odds)
        up = up + share * np.cumprod(gain, -1)
        down = down + share * np.cumprod(gain * odds, -1)
    return up, down


def against(d, theta, margin):
    """E-value after every look against "the difference is theta", shaped like d.

    d: [..., n]; theta: [...] (broadcast). Half of the wealth is on either side when theta is zero
    or beyond twice the margin; at the margin, where only `same` depends on it, most of it is on
    the side of zero. One family of tests thus gives the interval and all verdicts.
    """
    theta = np.asarray(theta, float)[..., None]
    up, down = evidence(d - theta)
    lean = LEAN * np.clip(1 - np.abs(np.abs(theta) / margin - 1), 0, 1)
    inward = 0.5 + np.where(theta > 0, lean, -lean)
    return inward * down + (1 - inward) * up


def codes(d, *, margin, alpha=0.05):
    """Verdict code after every look [..., n], for independent units d.

    `same` when both margins are ruled out from inside, else `slower` or `faster` when zero is."""
    d = np.asarray(d, float)
    limit, inward = 1 / alpha, 0.5 + LEAN
    up, down = evidence(d)
    inside = (inward * evidence(d - margin)[1] >= limit) & (
        inward * evidence(d + margin)[0] >= limit
    )
    differs = np.where((up + down) / 2 >= limit, np.where(up > down, SLOWER, FASTER), CANNOT_TELL)
    return np.where(inside, SAME, differs)


def complete(block):
    """How many blocks are complete at every look [n]: those left, and one with as many pairs as
    the first."""
    block = np.asarray(block)
    starts = _starts(block)
    current = np.searchsorted(starts, np.arange(len(block)), side="right")
    done = np.arange(len(block)) - starts[current - 1] + 1
    first = starts[1] if len(starts) > 1 else len(block)
    return np.where(done >= first, current, current - 1)


def means(d, block):
    """Mean of every block, [..., blocks]; blocks lie one after the other."""
    d, starts = np.asarray(d, float), _starts(block)
    return np.add.reduceat(d, starts, -1) / np.diff(np.append(starts, d.shape[-1]))


def unequal(d, block):
    """True [..., n] at looks where the blocks differ by more than their pairs explain: one-way
    F test at the level UNEQUAL (UNEQUAL_FEW below FEW_STARTS blocks)."""
    d = np.asarray(d, float)
    n = d.shape[-1]
    starts = _starts(block)
    sums = np.cumsum(d, -1)
    squares = np.cumsum(d * d, -1)
    out = np.zeros(d.shape, bool)
    left = np.zeros(d.shape[:-1])  # sum over the blocks left of total^2 / size
    before = np.zeros(d.shape[:-1])
    for k, start in enumerate(starts):
        end = starts[k + 1] if k + 1 < len(starts) else n
        looks = np.arange(start, end)
        fitted = left[..., None] + (sums[..., start:end] - before[..., None]) ** 2 / (
            looks - start + 1
        )
        df = looks + 1 - (k + 1)
        if k:
            between = (fitted - sums[..., start:end] ** 2 / (looks + 1)) / k
            within = (squares[..., start:end] - fitted) / np.maximum(df, 1)
            rounding = 1e-12 * squares[..., start:end]
            out[..., start:end] = (between > within * _f_limit(k, df) + rounding) & (df > 0)
        left, before = fitted[..., -1], sums[..., end - 1]
    return out


def block_interval(d, block, *, alpha=0.05):
    """(lo, hi), each [..., n]: Student's t on the complete blocks at every look, at a tenth of alpha
    because it is looked at after every pair. Infinite for fewer than two blocks."""
    values = means(d, block)
    k = np.arange(1, values.shape[-1] + 1)
    mean = np.cumsum(values, -1) / k
    centred = values - mean[..., -1:]  # sums of squares of small numbers
    square = np.cumsum(centred**2, -1) - k * (mean - mean[..., -1:]) ** 2
    error = np.sqrt(np.maximum(square, 0) / np.maximum(k - 1, 1) / k)
    half = np.where(k > 1, special.stdtrit(np.maximum(k - 1, 1), 1 - alpha / 20) * error, np.inf)
    nothing = np.full((*values.shape[:-1], 1), np.inf)
    at = complete(block)
    lo = np.concatenate([-nothing, mean - half], -1)[..., at]
    return lo, np.concatenate([nothing, mean + half], -1)[..., at]


def decide(d, block=None, *, design="switched", margin, alpha=0.05):
    """Verdict code after every pair [..., n]: the whole rule.

    block: [n], the same for all campaigns. Side by side (and duet): the blocks that are complete are
    the units. "switched": the pairs are, and where the starts differ by more than their pairs explain
    the interval of the block means must agree."""
    d = np.asarray(d, float)
    block = np.zeros(d.shape[-1], int) if block is None else np.asarray(block)
    if design != "switched":
        by_block = codes(means(d, block), margin=margin, alpha=alpha)
        nothing = np.full((*d.shape[:-1], 1), CANNOT_TELL)
        return np.concatenate([nothing, by_block], -1)[..., complete(block)]
    by_pair = codes(d, margin=margin, alpha=alpha)
    if len(_starts(block)) == 1:
        return by_pair
    lo, hi = block_interval(d, block, alpha=alpha)
    agrees = np.select(
        [by_pair == SAME, by_pair == SLOWER, by_pair == FASTER],
        [(lo > -margin) & (hi < margin), lo > 0, hi < 0],
        True,
    )
    return np.where(agrees | ~unequal(d, block), by_pair, CANNOT_TELL)


def stop(codes, allowed=None):
    """(looks, code) at the first look with a verdict: number of pairs used [...] and its code;
    all pairs and CANNOT_TELL when there is none. allowed: [n] looks at which stopping is allowed."""
    hit = codes != CANNOT_TELL
    if allowed is not None:
        hit = hit & allowed
    any_hit = hit.any(-1)
    first = np.where(any_hit, hit.argmax(-1), codes.shape[-1] - 1)
    code = np.take_along_axis(codes, first[..., None], -1)[..., 0]
    return first + 1, np.where(any_hit, code, CANNOT_TELL)


def interval(d, *, margin, alpha=0.05, points=40, rounds=3):
    """(lo, hi), each [...]: every difference that the units so far do not rule out at level alpha.

    Valid at every look at once; the looks are not intersected, so that the interval always speaks
    for all units. Infinite while nothing can be excluded (the first five units)."""
    d = np.asarray(d, float)
    middle = np.median(d, -1)
    reach = 8 * np.max(np.abs(d - middle[..., None]), -1) + 1e-9
    even = np.linspace(0, 1, points)
    middle, reach = middle[..., None], reach[..., None]
    side = np.array([-1.0, 1.0])  # the last axis: the lower and the upper end
    near, far = np.zeros((*middle.shape[:-1], 2)), np.repeat(reach, 2, -1)
    for step in range(rounds):
        share = even if step else even**3  # the ends are nearer to the middle than to the reach
        grid = near[..., None] + (far - near)[..., None] * share
        theta = middle[..., None] + side[:, None] * grid
        kept = against(d[..., None, None, :], theta, margin)[..., -1] < 1 / alpha
        if step == 0:
            unbounded = kept[..., -1]
        last = np.where(kept.any(-1), points - 1 - np.argmax(kept[..., ::-1], -1), 0)
        near = np.take_along_axis(grid, last[..., None], -1)[..., 0]
        following = np.minimum(last + 1, points - 1)
        far = np.take_along_axis(grid, following[..., None], -1)[..., 0]
    ends = np.where(unbounded, side * np.inf, middle + side * far)
    return ends[..., 0], ends[..., 1]


def _starts(block):
    """Index of the first pair of every block."""
    block = np.asarray(block)
    return np.flatnonzero(np.append(True, block[1:] != block[:-1]))


def _f_limit(between, within):
    """F above which blocks count as different; arrays of degrees of freedom."""
    level = UNEQUAL if between + 1 >= FEW_STARTS else UNEQUAL_FEW
    return special.fdtri(between, np.maximum(within, 1), 1 - level)
