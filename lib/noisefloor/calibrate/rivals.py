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

from noisefloor.calibrate import live
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
OURS = "Noisefloor", "in pairs"
ORDERS = "all A, then all B", "in pairs"


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
    one_after_other = first[:, :RUNS], first[:, RUNS:]
    found |= _tools([np.exp(v) for v in one_after_other], [np.exp(v) for v in dealt])
    found[PEEKING] = synthetic.peeking(d)
    found[OURS] = synthetic.different(d.reshape(n, BLOCKS, -1).mean(-1))
    return _rates(found, given)


def on_campaign(r):
    """`on_files` of two identical servers, the pairs in turn of a campaign at 4 threads, TPS and CPU
    per transaction: `labelled` rows with the metric. Raises live.TooShort."""
    every, out = r.judged(r.main), []
    every = every[every["threads"] == 4]
    if every["pair_id"].nunique() < RUNS:
        raise live.TooShort(f"{r.folder.name} has fewer than {RUNS} pairs at 4 threads")
    every = every.assign(start=every["run"].map(r.runs.set_index("run")["start"]))
    rates = {run: g.to_numpy() for run, g in r.intervals(r.main).groupby("run")["tps"]}
    for metric in live.METRICS:
        runs = every[every["metric"] == metric].sort_values("start")
        found = on_files(runs, rates if metric == "tps" else {})
        out += [row | {"metric": metric} for row in found]
    return labelled(pd.DataFrame(out))


def on_files(runs, rates, *, draws=2000, seed=1):
    """The same on a real A/A session: windows of ten runs an arm at every start for the tools, the
    whole with its coins dealt anew, `draws` times, for the two that look after every pair.

    runs: run, block, pair, arm, value, a row a run, in the order of measuring; rates: {run: its values
    per second}, empty where there are none."""
    found = {}
    if rates:
        both = runs.groupby(["block", "pair"])["run"].apply(list)
        known = [(rates[i], rates[j]) for i, j in both if i in rates and j in rates]
        found[ROWS] = np.array([welch(*two) < ALPHA for two in known])
    pairs = runs.pivot(index=["block", "pair"], columns="arm", values="value").astype(float)
    windows = np.lib.stride_tricks.sliding_window_view
    after = windows(runs["value"].to_numpy(float), 2 * RUNS)
    dealt = [windows(pairs[arm].to_numpy(), RUNS) for arm in sorted(pairs)]
    found |= _tools((after[:, :RUNS], after[:, RUNS:]), dealt)
    one, other = (np.log(pairs[arm]) for arm in sorted(pairs))
    blocks, rng = (one - other).groupby("block").mean(), np.random.default_rng(seed)
    for key, judge, units in (
        (PEEKING, synthetic.peeking, one - other),
        (OURS, synthetic.different, blocks),
    ):
        coins = rng.integers(0, 2, (draws, len(units))) * 2 - 1
        found[key] = judge(coins * units.to_numpy())
    nothing = {"lo": np.nan, "hi": np.nan}  # windows overlap: their share has no such bound
    return [row | nothing if row["rival"] in TESTS else row for row in _rates(found, {})]


def _tools(one_after_other, in_pairs):
    """{(tool, order): whether it calls the two samples of each row different}."""
    ways = dict(zip(ORDERS, (one_after_other, in_pairs), strict=True))
    return {(tool, way): TESTS[tool](*two) for tool in TESTS for way, two in ways.items()}


def labelled(rates):
    """Rates with what they are called in figures, and percent."""
    return rates.assign(
        label=rates["rival"] + ", " + rates["order"],
        ours=rates["rival"] == OURS[0],
        alarm_pct=100 * rates["value"],
    )


def bounds(count, n, alpha=0.05):
    """(lower, upper) bounds of rates by Clopper and Pearson, each at alpha / 2; arrays or numbers."""
    from statsmodels.stats.proportion import proportion_confint

    return proportion_confint(count, n, alpha, method="beta")


def bounded(count, n):
    """Columns of a rate: n, count, value and its 95 % bounds lo and hi."""
    lo, hi = bounds(int(count), int(n))
    return {"n": int(n), "count": int(count), "value": count / n, "lo": lo, "hi": hi}


def _rates(found, given):
    """How often each calls two identical arms different: rows of {(rival, order): whether it does}."""
    return [
        {"rival": rival, "order": order} | given | bounded(hit.sum(), len(hit))
        for (rival, order), hit in found.items()
    ]
