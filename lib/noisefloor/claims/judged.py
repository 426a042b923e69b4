"""The numbers of ``data/raw/published`` and the claims of ``claims.toml`` in one verdict table,
each judged by the controls of its source if there are any."""

import itertools
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from noisefloor import parse, paths
from noisefloor.claims import order as ordered
from noisefloor.model import Comparison
from noisefloor.model import metric as metric_of
from noisefloor.stats import estimate, row, runs, scatter, two
from noisefloor.stats.verdict import CANNOT_TELL
from noisefloor.text.reasons import Reason, Why

COLUMNS = [
    *row.COLUMNS,
    "key", "title", "claim_id", "label", "said", "claimed_pct", "limit", "from_threads", "to_threads",
    "not_comparable", "scatter_from", "why", "settle",
]  # fmt: skip
FACTS = [
    "source", "claim_id", "arm", "threads", "metric", "value", "unit", "n", "seconds", "where_in_source",
    "url", "date", "environment", "note",
]  # fmt: skip
SOURCES = tomllib.loads(Path(__file__).with_name("claims.toml").read_text())  # in the page's order
TITLES = {study: source["title"] for study, source in SOURCES.items()}
DEFAULTS = dict(
    by="single", joint=False, settle="{plan}", warnings=(), runs=1, limit="", not_comparable=""
)
# what a source prints instead of its numbers -> log change of a rate
CHANGES: dict[str, Callable[[float], float]] = {
    "claimed_change": lambda x: math.log1p(x / 100),
    "claimed_ratio": math.log,
    "claimed_loss": lambda x: math.log1p(-x / 100),
}

Claim = dict[str, Any]  # the fields of one in `claims.toml`, and what is found for it
Judged = tuple[runs.Cell, dict[str, Any]]  # and what else its words may name


def published_facts(folder: Path | None = None) -> pd.DataFrame:
    """All published numbers: one row a number, columns as in the folder's README, `value` as a
    number (empty: lost in the copies, or a version) and `printed` as the file has it. Without
    rows if the project has no published numbers: a page then shows its own alone."""
    folder = folder or paths.published()
    read = [pd.read_csv(f, dtype={"value": str}) for f in sorted(folder.glob("*.csv"))]
    frame = pd.concat(read, ignore_index=True) if read else pd.DataFrame(columns=FACTS)
    frame = frame.rename(columns={"value": "printed"})
    frame.insert(5, "value", pd.to_numeric(frame["printed"], errors="coerce"))
    return frame.astype({"threads": "Int64"})


def times(folder: Path | None = None) -> pd.DataFrame:
    """The backup document's `time` outputs, parsed from their text: arm phase wall user_sys (s)."""
    folder = (folder or paths.published()) / "backup-encryption"
    rows = []
    for path in sorted(folder.glob("*.txt")):
        (result,) = parse.time(path.read_text())
        used = result["user_s"] + result["sys_s"]
        rows.append((*path.stem.rsplit("-", 1), result["real_s"], used))
    return pd.DataFrame(rows, columns=["arm", "phase", "wall", "user_sys"])


def judge_claims(
    facts: pd.DataFrame,
    times: pd.DataFrame,
    margin_pct: float = 0.0,
    start: scatter.Start | None = None,
    study: str = "",
) -> pd.DataFrame:
    """The verdict table of all claims: COLUMNS, where `key` means drawn in the figure, `said` is the
    text of the claim and `claimed_pct` the claimed change of the metric's own value.

    The intervals of one metric of one source hold at 95 % together (Bonferroni), those of means over
    thread counts apart from the others; `refused` claims do not count.
    margin_pct: 0 for each metric's own; start: start-to-start scatter of a server (scatter.Start, the
    recorded one of throughput by default), which all numbers of one server start share; study: the
    claims of one source alone ("": of all)."""
    start = start or scatter.start_scatter("tps", local=False)
    assert start is not None
    published = _Published(facts, times, start)
    rows = [_row(c, margin_pct) for c in published.claims(study)] if len(facts) else []
    out = pd.DataFrame(rows, columns=COLUMNS)
    return out.astype({c: "Int64" for c in ("threads", "from_threads", "to_threads")})


def _row(c: Claim, margin_pct: float) -> Claim:
    """The row of a claim."""
    cell, metric, together = c["cell"], c["metric"], c["together"]
    margin_pct = margin_pct or metric_of(metric).margin_pct
    e, notes = cell.estimate, [*c["warnings"]]
    if e.parts and not (e.start or e.single):  # repetitions without scatter of starts
        spare = e.spare(metric, math.log1p(margin_pct / 100), together)
        notes += [Reason(Why.UNLESS_STARTS_SCATTER, cv_pct=100 * spare)] if spare else []
    key = c["study"], c["workload"], metric, c["baseline"], c["arm"]
    out = runs.verdict_row(cell, key, margin_pct, together, notes)
    more = {"joint": c["joint"], "title": TITLES[c["study"]], "settle": ""}
    if out.verdict == CANNOT_TELL:
        if not cell.only and math.isnan(out.runs_needed):
            known = e.single
            sd, least = known.high_cv if known else cell.sd, max(cell.n) + 1
            needed = two.what_settles(e.value, metric, margin_pct, sd, least)
            out = replace(out, runs_needed=needed[0], minutes_needed=needed[1])
        more["settle"] = c["settle"].format(plan=_plan(out))
    return c | row.as_dict(out) | more


def _plan(out: Comparison) -> str:
    """What would decide a comparison: a measurement of its own."""
    runs_needed, minutes = out.runs_needed, out.minutes_needed
    kind = "runs" if out.metric in scatter.NO_SERVER else "restarted runs"
    ways = [] if math.isnan(minutes) else [f"{minutes:.0f} minutes of pairs in turn"]
    ways += [] if math.isnan(runs_needed) else [f"{runs_needed:,.0f} {kind} of each"]
    return " or ".join(ways) or "more runs of this kind will not settle it"


def trend(facts: pd.DataFrame, source: str) -> tuple[ordered.Trend | None, str]:
    """(`order.trend` of the ordered arms of a source, its sentence); (None, "") for a source without
    any. The order was declared before the result was known."""
    names, metric = SOURCES[source].get("ordered", ()), SOURCES[source].get("metric")
    rows = facts_of(facts, source, metric=metric)
    values = [rows.loc[rows["arm"].eq(name), "value"].dropna() for name in names]
    order = ordered.trend([list(v) for v in values])
    if order is None:
        return None, ""
    middle = [float(v.mean()) for v in values]
    changes = [100 * (m / middle[0] - 1) for m in middle]
    return order, order.in_words(names, changes, metric)


# --- numbers of a source ----------------------------------------------------------------------------


def by_threads(facts: pd.DataFrame, source: str, claim: str) -> pd.Series:
    """Log change by thread count from a source's two columns of throughput."""
    rows = facts_of(facts, source, claim, "tps")
    wide = rows.pivot(index="threads", columns="arm", values="value")
    base, arm = (SOURCES[source][k] for k in ("baseline", "arm"))
    return np.log(wide[arm] / wide[base]).sort_index()


def facts_of(
    facts: pd.DataFrame, source: str, claim: str | None = None, metric: str | None = None
) -> pd.DataFrame:
    """The numbers of a source, or of one claim or metric of it."""
    kept = facts[facts["source"] == source]
    kept = kept if claim is None else kept[kept["claim_id"] == claim]
    return kept if metric is None else kept[kept["metric"] == metric]


def stated(rows: pd.DataFrame, threads: int | None = None) -> float:
    """The percentage that the source itself prints for a claim, NaN for nothing."""
    rows = rows[
        rows["metric"].str.contains("claimed_") & ~rows["arm"].str.contains(" and ", na=False)
    ]
    there = rows["threads"].eq(threads).fillna(False)  # type: ignore[arg-type]  # None: nowhere
    rows = rows[there] if there.any() else rows
    return float(rows["value"].iloc[0]) if len(rows) else math.nan


def _ends(numbers: Mapping[str, Any]) -> dict[str, float]:
    return {
        f"{which}_{end}": float(f(v)) for which, v in numbers.items()
        for end, f in (("low", np.min), ("high", np.max))
    }  # fmt: skip


def _cell(
    c: Claim,
    value: float,
    n: tuple[int, int],
    parts: estimate.Parts,
    start: scatter.Start | None = None,
    **more: Any,
) -> runs.Cell:
    """One comparison with the scatter that its source shows."""
    return runs.Cell(
        c.get("threads"), n, runs.estimate_of_runs(value, parts, c["metric"], n, start), **more
    )


def _claims() -> Iterator[Claim]:
    """The claims of `claims.toml`, each as a dict of its fields."""
    for study, source in SOURCES.items():
        common = {k: v for k, v in source.items() if k not in ("claims", "short", "title")}
        for given in source["claims"]:
            for chosen in itertools.product(*given.get("each", ())):
                c = DEFAULTS | common | given | {k: v for d in chosen for k, v in d.items()}
                c["study"] = study
                yield c | {k: c[k].format(**c) for k in ("claim_id", "workload")}


@dataclass(frozen=True)
class _Published:
    """What was published. A claim is judged by the method that its `by` names, which returns (its
    cell, what else its words may name)."""

    facts: pd.DataFrame
    times: pd.DataFrame
    start: scatter.Start

    def claims(self, study: str) -> Iterator[Claim]:
        """Every claim of a source ("": of all) as a dict: its fields of the TOML, filled in, and
        `cell`, `together`, `key`, `claimed_pct`."""
        claims = [c for c in _claims() if study in ("", c["study"])]
        tables = [(c["study"], c["metric"], c["joint"]) for c in claims]
        judged = [c["by"] != "refused" for c in claims]
        size = Counter(itertools.compress(tables, judged))
        for c, table, has_word in zip(claims, tables, judged, strict=True):
            c["together"] = size[table] if has_word else 1
            yield c | self._judged(c)

    def _judged(self, c: Claim) -> Claim:
        """The result for a claim, and its words."""
        mine = facts_of(self.facts, c["study"], c["claim_id"])
        cell, more = getattr(self, c["by"])(c)
        start = f"recorded start-to-start CV of {100 * self.start.cv:.2g} %"
        whose = "none: one number an arm, no control"
        if known := cell.estimate.single:
            whose = (
                "{groups} groups of repeats of {sources} sources, median CV {median_cv_pct:.1f} %"
            )
            whose = whose.format(**known.fit)
        named = more | {"stated": stated(mine, c.get("threads")), "start": start, "whose": whose}
        named["shared"] = f"{start}, which all rows of a table share"
        texts = ("label", "said", "scatter_from", "why")
        words = {k: c.get(k, "{whose}").format(**c | named) for k in texts}
        percent = {
            "stated": named["stated"],
            "ratio": 100 * (1 / named["stated"] - 1),
            "same": row.percent(cell.estimate.value),
        }
        claimed = c.get("claimed", math.nan)
        drawn = c.get("drawn", True) and c["arm"] not in c.get("undrawn", ())
        low, high = c.get("between", (None, None))
        return words | {
            "cell": cell, "key": drawn, "claimed_pct": percent.get(claimed, claimed),
            "from_threads": low, "to_threads": high,
        }  # fmt: skip

    def _runs(self, c: Claim) -> dict[str, Any]:
        """{"baseline", "arm": the numbers of an arm, in the order of the file}."""
        numbers: dict[str, Any] = {}
        for which in ("baseline", "arm"):
            rows = facts_of(self.facts, c["study"])
            rows = rows[rows["arm"].eq(c[which].removeprefix("TLS ")) & rows["value"].notna()]
            if rows["claim_id"].eq(c["claim_id"]).any():
                rows = rows[rows["claim_id"] == c["claim_id"]]
            parts = c["metric"].split("_") if c["metric"] == "user_sys" else [c["metric"]]
            numbers[which] = sum(rows.loc[rows["metric"] == p, "value"].to_numpy() for p in parts)
        return numbers

    def _difference(self, c: Claim) -> tuple[float, dict[str, float]]:
        """(log change, lowest and highest number of each arm). If an arm has several numbers, those
        nearest to the other arm count. Without numbers: the printed change, else NaN, and {}."""
        numbers = self._runs(c)
        if all(map(len, numbers.values())):
            base, arm = numbers.values()
            up = arm.mean() > base.mean()
            ratio = arm.min() / base.max() if up else arm.max() / base.min()
            return math.log(ratio), _ends(numbers)
        for metric, log in CHANGES.items():
            printed = facts_of(self.facts, c["study"], c["claim_id"], metric)["value"]
            if len(printed):
                return log(printed.iloc[0]), {}
        return math.nan, {}

    def single(self, c: Claim) -> Judged:
        """Numbers whose scatter the source does not show: the difference between such runs is
        predicted from published repeats."""
        value, more = self._difference(c)
        seconds = facts_of(self.facts, c["study"], c["claim_id"])["seconds"].dropna()
        length, n = float(seconds.iloc[0]) if len(seconds) else None, (c["runs"],) * 2
        return runs.cell_of_single_runs(
            c.get("threads"), n, value, c["metric"], length, self.start
        ), more

    def refused(self, c: Claim) -> Judged:
        """A number that is no evidence, or is lost: `why` is the reason."""
        value, more = self._difference(c)
        return _cell(c, value, (c["runs"],) * 2, (), only=c["why"]), more

    def control(self, c: Claim) -> Judged:
        """A table with a control: another table of the source, whose true differences are zero, so
        that its measured differences show the scatter."""
        zero = by_threads(self.facts, c["study"], c["control"])
        hard = by_threads(self.facts, c["study"], c["claim_id"])
        low, high = c.get("between", (c.get("threads"),) * 2)
        kept = hard[(hard.index >= low) & (hard.index <= high)]
        value, n = float(kept.mean()), len(kept)

        def by(noise: pd.Series) -> runs.Cell:
            parts = ((float(np.mean(noise**2)) / n, len(noise)),)
            return _cell(c, value, (n, n), parts, self.start)

        strict = by(zero[zero.index <= c.get("few", zero.index.max())]).estimate
        return by(zero), {
            "k": len(zero), "scatter_pct": 100 * math.sqrt(np.mean(zero**2)),
            "few_pct": row.percent(strict.half(c["together"])),
            "few_word": strict.word(c["metric"], 0.0, c["together"]),
        }  # fmt: skip

    def itself(self, c: Claim) -> Judged:
        """A table by thread count: the scatter is that of its own differences."""
        d = by_threads(self.facts, c["study"], c["claim_id"])
        parts = estimate.paired(d.tolist())
        return _cell(c, float(d.mean()), (len(d),) * 2, parts, self.start), {"k": len(d)}

    def twins(self, c: Claim) -> Judged:
        """Two arms are one thing under two names: their difference shows the scatter."""
        v = np.log(self.times.set_index(["arm", "phase"]).sort_index()[c["metric"]])
        one, other = (v[name] for name in c["twins"])
        variance = float(np.mean(np.square(one - other))) / 2  # of one run
        same = c["twins"] if c["arm"] in c["twins"] else [c["arm"]]
        values = [v[name, c["workload"]] for name in same]
        n = len(values)
        value = float(sum(values) / n - v[c["baseline"], c["workload"]])
        parts = ((variance * (1 + 1 / n), 2),)
        return _cell(c, value, (1, n), parts, sd=math.sqrt(variance)), {}

    def rounded(self, c: Claim) -> Judged:
        """Sizes that agree: the interval is what their rounding can hide."""
        size = facts_of(self.facts, c["study"], c["claim_id"])["value"].iloc[0]
        reach = math.log((size + c["digit"] / 2) / (size - c["digit"] / 2))
        return _cell(c, 0.0, (1, 3), (((reach / 1.96) ** 2, math.inf),)), {}

    def repeated(self, c: Claim) -> Judged:
        """Several runs of both arms: Welch on logs; for a server the scatter of starts is added."""
        numbers = self._runs(c)
        x, y = (np.log(values) for values in numbers.values())
        parts = estimate.welch(x.tolist(), y.tolist())
        sd = math.sqrt(sum(v * len(k) for (v, _), k in zip(parts, (x, y), strict=True)) / 2)
        added = None if c["metric"] in scatter.NO_SERVER else self.start
        value, n = float(y.mean() - x.mean()), (len(x), len(y))
        return _cell(c, value, n, parts, added, sd=sd), _ends(numbers)
