"""Two published numbers: what can be said about them, and what would settle it.

Plain Python, no numpy: the command answers in a third of a second."""

import math

from noisefloor.stats.plan import Estimate, deciding_cv, t_quantile, units_needed

# A CV known as well as the recorded A/A session of one start knows it: 45 pairs, 44 df.
KNOWN_RUNS = 45
FLOOR_RUNS = 10  # A/A runs assumed behind a floor that comes without their number
LITTLE = 0.02  # threads / latency may miss TPS by this much: rounding, ramp, think time
# sd of a pair of 8 s slices on two identical MySQL 9.7 servers restarted ten times, as recorded.
RECORDED_PAIR_SD = {"tps": 0.045, "cpu_per_transaction": 0.034}
SLICE_S, GAP_S = 10, 1
DURATIONS = ("wall", "user_sys")
MAXIMA = ("max_latency", "max")


def judge(
    a,
    b,
    *,
    metric="tps",
    better="higher",
    threads=None,
    seconds=None,
    latency=None,
    margin_pct=2.0,
    floor_cv_pct=None,
    floor_runs=None,
    sd=None,
    n=None,
    alpha=0.05,
):
    """A verdict row as a dict, with `text` (lines for a person) and `plan`, for b against a.

    a is the baseline. latency: (a's, b's) average latency in ms. floor_cv_pct: run-to-run CV from
    floor_runs A/A runs. sd, n: what follows the "±" and the number of repetitions, one for both or
    a pair. Unknown figures are None. ValueError: one sentence on what was given and is allowed."""
    a, b = _above_zero("value", a), _above_zero("value", b)
    margin = math.log1p(_above_zero("margin (percent)", margin_pct) / 100)
    sds, ns = _both("sd", sd), _both("n", n)
    if sd is not None and n is None:
        raise ValueError("sd was given without n: how many repetitions are behind it is needed")
    counts = [int(x) for x in ns] if ns else [1, 1]
    if min(counts) < 1 or (sd is not None and min(counts) < 2):
        raise ValueError(f"n = {min(counts)}: at least {2 if sd is not None else 1} is needed")
    overhead = math.log(a / b) if better == "higher" else math.log(b / a)
    floor = None
    if floor_cv_pct is not None:
        if floor_runs is not None and floor_runs < 2:
            raise ValueError(f"floor from {floor_runs} runs: at least 2 are needed")
        runs = int(floor_runs or FLOOR_RUNS)
        floor = (_above_zero("floor (percent)", floor_cv_pct) / 100, runs - 1)

    warnings, text = [], []
    lo = hi = p = None
    word, spread = "cannot tell", None
    if metric in MAXIMA:
        warnings.append("a maximum is one transaction out of all: it is shown and never judged")
    elif sds:
        word, (lo, hi, p), spread, lines = _repeated(
            overhead, (a, b), sds, counts, floor, margin, alpha
        )
        text += lines
        warnings.append("repetitions under one server start are a lower bound on the noise")
    elif floor:
        found = Estimate(overhead, (), _floor_terms(floor))
        word, (lo, hi, p), spread = (
            found.verdict(margin, alpha=alpha),
            _ends(found, alpha),
            floor[0],
        )
        if floor_runs is None:
            warnings.append(f"the floor is taken as measured by {FLOOR_RUNS} A/A runs")
    else:
        warnings.append("one run each and no noise floor: how much two runs differ is unknown")
    cvs = {
        runs: 100 * deciding_cv(overhead, runs - 1, alpha) for runs in (KNOWN_RUNS, 10, 5)
    }  # fmt: skip
    consistency = _little(a, b, metric, threads, latency)
    warnings += [line for line in consistency if "inconsistent" in line]
    plan = _plan(overhead, metric, a, b, margin, alpha, floor, spread)
    df = floor[1] if floor else KNOWN_RUNS - 1
    decided = word != "cannot tell"
    judgeable = metric not in MAXIMA
    row = {
        "study": None,
        "workload": None,
        "metric": metric,
        "threads": threads,
        "baseline": f"{a:g}",
        "arm": f"{b:g}",
        "n_baseline": counts[0],
        "n_arm": counts[1],
        "overhead_pct": 100 * math.expm1(overhead),
        "lo_pct": None if lo is None else 100 * math.expm1(lo),
        "hi_pct": None if hi is None else 100 * math.expm1(hi),
        "p": p,
        "p_adjusted": p,
        "verdict": word,
        "noise_floor_pct": None if lo is None else 100 * math.expm1((hi - lo) / 2),
        "deciding_cv_pct": 100 * deciding_cv(overhead, df, alpha) if judgeable else None,
        "runs_needed": max(counts) if decided else (plan["pairs"] if judgeable else None),
        "minutes_needed": None if decided or not judgeable else plan["minutes"],
        "warnings": warnings,
    }
    if judgeable and not sds:
        text.append(
            f"It would be real if two runs of the same server had a CV below {cvs[KNOWN_RUNS]:.2f} % "
            f"(well known: {KNOWN_RUNS} A/A pairs), {cvs[10]:.2f} % (10 A/A runs) or {cvs[5]:.2f} % (5 A/A runs)."
        )
    text = [_headline(row, a, b, seconds, lo, hi), *text, *consistency]
    text += [f"Note: {w}." for w in warnings if w not in consistency]
    if judgeable and not decided:
        text.append(plan["text"])
    return {**row, "text": text, "plan": plan if judgeable and not decided else None}


def _headline(row, a, b, seconds, lo, hi):
    """The verdict in one line."""
    gap = f"{a:g} against {b:g}: {row['overhead_pct']:+.1f} % overhead"
    if lo is not None:
        gap += f" ({100 * math.expm1(lo):+.1f} to {100 * math.expm1(hi):+.1f} %)"
    if row["n_baseline"] == row["n_arm"] == 1:
        gap += f", one run of {seconds:g} s each" if seconds else ", one run each"
    return f"{row['verdict']}: {gap}."


def _repeated(overhead, values, sds, counts, floor, margin, alpha):
    """Verdict, (lo, hi, p), sd of one run and text for mean ± sd, under all three readings of ±."""
    words, readings = {}, {}
    for reading in ("sd", "standard error", "interval"):
        terms = []
        for value, spread, k in zip(values, sds, counts, strict=True):
            error = spread / value  # of the mean, on the log scale
            if reading == "sd":
                error /= math.sqrt(k)
            elif reading == "interval":
                error /= t_quantile(1 - alpha / 2, k - 1)
            terms.append((error**2, k - 1))
        found = Estimate(overhead, tuple(terms), _floor_terms(floor))
        words[reading] = found.verdict(margin, alpha=alpha)
        readings[reading] = _ends(found, alpha)
    widest = max(readings.values(), key=lambda r: r[1] - r[0])
    run_sd = max(s / v for s, v in zip(sds, values, strict=True))
    if len(set(words.values())) == 1:
        return words["sd"], widest, run_sd, ["The verdict is the same whether ± is an sd, a standard error or an interval."]  # fmt: skip
    listed = ", ".join(f"{word!r} if it is a{'n' * (name == 'interval')} {name}" for name, word in words.items())  # fmt: skip
    return "cannot tell", widest, run_sd, [f"The verdict depends on what ± means: {listed}."]


def _ends(estimate, alpha):
    """(lo, hi, p) of an estimate."""
    half = estimate.half(alpha)
    return estimate.value - half, estimate.value + half, estimate.p


def _floor_terms(floor):
    """Variance of the difference of two runs, with its degrees of freedom, from a floor."""
    return ((2 * floor[0] ** 2, floor[1]),) if floor else ()


def _little(a, b, metric, threads, latency):
    """What threads / average latency = TPS says about the two measurements."""
    if not latency:
        return []
    if metric != "tps":
        raise ValueError(
            f"latency goes with --metric tps (threads / latency = TPS), not with {metric!r}"
        )
    if not threads:
        raise ValueError("latency was given without threads: threads / latency = TPS needs both")
    implied = [threads / (_above_zero("latency (ms)", x) / 1000) for x in latency]
    off = [i / x - 1 for i, x in zip(implied, (a, b), strict=True)]
    shown = f"{threads} threads / {latency[0]:g} and {latency[1]:g} ms = {implied[0]:.1f} and {implied[1]:.1f} TPS"
    if max(map(abs, off)) <= LITTLE:
        return [f"{shown}: TPS and average latency are one measurement, not two."]
    worst = max(off, key=abs)
    return [
        f"inconsistent: {shown}, {100 * worst:+.0f} % off the TPS given (other threads, a rate limit, or another run)"
    ]


def _plan(overhead, metric, a, b, margin, alpha, floor, spread):
    """The shortest plan that would settle it: {"pairs", "slice_s", "minutes", "pair_sd_pct", "text"}."""
    if spread:
        pair_sd, source = math.sqrt(2) * spread, "the noise given"
    else:
        pair_sd = RECORDED_PAIR_SD.get(metric, RECORDED_PAIR_SD["tps"])
        source = "8 s slices of two identical MySQL 9.7 servers, as recorded"
    if floor and not spread:
        pair_sd, source = math.sqrt(2) * floor[0], "the floor given"
    pairs = units_needed(overhead, pair_sd, margin, alpha)
    slice_s = round((a + b) / 2, 1) if metric in DURATIONS else SLICE_S
    minutes = pairs * 2 * (slice_s + GAP_S) / 60
    return {
        "pairs": pairs,
        "slice_s": slice_s,
        "minutes": minutes,
        "pair_sd_pct": 100 * pair_sd,
        "text": (
            f"To settle it: about {pairs} coin-flipped pairs of {slice_s:g} s slices, {minutes:.0f} minutes, "
            f"if a pair varies by {100 * pair_sd:.1f} % ({source})."
        ),
    }


def _both(name, given):
    """A figure given once or for each of the two, as a list of two; None when not given."""
    if given is None:
        return None
    both = list(given) if isinstance(given, (tuple, list)) else [given, given]
    if len(both) != 2:
        raise ValueError(f"{name}: {len(both)} figures were given, one or two are allowed")
    return [_above_zero(name, x) for x in both]


def _above_zero(name, given):
    """The figure as a float; ValueError unless it is finite and above 0."""
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} {given}: a number above 0 is needed; nothing was judged")
    return value
