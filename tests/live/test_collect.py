"""Whole campaigns on real servers: measured by question, continued, judged."""

import contextlib
import io
import json
import re
import shutil
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from conftest import ENGINES, arm_of, moved, planned
from noisefloor import model as study
from noisefloor import paths, schedule, studies
from noisefloor.data import design, results, tidy
from noisefloor.measure import collect, course, loading
from noisefloor.measure.campaign import Campaign
from noisefloor.measure.folder import resumable, write_json
from noisefloor.measure.gate import FIRST, WAITING
from noisefloor.measure.progress import Progress
from noisefloor.servers import doctor, engines
from noisefloor.show import report

SMOKE = studies.load(study.Request("binlog-encryption", profile="smoke"))
MAIN = SMOKE.workloads[0]


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir())


def cell_of(chosen, arm="encrypted", workload=MAIN):
    return schedule.Cell(workload, workload.threads[0], arm_of(chosen, arm))


def found(checks: list[dict]) -> set[str]:
    return {c["found"] for c in checks}


def ended(folder: Path, design: str) -> tuple[dict, study.Study, pd.DataFrame]:
    """campaign.json of a campaign that ended well, its study, and its table."""
    meta, table = tidy.meta(folder), tidy.tidy_table(folder)
    chosen = study.study_of(meta)
    assert meta["finished"]
    declared = f"the {meta['plan']['blocks']} declared blocks are measured"
    assert meta["ended_because"] in (schedule.SPENT, declared)
    assert meta["design"] == chosen.design == design
    assert not list(folder.rglob("*.partial"))
    assert meta["wall_s"] >= meta["spent_s"] >= meta["slices_s"] > 0
    return meta, chosen, table


def proved(run: Path, chosen: study.Study) -> dict:
    """run.json of a whole run, whose evidence is its arm's."""
    facts = tidy.read(run)  # checksums
    assert facts["sha256"].keys() == {p.name for p in run.iterdir()} - {"run.json"}
    assert facts["exit_code"] == 0
    if "evidence.json" in facts["sha256"]:
        checks = json.loads((run / "evidence.json").read_text())["checks"]
        assert len(checks) >= 2
        assert found(checks) == set(arm_of(chosen, facts["arm"]).expect.values())
    return facts


def assert_whole(folder: Path, design: str) -> pd.DataFrame:
    """What every finished campaign has; returns its tidy table of judged runs."""
    meta, chosen, table = ended(folder, design)
    assert tidy.opened(folder).tidy_runs.problems == []
    judged = table[~table["warmup"]]
    runs = judged.drop_duplicates("run")
    arms = runs[runs["arm"] != chosen.baseline.name]
    waited = {}
    for _, pair in runs.groupby("pair_id"):
        assert sorted(pair["position"]) == [0, 1]
        assert sorted(pair["arm"] == chosen.baseline.name) == [False, True]
        assert pair["block"].nunique() == pair["pair"].nunique() == 1
        both = [tidy.read(folder / run) for run in pair.sort_values("position")["run"]]
        gate = both[0]["gate"]
        assert gate == both[1]["gate"]  # asked once, before both
        assert (gate["probes"] > 0, gate["speed"] > 0, 0 <= gate["steal"] <= 1) == (True,) * 3
        waited[both[0]["start"]] = gate
    first = [probe for _, gate in sorted(waited.items()) for probe in gate["first"]]
    assert len(first) == min(sum(g["probes"] for g in waited.values()), FIRST)
    assert meta["waited_s"] == pytest.approx(sum(g["waited_s"] for g in waited.values()), abs=0.01)
    # a pause and its probe may take longer where others work
    assert meta["waited_s"] <= WAITING * 60 * chosen.profile.budget_min + 1
    for _, comparison in arms.groupby(["workload", "arm"]):
        assert sorted(comparison["pair"]) == list(range(len(comparison)))  # each exactly once
    looked_at = Counter()
    for run in tidy.run_folders(folder):
        facts = proved(run, chosen)
        proof = {"variables.json", "evidence.json"}
        files = facts["sha256"].keys()
        assert files - proof == {"sysbench.txt"}
        assert len(files & proof) in (0, 2)
        assert all(facts["usage"]["server"][k] > 0 for k in ("cpu_s", "written_B", "binlog_B"))
        assert {"start", "end", "seed", "argv", "versions", "host", "steal_s"} <= facts.keys()
        at = (facts["block"], facts["arm"])
        looked_at[at] += proof <= files
        assert looked_at[at] > 0  # the first run of an arm in a block has it
    for block in sorted(set(judged["block"]))[:-1]:  # the last one's budget may have ended it
        closing = json.loads((folder / f"block-{block:02d}.json").read_text())
        assert closing.keys() == {chosen.baseline.name, *(a.name for a in chosen.arms)}
        for name, at_its_end in closing.items():
            assert found(at_its_end["checks"]) == set(arm_of(chosen, name).expect.values())
            assert (folder / at_its_end["file"]).exists()
    # what was declared; a slow machine's budget may end before
    blocks = arms[arms["arm"] == "encrypted"].groupby("block").size()
    works = arms["workload"].nunique()
    assert len(blocks) == meta["plan"]["blocks"] or meta["ended_because"] == schedule.SPENT
    assert set(blocks.iloc[:-1]) <= {works * meta["plan"]["pairs"]}
    warm = set(table.loc[table["warmup"], "run"])
    assert warm
    assert warm.isdisjoint(judged["run"])
    coins = [
        schedule.order(meta["seed"], r.block, c, r.pair) == (r.position == 0)
        for r in arms.itertuples()
        for c in schedule.cells(chosen)
        if r.pair_id.startswith(f"{c.key}-p")
    ]
    assert coins
    assert all(coins)
    return judged


# -- one server, and two side by side --------------------------------------------------------------

# two blocks at least on a busy machine
ASKED = study.Request("binlog-encryption", profile="smoke", budget_min=0.4)
LONG = studies.load(ASKED)
LONG = replace(LONG, profile=replace(LONG.profile, blocks=9))  # more than its budget holds


@pytest.fixture(scope="module")
def printed():
    """What a campaign on one server says while it is measured."""
    return io.StringIO()


@pytest.fixture(scope="module")
def finished(tmp_path_factory, mysql, printed):
    """The folder of a campaign on one server, measured until its budget was spent."""
    with moved(tmp_path_factory.mktemp("finished")) as home, pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "templates", lambda *a: {"": mysql})
        with contextlib.redirect_stderr(printed):
            folder = collect.measure_campaign(LONG, ASKED)
        assert [p.name for p in (home / ".servers").iterdir()] == ["lock"]  # nothing is left
    return folder


def test_a_campaign_says_on_which_processor_and_in_which_boot_it_was_measured(finished):
    host = tidy.meta(finished)["host"]
    assert host == doctor.host_facts() | {"disk": host["disk"]}  # of the folder of that home
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert host["boot"] == design.sitting_key({"host": host}) == boot
    assert host["processor"].keys() >= {"vendor", "model"}
    named = design.processor_name({"host": host})
    assert named.endswith("/".join(str(v) for k, v in host["processor"].items() if k != "vendor"))
    assert design.NOT_RECORDED not in named


def test_every_metric_has_its_own_margin_and_words_and_an_interval_its_word(finished):
    opened = results.load(finished)
    rows = opened.verdicts
    assert {"tps", "cpu_per_transaction"} <= set(rows["metric"]) <= set(MAIN.metrics)
    for row in rows.itertuples():
        metric = study.METRICS[row.metric]
        assert row.margin_pct == metric.quick_pct
        assert (row.together, row.sittings, row.asked) == (1, 1, 1)
        assert row.lo_pct <= row.change_pct <= row.hi_pct
        word = "cannot tell"
        if row.lo_pct > 0 or row.hi_pct < 0:
            word = metric.larger if row.lo_pct > 0 else metric.smaller
        if 1 / (1 + row.margin_pct / 100) < 1 + row.lo_pct / 100 and row.hi_pct < row.margin_pct:
            word = "same"
        assert row.verdict == word
        worse = metric.larger if metric.better == "lower" else metric.smaller
        assert row.worse == (word == worse)
    assert set(opened.judge(margin_pct=50)["margin_pct"]) == {50}


def test_one_server_is_switched_from_slice_to_slice(finished, mysql):
    assert_whole(finished, "switched")
    differs = tidy.differences(finished)
    assert differs[["variable", "asked"]].values.tolist() == [["binlog_encryption", True]]
    private = {str(finished.parents[1]), str(ENGINES)}
    for file in (mysql.folder / "client.cnf", mysql.folder / "sysbench.cnf"):
        private |= set(re.findall(r"password=(.+)", file.read_text()))
    assert len(private) == 4
    texts = [p.read_text() for p in finished.rglob("*") if p.is_file()]
    assert not [secret for secret in private if any(secret in s for s in texts)]


def test_a_finished_campaign_is_not_continued_and_another_study_neither(
    finished, home, monkeypatch
):
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(finished.parent))
    build, meta, left = engines.find("mysql"), tidy.meta(finished), []
    chosen = LONG
    assert resumable(chosen, build, left.append) is None
    unfinished = home / "runs" / finished.name
    unfinished.mkdir(parents=True)
    write_json(unfinished / "campaign.json", meta | {"finished": ""})
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(home / "runs"))
    assert resumable(chosen, build, left.append) == unfinished
    other = studies.load(replace(ASKED, question="throttled"))
    for different in (replace(chosen, margin_pct=1), other):
        assert resumable(different, build, left.append) is None
    assert resumable(chosen, replace(build, version="9.9.9"), left.append) is None
    assert left == []
    without = {k: v for k, v in meta.items() if k != "plan"}
    write_json(unfinished / "campaign.json", without | {"finished": ""})
    assert resumable(chosen, build, left.append) is None
    elsewhere = meta["host"] | {"boot": "another"}
    write_json(unfinished / "campaign.json", meta | {"finished": "", "host": elsewhere})
    assert resumable(chosen, build, left.append) is None
    assert left == [unfinished]
    (unfinished / "campaign.json").write_text("{")
    assert resumable(chosen, build, left.append) is None


def test_a_campaign_is_not_continued_with_another_seed(home):
    def begun(seed):
        asked, builds = replace(ASKED, seed=seed), {"": engines.find("mysql")}
        with course.open_campaign(LONG, builds, asked, Progress()) as campaign:
            return campaign.folder, campaign.seed

    first, second = begun(5), begun(6)
    assert (first[1], second[1]) == (5, 6)
    assert begun(5) == first
    assert begun(6) == second
    assert begun(None) == max(first, second)  # the newest


def test_a_campaign_of_another_boot_ends_with_the_blocks_that_it_has(finished, home, capsys):
    begun = shutil.copytree(finished, paths.runs() / finished.name)
    facts = tidy.meta(begun)
    host = facts["host"] | {"boot": "another"}
    write_json(begun / "campaign.json", facts | {"finished": "", "ended_because": "", "host": host})
    with course.open_campaign(LONG, {"": engines.find("mysql")}, ASKED, Progress()) as campaign:
        assert campaign.folder != begun
    said = f"{begun.name} was begun in another boot: it ends with the blocks it has"
    assert said in capsys.readouterr().err
    rows = results.load(begun).verdicts
    assert str(rows["warnings"].iloc[0]).count("ended early") == 1
    assert rows["change_pct"].to_list() == results.load(finished).verdicts["change_pct"].to_list()


@pytest.fixture
def loaded(home, monkeypatch):
    """loaded(server): campaigns copy from it, which is loaded once for all tests."""
    return lambda server: monkeypatch.setattr(loading, "templates", lambda *a: {"": server})


def test_a_budget_that_ends_before_the_declared_blocks_is_said_with_every_word(finished, printed):
    meta = tidy.meta(finished)
    assert meta["plan"]["blocks"] == 9  # what was declared stays declared
    assert meta["ended_because"] == "the budget is spent"
    table = results.load(finished).verdicts
    assert table["blocks"].between(1, 8).all()
    for row in table.itertuples():
        said = f"ended early: {row.blocks} of 9 declared blocks were measured"
        assert said in row.warnings
    shows_no_estimate(printed.getvalue())


def shows_no_estimate(said: str) -> None:
    """The plan says beforehand what half width to expect; then nobody sees how it goes."""
    (plan,) = (n for n, line in enumerate(said.splitlines()) if "noisefloor: plan: " in line)
    before, after = said.splitlines()[: plan + 1], said.splitlines()[plan + 1 :]
    assert "judged once, at the end; at most " in before[-1]
    assert re.search(r"; expected: Transactions per second ±[\d.]+ %, .* ±[\d.]+ %$", before[-1])
    assert [x for x in after if re.search(r"block \d+ of \d+, .*; \d+:\d\d left$", x)]
    words = {w for m in study.METRICS.values() for w in (m.larger, m.smaller)}
    words |= {"same", "cannot tell", "verdict", "±", "%"}
    assert not [line for line in after if any(w in line for w in words)]


@pytest.mark.slow
def test_mariadb_side_by_side(loaded, mariadb):
    loaded(mariadb)
    asked = study.Request("binlog-encryption", "headline", "smoke", "mariadb", budget_min=0.3)
    (folder,) = collect.measure_study(asked)
    assert re.fullmatch(r"binlog-encryption-headline-smoke-\d{8}-\d{6}", folder.name)
    judged = assert_whole(folder, "side by side")
    differs = tidy.differences(folder)
    assert differs[["variable", "asked"]].values.tolist() == [["encrypt_binlog", True]]
    runs = [tidy.read(r) for r in tidy.run_folders(folder)]
    warm = {}
    for facts in runs:
        idle = [v for k, v in facts["usage"].items() if k != "server"]
        if facts["warmup"]:
            warm.setdefault(facts["block"], []).append((facts["start"], facts["end"]))
            assert not idle
        else:
            assert [v["cpu_s"] < 0.001 for v in idle] == [True]  # it stands still meanwhile
    for both in warm.values():  # both servers at the same time, in every block
        (_, first), (second, _) = sorted(both)
        assert second < first
    assert set(judged["block"]) <= warm.keys()
    slices_s = sum(f["slice_s"] for f in runs if not f["warmup"])
    assert tidy.meta(folder)["slices_s"] == slices_s
    given = {"profile": "smoke", "campaign": folder.name}  # it keeps what it was made with
    assert report.open_page("binlog-encryption", given).folder == folder


@pytest.mark.slow
def test_a_restart_has_no_warm_up_slices(loaded, mysql):
    loaded(mysql)
    asked = study.Request("tablespace-encryption", "restart", "smoke")
    chosen = studies.load(asked)
    arms = [study.Arm("plain"), study.Arm("again")]
    profile = replace(chosen.profile, budget_min=0.1)  # one pair
    folder = collect.measure_campaign(
        replace(chosen, baseline=arms[0], arms=(arms[1],), profile=profile, keyring=False), asked
    )
    runs = [tidy.read(r) for r in tidy.run_folders(folder)]
    assert {f["workload_tool"] for f in runs} == {"restart"}
    assert not any(f["warmup"] for f in runs)


# -- which questions are measured ------------------------------------------------------------------


@pytest.fixture
def measured(home, monkeypatch):
    """measured(study, **asked): the studies that would be measured, in order; also in `.found`. Each
    gets the request as it was made."""

    def asks(name: str, **asked) -> list[study.Study]:
        asks.found, asks.request = [], study.Request(name, **asked)
        collect.measure_study(asks.request)
        return asks.found

    def campaign(chosen: study.Study, request: study.Request) -> Path:
        assert request is asks.request
        asks.found.append(chosen)
        return home

    asks.found = []
    monkeypatch.setattr(collect, "measure_campaign", campaign)
    return asks


def keys(found: list[study.Study]) -> list[str]:
    return [s.key for s in found]


@pytest.mark.parametrize("engine", ["mysql", "mariadb"])
def test_all_questions_are_measured_one_after_the_other(measured, engine):
    asked = {"question": "all", "profile": "smoke", "engine": engine}
    every = list(studies.questions("binlog-encryption", engine))
    assert keys(measured("binlog-encryption", **asked)) == every


@pytest.mark.parametrize("profile", ["smoke", "quick", "standard"])
def test_without_a_question_the_headline_is_measured(measured, profile):
    for name in ("binlog-encryption", "calibration"):
        assert keys(measured(name, profile=profile)) == list(studies.headline(name))


def test_a_path_is_the_build_that_lies_there(measured):
    maria, old = (str(engines.find(name).basedir) for name in ("mariadb", "mysql-8.0"))
    every = list(studies.questions("binlog-encryption", "mariadb"))
    assert keys(measured("binlog-encryption", question="all", engine=maria)) == every
    for question in ("headline", "rate"):
        (s,) = measured("version-upgrade", question=question, engine=maria, old=old)
        assert (s.baseline.engine, s.arms[0].engine) == (old, maria)
        assert s.baseline.name.startswith("MySQL 8.0")
        assert s.arms[0].name.startswith("MariaDB")
    (s,) = measured("version-upgrade", question="headline", engine=old)
    assert s.arms[0].engine == old


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"question": "cost"}, "it has: headline, rate, throttled, replica"),
        ({"question": "all", "profile": "slow"}, "profile 'slow' is not one of"),
        ({"question": "all", "server": "mysql://u@h"}, "--server takes one question at a time"),
    ],
)
def test_a_wrong_question_is_one_sentence_and_nothing_is_measured(measured, asked, says):
    with pytest.raises(study.StudyError, match="nothing was measured") as e:
        measured("binlog-encryption", **asked)
    assert says in str(e.value)
    assert measured.found == []


# -- a campaign's folder ---------------------------------------------------------------------------


def open_recorded(recorded):
    meta = planned(tidy.meta(recorded))
    return Campaign(study.study_of(meta), recorded, meta, collect.Progress())


def test_the_table_grows_with_the_runs_and_shrinks_with_what_is_set_aside(recorded):
    rows = [row for run in tidy.run_folders(recorded) for row in tidy.rows(run)]
    c = open_recorded(recorded)
    c._table, c._new = c._table[:0], []
    for n in range(0, len(rows) + 7, 7):
        c._new += rows[n : n + 7]
        pd.testing.assert_frame_equal(c.table, tidy.frame(rows[: n + 7]))
        assert c.table["run"].array.__arrow_array__().num_chunks == 1  # a day would have thousands
    assert c.table is c.table  # nothing is made anew
    c.set_aside(rows[0]["run"], "unpaired")
    left = [row for row in rows if row["run"] != rows[0]["run"]]
    pd.testing.assert_frame_equal(c.table, tidy.frame(left))


def test_half_a_pair_half_a_run_and_a_changed_run_are_set_aside(recorded, capsys):
    def run(pattern):
        return next(recorded.glob(f"*{pattern}*/run.json")).parent

    half, partial, changed = run("encrypted-p000-0"), run("encrypted-p002-0"), run("plain-again-p")
    half.rename(half.with_name(f"{half.name}.failed1"))
    partial.rename(partial.with_name(f"{partial.name}.partial"))
    (changed / "sysbench.txt").write_text("edited")
    (recorded / "campaign.json.partial").write_text("{")
    for _ in range(2):  # the second time nothing is left to do
        assert open_recorded(recorded).done() == {"in-memory-t2-encrypted": 1}
        assert not list(recorded.glob("*.partial"))
        assert len(list(recorded.glob("*.unpaired*"))) == 3
        assert len(list(recorded.glob("*.damaged*"))) == 1
    assert "was changed after the run" in capsys.readouterr().err


def test_progress_is_plain_lines_where_there_is_no_terminal(capsys):
    progress = collect.Progress()
    progress.say("one")
    progress.finish("two")
    assert capsys.readouterr().err == "noisefloor: one\nnoisefloor: two\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_shows_where_a_campaign_is_and_no_estimate(
    recorded, capsys, monkeypatch, terminal
):
    c = open_recorded(recorded)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    c.progress.show(c, "a pair")
    said = capsys.readouterr().err
    where = f"block {c.block + 1} of {len(c.turns)}, a pair"
    if terminal:  # the percentage is that of the time
        assert re.search(rf"\d+ %\|.*\| , \d+:\d\d left; {where}$", said.rstrip())
    else:
        assert re.fullmatch(rf"noisefloor: {where}; \d+:\d\d left\n", said)
    c.progress.finish("the end")
