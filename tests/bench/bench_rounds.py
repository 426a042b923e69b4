"""What the items of ``make bench`` share: rounds in which tasks take turns, and figures of them."""

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Figure:
    """One row of the table: a ratio in every round, its goal, and whether it is met.

    goal: in words; met: None where there is no goal; says: the absolute values, and where the time
    goes when the goal is missed."""

    what: str
    ratios: list[float]
    goal: str = "–"
    met: bool | None = None
    says: str = ""

    @property
    def median(self) -> float:
        """The middle of the rounds."""
        return statistics.median(self.ratios)


@dataclass
class Item:
    """What an item found: its rows, and paragraphs or a table of Markdown below them."""

    figures: list[Figure] = field(default_factory=list)
    text: str = ""


def say(text: str) -> None:
    """A line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def seconds(argv: list[str], **options) -> float:
    """Wall seconds of one command. Raises CalledProcessError with what it said."""
    start = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    took = time.perf_counter() - start
    if done.returncode:
        say(f"{argv[0]} failed: {done.stderr[-2000:]}")
        done.check_returncode()
    return took


def interleaved(rounds: int, tasks: dict[str, Callable[[], float]], name: str) -> list[dict]:
    """{task: what it returned} of every round; in each the tasks come in an order dealt anew, so
    that a busy minute of the machine slows all of them."""
    out, coin = [], random.Random(1)
    for i in range(rounds):
        order = coin.sample(list(tasks), len(tasks))
        out.append({task: tasks[task]() for task in order})
        took = ", ".join(f"{task} {out[-1][task]:.3g}" for task in tasks)
        say(f"{name}: round {i + 1} of {rounds}: {took}")
    return out


def ratios(rounds: list[dict], a: str, b: str) -> list[float]:
    """a / b of every round."""
    return [r[a] / r[b] for r in rounds]


def middle(rounds: list[dict], task: str) -> float:
    """Median over the rounds."""
    return statistics.median(r[task] for r in rounds)
