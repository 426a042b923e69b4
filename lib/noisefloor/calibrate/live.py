"""What real campaigns say: two identical servers, known slowdowns.

Works on opened campaigns (`results.load`). Overheads are log ratios inside, percent in the tables."""

import math
import warnings

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from noisefloor import paths, schedule, stats
from noisefloor.data import results
from noisefloor.stats import estimate, honest, rule, synthetic

CPU = "cpu_per_transaction"
METRICS = ("tps", CPU)
WHOLE = 12  # blocks without which a campaign decides nothing
PIECE = 6  # blocks of a piece of a campaign: the fewest whose signs can reach 5 %
REFERENCE_MIN = 2 * 10 * 300 / 60  # ten runs an arm of five minutes each
LONGEST_GAP_S = 120  # between two runs; a longer one was an interruption
NEAR_PCT = 0.5  # a bias of a duet that is always allowed; else a share of the effect:
SHARES = {honest.SIZE: 1 / 10, honest.WORD: 1 / 3}


class TooShort(ValueError):
    """A campaign that is not there, or has too few pairs or blocks for what was asked of it. One
    sentence."""


# -- blocks ------------------------------------------------------------------------------------------


def blocks(r, workload, metric, arm="", threads=None):
    """Mean of every whole block of one comparison by block; threads: None for all counts alike."""
    found = r.pairs(workload, metric, arm)
    every = np.unique(found["block"])
    columns = {}
    for count, part in found.groupby("threads"):
        if threads in (None, count):
            turn, means, _ = stats.units(part, every)
            columns[count] = pd.Series(means, every[turn])
    return pd.DataFrame(columns, dtype=float).dropna().mean(axis=1)


def design(r, workload, threads=None):
    """What a comparison of these campaigns is called."""
    if not r.study.workload(workload).at_once:
        return "switched" if r.study.design == "switched" else "in turn"
    return workload if threads is None else f"{workload}, {threads} threads"


def interval(units):
    """(mean, half width of its 95 % interval) of block means."""
    m = rule.moments(units)
    return float(m.mean), float(m.half(0.05))


def frame(rows, r, columns):
    """Rows as a table. Raises TooShort for none."""
    if not rows:
        few = "fewer than 2 whole blocks: what needs them is left out"
        raise TooShort(f"{r.folder.name} has {few}")
    return pd.DataFrame(rows, columns=columns.split())


def pct(log):
    """A log overhead in percent."""
    return 100 * math.expm1(log)


def squares(d, block):
    """(mean, variance of block means, variance inside blocks, its share of a block mean, degrees of
    freedom inside blocks)."""
    _, turn, sizes = np.unique(block, return_inverse=True, return_counts=True)
    means = np.bincount(turn, d) / sizes
    k, free = len(sizes), len(d) - len(sizes)
    size = k / (1 / sizes).sum()  # harmonic mean: unweighted means, Thomas and Hultquist 1978
    within = ((d - means[turn]) ** 2).sum() / max(free, 1)
    return means.mean(), means.var(ddof=1) if k > 1 else 0.0, within, within / size, free


# -- two identical servers ---------------------------------------------------------------------------


def start_to_start(d, block, threads=None, *, seed=1, draws=100_000):
    """How much one server differs from start to start: a dict of CVs in percent.

    d: log overheads of two identical servers, dealt anew to the arms before every block. cv_pct is the
    variance between blocks beyond what their pairs explain, halved because both arms restart; over
    several thread counts the mean, with the degrees of freedom of one, for a start serves all. lo_pct,
    hi_pct, upper_pct: `beyond`."""
    k, mean, within, part = _blocks_and_pairs(d, block, threads)
    between, share, free = part[1:]
    return {
        "blocks": k, "pairs": len(d),
        "mean_pct": pct(mean),
        "pair_sd_pct": 100 * math.sqrt(within),
        "block_sd_pct": 100 * math.sqrt(between),
        **beyond([part], seed=seed, draws=draws),
        "p": float(scipy_stats.f.sf(between / share, k - 1, free)),
    }  # fmt: skip


def _blocks_and_pairs(d, block, threads):
    """(blocks, mean, variance inside blocks, a part of `beyond`)."""
    d, block = np.asarray(d, float), np.asarray(block)
    threads = np.zeros(len(d)) if threads is None else np.asarray(threads)
    k = len(np.unique(block))
    parts = [squares(d[threads == t], block[threads == t]) for t in np.unique(threads)]
    if k < 2 or any(free < 1 for *_, free in parts):
        raise TooShort(
            f"{len(d)} pairs in {k} blocks: at least 2 blocks of 2 pairs are needed for the scatter "
            "between starts; it is left out"
        )
    mean, between, within, share = np.mean([p[:4] for p in parts], axis=0)
    return k, mean, within, (k - 1, between, share, sum(p[4] for p in parts))


def beyond(parts, *, seed=1, draws=100_000):
    """What starts scatter beyond the pairs: {"cv_pct", "lo_pct", "hi_pct", "upper_pct"}, the last one
    one-sided, from a generalised 95 % interval (Weerahandi 1993), drawn.

    parts: of one or more campaigns, (blocks - 1, variance between blocks, what their pairs explain of
    it, its degrees of freedom). Variances are averaged before any is cut off at zero, each weighted by
    how well its pairs let it be known: the campaign whose estimate is below zero counts like another."""
    k, between, share, free = map(np.array, zip(*parts, strict=True))
    weights = k / share**2
    weights /= weights.sum()
    rng = np.random.default_rng(seed)
    over = k * between / rng.chisquare(k, (draws, len(k)))
    drawn = (over - share * free / rng.chisquare(free, (draws, len(k)))) @ weights
    every = np.append(np.quantile(drawn, (0.025, 0.975, 0.95)), (between - share) @ weights)
    lo, hi, upper, cv = 100 * np.sqrt(np.maximum(every, 0) / 2)
    return {
        "cv_pct": float(cv),
        "lo_pct": float(lo),
        "hi_pct": float(hi),
        "upper_pct": float(upper),
    }


def pooled(opened, metric):
    """`beyond` of all campaigns that measured a metric in turn."""
    found = [r.pairs(r.main, metric) for r in opened]
    return beyond(
        [_blocks_and_pairs(p["overhead"], p["block"], p["threads"])[-1] for p in found if len(p)]
    )


def judged(aa):
    """The metrics of the pairs in turn that were measured."""
    return [m for m in aa.study.workloads[0].metrics if m in set(aa.tidy["metric"])]


def components(aa):
    """`start_to_start` and `mixed` of every judged metric of the pairs in turn, a row each."""
    rows = []
    for metric in judged(aa):
        p = aa.pairs(aa.main, metric)
        found = start_to_start(p["overhead"], p["block"], p["threads"])
        rows.append(
            {"metric": metric} | found | {"mixed_pct": mixed(p), "campaign": aa.folder.name}
        )
    return pd.DataFrame(rows)


def mixed(pairs):
    """The same CV in percent by restricted maximum likelihood: a mixed model with a random effect of
    the block, fitted by statsmodels. A witness of `start_to_start`, which also has an interval."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    d = 100 * (pairs["overhead"] - pairs.groupby("threads")["overhead"].transform("mean"))
    block = pairs.groupby(["threads", "block"]).ngroup()
    with warnings.catch_warnings():  # a variance at its edge, zero, is an answer
        warnings.simplefilter("ignore")
        fitted = MixedLM(d.to_numpy(float), np.ones(len(d)), block.to_numpy()).fit(reml=True)
    return math.sqrt(max(float(np.squeeze(fitted.cov_re)), 0.0) / 2)


def identical(*opened):
    """The A/A interval of each design, all thread counts alike, from the blocks of all campaigns: rows
    design, metric, threads (in words), blocks, overhead_pct, lo_pct, hi_pct, half_pct. Campaigns of one
    design are added up, each weighted by what its pairs and starts scatter: a noisy day tells less."""
    rows, found = [], {}
    for r in opened:
        for work in r.study.workloads:
            for metric in (CPU,) if work.at_once else METRICS:
                units = blocks(r, work.name, metric)
                if len(units) > 1:
                    key = design(r, work.name), metric, ", ".join(map(str, work.threads))
                    explained = _explained(r, work.name, metric)
                    found.setdefault(key, []).append((units.tolist(), explained))
    for key, campaigns in found.items():
        told = _added(campaigns)
        mean, half = told.value, told.half()
        ends = map(pct, (mean, mean - half, mean + half))
        rows.append((*key, sum(len(units) for units, _ in campaigns), *ends, 100 * half))
    return frame(rows, r, "design metric threads blocks overhead_pct lo_pct hi_pct half_pct")


def _explained(r, workload, metric):
    """The variance of a block mean that the pairs inside blocks explain, all thread counts alike."""
    each = [
        squares(p["overhead"].to_numpy(), p["block"].to_numpy())[3]
        for _, p in r.pairs(workload, metric).groupby("threads")
    ]
    return sum(each) / len(each) ** 2


def _added(campaigns):
    """The weighted mean of campaigns as an Estimate: a block weighs one over what its pairs explain and
    what all campaigns together show beyond it, from start to start. campaigns: (means of blocks,
    `_explained`)."""
    variances = np.array([np.var(units, ddof=1) for units, _ in campaigns])
    explained = np.array([known for _, known in campaigns])
    sizes = np.array([len(units) for units, _ in campaigns])
    trust = (sizes - 1) / np.where(explained > 0, explained, variances) ** 2
    beyond = max(np.average(variances - explained, weights=trust), 0.0)
    weights = sizes / (explained + beyond)
    value, parts = 0.0, []
    for weight, (units, _) in zip(weights / weights.sum(), campaigns, strict=True):
        value += float(weight * np.mean(units))
        parts += [(weight**2 * variance, df) for variance, df in estimate.paired(units)]
    return estimate.Estimate(value, tuple(parts))


def controls(campaigns):
    """The A/A control of these campaigns, called by name, each as its campaign judged it: rows campaign,
    metric, workload, threads, overhead_pct, lo_pct, hi_pct, verdict; of throughput and processor time,
    joint where there are several thread counts."""
    costs, rows = {*results.PROCESSOR, *results.THROUGHPUT}, []
    for name in campaigns:
        r = results.load(paths.campaign(name))
        own = r.verdicts[r.verdicts["control"].astype(bool) & r.verdicts["metric"].isin(costs)]
        own = own[own["lo_pct"].notna() & own["verdict"].ne(schedule.NOT_JUDGED)]
        several = own.groupby(["workload", "metric"])["joint"].transform("any")
        rows.append(own[own["joint"] | ~several].assign(campaign=name))
    if not any(map(len, rows)):
        raise TooShort("No campaign with an A/A control is recorded: what needs it is left out.")
    found = pd.concat(rows, ignore_index=True)
    found["threads"] = found["threads"].astype(object).where(found["threads"].notna(), "all")
    columns = ["campaign", "metric", "workload", "threads"]
    return found[[*columns, "overhead_pct", "lo_pct", "hi_pct", "verdict"]]


def machine_time(*opened, draws=2000, blocks=80, seed=1):
    """Measured machine time to a verdict on the real A/A noise at 4 threads, at a truth of 0 and of the
    margin, against ten and ten runs of five minutes: rows metric, truth_pct, right (share with the
    right verdict), wrong, pairs, minutes (means), saved_pct. opened: campaigns of two identical
    servers, whose blocks are drawn, each around its campaign's mean; blocks: declared."""
    rng, aa = np.random.default_rng(seed), opened[0]
    margin, rows = math.log1p(aa.study.margin_pct / 100), []
    judged = ~aa.runs["warmup"] & (aa.runs["workload"] == aa.main)
    slices = aa.runs.loc[judged, "slice_s"].median()
    for metric in METRICS:
        groups = [_centred(r, metric) for r in opened]
        size = min((int(np.median([len(g) for g in of])) for of in groups if of), default=0)
        means = np.array([g[:size].mean() for of in groups for g in of if len(g) >= size])
        if len(means) < PIECE:
            raise TooShort(f"{aa.folder.name} has {len(means)} whole blocks, fewer than {PIECE}")
        for truth, right in ((0.0, synthetic.WORDS["same"]), (margin, synthetic.WORDS["slower"])):
            signs = rng.integers(0, 2, (draws, blocks)) * 2 - 1
            drawn = means[rng.integers(0, len(means), (draws, blocks))] * signs
            used, code = rule.decide(truth + drawn, margin=margin)
            wrong = np.isin(code, (1, -1) if truth == 0 else (-1, 2)).mean()
            pairs = used.mean() * size
            minutes = pairs * 2 * slices / 60
            saved = 100 * (1 - minutes / REFERENCE_MIN)
            rows.append((metric, pct(truth), (code == right).mean(), wrong, pairs, minutes, saved))
    return frame(rows, aa, "metric truth_pct right wrong pairs minutes saved_pct")


def _centred(r, metric):
    """The pairs of every block at 4 threads, around the mean of the campaign."""
    p = r.pairs(r.main, metric)
    p = p[p["threads"] == 4]
    d = p["overhead"] - p["overhead"].mean()
    return [group.to_numpy(float) for _, group in d.groupby(p["block"])]


# -- known slowdowns ---------------------------------------------------------------------------------


def _duets(r):
    """(workload, threads) of every arrangement of a duet."""
    return [(w.name, t) for w in r.study.workloads if w.at_once for t in w.threads]


def rounds(arm):
    """How often every transaction of an arm hashes."""
    return next((int(o.split("=")[1]) for o in arm.options if o.startswith("--work=")), 0)


def _both(r, arm, workload, threads):
    """CPU per transaction of an arm by block: in turn and by a design of its own."""
    turn, own = blocks(r, r.main, CPU, arm.name), blocks(r, workload, CPU, arm.name, threads)
    return pd.concat([turn, own], axis=1, keys=["turn", "own"]).dropna()


def truths(r):
    """What a round of hashing costs, by the heaviest arm in turn: {metric: (ratio less one of that
    arm, half of its 95 % interval, its rounds)}. A transaction's time and its CPU time grow by a fixed
    amount a round, so the ratio less one of any arm is its share of the heaviest one's."""
    arm = max(r.study.arms, key=rounds)
    out = {}
    for metric in METRICS:
        units = blocks(r, r.main, metric, arm.name)
        if len(units) < 2:
            frame((), r, "")  # raises
        mean, half = interval(units)
        out[metric] = math.expm1(mean), math.exp(mean) * half, rounds(arm)
    return out


def _truth(known, arm):
    """(log overhead of an arm, half of its 95 % interval) by the cost of a round."""
    ratio, half, most = known
    share = rounds(arm) / most
    return math.log1p(ratio * share), half * share / (1 + ratio * share)


def injected(r, known):
    """Known slowdowns against what the pairs in turn found: rows arm, metric, blocks, truth_pct,
    overhead_pct, lo_pct, hi_pct, held, pieces: in how many pieces of PIECE blocks, one after the
    other, the 95 % interval holds the truth. known: `truths`, whose error the intervals know; its
    own arm proves nothing and is left out."""
    rows = []
    for arm in r.study.arms:
        for metric in METRICS:
            truth, error = _truth(known[metric], arm)
            units = blocks(r, r.main, metric, arm.name).to_numpy()
            if rounds(arm) == known[metric][2] or len(units) < 2:
                continue
            cut = [units[i : i + PIECE] for i in range(0, len(units) + 1 - PIECE, PIECE)]
            mean, half = interval(units)
            held = [abs(m - truth) <= math.hypot(h, error) for m, h in map(interval, cut)]
            ends = map(pct, (truth, mean, mean - half, mean + half))
            rows.append((arm.name, metric, len(units), *ends, sum(held), len(cut)))
    return frame(rows, r, "arm metric blocks truth_pct overhead_pct lo_pct hi_pct held pieces")


def bias(r, known=None):
    """CPU per transaction of each duet less that in turn, in the same blocks: rows design, threads,
    arm, blocks, effect_pct (in turn), bias_pct, lo_pct, hi_pct (95 %, the block is the
    unit), size_pct and word_pct (what is allowed), all in percent of a logarithm.

    known: `truths`; then what was found in turn is their overhead of an arm instead, for all arms
    but the heaviest: narrower, if a round costs the same in every arm."""
    rows = []
    for work, threads in _duets(r):
        for arm in r.study.arms:
            both = _both(r, arm, work, threads)
            if len(both) < 2:
                continue
            effect, less, error = both["turn"].mean(), both["turn"], 0.0
            if known and rounds(arm) != known[CPU][2]:
                effect, error = _truth(known[CPU], arm)
                less = effect
            mean, half = interval(both["own"] - less)
            half = math.hypot(half, error)
            key = design(r, work, threads), threads, arm.name, len(both)
            found = (100 * x for x in (effect, mean, mean - half, mean + half))
            rows.append((*key, *found, *(max(NEAR_PCT, 100 * s * effect) for s in SHARES.values())))
    columns = "design threads arm blocks effect_pct bias_pct lo_pct hi_pct size_pct word_pct"
    return frame(rows, r, columns)


def arrangements(r):
    """How much a window of each arrangement of a duet scatters, CPU per transaction: rows design,
    blocks, windows, window_sd_pct (inside blocks), block_sd_pct (of their means)."""
    rows = []
    for work, threads in _duets(r):
        p = r.pairs(work, CPU)
        p = p[p["threads"] == threads]
        if (n := p["block"].nunique()) > 1:
            _, between, within, *_ = squares(p["overhead"].to_numpy(), p["block"].to_numpy())
            sds = (100 * math.sqrt(v) for v in (within, between))
            rows.append((design(r, work, threads), n, len(p), *sds))
    return frame(rows, r, "design blocks windows window_sd_pct block_sd_pct")


def says(r, found):
    """What each arrangement of a duet may say of processor time, the most honest one first: rows
    design, threads, says, worst (its bound as a share of what is allowed), shrinks.

    found: `bias`. The 95 % bound of the bias counts, at the worst of all levels; a level that was not
    measured allows nothing."""
    rows = []
    for key, part in found.groupby(["design", "threads"], sort=False):
        bound = part[["lo_pct", "hi_pct"]].abs().max(axis=1)
        worst = {w: (bound / part[f"{w}_pct"]).max() for w in SHARES}
        if len(part) < len(r.study.arms):
            worst = dict.fromkeys(SHARES, math.inf)
        word = next((w for w in SHARES if worst[w] <= 1), honest.NOTHING)
        low = (-part["lo_pct"] / part["effect_pct"].clip(lower=1e-9)).clip(0, 1).max()
        rows.append((*key, word, worst[word or honest.WORD], round(float(low), 3)))
    rows.sort(key=lambda row: ([*SHARES, honest.NOTHING].index(row[2]), row[3]))
    return frame(rows, r, "design threads says worst shrinks")


def allowed(r):
    """What a duet may say, by its most honest arrangement, as an honest.Duet. Raises TooShort."""
    best = says(r, bias(r, truths(r))).iloc[0]
    source = f"campaign {r.folder.name}: known slowdowns, at once against the cost of their rounds"
    if not best["says"]:
        return honest.Duet(source=source)
    return honest.Duet(best["says"], float(best["shrinks"]), int(best["threads"]), source)


def information(r):
    """Information a minute of each duet against the pairs in turn of the same blocks, of CPU per
    transaction: rows design, blocks, sd_pct (of a block mean), minutes (a block), times, lo, hi.

    Information is one over the variance of a block mean, around the means of the arms, and its
    minutes. The interval is that of Morgan and Pitman for two variances of the same blocks."""
    took, rows = minutes(r), []
    turn = r.main, r.study.workload(r.main).threads[0]
    for name, threads in (turn, *_duets(r)):
        both = [_both(r, arm, name, threads) for arm in r.study.arms]
        each = pd.concat(b - b.mean() for b in both)
        df = len(each) - len(both)
        if df < 2 or (name, threads) not in took:
            continue
        (first, cross), (_, own) = each.T.to_numpy() @ each.to_numpy() / df
        ratio = first / own * took[turn] / took[name, threads]
        t = scipy_stats.t.ppf(0.975, df - 1)
        k = 1 + 2 * (1 - cross**2 / first / own) * t**2 / (df - 1)
        apart = math.sqrt(max(k**2 - 1, 0.0))
        ends = (math.nan,) * 2 if name == r.main else (ratio * (k - apart), ratio * (k + apart))
        key = design(r, name, threads), len(each), 100 * math.sqrt(own), took[name, threads]
        rows.append((*key, ratio, *ends))
    return frame(rows, r, "design blocks sd_pct minutes times lo hi")


def minutes(r):
    """{(workload, threads): minutes that it takes of a block}, warm-ups included: until the next run
    begins."""
    runs = r.runs.assign(at=pd.to_datetime(r.runs["start"], format="ISO8601"))
    runs = runs.sort_values("at").drop_duplicates(["block", "at"])  # a duet's runs begin together
    took = -runs.groupby("block")["at"].diff(-1).dt.total_seconds()
    took = took.fillna(runs["slice_s"] + schedule.LOST_S).clip(upper=LONGEST_GAP_S)
    each = took.groupby([runs["workload"], runs["threads"], runs["block"]]).sum() / 60
    return each.groupby(level=[0, 1]).mean().to_dict()


def levelled(*opened):
    """What levelling for the processor time that the host takes away does to pairs in turn: rows metric,
    threads, arm, blocks, taken_pct (of a slice, median), overhead_pct and se_pct without it, left_pct
    and left_se_pct with it; in percent of a logarithm, the campaigns one below the other."""
    rows = []
    for r in opened:
        arms = [a.name for a in r.study.arms]
        found = stats.pairs(r.tidy, baseline=r.study.baseline.name, levelled=True)
        found = found[found["workload"].eq(r.main) & found["arm"].isin(arms)]
        found = found[found["metric"].isin(METRICS)]
        taken = r.tidy[(r.tidy["metric"] == stats.verdicts.STEAL) & (r.tidy["workload"] == r.main)]
        share = 100 * taken["value"].median()
        for (metric, threads, arm), part in found.groupby(["metric", "threads", "arm"], sort=False):
            means = part.groupby("block")[["raw", "overhead"]].mean()
            if len(means) > 1:
                ends = 100 * means.agg(["mean", "sem"]).T.to_numpy().ravel()
                rows.append((metric, int(threads), arm, len(means), share, *ends))
    columns = "metric threads arm blocks taken_pct overhead_pct se_pct left_pct left_se_pct"
    return frame(rows, r, columns)
