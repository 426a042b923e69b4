"""A page of several campaigns: what it says of the questions that were answered, and of others."""

import functools
import json
import math
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis import connections
from conftest import DATA, ROOT
from noisefloor import claims, paths, stats, studies
from noisefloor.data import results, tidy
from noisefloor.show import plots, report, rows
from noisefloor.show.markup import cell
from noisefloor.show.report import answers, verified, words
from noisefloor.show.report.batch import recorded_campaign
from noisefloor.text import amounts
from test_report import text
from test_results import answering

COMMAND = "noisefloor run binlog-encryption --question throttled --profile standard"
RECORDED = [  # of new designs: campaign, arm, what a source claims of it
    ("binlog-encryption-rate-standard-20261129-110654", "", "TPS"),
    ("tablespace-encryption-rate-standard-20261129-132930", "tables only", "1 to 16 threads together"),
    ("ssl-connections-rate-standard-20261129-164506", "TLS 1.3, RSA 2048", "native, against an SSH tunnel"),
    ("backup-encryption-headline-standard-20261129-172355", "aes-128-cbc", "backup with aes-128-cbc, time"),
]  # fmt: skip
LEADING = [  # campaign, arm: what each page begins with
    *((campaign, arm) for campaign, arm, _ in RECORDED),
    ("version-upgrade-rate-standard-20261129-195403", ""),
    ("mariadb-upgrade-rate-standard-20261130-103618", ""),
    ("settings-doublewrite-standard-20261129-233625", ""),
]
STUDIES = {
    path.stem: book
    for path in paths.notebooks().glob("*.ipynb")
    if "report.open_page(" in (book := path.read_text())
}


@functools.cache
def opened(*names):
    """Recorded campaigns, read once for whoever changes nothing of them."""
    return results.load(*map(paths.campaign, names))


@pytest.fixture
def folders(home):
    """Campaigns of two questions, the first of which has two sittings, in the order of a page."""
    spent = {"spent_s": 9.6, "wall_s": 12.0, "slices_s": 9.0, "waited_s": 3.4}
    spent |= {"plan": {"blocks": 4, "control": 1, "pairs": 2, "expected": {"tps": 3.21}}}
    paths.recorded().mkdir(parents=True)
    asked = {"first": ("headline", 20), "second": ("headline", 21), "masked": ("masked", 22)}
    return [
        answering(DATA / "campaign", paths.recorded() / name, key, day=day, **spent)
        for name, (key, day) in asked.items()
    ]


@pytest.fixture
def r(folders):
    return results.load(*folders)


@pytest.fixture
def early(recorded):
    """A campaign of an earlier plan, which asked everything."""
    return results.load(recorded)


def test_every_question_has_its_verdicts_or_its_command(r, early):
    said = text(report.questions_section(r))
    assert [words for words in results.questions(r).values() if words not in said] == []
    assert f"throttled Does waiting for a slow disk hide the cost? {COMMAND}" in said
    assert "masked?" in said  # as the campaign itself asked
    assert re.search(r"headline\? ○ provisional, boot 2 of 3 CPU per transaction: ", said)
    assert "asked all questions at once" in text(report.questions_section(early))
    shown = report.answer(r, "headline")
    assert "<svg" in shown.markup
    assert "<figcaption><span>headline? " in shown.markup
    for opened in (r, early):
        said = text(report.answer(opened, "throttled"))
        assert said.startswith("This question is not measured yet. To measure it: noisefloor run")
        assert "--question throttled" in said


def test_an_answer_is_of_the_metrics_that_are_named_and_of_many_rows_over_all_threads():
    r = opened("settings-compression-standard-20261124-164310")
    wanted = ["binlog_bytes_per_transaction", "cpu_per_transaction", "tps"]
    drawn = report.answer(r, "compression", wanted)
    assert "−45.8" in drawn.markup
    assert "−53.6" in drawn.markup  # bytes saved stay a percentage
    shown = text(drawn)
    assert "Smaller: compressed at all threads" in shown
    names = [
        "Binary log per transaction. ",
        "Server CPU per transaction. ",
        "Transactions per second. ",
    ]
    assert [shown.index(n) for n in names] == sorted(shown.index(n) for n in names)
    assert "4 threads" in text(report.answer(r, "compression", wanted[:1]))


def test_plan_and_outcome_stand_beside_each_other(r, early):
    said = text(report.outcome(r))
    assert "headline switched, 1 of 4 blocks, 2 pairs each TPS: expected 3.2 %" in said
    assert "masked switched, 1 of 4 blocks" in said
    row = r"0; measuring \S+ of 0.16 at most plain 0.0 %, encrypted 0.0 % 3 s"
    assert re.search(row, said)
    asked = "What does encrypting the binary log cost?"
    said = text(report.outcome(early))
    assert f"{asked} switched, 1 block TPS: not known" in said
    assert "no gate then" in said


def test_half_width_and_steal_are_those_of_the_leading_campaign():
    r = opened("binlog-encryption-headline-standard-20261125-132426")
    (row,) = (r.alone().query("metric == 'tps' and not control and not joint")).pipe(
        lambda v: [v.assign(half=(np.log1p(v["hi_pct"] / 100) - np.log1p(v["lo_pct"] / 100)) / 2)]
    )
    widest = 100 * np.expm1(row["half"].max())
    taken = r.judged(metric="steal").query("arm == 'plain'")["value"].mean() / 2  # cores
    said = text(report.outcome(r))
    assert f"reached {widest:.1f} %" in said
    assert f"plain {100 * taken:.1f} %" in said


def test_every_sitting_is_shown_and_what_was_left_out(r, early):
    shown = report.sittings_section(r)
    said = text(shown)
    assert shown.markup.count("<figure") == 2  # processor time, throughput
    assert "provisional, boot 2 of 3" in said
    for day in ("2026-11-20", "2026-11-21"):
        assert day in said
    assert "2026-11-22" not in said  # of another question
    assert text(report.sittings_section(early)) == "This page rests on one campaign."
    vars(r)["left"] = ("b has another design: rows (1, here 2)",)
    said = text(report.sittings_section(r))
    assert said.endswith("Campaigns left out (1) b has another design: rows (1, here 2)")


def test_two_processors_stand_beside_each_other():
    names = ("headline-standard-20261125-022441", "headline-standard-20261126-133434")
    r = results.load(*(paths.campaign(f"version-upgrade-{n}") for n in names))
    lead = results.headlines(r)[0]
    said = report.headline_of(lead, r)
    bare = re.sub(r" \([^)]*\)", "", said).replace("\u202f", " ")
    assert re.split("[,;:] ", bare)[1:] == [
        "−6.0 % CPU per transaction at 64 threads on AMD EPYC",
        "+5.8 % at 500 threads",
        "−9.9 % on Intel Xeon",
        "+2.6 % at 200 threads",
        "elsewhere cannot tell",
        "between 3.2 % less and 10.9 % more.",
    ]
    transfers = text(report.transfers(r))
    for on in ("AMD EPYC, model not recorded", "Intel Xeon, model not recorded"):
        assert f"on {on.partition(',')[0]} Processor time: " in transfers
        assert f"at 64 threads, on {on}." in transfers
    leads = report.sittings_section(r)
    assert "AMD EPYC" in leads.text
    assert "Intel Xeon" in leads.text
    box = text(report.begin(r))
    assert "AMD EPYC, 2 cores" in box
    assert "Intel(R) Xeon(R)" in box
    assert "Processor Threads Verdict" in text(report.comparisons(r))


@pytest.mark.parametrize("study", ["binlog-encryption", "ssl-connections"])
def test_a_page_names_its_campaigns_in_an_order_that_gives_the_same_page(study):
    """Also where a question with a campaign of today's design has an earlier one, too."""
    newest = paths.recorded() / recorded_campaign(study)
    page = results.load(*results.beside(newest))
    again = results.load(*map(paths.campaign, page.meta["campaigns"]))
    assert again.meta["campaigns"] == page.meta["campaigns"]
    assert again.left == page.left


def test_a_page_about_two_pairs_of_builds_keeps_their_campaigns_apart():
    pair = ("headline-standard-20261125-022441", "mariadb-standard-20261126-090000")
    r = results.load(*(paths.campaign(f"version-upgrade-{n}") for n in pair))
    first, _, other = report.absolute(r).markup.partition('<details class="nf-more">')
    assert "MySQL 9.7" in first
    assert "Intel" in first
    assert "MariaDB" not in first
    assert "MariaDB 11.8" in other
    assert "AMD" in other
    rows = text(report.outcome(r)).split("mariadb side by side")
    assert "Intel" in rows[0]
    assert "AMD" in rows[1]


def test_the_box_names_machine_and_engines_of_what_leads_the_page_alone(tmp_path, monkeypatch):
    monkeypatch.setenv(report.OUT, str(tmp_path))
    pair = ("headline-standard-20261125-022441", "mariadb-standard-20261126-090000")
    r = results.load(*(paths.campaign(f"version-upgrade-{n}") for n in pair))
    measured = text(report.begin(r)).partition("boot 1 of 3: ")[2]
    alone = text(report.begin(results.load(r.folder))).partition("boot 1 of 3: ")[2]
    assert measured == alone
    assert "2026-11-25, Intel(R) Xeon(R)" in measured
    assert "cores, MySQL 8.0.31 and MySQL 9.7.4." in measured


@pytest.mark.parametrize(("campaign", "arm", "label"), RECORDED)
def test_a_page_begins_with_at_most_90_words(campaign, arm, label, tmp_path, monkeypatch):
    monkeypatch.setenv(report.OUT, str(tmp_path))
    r = opened(campaign)
    title = studies.asks(r.study.name, r.study.key)
    claim = claims.stands(r, label, arm=arm, claimed=0.0 if label == "TPS" else None)
    said = text(report.begin(r, arm, claim))
    differs = "Not comparable: (full load not measured|theirs is a maximum|not measured yet)"
    assert re.search(rf"A blog .*(Agrees so far: a repeat should give|{differs})", said)
    assert "unclear" not in said
    assert title.endswith("?")
    assert "What to do:" in said
    assert ("Encrypting mariadb-backup" in said) == (r.study.name == "backup-encryption")
    client = amounts.ascii_only(connections.client_answer(r.verdicts, "rate"))
    told = "Client CPU: at most 9.8 times."
    assert client == told * (r.study.name == "ssl-connections")
    assert len([w for w in f"{title} {said}".split() if re.search(r"\w", w)]) <= 90, said


NOUNS = {"cpu_per_transaction": "CPU", "cpu_per_connection": "CPU", "p99": "P99"}


def size(row) -> str:
    """What a headline tells of a row's size."""
    if words.undecided(row):
        return words.either(row)
    if row["verdict"] == stats.verdict.SAME:
        return words.interval_text(row)
    return words.limits(row) or str(amounts.size(row["change_pct"], row["metric"]))


@pytest.mark.parametrize(("campaign", "arm"), LEADING)
def test_a_headline_can_be_computed_from_the_table_below_it(campaign, arm):
    """Its change and its units are those of one row of the table, to the last digit; of several thread
    counts together, it lies between theirs."""
    r = opened(campaign)
    table, rows = text(report.absolute(r)), results.headlines(r, arm)
    assert len(rows) == 2
    host = r.meta["host"]
    model = host["processor"]
    generation = {(23, 1): "Zen 1", (25, 1): "Zen 3", (25, 17): "Zen 4"}[
        model["family"], model["model"]
    ]
    assert f" on {generation} ({host['cpu']}, {host['cores']} cores, " in table
    for row in rows:
        said = amounts.ascii_only(report.headline_of(row, r, brief=True))
        told = amounts.ascii_only(size(row))
        assert re.search(rf"(?<![\d.]){re.escape(told)}", said), (told, said)
        change, both = (
            amounts.ascii_only(t) for t in (words.change(row), words.change_in_units(row, r))
        )
        if row["joint"]:
            each = r.of(row["workload"], row["metric"], control=False, question=row["question"])
            each = each[each["arm"].eq(row["arm"]) & ~each["joint"]]
            changes = each.sort_values("threads").apply(words.change, axis=1)
            assert both == ""
            assert all(f") {amounts.ascii_only(c)}" in table for c in changes)
            assert each["change_pct"].min() <= row["change_pct"] <= each["change_pct"].max()
            continue
        noun, values = re.fullmatch(r"(.+): (.+) ms", both).groups()
        assert noun == (row["baseline"] if words.undecided(row) else NOUNS[row["metric"]])
        if words.undecided(row):
            assert f" {values} " in table
        else:
            before, after = values.split(" → ")
            assert f" {before} {after} (" in table
            shown = table.partition(f" {before} {after} (")[2]
            assert shown.partition(") ")[2].startswith(change)


@functools.cache
def on_pages():
    """{page: its campaigns} of the pages that are made of recorded campaigns."""
    jobs = [(page, values or {}) for page, values, _ in report.plan((), "recorded")]
    return {page: v["campaign"].split(", ") for page, v in jobs if v.get("campaign")}


@pytest.mark.parametrize(("campaign", "arm", "_label"), RECORDED)
def test_a_headline_of_several_processors_has_the_numbers_of_their_table(campaign, arm, _label):
    question = campaign.partition("-standard")[0]
    page = on_pages()[question.rpartition("-")[0]]
    r = opened(*(name for name in page if name.startswith(f"{question}-")))
    table = amounts.ascii_only(text(report.comparisons(r)))
    there = set(re.findall(r"\d+(?:\.\d+)?", table))
    for row in results.headlines(r, arm):
        places = words.placed(row, r)
        assert len(places) == len({part.processor for part in r.every}) >= 2
        for place, kept in places:
            for each in kept:
                change, ends = words.change(each), words.interval_text(each)
                shown = f"{place} .*{amounts.ascii_only(change)} {amounts.ascii_only(ends)} "
                assert re.search(re.sub(r"([+()])", r"\\\1", shown), table), shown
        said = amounts.ascii_only(report.headline_of(row, r, brief=True))
        numbers = re.findall(r"(\d+(?:\.\d+)?)(?= %| times| to )", said)
        assert numbers
        assert set(numbers) <= there, said


def test_units_are_the_baseline_and_what_the_printed_change_makes_of_it():
    r = opened("binlog-encryption-headline-standard-20261125-132426")
    said = text(report.absolute(r))
    rows = r.of(results.main_workload(r), "tps", control=False).query("not joint")
    assert len(rows) > 1
    for row in rows.to_dict("records"):
        pairs = r.pairs(results.main_workload(r), "tps").query(f"threads == {row['threads']}")
        kept = pairs["block"].isin(stats.block_means(pairs).index)
        ids = r.judged(results.main_workload(r), "tps").query("arm == 'encrypted'")
        ids = ids[ids["threads"].eq(row["threads"]) & ids["block"].isin(pairs[kept]["block"])]
        base = r.judged(results.main_workload(r), "tps").query("arm == 'plain'")
        base = base[base["pair_id"].isin(ids["pair_id"])]["value"].median()
        base = float(f"{base:.4g}")
        value, lo, hi = (
            cell(base * (1 + round(row[c], 1) / 100)) for c in ("change_pct", "lo_pct", "hi_pct")
        )
        change = amounts.ascii_only(amounts.change(row["change_pct"], "tps"))
        shown = f"{row['threads']} encrypted {cell(base)} {value} ({lo} to {hi}) {change}"
        assert f"Transactions per second, TPS {shown}" in said
    assert "again" not in said  # the control is no arm
    assert "the campaign of 2026-11-25" in said


@pytest.mark.parametrize(
    ("value", "times"), [(739.0, 8.4), (-90.0, 0.1), (3.84, 1.038), (None, math.nan)]
)
def test_a_change_is_multiplied_as_it_is_printed(value, times):
    assert amounts.as_written(value, "tps") == pytest.approx(times, nan_ok=True)


def test_the_rule_is_told_with_its_margins_and_how_many_words_there_are(r):
    said = text(report.rule(r))
    assert "±1 % for CPU per transaction; ±2 % for" in said
    assert "TPS" in said.partition("±2 %")[2].partition("±10 %")[0]
    judged = r.verdicts[~r.verdicts["control"]]
    assert (
        f"gives 0 of its {len(judged)} comparisons a word; one word in twenty may be wrong" in said
    )
    silent = r.verdicts["verdict"].mask(r.verdicts["metric"].eq("tps"), "")
    vars(r)["verdicts"] = r.verdicts.assign(verdict=silent)  # what carries no word does not count
    assert f"gives 0 of its {judged['metric'].ne('tps').sum()} comp" in text(report.rule(r))


def test_what_the_cipher_alone_costs_is_told_beside_what_was_measured(early):
    assert report.expectation(early) is None  # none was timed
    told = {"cipher": {"name": "aes-256-ctr", "bytes": "binlog_bytes_per_transaction"}}
    vars(early)["meta"] = early.meta | told | {"cipher_B_per_s": [8e9, 8.5e9, 9.9e9]}
    vars(early).pop("study", None)
    (row,) = results.expectation(early).to_dict("records")
    plain = early.judged(results.main_workload(early)).query("arm == 'plain'")
    plain = plain.groupby("metric")["value"].median()
    seconds = plain["binlog_bytes_per_transaction"] / 8.5e9
    assert row["expected_pct"] == pytest.approx(100 * seconds / plain["cpu_per_transaction"])
    said = text(report.expectation(early))
    assert said.startswith("Expected of aes-256-ctr alone: ")
    assert "at 8,500 MB/s (openssl speed, on this machine)" in said


def test_a_cipher_of_another_library_than_the_server_s_lets_expect_nothing():
    r = results.load(paths.campaign("binlog-encryption-rate-standard-20261129-110654"))
    assert len(results.expectation(r))
    vars(r)["meta"] = r.meta | {"cipher_library": "3.0.19"}  # as the machine's own command has it
    assert results.expectation(r).empty


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ({"engine": "mysql"}, ""),
        ({"engine": "mariadb"}, " --engine mariadb"),
        ({"engine": "/home/me/build"}, " --engine FOLDER"),
        ({"old": "mariadb", "margin_pct": 3.0}, " --old mariadb --margin 3"),
    ],
)
def test_the_command_measures_what_fits_on_the_page(home, given, more):
    folder = answering(DATA / "campaign", home / "a", "headline", parameters=given)
    assert answers.command(results.load(folder), "throttled") == COMMAND + more


def test_the_command_of_the_campaign_s_own_question_has_its_options(home):
    given = {"threads": [8, 32], "margin_pct": 3.0, "budget_min": 7.5}
    asked = {"headline": given, "own": given | {"settings": ["sync_binlog=1,0"]}}
    headline, own = (
        results.load(answering(DATA / "campaign", home / name, "headline", parameters=parameters))
        for name, parameters in asked.items()
    )
    options = "--profile standard --threads 8,32 --margin 3 --budget 7.5"
    assert answers.command(headline, "headline").endswith(f" {options}")
    assert answers.command(headline, "throttled") == f"{COMMAND} --margin 3"
    vars(own)["study"] = replace(own.study, floor_from="such servers")
    vars(own)["meta"] = own.meta | {"engine": {"kind": "mariadb"}}  # --server allows no --engine
    line = f"noisefloor ab sync_binlog=1,0 {options} --server URL"
    assert answers.command(own, "headline") == line


def test_a_figure_takes_words_and_data_from_its_rows(early):
    rows = results.costs(early, "in memory")
    shown = report.figure(plots.dots(rows), rows, "costs", alt="Two costs.")
    assert "Two costs. Server CPU per transaction at 2 threads" in shown.text
    assert 'download="costs.csv"' in shown.markup
    assert "Transactions per second at 2 threads: cannot tell" in text(shown)
    own = pd.DataFrame({"x": [1]})
    assert "1 row)" in report.figure(plots.dots(rows), rows, "costs", "Own.", data=own).markup
    none = early.of("nothing")
    assert "No figure: this was not measured." in report.figure(None, none, "empty").markup


def test_a_page_begins_with_both_costs_and_ends_with_what_differs(r):
    shown = report.begin(r)
    said = text(shown)
    assert said.index("CPU per transaction") < said.index("TPS")
    assert "boot 2 of 3: 2026-" in said
    facts = json.loads((paths.processed() / "binlog-encryption.json").read_text())
    assert {*facts["campaigns"]["campaign"].split(", ")} == {"first", "second", "masked"}
    assert {*facts["raw"]} == {f"data/raw/recorded/{n}" for n in ("first", "second", "masked")}
    assert [row["question"] for row in facts["leads"]] == ["headline", "headline"]
    assert [row["sittings"] for row in facts["leads"]] == [2, 2]
    said = text(report.provenance(r))
    assert "campaign headline = second , masked = masked" in said
    assert said.count("seed") == 1


@pytest.mark.slow
def test_a_page_of_several_campaigns_repeats_from_its_raw_files(folders):
    (paths.root() / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / "binlog-encryption.ipynb", paths.notebooks())
    (paths.notebooks() / "analysis").symlink_to(ROOT / "notebooks" / "analysis")
    shutil.copytree(ROOT / "data" / "raw" / "published", paths.published())
    (paths.root() / "environment.yml").touch()
    ((study, values, _),) = report.plan(["binlog-encryption"], "recorded")
    assert len(values["campaign"].split(", ")) == 3
    page = report.render(study, values)
    assert COMMAND in page.read_text()
    found = verified.verify(page)
    assert found["equal"], found["differences"][:3]
    assert found["files"] > 60  # of all campaigns
    (next(folders[2].glob("in-memory*")) / "sysbench.txt").write_text("edited")
    found = verified.verify(page)
    assert any(problem.startswith("masked: ") for problem in found["raw"])
    assert "data/raw/recorded/masked is not as it was when the page was made" in found["raw"]


# -- behind the answers ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_page_has_the_same_parts_in_the_same_order(name):
    book = STUDIES[name]
    parts = ("report.begin(r", "report.absolute(r)", "report.comparisons(r)", "report.details(r)")
    assert [book.count(p) for p in parts] == [1, 1, 1, 1]
    assert [book.index(p) for p in parts] == sorted(book.index(p) for p in parts)
    figure = re.search(r"report\.(threads_section|dots|lead_figure|answer)\(", book).start()
    assert figure < book.index("report.sittings_section(r")
    assert book.index("report.rule(r)") < book.index("report.outcome(r)")
    assert book.count("report.transfers(r") == (name != "own-study")
    assert "report.provenance" not in book
    cells = json.loads(book)["cells"]
    folded = ["".join(c["source"]) for c in cells if c["metadata"].get("tags") == ["fold"]]
    assert folded == ["## How it was measured"]


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


def test_the_settings_of_a_page_are_those_of_its_first_question(r, monkeypatch):
    part_of = {id(part.opened): part for part in r.parts}

    def variables(opened):
        return {r.study.baseline.name: {"sync_binlog": f"of {part_of[id(opened)].study.key}"}}

    monkeypatch.setattr(tidy, "variables", variables)
    assert [part.study.key for part in r.parts] == ["headline", "masked"]
    assert "sync_binlog of headline" in text(report.settings(r))


def test_the_my_cnf_of_each_arm_stands_in_one_block():
    page = opened("version-upgrade-rate-standard-20261129-195403")
    found = re.findall("<p>([^<]*)</p><pre>([^<]*)</pre>", report.details(page).markup)
    by_arm = {name: lines.splitlines() for name, lines in found if lines.startswith("[mysqld]")}
    assert list(by_arm) == [rows.arm_label(a.name) for a in page.study.compared]
    for arm in page.study.compared:
        lines = by_arm[rows.arm_label(arm.name)]
        wanted = dict(page.study.settings) | dict(arm.settings)
        assert {f"{k} = {v}" for k, v in wanted.items()} <= set(lines)
        allocator = "# LD_PRELOAD=libjemalloc.so.2 in the environment"
        assert (allocator in lines) == bool(arm.environment)


def test_a_page_names_the_disk_the_instructions_and_the_openssl_of_each_server():
    said = text(report.transfers(opened("version-upgrade-rate-standard-20261129-195403")))
    servers = "MySQL 8.0.31: OpenSSL 1.1.1", "MySQL 9.7.4: OpenSSL 3.6"
    for what in (*servers, "encryption and checksums: aes, ", "by fio"):
        assert what in said


def test_what_it_depends_on_is_made_from_the_campaign(early):
    rows = early.verdicts.copy()
    cpu = (rows["metric"] == "cpu_per_transaction") & ~rows["control"]
    rows.loc[cpu, ["change_pct", "lo_pct", "hi_pct"]] = [10.0, 4.0, 16.0]
    vars(early)["verdicts"] = rows
    base = 1e3 * results.baseline_in_units(early, rows[cpu].iloc[0])
    said = text(report.transfers(early))
    assert f"encrypted: +{cell(float(f'{base / 10:.3g}'))} µs a transaction" in said
    assert "divided by the processor time of a transaction there" in said
    assert f"on {early.processor.partition(',')[0]} Processor time: " in said
    assert "A file beside the server" in said
    few = early.judged(results.main_workload(early), "tps")
    more = pd.concat([few, few.assign(threads=64)])  # as fast with more threads: saturated
    vars(early)["_without_warmups"] = more.astype({"threads": "Int64"})
    assert "2 and 64 threads reach the same throughput" in text(report.transfers(early))


def test_a_page_leads_with_what_is_done(early):
    row = results.headlines(early)[0]
    assert row["does"] == "encrypting the binary log"


def test_latency_is_shown_where_it_has_percentiles():
    """The thread count of the other figures is too busy for any: 30 transactions a client are
    needed."""
    upgrade = paths.campaign("version-upgrade-headline-standard-20261123-002110")
    found = results.load(upgrade)
    assert results.main_threads(found) == 200
    place = "at 64 threads on AMD EPYC, model not recorded: the median run"
    assert place in text(report.latency(found))
    assert results.quantiles(found, results.main_workload(found), 200).empty
