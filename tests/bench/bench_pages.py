"""Recorded pages rendered again: ours in parallel against papermill and nbconvert in turn."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from bench_rounds import Figure, Item, interleaved, middle, ratios, seconds
from noisefloor import paths
from noisefloor.data import packed
from noisefloor.show import report

BIN = Path(sys.executable).parent
HALF, CORES = 0.5, os.cpu_count() or 1
PAGES = (
    "binlog-encryption",
    "settings-doublewrite",
    "published-claims",
)  # all ten take 8 minutes a round
PAGE = re.compile(r"^(\S+) +page +([0-9.]+) s", re.M)  # of what the command says at its end


def reports(quick: bool) -> Item:
    """`noisefloor report --profile recorded` against the plain tools."""
    jobs = [(s, v) for s, v, _ in report.plan(PAGES, profile="recorded") if v is not None]
    spent: dict[str, dict[str, list[float]]] = {study: {} for study, _ in jobs}
    tasks = {"noisefloor": lambda: ours(spent), "plain": lambda: plain(jobs, spent)}
    rounds = interleaved(2 if quick else 5, tasks, "reports")
    took = middle(rounds, "noisefloor")
    figure = Figure(
        f"{len(jobs)} pages, in parallel, against papermill and nbconvert one after the other",
        ratios(rounds, "noisefloor", "plain"),
        f"at most {HALF}",
        says=f"{took:.1f} s against {middle(rounds, 'plain'):.1f} s",
    )
    figure.met = figure.median <= HALF
    each = {s: {k: statistics.median(v) for k, v in of.items()} for s, of in spent.items()}
    alone = took - sum(of["ours"] for of in each.values()) / CORES
    table = [f"| | papermill | nbconvert | noisefloor, {CORES} at once |", "|---|---:|---:|---:|"]
    table += [
        f"| {study} | {of['papermill']:.1f} s | {of['nbconvert']:.1f} s | {of['ours']:.1f} s |"
        for study, of in each.items()
    ]
    table += ["", f"Before, after and between its pages `noisefloor report` spends {alone:.1f} s."]
    return Item([figure, verified(quick)], "\n".join(table))


def verified(quick: bool) -> Figure:
    """`noisefloor verify` of a page whose campaigns are packed, against the same ones unpacked."""
    page = PAGES[0]
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as folder:
        unpack(page, Path(folder))
        homes = {"packed": paths.root(), "unpacked": Path(folder)}
        tasks = {name: lambda home=home: verify(page, home) for name, home in homes.items()}
        rounds = interleaved(2 if quick else 5, tasks, "verify")
    figure = Figure(
        f"`verify` of {page}, campaigns packed against the same unpacked",
        ratios(rounds, "packed", "unpacked"),
        "at most 1.1",
        says=f"{middle(rounds, 'packed'):.1f} s against {middle(rounds, 'unpacked'):.1f} s",
    )
    figure.met = figure.median <= 1.1
    return figure


def unpack(study: str, home: Path) -> None:
    """A project in `home` that is this one, but for the campaigns of a study: they are unpacked."""
    recorded = home / "data" / "raw" / "recorded"
    recorded.mkdir(parents=True)
    for place, skip in ((paths.root(), "data"), (paths.root() / "data" / "raw", "recorded")):
        for entry in place.iterdir():
            if entry.name != skip:
                (home / entry.relative_to(paths.root())).symlink_to(entry)
    for campaign in paths.recorded().iterdir():
        archive = packed.archive(campaign) if campaign.name.startswith(study) else None
        if archive is None:
            (recorded / campaign.name).symlink_to(campaign)
            continue
        shutil.copytree(campaign, recorded / campaign.name, ignore=lambda *_, a=archive: [a.name])
        with tarfile.open(archive) as tar:
            tar.extractall(recorded / campaign.name, filter="data")


def verify(study: str, home: Path) -> float:
    """Seconds of verifying the published page of a study in a project folder."""
    page = paths.root() / "reports" / "published" / study
    env = os.environ | {"NOISEFLOOR_HOME": str(home)}
    return seconds([str(BIN / "noisefloor"), "verify", str(page)], env=env)


def ours(spent) -> float:
    """Seconds of the command as a user gives it; those of each page go into `spent`."""
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as out:
        start = time.perf_counter()
        done = subprocess.run(
            [str(BIN / "noisefloor"), "report", *PAGES, "--profile", "recorded", "--out", out],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        took = time.perf_counter() - start
    for study, page in PAGE.findall(done.stdout):
        spent[study].setdefault("ours", []).append(float(page))
    return took


def plain(jobs, spent) -> float:
    """Seconds of the two stock commands for each notebook, one after the other; those of each go
    into `spent`."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as folder:
        for study, values in jobs:
            book = f"{folder}/{study}.ipynb"
            given = [w for name, value in values.items() for w in ("-p", name, str(value))]
            run = [str(BIN / "papermill"), str(report.notebook(study)), book, "-k", "python3"]
            html = [str(BIN / "jupyter"), "nbconvert", "--to", "html", book]
            for name, argv in (
                ("papermill", [*run, "--cwd", str(paths.root()), *given]),
                ("nbconvert", html),
            ):
                spent[study].setdefault(name, []).append(seconds(argv))
    return time.perf_counter() - start
