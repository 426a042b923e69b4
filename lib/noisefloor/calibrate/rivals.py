"""The usual methods on the same runs, by the formulas in their documentation.

benchstat: two-sided Mann-Whitney U at 0.05. hyperfine: its Welch script, t-test of unequal
variances at 0.05. Rows as replicates: the same test on the seconds of one run an arm. These
tools measure one arm to the end and then the other."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import signal, stats

from noisefloor.calibrate import synthetic
from noisefloor.stats.verdict import ALPHA

ROW_CV = 0.05


def welch(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Two-sided p of Welch's t-test along the last axis."""
    return stats.ttest_ind(a, b, axis=-1, equal_var=False).pvalue


def benchstat(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """p of the exact Mann-Whitney U; 1 below four samples, where it warns instead."""
    if min(np.shape(a)[-1], np.shape(b)[-1]) < 4:
        return np.ones(np.shape(a)[:-1])
    return stats.mannwhitneyu(a, b, axis=-1, method="exact").pvalue


def rates(given: Mapping[str, Any], n: int, rng: np.random.Generator) -> dict[str, int]:
    """How often each method calls two identical arms different, in n sessions: {rival: count}.

    given: drift, cv (from run to run), runs (an arm) and seconds (rows of a run)."""
    k = given["runs"]
    x = synthetic.simulated_runs("normal", 0.0, given["drift"], given["cv"], (n, 2 * k), rng)
    rows = signal.lfilter([0.6], [1, -0.8], rng.standard_normal((n, 2, given["seconds"] + 50)))
    rows = ROW_CV * rows[..., 50:] + x[:, :2, None]  # autocorrelated, as rows a second are
    pairs = (x[:, 1::2] - x[:, ::2]) * (rng.integers(0, 2, (n, k)) * 2 - 1)
    first, second = x[:, :k], x[:, k:]
    differ = {
        "rows as replicates": welch(rows[:, 0], rows[:, 1]) < ALPHA,
        "hyperfine (Welch)": welch(first, second) < ALPHA,
        "benchstat": benchstat(first, second) < ALPHA,
        "Noisefloor, in coin-flipped pairs": synthetic.different(pairs),
    }
    return {name: int(hit.sum()) for name, hit in differ.items()}


def bounds(count: Any, n: Any, alpha: float = ALPHA) -> tuple[Any, Any]:
    """(lower, upper) bounds of rates by Clopper and Pearson, each at alpha / 2; arrays or numbers."""
    from statsmodels.stats.proportion import proportion_confint

    return proportion_confint(count, n, alpha, method="beta")
