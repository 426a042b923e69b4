"""The reasons of a verdict, and notes beside it: every reason by kind, and its sentence.

Code asks for the kind (`Reason.why`); people read the sentence. Plain Python."""

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Any, Self

_START = "a start-to-start CV of {cv_pct:.2g} % is added"


class Why(StrEnum):
    """The kinds of reasons, and their sentences."""

    # of pairs
    ONE_START = f"one start, and nothing says whether the servers got new data: {_START}"
    NEVER_RESTARTED = f"the server was not restarted: {_START}, {{source}}"
    ENDED_EARLY = "ended early: {blocks} of {declared} declared blocks were measured"
    PAIRS_LEFT_OUT = "{pairs} pairs left out: a value is missing, zero or negative"
    ONE_BLOCK = "one block: two are needed for an interval"
    COUNTS_DIFFER = "the thread counts differ: each stands by itself"
    SOME_SATURATED = "saturated: {full} of {windows} windows, which count for neither arm"
    SATURATED = "saturated in {full} of {windows} windows: no word at this rate"
    TOO_FEW = "no {metric}: a block offers {n:,.0f} {noun}, {least:,} are needed"
    OTHER_ARM = "no whole pair of {arm} was measured: this is about another arm"
    CONTROL_DIFFERS = "A against itself differs, too: {itself}, so no word of this job counts"
    # of several sittings
    SO_FAR = "provisional, boot {sittings} of {asked}"
    RANGE = "range of {sittings} boots: how much boots scatter is not known yet"
    # of the newest campaign
    NO_INTERVAL = "it has no interval"
    FIRST_SITTING = "only one sitting of this design on this processor"
    SECOND_SITTING = (
        "only one earlier sitting; two are needed while it is not known how much sittings scatter"
    )
    FEWER_BLOCKS = "it has {blocks} blocks, each earlier campaign {least} or more"
    # of runs without pairs
    ORDER_UNKNOWN = (
        "the runs do not say in which order they were made: a drift of the machine "
        "would look like a difference"
    )
    CLIPPED = "clipped at {most_s:g} s, the end of sysbench's histogram"
    NO_SCATTER = "the runs of an arm do not scatter at all: rounded or copied numbers"
    SAME_AS_TPS = "the same measurement as the throughput (Little's law), not a second one"
    AS_GIVEN = "{which}: with the given CV of {cv_pct:.2g} %"
    PREDICTED = (
        "{which}: what it may differ by is predicted from {groups} groups of repeats of "
        "{sources} sources, whose median CV is {cv_pct:.1f} %"
    )
    UNPREDICTED = "{which}, and how much such runs scatter is not known"
    RESTARTS_UNKNOWN = (
        "nothing says that the server was restarted between the runs: "
        f"{_START}; --restarts leaves it out"
    )
    SHARED_HOST = "a shared machine changes from arm to arm: a CV of {cv_pct:.2g} % is added"
    SHARED_STARTS = "more runs under the same server starts cannot settle it"
    WARM_UP = "the first {rows} rows look like warm-up; the throughput includes them"
    DRIFT = "throughput steps or drifts within the run"
    NEVER_JUDGED = "{what}: shown, never judged"
    FLOOR_RUNS = "--floor: assumed to come from {runs} runs of one unchanged server"
    INCONSISTENT = (
        "inconsistent: {numbers}, {off} off the TPS given (other threads, "
        "a rate limit, or another run)"
    )
    UNLESS_STARTS_SCATTER = (
        "holds unless effects that these runs share (server start, cache, "
        "time of day) scatter by more than {cv_pct:.1f} % (CV)"
    )
    # of logs that are compared
    THREADS_LEFT_OUT = "thread counts only in {arm}, left out: {threads}"
    LOGS_DIFFER = "the logs differ in {key}: {values}"
    FIXED_RATE = "the runs had a fixed --rate: throughput is what was asked for"
    ARMS_DIFFER = "the arms differ in {what}, too"


class Reason(str):
    """A reason as its sentence, which knows its kind (`why`) and its numbers (`given`)."""

    why: Why
    given: dict[str, Any]

    def __new__(cls, why: Why, **given: Any) -> Self:
        self = super().__new__(cls, why.format(**given))
        self.why, self.given = why, given
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Reason, self.why, **self.given), ()


def without(notes: Iterable[str], *kinds: Why) -> list[str]:
    """The notes that are of none of these kinds; a text without a kind stays."""
    return [n for n in notes if not (isinstance(n, Reason) and n.why in kinds)]


def has(notes: Iterable[str], *kinds: Why) -> bool:
    """Whether one of the notes is of these kinds."""
    return any(isinstance(n, Reason) and n.why in kinds for n in notes)
