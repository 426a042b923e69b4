"""How many more would settle it, by the rule that could not tell. Plain Python."""

import math

from noisefloor.stats import student
from noisefloor.stats.estimate import Parts
from noisefloor.stats.graph import ALPHA

POWER = 0.8  # share of repetitions that would have their word
FEWEST = 4  # blocks or pairs: below that a t interval is of no use
MOST = 10**6
OBRIEN = 0.78  # last look's level as a share of alpha, with looks at 60 and 80 %


def runs_needed(
    value: float,
    sd: float,
    margin: float,
    *,
    level: float = ALPHA,
    sides: int = 2,
    start: Parts = (),
    least: int = 2,
    same_level: float = ALPHA,
) -> int | None:
    """Runs an arm (sides=2) or pairs (sides=1) after which POWER of all repetitions have their word,
    if `value` and `sd` (of one run or one pair, above 0) are the truth; None when no number does.

    level: of `slower` and `faster`; same_level: of `same`; start: (variance, df) parts that no
    repetition under the same server starts takes away."""

    def power(n: int) -> float:
        """The larger of the powers to say `slower` or `faster`, and to say `same`."""
        own = sides * sd**2 / n
        variance = own + sum(v for v, _ in start)
        doubt = own**2 / (sides * (n - 1)) + sum(v * v / df for v, df in start)
        df, error, phi = variance**2 / doubt, math.sqrt(variance), student.NORMAL.cdf
        differs = phi(abs(value) / error - _t(level / 2, df))
        t = _t(same_level, df)
        same = phi((margin - abs(value)) / error - t) + phi((margin + abs(value)) / error - t) - 1
        return max(differs, same)

    low = high = least
    while power(high) < POWER:
        low, high = high, 2 * high
        if high > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def units_needed(
    value: float, sd: float, margin: float, *, share: float = ALPHA, least: int = 2
) -> int | None:
    """Blocks (or pairs) in all after which POWER of campaigns that declare so many have their word,
    if `value` and the sd of one block are the truth; None when no number does. share: of alpha."""
    level, least = OBRIEN * share, max(least, FEWEST)
    signs = 1 + math.ceil(-math.log2(level))  # units whose signs can reach the level
    if not sd > 0:
        return least
    return runs_needed(
        value, sd, margin, level=level, sides=1, least=max(least, signs), same_level=OBRIEN * ALPHA
    )


def _t(level: float, df: float) -> float:
    return student.quantile(1 - level, round(df, 1) if df < 200 else math.inf)
