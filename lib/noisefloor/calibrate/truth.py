"""The rule against campaigns whose truth is known: every kind of noise, ten thousand campaigns each.

`measure` runs all cells on all cores, `write` and `read` keep the figures as text, so that a page
can be rendered without running them again."""

import ast
import bisect
import hashlib
import inspect
import itertools
import json
import math
import platform
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd

from noisefloor.calibrate import rivals
from noisefloor.calibrate.rivals import bounded
from noisefloor.data.cluster import pool
from noisefloor.stats import estimate, flips, graph, rule, scatter, spending, student, synthetic

CAMPAIGNS = 10_000  # a cell
# (run CV, block effect): what runs and server starts scatter
SCATTERS = {
    "switched": ((0.02, 0.0), (0.04, 0.01)),
    "side by side": ((0.04, 0.0), (0.02, 0.02)),
}
THREADS = 4  # comparisons of one family
TRUTHS = (0.0, 1.0, 2.0, 4.0, 10.0)  # percent
PAIR_SDS = (2.0, 4.0)  # percent
MOST = 80  # pairs that are tried
RIGHT = 0.8
POWER_BLOCKS = 12
RUNS = (2, 3, 4, 6, 10, 20, 30)  # files an arm
RUN_CVS = (0.005, 0.01, 0.03, 0.1)
FILES = ("cells", "families", "prices", "files", "mutants", "rivals")  # CSV each
KEY = ["design", "blocks", "noise", "dependence", "drift", "cv", "block_cv"]
RULE = (rule, flips, spending, graph, estimate, student, synthetic)  # what the figures are of


def grid(step=1):
    """Kinds of noise with a design and a number of declared blocks; every `step`-th one for a small
    calibration."""
    kinds = itertools.product(
        SCATTERS, synthetic.PAIRS, synthetic.NOISES, synthetic.DEPENDENCES, synthetic.DRIFTS
    )
    return [
        dict(zip(KEY, (*kind, *scatters), strict=True))
        for kind in itertools.islice(kinds, 0, None, step)
        for scatters in SCATTERS[kind[0]]
    ]


def _jobs(step):
    """(name of the figures, function, its arguments)."""
    cells = grid(step)
    # every noise with every number of blocks once, the designs in turn, where starts differ
    families = [
        g for k, g in enumerate(cells[1::2]) if (k + k // 4 + (g["design"] == "switched")) % 2
    ]
    yield from (("cells", _cell, g) for g in cells)
    yield from (("families", _family, g) for g in families)
    for sd, truth in itertools.product(PAIR_SDS, TRUTHS):
        yield "prices", _price, {"sd_pct": sd, "truth_pct": truth}
    for restarts, count in itertools.product((False, True), RUNS):
        kinds = [(0.01, 0.05), *((cv, 0.0) for cv in RUN_CVS)]
        for cv, effect in kinds:
            yield "files", _files, {"runs": count, "restarts": restarts, "cv": cv, "effect": effect}
    for name in (*synthetic.MUTANTS, "ddof 0"):
        yield "mutants", _mutant, {"mutant": name}
    yield from (("rivals", rivals.synthetic_rates, g) for g in rivals.grid(step))


def measure(
    seed=1, n=CAMPAIGNS, step=1, workers=None, progress=lambda jobs, total: jobs, cluster=""
):
    """All figures: a frame for each of FILES, and "facts", a dict.

    progress: wraps the iterator of finished jobs (tqdm); cluster: of Dask, instead of `workers`
    processes. The same seed gives the same figures wherever they are computed. Raises
    cluster.Unreachable."""
    began, digest = time.monotonic(), fingerprint()
    jobs = list(_jobs(step))
    tasks = [(ask, given, [seed, i], n) for i, (_, ask, given) in enumerate(jobs)]
    found, spent = {name: [] for name in FILES}, 0.0
    with pool(cluster, workers) as executor:
        done = progress(executor.map(_job, tasks, chunksize=4), len(tasks))
        for (name, *_), (rows, seconds) in zip(jobs, done, strict=True):
            found[name] += rows
            spent += seconds
    facts = {
        "seed": seed,
        "campaigns": n,
        "cells": len(found["cells"]),
        "full": step == 1,
        "margin_pct": synthetic.MARGIN_PCT,
        "rule": digest,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began),
        "cores": executor.width,
        "core_seconds": round(spent),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("noisefloor", "numpy", "scipy")},
    }
    return {name: pd.DataFrame(rows) for name, rows in found.items()} | {"facts": facts}


def write(figures, folder):
    """The figures as CSV files and calibration.json in `folder`."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        figures[name].to_csv(
            folder / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n"
        )
    text = json.dumps(figures["facts"], indent=1, ensure_ascii=False)
    (folder / "calibration.json").write_text(text + "\n")


def read(folder):
    """What `write` wrote."""
    folder = Path(folder)
    out = {
        name: pd.read_csv(folder / f"{name}.csv", keep_default_na=False, na_values=[""])
        for name in FILES
    }
    return out | {"facts": json.loads((folder / "calibration.json").read_text())}


def fingerprint():
    """A digest of the rule and of the campaigns it is tried on, blind to comments, layout, imports and
    types: the recorded figures speak for the code that has the same one."""
    trees = []
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
        trees.append(ast.dump(tree))
    return hashlib.sha256("".join(trees).encode()).hexdigest()[:16]


def _job(task):
    """(rows, seconds of processor time) of one job."""
    ask, given, seed, n = task
    began = time.process_time()
    return ask(given, n, seed), time.process_time() - began


def _cell(given, n, seed):
    """Two rows, the truth 0 and the margin, on the same noise: see `synthetic.tally`."""
    rng = np.random.default_rng(seed)
    units = synthetic.pairs(given, n, given["blocks"], rng).mean(-1)
    return [
        given | {"truth_pct": truth, "n": n} | synthetic.tally(units, math.log1p(truth / 100))
        for truth in (0.0, synthetic.MARGIN_PCT)
    ]


def _family(given, n, seed):
    """Alarms in a family of THREADS equal thread counts and their joint effect. Two servers that are
    restarted differ alike at every thread count of a block."""
    rng = np.random.default_rng(seed)
    shared = given["design"] != "switched"
    own = given | {"block_cv": 0.0 if shared else given["block_cv"]}
    each = [synthetic.pairs(own, n, given["blocks"], rng).mean(-1) for _ in range(THREADS)]
    members = np.stack(each, 1)
    if shared:
        shape = (n, 1, given["blocks"])
        members += synthetic.starts(given["block_cv"], shape, given["design"], rng)
    found = synthetic.alarms(members, scatter.population("tps"))
    return [given | bounded(found.sum(), n)]


def _price(given, n, seed):
    """The smallest declared number of blocks of one pair after which RIGHT of all campaigns have a
    right word; words at POWER_BLOCKS, and the pairs that so many blocks need for the same."""
    noise = np.random.default_rng(seed).standard_normal((n, MOST)) * given["sd_pct"] / 100
    theta = math.log1p(given["truth_pct"] / 100)
    right = ("same",) * (theta < synthetic.MARGIN) + ("slower",) * (theta > 0)

    def found(blocks, each=1):
        code = rule.decide(noise[:, :blocks] / math.sqrt(each) + theta, margin=synthetic.MARGIN)[1]
        counts = {word: int((code == c).sum()) for word, c in synthetic.WORDS.items()}
        return counts | {"right": sum(counts[word] for word in right)}

    def enough(blocks, each=1):
        return found(blocks, each)["right"] >= RIGHT * n

    pairs = _smallest(enough, MOST)
    each = _smallest(lambda k: enough(POWER_BLOCKS, k), MOST)
    at = found(POWER_BLOCKS)
    return [
        given
        | {"n": n, "pairs": pairs, "right": found(pairs)["right"] if pairs else 0}
        | {"pairs_in_blocks": POWER_BLOCKS * each if each else math.nan}
        | {f"{word}_at_blocks": at[word] for word in (*synthetic.WORDS, "right")}
    ]


def _smallest(holds, most):
    """The smallest number from 1 to most that holds, for what hardly ever stops holding once it
    does; NaN without one."""
    if not holds(most):
        return math.nan
    high = 1 + bisect.bisect_left(range(1, most), True, key=holds)
    while high > 2 and (holds(high - 1) or holds(high - 2)):
        high -= 1
    return high


def _files(given, n, seed):
    """Words of comparisons of files: see `synthetic.files`."""
    asked = (given[k] for k in ("runs", "cv", "effect", "restarts"))
    return [given | {"n": n} | synthetic.files(*asked, n, np.random.default_rng(seed))]


def _mutant(given, n, seed):
    """False alarms of a mutant of the rule, and of the rule itself in the same noise."""
    broken, whole = synthetic.mutant(given["mutant"], n, seed)
    return [given | bounded(broken, n) | {"rule": whole / n}]
