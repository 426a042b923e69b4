"""Load from several client hosts: one sysbench on every worker of a Dask cluster, started together.

What each of them prints is kept (``sysbench-1.txt`` …); `parse.together` makes one run of it. The
measuring user's password goes to the workers in a message, over a network only with TLS; a worker
keeps it in a private file while its sysbench runs. The servers listen at the address by which the
scheduler reaches this machine: loopback, unless the clients are elsewhere.
"""

import contextlib
import json
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from noisefloor.data import cluster
from noisefloor.data.tidy import CLIENTS
from noisefloor.measure import child, tools, workloads
from noisefloor.measure.server_pool import ServerPool
from noisefloor.model import StudyError, Workload
from noisefloor.servers.sandbox import secret_file
from noisefloor.servers.server import Server, ServerError
from noisefloor.servers.session import SCHEMA, option_file

_AHEAD_S = 0.3  # from the order to start until the start
_BACK_S = 20  # how long a client that was lost may be away
_LATE_S = 0.5  # after which a client does not start any more: it would load alone


def count(address: str) -> int:
    """How many clients a cluster has. Raises StudyError for what is no address, ServerError if the
    cluster cannot be used or its network is not encrypted."""
    with _connected(address) as client:
        return len(client.nthreads())


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Any]:
    try:
        if cluster.in_the_clear(address):
            raise ServerError(
                f"{address} is not on this machine and not encrypted, the server's password would "
                "cross the network in the clear; tls:// is needed; nothing was measured"
            )
        with cluster.connect(address) as client:
            yield client
    except cluster.Unreachable as e:
        raise (StudyError if e.code == 2 else ServerError)(e) from None


class _Hidden(str):
    """A text that no log shows: a worker logs the repr of a failed task's arguments."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."


class ClientPool(ServerPool):
    """Also keeps a campaign's clients: connected at the first load, left when the pool is discarded."""

    tcp = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.open = contextlib.ExitStack()
        self.client: Any = None  # of the cluster
        self.workers: list[str] = []
        self.clocks: list[tuple[float, float]] = []

    def configure(self, server: Server) -> None:
        """Let a fresh server listen at this machine's address on the way to the scheduler."""
        url = urlsplit(cluster.address(self.address))
        place = (url.hostname or "", url.port or 0)
        with socket.create_connection(place, cluster.PATIENCE_S) as seen:
            server.settings["bind_address"] = seen.getsockname()[0]

    def discard(self) -> None:
        """Leave the cluster; its workers stay."""
        self.open.close()
        self.client = None

    def _connect(self) -> None:
        wanted = self.study.workloads[0].clients
        self.client = self.open.enter_context(_connected(self.address))
        with contextlib.suppress(TimeoutError):  # another one takes the place of a dead one
            self.client.wait_for_workers(wanted, timeout=_BACK_S)
        self.workers = sorted(self.client.nthreads())[:wanted]
        if len(self.workers) < wanted:
            self.discard()
            raise ServerError(f"{len(self.workers)} of this campaign's {wanted} clients are there")
        self.clocks = [self._clock(w) for w in self.workers]

    def _clock(self, worker: str) -> tuple[float, float]:
        """(seconds of a round trip, seconds by which the worker's clock is ahead of ours), by the
        fastest of five round trips."""
        looks = []
        for _ in range(5):
            asked = time.time()
            (there,) = self.client.run(time.time, workers=[worker]).values()
            took = time.time() - asked
            looks.append((took, there - asked - took / 2))
        return min(looks)

    def load(self, run: tools.Slice, begun: Callable[[], None]) -> tuple[list[str], int, float]:
        """(argv of one client, exit code 0, CPU seconds of all clients). Texts and ``clients.json``
        go into the run's folder; `begun` is called when all have their connections. Raises
        ToolError when a client fails or is lost, ServerError when too few are there."""
        from distributed import Event, KilledWorker

        if self.client is None:
            self._connect()
        n, token, at = len(self.workers), secrets.token_hex(8), time.time() + _AHEAD_S
        options, study = _Hidden(_options(run.server)), run.study
        how: dict[str, Any] = {"tables": study.tables, "rows": study.profile.rows}
        how |= {"seconds": run.seconds, "options": run.arm.options}
        marks = [Event(f"noisefloor-{token}-{i}", client=self.client) for i in range(n)]
        waiting = []
        for i, (worker, (_, ahead)) in enumerate(zip(self.workers, self.clocks, strict=True)):
            part = how | {"threads": run.threads // n + (i < run.threads % n)}
            task = (_load, options, run.workload, part, at + ahead, marks[i].name)
            waiting.append(self.client.submit(*task, workers=[worker], pure=False, retries=0))
        try:
            until = time.monotonic() + 3 * run.seconds + 2 * child.PATIENCE_S
            for future, mark in zip(waiting, marks, strict=True):
                while not mark.wait(1) and not future.done():
                    self._all_there(until)
            begun()
            while left := [f for f in waiting if not f.done()]:
                self._all_there(until)
                with contextlib.suppress(TimeoutError):
                    left[0].exception(timeout=1)
            results = [f.result() for f in waiting]
        except (OSError, RuntimeError, CancelledError, TimeoutError, KilledWorker) as e:
            for future in waiting:
                future.cancel()
            self.discard()  # whoever is left is found anew
            raise child.ToolError(f"a client failed or was lost: {cluster.first(e)}") from None
        facts = []
        starts = [r["start"] - ahead for r, (_, ahead) in zip(results, self.clocks, strict=True)]
        both = zip(results, starts, self.clocks, strict=True)
        for i, (result, began, (took, _)) in enumerate(both, 1):
            (run.folder / f"sysbench-{i}.txt").write_text(result["text"])
            fact = {"start_s": round(began - min(starts), 4)}
            fact |= {k: result[k] for k in ("threads", "cpu_s", "exit_code")}
            facts.append(fact | {"clock_round_trip_s": round(took, 4)})
        (run.folder / CLIENTS).write_text(json.dumps(facts, indent=1) + "\n")
        if bad := next((r for r in results if r["exit_code"]), None):
            why = child.last_words(bad["text"])
            raise child.ToolError(f"a client ended with exit code {bad['exit_code']}: {why}")
        return results[0]["argv"], 0, round(sum(r["cpu_s"] for r in results), 3)

    def _all_there(self, until: float) -> None:
        """Raise OSError for a client that went away, TimeoutError after `until` (monotonic s)."""
        if time.monotonic() > until:
            raise TimeoutError("it hangs")
        there = self.client.nthreads()
        if gone := [i for i, w in enumerate(self.workers, 1) if w not in there]:
            raise OSError(f"client {gone[0]} went away")


def _options(server: Server) -> str:
    """Text of the measuring user's option file for TCP. Creates the user who may log in from any
    host, if it is not there yet."""
    secret, who = server.password, "noisefloor@'%'"
    if not server.query("SELECT 1 AS x FROM mysql.user WHERE user = 'noisefloor' AND host = '%'"):
        server.script(
            f"CREATE USER {who} IDENTIFIED BY '{secret}'", f"GRANT ALL ON {SCHEMA}.* TO {who}"
        )
    host = server.settings["bind_address"]
    return option_file("noisefloor", secret, server.socket, server.port, host)


def _load(
    options: str, workload: Workload, how: dict[str, Any], at: float, mark: str
) -> dict[str, Any]:
    """Runs on a worker: one sysbench, started at `at` (seconds of the worker's clock). options: text
    of its option file; how: keyword arguments of `workloads.sysbench_argv`; mark: a Dask event."""
    from distributed import Event, get_client

    began: list[float] = []

    def begun() -> None:
        began.append(time.time())
        event.set()

    event = Event(mark, client=get_client())
    with tempfile.TemporaryDirectory(prefix="noisefloor-client-") as folder:
        file = secret_file(Path(folder) / "sysbench.cnf", options)
        argv = workloads.sysbench_argv(workload, file, **how)
        if (late := time.time() - at) > _LATE_S:
            raise RuntimeError(f"the order to start came {late:.1f} s late")
        time.sleep(max(0.0, -late))
        code, text, cpu = child.run(argv, 3 * how["seconds"] + 60, None, begun)
    return {
        "argv": workloads.portable(argv),
        "exit_code": code,
        "text": text,
        "cpu_s": cpu,
        "threads": how["threads"],
        "start": began[0] if began else at,
    }
