"""Notebook to page: words from the verdict table, papermill, one self-contained HTML, the index.

Modules, each reading only from those above it: `words` (findings in prose), `saved` (the verdict
table beside the page), `pieces` (box, tables, provenance), `answers` (a study's questions), `details`
(what stands behind them, folded), `given` (parameters, checked before anything runs), `pages` (one notebook to one page), `verified` (a page
against its raw files), `overview` (the index over them), `batch` (many pages).
"""

from .answers import (
    absolute,
    answer,
    begin,
    expectation,
    figure,
    latency,
    outcome,
    path,
    processor,
    questions,
    timeline,
)
from .batch import newest_campaign, plan, publish, recorded_campaign, render_all, summary
from .details import comparisons, details, fold, settings, transfers
from .given import Parameter, checked, parameters
from .overview import index
from .pages import PARTS, notebook, render, studies
from .pieces import badge, provenance, ruler, table, verdict_box, verdict_table_html
from .saved import flat, records, save
from .words import ReportError, engine, finding, findings, headline, machine, primary, sentence

__all__ = [
    "PARTS",
    "Parameter",
    "ReportError",
    "absolute",
    "answer",
    "badge",
    "begin",
    "checked",
    "comparisons",
    "details",
    "engine",
    "expectation",
    "figure",
    "finding",
    "findings",
    "flat",
    "fold",
    "headline",
    "index",
    "latency",
    "machine",
    "newest_campaign",
    "notebook",
    "outcome",
    "parameters",
    "path",
    "plan",
    "primary",
    "processor",
    "provenance",
    "publish",
    "questions",
    "recorded_campaign",
    "records",
    "render",
    "render_all",
    "ruler",
    "save",
    "sentence",
    "settings",
    "studies",
    "summary",
    "table",
    "timeline",
    "transfers",
    "verdict_box",
    "verdict_table_html",
]
