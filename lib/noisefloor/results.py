"""What a notebook shows of a campaign: its tables, judged as the campaign itself judged them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from . import paths, schedule, stats, study, tidy


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

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The verdict table: all comparisons, joint effects and A/A controls."""
        slices = self.runs[~self.runs["warmup"]]["slice_s"]
        return schedule.verdicts(
            self.study, self._judged, pair_seconds=2 * (slices.median() + 0.5), budget_pairs=None
        )

    def of(self, workload: str = "", metric: str = "", control: bool = True) -> pd.DataFrame:
        """Rows of the verdict table; "" for all workloads or metrics."""
        v = self.verdicts
        kept = (v["workload"] == workload) | (workload == "")
        return v[kept & ((v["metric"] == metric) | (metric == "")) & (control | ~v["control"])]

    def pairs(self, workload: str, metric: str, arm: str = "") -> pd.DataFrame:
        """One row a pair of one workload and metric, all thread counts."""
        found = stats.pairs(self._judged, baseline=self.study.baseline.name)
        arm = arm or self.study.arms[0].name
        return found[
            (found["workload"] == workload) & (found["metric"] == metric) & (found["arm"] == arm)
        ]

    def path(self, workload: str, metric: str, arm: str = "") -> pd.DataFrame:
        """How the interval narrowed, unit by unit: `stats.path` of each thread count."""
        parts = []
        for threads, one in self.pairs(workload, metric, arm).groupby("threads"):
            one.attrs["design"] = self.study.design
            found = stats.path(one, margin_pct=self.study.margin_pct)
            parts.append(found.assign(threads=threads))
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

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
        return pd.DataFrame(self.meta["skipped"].items(), columns=["left out", "reason"])

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
            f"Not decided here: anything from {least:.1f} to {most:.1f} % is possible."
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
