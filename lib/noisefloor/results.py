"""What a notebook shows of a campaign: its tables, judged as the campaign itself judged them."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from . import paths, schedule, stats, study, tidy
from .study import METRICS


@dataclass(frozen=True)
class Results:
    """One campaign, opened. Frames are read once, when first asked for."""

    folder: Path

    @cached_property
    def meta(self) -> dict:
        """campaign.json, with the campaign's name and folder."""
        return tidy.meta(self.folder) | {
            "campaign": self.folder.name,
            "raw_files": paths.shown(self.folder),
        }

    @cached_property
    def study(self) -> study.Study:
        """The study as it was measured."""
        return study.restored(self.meta)

    @cached_property
    def tidy(self) -> pd.DataFrame:
        """The tidy table; what was left out stands in ``attrs["problems"]``."""
        return tidy.table(self.folder)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row a run, warm-ups included."""
        return tidy.runs(self.folder)

    @cached_property
    def _judged(self) -> pd.DataFrame:
        return self.tidy[~self.tidy["warmup"]]

    def judged(self, workload: str = "", metric: str = "") -> pd.DataFrame:
        """Rows of the tidy table without warm-ups; "" for all workloads or metrics."""
        t = self._judged
        kept = (t["workload"] == workload) | (workload == "")
        return t[kept & ((t["metric"] == metric) | (metric == ""))]

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The verdict table: all comparisons, joint effects and A/A controls."""
        return self.judge()

    @cached_property
    def _pair_seconds(self) -> float:
        return 2 * (self.runs[~self.runs["warmup"]]["slice_s"].median() + 0.5)

    def judge(
        self, *, workload: str = "", metric: str = "", margin_pct: float = 0.0
    ) -> pd.DataFrame:
        """The verdict table of one workload and metric ("" for all), by another margin than the one
        that was declared (0: by that one)."""
        asked = replace(self.study, margin_pct=margin_pct or self.study.margin_pct)
        try:
            found = schedule.verdicts(
                asked,
                self.judged(workload, metric),
                self.meta.get("plan"),
                pair_seconds=self._pair_seconds,
            )
        except ValueError as e:
            raise tidy.Damaged(f"{self.folder.name} cannot be judged: {e}") from None
        turn = {a.name: n for n, a in enumerate((*self.study.arms, self.study.control))}
        group = found.groupby(["workload", "metric"], sort=False).ngroup()
        rank = group * len(turn) + found["arm"].map(turn)  # arms in the order of the study
        return found.loc[rank.sort_values(kind="stable").index].reset_index(drop=True)

    def of(self, workload: str = "", metric: str = "", control: bool = True) -> pd.DataFrame:
        """Rows of the verdict table; "" for all workloads or metrics."""
        v = self.verdicts
        kept = (v["workload"] == workload) | (workload == "")
        return v[kept & ((v["metric"] == metric) | (metric == "")) & (control | ~v["control"])]

    def pairs(self, workload: str, metric: str, arm: str = "") -> pd.DataFrame:
        """One row a pair of one workload and metric, all thread counts; "" for the first arm that
        has any."""
        found = stats.pairs(self._judged, baseline=self.study.baseline.name)
        found = found[(found["workload"] == workload) & (found["metric"] == metric)]
        arms = [a.name for a in self.study.arms]
        arm = arm or next((a for a in arms if (found["arm"] == a).any()), arms[0])
        return found[found["arm"] == arm]

    def path(self, workload: str, metric: str, arm: str = "") -> pd.DataFrame:
        """How the interval narrowed, block by block: `stats.path` of each thread count."""
        parts = []
        for threads, one in self.pairs(workload, metric, arm).groupby("threads"):
            row = self.of(workload, metric)
            row = row[row["threads"].eq(threads) & row["arm"].eq(one["arm"].iloc[0])].iloc[0]
            found = stats.path(one, level=row["level"], margin_pct=self.study.margin_pct)
            parts.append(found.assign(threads=threads))
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def steps(self, metric: str = "tps") -> pd.DataFrame:
        """What each arm adds to the arm before it, in the study's order, over all thread counts:
        columns step arm overhead_pct lo_pct hi_pct verdict blocks start_pct end_pct.

        The arms were measured against the same baseline in blocks of their own, so their errors
        are independent and add as squares. `lo_pct` and `hi_pct` are where the step ends, given
        where it starts; the last row is the last arm against the baseline, as it was judged."""
        rows = self.of(self.main, metric, control=False)
        rows = rows[rows["joint"]] if rows["joint"].any() else rows
        rows = rows.drop_duplicates("arm").set_index("arm")
        found, before = [], (0.0, 0.0, 0.0)
        for arm in (a.name for a in self.study.arms if a.name in rows.index):
            row = rows.loc[arm]
            ends = (row["overhead_pct"], row["lo_pct"], row["hi_pct"])
            now = tuple(math.log1p(x / 100) for x in ends)
            step, lo, hi = _apart(before, now)
            word = stats.estimate.word_of(lo, hi, math.log1p(self.study.margin_pct / 100))
            at = [100 * math.expm1(x) for x in (step, before[0] + lo, before[0] + hi)]
            found.append((arm, arm, *at, word, row["blocks"], 100 * math.expm1(before[0]), ends[0]))
            before = now
        if found:
            found.append(("all together", arm, *ends, row["verdict"], row["blocks"], 0.0, ends[0]))
        columns = ["step", "arm", "overhead_pct", "lo_pct", "hi_pct", "verdict", "blocks"]
        return pd.DataFrame(found, columns=[*columns, "start_pct", "end_pct"])

    def effects(self, metric: str = "tps") -> pd.DataFrame:
        """What each variable changes on average over the values of the others and, for two variables
        of two values, what both do beyond the sum of each alone; over all thread counts. Columns
        change, overhead_pct, lo_pct, hi_pct, verdict; empty for a single arm.

        Weighted sums of the arms' log overheads. Arms share no run, so their errors are independent
        and the distances to the ends add as squares (MOVER: Zou and Donner 2008)."""
        rows = self.of(self.main, metric, control=False)
        rows = rows[rows["joint"]] if rows["joint"].any() else rows
        rows = rows.drop_duplicates("arm").set_index("arm")
        arms = [self.study.baseline, *self.study.arms]
        columns = ["change", "overhead_pct", "lo_pct", "hi_pct", "verdict"]
        if len(arms) < 3 or not {a.name for a in arms[1:]} <= set(rows.index):
            return pd.DataFrame(columns=columns)
        ends = rows.loc[[a.name for a in arms[1:]], columns[1:4]]
        logs = np.vstack([np.zeros(3), np.log1p(ends.to_numpy(float) / 100)])
        values = pd.DataFrame([dict(a.switch) | dict(a.settings) for a in arms])
        values = values.loc[:, values.nunique() > 1]  # others are held at one value
        weights = {}
        for name in values:
            base, *others = pd.unique(values[name])
            low = (values[name] == base).to_numpy(float)
            for value in others:
                high = (values[name] == value).to_numpy(float)
                weights[f"{name}: {base} to {value}"] = high / high.sum() - low / low.sum()
        if values.shape == (4, 2):
            weights["both, beyond the sum of each alone"] = np.array([1.0, -1.0, -1.0, 1.0])
        found = []
        for change, w in weights.items():
            of, w = logs[w != 0], w[w != 0]
            middle = w @ of[:, 0]
            reach = w[:, None] * (of[:, 1:] - of[:, :1])
            lo = middle - np.hypot.reduce(reach.min(axis=1))
            hi = middle + np.hypot.reduce(reach.max(axis=1))
            word = stats.estimate.word_of(lo, hi, math.log1p(self.study.margin_pct / 100))
            found.append((change, *100 * np.expm1([middle, lo, hi]), word))
        return pd.DataFrame(found, columns=columns)

    def price(self, workload: str) -> pd.DataFrame:
        """What an arm costs in processor cores at the throughput that the baseline reached: columns
        threads, arm, at TPS, baseline cores, more cores, lo, hi (the interval of CPU per
        transaction, at the baseline's median)."""
        rows = self.of(workload, "cpu_per_transaction", control=False)
        kept = self._judged[self._judged["workload"] == workload]
        kept = kept[kept["arm"] == self.study.baseline.name]
        middle = kept.groupby(["threads", "metric"])["value"].median().unstack()
        rows = rows[~rows["joint"]].join(middle[["tps", "cpu_per_transaction"]], on="threads")
        cores = rows["tps"] * rows["cpu_per_transaction"]
        return pd.DataFrame(
            {
                "threads": rows["threads"],
                "arm": rows["arm"],
                "at TPS": rows["tps"].round(0),
                "baseline cores": cores.round(3),
                "more cores": (cores * rows["overhead_pct"] / 100).round(3),
                "lo": (cores * rows["lo_pct"] / 100).round(3),
                "hi": (cores * rows["hi_pct"] / 100).round(3),
                "verdict": rows["verdict"],
            }
        )

    def counted(self, workload: str, threads: int | None = None) -> str:
        """How many judged runs an arm of a workload (at one thread count) has, in words."""
        runs = self.runs[~self.runs["warmup"] & (self.runs["workload"] == workload)]
        runs = runs if threads is None else runs[runs["threads"] == threads]
        counts = runs.groupby("arm")["run"].nunique()
        if counts.empty:
            return "No run."
        least, most = counts.min(), counts.max()
        return f"{least if least == most else f'{least} to {most}'} runs an arm."

    @cached_property
    def proofs(self) -> pd.DataFrame:
        """Where the rows can be read: a row an evidence, a column an arm, in how many runs."""
        seen = tidy.evidence(self.folder)
        seen["state"] = seen["found"] + " (" + seen["runs"].astype(str) + ")"
        arms = [
            a.name for a in (self.study.baseline, *self.study.arms) if a.name in set(seen["arm"])
        ]
        table = seen.groupby(["evidence", "arm"])["state"].agg(
            lambda s: ", ".join(dict.fromkeys(s))
        )
        return table.unstack().reindex(columns=arms).fillna("not looked for").reset_index()

    @property
    def exposed(self) -> str:
        """In words: which arms encrypt something and leave rows readable elsewhere."""
        seen = tidy.evidence(self.folder)
        said = []
        for arm, part in seen.groupby("arm", sort=False):
            clear = part[part["found"] == "plain"]["evidence"].unique()
            if len(clear) and (part["found"] == "encrypted").any():
                said.append(f"With {arm} the rows can still be read in the {', '.join(clear)}.")
        return " ".join(said) or "No arm that encrypts anything left rows readable elsewhere."

    @property
    def pinned(self) -> pd.DataFrame:
        """Values of the old version given to the new one: columns arm, variable, value, refused."""
        rows = [
            (arm, name, value, "")
            for arm, part in self.meta["pinned"].items()
            for name, value in part["settings"].items()
        ] + [
            (arm, name, "", why)
            for arm, part in self.meta["pinned"].items()
            for name, why in part["refused"].items()
        ]
        return pd.DataFrame(rows, columns=["arm", "variable", "value", "refused"])

    @property
    def upgrade(self) -> pd.DataFrame:
        """The old version's data directory, opened by the new one: columns fact, found."""
        found = self.meta["upgrade"]
        said = found.get("said", [])
        rows = [("from", found["from"]), ("to", found["to"])]
        if found.get("refused"):
            rows.append(("result", "refused"))
        else:
            rows.append(("seconds until it answered", f"{found['took_s']:.1f}"))
            rows.append(("checksums of all tables, before and after", found["checksums"]))
        rows += [("the server said", line) for line in said]
        return pd.DataFrame(rows, columns=["fact", "found"])

    def medians(self, workload: str, metrics: tuple[str, ...]) -> pd.DataFrame:
        """Medians of the runs as they are shown: columns threads, arm, runs, one a metric."""
        kept = self._judged[self._judged["workload"] == workload]
        kept = kept[kept["metric"].isin(metrics)]
        shown = [
            kept[kept["metric"] == m]
            .groupby(["threads", "arm"])["value"]
            .median()
            .mul(METRICS[m].scale)
            .round(4)
            .rename(f"{METRICS[m].label}, {METRICS[m].shown_unit}")
            for m in metrics
        ]
        runs = kept.groupby(["threads", "arm"])["run"].nunique().rename("runs")
        return pd.concat([runs, *shown], axis=1).reset_index()

    @property
    def maxima(self) -> pd.DataFrame:
        """Maximum latency of the first workload's runs in ms: columns threads, arm, runs, median,
        highest. Shown, never judged."""
        rows = self._judged[self._judged["metric"] == "max_latency"]
        rows = rows[rows["workload"] == self.main]
        found = rows.groupby(["threads", "arm"])["value"].agg(
            runs="count", median="median", highest="max"
        )
        return (found * [1, 1e3, 1e3]).round(1).astype({"runs": int}).reset_index()

    @property
    def defaults(self) -> str:
        """Name of the arm that has nothing but another build: no value pinned, no setting."""
        return next(a.name for a in self.study.arms if not a.pin and not a.settings)

    @property
    def main(self) -> str:
        """Name of the study's first workload."""
        return self.study.workloads[0].name

    @property
    def threads(self) -> int:
        """The thread count that single figures show: the one that all workloads share."""
        return self.study.workloads[-1].threads[0]

    @cached_property
    def warnings(self) -> pd.DataFrame:
        """What makes the campaign less trustworthy: columns warning, runs."""
        said = self.runs["warnings"].str.split("; ").explode()
        said = said[said.fillna("") != ""].str.replace(r"[\d.]+", "…", regex=True)
        counted = said.value_counts().rename_axis("warning").reset_index(name="runs")
        return pd.concat(
            [counted, pd.DataFrame({"warning": self.tidy.attrs["problems"], "runs": 1})],
            ignore_index=True,
        )

    @property
    def skipped(self) -> pd.DataFrame:
        """Workloads and arms that this machine does not allow: columns left out, reason."""
        skipped = self.meta.get("skipped", {})
        return pd.DataFrame(skipped.items(), columns=["left out", "reason"])

    def fact(self, name: str) -> pd.DataFrame:
        """What was measured once in the campaign under this name; empty when it was not."""
        return tidy.fact(self.folder, name)

    @property
    def workloads(self) -> pd.DataFrame:
        """What was measured and why: columns workload, threads, why."""
        rows = [(w.name, ", ".join(map(str, w.threads)), w.why) for w in self.study.workloads]
        return pd.DataFrame(rows, columns=["workload", "threads", "why"])


def load(folder: Path) -> Results:
    """The results of a campaign's folder."""
    return Results(folder)


def advice(row: pd.Series, margin_pct: float) -> pd.DataFrame:
    """Who should switch it on: the two domains of the binlog document, each with what it advised
    and what the verdict in `row` means for it. Columns domain, the document advised, this
    campaign says."""
    most, least = row["hi_pct"], row["lo_pct"]
    known = pd.notna(most)
    cost = f"it costs at most {most:.1f} %" if known and most > 0 else "no cost was resolved"
    strict = f"Switch it on: {cost}, and that is the price of the rule."
    open_ = {
        "same": f"Switch it on: the cost lies within ±{margin_pct:g} %.",
        "faster": "Switch it on: no cost was found, the encrypted arm was not slower.",
        "slower": f"It is not free: between {least:.1f} and {most:.1f} %. Switch it on where the"
        " log leaves the machine; else weigh it.",
        "cannot tell": (
            f"Not decided here: anything from {least:.1f} to {most:.1f} % is possible.".replace(
                "-", "−"
            )
            if known
            else "Not decided here: too few pairs for an interval."
        )
        + " Measure longer before you rely on a cost of nothing.",
    }[row["verdict"]]
    return pd.DataFrame(
        [
            ("finance, medicine", "required: a leak is a legal disaster", strict),
            ("other services", "recommended: the loss is slight with AES instructions", open_),
        ],
        columns=["domain", "the document advised", "this campaign says"],
    )


def _apart(before: tuple, now: tuple) -> tuple[float, float, float]:
    """How far `now` is from `before`, each (estimate, lo, hi) on the log scale: their errors are
    independent and add as squares."""
    step = now[0] - before[0]
    lo = step - math.hypot(now[0] - now[1], before[2] - before[0])
    return step, lo, step + math.hypot(now[2] - now[0], before[0] - before[1])


def apart(first: pd.DataFrame, second: pd.DataFrame, margin_pct: float) -> pd.DataFrame:
    """What two campaigns, independent of each other, say about the same comparisons: columns arm,
    threads, first_pct, second_pct, difference_pct, lo_pct, hi_pct and verdict (of the second
    against the first), a row a comparison that both verdict tables hold."""
    same = ["workload", "metric", "threads", "joint", "baseline", "arm"]
    ends = ["overhead_pct", "lo_pct", "hi_pct"]
    both = first[[*same, *ends]].merge(second[[*same, *ends]], on=same, suffixes=("", " then"))
    found = []
    for row in both.to_dict("records"):
        before = tuple(math.log1p(row[c] / 100) for c in ends)
        now = tuple(math.log1p(row[f"{c} then"] / 100) for c in ends)
        step, lo, hi = _apart(before, now)
        word = stats.estimate.word_of(lo, hi, math.log1p(margin_pct / 100))
        at = [100 * math.expm1(x) for x in (step, lo, hi)]
        threads = "all" if row["joint"] else row["threads"]
        pair = (row["overhead_pct"], row["overhead_pct then"])
        found.append((row["arm"], threads, *pair, *at, word))
    columns = ["arm", "threads", "first_pct", "second_pct", "difference_pct", "lo_pct", "hi_pct"]
    return pd.DataFrame(found, columns=[*columns, "verdict"])
