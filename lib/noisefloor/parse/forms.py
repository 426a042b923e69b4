"""The forms of what tools print, as `forms.toml` beside this has them."""

import functools
import re
import tomllib
from pathlib import Path
from typing import Any

FORMS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("forms.toml").read_text())
_PIECE = re.compile(r"<(?:([a-z_]+)=)?([A-Z][A-Z0-9]*)>")


def spelled(text: str) -> str:
    """A regular expression with the pieces that it names, ``<NAME>`` or ``<group=NAME>``, in it."""

    def piece(found: re.Match[str]) -> str:
        group = f"?P<{found[1]}>" if found[1] else "?:"
        return f"({group}{spelled(FORMS['piece'][found[2]])})"

    return _PIECE.sub(piece, text)


@functools.cache
def compiled(text: str) -> re.Pattern[str]:
    """The same, compiled when it is first wanted."""
    return re.compile(spelled(text))
