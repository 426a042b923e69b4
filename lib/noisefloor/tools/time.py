"""``time`` in the forms of shells and GNU time; one text may have many results."""

from noisefloor import parse
from noisefloor.parse.base import ParseError, Result
from noisefloor.parse.time_text import looks_like_time as recognises  # noqa: F401  # a Tool's
from noisefloor.tools.base import Run

NAME = "time"
MUST = ("tool",)
WRAPS = True


def split_runs(text: str | bytes) -> list[tuple[int, Result]]:
    """Each result of `parse.time`, which `read_run` takes."""
    return [(result["line"], result) for result in parse.time(text)]


def chore(text: str | bytes) -> None:
    """None: the tool has no other task."""


def read_run(name: str, piece: Result) -> Run:
    if code := piece["exit_code"]:
        raise ParseError(1, "", f"the timed command ended with {code}, a failed run")
    cpu = piece["user_s"] + piece["sys_s"]
    values = {"wall": piece["real_s"], "user_sys": cpu, "peak_memory": piece["maxrss_B"]}
    return Run(
        name,
        {k: v for k, v in values.items() if v is not None},
        keys={"tool": NAME},
        workload=piece["label"],
    )
