"""Is the instrument honest? Truths that are known, live and synthetic; rivals on the same files.

Modules, each reading only from those above it: `rivals` (how others decide), `truth` (synthetic
campaigns), `live` (what real campaigns say), `figures`, `page` (goals, tables, words).
"""

from noisefloor.calibration.live import noise, write_floor, write_reach
from noisefloor.calibration.page import (
    STUDIES,
    Calibration,
    load,
    recorded,
    rivals_on,
    say,
    say_power,
    summary,
)
from noisefloor.calibration.truth import measure, write

__all__ = [
    "STUDIES",
    "Calibration",
    "load",
    "measure",
    "noise",
    "recorded",
    "rivals_on",
    "say",
    "say_power",
    "summary",
    "write",
    "write_floor",
    "write_reach",
]
