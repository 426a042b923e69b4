"""Backup pipes: real zstd, openssl and tar; a real server where a copy must come to life."""

import os
import shutil
import threading
import time

import pytest

from noisefloor import backup, collect, engines, results, server, workloads
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


def test_smoke(tmp_path, monkeypatch):
    """A whole campaign on MariaDB: backups, restores that are proved, evidence, verdict table."""
    try:
        if engines.find("mariadb", fetch=False).kind != "mariadb" or not shutil.which(
            "mariabackup"
        ):
            pytest.skip("no mariadb-backup here")
    except engines.EngineMissing as why:
        pytest.skip(str(why))
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(tmp_path))
    folder = collect.obtain("backup-encryption", profile="smoke", engine="mariadb", budget_min=0.15)
    r = results.load(folder)
    assert set(r.verdicts["workload"]) == {"backup", "restore"}
    proofs = [c for f in folder.glob("restore*/run.json") for c in _evidence(f)]
    assert {"prepared, started, CHECKSUM TABLE"} <= {c["check"] for c in proofs}
    assert all(c["found"] == "equal" for c in proofs)
    one = next(folder.glob("backup*aes*/run.json")).parent
    (took,) = time_text((one / "time.txt").read_text())
    assert took["real_s"] > 0
    noticed = r.fact("damage").set_index(["cipher", "damage"])["noticed by"]
    assert "nobody" not in set(noticed)


def _evidence(file):
    import json

    return json.loads(file.read_text())["evidence"]
