"""The servers of a campaign: loaded once, copied and dealt anew for every block."""

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .. import backup, connections, engines, evidence, schedule, tidy, tools, workloads
from ..clients import Kit as ClientKit
from ..server import Server, ServerError, Throttle, pin
from ..study import Arm, Study, Workload

KITS = {"backup": backup.Kit, "connections": connections.Kit, "clients": ClientKit}


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

    @contextlib.contextmanager
    def place(self, name: str) -> Iterator[Path]:
        """A folder for what is needed for a moment."""
        self._count += 1
        folder = self.folder / f"{name}-{self._count}"
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def server_of(self, arm: Arm, slot: int, workload) -> Server:
        """The server that an arm is measured on."""
        own = self.kit.server(arm, workload) if self.kit else None
        return own or self.servers[min(slot, len(self.servers) - 1)]

    def idle(self, *active: Server | None) -> dict[str, Server]:
        """Servers that run but are not being measured."""
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

    @staticmethod
    def remove(servers: list[Server]) -> None:
        """End servers of a block that is over."""
        for s in servers:
            s.remove()

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


def templates(study: Study, builds: dict[str, engines.Engine], folder: Path) -> dict[str, Server]:
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
            own.script(*workloads.statements(arm.prepare, study.tables))
            own.stop()
        return own

    with ThreadPoolExecutor(2) as both:
        list(both.map(loaded, bases.values()))
        found = dict(zip([a.name for a in arms], both.map(prepared, arms), strict=True))
    return found | dict.fromkeys(("", study.control.name), found[study.baseline.name])


def pinned(study: Study, templates: dict[str, Server], folder: Path) -> dict:
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
            refused = {name: re.sub(r"/\S*/", "", said)[:200] for name, said in refused.items()}
            found[arm.name] = {"settings": kept, "refused": refused}
    return found


def without_effect(study: Study, bench: Bench) -> dict[str, str]:
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
