"""Command lines of the measuring tools. Nothing here starts anything."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .study import MASK_AES, Workload

SCHEMA = "noisefloor"


def option_file(
    user: str, password: str, socket: Path, port: int | None = None, host: str = "127.0.0.1"
) -> str:
    """Text of a sysbench --config-file: the secrets, which must never stand in argv."""
    where = f"mysql-host={host}\nmysql-port={port}\n" if port else f"mysql-socket={socket}\n"
    return f"mysql-user={user}\nmysql-password={password}\nmysql-db={SCHEMA}\n{where}"


def statements(given: Iterable[str], tables: int) -> list[str]:
    """`given`, one for every table where {table} stands in it: the canary's and `tables` of sysbench's."""
    names = [f"{SCHEMA}.{n}" for n in ("canary", *(f"sbtest{i + 1}" for i in range(tables)))]
    return [
        s.replace("{table}", n) for s in given for n in (names if "{table}" in s else names[:1])
    ]


def prepare(
    option_file: Path, name: str, tables: int, rows: int, threads: int = 2, sized: bool = True
) -> list[str]:
    """argv that loads the tables."""
    return [
        "sysbench",
        script(name, option_file),
        f"--config-file={option_file}",
        *_size(tables, rows, sized),
        f"--threads={threads}",
        "prepare",
    ]


def _size(tables: int, rows: int, sized: bool) -> list[str]:
    return [f"--tables={tables}", f"--table-size={rows}"] if sized else []


def sysbench(
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
    return [
        "sysbench",
        script(workload.script, option_file),
        f"--config-file={option_file}",
        *_size(tables, round(rows * workload.share), workload.sized),
        f"--threads={threads}",
        *length,
        "--report-interval=1",
        "--histogram=on",
        "--percentile=99",
        *workload.options,
        *options,
        "run",
    ]


# -- a backup as a pipe of processes ----------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """One process of a pipe. `env` is added to its environment."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


def backup(
    copy: str, option_file: Path, data: Path, how: Mapping[str, str], password: Path, threads: int
) -> list[Stage]:
    """The stages whose last one prints the archive.

    copy: `mariabackup` or `xtrabackup` (the server in `option_file`, `data` for scratch files), or
    `tar` (of the folder `data`). how: `cipher` (as openssl calls it, or none) and optionally
    `bufsize`, `mask`. password: a file with the passphrase; it never stands in argv."""
    if copy == "tar":
        first = Stage("tar", ("tar", "-c", "-C", str(data), "."))
    else:
        argv = (copy, f"--defaults-file={option_file}", "--backup", "--stream=xbstream")
        first = Stage(copy, (*argv, f"--target-dir={data}"))
    return [first, Stage("zstd", ("zstd", "-q", f"-T{threads}", "-c")), *_enc(how, password)]


def restore(copy: str, folder: Path, how: Mapping[str, str], password: Path) -> list[Stage]:
    """The stages that read an archive of `backup` and unpack it into `folder`."""
    unpack = {
        "tar": ("tar", "-x", "-C", str(folder)),
        "mariabackup": ("mbstream", "-x", "-C", str(folder)),
        "xtrabackup": ("xbstream", "-x", "-C", str(folder)),
    }[copy]
    stages = [Stage("zstd", ("zstd", "-q", "-d", "-c")), Stage(unpack[0], unpack)]
    return [*_enc(how, password, "-d"), *stages]


def _enc(how: Mapping[str, str], password: Path, *direction: str) -> list[Stage]:
    if how["cipher"] == "none":
        return []
    argv = ("openssl", "enc", *direction, f"-{how['cipher']}", "-pbkdf2", "-salt")
    size = ("-bufsize", how["bufsize"]) if "bufsize" in how else ()
    return [Stage("openssl", (*argv, "-pass", f"file:{password}", *size), _masked(how))]


def _masked(how: Mapping[str, str]) -> Mapping[str, str]:
    return MASK_AES if how.get("mask") == "AES" else {}


def speed(how: Mapping[str, str], seconds: int, decrypt: bool = False) -> Stage:
    """A cipher alone in memory, in blocks of 8 KiB as `openssl enc` reads them. It prints bytes a
    second of its own processor time (user)."""
    argv = ("openssl", "speed", "-mr", "-seconds", str(seconds), "-bytes", "8192")
    more = ("-decrypt",) if decrypt else ()
    return Stage("openssl", (*argv, "-evp", how["cipher"], *more), _masked(how))


def script(name: str, option_file: Path | None = None) -> str:
    """A sysbench script: one of its own by name, or the path of the user's or of ours (``*.lua``);
    the user's lies beside the folders of the servers."""
    if name.endswith(".lua"):
        theirs = option_file.parents[1:2] if option_file else ()
        for folder in (*theirs, Path(__file__).parent / "lua"):
            if (folder / name).is_file():
                return str(folder / name)
    return name


def shown(argv: list[str]) -> list[str]:
    """argv as it may be written down: without the folders of this machine."""
    return [
        f"--config-file={Path(a.partition('=')[2]).name}"
        if a.startswith("--config-file=")
        else Path(a).name
        if a.endswith(".lua")
        else a
        for a in argv
    ]
