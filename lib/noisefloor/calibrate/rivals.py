"""How others decide, on the same files: their documented formulas, written anew.

Each rival reads runs in the order of measuring. Unless said otherwise the tools measure one arm to
the end and then the other; "in pairs" gives them our coin-flipped pairs instead.

benchstat: two-sided Mann-Whitney U at 0.05, below four samples a warning instead of an answer.
hyperfine: its Welch script, t-test of unequal variances at 0.05, else "almost the same".
pyperf: pooled two-sample t against the 95 % point; one value on each side counts as significant.
"""

import itertools

import numpy as np
import pandas as pd
from scipy import signal, stats

from noisefloor.stats import synthetic

ALPHA = 0.05
RUNS = 10  # an arm
SECONDS = 60  # rows of one run
ROW_CV = 0.05
LONGEST = 60  # pairs
BLOCKS = 12  # that our rule makes of them


def welch(a, b):
    """Two-sided p of Welch's t-test along the last axis (rows, runs: whatever is handed in)."""
    return stats.ttest_ind(a, b, axis=-1, equal_var=False).pvalue


def benchstat(a, b):
    """p of the exact Mann-Whitney U; 1 below four samples, where it warns instead."""
    if min(np.shape(a)[-1], np.shape(b)[-1]) < 4:
        return np.ones(np.shape(a)[:-1])
    return stats.mannwhitneyu(a, b, axis=-1, method="exact").pvalue


def pyperf(a, b):
    """Whether pyperf's comparison says "Significant"."""
    if np.shape(a)[-1] == np.shape(b)[-1] == 1:
        return np.ones(np.shape(a)[:-1], bool)
    return stats.ttest_ind(a, b, axis=-1).pvalue <= ALPHA


# What each does with two samples of runs: True where it calls them different.
TESTS = {
    "Welch on runs, hyperfine": lambda a, b: welch(a, b) < ALPHA,
    "benchstat": lambda a, b: benchstat(a, b) < ALPHA,
    "pyperf compare": pyperf,
}
ROWS = "rows as replicates (Welch)", "one run an arm"
PEEKING = "t-test after every pair (peeking)", "in pairs"
OURS = "Noisefloor"


def grid(step=1):
    """Kinds of noise that the rivals are tried on."""
    kinds = itertools.product(synthetic.NOISES, ("iid", "AR 0.8"), synthetic.DRIFTS)
    return [
        dict(zip(("noise", "dependence", "drift"), kind, strict=True))
        for kind in itertools.islice(kinds, 0, None, step)
    ]


def synthetic_rates(given, n, seed, cv=0.015):
    """Rows (rival, order, noise, dependence, drift, n, count, value, lo, hi): how often each calls
    two identical arms different. cv: from run to run."""
    rng = np.random.default_rng(seed)
    x = synthetic.runs(*given.values(), cv, (n, 2 * LONGEST), rng)
    first = x[:, : 2 * RUNS]
    coin = rng.integers(0, 2, (n, LONGEST)) * 2 - 1
    d = coin * (x[:, 1::2] - x[:, ::2])
    lead, follow = first[:, ::2], first[:, 1::2]
    heads = coin[:, :RUNS] > 0
    dealt = np.where(heads, lead, follow), np.where(heads, follow, lead)
    # rows a second inside the first two runs, autocorrelated as rows are
    rows = rng.standard_normal((n, 2, SECONDS + 50))
    rows = ROW_CV * signal.lfilter([0.6], [1, -0.8], rows)[..., 50:] + first[:, :2, None]
    found = {ROWS: welch(rows[:, 0], rows[:, 1]) < ALPHA}
    for name, differs in TESTS.items():
        found[name, "all A, then all B"] = differs(np.exp(first[:, :RUNS]), np.exp(first[:, RUNS:]))
        found[name, "in pairs"] = differs(*map(np.exp, dealt))
    found[PEEKING] = synthetic.peeking(d)
    found[OURS, "in pairs"] = synthetic.different(d.reshape(n, BLOCKS, -1).mean(-1))
    return [_rate(key, given, hit.sum(), n) for key, hit in found.items()]


def on_files(runs, rows, *, draws=2000, seed=1, unit="pair"):
    """The same on a real A/A session: windows of ten runs an arm at every start for the tools, the
    whole with its coins dealt anew, `draws` times, for the two that look after every pair.

    runs: block, pair, arm, value, a row a run, in the order of measuring; rows: run (index of `runs`)
    and value per second, or None. unit: "pair" or "block", what our rule takes as the coin's."""
    x = np.log(runs["value"].to_numpy(float))
    pairs = runs.assign(x=x).pivot(index=["block", "pair"], columns="arm", values="x")
    sides = [pairs[arm].to_numpy() for arm in sorted(pairs.columns)]
    found, rng = {}, np.random.default_rng(seed)
    if rows is not None:
        both = runs.reset_index().groupby(["block", "pair"])["index"].apply(list)
        each = {run: g.to_numpy() for run, g in rows.groupby("run")["value"]}
        known = [(each[i], each[j]) for i, j in both if i in each and j in each]
        found[ROWS] = sum(float(welch(*two)) < ALPHA for two in known), len(known)
    windows = np.lib.stride_tricks.sliding_window_view
    after = windows(np.exp(x), 2 * RUNS)
    for name, differs in TESTS.items():
        hit = differs(after[:, :RUNS], after[:, RUNS:])
        found[name, "all A, then all B"] = hit.sum(), len(hit)
        hit = differs(*(windows(np.exp(v), RUNS) for v in sides))
        found[name, "in pairs"] = hit.sum(), len(hit)
    d = sides[0] - sides[1]

    def dealt(values):
        return (rng.integers(0, 2, (draws, len(values))) * 2 - 1) * values

    found[PEEKING] = synthetic.peeking(dealt(d)).sum(), draws
    blocks = pd.Series(d).groupby(pairs.index.get_level_values("block")).mean()
    units = blocks.to_numpy() if unit == "block" else d
    found[OURS, "in pairs"] = synthetic.different(dealt(units)).sum(), draws
    out = [_rate(key, {}, *counted) for key, counted in found.items()]
    nothing = {"lo": np.nan, "hi": np.nan}  # windows overlap: their share has no such bound
    return [row | nothing if row["rival"] in TESTS else row for row in out]


def bounds(count, n, alpha=0.05):
    """(lower, upper) bounds of rates by Clopper and Pearson, each at alpha / 2; arrays or numbers."""
    from statsmodels.stats.proportion import proportion_confint

    return proportion_confint(count, n, alpha, method="beta")


def bounded(count, n):
    """Columns of a rate: n, count, value and its 95 % bounds lo and hi."""
    lo, hi = bounds(int(count), int(n))
    return {"n": int(n), "count": int(count), "value": count / n, "lo": lo, "hi": hi}


def _rate(key, given, count, n):
    return {"rival": key[0], "order": key[1]} | given | bounded(count, n)
