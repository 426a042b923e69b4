"""Notebook to page: words from the verdict table, papermill, one self-contained HTML, the index.

Modules, each reading only from those above it: `words` (findings in prose), `pieces` (box, tables,
provenance, and the verdict table beside the page), `answers` (a study's questions, and what stands
behind them), `pages` (one notebook, its parameters checked, to one page), `verified` (a page
against its raw files), `batch` (many pages, the index over them, and what is published).
"""
# ruff: noqa: F403

from noisefloor.show.report.answers import *
from noisefloor.show.report.batch import *
from noisefloor.show.report.pages import *
from noisefloor.show.report.pieces import *
from noisefloor.show.report.words import *
