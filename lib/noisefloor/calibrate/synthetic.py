"""Campaigns, files and sittings with a known truth, judged by the code that judges real ones
(`rule`, `estimate`, `combine`); and the rule with a deliberate mistake, which the calibration must
detect.

Arrays have the campaigns on the first axis and the blocks on the last. Log scale."""

import math
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import signal

from noisefloor.stats import combine, estimate, rule, scatter, verdict

ASKED = tomllib.loads(Path(__file__).with_name("cells.toml").read_text(encoding="utf-8"))
MARGIN = math.log1p(ASKED["margin_pct"] / 100)
TRUTHS = ASKED["truths_pct"]
USUAL = {"noise": "normal", "dependence": 0.0, "drift": "none", "start": 0.0, "blocks": 10}
WORDS = {"larger": 1, "smaller": -1, "same": 2}  # codes of `rule`; 0: cannot tell
POOL = 12  # questions with repeats behind a pooled tau
EACH = 20  # questions that are judged with one pooled tau
DF = 9  # of a campaign in `sittings`
FILE_WORDS = ("faster", "slower", verdict.SAME, verdict.CANNOT_TELL)


# what a drift adds to the log values of runs, by its name in cells.toml
_DRIFTS: Mapping[str, Callable[[np.ndarray, float, Any], Any]] = {
    "none": lambda x, cv, rng: 0.0,
    "linear": lambda x, cv, rng: 0.0015 * np.arange(x.shape[-1]),
    "random walk": lambda x, cv, rng: np.cumsum(cv / 4 * rng.standard_normal(x.shape), -1),
    "slot penalty": lambda x, cv, rng: 0.02 * (np.arange(x.shape[-1]) % 2),
}
_FIXED_ORDER = "fixed order"  # the mutant that does not randomise the order of a pair


def skewed(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Lognormal numbers (sigma 0.8) of mean 0 and standard deviation 1."""
    z = np.exp(0.8 * rng.standard_normal(shape))
    return (z - math.exp(0.32)) / math.sqrt(math.exp(0.64) * math.expm1(0.64))


def simulated_runs(
    noise: str, dependence: float, drift: str, cv: float, shape: tuple[int, ...], rng: Any
) -> np.ndarray:
    """Log values of runs in the order of measuring, [..., runs], without any effect.

    noise: normal, lognormal, stalls (a tenth of the runs are slowed, by eight times the usual noise)
    or bimodal (two states, four sd of the noise within a state apart); dependence: autocorrelation
    from run to run; drift: none, linear (0.15 % a run), random walk (steps of a quarter of the CV) or
    slot penalty (every second run 2 % slower); cv: run-to-run CV as a fraction (of quiet runs, for
    stalls)."""
    z = skewed(shape, rng) if noise == "lognormal" else rng.standard_normal(shape)
    if noise == "stalls":
        z = np.where(rng.random(shape) < 0.1, 8 * np.abs(z), z)
    elif noise == "bimodal":
        z = (z + 4 * (rng.random(shape) < 0.5) - 2) / math.sqrt(5)
    if dependence:
        z = signal.lfilter([math.sqrt(1 - dependence**2)], [1, -dependence], z, axis=-1)
    x = cv * z
    return x + _DRIFTS[drift](x, cv, rng)


def simulated_pairs(
    given: Mapping[str, Any],
    n: int,
    rng: np.random.Generator,
    *,
    threads: int = 1,
    coin: bool = True,
) -> np.ndarray:
    """Log ratios of pairs without an effect, [n, thread counts, blocks, pairs of a block].

    given: a cell of cells.toml, completed by USUAL; coin: whether the order of a pair is random, else
    the baseline is always first."""
    given = {**USUAL, **given}
    blocks, each = given["blocks"], ASKED["pairs"]
    noise, dependence, drift, cv = (given[k] for k in ("noise", "dependence", "drift", "cv"))
    x = simulated_runs(noise, dependence, drift, cv, (n, threads, 2 * blocks * each), rng)
    d = (x[..., 1::2] - x[..., ::2]).reshape(n, threads, blocks, each)
    if coin:
        d *= rng.integers(0, 2, d.shape) * 2 - 1
    if given["start"]:
        shape = (n, 1 if given.get("shared") else threads, blocks, 1)
        d += given["start"] * rng.standard_normal(shape)
    return d


def cell(given: Mapping[str, Any], n: int, rng: np.random.Generator) -> dict[str, int]:
    """What `rule` says of n campaigns of a cell, counted.

    Of one thread count: `covered` (the interval contains the truth; one count for all truths, because
    the interval shifts with the truth) and the words at each of TRUTHS ("larger_0", "same_2"). Of
    `threads` equal ones: `together` (all intervals contain the truth), `joint` (they have a joint
    row), `joint_covered`, `any_false` (at a truth of 0 a thread count or the joint row differs)."""
    members = simulated_pairs(given, n, rng, threads=ASKED["threads"]).mean(-1)
    _, lo, hi = rule.block_interval(members[:, 0])
    hits = {"covered": (lo <= 0) & (hi >= 0)}
    for truth in TRUTHS:
        theta = math.log1p(truth / 100)
        words = rule.codes(lo + theta, hi + theta, MARGIN)
        hits |= {f"{name}_{truth}": words == code for name, code in WORDS.items()}
    _, lo, hi = rule.block_interval(members, members.shape[1])
    each = rule.codes(lo, hi, MARGIN)
    joint = rule.joint(members, each)
    _, low, high = rule.block_interval(members.mean(1))
    whole = np.abs(rule.codes(low, high, MARGIN)) == 1
    hits |= {
        "together": ((lo <= 0) & (hi >= 0)).all(-1),
        "joint": joint,
        "joint_covered": joint & (low <= 0) & (high >= 0),
        "any_false": (np.abs(each) == 1).any(-1) | (joint & whole),
    }
    return {name: int(hit.sum()) for name, hit in hits.items()}


def files(given: Mapping[str, Any], n: int, rng: np.random.Generator) -> dict[str, int]:
    """Words of n comparisons of files by Welch's t, counted.

    given: runs (an arm), cv (from run to run), effect (true change of the throughput), restarts: every
    run had its own start and nothing is added; else the runs of an arm share one, which scatters as
    recorded, and that is added."""
    k, known = given["runs"], scatter.start_scatter("tps", local=False)
    assert known is not None
    x = rng.normal(0, given["cv"], (n, 2, k))
    if not given["restarts"]:
        x += rng.normal(0, known.cv, (n, 2, 1))
    x[:, 1] += math.log1p(given["effect"])
    start, words = () if given["restarts"] else (known.part,), Counter[str]()
    for a, b in x.tolist():
        value = (math.fsum(b) - math.fsum(a)) / k
        words[estimate.Estimate(value, estimate.welch(a, b), start).word("tps", MARGIN)] += 1
    return {word.replace(" ", "_"): words[word] for word in FILE_WORDS}


def sittings(given: Mapping[str, Any], n: int, rng: np.random.Generator) -> dict[str, float]:
    """What `combine` says of n questions whose sittings scatter by tau, skewed: how often an interval
    contains the truth (`covered`) and the next campaign lies in its range (`inside`), and the median
    half widths of both in percent. The pooled tau is from POOL other questions of 2 or 3 sittings.

    given: tau, se (standard error of a campaign) and sittings of a question."""
    tau, se, k = given["tau"], given["se"], given["sittings"]

    def campaigns(*shape: int) -> tuple[np.ndarray, np.ndarray]:
        """(effects, squared standard errors as campaigns know them)."""
        effects = tau * skewed(shape, rng) + se * rng.standard_normal(shape)
        return effects, se**2 * rng.chisquare(DF, shape) / DF

    judged = []
    for _ in range(n // EACH):
        others = [zip(*campaigns(2 + i % 2), strict=True) for i in range(POOL)]
        pooled = combine.estimate_tau([[combine.Campaign(e, v, DF) for e, v in q] for q in others])
        assert pooled is not None
        mean, half, ahead, _ = combine.intervals_with_tau(
            *campaigns(EACH, k), np.full((EACH, k), DF), pooled
        )
        following = campaigns(EACH)[0]
        judged.append((np.abs(mean) <= half, np.abs(following - mean) <= ahead, half, ahead))
    covered, inside, half, ahead = map(np.concatenate, zip(*judged, strict=True))
    counts = {"n": len(half), "covered": int(covered.sum()), "inside": int(inside.sum())}
    return counts | {
        "half_pct": 100 * float(np.median(half)), "next_pct": 100 * float(np.median(ahead)),
    }  # fmt: skip


# -- the rule with a mistake -------------------------------------------------------------------------


def different(units: np.ndarray, mistake: float = 1.0) -> np.ndarray:
    """Whether the interval of block means leaves out zero. mistake: a factor of its half width."""
    mean, lo, _ = rule.block_interval(units)
    return np.abs(mean) > mistake * (mean - lo)


def _peeking(units: np.ndarray) -> np.ndarray:
    """Whether `different` is true after any block from the third on."""
    looks = [different(units[..., :k]) for k in range(3, units.shape[-1] + 1)]
    return np.logical_or.reduce(looks)


MUTANTS = {
    "rows as n": lambda d: different(np.repeat(d.mean(-1), 5, -1)),
    "pairs as units": lambda d: different(d.reshape(len(d), -1)),
    _FIXED_ORDER: lambda d: different(d.mean(-1)),
    "peeking at 5 %": lambda d: _peeking(d.mean(-1)),
    "ddof 0": lambda d: different(d.mean(-1), math.sqrt(1 - 1 / d.shape[-2])),
}


def mutant(given: Mapping[str, Any], n: int, seed: Any) -> tuple[int, int]:
    """(how often a mutant leaves out the truth, how often the rule does in the same noise), of n
    campaigns. given: `mutant`, its name, and the fields of its noise."""
    name = given["mutant"]
    mine, whole = (
        simulated_pairs(given, n, np.random.default_rng(seed), coin=coin)[:, 0]
        for coin in (name != _FIXED_ORDER, True)
    )
    return int(MUTANTS[name](mine).sum()), int(different(whole.mean(-1)).sum())
