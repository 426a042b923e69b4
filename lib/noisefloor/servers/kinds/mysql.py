"""Oracle's MySQL, and builds derived from it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisefloor.servers.kinds import Checks

NAME, MAKER = "mysql", "MySQL"
BUILDS = {"mysql": "MySQL 9.7", "mysql-8.0": "MySQL 8.0"}
PACKAGES: tuple[str, ...] = ()
INSTALL: tuple[str, ...] = ()
KEYRING, POOL = "component_keyring_file.so", "thread_pool.so"
REDO = "innodb_redo_log_capacity"
LSN = ("Innodb_redo_log_current_lsn", "Innodb_redo_log_checkpoint_lsn")
RELOAD_TLS = "ALTER INSTANCE RELOAD TLS"
TLS: Mapping[str, str] = {}  # it uses files of these names by default
REPLICA = "SHOW REPLICA STATUS"
TABLES = (
    "information_schema.innodb_tablespaces, ENCRYPTION",
    "SELECT ENCRYPTION = 'Y' AS v FROM information_schema.innodb_tablespaces AS t",
)
LOGS: Mapping[str, str] = {}
COPIERS = ("xtrabackup", "tar")
_MAGIC = {b"\xfebin": False, b"\xfdbin": True}


def prints(version: str) -> bool:
    return "MySQL" in version


def _older(version: str) -> bool:
    """Whether it is 8.0, which does not know the newer statements."""
    return version.startswith("8.0")


def binlog_status(version: str) -> str:
    return f"SHOW {'MASTER' if _older(version) else 'BINARY LOG'} STATUS"


def reset_binlog(version: str) -> str:
    return "RESET MASTER" if _older(version) else "RESET BINARY LOGS AND GTIDS"


def binlog_encrypted(server: Any, name: str, head: bytes) -> Checks:
    logs = {r["Log_name"]: r for r in server.query("SHOW BINARY LOGS")}
    encrypted = logs[name].get("Encrypted", "No") == "Yes"
    return {"SHOW BINARY LOGS, Encrypted": encrypted, **magic("first four bytes on disk", head)}


def magic(where: str, head: bytes) -> Checks:
    """State of a binary or relay log by its first four bytes."""
    return {f"{where}, {head[:4].hex()}": _MAGIC.get(head[:4])}


def detour(old: str, new: str) -> str:
    """Why `new` (a label) cannot open the data of `old`, and what can; "" if nothing is known."""
    past_lts = old.startswith(f"{MAKER} 8.0") and new.startswith(f"{MAKER} 9")
    return "MySQL 9 opens the data of an LTS release alone; go through 8.4" if past_lts else ""


def keyring(server: Any) -> tuple[str, str]:
    rows = server.query(
        "SELECT STATUS_VALUE AS v FROM performance_schema.keyring_component_status"
        " WHERE STATUS_KEY = 'Component_status'"
    )
    return "keyring component", rows[0]["v"].lower() if rows else "disabled"


def settings(folder: Path, *, keyring: bool) -> Mapping[str, object]:
    return {"secure_file_priv": "NULL", "loose_mysqlx": "OFF"}


def write_keyring(folder: Path, datadir: Path) -> Mapping[Path, str]:
    """The two manifests in the data directory, without which the keyring stays disabled."""
    where = {"path": str(folder / "keyring"), "read_only": False}
    return {
        datadir / "mysqld.my": json.dumps({"components": "file://component_keyring_file"}),
        datadir / "component_keyring_file.cnf": json.dumps(where),
    }
