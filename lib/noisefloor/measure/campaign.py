"""A campaign: its folder, what is known from it, and the runs that it makes.

A run's folder is written as ``<run>.partial`` and renamed when whole; a pair counts when both of its
runs are whole, a duet's block when both servers' are.
"""

import contextlib
import dataclasses
import hashlib
import json
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pandas as pd
import pyarrow

from .. import backup, connections, doctor, engines, evidence, parse, paths, schedule, tidy, tools
from ..schedule import Cell
from ..server import Server, ServerError, SettingError
from ..study import Arm, Study, StudyError, restored, with_pinned
from .bench import Bench, pinned, without_effect
from .progress import Progress

TOOLS = {
    **tools.TOOLS,
    "backup": backup.backup,
    "restore": backup.restore,
    "speed": backup.speed,
    "connect": connections.connect,
    "pooled": connections.pooled,
}
ATTEMPTS = 2
FAILED = (
    tools.ToolError,
    parse.ParseError,
    tidy.Unusable,
    SettingError,
)  # of a run; it is tried again
GIVE_UP = 3  # pairs lost one after the other
MANY = 32  # connections that are made before the clock


class CampaignError(Exception):
    """A campaign that cannot go on: what happened, and what was kept. One sentence."""


class PairLost(CampaignError):
    """A run failed in every attempt; its pair is not counted."""


# -- the campaign's folder -----------------------------------------------------------------------


def now() -> str:
    """The time as it is written down."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def write_json(path: Path, content: object) -> None:
    """Write `content` as JSON, whole or not at all."""
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


def description(
    study: Study, engine: engines.Engine, parameters: dict, builds: Mapping = {}
) -> dict:
    """campaign.json of a campaign that begins now."""
    arms = (study.baseline, *study.arms, study.control)
    return {
        "format": tidy.FORMAT,
        "study": study.name,
        "key": study.key,
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
        "whole": study.whole,
        "upgrade_path": study.upgrade,
        "kit": study.kit,
        "facts": study.facts,
        "cipher": dict(study.cipher),
        "duet": study.duet,
        "shrinks": study.shrinks,
        "floor": dict(study.floor),
        "floor_from": study.floor_from,
        "engine": _build(engine) | {"note": engine.note},
        "engines": {a.name: _build(builds.get(a.engine, engine)) for a in arms},
        "host": doctor.facts(),
        "tools": {k: v for k, v in doctor.tools().items() if v},
        "commit": _commit(),
        "seed": secrets.randbelow(1 << 31),
        "created": now(),
        "finished": "",
        "ended_because": "",
        "spent_s": 0.0,
        "slices_s": 0.0,
        "wall_s": 0.0,
        "skipped": {},
    }


def resumable(study: Study, engine: engines.Engine, say: Callable[[str], None]) -> Path | None:
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

    def __init__(self, study: Study, folder: Path, meta: dict, progress: Progress):
        self.study, self.folder, self.meta, self.progress = study, folder, meta, progress
        self.seed = meta["seed"]
        self._new: list[dict] = []  # rows that are not in the table yet
        self._table = tidy.frame([], study.design)
        self.lost, self._since = 0, 0.0
        self.plan = meta["plan"]
        self.turns = schedule.turns(self.seed, study, self.plan)
        self.proved: set[tuple[str, int]] = set()  # (arm, server's process) of this block
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

    def begin(self) -> None:
        """From here on the clock runs: everything is loaded."""
        self._since = self._since or time.monotonic()

    def save(self, **changes) -> None:
        """Write campaign.json."""
        if self._since:
            at = time.monotonic()
            self.meta["wall_s"] += at - self._since
            self._since = at
        self.meta |= changes
        write_json(self.folder / "campaign.json", self.meta)

    def done(self, block: int | None = None) -> dict[str, int]:
        """Cell key -> pairs measured, in one block or in all."""
        t = self.table
        t = t[~t["warmup"] & ((t["block"] == block) | (block is None))]
        t = t[t.groupby("pair_id")["position"].transform("nunique") == 2]
        keys = t.drop_duplicates("pair_id")["pair_id"].str.rsplit("-p", n=1).str[0]
        return keys.value_counts().to_dict()

    def due(self, cell: Cell, rounds: int) -> int:
        """Pairs, or windows of a duet, that a block of so many rounds holds of a comparison."""
        if cell.workload.at_once:
            return schedule.windows(self.study, self.plan, control=cell.control)
        return 1 if cell.control else rounds

    def cells(self, arm: Arm | None) -> list[Cell]:
        """The comparisons of a block: of one arm, or of all."""
        found = [x for x in schedule.cells(self.study) if arm in (None, x.arm)]
        return [x for x in found if not (x.control and not self.plan["control"])]

    def whole(self, block: int) -> bool:
        """Whether every comparison of a block has the pairs of the plan."""
        have = self.done(block)
        due = [x for x in self.cells(self.turns[block][1]) if not self.skips(x)]
        if not self.plan["pairs"] and not all(x.workload.at_once for x in due):
            return False
        return all(have.get(x.key, 0) >= self.due(x, self.plan["pairs"]) for x in due)

    def verdicts(self, ended: bool = False) -> pd.DataFrame:
        """The verdict table so far, at the last look that was reached; ended: at what was measured
        behind it, too."""
        t = self.table
        t = t[t.groupby("pair_id")["position"].transform("nunique") == 2]  # no warm-up, no half
        if t.empty:
            return pd.DataFrame()
        return schedule.verdicts(
            self.study,
            t,
            self.plan,
            pair_seconds=2 * (self.study.profile.slice_s + 0.5),
            ended=ended,
        )

    def undecided(self) -> set[str]:
        """The arms that still have a comparison without a word."""
        table = self.verdicts()
        if not len(table):
            return {a.name for a in self.study.arms}
        return schedule.undecided(self.study, table)

    def why_ended(self) -> str:
        """Why nothing more is measured, in words."""
        if not self.study.whole and not self.undecided():
            return "every comparison is decided"
        last = len(self.turns) - 1
        if self.left_s <= 0 and not (self.block == last and self.whole(last)):
            return "the budget is spent"
        return f"the {self.plan['blocks']} declared blocks are measured"

    def skips(self, cell: Cell) -> bool:
        """Whether this machine does not allow the cell's workload or arm."""
        return bool({cell.workload.name, cell.arm.name} & self.meta["skipped"].keys())

    def prepare(self, bench: Bench) -> None:
        """What is found out once, before the first block: pinned values, arms that have no effect
        here, the upgrade of a data directory."""
        study, shop, templates = self.study, bench.folder, bench.templates
        if "pinned" not in self.meta:
            self.meta["pinned"] = pinned(study, templates, shop)
            self.meta["skipped"] |= without_effect(study, bench)
            if study.cipher:
                self.meta["cipher_B_per_s"] = tools.cipher_rates(study.cipher)
            if keys := {a.how["key"] for a in study.arms if "key" in a.how}:
                self.meta["signatures_per_s"] = tools.signature_rates(keys)
            if study.upgrade:
                new = templates[study.arms[0].name]
                self.meta["upgrade"] = tools.upgrade(templates[""], new.engine, shop)
                self.meta["builds"] = {}
                for template in (templates[""], new):
                    with template.copy(shop / "look") as server:
                        self.meta["builds"][engines.label(server.engine)] = tools.built(server)
                    server.remove()
            self.save()
        self.study = with_pinned(study, self.meta["pinned"])
        self.turns = schedule.turns(self.seed, self.study, self.plan)  # of the arms as they are now

    def facts(self, bench: Bench) -> None:
        """What the kit finds out once, on the running servers of the first block, into a file each;
        [{"skipped": reason}] where this machine does not allow it."""
        for name in self.study.facts:
            path = tidy.fact_file(self.folder, name)
            if not path.exists():
                self.progress.say(f"{self.folder.name}: looking at {name}")
                try:
                    write_json(path, bench.kit.fact(name))
                except (tools.NotHere, tools.ToolError, ServerError) as e:
                    write_json(path, [{"skipped": getattr(e, "reason", str(e))}])

    # -- runs -------------------------------------------------------------------------------------

    def run(
        self,
        bench: Bench,
        cell: Cell,
        arm: Arm,
        name: str,
        seconds: float,
        gated: tools.Gated | None = None,
        **facts,
    ) -> None:
        """One run, whole or not at all; a failed one is kept as ``.failedN`` and tried again.

        `gated`: a sysbench that has its connections already, for the first attempt. Raises PairLost
        when no attempt gave a whole run, EvidenceError when the arm was not in force."""
        reason = ""
        for attempt in range(ATTEMPTS):
            with self._clock(), self._folder(name) as partial:
                try:
                    self._measure(
                        bench, cell, arm, partial, name, seconds, None if attempt else gated, facts
                    )
                except FAILED as e:
                    reason = self._failed(bench, partial, name, e)
                    continue
                self._keep(partial, name)
            if not facts["warmup"]:
                self.meta["slices_s"] += tidy.read(self.folder / name, verify=False)["slice_s"]
            return
        raise PairLost(f"{name} failed in every attempt: {reason}")

    @contextlib.contextmanager
    def _folder(self, name: str) -> Iterator[Path]:
        """A folder for a run, gone again when it was interrupted."""
        partial = self.folder / f"{name}.partial"
        partial.mkdir()
        try:
            yield partial
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    @contextlib.contextmanager
    def _clock(self) -> Iterator[None]:
        """What is done in it is measuring, and spent of the budget."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.meta["spent_s"] += time.monotonic() - began

    def _keep(self, partial: Path, name: str) -> None:
        self._new += tidy.rows(partial.rename(self.folder / name))

    def _failed(self, bench: Bench, partial: Path, name: str, e: Exception) -> str:
        """Set a failed run aside; why it failed. Of somebody else's server neither that nor its texts
        say the name."""
        reason = str(e)
        if self.study.floor:
            (theirs,) = bench.servers
            reason = theirs.nameless(reason)
            for file in partial.glob("*.txt"):
                file.write_text(theirs.nameless(file.read_text(errors="replace")))
        (partial / "failure.txt").write_text(f"{now()}\n{reason}\n")
        n = len(list(self.folder.glob(f"{name}.failed*"))) + 1
        partial.rename(self.folder / f"{name}.failed{n}")
        return reason

    def _measure(self, bench, cell, arm, folder, name, seconds, gated, facts) -> None:
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
            idle=bench.idle(server, *(replica or ())), replica=replica[1] if replica else None, kit=bench.kit, gated=gated,
        )  # fmt: skip
        start = now()
        try:
            with contextlib.ExitStack() as still:
                for other in slice_.idle.values():
                    still.enter_context(other.frozen())
                result = TOOLS[cell.workload.tool](slice_)
        finally:  # a failed run must not leave a slow disk to the next one
            bench.throttle(server)
        if result["exit_code"]:
            raise tools.ToolError(self._said(folder, result["exit_code"]))
        self._prove(server, arm, folder)
        self._write(
            folder, name, cell, arm, server, start, settled, {"slice_s": seconds, **facts, **result}
        )
        self.proved.add((arm.name, server.pid))

    def _prove(self, server: Server, arm: Arm, folder: Path) -> None:
        """Evidence and variables, with the first whole run of an arm in a block, and of a server.
        Raises EvidenceError."""
        if (arm.name, server.pid) in self.proved:
            return
        asked = dict(arm.expect) | dict(arm.prove)
        write_json(folder / "evidence.json", evidence.collect(server, asked))
        write_json(folder / "variables.json", self._variables(server))

    def _write(self, folder, name, cell, arm, server, start, settled, more) -> None:
        """run.json of a run that is whole. Raises what `tidy.metrics` raises of one that is not."""
        facts = {
            "format": tidy.FORMAT,
            "study": self.study.name,
            "campaign": self.folder.name,
            "run": name,
            "workload": cell.workload.name,
            "workload_tool": cell.workload.tool,
            "threads": cell.threads,
            "arm": arm.name,
            "start": start,
            "end": now(),
            "seed": self.seed,
            "settle": settled,
            "versions": {
                "server": engines.label(server.engine),
                "sysbench": self.meta["tools"]["sysbench"],
            },
            "host": {k: self.meta["host"].get(k) for k in ("cpu", "cores", "aes", "kernel")},
            "warnings": _warnings(more, settled),
            "errors_most": cell.workload.errors,
            **more,
        }
        files = sorted(p for p in folder.iterdir() if p.name != "run.json")
        facts["sha256"] = {p.name: tidy.sha256(p) for p in files}
        tidy.metrics(facts, folder)  # raises before the run counts
        write_json(folder / "run.json", facts)

    def closing(self, bench: Bench, arms: list[tuple[int, Arm]]) -> None:
        """The end of a block whose arms were measured in turn: are they still in force? Into
        ``block-NN.json``, with the variables by arm. Where they are not, the block does not count.
        Raises EvidenceError."""
        found, workload = {}, self.study.workloads[0]
        if all(w.at_once for w in self.study.workloads):  # proved behind its windows
            return
        try:
            for slot, arm in arms:
                if not arm.expect or arm.name in self.meta["skipped"]:
                    continue
                server = bench.server_of(arm, slot, workload)
                server.only(dict(workload.settings) | dict(arm.switch))
                checks = evidence.collect(server, dict(arm.expect))["checks"]
                found[arm.name] = {"checks": checks} | self._variables(server)
        except evidence.EvidenceError:
            for run in tidy.run_folders(self.folder):
                if tidy.read(run, verify=False)["block"] == self.block:
                    self.set_aside(run.name, "unproved")
            raise
        if found:
            write_json(self.folder / f"block-{self.block:02d}.json", found)

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
            write_json(self.folder / name, json.loads(text))
        return {"file": name}

    def pair(self, bench: Bench, cell: Cell) -> None:
        """Both runs of a pair, in the order that the coin says."""
        number, pair_id = self._next(cell)
        arm_first = schedule.order(self.seed, self.block, cell, number)
        arms = [cell.arm, self.study.baseline] if arm_first else [self.study.baseline, cell.arm]
        names = [f"{pair_id}-{i}-{schedule.slug(a.name)}" for i, a in enumerate(arms)]
        with self._counted(names), self._connected(bench, cell, arms) as gates:
            for i in (0, 1):
                self.run(
                    bench, cell, arms[i], names[i], schedule.slice_s(self.study, cell), gates[i],
                    block=self.block, pair=number, pair_id=pair_id, position=i, warmup=False,
                    slot=int(arms[i] is cell.arm),
                )  # fmt: skip

    def at_once(self, bench: Bench, cell: Cell) -> None:
        """A block of a duet: both servers under load, a folder each, whole or not at all."""
        number, pair_id = self._next(cell)
        arms = [self.study.baseline, cell.arm]
        names = [f"{pair_id}-{i}-{schedule.slug(a.name)}" for i, a in enumerate(arms)]
        windows = schedule.windows(self.study, self.plan, control=cell.control)
        window_s = schedule.window_s(self.study)
        self.progress.show(self, f"{cell.workload.name}, {cell.threads} threads, {windows} windows")
        with self._counted(names), self._clock(), contextlib.ExitStack() as opened:
            folders = [opened.enter_context(self._folder(n)) for n in names]
            for server, arm in zip(bench.servers, arms, strict=True):
                server.only(dict(cell.workload.settings) | dict(arm.switch))
            settled = [s.settle(self.study.profile.settle_s) for s in bench.servers]
            both = [
                tools.Slice(self.study, s, a, cell.workload, cell.threads, window_s, f)
                for s, a, f in zip(bench.servers, arms, folders, strict=True)
            ]
            # whose client starts first, and whose counters are read first
            first = int(schedule.order(self.seed, self.block, cell, number))
            start = now()
            try:
                with bench.place("gates") as place:
                    results = tools.duet([both[first], both[1 - first]], place, windows, window_s)
                results = [results[first], results[1 - first]]
                for i, result in enumerate(results):
                    if result["exit_code"]:
                        raise tools.ToolError(self._said(folders[i], result["exit_code"]))
                    self._prove(bench.servers[i], arms[i], folders[i])
                    more = {
                        "workload_tool": "duet",
                        "slice_s": windows * window_s,
                        "block": self.block,
                    }
                    more |= {"pair": number, "pair_id": pair_id, "position": i, "warmup": False}
                    self._write(
                        folders[i], names[i], cell, arms[i], bench.servers[i], start, settled[i],
                        more | {"slot": i} | result,
                    )  # fmt: skip
            except FAILED as e:
                (reason,) = {
                    self._failed(bench, f, n, e) for f, n in zip(folders, names, strict=True)
                }
                raise PairLost(f"{pair_id} failed: {reason}") from None
            for folder, name in zip(folders, names, strict=True):
                self._keep(folder, name)
            self.meta["slices_s"] += windows * window_s

    def _next(self, cell: Cell) -> tuple[int, str]:
        """Number and name of the next pair of a comparison."""
        taken = {p for p in self.table["pair_id"] if p.startswith(f"{cell.key}-p")}
        number = next(n for n in count() if f"{cell.key}-p{n:03d}" not in taken)
        return number, f"{cell.key}-p{number:03d}"

    @contextlib.contextmanager
    def _counted(self, names: list[str]) -> Iterator[None]:
        """A pair that is measured in it counts whole, or not at all."""
        try:
            yield
            self.lost = 0
            self.save()  # what was spent is known to who continues
        except PairLost as e:
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

    @contextlib.contextmanager
    def _connected(self, bench: Bench, cell: Cell, arms: list[Arm]) -> Iterator[list]:
        """The sysbench of each arm with its connections made, where two servers stand side by side
        and there are many; None for one that makes them itself."""
        work = cell.workload
        before = work.tool == "sysbench" and not work.clients and cell.threads >= MANY
        if not before or self.study.design == "switched" or work.throttled:
            yield [None, None]
            return
        gates: list[tools.Gated] = []
        with bench.place("gates") as place:
            seconds = schedule.slice_s(self.study, cell)
            try:
                with self._clock():
                    for i, arm in enumerate(arms):
                        server = bench.server_of(arm, int(arm is cell.arm), work)
                        server.only(dict(work.settings) | dict(arm.switch))
                        slice_ = tools.Slice(
                            self.study, server, arm, work, cell.threads, seconds, place
                        )
                        argv = tools.load_argv(slice_, seconds)
                        gates.append(
                            tools.Gated(argv, cell.threads, place / str(i), place / f"{i}.txt")
                        )
                    for gate in gates:
                        with contextlib.suppress(tools.ToolError):  # it says so when it is to begin
                            gate.connected()
                yield gates
            finally:
                for gate in gates:
                    gate.end()

    def warm(self, bench: Bench, slots: list[tuple[int, Arm]]) -> None:
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
