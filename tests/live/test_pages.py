"""Each page in a real browser: by day and by night, on a phone and on two desks, printed, without
scripts. The pictures are left in pytest's folder for the eye."""

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from conftest import ROOT, recorded_pages
from noisefloor.show import report

NAMES = [*recorded_pages(), "index"]
WIDTHS = (400, 1100, 1600)
DESK = {"width": 1600, "height": 900}
MOST_BYTES = 1_000_000
# tables that may scroll sideways on a desk, by the name of their data
WIDE = {
    "runs": "a column for all that is known of a run",
    "variables": "a column for each arm of every question",
    "settings": "a column for each arm of every question",
}
CARD = ("og:title", "og:description", "og:type", "og:site_name", "twitter:card")
EACH = [
    pytest.param("small", "binlog-encryption"),
    pytest.param("small", "index"),
    *(pytest.param("site", name, marks=pytest.mark.slow) for name in NAMES),
]


@pytest.fixture
def file(request, where, name) -> Path:
    """A rendered page."""
    home = request.getfixturevalue(where)
    return (home[0] if where == "small" else home) / "reports" / f"{name}.html"


@pytest.fixture
def opened(browser, file):
    """opened(**how) -> the page in a tab of its own; at the end it must have been quiet: nothing in
    the console, nothing asked of anybody."""
    tabs, said, asked = [], [], []

    def tab(**how):
        page = browser.new_page(viewport=DESK, **how)
        tabs.append(page)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri())
        return page

    yield tab
    assert said == []
    assert tabs
    assert asked == [file.as_uri()] * len(tabs)


def beyond(page) -> list[str]:
    """What stands out of the window sideways and does not scroll in a box of its own. Of a drawing the
    single shapes and texts count, without those that are cut off at the frame of its axes."""
    return page.evaluate("""() => {
      const wide = document.documentElement.clientWidth, out = [];
      if (document.documentElement.scrollWidth > wide) out.push(`page: ${document.documentElement.scrollWidth}`);
      for (const e of document.querySelectorAll('main *')) {
        if (e.ownerSVGElement && (e.children.length || e.closest('[clip-path]'))) continue;
        const b = e.getBoundingClientRect();
        if (b.width && b.right > wide + 1 && !e.closest('.nf-scroll, pre, .nf-prose table, .nf-sr'))
          out.push(`${e.tagName} ${e.getAttribute('class') || ''}: ${e.textContent.slice(0, 40)}`);
      }
      return out;
    }""")


def cut_off(page) -> list[str]:
    """The data of tables whose right side is hidden until somebody scrolls."""
    names = page.evaluate("""() => [...document.querySelectorAll('.nf-scroll')]
      .filter(e => e.scrollWidth > e.clientWidth)
      .map(e => e.closest('.nf-table').querySelector('a[download]')?.download || e.ariaLabel)""")
    return [name for name in names if name.partition(".")[0] not in WIDE]


def collisions(page) -> list[str]:
    """Words of a figure that stand on each other, and those that leave it."""
    return page.evaluate("""() => {
      const out = [];
      document.querySelectorAll('.nf-figure svg').forEach((svg, n) => {
        const whole = svg.getBoundingClientRect();
        if (!whole.width) return;
        const words = [...svg.querySelectorAll('text')].map(t => [t.textContent.trim(), t.getBoundingClientRect()]);
        words.forEach(([a, r], i) => {
          if (r.left < whole.left - 3 || r.right > whole.right + 3) out.push(`svg ${n}: "${a}" leaves it`);
          words.slice(i + 1).forEach(([b, s]) => {
            const x = Math.min(r.right, s.right) - Math.max(r.left, s.left);
            const y = Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top);
            if (x > 2 && y > 5) out.push(`svg ${n}: "${a}" on "${b}"`);
          });
        });
      });
      return out;
    }""")


UNNAMED = """() => [...document.querySelectorAll('img, svg')].filter(e => !e.closest('[role=img] [role=img]') && (
  e.tagName === 'IMG' ? !e.alt : e.getAttribute('role') !== 'img' ||
  !(e.getAttribute('aria-label') || (e.getAttribute('aria-labelledby') || '').split(' ').every(
    id => id && (document.getElementById(id) || {}).textContent)))).map(e => e.outerHTML.slice(0, 200))"""


PARTLY = """() => [...document.querySelectorAll('figure.nf-figure')].filter(f =>
  !f.querySelector('figcaption span')?.textContent || !f.querySelector('a[download]')
).map(f => f.textContent.slice(0, 100))"""


@pytest.mark.parametrize(("where", "name"), EACH)
def test_a_page_can_be_read_by_everybody(opened, file, tmp_path):
    assert file.stat().st_size <= MOST_BYTES
    for scheme in ("light", "dark"):
        page = opened(color_scheme=scheme)
        assert page.evaluate(UNNAMED) == []
        assert page.evaluate(PARTLY) == []  # without a caption or the data behind it
        found = Axe().run(page).response["violations"]
        assert [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found] == [], scheme
        page.evaluate("document.querySelectorAll('.nf-more').forEach(f => f.open = true)")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.screenshot(path=tmp_path / f"{file.stem}-{scheme}-{width}.png", full_page=True)
            assert beyond(page) == []
            assert collisions(page) == []
            assert width < WIDTHS[1] or cut_off(page) == []


@pytest.mark.parametrize(("where", "name"), EACH)
def test_a_page_needs_no_script_and_can_be_printed(opened, file, tmp_path):
    page = opened(java_script_enabled=False, color_scheme="dark")
    field = page.locator("form[data-load]").count()  # for a load that the reader types
    assert (
        page.locator("script").count() == page.locator("form[data-load] + script").count() == field
    )
    if file.stem != "index":
        assert "nf-verdict" in page.locator("main > *").first.get_attribute("class")
        code = page.locator(".nf-code pre").first
        for choice, seen in (("open", True), ("hide", False), ("folded", False)):
            page.locator(f"#nf-{choice}").check()
            assert code.is_visible() == seen
        assert page.locator(".nf-nav li").count() > 2
    for kind in ("screen", "print"):
        page.emulate_media(media=kind)
        for fold in page.locator(".nf-more").all() if kind == "screen" else ():
            fold.locator("> summary").click()
        for part in ("figure svg", ".nf-table table", ".nf-verdict", ".nf-facts"):
            for shown in page.locator(part).all():
                narrow = shown.locator("xpath=ancestor::*[@class='nf-narrow']").count()
                assert narrow or shown.is_visible()
    assert page.pdf(path=tmp_path / f"{file.stem}.pdf", format="A4").startswith(b"%PDF")


def test_the_index_of_what_is_published_is_one_screen(browser, tmp_path):
    pages = sorted((ROOT / "reports" / "published").glob("*/*.html"))
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.goto(report.index(tmp_path, pages).as_uri())
    table = page.locator(".nf-overview table")
    assert table.locator("tbody tr").count() == len(pages)
    assert table.evaluate("table => table.getBoundingClientRect().bottom") <= 900


EDGES = """() => {
  const seen = [...document.querySelectorAll('.nf-figure svg')].map(e => e.getBoundingClientRect());
  const first = seen.find(e => e.width);
  return [first.top, first.bottom];
}"""


@pytest.mark.parametrize(
    ("where", "name"),
    [
        pytest.param("small", "binlog-encryption", id="thread counts"),
        pytest.param("site", "binlog-encryption", marks=pytest.mark.slow, id="load"),
        pytest.param("site", "settings-doublewrite", marks=pytest.mark.slow, id="dots"),
    ],
)
def test_the_first_screen_has_a_whole_figure_and_on_a_phone_its_beginning(opened, file):
    page = opened()
    page.set_viewport_size({"width": 1100, "height": 800})
    _, bottom = page.evaluate(EDGES)
    assert bottom <= 800
    page.set_viewport_size({"width": 400, "height": 800})
    top, _ = page.evaluate(EDGES)
    assert top <= 700


@pytest.mark.parametrize(("where", "name"), EACH)
def test_a_page_has_a_card_for_others_and_its_links_lead_somewhere(opened, file):
    page, text = opened(), file.read_text()
    card = {
        m.get_attribute("property") or m.get_attribute("name"): m.get_attribute("content")
        for m in page.locator("meta[content]").all()
    }
    assert all(card.get(name) for name in CARD), card
    assert card["description"] == card["og:description"]
    assert page.title().startswith(card["og:title"])
    assert page.locator("h1").inner_text() == card["og:title"]
    hrefs = page.locator("a[href]").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert hrefs
    for href in set(hrefs):
        if href.startswith("#"):
            assert f'id="{href[1:]}"' in text, href
        elif not re.match(r"(https|data):", href):
            assert (file.parent / href).exists(), href
