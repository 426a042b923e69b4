"""Two commands, timed in pairs in random order: an ordinary campaign without a server.

There is no waiting for a quiet host: the runs of a pair are moments apart, and a probe would take
longer than most of them."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Self, cast

from noisefloor import parse, schedule
from noisefloor.data import tidy
from noisefloor.measure.folder import Folder, create, description, now
from noisefloor.measure.gate import stolen_s
from noisefloor.measure.lock import alone
from noisefloor.measure.progress import Progress, minutes
from noisefloor.model import Arm, Study, StudyError
from noisefloor.schedule import Cell
from noisefloor.studies.timed import BLOCKS, MOST_S, timed, words_of
from noisefloor.text import Refusal

PAIRS = 10  # of a block, where they fit
MOST_BLOCKS = 100  # of a campaign, so that very short commands end before the seconds are spent
LIMIT_S = 600.0  # for one run of a command, by default
EARLY = "somebody stopped it"  # why a campaign ended
_NOTHING = ["true"]  # a command that needs hardly any memory
_SMALL = 1.1  # times the memory of the stopwatch: only more than that is the command's own
_PATIENCE_S = 5.0  # for the stopwatch to end
_SHOWN = 200  # letters of a failed command, and of the last line that it printed


class TimingError(Refusal):
    """A command that could not be timed: what happened. One sentence; nothing was judged."""

    code = 1


class Stopwatch:
    """The process that starts commands and times them. It ends with its with block, or when this
    process is killed, and then kills the command that it started. It has a session of its own: a
    Ctrl-C in the terminal does not reach it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("stopwatch.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._asks = cast(IO[str], self.process.stdin)
        self._answers = cast(IO[str], self.process.stdout)

    def time(self, argv: Sequence[str], limit_s: float) -> dict[str, Any]:
        """Run a command once; what `stopwatch.timed` returns. Raises TimingError if the stopwatch
        itself has ended."""
        with contextlib.suppress(BrokenPipeError):
            self._asks.write(json.dumps({"argv": list(argv), "limit_s": limit_s}) + "\n")
            self._asks.flush()
        if not (line := self._answers.readline()).endswith("\n"):
            self._kill()
            raise TimingError("the process that times the commands ended; nothing was judged")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._asks.close()
        try:
            self.process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._kill()
            self.process.wait()
        self._answers.close()

    def _kill(self) -> None:
        """Kill its session: itself, and the command, which does not end with it. It is not reaped
        yet, so that no other session can have its number."""
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getsid(pid) == self.process.pid:
                    os.kill(pid, signal.SIGKILL)


def measure(
    commands: Sequence[str],
    *,
    seconds: float = 30.0,
    shell: bool = False,
    ignore_failure: bool = False,
    limit_s: float = LIMIT_S,
    margin_pct: float = 0.0,
    seed: int | None = None,
    control: bool = False,
) -> Path:
    """Time two commands in pairs; the folder of the finished campaign.

    seconds: of measuring; at least `BLOCKS` blocks are measured, however long they take. limit_s:
    for one run of a command. margin_pct: 0 for each metric's own. control: in every pair the first
    command runs once more, as the A/A control. A Ctrl-C ends it early, with the pairs that are whole.
    Raises StudyError for a wrong request, TimingError for a command that failed (unless
    ignore_failure), hung or was not started, or without a whole pair: then nothing is kept."""
    study = timed(commands, seconds=seconds, shell=shell, margin_pct=margin_pct)
    _checked(commands, shell, limit_s)
    parameters: dict[str, Any]
    parameters = {"commands": list(commands), "seconds": seconds, "shell": shell}
    parameters |= {"ignore_failure": ignore_failure, "timeout": limit_s, "margin": margin_pct}
    progress = Progress()
    try:
        with alone(progress.say):
            facts = description(study, None, parameters, seed=seed)
            facts["plan"]["control"] = BLOCKS * control
            return _measured(study, create(study.name, facts), progress)
    except KeyboardInterrupt:  # while it waited for another campaign, or was written
        raise TimingError("stopped; nothing was judged", 130) from None


def _measured(study: Study, folder: Path, progress: Progress) -> Path:
    """Measure a campaign that has begun, into its folder, which is removed after any error."""
    try:
        campaign = _Timed(study, folder, tidy.meta(folder), progress)
        with tidy.locked(folder), contextlib.suppress(KeyboardInterrupt), Stopwatch() as watch:
            campaign.measure(watch)
        campaign.finish()
    except BaseException:
        progress.end()
        shutil.rmtree(folder)
        raise
    return folder


def _checked(commands: Sequence[str], shell: bool, limit_s: float) -> None:
    """Raise StudyError for what cannot be timed."""
    if not 0 < limit_s <= MOST_S:
        raise StudyError(
            f"--timeout {limit_s:g}: seconds above 0, at most {MOST_S:,}, are needed;"
            " nothing was run"
        )
    for command in commands:
        program = words_of(command, shell)[0]
        if not shutil.which(program):
            raise StudyError(f"{program}: there is no such program here; nothing was run")
        if parse.scrub(command)[1]:
            raise StudyError(
                "a command holds a password, which would be kept: put it into a file or into the"
                " environment; nothing was run"
            )


class _Timed(Folder):
    """A campaign that times two commands into its folder."""

    watch: Stopwatch
    least_B: int | None = None  # of peak memory that the stopwatch does not hide
    pairs = 0  # that are whole

    def measure(self, watch: Stopwatch) -> None:
        """Measure a warm-up pair, which brings files into the cache and does not count, then the
        blocks. Raises TimingError."""
        self.watch, self.block = watch, 0
        for arm in self.study.compared:
            self.progress.say(f"{arm.name}: {arm.how['command']}")
        if floor := watch.time(_NOTHING, _PATIENCE_S).get("maxrss_B"):
            self.least_B = int(_SMALL * floor)
        self.begin()
        self._pair("warm-up", -1)
        self._first_block()
        while self.block + 1 < self.plan["blocks"]:
            self.block += 1
            for _ in range(self.plan["pairs"]):
                self._next()

    def _first_block(self) -> None:
        """Measure as many pairs as fit into a block's share of the seconds, at least one, at most
        `PAIRS`. Their time decides how many blocks the plan declares."""
        seconds = 60 * self.study.profile.budget_min
        longest = took = 0.0
        while self.pairs < PAIRS and (not took or took + longest <= seconds / BLOCKS):
            longest = max(longest, each_s := self._next())
            took += each_s
        blocks, n = min(max(BLOCKS, int(seconds / took)), MOST_BLOCKS), self.pairs
        control = blocks if self.plan["control"] else 0
        self.plan |= {"blocks": blocks, "control": control, "pairs": n}
        budget_min = max(seconds, blocks * took) / 60
        self.meta["profile"]["budget_min"] = budget_min
        self.study = replace(self.study, profile=replace(self.study.profile, budget_min=budget_min))
        self.turns = schedule.turns(self.seed, self.study, self.plan)
        self.save()
        self.progress.say(
            f"plan: {blocks} blocks of {n} pair{'s' * (n > 1)}, judged once, at the end; about"
            f" {minutes(blocks * took)} minutes"
        )

    def finish(self) -> None:
        """Say why it ended, and seal it. Raises TimingError without a whole pair."""
        if not self.pairs:
            raise TimingError("stopped before a pair was whole; nothing was judged", 130)
        whole = self.plan["pairs"] and self.pairs == self.plan["blocks"] * self.plan["pairs"]
        because = f"the {self.plan['blocks']} declared blocks are measured" if whole else EARLY
        if not whole:
            self._swept()
        self.save(finished=now(), ended_because=because)
        tidy.seal(self.folder)
        spent = f"{self.pairs} pairs, {self.meta['spent_s']:.0f} s of measuring"
        self.progress.finish(f"{self.folder.name}: {because}, {spent}")

    @property
    def _cell(self) -> Cell:
        (work,), (arm,) = self.study.workloads, self.study.arms
        return Cell(work, work.threads[0], arm)

    def _next(self) -> float:
        """Measure the next pair; returns the seconds that it took."""
        took = self._pair(f"{self._cell.key}-p{self.pairs:03d}", self.pairs)
        self.pairs += 1
        return took

    def _pair(self, pair_id: str, number: int) -> float:
        """Make the runs of a pair in random order and write them when all are whole; returns the
        seconds that the pair took. Raises TimingError."""
        began = time.monotonic()
        runs = [self._run(arm, pair_id, number, i) for i, arm in enumerate(self._order(number))]
        for facts in runs:
            partial = self.folder / f"{facts['run']}.partial"
            partial.mkdir()
            (partial / "run.json").write_text(json.dumps(facts, indent=1) + "\n")
            partial.rename(self.folder / facts["run"])
        took = time.monotonic() - began
        self.meta["spent_s"] += took
        return took

    def _order(self, number: int) -> list[Arm]:
        """The arms of a pair, with the control if there is one, in random order: every order is
        equally likely."""
        arms = [self.study.baseline, self._cell.arm]
        if schedule.order(self.seed, self.block, self._cell, number):
            arms.reverse()
        if self.plan["control"]:
            coin = schedule.generator(self.seed, self.block, self._cell.key, number, "control")
            arms.insert(int(coin.integers(3)), self.study.control)
        return arms

    def _run(self, arm: Arm, pair_id: str, number: int, position: int) -> dict[str, Any]:
        """Make one run; its run.json. Raises TimingError if it failed, hung or did not start."""
        given, command = self.meta["parameters"], arm.how["command"]
        where = f"pair {number + 1}" if number >= 0 else "the warm-up"
        self.progress.show(self, f"{where}, {arm.name}")
        start, before = now(), _stolen_s()
        took = self.watch.time(words_of(command, given["shell"]), given["timeout"])
        stolen = max(0.0, _stolen_s() - before)
        _must(took, f"{command[:_SHOWN]!r} ({arm.name} in {where})", given)
        kept = ("real_s", "user_s", "sys_s", "maxrss_B", "printed_B")
        return {
            **self.facts_of(self._cell.workload, self._cell.threads, arm),
            "run": f"{pair_id}-{position}-{schedule.slug(arm.name)}",
            "block": self.block,
            "pair": number,
            "pair_id": pair_id,
            "position": position,
            "warmup": number < 0,
            "start": start,
            "slice_s": took["real_s"],
            "steal_s": round(stolen, 3),
            "exit_code": took["exit_code"],
            "took": {k: took[k] for k in kept} | {"least_B": self.least_B},
            "warnings": [],
            "sha256": {},
        }


def _must(took: dict[str, Any], who: str, given: dict[str, Any]) -> None:
    """Raise TimingError for a run that cannot count. given: the campaign's parameters."""
    if "error" in took:
        why = f"could not be started ({took['error']})"
    elif took["late"]:
        why = f"still ran after {given['timeout']:g} s and was ended: --timeout allows more"
    elif (code := took["exit_code"]) and not given["ignore_failure"]:
        why = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        lines = [line.strip() for line in took["last"].split("\n") if line.strip()]
        why += f" ({lines[-1][-_SHOWN:]})" if lines else ""
        why += ": `noisefloor time --ignore-failure` times it all the same"
    else:
        return
    raise TimingError(f"{who} {why}; nothing was judged")


def _stolen_s() -> float:
    """Seconds that the host took from our cores since boot; 0 where the system does not tell."""
    with contextlib.suppress(OSError, AttributeError):
        return stolen_s(os.sched_getaffinity(0))
    return 0.0
