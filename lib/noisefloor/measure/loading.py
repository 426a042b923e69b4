"""What is made and measured once, before the first block: loaded data directories, the build,
the speed of its ciphers."""

import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisefloor import schedule
from noisefloor.data import tidy
from noisefloor.measure import child, workloads
from noisefloor.measure.child import ToolError, last_words, run
from noisefloor.model import Arm, Study
from noisefloor.servers import innodb, prebuilt
from noisefloor.servers.engines import Engine, beside, label
from noisefloor.servers.sandbox import secret_file
from noisefloor.servers.server import Server, ServerError
from noisefloor.servers.session import SCHEMA, option_file

# -- loaded data directories -----------------------------------------------------------------------


def templates(study: Study, builds: Mapping[str, Engine], folder: Path) -> dict[str, Server]:
    """Stopped servers with loaded data directories to copy from, by arm name ("": the baseline's);
    they are never started again. `builds`: by the engine that an arm names. Two are made at a time.
    What takes long to load is kept in ``.loaded/`` for later campaigns. Raises ServerError."""
    arms = study.compared
    names = {name: n for n, name in enumerate(dict.fromkeys(a.engine for a in arms))}

    def loaded(name: str) -> Server:
        server = Server(
            builds[name], folder / f"base{names[name]}", study.settings, keyring=study.keyring
        )

        def make() -> None:
            server.initialise()
            with server:
                fill_database(server, study)
                server.stop()

        prebuilt.take(server, _content(study, server), make)
        return server

    with ThreadPoolExecutor(2) as both:
        bases = dict(zip(names, both.map(loaded, names), strict=True))

        def prepared(arm: Arm) -> Server:
            base = bases[arm.engine]
            if not arm.prepare:
                return base
            server = base.sibling(folder / f"base-{schedule.slug(arm.name)}", arm.settings)

            def make() -> None:
                base.copy_to(server)
                with server:
                    for statement in workloads.statements(arm.prepare, study.tables):
                        server.patient(statement)
                    innodb.shrink_redo(server)
                    server.stop()

            prebuilt.take(server, [*_content(study, server), *arm.prepare], make)
            return server

        by_arm = dict(zip([a.name for a in arms], both.map(prepared, arms), strict=True))
    return by_arm | dict.fromkeys(("", study.control.name), by_arm[study.baseline.name])


def _content(study: Study, server: Server) -> list[object]:
    """What a loaded data directory depends on."""
    first, engine = study.workloads[0], server.engine
    script = Path(workloads.script(first.script, server.folder / "sysbench.cnf"))
    text = script.read_text(errors="replace") if script.suffix == ".lua" else str(script)
    several = not first.sized and max(first.threads)  # as `prepare_argv` has it
    size = (study.tables, study.profile.rows, first.sized, several, study.keyring)
    return [label(engine), engine.command, sorted(server.settings.items()), text, *map(str, size)]


def place_script(lua: str, study: Study, folder: Path) -> None:
    """Copy the user's own script (`lua`: its path, "" for none) into `folder`, beside the folders of
    the servers, where `workloads.script` looks."""
    if lua:
        shutil.copyfile(lua, folder / study.workloads[0].script)


def fill_database(server: Server, study: Study) -> None:
    """Create the schema, the canary's table, a measuring user with rights on the schema only (its
    password is in ``sysbench.cnf``), and the sysbench tables. Raises ServerError."""
    secret = secrets.token_urlsafe(18)
    server.script(
        f"CREATE DATABASE IF NOT EXISTS {SCHEMA}",
        f"CREATE TABLE {SCHEMA}.canary (id INT PRIMARY KEY, word VARCHAR(80)) ENGINE=InnoDB",
        f"CREATE USER noisefloor@localhost IDENTIFIED BY '{secret}'",
        f"GRANT ALL ON {SCHEMA}.* TO noisefloor@localhost",
    )
    secret_file(server.folder / "sysbench.cnf", option_file("noisefloor", secret, server.socket))
    fill(server, study)
    if server.variables()["log_bin"] == "ON":
        server.script(server.kind.reset_binlog(server.engine.version))
    innodb.shrink_redo(server)


def fill(server: Server, study: Study) -> None:
    """Load the tables of the first workload's script, or of oltp_read_write if that script has no
    `prepare`. Raises ServerError."""
    options = server.folder / "sysbench.cnf"
    first = study.workloads[0]
    size = (study.tables, study.profile.rows)
    code, text, _ = run(workloads.prepare_argv(options, first, *size), 1800)
    if code and "implement the 'prepare' command" in text:
        usual = replace(first, script="oltp_read_write", sized=True)
        code, text, _ = run(workloads.prepare_argv(options, usual, *size), 1800)
    if code:
        raise ServerError(f"loading the tables failed: {last_words(text)}")


# tests of sysbench that ask no server anything
_NO_SERVER = {"cpu", "fileio", "memory", "mutex", "threads"}


def sized(script: str) -> bool:
    """Whether a sysbench script takes the tables' number and size. Raises ToolError for what
    sysbench cannot read as a script, and for its tests without a server."""
    _, text, _ = run(["sysbench", script, "help"], 20)
    if "FATAL" in text or script in _NO_SERVER:
        why = "it asks no server anything" if script in _NO_SERVER else last_words(text)
        raise ToolError(
            f"{Path(script).name} is not a workload for a server: {why}; allowed are sysbench's"
            " scripts, such as oltp_read_write, oltp_point_select or oltp_write_only, and Lua files"
        )
    return "--tables=" in text and "--table_size=" in text.replace("table-size", "table_size")


def checksums(server: Server) -> dict[str, object]:
    """Table -> CHECKSUM TABLE, of every table in the measuring schema."""
    tables = server.query(
        "SELECT TABLE_NAME AS t FROM information_schema.tables WHERE TABLE_SCHEMA = :schema",
        schema=SCHEMA,
    )
    names = ", ".join(f"{SCHEMA}.{r['t']}" for r in tables)
    return {r["Table"]: r["Checksum"] for r in server.patient(f"CHECKSUM TABLE {names}")}


# -- what an arm is on this machine ----------------------------------------------------------------


_VARIABLES = {
    "release": "version_comment",
    "machine": "version_compile_machine",
    "system": "version_compile_os",
    "zlib": "version_compile_zlib",
    "allocator": "version_malloc_library",
}
_LIBS = r"lib(?:ssl|crypto|z|stdc\+\+|c|jemalloc|tcmalloc\w*|mimalloc|aio|uring)[-.\d]*\.so[.\d]*"


def built(server: Server) -> dict[str, str]:
    """How the program of a running server was made: what it reports, the compilers that its file names,
    and the libraries that it has loaded. Unknown facts are left out."""
    variables = server.variables()
    facts = {k: variables[v] for k, v in _VARIABLES.items() if variables.get(v)}
    status = {r["Variable_name"].lower(): r["Value"] for r in server.query("SHOW GLOBAL STATUS")}
    tls = status.get("tls_library_version") or variables.get("version_ssl_library")
    facts |= {"OpenSSL": tls} if tls else {}
    maps = Path(f"/proc/{server.pid}/maps").read_text().splitlines()
    loaded = {Path(m.split(maxsplit=5)[5]) for m in maps if "/" in m}
    named: set[bytes] = set()
    for program in (p for p in loaded if p.name in ("mysqld", "mariadbd")):
        text = program.read_bytes()
        named |= set(re.findall(rb"GCC: \([^)]{1,60}\) [\d.]+|clang version [\d.]+", text))
    facts |= {"compiler": ", ".join(sorted(n.decode() for n in named))} if named else {}
    libraries = sorted(p.name for p in loaded if re.fullmatch(_LIBS, p.name))
    return facts | {"libraries": ", ".join(libraries)}


def upgrade(old: Server, build: Engine, folder: Path) -> dict[str, Any]:
    """Open a copy of a stopped server's data directory with another build: `from`, `to` (labels),
    `took_s` (seconds until it answers), `checksums` of all tables (equal or different), `said` (log
    lines on errors and upgrades). If it does not start: took_s None, checksums "", `refused`: why."""
    result: dict[str, Any] = {"from": label(old.engine), "to": label(build)}
    result |= {"took_s": None, "checksums": ""}
    with old.trial(folder / "before") as before:
        sums = checksums(before)
        before.stop()
        after = before.copy(folder / "after")
    after.engine = build
    try:
        result["took_s"] = round(after.start(timeout=600), 2)
        result["checksums"] = "equal" if checksums(after) == sums else "different"
    except ServerError as e:
        result["refused"] = str(e)
    finally:
        lines = (after.folder / "error.log").read_text(errors="replace").splitlines()
        telling = (line for line in lines if re.search(r"\[ERROR\]|[Uu]pgrad", line))
        result["said"] = [line.split(" ", 2)[-1] for line in telling]  # without their times
        after.remove()
    return result


# -- how fast this machine's openssl is ------------------------------------------------------------


def _thrice(*argv: str) -> list[str]:
    """What a program prints, three times."""
    return [run([*argv], child.PATIENCE_S)[1] for _ in range(3)]


def cipher_rates(cipher: Mapping[str, str], engine: Engine | None = None) -> list[float]:
    """Bytes a second of CPU time of a cipher in memory, by `openssl speed` with the libraries of a
    build (None: the machine's own): three values, a second each; [] if these lack the cipher.
    `cipher`: its `name`; with `option` "-decrypt" decryption is measured."""
    argv: Sequence[str] = workloads.speed(cipher["name"], cipher.get("option") == "-decrypt")
    argv = beside(engine, *argv) if engine else argv
    return [rate for rate in map(tidy.cipher_rate, _thrice(*argv)) if rate]


def openssl(engine: Engine | None) -> str:
    """The version of a build's OpenSSL (None: the machine's), as in ``3.6.0``; "" if not known."""
    argv = beside(engine, "openssl", "version") if engine else ["openssl", "version"]
    printed = run(argv, child.PATIENCE_S)[1]
    versions = re.findall(r"OpenSSL (\d+\.\d+\.\w+)", printed)  # the program's, its library's
    return versions[-1] if versions else ""


def signature_rates(keys: set[str], engine: Engine) -> dict[str, list[float]]:
    """{key: signatures a second of CPU time}, by `openssl speed` with the libraries of a build: three
    values, a second each; without the keys that these lack."""
    by_key: dict[str, list[float]] = {}
    for key in sorted(keys):
        name = "ecdsap256" if key == "P-256" else key.lower().replace(" ", "")
        texts = _thrice(*beside(engine, "openssl", "speed", "-mr", "-seconds", "1", name))
        lines = (re.search(r"^\+F[24]:\d+:\d+:([\d.]+):", t, re.M) for t in texts)
        rates = [float(m[1]) for m in lines if m]
        by_key |= {key: rates} if len(rates) == len(texts) else {}
    return by_key
