"""Throwaway servers: start, stop, kill, copy; settings read back; the disk made slow on purpose.

The only module that speaks SQL to what is measured. A server lives in a private folder (0700),
listens on a unix socket, opens TCP on loopback only when asked, and dies with the process that
started it.
"""

import contextlib
import ctypes
import difflib
import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import socket as sockets
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import MySQLdb
import psutil
import sqlalchemy as sa

from . import paths
from .engines import Engine, label

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
# not variables of their own: checked in another way, or without an effect to read back
_NOT_READ_BACK = {"user", "skip_networking"}
_VOLATILE = re.compile(
    r"gtid_(executed|next|owned|purged|binlog_pos|binlog_state|current_pos|slave_pos|seq_no)"
    r"|last_gtid|timestamp|pseudo_.*|rand_seed\d|(last_)?insert_id|identity"
    r"|server_uuid"  # new for every copy of a data directory, and it holds the machine's MAC address
)
# client errors (no server, gone, lost in a query): how long the process may take to be gone, too
_LOST = {2002: 0, 2006: 0.2, 2013: 0.2}
# a server gives the files that it makes 0640, its keyring among them
_PRIVATE = {"UMASK": "0600", "UMASK_DIR": "0700"}
ANSWER_S = 60  # a server that is silent for so long hangs
LONG_S = 3600  # where it copies, encrypts or reads whole tables
_running: weakref.WeakSet["Server"] = weakref.WeakSet()


class ServerError(Exception):
    """A server that did not start, stop or accept a setting. One sentence."""


class Refused(ServerError):
    """A statement that the server answered with an error: what it said."""


class SettingError(ServerError):
    """A setting that was asked for and is not in force: names wanted and got."""


_parent = 0


def _before_fork() -> None:
    global _parent  # noqa: PLW0603
    _parent = os.getpid()


os.register_at_fork(before=_before_fork)


def die_with_parent() -> None:
    """For `preexec_fn`: the kernel kills the child when the process that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != _parent:  # it ended before that
        os._exit(1)


def sweep() -> list[Path]:
    """Remove server folders and cgroups whose owner is gone (killed with -9); the folders."""
    gone = []
    groups = Path("/sys/fs/cgroup")
    for group in (g for n in ("", "blkio/", "cpu/") for g in groups.glob(f"{n}noisefloor-*")):
        if not Path("/proc", group.name.partition("-")[2]).exists():
            with contextlib.suppress(OSError):  # the kernel keeps one that is in use
                for inner in group.glob("*/"):
                    inner.rmdir()
                group.rmdir()
    for folder in sorted((paths.root() / ".servers").glob("*/")):
        with contextlib.suppress(OSError), open(folder / "lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(OSError):
                shutil.rmtree((folder / "short").readlink(), ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(folder)
    return gone


@contextlib.contextmanager
def workshop() -> Iterator[Path]:
    """A private folder (0700) for servers, removed at the end with every server still running in
    it; leftovers of dead owners go first.

    ``short/`` in it is a link to a folder with a short path: a socket's path may have 107 bytes."""
    parent = paths.root() / ".servers"
    parent.mkdir(mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as locked:
        door = locked.enter_context(open(parent / "lock", "w"))
        fcntl.flock(door, fcntl.LOCK_EX)  # no sweep between making a folder and locking it
        sweep()
        folder = Path(tempfile.mkdtemp(prefix="w", dir=parent))
        lock = open(folder / "lock", "w")  # noqa: SIM115
        fcntl.flock(lock, fcntl.LOCK_EX)
    with lock:
        short = Path(tempfile.mkdtemp(prefix="nf", dir=_short_parent()))
        (folder / "short").symlink_to(short)
        try:
            yield folder
        finally:
            for server in [s for s in _running if s.folder.parent == folder]:
                server.kill()
            shutil.rmtree(short, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)


def _short_parent() -> str | None:
    """/tmp, whatever TMPDIR says, where it may be written to."""
    return "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else None


def free_port() -> int:
    """A TCP port that is free on loopback now."""
    with sockets.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _is_free(port: int) -> bool:
    """Whether a server could listen on it, as servers do: beside connections that still end."""
    with sockets.socket() as s, contextlib.suppress(OSError):
        s.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", port))
        return True
    return False


def secret_file(path: Path, text: str) -> Path:
    """Write `text` to `path`, readable by the owner only."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as f:
        f.write(text)
    return path


def clock(pid: int) -> float:
    """CPU seconds of a process, to the nanosecond; 0 when it is gone."""
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3) in arithmetic
    return 0.0


class Server:
    """One throwaway server. `settings` are my.cnf lines (name -> value); names use underscores."""

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        settings: Mapping[str, object] = {},
        *,
        tcp: bool = False,
        keyring: bool = False,
        environment: Mapping[str, str] = {},
    ):
        self.engine, self.folder = engine, Path(folder)
        self.settings = {k.replace("-", "_"): str(v) for k, v in settings.items()}
        self.keyring, self.environment = keyring, dict(environment)
        self.port = free_port() if tcp else None
        self.datadir = self.folder / "data"
        self.process: subprocess.Popen | None = None
        short = (self.folder.parent / "short").readlink()
        self.socket = short / f"{self.folder.name}.sock"
        self._sql: sa.Engine | None = None
        self._before: dict[str, str] = {}  # variables that were set, as they were at the start

    # -- files ---------------------------------------------------------------------------------

    def _write_cnf(self, *, keys: bool = True) -> Path:
        e = self.engine
        lines = {
            "basedir": e.basedir,
            "plugin_dir": e.plugin_dir,
            "lc_messages_dir": e.messages_dir,
            "datadir": self.datadir,
            "tmpdir": self.folder / "tmp",
            "socket": self.socket,
            "pid_file": self.folder / "pid",
            "log_error": self.folder / "error.log",
            "user": "root" if os.geteuid() == 0 else None,
        }
        if e.kind == "mysql":
            lines |= {"secure_file_priv": "NULL"}
            if int(e.version.split(".")[0]) >= 8:
                lines |= {"mysqlx": "OFF"}
        elif self.keyring and keys:
            lines |= {
                "plugin_load_add": "file_key_management",
                "file_key_management_filename": self.folder / "keyring",
            }
        if self.port:
            lines |= {"bind_address": "127.0.0.1", "port": self.port}
        else:
            lines |= {"skip_networking": "ON"}
        lines |= self.settings
        if "log_bin" in lines:  # asked for with a file's name, and not by any value
            on = _value(lines["log_bin"]) != 0.0
            plain = _value(lines["log_bin"]) == 1.0
            log = {"log_bin": "binlog" if plain else lines["log_bin"]} if on else {}
            lines = {k: v for k, v in lines.items() if k != "log_bin"}
            lines |= log or {"skip_log_bin": ""}
        quoted = {k: f'"{v}"' if isinstance(v, Path) else v for k, v in lines.items()}
        body = "".join(f"{k}={v}\n" for k, v in quoted.items() if v is not None)
        return secret_file(self.folder / "my.cnf", f"[mysqld]\n{body}")

    def _write_keyring(self) -> None:
        """MariaDB: a key file. MySQL: the two manifests in the data directory, without which the
        keyring stays disabled."""
        if self.engine.kind == "mysql":
            where = {"path": str(self.folder / "keyring"), "read_only": False}
            secret_file(
                self.datadir / "mysqld.my", '{"components":"file://component_keyring_file"}'
            )
            secret_file(self.datadir / "component_keyring_file.cnf", json.dumps(where))
        elif not (self.folder / "keyring").exists():
            secret_file(self.folder / "keyring", f"1;{secrets.token_hex(32)}\n")

    # -- life ----------------------------------------------------------------------------------

    @classmethod
    def create(cls, engine: Engine, folder: Path, settings=(), **options) -> "Server":
        """A server with a fresh data directory and a random root password; not started."""
        self = cls(engine, folder, dict(settings), **options)
        self.initialise()
        return self

    def initialise(self) -> None:
        """Make the data directory with a random root password."""
        engine = self.engine
        for sub in (self.folder, self.folder / "tmp"):
            sub.mkdir(mode=0o700)
        cnf = self._write_cnf(keys=False)  # mariadb-install-db looks for plugins in /usr only
        if self.keyring and engine.kind == "mariadb":
            self._write_keyring()
        link = self.socket.with_suffix(".link")
        if engine.install_db:
            # a shell script that takes paths apart at their spaces: it is shown one without
            link.symlink_to(self.folder)
            secret_file(cnf, cnf.read_text().replace(str(self.folder), str(link)))
            argv = [*engine.install_db, f"--defaults-file={link / cnf.name}"]
            argv += [f"--datadir={link / self.datadir.name}"]
            argv += ["--auth-root-authentication-method=normal", "--skip-test-db"]
            argv += ["--skip-name-resolve"]
        else:
            argv = [*engine.command, f"--defaults-file={cnf}", "--initialize-insecure"]
        log = self.folder / "initialise.log"
        with open(log, "w") as out:
            try:
                done = subprocess.run(
                    argv,
                    stdout=out,
                    stderr=out,
                    env=os.environ | _PRIVATE,
                    preexec_fn=die_with_parent,
                    timeout=300,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise ServerError(f"{engine.kind} {engine.version} hung in --initialize") from None
        link.unlink(missing_ok=True)
        if done.returncode:
            raise ServerError(f"{engine.kind} {engine.version} did not initialise: {self._tail()}")
        if self.keyring and engine.kind == "mysql":
            self._write_keyring()
        password = secrets.token_urlsafe(18)
        secret_file(
            self.folder / "client.cnf",
            f"[client]\nuser=root\npassword={password}\nsocket={self.socket}\n",
        )
        secret_file(
            self.folder / "init.sql",
            f"ALTER USER root@localhost IDENTIFIED BY '{password}';\n",
        )
        self.spawn(first=True)
        self.ready()
        self.stop()
        (self.folder / "init.sql").unlink()

    def copy(self, folder: Path, settings: Mapping[str, object] = {}, **options) -> "Server":
        """A stopped copy of this stopped server: data directory, keyring and password (reflink
        where the file system has it); `settings` are added to this server's."""
        options = {"tcp": self.port is not None, "keyring": self.keyring, **options}
        other = Server(self.engine, folder, self.settings | dict(settings), **options)
        for sub in (other.folder, other.folder / "tmp"):
            sub.mkdir(mode=0o700)
        argv = ["cp", "-a", "--reflink=auto", str(self.datadir), str(other.datadir)]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, preexec_fn=die_with_parent
        )
        if done.returncode:
            raise ServerError(f"the data directory was not copied: {done.stderr.strip()[-200:]}")
        (other.datadir / "auto.cnf").unlink(missing_ok=True)
        for name in ("client.cnf", "sysbench.cnf"):
            if (self.folder / name).exists():
                text = (self.folder / name).read_text()
                secret_file(other.folder / name, text.replace(str(self.socket), str(other.socket)))
        if other.keyring:
            if (self.folder / "keyring").exists():
                shutil.copy2(self.folder / "keyring", other.folder / "keyring")
            other._write_keyring()
        return other

    def spawn(self, *, first: bool = False) -> None:
        """Start the process without waiting; `ready` waits."""
        if self.port and not _is_free(self.port):
            self.port = free_port()
        argv = [*self.engine.command, f"--defaults-file={self._write_cnf()}"]
        if first:
            argv.append(f"--init-file={self.folder / 'init.sql'}")
        self._free_socket()  # of a server that was killed
        self._before = {}
        self._began = time.monotonic()
        with open(self.folder / "output.log", "a") as out:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=os.environ | _PRIVATE | self.environment,
                preexec_fn=die_with_parent,
            )
        _running.add(self)

    def ready(self, *, timeout: float = 120) -> float:
        """Wait for the first answered query; returns the seconds since the process was started.

        Raises ServerError with the end of the error log."""
        while True:
            if self.process.poll() is not None:
                raise ServerError(
                    f"{self.engine.kind} {self.engine.version} ended while starting: {self._tail()}"
                )
            with contextlib.suppress(ServerError):
                if self.socket.exists():
                    self.query("SELECT 1")
                    return time.monotonic() - self._began
            if time.monotonic() - self._began > timeout:
                self.kill()
                raise ServerError(f"the server did not answer within {timeout:g} s; it was killed")
            time.sleep(0.02)

    def start(self, *, timeout: float = 120) -> float:
        """Start, wait for the first answered query, read every setting back; returns the seconds
        until that answer. Raises ServerError, SettingError for a setting not in force."""
        self.spawn()
        took = self.ready(timeout=timeout)
        try:
            self.check(self.settings)
        except SettingError:
            self.kill()
            raise
        return took

    def stop(self) -> float:
        """Clean shutdown; returns its seconds. Does nothing when the server is not running."""
        if self.process is None:
            return 0.0
        began, timeout = time.monotonic(), 2 * ANSWER_S
        self._forget()
        self.process.terminate()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise ServerError(
                f"the server did not stop within {timeout:g} s; it was killed"
            ) from None
        finally:
            self.process = None
        return time.monotonic() - began

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self._forget()
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> float:
        """Stop cleanly and start again; returns the seconds until the first answered query."""
        self.stop()
        return self.start()

    def remove(self) -> None:
        """Kill the server and delete its folder."""
        self.kill()
        self._free_socket()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _free_socket(self) -> None:
        for stale in (self.socket, Path(f"{self.socket}.lock")):
            stale.unlink(missing_ok=True)

    def _forget(self) -> None:
        if self._sql is not None:
            self._sql.dispose()
            self._sql = None

    def said(self, pattern: str) -> list[str]:
        """Messages of the error log that match `pattern`, without their times."""
        lines = (self.folder / "error.log").read_text(errors="replace").splitlines()
        return [line.split(" ", 2)[-1] for line in lines if re.search(pattern, line)]

    def _tail(self) -> str:
        """The errors in the server's log, shortened to one line."""
        for name in ("error.log", "initialise.log", "output.log"):
            with contextlib.suppress(OSError):
                lines = (self.folder / name).read_text(errors="replace").splitlines()
                bad = [
                    s.partition("[ERROR] ")[2] or s for s in lines if "[ERROR]" in s or "FATAL" in s
                ]
                told = [s for s in bad if not s.endswith("Aborting")] or lines[-1:]
                if told:  # the first is the cause, the others come of it
                    return " ".join(" ".join(told[-4:]).split())[:400]
        return "its log is empty"

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *exc) -> None:
        self.kill()

    # -- SQL -----------------------------------------------------------------------------------

    @property
    def sql(self) -> sa.Engine:
        """The SQLAlchemy engine of the administrator's connection (one, kept open)."""
        if self._sql is None:
            self._sql = self._engine(ANSWER_S)
        return self._sql

    def _engine(self, answer_s: int) -> sa.Engine:
        return sa.create_engine(
            "mysql+mysqldb://",
            poolclass=sa.pool.StaticPool,
            isolation_level="AUTOCOMMIT",
            connect_args={
                "read_default_file": str(self.folder / "client.cnf"),
                "unix_socket": str(self.socket),
                "charset": "utf8mb4",
                "connect_timeout": 5,
                "read_timeout": answer_s,
                "write_timeout": answer_s,
            },
        )

    def query(self, statement: str, **values) -> list[dict]:
        """Rows of `statement` as dicts; [] for statements without rows. `:name` binds values.

        Raises Refused for an answer that is an error, ServerError when there is none."""
        return self._ask(self.sql, ANSWER_S, statement, values)

    def change(self, statement: str, **values) -> None:
        """A statement that changes something for all who use the server."""
        self.query(statement, **values)

    def patient(self, statement: str, **values) -> list[dict]:
        """As `query`, for a statement that may take an hour while the server's processor clock
        moves; on a connection of its own."""
        engine, answered = self._engine(LONG_S), threading.Event()
        watch = threading.Thread(target=self._kill_when_still, args=(answered,))
        watch.start()
        try:
            return self._ask(engine, LONG_S, statement, values)
        finally:
            answered.set()
            watch.join()
            engine.dispose()

    def _kill_when_still(self, answered: threading.Event) -> None:
        before = -1.0
        while not answered.wait(ANSWER_S):
            now = clock(self.pid)
            if now == before:
                self.process.kill()
            before = now

    def _ask(self, engine: sa.Engine, answer_s: int, statement: str, values: dict) -> list[dict]:
        began = time.monotonic()
        try:
            with engine.connect() as c:
                result = c.execute(sa.text(statement), values)
                return [dict(r._mapping) for r in result] if result.returns_rows else []
        except sa.exc.DBAPIError as e:
            code, said = e.orig.args[0], e.orig.args[-1]
            if code not in _LOST:
                raise Refused(said) from None
            if self._ended(_LOST[code]):
                raise ServerError(f"the server is not running: {self._tail()}") from None
            took = time.monotonic() - began
            hangs = "; it hangs" if took > min(5, answer_s) - 0.5 else ""
            raise ServerError(
                f"the server gave no answer in {took:.0f} s{hangs} ({said})"
            ) from None

    def _ended(self, seconds: float) -> bool:
        """Whether the process is gone, or goes within so many seconds."""
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        return self.process is None or self.process.returncode is not None

    def script(self, *statements: str) -> None:
        """Execute statements one after the other."""
        for s in statements:
            self.query(s)

    def purge(self) -> None:
        """Remove the binary logs that are full: nobody reads them."""
        if len(list(self.datadir.glob("binlog.[0-9]*"))) > 1:
            self.query("PURGE BINARY LOGS BEFORE NOW()")

    def variables(self) -> dict[str, str]:
        """All global variables but those that change by themselves (GTID sets, timestamps, the UUID)."""
        rows = self.query("SHOW GLOBAL VARIABLES")
        found = {r["Variable_name"]: str(r["Value"]) for r in rows}
        return {k: v for k, v in sorted(found.items()) if not _VOLATILE.fullmatch(k)}

    def status(self, *names: str) -> dict[str, float]:
        """Global status counters by lower-case name (all of the named ones, as numbers)."""
        rows = self.query("SHOW GLOBAL STATUS")
        found = {r["Variable_name"].lower(): r["Value"] for r in rows}
        return {n: float(found[n.lower()]) for n in names if n.lower() in found}

    def set(self, settings: Mapping[str, object]) -> None:
        """SET GLOBAL each setting, then read back. Raises SettingError."""
        found = {} if settings.keys() <= self._before.keys() else self.variables()
        for name, value in settings.items():
            try:
                self.change(f"SET GLOBAL {_identifier(name)} = :value", value=_literal(value))
            except Refused as e:
                raise SettingError(f"{name}: wanted {value}, refused: {e}") from None
            if name in found:
                self._before.setdefault(name, found[name])
        self.check(settings)

    def only(self, settings: Mapping[str, object]) -> None:
        """`set` these; every other variable that was `set` since the start goes back to what it
        was, so that no arm or workload inherits from the one before it."""
        self.set({k: v for k, v in self._before.items() if k not in settings} | dict(settings))

    def takes(self, name: str, values: Iterable[str]) -> bool:
        """Whether a live server takes each of the values; False for a variable that only a start
        sets. Raises SettingError for a variable or value that it does not know."""
        known = self.variables()
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise SettingError(f"{label(self.engine)} has no global variable {name}{hint}")
        try:
            for value in values:
                self.set({name: value})
        except SettingError as e:
            if "read only variable" in str(e):
                return False
            raise
        finally:
            self.only({})
        return True

    def check(self, settings: Mapping[str, object]) -> None:
        """Raise SettingError for the first setting that is not in force."""
        if not settings:
            return
        got = self.variables()
        for name, wanted in settings.items():
            name = name.removeprefix("loose_")
            if name in _NOT_READ_BACK:
                continue
            if name == "plugin_load_add":
                self._check_plugin(str(wanted))
                continue
            if name.startswith("performance_schema_instrument"):
                self._check_instruments(str(wanted))
                continue
            if name.startswith("performance_schema_consumer_"):
                got[name] = self._consumer(name.removeprefix("performance_schema_consumer_"))
            if name == "log_bin" and _value(wanted) != 0.0:
                wanted = "ON"  # asked for with a file name, read back as a switch
            if name not in got:
                raise SettingError(f"{name}: wanted {wanted}, but the server has no such variable")
            if "=" in str(wanted):  # a list of switches, of which some are set
                rest = set(str(wanted).split(",")) - set(got[name].split(","))
                wanted = wanted if rest else got[name]
            if _value(got[name]) != _value(wanted):
                raise SettingError(f"{name}: wanted {wanted}, got {got[name]}")

    def _check_plugin(self, library: str) -> None:
        """A plugin whose library is missing does not stop the server from starting."""
        rows = self.query(
            "SELECT PLUGIN_LIBRARY AS l, PLUGIN_STATUS AS s FROM information_schema.plugins"
        )
        active = {str(r["l"]).removesuffix(".so") for r in rows if r["s"] == "ACTIVE"}
        if library.removesuffix(".so") not in active:
            raise SettingError(f"plugin_load_add: wanted {library}, but it is not active")

    def _check_instruments(self, wanted: str) -> None:
        """``'%=ON'``: no variable, but the state of what the name stands for."""
        name, _, state = wanted.strip("'").partition("=")
        rows = self.query(
            "SELECT COUNT(*) AS n, SUM(ENABLED = 'YES') AS enabled"
            " FROM performance_schema.setup_instruments WHERE NAME LIKE :name",
            name=name,
        )
        share = float(rows[0]["enabled"] or 0) / max(int(rows[0]["n"]), 1)
        if (share > 0.99) != (state == "ON"):
            raise SettingError(
                f"performance_schema_instrument: wanted {wanted}, but {share:.0%} are on"
            )

    def _consumer(self, name: str) -> str:
        rows = self.query(
            "SELECT ENABLED AS e FROM performance_schema.setup_consumers WHERE NAME = :name",
            name=name,
        )
        return rows[0]["e"] if rows else "no such consumer"

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Nothing of the server runs in it: what it still has to write it writes in its own time."""
        try:
            os.kill(self.pid, signal.SIGSTOP)
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)

    # -- what the process used ----------------------------------------------------------------

    @property
    def pid(self) -> int:
        return self.process.pid

    def cipher(self) -> str:
        """The TLS cipher of a new connection made as the measuring tool's; "" without TLS."""
        options = dict(
            line.split("=", 1) for line in (self.folder / "sysbench.cnf").read_text().split()
        )
        connection = MySQLdb.connect(
            user=options["mysql-user"],
            passwd=options["mysql-password"],
            unix_socket=str(self.socket),
        )
        with contextlib.closing(connection):
            cursor = connection.cursor()
            cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
            return cursor.fetchone()[1]

    def redo(self) -> tuple[float, float]:
        """Where the redo log is written, and where a recovery would begin, in bytes (LSN)."""
        names = ("Innodb_redo_log_current_lsn", "Innodb_redo_log_checkpoint_lsn")
        if self.engine.kind == "mariadb":
            names = ("Innodb_lsn_current", "Innodb_lsn_last_checkpoint")
        found = self.status(*names)
        if len(found) < 2:
            raise ServerError("the server does not say where its redo log stands")
        return found[names[0]], found[names[1]]

    def write_out(self, limit_s: float = 20) -> None:
        """Wait until every page changed so far stands in its file: a checkpoint beyond now."""
        wanted, _ = self.redo()
        began = time.monotonic()
        with self._eager_flushing():
            while self.redo()[1] < wanted:
                if time.monotonic() - began > limit_s:
                    raise ServerError(f"the server wrote no checkpoint within {limit_s:g} s")
                time.sleep(0.02)

    def usage(self) -> dict[str, float]:
        """CPU seconds and bytes written and read by the server process since its start."""
        try:
            io = psutil.Process(self.pid).io_counters()
        except psutil.Error:
            raise ServerError(f"the server is not running: {self._tail()}") from None
        return {
            "cpu_s": clock(self.pid),
            "written_B": io.write_bytes,
            "read_B": io.read_bytes,
        }

    def settle(self, limit_s: float) -> dict[str, float]:
        """Wait until flushing and purge are down, at most `limit_s`; what was left, and whether
        it had settled: dirty pages under 10 % of the pool (below innodb_max_dirty_pages_pct_lwm's
        default the server stops flushing ahead) and a history list under 1,000."""
        return self._settle(limit_s, 0.1)

    def flush(self, limit_s: float) -> dict[str, float]:
        """As `settle`, but until hardly a page is dirty: before the disk is made slow, or a slice
        would measure the flushing of what came before it."""
        with self._eager_flushing():
            return self._settle(limit_s, 0.002)

    @contextlib.contextmanager
    def _eager_flushing(self) -> Iterator[None]:
        names = ("innodb_max_dirty_pages_pct_lwm", "innodb_max_dirty_pages_pct")
        before = {n: v for n, v in self.variables().items() if n in names}
        try:
            self.set(dict.fromkeys(names, "0"))
            yield
        finally:
            self.set({n: before[n] for n in reversed(names)})

    def _settle(self, limit_s: float, share: float) -> dict[str, float]:
        began = time.monotonic()
        while True:
            s = self.status("Innodb_buffer_pool_pages_dirty", "Innodb_buffer_pool_pages_total")
            dirty, total = s.values()
            left = self.query(
                "SELECT count AS n FROM information_schema.innodb_metrics"
                " WHERE name = 'trx_rseg_history_len'"
            )
            history = float(left[0]["n"]) if left else 0.0
            took = time.monotonic() - began
            settled = dirty <= share * total and history < 1000
            if settled or took >= limit_s:
                return {
                    "settled": settled,
                    "seconds": round(took, 3),
                    "dirty_pages": dirty,
                    "history": history,
                }
            time.sleep(0.05)


def _identifier(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
        raise SettingError(f"{name!r} is not the name of a variable; nothing was set")
    return name


def _literal(value: object) -> int | float | str:
    """What SET takes: numbers without quotes and without K, M or G."""
    text = str(value)
    if m := re.fullmatch(r"(-?\d+)([KMGkmg]?)", text):
        return int(m[1]) * 1024 ** " KMG".index(m[2].upper() or " ")
    return float(text) if re.fullmatch(r"-?\d+\.\d+", text) else text


def _value(text: object) -> object:
    """A setting's value in a form that compares: 128M and 134217728, ON and 1 are the same."""
    s = str(text).strip().strip("'\"").upper()
    if s in ("ON", "TRUE", "YES"):
        return 1.0
    if s in ("OFF", "FALSE", "NO"):
        return 0.0
    if m := re.fullmatch(r"(-?\d+(?:\.\d+)?)([KMGT]?)", s):
        return float(m[1]) * 1024 ** " KMGT".index(m[2] or " ")
    return s.replace(" ", "").rstrip("/")


def pin(
    template: Server, folder: Path, wanted: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Which of the `wanted` settings a server accepts at its start, tried on a copy of `template`:
    (those in force, {name: why not} for the others)."""
    kept, refused = dict(wanted), {}
    while True:
        server = template.copy(folder, kept)
        try:
            server.start()
            return kept, refused
        except ServerError as e:
            said = str(e)
            name = next((k for k in kept if re.search(rf"\b{k}\b", said.replace("-", "_"))), None)
            if name is None:
                raise
            refused[name] = said
            del kept[name]
        finally:
            server.remove()


# -- a slow disk on purpose ------------------------------------------------------------------------


class Throttle:
    """A cgroup that limits the writes and reads a second of a server's disk; `limit()` lifts it.

    Buffered writes escape it: only what is synced waits. Raises ServerError where not allowed."""

    def __init__(self, server: Server):
        device = os.stat(server.datadir).st_dev
        block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
        if not block.exists():
            raise ServerError("the data directory is not on a block device that can be throttled")
        if (block / "partition").exists():
            block = block.resolve().parent
        self.device = (block / "dev").read_text().strip() if (block / "dev").exists() else ""
        v1, v2 = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
        name = f"noisefloor-{os.getpid()}"
        self.v1 = v1.is_dir()
        self.group = (v1 if self.v1 else v2) / name
        self._home = None
        try:
            if not self.v1:
                (v2 / "cgroup.subtree_control").write_text("+io")
            self.group.mkdir(exist_ok=True)
            self.limit(100, 100)
            self.limit()
            self._home = self.group.parent / "cgroup.procs"
            (self.group / "cgroup.procs").write_text(str(server.pid))
        except OSError as e:
            self.close()
            raise ServerError(f"the disk cannot be throttled here ({e.strerror})") from None

    def limit(self, writes_per_s: int | None = None, reads_per_s: int | None = None) -> None:
        """At most so many a second from now on; None: as many as the disk can."""
        if self.v1:
            for what, n in (("write", writes_per_s), ("read", reads_per_s)):
                file = self.group / f"blkio.throttle.{what}_iops_device"
                file.write_text(f"{self.device} {n or 0}")
        else:
            both = f"wiops={writes_per_s or 'max'} riops={reads_per_s or 'max'}"
            (self.group / "io.max").write_text(f"{self.device} {both}")

    def close(self) -> None:
        """Lift the limit, move the server out and remove the group."""
        with contextlib.suppress(OSError):
            self.limit()
        with contextlib.suppress(OSError):
            for pid in (self.group / "cgroup.procs").read_text().split():
                self._home.write_text(pid)
        with contextlib.suppress(OSError):
            self.group.rmdir()
