"""All recorded studies rendered again: ours in parallel against papermill and nbconvert in turn."""

import sys
import tempfile
import time
from pathlib import Path

from bench_rounds import Figure, Item, interleaved, middle, ratios, seconds
from noisefloor import paths, report

BIN = Path(sys.executable).parent
HALF = 0.5


def reports(quick: bool) -> Item:
    """`noisefloor report --profile recorded` against the plain tools."""
    jobs = [(s, v) for s, v, _ in report.plan(profile="recorded") if v is not None]
    spent: dict[str, list[float]] = {}
    tasks = {"noisefloor": ours, "plain": lambda: plain(jobs, spent)}
    rounds = interleaved(2 if quick else 5, tasks, "reports")
    figure = Figure(
        f"{len(jobs)} pages, in parallel, against papermill and nbconvert one after the other",
        ratios(rounds, "noisefloor", "plain"),
        f"at most {HALF}",
        says=f"{middle(rounds, 'noisefloor'):.1f} s against {middle(rounds, 'plain'):.1f} s",
    )
    figure.met = figure.median <= HALF
    table = ["| Plain, alone | papermill | nbconvert |", "|---|---:|---:|"]
    table += [f"| {study} | {took[0]:.1f} s | {took[1]:.1f} s |" for study, took in spent.items()]
    return Item([figure], "\n".join(table))


def ours() -> float:
    """Seconds of the command as a user gives it."""
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as out:
        return seconds([str(BIN / "noisefloor"), "report", "--profile", "recorded", "--out", out])


def plain(jobs, spent: dict[str, list[float]]) -> float:
    """Seconds of the two stock commands for each notebook, one after the other; `spent` holds
    those of each study."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as folder:
        for study, values in jobs:
            book = f"{folder}/{study}.ipynb"
            given = [w for name, value in values.items() for w in ("-p", name, str(value))]
            run = [str(BIN / "papermill"), str(report.notebook(study)), book, "-k", "python3"]
            html = [str(BIN / "jupyter"), "nbconvert", "--to", "html", book]
            spent[study] = [seconds([*run, "--cwd", str(paths.root()), *given]), seconds(html)]
    return time.perf_counter() - start
