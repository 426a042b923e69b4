"""Notebook to page: words from the verdict table, papermill, one self-contained HTML, the index.
Each module imports only from those before it: words, alarm, statement, pieces, answers, behind,
notebooks, arguments, execute, layout, pages, verified, site, batch."""
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
