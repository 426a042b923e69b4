"""What a notebook shows of campaigns: the campaigns of a page, opened (`load`), their verdicts and runs
(`Results`), and what is made of them: functions that take them first.

campaign: Results; page: which campaigns stand together; rows: which verdicts lead or answer; frames:
what runs say; tables: what is computed of both."""
# ruff: noqa: F401

from noisefloor.data.results.campaign import Beside, Results, only
from noisefloor.data.results.frames import (
    baseline_in_units,
    builds,
    counted,
    differences,
    evidence,
    exposed,
    fact,
    failed,
    forest,
    intervals,
    lags,
    maxima,
    medians,
    profiles,
    proofs,
    quantiles,
    raw,
    shortened,
    skipped,
    stages,
    upgrade,
    variables,
    warmups,
    warnings,
    workloads,
)
from noisefloor.data.results.page import SHORT, asked_by, beside, load, named, names
from noisefloor.data.results.rows import (
    LATENCY,
    PROCESSOR,
    THROUGHPUT,
    answering,
    at_a_rate,
    capacity,
    costs,
    elsewhere,
    further,
    headlines,
    highest_tps,
    lead,
    lead_rows,
    leading,
    main_metric,
    main_threads,
    main_workload,
    questions,
    server_kind,
)
from noisefloor.data.results.tables import apart, each_load, effects, expectation, load_curve, price
