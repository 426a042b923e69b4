"""A campaign as one tar.xz: the same table, digest and pages; and what damage and hostile archives lead to."""

import hashlib
import io
import json
import lzma
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest

from conftest import DATA, done, refused
from conftest import noisefloor as command
from noisefloor import explore, paths, store
from noisefloor.data import pack, packed, results, tidy
from noisefloor.data.ingest import build, frame

NAME = "binlog-encryption-smoke-test"
RUN = "in-memory-t2-encrypted-p001-0-encrypted"


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A live campaign that has ended, with everything that tidy sets aside; and packed."""
    place = tmp_path_factory.mktemp("both")
    folder = shutil.copytree(DATA / "campaign", place / "live" / NAME)
    for name in (f"{RUN}.failed1", "in-memory-t2-x-p009-0-plain"):
        (folder / name).mkdir()
    (folder / f"{RUN}.failed1" / "sysbench.txt").write_text("it failed\n")
    (folder / f"{RUN}.unpaired1").mkdir()  # and empty
    (folder / "fact-speed.json").write_text('[{"aes": 1.5}]')
    tidy.seal(folder)
    archived, _, _ = pack.pack(folder, place / "packed" / NAME)
    return folder, archived


@pytest.fixture
def live(home, both):
    """That campaign."""
    return shutil.copytree(both[0], paths.runs() / NAME)


@pytest.fixture
def kept(home, both):
    """The same, packed, and nothing else of that name."""
    shutil.copytree(both[0], paths.root() / "loose")
    return shutil.copytree(both[1], paths.recorded() / NAME)


def rewritten(folder: Path, change) -> None:
    """The archive of a campaign with `change` made to its {name: content}."""
    held = {
        name: bytes(content) for name, content in packed.runs_folder(folder).archive.files.items()
    }
    change(held)
    pack.write(packed.archive(folder), held.items())


# -- the same, packed ------------------------------------------------------------------------------


def test_every_table_and_the_digest_are_those_of_the_folder(live):
    folder, files, size = pack.pack(live)
    assert folder == paths.recorded() / NAME
    assert {p.name for p in folder.iterdir()} == {*packed.BESIDE, f"{NAME}.tar.xz"}
    loose = [p for p in live.rglob("*") if p.is_file() and p.name not in packed.BESIDE]
    assert files == len(loose)
    assert size == sum(p.stat().st_size for p in loose)
    assert tidy.digest(folder) == tidy.digest(live)
    was, now = tidy.opened(live).tidy_runs, tidy.opened(folder).tidy_runs
    assert len(was.problems) == 3  # failed, unpaired and empty: they are kept
    assert now.problems == was.problems
    reads = [
        tidy.tidy_table,
        tidy.run_table,
        tidy.intervals,
        tidy.evidence,
        tidy.differences,
        tidy.warmups,
    ]
    reads.append(lambda place: tidy.quantiles(place, "in memory", 2))
    reads.append(lambda place: tidy.measured_once(place, "speed"))
    for read in reads:
        pd.testing.assert_frame_equal(read(folder), read(live))
    assert tidy.variables(folder) == tidy.variables(live)
    assert [p.name for p in tidy.run_folders(folder)] == [p.name for p in tidy.run_folders(live)]
    assert tidy.broken(folder) == []


def test_what_was_packed_comes_out_as_it_was(kept, tmp_path):
    def held(folder):
        files = {p: p.is_dir() or p.read_bytes() for p in folder.rglob("*")}
        return {p.relative_to(folder): f is True or sha256(f) for p, f in files.items()}

    def sha256(content):
        return hashlib.sha256(content).hexdigest()

    whole = held(paths.root() / "loose")
    assert held(pack.unpack(kept, tmp_path / "out")) == whole
    by_hand = shutil.copytree(kept, tmp_path / "by hand")  # as README.md in data/raw/recorded says
    subprocess.run(["tar", "-xf", f"{NAME}.tar.xz"], cwd=by_hand, check=True)
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=by_hand, check=True)
    (by_hand / f"{NAME}.tar.xz").unlink()
    assert held(by_hand) == whole


def test_long_names_and_any_order_are_read(kept):
    long = {f"{'x' * 120}/{'é' * 60}.txt": b"1", f"{'y' * 200}/a/b": b"2"}
    rewritten(kept, lambda held: held.update(long))
    place = tidy.runs_folder(kept)
    assert {name: (place / name).read_bytes() for name in long} == long
    before = tidy.digest(kept)
    data = dict(sorted(place.archive.files.items(), key=lambda f: f[0][::-1]))
    tarred(packed.archive(kept), [member(name, bytes(content)) for name, content in data.items()])
    assert list(tidy.runs_folder(kept).archive.files) == list(data)
    assert tidy.digest(kept) == before


def test_an_archive_is_read_once_and_not_too_many_are_kept(kept, tmp_path, monkeypatch):
    reads, read = [], packed._tar
    monkeypatch.setattr(packed, "_tar", lambda *given: reads.append(given) or read(*given))
    monkeypatch.setattr(packed, "_kept", {})
    others = [shutil.copytree(kept, tmp_path / f"other{n}") for n in range(3)]
    for place in (kept, *others) * 2:
        tidy.tidy_table(place)
    assert len(reads) == 4
    monkeypatch.setattr(packed, "MOST_KEPT", 400_000)  # two of them
    for _ in range(2):
        tidy.digest(others[0])
    assert len(packed._kept) == 2
    tidy.digest(kept)
    assert len(reads) == 5


def test_the_same_campaign_gives_the_same_bytes(live, tmp_path):
    one = packed.archive(pack.pack(live)[0])
    os.utime(live / RUN / "sysbench.txt", (1e9, 1e9))
    (live / RUN / "sysbench.txt").chmod(0o600)
    two = packed.archive(pack.pack(live, tmp_path / "again")[0])
    assert one.read_bytes() == two.read_bytes()
    with tarfile.open(one) as archive:
        found = archive.getmembers()
    assert {(e.mtime, e.uid, e.gid, e.uname, e.gname) for e in found} == {(0, 0, 0, "", "")}
    assert {e.mode for e in found if e.isreg()} == {0o644}
    names = [e.name.rpartition("/")[2] for e in found if e.isreg()]
    assert names == sorted(names)  # alike beside alike


def test_the_command_packs_once_and_says_so_again(live):
    for _ in range(2):
        assert done("pack", NAME) == f"data/raw/recorded/{NAME}: 44 files, 118,293 bytes\n"
    assert paths.campaigns() == [NAME]
    assert live.exists()


def test_it_is_read_from_several_threads_at_once(kept):
    with ThreadPoolExecutor(4) as pool:
        one, *others = pool.map(tidy.tidy_table, [kept] * 8)
    assert all(one.equals(other) for other in others)


def test_an_archive_that_was_replaced_is_read_anew(kept):
    before = tidy.tidy_table(kept)["run"].nunique()
    rewritten(kept, lambda held: [held.pop(n) for n in list(held) if n.startswith(f"{RUN}/")])
    assert tidy.tidy_table(kept)["run"].nunique() == before - 2


def test_ingest_explore_and_store_read_it_in_place(kept, tmp_path):
    loose = paths.root() / "loose"
    tables = []
    for folder in (kept, loose.rename(tmp_path / NAME)):
        done("ingest", folder, "--out", tmp_path / f"tables{len(tables)}")
        found = {n: frame(tmp_path / f"tables{len(tables)}", n) for n in build.TABLES}
        found["files"] = found["files"].drop(columns=["size", "stamp"])
        tables.append(found)
    for name, found in tables[0].items():
        pd.testing.assert_frame_equal(found, tables[1][name])
    (name, text), *_ = results.raw(explore.opened(NAME), RUN).items()
    assert name == f"{RUN}/sysbench.txt"
    assert text == (tmp_path / NAME / RUN / "sysbench.txt").read_text()
    place = store.address(f"sqlite:///{tmp_path}/history.sqlite")
    assert store.push(place, kept) == len(results.load(tmp_path / NAME).verdicts)


# -- what is not packed ----------------------------------------------------------------------------


def unfinished(live):
    facts = json.loads((live / "campaign.json").read_text())
    (live / "campaign.json").write_text(json.dumps(facts | {"finished": ""}))


def elsewhere(live):
    rewritten(pack.pack(live)[0], lambda held: held.pop("fact-speed.json"))


OTHER = "is there already and does not hold the same, packed; nothing was packed"


@pytest.mark.parametrize(
    ("harm", "code", "sentence"),
    [
        (unfinished, 2, f"{NAME} has not ended; nothing was packed"),
        (lambda live: (live / RUN / "sysbench.txt").write_text("edited"), 1, f"{RUN}/sysbench.txt was changed after"),
        (lambda live: (live / "fact-speed.json").write_text("[]"), 1, f"after the campaign ended (1 of {NAME} in all); nothing was"),
        (lambda live: (live / RUN / "more.txt").symlink_to("/etc/hostname"), 1, f"{RUN}/more.txt is a link to somewhere else; nothing"),
        (elsewhere, 2, OTHER),
        (lambda live: shutil.copytree(live, paths.recorded() / NAME), 2, OTHER),
        (lambda live: packed.archive(pack.pack(live)[0]).write_text("PK"), 1, f"{NAME}.tar.xz is cut short; it was not opened"),
    ],
)  # fmt: skip
def test_what_cannot_be_packed_is_one_sentence(live, harm, code, sentence):
    harm(live)
    before = sorted(paths.root().rglob("*"))
    refused(command("pack", NAME), code, sentence)
    assert sorted(paths.root().rglob("*")) == before


def test_halves_are_left_out_and_a_half_packed_one_is_made_anew(live):
    (live / "campaign.json.partial").write_text("{")
    (live / "x.partial").mkdir()
    (live / "x.partial" / "sysbench.txt").write_text("half")
    half = paths.recorded() / f"{NAME}.partial"
    half.mkdir(parents=True)
    (half / "old.tar.xz").write_text("killed")
    folder, _, _ = pack.pack(live)
    assert [n for n in packed.runs_folder(folder).archive.files if "partial" in n] == []
    assert [p.name for p in paths.recorded().iterdir()] == [NAME]


def test_a_full_disk_leaves_nothing(live, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pack, "write", full)
    said = f"{NAME} cannot be written (No space left on device); nothing was packed"
    refused(command("pack", NAME), 1, said)
    assert not any(paths.recorded().iterdir())


# -- damage ----------------------------------------------------------------------------------------


def test_an_edited_text_a_missing_one_and_a_missing_run_are_named(kept):
    def change(held):
        held[f"{RUN}/sysbench.txt"] += b" "
        del held["in-memory-t2-encrypted-p002-0-plain/evidence.json"]
        for name in [n for n in held if n.startswith("in-memory-t2-encrypted-p000-1-plain/")]:
            del held[name]

    whole = tidy.digest(kept)
    rewritten(kept, change)
    problems = "\n".join(tidy.opened(kept).tidy_runs.problems)
    assert f"{RUN}: {RUN}/sysbench.txt was changed after the run" in problems
    assert "in-memory-t2-encrypted-p002-0-plain cannot be read ([Errno 2] No such file" in problems
    assert "in-memory-t2-encrypted-p000-1-plain/run.json was removed after" in problems
    assert tidy.digest(kept) != whole


def test_what_lies_beside_the_archive_is_not_read_and_said(kept):
    shutil.copytree(paths.root() / "loose" / RUN, kept / "another")
    (kept / "README.md").write_text("what this is")
    table, problems, _ = tidy.opened(kept).tidy_runs
    assert "another" not in set(table["run"])
    assert problems[-1].startswith("another lies beside the ")
    assert problems[-1].endswith(" and is not read")


def member(name, content=b"x", **changes):
    made = tarfile.TarInfo(name)
    made.size = len(content)
    for key, value in changes.items():
        setattr(made, key, value)
    return made, content


def tarred(file: Path, members, end=b"", form=tarfile.GNU_FORMAT) -> None:
    """A tar.xz of members as they are, and of what stands behind the end of the tar."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=form) as archive:
        for made, content in members:
            archive.addfile(made, io.BytesIO(content))
    file.write_bytes(lzma.compress(raw.getvalue() + end))


def unpacked(file: Path) -> bytearray:
    return bytearray(lzma.decompress(file.read_bytes()))


def edited(change):
    """Damage to the bytes of the tar, which is then compressed anew."""

    def harm(file: Path) -> None:
        file.write_bytes(lzma.compress(change(unpacked(file))))

    return harm


def negative(data: bytearray) -> bytearray:
    """The first header says that it has less than no bytes: Python's own reader would never end."""
    data[124:136] = b"\xff" * 10 + b"\xfe\x00"
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return data


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def pax(name, value):
    """A header of POSIX that renames the file behind it, or that says another size."""
    return lambda f: tarred(f, [member("x", pax_headers={name: value})], form=tarfile.PAX_FORMAT)


def of_a_tar(**changes):
    return lambda f: tarred(f, [member("x", **changes)])


def named(*names):
    return lambda f: tarred(f, [member(name) for name in names])


LEAVES = "a name that would leave the folder; it was not opened"
HOSTILE = [
    (named("../x"), f"holds '../x', {LEAVES}"),
    (named("/etc/x"), f"holds '/etc/x', {LEAVES}"),
    (named("a\\..\\..\\x"), LEAVES),
    (named("a/./x"), f"holds 'a/./x', {LEAVES}"),
    (named("", "x"), f"holds '', {LEAVES}"),
    (named("a/x", "a/x"), "holds 'a/x', twice; it was not opened"),
    (named("a/x", "a"), "holds 'a', twice; it was not opened"),
    (named("a", "a/x"), "holds 'a', twice; it was not opened"),
    (named("/".join("abcdefghi")), "holds 'a/b/c/d/e/f/g/h/i', deeper than 8 folders; it was not"),
    (named("x" * 2000), "holds '././@LongLink', which is no file and no folder"),
    *(
        (of_a_tar(type=kind, linkname="/etc/passwd"), "holds 'x', which is no file and no folder")
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE)
    ),
    (of_a_tar(type=tarfile.GNUTYPE_SPARSE), "holds 'x', which is no file and no folder"),
    (pax("path", "../x"), "which is no file and no folder; it was not opened"),
    (pax("size", "-512"), "which is no file and no folder; it was not opened"),
    (pax("comment", "x" * 2**24), "which is no file and no folder; it was not opened"),
]
DAMAGED = [
    (lambda f: f.write_bytes(f.read_bytes()[:-100]), "is cut short; it was not opened"),
    (lambda f: f.write_bytes(f.read_bytes()[:7]), "is cut short; it was not opened"),
    (lambda f: f.write_bytes(b""), "is cut short; it was not opened"),
    (flipped, "cannot be read (Corrupt input data); it was not opened"),
    (lambda f: f.write_text("what is this?"), "cannot be read (Input format not supported by dec"),
    (lambda f: f.write_bytes(f.read_bytes() + b"x"), "holds something behind its end; it was not"),
    (lambda f: f.write_bytes(f.read_bytes() * 2), "holds something behind its end; it was not"),
    (lambda f: f.write_bytes(lzma.compress(bytes(unpacked(f)), lzma.FORMAT_ALONE)), "cannot be re"),
    (
        edited(lambda d: d[: d.index(b"sysbench.txt\0") // 512 * 512 + 1024]),
        "ends in the middle of a file; it was not opened",
    ),
    (edited(lambda d: d[: len(d) - 20_000]), "; it was not opened"),
    (
        edited(lambda d: d.rstrip(b"\0") + bytes(512 - len(d.rstrip(b"\0")) % 512)),
        "ends before its",
    ),
    (edited(lambda d: b""), "ends before its tar does; it was not opened"),
    (edited(lambda d: d + b"x"), "holds something behind the end of its tar; it was not opened"),
    (edited(lambda d: d + bytes(30_000)), "holds something behind the end of its tar"),
    (edited(lambda d: b"y" + d[1:]), "cannot be read (bad checksum); it was not opened"),
    (edited(negative), "ends in the middle of a file; it was not opened"),
    (
        lambda f: shutil.copy(f, f.with_name("b.tar.xz")),
        "holds 2 archives; a packed campaign has one",
    ),
    (lambda f: os.symlink(f.rename(f.parents[1] / "x"), f), "is no regular file"),
    (lambda f: f.unlink() or os.mkfifo(f), "is no regular file"),
]


@pytest.mark.parametrize(("harm", "sentence"), HOSTILE + DAMAGED)
def test_an_archive_that_is_hostile_or_damaged_is_one_sentence(kept, harm, sentence, tmp_path):
    harm(packed.archive(kept))
    said_everywhere(kept, sentence, tmp_path)


def test_a_header_that_asks_for_memory_is_not_obeyed(kept):
    """It names a dictionary of 4 GiB."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**20}]
    data = bytearray(lzma.compress(unpacked(packed.archive(kept)), filters=filters))
    assert data[14:17] == b"\x21\x01\x10"  # LZMA2, one byte: 1 MiB
    data[16] = 40
    data[20:24] = struct.pack("<I", zlib.crc32(data[12:20]))
    packed.archive(kept).write_bytes(data)
    with pytest.raises(tidy.Damaged, match=r"cannot be read \(Memory usage limit exceeded\)"):
        tidy.runs_folder(kept)


def of_zeros(file: Path, size: int = 2**22) -> None:
    file.write_bytes(lzma.compress(bytes(size), preset=0))


@pytest.mark.parametrize("bomb", [of_zeros, lambda f: tarred(f, [member("x", bytes(2**22))])])
def test_a_bomb_is_not_opened(kept, bomb, tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "LEAST_LIMIT", 2**21)
    monkeypatch.setattr(packed, "MOST_RATIO", 2)
    bomb(packed.archive(kept))
    said = "holds more than 2,097,152 bytes, more than a campaign can hold; it was not opened"
    said_everywhere(kept, said, tmp_path)


def test_a_bomb_does_not_fill_the_memory(kept):
    """No more is decompressed than a campaign can hold."""
    file = packed.archive(kept)
    of_zeros(file, 2**27)
    code = f"""if True:
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (2**27, 2**27))  # as much as comes out of it
        from pathlib import Path
        from noisefloor.data import packed
        try:
            packed._tar(Path({str(file)!r}), 2**24).__next__()
        except packed.Damaged as e:
            print(e)"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "more than a campaign can hold" in ran.stdout, ran.stderr


def said_everywhere(campaign, sentence, tmp_path):
    """It is the same sentence everywhere, and nothing was written."""
    for reads in (tidy.tidy_table, tidy.run_table, tidy.digest, tidy.broken):
        with pytest.raises(tidy.Damaged) as said:
            reads(campaign)
        assert sentence in str(said.value)
    with pytest.raises(tidy.Damaged):
        pack.unpack(campaign, tmp_path / "in" / "out")
    assert not (tmp_path / "in").exists()
    said = command("store", NAME, "--to", f"sqlite:///{tmp_path}/history.sqlite")
    assert (said.exit_code, said.output.count("\n")) == (1, 2)
    assert sentence in said.output
    done("ingest", campaign, "--out", tmp_path / "tables")
    assert sentence in frame(tmp_path / "tables", "problems")["reason"].iloc[0]


@pytest.mark.slow
def test_recorded_campaigns_hold_what_they_held_before_they_were_packed_as_they_are():
    """Their digests from when they were a zip, or a folder."""
    kept = Path(__file__).parents[2] / "data/raw/recorded"
    before = json.loads((Path(__file__).parents[1] / "data" / "digests.json").read_text())
    assert {name: tidy.digest(kept / name) for name in before} == before
    assert sum(f.stat().st_size for f in kept.rglob("*.tar.xz")) < 25e6
