"""Latency against load: what a page draws, and the field that takes the reader's own load."""

import json
import math
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from noisefloor import studies
from noisefloor.data import results, tidy
from noisefloor.show import plots
from noisefloor.show.markup import piece
from noisefloor.show.report import answers

RATES = (100, 200, 400)


@pytest.fixture
def found():
    """What a campaign at three rates found; the last one is saturated."""
    rows = [
        (rate, arm, 40, share, 0.004 * worse, 0.02 * worse, 0.003 * worse)
        for rate, share in zip(RATES, (0.0, 5.0, 60.0), strict=True)
        for arm, worse in (("plain", 1.0), ("encrypted", 1.1))
    ]
    columns = ["rate", "arm", "windows", "saturated_pct", "p50_s", "p99_s", "cpu_s"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.loc[frame["rate"] == RATES[-1], ["p50_s", "p99_s", "cpu_s"]] = math.nan
    return frame


def verdicts(metric, change, lo, hi):
    row = {"metric": metric, "baseline": "plain", "arm": "encrypted", "threads": 64}
    row |= {"change_pct": change, "lo_pct": lo, "hi_pct": hi, "margin_pct": 10.0, "ranged": False}
    row |= {"verdict": "cannot tell", "joint": False, "control": False, "workload": "load"}
    return pd.DataFrame([row | {"rate": rate} for rate in RATES[:2]])


def test_the_figure_shows_the_knee_the_capacity_and_each_change(found):
    drawn = plots.load_figure(found, verdicts("p99", 10.0, -5.0, 25.0), capacity=520.0)
    text = plots.svg(drawn)
    for words in ("saturated", "capacity of one alone: 520", "encrypted", "+10.0", "cannot tell"):
        assert words in text
    assert text.count("cannot tell") == 2
    assert "saturated" in plots.svg(drawn.narrow())


@pytest.fixture
def page(browser, tmp_path, found):
    """The field of such a campaign, in a page opened from disk."""
    cpu, p99 = verdicts("cpu_per_transaction", 2.0, 1.0, 3.0), verdicts("p99", 10.0, -5.0, 25.0)
    file = tmp_path / "reader.html"
    file.write_text(f"<!doctype html><body>{answers.reader(found, cpu, p99).markup}")
    page = browser.new_page()
    page.goto(file.as_uri())
    return page


def cells(page) -> list[list[str]]:
    return page.eval_on_selector_all(
        "tbody tr", "rows => rows.map(r => [...r.children].map(c => c.textContent))"
    )


TYPED = {
    "200": (["0.600", "438", "20.0"], ["0.612 (0.606 to 0.618)", "22.0 (19.0 to 25.0)"]),
    "150": (["0.450", "329", "20.0"], ["0.459 (0.455 to 0.464)", "22.0 (19.0 to 25.0)"]),
    # processor time a transaction is that of the nearest load, latency is not known there
    "1000": (["3.00", "2,190", "not measured"], ["3.06 (3.03 to 3.09)", "not measured"]),
}


def test_a_load_that_is_typed_gives_cores_hours_and_milliseconds(page):
    for typed, (plain, encrypted) in TYPED.items():
        page.fill("input", typed)
        first, second = cells(page)
        assert first == ["plain", *plain]
        assert [second[0], second[1], second[3]] == ["encrypted", *encrypted]


def test_what_is_no_load_is_said(page):
    for typed in ("", "0", "-5"):
        page.fill("input", "200")
        page.focus("input")  # by keyboard alone
        page.keyboard.press("Control+a")
        page.keyboard.press("Delete")
        page.keyboard.type(typed)
        assert cells(page) == [["a number above 0 is needed", "", "", ""]]


def test_there_is_no_field_where_everything_is_saturated(found):
    full = found.assign(p99_s=math.nan)
    assert answers.reader(full, verdicts("p99", 1, 0, 2), verdicts("p99", 1, 0, 2)) is None


def test_names_in_the_field_are_text():
    load = {"name": "<script>alert(1)</script>\"'", "points": [], "arms": []}
    markup = str(piece("reader", json.dumps(load), 100))
    assert "alert(1)</script>" not in markup


def test_the_load_is_the_median_of_whole_pairs_and_nothing_where_too_many_saturated():
    asked = studies.load("binlog-encryption", question="rate", profile="standard")
    (plain, encrypted), rows = asked.compared, []
    full = {
        w.name: {encrypted.name: [n, 10]}
        for w, n in zip(asked.workloads, (1, 2, 0, 0), strict=True)
    }
    for work, pair in product(asked.workloads, range(3)):
        for arm, worse in ((plain, 1.0), (encrypted, 1.1)):
            for metric, value in (("p50", 0.01), ("p99", 0.05), ("cpu_per_transaction", 0.002)):
                if metric == "p99" and pair == 2 and arm is plain:
                    continue  # half a pair
                rows.append(
                    {"workload": work.name, "arm": arm.name, "metric": metric, "pair_id": f"{pair}",
                     "value": value * worse * (1 + pair), "warmup": False}
                )  # fmt: skip
    opened = tidy.Opened(Path("built"))
    opened.tidy_runs = tidy.TidyRuns(pd.DataFrame(rows), [], full)
    r = results.Results(opened.folder)
    vars(r).update(study=asked, opened=opened)
    load = results.load_curve(r).set_index(["rate", "arm"])
    assert load.index.get_level_values("rate").unique().tolist() == [50, 100, 150, 200]
    assert load.loc[(100, "encrypted"), "saturated_pct"] == 10  # which is not over a tenth
    found = load.loc[(100, "encrypted"), ["p50_s", "p99_s", "cpu_s"]].tolist()
    assert found == pytest.approx([0.022, 0.0825, 0.0044])  # p99: of the two whole pairs
    assert load.loc[(100, "plain"), "p99_s"] == pytest.approx(0.075)
    assert load.loc[[50], ["p50_s", "p99_s", "cpu_s"]].isna().all(axis=None)
    assert load.loc[[150, 200], ["p50_s", "p99_s", "cpu_s"]].notna().all(axis=None)
