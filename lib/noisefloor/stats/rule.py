"""The rule of a live campaign: the means of its blocks in, one word a comparison out.

The number of blocks is declared beforehand and the campaign is judged at 60, 80 and 100 % of them.
`slower` and `faster` need Student's t and the sign flips of the block means, both at the level that
`spending` gives that look; `same` needs both one-sided tests at the margin. Every array has the
blocks on its last axis; the axes before it are independent campaigns, so that the calibration runs
ten thousand of them through this very code. Log scale, positive is worse."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from noisefloor.stats import spending
from noisefloor.stats.estimate import CANNOT_TELL, FASTER, SAME, SLOWER
from noisefloor.stats.flips import flips
from noisefloor.stats.graph import ALPHA, JOINT, Graph, Name, sweep
from noisefloor.stats.scatter import Population


@dataclass(frozen=True)
class Moments:
    """Mean of the units, [...], and its standard errors with their degrees of freedom: the second one
    holds what no repetition under the same server starts can show. The wider of both counts."""

    mean: np.ndarray
    errors: tuple[tuple[Any, Any], ...]

    def _largest(self, distance: Any) -> Any:
        """The larger of the p of a distance above what is tested."""
        return np.max([_tail(distance, *e) for e in self.errors], axis=0)

    @property
    def p(self) -> Any:
        """Two-sided p of no difference, by Student's t."""
        return 2 * self._largest(np.abs(self.mean))

    def above(self, theta: float) -> Any:
        """p of "the truth is at most theta", one-sided, by Student's t."""
        return self._largest(self.mean - theta)

    def below(self, theta: float) -> Any:
        """p of "the truth is at least theta"."""
        return self._largest(theta - self.mean)

    def half(self, level: float) -> Any:
        """Half the width of the interval at 1 - level; infinite for one unit."""
        widths = [special.stdtrit(df, 1 - level / 2) * error for error, df in self.errors]
        return np.max(widths, axis=0)


def moments(
    units: ArrayLike, start: tuple[float, float] | None = None, known: float = 0.0
) -> Moments:
    """The Moments of block means.

    start: (variance of a start-to-start difference of both arms, degrees of freedom), for a server
    that is never restarted: Welch and Satterthwaite's sum. known: a variance of the mean that is
    known exactly (histogram buckets)."""
    units = np.asarray(units, float)
    n, mean = units.shape[-1], units.mean(-1)
    if n < 2:
        return Moments(mean, ((np.full_like(mean, np.inf), 1),))
    own = units.var(-1, ddof=1) / n + known
    if start is None:
        return Moments(mean, ((np.sqrt(own), n - 1),))
    both = own + start[0]
    df = both**2 / (own**2 / (n - 1) + start[0] ** 2 / start[1])
    return Moments(mean, ((np.sqrt(own), n - 1), (np.sqrt(both), df)))


def _tail(distance: Any, error: Any, df: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, distance / error, np.sign(distance) * np.inf)
    return np.where(np.isposinf(error), 1.0, special.stdtr(df, -t))


def differs(units: Any, level: float, **more: Any) -> tuple[np.ndarray, np.ndarray]:
    """(word codes +1 slower, -1 faster, 0, whether only the flips hold it back), each [...]."""
    m = moments(units, **more)
    hit = m.p <= level
    held = _held(units, hit, level, flips)
    return np.where(hit & ~held, np.sign(m.mean), 0).astype(int), held


def inside(units: Any, level: float, margin: float, **more: Any) -> tuple[np.ndarray, np.ndarray]:
    """(whether both one-sided tests at the margin pass, whether only the flips hold it back)."""
    m = moments(units, **more)
    hit = (m.below(margin) <= level) & (m.above(-margin) <= level)

    def worst(rows: Any) -> Any:
        return np.maximum(flips(margin - rows, 1), flips(margin + rows, 1))

    held = _held(units, hit, level, worst)
    return hit & ~held, held


def _held(units: Any, hit: Any, level: float, p: Callable[[Any], Any]) -> np.ndarray:
    """Whether the p of the flips holds back what is `hit`; it is asked only there."""
    held = np.zeros(np.shape(hit), bool)
    if np.any(hit):
        held[hit] = p(np.asarray(units, float)[hit]) > level
    return held


# -- many campaigns of one comparison -------------------------------------------------------------


def decide(
    units: ArrayLike, *, margin: float, declared: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(units used [...], word codes [...]: 0, +1 slower, -1 faster, 2 same) of campaigns that hold 5 %
    for their one comparison; `same` holds 5 % of its own.

    declared: blocks, where the minutes ended them before; units.shape[-1] without it."""
    units = np.asarray(units, float)
    most = units.shape[-1]
    blocks = declared or most
    looks = (*(n for n in spending.planned(blocks) if n < most), most)
    two, one = (spending.levels(ALPHA, looks, blocks, sides, most < blocks) for sides in (2, 1))
    used = np.full(units.shape[:-1], most)
    code = np.zeros(units.shape[:-1], int)
    for n in sorted({*two, *one}):
        open_ = code == 0
        part, word = units[open_][..., :n], 0  # type: Any, Any
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
    members: Mapping[Name, tuple[Any, Any]],
    *,
    blocks: int | None,
    margin: float,
    looks: Sequence[int] | None = None,
    start: tuple[float, float] | None = None,
    known: Mapping[Name, float] | None = None,
    population: Population | None = None,
    ended: bool = True,
    spent: bool = False,
) -> dict[Name, Outcome]:
    """{(arm, threads): Outcome} of one metric of one workload.

    members: {(arm, threads): (turn of each block, its mean)} in the order of measuring, where turn
    counts the arm's blocks from 0; the joint effect has threads JOINT. blocks: declared for each arm;
    None: nothing was declared, so each row is judged once, at the last look's level for the units
    that it has. looks: the declared ones, else those of `spending`. start, known: as in `moments`
    (known by member). population: scatter.Population of the metric: where there are too few blocks for
    their signs to reach the level at all, a difference that even it does not explain counts. ended:
    also judge what lies behind the last look, at the spending of its fraction. spent: the campaign
    ended with its minutes, so that its end spends all of alpha that is left."""
    arms: dict[str, list[Any]] = {}
    for arm, threads in members:
        arms.setdefault(arm, []).extend([threads] if threads is not JOINT else [])
    graph = Graph(arms)
    out: dict[Name, Outcome] = {}
    most = max(int(turn[-1]) + 1 for turn, _ in members.values())
    due = spending.planned(blocks) if blocks and not looks else looks or ()
    at = {most} if blocks is None else {n for n in due if n <= most}
    if ended and most not in at:
        at.add(min(most, blocks or most))
    final = max(at, default=most)
    for look in sorted(at) or [most]:
        read = {}
        for name, (turn, means) in members.items():
            units = np.asarray(means, float)[np.asarray(turn) < look]
            if name not in out and len(units):
                seen = (*(n for n in due if n < min(look, len(units))), len(units))
                more = {"start": start, "known": (known or {}).get(name, 0.0)}
                last = spent and look == final
                read[name] = _Row(units, blocks, seen, last, margin, population, more)

        def passes(name: Name, share: float, read: dict[Name, _Row] = read) -> bool:
            return name in read and read[name].differs(share)

        rejected = set(sweep(graph, passes)) if read else set()
        for name, row in read.items():
            found = row.outcome(graph.shares.get(name, row.share), name in rejected)
            if found.word != CANNOT_TELL or look == final:
                out[name] = found
    return {name: out[name] for name in members if name in out}


@dataclass
class _Row:
    """One comparison at one look."""

    units: np.ndarray
    blocks: int | None  # declared
    looks: tuple[int, ...]  # in units, up to this one
    last: bool  # whether none can follow, although more blocks were declared
    margin: float
    population: Population | None
    more: dict[str, Any]  # as `moments` takes it
    share: float = 0.0  # of alpha, as it was last tried

    def level(self, share: float, sides: int = 2) -> float:
        """The level of this look for a share of alpha."""
        n, share = len(self.units), round(share, 6)
        if self.blocks is None:
            return spending.last_level(share, n, sides)
        return spending.levels(share, self.looks, max(self.blocks, n), sides, self.last)[n]

    def differs(self, share: float) -> bool:
        """Whether zero is rejected with this share: also where the signs of so few blocks cannot reach
        the level, and the difference is larger than what published repeats of one server scatter."""
        self.share, level = share, self.level(share)
        word, held = differs(self.units, level, **self.more)
        if word or not held or not self.population:
            return bool(word)
        if spending.fewest_flips(len(self.units)) <= level:
            return False
        variance, df = self.population.part
        return float(_tail(abs(self.units.mean()), math.sqrt(2 * variance), df)) <= level / 2

    def outcome(self, share: float, rejected: bool) -> Outcome:
        """The Outcome with this share of alpha."""
        m, n = moments(self.units, **self.more), len(self.units)
        level, one = self.level(share), self.level(ALPHA, 1)
        mean = float(m.mean)
        if n < 2:
            nothing = (math.nan, math.nan, level, math.nan, math.nan)
            return Outcome(mean, *nothing, 1.0, CANNOT_TELL, n, math.nan, share)
        same, same_held = inside(self.units, one, self.margin, **self.more)
        found, held = differs(self.units, level, **self.more)
        word = SAME if same else (SLOWER if mean > 0 else FASTER) if rejected else CANNOT_TELL
        half, half_same = float(m.half(level)), float(m.half(2 * one))
        p, why = max(float(m.p), float(flips(self.units))), ""
        if word == CANNOT_TELL and (held or same_held):
            why = f"too few blocks ({n}): Student's t decides, the signs of the blocks do not"
        elif word in (SLOWER, FASTER) and not found and self.population:
            why = (
                f"too few blocks ({n}) for their signs; but even the scatter of published repeats "
                f"({100 * self.population.high:.0f} %) does not explain it"
            )
        sd = float(np.std(self.units, ddof=1))
        ends = (mean - half, mean + half, level, mean - half_same, mean + half_same)
        return Outcome(mean, *ends, p, word, n, sd, share, why)
