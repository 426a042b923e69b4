"""A disk that is slowed on purpose: a cgroup limits reads and writes of a process."""

import contextlib
import os
from pathlib import Path

from noisefloor.servers.sandbox import ServerError

_GROUPS = Path("/sys/fs/cgroup")


def block_device(folder: Path) -> Path | None:
    """The disk of a folder, as a folder of sysfs; None where there is no single one (overlay)."""
    number = os.stat(folder).st_dev
    block = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not block.exists():
        return None
    block = block.resolve()
    return block.parent if (block / "partition").exists() else block


class Throttle:
    """A cgroup that limits the writes and reads a second of a process on the disk of a folder, from
    `limit` on. pid 0: no process, only to see whether it is allowed.

    Buffered writes escape it: only what is synced waits. Raises ServerError where not allowed."""

    def __init__(self, folder: Path, pid: int = 0):
        device = block_device(folder)
        if device is None:
            raise ServerError("the data directory is not on a block device that can be throttled")
        self.device = (device / "dev").read_text().strip()
        self.v1 = (_GROUPS / "blkio").is_dir()
        parent = _GROUPS / "blkio" if self.v1 else _GROUPS
        self.group = parent / f"noisefloor-{os.getpid()}-{pid or 'try'}"
        self._home = parent / "cgroup.procs"
        try:
            if not self.v1:
                (_GROUPS / "cgroup.subtree_control").write_text("+io")
            self.group.mkdir(exist_ok=True)
            self.limit(100, 100)
            self.limit()
            if pid:
                (self.group / "cgroup.procs").write_text(str(pid))
        except OSError as e:
            self.remove()
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

    def remove(self) -> None:
        """Lift the limit, move the process out and remove the group."""
        with contextlib.suppress(OSError):
            self.limit()
        with contextlib.suppress(OSError):
            for pid in (self.group / "cgroup.procs").read_text().split():
                self._home.write_text(pid)
        with contextlib.suppress(OSError):
            self.group.rmdir()
