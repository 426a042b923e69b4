"""Proof, kept with each run, that an arm is really in force. A contradiction is an error."""

import secrets
import struct
from collections.abc import Mapping
from pathlib import Path

from .server import Server

SCHEMA = "noisefloor"
PLAIN, ENCRYPTED = "plain", "encrypted"
_MAGIC = {b"\xfebin": PLAIN, b"\xfdbin": ENCRYPTED}
_START_ENCRYPTION = 0xA4


class EvidenceError(Exception):
    """Evidence that contradicts the arm: what was expected, what was found."""


def collect(server: Server, expect: Mapping[str, str]) -> dict:
    """The evidence for each expected state: {"checks": [{evidence, check, expected, found}]}.

    Raises EvidenceError when one contradicts."""
    checks = []
    for name, expected in expect.items():
        for check, found in CHECKS[name](server).items():
            checks.append({"evidence": name, "check": check, "expected": expected, "found": found})
    for c in checks:
        if c["found"] != c["expected"]:
            raise EvidenceError(
                f"the {c['evidence']} should be {c['expected']}, but {c['check']} says {c['found']}"
            )
    return {"checks": checks}


def binlog_position(server: Server) -> tuple[Path, int]:
    """File on disk and position that the binary log is being written at."""
    word = "BINARY LOG" if server.engine.kind == "mysql" else "BINLOG"
    if server.engine.version.startswith("8.0"):
        word = "MASTER"
    row = server.query(f"SHOW {word} STATUS")[0]
    base = server.query("SELECT @@global.log_bin_basename AS b")[0]["b"]
    return Path(base).parent / row["File"], int(row["Position"])


def plant(server: Server) -> str:
    """A random word committed to the server: the canary to look for in its files. Every server of
    a replication pair has a row of its own, so that neither stops the other's applier."""
    canary = "canary" + secrets.token_hex(16)
    server.query(f"REPLACE INTO {SCHEMA}.canary VALUES (@@server_id, :word)", word=canary)
    return canary


def _seen(path: Path, word: str, offset: int = 0) -> str:
    with open(path, "rb") as f:
        f.seek(max(0, offset))
        return PLAIN if word.encode() in f.read() else ENCRYPTED


def binlog(server: Server) -> dict[str, str]:
    """State of the binary log being written, by three checks."""
    path, position = binlog_position(server)
    found = {}
    if server.engine.kind == "mysql":
        rows = {r["Log_name"]: r for r in server.query("SHOW BINARY LOGS")}
        said = rows[path.name].get("Encrypted", "No")
        found["SHOW BINARY LOGS, Encrypted"] = ENCRYPTED if said == "Yes" else PLAIN
        head = _head(path, 4)
        found[f"first four bytes on disk, {head.hex()}"] = _MAGIC.get(head, "neither")
    else:
        found["START_ENCRYPTION event on disk"] = (
            ENCRYPTED if _START_ENCRYPTION in _first_events(_head(path, 4096)) else PLAIN
        )
    canary = plant(server)
    found["canary row in the file"] = _seen(path, canary, position - 65536)
    return found


def _head(path: Path, n: int) -> bytes:
    with open(path, "rb") as f:
        return f.read(n)


def _first_events(data: bytes) -> list[int]:
    """Types of the first two events of a binary log (4 bytes magic, then 19-byte headers)."""
    types, at = [], 4
    while at + 19 <= len(data) and len(types) < 2:
        kind, _, length = struct.unpack_from("<BII", data, at + 4)
        types.append(kind)
        if length < 19:
            break
        at += length
    return types


def keyring(server: Server) -> dict[str, str]:
    """Whether the keyring is active."""
    if server.engine.kind == "mysql":
        rows = server.query(
            "SELECT STATUS_VALUE AS v FROM performance_schema.keyring_component_status"
            " WHERE STATUS_KEY = 'Component_status'"
        )
        return {"keyring component": rows[0]["v"].lower() if rows else "disabled"}
    rows = server.query(
        "SELECT PLUGIN_STATUS AS v FROM information_schema.plugins"
        " WHERE PLUGIN_NAME = 'file_key_management'"
    )
    return {"key management plugin": rows[0]["v"].lower() if rows else "disabled"}


def relay_log(server: Server) -> dict[str, str]:
    """State of the relay log that the replica reads, by its first bytes."""
    newest = max(server.datadir.glob("*relay-bin.[0-9]*"), key=lambda p: p.stat().st_mtime_ns)
    head = _head(newest, 4)
    return {f"first four bytes of the relay log, {head.hex()}": _MAGIC.get(head, "neither")}


CHECKS = {"binlog": binlog, "relay log": relay_log, "keyring": keyring}
