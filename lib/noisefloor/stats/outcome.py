"""What one comparison says, in the same words for every kind of data."""

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Outcome:
    """Log scale, positive is worse; infinite bounds: nothing is excluded yet; NaN: unknown."""

    estimate: float
    lo: float
    hi: float
    p: float
    verdict: str
    n_baseline: int
    n_arm: int
    blocks: int = 1
    needed: float = (
        math.nan
    )  # runs an arm in all that would settle it, if the estimate is the truth
    best: float = math.nan  # the same if the truth is one standard error nearer to a verdict
    deciding_cv: float = math.nan  # run-to-run CV (a fraction) below which the difference is real
    floor: float = math.nan  # smallest difference that this comparison could have told from zero
    warnings: list[str] = field(default_factory=list)


def verdict(lo, hi, margin):
    """The word for an interval: `same` inside the margin, `slower`/`faster` when it excludes zero."""
    if lo > -margin and hi < margin:
        return "same"
    if lo > 0:
        return "slower"
    if hi < 0:
        return "faster"
    return "cannot tell"
