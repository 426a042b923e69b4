"""What a notebook shows of campaigns: their tables, judged as each campaign itself judged them."""
# ruff: noqa: F401

from noisefloor.data.results.campaign import Results, beside, cut, load, named, names
from noisefloor.data.results.tables import LATENCY, PROCESSOR, THROUGHPUT, advice, apart
