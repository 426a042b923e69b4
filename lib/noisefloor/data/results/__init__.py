"""What notebooks show of campaigns: the opened campaigns of a page (`load`), their verdicts and
runs (`Results`), and functions that make frames and rows of them.

campaign: Results; page: which campaigns are on one page; rows: which verdicts lead or answer;
frames: data of the runs; tables: what is computed from both."""
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
