"""Proof that an arm is in force, on real servers."""

import pytest

from noisefloor import evidence
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
