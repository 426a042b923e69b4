"""How often Noisefloor errs: on known truths, live and synthetic, and on its own repeats.

Modules, each reading only from those above it: `synthetic` (campaigns whose truth is known, by
``cells.toml``), `rivals` (the usual methods), `truth` (the rule against both), `live` (real
campaigns), `heldout` (repeats, predicted), `tables` (of scatter, for later campaigns),
`goals`, `calibration` (the sentences). What only the page shows is in ``notebooks/analysis``.
"""
# ruff: noqa: F401

from noisefloor.calibrate.calibration import Calibration, open_calibration, recorded
from noisefloor.calibrate.goals import summary
from noisefloor.calibrate.live import TooShort
from noisefloor.calibrate.tables import write_tables
from noisefloor.calibrate.truth import measure, write
