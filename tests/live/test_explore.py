"""The explorer on the recorded campaigns: what the controls ask, and what follows."""

import gzip
import shutil
from pathlib import Path

import pandas as pd
import pytest

import archive as made
from conftest import DATA, done
from noisefloor import explore, paths
from noisefloor.data import archive, results, tidy
from noisefloor.show import plots, report
from noisefloor.show.rows import is_joint

BINLOG = "binlog-encryption-standard-20261121-005924"
FULL = "in memory, 200 a second"
SATURATED = "binlog-encryption-rate-standard-20261129-230816"  # at that rate
AA = "calibration-aa-standard-20261123-024100"
TABLES = "tablespace-encryption-standard-20261121-193605"
TABLES_THEN = "tablespace-encryption-standard-20261121-092639"


@pytest.fixture(scope="module", autouse=True)
def _recorded_alone(tmp_path_factory):
    """What was measured on this machine is none of these tests' business."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISEFLOOR_RUNS", str(tmp_path_factory.mktemp("runs")))
        yield


@pytest.fixture(scope="module")
def binlog():
    return explore.opened(BINLOG)


def asked(source, **more) -> explore.Question:
    given = {"workload": "in memory", "metric": "tps"} | more
    return explore.Question((source,), **given)


@pytest.fixture(scope="module")
def explorer():
    """On one campaign, for whoever leaves the controls as they were."""
    return explore.Explorer(BINLOG)


# -- a question ------------------------------------------------------------------------------------


def test_the_verdicts_of_a_campaign_are_its_own(binlog):
    ours = asked(binlog).verdicts
    theirs = results.load(binlog.folder).alone(workload="in memory", metric="tps")
    pd.testing.assert_frame_equal(ours[theirs.columns], theirs)
    assert set(ours["sittings"]) == {1}


@pytest.fixture(scope="module")
def page():
    return explore.opened("tablespace-encryption", workload="larger than memory")


@pytest.mark.slow
def test_the_verdicts_of_a_page_are_those_of_all_its_campaigns(page):
    """Processor by processor; an arm that several questions have stands for the first of them."""
    q = asked(page, workload="larger than memory")
    newest = paths.campaign(report.recorded_campaign("tablespace-encryption"))
    having = (f for f in results.beside(newest) if "larger than memory" in explore._workloads(f))
    whole = results.load(*having)
    theirs = whole.judge(workload="larger than memory", metric="tps")
    assert set(q.verdicts["campaign"]) == {"AMD EPYC", "Intel Xeon"}
    for name, ours in q.verdicts.groupby("processor"):
        mine = theirs[theirs["processor"].eq(name) & theirs["question"].eq("headline")]
        told = ours[ours["question"] == "headline"]
        same = ["arm", "verdict", "change_pct", "lo_pct", "sittings", "next_lo_pct"]
        pd.testing.assert_frame_equal(
            told[same].reset_index(drop=True), mine[same].reset_index(drop=True), check_exact=False
        )
        assert not ours.duplicated(["arm", "threads", "joint"]).any()
    assert all(f"{name}: " in q.headline for name in set(q.verdicts["campaign"]))
    words = dict(q.comparisons)
    row = next(row for said, row in words.items() if said.startswith("AMD EPYC"))
    near, verdict = q.near(row), q.verdicts.loc[row]
    assert 0 < len(near.pairs) <= verdict["n_arm"]
    assert "<pre" in near.raw(near.runs["run"].iloc[0])


def test_a_row_is_shown_with_the_newest_campaign_that_has_its_metric():
    page, full = results.load(DATA / "campaign"), results.Results(DATA / "campaign")
    vars(full)["tidy"] = full.tidy.assign(metric="saturated")
    (campaigns,) = page.by_processor.values()
    campaigns.append(full)
    q = asked(page)
    assert len(q.near(q.comparisons[0][1]).runs)
    assert "2 campaigns" not in q.tables


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
    (remark,) = wide.remarks
    assert remark.startswith("The margin of this metric is ±2\u202f%; with ±50\u202f% these")
    assert asked(source, workload="read/write").remarks == []


def test_all_runs_of_a_pair_are_found_with_their_text(binlog):
    q = asked(binlog)
    words, row = q.comparisons[0]
    assert words == "encrypted, 1 thread"
    near = q.near(row)
    runs = near.runs
    assert runs.groupby("point")["arm"].agg(set).map(lambda s: s == {"plain", "encrypted"}).all()
    assert len(near.pairs) == runs["pair_id"].nunique() == q.verdicts.loc[row, "n_arm"]
    first = runs.iloc[0]
    said = near.raw(first["run"])
    printed = (tidy.runs_folder(binlog.folder) / first["run"] / "sysbench.txt").read_text()
    assert printed.splitlines()[0] in said
    assert said.count("<pre") == 2


def places(figure) -> dict:
    """Row of the table -> where its point is drawn, in percent from left and top."""
    plots.svg(figure)
    found = {row: (left, top) for row, left, top in plots.spots(figure)}
    assert all(0 <= x <= 100 and 0 <= y <= 100 for x, y in found.values())
    return found


def test_points_stand_where_their_rows_are_drawn(binlog):
    """A larger change is a higher point, in the same panel."""
    q = asked(binlog)
    found = places(q.figure)
    assert set(found) == set(q.verdicts.index)
    heights = [found[row][1] for row in q.verdicts["change_pct"].sort_values().index]
    assert heights == sorted(heights, reverse=True)
    near = q.near(q.comparisons[0][1])
    found = places(near.figure)
    assert list(found) == list(near.pairs.index)
    assert sorted(found.values()) == list(found.values())  # from left to right
    heights = [found[row][1] for row in near.pairs["change"].sort_values().index]
    assert heights == sorted(heights, reverse=True)  # far ones are drawn at the edge


def test_two_campaigns_stand_beside_each_other():
    both = explore.opened(TABLES), explore.opened(TABLES_THEN)
    q = explore.Question(both, "larger than memory", "tps", threads=(4,), arms=("tables only",))
    assert q.verdicts["campaign"].nunique() == 2
    assert q.headline.count(" TPS ") == 2
    (row,) = q.apart.to_dict("records")
    first, second = q.verdicts["change_pct"]
    assert (row["first_pct"], row["second_pct"]) == (first, second)
    product = (1 + first / 100) * (1 + row["difference_pct"] / 100)
    assert product == pytest.approx(1 + second / 100)
    assert row["lo_pct"] < row["difference_pct"] < row["hi_pct"]


def test_a_page_is_not_compared_with_a_campaign_that_it_holds(binlog):
    q = explore.Question((results.load(binlog.folder), binlog), "in memory", "tps")
    assert q.verdicts["campaign"].nunique() == 2
    assert q.apart.empty
    assert "The second against the first" not in q.tables


# -- archives --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """Somebody's tree: four servers, three buffer pools, two runs each, one of them packed, one there
    twice, one with a password in it; and a campaign of ours. Ingested into `tables` beside it."""
    place = tmp_path_factory.mktemp("theirs")
    made.tree(place / "tree", 144, seconds=5)
    first = place / "tree" / made.path(0)
    first.write_text("sysbench --mysql-password=Kanarie1 run\n" + first.read_text())
    packed = place / "tree" / made.path(1)
    packed.with_name(packed.name + ".gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    twin = place / "tree" / made.path(2)
    twin.with_name("copy of " + twin.name).write_bytes(twin.read_bytes())
    shutil.copytree(DATA / "campaign", place / "tree" / "ours")
    done("ingest", place / "tree", "--out", place / "tables")
    return place


SMALL = "RW, buffer pool 2G"


@pytest.mark.slow
def test_an_ingested_archive_opens_as_a_campaign_does(theirs):
    at = explore.Explorer(str(theirs / "tables"))
    pools = {f"RW, buffer pool {size}G" for size in (2, 12, 32)}
    assert set(dict(at.workload.options)) == {"in memory"} | pools
    at.workload.value = SMALL
    servers = {"mysql 8.4.8", "mysql 9.7.0", "percona-server 8.4.8-8", "mariadb 11.8.3"}
    assert set(dict(at.baseline.options)) == servers
    at.baseline.value = "mysql 8.4.8"
    rows = at.question.verdicts
    assert set(rows["n_arm"][~is_joint(rows)]) == {2}  # neither pools nor twins
    assert "TPS" in at.status.value
    near = at.near.runs
    assert at.run.value in at.raw.value
    assert "queries performed:" in at.raw.value
    assert len(near) == 4


def test_the_text_of_an_archive_s_run_is_shown_without_its_secrets(theirs):
    source = explore.opened(str(theirs / "tables"))
    for number, says in enumerate(["--mysql-password=*** run", *2 * ["Number of threads: 1"]]):
        at = Path(made.path(number))
        (run,) = [r for r in set(source.tidy["run"]) if f"{at.parent}/" in r and at.name in r]
        (text,) = archive.texts_of(source, run).values()
        assert says in text
        assert "Kanarie" not in text


def test_a_campaign_in_an_archive_keeps_its_pairs(theirs):
    source = explore.opened(str(theirs / "tables"), "plain")
    own = results.load(DATA / "campaign")
    workload = own.study.workloads[0].name
    ours, there = (asked(s, workload=workload).verdicts for s in (own, source))
    assert set(there["arm"]) == set(ours["arm"])
    sizes = (t.set_index(["arm", "threads"])["change_pct"].to_dict() for t in (there, ours))
    assert next(sizes) == pytest.approx(next(sizes))
    assert set(there["design"]) == {own.study.design}
    run = source.judged(workload)["run"].iloc[0]
    assert any("SQL statistics" in text for text in archive.texts_of(source, run).values())


def test_texts_says_where_the_tree_is(theirs, tmp_path):
    away = shutil.copytree(theirs / "tables", tmp_path / "away")
    source = explore.opened(str(away))
    run = next(r for r in source.tidy["run"] if made.path(0) in r)
    assert "`texts`" in next(iter(archive.texts_of(source, run).values()))
    told = explore.opened(str(away), texts=str(theirs / "tree"))
    assert "queries performed:" in next(iter(archive.texts_of(told, run).values()))


def test_an_archive_in_the_project_s_folder_is_offered(theirs, home):
    shutil.copytree(theirs / "tables", paths.processed() / "theirs")
    at = explore.Explorer("data/processed/theirs")
    assert at.study.value == "data/processed/theirs"
    assert dict(at.study.options)["Archive theirs"] == "data/processed/theirs"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"source": "no-such"}, "no campaign is called 'no-such'"),
        ({"source": "no/such"}, "no/such is no table of `noisefloor ingest`"),
        ({"source": BINLOG, "metric": "speed"}, "metric 'speed' is not in this campaign"),
        ({"source": "binlog-encryption", "workload": "x"}, "workload 'x' is not in this campaign"),
        ({"source": SATURATED, "workload": FULL}, f"workload '{FULL}' is not in this campaign"),
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


def test_it_opens_on_a_study_with_everything_shown():
    at = explore.Explorer()
    assert at.campaign.value == at.study.value == "binlog-encryption"
    assert at.campaign.label == explore.PAGE
    assert at.margin.value == 0
    assert at.threads.value == (64,)
    assert at.arms.value == ("encrypted",)
    assert at.question.verdicts["sittings"].max() >= 1
    assert "p99 latency at 100 a second" in at.status.value
    assert "sysbench" in at.raw.value


def test_a_rate_that_saturated_one_processor_shows_the_others():
    at = explore.Explorer("binlog-encryption", workload=FULL)
    assert "p99" in {value for _, value in at.metric.options}
    recorded = paths.recorded().glob("binlog-encryption-rate-*")
    processors = {explore.opened(folder.name).processor for folder in recorded}
    full = explore.opened(SATURATED).processor
    assert set(at.question.verdicts["processor"]) == processors - {full}
    assert "p99 latency at 200 a second" in at.status.value


def test_one_campaign_is_judged_by_itself(explorer):
    assert explorer.campaign.value == BINLOG
    assert set(explorer.question.verdicts["asked"]) == {1}
    assert "provisional" not in explorer.status.value


CHANGES = {"metric": "p95", "margin": 5.0, "workload": "replica", "threads": (4, 16)}


@pytest.mark.slow
def test_every_control_changes_figure_and_words_at_once(explorer):
    for control, value in CHANGES.items():
        begun = getattr(explorer, control).value
        before = explorer.overview.markup, explorer.status.value
        getattr(explorer, control).value = value
        assert explorer.overview.markup != before[0], control
        assert explorer.status.value != before[1], control
        getattr(explorer, control).value = begun


def test_a_metric_that_has_no_word_any_more_is_no_choice():
    at = explore.Explorer(TABLES, workload="write only")
    declared = explore.opened(TABLES).study.workload("write only").metrics
    offered = {value for _, value in at.metric.options}
    assert "tps" in offered
    assert "written_bytes_per_transaction" in set(declared) - offered


@pytest.mark.slow
def test_another_campaign_brings_its_own_choices():
    explorer = explore.Explorer(BINLOG)
    explorer.study.value = "calibration"
    explorer.campaign.value = AA
    assert [value for _, value in explorer.workload.options] == ["read/write"]
    explorer.study.value = "binlog-encryption"
    assert explorer.workload.value == "in memory, 100 a second"  # which its page leads with
    assert explorer.threads.value == (64,)
    explorer.study.value = "tablespace-encryption"  # not a workload that has the same name
    assert explorer.workload.value == results.main_workload(explore.opened(explorer.campaign.value))


@pytest.mark.slow
def test_a_second_campaign_brings_its_verdicts_and_the_difference():
    at = explore.Explorer(TABLES, workload="larger than memory")
    before = at.overview.markup
    at.against.value = TABLES_THEN
    assert at.overview.markup != before
    assert at.question.verdicts["campaign"].nunique() == 2
    assert "The second against the first" in at.table.value
    offered = {words.split(",")[0] for words, _ in at.comparison.options}
    assert offered == set(at.question.verdicts["campaign"])


def test_a_click_does_what_the_lists_do(explorer):
    """What the browser sends, taken apart by the widget itself."""
    row = dict(explorer.comparison.options)["encrypted, 16 threads"]
    explorer.overview._handle_custom_msg({"row": row}, [])
    assert explorer.comparison.label == "encrypted, 16 threads"
    assert explorer.overview.chosen == row
    explorer.detail._handle_custom_msg({"row": 2}, [])
    assert explorer.run.label.startswith("pair 3, ")
    assert explorer.run.value in explorer.raw.value
    assert explorer.detail.chosen == 2


def test_without_controls_it_is_a_page(explorer):
    bundle = explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    page = bundle["text/html"]
    assert page.count("<figure") == 2
    assert "<pre" in page
    assert str(paths.root()) not in page
