"""A recorded smoke campaign as a notebook sees it, and several that answer one question each."""

import json
import shutil
from dataclasses import replace

import pandas as pd
import pytest

from conftest import documented, planned
from noisefloor import model as study
from noisefloor import paths, stats, studies
from noisefloor.data import design, question, results, tidy
from noisefloor.text import Refusal

VERDICTS = {"slower", "faster", "more", "less", "larger", "smaller", "same", "cannot tell"}


@pytest.fixture
def opened(recorded):
    return results.load(recorded)


def test_the_study_is_the_one_that_was_measured(opened):
    s = opened.study
    assert (s.name, s.key, s.profile.blocks) == ("binlog-encryption", "", 0)  # it declared none
    assert [a.name for a in (s.baseline, *s.arms)] == ["plain", "encrypted"]
    assert s.workload("in memory").threads == (2,)


@pytest.mark.parametrize(
    ("engine", "kind"), [({"kind": "mariadb"}, "mariadb"), ("MySQL 8.0.26", ""), ({}, "")]
)
def test_a_page_knows_its_server_where_one_was_measured(opened, engine, kind):
    """That of an archive is told in words; two commands have none."""
    vars(opened)["meta"] = opened.meta | {"engine": engine}
    assert results.rows._server_kind(opened) == kind


def test_one_row_a_comparison_in_the_order_of_the_contract(opened):
    v = opened.verdicts
    assert list(v.columns) == [*stats.row.COLUMNS, *question.MORE]
    assert set(v["question"]) == {""}
    metrics = opened.study.workloads[0].metrics
    assert sorted(v[~v["control"]]["metric"]) == sorted(set(metrics) - {"p99"})  # runs of a second
    assert set(v["verdict"]) <= VERDICTS
    assert set(v[v["control"]]["arm"]) == {"plain again"}
    # two blocks, of which the last has fewer pairs than the first and does not count
    assert (v[~v["control"]]["n_arm"] == 2).all()
    assert (v[v["control"]]["n_arm"] == 1).all()
    assert "max_latency" not in set(v["metric"])  # shown, never judged
    row = opened.of(metric="tps", control=False).iloc[0]
    assert row["verdict"] == "cannot tell"  # three pairs of a second
    assert (row["sittings"], row["asked"]) == (1, 1)


def test_a_change_has_the_sign_of_its_metric(opened):
    t = opened.tidy
    for metric in ("tps", "cpu_per_transaction"):
        pairs = opened.pairs("in memory", metric)
        assert len(pairs) == 3  # neither warm-ups nor the control's
        values = t[(t["metric"] == metric)].set_index(["pair_id", "arm"])["value"]
        for _, pair in pairs.iterrows():
            name = f"in-memory-t2-encrypted-p{pair['pair']:03d}"
            more = values[name, "encrypted"] > values[name, "plain"]
            assert (pair["change"] > 0) == more


def test_an_analyst_asks_for_frames_whose_columns_are_written_down(opened, three):
    pairs = opened.pairs("in memory", "tps")
    question = results.load(three[0])
    assert documented("campaign.pairs(workload, metric)") == list(pairs.columns)
    assert documented("question.result") == list(question.result.columns)
    kept = question.verdicts[~question.verdicts["control"]].reset_index(drop=True)
    pd.testing.assert_frame_equal(question.result, kept[list(question.result.columns)])
    assert len(kept) < len(question.verdicts)


def test_tables_for_the_page(opened):
    assert list(results.workloads(opened).columns) == ["workload", "threads", "why"]
    assert results.skipped(opened).empty
    assert results.main_threads(opened) == 2
    assert not opened.meta["raw_files"].startswith("/")
    assert set(results.proofs(opened).columns) >= {"evidence", "plain", "encrypted"}
    found = results.medians(opened, results.main_workload(opened), ("tps", "p95"))
    units = ["Transactions per second, TPS", "95th percentile latency, ms"]
    assert list(found.columns[3:]) == units
    assert set(found["arm"]) == {"plain", "encrypted", "plain again"}
    assert (found["runs"] > 0).all()


# -- several campaigns on one page -----------------------------------------------------------------

DAY = "2026-11-{}T10:00:00+00:00"


def answering(source, folder, key, workload="in memory", day=20, **changes):
    """A copy of a recorded campaign that answers one question, of a workload of this name, and that
    was made on such a day."""
    shutil.copytree(source, folder)
    meta = json.loads((folder / "campaign.json").read_text())
    work = meta["workloads"][0] | {"name": workload}
    more = {"key": key, "question": f"{key}?", "workloads": [work]}
    more |= {"created": DAY.format(day), "finished": DAY.format(day)}
    profile = {"profile": meta["profile"] | {"name": "standard", "quick": False, "blocks": 2}}
    told = planned(meta) | profile | more | changes
    (folder / "campaign.json").write_text(json.dumps(told))
    for file in folder.glob("*/run.json"):
        facts = json.loads(file.read_text())
        file.write_text(json.dumps(facts | {"workload": workload}))
    return folder


@pytest.fixture
def three(recorded, tmp_path):
    """Campaigns of three questions, in the order of their dates."""
    asked = (("b", "headline", "in memory"), ("a", "profile", "x"), ("c", "throttled", "y"))
    return [
        answering(recorded, tmp_path / name, key, work, 20 + n)
        for n, (name, key, work) in enumerate(asked)
    ]


def test_each_question_is_judged_by_itself(three):
    from noisefloor.show.report import words

    r, parts = results.load(*three), [results.load(f) for f in three]
    assert list(r.verdicts["question"].unique()) == ["headline", "profile", "throttled"]
    for judge in (lambda p: p.verdicts, lambda p: p.judge(margin_pct=30.0)):
        alone = pd.concat(map(judge, parts), ignore_index=True)
        pd.testing.assert_frame_equal(judge(r), alone)
    assert len(r.tidy) == sum(len(p.tidy) for p in parts)
    assert r.runs["run"].is_unique
    assert set(r.tidy["run"]) <= set(r.runs["run"])
    assert [w.name for w in r.study.workloads] == [results.main_workload(p) for p in parts]
    assert [a.name for a in r.study.arms] == ["encrypted"]
    assert r.meta["campaigns"] == ["b", "a", "c"]
    assert r.meta["finished"] == DAY.format(22)
    assert r.meta["first"] == DAY.format(20)
    assert words.dates(r.meta) == "2026-11-20–2026-11-22"
    assert words.dates(parts[0].meta) == "2026-11-20"


def test_the_sittings_of_a_question_stand_beside_each_other(three, recorded, tmp_path):
    """Another day, another processor, another design."""
    again = answering(recorded, tmp_path / "d", "throttled", "y", 23)
    away = answering(recorded, tmp_path / "e", "throttled", "y", 24, host={"cpu": "another"})
    odd = answering(recorded, tmp_path / "f", "throttled", "y", 10, tables=7)
    r = results.load(*three, again, away, odd)
    assert [p.folder.name for p in r.parts] == ["b", "a", "d"]
    assert [x.folder.name for x in r.every] == ["b", "a", "c", "d", "e"]
    assert r.left == ("f has another design: tables (7, here 5)",) or "tables (7" in r.left[0]
    rows = r.verdicts[r.verdicts["question"] == "throttled"]
    here, there = (rows[rows["processor"] == p] for p in dict.fromkeys(rows["processor"]))
    assert set(here[~here["control"]]["sittings"]) == {2}
    assert set(there["sittings"]) == {1}
    row = r.of(question="throttled", metric="tps", control=False).iloc[0]
    assert row["processor"] == here["processor"].iloc[0]
    (other,) = results.elsewhere(r, row)
    assert other["processor"] == "another, model not recorded"
    forest = results.forest(r)[results.forest(r)["question"].eq("throttled")]
    assert forest["campaign"].nunique() == 3
    assert list(dict.fromkeys(forest["date"])) == [DAY.format(d)[:16] for d in (22, 23, 24)]


def test_campaigns_of_a_design_that_is_no_more_leave_a_page_whose_newest_is_of_the_present_one(
    three, recorded, tmp_path, monkeypatch
):
    new = answering(recorded, tmp_path / "d", "headline", "in memory", 24, tables=7)
    now = {"headline": design.design_of(results.load(new).opened.meta)}
    now["throttled"] = now["headline"] | {"question": "throttled"}
    monkeypatch.setattr(results.page, "_present", lambda r: now.get(r.study.key))
    r = results.load(*three, new)
    assert [x.folder.name for x in r.every] == ["d"]
    first, second, third = r.left
    assert first.startswith("b has another design: tables (5, here 7)")
    assert second == "a answers a question that its study does not ask any more"
    assert third.startswith("c has another design: ")
    older = results.load(*three)  # none of them is present: they stand together as before
    assert [x.folder.name for x in older.every] == ["b", "a", "c"]


def test_a_capacity_is_that_of_the_page_s_own_processor(three, recorded, tmp_path):
    """The load figure draws it as a line."""
    r = results.load(*three)
    runs = r.parts[0].judged("in memory", "tps")
    most = runs.loc[runs["arm"] == "plain", "value"].median()
    assert results.highest_tps(r) == most > 0
    away = answering(recorded, tmp_path / "d", "headline", "in memory", 24, host={"cpu": "another"})
    assert results.highest_tps(results.load(away)) == most
    both = results.load(three[1], away)
    assert [p.folder.name for p in both.parts] == ["a", "d"]
    assert results.highest_tps(both) == 0.0


def test_campaigns_of_one_day_are_one_sitting(three, recorded, tmp_path):
    same = answering(recorded, tmp_path / "d", "throttled", "y", 22)
    r = results.load(*three, same)
    rows = r.of(question="throttled", control=False)
    assert set(rows["sittings"]) == {1}
    assert not rows["ranged"].any()


def test_what_notebooks_show_comes_from_the_leading_campaigns(three):
    r, part, work = results.load(*three), results.load(three[2]), "y"
    same = pd.testing.assert_frame_equal
    same(r.pairs(work, "tps"), part.pairs(work, "tps"))
    same(results.intervals(r, work), results.intervals(part, work))
    same(results.differences(r), results.differences(part))
    assert len(results.quantiles(r, "in memory", 2)) == len(results.quantiles(part, work, 2)) > 0
    assert results.evidence(r)["runs"].sum() == 3 * results.evidence(part)["runs"].sum()
    assert len(results.evidence(r)) == len(results.evidence(part))
    assert results.stages(r).empty
    assert r.frame(tidy.warmups).empty
    assert results.fact(r, "damage").empty


def test_a_damaged_run_is_named_with_its_question(three):
    (next(three[1].glob("*p001-0-*")) / "sysbench.txt").write_text("edited")
    r = results.load(*three)
    assert "profile/in-memory-t2" in " ".join(results.warnings(r)["warning"])
    alone = results.load(three[1])
    said = " ".join(results.warnings(alone)["warning"])
    assert "was changed after the run" in said
    assert "only one run of the pair is whole" in said
    assert (alone.of(control=False)["n_arm"] == 2).all()


def test_a_campaign_without_a_whole_pair_leaves_the_others(three):
    for run in three[2].glob("*/run.json"):
        shutil.rmtree(run.parent)
    r = results.load(*three)
    assert list(r.verdicts["question"].unique()) == ["headline", "profile"]
    assert results.lead(r, r.parts[2], ("tps",)) is None
    with pytest.raises(results.campaign.tidy.Damaged, match="holds no whole pair"):
        results.load(three[2]).verdicts  # noqa: B018


def test_a_campaign_that_was_saturated_all_the_time_leaves_the_others(three):
    r = results.load(*three)
    vars(r.parts[2])["tidy"] = r.parts[2].tidy.assign(metric="saturated")
    assert r.parts[2].alone().empty
    assert list(r.verdicts["question"].unique()) == ["headline", "profile"]


@pytest.mark.parametrize(
    ("kept", "questions"),
    [((0, 1, 2), "headline"), ((0, 2), "headline"), ((1,), "profile"), ((2,), "throttled")],
)
def test_a_page_leads_with_both_costs(three, kept, questions):
    r = results.load(*(three[i] for i in kept))
    rows = results.headlines(r)
    assert [row["metric"] for row in rows] == ["cpu_per_transaction", "tps"]
    assert [row["question"] for row in rows] == [questions] * 2
    assert all(r.verdicts.loc[row.name, "metric"] == row["metric"] for row in rows)
    assert [row["margin_pct"] for row in rows] == [1.0, 2.0]


def test_a_headline_that_asks_for_three_sittings_has_no_word_after_one(three):
    row = results.headlines(results.load(three[0]))[1]
    assert (row["verdict"], row["asked"]) == ("provisional", 3)
    assert row["warnings"][0] == "provisional, boot 1 of 3"


def test_a_headline_of_an_arm_without_a_pair_says_so(recorded):
    r = results.load(recorded)
    other = replace(r.study.arms[0], name="another")
    vars(r)["study"] = replace(r.study, arms=(*r.study.arms, other))
    assert "no whole pair of another" in " ".join(results.headlines(r, "another")[0]["warnings"])
    assert "no whole pair" not in " ".join(results.headlines(r, "unheard of")[0]["warnings"])


def test_a_page_holds_all_campaigns_of_every_question(three, recorded, tmp_path):
    away = {"host": {"cpu": "another"}}
    engine = results.facts_of(recorded)["engine"]
    patch = {"engine": engine | {"label": "a later patch", "version": f"{engine['version']}.1"}}
    mysql = {"engine": {"label": "MySQL 9.9", "kind": "mysql", "version": "9.9.0"}}
    loop = {"workloads": [{"name": "x", "at_once": True}]}
    for name, key, day, facts in (
        ("d", "throttled", 23, {}),
        ("e", "replica", 24, {"finished": ""}),  # not ended
        ("f", "throttled", 24, away),
        ("g", "throttled", 23, {"parameters": {"margin_pct": 5.0}}),
        ("h", "throttled", 23, mysql),
        ("i", "throttled", 23, loop),  # not compared
        ("j", "throttled", 23, {"profile": {"name": "quick"}}),
        ("k", "profile", 22, patch),
    ):
        answering(recorded, tmp_path / name, key, "y", day, **facts)
    for run in tmp_path.glob("[a-l]/*/run.json"):
        run.unlink()  # nothing but campaign.json is read
    for folder in (three[0], three[2], tmp_path / "d", tmp_path / "f"):
        assert [f.name for f in results.beside(folder)] == ["b", "c", "d", "f", "a", "k"]
    assert results.beside(recorded) == (recorded,)  # which asked everything at once


def test_a_campaign_that_can_be_continued_is_not_opened(recorded, tmp_path, monkeypatch):
    """Who saw an estimate could stop where it suits. Two commands that were timed are judged: nothing
    continues them."""
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(tmp_path))
    begun = {"finished": ""}
    for name, changes in (("a", {}), ("b", begun), ("c", begun | {"engine": {}})):
        answering(recorded, tmp_path / name, "headline", **changes)
    assert results.named("a, c") == (tmp_path / "a", tmp_path / "c")
    left = "b has not ended, and the command that began it continues it; it is judged once, at"
    with pytest.raises(Refusal, match=left):
        results.folder_of("b")


def test_a_short_campaign_stands_for_itself(recorded, tmp_path):
    quick = {"profile": {"name": "quick"}}
    for name, day in (("a", 20), ("b", 21), ("c", 22)):
        answering(recorded, tmp_path / name, "headline", "x", day, **quick)
    answering(recorded, tmp_path / "d", "throttled", "y", 19, **quick)
    assert [f.name for f in results.beside(tmp_path / "b")] == ["b", "d"]


def test_a_page_is_about_one_study(three, recorded, tmp_path):
    other = answering(recorded, tmp_path / "e", "throttled", study="tablespace-encryption")
    with pytest.raises(study.StudyError, match="one study"):
        results.load(three[0], other)


def test_campaigns_are_named_with_commas(home):
    for name in ("a", "b"):
        (paths.recorded() / name).mkdir(parents=True)
        (paths.recorded() / name / "campaign.json").write_text("{}")
    assert [f.name for f in results.named("a, b,")] == ["a", "b"]
    with pytest.raises(paths.NotFound, match="no campaign is called 'c'"):
        results.named("a,c")


def test_a_question_is_answered_by_its_campaign_or_by_one_that_asked_everything(three, recorded):
    r = results.load(*three)
    assert set(results.answering(r, "throttled")["workload"]) == {"y"}
    assert not results.answering(r, "throttled")["control"].any()
    assert results.answering(r, "replica").empty
    assert list(results.questions(r))[:3] == ["headline", "rate", "throttled"]
    assert set(results.questions(r)) == set(studies.questions("binlog-encryption"))
    old = results.load(recorded)
    assert set(results.answering(old, "headline")["workload"]) == {"in memory"}
    assert results.answering(old, "throttled").empty
    assert results.answering(old, "unheard of").empty
    assert results.questions(old) == {}


def test_the_thread_count_of_single_figures_is_the_one_that_workloads_share(three):
    def counts(*threads):
        r = results.load(three[0])
        works = tuple(replace(r.study.workloads[0], threads=t) for t in threads)
        vars(r)["study"] = replace(r.study, workloads=works)
        return results.main_threads(r)

    assert counts((1, 4, 16, 64)) == 16
    assert counts((1, 4, 16, 64), (4,)) == 4
    assert counts((4,), (1, 2, 8)) == 4
