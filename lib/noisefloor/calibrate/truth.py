"""The rule on campaigns with a known truth: every kind of noise, ten thousand campaigns each.

`measure` runs all cells of ``cells.toml`` on all cores. `write` and `read` keep the figures as
text, so a page can be rendered without running them again."""

import ast
import hashlib
import inspect
import itertools
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from noisefloor.calibrate import rivals, synthetic
from noisefloor.data.cluster import pool
from noisefloor.stats import combine, estimate, rule, student, verdict

CELLS = synthetic.ASKED
FILES = ("cells", "files", "mutants", "rivals", "sittings")  # CSV each
COUNTED = {"cells": synthetic.cell, "files": synthetic.files, "sittings": synthetic.sittings}
RULE = (rule, verdict, estimate, student, combine, synthetic, rivals)  # what the figures depend on

Rows = list[dict[str, Any]]
Job = tuple[Callable[..., Rows], Any, int, list[int]]  # a function, its arguments, n, seed


def grid(name: str) -> Iterator[dict[str, Any]]:
    """Every combination of the values of a table of cells.toml, as dicts."""
    table = CELLS[name]
    for values in itertools.product(*(v if isinstance(v, list) else [v] for v in table.values())):
        given = dict(zip(table, values, strict=True))
        yield given | given.pop("scatter", {})


def _jobs(step: int) -> Iterator[tuple[str, Callable[..., Rows], Any]]:
    """(name of the figures, function, its arguments)."""
    for name, count in COUNTED.items():
        for given in itertools.islice(grid(name), 0, None, step):
            yield name, _counted, (count, given)
    yield from (("mutants", _mutant, {"mutant": m} | g) for m, g in CELLS["mutants"].items())
    yield from (("rivals", _rivals, g) for g in grid("rivals"))


def measure(
    seed: int = 0,
    n: int = 0,
    step: int = 1,
    workers: int | None = None,
    progress: Callable[[Iterable[Rows], int], Iterable[Rows]] = lambda jobs, _: jobs,
) -> dict[str, Any]:
    """All figures: a frame for each of FILES, and "facts", a dict.

    seed, n (campaigns a cell): 0 for those of cells.toml; step: every `step`-th cell, for a small
    calibration; progress: wraps the iterator of finished jobs (tqdm). The same seed gives the same
    figures, however many processes (`workers`) compute them."""
    began, digest = time.monotonic(), fingerprint()
    seed, n = seed or CELLS["seed"], n or CELLS["campaigns"]
    jobs = list(_jobs(step))
    tasks = [(ask, given, n, [seed, i]) for i, (_, ask, given) in enumerate(jobs)]
    figures: dict[str, Rows] = {name: [] for name in FILES}
    with pool(workers=workers) as executor:
        done = progress(executor.map(_job, tasks, chunksize=4), len(tasks))
        for (name, *_), rows in zip(jobs, done, strict=True):
            figures[name] += rows
    facts = {
        "seed": seed,
        "campaigns": n,
        "cells": len(figures["cells"]),
        "full": step == 1,
        "margin_pct": CELLS["margin_pct"],
        "rule": digest,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began),
        "cores": executor.width,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("noisefloor", "numpy", "scipy")},
    }
    return {name: pd.DataFrame(rows) for name, rows in figures.items()} | {"facts": facts}


def write(figures: Mapping[str, Any], folder: str | Path) -> None:
    """The figures as CSV files and calibration.json in `folder`."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        figures[name].to_csv(
            folder / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n"
        )
    text = json.dumps(figures["facts"], indent=1, ensure_ascii=False)
    (folder / "calibration.json").write_text(text + "\n")


def read(folder: str | Path) -> dict[str, Any]:
    """What `write` wrote."""
    folder = Path(folder)
    tables = {name: pd.read_csv(folder / f"{name}.csv", keep_default_na=False) for name in FILES}
    return tables | {"facts": json.loads((folder / "calibration.json").read_text())}


def fingerprint() -> str:
    """A digest of the modules RULE and of cells.toml, without docstrings, comments, layout, imports and
    types. Recorded figures are valid for code with the same digest."""
    trees = [json.dumps(CELLS)]
    for source in map(inspect.getsource, RULE):
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
                if ast.get_docstring(node) is not None:
                    node.body = node.body[1:]
                node.body = [n for n in node.body if not isinstance(n, ast.Import | ast.ImportFrom)]
            if isinstance(node, ast.FunctionDef):
                node.returns = None
            if isinstance(node, ast.arg | ast.AnnAssign):
                node.annotation = None
        trees.append(repr(_shape(tree)))
    return hashlib.sha256("".join(trees).encode()).hexdigest()[:16]


def _shape(node: Any) -> Any:
    """A syntax tree as nested lists, without what is empty: `ast.dump` differs between Pythons."""
    if isinstance(node, ast.AST):
        parts = ((k, _shape(v)) for k, v in ast.iter_fields(node) if v not in (None, []))
        return [type(node).__name__, *parts]
    return [_shape(v) for v in node] if isinstance(node, list) else node


def _job(task: Job) -> Rows:
    """The rows of one job."""
    ask, given, n, seed = task
    return ask(given, n, seed)


def _counted(asked: tuple[Any, dict[str, Any]], n: int, seed: list[int]) -> Rows:
    """A row: what a function of `synthetic` counts."""
    count, given = asked
    return [given | {"n": n} | count(given, n, np.random.default_rng(seed))]


def _mutant(given: dict[str, Any], n: int, seed: list[int]) -> Rows:
    """False differences of a mutant of the rule, and of the rule itself in the same noise."""
    broken, whole = synthetic.mutant(given, n, seed)
    return [{"mutant": given["mutant"], "n": n, "count": broken, "rule": whole}]


def _rivals(given: dict[str, Any], n: int, seed: list[int]) -> Rows:
    counts = rivals.rates(given, n, np.random.default_rng(seed))
    return [{"rival": r, "drift": given["drift"], "n": n, "count": c} for r, c in counts.items()]
