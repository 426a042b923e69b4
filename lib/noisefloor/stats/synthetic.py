"""Campaigns and files whose truth is known, by the ten thousand, judged by the code that judges
real ones: `rule.decide` for one comparison, `rule.family` for several, `estimate` for files.

Arrays have the campaigns on the first axis and the declared blocks on the last. Log scale."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import signal, special

from noisefloor.stats import estimate, rule, scatter, spending
from noisefloor.stats.estimate import CANNOT_TELL, FASTER, SAME, SLOWER
from noisefloor.stats.graph import ALPHA, JOINT, Graph, Name

NOISES = ("normal", "lognormal", "stalls", "bimodal")
DEPENDENCES = {"iid": 0.0, "AR 0.5": 0.5, "AR 0.8": 0.8}
DRIFTS = ("none", "linear", "random walk", "slot penalty")
CUT = 0.7  # of the blocks, between two looks: where a campaign's minutes may end
PAIRS = {8: 4, 10: 4, 12: 4, 40: 1}  # declared blocks: pairs in one
MARGIN_PCT = 2.0
MARGIN = math.log1p(MARGIN_PCT / 100)
WORDS = {"cannot_tell": 0, "slower": 1, "faster": -1, "same": 2}  # codes of `rule.decide`


def runs(
    noise: str,
    dependence: str,
    drift: str,
    cv: float,
    shape: tuple[int, ...],
    rng: np.random.Generator,
) -> np.ndarray:
    """Log values of runs in the order of measuring, [campaigns, runs], without any effect.

    noise: one of NOISES ("stalls": a tenth of the runs are slowed, eight times the usual noise;
    "bimodal": two states, four sd of the noise within a state apart); dependence: one of
    DEPENDENCES (autocorrelation from run to run); drift: one of DRIFTS ("linear" 0.15 % a run,
    "random walk" steps of a quarter of the CV, "slot penalty": every second run 2 % slower);
    cv: run-to-run CV as a fraction (of quiet runs, for "stalls")."""
    z = rng.standard_normal(shape)
    if noise == "lognormal":
        z = (np.exp(z * 0.8) - np.exp(0.32)) / np.sqrt(np.exp(0.64) * np.expm1(0.64))
    elif noise == "stalls":
        z = np.where(rng.random(shape) < 0.1, 8 * np.abs(z), z)
    elif noise == "bimodal":
        z = (z + 4 * (rng.random(shape) < 0.5) - 2) / np.sqrt(5)
    if phi := DEPENDENCES[dependence]:
        z = signal.lfilter([np.sqrt(1 - phi**2)], [1, -phi], z, axis=-1)
    x = cv * z
    if drift == "linear":
        x = x + 0.0015 * np.arange(shape[-1])
    elif drift == "random walk":
        x = x + np.cumsum(cv / 4 * rng.standard_normal(shape), -1)
    elif drift == "slot penalty":
        x = x + 0.02 * (np.arange(shape[-1]) % 2)
    return x


def starts(
    block_cv: float, shape: tuple[int, ...], design: str, rng: np.random.Generator
) -> np.ndarray:
    """What the start of the servers does to every block, [campaigns, ..., blocks]: switched, the
    effect itself differs by block_cv; on two servers each has its own difference."""
    return block_cv * (1 if design == "switched" else math.sqrt(2)) * rng.standard_normal(shape)


def pairs(
    given: Mapping[str, Any],
    n: int,
    blocks: int,
    rng: np.random.Generator,
    *,
    order: str = "coin",
) -> np.ndarray:
    """Log overheads of pairs without an effect, [n, blocks, pairs of a block].

    given: noise, dependence, drift, cv and, where the starts differ, block_cv and design; order:
    "coin", or "fixed" (the baseline always first)."""
    each, usual = PAIRS[blocks], {"noise": "normal", "dependence": "iid", "drift": "none"}
    kind = (given.get(k, what) for k, what in usual.items())
    x = runs(*kind, given["cv"], (n, 2 * blocks * each), rng)  # type: ignore[call-arg]
    d = (x[:, 1::2] - x[:, ::2]).reshape(n, blocks, each)
    if order == "coin":
        d *= rng.integers(0, 2, d.shape) * 2 - 1
    if given.get("block_cv"):
        d += starts(given["block_cv"], (n, blocks, 1), given["design"], rng)
    return d


def tally(units: np.ndarray, theta: float) -> dict[str, Any]:
    """Counts of campaigns whose truth is theta and whose units, without it, are given: a word each;
    covered: the interval at the look that ended the campaign holds theta; covered_last: it does at
    the last look, whatever the campaign found before; measured: mean number of blocks; cut: called
    slower or faster if their minutes end after CUT of their blocks."""
    units = units + theta
    used, code = rule.decide(units, margin=MARGIN)
    blocks = units.shape[-1]
    last = np.full(len(units), blocks)
    cut = rule.decide(units[..., : math.ceil(CUT * blocks)], margin=MARGIN, declared=blocks)[1]
    return {
        **{word: int((code == c).sum()) for word, c in WORDS.items()},
        "covered": int(covers(units, used, theta).sum()),
        "covered_last": int(covers(units, last, theta).sum()),
        "measured": float(used.mean()),
        "cut": int(np.isin(cut, (1, -1)).sum()),
    }


def covers(units: np.ndarray, used: np.ndarray, theta: float) -> np.ndarray:
    """Whether the unadjusted 95 % interval after `used` blocks holds theta, [campaigns]: the repeated
    t interval of one comparison at 5 %."""
    blocks, held = units.shape[-1], np.zeros(len(units), bool)
    for n in np.unique(used):
        before = tuple(k for k in spending.planned(blocks) if k <= n)
        mine = used == n
        m = rule.moments(units[mine, :n])
        half = m.half(spending.levels(ALPHA, before, blocks)[n])
        held[mine] = np.abs(m.mean - theta) <= half
    return held


def alarms(members: np.ndarray, population: scatter.Population | None = None) -> np.ndarray:
    """Whether `rule.family` calls any thread count or their joint effect slower or faster,
    [campaigns].

    members: [campaigns, thread counts, blocks]. Nothing is rejected before some comparison passes
    with the share that it begins with; where one does and was never `same`, that is the alarm. Only
    the campaigns in between need the whole graph."""
    blocks = members.shape[-1]
    names = [("arm", t) for t in range(members.shape[1])] + [("arm", JOINT)]
    rows = dict(zip(names, [*members.swapaxes(0, 1), members.mean(1)], strict=True))
    alarm, doubt = np.zeros((2, len(members)), bool)
    looks, shares = spending.planned(blocks), Graph({"arm": range(members.shape[1])}).shares
    for i, n in enumerate(looks):
        for name, share in shares.items():
            level = spending.levels(round(share, 6), looks[: i + 1], blocks)[n]
            code, held = rule.differs(rows[name][:, :n], level)
            doubt |= (code != 0) | (held & (population is not None))
            at = np.flatnonzero(code)
            same = np.zeros(len(at), bool)
            for k, earlier in enumerate(looks[: i + 1] if len(at) else ()):
                one = spending.levels(ALPHA, looks[: k + 1], blocks, 1)[earlier]
                same |= rule.inside(rows[name][at, :earlier], one, MARGIN)[0]
            alarm[at[~same]] = True
    for c in np.flatnonzero(doubt & ~alarm):
        alarm[c] = family_alarm({name: row[c] for name, row in rows.items()}, population)
    return alarm


def family_alarm(
    rows: Mapping[Name, np.ndarray], population: scatter.Population | None = None
) -> bool:
    """Whether `rule.family` calls any of {(arm, threads): block means} slower or faster."""
    given = {name: (np.arange(len(row)), row) for name, row in rows.items()}
    blocks = len(next(iter(rows.values())))
    found = rule.family(given, blocks=blocks, margin=MARGIN, population=population).values()
    return any(o.word in (SLOWER, FASTER) for o in found)


def files(
    count: int,
    cv: float,
    effect: float,
    restarts: bool,
    n: int,
    rng: np.random.Generator,
    ddof: int = 1,
) -> dict[str, int]:
    """Words of n comparisons of files with `count` runs an arm, counted: {word: how many}.

    cv: from run to run; effect: true overhead. restarts: every run had its own start and nothing is
    added; else the runs of an arm share one, which scatters as recorded, and that is added. ddof: 0
    for a mutant."""
    known, theta = scatter.start("tps", own=False), math.log1p(effect)  # type: Any, float
    x = rng.normal(0, cv, (n, 2, count))
    if not restarts:
        x += rng.normal(0, known.cv, (n, 2, 1))
    x[:, 1] += theta
    added, words = () if restarts else (known.part,), Counter[str]()
    for a, b in x.tolist():
        parts = estimate.welch(a, b)
        if not ddof:
            parts = tuple((v * (count - 1) / count, df) for v, df in parts)
        value = (math.fsum(b) - math.fsum(a)) / count
        words[estimate.Estimate(value, parts, added).word(MARGIN)] += 1
    return {word.replace(" ", "_"): words[word] for word in (SLOWER, FASTER, SAME, CANNOT_TELL)}


def peeking(units: np.ndarray) -> np.ndarray:
    """Whether a t-test at 5 % after every unit from the sixth on ever calls it different."""
    n = np.arange(1, units.shape[-1] + 1)
    mean = np.cumsum(units, -1) / n
    variance = (np.cumsum(units * units, -1) - n * mean**2) / np.maximum(n - 1, 1)
    t = np.abs(mean) / np.sqrt(np.maximum(variance, 1e-300) / n)
    return ((t > special.stdtrit(np.maximum(n - 1, 1), 1 - ALPHA / 2)) & (n >= 6)).any(-1)


def different(units: np.ndarray) -> np.ndarray:
    """Whether the rule calls it slower or faster."""
    return np.isin(rule.decide(units, margin=MARGIN)[1], (1, -1))


_TWO_SERVERS = {"cv": 0.02, "block_cv": 0.02, "design": "side by side"}
# Noise that must expose each mutant, arguments of `pairs`, and what it calls different.
MUTANTS = {
    "rows as n": ({"cv": 0.04}, {}, lambda d: different(np.repeat(d.mean(-1), 5, -1))),
    "fixed order": ({"cv": 0.02, "drift": "slot penalty"}, {"order": "fixed"}, lambda d: different(d.mean(-1))),
    "peeking at 5 %": ({"cv": 0.04}, {}, lambda d: peeking(d.mean(-1))),
    "pairs as units": (_TWO_SERVERS, {}, lambda d: different(d.reshape(len(d), -1))),
}  # type: dict[str, Any]  # fmt: skip


def mutant(name: str, n: int, seed: Any) -> tuple[int, ...]:
    """(false alarms of a mutant, those of the rule itself in the same noise), of n campaigns of 12
    blocks. The ddof of live campaigns is guarded by the flips, so that one is a mutant of files."""
    if name == "ddof 0":
        told = [files(5, 0.1, 0.0, True, n, np.random.default_rng(seed), ddof) for ddof in (0, 1)]
        return tuple(t["slower"] + t["faster"] for t in told)
    given, more, broken = MUTANTS[name]
    whole = pairs(given, n, 12, np.random.default_rng(seed))
    mine = pairs(given, n, 12, np.random.default_rng(seed), **more)
    return int(broken(mine).sum()), int(different(whole.mean(-1)).sum())
