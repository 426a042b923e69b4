"""Whether ordered groups, such as versions, fall or rise in their order.

Kendall's rank correlation between the order of a value's group and the value; with several values a
group it is the test of Jonckheere and Terpstra. A trend can be more than noise where no pair of
neighbours is: of five equal versions one in sixty orders falls or rises from each to the next."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from noisefloor.stats.verdict import ALPHA
from noisefloor.text import amounts
from noisefloor.text.answers import NUMBERS, often

_LEAST = 3  # groups that make an order


@dataclass(frozen=True)
class Trend:
    """tau: Kendall's, -1 where every value is below all of the groups before; p: how often equal
    groups would fall or rise as steadily (two-sided)."""

    tau: float
    p: float

    @property
    def decided(self) -> bool:
        """Whether equal groups would rarely look like that."""
        return self.p < ALPHA

    def in_words(self, names: Sequence[str], changes: Sequence[float], metric: str) -> str:
        """What the groups say together. changes: of each against the first, in percent."""
        steps = [after - before for before, after in itertools.pairwise(changes)]
        steady = all(s > 0 for s in steps) or all(s < 0 for s in steps)
        whole = f"{amounts.change(changes[-1], metric)} from {names[0]} to {names[-1]}"
        many = NUMBERS[len(names) - 2] if len(names) <= 10 else f"{len(names):,}"
        rate = f"{many} equal ones would fall or rise as steadily {often(self.p)} (Kendall)"
        word = amounts.words(metric)[self.tau < 0]
        how = f"each {word} than the one before" if steady else f"{word} along their order"
        return f"{how if self.decided else 'no order can be told'}, {whole}; {rate}"


def trend(groups: Sequence[Sequence[float]]) -> Trend | None:
    """The trend of the values of groups in their order; None for fewer than three groups with
    values, and for values that are all equal."""
    from scipy.stats import kendalltau

    order = [k for k, values in enumerate(groups) for _ in values]
    values = [v for each in groups for v in each]
    if sum(map(bool, groups)) < _LEAST:
        return None
    kendall = kendalltau(order, values)  # exact without ties
    if math.isnan(kendall.statistic):
        return None
    return Trend(float(kendall.statistic), float(kendall.pvalue))
