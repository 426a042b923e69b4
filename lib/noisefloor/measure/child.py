"""Child processes: started, waited for, ended."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self

from noisefloor import parse
from noisefloor.measure import workloads
from noisefloor.servers.sandbox import ctrl_c, die_with_parent, looks

PATIENCE_S = 60  # how long a tool may exceed its time, or do nothing, before it counts as hung


class ToolError(Exception):
    """A run that failed: what the tool said. It is recorded, retried once, never averaged in."""


class Child:
    """A measuring tool that dies with this process; `options` are Popen's (cwd, env). Its stdout
    and stderr go to `out`, or to a temporary file. In a `with` it ends with the block."""

    def __init__(self, argv: list[str], out: Path | None = None, **options: Any) -> None:
        self.argv, self.out = argv, out
        self.text: IO[bytes] = open(out, "w+b") if out else tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=self.text,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
            **options,
        )

    def wait(
        self, timeout: float, begun: Callable[[], None] | None = None
    ) -> tuple[int, str, float]:
        """Wait for its end: exit code, output and CPU seconds (user + sys, by wait4). After
        `timeout` seconds it is killed: exit code -9. `begun` is called once sysbench has made its
        connections and prepared its statements."""
        deadline = time.monotonic() + timeout
        try:
            while True:
                pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
                if pid:
                    break
                if begun and self.has_printed(b"Threads started!"):
                    begun()
                    begun = None
                if time.monotonic() > deadline:
                    self.process.kill()
                    deadline = float("inf")
                time.sleep(0.005)
                ctrl_c()
        except BaseException:
            self.end()
            raise
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.process.returncode, self._printed(), round(used.ru_utime + used.ru_stime, 3)

    def _printed(self) -> str:
        """What it printed, without passwords; they are removed from the file `out`, too."""
        self.text.seek(0)
        printed = self.text.read().decode(errors="replace")
        self.text.close()
        text = _hidden(printed, self.argv)
        if text != printed and self.out:  # a script of the user's own printed it
            self.out.write_text(text)
        return text

    @property
    def ended(self) -> bool:
        """Whether it has ended; its exit code is left to `wait`."""
        if self.process.returncode is not None:
            return True
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, look) is not None

    def has_printed(self, words: bytes) -> bool:
        """Whether these words are in the first 4,096 bytes of its output."""
        return words in os.pread(self.text.fileno(), 4096, 0)

    def failed(self) -> ToolError:
        """Why it ended, from the file with its output."""
        printed = self.out.read_text(errors="replace") if self.out else ""
        return ToolError(last_words(_hidden(printed, self.argv)))

    def end(self) -> None:
        """Kill it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if not self.text.closed:
            self._printed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()


class Gated(Child):
    """A sysbench that makes its connections and then waits for `go`."""

    def __init__(self, argv: list[str], threads: int, folder: Path, out: Path) -> None:
        self.folder, self.threads = folder, threads
        folder.mkdir(mode=0o700)
        os.mkfifo(folder / "go", 0o600)
        (folder / "ready").touch()
        env = os.environ | {"NOISEFLOOR_SCRIPT": argv[1], "NOISEFLOOR_GATE": str(folder)}
        super().__init__([argv[0], workloads.script("gate.lua"), *argv[2:]], out, env=env)

    def connected(self) -> None:
        """Wait until every thread has its connection. Raises ToolError."""
        for _ in looks(PATIENCE_S, 0.005):
            if (self.folder / "ready").stat().st_size >= self.threads:
                return
            if self.ended:
                raise self.failed()
        raise ToolError(f"{self.threads} connections took more than {PATIENCE_S:g} s")

    def go(self) -> None:
        """Let the threads start, and return once they have. Raises ToolError if they do not."""
        began, door = time.monotonic(), None
        try:
            while not self.has_printed(b"Threads started!"):
                if door is None:
                    with contextlib.suppress(OSError):  # nobody waits at it yet
                        door = os.open(self.folder / "go", os.O_WRONLY | os.O_NONBLOCK)
                if self.ended or time.monotonic() - began > PATIENCE_S:
                    raise self.failed()
                time.sleep(0.001)
        finally:
            if door is not None:
                os.close(door)

    def end(self) -> None:
        """Kill it, and remove its gate."""
        super().end()
        shutil.rmtree(self.folder, ignore_errors=True)


def run(
    argv: list[str],
    timeout: float,
    out: Path | None = None,
    begun: Callable[[], None] | None = None,
    **options: Any,
) -> tuple[int, str, float]:
    """Run a `Child` to its end; returns what `Child.wait` returns."""
    return Child(argv, out, **options).wait(timeout, begun)


def last_words(text: str) -> str:
    """The line of an output that says why a tool ended: the first with FATAL, else the first."""
    lines = [s for s in text.splitlines() if "FATAL" in s] or text.splitlines() or ["nothing"]
    return lines[0].strip()[:300]


def _hidden(text: str, argv: list[str]) -> str:
    """`text` without what it names as passwords, and without the password of the option file."""
    for name in (a.partition("=")[2] for a in argv if a.startswith("--config-file=")):
        with contextlib.suppress(OSError):
            for word in re.findall(r"(?m)^mysql-password=(.{8,})$", Path(name).read_text()):
                if not word.isdigit():  # digits may also be part of a result
                    text = text.replace(word, parse.HIDDEN)
    return parse.scrub(text)[0]
