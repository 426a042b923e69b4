"""The reasons of a verdict, and notes beside it: every reason by kind, and its sentence.

Code asks for the kind (`Reason.why`); people read the sentence. Plain Python."""

from collections.abc import Iterable
from enum import StrEnum, auto
from typing import Any, Self


class Why(StrEnum):
    """The kinds of reasons."""

    # of pairs
    CARRIED_OVER = auto()
    ONE_START = auto()
    NEVER_RESTARTED = auto()
    ENDED_EARLY = auto()
    PAIRS_LEFT_OUT = auto()
    ONE_BLOCK = auto()
    COUNTS_DIFFER = auto()
    SOME_SATURATED = auto()
    SATURATED = auto()
    OTHER_ARM = auto()
    CONTROL_DIFFERS = auto()
    # of several sittings
    SO_FAR = auto()
    RANGE = auto()
    # of the newest campaign
    NO_INTERVAL = auto()
    FIRST_SITTING = auto()
    SECOND_SITTING = auto()
    FEWER_BLOCKS = auto()
    # of runs without pairs
    ORDER_UNKNOWN = auto()
    CLIPPED = auto()
    NO_SCATTER = auto()
    SAME_AS_TPS = auto()
    AS_GIVEN = auto()
    PREDICTED = auto()
    UNPREDICTED = auto()
    RESTARTS_UNKNOWN = auto()
    SHARED_STARTS = auto()
    WARM_UP = auto()
    DRIFT = auto()
    NEVER_JUDGED = auto()
    FLOOR_RUNS = auto()
    INCONSISTENT = auto()
    UNLESS_STARTS_SCATTER = auto()
    # of logs that are compared
    THREADS_LEFT_OUT = auto()
    LOGS_DIFFER = auto()
    FIXED_RATE = auto()
    ARMS_DIFFER = auto()


_START = "a start-to-start CV of {cv_pct:.2g} % is added"

SENTENCES = {
    Why.CARRIED_OVER: "carry-over: the idle server still used {cpu_pct:.0f} % of the active one's "
    "CPU, which hides a part of the difference",
    Why.ONE_START: f"one start, and nothing says whether the servers got new data: {_START}",
    Why.NEVER_RESTARTED: f"the server was not restarted: {_START}, {{source}}",
    Why.ENDED_EARLY: "ended early: {blocks} of {declared} declared blocks were measured",
    Why.PAIRS_LEFT_OUT: "{pairs} pairs left out: a value is missing, zero or negative",
    Why.ONE_BLOCK: "one block: two are needed for an interval",
    Why.COUNTS_DIFFER: "the thread counts differ: each stands by itself",
    Why.SOME_SATURATED: "saturated: {full} of {windows} windows, which count for neither arm",
    Why.SATURATED: "saturated in {full} of {windows} windows: no word at this rate",
    Why.OTHER_ARM: "no whole pair of {arm} was measured: this is about another arm",
    Why.CONTROL_DIFFERS: "A against itself differs, too: {itself}, so no word of this job counts",
    Why.SO_FAR: "provisional, {sittings} of {asked} boots planned",
    Why.RANGE: "range of {sittings} boots: how much boots scatter is not known yet",
    Why.NO_INTERVAL: "it has no interval",
    Why.FIRST_SITTING: "only one sitting of this design on this processor",
    Why.SECOND_SITTING: "only one earlier sitting; two are needed while it is not known how much "
    "sittings scatter",
    Why.FEWER_BLOCKS: "it has {blocks} blocks, each earlier campaign {least} or more",
    Why.ORDER_UNKNOWN: "the runs do not say in which order they were made: a drift of the machine "
    "would look like a difference",
    Why.CLIPPED: "clipped at {most_s:g} s, the end of sysbench's histogram",
    Why.NO_SCATTER: "the runs of an arm do not scatter at all: rounded or copied numbers",
    Why.SAME_AS_TPS: "the same measurement as the throughput (Little's law), not a second one",
    Why.AS_GIVEN: "{which}: with the given CV of {cv_pct:.2g} %",
    Why.PREDICTED: "{which}: what it may differ by is predicted from {groups} groups of repeats of "
    "{sources} sources, whose median CV is {cv_pct:.1f} %",
    Why.UNPREDICTED: "{which}, and how much such runs scatter is not known",
    Why.RESTARTS_UNKNOWN: "nothing says that the server was restarted between the runs: "
    f"{_START}; --restarts leaves it out",
    Why.SHARED_STARTS: "more runs under the same server starts cannot settle it",
    Why.WARM_UP: "the first {rows} rows look like warm-up and do not count",
    Why.DRIFT: "throughput steps or drifts within the run",
    Why.NEVER_JUDGED: "{what}: shown, never judged",
    Why.FLOOR_RUNS: "--floor: assumed to come from {runs} A/A runs",
    Why.INCONSISTENT: "inconsistent: {numbers}, {off} off the TPS given (other threads, "
    "a rate limit, or another run)",
    Why.UNLESS_STARTS_SCATTER: "holds unless effects that these runs share (server start, cache, "
    "time of day) scatter by more than {cv_pct:.1f} % (CV)",
    Why.THREADS_LEFT_OUT: "thread counts only in {arm}, left out: {threads}",
    Why.LOGS_DIFFER: "the logs differ in {key}: {values}",
    Why.FIXED_RATE: "the runs had a fixed --rate: throughput is what was asked for",
    Why.ARMS_DIFFER: "the arms differ in {what}, too",
}


class Reason(str):
    """A reason as its sentence, which knows its kind (`why`) and its numbers (`given`)."""

    why: Why
    given: dict[str, Any]

    def __new__(cls, why: Why, **given: Any) -> Self:
        self = super().__new__(cls, SENTENCES[why].format(**given))
        self.why, self.given = why, given
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _reason, (self.why, self.given)


def _reason(why: Why, given: dict[str, Any]) -> Reason:
    return Reason(why, **given)


def without(notes: Iterable[str], *kinds: Why) -> list[str]:
    """The notes that are of none of these kinds; a text without a kind stays."""
    return [n for n in notes if not (isinstance(n, Reason) and n.why in kinds)]


def has(notes: Iterable[str], *kinds: Why) -> bool:
    """Whether one of the notes is of these kinds."""
    return any(isinstance(n, Reason) and n.why in kinds for n in notes)
