"""From the tidy table to the verdict table: pairs, blocks, thread counts and their joint rows."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from noisefloor.model import CONTROL_SUFFIX as CONTROL
from noisefloor.model import METRICS, QUANTILES, Comparison
from noisefloor.model import metric as metric_of
from noisefloor.stats import plan, rule, runs, scatter, verdict
from noisefloor.stats.row import COLUMNS, KEY, as_dict, row
from noisefloor.stats.runs import BUCKET, Side
from noisefloor.stats.scatter import Floor
from noisefloor.stats.verdict import CANNOT_TELL
from noisefloor.text.reasons import Reason, Why

UNKNOWN = "unknown"  # design of pairs from elsewhere
JOINT = "joint"  # in the place of a thread count


@dataclass(frozen=True)
class Asked:
    """How a tidy table is to be judged: what `table` takes beside it."""

    margin_pct: float = 0.0  # 0: each metric's own
    quick: bool = False  # its wider one
    blocks: int | None = None  # declared before the campaign, for each arm; None: nothing was
    control: int | None = None  # blocks declared for the copy of the baseline; None: as `blocks`
    baseline: str | None = None
    design: str = UNKNOWN
    floor: Floor = None  # start-to-start CV in percent, or entries by metric
    local: bool = True  # without `floor`: this machine's scatter of starts, where it is known
    restarts: bool = False  # every run had a start of its own
    one_start: str = ""  # if no server was ever restarted: source of the added scatter, in words
    series: Mapping[str, Any] | None = None  # {run: values per second}, for one run an arm
    pair_seconds: float | None = None  # what one pair takes
    # workload -> comparisons at other rates; its intervals hold at 95 % together with theirs
    beside: Mapping[str, int] = field(default_factory=dict)

    def margin(self, metric: str) -> float:
        """The margin of a metric in percent."""
        known = metric_of(metric)
        return self.margin_pct or (known.quick_pct if self.quick else known.margin_pct)


def baseline_of(tidy: pd.DataFrame, baseline: str | None = None) -> str:
    """Name of the baseline arm: the one given, the arm that has a control copy, or the one in
    every pair. Raises ValueError if none is."""
    arms = list(dict.fromkeys(tidy["arm"]))
    listed = ", ".join(map(str, arms)) or "none"
    if baseline:
        if baseline not in arms:
            raise ValueError(
                f"baseline {baseline!r} is not an arm of this table (its arms: {listed}); "
                "nothing was judged"
            )
        return baseline
    copied = [a for a in arms if f"{a}{CONTROL}" in arms]
    if len(copied) == 1:
        return copied[0]
    if "pair_id" in tidy and tidy["pair_id"].notna().any():
        pairs_of = tidy.dropna(subset=["pair_id"]).groupby("arm")["pair_id"].nunique()
        everywhere = pairs_of[pairs_of == tidy["pair_id"].nunique()].index.tolist()
        if len(everywhere) == 1:
            return everywhere[0]
    raise ValueError(
        f"which arm is the baseline: {listed}? Name it (baseline=); nothing was judged"
    )


def pairs(tidy: pd.DataFrame, *, baseline: str | None = None) -> pd.DataFrame:
    """One row a pair: study workload threads metric baseline arm block pair change.

    `change` is the log ratio of the arm's value over the baseline's, in the metric's own sign.
    Warm-up runs, metrics that are shown and never judged, half pairs, and pairs with a value that
    has no logarithm (zero, negative, missing) are left out."""
    return _pairs(tidy, baseline_of(tidy, baseline))[0]


def _pairs(tidy: pd.DataFrame, baseline: str | None) -> tuple[pd.DataFrame, Counter[Any]]:
    """`pairs`, and how many have no logarithm, by (study, workload, metric, arm, threads)."""
    kept = _kept(tidy)
    kept = kept[kept["pair_id"].notna()]
    key = ["study", "campaign", "workload", "threads", "metric", "pair_id"]
    key = [k for k in key if k in kept]  # a pair's name is unique within its campaign only
    both = kept.loc[kept["arm"] != baseline, [*key, "arm", "block", "pair", "value"]].merge(
        kept.loc[kept["arm"] == baseline, [*key, "value"]], on=key, suffixes=("", "_baseline")
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.log(both["value"].to_numpy(float) / both["value_baseline"].to_numpy(float))
    both = both.assign(change=ratio, baseline=baseline)
    finite = np.isfinite(both["change"])
    gone = both.loc[~finite, [*KEY[:3], "arm", "threads"]].itertuples(index=False, name=None)
    dropped = Counter((*of, None if pd.isna(t) else int(t)) for *of, t in gone)
    columns = ["study", "workload", "threads", "metric", "baseline", "arm", "block", "pair"]
    out = both.loc[finite, [*columns, "change"]].sort_values(
        ["study", "workload", "metric", "arm", "threads", "pair"], ignore_index=True
    )
    return out, dropped


def table(tidy: pd.DataFrame, **given: Any) -> pd.DataFrame:
    """The verdict table: a row for each comparison, and a joint row for each arm whose thread counts
    do not differ.

    given: fields of Asked. Workloads with pairs are judged by `rule`, those without by `runs`.
    Raises ValueError: no row, no baseline, or (without pairs) a value that has no logarithm."""
    asked = Asked(**given)
    if tidy.empty:
        raise ValueError("the table has no rows; at least one run per arm is needed")
    asked = replace(asked, baseline=baseline_of(tidy, asked.baseline))
    names = tidy.loc[tidy["pair_id"].notna(), "workload"] if "pair_id" in tidy else ()
    paired = tidy["workload"].isin(names)
    parts = ((tidy[paired], _paired), (tidy[~paired], _unpaired))
    judged = (one for part, judge in parts if len(part) for one in judge(part, asked))
    out = pd.DataFrame(map(as_dict, judged), columns=COLUMNS)
    out["threads"] = out["threads"].astype("Int64")
    return out


def block_means(frame: pd.DataFrame) -> pd.DataFrame:
    """The blocks of one comparison's rows of `pairs`: columns mean (log ratio) and size (pairs),
    by block. The last block is left out if it was not finished: if fewer of its pairs were measured
    than of the first, by the numbers of the pairs, which count those left out, too."""
    each = frame.groupby("block", sort=True)["change"].agg(["mean", "size"])
    if len(each) > 1 and each["size"].iloc[-1] < each["size"].iloc[0]:
        ends = frame.groupby("block")["pair"].max()
        if ends.iloc[-1] - ends.iloc[-2] < ends.iloc[0] - frame["pair"].min() + 1:
            return each.iloc[:-1]
    return each


def _kept(tidy: pd.DataFrame) -> pd.DataFrame:
    """Rows that are judged: no warm-ups, and no metrics that are shown and never judged."""
    judged = tidy["metric"].map(lambda m: m not in METRICS or METRICS[m].judged).astype(bool)
    return tidy[judged & ~tidy["warmup"].astype(bool)] if "warmup" in tidy else tidy[judged]


# -- pairs ------------------------------------------------------------------------------------------


def _paired(tidy: pd.DataFrame, asked: Asked) -> Iterator[Comparison]:
    """Verdict rows of paired runs: of the arms together, and of the baseline's copy by itself."""
    frame, lost = _pairs(tidy, asked.baseline)
    groups: Any = frame.groupby(list(KEY[:4]), sort=False)
    for key, rows in groups:
        copy = rows["arm"] == f"{key[3]}{CONTROL}"
        for mine, blocks in (
            (rows[~copy], asked.blocks),
            (rows[copy], asked.control or asked.blocks),
        ):
            if len(mine):
                yield from _together(mine, key, blocks, asked, lost)


def _together(
    rows: pd.DataFrame,
    key: tuple[str, str, str, str],
    blocks: int | None,
    asked: Asked,
    lost: Counter[Any],
) -> Iterator[Comparison]:
    """Verdict rows of comparisons whose intervals all contain the truth in 95 % of campaigns.
    blocks: declared; lost: pairs that were left out, as `_pairs` counts them."""
    metric, margin_pct = key[2], asked.margin(key[2])
    margin, planned = math.log1p(margin_pct / 100), asked.design != UNKNOWN
    one = not planned and rows["block"].nunique() == 1  # each pair is then a block of its own
    needs = bool(asked.one_start) or (one and not asked.restarts)
    start = scatter.start_scatter(metric, asked.floor, asked.local) if needs else None
    of_all = list[Reason]()
    if start and asked.one_start:
        of_all.append(Reason(Why.NEVER_RESTARTED, cv_pct=100 * start.cv, source=asked.one_start))
    elif start:
        of_all.append(Reason(Why.ONE_START, cv_pct=100 * start.cv))
    rows = rows.assign(block=np.arange(len(rows))) if one else rows
    groups: Any = rows.groupby(["arm", "threads"], sort=False, dropna=False)
    cells = {(arm, None if pd.isna(t) else int(t)): block_means(part) for (arm, t), part in groups}
    arms = list(dict.fromkeys(arm for arm, _ in cells))
    # the variance that sysbench's histogram adds to the mean of percentiles
    bucket = BUCKET**2 / 6 if metric in QUANTILES else 0.0
    rounding = {name: bucket / max(each["size"].sum(), 1) for name, each in cells.items()}

    def judged(arm: str, count: Any, each: pd.DataFrame, together: int, known: float) -> Comparison:
        """The row of one comparison or joint effect."""
        n = round(each["size"].sum())
        means, part = each["mean"].to_numpy(float), start.part if start else None
        logs = at_least(metric, *map(float, rule.block_interval(means, together, part, known)))
        word = verdict.word(*logs[1:], margin, metric)  # `cannot tell` of one block
        notes = [*of_all]
        if planned and len(each) < (blocks or 0):
            notes.append(Reason(Why.ENDED_EARLY, blocks=len(each), declared=blocks))
        of = [t for a, t in cells if a == arm] if count == JOINT else [count]
        if left_out := sum(lost[(*key[:3], arm, t)] for t in of):
            notes.append(Reason(Why.PAIRS_LEFT_OUT, pairs=left_out))
        if len(each) < 2:
            notes.append(Reason(Why.ONE_BLOCK))
        needed = n if word != CANNOT_TELL else _needed(each, logs[0], margin, together)
        return row(
            (*key, arm),
            (n, n),
            logs,
            margin_pct=margin_pct,
            verdict=word,
            needed=needed,
            # a percentile at a rate has one value a block
            seconds=None if metric in QUANTILES and key[1] in asked.beside else asked.pair_seconds,
            warnings=notes,
            together=together,
            threads=None if count == JOINT else count,
            joint=count == JOINT,
            blocks=len(each),
            design=asked.design,
        )

    many = len(cells) + (0 if arms[0].endswith(CONTROL) else asked.beside.get(key[1], 0))
    made = {name: judged(*name, cells[name], many, rounding[name]) for name in cells}
    coded = {verdict.SAME: 2, CANNOT_TELL: 0, metric_of(metric).larger: 1}  # of `rule`; smaller: -1
    for arm in arms:
        at = {t: cells[arm, t] for a, t in cells if a == arm}
        mine = [made[arm, t] for t in sorted(at, key=lambda t: t or 0)]
        whole = pd.DataFrame({t: each["mean"] for t, each in at.items()}).dropna()
        if len(at) > 1 and len(whole) > 1:  # blocks with every thread count
            codes = [coded.get(one.verdict, -1) for one in mine]
            if bool(rule.joint(whole.to_numpy(float).T, codes)):
                size = sum(each["size"].mean() for each in at.values())
                each = pd.DataFrame({"mean": whole.mean(axis=1), "size": size})
                rounded = sum(rounding[arm, t] for t in at) / len(at) ** 2
                mine.append(judged(arm, JOINT, each, len(arms), rounded))
            else:
                why = Reason(Why.COUNTS_DIFFER)
                mine = [replace(one, warnings=(*one.warnings, why)) for one in mine]
        yield from mine


def at_least(metric: str, mean: float, lo: float, hi: float) -> tuple[float, float, float]:
    """(mean, lo, hi), log scale; of a percentile with at least half a histogram bucket a side."""
    if metric in QUANTILES:
        lo, hi = min(lo, mean - BUCKET / 2), max(hi, mean + BUCKET / 2)
    return mean, lo, hi


def _needed(each: pd.DataFrame, value: float, margin: float, together: int) -> int | None:
    """Pairs in all with which 80 % of campaigns would get a word, if these blocks are typical."""
    sd = float(each["mean"].std()) if len(each) > 1 else math.nan
    if not sd > 0:
        return None
    least = len(each) + 1
    blocks = plan.units_needed(value, sd, margin, least=least, together=together)
    return math.ceil(blocks * each["size"].mean()) if blocks else None


# -- runs without pairs -----------------------------------------------------------------------------


def _unpaired(tidy: pd.DataFrame, asked: Asked) -> Iterator[Comparison]:
    """Verdict rows of runs without pairs. In plain dicts: the groups are small and many."""
    columns = [*KEY[:3], "arm", "threads", "value", "run", "duration_s"]
    kept = _kept(tidy).reindex(columns=columns).dropna(subset=columns[:4])
    kept = kept.astype({"duration_s": float})
    works: dict[Any, dict[Any, dict[Any, list[Any]]]] = {}
    for *key, arm, threads, value, run, span in kept.itertuples(index=False, name=None):
        arms = works.setdefault(tuple(key), {})
        count = None if pd.isna(threads) else int(threads)
        arms.setdefault(arm, {}).setdefault(count, []).append((value, run, span))

    def side(many: Sequence[Any], metric: str) -> Side:
        """The runs of one arm at one thread count; values per second only for throughput."""
        alone = len(many) == 1 and not metric_of(metric).worse_up
        rates = (asked.series or {}).get(many[0][1]) if alone else None
        return Side(tuple(v for v, *_ in many), rates)

    for (study, workload, metric), arms in works.items():
        first = arms.pop(asked.baseline, {})
        for arm, mine in arms.items():  # each is judged by itself, as two folders of logs are
            common = sorted((t for t in mine if t in first), key=lambda t: t or 0)
            spans = [span for t in common for *_, span in (*first[t], *mine[t]) if span > 0]
            yield from runs.judge_runs(
                {arm: {t: (side(first[t], metric), side(mine[t], metric)) for t in common}},
                metric=metric,
                baseline=str(asked.baseline),
                study=study,
                workload=workload,
                margin_pct=asked.margin_pct,
                quick=asked.quick,
                restarts=asked.restarts,
                floor=asked.floor,
                local=asked.local,
                seconds=max(spans, default=None),
            )
