"""Runs without pairs as one comparison of the verdict table, and how long a slice should be."""

import math

import numpy as np

from noisefloor.stats import fixed
from noisefloor.stats.outcome import Outcome
from noisefloor.stats.plan import Estimate, slice_seconds

# Start-to-start CV of one server (percent) and the starts behind it, for callers that give none:
# that of TPS in the recorded A/A session of ten restarts.
RECORDED_FLOOR = (1.3, 10)


def start_floor(floor, metric):
    """(sd on the log scale, degrees of freedom) of a start-to-start floor, None for no floor.

    floor: None (the recorded one), CV in percent, (CV, starts behind it), or a dict by metric."""
    if isinstance(floor, dict):
        floor = floor.get(metric)
    if floor is None:
        floor = RECORDED_FLOOR
    cv, starts = floor if isinstance(floor, (tuple, list)) else (floor, RECORDED_FLOOR[1])
    if not (cv >= 0 and starts >= 2):
        raise ValueError(
            f"floor {cv} % from {starts} starts: a CV of at least 0 from at least 2 is needed"
        )
    return (cv / 100, int(starts) - 1) if cv else None


def positive(values, metric):
    """The values as floats; ValueError unless all are finite and above 0 (a ratio needs that)."""
    values = np.asarray(values, float)
    bad = values[~(np.isfinite(values) & (values > 0))]
    if bad.size:
        raise ValueError(
            f"{metric}: {bad[0]:g} has no logarithm (values must be above 0); nothing was judged"
        )
    return values


def judge(parts, *, margin, alpha=0.05, floor=None, known_floor=False, restarts=False, within=None):
    """Outcome for runs without pairs: Welch on logs of run values, over one or more thread counts.

    parts: [(baseline logs, arm logs), ...], positive is worse; with several parts the mean effect
    over them. floor: (start-to-start sd, df), added once, because all runs of an arm may share a
    start, unless restarts says that none do. known_floor: the floor was given by the user, so that
    single runs can be judged against it.
    within: [(baseline rows, arm rows), ...] of values per second, for one run an arm."""
    parts = [(np.asarray(a, float), np.asarray(b, float)) for a, b in parts]
    sizes = [min(len(a) for a, _ in parts), min(len(b) for _, b in parts)]
    value = float(np.mean([np.mean(b) - np.mean(a) for a, b in parts]))
    single = max(sizes) == 1
    warnings, terms = [], []
    if not single:
        terms = [term for a, b in parts for term in _welch(a, b)]
    elif within:
        inside = [fixed.within(rows) for pair in within for rows in pair]
        if all(inside):
            terms = [(error**2, df) for error, df, _ in inside]
            warnings += dict.fromkeys(w for *_, found in inside for w in found)
            warnings.append(
                "within-run only: a lower bound, the next run of the same server may differ more"
            )
    terms = tuple((v / len(parts) ** 2, df) for v, df in terms)
    added = ()
    if floor and (known_floor if single else not restarts):
        added = ((2 * floor[0] ** 2, floor[1]),)
        if not known_floor:
            warnings.append(
                "the logs do not say whether the server was restarted between runs: a start-to-start "
                f"CV of {100 * floor[0]:.2g} % is added"
            )
    decided = not single or bool(added)
    if not decided:
        warnings.append("one run an arm and no noise floor: how much two runs differ is unknown")
    elif min(sizes) < 4:
        warnings.append(f"{min(sizes)} runs an arm: below 4 even a rank test cannot reach 5 %")
    estimate = Estimate(value, terms, added)
    half = estimate.half(alpha)
    needed = None
    if not single:
        run_sd = math.sqrt(sum(v for v, _ in terms) / (1 / sizes[0] + 1 / sizes[1]))
        needed = fixed.runs_needed(value, run_sd, margin, start=sum(v for v, _ in added), least=4)
    needed = math.nan if needed is None else needed
    return Outcome(
        value, value - half, value + half,
        estimate.p if decided else math.nan,
        estimate.verdict(margin, alpha=alpha) if decided else "cannot tell",
        sum(len(a) for a, _ in parts), sum(len(b) for _, b in parts), 1, needed, needed,
        fixed.deciding_cv(value, sizes, alpha=alpha) / 100, half if decided else math.nan, warnings,
    )  # fmt: skip


def slice_from_rows(rows, run_values, cost_s, *, shortest=2.0, longest=30.0):
    """Cheapest length of a slice in seconds, from the first block's rows per second.

    rows: one array of values per second for every run of one arm; run_values: their means, whose
    spread beyond what the seconds explain is the run-to-run sd; cost_s: seconds lost per run."""
    logs = [np.log(np.maximum(np.asarray(r, float), 1e-9)) for r in rows if len(r) >= 3]
    if not logs or len(run_values) < 2:
        return longest
    centred = [r - r.mean() for r in logs]
    within = float(np.mean([c @ c / (len(c) - 1) for c in centred]))
    lag = float(np.mean([c[1:] @ c[:-1] / (len(c) - 1) for c in centred])) / within if within else 0
    tau = (1 + max(lag, 0)) / (1 - min(max(lag, 0), 0.95))
    seconds = float(np.mean([len(r) for r in logs]))
    spread = float(np.var(np.log(positive(run_values, "run means")), ddof=1))
    between = math.sqrt(max(spread - within * tau / seconds, 0.0))
    return float(np.clip(slice_seconds(cost_s, math.sqrt(within), tau, between), shortest, longest))


def _welch(a, b):
    """Variances of the two means with their degrees of freedom; one run borrows the other's sd."""
    if min(len(a), len(b)) > 1:
        return fixed.welch(a, b)
    more = a if len(a) > 1 else b
    return ((float(more.var(ddof=1)) * (1 / len(a) + 1 / len(b)), len(more) - 1),)
