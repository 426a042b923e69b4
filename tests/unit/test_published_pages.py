"""Every page in reports/published, as it lies there."""

import html
import re
import tomllib

import pytest

from conftest import DATA
from noisefloor import paths
from noisefloor.show import report

MOST_WORDS, MOST_BYTES = 90, 1_000_000
TITLE = re.compile("<h1>(.*?)</h1>", re.S)
BOX = re.compile('<section class="nf-verdict.*?</section>', re.S)
PUBLISHED = paths.root() / "reports" / "published"
PAGES = sorted(PUBLISHED.glob("*/*.html"))
KEY = tomllib.loads((DATA / "first_screens.toml").read_text())


def words(markup: str) -> list[str]:
    """The words that a reader sees; a sign is none."""
    text = html.unescape(re.sub("<[^>]+>", " ", markup))
    return [word for word in text.split() if re.search(r"\w", word)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_begins_with_at_most_90_words(page):
    text = page.read_text()
    begins = words(f"{TITLE.search(text)[1]} {BOX.search(text)[0]}")
    assert len(begins) <= MOST_WORDS, " ".join(begins)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_asks_a_question_and_answers_it_with_one_figure(page):
    """Its first screen: the question, the box, then nothing but code before the figure."""
    text = page.read_text()
    assert html.unescape(TITLE.search(text)[1]).endswith("?")
    after = text[BOX.search(text).end() :]
    between = after[: after.index('<figure class="nf-figure')]
    assert words(re.sub(r"<details.*?</details>", "", between, flags=re.S)) == []


def test_the_index_has_one_answer_a_page_and_how_often_and_when_it_was_measured(tmp_path):
    """Of a row: its question, an answer, the names in its picture, how often and when."""
    text = report.index(tmp_path, PAGES).read_text()
    rows = re.findall(r"<tr><td>(.*?)</tr>", text, re.S)
    assert len(rows) == len(PAGES)
    assert [row for row in rows if row.count("<p>") != 1 or len(words(row)) > 50] == []
    assert [row for row in rows if "What to do" in row or " ms" in row or "p99" in row] == []
    (binlog,) = (row for row in rows if "binary log" in row)
    assert re.search(r"provisional, boot \d of 3, 2026-", " ".join(words(binlog)))
    assert binlog.count("<svg") == 3
    both = r"to \S+\s% CPU per transaction at 100 TPS on Zen 1, Zen 3 and Zen 4 \("
    assert re.search(both, html.unescape(binlog))
    assert "encrypted connection" in rows[0]  # the largest change


def test_every_verdict_has_a_colour_in_drawings():
    """Without one the interval of a drawing is not seen, and its dot is black."""
    css = paths.root() / "lib" / "noisefloor" / "show" / "template" / "parts.css"
    coloured = set(re.findall(r"\.(nf-[a-z-]+) \{ --nf-mark:", css.read_text()))
    index = paths.root() / "reports" / "published" / "index.html"
    looks = set(re.findall(r'class="nf-strip (nf-[a-z-]+)"', index.read_text()))
    assert looks
    assert looks <= coloured


def test_every_page_has_a_key_of_five_facts():
    """By which answers of readers are marked."""
    assert set(KEY) == {"index", "readme", *(page.stem for page in PAGES)}
    assert {tuple(facts) for facts in KEY.values()} == {("answer", "unit", "scope", "sure", "do")}


@pytest.mark.parametrize("name", KEY)
def test_the_sizes_in_the_answer_of_a_key_stand_on_its_first_screen(name):
    """In the box of a page, the table of the index, the text of the README."""
    if name == "readme":
        text = (paths.root() / "README.md").read_text()
    elif name == "index":
        text = (PUBLISHED / "index.html").read_text()
    else:
        text = BOX.search((PUBLISHED / name / f"{name}.html").read_text())[0]
    seen = html.unescape(re.sub("<[^>]+>", "", text)).replace("\u202f", " ")
    for sizes in re.findall(r"[\d.]+(?: (?:to|and) [\d.]+)* (?:%|times)", KEY[name]["answer"]):
        *_, unit = sizes.split()
        whole = re.escape(sizes).replace(r"\ to\ ", r" to \+?")
        one_range = re.search(rf"(?<![\d.]){whole}", seen)
        for number in re.findall(r"[\d.]+", sizes):
            size = f"{number} {unit}"
            assert one_range or re.search(rf"(?<![\d.]){re.escape(size)}", seen), size


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_at_most_a_megabyte(page):
    assert page.stat().st_size <= MOST_BYTES
