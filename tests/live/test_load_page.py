"""Latency against load: what a page draws, and the field that takes the reader's own load."""

import html
import json
import math
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from noisefloor import paths, schedule, studies
from noisefloor.data import results, tidy
from noisefloor.model import METRICS, Request
from noisefloor.show import plots
from noisefloor.show.markup import piece
from noisefloor.show.report import answers

RATES = (100, 200, 400)
ONE = "settings-doublewrite-standard-20261129-233625"
TLS = "ssl-connections-rate-standard-20261129-164506"


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
    row |= {"processor": "AMD EPYC 25/1/1"}
    return pd.DataFrame([row | {"rate": rate} for rate in RATES[:2]])


def test_the_figure_shows_the_knee_the_capacity_and_each_change(found):
    drawn = plots.load_figure(found, verdicts("p99", 10.0, -5.0, 25.0), capacity=520.0)
    text = plots.svg(drawn)
    for words in ("saturated", "capacity of one alone: 520", "encrypted", "+10.0", "cannot tell"):
        assert words in text
    assert text.count("cannot tell") == 2
    top, low = drawn.axes
    lines = [[*line.get_xdata()] for line in top.lines]
    assert lines.count([*RATES]) == 4  # p50 and p99 of both arms
    assert [520.0, 520.0] in lines
    bars = [[*line.get_ydata()] for line in low.lines if line.get_linewidth() == 7]
    assert bars == [[-5.0, 25.0]] * 2
    assert "offered transactions a second" in text
    assert "saturated" in plots.svg(drawn.narrow())


def test_a_rate_without_a_percentile_is_not_called_saturated(found):
    few = found[found["rate"] < RATES[-1]].copy()
    few.loc[few["rate"] == RATES[0], "p99_s"] = math.nan  # too few were served for it
    drawn = plots.load_figure(few, verdicts("p99", 10.0, -5.0, 25.0), noun="connections")
    assert "saturated" not in plots.svg(drawn)
    assert "offered connections a second" in plots.svg(drawn)


def test_an_arm_is_drawn_where_its_change_says(found):
    """The newest campaign's own median of an arm may lie on the other side of its baseline's; the rate that
    leads was measured first, and need not be the lowest."""
    found = found.iloc[[2, 3, 0, 1, 4, 5]].reset_index(drop=True).sort_values("rate", kind="stable")
    rows = verdicts("p99", 10.0, -5.0, 25.0).assign(change_pct=[10.0, -20.0])
    drawn = answers._changed(found, rows).set_index(["rate", "arm"])
    measured = found.set_index(["rate", "arm"])
    for rate, factor in zip(RATES[:2], (1.1, 0.8), strict=True):
        plain = measured.loc[(rate, "plain"), "p99_s"]
        assert drawn.loc[(rate, "plain"), "p99_s"] == plain
        assert drawn.loc[(rate, "encrypted"), "p99_s"] == pytest.approx(factor * plain)
    assert drawn.loc[(RATES[-1], "encrypted"), ["p99_s"]].isna().all()


@pytest.fixture
def show(browser, tmp_path):
    """show(what `reader` takes) -> the field in a page opened from disk."""

    def shown(*given):
        file = tmp_path / "reader.html"
        file.write_text(f"<!doctype html><body>{answers.reader(*given).markup}")
        page = browser.new_page()
        page.goto(file.as_uri())
        return page

    return shown


@pytest.fixture
def page(show, found):
    """The field of such a campaign."""
    cpu, p99 = verdicts("cpu_per_transaction", 2.0, 1.0, 3.0), verdicts("p99", 10.0, -5.0, 25.0)
    return show(found, cpu, p99, "transactions")


def cells(page) -> list[list[str]]:
    return page.eval_on_selector_all(
        "tbody tr", "rows => rows.map(r => [...r.children].map(c => c.textContent))"
    )


TYPED = [
    (
        "200",
        ["0.600", "438", "20.0"],
        [
            "0.612; +0.012 (+0.0060 to +0.018)",
            "447; +8.8 (+4.4 to +13)",
            "22.0 (19.0 to 25.0)",
        ],
    ),
    (
        "150",
        ["0.450", "329", "20.0"],
        [
            "0.459; +0.0090 (+0.0045 to +0.014)",
            "335; +6.6 (+3.3 to +9.9)",
            "22.0 (19.0 to 25.0)",
        ],
    ),
    # processor time a transaction is that of the nearest load, latency is not known there
    (
        "1000",
        ["3.00", "2,190", "not measured"],
        [
            "3.06; +0.060 (+0.030 to +0.090)",
            "2,230; +44 (+22 to +66)",
            "not measured",
        ],
    ),
]


def test_a_load_that_is_typed_gives_cores_hours_and_milliseconds(page):
    """And what an arm adds to the baseline."""
    for typed, plain, encrypted in TYPED:
        page.fill("input", typed)
        assert cells(page) == [["plain", *plain], ["encrypted", *encrypted]]
    assert "transactions a second" in page.text_content("label")
    assert "its own numbers, measured on Zen 3: straight" in page.text_content(".nf-caption")


def test_connections_without_a_percentile_or_an_interval_have_what_is_known(show, found):
    """An arm that may save has its lower end below zero."""
    few = found.assign(p99_s=found["p99_s"].where(found["rate"] > RATES[0]))
    cpu, p99 = verdicts("cpu_per_connection", 0.6, -1.0, 2.0), verdicts("p99", 10.0, -5.0, 25.0)
    p99 = p99[p99["rate"] > RATES[0]]
    page = show(few, cpu, p99, "connections")
    assert "connections a second" in page.text_content("label")
    page.fill("input", "100")
    assert cells(page) == [
        ["plain", "0.300", "219", "not measured"],
        [
            "encrypted",
            "0.302; +0.0018 (\u22120.0030 to +0.0060)",
            "220; +1.3 (\u22122.2 to +4.4)",
            "not measured",
        ],
    ]
    page.fill("input", "200")
    assert [row[3] for row in cells(page)] == ["20.0", "22.0 (19.0 to 25.0)"]
    page = show(few, cpu.assign(lo_pct=math.nan, hi_pct=math.nan), p99[:0], "connections")
    page.fill("input", "200")
    assert cells(page)[1] == ["encrypted", "0.604; +0.0036", "441; +2.6", "not measured"]


def test_what_is_no_load_is_said(page):
    for typed in ("", "0", "-5"):
        page.fill("input", "200")
        page.focus("input")  # by keyboard alone
        page.keyboard.press("Control+a")
        page.keyboard.press("Delete")
        page.keyboard.type(typed)
        assert cells(page) == [["a number above 0 is needed", "", "", ""]]


def test_there_is_no_field_where_everything_is_saturated(found):
    full = found.assign(p99_s=math.nan, cpu_s=math.nan)
    cpu, p99 = verdicts("cpu_per_transaction", 1, 0, 2), verdicts("p99", 1, 0, 2)
    assert answers.reader(full, cpu, p99, "transactions") is None
    assert answers.reader(found, cpu[:0], p99, "transactions") is None


def test_names_in_the_field_are_text():
    load = {"name": "<script>alert(1)</script>\"'", "points": [], "arms": []}
    markup = str(piece("reader", json.dumps(load), 100, "transactions"))
    assert "alert(1)</script>" not in markup


def test_the_load_is_the_median_of_whole_pairs_and_nothing_where_too_many_saturated():
    asked = studies.load(Request("binlog-encryption", "rate", profile="standard"))
    (plain, encrypted), rows = asked.compared, []
    full = {
        w.name: {encrypted.name: [n, 10], "another": [10, 10]}  # beside the baseline, too
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


def test_connections_at_a_rate_have_their_load_their_figure_and_their_field():
    r = results.load(paths.campaign(TLS))
    base, load = r.study.baseline.name, results.load_curve(r)
    assert load["rate"].unique().tolist() == [50, 100, 200]
    assert load["cpu_s"].notna().all()
    for work in r.study.workloads:
        runs = r.judged(work.name, "cpu_per_connection")
        first = runs.loc[runs["arm"] == r.study.arms[0].name, "pair_id"]
        beside = runs[runs["arm"].eq(base) & runs["pair_id"].isin(first)]
        plain = load[load["rate"].eq(work.rate) & load["arm"].eq(base)]
        assert plain["cpu_s"].item() == beside["value"].median()
    assert load[load["p99_s"].isna()]["rate"].unique().tolist() == [50]  # too few were served
    shown = answers.lead_figure(r).markup
    words = "Latency of connections on Zen 1, counted from their intended start"
    assert f"{words}, against the load that each arm is offered, one after the other," in shown
    assert "connections a second</label>" in shown
    assert "transactions" not in re.sub("<[^>]+>", "", shown)
    assert "Both servers share the cores" not in shown
    assert "All clients busy, % of samples" in shown
    busy = (
        results.each_load(r).set_index(["metric", "offered"]).loc["All clients busy, % of samples"]
    )
    dear = busy.loc[200, "TLS 1.3, RSA 2048"]
    assert dear == pytest.approx(19.63, abs=0.01)  # the mean of nine windows; their median is 16.7
    assert busy.gt(0).to_numpy().sum() == 1
    data = json.loads(
        html.unescape(re.search('data-load="([^"]*)"', shown)[1]), parse_constant=pytest.fail
    )
    assert [rate for rate, _, p99 in data["points"] if p99 is None] == [50]
    assert [arm["name"] for arm in data["arms"]] == [a.name for a in r.study.arms]
    cpu = r.of("connections, 200 a second", "cpu_per_connection", control=False).iloc[0]
    first = data["arms"][0]["points"][-1]
    assert first[:2] == [200, pytest.approx(1 + cpu["change_pct"] / 100)]


def test_transactions_at_a_rate_have_their_figure_and_their_field():
    r = results.load(paths.campaign("binlog-encryption-rate-standard-20261129-110654"))
    shown = answers.lead_figure(r).markup
    assert "Latency of transactions on Zen 1, counted from their intended start" in shown
    assert "Medians of the windows in the newest campaign, on Zen 1;" in shown
    assert "arm is offered, both at the same time," in shown
    assert "Both servers share the cores" in shown
    assert "transactions a second</label>" in shown
    each = results.each_load(r)
    assert [*each][:2] == ["metric", "offered"]
    by = each.set_index(["metric", "offered"])
    assert [*by] == [a.name for a in r.study.compared]
    reached = by.loc["Finished a second, 1/s"]
    assert reached.index.tolist() == [50, 100, 150, 200]
    kept = reached.div(reached.index, axis=0)[reached.index < 200]
    assert (kept.gt(0.97) & kept.lt(1.03)).all(axis=None)
    assert by.loc["Median latency, ms"].gt(0).all(axis=None)
    judged = {f"{m.label}, ms" for name, m in METRICS.items() if m.judged and "latency" in m.label}
    assert not judged & {
        *each["metric"]
    }  # their tables have the baseline, and the value after the change
    assert "Each load in units" in shown


@pytest.fixture
def one_rate():
    """A campaign at one rate, both servers at once."""
    return results.load(paths.campaign(ONE))


def test_a_page_with_one_rate_says_how_much_both_servers_at_once_hide(one_rate):
    shown = answers.lead_figure(one_rate).markup
    assert shown.count("Both servers share the cores") == 1
    assert "99th percentile latency at 60 TPS." in shown  # the verdicts stay
    for words in ("a block offers", "each server is offered"):
        assert words not in shown


def test_a_page_without_a_p99_says_why(one_rate):
    (work,) = one_rate.study.workloads
    low = replace(work, rate=5, slices=dict.fromkeys(work.slices, 120))
    rows = one_rate.verdicts
    vars(one_rate).update(
        study=replace(one_rate.study, workloads=(low,)), verdicts=rows[rows["metric"] != "p99"]
    )
    one_rate.meta["plan"]["pairs"] = 1
    shown = answers.lead_figure(one_rate).markup
    assert "No p99: a block offers 600 transactions, 1,000 are needed." in shown


def test_a_page_at_a_share_of_the_capacity_names_it(one_rate):
    one_rate.meta["parameters"] |= {"rate": "25%", "capacity": 1940}
    shown = answers.lead_figure(one_rate).markup
    assert "Alone the baseline reaches 1,940 transactions a second; each server" in shown
    assert "each server is offered 25\u202f% of that, both together 50\u202f%." in shown


@pytest.mark.parametrize(
    ("name", "turns"), [("binlog-encryption-rate-standard-20261129-110654", 1), (TLS, 2)]
)
def test_a_pair_takes_the_time_of_one_window_at_once_and_of_two_in_turn(name, turns, monkeypatch):
    took, judge = [], schedule.judge_campaign

    def noted(*given, pair_seconds, **more):
        took.append(pair_seconds)
        return judge(*given, pair_seconds=pair_seconds, **more)

    monkeypatch.setattr(schedule, "judge_campaign", noted)
    r = results.load(paths.campaign(name))
    r.alone()
    windows = r.runs.loc[~r.runs["warmup"], "slice_s"]
    assert took == [turns * (windows.median() + schedule.LOST_S)]


def test_a_page_of_connections_that_measured_no_rate_begins_with_its_thread_counts():
    r = results.load(paths.campaign("ssl-connections-headline-standard-20261126-185025"))
    assert results.load_curve(r).empty
    shown = answers.lead_figure(r).markup
    for words in ("Connections per second", "Server CPU per connection", "threads (log scale)"):
        assert words in shown
