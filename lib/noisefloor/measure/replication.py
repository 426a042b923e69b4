"""Replicas that catch up: a source and its replica under each arm, both at the same time."""

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from noisefloor.measure import child, tools, workloads
from noisefloor.measure.child import ToolError, last_words
from noisefloor.measure.server_pool import ServerPool
from noisefloor.measure.tools import Slice
from noisefloor.model import Arm, Workload
from noisefloor.servers import evidence, innodb, prebuilt
from noisefloor.servers.sandbox import looks
from noisefloor.servers.server import Server

_LOADERS = 16  # threads that make the backlog
_LOOK_S = 0.5  # between two looks at how far a replica is
_SOURCE_ID, _REPLICA_ID = "11", "12"
# nothing is measured while the backlog is made
_FAST = {"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "2"}


class ReplicationPool(ServerPool):
    """Also keeps a source with its backlog for each arm. The servers of a block are the replicas: each
    has the data from before the backlog, and catches up once."""

    tcp = True
    copies = 4  # a backlog and a running source for each arm

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.backlogs: dict[str, Server] = {}
        self.used: set[int] = set()  # processes of replicas that have caught up

    def configure(self, server: Server) -> None:
        """Give a replica its server_id, and do not let replication start with the server."""
        server.settings = {"server_id": _REPLICA_ID, "skip_replica_start": "ON"} | server.settings

    def ready(self, arm: Arm, workload: Workload) -> None:
        """Make the backlogs of the baseline and the arm, if missing. Raises ToolError."""
        for side in (self.study.baseline, arm):
            if side.name not in self.backlogs:
                self.backlogs[side.name] = self._backlog(side, workload)

    def _backlog(self, arm: Arm, workload: Workload) -> Server:
        """A stopped server whose binary logs hold the workload's transactions, written under
        `arm`."""
        template = self.templates.get(arm.name) or self.templates[""]
        made = template.sibling(self.new("backlog"), {"server_id": _SOURCE_ID}, tcp=True)
        variables = dict(workload.settings) | dict(arm.switch)

        def make() -> None:
            template.copy_to(made)
            with made:
                made.only(variables | _FAST)
                run = Slice(self.study, made, arm, workload, _LOADERS, 0, made.folder)
                argv = tools.load_argv(run, 0, events=workload.events)
                code, text, _ = child.run(argv, workload.events / 50 + child.PATIENCE_S)
                if code:
                    raise ToolError(f"the backlog was not made: {last_words(text)}")
                innodb.shrink_redo(made)
                made.stop()

        content = [template.folder.name, workload.script, workload.events, *variables.items()]
        prebuilt.take(made, [*content, made.engine.command, self.study.profile.rows], make)
        return made

    def _fresh(self, run: Slice) -> Server:
        """The replica of a run's block; a new one if it has caught up already."""
        if run.server.pid in self.used:
            slot = run.facts["slot"]
            run.server.remove()
            run.server = self.servers[slot] = self.fresh(run.arm)
            run.server.start()
            run.server.only(run.variables)
        self.used.add(run.server.pid)
        return run.server


def catch_up(runs: list[Slice]) -> list[dict[str, Any]]:
    """Let both replicas apply their source's backlog at the same time, until the first has all of
    it. Each result has the transactions `applied` by then; ``lag.csv`` has how many the replica was
    behind over time. Raises ToolError, EvidenceError."""
    with ExitStack() as ends:
        sources = []
        for run in runs:
            source = run.pool.backlogs[run.arm.name].copy(run.pool.new("source"))
            ends.callback(source.remove)
            source.start()
            source.only(run.variables)
            run.replica = run.pool._fresh(run)
            _follow(run.replica, source)
            sources.append(source)
        wanted = [_executed(source) for source in sources]
        pairs = [{"replica": r.replica, "source": s} for r, s in zip(runs, sources, strict=True)]
        stolen, before = tools.steal(), [tools.meter(p) for p in pairs]
        began = time.monotonic()
        for run in runs:
            run.replica.query("START REPLICA")
        looked = list(_looks(runs, wanted, began))
        took = time.monotonic() - began
        after = [tools.meter(p) for p in pairs]
        taken = tools.steal() - stolen
        results = []
        for n, (run, source) in enumerate(zip(runs, sources, strict=True)):
            rows = [(t, wanted[n] - applied[n]) for t, applied in looked]
            table = "".join(f"{t:.3f},{behind}\n" for t, behind in rows)
            (run.folder / "lag.csv").write_text(f"t_s,behind\n{table}")
            state = run.arm.expect["binlog"]
            proof = evidence.collect(run.replica, {"relay log": state})["checks"]
            log = evidence.check("source's log", *_largest_log(source, state))
            run.replica.query("STOP REPLICA")
            argv = tools.load_argv(run, 0, threads=_LOADERS, events=run.workload.events)
            results.append(
                {
                    "argv": workloads.portable(argv),
                    "exit_code": 0,
                    "usage": tools.used(before[n], after[n]),
                    "steal_s": round(taken, 3),
                    "slice_s": round(took, 4),
                    "apply_s": round(took, 4),
                    "applied": looked[-1][1][n],
                    "backlog": wanted[n],
                    "replica_evidence": [*proof, *evidence.agree([log])],
                }
            )
        return results


def _looks(runs: list[Slice], wanted: list[int], began: float) -> Iterator[tuple[float, list[int]]]:
    """(seconds, transactions that each replica has applied), until one has all. Raises ToolError
    if replication stopped, or no replica has all in time."""
    limit_s = max(w / 20 for w in wanted) + child.PATIENCE_S
    for _ in looks(limit_s, _LOOK_S):
        applied = [_executed(run.replica) for run in runs]
        yield time.monotonic() - began, applied
        if any(a >= w for a, w in zip(applied, wanted, strict=True)):
            return
        for run in runs:
            _works(run.replica)
    raise ToolError(f"no replica caught up within {limit_s:g} s")


def _executed(server: Server) -> int:
    """How many transactions a server has executed."""
    (row,) = server.query("SELECT @@global.gtid_executed AS g")
    spans = re.findall(r":(\d+)(?:-(\d+))?(?=[:,\s]|$)", row["g"])
    return sum(int(last or first) - int(first) + 1 for first, last in spans)


def _works(replica: Server) -> None:
    """Raise ToolError if the replica's receiver or applier has an error, or the applier is off."""
    failed = replica.query(
        "SELECT LAST_ERROR_MESSAGE AS e FROM performance_schema.replication_applier_status_by_worker"
        " WHERE LAST_ERROR_NUMBER <> 0 UNION ALL SELECT LAST_ERROR_MESSAGE FROM"
        " performance_schema.replication_connection_status WHERE LAST_ERROR_NUMBER <> 0"
    )
    (state,) = replica.query(
        "SELECT SERVICE_STATE AS s FROM performance_schema.replication_applier_status"
    )
    if failed or state["s"] != "ON":
        raise ToolError(f"the replica stopped: {failed[0]['e'] if failed else 'it was told to'}")


def _largest_log(source: Server, expected: str) -> tuple[str, str, str]:
    """(check, expected, found) of the source's largest binary log, which has the backlog."""
    log: Path = max(source.datadir.glob("binlog.[0-9]*"), key=lambda p: p.stat().st_size)
    ((how, state),) = evidence.magic("first four bytes on disk", log.read_bytes()[:4]).items()
    return how, expected, state


def _follow(replica: Server, source: Server) -> None:
    """Make `replica` ready to follow `source` over loopback TCP, with a user of its own."""
    password = secrets.token_urlsafe(18)
    source.script(
        f"CREATE USER replica@'127.0.0.1' IDENTIFIED BY '{password}'",
        "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'",
    )
    replica.query(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=:port,"
        " SOURCE_USER='replica', SOURCE_PASSWORD=:password, SOURCE_AUTO_POSITION=1,"
        " GET_SOURCE_PUBLIC_KEY=1",
        port=source.port,
        password=password,
    )
