"""Proof that an arm is in force, on real servers."""

from types import SimpleNamespace

import pytest

from conftest import arm_of, mostly
from noisefloor import studies
from noisefloor.measure import replication, workloads
from noisefloor.model import Request
from noisefloor.servers import evidence
from noisefloor.servers.evidence import EvidenceError

SWITCH = "binlog_encryption"
OTHER = {"plain": "encrypted", "encrypted": "plain"}


def proved(server, name: str, expected: str) -> dict[str, str]:
    """What each check of a piece of evidence found; the contrary is an error."""
    found = evidence.collect(server, {name: expected})["checks"]
    assert {c["expected"] for c in found} == {expected}
    wrong = OTHER.get(expected, "disabled")
    says = f"the {name} should be {wrong}, but {found[0]['check'].split(',')[0]}"
    with pytest.raises(EvidenceError, match=says):
        evidence.collect(server, {name: wrong})
    return {c["check"]: c["found"] for c in found}


def shows_its_rows(server) -> bool:
    """Whether a row that is written now can be read in a binary log."""
    canary = evidence.plant(server).encode()
    return any(canary in p.read_bytes() for p in server.datadir.glob("binlog.0*"))


@pytest.fixture
def live(mysql, copy):
    with copy(mysql) as server:
        yield server


def test_mysql_switched_live_is_proven_three_times(live):
    for value, expected, head in (
        ("OFF", "plain", "fe62696e"),
        ("ON", "encrypted", "fd62696e"),
        ("OFF", "plain", "fe62696e"),
    ):
        live.set({SWITCH: value})
        assert shows_its_rows(live) == (expected == "plain")
        assert proved(live, "binlog", expected) == {
            "SHOW BINARY LOGS, Encrypted": expected,
            f"first four bytes on disk, {head}": expected,
            "canary row in the file": expected,
        }


@pytest.mark.parametrize(("value", "state"), [("OFF", "plain"), ("ON", "encrypted")])
def test_mariadb_fixed_at_start_is_proven_twice(mariadb, copy, value, state):
    with copy(mariadb, {"encrypt_binlog": value}) as server:
        assert proved(server, "binlog", state) == {
            "START_ENCRYPTION event on disk": state,
            "canary row in the file": state,
        }
        assert shows_its_rows(server) == (state == "plain")


# -- files, TLS, thread pool -----------------------------------------------------------------------

FILES = {"mysql": [*evidence.FILES], "mariadb": ["table file", "redo log", "undo log"]}


def test_rows_can_be_read_in_every_file_of_a_plain_server(own):
    wanted = dict.fromkeys(["tablespace", *FILES[own.engine.kind]], "plain")
    own.query("DROP TABLE noisefloor.hidden")
    found = evidence.collect(own, wanted)["checks"]
    assert {c["evidence"] for c in found} == wanted.keys()


def encrypted(template, copy, kind: str):
    """A running copy whose arm is the tablespace study's."""
    question = {"tables only": "headline", "everything": "writes"}[kind]
    asked = Request("tablespace-encryption", question, "smoke", template.engine.kind)
    arm = arm_of(studies.load(asked), kind)
    server = copy(template, arm.settings)
    server.start()
    server.script(*workloads.statements(arm.prepare, 5))
    return server, arm


@mostly("mariadb")
def test_plain_tables_have_the_history_of_encrypted_ones(template, copy):
    """Both are copied once: pages as full, files as large. As loaded they are larger."""
    kind = template.engine.kind
    asked = studies.load(Request("tablespace-encryption", profile="smoke", engine=kind))
    sizes = []
    for prepare in (asked.baseline.prepare, asked.arms[0].prepare, ()):
        with copy(template) as server:
            server.script(*workloads.statements(prepare, 5))
            files = server.datadir.glob("noisefloor/sbtest*.ibd")
            sizes.append({p.name: p.stat().st_size for p in files})
    plain, hidden, loaded = sizes
    assert len(plain) == 5
    assert plain == hidden
    assert all(size <= loaded[name] for name, size in plain.items())


@mostly("mysql")
def test_with_tables_encrypted_alone_the_logs_still_show_the_rows(template, copy):
    server, arm = encrypted(template, copy, "tables only")
    assert arm.prove["redo log"] == arm.prove["undo log"] == arm.expect["binlog"] == "plain"
    assert arm.prove["table file"] == arm.expect["tablespace"] == "encrypted"
    evidence.collect(server, arm.expect | arm.prove)
    with pytest.raises(EvidenceError, match="the redo log should be encrypted, but canary row"):
        # what is written next may overwrite a row in clear
        [evidence.collect(server, {"redo log": "encrypted"}) for _ in range(evidence.AGAIN)]


def test_with_everything_encrypted_no_file_shows_a_row(mysql, copy):
    server, arm = encrypted(mysql, copy, "everything")
    assert set((arm.expect | arm.prove).values()) == {"encrypted", "active", "off"}
    evidence.collect(server, arm.expect | arm.prove)
    with pytest.raises(EvidenceError, match="the table file should be plain, but canary row"):
        evidence.collect(server, {"table file": "plain"})


def test_what_the_server_says_is_compared(running):
    assert evidence.collect(running, {}) == {"checks": []}
    assert [*proved(running, "keyring", "active").values()] == ["active"]
    assert evidence.collect(running, {"TLS": "off"})["checks"][0]["found"] == "off"
    for name, expected, says in (
        ("tablespace", "plain", "mixed"),  # one encrypted table among plain ones is seen
        ("redo capacity", "7 MiB", "2048 MiB"),
        ("allocator", "jemalloc", "(the C library's|tcmalloc)"),  # nobody preloads it
    ):
        with pytest.raises(EvidenceError, match=f"{name} should be {expected}, but .* says {says}"):
            evidence.collect(running, {name: expected})


# -- worlds that are not as an arm says ------------------------------------------------------------

PLACES = {
    "table file": "noisefloor/canary.ibd",
    "redo log": "#innodb_redo/#ib_redo7",
    "undo log": "undo_001",
    "doublewrite": "#ib_16384_0.dblwr",
}


@pytest.mark.parametrize("name", evidence.FILES)
def test_a_file_that_is_not_there_encrypts_nothing(tmp_path, name):
    """The word is looked for in the file: plain with it, encrypted without it, neither without a file."""
    words = "canary0123456789abcdef", "canaryfedcba9876543210"
    file = tmp_path / PLACES[name]

    def state():
        (found,) = evidence._in_files(SimpleNamespace(datadir=tmp_path), name, words).values()
        return found

    assert state() == "no such file"
    file.parent.mkdir(exist_ok=True)
    file.write_text(" and ".join(words))
    assert state() == "plain"
    file.write_text("neither of them")
    assert state() == "encrypted"


@pytest.mark.parametrize(
    ("head", "state"), [(b"\xfebin", "plain"), (b"\xfdbin", "encrypted"), (b"\0\0\0\0", "neither")]
)
@pytest.mark.parametrize("wanted", ["plain", "encrypted"])
def test_the_logs_of_a_source_and_its_replica_are_read(tmp_path, head, state, wanted):
    for name in ("binlog.000002", "here-relay-bin.000003"):
        (tmp_path / name).write_bytes(head + b"more")
    server = SimpleNamespace(datadir=tmp_path)

    def looks():
        evidence.agree([evidence.check("source's log", *replication._largest_log(server, wanted))])
        evidence.collect(server, {"relay log": wanted})

    if wanted == state:
        looks()
        return
    with pytest.raises(EvidenceError, match=f"the source's log should be {wanted}, but .* {state}"):
        looks()
    (tmp_path / "binlog.000002").write_bytes({"plain": b"\xfebin", "encrypted": b"\xfdbin"}[wanted])
    with pytest.raises(EvidenceError, match=f"the relay log should be {wanted}, but .* {state}"):
        looks()


def test_a_session_that_is_encrypted_is_not_off(monkeypatch):
    monkeypatch.setattr(evidence, "query_as", lambda *_: [{"Value": "TLS_AES_128_GCM_SHA256"}])
    with pytest.raises(EvidenceError, match=r"the TLS should be off, but Ssl_cipher .* TLS_AES"):
        evidence.collect(SimpleNamespace(password=""), {"TLS": "off"})


def test_a_thread_pool_is_on_where_it_is_loaded(mysql, copy):
    chosen = studies.load(Request("version-upgrade", "thread-pool", profile="standard"))
    _, pooled = chosen.arms  # as the source tuned it
    expect = {k: v for k, v in pooled.expect.items() if k != "redo capacity"}
    with copy(mysql, pooled.settings, environment=pooled.environment) as server:
        evidence.collect(server, expect)
        with pytest.raises(EvidenceError, match="the thread pool should be off, but plugin"):
            evidence.collect(server, chosen.baseline.expect)
        server.query("GRANT TP_CONNECTION_ADMIN ON *.* TO noisefloor@localhost")
        with pytest.raises(EvidenceError, match="TP_CONNECTION_ADMIN, which passes by the pool"):
            evidence.collect(server, expect)


def test_a_server_that_sizes_itself_is_refused(mysql, copy):
    says = "the memory should be sized by hand, but innodb_ded"
    with (
        copy(mysql, {"innodb_dedicated_server": "ON"}) as server,
        pytest.raises(EvidenceError, match=says),
    ):
        evidence.collect(server, {"memory": "sized by hand"})
