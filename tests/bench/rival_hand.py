"""The tables of `noisefloor ingest` by a parser as one would write it by hand, on all cores.

python tests/bench/rival_hand.py TREE OUT [--checked]
"""

import os
import re
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rival_forms import BUCKET, LABEL, METRICS, PATH, RATES, ROW, names

_ROW, _BUCKET, _LABEL, _PATH = (re.compile(form, re.M) for form in (ROW, BUCKET, LABEL, PATH))
_LAST = re.compile(r"\n +execution time \(avg/stddev\): +[0-9.]+/[0-9.]+\n")


class Run(NamedTuple):
    """The numbers of one text, as they are printed; labels: the count and the rate of each."""

    rows: np.ndarray
    buckets: np.ndarray
    labels: dict[str, tuple[float, float]]


def parsed(text: str) -> Run:
    """What a text says, as far as it can be read."""
    above, _, below = text.partition("\nLatency histogram")
    return Run(
        np.array(_ROW.findall(above), float).reshape(-1, _ROW.groups),
        np.array(_BUCKET.findall(below), float).reshape(-1, _BUCKET.groups),
        {label: (float(n), float(rate or 0)) for label, n, rate in _LABEL.findall(below)},
    )


def check(text: str, run: Run) -> None:
    """Raises ValueError for a text that is cut off, and for numbers that contradict each other."""
    if not _LAST.search(text):
        raise ValueError("the text is cut off")
    if len(run.rows) != text.count("\n["):
        raise ValueError("a row is not whole")
    if run.buckets[:, 1].sum() != run.labels["total number of events"][0]:
        raise ValueError("the histogram does not hold the summary's events")
    t_s, tps = run.rows[:, 0], run.rows[:, 2]
    counted = (tps * np.diff(t_s, prepend=0)).sum()
    if abs(counted / run.labels["transactions"][0] - 1) > 0.1:
        raise ValueError("the rows do not add up to the summary's transactions")


def value(metric: str, count: float, rate: float) -> float:
    """A number of the summary in base units."""
    if metric in RATES:
        return rate
    return count / 1e3 if metric.endswith("latency") else count


def part(files: list[Path], tree: Path, out: Path, number: int, checked: bool) -> None:
    """Write one part of each table. Raises ValueError with the file that `check` refuses."""
    found: dict[str, Run] = {}
    for file in files:
        text, name = file.read_text(), str(file.relative_to(tree))
        found[name] = parsed(text)
        if checked:
            try:
                check(text, found[name])
            except ValueError as e:
                raise ValueError(f"{name}: {e}; nothing more was read") from None
    intervals = stacked({name: run.rows for name, run in found.items()}, names(ROW))
    intervals["latency_s"] = intervals["latency_s"] / 1e3
    kinds = {c: np.int32 if c == "threads" else np.float32 for c in names(ROW)}
    intervals |= {c: intervals[c].astype(kind) for c, kind in kinds.items()}
    histograms = stacked({name: run.buckets for name, run in found.items()}, names(BUCKET))
    histograms["value_s"] = histograms["value_s"] / 1e3
    histograms["count"] = histograms["count"].astype(int)
    summary = [
        (name, METRICS[label], value(METRICS[label], *numbers))
        for name, run in found.items()
        for label, numbers in run.labels.items()
        if label in METRICS
    ]
    tables: dict[str, Mapping[str, Any]] = {
        "intervals": intervals,
        "histograms": histograms,
        "summary": dict(zip(("run", "metric", "value"), zip(*summary, strict=True), strict=True)),
        "labels": of_paths(list(found)),
    }
    for name, columns in tables.items():
        file = out / name / f"{number}.parquet"
        pq.write_table(pa.table(columns), file, compression="zstd", compression_level=1)


def stacked(each: dict[str, np.ndarray], columns: list[str]) -> dict[str, Any]:
    """{column: values} of the tables of all runs, one below the other, and whose they are."""
    which = np.repeat(np.arange(len(each)), [len(table) for table in each.values()])
    numbers = dict(zip(columns, np.concatenate(list(each.values())).T, strict=True))
    return {"run": pa.array(list(each)).take(pa.array(which)), **numbers}


def of_paths(runs: list[str]) -> dict[str, Any]:
    """{label: values} of the paths of runs."""
    rows = [match.groups() for run in runs if (match := _PATH.search(run))]
    columns: dict[str, Any] = dict(zip(names(PATH), zip(*rows, strict=True), strict=True))
    for name in ("repetition", "path_threads", "buffer_pool_B"):
        columns[name] = np.array(columns[name], np.int64)
    columns["buffer_pool_B"] = columns["buffer_pool_B"] * 2**30
    return {"run": runs, **columns}


def write(tree: Path, out: Path, checked: bool = False) -> None:
    """Write the tables of a tree into `out`, a part for each core."""
    for name in ("intervals", "histograms", "summary", "labels"):
        (out / name).mkdir(parents=True)
    files, width = sorted(tree.rglob("*.txt")), os.cpu_count() or 1
    shares = [files[i::width] for i in range(width)]
    with ProcessPoolExecutor(width) as pool:
        read = partial(part, tree=tree, out=out, checked=checked)
        parts = [pool.submit(read, share, number=i) for i, share in enumerate(shares) if share]
        for done in parts:
            done.result()


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), "--checked" in sys.argv)
