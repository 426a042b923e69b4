"""Command lines of the measuring tools. Nothing here starts anything."""

from pathlib import Path

from .study import Workload

SCHEMA = "noisefloor"


def option_file(user: str, password: str, socket: Path, port: int | None = None) -> str:
    """Text of a sysbench --config-file: the secrets, which must never stand in argv."""
    where = f"mysql-host=127.0.0.1\nmysql-port={port}\n" if port else f"mysql-socket={socket}\n"
    return f"mysql-user={user}\nmysql-password={password}\nmysql-db={SCHEMA}\n{where}"


def prepare(option_file: Path, name: str, tables: int, rows: int, threads: int = 2) -> list[str]:
    """argv that loads the tables."""
    return [
        "sysbench",
        script(name),
        f"--config-file={option_file}",
        f"--tables={tables}",
        f"--table-size={rows}",
        f"--threads={threads}",
        "prepare",
    ]


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
        script(workload.script),
        f"--config-file={option_file}",
        f"--tables={tables}",
        f"--table-size={round(rows * workload.share)}",
        f"--threads={threads}",
        *length,
        "--report-interval=1",
        "--histogram=on",
        "--percentile=99",
        *workload.options,
        *options,
        "run",
    ]


def script(name: str) -> str:
    """A sysbench script: one of its own by name, or the path of one of ours (``*.lua``)."""
    ours = Path(__file__).parent / "lua" / name
    return str(ours) if ours.suffix == ".lua" and ours.exists() else name


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
