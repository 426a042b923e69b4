"""A campaign: what it finds out before its first block, and the runs that it makes."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any

from noisefloor import parse, paths, schedule
from noisefloor.data import tidy
from noisefloor.measure import backup, clients, connections, loading, replication, tools
from noisefloor.measure.child import Gated, ToolError
from noisefloor.measure.folder import Folder, now, write_json
from noisefloor.measure.gate import Gate
from noisefloor.measure.server_pool import ServerPool, frozen
from noisefloor.model import Arm, Study, StudyError, Workload
from noisefloor.schedule import Cell
from noisefloor.servers import disk, engines, evidence, innodb
from noisefloor.servers.server import ServerError, SettingError

_TOOLS = (
    *(tools.sysbench, tools.restart, tools.profile),
    *(backup.backup, backup.restore, backup.beside),
    *(connections.connect, connections.pooled),
)
TOOLS = {tool.__name__: tool for tool in _TOOLS}
POOLS: dict[str, type[ServerPool]] = {  # by what a study needs
    "": ServerPool,
    "backup": backup.BackupPool,
    "connections": connections.ConnectionPool,
    "clients": clients.ClientPool,
    "replication": replication.ReplicationPool,
}
_ATTEMPTS = 2
# errors after which a run is tried again
_FAILED = (ToolError, parse.ParseError, tidy.Unusable, SettingError)
GIVE_UP = 3  # pairs lost one after the other
_FLUSH_S = 5.0  # for pages to be written back, at most
_DISK_S = 5.0  # of each of four jobs of fio, at most
_MANY = 32  # connections; so many or more are made before the clock starts


class CampaignError(Exception):
    """A campaign that cannot go on: what happened, and what was kept. One sentence."""


class PairLost(CampaignError):
    """A run failed in every attempt; its pair is not counted."""


# errors of a measurement; the text of each is one sentence for the user
FAILURES = (
    engines.EngineMissing,
    ServerError,
    evidence.EvidenceError,
    CampaignError,
    ToolError,
    StudyError,
    tidy.Damaged,
    paths.NotFound,
)


class Campaign(Folder):
    """A campaign that measures into its folder."""

    def prepare(self, pool: ServerPool) -> None:
        """Measure once, before the first block: the speed of the study's ciphers and keys and of the
        disk, and the upgrade of a data directory. A continued campaign has it already."""
        study, folder, templates = self.study, pool.folder, pool.templates
        if "prepared" in self.meta:
            return
        engine = templates[""].engine
        if study.cipher:
            self.meta["cipher_B_per_s"] = loading.cipher_rates(study.cipher, engine)
            self.meta["cipher_library"] = loading.openssl(engine)
        if study.keys:
            self.meta["signatures_per_s"] = loading.signature_rates(study.keys, engine)
        if study.upgrade:
            new = templates[study.arms[0].name]
            self.meta["upgrade"] = loading.upgrade(templates[""], new.engine, folder)
        self._disk(folder)
        self.save(prepared=now())

    def _disk(self, folder: Path) -> None:
        """Measure the disk and write what fio printed to ``fio.json``. A workload is skipped if its
        limit of reads or writes is no lower than what the disk can do."""
        if not (seconds := {"smoke": 0.0, "quick": 0.5}.get(self.study.profile.name, _DISK_S)):
            return
        self.progress.say("measuring the disk with fio")
        try:
            printed = disk.run_fio(folder, seconds)
            self.meta["disk"] = own = disk.fio_facts(printed)
            (self.folder / "fio.json").write_text(printed)
        except ServerError as e:
            self.meta["disk"] = {"skipped": str(e)}
            return
        for work in self.study.workloads:
            for what, most in (("reads", work.reads_per_s), ("writes", work.writes_per_s)):
                if most and most >= (makes := own[f"{what}_per_s"]):
                    why = f"a limit of {most:,} {what} a second: by fio the disk makes {makes:,.0f}"
                    self.meta["skipped"][work.name] = why

    def prebuild(self, pool: ServerPool) -> None:
        """Make, on a running server before the clock starts, what the runs need, and a file for each
        of the study's `facts`. The file has [{"skipped": reason}] if this machine does not allow to
        measure the fact."""
        if not (self.study.facts or any(w.tool == "restore" for w in self.study.workloads)):
            return
        self.progress.say(f"{self.folder.name}: making what its runs need")
        pool.servers[0].start()
        pool.prebuild()
        for name in self.study.facts:
            path = self.folder / tidy.fact_file(self.folder, name).name
            if not path.exists():
                self.progress.say(f"{self.folder.name}: looking at {name}")
                try:
                    write_json(path, pool.fact(name))
                except (tools.NotHere, ToolError, ServerError) as e:
                    write_json(path, [{"skipped": getattr(e, "reason", str(e))}])

    # -- pairs and warm-ups -----------------------------------------------------------------------

    @cached_property
    def _gate(self) -> Gate:
        return Gate(self.study.profile.budget_min, self.probes)

    def quiet(self) -> dict[str, Any]:
        """Wait as `Gate.wait` does, and return what it returns. The gate knows nothing of the pair
        that follows. {} for a guest: its server has a load of its own, so nothing is probed."""
        if self.study.floor:
            return {}
        seen = self._gate.wait()
        self.meta["waited_s"] = round(self._gate.waited_s, 3)
        return seen

    def slice(self, cell: Cell, arm: Arm, seconds: float, name: str, **place: Any) -> tools.Slice:
        """A run to be made. `place` goes into its run.json: pair, pair_id, position, and slot, the
        number of its server."""
        facts = {"run": name, "block": self.block, "warmup": False, **place}
        work, folder = cell.workload, self.folder / f"{name}.partial"
        return tools.Slice(
            self.study, tools.LATER, arm, work, cell.threads, seconds, folder, facts=facts
        )

    def pair(self, pool: ServerPool, cell: Cell) -> None:
        """Make both runs of a pair in random order, when the host is quiet. A pair counts whole or not
        at all. Raises CampaignError after `GIVE_UP` lost pairs in a row."""
        waited = self.quiet()
        taken = {p for p in self.table["pair_id"] if p.startswith(f"{cell.key}-p")}
        number = next(n for n in count() if f"{cell.key}-p{n:03d}" not in taken)
        pair_id, seconds = f"{cell.key}-p{number:03d}", schedule.slice_s(self.study, cell)
        arms = [self.study.baseline, cell.arm]
        if schedule.order(self.seed, self.block, cell, number):
            arms.reverse()
        runs = [
            self.slice(
                cell, arm, seconds, f"{pair_id}-{i}-{schedule.slug(arm.name)}",
                pair=number, pair_id=pair_id, position=i, slot=int(arm is cell.arm), gate=waited,
            )
            for i, arm in enumerate(arms)
        ]  # fmt: skip
        for run in runs if cell.workload.rate else ():
            whose = pair_id if cell.workload.arrivals == "same" else run.facts["run"]
            coin = schedule.generator(self.seed, self.block, whose, "arrivals")
            run.facts["arrivals"] = int(coin.integers(1, 2**31 - 1))
            if cell.workload.cores == "swapped":
                run.facts["core"] = (run.facts["slot"] + number) % 2
        try:
            if schedule.at_once(self.study, cell.workload):
                self._made(pool, runs, lambda: self._window(pool, runs))
            else:
                with self._connected(pool, runs):
                    for run in runs:
                        self.make_run(pool, run)
            self.lost = 0
            self.save()  # a continued campaign must know what was spent
        except PairLost as e:
            for name in (run.facts["run"] for run in runs):
                if (self.folder / name).exists():
                    self.set_aside(name, "unpaired")
            self.lost += 1
            self.progress.say(f"{e}; the pair is not counted")
            if self.lost >= GIVE_UP:
                raise CampaignError(
                    f"{GIVE_UP} pairs in a row were lost, the last because {e}; whole runs are kept"
                    f" in {paths.relative(self.folder)}"
                ) from None

    def warm(self, pool: ServerPool, slots: list[tuple[int, Arm]]) -> None:
        """Run a warm-up slice on each server, at once if `_plain`; kept, marked, never judged."""
        cell, seconds = warm_up(self.study), self.study.profile.warmup_s
        runs = []
        for slot, arm in slots:
            name = f"warm-up-b{self.block:02d}-{slot}-{schedule.slug(arm.name)}"
            if again := len(list(self.folder.glob(f"{name}*"))):  # a block that is continued
                name += f"-{again}"
            place = {"pair": -1, "pair_id": name, "position": slot, "slot": slot, "warmup": True}
            runs.append(self.slice(cell, arm, seconds, name, **place))
        if self._plain(cell.workload):
            self._made(pool, runs, lambda: _at_once(partial(self._measure, pool), runs))
        else:
            for run in runs:
                self.make_run(pool, run)
        if self.study.workloads[0].rate and not self.study.floor:  # no time for it at a rate
            _at_once(lambda run: innodb.flush(run.server, _FLUSH_S), runs)

    def _plain(self, work: Workload) -> bool:
        """Whether sysbench on this host loads two servers, and their disk is not throttled."""
        switched = self.study.design == "switched"
        return work.tool == "sysbench" and not (work.clients or work.throttled or switched)

    def make_run(self, pool: ServerPool, run: tools.Slice) -> None:
        """One run, whole or not at all; a failed one is kept as ``.failedN`` and tried again.
        Raises PairLost when no attempt gave a whole run, EvidenceError when the arm was not in
        force."""
        self._made(pool, [run], lambda: self._measure(pool, run))

    def _made(self, pool: ServerPool, runs: list[tools.Slice], measure: Callable[[], None]) -> None:
        """Runs that `measure` makes, whole together or not at all. Raises PairLost."""
        names = [run.facts["run"] for run in runs]
        for _ in range(_ATTEMPTS):
            proved = set(self.proved)
            with self._clock(*runs):
                try:
                    measure()
                except _FAILED as e:
                    self.proved, reason = proved, self._failed(pool, runs, e)
                    continue
                for run, name in zip(runs, names, strict=True):
                    self._new += tidy.rows(run.folder.rename(self.folder / name))
            if not runs[0].facts["warmup"]:
                self.meta["slices_s"] += runs[0].facts["slice_s"]
            return
        raise PairLost(f"{' and '.join(names)} failed in every attempt: {reason}")

    @contextlib.contextmanager
    def _clock(self, *runs: tools.Slice) -> Iterator[None]:
        """Counts the time of its with block as spent of the budget. Makes the folders of `runs`
        first, and removes them after an exception."""
        began = time.monotonic()
        try:
            for run in runs:
                run.folder.mkdir()
            yield
        except BaseException:
            for run in runs:
                shutil.rmtree(run.folder, ignore_errors=True)
            raise
        finally:
            self.meta["spent_s"] += time.monotonic() - began

    def _failed(self, pool: ServerPool, runs: list[tools.Slice], e: Exception) -> str:
        """Set failed runs aside; returns why they failed. The names of a guest's server are removed
        from the reason and from the texts."""
        reason = str(e)
        if self.study.floor:
            theirs: Any  # a Guest
            (theirs,) = pool.servers
            reason = theirs.nameless(reason)
            for file in (f for run in runs for f in run.folder.glob("*.txt")):
                file.write_text(theirs.nameless(file.read_text(errors="replace")))
        for run in runs:
            (run.folder / "failure.txt").write_text(f"{now()}\n{reason}\n")
            self.set_aside(run.facts["run"], "failed", run.folder)
            run.gated = tools.LATER
        return reason

    @contextlib.contextmanager
    def _connected(self, pool: ServerPool, runs: list[tools.Slice]) -> Iterator[None]:
        """Connects the sysbench of each run in advance, if there are two servers and many
        connections."""
        work, threads = runs[0].workload, runs[0].threads
        if threads < _MANY or not self._plain(work):
            yield
            return
        with pool.place("gates") as place, contextlib.ExitStack() as ends:
            with self._clock():
                for i, run in enumerate(runs):
                    run.server = pool.server_of(run.arm, run.facts["slot"], work)
                    run.server.only(run.variables)
                    argv = tools.load_argv(run, run.seconds)
                    gate = Gated(argv, threads, place / str(i), place / f"{i}.txt")
                    run.gated = ends.enter_context(gate)
                for run in runs:
                    with contextlib.suppress(ToolError):  # raised again when the run begins
                        run.gated.connected()
            yield

    # -- measured ---------------------------------------------------------------------------------

    def _measure(self, pool: ServerPool, run: tools.Slice) -> None:
        """Make one run, with the idle servers frozen unless it is a warm-up."""
        work, facts = run.workload, run.facts
        self._show(run, run.arm.name)
        run.server = pool.server_of(run.arm, facts["slot"], work)
        run.server.only(run.variables)
        facts["settle"] = self._settled(run)
        if work.throttled:
            pool.throttle(run.server, work)
        run.idle = {} if facts["warmup"] else pool.idle(run.server)
        run.pool, facts["start"] = pool, now()
        try:
            with frozen(run.idle.values()):
                result = TOOLS[work.tool](run)
        finally:  # a failed run must not leave a slow disk to the next one
            pool.throttle(run.server)
        self._write(run, {"slice_s": run.seconds, **result})

    def _show(self, run: tools.Slice, whose: str) -> None:
        pair = "warm-up" if run.facts["warmup"] else f"pair {run.facts['pair'] + 1}"
        where = f"{run.workload.name}, {run.threads} thread{'s' * (run.threads > 1)}"
        self.progress.show(self, f"{where}, {pair}, {whose}")

    def _settled(self, run: tools.Slice) -> dict[str, float]:
        """Wait until a run's server has little left to write, or hardly anything if its disk is
        throttled next; returns what `innodb.settle` returns."""
        if run.workload.throttled:
            return innodb.flush(run.server, _FLUSH_S)
        return innodb.settle(run.server, self.study.profile.settle_s)

    def _window(self, pool: ServerPool, runs: list[tools.Slice]) -> None:
        """Make both runs of a pair at the same time: each server is offered the workload's rate, or
        each replica catches up with its source."""
        self._show(runs[0], "both servers at once")
        for run in runs:
            run.server = pool.server_of(run.arm, run.facts["slot"], run.workload)
            run.pool = pool
            run.server.only(run.variables)
            run.facts["settle"] = self._settled(run)
        try:
            for run in runs if runs[0].workload.throttled else ():
                pool.throttle(run.server, run.workload)
            if runs[0].workload.tool == "replica":
                for run in runs:
                    run.facts["start"] = now()
                results = replication.catch_up(runs)
            else:
                results = self._offered(pool, runs)
        finally:
            for run in runs:
                pool.throttle(run.server)
        for run, result in zip(runs, results, strict=True):
            self._write(run, {"slice_s": run.seconds, **result})

    def _offered(self, pool: ServerPool, runs: list[tools.Slice]) -> list[dict[str, Any]]:
        """What `tools.at_once` returns; its clients are connected before the clock starts."""
        with pool.place("gates") as place, contextlib.ExitStack() as ends:
            for i, run in enumerate(runs):
                argv = tools.load_argv(run, run.seconds)
                gate = Gated(argv, run.threads, place / str(i), run.folder / "sysbench.txt")
                run.gated = ends.enter_context(gate)
            for run in runs:
                run.gated.connected()
                if "core" in run.facts:
                    for pid in (run.server.pid, run.gated.process.pid):
                        tools.pin(pid, run.facts["core"])
            for run in runs:
                run.facts["start"] = now()
            return tools.at_once(runs)

    def _write(self, run: tools.Slice, result: dict[str, Any]) -> None:
        """Write run.json of a whole run, and with an arm's first run on a server in a block also
        evidence and variables. Raises one of `_FAILED` for a run that is not whole, EvidenceError
        if the arm is not in force."""
        if (code := result["exit_code"]) and not result.get("queue_full"):
            raise ToolError(f"the tool ended with exit code {code}{_fatal(run.folder)}")
        proof = (run.arm.name, run.server.pid)
        if proof not in self.proved:
            asked = dict(run.arm.expect) | dict(run.arm.prove)
            write_json(run.folder / "evidence.json", evidence.collect(run.server, asked))
            write_json(run.folder / "variables.json", self._variables(run.server))
            name = engines.label(run.server.engine)
            builds = self.meta.setdefault("builds", {})
            if run.server.datadir and name not in builds:
                builds[name] = loading.built(run.server)
        facts = {
            **self.facts_of(run.workload, run.threads, run.arm),
            "versions": {
                "server": engines.label(run.server.engine),
                "sysbench": self.meta["tools"]["sysbench"],
            },
            "warnings": _warnings(result, run.facts["settle"]),
            "errors_most": run.workload.errors,
            **({"rate": run.workload.rate} if run.workload.rate else {}),
            **run.facts,
            **result,
        }
        files = sorted(p for p in run.folder.iterdir() if p.name != "run.json")
        facts["sha256"] = {p.name: tidy.sha256(p) for p in files}
        tidy.metrics(facts, run.folder)  # raises before the run counts
        write_json(run.folder / "run.json", facts)
        self.proved.add(proof)
        run.facts["slice_s"] = facts["slice_s"]

    def closing(self, pool: ServerPool, arms: list[tuple[int, Arm]]) -> None:
        """Check at the end of a block that its arms are still in force, and write the checks and the
        variables of each arm to ``block-NN.json``. If one is not in force, sets all runs of the
        block aside and raises EvidenceError."""
        by_arm: dict[str, Any] = {}
        workload = self.study.workloads[0]
        try:
            for slot, arm in arms:
                if not arm.expect or arm.name in self.meta["skipped"]:
                    continue
                server = pool.server_of(arm, slot, workload)
                server.only(dict(workload.settings) | dict(arm.switch))
                checks = evidence.collect(server, dict(arm.expect))["checks"]
                by_arm[arm.name] = {"checks": checks} | self._variables(server)
        except evidence.EvidenceError:
            for run in tidy.run_folders(self.folder):
                if tidy.read(run, verify=False)["block"] == self.block:
                    self.set_aside(run.name, "unproved")
            raise
        if by_arm:
            write_json(self.folder / f"block-{self.block:02d}.json", by_arm)


def warm_up(study: Study) -> Cell:
    """The cell that warms a server up: the first workload without a rate (on a guest: with it) and
    without a throttled disk, at its most threads below `_MANY`, which connect quickly."""
    first = study.workloads[0]
    rate = first.rate if study.floor else 0
    quick = [t for t in first.threads if t < _MANY] or [min(first.threads)]
    tool = "sysbench" if first.tool == "profile" else first.tool
    first = replace(first, tool=tool, rate=rate, writes_per_s=None, reads_per_s=None)
    return Cell(first, max(quick), study.baseline)


def _at_once(do: Callable[[tools.Slice], object], runs: list[tools.Slice]) -> None:
    """Call `do` with every run, all at the same time."""
    with ThreadPoolExecutor(len(runs)) as executor:
        list(executor.map(do, runs))


def _fatal(folder: Path) -> str:
    """Why sysbench ended, by the FATAL line of its text."""
    text = folder / "sysbench.txt"
    try:
        if text.exists():
            parse.sysbench(text.read_text(errors="replace"))
    except parse.ParseError as e:
        return f": {e}"
    return ""


def _warnings(result: dict[str, Any], settled: dict[str, Any]) -> list[str]:
    """What makes a run less trustworthy, as sentences."""
    sentences = []
    server = result["usage"].get("server") or result["usage"].get("replica")
    for name, idle in result["usage"].items():
        if name not in ("server", "source", "replica"):
            for what, word in (("cpu_s", "CPU"), ("written_B", "writes")):
                if idle[what] > 0.02 * server[what] > 0:
                    share = 100 * idle[what] / server[what]
                    used = f"{share:.1f} % of the {word}"
                    sentences.append(f"carry-over: the idle server used {used}")
    if not settled["settled"]:
        sentences.append(f"not settled: {settled['dirty_pages']:.0f} dirty pages after the wait")
    return sentences
