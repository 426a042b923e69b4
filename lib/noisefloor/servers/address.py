"""The address of a server that Noisefloor did not start, and the user who logs in."""

import configparser
import getpass
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from noisefloor.model import StudyError
from noisefloor.servers import kinds

VARIABLE = "NOISEFLOOR_SERVER"
_FORMS = (
    "mysql://USER@HOST:PORT/?read_default_file=FILE, mysql://USER@/?unix_socket=FILE, or `env` for"
    f" the URL in ${VARIABLE}"
)
_OPTIONS = {"read_default_file", "unix_socket"}


@dataclass(frozen=True)
class Address:
    """Where a server is and who logs in. `file`: the option file with the password, or ""."""

    user: str
    password: str = field(repr=False)
    host: str
    port: int
    socket: str
    file: str = ""

    def __str__(self) -> str:
        return f"{self.user} at {self.socket or f'{self.host}:{self.port}'}"

    @property
    def url(self) -> str:
        """The URL without a password."""
        query = {"unix_socket": self.socket, "read_default_file": self.file}
        query = {k: v for k, v in query.items() if v}
        place: dict[str, Any] = {} if self.socket else {"host": self.host, "port": self.port}
        return sa.URL.create("mysql", username=self.user, query=query, **place).render_as_string()

    @property
    def ip(self) -> str:
        """The host for client libraries, which use a socket for ``localhost``."""
        return "127.0.0.1" if self.host == "localhost" else self.host


def address(given: str) -> Address:
    """The server that `given` names: a URL, or ``env`` for the one in $NOISEFLOOR_SERVER.

    A password comes from the option file, the environment's URL or $MYSQL_PWD, never from the
    command line or a notebook. Raises StudyError, which never repeats the URL."""
    name = f"${VARIABLE}" if given == "env" else "the server's URL"

    def wrong(what: str) -> StudyError:
        return StudyError(f"{name} {what}; allowed are {_FORMS}; nothing was measured")

    text = os.environ.get(VARIABLE, "") if given == "env" else given
    try:
        url: sa.URL | None = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        url = None
    if url is None or url.drivername not in kinds.all_kinds():
        raise wrong("is not a server's")
    if url.password is not None and given != "env":
        raise StudyError(
            "a password in the command line can be seen by every user of the machine: put it into"
            f" an option file (?read_default_file=FILE, its [client] section) or the URL into"
            f" ${VARIABLE} and say `env`; nothing was measured"
        )
    if odd := [k for k, v in url.query.items() if k not in _OPTIONS or not isinstance(v, str)]:
        raise wrong(f"names the option {odd[0]!r}")
    if url.database:
        raise wrong("names a schema, and Noisefloor measures in one that it creates")
    options = {k: str(v) for k, v in url.query.items()}
    file = options.get("read_default_file", "")
    file = str(Path(file).expanduser().resolve()) if file else ""
    known = _client(Path(file)) if file else {}
    socket = options.get("unix_socket", "") or ("" if url.host else known.get("socket", ""))
    host = "" if socket else url.host or known.get("host", "")
    if not socket and not host:
        raise wrong("names no host and no socket")
    port = str(url.port or known.get("port") or 3306)
    if not port.isdecimal() or int(port) >= 1 << 16:
        raise StudyError("the server's port is not a number below 65536; nothing was measured")
    return Address(
        user=url.username or known.get("user") or getpass.getuser(),
        password=url.password or known.get("password") or os.environ.get("MYSQL_PWD", ""),
        host=host,
        port=int(port),
        socket=socket,
        file=file,
    )


def _client(file: Path) -> dict[str, str]:
    """The [client] section of an option file. Raises StudyError."""
    try:
        lines = [s for s in file.read_text().splitlines() if not s.startswith("!")]
        parser = configparser.RawConfigParser(
            strict=False, allow_no_value=True, delimiters=("=",), comment_prefixes=("#", ";")
        )
        parser.read_string("\n".join(lines))
        client = dict(parser["client"]) if parser.has_section("client") else {}
    except (OSError, UnicodeDecodeError, configparser.Error) as e:
        why = getattr(e, "strerror", None) or type(e).__name__
        raise StudyError(f"the option file cannot be read ({why}); nothing was measured") from None
    return {k.replace("-", "_"): (v or "").strip("'\"") for k, v in client.items()}
