"""The comparison with hyperfine: what a rule calls different, and docs/time.md as it was made."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import bench_time
from bench_time import OURS, RAW, RULES, TEXT

RATIO, RANGES, WELCH = RULES


def exported(mean, sd=0.02, n=100):
    """What hyperfine exports of one command whose times have exactly this mean and scatter."""
    noise = np.random.default_rng(round(1000 * mean)).normal(size=n)
    times = mean + sd * (noise - noise.mean()) / noise.std(ddof=1)
    return {"command": "x", "mean": mean, "stddev": sd, "times": times.tolist()}


def campaign(change_pct):
    """Eight blocks of five pairs, in each of which B takes about so many percent longer."""
    noise = np.random.default_rng(1).normal(0, 0.004, 40)
    runs = []
    for pair, each in enumerate(noise - noise.mean()):
        b = (1 + change_pct / 100) * float(np.exp(each))
        runs += [[pair // 5, pair, "A", 1.0], [pair // 5, pair, "B", b]]
    return {"blocks": 8, "runs": runs}


def comparison(hyperfine_pct, ours_pct, extra_pct=0):
    """One comparison, as it is kept."""
    both = [exported(1.0), exported(1 + hyperfine_pct / 100)]
    facts = {"what": "x", "extra_pct": extra_pct, "commands": ["x", "x"], "first": "hyperfine"}
    return facts | {"hyperfine": both, "noisefloor": campaign(ours_pct)}


def raw(*comparisons):
    """What is kept of several."""
    facts = {"when": "2026-11-29 12:00 UTC", "machine": "A machine.", "hyperfine": "1.15.0"}
    return facts | {"seconds": 15.0, "comparisons": list(comparisons)}


@pytest.mark.parametrize(
    ("change_pct", "rules"),
    [
        (0.1, set()),
        (1.0, {WELCH}),  # a standard error is a tenth of the scatter
        (3.5, {RATIO, WELCH}),
        (5.0, {RATIO, RANGES, WELCH}),
        (-5.0, {RATIO, RANGES, WELCH}),
    ],
)
def test_a_rule_of_hyperfine_is_what_its_name_says(change_pct, rules):
    called = dict(bench_time.calls(comparison(change_pct, 0)))
    assert set(called) == rules
    assert list(called.values()) == pytest.approx([change_pct] * len(rules))


@pytest.mark.parametrize(("change_pct", "different"), [(0, False), (5, True), (-5, True)])
def test_ours_is_the_word_of_the_campaign(change_pct, different):
    called = dict(bench_time.calls(comparison(0, change_pct)))
    assert set(called) == ({OURS} if different else set())
    assert not different or called[OURS] == pytest.approx(change_pct, abs=0.1)


def test_the_table_counts_what_is_false_and_what_is_found():
    """A difference in the wrong direction is not the one that there is."""
    same = comparison(1, 0), comparison(-5, 0), comparison(0, 0)
    more = comparison(5, 5, 5), comparison(-5, 5, 5)
    text = bench_time.section(raw(*same, *more))
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert rows[1:] == [
        [RATIO, "1 of 3", "5.0 %", "1 of 2"],
        [RANGES, "1 of 3", "5.0 %", "1 of 2"],
        [WELCH, "2 of 3", "5.0 %", "1 of 2"],
        [OURS, "0 of 3", "–", "2 of 2"],
    ]


def test_the_section_is_put_at_the_end_and_then_replaced():
    first, second = raw(comparison(0, 0)), raw(comparison(5, 0))
    text = bench_time.written("# Title\n", first)
    assert text.startswith("# Title\n\n<!-- hyperfine -->\n## Beside hyperfine\n")
    assert bench_time.written(text, first) == text
    moved = f"{text}\n## More\n"
    assert bench_time.written(moved, second) == f"{bench_time.written(text, second)}\n## More\n"


def test_docs_have_what_was_measured():
    text = TEXT.read_text()
    assert RAW.exists() == (bench_time.BEGIN in text)
    if RAW.exists():
        kept = json.loads(RAW.read_text())
        assert bench_time.written(text, kept) == text, "python tests/bench/bench_time.py --table"
        assert bench_time.lines(kept) == RAW.read_text()


@pytest.fixture
def tools(monkeypatch, tmp_path):
    """Both tools answer at once."""
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(tmp_path))
    same, version = comparison(0, 0), SimpleNamespace(stdout="hyperfine 1.15.0\n")
    fakes = {
        "by_hyperfine": lambda commands, runs: same["hyperfine"],
        "by_noisefloor": lambda commands: same["noisefloor"],
        "_fitting": lambda command: 10,
        "machine": lambda: "A machine.",
        "FILE_MB": 1,
        "subprocess": SimpleNamespace(run=lambda *_, **__: version),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(bench_time, name, fake)


def test_every_kind_is_compared_in_every_round(tools):
    measured = bench_time.measure(rounds=2)
    assert measured["hyperfine"] == "1.15.0"
    for comparisons in (measured["comparisons"][:3], measured["comparisons"][3:]):
        assert {c["what"] for c in comparisons} == set(bench_time.KINDS)
        assert {c["extra_pct"] for c in comparisons} == {0, 5}
    text = bench_time.lines(measured)
    assert json.loads(text) == json.loads(json.dumps(measured))
    assert len(text.splitlines()) < 20
    assert bench_time.section(json.loads(text))


def test_no_comparison_begins_that_might_end_too_late(tools, monkeypatch):
    monkeypatch.setattr(bench_time, "MOST_S", -1)
    assert bench_time.measure()["comparisons"] == []


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], r"^hyperfine is needed .*; nothing was measured$"),
        (["--table"], r"^time.json is not there yet: .*; nothing was written$"),
    ],
)
def test_what_is_missing_is_one_sentence(monkeypatch, tmp_path, more, words):
    monkeypatch.setattr(bench_time.sys, "argv", ["bench_time.py", *more])
    monkeypatch.setattr(bench_time.shutil, "which", lambda name: None)
    monkeypatch.setattr(bench_time, "RAW", tmp_path / "time.json")
    with pytest.raises(SystemExit, match=words):
        bench_time.main()
