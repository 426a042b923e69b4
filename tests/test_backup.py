"""Backup pipes: real zstd, openssl and tar; a real server where a copy must come to life."""

import json
import os
import shutil
import threading
import time

import pytest

from noisefloor import backup, results, schedule, server, study, tools, workloads
from noisefloor.parse import time as time_text

HERE = all(map(shutil.which, ("zstd", "openssl", "tar")))
pytestmark = pytest.mark.skipif(not HERE, reason="zstd, openssl or tar is missing")


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "rows").write_bytes(os.urandom(1 << 20) + bytes(1 << 20))
    (folder / "word").write_text("one")
    return folder


@pytest.fixture
def password(tmp_path):
    return server.secret_file(tmp_path / "passphrase", "correct horse\n")


def made(folder, how, data, password):
    """An archive of `data`, and what the pipe did."""
    stages = workloads.backup("tar", None, data, how, password, 2)
    took = backup.pipe(stages, folder, target=folder / "archive")
    return folder / "archive", took


def unpacked(folder, how, archive, password, name="into"):
    (folder / name).mkdir()
    stages = workloads.restore("tar", folder / name, how, password)
    return backup.pipe(stages, folder, source=archive), folder / name


@pytest.mark.parametrize(
    "how",
    [
        {"cipher": "none"},
        {"cipher": "aes-128-cbc"},
        {"cipher": "aes-128-cbc", "mask": "AES"},
        {"cipher": "aes-256-ctr", "bufsize": "1048576"},
        {"cipher": "chacha20", "pipe": "1048576"},
    ],
    ids=str,
)
def test_there_and_back(how, data, tmp_path, password):
    archive, took = made(tmp_path, how, data, password)
    names = ["tar", "zstd"] + ["openssl"] * (how["cipher"] != "none")
    assert [s["name"] for s in took["stages"]] == names
    assert all(s["exit_code"] == 0 and s["user_s"] + s["sys_s"] > 0 for s in took["stages"])
    assert took["wall_s"] >= max(s["wall_s"] for s in took["stages"])
    assert archive.read_bytes().startswith(b"Salted__") == (how["cipher"] != "none")
    back, into = unpacked(tmp_path, how, archive, password)
    assert [s["name"] for s in back["stages"]] == [*reversed(names[1:]), "tar"]
    assert backup.tree(into) == backup.tree(data)
    (into / "word").write_text("two")
    assert backup.tree(into) != backup.tree(data)


def test_states_of_a_slow_stage(tmp_path):
    """A stage that is slower than both its neighbours: one waits to write, the other to read."""
    slow = "import sys, time\nwhile sys.stdin.buffer.read(1 << 16): time.sleep(0.03)"
    stages = [
        workloads.Stage("fast", ("head", "-c", "1500000", "/dev/zero")),
        workloads.Stage("slow", ("python3", "-c", slow)),
        workloads.Stage("last", ("cat",)),
    ]
    took = backup.pipe(stages, tmp_path)["stages"]
    most = [max(s["states"], key=s["states"].get) for s in took]
    assert most == ["waits for output", "waits otherwise", "waits for input"]


def test_passphrase_is_in_no_argv(data, tmp_path, password):
    (data / "big").write_bytes(os.urandom(1 << 25))
    seen, stop = set(), threading.Event()

    def look():
        while not stop.is_set():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as f:
                        seen.add(f.read())
                except OSError:
                    pass
            time.sleep(0.005)

    looker = threading.Thread(target=look)
    looker.start()
    made(tmp_path, {"cipher": "aes-256-ctr"}, data, password)
    stop.set()
    looker.join()
    assert any(b"aes-256-ctr" in argv for argv in seen), "it was never seen running"
    assert not any(b"correct horse" in argv for argv in seen)


@pytest.mark.parametrize(
    ("cipher", "what", "openssl_notices", "first"),
    [
        ("aes-128-cbc", "wrong passphrase", True, "zstd"),
        ("aes-256-ctr", "wrong passphrase", False, "zstd"),
        ("aes-128-cbc", "one bit flipped", False, "zstd"),
        ("chacha20", "one bit flipped", False, "zstd"),
        ("aes-256-ctr", "truncated", False, "zstd"),
        ("none", "truncated", None, "zstd"),
    ],
)
def test_who_notices_damage(cipher, what, openssl_notices, first, data, tmp_path, password):
    """Neither CBC nor CTR carries a proof of who wrote it: a flipped bit gets through openssl."""
    how = {"cipher": cipher}
    (data / "more").write_bytes(os.urandom(1 << 20))
    archive, _ = made(tmp_path, how, data, password)
    backup._hurt(archive, what)
    key = server.secret_file(tmp_path / "wrong", "other\n") if what[0] == "w" else password
    if openssl_notices is not None:
        stage = workloads.restore("tar", tmp_path, how, key)[:1]
        (alone,) = backup.pipe(stage, tmp_path, source=archive)["stages"]
        # CBC's padding looks right by chance in one of 256 cases
        assert bool(alone["exit_code"]) == openssl_notices or what == "wrong passphrase"
    took, _ = unpacked(tmp_path, how, archive, key)
    failed = [s["name"] for s in took["stages"] if backup.noticed(s)]
    assert first in failed


def test_command_lines(tmp_path):
    """xtrabackup is in no registry: its command line is what can be tested."""
    how = {"cipher": "sm4", "bufsize": "65536"}
    key = tmp_path / "key"
    made = [s.argv for s in workloads.backup("xtrabackup", tmp_path / "cnf", tmp_path, how, key, 4)]
    assert made[0][:4] == (
        "xtrabackup", f"--defaults-file={tmp_path / 'cnf'}", "--backup", "--stream=xbstream"
    )  # fmt: skip
    assert made[1] == ("zstd", "-q", "-T4", "-c")
    assert made[2] == (
        "openssl", "enc", "-sm4", "-pbkdf2", "-salt", "-pass", f"file:{key}", "-bufsize", "65536"
    )  # fmt: skip
    back = [s.argv[0] for s in workloads.restore("xtrabackup", tmp_path, how, key)]
    assert back == ["openssl", "zstd", "xbstream"]


def test_speed_of_this_processor():
    assert backup._speed("aes-128-cbc", False, False) > backup._speed("aes-128-cbc", True, False)


@pytest.fixture
def begun(campaign, request):
    """A block of the study in progress: (campaign, bench, study)."""

    def begin(template):
        if template.engine.kind == "mariadb" and not shutil.which("mariabackup"):
            pytest.skip("no mariadb-backup here")
        chosen = study.load("backup-encryption", profile="smoke", engine=template.engine.kind)
        return *campaign(chosen, template), chosen

    return begin


def test_a_restored_copy_lives(begun, template):
    """On both engines: backup and restore in pairs; every copy is started, or has the bytes of one
    that was; a copy with other rows is found out."""
    c, bench, chosen = begun(template)
    for cell in schedule.cells(chosen)[:2]:
        bench.kit.ready(cell.arm, cell.workload)
        c.pair(bench, cell)
        c.pair(bench, cell)
    restored = [json.loads(f.read_text()) for f in c.folder.glob("restore*/run.json")]
    assert len(restored) == 4
    checks = [x["evidence"][0] for x in restored]
    assert {x["found"] for x in checks} == {"equal"}
    assert "prepared, started, CHECKSUM TABLE" in {x["check"] for x in checks}
    assert {x["arm"] for x in restored} == {"none", "aes-128-cbc"}
    named = {"mysql": ["clone", "tar"], "mariadb": ["mariabackup"]}[template.engine.kind]
    one = next(c.folder.glob("backup*-aes-128-cbc/run.json"))
    facts = json.loads(one.read_text())
    assert [x["name"] for x in facts["stages"]] == [*named, "zstd", "openssl"]
    assert str(bench.folder) not in one.read_text()
    (took,) = time_text((one.parent / "time.txt").read_text())
    assert took["real_s"] == pytest.approx(facts["slice_s"], abs=0.001)
    table = c.table.set_index(["workload", "arm", "metric"])["value"]
    sizes = [table["backup", a, "backup_size"].median() for a in ("none", "aes-128-cbc")]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.02)

    server = bench.servers[0]
    server.query("INSERT INTO noisefloor.canary VALUES (77, 'after the backup')")
    into = bench.kit.new("restored")
    into.mkdir()
    arm = chosen.arms[0]
    stages = workloads.restore(backup.copier(server), into, arm.how, bench.kit.password)
    backup.pipe(stages, bench.kit.folder, source=bench.kit.archives[arm.name])
    assert backup.revive(bench.kit, server, into) == "CHECKSUM TABLE differs"


def test_what_is_measured_once(begun, mariadb):
    c, bench, _ = begun(mariadb)
    c.facts(bench)
    r = results.load(c.folder)
    found = r.fact("damage").set_index(["cipher", "damage"])
    assert set(found.index.get_level_values("cipher")) == {"none", "aes-128-cbc"}
    assert "nobody" not in set(found["noticed by"])
    assert "exit 0" in found.loc[("aes-128-cbc", "one bit flipped"), "openssl alone"]
    assert set(r.fact("speed")["direction"]) == {"backup", "restore"}


def test_a_cipher_that_openssl_lacks_is_skipped(begun, mariadb):
    _, bench, chosen = begun(mariadb)
    odd = study.Arm("rot13", how={"cipher": "rot13"})
    with pytest.raises(tools.NotHere, match="rot13") as why:
        bench.kit.ready(odd, chosen.workloads[0])
    assert why.value.reason.startswith("the local openssl has no rot13 (OpenSSL")
