"""The explorer: ask a campaign, or two side by side, by controls; verdicts, figures and the raw text
of every run follow. Nothing is measured, no server is needed.

`Question` is one state of the controls and everything that it shows; `Explorer` is the controls.
Where nobody can move them (papermill, an exported script) it shows the state it was opened with.
"""

import anywidget
import ipywidgets
import pandas as pd
import traitlets

from noisefloor.data import results
from noisefloor.data.archive import Archive, Unknown
from noisefloor.explore.question import (
    PROBLEMS,
    Question,
    as_listed,
    is_archive,
    listed,
    newest,
    opened,
)
from noisefloor.show import plots, report
from noisefloor.show.markup import TEMPLATE, piece
from noisefloor.show.rows import metric_label

MOST = 12  # arms that are shown before somebody chooses


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
    for none; `texts`: the folder that an archive was made from; the rest: what is asked first, empty
    for all or the page's own. Raises NotFound, Unknown, Damaged."""

    def __init__(
        self,
        source="",
        against="",
        *,
        workload="",
        metric="",
        threads=(),
        arms=(),
        margin_pct=0.0,
        texts="",
    ):
        source, self._texts = source or newest(), texts
        study = source if is_archive(source) else self._open(source).study.name
        self._listed = listed()
        for name in filter(is_archive, (source, against)):
            self._open(name)
            known = self._listed[self._listed["study"] == study]
            if name not in set(known["source"]):
                self._listed.loc[len(self._listed)] = (name, study, *as_listed(name)[2:])
        self._settled, self._opened = False, ""
        self._make()
        titles = self._listed.drop_duplicates("study")[["title", "study"]]
        self.study.options = list(titles.itertuples(index=False, name=None))
        self.study.value = study
        self._fill_sources(source, against)
        self._fill()
        asked = {"workload": workload, "metric": metric, "threads": threads, "arms": arms}
        for name, value in asked.items():
            if value:
                self._ask(name, value if isinstance(value, str) else tuple(value))
                self._fill()
        if margin_pct:
            self.margin.value = margin_pct
        self._settled = True
        self._answer()

    def _ask(self, name: str, value) -> None:
        """Set a control, if it offers the value, or every one of several."""
        control = getattr(self, name)
        there = [v for _, v in control.options]
        for one in [value] if isinstance(value, str) else value:
            if one not in there:
                raise Unknown(
                    f"{name} {one!r} is not in this campaign; there are: "
                    f"{', '.join(map(str, there))}; nothing was shown"
                )
        control.value = value

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
        rows = ipywidgets.Layout(flex_flow="row wrap", width="100%")
        first, second = (
            ipywidgets.HBox(row, layout=rows) for row in (asked, (self.comparison, self.run))
        )
        shown = (first, self.status, self.overview, self.table, second, self.close, self.raw)
        self.panel = ipywidgets.VBox(shown)

    def _repr_mimebundle_(self, include=None, exclude=None):
        still = {"text/html": str(self.question.still), "text/plain": self.question.headline}
        return self.panel._repr_mimebundle_() | still

    def _open(self, name: str, baseline: str = "") -> results.Results:
        return opened(name, baseline, self._texts if is_archive(name) else "")

    # what the controls offer

    def _fill_sources(self, source: str = "", against: str = "") -> None:
        rows = self._listed[self._listed["study"] == self.study.value]
        known = list(zip(rows["label"], rows["source"], strict=True))
        _offer(self.campaign, known, source or report.recorded_campaign(self.study.value))
        _offer(self.against, [("nothing", ""), *known], against)

    def _fill(self, anew: bool = False) -> None:
        """Offer what the chosen campaign has, and keep what is chosen where it is still there; `anew`
        for another study, which begins with its own first workload."""
        source, new = self._open(self.campaign.value), self._opened != self.campaign.value
        if new:
            self._opened, self.margin.value = self.campaign.value, source.study.margin_pct
        rows = source.judged()
        works = [w.name for w in source.study.workloads if w.name in set(rows["workload"])]
        if not works:
            raise Unknown("This campaign has no whole pair yet.")
        _offer(self.workload, works, works[0] if anew else None)
        rows = source.judged(self.workload.value)
        if isinstance(source, Archive):
            there, held = list(pd.unique(rows["arm"])), self.baseline.value
            first = source.first(self.workload.value) if new or held not in there else held
            _offer(self.baseline, there, first)
            source = self._open(self.campaign.value, self.baseline.value)
        else:
            _offer(self.baseline, [source.study.baseline.name])
        self.baseline.disabled = not isinstance(source, Archive)
        self.baseline.layout.display = "none" if self.baseline.disabled else None
        judged = source.study.workload(self.workload.value).metrics
        metrics = [m for m in judged if m in set(rows["metric"])]
        _offer(self.metric, [(metric_label(m), m) for m in metrics])
        _offer(self.threads, sorted(int(t) for t in rows["threads"].dropna().unique()))
        base, again = source.study.baseline, source.study.control
        seen = set(rows["arm"]) - {base.name}
        named = [a.name for a in (*source.study.arms, again) if a.name in seen]
        _offer(self.arms, [(a + " (A/A control)" * (a == again.name), a) for a in named])
        plots.order([base, again, *source.study.arms])

    # what follows them

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
                if anew := change["owner"] is self.study:
                    self._fill_sources()
                self._fill(anew)
                self._answer()
        except PROBLEMS as e:
            self._say(str(e))
        finally:
            self._settled = True

    def _answer(self) -> None:
        """Ask what the controls say, and show everything that follows."""
        base = "" if self.baseline.disabled else self.baseline.value
        names = dict.fromkeys(filter(None, (self.campaign.value, self.against.value)))
        self.question = q = Question(
            tuple(self._open(n, base if is_archive(n) else "") for n in names),
            self.workload.value,
            self.metric.value,
            self.margin.value,
            tuple(self.threads.value),
            tuple(self.arms.value),
        )
        self._say(q.headline, *q.remarks)
        empty = q.verdicts.empty
        self.overview.draw(None if empty else q.figure, q.alt)
        self.table.value = "" if empty else q.told
        there = [] if empty else q.comparisons
        _offer(self.comparison, there, dict(there).get(self.comparison.label))
        self._show_close()

    def _say(self, first: str, *more: str) -> None:
        self.status.value = piece("status", first, more)

    def _show_close(self) -> None:
        row = self.comparison.value
        if row is None:
            self.close.draw(None)
            self.raw.value = ""
            _offer(self.run, [])
            return
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
    """Set what a control offers, values or (words, value). It gets `value` where that is there, else
    keeps its own, else gets the first; where several can be chosen it keeps those that are left, or
    gets all."""
    options = [o if isinstance(o, tuple) else (str(o), o) for o in options]
    before, held = list(map(tuple, control.options)), control.value
    values = [v for _, v in options]
    if options != before:
        control.options = options
        if isinstance(control, ipywidgets.SelectMultiple):
            kept = tuple(v for v in values if v in held) if len(held) < len(before) else ()
            control.value = kept or tuple(values[:MOST])
        elif values:
            control.value = next(v for v in (value, held, values[0]) if v in values)
    elif value in values:
        control.value = value
