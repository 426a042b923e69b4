"""Private folders, secrets in files and free ports for throwaway processes, which end with the
process that started them."""

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import socket as sockets
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from noisefloor import paths

if TYPE_CHECKING:
    from noisefloor.servers.server import Server

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_parent = 0
running: weakref.WeakSet["Server"] = weakref.WeakSet()  # servers that were started
_dropped: list[bool] = []  # a Ctrl-C that Python did not raise


class ServerError(Exception):
    """A server that did not start, stop or accept a setting. One sentence."""


def _before_fork() -> None:
    global _parent  # noqa: PLW0603
    _parent = os.getpid()


os.register_at_fork(before=_before_fork)


def die_with_parent() -> None:
    """For `preexec_fn`: the kernel kills the child when the process that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != _parent:  # the parent ended before prctl
        os._exit(1)


@contextlib.contextmanager
def _hears_ctrl_c() -> Iterator[None]:
    """Keep, for `ctrl_c`, a Ctrl-C that comes while a process is forked: Python would drop it."""
    usual = sys.unraisablehook

    def keep(unraised: "sys.UnraisableHookArgs") -> None:
        if isinstance(unraised.exc_value, KeyboardInterrupt):
            _dropped.append(True)
        else:
            usual(unraised)

    sys.unraisablehook = keep
    try:
        yield
    finally:
        sys.unraisablehook = usual
        _dropped.clear()


def ctrl_c() -> None:
    """For every loop that waits: raise a Ctrl-C that Python dropped."""
    if _dropped:
        _dropped.clear()
        raise KeyboardInterrupt


def sweep() -> list[Path]:
    """Remove the folders and cgroups of servers whose owner was killed; returns the folders."""
    gone = []
    root = Path("/sys/fs/cgroup")
    for group in (g for n in ("", "blkio/", "cpu/") for g in root.glob(f"{n}noisefloor-*")):
        if not Path("/proc", group.name.split("-")[1]).exists():
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
def sandbox() -> Iterator[Path]:
    """A private folder (0700) for servers, removed at the end with every server still running in
    it. What dead owners left is removed first. No Ctrl-C is lost meanwhile.

    ``short/`` in it is a link to a folder with a short path: a socket's path may have 107 bytes."""
    parent = paths.root() / ".servers"
    parent.mkdir(mode=0o700, exist_ok=True)
    with open(parent / "lock", "w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)  # no sweep between making a folder and locking it
        sweep()
        folder = Path(tempfile.mkdtemp(prefix="w", dir=parent))
        lock = open(folder / "lock", "w")  # noqa: SIM115
        fcntl.flock(lock, fcntl.LOCK_EX)
    with lock, _hears_ctrl_c():
        # /tmp, whatever TMPDIR says, where it may be written to
        tmp = "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else None
        short = Path(tempfile.mkdtemp(prefix="nf", dir=tmp))
        (folder / "short").symlink_to(short)
        try:
            yield folder
        finally:
            for server in [s for s in running if s.folder.parent == folder]:
                server.kill()
            shutil.rmtree(short, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)


def free_port(port: int = 0) -> int:
    """A TCP port of loopback that is free now: `port` itself where it is."""
    with sockets.socket() as listener:
        listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, int(port > 0))
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            if port:
                return free_port()
            raise
        return listener.getsockname()[1]


def secret_file(path: Path, text: str) -> Path:
    """Write `text` to `path`, readable by the owner only; returns the path."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as f:
        f.write(text)
    return path


def looks(limit_s: float, pause_s: float = 0.02) -> Iterator[None]:
    """Yield at once, and then after every pause until the limit. Raises a dropped Ctrl-C."""
    until = time.monotonic() + limit_s
    yield
    while time.monotonic() < until:
        time.sleep(pause_s)
        ctrl_c()
        yield


def clock(pid: int) -> float:
    """CPU seconds that a process has used, to the nanosecond; 0 when it is gone."""
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3) in arithmetic
    return 0.0
