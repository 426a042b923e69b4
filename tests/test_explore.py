"""The explorer on the recorded campaigns: what the controls ask, and what follows."""

import time

import pandas as pd
import pytest

from noisefloor import explore, paths, plots, report, results

BINLOG = "binlog-encryption-standard-20261121-005924"
AA = "calibration-aa-standard-20261121-002417"
AA_THEN = "calibration-aa-standard-20261121-031930"


@pytest.fixture(scope="module")
def binlog():
    return explore.opened(BINLOG)


def asked(source, **more) -> explore.Question:
    given = {"workload": "in memory", "metric": "tps"} | more
    return explore.Question((source,), **given)


@pytest.fixture
def explorer():
    return explore.Explorer(BINLOG)


# -- a question ------------------------------------------------------------------------------------


def test_its_verdicts_are_those_of_the_campaign(binlog):
    ours = asked(binlog).verdicts.drop(columns="campaign")
    theirs = results.load(binlog.folder).of("in memory", "tps").reset_index(drop=True)
    pd.testing.assert_frame_equal(ours, theirs)


def test_hiding_thread_counts_makes_no_verdict(binlog):
    whole, part = asked(binlog).verdicts, asked(binlog, threads=(4,)).verdicts
    assert set(part["threads"]) == {4}
    kept = whole[whole["threads"].eq(4).fillna(False)].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, kept)
    assert "still judged with the rest" in " ".join(asked(binlog, threads=(4,)).remarks)


def test_another_margin_is_said_to_be_one():
    """Two servers that are the same: within 50 % of each other, whatever the noise."""
    source = explore.opened(AA)
    wide = asked(source, workload="read/write", margin_pct=50.0)
    assert set(wide.verdicts["verdict"]) == {"same"}
    assert "declared" in " ".join(wide.remarks)
    assert asked(source, workload="read/write").remarks == []


def test_all_runs_of_a_pair_are_found_with_their_text(binlog):
    q = asked(binlog)
    words, row = q.comparisons[0]
    assert words == "encrypted, 1 thread"
    near = q.close(row)
    runs = near.runs
    assert runs.groupby("point")["arm"].agg(set).map(lambda s: s == {"plain", "encrypted"}).all()
    assert len(near.pairs) == runs["pair_id"].nunique() == q.verdicts.loc[row, "n_arm"]
    first = runs.iloc[0]
    said = near.raw(first["run"])
    printed = (binlog.folder / first["run"] / "sysbench.txt").read_text()
    assert printed.splitlines()[0] in said
    assert said.count("<pre") == 2


@pytest.mark.parametrize("figure", ["figure", "close"])
def test_points_stand_where_their_rows_are_drawn(binlog, figure):
    """A higher overhead is a higher point, in the same panel."""
    q = asked(binlog)
    row = q.comparisons[0][1]
    drawn = q.figure if figure == "figure" else q.close(row).figure
    plots.svg(drawn)
    spots = {r: (left, top) for r, left, top in plots.spots(drawn)}
    if figure == "figure":
        table = q.verdicts["overhead_pct"]
        assert set(spots) == set(q.verdicts.index)
    else:
        table = q.close(row).pairs["overhead"]
        assert list(spots) == list(table.index)
        assert sorted(spots.values()) == list(spots.values())  # from left to right
    order = sorted(spots, key=lambda r: -spots[r][1])
    assert all(0 <= x <= 100 and 0 <= y <= 100 for x, y in spots.values())
    assert table[order].is_monotonic_increasing or figure == "close"
    if figure == "close":  # far ones are drawn at the edge
        assert pd.Series([spots[r][1] for r in table.sort_values().index]).is_monotonic_decreasing


def test_points_of_single_runs_stand_at_their_values(binlog):
    rows = binlog.judged("in memory", "tps")
    figure = plots.runs(rows, "tps")
    plots.svg(figure)
    (ax,) = figure.axes
    assert {row: y for _, y, row in ax.points} == pytest.approx(rows["value"].to_dict())


def test_two_campaigns_stand_beside_each_other():
    q = explore.Question((explore.opened(AA), explore.opened(AA_THEN)), "read/write", "tps")
    assert q.verdicts["campaign"].nunique() == 2
    assert q.headline.count("Transactions per second") == 2
    (row,) = q.apart.to_dict("records")
    first, second = q.verdicts["overhead_pct"]
    assert (row["first_pct"], row["second_pct"]) == (first, second)
    assert 100 * (1 + first / 100) * (1 + row["difference_pct"] / 100) == pytest.approx(
        100 + second
    )
    assert row["lo_pct"] < row["difference_pct"] < row["hi_pct"]


# -- archives --------------------------------------------------------------------------------------


def archive(folder, source, **change):
    """Every run of a campaign's first comparison as a table of its own, with the raw files."""
    rows = source.judged("in memory").assign(path=lambda t: t["run"] + ".txt", **change)
    for run in rows["run"].unique():
        (folder / f"{run}.txt").write_text(f"what {run} printed")
    rows.to_parquet(folder / "old.parquet")
    return str(folder / "old.parquet")


def test_an_ingested_archive_opens_without_a_campaign(tmp_path, binlog):
    loose = {"pair": pd.NA, "pair_id": pd.NA, "block": pd.NA, "position": pd.NA}
    made = explore.Explorer(archive(tmp_path, binlog, **loose))
    made.baseline.value = "plain"
    q = made.question
    assert set(q.verdicts["design"]) == {"unpaired"}
    assert set(q.verdicts["baseline"]) == {"plain"}
    _, row = q.comparisons[0]
    runs = q.close(row).runs
    assert f"what {runs['run'].iloc[0]} printed" in made.raw.value
    made.baseline.value = "encrypted"
    assert set(made.question.verdicts["baseline"]) == {"encrypted"}


def test_an_archive_with_pairs_is_judged_by_them(tmp_path, binlog):
    file = archive(tmp_path, binlog)
    q = asked(explore.opened(file, "plain"))
    assert list(q.verdicts["n_arm"]) == list(asked(binlog).verdicts["n_arm"])
    assert list(q.verdicts["overhead_pct"]) == pytest.approx(
        list(asked(binlog).verdicts["overhead_pct"])
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"source": "no-such"}, "no campaign is called 'no-such'"),
        ({"source": "no/such.parquet"}, "nothing is called 'no/such.parquet'"),
        ({"source": BINLOG, "metric": "speed"}, "metric 'speed' is not in this campaign"),
        ({"source": BINLOG, "threads": [4, 5]}, "threads 5 is not in this campaign"),
        ({"source": BINLOG, "arms": ["red"]}, "arms 'red' is not in this campaign"),
    ],
)
def test_what_is_not_there_is_one_sentence(given, says):
    with pytest.raises(explore.PROBLEMS) as problem:
        explore.Explorer(**given)
    assert str(problem.value).startswith(says)
    assert "\n" not in str(problem.value)


# -- the controls ----------------------------------------------------------------------------------


def test_it_opens_on_a_recorded_campaign_with_everything_shown(explorer):
    assert explore.Explorer().campaign.value == report.recorded_campaign("binlog-encryption")
    assert explorer.threads.value == (1, 4, 16, 64)
    assert explorer.arms.value == ("encrypted", "plain again")
    assert "Transactions per second over all thread counts" in explorer.status.value
    assert "sysbench" in explorer.raw.value


@pytest.mark.parametrize(
    ("control", "value"),
    [("metric", "p95"), ("margin", 5.0), ("workload", "replica"), ("threads", (4, 16))],
)
def test_every_control_changes_figure_and_words_at_once(explorer, control, value):
    before = explorer.overview.markup, explorer.status.value
    start = time.perf_counter()
    getattr(explorer, control).value = value
    took = time.perf_counter() - start
    assert explorer.overview.markup != before[0]
    assert explorer.status.value != before[1]
    assert took < 1.5, f"{took:.2f} s"  # half a second on a machine that does nothing else


def test_another_campaign_brings_its_own_choices(explorer):
    explorer.study.value = "calibration-aa"
    assert explorer.workload.value == "read/write"
    assert explorer.arms.value == ("other server",)
    explorer.study.value = "binlog-encryption"
    assert explorer.threads.value == (1, 4, 16, 64)


def test_a_click_does_what_the_lists_do(explorer):
    """What the browser sends, taken apart by the widget itself."""
    row = dict(explorer.comparison.options)["encrypted, 16 threads"]
    explorer.overview._handle_custom_msg({"row": row}, [])
    assert explorer.comparison.label == "encrypted, 16 threads"
    assert explorer.overview.chosen == row
    explorer.close._handle_custom_msg({"row": 2}, [])
    assert explorer.run.label.startswith("pair 3, ")
    assert explorer.run.value in explorer.raw.value
    assert explorer.close.chosen == 2


def test_without_controls_it_is_a_page(explorer):
    bundle = explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    page = bundle["text/html"]
    assert page.count("<figure") == 2
    assert "<pre" in page
    assert str(paths.root()) not in page
