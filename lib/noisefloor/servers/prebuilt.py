"""Loaded data directories in ``.loaded/``: loading gigabytes takes minutes, a copy seconds. The
oldest ones are deleted when they take too much room."""

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from noisefloor import paths
from noisefloor.servers.server import Server

_WORTH_S = 20  # what loads faster is not kept
_MOST_B = 24 << 30  # of all that is kept
_PARTS = ("data", "client.cnf", "sysbench.cnf", "keyring")


def take(server: Server, content: Iterable[object], make: Callable[[], None]) -> None:
    """Give a server without files the data directory with this `content`: the kept one, else what
    `make` makes. A kept one may be copied, but never started."""
    key = hashlib.sha256(json.dumps(list(content), default=str).encode()).hexdigest()[:16]
    folder = paths.prebuilt() / key
    if not (folder / "data").is_dir():
        began = time.monotonic()
        make()
        if time.monotonic() - began < _WORTH_S or not _keep(server.folder, folder):
            return
    else:
        server.folder.mkdir(mode=0o700)
    os.utime(folder)
    server.datadir = folder / "data"
    server.take_over(folder)


def _keep(made: Path, folder: Path) -> bool:
    """Move the files of a loaded server to `folder`, all or nothing; returns whether it did."""
    size = size_of(made)
    olds = sorted(paths.prebuilt().glob("*/"), key=lambda p: p.stat().st_mtime)
    sizes = {old: size_of(old) for old in olds}
    for old in olds:
        if sum(sizes.values()) + size <= _MOST_B:
            break
        shutil.rmtree(old)
        del sizes[old]
    if sum(sizes.values()) + size > _MOST_B:
        return False
    new = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700, parents=True)
    for name in _PARTS:
        with contextlib.suppress(FileNotFoundError):
            (made / name).rename(new / name)
    new.rename(folder)
    return True


def size_of(folder: Path) -> int:
    """Bytes that a folder takes on disk."""
    return sum(p.lstat().st_blocks * 512 for p in folder.rglob("*") if p.is_file())
