"""docs/words-changed.csv: the words of published pages that changed since 0.2, and why."""

import csv
from collections import Counter

import pytest

import words_changed
from noisefloor import paths

LISTED = list(csv.DictReader((paths.root() / "docs" / "words-changed.csv").open()))
ASKED = {
    "tables": {"headline": ["encrypted"], "memory": ["encrypted"]},
    "settings": {"doublewrite": ["*"]},
}


def row(verdict: str = "slower", *, worse: str = "True", **more: str) -> dict[str, str]:
    """A row of a published table."""
    usual = {"question": "headline", "workload": "reads", "metric": "tps", "threads": "4"}
    usual |= {"baseline": "plain", "arm": "encrypted", "warnings": "", "margin_pct": "2.0"}
    return usual | {"verdict": verdict, "worse": worse, "design": "switched", "n_arm": "8"} | more


def test_every_row_has_another_word_and_a_reason():
    assert [r for r in LISTED if r["before"] == r["now"] or not r["reason"]] == []


def test_no_two_rows_of_a_page_are_taken_for_one_comparison():
    for page, rows in words_changed.pages_now().items():
        keys = Counter((words_changed.key(row), row.get("processor")) for row in rows)
        assert [key for key, n in keys.items() if n > 1] == [], page


def test_a_word_of_the_metric_is_compared_as_0_2_wrote_it():
    assert words_changed.worse(row("more", metric="cpu_per_transaction")) == "slower"
    assert words_changed.worse(row("smaller", worse="False")) == "faster"
    assert words_changed.worse(row("provisional", worse="False")) == "provisional"
    assert words_changed.worse({"verdict": "slower"}) == "slower"  # 0.2 has no column `worse`
    assert words_changed.worse(row("", worse="False")) == ""


@pytest.mark.parametrize(
    ("page", "more", "now"),
    [
        ("tables", {}, "asked anew"),
        ("tables", {"arm": "encrypted, AES masked"}, "no longer asked"),
        ("tables", {"question": "parts"}, "no longer asked"),
        ("tables", {"question": "mariadb"}, "asked anew"),
        ("settings", {"question": "doublewrite", "arm": "doublewrite off"}, "asked anew"),
        ("settings", {"question": "doublewrite", "arm": "detect only"}, "no longer asked"),
        ("archive-x", {"question": ""}, "no row"),
    ],
)
def test_a_comparison_that_is_gone_says_whether_it_is_asked(page, more, now):
    assert words_changed.why_gone(page, row(**more), ASKED)[0] == now


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        (
            {},
            {"warnings": "provisional, boot 1 of 3"},
            "other sittings: provisional",
        ),
        ({}, {"sittings": "2"}, "other sittings: all of"),
        ({"warnings": "levelled for the time"}, {}, "other rule: not levelled"),
        (
            {"verdict": "cannot tell"},
            {"verdict": "same", "margin_pct": "10.0"},
            "other rule: the m",
        ),
        ({}, {"design": "unpaired", "n_arm": "1"}, "other rule: the difference is compared"),
        ({}, {}, "other rule: one 95 % interval"),
    ],
)
def test_another_word_has_its_reason(before, now, why):
    assert words_changed.why_other(row(**before), row(**now)).startswith(why)
