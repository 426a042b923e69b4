"""The calibration page: its box, tables and figures."""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analysis import calibration_figures as figures
from noisefloor import calibrate
from noisefloor.calibrate import heldout, live, truth
from noisefloor.calibrate.calibration import INSTRUMENTS, SCATTERS
from noisefloor.calibrate.goals import pct
from noisefloor.calibrate.tables import floor, tau
from noisefloor.model import METRICS
from noisefloor.show import plots
from noisefloor.show.markup import Shown, joined, piece
from noisefloor.show.report import pieces
from noisefloor.stats import combine, row
from noisefloor.stats.verdict import differs
from noisefloor.text import amounts

ADVICE = (
    "act on differences it finds, not on their exact size; "
    'after "cannot tell", reboot and measure again'
)
OLD = (
    "The synthetic figures are those of an earlier version of the rule: run `noisefloor calibrate`."
)


class Page(calibrate.Calibration):
    """A Calibration as its page shows it."""

    # -- the head and the end

    @property
    def box(self) -> Shown:
        """The box at the top of the page: the four sentences, and what to do."""
        date = self.figures["facts"]["date"][:10]
        simulated = f"{self._simulated} simulated measurements, {date}."
        sentences = joined(piece("headline", _narrow(s)) for s in self.sentences)
        inner = joined((sentences, piece("answer", (), (), ADVICE, simulated)))
        return Shown(piece("box", inner), self.headline)

    @property
    def _simulated(self) -> str:
        """How many synthetic campaigns there are."""
        return f"{int(self.cells['n'].sum()):,}"

    @property
    def details(self) -> list[str]:
        """The numbers behind the four sentences of the box, as sentences."""
        false, low, high = self.cells["different_pct"], self._named.max(), self._named.min()
        kinds = f"over {len(false)} kinds of noise"
        details = [
            f"Equal servers, {kinds}: {false.min():.1f} to {false.max():.1f} of 100 synthetic "
            "campaigns name a difference.",
            "Missed in the median kind of noise, by how much runs and starts scatter: a real 2 % in "
            f"{100 - low[2]:.0f} to {100 - high[2]:.0f} % of campaigns, 4 % in {100 - low[4]:.0f} to "
            f"{100 - high[4]:.0f} %.",
        ]
        try:
            pairs = ((self.identical, "identical servers"), (self.controls, "a server with itself"))
            details += [
                f"Of {len(rows)} recorded comparisons of {what} {rows['verdict'].map(differs).sum()} "
                "name a difference."
                for rows, what in pairs
            ]
            details += [
                f"Of {r.repeats} repeats of {INSTRUMENTS.get(r.instrument, r.instrument)} {r.inside} "
                "lie inside: sittings differ by more than one of them shows."
                for r in self._badly_predicted()
            ]
        except live.TooShort as e:
            details.append(str(e))
        return details

    @property
    def behind(self) -> Shown:
        """The campaigns and the `details` behind the box, and which goals are missed."""
        facts = self.figures["facts"]
        shown = {
            "synthetic campaigns": self._simulated,
            "recorded campaigns": f"{len(self.opened):,}",
            "seed": facts["seed"],
        }
        missed: Iterable[Any] = self.goals[self.goals["reached"] == "no"].itertuples()
        notes = self.details
        notes += [f"Missed: {g.goal} ({g.measured}; goal {g.limit})" for g in missed]
        unknown = self.goals.loc[self.goals["reached"] == "not measured", "where"]
        notes += dict.fromkeys(unknown)
        if facts["rule"] != truth.fingerprint():
            notes.append(OLD)
        return Shown(joined((piece("facts", shown), piece("notes", [*map(_narrow, notes)]))))

    @property
    def campaigns(self) -> dict[str, str]:
        """Parameter of the notebook -> names of the campaigns that were opened."""
        return {"campaigns": ", ".join(r.folder.name for r in self.opened)} if self.opened else {}

    @property
    def provenance(self) -> dict[str, Any]:
        """Where the figures come from."""
        return {"parameters": self.figures["facts"], "raw_files": self.campaigns}

    def save(self) -> None:
        """Store the newest A/A campaign's verdict table beside the page, for the index; an empty table
        if no such campaign is recorded."""
        verdicts, meta = pd.DataFrame(columns=row.COLUMNS), self.figures["facts"]
        if aa := live.asks(self.opened, "aa"):
            verdicts, meta = aa[-1].verdicts, aa[-1].meta | {"date": meta["date"]}
        pieces.save(
            verdicts,
            "calibration",
            meta,
            title="How far can these results be trusted?",
            headline=self.headline,
            advice=ADVICE,
            campaigns=self.campaigns,
            raw=[calibrate.recorded()],
        )

    # -- tables and figures

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The synthetic cells with the names of their noise and scatter, and in percent: covered_pct
        (intervals that hold the truth), different_pct (of equal servers) and same_pct (wrong ones)."""
        cells = self.figures["cells"]
        n = cells["n"] / 100
        return cells.assign(
            noise_label=cells["noise"] + ", " + cells["dependence"].map("r {:g}".format),
            scatter=cells["name"].replace(SCATTERS),
            covered_pct=cells["covered"] / n,
            different_pct=(cells["larger_0"] + cells["smaller_0"]) / n,
            same_pct=(cells["same_2"] + cells["smaller_2"]) / n,
        )

    def table(self, name: str, words: str) -> Shown:
        """The table of TABLES called `name`; a sentence instead if its campaigns are missing."""
        try:
            frame = TABLES[name](self).replace({" %": f"{amounts.THIN}%"}, regex=True)
            return pieces.html_table(frame, words, name=name)
        except live.TooShort as e:
            return Shown(piece("sentence", str(e)))

    def strip(self, value: str, title: str, words: str, **how: Any) -> Shown:
        """A figure of every cell's share `value`: see `calibration_figures.strip`."""
        columns = [c for c in truth.CELLS["cells"] if c != "scatter"]
        data = self.cells[["noise_label", "scatter", *columns, value]]
        ends = data.groupby("noise_label", sort=False)[value].agg(["min", "max"])
        alt = "; ".join(f"{name}: {lo:.1f} to {hi:.1f} %" for name, lo, hi in ends.itertuples())
        drawing = figures.strip(data, value, **how)
        data = data.drop(columns="noise_label")
        return plots.show(drawing, title=title, alt=alt, caption=words, data=data, name=value)

    def power_figure(self, words: str) -> Shown:
        """The figure of how often campaigns find true changes."""
        title, data = "Which differences are found", self.power
        rows: Iterable[Any] = data.itertuples()
        alt = "; ".join(
            f"{r.scatter}, {r.truth_pct} %: {r.named:.0f} % find one, {r.same:.0f} % say same"
            for r in rows
        )
        drawing = figures.power(data)
        return plots.show(drawing, title=title, alt=alt, caption=words, data=data, name="power")

    @property
    def shipped(self) -> Shown:
        """Sentences below the table of known differences at a rate: how pages measure, why, and by how
        much a measured size can be too small. Empty if no size of known work was measured."""
        try:
            known = self.at_rate.dropna(subset="told_pct")
        except live.TooShort:
            return Shown("")
        asleep = known["arrangement"].eq(live.AT_ONCE["rate-sleep"])
        work = known[~asleep].groupby("arrangement", sort=False)["told_pct"].agg(["min", "max"])
        if live.SHIPPED not in work.index:
            return Shown("")
        work["off"] = np.maximum(100 - work["min"], work["max"] - 100)
        rows: Iterable[Any] = work.sort_values("off").itertuples()
        spans = ", then ".join(f"{r.Index} ({r.min:.0f} to {r.max:.0f} %)" for r in rows)
        whole = " and ".join(work.index[work["min"] >= 90])
        ours = known[asleep | known["arrangement"].eq(live.SHIPPED)]
        least: dict[Any, float] = ours.groupby("metric")["told_pct"].min().to_dict()
        names = {m: METRICS[m].short or METRICS[m].label.lower() for m in live.SIZES}
        small = (f"{names[m]} up to {max(0.0, 100 - x):.0f} %" for m, x in least.items())
        text = (
            "Pages measure on shared cores, with different arrivals at each server: the simplest "
            f"arrangement. {f'Only {whole}' if whole else 'No arrangement'} showed at least 90 % of every "
            f"known size; closest to 100 % were {spans}. How much too small a difference can be on a page: "
            f"{', '.join(small)}"
        )
        unknown = " and ".join(name for m, name in names.items() if m not in least)
        text += f"; for {unknown} this is not known." if unknown else "."
        return Shown(piece("sentence", _narrow(text)))


def load(campaigns: str = "") -> Page:
    """The page of the recorded synthetic figures and of the campaigns with these names (separated by
    commas); "" for all recorded ones that are finished."""
    whole = calibrate.open_calibration(campaigns)
    return Page(whole.figures, whole.opened)


# -- tables for reading ------------------------------------------------------------------------------


def _narrow(text: str) -> str:
    """The text with narrow no-break spaces before percent signs."""
    return text.replace(" %", f"{amounts.THIN}%")


def _changes(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of verdict rows for reading: metrics by their label, a change with its interval."""
    rows = zip(*(frame[c] for c in ("change_pct", "lo_pct", "hi_pct", "metric")), strict=True)
    shown = frame.assign(metric=[METRICS[m].label for m in frame["metric"]])
    shown = shown.drop(columns=["lo_pct", "hi_pct"]).rename(columns={"change_pct": "change"})
    if "truth_pct" in shown:
        known = shown["truth_pct"].notna()
        shown["truth_pct"] = shown["truth_pct"].map(amounts.percent).where(known, "–")
        shown = shown.rename(columns={"truth_pct": "true change"})
    shown["change"] = [amounts.with_interval(*numbers) for numbers in rows]
    return shown


def _share(frame: pd.DataFrame) -> list[str]:
    """The measured size as a share of the true one."""
    return ["–" if pd.isna(x) else f"{x:.0f} %" for x in frame["told_pct"]]


def _wrong(verdicts: pd.Series) -> pd.Series:
    """A sort key that puts the verdicts that name a difference first."""
    return ~verdicts.map(differs).astype(bool)


def _by(column: str) -> Callable[[Page], pd.DataFrame]:
    """A function of a page that makes the table of repeats by a column."""

    def made(page: Page) -> pd.DataFrame:
        shares = heldout.summary(page.repeats, column)
        ends = (
            f"{pct(lo / 100)} to {pct(hi / 100)}"
            for lo, hi in zip(shares["lo_pct"], shares["hi_pct"], strict=True)
        )
        shown = shares[[column, "repeats", "inside"]]
        shown = shown.assign(share=(shares["share_pct"] / 100).map(pct))
        shown[column] = [INSTRUMENTS.get(name, name) for name in shares[column]]
        shown["its bounds"] = list(ends)
        shown["half width of the range"] = [f"±{h:.1f} %" for h in shares["half_pct"]]
        return shown.assign(**{"inside, scatter added": shares["inside_tau"]})

    return made


def _scatter(page: Page) -> pd.DataFrame:
    """The scatter between sittings of each instrument and metric."""
    rows = [
        (
            INSTRUMENTS.get(name, name),
            METRICS[metric].label,
            f"{100 * e['value']:.2f} %",
            *(e[k] for k in ("df", "questions", "sittings")),
        )
        for name, entries in tau(page.opened).items()
        if isinstance(entries, dict)
        for metric, e in entries.items()
    ]
    if not rows:
        raise live.TooShort("No question was measured in two sittings on one processor.")
    columns = ["instrument", "metric", "scatter", "degrees of freedom", "questions", "sittings"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(
        used=["yes" if q >= combine.QUESTIONS else "no" for q in frame["questions"]]
    )


def _starts(page: Page) -> pd.DataFrame:
    """The scatter of one server from start to start."""
    campaigns = live.asks(page.opened, "aa")
    if not campaigns:
        raise live.TooShort(live.NONE.format("of two identical servers"))
    rows = [
        (
            METRICS[m].label,
            amounts.around(f"{e['cv_pct']:.2f} %", f"{e['lo_pct']:.2f}", f"{e['hi_pct']:.2f} %"),
            e["df"],
        )
        for m, e in floor(*campaigns).items()
        if isinstance(e, dict)
    ]
    return pd.DataFrame(rows, columns=["metric", "start-to-start CV", "degrees of freedom"])


def _sittings(page: Page) -> pd.DataFrame:
    known = page.figures["sittings"]
    return pd.DataFrame(
        {
            "scatter between sittings": known["tau"].map(pct),
            "standard error of a campaign": known["se"].map(pct),
            "sittings": known["sittings"],
            "interval holds the truth": (known["covered"] / known["n"]).map(pct),
            "its half width": [f"±{h:.1f} %" for h in known["half_pct"]],
            "next campaign in its range": (known["inside"] / known["n"]).map(pct),
            "half width of the range": [f"±{h:.1f} %" for h in known["next_pct"]],
        }
    )


def _files(page: Page) -> pd.DataFrame:
    files = page.figures["files"]
    shares = {
        word.replace("_", " "): (files[word] / files["n"]).map(pct)
        for word in ("faster", "slower", "same")
    }
    return pd.DataFrame(
        {
            "server starts": ["one a run" if r else "one an arm" for r in files["restarts"]],
            "runs an arm": files["runs"],
            "run-to-run CV": files["cv"].map(pct),
            "true change": files["effect"].map(pct),
            **shares,
        }
    )


def _mutants(page: Page) -> pd.DataFrame:
    mutants: pd.DataFrame = page.figures["mutants"]
    n = mutants["n"]
    shares = {"false differences": mutants["count"] / n, "of the rule itself": mutants["rule"] / n}
    return mutants[["mutant"]].assign(**{name: share.map(pct) for name, share in shares.items()})


def _rivals(page: Page) -> pd.DataFrame:
    rivals: pd.DataFrame = page.figures["rivals"]
    rivals = rivals.assign(share=(rivals["count"] / rivals["n"]).map(pct))
    wide: Any = rivals.pivot(index="rival", columns="drift", values="share")
    wide = wide.loc[rivals["rival"].unique(), rivals["drift"].unique()]
    return wide.rename(columns="drift: {}".format).reset_index().rename_axis(columns=None)


def _two(page: Page) -> pd.DataFrame:
    """The leave-one-source-out table, the names of sources as they are cited."""
    shown = page.two.assign(metric=[METRICS[m].label for m in page.two["metric"]])
    shown["inside"] = [f"{x:.1f} %" for x in shown.pop("inside_pct")]
    shown["experimental"] = shown["experimental"].map({True: "yes", False: "no"})
    return shown[["metric", "runs", "source", "groups", "inside", "experimental"]]


TABLES: dict[str, Callable[[Page], pd.DataFrame]] = {
    "goals": lambda c: c.goals,
    "identical": lambda c: _changes(c.identical.drop(columns="workload")),
    "controls": lambda c: _changes(c.controls.sort_values("verdict", key=_wrong, kind="stable")),
    "slowdowns": lambda c: _changes(c.slowdowns),
    "at-a-rate": lambda c: _changes(c.at_rate.assign(**{"share of the true size": _share})).drop(
        columns=["told_pct", "half_pct"]
    ),
    "repeats-by-instrument": _by("instrument"),
    "repeats-by-study": _by("study"),
    "scatter-between-sittings": _scatter,
    "scatter-between-starts": _starts,
    "sittings": _sittings,
    "two-numbers": _two,
    "files": _files,
    "mutants": _mutants,
    "rivals": _rivals,
}
