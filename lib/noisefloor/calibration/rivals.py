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
from scipy import signal, special, stats

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
    """(p, warning): exact Mann-Whitney U; p is 1 and a warning is given below four samples."""
    n = min(np.shape(a)[-1], np.shape(b)[-1])
    if n < 4:
        return np.ones(np.shape(a)[:-1]), "need >= 4 samples to detect a difference at alpha 0.05"
    return stats.mannwhitneyu(a, b, axis=-1, method="exact").pvalue, ""


def hyperfine(a, b):
    """The sentence that hyperfine's Welch script ends with, in short."""
    return "there is a difference" if welch(a, b) < ALPHA else "almost the same"


def pyperf(a, b):
    """True where pyperf's comparison says "Significant"."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    n, m = a.shape[-1], b.shape[-1]
    if n == 1 and m == 1:
        return np.ones(a.shape[:-1], bool)
    squares = sum(((x - x.mean(-1, keepdims=True)) ** 2).sum(-1) for x in (a, b))
    error = np.sqrt(squares / (n + m - 2) * 2 / n)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(a.mean(-1) - b.mean(-1)) / error
    return t >= special.stdtrit(n + m - 2, 1 - ALPHA / 2)


# What each does with two samples of runs: True where it calls them different.
TESTS = {
    "Welch on runs, hyperfine": lambda a, b: welch(a, b) < ALPHA,
    "benchstat": lambda a, b: benchstat(a, b)[0] < ALPHA,
    "pyperf compare": pyperf,
}
PEEKING = "t-test after every pair (peeking)"
OURS = "Noisefloor"


def grid(step=1):
    """Kinds of noise that the rivals are tried on."""
    kinds = itertools.product(synthetic.NOISES, ("iid", "AR 0.8"), synthetic.DRIFTS)
    return [
        dict(zip(("noise", "dependence", "drift"), kind, strict=True))
        for kind in itertools.islice(kinds, 0, None, step)
    ]


def synthetic_rates(given, seed, n, cv=0.015):
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
    found = {
        ("rows as replicates (Welch)", "one run an arm"): welch(rows[:, 0], rows[:, 1]) < ALPHA
    }
    for name, differs in TESTS.items():
        found[name, "all A, then all B"] = differs(np.exp(first[:, :RUNS]), np.exp(first[:, RUNS:]))
        found[name, "in pairs"] = differs(*map(np.exp, dealt))
    found[PEEKING, "in pairs"] = synthetic.peeking(d)
    found[OURS, "in pairs"] = synthetic.different(d.reshape(n, BLOCKS, -1).mean(-1))
    return [_rate(*key, hit.sum(), n, **given) for key, hit in found.items()]


def on_files(runs, rows, *, draws=2000, seed=1, unit="pair"):
    """The same on the runs of a real A/A session: a row a rival and order.

    runs: block, pair, position, arm, value, one row a run, in the order of measuring; rows: run,
    value per second (`run` is the index of `runs`), or None. Windows of ten runs an arm at every
    start for the tools; the whole session with its coins dealt anew, `draws` times, for the two
    that look after every pair. unit: "pair" or "block", what our rule takes as the coin's unit."""
    x = np.log(runs["value"].to_numpy(float))
    pairs = runs.assign(x=x).pivot(index=["block", "pair"], columns="arm", values="x")
    base, arm = sorted(pairs.columns)
    a, b = pairs[base].to_numpy(), pairs[arm].to_numpy()
    found = {}
    if rows is not None:
        both = runs.reset_index().groupby(["block", "pair"])["index"]
        each = {run: g.to_numpy() for run, g in rows.groupby("run")["value"]}
        hits = [
            float(welch(each[i], each[j])) < ALPHA
            for i, j in both.apply(list)
            if i in each and j in each
        ]
        found["rows as replicates (Welch)", "one run an arm"] = (sum(hits), len(hits))
    for name, differs in TESTS.items():
        after = np.lib.stride_tricks.sliding_window_view(np.exp(x), 2 * RUNS)
        hit = differs(after[:, :RUNS], after[:, RUNS:])
        found[name, "all A, then all B"] = (hit.sum(), len(hit))
        sides = [np.lib.stride_tricks.sliding_window_view(np.exp(v), RUNS) for v in (a, b)]
        hit = differs(*sides)
        found[name, "in pairs"] = (hit.sum(), len(hit))
    rng = np.random.default_rng(seed)
    d = a - b

    def dealt(values):
        return (rng.integers(0, 2, (draws, len(values))) * 2 - 1) * values

    found[PEEKING, "in pairs"] = (synthetic.peeking(dealt(d)).sum(), draws)
    blocks = pd.Series(d).groupby(pairs.index.get_level_values("block")).mean()
    units = blocks.to_numpy() if unit == "block" else d
    found[OURS, "in pairs"] = (synthetic.different(dealt(units)).sum(), draws)
    out = [_rate(*key, *counted) for key, counted in found.items()]
    nothing = {"lo": np.nan, "hi": np.nan}  # windows overlap: their share has no such bound
    return [row | nothing if row["rival"] in TESTS else row for row in out]


def _rate(rival, order, count, n, **given):
    lo, hi = synthetic.clopper_pearson(int(count), int(n))
    return {
        "rival": rival, "order": order, **given, "n": int(n), "count": int(count),
        "value": count / n, "lo": lo, "hi": hi,
    }  # fmt: skip
