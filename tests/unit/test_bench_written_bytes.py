"""Bytes of small writes: what the script measures, and what was kept of it."""

import csv

import pytest

import bench_written_bytes
from bench_written_bytes import RAW


def run(monkeypatch, *argv):
    monkeypatch.setattr(bench_written_bytes.sys, "argv", ["bench_written_bytes.py", *argv])
    bench_written_bytes.main()


def test_both_files_get_the_same_writes(monkeypatch, tmp_path, capsys):
    looks = iter([(0, 500), (10_485_760, 41_460), (0, 0), (40_960, 41_000)])
    monkeypatch.setattr(bench_written_bytes, "counted", lambda folder: next(looks))
    monkeypatch.setattr(bench_written_bytes.tools, "_disk_bytes", lambda folder: 1)
    monkeypatch.setattr(bench_written_bytes, "RAW", tmp_path / "kept.csv")
    monkeypatch.setattr(bench_written_bytes, "FILE_B", 1 << 20)
    monkeypatch.setattr(bench_written_bytes, "WRITES", 10)
    written = []
    monkeypatch.setattr(bench_written_bytes.os, "pwrite", lambda f, *what: written.append(what))
    run(monkeypatch, str(tmp_path))
    assert written[:10] == written[10:] == [(b"x" * 512, 512 * i) for i in range(10)]
    text = (tmp_path / "kept.csv").read_text()
    assert capsys.readouterr().out == text
    large, small = csv.DictReader(text.splitlines())
    assert [large[c] for c in ("piece_B", "process_B", "disk_B")] == ["1048576", "1048576", "4096"]
    assert [small[c] for c in ("piece_B", "process_B", "disk_B")] == ["4096", "4096", "4100"]


def test_a_folder_on_no_disk_is_refused(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench_written_bytes, "RAW", tmp_path / "kept.csv")
    with pytest.raises(SystemExit) as refused:
        run(monkeypatch, "/proc")
    assert refused.value.code == 2
    assert "/proc is no folder on a single disk; nothing was written" in capsys.readouterr().err
    assert not (tmp_path / "kept.csv").exists()


@pytest.mark.skipif(not RAW.exists(), reason="tests/bench/bench_written_bytes.py measures it")
def test_what_was_kept_says_what_pages_say_of_bytes_by_process():
    """Up to 1 MiB for a small write, of which the disk gets a few kB; the control is counted alike."""
    large, small = (
        {name: int(row[name]) for name in ("piece_B", "process_B", "disk_B")}
        for row in csv.DictReader(RAW.open())
    )
    assert (large["piece_B"], small["piece_B"]) == bench_written_bytes.PIECES
    assert 100 * large["disk_B"] < large["process_B"] <= 1 << 20
    assert small["process_B"] == pytest.approx(small["disk_B"], rel=0.1)
