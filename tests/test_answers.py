"""A page of several campaigns: what it says of the questions that were answered, and of the others."""

import json
import re
import shutil

import pandas as pd
import pytest

from conftest import DATA, ROOT
from noisefloor import paths, plots, report, results
from noisefloor.report import answers, verified
from test_results import answering

COMMAND = "noisefloor run binlog-encryption --question no-sync --profile smoke"


@pytest.fixture
def folders(home):
    """Campaigns in turn and at once, in the order of a page."""
    spent = {"spent_s": 9.6, "wall_s": 12.0, "slices_s": 9.0}
    spent |= {"plan": {"blocks": 4, "looks": [4], "control": 1, "pairs": 2, "windows": 30}}
    spent["plan"]["expected"] = {"tps": 3.21}
    paths.recorded().mkdir(parents=True)
    return [
        answering(DATA / "campaign", paths.recorded() / "turn", "headline", margin_pct=5.0, **spent),
        answering(
            DATA / "campaign", paths.recorded() / "once", "processor", "in memory, at once",
            margin_pct=5.0, **spent,
        ),
    ]  # fmt: skip


@pytest.fixture
def r(folders):
    return results.load(*folders)


def text(shown):
    said = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", shown.markup)).replace("\u202f", " ")
    return said.replace(" .", ".").strip()


def test_every_question_has_its_verdicts_or_its_command(r):
    said = text(report.questions(r))
    for words in r.questions.values():
        assert words in said
    assert f"no-sync Does the cost appear where commits wait for nothing? {COMMAND}" in said
    assert "processor?" in said  # as the campaign itself asked
    assert re.search(r"processor\? .*? CPU a transaction: .* ○ not judged TPS: ", said)


def test_a_campaign_that_asked_everything_says_so(recorded):
    assert "asked all questions at once" in text(report.questions(results.load(recorded)))
    said = text(report.outcome(results.load(recorded)))
    asked = "What does encrypting the binary log cost?"
    assert f"{asked} switched, 1 block, 2 pairs each TPS: not known budgeted 0.16" in said


def test_plan_and_outcome_stand_beside_each_other(r):
    said = text(report.outcome(r))
    assert "headline switched, 1 of 4 blocks, 2 pairs each" in said
    assert "processor at once, 1 of 4 blocks, 30 windows each" in said
    assert "TPS: expected 3.2 %" in said
    assert "budgeted 0.16, measured 0.16, elapsed 0.2 75 %" in said


def test_what_the_arms_reached_is_told_in_units_before_any_percentage(recorded):
    opened = results.load(recorded)
    shown = report.absolute(opened)
    assert "Transactions per second, TPS" in shown.markup
    assert "Server CPU per transaction, ms" in shown.markup
    values = opened.judged(opened.main, "tps")
    values = values[values["arm"] == "encrypted"]["value"]
    said = text(shown)
    assert f"encrypted {len(values)} {answers.cell(float(values.median()))} (" in said
    assert "again" not in said  # the control is no arm
    notebooks = [p.read_text() for p in paths.notebooks().glob("*.ipynb")]
    studies = [t for t in notebooks if "report.begin(r" in t]
    assert len(studies) == 7
    assert all(0 < t.index("report.absolute(r)") < t.index("plots.") for t in studies)


def test_what_the_cipher_alone_costs_is_told_beside_what_was_measured(recorded):
    opened = results.load(recorded)
    assert report.expectation(opened) is None  # none was timed
    told = {"cipher": {"name": "aes-256-ctr", "bytes": "binlog_bytes_per_transaction"}}
    vars(opened)["meta"] = opened.meta | told | {"cipher_B_per_s": [8e9, 8.5e9, 9.9e9]}
    vars(opened).pop("study", None)
    (row,) = opened.expectation().to_dict("records")
    plain = opened.judged(opened.main).query("arm == 'plain'")
    plain = plain.groupby("metric")["value"].median()
    seconds = plain["binlog_bytes_per_transaction"] / 8.5e9
    assert row["expected_pct"] == pytest.approx(100 * seconds / plain["cpu_per_transaction"])
    said = text(report.expectation(opened))
    assert said.startswith("Expected of aes-256-ctr alone: ")
    assert "at 8,500 MB/s (openssl speed, on this machine)" in said


def test_an_answer_is_a_figure_or_a_command(r, recorded):
    shown = report.answer(r, "headline")
    assert "<svg" in shown.markup
    assert "<figcaption><span>headline? Server CPU per transaction" in shown.markup
    for opened in (r, results.load(recorded)):
        said = text(report.answer(opened, "no-sync"))
        assert said.startswith("Not measured here. To measure it: noisefloor run binlog")
        assert "--question no-sync" in said


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


def test_a_figure_without_rows_is_a_sentence(r):
    rows = r.of("nothing")
    assert "Not measured here" in report.figure(plots.dots(rows), rows, "empty").markup


def test_a_figure_takes_words_and_data_from_its_rows(r):
    rows = r.costs("in memory")
    shown = report.figure(plots.dots(rows), rows, "costs", alt="Two costs.")
    assert "Two costs. Server CPU per transaction at 2 threads" in shown.text
    assert 'download="costs.csv"' in shown.markup
    assert "Transactions per second at 2 threads: cannot tell" in text(shown)
    own = pd.DataFrame({"x": [1]})
    assert "1 row)" in report.figure(plots.dots(rows), rows, "costs", "Own.", data=own).markup


def test_a_page_begins_with_both_costs(r):
    shown = report.begin(r)
    said = text(shown)
    assert said.index("Processor time") < said.index("Throughput")
    facts = json.loads((paths.processed() / "binlog-encryption.json").read_text())
    assert facts["campaigns"] == {"campaign": "turn, once"}
    assert list(facts["raw"]) == ["data/raw/recorded/turn", "data/raw/recorded/once"]
    assert [row["question"] for row in facts["leads"]] == ["processor", "headline"]


def test_provenance_says_what_differs_between_campaigns(r):
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


def test_every_study_page_has_the_same_parts_in_the_same_order():
    parts = ("report.begin(r", "report.absolute(r)", "report.comparisons(r)", "report.details(r)")
    for path in paths.notebooks().glob("*.ipynb"):
        text = path.read_text()
        if "report.begin(r" in text:
            assert [text.count(p) for p in parts] == [1, 1, 1, 1], path.name
            assert [text.index(p) for p in parts] == sorted(text.index(p) for p in parts)
            if path.stem != "own-study":
                assert text.count("report.transfers(r)") == 1, path.name
            assert "report.provenance" not in text


def test_a_comparison_stands_once_on_the_page(recorded):
    opened = results.load(recorded)
    vars(opened)["verdicts"] = opened.verdicts.assign(lo_pct=-1.0, hi_pct=1.0)
    shown = report.comparisons(opened).markup
    first, _, rest = shown.partition('<details class="nf-more">')
    assert first.count("<tr") + rest.count("<tr") >= len(opened.verdicts)
    assert "Transactions per second" in first
    assert "Binary log per transaction" not in first
    assert "Binary log per transaction" in rest


def test_what_is_folded_is_there_and_nothing_folds_to_nothing(recorded):
    opened = results.load(recorded)
    assert report.fold("empty", None) is None
    details = report.details(opened).markup
    for title in ("Settings of each arm", "Proof that each arm", f"Every run ({len(opened.runs)})"):
        assert f"<summary>{title}" in details
    assert f"--seed {opened.meta['seed']}" in details
    assert "noisefloor run binlog-encryption" in details
    settings = text(report.settings(opened))
    assert "binlog_encryption OFF ON" in settings
    assert "sync_binlog 1 1" in settings


def test_what_transfers_is_made_from_the_campaign(recorded):
    opened = results.load(recorded)
    rows = opened.verdicts.copy()
    cpu = (rows["metric"] == "cpu_per_transaction") & ~rows["control"]
    rows.loc[cpu, ["overhead_pct", "lo_pct", "hi_pct"]] = [10.0, 4.0, 16.0]
    vars(opened)["verdicts"] = rows
    base = opened.judged(opened.main, "cpu_per_transaction")
    base = 1e6 * base[base["arm"] == "plain"]["value"].median()
    said = text(report.transfers(opened))
    assert f"encrypted: +{answers.cell(float(f'{base / 10:.3g}'))} µs a transaction" in said
    assert "Divide it by the processor time of a transaction of yours" in said
    assert opened.meta["host"]["cpu"] in said
    assert "A file beside the server" in said
    few = opened.judged(opened.main, "tps")
    more = pd.concat([few, few.assign(threads=64)])  # as fast with more threads: saturated
    vars(opened)["_judged"] = more.astype({"threads": "Int64"})
    assert "2 and 64 threads reach the same throughput" in text(report.transfers(opened))


@pytest.mark.parametrize(
    ("metric", "verdict", "said"),
    [
        ("tps", "slower", "Encrypting the binary log costs throughput."),
        ("tps", "faster", "Encrypting the binary log brings throughput."),
        ("tps", "cannot tell", "Cannot tell whether encrypting the binary log costs throughput: "),
        ("cpu_per_transaction", "slower", "Encrypting the binary log costs processor time."),
        (
            "cpu_per_transaction",
            "same",
            "Encrypting the binary log makes no difference to processor",
        ),
    ],
)
def test_a_page_says_what_is_done_and_what_it_costs(recorded, metric, verdict, said):
    opened = results.load(recorded)
    row = next(r for r in opened.headlines() if r["metric"] == metric)
    row["verdict"], row["lo_pct"], row["hi_pct"] = verdict, -1.0, 3.0
    assert report.headline(row).startswith(said)
