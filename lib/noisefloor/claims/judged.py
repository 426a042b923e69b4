"""The numbers of ``data/raw/published`` and the claims of ``claims.toml``: each judged by its
source's own controls where it has any, and all of them in one verdict table."""

import itertools
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from noisefloor import parse, paths
from noisefloor.stats import estimate, row, runs, scatter, two
from noisefloor.stats.estimate import CANNOT_TELL, SAME, Estimate
from noisefloor.stats.graph import ALPHA, JOINT

COLUMNS = [
    *row.COLUMNS,
    "key", "title", "claim_id", "label", "said", "claimed_pct", "floor_from", "why", "settle",
]  # fmt: skip
FACTS = [
    "source", "claim_id", "arm", "threads", "metric", "value", "unit", "n", "seconds", "where_in_source",
    "url", "date", "environment", "note",
]  # fmt: skip
SOURCES = tomllib.loads(Path(__file__).with_name("claims.toml").read_text())  # in the page's order
TITLES = {study: source["title"] for study, source in SOURCES.items()}
DEFAULTS = dict(by="alone", family="", joint=False, settle="{plan}", warnings=(), runs=1)
CHANGES = {  # what a source prints instead of its numbers -> log overhead of a rate
    "claimed_change": lambda x: -math.log(1 + x / 100),
    "claimed_ratio": lambda x: -math.log(x),
    "claimed_loss": lambda x: -math.log1p(-x / 100),
}


def facts(folder=None):
    """All published numbers: one row a number, columns as in the folder's README, `value` as a
    number (empty: lost in the copies, or a version) and `printed` as the file has it. None where
    the project has no published numbers: a page then shows its own alone."""
    folder = folder or paths.published()
    read = [pd.read_csv(f, dtype={"value": str}) for f in sorted(folder.glob("*.csv"))]
    frame = pd.concat(read, ignore_index=True) if read else pd.DataFrame(columns=FACTS)
    frame = frame.rename(columns={"value": "printed"})
    frame.insert(5, "value", pd.to_numeric(frame["printed"], errors="coerce"))
    return frame.astype({"threads": "Int64"})


def times(folder=None):
    """The backup document's `time` outputs, parsed from their text: arm phase wall user_sys (s)."""
    folder = (folder or paths.published()) / "backup-encryption"
    rows = []
    for path in sorted(folder.glob("*.txt")):
        (result,) = parse.time(path.read_text())
        used = result["user_s"] + result["sys_s"]
        rows.append((*path.stem.rsplit("-", 1), result["real_s"], used))
    return pd.DataFrame(rows, columns=["arm", "phase", "wall", "user_sys"])


def judge(facts, times, margin_pct=2.0, start=None):
    """The verdict table of all claims: COLUMNS, where `key` means drawn in the figure, `said` is the
    claim and `claimed_pct` the source's own arithmetic.

    A family of 5 % is one metric of one source, as long as its numbers come from one table: the means
    over thread counts come first, since they are what the source claims. Bare numbers that only share
    a page are a family each. start: the start-to-start scatter of throughput (scatter.Start, the
    recorded one by default), which all numbers of one server start share."""
    if facts.empty:
        return pd.DataFrame(columns=COLUMNS).astype({"threads": "Int64"})
    published = _Published(facts, times, start or scatter.start("tps", own=False))
    claims, families = list(published.claims()), {}
    for c in claims:
        family = families.setdefault((c["study"], c["metric"], c["family"]), {})
        family[c["place"]] = c["cell"]
    for (_, metric, _), cells in families.items():
        runs.decided(cells, margin_pct, metric)
    out = pd.DataFrame([_row(c, c["cell"], margin_pct) for c in claims], columns=COLUMNS)
    out["threads"] = out["threads"].astype("Int64")
    out.attrs["margin_pct"] = margin_pct
    return out


def _row(c, cell, margin_pct):
    """The row of a claim whose family has spoken."""
    more, judged = [*c["warnings"], *_limit(cell, margin_pct)], cell.only != "not judged"
    out = runs.verdict_row(cell, [c[k] for k in row.KEY], margin_pct, c["joint"], more)
    settle = ""
    if not judged:
        out |= {"deciding_cv_pct": math.nan, "warnings": more}
    if cell.word == CANNOT_TELL:
        pairs, minutes, plan = None, None, ""
        if judged:
            sd, least = cell.sd if cell.sd > 0 else None, max(cell.n) + 1
            pairs, minutes, _ = two.plan_of(cell.estimate.value, c["metric"], margin_pct, sd, least)
            plan = "more runs of this kind will not settle it"
            if pairs and sd:
                minutes, plan = None, f"{pairs} coin-flipped pairs, if runs scatter as these do"
            elif pairs:
                plan = (
                    f"{pairs} coin-flipped pairs of {two.SLICE_S} s slices ({minutes:.0f} min), if "
                    "pairs scatter as recorded"
                )
        out |= {"runs_needed": pairs or math.nan, "minutes_needed": minutes or math.nan}
        settle = c["settle"].format(plan=plan)
    if not cell.estimate.value:
        out["deciding_cv_pct"] = math.nan
    return {**c, **out, "title": TITLES[c["study"]], "settle": settle}


def _limit(cell, margin_pct):
    """The start-to-start CV that would undo a verdict from repetitions that hold none."""
    e = cell.estimate
    if cell.word == CANNOT_TELL or e.start or cell.single:
        return
    same = cell.word == SAME
    reach = math.log1p(margin_pct / 100) - abs(e.value) if same else abs(e.value)
    spare = (reach / e.half(2 * ALPHA if same else ALPHA) * e.error) ** 2 - e.error**2
    if spare > 0:
        yield (
            "holds unless what no repetition here shows (server start, cache, time of day) scatters "
            f"by more than {100 * math.sqrt(spare / 2):.1f} % (CV)"
        )


# --- numbers of a source ----------------------------------------------------------------------------


def by_threads(facts, source, claim):
    """Log overhead by thread count from a source's two columns of throughput."""
    rows = of(facts, source, claim, "tps")
    wide = rows.pivot(index="threads", columns="arm", values="value")
    base, arm = (SOURCES[source][k] for k in ("baseline", "arm"))
    return np.log(wide[base] / wide[arm]).sort_index()


def of(facts, source, claim=None, metric=None):
    """The numbers of a source, or of one claim or metric of it."""
    kept = facts[facts["source"] == source]
    kept = kept if claim is None else kept[kept["claim_id"] == claim]
    return kept if metric is None else kept[kept["metric"] == metric]


def stated(rows, threads=None):
    """The percentage that the source itself prints for a claim, NaN for nothing."""
    rows = rows[
        rows["metric"].str.contains("claimed_") & ~rows["arm"].str.contains(" and ", na=False)
    ]
    there = rows["threads"].eq(threads).fillna(False)
    rows = rows[there] if there.any() else rows
    return float(rows["value"].iloc[0]) if len(rows) else math.nan


def _ends(found):
    return {
        f"{which}_{end}": float(f(v)) for which, v in found.items()
        for end, f in (("low", np.min), ("high", np.max))
    }  # fmt: skip


def _cell(c, value, n, parts, start=None, **more):
    """One comparison with the scatter that its source shows."""
    added = (start.part,) if start else ()
    return runs.Cell(c.get("threads"), n, Estimate(value, tuple(parts), added), **more)


@dataclass(frozen=True)
class _Published:
    """What was published. A claim is judged by the method that its `by` names, which returns (its
    cell, what else its words may name)."""

    facts: pd.DataFrame
    times: pd.DataFrame
    start: scatter.Start

    def claims(self):
        """Every claim as a dict before its family has spoken: its fields of the TOML, filled in,
        and `cell`, `place` (its hypothesis in the family), `key`, `claimed_pct`."""
        for study, source in SOURCES.items():
            common = {k: v for k, v in source.items() if k not in ("claims", "title")}
            for given in source["claims"]:
                for chosen in itertools.product(*given.get("each", ())):
                    c = DEFAULTS | common | given | {k: v for d in chosen for k, v in d.items()}
                    c["study"] = study
                    for name in ("claim_id", "workload", "family"):
                        c[name] = c[name].format(**c)
                    yield c | self._judged(c)

    def _judged(self, c):
        """What is found for a claim, and its words."""
        mine = of(self.facts, c["study"], c["claim_id"])
        cell, more = getattr(self, c["by"])(c)
        start = f"recorded start-to-start CV of {100 * self.start.cv:.2g} %"
        whose = "none: one number an arm, no control"
        if cell.single:
            whose = f"reference population: {runs.whose(cell.single)}"
        found = more | {"stated": stated(mine, c.get("threads")), "start": start, "whose": whose}
        found["shared"] = f"{start}, which all rows of a table share"
        texts = ("label", "said", "floor_from", "why")
        words = {k: c.get(k, "{whose}").format(**c | found) for k in texts}
        percent = {
            "stated": found["stated"],
            "ratio": 100 * (found["stated"] - 1),
            "same": row.percent(cell.estimate.value),
        }
        claimed, place = c.get("claimed", math.nan), (words["label"], "")
        if "group" in c:
            place = (c["group"], JOINT if c.get("whole") else words["label"])
        drawn = c.get("drawn", True) and c["arm"] not in c.get("undrawn", ())
        return words | {
            "cell": cell, "place": place, "key": drawn,
            "claimed_pct": percent.get(claimed, claimed),
        }  # fmt: skip

    def _runs(self, c):
        """{"baseline", "arm": the numbers of an arm, in the order of the file}."""
        found = {}
        for which in ("baseline", "arm"):
            rows = of(self.facts, c["study"])
            rows = rows[rows["arm"].eq(c[which].removeprefix("TLS ")) & rows["value"].notna()]
            if rows["claim_id"].eq(c["claim_id"]).any():
                rows = rows[rows["claim_id"] == c["claim_id"]]
            parts = c["metric"].split("_") if c["metric"] == "user_sys" else [c["metric"]]
            found[which] = sum(rows.loc[rows["metric"] == p, "value"].to_numpy() for p in parts)
        return found

    def _difference(self, c):
        """(log overhead of two numbers, ends): the nearest ends of an arm that has several; from
        what the source says of it where it gives no numbers."""
        found = self._runs(c)
        if all(map(len, found.values())):
            base, arm = found.values()
            rate = runs.sign(c["metric"]) < 0
            ratio = base.min() / arm.max() if rate else arm.min() / base.max()
            return math.log(ratio), _ends(found)
        for metric, log in CHANGES.items():
            said = of(self.facts, c["study"], c["claim_id"], metric)["value"]
            if len(said):
                return log(said.iloc[0]), {}
        return math.nan, {}

    def alone(self, c):
        """Numbers without anything that shows their scatter: published repeats are what they are
        held against."""
        value, more = self._difference(c)
        seconds = of(self.facts, c["study"], c["claim_id"])["seconds"].dropna()
        length, n = float(seconds.iloc[0]) if len(seconds) else None, (c["runs"],) * 2
        return two.alone(value, n, c["metric"], c.get("threads"), length, self.start), more

    def refused(self, c):
        """A number that no runs of its kind make evidence, or that is lost."""
        value, more = self._difference(c)
        return _cell(c, value, (c["runs"],) * 2, runs.UNKNOWN, only="not judged"), more

    def control(self, c):
        """A table of the source where nothing could differ: its differences are known to be zero,
        and so they are the noise of the other one."""
        zero = by_threads(self.facts, c["study"], c["control"])
        hard = by_threads(self.facts, c["study"], c["claim_id"])
        low, high = c.get("between", (c.get("threads"),) * 2)
        kept = hard[(hard.index >= low) & (hard.index <= high)]
        value, n = float(kept.mean()), len(kept)

        def by(noise):
            parts = ((float(np.mean(noise**2)) / n, len(noise)),)
            return _cell(c, value, (n, n), parts, self.start)

        strict = by(zero[zero.index <= c.get("few", zero.index.max())]).estimate
        return by(zero), {
            "k": len(zero), "scatter_pct": 100 * math.sqrt(np.mean(zero**2)),
            "few_pct": row.percent(strict.half()), "few_word": strict.word(0.0),
        }  # fmt: skip

    def itself(self, c):
        """A table by thread count, by its own scatter."""
        d = by_threads(self.facts, c["study"], c["claim_id"])
        parts = estimate.paired(d.tolist())
        return _cell(c, float(d.mean()), (len(d),) * 2, parts, self.start), {"k": len(d)}

    def twins(self, c):
        """Two arms that are one thing under two names: their difference is the noise."""
        v = np.log(self.times.set_index(["arm", "phase"]).sort_index()[c["metric"]])
        one, other = (v[name] for name in c["twins"])
        variance = float(np.mean(np.square(one - other))) / 2  # of one run
        same = c["twins"] if c["arm"] in c["twins"] else [c["arm"]]
        values = [v[name, c["workload"]] for name in same]
        n = len(values)
        value = float(sum(values) / n - v[c["baseline"], c["workload"]])
        return _cell(c, value, (1, n), ((variance * (1 + 1 / n), 2),)), {}

    def rounded(self, c):
        """Sizes that agree, within what their rounding can hide."""
        size = of(self.facts, c["study"], c["claim_id"])["value"].iloc[0]
        reach = math.log((size + c["digit"] / 2) / (size - c["digit"] / 2))
        return _cell(c, 0.0, (1, 3), (((reach / 1.96) ** 2, math.inf),)), {}

    def repeated(self, c):
        """Runs of both arms: Welch on logs, with what a start of a server adds where it was
        `restarted`."""
        found, sign = self._runs(c), runs.sign(c["metric"])
        x, y = (sign * np.log(values) for values in found.values())
        parts = estimate.welch(x.tolist(), y.tolist())
        sd = math.sqrt(sum(v * len(k) for (v, _), k in zip(parts, (x, y), strict=True)) / 2)
        value = math.fsum(y) / len(y) - math.fsum(x) / len(x)
        added = self.start if c.get("restarted") else None
        return _cell(c, value, (len(x), len(y)), parts, added, sd=sd), _ends(found)
