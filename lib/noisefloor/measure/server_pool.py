"""The servers of a campaign: copies of loaded ones, new for every block."""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from noisefloor.measure.tools import NotHere
from noisefloor.model import Arm, Study, Workload
from noisefloor.servers.server import Rows, Server, ServerError
from noisefloor.servers.throttle import Throttle


class ServerPool:
    """The servers that a block measures on: one (switched) or two (side by side); and what a study's
    tools keep between runs (archives, keys, clients), here nothing. `address`: of a Dask cluster."""

    tcp = False  # whether the servers listen on an address
    copies = 0  # data directories that runs need room for beside those of the measured servers

    def __init__(
        self, folder: Path, templates: Mapping[str, Server], study: Study, address: str = ""
    ) -> None:
        self.folder, self.templates, self.study, self.address = folder, templates, study, address
        self.servers: list[Server] = []
        self.extra: dict[str, Server] = {}  # by arm, those that arms have for themselves
        self._slow: dict[subprocess.Popen[bytes] | None, Throttle] = {}  # by process of a server
        self._count = 0

    def configure(self, server: Server) -> None:
        """Give a fresh server what it needs before its start. Raises ServerError."""

    def prebuild(self) -> None:
        """Make what takes long, on the running servers, before the clock starts."""

    def fact(self, name: str) -> Rows:
        """Facts that are measured once a campaign, a row each."""
        raise KeyError(name)

    def ready(self, arm: Arm, workload: Workload) -> None:
        """Make sure that the arm and the workload can be measured here. Raises NotHere."""

    def server(self, arm: Arm, workload: Workload) -> Server | None:
        """Their own server, started when a block first needs it; None: one of the block's."""
        return None

    def end_block(self) -> None:
        """Removes what belongs to a block; the next one makes it again."""

    def discard(self) -> None:
        """End and remove everything that is kept between runs."""
        self.end_block()

    def new(self, name: str) -> Path:
        """A new path, for a server or a temporary file."""
        self._count += 1
        return self.folder / f"{name}{self._count}"

    @contextlib.contextmanager
    def place(self, name: str) -> Iterator[Path]:
        """A temporary folder."""
        made = tempfile.TemporaryDirectory("", f"{name}-", self.folder, ignore_cleanup_errors=True)
        with made as folder:
            yield Path(folder)

    def fresh(self, arm: Arm, **settings: object) -> Server:
        """A stopped server with a copy of the arm's data; with more `settings` also on TCP."""
        template = self.templates.get(arm.name) or self.templates[""]
        given, tcp = {**arm.settings, **settings}, bool(settings) or self.tcp
        server = template.copy(self.new("s"), given, tcp=tcp, environment=arm.environment)
        self.configure(server)
        return server

    def server_of(self, arm: Arm, slot: int, workload: Workload) -> Server:
        """The server that an arm is measured on."""
        server = self.server(arm, workload)
        return server or self.servers[min(slot, len(self.servers) - 1)]

    def idle(self, *active: Server | None) -> dict[str, Server]:
        """Servers that run but are not being measured."""
        up = [s for s in (*self.servers, *self.extra.values()) if s.process and s not in active]
        return {f"idle{i}": s for i, s in enumerate(up)}

    def throttle(self, server: Server, workload: Workload | None = None) -> None:
        """Limit the server's disk as the workload says; None lifts the limit. Raises NotHere."""
        slow = self._slow.get(server.process)
        if workload and not slow:
            try:
                slow = self._slow[server.process] = Throttle(server.datadir, server.pid)
            except ServerError as e:
                raise NotHere(workload.name, str(e)) from None
        if slow:
            slow.limit(*((workload.writes_per_s, workload.reads_per_s) if workload else ()))

    def close(self, *, keep: bool = False) -> None:
        """Lift all limits, `discard`, remove the servers; with `keep` only lift and `end_block`."""
        for slow in self._slow.values():
            slow.remove()
        self._slow = {}
        self.end_block() if keep else self.discard()
        if not keep:
            for s in self.servers:
                s.remove()
            self.servers = []


@contextlib.contextmanager
def frozen(servers: Iterable[Server]) -> Iterator[None]:
    """Stop the processes of these servers (SIGSTOP) until the with block ends."""
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
