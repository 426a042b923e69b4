"""A campaign as one zip: the same table, digest and pages; and what damage and hostile zips lead to."""

import json
import os
import shutil
import stat
import struct
import warnings
import zipfile
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


@pytest.fixture
def live(home):
    """A live campaign that has ended, with everything that tidy sets aside."""
    folder = shutil.copytree(DATA / "campaign", paths.runs() / NAME)
    for name in (f"{RUN}.failed1", "in-memory-t2-x-p009-0-plain"):
        (folder / name).mkdir()
    (folder / f"{RUN}.failed1" / "sysbench.txt").write_text("it failed\n")
    (folder / f"{RUN}.unpaired1").mkdir()  # and empty
    (folder / "fact-speed.json").write_text('[{"aes": 1.5}]')
    tidy.seal(folder)
    return folder


@pytest.fixture
def kept(live):
    """The same, packed, and nothing else of that name."""
    folder, _, _ = pack.pack(live)
    live.rename(paths.root() / "loose")
    return folder


def rewritten(folder: Path, change) -> None:
    """The zip of a campaign with `change` made to its {name: content}."""
    file = packed.archive(folder)
    with zipfile.ZipFile(file) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    change(held)
    pack.write(file, held.items())


# -- the same, packed ------------------------------------------------------------------------------


def test_every_table_and_the_digest_are_those_of_the_folder(live, tmp_path):
    folder, files, size = pack.pack(live)
    assert folder == paths.recorded() / NAME
    assert {p.name for p in folder.iterdir()} == {*packed.BESIDE, f"{NAME}.zip"}
    loose = [p for p in live.rglob("*") if p.is_file() and p.name not in packed.BESIDE]
    assert files == len(loose)
    assert size == sum(p.stat().st_size for p in loose)
    assert tidy.digest(folder) == tidy.digest(live)
    was, now = tidy.table(live), tidy.table(folder)
    assert len(was.attrs["problems"]) == 3  # failed, unpaired and empty: they are kept
    assert now.attrs == was.attrs
    reads = [tidy.table, tidy.runs, tidy.intervals, tidy.evidence, tidy.differences, tidy.warmups]
    reads.append(lambda place: tidy.quantiles(place, "in memory", 2))
    reads.append(lambda place: tidy.fact(place, "speed"))
    for read in reads:
        pd.testing.assert_frame_equal(read(folder), read(live))
    assert tidy.variables(folder) == tidy.variables(live)
    assert [p.name for p in tidy.run_folders(folder)] == [p.name for p in tidy.run_folders(live)]
    assert tidy.broken(folder) == []


def test_what_was_packed_comes_out_as_it_was(kept, tmp_path):
    def held(folder):
        return {p.relative_to(folder): p.is_dir() or p.read_bytes() for p in folder.rglob("*")}

    assert held(pack.unpack(kept, tmp_path / "out")) == held(paths.root() / "loose")


def test_the_same_campaign_gives_the_same_bytes(live, tmp_path):
    one = packed.archive(pack.pack(live)[0])
    os.utime(live / RUN / "sysbench.txt", (1e9, 1e9))
    (live / RUN / "sysbench.txt").chmod(0o600)
    two = packed.archive(pack.pack(live, tmp_path / "again")[0])
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as archive:
        names = archive.namelist()
        assert {e.date_time for e in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    files = [n for n in names if not n.endswith("/")]
    assert files == sorted(files, key=lambda n: n.split("/"))


def test_the_command_packs_once_and_says_so_again(live):
    for _ in range(2):
        assert done("pack", NAME) == f"data/raw/recorded/{NAME}: 44 files, 118,293 bytes\n"
    assert paths.campaigns() == [NAME]
    assert live.exists()


def test_it_is_read_from_several_threads_at_once(kept):
    with ThreadPoolExecutor(4) as pool:
        one, *others = pool.map(tidy.table, [kept] * 8)
    assert all(one.equals(other) for other in others)


def test_a_zip_that_was_replaced_is_read_anew(kept):
    before = tidy.table(kept)["run"].nunique()
    rewritten(kept, lambda held: [held.pop(n) for n in list(held) if n.startswith(f"{RUN}/")])
    assert tidy.table(kept)["run"].nunique() == before - 2


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
    (name, text), *_ = explore.opened(NAME).raw(RUN).items()
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
        (lambda live: packed.archive(pack.pack(live)[0]).write_text("PK"), 1, f"{NAME}.zip cannot be read (File is not a zip"),
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
    (half / "old.zip").write_text("killed")
    folder, _, _ = pack.pack(live)
    with zipfile.ZipFile(packed.archive(folder)) as archive:
        assert [n for n in archive.namelist() if "partial" in n] == []
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
    problems = "\n".join(tidy.table(kept).attrs["problems"])
    assert f"{RUN}: {RUN}/sysbench.txt was changed after the run" in problems
    assert "in-memory-t2-encrypted-p002-0-plain cannot be read ([Errno 2] No such file" in problems
    assert "in-memory-t2-encrypted-p000-1-plain/run.json was removed after" in problems
    assert tidy.digest(kept) != whole


def test_a_damaged_member_is_named_and_its_pair_not_judged(kept):
    file = packed.archive(kept)
    with zipfile.ZipFile(file) as archive:
        at = {n: archive.getinfo(n).header_offset + 30 + len(n) + 20 for n in archive.namelist()}
    with file.open("r+b") as raw:
        for name in ("sysbench.txt", "run.json"):
            raw.seek(at[f"{RUN}/{name}"])
            raw.write(b"\xff" * 20)
    problems = tidy.table(kept).attrs["problems"]
    assert f"{RUN}: {RUN} cannot be read ([Errno 5] it is damaged (" in problems[0]
    assert f"{RUN}/run.json was changed after the campaign ended" in problems
    with pytest.raises(tidy.Damaged, match=f"{NAME}/{RUN}/run.json cannot be read"):
        pack.unpack(kept, paths.root() / "out")


def test_what_lies_beside_the_zip_is_not_read_and_said(kept):
    shutil.copytree(paths.root() / "loose" / RUN, kept / "another")
    (kept / "README.md").write_text("what this is")
    found = tidy.table(kept)
    assert "another" not in set(found["run"])
    assert found.attrs["problems"][-1] == "another lies beside the zip and is not read"


def entry(name, content=b"x", **changes):
    made = zipfile.ZipInfo(name)
    made.compress_type = zipfile.ZIP_DEFLATED
    for key, value in changes.items():
        setattr(made, key, value)
    return made, content


def flagged(file: Path) -> None:
    """The first member says that it has a password."""
    data = bytearray(file.read_bytes())
    struct.pack_into("<H", data, data.index(b"PK\1\2") + 8, 1)
    file.write_bytes(data)


LINK = (stat.S_IFLNK | 0o777) << 16
HOSTILE = [
    ([entry("../x")], "holds '../x', a name that would leave the folder"),
    ([entry("/etc/x")], "holds '/etc/x', a name that would leave the folder"),
    ([entry("a\\..\\..\\x")], "a name that would leave the folder"),
    ([entry("a/./x")], "holds 'a/./x', a name that would leave the folder"),
    ([entry("a/x"), entry("a/x", b"y")], "holds 'a/x', twice"),
    ([entry("x", b"/etc/passwd", external_attr=LINK)], "which is a link or a device"),
    ([entry("x", compress_type=zipfile.ZIP_LZMA)], "which is not deflated"),
    ([entry("x", bytes(300 * 2**20))], "more than a campaign can hold; it was not opened"),
]


@pytest.mark.parametrize(("entries", "sentence"), HOSTILE, ids=[s for _, s in HOSTILE])
def test_a_zip_that_could_do_harm_is_not_opened(kept, entries, sentence, tmp_path):
    with warnings.catch_warnings(), zipfile.ZipFile(packed.archive(kept), "w") as archive:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for made, content in entries:
            archive.writestr(made, content)
    said_everywhere(kept, sentence, tmp_path)


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (flagged, "which has a password; it was not opened"),
        (lambda f: f.write_bytes(f.read_bytes()[:-100]), "cannot be read (File is not a zip file)"),
        (lambda f: f.write_bytes(b""), "cannot be read (File is not a zip file)"),
        (lambda f: shutil.copy(f, f.with_name("b.zip")), "holds 2 zips; a packed campaign has one"),
        (lambda f: os.symlink(f.rename(f.parents[1] / "x"), f), "is no regular file"),
        (lambda f: f.unlink() or os.mkfifo(f), "is no regular file"),
    ],
)
def test_a_zip_that_cannot_be_opened_is_one_sentence(kept, harm, sentence, tmp_path):
    harm(packed.archive(kept))
    said_everywhere(kept, sentence, tmp_path)


def said_everywhere(campaign, sentence, tmp_path):
    """It is the same sentence everywhere, and nothing was written."""
    for reads in (tidy.table, tidy.runs, tidy.digest, tidy.broken):
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


def test_a_member_that_says_it_is_small_does_not_fill_the_memory(kept):
    """Its own size is all that is read of it."""
    file = packed.archive(kept)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(*entry("x/run.json", bytes(2**20)))
    data = bytearray(file.read_bytes())
    struct.pack_into("<I", data, data.index(b"PK\1\2") + 24, 10)
    file.write_bytes(data)
    with pytest.raises(OSError, match="it is damaged"):
        (tidy.inside(kept) / "x" / "run.json").read_bytes()
