"""Synthetic campaigns judged per second."""

import time

import numpy as np
from scipy import stats

from bench_rounds import Figure, Item, interleaved, middle
from noisefloor.calibrate import truth
from noisefloor.data import cluster
from noisefloor.stats import rule, synthetic

N = 10_000  # campaigns of a cell
FEW = 100  # judged one by one
BLOCKS = 12  # declared
NOISE = {"cv": 0.04}
STEP = 50  # every fiftieth cell of the grid, for the processes


def calibration(quick: bool) -> Item:
    """Campaigns a second: all at once, one at a time, and over processes."""
    tasks = {
        "together": together,
        "one at a time": one_at_a_time,
        "t-tests": t_tests,
        "1 process": lambda: grid(1),
        "2 processes": lambda: grid(2),
    }
    rounds = interleaved(2 if quick else 5, tasks, "calibration")

    def ratio(a: str, b: str) -> list[float]:
        return [r[a] / r[b] for r in rounds]

    rate = {name: middle(rounds, name) for name in tasks}
    return Item(
        [
            Figure(
                "campaigns a second: 10,000 at once against the same rule one at a time",
                ratio("together", "one at a time"),
                says=f"{rate['together']:,.0f} against {rate['one at a time']:,.0f} campaigns of up "
                f"to {BLOCKS} blocks a second, one process",
            ),
            Figure(
                "campaigns a second against a t-test of scipy after every block",
                ratio("together", "t-tests"),
                says=f"{rate['t-tests']:,.0f} campaigns a second by `scipy.stats.ttest_1samp`",
            ),
            Figure(
                "campaigns a second: two processes against one",
                ratio("2 processes", "1 process"),
                says=f"{rate['2 processes']:,.0f} against {rate['1 process']:,.0f} a second over "
                "kinds of noise, start of the processes included",
            ),
        ]
    )


def drawn(n: int) -> np.ndarray:
    """Block means of n campaigns whose truth is the margin."""
    d = synthetic.pairs(NOISE, n, BLOCKS, np.random.default_rng(1))
    return d.mean(-1) + synthetic.MARGIN


def together() -> float:
    """Campaigns a second of a cell."""
    start = time.perf_counter()
    rule.decide(drawn(N), margin=synthetic.MARGIN)
    return N / (time.perf_counter() - start)


def one_at_a_time() -> float:
    """The same rule, a campaign a call."""
    units = drawn(FEW)
    start = time.perf_counter()
    for row in units:
        rule.decide(row[None], margin=synthetic.MARGIN)
    return FEW / (time.perf_counter() - start)


def t_tests() -> float:
    """What one would write by hand: wrong (it peeks), but how fast?"""
    units = drawn(FEW)
    start = time.perf_counter()
    for row in units:
        for n in range(6, len(row) + 1):
            if stats.ttest_1samp(row[:n], 0).pvalue < 0.05:
                break
    return FEW / (time.perf_counter() - start)


def grid(workers: int) -> float:
    """Campaigns a second over kinds of noise, as `noisefloor calibrate` deals them out."""
    tasks = [(truth._cell, given, [1, i], N // 5) for i, given in enumerate(truth.grid(STEP))]
    start = time.perf_counter()
    with cluster.pool(workers=workers) as processes:
        list(processes.map(truth._job, tasks))
    judged = 2 * len(tasks) * (N // 5)  # two truths
    return judged / (time.perf_counter() - start)
