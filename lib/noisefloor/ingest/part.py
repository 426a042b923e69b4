"""Files of a tree -> one part of the tables. The function that processes or a cluster map."""

import contextlib
import hashlib
import io
import json
import os
import stat
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from noisefloor import compare, parse
from noisefloor.parse.base import shown
from noisefloor.study import METRICS

from . import labels, unpack
from .table import ROWS, RUN, TABLES

FLUSH_BYTES = 32 * 2**20  # of text whose numbers are held in memory
UNREAD = 0  # the stamp of a file that could not be read: no file has it, so it is tried again
_UNITS = {"events_per_s": "1/s", "qps": "1/s", "ignored_errors": "1", "reconnects": "1"}
_KINDS = (
    (b"\x89PNG", "picture"),
    (b"\xff\xd8\xff", "picture"),
    (b"GIF8", "picture"),
    (b"%PDF", "PDF"),
    (b"PAR1", "Parquet"),
    (b"SQLite format 3", "SQLite"),
    (b"\x7fELF", "program"),
    *((bytes([0x80, n]), "pickle") for n in range(2, 6)),
)


def part(root: str, units: list[tuple], out: str, number: int) -> dict[str, int]:
    """Write part `number` of the tables in `out` from `units` of the tree `root`, as `walk` gives
    them; returns counts: files, bytes, runs, problems.

    Repeatable: the same units give the same part, whole or not at all (``files`` comes last and
    makes it count). Nothing in the tree is executed."""
    with _Part(Path(out), number) as tables:
        for path, size, mtime_ns, what in units:
            tables.unit(root, path, size, mtime_ns, what)
        return tables.counts


def stamp(path: str, size: int, mtime_ns: int, what: str) -> int:
    """A number that says whether a file is still the one that was read."""
    text = f"{what}\0{path}\0{size}\0{mtime_ns}".encode(errors="surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True)


def safe(name: str) -> str:
    """A path from a tree or an archive, fit to be shown: no secrets, nothing unprintable."""
    return shown(name.encode(errors="surrogateescape").decode(errors="replace"))


def _named(file: str, member: str) -> str:
    return f"{file}//{member}" if member else file


def kind(data: bytes) -> str:
    """What a file is that is no result, by its first bytes."""
    for magic, name in _KINDS:
        if data.startswith(magic):
            return name
    if not data.strip():
        return "empty"
    if unpack.binary(data[: unpack.HEAD]):
        return "binary data"
    head = data[:4096].lstrip()
    if head[:1] in b"{[" and data.rstrip()[-1:] in b"}]":
        return "notebook" if b'"cells"' in data and b'"nbformat"' in data else "JSON"
    if head[:5].lower() in (b"<html", b"<!doc", b"<svg ", b"<?xml"):
        return "page or picture (XML)"
    return "other text"


class _Part:
    """Columns that grow, and the files that they are written to."""

    def __init__(self, out: Path, number: int):
        self.out, self.name = out, f"part-{number:06d}.parquet"
        self.staging = out / ".partial" / f"{number:06d}-{os.getpid()}"
        self.counts = Counter(files=0, bytes=0, runs=0, problems=0)
        self.writers: dict[str, pq.ParquetWriter] = {}
        self._begin()

    def _begin(self):
        self.runs: list[dict] = []
        self.values: list[dict] = []
        self.rows: list[dict] = []
        self.histograms: list[tuple] = []
        self.problems: list[tuple] = []
        self.files: list[tuple] = []
        self.held = 0

    def __enter__(self):
        self.staging.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self._flush()
        finally:
            for writer in self.writers.values():
                writer.close()
        if kind is None:
            for name in ("tidy", "intervals", "histograms", "problems", "files"):
                if name in self.writers:
                    (self.staging / name).replace(self.out / name / self.name)
        for left in self.staging.glob("*"):
            left.unlink()
        self.staging.rmdir()

    # -- reading ---------------------------------------------------------------------------------

    def unit(self, root: str, path: str, size: int, mtime_ns: int, what: str) -> None:
        """Add one file (or campaign) of the tree."""
        self.counts["files"] += 1
        self.counts["bytes"] += size
        mark, name = stamp(path, size, mtime_ns, what), safe(path)
        if what == "campaign":
            self._campaign(Path(root, path), name, size, mark)
        elif what != "file":
            self.files.append((name, "", what, size, "", 0, mark))
        else:
            try:
                self._file(os.path.join(root, path), name, size, mark)
            except OSError as e:  # it is not said to be read, so that it is tried again
                self._problem(name, "", 0, f"cannot be read ({e.strerror})")
                self.files.append((name, "", "unreadable", size, "", 0, UNREAD))
        if self.held > FLUSH_BYTES:
            self._flush()

    def _file(self, path: str, name: str, size: int, mark: int) -> None:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                self.files.append((name, "", "no regular file", size, "", 0, mark))
                return
            small = size <= unpack.HEAD * 2048
            head = file.read(size + 1 if small else unpack.HEAD)
            if small and len(head) > size:  # it grows
                head += file.read(unpack.MOST_BYTES - size)
            if unpack.packed(head):
                file.seek(0)
                buffered = io.BufferedReader(file, 2**20)
                for member, data in unpack.texts(buffered, name, size):
                    self._text(name, safe(member)[len(name) + 2 :], data, None)
                self.files.append((name, "", "compressed or archive", size, "", 0, mark))
            elif unpack.binary(head) or small:
                self._text(name, "", head, mark, size)
            else:
                file.seek(0)
                for _, data in unpack.texts(io.BufferedReader(file, 2**20), name, size):
                    self._text(name, "", data, mark, size)

    def _text(self, file: str, member: str, data, mark: int | None, size: int | None = None):
        """Add what one text says; `data` as of `unpack.texts`."""
        if data is None:
            self.files.append((file, member, "link or device", 0, "", 0, mark))
            return
        if isinstance(data, Exception):
            why = str(data) if isinstance(data, unpack.TooMuch) else f"damaged ({shown(str(data))})"
            self._problem(file, member, 0, why)
            self.files.append((file, member, "not opened", size or 0, "", 0, mark))
            return
        what = None if unpack.binary(data[: unpack.HEAD]) else parse.kind(data)
        runs = 0
        if what == "sysbench":
            runs = self._sysbench(file, member, data)
        elif what == "time":
            runs = self._time(file, member, data)
        digest = hashlib.sha256(data).hexdigest() if what else ""
        held = len(data) if size is None else size
        self.files.append((file, member, what or kind(data), held, digest, runs, mark))
        self.counts["runs"] += runs
        self.held += held

    def _sysbench(self, file: str, member: str, data: bytes) -> int:
        name = _named(file, member)
        try:
            pieces = parse.runs(data)
        except parse.ParseError as e:
            self._problem(file, member, e.line, e.reason)
            return 0
        told, whole = labels.labels(name.replace("//", "/")), 0
        for first, text in pieces:
            try:
                d = parse.sysbench(text)
            except parse.ParseError as e:
                self._problem(file, member, first + e.line - 1, str(e).partition(": ")[2])
                continue
            run = compare.of_sysbench(name, d)
            where = name if len(pieces) == 1 else f"{name}:{first}"
            values = run.values | {
                "max_latency": d["latency"]["max"],
                "qps": d["qps"],
                "ignored_errors": d["ignored_errors"],
                "reconnects": d["reconnects"],
            }
            values |= {f"p{share:g}": v for share, v in d["latency"]["percentile"].items() if f"p{share:g}" not in values}  # fmt: skip
            notes = [*run.notes, *labels.contradictions(told, d)]
            facts = {
                "workload": d["test"],
                "threads": d["threads"],
                "tool": "sysbench",
                "tool_version": d["version"],
                "host": d["options"].get("mysql-host"),
                "duration_s": d["duration_s"],
            }
            self._run(file, where, first, told, facts, run.keys, notes, values)
            self._numbers(where, d)
            whole += 1
        return whole

    def _time(self, file: str, member: str, data: bytes) -> int:
        name = _named(file, member)
        try:
            results = parse.time(data)
        except parse.ParseError as e:
            self._problem(file, member, e.line, str(e).partition(": ")[2])
            return 0
        told, whole = labels.labels(name.replace("//", "/")), 0
        for d in results:
            try:
                run = compare.of_time(name, d)
            except compare.Refused:
                self._problem(
                    file, member, d["line"], f"the timed command ended with {d['exit_code']}"
                )
                continue
            where = name if len(results) == 1 else f"{name}:{d['line']}"
            facts = {
                "workload": d["label"],
                "tool": "time",
                "duration_s": d["real_s"],
            }
            self._run(file, where, d["line"], told, facts, run.keys, run.notes, run.values)
            whole += 1
        return whole

    def _run(self, file, run, line, told, facts, keys, notes, values) -> None:
        self.runs.append(
            {name: told.get(name) for name in labels.NAMES}
            | {
                "run": run,
                "file": file,
                "line": line,
                "folder": run.rpartition("/")[0],
                "path_threads": told.get("threads"),
                "labels_from": "path",
                "warmup": False,
                "keys": json.dumps(keys),
                "warnings": " | ".join(dict.fromkeys(notes)),
            }
            | facts
        )
        self.values.append({m: v for m, v in values.items() if v is not None})

    def _numbers(self, run: str, d: dict) -> None:
        """The interval rows and the histogram of a result of `parse.sysbench`."""
        rows = d["intervals"]
        if rows:
            queue = d["queue"]
            if len(queue.get("length", ())) == len(rows["t_s"]):
                rows = rows | {"queue_length": queue["length"], "concurrency": queue["concurrency"]}
            self.rows.append({"run": run, "n": len(rows["t_s"]), **rows})
        if d["histogram_counts"].size:
            self.histograms.append((run, d["histogram_s"], d["histogram_counts"]))

    def _campaign(self, folder: Path, name: str, size: int, mark: int) -> None:
        """Add one of our own campaigns, as `tidy` reads it."""
        from noisefloor import tidy

        try:
            meta, table, place = tidy.meta(folder), tidy.table(folder), tidy.inside(folder)
        except tidy.Damaged as e:
            self._problem(name, "", 0, str(e))
            self.files.append((name, "", "campaign", size, "", 0, mark))
            return
        for sentence in table.attrs["problems"]:
            self._problem(name, "", 0, shown(sentence))
        whole = 0
        for run, rows in table.groupby("run", sort=False):
            facts = tidy.read(place / run, verify=False)
            first = rows.iloc[0].dropna().to_dict()
            where, warnings = f"{name}/{run}", list(facts["warnings"])
            if facts["workload_tool"] == "duet":  # its windows are for who opens the campaign
                warnings.append(f"a duet: means of {rows['pair'].nunique()} windows, no throughput")
                rows = rows[rows["metric"] != "tps"]
            values = rows.groupby("metric", sort=False)["value"].mean().to_dict()
            build = meta.get("engines", {}).get(facts["arm"], meta["engine"])
            self._run(
                name, where, 1, {}, {k: v for k, v in first.items() if k in RUN and k != "run"}, {}, warnings,
                values,
            )  # fmt: skip
            host = facts["host"]
            self.runs[-1] |= {
                "server": build.get("kind"),
                "version": build.get("version"),
                "design": meta["design"],
                "host": f"{host.get('cpu')}, {host.get('cores')} cores",
                "labels_from": "campaign",
                "tool": facts["workload_tool"],
                "duration_s": facts.get("slice_s"),
                "keys": json.dumps({"workload": facts["workload"]}),
            }
            if tidy.printed(place / run):
                with contextlib.suppress(parse.ParseError):
                    self._numbers(where, tidy.sysbench(place / run))
            whole += 1
        self.counts["runs"] += whole
        self.held += size
        self.files.append((name, "", "campaign", size, "", whole, mark))

    def _problem(self, file: str, member: str, line: int, reason: str) -> None:
        self.problems.append((file, member, line, reason))
        self.counts["problems"] += 1

    # -- writing ---------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._write("tidy", _tidy(self.runs, self.values))
        self._write("intervals", _intervals(self.rows))
        self._write("histograms", _histograms(self.histograms))
        for name, found in (("problems", self.problems), ("files", self.files)):
            columns = zip(*found, strict=True) if found else [[]] * len(TABLES[name])
            self._write(name, _arrays(name, columns))
        self._begin()

    def _write(self, name: str, columns: list[pa.Array]) -> None:
        if not len(columns[0]):
            return
        if name not in self.writers:
            self.writers[name] = writer(self.staging / name, name)
        self.writers[name].write_table(pa.Table.from_arrays(columns, schema=_stored(name)))


def writer(path: Path, name: str) -> pq.ParquetWriter:
    """A Parquet file for one of TABLES, plain types only."""
    text = [f.name for f in TABLES[name] if f.type == pa.string()]
    return pq.ParquetWriter(
        path,
        _stored(name),
        compression="zstd",
        compression_level=1,
        use_dictionary=[*text, "value_s"] if name != "files" else False,
        store_schema=False,  # else a repeated text would come back as a category
        write_statistics=[f.name for f in TABLES[name] if f.name in ("run", "file", "metric")],
    )


def _stored(name: str) -> pa.Schema:
    """The schema that is written: what repeats row by row is held once."""
    if name in ("problems", "files"):
        return TABLES[name]
    once = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([(f.name, once if f.type == pa.string() else f.type) for f in TABLES[name]])


def _arrays(name: str, columns: Iterable) -> list[pa.Array]:
    return [pa.array(c, f.type) for c, f in zip(columns, TABLES[name], strict=True)]


def _repeated(values: list, counts) -> pa.DictionaryArray:
    """Each text of `values` as often as `counts` says."""
    index = np.repeat(np.arange(len(values), dtype=np.int32), counts)
    return pa.DictionaryArray.from_arrays(index, pa.array(values, pa.string()))


def _tidy(runs: list[dict], values: list[dict]) -> list[pa.Array]:
    counts = [len(v) for v in values]
    index = np.repeat(np.arange(len(runs)), counts)
    metrics = [m for v in values for m in v]
    columns = {
        "metric": pa.array(metrics, pa.string()).dictionary_encode(),
        "value": pa.array([float(x) for v in values for x in v.values()], pa.float64()),
        "unit": pa.array([_unit(m) for m in metrics], pa.string()).dictionary_encode(),
    }
    for field in TABLES["tidy"]:
        if field.name not in columns:
            each = pa.array([r.get(field.name) for r in runs], field.type)
            if field.type == pa.string():
                each = each.dictionary_encode()
            columns[field.name] = each.take(pa.array(index))
    return [columns[f.name] for f in TABLES["tidy"]]


def _unit(metric: str) -> str:
    return METRICS[metric].unit if metric in METRICS else _UNITS.get(metric, "s")


def _intervals(rows: list[dict]) -> list[pa.Array]:
    counts = [r["n"] for r in rows]
    columns = [_repeated([r["run"] for r in rows], counts)]
    for name, kind_ in ROWS.items():
        if not any(name in r for r in rows):
            columns.append(pa.nulls(sum(counts), kind_))
        elif all(name in r for r in rows):
            columns.append(
                pa.array(np.concatenate([r[name] for r in rows])).cast(kind_, safe=False)
            )
        else:
            each = [
                pa.array(r[name]).cast(kind_, safe=False) if name in r else pa.nulls(r["n"], kind_)
                for r in rows
            ]
            columns.append(pa.concat_arrays(each))
    return columns


def _histograms(found: list[tuple]) -> list[pa.Array]:
    if not found:
        return [pa.array([], f.type) for f in _stored("histograms")]
    names, values, counts = zip(*found, strict=True)
    return [
        _repeated(list(names), [len(v) for v in values]),
        pa.array(np.concatenate(values), pa.float64()),
        pa.array(np.concatenate(counts), pa.int64()),
    ]
