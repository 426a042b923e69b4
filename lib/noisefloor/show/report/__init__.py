"""Notebook to page: words from the verdict table, papermill, one self-contained HTML, the index.

Modules, each reading only from those above it: `words` (findings in prose), `alarm` (whether a newest
campaign lies where it is expected), `statement` (the one that leads a page), `pieces` (box, tables, provenance, and the verdict table beside the page),
`answers` (a study's questions and figures), `behind` (in units, how it was measured, what it depends
on, all rows), `pages` (one notebook, its parameters checked, to one page), `verified` (a page against
its raw files), `batch` (many pages, the index over them, and what is published).
"""
# ruff: noqa: F401

from noisefloor.show.report.alarm import alarm_lines
from noisefloor.show.report.answers import (
    answer,
    archived,
    begin,
    command,
    dots,
    figure,
    latency,
    load_section,
    open_page,
    pairs_section,
    processor_section,
    questions_section,
    sittings_section,
    some,
    threads_section,
    timeline,
)
from noisefloor.show.report.batch import (
    index,
    measures,
    newest_campaign,
    plan,
    plan_archive,
    publish,
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
    paragraph,
    rule,
    settings,
    transfers,
)
from noisefloor.show.report.pages import (
    PARTS,
    checked,
    notebook,
    of_questions,
    parameters,
    render,
    studies,
)
from noisefloor.show.report.pieces import (
    OUT,
    badge,
    flat,
    fold,
    html_table,
    like,
    provenance,
    records,
    ruler,
    save,
    verdict_box,
    verdict_table,
)
from noisefloor.show.report.statement import headline_of
from noisefloor.show.report.words import (
    ReportError,
    engine,
    finding,
    findings,
    machine,
    primary,
    sentence,
)
