"""What the machine can do, asked of this machine."""

import json
import os

import pytest
from click.testing import CliRunner

from noisefloor import doctor
from noisefloor.cli import main

READY = {"label": "MySQL 9.7.4", "kind": "mysql", "keyring": True, "thread pool": True, "clone": True, "TLS": True}  # fmt: skip
MARIADB = READY | {"label": "MariaDB 10.11.19", "kind": "mariadb", "clone": False}
ALL = {"mysql": READY, "mysql-8.0": READY, "mariadb": MARIADB, "mariadb-11.8": MARIADB}
TOOLS = dict.fromkeys(doctor._TOOLS, "1.0")
ALLOWED = {
    name: (True, "how")
    for name in ("network namespaces", "netem", "network taps", "throttled disk")
}


def parts(built=ALL, had=TOOLS, allowed=ALLOWED) -> dict:
    return {(p.study, p.part): p for p in doctor.studies(built, had, allowed)}


def test_facts_are_this_machine_and_nobody_s_name():
    facts = doctor.facts()
    assert facts["cores"] == len(os.sched_getaffinity(0))
    assert facts["memory_B"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert facts["kernel"] == os.uname().release
    text = json.dumps(facts)
    assert os.uname().nodename not in text
    assert str(os.path.expanduser("~")) not in text


def test_with_everything_every_part_of_every_study_can_be_measured():
    found = parts()
    assert {study for study, _ in found} == {
        "binlog-encryption",
        "tablespace-encryption",
        "backup-encryption",
        "ssl-connections",
        "version-upgrade",
        "settings",
    }
    assert [p for p in found.values() if not p.can or p.add] == []


@pytest.mark.parametrize(
    ("change", "part", "why", "add"),
    [
        ({"had": TOOLS | {"sysbench": None}}, ("binlog-encryption", "MySQL"), "sysbench missing", "apt-get install sysbench"),
        ({"built": ALL | {"mysql": {"missing": "no"}}}, ("binlog-encryption", "MySQL"), "no mysql server", "noisefloor doctor --fetch mysql"),
        ({"built": ALL | {"mysql": MARIADB}}, ("version-upgrade", "thread pool"), "only MariaDB 10.11.19 is here", "noisefloor doctor --fetch mysql"),
        ({"built": ALL | {"mysql": READY | {"clone": False}}}, ("backup-encryption", "MySQL"), "MySQL 9.7.4 has no clone", "noisefloor doctor --fetch mysql"),
        ({"built": ALL | {"mariadb": {"missing": "no"}}}, ("backup-encryption", "MariaDB"), "no mariadb server", "apt-get install mariadb-server-core mariadb-client-core"),
        ({"allowed": ALLOWED | {"throttled disk": (False, "Read-only file system")}}, ("binlog-encryption", "throttled disk"), "Read-only file system", ""),
        ({"allowed": ALLOWED | {"netem": (False, "unknown"), "network taps": (False, "no /dev/net/tun")}}, ("ssl-connections", "network distance"), "wirefilter: no /dev/net/tun", ""),
        ({"built": ALL | {"mysql-8.0": {"missing": "no"}}, "had": TOOLS | {"mvn": None}}, ("version-upgrade", "8.0 against 9.7"), "no mysql-8.0 server", "apt-get install maven && noisefloor doctor --fetch mysql-8.0"),
        ({"built": ALL | {"mariadb-11.8": {"missing": "no"}}}, ("version-upgrade", "MariaDB, one packager"), "no mariadb-11.8 server", "noisefloor doctor --fetch mariadb-11.8"),
    ],
)  # fmt: skip
def test_what_is_missing_comes_with_its_reason_and_its_command(change, part, why, add):
    found = parts(**change)[part]
    assert not found.can
    assert why in found.why
    assert found.add.endswith(add)


def test_a_netem_without_wirefilter_is_enough_and_the_other_way_round():
    by_wire = parts(allowed=ALLOWED | {"netem": (False, "unknown")})
    assert by_wire["ssl-connections", "network distance"].why == "wirefilter"
    apart = parts(had=TOOLS | {"wirefilter": None}, allowed=ALLOWED | {"netem": (False, "unknown")})
    assert apart["ssl-connections", "network distance"].why == "wirefilter, unpacked apart"
    by_netem = parts(had=TOOLS | {"wirefilter": None})
    assert by_netem["ssl-connections", "network distance"].why == "netem"


def test_rights_are_tried_and_leave_no_trace():
    before = _groups()
    allowed = doctor.rights()
    assert set(allowed) == set(ALLOWED)
    assert all(why for _, why in allowed.values())
    assert _groups() == before


def _groups():
    return {p for p in ("/sys/fs/cgroup", "/sys/fs/cgroup/blkio") if os.path.isdir(p) for p in os.listdir(p) if "noisefloor-doctor" in p}  # fmt: skip


def test_the_command_answers_and_its_json_is_the_same_story():
    ran = CliRunner().invoke(main, ["doctor", "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.output)
    assert found["engines"]["mysql"]["TLS"] is True
    text = doctor.text(found)
    assert found["engines"]["mysql"]["label"] in text
    assert all(p["study"] in text for p in found["studies"])


def test_an_engine_that_does_not_exist_is_not_fetched():
    ran = CliRunner().invoke(main, ["doctor", "--fetch", "postgres"])
    assert ran.exit_code == 2
    assert "not 'postgres'; nothing was done" in ran.output
