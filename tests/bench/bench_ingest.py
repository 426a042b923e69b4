"""Ingest of generated archives: against one line by awk, against a parser as one would write it by
hand, and how time and memory grow with files and workers.

    python tests/bench/bench_ingest.py FOLDER     the parser by hand
"""

import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import pandas as pd
import psutil

import archive
from bench_rounds import Figure, Item, interleaved, middle, ratios, say, seconds
from noisefloor.data.ingest import manifest, opened

NOISEFLOOR = str(Path(sys.executable).parent / "noisefloor")
FILES = 3000
SIZES = (1_000, 10_000, 100_000)
LOOK_S = 0.1  # between two looks at the memory
FAST, SLOW = 5, 10  # times mawk at the most, times the parser by hand at the least
LIMIT_S, AGAIN_S, LIMIT_B = 60, 3, 10**9
MILLION, HOSTS, CORES = 1_000_000, 10, 2  # on paper


# -- the parser by hand ----------------------------------------------------------------------------

_N = r"([0-9.]+)"
_ROW = re.compile(
    rf"\[ {_N}s \] thds: {_N} tps: {_N} qps: {_N} \(r/w/o: {_N}/{_N}/{_N}\) "
    rf"lat \(ms,99%\): {_N} err/s: {_N} reconn/s: {_N}"
)
_BUCKET = re.compile(rf"\s*{_N} \|\**\s+(\d+)$")
_LABEL = re.compile(rf"\s+([a-z0-9 ()/]+):\s+{_N}")
_COLUMNS = ["file", "t_s", "threads", "tps", "qps", "reads", "writes", "other", "latency_ms"]
_COLUMNS += ["errors", "reconnects"]


def by_hand(folder: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """(rows, histogram, summary) of every text, line by line; nothing is checked."""
    rows, buckets, summary = [], [], []
    for file in sorted(Path(folder).rglob("*.txt")):
        name = str(file)
        with open(file) as text:
            for line in text:
                if found := _ROW.match(line):
                    rows.append((name, *map(float, found.groups())))
                elif found := _BUCKET.match(line):
                    buckets.append((name, float(found[1]), int(found[2])))
                elif found := _LABEL.match(line):
                    summary.append((name, found[1], float(found[2])))
    return (
        pd.DataFrame(rows, columns=_COLUMNS),
        pd.DataFrame(buckets, columns=["file", "value_ms", "count"]),
        pd.DataFrame(summary, columns=["file", "label", "value"]),
    )


# -- against others --------------------------------------------------------------------------------


def ingest(quick: bool) -> Item:
    """3,000 files: everything to Parquet against one line by mawk, and against `by_hand`."""
    n = FILES // 10 if quick else FILES
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as home:
        tree = Path(home, "tree")
        size = archive.tree(tree, n, jobs=2)
        say(f"ingest: {n} files, {size / 1e6:.0f} MB")
        awk = "mawk" if shutil.which("mawk") else "awk"
        line = [awk, "/transactions:/ {print FILENAME, $3}"]
        hand = [sys.executable, __file__, str(tree)]
        tasks = {
            "ingest": partial(fresh, tree, Path(home, "out")),
            awk: partial(seconds, ["find", str(tree), "-type", "f", "-exec", *line, "{}", "+"]),
            "by hand": partial(seconds, hand),
            "one file": partial(fresh, one(tree, Path(home, "one")), Path(home, "out of one")),
        }
        for task in tasks.values():
            task()  # the files are in memory from here on
        rounds = interleaved(2 if quick else 5, tasks, "ingest")
        same(tree, Path(home, "out"))
    took = {name: middle(rounds, name) for name in tasks}
    rate = f"{n / took['ingest']:,.0f} files/s, {size / took['ingest'] / 1e6:,.0f} MB/s"
    line_by_awk, by_hand_ = ratios(rounds, "ingest", awk), ratios(rounds, "by hand", "ingest")
    return Item(
        [
            Figure(
                f"{n:,} files, everything to Parquet, against one line of each by {awk}",
                line_by_awk, f"at most {FAST}", statistics.median(line_by_awk) <= FAST,
                f"{took['ingest']:.2f} s ({rate}, {os.cpu_count()} processes), {took['one file']:.2f} "
                f"s for a single file; {awk} {took[awk]:.2f} s",
            ),
            Figure(
                "a line-by-line parser into pandas against it (times faster)", by_hand_,
                f"at least {SLOW}", statistics.median(by_hand_) >= SLOW,
                f"{took['by hand']:.1f} s, one process, nothing checked",
            ),
        ]
    )  # fmt: skip


def one(tree: Path, folder: Path) -> Path:
    """A tree of one file: what a command takes to start and to end."""
    folder.mkdir()
    shutil.copy(next(tree.rglob("*.txt")), folder)
    return folder


def fresh(tree: Path, out: Path, *options: str) -> float:
    """Seconds of the command as a user gives it, into an empty folder."""
    shutil.rmtree(out, ignore_errors=True)
    return seconds([NOISEFLOOR, "ingest", str(tree), "--out", str(out), *options])


def same(tree: Path, out: Path) -> None:
    """Both read the same: as many rows and buckets, and no run is missing. Raises AssertionError."""
    rows, buckets, summary = by_hand(str(tree))
    assert opened(out, "intervals").count_rows() == len(rows)
    assert opened(out, "histograms").count_rows() == len(buckets)
    found = manifest(out)
    assert (found["runs"], found["problems"]) == (summary["file"].nunique(), 0)


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


if __name__ == "__main__":
    by_hand(sys.argv[1])
