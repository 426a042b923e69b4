"""A page of several campaigns: what it says of the questions that were answered, and of others."""

import json
import re
import shutil

import pandas as pd
import pytest

from conftest import DATA, ROOT
from noisefloor import paths
from noisefloor.data import results
from noisefloor.show import plots, report
from noisefloor.show.report import answers, verified, words
from test_report import text
from test_results import answering

COMMAND = "noisefloor run binlog-encryption --question no-sync --profile smoke"
STUDIES = {
    path.stem: book
    for path in paths.notebooks().glob("*.ipynb")
    if "report.opened(" in (book := path.read_text())
}


@pytest.fixture
def folders(home):
    """Campaigns in turn and at once, in the order of a page."""
    spent = {"spent_s": 9.6, "wall_s": 12.0, "slices_s": 9.0, "margin_pct": 5.0}
    spent |= {"plan": {"blocks": 4, "looks": [4], "control": 1, "pairs": 2, "windows": 30}}
    spent["plan"]["expected"] = {"tps": 3.21}
    paths.recorded().mkdir(parents=True)
    asked = {"turn": ("headline", "in memory"), "once": ("processor", "in memory, at once")}
    return [
        answering(DATA / "campaign", paths.recorded() / name, *of, **spent)
        for name, of in asked.items()
    ]


@pytest.fixture
def r(folders):
    return results.load(*folders)


@pytest.fixture
def early(recorded):
    """A campaign of an earlier plan, which asked everything."""
    return results.load(recorded)


def test_every_question_has_its_verdicts_or_its_command(r, early):
    said = text(report.questions(r))
    assert [words for words in r.questions.values() if words not in said] == []
    assert f"no-sync Does the cost appear where commits wait for nothing? {COMMAND}" in said
    assert "processor?" in said  # as the campaign itself asked
    assert re.search(r"processor\? .*? CPU a transaction: .* ○ not judged TPS: ", said)
    assert "asked all questions at once" in text(report.questions(early))
    shown = report.answer(r, "headline")
    assert "<svg" in shown.markup
    assert "<figcaption><span>headline? Server CPU per transaction" in shown.markup
    for opened in (r, early):
        said = text(report.answer(opened, "no-sync"))
        assert said.startswith("Not measured here. To measure it: noisefloor run binlog")
        assert "--question no-sync" in said


def test_an_answer_is_of_the_metrics_that_are_named_and_of_many_rows_over_all_threads():
    r = results.load(paths.campaign("settings-compression-standard-20261124-164310"))
    wanted = ["binlog_bytes_per_transaction", "cpu_per_transaction", "tps"]
    drawn = report.answer(r, "compression", wanted)
    assert "−45.8" in drawn.markup
    assert "−53.6" in drawn.markup  # bytes saved stay a percentage
    shown = text(drawn)
    assert "Faster: compressed at all threads" in shown
    names = [
        "Binary log per transaction. ",
        "Server CPU per transaction. ",
        "Transactions per second. ",
    ]
    assert [shown.index(n) for n in names] == sorted(shown.index(n) for n in names)
    assert "16 threads" not in shown  # 3 metrics, 3 arms, 3 thread counts
    assert "4 threads" in text(report.answer(r, "compression", wanted[:1]))


def test_who_cannot_tell_although_the_interval_excludes_zero_says_why():
    r = results.load(paths.campaign("version-upgrade-thread-pool-standard-20261124-155822"))
    assert "CPU a transaction: between 0.3 and 7.7 % less; too few blocks (10)" in text(
        report.questions(r)
    )


def test_plan_and_outcome_stand_beside_each_other(r, early):
    said = text(report.outcome(r))
    assert "headline switched, 1 of 4 blocks, 2 pairs each" in said
    assert "processor at once, 1 of 4 blocks, 30 windows each" in said
    assert "TPS: expected 3.2 %" in said
    assert "budgeted 0.16, measured 0.16, elapsed 0.2 75 %" in said
    asked = "What does encrypting the binary log cost?"
    assert f"{asked} switched, 1 block TPS: not known budgeted 0.16" in text(report.outcome(early))


def test_a_page_of_several_machines_names_each_beside_its_question():
    names = ("headline-standard-20261125-015327", "restart-standard-20261124-201334")
    found = [paths.campaign(f"tablespace-encryption-{n}") for n in names]
    two = results.load(*found)
    rows = text(report.outcome(two)).split("restart side by side")
    assert "Intel" in rows[0]
    assert "AMD" in rows[1]
    assert "Intel" not in rows[1]
    box = dict(words.where(two.meta))["Machine"]
    assert box.startswith("Intel")
    assert "; other questions: AMD" in box
    one = results.load(found[0])
    assert dict(words.where(one.meta))["Machine"] == box.split("; ")[0]
    assert "GiB" not in text(report.outcome(one))  # it is named in the box


def test_a_page_about_two_pairs_of_builds_keeps_their_machines_apart():
    pair = ("headline-standard-20261125-022441", "mariadb-standard-20261126-090000")
    r = results.load(*(paths.campaign(f"version-upgrade-{n}") for n in pair))
    reached = text(report.absolute(r))
    intel, amd = reached.index("Intel"), reached.index("AMD")
    assert reached.index("MySQL 9.7") < reached.rindex("Intel") < amd < reached.index("MariaDB")
    assert intel < reached.index("MySQL 8.0")
    (also,) = r.also()
    assert also["does"] == "going from MariaDB 10.11.19 to 11.8"
    assert "MariaDB 10.11.19" in words.headline(also)


def test_what_the_arms_reached_is_told_in_units(early):
    values = early.judged(early.main, "tps").query("arm == 'encrypted'")["value"]
    said = text(report.absolute(early))
    assert "Transactions per second, TPS" in said
    assert "Server CPU per transaction, ms" in said
    assert f"encrypted {len(values)} {answers.cell(float(values.median()))} (" in said
    assert "again" not in said  # the control is no arm


def test_what_the_cipher_alone_costs_is_told_beside_what_was_measured(early):
    assert report.expectation(early) is None  # none was timed
    told = {"cipher": {"name": "aes-256-ctr", "bytes": "binlog_bytes_per_transaction"}}
    vars(early)["meta"] = early.meta | told | {"cipher_B_per_s": [8e9, 8.5e9, 9.9e9]}
    vars(early).pop("study", None)
    (row,) = early.expectation().to_dict("records")
    plain = early.judged(early.main).query("arm == 'plain'")
    plain = plain.groupby("metric")["value"].median()
    seconds = plain["binlog_bytes_per_transaction"] / 8.5e9
    assert row["expected_pct"] == pytest.approx(100 * seconds / plain["cpu_per_transaction"])
    said = text(report.expectation(early))
    assert said.startswith("Expected of aes-256-ctr alone: ")
    assert "at 8,500 MB/s (openssl speed, on this machine)" in said


@pytest.mark.parametrize(
    ("given", "margin", "more"),
    [
        ({"engine": "mysql"}, 5.0, ""),
        ({"engine": "mariadb"}, 5.0, " --engine mariadb"),
        ({"engine": "/home/me/build"}, 5.0, " --engine FOLDER"),
        ({"old": "mariadb"}, 3.0, " --old mariadb --margin 3"),
    ],
)
def test_the_command_measures_what_fits_on_the_page(home, given, margin, more):
    folder = answering(
        DATA / "campaign", home / "a", "headline", parameters=given, margin_pct=margin
    )
    assert answers.command(results.load(folder), "no-sync") == COMMAND + more


def test_a_figure_takes_words_and_data_from_its_rows(r):
    rows = r.costs("in memory")
    shown = report.figure(plots.dots(rows), rows, "costs", alt="Two costs.")
    assert "Two costs. Server CPU per transaction at 2 threads" in shown.text
    assert 'download="costs.csv"' in shown.markup
    assert "Transactions per second at 2 threads: cannot tell" in text(shown)
    own = pd.DataFrame({"x": [1]})
    assert "1 row)" in report.figure(plots.dots(rows), rows, "costs", "Own.", data=own).markup
    none = r.of("nothing")
    assert "Not measured here" in report.figure(plots.dots(none), none, "empty").markup


def test_a_page_begins_with_both_costs_and_ends_with_what_differs(r):
    said = text(report.begin(r))
    assert said.index("Processor time") < said.index("Throughput")
    facts = json.loads((paths.processed() / "binlog-encryption.json").read_text())
    assert facts["campaigns"] == {"campaign": "turn, once"}
    assert list(facts["raw"]) == ["data/raw/recorded/turn", "data/raw/recorded/once"]
    assert [row["question"] for row in facts["leads"]] == ["processor", "headline"]
    said = text(report.provenance(r))
    assert "campaign headline = turn , processor = once" in said
    assert said.count("seed") == 1


def test_a_page_of_several_campaigns_repeats_from_its_raw_files(folders):
    (paths.root() / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / "binlog-encryption.ipynb", paths.notebooks())
    (paths.root() / "environment.yml").touch()
    ((study, values, _),) = report.plan(["binlog-encryption"], "recorded")
    page = report.render(study, values)
    assert COMMAND in page.read_text()
    found = verified.verify(page)
    assert found["equal"], found["differences"][:3]
    assert found["files"] > 40  # of both campaigns
    (next(folders[1].glob("in-memory*")) / "sysbench.txt").write_text("edited")
    found = verified.verify(page)
    assert any(problem.startswith("once: ") for problem in found["raw"])
    assert "data/raw/recorded/once is not as it was when the page was made" in found["raw"]


# -- behind the answers ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_page_has_the_same_parts_in_the_same_order(name):
    book = STUDIES[name]
    parts = ("report.begin(r", "report.absolute(r)", "report.comparisons(r)", "report.details(r)")
    assert [book.count(p) for p in parts] == [1, 1, 1, 1]
    assert [book.index(p) for p in parts] == sorted(book.index(p) for p in parts)
    first = re.search(r"report\.(overhead|dots|figure|answer)\(", book).start()
    assert book.index("report.absolute(r)") < first  # units before any percentage
    assert book.count("report.transfers(r") == (name != "own-study")
    assert "report.provenance" not in book


def test_a_comparison_stands_once_on_the_page(early):
    vars(early)["verdicts"] = early.verdicts.assign(lo_pct=-1.0, hi_pct=1.0)
    shown = report.comparisons(early).markup
    first, _, rest = shown.partition('<details class="nf-more">')
    assert first.count("<tr") + rest.count("<tr") >= len(early.verdicts)
    assert "Transactions per second" in first
    assert "Binary log per transaction" not in first
    assert "Binary log per transaction" in rest


def test_what_is_folded_is_there_and_nothing_folds_to_nothing(early):
    assert report.fold("empty", None) is None
    details = report.details(early).markup
    for title in ("Settings of each arm", "Proof that each arm", f"Every run ({len(early.runs)})"):
        assert f"<summary>{title}" in details
    assert f"--seed {early.meta['seed']}" in details
    assert "noisefloor run binlog-encryption" in details
    settings = text(report.settings(early))
    assert "binlog_encryption OFF ON" in settings
    assert "sync_binlog 1 1" in settings


def test_what_transfers_is_made_from_the_campaign(early):
    rows = early.verdicts.copy()
    cpu = (rows["metric"] == "cpu_per_transaction") & ~rows["control"]
    rows.loc[cpu, ["overhead_pct", "lo_pct", "hi_pct"]] = [10.0, 4.0, 16.0]
    vars(early)["verdicts"] = rows
    base = early.judged(early.main, "cpu_per_transaction")
    base = 1e6 * base[base["arm"] == "plain"]["value"].median()
    said = text(report.transfers(early))
    assert f"encrypted: +{answers.cell(float(f'{base / 10:.3g}'))} µs a transaction" in said
    assert "Divide it by the processor time of a transaction of yours" in said
    assert early.meta["host"]["cpu"] in said
    assert "A file beside the server" in said
    few = early.judged(early.main, "tps")
    more = pd.concat([few, few.assign(threads=64)])  # as fast with more threads: saturated
    vars(early)["_judged"] = more.astype({"threads": "Int64"})
    assert "2 and 64 threads reach the same throughput" in text(report.transfers(early))


def test_a_page_leads_with_what_is_done(early):
    row = early.headlines()[0]
    assert row["does"] == "encrypting the binary log"


def test_latency_is_shown_where_it_has_percentiles():
    """The thread count of the other figures is too busy for any: 30 transactions a client are
    needed."""
    upgrade = paths.campaign("version-upgrade-headline-standard-20261123-002110")
    found = results.load(upgrade)
    assert found.threads == 200
    assert "at 64 threads" in text(report.latency(found))
    assert found.quantiles(found.main, 200).empty
