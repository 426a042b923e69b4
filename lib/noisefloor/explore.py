"""The explorer: ask a campaign, or two side by side, by controls; verdicts, figures and the raw text
of every run follow. Nothing is measured, no server is needed.

`Question` is one state of the controls and everything that it shows; `Explorer` is the controls.
Where nobody can move them (papermill, an exported script) it shows the state it was opened with.
"""

import contextlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import anywidget
import ipywidgets
import pandas as pd
import traitlets

from noisefloor import paths, stats
from noisefloor.data import archive, results, tidy
from noisefloor.data.archive import Unknown
from noisefloor.model import METRICS
from noisefloor.show import plots, report
from noisefloor.show.markup import TEMPLATE, joined, piece
from noisefloor.show.report.words import when
from noisefloor.show.rows import counted, is_control, is_joint, metric_label
from noisefloor.studies import STUDIES
from noisefloor.text import Refusal

PROBLEMS = (Refusal, paths.NotFound, tidy.Damaged, ValueError, OSError)
LINES = 4  # arms that the figure over threads can show without crowding
MOST = 12  # arms that are shown before somebody chooses
COPY = " (A/A control)"


# -- what can be opened ----------------------------------------------------------------------------


def is_archive(source: str) -> bool:
    """Whether `source` is the path of an archive, and no campaign's name."""
    return "/" in source or (Path(source) / "manifest.json").exists()


def opened(source: str, baseline: str = "", texts: str = "") -> results.Results:
    """The campaign of that name, or the archive of that path (from here or from the project's
    folder), compared with `baseline`, the text of its runs in the folder `texts`. Raises NotFound,
    NotATable, Unknown, Damaged."""
    if is_archive(source):
        return archive.load(source, baseline, texts=texts)
    folder = paths.campaign(source)
    return _campaign(folder, folder.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _campaign(folder: Path, _changed: int) -> results.Results:
    return results.load(folder)


def listed() -> pd.DataFrame:
    """All campaigns, recorded ones first, then the archives that `noisefloor ingest` put into its own
    place: columns source, study, title, label (date, profile, server)."""
    rows = []
    for name in paths.campaigns():
        with contextlib.suppress(tidy.Damaged, paths.NotFound):
            facts = tidy.meta(paths.campaign(name))
            words = (when(facts), facts["profile"]["name"], report.engine(facts))
            rows.append((name, facts["study"], facts["title"], ", ".join(filter(None, words))))
    for file in sorted(paths.processed().glob("*/manifest.json")):
        source = paths.shown(file.parent)
        rows.append((source, source, f"Archive {file.parent.name}", file.parent.name))
    return pd.DataFrame(rows, columns=["source", "study", "title", "label"])


# -- one state of the controls ---------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """One or two campaigns, asked about one workload and metric. `threads` and `arms`: those to show,
    () for all; what is not shown is judged with the rest, so that choosing makes no verdict."""

    sources: tuple[results.Results, ...]
    workload: str
    metric: str
    margin_pct: float = 2.0
    threads: tuple[int, ...] = ()
    arms: tuple[str, ...] = ()

    @cached_property
    def _named(self) -> dict[str, results.Results]:
        """The sources by what they are called."""
        names = [when(s.meta) or s.meta["campaign"] for s in self.sources]
        if len(set(names)) < len(names):
            raise Unknown(f"Both are called {names[0]}: rename one, or they cannot be told apart.")
        return dict(zip(names, self.sources, strict=True))

    @cached_property
    def _there(self) -> dict[str, results.Results]:
        """Those that have the workload and metric."""
        asked = self.workload, self.metric
        return {name: s for name, s in self._named.items() if len(s.judged(*asked))}

    @cached_property
    def judged(self) -> pd.DataFrame:
        """The verdict table, one campaign after the other, with a column `campaign`."""
        asked = {"workload": self.workload, "metric": self.metric, "margin_pct": self.margin_pct}
        parts = [s.judge(**asked).assign(campaign=name) for name, s in self._there.items()]
        if not parts:
            raise Unknown(f"{self.workload}: no run has {metric_label(self.metric)}")
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The rows of `judged` that are shown. The joint effect is that of all thread counts."""
        table, counts = self.judged, set(self.threads)
        whole = not counts or counts >= set(table["threads"].dropna())
        alone = table["threads"].isna() & (whole | ~is_joint(table))
        kept = table["threads"].isin(counts) | alone | (not counts)
        kept &= table["arm"].isin(self.arms) | (not self.arms)
        return table[kept].reset_index(drop=True)

    @property
    def _parts(self):
        """(name, shown rows) of each campaign."""
        return self.verdicts.groupby("campaign", sort=False)

    @cached_property
    def headline(self) -> str:
        """The main comparison of each campaign in words."""
        said = []
        for name, rows in self._parts:
            if not is_control(rows).all():
                start = f"{name}: " if len(self.sources) > 1 else ""
                said.append(start + report.headline(report.primary(rows, self.metric)))
        return " ".join(said) or "Nothing is left to show: choose an arm and a thread count."

    @cached_property
    def remarks(self) -> list[str]:
        """What a reader must know about what was asked."""
        said = list(dict.fromkeys(n for s in self._there.values() for n in s.notes(self.workload)))
        declared = {f"{s.study.margin_pct:g}" for s in self.sources}
        if declared != {f"{self.margin_pct:g}"}:
            said.append(
                f"Before measuring, ±{' and ±'.join(sorted(declared))}\u202f% was declared as the"
                f" margin; with ±{self.margin_pct:g}\u202f% these are verdicts to explore with."
            )
        if len(self.verdicts) < len(self.judged):
            said.append("What is hidden is still judged with the rest: a choice makes no verdict.")
        if len(self._there) < len(self.sources):
            said.append("Only one of the two has this workload and metric.")
        return said

    @cached_property
    def figure(self):
        """Overhead against threads, or a forest where that would say less or be crowded."""
        rows, alone = self.verdicts, len(self.sources) == 1
        arms = rows.loc[~is_control(rows), "arm"].nunique()
        if rows["threads"].nunique() > 1 and 0 < arms <= (LINES if alone else 1):
            by = "metric" if alone else "campaign"
            return plots.overhead(rows, self.metric, margin_pct=self.margin_pct, by=by)
        return plots.dots(rows, by=("campaign", "threads"), margin_pct=self.margin_pct)

    @cached_property
    def alt(self) -> str:
        """Alternative text of the figure."""
        if len(self.sources) == 1:
            return plots.alt(self.verdicts)
        return " ".join(f"{name}: {plots.alt(rows)}" for name, rows in self._parts)

    @cached_property
    def apart(self) -> pd.DataFrame:
        """`results.apart` of the two campaigns; without rows for one."""
        parts = [rows for _, rows in self._parts]
        return results.apart(*parts, self.margin_pct) if len(parts) == 2 else pd.DataFrame()

    @cached_property
    def comparisons(self) -> list[tuple[str, int]]:
        """What has runs of its own: (words, row of `verdicts`), the study's own ones first."""
        rows = self.verdicts[~is_joint(self.verdicts)]
        rows = rows.loc[is_control(rows).sort_values(kind="stable").index]
        found = []
        for row in rows.itertuples():
            name = row.campaign if len(self.sources) > 1 else ""
            words = filter(None, (name, row.arm + COPY * row.control, counted(row.threads)))
            found.append((", ".join(words), row.Index))
        return found

    def close(self, row: int) -> "Comparison":
        """One row of `verdicts`, seen from near."""
        verdict = self.verdicts.loc[row]
        return Comparison(self, self._named[verdict["campaign"]], verdict)

    @cached_property
    def told(self) -> str:
        """The table of verdicts, and of the differences between two campaigns, as HTML."""
        parts = []
        for name, rows in self._parts:
            meta = self._named[name].meta
            facts = (name, report.machine(meta), report.engine(meta))
            words = ", ".join(dict.fromkeys(filter(None, facts)))
            parts.append(report.verdict_table(rows, words).markup)
        if len(self.apart):
            words = (
                "The second campaign against the first: how far the overheads are apart, in percent,"
                " with the interval of two independent measurements."
            )
            parts.append(report.table(self.apart, words, name="apart").markup)
        return joined(parts)

    @cached_property
    def still(self) -> str:
        """All of it as HTML that needs no controls."""
        if self.verdicts.empty:
            return piece("asks", [self.headline, *self.remarks])
        data = report.flat(self.verdicts)
        given = {"alt": self.alt, "caption": self.headline, "data": data, "name": "explored"}
        shown = plots.show(self.figure, **given)
        words, row = self.comparisons[0]
        near = self.close(row)
        close = plots.show(near.figure, alt=near.alt, caption=words, data=near.pairs, name="near")
        pieces = (shown.markup, piece("asks", self.remarks), self.told, close.markup)
        return joined((*pieces, near.raw(near.runs["run"].iloc[0])))


class Comparison:
    """The pairs and runs behind `row` of a verdict table. `pairs`: in the order of measuring, none
    where runs are not paired; `runs`: pair by pair, rows of the tidy table with the columns point
    (row of the table that `figure` draws) and words."""

    def __init__(self, question: Question, source: results.Results, row: pd.Series):
        self.row, self._source, self._margin_pct = row, source, question.margin_pct
        self._spec, self.pairs = METRICS[question.metric], pd.DataFrame()
        asked, both = (question.workload, question.metric), [row["baseline"], row["arm"]]
        rows = self._alike(source.judged(*asked))
        rows = rows[rows["arm"].isin(both)].reset_index(drop=True)
        paired = rows["pair_id"].notna().any()
        if paired:
            found = self._alike(source.pairs(*asked, row["arm"]))
            self.pairs = found.sort_values(["block", "pair"], ignore_index=True)
            mine = rows.loc[rows["arm"] == row["arm"], ["block", "pair", "pair_id"]]
            at = self.pairs[["block", "pair"]].reset_index(names="point").merge(mine)
            rows = rows.merge(at[["pair_id", "point"]], on="pair_id")
            rows = rows.sort_values(["point", "position"], ignore_index=True)
        else:
            rows["point"] = range(len(rows))
        words = [
            (f"pair {r.point + 1}, block {r.block}, " if paired else "")
            + f"{r.arm}: {r.value * self._spec.scale:,.5g} {self._spec.shown_unit}".rstrip()
            for r in rows.itertuples()
        ]
        self.runs = rows.assign(words=words)
        self.alt = f"The runs behind it. {plots.alt(row.to_frame().T)}"

    def _alike(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows with the thread count of this comparison, or with none as it has none."""
        count = self.row["threads"]
        same = rows["threads"].isna() if pd.isna(count) else rows["threads"].eq(count)
        return rows[same.fillna(False)]

    @cached_property
    def figure(self):
        """The pairs and the path to the verdict, or the single runs."""
        if self.pairs.empty:
            return plots.runs(self.runs, self._spec.name)
        path = stats.path(self.pairs, level=self.row["level"], margin_pct=self._margin_pct)
        return plots.pairs(self.pairs, path, margin_pct=self._margin_pct)

    def raw(self, run: str) -> str:
        """The text that was printed in a run, and in the other run of its pair, as HTML."""
        chosen = self.runs[self.runs["run"] == run]
        if chosen["pair_id"].notna().all():
            chosen = self.runs[self.runs["pair_id"].isin(chosen["pair_id"])]
        found = [
            (one.words, name, text)
            for one in chosen.itertuples()
            for name, text in self._source.raw(one.run).items()
        ]
        return piece("raws", found)


# -- the controls ----------------------------------------------------------------------------------


class Picture(anywidget.AnyWidget):
    """A figure whose points can be clicked; `on_row` gets the row of the caller's table."""

    _esm = TEMPLATE / "picture.js"
    markup = traitlets.Unicode().tag(sync=True)
    spots = traitlets.List().tag(sync=True)
    chosen = traitlets.Int(-1).tag(sync=True)

    def draw(self, figure, alt: str = "") -> None:
        """Show `figure`; nothing for None."""
        with self.hold_sync():
            self.markup = plots.svg(figure, "Figure", alt) if figure else ""
            self.spots = plots.spots(figure) if figure else []
            self.chosen = -1

    def on_row(self, call) -> None:
        """Call `call(row)` when a point is clicked."""
        self.on_msg(lambda _, content, __: call(int(content["row"])))


class Explorer:
    """The controls and what follows them, for the last line of a notebook cell.

    `source` and `against`: campaigns by name or archives by path, "" for the newest recorded one and
    for none; `texts`: the folder that an archive was made from; the rest (workload, metric, threads,
    arms, margin_pct): what is asked first, empty for all or the page's own. Raises NotFound, Unknown, Damaged."""

    def __init__(self, source="", against="", *, margin_pct=0.0, texts="", **asked):
        source = source or next(filter(None, map(report.recorded_campaign, STUDIES)), "")
        if not source:
            raise paths.NotFound("there is no recorded campaign; nothing was opened")
        self._texts, self._listed = texts, listed()
        study = source if is_archive(source) else self._open(source).study.name
        for name in filter(is_archive, (source, against)):
            self._open(name)
            if not (self._listed[["source", "study"]] == [name, study]).all(axis=1).any():
                own = Path(name).name
                self._listed.loc[len(self._listed)] = (name, study, f"Archive {own}", own)
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
        def control(kind, name, width="24rem", **more):
            wide = ipywidgets.Layout(width=width, max_width="100%")
            style = {"description_width": "6rem"}
            made = kind(description=name, style=style, layout=wide, **more)
            made.observe(self._moved, "value")
            return made

        drop, many = ipywidgets.Dropdown, ipywidgets.SelectMultiple
        limits = {"min": 0.1, "max": 99.0, "step": 0.5, "value": 2.0}
        self.study = control(drop, "Study")
        self.campaign = control(drop, "Campaign")
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
        self.overview, self.close = Picture(), Picture()
        self.overview.on_row(self._clicked)
        self.close.on_row(self._clicked_run)
        asked = (self.study, self.campaign, self.against, self.workload, self.metric, self.margin)
        asked += (self.threads, self.arms, self.baseline)
        rows = {"flex_flow": "row wrap", "width": "100%"}
        first, second = (
            ipywidgets.HBox(c, layout=rows) for c in (asked, (self.comparison, self.run))
        )
        shown = (first, self.status, self.overview, self.table, second, self.close, self.raw)
        self.panel = ipywidgets.VBox(shown)

    def _repr_mimebundle_(self, include=None, exclude=None):
        still = {"text/html": str(self.question.still), "text/plain": self.question.headline}
        return self.panel._repr_mimebundle_() | still

    def _open(self, name: str, baseline: str = "") -> results.Results:
        return opened(name, baseline, self._texts)

    def _fill_sources(self, source: str = "", against: str = "") -> None:
        rows = self._listed[self._listed["study"] == self.study.value]
        known = list(zip(rows["label"], rows["source"], strict=True))
        _offer(self.campaign, known, source or report.recorded_campaign(self.study.value))
        _offer(self.against, [("nothing", ""), *known], against)

    def _fill(self, workload="", metric="", threads=(), arms=()) -> None:
        """Offer what the chosen campaign has, and keep what is chosen where it is still there, but
        for what is asked."""
        source, new = self._open(self.campaign.value), self._opened != self.campaign.value
        if new:
            self._opened, self.margin.value = self.campaign.value, source.study.margin_pct
        rows = source.judged()
        works = [w.name for w in source.study.workloads if w.name in set(rows["workload"])]
        if not works:
            raise Unknown("This campaign has no whole pair yet.")
        _offer(self.workload, works, workload)
        rows = source.judged(self.workload.value)
        there, first = [source.study.baseline.name], None
        if theirs := isinstance(source, archive.Archive):
            there, held = list(pd.unique(rows["arm"])), self.baseline.value
            first = source.first(self.workload.value) if new or held not in there else held
        _offer(self.baseline, there, first)
        source = self._open(self.campaign.value, self.baseline.value)
        self.baseline.disabled = not theirs
        self.baseline.layout.display = None if theirs else "none"
        judged = source.study.workload(self.workload.value).metrics
        metrics = [m for m in judged if m in set(rows["metric"])]
        _offer(self.metric, [(metric_label(m), m) for m in metrics], metric)
        counts = sorted(int(t) for t in rows["threads"].dropna().unique())
        _offer(self.threads, counts, threads)
        base, again = source.study.baseline, source.study.control
        seen = set(rows["arm"]) - {base.name}
        named = [a.name for a in (*source.study.arms, again) if a.name in seen]
        _offer(self.arms, [(a + COPY * (a == again.name), a) for a in named], arms)
        plots.order([base, again, *source.study.arms])

    def _moved(self, change) -> None:
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
                    self.workload.options = ()  # one that has the same name is another
                self._fill()
                self._answer()
        except PROBLEMS as e:
            self.status.value = piece("status", str(e), ())
        finally:
            self._settled = True

    def _answer(self) -> None:
        """Ask what the controls say, and show everything that follows."""
        names = dict.fromkeys(filter(None, (self.campaign.value, self.against.value)))
        self.question = q = Question(
            tuple(self._open(n, self.baseline.value) for n in names),
            self.workload.value,
            self.metric.value,
            self.margin.value,
            tuple(self.threads.value),
            tuple(self.arms.value),
        )
        self.status.value = piece("status", q.headline, q.remarks)
        empty = q.verdicts.empty
        self.overview.draw(None if empty else q.figure, q.alt)
        self.table.value = "" if empty else q.told
        there = [] if empty else q.comparisons
        _offer(self.comparison, there, dict(there).get(self.comparison.label))
        self._show_close()

    def _show_close(self) -> None:
        row = self.comparison.value
        if row is None:
            self.close.draw(None)
            self.raw.value = ""
            return _offer(self.run, [])
        self.near = self.question.close(row)
        self.overview.chosen = row
        self.close.draw(self.near.figure, self.near.alt)
        runs = self.near.runs
        _offer(self.run, list(zip(runs["words"], runs["run"], strict=True)), runs["run"].iloc[0])
        self._show_raw()

    def _show_raw(self) -> None:
        runs = self.near.runs
        self.close.chosen = int(runs.loc[runs["run"] == self.run.value, "point"].iloc[0])
        self.raw.value = self.near.raw(self.run.value)

    def _clicked(self, row: int) -> None:
        if row in [v for _, v in self.comparison.options]:
            self.comparison.value = row

    def _clicked_run(self, point: int) -> None:
        at = self.near.runs[self.near.runs["point"] == point]
        mine = at[at["arm"] == self.near.row["arm"]]
        self.run.value = (mine if len(mine) else at)["run"].iloc[0]


def _offer(control, options: list, value=None) -> None:
    """Set what a control offers, values or (words, value). It gets `value` where one is given, else
    keeps its own where that is left, else gets the first; where several can be chosen it keeps
    those that are left, or gets all. Raises Unknown for a value that is not offered."""
    options = [o if isinstance(o, tuple) else (str(o), o) for o in options]
    several = isinstance(control, ipywidgets.SelectMultiple)
    values, before, held = [v for _, v in options], list(map(tuple, control.options)), control.value
    wanted = tuple(value or ()) if several else () if value in (None, "") else (value,)
    if odd := [v for v in wanted if v not in values]:
        raise Unknown(
            f"{control.description.lower()} {odd[0]!r} is not in this campaign; there are: "
            f"{', '.join(map(str, values))}; nothing was shown"
        )
    if options != before:
        control.options = options
        if several:
            left = [v for v in values if v in held and len(held) < len(before)]
            control.value = left or values[:MOST]
        elif values:
            control.value = held if held in values else values[0]
    if wanted:
        control.value = wanted if several else value
