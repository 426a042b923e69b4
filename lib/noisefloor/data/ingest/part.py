"""Files of a tree -> one part of the tables. The function that processes or a cluster map."""

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from noisefloor import parse
from noisefloor.data import compare
from noisefloor.data.ingest import files, labels, table
from noisefloor.model import METRICS

FLUSH_BYTES = 32 * 2**20  # of text whose numbers are held in memory
_UNITS = {"events_per_s": "1/s", "qps": "1/s", "ignored_errors": "1", "reconnects": "1"}
UNREAD = 0  # the stamp of a file that could not be read: no file has it, so it is tried again


def part(root: str, units: list[tuple], out: str, number: int, given: tuple = ()) -> Counter:
    """Write part `number` of the tables in `out` from `units` of the tree `root`, as `files.walk`
    gives them; returns counts: files, bytes, runs, problems. given: the user's `labels.patterns`.

    Repeatable: the same units give the same part, whole or not at all (``files`` comes last and
    makes it count). Nothing in the tree is executed."""
    partial = Path(out, ".partial")
    partial.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=partial) as folder:
        found = _Part(Path(folder), given)
        for unit in units:
            found.unit(root, *unit)
        found.flush()
        for name in table.TABLES:
            if name in found.writers:
                found.writers[name].close()
                Path(folder, name).replace(Path(out, name, f"part-{number:06d}.parquet"))
    return found.counts


def stamp(path: str, size: int, mtime_ns: int, what: str, given: tuple = ()) -> int:
    """A number that says whether a file is still the one that was read, with the same patterns."""
    text = f"{labels.EDITION}{chr(0).join(given)}{what}\0{path}\0{size}\0{mtime_ns}"
    digest = hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class _Part:
    """The rows that were found, table by table, until they are written to the files in `folder`."""

    def __init__(self, folder: Path, given: tuple):
        self.folder, self.given = folder, given
        self.counts = Counter(files=0, bytes=0, runs=0, problems=0)
        self.writers: dict = {}
        self.found: dict[str, list] = {name: [] for name in table.TABLES}
        self.held = 0

    def flush(self) -> None:
        """Write what is held."""
        for name, rows in self.found.items():
            if rows:
                if name not in self.writers:
                    self.writers[name] = table.writer(self.folder / name, name)
                self.writers[name].write_table(table.arrow(name, rows))
                rows.clear()
        self.held = 0

    def unit(self, root: str, path: str, size: int, mtime_ns: int, what: str) -> None:
        """Add one file (or campaign) of the tree."""
        self.counts.update(files=1, bytes=size)
        name, mark = files.safe(path), stamp(path, size, mtime_ns, what, self.given)
        if what == "campaign":
            self._campaign(Path(root, path), name, size, mark)
        elif what != "file":
            self._file(name, "", what, size, mark)
        else:
            try:
                self._read(os.path.join(root, path), name, size, mark)
            except OSError as e:  # it is not said to be read, so that it is tried again
                self._problem(name, "", 0, f"cannot be read ({e.strerror})")
                self._file(name, "", "unreadable", size, UNREAD)
        if self.held > FLUSH_BYTES:
            self.flush()

    def _row(self, name: str, *values) -> None:
        names = table.TABLES[name].names
        self.found[name].append((1, dict(zip(names, values, strict=True))))

    def _file(self, file, member, what, size, mark, digest="", runs=0) -> None:
        self._row("files", file, member, what, size, digest, runs, mark)
        self.counts["runs"] += runs
        self.held += size

    def _problem(self, file, member, line, reason) -> None:
        self._row("problems", file, member, line, reason)
        self.counts["problems"] += 1

    def _read(self, path: str, name: str, size: int, mark: int) -> None:
        """Add what the texts in a file say."""
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb", buffering=2**16) as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                self._file(name, "", "no regular file", size, mark)
                return
            packed = files.packed(file.peek(files.HEAD))
            for member, data in files.texts(file, name, size):
                if packed:
                    long = len(data) if isinstance(data, bytes) else 0
                    self._text(name, files.safe(member)[len(name) + 2 :], data, long, None)
                else:
                    self._text(name, "", data, size, mark)
            if packed:
                self._file(name, "", "compressed or archive", size, mark)

    def _text(self, file, member, data, size, mark) -> None:
        """Add what one text says; `data` as of `files.texts`."""
        digest, runs = "", 0
        if data is None:
            what = "link or device"
        elif isinstance(data, Exception):
            what = "not opened"
            known = isinstance(data, files.TooMuch)
            why = str(data) if known else f"damaged ({files.shown(str(data))})"
            self._problem(file, member, 0, why)
        elif what := None if files.binary(data[: files.HEAD]) else parse.kind(data):
            digest = hashlib.sha256(data).hexdigest()
            if what == "sysbench" and (chore := parse.chore(data)):
                what = f"sysbench {chore}"
            else:
                runs = self._log(file, member, data, what)
        else:
            what = files.kind(data)
        self._file(file, member, what, size, mark, digest, runs)

    def _log(self, file, member, data, tool) -> int:
        """Add the runs in a text of sysbench or `time`; how many there are."""
        name = f"{file}//{member}" if member else file
        told, whole = labels.labels(name.replace("//", "/"), self.given), 0
        try:
            if tool == "sysbench":
                pieces = parse.runs(data)
            else:
                pieces = [(d["line"], d) for d in parse.time(data)]
        except parse.ParseError as e:
            self._problem(file, member, e.line, str(e).partition(": ")[2])
            return 0
        for line, piece in pieces:
            where = name if len(pieces) == 1 else f"{name}:{line}"
            try:
                if tool == "sysbench":
                    self._sysbench(file, where, line, piece, told)
                else:
                    run = compare.of_time(where, piece)
                    workload = piece["label"] or told.get("workload")
                    facts = {"workload": workload, "tool": tool, "duration_s": piece["real_s"]}
                    self._run(file, line, told | facts, run)
                whole += 1
            except parse.ParseError as e:
                self._problem(file, member, line + e.line - 1, str(e).partition(": ")[2])
            except compare.Refused:
                why = f"the timed command ended with {piece['exit_code']}"
                self._problem(file, member, line, why)
        return whole

    def _sysbench(self, file, where, line, text, told) -> None:
        """Add one run. Raises ParseError."""
        d = parse.sysbench(text)
        run, latency = compare.of_sysbench(where, d), d["latency"]
        run.values.update({"min_latency": latency["min"], "max_latency": latency["max"]})
        run.values.update({name: d[name] for name in ("qps", "ignored_errors", "reconnects")})
        for share, value in latency["percentile"].items():
            run.values.setdefault(f"p{share:g}", value)
        facts = {
            **labels.settled(told, d),
            "threads": d["threads"],
            "tool": "sysbench",
            "tool_version": d["version"],
            "host": d["options"].get("mysql-host") or told.get("host"),
            "duration_s": d["duration_s"],
        }
        self._run(file, line, told | facts, run, labels.contradictions(told, d))
        self._numbers(where, d)

    def _run(self, file, line, facts, run: compare.Run, notes=()) -> None:
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
        }
        values = {m: v for m, v in run.values.items() if v is not None}
        units = [METRICS[m].unit if m in METRICS else _UNITS.get(m, "s") for m in values]
        facts |= {"metric": np.array(list(values)), "unit": np.array(units)}
        facts |= {"value": np.array(list(values.values()), float)}
        self.found["tidy"].append((len(values), facts))

    def _numbers(self, run: str, d: dict) -> None:
        """The interval rows and the histogram of a result of `parse.sysbench`."""
        rows, queue = d["intervals"], d["queue"]
        if rows:
            n = len(rows["t_s"])
            if len(queue.get("length", ())) == n:
                rows |= {"queue_length": queue["length"], "concurrency": queue["concurrency"]}
            self.found["intervals"].append((n, {"run": run, **rows}))
        if n := d["histogram_counts"].size:
            held = {"run": run, "value_s": d["histogram_s"], "count": d["histogram_counts"]}
            self.found["histograms"].append((n, held))

    def _campaign(self, folder: Path, name: str, size: int, mark: int) -> None:
        """Add one of our own campaigns, as `tidy` reads it."""
        from noisefloor.data import tidy

        campaign = tidy.opened(folder)
        try:
            meta, found = campaign.meta, tidy.table(campaign)
        except tidy.Damaged as e:
            self._problem(name, "", 0, str(e))
            self._file(name, "", "campaign", size, mark)
            return
        for sentence in found.attrs["problems"]:
            self._problem(name, "", 0, files.shown(sentence))
        runs, held = found.groupby("run", sort=False), {run.name: run for run in campaign.runs}
        for run, rows in ((held[at], rows) for at, rows in runs):
            facts = run.facts
            where, warnings = f"{name}/{run.name}", facts["warnings"]
            first = rows.iloc[0].dropna().to_dict()
            if facts["workload_tool"] == "duet":  # its windows are for who opens the campaign
                windows = f"a duet: means of {rows['pair'].nunique()} windows, no throughput"
                warnings = [*warnings, windows]
                rows = rows[rows["metric"] != "tps"]
            values = rows.groupby("metric", sort=False)["value"].mean().to_dict()
            build = meta.get("engines", {}).get(facts["arm"], meta["engine"])
            host = facts["host"]
            told = first | {
                "server": build.get("kind"),
                "version": build.get("version"),
                "design": meta["design"],
                "host": f"{host.get('cpu')}, {host.get('cores')} cores",
                "labels_from": "campaign",
                "tool": facts["workload_tool"],
                "duration_s": facts.get("slice_s"),
            }
            keys = {"workload": facts["workload"]}
            self._run(name, 1, told, compare.Run(where, values, keys=keys), warnings)
            if tidy.printed(run.place):
                with contextlib.suppress(parse.ParseError):
                    self._numbers(where, run.sysbench)
        self._file(name, "", "campaign", size, mark, runs=runs.ngroups)
