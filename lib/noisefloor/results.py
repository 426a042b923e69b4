"""What a notebook shows of campaigns: their tables, judged as each campaign itself judged them."""

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from . import paths, schedule, stats, studies, study, tidy
from .study import METRICS

# what a page leads with, the first of each that was measured
PROCESSOR = ("cpu_per_transaction", "cpu_per_connection", "user_sys")
THROUGHPUT = ("tps", "connections_per_second", "wall")
_WAS = {"one after the other": "100 connections"}  # how old campaigns call a workload


@dataclass(frozen=True)
class Results:
    """One campaign, opened. Frames are read once, when first asked for."""

    folder: Path

    @property
    def parts(self) -> tuple["Results", ...]:
        """The campaigns, each by itself; the first is the page's headline."""
        return (self,)

    @cached_property
    def meta(self) -> dict:
        """campaign.json, with the names of the campaigns and their folders."""
        return tidy.meta(self.folder) | {
            "campaign": self.folder.name,
            "campaigns": [self.folder.name],
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
        """The verdict table: all comparisons, joint effects and A/A controls, each with the key of
        its question."""
        return self.judge().assign(question=self.study.key)

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

    def of(
        self,
        workload: str = "",
        metric: str = "",
        control: bool = True,
        question: str | None = None,
    ) -> pd.DataFrame:
        """Rows of the verdict table; "" for all workloads or metrics, None for all questions."""
        v = self.verdicts
        kept = ((v["workload"] == workload) | (workload == "")) & (control | ~v["control"])
        kept &= (v["metric"] == metric) | (metric == "")
        return v[kept & ((v["question"] == question) | (question is None))]

    def costs(self, workload: str, question: str | None = None) -> pd.DataFrame:
        """Rows of processor time and throughput of a workload."""
        found = self.of(workload, question=question)
        return found[found["metric"].isin([*PROCESSOR, *THROUGHPUT])]

    @cached_property
    def questions(self) -> dict[str, str]:
        """{key: what it asks} of the study's questions, the headline first; {} for a campaign that
        asked all of them at once, or its user's own."""
        known = _questions(self.parts[0].meta) if self.study.key else {}
        return known | {p.study.key: p.study.question for p in self.parts if p.study.key}

    def about(self, question: str) -> pd.DataFrame:
        """Rows of the verdict table that answer a question, controls left out. Of a campaign that
        asked all of them at once: those of the question's workloads and arms."""
        if self.study.key:
            return self.of(question=question, control=False)
        kind = self.meta["engine"]["kind"]
        try:
            asked = studies.load(
                self.study.name, question=question, profile="standard", engine=kind
            )
        except study.StudyError:
            return self.verdicts[:0]
        works = {w.name for w in asked.workloads}
        works |= {_WAS[w] for w in works & set(_WAS)}
        v = self.of(control=False)
        return v[v["workload"].isin(works) & v["arm"].isin([a.name for a in asked.arms])]

    def headlines(self, arm: str = "") -> list[pd.Series]:
        """The rows that a page leads with, for `arm` where it was measured: processor time, by two
        servers at once where they were asked, then throughput, in turn where it was."""
        by_key = {p.study.key: p for p in reversed(self.parts)}
        turn = by_key.get("headline", self.parts[0])
        asked = ((PROCESSOR, by_key.get("processor", turn)), (THROUGHPUT, turn))
        found = [self.lead(part, metrics, arm) for metrics, part in asked]
        if not any(row is not None for row in found):
            first = self.parts[0]
            found = [self.lead(first, (m,), arm) for m in first.study.workloads[0].deciding[:2]]
        return [row for row in found if row is not None]

    def lead(self, part: "Results", metrics: tuple[str, ...], arm: str = "") -> pd.Series | None:
        """A part's main row: joint over thread counts where there is one, else of the most threads."""
        rows = self.of(part.main, control=False, question=part.study.key)
        metric = next((m for m in metrics if m in set(rows["metric"])), "")
        rows = rows[rows["metric"] == metric]
        if rows.empty:
            return None
        there = arm in set(rows["arm"])
        rows = rows[rows["arm"] == (arm if there else rows["arm"].iloc[0])]
        joint = rows[rows["joint"]]
        row = (joint.iloc[0] if len(joint) else rows.sort_values("threads").iloc[-1]).copy()
        old = self.meta.get("parameters", {}).get("old", "")
        kind = (self.meta.get("engine") or {}).get("kind", "")
        row["does"] = studies.does(part.study.name, row["arm"], kind, old)
        if arm in {a.name for a in part.study.arms} and not there:
            said = f"no whole pair of {arm} was measured: this is about another arm"
            row["warnings"] = [*row["warnings"], said]
        return row

    def pairs(self, workload: str, metric: str, arm: str = "") -> pd.DataFrame:
        """One row a pair of one workload and metric, all thread counts; "" for the first arm that
        has any."""
        found = stats.pairs(
            self._judged,
            baseline=self.study.baseline.name,
            levelled=bool(self.meta.get("plan", {}).get("levelled")),
        )
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

    def steps(self, metric: str = "tps", baseline: str = "") -> pd.DataFrame:
        """What each arm adds to the arm before it, from `baseline` ("": the study's) on, over all thread
        counts: columns step arm overhead_pct lo_pct hi_pct verdict blocks start_pct end_pct.

        An arm that was measured against `baseline` is told from the one before it: their blocks are
        their own, so their errors are independent and add as squares. One that was measured against
        the last of these is a step by itself. `lo_pct` and `hi_pct` are where the step ends, given
        where it starts; the last row is where the chain ends, seen from `baseline`: as it was judged,
        where its arm was measured against that."""
        first = baseline or self.study.baseline.name
        rows = self.of(self.main, metric, control=False)
        rows = rows[rows["joint"]] if rows["joint"].any() else rows
        rows = rows.drop_duplicates(["baseline", "arm"])
        pins = {a.name for a in self.study.arms if a.pin}
        chain = rows[rows["baseline"] == first]
        chain = chain.loc[sorted(chain.index, key=lambda i: chain.at[i, "arm"] not in pins)]
        found, at = [], {first: (0.0, 0.0, 0.0)}
        margin = math.log1p(self.study.margin_pct / 100)

        def add(row: pd.Series, before: tuple, step: tuple, now: tuple) -> None:
            told = [
                100 * math.expm1(x) for x in (step[0], before[0] + step[1], before[0] + step[2])
            ]
            ends = [100 * math.expm1(x) for x in (before[0], now[0])]
            word = stats.estimate.word_of(*step[1:], margin)
            found.append((row["arm"], row["arm"], *told, word, row["blocks"], *ends))
            at[row["arm"]] = now

        before = at[first]
        for _, row in chain.iterrows():
            now = _logs(row)
            add(row, before, _apart(before, now), now)
            before = now
        last = chain.iloc[-1] if len(chain) else None
        if last is not None:
            for _, row in rows[rows["baseline"] == last["arm"]].head(1).iterrows():
                step, start = _logs(row), at[last["arm"]]
                back = tuple(-x for x in (step[0], step[2], step[1]))  # from its end to its start
                add(row, start, step, _apart(back, start))
                last = row
            ends = [100 * math.expm1(x) for x in at[last["arm"]]]
            word = stats.estimate.word_of(*at[last["arm"]][1:], margin)
            word = last["verdict"] if last["baseline"] == first else word
            found.append(("all together", last["arm"], *ends, word, last["blocks"], 0.0, ends[0]))
        columns = ["step", "arm", "overhead_pct", "lo_pct", "hi_pct", "verdict", "blocks"]
        return pd.DataFrame(found, columns=[*columns, "start_pct", "end_pct"])

    def added_up(self, question: str, whole: str) -> pd.DataFrame:
        """The arms of a question one on top of the other, and `whole`, the arm that has them all, beside
        them: columns as `steps`. Empty where the question was not answered."""
        columns = ["step", "arm", "overhead_pct", "lo_pct", "hi_pct", "verdict", "blocks"]
        columns += ["start_pct", "end_pct"]
        rows = self.about(question)
        metric = next((m for m in PROCESSOR if m in set(rows["metric"])), "")
        rows = rows[rows["metric"].eq(metric) & rows["lo_pct"].notna()].drop_duplicates("arm")
        found, at = [], 0.0
        for row in rows[rows["arm"] != whole].to_dict("records"):
            start = at
            at += math.log1p(row["overhead_pct"] / 100)
            ends = [100 * math.expm1(start + math.log1p(row[c] / 100)) for c in columns[3:5]]
            told = (row["overhead_pct"], *ends, row["verdict"], row["blocks"])
            found.append(
                (row["arm"], row["arm"], *told, *(100 * math.expm1(x) for x in (start, at)))
            )
        for row in rows[rows["arm"] == whole].to_dict("records"):
            told = [row[c] for c in columns[2:7]]
            found.append((f"{whole}, measured", whole, *told, 0.0, row["overhead_pct"]))
        return pd.DataFrame(found, columns=columns)

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
        middle = middle.reindex(columns=["tps", "cpu_per_transaction"])
        rows = rows[~rows["joint"]].join(middle, on="threads")
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

    def expectation(self) -> pd.DataFrame:
        """What the cipher alone takes, beside what was measured (CPU per transaction): columns threads,
        bytes a transaction (median of the baseline), MB_per_s of the cipher, cipher_us, cpu_ms,
        expected_pct, and overhead_pct, lo_pct, hi_pct of the headline; empty where no cipher was timed."""
        metric, rates = self.study.cipher.get("bytes"), self.meta.get("cipher_B_per_s")
        columns = ["threads", "bytes", "MB_per_s", "cipher_us", "cpu_ms", "expected_pct"]
        columns += ["overhead_pct", "lo_pct", "hi_pct"]
        lead = next((x for x in self.headlines() if x["metric"] == "cpu_per_transaction"), None)
        if not (metric and rates) or lead is None:
            return pd.DataFrame(columns=columns)
        base = self.judged(self.main)
        base = base[base["arm"] == self.study.baseline.name]
        of = base.groupby(["threads", "metric"])["value"].median().unstack()
        rows, rate = [], float(np.median(rates))
        for threads, row in of.reindex(columns=[metric, "cpu_per_transaction"]).iterrows():
            used, cpu = row
            rows.append(
                (threads, used, rate / 1e6, 1e6 * used / rate, 1e3 * cpu, 100 * used / rate / cpu)
            )
        found = pd.DataFrame(rows, columns=columns[:6]).dropna()
        return found.assign(**{c: lead[c] for c in columns[6:]})

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
        seen = self.evidence.copy()
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
        seen = self.evidence
        said = []
        for arm, part in seen.groupby("arm", sort=False):
            clear = part[part["found"] == "plain"]["evidence"].unique()
            if len(clear) and (part["found"] == "encrypted").any():
                said.append(f"With {arm} the rows can still be read in the {', '.join(clear)}.")
        return " ".join(said) or "No arm that encrypts anything left rows readable elsewhere."

    @property
    def pinned(self) -> pd.DataFrame:
        """Values of the old version given to the new one: columns arm, variable, value, refused."""
        pinned = self.meta.get("pinned", {}).items()
        rows = [
            (arm, name, value, "")
            for arm, part in pinned
            for name, value in part["settings"].items()
        ]
        rows += [
            (arm, name, "", why) for arm, part in pinned for name, why in part["refused"].items()
        ]
        return pd.DataFrame(rows, columns=["arm", "variable", "value", "refused"])

    @property
    def builds(self) -> pd.DataFrame:
        """How the compared builds were made: columns fact, one a build; empty where nobody looked."""
        builds = self.meta.get("builds", {})
        facts = dict.fromkeys(f for told in builds.values() for f in told)
        rows = [{"fact": f} | {b: told.get(f, "") for b, told in builds.items()} for f in facts]
        return pd.DataFrame(rows, columns=["fact", *builds])

    @property
    def upgrade(self) -> pd.DataFrame:
        """The old version's data directory, opened by the new one: columns fact, found."""
        if not (found := self.meta.get("upgrade")):
            return pd.DataFrame(columns=["fact", "found"])
        said = found.get("said", [])
        rows = [("from", found["from"]), ("to", found["to"])]
        if found.get("refused"):
            lts = found["from"].startswith("MySQL 8.0") and found["to"].startswith("MySQL 9")
            through = ": MySQL 9 opens the data of an LTS release alone; go through 8.4" * lts
            rows.append(("result", f"not in one step{through}"))
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
        bare = (a.name for a in self.study.arms if not a.pin and not a.settings)
        return next(bare, self.study.arms[0].name)

    @property
    def main(self) -> str:
        """Name of the study's first workload."""
        return self.study.workloads[0].name

    @property
    def metric(self) -> str:
        """The metric that decides about the first workload."""
        return self.study.workloads[0].deciding[0]

    @property
    def threads(self) -> int:
        """The thread count that single figures show: of the first workload the one that most
        workloads share, else the one in the middle."""
        works = self.study.workloads
        shared, own = Counter(t for w in works for t in w.threads), works[0].threads
        return max(own, key=lambda t: (shared[t], -abs(own.index(t) - len(own) // 2)))

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

    def quantiles(self, workload: str, threads: int) -> pd.DataFrame:
        """Latency quantiles of each arm, as `tidy.quantiles` reads them; no row without a percentile."""
        if self.judged(workload, "p95").empty:
            return pd.DataFrame(columns=["arm", "q", "value_s", "lo", "hi"])
        return tidy.quantiles(self.folder, workload, threads)

    def intervals(self, workload: str) -> pd.DataFrame:
        """Every second of a workload's runs, as `tidy.intervals` reads them."""
        return tidy.intervals(self.folder, workload)

    @cached_property
    def warmups(self) -> pd.DataFrame:
        """Throughput after each clean restart, as `tidy.warmups` reads it."""
        return tidy.warmups(self.folder)

    @cached_property
    def stages(self) -> pd.DataFrame:
        """What every process of a pipe did, as `tidy.stages` reads it."""
        return tidy.stages(self.folder)

    @cached_property
    def evidence(self) -> pd.DataFrame:
        """Evidence counted over runs: columns arm, evidence, check, found, expected, runs."""
        return tidy.evidence(self.folder)

    @cached_property
    def profiles(self) -> pd.DataFrame:
        """What `perf` saw of each run, as `tidy.profiles` reads it."""
        return tidy.profiles(self.folder)

    @cached_property
    def variables(self) -> dict[str, dict[str, str]]:
        """Arm -> all global variables as `tidy.variables` reads them."""
        return tidy.variables(self.folder)

    @cached_property
    def differences(self) -> pd.DataFrame:
        """Variables that differ between arms: columns variable, one per arm, asked (for)."""
        return tidy.differences(self.folder)


@dataclass(frozen=True)
class Together(Results):
    """Campaigns of one study, each with a question, a plan and a baseline of its own, shown
    together. `folder` is the first one's; where only one can be shown, it is the first that has it."""

    more: tuple[Path, ...] = ()

    @cached_property
    def parts(self) -> tuple[Results, ...]:
        return tuple(map(Results, (self.folder, *self.more)))

    def _first(self, workload: str, arm: str = "") -> Results:
        """The first part that measured a workload, with an arm where one is named."""
        for part in self.parts:
            arms = {a.name for a in part.study.arms}
            if workload in {w.name for w in part.study.workloads} and (not arm or arm in arms):
                return part
        return self.parts[0]

    def _all(self, of: Callable[[Results], pd.DataFrame]) -> pd.DataFrame:
        """A frame of every part, one after the other; a run's name begins with its question."""
        found = [(p.study.key, of(p)) for p in self.parts]
        found = [(key, f) for key, f in found if len(f)] or found[:1]
        named = [f.assign(run=f"{k}/" + f["run"]) if "run" in f else f for k, f in found]
        out = pd.concat(named, ignore_index=True)
        out.attrs = dict(found[0][1].attrs)
        return out

    @cached_property
    def meta(self) -> dict:
        first, all_ = self.parts[0].meta, [p.meta for p in self.parts]
        merged = {
            k: {name: v for m in reversed(all_) for name, v in m.get(k, {}).items()}
            for k in ("engines", "pinned", "skipped", "builds")
        }
        upgrade = [m["upgrade"] for m in all_ if m.get("upgrade")]
        return (
            first
            | merged
            | ({"upgrade": upgrade[0]} if upgrade else {})
            | {
                "campaigns": [m["campaign"] for m in all_],
                "finished": max(m.get("finished") or "" for m in all_),
            }
        )

    @cached_property
    def study(self) -> study.Study:
        """The first campaign's, with the arms and workloads of all, in order of appearance."""
        first, arms, works = self.parts[0].study, {}, {}
        for s in (p.study for p in self.parts):
            for arm in (s.baseline, *s.arms):
                arms.setdefault(arm.name, arm)
            for work in s.workloads:
                works.setdefault(work.name, work)
        del arms[first.baseline.name]
        return replace(first, arms=tuple(arms.values()), workloads=tuple(works.values()))

    @cached_property
    def tidy(self) -> pd.DataFrame:
        found = self._all(lambda p: p.tidy)
        found.attrs["problems"] = [
            f"{p.study.key}/{said}" for p in self.parts for said in p.tidy.attrs["problems"]
        ]
        return found

    @cached_property
    def runs(self) -> pd.DataFrame:
        return self._all(lambda p: p.runs)

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        whole = [p for p in self.parts if len(p.judged())] or self.parts[:1]
        found = pd.concat([p.verdicts for p in whole], ignore_index=True)
        found.attrs = dict(whole[0].verdicts.attrs)
        return found

    def judge(
        self, *, workload: str = "", metric: str = "", margin_pct: float = 0.0
    ) -> pd.DataFrame:
        asked = [p for p in self.parts if len(p.judged(workload, metric))] or self.parts[:1]
        found = (p.judge(workload=workload, metric=metric, margin_pct=margin_pct) for p in asked)
        return pd.concat(found, ignore_index=True)

    def pairs(self, workload: str, metric: str, arm: str = "") -> pd.DataFrame:
        return self._first(workload, arm).pairs(workload, metric, arm)

    def path(self, workload: str, metric: str, arm: str = "") -> pd.DataFrame:
        return self._first(workload, arm).path(workload, metric, arm)

    def price(self, workload: str) -> pd.DataFrame:
        measured = [p for p in self.parts if len(p.judged(workload, "tps"))] or self.parts[:1]
        return pd.concat([p.price(workload) for p in measured], ignore_index=True)

    def quantiles(self, workload: str, threads: int) -> pd.DataFrame:
        return self._first(workload).quantiles(workload, threads)

    def intervals(self, workload: str) -> pd.DataFrame:
        return self._first(workload).intervals(workload)

    @cached_property
    def warmups(self) -> pd.DataFrame:
        return self._all(lambda p: p.warmups)

    @cached_property
    def stages(self) -> pd.DataFrame:
        found = self._all(lambda p: p.stages)
        return found.fillna({c: 0.0 for c in found if c.startswith(("runs", "waits"))})

    @cached_property
    def profiles(self) -> pd.DataFrame:
        return self._all(lambda p: p.profiles)

    @cached_property
    def evidence(self) -> pd.DataFrame:
        keys = ["arm", "evidence", "check", "found", "expected"]
        return self._all(lambda p: p.evidence).groupby(keys, sort=False)["runs"].sum().reset_index()

    @cached_property
    def differences(self) -> pd.DataFrame:
        """A variable that differs in several campaigns stands once, with the values of all arms."""
        found = self._all(lambda p: p.differences)
        asked = found.groupby("variable", sort=False)["asked"].any()
        values = found.drop(columns="asked").groupby("variable", sort=False).first()
        return values.assign(asked=asked).reset_index()

    def fact(self, name: str) -> pd.DataFrame:
        found = (p.fact(name) for p in self.parts)
        return next((f for f in found if len(f)), pd.DataFrame())


def load(*folders: Path) -> Results:
    """The results of a campaign's folder, or of several campaigns of one study, the headline first.

    Raises StudyError where these belong to several studies or answer one question twice."""
    if len(folders) == 1:
        return Results(folders[0])
    found = Together(folders[0], tuple(folders[1:]))
    if len(about := dict.fromkeys(p.study.name for p in found.parts)) > 1:
        raise study.StudyError(f"a page is about one study, not about {' and '.join(about)}")
    keys = Counter(p.study.key for p in found.parts)
    if twice := next((k for k, n in keys.items() if n > 1), None):
        raise study.StudyError(f"two of the campaigns answer the question {twice!r}: name one")
    return found


def names(text: str) -> list[str]:
    """The names of campaigns in a text that divides them by commas."""
    return [n.strip() for n in text.split(",") if n.strip()]


def named(text: str) -> tuple[Path, ...]:
    """The folders of these campaigns. Raises paths.NotFound."""
    return tuple(map(paths.campaign, names(text)))


def beside(folder: Path) -> tuple[Path, ...]:
    """The campaigns of the page of `folder`, in the order of the study's questions: itself, and of
    every other question the newest finished one that lies beside it, of the same builds, processor
    and margin. A campaign that asked all questions at once stands alone."""
    own = _facts(folder)
    if not own.get("key"):
        return (folder,)
    newest: dict[str, tuple[str, str]] = {}
    for file in folder.parent.glob("*/campaign.json"):
        other = _facts(file.parent)
        if _alike(other) == _alike(own) and other.get("key") and other.get("finished") != "":
            now = (str(other.get("finished") or other.get("created") or ""), file.parent.name)
            newest[other["key"]] = max(now, newest.get(other["key"], ("", "")))
    newest[own["key"]] = ("", folder.name)
    order = [k for k in _questions(own) if k in newest]
    return tuple(folder.with_name(newest[k][1]) for k in dict.fromkeys([*order, *newest]))


def _facts(folder: Path) -> dict:
    try:
        return json.loads((folder / "campaign.json").read_text())
    except (OSError, ValueError):
        return {}


def _alike(facts: dict) -> tuple:
    """What campaigns share that stand on one page."""
    host, given = facts.get("host"), facts.get("parameters") or {}
    cpu = host.get("cpu") if isinstance(host, dict) else host
    builds = (facts.get("engine") or {}).get("label"), given.get("old") or "mysql-8.0"
    return facts.get("study"), builds, cpu, facts.get("margin_pct")


def _questions(facts: dict) -> dict[str, str]:
    try:
        return studies.questions(facts["study"], facts["engine"]["kind"])
    except (study.StudyError, KeyError):  # a study that is no more
        return {}


def advice(rows: list[pd.Series], margin_pct: float) -> pd.DataFrame:
    """Who should switch it on: the two domains of the binlog document, each with what it advised
    and what the last judged row of `headlines` means for it. Columns domain, the document advised,
    this campaign says."""
    row = next(r for r in reversed(rows) if r["verdict"] != schedule.NOT_JUDGED or r is rows[0])
    of = "" if row.get("metric", "tps") == "tps" else " of processor time"
    most, least = row["hi_pct"], row["lo_pct"]
    known = pd.notna(most)
    cost = f"it costs at most {most:.1f} %{of}" if known and most > 0 else "no cost was resolved"
    strict = f"Switch it on: {cost}, and that is the price of the rule."
    open_ = {
        "same": f"Switch it on: the cost lies within ±{margin_pct:g} %{of}.",
        "faster": "Switch it on: no cost was found, the encrypted arm was not slower.",
        "slower": f"It is not free: between {least:.1f} and {most:.1f} %{of}. Switch it on where the"
        " log leaves the machine; else weigh it.",
    }.get(row["verdict"])
    if not open_:
        ends = f"anything from {least:.1f} to {most:.1f} %{of} is possible".replace("-", "−")
        ends = ends if known else "too few pairs for an interval"
        open_ = f"Not decided here: {ends}. Measure longer before you rely on a cost of nothing."
    return pd.DataFrame(
        [
            ("finance, medicine", "required: a leak is a legal disaster", strict),
            ("other services", "recommended: the loss is slight with AES instructions", open_),
        ],
        columns=["domain", "the document advised", "this campaign says"],
    )


def _logs(row: pd.Series) -> tuple[float, float, float]:
    """Estimate, lo and hi of a row on the log scale."""
    return tuple(math.log1p(row[c] / 100) for c in ("overhead_pct", "lo_pct", "hi_pct"))


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
