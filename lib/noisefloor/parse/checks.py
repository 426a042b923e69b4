"""Where numbers of one sysbench text contradict each other."""

from collections.abc import Iterator

import numpy as np

from noisefloor.parse.base import Result
from noisefloor.parse.rows import CLIP_S, RESOLUTION, quantile


def disagreements(result: Result) -> list[str]:
    """One sentence for each disagreement inside a result of `sysbench`."""
    checks = (_notes, _rates, _latency, _histogram, _rows)
    return [sentence for check in checks for sentence in check(result)]


def _notes(result: Result) -> Iterator[str]:
    if result["checkpoints"]:
        yield "checkpoint reports: the last summary may cover only the time after the last one"
    if result["warmup_s"] and result["intervals"]:
        yield f"a warm-up of {result['warmup_s']} s: the rows' time stamps may count from its start"


def _spans(result: Result) -> list[float]:
    """The times in s that the summary may cover."""
    seconds = result["duration_s"]
    warmup = result["warmup_s"] or 0
    before = [c["duration_s"] for c in result["checkpoints"][-1:]] + [warmup]
    return [s for s in (seconds, *(seconds - b for b in before if b), seconds + warmup) if s > 0]


def _rates(result: Result) -> Iterator[str]:
    n, tps, queries, qps = (result[k] for k in ("transactions", "tps", "queries", "qps"))
    if tps and not any(abs(n / s - tps) <= 0.02 * tps + 0.006 for s in _spans(result)):
        seconds = result["duration_s"]
        yield f"{n} transactions in {seconds:g} s are not the {tps:g} per second printed"
    if n is not None and n != result["events"]:
        yield f"{n} transactions, but {result['events']} events"
    parts = (result["reads"], result["writes"], result["other"])
    if queries is None or None in parts:
        return
    if sum(parts) != queries:
        yield f"reads, writes and other do not add up to {queries} queries"
    if n and tps and qps and abs(queries / n - qps / tps) > 0.02 * queries / n + 0.006 / tps:
        yield "queries per transaction differ between the counts and the rates"


def _latency(result: Result) -> Iterator[str]:
    latency, events, threads = result["latency"], result["events"], result["threads"]
    mean = latency["mean"]
    if events and abs(latency["sum"] / events - mean) > 1e-5 + 0.01 * mean:
        yield "the mean latency is not the sum of latencies over the events"
    if not latency["min"] <= mean <= latency["max"]:
        yield "the mean latency is not between the minimum and the maximum"
    # with --rate events wait in a queue, so the law holds for another number than threads;
    # below 0.2 ms the tool's own time between two events is no longer small
    if not (result["transactions"] and threads) or result["rate"] or mean <= 0.0002:
        return
    busy = [latency["sum"] / s / threads for s in _spans(result)]
    if not any(0.9 < share < 1.05 for share in busy):
        yield (
            f"tps times mean latency is {100 * min(busy, default=0):.0f} % of the {threads} threads"
            " (Little's law): time went outside of transactions, or the numbers are of two runs"
        )


def _histogram(result: Result) -> Iterator[str]:
    values, counts = result["histogram_s"], result["histogram_counts"]
    total = int(counts.sum())
    if counts.size and total != result["events"]:
        yield f"the histogram holds {total} events, the summary {result['events']}"
    if clipped := int(counts[values >= CLIP_S - 1e-6].sum()):
        yield f"{clipped} events in the histogram's last bucket: {CLIP_S:g} s or longer (clipped)"
    for share, printed in result["latency"]["percentile"].items():
        if printed >= CLIP_S:
            yield f"percentile {share:g} is clipped at {CLIP_S:g} s"
        if total and not result["checkpoints"]:
            counted = quantile(values, counts, min(share, 100) / 100)
            if abs(counted - printed) > 2 * RESOLUTION * printed + 1e-5:
                yield (
                    f"percentile {share:g} is {printed:g} s in the summary, {counted:g} s in the"
                    " histogram"
                )


def _rows(result: Result) -> Iterator[str]:
    rows, events, seconds = result["intervals"], result["events"], result["duration_s"]
    rates = rows.get("tps", rows.get("events_per_s"))
    if rates is None or len(rates) < 2:
        return
    stamps = rows["t_s"]
    steps = stamps - np.concatenate(((0.0,), stamps[:-1]))
    usual = result["report_interval"] or float(np.median(steps))
    if (steps[1:] == 0).any():
        yield "two rows with the same time stamp"
    if result["checkpoints"] or result["warmup_s"] or not events:
        return
    if (steps > 1.5 * usual + 1).any():
        yield "rows are missing: the time stamps have gaps"
    elif stamps[-1] > seconds + usual + 1:
        yield "rows after the end of the run: perhaps two runs in one text"
    else:
        covered = min(1.0, stamps[-1] / seconds) if seconds else 0.0
        if covered > 0.8 and abs((rates * steps).sum() / (events * covered) - 1) > 0.1:
            yield "the rows do not add up to the summary's events"
