"""A campaign's folder: its description, its runs, and what is known from them.

A run's folder is written as ``<run>.partial`` and renamed when whole; a pair counts when both of
its runs are whole.
"""

import contextlib
import dataclasses
import hashlib
import json
import re
import secrets
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow

from noisefloor import parse, paths, schedule
from noisefloor.data import design, tidy
from noisefloor.measure.progress import Progress
from noisefloor.model import Arm, Study, StudyError, Workload, study_of
from noisefloor.schedule import Cell
from noisefloor.servers import doctor, engines

REBOOTED = "this machine was started again"  # why a campaign of another boot ended


def now() -> str:
    """The time as it is recorded: ISO 8601 in UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def write_json(path: Path, content: object) -> None:
    """Write `content` as JSON, whole or not at all."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(path)


def _commit() -> str:
    asked = ("git", "-C", paths.root(), "describe", "--always", "--dirty")
    done = engines.output(*asked, timeout=5)
    return "" if done.returncode else done.stdout.strip()


def _build(engine: engines.Engine) -> dict[str, str]:
    label = engines.label(engine)
    return {"label": label} | {k: getattr(engine, k) for k in ("kind", "version", "origin")}


def description(
    study: Study,
    engine: engines.Engine | None,
    parameters: Mapping[str, Any],
    builds: Mapping[str, engines.Engine] = {},
    seed: int | None = None,
) -> dict[str, Any]:
    """campaign.json of a campaign that begins now. `builds`: by the engine that an arm names;
    `engine`: the build of all other arms, None if no server is measured. `seed`: of all random
    choices, None for a new one."""
    arms = (*study.compared, study.control)
    fields = dataclasses.asdict(study)
    return {
        "format": tidy.FORMAT,
        "study": fields.pop("name"),
        "upgrade_path": fields.pop("upgrade"),
        **fields,
        "baseline": study.baseline.name,
        "control": study.control.name,
        "arms": {a.name: dataclasses.asdict(a) for a in arms},
        "plan": schedule.plan(study),
        "parameters": parameters,
        "engine": _build(engine) | {"note": engine.note} if engine else {},
        "engines": {a.name: _build(builds.get(a.engine, engine)) for a in arms} if engine else {},
        "host": doctor.host_facts(),
        "tools": {k: v for k, v in doctor.tools().items() if v} if engine else {},
        "commit": _commit(),
        "seed": secrets.randbelow(1 << 31) if seed is None else seed,
        "created": now(),
        **dict.fromkeys(("finished", "ended_because"), ""),
        **dict.fromkeys(("spent_s", "slices_s", "wall_s", "waited_s"), 0.0),
        "skipped": {},
    }


def create(asked: str, facts: Mapping[str, Any]) -> Path:
    """Make the folder of a campaign that begins now, with campaign.json, whole or not at all. `asked`:
    how its name begins, the time follows; `facts`: as `description` returns them."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    names = (f"{asked}-{stamp}{f'-{n}' if n else ''}" for n in count())
    folder = next(f for f in (paths.runs() / name for name in names) if not f.exists())
    new = folder.with_name(f"{folder.name}.partial")
    new.mkdir(parents=True)
    write_json(new / "campaign.json", facts)
    new.rename(folder)
    return folder


def resumable(
    study: Study, engine: engines.Engine, left: Callable[[Path], None], seed: int | None = None
) -> Path | None:
    """The newest unfinished live campaign of the same study, build and `seed` (None: any) in this boot
    (of a guest: in any boot), else None. `left` is called with newer ones of other boots."""
    boot = design.sitting_key({"host": doctor.host_facts(), "created": now()})
    for file in sorted(paths.runs().glob(f"{study.name}-*/campaign.json"), reverse=True):
        with contextlib.suppress(tidy.Damaged, StudyError, KeyError, TypeError):
            meta = tidy.meta(file.parent)
            if meta["finished"] or not _build(engine).items() <= meta["engine"].items():
                continue
            if "plan" in meta and seed in (None, meta["seed"]) and study_of(meta) == study:
                if study.floor or design.sitting_key(meta) == boot:
                    return file.parent
                left(file.parent)
    return None


class Folder:
    """The state of a campaign, read from its folder."""

    def __init__(
        self, study: Study, folder: Path, meta: dict[str, Any], progress: Progress
    ) -> None:
        self.study, self.folder, self.meta, self.progress = study, folder, meta, progress
        self.seed = meta["seed"]
        self._new: list[dict[str, Any]] = []  # rows that are not in the table yet
        self._table = tidy.frame([])
        self.lost, self._since = 0, 0.0
        self.plan = meta["plan"]
        self.turns = schedule.turns(self.seed, study, self.plan)
        self.proved: set[tuple[str, int]] = set()  # (arm, server's process) of this block
        # Arrow's own allocator keeps what was freed: over a day, more than the runs themselves
        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
        runs = self._swept()
        for facts in runs:
            with contextlib.suppress(tidy.Damaged, tidy.Unusable, parse.ParseError):
                self._new += tidy.rows(folder / facts["run"])
        # what the gate saw before each pair, if the campaign is continued
        self.probes = [f["gate"] for f in runs if f.get("gate") and not f["position"]]
        self.block = max((f["block"] for f in runs), default=-1)
        if 0 <= self.block < len(self.turns) and self.whole(self.block):
            self.block += 1

    def _swept(self) -> list[dict[str, Any]]:
        """The whole runs that count. After an interruption, deletes half-written runs and sets whole
        runs without their partner aside; in the last block their pair is measured again, once."""
        for half in self.folder.glob("*.partial"):
            shutil.rmtree(half) if half.is_dir() else half.unlink()
        for run in tidy.strays(self.folder):
            self.set_aside(run.name, "damaged")
        runs: list[dict[str, Any]] = []
        for run in tidy.run_folders(self.folder):
            try:
                runs.append(tidy.read(run))
            except tidy.Damaged as e:
                self.progress.say(f"{e}; it is set aside")
                self.set_aside(run.name, "damaged")
        whole = Counter(f["pair_id"] for f in runs if not f["warmup"])
        for facts in (f for f in runs if whole[f["pair_id"]] == 1):
            self.set_aside(facts["run"], "unpaired")
        return [f for f in runs if whole[f["pair_id"]] != 1]

    def set_aside(self, run: str, why: str, folder: Path | None = None) -> None:
        """Rename a run's folder (`folder` if it is not whole) to ``<run>.<why>N``, so that it is
        kept and not counted."""
        names = (self.folder / f"{run}.{why}{n}" for n in count(1))
        (folder or self.folder / run).rename(next(n for n in names if not n.exists()))
        table = self.table
        self._table = table[table["run"] != run].reset_index(drop=True)

    @property
    def table(self) -> pd.DataFrame:
        """The tidy table so far. The rows themselves are not kept: over a day of measuring they
        would take most of the memory."""
        if self._new:  # only what is new: after ten thousand runs all of it takes a second
            new, self._new = tidy.frame(self._new), []
            if len(self._table):
                both = pd.concat([self._table, new], ignore_index=True)
                # else every pair of a day would add a chunk to each column
                whole = pyarrow.Table.from_pandas(both, preserve_index=False).combine_chunks()
                new = whole.to_pandas()
            self._table = new
        return self._table

    @property
    def left_s(self) -> float:
        """Seconds of measuring left of the budget: restarts and loading are not measuring."""
        return self.study.profile.budget_min * 60 - self.meta["spent_s"]

    def begin(self) -> None:
        """Start the clock of `wall_s`, once: everything is loaded."""
        self._since = self._since or time.monotonic()

    def save(self, **changes: Any) -> None:
        """Write campaign.json, with these `changes`."""
        if self._since:
            at = time.monotonic()
            self.meta["wall_s"] += at - self._since
            self._since = at
        self.meta |= changes
        write_json(self.folder / "campaign.json", self.meta)

    def done(self, block: int | None = None) -> dict[str, int]:
        """Cell key -> pairs measured, in one block or in all."""
        rows = self.table
        rows = rows[~rows["warmup"] & ((rows["block"] == block) | (block is None))]
        rows = rows[rows.groupby("pair_id")["position"].transform("nunique") == 2]
        keys = rows.drop_duplicates("pair_id")["pair_id"].str.rsplit("-p", n=1).str[0]
        counts: dict[Any, int] = keys.value_counts().to_dict()
        return counts

    def cells(self, arm: Arm | None) -> list[Cell]:
        """The comparisons of a block: of one arm, or of all."""
        cells = [x for x in schedule.cells(self.study) if arm in (None, x.arm)]
        return [x for x in cells if not (x.control and not self.plan["control"])]

    def whole(self, block: int) -> bool:
        """Whether every comparison of a block has the pairs of the plan."""
        have = self.done(block)
        cells = [x for x in self.cells(self.turns[block][1]) if not self.skips(x)]
        if not self.plan["pairs"]:
            return False
        return all(have.get(x.key, 0) >= (x.control or self.plan["pairs"]) for x in cells)

    def saturated(self) -> int:
        """How many windows at a rate there are, if all of them are saturated; else 0."""
        rows = self.table[~self.table["warmup"]]
        full = rows.loc[rows["metric"].eq("saturated") & rows["value"].gt(0), "pair_id"].nunique()
        return full * (full == rows["pair_id"].nunique())

    def why_ended(self) -> str:
        """Why nothing more is measured, in words."""
        if self.saturated():
            return "in no window did both servers keep up with the rate"
        last = len(self.turns) - 1
        if self.left_s <= 0 and not (self.block == last and self.whole(last)):
            return schedule.SPENT
        return f"the {self.plan['blocks']} declared blocks are measured"

    def facts_of(self, work: Workload, threads: int, arm: Arm) -> dict[str, Any]:
        """What run.json says of every run that ends now."""
        return {
            "format": tidy.FORMAT,
            "study": self.study.name,
            "campaign": self.folder.name,
            "workload": work.name,
            "workload_tool": work.tool,
            "threads": threads,
            "arm": arm.name,
            "end": now(),
            "seed": self.seed,
            "host": {k: self.meta["host"].get(k) for k in ("cpu", "cores", "aes", "kernel")},
        }

    def _variables(self, server: Any) -> dict[str, str]:
        """{"file": name}: the file in this folder with all global variables of a Server or a Guest,
        without the names of this machine. Runs with the same variables point to the same file. Of
        a Guest, variables with its names are left out."""
        values, guest = server.variables(), bool(self.study.floor)
        if guest:
            values = {k: v for k, v in values.items() if not tidy.names_machine(k)}
        text = json.dumps(values, indent=0, sort_keys=True, ensure_ascii=False)
        places = (server.folder, server.folder.parent, paths.engines(), paths.root())
        for private, shown in zip(places, ("server", "server", "engines", "project"), strict=True):
            for path in (private, private.resolve()):  # a link leads to another name of it
                text = text.replace(json.dumps(str(path), ensure_ascii=False)[1:-1], f"<{shown}>")
        text = server.nameless(text) if guest else text.replace(str(server.socket), "<socket>")
        if (where := server.settings.get("bind_address", "127.0.0.1")) != "127.0.0.1":
            text = text.replace(where, "<address>")
        text = re.sub(rf"(?<!\w){re.escape(socket.gethostname())}(?!\w)", "<host>", text)
        name = f"variables-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
        if not (self.folder / name).exists():
            write_json(self.folder / name, json.loads(text))
        return {"file": name}

    def skips(self, cell: Cell) -> bool:
        """Whether this machine does not allow the cell's workload or arm."""
        return bool({cell.workload.name, cell.arm.name} & self.meta["skipped"].keys())
