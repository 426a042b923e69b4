"""The speed of the servers' disk, as fio measures it."""

import json
import math
from pathlib import Path

from noisefloor.servers.engines import output, which
from noisefloor.servers.sandbox import ServerError, die_with_parent

_FILE_MB = 512
# reads of one page at a time, many reads or writes at once, and a log that syncs every write
_JOBS = {
    "read": ("--rw=randread", "--bs=16k", "--iodepth=1", "--direct=1"),
    "reads": ("--rw=randread", "--bs=16k", "--iodepth=32", "--direct=1"),
    "writes": ("--rw=randwrite", "--bs=16k", "--iodepth=32", "--direct=1"),
    "sync": ("--rw=write", "--bs=4k", "--iodepth=1", "--fdatasync=1"),
}


def run_fio(folder: Path, seconds: float) -> str:
    """What fio prints (JSON) of the disk under `folder`: four jobs of so many `seconds` each, on a
    file of 512 MiB, which is then removed. Raises ServerError."""
    if not (program := which("fio")):
        raise ServerError("fio is missing: apt-get install fio")
    file = folder / "fio.data"
    argv = [program, "--output-format=json", "--ioengine=libaio", f"--filename={file.name}"]
    argv += [f"--size={_FILE_MB}m", "--time_based", f"--runtime={round(1000 * seconds)}ms"]
    for name, options in _JOBS.items():
        argv += [f"--name={name}", "--stonewall", *options]
    try:
        ran = output(*argv, timeout=60 + 8 * seconds, cwd=folder, preexec_fn=die_with_parent)
    finally:
        file.unlink(missing_ok=True)
    if ran.returncode:
        raise ServerError(f"fio failed: {(ran.stderr.strip().splitlines() or ['no word'])[-1]}")
    return ran.stdout


def fio_facts(printed: str) -> dict[str, float]:
    """The facts in fio's JSON: `read_us` and `read_p99_us` (one page of 16 KiB at a time),
    `reads_per_s` and `writes_per_s` (32 at once), `sync_us` and `sync_p99_us` (4 KiB written and
    synced). Raises ServerError for any other text."""
    try:
        jobs = {job["jobname"]: job for job in json.loads(printed[printed.index("{") :])["jobs"]}
        read, sync = jobs["read"]["read"], jobs["sync"]
        values = {
            "read_us": read["clat_ns"]["mean"] / 1e3,
            "read_p99_us": read["clat_ns"]["percentile"]["99.000000"] / 1e3,
            "reads_per_s": jobs["reads"]["read"]["iops"],
            "writes_per_s": jobs["writes"]["write"]["iops"],
            "sync_us": sync["sync"]["lat_ns"]["mean"] / 1e3,
            "sync_p99_us": sync["sync"]["lat_ns"]["percentile"]["99.000000"] / 1e3,
        }
        numbers = {name: float(value) for name, value in values.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise ServerError(f"fio printed what is not understood ({e!r})") from None
    if not all(math.isfinite(n) and n > 0 for n in numbers.values()):
        raise ServerError("fio measured nothing")
    return {name: round(n, 1) for name, n in numbers.items()}
