"""What the rivals of `noisefloor ingest` share: the lines of sysbench 1.0.20 as regular expressions
that Python, DuckDB and polars read alike. The names of their groups are the columns."""

import re

_N = "[0-9.]+"
ROW = (
    rf"^\[ (?P<t_s>{_N})s \] thds: (?P<threads>{_N}) tps: (?P<tps>{_N}) qps: (?P<qps>{_N}) "
    rf"\(r/w/o: (?P<reads_per_s>{_N})/(?P<writes_per_s>{_N})/(?P<other_per_s>{_N})\) "
    rf"lat \(ms,99%\): (?P<latency_s>{_N}) err/s: (?P<errors_per_s>{_N}) "
    rf"reconn/s: (?P<reconnects_per_s>{_N})$"
)
BUCKET = rf"^ *(?P<value_s>{_N}) \|\** +(?P<count>[0-9]+)$"
LABEL = rf"^ +(?P<label>[a-z ]+): +(?P<value>{_N})s?(?: +\((?P<rate>{_N}) per sec\.\))?$"
PATH = (
    r"(?P<server>[^/]+)/(?P<version>[^/]+)/[^/]+/run(?P<repetition>[0-9]+)"
    r"_Tier(?P<buffer_pool_B>[0-9]+)G_(?P<workload>[A-Z]+)_(?P<path_threads>[0-9]+)th"
)
METRICS = {  # label of the summary: metric
    "transactions": "tps",
    "queries": "qps",
    "ignored errors": "ignored_errors",
    "reconnects": "reconnects",
    "total time": "duration_s",
    "min": "min_latency",
    "avg": "mean_latency",
    "max": "max_latency",
}
RATES = ("tps", "qps")  # metrics whose value is the rate behind the count


def names(form: str) -> list[str]:
    """The columns that a form gives, in its order."""
    return list(re.compile(form).groupindex)
