"""The pictures of README and docs, made anew: a published report, the terminal, the explorer.

``python tests/screenshots.py`` (make screenshots) writes docs/*.png. Chromium is needed.
"""

import contextlib
import html
import re
import shlex
import shutil
import tempfile
from pathlib import Path

from click.testing import CliRunner
from PIL import Image

import lab
from noisefloor import paths
from noisefloor.cli import main
from noisefloor.show.rows import metric_label

DOCS = paths.root() / "docs"
REPORT = "tablespace-encryption"
COMMANDS = (
    "judge 221.19 229.41 --threads 4 --seconds 300",
    "compare before/* -- after/*",
)
LOGS = Path(__file__).parent / "data" / "compare"
MOST_BYTES = 150_000
# of a page only the verdict box and the first figure, with some air around
ALONE = """() => {
  const main = document.querySelector("main");
  const kept = [main.querySelector(".nf-verdict"), main.querySelector("figure.nf-figure")];
  document.querySelectorAll("details").forEach(d => d.remove());
  main.replaceChildren(...kept);
  Object.assign(main.style, { padding: "1.5rem", margin: "0 auto", width: "50rem", maxWidth: "none" });
}"""
TERMINAL = """<style>
body { margin: 0; background: #fff; }
pre { margin: 0; padding: 18px 22px; width: max-content; color: #16191d; background: #f6f7f5;
      font: 14px/1.45 "DejaVu Sans Mono", monospace; }
i { font-style: normal; color: #0b5c92; }
</style><pre>%s</pre>"""


def keep(picture: Path, name: str) -> None:
    """The picture in 128 colours as docs/`name`.png, whole or not at all."""
    small = Image.open(picture).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    part = DOCS / f"{name}.png.partial"
    small.save(part, "png", optimize=True)
    if part.stat().st_size > MOST_BYTES:
        raise SystemExit(f"docs/{name}.png would have {part.stat().st_size:,} bytes")
    part.replace(DOCS / f"{name}.png")


def said(command: str) -> str:
    """A command and what it prints, as HTML."""
    words = []
    for word in shlex.split(command):
        words += sorted(map(str, Path().glob(word))) if "*" in word else [word]
    printed = CliRunner().invoke(main, words, color=True).output
    shown = re.sub(r"\x1b\[1m(.*?)\x1b\[0m", r"<b>\1</b>", html.escape(printed.rstrip()))
    return f"<i>$ noisefloor {html.escape(command)}</i>\n{shown}\n"


def report(browser, place: Path) -> None:
    """The head of a published page, and its main figure."""
    file = paths.root() / "reports" / "published" / REPORT / f"{REPORT}.html"
    page = browser.new_page(
        viewport={"width": 880, "height": 900}, color_scheme="light", device_scale_factor=1.5
    )
    page.goto(file.as_uri())
    page.evaluate(ALONE)
    page.locator("main").screenshot(path=place / "report.png")
    page.close()


def terminal(browser, place: Path) -> None:
    """Two commands and what they print, the second on two folders of logs."""
    with contextlib.chdir(place):
        for arm, letter in (("before", "A"), ("after", "B")):
            Path(arm).mkdir()
            for log in LOGS.glob(f"*{letter}.txt"):
                shutil.copy(log, arm)
        shown = "\n".join(map(said, COMMANDS))
    page = browser.new_page(viewport={"width": 1200, "height": 600}, device_scale_factor=1.5)
    page.set_content(TERMINAL % shown)
    page.locator("pre").screenshot(path=place / "terminal.png")
    page.close()


def explorer(browser, place: Path) -> None:
    with lab.lab(place / "lab") as url:
        page = browser.new_page(viewport={"width": 1240, "height": 1150})
        page.set_default_timeout(60_000)
        lab.run_all(page, url("explore"))
        page.locator(".nf-raws pre").first.wait_for()
        page.get_by_label("Metric").select_option(metric_label("cpu_per_transaction"))
        page.get_by_role("status").get_by_text("CPU per transaction").first.wait_for()
        page.wait_for_timeout(1500)
        page.keyboard.press("Control+b")  # without the list of files
        page.locator(".jp-OutputArea-output").last.evaluate("e => e.scrollIntoView()")
        page.wait_for_timeout(1000)
        page.screenshot(path=place / "explorer.png")
        page.close()


def made() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="noisefloor-pictures-") as scratch,
        lab.browser() as browser,
    ):
        for draw in (report, terminal, explorer):
            draw(browser, Path(scratch))
            keep(Path(scratch) / f"{draw.__name__}.png", draw.__name__)


if __name__ == "__main__":
    made()
