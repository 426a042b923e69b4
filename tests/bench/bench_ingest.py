"""Ingest of generated archives: against others that make the same tables, and how time and memory
grow with files and workers."""

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import psutil

import archive
from bench_rounds import Figure, Item, interleaved, middle, ratios, say, seconds
from noisefloor.data.ingest import frame
from rival_forms import BUCKET, METRICS, PATH, ROW, names

NOISEFLOOR = str(Path(sys.executable).parent / "noisefloor")
FILES = 3000
SIZES = (1_000, 10_000, 100_000)
LOOK_S = 0.1  # between two looks at the memory
LIMIT_S, AGAIN_S, LIMIT_B = 60, 3, 10**9
MILLION, HOSTS, CORES = 1_000_000, 10, 2  # on paper


# -- against others --------------------------------------------------------------------------------


class Rival(NamedTuple):
    """Others that make the same tables: the script and its options, whether it checks what it reads,
    and why it is not taken even where it is faster."""

    argv: tuple[str, ...]
    checks: bool
    but: str


RIVALS = {
    "a parser by hand, checked": Rival(
        ("rival_hand.py", "--checked"), True,
        "it knows one form of one tool, and ends at the first file that is wrong",
    ),
    "a parser by hand, unchecked": Rival(
        ("rival_hand.py",), False, "it takes a file that is cut off for a whole one",
    ),
    "DuckDB, `read_csv` and `regexp_extract`": Rival(
        ("rival_duckdb.py",), False, "it takes a file that is cut off for a whole one",
    ),
    "polars": Rival(
        ("rival_polars.py",), False, "it takes a file that is cut off for a whole one",
    ),
}  # fmt: skip


def ingest(quick: bool) -> Item:
    """3,000 files to rows, histograms, summary and labels in Parquet, against RIVALS."""
    n = FILES // 10 if quick else FILES
    texts = []
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as home:
        tree, out = Path(home, "tree"), Path(home, "ours")
        size = archive.tree(tree, n, jobs=2)
        say(f"ingest: {n} files, {size / 1e6:.0f} MB")
        places = {name: Path(home, "".join(rival.argv)) for name, rival in RIVALS.items()}
        tasks = {"ingest": partial(fresh, tree, out)}
        for name, rival in RIVALS.items():
            tasks[name] = partial(by_rival, rival, tree, places[name])
        for task in tasks.values():
            task()  # the files are in memory from here on
        rounds = interleaved(2 if quick else 5, tasks, "ingest")
        expected = tables(out)
        for name, place in places.items():
            if wrong := difference(expected, place):
                texts.append(f"**{name} does not write the same**: {wrong}.")
    took = {name: middle(rounds, name) for name in tasks}
    rate = f"{n / took['ingest']:,.0f} files/s, {size / took['ingest'] / 1e6:,.0f} MB/s"
    ours = (
        f"Ours takes {took['ingest']:.2f} s ({rate}). All write rows, histograms, summary and labels "
        f"to Parquet, on {os.cpu_count()} cores; what they wrote is compared row by row."
    )
    figures = [against(n, name, rival, rounds) for name, rival in RIVALS.items()]
    return Item(figures, " ".join([ours, *texts]))


def against(n: int, name: str, rival: Rival, rounds: list[dict]) -> Figure:
    """The row of one rival: ours against it."""
    each, took = ratios(rounds, "ingest", name), middle(rounds, name)
    slower = statistics.median(each) > 1
    says = f"{took:.2f} s" + (f"; faster than ours, but {rival.but}" if slower else "")
    goal, met = ("at most 1", not slower) if rival.checks else ("–", None)
    return Figure(f"{n:,} files, everything to Parquet, against {name}", each, goal, met, says)


def by_rival(rival: Rival, tree: Path, out: Path) -> float:
    """Seconds of a rival's program, into an empty folder."""
    shutil.rmtree(out, ignore_errors=True)
    script, *options = rival.argv
    script = str(Path(__file__).with_name(script))
    return seconds([sys.executable, script, str(tree), str(out), *options])


def tables(out: Path) -> dict[str, pd.DataFrame]:
    """What a rival writes, out of our tables; the first two columns say which row it is."""
    tidy = frame(out, "tidy")
    runs = tidy.drop_duplicates("run")
    seconds_of = runs[["run"]].assign(metric="duration_s", value=runs["duration_s"])
    values = tidy.loc[tidy["metric"].isin(METRICS.values()), ["run", "metric", "value"]]
    return {
        "intervals": frame(out, "intervals", columns=["run", *names(ROW)]),
        "histograms": frame(out, "histograms", columns=["run", *names(BUCKET)]),
        "summary": pd.concat([values, seconds_of]),
        "labels": runs[["run", *names(PATH)]],
    }


def difference(expected: dict[str, pd.DataFrame], out: Path) -> str:
    """Where the tables that a rival wrote into `out` are not ours; "" where they are the same."""
    for name, ours in expected.items():
        columns = list(ours)
        both = (ours, pd.read_parquet(out / name))
        pair = (t[columns].sort_values(columns[:2], ignore_index=True) for t in both)
        try:
            pd.testing.assert_frame_equal(*pair, check_dtype=False, rtol=1e-5, obj=name)
        except AssertionError as e:
            return " ".join(str(e).split())[:200]
    return ""


def fresh(tree: Path, out: Path, *options: str) -> float:
    """Seconds of the command as a user gives it, into an empty folder."""
    shutil.rmtree(out, ignore_errors=True)
    return seconds([NOISEFLOOR, "ingest", str(tree), "--out", str(out), *options])


# -- growth ------------------------------------------------------------------------------------------


def scale(quick: bool) -> Item:
    """Time and memory over 1,000 to 100,000 files, one and two workers, and a Dask cluster."""
    few, some, many = (n // 20 for n in SIZES) if quick else SIZES
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as home, dask() as address:
        trees = {n: Path(home, f"{n}") for n in (few, some, many)}
        size = {n: archive.tree(tree, n, jobs=2) for n, tree in trees.items()}
        say(f"scale: {many:,} files, {size[many] / 1e9:.2f} GB")
        out, peak = Path(home, "out"), {}

        def read(n: int, *options: str) -> float:
            shutil.rmtree(out, ignore_errors=True)
            argv = [NOISEFLOOR, "ingest", str(trees[n]), "--out", str(out), *options]
            took, most = watched(argv)
            peak.setdefault(n, []).append(most)
            return took

        def again() -> float:  # the tables of the largest tree are those of this round
            return seconds([NOISEFLOOR, "ingest", str(trees[many]), "--out", str(kept)])

        kept, rounds = Path(home, "kept"), []
        for i in range(2 if quick else 5):
            found = {"many": read(many)}
            parquet = sum(f.stat().st_size for f in out.rglob("*.parquet"))
            shutil.rmtree(kept, ignore_errors=True)
            out.rename(kept)
            found |= interleaved(
                1,
                {
                    "again": again,
                    "few": partial(read, few),
                    "some": partial(read, some),
                    "one": partial(fresh, trees[some], out, "--jobs", "1"),
                    "dask": partial(fresh, trees[some], out, "--cluster", address),
                },
                f"scale {i + 1}",
            )[0]
            rounds.append(found)
    took = {name: middle(rounds, name) for name in rounds[0]}
    most = {n: statistics.median(p) for n, p in peak.items()}

    def each(a: str, n: int, b: str, m: int) -> list[float]:
        return [(r[a] / n) / (r[b] / m) for r in rounds]

    mb = size[many] / took["many"] / 1e6
    figures = [
        Figure(
            f"seconds a file, {some:,} files against {few:,}", each("some", some, "few", few),
            says=f"{took['some']:.2f} s against {took['few']:.2f} s, the command's start included",
        ),
        Figure(
            f"seconds a file, {many:,} files against {some:,}", each("many", many, "some", some),
            f"{many:,} within {LIMIT_S} s", took["many"] <= LIMIT_S,
            f"{took['many']:.1f} s for {many:,} files ({many / took['many']:,.0f} files/s, {mb:,.0f} "
            f"MB/s), {size[many] / 1e9:.2f} GB of text, {parquet / 1e9:.2f} GB of Parquet",
        ),
        Figure(
            f"an unchanged tree of {many:,} files against reading it", ratios(rounds, "again", "many"),
            f"within {AGAIN_S} s", took["again"] <= AGAIN_S, f"{took['again']:.2f} s",
        ),
        Figure(
            f"memory at its peak, {many:,} files against {few:,}",
            [a / b for a, b in zip(peak[many], peak[few], strict=True)],
            "under 1 GB", most[many] < LIMIT_B,
            f"{most[many] / 1e6:.0f} MB against {most[few] / 1e6:.0f} MB: the command and its "
            f"processes together, looked at every {LOOK_S:g} s, what they share counted in each",
        ),
        Figure(
            f"one process against two, {some:,} files", ratios(rounds, "one", "some"),
            says=f"{took['one']:.2f} s against {took['some']:.2f} s",
        ),
        Figure(
            f"two Dask workers against two processes, {some:,} files", ratios(rounds, "dask", "some"),
            says=f"{took['dask']:.2f} s against {took['some']:.2f} s, the workers were up before",
        ),
    ]  # fmt: skip
    held = {"text": size[many] / many, "parquet": parquet / many, "memory": most[many]}
    return Item(figures, paper(few, some, many, took, held))


def paper(few: int, some: int, many: int, took: dict, held: dict) -> str:
    """What a million files on ten hosts need, from what was measured. held: bytes of text and of
    Parquet a file, and of memory."""
    start = max(0.0, took["few"] - few * (took["some"] - took["few"]) / (some - few))
    serial = max(1e-6, (took["again"] - start) / many)  # one walks the tree, looks up every stamp
    share = max(0.0, (took["one"] - start) / some - serial)
    workers = HOSTS * CORES
    walk, work = MILLION * serial, MILLION * share / workers
    whole = start + walk + work
    return (
        f"**On paper: a million files, ten hosts of {CORES} cores.** One core reads a file in "
        f"{share * 1e3:.2f} ms; the command itself first walks the tree in {serial * 1e6:.0f} µs a "
        f"file, and holds all names. So {MILLION:,} files, "
        f"{MILLION * held['text'] / 1e9:.0f} GB of text, are {MILLION * share / 60:.0f} minutes of one "
        f"core; {workers} workers take about {whole / 60:.1f} minutes, of which the walk takes "
        f"{walk / 60:.1f} before them. The folder that all hosts see must deliver "
        f"{MILLION * held['text'] / whole / 1e6:,.0f} "
        f"MB/s (one host {MILLION * held['text'] / whole / HOSTS / 1e6:,.0f}) and take "
        f"{MILLION * held['parquet'] / 1e9:.0f} GB of Parquet; each host needs about "
        f"{held['memory'] / 1e9:.1f} GB of memory, whatever the number of files, but for the names. "
        f"Re-ingesting an unchanged tree takes {walk:.0f} s."
    )


def watched(argv: list[str]) -> tuple[float, float]:
    """(seconds, bytes of memory of the command and its processes at their peak). Raises
    CalledProcessError."""
    start, most = time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as said:
        child = psutil.Popen(argv, stdout=said, stderr=said)
        while child.poll() is None:
            now = 0
            with contextlib.suppress(psutil.Error):
                for p in (child, *child.children(recursive=True)):
                    now += p.memory_info().rss
            most = max(most, now)
            with contextlib.suppress(subprocess.TimeoutExpired, psutil.TimeoutExpired):
                child.wait(LOOK_S)
        took = time.perf_counter() - start
        if child.returncode:
            said.seek(0)
            say(f"{argv[0]} failed: {said.read()[-2000:]}")
            raise subprocess.CalledProcessError(child.returncode, argv)
    return took, most


@contextlib.contextmanager
def dask():
    """The address of a cluster of two worker processes on this machine."""
    import distributed

    asked = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1"}
    with distributed.LocalCluster(
        processes=True, silence_logs=50, dashboard_address="127.0.0.1:0", **asked
    ) as made:
        yield made.scheduler_address
