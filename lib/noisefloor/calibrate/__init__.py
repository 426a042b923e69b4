"""Is the instrument honest? Truths that are known, live and synthetic; repeats held out.

Modules, each reading only from those above it: `synthetic` (campaigns whose truth is known, by
``cells.toml``), `rivals` (how others decide), `truth` (the rule against both), `live` (real campaigns),
`heldout` (repeats, predicted), `found` (tables of scatter that later campaigns read), `goals`,
`calibration` (all of it, in sentences). What the page alone shows is in ``notebooks/analysis``.
"""

from noisefloor.calibrate.calibration import Calibration, open_calibration, recorded
from noisefloor.calibrate.found import write_tables
from noisefloor.calibrate.goals import summary
from noisefloor.calibrate.live import TooShort
from noisefloor.calibrate.truth import measure, write

__all__ = [
    "Calibration",
    "TooShort",
    "measure",
    "open_calibration",
    "recorded",
    "summary",
    "write",
    "write_tables",
]  # fmt: skip
