"""A Dask worker dies while tasks are dealt out to it."""

import os
import random
import signal
import threading

import distributed
import pytest
from pandas.testing import assert_frame_equal

from live import DONE, SEED
from noisefloor.calibration import truth
from test_cluster import project, two

TIMES = 3
SMALL = {"n": 200, "step": 60}


@pytest.mark.slow
def test_kill_9_at_random_points(two):
    """Each time another one, once the one before it was replaced: the same figures to the bit."""
    points, killed, over = random.Random(f"{SEED} worker"), [], threading.Event()

    def kill():
        with distributed.Client(two, set_as_default=False) as client:
            while len(killed) < TIMES and not over.wait(points.uniform(0.5, 2)):
                pids = set(client.run(os.getpid, on_error="ignore").values()) - set(killed)
                if len(pids) == 2:
                    killed.append(points.choice(sorted(pids)))
                    os.kill(killed[-1], signal.SIGKILL)
                    DONE["Dask worker", "SIGKILL"] += 1

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        while thread.is_alive() or not killed:
            there = truth.measure(cluster=two.scheduler_address, **SMALL)
    finally:
        over.set()
        thread.join()
    here = truth.measure(**SMALL)
    assert len(killed) == TIMES
    for name in truth.FILES:
        assert_frame_equal(there[name], here[name])
