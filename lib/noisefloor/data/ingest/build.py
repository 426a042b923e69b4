"""A tree of results to tables, part by part; the next time only new and changed files are read.

A part is valid when its ``files`` table is in place, which is written last. When a file changes or
disappears, its whole part is read again.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from itertools import accumulate, count, groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisefloor.data import ingest
from noisefloor.data.ingest import MANIFEST, TABLES, files, labels, parts
from noisefloor.data.ingest.part import Stamped, write_part
from noisefloor.text import Refusal

_BATCH_BYTES, BATCH_FILES = 16 * 2**20, 2000
HERE_BYTES = 4 * 2**20  # up to here one process is done before others have started

_Pool = Callable[[], contextlib.AbstractContextManager[Any]]  # as `data.cluster.pool` returns it
_Progress = Callable[[int, int], None]  # bytes read, bytes to read


def build(
    root: Path,
    out: Path,
    pool: _Pool,
    *,
    rules: str = "",
    progress: _Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Make or update the tables in `out` from the tree `root`; returns the manifest, with `read`:
    how many files were read now.

    rules: the user's file of labels (`labels.patterns`). pool: makes an executor (`data.cluster`);
    not called if there is little to read. progress: called with bytes read and all bytes to read.
    Raises Refusal."""
    if not root.exists():
        raise Refusal(f"{root} does not exist; nothing was read")
    if not os.access(root, os.R_OK):
        raise Refusal(f"{root} cannot be read (permission denied); nothing was read", 1)
    given = labels.patterns(rules) if rules else ()
    root, out = root.resolve(), out.resolve()
    if root.is_relative_to(out):
        raise Refusal(f"--out {out.name} holds the tree itself; nothing was read")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not (out / MANIFEST).exists() and {*os.listdir(out)} - {".lock", ".partial"}:
            raise Refusal(f"{out.name} holds files that are no table of ours; nothing was written")
        with open(out / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _build(root, out, pool, progress, given)
    except BlockingIOError:
        raise Refusal(f"another ingest is writing into {out.name}; nothing was done", 1) from None
    except BrokenExecutor:
        why = "a process that read files was killed (out of memory?)"
    except OSError as e:
        why = f"the tables cannot be written ({e.strerror or e})"
    raise Refusal(f"{why}; whole parts are kept, the same command continues", 1)


def _build(
    root: Path, out: Path, pool: _Pool, progress: _Progress, given: tuple[str, ...]
) -> dict[str, Any]:
    known = _begin(root, out)
    units = {_stamp(unit, given): unit for unit in files.walk(root, out)}
    again = {name for stamp, name in known if stamp not in units}
    for name in again:
        for table in reversed(TABLES):  # `files` first: without it the part is not valid
            (out / table / name).unlink(missing_ok=True)
    kept = {stamp for stamp, name in known if name not in again}
    new = [(stamp, *unit) for stamp, unit in units.items() if stamp not in kept]
    done, todo = 0, sum(unit[2] for unit in new)
    for size in _parts(root, out, new, pool, todo, given):
        done += size
        progress(done, todo)
    return _finish(root, out) | {"read": len(new)}


def _begin(root: Path, out: Path) -> list[tuple[int, str]]:
    """Clear away what an interrupted ingest left; returns (stamp, name of its part) of each file
    that was read before. Raises Refusal for tables of another tree."""
    if (out / MANIFEST).exists():
        before = ingest.manifest(out)
        if before["tree"] != _tree(root):
            raise Refusal(
                f"{out.name} holds the tables of another tree ({before['name']}): give another "
                "--out; nothing was read"
            )
    shutil.rmtree(out / ".partial", ignore_errors=True)
    (out / ".partial").mkdir()
    _write_manifest(out, root, finished="")  # first: it says that the folder is ours
    whole = parts(out, "files")
    for name in TABLES:
        (out / name).mkdir(exist_ok=True)
        for left in {p.name for p in (out / name).glob("part-*")} - {p.name for p in whole}:
            (out / name / left).unlink()
    if not whole:
        # so that a table without rows can be opened, too
        write_part(str(root), str(out), (), 0, [])
    return [
        (stamp, path.name)
        for path in whole
        for stamp in _columns(path, ["stamp"])["stamp"].drop_null().to_pylist()
    ]


def _stamp(unit: files.Unit, given: tuple[str, ...]) -> int:
    """A number that changes with the file, the user's patterns, or the code that reads it."""
    path, size, mtime_ns, what = unit
    text = f"{labels.edition()}{chr(0).join(given)}{what}\0{path}\0{size}\0{mtime_ns}"
    digest = hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _columns(path: Path, names: list[str]) -> pa.Table:
    """Columns of one part of a table."""
    return pq.read_table(path, columns=names, use_threads=False)


def _parts(
    root: Path, out: Path, new: list[Stamped], pool: _Pool, todo: int, given: tuple[str, ...]
) -> Iterator[int]:
    """Read the files in `new`, each batch into a part of its own; yields the bytes of each."""
    top = str(root.parent if root.is_file() else root)
    first = 1 + max(int(path.stem[5:]) for path in parts(out, "files"))
    read = partial(write_part, top, str(out), given)
    if todo <= HERE_BYTES:
        yield from map(read, count(first), _batches(new, _BATCH_BYTES))
        return
    with pool() as executor:
        rounds = max(4, -(-todo // (executor.width * _BATCH_BYTES)))  # as many for each worker
        batches = [*_batches(new, max(2**20, -(-todo // (executor.width * rounds))))]
        yield from executor.map(read, range(first, first + len(batches)), batches)


def _batches(units: list[Stamped], most: int) -> Iterator[list[Stamped]]:
    """Lists of units of about `most` bytes, and of at most BATCH_FILES."""
    ends = accumulate(max(unit[2], most // BATCH_FILES) for unit in units)
    for _, batch in groupby(zip(units, ends, strict=True), key=lambda both: both[1] // most):
        yield [unit for unit, _ in batch]


def _tree(root: Path) -> str:
    """A digest that identifies a tree without naming its path."""
    return hashlib.sha256(str(root).encode(errors="surrogateescape")).hexdigest()[:16]


def _write_manifest(out: Path, root: Path, **facts: Any) -> dict[str, Any]:
    manifest = {
        "what": ingest.NAME,
        "format": ingest.FORMAT,
        "noisefloor": metadata.version("noisefloor"),
        "name": root.name.encode(errors="surrogateescape").decode(errors="replace"),
        "tree": _tree(root),
        **facts,
    }
    half = out / ".partial" / MANIFEST
    half.write_text(json.dumps(manifest, indent=1) + "\n")
    half.replace(out / MANIFEST)
    return manifest


def _finish(root: Path, out: Path) -> dict[str, Any]:
    """Write manifest.json of whole tables."""
    columns = ["file", "member", "kind", "size", "runs"]
    table = ingest.opened(out, "files").to_table(columns=columns)
    kinds = Counter(table["kind"].to_pylist())
    outer = table.filter(pc.equal(table["member"], ""))
    manifest = _write_manifest(
        out,
        root,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        files=pc.count_distinct(table["file"]).as_py(),
        runs=pc.sum(table["runs"]).as_py() or 0,
        bytes=pc.sum(outer["size"]).as_py() or 0,
        problems=sum(pq.read_metadata(path).num_rows for path in parts(out, "problems")),
        kinds=dict(sorted(kinds.items(), key=lambda k: (-k[1], k[0]))),
        labels=_label_counts(out),
    )
    shutil.rmtree(out / ".partial", ignore_errors=True)  # a worker that died left a half part
    return manifest


def _label_counts(out: Path) -> dict[str, list[int]]:
    """{label: [runs that have it, different values]} of the runs in tables."""
    names = [*labels.NAMES, "threads", "tool_version"]
    runs: Counter[str] = Counter()
    values: dict[str, set[Any]] = {name: set() for name in names}
    for path in parts(out, "tidy"):
        rows = _columns(path, ["run", *names]).group_by("run", use_threads=False)
        first = rows.aggregate([(name, "first") for name in names])
        for name in names:
            column = first[f"{name}_first"].drop_null()
            runs[name] += len(column)
            values[name] |= set(column.unique().to_pylist())
    return {name: [runs[name], len(values[name])] for name in names if runs[name]}
