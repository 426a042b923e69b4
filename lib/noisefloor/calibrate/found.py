"""What later campaigns read: the scatter from start to start and of a pair, and what a duet may say.

Works on opened campaigns (`results.load`)."""

import json
import math
from pathlib import Path

from scipy import optimize
from scipy import stats as scipy_stats

from noisefloor import paths, schedule, stats
from noisefloor.calibrate import live
from noisefloor.data import results
from noisefloor.stats import honest

PAIRS = 10  # without which a scatter is known too badly to weight by
FREE = 4  # degrees of freedom inside blocks, before they stand for it


def write_found(opened, folder):
    """Write what campaigns {question: Results} say of their machine: ``floor.json``, ``noise.json`` and
    ``duet.json``. Raises TooShort for fewer than WHOLE blocks: they would decide what later ones say."""
    for r in opened.values():
        if (n := len(live.blocks(r, r.main, live.CPU))) < live.WHOLE:
            raise live.TooShort(
                f"{r.folder.name} has {n} whole blocks of {live.WHOLE}: nothing is written"
            )
    equal = [opened[q].folder for q in ("aa", "switched", "processor")]
    for name, entries in (("floor", floor(opened["aa"])), ("noise", noise(equal))):
        text = json.dumps(entries, indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n")
    honest.write(live.allowed(opened["injected"]), folder / "duet.json")


def floor(*opened):
    """The start-to-start floor: {"source", metric: {"cv_pct", "upper_pct", "lo_pct", "hi_pct", "df"}}.

    opened: campaigns of two identical servers in turn, `live.pooled`.
    cv_pct: the estimate, 0 where the pairs explain everything; upper_pct: its one-sided upper 95 %
    bound; df: the degrees of freedom that the bounds imply, None for an estimate of 0."""
    names, labels = (
        ", ".join(dict.fromkeys(found))
        for found in zip(*((r.folder.name, r.meta["engine"]["label"]) for r in opened), strict=True)
    )
    out = {
        "source": f"A/A campaigns {names}: two identical servers ({labels}), both restarted and data "
        "directories dealt anew before every block; estimate of the variance between starts beyond "
        "what the pairs explain"
    }
    for metric in dict.fromkeys(m for r in opened for m in live.judged(r)):
        entry = live.pooled(opened, metric)
        df = implied_df(entry["cv_pct"], entry["upper_pct"]) if entry["cv_pct"] else None
        out[metric] = {k: v if v is None else round(v, 3) for k, v in (entry | {"df": df}).items()}
    if "mean_latency" not in out:
        out["mean_latency"] = out["tps"]  # a closed loop: one measurement, two names
    return out


def implied_df(estimate, upper):
    """The degrees of freedom with which a standard deviation has this one-sided upper 95 % bound:
    df * estimate**2 / chi2.ppf(0.05, df) = upper**2."""

    def gap(df):
        return df / scipy_stats.chi2.ppf(0.05, df) - (upper / estimate) ** 2

    return float(optimize.brentq(gap, 0.2, 1e6))


def noise(folders=()):
    """What one levelled pair scatters, by thread count: {"source", name: {metric: {threads: sd in
    percent}}}, the names those of `schedule.kin`. folders: of campaigns (default: all recorded ones).
    Around the means of blocks, where neither an arm's effect nor a start's is left; of two identical
    arms whose blocks hold one pair, around the mean of the campaign."""
    folders = folders or sorted(p.parent for p in paths.recorded().glob("*/campaign.json"))
    sums, names = {}, []
    for folder in folders:
        r = results.load(folder)
        equal = {r.study.control.name}
        if r.study.name == "calibration" and r.study.key != "injected":
            equal |= {a.name for a in r.study.arms}
        found = stats.pairs(r.tidy, baseline=r.study.baseline.name, levelled=True)
        for (work, metric, threads), part in found.groupby(["workload", "metric", "threads"]):
            parts = [_around(p, arm in equal) for arm, p in part.groupby("arm")]
            total, df = map(sum, zip(*parts, strict=True))
            if df < PAIRS - 1:
                continue
            kin = schedule.kin(r.study, asked := r.study.workload(work))
            for name in kin[:1] if asked.at_once else kin:  # a duet stands for itself
                sums.setdefault((name, metric, int(threads)), []).append((total, df))
            names.append(Path(folder).name)
    out = {"source": "pairs of " + ", ".join(dict.fromkeys(names))}
    for (workload, metric, threads), parts in sorted(sums.items()):
        total, df = map(sum, zip(*parts, strict=True))
        sd = round(100 * math.sqrt(total / df), 3)
        out.setdefault(workload, {}).setdefault(metric, {})[str(threads)] = sd
    return out


def _around(pairs, equal):
    """(sum of squares, degrees of freedom) of the overheads of an arm around the means of its blocks;
    of an `equal` one whose blocks hold too few, around their mean."""
    d, block = pairs["overhead"], pairs["block"]
    middle, df = d.groupby(block).transform("mean"), len(d) - block.nunique()
    if df < FREE and equal:
        middle, df = d.mean(), len(d) - 1
    return float(((d - middle) ** 2).sum()), df
