"""How many blocks, pairs or runs would decide a comparison. Plain Python."""

import math

from noisefloor.stats import student
from noisefloor.stats.estimate import Parts
from noisefloor.stats.verdict import ALPHA

_POWER = 0.8  # share of campaigns that would get a word other than `cannot tell`
FEWEST = 4  # blocks or pairs: below that a t interval is of no use
_MOST = 10**6  # runs


def runs_needed(
    value: float,
    sd: float,
    margin: float,
    *,
    sides: int = 2,
    start: Parts = (),
    least: int = 2,
    together: int = 1,
) -> int | None:
    """Runs an arm (sides=2) or pairs (sides=1), `least` or more, with which the share _POWER of
    campaigns get a word by Student's t, if `value` and `sd` (log scale; of a run or pair, above 0)
    are the truth; None if no number is enough. start: (variance, df) parts that more runs under the
    same server starts do not reduce; together: intervals that all contain the truth."""

    def chance_of_word(n: int) -> float:
        """The larger of the powers to name a direction, and to say `same`."""
        sampling = sides * sd**2 / n
        variance = sampling + sum(v for v, _ in start)
        df = variance**2 / (sampling**2 / (sides * (n - 1)) + sum(v * v / k for v, k in start))
        t = student.quantile(1 - ALPHA / together / 2, round(df, 1) if df < 200 else math.inf)
        error, phi = math.sqrt(variance), student.NORMAL.cdf
        size, room = abs(value) / error, margin / error
        return max(phi(size - t), phi(room - size - t) + phi(room + size - t) - 1)

    low = high = least
    while chance_of_word(high) < _POWER:
        low, high = high, 2 * high
        if high > _MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if chance_of_word(middle) >= _POWER else (middle, high)
    return high


def units_needed(
    value: float, sd: float, margin: float, least: int = 2, together: int = 1
) -> int | None:
    """Blocks (or pairs), FEWEST or more in all, with which a share _POWER of campaigns gets a word,
    if `value` and `sd` (of one; log scale) are the truth; None if no number is enough."""
    least = max(least, FEWEST)
    if not sd > 0:
        return least
    return runs_needed(value, sd, margin, sides=1, least=least, together=together)
