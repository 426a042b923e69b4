"""Campaigns, opened: one, or several of a study."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path

import pandas as pd

from noisefloor import model as study
from noisefloor import paths, schedule, stats, studies
from noisefloor.data import tidy
from noisefloor.data.results.tables import PROCESSOR, THROUGHPUT, Tables, only

LONGEST = 60_000  # characters of a raw file that are shown
_RENAMED = {"one after the other": "100 connections"}  # how old campaigns call a workload


def cut(text: str) -> str:
    """`text`, not longer than is shown."""
    return text if len(text) <= LONGEST else text[:LONGEST] + "\n… (cut here)"


def _frame(of: Callable) -> cached_property:
    """A frame of `tidy` as a property: that of every campaign."""
    return cached_property(wraps(of)(lambda self: self._all(of)))


@dataclass(frozen=True)
class Results(Tables):
    """One campaign, opened, or several of one study (`more`), each with a question, a plan and a
    baseline of its own: where only one can be shown, it is the first that has it. Frames are read
    once, when first asked for."""

    folder: Path
    more: tuple[Path, ...] = field(default=(), kw_only=True)

    # -- what runs say, as the function of `tidy` of that name reads it

    runs = _frame(tidy.runs)
    warmups = _frame(tidy.warmups)
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
        """The campaigns, each by itself; the first is the page's headline."""
        return tuple(map(Results, (self.folder, *self.more))) if self.more else (self,)

    @cached_property
    def _campaign(self) -> tidy.Opened:
        return tidy.opened(self.folder)

    def _all(self, of: Callable[[tidy.Opened], pd.DataFrame]) -> pd.DataFrame:
        """A frame of every campaign, one after the other; of several a run's name begins with its
        question."""
        if not self.more:
            return of(self._campaign)
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
        if not self.more:
            return self._campaign.meta | {
                "campaign": self.folder.name,
                "campaigns": [self.folder.name],
                "raw_files": paths.shown(self.folder),
            }
        all_ = [p.meta for p in self.parts]
        merged = {
            k: {name: v for m in reversed(all_) for name, v in m.get(k, {}).items()}
            for k in ("engines", "pinned", "skipped", "builds")
        }
        if found := [m["upgrade"] for m in all_ if m.get("upgrade")]:
            merged["upgrade"] = found[0]
        merged["campaigns"] = [m["campaign"] for m in all_]
        ended = sorted(m.get("finished") or "" for m in all_)
        merged |= {"first": ended[0], "finished": ended[-1]}
        merged["hosts"] = [m.get("host") for m in all_]
        return all_[0] | merged

    @cached_property
    def study(self) -> study.Study:
        """The study as it was measured: the first campaign's, with arms and workloads of all, in
        order of appearance."""
        if not self.more:
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
        if self.more:
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
        """The verdict table: all comparisons, joint effects and A/A controls."""
        return self.judge()

    def judge(
        self, *, workload: str = "", metric: str = "", margin_pct: float = 0.0
    ) -> pd.DataFrame:
        """The verdict table of one workload and metric ("" for all), each row with the key of its
        question, by another margin than the one that was declared (0: by that one)."""
        if self.more:
            asked = {"workload": workload, "metric": metric, "margin_pct": margin_pct}
            found = [p.judge(**asked) for p in self._measured(workload, metric)]
            out = pd.concat(found, ignore_index=True)
            out.attrs = dict(found[0].attrs)
            return out
        asked = replace(self.study, margin_pct=margin_pct or self.study.margin_pct)
        slices = self.runs[~self.runs["warmup"]]["slice_s"]
        try:
            found = schedule.verdicts(
                asked,
                self.judged(workload, metric),
                self.meta.get("plan"),
                pair_seconds=2 * (slices.median() + schedule.LOST_S),
                spent=self.meta.get("ended_because") == schedule.SPENT,
            )
        except ValueError as e:
            raise tidy.Damaged(f"{self.folder.name} cannot be judged: {e}") from None
        turn = {a.name: n for n, a in enumerate((*self.study.arms, self.study.control))}
        group = found.groupby(["workload", "metric"], sort=False).ngroup()
        rank = group * len(turn) + found["arm"].map(turn)  # arms in the order of the study
        found = found.loc[rank.sort_values(kind="stable").index].reset_index(drop=True)
        return found.assign(question=self.study.key)

    def of(
        self,
        workload: str = "",
        metric: str = "",
        control: bool = True,
        question: str | None = None,
    ) -> pd.DataFrame:
        """Rows of the verdict table; "" for all workloads or metrics, None for all questions."""
        v = only(self.verdicts, workload=workload, metric=metric)
        v = v[control | ~v["control"]]
        return v if question is None else v[v["question"] == question]

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
        works |= {_RENAMED[w] for w in works & set(_RENAMED)}
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
        row["margin_pct"] = schedule.margin_pct(part.study, row["design"] == "duet")
        if arm in {a.name for a in part.study.arms} and not there:
            said = f"no whole pair of {arm} was measured: this is about another arm"
            row["warnings"] = [*row["warnings"], said]
        return row

    def pairs(self, workload: str, metric: str, arm: str = "") -> pd.DataFrame:
        """One row a pair of one workload and metric, all thread counts; "" for the first arm that
        has any."""
        part = self._first(workload, arm)
        rows = part.judged(workload)
        found = stats.pairs(
            rows[rows["metric"].isin([metric, stats.verdicts.STEAL])],
            baseline=part.study.baseline.name,
            levelled=bool((part.meta.get("plan") or {}).get("levelled")),
        )
        arms = [a.name for a in part.study.arms]
        return only(found, arm=arm or next((a for a in arms if (found["arm"] == a).any()), arms[0]))

    def path(self, workload: str, metric: str) -> pd.DataFrame:
        """How the interval of the first arm narrowed, block by block: `stats.path` of each thread
        count."""
        part = self._first(workload)
        rows, margin, found = part.of(workload, metric), part.study.margin_pct, []
        for threads, one in self.pairs(workload, metric).groupby("threads"):
            row = rows[rows["threads"].eq(threads) & rows["arm"].eq(one["arm"].iloc[0])].iloc[0]
            way = stats.path(one, level=row["level"], margin_pct=margin)
            found.append(way.assign(threads=threads))
        return pd.concat(found, ignore_index=True) if found else pd.DataFrame()

    # -- what single figures are about

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

    @property
    def sources(self) -> tuple[Path, ...]:
        """Folders that a page rests on beside its campaigns."""
        return ()

    def notes(self, workload: str) -> list[str]:
        """What the arms of a workload differ in beyond what the study says: nothing."""
        return []


def load(*folders: Path) -> Results:
    """The results of a campaign's folder, or of several campaigns of one study, the headline first.

    Raises StudyError where these belong to several studies or answer one question twice."""
    if len(folders) == 1:
        return Results(folders[0])
    found = Results(folders[0], more=tuple(folders[1:]))
    if len(about := dict.fromkeys(p.study.name for p in found.parts)) > 1:
        raise study.StudyError(f"a page is about one study, not about {' and '.join(about)}")
    keys = Counter(p.study.key for p in found.parts)
    if twice := next((k for k, n in keys.items() if n > 1), None):
        raise study.StudyError(f"two of the campaigns answer the question {twice!r}: name one")
    return found


# -- which campaigns stand on one page --------------------------------------------------------------


def names(text: str) -> list[str]:
    """The names of campaigns in a text that divides them by commas."""
    return [n.strip() for n in text.split(",") if n.strip()]


def named(text: str) -> tuple[Path, ...]:
    """The folders of these campaigns. Raises paths.NotFound."""
    return tuple(map(paths.campaign, names(text)))


def beside(folder: Path) -> tuple[Path, ...]:
    """The campaigns of the page of `folder`, in the order of the study's questions: itself, and of
    every other question the newest finished one that lies beside it, of the same builds and margin.
    One of the same processor goes first; one of another processor stands for a question that was
    not answered on this one, unless an arm of it was, with the same workload: no comparison is drawn
    beside one of another processor. A campaign that asked all questions at once stands alone."""
    own = _facts(folder)
    if not own.get("key"):
        return (folder,)
    found = {f.parent: _facts(f.parent) for f in folder.parent.glob("*/campaign.json")}
    alike = {f: x for f, x in found.items() if _alike(x) == _alike(own) and x.get("key")}
    newest, on = {own["key"]: folder}, dict.fromkeys(_measured(own), _cpu(own))
    for f, facts in sorted(alike.items(), key=lambda item: _rank(*item, own), reverse=True):
        cells, cpu = _measured(facts), _cpu(facts)
        mixed = any(on.get(c, cpu) != cpu for c in cells)
        if facts["key"] not in newest and facts.get("finished") != "" and not mixed:
            newest[facts["key"]] = f
            on |= dict.fromkeys(cells, cpu)
    order = [k for k in _questions(own) if k in newest]
    return tuple(newest[k] for k in dict.fromkeys([*order, *newest]))


def _facts(folder: Path) -> dict:
    try:
        return json.loads((folder / "campaign.json").read_text())
    except (OSError, ValueError):
        return {}


def _alike(facts: dict) -> tuple:
    """What campaigns share that stand on one page."""
    given = facts.get("parameters") or {}
    builds = (facts.get("engine") or {}).get("label"), given.get("old") or "mysql-8.0"
    return facts.get("study"), builds, facts.get("margin_pct")


def _cpu(facts: dict) -> str:
    host = facts.get("host")
    return host.get("cpu", "") if isinstance(host, dict) else str(host or "")


def _measured(facts: dict) -> list[tuple[str, str]]:
    """The arms of a campaign, each with every workload of it."""
    return [(w["name"], arm) for w in facts.get("workloads", ()) for arm in facts.get("arms", ())]


def _rank(folder: Path, facts: dict, own: dict) -> tuple:
    """The processor of `own` before others, then the newest."""
    ended = str(facts.get("finished") or facts.get("created") or "")
    return _cpu(facts) == _cpu(own), ended, folder.name


def _questions(facts: dict) -> dict[str, str]:
    try:
        return studies.questions(facts["study"], facts["engine"]["kind"])
    except (study.StudyError, KeyError):  # a study that is no more
        return {}
