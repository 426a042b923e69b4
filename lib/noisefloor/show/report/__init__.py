"""Notebook to page: words from the verdict table, papermill, one self-contained HTML, the index.

Modules, each reading only from those above it: `words` (findings in prose), `alarm` (whether a newest
campaign lies where it is expected), `statement` (what leads a page), `pieces` (box, tables,
provenance, and the verdict table beside the page), `answers` (a study's questions and figures),
`behind` (in units, how it was measured, what it depends on, all rows), `notebooks` (which there
are), `arguments` (their parameters, checked), `execute`, `layout` (an executed notebook as HTML),
`pages` (one notebook to one page), `verified` (a page against its raw files), `site` (the index over
pages, and what is published), `batch` (many pages).
"""
# ruff: noqa: F401

from noisefloor.show.report.alarm import alarm_lines
from noisefloor.show.report.answers import (
    answer,
    archived,
    begin,
    command,
    figure,
    latency,
    lead_figure,
    open_page,
    pairs_section,
    processor_section,
    questions_section,
    sittings_section,
    some,
    threads_section,
    timeline,
)
from noisefloor.show.report.arguments import checked, parameters
from noisefloor.show.report.batch import (
    leading_campaign,
    measures,
    plan,
    plan_archive,
    published_archives,
    recorded_campaign,
    render_all,
    summary,
)
from noisefloor.show.report.behind import (
    absolute,
    comparisons,
    details,
    expectation,
    outcome,
    rule,
    settings,
    transfers,
)
from noisefloor.show.report.notebooks import notebook, of_questions, studies
from noisefloor.show.report.pages import PARTS, render
from noisefloor.show.report.pieces import (
    OUT,
    flat,
    fold,
    html_table,
    provenance,
    records,
    remark,
    save,
    verdict_box,
    verdict_table,
)
from noisefloor.show.report.site import index, publish, published_findings
from noisefloor.show.report.statement import brief, headline_of
from noisefloor.show.report.words import (
    ReportError,
    engine,
    finding,
    findings,
    machine,
    primary,
    sentence,
)
