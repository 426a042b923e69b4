"""Run what is missing of a study into data/raw, one folder a run. Resumes; only one at a time.

The only module that starts measuring tools. A run's folder is written as ``<run>.partial`` and
renamed when whole; a pair counts when both of its runs are whole.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pandas as pd
import pyarrow

from . import (
    backup,
    connections,
    doctor,
    engines,
    evidence,
    guest,
    parse,
    paths,
    schedule,
    stats,
    tidy,
    tools,
    workloads,
)
from .clients import Kit as ClientKit
from .clients import count as count_clients
from .schedule import Cell
from .server import Server, ServerError, SettingError, Throttle, pin, workshop
from .study import (
    SLOWLY,
    Arm,
    Study,
    StudyError,
    Workload,
    as_guest,
    first_look,
    from_clients,
    load,
    restored,
    with_pinned,
)

TOOLS = {
    **tools.TOOLS,
    "backup": backup.backup,
    "restore": backup.restore,
    "connect": connections.connect,
    "pooled": connections.pooled,
}
KITS = {"backup": backup.Kit, "connections": connections.Kit, "clients": ClientKit}
ATTEMPTS = 2
GIVE_UP = 3  # pairs lost one after the other


class CampaignError(Exception):
    """A campaign that cannot go on: what happened, and what was kept. One sentence."""


class PairLost(CampaignError):
    """A run failed in every attempt; its pair is not counted."""


# -- one measurement at a time on a machine ------------------------------------------------------


@contextlib.contextmanager
def alone(say: Callable[[str], None] = lambda s: None) -> Iterator[None]:
    """Hold the machine: a second campaign waits here until the first one ends, however it ends."""
    # the name of a socket is seen in every chroot, the folder from every network namespace
    with socket.socket(socket.AF_UNIX) as name, _open_folder("/") as root:
        waited = False
        for hold in (
            lambda: name.bind("\0noisefloor-measuring"),
            lambda: fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB),
        ):
            while True:
                try:
                    hold()
                    break
                except OSError:
                    if not waited:
                        say("another campaign is measuring on this machine; waiting for it to end")
                    waited = True
                    time.sleep(0.5)
        yield


@contextlib.contextmanager
def _open_folder(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


# -- the campaign's folder -----------------------------------------------------------------------


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _write_json(path: Path, content: object) -> None:
    """Whole or not at all, also when both runs of a duet write the same."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(path)


def _commit() -> str:
    asked = ["git", "-C", str(paths.root()), "describe", "--always", "--dirty"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            asked, capture_output=True, text=True, timeout=5, check=True
        ).stdout.strip()
    return ""


def _build(engine: engines.Engine) -> dict:
    label = engines.label(engine)
    return {"label": label} | {k: getattr(engine, k) for k in ("kind", "version", "origin")}


def _meta(study: Study, engine: engines.Engine, parameters: dict, builds: Mapping = {}) -> dict:
    arms = (study.baseline, *study.arms, study.control)
    return {
        "format": tidy.FORMAT,
        "study": study.name,
        "title": study.title,
        "question": study.question,
        "profile": dataclasses.asdict(study.profile),
        "plan": schedule.plan(study),
        "parameters": parameters,
        "design": study.design,
        "margin_pct": study.margin_pct,
        "baseline": study.baseline.name,
        "control": study.control.name,
        "arms": {a.name: dataclasses.asdict(a) for a in arms},
        "workloads": [dataclasses.asdict(w) for w in study.workloads],
        "settings": dict(study.settings),
        "tables": study.tables,
        "keyring": study.keyring,
        "pairs": study.pairs,
        "upgrade_path": study.upgrade,
        "kit": study.kit,
        "facts": study.facts,
        "reach": dict(study.reach),
        "floor": dict(study.floor),
        "floor_from": study.floor_from,
        "engine": _build(engine) | {"note": engine.note},
        "engines": {a.name: _build(builds.get(a.engine, engine)) for a in arms},
        "host": doctor.facts(),
        "tools": {k: v for k, v in doctor.tools().items() if v},
        "commit": _commit(),
        "seed": secrets.randbelow(1 << 31),
        "created": _now(),
        "finished": "",
        "ended_because": "",
        "spent_s": 0.0,
        "skipped": {},
    }


def _resumable(study: Study, engine: engines.Engine, say: Callable[[str], None]) -> Path | None:
    """The newest unfinished live campaign of the same study on the same build."""
    for file in sorted(paths.runs().glob(f"{study.name}-*/campaign.json"), reverse=True):
        with contextlib.suppress(tidy.Damaged, StudyError, KeyError, TypeError):
            found = tidy.meta(file.parent)
            if found["finished"] or not _build(engine).items() <= found["engine"].items():
                continue
            if "plan" not in found:
                say(f"{file.parent.name} was begun under an earlier plan and is not continued")
            elif restored(found) == study:
                return file.parent
    return None


class Campaign:
    """The state of one execution of a study: its folder, and what is known from it."""

    def __init__(self, study: Study, folder: Path, meta: dict, progress: "Progress"):
        self.study, self.folder, self.meta, self.progress = study, folder, meta, progress
        self.seed = meta["seed"]
        self._new: list[dict] = []  # rows that are not in the table yet
        self._table = tidy.frame([], study.design)
        self._adding = threading.Lock()  # both runs of a duet end at once
        self.lost = 0
        self.plan = meta["plan"]
        self.turns = schedule.turns(self.seed, study, self.plan)
        self.slice_s = study.profile.slice_s
        # Arrow's own allocator keeps what was freed: over a day, more than the runs themselves
        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
        self._sweep()
        runs = [tidy.read(r, verify=False) for r in tidy.run_folders(folder)]
        for facts in runs:
            with contextlib.suppress(tidy.Damaged, tidy.Unusable, parse.ParseError):
                self._new += tidy.rows(folder / facts["run"])
        self.block = max((f["block"] for f in runs), default=-1)
        if 0 <= self.block < len(self.turns) and self.whole(self.block):
            self.block += 1

    def _sweep(self) -> None:
        """What an interrupted campaign left: half-written runs go, whole runs without their
        partner are set aside, so that their pair is measured anew and exactly once."""
        for half in self.folder.glob("*.partial"):
            shutil.rmtree(half) if half.is_dir() else half.unlink()
        for run in tidy.strays(self.folder):
            self.set_aside(run.name, "damaged")
        by_pair: dict[str, list[str]] = {}
        for run in tidy.run_folders(self.folder):
            try:
                facts = tidy.read(run)
            except tidy.Damaged as e:
                self.progress.say(f"{e}; it is set aside")
                self.set_aside(run.name, "damaged")
                continue
            if not facts["warmup"]:
                by_pair.setdefault(facts["pair_id"], []).append(facts["run"])
        for names in by_pair.values():
            if len(names) == 1:
                self.set_aside(names[0], "unpaired")

    def set_aside(self, run: str, why: str) -> None:
        """Rename a run's folder so that it is kept and not counted."""
        n = 1
        while (self.folder / f"{run}.{why}{n}").exists():
            n += 1
        (self.folder / run).rename(self.folder / f"{run}.{why}{n}")
        table = self.table
        self._table = table[table["run"] != run].reset_index(drop=True)

    @property
    def table(self) -> pd.DataFrame:
        """The tidy table so far. Only it is kept: the rows themselves would be the larger part of
        what a day of measuring holds in memory."""
        with self._adding:
            if self._new:  # only what is new: after ten thousand runs all of it takes a second
                new, self._new = tidy.frame(self._new, self.study.design), []
                if len(self._table):
                    both = pd.concat([self._table, new], ignore_index=True)
                    # in one piece: else every pair of a day leaves a chunk of its own a column
                    whole = pyarrow.Table.from_pandas(both, preserve_index=False).combine_chunks()
                    new = whole.to_pandas()
                new.attrs["design"] = self.study.design
                self._table = new
            return self._table

    @property
    def left_s(self) -> float:
        """Seconds of measuring left of the budget: restarts and loading are not measuring."""
        return self.study.profile.budget_min * 60 - self.meta["spent_s"]

    def save(self, **changes) -> None:
        """Write campaign.json."""
        self.meta |= changes
        _write_json(self.folder / "campaign.json", self.meta)

    def done(self, block: int | None = None) -> dict[str, int]:
        """Cell key -> pairs measured, in one block or in all."""
        t = self.table
        t = t[~t["warmup"] & ((t["block"] == block) | (block is None))]
        t = t[t.groupby("pair_id")["position"].transform("nunique") == 2]
        keys = t.drop_duplicates("pair_id")["pair_id"].str.rsplit("-p", n=1).str[0]
        return keys.value_counts().to_dict()

    def whole(self, block: int) -> bool:
        """Whether every comparison of a block has the pairs of the plan."""
        arm, have = self.turns[block][1], self.done(block)
        due = [x for x in schedule.cells(self.study) if arm in (None, x.arm) and not self.skips(x)]
        due = [x for x in due if not (x.control and self.study.pairs)]
        pairs = self.plan["pairs"]
        return pairs > 0 and all(have.get(x.key, 0) >= (1 if x.control else pairs) for x in due)

    def verdicts(self, ended: bool = False) -> pd.DataFrame:
        """The verdict table so far, at the last look that was reached; ended: at what was measured
        behind it, too."""
        t = self.table
        t = t[t.groupby("pair_id")["position"].transform("nunique") == 2]  # no warm-up, no half
        if t.empty:
            return pd.DataFrame()
        return schedule.verdicts(
            self.study, t, self.plan, pair_seconds=2 * (self.slice_s + 0.5), ended=ended
        )

    def undecided(self) -> set[str]:
        """The arms that still have a comparison without a word."""
        table = self.verdicts()
        if not len(table):
            return {a.name for a in self.study.arms}
        return schedule.undecided(self.study, table)

    def why_ended(self) -> str:
        """Why nothing more is measured, in words."""
        if self.study.pairs:
            return f"{self.study.pairs} pairs are measured"
        if not self.undecided():
            return "every comparison is decided"
        last = len(self.turns) - 1
        if self.left_s <= 0 and not (self.block == last and self.whole(last)):
            return "the budget is spent"
        return f"the {self.plan['blocks']} declared blocks are measured"

    def skips(self, cell: Cell) -> bool:
        """Whether this machine does not allow the cell's workload or arm."""
        return bool({cell.workload.name, cell.arm.name} & self.meta["skipped"].keys())

    def prepare(self, bench: "Bench") -> None:
        """What is found out once, before the first block: pinned values, arms that have no effect
        here, the upgrade of a data directory."""
        study, shop, templates = self.study, bench.folder, bench.templates
        if "pinned" not in self.meta:
            self.meta["pinned"] = _pinned(study, templates, shop)
            self.meta["skipped"] |= _without_effect(study, bench)
            if study.upgrade:
                build = templates[study.arms[0].name].engine
                self.meta["upgrade"] = tools.upgrade(templates[""], build, shop)
            self.save()
        self.study = with_pinned(study, self.meta["pinned"])

    def facts(self, bench: "Bench") -> None:
        """What the kit measures once, on the running servers of the first block, into a file each;
        [{"skipped": reason}] where this machine does not allow it."""
        for name in self.study.facts:
            path = tidy.fact_file(self.folder, name)
            if not path.exists():
                self.progress.say(f"{self.folder.name}: measuring {name}")
                try:
                    _write_json(path, bench.kit.fact(name))
                except (tools.NotHere, tools.ToolError, ServerError) as e:
                    _write_json(path, [{"skipped": getattr(e, "reason", str(e))}])

    # -- one run ---------------------------------------------------------------------------------

    def run(
        self,
        bench: "Bench",
        cell: Cell,
        arm: Arm,
        name: str,
        seconds: float,
        gate: threading.Barrier | None = None,
        **facts,
    ) -> None:
        """One run, whole or not at all; a failed one is kept as ``.failedN`` and tried again.

        `gate`: where the two runs of a duet wait for each other (one attempt: a second one would
        be alone). Raises PairLost when no attempt gave a whole run, EvidenceError when the arm was
        not in force."""
        reason = ""
        for _ in range(1 if gate else ATTEMPTS):
            partial = self.folder / f"{name}.partial"
            partial.mkdir()
            began = time.monotonic()
            try:
                self._measure(bench, cell, arm, partial, name, seconds, gate, facts)
            except (tools.ToolError, parse.ParseError, tidy.Unusable, SettingError) as e:
                reason = self._nameless(bench, str(e), partial)
                (partial / "failure.txt").write_text(f"{_now()}\n{reason}\n")
                n = len(list(self.folder.glob(f"{name}.failed*"))) + 1
                partial.rename(self.folder / f"{name}.failed{n}")
                if gate:
                    gate.abort()
                continue
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                if gate:
                    gate.abort()
                raise
            finally:
                self.meta["spent_s"] += (time.monotonic() - began) / (2 if gate else 1)
            found = tidy.rows(partial.rename(self.folder / name))
            with self._adding:
                self._new += found
            return
        raise PairLost(f"{name} failed in every attempt: {reason}")

    def _measure(self, bench, cell, arm, folder, name, seconds, gate, facts) -> None:
        pair = "warm-up" if facts["warmup"] else f"pair {facts['pair'] + 1}"
        where = f"{cell.workload.name}, {cell.threads} thread{'s' * (cell.threads > 1)}"
        self.progress.show(self, f"{where}, {pair}, {arm.name}")
        server = bench.server_of(arm, facts["slot"], cell.workload)
        replica = bench.replica_pair(cell.workload) if cell.workload.tool == "replica" else None
        if replica:
            server = replica[0]
        for s in replica or (server,):
            s.only(dict(cell.workload.settings) | dict(arm.switch))
        if cell.workload.throttled:
            settled = server.flush(5)
            bench.throttle(server, cell.workload)
        else:
            settled = server.settle(self.study.profile.settle_s)
        slice_ = tools.Slice(
            self.study, server, arm, cell.workload, cell.threads, seconds, folder,
            idle=bench.idle(server, *(replica or ())), replica=replica[1] if replica else None, kit=bench.kit,
        )  # fmt: skip
        if gate:
            gate.wait(60)
        start = _now()
        try:
            result = TOOLS[cell.workload.tool](slice_)
        finally:  # a failed run must not leave a slow disk to the next one
            bench.throttle(server)
        end = _now()
        if result["exit_code"]:
            raise tools.ToolError(self._said(folder, result["exit_code"]))
        asked = dict(arm.expect) | (dict(arm.prove) if facts["warmup"] else {})
        _write_json(folder / "evidence.json", evidence.collect(server, asked))
        _write_json(folder / "variables.json", self._variables(server))
        facts = {
            "format": tidy.FORMAT,
            "study": self.study.name,
            "campaign": self.folder.name,
            "run": name,
            "workload": cell.workload.name,
            "workload_tool": cell.workload.tool,
            "threads": cell.threads,
            "arm": arm.name,
            "slice_s": seconds,
            "start": start,
            "end": end,
            "seed": self.seed,
            "settle": settled,
            "versions": {
                "server": engines.label(server.engine),
                "sysbench": self.meta["tools"]["sysbench"],
            },
            "host": {k: self.meta["host"].get(k) for k in ("cpu", "cores", "aes", "kernel")},
            "warnings": _warnings(result, settled),
            **facts,
            **result,
        }
        files = sorted(p for p in folder.iterdir() if p.name != "run.json")
        facts["sha256"] = {p.name: tidy.sha256(p) for p in files}
        tidy.metrics(facts, folder)  # raises before the run counts
        _write_json(folder / "run.json", facts)

    def _nameless(self, bench: "Bench", reason: str, folder: Path) -> str:
        """Why a run failed; of somebody else's server neither that nor its texts say the name."""
        if not self.study.floor:
            return reason
        (theirs,) = bench.servers
        for file in folder.glob("*.txt"):
            file.write_text(theirs.nameless(file.read_text(errors="replace")))
        return theirs.nameless(reason)

    def _said(self, folder: Path, code: int) -> str:
        text, why = folder / "sysbench.txt", ""
        try:
            if text.exists():
                parse.sysbench(text.read_text(errors="replace"))  # names the FATAL line
        except parse.ParseError as e:
            why = f": {e}"
        return f"the tool ended with exit code {code}{why}"

    def _variables(self, server: Server) -> dict:
        """All global variables, stored once per content; the run's file points there."""
        found = server.variables()
        if self.study.floor:  # somebody else's: what names the machine stays there
            found = {k: v for k, v in found.items() if not tidy.names_machine(k)}
        text = json.dumps(found, indent=0, sort_keys=True)
        own = (server.folder, server.folder.parent, paths.engines(), paths.root())
        for private, shown in zip(own, ("server", "server", "engines", "project"), strict=True):
            for path in (private, private.resolve()):  # a link leads to another name of it
                text = text.replace(str(path), f"<{shown}>")
        if self.study.floor:
            text = server.nameless(text)
        else:
            text = text.replace(str(server.socket), "<socket>")
        if (where := server.settings.get("bind_address", "127.0.0.1")) != "127.0.0.1":
            text = text.replace(where, "<address>")
        text = re.sub(rf"(?<!\w){re.escape(socket.gethostname())}(?!\w)", "<host>", text)
        name = f"variables-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
        if not (self.folder / name).exists():
            _write_json(self.folder / name, json.loads(text))
        return {"file": name}

    def pair(self, bench: "Bench", cell: Cell) -> None:
        """Both runs of a pair, in the order that the coin says."""
        taken = {p for p in self.table["pair_id"] if p.startswith(f"{cell.key}-p")}
        number = next(n for n in count() if f"{cell.key}-p{n:03d}" not in taken)
        arm_first = schedule.order(self.seed, self.block, cell, number)
        arms = [cell.arm, self.study.baseline] if arm_first else [self.study.baseline, cell.arm]
        pair_id = f"{cell.key}-p{number:03d}"
        names = [f"{pair_id}-{i}-{schedule.slug(a.name)}" for i, a in enumerate(arms)]
        seconds = self.slice_s * cell.workload.stretch

        def one(i: int, gate: threading.Barrier | None = None) -> None:
            self.run(
                bench, cell, arms[i], names[i], seconds, gate, block=self.block, pair=number,
                pair_id=pair_id, position=i, warmup=False, slot=int(arms[i] is cell.arm),
            )  # fmt: skip

        try:
            if self.study.design == "duet":
                gate = threading.Barrier(2)
                with ThreadPoolExecutor(2) as both:
                    ended = [both.submit(one, i, gate).exception for i in (0, 1)]
                failed = [e for exception in ended if (e := exception())]
                # the one that waited in vain does not know why
                for e in sorted(failed, key=lambda e: isinstance(e, threading.BrokenBarrierError)):
                    raise e
            else:
                one(0)
                one(1)
            self.lost = 0
            self.save()  # what was spent is known to who continues
        except (PairLost, threading.BrokenBarrierError) as e:
            for name in names:
                if (self.folder / name).exists():
                    self.set_aside(name, "unpaired")
            self.lost += 1
            self.progress.say(f"{e}; the pair is not counted")
            if self.lost >= GIVE_UP:
                raise CampaignError(
                    f"{GIVE_UP} pairs in a row were lost, the last because {e}; whole runs are kept in "
                    f"{paths.shown(self.folder)}"
                ) from None

    def warm(self, bench: "Bench", slots: list[tuple[int, Arm]]) -> None:
        """A warm-up slice per server: kept, marked, never judged."""
        first = self.study.workloads[0]
        cell = Cell(first, max(first.threads), self.study.baseline)
        for slot, arm in slots:
            name = f"warm-up-b{self.block:02d}-{slot}-{schedule.slug(arm.name)}"
            if again := len(list(self.folder.glob(f"{name}*"))):  # a block that is continued
                name += f"-{again}"
            self.run(
                bench, cell, arm, name, self.study.profile.warmup_s, block=self.block, pair=-1,
                pair_id=name, position=slot, warmup=True, slot=slot,
            )  # fmt: skip


def _warnings(result: dict, settled: dict) -> list[str]:
    """What makes a run less trustworthy, as sentences."""
    found = []
    server = result["usage"].get("server") or result["usage"].get("replica")
    for name, idle in result["usage"].items():
        if name not in ("server", "source", "replica"):
            for what, word in (("cpu_s", "CPU"), ("written_B", "writes")):
                if idle[what] > 0.02 * server[what] > 0:
                    share = 100 * idle[what] / server[what]
                    found.append(f"carry-over: the idle server used {share:.1f} % of the {word}")
    if not settled["settled"]:
        found.append(f"not settled: {settled['dirty_pages']:.0f} dirty pages after the wait")
    return found


# -- the servers of a campaign -------------------------------------------------------------------


class Bench:
    """The servers that a block measures on: one (switched) or two (side by side). `address`: of
    the cluster whose workers are the clients."""

    def __init__(
        self,
        folder: Path,
        templates: dict[str, Server],
        study: Study | None = None,
        address: str = "",
    ):
        self.folder, self.templates, self.address = folder, templates, address
        self.duet = study is not None and study.design == "duet"
        self.kit = KITS[study.kit](self, study) if study and study.kit else None
        self.servers: list[Server] = []
        self.pair: tuple[Server, Server] | None = None
        self._throttle: tuple[Server, subprocess.Popen, Throttle] | None = None
        self._count = 0

    def fresh(self, arm: Arm, **settings) -> Server:
        """A stopped copy of the arm's data directory."""
        self._count += 1
        template = self.templates.get(arm.name) or self.templates[""]
        own = dict(arm.settings) | settings
        tcp = bool(settings) or (self.kit is not None and self.kit.tcp)
        made = template.copy(
            self.folder / f"s{self._count}", own, tcp=tcp, environment=arm.environment
        )
        if self.kit:
            self.kit.dress(made)
        return made

    def server_of(self, arm: Arm, slot: int, workload) -> Server:
        own = self.kit.server(arm, workload) if self.kit else None
        return own or self.servers[min(slot, len(self.servers) - 1)]

    def idle(self, *active: Server | None) -> dict[str, Server]:
        """Servers that run but are not being measured."""
        if self.duet:
            return {}
        up = [s for s in (*self.servers, *(self.pair or ())) if s.process and s not in active]
        return {f"idle{i}": s for i, s in enumerate(up)}

    def replica_pair(self, workload) -> tuple[Server, Server]:
        """A source and its replica, started when first needed in a block."""
        if self.pair is None:
            arm = Arm("")
            source = self.fresh(arm, server_id=11)
            replica = self.fresh(arm, server_id=12, skip_replica_start="ON")
            for s in (source, replica):
                s.spawn()
            for s in (source, replica):
                s.ready()
                s.check(s.settings)
                s.set(workload.settings)
            self.pair = (source, replica)
            tools.attach(replica, source)
        return self.pair

    def throttle(self, server: Server, workload: Workload | None = None) -> None:
        """Limit the server's disk as the workload says; None lifts the limit. Raises NotHere."""
        if self._throttle and self._throttle[:2] != (server, server.process):
            self.release()
        if workload and not self._throttle:
            try:
                self._throttle = (server, server.process, Throttle(server))
            except ServerError as e:
                raise tools.NotHere(workload.name, str(e)) from None
        if self._throttle:
            limits = (workload.writes_per_s, workload.reads_per_s) if workload else ()
            self._throttle[2].limit(*limits)

    def release(self) -> None:
        if self._throttle:
            self._throttle[2].close()
            self._throttle = None

    def close(self, *, keep: bool = False) -> None:
        """End the replica pair, and the measured servers unless `keep`."""
        self.release()
        if self.kit:
            self.kit.end_block() if keep else self.kit.close()
        for s in (*(self.pair or ()), *(() if keep else self.servers)):
            s.remove()
        self.pair = None
        if not keep:
            self.servers = []


def _templates(study: Study, builds: dict[str, engines.Engine], folder: Path) -> dict[str, Server]:
    """Loaded data directories to copy from, by arm name ("": the baseline's). Initialised and
    loaded once; two at a time, nothing is measured yet."""
    arms = (study.baseline, *study.arms)
    bases: dict[str, Server] = {}
    for n, name in enumerate(dict.fromkeys(a.engine for a in arms)):
        where = folder / f"base{n}"
        bases[name] = Server(builds[name], where, study.settings, keyring=study.keyring)

    def loaded(base: Server) -> None:
        base.initialise()
        with base:
            tools.load(base, study)
            base.stop()

    def prepared(arm: Arm) -> Server:
        if not arm.prepare:
            return bases[arm.engine]
        own = bases[arm.engine].copy(folder / f"base-{schedule.slug(arm.name)}", arm.settings)
        with own:
            own.script(*arm.prepare)
            own.stop()
        return own

    with ThreadPoolExecutor(2) as both:
        list(both.map(loaded, bases.values()))
        found = dict(zip([a.name for a in arms], both.map(prepared, arms), strict=True))
    return found | dict.fromkeys(("", study.control.name), found[study.baseline.name])


def _pinned(study: Study, templates: dict[str, Server], folder: Path) -> dict:
    """Arm name -> {"settings": values of the arm that it is pinned to, "refused": {name: why}}."""

    def values(name: str) -> dict[str, str]:
        with templates[name].copy(folder / "look") as server:
            found = server.variables()
        server.remove()
        return found

    found = {}
    for arm in study.arms:
        if arm.pin:
            wanted = tidy.pinnable(values(arm.pin), values(arm.name))
            kept, refused = pin(templates[arm.name], folder / "pin", wanted)
            found[arm.name] = {"settings": kept, "refused": refused}
    return found


def _without_effect(study: Study, bench: "Bench") -> dict[str, str]:
    """Arms whose environment does nothing to this build on this machine -> the reason."""
    found = {}
    for arm in study.arms:
        if arm.environment:
            try:
                with bench.fresh(arm) as server:
                    evidence.collect(server, {"AES": arm.prove["AES"]})
            except evidence.EvidenceError as e:
                found[arm.name] = str(e)
            finally:
                server.remove()
    return found


# -- the campaign --------------------------------------------------------------------------------


def measure(
    study: Study, *, parameters: dict | None = None, lua: str = "", address: str = ""
) -> Path:
    """Measure until every comparison has a verdict or the budget is spent; the campaign's folder.

    `lua`: where the study's script of the user's own lies; `address`: of its clients. The same study and parameters continue a campaign that was interrupted. Raises EngineMissing,
    ServerError, EvidenceError, CampaignError: one sentence each, what was whole is kept."""
    try:
        return _measure(study, parameters or {}, lua, address)
    except OSError as e:
        at = f" ({paths.shown(Path(os.fsdecode(e.filename)))})" if e.filename else ""
        raise CampaignError(
            f"{e.strerror or e}{at}: measuring stopped; whole runs are kept, the same command continues"
        ) from e


def _measure(study: Study, parameters: dict, lua: str, address: str) -> Path:
    progress = Progress()
    schedule.check(study)
    parameters = json.loads(json.dumps(parameters))
    name = parameters.get("engine", "mysql")
    builds = {
        n: engines.find(n or name)
        for n in {"", *(a.engine for a in study.arms), study.baseline.engine}
    }
    build = builds[""]
    if build.note:
        progress.say(build.note)
    _many_files()
    with alone(progress.say):
        for half in paths.runs().glob("*.partial"):  # killed before it was a campaign
            shutil.rmtree(half)
        folder = _campaign(study, build, parameters, builds, progress)
        campaign = Campaign(study, folder, tidy.meta(folder), progress)
        with workshop() as shop:
            guest.restore_others("", progress.say)
            labels = " and ".join(sorted({engines.label(b) for b in builds.values()}))
            progress.say(f"{labels}: initialising, loading {study.tables} tables")
            if lua:
                shutil.copyfile(lua, shop / study.workloads[0].script)
            bench = Bench(shop, _templates(study, builds, shop), study, address)
            try:
                progress.say(_planned(campaign))
                progress.say(_room(campaign, bench))
                campaign.prepare(bench)
                DESIGNS[study.design](campaign, bench)
            finally:
                bench.close()
                with contextlib.suppress(OSError):  # a full disk is told of where it was met
                    campaign.save()
        _finish(campaign)
    return folder


def _many_files() -> None:
    """A client has a socket each."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def _campaign(
    study: Study, build: engines.Engine, parameters: dict, builds: Mapping, progress: "Progress"
) -> Path:
    """The folder of an interrupted campaign of the same study and build, else a new one."""
    folder = _resumable(study, build, progress.say)
    if folder is None:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        folder = paths.runs() / f"{study.name}-{study.profile.name}-{stamp}"
        new = folder.with_name(f"{folder.name}.partial")
        new.mkdir(parents=True)
        _write_json(new / "campaign.json", _meta(study, build, parameters, builds))
        new.rename(folder)
    else:
        progress.say(f"continuing {folder.name}")
    return folder


def _finish(c: Campaign) -> None:
    because = c.why_ended()
    c.save(finished=_now(), ended_because=because)
    tidy.seal(c.folder)
    said = f"{c.folder.name}: {because}, {c.meta['spent_s']:.0f} s of measuring"
    c.progress.close(said)
    if not any(c.done().values()):
        raise CampaignError(
            f"{said}, and no pair of runs was whole: nothing can be judged; the same command measures anew"
        )


def measure_as_guest(
    study: Study,
    server: str,
    allow: tuple[str, ...] = (),
    *,
    parameters: dict,
    lua: str = "",
    dry: Callable[[str], None] | None = None,
) -> Path | None:
    """As `measure`, on a server that Noisefloor did not start (a URL), which is left as it was.

    `allow`: what is measured all the same, by name (`guest.ALLOWED`). `dry`: takes every statement
    that would be sent; None is returned and nothing is changed."""
    if unknown := set(allow) - set(guest.ALLOWED):
        raise StudyError(
            f"--allow {', '.join(sorted(unknown))}: there are {', '.join(guest.ALLOWED)};"
            " nothing was measured"
        )
    where = guest.address(server)
    progress = Progress()
    # a wrong study is said before anybody's server is asked anything
    floor, whose = _start_floor(where.near)
    schedule.check(as_guest(study, floor, whose, cpu=True))
    threads = max(t for w in study.workloads for t in w.threads)
    _many_files()
    with contextlib.nullcontext() if dry else alone(progress.say), workshop() as shop:
        if not dry:
            guest.restore_others(where.url, progress.say)
        with guest.visit(where, shop / "guest", threads, allow, progress.say, dry) as theirs:
            study = as_guest(study, floor, whose, cpu=bool(theirs.pid))
            if dry:
                return _dry(study, theirs, dry)
            _taken(study, theirs)
            theirs.move_in()
            folder = _campaign(study, theirs.engine, parameters, {}, progress)
            if not where.near:
                _elsewhere(folder)
            campaign = Campaign(study, folder, tidy.meta(folder), progress)
            progress.say(f"{engines.label(theirs.engine)}: loading {study.tables} tables")
            if lua:
                shutil.copyfile(lua, shop / study.workloads[0].script)
            tools.fill(theirs, study)
            bench = Bench(shop, {}, study)
            bench.servers = [theirs]
            try:
                _as_guest(campaign, bench)
            finally:
                with contextlib.suppress(OSError):
                    campaign.save()
        _finish(campaign)
    return folder


def _start_floor(near: bool) -> tuple[dict[str, tuple[float, float]], str]:
    """Metric -> (start-to-start CV in percent, degrees of freedom), of this machine where it was
    measured, else as recorded; and whose that is, in words. `near`: whether the server is here."""
    file = paths.floor()
    found = json.loads(file.read_text(encoding="utf-8"))
    campaign = found["source"].partition(":")[0]
    whose = f"as measured on the machine of the recorded {campaign}, not on the server's"
    if file != paths.recorded_floor():
        whose = f"as measured on this machine ({campaign}){'' if near else ', not on the server'}"
    floor = {}
    for metric in (m for m, f in found.items() if isinstance(f, dict)):
        start = stats.scatter.start(metric)
        floor[metric] = (100 * start.cv, float(start.df))
    return floor, whose


def _wanted(study: Study) -> dict[str, dict[str, None]]:
    """Variable -> the values that a study sets it to."""
    found: dict[str, dict[str, None]] = {}
    parts = (*(w.settings for w in study.workloads), study.baseline.switch)
    for part in (*parts, *(a.switch for a in study.arms)):
        for name, value in part.items():
            found.setdefault(name, {})[value] = None
    return found


def _taken(study: Study, server: "guest.Guest") -> None:
    """Raise StudyError for a variable of the study's that the live server does not take."""
    for name, values in _wanted(study).items():
        try:
            live = name not in SLOWLY and server.takes(name, values)
        except SettingError as e:
            raise StudyError(f"{e}; nothing was measured") from None
        if not live:
            raise StudyError(
                f"{name} needs a start of the server to act, and one that Noisefloor did not start is"
                " never restarted; without --server it is measured on servers of its own;"
                " nothing was measured"
            )


def _elsewhere(folder: Path) -> None:
    """The machine that measures is not the one that is measured."""
    meta = tidy.meta(folder)
    _write_json(folder / "campaign.json", meta | {"host": {"cpu": "a server elsewhere"}})


def _dry(study: Study, server: "guest.Guest", say: Callable[[str], None]) -> None:
    """Say every statement that a campaign would send; those that change something are not sent."""
    arms = (study.baseline, *study.arms)
    journal = paths.shown(server.journal.path)
    say("-- how each variable was is read and written to the journal before it is set:")
    say(f"-- {journal}")
    say("-- does the server take each value?")
    _taken(study, server)
    say("-- a schema of its own, and the tables in it")
    server.move_in()
    first, options = study.workloads[0], server.folder / "sysbench.cnf"
    size = (study.tables, study.profile.rows)
    argv = workloads.prepare(options, first.script, *size, 2, first.sized)
    say(f"-- {' '.join(workloads.shown(argv))}")
    for w in study.workloads:
        for arm in arms:
            say(f"-- before each run of {w.name} under {arm.name}, where it is not so already:")
            server.only(dict(w.settings) | dict(arm.switch))
            server.settle(0)
        for threads in w.threads:
            argv = workloads.sysbench(
                w, options, tables=study.tables, rows=study.profile.rows, threads=threads,
                seconds=study.profile.slice_s,
            )  # fmt: skip
            say(f"-- {' '.join(workloads.shown(argv))}")
    say(f"-- what sysbench sends stands in its scripts; it uses the schema {workloads.SCHEMA}")
    say("-- at the end, however it ends:")
    say(f"SHOW TABLES FROM {workloads.SCHEMA};  -- is it the schema that was created?")


def _planned(c: Campaign) -> str:
    """The plan in words, before anything is measured."""
    looks = ", ".join(map(str, c.plan["looks"]))
    each = f" an arm, {len(c.study.arms)} arms" if len(c.study.arms) > 1 else ""
    return (
        f"plan: {c.plan['blocks']} blocks{each}, judged after {looks}; at most"
        f" {_clock(c.study.profile.budget_min * 60)} minutes of measuring"
    )


SERVER_B = 400 << 20  # what a server may add to its data: redo log, undo, temporary tables
LOG_B_PER_S = 10 << 20  # that a server may write of binary log; it is removed after each pair
LOG_B = 1 << 30  # when it begins a new one
RUN_B = 200 << 10  # of what a tool printed, with what stands beside it
MEMORY_B = 320 << 20  # of Noisefloor itself, with its libraries
RUN_MEMORY_B = 64 << 10  # of what is known of a run, and of what that leaves unused between


def _room(c: Campaign, bench: Bench) -> str:
    """How much disk and memory the campaign takes at the most, in words. Raises CampaignError
    where the disk has less."""
    study, profile = c.study, c.study.profile
    data = max(_size(s.datadir) for s in bench.templates.values())
    servers = 1 if study.design == "switched" else 2
    servers += 2 * any(w.tool == "replica" for w in study.workloads)
    servers += 4 if study.kit == "backup" else bool(study.kit)  # archive, restored copy, its server
    stretch = max(w.stretch for w in study.workloads)
    logs = min(LOG_B, LOG_B_PER_S * profile.budget_min * 60) + 2 * LOG_B_PER_S * c.slice_s * stretch
    needs = _size(bench.folder) + servers * (data + SERVER_B + logs)
    runs = max(0.0, c.left_s) / c.slice_s + 2 * study.pairs * len(schedule.cells(study))
    needs = {bench.folder.parent: int(needs), c.folder.parent: int(RUN_B * (20 + runs))}
    for folder, size in needs.items():
        if (free := shutil.disk_usage(folder).free) < size:
            raise CampaignError(
                f"this campaign may need {size / 1e9:.1f} GB in {paths.shown(folder)}, where"
                f" {free / 1e9:.1f} GB are free; nothing was measured"
            )
    said = [f"{size / 1e9:.2f} GB in {paths.shown(f)}" for f, size in needs.items()]
    memory = MEMORY_B + RUN_MEMORY_B * (c.table["run"].nunique() + runs)
    said.append(f"{memory / 1e9:.2f} GB of memory beside its servers")
    return f"takes at most {', '.join(said)}"


def _size(folder: Path) -> int:
    """Bytes that a folder takes on disk."""
    return sum(p.lstat().st_blocks * 512 for p in folder.rglob("*") if p.is_file())


# what can go wrong with a measurement, each one sentence for its reader
FAILURES = (
    engines.EngineMissing,
    ServerError,
    evidence.EvidenceError,
    CampaignError,
    StudyError,
    tidy.Damaged,
    paths.NotFound,
)


def reach() -> dict[str, float]:
    """Metric -> the largest overhead in percent for which a duet was found honest: by
    `noisefloor calibrate --live` on this machine, else by the recorded campaign."""
    own = paths.runs() / "duet.json"
    file = own if own.exists() else Path(__file__).with_name("duet.json")
    return json.loads(file.read_text())["reach"]


_FOUND = {"sized", "digest", "guest"}  # parameters that nobody gives


def obtain(
    name: str,
    campaign: str = "",
    look: bool = False,
    clients: str = "",
    server: str = "",
    allow: tuple[str, ...] = (),
    dry: Callable[[str], None] | None = None,
    **parameters,
) -> Path | None:
    """The folder of a campaign: the recorded or live one called `campaign`, else a new one of the
    study called `name`, measured now; `look`: only a first look, as a duet; `clients`: the cluster
    whose workers load; `server`, `allow`, `dry`: as `measure_as_guest` takes them. What a notebook
    calls.

    With `campaign` the other parameters do not matter: a campaign keeps those it was made with."""
    if campaign:
        return paths.campaign(campaign)
    if parse.scrub("; ".join(parameters.get("settings", ())))[1]:
        raise StudyError(
            "a setting holds a password, which would stand on the page; nothing was measured"
        )
    lua = parameters.get("lua", "")
    if name == "own-study":
        parameters |= _script(parameters.get("workload", ""), lua)
        parameters |= {"guest": True} if server else {}
    study = load(name, **parameters)  # a wrong parameter is said before a build is looked for
    if look and clients:
        raise StudyError(
            "a first look loads two servers at once, clients one; nothing was measured"
        )
    if server:
        if look or clients:
            what = "a first look needs two servers" if look else "--clients needs a server"
            raise StudyError(f"{what} of its own; nothing was measured")
        known = {k: v for k, v in parameters.items() if k not in _FOUND | {"engine"}}
        known |= {"lua": Path(lua).name} if lua else {}
        known |= {"allow": list(allow)} if allow else {}
        return measure_as_guest(study, server, tuple(allow), parameters=known, lua=lua, dry=dry)
    # a path, or a fall-back: the build says what it is
    found = {p: engines.find(parameters[p]) for p in ("engine", "old") if p in parameters}
    if study.upgrade:
        builds = {parameters[p]: (b.kind, engines.label(b)) for p, b in found.items()}
        study = load(name, **parameters, builds=builds)
    elif found:
        kind = {"engine": found["engine"].kind}
        if name == "own-study":
            kind["static"] = _static(study, found["engine"])
        study = load(name, **(parameters | kind))
    if look:
        study = first_look(study, reach())
    if clients:
        study = from_clients(study, count_clients(clients))
    if lua:
        parameters["lua"] = Path(lua).name
    return measure(study, parameters=parameters, lua=lua, address=clients)


def _script(workload: str, lua: str) -> dict:
    """What is to be known of an own study's script before anything is measured. Raises StudyError."""
    if lua and (Path(lua).suffix != ".lua" or not Path(lua).is_file()):
        raise StudyError(
            f"lua {lua}: the path of a Lua file (.lua) is needed; nothing was measured"
        )
    if not lua and not re.fullmatch(r"\w+", workload or "oltp_read_write"):
        raise StudyError(
            f"workload {workload!r}: the name of a sysbench script is needed, such as"
            " oltp_read_write; a file of your own is given as --lua; nothing was measured"
        )
    try:
        found = {
            "sized": tools.sized(str(Path(lua).resolve()) if lua else workload or "oltp_read_write")
        }
    except tools.ToolError as e:
        raise StudyError(f"{e}; nothing was measured") from None
    return found | ({"digest": tidy.sha256(Path(lua))} if lua else {})


def _static(study: Study, build: engines.Engine) -> tuple[str, ...]:
    """The study's variables that only a start of the server sets, each value tried on a server
    without data. Raises StudyError for a variable or value that this build does not have."""
    wanted: dict[str, dict[str, None]] = {}
    for arm in (study.baseline, *study.arms):
        for name, value in arm.switch.items():
            wanted.setdefault(name, {})[value] = None
    progress = Progress()
    with alone(progress.say), workshop() as shop:
        progress.say(f"{engines.label(build)}: trying the values of {', '.join(wanted)}")
        try:
            server = Server.create(build, shop / "look", study.settings, keyring=True)
            with server:
                slow = [n for n in wanted if n in SLOWLY]
                static = (
                    *slow,
                    *(n for n in wanted if n not in slow and not server.takes(n, wanted[n])),
                )
                server.stop()
            for name in static:
                for value in wanted[name]:
                    with server.copy(shop / "try", {name: value}) as tried:
                        tried.stop()
                    tried.remove()
        except ServerError as e:
            raise StudyError(f"{e}; nothing was measured") from None
    return static


def _block(c: Campaign, bench: Bench, keep: Callable[[Cell], bool]) -> None:
    """What is missing of the block: whole rounds of pairs, as many as the plan says. The first block
    finds out how many its share of the budget holds, one at least. A pair that was lost is tried
    once more at the end."""
    found = [x for x in schedule.cells(c.study) if keep(x) and not (x.control and c.study.pairs)]
    # some of the budget is left for blocks that take longer than the first
    share_s = 0.85 * c.study.profile.budget_min * 60 / len(c.turns)
    number, began = 0, c.meta["spent_s"]
    while not all(map(c.skips, found)) and c.left_s > 0:
        again = number == c.plan["pairs"] > 0  # what was lost
        have = c.done(c.block)
        for cell in schedule.round_of(c.seed, c.block, 0 if again else number, found):
            due = 1 if cell.control else number if again else number + 1
            if have.get(cell.key, 0) >= due or c.skips(cell) or c.left_s <= 0:
                continue
            try:
                if bench.kit:
                    bench.kit.ready(cell.arm, cell.workload)
                c.pair(bench, cell)
                for server in bench.servers:
                    server.purge()
            except tools.NotHere as e:
                c.meta["skipped"][e.name] = e.reason
                c.progress.say(f"{e.name} is skipped: {e.reason}")
        if again:
            break
        number += 1
        took, began = c.meta["spent_s"] - began, c.meta["spent_s"]
        if not c.plan["pairs"] and number >= max(have.values(), default=0):
            c.plan["pairs"] = number if began + took > share_s else 0
    c.save()


def _blocks(c: Campaign) -> Iterator[Arm | None]:
    """The arm of each block that is still to be measured (None: all of them). The campaign is judged
    at the looks of its plan, an arm whose comparisons all have a word gets no more blocks. A block
    that was interrupted is continued, and keeps its deal."""
    open_ = {a.name for a in c.study.arms}
    judged = 0
    for block, (round_, arm) in enumerate(c.turns):
        if c.left_s <= 0:
            return
        if round_ in c.plan["looks"] and round_ > judged:
            judged, open_ = round_, c.undecided()
        if not open_ and not c.study.pairs:
            return
        if block < c.block or (arm and arm.name in c.meta["skipped"]):
            continue
        if arm and arm != c.study.control and arm.name not in open_:
            continue
        c.block = block
        yield arm


def _switched(c: Campaign, bench: Bench) -> None:
    """One server, restarted for every block; the arm is switched between slices."""
    bench.servers = [bench.fresh(c.study.baseline)]
    for _ in _blocks(c):
        bench.servers[0].restart()
        c.warm(bench, [(0, c.study.baseline)])
        c.facts(bench)
        _block(c, bench, lambda cell: True)
        bench.close(keep=True)


def _as_guest(c: Campaign, bench: Bench) -> None:
    """One server that is not ours: switched between slices, never restarted. A block is a number of
    pairs one after the other."""
    c.warm(bench, [(0, c.study.baseline)])
    for _ in _blocks(c):
        _block(c, bench, lambda cell: True)


def _side_by_side(c: Campaign, bench: Bench) -> None:
    """Two servers; for every block fresh copies are dealt to the arms by coin and both start."""
    for arm in _blocks(c):
        arms = [c.study.baseline, arm]
        dealt = schedule.coin(c.seed, c.block, "deal").permutation(2)
        made = {int(i): bench.fresh(arms[i]) for i in dealt}  # the coin decides who comes first
        for i in dealt:
            made[int(i)].spawn()
        bench.servers = [made[0], made[1]]
        for s in bench.servers:
            s.ready()
            s.check(s.settings)
        c.warm(bench, [(int(i), arms[i]) for i in dealt])
        _block(c, bench, lambda cell, a=arm: cell.arm == a)
        bench.close()


DESIGNS = {"switched": _switched, "side by side": _side_by_side, "duet": _side_by_side}


# -- progress --------------------------------------------------------------------------------------


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


class Progress:
    """A bar in a terminal and in Jupyter, plain lines every ten seconds elsewhere."""

    def __init__(self):
        self._bar = self._display = None
        self._next = 0.0
        if "ipykernel" in sys.modules:
            from IPython.display import display

            self._display = display({"text/plain": "measuring"}, raw=True, display_id=True)

    def say(self, text: str) -> None:
        """One line."""
        if self._display:
            self._display.update({"text/plain": text}, raw=True)
        elif self._bar:
            self._bar.write(text, file=sys.stderr)
        else:
            print(f"noisefloor: {text}", file=sys.stderr, flush=True)

    def show(self, c: Campaign, doing: str) -> None:
        """Where the campaign is: block, pair and arm, verdicts so far, time left at the most."""
        now, spent, left = time.monotonic(), c.meta["spent_s"], max(c.left_s, 0.0)
        if now < self._next:
            return
        if c.study.pairs:
            made = sum(c.done().values())
            wanted = c.study.pairs * sum(not x.control for x in schedule.cells(c.study))
            left = (spent / made if made else 3 * c.slice_s) * max(wanted - made, 0)
        text = f"block {c.block + 1} of {len(c.turns)}, {doing}; {self._words(c)}"
        plain = not (self._display or sys.stderr.isatty())
        # thousands of runs take seconds to judge: that must not be what a campaign's time goes to
        self._next = now + max(10 if plain else 1, 20 * (time.monotonic() - now))
        if self._display or plain:
            return self.say(f"{text}; {_clock(left)} left")
        if self._bar is None:
            from tqdm import tqdm

            bar = "{desc} {percentage:3.0f} %|{bar}| {postfix}"
            self._bar = tqdm(total=1.0, bar_format=bar, leave=False, desc=c.study.name)
        self._bar.n = min(spent / (spent + left + 1e-9), 1.0)
        self._bar.set_postfix_str(f"{_clock(left)} left; {text}")

    def _words(self, c: Campaign) -> str:
        """Verdicts so far, counted."""
        table = c.verdicts()
        if table.empty:
            return "no verdict yet"
        own = table[~table["control"]]
        return ", ".join(f"{n} {w}" for w, n in own["verdict"].value_counts().items())

    def close(self, text: str) -> None:
        """The last line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        self.say(text)
