"""The rule against campaigns whose truth is known: every kind of noise, ten thousand campaigns each.

`measure` runs all cells on all cores, `write` and `read` keep the figures as text, so that a page
can be rendered without running them again."""

import ast
import hashlib
import inspect
import itertools
import json
import platform
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd

from noisefloor.calibration import rivals
from noisefloor.cluster import pool
from noisefloor.stats import paired, plan, samples, sequential, synthetic

CAMPAIGNS = 10_000  # a cell
CVS = (0.005, 0.01, 0.02, 0.04)
BLOCK_CVS = (0.0, 0.01, 0.02)
DESIGNS = ("switched", "side by side")
MARGIN = 0.02
EFFECTS = (0.0, 0.01, MARGIN, 0.05)
THREADS = 4  # comparisons of one family
DOUBT = plan.DOUBT
FILES = ("cells", "rates", "rivals")  # CSV each
KEY = ["design", "noise", "dependence", "drift", "cv", "block_cv", "effect"]


def grid(step=1):
    """Arguments of `synthetic.cell` for every cell; every `step`-th one for a small calibration."""
    kinds = itertools.product(
        DESIGNS, synthetic.NOISES, synthetic.DEPENDENCES, synthetic.DRIFTS, CVS, BLOCK_CVS
    )
    effects = EFFECTS if step == 1 else (0.0, MARGIN)
    return [
        dict(zip(KEY, (*kind, effect), strict=True))
        for kind in itertools.islice(kinds, 0, None, step)
        for effect in effects
    ]


def measure(
    seed=1, n=CAMPAIGNS, step=1, workers=None, progress=lambda jobs, total: jobs, cluster=""
):
    """All figures: {"cells", "rates", "rivals": frames, "facts": dict}.

    progress: wraps the iterator of finished jobs (tqdm); cluster: of Dask, instead of `workers`
    processes. The same seed gives the same figures wherever they are computed. Raises
    cluster.Unreachable."""
    began, rule = time.monotonic(), fingerprint()
    jobs = [("cell", given) for given in grid(step)]
    jobs += [("rates", given) for given in _questions()]
    jobs += [("rivals", given) for given in rivals.grid(step)]
    tasks = [(kind, given, [seed, i], n) for i, (kind, given) in enumerate(jobs)]
    found = {kind: [] for kind in ("cell", "rates", "rivals")}
    # the long ones first, so that no core waits at the end; the order of the results stays
    with pool(cluster, workers) as executor:
        done = progress(executor.map(_job, tasks, chunksize=8), len(tasks))
        for (kind, _), rows in zip(jobs, done, strict=True):
            found[kind] += rows
    facts = {
        "seed": seed,
        "campaigns": n,
        "cells": len(found["cell"]),
        "full": step == 1,
        "pairs": synthetic.PAIRS,
        "block_pairs": synthetic.BLOCK,
        "margin_pct": 100 * MARGIN,
        "rule": rule,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began),
        "cores": executor.width,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("noisefloor", "numpy", "scipy")},
    }
    frames = {"cells": found["cell"], "rates": found["rates"], "rivals": found["rivals"]}
    return {name: pd.DataFrame(rows) for name, rows in frames.items()} | {"facts": facts}


def write(figures, folder):
    """The figures as three CSV files and calibration.json in `folder`."""
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
    """A digest of the rule and of the campaigns it is tried on, blind to comments and layout: the
    recorded figures speak for the code that has the same one."""
    trees = []
    for module in (sequential, synthetic):
        tree = ast.parse(inspect.getsource(module))
        for node in ast.walk(tree):
            documented = isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            if documented and ast.get_docstring(node) is not None:
                node.body = node.body[1:]
        trees.append(ast.dump(tree))
    return hashlib.sha256("".join(trees).encode()).hexdigest()[:16]


def rate(question, case, count, n):
    """A row of the rates: how often something happened in n campaigns, with its bounds (95 %)."""
    lo, hi = synthetic.clopper_pearson(int(count), int(n))
    return {
        "question": question, "case": case, "n": int(n), "count": int(count),
        "value": count / n, "lo": lo, "hi": hi,
    }  # fmt: skip


def _job(task):
    kind, given, seed, n = task
    if kind == "cell":
        return [_cell(given, seed, n)]
    if kind == "rivals":
        return rivals.synthetic_rates(given, seed, n)
    given = dict(given)
    return given.pop("ask")(seed=seed, n=n, **given)


def _cell(given, seed, n):
    row = synthetic.cell(n_campaigns=n, seed=seed, margin=MARGIN, **given)
    del row["margin"]
    return row


def _questions():
    """What the grid does not ask: families, doubtful floors, price, mutants."""
    out = [
        {"ask": _family, "design": design, "noise": noise, "dependence": dependence,
         "block_cv": block_cv}
        for design in DESIGNS
        for noise, dependence, block_cv in (
            ("normal", "iid", 0.0), ("stalls", "iid", 0.0), ("bimodal", "AR 0.8", 0.0),
            ("normal", "iid", 0.01),
        )
    ]  # fmt: skip
    out += [
        {"ask": _doubt_live, "noise": noise, "design": design}
        for noise in synthetic.NOISES
        for design in DESIGNS
    ]
    out += [
        {"ask": _doubt_floor, "start_cv": start, "run_cv": run}
        for start in (0.001, 0.002, 0.003, 0.005)
        for run in (0.001, 0.003)
    ]
    out += [
        {"ask": _price, "effect": effect, "case": case, **given}
        for effect in (0.0, 0.02, 0.05)
        for case, given in (
            ("one start", {"block_pairs": synthetic.PAIRS}),
            ("starts of 4 pairs", {}),
            ("side by side, blocks of 4 pairs", {"design": "side by side"}),
            ("side by side, blocks of 1 pair", {"design": "side by side", "block_pairs": 1}),
        )
    ]
    out += [{"ask": _mutant, "name": name} for name in synthetic.MUTANTS]
    out += [
        {"ask": _settled_beforehand, "noise": noise, "design": design, "block_cv": block_cv}
        for noise in synthetic.NOISES
        for design in DESIGNS
        for block_cv in (0.0, 0.01)
    ]
    return out


def _family(design, noise, dependence, block_cv, seed, n, alpha=0.05):
    """Any `slower` or `faster` among the thread counts of one family, or in its joint effect, at
    any look, when all truths are 0. Thread counts that are settled get no more pairs."""
    m = np.log1p(MARGIN)
    starts = 4 if block_cv and design == "switched" else 0
    members = [
        synthetic.campaigns(
            noise, dependence, cv=0.02, block_cv=block_cv, n_campaigns=n, design=design,
            seed=[*seed, k],
        )
        for k in range(THREADS)
    ]  # fmt: skip
    d, block = np.stack([m[0] for m in members]), members[0][1]
    code, p = _read(d, block, design, m, alpha)
    joint, p_joint = _read(d.mean(0), block, design, m, alpha)
    allowed = sequential.complete(block) >= starts
    settled = np.zeros(d.shape[:2], bool)
    held, alarm, alarm_joint = np.ones(d.shape[:2]), np.zeros(n, bool), np.zeros(n, bool)
    for look in np.flatnonzero(allowed):
        held = np.where(settled, held, p[..., look])
        family = np.concatenate([held, p_joint[None, :, look]])  # the joint row is a member of it
        rank = family.argsort(0).argsort(0)
        steps = np.sort(family, 0) * np.arange(THREADS + 1, 0, -1)[:, None]
        adjusted = np.take_along_axis(np.maximum.accumulate(steps, 0), rank, 0)
        adjusted, adjusted_joint = adjusted[:-1], adjusted[-1]
        differs = np.isin(code[..., look], (sequential.SLOWER, sequential.FASTER)) & ~settled
        found = differs & (adjusted <= alpha)
        alarm |= found.any(0)
        everything = settled.all(0)
        alarm_joint |= np.isin(joint[:, look], (1, -1)) & (adjusted_joint <= alpha) & ~everything
        settled |= found | (~settled & (code[..., look] == sequential.SAME))
    case = f"{design}, {noise}, {dependence}, block effect {100 * block_cv:g} %"
    return [
        rate("family-wise error", case, alarm.sum(), n),
        rate("family-wise error with the joint effect", case, (alarm | alarm_joint).sum(), n),
    ]


def _read(d, block, design, margin, alpha):
    """(code, p) after every look, as the verdict table reads a comparison."""
    code = sequential.decide(d, block, design=design, margin=margin, alpha=alpha)
    if design == "side by side":
        e = sequential.against(sequential.means(d, block), np.zeros(d.shape[:-1]), margin)
        e = np.concatenate([np.ones((*e.shape[:-1], 1)), e], -1)[..., sequential.complete(block)]
    else:
        e = sequential.against(d, np.zeros(d.shape[:-1]), margin)
    return code, 1 / np.maximum(e, 1)


def _doubt_live(noise, design, seed, n):
    """False `same` at the margin when the noise is 1.5 times what the first pairs showed."""
    m = np.log1p(MARGIN)
    d, block = synthetic.campaigns(noise, cv=0.01, n_campaigns=n, seed=seed, design=design)
    d[:, 12:] *= DOUBT
    code = sequential.decide(d + m, block, design=design, margin=m)
    _, code = sequential.stop(code)
    case = f"live, {design}, {noise}: noise {DOUBT:g} times larger from the 13th pair on"
    return [rate("false same, noise underestimated", case, (code == sequential.SAME).sum(), n)]


def _doubt_floor(start_cv, run_cv, seed, n):
    """False `same` at the margin for logs from one start, judged with a floor measured 1.5 times
    too small: five runs an arm, and one run an arm."""
    rng = np.random.default_rng(seed)
    m = np.log1p(MARGIN)
    floor = samples.start_floor((100 * start_cv / DOUBT, 10), "tps")
    starts = rng.normal(0, start_cv, (n, 2))
    runs = starts[..., None] + rng.normal(0, run_cv, (n, 2, 5))
    five = sum(
        samples.judge([(a, b + m)], margin=m, floor=floor).verdict == "same" for a, b in runs
    )
    one = sum(
        samples.judge([(a[:1], b[:1] + m)], margin=m, floor=floor, known_floor=True).verdict
        == "same"
        for a, b in starts[..., None]
    )
    where = f"start-to-start CV {100 * start_cv:g} %, floor {DOUBT:g} times too small"
    return [
        rate("false same, noise underestimated", f"5 runs an arm, {where}, run CV {100 * run_cv:g} %", five, n),
        rate("false same, noise underestimated", f"1 run an arm, {where}", one, n),
    ]  # fmt: skip


def _price(effect, case, seed, n, **given):
    """Mean pairs to the end of a campaign at a pair sd of 2 %."""
    cell = synthetic.cell(
        cv=0.02 / np.sqrt(2), effect=effect, n_campaigns=n, seed=seed, margin=MARGIN, **given
    )
    row = rate("pairs to a verdict", f"{100 * effect:g} %, {case}", n - cell["cannot_tell"], n)
    return [row | {"value": cell["pairs_mean"], "lo": np.nan, "hi": np.nan}]


def _mutant(name, seed, n):
    """False alarms of a mutant of the rule, and of the rule itself in the same cell."""
    given = dict(synthetic.MUTANTS[name])
    broken = synthetic.cell(n_campaigns=n, seed=seed, **given)
    whole = synthetic.cell(n_campaigns=n, seed=seed, **{k: v for k, v in given.items() if k not in ("rule", "order")})  # fmt: skip
    return [
        rate("mutant", name, broken["wrong"], n),
        rate("the rule in the mutant's cell", name, whole["wrong"], n),
    ]


def _settled_beforehand(noise, design, block_cv, seed, n, pairs=24):
    """Coverage of the classical interval for a number of pairs that was settled beforehand."""
    d, block = synthetic.campaigns(
        noise, cv=0.02, block_cv=block_cv, n_campaigns=n, seed=seed, design=design, n_pairs=pairs
    )
    units = sequential.means(d, block)
    differ = sequential.unequal(d, block)[:, -1] if design == "switched" else np.ones(n, bool)
    held = 0
    for row, whole, by_block in zip(d, units, differ, strict=True):
        ends = [paired.t_interval(whole)] if by_block else []
        if design == "switched":
            ends.append(paired.t_interval(row))
        lo, hi = max(ends, key=lambda e: e[1] - e[0])
        held += lo <= 0 <= hi
    case = f"{design}, {noise}, {pairs} pairs, block effect {100 * block_cv:g} %"
    return [rate("coverage, pairs settled beforehand", case, held, n)]
