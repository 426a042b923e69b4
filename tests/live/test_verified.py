"""A page is made from recorded raw files; then a number of it, or a raw file, is changed."""

import base64
import json
import re
import shutil

import pytest

from conftest import done, moved, noisefloor, recorded_pages, refused
from noisefloor import paths
from noisefloor.data import pack, packed
from noisefloor.show import report
from noisefloor.show.report import verified

CAMPAIGN = "binlog-encryption-smoke-test"
STEM = "binlog-encryption"


@pytest.fixture
def project(small):
    """The project that holds the page."""
    with moved(small[0]) as home:
        yield home


@pytest.fixture
def page(project, tmp_path):
    """The page in a folder of its own, free to be changed."""
    for part in report.PARTS:
        shutil.copy(paths.reports() / f"{STEM}{part}", tmp_path)
    return tmp_path / f"{STEM}.html"


@pytest.fixture
def campaign(project):
    """The campaign, as it was again after the test."""
    folder = paths.recorded() / CAMPAIGN
    kept = shutil.copytree(folder, project / "kept")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
    kept.rename(folder)


@pytest.fixture
def packed_up(campaign, tmp_path):
    """The campaign packed, in the place of its folder: its archive."""
    loose = campaign.rename(tmp_path / CAMPAIGN)
    folder, _, _ = pack.pack(loose, campaign)
    return packed.archive(folder)


def verify(*args, code=0):
    """What the command prints, when it ends with this exit code."""
    return done("verify", *args, code=code)


def test_a_page_as_it_was_rendered_is_what_its_raw_files_give(page):
    said = verify(page.parent)
    said = re.search(r"all ([\d,]+) numbers are those that ([\d,]+) raw files give", said)
    assert int(said[1].replace(",", "")) > 1000
    assert int(said[2]) == sum(1 for _ in (paths.recorded() / CAMPAIGN).rglob("*/*"))


@pytest.mark.slow
def test_everything_wrong_is_said_at_once(page, campaign):
    """On the page, in the data behind a figure, beside the page, in the raw text, in run.json."""
    text = page.read_text()
    box = text.index('<section class="nf-verdict')
    old = re.search(r'class="nf-answer">(Measured [^<]+)<', text[box:])[1]
    text = text[:box] + text[box:].replace(old, "Measured 777 times.", 1)
    link = re.search(r'download="threads.csv" href="[^,]+,([^"]+)"', text)[1]
    rows = base64.b64decode(link).decode().splitlines()
    cells = rows[1].split(",")
    cells[rows[0].split(",").index("change_pct")] = "77.5"
    changed = "\n".join([rows[0], ",".join(cells), *rows[2:]]) + "\n"
    text = text.replace(link, base64.b64encode(changed.encode()).decode())
    method = re.search(r"&#34;method&#34;: &#34;(\w+)&#34;", text)[1]
    page.write_text(text.replace(method, "0123456789ab"))
    facts = json.loads(page.with_suffix(".json").read_text())
    facts["comparisons"][0]["lo_pct"] = -77.0
    page.with_suffix(".json").write_text(json.dumps(facts))
    one, two = sorted(campaign.glob("*p00*encrypted"))[:2]
    shutil.copy(two / "sysbench.txt", one / "sysbench.txt")
    run = json.loads((two / "run.json").read_text())
    run["usage"]["server"]["cpu_s"] *= 2
    (two / "run.json").write_text(json.dumps(run))
    shutil.copytree(one, campaign / "another")
    (found,) = json.loads(verify(page, "--json", code=1))["pages"]
    differs = [(d["where"], d["page"]) for d in found["differences"]]
    assert ("verdict box 1", "Measured 777 times.") in differs
    assert ("Figure 1", ",".join(cells)) in differs
    assert any(w.startswith(f"{STEM}.json, line") and s == '"lo_pct": -77.0,' for w, s in differs)
    raw = "\n".join(found["raw"])
    assert f"{one.name}/sysbench.txt was changed after the run" in raw
    assert f"{CAMPAIGN}/{two.name}/run.json was changed after the campaign ended" in raw
    assert "another/run.json was added after the campaign ended" in raw
    assert "is not as it was when the page was made" in raw
    assert "made by an earlier or later version of the method (0123456789ab" in found["notes"][0]
    assert verified.text(found).count("; recomputed ") == verified.SHOWN
    assert "more (--json has all)" in verified.text(found)


LABEL = re.compile(r"(<text[^>]*>)([^<]*\d[^<]*)(</text>)")


@pytest.mark.parametrize(
    ("was", "becomes", "where"),
    [
        (LABEL, r"\g<1>4711\3", "Figure 1"),
        (re.compile(r'(<path d="M[ ]?)(\d+)'), r"\g<1>4711", "Figure 1"),
        (re.compile(r"(<td class=nf-r>)([^<]*)"), r"\g<1>4711", "Table "),
        (re.compile(r'(<meta name="description" content=")'), r"\g<1>4711 ", "title and desc"),
        (re.compile(r"(<h1>)"), r"\g<1>4711 ", "title and desc"),
        (re.compile(r'(<dl class="nf-facts">.*?<dd><span>)'), r"\g<1>4711", "provenance 1"),
        (re.compile(r"(at its end\.)"), r"\g<1> 4711", "under “how-it-was-measured”"),
    ],
)
def test_a_number_changed_anywhere_is_found(page, was, becomes, where):
    text = page.read_text()
    main = text.index("</section>") if where != "title and desc" else 0
    page.write_text(text[:main] + was.sub(becomes, text[main:], count=1))
    assert page.read_text() != text
    new, _ = verified._said(paths.reports() / f"{STEM}.html")
    assert verified.compared(new, new) == []
    (found,) = verified.compared(verified._said(page)[0], new)
    assert found["where"].startswith(where)
    assert "4711" in found["page"]


def test_a_fraction_may_differ_beyond_its_fifth_digit():
    old, near, far = ([("here", f"1.23{end} of 20261122")] for end in ("4561", "4562", "5"))
    assert verified.compared(old, near) == []
    assert len(verified.compared(old, far)) == 1
    assert len(verified.compared(old, [("here", "1.234561 of 20261123")])) == 1


# -- raw files -------------------------------------------------------------------------------------


@pytest.mark.slow  # and every published page, whose campaigns are packed
def test_a_page_is_what_its_raw_files_give_when_they_are_packed(page, packed_up):
    verify(page)


@pytest.mark.slow  # test_pack damages archives, too
def test_damage_in_an_archive_is_found(page, packed_up):
    """A changed text, a removed run, and a changed file that no run holds."""
    held = {k: bytes(v) for k, v in packed.runs_folder(packed_up.parent).archive.files.items()}
    one, two = sorted(n for n in held if n.endswith("/sysbench.txt") and "p00" in n)[:2]
    beside = next(n for n in held if n.startswith("variables-"))
    for name in (one, beside):
        held[name] += b" "
    run = two.removesuffix("sysbench.txt")
    pack.write(packed_up, [(n, s) for n, s in held.items() if not n.startswith(run)])
    raw = "\n".join(json.loads(verify(page, "--json", code=1))["pages"][0]["raw"])
    assert f"{one} was changed after the run (its sha256 differs)" in raw
    assert f"{CAMPAIGN}/{run}run.json was removed after the campaign ended" in raw
    assert f"{CAMPAIGN}/{beside} was changed after the campaign ended" in raw
    assert f"{CAMPAIGN} is not as it was when the page was made" in raw


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (lambda a: a.write_bytes(a.read_bytes()[:-50]), "is cut short; it was not opened"),
        (lambda a: pack.write(a, [("../x", b"")]), "a name that would leave the folder"),
    ],
)
def test_an_archive_that_cannot_be_opened_is_one_sentence(page, packed_up, harm, sentence):
    harm(packed_up)
    said = verify(page, code=1)
    assert sentence in said
    assert said.count("raw files: ") == 1


def test_a_campaign_that_is_gone_is_named(page, campaign):
    shutil.rmtree(campaign)
    assert f"raw files: campaign {CAMPAIGN} is missing" in verify(page, code=1)


# -- which pages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("holds", "sentence"),
    [
        (None, "is no page and no folder with a page"),
        ("", "is no page and no folder with a page"),
        ("index.html", "is no page and no folder with a page"),
        ("other.html", "is no page of Noisefloor: it does not say how it was made"),
    ],
)
def test_what_is_no_page_is_refused(project, tmp_path, holds, sentence):
    folder = tmp_path / "x"
    if holds is not None:
        folder.mkdir()
    if holds:
        (folder / holds).write_text("<html></html>")
    refused(noisefloor("verify", folder), words=sentence)


def test_a_page_that_is_cut_off_is_refused(tmp_path):
    page = tmp_path / "cut.html"
    made = '<meta name="noisefloor" content="{&#34;campaigns&#34;: {}}"><main>'
    page.write_text(f"{made}</main>")
    assert verified.pages(page) == [page]
    page.write_text(made)
    with pytest.raises(report.ReportError, match=r"cut\.html is cut off; nothing was verified"):
        verified.pages(page)


def test_an_index_among_the_pages_is_passed_over(page, project):
    beside = page.parent / "index.html"
    shutil.copy(paths.reports() / "index.html", beside)
    assert verified.pages(page.parent, beside, page) == [page]


@pytest.mark.slow
def test_every_page_of_the_project_comes_out_the_same_again(site):
    """To the byte, and so to the number."""
    with moved(site):
        again = paths.root() / "again"
        rows = report.render_all(report.plan((), "recorded"), again)
        pages = {*report.studies(), *report.of_questions(), *report.published_archives()}
        assert {study for study, _, _ in rows} == pages
        for file in sorted(again.iterdir()):
            assert file.read_bytes() == (paths.reports() / file.name).read_bytes(), file.name


@pytest.mark.slow
@pytest.mark.parametrize("name", recorded_pages())
def test_every_page_of_the_project_is_what_its_raw_files_give(site, name):
    with moved(site):
        found = verified.verify(paths.reports() / f"{name}.html")
    assert found["equal"], verified.text(found)
