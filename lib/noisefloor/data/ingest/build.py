"""A tree of results to tables, part by part; the next time only new and changed files.

A part counts when its ``files`` table is in place, which is written last. When a file changes or
disappears, the whole part is read again.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from itertools import accumulate, count, groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisefloor import parse, tools
from noisefloor.data import ingest
from noisefloor.data.ingest import MANIFEST, TABLES, files, labels, parts
from noisefloor.model import METRICS
from noisefloor.parse.base import safe_line
from noisefloor.text import Refusal
from noisefloor.tools import sysbench

_BATCH_BYTES, BATCH_FILES = 16 * 2**20, 2000
HERE_BYTES = 4 * 2**20  # of text that one process has read before others have started
_FLUSH_BYTES = 32 * 2**20  # of text whose numbers are held in memory
_UNREAD = 0  # the stamp of a file that could not be read: no file has it, so it is tried again
_UNITS = {"qps": "1/s", "ignored_errors": "1", "reconnects": "1"}

_Pool = Callable[[], contextlib.AbstractContextManager[Any]]  # gives what `data.cluster.pool` does
_Progress = Callable[[int, int], None]  # bytes read, bytes to read
_Stamped = tuple[int, str, int, int, str]  # a stamp, and a `files.Unit`


def build(
    root: Path,
    out: Path,
    pool: _Pool,
    *,
    rules: str = "",
    progress: _Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Bring the tables in `out` up to `root`; returns the manifest with how many files were `read`.

    rules: the user's file of labels (`labels.patterns`). pool: gives an executor (of
    `data.cluster`); it is not asked for when there is little to do. progress: called with bytes
    read and bytes to read. Raises Refusal."""
    root, out = Path(root), Path(out)
    if not root.exists():
        raise Refusal(f"{root} does not exist; nothing was read")
    if not os.access(root, os.R_OK):
        raise Refusal(f"{root} cannot be read (permission denied); nothing was read", 1)
    given = labels.patterns(rules) if rules else ()
    root, out = root.resolve(), out.resolve()
    if root.is_relative_to(out):
        raise Refusal(f"--out {out.name} holds the tree itself; nothing was read")
    try:
        if out.exists() and not (out / MANIFEST).exists() and any(out.iterdir()):
            raise Refusal(f"{out.name} holds files that are no table of ours; nothing was written")
        out.mkdir(parents=True, exist_ok=True)
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
    again = {known[stamp] for stamp in known.keys() - units.keys()}
    for name in again:
        for table in reversed(TABLES):  # `files` first: from then on the part does not count
            (out / table / name).unlink(missing_ok=True)
    new = [(stamp, *u) for stamp, u in units.items() if stamp not in known or known[stamp] in again]
    done, todo = 0, sum(unit[2] for unit in new)
    for size in _parts(root, out, new, pool, todo, given):
        done += size
        progress(done, todo)
    return _finish(root, out) | {"read": len(new)}


def _begin(root: Path, out: Path) -> dict[int, str]:
    """{stamp of each file that was read: name of its part}, after what an interrupted ingest left
    was cleared away."""
    if (out / MANIFEST).exists():
        before = ingest.manifest(out)
        if before["tree"] != _tree(root):
            raise Refusal(
                f"{out.name} holds the tables of another tree ({before['name']}): give another "
                "--out; nothing was read"
            )
    shutil.rmtree(out / ".partial", ignore_errors=True)
    (out / ".partial").mkdir()
    whole = parts(out, "files")
    for name in TABLES:
        (out / name).mkdir(exist_ok=True)
        for left in {p.name for p in (out / name).glob("part-*")} - {p.name for p in whole}:
            (out / name / left).unlink()
    if not whole:
        # so that each table opens also where it has no row
        _write_part(str(root), str(out), (), 0, [])
    _write_manifest(out, root, finished="")
    return {
        stamp: path.name
        for path in whole
        for stamp in _columns(path, ["stamp"])["stamp"].drop_null().to_pylist()
    }


def _stamp(unit: files.Unit, given: tuple[str, ...]) -> int:
    """A number that says whether a file is still the one that was read, with the same patterns."""
    path, size, mtime_ns, what = unit
    text = f"{labels.edition()}{chr(0).join(given)}{what}\0{path}\0{size}\0{mtime_ns}"
    digest = hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _columns(path: Path, names: list[str]) -> pa.Table:
    """Columns of one part of a table."""
    return pq.read_table(path, columns=names, use_threads=False)


def _parts(
    root: Path, out: Path, new: list[_Stamped], pool: _Pool, todo: int, given: tuple[str, ...]
) -> Iterator[int]:
    """Read the files in `new`, batch by batch, into parts of their own; the bytes of each."""
    top = str(root.parent if root.is_file() else root)
    first = 1 + max(int(path.stem[5:]) for path in parts(out, "files"))
    read = partial(_write_part, top, str(out), given)
    if todo <= HERE_BYTES:
        yield from map(read, count(first), _batches(new, _BATCH_BYTES))
        return
    with pool() as executor:
        rounds = max(4, -(-todo // (executor.width * _BATCH_BYTES)))  # equally many for each
        batches = [*_batches(new, max(2**20, -(-todo // (executor.width * rounds))))]
        yield from executor.map(read, range(first, first + len(batches)), batches)


def _batches(units: list[_Stamped], most: int) -> Iterator[list[_Stamped]]:
    """Lists of units of about `most` bytes, and of at most BATCH_FILES."""
    ends = accumulate(max(unit[2], most // BATCH_FILES) for unit in units)
    for _, batch in groupby(zip(units, ends, strict=True), key=lambda both: both[1] // most):
        yield [unit for unit, _ in batch]


def _tree(root: Path) -> str:
    """What tells one tree from another, without its path."""
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


# -- one part ----------------------------------------------------------------------------------


def _write_part(
    root: str, out: str, given: tuple[str, ...], number: int, units: list[_Stamped]
) -> int:
    """Write part `number` of the tables in `out` from `units` of the tree `root`; returns how many
    bytes these have. given: the user's `labels.patterns`.

    Repeatable: the same units give the same part, whole or not at all (``files`` comes last and
    makes it count). Nothing in the tree is executed."""
    halves = Path(out, ".partial")
    halves.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=halves) as folder:
        part = _Part(Path(folder), given)
        for unit in units:
            part.unit(root, *unit)
        part.flush()
        for name, writer in part.writers.items():
            writer.close()
            Path(folder, name).replace(Path(out, name, f"part-{number:06d}.parquet"))
    return sum(unit[2] for unit in units)


class _Part:
    """The rows of the part, table by table, until they are written to the files in `folder`."""

    def __init__(self, folder: Path, given: tuple[str, ...]):
        self.given, self.size = given, 0  # bytes of the files whose rows are not written yet
        self.writers = {name: ingest.writer(folder / name, name) for name in TABLES}
        self.rows: dict[str, list[tuple[int, dict[str, Any]]]] = {name: [] for name in TABLES}

    def flush(self) -> None:
        """Write the rows."""
        for name, rows in self.rows.items():
            if rows:
                self.writers[name].write_table(ingest.arrow(name, rows))
                rows.clear()
        self.size = 0

    def unit(self, root: str, stamp: int, path: str, size: int, _mtime_ns: int, what: str) -> None:
        """Add one file (or campaign) of the tree."""
        name = files.safe(path)
        if what == "campaign":
            self._campaign(Path(root, path), name, size, stamp)
        elif what != "file":
            self._file(name, "", what, size, stamp)
        else:
            try:
                self._read(os.path.join(root, path), name, size, stamp)
            except OSError as e:  # it does not count as read, so that it is tried again
                self._problem(name, "", 0, f"cannot be read ({e.strerror})")
                self._file(name, "", "unreadable", size, _UNREAD)
        if self.size > _FLUSH_BYTES:
            self.flush()

    def _row(self, name: str, *values: object) -> None:
        names = TABLES[name].names
        self.rows[name].append((1, dict(zip(names, values, strict=True))))

    def _file(
        self,
        file: str,
        member: str,
        what: str,
        size: int,
        stamp: int | None,
        digest: str = "",
        runs: int = 0,
    ) -> None:
        self._row("files", file, member, what, size, digest, runs, stamp)
        self.size += size

    def _problem(self, file: str, member: str, line: int, reason: str) -> None:
        self._row("problems", file, member, line, reason)

    def _read(self, path: str, name: str, size: int, stamp: int) -> None:
        """Add what the texts in a file say."""
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with cast(io.BufferedReader, open(handle, "rb", buffering=2**16)) as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                self._file(name, "", "no regular file", size, stamp)
                return
            packed = files.packed(file.peek(files.HEAD))
            for member, data in files.texts(file, name, size):
                if packed:
                    long = len(data) if isinstance(data, bytes) else 0
                    self._text(name, files.safe(member)[len(name) + 2 :], data, long, None)
                else:
                    self._text(name, "", data, size, stamp)
            if packed:
                self._file(name, "", "compressed or archive", size, stamp)

    def _text(
        self, file: str, member: str, data: bytes | Exception | None, size: int, stamp: int | None
    ) -> None:
        """Add what one text says; `data` as of `files.texts`."""
        digest, runs = "", 0
        if data is None:
            what = "link or device"
        elif isinstance(data, Exception):
            what = "not opened"
            known = isinstance(data, files.TooMuch)
            why = str(data) if known else f"damaged ({safe_line(str(data))})"
            self._problem(file, member, 0, why)
        elif tool := None if files.binary(data[: files.HEAD]) else tools.tool_of(data):
            digest, what = hashlib.sha256(data).hexdigest(), tool.NAME
            if chore := tool.chore(data):
                what = f"{what} {chore}"
            else:
                runs = self._log(file, member, data, tool)
        else:
            what = files.kind(data)
        self._file(file, member, what, size, stamp, digest, runs)

    def _log(self, file: str, member: str, data: bytes, tool: tools.Tool) -> int:
        """Add the runs in a text of a tool; how many there are."""
        name = f"{file}//{member}" if member else file
        of_path, whole = labels.labels(name.replace("//", "/"), self.given), 0
        try:
            pieces = tool.split_runs(data)
        except parse.ParseError as e:
            self._problem(file, member, e.line, str(e).partition(": ")[2])
            return 0
        for line, piece in pieces:
            try:
                run = tool.read_run(name if len(pieces) == 1 else f"{name}:{line}", piece)
            except parse.ParseError as e:
                self._problem(file, member, line + e.line - 1, str(e).partition(": ")[2])
                continue
            facts = {
                **{k: v for k, v in of_path.items() if k not in labels.ASIDE},
                **labels.settled(of_path, run),
                "threads": run.threads,
                "tool": tool.NAME,
                "tool_version": run.version,
                "host": run.host or of_path.get("host"),
                "duration_s": run.seconds or run.values.get("wall"),
            }
            self._run(file, line, facts, run, labels.contradictions(of_path, run))
            self._numbers(run)
            whole += 1
        return whole

    def _run(
        self, file: str, line: int, facts: dict[str, Any], run: tools.Run, notes: Iterable[str] = ()
    ) -> None:
        values = {**run.values, **run.more}
        units = [METRICS[m].unit if m in METRICS else _UNITS.get(m, "s") for m in values]
        facts = {
            "labels_from": "path",
            "warmup": False,
            **facts,
            "run": run.name,
            "file": file,
            "line": line,
            "folder": run.name.rpartition("/")[0],
            "keys": json.dumps(run.keys),
            "warnings": " | ".join(dict.fromkeys((*run.notes, *notes))),
            "metric": np.array(list(values)),
            "unit": np.array(units),
            "value": np.array(list(values.values()), float),
        }
        self.rows["tidy"].append((len(values), facts))

    def _numbers(self, run: tools.Run) -> None:
        """The interval rows and the histogram of a run."""
        if run.intervals:
            rows: dict[str, Any] = {"run": run.name, **run.intervals}
            self.rows["intervals"].append((len(run.intervals["t_s"]), rows))
        if run.histogram:
            value_s, count = run.histogram
            buckets = {"run": run.name, "value_s": value_s, "count": count}
            self.rows["histograms"].append((len(count), buckets))

    def _campaign(self, folder: Path, name: str, size: int, stamp: int) -> None:
        """Add one of our own campaigns, as `tidy` reads it."""
        from noisefloor.data import tidy

        campaign = tidy.opened(folder)
        try:
            meta, (table, problems, _) = campaign.meta, campaign.tidy_runs
        except tidy.Damaged as e:
            self._problem(name, "", 0, str(e))
            self._file(name, "", "campaign", size, stamp)
            return
        for sentence in problems:
            self._problem(name, "", 0, safe_line(sentence))
        runs = {run.name: run for run in campaign.runs}
        by_run = table.groupby("run", sort=False)
        for key, rows in by_run:
            run = runs[str(key)]
            facts = run.facts
            where, warnings = f"{name}/{run.name}", facts["warnings"]
            first: dict[Any, Any] = rows.iloc[0].dropna().to_dict()
            values: dict[Any, float] = rows.groupby("metric", sort=False)["value"].mean().to_dict()
            build = meta.get("engines", {}).get(facts["arm"], meta["engine"])
            host = facts["host"]
            columns = first | {
                "server": build.get("kind"),
                "version": build.get("version"),
                "design": meta["design"],
                "host": f"{host.get('cpu')}, {host.get('cores')} cores",
                "labels_from": "campaign",
                "tool": facts["workload_tool"],
                "duration_s": facts.get("slice_s"),
            }
            keys = {"workload": facts["workload"]}
            self._run(name, 1, columns, tools.Run(where, values, keys=keys), warnings)
            if tidy.printed(run.place):
                with contextlib.suppress(parse.ParseError):
                    self._numbers(sysbench.from_result(where, run.sysbench))
        self._file(name, "", "campaign", size, stamp, runs=by_run.ngroups)
