"""How much of alpha each look at a campaign may spend, and the level that follows from it.

Spending function: the O'Brien-Fleming type of Lan and DeMets (Biometrika 70, 1983). Levels: by
recursive integration (Armitage, McPherson and Rowe, JRSS A 132, 1969; Jennison and Turnbull, Group
Sequential Methods, 2000, chapter 19) on Gauss-Legendre nodes."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from noisefloor.stats.student import NORMAL

LOOKS = (0.6, 0.8, 1.0)  # shares of the declared blocks after which a campaign is judged
NODES = 96
FAR = 9.0  # standard deviations that stand for infinity

_nodes, _weights = np.polynomial.legendre.leggauss(NODES)
_erfc = np.vectorize(math.erfc, otypes=[float])


def spent(alpha: float, fraction: float) -> float:
    """What of alpha may be spent when `fraction` of the declared blocks is measured."""
    if fraction <= 0:
        return 0.0
    return 2 * (1 - NORMAL.cdf(NORMAL.inv_cdf(1 - alpha / 2) / math.sqrt(min(fraction, 1.0))))


def planned(blocks: int) -> tuple[int, ...]:
    """The numbers of blocks after which a campaign of `blocks` declared blocks is judged."""
    return tuple(sorted({math.ceil(round(share * blocks, 9)) for share in LOOKS}))


def fewest_flips(units: int, sides: int = 2) -> float:
    """The smallest p that the sign flips of so many units can give."""
    return min(1.0, sides * 2.0**-units)


@functools.lru_cache(maxsize=4096)
def levels(
    alpha: float, looks: tuple[int, ...], blocks: int, sides: int = 2, last: bool = False
) -> dict[int, float]:
    """{units at a look: level that p is compared with} for a hypothesis that holds `alpha`.

    looks: ascending numbers of units; blocks: the declared number, at which all of alpha is spent.
    sides: 2, or 1 for a one-sided test at alpha. last: nothing follows the last look (the clock ended
    the campaign, not its data), so that it spends all that is left. A look that sign flips cannot
    pass is left out and spends nothing; the last one always stays."""
    looks = tuple(looks)
    while True:
        found = dict(zip(looks, _levels(alpha, looks, blocks, sides, last), strict=True))
        deaf = [n for n in looks[:-1] if fewest_flips(n, sides) > found[n]]
        if not deaf:
            return found
        looks = tuple(n for n in looks if n != deaf[0])


def last_level(alpha: float, units: int, sides: int = 2) -> float:
    """The level of the last look of a campaign that declared `units` blocks and measured them."""
    return levels(alpha, planned(units), units, sides)[units]


def _levels(
    alpha: float, looks: tuple[int, ...], blocks: int, sides: int, last: bool = False
) -> list[float]:
    """One level a look; see `levels`."""
    times = [n / blocks for n in looks]
    goal = [spent(alpha, t) for t in times]
    if last:
        goal[-1] = alpha
    out, at, density, before, gone = [], None, None, 0.0, 0.0
    for time, reach in zip(times, goal, strict=True):
        step = math.sqrt(time - before)

        def leaves(bound: float, at: Any = at, density: Any = density, step: float = step) -> float:
            """Probability to be beyond the bound (on the scale of the score) at this look."""
            if at is None:
                return sides * _upper(bound / step)
            out_of = _upper((bound - at) / step)
            if sides == 2:
                out_of = out_of + _upper((bound + at) / step)
            return float(out_of @ density)

        bound = _solve(leaves, max(reach - gone, 1e-300), FAR * math.sqrt(time))
        out.append(sides * float(_upper(bound / math.sqrt(time))))
        low = -bound if sides == 2 else -FAR * math.sqrt(time)
        here = low + (bound - low) * (_nodes + 1) / 2
        weight = _weights * (bound - low) / 2
        if at is None:
            arrived = _bell(here / step) / step
        else:
            arrived = _bell((here[:, None] - at) / step) @ density / step
        at, density, before, gone = here, arrived * weight, time, reach
    return out


def _solve(falling: Callable[[float], float], goal: float, high: float) -> float:
    """Where a falling function of the bound meets the goal, by bisection."""
    low = -high
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > goal else (low, middle)
    return (low + high) / 2


def _upper(z: ArrayLike) -> Any:
    return _erfc(np.asarray(z) / math.sqrt(2)) / 2


def _bell(z: Any) -> Any:
    return np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
