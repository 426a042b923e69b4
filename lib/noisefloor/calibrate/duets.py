"""Known slowdowns: what each design finds, what a duet may say, and what levelling does."""

import json
import math

import pandas as pd
from scipy import stats as scipy_stats

from noisefloor import schedule, stats
from noisefloor.calibrate import live
from noisefloor.calibrate.live import CPU, METRICS, PIECE, WHOLE, TooShort, blocks, design, interval
from noisefloor.stats import honest

LONGEST_GAP_S = 120  # between two runs; a longer one was an interruption
NEAR_PCT = 0.5  # a bias that is always allowed; else a share of the effect:
SHARES = {honest.SIZE: 1 / 10, honest.WORD: 1 / 3}


def _duets(r):
    """(workload, threads) of every arrangement of a duet."""
    return [(w.name, t) for w in r.study.workloads if w.at_once for t in w.threads]


def _rounds(arm):
    return next((int(o.split("=")[1]) for o in arm.options if o.startswith("--work=")), 0)


def _both(r, arm, workload, threads):
    """CPU per transaction of an arm by block: in turn and by a design of its own."""
    turn, own = blocks(r, r.main, CPU, arm.name), blocks(r, workload, CPU, arm.name, threads)
    return pd.concat([turn, own], axis=1, keys=["turn", "own"]).dropna()


def truths(r):
    """What a round of hashing costs, by the heaviest arm in turn: {metric: (ratio less one of that
    arm, half of its 95 % interval, its rounds)}. A transaction's time and its CPU time grow by a fixed
    amount a round, so the ratio less one of any arm is its share of the heaviest one's."""
    arm = max(r.study.arms, key=_rounds)
    out = {}
    for metric in METRICS:
        units = blocks(r, r.main, metric, arm.name)
        if len(units) < 2:
            raise TooShort(
                f"{r.folder.name} has fewer than 2 whole blocks of {arm.name}: what needs them is left out"
            )
        mean, half = interval(units)
        out[metric] = math.expm1(mean), math.exp(mean) * half, _rounds(arm)
    return out


def _truth(known, arm):
    """(log overhead of an arm, half of its 95 % interval) by the cost of a round."""
    ratio, half, rounds = known
    share = _rounds(arm) / rounds
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
            if _rounds(arm) == known[metric][2] or len(units) < 2:
                continue
            cut = [units[i : i + PIECE] for i in range(0, len(units) + 1 - PIECE, PIECE)]
            mean, half = interval(units)
            held = [abs(m - truth) <= math.hypot(h, error) for m, h in map(interval, cut)]
            ends = map(live.pct, (truth, mean, mean - half, mean + half))
            rows.append((arm.name, metric, len(units), *ends, sum(held), len(cut)))
    return live.frame(rows, r, "arm metric blocks truth_pct overhead_pct lo_pct hi_pct held pieces")


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
            if known and _rounds(arm) != known[CPU][2]:
                effect, error = _truth(known[CPU], arm)
                less = effect
            mean, half = interval(both["own"] - less)
            half = math.hypot(half, error)
            key = design(r, work, threads), threads, arm.name, len(both)
            found = (100 * x for x in (effect, mean, mean - half, mean + half))
            rows.append((*key, *found, *(max(NEAR_PCT, 100 * s * effect) for s in SHARES.values())))
    columns = "design threads arm blocks effect_pct bias_pct lo_pct hi_pct size_pct word_pct"
    return live.frame(rows, r, columns)


def arrangements(r):
    """How much a window of each arrangement of a duet scatters, CPU per transaction: rows design,
    blocks, windows, window_sd_pct (inside blocks), block_sd_pct (of their means)."""
    rows = []
    for work, threads in _duets(r):
        p = r.pairs(work, CPU)
        p = p[p["threads"] == threads]
        if (n := p["block"].nunique()) > 1:
            _, between, within, *_ = live.squares(p["overhead"].to_numpy(), p["block"].to_numpy())
            sds = (100 * math.sqrt(v) for v in (within, between))
            rows.append((design(r, work, threads), n, len(p), *sds))
    return live.frame(rows, r, "design blocks windows window_sd_pct block_sd_pct")


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
    return live.frame(rows, r, "design threads says worst shrinks")


def allowed(r):
    """What a duet may say, by its most honest arrangement, as an honest.Duet. Raises TooShort."""
    best = says(r, bias(r, truths(r))).iloc[0]
    source = f"campaign {r.folder.name}: known slowdowns, at once against the cost of their rounds"
    if not best["says"]:
        return honest.Duet(source=source)
    return honest.Duet(best["says"], float(best["shrinks"]), int(best["threads"]), source)


def write_found(opened, folder):
    """Write what campaigns {question: Results} say of their machine: ``floor.json``, ``noise.json`` and
    ``duet.json``. Raises TooShort for fewer than WHOLE blocks: they would decide what later ones say."""
    for r in opened.values():
        if (n := len(blocks(r, r.main, CPU))) < WHOLE:
            raise TooShort(f"{r.folder.name} has {n} whole blocks of {WHOLE}: nothing is written")
    found = {
        "floor": live.floor(opened["aa"]),
        "noise": live.noise([opened[q].folder for q in ("aa", "switched")]),
    }
    for name, entries in found.items():
        text = json.dumps(entries, indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n")
    honest.write(allowed(opened["injected"]), folder / "duet.json")


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
    return live.frame(rows, r, "design blocks sd_pct minutes times lo hi")


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
    return live.frame(
        rows, r, "metric threads arm blocks taken_pct overhead_pct se_pct left_pct left_se_pct"
    )
