"""Proof, kept with each run, that an arm is really in force. A contradiction is an error."""

import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from noisefloor.servers import kinds
from noisefloor.servers.kinds import mysql
from noisefloor.servers.server import Server, SettingError
from noisefloor.servers.session import SCHEMA

PLAIN, ENCRYPTED = "plain", "encrypted"
AGAIN = 4  # times that a row is planted anew before a file is said not to hold it in clear
# where a committed row could be read in clear: files of the data directory, and whether the place
# holds what a row was before a change
FILES = {
    "table file": ((f"{SCHEMA}/canary.ibd",), False),
    "redo log": (("#innodb_redo/#ib_redo*", "ib_logfile*"), False),
    "undo log": (("undo_*", "undo0*", "ibdata1"), True),
    "doublewrite": (("#ib_*.dblwr",), False),
}


class EvidenceError(Exception):
    """Evidence that contradicts the arm: what was expected, what was found."""


def collect(server: Server, expect: Mapping[str, str]) -> dict:
    """The evidence for each expected state: {"checks": [{evidence, check, expected, found}]}.

    Raises EvidenceError when one contradicts."""
    checks = []
    words = _planted(server) if FILES.keys() & expect.keys() else ("", "")
    # files first: other checks change the row, and an undo page in clear passes the doublewrite
    for name, expected in sorted(expect.items(), key=lambda x: x[0] not in FILES):
        if name in FILES:
            found = _in_files(server, name, words)
        else:
            found = CHECKS[name](server) if name in CHECKS else variable(server, name, expected)
        for _ in range(AGAIN):  # what is written next may overwrite a canary in clear
            if name not in FILES or expected != PLAIN or PLAIN in found.values():
                break
            words = _planted(server)
            found = _in_files(server, name, words)
        checks += [check(name, how, expected, state) for how, state in found.items()]
    return {"checks": agree(checks)}


def check(evidence: str, how: str, expected: str, found: str) -> dict[str, str]:
    """A check as it stands in evidence.json."""
    return {"evidence": evidence, "check": how, "expected": expected, "found": found}


def agree(checks: list[dict]) -> list[dict]:
    """The checks. Raises EvidenceError when one contradicts."""
    for c in checks:
        if c["found"] != c["expected"]:
            raise EvidenceError(
                f"the {c['evidence']} should be {c['expected']}, but {c['check']} says {c['found']}"
            )
    return checks


def variable(server: Server, name: str, expected: str) -> dict[str, str]:
    """A global variable as it is read back, in the words of `expected` where they mean the same."""
    try:
        server.check({name: expected})
        found = expected
    except SettingError:
        found = server.variables().get(name, "no such variable")
    return {f"@@global.{name}": found}


# -- files -----------------------------------------------------------------------------------------


def plant(server: Server) -> str:
    """A random word committed to the server: the canary to look for in its files. Every server of
    a replication pair has a row of its own, so that neither stops the other's applier."""
    canary = "canary" + secrets.token_hex(16)
    server.query(f"REPLACE INTO {SCHEMA}.canary VALUES (@@server_id, :word)", word=canary)
    return canary


def _planted(server: Server) -> tuple[str, str]:
    """A row that was committed, replaced by another one and written to all files: both words."""
    words = plant(server), plant(server)
    server.write_out()
    return words


def _in_files(server: Server, name: str, words: tuple[str, str]) -> dict[str, str]:
    """Whether the canary can be read in the files of that name."""
    patterns, replaced = FILES[name]
    # a redo log may hold only the bytes in which a row differs from the one that it replaced
    word = (words[0] if replaced else words[1])[-16:]
    kept = {g: sorted(server.datadir.glob(g)) for g in patterns}
    seen = any(word.encode() in _read(p) for files in kept.values() for p in files)
    where = ", ".join(g for g, files in kept.items() if files)
    return {f"{'replaced ' * replaced}canary row in {where}": PLAIN if seen else ENCRYPTED}


def _read(path: Path, n: int = -1, at: int = 0) -> bytes:
    with open(path, "rb") as f:
        f.seek(max(0, at))
        return f.read(n)


def binlog(server: Server) -> dict[str, str]:
    """State of the binary log being written, by three checks."""
    kind = kinds.of(server.engine.kind)
    at = server.query(kind.binlog_status(server.engine.version))[0]
    base = server.query("SELECT @@global.log_bin_basename AS b")[0]["b"]
    path = Path(base).parent / at["File"]
    found = _states(kind.binlog_encrypted(server, path.name, _read(path, 4096)))
    seen = plant(server).encode() in _read(path, at=int(at["Position"]) - 65536)
    found["canary row in the file"] = PLAIN if seen else ENCRYPTED
    return found


def _states(checks: kinds.Checks) -> dict[str, str]:
    """Check -> encrypted, plain or neither."""
    return {k: {True: ENCRYPTED, False: PLAIN, None: "neither"}[v] for k, v in checks.items()}


def magic(where: str, head: bytes) -> dict[str, str]:
    """State of MySQL's binary or relay log by its first four bytes."""
    return _states(mysql.magic(where, head))


def relay_log(server: Server) -> dict[str, str]:
    """State of the relay log that the replica reads, by its first bytes."""
    newest = max(server.datadir.glob("*relay-bin.[0-9]*"), key=lambda p: p.stat().st_mtime_ns)
    return magic("first four bytes of the relay log", _read(newest, 4))


# -- what the server says --------------------------------------------------------------------------


def keyring(server: Server) -> dict[str, str]:
    """Whether the keyring is active."""
    check, state = kinds.of(server.engine.kind).keyring(server)
    return {check: state}


def tablespace(server: Server) -> dict[str, str]:
    """What the server says of the tables' files, all of them."""
    check, asked = kinds.of(server.engine.kind).tables_encrypted()
    flags = server.query(f"{asked} WHERE t.NAME LIKE '{SCHEMA}/%'")
    found = {ENCRYPTED if r["v"] else PLAIN for r in flags}
    return {f"{check} of {len(flags)} tables": found.pop() if len(found) == 1 else "mixed"}


def tls(server: Server) -> dict[str, str]:
    """Whether a connection like the measuring tool's is encrypted."""
    return {"Ssl_cipher of a connection like the tool's": server.cipher() or "off"}


def thread_pool(server: Server) -> dict[str, str]:
    """Whether connections are served by a pool of threads."""
    how = server.variables()["thread_handling"]
    active = how == "pool-of-threads" or server.plugin("thread_pool") == "active"
    pooled = how in ("loaded-dynamically", "pool-of-threads")
    said = "on" if pooled else "off"
    check = f"plugin thread_pool and thread_handling={how}"
    return {check: said if active == pooled else "in contradiction"}


def measuring_user(server: Server) -> dict[str, str]:
    """Whether the measuring user could pass by the thread pool's limits."""
    held = server.query(
        "SELECT PRIVILEGE_TYPE AS p FROM information_schema.user_privileges"
        " WHERE GRANTEE LIKE '%noisefloor%' AND PRIVILEGE_TYPE IN"
        " ('TP_CONNECTION_ADMIN', 'SUPER', 'CONNECTION ADMIN')"
    )
    found = "without TP_CONNECTION_ADMIN"
    if named := " and ".join(r["p"] for r in held):
        found = f"allowed {named}, which passes by the pool's limits"
    return {"information_schema.user_privileges": found}


def memory(server: Server) -> dict[str, str]:
    """Whether the server sized its buffer pool and redo log by the machine (dedicated_server)."""
    on = server.variables().get("innodb_dedicated_server", "OFF") == "ON"
    return {"innodb_dedicated_server": "sized by the server" if on else "sized by hand"}


def redo_capacity(server: Server) -> dict[str, str]:
    """How much redo log the server may keep: more of it is faster writing."""
    v = server.variables()
    size = int(v.get("innodb_log_file_size", 0)) * int(v.get("innodb_log_files_in_group", 1))
    size = int(v.get("innodb_redo_log_capacity", size))
    return {"capacity of the redo log": f"{round(size / 2**20)} MiB"}


def allocator(server: Server) -> dict[str, str]:
    """The library that gives the server its memory: the first that its process has loaded."""
    maps = Path(f"/proc/{server.pid}/maps").read_text()
    loaded = set(re.findall(r"/lib(jemalloc|tcmalloc|mimalloc)[^/\s]*$", maps, re.M))
    first = [n for n in ("jemalloc", "mimalloc", "tcmalloc") if n in loaded]
    return {"libraries of the process": (first or ["the C library's"])[0]}


CHECKS = {
    "binlog": binlog,
    "relay log": relay_log,
    "keyring": keyring,
    "tablespace": tablespace,
    "TLS": tls,
    "thread pool": thread_pool,
    "measuring user": measuring_user,
    "memory": memory,
    "redo capacity": redo_capacity,
    "allocator": allocator,
}
