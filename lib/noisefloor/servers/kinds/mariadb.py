"""MariaDB."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisefloor.servers.kinds import Checks

NAME, MAKER = "mariadb", "MariaDB"
BUILDS = {"mariadb": "MariaDB", "mariadb-11.8": "MariaDB 11.8"}
PACKAGES = ("mariadb-server-core", "mariadb-client-core")
INSTALL = ("mariadb-install-db", "mysql_install_db")
KEYRING, POOL = "file_key_management.so", ""
REDO = "innodb_log_file_size"
LSN = ("Innodb_lsn_current", "Innodb_lsn_last_checkpoint")
RELOAD_TLS = "FLUSH SSL"
TLS = {"ssl_ca": "ca.pem", "ssl_cert": "server-cert.pem", "ssl_key": "server-key.pem"}
REPLICA = "SHOW ALL SLAVES STATUS"
TABLES = (
    "INNODB_TABLESPACES_ENCRYPTION, scheme",
    "SELECT e.ENCRYPTION_SCHEME = 1 AS v FROM information_schema.innodb_sys_tablespaces AS t"
    " LEFT JOIN information_schema.innodb_tablespaces_encryption AS e USING (SPACE)",
)
LOGS = {"log_bin": "binlog"}  # off by default
COPIERS = ("mariabackup",)
_START_ENCRYPTION = b"\xa4"


def prints(version: str) -> bool:
    return "mariadb" in version.lower()


def binlog_status(version: str) -> str:
    return "SHOW MASTER STATUS"


def reset_binlog(version: str) -> str:
    return "RESET MASTER"


def binlog_encrypted(server: Any, name: str, head: bytes) -> Checks:
    # type of the second event: after magic (4), first event (its length at 13) and time stamp (4)
    second = 4 + int.from_bytes(head[13:17], "little") + 4
    return {"START_ENCRYPTION event on disk": head[second : second + 1] == _START_ENCRYPTION}


def keyring(server: Any) -> tuple[str, str]:
    return "key management plugin", server.plugin("file_key_management") or "disabled"


def settings(folder: Path, *, keyring: bool) -> Mapping[str, object]:
    if not keyring:
        return {}
    return {
        "plugin_load_add": "file_key_management",
        "file_key_management_filename": folder / "keyring",
    }


def write_keyring(folder: Path, datadir: Path) -> Mapping[Path, str]:
    """A new key file, or nothing if there is one."""
    file = folder / "keyring"
    return {} if file.exists() else {file: f"1;{secrets.token_hex(32)}\n"}
