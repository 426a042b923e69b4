"""Removes secrets from text: passwords in argv, URLs, option files, SQL, JSON and pipelines."""

import re

from noisefloor.parse.forms import FORMS, spelled

HIDDEN = "***"
_RULES = tuple(re.compile(spelled(rule), re.IGNORECASE) for rule in FORMS["secrets"]["rules"])


def scrub(text: str) -> tuple[str, int]:
    """(`text` with ``***`` in place of every known kind of secret, how many). Idempotent."""
    low = text.lower()
    if not any(hint in low for hint in FORMS["secrets"]["hints"]):
        return text, 0
    count = 0
    for rule in _RULES:
        text, n = rule.subn(rf"\g<1>{HIDDEN}", text)
        count += n
    return text, count
