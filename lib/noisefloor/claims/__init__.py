"""Published claims: the facts of ``data/raw/published`` and what can be said about them.

Every source is judged by its own controls where it has any: the in-memory table of the tablespace
document, the two names of one cipher in the backup document, the repetitions of STAR. Single numbers
without a control are held against the reference population of run-to-run scatter, as `judge` does.
"""
# ruff: noqa: F401

from noisefloor.claims.judged import COLUMNS, FACTS, TITLES, facts, judge, times
from noisefloor.claims.page import (
    across,
    archives,
    beside,
    box,
    checks,
    findings,
    headline,
    here,
    lost,
    over,
    shown,
    stands,
)
