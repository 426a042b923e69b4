"""What the machine can do, asked of this machine."""

import json
import os
from pathlib import Path

import pytest

from conftest import done
from noisefloor.servers import doctor
from noisefloor.show import identity
from noisefloor.studies import STUDIES

READY = {"label": "MySQL 9.7.4", "kind": "mysql", "keyring": True, "thread pool": True, "clone": True}  # fmt: skip
MARIADB = READY | {"label": "MariaDB 10.11.19", "kind": "mariadb", "clone": False}
ALL = {"mysql": READY, "mysql-8.0": READY, "mariadb": MARIADB, "mariadb-11.8": MARIADB}
TOOLS = dict.fromkeys(doctor._TOOLS, "1.0")
RIGHTS = ("network namespaces", "netem", "network taps", "throttled disk")
ALLOWED = dict.fromkeys(RIGHTS, (True, "how"))
BINLOG, DISTANCE = ("binlog-encryption", "MySQL"), ("ssl-connections", "network distance")


def lacks(name: str) -> dict:
    return {"built": ALL | {name: {"missing": "no"}}}


def parts(built=ALL, had=TOOLS, allowed=ALLOWED) -> dict:
    return {(p["study"], p["part"]): p for p in doctor.studies(built, had, allowed)}


def test_facts_are_this_machine_and_nobody_s_name():
    facts = doctor.host_facts()
    assert facts["cores"] == len(os.sched_getaffinity(0))
    assert facts["memory_B"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert facts["kernel"] == os.uname().release
    assert facts["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert set(facts) == identity.HOST_FACTS
    text = json.dumps(facts)
    assert os.uname().nodename not in text
    assert str(Path.home()) not in text


def test_instructions_that_encryption_uses_are_kept(monkeypatch):
    real, cpu = doctor._read, "model name\t: x\nflags\t\t: fpu vaes aes sha_ni hypervisor\n"
    monkeypatch.setattr(doctor, "_read", lambda p: cpu if p == "/proc/cpuinfo" else real(p))
    facts = doctor.host_facts()
    assert (facts["flags"], facts["aes"]) == (["aes", "sha_ni", "vaes"], True)


X86 = """processor\t: {}
vendor_id\t: AuthenticAMD
cpu family\t: 23
model\t\t: 1
model name\t: AMD EPYC
stepping\t: {}
microcode\t: 0x1000065

"""
ARM = """processor\t: {}
BogoMIPS\t: 50.00
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: {}
CPU revision\t: 1

"""
EPYC = {"vendor": "AuthenticAMD", "family": 23, "model": 1}


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        (X86.format(0, 2) + X86.format(1, 2), EPYC | {"stepping": 2}),
        (X86.format(0, "unknown"), EPYC),
        (ARM.format(0, "0xd0c") + ARM.format(1, "0xd0d"), {"vendor": "0x41", "model": 0xD0C, "stepping": 3}),
        ("vendor_id       : IBM/S390\n# processors    : 2\n", {}),
        (X86.format(0, 2).replace("AuthenticAMD", ""), {}),
        ("", {}),
    ],
)  # fmt: skip
def test_a_processor_is_what_cpuinfo_says_of_its_first_core(cpuinfo, expected):
    assert doctor.processor_facts(cpuinfo) == expected


def test_the_processor_of_this_machine():
    cpuinfo = Path("/proc/cpuinfo").read_text()
    processor = doctor.host_facts()["processor"]
    assert processor == doctor.processor_facts(cpuinfo)
    if "vendor_id" in cpuinfo and "stepping" in cpuinfo:
        assert list(processor) == ["vendor", "family", "model", "stepping"]


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({}, ""),
        ({"smt/active": "0", "intel_pstate/status": "off"}, "CPU: SMT off"),
        (
            {
                "cpu0/cpufreq/scaling_governor": "powersave",
                "cpu1/cpufreq/scaling_governor": "performance",
                "cpu10/cpufreq/scaling_governor": "powersave",
                "intel_pstate/no_turbo": "0",
                "smt/active": "1",
            },
            "CPU: governor performance and powersave, boost on, SMT on",
        ),
        ({"intel_pstate/no_turbo": "1"}, "CPU: boost off"),
        ({"cpufreq/boost": "1"}, "CPU: boost on"),
    ],
)
def test_governor_boost_and_smt_are_said_where_the_system_tells_them(
    files, line, tmp_path, monkeypatch
):
    for name, value in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    monkeypatch.setattr(doctor, "_CPUS", tmp_path)
    facts = {key: {} for key in ("engines", "tools", "rights")} | {"studies": []}
    said = doctor.text(facts | {"host": doctor.host_facts()}).splitlines()
    assert [row.strip() for row in said if "CPU: " in row] == ([line] if line else [])


def test_with_everything_every_part_of_every_study_can_be_measured():
    found = parts()
    assert {study for study, _ in found} == set(STUDIES) - {"own-study", "calibration"}
    assert [p for p in found.values() if not p["can"] or p["add"]] == []


@pytest.mark.parametrize(
    ("change", "part", "why", "add"),
    [
        ({"had": TOOLS | {"sysbench": None}}, BINLOG, "sysbench missing", "apt-get install sysbench"),
        (lacks("mysql"), BINLOG, "no mysql server", "noisefloor doctor --fetch mysql"),
        ({"built": ALL | {"mysql": MARIADB}}, ("version-upgrade", "thread pool"), "only MariaDB 10.11.19 is here", "noisefloor doctor --fetch mysql"),
        ({"built": ALL | {"mysql": READY | {"clone": False}}}, ("backup-encryption", "MySQL"), "MySQL 9.7.4 has no clone", "noisefloor doctor --fetch mysql"),
        (lacks("mariadb"), ("backup-encryption", "MariaDB"), "no mariadb server", "apt-get install mariadb-server-core mariadb-client-core"),
        ({"had": TOOLS | {"zstd": None, "openssl": None}}, ("backup-encryption", "MySQL"), "zstd, openssl missing", "apt-get install openssl zstd"),
        ({"allowed": ALLOWED | {"throttled disk": (False, "Read-only file system")}}, ("binlog-encryption", "throttled disk"), "Read-only file system", ""),
        ({"allowed": ALLOWED | {"netem": (False, "unknown"), "network taps": (False, "no /dev/net/tun")}}, DISTANCE, "wirefilter: no /dev/net/tun", ""),
        (lacks("mysql-8.0") | {"had": TOOLS | {"mvn": None}}, ("version-upgrade", "8.0 against 9.7"), "no mysql-8.0 server", "apt-get install maven && noisefloor doctor --fetch mysql-8.0"),
        (lacks("mariadb-11.8"), ("mariadb-upgrade", "one packager"), "no mariadb-11.8 server", "noisefloor doctor --fetch mariadb-11.8"),
    ],
)  # fmt: skip
def test_what_is_missing_comes_with_its_reason_and_its_command(change, part, why, add):
    found = parts(**change)[part]
    assert not found["can"]
    assert why in found["why"]
    assert found["add"].endswith(add)


@pytest.mark.parametrize(
    ("wirefilter", "netem", "using"),
    [
        ("1.0", False, "wirefilter"),
        (None, False, "wirefilter, unpacked apart"),
        (None, True, "netem"),
    ],
)
def test_a_netem_without_wirefilter_is_enough_and_the_other_way_round(wirefilter, netem, using):
    found = parts(
        had=TOOLS | {"wirefilter": wirefilter}, allowed=ALLOWED | {"netem": (netem, "unknown")}
    )
    assert found[DISTANCE]["can"]
    assert found[DISTANCE]["why"] == using


def test_rights_are_tried_and_leave_no_trace():
    allowed = doctor.rights()
    assert set(allowed) == set(ALLOWED)
    assert all(why for _, why in allowed.values())
    groups, own = Path("/sys/fs/cgroup"), f"noisefloor-{os.getpid()}*"
    assert not [*groups.glob(own), *groups.glob(f"blkio/{own}")]


def test_the_command_answers_and_its_json_is_the_same_story():
    found = json.loads(done("doctor", "--json"))
    text = doctor.text(found)
    assert found["engines"]["mysql"]["label"] in text
    assert all(p["study"] in text for p in found["studies"])
