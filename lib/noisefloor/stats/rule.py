"""The rule of a live campaign: the means of its blocks in, one word a comparison out.

The number of blocks is declared beforehand and the campaign is judged at 60, 80 and 100 % of them.
`slower` and `faster` need Student's t and the sign flips of the block means, both at the level that
`spending` gives that look; `same` needs both one-sided tests at the margin. Every array has the
blocks on its last axis; the axes before it are independent campaigns, so that the calibration runs
ten thousand of them through this very code. Log scale, positive is worse."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from . import spending
from .flips import flips
from .graph import ALPHA, JOINT, Graph, sweep

CANNOT_TELL, SLOWER, FASTER, SAME = "cannot tell", "slower", "faster", "same"


@dataclass(frozen=True)
class Moments:
    """Mean of the units and its standard error with degrees of freedom, [...]; `wide` holds a second
    (error, df) with what no repetition under the same server starts can show, or is None."""

    mean: np.ndarray
    error: np.ndarray
    df: float
    wide: tuple | None = None

    def _each(self):
        yield self.error, self.df
        if self.wide:
            yield self.wide

    def above(self, theta):
        """p of "the truth is at most theta", one-sided, by Student's t; the larger of both errors."""
        return functools.reduce(np.maximum, (_tail(self.mean - theta, *e) for e in self._each()))

    def below(self, theta):
        """p of "the truth is at least theta"."""
        return functools.reduce(np.maximum, (_tail(theta - self.mean, *e) for e in self._each()))

    def half(self, level):
        """Half the width of the interval at 1 - level; infinite for one unit."""
        widths = (special.stdtrit(df, 1 - level / 2) * error for error, df in self._each())
        return functools.reduce(np.maximum, widths)


def moments(units, start=None, known=0.0):
    """The Moments of block means.

    start: (variance of a start-to-start difference of both arms, degrees of freedom), for a server
    that is never restarted: Welch and Satterthwaite's sum. known: a variance of the mean that is
    known exactly (histogram buckets)."""
    units = np.asarray(units, float)
    n = units.shape[-1]
    mean = units.mean(-1)
    if n < 2:
        return Moments(mean, np.full_like(mean, np.inf), 1)
    own = units.var(-1, ddof=1) / n + known
    if start is None:
        return Moments(mean, np.sqrt(own), n - 1)
    both = own + start[0]
    df = both**2 / (own**2 / (n - 1) + start[0] ** 2 / start[1])
    return Moments(mean, np.sqrt(own), n - 1, (np.sqrt(both), df))


def _tail(distance, error, df):
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, distance / error, np.sign(distance) * np.inf)
    return np.where(np.isposinf(error), 1.0, special.stdtr(df, -t))


def differs(units, level, **more):
    """(word codes +1 slower, -1 faster, 0, whether only the flips hold it back), each [...]."""
    m = moments(units, **more)
    p = 2 * np.minimum(m.above(0.0), m.below(0.0))
    hit = np.atleast_1d(p <= level)
    held = np.zeros_like(hit)
    rows = np.atleast_2d(units)
    if hit.any():
        held[hit] = flips(rows[hit]) > level
    code = np.where(hit & ~held, np.sign(np.atleast_1d(m.mean)), 0).astype(int)
    shape = np.shape(units)[:-1]
    return code.reshape(shape), held.reshape(shape)


def inside(units, level, margin, **more):
    """(whether both one-sided tests at the margin pass, whether only the flips hold it back)."""
    m = moments(units, **more)
    hit = np.atleast_1d((m.below(margin) <= level) & (m.above(-margin) <= level))
    held = np.zeros_like(hit)
    rows = np.atleast_2d(units)
    if hit.any():
        worst = np.maximum(flips(margin - rows[hit], 1), flips(margin + rows[hit], 1))
        held[hit] = worst > level
    shape = np.shape(units)[:-1]
    return (hit & ~held).reshape(shape), held.reshape(shape)


# -- many campaigns of one comparison -------------------------------------------------------------


def decide(units, *, margin, alpha=ALPHA, looks=None):
    """(units used [...], word codes [...]: 0, +1 slower, -1 faster, 2 same) of campaigns that declared
    units.shape[-1] blocks and hold `alpha` for their one comparison; `same` holds 5 % of its own."""
    units = np.asarray(units, float)
    blocks = units.shape[-1]
    looks = spending.planned(blocks) if looks is None else looks
    two = spending.levels(alpha, looks, blocks)
    one = spending.levels(ALPHA, looks, blocks, 1)
    used = np.full(units.shape[:-1], blocks)
    code = np.zeros(units.shape[:-1], int)
    for n in sorted({*two, *one}):
        open_ = code == 0
        part, word = units[open_][..., :n], 0
        if n in two:
            word = differs(part, two[n])[0]
        if n in one:
            word = np.where(inside(part, one[n], margin)[0], 2, word)
        code[open_] = word
        used[open_ & (code != 0)] = n
    return used, code


# -- one family -----------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What the rule says of one comparison. Log scale; NaN where there is no interval."""

    estimate: float
    lo: float  # interval at 1 - level, the one that decides slower and faster
    hi: float
    level: float
    same_lo: float  # interval of the two one-sided tests, which decides same
    same_hi: float
    p: float  # the larger of Student's t and the sign flips; compared with level
    word: str
    units: int  # blocks that the word rests on
    sd: float  # of one unit
    share: float  # of alpha that the level comes from
    reason: str = ""  # what the interval alone does not show


def family(
    members,
    *,
    blocks,
    margin,
    looks=None,
    alpha=ALPHA,
    start=None,
    known=None,
    population=None,
    ended=True,
):
    """{(arm, threads): Outcome} of one metric of one workload.

    members: {(arm, threads): (turn of each block, its mean)} in the order of measuring, where turn
    counts the arm's blocks from 0; the joint effect has threads JOINT. blocks: declared for each arm;
    None: nothing was declared, so each row is judged once, at the last look's level for the units
    that it has. looks: the declared ones, else those of `spending`. start, known: as in `moments`
    (known by member). population: scatter.Population of the metric: where there are too few blocks for
    their signs to reach the level at all, a difference that even it does not explain counts. ended:
    also judge what lies behind the last look, at the spending of its fraction."""
    arms = {}
    for arm, threads in members:
        arms.setdefault(arm, []).extend([threads] if threads is not JOINT else [])
    graph = Graph(arms, alpha)
    known = known or {}
    out = {}
    most = max(int(turn[-1]) + 1 for turn, _ in members.values())
    due = spending.planned(blocks) if blocks and not looks else looks or ()
    for look, final in _looks(blocks, due, most, ended):
        parts = {k: _until(*members[k], look) for k in members}
        read = {
            k: _Row(u, blocks, due, look, margin, population, start=start, known=known.get(k, 0.0))
            for k, u in parts.items()
            if k not in out and len(u)
        }

        def passes(name, share, read=read):
            return name in read and read[name].differs(share)

        rejected = set(sweep(graph, passes)) if read else set()
        for k, row in read.items():
            found = row.outcome(graph.shares.get(k, row.share), k in rejected)
            if found.word != CANNOT_TELL or final:
                out[k] = found
    return {k: out[k] for k in members if k in out}


def _looks(blocks, planned, most, ended):
    """(blocks at a look, whether it is the last one that is to be judged) in order."""
    if blocks is None:
        return [(most, True)]
    due = [n for n in planned if n <= most]
    if ended and most not in due:
        due.append(min(most, blocks))
    due = sorted(set(due)) or [most]
    return [(n, n == due[-1]) for n in due]


def _until(turn, values, look):
    return np.asarray(values, float)[np.asarray(turn) < look]


class _Row:
    """One comparison at one look."""

    def __init__(self, units, blocks, looks, look, margin, population, **more):
        self.units, self.margin, self.n, self._more = units, margin, len(units), more
        self.share = 0.0
        self._declared, self._population = blocks, population
        self._looks = (*(n for n in looks if n < min(look, self.n)), self.n)
        self.moments = moments(units, **more)

    def level(self, share, sides=2):
        """The level of this look for a share of alpha."""
        share = round(share, 6)
        if self._declared is None:
            return spending.last_level(share, self.n, sides)
        found = spending.levels(share, self._looks, max(self._declared, self.n), sides)
        return found[self.n]

    def differs(self, share):
        """Whether zero is rejected with this share; it is kept as the row's."""
        self.share, level = share, self.level(share)
        word, held = differs(self.units, level, **self._more)
        return bool(word) or (bool(held) and self._few(level))

    def _few(self, level):
        """Whether the signs of so few blocks cannot reach the level, and the difference is larger
        than what published repeats of one server scatter."""
        if self._population is None or spending.fewest_flips(self.n) <= level:
            return False
        variance, df = self._population.part
        return float(_tail(abs(self.moments.mean), math.sqrt(2 * variance), df)) <= level / 2

    def outcome(self, share, rejected):
        """The Outcome with this share of alpha."""
        m, n = self.moments, self.n
        level, one = self.level(share), self.level(ALPHA, 1)
        mean = float(m.mean)
        if n < 2:
            nothing = (math.nan, math.nan, level, math.nan, math.nan)
            return Outcome(mean, *nothing, 1.0, CANNOT_TELL, n, math.nan, share)
        same, same_held = inside(self.units, one, self.margin, **self._more)
        found, held = differs(self.units, level, **self._more)
        word = SAME if same else (SLOWER if mean > 0 else FASTER) if rejected else CANNOT_TELL
        half, half_same = float(m.half(level)), float(m.half(2 * one))
        p = max(2 * float(min(m.above(0.0), m.below(0.0))), float(flips(self.units)))
        why = ""
        if word == CANNOT_TELL and (bool(held) or bool(same_held)):
            why = f"too few blocks ({n}): Student's t decides, the signs of the blocks do not"
        elif word in (SLOWER, FASTER) and not found:
            why = (
                f"too few blocks ({n}) for their signs; but even the scatter of published repeats "
                f"({100 * self._population.high:.0f} %) does not explain it"
            )
        sd = float(np.std(self.units, ddof=1))
        ends = (mean - half, mean + half, level, mean - half_same, mean + half_same)
        return Outcome(mean, *ends, p, word, n, sd, share, why)
