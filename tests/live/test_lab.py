"""JupyterLab in a real browser: open `explore`, run all, move a control, see the figure change."""

import contextlib
import json
import shutil
import time

import nbformat
import pytest
from playwright.sync_api import TimeoutError

from lab import lab, run_all
from noisefloor import paths
from noisefloor.show import report
from test_notebooks import filled

SECONDS = 150_000  # playwright counts milliseconds; a busy machine is no failure


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def url(place):
    with lab(place) as found:
        yield found


@pytest.fixture
def page(url, browser):
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(SECONDS)
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    return page


def drawn(page, changed_from="") -> str:
    """The first figure, once it is another one than `changed_from`."""
    figure = page.locator(".nf-picture svg").first
    figure.wait_for()
    page.wait_for_function(
        "before => document.querySelector('.nf-picture svg').outerHTML !== before", arg=changed_from
    )
    return figure.evaluate("e => e.outerHTML")


def press_points(page, press) -> None:
    """Press points of the second figure until the text of their runs is shown."""
    raws = page.locator(".nf-raws").first
    before = raws.inner_text()
    for n in range(20):  # the figure may still be moving when its point is looked for
        press(*page.evaluate(SPOT, 2 + n % 3))
        with contextlib.suppress(TimeoutError):
            page.wait_for_function(
                "before => document.querySelector('.nf-raws').innerText !== before",
                arg=before,
                timeout=SECONDS / 20,
            )
            break
    assert raws.inner_text() != before
    assert "queries performed:" in raws.inner_text()
    assert page.locator(".nf-raws pre").count() == 2


@pytest.mark.slow
def test_explore_answers_to_controls_clicks_and_keys(page, url):
    run_all(page, url("explore"))
    first = drawn(page)
    status = page.get_by_role("status").first
    assert "p99 latency at 100 a second" in status.inner_text()

    page.get_by_label("Metric").select_option("95th percentile latency")
    second = drawn(page, first)
    assert "p95 latency" in status.inner_text()

    # the keyboard alone: from the metric on to the margin
    page.get_by_label("Metric").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("50")
    page.keyboard.press("Tab")
    drawn(page, second)
    page.get_by_text("The margin of this metric is").first.wait_for()

    press_points(page, page.mouse.click)

    here = url("").partition("/lab")[0]
    outside = [
        u
        for u in page.asked
        if not u.startswith((here, here.replace("http", "ws"), "data:", "blob:"))
    ]
    assert outside == []


# the middle of a pair of the second figure, in pixels of the window
SPOT = """(n) => {
  const dots = document.querySelectorAll('.nf-picture')[1].querySelectorAll('svg use');
  const round = [...dots].filter(d => {
    const b = d.getBoundingClientRect();
    return b.width > 3 && b.width < 12 && Math.abs(b.width - b.height) < 0.5;
  });
  round[n].scrollIntoView({block: 'center'});
  const b = round[n].getBoundingClientRect();
  return [b.x + b.width / 2, b.y + b.height / 2];
}"""


# controls and figures, and those of them that are not within the notebook
PARTS = "() => document.querySelectorAll('.jp-OutputArea :is(select, input, .nf-pictures)').length"
BEYOND = """() => {
  const panel = document.querySelector('.jp-NotebookPanel').getBoundingClientRect();
  const parts = document.querySelectorAll('.jp-OutputArea :is(select, input, .nf-pictures)');
  return [...parts].filter(e => e.checkVisibility()).filter(e => {
    const b = e.getBoundingClientRect();
    return b.left < panel.left || b.right > Math.min(panel.right, innerWidth) || b.width < 100;
  }).map(e => e.outerHTML.slice(0, 200));
}"""


@pytest.mark.slow
def test_explore_answers_on_a_phone(place, url, browser):
    """In the simple interface, by touch. A figure that is wider than the screen scrolls by itself."""
    shutil.copy(paths.notebooks() / "explore.ipynb", place / "notebooks" / "phone.ipynb")
    page = browser.new_page(viewport={"width": 400, "height": 800}, has_touch=True)
    page.set_default_timeout(SECONDS)
    page.goto(url("phone").replace("/lab/", "/doc/"))
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    for _ in range(3):  # cells, of which the last one shows the controls
        page.wait_for_timeout(3_000)  # cells that are run before the kernel is ready raise a dialog
        page.locator('[data-command="notebook:run-cell-and-select-next"]').tap()
    first = drawn(page)
    assert page.evaluate(PARTS) > 10
    assert page.evaluate(BEYOND) == []
    page.get_by_label("Metric").select_option("95th percentile latency")
    drawn(page, first)
    assert "p95 latency" in page.get_by_role("status").first.inner_text()
    press_points(page, page.touchscreen.tap)
    assert page.evaluate(BEYOND) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in report.studies(everything=True) if n != "explore"])
def test_every_notebook_runs_by_restart_and_run_all(name, place, page, url):
    """On recorded campaigns: nothing is measured. What JupyterLab saved is looked at."""
    book = place / "notebooks" / f"{name}.ipynb"
    nbformat.write(filled(name, place / "runs"), book)
    before = [*place.glob("runs/*")]
    run_all(page, url(name))
    until, code, failed = time.monotonic() + 400, [], []
    while time.monotonic() < until and not failed and not (code and code[-1]["execution_count"]):
        page.wait_for_timeout(2000)
        page.keyboard.press("Control+s")
        with contextlib.suppress(json.JSONDecodeError):  # it is being written
            code = [c for c in json.loads(book.read_text())["cells"] if c["cell_type"] == "code"]
            failed = [o for c in code for o in c["outputs"] if o["output_type"] == "error"]
    assert failed == []
    assert [c["execution_count"] for c in code] == list(range(1, 1 + len(code)))
    assert [*place.glob("runs/*")] == before
