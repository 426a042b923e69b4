"""Is the instrument honest? Truths that are known, live and synthetic; rivals on the same files.

Modules, each reading only from those above it: `live` (what real campaigns say), `found` (what
later ones read of it), `rivals` (how others decide), `truth` (synthetic campaigns), `goals`, `figures`, `page`.
"""

from noisefloor.calibrate.found import write_found
from noisefloor.calibrate.goals import summary
from noisefloor.calibrate.live import TooShort
from noisefloor.calibrate.page import QUESTIONS, Calibration, load, recorded, say, say_power
from noisefloor.calibrate.truth import measure, write

__all__ = [
    "QUESTIONS", "Calibration", "TooShort", "load", "measure", "recorded", "say", "say_power",
    "summary", "write", "write_found",
]  # fmt: skip
