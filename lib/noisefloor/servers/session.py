"""The connection to a server of any kind: statements, variables set and read back.

All SQL goes through this module."""

import contextlib
import difflib
import logging
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from noisefloor.servers import kinds
from noisefloor.servers.engines import Engine, label
from noisefloor.servers.sandbox import ServerError

SCHEMA = "noisefloor"  # of the tables that are measured
Rows = list[dict[str, Any]]  # column -> value

# the pool also logs what it raises, as a traceback: a Ctrl-C while a connection is closed
logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)

_VOLATILE = re.compile(
    r"gtid_(executed|next|owned|purged|binlog_pos|binlog_state|current_pos|slave_pos|seq_no)"
    r"|last_gtid|timestamp|pseudo_.*|rand_seed\d|(last_)?insert_id|identity"
    r"|server_uuid"  # new for every copy of a data directory, with the machine's MAC address in it
)

# client errors (no server, gone, lost in a query) -> seconds that its process may take to end
_LOST = {2002: 0, 2006: 0.2, 2013: 0.2}
_READ_ONLY = 1238  # the error of SET for a variable that only a start sets

ANSWER_S = 60  # a server that is silent for so long hangs


class Refused(ServerError):
    """A statement that the server answered with an error: its message and `number` (0: unknown)."""

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number


class SettingError(ServerError):
    """A setting that was asked for and is not in force: names wanted and got."""


def option_file(
    user: str, password: str, socket: Path, port: int | None = None, host: str = "127.0.0.1"
) -> str:
    """Text of a sysbench --config-file with the secrets, which must never be in argv."""
    where = f"mysql-host={host}\nmysql-port={port}\n" if port else f"mysql-socket={socket}\n"
    return f"mysql-user={user}\nmysql-password={password}\nmysql-db={SCHEMA}\n{where}"


class Session:
    """An administrator's connection. A subclass says how it is made (`_login`, of MySQLdb;
    `_pooling`, of SQLAlchemy), and whether the server's process ended (`_ended`, `_tail`)."""

    engine: Engine
    _login: Mapping[str, object]
    _pooling: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self._sql: sa.Engine | None = None
        self._before: dict[str, str] = {}  # variables that were set, as they were at the start
        self._along: dict[str, str] = {}  # old values of all that changed at a `set`

    @property
    def kind(self) -> kinds.Kind:
        """What is known of servers of its kind."""
        return kinds.all_kinds()[self.engine.kind]

    def _ended(self, seconds: float) -> bool:
        """Whether the process is gone, or goes within so many seconds."""
        return False

    def _tail(self) -> str:
        """The last errors of a process that is gone, in one line."""
        return ""

    # -- statements ------------------------------------------------------------------------------

    def _engine(self, answer_s: int, **login: object) -> sa.Engine:
        patience = {"connect_timeout": 5, "read_timeout": answer_s, "write_timeout": answer_s}
        return sa.create_engine(
            "mysql+mysqldb://",
            poolclass=sa.pool.StaticPool,
            isolation_level="AUTOCOMMIT",
            connect_args={**self._login, "charset": "utf8mb4", **patience, **login},
            **self._pooling,
        )

    def _forget(self) -> None:
        if self._sql is not None:
            self._sql.dispose()
            self._sql = None

    def query(self, statement: str, **values: object) -> Rows:
        """The rows of `statement`; [] where it has none. `:name` binds a value. Raises Refused for
        an answer that is an error, ServerError when there is no answer."""
        if self._sql is None:  # one connection, kept open
            self._sql = self._engine(ANSWER_S)
        return self._ask(self._sql, statement, values)

    def change(self, statement: str, **values: object) -> None:
        """Send a statement that changes something for all who use the server."""
        self.query(statement, **values)

    def _ask(self, engine: sa.Engine, statement: str, values: dict[str, object]) -> Rows:
        began = time.monotonic()
        try:
            with engine.connect() as connection:
                result = connection.execute(sa.text(statement), values)
                return [row._asdict() for row in result] if result.returns_rows else []
        except sa.exc.DBAPIError as e:
            answer = (e.orig or e).args
            code, message = answer[0], answer[-1]
            if code not in _LOST:
                raise Refused(message, code) from None
            if self._ended(_LOST[code]):
                raise ServerError(f"the server is not running: {self._tail()}") from None
            took = time.monotonic() - began
            hangs = "; it hangs" if took > min(5, ANSWER_S) - 0.5 else ""
            why = f"the server gave no answer in {took:.0f} s{hangs} ({message})"
            raise ServerError(why) from None

    def script(self, *statements: str) -> None:
        """Execute statements one after the other."""
        for statement in statements:
            self.query(statement)

    def variables(self) -> dict[str, str]:
        """Name -> value of all global variables but GTID sets, timestamps and the UUID."""
        rows = self.query("SHOW GLOBAL VARIABLES")
        values = {r["Variable_name"]: str(r["Value"]) for r in rows}
        return {k: v for k, v in sorted(values.items()) if not _VOLATILE.fullmatch(k)}

    def status(self, *names: str) -> dict[str, float]:
        """Name -> number of the global status counters of these names that the server has."""
        rows = self.query("SHOW GLOBAL STATUS")
        counters = {r["Variable_name"].lower(): r["Value"] for r in rows}
        return {n: float(counters[n.lower()]) for n in names if n.lower() in counters}

    def plugin(self, name: str) -> str:
        """State of the plugin with this name or library (``x.so``): ``active``; "" for none."""
        rows = self.query(
            "SELECT MIN(LOWER(PLUGIN_STATUS)) AS s FROM information_schema.plugins"
            " WHERE :name IN (PLUGIN_NAME, PLUGIN_LIBRARY)",
            name=name,
        )
        return rows[0]["s"] or ""

    # -- variables -------------------------------------------------------------------------------

    def set(self, settings: Mapping[str, object]) -> None:
        """SET GLOBAL each setting, then read it back. Raises SettingError."""
        before = self.variables() if settings else {}
        try:
            for name, value in settings.items():
                self.change(f"SET GLOBAL {_identifier(name)} = :value", value=_literal(value))
                if name in before:
                    self._before.setdefault(name, before[name])
        except Refused as e:
            raise SettingError(f"{name}: wanted {value}, refused: {e}") from e
        finally:
            now = self.variables() if before else {}
            moved = {n: v for n, v in before.items() if now.get(n, v) != v}
            # positions move with every write
            self._along = {n: v for n, v in moved.items() if n[:5] != "gtid_"} | self._along
        self.check(settings)

    def only(self, settings: Mapping[str, object]) -> None:
        """`set` these; every other variable that was `set` since the start, or that the server
        changed along with it, goes back to what it was, so that no arm or workload inherits from
        the one before it."""
        wanted = {k: v for k, v in self._before.items() if k not in settings} | dict(settings)
        self.set(wanted)
        if along := {n: v for n, v in self._along.items() if n not in wanted}:
            for name, value in along.items():
                with contextlib.suppress(Refused):  # it may follow from the others alone
                    self.change(f"SET GLOBAL {_identifier(name)} = :value", value=_literal(value))
            self.set(wanted)  # one may be the other's limit

    def takes(self, name: str, values: Iterable[str]) -> bool:
        """Whether a live server takes each of the values; False for a variable that only a start
        sets. Raises SettingError for a variable or value that it does not know."""
        known = self.variables()
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise SettingError(f"{label(self.engine)} has no global variable {name}{hint}")
        try:
            for value in values:
                self.set({name: value})
        except SettingError as e:
            if isinstance(e.__cause__, Refused) and e.__cause__.number == _READ_ONLY:
                return False
            raise
        finally:
            self.only({})
        return True

    def check(self, settings: Mapping[str, object]) -> None:
        """Raise SettingError for the first setting that is not in force."""
        known = self.variables() if settings else {}
        for name, wanted in settings.items():
            wanted = str(wanted)
            if name == "log_bin" and _value(wanted) != 0:
                wanted = "ON"  # asked for with a file name, read back as a switch
            got = self._in_force(name, wanted, known)
            if got is None:
                raise SettingError(f"{name}: wanted {wanted}, but the server has no such variable")
            switches = set(wanted.split(","))  # some of an optimizer_switch
            if "=" in wanted and switches <= set(got.split(",")):
                continue
            if _value(got) != _value(wanted):
                raise SettingError(f"{name}: wanted {wanted}, got {got}")

    def _in_force(self, name: str, wanted: str, known: Mapping[str, str]) -> str | None:
        """The value in force or None; for a my.cnf line without a variable `wanted` if in force."""
        if name == "plugin_load_add":  # one whose library is missing does not stop a start
            active = self.plugin(f"{wanted.removesuffix('.so')}.so") == "active"
            return wanted if active else "a plugin that is not active"
        schema, _, consumer = name.partition("_consumer_")
        if schema == "performance_schema" and consumer:
            asked = "SELECT ENABLED AS e FROM performance_schema.setup_consumers WHERE NAME = :n"
            rows = self.query(asked, n=consumer)
            return rows[0]["e"] if rows else None
        if name.startswith("performance_schema_instrument"):  # '%=ON'
            instruments, _, state = wanted.strip("'").partition("=")
            asked = "SELECT AVG(ENABLED = 'YES') AS share FROM performance_schema.setup_instruments"
            rows = self.query(f"{asked} WHERE NAME LIKE :name", name=instruments)
            share = float(rows[0]["share"] or 0)
            return wanted if (share > 0.99) == (state == "ON") else f"{share:.0%} on"
        return known.get(name)


def query_as(server: Session, user: str, password: str, statement: str) -> Rows:
    """As `Session.query`, on a new connection of another user."""
    engine = server._engine(ANSWER_S, user=user, passwd=password)
    try:
        return server._ask(engine, statement, {})
    finally:
        engine.dispose()


def _identifier(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
        raise SettingError(f"{name!r} is not the name of a variable; nothing was set")
    return name


def _literal(value: object) -> int | float | str:
    """What SET takes: numbers without quotes and without K, M, G or T."""
    text = str(value)
    if m := re.fullmatch(r"(-?\d+)([KMGTkmgt]?)", text):
        return int(m[1]) * 1024 ** " KMGT".index(m[2].upper() or " ")
    return float(text) if re.fullmatch(r"-?\d+\.\d+", text) else text


_SWITCH = {"ON": 1, "TRUE": 1, "YES": 1, "OFF": 0, "FALSE": 0, "NO": 0}


def _value(text: object) -> int | float | str:
    """A setting's value in a form that compares: 128M and 134217728, ON and 1 are the same."""
    word = str(text).strip().strip("'\"").upper()
    value = _SWITCH.get(word, _literal(word))
    return value.replace(" ", "").rstrip("/") if isinstance(value, str) else value
