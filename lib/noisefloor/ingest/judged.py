"""Tables of an ingested archive -> verdict rows: one arm against the others, by a label.

Runs are pooled only where everything else that is known of them agrees.
"""

import json
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds

from noisefloor import compare
from noisefloor.compare import Refused, Run

from .table import opened

LABELS = (
    "server", "version", "buffer_pool", "setting", "folder", "arm", "study", "campaign", "host",
    "tool_version",
)  # fmt: skip
KEYS = ("study", "campaign", "workload", "arm", "server", "version", "buffer_pool", "setting", "host")  # fmt: skip
HARD = ("tool", "workload", *compare.REFUSED)  # what a comparison cannot be across


def pooled(
    folder: Path,
    label: str,
    value: str,
    where: dict[str, str],
    margin_pct: float,
    *,
    restarts: bool = False,
    floor: float | None = None,
):
    """(list of groups of verdict rows, sentences about what was left out): the runs whose `label`
    is `value` against those of every other value of it, `where` other labels are as asked.

    A group is one arm and one set of runs that agree in all else. Raises Refused, NotATable."""
    for name in (label, *where):
        if name not in LABELS:
            raise Refused(
                f"{name!r} is no label of a table: {', '.join(LABELS)}; nothing was judged"
            )
    runs = _runs(folder, label, where)
    arms: dict[str, dict[tuple, list[Run]]] = {}
    twins, seen = 0, set()
    for arm, run, key in runs:
        if run.source in seen:
            twins += 1
            continue
        seen.add(run.source)
        arms.setdefault(arm, {}).setdefault(key, []).append(run)
    if value not in arms or len(arms) < 2:
        known = ", ".join(sorted(arms)[:20]) or "none"
        raise Refused(
            f"--baseline {label}={value}: runs with it and with another {label} are needed, and "
            f"there are: {known}; nothing was judged"
        )
    said = [f"{twins} files hold the same text as another one; each counts once"] * bool(twins)
    base = arms.pop(value)
    _rows_of_single(folder, [c for cells in (base, *arms.values()) for c in cells.values()])
    vary = {n for cells in (base, *arms.values()) for n in _varying(list(cells))}
    groups = []
    for arm, cells in sorted(arms.items()):
        for key, after in cells.items():
            before, differ = _partner(base, key)
            if before is None:
                said.append(
                    f"{arm} ({_shown(key, vary) or 'all'}), {len(after)} runs: left out, {differ}"
                )
                continue
            notes = [f"only runs with {_shown(key, vary)}: no others were pooled"] if vary else []
            notes += [f"the arms differ in {differ}, too"] if differ else []
            try:
                found = compare.rows(
                    before,
                    after,
                    baseline=value,
                    arm=arm,
                    margin_pct=margin_pct,
                    restarts=restarts,
                    floor=floor,
                )
            except Refused as e:
                said.append(f"{arm} ({_shown(key, vary) or 'all'}): left out, {e}")
                continue
            for row in found:
                row["warnings"] = [*row["warnings"], *notes]
            groups.append(found)
    if not groups:
        raise Refused("; ".join(said) + "; nothing was judged", 1)
    return groups, said


def _runs(folder: Path, label: str, where: dict[str, str]):
    """(value of the label, Run, everything else that is known of it) of each run."""
    names = list(dict.fromkeys(_column(n) for n in (*KEYS, label, *where)))
    more = [
        "run",
        "file",
        "line",
        "threads",
        "path_threads",
        "tool",
        "duration_s",
        "keys",
        "warnings",
    ]
    asked = ~ds.field("warmup") & ds.field("metric").isin(list(compare.LABEL))
    for name, value in where.items():
        if name != "buffer_pool":
            asked &= ds.field(name) == value
    table = opened(folder, "tidy").to_table(
        columns=list(dict.fromkeys([*names, *more, "metric", "value"])), filter=asked
    )
    files = opened(folder, "files").to_table(columns=["file", "member", "sha256"]).to_pydict()
    text = {
        (f"{f}//{m}" if m else f): h
        for f, m, h in zip(files["file"], files["member"], files["sha256"], strict=True) if h
    }  # fmt: skip
    values: dict[str, dict] = {}
    first: dict[str, dict] = {}
    for row in table.to_pylist():
        values.setdefault(row["run"], {})[row["metric"]] = row["value"]
        first.setdefault(row["run"], row)
    for run, row in first.items():
        facts = {n: _value(n, row) for n in dict.fromkeys((*KEYS, label, *where))}
        if facts[label] == "" or any(facts[n] != v for n, v in where.items()):
            continue
        keys = json.loads(row["keys"])
        known = {n: facts[n] for n in KEYS if n != label} | {"tool": row["tool"]} | keys
        if label in ("folder", "setting", "arm"):
            known.pop("setting", None)
        if row["threads"] is None:
            known["threads in the path"] = row["path_threads"]
        name = run.removesuffix(f":{row['line']}")
        yield facts[label], Run(
            run, values[run], row["threads"], keys, row["duration_s"],
            notes=tuple(n for n in row["warnings"].split(" | ") if n),
            source=hash((text.get(name, run), row["line"])),
        ), tuple(sorted((k, str(v)) for k, v in known.items() if v not in (None, "")))  # fmt: skip


def _column(label: str) -> str:
    return "buffer_pool_B" if label == "buffer_pool" else label


def _value(label: str, row: dict) -> str:
    value = row[_column(label)]
    if label == "buffer_pool" and value is not None:
        return f"{value / 2**30:g}G"
    return "" if value is None else str(value)


def _varying(keys: list[tuple]) -> set[str]:
    """Names in which some keys differ."""
    every = {n for key in keys for n, _ in key}
    return {n for n in every if len({dict(key).get(n) for key in keys}) > 1}


def _shown(key: tuple, names) -> str:
    return ", ".join(f"{n.replace('_', ' ')} {v}" for n, v in key if n in names)


def _partner(base: dict[tuple, list[Run]], key: tuple) -> tuple[list[Run] | None, str]:
    """(baseline runs that go with a key, in what they differ); (None, why) without any."""
    if key in base:
        return base[key], ""
    mine = dict(key)
    near: dict[int, list[tuple]] = {}
    for other in base:
        differ = _varying([key, other])
        if not differ & set(HARD):
            near.setdefault(len(differ), []).append(other)
    if not near:
        return None, "no baseline run has the same workload"
    best = near[min(near)]
    if len(best) > 1:
        names = set().union(*(_varying([key, b]) for b in best))
        return None, (
            f"{len(best)} sets of baseline runs are equally near and must not be pooled: "
            f"{' / '.join(_shown(b, names) for b in best[:3])}; --where takes one"
        )
    theirs = dict(best[0])
    return base[best[0]], "; ".join(
        f"{n.replace('_', ' ')} ({theirs.get(n, 'none')} and {mine.get(n, 'none')})"
        for n in sorted(_varying([key, best[0]]))
    )


def _rows_of_single(folder: Path, cells: list[list[Run]]) -> None:
    """Give runs that stand alone their rows, as files would have them."""
    alone: dict[str, list] = {}
    for runs in cells:
        if len({r.threads for r in runs}) == len(runs):
            alone |= {r.name: runs for r in runs}
    if not alone:
        return
    found = opened(folder, "intervals").to_table(
        columns=["run", "tps", "events_per_s"],
        filter=ds.field("run").isin(list(alone)) & ds.field("ok"),
    )
    names = found["run"].to_numpy()
    rates = pc.coalesce(found["tps"], found["events_per_s"]).to_numpy()
    for name, runs in alone.items():
        mine = rates[names == name].astype(float)
        if mine.size:
            at = next(i for i, r in enumerate(runs) if r.name == name)
            runs[at] = compare.replace(runs[at], rows=mine)
