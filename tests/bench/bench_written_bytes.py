"""Bytes of small writes, as Linux counts them for the process and as the disk does.

    python tests/bench/bench_written_bytes.py [FOLDER]

A file is made in pieces of 1 MiB, as a redo log may be, or of 4 KiB, the control. Then it gets small
writes, each synced. Takes seconds, and writes data/raw/compared/written-bytes.csv; nothing else
may write to the disk meanwhile.
"""

import argparse
import csv
import os
import platform
import re
import sys
import tempfile
from pathlib import Path

from noisefloor import paths
from noisefloor.measure import tools
from noisefloor.servers import doctor

RAW = paths.root() / "data" / "raw" / "compared" / "written-bytes.csv"
PIECES = (1 << 20, 1 << 12)  # that a file is made in
FILE_B = 64 << 20
WRITES, WRITE_B = 1000, 512


def counted(folder: Path) -> tuple[int, int]:
    """Bytes written so far: by this process, and to the disk of `folder` by anybody."""
    (mine,) = re.findall(r"(?m)^write_bytes: (\d+)", Path("/proc/self/io").read_text())
    return int(mine), tools._disk_bytes(folder)


def measured(folder: Path, piece: int) -> dict[str, object]:
    """The row of a file that is made in pieces of so many bytes."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(FILE_B // piece):
            file.write(bytes(piece))
        os.fsync(file.fileno())
        before = counted(folder)
        for i in range(WRITES):
            os.pwrite(file.fileno(), b"x" * WRITE_B, i * WRITE_B)
            os.fdatasync(file.fileno())
        mine, disk = (round((b - a) / WRITES) for a, b in zip(before, counted(folder), strict=True))
    where = {"kernel": platform.release(), "filesystem": doctor._disk(folder)["filesystem"]}
    sizes = {"piece_B": piece, "writes": WRITES, "write_B": WRITE_B}
    return where | sizes | {"process_B": mine, "disk_B": disk}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=paths.root(), metavar="FOLDER")
    folder = parser.parse_args().folder
    if not folder.is_dir() or not tools._disk_bytes(folder):
        parser.error(f"{folder} is no folder on a single disk; nothing was written")
    rows = [measured(folder, piece) for piece in PIECES]
    with RAW.open("w", newline="") as file:
        for to in (file, sys.stdout):
            table = csv.DictWriter(to, rows[0], lineterminator="\n")
            table.writeheader()
            table.writerows(rows)


if __name__ == "__main__":
    main()
