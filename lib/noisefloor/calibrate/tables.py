"""Tables of the scatter in recorded campaigns, for later ones: between pairs, starts and sittings.

Works on opened campaigns (`results.load`)."""

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import optimize
from scipy import stats as scipy_stats

from noisefloor import schedule, stats
from noisefloor.calibrate import heldout, live
from noisefloor.data.results import PROCESSOR, Results, main_workload
from noisefloor.measure.folder import write_json
from noisefloor.model import QUANTILES
from noisefloor.stats import combine

WHOLE = 12  # fewest blocks of an A/A campaign that measures a machine
PAIRS = 10  # fewest pairs that give a scatter
FREE = 4  # fewest degrees of freedom inside blocks that give the scatter of pairs (`_around`)

Squares = tuple[int, float, float, int]  # what `squares` makes of a campaign


def write_tables(opened: Sequence[Results], folder: Path, *, machine: bool = False) -> None:
    """Write the scatter of campaigns into `folder`: ``noise.json``, ``floor.json``, ``levels.json``,
    ``tau.json`` and ``recovered.json``. machine: all campaigns are from one machine, without repeats;
    the last two files, and the pilot's windows at a rate, are then left out.

    Raises TooShort without an A/A campaign, and for a machine also if one has fewer than WHOLE blocks,
    because its scatter would decide later verdicts."""
    aa = live.asks(opened, "aa")
    if not aa:
        raise live.TooShort(live.NONE.format("of two identical servers"))
    for r in aa if machine else ():
        if (n := r.pairs(main_workload(r), live.CPU)["block"].nunique()) < WHOLE:
            raise live.TooShort(f"{r.folder.name} has {n} blocks of {WHOLE}: nothing is written")
    tables = {"noise": noise(opened), "floor": floor(*aa), "levels": floor(*aa, levels=True)}
    if not machine:
        pilot = tomllib.loads(Path(__file__).with_name("pilot.toml").read_text(encoding="utf-8"))
        for name, known in pilot.items():
            measured = tables["noise"].get(name, {})
            source = f"recorded; else {known['source']}" if measured else known["source"]
            tables["noise"][name] = known | measured | {"source": source}
        tables |= {"tau": tau(opened), "recovered": live.recovered_share(opened)}
    for name, entries in tables.items():
        write_json(folder / f"{name}.json", entries)


def noise(opened: Sequence[Results]) -> dict[str, Any]:
    """The scatter of one pair by thread count: {"source", name: {metric: {threads: sd in percent}}},
    with the names of `schedule.kin`. It is taken around the means of blocks, which hold the effects of
    arms and starts. If blocks have too few pairs, it is taken around the mean of the campaign, for
    identical arms and at a rate only."""
    sums: dict[tuple[str, str, int], list[tuple[float, int]]] = {}
    counted = 0
    for r in opened:
        if r.judged().empty:
            continue
        counted += 1
        equal = {r.study.control.name}
        if r in live.asks([r], "aa", "switched"):
            equal |= {a.name for a in r.study.arms}
        pairs = stats.pairs(r.judged(), baseline=r.study.baseline.name)
        for (work, metric, threads), part in pairs.groupby(["workload", "metric", "threads"]):
            load = r.study.workload(work)
            if load.rate and metric in QUANTILES:  # one value a block, from all its windows
                beside = pairs[pairs["workload"].eq(work) & pairs["metric"].isin(PROCESSOR)]
                parts = [
                    _of_blocks(p, beside[beside["arm"].eq(arm)]) for arm, p in part.groupby("arm")
                ]
            else:
                rated = bool(load.rate)
                parts = [_around(p, rated or arm in equal) for arm, p in part.groupby("arm")]
            total, df = map(sum, zip(*parts, strict=True))
            if df < PAIRS - 1:
                continue
            for name in schedule.kin(r.study, load):
                sums.setdefault((name, metric, int(threads)), []).append((total, df))
    table: dict[str, Any] = {"source": f"pairs of {counted} campaigns"}
    for (workload, metric, threads), parts in sorted(sums.items()):
        total, df = map(sum, zip(*parts, strict=True))
        sd = round(100 * math.sqrt(total / df), 3)
        table.setdefault(workload, {}).setdefault(metric, {})[str(threads)] = sd
    return table


def _around(pairs: pd.DataFrame, whole: bool) -> tuple[float, int]:
    """(sum of squares, degrees of freedom) of the changes of an arm around the means of its blocks. If
    these hold too few pairs, and `whole`: around the mean of the campaign."""
    d, block = pairs["change"], pairs["block"]
    away, df = d - d.groupby(block).transform("mean"), len(d) - block.nunique()
    if df < FREE and whole:
        away, df = d - d.mean(), len(d) - 1
    return float((away**2).sum()), df


def _of_blocks(pooled: pd.DataFrame, windows: pd.DataFrame) -> tuple[float, int]:
    """(sum of squares, degrees of freedom) for one window of a metric that has one value a block. The
    value of a block scatters less than a window, by the root of the number of windows."""
    d, each = pooled["change"], len(windows) / max(1, windows["block"].nunique())
    return float(each * ((d - d.mean()) ** 2).sum()), len(d) - 1


def floor(*opened: Results, levels: bool = False) -> dict[str, Any]:
    """The start-to-start scatter of one server: {"source", metric: {"cv_pct", "upper_pct", "lo_pct",
    "hi_pct", "df"}}, from campaigns of two identical servers, by `beyond`. levels: that of the values
    of one of them instead of that of their ratio, so that changes of the machine count, too.

    cv_pct: the estimate, 0 where the pairs explain everything; upper_pct: its one-sided upper 95 %
    bound; df: the degrees of freedom that this bound implies, None for an estimate of 0."""
    labels = ", ".join(dict.fromkeys(r.meta["engine"]["label"] for r in opened))
    table: dict[str, Any] = {
        "source": f"{len(opened)} A/A campaigns of two identical servers ({labels}), started and their "
        "data directories assigned anew for every block"
    }
    metrics = dict.fromkeys(m for r in opened for m in r.study.workloads[0].metrics)
    for metric in metrics:
        there = (r for r in opened if len(r.judged(main_workload(r), metric)))
        if not (parts := [_of_starts(r, metric, levels) for r in there]):
            continue
        entry = beyond(parts)
        df = implied_df(entry["cv_pct"], entry["upper_pct"]) if entry["cv_pct"] else None
        both = entry | {"df": df}
        table[metric] = {k: v if v is None else round(v, 3) for k, v in both.items()}
    table.setdefault("mean_latency", table["tps"])  # a closed loop: one measurement, two names
    return table


def _of_starts(r: Results, metric: str, levels: bool) -> Squares:
    """The `squares` of a campaign. levels: scaled as those of a difference of two servers."""
    work = main_workload(r)
    rows = r.judged(work, metric) if levels else r.pairs(work, metric)
    if levels:
        rows = rows[rows["arm"].eq(r.study.baseline.name)]
        rows = rows.assign(change=math.sqrt(2) * np.log(rows["value"]))
    return squares(rows["change"], rows["block"], rows["threads"])


def squares(d: ArrayLike, block: ArrayLike, threads: ArrayLike) -> Squares:
    """A part of `beyond`: (blocks - 1, variance of block means, what the pairs explain of it, degrees of
    freedom inside blocks). Variances are means over thread counts. A start serves all thread counts, so
    blocks - 1 is that of one. Raises TooShort below two blocks of two pairs."""
    rows = pd.DataFrame({"d": np.asarray(d), "block": np.asarray(block), "t": np.asarray(threads)})
    of_threads = []
    for _, part in rows.groupby("t"):
        each = part.groupby("block")["d"].agg(["mean", "var", "size"])
        k, free = len(each), int((each["size"] - 1).sum())
        if k < 2 or free < 1:
            raise live.TooShort(
                f"{len(rows)} pairs in {k} blocks: at least 2 blocks of 2 pairs are needed for the "
                "scatter between starts; it is left out"
            )
        within = (each["var"] * (each["size"] - 1)).sum() / free
        size = k / (1 / each["size"]).sum()  # harmonic: unweighted means, Thomas and Hultquist 1978
        of_threads.append((k - 1, each["mean"].var(), within / size, free))
    _, between, share, _ = np.mean(of_threads, axis=0)
    return of_threads[0][0], between, share, sum(free for *_, free in of_threads)


def beyond(parts: Sequence[Squares], *, seed: int = 1, draws: int = 100_000) -> dict[str, float]:
    """The scatter of starts beyond that of pairs: {"cv_pct", "lo_pct", "hi_pct", "upper_pct"}, the last
    one one-sided, from a generalised 95 % interval (Weerahandi 1993) by simulation. It is that of one
    server, whose variance is half that of a difference.

    parts: `squares` of one or more campaigns. Variances are averaged with weights (blocks - 1, over the
    square of what pairs explain), then cut off at zero, so that negative estimates count, too."""
    k, between, share, free = map(np.array, zip(*parts, strict=True))
    weights = k / share**2
    weights /= weights.sum()
    rng = np.random.default_rng(seed)
    over = k * between / rng.chisquare(k, (draws, len(k)))
    drawn = (over - share * free / rng.chisquare(free, (draws, len(k)))) @ weights
    every = np.append(np.quantile(drawn, (0.025, 0.975, 0.95)), (between - share) @ weights)
    lo, hi, upper, cv = map(float, 100 * np.sqrt(np.maximum(every, 0) / 2))
    return {"cv_pct": cv, "lo_pct": lo, "hi_pct": hi, "upper_pct": upper}


def implied_df(estimate: float, upper: float) -> float:
    """The degrees of freedom with which a standard deviation has this one-sided upper 95 % bound:
    df * estimate**2 / chi2.ppf(0.05, df) = upper**2."""

    def gap(df: float) -> float:
        return df / scipy_stats.chi2.ppf(0.05, df) - (upper / estimate) ** 2

    return float(optimize.brentq(gap, 0.2, 1e6))


def tau(opened: Sequence[Results]) -> dict[str, Any]:
    """The scatter between sittings: {"source", instrument: {metric: {"value" (log scale), "df",
    "questions" (that have repeats), "sittings" (of those)}}}, however few they are: `question.tau`
    uses it from combine.QUESTIONS on."""
    every = heldout.comparisons(opened)
    campaigns = sum(1 for r in opened if len(r.judged()))
    table: dict[str, Any] = {"source": f"{campaigns} campaigns"}
    for instrument, metric in sorted({(c.instrument, c.metric) for c in every}):
        repeated = [c.sittings for c in heldout.repeated(every, instrument, metric)]
        if scatter := combine.estimate_tau(repeated):
            table.setdefault(instrument, {})[metric] = {
                "value": round(scatter.value, 6),
                "df": round(scatter.df, 2),
                "questions": scatter.questions,
                "sittings": sum(map(len, repeated)),
            }
    return table
