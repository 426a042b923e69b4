"""Trees of results by hand, in the layouts that people have -> tables; and what is judged in them."""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import archive
from noisefloor import paths, tidy
from noisefloor.cli import main
from noisefloor.ingest import NotATable, build, frame, labels, manifest, table, unpack

DATA = Path(__file__).parent / "data"
SECRET = "hunter2-geheim"


@contextlib.contextmanager
def _two():
    with ProcessPoolExecutor(2) as executor:
        executor.width = 2
        yield executor


def _ingest(tree: Path, out: Path) -> dict:
    return build.build(tree, out, _two)


def _write(tree: Path, files: dict) -> Path:
    for name, content in files.items():
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
    for name in table.TABLES:
        x, y = (frame(f, name) for f in (a, b))
        keys = [c for c in x.columns if c not in ("repetition",)]
        x, y = (f.sort_values(keys, ignore_index=True, kind="stable") for f in (x, y))
        pd.testing.assert_frame_equal(x, y, obj=name)


# -- labels ----------------------------------------------------------------------------------------

_G = 2**30


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "benchmark_logs/mysql/8.4.8/run2_Tier12G_RW_64th.sysbench.txt",
            {"server": "mysql", "version": "8.4.8", "repetition": 2, "buffer_pool_B": 12 * _G,
             "access": "RW", "threads": 64, "setting": "benchmark_logs"},
        ),
        (
            "benchmark_logs/Percona-Server/9.7.1-1/run1_Tier2G_tp10_os2_RO_512th.sysbench.txt",
            {"server": "Percona-Server", "version": "9.7.1-1", "repetition": 1,
             "buffer_pool_B": 2 * _G, "access": "RO", "threads": 512,
             "setting": "benchmark_logs tp10 os2"},
        ),
        (
            "benchmark_logs/percona-server/8.4.8-8-bp4/run1_Tier12G_tpoff_RW_32th.sysbench.txt",
            {"server": "percona-server", "version": "8.4.8-8-bp4", "repetition": 1,
             "buffer_pool_B": 12 * _G, "access": "RW", "threads": 32,
             "setting": "benchmark_logs tpoff"},
        ),
        (
            "res-tpcc-inno-EXT4-full-binlog-sync0-2018-04-17-15-46/mysql57.BP60/thr56/res.txt",
            {"server": "mysql", "version": "5.7", "buffer_pool_B": 60 * _G, "threads": 56,
             "setting": "res-tpcc-inno-EXT4-full-binlog-sync0"},
        ),
        (
            "raw/res.mysql55/res.thr100.txt",
            {"server": "mysql", "version": "5.5", "threads": 100, "setting": "raw/res"},
        ),
        (
            "raw/res.percona57/res.100.ro.txt",
            {"server": "percona", "version": "5.7", "threads": 100, "access": "RO",
             "setting": "raw/res"},
        ),
        (
            "x.my8032_rel.cz10a_c8r16/sb.o.point-query.range100.pk1.dop40",
            {"server": "mysql", "version": "8.0.32", "threads": 40, "range_size": 100,
             "setting": "rel.cz10a_c8r16 point-query pk1"},
        ),
        ("x.ma100244_rel.z/sb.o.scan.range10.pk1.dop1",
         {"server": "mariadb", "version": "10.2.44", "threads": 1, "range_size": 10,
          "setting": "rel.z scan pk1"}),
        ("x.pg151_def.x1/sb.time.scan.range10.pk1.dop2",
         {"server": "postgresql", "version": "15.1", "threads": 2, "range_size": 10,
          "setting": "def.x1 scan pk1"}),
        ("before/log1.txt", {"setting": "before"}),
        ("00-00-1-B.txt", {}),
    ],
)  # fmt: skip
def test_labels_of_the_layouts(path, expected):
    assert labels.labels(path) == expected


# -- layouts ---------------------------------------------------------------------------------------


def _percona_2026(tree: Path) -> Path:
    files = {}
    for server, version, faster in (("mysql", "8.4.8", 1.0), ("percona-server", "8.4.8-8", 1.5)):
        for tier in (2, 12):
            for run in (1, 2, 3, 4, 5):
                name = f"benchmark_logs/{server}/{version}/run{run}_Tier{tier}G_RW_16th"
                seed = hash((server, tier, run)) % 1000
                files[f"{name}.sysbench.txt"] = _text(seed, 16, tps=100 * tier * faster, seconds=20)
                files[f"{name}.vars.txt"] = "innodb_buffer_pool_size\t1\n"
    return _write(tree, files | {"README.md": "# Results", "plot.png": b"\x89PNG\r\n\x1a\n\0"})


def test_percona_2026(tmp_path):
    found = _ingest(_percona_2026(tmp_path / "tree"), tmp_path / "out")
    assert found["kinds"] == {"other text": 21, "sysbench": 20, "picture": 1}
    assert (found["files"], found["runs"], found["problems"]) == (42, 20, 0)
    runs = _runs(tmp_path / "out")
    first = runs.loc["benchmark_logs/mysql/8.4.8/run1_Tier12G_RW_16th.sysbench.txt"]
    assert first["buffer_pool_B"] == 12 * _G
    assert (first["server"], first["threads"], first["labels_from"]) == ("mysql", 16, "path")
    assert set(frame(tmp_path / "out", "tidy")["metric"]) == {
        "tps", "mean_latency", "max_latency", "p95", "p99", "qps", "ignored_errors", "reconnects",
    }  # fmt: skip
    rows = frame(tmp_path / "out", "intervals").groupby("run").size()
    assert (rows == 20).all()
    assert len(rows) == 20


def test_the_other_layouts_and_two_runs_in_a_text(tmp_path):
    csv = (DATA / "sysbench/by-hand/1.1-csv-reporter.txt").read_bytes()
    old = (DATA / "sysbench/by-hand/0.5.txt").read_bytes()
    begun = b"sysbench 0.5:  multi-threaded system evaluation benchmark\n\nRunning the test with following options:\nNumber of threads: 1\n\nThreads started!\n\n"
    echo = b"LUA_PATH=/l/?.lua ./sysbench --range-size=100 --threads=4 --mysql-password=%b --time=5 /l/oltp_point_select.lua run\n8 CPUs\n"
    tree = _write(
        tmp_path / "tree",
        {
            "res-tpcc-XFS-2018-04-17-15-46/mysql57.BP60/thr2/res.txt": csv,
            "raw/res.mysql55/res.thr4.txt": begun + old,
            "x.my8032_rel.c8r16/sb.o.point-query.range100.pk1.dop4": echo % SECRET.encode() + _text().encode(),
            "x.my8032_rel.c8r16/sb.time.point-query.range100.pk1.dop4": (DATA / "time/gnu-time-default.txt").read_bytes(),
            "plain/a": (DATA / "time/bash-time.txt").read_bytes(),
        },
    )  # fmt: skip
    found = _ingest(tree, tmp_path / "out")
    assert (found["runs"], found["kinds"]) == (5, {"sysbench": 3, "time": 2})
    assert [p[2:] for p in _problems(tmp_path / "out")] == [
        (
            6,
            "no summary: the run failed, was killed, or the text is cut; it reads 'Threads started!'",
        )
    ]
    runs = _runs(tmp_path / "out")
    assert list(runs["version"].fillna("")) == ["", "5.5", "5.7", "8.0.32", "8.0.32"]
    assert list(runs["tool"]) == ["time", "sysbench", "sysbench", "sysbench", "time"]
    assert runs.iloc[1]["line"] == 8
    assert runs.iloc[3]["workload"] == "oltp_point_select"


def test_our_own_campaign_is_read_as_a_campaign(tmp_path):
    shutil.copytree(DATA / "campaign", tmp_path / "tree" / "mine")
    assert _ingest(tmp_path / "tree", tmp_path / "out")["kinds"] == {"campaign": 1}
    found = frame(tmp_path / "out", "tidy")
    expected = tidy.table(DATA / "campaign")
    assert len(found) == len(expected)
    assert found["value"].sum() == pytest.approx(expected["value"].sum())
    assert set(found["arm"]) == {"plain", "encrypted", "plain again"}
    assert set(found["labels_from"]) == {"campaign"}
    assert found["warmup"].sum() == expected["warmup"].sum() > 0


@pytest.mark.parametrize("campaign", [p.name for p in sorted(paths.recorded().glob("binlog-*"))])
def test_a_recorded_campaign(tmp_path, campaign):
    folder = paths.recorded() / campaign
    _ingest(folder, tmp_path / "out")
    found = frame(tmp_path / "out", "tidy")
    expected = tidy.table(folder)
    if "at once" in expected["workload"].iloc[0]:  # a duet's windows are one run
        expected = expected[expected["metric"] != "tps"]
        means = expected.groupby(["run", "metric"], sort=False)["value"].mean()
        assert found["value"].sum() == pytest.approx(means.sum())
        assert all(w.startswith("a duet: means of ") for w in found["warnings"])
        expected = means
    assert len(found) == len(expected)
    assert found["campaign"].unique().tolist() == [campaign]


# -- compressed files and archives -------------------------------------------------------------------


def _zstd(data: bytes) -> bytes:
    sink = io.BytesIO()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
        stream.flush()
        stream.close()
        return sink.getvalue() if not sink.closed else b""


def _tar(members: dict, mode: str = "w") -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode=mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, tarfile.TarInfo):
                info = content
                info.name = name
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return sink.getvalue()


def _link(target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def test_packed_texts_are_read_by_their_bytes(tmp_path):
    texts = [_text(i).encode() for i in range(8)]
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("deep/64th.txt", texts[0])
    tree = _write(
        tmp_path / "tree",
        {
            "a.txt": gzip.compress(texts[1]),  # the name says nothing
            "b": bz2.compress(texts[2]),
            "c.gz": lzma.compress(texts[3]),
            "d": pa.compress(texts[4], "zstd", asbytes=True),
            "e.tgz": _tar(
                {"mysql/8.0.1/res.txt": texts[5], "in.gz": gzip.compress(texts[6])}, "w:gz"
            ),
            "f.tar": _tar({"../../etc/x": texts[7], "/abs": b"text", "l": _link("/etc/passwd")}),
            "g.zip": zipped.getvalue(),
        },
    )
    found = _ingest(tree, tmp_path / "out")
    assert found["runs"] == 8
    assert found["kinds"] == {
        "sysbench": 8, "compressed or archive": 7, "link or device": 1, "other text": 1,
    }  # fmt: skip
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "tree"]
    runs = _runs(tmp_path / "out")
    assert runs.loc["e.tgz//mysql/8.0.1/res.txt", "version"] == "8.0.1"
    assert "f.tar//../../etc/x" in runs.index
    assert _problems(tmp_path / "out") == []
    said = runs.loc["g.zip//deep/64th.txt", "warnings"]
    assert "the path says 64 threads, the text 4" in said


def test_bombs_and_damage_are_problems_and_nothing_else_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "LEAST_LIMIT", 2**21)
    whole = _text().encode()
    nested = whole
    for _ in range(5):
        nested = gzip.compress(nested)
    tree = _write(
        tmp_path / "tree",
        {
            "a-bomb.gz": gzip.compress(b"x " * 2**24),
            "b-cut.gz": gzip.compress(os.urandom(2**15).hex().encode())[: 2**14],
            "c-nested.gz": nested,
            "d-bomb.tar.gz": gzip.compress(_tar({"one": whole, "big": b"y " * 2**24})),
            "e-damaged.tar": _tar({"one": whole})[:1500],
            "z.txt": whole + b"\n",
        },
    )
    found = build.build(tree, tmp_path / "out", None)
    assert found["runs"] == 2  # that of the tar before the bomb, and the last one
    reasons = {p[0]: p[3] for p in _problems(tmp_path / "out")}
    assert list(reasons) == [
        "a-bomb.gz",
        "b-cut.gz",
        "c-nested.gz",
        "d-bomb.tar.gz",
        "e-damaged.tar",
    ]
    assert "more comes out of it" in reasons["a-bomb.gz"]
    assert "damaged" in reasons["b-cut.gz"]
    assert "packed more than 3 times" in reasons["c-nested.gz"]


# -- what is not a result, and what is hostile -------------------------------------------------------


class Harm:
    """What harms who unpickles it."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_hostile_trees(tmp_path):
    mark = tmp_path / "executed"
    cell = {"cell_type": "code", "source": f"open({str(mark)!r}, 'w')", "outputs": []}
    outside = _write(tmp_path / "outside", {"x.txt": _text()})
    tree = _write(
        tmp_path / "tree",
        {
            "a\x1b[31m\nb.txt": _text(1),
            "n.ipynb": json.dumps({"cells": [cell], "nbformat": 4}),
            "p.pkl": pickle.dumps(Harm(mark)),
            "s.py": f"open({str(mark)!r}, 'w')",
            "campaign.json/x": "no campaign",
            "empty": b"",
            ".git/x": _text(2),
            "bin": b"\x7fELF\0\0" + b"\0" * 100,
            "\u202egnp.txt": b"text",
        },
    )
    os.symlink(outside, tree / "out-of-the-tree")
    os.symlink(outside / "x.txt", tree / "link.txt")
    os.mkfifo(tree / "pipe")
    with open(os.fsencode(tree) + b"/\xff.txt", "w", encoding="utf-8") as file:
        file.write(_text(3))
    found = _ingest(tree, tmp_path / "out")
    assert not mark.exists()
    pickle.loads((tree / "p.pkl").read_bytes())
    assert mark.exists()  # it would have done harm
    assert found["runs"] == 2
    assert found["kinds"] == {
        "other text": 3, "symbolic link": 2, "sysbench": 2, "empty": 1, "no regular file": 1,
        "notebook": 1, "pickle": 1, "program": 1,
    }  # fmt: skip
    names = frame(tmp_path / "out", "files")["file"]
    assert not names.str.contains("[\x00-\x1f\u202e]", regex=True).any()
    assert _ingest(tree, tmp_path / "out")["read"] == 0


def test_no_secret_gets_in(tmp_path):
    bash = f"sysbench --mysql-password={SECRET} --threads=4 --mysql-user=u oltp_read_write run\n"
    timed = (DATA / "time/zsh-time.txt").read_text().replace("cat;", f"mysql --password={SECRET};")
    cut = f"[ 1s ] thds: 4 tps: 1.0 --password={SECRET}\n"
    tree = _write(
        tmp_path / "tree",
        {
            "a.txt": bash + _text(),
            f"run --mysql-password={SECRET}.txt": _text(1),
            "t.txt": timed,
            "cut.txt": "sysbench 1.0.20 (x)\n" + cut,
            "g.tgz": _tar({f"--password={SECRET}/x.txt": _text(2).encode()}, "w:gz"),
            "fatal.txt": f"sysbench 1.0.20 (x)\nFATAL: mysql://u:{SECRET}@h is wrong\n",
        },
    )
    assert _ingest(tree, tmp_path / "out")["runs"] >= 4
    for name in table.TABLES:
        assert SECRET not in frame(tmp_path / "out", name).to_csv()
    for file in (tmp_path / "out").rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes()


def test_a_contradiction_is_a_warning_with_both_and_broken_ones_have_a_line(tmp_path):
    whole = _text(threads=4)
    rows = whole.splitlines(keepends=True)
    tree = _write(
        tmp_path / "tree",
        {
            "run1_RO_64th.txt": whole,
            "cut.txt": "".join(rows[:14]),
            "torn.txt": "".join([*rows[:13], rows[13][:40] + "\n", *rows[14:]]),
        },
    )
    _ingest(tree, tmp_path / "out")
    warnings = _runs(tmp_path / "out").iloc[0]["warnings"]
    assert "the path says 64 threads, the text 4" in warnings
    assert "the path says RO, the text RW" in warnings
    assert [(p[0], p[2], p[3][:20]) for p in _problems(tmp_path / "out")] == [
        ("cut.txt", 14, "no summary: the run "),
        ("torn.txt", 14, "an interval row that"),
    ]


# -- again -------------------------------------------------------------------------------------------


def test_again_reads_only_what_is_new_or_changed(tmp_path):
    tree, out = tmp_path / "tree", tmp_path / "out"
    archive.tree(tree, 60, seconds=5)
    assert _ingest(tree, out)["read"] == 60
    assert _ingest(tree, out)["read"] == 0
    files = sorted(tree.rglob("*.txt"))
    files[3].write_text(_text(99))
    files[5].unlink()
    _write(tree, {"new/a.txt": _text(98)})
    os.utime(files[7], ns=(1, 1))
    assert _ingest(tree, out)["read"] == 3
    assert _ingest(tree, tmp_path / "fresh")["read"] == 60
    same(out, tmp_path / "fresh")


def test_killed_in_the_middle_it_continues(tmp_path):
    tree, out = tmp_path / "tree", tmp_path / "out"
    archive.tree(tree, 400, seconds=60)
    code = (
        "import sys; from pathlib import Path; from noisefloor.ingest import build;"
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
    done = frame(out, "files")["file"].nunique()
    assert 0 < done < 400
    assert _ingest(tree, out)["read"] == 400 - done
    assert manifest(out)["finished"]
    _ingest(tree, tmp_path / "fresh")
    same(out, tmp_path / "fresh")


def test_a_file_that_cannot_be_read_is_tried_again(tmp_path, monkeypatch):
    tree = _write(tmp_path / "tree", {"a.txt": _text(), "b.txt": _text(1)})
    real = os.open

    def refuses(path, *args, **more):
        if str(path).endswith("a.txt"):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", refuses)
    assert build.build(tree, tmp_path / "out", None)["problems"] == 1
    monkeypatch.undo()
    found = build.build(tree, tmp_path / "out", None)
    assert (found["read"], found["runs"], found["problems"]) == (1, 2, 0)


# -- refusals ----------------------------------------------------------------------------------------


def _said(*argv) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(a) for a in argv])
    return result.exit_code, result.output


def test_refusals_are_a_sentence(tmp_path):
    tree, out = _write(tmp_path / "tree", {"a.txt": _text()}), tmp_path / "out"
    other = _write(tmp_path / "other", {"a.txt": _text()})
    assert _said("ingest", tmp_path / "nowhere")[0] == 2
    assert _said("ingest", tree, "--out", out)[0] == 0
    code, text = _said("ingest", other, "--out", out)
    assert (code, "another tree" in text) == (2, True)
    code, text = _said("ingest", tree, "--out", other)
    assert (code, "no table of ours" in text) == (2, True)
    assert sorted(p.name for p in other.iterdir()) == ["a.txt"]
    code, text = _said("compare", "--from", other, "--baseline", "server=x")
    assert (code, "is no table" in text) == (2, True)
    old = json.loads((out / "manifest.json").read_text()) | {"format": 0}
    (out / "manifest.json").write_text(json.dumps(old))
    for argv in (
        ("ingest", tree, "--out", out),
        ("compare", "--from", out, "--baseline", "server=x"),
    ):
        code, text = _said(*argv)
        assert (code, "format 0" in text, "noisefloor ingest" in text) == (2, True, True)
        assert text.count("\n") == 1
    with pytest.raises(NotATable):
        frame(out, "tidy")


# -- the tables --------------------------------------------------------------------------------------


def test_pandas_and_duckdb_open_the_folders(tmp_path):
    _ingest(_percona_2026(tmp_path / "tree"), tmp_path / "out")
    for name in table.TABLES:
        ours = frame(tmp_path / "out", name)
        by_pandas = pd.read_parquet(tmp_path / "out" / name)
        pd.testing.assert_frame_equal(ours, by_pandas, check_like=True)
        rows = duckdb.sql(f"select * from '{tmp_path}/out/{name}/*.parquet'")
        assert rows.columns == list(table.TABLES[name].names)
        assert len(rows) == len(ours)
        assert {str(t) for t in rows.types} <= {"VARCHAR", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN"}  # fmt: skip
    mean = duckdb.sql(
        f"select server, avg(value) v from '{tmp_path}/out/tidy/*.parquet' where metric = 'tps' "
        "and buffer_pool_B = 12884901888 group by 1 order by 1"
    ).fetchall()
    assert [s for s, _ in mean] == ["mysql", "percona-server"]
    assert mean[1][1] / mean[0][1] == pytest.approx(1.5, rel=0.05)


def test_spark_reads_the_types(tmp_path):
    """Spark has no unsigned numbers and no nanoseconds, and takes one part's schema for all."""
    _ingest(_percona_2026(tmp_path / "tree"), tmp_path / "out")
    for name, wanted in table.TABLES.items():
        parts = sorted((tmp_path / "out" / name).glob("*"))
        assert all(p.name.startswith("part-") for p in parts)
        for part in parts:
            columns = pq.ParquetFile(part).schema
            assert columns.names == wanted.names
            assert len({n.lower() for n in columns.names}) == len(columns.names)
            for i, field in enumerate(wanted):
                of = columns.column(i)
                assert (of.physical_type, of.logical_type.type) == {
                    "string": ("BYTE_ARRAY", "STRING"), "int32": ("INT32", "NONE"),
                    "int64": ("INT64", "NONE"), "float": ("FLOAT", "NONE"),
                    "double": ("DOUBLE", "NONE"), "bool": ("BOOLEAN", "NONE"),
                }[str(field.type)], (name, field.name)  # fmt: skip


def test_spark_opens_the_folders(tmp_path):
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not here")
    if not shutil.which("java"):
        pytest.skip("there is no Java")
    _ingest(_percona_2026(tmp_path / "tree"), tmp_path / "out")
    spark = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()  # fmt: skip
    try:
        for name in table.TABLES:
            theirs = spark.read.parquet(str(tmp_path / "out" / name))
            assert theirs.columns == table.TABLES[name].names
            assert theirs.count() == len(frame(tmp_path / "out", name))
        theirs = spark.read.parquet(str(tmp_path / "out" / "tidy")).where("metric = 'tps'")
        ours = frame(tmp_path / "out", "tidy").query("metric == 'tps'")
        mean = {
            r["server"]: r["avg(value)"] for r in theirs.groupBy("server").avg("value").collect()
        }
        assert mean == pytest.approx(ours.groupby("server")["value"].mean().to_dict())
    finally:
        spark.stop()


def test_logs_are_read_without_pandas(tmp_path):
    """It takes as long to import as 500 files take to be read."""
    tree, out = _write(tmp_path / "tree", {"a/1.txt": _text(1, seconds=300)}), tmp_path / "out"
    code = (
        "import sys; from noisefloor.cli import main; main(sys.argv[1:], standalone_mode=False); "
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, "ingest", tree, "--out", out], check=True)
    assert len(frame(out, "intervals")) == 300


# -- judged ------------------------------------------------------------------------------------------


def _judged(out: Path, *argv) -> list[dict]:
    code, text = _said("compare", "--from", out, *argv, "--json")
    assert code == 0, text
    return json.loads(text[text.index("{") : text.rindex("}") + 1])["comparisons"]


def test_runs_that_differ_in_something_else_are_not_pooled(tmp_path):
    out = tmp_path / "out"
    _ingest(_percona_2026(tmp_path / "tree"), out)
    rows = [r for r in _judged(out, "--baseline", "server=mysql", "--by", "threads") if r["metric"] == "tps"]  # fmt: skip
    assert [(r["n_baseline"], r["n_arm"], r["verdict"]) for r in rows] == [(5, 5, "faster")] * 2
    keys = sorted(w for r in rows for w in r["warnings"] if w.startswith("only runs with"))
    assert keys == [f"only runs with buffer pool {t}G: no others were pooled" for t in ("12", "2")]
    assert all("the arms differ in version (8.4.8 and 8.4.8-8), too" in r["warnings"] for r in rows)
    small = _judged(out, "--baseline", "server=mysql", "--where", "buffer_pool=2G")
    assert len([r for r in small if r["metric"] == "tps"]) == 1


def test_the_same_text_twice_counts_once(tmp_path):
    files = {
        f"{arm}/{i}.txt": _text(i + 10 * (arm == "on")) for arm in ("off", "on") for i in range(4)
    }
    files["on/copy.txt"] = files["on/1.txt"]
    _ingest(_write(tmp_path / "tree", files), tmp_path / "out")
    code, text = _said("compare", "--from", tmp_path / "out", "--baseline", "folder=off")
    assert code == 0
    assert "4 / 4" in text
    assert "1 files hold the same text as another one" in text


def test_as_compare_of_the_files_says(tmp_path):
    tree = tmp_path / "tree"
    _write(tree, {f"{a}/{i}.txt": _text(i + 10 * (a == "on"), tps=500 + 50 * (a == "on"), seconds=20) for a in ("off", "on") for i in range(5)})  # fmt: skip
    _ingest(tree, tmp_path / "out")
    code, text = _said("compare", tree / "off", "--", tree / "on", "--json")
    assert code == 0
    of_files = json.loads(text)["comparisons"]
    for ours, theirs in zip(
        _judged(tmp_path / "out", "--baseline", "folder=off"), of_files, strict=True
    ):
        assert (ours["metric"], ours["verdict"]) == (theirs["metric"], theirs["verdict"])
        assert ours["overhead_pct"] == pytest.approx(theirs["overhead_pct"])
