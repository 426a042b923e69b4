"""Proof, kept with each run, that an arm's settings are active. A contradiction is an error."""

import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from noisefloor.servers import innodb
from noisefloor.servers.kinds import Checks, mysql
from noisefloor.servers.server import Server
from noisefloor.servers.session import SCHEMA, SettingError, query_as

PLAIN, ENCRYPTED = "plain", "encrypted"
AGAIN = 4  # times that a row is written anew before a file counts as without it in clear
# where a committed row could be read in clear: (files of the data directory, whether they hold the
# version of a row from before a change)
FILES: dict[str, tuple[tuple[str, ...], bool]] = {
    "table file": ((f"{SCHEMA}/canary.ibd",), False),
    "redo log": (("#innodb_redo/#ib_redo*", "ib_logfile*"), False),
    "undo log": (("undo_*", "undo0*", "ibdata1"), True),
    "doublewrite": (("#ib_*.dblwr",), False),
}


class EvidenceError(Exception):
    """Evidence that contradicts the arm: the expected and the found state."""


def collect(server: Server, expect: Mapping[str, str]) -> dict[str, list[dict[str, str]]]:
    """The evidence for each expected state: {"checks": [{evidence, check, expected, found}]}.
    Raises EvidenceError when one contradicts."""
    checks: list[dict[str, str]] = []
    words = _planted(server) if FILES.keys() & expect.keys() else ("", "")
    # files first: other checks change the row, and undo pages in clear then go to the doublewrite
    for name, expected in sorted(expect.items(), key=lambda x: x[0] not in FILES):
        if name in FILES:
            states = _in_files(server, name, words)
        else:
            states = _CHECKS[name](server) if name in _CHECKS else _variable(server, name, expected)
        for _ in range(AGAIN):  # a later write may overwrite a canary in clear
            if name not in FILES or expected != PLAIN or PLAIN in states.values():
                break
            words = _planted(server)
            states = _in_files(server, name, words)
        checks += [check(name, how, expected, state) for how, state in states.items()]
    return {"checks": agree(checks)}


def check(evidence: str, how: str, expected: str, found: str) -> dict[str, str]:
    """A check in the form of evidence.json."""
    return {"evidence": evidence, "check": how, "expected": expected, "found": found}


def agree(checks: list[dict[str, str]]) -> list[dict[str, str]]:
    """The checks, unchanged. Raises EvidenceError when one contradicts."""
    for row in checks:
        if row["found"] != row["expected"]:
            raise EvidenceError(
                f"the {row['evidence']} should be {row['expected']}, but {row['check']} says"
                f" {row['found']}"
            )
    return checks


def _variable(server: Server, name: str, expected: str) -> dict[str, str]:
    """A global variable as it is read back, in the words of `expected` where they mean the same."""
    try:
        server.check({name: expected})
        state = expected
    except SettingError:
        state = server.variables().get(name, "no such variable")
    return {f"@@global.{name}": state}


# -- files -----------------------------------------------------------------------------------------


def plant(server: Server) -> str:
    """A random word committed to the server, to look for in its files. Every server of a
    replication pair has a row of its own, so that neither stops the other's applier."""
    canary = "canary" + secrets.token_hex(16)
    server.query(f"REPLACE INTO {SCHEMA}.canary VALUES (@@server_id, :word)", word=canary)
    return canary


def _planted(server: Server) -> tuple[str, str]:
    """Words of a row that was committed and of the one that replaced it, written to all files."""
    words = plant(server), plant(server)
    innodb.write_out(server)
    return words


def _in_files(server: Server, name: str, words: tuple[str, str]) -> dict[str, str]:
    """Whether a word of `_planted` can be read in the files `name`; `no such file` if there is none."""
    patterns, replaced = FILES[name]
    # a redo log may hold only the bytes in which a row differs from the one that it replaced
    word = (words[0] if replaced else words[1])[-16:]
    by_pattern = {g: sorted(server.datadir.glob(g)) for g in patterns}
    seen = any(word.encode() in _read(p) for files in by_pattern.values() for p in files)
    where = ", ".join(g for g, files in by_pattern.items() if files)
    state = (PLAIN if seen else ENCRYPTED) if where else "no such file"
    return {f"{'replaced ' * replaced}canary row in {where or ', '.join(patterns)}": state}


def _read(path: Path, n: int = -1, at: int = 0) -> bytes:
    with open(path, "rb") as f:
        f.seek(max(0, at))
        return f.read(n)


def _binlog(server: Server) -> dict[str, str]:
    """State of the binary log being written, by what the server says, its first bytes, a canary."""
    at = server.query(server.kind.binlog_status(server.engine.version))[0]
    base = server.query("SELECT @@global.log_bin_basename AS b")[0]["b"]
    path = Path(base).parent / at["File"]
    states = _states(server.kind.binlog_encrypted(server, path.name, _read(path, 4096)))
    seen = plant(server).encode() in _read(path, at=int(at["Position"]) - 65536)
    states["canary row in the file"] = PLAIN if seen else ENCRYPTED
    return states


def _states(checks: Checks) -> dict[str, str]:
    """Check -> encrypted, plain or neither."""
    words = {True: ENCRYPTED, False: PLAIN, None: "neither"}
    return {how: words[state] for how, state in checks.items()}


def magic(where: str, head: bytes) -> dict[str, str]:
    """State of MySQL's binary or relay log by its first four bytes."""
    return _states(mysql.magic(where, head))


def _relay_log(server: Server) -> dict[str, str]:
    """State of the relay log that the replica reads, by its first bytes."""
    newest = max(server.datadir.glob("*relay-bin.[0-9]*"), key=lambda p: p.stat().st_mtime_ns)
    return magic("first four bytes of the relay log", _read(newest, 4))


# -- what the server says --------------------------------------------------------------------------


def keyring(server: Server) -> dict[str, str]:
    """Whether the keyring is active."""
    how, state = server.kind.keyring(server)
    return {how: state}


def _tablespace(server: Server) -> dict[str, str]:
    """What the server says of the files of all tables; `mixed` if they differ."""
    how, asked = server.kind.TABLES
    flags = server.query(f"{asked} WHERE t.NAME LIKE '{SCHEMA}/%'")
    states = {ENCRYPTED if r["v"] else PLAIN for r in flags}
    return {f"{how} of {len(flags)} tables": states.pop() if len(states) == 1 else "mixed"}


def _tls(server: Server) -> dict[str, str]:
    """The cipher of a connection like the measuring tool's; `off` if it is not encrypted."""
    asked = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"
    (answer,) = query_as(server, "noisefloor", server.password, asked)
    return {"Ssl_cipher of a connection like the tool's": answer["Value"] or "off"}


def _thread_pool(server: Server) -> dict[str, str]:
    """Whether connections are served by a pool of threads."""
    how = server.variables()["thread_handling"]
    active = how == "pool-of-threads" or server.plugin("thread_pool") == "active"
    pooled = how in ("loaded-dynamically", "pool-of-threads")
    state = ("on" if pooled else "off") if active == pooled else "in contradiction"
    return {f"plugin thread_pool and thread_handling={how}": state}


def _measuring_user(server: Server) -> dict[str, str]:
    """Whether the measuring user has a privilege that bypasses the thread pool's limits."""
    privileges = server.query(
        "SELECT PRIVILEGE_TYPE AS p FROM information_schema.user_privileges"
        " WHERE GRANTEE LIKE '%noisefloor%' AND PRIVILEGE_TYPE IN"
        " ('TP_CONNECTION_ADMIN', 'SUPER', 'CONNECTION ADMIN')"
    )
    state = "without TP_CONNECTION_ADMIN"
    if named := " and ".join(r["p"] for r in privileges):
        state = f"allowed {named}, which passes by the pool's limits"
    return {"information_schema.user_privileges": state}


def _memory(server: Server) -> dict[str, str]:
    """Whether the server sized its buffer pool and redo log by the machine (dedicated_server)."""
    on = server.variables().get("innodb_dedicated_server", "OFF") == "ON"
    return {"innodb_dedicated_server": "sized by the server" if on else "sized by hand"}


def _redo_capacity(server: Server) -> dict[str, str]:
    """How much redo log the server may keep: more of it makes writing faster."""
    value = server.variables().get
    size = int(value("innodb_log_file_size", 0)) * int(value("innodb_log_files_in_group", 1))
    size = int(value("innodb_redo_log_capacity", size))
    return {"capacity of the redo log": f"{round(size / 2**20)} MiB"}


def _allocator(server: Server) -> dict[str, str]:
    """The memory allocator that the server's process has loaded, else the C library's."""
    maps = Path(f"/proc/{server.pid}/maps").read_text()
    loaded = set(re.findall(r"/lib(jemalloc|tcmalloc|mimalloc)[^/\s]*$", maps, re.M))
    first = [n for n in ("jemalloc", "mimalloc", "tcmalloc") if n in loaded]
    return {"libraries of the process": (first or ["the C library's"])[0]}


_CHECKS = {
    "binlog": _binlog,
    "relay log": _relay_log,
    "keyring": keyring,
    "tablespace": _tablespace,
    "TLS": _tls,
    "thread pool": _thread_pool,
    "measuring user": _measuring_user,
    "memory": _memory,
    "redo capacity": _redo_capacity,
    "allocator": _allocator,
}
