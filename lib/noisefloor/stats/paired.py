"""One comparison of pairs: interval, verdict, p and what more it would take.

Works on log overheads (positive is worse) in the order of measuring, with the block (server start)
that each pair belongs to."""

from dataclasses import dataclass, field

import numpy as np
from scipy import special

from noisefloor.stats import sequential

FEWEST = 6  # signs of fewer units cannot reach 5 % on both sides


@dataclass(frozen=True)
class Outcome:
    """What one comparison says. Log scale; infinite bounds mean that nothing is excluded yet."""

    estimate: float
    lo: float
    hi: float
    p: float
    verdict: str
    units: int
    blocks: int
    sd: float  # of one unit
    needed: float  # units in all that would settle it
    warnings: list[str] = field(default_factory=list)


def centre(d):
    """Hodges-Lehmann location of d: the median of all pairwise means, hardly moved by stalls."""
    d = np.asarray(d, float)
    i, j = np.triu_indices(len(d))
    return float(np.median((d[i] + d[j]) / 2))


def t_quantile(q, df):
    """Quantile of Student's t."""
    return special.stdtrit(df, q)


def block_means(d, block):
    """Mean of every block, blocks in order of appearance."""
    d, block = np.asarray(d, float), np.asarray(block)
    return np.array([d[block == b].mean() for b in dict.fromkeys(block.tolist())])


def block_p(d, block):
    """p of the one-way F test for differences between blocks; 1 when it cannot be tested."""
    d, block = np.asarray(d, float), np.asarray(block)
    names, index, counts = np.unique(block, return_inverse=True, return_counts=True)
    between, within = len(names) - 1, len(d) - len(names)
    if between < 1 or within < 1:
        return 1.0
    means = np.bincount(index, d) / counts
    inside = np.sum((d - means[index]) ** 2) / within
    outside = np.sum(counts * (means - d.mean()) ** 2) / between
    return 1.0 if inside == 0 else float(special.fdtrc(between, within, outside / inside))


def units_needed(estimate, sd, margin, alpha=0.05):
    """Units (pairs, or blocks side by side) after which the sequential test usually has a verdict,
    if estimate and sd are the truth. From the calibration: 5.5 + 7.5 / (distance in sd)^2."""
    if not sd > 0:
        return float(FEWEST)
    distance = max(abs(estimate), margin - abs(estimate), 1e-12) / sd
    return float(np.ceil((5.5 + 7.5 / distance**2) * np.log(1 / alpha) / np.log(20)))


def judge(d, block, *, design, margin, alpha=0.05, one_sided_alpha=None, test=True):
    """Outcome of the sequential test for one comparison.

    design "switched": the pair is the unit; when the blocks differ by more than their pairs
    explain, the interval must also hold for block means. design "side by side": the block is the
    unit, and the last one counts once it has as many pairs as the first."""
    d, block = np.asarray(d, float), np.asarray(block)
    names = list(dict.fromkeys(block.tolist()))
    warnings = []
    if design == "side by side":
        size = [int((block == b).sum()) for b in names]
        whole = len(names) if len(names) == 1 or size[-1] >= size[0] else len(names) - 1
        units = block_means(d, block)[:whole]
    else:
        units = d
    lo, hi = _interval(units, margin, alpha)
    up, down = sequential.evidence(units)
    p = float(min(1.0, 1 / np.max((up + down) / 2)))
    sd = float(np.std(units, ddof=1)) if len(units) > 1 else np.nan
    if design != "side by side" and len(names) > 1 and block_p(d, block) < 0.1:
        means = block_means(d, block)
        lo_b, hi_b = _interval(means, margin, alpha)
        up, down = sequential.evidence(means)
        lo, hi = min(lo, lo_b), max(hi, hi_b)
        p = max(p, float(min(1.0, 1 / np.max((up + down) / 2))))
        warnings.append(
            "the server starts differ by more than their pairs explain: the interval is that of "
            f"{len(names)} starts"
        )
    unit = "blocks" if design == "side by side" else "pairs"
    if len(units) < FEWEST:
        warnings.append(f"{len(units)} {unit}: fewer than {FEWEST} cannot reach 5 %")
    if len(names) == 1:
        warnings.append(
            "one server start only: a difference between two starts would look the same"
        )
    if np.isnan(lo):
        warnings.append(
            "the difference changed during the campaign: no single value fits all pairs"
        )
    estimate = centre(units)
    if not np.isnan(lo):
        estimate = float(np.clip(estimate, lo, hi))
    return Outcome(
        estimate, lo, hi, p, verdict(lo, hi, margin), len(units), len(names), sd,
        units_needed(estimate, sd, margin, alpha), warnings,
    )  # fmt: skip


def verdict(lo, hi, margin):
    """The word for an interval: `same` inside the margin, `slower`/`faster` when it excludes zero."""
    if lo > -margin and hi < margin:
        return "same"
    if lo > 0:
        return "slower"
    if hi < 0:
        return "faster"
    return "cannot tell"


def _interval(units, margin, alpha):
    lo, hi = sequential.interval(units, margin=margin, alpha=alpha)
    return float(lo), float(hi)
