"""The tools whose text is read, one module each, with the names of `Tool`. Every module here
is a tool."""

import importlib
import pkgutil
from functools import cache
from typing import Any, Protocol, cast

from noisefloor.parse.base import MOST, decoded
from noisefloor.parse.forms import FORMS
from noisefloor.tools.base import Run


class Tool(Protocol):
    """What a module of this package offers."""

    NAME: str
    MUST: tuple[str, ...]  # conditions in which runs may not differ
    WRAPS: bool  # its text may stand beside that of the tool that it ran, which then counts

    def recognises(self, text: str) -> bool:
        """Whether the tool printed `text` (with a line feed before each line), by its words alone.
        A cut or failed text is recognised, too, so that its error gets reported. Never raises."""

    def split_runs(self, text: str | bytes) -> list[tuple[int, Any]]:
        """(number of its first line, what `read_run` takes) of each run in a text. Raises ParseError."""

    def chore(self, text: str | bytes) -> str | None:
        """What the tool did instead of a run, such as `prepare`, where `text` is the log of that
        and it did not fail; else None. Never raises."""

    def read_run(self, name: str, piece: Any) -> Run:
        """A run, called `name`. Raises ParseError for a piece that is cut, failed or not alone."""


@cache
def all_tools() -> tuple[Tool, ...]:
    """All tools; those that wrap others come last."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name != "base")
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(sorted(cast(list[Tool], modules), key=lambda tool: tool.WRAPS))


def tool_of(text: str | bytes) -> Tool | None:
    """The tool that printed `text`, None for none of them. Never raises."""
    words = "\n" + decoded(text[:MOST]).replace("\r", "")
    return next((tool for tool in all_tools() if tool.recognises(words)), None)


def unsupported(text: str | bytes) -> str | None:
    """The benchmark that printed `text`, by name, of those whose output is not read; else None."""
    words, others = decoded(text), FORMS["foreign"].items()
    return next((name for name, signs in others if any(sign in words for sign in signs)), None)
