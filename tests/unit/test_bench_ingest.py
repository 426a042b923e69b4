"""The rivals of `noisefloor ingest` write what it writes, and what they check is checked."""

import re

import numpy as np
import pandas as pd
import pytest

import archive
import bench_ingest
import rival_hand
from bench_ingest import RIVALS


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """An archive of ten short runs."""
    folder = tmp_path_factory.mktemp("rivals") / "tree"
    archive.tree(folder, 10, seconds=20)
    return folder


@pytest.fixture(scope="module")
def expected(tree):
    """What everybody has to write for it."""
    out = tree.parent / "ours"
    bench_ingest.fresh(tree, out)
    return bench_ingest.tables(out)


@pytest.fixture
def written(tree, tmp_path):
    """The tables of the parser by hand."""
    rival_hand.write(tree, tmp_path / "hand")
    return tmp_path / "hand"


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_writes_the_same_tables(name, tree, expected, tmp_path):
    assert {table: len(rows) for table, rows in expected.items()} == {
        "intervals": 200, "histograms": len(expected["histograms"]), "summary": 80, "labels": 10,
    }  # fmt: skip
    assert bench_ingest.by_rival(RIVALS[name], tree, tmp_path / "out") > 0
    assert bench_ingest.difference(expected, tmp_path / "out") == ""


def test_a_rival_that_is_wrong_is_said_so(expected, written):
    file = next((written / "intervals").iterdir())
    rows = pd.read_parquet(file)
    rows.assign(latency_s=rows["latency_s"] * 1.001).to_parquet(file)
    assert "latency_s" in bench_ingest.difference(expected, written)
    rows.iloc[1:].to_parquet(file)
    assert "intervals" in bench_ingest.difference(expected, written)


TEXT = archive.text(np.random.default_rng(1), seconds=20)
WRONG = {  # what is said: a text
    "cut off": TEXT[: TEXT.index("Threads fairness")],
    "a row is not whole": TEXT.replace("err/s: 0.00 reconn/s: 0.00\n[ 9s ]", "err\n[ 9s ]"),
    "does not hold the summary's events": re.sub("(number of events: +)", r"\g<1>1", TEXT),
    "do not add up": TEXT.replace("tps: 5", "tps: 9").replace("tps: 4", "tps: 9"),
}


def test_the_parser_by_hand_takes_a_whole_text():
    rival_hand.check(TEXT, rival_hand.parsed(TEXT))


@pytest.mark.parametrize("words", WRONG)
def test_the_checks_by_hand_refuse_what_is_not_right(words, tmp_path):
    text = WRONG[words]
    assert text != TEXT
    with pytest.raises(ValueError, match=words):
        rival_hand.check(text, rival_hand.parsed(text))
    file = tmp_path / "tree" / archive.path(0)
    file.parent.mkdir(parents=True)
    file.write_text(text)
    rival_hand.write(tmp_path / "tree", tmp_path / "unchecked")
    with pytest.raises(ValueError, match=f"run1_Tier2G_RW_1th.sysbench.txt: .*{words}"):
        rival_hand.write(tmp_path / "tree", tmp_path / "checked", checked=True)


def test_the_table_says_who_is_faster_and_why_it_was_not_taken():
    for name, rival in RIVALS.items():
        ahead, behind = (
            bench_ingest.against(3000, name, rival, [{"ingest": ours, name: 2.0}] * 3)
            for ours in (1.0, 3.0)
        )
        assert (ahead.median, behind.median) == (0.5, 1.5)
        assert (ahead.met, behind.met) == ((True, False) if rival.checks else (None, None))
        assert ahead.says == "2.00 s"
        assert behind.says == f"2.00 s; faster than ours, but {rival.but}"
    assert any(rival.checks for rival in RIVALS.values())
