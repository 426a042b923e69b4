"""The forms of what tools print, from `forms.toml`."""

import functools
import re
import tomllib
from pathlib import Path
from typing import Any

FORMS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("forms.toml").read_text())
_PIECE = re.compile(r"<(?:([a-z_]+)=)?([A-Z][A-Z0-9]*)>")


def spelled(text: str) -> str:
    """The regular expression `text` with the pieces in place of ``<NAME>`` and ``<group=NAME>``."""

    def piece(name: re.Match[str]) -> str:
        group = f"?P<{name[1]}>" if name[1] else "?:"
        return f"({group}{spelled(FORMS['piece'][name[2]])})"

    return _PIECE.sub(piece, text)


@functools.cache
def compiled(text: str) -> re.Pattern[str]:
    """`spelled(text)`, compiled at the first call."""
    return re.compile(spelled(text))
