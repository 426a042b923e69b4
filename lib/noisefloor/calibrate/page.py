"""What the page and the command say: sentences, tables and figures, none of them written by hand."""

import json
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from noisefloor import paths, stats
from noisefloor.calibrate import figures, goals, heldout, live, truth
from noisefloor.calibrate.found import floor, tau
from noisefloor.calibrate.goals import pct
from noisefloor.data import results
from noisefloor.model import METRICS
from noisefloor.show import plots, report
from noisefloor.show.markup import Shown, joined, piece
from noisefloor.stats import combine, scatter
from noisefloor.stats.verdict import differs
from noisefloor.text import amounts

SYNTHETIC = "calibration-synthetic"  # under data/raw/recorded
INSTRUMENTS = {
    "sysbench": "sysbench", "connect": "connections", "backup": "backups", "replica": "replicas",
    "restart": "restarts", "thread pool": "thread pools",
    "at a rate": "at a rate",
}  # fmt: skip
OLD = (
    "The synthetic figures are those of an earlier version of the rule: run `noisefloor calibrate`."
)


@dataclass(frozen=True)
class Calibration:
    """The synthetic figures (`truth.read`) and the campaigns that are there, opened."""

    figures: dict
    opened: tuple[results.Results, ...] = ()

    # What campaigns say; live.TooShort where there are none.
    identical = cached_property(lambda c: live.called(c.opened, control=False))
    controls = cached_property(lambda c: live.called(c.opened, control=True))
    slowdowns = cached_property(lambda c: live.slowdowns(c.opened))
    at_rate = cached_property(lambda c: live.at_rate(c.opened))
    goals = cached_property(goals.table)

    @cached_property
    def repeats(self):
        """Every recorded repeat, predicted from the sittings before it (`heldout.held_out`)."""
        frame = heldout.held_out(heldout.comparisons(self.opened))
        if frame.empty:
            raise live.TooShort("No question was measured in two sittings on one processor.")
        return frame

    @cached_property
    def two(self):
        """What the fit behind two numbers says of each source when it is left out: columns metric, runs
        (long or short), source, groups, inside_pct, experimental."""
        fits = scatter.fits()["fits"].items()
        rows = [
            {"metric": metric, "runs": length} | source
            for metric, lengths in fits
            for length, fit in lengths.items()
            for source in fit["left_out"]
        ]
        return pd.DataFrame(rows)

    @cached_property
    def cells(self):
        """The synthetic cells with the names of their noise and scatter, and in percent: covered_pct,
        different_pct (of equal servers) and same_pct (false)."""
        cells = self.figures["cells"]
        n = cells["n"] / 100
        return cells.assign(
            noise_label=cells["noise"] + ", " + cells["dependence"].map("r {:g}".format),
            scatter=cells["name"],
            covered_pct=cells["covered"] / n,
            different_pct=(cells["larger_0"] + cells["smaller_0"]) / n,
            same_pct=(cells["same_2"] + cells["smaller_2"]) / n,
        )

    @cached_property
    def power(self):
        """What campaigns say of true changes, the median cell of each scatter: columns scatter,
        truth_pct, named (the difference) and same, in percent."""
        rows = []
        for name, part in self.cells.groupby("scatter", sort=False):
            for t in truth.CELLS["truths_pct"]:
                shares = (100 * (part[f"{w}_{t}"] / part["n"]).median() for w in ("larger", "same"))
                rows.append((name, t, *shares))
        return pd.DataFrame(rows, columns=["scatter", "truth_pct", "named", "same"])

    # -- the head and the end of the page

    @property
    def sentences(self):
        """How often it cries wolf, what it misses, whether a repeat falls into the interval, and where
        it must not be trusted."""
        return self._wolf(), self._misses(), *self._repeated()

    def _wolf(self):
        share = self.cells["different_pct"]
        words = (
            f"Of two equal servers it says that they differ in {share.median():.1f} of 100 synthetic "
            f"campaigns ({share.max():.1f} in the worst of {len(share)} kinds of noise)"
        )
        try:
            wrong = [int(f["verdict"].map(differs).sum()) for f in (self.identical, self.controls)]
        except live.TooShort:
            return f"{words}."
        return (
            f"{words}, in {wrong[0]} of {len(self.identical)} recorded comparisons of identical servers "
            f"and in {wrong[1]} of {len(self.controls)} of a server with itself."
        )

    def _misses(self):
        missed = (100 - self.power.set_index("truth_pct")["named"]).groupby(level=0)
        small, large = (f"{missed.min()[t]:.0f} to {missed.max()[t]:.0f} %" for t in (2, 4))
        return (
            f"It misses a real change of 2 % in {small} of campaigns and one of 4 % in {large}, depending "
            "on how much runs and starts scatter."
        )

    def _repeated(self):
        try:
            repeats = self.repeats
        except live.TooShort as e:
            words = f"Whether a repeat falls into its range is not known. {e}"
            return words, NO_TRUST.format("anything")
        inside, n = int(repeats["inside"].sum()), len(repeats)
        words = (
            f"A repeat on the same processor fell into the range predicted before it in {inside} of "
            f"{n} cases ({pct(inside / n)}); the goal is 90 %."
        )
        each = heldout.summary(repeats, "instrument")
        bad = [
            f"{INSTRUMENTS.get(r.instrument, r.instrument)} ({r.inside} of {r.repeats} repeats inside)"
            for r in each[each["share_pct"] < 90].itertuples()
        ]
        return words, NO_TRUST.format(" and ".join(bad)) if bad else TRUSTED

    @property
    def headline(self):
        """The sentences, and how many goals are missed."""
        reached = self.goals["reached"]
        missed, asked = int((reached == "no").sum()), int((reached != "not measured").sum())
        end = (
            f"It misses {missed} of {asked} goals." if missed else f"All {asked} goals are reached."
        )
        return " ".join((*self.sentences, end))

    @property
    def box(self):
        """The box at the top of the page."""
        facts = self.figures["facts"]
        shown = [
            ("Synthetic campaigns", f"{int(self.cells['n'].sum()):,}"),
            ("Recorded campaigns", f"{len(self.opened):,}"),
            ("Computed", facts["date"][:10]),
            ("Seed", str(facts["seed"])),
        ]
        missed = self.goals[self.goals["reached"] == "no"]
        notes = [f"Missed: {g.goal} ({g.measured}; goal {g.limit})" for g in missed.itertuples()]
        unknown = self.goals.loc[self.goals["reached"] == "not measured", "where"]
        notes += dict.fromkeys(unknown)
        if facts["rule"] != truth.fingerprint():
            notes.append(OLD)
        words = joined(piece("headline", _narrow(s)) for s in self.sentences)
        box = piece("box", "nf-same", words, shown, [*map(_narrow, notes)])
        return Shown(box, self.headline)

    @property
    def campaigns(self):
        """Parameter of the notebook -> names of the campaigns that were opened."""
        return {"campaigns": ", ".join(r.folder.name for r in self.opened)} if self.opened else {}

    @property
    def provenance(self):
        """Where the figures come from."""
        return {"parameters": self.figures["facts"], "raw_files": self.campaigns}

    def save(self):
        """Store the newest A/A campaign's verdict table beside the page, for the index; an empty one
        where none is recorded."""
        verdicts, meta = pd.DataFrame(columns=stats.row.COLUMNS), self.figures["facts"]
        if aa := live.asks(self.opened, "aa"):
            verdicts, meta = aa[-1].verdicts, aa[-1].meta
        report.save(
            verdicts,
            "calibration",
            meta,
            title="Calibration",
            headline=self.headline,
            campaigns=self.campaigns,
            raw=[recorded()],
        )

    # -- tables and figures

    def table(self, name, words):
        """A table of TABLES for reading; a sentence where its campaigns are not there."""
        try:
            frame = TABLES[name](self).replace({" %": f"{amounts.THIN}%"}, regex=True)
            return report.table(frame, words, name=name)
        except live.TooShort as e:
            return Shown(piece("sentence", str(e)))

    def strip(self, value, title, words, **how):
        """A figure of every cell's share `value`: see `figures.strip`."""
        columns = [c for c in truth.CELLS["cells"] if c != "scatter"]
        data = self.cells[["noise_label", "scatter", *columns, value]]
        ends = data.groupby("noise_label", sort=False)[value].agg(["min", "max"])
        alt = "; ".join(f"{name}: {lo:.1f} to {hi:.1f} %" for name, lo, hi in ends.itertuples())
        drawing = figures.strip(data, value, **how)
        data = data.drop(columns="noise_label")
        return plots.show(drawing, title=title, alt=alt, caption=words, data=data, name=value)

    def power_figure(self, words):
        """The figure of what campaigns say of true changes."""
        alt = "; ".join(
            f"{r.scatter}, {r.truth_pct} %: {r.named:.0f} % name it, {r.same:.0f} % say same"
            for r in self.power.itertuples()
        )
        title = "Which changes are named"
        show = {"title": title, "alt": alt, "caption": words, "data": self.power, "name": "power"}
        return plots.show(figures.power(self.power), **show)


NO_TRUST = "Do not rely on a single sitting of {}: sittings differ by more than one of them shows."
TRUSTED = "No kind of measurement is known whose repeats it predicts badly."


def _narrow(text):
    """The text with narrow spaces before percent signs, where no line breaks."""
    return text.replace(" %", f"{amounts.THIN}%")


def _changes(frame):
    """A table of verdict rows for reading: metrics by their label, a change with its interval."""
    rows = zip(*(frame[c] for c in ("change_pct", "lo_pct", "hi_pct", "metric")), strict=True)
    shown = frame.assign(metric=[METRICS[m].label for m in frame["metric"]])
    shown = shown.drop(columns=["lo_pct", "hi_pct"]).rename(columns={"change_pct": "change"})
    if "truth_pct" in shown:
        known = shown["truth_pct"].notna()
        shown["truth_pct"] = shown["truth_pct"].map(amounts.percent).where(known, "–")
        shown = shown.rename(columns={"truth_pct": "true change"})
    shown["change"] = [amounts.told(*row) for row in rows]
    return shown


def _share(frame):
    """How much of a true size was told."""
    return ["–" if pd.isna(x) else f"{x:.0f} %" for x in frame["told_pct"]]


def _wrong(verdicts):
    """False for the words that name a difference, which come first."""
    return ~verdicts.map(differs).astype(bool)


def _by(column):
    """The table of repeats by a column."""

    def made(c):
        s = heldout.summary(c.repeats, column)
        ends = (
            f"{pct(lo / 100)} to {pct(hi / 100)}"
            for lo, hi in zip(s["lo_pct"], s["hi_pct"], strict=True)
        )
        shown = s[[column, "repeats", "inside"]].assign(share=(s["share_pct"] / 100).map(pct))
        shown[column] = [INSTRUMENTS.get(name, name) for name in s[column]]
        shown["its bounds"] = list(ends)
        shown["half width of the range"] = [f"±{h:.1f} %" for h in s["half_pct"]]
        return shown.assign(**{"inside, scatter added": s["inside_tau"]})

    return made


def _scatter(c):
    """The scatter between sittings of each instrument and metric."""
    known = tau(c.opened)
    rows = [
        (INSTRUMENTS.get(name, name), METRICS[metric].label, f"{100 * e['value']:.2f} %", *more)
        for name, entries in known.items()
        if isinstance(entries, dict)
        for metric, e in entries.items()
        for more in [(e["df"], e["questions"], e["sittings"])]
    ]
    if not rows:
        raise live.TooShort("No question was measured in two sittings on one processor.")
    columns = ["instrument", "metric", "scatter", "degrees of freedom", "questions", "sittings"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(
        used=["yes" if q >= combine.QUESTIONS else "no" for q in frame["questions"]]
    )


def _starts(c):
    """The scatter of one server from start to start."""
    opened = live.asks(c.opened, "aa")
    if not opened:
        raise live.TooShort(live.NONE.format("two identical servers"))
    rows = [
        (
            METRICS[m].label,
            f"{e['cv_pct']:.2f} % ({e['lo_pct']:.2f} to {e['hi_pct']:.2f} %)",
            e["df"],
        )
        for m, e in floor(*opened).items()
        if isinstance(e, dict)
    ]
    return pd.DataFrame(rows, columns=["metric", "start-to-start CV", "degrees of freedom"])


def _sittings(c):
    s = c.figures["sittings"]
    return pd.DataFrame(
        {
            "scatter between sittings": (s["tau"]).map(pct),
            "standard error of a campaign": s["se"].map(pct),
            "sittings": s["sittings"],
            "interval holds the truth": (s["covered"] / s["n"]).map(pct),
            "its half width": [f"±{h:.1f} %" for h in s["half_pct"]],
            "next campaign in its range": (s["inside"] / s["n"]).map(pct),
            "half width of the range": [f"±{h:.1f} %" for h in s["next_pct"]],
        }
    )


def _files(c):
    f = c.figures["files"]
    each = {w.replace("_", " "): (f[w] / f["n"]).map(pct) for w in ("faster", "slower", "same")}
    return pd.DataFrame(
        {
            "server starts": ["one a run" if r else "one an arm" for r in f["restarts"]],
            "runs an arm": f["runs"],
            "run-to-run CV": f["cv"].map(pct),
            "true change": f["effect"].map(pct),
            **each,
        }
    )


def _mutants(c):
    m = c.figures["mutants"]
    shares = {"false differences": m["count"] / m["n"], "of the rule itself": m["rule"] / m["n"]}
    return m[["mutant"]].assign(**{name: share.map(pct) for name, share in shares.items()})


def _rivals(c):
    r = c.figures["rivals"]
    r = r.assign(share=(r["count"] / r["n"]).map(pct))
    wide = r.pivot(index="rival", columns="drift", values="share")
    wide = wide.loc[r["rival"].unique(), r["drift"].unique()]
    return wide.rename(columns="drift: {}".format).reset_index().rename_axis(columns=None)


def _two(c):
    """The leave-one-source-out table, the names of sources as they are cited."""
    shown = c.two.assign(metric=[METRICS[m].label for m in c.two["metric"]])
    shown["inside"] = [f"{x:.1f} %" for x in shown.pop("inside_pct")]
    shown["experimental"] = shown["experimental"].map({True: "yes", False: "no"})
    return shown[["metric", "runs", "source", "groups", "inside", "experimental"]]


TABLES = {
    "goals": lambda c: c.goals,
    "identical": lambda c: _changes(c.identical.drop(columns="workload")),
    "controls": lambda c: _changes(c.controls.sort_values("verdict", key=_wrong, kind="stable")),
    "slowdowns": lambda c: _changes(c.slowdowns),
    "at-a-rate": lambda c: _changes(c.at_rate.assign(told=_share)).drop(columns="told_pct"),
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


def load(campaigns=""):
    """The recorded synthetic figures and the campaigns called so, "" for all recorded ones that came to
    their end."""
    folders = results.named(campaigns) or recorded_folders()
    return Calibration(truth.read(recorded()), tuple(map(results.load, folders)))


def recorded_folders():
    """The folders of all recorded campaigns that came to their end."""
    every = sorted(paths.recorded().glob("*/campaign.json"))
    return [f.parent for f in every if json.loads(f.read_text()).get("finished") != ""]


def recorded():
    """Folder of the recorded synthetic figures."""
    return paths.recorded() / SYNTHETIC
