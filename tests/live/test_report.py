"""Pages are rendered as users do it, from small notebooks in a project of their own."""

import json
import math
import re
import shutil
import subprocess
import tomllib
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest

import test_plots
from conftest import COMMAND, DATA, alive, done, moved, until
from noisefloor import paths
from noisefloor.show import report
from noisefloor.show.markup import csv_data
from noisefloor.show.report import layout, site, statement, words
from noisefloor.show.rows import arm_label
from noisefloor.text import amounts
from noisefloor.text.reasons import Reason, Why


def whole(table, **more):
    """A verdict table of the figures' tests with what a page says besides."""
    known = {"n_baseline": 12, "n_arm": 12, "blocks": 3, "together": 1, "restarted": ""}
    known |= {"runs_needed": 40, "minutes_needed": 6.5, "design": "side by side"}
    known |= {"warnings": [], "next_lo_pct": math.nan, "next_hi_pct": math.nan} | more
    return table.assign(**{name: [value] * len(table) for name, value in known.items()})


def verdicts(rows, **more):
    """A verdict table from (metric, threads, arm, change, half width, verdict) tuples."""
    return whole(test_plots.verdicts(rows), **more)


TABLE = whole(test_plots.TABLE)
PARAMETERS = (
    'campaign = ""  # a recorded campaign\n'
    "threads = [1, 4]\n"
    "margin_pct = 2.0  # in percent\n"
    "loud = False\n"
    'where = "a=b"  # has an equals sign\n'
    "counts = []  # such as [1, 4]; empty: all\n"
    "arms = []\n"
)


def write(folder, name, cells, parameters=PARAMETERS):
    """A notebook of code cells (text beginning with '#' is Markdown) under `folder`/notebooks."""
    v4 = nbformat.v4
    book = v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python"}})
    if parameters:
        book.cells.append(v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    for cell in cells:
        new = v4.new_markdown_cell if cell.startswith("#") else v4.new_code_cell
        book.cells.append(new(cell))
    nbformat.write(book, folder / "notebooks" / f"{name}.ipynb")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A project folder of its own, so that no test touches the real one."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "notebooks").mkdir()
    (folder / "environment.yml").touch()
    TABLE.to_pickle(folder / "table.pkl")
    with moved(folder):
        yield folder


STUDY = (
    "# What does it cost?\n\nA question with an answer.",
    "import os, pathlib\nimport pandas as pd\n"
    "from noisefloor.notebook import paths, plots, report\n"
    "plots.theme(['plain', 'plain again', 'encrypted'])\n"
    "table = pd.read_pickle(paths.root() / 'table.pkl')\n"
    "print('measured in', pathlib.Path.cwd(), pathlib.Path.home() / 'x')",
    "## The verdict",
    "where = {'host': {'cpu': 'Epyc', 'cores': 2}, 'finished': '2026-11-20T22:10'}\n"
    "report.verdict_box(table, where)",
    "## Threads",
    "plots.show(plots.threads_figure(table), alt=plots.alt(table), caption='Threads.', data=table)",
    "## Threads",
    "report.verdict_table(table)",
    "table.head()",
    "report.provenance({'campaign': 'c', 'parameters': {'threads': threads}, 'seed': 7})",
    "report.save(table, 'good', {'finished': '2026-11-20T22:10'})",
)


@pytest.fixture(scope="module")
def page(home):
    write(home, "good", STUDY)
    return report.render("good", {"threads": "2,8"}).read_text()


def text(shown):
    """What a piece of a page, or a page, says, in the characters that every terminal has."""
    said = re.sub("<[^>]+>", " ", getattr(shown, "markup", shown))
    return amounts.ascii_only(re.sub(r"\s+", " ", said)).strip()


def row(**changes):
    return verdicts([("tps", 16, "encrypted", 0.8, 2.0, "cannot tell")], **changes).iloc[0]


def box(table=TABLE, **options):
    return text(report.verdict_box(table, **options))


# --- words --------------------------------------------------------------------------------------

SENTENCES = tomllib.loads((DATA / "sentences.toml").read_text())["case"]


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case["about"])
def test_a_row_becomes_a_sentence_and_a_headline(case):
    changed = row(**case.get("row", {}))
    said = amounts.ascii_only(report.sentence(changed))
    assert said == case.get("sentence", said)
    assert amounts.ascii_only(report.headline_of(changed)).startswith(case.get("headline", ""))


@pytest.mark.parametrize(
    ("slower", "said"),
    [
        ((1,), "Slower: 1 thread. Cannot tell: the other 5 (LIMITS)."),
        ((1, 2, 4), "Slower: 1, 2, 4 threads. Cannot tell: 8, 16, 32 threads (LIMITS)."),
        ((), "Cannot tell: all 6 (LIMITS)."),
    ],
)
def test_a_caption_names_the_few_and_counts_the_many(slower, said):
    words = {t: "slower" if t in slower else "cannot tell" for t in (1, 2, 4, 8, 16, 32)}
    rows = verdicts([("tps", t, "encrypted", -1.0, 2.0, word) for t, word in words.items()])
    said = said.replace("LIMITS", "between 1.0 % faster and 3.0 % slower")
    start = f"Transactions per second. {said}"
    assert amounts.ascii_only(report.finding(rows)) == start
    bare = rows.assign(lo_pct=rows["lo_pct"].where(rows["threads"] > 2))
    assert amounts.ascii_only(report.finding(bare)).endswith(
        " For 2 of the 6 too few pairs for an interval."
    )
    full = [[Reason(Why.SATURATED, full=3, windows=20)]] * len(bare)
    assert "too few pairs" not in report.finding(bare.assign(warnings=full))
    six = rows.assign(together=6)
    assert report.finding(six).endswith(" Intervals: 95 % for all of them together.")
    two = pd.concat([six, six.assign(metric="cpu_per_transaction")], ignore_index=True)
    assert report.finding(two).endswith(" Intervals: 95 % for all of one metric together.")


def test_a_caption_says_which_rows_have_no_word_yet():
    rows = [("tps", t, "encrypted", -1.0, 2.0, "provisional") for t in (1, 2, 4)]
    table = verdicts(rows, asked=3, warnings=["provisional, boot 1 of 3", "ended early"])
    said = "Transactions per second. Provisional, boot 1 of 3: 1, 2, 4 threads."
    assert report.finding(table) == said


def test_a_row_without_a_word_has_an_empty_cell_and_its_numbers():
    rows = [("mean_latency", t, "encrypted", 9.0 + t, 2.0, "") for t in (1, 2, 4)]
    table = verdicts(rows, known="")
    assert report.finding(table) == "Mean latency. Without a verdict: 1, 2, 4 threads."
    shown = report.verdict_table(table)
    assert "nf-badge" not in shown.markup
    assert shown.markup.count("<td></td>") == 3
    assert " 1 +10.0 % +8.0 to +12.0 % " in text(shown)
    r = Rows(("EPYC", table))
    said = amounts.ascii_only(report.headline_of(r.verdicts.iloc[0], r))
    size = "+10.0 to +13.0 % mean latency at 1, 2 and 4 threads (+8.0 to +15.0 %)"
    assert said == f"Encrypted against plain: {size}."
    assert [row["verdict"] for row in report.records(table)] == 3 * [""]


def test_a_caption_of_one_arm_and_thread_count_has_the_word_alone():
    many = [("cpu_per_transaction", t, "encrypted", 9.0, 2.0, "more") for t in (1, 2, 4, 64)]
    table = verdicts([*many, ("p95", 64, "encrypted", 9.0, 2.0, "slower")])
    assert report.finding(table).endswith(" 95th percentile latency at 64 threads. Slower.")


# --- a statement over thread counts and processors -----------------------------------------------


class Rows:
    """Rows in the place of results."""

    def __init__(self, *tables):
        self.by_processor = {}
        tables = [t.assign(question="q", processor=on) for on, t in tables]
        self.verdicts = pd.concat(tables, ignore_index=True)


def at(changes, word="cannot tell", metric="tps", **more):
    """Rows of thread counts: {threads: change} or {threads: (change, verdict)}."""
    both = {t: c if isinstance(c, tuple) else (c, word) for t, c in changes.items()}
    return verdicts([(metric, t, "encrypted", c, 2.0, w) for t, (c, w) in both.items()], **more)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (
            [("EPYC", at({64: (7.0, "faster"), 200: 0.5, 500: 1.0}))],
            "Encrypted gives 7.0 % more TPS than plain at 64 threads (5.0 to 9.0 %), no difference"
            " seen at 200 and 500 threads (-1.5 to +3.0 %).",
        ),
        (
            [("EPYC", at({1: (-4.0, "slower"), 4: (-6.5, "slower")}))],
            "Encrypted gives 4.0 to 6.5 % fewer TPS than plain at 1 and 4 threads (2.0 to 8.5 %).",
        ),
        (
            [("EPYC", at({1: 0.5, 4: 1.5}))],
            "Cannot tell how encrypted differs from plain in TPS at 1 and 4 threads: between 3.5 %"
            " faster and 1.5 % slower. A campaign 3.3 times as long (6 minutes of measuring) would"
            " decide it.",
        ),
        (
            [("EPYC", at({4: (-4.0, "slower")})), ("Xeon", at({4: (-7.0, "slower")}))],
            "Encrypted gives 4.0 % fewer TPS than plain at 4 threads on EPYC (2.0 to 6.0 %), 7.0 %"
            " fewer on Xeon (5.0 to 9.0 %).",
        ),
        (
            [
                ("EPYC, model not recorded", at({4: 760.0}, "more", "cpu_per_connection")),
                ("EPYC 25/1/1", at({4: 1150.0}, "more", "cpu_per_connection")),
            ],
            "Encrypted takes 8.6 times the CPU per connection of plain at 4 threads on EPYC, model not"
            " recorded (8.6 to 8.6 times), 12.5 times on EPYC (family 25, model 1,"
            " stepping 1) (12.5 to 12.5 times).",
        ),
        (
            [
                ("EPYC", at({4: -1.0}, "same")),
                ("Xeon", at({1: (-7.0, "slower"), 4: 0.5})),
            ],
            "Encrypted or plain makes no difference to TPS that matters at 4 threads on EPYC (-3.0 to"
            " +1.0 %); 7.0 % fewer TPS at 1 thread on Xeon (5.0 to 9.0 %), no difference seen at 4"
            " threads (-1.5 to +2.5 %).",
        ),
        (
            [("EPYC", at({1: -3.0, 4: 2.0}, "provisional", asked=3))],
            "Encrypted against plain: -3.0 % TPS at 1 thread (-5.0 to -1.0 %, provisional, boot 1 of"
            " 3), between 4.0 % faster and no change at 4 threads.",
        ),
        (
            [
                ("EPYC", at({4: -1.0}, "provisional", asked=3)),
                ("Xeon", at({4: 5.0}, "provisional", asked=3).assign(lo_pct=-9.0)),
            ],
            "Encrypted against plain, TPS at 4 threads: cannot tell, between 7.0 %"
            " faster and 9.0 % slower (provisional, boot 1 of 3).",
        ),
        (
            [
                ("EPYC", at({4: -1.0}, "provisional", asked=3, margin_pct=3.0)),
                ("Xeon", at({4: 1.0}, "provisional", asked=3, margin_pct=3.0)),
            ],
            "Encrypted against plain: no difference that matters so far in TPS at 4 threads,"
            " between 3.0 % faster and 3.0 % slower (provisional, boot 1 of 3).",
        ),
        (
            [
                ("EPYC", at({4: (-7.0, "slower")})),
                ("Xeon", at({4: (-9.0, "slower")})),
                ("Graviton", at({4: (-8.0, "slower")})),
            ],
            "Encrypted gives 7.0 to 9.0 % fewer TPS than plain at 4 threads on EPYC, Graviton and Xeon"
            " (5.0 to 11.0 %).",
        ),
    ],
    ids=[
        "two words",
        "one word",
        "none",
        "two processors",
        "times",
        "words apart",
        "provisional",
        "not yet on two",
        "inside the margin on both",
        "three processors",
    ],
)
def test_a_headline_never_has_a_word_over_counts_or_processors_that_differ(tables, said):
    r = Rows(*tables)
    assert amounts.ascii_only(report.headline_of(r.verdicts.iloc[0], r)) == said


@pytest.mark.parametrize(
    ("change", "half", "ends"),
    [
        (9.0, 20.0, "TPS: cannot tell, between 29.0 % faster and 11.0 % slower."),
        (9.0, 2.0, "TPS on EPYC: cannot tell, between 1.0 % faster and 3.0 % slower."),
    ],
)
def test_the_second_cost_is_that_of_both_processors_or_names_its_own(change, half, ends):
    rows = [("cpu_per_transaction", 4, "encrypted", 5.0, 1.0, "more")]
    rows.append(("tps", 4, "encrypted", -1.0, 2.0, "provisional"))
    there = [rows[0], ("tps", 4, "encrypted", change, half, "provisional")]
    r = Rows(("EPYC", verdicts(rows, asked=3)), ("Xeon", verdicts(there, asked=3)))
    first, second = (r.verdicts.loc[n] for n in (0, 1))
    said = amounts.ascii_only(report.headline_of(second, r, brief=True, after=first))
    assert said == ends


def test_a_joint_row_speaks_for_the_thread_counts_that_it_names():
    table = at({1: -4.0, 4: -5.0, pd.NA: -4.5}, "slower")
    r = Rows(("EPYC", table))
    said = amounts.ascii_only(report.headline_of(r.verdicts.iloc[2], r))
    over = "averaged over 1 and 4 threads"
    assert said == f"Encrypted gives 4.5 % fewer TPS than plain {over} (2.5 to 6.5 %)."


# --- pieces -------------------------------------------------------------------------------------


def test_the_box_tells_both_costs_then_what_to_do_and_how_often_it_was_measured():
    rows = [
        ("cpu_per_transaction", 4, "encrypted", 14.0, 3.0, "more"),
        ("tps", 4, "encrypted", 1.0, 3.0, "provisional"),
        ("tps", 16, "encrypted", 1.0, 3.0, "cannot tell"),
    ]
    table = verdicts(rows, next_lo_pct=-2.0, next_hi_pct=4.0)
    table.at[1, "asked"] = 3
    leads = [table.loc[n] for n in range(3)]
    shown = report.verdict_box(table, WHERE, primary=leads[:2], answer="And 7 % more.")
    said = text(shown)
    order = (
        "✗ Encrypted takes 14.0 % more CPU",
        "TPS: cannot tell, between 4.0 % faster and",
    )
    order += ("And 7 % more.", "Measured 12 pairs: 2026-11-20, AMD EPYC, 2 cores, MySQL 9.7.4.")
    assert [said.index(words) for words in order] == sorted(said.index(words) for words in order)
    assert "boots" not in said  # the first row, which has its word, says how often
    assert '<p class="nf-answer">Measured 12 pairs' in shown.markup  # in the size of the answers
    assert "Provisional, boot 1 of 3" in box(table, primary=[leads[1]])
    doubted = [row.copy() for row in leads[::2]]
    for row, own in zip(doubted, ("much", "more"), strict=True):
        row["warnings"] = ["of both", own]
    said = box(table, primary=doubted)
    assert "of both Processor time: much Throughput: more" in said
    assert "Processor time" not in box(table, primary=leads[:1])


def test_a_box_without_a_row_that_leads_says_where_it_was_measured():
    said = box(campaign=WHERE, primary=[], answer="Nothing leads")
    assert said == "Nothing leads. 2026-11-20, AMD EPYC, 2 cores, MySQL 9.7.4"


def test_the_box_has_a_word_for_each_thread_count_where_none_stands_for_all():
    r = Rows(("EPYC", at({64: (7.0, "faster"), 200: 0.5, 500: 1.0})))
    said = amounts.ascii_only(report.headline_of(r.verdicts.iloc[2], r, brief=True))
    assert "at 64 threads (5.0 to 9.0 %), no difference seen at 200 and 500 threads" in said


def test_the_worst_and_the_best_case_are_named_beside_the_first_cost():
    rows = [
        ("cpu_per_transaction", 4, "encrypted", 5.0, 1.0, "more"),
        ("cpu_per_transaction", 8, "encrypted", 5.5, 1.0, "more"),
        ("cpu_per_transaction", 16, "encrypted", 12.0, 2.0, "more"),
        ("cpu_per_transaction", 64, "encrypted", 1.0, 1.0, "same"),
        ("cpu_per_transaction", 4, "other", 90.0, 1.0, "more"),
    ]
    r = Rows(("EPYC", verdicts(rows)))
    lead = r.verdicts.loc[0]
    vars(r)["verdicts"] = r.verdicts.assign(workload=["lead", "near", "writes", "reads", "writes"])
    lead = r.verdicts.loc[0]
    said = amounts.ascii_only(statement.headline_of(lead, r, brief=True))
    cases = "at 16 threads (writes) possibly +14.0 %, best +1.0 % at 64 threads (reads)"
    assert said.endswith(f"at 4 threads (4.0 to 6.0 %), {cases}.")
    said = amounts.ascii_only(statement.headline_of(lead, r, brief=True, after=lead))
    assert said.endswith(f", {cases}.")
    vars(r)["verdicts"] = r.verdicts.loc[[0, 1, 4]]
    assert (
        amounts.ascii_only(statement.extremes(lead, r)[1]) == "at 8 threads (near) possibly +6.5 %"
    )
    vars(r)["verdicts"] = r.verdicts.loc[[0, 4]]
    assert statement.extremes(lead, r) == (6.0, "")


def test_the_worst_case_of_another_processor_is_named_too():
    row = ("cpu_per_transaction", 4, "encrypted")
    here, there = [(*row, 5.0, 1.0, "more")], [(*row, 5.0, 1.0, "more")]
    there.append(("cpu_per_transaction", 8, "encrypted", 9.0, 1.0, "more"))
    r = Rows(("EPYC", verdicts(here)), ("Xeon", verdicts(there)))
    r.verdicts["workload"] = ["lead", "lead", "writes"]
    said = amounts.ascii_only(statement.extremes(r.verdicts.loc[0], r)[1])
    assert said == "at 8 threads (writes) on Xeon possibly +10.0 %"


@pytest.mark.parametrize(
    ("processors", "names"),
    [
        (["AMD EPYC 25/1/1"], ["AMD EPYC"]),
        (["AMD EPYC 25/1/1", "Intel Xeon 6/106/6"], ["AMD EPYC", "Intel Xeon"]),
        (["AMD EPYC 25/1/1", "AMD EPYC 23/1/2"], ["Zen 3", "Zen 1"]),
        (
            ["AMD EPYC 25/1/1", "AMD EPYC 25/1/2", "AMD EPYC 99/1/1"],
            [f"AMD EPYC (family {n})" for n in ("25, model 1, stepping 1", "25, model 1, stepping 2",
                                                "99, model 1, stepping 1")],
        ),
        (["AMD EPYC, model not recorded", "AMD EPYC 25/1/1"],
         ["AMD EPYC, model not recorded", "Zen 3"]),
    ],
)  # fmt: skip
def test_a_processor_is_named_as_briefly_as_tells_it_from_others(processors, names):
    assert words.short_names(processors) == dict(zip(processors, names, strict=True))


def test_the_worst_case_at_another_rate_is_named_by_the_rate_and_is_what_to_plan_for():
    """Only where it is another number as it is written, and in the direction of the metric."""
    cpu = ("cpu_per_transaction", 64, "encrypted")
    each = [(*cpu, 1.4, 0.3, "more"), (*cpu, 1.9, 1.2, "more")]
    table = verdicts([*each, ("tps", 64, "encrypted", 1.0, 9.0, "cannot tell")])
    load = ["memory, 100 a second", "memory, 1,500 a second", "memory"]
    r = Rows(("EPYC", table.assign(rate=[100, 1500, 0], workload=load, margin_pct=1.0)))
    r.study = SimpleNamespace(name="binlog-encryption", key="rate")
    lead = r.verdicts.loc[0]
    assert amounts.ascii_only(statement.extremes(lead, r)[1]) == "at 1,500 TPS possibly +3.1 %"
    assert "plan +3.1 % CPU" in amounts.ascii_only(statement.advice(lead, r))
    r.verdicts.loc[1, "hi_pct"] = 1.73  # +1.7 %, as that at 100
    assert statement.extremes(lead, r)[1] == ""
    fewer = r.verdicts.loc[[2]].assign(lo_pct=-20.0, threads=4, workload="large")
    r.verdicts = pd.concat([r.verdicts, fewer], ignore_index=True)
    said = amounts.ascii_only(statement.extremes(r.verdicts.loc[2], r)[1])
    assert said == "at 4 threads (large) possibly -20.0 %"


@pytest.mark.parametrize(
    ("metric", "lo", "hi", "begins"),
    [
        ("cpu_per_transaction", 2.0, 9.0, "enable where required"),
        ("cpu_per_transaction", -0.5, 0.9, "switch it on"),
        ("cpu_per_transaction", -9.0, -2.0, "switch it on"),
        (
            *("cpu_per_transaction", -2.0, 9.0),
            "enable where required; plan +9.0 % CPU",
        ),
        ("tps", -9.0, -2.0, "switch it on"),
    ],
    ids=["worse", "same", "better", "open", "no processor time"],
)
def test_the_advice_is_that_of_what_was_measured(metric, lo, hi, begins):
    r = Rows(("EPYC", verdicts([(metric, 4, "encrypted", 1.0, 1.0, "more")])))
    vars(r)["verdicts"] = r.verdicts.assign(lo_pct=lo, hi_pct=hi, margin_pct=1.0)
    r.study = SimpleNamespace(name="binlog-encryption", key="rate")
    said = amounts.ascii_only(statement.advice(r.verdicts.loc[0], r))
    assert said.startswith(begins)
    assert ("+9.0 % CPU" in said) == (len(begins) > 13)  # of the two that name a cost
    r.study = SimpleNamespace(name="own-study", key="")
    assert statement.advice(r.verdicts.loc[0], r) == ""


HOST = {"cpu": "AMD EPYC", "cores": 2, "memory_B": 24 * 2**30, "system": "Debian 12"}
WHERE = {"finished": "2026-11-20T22:29:41", "engine": {"label": "MySQL 9.7.4"}, "host": HOST}


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (1, "Provisional, boot 1 of 3: 2026-11-20, AMD EPYC"),
        (2, "Provisional, boot 1 and 2 of 3: 2026-11-20, AMD EPYC"),
    ],
)
def test_the_boots_of_two_processors_stand_in_one_clause(there, said):
    tables = [at({4: 1.0}, "provisional", asked=3, sittings=n) for n in (1, there)]
    r = Rows(*zip(("EPYC", "Xeon"), tables, strict=True))
    assert words.measured(r.verdicts.iloc[0], WHERE, r).startswith(said)


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        (
            row(lo_pct=math.nan, hi_pct=math.nan, warnings=["one run an arm", "a second doubt"])
            .to_frame()
            .T,
            {},
            "? Cannot tell how encrypted differs from plain in TPS at 16 threads: no"
            " interval. One run an arm. A campaign … a second doubt",
        ),
        (
            TABLE,
            {"campaign": WHERE, "primary": {"metric": "tps", "threads": 4}},
            "? Cannot tell … Measured 12 pairs: 2026-11-20, AMD EPYC, 2 cores, MySQL 9.7.4.",
        ),
        (row(n_arm=1).to_frame().T, {}, "Measured 1 pair"),
        (
            row(verdict="provisional", ranged=True, sittings=2, warnings=["range of 2 boots: why"])
            .to_frame()
            .T,
            {},
            "Encrypted against plain, TPS at 16 threads: cannot tell, between 2.8 % faster and 1.2 %"
            " slower. …"
            " Range of 2 boots",
        ),
    ],
    ids=["a reason once", "where and on what", "one pair", "a range"],
)
def test_the_box_tells_in_this_order(table, options, said):
    found = box(table, **options)
    assert re.search(".*".join(map(re.escape, said.split(" … "))), found), found
    assert "plain again" not in found
    assert found.lower().count("one run an arm") <= 1


def test_the_box_is_about_the_joint_effect_unless_told():
    assert report.primary(TABLE)["joint"]
    assert report.primary(TABLE, "p99")["threads"] == 4
    assert report.primary(TABLE, {"metric": "tps", "threads": 1})["change_pct"] == -4.0
    two = pd.concat([TABLE.assign(processor=on) for on in ("EPYC", "Xeon")], ignore_index=True)
    assert report.primary(two)["processor"] == "EPYC"
    with pytest.raises(report.ReportError, match="no comparison"):
        report.primary(TABLE, "p95")


def test_readers_see_the_control_and_defaults_in_plain_words():
    own = "MySQL 8.0 with its own defaults"
    assert [arm_label(arm) for arm in ("plain again", "MySQL 8.0, its defaults")] == [
        "the same twice",
        own,
    ]
    frame = pd.DataFrame({"arm": ["MySQL 8.0, its defaults", "MySQL 8.0"], "runs": [1, 2]})
    assert f"arm runs {own} 1 MySQL 8.0 2" in text(report.html_table(frame))
    said = text(report.verdict_table(TABLE))
    assert "the same twice" in said
    assert "plain again" not in said


def test_the_table_says_what_is_known_where_and_how_often():
    rows = [("tps", t, "encrypted", -9.0, 2.0, "slower") for t in (1, 2)]
    table = verdicts(rows, next_lo_pct=-12.0, next_hi_pct=-6.0, question="q")
    table.loc[1, ["lo_pct", "hi_pct", "verdict"]] = [-11.0, 2.0, "cannot tell"]
    said = text(report.verdict_table(table))
    assert "Threads Verdict Change Interval Boots Next" in said
    assert "1 ✗ slower -9.0 % -11.0 to -7.0 % 1 -12.0 to -6.0 % 2 ? cannot tell -9.0 %" in said
    assert "Between 2.0 % faster and 11.0 % slower; a campaign 3.3 times as long" in said
    waiting = table.assign(verdict="provisional", asked=3, processor="EPYC 25/1/1")
    other = table.assign(processor="Xeon, model not recorded")
    both = pd.concat([waiting, other], ignore_index=True)
    said = text(report.verdict_table(both))
    assert "Processor Threads Verdict" in said
    first = "EPYC 1 ○ provisional -9.0 % -11.0 to -7.0 % 1 of 3 -12.0 to -6.0 %"
    assert f"{first} Xeon 1 ✗ slower" in said  # the same comparison below it
    bare = table.drop(columns=["sittings", "asked", "ranged", "next_lo_pct", "next_hi_pct"])
    said = text(report.verdict_table(bare))  # of an archive
    assert "Threads Verdict Change Interval n" in said
    assert "1 ✗ slower -9.0 % -11.0 to -7.0 % 12" in said


def test_a_page_shows_the_first_rows_of_a_long_table_and_its_data_hold_all():
    short, long_ = (
        report.html_table(pd.DataFrame({"n": range(n)}), "Runs.").markup for n in (100, 8000)
    )
    assert (short.count("<tr>"), long_.count("<tr>")) == (101, 101)
    assert "first" not in short
    assert "The first 100 of 8,000 rows; its data hold all." in long_
    data = re.search(r'base64,([^"]+)"', long_)[1]
    assert len(csv_data(data).splitlines()) == 8001


def test_a_table_keeps_names_and_times_in_one_piece():
    frame = pd.DataFrame({"run": ["a-b-c"], "start": ["2026-11-21T04:12:17.924+00:00"]})
    markup = report.html_table(frame).markup
    assert "<td class=nf-n>a-b-c</td>" in markup
    assert "<td class=nf-n>2026-11-21\xa004:12:17\xa0UTC</td>" in markup
    empty = pd.DataFrame({"threads": pd.array([], "Int64"), "arm": []})
    markup = report.html_table(empty, "Nothing was measured").markup
    assert '<tbody><tr><td colspan="2">none</td></tr></tbody>' in markup
    assert "download" not in markup


# --- parameters ---------------------------------------------------------------------------------


TYPED = tomllib.loads((DATA / "parameters.toml").read_text())


@pytest.fixture
def typed(home):
    write(home, "typed", ["1"])
    return home / "notebooks" / "typed.ipynb"


def test_parameters_are_read_with_their_types(home, typed):
    found = report.parameters(typed)
    assert {p.name: p.default for p in found.values()} == {
        "campaign": "",
        "threads": [1, 4],
        "margin_pct": 2.0,
        "loud": False,
        "where": "a=b",
        "counts": [],
        "arms": [],
    }
    assert found["counts"].like == [1, 4]
    write(home, "typed", ["1"], parameters="threads = list(range(3))")
    with pytest.raises(report.ReportError, match="which is not a literal"):
        report.parameters(typed)


@pytest.mark.parametrize(("name", "given", "value"), TYPED["taken"])
def test_text_becomes_the_type_of_the_default(typed, name, given, value):
    assert report.checked(typed, {name: given}) == {name: value}


@pytest.mark.parametrize(("name", "given", "sentence"), TYPED["refused"])
def test_a_wrong_parameter_is_one_sentence(typed, name, given, sentence):
    with pytest.raises(report.ReportError) as caught:
        report.checked(typed, {name: given})
    assert sentence in str(caught.value)
    assert caught.value.code == 2


# --- the page -----------------------------------------------------------------------------------


def test_the_page_opens_with_its_verdict_and_folds_its_code(home, page):
    inside = page[page.index("<main") :]
    assert inside.index('<section class="nf-verdict') < inside.index("<p>A question")
    assert page.count("<h1>What does it cost?</h1>") == page.count("<h1") == 1
    assert '<meta name="description" content="Encrypted gives 1.7 % fewer TPS' in page
    assert page.count("nf-lab") == 0
    code = re.findall(r'<details class="nf-code"><summary>(.*?)</summary>', page)
    above = ["Parameters and their defaults", "Parameters of this page", "Code"]
    assert code == ["Code"] * 6 + above
    sections, _, end = inside.rpartition('<fieldset class="nf-fold">')
    assert "nf-code" not in sections[: sections.index("<h2")]
    assert "nf-fold" not in page[page.index("<body") : page.index("<main")] + sections
    assert re.findall("<summary>(.*?)</summary>", end) == above
    assert "<h2" not in end
    assert re.findall(r'<li><a href="#([^"]+)">', page) == ["the-verdict", "threads", "threads-2"]
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert page.count('class="nf-scroll" role="region" aria-label=') == 2
    assert "measured in ." in page
    for part in (page, (paths.reports() / "good.ipynb").read_text()):
        for private in (str(home), f"{paths.Path.home()}/", "noisefloor-page-"):
            assert private not in part


def test_the_tables_lie_beside_the_page(page):
    facts = json.loads((paths.reports() / "good.json").read_text())
    assert facts["verdict"] == "slower"
    assert facts["machine"] is None
    assert len(facts["comparisons"]) == len(TABLE)
    assert facts["comparisons"][3]["threads"] is None
    table = pd.read_csv(paths.reports() / "good.csv")
    assert list(table["verdict"]) == list(TABLE["verdict"])
    for name in re.findall(r'href="([^"#:]+)"', page):
        assert name == "index.html" or (paths.reports() / name).exists()


@pytest.mark.parametrize(
    ("cell", "timeout", "sentence"),
    [
        ("raise ValueError('no\\ngood')", 60, "bad stopped in cell 2: ValueError: no good"),
        ("import os\nos.kill(os.getpid(), 9)", 60, "bad stopped: its kernel was killed or died"),
        ("import time\ntime.sleep(30)", 1, "bad stopped: a cell took longer than 1 s"),
        ("raise SystemExit(0)", 60, "bad ended early: cell 4 of 4 never ran"),
    ],
)
def test_a_failed_run_leaves_nothing_that_looks_finished(home, tmp_path, cell, timeout, sentence):
    write(home, "bad", ["# Bad", cell, "1"])
    for part in report.PARTS:
        (tmp_path / f"bad{part}").write_text("of last time")
    with pytest.raises(report.ReportError) as caught:
        report.render("bad", None, tmp_path, timeout)
    assert (str(caught.value), caught.value.code) == (sentence, 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.failed.ipynb", "previous"]
    assert (tmp_path / "previous" / "bad.html").read_text() == "of last time"


def page_of(folder, facts):
    """A page that holds nothing, with these facts beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{facts['study']}.json").write_text(json.dumps(facts))
    (folder / f"{facts['study']}.html").write_text("")


def test_the_tables_tell_both_costs_and_the_index_the_first(home, tmp_path):
    rows = [
        ("cpu_per_transaction", 4, "encrypted", 14.0, 3.0, "more"),
        ("tps", 4, "encrypted", 1.0, 3.0, "provisional"),
    ]
    table = verdicts(rows)
    table.at[1, "asked"] = 3
    leads = [table.loc[0], table.loc[1]]
    report.save(table, "both", {"finished": "2026-11-22"}, title="Both", primary=leads)
    # outside a page it is saved where no page is
    assert not (paths.reports() / "both.csv").exists()
    assert (home / "data" / "processed" / "both.csv").exists()
    facts = json.loads((home / "data" / "processed" / "both.json").read_text())
    assert [r["metric"] for r in facts["leads"]] == ["cpu_per_transaction", "tps"]
    assert facts["primary"] == facts["leads"][0]
    assert facts["headline"] == " ".join(facts["headlines"])
    assert [h.partition(" ")[0] for h in facts["headlines"]] == ["Encrypted", "Encrypted"]
    assert facts["measured"] == "12 pairs"
    page_of(tmp_path, facts)
    index = text(report.index(tmp_path).read_text())
    first, second = map(amounts.ascii_only, facts["brief"])
    row = f"Both {first} 12 pairs, 2026-11-22 The drawings"  # its first cost alone, in a line
    answer = "Answer (95 % interval); in grey: how often and when measured"
    assert f"{answer} Change, % -50 -10 0 +10 +100 {row}" in index
    assert second not in index
    assert "Your runs" not in index


@pytest.mark.parametrize(
    ("arms", "answer"),
    [
        (["encrypted"], "It takes 14.0 % more CPU per transaction at 4 threads (11.0 to 17.0 %)"),
        (
            ["encrypted", "other"],
            "Encrypted takes 14.0 % more CPU per transaction at 4 threads (11.0 to 17.0 %)",
        ),
    ],
)
def test_a_question_is_answered_in_one_sentence_that_names_one_of_several_arms(
    home, tmp_path, arms, answer
):
    rows = [("cpu_per_transaction", 4, arm, 14.0, 3.0, "more") for arm in arms]
    rows.append(("cpu_per_transaction", 8, "encrypted", 50.0, 3.0, "more"))
    table = verdicts(rows).assign(question="q", processor="EPYC", control=False)
    table["workload"] = ["w"] * len(arms) + ["worst"]
    report.save(table, "short", {"finished": "2026-11-22"}, title="What?", primary=[table.loc[0]])
    page_of(tmp_path, json.loads((home / "data" / "processed" / "short.json").read_text()))
    assert f"What? {answer}. 12 pairs, EPYC, 2026-11-22" in text(report.index(tmp_path).read_text())


def test_the_foot_of_the_index_says_how_many_words_all_pages_print(home, tmp_path):
    """Neither controls nor rows without a word count; chance makes one of twenty wrong, at most."""
    kinds = [*15 * ["more"], *15 * ["same"], *9 * ["cannot tell"], "provisional", "", "less"]
    rows = [("cpu_per_transaction", n, "encrypted", 1.0, 3.0, w) for n, w in enumerate(kinds)]
    for name in ("one", "other"):
        table = verdicts(rows).assign(control=[False] * (len(rows) - 1) + [True])
        report.save(table, name, {"finished": "2026-11-22"}, title=name, primary=[table.loc[0]])
        page_of(tmp_path, json.loads((home / "data" / "processed" / f"{name}.json").read_text()))
    said = text(report.index(tmp_path).read_text())
    total = "All pages together give 60 comparisons a word. "
    foot = said[said.index("cannot tell. ") :]  # what the table ends with
    assert foot.startswith(f"cannot tell. {total}")
    assert "about 5 of 100 campaigns, so at most about 3 of these words" in foot
    assert "comparisons a word" not in text(report.index(tmp_path, []).read_text())


def test_the_index_draws_each_thread_count_by_itself():
    rows = [(4, 4.0), (1, 9.0)]
    rows = [("cpu_per_transaction", at, "encrypted", by, 5.0, "provisional") for at, by in rows]
    strips = site._strips({"counts": verdicts(rows, asked=3).to_dict("records")})
    assert [(name, amounts.ascii_only(drawn["words"])) for drawn, name in strips] == [
        ("at 4 threads", "provisional, boot 1 of 3: +4.0 % (-1.0 to +9.0 %)"),
        ("at 1 thread", "provisional, boot 1 of 3: +9.0 % (+4.0 to +14.0 %)"),
    ]


def test_the_index_begins_with_the_largest_change(home, tmp_path):
    """By the farther end of the interval; what may be none comes last."""
    pages = [("dear", 8.0, 1.0), ("dearest", 9.0, 5.0), ("cheap", 1.0, 0.5), ("gain", 60.0, 1.0)]
    pages.append(("open", 0.1, 0.5))
    for name, change, half in pages:
        metric = "tps" if name == "gain" else "cpu_per_transaction"
        table = verdicts([(metric, 4, "encrypted", change, half, "provisional")], asked=3)
        lead = {"title": f"What does {name} cost?", "primary": [table.loc[0]]}
        report.save(table, name, {"finished": "2026-11-22"}, **lead)
        page_of(tmp_path, json.loads((home / "data" / "processed" / f"{name}.json").read_text()))
    said = text(report.index(tmp_path).read_text())
    turn = re.findall(r"What does (\w+) cost", said)
    assert turn == ["gain", "dearest", "dear", "cheap", "open"]
    assert "provisional, boot 1 of 3, " in said


def test_a_section_with_the_tag_fold_is_behind_its_heading(home, tmp_path):
    (home / "notebooks" / "folds.ipynb").write_text('{"cells": []}')
    tagged = {"metadata": {"tags": ["fold"]}}
    cells = [("# Title", {}), ("## How", tagged), ("The way.", {}), ("## Next", {})]
    cells = [nbformat.v4.new_markdown_cell(source, **more) for source, more in cells]
    book = nbformat.v4.new_notebook(cells=cells)
    source = home / "notebooks" / "folds.ipynb"
    page = layout.page_of(book, "folds", source, {}, tmp_path, tmp_path)
    parts = '<details class="nf-more"><summary>(.*?)</summary>(.*?)</details>'
    folded = re.search(parts, page, re.S)
    assert folded[1].strip() == '<h2 id="how">How</h2>'
    assert "The way." in folded[2]
    assert "Next" not in folded[2]
    assert '<li><a href="#how">How</a></li>' in page


def test_a_lead_holds_its_thread_counts_and_other_processors(home):
    r = Rows(("EPYC", at({1: -4.0, 4: 2.0})), ("Xeon", at({1: -4.0, 4: 2.0, pd.NA: -1.0})))
    r.parts, r.study = [], SimpleNamespace(name="own-study", key="")
    report.save(r.verdicts, "held", {}, primary=[r.verdicts.iloc[1]], r=r)
    (lead,) = json.loads((home / "data" / "processed" / "held.json").read_text())["leads"]
    assert [row["threads"] for row in lead["counts"]] == [1, 4]
    assert [(row["processor"], row["joint"]) for row in lead["others"]] == [("Xeon", True)]


def test_short_runs_stand_beside_what_is_published(home, tmp_path):
    rows = [("tps", 4, "encrypted", -5.0, 3.0, "slower")]
    for folder, change, told in (
        (home / "reports" / "published" / "beside", -5.0, {}),
        (tmp_path, -9.0, {"profile": {"name": "quick"}}),
    ):
        table = verdicts([(*rows[0][:3], change, *rows[0][4:])])
        report.save(table, "beside", {"finished": "2026-11-22"} | told, title="Beside")
        facts = json.loads((home / "data" / "processed" / "beside.json").read_text())
        page_of(folder, facts | ({"minutes": 2.3} if told else {}))
    report.index(home / "reports" / "published")
    index = report.index(tmp_path).read_text()
    said = text(index)
    assert "Your runs of 2026-11-22, about 2 minutes each. Published results, repeated" in said
    assert "Encrypted gives 9.0 % fewer TPS" in said
    assert "Published : Encrypted gives 5.0 % fewer TPS" in said
    assert 'published/beside/beside.html"' in index
    (home / "notebooks" / "beside.ipynb").write_text('{"cells": []}')
    given = nbformat.v4.new_notebook(), "beside", home / "notebooks" / "beside.ipynb", {}
    page = layout.page_of(*given, tmp_path, tmp_path)
    assert "Your own short run. Published result : Encrypted gives 5.0 % fewer TPS" in text(page)
    assert 'published/beside/beside.html"' in page
    folder = home / "reports" / "published" / "beside"
    assert "Your own" not in layout.page_of(*given, folder, folder)
    shutil.rmtree(home / "reports" / "published")


# --- many pages ---------------------------------------------------------------------------------


def recorded(name, study, finished, **more):
    """A recorded campaign without runs: its folder."""
    folder = paths.recorded() / name
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"study": study, "finished": finished} | more
    (folder / "campaign.json").write_text(json.dumps(facts))
    return folder


def test_recorded_means_the_newest_recorded_campaign_that_is_judged(home):
    recorded("many-a", "many", "2026-11-20T10:00")
    recorded("many-b", "many", "2026-11-19T10:00")
    recorded("many-c", "many", "2026-11-22T10:00", workloads=[{"at_once": True}])
    recorded("other-a", "other", "2026-11-21T10:00")
    for name in ("many", "none"):
        write(home, name, ["1"], 'campaign = ""\nprofile = "quick"\n')
    assert report.plan(["many"], "recorded") == [("many", {"campaign": "many-a"}, False)]
    assert report.plan(["many"], "quick") == [("many", {"profile": "quick"}, False)]
    with pytest.raises(report.ReportError, match="none has no recorded campaign; nothing was run"):
        report.plan(["none"], "recorded")


@pytest.mark.parametrize("broken", ["", "[]", "{"])
def test_a_campaign_that_cannot_be_read_hides_no_other(home, broken):
    there = recorded("read-a", "read", "2026-11-20T10:00")
    (recorded("read-b", "read", "2026-11-21T10:00") / "campaign.json").write_text(broken)
    assert report.leading_campaign("read") == "read-a"
    shutil.rmtree(there)
    assert report.leading_campaign("read") is None
    assert report.leading_campaign("read-b") is None  # its folder's name is no study


def test_a_recorded_page_holds_all_campaigns_of_all_its_questions(home):
    write(home, "asked", ["1"], 'campaign = ""\nquestion = ""\n')
    told = {"profile": {"name": "standard"}, "workloads": [{}]}
    for key, day in (("headline", 20), ("headline", 18), ("masked", 21), ("throttled", 22)):
        recorded(f"asked-{key}-{day}", "asked", f"2026-11-{day}", key=key, **told)
    # the one that was measured here lies among the live campaigns, too
    measured = paths.runs() / "asked-headline-20"
    shutil.copytree(paths.recorded() / measured.name, measured)
    ((_, values, live),) = report.plan(["asked"], "recorded")
    shutil.rmtree(measured)
    assert not live
    names = values["campaign"].split(", ")
    every = ["asked-headline-18", "asked-headline-20", "asked-masked-21", "asked-throttled-22"]
    assert sorted(names) == every
    earlier = recorded("asked-earlier", "asked", "2026-11-19")  # of all questions at once
    assert report.recorded_campaign("asked") == "asked-headline-20"
    for name in every[:2]:
        shutil.rmtree(paths.recorded() / name)
    assert report.recorded_campaign("asked") == "asked-earlier"
    shutil.rmtree(earlier)
    assert report.recorded_campaign("asked") == "asked-throttled-22"


@pytest.fixture
def alone(home):
    """alone(notebooks) -> a project with these notebooks and no other."""

    def only(**notebooks):
        for old in (home / "notebooks").glob("*.ipynb"):
            old.unlink()
        for name, cells in notebooks.items():
            write(home, name, cells)

    return only


@pytest.mark.slow
def test_one_failure_does_not_stop_the_others(alone, tmp_path):
    kills = "import os\nos.kill(os.getppid(), 9)"  # the rendering process
    alone(good=(*STUDY[:2], STUDY[-1]), bad=["1 / 0"], worse=[kills])
    (tmp_path / "worse.html").write_text("of last time")
    output = done("report", "--out", tmp_path, "--jobs", "3", code=1)
    for said in (
        "bad    failed",
        "worse stopped: its process was killed or died",
        "ZeroDivisionError",
        "good   page",
    ):
        assert said in output
    index = (tmp_path / "index.html").read_text()
    for there in ('href="good.html"', "slower", 'href="bad.failed.ipynb"'):
        assert there in index
    for absent in ('href="bad.html"', 'href="worse.html"', "<script", "https://"):
        assert absent not in index


@pytest.mark.slow  # as in test_kill, whose command measures
def test_nothing_outlives_a_killed_command(home, tmp_path):
    pids = tmp_path / "pids"
    told = f"pathlib.Path({str(pids)!r}).write_text(f'{{os.getpid()}} {{os.getppid()}}')"
    write(home, "good", [f"import os, pathlib, time\n{told}\ntime.sleep(90)"])
    argv = (*COMMAND, "report", "good", "--out", tmp_path)
    ran = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    told = until(lambda: pids.exists() and pids.read_text(), "kernel")
    ran.kill()
    ran.wait()
    until(lambda: not any(alive(int(pid)) for pid in told.split()), "end of both")


@pytest.mark.slow
def test_what_jupyter_itself_says_is_not_in_the_terminal(home, tmp_path):
    write(home, "loud", ["import os\nos.write(2, b'a traceback of the kernel')"])
    argv = (*COMMAND, "report", "loud", "--out", tmp_path)
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (tmp_path / "loud.html").exists() == (ran.returncode == 0), ran.stderr
    assert "a traceback of the kernel" not in ran.stdout + ran.stderr


def test_pages_begin_with_the_largest_difference_that_is_decided():
    found = [
        (study, {"leads": [{"verdict": word, "change_pct": size}]})
        for study, size, word in (
            ("calibration", 90.0, "more"),
            ("archive-2026", 80.0, "slower"),
            ("unknown", 70.0, "cannot tell"),
            ("large", -50.0, "slower"),  # as far away as +100 %
            ("small", 60.0, "more"),
        )
    ]
    lead = {"verdict": "provisional", "change_pct": 9.0, "hi_pct": 60.0}  # the first may be none
    found += [(n, {"leads": [lead | {"lo_pct": lo}]}) for n, lo in (("open", -1.0), ("sure", 6.0))]
    found.append(("narrow", {"leads": [lead | {"lo_pct": 7.0, "hi_pct": 20.0}]}))
    turn = [study for study, _ in sorted(found, key=lambda one: site._turn(*one))]
    assert turn == [
        "large",
        "small",
        "sure",
        "narrow",
        "unknown",
        "open",
        "archive-2026",
        "calibration",
    ]


def published(home):
    """Folder of what is published, and the names in it."""
    folder = home / "reports" / "published"
    return folder, sorted(p.name for p in folder.iterdir())


def test_a_published_page_takes_the_place_of_the_last_and_leads_where_it_led(page, home):
    (home / "README.md").write_text("<!-- findings -->\nold\n<!-- /findings -->\n")
    there, changed = report.publish("good")
    assert (there, changed) == (home / "reports" / "published" / "good", True)
    assert sorted(p.name for p in there.iterdir()) == sorted(f"good{p}" for p in report.PARTS)
    for file in (there / "good.html", there.parent / "index.html"):
        hrefs = re.findall(r'href="([^"#:]+)"', file.read_text())
        assert hrefs
        assert [h for h in hrefs if not (file.parent / h).exists()] == []
    assert 'href="good/good.html"' in (there.parent / "index.html").read_text()
    lines = (home / "README.md").read_text().splitlines()
    (headline,) = json.loads((there / "good.json").read_text())["headlines"]
    assert headline.startswith("Encrypted gives 1.7")
    assert lines[1] == f"- [What does it cost?](reports/published/good/good.html) {headline}"
    assert len(lines) == 3
    assert report.publish("good") == (there, False)
    (there / "good.html").write_text("of last time")
    killed = there.rename(there.with_name("good.old"))  # between taking it away and the new one
    assert report.publish("good") == (there, True)
    assert not killed.exists()
    assert "Encrypted gives" in (there / "good.html").read_text()
    assert published(home)[1] == ["good", "index.html"]


def test_the_command_publishes_each_page_and_says_what_was_there(home):
    for name in ("one", "other"):
        cells = [cell.replace("'good'", f"'{name}'") for cell in STUDY]
        write(home, name, cells, "threads = [1, 4]\n")  # of published numbers: no campaign
    (home / "README.md").touch()
    publish = ("--profile", "recorded", "--publish")
    assert "published: reports/published/one\n" in done("report", "one", *publish)
    said = done("report", "one", "other", *publish)
    assert "published: reports/published/other\n" in said
    kept = "published: reports/published/one; it was there already, with the same content"
    assert kept in said
