"""Run folders -> one table. The only reader of campaigns; text becomes numbers in `parse`.

A campaign is a folder, or packed: then `inside` is the door to its runs. Tidy table: a row per run
and metric, columns `COLUMNS`, base units (s, B, 1/s). ``folders`` reads and seals them, ``numbers``
makes the tables; all of their names are names of this package.
"""
# ruff: noqa: F403

from noisefloor.data.packed import Damaged as Damaged
from noisefloor.data.packed import runs_folder as runs_folder
from noisefloor.data.tidy.folders import *
from noisefloor.data.tidy.numbers import *
