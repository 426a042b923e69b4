"""Runs without pairs: k runs an arm, or one run an arm with a row per second."""

import math

import numpy as np

from noisefloor.stats.outcome import Outcome
from noisefloor.stats.plan import deciding_cv, judged, slice_seconds, t_quantile, t_tail

__all__ = ["judge", "mser5", "positive", "slice_from_rows", "start_floor", "within_run"]

# Start-to-start CV of one server (percent) and the starts behind it, until this machine's own is
# measured (`noisefloor calibrate`): the upper 95 % bound from ten restarts of two identical
# MySQL 9.7 servers, whose estimate was 0 (TPS and CPU per transaction alike).
RECORDED_FLOOR = (1.4, 10)
BATCHES = 10


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
    return (math.log1p(cv / 100), int(starts) - 1) if cv else None


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
    estimate = float(np.mean([np.mean(b) - np.mean(a) for a, b in parts]))
    single = max(sizes) == 1
    warnings, terms = [], []
    if not single:
        terms = [term for a, b in parts for term in _terms(a, b)]
    elif within:
        ends = [within_run(rows) for pair in within for rows in pair]
        terms = [(end["sd"] ** 2, end["df"]) for end in ends]
        warnings += sorted({w for end in ends for w in end["warnings"]})
        warnings.append(
            "within-run only: a lower bound, the next run of the same server may differ more"
        )
    terms = [(v / len(parts) ** 2, df) for v, df in terms]
    runs_sd = math.sqrt(sum(v for v, _ in terms)) if terms else math.nan
    floor_terms = []
    if floor and (known_floor if single else not restarts):
        floor_terms = [(2 * floor[0] ** 2, floor[1])]
        if not known_floor:
            warnings.append(
                "the logs do not say whether the server was restarted between runs: a start-to-start "
                f"CV of {100 * math.expm1(floor[0]):.2g} % is added"
            )
    if single and not (floor and known_floor):
        warnings.append("one run an arm and no noise floor: how much two runs differ is unknown")
    elif min(sizes) < 4:
        warnings.append(f"{min(sizes)} runs an arm: below 4 even a rank test cannot reach 5 %")
    word, (lo, hi, p, df) = judged(estimate, terms, floor_terms, margin, alpha)
    terms += floor_terms
    decided = not single or bool(floor and known_floor)
    needed = math.nan
    if decided and terms:
        one_run = sum(v for v, _ in terms) / (1 / sizes[0] + 1 / sizes[1])
        distance = max(abs(estimate), margin - abs(estimate), 1e-9)
        needed = max(4, math.ceil(10.5 * 2 * one_run / distance**2))  # 90 % power at 5 %
    if not math.isnan(runs_sd) and decided:
        cv = abs(estimate) / (
            t_quantile(1 - alpha / 2, df) * math.sqrt(1 / sizes[0] + 1 / sizes[1])
        )
    else:
        cv = deciding_cv(estimate, math.inf, alpha)
    return Outcome(
        estimate, lo, hi, p if decided else math.nan, word if decided else "cannot tell",
        sum(len(a) for a, _ in parts), sum(len(b) for _, b in parts), 1, needed, needed, cv,
        (hi - lo) / 2 if decided else math.nan, warnings,
    )  # fmt: skip


def _terms(a, b):
    """Variances of the two means with their degrees of freedom; one run borrows the other's sd."""
    spread = [(x.var(ddof=1), len(x) - 1) if len(x) > 1 else None for x in (a, b)]
    return [
        (((own or other)[0]) / len(x), (own or other)[1])
        for x, own, other in zip((a, b), spread, spread[::-1], strict=True)
    ]


def mser5(rows):
    """How many of the first rows are warm-up: MSER-5 (White 1997), at most half of them.

    Cuts where the standard error of the rest, taken over batches of five rows, is smallest."""
    rows = np.asarray(rows, float)
    batches = rows[: len(rows) // 5 * 5].reshape(-1, 5).mean(-1)
    if len(batches) < 4:
        return 0
    cuts = range(len(batches) // 2 + 1)
    return 5 * min(cuts, key=lambda c: batches[c:].var() / (len(batches) - c))


def within_run(rows):
    """One run from its rows per second: {"mean", "sd", "df", "cut", "warnings"}, sd on the log scale.

    sd is that of the mean by batch means (ten batches, fewer for short runs), after the warm-up is
    cut: it knows nothing of the difference between runs. Zero rows (a stalled second) count."""
    rows = np.asarray(rows, float)
    cut = mser5(rows)
    kept = rows[cut:]
    if len(kept) < 10 or not kept.mean() > 0:
        raise ValueError(
            f"{len(kept)} rows after warm-up: at least 10 with a mean above 0 are needed for a within-run interval"
        )
    count = min(BATCHES, len(kept) // 5) if len(kept) >= 15 else 2
    size = len(kept) // count
    batches = kept[len(kept) - size * count :].reshape(count, size).mean(-1) / kept.mean()
    warnings = []
    steps = np.arange(count) - (count - 1) / 2
    slope = steps @ batches / (steps @ steps)
    rest = batches - 1 - slope * steps
    error = math.sqrt(rest @ rest / max(count - 2, 1) / (steps @ steps))
    if count > 3 and error > 0 and 2 * t_tail(abs(slope) / error, count - 2) < 0.01:
        warnings.append(f"the run drifts by {100 * slope * (count - 1):+.1f} % from start to end")
    jump, where = _step(batches)
    if count > 5 and jump > 1.63:  # 1 % point of the Kolmogorov distribution (Brownian bridge)
        warnings.append(f"the run steps after {cut + where * size} s: it is not one state")
    return {
        "mean": float(kept.mean()),
        "sd": float(batches.std(ddof=1) / math.sqrt(count)),
        "df": count - 1,
        "cut": cut,
        "warnings": warnings,
    }


def _step(batches):
    """(height of the largest step in sd of the CUSUM, batches before it)."""
    walk = np.cumsum(batches - batches.mean())[:-1]
    where = int(np.argmax(np.abs(walk)))
    pieces = (batches[: where + 1], batches[where + 1 :])
    noise = sum(((p - p.mean()) ** 2).sum() for p in pieces) / max(len(batches) - 2, 1)
    if noise == 0:
        return 0.0, where + 1
    return float(abs(walk[where]) / math.sqrt(noise * len(batches))), where + 1


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
