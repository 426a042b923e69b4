"""Is the instrument honest? Truths that are known, live and synthetic; rivals on the same files.

Modules, each reading only from those above it: `rivals` (how others decide), `truth` (synthetic
campaigns), `live` (what real campaigns say), `figures`, `page` (goals, tables, words).
"""

from noisefloor.calibration.live import TooShort, write_found
from noisefloor.calibration.page import (
    QUESTIONS,
    Calibration,
    load,
    recorded,
    say,
    say_power,
    summary,
)
from noisefloor.calibration.truth import measure, write

__all__ = [
    "QUESTIONS",
    "Calibration",
    "TooShort",
    "load",
    "measure",
    "recorded",
    "say",
    "say_power",
    "summary",
    "write",
    "write_found",
]
