"""Campaigns whose truth is known, by the ten thousand, judged by the rule that judges real ones.

`cell` answers for one kind of noise how often the rule is wrong, how often its interval holds the
truth, and how many pairs it takes. A `rule` other than ours (a mutant, a rival) can be passed in."""

import numpy as np
from scipy import signal, special

from noisefloor.stats import sequential

NOISES = ("normal", "lognormal", "stalls", "bimodal")
DEPENDENCES = {"iid": 0.0, "AR 0.5": 0.5, "AR 0.8": 0.8}
DRIFTS = ("none", "linear", "random walk", "slot penalty")
PAIRS = 64  # that a campaign may have
BLOCK = 4  # pairs between two server starts


def runs(noise, dependence, drift, cv, shape, rng):
    """Log values of runs in the order of measuring, [campaigns, runs], without any effect.

    noise: one of NOISES ("stalls": a tenth of the runs are slowed, eight times the usual noise;
    "bimodal": two states, four sd of the noise within a state apart); dependence: one of
    DEPENDENCES (autocorrelation from run to run); drift: one of DRIFTS ("linear" 0.15 % a run,
    "random walk" steps of a quarter of the CV, "slot penalty": every second run 2 % slower);
    cv: run-to-run CV as a fraction (of quiet runs, for "stalls")."""
    if noise == "normal":
        z = rng.standard_normal(shape)
    elif noise == "lognormal":
        z = (np.exp(rng.standard_normal(shape) * 0.8) - np.exp(0.32)) / np.sqrt(
            np.exp(0.64) * np.expm1(0.64)
        )
    elif noise == "stalls":
        z = rng.standard_normal(shape)
        z = np.where(rng.random(shape) < 0.1, 8 * np.abs(z), z)
    elif noise == "bimodal":
        z = (rng.standard_normal(shape) + 4 * (rng.random(shape) < 0.5) - 2) / np.sqrt(5)
    else:
        raise ValueError(f"noise {noise!r}: one of {', '.join(NOISES)} is needed")
    phi = DEPENDENCES[dependence]
    if phi:
        z = signal.lfilter([np.sqrt(1 - phi**2)], [1, -phi], z, axis=-1)
    x = cv * z
    if drift == "linear":
        x = x + 0.0015 * np.arange(shape[-1])
    elif drift == "random walk":
        x = x + np.cumsum(cv / 4 * rng.standard_normal(shape), -1)
    elif drift == "slot penalty":
        x = x + 0.02 * (np.arange(shape[-1]) % 2)
    elif drift != "none":
        raise ValueError(f"drift {drift!r}: one of {', '.join(DRIFTS)} is needed")
    return x


def campaigns(
    noise="normal",
    dependence="iid",
    drift="none",
    *,
    cv=0.02,
    block_cv=0.0,
    effect=0.0,
    n_campaigns=10_000,
    seed=0,
    design="switched",
    n_pairs=PAIRS,
    block_pairs=BLOCK,
    order="coin",
):
    """(log overheads [campaigns, pairs], block [pairs]) of campaigns with a true overhead `effect`.

    block_cv: side by side, the CV of a server between two starts, dealt to the arms by coin;
    switched, the sd of the effect itself between starts. order: "coin", or "fixed" (the baseline
    always first: a mutant)."""
    rng = np.random.default_rng(seed)
    x = runs(noise, dependence, drift, cv, (n_campaigns, 2 * n_pairs), rng)
    second_less_first = x[:, 1::2] - x[:, ::2]
    coin = 1 if order == "fixed" else rng.integers(0, 2, second_less_first.shape) * 2 - 1
    block = np.arange(n_pairs) // block_pairs
    d = effect + coin * second_less_first
    if block_cv:
        size = block_cv * (np.sqrt(2) if design != "switched" else 1)
        d = (
            d
            + np.repeat(size * rng.standard_normal((n_campaigns, block[-1] + 1)), block_pairs, 1)[
                :, :n_pairs
            ]
        )
    return d, block


def cell(
    noise="normal",
    dependence="iid",
    drift="none",
    cv=0.02,
    block_cv=0.0,
    effect=0.0,
    n_campaigns=10_000,
    seed=0,
    *,
    design="switched",
    margin=0.02,
    alpha=0.05,
    n_pairs=PAIRS,
    block_pairs=BLOCK,
    starts=None,
    order="coin",
    rule=None,
    first_look=24,
):
    """Counts for one kind of noise: a flat dict, ready to be a row.

    All sizes are fractions (`effect` and `margin` are overheads, 0.02 is 2 %). Campaigns stop at
    the first look with a verdict, at most after n_pairs. starts: no stop before so many complete
    blocks (default: 4 where the effect differs between starts, else 0). rule: function like
    `sequential.decide` (d, block, design=, margin=, alpha=) -> codes.

    n campaigns, slower, faster, same, cannot_tell: counts; wrong: `slower`/`faster` against the
    truth (any of them at 0), false_same: `same` at or beyond the margin; covered: intervals at the
    stop that hold the effect (ours only); pairs_mean, pairs_median: over all campaigns;
    pairs_slower, pairs_same: mean over those that ended so."""
    theta, m = np.log1p(effect), np.log1p(margin)
    d, block = campaigns(
        noise, dependence, drift, cv=cv, block_cv=block_cv, effect=theta,
        n_campaigns=n_campaigns, seed=seed, design=design, n_pairs=n_pairs,
        block_pairs=block_pairs, order=order,
    )  # fmt: skip
    decide = rule or sequential.decide
    if starts is None:
        starts = 4 if block_cv and design == "switched" else 0
    allowed = sequential.complete(block) >= starts
    # Most campaigns end early: judge the first looks of all, then all looks of those still open.
    looks, code = np.full(n_campaigns, n_pairs), np.zeros(n_campaigns, int)
    open_ = np.arange(n_campaigns)
    for end in sorted({min(first_look, n_pairs), n_pairs}):
        if len(open_):
            given = {"design": design, "margin": m, "alpha": alpha}
            found = decide(d[open_, :end], block[:end], **given)
            looks[open_], code[open_] = sequential.stop(found, allowed[:end])
            open_ = open_[code[open_] == sequential.CANNOT_TELL]
    looks[code == sequential.CANNOT_TELL] = n_pairs
    counts = {word: int((code == c).sum()) for c, word in sequential.WORDS.items()}
    against_truth = {0: (1, -1), 1: (-1,), -1: (1,)}[int(np.sign(effect))]
    out = {
        "design": design, "noise": noise, "dependence": dependence, "drift": drift, "cv": cv,
        "block_cv": block_cv, "effect": effect, "margin": margin, "n": n_campaigns,
        **{word.replace(" ", "_"): count for word, count in counts.items()},
        "wrong": int(np.isin(code, against_truth).sum()),
        "false_same": counts["same"] if abs(effect) >= margin else 0,
        "covered": None,
        "pairs_mean": float(looks.mean()),
        "pairs_median": float(np.median(looks)),
        "pairs_slower": _mean(looks[code == sequential.SLOWER]),
        "pairs_same": _mean(looks[code == sequential.SAME]),
    }  # fmt: skip
    if rule is None:
        held = covered(d, block, looks, theta, design=design, margin=m, alpha=alpha)
        out["covered"] = int(held.sum())
    return out


def covered(d, block, looks, theta, *, design, margin, alpha=0.05):
    """True [campaigns] where the interval at the look that ended the campaign holds theta: the test
    of theta has not ruled it out, which is what `sequential.interval` inverts."""
    rows, at = np.arange(len(d)), np.full(len(d), theta)
    if design != "switched":
        ends = sequential.complete(block)[looks - 1]
        tested = sequential.against(sequential.means(d, block), at, margin)
        return (ends == 0) | (tested[rows, np.maximum(ends, 1) - 1] < 1 / alpha)
    held = sequential.against(d, at, margin)[rows, looks - 1] < 1 / alpha
    if len(np.unique(block)) > 1:  # where the starts differ the interval is the union of both
        lo, hi = sequential.block_interval(d, block, alpha=alpha)
        between = ((lo <= theta) & (theta <= hi) & sequential.unequal(d, block))[rows, looks - 1]
        held |= between
    return held


def peeking_t(d, block, *, design, margin, alpha):
    """Mutant: a paired t-test after every pair from the sixth on."""
    n = np.arange(1, d.shape[-1] + 1)
    mean = np.cumsum(d, -1) / n
    variance = (np.cumsum(d * d, -1) - n * mean**2) / np.maximum(n - 1, 1)
    t = mean / np.sqrt(np.maximum(variance, 1e-300) / n)
    hit = (np.abs(t) > special.stdtrit(np.maximum(n - 1, 1), 1 - alpha / 2)) & (n >= 6)
    return np.where(hit, np.where(t > 0, sequential.SLOWER, sequential.FASTER), 0)


def population_sd(d, block, *, design, margin, alpha):
    """Mutant: one t-test after six pairs, with the sd divided by n instead of n - 1."""
    first = d[..., :6]
    t = first.mean(-1) / first.std(-1) * np.sqrt(6)
    out = np.zeros(d.shape, int)
    decided = np.abs(t) > special.stdtrit(5, 1 - alpha / 2)
    out[..., 5] = np.where(decided, np.where(t > 0, sequential.SLOWER, sequential.FASTER), 0)
    return out


def rows_as_runs(d, block, *, design, margin, alpha):
    """Mutant: every run counted as five, as if its seconds were replicates."""
    codes = sequential.codes(np.repeat(d, 5, -1), margin=margin, alpha=alpha)
    return codes[..., 4::5]


def pairs_as_units(d, block, *, design, margin, alpha):
    """Mutant: side by side, the pairs inside a block counted as independent."""
    return sequential.codes(d, margin=margin, alpha=alpha)


# What each mutant is and the noise that must expose it: arguments of `cell`.
MUTANTS = {
    "peeking": {"rule": peeking_t},
    "ddof 0": {"rule": population_sd},
    "rows as runs": {"rule": rows_as_runs},
    "unclustered blocks": {"rule": pairs_as_units, "design": "side by side", "block_cv": 0.02},
    "fixed order": {"rule": sequential.decide, "order": "fixed", "drift": "slot penalty"},
}


def clopper_pearson(count, n, alpha=0.05):
    """(lower, upper) two-sided bounds of a rate."""
    low = special.betaincinv(count, n - count + 1, alpha / 2) if count else 0.0
    high = special.betaincinv(count + 1, n - count, 1 - alpha / 2) if count < n else 1.0
    return float(low), float(high)


def _mean(looks):
    return float(looks.mean()) if looks.size else None
