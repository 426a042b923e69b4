"""Campaigns that run as a user runs them, in processes of their own, and are harmed meanwhile."""

import contextlib
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

from conftest import command_lines, environment, until
from noisefloor import model as study
from noisefloor.data import tidy

SEED = int(os.environ.get("NOISEFLOOR_SEED", "8"))  # of all random points in time
TOLL = Path(os.environ.get("NOISEFLOOR_TOLL") or os.devnull)  # a line a signal
LONGEST_S = 300  # of any wait: another campaign may be measuring on this machine

# the command itself; only what it waits for is shorter, and loaded tables are copied
PATCHES = """
import os
if "LD_PRELOAD" in os.environ:  # libfaketime takes it for a time of the other clock: EINVAL
    import threading, time
    time.sleep = lambda seconds: threading.Event().wait(seconds)
from pathlib import Path
from noisefloor.measure import child, loading, lock, server_pool
from noisefloor.servers import server, session
session.ANSWER_S, child.PATIENCE_S = 8, 5
if folder := os.environ.get("NOISEFLOOR_LOCK"):
    lock.NAME, lock.FOLDER = "\\0" + folder, folder
for waits in (server.Server.start, server.Server._ready):
    waits.__kwdefaults__["timeout"] = 40
if os.environ.get("TEMPLATE"):
    loading.templates = lambda study, builds, folder: {
        "": server.Server(builds[""], Path(os.environ["TEMPLATE"]), study.settings, keyring=True)
    }
if os.environ.get("DEALT"):  # the arms in the order in which their servers are made
    made = server_pool.ServerPool.fresh
    def fresh(bench, arm, **settings):
        with open(os.environ["DEALT"], "a") as told:
            told.write(arm.name + "\\n")
        return made(bench, arm, **settings)
    server_pool.ServerPool.fresh = fresh
if os.environ.get("DUE"):  # one question is due, and takes seconds
    from dataclasses import replace
    from noisefloor import model
    from noisefloor.measure import due
    model.PROFILES["smoke"] = replace(model.PROFILES["smoke"], budget_min=0.12)
    due.PROFILE, due.STARTING_MIN, every = "smoke", 0.5, due._questions
    lead = ("binlog-encryption", "headline")
    due._questions = lambda: (q for q in every() if (q[0].name, q[0].key) == lead)
"""
DRIVER = PATCHES + "from noisefloor.cli import main\nmain(prog_name='noisefloor')\n"


def asked(minutes: float, *more: str) -> tuple[str, ...]:
    """The command that is harmed: a smoke campaign of so many minutes that answers one question."""
    question = () if "--question" in more else ("--question", "headline")
    measured = ("--profile", "smoke", "--budget", str(minutes), *question, *more)
    return ("run", "binlog-encryption", *measured)


def is_called(p: psutil.Process, name: str) -> bool:
    """Whether a process runs this program, be it through the C library's loader or python -m."""
    return p.name() == name or any(Path(a).name == name for a in p.cmdline())


def count(who: str, how: signal.Signals) -> None:
    """A signal met a living process."""
    with TOLL.open("a") as toll:
        toll.write(f"{how.name:8} {who}\n")


def send(who: str, victim: psutil.Process, how: signal.Signals = signal.SIGKILL) -> bool:
    """Send a signal; whether it met a living process, one not stopped yet. Counted."""
    with contextlib.suppress(psutil.Error):
        done = psutil.STATUS_STOPPED if how == signal.SIGSTOP else psutil.STATUS_ZOMBIE
        if victim.status() not in (psutil.STATUS_ZOMBIE, done):
            victim.send_signal(how)
            count(who, how)
            return True
    return False


def processes(home: Path) -> list[psutil.Process]:
    """Everything that a command in this project folder started and that still runs."""
    found = []
    for p in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            ours = p.environ().get("NOISEFLOOR_HOME") == str(home)
            if ours and p.pid != os.getpid() and p.status() != psutil.STATUS_ZOMBIE:
                found.append(p)
    return found


@contextlib.contextmanager
def watched():
    """(every command line that was seen on this machine meanwhile, when each look began)."""
    seen, looks, done = set(), [], threading.Event()

    def look():
        while not done.is_set():
            looks.append(time.monotonic())
            seen.update(command_lines().splitlines())
            time.sleep(0.03)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen, looks
    finally:
        done.set()
        thread.join()


# -- the promise -----------------------------------------------------------------------------------


def promise(
    runs: Path | None = None,
    *,
    seen: Iterable[str] = (),
    home: Path | None = None,
    pages: Path | None = None,
    finished: bool = False,
) -> set[str]:
    """What holds after any harm: no process of the project folder `home` runs; of the campaigns in
    `runs` no run is lost that was whole (`seen`: what this returned before), none is counted twice
    and none that is not whole; no page in `pages` looks finished and is not. With `finished`, the
    campaigns have ended as well, and nothing half-written is left. Returns the runs, by content."""
    if home:
        deadline = time.monotonic() + 5
        while (left := processes(home)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == [], f"orphans: {[' '.join(p.cmdline())[:200] for p in left]}"
    if pages:
        _pages(pages)
    if not runs:
        return set()
    now = [
        hashlib.sha256(p.read_bytes()).hexdigest()
        for p in runs.glob("*/*/run.json")
        if not p.parent.name.endswith(".partial")
    ]
    assert len(now) == len(set(now)), "a run stands there twice"
    assert set(seen) <= set(now), f"{len(set(seen) - set(now))} whole runs are lost"
    for file in sorted(runs.glob("*/campaign.json")):
        _counted(file.parent, finished)
    assert not finished or not list(runs.rglob("*.partial"))
    return set(now)


def _counted(folder: Path, finished: bool) -> None:
    """What is counted is whole, once, and in pairs; what is not says why."""
    meta = tidy.meta(folder)
    assert bool(meta["finished"]) == bool(meta["ended_because"])
    table, problems, _ = tidy.opened(folder).tidy_runs
    counted = table[~table["warmup"]].drop_duplicates("run")
    for _, pair in counted.groupby("pair_id"):
        assert sorted(pair["position"]) == [0, 1]
        assert pair["block"].nunique() == 1
    chosen = study.study_of(meta)
    arms = counted[counted["arm"] != chosen.baseline.name]
    assert not arms.duplicated(["workload", "threads", "arm", "pair"]).any()
    texts = []
    for name in table["run"].unique():
        facts = tidy.read(folder / name)  # checksums
        assert facts["exit_code"] == 0
        assert {s["exit_code"] for s in facts.get("stages", ())} <= {0}
        if (folder / name / "sysbench.txt").exists():
            texts.append((folder / name / "sysbench.txt").read_text())
            assert "execution time (avg/stddev)" in texts[-1]
    assert len(texts) == len(set(texts)), "two runs hold the same text"
    left_out_why = "\n".join(problems)
    whole = {r.name for r in tidy.run_folders(folder)}
    left_out = whole - set(table["run"])
    assert not finished or left_out == set()
    assert all(tidy.read(folder / n)["pair_id"] in left_out_why for n in left_out), left_out_why
    for aside in {p.name for p in folder.iterdir() if p.is_dir()} - whole:
        if not aside.endswith(".partial"):
            assert re.search(r"\.(failed|unpaired|damaged|unproved)\d+$", aside)
            assert aside in left_out_why


def _pages(out: Path) -> None:
    """Each page, and the index, is there with all its parts or not at all."""
    for page in out.glob("*.html"):
        assert page.read_text().rstrip().endswith("</html>")
        if page.stem != "index":
            json.loads(page.with_suffix(".json").read_text())
            json.loads(page.with_suffix(".ipynb").read_text())
    index = out / "index.html"
    for name in re.findall(r'href="([\w-]+\.html)"', index.read_text() if index.exists() else ""):
        assert (out / name).exists(), f"the index leads to {name}, which is not there"


def _as_in_a_terminal() -> None:
    """Ctrl-C reaches it: whoever runs in the background ignores it, and so do all its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Live:
    """A project folder with one command at a time in it, and what has been seen of its runs."""

    def __init__(
        self, home: Path, template=None, *arguments: str, enter: tuple[str, ...] = (), pages=None, **env
    ):  # fmt: skip
        self.home, self.runs, self.pages = home, home / "runs", pages
        self.servers = home / ".servers"
        self.enter, self.arguments = enter, arguments or asked(0.5)
        made = str(template.folder) if template else ""
        self.env = environment(home, TEMPLATE=made, **env)
        self.said_in = home.parent / f"{home.name}.said"
        self.seen: set[str] = set()
        self.said = ""
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        """The same command, again."""
        argv = [*self.enter, sys.executable, "-c", DRIVER, *self.arguments]
        with open(self.said_in, "wb") as said:
            self.process = subprocess.Popen(
                argv, stdout=said, stderr=said, env=self.env, start_new_session=True,
                preexec_fn=_as_in_a_terminal,
            )  # fmt: skip

    def running(self) -> bool:
        return self.process.poll() is None

    def victim(self, name: str) -> psutil.Process | None:
        """A process of the command by its program's name; "noisefloor" is the command itself."""
        with contextlib.suppress(psutil.Error):
            own = psutil.Process(self.process.pid)
            if name == "noisefloor":
                return own
            for p in own.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if p.status() != psutil.STATUS_ZOMBIE and is_called(p, name):
                        return p
        return None

    def until(self, name: str) -> psutil.Process:
        """Wait for a process of that name."""
        return self._until(lambda: self.victim(name), name)

    def until_whole(self, n: int) -> None:
        """Wait for so many whole runs."""
        self._until(lambda: len([*self.runs.glob("*/*-p[0-9]*/run.json")]) >= n, f"{n} runs")

    def _until(self, look, what: str):
        def found():
            assert self.running(), self.words()
            return look()

        return until(found, what, LONGEST_S)

    def whole(self) -> list[Path]:
        """Run folders that are counted."""
        found = self.runs.glob("*/*/run.json")
        return [p.parent for p in found if "." not in p.parent.name]

    def words(self) -> str:
        return self.said_in.read_text(errors="replace")

    def end(self, timeout: float = LONGEST_S) -> int:
        """Wait for the end; its exit code. However it ended: a sentence, and the promise."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()  # its servers die with it
            raise
        self.said = self.words()
        assert "Traceback" not in self.said, self.said
        assert code in (0, 1, 130) or code < 0, self.said
        if code > 0 and self.arguments[0] == "run":
            assert self.said.splitlines()[-1].startswith("noisefloor: "), self.said
        self.seen = promise(self.runs, seen=self.seen, home=self.home, pages=self.pages)
        return code

    def finish(self) -> None:
        """The same command until it ends well; then everything adds up."""
        for _ in range(3):
            if self.process is None or not self.running():
                self.start()
            if self.end() == 0:
                break
        assert self.process.returncode == 0, self.said
        self.check()

    def check(self) -> None:
        """The promise of a campaign that has finished."""
        folders = sorted(p.parent for p in self.runs.glob("*/campaign.json"))
        assert tidy.meta(folders[-1])["finished"]
        promise(self.runs, seen=self.seen, home=self.home, pages=self.pages, finished=True)
        assert [p.name for p in self.servers.iterdir()] == ["lock"]


def harm(
    live: Live, name: str, times: int, how=signal.SIGKILL, between=(0.3, 3.0), seed: int = SEED
) -> None:
    """Send a signal to a process of that name at `times` random points; then the same command
    finishes. A campaign that ends meanwhile is followed by another one."""
    points, met = random.Random(f"{seed} {name} {how}"), time.monotonic()
    live.start()
    while times:
        time.sleep(points.uniform(*between))
        if not live.running():
            live.end()
            live.start()
        elif (victim := live.victim(name)) and send(name, victim, how):
            times, met = times - 1, time.monotonic()
            if name == "noisefloor":
                live.end()
                live.start()
        assert time.monotonic() - met < LONGEST_S, f"no {name} was met: {live.words()}"
    live.finish()


# -- a small file system of its own --------------------------------------------------------------


class Mounts:
    """A mount namespace: what is mounted in it is seen by `enter`ed commands only, and through
    ``/proc``; it is gone when the namespace is."""

    def __init__(self):
        with open("/proc/self/mountinfo") as mounts:
            rooted = any(line.split()[4] == "/" for line in mounts)
        how = "private" if rooted else "unchanged"  # in a chroot nobody can set it
        self.places: list[str] = []
        self.holder = subprocess.Popen(
            ["unshare", "-m", "--propagation", how, "sleep", "1000"], stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + 5
        while not self._apart():
            if self.holder.poll() is not None or time.monotonic() > deadline:
                self.close()
                pytest.skip("a mount namespace needs root: sudo make test-faults")
            time.sleep(0.01)
        self.enter = ("nsenter", "-t", str(self.holder.pid), "-m", "-r", "-w")

    def _apart(self) -> bool:
        with contextlib.suppress(OSError):  # it has ended: it may not
            mine = os.readlink("/proc/self/ns/mnt")
            return os.readlink(f"/proc/{self.holder.pid}/ns/mnt") != mine
        return False

    def mount(self, *argv: str) -> None:
        self._run("mount", *argv)

    def _run(self, *argv: str) -> None:
        done = subprocess.run([*self.enter, *argv], capture_output=True, text=True, check=False)
        if done.returncode:
            self.close()
            pytest.skip(f"mounting a file needs root and a loop device: {done.stderr.strip()}")

    def small(self, place: Path, size: str) -> None:
        """A file system (ext4, in a file) of `size` at `place`."""
        place.mkdir(parents=True, exist_ok=True)
        image = place.with_name(f"{place.name}.ext4")
        subprocess.run(["truncate", "-s", size, image], check=True)
        self._run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image))
        self.mount("-o", "loop", str(image), str(place))
        self.places.append(str(place))
        image.unlink()  # it lives as long as it is mounted
        self._run("rmdir", str(place / "lost+found"))

    def seen(self, path: Path) -> Path:
        """Where this process sees a path of the namespace."""
        return Path(f"/proc/{self.holder.pid}/root{path}")

    def close(self) -> None:
        for place in self.places:  # also where it was shared with the machine around
            subprocess.run([*self.enter, "umount", "-l", place], check=False)
        self.holder.kill()
        self.holder.wait()


@pytest.fixture
def mounts():
    """A mount namespace that vanishes after the test."""
    made = Mounts()
    yield made
    made.close()
