"""Proof that an arm is in force, on real servers."""

from pathlib import Path

import pytest

from noisefloor import evidence, studies, workloads
from noisefloor.evidence import EvidenceError

SWITCH = "binlog_encryption"


def states(server, expected: str) -> dict[str, str]:
    found = evidence.collect(server, {"binlog": expected})["checks"]
    assert {c["expected"] for c in found} == {expected}
    return {c["check"]: c["found"] for c in found}


def all_bytes(server) -> bytes:
    return b"".join(p.read_bytes() for p in server.datadir.glob("binlog.0*"))


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
        assert states(live, expected) == {
            "SHOW BINARY LOGS, Encrypted": expected,
            f"first four bytes on disk, {head}": expected,
            "canary row in the file": expected,
        }


def test_the_canary_is_in_no_file_while_encryption_is_on(live):
    live.set({SWITCH: "OFF"})
    assert evidence.plant(live).encode() in all_bytes(live)
    live.set({SWITCH: "ON"})
    assert evidence.plant(live).encode() not in all_bytes(live)


@pytest.mark.parametrize(("value", "wrong"), [("OFF", "encrypted"), ("ON", "plain")])
def test_a_contradiction_is_an_error(live, value, wrong):
    live.set({SWITCH: value})
    with pytest.raises(EvidenceError, match=f"the binlog should be {wrong}, but SHOW BINARY LOGS"):
        evidence.collect(live, {"binlog": wrong})


@pytest.mark.parametrize(("value", "state"), [("OFF", "plain"), ("ON", "encrypted")])
def test_mariadb_fixed_at_start_is_proven_twice(mariadb, copy, value, state):
    with copy(mariadb, {"encrypt_binlog": value}) as server:
        assert states(server, state) == {
            "START_ENCRYPTION event on disk": state,
            "canary row in the file": state,
        }
        canary = evidence.plant(server).encode()
        assert (canary in all_bytes(server)) == (state == "plain")
        other = {"plain": "encrypted", "encrypted": "plain"}[state]
        with pytest.raises(EvidenceError, match=f"the binlog should be {other}, but START_ENC"):
            evidence.collect(server, {"binlog": other})


def test_the_keyring_is_evidence_too(running):
    found = evidence.collect(running, {"keyring": "active"})["checks"]
    assert [c["found"] for c in found] == ["active"]
    with pytest.raises(EvidenceError, match=r"the keyring should be disabled, but .* says active"):
        evidence.collect(running, {"keyring": "disabled"})


def test_an_arm_that_expects_nothing_has_no_evidence(running):
    assert evidence.collect(running, {}) == {"checks": []}


# -- files, TLS, thread pool -----------------------------------------------------------------------

FILES = {"mysql": [*evidence.FILES], "mariadb": ["table file", "redo log", "undo log"]}


def test_rows_can_be_read_in_every_file_of_a_plain_server(own):
    wanted = dict.fromkeys(["tablespace", *FILES[own.engine.kind]], "plain")
    own.query("DROP TABLE noisefloor.hidden")
    found = evidence.collect(own, wanted)["checks"]
    assert {c["evidence"] for c in found} == wanted.keys()


def encrypted(template, copy, kind: str):
    """A running copy whose arm is the tablespace study's."""
    question = {"tables only": "headline", "everything": "everything"}[kind]
    asked = {"question": question, "profile": "smoke", "engine": template.engine.kind}
    arm = studies.load("tablespace-encryption", **asked).arm(kind)
    server = copy(template, arm.settings)
    server.start()
    server.script(*workloads.statements(arm.prepare, 5))
    return server, arm


def test_plain_tables_have_the_history_of_encrypted_ones(template, copy):
    """Both are copied once: pages as full, files as large. As loaded they are larger."""
    asked = studies.load("tablespace-encryption", profile="smoke", engine=template.engine.kind)
    sizes = []
    for prepare in (asked.baseline.prepare, asked.arms[0].prepare, ()):
        with copy(template) as server:
            if prepare:
                server.script(*workloads.statements(prepare, 5))
            files = sorted(server.datadir.glob("noisefloor/sbtest*.ibd"))
            sizes.append([(p.name, p.stat().st_size) for p in files])
    assert len(sizes[0]) == 5
    assert sizes[0] == sizes[1]
    assert all(
        copied <= loaded for (_, copied), (_, loaded) in zip(sizes[0], sizes[2], strict=True)
    )


def test_with_tables_encrypted_alone_the_logs_still_show_the_rows(template, copy):
    server, arm = encrypted(template, copy, "tables only")
    assert arm.prove["redo log"] == arm.prove["undo log"] == arm.expect["binlog"] == "plain"
    assert arm.prove["table file"] == arm.expect["tablespace"] == "encrypted"
    evidence.collect(server, arm.expect | arm.prove)
    with pytest.raises(EvidenceError, match="the redo log should be encrypted, but canary row"):
        evidence.collect(server, {"redo log": "encrypted"})


def test_with_everything_encrypted_no_file_shows_a_row(mysql, copy):
    server, arm = encrypted(mysql, copy, "everything")
    assert set((arm.expect | arm.prove).values()) == {"encrypted", "active", "off"}
    evidence.collect(server, arm.expect | arm.prove)
    with pytest.raises(EvidenceError, match="the table file should be plain, but canary row"):
        evidence.collect(server, {"table file": "plain"})


def test_one_encrypted_table_among_plain_ones_is_seen(running):
    with pytest.raises(EvidenceError, match=r"the tablespace should be plain, but .* says mixed"):
        evidence.collect(running, {"tablespace": "plain"})


def test_a_socket_is_not_tls(running):
    assert evidence.collect(running, {"TLS": "off"})["checks"][0]["found"] == "off"


def test_aes_instructions_can_be_masked(mysql, copy):
    if "aes" not in Path("/proc/cpuinfo").read_text().split("flags", 1)[-1].split("\n")[0].split():
        pytest.skip("this processor has no AES instructions")
    for mask, state in (
        ({}, "instructions"),
        ({"OPENSSL_ia32cap": "~0x200000200000000"}, "masked"),
    ):
        with copy(mysql, environment=mask) as server:
            evidence.collect(server, {"AES": state})


def test_a_thread_pool_is_on_where_it_is_loaded(mysql, copy):
    chosen = studies.load("version-upgrade", question="thread-pool", profile="standard")
    _, pooled = chosen.arms  # as the source tuned it
    expect = {k: v for k, v in pooled.expect.items() if k != "redo capacity"}
    with copy(mysql, pooled.settings) as server:
        evidence.collect(server, expect)
        with pytest.raises(EvidenceError, match="the thread pool should be off, but plugin"):
            evidence.collect(server, chosen.baseline.expect)
        server.query("GRANT TP_CONNECTION_ADMIN ON *.* TO noisefloor@localhost")
        with pytest.raises(EvidenceError, match="TP_CONNECTION_ADMIN, which passes by the pool"):
            evidence.collect(server, expect)


def test_a_server_that_sizes_itself_is_refused(mysql, copy):
    settings = {"innodb_dedicated_server": "ON"}
    with (
        copy(mysql, settings) as server,
        pytest.raises(EvidenceError, match="the memory should be sized by hand, but innodb_ded"),
    ):
        evidence.collect(server, {"memory": "sized by hand"})


def test_the_capacity_of_the_redo_log_is_compared(running):
    with pytest.raises(
        EvidenceError, match=r"the redo capacity should be 7 MiB, but .* says (100|96) MiB"
    ):
        evidence.collect(running, {"redo capacity": "7 MiB"})
