"""JupyterLab and a browser, for the tests and for the pictures of README and docs."""

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from noisefloor import paths
from noisefloor.show import report


@contextlib.contextmanager
def lab(place: Path, theme: str = "light"):
    """A JupyterLab on copies of the notebooks in `place`, on loopback with a token that is in no
    command line, in a light or dark theme; gives url(notebook). It ends with the block."""
    copies = place / "notebooks"
    copies.mkdir(parents=True)
    for book in paths.notebooks().glob("*.ipynb"):
        shutil.copy(book, copies)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    own = ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR")
    own += ("JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR")
    env = os.environ | {name: str(place / name.lower()) for name in own}
    env |= {"JUPYTER_TOKEN": token, "NOISEFLOOR_HOME": str(paths.root())}
    env |= {"NOISEFLOOR_RUNS": str(place / "runs"), report.OUT: str(place)}
    argv = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--ip=127.0.0.1"]
    argv += [f"--port={port}", "--ServerApp.port_retries=0", f"--notebook-dir={copies}"]
    argv += ["--allow-root"] if os.geteuid() == 0 else []
    quiet = Path(env["JUPYTERLAB_SETTINGS_DIR"]) / "@jupyterlab" / "apputils-extension"
    quiet.mkdir(parents=True)
    (quiet / "notification.jupyterlab-settings").write_text(  # else it asks to look for news
        '{"fetchNews": "false", "checkForUpdates": false}'
    )
    themes = quiet / "themes.jupyterlab-settings"
    themes.write_text(json.dumps({"theme": f"JupyterLab {theme.title()}"}))
    with open(place / "lab.log", "w") as log:
        server = subprocess.Popen(argv, env=env, cwd=place, stdout=log, stderr=log)
    try:
        _answers(f"http://127.0.0.1:{port}/api?token={token}", server)
        # in a workspace of its own, where no notebook of before is opened again in front of it
        at = f"http://127.0.0.1:{port}/lab/workspaces"
        yield lambda name: f"{at}/{name}/tree/{name}.ipynb?token={token}"
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()


def _answers(url: str, server: subprocess.Popen) -> None:
    for _ in range(900):
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(url):
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError("JupyterLab did not answer within 90 s")


def chromium() -> str:
    """The path of the browser: what only a browser can see is not left unseen."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "no Chromium is on the PATH: apt-get install chromium"
    return found


@contextlib.contextmanager
def browser():
    """Chromium, headless, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    found = chromium()
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()


def run_all(page, url: str) -> None:
    """Open a notebook and choose Kernel, Restart Kernel and Run All Cells, as a reader would."""
    page.goto(url)
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    page.get_by_text("| Idle").first.wait_for()  # the kernel in the status bar
    page.get_by_role("menuitem", name="Kernel").first.click()
    page.get_by_role("menuitem", name="Restart Kernel and Run All Cells").click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()
