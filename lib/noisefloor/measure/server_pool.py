"""The servers of a campaign: copies of loaded ones, new for every block."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from noisefloor.measure import backup, clients, connections, replication, tools
from noisefloor.model import Arm, Study, Workload
from noisefloor.servers.server import Server, ServerError
from noisefloor.servers.throttle import Throttle

_FIXTURES: dict[str, type[tools.Fixtures]] = {
    "": tools.Fixtures,
    "backup": backup.BackupFixtures,
    "connections": connections.ConnectionFixtures,
    "clients": clients.ClientFixtures,
    "replication": replication.ReplicationFixtures,
}


class ServerPool:
    """The servers that a block measures on: one (switched) or two (side by side). `address`: of
    the cluster whose workers are the clients."""

    def __init__(
        self, folder: Path, templates: Mapping[str, Server], study: Study, address: str = ""
    ) -> None:
        self.folder, self.templates, self.address = folder, templates, address
        self.fixtures: Any = _FIXTURES[study.kit](self, study)
        self.servers: list[Server] = []
        self._slow: dict[subprocess.Popen[bytes] | None, Throttle] = {}  # by process of a server
        self._count = 0

    def new(self, name: str) -> Path:
        """A path that is not taken, for a server or what is needed for a moment."""
        self._count += 1
        return self.folder / f"{name}{self._count}"

    @contextlib.contextmanager
    def place(self, name: str) -> Iterator[Path]:
        """A folder for what is needed for a moment."""
        folder = self.new(f"{name}-")
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def fresh(self, arm: Arm, **settings: object) -> Server:
        """A stopped copy of the arm's data directory."""
        template = self.templates.get(arm.name) or self.templates[""]
        given, tcp = {**arm.settings, **settings}, bool(settings) or self.fixtures.tcp
        server = template.copy(self.new("s"), given, tcp=tcp, environment=arm.environment)
        self.fixtures.configure(server)
        return server

    def server_of(self, arm: Arm, slot: int, workload: Workload) -> Server:
        """The server that an arm is measured on."""
        server = self.fixtures.server(arm, workload)
        return server or self.servers[min(slot, len(self.servers) - 1)]

    def idle(self, *active: Server | None) -> dict[str, Server]:
        """Servers that run but are not being measured."""
        up = [s for s in self.servers if s.process and s not in active]
        return {f"idle{i}": s for i, s in enumerate(up)}

    def throttle(self, server: Server, workload: Workload | None = None) -> None:
        """Limit the server's disk as the workload says; None lifts the limit. Raises NotHere."""
        slow = self._slow.get(server.process)
        if workload and not slow:
            try:
                slow = self._slow[server.process] = Throttle(server.datadir, server.pid)
            except ServerError as e:
                raise tools.NotHere(workload.name, str(e)) from None
        if slow:
            slow.limit(*((workload.writes_per_s, workload.reads_per_s) if workload else ()))

    def close(self, *, keep: bool = False) -> None:
        """End the measured servers unless `keep`."""
        for slow in self._slow.values():
            slow.remove()
        self._slow = {}
        self.fixtures.end_block() if keep else self.fixtures.close()
        if not keep:
            for s in self.servers:
                s.remove()
            self.servers = []


@contextlib.contextmanager
def frozen(servers: Iterable[Server]) -> Iterator[None]:
    """Nothing of these servers runs meanwhile; they write later what they have still to write."""
    stopped: list[int] = []
    try:
        for s in servers:
            stopped.append(s.pid)
            os.kill(s.pid, signal.SIGSTOP)
        yield
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
