"""One part of the tables: files of a tree, read, as rows of Parquet files."""

import contextlib
import hashlib
import io
import json
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np

from noisefloor import parse, tools
from noisefloor.data import ingest
from noisefloor.data.ingest import TABLES, files, labels
from noisefloor.model import METRICS
from noisefloor.parse.base import safe_line
from noisefloor.text import Refusal
from noisefloor.tools import sysbench

_FLUSH_BYTES = 32 * 2**20  # of text whose numbers are held in memory
_UNREAD = 0  # the stamp of a file that could not be read: no file has it, so it is tried again
_GUEST = "its server was never restarted; only its own page can judge it, it was not read"
_UNITS = {"qps": "1/s", "ignored_errors": "1", "reconnects": "1"}

Stamped = tuple[int, str, int, int, str]  # a stamp, and a `files.Unit`


def write_part(
    root: str, out: str, given: tuple[str, ...], number: int, units: list[Stamped]
) -> int:
    """Write part `number` of the tables in `out` from `units` of the tree `root`; returns the bytes
    of the units. given: the user's `labels.patterns`.

    Repeatable: the same units give the same part, whole or not at all (``files`` comes last and
    makes it valid). Nothing in the tree is executed."""
    with tempfile.TemporaryDirectory(dir=Path(out, ".partial")) as folder:
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
        if what not in ("campaign", "file"):
            if what == files.LINKED:
                self._problem(name, "", 0, "a part of it is no regular file; it was not read")
            self._file(name, "", what, size, stamp)
        else:
            read = self._campaign if what == "campaign" else self._read
            try:
                read(Path(root, path), name, size, stamp)
            except (OSError, Refusal) as e:  # it does not count as read, so that it is tried again
                why = f"cannot be read ({e.strerror})" if isinstance(e, OSError) else str(e)
                self._problem(name, "", 0, files.safe(why))
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

    def _read(self, path: Path, name: str, size: int, stamp: int) -> None:
        """Add the rows of all texts in a file."""
        handle = os.open(path, files.OPENED)
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
        """Add the rows of one text; `data`: as in `files.texts`."""
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
        """Add the runs in a text of a tool; returns how many could be read."""
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
                "duration_s": run.seconds or run.values.get("wall") or run.values.get("query_time"),
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
            "warnings": " | ".join(dict.fromkeys(map(str, (*run.notes, *notes)))),
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
        """Add one of our own campaigns, as `tidy` reads it. Raises Refusal if it has not ended."""
        from noisefloor import schedule
        from noisefloor.data import results, tidy

        campaign = tidy.opened(folder)
        try:
            results.folder_of(folder)
            meta, (table, problems, saturated) = campaign.meta, campaign.tidy_runs
            why = _GUEST if meta.get("floor") else ""
        except tidy.Damaged as e:
            why = str(e)
        if why:
            self._problem(name, "", 0, why)
            self._file(name, "", "campaign", size, stamp)
            return
        full = [
            (workload, arm)
            for workload, arms in saturated.items()
            for arm, (n, windows) in arms.items()
            if n > schedule.MOST_SATURATED * windows
        ]
        kept = [k not in full for k in zip(table["workload"], table["arm"], strict=True)]
        table = table[np.array(kept, bool)]
        lost = [f"{w}, {a}: too many windows were saturated; not compared" for w, a in full]
        for sentence in problems + lost:
            self._problem(name, "", 0, safe_line(sentence))
        runs = {run.name: run for run in campaign.runs}
        by_run = table.groupby("run", sort=False)
        for key, rows in by_run:
            run = runs[str(key)]
            facts = run.facts
            where, warnings = f"{name}/{run.name}", facts["warnings"]
            first: dict[Any, Any] = rows.iloc[0].dropna().to_dict()
            values: dict[Any, float] = rows.groupby("metric", sort=False)["value"].mean().to_dict()
            build = meta.get("engines", {}).get(facts["arm"], meta.get("engine", {}))
            host = facts["host"] if isinstance(facts.get("host"), dict) else {}
            columns = first | {
                "server": build.get("kind"),
                "version": build.get("version"),
                "design": meta["design"],
                "host": f"{host.get('cpu')}, {host.get('cores')} cores" if host else None,
                "labels_from": "campaign",
                "tool": facts["workload_tool"],
                "duration_s": facts.get("slice_s"),
            }
            keys = {"workload": facts["workload"]}
            self._run(name, 1, columns, tools.Run(where, values, keys=keys), warnings)
            if tidy.printed(run.place):
                with contextlib.suppress(parse.ParseError):
                    self._numbers(sysbench.from_result(where, run.sysbench))
        digest = tidy.sha256(folder / "campaign.json")  # the same when packed
        self._file(name, "", "campaign", size, stamp, digest, by_run.ngroups)
