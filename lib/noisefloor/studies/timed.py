"""A study of two commands of the reader's own, for `noisefloor time`."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from noisefloor import schedule
from noisefloor.model import Arm, Profile, Study, Workload
from noisefloor.studies.ab import refused

BLOCKS = 8  # of a campaign, at least
SHELL = "/bin/sh"
NO_COUNT = (0,)  # in the place of thread counts, which commands do not have
MOST_S = 86_400  # for a campaign, or for one command
METRICS = ("wall", "user_sys", "user_cpu", "sys_cpu", "peak_memory")


def words_of(command: str, shell: bool = False) -> list[str]:
    """The words of a command as it is started: split as a shell would split them, or one text for
    the shell. Raises StudyError."""
    try:
        words = command.split() if shell else shlex.split(command)
    except ValueError as e:
        raise refused(f"{command!r} cannot be split into words ({str(e).lower()})") from None
    if not words or not words[0] or "\0" in command:
        raise refused(f"{command!r}: a command is needed, such as 'gzip -k file'")
    return [SHELL, "-c", command] if shell else words


def timed(
    commands: Sequence[str], *, seconds: float, shell: bool = False, margin_pct: float = 0.0
) -> Study:
    """The study of two commands: which takes more time, CPU time and memory? The first one is the
    baseline. seconds: of measuring; margin_pct: 0 for each metric's own. Raises StudyError."""
    if not 0 < seconds <= MOST_S:
        raise refused(f"--seconds {seconds:g}: a number above 0, at most {MOST_S:,}, is needed")
    for command in commands:
        words_of(command, shell)
    programs = dict.fromkeys(Path(command.split()[0]).name for command in commands)
    how = {"shell": SHELL} if shell else {}
    a, b = (
        Arm(name, how={"command": command} | how)
        for name, command in zip("AB", commands, strict=True)
    )
    work = Workload(
        "commands",
        "Two commands of the reader's own, one after the other.",
        tool="time",
        script="",
        options=(),
        threads=NO_COUNT,
        metrics=METRICS,
        deciding=METRICS[:2],
    )
    return Study(
        name=f"time-{schedule.slug(' '.join(programs))[:48] or 'commands'}".rstrip("-"),
        title=f"A: {commands[0]}; B: {commands[1]}",
        question="Which of two commands takes more?",
        baseline=a,
        arms=(b,),
        workloads=(work,),
        design="switched",
        profile=Profile("time", seconds / 60, 0, 0, 0, BLOCKS, 0, NO_COUNT),
        tables=0,
        margin_pct=margin_pct,
    )
