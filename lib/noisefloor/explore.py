"""The explorer: controls choose campaigns of a study; it shows their verdicts, figures and the raw
text of every run. Nothing is measured, no server is needed.

`Question` is one state of the controls and everything that it shows; `Explorer` is the controls.
Without controls (papermill, an exported script) it shows its first state.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets
import pandas as pd
import traitlets

from noisefloor import paths, schedule
from noisefloor.data import archive, results, tidy
from noisefloor.model import METRICS
from noisefloor.show import plots, report
from noisefloor.show.markup import TEMPLATE, joined, piece
from noisefloor.show.report.words import short_names, when
from noisefloor.show.rows import arm_label, counted, is_control, is_joint, metric_label
from noisefloor.studies import STUDIES, page_of
from noisefloor.text import Refusal, amounts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBLEMS = (Refusal, paths.NotFound, tidy.Damaged, ValueError, OSError)
PAGE = "all campaigns of its page"
_LINES = 4  # arms that the figure over threads can show without crowding
_MOST = 12  # arms, or thread counts, that are chosen at first


# -- what can be opened ----------------------------------------------------------------------------


def _is_archive(source: str) -> bool:
    """Whether `source` is the path of an archive, not the name of a campaign or study."""
    return "/" in source or (Path(source) / "manifest.json").exists()


@dataclass(frozen=True)
class _Campaign(results.Results):
    """One campaign by itself: judged as if nothing else had been measured."""

    def judge(
        self, *, workload: str = "", metric: str = "", margin_pct: float = 0.0
    ) -> pd.DataFrame:
        more: dict[str, Any] = {"processor": self.processor, "sittings": 1, "asked": 1}
        more |= {"ranged": False, "next_lo_pct": math.nan, "next_hi_pct": math.nan}
        alone = self.alone(workload=workload, metric=metric, margin_pct=margin_pct)
        return alone.assign(**more)


def opened(source: str, baseline: str = "", texts: str = "", workload: str = "") -> results.Results:
    """What `source` names: a study (all campaigns of its page, or those with `workload` if there
    are any), a campaign, or the path of an archive (from here or from the project's folder). Of an
    archive: `baseline` is the arm that others are compared with, `texts` the folder with the text
    of its runs. Raises NotFound, Refusal, Damaged."""
    if _is_archive(source):
        return archive.load(source, baseline, texts=texts)
    if leading := report.leading_campaign(source):
        folders = results.beside(paths.campaign(leading))
        having = [f for f in folders if workload in ("", *_workloads(f))]
        return results.load(*(having or folders))
    folder = results.folder_of(source)
    return _campaign(folder, folder.stat().st_mtime_ns)


def _workloads(folder: Path) -> list[str]:
    return [w["name"] for w in tidy.meta(folder)["workloads"]]


def _metrics(source: results.Results) -> dict[str, list[str]]:
    """Workload -> its metrics that get a verdict and that a run of any campaign has."""
    there: set[Any] = set()
    for each in source.every:
        rows = each.judged()[["workload", "metric"]].drop_duplicates()
        there |= set(rows.itertuples(index=False, name=None))
    return {
        w.name: [m for m in w.metrics if (w.name, m) in there and METRICS[m].judged]
        for w in source.study.workloads
    }


@lru_cache(maxsize=8)
def _campaign(folder: Path, _changed: int) -> _Campaign:
    return _Campaign(folder)


def _is_page(source: results.Results) -> bool:
    return not isinstance(source, (_Campaign, archive.Archive))


def _listed() -> pd.DataFrame:
    """What can be opened: of each study all campaigns of its page, then each campaign, recorded
    ones first, then the archives that `noisefloor ingest` put into its own place: columns source,
    study, title, label (date, profile, server)."""
    rows: list[tuple[str, str, str, str]] = []
    pages: dict[str, str] = {}
    for name in paths.campaigns():
        with contextlib.suppress(tidy.Damaged, paths.NotFound):
            facts = tidy.meta(paths.campaign(name))
            words = (when(facts), facts["profile"]["name"], report.engine(facts))
            page = page_of(facts["study"], facts.get("key", ""))
            rows.append((name, page, facts["title"], ", ".join(filter(None, words))))
            if facts.get("finished") != "":
                pages[page] = facts["title"]
    rows = [(page, page, title, PAGE) for page, title in pages.items()] + rows
    for file in sorted(paths.processed().glob("*/manifest.json")):
        source = paths.relative(file.parent)
        rows.append((source, source, f"Archive {file.parent.name}", file.parent.name))
    return pd.DataFrame(rows, columns=["source", "study", "title", "label"])


# -- one state of the controls ---------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """One or two sources, asked about one workload and metric. `margin_pct`: 0 for the metric's
    own; `threads` and `arms`: those to show, () for all. Hidden ones are judged with the rest, so
    that a choice changes no verdict."""

    sources: tuple[results.Results, ...]
    workload: str
    metric: str
    margin_pct: float = 0.0
    threads: tuple[int, ...] = ()
    arms: tuple[str, ...] = ()

    @cached_property
    def _there(self) -> dict[str, results.Results]:
        """Name -> source, of those with the workload and metric. Raises Refusal for equal names."""
        names = [PAGE if _is_page(s) else when(s.meta) or s.meta["campaign"] for s in self.sources]
        if len(set(names)) < len(names):
            raise Refusal(f"Both are called {names[0]}: rename one, or they cannot be told apart.")
        asked = self.workload, self.metric
        named = zip(names, self.sources, strict=True)
        return {n: s for n, s in named if any(len(each.judged(*asked)) for each in s.every)}

    @cached_property
    def judged(self) -> pd.DataFrame:
        """The verdict table, one source after the other, with the columns `source` (its name) and
        `campaign` (the same; on a page the processor). If several questions of a page have an arm,
        its rows are those of the first. Raises Refusal if no run has the metric."""
        parts = []
        for name, source in self._there.items():
            table = source.judge(
                workload=self.workload, metric=self.metric, margin_pct=self.margin_pct
            ).assign(source=name, campaign=name)
            if _is_page(source):
                first = table.groupby(["processor", "arm"])["question"].transform("first")
                table = table[table["question"] == first]
                short = short_names(list(table["processor"].unique()))
                table = table.assign(campaign=table["processor"].map(short))
            parts.append(table)
        if not parts:
            raise Refusal(f"{self.workload}: no run has {metric_label(self.metric)}")
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The rows of `judged` that are shown: the joint one only with all thread counts."""
        table, counts = self.judged, set(self.threads)
        whole = not counts or counts >= set(table["threads"].dropna())
        alone = table["threads"].isna() & (whole | ~is_joint(table))
        kept = table["threads"].isin(counts) | alone | (not counts)
        kept &= table["arm"].isin(self.arms) | (not self.arms)
        return table[kept].reset_index(drop=True)

    @property
    def _parts(self) -> Iterable[tuple[Any, pd.DataFrame]]:
        """(name, shown rows) of each campaign or processor."""
        return self.verdicts.groupby("campaign", sort=False)

    @property
    def _several(self) -> bool:
        return self.judged["campaign"].nunique() > 1

    @property
    def palette(self) -> plots.Palette:
        """The colours of the first source's arms, its A/A control's among them."""
        study = self.sources[0].study
        return plots.Palette([study.baseline, study.control, *study.arms])

    @cached_property
    def headline(self) -> str:
        """The main comparison of each campaign or processor in words."""
        sentences = []
        for name, rows in self._parts:
            if not is_control(rows).all():
                start = f"{name}: " if self._several else ""
                sentences.append(start + report.headline_of(report.primary(rows, self.metric)))
        return " ".join(sentences) or "Nothing is left to show: choose an arm and a thread count."

    @cached_property
    def remarks(self) -> list[str]:
        """What a reader must know about what was asked, a sentence each."""
        archives = (s for s in self._there.values() if isinstance(s, archive.Archive))
        differ = dict.fromkeys(d for s in archives for d in s.judged(self.workload)["differ"] if d)
        sentences = [f"The arms differ in {d}, too." for d in differ]
        margins = {schedule.margin_pct(s.study, self.metric) for s in self.sources}
        if self.margin_pct and margins != {self.margin_pct}:
            usual, asked = amounts.plus_minus(*sorted(margins)), amounts.plus_minus(self.margin_pct)
            sentences.append(
                f"The margin of this metric is {usual}; with {asked} these are verdicts to explore"
                " with."
            )
        if len(self.verdicts) < len(self.judged):
            sentences.append(
                "What is hidden is still judged with the rest: a choice makes no verdict."
            )
        if len(self._there) < len(self.sources):
            sentences.append("Only one of the two has this workload and metric.")
        for source in filter(_is_page, self.sources):
            sentences += [f"Left out: {why}." for why in source.left]
        return sentences

    @cached_property
    def figure(self) -> "Figure":
        """Changes against threads; a forest for one thread count, or for many arms."""
        rows = self.verdicts
        arms = rows.loc[~is_control(rows), "arm"].nunique()
        if rows["threads"].nunique() > 1 and 0 < arms <= (1 if self._several else _LINES):
            by = "campaign" if self._several else "metric"
            return plots.threads_figure(rows, self.metric, by=by, palette=self.palette)
        return plots.dots(rows, by=("campaign", "threads"), palette=self.palette)

    @cached_property
    def alt(self) -> str:
        """Alternative text of the figure."""
        if not self._several:
            return plots.alt(self.verdicts)
        return " ".join(f"{name}: {plots.alt(rows)}" for name, rows in self._parts)

    @cached_property
    def apart(self) -> pd.DataFrame:
        """`results.apart` of two campaigns; without rows for one, for more, and beside a page."""
        parts = [rows for _, rows in self._parts]
        two = len(parts) == len(self._there) == 2 and not any(map(_is_page, self.sources))
        return results.apart(*parts) if two else pd.DataFrame()

    @cached_property
    def comparisons(self) -> list[tuple[str, int]]:
        """(words, row of `verdicts`) of all but joint rows, the A/A controls last."""
        rows = self.verdicts[~is_joint(self.verdicts)]
        rows = rows.loc[is_control(rows).sort_values(kind="stable").index]
        offered: list[tuple[str, int]] = []
        row: Any
        for row in rows.itertuples():
            name = row.campaign if self._several else ""
            words = filter(None, (name, arm_label(row.arm), counted(row.threads)))
            offered.append((", ".join(words), row.Index))
        return offered

    def near(self, row: int) -> "_Comparison":
        """The runs behind a row of `verdicts`; of a page those of the newest campaign behind it."""
        verdict: Any = self.verdicts.loc[row]
        return _Comparison(self, self._campaigns(verdict)[-1], verdict)

    def _campaigns(self, verdict: pd.Series) -> list[results.Results]:
        """The campaigns behind a row, in the order of time."""
        source = self._there[verdict["source"]]
        if not _is_page(source):
            return [source]
        every = source.by_processor[verdict["question"], verdict["processor"]]
        return [each for each in every if len(each.judged(self.workload, self.metric))]

    @cached_property
    def tables(self) -> str:
        """The table of verdicts, and of the differences between two campaigns, as HTML."""
        parts = []
        for name, rows in self._parts:
            campaigns = self._campaigns(rows.iloc[0])
            meta, n = campaigns[-1].meta, len(campaigns)
            facts = name, report.machine(meta), report.engine(meta), f"{n} campaigns" * (n > 1)
            words = ", ".join(dict.fromkeys(filter(None, facts)))
            parts.append(report.verdict_table(rows, words).markup)
        if len(self.apart):
            words = (
                "The second against the first: how far the changes are apart, in percent, with the"
                " interval of two independent measurements."
            )
            parts.append(report.html_table(self.apart, words, name="apart").markup)
        return joined(parts)

    @cached_property
    def still(self) -> str:
        """All of it as HTML that needs no controls."""
        if self.verdicts.empty:
            return piece("asks", [self.headline, *self.remarks])
        data = report.flat(self.verdicts)
        shown = plots.show(
            self.figure, alt=self.alt, caption=self.headline, data=data, name="explored"
        )
        words, row = self.comparisons[0]
        near = self.near(row)
        detail = plots.show(near.figure, alt=near.alt, caption=words, data=near.pairs, name="near")
        pieces = (shown.markup, piece("asks", self.remarks), self.tables, detail.markup)
        return joined((*pieces, near.raw(near.runs["run"].iloc[0])))


class _Comparison:
    """The pairs and runs behind `row` of a verdict table. `pairs`: in the order of measuring, empty
    if runs are not paired; `runs`: rows of the tidy table, pair by pair, with the columns point
    (row of the table that `figure` draws) and words."""

    def __init__(self, question: Question, source: results.Results, row: pd.Series):
        self.row, self._source, self._palette = row, source, question.palette
        self._spec, self.pairs = METRICS[question.metric], pd.DataFrame()
        asked, both = (question.workload, question.metric), [row["baseline"], row["arm"]]
        rows = self._alike(source.judged(*asked))
        rows = rows[rows["arm"].isin(both)].reset_index(drop=True)
        paired = rows["pair_id"].notna().any()
        if paired:
            pairs = self._alike(source.pairs(*asked, row["arm"]))
            self.pairs = pairs.sort_values(["block", "pair"], ignore_index=True)
            mine = rows.loc[rows["arm"] == row["arm"], ["block", "pair", "pair_id"]]
            at = self.pairs[["block", "pair"]].reset_index(names="point").merge(mine)
            rows = rows.merge(at[["pair_id", "point"]], on="pair_id")
            rows = rows.sort_values(["point", "position"], ignore_index=True)
        else:
            rows["point"] = range(len(rows))
        each: Iterable[Any] = rows.itertuples()
        words = [
            (f"pair {run.point + 1}, block {run.block}, " if paired else "")
            + f"{run.arm}: {run.value * self._spec.scale:,.5g} {self._spec.shown_unit}".rstrip()
            for run in each
        ]
        self.runs = rows.assign(words=words)
        self.alt = f"The runs behind it. {plots.alt(row.to_frame().T)}"

    def _alike(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows with this comparison's thread count; without one if it has none."""
        count = self.row["threads"]
        same = rows["threads"].isna() if pd.isna(count) else rows["threads"].eq(count)
        return rows[same.fillna(False)]

    @cached_property
    def figure(self) -> "Figure":
        """The pairs, or the single runs."""
        if self.pairs.empty:
            return plots.runs_figure(self.runs, self._spec.name, palette=self._palette)
        return plots.pairs_figure(self.pairs, palette=self._palette)

    def raw(self, run: str) -> str:
        """The printed text of a run, and of the other run of its pair, as HTML."""
        chosen = self.runs[self.runs["run"] == run]
        if chosen["pair_id"].notna().all():
            chosen = self.runs[self.runs["pair_id"].isin(chosen["pair_id"])]
        rows: Iterable[Any] = chosen.itertuples()
        texts = [
            (row.words, name, text)
            for row in rows
            for name, text in archive.texts_of(self._source, row.run).items()
        ]
        return piece("raws", texts)


# -- the controls ----------------------------------------------------------------------------------


class _Picture(anywidget.AnyWidget):
    """A figure whose points can be clicked; `on_row` gets the row of the caller's table."""

    _esm = TEMPLATE / "picture.js"
    markup = traitlets.Unicode().tag(sync=True)
    spots: traitlets.List[Any] = traitlets.List().tag(sync=True)
    chosen = traitlets.Int(-1).tag(sync=True)

    def draw(self, figure: "Figure | None", alt: str = "") -> None:
        """Show `figure`; nothing for None."""
        with self.hold_sync():
            self.markup = plots.svg(figure, "Figure", alt) if figure else ""
            self.spots = plots.spots(figure) if figure else []
            self.chosen = -1

    def on_row(self, call: Callable[[int], None]) -> None:
        """Call `call(row)` when a point is clicked."""
        self.on_msg(lambda _, content, __: call(int(content["row"])))


class Explorer:
    """The controls and what they show, for the last line of a notebook cell.

    `source` and `against`: studies or campaigns by name, or archives by path; "" for the first
    study with a recorded campaign, and for nothing; `texts`: the folder that an archive was made
    from; the rest (workload, metric, threads, arms, margin_pct): the first choice, empty for all or
    the metric's own. Raises NotFound, Refusal, Damaged."""

    def __init__(
        self,
        source: str = "",
        against: str = "",
        *,
        margin_pct: float = 0.0,
        texts: str = "",
        **asked: Any,
    ):
        source = source or next(filter(report.recorded_campaign, STUDIES), "")
        if not source:
            raise paths.NotFound("there is no recorded campaign; nothing was opened")
        self._texts, self._listed = texts, _listed()
        self._sources: dict[tuple[str, str], results.Results] = {}  # by name and workload
        study = source
        if not _is_archive(source):
            first = self._open(source).study
            study = page_of(first.name, first.key)
        for name in filter(_is_archive, (source, against)):
            self._open(name)
            if not (self._listed[["source", "study"]] == [name, study]).all(axis=1).any():
                folder = Path(name).name
                self._listed.loc[len(self._listed)] = (name, study, f"Archive {folder}", folder)
        self._settled, self._opened = False, ""
        self._make()
        titles = self._listed.drop_duplicates("study")[["title", "study"]]
        _offer(self.study, list(titles.itertuples(index=False, name=None)), study)
        self._fill_sources(source, against)
        self._fill(**asked)
        if margin_pct:
            self.margin.value = margin_pct
        self._settled = True
        self._answer()

    def _make(self) -> None:
        def control(kind: Any, name: str, width: str = "24rem", **more: Any) -> Any:
            wide = ipywidgets.Layout(width=width, max_width="100%")
            style = {"description_width": "6rem"}
            widget = kind(description=name, style=style, layout=wide, **more)
            widget.observe(self._moved, "value")
            return widget

        drop, many = ipywidgets.Dropdown, ipywidgets.SelectMultiple
        limits: dict[str, Any] = {"min": 0.0, "max": 99.0, "step": 0.5, "value": 0.0}
        limits["tooltip"] = "0: the margin of the metric"
        self.study = control(drop, "Study")
        self.campaign = control(drop, "Campaigns")
        self.against = control(drop, "Compare with")
        self.workload = control(drop, "Workload")
        self.metric = control(drop, "Metric")
        self.margin = control(ipywidgets.BoundedFloatText, "Margin, ± %", **limits)
        self.threads = control(many, "Threads", rows=4)
        self.arms = control(many, "Arms", rows=4)
        self.baseline = control(drop, "Baseline")
        self.comparison = control(drop, "Comparison", "26rem")
        self.run = control(drop, "Run", "26rem")
        self.status, self.table, self.raw = (ipywidgets.HTML() for _ in range(3))
        self.overview, self.detail = _Picture(), _Picture()
        self.overview.on_row(self._clicked)
        self.detail.on_row(self._clicked_run)
        asked = (
            *(self.study, self.campaign, self.against, self.workload, self.metric, self.margin),
            *(self.threads, self.arms, self.baseline),
        )
        rows = {"flex_flow": "row wrap", "width": "100%"}
        first = ipywidgets.HBox(asked, layout=rows)
        second = ipywidgets.HBox((self.comparison, self.run), layout=rows)
        shown = (first, self.status, self.overview, self.table, second, self.detail, self.raw)
        self.panel = ipywidgets.VBox(shown)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        still = {"text/html": str(self.question.still), "text/plain": self.question.headline}
        return self.panel._repr_mimebundle_() | still

    def _open(self, name: str, baseline: str = "", workload: str = "") -> results.Results:
        if _is_archive(name):
            return opened(name, baseline, self._texts)
        if (name, workload) not in self._sources:
            self._sources[name, workload] = opened(name, workload=workload)
        return self._sources[name, workload]

    def _fill_sources(self, source: str = "", against: str = "") -> None:
        rows = self._listed[self._listed["study"] == self.study.value]
        known = list(zip(rows["label"], rows["source"], strict=True))
        _offer(self.campaign, known, source or rows["source"].iloc[0])
        _offer(self.against, [("nothing", ""), *known], against)

    def _fill(
        self,
        workload: str = "",
        metric: str = "",
        threads: Sequence[int] = (),
        arms: Sequence[str] = (),
    ) -> None:
        """Offer what the chosen campaign has. Arguments are chosen; without one, a control keeps
        its choice if that is still offered."""
        source, new = self._open(self.campaign.value), self._opened != self.campaign.value
        if new:
            self._opened, self.margin.value = self.campaign.value, source.study.margin_pct
        works = [w.name for w in source.study.workloads]
        if _is_page(source):  # its campaigns are finished: their runs need not be read for this
            leading = _workloads(paths.campaign(report.leading_campaign(self.campaign.value) or ""))
            works.sort(key=lambda name: name not in leading)
        else:
            known = _metrics(source)
            works = [w for w in works if known[w]]
        if not works:
            raise Refusal("This campaign has no whole pair yet.")
        _offer(self.workload, works, workload)
        source = self._open(self.campaign.value, workload=self.workload.value)
        rows = source.judged(self.workload.value)
        there, first = [source.study.baseline.name], None
        if theirs := isinstance(source, archive.Archive):
            there, first = list(pd.unique(rows["arm"])), self.baseline.value
            if new or first not in there:
                first = archive.usual_baseline(source, self.workload.value)
        _offer(self.baseline, there, first)
        source = self._open(self.campaign.value, self.baseline.value, self.workload.value)
        self.baseline.disabled = not theirs
        self.baseline.layout.display = None if theirs else "none"
        metrics = _metrics(source)[self.workload.value]
        _offer(self.metric, [(metric_label(m), m) for m in metrics], metric)
        counts = sorted(int(t) for t in rows["threads"].dropna().unique())
        _offer(self.threads, counts, threads)
        seen = set(rows["arm"]) - {source.study.baseline.name}
        named = [a.name for a in (*source.study.arms, source.study.control) if a.name in seen]
        _offer(self.arms, [(arm_label(a), a) for a in named], arms)

    def _moved(self, change: Mapping[str, Any]) -> None:
        if not self._settled or change["new"] is None:
            return
        self._settled = False
        try:
            if change["owner"] is self.run:
                self._show_raw()
            elif change["owner"] is self.comparison:
                self._show_close()
            else:
                if change["owner"] is self.study:
                    self._fill_sources()
                    self.workload.options = ()  # a name of the other study means another workload
                self._fill()
                self._answer()
        except PROBLEMS as e:
            self.status.value = piece("status", str(e), ())
        finally:
            self._settled = True

    def _answer(self) -> None:
        """Make the Question that the controls say, and show everything of it."""
        names = dict.fromkeys(filter(None, (self.campaign.value, self.against.value)))
        self.question = q = Question(
            tuple(self._open(n, self.baseline.value, self.workload.value) for n in names),
            self.workload.value,
            self.metric.value,
            self.margin.value,
            tuple(self.threads.value),
            tuple(self.arms.value),
        )
        self.status.value = piece("status", q.headline, q.remarks)
        empty = q.verdicts.empty
        self.overview.draw(None if empty else q.figure, q.alt)
        self.table.value = "" if empty else q.tables
        there = [] if empty else q.comparisons
        _offer(self.comparison, there, dict(there).get(self.comparison.label))
        self._show_close()

    def _show_close(self) -> None:
        row = self.comparison.value
        if row is None:
            self.detail.draw(None)
            self.raw.value = ""
            return _offer(self.run, [])
        self.near = self.question.near(row)
        self.overview.chosen = row
        self.detail.draw(self.near.figure, self.near.alt)
        runs = self.near.runs
        _offer(self.run, list(zip(runs["words"], runs["run"], strict=True)), runs["run"].iloc[0])
        self._show_raw()

    def _show_raw(self) -> None:
        runs = self.near.runs
        self.detail.chosen = int(runs.loc[runs["run"] == self.run.value, "point"].iloc[0])
        self.raw.value = self.near.raw(self.run.value)

    def _clicked(self, row: int) -> None:
        if row in [v for _, v in self.comparison.options]:
            self.comparison.value = row

    def _clicked_run(self, point: int) -> None:
        at = self.near.runs[self.near.runs["point"] == point]
        mine = at[at["arm"] == self.near.row["arm"]]
        self.run.value = (mine if len(mine) else at)["run"].iloc[0]


def _offer(control: Any, options: Sequence[Any], value: Any = None) -> None:
    """Set what a control offers, values or (words, value). It gets `value` if one is given, else
    keeps its own if that is still offered, else gets the first. One with several choices keeps
    those still offered unless all were chosen, else gets the first `_MOST`. Raises Refusal for a
    value that is not offered."""
    options = [o if isinstance(o, tuple) else (str(o), o) for o in options]
    several = isinstance(control, ipywidgets.SelectMultiple)
    values, before = [v for _, v in options], list(map(tuple, control.options))
    chosen = control.value
    wanted = tuple(value or ()) if several else () if value in (None, "") else (value,)
    if odd := [v for v in wanted if v not in values]:
        raise Refusal(
            f"{control.description.lower()} {odd[0]!r} is not in this campaign; there are: "
            f"{', '.join(map(str, values))}; nothing was shown"
        )
    if options != before:
        control.options = options
        if several:
            left = [v for v in values if v in chosen and len(chosen) < len(before)]
            control.value = left or values[:_MOST]
        elif values:
            control.value = chosen if chosen in values else values[0]
    if wanted:
        control.value = wanted if several else value
