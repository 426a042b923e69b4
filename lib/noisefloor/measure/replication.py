"""Replicas that catch up: a source and its replica under each arm, both replicas at the same time."""

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from noisefloor.measure import child, tools, workloads
from noisefloor.measure.child import ToolError, last_words, run
from noisefloor.measure.tools import Slice
from noisefloor.model import Arm, Workload
from noisefloor.servers import evidence, kept
from noisefloor.servers.server import Server
from noisefloor.servers.workshop import looks

LOADERS = 16  # threads that make the backlog
LOOK_S = 0.5  # between two looks at how far a replica is
SOURCE_ID, REPLICA_ID = "11", "12"
# nothing is measured while the backlog is made
_FAST = {"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "2"}


class Kit(tools.Kit):
    """Keeps a source with its backlog for each arm. The servers of a block are the replicas: each has
    the data from before the backlog, and catches up once."""

    tcp = True
    copies = 4  # a backlog and a running source for each arm

    def __init__(self, bench, study):
        super().__init__(bench, study)
        self.backlogs: dict[str, Server] = {}
        self.used: set[int] = set()  # processes of replicas that have caught up

    def dress(self, server: Server) -> None:
        """A replica has a number of its own, and waits until it is told to begin."""
        server.settings = {"server_id": REPLICA_ID, "skip_replica_start": "ON"} | server.settings

    def ready(self, arm: Arm, workload: Workload) -> None:
        """Make the backlogs that are missing."""
        for one in (self.study.baseline, arm):
            if one.name not in self.backlogs:
                self.backlogs[one.name] = self._backlog(one, workload)

    def _backlog(self, arm: Arm, workload: Workload) -> Server:
        """A stopped server whose binary logs hold the workload's transactions, written under `arm`."""
        template = self.bench.templates.get(arm.name) or self.bench.templates[""]
        name = self.bench.new("backlog").name
        made = template.sibling(self.bench.folder / name, {"server_id": SOURCE_ID}, tcp=True)
        variables = dict(workload.settings) | dict(arm.switch)

        def make() -> None:
            template.copy_to(made)
            with made:
                made.only(variables | _FAST)
                s = Slice(self.study, made, arm, workload, LOADERS, 0, made.folder)
                argv = tools.load_argv(s, 0, events=workload.events)
                code, text, _ = run(argv, workload.events / 50 + child.PATIENCE_S)
                if code:
                    raise ToolError(f"the backlog was not made: {last_words(text)}")
                made.shrink_redo()
                made.stop()

        content = [template.folder.name, workload.script, workload.events, *variables.items()]
        kept.taken(made, [*content, made.engine.command, self.study.profile.rows], make)
        return made

    def source(self, arm: Arm) -> Server:
        """A running source of `arm`, from a copy of its backlog."""
        return self.backlogs[arm.name].copy(self.bench.new("source"))

    def fresh(self, s: Slice) -> Server:
        """The replica of a run's block; a new one where it has caught up already."""
        if s.server.pid in self.used:
            slot = s.facts["slot"]
            s.server.remove()
            s.server = self.bench.servers[slot] = self.bench.fresh(s.arm)
            s.server.start()
            s.server.only(s.variables)
        self.used.add(s.server.pid)
        return s.server


def catch_up(runs: list[Slice]) -> list[dict]:
    """Both replicas apply their source's backlog at the same time, until the first has all of it.
    What each has applied by then is compared, and how far it was behind over time (``lag.csv``)."""
    with ExitStack() as ends:
        sources = []
        for s in runs:
            source = s.kit.source(s.arm)
            ends.callback(source.remove)
            source.start()
            source.only(s.variables)
            s.replica = s.kit.fresh(s)
            follow(s.replica, source)
            sources.append(source)
        wanted = [_executed(source) for source in sources]
        pairs = [{"replica": s.replica, "source": x} for s, x in zip(runs, sources, strict=True)]
        stolen, before = tools.steal(), [tools.meter(p) for p in pairs]
        began = time.monotonic()
        for s in runs:
            s.replica.query("START REPLICA")
        looked = list(_looks(runs, wanted, began))
        took = time.monotonic() - began
        after = [tools.meter(p) for p in pairs]
        taken = tools.steal() - stolen
        found = []
        for n, (s, source) in enumerate(zip(runs, sources, strict=True)):
            rows = [(t, wanted[n] - applied[n]) for t, applied in looked]
            table = "".join(f"{t:.3f},{behind}\n" for t, behind in rows)
            (s.folder / "lag.csv").write_text(f"t_s,behind\n{table}")
            state = s.arm.expect["binlog"]
            proof = evidence.collect(s.replica, {"relay log": state})["checks"]
            log = evidence.check("source's log", *_largest_log(source, state))
            s.replica.query("STOP REPLICA")
            argv = workloads.shown(tools.load_argv(s, 0, threads=LOADERS, events=s.workload.events))
            found.append(
                {
                    "argv": argv,
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
        return found


def _looks(runs, wanted: list[int], began: float) -> Iterator[tuple[float, list[int]]]:
    """(seconds, transactions that each replica has applied), until one has all. Raises ToolError where
    an applier stopped, or nothing moves."""
    limit_s = max(w / 20 for w in wanted) + child.PATIENCE_S
    for _ in looks(limit_s, LOOK_S):
        applied = [_executed(s.replica) for s in runs]
        yield time.monotonic() - began, applied
        if any(a >= w for a, w in zip(applied, wanted, strict=True)):
            return
        for s in runs:
            _works(s.replica)
    raise ToolError(f"no replica caught up within {limit_s:g} s")


def _executed(server: Server) -> int:
    """How many transactions a server has executed."""
    (row,) = server.query("SELECT @@global.gtid_executed AS g")
    spans = re.findall(r":(\d+)(?:-(\d+))?(?=[:,\s]|$)", row["g"])
    return sum(int(last or first) - int(first) + 1 for first, last in spans)


def _works(replica: Server) -> None:
    """Raise ToolError where the replica's receiver or applier has stopped."""
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
    """(check, expected, found) of the source's largest binary log, which holds the backlog."""
    log: Path = max(source.datadir.glob("binlog.[0-9]*"), key=lambda p: p.stat().st_size)
    ((how, found),) = evidence.magic("first four bytes on disk", log.read_bytes()[:4]).items()
    return how, expected, found


def follow(replica: Server, source: Server) -> None:
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
