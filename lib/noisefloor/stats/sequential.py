"""The sequential test: which differences the pairs so far rule out, valid at every look.

Every function takes arrays whose last axis is the order of measuring; any axes before it are
independent campaigns, so that the calibration runs ten thousand of them through this very code.
"""

import numpy as np

# Bets in units of the scale, and how the first coin is spread over them. Large bets end the
# obvious cases in six pairs, small ones resolve half a pair sd.
BETS = np.array([0.7, 1.5, 4.0])
LEAN = 0.4  # extra share of alpha, at the margin, for "the truth is nearer to zero"

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
    for bet in BETS:
        odds = np.exp(-2 * bet * x)
        up = up + np.cumprod(2 / (1 + odds), -1)
        down = down + np.cumprod(2 * odds / (1 + odds), -1)
    return up / len(BETS), down / len(BETS)


def against(d, theta, margin):
    """Running e-value against "the difference is theta", shaped like d, never falling.

    d: [..., n]; theta: [...] (broadcast). Half of the wealth is on either side when theta is zero
    or beyond twice the margin; at the margin, where only `same` depends on it, most of it is on
    the side of zero. One family of tests thus gives the interval and all verdicts.
    """
    theta = np.asarray(theta, float)[..., None]
    up, down = evidence(d - theta)
    lean = LEAN * np.clip(1 - np.abs(np.abs(theta) / margin - 1), 0, 1)
    inward = 0.5 + np.where(theta > 0, lean, -lean)
    return np.maximum.accumulate(inward * down + (1 - inward) * up, -1)


def decide(d, *, margin, alpha=0.05):
    """Verdict codes [..., n] after every look: the first decisive one stays until it becomes `same`.

    `slower` and `faster` when zero is ruled out, `same` when both margins are, from inside."""
    d = np.asarray(d, float)
    zero = np.zeros(d.shape[:-1])
    limit = 1 / alpha
    up, down = evidence(d)
    differs = np.maximum.accumulate((up + down) / 2, -1) >= limit
    sign = np.where(np.cumsum(d, -1) > 0, SLOWER, FASTER)
    inside = (against(d, zero + margin, margin) >= limit) & (
        against(d, zero - margin, margin) >= limit
    )
    return np.where(inside, SAME, np.where(differs, sign, CANNOT_TELL))


def interval(d, *, margin, alpha=0.05, points=48, rounds=4):
    """(lo, hi), each [...]: every difference that no look so far has ruled out at level alpha.

    Valid at every look at once. Infinite while the data cannot exclude anything (the first five
    pairs), and NaN where everything is ruled out: the effect changed under the campaign."""
    d = np.asarray(d, float)
    middle = np.median(d, -1)
    reach = 8 * np.max(np.abs(d - middle[..., None]), -1) + 1e-9
    ends = []
    for side in (-1, 1):
        near, far = np.zeros_like(middle), reach
        open_end = None
        for step in range(rounds):
            grid = near[..., None] + (far - near)[..., None] * np.linspace(0, 1, points)
            theta = middle[..., None] + side * grid
            kept = against(d[..., None, :], theta, margin)[..., -1] < 1 / alpha
            if step == 0:
                open_end, gone = kept[..., -1], ~kept.any(-1)
            last = points - 1 - np.argmax(kept[..., ::-1], -1)
            last = np.where(kept.any(-1), last, 0)
            near = np.take_along_axis(grid, last[..., None], -1)[..., 0]
            far = np.take_along_axis(grid, np.minimum(last + 1, points - 1)[..., None], -1)[..., 0]
        end = np.where(open_end, np.inf, middle * side + far)
        ends.append((side * np.where(gone, middle * side, end), gone))
    (lo, below), (hi, above) = ends
    empty = below & above
    return np.where(empty, np.nan, lo), np.where(empty, np.nan, hi)
