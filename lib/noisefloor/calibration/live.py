"""What real campaigns say: two identical servers, known slowdowns, and three designs side by side.

Works on opened campaigns (`results.load`). Overheads are log ratios inside, percent in the tables.
"""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from noisefloor.calibration.truth import rate
from noisefloor.stats import paired, plan, sequential, synthetic

METRICS = ("tps", "cpu_per_transaction")
DRAWS = 10_000
SHORT = 16  # blocks of a resampled campaign
LONGEST_GAP_S = 120  # between two runs; a longer one was an interruption
REFERENCE_MIN = 2 * 10 * 300 / 60  # ten runs an arm of five minutes each
FLOOR = Path(__file__).parents[1] / "floor.json"
REACH = FLOOR.with_name("duet.json")


class TooShort(ValueError):
    """A campaign with too few pairs or blocks for what was asked of it. One sentence."""


def start_to_start(d, block, *, seed=1, draws=100_000):
    """How much one server differs from start to start: a dict of CVs in percent.

    d: log overheads of two identical servers, dealt anew to the arms before every block. The
    variance between blocks beyond what their pairs explain, halved because both arms restart.
    The interval is a generalised confidence interval (Weerahandi 1993): the two mean squares
    divided by their chi-squares, drawn. cv_pct: estimate, 0 when the pairs explain everything;
    lo_pct, hi_pct: 95 %; upper_pct: one-sided 95 %; df: blocks less one."""
    d, block = np.asarray(d, float), np.asarray(block)
    starts, turn, sizes = np.unique(block, return_inverse=True, return_counts=True)
    means = np.bincount(turn, d) / sizes
    k, n = len(starts), len(d)
    if k < 2 or n == k:
        raise TooShort(
            f"{n} pairs in {k} blocks: at least 2 blocks of 2 pairs are needed for the scatter "
            "between starts; it is left out"
        )
    size = k / (1 / sizes).sum()  # harmonic mean: unweighted means, Thomas and Hultquist 1978
    between = means.var(ddof=1)
    within = ((d - means[turn]) ** 2).sum()
    free = n - k
    rng = np.random.default_rng(seed)
    drawn = (k - 1) * between / rng.chisquare(k - 1, draws) - within / size / rng.chisquare(
        free, draws
    )
    drawn = np.sqrt(np.maximum(drawn, 0) / 2)
    f = between * size / (within / free)
    lo, hi, upper = np.quantile(drawn, (0.025, 0.975, 0.95))
    return {
        "blocks": k, "pairs": n,
        "mean_pct": _pct(float(means.mean())),
        "pair_sd_pct": 100 * math.sqrt(within / free),
        "block_sd_pct": 100 * math.sqrt(between),
        "cv_pct": 100 * math.sqrt(max(between - within / free / size, 0) / 2),
        "lo_pct": 100 * lo, "hi_pct": 100 * hi, "upper_pct": 100 * upper, "df": k - 1,
        "p": float(scipy_stats.f.sf(f, k - 1, free)),
    }  # fmt: skip


def components(aa):
    """`start_to_start` of every judged metric of an A/A campaign, a row each."""
    rows = [{"metric": m} | start_to_start(*_pairs(aa, m)) for m in _judged(aa)]
    return pd.DataFrame(rows)


def floor(aa):
    """The default floor: {"source", metric: {"cv_pct", "df", "estimate_pct", "lo_pct", "hi_pct"}}.

    cv_pct is the upper 95 % bound, so that a floor measured too small is the exception; a tail
    latency, whose own scatter can hide it, is never taken for steadier than the throughput."""
    out = {
        "source": f"campaign {aa.folder.name}: two identical servers ({aa.meta['engine']['label']}), "
        "both restarted and data directories dealt anew before every block; upper 95 % bound of "
        "the variance between starts beyond what the pairs explain"
    }
    rows = {r["metric"]: r for r in components(aa).to_dict("records")}
    least = rows["tps"]["upper_pct"]
    for row in rows.values():
        tail = row["metric"].startswith("p9")
        out[row["metric"]] = {
            "cv_pct": round(max(row["upper_pct"], least if tail else 0.0), 3),
            "df": row["df"],
            "estimate_pct": round(row["cv_pct"], 3),
            "lo_pct": round(row["lo_pct"], 3),
            "hi_pct": round(row["hi_pct"], 3),
        }
    if "p95" in out and "mean_latency" not in out:
        out["mean_latency"] = out["tps"]  # a closed loop: one measurement, two names
    return out


def write_floor(aa, file=FLOOR):
    """Write `floor(aa)` where `judge` and `compare` look for it."""
    Path(file).write_text(json.dumps(floor(aa), indent=2, ensure_ascii=False) + "\n")
    return Path(file)


def write_reach(decision, source, file=REACH):
    """Write what `decision` offers where a first look reads it: {"source", "reach": {metric: the
    largest honest overhead in percent}}."""
    offered = decision[decision["up_to_pct"] > 0].set_index("metric")["up_to_pct"].round(2)
    text = json.dumps({"source": source, "reach": offered.to_dict()}, indent=2)
    Path(file).write_text(text + "\n")
    return Path(file)


def alarms(aa, *, draws=DRAWS, seed=1):
    """False alarms of real A/A pairs made into many short campaigns: rows as `truth.rate`.

    Blocks are drawn with replacement and their arms dealt anew by coin, which is what the campaign
    itself did; judged at every look, with the block as the unit and, as a warning, with the pair."""
    rng = np.random.default_rng(seed)
    rows = []
    for metric in METRICS:
        table = _blocks(*_pairs(aa, metric))
        chosen = rng.integers(0, len(table), (draws, SHORT))
        signs = rng.integers(0, 2, (draws, SHORT, 1)) * 2 - 1
        d = (table[chosen] * signs).reshape(draws, -1)
        block = np.repeat(np.arange(SHORT), table.shape[1])
        for design, words in (("side by side", "the block"), ("switched", "the pair")):
            code = sequential.stop(
                sequential.decide(d, block, design=design, margin=_margin(aa))
                if design == "side by side"
                else sequential.codes(d, margin=_margin(aa))
            )[1]
            found = rate(f"A/A alarm, {words} as unit", metric, np.isin(code, (1, -1)).sum(), draws)
            rows.append(found | {"same": float((code == sequential.SAME).mean())})
    return pd.DataFrame(rows)


def windows(aa, blocks=10):
    """The A/A campaign cut into campaigns of consecutive blocks, as they were dealt: one row each,
    columns metric, from_block, pairs, overhead_pct, lo_pct, hi_pct, verdict."""
    rows = []
    for metric in _judged(aa):
        d, block = _pairs(aa, metric)
        for first in range(0, block.max() + 2 - blocks, blocks):
            part = (block >= first) & (block < first + blocks)
            o = paired.judge(d[part], block[part], design="side by side", margin=_margin(aa))
            rows.append((metric, first, int(part.sum()), *map(_pct, (o.estimate, o.lo, o.hi)), o.verdict))  # fmt: skip
    columns = ["metric", "from_block", "pairs", "overhead_pct", "lo_pct", "hi_pct", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def machine_time(aa, *, draws=2000, blocks=60, seed=1):
    """Measured machine time to a verdict on the real A/A noise, at a truth of 0 and of the margin,
    against ten and ten runs of five minutes: rows metric, truth_pct, right (share with the right
    verdict), wrong, minutes (mean), saved_pct."""
    rng = np.random.default_rng(seed)
    margin, rows = _margin(aa), []
    slices = aa.runs.loc[~aa.runs["warmup"], "slice_s"].median()
    for metric in METRICS:
        d, block = _pairs(aa, metric)
        table = _blocks(d - paired.centre(d), block)
        size = table.shape[1]
        for truth, right in ((0.0, sequential.SAME), (margin, sequential.SLOWER)):
            signs = rng.integers(0, 2, (draws, blocks, 1)) * 2 - 1
            drawn = table[rng.integers(0, len(table), (draws, blocks))] * signs
            looks, code = sequential.stop(
                sequential.decide(
                    truth + drawn.reshape(draws, -1), np.repeat(np.arange(blocks), size),
                    design="side by side", margin=margin,
                )
            )  # fmt: skip
            wrong = np.isin(code, (1, -1)) if truth == 0 else np.isin(code, (-1, 2))
            minutes = looks.mean() * 2 * slices / 60
            rows.append(
                {
                    "metric": metric, "truth_pct": _pct(truth), "right": (code == right).mean(),
                    "wrong": wrong.mean(), "pairs": looks.mean(), "minutes": minutes,
                    "saved_pct": 100 * (1 - minutes / REFERENCE_MIN),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def truths(heavy):
    """The true overhead of every round of hashing, from the heaviest arm of a switched campaign:
    {metric: (ratio less one of the heaviest arm, its standard error, its rounds)}.

    A transaction's time and its CPU time grow by a fixed amount a round, so the ratio less one of
    any arm is its share of the heaviest one's."""
    arm = max(heavy.study.arms, key=_rounds)
    out = {}
    for metric in METRICS:
        d, _ = _pairs(heavy, metric, arm.name)
        ratio = math.expm1(paired.centre(d))
        out[metric] = (
            ratio,
            (1 + ratio) * float(np.std(d, ddof=1)) / math.sqrt(len(d)),
            _rounds(arm),
        )
    return out


def injected(campaign, known, *, heaviest=False):
    """Known slowdowns against what the campaign found: one row an arm and metric, columns design,
    arm, metric, pairs, truth_pct, truth_se_pct, overhead_pct, lo_pct, hi_pct, verdict, held,
    bias_pct, bias_lo_pct, bias_hi_pct.

    known: `truths`. The heaviest arm of the campaign that the truth comes from proves nothing and
    is left out unless asked for. The bias has a 95 % interval by Student's t that knows the error
    of the truth as well; where two servers are measured its unit is the block."""
    rows = []
    verdicts = campaign.verdicts.set_index(["metric", "arm"])
    for arm in campaign.study.arms:
        for metric, (ratio, se, rounds) in known.items():
            if _rounds(arm) == rounds and not heaviest:
                continue
            share = _rounds(arm) / rounds
            truth, truth_se = math.log1p(ratio * share), se * share / (1 + ratio * share)
            d, block = _pairs(campaign, metric, arm.name)
            units = d if campaign.study.design == "switched" else sequential.means(d, block)
            if len(units) < 2:
                continue
            row = verdicts.loc[(metric, arm.name)]
            estimate = paired.centre(units)
            error = math.hypot(np.std(units, ddof=1) / math.sqrt(len(units)), truth_se)
            half = plan.t_quantile(0.975, len(units) - 1) * error
            bias = estimate - truth
            rows.append(
                {
                    "design": campaign.study.design, "arm": arm.name, "metric": metric,
                    "pairs": len(d), "truth_pct": _pct(truth), "truth_se_pct": 100 * truth_se,
                    **{c: row[c] for c in ("overhead_pct", "lo_pct", "hi_pct", "verdict")},
                    # no bound yet: nothing is excluded
                    "held": not (row["lo_pct"] > _pct(truth) or row["hi_pct"] < _pct(truth)),
                    "bias_pct": 100 * bias, "bias_lo_pct": 100 * (bias - half),
                    "bias_hi_pct": 100 * (bias + half),
                }
            )  # fmt: skip
    columns = [
        "design", "arm", "metric", "pairs", "truth_pct", "truth_se_pct", "overhead_pct", "lo_pct",
        "hi_pct", "verdict", "held", "bias_pct", "bias_lo_pct", "bias_hi_pct",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns).sort_values(
        ["metric", "truth_pct"], ascending=[False, True], ignore_index=True
    )


def power(campaign, known, *, draws=2000, pairs=synthetic.PAIRS, seed=1):
    """How often the pairs of each arm, drawn again as campaigns of up to `pairs` pairs, end in each
    verdict: columns arm, metric, truth_pct, slower, faster, same, cannot_tell, pairs."""
    rng = np.random.default_rng(seed)
    rows = []
    for arm in campaign.study.arms:
        for metric, (ratio, _, rounds) in known.items():
            d, _ = _pairs(campaign, metric, arm.name)
            drawn = d[rng.integers(0, len(d), (draws, pairs))]
            looks, code = sequential.stop(sequential.codes(drawn, margin=_margin(campaign)))
            ends = {
                w.replace(" ", "_"): float((code == c).mean()) for c, w in sequential.WORDS.items()
            }
            truth = 100 * ratio * _rounds(arm) / rounds
            rows.append({"arm": arm.name, "metric": metric, "truth_pct": truth} | ends | {"pairs": float(looks.mean())})  # fmt: skip
    return pd.DataFrame(rows)


def designs(campaigns, lightest_pct=10.0):
    """Information a minute of each design: rows design, metric, pairs, blocks, pair_sd_pct,
    seconds_a_pair, information, against_side_by_side, lo, hi.

    information is 1 / (variance of a pair, in percent squared, times minutes a pair), restarts
    counted. Pairs of arms up to `lightest_pct` are pooled around their own means; where two servers
    are measured the scatter between blocks counts (variance of block means times pairs a block).
    The interval of the ratio is that of two variances (F)."""
    rows = []
    for r in campaigns:
        spans = _seconds(r)
        for metric in METRICS:
            variance, sd, free, pairs, blocks = _pooled(r, metric, lightest_pct)
            seconds = spans / r.tidy.loc[~r.tidy["warmup"], "pair_id"].nunique()
            rows.append(
                {
                    "design": r.study.design, "metric": metric, "pairs": pairs, "blocks": blocks,
                    "pair_sd_pct": 100 * sd, "seconds_a_pair": seconds,
                    "information": 1 / (1e4 * variance * seconds / 60), "df": free,
                }
            )  # fmt: skip
    out = pd.DataFrame(rows)
    base = out[out["design"] == "side by side"].set_index("metric")
    if len(base):
        ratio = out["information"] / out["metric"].map(base["information"])
        df = out["metric"].map(base["df"])
        own = out["design"] == "side by side"
        out["against_side_by_side"] = ratio
        out["lo"] = np.where(own, np.nan, ratio * scipy_stats.f.ppf(0.025, out["df"], df))
        out["hi"] = np.where(own, np.nan, ratio * scipy_stats.f.ppf(0.975, out["df"], df))
    return out


def decision(duet, compared, margin_pct):
    """Where duet is offered: one row a metric, columns metric, answer, up_to_pct, why.

    duet: rows of `injected` of the duet campaign, its heaviest arm included; compared: `designs`.
    Honest up to an effect: the interval of the bias lies within ± margin there and at all smaller
    tested effects. It is offered where that holds for at least one effect and a minute of it tells
    more than a minute side by side; else refused."""
    rows = []
    for metric, part in duet.sort_values("truth_pct").groupby("metric", sort=False):
        inside = (part["bias_lo_pct"] > -margin_pct) & (part["bias_hi_pct"] < margin_pct)
        honest = part[inside.cumprod().astype(bool)]
        gain = compared[(compared["design"] == "duet") & (compared["metric"] == metric)]
        times = float(gain["against_side_by_side"].iloc[0]) if "against_side_by_side" in gain else math.nan  # fmt: skip
        reach = float(honest["truth_pct"].max()) if len(honest) else 0.0
        worst = part.loc[part["bias_pct"].abs().idxmax()]
        offered = reach > 0 and not times < 1
        says = (
            f"bias {_signed(worst['bias_pct'])} % ({_signed(worst['bias_lo_pct'])} to "
            f"{_signed(worst['bias_hi_pct'])} %) at a true {worst['truth_pct']:.1f} %"
        )
        more = "" if math.isnan(times) else f"; {times:.1f} times the information a minute of side by side"  # fmt: skip
        rows.append(
            {
                "metric": metric,
                "answer": f"offered as a first look, for overheads up to {reach:.1f} %"
                if offered
                else "refused",
                "up_to_pct": reach if offered else 0.0,
                "why": says + more,
            }
        )
    return pd.DataFrame(rows, columns=["metric", "answer", "up_to_pct", "why"])


def _pairs(r, metric, arm=""):
    """(log overheads, block) of one comparison, in the order of measuring."""
    found = r.pairs(r.main, metric, arm).sort_values("pair")
    return found["overhead"].to_numpy(float), found["block"].to_numpy(int)


def _judged(r):
    """The metrics of a campaign that are judged and were measured."""
    measured = set(r.tidy["metric"])
    return [m for m in r.study.workloads[0].metrics if m in measured]


def _blocks(d, block):
    """[blocks, pairs]: the blocks that have as many pairs as most, cut to that many."""
    sizes = np.bincount(block)
    size = int(np.median(sizes[sizes > 0]))
    return np.stack([d[block == b][:size] for b in np.flatnonzero(sizes >= size)])


def _pooled(r, metric, lightest_pct):
    """(variance of a pair, pair sd, degrees of freedom, pairs, blocks), arms around their means."""
    whole, squares, free, each = [], 0.0, 0, []
    blocks = set()
    for arm in r.study.arms:
        if _nominal(arm) > lightest_pct:
            continue
        d, block = _pairs(r, metric, arm.name)
        if len(d) < 2:
            continue
        squares, free = squares + ((d - d.mean()) ** 2).sum(), free + len(d) - 1
        blocks |= set(block)
        units = sequential.means(d, block)
        if len(units) > 1:
            whole.append((units - units.mean(), len(d) / len(units)))
        each.append(len(d))
    sd = math.sqrt(squares / free)
    if r.study.design == "switched" or not whole:
        return sd**2, sd, free, sum(each), len(blocks)
    between = sum((u**2).sum() * size for u, size in whole)
    degrees = sum(len(u) - 1 for u, _ in whole)
    return between / degrees, sd, degrees, sum(each), len(blocks)


def _seconds(r):
    """How long a campaign took from its first judged run to its last, restarts included and
    interruptions left out."""
    runs = r.runs[~r.runs["warmup"]]
    start = pd.to_datetime(runs["start"], format="ISO8601").sort_values()
    gaps = start.diff().dt.total_seconds().dropna()
    return float(gaps.clip(upper=LONGEST_GAP_S).sum() + runs["slice_s"].iloc[-1])


def _rounds(arm):
    return next((int(o.split("=")[1]) for o in arm.options if o.startswith("--work=")), 0)


def _nominal(arm):
    """The slowdown in an arm's name, in percent; 0 for an arm without one."""
    return float(arm.name.strip("+ %")) if arm.name.endswith("%") else 0.0


def _margin(r):
    return math.log1p(r.study.margin_pct / 100)


def _pct(log):
    return 100 * math.expm1(log)


def _signed(value):
    return f"{value:+.1f}".replace("-", "−")
