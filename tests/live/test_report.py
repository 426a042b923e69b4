"""Pages are rendered as users do it, from small notebooks in a project of their own."""

import json
import math
import re
import shutil
import subprocess
import tomllib

import nbformat
import pandas as pd
import pytest

import test_plots
from conftest import COMMAND, DATA, alive, done, moved, noisefloor, until
from noisefloor import paths, schedule
from noisefloor.show import report
from noisefloor.show.markup import csv_data
from noisefloor.show.report import batch
from noisefloor.text import amounts


def whole(table, **more):
    """A verdict table of the figures' tests with what a page says besides."""
    half = 0.8 * table["noise_floor_pct"]
    middle = table["overhead_pct"]
    known = {"n_baseline": 12, "n_arm": 12, "blocks": 3, "deciding_cv_pct": 1.0}
    known |= {"runs_needed": 40, "minutes_needed": 6.5}
    table = table.assign(same_lo_pct=middle - half, same_hi_pct=middle + half, **known)
    return table.assign(**{name: [value] * len(table) for name, value in more.items()})


def verdicts(rows, **more):
    """A verdict table from (metric, threads, arm, overhead, half width, verdict) tuples."""
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
    "## Overhead",
    "plots.show(plots.overhead(table), alt=plots.alt(table), caption='Overhead.', data=table)",
    "## Overhead",
    "report.verdict_table(table)",
    "table.head()",
    "report.provenance({'campaign': 'c', 'parameters': {'threads': threads}, 'seed': 7})",
    "report.save(table, 'good', {'finished': '2026-11-20T22:10', 'margin_pct': margin_pct})",
)


@pytest.fixture(scope="module")
def page(home):
    write(home, "good", STUDY)
    return report.render("good", {"threads": "2,8"}).read_text()


def text(shown):
    """What a piece of a page, or a page, says, in the characters that every terminal has."""
    said = re.sub("<[^>]+>", " ", getattr(shown, "markup", shown))
    return amounts.plain(re.sub(r"\s+", " ", said)).strip()


def row(**changes):
    return verdicts([("tps", 16, "encrypted", 0.8, 2.0, "cannot tell")], **changes).iloc[0]


def box(table=TABLE, **options):
    return text(report.verdict_box(table, **options))


# --- words --------------------------------------------------------------------------------------

FEW = {
    "warnings": ["too few blocks: no word", "measured under an earlier plan"],
    "runs_needed": math.nan,
    "minutes_needed": math.nan,
}
SENTENCES = tomllib.loads((DATA / "sentences.toml").read_text())["case"]


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case["about"])
def test_a_row_becomes_a_sentence_and_a_headline(case):
    changed = row(**case.get("row", {}))
    said = amounts.plain(report.sentence(changed))
    assert said == case.get("sentence", said)
    assert amounts.plain(report.headline(changed)).startswith(case.get("headline", ""))


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
    rows = verdicts([("tps", t, "encrypted", 1.0, 2.0, word) for t, word in words.items()])
    said = said.replace("LIMITS", "at most 3.0 % slower, at most 1.0 % faster")
    start = f"Transactions per second. {said} Each from 12 pairs"
    assert amounts.plain(report.finding(rows)) == f"{start}."
    bare = rows.assign(lo_pct=rows["lo_pct"].where(rows["threads"] > 2))
    few = f"{start}, for 2 of the 6 too few for an interval."
    assert amounts.plain(report.finding(bare)) == few


def test_a_caption_says_why_there_is_no_verdict():
    six = [("tps", t, "encrypted", 9.0, 2.0, "cannot tell") for t in range(1, 7)]
    why = "(between 7.0 and 11.0 % slower; 6 only for this reason: too few blocks: no word)"
    assert f"Cannot tell: all 6 {why}." in amounts.plain(report.finding(verdicts(six, **FEW)))
    five = [("tps", t, "encrypted", 1.0, 2.0, "cannot tell") for t in range(1, 6)]
    table = verdicts([*five, ("tps", 6, "encrypted", 1.0, 2.0, "not judged")])
    limits = "at most 3.0 % slower, at most 1.0 % faster"
    said = f"Not judged: 6 threads. Cannot tell: the other 5 ({limits})."
    assert said in amounts.plain(report.finding(table))


def test_a_caption_of_one_arm_and_thread_count_has_the_word_alone():
    many = [("cpu_per_transaction", t, "encrypted", 9.0, 2.0, "slower") for t in (1, 2, 4, 64)]
    table = verdicts([*many, ("p95", 64, "encrypted", 9.0, 2.0, "slower")])
    said = "95th percentile latency at 64 threads. Slower. Each from 12 pairs."
    assert amounts.plain(report.finding(table)).endswith(said)


# --- pieces -------------------------------------------------------------------------------------


def test_the_box_tells_both_costs_each_by_its_word_sentence_and_facts():
    rows = [
        ("cpu_per_transaction", 4, "encrypted", 14.0, 3.0, "slower"),
        ("tps", 4, "encrypted", 1.0, 3.0, "not judged"),
        ("tps", 16, "encrypted", 1.0, 3.0, "cannot tell"),
    ]
    table = verdicts(rows, design="duet")
    leads = [table.loc[n] for n in range(3)]
    shown = report.verdict_box(table, primary=leads[:2], answer="And 7 % more.")
    said = text(shown)
    order = ("Processor time ▲ slower", "Noise floor 3.0 % Measured 3 blocks, 12 pairs")
    order += ("Throughput ○ not judged", "16 threads ? cannot tell", "And 7 % more.")
    assert [said.index(words) for words in order] == sorted(said.index(words) for words in order)
    assert said.count("Noise floor") == 1
    assert shown.markup.count("<svg") == 2
    assert shown.markup.count("±2 % counts as same") == 1
    nearer = leads[0].copy()
    nearer["margin_pct"] = 1.412  # of a duet that may understate
    drawn = report.verdict_box(table, primary=[nearer, leads[1]]).markup
    assert (drawn.count("±1.4 % counts as same"), drawn.count("±2 %")) == (1, 0)
    doubted = [row.copy() for row in leads[:2]]
    for row, own in zip(doubted, ("much", "more"), strict=True):
        row["warnings"] = ["of both", own]
    said = box(table, primary=doubted)
    assert "of both Processor time: much Throughput: more" in said
    assert "To settle it 40 pairs, 6.5 min" in box(table, primary=leads[::2])
    assert "Processor time" not in box(table, primary=leads[:1])
    asked = table.assign(question=["headline", "headline", "masked"])  # of another campaign
    assert "16 threads" not in box(asked, primary=[asked.loc[n] for n in range(2)])


MORE = pd.concat([TABLE.assign(arm="another"), TABLE], ignore_index=True)
HOST = {"cpu": "AMD EPYC", "cores": 2, "memory_B": 24 * 2**30, "system": "Debian 12"}
WHERE = {"finished": "2026-11-20T22:29:41", "engine": {"label": "MySQL 9.7.4"}, "host": HOST}


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        (
            row(overhead_pct=3.0, lo_pct=1.0, hi_pct=5.0, **FEW).to_frame().T,
            {},
            "Too few blocks: no word … Noise floor … To settle it more runs of this kind will not"
            " settle it … measured under an earlier plan",
        ),
        (
            MORE,
            {"primary": {"arm": "encrypted"}},
            "1 thread ▲ slower +4.0 % 4 threads ? cannot tell at most 3.0 % slower, at most 1.0 %"
            " faster … another",
        ),
        (
            TABLE,
            {"campaign": WHERE, "primary": {"metric": "tps", "threads": 4}},
            "? cannot tell … Noise floor 2.0 % Measured 3 blocks, 12 pairs To settle it 40 pairs,"
            " 6.5 min (24 pairs, 3.9 min where a pair varies by 1 %) 1 thread ▲ slower +4.0 % 16 threads ="
            " same +0.1 % … Date 2026-11-20 22:29 Machine AMD EPYC, 2 cores, 24 GiB, Debian 12"
            " Server MySQL 9.7.4",
        ),
        (row(blocks=1, n_arm=1).to_frame().T, {}, "Measured 1 pair "),
    ],
    ids=["a reason once, beside the verdict", "its arm first", "where and on what", "one pair"],
)
def test_the_box_tells_in_this_order(table, options, said):
    found = box(table, **options)
    assert re.search(".*".join(map(re.escape, said.split(" … "))), found), found
    assert "again" not in found
    assert found.lower().count("too few blocks") <= 1


def test_the_box_is_about_the_joint_effect_unless_told():
    assert report.primary(TABLE)["joint"]
    assert report.primary(TABLE, "p99")["threads"] == 4
    assert report.primary(TABLE, {"metric": "tps", "threads": 1})["overhead_pct"] == 4.0
    with pytest.raises(report.ReportError, match="no comparison"):
        report.primary(TABLE, "p95")


@pytest.mark.parametrize(
    ("overhead", "marks"),
    [
        (5.0, {"-4 %", "0 %", "+4 %"}),
        (60.0, {"-40 %", "0 %", "+40 %"}),
        (739.0, {"0.25×", "1×", "4×", "8×"}),
        (-90.0, {"0.2×", "1×", "5×"}),
        (20_000.0, {"0.04×", "1×", "25×"}),
    ],
)
def test_the_ruler_has_factors_beyond_100_percent(overhead, marks):
    ends = sorted((0.9 * overhead, min(1.02 * overhead, 0.98 * overhead + 2)))
    drawn = report.ruler(row(overhead_pct=overhead, lo_pct=ends[0], hi_pct=ends[1]))
    seen = [amounts.plain(t) for t in re.findall(r'class="m">([^<]*[%×])<', drawn)]
    assert marks <= set(seen)
    assert len({t[-1] for t in seen}) == 1
    assert all(float(t.strip("- %").replace(",", "")) < 100 for t in seen if "-" in t)
    assert 20 <= float(re.search(r'cx="([\d.]+)"', drawn)[1]) <= 580


def test_the_table_says_what_is_known_why_and_the_level():
    rows = [("tps", t, "encrypted", 9.0, 2.0, "cannot tell") for t in (1, 2)]
    table = verdicts(rows, **FEW).assign(level=[0.05, 0.0125])
    table.loc[1, "lo_pct"] = -2.0
    said = text(report.verdict_table(table))
    why = "cannot tell (too few blocks) +9.0 % +7.0 to +11.0 % 95 % Too few blocks: no word"
    assert why in said
    assert "cannot tell +9.0 % -2.0 to +11.0 % 98.8 % At most 11.0 % slower, at most 2.0 %" in said
    assert "Level: how often such an interval holds the truth" in said
    assert "Level" not in text(report.verdict_table(table.assign(level=0.05)))
    once = [("tps", 6, "encrypted", 1.0, 2.0, "not judged")]
    said = text(report.verdict_table(verdicts(once)))
    assert "○ not judged +1.0 % -1.0 to +3.0 % Both servers were loaded at once" in said
    once = [("cpu_per_transaction", 1, "encrypted", 9.0, 1.0, "slower")]
    table = verdicts(once, design="duet", warnings=[schedule.CONTENDED])
    said = text(report.verdict_table(table))
    assert "Size under contention: both servers were under load at once" in said


def test_a_page_shows_the_first_rows_of_a_long_table_and_its_data_hold_all():
    short, long_ = (
        report.table(pd.DataFrame({"n": range(n)}), "Runs.").markup for n in (100, 8000)
    )
    assert (short.count("<tr>"), long_.count("<tr>")) == (101, 101)
    assert "first" not in short
    assert "The first 100 of 8,000 rows; its data hold all." in long_
    data = re.search(r'base64,([^"]+)"', long_)[1]
    assert len(csv_data(data).splitlines()) == 8001


def test_a_table_keeps_names_and_times_in_one_piece():
    frame = pd.DataFrame({"run": ["a-b-c"], "start": ["2026-11-21T04:12:17.924+00:00"]})
    markup = report.table(frame).markup
    assert "<td class=nf-n>a-b-c</td>" in markup
    assert "<td class=nf-n>2026-11-21\xa004:12:17\xa0UTC</td>" in markup
    empty = pd.DataFrame({"threads": pd.array([], "Int64"), "arm": []})
    markup = report.table(empty, "Nothing was measured").markup
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
    assert '<meta name="description" content="Cannot tell whether encrypted is slower' in page
    assert page.count("nf-lab") == 0
    code = re.findall(r'<details class="nf-code"><summary>(.*?)</summary>', page)
    assert code[:3] == ["Parameters and their defaults", "Parameters of this page", "Code"]
    assert re.findall(r'<li><a href="#([^"]+)">', page) == ["the-verdict", "overhead", "overhead-2"]
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert page.count('class="nf-scroll" role="region" aria-label=') == 2
    assert "measured in ." in page
    for part in (page, (paths.reports() / "good.ipynb").read_text()):
        for private in (str(home), f"{paths.Path.home()}/", "noisefloor-page-"):
            assert private not in part


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
    assert (str(caught.value), caught.value.code) == (sentence, 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.failed.ipynb", "previous"]
    assert (tmp_path / "previous" / "bad.html").read_text() == "of last time"


def test_the_tables_and_the_index_tell_both_costs(home, tmp_path):
    rows = [
        ("cpu_per_transaction", 4, "encrypted", 14.0, 3.0, "slower"),
        ("tps", 4, "encrypted", 1.0, 3.0, "not judged"),
    ]
    table = verdicts(rows, design="duet")
    table.at[0, "warnings"] = [schedule.CONTENDED]
    leads = [table.loc[0], table.loc[1]]
    report.save(
        table, "both", {"finished": "2026-11-22"}, title="Both", primary=leads, also=leads[:1]
    )
    # outside a page it is saved where no page is
    assert not (paths.reports() / "both.csv").exists()
    assert (home / "data" / "processed" / "both.csv").exists()
    facts = json.loads((home / "data" / "processed" / "both.json").read_text())
    assert [r["metric"] for r in facts["leads"]] == ["cpu_per_transaction", "tps"]
    assert facts["primary"] == facts["leads"][0]
    assert facts["headline"] == " ".join(facts["headlines"])
    assert [h.partition(" ")[0] for h in facts["headlines"]] == ["Encrypted", "Throughput"]
    assert facts["also"] == facts["headlines"][:1]
    (tmp_path / "both.json").write_text(json.dumps(facts))
    (tmp_path / "both.html").write_text("")
    index = text(report.index(tmp_path).read_text())
    assert "Both Processor time ▲ slower +14.0 % under contention" in index
    assert "Throughput ○ not judged +1.0 %" in index
    assert all(amounts.plain(h) in index for h in facts["headlines"])


# --- many pages ---------------------------------------------------------------------------------


def recorded(name, study, finished, **more):
    """A recorded campaign without runs: its folder."""
    folder = paths.recorded() / name
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"study": study, "finished": finished} | more
    (folder / "campaign.json").write_text(json.dumps(facts))
    return folder


def test_recorded_means_the_newest_recorded_campaign(home):
    recorded("many-a", "many", "2026-11-20T10:00")
    recorded("many-b", "many", "2026-11-19T10:00")
    recorded("other-a", "other", "2026-11-21T10:00")
    for name in ("many", "none"):
        write(home, name, ["1"], 'campaign = ""\nprofile = "quick"\n')
    assert report.plan(["many"], "recorded") == [("many", {"campaign": "many-a"}, False)]
    assert report.plan(["many"], "quick") == [("many", {"profile": "quick"}, False)]
    with pytest.raises(report.ReportError, match="none has no recorded campaign; nothing was run"):
        report.plan(["none"], "recorded")


def test_a_recorded_page_holds_the_campaigns_of_all_its_questions(home):
    write(home, "asked", ["1"], 'campaign = ""\nquestion = ""\n')
    for key, day in (("headline", 20), ("processor", 21), ("no-sync", 22)):
        recorded(f"asked-{key}", "asked", f"2026-11-{day}", key=key)
    ((_, values, live),) = report.plan(["asked"], "recorded")
    assert not live
    names = values["campaign"].split(", ")
    assert sorted(names) == ["asked-headline", "asked-no-sync", "asked-processor"]
    earlier = recorded("asked-earlier", "asked", "2026-11-19")  # of all questions at once
    assert report.recorded_campaign("asked") == "asked-headline"
    shutil.rmtree(paths.recorded() / "asked-headline")
    assert report.recorded_campaign("asked") == "asked-earlier"
    shutil.rmtree(earlier)
    assert report.recorded_campaign("asked") == "asked-no-sync"


@pytest.fixture
def alone(home):
    """alone(notebooks) -> a project with these notebooks and no other."""

    def only(**notebooks):
        for old in (home / "notebooks").glob("*.ipynb"):
            old.unlink()
        for name, cells in notebooks.items():
            write(home, name, cells)

    return only


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
    for there in ('href="good.html"', "cannot tell", 'href="bad.failed.ipynb"'):
        assert there in index
    for absent in ('href="bad.html"', 'href="worse.html"', "<script", "https://"):
        assert absent not in index


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


def test_what_jupyter_itself_says_is_not_in_the_terminal(home, tmp_path):
    write(home, "loud", ["import os\nos.write(2, b'a traceback of the kernel')"])
    argv = (*COMMAND, "report", "loud", "--out", tmp_path)
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (tmp_path / "loud.html").exists() == (ran.returncode == 0), ran.stderr
    assert "a traceback of the kernel" not in ran.stdout + ran.stderr


def test_findings_begin_with_the_largest_difference_that_is_decided(home, monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    for study, size, word in (
        ("calibration", 90.0, "slower"),
        ("archive-2026", 80.0, "slower"),
        ("unknown", 70.0, "cannot tell"),
        ("large", -50.0, "faster"),  # as far away as +100 %
        ("small", 60.0, "slower"),
    ):
        folder = tmp_path / "reports" / "published" / f"{study}-2026-11-20"
        folder.mkdir(parents=True)
        facts = {"study": study, "leads": [{"verdict": word, "overhead_pct": size}]}
        (folder / f"{study}.json").write_text(json.dumps(facts))
    found = [facts["study"] for _, facts in batch._newest()]
    assert found == ["large", "small", "unknown", "archive-2026", "calibration"]


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


def test_a_page_that_was_published_before_does_not_keep_others_back(home):
    for name in ("one", "other"):
        write(home, name, [cell.replace("'good'", f"'{name}'") for cell in STUDY])
    (home / "README.md").touch()
    folder = home / "reports" / "published"
    asked = ("report", "one", "other", "--publish")
    assert "published: reports/published/other-2026-11-20" in done(*asked)
    for gone, stays in (("one", "other"), ("other", "one")):
        shutil.rmtree(folder / f"{gone}-2026-11-20")
        ran = noisefloor(*asked)
        assert f"reports/published/{stays}-2026-11-20 is there already" in ran.stderr
        assert ran.exit_code == 1
        assert (folder / f"{gone}-2026-11-20" / f"{gone}.html").exists()
