"""A page is made from recorded raw files; then a number of it, or a raw file, is changed."""

import base64
import json
import re
import shutil
import zipfile

import pytest
from click.testing import CliRunner

from conftest import moved
from noisefloor import pack, packed, paths, report, tidy
from noisefloor.cli import main
from noisefloor.report import verified

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


def verify(*args):
    return CliRunner().invoke(main, ["verify", *map(str, args)])


def test_a_page_as_it_was_rendered_is_what_its_raw_files_give(page):
    ran = verify(page.parent)
    assert ran.exit_code == 0, ran.output
    said = re.search(r"all ([\d,]+) numbers are those that ([\d,]+) raw files give", ran.output)
    assert int(said[1].replace(",", "")) > 1000
    assert int(said[2]) == sum(1 for _ in (paths.recorded() / CAMPAIGN).rglob("*/*"))


def test_everything_wrong_is_said_at_once(page, campaign):
    """On the page, in the data behind a figure, beside the page, in the raw text, in run.json."""
    text = page.read_text()
    box = text.index('<section class="nf-verdict')
    old = re.search(r"Measured</dt><dd>([^<]+)", text[box:])[1]
    text = text[:box] + text[box:].replace(f"<dd>{old}</dd>", "<dd>777 pairs</dd>", 1)
    link = re.search(r'download="overhead.csv" href="[^,]+,([^"]+)"', text)[1]
    rows = base64.b64decode(link).decode().splitlines()
    cells = rows[1].split(",")
    at = rows[0].split(",").index("overhead_pct")
    cells[at] = "77.5"
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
    ran = verify(page, "--json")
    assert ran.exit_code == 1
    (found,) = json.loads(ran.output)["pages"]
    where = {d["where"]: d["page"] for d in found["differences"]}
    assert where["verdict box, Measured"] == "777 pairs"
    assert where["Figure 1, overhead.csv, row 1, overhead_pct"] == "77.5"
    assert where[f"{STEM}.json, comparisons 1 lo_pct"] == "-77.0"
    raw = "\n".join(found["raw"])
    assert f"{one.name}/sysbench.txt was changed after the run" in raw
    assert f"{CAMPAIGN}/{two.name}/run.json was changed after the campaign ended" in raw
    assert "is not as it was when the page was made" in raw
    assert "made by an earlier or later version of the method (0123456789ab" in found["notes"][0]
    assert verified.text(found).count("; recomputed ") == verified.SHOWN
    assert "more (--json has all)" in verified.text(found)


@pytest.fixture
def packed_up(campaign, tmp_path):
    """The campaign packed, in the place of its folder: its zip."""
    loose = campaign.rename(tmp_path / CAMPAIGN)
    folder, _, _ = pack.pack(loose, campaign)
    return packed.archive(folder)


def rewritten(zip_, change):
    """The zip again with `change` made to its {name: content}."""
    with zipfile.ZipFile(zip_) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    change(held)
    pack.write(zip_, held.items())


def test_a_page_is_what_its_raw_files_give_when_they_are_packed(page, packed_up):
    ran = verify(page)
    assert ran.exit_code == 0, ran.output


def test_damage_in_a_zip_is_found(page, packed_up):
    """A changed text, a removed run, and a changed file that no run holds."""

    def change(held):
        one, two = sorted(n for n in held if n.endswith("/sysbench.txt") and "p00" in n)[:2]
        held[one] += b" "
        for name in [n for n in held if n.startswith(two.removesuffix("sysbench.txt"))]:
            del held[name]
        held[next(n for n in held if n.startswith("variables-"))] += b" "
        return one, two.replace("sysbench.txt", "run.json")

    with zipfile.ZipFile(packed_up) as archive:
        edited, removed = change(dict.fromkeys(archive.namelist(), b""))
    rewritten(packed_up, change)
    ran = verify(page, "--json")
    assert ran.exit_code == 1
    raw = "\n".join(json.loads(ran.output)["pages"][0]["raw"])
    assert f"{edited} was changed after the run (its sha256 differs)" in raw
    assert f"{CAMPAIGN}/{removed} was removed after the campaign ended" in raw
    assert re.search(rf"{CAMPAIGN}/variables-\w+.json was changed after the campaign ended", raw)
    assert f"{CAMPAIGN} is not as it was when the page was made" in raw


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (lambda z: z.write_bytes(z.read_bytes()[:-50]), "cannot be read (File is not a zip file)"),
        (lambda z: pack.write(z, [("../x", b"")]), "a name that would leave the folder"),
    ],
)
def test_a_zip_that_cannot_be_opened_is_one_sentence(page, packed_up, harm, sentence):
    harm(packed_up)
    ran = verify(page)
    assert ran.exit_code == 1
    assert sentence in ran.output
    assert ran.output.count("raw files: ") == 1


LABEL = re.compile(r"(<text[^>]*>)([^<]*\d[^<]*)(</text>)")


@pytest.mark.parametrize(
    ("was", "becomes", "where"),
    [
        (LABEL, r"\g<1>4711\3", "Figure 1, labels"),
        (re.compile(r'(<path d="M[ ]?)(\d+)'), r"\g<1>4711", "Figure 1, drawing"),
        (re.compile(r"(<td class=nf-r>)([^<]*)"), r"\g<1>4711", "Table "),
        (re.compile(r'(<meta name="description" content=")'), r"\g<1>4711 ", "description"),
        (re.compile(r'(<dl class="nf-facts">.*?<dd><span>)'), r"\g<1>4711", "provenance, "),
        (re.compile(r"(the block is the unit\.)"), r"\g<1> 4711", "under “How it was measured”"),
    ],
)
def test_a_number_changed_anywhere_is_found(page, was, becomes, where):
    text = page.read_text()
    main = text.index("</section>") if "<meta" not in was.pattern else 0
    page.write_text(text[:main] + was.sub(becomes, text[main:], count=1))
    assert page.read_text() != text
    old = verified._leaves(page, STEM)
    new = verified._leaves(paths.reports() / f"{STEM}.html", STEM)
    assert list(verified.compared(new, new)) == []
    found = [(w, a) for w, a, _ in verified.compared(old, new)]
    assert len(found) == 1, found
    assert found[0][0].startswith(where)
    assert "4711" in found[0][1]


def test_a_campaign_that_is_gone_is_named(page, campaign):
    shutil.rmtree(campaign)
    ran = verify(page)
    assert ran.exit_code == 1
    assert f"raw files: campaign {CAMPAIGN} is missing" in ran.output


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (None, "is no page and no folder with a page"),
        ("", "is no page and no folder with a page"),
        ("index.html", "is no page and no folder with a page"),
        ("other.html", "is no page of Noisefloor: it does not say how it was made"),
    ],
)
def test_what_is_no_page_is_refused(project, tmp_path, make, sentence):
    folder = tmp_path / "x"
    if make is not None:
        folder.mkdir()
    if make:
        (folder / make).write_text("<html></html>")
    ran = verify(folder)
    assert ran.exit_code == 2
    assert ran.output.startswith("noisefloor: ")
    assert ran.output.count("\n") == 1
    assert sentence in ran.output


def test_a_seal_tells_what_was_added_removed_and_changed(recorded):
    assert tidy.broken(recorded) == []  # without one
    tidy.seal(recorded)
    assert tidy.broken(recorded) == []
    one, two, three = tidy.run_folders(recorded)[:3]
    shutil.rmtree(one)
    shutil.copytree(two, recorded / "another")
    (three / "run.json").write_text((three / "run.json").read_text() + "\n")
    assert sorted(tidy.broken(recorded)) == sorted(
        [
            f"{one.name}/run.json was removed after the campaign ended",
            "another/run.json was added after the campaign ended",
            f"{three.name}/run.json was changed after the campaign ended",
        ]
    )
    assert set(tidy.broken(recorded)) <= set(tidy.table(recorded).attrs["problems"])


@pytest.mark.slow
def test_every_page_of_the_project_comes_out_the_same_again(site):
    """To the byte, and so to the number."""
    with moved(site):
        again = paths.root() / "again"
        rows = report.render_all(report.plan((), "recorded"), again)
        assert sorted(study for study, _, _ in rows) == report.studies()
        for file in sorted(again.iterdir()):
            assert file.read_bytes() == (paths.reports() / file.name).read_bytes(), file.name


@pytest.mark.slow
@pytest.mark.parametrize("name", report.studies())
def test_every_page_of_the_project_is_what_its_raw_files_give(site, name):
    with moved(site):
        found = verified.verify(paths.reports() / f"{name}.html")
    assert found["equal"], verified.text(found)


def test_an_index_among_the_pages_is_passed_over(page, project):
    beside = page.parent / "index.html"
    shutil.copy(paths.reports() / "index.html", beside)
    assert verified.pages(page.parent, beside, page) == [page]
