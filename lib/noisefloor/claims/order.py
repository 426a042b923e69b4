"""Whether ordered groups, such as versions, fall or rise in their order.

Kendall's rank correlation between the order of a value's group and the value; with several values a
group it is the test of Jonckheere and Terpstra. A trend can be more than noise where no pair of
neighbours is: of five equal versions one in sixty orders falls or rises from each to the next."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from noisefloor.stats.verdict import ALPHA

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
