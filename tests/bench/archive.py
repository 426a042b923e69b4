"""Archives made up for tests and benchmarks: seeded, each text as sysbench 1.0.20 prints it and
right in itself (rows, histogram and summary agree)."""

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

_HEAD = """sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: %d
Report intermediate results every 1 second(s)
Initializing random number generator from current time


Initializing worker threads...

Threads started!

"""
_ROW = (
    "[ %ds ] thds: %d tps: %.2f qps: %.2f (r/w/o: %.2f/%.2f/%.2f) lat (ms,99%%): %.2f"
    " err/s: 0.00 reconn/s: 0.00\n"
)
_HISTOGRAM = (
    "Latency histogram (values are in milliseconds)\n"
    "       value  ------------- distribution ------------- count\n"
)
_SUMMARY = """SQL statistics:
    queries performed:
        read:                            %d
        write:                           %d
        other:                           %d
        total:                           %d
    transactions:                        %d (%.2f per sec.)
    queries:                             %d (%.2f per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          %.4fs
    total number of events:              %d

Latency (ms):
         min:                                %8.2f
         avg:                                %8.2f
         max:                                %8.2f
         99th percentile:                    %8.2f
         sum:                            %12.2f

Threads fairness:
    events (avg/stddev):           %.4f/%.2f
    execution time (avg/stddev):   %.4f/0.01

"""
_BUCKETS = 1e-3 * (1e8 ** (np.arange(1024) / 1023))
SERVERS = (
    ("mysql", "8.4.8"),
    ("mysql", "9.7.0"),
    ("percona-server", "8.4.8-8"),
    ("mariadb", "11.8.3"),
)
THREADS = (1, 4, 16, 64, 128, 256)


def text(
    rng, threads: int = 4, seconds: int = 300, tps: float = 500.0, histogram: bool = True
) -> str:
    """What one run of oltp_read_write printed: `seconds` rows, a histogram and the summary."""
    rates = np.round(np.maximum(tps * (1 + 0.05 * rng.standard_normal(seconds)), 1.0), 2)
    n = round(float(rates.sum()))
    duration = seconds + float(rng.uniform(0.001, 0.009))
    mean = 1e3 * threads * (duration - 0.002) / n
    spread = rng.lognormal(np.log(mean) - 0.06, 0.35, 3000)
    near = np.searchsorted(_BUCKETS, np.clip(spread, 1e-3, 9e4))
    where, weight = np.unique(near, return_counts=True)
    counts = rng.multinomial(n, weight / weight.sum())
    where, counts = where[counts > 0], counts[counts > 0]
    p99 = _BUCKETS[where[np.searchsorted(np.cumsum(counts), max(1, np.floor(0.99 * n + 0.5)))]]
    table = np.column_stack(
        [
            np.arange(1, seconds + 1), np.full(seconds, threads), rates, 20 * rates, 14 * rates,
            4 * rates, 2 * rates, p99 * rng.uniform(0.9, 1.1, seconds),
        ]
    )  # fmt: skip
    parts = [_HEAD % threads, (_ROW * seconds) % tuple(table.ravel().tolist())]
    if histogram:
        most = counts.max()
        parts += [_HISTOGRAM] + [
            f"{_BUCKETS[b]:12.3f} |{'*' * int(c * 40 / most + 0.5):40} {c}\n"
            for b, c in zip(where.tolist(), counts.tolist(), strict=True)
        ]
        parts.append(" \n")
    low, high = _BUCKETS[where[0]] * 0.99, _BUCKETS[where[-1]] * 1.01
    per = n / threads
    parts.append(
        _SUMMARY
        % (
            14 * n, 4 * n, 2 * n, 20 * n, n, n / duration, 20 * n, 20 * n / duration, duration, n,
            low, mean, high, p99, mean * n, per, per * 0.004, duration - 0.002,
        )
    )  # fmt: skip
    return "".join(parts)


def path(i: int) -> str:
    """Where file number `i` of an archive lies: server, version, repetition, buffer pool, threads."""
    server, version = SERVERS[i % len(SERVERS)]
    threads = THREADS[i // len(SERVERS) % len(THREADS)]
    rest = i // (len(SERVERS) * len(THREADS))
    tier, repetition = (2, 12, 32)[rest % 3], rest // 3 + 1
    return f"benchmark_logs/{server}/{version}/batch{repetition // 100}/run{repetition}_Tier{tier}G_RW_{threads}th.sysbench.txt"  # fmt: skip


def tree(folder: Path, n: int, *, seconds: int = 300, seed: int = 1, jobs: int = 1) -> int:
    """Write an archive of `n` files; returns its bytes. The same seed, the same archive."""
    blocks = [(str(folder), range(i, min(i + 500, n)), seconds, seed) for i in range(0, n, 500)]
    if jobs == 1:
        return sum(map(_write, blocks))
    with ProcessPoolExecutor(jobs) as pool:
        return sum(pool.map(_write, blocks))


def _write(block) -> int:
    folder, numbers, seconds, seed = block
    total = 0
    for i in numbers:
        file = os.path.join(folder, path(i))
        os.makedirs(os.path.dirname(file), exist_ok=True)
        rng = np.random.default_rng([seed, i])
        faster = 1 + 0.05 * (i % len(SERVERS))
        printed = text(rng, int(path(i).rpartition("_")[2].split("th")[0]), seconds, 500 * faster)
        total += len(printed)
        with open(file, "w", encoding="utf-8") as out:
            out.write(printed)
    return total
