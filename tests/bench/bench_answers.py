"""How long a command takes to answer: beside a bare ``import numpy``, and beside benchstat."""

import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench_rounds import Figure, Item, interleaved, middle, ratios, say, seconds
from noisefloor import parse, paths
from noisefloor.data import tidy

NOISEFLOOR = str(Path(sys.executable).parent / "noisefloor")
BARE = [sys.executable, "-c", "import numpy"]
JUDGE = [NOISEFLOOR, "judge", "221.19", "229.41", "--threads", "4", "--seconds", "300"]
MODULE = "golang.org/x/perf/cmd/benchstat@latest"
LIMIT_S = {"judge": 0.35, "doctor": 1.0, "compare of 20 files": 1.0}


def start(quick: bool) -> Item:
    """`judge`, `compare` of 20 files and `doctor`."""
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as folder:
        before, after = logs(Path(folder))
        tasks = {
            "import numpy": BARE,
            "judge": JUDGE,
            "compare of 20 files": [NOISEFLOOR, "compare", *before, "--", *after],
            "doctor": [NOISEFLOOR, "doctor"],
        }
        if program := benchstat(Path(folder)):
            sides = [values(Path(folder) / n, f) for n, f in (("a", before), ("b", after))]
            tasks["benchstat"] = [program, *sides]
        calls = {name: partial(seconds, argv) for name, argv in tasks.items()}
        for call in calls.values():
            call()  # the first one reads the disk
        rounds = interleaved(2 if quick else 7, calls, "start")
    out = []
    for name, limit in LIMIT_S.items():
        took = middle(rounds, name)
        out.append(
            Figure(
                f"`{name}` against `python -c 'import numpy'`",
                ratios(rounds, name, "import numpy"),
                f"within {limit:g} s",
                took <= limit,
                f"{took:.2f} s; a bare import numpy takes {middle(rounds, 'import numpy'):.2f} s"
                + ("" if took <= limit else f". Most of it: {imports(tasks[name])}"),
            )
        )
    if "benchstat" in tasks:
        took = middle(rounds, "benchstat")
        name = "compare of 20 files"
        says = (
            f"benchstat takes {took:.3f} s for the 20 numbers, given as Go benchmark lines; {NOISE}"
        )
        out.append(
            Figure(f"`{name}` against benchstat", ratios(rounds, name, "benchstat"), says=says)
        )
        return Item(out)
    return Item(out, "benchstat is not to be had here (no `benchstat`, no Go to build it).")


NOISE = "`compare` reads the same 20 numbers out of whole logs, rows and histograms checked"


def logs(folder: Path) -> tuple[list[str], list[str]]:
    """Ten recorded logs an arm, copied under short names."""
    campaign = tidy.runs_folder(max(paths.recorded().glob("binlog-encryption-headline-*")))
    found = []
    for arm in ("plain", "encrypted"):
        runs = sorted(campaign.glob(f"in-memory-t*-encrypted-*-{arm}"))
        (folder / arm).mkdir()
        files = [folder / arm / f"{i}.txt" for i in range(10)]
        for file, run in zip(files, runs[:10], strict=True):
            file.write_bytes((run / "sysbench.txt").read_bytes())
        found.append(list(map(str, files)))
    return found[0], found[1]


def values(target: Path, files: list[str]) -> str:
    """The TPS of logs as the lines that benchstat reads."""
    rates = [parse.sysbench(Path(f).read_bytes())["tps"] for f in files]
    target.write_text("".join(f"BenchmarkReadWrite 1 {r} tps\n" for r in rates))
    return str(target)


def benchstat(folder: Path) -> str | None:
    """A benchstat of this machine, or one built now where there is Go; None when neither."""
    if found := shutil.which("benchstat"):
        return found
    go = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    if not go:
        return None
    say("start: building benchstat")
    own = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-modcacherw", "GOPATH": f"{folder}/go"}
    done = subprocess.run([go, "install", MODULE], env=own, capture_output=True, timeout=300, check=False)  # fmt: skip
    return str(folder / "benchstat") if done.returncode == 0 else None


def imports(argv: list[str]) -> str:
    """The five modules whose import takes longest in a command, by themselves."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *argv], capture_output=True, text=True, check=False
    )
    rows = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines()]
    own = sorted((int(r[0]), r[2].strip()) for r in rows if len(r) == 3 and r[0].strip().isdigit())
    return ", ".join(f"{name} {us / 1e3:.0f} ms" for us, name in own[:-6:-1])
