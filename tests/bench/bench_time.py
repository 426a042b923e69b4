"""Beside hyperfine: which of the two calls a command different from itself, and which finds 5 %.

    python tests/bench/bench_time.py            measures for 12 minutes, and writes both files
    python tests/bench/bench_time.py --table    writes the table in docs/time.md again

Both tools time the same commands, each for as long, one right after the other: a coin says which
begins. Needs hyperfine (Debian's, 1.15) and a machine on which nothing else runs.
"""

import argparse
import contextlib
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import ttest_ind

from bench import machine
from bench_rounds import say, seconds
from noisefloor import paths, stats
from noisefloor.data import tidy
from noisefloor.measure import timing
from noisefloor.stats import verdict
from noisefloor.studies.timed import words_of

RAW = paths.root() / "data" / "raw" / "compared" / "time-hyperfine.json"
TEXT = paths.root() / "docs" / "time.md"
BEGIN, END = "<!-- hyperfine -->\n", "<!-- /hyperfine -->\n"
SECONDS = 15.0  # of one tool for one comparison
ROUNDS = 7  # each with every kind of comparison
MOST_S = 14 * 60.0  # after which no comparison begins that might not end in time
LIMIT_S = 60.0  # for one run of a command, and for hyperfine beyond its seconds
LEVEL = 0.05
FILE_MB = 64


def loop(times: int) -> str:
    """A command that does the same fixed work so many times."""
    return f"python3 -I -S -c 'for _ in range({times}): sum(range(1000))'"


KINDS = {  # what is compared: (command A, command B, percent of work that B has more)
    f"sha256sum of {FILE_MB} MB": ("sha256sum work", "sha256sum work", 0),
    "a loop of Python": (loop(10_000), loop(10_000), 0),
    "the loop with 5 % more work": (loop(10_000), loop(10_500), 5),
}


# -- measuring -------------------------------------------------------------------------------------


def by_hyperfine(commands: tuple[str, str], runs: int) -> list[dict[str, Any]]:
    """What hyperfine exports of both commands."""
    argv = ["hyperfine", "--shell=none", "--style=none", "--warmup=3", f"--runs={runs}"]
    argv += ["--export-json=times.json", *commands]
    seconds(argv, timeout=2 * SECONDS + LIMIT_S)
    results: list[dict[str, Any]] = json.loads(Path("times.json").read_text())["results"]
    return results


def by_noisefloor(commands: tuple[str, str]) -> dict[str, Any]:
    """The runs of a campaign in their order, and how many blocks it declared."""
    folder = timing.measure(commands, seconds=SECONDS, limit_s=LIMIT_S)
    table = tidy.run_table(folder)
    table = table[~table["warmup"]].sort_values(["pair", "position"])
    columns = (table[name].tolist() for name in ("block", "pair", "arm", "slice_s"))
    runs = [(block, pair, arm, round(s, 6)) for block, pair, arm, s in zip(*columns, strict=True)]
    return {"blocks": tidy.meta(folder)["plan"]["blocks"], "runs": runs}


def measure(rounds: int = ROUNDS) -> dict[str, Any]:
    """Every kind of comparison in every round, in the order of a coin, as long as there is time."""
    began, longest, coin = time.monotonic(), 0.0, random.Random()
    raw: dict[str, Any] = {"when": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "machine": machine()}
    printed = subprocess.run(["hyperfine", "--version"], capture_output=True, text=True, check=True)
    raw |= {"hyperfine": printed.stdout.split()[-1], "seconds": SECONDS, "comparisons": []}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["NOISEFLOOR_RUNS"] = folder
        Path("work").write_bytes(bytes(FILE_MB * 1_000_000))
        runs = {what: _fitting(commands[0]) for what, commands in KINDS.items()}
        for what in (w for _ in range(rounds) for w in coin.sample(list(KINDS), len(KINDS))):
            start = time.monotonic()
            if start - began + longest > MOST_S:
                say(f"{(start - began) / 60:.0f} minutes are over: no comparison begins any more")
                break
            raw["comparisons"].append(compare(what, runs[what], coin.choice((True, False))))
            longest = max(longest, time.monotonic() - start)
            words = ", ".join(f"{rule}: {c:+.1f} %" for rule, c in calls(raw["comparisons"][-1]))
            say(f"{len(raw['comparisons'])} of {rounds * len(KINDS)}: {what}: {words or 'nothing'}")
    return raw


def compare(what: str, runs: int, hyperfine_first: bool) -> dict[str, Any]:
    """One comparison, made by both tools."""
    a, b, extra_pct = KINDS[what]
    tools: list[tuple[str, Callable[[], Any]]] = [
        ("hyperfine", lambda: by_hyperfine((a, b), runs)),
        ("noisefloor", lambda: by_noisefloor((a, b))),
    ]
    order = tools if hyperfine_first else tools[::-1]
    facts = {"what": what, "extra_pct": extra_pct, "commands": [a, b], "first": order[0][0]}
    return facts | {name: timed() for name, timed in order}


def _fitting(command: str) -> int:
    """Runs of each of two commands for which there is time; hyperfine makes ten at least."""
    each_s = statistics.median(seconds(words_of(command)) for _ in range(5))
    return max(10, round(SECONDS / 2 / each_s))


# -- judging ---------------------------------------------------------------------------------------

Result = dict[str, Any]  # of one command, as hyperfine exports it


def leaves_out_one(a: Result, b: Result) -> bool:
    """Whether the ± of hyperfine's summary, `1.02 ± 0.01 times faster`, leaves out 1."""
    slow, fast = max(a["mean"], b["mean"]), min(a["mean"], b["mean"])
    error = slow / fast * math.hypot(a["stddev"] / a["mean"], b["stddev"] / b["mean"])
    return slow / fast - error > 1


def apart(a: Result, b: Result) -> bool:
    """Whether the ranges that hyperfine prints, mean ± standard deviation, do not overlap."""
    return abs(a["mean"] - b["mean"]) > a["stddev"] + b["stddev"]


def welch(a: Result, b: Result) -> bool:
    """Whether Welch's t test finds a difference in the times that hyperfine exports."""
    return ttest_ind(a["times"], b["times"], equal_var=False).pvalue < LEVEL


OURS = "`noisefloor time`"
RULES: dict[str, Callable[[Result, Result], bool]] = {
    "hyperfine: `1.02 ± 0.01 times faster` leaves out 1": leaves_out_one,
    "hyperfine: the ranges mean ± σ are apart": apart,
    "hyperfine's times: Welch's t test at 5 %": welch,
}


def calls(comparison: dict[str, Any]) -> list[tuple[str, float]]:
    """(rule, change of B against A in percent) of each rule that calls the commands different."""
    a, b = comparison["hyperfine"]
    change_pct = 100 * (b["mean"] / a["mean"] - 1)
    different = [(name, change_pct) for name, rule in RULES.items() if rule(a, b)]
    row = judged(**comparison["noisefloor"])
    if verdict.differs(row["verdict"]):
        different.append((OURS, row["change_pct"]))
    return different


def judged(blocks: int, runs: list[tuple[int, int, str, float]]) -> dict[Any, Any]:
    """The verdict row of a campaign's wall time."""
    frame = pd.DataFrame(runs, columns=["block", "pair", "arm", "value"])
    frame = frame.assign(study="time", workload="commands", threads=0, metric="wall", warmup=False)
    frame["pair_id"] = frame["pair"].astype(str)
    frame["run"] = frame["pair_id"] + frame["arm"]
    (row,) = stats.table(frame, baseline="A", design="switched", blocks=blocks).to_dict("records")
    return row


def section(raw: dict[str, Any]) -> str:
    """What docs/time.md says of it, with the table."""
    each = [(c["extra_pct"], dict(calls(c))) for c in raw["comparisons"]]
    same = [called for extra, called in each if not extra]
    more = [called for extra, called in each if extra]
    rows = []
    for rule in (*RULES, OURS):
        wrong = [abs(called[rule]) for called in same if rule in called]
        right = sum(called.get(rule, 0) > 0 for called in more)
        largest = f"{max(wrong):.1f} %" if wrong else "–"
        counts = f"{len(wrong)} of {len(same)} | {largest} | {right} of {len(more)}"
        rows.append(f"| {rule} | {counts} |")
    table = "\n".join(rows)
    return f"""## Beside hyperfine

hyperfine makes all runs of one command, then all of the other one, and always names the faster one. It has no test of its
own; a script in its documentation has Welch's. Both tools timed the same commands, {raw["seconds"]:.0f} seconds each:
`sha256sum` of {FILE_MB} MB and a loop of Python against themselves, and the loop against one with 5 % more work.

| What is taken for a difference | The same command called different | The largest of these | 5 % more work found |
|---|---:|---:|---:|
{table}

A moment in which the machine is slow falls on one command alone where its runs stand together, and on both where they are
paired. A t test over single runs takes them for independent, and runs made one after the other are not. Measured on
{raw["when"]} with hyperfine {raw["hyperfine"]}: {raw["machine"]} All times are in
[time-hyperfine.json](../data/raw/compared/time-hyperfine.json), and `tests/bench/bench_time.py` measures them again.
"""


def lines(raw: dict[str, Any]) -> str:
    """The JSON of it, a line a comparison."""
    each = ",\n".join(json.dumps(comparison) for comparison in raw["comparisons"])
    head = json.dumps(raw | {"comparisons": []}, indent=1).removesuffix("[]\n}")
    return f"{head}[\n{each}\n]\n}}\n"


def written(text: str, raw: dict[str, Any]) -> str:
    """The text of docs/time.md with the section, in its place or at the end."""
    before, begin, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return before + (begin or f"\n{BEGIN}") + section(raw) + END + after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--table", action="store_true", help="write the table again, no more")
    if not parser.parse_args().table:
        if not shutil.which("hyperfine"):
            sys.exit("hyperfine is needed (apt-get install hyperfine); nothing was measured")
        RAW.write_text(lines(measure()))
    if not RAW.exists():
        sys.exit(f"{RAW.name} is not there yet: measure it without --table; nothing was written")
    raw = json.loads(RAW.read_text())
    TEXT.write_text(written(TEXT.read_text(), raw))
    print(section(raw))


if __name__ == "__main__":
    main()
