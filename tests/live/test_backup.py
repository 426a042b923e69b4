"""Backup pipes: real zstd, openssl and tar; a real server where a copy must come to life."""

import os
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from conftest import arm_of, command_lines, mostly, until
from noisefloor import model as study
from noisefloor import schedule, studies
from noisefloor.data import tidy
from noisefloor.measure import backup, collect, loading, tools, workloads
from noisefloor.parse import time as time_text
from noisefloor.servers import evidence, server

AES = {"cipher": "aes-128-cbc"}
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
        {"cipher": "chacha20"},
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
        ("head", "-c", "1500000", "/dev/zero"),
        ("python3", "-c", slow),
        ("cat",),
    ]
    took = backup.pipe(stages, tmp_path)["stages"]
    most = [max(s["states"], key=s["states"].get) for s in took]
    assert most == ["waits for output", "waits otherwise", "waits for input"]


def test_passphrase_is_in_no_argv(data, tmp_path, password):
    (data / "big").write_bytes(os.urandom(1 << 25))
    seen = []
    with ThreadPoolExecutor(1) as beside:
        going = beside.submit(made, tmp_path, {"cipher": "aes-256-ctr"}, data, password)
        while not going.done():
            seen.append(command_lines())
            time.sleep(0.005)
    assert any("aes-256-ctr" in lines for lines in seen), "it was never seen running"
    assert not any("correct horse" in lines for lines in seen)


@pytest.mark.parametrize(
    ("cipher", "what", "openssl_notices"),
    [
        ("aes-128-cbc", "wrong passphrase", None),  # CBC's padding looks right by chance
        ("aes-256-ctr", "wrong passphrase", None),
        ("aes-128-cbc", "one bit flipped", False),
        ("chacha20", "one bit flipped", False),
        ("aes-256-ctr", "truncated", False),
        ("none", "truncated", None),
    ],
)
def test_who_notices_damage(cipher, what, openssl_notices, data, tmp_path, password):
    """Neither CBC nor CTR carries a proof of who wrote it: a flipped bit gets through openssl."""
    how = {"cipher": cipher}
    (data / "more").write_bytes(os.urandom(1 << 20))
    archive, _ = made(tmp_path, how, data, password)
    backup._hurt(archive, what)
    key = server.secret_file(tmp_path / "wrong", "other\n") if what[0] == "w" else password
    if openssl_notices is not None:
        stage = workloads.restore("tar", tmp_path, how, key)[:1]
        (alone,) = backup.pipe(stage, tmp_path, source=archive)["stages"]
        assert bool(alone["exit_code"]) == openssl_notices
    took, _ = unpacked(tmp_path, how, archive, key)
    assert "zstd" in [s["name"] for s in took["stages"] if backup.noticed(s)]


def test_command_lines(tmp_path):
    """xtrabackup is in no registry: its command line is what can be tested."""
    how, key = {"cipher": "sm4-cbc"}, tmp_path / "key"
    made = workloads.backup("xtrabackup", tmp_path / "cnf", tmp_path, how, key, 4)
    assert made[0][:4] == (
        "xtrabackup", f"--defaults-file={tmp_path / 'cnf'}", "--backup", "--stream=xbstream"
    )  # fmt: skip
    assert made[1] == ("zstd", "-q", "-T4", "-c")
    assert made[2] == ("openssl", "enc", "-sm4-cbc", "-pbkdf2", "-salt", "-pass", f"file:{key}")
    back = [argv[0] for argv in workloads.restore("xtrabackup", tmp_path, how, key)]
    assert back == ["openssl", "zstd", "xbstream"]


def test_what_is_cold_is_read_from_disk(data, tmp_path):
    """Read back from the counters of the system: nothing of a file that was just written, all of it
    once it is cold. Of a folder as of a file."""
    big = data / "deep" / "big"
    big.parent.mkdir()
    big.write_bytes(os.urandom(1 << 24))

    def read(file):
        (stage,) = backup.pipe([("cat",)], tmp_path, source=file)["stages"]
        return stage["read_B"]

    assert read(big) < 1 << 20
    for place in (data, big):
        backup.cold(place)
        assert read(big) >= 1 << 24
    assert read(big) < 1 << 20  # it was read, and is in the cache again


# -- which process is to blame ---------------------------------------------------------------------


def ended(name, code, wall_s, said=""):
    return {"name": name, "exit_code": code, "wall_s": wall_s, "said": said}


BROKEN = "zstd: error 70 : Write error : Broken pipe (cannot write compressed block)"


@pytest.mark.parametrize(
    ("stages", "named"),
    [
        # tar lost its reader, which lost its own
        ([("tar", -13, 2.0), ("zstd", -13, 1.5), ("openssl", 1, 1.0, "no key")], "openssl"),
        ([("tar", -13, 1.0), ("zstd", 70, 1.0, BROKEN), ("openssl", 1, 1.0, "no key")], "openssl"),
        # zstd's input ended too soon because openssl had failed
        ([("openssl", 1, 1.0, "bad decrypt"), ("zstd", 1, 1.2, "premature end")], "openssl"),
        ([("openssl", -9, 1.0), ("zstd", 1, 1.0, "premature end"), ("tar", 2, 1.1)], "openssl"),
        # openssl wrote to nobody because zstd had failed
        ([("openssl", 1, 1.3, "error writing output file"), ("zstd", 1, 1.2, "format")], "zstd"),
        # nobody says that it failed
        ([("tar", -13, 1.0), ("zstd", 0, 2.0)], "tar"),
    ],
    ids=str,
)
def test_the_process_that_failed_first_is_named(stages, named):
    with pytest.raises(tools.ToolError, match=f"^{named} ended with exit code"):
        backup._must({"stages": [ended(*s) for s in stages]})


def test_what_a_pipe_does_that_is_cut_is_no_failure_but_what_failed_before_is():
    killed = [ended("mariabackup", -9, 2.0), ended("zstd", -13, 2.0), ended("openssl", -9, 2.0)]
    backup._must({"stages": killed}, cut=True)
    backup._must({"stages": [ended("tar", 0, 1.0)]})
    with pytest.raises(tools.ToolError, match="mariabackup ended with exit code -9"):
        backup._must({"stages": killed})
    with pytest.raises(tools.ToolError, match="openssl ended with exit code 1"):
        backup._must({"stages": [*killed[:2], ended("openssl", 1, 0.1)]}, cut=True)


def test_a_pipe_that_is_over_ends_at_once(tmp_path, data, password):
    archive, over, began = tmp_path / "archive", threading.Event(), []

    def end_it():
        until(lambda: archive.exists() and archive.stat().st_size, "an archive that begins")
        began.append(time.monotonic())
        over.set()

    threading.Thread(target=end_it).start()
    stages = [("cat", "/dev/urandom"), *workloads.backup("tar", None, data, AES, password, 1)[1:]]
    took = backup.pipe(stages, tmp_path, target=archive, over=over)
    assert time.monotonic() - began[0] < 3
    assert all(x["exit_code"] in (-9, -13) for x in took["stages"])
    assert backup._kind(archive) == "encrypted"
    backup._must(took, cut=True)


def test_no_server_of_another_arm_runs_beside_the_one_that_is_measured():
    plain, encrypted, stopped = (SimpleNamespace(process=p) for p in ("1", "2", None))
    pool = object.__new__(backup.BackupPool)
    pool.servers, pool.extra = [plain], {"encrypted tables": encrypted, "copied tables": stopped}
    assert pool.idle(plain) == {"idle0": encrypted}
    assert pool.idle(encrypted) == {"idle0": plain}


def test_an_archive_that_is_not_what_its_arm_says_is_an_error(tmp_path):
    file = tmp_path / "archive"
    for head, kind in (
        (b"Salted__", "encrypted"),
        (b"\x28\xb5\x2f\xfd", "plain"),
        (b"x", "unknown"),
    ):
        file.write_bytes(head)
        assert backup._kind(file) == kind
    file.write_bytes(b"")
    assert backup._kind(file) == ""
    aes = study.Arm("aes", how=AES)
    assert backup._proof(aes, ["encrypted", "encrypted"])[0]["found"] == "encrypted"
    for found in (["plain"], ["encrypted", "plain"], [""], []):
        with pytest.raises(evidence.EvidenceError, match="the archive should be encrypted"):
            backup._proof(aes, found)


def test_a_copy_that_is_no_backup_fails_its_run_and_proves_no_other(tmp_path, monkeypatch):
    """The first copy that is one is started; the next ones with its bytes are not."""
    kit, revived = SimpleNamespace(proved=set()), iter(["CHECKSUM TABLE differs", ""])
    monkeypatch.setattr(backup, "revive", lambda *_: next(revived))
    with pytest.raises(tools.ToolError, match="copy is no backup: CHECKSUM TABLE differs"):
        backup._prove(kit, None, tmp_path, "digest")
    (first,), (again,) = (backup._prove(kit, None, tmp_path, "digest") for _ in range(2))
    assert first["check"] == "prepared, started, CHECKSUM TABLE"
    assert again["check"] == "bytes of a copy that was started and compared"


# -- how fast a cipher is --------------------------------------------------------------------------


def test_speed_of_this_processor(begun, mariadb):
    """Both directions of every cipher of the arms, by the openssl that the pipe starts."""
    chosen, bench = begun(mariadb, "headline")
    assert chosen.facts == ("speed",)
    rows = bench.fact("speed")
    assert [(x["arm"], x["direction"]) for x in rows] == [
        ("aes-128-cbc", "backup"),
        ("aes-128-cbc", "restore"),
    ]
    there, back = (x["B_per_s"] for x in rows)
    assert back > there > 1e6  # CBC decrypts several blocks at once
    assert {x["openssl"] for x in rows} == {f"OpenSSL {loading.openssl(None)}"}


def test_a_speed_that_was_not_printed_is_no_number(tmp_path):
    (tmp_path / "openssl.txt").write_text("+H:8192\n")
    with pytest.raises(tidy.Unusable, match="no rate"):
        tidy.metrics({"workload_tool": "speed"}, tmp_path)


@pytest.fixture
def begun_whole(campaign):
    """A block of a question in progress: (study, campaign, bench)."""

    def begin(template, question, **work):
        if template.engine.kind == "mariadb" and not shutil.which("mariabackup"):
            pytest.skip("no mariadb-backup here")
        engine = template.engine.kind
        chosen = studies.load(study.Request("backup-encryption", question, "smoke", engine))
        first = study.replace(chosen.workloads[0], **work)
        profile = study.replace(chosen.profile, rows=1_000)
        chosen = study.replace(chosen, workloads=(first,), profile=profile)
        return chosen, *campaign(chosen, template)

    return begin


@pytest.fixture
def begun(begun_whole):
    """The same without the campaign."""

    def begin(template, question):
        chosen, _, bench = begun_whole(template, question)
        return chosen, bench

    return begin


def run(bench, chosen, tool, arm, folder):
    """One run of a measuring tool: what stands in its run.json, and its metrics."""
    folder.mkdir(exist_ok=True)
    workload = study.Workload(tool.__name__, "", tool=tool.__name__)
    bench.ready(arm, workload)
    found = tool(tools.Slice(chosen, bench.servers[0], arm, workload, 2, 1, folder, pool=bench))
    return found, tidy.metrics({"workload_tool": tool.__name__} | found, folder)


def on_disk(server):
    """Bytes that the tables take on disk."""
    return sum(p.stat().st_blocks * 512 for p in server.datadir.glob("noisefloor/*.ibd"))


@mostly("mariadb")
def test_a_restored_copy_lives(begun, template, tmp_path):
    """On both engines: every restored copy is started, or has the bytes of one that was; a copy with
    other rows is found out."""
    chosen, bench = begun(template, "headline")
    sizes, checks = {}, []
    for arm in (chosen.baseline, *chosen.arms):
        found, metric = run(bench, chosen, backup.backup, arm, tmp_path / "backup")
        named = {"mysql": ["clone", "tar"], "mariadb": ["mariabackup"]}[template.engine.kind]
        cipher = ["openssl"] * (arm.how["cipher"] != "none")
        assert [x["name"] for x in found["stages"]] == [*named, "zstd", *cipher]
        assert found["stages"][0]["read_B"] > 0.5 * on_disk(bench.servers[0])
        kind = "encrypted" if cipher else "plain"
        assert [x["found"] for x in found["evidence"]] == [kind]
        assert str(bench.folder) not in str(found)
        (took,) = time_text((tmp_path / "backup" / "time.txt").read_text())
        assert took["real_s"] == pytest.approx(found["slice_s"], abs=0.001)
        sizes[arm.name] = metric["backup_size"]
        for _ in range(2):
            found, metric = run(bench, chosen, backup.restore, arm, tmp_path / "restore")
            assert metric["backup_size"] == sizes[arm.name]  # of this very archive
            assert found["steal_s"] >= 0
            assert found["stages"][0]["read_B"] >= sizes[arm.name]  # and none of it was in a cache
            if template.engine.kind == "mariadb":  # its prepare has a clock of its own
                assert metric["wall_prepared"] == pytest.approx(metric["wall"] + found["prepare_s"])
                assert found["prepare_s"] > 0
            else:
                assert "wall_prepared" not in metric
            checks += found["evidence"]
    assert {x["found"] for x in checks} == {"equal"}
    assert "prepared, started, CHECKSUM TABLE" in {x["check"] for x in checks}
    assert sizes["aes-128-cbc"] == pytest.approx(sizes["none"], rel=0.02)

    server = bench.servers[0]
    server.query("INSERT INTO noisefloor.canary VALUES (77, 'after the backup')")
    into = bench.new("restored")
    into.mkdir()
    arm = chosen.arms[0]
    stages = workloads.restore(backup.copier(server), into, arm.how, bench.password)
    backup.pipe(stages, bench.kept, source=bench.archives[arm.name])
    backup.prepare(server, into)
    assert backup.revive(bench, server, into) == "CHECKSUM TABLE differs"


PAGE_B = 16 << 10


def test_rows_compress_as_those_of_the_source(mariadb, copy):
    """7.6 to 1, pages left out that hold nothing yet; as sysbench makes them they compress 2.4 to
    1."""
    chosen = studies.load(study.Request("backup-encryption", profile="smoke"))
    chosen = study.replace(chosen, profile=study.replace(chosen.profile, rows=40_000), tables=1)
    own = copy(mariadb)
    with own:
        own.query("DROP TABLE noisefloor.sbtest1")
        loading.fill(own, chosen)
        own.stop()
    whole = (own.datadir / "noisefloor" / "sbtest1.ibd").read_bytes()
    pages = (whole[at : at + PAGE_B] for at in range(0, len(whole), PAGE_B))
    full = b"".join(p for p in pages if p.strip(b"\0"))
    packed = subprocess.run(["zstd", "-q", "-c"], input=full, capture_output=True, check=True)
    assert 6.5 < len(full) / len(packed.stdout) < 9


@pytest.mark.slow
def test_an_archive_is_as_small_as_that_of_the_source(begun, mariadb, tmp_path):
    """Of all files of a server, with as many rows as a quick campaign has; 9.2 was seen once."""
    chosen, bench = begun(mariadb, "headline")
    quick = studies.load(study.Request("backup-encryption", profile="quick"))
    (server,) = bench.servers
    server.script(*(f"DROP TABLE IF EXISTS noisefloor.sbtest{n}" for n in range(1, 9)))
    loading.fill(server, quick)
    server.stop()
    server.start()
    found, _ = run(bench, chosen, backup.backup, chosen.baseline, tmp_path / "backup")
    assert 6.5 < found["data_B"] / found["archive_B"] < 10


def test_a_restore_without_a_backup_makes_its_own(begun, template, tmp_path):
    """The restores are a question of their own: no backup is measured there."""
    chosen, bench = begun(template, "restore")
    arm = arm_of(chosen, "aes-128-cbc")
    found, metric = run(bench, chosen, backup.restore, arm, tmp_path / "restore")
    unpacks = {"mysql": "tar", "mariadb": "mbstream"}[template.engine.kind]
    assert [x["name"] for x in found["stages"]] == ["openssl", "zstd", unpacks]
    assert metric["backup_size"] == bench.archives[arm.name].stat().st_size
    assert found["evidence"][0]["found"] == "equal"


@pytest.fixture
def after_a_backup(monkeypatch):
    """The load beside backups begins when the first of them has ended, so that no slow machine is
    too slow to make one in the seconds of the load."""
    ended, cold, load, copy = threading.Event(), backup.cold, tools.sysbench, backup._backup

    def begin(place):
        ended.clear()
        cold(place)

    def copied(*given):
        try:
            return copy(*given)
        finally:
            ended.set()

    def loaded(run):
        assert "cipher" not in run.arm.how or ended.wait(tools.child.PATIENCE_S)
        return load(run)

    monkeypatch.setattr(backup, "cold", begin)
    monkeypatch.setattr(backup, "_backup", copied)
    monkeypatch.setattr(tools, "sysbench", loaded)


@pytest.mark.slow
@mostly("mariadb")
@pytest.mark.usefixtures("after_a_backup")
@pytest.mark.parametrize(
    "name", ["aes-128-cbc backup", pytest.param("plain backup", marks=pytest.mark.slow)]
)
def test_a_load_beside_backups(begun_whole, template, name):
    """Backups go on for as long as the load does, and are ended with it; what their processes use is
    not the server's; one that fails fails the run, and the process is named that failed."""
    load = {"rate": 20, "threads": (64,), "slices": {"64": 3}, "errors": 0.1}
    chosen, c, bench = begun_whole(template, "beside", **load)
    cells = {x.arm.name: x for x in schedule.cells(chosen) if not x.control}
    c.pair(bench, cells[name])
    copier = {"mysql": "tar", "mariadb": "mariabackup"}[template.engine.kind]
    runs = [tidy.read(run) for run in tidy.run_folders(c.folder)]
    assert [f["rate"] for f in runs] == 2 * [20]
    for f in runs:
        kind = {"no backup": "none", "plain backup": "plain"}.get(f["arm"], "encrypted")
        assert [x["found"] for x in f["evidence"]] == [kind]
        stages = {"none": [], "plain": [copier, "zstd"]}.get(kind, [copier, "zstd", "openssl"])
        assert [x["name"] for x in f["stages"][: len(stages)]] == stages
        assert len(f["stages"]) >= len(stages)
        assert f["slice_s"] == 3
        assert {x["exit_code"] for x in f["stages"]} <= {0, -9, -13}
        assert str(bench.folder) not in str(f)
    table, problems, _ = tidy.opened(c.folder).tidy_runs
    assert problems == []
    full = table[table["metric"].eq("saturated") & table["value"].gt(0)]  # of a busy machine
    assert len(full) or {"p50", "mean_latency", "cpu_per_transaction"} <= set(table["metric"])
    assert set(tidy.stages(c.folder)["arm"]) == {name}
    assert list(bench.kept.glob("archive*")) == []

    bench.password.unlink()
    c.pair(bench, cells["aes-128-cbc backup"])
    assert len(list(tidy.run_folders(c.folder))) == 2
    said = [f.read_text() for f in c.folder.glob("*aes*.failed*/failure.txt")]
    assert len(said) == 2
    assert all("openssl ended with exit code" in x for x in said)


def test_who_notices_damage_is_told_in_words(begun, mariadb):
    chosen, bench = begun(mariadb, "restore")
    assert chosen.facts == ("damage",)
    found = {(x["cipher"], x["damage"]): x for x in bench.fact("damage")}
    assert {c for c, _ in found} == {"none", "aes-128-cbc", "chacha20"}
    assert not [x for x in found.values() if x["noticed by"] == "nobody"]
    assert "exit 0" in found["aes-128-cbc", "one bit flipped"]["openssl alone"]
    assert all(isinstance(v, str) for x in found.values() for v in x.values())
    # of an archive that is whole nobody reports anything
    server, cipher = bench.servers[0], "aes-128-cbc"
    archive, _ = backup._backup(bench, server, arm_of(chosen, cipher), 1)
    whole = backup._noticed(bench, server, cipher, archive, bench.password)
    assert (whole["openssl alone"], whole["noticed by"]) == ("notices nothing, exit 0", "nobody")


@pytest.mark.slow
def test_an_arm_with_other_tables_has_a_server_of_its_own(home):
    """It starts when the baseline's does, and nobody is warmed up: every run begins cold. What it
    makes is larger, and its tables are encrypted."""
    asked = study.Request("backup-encryption", "encrypted-tables", "smoke", budget_min=0.5)
    (folder,) = collect.measure_study(asked)
    runs = [tidy.read(r) for r in tidy.run_folders(folder)]
    assert not [r for r in runs if r["warmup"]]
    plain, encrypted = "none, copied tables", "none, encrypted tables"
    assert {r["arm"].removesuffix(study.CONTROL_SUFFIX) for r in runs} == {plain, encrypted}
    by_arm = {r["arm"]: r["archive_B"] for r in runs}
    assert by_arm[encrypted] > 2 * by_arm[plain]
    seen = tidy.evidence(folder)
    seen = seen[seen["evidence"] == "tablespace"].set_index("arm")["found"]
    assert (seen[plain], seen[encrypted]) == ("plain", "encrypted")


def test_what_this_machine_lacks_is_skipped(begun, mariadb, monkeypatch):
    chosen, bench = begun(mariadb, "headline")
    odd, aes = study.Arm("rot13", how={"cipher": "rot13"}), arm_of(chosen, "aes-128-cbc")
    with pytest.raises(tools.NotHere, match="rot13") as why:
        bench.ready(odd, chosen.workloads[0])
    assert why.value.reason.startswith("the local openssl has no rot13 (OpenSSL")
    monkeypatch.setattr(backup.engines, "which", lambda n: n if n == "openssl" else "")
    with pytest.raises(tools.NotHere, match="zstd is not on this machine"):
        bench.ready(aes, chosen.workloads[0])
