"""A server that Noisefloor did not start: measured as a guest, its settings restored.

It gets SHOW, SELECT @@…, SET GLOBAL, and statements in the schema that was created; nothing is
restarted. The old value of a variable is in the journal on disk before it is set; after a kill the
next command restores it.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import socket as sockets
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from noisefloor import paths
from noisefloor.model import StudyError
from noisefloor.servers import kinds, session
from noisefloor.servers.address import Address, address
from noisefloor.servers.engines import Engine
from noisefloor.servers.sandbox import ServerError, clock, secret_file
from noisefloor.servers.session import SCHEMA, Refused, Rows, Session, SettingError

# what makes measuring unsafe or meaningless, by the name that allows it
ALLOWED = ("replica", "busy", "disk", "read-only")
LOOK_S = 2.0  # seconds that the server is watched before it counts as idle
_BUSY_THREADS = 2  # threads of others that run
_BUSY_TPS = 5  # transactions a second of others
_BUSY_QPS = 50  # statements a second of others
FREE_B = 5 << 30  # of disk: binary logs of the measurement stay on the server
_DUMPS = {"Binlog Dump", "Binlog Dump GTID"}  # commands of a replica's connection
_RIGHTS = "docs/own-server.md, Minimum privileges"


class Journal:
    """What must be restored on a server; it is on disk before anything is changed. `url` (without a
    password), `schema` (the token of the one created, "" for none), `marked` (whether the schema has
    its token yet), `variables` (name -> old value). Raises ServerError if the file is no journal."""

    def __init__(self, path: Path):
        self.path = path
        self.url, self.schema, self.marked = "", "", True
        self.variables: dict[str, object] = {}
        if not path.exists():
            return
        try:
            stored = json.loads(path.read_text())
            self.url, self.schema = str(stored["url"]), str(stored["schema"])
            self.variables = dict(stored["variables"])
            self.marked = bool(stored.get("marked", True))
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise ServerError(
                f"{paths.relative(path)} says what a killed command left changed on a server, and"
                f" cannot be read ({e}); it was left as it is"
            ) from None

    def write(self) -> None:
        """Write the whole file; it is on disk when this returns."""
        names = ("url", "schema", "marked", "variables")
        text = json.dumps({n: getattr(self, n) for n in names})
        partial = secret_file(self.path.with_suffix(".partial"), text)
        _sync(partial)
        partial.replace(self.path)
        _sync(self.path.parent)

    def remove(self) -> None:
        """Delete the file: nothing is left to restore."""
        self.variables, self.schema = {}, ""
        self.path.unlink(missing_ok=True)
        _sync(self.path.parent)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def pending() -> list[Path]:
    """Journals of servers on which a killed command left something."""
    return sorted((paths.root() / ".servers").glob("*.journal"))


class Guest(Session):
    """A connection to a server that is not ours, with the methods of a `Server` that a measurement
    needs; it is never restarted.

    `say`, for a dry run: it gets every statement, and those that change something are not sent.
    `near`: whether the server is on this machine. Raises ServerError if the server does not answer."""

    datadir = process = None  # a `Server` has them
    settings: Mapping[str, str] = {}
    _pooling: Mapping[str, Any] = {
        "pool_pre_ping": True,  # its wait_timeout may be shorter than a slice
        "pool_reset_on_return": None,
        "skip_autocommit_rollback": True,  # rollbacks would look like load
    }

    def __init__(self, where: Address, folder: Path, say: Callable[[str], None] | None = None):
        super().__init__()
        self.address, self.folder, self.say = where, Path(folder), say
        place: dict[str, object] = {"host": where.ip, "port": where.port}
        place = {"unix_socket": where.socket} if where.socket else place
        self._login = {**place, "user": where.user, "passwd": where.password, "autocommit": True}
        self._pid = 0
        self._shown: set[str] = set()  # statements of a dry run that only read
        self.allow: tuple[str, ...] = ()
        try:
            row = self.query(
                "SELECT VERSION() AS version, @@hostname AS host, @@port AS port,"
                " @@datadir AS datadir, @@log_bin_basename AS logs"
            )[0]
        except ServerError as e:
            raise ServerError(f"{where}: {e}; nothing was changed") from None
        self.host, data = str(row["host"]), str(row["datadir"])
        self._places = {data, os.path.dirname(os.path.join(data, row["logs"] or ""))}
        loopback = re.fullmatch(r"127\.[\d.]+|::1", where.ip)  # a port of it may be forwarded
        self.near = bool(where.socket or (loopback and self.host == os.uname().nodename))
        version = str(row["version"])
        name = f"{row['host']} {row['port']} {row['datadir']}"
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        self.engine = Engine(
            kind=kinds.printing(version).NAME,
            version=re.findall(r"^[\d.]+", version)[0],
            command=(),
            origin=f"guest {digest}",
        )
        self.journal = Journal(paths.root() / ".servers" / f"{digest}.journal")
        self.journal.url = where.url

    # -- statements -----------------------------------------------------------------------------

    def query(self, statement: str, **values: object) -> Rows:
        """As `Session.query`; a dry run also prints the statement, once."""
        if self.say and (line := _as_sent(statement, values)) not in self._shown:
            self._shown.add(line)
            self.say(f"{line}  -- reads: sent now, too")
        return super().query(statement, **values)

    def change(self, statement: str, **values: object) -> None:
        """Send a statement that changes something; a dry run only prints it."""
        if self.say:
            self.say(_as_sent(statement, values))
        else:
            super().query(statement, **values)

    def nameless(self, text: str) -> str:
        """`text` without the names of the server and of who asks."""
        a = self.address
        for name in filter(None, (a.socket, a.file, a.host, self.host, a.user)):
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "<server>", text)
        return text

    def purge(self) -> None:
        """Remove nothing: the logs are its owner's. Raises ServerError when its disk fills."""
        if "disk" not in self.allow and (why := self._disk()):
            raise ServerError(
                f"{self.address}: {why}; measuring ended, whole runs are kept, --allow disk goes on"
            )

    # -- variables ------------------------------------------------------------------------------

    def _raw(self, name: str) -> object:
        """A global variable as the server has it: a number, a text or None."""
        value = self.query(f"SELECT @@GLOBAL.{session._identifier(name)} AS v")[0]["v"]
        if value is None or isinstance(value, int | float):
            return value
        return float(value) if isinstance(value, Decimal) else str(value)

    def set(self, settings: Mapping[str, object]) -> None:
        """As `Session.set`. The old values are written to the journal first; those of variables that
        the server changes along with these, right afterwards."""
        new = [n for n in settings if n not in self.journal.variables]
        for name in new:
            try:
                self.journal.variables[name] = self._raw(name)
            except ServerError as e:
                raise SettingError(f"{name}: {e}") from None
        if new and not self.say:
            self.journal.write()
        try:
            super().set(settings)
        finally:
            if (more := self._along.keys() - self.journal.variables.keys()) and not self.say:
                self.journal.variables |= {n: self._typed(n, self._along[n]) for n in more}
                self.journal.write()

    def _typed(self, name: str, text: str) -> object:
        """The value of a variable that SHOW gave as `text`, in the type of `_raw`."""
        value = session._literal(text)
        is_switch = isinstance(value, str) and isinstance(self._raw(name), int)
        return int(session._value(text)) if is_switch else value

    def check(self, settings: Mapping[str, object]) -> None:
        """As `Session.check`; not in a dry run, which sets nothing."""
        if not self.say:
            super().check(settings)

    # -- what is used ---------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The server's process, if it is behind a socket and this machine sees it; else 0."""
        if not self.address.socket:
            return 0
        with contextlib.suppress(OSError), sockets.socket(sockets.AF_UNIX) as end:
            end.connect(self.address.socket)
            peer = end.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, struct.calcsize("3i"))
            pid: int = struct.unpack("3i", peer)[0]
            return pid if pid > 0 and clock(pid) else 0
        return 0

    def usage(self) -> dict[str, float]:
        """CPU seconds of the server's process (`cpu_s`), where this machine sees it; else empty."""
        return {"cpu_s": clock(self._pid)} if self._pid else {}

    # -- may it be measured? --------------------------------------------------------------------

    def _objections(self, threads: int) -> dict[str, str]:
        """Name in ALLOWED -> what makes measuring unsafe or meaningless. Raises ServerError if rights
        to see that are missing, or `threads` would take connections that others need."""
        try:
            objections = {"replica": self._replication(), "read-only": self._read_only()}
        except Refused as e:
            raise ServerError(
                f"{self.address} does not show whether it can be measured ({e}); the rights that"
                f" are needed: {_RIGHTS}; nothing was changed"
            ) from None
        objections |= {"disk": self._disk(), "busy": self._busy()}
        most = int(self.variables()["max_connections"])
        used = int(self.status("Threads_connected")["Threads_connected"])
        if threads > 0.8 * (most - used):
            raise ServerError(
                f"{self.address} takes {most} connections, {used} are used: {threads} threads would"
                " leave too few to others; nothing was changed"
            )
        return {name: why for name, why in objections.items() if why}

    def _replication(self) -> str:
        if self.query(self.kind.REPLICA):
            return "it is a replica: what is measured competes with its applier"
        self.query("SHOW ENGINE INNODB STATUS")  # without PROCESS only one's own threads are listed
        if _DUMPS & {r["Command"] for r in self.query("SHOW PROCESSLIST")}:
            return "it has a replica, which would have to apply all that is measured"
        counters = self.status("wsrep_cluster_size")
        group = self.query("SHOW GLOBAL VARIABLES LIKE 'group_replication_group_name'")
        if counters.get("wsrep_cluster_size") or any(r["Value"] for r in group):
            return "it is a member of a cluster, whose others would apply all that is measured"
        return ""

    def _read_only(self) -> str:
        values = self.variables()
        names = ("read_only", "super_read_only", "innodb_read_only", "offline_mode")
        on = [n for n in names if values.get(n, "OFF") not in ("OFF", "0", "NO_LOCK")]
        return f"it is read-only ({', '.join(on)})" if on else ""

    def _disk(self) -> str:
        writes = "what is measured writes tables and binary logs"
        if not self.near or not all(map(os.path.isdir, self._places)):
            return f"how full its disk is cannot be seen from here, and {writes}"
        if (free := min(shutil.disk_usage(p).free for p in self._places)) >= FREE_B:
            return ""
        least = f"{free / 1e9:.1f} GB free, below {FREE_B / 1e9:.1f} GB"
        return f"its disk has {least}, and {writes}"

    def _busy(self) -> str:
        names = ("Com_commit", "Com_rollback", "Questions")
        before, began = self.status(*names), time.monotonic()
        running = []
        while time.monotonic() - began < LOOK_S:
            time.sleep(LOOK_S / 10)
            running.append(self.status("Threads_running")["Threads_running"] - 1)
        took, after = time.monotonic() - began, self.status(*names)
        rate = {n: (after[n] - before[n]) / took for n in names}
        tps = rate["Com_commit"] + rate["Com_rollback"]
        qps = rate["Questions"] - (len(running) + 1) / took  # without our own
        threads = sorted(running)[len(running) // 2]
        if threads > _BUSY_THREADS or tps > _BUSY_TPS or qps > _BUSY_QPS:
            return (
                f"it is busy ({threads:.0f} threads of others run, {tps:.0f} transactions and"
                f" {qps:.0f} statements a second; idle is up to {_BUSY_THREADS}, {_BUSY_TPS} and"
                f" {_BUSY_QPS})"
            )
        return ""

    # -- the schema -----------------------------------------------------------------------------

    def move_in(self) -> None:
        """Create the schema, and the option file for sysbench. Raises ServerError when a schema of
        that name is there."""
        if self.query(f"SHOW DATABASES LIKE '{SCHEMA}'") and not (self.say and self._ours()):
            raise ServerError(
                f"there is a schema called {SCHEMA} on {self.address}, and nothing says that this"
                " project created it: it is left alone, and nothing is measured until it has"
                " another name or is gone; nothing was changed"
            )
        self.journal.schema, self.journal.marked = secrets.token_hex(8), False
        if not self.say:
            self.journal.write()
        try:
            self.change(f"CREATE DATABASE {SCHEMA}")
        except Refused:
            self.journal.schema = ""  # somebody else's may be there since
            raise
        self.change(f"CREATE TABLE {SCHEMA}.{self._token} (id INT PRIMARY KEY)")
        self.journal.marked = True
        if not self.say:
            self.journal.write()
        a = self.address
        self.folder.mkdir(mode=0o700, exist_ok=True)
        port = None if a.socket else a.port
        text = session.option_file(a.user, a.password, Path(a.socket), port, a.ip)
        secret_file(self.folder / "sysbench.cnf", text)

    @property
    def _token(self) -> str:
        """The table that says whose the schema is."""
        return f"owner_{self.journal.schema}"

    def _put_back(self) -> list[str]:
        """Restore every variable and drop the schema, as the journal says; what was done, in words.
        Raises ServerError when something is left: the journal keeps it."""
        done: dict[str, None] = {}
        try:
            # one may be the other's limit: what the first pass cannot set, the second one can
            for name, value in 2 * list(reversed(self.journal.variables.items())):
                words = f"{name} is {value} again"
                if words not in done if self.say else self._raw(name) != value:
                    self.change(f"SET GLOBAL {session._identifier(name)} = :value", value=value)
                    done[words] = None
            for name, value in self.journal.variables.items():
                if not self.say and (now := self._raw(name)) != value:
                    raise ServerError(f"{name} is {now}, it was {value}")
            if self.journal.schema and (self._ours() or self.say):
                self.change(f"DROP DATABASE {SCHEMA}")
                done[f"the schema {SCHEMA} is dropped"] = None
        except ServerError as e:
            left = ", ".join(f"{n}={v}" for n, v in self.journal.variables.items())
            raise ServerError(
                f"not all was put back on {self.address} ({e}): it had {left or 'no such schema'};"
                " the next command that measures tries again"
            ) from None
        if not self.say:
            self.journal.remove()
        self._before, self._along = {}, {}
        return list(done)

    def _ours(self) -> bool:
        """Whether the schema is the one in the journal: it contains the journal's token, or it is
        empty because a command was killed before it wrote the token."""
        if not self.query(f"SHOW DATABASES LIKE '{SCHEMA}'"):
            return False
        tables = {next(iter(r.values())) for r in self.query(f"SHOW TABLES FROM {SCHEMA}")}
        marked = self._token in tables if tables else not self.journal.marked
        return bool(self.journal.schema) and marked


def _as_sent(statement: str, values: Mapping[str, object]) -> str:
    """A statement as it is sent."""
    sent = sa.text(statement).bindparams(**values)
    return f"{sent.compile(compile_kwargs={'literal_binds': True})};"


@contextlib.contextmanager
def visit(
    where: Address,
    folder: Path,
    threads: int,
    allow: Iterable[str] = (),
    say: Callable[[str], None] = lambda _: None,
    dry: Callable[[str], None] | None = None,
) -> Iterator[Guest]:
    """A guest on the server at `where`. What a killed command left there is restored first, and all
    is put back at the end, also after an error. `threads`: the most clients at once; `dry`: the
    guest's `say`. Raises ServerError if measuring is unsafe or meaningless, unless in `allow`."""
    guest = Guest(where, folder, dry)
    for done in guest._put_back() if guest.journal.path.exists() else []:
        say(f"{where}: a command that was killed left something; {done}")
    for name, why in guest._objections(threads).items():
        if name not in allow:
            raise ServerError(
                f"{where}: {why}; --allow {name} measures all the same; nothing was changed"
            )
        say(f"{where}: {why}; allowed by name")
    guest._pid, guest.allow = guest.pid, tuple(allow)
    try:
        yield guest
    finally:
        guest._put_back()
        guest._forget()


def restore_others(but: str, say: Callable[[str], None]) -> None:
    """Put back what killed commands left on servers other than `but` (a URL), if they can be reached
    by the journal's URL. `say` takes what is restored and what is not."""
    for path in pending():
        try:
            journal = Journal(path)
            if journal.url == but:
                continue
            where = address(journal.url)
            guest = Guest(where, paths.root())
            if guest.journal.path != path:
                raise ServerError("another server answers there now")
            for done in guest._put_back():
                say(f"{where}: a command that was killed left something; {done}")
            guest._forget()
        except (ServerError, StudyError) as e:
            say(f"{e}; the next command with that server restores it")
