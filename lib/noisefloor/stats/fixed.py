"""Fixed samples: k runs an arm, pairs, or one run with rows. No pandas and no scipy, so that the
answer to two numbers or to a folder of logs is there at once. Log scale; positive is worse."""

import math

import numpy as np

from noisefloor.stats import plan
from noisefloor.stats.two import KNOWN_RUNS

Estimate = plan.Estimate  # what the functions below make the parts of


def percent(value):
    """A log overhead in percent."""
    return 100 * math.expm1(value) if value < 700 else math.inf


def welch(x, y):
    """Parts of the difference of two means, from the logs of the runs (two or more an arm)."""
    return tuple((float(np.var(v, ddof=1)) / len(v), len(v) - 1) for v in (x, y))


def floor(cv_pct, df, terms=2):
    """The part that a run-to-run or start-to-start CV adds to the difference of two values."""
    return (terms * (cv_pct / 100) ** 2, df)


def holm(p):
    """Holm's adjusted p-values, in the order given."""
    out, top = list(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        top = max(top, min(1.0, p[i] * (len(p) - rank)))
        out[i] = top
    return out


def sign_flips(d):
    """Two-sided p of the mean under random signs: all of them up to 14 pairs, else 20,000."""
    d = np.asarray(d, float)
    n = len(d)
    if n <= 14:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1, 1], (20_000, n))
        signs[0] = 1
    return float((np.abs(signs @ d) >= abs(d.sum()) * (1 - 1e-12)).mean())


def mser5(rates):
    """Rows at the beginning that are warm-up: MSER-5 (White 1997), on means of five rows."""
    fives = np.asarray(rates, float)[: len(rates) // 5 * 5].reshape(-1, 5).mean(axis=1)
    mser = [fives[k:].var() / (len(fives) - k) for k in range(len(fives) // 2 + 1)]
    return 5 * int(np.argmin(mser))


def within(rates):
    """(standard error of the log mean, df, warnings) from rows of one run, or None below 20 rows.

    The warm-up is cut (`mser5`), then the means of ten batches stand for independent
    values: rows next to each other are alike, whole batches hardly."""
    rates = np.asarray(rates, float)
    if len(rates) < 20 or not (rates > 0).all():
        return None
    warnings = []
    if cut := mser5(rates):
        warnings.append(f"the first {cut} rows look like warm-up and do not count")
    kept = rates[cut:]
    batches = np.array([part.mean() for part in np.array_split(kept, min(10, len(kept) // 2))])
    early, late = np.array_split(batches, 2)
    spread = math.sqrt(early.var(ddof=1) / len(early) + late.var(ddof=1) / len(late))
    if spread and abs(early.mean() - late.mean()) > 4 * spread:
        warnings.append("throughput steps or drifts within the run")
    error = float(batches.std(ddof=1) / batches.mean()) / math.sqrt(len(batches))
    return error, len(batches) - 1, warnings


def deciding_cv(value, n, paired=False, alpha=0.05):
    """Run-to-run CV in percent below which a log overhead of `value` from n runs an arm (a pair of
    numbers) would be real; with one run an arm that CV has to be known from elsewhere, as well as
    the recorded A/A session knows it."""
    df = KNOWN_RUNS - 1 if min(n) < 2 else n[0] - 1 if paired else sum(n) - 2
    t = plan.t_quantile(1 - alpha / 2, df)
    return 100 * abs(value) / (t * math.sqrt(1 / n[0] + 1 / n[1]))


def runs_needed(value, sd, margin, *, paired=False, start=0.0, least=2, alpha=0.05, most=100_000):
    """Runs an arm (pairs when paired) after which 9 of 10 repetitions have a verdict, if `value`
    and `sd` (of one run, of one pair when paired) are the truth; None when no number does.

    start: variance that no repetition under the same server starts takes away."""
    if not sd > 0:
        return None
    sides = 1 if paired else 2

    def settles(n):
        se = math.sqrt(sides * sd**2 / n + start)
        t = plan.t_quantile(1 - alpha / 2, sides * (n - 1))
        return (t + 1.28) * se < abs(value) or (t + 1.65) * se < margin - abs(value)

    low = high = max(least, 2)
    while not settles(high):
        low, high = high, 2 * high
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if settles(middle) else (middle, high)
    return high
