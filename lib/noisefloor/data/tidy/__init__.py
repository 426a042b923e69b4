"""Run folders to one table. The only reader of campaigns, packed or not; `parse` makes numbers of
text. Tidy table: a row per run and metric, columns `COLUMNS`, base units (s, B, 1/s). ``folders``
reads and seals, ``numbers`` makes the tables; the package exports all of their names."""
# ruff: noqa: F403

from noisefloor.data.packed import Damaged as Damaged
from noisefloor.data.packed import runs_folder as runs_folder
from noisefloor.data.tidy.folders import *
from noisefloor.data.tidy.numbers import *
