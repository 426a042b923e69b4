"""Pages are rendered by the path that users take, from small notebooks in a project of their own."""

import json
import math
import re
import shutil
import subprocess
import sys
import time

import nbformat
import pandas as pd
import pytest
from click.testing import CliRunner

from conftest import alive
from noisefloor import paths, report, schedule, stats
from noisefloor.cli import main
from test_plots import TABLE, verdicts

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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISEFLOOR_HOME", str(folder))
        for name in ("NOISEFLOOR_REPORTS", "NOISEFLOOR_RUNS"):
            patch.delenv(name, raising=False)
        TABLE.to_pickle(folder / "table.pkl")
        yield folder


STUDY = (
    "# What does it cost?\n\nA question with an answer.",
    "import os, pathlib\nimport pandas as pd\nfrom noisefloor import paths, plots, report\n"
    "plots.theme(['plain', 'plain again', 'encrypted'])\n"
    "table = pd.read_pickle(paths.root() / 'table.pkl')\n"
    "print('measured in', pathlib.Path.cwd(), pathlib.Path.home() / 'x')",
    "## The verdict",
    "report.verdict_box(table, {'host': {'cpu': 'Epyc', 'cores': 2}, 'finished': '2026-11-20T22:10'})",
    "## Overhead",
    "plots.show(plots.overhead(table), alt=plots.alt(table), caption='Overhead.', data=table)",
    "## Overhead",
    "report.verdict_table_html(table)",
    "table.head()",
    "report.provenance({'campaign': 'c', 'parameters': {'threads': threads}, 'seed': 7})",
    "report.save(table, 'good', {'finished': '2026-11-20T22:10', 'margin_pct': margin_pct})",
)


@pytest.fixture(scope="module")
def page(home):
    write(home, "good", STUDY)
    out = report.render("good", {"threads": "2,8"})
    return out.read_text()


# --- words --------------------------------------------------------------------------------------


def row(**changes):
    return verdicts([("tps", 16, "encrypted", 0.8, 2.0, "cannot tell")], **changes).iloc[0]


NO_PLAN = {"runs_needed": math.nan, "minutes_needed": math.nan}
FEW = {"warnings": ["too few blocks: no word", "measured under an earlier plan"]} | NO_PLAN
OPPOSITE = stats.runs.OPPOSITE
AT_ONCE = {"design": "duet", "metric": "cpu_per_transaction", "warnings": [schedule.CONTENDED]}
UNJUDGED = {"design": "duet", "verdict": "not judged"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {},
            "Transactions per second at 16 threads: cannot tell (at most 2.8 % slower, at most "
            "1.2 % faster). Overhead +0.8 % (−1.2 to +2.8 %); with these 12 pairs, less than 2.0 % is "
            "noise. About 40 pairs, 6.5 min would settle it.",
        ),
        (
            {"verdict": "slower", "design": "side by side", "n_arm": 6, "level": 0.0125},
            "Transactions per second at 16 threads: slower. Overhead +0.8 % (98.8 % interval −1.2 to "
            "+2.8 %); with these 6 pairs, less than 2.0 % is noise.",
        ),
        (
            {
                "lo_pct": math.nan,
                "hi_pct": math.nan,
                "noise_floor_pct": None,
                "runs_needed": None,
                "minutes_needed": None,
                "deciding_cv_pct": 1.28,
                "warnings": ["one run an arm: how much runs scatter is not known"],
                "design": "unpaired",
                "n_arm": 1,
            },
            "Transactions per second at 16 threads: cannot tell. One run an arm: how much runs "
            "scatter is not known. Overhead +0.8 % (no interval: 1 run an arm). Significant only if "
            "run-to-run CV is below 1.28 %.",
        ),
        (
            {"joint": True, "threads": pd.NA, "verdict": "same", "noise_floor_pct": None},
            "Transactions per second over all thread counts: same. Overhead +0.8 % "
            "(−1.2 to +2.8 %); two one-sided tests at 5 %: −0.8 to +2.4 %.",
        ),
        (
            {"joint": True, "threads": pd.NA, "runs_needed": math.nan, "minutes_needed": math.nan},
            "Transactions per second over all thread counts: cannot tell (at most 2.8 % slower, at "
            "most 1.2 % faster). Overhead +0.8 % (−1.2 to +2.8 %); with these 12 pairs, less than "
            "2.0 % is noise. See the thread counts for what would settle it.",
        ),
        (
            {"overhead_pct": 739.0, "lo_pct": 600.0, "hi_pct": 990.0, "level": 0.0006} | FEW,
            "Transactions per second at 16 threads: cannot tell (between 7 and 10.9 times slower). "
            "Too few blocks: no word. Overhead 8.4 times slower (99.94 % interval 7 to 10.9 times); "
            "with these 12 pairs, less than 2.0 % is noise. More runs of this kind will not settle it.",
        ),
        (
            UNJUDGED,
            "Transactions per second at 16 threads: not judged, both servers were loaded at once. "
            "Overhead +0.8 % (−1.2 to +2.8 %).",
        ),
        (
            AT_ONCE | {"verdict": "slower", "overhead_pct": 14.0, "lo_pct": 11.0, "hi_pct": 17.0},
            "Server CPU per transaction at 16 threads: slower. Overhead +14.0 % under contention "
            "(+11.0 to +17.0 %); with these 12 pairs, less than 2.0 % is noise.",
        ),
    ],
)
def test_a_row_becomes_a_sentence(changes, text):
    assert report.sentence(row(**changes)).replace("\u202f", " ") == text


@pytest.mark.parametrize(
    ("slower", "text"),
    [
        ((1,), "Slower: 1 thread. Cannot tell: the other 5 (LIMITS)."),
        ((1, 2, 4), "Slower: 1, 2, 4 threads. Cannot tell: 8, 16, 32 threads (LIMITS)."),
        ((), "Cannot tell: all 6 (LIMITS)."),
    ],
)
def test_a_caption_names_the_few_and_counts_the_many(slower, text):
    words = {t: "slower" if t in slower else "cannot tell" for t in (1, 2, 4, 8, 16, 32)}
    rows = verdicts([("tps", t, "encrypted", 1.0, 2.0, word) for t, word in words.items()])
    text = text.replace("LIMITS", "at most 3.0\u202f% slower, at most 1.0\u202f% faster")
    assert report.finding(rows) == f"Transactions per second. {text} Each from 12 pairs."
    bare = rows.assign(lo_pct=rows["lo_pct"].where(rows["threads"] > 2))
    few = "Each from 12 pairs, for 2 of the 6 too few for an interval."
    assert report.finding(bare) == f"Transactions per second. {text} {few}"


def test_a_caption_says_why_intervals_that_exclude_zero_have_no_verdict():
    rows = verdicts([("tps", t, "encrypted", 9.0, 2.0, "cannot tell") for t in range(1, 7)], **FEW)
    said = report.finding(rows).replace("\u202f", " ")
    assert (
        "Cannot tell: all 6 (between 7.0 and 11.0 % slower; 6 only for this reason: too few" in said
    )


def test_what_is_not_judged_is_not_among_what_nobody_can_tell():
    rows = [("tps", t, "encrypted", 1.0, 2.0, "cannot tell") for t in range(1, 6)]
    table = verdicts([*rows, ("tps", 6, "encrypted", 1.0, 2.0, "not judged")])
    said = report.finding(table).replace("\u202f", " ")
    limits = "at most 3.0 % slower, at most 1.0 % faster"
    assert f"Not judged: 6 threads. Cannot tell: the other 5 ({limits})." in said
    shown = text(report.verdict_table_html(table))
    assert "○ not judged +1.0 % −1.0 to +3.0 % Both servers were loaded at once" in shown
    contended = verdicts([("tps", 1, "encrypted", 9.0, 1.0, "slower")]).assign(
        **AT_ONCE | {"warnings": [AT_ONCE["warnings"]]}
    )
    assert "Size under contention: both servers were under load at once" in text(
        report.verdict_table_html(contended)
    )


def test_a_table_keeps_names_and_times_in_one_piece():
    frame = pd.DataFrame({"run": ["a-b-c"], "start": ["2026-11-21T04:12:17.924+00:00"]})
    assert "<td class=nf-n>a-b-c</td>" in report.table(frame).markup
    assert "<td class=nf-n>2026-11-21\xa004:12:17\xa0UTC</td>" in report.table(frame).markup


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        (
            {},
            "Cannot tell whether encrypted is slower than plain: at most 2.8 % slower, at most 1.2 % "
            "faster. Transactions per second at 16 threads: +0.8 % (−1.2 to +2.8 %).",
        ),
        (
            {"overhead_pct": 3.0, "lo_pct": 1.0, "hi_pct": 5.0} | FEW,
            "Cannot tell whether encrypted is slower than plain, although the interval says between "
            "1.0 and 5.0 % slower. Too few blocks: no word. Transactions per second at 16 threads",
        ),
        (  # within the margin
            {"overhead_pct": 0.0, "lo_pct": -1.0, "hi_pct": 1.0} | FEW,
            "Cannot tell whether encrypted is slower than plain: at most 1.0 % slower, at most 1.0 % "
            "faster. Too few blocks: no word.",
        ),
        (
            {} | FEW,
            "Cannot tell whether encrypted is slower than plain: at most 2.8 % slower, at most 1.2 % faster. Transactions",
        ),
        (
            {"warnings": ["noise", OPPOSITE], "verdict": "slower"},
            "Encrypted is slower than plain. The thread counts show opposite effects: read them one "
            "by one, not their average.",
        ),
        ({"verdict": "slower"}, "Encrypted is slower than plain. Transactions per second at 16"),
        ({"verdict": "faster"}, "Encrypted is faster than plain."),
        ({"verdict": "same"}, "Encrypted or plain makes no difference that matters."),
        (
            {"verdict": "slower", "metric": "cpu_per_transaction"},
            "Encrypted takes more server CPU than plain. Server CPU per transaction at 16",
        ),
        (
            AT_ONCE | {"verdict": "slower", "overhead_pct": 14.0, "lo_pct": 11.0, "hi_pct": 17.0},
            "Encrypted takes more server CPU than plain. Server CPU per transaction at 16 threads: "
            "+14.0 % under contention (+11.0 to +17.0 %).",
        ),
        (
            UNJUDGED,
            "Throughput beside it, with both servers loaded at once: +0.8 % (−1.2 to +2.8 %), not judged.",
        ),
        (  # that it shared the machine is no reason for having no word
            AT_ONCE | {"overhead_pct": 3.0, "lo_pct": 1.0, "hi_pct": 5.0},
            "Cannot tell whether encrypted takes more server CPU than plain, although the interval "
            "says between 1.0 and 5.0 % more. Server CPU",
        ),
    ],
)
def test_the_headline_says_what_the_verdict_means(changes, start):
    assert report.headline(row(**changes)).replace("\u202f", " ").startswith(start)


def box(*changes, **options):
    """The verdict box of a row as text."""
    table = row(**changes[0]).to_frame().T if changes else TABLE
    return text(report.verdict_box(table, **options))


def text(shown):
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", shown.markup)).replace("\u202f", " ")


def test_the_box_names_a_level_other_than_95_percent_and_what_the_word_rests_on():
    said = box({"level": 0.0125, "blocks": 12, "n_arm": 48})
    assert "98.8 % interval −1.2 to +2.8 %" in said
    assert "Measured 12 blocks, 48 pairs" in said
    assert "Two one-sided" not in said
    usual = box({"verdict": "same", "blocks": 1, "n_arm": 1})
    assert "Interval −1.2 to +2.8 %" in usual
    assert "Measured 1 pair" in usual
    assert "Two one-sided tests at 5 % −0.8 to +2.4 %" in usual


def test_the_box_tells_both_costs_each_by_its_word_and_sentence():
    rows = [
        ("cpu_per_transaction", 4, "encrypted", 14.0, 3.0, "slower"),
        ("tps", 4, "encrypted", 1.0, 3.0, "not judged"),
        ("tps", 16, "encrypted", 1.0, 3.0, "cannot tell"),
    ]
    table = verdicts(rows, design="duet")
    shown = report.verdict_box(table, primary=[0, 1], answer="And 7 % more.")
    said = text(shown)
    assert said.index("Processor time ▲ slower") < said.index("Throughput ○ not judged")
    assert said.index("not judged.") < said.index("And 7 % more.") < said.index("Noise floor")
    assert "Noise floor 3.0 % (processor time) Measured 3 blocks, 12 pairs (processor time)" in said
    assert "16 threads ? cannot tell" in said
    assert shown.markup.count("<svg") == 2
    assert shown.markup.count("counts as same") == 1
    both = text(report.verdict_box(table, primary=[0, 2]))
    assert "Measured 3 blocks, 12 pairs To settle it" in both
    assert "40 pairs, 6.5 min (throughput)" in both
    assert "Processor time" not in text(report.verdict_box(table, primary=0))


def test_the_box_shows_a_reason_once_beside_the_verdict():
    said = box({"overhead_pct": 3.0, "lo_pct": 1.0, "hi_pct": 5.0} | FEW)
    assert said.lower().count("too few blocks") == 1
    assert said.index("Too few blocks") < said.index("Noise floor")
    assert "measured under an earlier plan" in said
    assert "To settle it more runs of this kind will not settle it" in said


def test_the_box_lists_the_thread_counts_of_its_arm_first():
    table = pd.concat([TABLE.assign(arm="another"), TABLE], ignore_index=True)
    said = text(report.verdict_box(table, primary={"arm": "encrypted"}, also=3))
    assert "1 thread ▲ slower +4.0 %" in said
    assert "4 threads ? cannot tell at most 3.0 % slower, at most 1.0 % faster" in said
    assert "another" not in said


def test_the_table_says_what_is_known_why_and_the_level():
    rows = [("tps", t, "encrypted", 9.0, 2.0, "cannot tell") for t in (1, 2)]
    table = verdicts(rows, **FEW).assign(level=[0.05, 0.0125])
    table.loc[1, "lo_pct"] = -2.0
    said = text(report.verdict_table_html(table))
    assert (
        "cannot tell (too few blocks) +9.0 % +7.0 to +11.0 % 95 % Too few blocks: no word" in said
    )
    assert "cannot tell +9.0 % −2.0 to +11.0 % 98.8 % At most 11.0 % slower, at most 2.0 %" in said
    assert "Level: how often such an interval holds the truth" in said
    usual = text(report.verdict_table_html(table.assign(level=0.05)))
    assert "Level" not in usual


@pytest.mark.parametrize(
    ("overhead", "marks"),
    [
        (5.0, {"−4 %", "0 %", "+4 %"}),
        (60.0, {"−40 %", "0 %", "+40 %"}),
        (739.0, {"0.25×", "1×", "4×", "8×"}),
        (-90.0, {"0.2×", "1×", "5×"}),
        (20_000.0, {"0.04×", "1×", "25×"}),
    ],
)
def test_the_ruler_has_factors_beyond_100_percent(overhead, marks):
    ends = sorted((0.9 * overhead, min(1.02 * overhead, 0.98 * overhead + 2)))
    drawn = report.ruler(row(overhead_pct=overhead, lo_pct=ends[0], hi_pct=ends[1]))
    seen = [t.replace("\u202f", " ") for t in re.findall(r'class="m">([^<]*[%×])<', drawn)]
    assert marks <= set(seen)
    assert len({t[-1] for t in seen}) == 1
    low = [float(t.strip("− %").replace(",", "")) for t in seen if "−" in t]
    assert all(v < 100 for v in low)
    places = [float(x) for x in re.findall(r'cx="([\d.]+)"', drawn)]
    assert 20 <= places[0] <= 580


def test_the_box_holds_word_interval_floor_date_machine_and_what_would_settle_it():
    campaign = {
        "finished": "2026-11-20T22:29:41",
        "engine": {"label": "MySQL 9.7.4"},
        "host": {"cpu": "AMD EPYC", "cores": 2, "memory_B": 24 * 2**30, "system": "Debian 12"},
    }
    plain = box(campaign=campaign, primary={"metric": "tps", "threads": 4})
    for words in (
        "? cannot tell",
        "Interval −1.0 to +3.0 %",
        "Measured 3 blocks, 12 pairs",
        "Noise floor 2.0 %",
        "To settle it 40 pairs, 6.5 min",
        "Date 2026-11-20 22:29",
        "Machine AMD EPYC, 2 cores, 24 GiB, Debian 12",
        "Server MySQL 9.7.4",
        "1 thread ▲ slower +4.0 %",
        "16 threads = same +0.1 %",
    ):
        assert words in plain
    assert "again" not in plain


def test_the_box_is_about_the_joint_effect_unless_told():
    assert report.primary(TABLE)["joint"]
    assert report.primary(TABLE, "p99")["threads"] == 4
    assert report.primary(TABLE, {"metric": "tps", "threads": 1})["overhead_pct"] == 4.0
    with pytest.raises(report.ReportError, match="no comparison"):
        report.primary(TABLE, "p95")


def test_a_page_about_an_arm_that_no_pair_was_measured_of_says_so():
    wanted = {"arm": "another"}
    assert report.primary(TABLE, wanted)["arm"] == report.primary(TABLE)["arm"]
    assert "No whole pair of another was measured" in box(primary=wanted)
    assert "o whole pair" not in box()


def test_names_from_outside_cannot_become_markup():
    evil = "<script>alert(1)</script>"
    table = verdicts([("tps", 1, evil, 1.0, 0.5, "slower")], warnings=[evil])
    for shown in (
        report.verdict_box(table, {"host": {"cpu": evil}}),
        report.verdict_table_html(table),
        report.table(pd.DataFrame({evil: [evil]}), evil),
        report.provenance({"campaign": evil, "parameters": {evil: [evil]}}),
    ):
        assert "<script" not in shown.markup


# --- parameters ---------------------------------------------------------------------------------


def test_parameters_are_read_with_their_help(home):
    write(home, "typed", ["1"])
    found = report.parameters(home / "notebooks" / "typed.ipynb")
    assert {p.name: p.default for p in found.values()} == {
        "campaign": "",
        "threads": [1, 4],
        "margin_pct": 2.0,
        "loud": False,
        "where": "a=b",
        "counts": [],
        "arms": [],
    }
    assert found["where"].help == "has an equals sign"
    assert found["threads"].help == ""


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("threads", "1,4,16", [1, 4, 16]),
        ("threads", "[8]", [8]),
        ("threads", "8", [8]),
        ("threads", (2, 4), [2, 4]),
        ("margin_pct", "3", 3.0),
        ("loud", "true", True),
        ("where", "8", "8"),
        ("counts", "[]", []),
        ("arms", "TLS 1.3, RSA 2048", ["TLS 1.3, RSA 2048"]),
        ("arms", "['plain', 'on']", ["plain", "on"]),
    ],
)
def test_text_becomes_the_type_of_the_default(home, name, text, value):
    write(home, "typed", ["1"])
    assert report.checked(home / "notebooks" / "typed.ipynb", {name: text}) == {name: value}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"thread": 4}, "typed has no parameter 'thread' (did you mean 'threads'?)"),
        (
            {"zzz": 4},
            "it has: campaign, threads, margin_pct, loud, where, counts, arms; nothing was run",
        ),
        ({"threads": "four"}, "'threads' of typed was given 'four'; it is a list like [1, 4]"),
        ({"threads": "1,x"}, "it is a list like [1, 4]"),
        ({"threads": "[[1], 4]"}, "it is a list like [1, 4]"),
        ({"counts": "{'a': 1}"}, "'counts' of typed was given {'a': 1}; it is a list like [1, 4]"),
        ({"counts": "few"}, "it is a list like [1, 4]"),
        ({"arms": "[['a']]"}, "it is a list; nothing was run"),
        ({"margin_pct": "wide"}, "'margin_pct' of typed was given 'wide'; it is a number"),
        ({"margin_pct": True}, "it is a number"),
        ({"loud": 1}, "it is true or false"),
        ({"where": 3}, "it is text"),
        ({"campaign": "../x"}, "campaign '../x' is not a folder name"),
        ({"campaign": "nope"}, "no campaign is called 'nope'; there are: none; nothing was run"),
        ({"campaign": "nope, none"}, "no campaign is called 'nope'; there are: none"),
    ],
)
def test_a_wrong_parameter_is_one_sentence(home, given, sentence):
    write(home, "typed", ["1"])
    with pytest.raises(report.ReportError) as caught:
        report.checked(home / "notebooks" / "typed.ipynb", given)
    assert sentence in str(caught.value)
    assert caught.value.code == 2


def test_a_default_that_is_no_literal_is_refused(home):
    write(home, "typed", ["1"], parameters="threads = list(range(3))")
    with pytest.raises(report.ReportError, match="which is not a literal"):
        report.parameters(home / "notebooks" / "typed.ipynb")


# --- the page -----------------------------------------------------------------------------------


def test_the_page_stands_alone(page):
    assert len(page.encode()) < 1_500_000
    outside = re.sub(r'xmlns="http://www.w3.org/2000/svg"', "", page)
    assert "http://" not in outside
    assert "https://" not in outside
    assert "<script" not in page
    assert "<link" not in page
    assert "@import" not in page
    assert page.startswith('<!doctype html>\n<html lang="en">')


def test_the_page_opens_with_its_verdict(page):
    inside = page[page.index("<main") :]
    assert inside.index('<section class="nf-verdict') < inside.index("<p>A question")
    assert page.count("<h1>What does it cost?</h1>") == page.count("<h1") == 1
    assert '<meta name="description" content="Cannot tell whether encrypted is slower' in page
    assert page.count("nf-lab") == 0


def test_headings_make_the_contents_and_each_id_once(page):
    assert re.findall(r'<li><a href="#([^"]+)">', page) == ["the-verdict", "overhead", "overhead-2"]
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_code_is_folded_with_what_it_printed(page):
    code = re.findall(r'<details class="nf-code"><summary>(.*?)</summary>', page)
    assert code[:3] == ["Parameters and their defaults", "Parameters of this page", "Code"]
    assert "measured in ." in page


def test_neither_page_nor_notebook_holds_a_path_of_this_machine(home, page):
    book = (paths.reports() / "good.ipynb").read_text()
    for text in (page, book):
        assert str(home) not in text
        assert str(paths.Path.home()) + "/" not in text
        assert "noisefloor-page-" not in text


def test_every_figure_and_table_can_be_read_without_eyes(page):
    assert len(re.findall(r"<svg[^>]*role=\"img\"", page)) == page.count("<svg")
    assert not re.findall(r"<img(?![^>]*alt=)", page)
    assert page.count('class="nf-scroll" role="region" aria-label=') == 2


def test_the_tables_lie_beside_the_page(page):
    facts = json.loads((paths.reports() / "good.json").read_text())
    assert facts["verdict"] == "cannot tell"
    assert facts["machine"] is None
    assert len(facts["comparisons"]) == len(TABLE)
    assert facts["comparisons"][3]["threads"] is None
    table = pd.read_csv(paths.reports() / "good.csv")
    assert list(table["verdict"]) == list(TABLE["verdict"])
    for name in re.findall(r'href="([^"#:]+)"', page):
        assert name == "index.html" or (paths.reports() / name).exists()


def test_rendering_again_gives_the_same_bytes(page):
    before = [(paths.reports() / f"good{p}").read_bytes() for p in report.PARTS]
    report.render("good", {"threads": [2, 8]})
    assert before == [(paths.reports() / f"good{p}").read_bytes() for p in report.PARTS]


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
    assert str(caught.value) == sentence
    assert caught.value.code == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.failed.ipynb", "previous"]
    assert (tmp_path / "previous" / "bad.html").read_text() == "of last time"


def test_the_tables_and_the_overview_tell_both_costs(home, tmp_path):
    table = verdicts(
        [
            ("cpu_per_transaction", 4, "encrypted", 14.0, 3.0, "slower"),
            ("tps", 4, "encrypted", 1.0, 3.0, "not judged"),
        ],
        design="duet",
    )
    table.at[0, "warnings"] = [schedule.CONTENDED]
    report.save(table, "both", {"finished": "2026-11-22"}, title="Both", primary=[0, 1])
    facts = json.loads((home / "data" / "processed" / "both.json").read_text())
    assert [r["metric"] for r in facts["leads"]] == ["cpu_per_transaction", "tps"]
    assert facts["primary"] == facts["leads"][0]
    assert facts["headline"] == " ".join(facts["headlines"])
    assert [h.partition(" ")[0] for h in facts["headlines"]] == ["Encrypted", "Throughput"]
    (tmp_path / "both.json").write_text(json.dumps(facts))
    (tmp_path / "both.html").write_text("")
    index = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", report.index(tmp_path).read_text()))
    index = index.replace("\u202f", " ")
    assert "Both Processor time ▲ slower +14.0 % under contention" in index
    assert "Throughput ○ not judged +1.0 %" in index
    assert all(h.replace("\u202f", " ") in index for h in facts["headlines"])


def test_outside_a_page_the_table_is_saved_where_no_page_is(home):
    report.save(TABLE, "loose")
    assert (home / "data" / "processed" / "loose.csv").exists()
    assert not (paths.reports() / "loose.csv").exists()


# --- many pages ---------------------------------------------------------------------------------


@pytest.fixture
def campaigns(home):
    """Three recorded campaigns, the newest one by date not the last by name."""
    for name, study, date in (
        ("many-a", "many", "2026-11-20T10:00"),
        ("many-b", "many", "2026-11-19T10:00"),
        ("other-a", "other", "2026-11-21T10:00"),
    ):
        folder = paths.recorded() / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "campaign.json").write_text(json.dumps({"study": study, "finished": date}))


def test_recorded_means_the_newest_recorded_campaign(home, campaigns):
    write(home, "many", ["1"], 'campaign = ""\nprofile = "quick"\n')
    write(home, "none", ["1"], 'campaign = ""\nprofile = "quick"\n')
    assert report.plan(["many"], "recorded") == [("many", {"campaign": "many-a"}, False)]
    assert report.plan(["many"], "quick") == [("many", {"profile": "quick"}, True)]
    with pytest.raises(report.ReportError, match="none has no recorded campaign; nothing was run"):
        report.plan(["none"], "recorded")
    (home / "notebooks" / "none.ipynb").unlink()


def test_a_recorded_page_holds_the_campaigns_of_all_its_questions(home):
    write(home, "asked", ["1"], 'campaign = ""\nquestion = ""\n')
    for key, day in (("headline", 20), ("processor", 21), ("no-sync", 22)):
        folder = paths.recorded() / f"asked-{key}"
        folder.mkdir(parents=True)
        facts = {"study": "asked", "key": key, "finished": f"2026-11-{day}"}
        (folder / "campaign.json").write_text(json.dumps(facts))
    ((_, values, live),) = report.plan(["asked"], "recorded")
    assert not live
    names = values["campaign"].split(", ")
    assert sorted(names) == ["asked-headline", "asked-no-sync", "asked-processor"]
    earlier = paths.recorded() / "asked-earlier"  # of all questions at once
    earlier.mkdir()
    facts = {"study": "asked", "finished": "2026-11-19"}
    (earlier / "campaign.json").write_text(json.dumps(facts))
    assert report.recorded_campaign("asked") == "asked-headline"
    shutil.rmtree(paths.recorded() / "asked-headline")
    assert report.recorded_campaign("asked") == "asked-earlier"
    shutil.rmtree(earlier)
    assert report.recorded_campaign("asked") == "asked-no-sync"
    (home / "notebooks" / "asked.ipynb").unlink()


def test_one_failure_does_not_stop_the_others(home, tmp_path):
    for old in (home / "notebooks").glob("*.ipynb"):
        old.unlink()
    write(home, "good", (*STUDY[:2], STUDY[-1]))
    write(home, "bad", ["1 / 0"])
    write(home, "worse", ["import os\nos.kill(os.getppid(), 9)"])  # ends the rendering process
    (tmp_path / "worse.html").write_text("of last time")
    result = CliRunner().invoke(main, ["report", "--out", str(tmp_path), "--jobs", "3"])
    assert result.exit_code == 1
    assert "bad    failed" in result.output
    assert "worse stopped: its process was killed or died" in result.output
    assert "ZeroDivisionError" in result.output
    assert "good   page" in result.output
    index = (tmp_path / "index.html").read_text()
    assert 'href="good.html"' in index
    assert "cannot tell" in index
    assert 'href="bad.failed.ipynb"' in index
    assert 'href="bad.html"' not in index
    assert 'href="worse.html"' not in index
    assert "<script" not in index
    assert "https://" not in index


def test_nothing_outlives_a_killed_command(home, tmp_path):
    pids = tmp_path / "pids"
    write(
        home,
        "good",
        [
            f"import os, pathlib, time\npathlib.Path({str(pids)!r}).write_text(f'{{os.getpid()}} {{os.getppid()}}')\ntime.sleep(90)"
        ],
    )
    command = [sys.executable, "-c", "from noisefloor.cli import main; main()", "report", "good"]
    ran = subprocess.Popen([*command, "--out", tmp_path], stderr=subprocess.DEVNULL)
    for _ in range(600):
        if pids.exists() and pids.read_text():
            break
        time.sleep(0.1)
    kernel, worker = map(int, pids.read_text().split())
    ran.kill()
    ran.wait()
    for _ in range(100):
        if not alive(kernel) and not alive(worker):
            break
        time.sleep(0.1)
    assert [p for p in (kernel, worker) if alive(p)] == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing"], "no study is called 'nothing'; there are: bad, good; nothing was run"),
        (["../good"], "no study is called '../good'"),
        (["good", "-p", "thread", "4"], "good has no parameter 'thread'"),
        (["-p", "thread", "4"], "no study has a parameter 'thread'"),
    ],
)
def test_a_wrong_request_runs_nothing(home, tmp_path, words, sentence):
    write(home, "good", STUDY)
    write(home, "bad", ["1 / 0"])
    for extra in set(report.studies()) - {"good", "bad"}:
        (home / "notebooks" / f"{extra}.ipynb").unlink()
    result = CliRunner().invoke(main, ["report", *words, "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert sentence in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_table_without_rows_is_a_table():
    empty = pd.DataFrame({"threads": pd.array([], "Int64"), "arm": []})
    markup = report.table(empty, "Nothing was measured").markup
    assert '<tbody><tr><td colspan="2">none</td></tr></tbody>' in markup
    assert "download" not in markup


# --- published ----------------------------------------------------------------------------------


def test_a_published_page_stays_and_leads_where_it_led(page, home):
    (home / "README.md").write_text("<!-- findings -->\nold\n<!-- /findings -->\n")
    there = report.publish("good")
    assert there == home / "reports" / "published" / "good-2026-11-20"
    assert sorted(p.name for p in there.iterdir()) == sorted(f"good{p}" for p in report.PARTS)
    for file in (there / "good.html", there.parent / "index.html"):
        hrefs = re.findall(r'href="([^"#:]+)"', file.read_text())
        assert hrefs
        assert [h for h in hrefs if not (file.parent / h).exists()] == []
    assert 'href="good-2026-11-20/good.html"' in (there.parent / "index.html").read_text()
    assert "old" not in (home / "README.md").read_text()
    assert "good-2026-11-20/good.html)**: Cannot tell" in (home / "README.md").read_text()
    with pytest.raises(report.ReportError, match="is there already and is kept as it is"):
        report.publish("good")
