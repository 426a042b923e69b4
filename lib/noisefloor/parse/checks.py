"""Where the numbers of one sysbench text do not agree with each other."""

from collections.abc import Iterator

import numpy as np

from noisefloor.parse.base import Result
from noisefloor.parse.rows import CLIP_S, RESOLUTION, quantile


def disagreements(r: Result) -> list[str]:
    """One sentence for each disagreement inside the result `r` of `sysbench`."""
    return [*_notes(r), *_rates(r), *_latency(r), *_histogram(r), *_rows(r)]


def _notes(r: Result) -> Iterator[str]:
    if r["checkpoints"]:
        yield "checkpoint reports: the last summary may cover only the time after the last one"
    if r["warmup_s"] and r["intervals"]:
        yield f"a warm-up of {r['warmup_s']} s: the rows' time stamps may count from its start"


def _spans(r: Result) -> list[float]:
    """The seconds that the summary may be about."""
    seconds = r["duration_s"]
    warmup = r["warmup_s"] or 0
    before = [c["duration_s"] for c in r["checkpoints"][-1:]] + [warmup]
    return [s for s in (seconds, *(seconds - b for b in before if b), seconds + warmup) if s > 0]


def _rates(r: Result) -> Iterator[str]:
    n, tps, queries = r["transactions"], r["tps"], r["queries"]
    if tps and not any(abs(n / s - tps) <= 0.02 * tps + 0.006 for s in _spans(r)):
        yield f"{n} transactions in {r['duration_s']:g} s are not the {tps:g} per second printed"
    if n is not None and n != r["events"]:
        yield f"{n} transactions, but {r['events']} events"
    parts = (r["reads"], r["writes"], r["other"])
    if queries is None or None in parts:
        return
    if sum(parts) != queries:
        yield f"reads, writes and other do not add up to {queries} queries"
    told = n and tps and r["qps"]
    if told and abs(queries / n - r["qps"] / tps) > 0.02 * queries / n + 0.006 / tps:
        yield "queries per transaction differ between the counts and the rates"


def _latency(r: Result) -> Iterator[str]:
    latency, n = r["latency"], r["events"]
    if n and abs(latency["sum"] / n - latency["mean"]) > 1e-5 + 0.01 * latency["mean"]:
        yield "the mean latency is not the sum of latencies over the events"
    if not latency["min"] <= latency["mean"] <= latency["max"]:
        yield "the mean latency is not between the minimum and the maximum"
    # with --rate events wait in a queue, so the law holds for another number than threads;
    # below 0.2 ms the tool's own time between two events is no longer small
    if not (r["transactions"] and r["threads"]) or r["rate"] or latency["mean"] <= 0.0002:
        return
    busy = [latency["sum"] / s / r["threads"] for s in _spans(r)]
    if not any(0.9 < share < 1.05 for share in busy):
        yield (
            f"tps times mean latency is {100 * min(busy, default=0):.0f} % of the {r['threads']} threads"
            " (Little's law): time went outside of transactions, or the numbers are of two runs"
        )


def _histogram(r: Result) -> Iterator[str]:
    values, counts = r["histogram_s"], r["histogram_counts"]
    total = int(counts.sum())
    if counts.size and total != r["events"]:
        yield f"the histogram holds {total} events, the summary {r['events']}"
    if clipped := int(counts[values >= CLIP_S - 1e-6].sum()):
        yield f"{clipped} events in the histogram's last bucket: {CLIP_S:g} s or longer (clipped)"
    for share, value in r["latency"]["percentile"].items():
        if value >= CLIP_S:
            yield f"percentile {share:g} is clipped at {CLIP_S:g} s"
        if total and not r["checkpoints"]:
            own = quantile(values, counts, min(share, 100) / 100)
            if abs(own - value) > 2 * RESOLUTION * value + 1e-5:
                yield f"percentile {share:g} is {value:g} s in the summary, {own:g} s in the histogram"


def _rows(r: Result) -> Iterator[str]:
    rows = r["intervals"]
    rates = rows.get("tps", rows.get("events_per_s"))
    if rates is None or len(rates) < 2:
        return
    stamps = rows["t_s"]
    steps = stamps - np.concatenate(((0.0,), stamps[:-1]))
    usual = r["report_interval"] or float(np.median(steps))
    if (steps[1:] == 0).any():
        yield "two rows with the same time stamp"
    if r["checkpoints"] or r["warmup_s"] or not r["events"]:
        return
    if (steps > 1.5 * usual + 1).any():
        yield "rows are missing: the time stamps have gaps"
    elif stamps[-1] > r["duration_s"] + usual + 1:
        yield "rows after the end of the run: perhaps two runs in one text"
    else:
        covered = min(1.0, stamps[-1] / r["duration_s"]) if r["duration_s"] else 0.0
        if covered > 0.8 and abs((rates * steps).sum() / (r["events"] * covered) - 1) > 0.1:
            yield "the rows do not add up to the summary's events"
