"""Half widths of two identical servers at a rate: both at once against one after the other."""

import math
import os
import random
import tempfile
from dataclasses import replace

from bench_rounds import Figure, Item, say
from noisefloor import studies
from noisefloor.data import results
from noisefloor.measure import collect
from noisefloor.model import METRICS, Request

MINUTES = {"at once": 4, "in turn": 4}  # of measuring, each
METRICS_OF = ("cpu_per_transaction", "mean_latency", "p99")


def at_rate(quick: bool) -> Item:
    """One campaign of each kind with the same blocks and declared minutes, in an order dealt by coin."""
    blocks, found = 4 if quick else 8, {}
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as folder:
        os.environ["NOISEFLOOR_RUNS"] = folder
        for kind in random.Random().sample(list(MINUTES), 2):
            minutes = MINUTES[kind] / 2 if quick else MINUTES[kind]
            found[kind] = _widths(kind == "in turn", blocks, minutes)
            say(f"{kind}: {found[kind]}")
        del os.environ["NOISEFLOOR_RUNS"]
    text = "Two identical servers, 80 transactions a second each (work.lua), 64 clients."
    return Item(figures_of(found), text)


def figures_of(found: dict[str, dict]) -> list[Figure]:
    """A row a metric. Half widths shrink with the root of the minutes: in turn, as many minutes as it
    measured, times the square of how much wider it is, make it as narrow as both at once."""
    once, turn = (found[kind] for kind in MINUTES)
    figures = []
    for metric in METRICS_OF:
        narrow, wide = (each["half"].get(metric, math.nan) for each in (once, turn))
        figures.append(
            Figure(
                f"half width of {METRICS[metric].label.lower()} in turn against at once",
                [wide / narrow],
                says=f"±{narrow:.1f} % at once, ±{wide:.1f} % in turn; as narrow in turn takes"
                f" {(wide / narrow) ** 2 * turn['minutes']:.0f} minutes instead of"
                f" {once['minutes']:.1f}",
            )
        )
    return figures


def _widths(alone: bool, blocks: int, minutes: float) -> dict:
    """Minutes that were measured, and the half width of each metric in percent."""
    asked = Request("calibration", "rate-same", "quick", budget_min=minutes)
    chosen = studies.load(asked)
    (work,) = chosen.workloads
    profile = replace(chosen.profile, blocks=blocks)
    chosen = replace(chosen, workloads=(replace(work, alone=alone),), profile=profile)
    r = results.load(collect.measure_campaign(chosen, asked))
    rows = r.alone().to_dict("records")
    half = {
        row["metric"]: 50 * math.log((100 + row["hi_pct"]) / (100 + row["lo_pct"]))
        for row in rows
        if not row["control"]
    }
    return {"minutes": r.meta["spent_s"] / 60, "half": half}
