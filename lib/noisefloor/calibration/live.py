"""What real campaigns say: two identical servers, known slowdowns, and three designs side by side.

Works on opened campaigns (`results.load`). Overheads are log ratios inside, percent in the tables.
"""

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import optimize
from scipy import stats as scipy_stats

from noisefloor import paths, results, stats
from noisefloor.calibration.truth import bounded
from noisefloor.stats import rule, synthetic

METRICS = ("tps", "cpu_per_transaction")
DRAWS = 10_000
SHORT = 12  # declared blocks of a resampled campaign
LONGEST_GAP_S = 120  # between two runs; a longer one was an interruption
PAIRS = 10  # without which a scatter is known too badly to weight by
FREE = 4  # degrees of freedom inside blocks, before they stand for it
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
    """`start_to_start` and `mixed` of every judged metric of an A/A campaign, a row each."""
    rows = []
    for metric in _judged(aa):
        d, block = _pairs(aa, metric)
        rows.append({"metric": metric} | start_to_start(d, block) | {"mixed_pct": mixed(d, block)})
    return pd.DataFrame(rows)


def mixed(d, block):
    """The same CV in percent by restricted maximum likelihood: a mixed model with a random effect of
    the block, fitted by statsmodels. A witness of `start_to_start`, which also has an interval."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    with warnings.catch_warnings():  # a variance at its edge, zero, is an answer
        warnings.simplefilter("ignore")
        fitted = MixedLM(100 * np.asarray(d, float), np.ones(len(d)), block).fit(reml=True)
    return math.sqrt(max(float(np.squeeze(fitted.cov_re)), 0.0) / 2)


def floor(aa):
    """The start-to-start floor: {"source", metric: {"cv_pct", "upper_pct", "df", "lo_pct", "hi_pct"}}.

    cv_pct: the estimate, 0 where the pairs explain everything; upper_pct: its one-sided upper 95 %
    bound; df: the degrees of freedom that this bound implies, None for an estimate of 0."""
    out = {
        "source": f"campaign {aa.folder.name}: two identical servers ({aa.meta['engine']['label']}), "
        "both restarted and data directories dealt anew before every block; estimate of the "
        "variance between starts beyond what the pairs explain"
    }
    for row in components(aa).to_dict("records"):
        entry = {k: round(row[k], 3) for k in ("cv_pct", "upper_pct")}
        df = implied_df(entry["cv_pct"], entry["upper_pct"])
        ends = {k: round(row[k], 3) for k in ("lo_pct", "hi_pct")}
        out[row["metric"]] = entry | {"df": df and round(df, 2)} | ends
    if "mean_latency" not in out:
        out["mean_latency"] = out["tps"]  # a closed loop: one measurement, two names
    return out


def implied_df(estimate, upper):
    """The degrees of freedom with which a standard deviation has this one-sided upper 95 % bound:
    df * estimate**2 / chi2.ppf(0.05, df) = upper**2. None for an estimate of 0."""
    if not estimate > 0:
        return None

    def gap(df):
        return df / scipy_stats.chi2.ppf(0.05, df) - (upper / estimate) ** 2

    return float(optimize.brentq(gap, 0.2, 1e6))


def write_floor(aa, file=FLOOR):
    """Write `floor(aa)` where `stats.scatter` looks for it."""
    Path(file).write_text(json.dumps(floor(aa), indent=2, ensure_ascii=False) + "\n")
    return Path(file)


def write_reach(decision, source, file=REACH):
    """Write what `decision` offers where a first look reads it: {"source", "reach": {metric: the
    largest honest overhead in percent}}."""
    offered = decision[decision["up_to_pct"] > 0].set_index("metric")["up_to_pct"].round(2)
    text = json.dumps({"source": source, "reach": offered.to_dict()}, indent=2)
    Path(file).write_text(text + "\n")
    return Path(file)


def noise(folders=(), file=None):
    """Write what one A/A pair scatters, by thread count: {"source", workload: {metric: {threads: sd
    in percent}}}; returns the file. It weights the joint effect of later campaigns.

    folders: of campaigns (default: all recorded ones). From their A/A controls and from two
    identical servers, PAIRS pairs or more: around the block means where blocks hold several pairs,
    else around the mean of the campaign."""
    folders = folders or sorted(p.parent for p in paths.recorded().glob("*/campaign.json"))
    squares, names = {}, []
    for folder in folders:
        r = results.load(folder)
        arms = {f"{r.study.baseline.name}{stats.verdicts.CONTROL}"}
        if r.study.name == "calibration-aa":
            arms |= {a.name for a in r.study.arms}
        found = stats.pairs(r.tidy, baseline=r.study.baseline.name)
        found = found[found["arm"].isin(arms)]
        for (*key, threads), part in found.groupby(["workload", "metric", "threads"]):
            if len(part) < PAIRS:
                continue
            around = part.groupby("block")["overhead"].transform("mean")
            df = len(part) - part["block"].nunique()
            if df < FREE:
                around, df = part["overhead"].mean(), len(part) - 1
            both = squares.setdefault((*key, int(threads)), [0.0, 0])
            both[0] += float(((part["overhead"] - around) ** 2).sum())
            both[1] += df
            names.append(Path(folder).name)
    out = {"source": "A/A controls of " + ", ".join(dict.fromkeys(names))}
    for (workload, metric, threads), (total, df) in sorted(squares.items()):
        sd = round(100 * math.sqrt(total / df), 3)
        out.setdefault(workload, {}).setdefault(metric, {})[str(threads)] = sd
    file = Path(file or paths.recorded_noise())
    file.write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")
    return file


def alarms(aa, *, draws=DRAWS, seed=1):
    """False alarms of real A/A blocks drawn again as campaigns of SHORT blocks: columns metric, unit,
    n, count, value, lo, hi, same.

    Their arms are dealt anew by fair coins over data that stays as it is: with the block as the unit
    that is a check of the code, exact by construction, and no measurement of this machine. With the
    pair as the unit it shows what the starts do."""
    rng = np.random.default_rng(seed)
    rows = []
    for metric in METRICS:
        table = _blocks(*_pairs(aa, metric))
        chosen = table[rng.integers(0, len(table), (draws, SHORT))]
        d = chosen * (rng.integers(0, 2, (draws, SHORT, 1)) * 2 - 1)
        for unit, units in (("block", d.mean(-1)), ("pair", d.reshape(draws, -1))):
            code = rule.decide(units, margin=_margin(aa))[1]
            found = bounded(np.isin(code, (1, -1)).sum(), draws)
            rows.append({"metric": metric, "unit": unit} | found | {"same": (code == 2).mean()})
    return pd.DataFrame(rows)


def windows(aa, blocks=10):
    """The A/A campaign cut into campaigns of consecutive blocks, as they were dealt: one row each,
    columns metric, from_block, blocks, overhead_pct, lo_pct, hi_pct, verdict."""
    rows = []
    for metric in _judged(aa):
        units = _units(aa, metric)
        for first in range(0, len(units) + 1 - blocks, blocks):
            part = np.arange(blocks), units[first : first + blocks]
            o = rule.family({("", 0): part}, blocks=blocks, margin=_margin(aa))["", 0]
            ends = map(_pct, (o.estimate, o.lo, o.hi))
            rows.append((metric, first, o.units, *ends, o.word))
    columns = ["metric", "from_block", "blocks", "overhead_pct", "lo_pct", "hi_pct", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def machine_time(aa, *, draws=2000, blocks=80, seed=1):
    """Measured machine time to a verdict on the real A/A noise, at a truth of 0 and of the margin,
    against ten and ten runs of five minutes: rows metric, truth_pct, right (share with the right
    verdict), wrong, pairs, minutes (means), saved_pct. blocks: declared."""
    rng = np.random.default_rng(seed)
    margin, rows = _margin(aa), []
    slices = aa.runs.loc[~aa.runs["warmup"], "slice_s"].median()
    for metric in METRICS:
        d, block = _pairs(aa, metric)
        table = _blocks(d - d.mean(), block)
        for truth, right in ((0.0, synthetic.WORDS["same"]), (margin, synthetic.WORDS["slower"])):
            signs = rng.integers(0, 2, (draws, blocks)) * 2 - 1
            drawn = table.mean(-1)[rng.integers(0, len(table), (draws, blocks))] * signs
            used, code = rule.decide(truth + drawn, margin=margin)
            wrong = np.isin(code, (1, -1)) if truth == 0 else np.isin(code, (-1, 2))
            pairs = used.mean() * table.shape[1]
            minutes = pairs * 2 * slices / 60
            rows.append(
                {
                    "metric": metric, "truth_pct": _pct(truth), "right": (code == right).mean(),
                    "wrong": wrong.mean(), "pairs": pairs, "minutes": minutes,
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
        m = rule.moments(_units(heavy, metric, arm.name))
        ratio = math.expm1(m.mean)
        out[metric] = ratio, (1 + ratio) * float(m.error), _rounds(arm)
    return out


def injected(campaign, known, *, heaviest=False):
    """Known slowdowns against what the campaign found: one row an arm and metric, columns design,
    arm, metric, pairs, truth_pct, truth_se_pct, overhead_pct, lo_pct, hi_pct, verdict, held,
    bias_pct, bias_lo_pct, bias_hi_pct.

    known: `truths`. The heaviest arm of the campaign that the truth comes from proves nothing and
    is left out unless asked for. The bias has a 95 % interval by Student's t that knows the error
    of the truth as well; its unit is the block."""
    rows = []
    verdicts = campaign.verdicts.set_index(["metric", "arm"])
    for arm in campaign.study.arms:
        for metric, (ratio, se, rounds) in known.items():
            if _rounds(arm) == rounds and not heaviest:
                continue
            share = _rounds(arm) / rounds
            truth, truth_se = math.log1p(ratio * share), se * share / (1 + ratio * share)
            m = rule.moments(_units(campaign, metric, arm.name))
            if not math.isfinite(m.error):
                continue
            row = verdicts.loc[(metric, arm.name)]
            estimate = float(m.mean)
            half = scipy_stats.t.ppf(0.975, m.df) * math.hypot(m.error, truth_se)
            bias = estimate - truth
            rows.append(
                {
                    "design": campaign.study.design, "arm": arm.name, "metric": metric,
                    "pairs": row["n_arm"], "truth_pct": _pct(truth), "truth_se_pct": 100 * truth_se,
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


def power(campaign, known, *, draws=2000, seed=1):
    """How often pairs of each arm, drawn again as campaigns of SHORT declared blocks of four, end in
    each verdict: columns arm, metric, truth_pct, slower, faster, same, cannot_tell, blocks."""
    rng, rows = np.random.default_rng(seed), []
    for arm in campaign.study.arms:
        for metric, (ratio, _, rounds) in known.items():
            d, _ = _pairs(campaign, metric, arm.name)
            drawn = d[rng.integers(0, len(d), (draws, SHORT, synthetic.PAIRS[SHORT]))].mean(-1)
            used, code = rule.decide(drawn, margin=_margin(campaign))
            ends = {w: float((code == c).mean()) for w, c in synthetic.WORDS.items()}
            truth = 100 * ratio * _rounds(arm) / rounds
            key = {"arm": arm.name, "metric": metric, "truth_pct": truth}
            rows.append(key | ends | {"blocks": float(used.mean())})
    return pd.DataFrame(rows)


def designs(campaigns, lightest_pct=10.0):
    """Information a minute of each design: rows design, metric, pairs, blocks, pair_sd_pct,
    seconds_a_pair, information, against_side_by_side, lo, hi.

    information is 1 / (variance of a pair, in percent squared, times minutes a pair), restarts
    counted: variance of block means times pairs a block, arms up to `lightest_pct` around their own
    means. The interval of the ratio is that of two variances (F)."""
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
        answer = (
            f"offered as a first look, for overheads up to {reach:.1f} %" if offered else "refused"
        )
        rows.append((metric, answer, reach if offered else 0.0, says + more))
    return pd.DataFrame(rows, columns=["metric", "answer", "up_to_pct", "why"])


def _pairs(r, metric, arm=""):
    """(log overheads, block) of one comparison, in the order of measuring."""
    found = r.pairs(r.main, metric, arm).sort_values("pair")
    return found["overhead"].to_numpy(float), found["block"].to_numpy(int)


def _units(r, metric, arm=""):
    """Mean of every block of one comparison, as the rule takes them."""
    return stats.units(r.pairs(r.main, metric, arm))[1]


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
    """(variance of a pair's share of a block mean, pair sd, degrees of freedom, pairs, blocks), arms
    around their means."""
    arms = [a.name for a in r.study.arms if _nominal(a) <= lightest_pct]
    found = [(_pairs(r, metric, a)[0], _units(r, metric, a)) for a in arms]
    found = [(d, units) for d, units in found if len(units) > 1]
    between = sum(((u - u.mean()) ** 2).sum() * len(d) / len(u) for d, u in found)
    squares = sum(((d - d.mean()) ** 2).sum() for d, _ in found)
    pairs, free = sum(len(d) for d, _ in found), sum(len(u) - 1 for _, u in found)
    blocks = len({b for a in arms for b in _pairs(r, metric, a)[1]})
    return between / free, math.sqrt(squares / (pairs - len(found))), free, pairs, blocks


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
