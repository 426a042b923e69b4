"""Notebook to page: words from the verdict table, papermill, one self-contained HTML, the index.

Modules, each reading only from those above it: `words` (findings in prose), `pieces` (box, tables,
provenance, and the verdict table beside the page), `answers` (a study's questions, and what stands
behind them), `pages` (one notebook, its parameters checked, to one page), `verified` (a page
against its raw files), `batch` (many pages, the index over them, and what is published).
"""
# ruff: noqa: F401

from noisefloor.show.report.answers import (
    absolute,
    answer,
    archived,
    begin,
    command,
    comparisons,
    details,
    dots,
    expectation,
    figure,
    fold,
    latency,
    opened,
    outcome,
    pairs,
    processor,
    questions,
    rule,
    settings,
    sittings,
    some,
    threads,
    timeline,
    transfers,
    waterfall,
)
from noisefloor.show.report.batch import (
    finished,
    index,
    newest_campaign,
    plan,
    plan_archive,
    publish,
    published_archives,
    recorded_campaign,
    render_all,
    summary,
)
from noisefloor.show.report.pages import PARTS, checked, notebook, parameters, render, studies
from noisefloor.show.report.pieces import (
    OUT,
    badge,
    flat,
    like,
    provenance,
    records,
    ruler,
    save,
    table,
    verdict_box,
    verdict_table,
)
from noisefloor.show.report.words import (
    ReportError,
    engine,
    finding,
    findings,
    headline,
    machine,
    primary,
    sentence,
)
