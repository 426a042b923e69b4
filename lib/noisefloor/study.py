"""What to compare: metrics, arms, workloads, studies and profiles. Data only, no behaviour."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Metric:
    """One measured quantity: base unit inside (`unit`), shown in `shown_unit` = base * `scale`."""

    name: str
    label: str
    unit: str
    better: str  # "higher" or "lower"
    shown_unit: str = ""
    scale: float = 1.0
    judged: bool = True  # maximum latency is shown and never judged


METRICS = {
    m.name: m
    for m in (
        Metric("tps", "Transactions per second", "1/s", "higher", "TPS"),
        Metric("cpu_per_transaction", "Server CPU per transaction", "s", "lower", "ms", 1e3),
        Metric("p95", "95th percentile latency", "s", "lower", "ms", 1e3),
        Metric("p99", "99th percentile latency", "s", "lower", "ms", 1e3),
        Metric("mean_latency", "Mean latency", "s", "lower", "ms", 1e3),
        Metric("max_latency", "Maximum latency", "s", "lower", "ms", 1e3, judged=False),
        Metric("binlog_bytes_per_transaction", "Binary log per transaction", "B", "lower", "B"),
        Metric("written_bytes_per_transaction", "Written per transaction", "B", "lower", "B"),
        Metric("apply_rate", "Replica apply rate", "1/s", "higher", "transactions/s"),
        Metric("apply_cpu", "Replica CPU per transaction", "s", "lower", "ms", 1e3),
        Metric("wall", "Wall time", "s", "lower", "s"),
        Metric("user_sys", "CPU time (user + sys)", "s", "lower", "s"),
        Metric("value", "Value", "", "higher", ""),
    )
}
