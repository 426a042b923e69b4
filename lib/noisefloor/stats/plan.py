"""What it takes to settle a question: Student's t, the CV that would decide, pairs and seconds.

Plain Python: `noisefloor judge` answers in a third of a second, and importing scipy takes longer.
"""

import functools
import math

from noisefloor.stats.outcome import verdict

DOUBT = 1.5  # times by which a floor may have been underestimated without a false `same`
FEWEST = 6  # the signs of fewer units cannot reach 5 % on both sides


def t_tail(t, df):
    """P(T > t) for Student's t with df degrees of freedom (df may be inf)."""
    if df == math.inf:
        return math.erfc(t / math.sqrt(2)) / 2
    x = df / (df + t * t)
    tail = _beta(df / 2, 0.5, x) / 2
    return tail if t > 0 else 1 - tail


@functools.cache
def t_quantile(q, df):
    """The q-quantile of Student's t, by bisection."""
    if q < 0.5:
        return -t_quantile(1 - q, df)
    low, high = 0.0, 1.0
    while t_tail(high, df) > 1 - q:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, df) > 1 - q else (low, middle)
    return (low + high) / 2


def _beta(a, b, x):
    """Regularised incomplete beta function by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, 500):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + step * d or tiny)
            c = 1 + step / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * value / a


def welch(overhead, terms, alpha=0.05):
    """(lo, hi, p, df) of a log difference whose variance is a sum of estimated variances.

    terms: [(variance, degrees of freedom), ...] (Welch-Satterthwaite). Without terms nothing is
    known: infinite bounds, p NaN."""
    variance = sum(v for v, _ in terms)
    if not terms:
        return -math.inf, math.inf, math.nan, math.nan
    if variance == 0:
        return overhead, overhead, float(overhead == 0), math.inf
    df = variance**2 / sum(v**2 / k for v, k in terms)
    error = math.sqrt(variance)
    half = t_quantile(1 - alpha / 2, df) * error
    return overhead - half, overhead + half, 2 * t_tail(abs(overhead) / error, df), df


def judged(overhead, terms, floor, margin, alpha=0.05):
    """(verdict, (lo, hi, p, df)) for `terms` as in `welch` plus the floor's [(variance, df)].

    A floor comes from other runs than these. `same` therefore must also hold, at level alpha, if
    the floor was measured DOUBT times too small."""
    found = welch(overhead, [*terms, *floor], alpha)
    word = verdict(found[0], found[1], margin)
    if word == "same" and floor:
        doubtful = [*terms, *((DOUBT**2 * v, k) for v, k in floor)]
        lo, hi, *_ = welch(overhead, doubtful, 2 * alpha)
        word = verdict(lo, hi, margin)
        word = word if word == "same" else "cannot tell"
    return word, found


def deciding_cv(overhead, df, alpha=0.05):
    """Run-to-run CV (a fraction) below which two single runs differing by `overhead` (log) differ
    really: |L| / (t sqrt 2), when the CV is known from df + 1 A/A runs."""
    return abs(overhead) / (t_quantile(1 - alpha / 2, df) * math.sqrt(2))


def units_needed(estimate, sd, margin, alpha=0.05):
    """Units (pairs, or blocks side by side) in all after which the sequential test usually has its
    verdict, if `estimate` and the sd of one unit are the truth (all on the log scale).

    5 + 9 (sd / distance)^2, fitted to the calibration between half and three sd; the distance is
    to zero (slower, faster) or to the margin (same), whichever is farther."""
    if not sd > 0:
        return FEWEST
    distance = max(abs(estimate), margin - abs(estimate)) / sd
    if distance < 1e-3:
        return math.inf
    return max(FEWEST, math.ceil((5 + 9 / distance**2) * math.log(1 / alpha) / math.log(20)))


def slice_seconds(cost_s, within_sd, tau_s, between_sd):
    """Cheapest length of a slice in seconds: sqrt(C s_w^2 tau / s_r^2).

    cost_s: seconds lost per run (switch, settle, ramp); within_sd: sd of one second's log rate;
    tau_s: its integrated autocorrelation time; between_sd: sd between runs beyond that. inf when
    runs differ by no more than their seconds explain: then one length is as good as another."""
    if not between_sd > 0:
        return math.inf
    return math.sqrt(cost_s * within_sd**2 * tau_s) / between_sd
