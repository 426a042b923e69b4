"""Trees of results by hand, in the layouts that people have -> tables; and what is judged in them."""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import archive
from analysis import archives as analysis
from conftest import DATA, comparisons, documented, done, noisefloor, refused
from noisefloor import paths, schedule
from noisefloor.data import archive as archives
from noisefloor.data import tidy
from noisefloor.data.ingest import TABLES, build, files, frame, labels, manifest
from noisefloor.show import report
from noisefloor.text import Refusal, amounts
from noisefloor.text.answers import MOST_LINES
from noisefloor.tools import Run

SECRET = "hunter2-geheim"


@contextlib.contextmanager
def _two():
    with ProcessPoolExecutor(2) as executor:
        executor.width = 2
        yield executor


@pytest.fixture
def tree(tmp_path):
    return tmp_path / "tree"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def _ingest(tree: Path, out: Path, **how) -> dict:
    return build.build(tree, out, _two, **how)


def _write(tree: Path, contents: dict) -> Path:
    for name, content in contents.items():
        file = tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tree


def _text(seed: int = 0, threads: int = 4, **how) -> str:
    return archive.text(np.random.default_rng(seed), threads, how.pop("seconds", 5), **how)


def _runs(out: Path) -> pd.DataFrame:
    return frame(out, "tidy").drop_duplicates("run").set_index("run").sort_index()


def _problems(out: Path) -> list[tuple]:
    found = frame(out, "problems").fillna("").sort_values(["file", "member", "line"])
    return list(found[["file", "member", "line", "reason"]].itertuples(index=False, name=None))


def same(a: Path, b: Path) -> None:
    """Both hold the same rows, whatever the parts."""
    for name in TABLES:
        x, y = (frame(f, name) for f in (a, b))
        keys = [c for c in x.columns if c not in ("repetition",)]
        x, y = (f.sort_values(keys, ignore_index=True, kind="stable") for f in (x, y))
        pd.testing.assert_frame_equal(x, y, obj=name)


# -- labels ----------------------------------------------------------------------------------------

LAYOUTS = tomllib.loads((DATA / "labels.toml").read_text())


@pytest.mark.parametrize(("path", "expected"), LAYOUTS.items())
def test_labels_of_the_layouts(path, expected):
    assert labels.labels(path) == expected


def test_a_file_of_labels(tree, out, tmp_path):
    _write(tree, {"a-17/x1.log": _text(1), "b-18/x2.log": _text(2)})
    rules = tmp_path / "labels.txt"
    rules.write_text(r"^(?P<server>[ab])-(?P<version>\d+)/x(?P<repetition>\d)(?P<threads>\.log)")
    _ingest(tree, out, rules=str(rules))
    runs = _runs(out)
    assert list(runs["server"]) == ["a", "b"]
    assert list(runs["version"]) == ["17", "18"]
    assert list(runs["repetition"]) == [1, 2]
    assert runs["path_threads"].isna().all(), "what is no number is no label"
    assert manifest(out)["labels"]["server"] == [2, 2]
    rules.write_text(r"^(?P<server>[ab])-")
    assert _ingest(tree, out, rules=str(rules))["read"] == 2, "other labels, read again"
    for wrong in ("(", "no groups", r"(?P<colour>.)"):
        rules.write_text(wrong)
        with pytest.raises(Refusal, match=r"labels\.txt"):
            _ingest(tree, out, rules=str(rules))


# -- layouts ---------------------------------------------------------------------------------------


def _percona_2026(tree: Path) -> Path:
    contents = {"README.md": "# Results", "plot.png": b"\x89PNG\r\n\x1a\n\0"}
    for server, version, faster in (("mysql", "8.4.8", 1.0), ("percona-server", "8.4.8-8", 1.5)):
        for tier in (2, 12):
            for run in (1, 2, 3, 4, 5):
                name = f"benchmark_logs/{server}/{version}/run{run}_Tier{tier}G_RW_16th"
                seed = len(contents)
                text = _text(seed, 16, tps=100 * tier * faster, seconds=20)
                contents[f"{name}.sysbench.txt"] = text
                contents[f"{name}.vars.txt"] = "innodb_buffer_pool_size\t1\n"
    return _write(tree, contents)


def test_percona_2026(tree, out):
    found = _ingest(_percona_2026(tree), out)
    assert found["kinds"] == {"other text": 21, "sysbench": 20, "picture": 1}
    assert (found["files"], found["runs"], found["problems"]) == (42, 20, 0)
    first = _runs(out).loc["benchmark_logs/mysql/8.4.8/run1_Tier12G_RW_16th.sysbench.txt"]
    assert first["buffer_pool_B"] == 12 * 2**30
    assert (first["server"], first["threads"], first["labels_from"]) == ("mysql", 16, "path")
    assert set(frame(out, "tidy")["metric"]) == {
        *("tps", "mean_latency", "min_latency", "max_latency", "p95", "p99", "qps"),
        *("ignored_errors", "reconnects"),
    }
    rows = frame(out, "intervals").groupby("run").size()
    assert rows.tolist() == [20] * 20


def test_the_other_layouts_and_two_runs_in_a_text(tree, out):
    csv = (DATA / "sysbench/by-hand/1.1-csv-reporter.txt").read_bytes()
    old = (DATA / "sysbench/by-hand/0.5.txt").read_bytes()
    begun = b"sysbench 0.5:  multi-threaded system evaluation benchmark\n\nRunning the test with following options:\nNumber of threads: 1\n\nThreads started!\n\n"
    echo = b"LUA_PATH=/l/?.lua ./sysbench --range-size=100 --threads=4 --mysql-password=%b --time=5 /l/oltp_point_select.lua run\n8 CPUs\n"
    query = "x.my8032_rel.c8r16/sb.%s.point-query.range100.pk1.dop4"
    contents = {
        "res-tpcc-XFS-2018-04-17-15-46/mysql57.BP60/thr2/res.txt": csv,
        "raw/res.mysql55/res.thr4.txt": begun + old,
        query % "o": echo % SECRET.encode() + _text().encode(),
        query % "time": (DATA / "time/gnu-time-default.txt").read_bytes(),
        "plain/a": (DATA / "time/bash-time.txt").read_bytes(),
    }
    found = _ingest(_write(tree, contents), out)
    assert (found["runs"], found["kinds"]) == (5, {"sysbench": 3, "time": 2})
    why = "no summary: the run failed, was killed, or the text is cut; it reads 'Threads started!'"
    assert [p[2:] for p in _problems(out)] == [(6, why)]
    runs = _runs(out)
    assert list(runs["version"].fillna("")) == ["", "5.5", "5.7", "8.0.32", "8.0.32"]
    assert list(runs["tool"]) == ["time", "sysbench", "sysbench", "sysbench", "time"]
    assert runs.iloc[1]["line"] == 8
    assert runs.iloc[3]["workload"] == "oltp_point_select"


CAMPAIGNS = [
    pytest.param(folder, id=folder.name, marks=pytest.mark.slow if n > 1 else ())
    for n, folder in enumerate([DATA / "campaign", *sorted(paths.recorded().glob("binlog-*"))])
]


@pytest.mark.parametrize("folder", CAMPAIGNS)
def test_our_own_campaign_is_read_as_a_campaign(tree, out, folder):
    tree.mkdir()
    shutil.copytree(folder, tree / folder.name)
    assert _ingest(tree, out)["kinds"] == {"campaign": 1}
    found, (expected, _, saturated) = frame(out, "tidy"), tidy.opened(folder).tidy_runs
    full = {
        (workload, arm)
        for workload, arms in saturated.items()
        for arm, (n, windows) in arms.items()
        if n > schedule.MOST_SATURATED * windows
    }
    there = pd.MultiIndex.from_frame(expected[["workload", "arm"]])
    expected = expected[~there.isin(list(full))] if full else expected
    assert found["warmup"].sum() == expected["warmup"].sum()
    assert len(found) == len(expected)
    assert found["value"].sum() == pytest.approx(expected["value"].sum())
    assert set(found["arm"]) == set(expected["arm"])
    assert set(found["campaign"]) == set(expected["campaign"])
    # of campaigns that measured both servers at once nothing is judged
    assert set(found["labels_from"]) == ({"campaign"} if len(expected) else set())


def test_a_campaign_that_lies_there_twice_is_judged_once(tree, out):
    """As the live one of a packed campaign."""
    shutil.copytree(DATA / "campaign", tree / "ours")
    _ingest(tree, out)
    once = archives.load(out)
    alone = once.judge()[["n_arm", "change_pct", "hi_pct"]]
    shutil.copytree(DATA / "campaign", tree / "runs" / "ours")
    _ingest(tree, out)
    both = archives.load(out)
    pd.testing.assert_frame_equal(both.judge()[[*alone]], alone)
    assert any("each counts once" in sentence for sentence in both.left)


def test_a_campaign_of_a_server_that_is_not_restarted_is_left_to_its_page(tree, out):
    ours = Path(shutil.copytree(DATA / "campaign", tree / "ours"))
    facts = json.loads((ours / "campaign.json").read_text()) | {"floor": {"tps": [1.0, 5]}}
    (ours / "campaign.json").write_text(json.dumps(facts))
    _ingest(tree, out)
    assert frame(out, "tidy").empty
    ((*_, said),) = _problems(out)
    assert said.startswith("its server was never restarted; ")


def test_an_arm_with_too_many_saturated_windows_has_no_word_in_an_archive_either(tree, out):
    ours = Path(shutil.copytree(DATA / "campaign", tree / "ours"))
    file = ours / "in-memory-t2-encrypted-p000-0-encrypted" / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"queue_full": True}))
    _ingest(tree, out)
    assert set(frame(out, "tidy")["arm"]) == {"plain", "plain again"}
    said = "encrypted: too many windows were saturated; not compared"
    assert any(reason.endswith(said) for *_, reason in _problems(out))


@pytest.mark.parametrize("host", [{}, {"host": "x"}, {"host": ["x"]}], ids=str)
def test_a_campaign_with_odd_facts_does_not_end_the_ingest(tree, out, host):
    _write(tree, {"a.txt": _text()})
    shutil.copytree(DATA / "campaign", tree / "ours")
    odd, *_ = sorted((tree / "ours").glob("*-p0*/run.json"))
    facts = json.loads(odd.read_text())
    del facts["host"]
    odd.write_text(json.dumps(facts | host | {"warnings": [1, {"a": None}, "text"]}))
    assert _ingest(tree, out)["kinds"] == {"campaign": 1, "sysbench": 1}
    row = _runs(out).loc[f"ours/{odd.parent.name}"]
    assert pd.isna(row["host"])
    assert row["warnings"] == "1 | {'a': None} | text"


@pytest.mark.parametrize("name", ["block", "pair", "position", "threads"])
def test_a_run_whose_number_no_table_holds_is_a_problem(tree, out, name):
    shutil.copytree(DATA / "campaign", tree / "ours")
    odd, *_ = sorted((tree / "ours").glob("*-p0*/run.json"))
    odd.write_text(json.dumps(json.loads(odd.read_text()) | {name: 2**31}))
    assert _ingest(tree, out)["kinds"] == {"campaign": 1}
    assert f"ours/{odd.parent.name}" not in _runs(out).index
    said = f"cannot be read (its {name} is missing, too large or of a wrong type)"
    assert any(reason.endswith(said) for *_, reason in _problems(out))


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (True, "ours is still being measured: at most 0.0 of 0.2 minutes of measuring are left"),
        (False, "ours has not ended, and the command that began it continues it"),
    ],
)
def test_a_campaign_is_read_when_it_has_ended(tree, out, measured, said):
    """Nobody sees an estimate before its end, and it is tried again."""
    _write(tree, {"a.txt": _text()})
    ours = Path(shutil.copytree(DATA / "campaign", tree / "ours"))
    whole = (ours / "campaign.json").read_text()
    if not measured:
        facts = json.loads(whole) | {"finished": ""}
        (ours / "campaign.json").write_text(json.dumps(facts))
    with tidy.locked(ours) if measured else contextlib.nullcontext():
        assert _ingest(tree, out)["kinds"] == {"unreadable": 1, "sysbench": 1}
    assert set(_runs(out).index) == {"a.txt"}
    assert _problems(out) == [("ours", "", 0, f"{said}; it is judged once, at its end")]
    if not measured:
        (ours / "campaign.json").write_text(whole)
    found = _ingest(tree, out)
    assert (found["kinds"], found["problems"]) == ({"campaign": 1, "sysbench": 1}, 0)
    assert len(_runs(out)) > 1
    assert _ingest(tree, out)["read"] == 0


def test_a_file_of_a_campaign_may_be_renamed_while_a_tree_is_listed(tree, out, monkeypatch):
    shutil.copytree(DATA / "campaign", tree / "ours")
    half, real = tree / "ours" / "half.json.partial", os.lstat
    half.write_text("{}")

    def renames(path, *args, **more):
        if str(path) == str(half):
            half.unlink()
        return real(path, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", renames)
        assert _ingest(tree, out)["kinds"] == {"campaign": 1}
    assert not half.exists()


@pytest.mark.parametrize("content", ["link", "pipe", b"[" * 100_000, b" " * 2**17])
def test_a_campaign_json_of_somebody_else_is_a_file_like_any_other(
    tree, out, tmp_path, monkeypatch, content
):
    """None is followed or waited for, and no more of it is read than of any text."""
    monkeypatch.setattr(files, "MOST", 2**16)
    whole = (DATA / "campaign" / "campaign.json").read_bytes()
    _write(tree, {"a.txt": _text()})
    file = tree / "odd" / "campaign.json"
    file.parent.mkdir()
    if content == "link":
        file.symlink_to(_write(tmp_path, {"elsewhere": whole}) / "elsewhere")
    elif content == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(content + whole)
    kinds = _ingest(tree, out)["kinds"]
    assert kinds.pop("sysbench") == 1
    assert kinds.keys() <= {"symbolic link", "no regular file", "not opened", "other text"}
    assert kinds


@pytest.mark.parametrize("name", ["run.json", "sysbench.txt", "folder", "SHA256SUMS", "pipe"])
def test_a_campaign_with_a_link_or_a_device_is_not_read(tree, out, tmp_path, name):
    _write(tree, {"a.txt": _text()})
    ours = Path(shutil.copytree(DATA / "campaign", tree / "ours"))
    run, *_ = sorted(ours.glob("*-p0*/"))
    place = run / name if name.endswith(("json", "txt")) else ours / name
    if place.exists():
        place.rename(tmp_path / "elsewhere")
    if name == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path if name == "folder" else tmp_path / "elsewhere")
    found = _ingest(tree, out)
    assert found["kinds"] == {"campaign with a link or device": 1, "sysbench": 1}
    assert found["runs"] == 1


# -- compressed files and archives -----------------------------------------------------------------


def _tar(members: dict, mode: str = "w") -> bytes:
    """An archive of files; a member whose content is a str is a link to there."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode=mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname, content = tarfile.SYMTYPE, content, b""
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return sink.getvalue()


def _zip(members: dict) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return sink.getvalue()


def test_packed_texts_are_read_by_their_bytes(tree, out, tmp_path):
    texts = [_text(i).encode() for i in range(8)]
    contents = {
        "a.txt": gzip.compress(texts[1]),  # the name says nothing
        "b": bz2.compress(texts[2]),
        "c.gz": lzma.compress(texts[3]),
        "d": pa.compress(texts[4], "zstd", asbytes=True),
        "e.tgz": _tar({"mysql/8.0.1/res.txt": texts[5], "in.gz": gzip.compress(texts[6])}, "w:gz"),
        "f.tar": _tar({"../../etc/x": texts[7], "/abs": b"text", "l": "/etc/passwd"}),
        "g.zip": _zip({"deep/64th.txt": texts[0]}),
    }
    found = _ingest(_write(tree, contents), out)
    assert found["runs"] == 8
    kinds = {"sysbench": 8, "compressed or archive": 7, "link or device": 1, "other text": 1}
    assert found["kinds"] == kinds
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "tree"]
    runs = _runs(out)
    assert runs.loc["e.tgz//mysql/8.0.1/res.txt", "version"] == "8.0.1"
    assert "f.tar//../../etc/x" in runs.index
    assert _problems(out) == []
    said = runs.loc["g.zip//deep/64th.txt", "warnings"]
    assert "the path says 64 threads, the text 4" in said


def test_a_zip_that_is_damaged_or_encrypted_is_a_problem_and_nothing_else_is_lost(tree, out):
    whole = _zip({"run.txt": _text().encode()})
    flipped = bytearray(whole)
    flipped[60] ^= 0xFF  # inside the deflate stream
    locked = bytearray(whole)
    for at in (6, whole.index(b"PK\x01\x02") + 8):  # both of its flags: bit 0, encrypted
        locked[at] |= 1
    contents = {
        "a-cut.zip": whole[: len(whole) // 2],
        "b-flipped.zip": bytes(flipped),
        "c-locked.zip": bytes(locked),
        "d-flipped.gz": gzip.compress(_text(1).encode())[:40] + os.urandom(400),
        "z.txt": _text(2).encode(),
    }
    assert _ingest(_write(tree, contents), out)["runs"] == 1
    assert [p[0] for p in _problems(out)] == list(contents)[:4]
    assert all(p[3] and "\n" not in p[3] for p in _problems(out))


def test_bombs_and_damage_are_problems_and_nothing_else_is_lost(tree, out, monkeypatch):
    monkeypatch.setattr(files, "LEAST_LIMIT", 2**21)
    whole = _text().encode()
    nested = whole
    for _ in range(5):
        nested = gzip.compress(nested)
    bomb = b"x " * 2**24
    contents = {
        "a-bomb.gz": gzip.compress(bomb),
        "b-cut.gz": gzip.compress(os.urandom(2**15).hex().encode())[: 2**14],
        "c-nested.gz": nested,
        "d-bomb.tar.gz": gzip.compress(_tar({"one": whole, "big": bomb})),
        "e-damaged.tar": _tar({"one": whole})[:1500],
        "f-bomb.zip": _zip({"big": bomb}),
        "g.zip": _zip({"cut.gz": gzip.compress(whole)[:500], "whole": whole + b"\n\n"}),
        "z.txt": whole + b"\n",
    }
    found = build.build(_write(tree, contents), out, None)
    assert found["runs"] == 3  # of the tar before its bomb, of the zip after what is cut, the last
    reasons = {p[0]: p[3] for p in _problems(out)}
    assert list(reasons) == [name for name in contents if name != "z.txt"]
    for name in ("a-bomb.gz", "d-bomb.tar.gz", "f-bomb.zip"):
        assert "more comes out of it" in reasons[name]
    assert "damaged" in reasons["b-cut.gz"]
    assert "damaged" in reasons["g.zip"]
    assert "packed more than 3 times" in reasons["c-nested.gz"]


def test_a_text_that_is_too_long_is_a_problem(tree, out, monkeypatch):
    monkeypatch.setattr(files, "MOST", 2**16)
    long = _text(seconds=1000)
    _write(tree, {"a.txt": long, "b.gz": gzip.compress(long.encode()), "c.txt": _text(1)})
    found = build.build(tree, out, None)
    assert (found["runs"], found["problems"]) == (1, 2)
    assert all("the most that is read of one text" in p[3] for p in _problems(out))


# -- what is not a result, and what is hostile -----------------------------------------------------


def test_odd_trees(tree, out, tmp_path):
    """Where nothing of it is run: `test_hostile.py::test_nothing_in_an_archive_is_run`."""
    outside = _write(tmp_path / "outside", {"x.txt": _text()})
    contents = {
        "a\x1b[31m\nb.txt": _text(1),
        "n.ipynb": json.dumps({"cells": [], "nbformat": 4}),
        "p.pkl": pickle.dumps(1),
        "s.py": "import this",
        "campaign.json/x": "no campaign",
        "empty": b"",
        ".git/x": _text(2),
        "bin": b"\x7fELF\0\0" + b"\0" * 100,
        "\u202egnp.txt": b"text",
    }
    _write(tree, contents)
    os.symlink(outside, tree / "out-of-the-tree")
    os.symlink(outside / "x.txt", tree / "link.txt")
    os.mkfifo(tree / "pipe")
    with open(os.fsencode(tree) + b"/\xff.txt", "w", encoding="utf-8") as file:
        file.write(_text(3))
    found = _ingest(tree, out)
    assert found["runs"] == 2
    assert found["kinds"] == {
        "other text": 3, "symbolic link": 2, "sysbench": 2, "empty": 1, "no regular file": 1,
        "notebook": 1, "pickle": 1, "program": 1,
    }  # fmt: skip
    names = frame(out, "files")["file"]
    assert not names.str.contains("[\x00-\x1f\u202e]", regex=True).any()
    assert _ingest(tree, out)["read"] == 0


def test_no_secret_gets_in(tree, out):
    bash = f"sysbench --mysql-password={SECRET} --threads=4 --mysql-user=u oltp_read_write run\n"
    timed = (DATA / "time/zsh-time.txt").read_text().replace("cat;", f"mysql --password={SECRET};")
    contents = {
        "a.txt": bash + _text(),
        f"run --mysql-password={SECRET}.txt": _text(1),
        "t.txt": timed,
        "cut.txt": f"sysbench 1.0.20 (x)\n[ 1s ] thds: 4 tps: 1.0 --password={SECRET}\n",
        "g.tgz": _tar({f"--password={SECRET}/x.txt": _text(2).encode()}, "w:gz"),
        "fatal.txt": f"sysbench 1.0.20 (x)\nFATAL: mysql://u:{SECRET}@h is wrong\n",
    }
    assert _ingest(_write(tree, contents), out)["runs"] >= 4
    for name in TABLES:
        assert SECRET not in frame(out, name).to_csv()
    for file in out.rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes()


def test_a_contradiction_is_a_warning_with_both_and_broken_ones_have_a_line(tree, out):
    whole = _text(threads=4)
    rows = whole.splitlines(keepends=True)
    torn = "".join([*rows[:13], rows[13][:40] + "\n", *rows[14:]])
    contents = {"run1_RO_64th.txt": whole, "cut.txt": "".join(rows[:14]), "torn.txt": torn}
    _ingest(_write(tree, contents), out)
    warnings = _runs(out).iloc[0]["warnings"]
    assert "the path says 64 threads, the text 4" in warnings
    assert "the path says RO, the text RW" in warnings
    assert [(p[0], p[2], p[3][:20]) for p in _problems(out)] == [
        ("cut.txt", 14, "no summary: the run "),
        ("torn.txt", 14, "an interval row that"),
    ]


# -- again -----------------------------------------------------------------------------------------


def test_again_reads_what_is_new_and_the_parts_of_what_changed(tree, out, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "BATCH_FILES", 10)
    archive.tree(tree, 60, seconds=5)
    assert _ingest(tree, out)["read"] == 60
    assert _ingest(tree, out)["read"] == 0
    _write(tree, {"new/a.txt": _text(98)})
    assert _ingest(tree, out)["read"] == 1
    every = sorted(tree.rglob("*.txt"))
    every[3].write_text(_text(99))
    every[5].unlink()
    os.utime(every[7], ns=(1, 1))
    assert 2 <= _ingest(tree, out)["read"] < 30
    assert _ingest(tree, out)["read"] == 0
    assert _ingest(tree, tmp_path / "fresh")["read"] == 60
    same(out, tmp_path / "fresh")


def test_killed_in_the_middle_it_continues(tree, out, tmp_path):
    archive.tree(tree, 400, seconds=60)
    code = (
        "import sys; from pathlib import Path; from noisefloor.data.ingest import build;"
        "build.HERE_BYTES = 1 << 40; build.BATCH_FILES = 20;"
        "build.build(Path(sys.argv[1]), Path(sys.argv[2]), None)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, tree, out])
    while len(list(out.glob("files/part-*"))) < 5:
        assert child.poll() is None
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert manifest(out)["finished"] == ""
    with pytest.raises(Refusal, match=r"not whole, ingest was interrupted: .*; nothing was judged"):
        archives.load(out)
    done = frame(out, "files")["file"].nunique()
    assert 0 < done < 400
    assert _ingest(tree, out)["read"] == 400 - done
    assert manifest(out)["finished"]
    _ingest(tree, tmp_path / "fresh")
    same(out, tmp_path / "fresh")


@pytest.mark.parametrize("first", ["_write_manifest", "write_part"])
def test_on_a_full_disk_at_its_first_file_it_continues(tree, out, monkeypatch, first):
    _write(tree, {"a.txt": _text()})

    def full(*args, **more):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(build, first, full)
        with pytest.raises(Refusal, match=r"No space left .*; whole parts are kept, the same"):
            _ingest(tree, out)
    refused(noisefloor("compare", "--from", out, "--baseline", "server=x"))
    assert _ingest(tree, out)["runs"] == 1


def test_a_file_that_cannot_be_read_is_tried_again(tree, out, monkeypatch):
    _write(tree, {"a.txt": _text(), "b.txt": _text(1)})
    real = os.open

    def refuses(path, *args, **more):
        if str(path).endswith("a.txt"):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuses)
        assert _ingest(tree, out)["problems"] == 1
    for read in (2, 0):
        found = _ingest(tree, out)
        assert (found["runs"], found["problems"], found["read"]) == (2, 0, read)


def test_files_of_several_parts_that_cannot_be_read_are_tried_again(
    tree, out, tmp_path, monkeypatch
):
    """Their rows are not there twice, and none of the earlier ones stays."""
    monkeypatch.setattr(build, "BATCH_FILES", 1)
    texts = {f"{n}.txt": _text(n) for n in range(6)}
    _write(tree, texts)
    real = os.open

    def refuses(path, *args, **more):
        if str(path).endswith(("1.txt", "4.txt")):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuses)
        assert _ingest(tree, out)["problems"] == 2
        parts = map(pq.read_table, out.glob("files/part-*"))
        assert sum(0 in part["stamp"].to_pylist() for part in parts) == 2
    found = _ingest(tree, out)
    assert (found["files"], found["runs"], found["problems"]) == (6, 6, 0)
    assert _ingest(tree, out)["read"] == 0
    _ingest(tree, tmp_path / "fresh")
    same(out, tmp_path / "fresh")


# -- refusals --------------------------------------------------------------------------------------


def test_refusals_are_a_sentence(tree, out, tmp_path):
    _write(tree, {"a.txt": _text()})
    other = _write(tmp_path / "other", {"a.txt": _text()})
    done("ingest", tree, "--out", out)
    judged = ("compare", "--baseline", "server=x", "--from")
    for argv, said in (
        (("ingest", tmp_path / "nowhere"), "does not exist"),
        (("ingest", tree, "--out", tree.parent), "holds the tree itself"),
        (("ingest", other, "--out", out), "another tree"),
        (("ingest", tree, "--out", other), "no table of ours"),
        ((*judged, other), "is no table"),
    ):
        refused(noisefloor(*argv), words=said)
    assert sorted(p.name for p in other.iterdir()) == ["a.txt"]
    old = json.loads((out / "manifest.json").read_text()) | {"format": 0}
    (out / "manifest.json").write_text(json.dumps(old))
    for argv in (("ingest", tree, "--out", out), (*judged, out)):
        text = noisefloor(*argv)
        refused(text, words="format 0")
        assert "noisefloor ingest" in text.stderr
    with pytest.raises(Refusal):
        frame(out, "tidy")


# -- the tables ------------------------------------------------------------------------------------

TYPES = {  # what Spark reads: it has no unsigned numbers and no nanoseconds
    "string": ("BYTE_ARRAY", "STRING", "VARCHAR"), "int32": ("INT32", "NONE", "INTEGER"),
    "int64": ("INT64", "NONE", "BIGINT"), "float": ("FLOAT", "NONE", "FLOAT"),
    "double": ("DOUBLE", "NONE", "DOUBLE"), "bool": ("BOOLEAN", "NONE", "BOOLEAN"),
}  # fmt: skip


def test_pandas_duckdb_and_spark_open_the_folders(tree, out):
    _ingest(_percona_2026(tree), out)
    for name, wanted in TABLES.items():
        ours = frame(out, name)
        pd.testing.assert_frame_equal(ours, pd.read_parquet(out / name), check_like=True)
        rows = duckdb.sql(f"select * from '{out}/{name}/*.parquet'")
        assert rows.columns == wanted.names
        assert len(rows) == len(ours)
        assert [str(t) for t in rows.types] == [TYPES[str(f.type)][2] for f in wanted]
        for part in sorted((out / name).glob("*")):  # Spark takes one part's schema for all
            assert part.name.startswith("part-")
            columns = pq.ParquetFile(part).schema
            assert columns.names == wanted.names
            assert len({n.lower() for n in columns.names}) == len(columns.names)
            held = map(columns.column, range(len(wanted)))
            kinds = [(c.physical_type, c.logical_type.type) for c in held]
            assert kinds == [TYPES[str(f.type)][:2] for f in wanted]
    mean = duckdb.sql(
        f"select server, avg(value) v from '{out}/tidy/*.parquet' where metric = 'tps' "
        "and buffer_pool_B = 12884901888 group by 1 order by 1"
    ).fetchall()
    assert [s for s, _ in mean] == ["mysql", "percona-server"]
    assert mean[1][1] / mean[0][1] == pytest.approx(1.5, rel=0.05)


# -- judged ----------------------------------------------------------------------------------------


def _judged(out: Path, *argv, metrics=("tps",)) -> list[dict]:
    """The rows of some metrics (of all without any), as `compare --from` has them."""
    rows = comparisons("compare", "--from", out, *argv)
    return [r for r in rows if r["metric"] in metrics or not metrics]


def test_runs_that_differ_in_something_else_are_not_pooled(tree, out):
    _ingest(_percona_2026(tree), out)
    rows = _judged(out, "--baseline", "server=mysql")
    assert [(r["n_baseline"], r["n_arm"], r["verdict"]) for r in rows] == [(5, 5, "faster")] * 2
    assert sorted(r["workload"] for r in rows) == [f"RW, buffer pool {t}G" for t in ("12", "2")]
    assert all("the arms differ in version (8.4.8 and 8.4.8-8), too" in r["warnings"] for r in rows)
    small = _judged(out, "--baseline", "server=mysql", "--where", "buffer_pool=2G")
    assert len(small) == 1


def test_an_archive_has_a_row_for_each_run_that_can_be_compared(tree, out):
    _ingest(_percona_2026(tree), out)
    opened = archives.load(out, "mysql", label="server")
    runs = opened.runs
    assert list(runs.columns) == archives.RUNS == documented("archive.runs")
    assert len(runs) == runs["run"].nunique() == 20
    assert runs["arm"].value_counts().to_dict() == {"mysql": 10, "percona-server": 10}
    assert set(runs["workload"]) == {w.name for w in opened.study.workloads}
    (text,) = archives.texts_of(opened, runs["run"].iloc[0]).values()
    assert "sysbench" in text


def test_settings_in_names_of_files_are_no_repeats(tree, out):
    sizes = ("wal1G", "wal10G", "wal100G")
    paths = [f"{arm}/res.{size}.ssd.{k}.txt" for arm in "ab" for size in sizes for k in (1, 2)]
    _ingest(_write(tree, {path: _text(n) for n, path in enumerate(paths)}), out)
    rows = _judged(out, "--baseline", "folder=a")
    assert [(r["n_baseline"], r["n_arm"]) for r in rows] == [(2, 2)] * 3
    assert [r["workload"] for r in rows] == [f"all runs, {size} ssd" for size in sizes]


def test_the_text_says_what_was_run_where_its_path_does_not():
    found = labels.labels("read_only/a/run1_RW_4th.txt")
    text = Run("1.txt", {"tps": 1.0}, 4, access="RO")
    assert labels.settled(found, text)["workload"] == "RO"
    assert not labels.contradictions(found, text), "one of its two words is true"
    assert labels.contradictions(labels.labels("a/RW.txt"), text) == [
        "the path says RW, the text RO"
    ]


def test_a_row_for_each_thread_count_and_runs_chosen_by_it(tree, out):
    paths = [(f"{arm}/run{k}_{n}th.txt", n) for arm in "ab" for k in (1, 2) for n in (4, 8)]
    _ingest(_write(tree, {path: _text(s, n) for s, (path, n) in enumerate(paths)}), out)
    text = done("compare", "--from", out, "--baseline", "setting=a", "--verbose")
    shown = [line.split()[1] for line in text.split("\n") if line.startswith("TPS")]
    assert shown == ["4", "8"]
    chosen = _judged(out, "--baseline", "setting=a", "--where", "threads=8")
    assert [r["threads"] for r in chosen] == [8]


def _timed(*seconds: float) -> dict:
    """Two runs of each arm, those of the k-th arm so long."""
    names = ((arm, s, k) for arm, s in zip("ab", seconds, strict=True) for k in (1, 2))
    return {f"{arm}/run{k}_4th.txt": _text(k + ord(arm), seconds=s) for arm, s, k in names}


def test_runs_of_two_durations_are_never_judged_together(tree, out):
    """As `compare` refuses them in folders of logs; within 5 % it is one duration."""
    asked = ("--baseline", "setting=a")
    _ingest(_write(tree, _timed(20, 60)), out)
    said = noisefloor("compare", "--from", out, *asked)
    refused(said, 2, ", duration 60 s)")
    _write(tree, {f"a/run{k}_4th.txt": _text(k, seconds=60) for k in (3, 4)})
    _ingest(tree, out)
    (row,) = _judged(out, *asked)
    assert (row["n_baseline"], row["n_arm"]) == (2, 2)
    assert row["workload"].endswith(", duration 60 s")
    _write(tree, {f"a/run{k}_4th.txt": _text(k, seconds=61) for k in (1, 2)})
    _ingest(tree, out)
    (row,) = _judged(out, *asked)
    assert (row["n_baseline"], row["n_arm"]) == (4, 2)
    assert "duration" not in row["workload"]


def test_the_time_of_a_command_is_a_result_and_not_a_duration(tree, out):
    texts = {
        f"{arm}/{k}.txt": f"real {times * (10 + k / 100):.2f}\nuser 1.00\nsys 0.50\n"
        for arm, times in (("a", 1), ("b", 2))
        for k in (1, 2)
    }
    _ingest(_write(tree, texts), out)
    (row,) = _judged(out, "--baseline", "folder=a", metrics=("wall",))
    assert (row["n_baseline"], row["n_arm"], row["verdict"]) == (2, 2, "slower")


def test_arms_that_share_no_thread_count_are_one_sentence(tree, out):
    texts = {f"{arm}/run{k}_{n}th.txt": (k, n) for arm, n in (("a", 4), ("b", 8)) for k in (1, 2)}
    _ingest(_write(tree, {path: _text(k + n, n) for path, (k, n) in texts.items()}), out)
    said = noisefloor("compare", "--from", out, "--baseline", "setting=a")
    refused(said, 2, "setting=a: no other arm has a metric and a thread count in common with it")


def _told(judged):
    """{what the authors say: the other cells of its row}"""
    rows = judged.itertuples(index=False)
    return {said: amounts.ascii_only(" | ".join(cells)) for said, *cells in rows}


def test_claims_of_the_authors_are_held_against_their_runs(tree, out):
    _ingest(_percona_2026(tree), out)
    at = {"both": '"buffer pool 2G" = [1, 64], "buffer pool 12G" = [1, 64]'}
    at |= {"one": '"buffer pool 2G" = [16, 16]', "none": '"buffer pool 2G" = [8, 8]'}
    claims = (
        f'[[claims]]\nsaid = "{said}"\narm = "percona-server"\nleader = "percona-server"\n'
        f"at = {{ {where} }}\n"
        for said, where in at.items()
    )
    more = '[[claims]]\nsaid = "a third"\narm = "percona-server"\nleader = "percona-server"\n'
    more += f'by = [33, 34]\nof = "percona-server"\nmean = true\nat = {{ {at["both"]} }}\n'
    wrong = more.replace("a third", "a tenth").replace("[33, 34]", "[0, 10]")
    (out / "about.toml").write_text('title = "Two servers"\n' + "".join(claims) + more + wrong)
    found = archives.load(out, "mysql", label="server")
    assert found.study.title == "Two servers"
    assert found.study.question == "Two servers"
    (said,) = analysis.arms_in_words(found)
    assert said.startswith("percona-server against mysql, TPS: +")
    assert said.endswith("\u202f% in 2 of 2 comparisons.")
    judged = analysis.claims(found)
    words = "The authors' conclusions: 3 agree, 1 disagrees (a tenth), 1 not comparable."
    assert analysis.agreed(found, judged) == words
    assert analysis.agreed(found, judged[:2]) == "The authors' conclusions: all 2 agree."
    assert analysis.agreed(found, judged[:0]) == ""
    told = _told(judged)
    assert told["both"].startswith("faster | agrees | at all 2: +")
    assert told["one"].startswith("faster | agrees | +")
    assert told["none"] == "– | not comparable | no runs of both with an interval"
    # a third of the faster one's number is half of the other one's
    assert told["a third"].startswith("+49.3 to +51.5 % | agrees | +")
    assert told["a tenth"].startswith("0.0 to +11.1 % | disagrees | +")


def test_an_archive_of_one_comparison_begins_as_a_study_does(tree, out, home):
    """Its host and its engine are known in words alone."""
    texts = {f"{arm}/run{k}.txt": _text(k + 9 * (arm == "b")) for arm in "ab" for k in (1, 2, 3)}
    _ingest(_write(tree, texts), out)
    (out / "about.toml").write_text('host = "a large machine"\nengine = "MySQL 8.0.26"\n')
    shown = report.begin(archives.load(out, "a", label="folder"), answer="So it is")
    assert "So it is." in shown.markup
    assert "Measured 3 " in shown.markup
    assert ", a large machine, MySQL 8.0.26.</p>" in shown.markup
    assert "What to do" not in shown.markup


@pytest.mark.parametrize(
    "fields",
    ['leader = "nobody"', 'word = "faster"', 'leader = "mysql"\nby = [5]',
     'leader = "mysql"\nby = [5, 120]\nof = "mysql"', 'leader = "mysql"\nof = "me"'],
)  # fmt: skip
def test_a_claim_that_cannot_be_read_is_one_sentence(tree, out, fields):
    _ingest(_percona_2026(tree), out)
    told = f'said = "so"\narm = "percona-server"\n{fields}\nat = {{ "buffer pool 2G" = [1, 64] }}\n'
    (out / "about.toml").write_text(f'title = "Two servers"\n[[claims]]\n{told}')
    found = archives.load(out, "mysql", label="server")
    with pytest.raises(Refusal, match=r"about.toml, 'so': `leader` and `of` name one of"):
        analysis.claims(found)


def test_up_to_35_percent_of_the_faster_one_stands_in_our_unit():
    """Their "Intel ahead by up to 35 %" is Intel's +55 % over Graviton, and Graviton's -35 %."""
    folder = paths.published() / "archives" / "2021-arm"
    r = archives.load(folder, "m5", label="host", restarts=True)
    judged = analysis.claims(r)
    words = "Percona's conclusions: 7 agree, 1 disagrees (Graviton 5 to 14 % ahead)."
    assert analysis.agreed(r, judged) == words
    told = _told(judged)
    (most,) = (a for said, a in told.items() if said.endswith("by up to 35 %"))
    assert most.startswith("-35.0 to 0.0 % | agrees | at all 13: -35.5 to +12.6 %; farthest from ")
    (amd,) = (a for said, a in told.items() if said.startswith("AMD"))
    assert amd == "slower | agrees | at all 56: 1.2 to 2.9 times slower"
    (broken,) = (a for a in told.values() if " | disagrees | " in a)
    assert broken.startswith(
        "+5.0 to +14.0 % | disagrees | not at 1 of 3 (48 vCPU with 64 threads -3.4 %)"
    )
    for answer in told.values():
        assert ("times" in answer) != ("%" in answer), answer
    said, graviton = map(amounts.ascii_only, analysis.arms_in_words(r))
    assert said == (
        "AMD (m5a) against Intel (m5), TPS: -26.5 to -65.3 % in 55 of 56 comparisons "
        "(7 machine sizes × 8 thread counts), cannot tell in 1."
    )
    assert graviton == (
        "Graviton2 (m6g) against Intel (m5), TPS: -9.1 to -35.5 % in 16, +6.9 to +14.9 % in 4, "
        "cannot tell in 36."
    )
    assert analysis.contrary(r) == ""
    # one rented machine of the baseline was 21 % faster than the two others, at one thread count
    apart = analysis.outliers(r).set_index(["workload", "threads", "arm"])
    row = apart.loc[("OLTP_READ_only, 8 vCPU", 8, "m5")]
    assert (row["this run"], row["the others"]) == ("4,940.2", "3,792, 4,079")
    assert {arm for *_, arm in apart.index} == {"m5", "m6g"}


def test_a_page_of_an_archive_has_the_names_of_its_description():
    """In its sentences and figures; its rows keep those of the labels."""
    folder = paths.published() / "archives" / "2021-arm"
    r = archives.load(folder, "m5", label="host", restarts=True)
    rows = analysis.main(r)
    shown = analysis.named(r, rows)
    assert set(shown["arm"]) == {"AMD (m5a)", "Graviton2 (m6g)"}
    assert set(shown["baseline"]) == {"Intel (m5)"}
    assert "oltp_read_only, 8 vCPU" in set(shown["workload"])
    assert set(rows["arm"]) == {"m5a", "m6g"}


def test_a_page_of_an_archive_begins_with_its_answers_in_90_words(tmp_path, monkeypatch):
    """Among them where latency is worse although throughput is better."""
    monkeypatch.setenv(report.OUT, str(tmp_path))
    r = archives.load(paths.published() / "archives" / "2026-pgo", "mysql-non-pgo", label="server")
    joint, judged = analysis.summary(analysis.main(r)), analysis.claims(r)
    worst, leads = analysis.contrary(r), analysis.arms_in_words(r)
    assert amounts.ascii_only(worst) == (
        "But p95 latency is worse in 1 of the 10: +33.4 % (+8.3 to +64.3 %), 64 threads, "
        "buffer pool 32G."
    )
    assert [*map(amounts.ascii_only, leads)] == [
        "With PGO against without PGO, TPS: +7.3 to +14.3 % in 10 of 24 comparisons "
        "(buffer pool 32G: 8 thread counts, 12G: 2), cannot tell in 14."
    ]
    shown = report.archived(r, joint, leads, analysis.agreed(r, judged), worst).markup
    assert shown.index(worst) > shown.index("conclusions: all 6 agree")  # beside what to do
    for words in (
        leads[0],
        worst,
        "What to do:",
        "Measured by Percona, three 15-minute runs: 2026",
    ):
        assert words in shown
    assert "nf-sign" not in shown  # the sentences have the words
    said = re.sub("<[^>]+>", " ", f"{r.study.title} {shown}").replace("\u202f", " ")
    assert len([word for word in said.split() if re.search(r"\w", word)]) <= 90, said
    facts = json.loads((tmp_path / "archive-2026-pgo.json").read_text())
    assert facts["advice"] == r.about["advice"]
    assert facts["title"].endswith("?")
    assert facts["headline"] == f"{leads[0]} {worst}"


def test_what_is_published_does_not_depend_on_this_machine(tmp_path, monkeypatch):
    r = archives.load(paths.published() / "archives" / "2026-pgo", "mysql-non-pgo", label="server")
    rows = r.judged(metric="tps")
    judged = archives.judge_rows(r, rows, "tps")
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(tmp_path))
    (tmp_path / "floor.json").write_text('{"tps": {"cv_pct": 50, "df": 3}}')
    pd.testing.assert_frame_equal(archives.judge_rows(r, rows, "tps"), judged)


def _versions(tree: Path, rates: dict, runs: int = 1) -> Path:
    """Versions of one server, at two thread counts."""
    contents = {}
    for n, (version, tps) in enumerate(rates.items()):
        for threads in (4, 16):
            for run in range(1, runs + 1):
                name = f"benchmark_logs/mysql/{version}/run{run}_Tier2G_RW_{threads}th.sysbench.txt"
                seed = 100 * n + 10 * run + threads
                contents[name] = _text(seed, threads, tps=tps * threads / 4, seconds=60)
    return _write(tree, contents)


FIVE = {"5.6.51": 247.0, "5.7.44": 216.0, "8.0.45": 170.0, "8.4.8": 164.0, "9.7.0": 156.0}


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        (FIVE, "each slower than the one before, "),
        (FIVE | {"5.7.44": 150.0, "9.7.0": 230.0}, "no order can be told, "),
    ],
)
def test_versions_are_tested_in_their_order(tree, out, rates, said):
    """No pair of single runs tells anything; the order of five versions may. 10.0 comes after 9.7."""
    _ingest(_versions(tree, rates), out)
    found = analysis.trends(archives.load(out, "5.6.51", label="version"))
    assert len(found) == 1
    (told,) = found["in this order"]
    assert told.startswith(f"{', '.join(FIVE)}: {said}")
    assert analysis._versions(pd.Series(["10.0.1", "9.7.0", "8.4.8"]), "8.4.8") == [
        *("8.4.8", "9.7.0", "10.0.1"),
    ]


def test_arms_that_are_no_versions_have_no_order(tree, out):
    _ingest(_percona_2026(tree), out)
    assert analysis.trends(archives.load(out, "mysql", label="server")).empty


def test_a_run_that_lies_apart_is_named_with_what_the_others_say(tree, out):
    _percona_2026(tree)
    name = "benchmark_logs/mysql/8.4.8/run3_Tier2G_RW_16th.sysbench.txt"
    _write(tree, {name: _text(3, 16, tps=330, seconds=20)})  # of about 200
    _ingest(tree, out)
    found = analysis.outliers(archives.load(out, "mysql", label="server"))
    assert list(found["arm"]) == ["mysql"]  # the baseline's
    (row,) = found.to_dict("records")
    assert row["workload"].endswith("buffer pool 2G")
    assert row["it lies"].startswith("+6")
    assert len(row["the others"].split(", ")) == 4
    assert row["without it"].startswith("percona-server: faster, +")
    assert ", with it " in row["without it"]


def _arms(n: int, faster: float = 0.0) -> dict:
    """Runs of two arms, in a folder each."""
    return {
        f"{arm}/{i}.txt": _text(i + 10 * k, tps=500 * (1 + faster * k))
        for k, arm in enumerate(("off", "on"))
        for i in range(n)
    }


ZERO = "real\t0m0.000s\nuser\t0m0.000s\nsys\t0m0.000s\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"on/copy.txt": _arms(4)["on/1.txt"]}, "1 runs hold the same text as another one"),
        (
            {f"{arm}/t{i}.txt": ZERO for arm in ("off", "on") for i in range(2)},
            "numbers are 0, and have no ratio to another one",
        ),
    ],
)
def test_a_text_twice_and_a_number_without_a_ratio_are_counted(tree, out, more, said):
    _ingest(_write(tree, _arms(4) | more), out)
    text = done("compare", "--from", out, "--baseline", "folder=off", "--verbose")
    assert "4 / 4" in text
    assert said in " ".join(text.split())
    last = done("compare", "--from", out, "--baseline", "folder=off").splitlines()[-1]
    assert last.startswith("Left out: ")
    assert " --verbose lists all that was left out, " in last


@pytest.mark.parametrize(
    ("server", "where", "said"),
    [
        ("mysql", (), "1 workloads are of mysql alone"),
        ("mysql", ("--where", "version=9"), "version=9: no run has it; version is: 8.4.8"),
        ("mysql", ("--where", "host=here"), "no run has a host, labels of these runs are: server,"),
        (
            "mysql",
            ("--where", "server=mysql"),
            "runs have it, and another server is needed beside it",
        ),
        ("oracle", (), "server=oracle: no run has it; server is: "),
    ],
)
def test_what_is_left_out_is_one_line(tree, out, server, where, said):
    alone = {f"benchmark_logs/mysql/8.4.8/run{n}_Tier32G_RW_4th.txt": _text(90 + n) for n in (0, 1)}
    _ingest(_write(_percona_2026(tree), alone), out)
    asked = ("compare", "--from", out, "--baseline", f"server={server}", *where)
    assert said in " ".join(noisefloor(*asked, "--verbose").output.split())
    short = noisefloor(*asked).output
    assert len(short.splitlines()) <= MOST_LINES
    assert ("Left out: " in short) == (not where and server == "mysql")


def _servers(*servers: tuple[str, str], more: str = "") -> dict:
    """Four runs of each server and version, each slower than the one before."""
    return {
        f"{server}/{version}/run{i}_RW_{more}4th.txt": _text(i + 10 * n, tps=500 - 50 * n)
        for n, (server, version) in enumerate(servers)
        for i in range(4)
    }


def test_a_baseline_of_several_versions_is_named_with_one(tree, out):
    servers = (("mysql", "8.0.45"), ("mysql", "8.4.8"), ("mariadb", "11.8.3"))
    contents = _servers(*servers, more="x" * 40 + "_")
    _ingest(_write(tree, contents), out)
    text = done("compare", "--from", out, "--baseline", "server=mysql", code=2)
    assert "--baseline server=mysql,version=8.0.45" in text
    rows = _judged(out, "--baseline", "server=mysql,version=8.0.45")
    assert {(r["arm"], r["verdict"]) for r in rows if r["metric"] == "tps"} == {
        ("mysql 8.4.8", "slower"),
        ("mariadb 11.8.3", "slower"),
    }
    text = done("compare", "--from", out, "--baseline", "server=mysql,version=9", code=2)
    assert "no run has it; server,version is: mariadb 11.8.3 (4 runs)," in text


def test_what_only_others_have_makes_arms_of_its_own(tree, out):
    """Two versions of MariaDB against the one of MySQL: two arms, never pooled."""
    servers = (("mysql", "8.4.8"), ("mariadb", "10.11.2"), ("mariadb", "11.8.3"))
    _ingest(_write(tree, _servers(*servers)), out)
    rows = _judged(out, "--baseline", "server=mysql")
    assert {r["arm"] for r in rows} == {"mariadb 10.11.2", "mariadb 11.8.3"}
    assert {(r["n_baseline"], r["n_arm"]) for r in rows} == {(4, 4)}
