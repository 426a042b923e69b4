"""Sizes in words, cells for spreadsheets, and refusals in one sentence."""

import re


def upper(text: str) -> str:
    """The text with a capital first letter; unchanged if it begins with a name like aes-128-cbc."""
    return text if re.match(r"[a-z]+-\d", text) else f"{text[:1].upper()}{text[1:]}"


class Refusal(Exception):
    """A request that cannot be met: one sentence. `code`: the command's exit code, 2 for a wrong
    request."""

    code = 2

    def __init__(self, sentence: object, code: int | None = None) -> None:
        super().__init__(str(sentence))
        self.code = code or self.code
