"""The process that starts commands and times them, one after the other, for `measure.timing`.

It runs as a separate script and imports nothing of Noisefloor, because the kernel never reports
less peak memory for a command than for the process that started it. Requests and answers are
lines of JSON. When its input ends, it kills what it started, and ends."""

import contextlib
import json
import os
import select
import signal
import sys
import time
from typing import Any

_LAST_B = 4096  # of the end of a command's output, which are kept
_PIECE_B = 1 << 16
_LEFT = 64  # pieces that are read after a command's end, at most


def main() -> None:
    """Answer every request: {"argv": words, "limit_s": seconds} -> what `timed` returns."""
    ears, mouth = os.pipe()
    for end in (ears, mouth):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
    while line := sys.stdin.buffer.readline():
        asked = json.loads(line)
        answer = timed(asked["argv"], asked["limit_s"], ears)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def timed(argv: list[str], limit_s: float, ears: int) -> dict[str, Any]:
    """Run a command, without input, in a process group of its own: `real_s`, `user_s`, `sys_s`,
    `maxrss_B`, `exit_code` (negative: by a signal), `printed_B`, `last` (the end of its output) and
    `late` (whether it was killed after `limit_s`); {"error": why} if it cannot be started. Kills
    what it leaves running in its group. `ears`: a pipe that gets a byte when a child ends."""
    prints, into = os.pipe()
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, into, 1),
        (os.POSIX_SPAWN_DUP2, into, 2),
    ]
    usual = [signal.SIGPIPE, signal.SIGXFSZ]  # which Python ignores
    began = time.perf_counter()
    try:
        pid = os.posix_spawnp(
            argv[0], argv, os.environ, file_actions=files, setpgroup=0, setsigdef=usual
        )
    except (OSError, ValueError) as e:
        os.close(prints)
        return {"error": getattr(e, "strerror", None) or str(e)}
    finally:
        os.close(into)
    printed = _Printed(prints)
    late, deadline = False, began + limit_s
    poll = select.poll()
    for end in (0, ears, prints):
        poll.register(end, select.POLLIN)
    while True:
        left_ms = None if late else max(0.0, deadline - time.perf_counter()) * 1000 + 1
        there = {end for end, _ in poll.poll(left_ms)}
        now = time.perf_counter()
        if ears in there:
            with contextlib.suppress(BlockingIOError):
                while os.read(ears, 512):
                    pass
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        if 0 in there:  # nobody waits for the answer
            _killed(pid)
            os.waitpid(pid, 0)
            sys.exit()
        if prints in there and not printed.read():
            poll.unregister(prints)
        if now >= deadline and not late:
            late = True
            _killed(pid)
    _killed(pid)  # the command is not reaped yet: its group is still its own
    _, status, used = os.wait4(pid, 0)
    for _ in range(_LEFT):
        if not printed.read():
            break
    os.close(prints)
    return {
        "real_s": now - began,
        "user_s": used.ru_utime,
        "sys_s": used.ru_stime,
        "maxrss_B": used.ru_maxrss * 1024,
        "exit_code": os.waitstatus_to_exitcode(status),
        "printed_B": printed.size,
        "last": printed.last.decode(errors="replace"),
        "late": late,
    }


class _Printed:
    """What a command prints: it is counted, and only its end is kept."""

    def __init__(self, end: int) -> None:
        self.end, self.size, self.last = end, 0, b""
        os.set_blocking(end, False)

    def read(self) -> bool:
        """Read a piece; whether there was one."""
        try:
            piece = os.read(self.end, _PIECE_B)
        except BlockingIOError:
            return False
        self.size += len(piece)
        self.last = (self.last + piece)[-_LAST_B:]
        return bool(piece)


def _killed(pid: int) -> None:
    """Kill a child that is not reaped yet, and all processes of its group."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
