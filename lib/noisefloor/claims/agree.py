"""Whether a published number agrees with a measured one: one rule for every claim.

A claim is a range of changes of the arm against our baseline, in percent of the metric: a number
is a range without width, "up to 9 % less" is -9 to 0, "no difference" is 0. It agrees if it
overlaps our range."""

from collections import Counter
from collections.abc import Iterable

AGREES, DISAGREES, NOT_COMPARABLE = "agrees", "disagrees", "not comparable"
Range = tuple[float, float]  # changes in percent, the lower end first


def change_of_claim(percent: float, *, ahead: bool, of_leader: bool) -> float:
    """The change of the arm against the baseline, in percent, if one of them is `percent` ahead of the
    other. ahead: the arm is ahead; of_leader: the percentage is of the leader's number, else of the
    other one's. With 35 % the change of the one behind is -35 % of the leader's number, or, if its own
    number is the base, -26 %."""
    ratio = 1 / (1 - percent / 100) if of_leader else 1 + percent / 100  # over the other one
    return 100 * ((ratio if ahead else 1 / ratio) - 1)


def claimed(percent: float, *, most: bool = False) -> Range:
    """The range of a claimed change. most: "at most" this change, so that the range goes to 0."""
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
