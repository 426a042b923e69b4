"""Fits how far two runs of one unchanged server differ: `fit.py` writes ``stats/prediction.json``.

The model is a random-effects one, in which each source counts once however many groups it holds:

    log CV of a group ~ normal(mean of its source, within)
    mean of a source  ~ normal(mean of all sources, between)
    variance that the n repeats of a group show ~ CV^2 * chi-square(n - 1) / (n - 1)

Priors: flat for the overall mean and for `within`; half-normal with scale 1 for `between`, which
allows sources to differ by a factor of e and more (Gelman 2006, Bayesian Analysis 1:515; Roever et
al. 2021, Research Synthesis Methods 12:448). The posterior is summed on a grid, so that the same
groups give the same file. The prediction for a source that nobody has seen is the posterior mean of
its distribution: what a handful of sources cannot tell makes it wider. Two runs then differ by the
normal distribution with twice the variance of one, mixed over that prediction.
"""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special, stats

from noisefloor import stats as ours

HERE = Path(__file__).parent
OUT = Path(ours.__file__).with_name("prediction.json")
LONG_S = 60
FEWEST = 3  # sources
EXPERIMENTAL = ("EvgeniyPatlan/tidesdb-mysql", "tidesdb/tidesdb.github.io")  # see README.md
# share of pairs of runs that differ by more than what stands at the same place of `log_ratios`
SHARES = [0.99, 0.97, 0.94, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.35, 0.3]
SHARES += [0.26, 0.23, 0.2, 0.18, 0.16, 0.14, 0.12, 0.1, 0.085, 0.07, 0.06, 0.05, 0.04, 0.03, 0.025]
SHARES += [0.02, 0.015, 0.01, 0.007, 0.005, 0.003, 0.002, 0.001, 5e-4, 2e-4, 1e-4, 1e-5]
CV = np.linspace(math.log(1e-4), math.log(30), 500)  # grids on the log scale
MEAN = np.linspace(math.log(5e-4), math.log(5), 120)
WITHIN = np.linspace(0.05, 2, 27)
BETWEEN = np.geomspace(0.02, 6, 48)
RATIOS = np.geomspace(1e-6, 60, 3000)  # |log ratio| of two runs


def likelihood(groups: pd.DataFrame) -> np.ndarray:
    """Log likelihood of one source's groups, [WITHIN, MEAN]: columns cv_pct and n."""
    df = groups["n"].to_numpy(float)[:, None] - 1
    cv = groups["cv_pct"].to_numpy(float)[:, None] / 100
    each = -df * CV - df * cv**2 / (2 * np.exp(2 * CV))
    each = np.exp(each - each.max(axis=1, keepdims=True))
    normal = stats.norm.pdf(CV[:, None], MEAN, WITHIN[:, None, None])
    return np.log(each @ normal + 1e-300).sum(axis=1)


def posterior(sources: list[np.ndarray]) -> np.ndarray:
    """Probability of [WITHIN, BETWEEN, MEAN], from the `likelihood` of each source."""
    log = np.log(np.exp(-(BETWEEN**2) / 2) * np.gradient(BETWEEN))[None, :, None]
    log = log + np.zeros((len(WITHIN), len(BETWEEN), len(MEAN)))
    for j, between in enumerate(BETWEEN):
        spread = stats.norm.pdf(MEAN[:, None], MEAN, between)
        spread /= spread.sum(axis=0)
        for of in sources:
            top = of.max(axis=1, keepdims=True)
            log[:, j] += np.log(np.exp(of - top) @ spread + 1e-300) + top
    out: np.ndarray = np.exp(log - log.max())
    return out / out.sum()


def predicted(p: np.ndarray) -> np.ndarray:
    """Probability of each CV for a server of another source."""
    out = np.zeros(len(CV))
    for (i, j), share in np.ndenumerate(p.sum(axis=2)):
        if share > 1e-9:
            out += stats.norm.pdf(CV[:, None], MEAN, math.hypot(WITHIN[i], BETWEEN[j])) @ p[i, j]
    return out / out.sum()


def log_ratios(cv: np.ndarray) -> np.ndarray:
    """|log ratio| that SHARES of pairs of runs exceed."""
    shares = special.erfc(RATIOS[:, None] / (2 * np.exp(CV))) @ cv
    return np.exp(np.interp(np.log(SHARES[::-1]), np.log(shares[::-1]), np.log(RATIOS[::-1])))[::-1]


def inside(groups: pd.DataFrame, half: float) -> float:
    """Percent of the pairs of repeats in these groups that differ by less than `half`, each group
    counted once, its repeats taken to be normal with the scatter that they show."""
    cv = groups["cv_pct"].to_numpy(float) / 100
    return round(100 * float(special.erf(half / (2 * cv)).mean()), 1)


def fitted(groups: pd.DataFrame) -> dict[str, object] | None:
    """The fit to the groups of a metric and a length of runs; None for fewer than FEWEST sources."""
    by = dict(list(groups.groupby("source")))
    like = {s: likelihood(g) for s, g in by.items() if s not in EXPERIMENTAL}
    if len(like) < FEWEST:
        return None
    p = posterior(list(like.values()))
    cv, ratios = predicted(p), log_ratios(predicted(p))
    middle, high = np.interp([0.5, 0.8], np.cumsum(cv), CV)
    mean = float(cv @ CV)
    checked = []
    for source, g in by.items():  # a source that is in the fit is left out of it
        other = ratios
        if source in like:
            other = log_ratios(predicted(posterior([x for s, x in like.items() if s != source])))
        share = inside(g, float(other[SHARES.index(0.05)]))
        known = {"source": source, "groups": len(g), "inside_pct": share}
        checked.append(known | {"experimental": source in EXPERIMENTAL})
    return {
        "sources": len(like),
        "groups": sum(len(by[s]) for s in like),
        "median_cv_pct": round(100 * math.exp(middle), 3),
        "high_cv_pct": round(100 * math.exp(high), 3),
        "spread": round(math.sqrt(float(cv @ (CV - mean) ** 2)), 3),
        "within": round(float(p.sum(axis=(1, 2)) @ WITHIN), 3),
        "between": round(float(p.sum(axis=(0, 2)) @ BETWEEN), 3),
        "log_ratios": [float(f"{x:.4g}") for x in ratios],
        "left_out": checked,
    }


def main() -> None:
    """Write prediction.json."""
    table, fits = pd.read_csv(HERE / "groups.csv"), {}
    length = np.where(table["seconds"] >= LONG_S, "long", "short")
    for (metric, name), groups in table.groupby(["metric", length], sort=True):
        if found := fitted(groups):
            fits.setdefault(metric, {})[name] = found
    lines = [
        f"  {json.dumps(metric)}: {{\n"
        + ",\n".join(f"   {json.dumps(n)}: {json.dumps(f)}" for n, f in each.items())
        + "\n  }"
        for metric, each in fits.items()
    ]
    head = f' "made_by": "data/raw/published/scatter/fit.py",\n "shares": {SHARES},\n'
    OUT.write_text(f'{{\n{head} "fits": {{\n' + ",\n".join(lines) + "\n }\n}\n")


if __name__ == "__main__":
    main()
