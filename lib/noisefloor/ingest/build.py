"""A tree of results -> tables, part by part; the next time only what is new or changed.

A part counts when its ``files`` table is in place, which is written last. What the parent holds of
a tree is eight bytes a file.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, wait
from datetime import UTC, datetime
from importlib import metadata
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .part import part, stamp, writer
from .table import FORMAT, MANIFEST, NAME, TABLES, NotATable, manifest
from .walk import walk

BATCH_BYTES, BATCH_FILES = 16 * 2**20, 2000
HERE_BYTES = 4 * 2**20  # of text that one process has read before others have started


class Refused(Exception):
    """A tree that cannot be ingested, or not into this folder: one sentence. `code` is the exit
    code."""

    def __init__(self, message: str, code: int = 2):
        super().__init__(message)
        self.code = code


def build(
    root: Path,
    out: Path,
    pool: Callable[[], contextlib.AbstractContextManager[Executor]],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict:
    """Bring the tables in `out` up to `root`; returns the manifest.

    pool: gives an executor (of `noisefloor.cluster`); it is not asked for when there is little to
    do. progress: called with bytes read and bytes to read. Raises Refused."""
    root, out = Path(root), Path(out)
    if not root.exists():
        raise Refused(f"{root} does not exist; nothing was read")
    if not os.access(root, os.R_OK):
        raise Refused(f"{root} cannot be read (permission denied); nothing was read", 1)
    root, out = root.resolve(), out.resolve()
    if root.is_relative_to(out):
        raise Refused(f"--out {out.name} holds the tree itself; nothing was read")
    try:
        with _alone(out):
            return _build(root, out, pool, progress)
    except BrokenExecutor:
        raise Refused(
            "a process that read files was killed (out of memory?); whole parts are kept, the same "
            "command continues", 1,
        ) from None  # fmt: skip
    except OSError as e:
        raise Refused(
            f"the tables cannot be written ({e.strerror or e}); whole parts are kept, the same "
            "command continues", 1,
        ) from None  # fmt: skip


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


def _build(root, out, pool, progress) -> dict:
    known = _begin(root, out)
    marks = np.sort(np.concatenate([m for m in known.values()] or [np.empty(0, np.int64)]))
    seen, new, todo, files = np.zeros(len(marks), bool), 0, 0, array("q")
    for units in _chunks(walk(root, out), 5000):
        found = np.array([stamp(*u) for u in units], np.int64)
        at = np.searchsorted(marks, found)
        at[at == len(marks)] = 0
        there = marks[at] == found if len(marks) else np.zeros(len(found), bool)
        seen[at[there]] = True
        new += int((~there).sum())
        todo += sum(u[1] for u, old in zip(units, there, strict=True) if not old)
        files.append(len(units))
    gone = set(marks[~seen].tolist())
    for number in [n for n, m in known.items() if gone and not gone.isdisjoint(m.tolist())]:
        marks, lost = _drop(out, number, gone, marks)
        new += lost
    if new:
        done = 0
        first = 1 + max(_numbers(out), default=0)
        for counts in _parts(root, out, marks, pool, todo, first):
            done += counts["bytes"]
            progress(done, todo)
    return _finish(root, out, read=new)


def _chunks(found: Iterator, n: int) -> Iterator[list]:
    while chunk := list(islice(found, n)):
        yield chunk


def _numbers(out: Path) -> list[int]:
    return sorted(int(p.stem[5:]) for p in (out / "files").glob("part-*.parquet"))


def _begin(root: Path, out: Path) -> dict[int, np.ndarray]:
    """Part -> stamps of its files, after what an interrupted ingest left was cleared away."""
    if (out / MANIFEST).exists():
        try:
            found = manifest(out)
        except NotATable as e:
            raise Refused(e) from None
        if found["tree"] != _tree(root):
            raise Refused(
                f"{out.name} holds the tables of another tree ({found['name']}): give another "
                "--out; nothing was read"
            )
    for name in TABLES:
        (out / name).mkdir(exist_ok=True)
    shutil.rmtree(out / ".partial", ignore_errors=True)
    whole = {f"part-{n:06d}.parquet" for n in _numbers(out)}
    for name in TABLES:
        for left in (out / name).glob("part-*.parquet"):
            if left.name not in whole and left.name != "part-000000.parquet":
                left.unlink()
    (out / ".partial").mkdir()
    for name in TABLES:  # so that each opens also where no file has any row for it
        if not (first := out / name / "part-000000.parquet").exists():
            writer(out / ".partial" / name, name).close()
            (out / ".partial" / name).replace(first)
    _write(out, root, finished="")
    return {n: _marks(out, n) for n in _numbers(out)}


def _marks(out: Path, number: int) -> np.ndarray:
    column = pq.read_table(_path(out, "files", number), columns=["stamp"], use_threads=False)[
        "stamp"
    ]
    return column.drop_null().to_numpy()


def _path(out: Path, name: str, number: int) -> Path:
    return out / name / f"part-{number:06d}.parquet"


def _drop(out: Path, number: int, gone: set[int], marks: np.ndarray) -> tuple[np.ndarray, int]:
    """Take the files whose stamps are in `gone` out of a part, without reading any other again.

    Returns the stamps without those of the part that went with them (files that are shown under
    the same name), and how many these are."""
    files = pq.read_table(_path(out, "files", number), use_threads=False)
    leave = pc.is_in(files["stamp"], pa.array(sorted(gone), pa.int64()))
    names = files["file"].filter(leave).unique()
    keep = pc.invert(pc.is_in(files["file"], names))
    also = files.filter(pc.and_(pc.invert(keep), pc.invert(leave)))["stamp"].drop_null().to_numpy()
    if pc.any(keep).as_py():
        new = 1 + max(_numbers(out))
        runs = names[:0]
        if _path(out, "tidy", number).exists():
            of = pq.read_table(_path(out, "tidy", number), columns=["run", "file"])
            runs = of["run"].filter(pc.is_in(of["file"], names)).unique()
        for name in TABLES:
            if name != "files" and _path(out, name, number).exists():
                table = pq.read_table(_path(out, name, number), use_threads=False)
                if name in ("intervals", "histograms"):
                    left = table.filter(pc.invert(pc.is_in(table["run"], runs)))
                else:
                    left = table.filter(pc.invert(pc.is_in(table["file"], names)))
                _rewrite(out, name, left)
        _path(out, "files", number).unlink()  # from here on until the end this part does not count
        for name in TABLES:
            if (out / ".partial" / name).exists():
                (out / ".partial" / name).replace(_path(out, name, new))
        _rewrite(out, "files", files.filter(keep))
        (out / ".partial" / "files").replace(_path(out, "files", new))
    else:
        _path(out, "files", number).unlink()
    for name in TABLES:
        _path(out, name, number).unlink(missing_ok=True)
    return marks[~np.isin(marks, also)], len(also)


def _rewrite(out: Path, name: str, table: pa.Table) -> None:
    """One of TABLES into the place where parts wait, unless it has no rows."""
    if len(table):
        with writer(out / ".partial" / name, name) as file:
            file.write_table(table.cast(file.schema))


def _parts(root, out, marks, pool, todo, number) -> Iterator[dict]:
    """Read what is not in `marks`, batch by batch, into parts from `number` on; their counts."""
    new = (
        u for u in walk(root, out)
        if not len(marks) or marks[min(np.searchsorted(marks, s := stamp(*u)), len(marks) - 1)] != s
    )  # fmt: skip
    top = str(root.parent if root.is_file() else root)
    if todo <= HERE_BYTES:
        for n, units in enumerate(_batches(new, BATCH_BYTES), number):
            yield part(top, units, str(out), n)
        return
    with pool() as executor:
        width = executor.width
        rounds = max(4, -(-todo // (width * BATCH_BYTES)))  # equally many batches for each
        most = max(2**20, -(-todo // (width * rounds)))
        batches = enumerate(_batches(new, most), number)
        waiting = set()
        for n, units in batches:
            waiting.add(executor.submit(part, top, units, str(out), n))
            if len(waiting) >= 2 * width:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (f.result() for f in done)
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (f.result() for f in done)


def _batches(units: Iterator[tuple], most: int) -> Iterator[list[tuple]]:
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
        "what": NAME,
        "format": FORMAT,
        "noisefloor": metadata.version("noisefloor"),
        "name": root.name.encode(errors="surrogateescape").decode(errors="replace"),
        "tree": _tree(root),
        **facts,
    }
    partial = out / ".partial" / MANIFEST
    partial.write_text(json.dumps(found, indent=1) + "\n")
    partial.replace(out / MANIFEST)
    return found


def _finish(root: Path, out: Path, read: int) -> dict:
    """manifest.json of a whole table."""
    parts = [_path(out, "files", n) for n in _numbers(out)]
    columns = ["member", "kind", "size", "runs"]
    kinds: dict[str, int] = {}
    totals = {"files": 0, "runs": 0, "bytes": 0}
    for path in parts:
        files = pq.read_table(path, columns=columns, use_threads=False)
        for each in pc.value_counts(files["kind"]).to_pylist():
            kinds[each["values"]] = kinds.get(each["values"], 0) + each["counts"]
        outer = files.filter(pc.equal(files["member"], ""))
        totals["files"] += len(outer)
        totals["bytes"] += pc.sum(outer["size"]).as_py() or 0
        totals["runs"] += pc.sum(files["runs"]).as_py() or 0
    problems = sum(
        pq.read_metadata(_path(out, "problems", n)).num_rows
        for n in _numbers(out) if _path(out, "problems", n).exists()
    )  # fmt: skip
    kinds = dict(sorted(kinds.items(), key=lambda k: (-k[1], k[0])))
    done = _write(
        out, root, finished=datetime.now(UTC).isoformat(timespec="seconds"),
        **totals, problems=problems, kinds=kinds,
    )  # fmt: skip
    shutil.rmtree(out / ".partial", ignore_errors=True)  # a worker that died left a half part
    return done | {"read": read}
