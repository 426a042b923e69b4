"""Command lines of the measuring tools. Nothing here starts anything."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from noisefloor.model import Workload
from noisefloor.servers.session import SCHEMA

PRINTED = ("--report-interval=1", "--histogram=on", "--percentile=99")  # what is read of a run


def statements(given: Iterable[str], tables: int) -> list[str]:
    """`given`, repeated for every table if it has {table}: the canary's and `tables` of sysbench's."""
    names = [f"{SCHEMA}.{n}" for n in ("canary", *(f"sbtest{i + 1}" for i in range(tables)))]
    return [
        s.replace("{table}", n) for s in given for n in (names if "{table}" in s else names[:1])
    ]


def call(name: str, option_file: Path, threads: int, *rest: str) -> list[str]:
    """argv of sysbench with the script `name`; `rest`: its options, and `prepare` or `run`."""
    start = ["sysbench", script(name, option_file), f"--config-file={option_file}"]
    return [*start, f"--threads={threads}", *rest]


def prepare_argv(option_file: Path, workload: Workload, tables: int, rows: int) -> list[str]:
    """argv that loads the tables of a workload's script."""
    threads = 2 if workload.sized else max(workload.threads)  # may load a table for each thread
    size = _size(tables, rows, workload.sized)
    return call(workload.script, option_file, threads, *size, "prepare")


def _size(tables: int, rows: int, sized: bool) -> list[str]:
    return [f"--tables={tables}", f"--table-size={rows}"] if sized else []


def sysbench_argv(
    workload: Workload,
    option_file: Path,
    *,
    tables: int,
    rows: int,
    threads: int,
    seconds: float = 0,
    events: int = 0,
    options: tuple[str, ...] = (),
) -> list[str]:
    """argv of one run: `seconds` long, or `events` transactions when given; `options` are the
    arm's own."""
    length = [f"--events={events}", "--time=0"] if events else [f"--time={seconds:g}"]
    size = _size(tables, round(rows * workload.share), workload.sized)
    rate = (f"--rate={workload.rate}",) if workload.rate else ()
    given = (*size, *length, *rate, *PRINTED, *workload.options, *options)
    return call(workload.script, option_file, threads, *given, "run")


# -- a backup as a pipe of processes ---------------------------------------------------------------


def backup(
    copy: str, option_file: Path, data: Path, how: Mapping[str, str], password: Path, threads: int
) -> list[tuple[str, ...]]:
    """argv of each process of a backup; the last one prints the archive.

    copy: `mariabackup` or `xtrabackup` (the server in `option_file`, `data` for scratch files), or
    `tar` (of the folder `data`). how: `cipher` (as openssl calls it, or none). password: a file
    with the passphrase; it is never in argv. threads: of the compressor."""
    first: tuple[str, ...] = ("tar", "-c", "-C", str(data), ".")
    if copy != "tar":
        first = (copy, f"--defaults-file={option_file}", "--backup", "--stream=xbstream")
        first += (f"--target-dir={data}",)
    return [first, ("zstd", "-q", f"-T{threads}", "-c"), *_enc(how, password)]


def restore(
    copy: str, folder: Path, how: Mapping[str, str], password: Path
) -> list[tuple[str, ...]]:
    """argv of the processes that read an archive of `backup` and unpack it into `folder`."""
    unpack = {"tar": "tar", "mariabackup": "mbstream", "xtrabackup": "xbstream"}[copy]
    stages = _enc(how, password, "-d")
    return [*stages, ("zstd", "-q", "-d", "-c"), (unpack, "-x", "-C", str(folder))]


def _enc(how: Mapping[str, str], password: Path, *direction: str) -> list[tuple[str, ...]]:
    if how["cipher"] == "none":
        return []
    argv = ("openssl", "enc", *direction, f"-{how['cipher']}", "-pbkdf2", "-salt")
    return [(*argv, "-pass", f"file:{password}")]


def speed(cipher: str, decrypt: bool) -> tuple[str, ...]:
    """argv that times a cipher alone in memory, in blocks of 8 KiB as `openssl enc` reads them. It
    prints bytes a second of its own processor time (user)."""
    argv = ("openssl", "speed", "-mr", "-seconds", "1", "-bytes", "8192")
    return (*argv, "-evp", cipher, *(("-decrypt",) if decrypt else ()))


def script(name: str, option_file: Path | None = None) -> str:
    """What sysbench takes as a script: the path of the user's Lua file `name` (in the folder above
    that of `option_file`) or of ours, else `name` itself."""
    theirs = option_file.parents[1:2] if option_file else ()
    for folder in (*theirs, Path(__file__).parent / "lua"):
        if name.endswith(".lua") and (folder / name).is_file():
            return str(folder / name)
    return name


def portable(argv: Iterable[str]) -> list[str]:
    """argv as it may be written down: without the folders of this machine."""
    file = "--config-file="
    return [
        f"{file}{Path(a.removeprefix(file)).name}" if a.startswith(file)
        else Path(a).name if a.endswith(".lua") else a
        for a in argv
    ]  # fmt: skip
