"""A tree of results -> tables, part by part; the next time only what is new or changed.

A part counts when its ``files`` table is in place, which is written last. When a file changed or
went, all that its part holds is read again.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, as_completed
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisefloor.data.compare import Refused
from noisefloor.data.ingest import labels, table
from noisefloor.data.ingest.files import walk
from noisefloor.data.ingest.part import part, stamp
from noisefloor.data.ingest.table import MANIFEST, TABLES, parts

BATCH_BYTES, BATCH_FILES = 16 * 2**20, 2000
HERE_BYTES = 4 * 2**20  # of text that one process has read before others have started
EMPTY = "part-000000.parquet"  # so that a table opens also where no file has any row for it


def build(
    root: Path,
    out: Path,
    pool: Callable[[], contextlib.AbstractContextManager[Executor]],
    *,
    rules: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict:
    """Bring the tables in `out` up to `root`; returns the manifest.

    rules: the user's file of labels (`labels.patterns`). pool: gives an executor (of
    `data.cluster`); it is not asked for when there is little to do. progress: called with bytes
    read and bytes to read. Raises Refused."""
    root, out = Path(root), Path(out)
    if not root.exists():
        raise Refused(f"{root} does not exist; nothing was read")
    if not os.access(root, os.R_OK):
        raise Refused(f"{root} cannot be read (permission denied); nothing was read", 1)
    given = labels.patterns(rules) if rules else ()
    root, out = root.resolve(), out.resolve()
    if root.is_relative_to(out):
        raise Refused(f"--out {out.name} holds the tree itself; nothing was read")
    try:
        with _alone(out):
            return _build(root, out, pool, progress, given)
    except BrokenExecutor:
        why = "a process that read files was killed (out of memory?)"
    except OSError as e:
        why = f"the tables cannot be written ({e.strerror or e})"
    raise Refused(f"{why}; whole parts are kept, the same command continues", 1)


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    if out.exists() and not (out / MANIFEST).exists() and any(out.iterdir()):
        raise Refused(f"{out.name} holds files that are no table of ours; nothing was written")
    out.mkdir(parents=True, exist_ok=True)
    with open(out / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(
                f"another ingest is writing into {out.name}; nothing was done", 1
            ) from None
        yield


def _build(root, out, pool, progress, given) -> dict:
    known = _begin(root, out)
    found = {stamp(*unit, given): unit for unit in walk(root, out)}
    again = {known[mark] for mark in known.keys() - found.keys()}
    for files in again:
        for name in reversed(TABLES):  # `files` first: from then on the part does not count
            (out / name / files.name).unlink(missing_ok=True)
    new = [u for mark, u in found.items() if mark not in known or known[mark] in again]
    done, todo = 0, sum(size for _, size, *_ in new)
    for counts in _parts(root, out, new, pool, todo, given):
        done += counts["bytes"]
        progress(done, todo)
    return _finish(root, out) | {"read": len(new)}


def _begin(root: Path, out: Path) -> dict[int, Path]:
    """Stamp of each file that was read -> where its part's ``files`` are, after what an interrupted
    ingest left was cleared away."""
    if (out / MANIFEST).exists():
        found = table.manifest(out)
        if found["tree"] != _tree(root):
            raise Refused(
                f"{out.name} holds the tables of another tree ({found['name']}): give another "
                "--out; nothing was read"
            )
    shutil.rmtree(out / ".partial", ignore_errors=True)
    (out / ".partial").mkdir()
    whole = parts(out, "files")
    for name in TABLES:
        (out / name).mkdir(exist_ok=True)
        for left in {p.name for p in (out / name).glob("part-*")} - {p.name for p in whole}:
            (out / name / left).unlink()
        if not (out / name / EMPTY).exists():
            table.writer(out / ".partial" / name, name).close()
            (out / ".partial" / name).replace(out / name / EMPTY)
    _write(out, root, finished="")
    return {
        mark: path
        for path in whole
        for mark in _columns(path, ["stamp"])["stamp"].drop_null().to_pylist()
    }


def _columns(path: Path, names: list[str]):
    """Columns of one part of a table."""
    return pq.read_table(path, columns=names, use_threads=False)


def _parts(root, out, new, pool, todo, given) -> Iterator[Counter]:
    """Read the files in `new`, batch by batch, into parts of their own; the counts of each."""
    top = str(root.parent if root.is_file() else root)
    first = 1 + max(int(path.stem[5:]) for path in parts(out, "files"))
    if todo <= HERE_BYTES:
        for number, units in enumerate(_batches(new, BATCH_BYTES), first):
            yield part(top, units, str(out), number, given)
        return
    with pool() as executor:
        rounds = max(4, -(-todo // (executor.width * BATCH_BYTES)))  # equally many for each
        batches = _batches(new, max(2**20, -(-todo // (executor.width * rounds))))
        waiting = [
            executor.submit(part, top, units, str(out), number, given)
            for number, units in enumerate(batches, first)
        ]
        try:
            for future in as_completed(waiting):
                yield future.result()
        finally:
            for future in waiting:
                future.cancel()


def _batches(units: list[tuple], most: int) -> Iterator[list[tuple]]:
    """Lists of units of about `most` bytes."""
    batch, size = [], 0
    for unit in units:
        batch.append(unit)
        size += unit[1]
        if size >= most or len(batch) >= BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _tree(root: Path) -> str:
    """What tells one tree from another, without its path."""
    return hashlib.sha256(str(root).encode(errors="surrogateescape")).hexdigest()[:16]


def _write(out: Path, root: Path, **facts) -> dict:
    found = {
        "what": table.NAME,
        "format": table.FORMAT,
        "noisefloor": metadata.version("noisefloor"),
        "name": root.name.encode(errors="surrogateescape").decode(errors="replace"),
        "tree": _tree(root),
        **facts,
    }
    partial = out / ".partial" / MANIFEST
    partial.write_text(json.dumps(found, indent=1) + "\n")
    partial.replace(out / MANIFEST)
    return found


def _finish(root: Path, out: Path) -> dict:
    """manifest.json of a whole table."""
    kinds, totals = Counter(), Counter(files=0, runs=0, bytes=0)
    for path in parts(out, "files"):
        found = _columns(path, ["file", "member", "kind", "size", "runs"])
        kinds.update(found["kind"].to_pylist())
        outer = found.filter(pc.equal(found["member"], ""))
        size, runs = pc.sum(outer["size"]).as_py(), pc.sum(found["runs"]).as_py()
        totals.update(
            files=pc.count_distinct(found["file"]).as_py(), runs=runs or 0, bytes=size or 0
        )
    done = _write(
        out,
        root,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        **totals,
        problems=sum(pq.read_metadata(path).num_rows for path in parts(out, "problems")),
        kinds=dict(sorted(kinds.items(), key=lambda k: (-k[1], k[0]))),
        labels=_labels(out),
    )
    shutil.rmtree(out / ".partial", ignore_errors=True)  # a worker that died left a half part
    return done


def _labels(out: Path) -> dict[str, list[int]]:
    """{label: [runs that have it, different values]} of the runs."""
    names = [*labels.NAMES, "threads", "tool_version"]
    runs: Counter[str] = Counter()
    values: dict[str, set] = {name: set() for name in names}
    for path in parts(out, "tidy"):
        rows = _columns(path, ["run", *names]).group_by("run", use_threads=False)
        first = rows.aggregate([(name, "first") for name in names])
        for name in names:
            held = first[f"{name}_first"].drop_null()
            runs[name] += len(held)
            values[name] |= set(held.unique().to_pylist())
    return {name: [runs[name], len(values[name])] for name in names if runs[name]}
