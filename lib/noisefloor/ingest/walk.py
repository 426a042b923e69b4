"""The files of a tree, in the order of their names, without following a link out of it."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = (".git", ".hg", ".svn")


def walk(root: Path, out: Path) -> Iterator[tuple[str, int, int, str]]:
    """(path below `root`, bytes, mtime in ns, what) of everything in a tree but `out`; `what` is
    "file", "campaign" (a folder of ours, as a whole), or what it is that is not read.

    A `root` that is a file is a tree of one."""
    if root.is_file():
        s = root.stat()
        yield root.name, s.st_size, s.st_mtime_ns, "file"
        return
    out = out.resolve()
    top = len(str(root)) + (str(root) != "/")
    waiting = [str(root)]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda e: e.name)
        except OSError:
            yield folder[top:], 0, 0, "unreadable folder"
            continue
        if any(e.name == "campaign.json" for e in entries) and _ours(folder):
            yield (folder[top:] or ".", *_whole(folder), "campaign")
            continue
        below = []
        for entry in entries:
            path = entry.path[top:]
            try:
                s = entry.stat(follow_symlinks=False)
            except OSError:  # gone since
                continue
            if stat.S_ISLNK(s.st_mode):
                yield path, 0, s.st_mtime_ns, "symbolic link"
            elif stat.S_ISDIR(s.st_mode):
                if entry.name not in LEFT_OUT and Path(entry.path) != out:
                    below.append(entry.path)
            elif stat.S_ISREG(s.st_mode):
                yield path, s.st_size, s.st_mtime_ns, "file"
            else:
                yield path, 0, s.st_mtime_ns, "no regular file"
        waiting += reversed(below)


def _ours(folder: str) -> bool:
    """Whether campaign.json of a folder is one of ours."""
    try:
        found = json.loads(Path(folder, "campaign.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and {"format", "study", "arms", "workloads"} <= found.keys()


def _whole(folder: str) -> tuple[int, int]:
    """(bytes, newest mtime in ns) of all files below a folder."""
    size = newest = 0
    for parent, _, names in os.walk(folder):
        for s in (os.lstat(p) for p in (parent, *(os.path.join(parent, n) for n in names))):
            size += s.st_size * stat.S_ISREG(s.st_mode)
            newest = max(newest, s.st_mtime_ns)
    return size, newest
