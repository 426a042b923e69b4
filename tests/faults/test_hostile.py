"""Names and texts from others: on the page, in a terminal, in a spreadsheet and on disk they are
text and nothing else. The page is opened in a real browser."""

import ast
import csv
import http.server
import io
import json
import os
import pickle
import re
import shutil
import subprocess
import threading
import unicodedata
from pathlib import Path

import pandas as pd
import pytest
import yaml

import lab
from conftest import DATA, ROOT, done, moved
from conftest import noisefloor as run
from noisefloor import parse, paths
from noisefloor.data import results, tidy
from noisefloor.servers import engines
from noisefloor.show import plots, report
from noisefloor.show.markup import csv_data
from noisefloor.text import sheet

STUDY = "binlog-encryption"
SCRIPT = "document.documentElement.dataset.hacked=1"
MARKUP = [
    f"<script>{SCRIPT}</script>",
    f"<img src=x onerror={SCRIPT}>",
    f"\"><svg onload='{SCRIPT}'>",
    f"'-->]]></style></textarea></title></svg><script>{SCRIPT}</script>",
    f"[x](javascript:{SCRIPT}) ![y](http://127.0.0.1:PORT/markdown) $\\href{{javascript:{SCRIPT}}}{{z}}$",
    "{{ 7 * 191 }} {% raw %} <nf-held>0</nf-held>",
    "<link rel=stylesheet href=http://127.0.0.1:PORT/css><img src=http://127.0.0.1:PORT/image>",
]
FORMULAS = ['=HYPERLINK("http://127.0.0.1/","x")', "+1+cmd|' /C calc'!A0", "-2+3+cmd", "@SUM(1,2)", "\t=1+1", "|x", " =1", "\uff1d1+1"]  # fmt: skip
STEERING = ["\x1b[31mred", "\x1b]0;title\x07", "\x9b2J", "a\rb", "\x08\x08"]
STEERING += ["\u202egnp.exe", "\x00"]


def hostile(campaign: Path, words: list[str]) -> Path:
    """The campaign with the words in all of its names."""
    arms = {"plain": words[0], "encrypted": words[1 % len(words)]}
    arms["plain again"] = arms["plain"] + " again"
    where = words[2 % len(words)]
    everything = " ".join(words)
    file = campaign / "campaign.json"
    facts = json.loads(file.read_text())
    facts["arms"] = {arms[n]: a | {"name": arms[n]} for n, a in facts["arms"].items()}
    facts |= {"baseline": arms["plain"], "control": arms["plain again"]}
    facts["workloads"][0] |= {"name": where, "why": everything}
    facts["title"] = facts["question"] = facts["commit"] = facts["ended_because"] = everything
    facts["engine"] = {"label": everything, "kind": "mysql", "version": everything, "note": ""}
    facts["host"] |= {"cpu": everything, "system": everything, "kernel": everything}
    facts["tools"] = {everything: everything}
    facts["skipped"] = {everything: everything}
    facts["parameters"] |= {everything: everything}
    file.write_text(json.dumps(facts))
    for path in campaign.glob("*/run.json"):
        run = json.loads(path.read_text())
        run |= {"arm": arms[run["arm"]], "workload": where, "warnings": [everything]}
        file = path.with_name("evidence.json")
        checks = json.loads(file.read_text())
        for check in checks["checks"]:
            check |= {"check": everything, "found": words[-1], "evidence": where}
        file.write_text(json.dumps(checks))
        run["sha256"][file.name] = tidy.sha256(file)
        run["pair_id"] = run["pair_id"] + " " + words[0]
        path.write_text(json.dumps(run))
    for path in campaign.glob("variables-*.json"):
        values = json.loads(path.read_text())
        values |= {"version_comment": everything, everything: f"{path.name} {everything}"}
        path.write_text(json.dumps(values))
    return campaign


# -- on the page -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def witness():
    """(address of a server on loopback, the paths that were asked of it)."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], asked
    server.shutdown()


def seen_by_a_browser(page: Path, profile: Path) -> str:
    """The page's document as Chromium has it after all scripts ran."""
    argv = [lab.chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    argv += [f"--user-data-dir={profile}", "--virtual-time-budget=3000", page.as_uri()]
    seen = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)
    assert seen.stdout, seen.stderr[-500:]
    return seen.stdout


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory, witness):
    """A page of a campaign whose every name is hostile, rendered from the study's own notebook."""
    home = tmp_path_factory.mktemp("hostile")
    shutil.copytree(ROOT / "notebooks", home / "notebooks")
    shutil.copytree(DATA / "campaign", home / "data" / "raw" / "recorded" / "odd")
    words = [w.replace("PORT", str(witness[0])) for w in (*MARKUP, *FORMULAS)]
    hostile(home / "data" / "raw" / "recorded" / "odd", words)
    with moved(home):
        done("report", STUDY, "-p", "campaign", "odd", "--jobs", "1")
        yield home / "reports"


def is_text(page: Path, profile: Path) -> None:
    """Opened in a browser, the page shows the names and does nothing else."""
    document = seen_by_a_browser(page, profile)
    assert "data-hacked" not in document.split(">", 2)[1]
    assert "dataset.hacked" in document  # the names are shown, as text
    assert not re.search(r"<[a-z]+[^<>]*\son[a-z]+=", re.sub(r'"[^"]*"', '""', document))
    assert not re.search(r"<(?:iframe|object|embed|base|form|meta http-equiv)", document)
    assert "1337" not in re.sub(r"[\w./+=-]{40,}", "", document)  # no template was filled in


@pytest.mark.slow
def test_markup_in_every_name_is_text_in_a_browser(hostile_page, witness, tmp_path):
    for name in (f"{STUDY}.html", "index.html"):
        is_text(hostile_page / name, tmp_path / name)
    assert witness[1] == []


@pytest.mark.slow
def test_markup_is_text_where_a_campaign_is_explored(hostile_page, witness, tmp_path):
    done("report", "explore", "-p", "source", "odd", "--jobs", "1", "--out", tmp_path / "out")
    is_text(tmp_path / "out" / "explore.html", tmp_path / "profile")
    assert witness[1] == []


def test_the_browser_would_have_seen_it(witness, tmp_path):
    """The witnesses work: the same words as markup run a script and fetch a file."""
    page = tmp_path / "page.html"
    page.write_text(MARKUP[1] + MARKUP[-1].replace("PORT", str(witness[0])))
    before = len(witness[1])
    assert "data-hacked" in seen_by_a_browser(page, tmp_path / "profile")
    assert witness[1][before:]
    del witness[1][before:]


def tables(folder: Path):
    """Every CSV beside a page and inside it."""
    for file in folder.glob("*.csv"):
        yield file.read_text()
    for file in folder.glob("*.html"):
        for data in re.findall(
            r"data:(?:text/csv|application/gzip)[^,]*,([\w+/=]+)", file.read_text()
        ):
            yield csv_data(data).decode()


def harmless(text: str) -> bool:
    """Whether a spreadsheet takes a cell for text or a number."""
    number = re.fullmatch(r"[+-]?[0-9.,]+(e[+-]?[0-9]+)?([ \u202f]?%)?", text)
    return bool(number) or not re.match("\\s*[=+\\-@|\t\r\uff1d\uff0b\uff0d\uff20]", text)


def test_no_table_of_a_page_holds_a_formula(hostile_page):
    found = list(tables(hostile_page))
    assert len(found) > 5
    cells = [cell for text in found for row in csv.reader(io.StringIO(text)) for cell in row]
    assert any(c.startswith("'") for c in cells)
    assert [c for c in cells if not harmless(c)] == []


@pytest.mark.slow
def test_a_pack_of_hostile_names_is_text_for_whoever_builds_a_site_of_it(hostile_page, witness, tmp_path):  # fmt: skip
    """The post as Markdown, the fragment in a browser, its tables in a spreadsheet."""
    done("bundle", "odd", "--out", tmp_path / "pack")
    for name in ("post.md", "README.md"):
        text = (tmp_path / "pack" / name).read_text()
        front, _, body = text[3:].partition("\n---\n") if text.startswith("---") else ("", "", text)
        assert SCRIPT in text
        assert "title" in yaml.safe_load(front) if front else True
        assert re.findall(r"(?<!\\)<\w|{{|{%|(?<!\\)\]\(javascript", body) == []
    page = tmp_path / "page.html"
    page.write_text("<!doctype html>" + (tmp_path / "pack" / "fragment.html").read_text())
    assert "data-hacked" not in seen_by_a_browser(page, tmp_path / "profile").split(">", 2)[1]
    assert witness[1] == []
    found = [c for f in (tmp_path / "pack").rglob("*.csv") if "published" not in f.parts for row in csv.reader(f.open(newline="")) for c in row]  # fmt: skip
    assert len(found) > 100
    assert [c for c in found if not harmless(c)] == []


# -- in a spreadsheet ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_gets_an_apostrophe(text):
    assert sheet.cell(text) == f"'{text}"
    assert harmless(sheet.cell(text))


@pytest.mark.parametrize(
    "value", ["plain", "+5 %", "-3.6 %", "1,234", "", "a=b", "x-y", 3, -3.5, None, True, "→ =1"]
)
def test_names_and_numbers_stay_as_they_are(value):
    assert sheet.cell(value) is value


def test_a_table_keeps_its_numbers():
    frame = pd.DataFrame(
        {"=a": ["@x", None], "b": [-1.5, 2.0], "c": pd.array([1, None], dtype="Int64")}
    )
    text = sheet.cells(frame).to_csv(index=False, lineterminator="\n")
    assert text == "'=a,b,c\n'@x,-1.5,1\n,2.0,\n"
    assert list(frame) == ["=a", "b", "c"]


@pytest.mark.parametrize("words", [FORMULAS[:3], STEERING[:3]], ids=["formulas", "control"])
def test_the_csv_of_compare_is_text(tmp_path, words):
    logs = sorted((DATA / "compare").glob("00-*.txt"))
    before, after = ([p for p in logs if p.stem.endswith(side)] for side in "AB")
    names = ("--baseline-name", words[0], "--arm-name", words[1])
    said = done("compare", "--csv", *names, *before, "--", *after)
    rows = list(csv.reader(io.StringIO(said)))
    assert all(harmless(c) and c.isprintable() for row in rows for c in row)


# -- in a terminal ---------------------------------------------------------------------------------


def steers(text: str) -> list[str]:
    """What in a text would do something to a terminal."""
    return [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs")]


@pytest.fixture
def project(home):
    """A project folder with a campaign whose names steer terminals."""
    shutil.copytree(ROOT / "notebooks", home / "notebooks")
    hostile(shutil.copytree(DATA / "campaign", paths.runs() / "odd"), STEERING)
    return home


def test_no_command_prints_what_steers_a_terminal(project):
    history = f"history {STUDY}"
    for line in ("store", history, f"{history} --json", f"{history} --arm x", "store no-such"):
        result = run(*line.split())
        assert result.exit_code in (0, 2), result.output
        assert steers(result.output) == []


def test_every_command_prints_by_the_function_that_takes_steering_out():
    """`say`, or `print_answer`, which makes one word of its lines bold."""
    files = (ROOT / "lib" / "noisefloor" / "cli").glob("*.py")
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert len([x for x in lines if "click.echo(" in x or re.search(r"\bprint\(", x)]) == 2


def test_no_log_and_no_file_name_steers_a_terminal(tmp_path):
    logs = tmp_path / "\x1b[31m \u202e=1"
    logs.mkdir()
    good = next((DATA / "compare").glob("00-*A.txt")).read_bytes()
    (logs / "a\x1b[2J.txt").write_bytes(good)
    bad = tmp_path / os.fsdecode(b"odd-\xff\x1b]0;x\x07")
    bad.mkdir()
    (bad / "b.txt").write_bytes(good + b"FATAL: \x1b[31m\xff\xc2\x9b2J\n")
    (bad / "c.txt").write_bytes(good.replace(b"tps: ", b"tps: \x1b[31m"))
    bad_one = bad / "c.txt"
    for files in ([logs, "--", bad], [logs, "--", bad_one], [logs, "--", logs], [bad, "--", logs]):
        for form in ((), ("--markdown",), ("--csv",)):
            result = run("compare", *files, *form)
            assert result.exception is None or isinstance(result.exception, SystemExit)
            assert steers(result.output) == []
    names = ("--baseline-name", "\x1b[31m", "--arm-name", "\u202e\ud800")
    logs = sorted((DATA / "compare").glob("00-*.txt"))
    assert steers(done("compare", *names, *logs[::2], "--", *logs[1::2])) == []


@pytest.mark.parametrize("word", STEERING)
def test_an_error_of_a_parser_is_fit_for_a_terminal(word):
    text = f"sysbench 1.0.20\nFATAL: x{word}y\n"
    with pytest.raises(parse.ParseError) as caught:
        parse.sysbench(text)
    assert steers(str(caught.value)) == []


# -- on disk ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../x", "/etc", ".", "..", "a/b", "a\0b", "-rf", "-x", "x" * 101, "", "a\nb"]
)
def test_a_name_is_never_a_path(project, name):
    with pytest.raises(paths.NotFound):
        paths.campaign(name)
    with pytest.raises(report.ReportError):
        report.notebook(name)
    with pytest.raises(engines.EngineMissing):
        engines.find(name if name not in ("/etc", ".", "..", "../x", "a/b") else "no/such")


def test_what_a_campaign_calls_itself_decides_no_file_name(project, tmp_path):
    """`fact` files and figures are named by what was measured, never by what stands in a file."""
    for name in ("../../x", "/etc/passwd", "a\0b", ""):
        file = tidy.fact_file(tmp_path, name)
        assert file.parent == tmp_path
        assert re.fullmatch(r"fact-[a-z0-9-]*\.json", file.name)


DANGEROUS = {"eval", "exec", "__import__", "compile"}
UNPICKLES = {
    *("pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "jsonpickle"),
}
ATTRIBUTES = {"read_pickle", "to_pickle", "extractall", "unpack_archive", "read_hdf"}
OF_OS = {"system", "popen"}


@pytest.mark.parametrize("path", sorted((ROOT / "lib").rglob("*.py")), ids=lambda p: p.name)
def test_nothing_that_others_wrote_is_executed_or_unpickled(path):
    """No line of the library could: no eval, no pickle, no shell, no unpacking by the archive's own
    names."""
    for node in ast.walk(ast.parse(path.read_text())):
        where = f"{path.name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {a.name.split(".")[0] for a in node.names} | {(getattr(node, "module", "") or "").split(".")[0]}  # fmt: skip
            assert not names & UNPICKLES, where
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            plain = isinstance(node.func, ast.Name)
            assert not (plain and called in DANGEROUS), where
            assert not (not plain and called in ATTRIBUTES), where
            module = getattr(getattr(node.func, "value", None), "id", None)
            assert not (module == "os" and called in OF_OS), where
            given = {k.arg: k.value for k in node.keywords}
            assert not getattr(given.get("shell"), "value", False), where
            assert not getattr(given.get("allow_pickle"), "value", False), where


def test_nothing_in_an_archive_is_run(home, tmp_path):
    """Programs, notebooks and pickles among results, under the names that would tempt."""
    witness = tmp_path / "witness"

    class Evil:
        def __reduce__(self):
            return open, (str(witness), "w")

    touch = f"open({str(witness)!r}, 'w')"
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": touch}
    book = {"cells": [cell | {"outputs": [], "execution_count": None}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}  # fmt: skip
    tree = tmp_path / "tree"
    tree.mkdir()
    shutil.copy(next((DATA / "compare").glob("00-*A.txt")), tree / "good.txt")
    for name in ("tidy.parquet", "tidy.pkl", "table.npy", "campaign.json", "x.joblib"):
        (tree / name).write_bytes(pickle.dumps(Evil()))
    for name in ("page.ipynb", "manifest.json"):
        (tree / name).write_text(json.dumps(book))
    for name, text in (("run.py", touch), ("conftest.py", touch), ("run.lua", f"io.open({str(witness)!r}, 'w')"), ("run.sh", f"#!/bin/sh\ntouch {witness}\n")):  # fmt: skip
        (tree / name).write_text(text)
        (tree / name).chmod(0o755)
    assert done("ingest", tree, "--out", tmp_path / "tables").startswith("1 run")
    for file in ("tidy.parquet", "page.ipynb", "campaign.json"):
        result = run("compare", "--from", tree / file, "--baseline", "server=mysql")
        assert result.exit_code in (1, 2)
        assert result.stderr.count("\n") == 1, result.stderr
    result = run("compare", "--from", tree, "--baseline", "server=mysql")
    assert result.stderr.count("\n") == 1, result.stderr
    assert not witness.exists()
    pickle.loads((tree / "tidy.pkl").read_bytes()).close()  # it would have been
    assert witness.exists()


def test_every_csv_goes_through_sheet():
    """But for figures of the calibration, whose names are all ours."""
    for path in (ROOT / "lib").rglob("*.py"):
        for n, line in enumerate(path.read_text().splitlines(), 1):
            if ".to_csv(" in line and path.name != "truth.py":
                near = "\n".join(path.read_text().splitlines()[max(n - 2, 0) : n])
                assert "sheet.cells(" in near, f"{path.name}:{n}"


def test_opened_frames_hold_the_names_as_they_are(project):
    """Nothing is changed on the way in: what is made harmless is what is shown."""
    opened = results.load(paths.runs() / "odd")
    assert set(opened.verdicts["arm"]) <= {*STEERING, STEERING[0] + " again"}
    assert plots.alt(opened.verdicts)
