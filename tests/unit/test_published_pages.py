"""Every page in reports/published, as it lies there."""

import html
import re
import tomllib

import pytest

from conftest import DATA
from noisefloor import paths

MOST_WORDS, MOST_BYTES = 90, 1_000_000
TITLE = re.compile("<h1>(.*?)</h1>", re.S)
BOX = re.compile('<section class="nf-verdict.*?</section>', re.S)
PAGES = sorted((paths.root() / "reports" / "published").glob("*/*.html"))


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


def test_every_page_has_a_key_of_five_facts():
    """By which answers of readers are marked."""
    key = tomllib.loads((DATA / "first_screens.toml").read_text())
    assert set(key) == {"index", *(page.stem for page in PAGES)}
    assert {tuple(facts) for facts in key.values()} == {("answer", "unit", "scope", "sure", "do")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_at_most_a_megabyte(page):
    assert page.stat().st_size <= MOST_BYTES
