"""Campaigns, opened: one, or several of a study."""

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path

import pandas as pd

from noisefloor import model as study
from noisefloor import paths, schedule, stats, studies
from noisefloor.data import design, question, tidy
from noisefloor.data.results.tables import LATENCY, PROCESSOR, THROUGHPUT, Tables, only

LONGEST = 60_000  # characters of a raw file that are shown
SHORT = ("smoke", "quick")  # profiles whose campaigns stand for themselves


def cut(text: str) -> str:
    """`text`, not longer than is shown."""
    return text if len(text) <= LONGEST else text[:LONGEST] + "\n… (cut here)"


def _frame(of: Callable) -> cached_property:
    """A frame of `tidy` as a property: that of every campaign."""
    return cached_property(wraps(of)(lambda self: self._all(of)))


@dataclass(frozen=True)
class Results(Tables):
    """One campaign, opened, or all campaigns of a study's page: `folder` leads it, `more` lead its
    other questions, `others` are further sittings of either, whatever their processor. What runs say
    is shown of the leading campaigns; verdicts are those of all. Frames are read once, when first
    asked for."""

    folder: Path
    more: tuple[Path, ...] = field(default=(), kw_only=True)
    others: tuple[Path, ...] = field(default=(), kw_only=True)
    apart: tuple[Path, ...] = field(default=(), kw_only=True)  # campaigns of another design

    # -- what runs say, as the function of `tidy` of that name reads it

    runs = _frame(tidy.runs)
    warmups = _frame(tidy.warmups)
    lags = _frame(tidy.lags)
    profiles = _frame(tidy.profiles)

    @cached_property
    def stages(self) -> pd.DataFrame:
        """What every process of a pipe did, as `tidy.stages` reads it."""
        found = self._all(tidy.stages)
        return found.fillna({c: 0.0 for c in found if c.startswith(("runs", "waits"))})

    @cached_property
    def evidence(self) -> pd.DataFrame:
        """Evidence counted over runs: columns arm, evidence, check, found, expected, runs."""
        keys = ["arm", "evidence", "check", "found", "expected"]
        return self._all(tidy.evidence).groupby(keys, sort=False)["runs"].sum().reset_index()

    @cached_property
    def variables(self) -> dict[str, dict[str, str]]:
        """Arm -> all global variables as `tidy.variables` reads them, of the first campaign."""
        return tidy.variables(self._campaign)

    @cached_property
    def differences(self) -> pd.DataFrame:
        """Variables that differ between arms: columns variable, one per arm, asked (for); each
        once, with the values of all arms."""
        found = self._all(tidy.differences)
        by = found.groupby("variable", sort=False)
        values = by[[c for c in found if c not in ("variable", "asked")]].first()
        return values.assign(asked=by["asked"].any()).reset_index()

    def quantiles(self, workload: str, threads: int) -> pd.DataFrame:
        """Latency quantiles of each arm, as `tidy.quantiles` reads them; none without a p95."""
        part = self._first(workload)
        if threads not in set(part.judged(workload, "p95")["threads"]):
            return pd.DataFrame(columns=["arm", "q", "value_s", "lo", "hi"])
        return tidy.quantiles(part._campaign, workload, threads)

    def intervals(self, workload: str) -> pd.DataFrame:
        """Every second of a workload's runs, as `tidy.intervals` reads them."""
        return tidy.intervals(self._first(workload)._campaign, workload)

    def fact(self, name: str) -> pd.DataFrame:
        """What was measured once in the campaign under this name; empty when it was not."""
        found = (tidy.fact(p.folder, name) for p in self.parts)
        return next((f for f in found if len(f)), pd.DataFrame())

    def raw(self, run: str) -> dict[str, str]:
        """What the tools printed in a run, name of the file -> text; without any, run.json."""
        folder, found = tidy.inside(self.folder) / run, {}
        for file in sorted(folder.glob("*.txt")) or [folder / "run.json"]:
            try:
                found[f"{run}/{file.name}"] = cut(file.read_text(errors="replace"))
            except OSError as e:
                found[f"{run}/{file.name}"] = f"It cannot be read: {e.strerror}."
        return found

    # -- one campaign, or several

    @cached_property
    def parts(self) -> tuple["Results", ...]:
        """The leading campaigns, each by itself, one a question; the first is the page's headline."""
        whole = self.more or self.others
        return tuple(map(Results, (self.folder, *self.more))) if whole else (self,)

    @cached_property
    def every(self) -> tuple["Results", ...]:
        """All campaigns, each by itself, question by question and in the order of time."""
        turn = {p.study.key: n for n, p in enumerate(self.parts)}
        found = (*self.parts, *map(Results, self.others))
        return tuple(sorted(found, key=lambda r: (turn[r.study.key], r.when, r.folder.name)))

    @cached_property
    def by_processor(self) -> dict[tuple[str, str], list["Results"]]:
        """(question, processor) -> its campaigns in the order of time; the leading one's processor
        first."""
        leads = {(p.study.key, p.processor): [] for p in self.parts}
        found: dict[tuple[str, str], list[Results]] = leads
        for r in self.every:
            found.setdefault((r.study.key, r.processor), []).append(r)
        turn = [p.study.key for p in self.parts]
        return dict(sorted(found.items(), key=lambda item: turn.index(item[0][0])))

    @cached_property
    def when(self) -> str:
        """When the campaign began."""
        return str(self._campaign.meta.get("created") or "")

    @property
    def processor(self) -> str:
        """The processor of the (leading) campaign, as `design.processor` names it."""
        return design.processor(self.parts[0].meta)

    @cached_property
    def left(self) -> tuple[str, ...]:
        """Which campaigns are left out, and why."""
        own = {p.study.key: p.design for p in self.parts}
        found = ((f.name, Results(f)) for f in self.apart)
        return tuple(f"{name} has another design: {_differ(r, own)}" for name, r in found)

    @property
    def design(self) -> design.Design:
        """What the campaign compares and under which load."""
        return design.of(self._campaign.meta)

    @cached_property
    def _campaign(self) -> tidy.Opened:
        return tidy.opened(self.folder)

    def _all(self, of: Callable[[tidy.Opened], pd.DataFrame]) -> pd.DataFrame:
        """A frame of every campaign, one after the other; of several a run's name begins with its
        question."""
        if len(self.parts) == 1:
            return of(self.parts[0]._campaign)
        found = [(p.study.key, p._all(of)) for p in self.parts]
        found = [(key, f) for key, f in found if len(f)] or found[:1]
        named = [f.assign(run=f"{k}/" + f["run"]) if "run" in f else f for k, f in found]
        out = pd.concat(named, ignore_index=True)
        out.attrs = dict(found[0][1].attrs)
        return out

    def _first(self, workload: str, arm: str = "") -> "Results":
        """The first campaign that measured a workload, with an arm where one is named."""
        for part in self.parts:
            arms = {a.name for a in part.study.arms}
            if workload in {w.name for w in part.study.workloads} and (not arm or arm in arms):
                return part
        return self.parts[0]

    def _measured(self, workload: str = "", metric: str = "") -> tuple["Results", ...]:
        """The campaigns that have judged rows; the first where none has."""
        found = tuple(p for p in self.parts if len(p.judged(workload, metric)))
        return found or self.parts[:1]

    @cached_property
    def meta(self) -> dict:
        """campaign.json, the first one's, with the names of the campaigns and their folders,
        and of several the machine of each: `hosts`."""
        if self.parts == (self,):
            return self._campaign.meta | {
                "campaign": self.folder.name,
                "campaigns": [f.name for f in (self.folder, *self.apart)],
                "raw_files": paths.shown(self.folder),
            }
        all_ = [p.meta for p in self.parts]
        merged = {
            k: {name: v for m in reversed(all_) for name, v in m.get(k, {}).items()}
            for k in ("engines", "skipped", "builds")
        }
        if found := [m["upgrade"] for m in all_ if m.get("upgrade")]:
            merged["upgrade"] = found[0]
        beside = (f.name for f in (*self.others, *self.apart))
        merged["campaigns"] = [*(m["campaign"] for m in all_), *beside]
        ended = sorted(str(r.meta.get("finished") or "") for r in self.every)
        merged |= {"first": ended[0], "finished": ended[-1]}
        merged["hosts"] = [m.get("host") for m in all_]
        return all_[0] | merged

    @cached_property
    def study(self) -> study.Study:
        """The study as it was measured: the first campaign's, with arms and workloads of all, in
        order of appearance."""
        if self.parts == (self,):
            return study.restored(self.meta)
        first, arms, works = self.parts[0].study, {}, {}
        for s in (p.study for p in self.parts):
            arms = arms | {a.name: a for a in s.compared if a.name not in arms}
            works = works | {w.name: w for w in s.workloads if w.name not in works}
        del arms[first.baseline.name]
        return replace(first, arms=tuple(arms.values()), workloads=tuple(works.values()))

    @cached_property
    def tidy(self) -> pd.DataFrame:
        """The tidy table; what was left out stands in ``attrs["problems"]``."""
        found = self._all(tidy.table)
        if len(self.parts) > 1:
            found.attrs["problems"] = [
                f"{p.study.key}/{said}" for p in self.parts for said in p.tidy.attrs["problems"]
            ]
        return found

    @cached_property
    def _judged(self) -> pd.DataFrame:
        return self.tidy[~self.tidy["warmup"]]

    def judged(self, workload: str = "", metric: str = "") -> pd.DataFrame:
        """Rows of the tidy table without warm-ups; "" for all workloads or metrics."""
        return only(self._judged, workload=workload, metric=metric)

    # -- verdicts

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The verdict table of all campaigns: every question on every processor, the leading one's
        first. Columns of `stats.row` and `question.MORE`."""
        return self.judge()

    def judge(
        self, *, workload: str = "", metric: str = "", margin_pct: float = 0.0
    ) -> pd.DataFrame:
        """The verdict table of one workload and metric ("" for all), by another margin than the one
        that was declared (0: by that one)."""
        asked = {"workload": workload, "metric": metric, "margin_pct": margin_pct}
        found = []
        for (_, processor), campaigns in self.by_processor.items():
            tables = [(r.sitting, r.alone(**asked)) for r in campaigns]
            tables = [(name, table) for name, table in tables if len(table)]
            if tables:
                newest = campaigns[-1].study
                newest = replace(newest, sittings=_sittings(newest))
                found.append(question.combined(tables, newest, processor))
        if not found:
            raise tidy.Damaged(f"{self.folder.name} holds no whole pair; nothing can be judged")
        return pd.concat(found, ignore_index=True)

    @property
    def sitting(self) -> str:
        """What campaigns of one boot of one machine share."""
        return design.sitting(self._campaign.meta)

    def alone(
        self, *, workload: str = "", metric: str = "", margin_pct: float = 0.0
    ) -> pd.DataFrame:
        """The verdict table of this campaign by itself, as if nothing else had been measured; without
        rows where it has no whole pair. Columns of `stats.row`, question and rate (offered,
        1/s; 0: as many as it can do)."""
        if (asked := (workload, metric, margin_pct)) not in self._judgements:
            self._judgements[asked] = self._alone(*asked)
        return self._judgements[asked].copy()

    @cached_property
    def _judgements(self) -> dict[tuple, pd.DataFrame]:
        return {}

    def _alone(self, workload: str, metric: str, margin_pct: float) -> pd.DataFrame:
        asked = replace(self.study, margin_pct=margin_pct or self.study.margin_pct)
        slices = self.runs[~self.runs["warmup"]]["slice_s"]
        rows = self.judged(workload, metric)
        if rows.empty:
            return pd.DataFrame(columns=[*stats.row.COLUMNS, "question", "rate"])
        try:
            found = schedule.verdicts(
                asked,
                rows,
                self.meta.get("plan"),
                pair_seconds=2 * (slices.median() + schedule.LOST_S),
            )
        except ValueError as e:
            raise tidy.Damaged(f"{self.folder.name} cannot be judged: {e}") from None
        turn = {a.name: n for n, a in enumerate((*self.study.arms, self.study.control))}
        group = found.groupby(["workload", "metric"], sort=False).ngroup()
        rank = group * len(turn) + found["arm"].map(turn)  # arms in the order of the study
        found = found.loc[rank.sort_values(kind="stable").index].reset_index(drop=True)
        rates = {w.name: w.rate for w in self.study.workloads}
        return found.assign(question=self.study.key, rate=found["workload"].map(rates))

    @cached_property
    def forest(self) -> pd.DataFrame:
        """Every campaign's own verdict rows, for a forest: columns of `alone` and campaign, date,
        processor, sitting, series (of the servers), steal_pct (of the cores, by run, in the mean)."""
        found = []
        for r in self.every:
            table = r.alone()
            taken = r.judged(metric="steal")["value"]
            builds = dict.fromkeys(
                (r.meta.get("engines") or {}).get(a.name, r.meta["engine"])["label"]
                for a in r.study.compared
            )
            told = {"campaign": r.folder.name, "date": str(r.meta.get("finished") or r.when)[:16]}
            told |= {"processor": r.processor, "sitting": r.sitting, "series": " and ".join(builds)}
            cores = (
                (r.meta.get("host") or {}).get("cores")
                if isinstance(r.meta.get("host"), dict)
                else None
            )
            told["steal_pct"] = 100 * taken.mean() / (cores or 1) if len(taken) else math.nan
            found.append(table.assign(**told))
        return pd.concat(found, ignore_index=True)

    def of(
        self,
        workload: str = "",
        metric: str = "",
        control: bool = True,
        question: str | None = None,
    ) -> pd.DataFrame:
        """Rows of the verdict table on the leading processor of each question; "" for all workloads
        or metrics, None for all questions."""
        v = only(self.verdicts, workload=workload, metric=metric)
        on = {p.study.key: p.processor for p in self.parts}
        v = v[v["processor"].eq(v["question"].map(on))]
        v = v[control | ~v["control"]]
        return v if question is None else v[v["question"] == question]

    def elsewhere(self, row: pd.Series) -> list[pd.Series]:
        """The rows of the same comparison on other processors."""
        v = self.verdicts
        same = v["question"].eq(row["question"]) & v["processor"].ne(row["processor"])
        for column in question.COMPARISON:
            alike = v[column].isna() if pd.isna(row[column]) else v[column].eq(row[column])
            same &= alike.fillna(False)
        return [found for _, found in v[same].iterrows()]

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
        if self.parts[0].study.key:
            return self.of(question=question, control=False)
        kind = self.meta["engine"]["kind"]
        try:
            asked = studies.load(
                self.study.name, question=question, profile="standard", engine=kind
            )
        except study.StudyError:
            return self.verdicts[:0]
        works = {w.name for w in asked.workloads}
        v = self.of(control=False)
        return v[v["workload"].isin(works) & v["arm"].isin([a.name for a in asked.arms])]

    def headlines(self, arm: str = "") -> list[pd.Series]:
        """The rows that a page leads with, for `arm` where it was measured: processor time, then
        throughput, or at a rate latency."""
        first = self.leading
        then = LATENCY if first.study.workloads[0].rate else THROUGHPUT
        found = [self.lead(first, metrics, arm) for metrics in (PROCESSOR, then)]
        if not any(row is not None for row in found):
            first = self.parts[0]
            found = [self.lead(first, (m,), arm) for m in first.study.workloads[0].deciding[:2]]
        return [row for row in found if row is not None]

    def also(self) -> list[pd.Series]:
        """The rows of other questions that the findings tell as well: throughput."""
        parts = {p.study.key: p for p in self.parts}
        told = ((parts[k], a) for k, a in studies.also(self.study.name).items() if k in parts)
        rows = (self.lead(part, THROUGHPUT, arm) for part, arm in told)
        return [row for row in rows if row is not None]

    def lead(self, part: "Results", metrics: tuple[str, ...], arm: str = "") -> pd.Series | None:
        """A part's main row: over thread counts where there is one, else of the most threads; with
        what it `does` and its `margin_pct`."""
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
        engines = part.meta.get("engines") or {}
        base = engines.get(row["baseline"], {}).get("label", row["baseline"])
        does = studies.does(part.study.name, row["arm"], kind, old)
        row["does"] = does.replace("{base}", base)
        if arm in {a.name for a in part.study.arms} and not there:
            said = f"no whole pair of {arm} was measured: this is about another arm"
            row["warnings"] = [*row["warnings"], said]
        return row

    def pairs(self, workload: str, metric: str, arm: str = "") -> pd.DataFrame:
        """One row a pair of one workload and metric, all thread counts; "" for the first arm that
        has any."""
        part = self._first(workload, arm)
        rows = part.judged(workload, metric)
        found = stats.pairs(rows, baseline=part.study.baseline.name)
        arms = [a.name for a in part.study.arms]
        return only(found, arm=arm or next((a for a in arms if (found["arm"] == a).any()), arms[0]))

    # -- what single figures are about

    @property
    def leading(self) -> "Results":
        """The leading campaign of the question that leads the study's page."""
        name, by_key = self.study.name, {p.study.key: p for p in reversed(self.parts)}
        wanted = studies.headline(name) if name in studies.STUDIES else ()
        return next((by_key[k] for k in wanted if k in by_key), self.capacity)

    @property
    def capacity(self) -> "Results":
        """The leading campaign that measured what a server can do at most; the first without one."""
        return {p.study.key: p for p in reversed(self.parts)}.get("headline", self.parts[0])

    @property
    def main(self) -> str:
        """Name of the study's first workload."""
        return self.study.workloads[0].name

    @property
    def most(self) -> float:
        """Transactions a second that the baseline reaches at most, in the median of its runs at one
        thread count; 0 where that was not measured."""
        part = self.capacity
        rows = only(part.judged(metric="tps"), arm=part.study.baseline.name)
        rows = rows[rows["workload"].eq(part.main)]
        closed = len(rows) and not part.study.workloads[0].rate
        return float(rows.groupby("threads")["value"].median().max()) if closed else 0.0

    @property
    def metric(self) -> str:
        """The metric that decides about the first workload, of those that were measured."""
        first = self.study.workloads[0]
        there = set(self.parts[0].judged(first.name)["metric"])
        return next((m for m in first.deciding if m in there), first.deciding[0])

    @property
    def threads(self) -> int:
        """The thread count that single figures show: of the first workload the one that most
        workloads share, else the one in the middle."""
        works = self.study.workloads
        shared, own = Counter(t for w in works for t in w.threads), works[0].threads
        return max(own, key=lambda t: (shared[t], -abs(own.index(t) - len(own) // 2)))

    @property
    def sources(self) -> tuple[Path, ...]:
        """Folders that a page rests on beside its campaigns."""
        return ()

    def notes(self, workload: str) -> list[str]:
        """What the arms of a workload differ in beyond what the study says: nothing."""
        return []


def _sittings(asked: study.Study) -> int:
    """How many sittings a question takes, as its study says now; campaigns before 0.3 do not."""
    if asked.profile.quick or asked.name not in studies.STUDIES or not asked.key:
        return asked.sittings
    try:
        now = studies.load(asked.name, question=asked.key, profile=asked.profile.name)
    except study.StudyError:
        return asked.sittings
    return now.sittings


def load(*folders: Path) -> Results:
    """The results of a campaign's folder, or of all campaigns of a study's page, one of its headline
    first. Of a question the newest campaign's design counts, and those of another design are left
    out (`apart`); its newest campaign leads it, on the processor of the page's first.

    Raises StudyError where these belong to several studies."""
    if len(folders) == 1:
        return Results(folders[0])
    opened = [Results(f) for f in dict.fromkeys(folders)]
    if len(about := dict.fromkeys(r.study.name for r in opened)) > 1:
        raise study.StudyError(f"a page is about one study, not about {' and '.join(about)}")
    questions: dict[str, list[Results]] = {}
    for r in opened:
        questions.setdefault(r.study.key, []).append(r)
    leads, others, apart, at = [], [], [], ""
    for asked in questions.values():
        asked.sort(key=lambda r: (r.when, r.folder.name))
        own = asked[-1].design
        alike = [r for r in asked if r.design == own]
        apart += [r.folder for r in asked if r not in alike]
        there = Counter(design.processor(r.meta) for r in alike)
        at = at or max(there, key=lambda p: (there[p], p == alike[-1].processor))
        lead = next((r for r in reversed(alike) if r.processor == at), alike[-1])
        leads.append(lead.folder)
        others += [r.folder for r in alike if r is not lead]
    more = {"more": tuple(leads[1:]), "others": tuple(others), "apart": tuple(apart)}
    return Results(leads[0], **more)


def _differ(r: Results, own: dict[str, design.Design]) -> str:
    """In what the design of a campaign differs from its question's."""
    found = design.differences(r.design, own[r.study.key])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more


# -- which campaigns stand on one page --------------------------------------------------------------


def names(text: str) -> list[str]:
    """The names of campaigns in a text that divides them by commas."""
    return [n.strip() for n in text.split(",") if n.strip()]


def named(text: str) -> tuple[Path, ...]:
    """The folders of these campaigns. Raises paths.NotFound."""
    return tuple(map(paths.campaign, names(text)))


def beside(folder: Path) -> tuple[Path, ...]:
    """The campaigns of the page of `folder`: itself, and of every question on that page the finished
    ones beside it, of the same builds, profile and margin, in the order of the questions and of time.
    A short campaign stands for itself: of other questions the newest. A campaign that asked all
    questions at once stands alone."""
    own = _facts(folder)
    if not own.get("key"):
        return (folder,)
    found = {f.parent: _facts(f.parent) for f in folder.parent.glob("*/campaign.json")}
    kept: dict[str, list[Path]] = {own["key"]: [folder]}
    for f, facts in sorted(found.items(), key=lambda item: _ended(*item), reverse=True):
        alike = _alike(facts) == _alike(own) and facts.get("key") and facts.get("finished") != ""
        if f == folder or not alike or not _is_judged(facts):
            continue
        held = kept.setdefault(facts["key"], [])
        if not held or _profile(own) not in SHORT:
            held.append(f)
    order = dict.fromkeys([k for k in _questions(own) if k in kept] + [*kept])
    return tuple(f for key in order for f in sorted(kept[key], key=lambda f: _ended(f, found[f])))


def _facts(folder: Path) -> dict:
    try:
        return json.loads((folder / "campaign.json").read_text())
    except (OSError, ValueError):
        return {}


def _alike(facts: dict) -> tuple:
    """What campaigns share that stand on one page."""
    given = facts.get("parameters") or {}
    builds = (facts.get("engine") or {}).get("label"), given.get("old") or studies.OLD
    page = studies.page_of(facts.get("study") or "", facts.get("key") or "")
    return page, builds, _profile(facts), given.get("margin_pct") or 0.0


def _profile(facts: dict) -> str:
    return (facts.get("profile") or {}).get("name", "")


def _is_judged(facts: dict) -> bool:
    """Whether anything of a campaign is judged: two servers at once in a closed loop are not."""
    return not all(w.get("at_once") for w in facts.get("workloads", ()))


def _ended(folder: Path, facts: dict) -> tuple[str, str]:
    return str(facts.get("finished") or facts.get("created") or ""), folder.name


def _questions(facts: dict) -> dict[str, str]:
    try:
        return studies.questions(facts["study"], facts["engine"]["kind"])
    except (study.StudyError, KeyError):  # a study that is no more
        return {}
