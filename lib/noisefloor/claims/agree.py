"""Whether a published number agrees with a measured one: one rule for every claim.

A claim is a range of changes of the arm against our baseline, in percent of the metric: a number
is a range without width, "up to 9 % less" is -9 to 0, "no difference" is 0. It agrees if it
overlaps our range."""

from collections import Counter
from collections.abc import Iterable

AGREES, DISAGREES, NOT_COMPARABLE = "agrees", "disagrees", "not comparable"
Range = tuple[float, float]  # changes in percent, the lower end first


def change_of_claim(percent: float, *, ahead: bool, of_leader: bool) -> float:
    """The change of the arm against the baseline, in percent, where one is `percent` ahead of the
    other. ahead: the arm is ahead; of_leader: the percentage is of the number of the one ahead, else of
    the other one's. The one behind has -35 % for 35 % of the one ahead, and -26 % for 35 % of its
    own."""
    ratio = 1 / (1 - percent / 100) if of_leader else 1 + percent / 100  # over the other one
    return 100 * ((ratio if ahead else 1 / ratio) - 1)


def claimed(percent: float, *, most: bool = False) -> Range:
    """The range of a claimed change. most: it is a limit that smaller changes keep."""
    return (min(percent, 0.0), max(percent, 0.0)) if most else (percent, percent)


def agreement(theirs: Range, ours: Range) -> str:
    """`agrees` where their range meets ours, else `disagrees`."""
    return AGREES if theirs[0] <= ours[1] and ours[0] <= theirs[1] else DISAGREES


def in_numbers(words: Iterable[str]) -> str:
    """How many claims have which word: `7 agree, 1 disagrees`; "" without any."""
    counts = Counter(words)
    ordered = (word for word in (AGREES, DISAGREES, NOT_COMPARABLE) if counts[word])
    return ", ".join(
        f"{counts[word]} {word if counts[word] == 1 else word.removesuffix('s')}"
        for word in ordered
    )
