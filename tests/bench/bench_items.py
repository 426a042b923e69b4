"""What is timed as somebody types it: a command's start, all recorded pages against the stock tools,
and a campaign's runs against bare sysbench."""

import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from bench_rounds import Figure, Item, interleaved, middle, ratios, say, seconds
from noisefloor import parse, paths, studies
from noisefloor.data import compare, tidy
from noisefloor.measure import loading, workloads
from noisefloor.measure.bench import Bench
from noisefloor.measure.campaign import Campaign
from noisefloor.measure.folder import description, write_json
from noisefloor.measure.lock import alone
from noisefloor.measure.progress import Progress
from noisefloor.schedule import Cell
from noisefloor.servers import engines
from noisefloor.servers.server import Server
from noisefloor.servers.workshop import workshop
from noisefloor.show import report

BIN = Path(sys.executable).parent
NOISEFLOOR = str(BIN / "noisefloor")
BARE = [sys.executable, "-c", "import numpy"]
JUDGE = [NOISEFLOOR, "judge", "221.19", "229.41", "--threads", "4", "--seconds", "300"]
MODULE = "golang.org/x/perf/cmd/benchstat@latest"
LIMIT_S = {"judge": 0.35, "doctor": 1.0, "compare of 20 files": 1.0}
NOISE = "`compare` reads the same 20 numbers out of whole logs, rows and histograms checked"
HALF, CORES = 0.5, os.cpu_count() or 1
PAGE = re.compile(r"^(\S+) +page +([0-9.]+) s", re.M)  # of what the command says at its end
PAIRS, SLICE_S, NEAR_PCT = 30, 2, 1.0  # of the harness


def start(quick: bool) -> Item:
    """`judge`, `compare` of 20 files and `doctor`."""
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as folder:
        before, after = logs(Path(folder))
        tasks = {
            "import numpy": BARE,
            "judge": JUDGE,
            "compare of 20 files": [NOISEFLOOR, "compare", *before, "--", *after],
            "doctor": [NOISEFLOOR, "doctor"],
        }
        if program := benchstat(Path(folder)):
            sides = [values(Path(folder) / n, f) for n, f in (("a", before), ("b", after))]
            tasks["benchstat"] = [program, *sides]
        calls = {name: partial(seconds, argv) for name, argv in tasks.items()}
        for call in calls.values():
            call()  # the first one reads the disk
        rounds = interleaved(2 if quick else 7, calls, "start")
    out = []
    for name, limit in LIMIT_S.items():
        took = middle(rounds, name)
        out.append(
            Figure(
                f"`{name}` against `python -c 'import numpy'`",
                ratios(rounds, name, "import numpy"),
                f"within {limit:g} s",
                took <= limit,
                f"{took:.2f} s; a bare import numpy takes {middle(rounds, 'import numpy'):.2f} s"
                + ("" if took <= limit else f". Most of it: {imports(tasks[name])}"),
            )
        )
    if "benchstat" in tasks:
        took = middle(rounds, "benchstat")
        name = "compare of 20 files"
        says = (
            f"benchstat takes {took:.3f} s for the 20 numbers, given as Go benchmark lines; {NOISE}"
        )
        out.append(
            Figure(f"`{name}` against benchstat", ratios(rounds, name, "benchstat"), says=says)
        )
        return Item(out)
    return Item(out, "benchstat is not to be had here (no `benchstat`, no Go to build it).")


def logs(folder: Path) -> tuple[list[str], list[str]]:
    """Ten recorded logs an arm, copied under short names."""
    campaign = tidy.inside(next(paths.recorded().glob("binlog-encryption-*")))
    found = []
    for arm in ("plain", "encrypted"):
        runs = sorted(campaign.glob(f"in-memory-t4-encrypted-*-{arm}"))
        runs += sorted(campaign.glob(f"in-memory-t16-encrypted-*-{arm}"))
        (folder / arm).mkdir()
        files = [folder / arm / f"{i}.txt" for i in range(10)]
        for file, run in zip(files, runs[:10], strict=True):
            file.write_bytes((run / "sysbench.txt").read_bytes())
        found.append(list(map(str, files)))
    return found[0], found[1]


def values(target: Path, files: list[str]) -> str:
    """The TPS of logs as the lines that benchstat reads."""
    rates = [parse.sysbench(Path(f).read_bytes())["tps"] for f in files]
    target.write_text("".join(f"BenchmarkReadWrite 1 {r} tps\n" for r in rates))
    return str(target)


def benchstat(folder: Path) -> str | None:
    """A benchstat of this machine, or one built now where there is Go; None when neither."""
    if found := shutil.which("benchstat"):
        return found
    go = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    if not go:
        return None
    say("start: building benchstat")
    own = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-modcacherw", "GOPATH": f"{folder}/go"}
    done = subprocess.run([go, "install", MODULE], env=own, capture_output=True, timeout=300, check=False)  # fmt: skip
    return str(folder / "benchstat") if done.returncode == 0 else None


def imports(argv: list[str]) -> str:
    """The five modules whose import takes longest in a command, by themselves."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *argv], capture_output=True, text=True, check=False
    )
    rows = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines()]
    own = sorted((int(r[0]), r[2].strip()) for r in rows if len(r) == 3 and r[0].strip().isdigit())
    return ", ".join(f"{name} {us / 1e3:.0f} ms" for us, name in own[:-6:-1])


def reports(quick: bool) -> Item:
    """`noisefloor report --profile recorded` against the plain tools."""
    jobs = [(s, v) for s, v, _ in report.plan(profile="recorded") if v is not None]
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
    return Item([figure], "\n".join(table))


def ours(spent) -> float:
    """Seconds of the command as a user gives it; those of each page go into `spent`."""
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as out:
        start = time.perf_counter()
        done = subprocess.run(
            [str(BIN / "noisefloor"), "report", "--profile", "recorded", "--out", out],
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


def harness(quick: bool) -> Item:
    """TPS under the harness against bare sysbench on the same server, in coin-flipped pairs."""
    pairs, chosen = 6 if quick else PAIRS, studies.load("binlog-encryption", profile="quick")
    cell = Cell(chosen.workloads[0], 4, chosen.baseline)
    folder, engine = tempfile.TemporaryDirectory(prefix="noisefloor-bench-"), engines.find("mysql")
    with alone(say), folder as texts, workshop() as shop:
        say("loading a throwaway server")
        with Server(engine, shop / "base", chosen.settings).initialise() as template:
            loading.load(template, chosen)
            template.stop()
        made = Path(texts) / "campaign"
        made.mkdir()
        write_json(made / "campaign.json", description(chosen, engine, {}))
        campaign = Campaign(chosen, made, tidy.meta(made), Progress())
        bench = Bench(shop, {"": template}, chosen)
        server = bench.fresh(chosen.baseline)
        server.start()
        bench.servers, campaign.block = [server], 0
        campaign.warm(bench, [(0, chosen.baseline)])
        argv = workloads.sysbench(
            cell.workload, server.folder / "sysbench.cnf", tables=chosen.tables,
            rows=chosen.profile.rows, threads=4, seconds=SLICE_S,
        )  # fmt: skip

        def under(i: int) -> Path:
            name, place = f"pair-{i:03d}", {"pair": i, "position": 0, "slot": 0}
            asked = campaign.slice(cell, chosen.baseline, SLICE_S, name, pair_id=name, **place)
            campaign.run(bench, asked)
            return campaign.folder / name / "sysbench.txt"

        def bare(i: int) -> Path:
            server.settle(chosen.profile.settle_s)  # both begin with the same dirty pages
            file = Path(texts) / f"{i:03d}.txt"
            with open(file, "wb") as out:
                subprocess.run(argv, stdout=out, check=True)
            return file

        coin, logs = random.Random(time.time_ns()), {under: [], bare: []}
        for i in range(pairs):
            for side in coin.sample([under, bare], 2):
                logs[side].append(str(side(i)))
            if i % 10 == 9:
                say(f"harness: {i + 1} of {pairs} pairs")
        bench.close()
        sides = compare.sides(logs[bare], logs[under], "bare", "noisefloor")
        rows = compare.rows(
            *sides, baseline="bare", arm="noisefloor", paired=True, restarts=True, margin_pct=NEAR_PCT
        )  # fmt: skip
    row = next(r for r in rows if r["metric"] == "tps")
    tps = [[r.values["tps"] for r in side] for side in sides]
    figure = Figure(
        "TPS under `noisefloor run` against bare sysbench",
        [b / a for a, b in zip(*tps, strict=True)],
        f"`same` within {NEAR_PCT:g} %",
        row["verdict"] == "same",
        f"`{row['verdict']}`: {row['overhead_pct']:+.2f} % overhead, {row['lo_pct']:+.2f} to "
        f"{row['hi_pct']:+.2f} % ({pairs} coin-flipped pairs of {SLICE_S} s slices)",
    )
    if row["verdict"] == "cannot tell":
        needed = row["runs_needed"]
        figure.says += f"; {needed if needed > 0 else 'no number of'} pairs would settle it"
    return Item([figure])
