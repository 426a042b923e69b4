"""A server that Noisefloor did not start: left as it was, asked nothing else, never endangered."""

import contextlib
import json
import os
import random
import re
import shutil
import socket as sockets
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from conftest import ROOT, mostly, signalled, until
from live import SEED, Live, send, watched
from noisefloor import model as study
from noisefloor import paths
from noisefloor.data import design, tidy
from noisefloor.measure import collect
from noisefloor.measure.campaign import CampaignError
from noisefloor.servers import guest
from noisefloor.servers.guest import Journal
from noisefloor.servers.server import Server, ServerError, secret_file
from test_ab import ab

slow = pytest.mark.slow


def on(kind: str):
    """For what does not depend on whose server it is: one of the two."""
    return pytest.mark.parametrize("template", [kind], indirect=True)


CANARY = "canary-Pa55word-9f3c2e"
# of this machine; one of a few letters stands in many a text
NAMES = [n for n in (os.uname().nodename,) if len(n) > 5 and n != "localhost"]
DOCUMENTED = (paths.root() / "docs" / "own-server.md").read_text()
RIGHTS = dict(
    zip(("mysql", "mariadb"), re.findall(r"```sql\n(.*?)```", DOCUMENTED, re.S), strict=True)
)


class Theirs:
    """Somebody else's server: data that must survive, a general log, a user with the documented
    rights and no other, reached by a socket or a port."""

    def __init__(self, server: Server, folder: Path):
        self.server, self.kind, self.folder = server, server.engine.kind, server.folder.parent
        self.option_file = secret_file(folder / "bench.cnf", f"[client]\npassword={CANARY}\n")
        server.start()
        self.now(
            "DROP DATABASE noisefloor",
            "DROP USER noisefloor@localhost",
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY, what VARCHAR(40))",
            "INSERT INTO shop.orders VALUES (1, 'bread'), (2, 'butter')",
            *(s.replace("…", CANARY) for s in RIGHTS[self.kind].replace("\n", "").split(";") if s),
            "SET GLOBAL log_output = 'TABLE'",
            "SET GLOBAL general_log = ON",
        )

    @property
    def url(self) -> str:
        return f"mysql://bench@/?unix_socket={self.server.socket}&{self._file}"

    @property
    def by_port(self) -> str:
        return f"mysql://bench@127.0.0.1:{self.server.port}/?{self._file}"

    @property
    def _file(self) -> str:
        return f"read_default_file={self.option_file}"

    def state(self) -> dict:
        """All that must be as it was."""
        users = "mysql.user" if self.kind == "mysql" else "mysql.global_priv"
        sums = f"CHECKSUM TABLE shop.orders, {users}, mysql.db, mysql.tables_priv"
        return {
            "variables": self.server.variables(),
            "schemas": self.server.query("SHOW DATABASES"),
            "sums": self.server.query(sums),
            "orders": self.server.query("SELECT * FROM shop.orders"),
        }

    def now(self, *statements: str) -> None:
        """After these statements of its owner it is as it must be."""
        self.server.script(*statements)
        self.before = self.state()

    def unchanged(self) -> None:
        """It is as it was, and nothing is left to do."""
        assert self.state() == self.before
        assert guest.pending() == []

    def sent(self) -> list[tuple[str, str]]:
        """(schema of its connection, statement) of all that came from the guest."""
        rows = self.server.query(
            "SELECT thread_id AS t, command_type AS c, CONVERT(argument USING utf8mb4) AS a"
            " FROM mysql.general_log WHERE user_host LIKE '%bench%'"
        )
        found, schema = [], {}
        for r in rows:
            if r["c"] == "Connect":
                on = re.search(r" on (\w+) (using|as)", r["a"])
                schema[r["t"]] = on[1] if on else ""
            elif r["c"] in ("Query", "Execute", "Prepare", "Init DB"):
                use = "USE " * (r["c"] == "Init DB")
                found.append((schema[r["t"]], f"{use}{r['a']}"))
        return found

    def forget(self) -> None:
        """An empty log."""
        self.server.query("TRUNCATE TABLE mysql.general_log")


@pytest.fixture(scope="module")
def kept(shop):
    """Running servers of somebody else, by kind, for the tests that leave them as they were."""
    found: dict[str, Theirs] = {}
    yield found
    for theirs in found.values():
        theirs.server.remove()


@pytest.fixture
def theirs(template, kept, shop, tmp_path_factory, home, monkeypatch):
    """Both servers in turn, watched for half a second before they are called idle. One that a test
    changed is not met by the next."""
    monkeypatch.setattr(guest, "LOOK_S", 0.5)
    kind = template.engine.kind
    if kind in kept:
        kept[kind].forget()
    else:
        server = template.copy(shop / f"their-{kind}", {}, tcp=True)
        kept[kind] = Theirs(server, tmp_path_factory.mktemp("private"))
    one = kept[kind]
    first = one.before
    yield one
    with contextlib.suppress(ServerError):  # it is not there any more
        if one.state() == first:
            return
    kept.pop(kind).server.remove()


def measured(server: str, *settings: str, dry=None, **more):
    """A campaign of about two pairs, as a guest."""
    given = {"settings": settings or ("sync_binlog=1,0",), "profile": "smoke", "budget_min": 0.05}
    asked = study.Request("own-study", **(given | more), server=server)
    return next(iter(collect.measure_study(asked, dry)), None)


# what an administrator would have to agree to, all of it
READS = (
    r"SHOW (GLOBAL (VARIABLES|STATUS)( LIKE 'group_replication_group_name')?|PROCESSLIST)",
    r"SHOW (REPLICA|ALL SLAVES|ENGINE INNODB) STATUS",
    r"SHOW (DATABASES LIKE 'noisefloor'|TABLES FROM noisefloor)",
    r"SELECT VERSION\(\) AS version, @@hostname AS host, @@port AS port, @@datadir AS datadir,"
    r" @@log_bin_basename AS logs",
    r"SELECT @@GLOBAL\.\w+ AS v",
    r"SELECT (@@\w+|VERSION\(\)|DATABASE\(\)|'test .*')( AS anon_1)?|SHOW VARIABLES LIKE '\w+'",
    r"SET (NAMES utf8mb4|AUTOCOMMIT ?= ?1|autocommit=1)|ROLLBACK|COMMIT",
)
CHANGES = (
    r"SET GLOBAL sync_binlog = \d",
    r"(CREATE|DROP) DATABASE noisefloor",
    r"CREATE TABLE noisefloor\.owner_[0-9a-f]{16} \(id INT PRIMARY KEY\)",
)


def is_one_of(statement: str, allowed: tuple[str, ...]) -> bool:
    return any(re.fullmatch(rule, statement, re.I) for rule in allowed)


@mostly("mariadb")
def test_it_is_left_as_it_was_and_asked_nothing_else(theirs):
    folder = measured(theirs.url)
    theirs.unchanged()
    sent = theirs.sent()
    own = {s for schema, s in sent if schema == ""}
    assert [s for s in own if not is_one_of(s, (*READS, *CHANGES))] == []
    assert {"SET GLOBAL sync_binlog = 0", "DROP DATABASE noisefloor"} <= own
    by_sysbench = [s for schema, s in sent if schema]
    assert {schema for schema, _ in sent} == {"", "noisefloor"}
    assert len(by_sysbench) > 100
    for statement in by_sysbench:
        assert "." not in re.sub(r"'[^']*'", "", statement), statement
    meta = tidy.meta(folder)
    assert meta["wall_s"] >= meta["spent_s"] >= meta["slices_s"] > 0
    table = tidy.tidy_table(folder)
    assert set(table["metric"]) >= {"tps", "cpu_per_transaction"}
    assert table[~table["warmup"]]["pair_id"].nunique() >= 1


@slow
def test_a_dry_run_prints_every_statement_and_sends_none_that_changes_anything(theirs):
    said: list[str] = []
    assert measured(theirs.url, dry=said.append) is None
    theirs.unchanged()
    assert {s for _, s in theirs.sent() if not is_one_of(s, READS)} == set()
    theirs.forget()
    measured(theirs.url)
    token = re.compile(r"owner_\w+")
    told = {token.sub("owner", s.partition("  --")[0].rstrip(";")) for s in said}
    own = {token.sub("owner", s) for schema, s in theirs.sent() if schema == ""}
    assert sorted(s for s in own if s not in told and not is_one_of(s, READS[-2:])) == []
    argv = [s for s in said if s.startswith("-- sysbench oltp_read_write")]
    assert [a.split()[-1] for a in argv] == ["prepare", "run", "run"]
    assert "sysbench.cnf" in argv[0]


# -- restored, however it ends ----------------------------------------------------------------------


REFUSED = [
    (["sync_binlog=1,banana"], "sync_binlog: wanted banana"),
    (["sync_binlogg=1,0"], "did you mean sync_binlog?"),
    (["back_log=80,90"], "is never restarted"),
    (["sync_binlog=0,1", "innodb_buffer_pool_size=128M,256M"], "is never restarted"),
]


@slow
def test_what_it_does_not_take_is_refused_and_put_back(theirs):
    for settings, says in REFUSED:
        with pytest.raises(study.StudyError, match="nothing was measured") as e:
            measured(theirs.url, *settings)
        assert says in str(e.value)
        theirs.unchanged()


@slow
@on("mariadb")
def test_it_is_put_back_when_every_sysbench_is_killed(theirs):
    def send(child, how):
        if "run" in child.cmdline():  # not the one that loads the tables
            child.send_signal(how)

    failed = pytest.raises(CampaignError, match="failed in every attempt")
    with failed, signalled("sysbench", 1000, send=send):
        measured(theirs.url)
    theirs.unchanged()


@slow
@on("mysql")
def test_it_is_on_disk_how_a_variable_was_before_it_is_set(theirs, monkeypatch):
    order, real, change = [], os.fsync, guest.Guest.change

    def fsync(fd):
        real(fd)
        order.append(os.readlink(f"/proc/self/fd/{fd}").rpartition("/")[2])

    def sent(self, statement, **values):
        order.append(statement)
        if statement.startswith("SET GLOBAL"):
            (path,) = guest.pending()
            known = Journal(path).variables
            assert known == {"sync_binlog": int(theirs.before["variables"]["sync_binlog"])}
        change(self, statement, **values)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(guest.Guest, "change", sent)
    measured(theirs.url)
    first = order.index("SET GLOBAL sync_binlog = :value")
    assert order[:first][-2].endswith(".partial")  # the file, then its folder
    assert order[:first][-1] == ".servers"
    created = order.index("CREATE DATABASE noisefloor")
    assert order[created - 1] == ".servers"


@slow
def test_what_the_server_changes_along_with_it_is_put_back(theirs):
    """A limit that is set below a value takes the value with it."""
    theirs.now("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 10")
    if theirs.kind == "mariadb":
        theirs.now("GRANT SUPER ON *.* TO bench@'%'")
    said: list[str] = []
    measured(theirs.url, "innodb_max_dirty_pages_pct=90,5")
    theirs.unchanged()
    measured(theirs.url, "innodb_max_dirty_pages_pct=90,5", dry=said.append)
    assert any("SET GLOBAL innodb_max_dirty_pages_pct = 5;" in s for s in said)


@on("mariadb")
def test_a_schema_whose_creation_was_not_answered_is_dropped(theirs, monkeypatch):
    change = guest.Guest.change

    def lost(self, statement, **values):
        change(self, statement, **values)
        if statement.startswith("CREATE DATABASE"):
            raise ServerError("the server gave no answer in 60 s")

    monkeypatch.setattr(guest.Guest, "change", lost)
    with pytest.raises(ServerError, match="gave no answer"):
        measured(theirs.url)
    theirs.unchanged()


def changed(theirs: Theirs) -> dict[str, str]:
    """Variables that are not as they were -> how they were."""
    now = theirs.server.variables()
    return {n: v for n, v in theirs.before["variables"].items() if now[n] != v}


def was_written(home: Path, since: float) -> bool:
    """Whether a journal was, since then."""
    with contextlib.suppress(OSError):  # it is gone again
        return any(j.stat().st_mtime > since for j in (home / ".servers").glob("*.journal"))
    return False


@slow
def test_the_next_command_restores_what_a_killed_one_left(theirs, tmp_path):
    """kill -9 at random points while something is changed, and the same command after each."""
    home = tmp_path / "project"
    home.mkdir()
    (home / "notebooks").symlink_to(ROOT / "notebooks")
    if theirs.kind == "mariadb":
        theirs.now("GRANT SUPER ON *.* TO bench@'%'")
    asked = ("ab", "sync_binlog=1,0", "innodb_flush_log_at_trx_commit=1,2", "--profile", "smoke")
    live = Live(home, None, *asked, "--budget", "0.1", "--server", theirs.url)
    points, kills, left = random.Random(f"{SEED} own {theirs.kind}"), 2, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISEFLOOR_HOME", str(home))
        while kills:
            began = time.time()
            live.start()
            while live.running() and not was_written(home, began):
                time.sleep(0.02)
            time.sleep(points.uniform(0, 4))
            if not (live.running() and send("noisefloor as a guest", live.victim("noisefloor"))):
                assert live.end() == 0, live.said
                theirs.unchanged()
                continue
            live.end()
            kills -= 1
            known = {n for journal in guest.pending() for n in Journal(journal).variables}
            schemas = str(theirs.server.query("SHOW DATABASES"))
            left += bool(changed(theirs) or "noisefloor" in schemas)
            assert changed(theirs).keys() <= known, "changed, and nobody knows how it was"
        live.finish()
        theirs.unchanged()
    assert left


def left_behind(theirs: Theirs) -> None:
    """What a command leaves that is killed between two runs."""
    where = guest.address(theirs.url)
    one = guest.Guest(where, paths.root() / "guest")
    (paths.root() / ".servers").mkdir(exist_ok=True)
    one.set({"sync_binlog": "777"})
    one.move_in()
    one._forget()


@slow
@on("mysql")
def test_another_command_restores_it_as_well(theirs):
    left_behind(theirs)
    assert changed(theirs) == {"sync_binlog": theirs.before["variables"]["sync_binlog"]}
    said: list[str] = []
    guest.restore_others("mysql://somebody@elsewhere", said.append)
    assert "sync_binlog is" in said[0]
    assert said[1].endswith("the schema noisefloor is dropped")
    theirs.unchanged()


@slow
@on("mariadb")
def test_what_cannot_be_restored_is_kept_and_said(theirs):
    left_behind(theirs)
    theirs.server.script("ALTER USER bench@'%' IDENTIFIED BY 'another'")
    said: list[str] = []
    guest.restore_others("", said.append)
    assert len(said) == 1
    assert CANARY not in said[0]
    (path,) = guest.pending()
    path.write_text("{")
    said.clear()
    guest.restore_others("", said.append)
    assert "cannot be read" in said[0]
    assert path.read_text() == "{"


# -- refused ----------------------------------------------------------------------------------------


SOURCE = {"mysql": "REPLICATION SOURCE TO SOURCE", "mariadb": "MASTER TO MASTER"}


@contextlib.contextmanager
def between(theirs: Theirs, before: str, after: str):
    theirs.server.script(before)
    yield
    theirs.server.script(after)


def read_only(theirs: Theirs):
    name = "super_read_only" if theirs.kind == "mysql" else "read_only"
    return between(theirs, f"SET GLOBAL {name} = ON", "SET GLOBAL read_only = OFF")


def is_a_replica(theirs: Theirs):
    return between(theirs, f"CHANGE {SOURCE[theirs.kind]}_HOST='192.0.2.1'", "RESET REPLICA ALL")


@contextlib.contextmanager
def load(theirs: Theirs, event: str, *options: str):
    """Meanwhile somebody else's sysbench does that."""
    script, file = (theirs.server.folder / f"others.{end}" for end in ("lua", "cnf"))
    begin = "function thread_init() con = sysbench.sql.driver():connect() end"
    script.write_text(f"{begin}\nfunction event() {event} end\n")
    known = (theirs.server.folder / "client.cnf").read_text()
    password = re.search("password=(.*)", known)[1]
    text = f"mysql-user=root\nmysql-password={password}\nmysql-db=shop\n"
    secret_file(file, f"{text}mysql-socket={theirs.server.socket}\n")
    argv = ["sysbench", script, f"--config-file={file}", *options, "--time=60", "run"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as others:
        time.sleep(1)
        assert others.poll() is None
        yield
        others.kill()


def threads_run(theirs: Theirs):
    return load(theirs, "con:query('SELECT SLEEP(1)')", "--threads=4")


def transactions_run(theirs: Theirs):
    """Twenty a second."""
    return load(theirs, "con:query('BEGIN') con:query('COMMIT')", "--rate=20")


@contextlib.contextmanager
def little_is_free(theirs: Theirs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guest, "FREE_B", 1 << 60)
        yield


@contextlib.contextmanager
def has_a_replica(theirs: Theirs):
    """A real one, that reads its binary log."""
    theirs.server.script(
        f"CREATE USER applier@'127.0.0.1' IDENTIFIED BY '{CANARY}'",
        "GRANT REPLICATION SLAVE ON *.* TO applier@'127.0.0.1'",
    )
    other = Server(theirs.server.engine, theirs.folder / "replica", {"server_id": 77}).initialise()
    with other:
        word = SOURCE[theirs.kind]
        side = word.rpartition(" ")[2]
        theirs_is = f"{side}_PORT={theirs.server.port}, {side}_USER='applier'"
        key = ", GET_SOURCE_PUBLIC_KEY=1" if theirs.kind == "mysql" else ""
        other.script(
            f"CHANGE {word}_HOST='127.0.0.1', {theirs_is}, {side}_PASSWORD='{CANARY}'{key}",
            "START REPLICA",
        )
        until(lambda: "Binlog Dump" in str(theirs.server.query("SHOW PROCESSLIST")), "replica")
        yield
    other.remove()
    theirs.server.script("DROP USER applier@'127.0.0.1'")


CASES = {
    "read-only": (read_only, "read-only"),
    "a replica": (is_a_replica, "replica"),
    "busy threads": (threads_run, "busy"),
    "transactions": (transactions_run, "busy"),
    "disk": (little_is_free, "disk"),
    "has a replica": (has_a_replica, "replica"),
}
SPOKEN = ("read-only", "a replica", "has a replica")  # in other words by MariaDB


@slow
@pytest.mark.parametrize(
    ("template", "case"),
    [*(("mysql", case) for case in CASES), *(("mariadb", case) for case in SPOKEN)],
    indirect=["template"],
)
def test_it_is_refused_unless_it_is_allowed_by_name(theirs, case, capsys):
    harm, name = CASES[case]
    with harm(theirs):
        with pytest.raises(ServerError, match=f"--allow {name} measures all the same") as e:
            measured(theirs.url)
        assert "nothing was changed" in str(e.value)
        with pytest.raises(ServerError, match=f"--allow {name}"):
            measured(theirs.url, allow=tuple(n for n in guest.ALLOWED if n != name))
        said: list[str] = []
        measured(theirs.url, allow=(name,), dry=said.append)
        assert "DROP DATABASE noisefloor;" in said
        assert "allowed by name" in capsys.readouterr().err
    theirs.unchanged()
    assert {s for _, s in theirs.sent() if not is_one_of(s, READS)} == set()


@slow
@on("mysql")
def test_a_disk_that_runs_full_meanwhile_ends_it(theirs, monkeypatch):
    look = guest.Guest.purge

    def full(self):  # after the first pair
        monkeypatch.setattr(guest, "FREE_B", 1 << 60)
        look(self)

    monkeypatch.setattr(guest.Guest, "purge", full)
    says = r"GB free, below .*; measuring ended, whole runs are kept"
    with pytest.raises(ServerError, match=says):
        measured(theirs.url, budget_min=2.0)
    theirs.unchanged()


@slow
@on("mysql")
def test_the_disk_of_its_binary_logs_is_looked_at_as_well(
    template, copy, tmp_path_factory, home, monkeypatch
):
    logs = tmp_path_factory.mktemp("logs")
    with copy(template, {"log_bin": logs / "binlog"}) as server:
        file = f"read_default_file={server.folder / 'client.cnf'}"
        one = guest.Guest(guest.address(f"mysql://root@/?{file}"), paths.root())
        assert one._disk() == ""
        free = {str(logs): 1 << 30}
        look = lambda place: SimpleNamespace(free=free.get(place, 1 << 60))  # noqa: E731
        monkeypatch.setattr(shutil, "disk_usage", look)
        assert "its disk has 1.1 GB free" in one._disk()


@slow
@on("mariadb")
def test_clients_that_would_take_the_connections_of_others_are_refused(theirs):
    theirs.server.script("SET GLOBAL max_connections = 40")
    with pytest.raises(ServerError, match=r"40 connections, .* 64 threads would leave too few"):
        measured(theirs.url, threads=(64,))


@slow
@pytest.mark.parametrize(
    ("template", "tables"),
    [("mysql", ()), ("mysql", ("t",)), ("mariadb", ("owner_0123456789abcdef",))],
    indirect=["template"],
)
def test_a_schema_of_that_name_is_never_touched(theirs, tables):
    made = [f"CREATE TABLE noisefloor.{t} (id INT PRIMARY KEY)" for t in tables]
    theirs.now("CREATE DATABASE noisefloor", *made)
    with pytest.raises(ServerError, match=r"a schema called noisefloor .* left alone"):
        measured(theirs.url)
    theirs.unchanged()
    with pytest.raises(ServerError, match="a schema called noisefloor"):
        measured(theirs.url, dry=[].append)
    (paths.root() / ".servers").mkdir(exist_ok=True)
    one = guest.Guest(guest.address(theirs.url), paths.root())  # a journal of another schema
    one.journal.schema, one.journal.marked = "feedfeedfeedfeed", not tables
    one.journal.write()
    with pytest.raises(ServerError, match="a schema called noisefloor"):
        measured(theirs.url)
    theirs.unchanged()


@slow
@on("mysql")
def test_a_schema_that_somebody_else_creates_meanwhile_is_never_touched(theirs, monkeypatch):
    change = guest.Guest.change

    def raced(self, statement, **values):
        if statement.startswith("CREATE DATABASE"):
            theirs.now(statement)
        change(self, statement, **values)

    monkeypatch.setattr(guest.Guest, "change", raced)
    with pytest.raises(ServerError, match="database exists"):
        measured(theirs.url)
    theirs.unchanged()


@slow
def test_a_schema_that_a_killed_command_left_empty_is_its_own(theirs, monkeypatch):
    (paths.root() / ".servers").mkdir(exist_ok=True)
    one = guest.Guest(guest.address(theirs.url), paths.root())
    monkeypatch.setattr(one, "change", lambda statement: theirs.server.script(statement) or 1 / 0)
    with pytest.raises(ZeroDivisionError):  # after its first statement
        one.move_in()
    assert "noisefloor" in str(theirs.server.query("SHOW DATABASES"))
    measured(theirs.url)
    theirs.unchanged()


# -- rights and secrets -----------------------------------------------------------------------------


def grants(theirs: Theirs) -> list[tuple[str, str]]:
    """(right, on what) as docs/own-server.md grants them, but for what only some variables need."""
    found = re.findall(r"GRANT (.+) ON (\S+) TO", RIGHTS[theirs.kind])[:2]
    return [(right, on) for rights, on in found for right in rights.split(", ")]


@slow
def test_each_documented_right_is_needed_and_no_other(theirs, home):
    extra, _ = re.findall(r"GRANT (.+) ON (\S+) TO", RIGHTS[theirs.kind])[-1]
    theirs.now(f"REVOKE {extra} ON *.* FROM bench@'%'")
    for right, on in grants(theirs):
        theirs.server.script(f"REVOKE {right} ON {on} FROM bench@'%'")
        with pytest.raises((ServerError, study.StudyError, CampaignError)) as e:
            measured(theirs.url, budget_min=0.25)
        assert "\n" not in str(e.value)
        assert CANARY not in str(e.value)
        theirs.server.script(f"GRANT {right} ON {on} TO bench@'%'")
        if "noisefloor" in str(theirs.server.query("SHOW DATABASES")):
            assert right == "DROP"
    measured(theirs.url, budget_min=0.25)  # it continues what the others began
    theirs.unchanged()
    socket = str(theirs.server.socket)
    assert holding(home / "runs", "bench@", "'bench'", socket, CANARY) == []


def holding(folder: Path, *words: str) -> list[str]:
    """Files below a folder with one of the words in them or in their names."""
    return [
        f"{p}: {w}"
        for p in folder.rglob("*")
        for w in words
        if w in p.name or (p.is_file() and w.encode() in p.read_bytes())
    ]


@slow
@pytest.mark.parametrize(
    ("template", "by"),
    [("mysql", "socket"), ("mariadb", "port"), ("mysql", "environment")],
    indirect=["template"],
)
def test_from_question_to_a_page_that_names_nobody(theirs, home, by, monkeypatch):
    """End to end as a user: no restart, the floor widened, whose it is; no secret, no name."""
    url = {"socket": theirs.url, "port": theirs.by_port, "environment": "env"}[by]
    secret = f"mysql://bench:{CANARY}@127.0.0.1:{theirs.server.port}"
    monkeypatch.setenv("NOISEFLOOR_SERVER", secret if by == "environment" else "")
    up = theirs.server.status("Uptime")["Uptime"]
    asked = ("sync_binlog=1,0", "--profile", "smoke", "--budget")
    with watched() as (lines, looks):
        ran = ab(home, *asked, "0.25" if by == "socket" else "0.08", "--json", "--server", url)
    lines = "\n".join(lines)
    assert ran.returncode == 0, ran.stderr
    assert theirs.server.status("Uptime")["Uptime"] > up
    theirs.unchanged()
    assert len(looks) > 50
    assert "sysbench" in lines
    (folder,) = (home / "runs").glob("ab-sync-binlog-smoke-*")
    page = (home / "reports" / "ab-sync-binlog.html").read_text()
    floor = study.study_of(tidy.meta(folder)).floor["tps"]
    added = f"a start-to-start CV of {floor[0]:.2g} % is added, as recorded on other machines"
    assert f"the server was not restarted: {added}" in page
    rows = json.loads(ran.stdout)["comparisons"]
    (row,) = (r for r in rows if r["metric"] == "tps" and "again" not in r["arm"])
    least = 2 * 2**0.5 * floor[0]  # two standard deviations of the difference of two starts
    if None not in (row["lo_pct"], row["hi_pct"]):  # after some pairs
        assert row["hi_pct"] - row["lo_pct"] > 2 * least
    assert row["verdict"] in ("cannot tell", "slower", "faster")
    assert ("cpu_per_transaction" in {r["metric"] for r in rows}) == (by == "socket")
    for name in ("environment.yml", "CITATION.cff", "LICENSE"):
        (home / name).symlink_to(ROOT / name)
    shown = str(home / "reports" / "ab-sync-binlog.html")
    after = (["store"], ["verify", shown], ["bundle", folder.name])
    for command in after if by == "environment" else ():  # where the URL itself holds it
        argv = [Path(sys.executable).with_name("noisefloor"), *command]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
        assert CANARY not in done.stdout + done.stderr
    place = f"127.0.0.1:{theirs.server.port}"
    names = (CANARY, str(theirs.server.socket), place, str(theirs.option_file))
    assert CANARY not in ran.stdout + ran.stderr + lines + str(theirs.sent())
    assert holding(home / "runs", *names, *NAMES) == []
    assert holding(home, CANARY) == []
    text = page.replace("sync_binlog", "")
    assert [n for n in (*names, *NAMES, "bench@") if n in text] == []


@slow
def test_binlog_encryption_as_a_guest(mysql, copy, tmp_path_factory, home):
    theirs = Theirs(copy(mysql, {}, tcp=True), tmp_path_factory.mktemp("private"))
    more = {"profile": "smoke", "budget_min": 0.1}
    asked = study.Request("binlog-encryption", server=theirs.url, seed=7, **more)
    (folder,) = collect.measure_study(asked)
    meta = tidy.meta(folder)
    assert (meta["key"], meta["seed"]) == ("headline", 7)  # one server alone is loaded
    assert meta["parameters"] == more
    theirs.unchanged()
    assert set(tidy.evidence(folder)["evidence"]) == {"binlog_encryption"}
    assert tidy.meta(folder)["engine"]["origin"].startswith("guest ")


NOBODY = "mysql://bench@192.0.2.1"


def test_a_study_that_needs_its_own_servers_is_refused_before_anybody_is_asked(home):
    with pytest.raises(study.StudyError, match="needs servers of its own"):
        collect.measure_study(study.Request("tablespace-encryption", server=NOBODY))
    with pytest.raises(study.StudyError, match="needs servers of its own"):
        collect.measure_study(study.Request("binlog-encryption", "replica", server=NOBODY))


@slow
@on("mariadb")
def test_a_server_on_another_machine(template, copy, tmp_path_factory, home):
    """By an address that is not loopback, as another machine's would be."""
    with sockets.socket(sockets.AF_INET, sockets.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine has no address but loopback")
        here = s.getsockname()[0]
    server = copy(template, {"bind_address": here}, tcp=True)
    theirs = Theirs(server, tmp_path_factory.mktemp("private"))
    url = theirs.by_port.replace("127.0.0.1", here)
    is_elsewhere(theirs, url)
    assert holding(home / "runs", here) == []


def is_elsewhere(theirs: Theirs, url: str) -> None:
    """It is measured as a server whose disk and processor are not this machine's."""
    with pytest.raises(ServerError, match="how full its disk is cannot be seen from here"):
        measured(url)
    folder = measured(url, allow=("disk",))
    theirs.unchanged()
    meta = tidy.meta(folder)
    assert meta["host"] == {"cpu": "a server elsewhere"}
    assert design.sitting_key(meta).startswith(meta["engine"]["origin"])
    assert meta["parameters"]["allow"] == ["disk"]
    assert "on other machines" in meta["floor_from"]


@slow
@on("mariadb")
def test_a_forwarded_port_leads_to_another_machine(theirs, monkeypatch):
    kernel, _, *rest = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((kernel, "desk", *rest)))
    is_elsewhere(theirs, theirs.by_port)
