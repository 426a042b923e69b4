"""An opened campaign, or all campaigns of a page."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from noisefloor import model, paths, schedule, stats, studies
from noisefloor.data import design, question, tidy


class Beside(NamedTuple):
    """Folders of the campaigns on a page beside the leading one."""

    more: tuple[Path, ...] = ()  # each leads another question
    others: tuple[Path, ...] = ()  # further sittings of any of them, whatever their processor
    apart: tuple[tuple[Path, str], ...] = ()  # left out, and why


_ALONE = Beside()


@dataclass(frozen=True)
class Results:
    """One campaign, or all campaigns of a study's page, which the campaign in `folder` leads. Data of
    runs are those of the leading campaigns, one a question; verdicts are those of all campaigns. Frames
    are read once, at their first use."""

    folder: Path
    beside: Beside = _ALONE

    # -- the campaigns

    @cached_property
    def opened(self) -> tidy.Opened:
        """The leading campaign's folder, opened."""
        return tidy.opened(self.folder)

    @cached_property
    def parts(self) -> tuple["Results", ...]:
        """The leading campaigns, each by itself, one a question; the first is the page's headline."""
        several = self.beside.more or self.beside.others
        return tuple(map(Results, (self.folder, *self.beside.more))) if several else (self,)

    @cached_property
    def every(self) -> tuple["Results", ...]:
        """All campaigns, each by itself, question by question and in the order of time."""
        turn = {p.study.key: n for n, p in enumerate(self.parts)}
        campaigns = (*self.parts, *map(Results, self.beside.others))

        def key(campaign: Results) -> tuple[int, str, str]:
            return turn[campaign.study.key], design.began(campaign.meta), campaign.folder.name

        return tuple(sorted(campaigns, key=key))

    @cached_property
    def by_processor(self) -> dict[tuple[str, str], list["Results"]]:
        """(question, processor) -> its campaigns in the order of time; the leading one's processor
        first."""
        groups: dict[tuple[str, str], list[Results]]
        groups = {(p.study.key, p.processor): [] for p in self.parts}
        for campaign in self.every:
            groups.setdefault((campaign.study.key, campaign.processor), []).append(campaign)
        turn = [p.study.key for p in self.parts]
        return dict(sorted(groups.items(), key=lambda item: turn.index(item[0][0])))

    @property
    def processor(self) -> str:
        """The processor of the (leading) campaign, as `design.processor_name` names it."""
        return design.processor_name(self.parts[0].meta)

    @cached_property
    def left(self) -> tuple[str, ...]:
        """Which campaigns are left out, and why."""
        return tuple(f"{folder.name} {why}" for folder, why in self.beside.apart)

    @property
    def sources(self) -> tuple[Path, ...]:
        """Folders beside its campaigns from which a page is made."""
        return ()

    # -- what was measured

    @cached_property
    def meta(self) -> dict[str, Any]:
        """campaign.json of the first campaign, with `campaign`, `campaigns` and `raw_files`; of
        several also `first` and `finished` (earliest and latest end), `hosts`, and all builds."""
        if self.parts == (self,):
            return self.opened.meta | {
                "campaign": self.folder.name,
                "campaigns": [self.folder.name, *(f.name for f, _ in self.beside.apart)],
                "raw_files": paths.relative(self.folder),
            }
        each = [p.meta for p in self.parts]
        merged: dict[str, Any] = {
            key: {name: v for m in reversed(each) for name, v in m.get(key, {}).items()}
            for key in ("engines", "skipped", "builds")
        }
        if upgrades := [m["upgrade"] for m in each if m.get("upgrade")]:
            merged["upgrade"] = upgrades[0]
        others = (f.name for f in self.beside.others)
        further = (*others, *(f.name for f, _ in self.beside.apart))
        merged["campaigns"] = [*(m["campaign"] for m in each), *further]
        ended = sorted(str(r.meta.get("finished") or "") for r in self.every)
        merged |= {"first": ended[0], "finished": ended[-1]}
        merged["hosts"] = [m.get("host") for m in each]
        return each[0] | merged

    @cached_property
    def study(self) -> model.Study:
        """The study as it was measured: the first campaign's, with arms and workloads of all, in order
        of appearance."""
        if self.parts == (self,):
            return model.study_of(self.meta)
        first = self.parts[0].study
        arms: dict[str, model.Arm] = {}
        workloads: dict[str, model.Workload] = {}
        for study in (p.study for p in self.parts):
            arms |= {a.name: a for a in study.compared if a.name not in arms}
            workloads |= {w.name: w for w in study.workloads if w.name not in workloads}
        del arms[first.baseline.name]
        return replace(first, arms=tuple(arms.values()), workloads=tuple(workloads.values()))

    def measured(self, workload: str, arm: str = "") -> "Results":
        """The first leading campaign that measured a workload (and `arm`, if one is named); the
        page's first campaign if none did."""
        for part in self.parts:
            arms = {a.name for a in part.study.arms}
            if workload in {w.name for w in part.study.workloads} and (not arm or arm in arms):
                return part
        return self.parts[0]

    def frame(self, of: Callable[[tidy.Opened], pd.DataFrame]) -> pd.DataFrame:
        """The frame that `of` makes of each leading campaign, one after the other. With several
        campaigns a run's name begins with its question."""
        if len(self.parts) == 1:
            return of(self.parts[0].opened)
        frames = [(p.study.key, p.frame(of)) for p in self.parts]
        frames = [(key, f) for key, f in frames if len(f)] or frames[:1]
        named = [f.assign(run=f"{key}/" + f["run"]) if "run" in f else f for key, f in frames]
        return pd.concat(named, ignore_index=True)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row a run, as `tidy.run_table` reads them."""
        return self.frame(tidy.run_table)

    @cached_property
    def tidy(self) -> pd.DataFrame:
        """The tidy table (`tidy.COLUMNS`)."""
        return self.frame(tidy.tidy_table)

    @cached_property
    def _without_warmups(self) -> pd.DataFrame:
        return self.tidy[~self.tidy["warmup"]]

    def judged(self, workload: str = "", metric: str = "") -> pd.DataFrame:
        """Rows of the tidy table without warm-ups; "" for all workloads or metrics."""
        return only(self._without_warmups, workload=workload, metric=metric)

    def pairs(self, workload: str, metric: str, arm: str = "") -> pd.DataFrame:
        """One row a pair of one workload and metric, at all thread counts; columns as `stats.pairs`.
        arm: "" for the first one that has pairs."""
        part = self.measured(workload, arm)
        rows = part.judged(workload, metric)
        each = stats.pairs(rows, baseline=part.study.baseline.name)
        arms = [a.name for a in part.study.arms]
        return only(each, arm=arm or next((a for a in arms if (each["arm"] == a).any()), arms[0]))

    # -- verdicts

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The verdict table of all campaigns: every question on every processor, the leading one's
        first. Columns of `stats.row` and `question.MORE`."""
        return self.judge()

    @property
    def result(self) -> pd.DataFrame:
        """The combined result of all campaigns of each question: `verdicts` without the A/A controls, a
        row a comparison and processor, columns `question.RESULT`."""
        rows = self.verdicts
        return rows[~rows["control"]].reindex(columns=question.RESULT).reset_index(drop=True)

    def judge(
        self, *, workload: str = "", metric: str = "", margin_pct: float = 0.0
    ) -> pd.DataFrame:
        """`verdicts` of one workload and metric ("" for all). margin_pct: replaces the declared margin
        (0: keeps it). Raises Damaged if no pair is whole."""
        results = []
        for (_, processor), campaigns in self.by_processor.items():
            tables = []
            for r in campaigns:
                table = r.alone(workload=workload, metric=metric, margin_pct=margin_pct)
                if len(table):
                    tables.append((design.sitting_key(r.opened.meta), table))
            if tables:
                asked = campaigns[-1].study  # before 0.3 it does not say how many sittings
                now = None if asked.profile.quick else studies.present(asked)
                newest = replace(asked, sittings=(now or asked).sittings)
                results.append(question.combined(tables, newest, processor))
        if not results:
            raise tidy.Damaged(f"{self.folder.name} holds no whole pair; nothing can be judged")
        return pd.concat(results, ignore_index=True)

    def alone(
        self, *, workload: str = "", metric: str = "", margin_pct: float = 0.0
    ) -> pd.DataFrame:
        """The verdict table of this campaign by itself, as if nothing else had been measured; empty if
        it has no whole pair that counts. Arguments as for `judge`. Columns of `stats.row`, question and
        rate (offered, 1/s; 0: as many as it can do). Raises Damaged."""
        if (asked := (workload, metric, margin_pct)) not in self._judgements:
            self._judgements[asked] = self._alone(*asked)
        return self._judgements[asked].copy()

    @cached_property
    def _judgements(self) -> dict[tuple[str, str, float], pd.DataFrame]:
        return {}

    def _alone(self, workload: str, metric: str, margin_pct: float) -> pd.DataFrame:
        asked = replace(self.study, margin_pct=margin_pct or self.study.margin_pct)
        slices = self.runs[~self.runs["warmup"]]["slice_s"]
        rows = self.judged(workload, metric)
        metrics = {m for w in asked.workloads for m in w.metrics}
        if not rows["metric"].isin(metrics).any():
            return pd.DataFrame(columns=[*stats.row.COLUMNS, "question", "rate"])
        first, plan = asked.workloads[0], self.meta.get("plan")
        timed, turns = first.tool == "time", 1 if schedule.at_once(asked, first) else 2
        turns += bool(timed and plan and plan["control"])  # its third run: A again
        try:
            table = schedule.judge_campaign(
                asked,
                rows,
                plan,
                saturated=self.opened.tidy_runs.saturated,
                pair_seconds=turns * (slices.median() + (0.0 if timed else schedule.LOST_S)),
            )
        except ValueError as e:
            raise tidy.Damaged(f"{self.folder.name} cannot be judged: {e}") from None
        turn = {a.name: n for n, a in enumerate((*self.study.arms, self.study.control))}
        group = table.groupby(["workload", "metric"], sort=False).ngroup()
        rank = group * len(turn) + table["arm"].map(turn)  # arms in the order of the study
        table = table.loc[rank.sort_values(kind="stable").index].reset_index(drop=True)
        rates = {w.name: w.rate for w in self.study.workloads}
        return table.assign(question=self.study.key, rate=table["workload"].map(rates))

    def of(
        self,
        workload: str = "",
        metric: str = "",
        control: bool = True,
        question: str | None = None,
    ) -> pd.DataFrame:
        """Rows of `verdicts` on the processor of each question's leading campaign; "" for all workloads
        or metrics, None for all questions; `control`: with the A/A controls."""
        rows = only(self.verdicts, workload=workload, metric=metric)
        on = {p.study.key: p.processor for p in self.parts}
        rows = rows[rows["processor"].eq(rows["question"].map(on))]
        rows = rows[control | ~rows["control"]]
        return rows if question is None else rows[rows["question"] == question]


def only(table: pd.DataFrame, **asked: str) -> pd.DataFrame:
    """The rows with these values in these columns; "" for any value."""
    kept = np.ones(len(table), bool)
    for column, value in asked.items():
        if value:
            kept &= table[column].eq(value).to_numpy(bool)
    return table[kept]
