"""Campaigns that run as a user runs them, in processes of their own, and are harmed meanwhile."""

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from conftest import ENGINES
from noisefloor import study, tidy

SEED = int(os.environ.get("NOISEFLOOR_SEED", "8"))  # of all random points in time

# the command itself; only what it waits for is shorter, and loaded tables are copied
DRIVER = """
import os
from pathlib import Path
from noisefloor import collect, server, tools
server.ANSWER_S, tools.PATIENCE_S = 5, 4
if os.environ.get("TEMPLATE"):
    collect._templates = lambda study, builds, folder: {
        "": server.Server(builds[""], Path(os.environ["TEMPLATE"]), study.settings, keyring=True)
    }
from noisefloor.cli import main
main(prog_name="noisefloor")
"""
RUN = ("run", "binlog-encryption", "--profile", "smoke", "--budget")


def processes(home: Path) -> list[psutil.Process]:
    """Everything that a command in this project folder started and that still runs."""
    found = []
    for p in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            ours = p.environ().get("NOISEFLOOR_HOME") == str(home)
            if ours and p.pid != os.getpid() and p.status() != psutil.STATUS_ZOMBIE:
                found.append(p)
    return found


class Live:
    """A project folder with one command at a time in it, and what has been seen of its runs."""

    def __init__(
        self, home: Path, template=None, *arguments: str, enter: tuple[str, ...] = (), **env
    ):
        self.home, self.runs = home, home / "runs"
        self.enter, self.arguments = enter, arguments or (*RUN, "0.5")
        self.env = os.environ | {"NOISEFLOOR_HOME": str(home), "NOISEFLOOR_ENGINES": str(ENGINES)}
        self.env |= {"NOISEFLOOR_RUNS": str(self.runs)}
        self.env |= {"TEMPLATE": str(template.folder) if template else ""} | env
        self.said_in = home.parent / f"{home.name}.said"
        self.seen: set[str] = set()
        self.said = ""
        self.process: subprocess.Popen | None = None
        self.began = 0.0

    def start(self) -> None:
        """The same command, again."""
        argv = [*self.enter, sys.executable, "-c", DRIVER, *self.arguments]
        with open(self.said_in, "wb") as said:
            self.process = subprocess.Popen(
                argv, stdout=said, stderr=said, env=self.env, start_new_session=True
            )
        self.began = time.monotonic()

    def running(self) -> bool:
        return self.process.poll() is None

    def victim(self, name: str) -> psutil.Process | None:
        """A process of the command by its program's name; "noisefloor" is the command itself."""
        with contextlib.suppress(psutil.Error):
            if name == "noisefloor":
                return psutil.Process(self.process.pid)
            for p in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if p.name().startswith(name) and p.status() != psutil.STATUS_ZOMBIE:
                        return p
        return None

    def until(self, name: str) -> psutil.Process:
        """Wait for a process of that name."""
        deadline = time.monotonic() + 60
        while not (found := self.victim(name)):
            assert self.running(), self.words()
            assert time.monotonic() < deadline, f"no {name} within a minute"
            time.sleep(0.02)
        return found

    def until_whole(self, n: int) -> None:
        """Wait for so many whole runs."""
        deadline = time.monotonic() + 90
        while len(list(self.runs.glob("*/*-p[0-9]*/run.json"))) < n:
            assert self.running(), self.words()
            assert time.monotonic() < deadline, f"no {n} runs within 90 s"
            time.sleep(0.05)

    def words(self) -> str:
        return self.said_in.read_text(errors="replace")

    def end(self, timeout: float = 90) -> int:
        """Wait for the end; what holds however it ended: nothing left running, no run lost, no
        traceback, and finished only when the command says so. Its exit code."""
        code = self.process.wait(timeout)
        deadline = time.monotonic() + 5
        while (left := processes(self.home)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == [], f"orphans: {[' '.join(p.cmdline())[:200] for p in left]}"
        self.said = self.words()
        assert "Traceback" not in self.said, self.said
        assert code in (0, 1, 130) or code < 0, self.said
        if code > 0:
            assert self.said.splitlines()[-1].startswith("noisefloor: "), self.said
        self.look()
        return code

    def whole(self) -> list[Path]:
        """Run folders that are counted."""
        found = self.runs.glob("*/*/run.json")
        return [p.parent for p in found if "." not in p.parent.name]

    def look(self) -> None:
        """Every run that was ever whole is still there, once, under its name or set aside."""
        now = [
            hashlib.sha256(p.read_bytes()).hexdigest()
            for p in self.runs.glob("*/*/run.json")
            if not p.parent.name.endswith(".partial")
        ]
        assert len(now) == len(set(now))
        assert self.seen <= set(now), f"{len(self.seen - set(now))} whole runs are lost"
        self.seen = set(now)

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
        """What is counted is whole, once, and in pairs; what is not says why."""
        folders = sorted(p.parent for p in self.runs.glob("*/campaign.json"))
        assert folders
        assert tidy.meta(folders[-1])["finished"]
        assert not list(self.runs.rglob("*.partial"))
        for folder in folders:
            meta = tidy.meta(folder)
            chosen = study.restored(meta)
            table = tidy.table(folder)
            counted = table[~table["warmup"]].drop_duplicates("run")
            assert bool(meta["finished"]) == bool(meta["ended_because"])
            for _, pair in counted.groupby("pair_id"):
                assert sorted(pair["position"]) == [0, 1]
                assert pair["block"].nunique() == 1
            arms = counted[counted["arm"] != chosen.baseline.name]
            assert not arms.duplicated(["workload", "threads", "arm", "pair"]).any()
            texts = set()
            for run in tidy.run_folders(folder):
                facts = tidy.read(run)  # checksums
                assert facts["exit_code"] == 0
                if (run / "sysbench.txt").exists():
                    text = (run / "sysbench.txt").read_text()
                    assert "execution time (avg/stddev)" in text
                    texts.add(text)
            assert len(texts) == len(list(folder.glob("*/sysbench.txt"))) - len(
                [p for p in folder.glob("*.*/sysbench.txt")]
            )
            aside = {p.name for p in folder.iterdir() if p.is_dir() and "." in p.name}
            assert all(".failed" in n or ".unpaired" in n for n in aside), aside
            # and nothing whole is left out without being said
            told = "\n".join(table.attrs["problems"])
            assert all(n in told for n in aside)
            whole = {r.name for r in tidy.run_folders(folder)}
            assert whole == set(table["run"])
        servers = self.home / ".servers"
        assert [p.name for p in servers.iterdir()] == ["lock"]


def harm(
    live: Live, name: str, times: int, how=signal.SIGKILL, between=(0.3, 3.0), seed: int = SEED
) -> None:
    """Send a signal to a process of that name at `times` random points; then the same command
    finishes. A campaign that ends meanwhile is followed by another one."""
    points = random.Random(f"{seed} {name} {how}")
    live.start()
    while times:
        time.sleep(points.uniform(*between))
        if not live.running():
            live.end()
            live.start()
            continue
        if not (victim := live.victim(name)):
            continue
        with contextlib.suppress(psutil.Error):
            victim.send_signal(how)
            times -= 1
            if name == "noisefloor":
                live.end()
                live.start()
    live.finish()


# -- a small file system of its own --------------------------------------------------------------


class Mounts:
    """A mount namespace: what is mounted in it is seen by `enter`ed commands only, and through
    ``/proc``."""

    def __init__(self):
        self.holder = subprocess.Popen(
            ["unshare", "-m", "--propagation", "private", "sleep", "1000"], stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + 5
        while os.readlink(f"/proc/{self.holder.pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
            if self.holder.poll() is not None or time.monotonic() > deadline:
                self.close()
                pytest.skip("no mount namespace is allowed here")
            time.sleep(0.01)
        self.enter = ("nsenter", "-t", str(self.holder.pid), "-m")

    def mount(self, *argv: str) -> None:
        done = subprocess.run(
            [*self.enter, "mount", *argv], capture_output=True, text=True, check=False
        )
        if done.returncode:
            self.close()
            pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")

    def small(self, place: Path, size: str) -> None:
        """A file system of `size` at `place`."""
        place.mkdir(parents=True, exist_ok=True)
        self.mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))

    def seen(self, path: Path) -> Path:
        """Where this process sees a path of the namespace."""
        return Path(f"/proc/{self.holder.pid}/root{path}")

    def close(self) -> None:
        self.holder.kill()
        self.holder.wait()


@pytest.fixture
def mounts():
    """A mount namespace that vanishes after the test."""
    made = Mounts()
    yield made
    made.close()
