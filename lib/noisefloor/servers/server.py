"""Throwaway servers: made, started, stopped, killed, copied.

A server has a private folder (0700), listens on a unix socket (and on TCP of loopback if asked),
and ends with the process that started it.
"""

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from noisefloor.servers import sandbox, session
from noisefloor.servers.engines import Engine, label, last_words, output
from noisefloor.servers.sandbox import ServerError, clock, die_with_parent, looks, secret_file
from noisefloor.servers.session import Rows, Session, SettingError, _value

_LIBRARIES = Path("/usr/lib")
_LONG_S = 3600  # for a statement that copies, encrypts or reads whole tables
# by default a server makes its files 0640, its keyring among them
_PRIVATE = {"UMASK": "0600", "UMASK_DIR": "0700"}


class Server(Session):
    """A throwaway server. `settings`: my.cnf lines (name -> value); `tcp`: also on a loopback port;
    `keyring`: with one of its own; `environment`: of its process."""

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
        super().__init__()
        self.engine, self.folder = engine, Path(folder)
        self.settings = {k.replace("-", "_"): str(v) for k, v in settings.items()}
        self.keyring, self.environment = keyring, dict(environment)
        self.port = sandbox.free_port() if tcp else None
        self.datadir = self.folder / "data"
        self.process: subprocess.Popen[bytes] | None = None
        short = (self.folder.parent / "short").readlink()
        self.socket = short / f"{self.folder.name}.sock"
        file = str(self.folder / "client.cnf")
        self._login = {"read_default_file": file, "unix_socket": str(self.socket)}

    # -- files ---------------------------------------------------------------------------------

    def _write_cnf(self, *, keys: bool = True) -> Path:
        lines: dict[str, object] = {
            "basedir": self.engine.basedir,
            "plugin_dir": self.engine.plugin_dir,
            "lc_messages_dir": self.engine.messages_dir,
            "datadir": self.datadir,
            "tmpdir": self.folder / "tmp",
            "socket": self.socket,
            "pid_file": self.folder / "pid",
            "log_error": self.folder / "error.log",
            "user": "root" if os.geteuid() == 0 else None,
        }
        # without keys at first: mariadb-install-db looks for plugins in /usr only
        lines |= self.kind.settings(self.folder, keyring=self.keyring and keys)
        tcp: dict[str, object] = {"bind_address": "127.0.0.1", "port": self.port}
        lines |= tcp if self.port else {"skip_networking": "ON"}
        lines |= self.settings
        if "log_bin" in lines:  # its value is a file name, so it cannot say "off"
            name = lines.pop("log_bin")
            if _value(name) == 0:
                lines["skip_log_bin"] = ""
            else:
                lines["log_bin"] = "binlog" if _value(name) == 1 else name
        quoted = {k: f'"{v}"' if isinstance(v, Path) else v for k, v in lines.items()}
        body = "".join(f"{k}={v}\n" for k, v in quoted.items() if v is not None)
        return secret_file(self.folder / "my.cnf", f"[mysqld]\n{body}")

    def _write_keyring(self) -> None:
        for file, content in self.kind.write_keyring(self.folder, self.datadir).items():
            secret_file(file, content)

    # -- life ----------------------------------------------------------------------------------

    def initialise(self) -> "Server":
        """Make the data directory with a random root password; returns the server, not started."""
        self._make_folders()
        self._make_data(self._write_cnf(keys=False))
        if self.keyring:
            self._write_keyring()
        password = secrets.token_urlsafe(18)
        login = f"[client]\nuser=root\npassword={password}\nsocket={self.socket}\n"
        secret_file(self.folder / "client.cnf", login)
        first = f"ALTER USER root@localhost IDENTIFIED BY '{password}';\n"
        init = secret_file(self.folder / "init.sql", first)
        self._spawn(f"--init-file={init}")
        self._ready()
        self.stop()
        init.unlink()
        return self

    def _make_folders(self) -> None:
        for sub in (self.folder, self.folder / "tmp"):
            sub.mkdir(mode=0o700)

    def _make_data(self, cnf: Path) -> None:
        link = self.socket.with_suffix(".link")
        if self.engine.install_db:
            # a shell script that splits paths at spaces: it gets a link to the folder without any
            link.symlink_to(self.folder)
            secret_file(cnf, cnf.read_text().replace(str(self.folder), str(link)))
            argv = [*self.engine.install_db, f"--defaults-file={link / cnf.name}", "--skip-test-db"]
            argv += [f"--datadir={link / self.datadir.name}", "--skip-name-resolve"]
            # "normal" makes a root for each name of this machine, without a password
            argv += ["--auth-root-authentication-method=socket", "--auth-root-socket-user=root"]
        else:
            argv = [*self.engine.command, f"--defaults-file={cnf}", "--initialize-insecure"]
        env = os.environ | _PRIVATE
        done = output(*argv, timeout=300, env=env, preexec_fn=die_with_parent, errors="replace")
        link.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # on a full disk the server's own error counts
            (self.folder / "initialise.log").write_text(done.stdout + done.stderr)
        if done.returncode:
            why = last_words(done)[:200]
            raise ServerError(f"{label(self.engine)} did not initialise ({why}): {self._tail()}")

    def copy(
        self,
        folder: Path,
        settings: Mapping[str, object] = {},
        *,
        data: Path | None = None,
        **options: Any,
    ) -> "Server":
        """A stopped copy of this stopped server: data directory, keyring and password (reflink
        where the file system has it); `settings` are added to this server's. `data`: a data
        directory that becomes the copy's, in place of this one's. Raises ServerError."""
        other = self.sibling(folder, settings, **options)
        self.copy_to(other, data)
        return other

    def sibling(
        self, folder: Path, settings: Mapping[str, object] = {}, **options: Any
    ) -> "Server":
        """A server like this one in another folder, with more `settings`; nothing is made yet."""
        options = {"tcp": self.port is not None, "keyring": self.keyring, **options}
        return Server(self.engine, folder, self.settings | dict(settings), **options)

    def copy_to(self, other: "Server", data: Path | None = None) -> None:
        """Make the files of `other`, as `copy` does."""
        other._make_folders()
        if data:
            data.rename(other.datadir)
        else:
            argv = ["cp", "-a", "--reflink=auto", self.datadir, other.datadir]
            done = output(*argv, preexec_fn=die_with_parent)
            if done.returncode:
                raise ServerError(f"the data directory was not copied: {last_words(done)[-200:]}")
        (other.datadir / "auto.cnf").unlink(missing_ok=True)
        other.take_over(self.datadir.parent)

    def take_over(self, folder: Path) -> None:
        """Copy passwords and keyring from the folder of the stopped server that had this data."""
        for name in ("client.cnf", "sysbench.cnf"):
            if (folder / name).exists():
                theirs = (folder / name).read_text()
                ours = re.sub(r"(?m)^((?:mysql-)?socket=).*$", rf"\g<1>{self.socket}", theirs)
                secret_file(self.folder / name, ours)
        if self.keyring:
            if (folder / "keyring").exists():
                shutil.copy2(folder / "keyring", self.folder / "keyring")
            self._write_keyring()

    @contextlib.contextmanager
    def trial(
        self, folder: Path, *settings: Mapping[str, object], **options: Any
    ) -> Iterator["Server"]:
        """A started `copy` that is removed at the end."""
        other = self.copy(folder, *settings, **options)
        try:
            with other:
                yield other
        finally:
            other.remove()

    def _spawn(self, *options: str) -> None:
        """Start the process without waiting; `_ready` waits."""
        if self.port:
            self.port = sandbox.free_port(self.port)
        self._free_socket()  # of a server that was killed
        self._before, self._along = {}, {}
        self._began = time.monotonic()
        with open(self.folder / "output.log", "a") as out:
            self.process = subprocess.Popen(
                [*self.engine.command, f"--defaults-file={self._write_cnf()}", *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=os.environ | _PRIVATE | self._environment(),
                preexec_fn=die_with_parent,
            )
        sandbox.running.add(self)

    def _environment(self) -> dict[str, str]:
        """The variables of its process; a library name in LD_PRELOAD becomes a path. Raises
        ServerError if the library is missing."""
        variables, name = dict(self.environment), self.environment.get("LD_PRELOAD", "")
        if name and "/" not in name:
            places = [Path(os.environ.get("CONDA_PREFIX") or "/usr", "lib"), *_LIBRARIES.glob("*/")]
            path = next((p / name for p in places if (p / name).exists()), None)
            if not path:
                raise ServerError(f"{name} is not here: apt-get install libjemalloc2")
            variables["LD_PRELOAD"] = str(path)
        return variables

    def _ready(self, *, timeout: float = 120) -> float:
        """Wait for the first answered query; returns the seconds since the process was started.
        Raises ServerError with the end of the error log."""
        for _ in looks(self._began + timeout - time.monotonic()):
            if self._ended(0):
                raise ServerError(f"{label(self.engine)} ended while starting: {self._tail()}")
            with contextlib.suppress(ServerError):
                if self.socket.exists():
                    self.query("SELECT 1")
                    return time.monotonic() - self._began
        self.kill()
        raise ServerError(f"the server did not answer within {timeout:g} s; it was killed")

    def start(self, *, timeout: float = 120) -> float:
        """Start, wait for the first answered query, read every setting back; returns the seconds
        until that answer. Raises ServerError, SettingError for a setting not in force."""
        self._spawn()
        took = self._ready(timeout=timeout)
        try:
            self.check(self.settings)
        except SettingError:
            self.kill()
            raise
        return took

    def stop(self) -> float:
        """Shut down cleanly; returns the seconds, 0 when it was not running. Raises ServerError."""
        if self.process is None:
            return 0.0
        began, timeout = time.monotonic(), 2 * session.ANSWER_S
        self._forget()
        self.process.terminate()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerError(
                f"the server did not stop within {timeout:g} s; it was killed"
            ) from None
        self.process = None
        return time.monotonic() - began

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self._forget()
            self.process.kill()
            self.process.wait()
            self.process = None

    def remove(self) -> None:
        """Kill the server and delete its folder."""
        self.kill()
        self._free_socket()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _free_socket(self) -> None:
        for stale in (self.socket, Path(f"{self.socket}.lock")):
            stale.unlink(missing_ok=True)

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    # -- what it said --------------------------------------------------------------------------

    def _tail(self) -> str:
        """The errors in the server's log, shortened to one line."""
        for name in ("error.log", "initialise.log", "output.log"):
            with contextlib.suppress(OSError):
                lines = (self.folder / name).read_text(errors="replace").splitlines()
                bad = [s for s in lines if "[ERROR]" in s or "FATAL" in s]
                bad = [s.partition("[ERROR] ")[2] or s for s in bad if not s.endswith("Aborting")]
                if last := bad or lines[-1:]:  # of several errors the first is the cause
                    return " ".join(" ".join(last[-4:]).split())[:400]
        return "its log is empty"

    def _ended(self, seconds: float) -> bool:
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        return self.process is None or self.process.returncode is not None

    # -- SQL -----------------------------------------------------------------------------------

    def patient(self, statement: str, **values: object) -> Rows:
        """As `query`, on its own connection, for up to an hour. A server that hangs is killed."""
        engine, answered = self._engine(_LONG_S), threading.Event()
        with ThreadPoolExecutor(1) as beside:
            beside.submit(self._kill_when_still, answered)
            try:
                return self._ask(engine, statement, values)
            finally:
                answered.set()
                engine.dispose()

    def _kill_when_still(self, answered: threading.Event) -> None:
        before = -1.0
        while not answered.wait(session.ANSWER_S):
            now = clock(self.pid)
            if self.process and now == before:
                self.process.kill()
            before = now

    def purge(self) -> None:
        """Remove all binary logs but the newest: nobody reads them."""
        names = (path.name for path in self.datadir.glob("binlog.*"))
        logs = sorted(n for n in names if n.rpartition(".")[2].isdecimal())  # not the index
        if len(logs) > 1:  # by name: BEFORE NOW() keeps those of this second
            self.query(f"PURGE BINARY LOGS TO '{logs[-1]}'")

    @property
    def password(self) -> str:
        """The password of the measuring user."""
        options = (self.folder / "sysbench.cnf").read_text()
        return re.findall(r"^mysql-password=(.*)$", options, re.M)[0]

    # -- its process ---------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The number of its process. Raises ServerError when it was not started."""
        if self.process is None:
            raise ServerError("the server is not running")
        return self.process.pid

    def usage(self) -> dict[str, float]:
        """`cpu_s`, `written_B` and `read_B` of its process since the start. Raises ServerError."""
        try:
            io = psutil.Process(self.pid).io_counters()
        except psutil.Error:
            raise ServerError(f"the server is not running: {self._tail()}") from None
        cpu_s = clock(self.pid)
        return {"cpu_s": cpu_s, "written_B": io.write_bytes, "read_B": io.read_bytes}


def start_together(*servers: Server) -> None:
    """Start them at the same time, and read every setting back. Raises ServerError."""
    for s in servers:
        s._spawn()
    for s in servers:
        s._ready()
        s.check(s.settings)
