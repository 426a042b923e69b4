"""What the page and the command say: tables, figures and sentences, none of them written by hand.

`load` opens the recorded synthetic figures and whatever live campaigns there are."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from noisefloor import paths, stats
from noisefloor.calibrate import figures, goals, live, rivals, truth
from noisefloor.calibrate.goals import SURE, pct
from noisefloor.calibrate.rivals import bounds
from noisefloor.data import results
from noisefloor.show import findings, plots, report
from noisefloor.show.markup import Shown, piece
from noisefloor.show.rows import SHORT, metric_label
from noisefloor.stats import honest
from noisefloor.studies import STUDIES
from noisefloor.text import amounts

SYNTHETIC = "calibration-synthetic"  # under data/raw/recorded
QUESTIONS = ("injected", "aa", "switched", "processor")  # of the study `calibration`
EQUAL = ("aa", "switched", "processor")  # those of identical servers, whose blocks are added up
PILOT = "pilot"  # a campaign of `injected` with duets alone: their arrangements, tried before it
LIMIT = 0.05  # of false alarms, which every mutant must exceed
KNOWN_PCT = 2.0  # overheads beyond it were put in
TABLES = tomllib.loads(Path(__file__).with_name("tables.toml").read_text())
_TOLD = {
    honest.SIZE: "says which arm takes more processor time, and how much",
    honest.WORD: "says which arm takes more processor time; how much is told as under contention",
    honest.NOTHING: "says nothing",
}


@dataclass(frozen=True)
class Calibration:
    """The synthetic figures (`truth.read`), the live campaigns that are there, by QUESTIONS and PILOT,
    earlier ones of EQUAL whose blocks are added, and the names of campaigns whose A/A controls count."""

    figures: dict
    opened: Mapping[str, results.Results] = field(default_factory=dict)
    earlier: tuple[results.Results, ...] = ()
    every: tuple[str, ...] = ()

    # What campaigns say; each raises live.TooShort where they are missing or too short.
    components = cached_property(
        lambda c: pd.concat(map(live.components, c.every_aa), ignore_index=True)
    )
    identical = cached_property(lambda c: live.identical(*c.equal))
    controls = cached_property(lambda c: live.controls(c.every))
    machine_time = cached_property(lambda c: live.machine_time(*c.every_aa))
    live_rivals = cached_property(lambda c: rivals.on_campaign(c.one("aa")))
    known = cached_property(lambda c: live.truths(c.one("injected")))
    slowdowns = cached_property(lambda c: live.injected(c.one("injected"), c.known))
    bias = cached_property(lambda c: live.bias(c.one("injected"), c.known))
    duets = cached_property(lambda c: live.says(c.one("injected"), c.bias))
    information = cached_property(lambda c: live.information(c.one("injected")))
    arrangements = cached_property(lambda c: live.arrangements(c.one(PILOT)))
    levelled = cached_property(lambda c: live.levelled(c.one("aa"), c.one("injected")))
    # What synthetic figures say.
    rivals = cached_property(lambda c: rivals.labelled(c.figures["rivals"]))
    families = property(lambda c: c.figures["families"])
    goals = cached_property(goals.table)

    def one(self, question):
        """A live campaign. Raises live.TooShort where it is missing."""
        if question not in self.opened:
            raise live.TooShort(_absent(question))
        return self.opened[question]

    @property
    def every_aa(self):
        """Campaigns of two identical servers in turn."""
        return [self.one("aa"), *(r for r in self.earlier if r.study.key == "aa")]

    @property
    def equal(self):
        """Campaigns of identical servers."""
        more = [self.opened[q] for q in ("processor", "switched") if q in self.opened]
        return [self.one("aa"), *more, *self.earlier]

    # -- synthetic figures

    def _cells(self, kept, count, label, **counts):
        """The synthetic cells with these counts, and one of them in percent; with what their noise is
        called in figures. Only what a figure shows: a page carries it as CSV."""
        cells = self.figures["cells"].assign(**counts)
        name = cells["noise"] + ", " + cells["dependence"]
        cells = cells.assign(noise_label=name, **{label: 100 * cells[count] / cells["n"]})
        columns = [*truth.KEY, "noise_label", "truth_pct", "n", count, label]
        columns += ["covered_last"] * (count == "covered") + ["cut"] * (count == "wrong")
        return cells.loc[kept(cells["truth_pct"]), columns].reset_index(drop=True)

    @cached_property
    def at_zero(self):
        """Cells whose truth is 0."""
        cells = self.figures["cells"]
        wrong = cells["slower"] + cells["faster"]
        return self._cells(lambda truth: truth == 0, "wrong", "false_alarm_pct", wrong=wrong)

    @cached_property
    def at_margin(self):
        """Cells whose truth is the margin."""
        return self._cells(lambda truth: truth > 0, "same", "false_same_pct")

    @cached_property
    def coverage(self):
        """All cells, with what their intervals hold: where the campaign ended, and at its last look."""
        return self._cells(lambda truth: truth >= 0, "covered", "coverage_pct")

    @property
    def power_at_blocks(self):
        """Normal noise, a pair a block, `truth.POWER_BLOCKS` declared blocks: columns truth_pct, slower,
        same, line."""
        p = self.figures["prices"]
        return p[["truth_pct"]].assign(
            slower=p["slower_at_blocks"] / p["n"],
            same=p["same_at_blocks"] / p["n"],
            line=[f"pair sd {sd:g} %" for sd in p["sd_pct"]],
        )

    @property
    def price(self):
        """Pairs for 80 % right words, by pair sd and true overhead."""
        p, blocks = self.figures["prices"], truth.POWER_BLOCKS
        kinds = zip(p["sd_pct"], p["truth_pct"], strict=True)
        columns = {
            "sd of a pair": [amounts.percent(sd, 1, sign=False) for sd in p["sd_pct"]],
            "true overhead": [amounts.percent(x, 1, sign=False) for x in p["truth_pct"]],
            "pairs, one a block": p["pairs"].astype("Int64"),
            "goal": [goals.price(*kind) for kind in kinds],
            f"right after {blocks} blocks of one pair": (p["right_at_blocks"] / p["n"]).map(pct),
            f"pairs, in {blocks} blocks": p["pairs_in_blocks"].astype("Int64"),
        }
        return pd.DataFrame(columns)

    @property
    def by_blocks(self):
        """Every error rate by the number of declared blocks: median and worst cell with its bound."""
        coverage, rows = self.coverage, []
        missed = coverage.assign(missed=coverage["n"] - coverage["covered"])
        for question, frame, count in (
            ("false slower or faster", self.at_zero, "wrong"),
            (f"family of {truth.THREADS} thread counts", self.families, "count"),
            ("false same at the margin", self.at_margin, "same"),
            ("interval misses the truth", missed, "missed"),
        ):
            for blocks, part in frame.groupby("blocks"):
                share = part[count] / part["n"]
                worst = part.loc[share.idxmax()]
                high = bounds(worst[count], worst["n"])[1]
                rates = map(pct, (share.median(), share.max(), high))
                rows.append((question, blocks, len(part), *rates, goals.cell_name(worst)))
        columns = ["question", "declared blocks", "cells", "median", "worst", "its bound", "where"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def files(self):
        """Files by their number of runs an arm: found at 5 %, and false alarms at no difference."""
        rows = []
        for (restarts, runs), part in self.figures["files"].groupby(["restarts", "runs"]):
            real, equal = part[part["effect"] > 0].iloc[0], part[part["effect"] == 0]
            alarms = (equal["slower"] + equal["faster"]) / equal["n"]
            same = equal.loc[equal["cv"] == real["cv"]].iloc[0]
            rates = (real["slower"] / real["n"], same["same"] / same["n"], alarms.max())
            rows.append(("--restarts" if restarts else "default", runs, *map(pct, rates)))
        columns = ["mode", "runs an arm", "slower at 5 %", "same at 0 %", "most false alarms"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def mutants(self):
        """Each mutant and the rule in the same noise: columns mutant, mutant_pct, at_least_pct,
        rule_pct, exposed."""
        m = self.figures["mutants"]
        least = bounds(m["count"], m["n"], SURE)[0]
        shares = {"mutant_pct": m["value"], "at_least_pct": least, "rule_pct": m["rule"]}
        shares = {name: 100 * share for name, share in shares.items()}
        return m[["mutant"]].assign(**shares, exposed=least > LIMIT)

    # -- live campaigns, for reading

    @cached_property
    def told_duets(self):
        """What each arrangement of a duet found and may say, beside the pairs in turn."""
        in_turn = live.bias(self.one("injected"))[["arm", "bias_pct", "lo_pct", "hi_pct"]]
        both = self.bias.merge(self.duets, on=["design", "threads"])
        both["says"] = both["says"].replace("", "nothing")
        return both.merge(in_turn, on="arm", suffixes=("", "_turn"))

    @cached_property
    def each_block(self):
        """The mean of every A/A block of each design, CPU per transaction: design, block, log."""
        every = pd.concat(
            live.blocks(r, w.name, live.CPU).to_frame("log").assign(design=live.design(r, w.name))
            for r in self.equal
            for w in r.study.workloads
        )
        return every.assign(block=every.groupby("design").cumcount())

    @property
    def each_design(self):
        """`identical` of CPU per transaction, a row a design."""
        return self.identical[self.identical["metric"] == live.CPU].reset_index(drop=True)

    @property
    def levelled_words(self):
        """What levelling does to the standard error, and to known slowdowns, in sentences."""
        try:
            c = self.levelled
        except live.TooShort:
            return ""
        middle = c.groupby("metric")[["left_se_pct", "se_pct"]].median()
        ratio = (middle["left_se_pct"] / middle["se_pct"]).items()
        told = ", ".join(f"{metric_label(m)}: {x:.2f}" for m, x in ratio)
        known = c[c["overhead_pct"].abs() > KNOWN_PCT]
        moved = (known["left_pct"] - known["overhead_pct"]).abs() / known["se_pct"]
        words = f"Standard errors with levelling, those without being 1: {told}."
        if len(known):
            words += f" A known slowdown moves by {moved.max():.1f} standard errors at the most."
        return words

    def table(self, name, words):
        """A table of live campaigns for reading; a sentence where they are not there or too short."""
        try:
            frame = getattr(self, name)
        except live.TooShort as e:
            return Shown(piece("sentence", str(e)))
        return report.table(_read(frame, TABLES[name]), words, name=name)

    def figure(self, name, title, words):
        """A figure of live campaigns, or that sentence."""
        try:
            data, drawing, told = FIGURES[name](self)
        except live.TooShort as e:
            return Shown(piece("sentence", str(e)))
        return plots.show(drawing, title=title, alt=say(*told), caption=words, data=data, name=name)

    # -- the head and the end of the page

    @property
    def headline(self):
        """The finding in one or two sentences."""
        worst = self.at_zero.loc[self.at_zero["false_alarm_pct"].idxmax()]
        bound = bounds(worst["wrong"], worst["n"])[1]
        reached = self.goals["reached"]
        words = (
            f"The instrument is {'' if reached.iloc[0] == 'yes' else 'not '}honest: in the worst of "
            f"{len(self.at_zero)} kinds of noise it calls two equal arms different in "
            f"{worst['false_alarm_pct']:.1f} % of campaigns (bound {pct(bound)}), three looks included."
        )
        if "aa" in self.opened:
            said = (f"{SHORT[r.metric]} {r.verdict}" for r in goals.called(self.opened["aa"]))
            words += f" Of two identical servers on this machine it says: {' and '.join(said)}."
        if "injected" in self.opened:
            words += f" {self.allowed}"
        missed, asked = (reached == "no").sum(), (reached != "not measured").sum()
        if not missed:
            return f"{words} All {asked} goals are reached."
        return f"{words} It misses {missed} of {asked} goals; its page lists them."

    @property
    def allowed(self):
        """What a duet may say, in a sentence, and why an arrangement was not tried."""
        try:
            best = self.duets.iloc[0]
            skipped = self.opened["injected"].meta.get("skipped", {})
        except live.TooShort as e:
            return f"{str(e).rstrip('.')}."
        words = f"A duet (two servers {best['design']}) {_TOLD[best['says']]}."
        if best["says"] and best["shrinks"]:
            words += f" Up to {100 * best['shrinks']:.0f} % of a size may be missing."
        return words + "".join(f" Not tried: {name} ({why})." for name, why in skipped.items())

    @property
    def box(self):
        """The box at the top of the page."""
        facts = self.figures["facts"]
        shown = [
            ("Campaigns", f"{int(self.figures['cells']['n'].sum()):,}"),
            ("Kinds of noise", f"{len(self.at_zero):,}"),
            ("Computed", facts["date"][:10]),
            ("Seed", str(facts["seed"])),
            ("Machine", report.machine(self._meta)),
            ("Server", report.engine(self._meta)),
        ]
        missed = self.goals[self.goals["reached"] == "no"]
        notes = [f"Missed: {g.goal} ({g.measured}; goal {g.limit})" for g in missed.itertuples()]
        notes += [_absent(q) for q in QUESTIONS if q not in self.opened]
        if facts["rule"] != truth.fingerprint():
            notes.append(
                "The synthetic figures were made by an earlier version of the rule: run "
                "`noisefloor calibrate` again."
            )
        said = piece("headline", self.headline)
        box = piece("box", "nf-same", said, [(k, v) for k, v in shown if v], notes)
        return Shown(box, self.headline)

    @property
    def campaigns(self):
        """Parameter of the notebook -> names of the campaigns that were opened."""
        found = {question: r.folder.name for question, r in self.opened.items()}
        for r in self.earlier:
            found[r.study.key] += f", {r.folder.name}"
        return found | {"controls": ", ".join(self.every)} if self.every else found

    @property
    def _meta(self):
        """campaign.json of the first campaign that is there."""
        return next((r.meta for r in self.opened.values()), {})

    @property
    def provenance(self):
        """Where the figures come from."""
        kept = {k: self._meta[k] for k in ("engine", "host", "commit") if k in self._meta}
        return kept | {"parameters": self.figures["facts"], "raw_files": self.campaigns}

    def save(self):
        """Store the A/A campaign's verdict table beside the page, for the index; an empty one where
        none is recorded."""
        verdicts, meta = pd.DataFrame(columns=stats.row.COLUMNS), self.figures["facts"]
        if "aa" in self.opened:
            verdicts, meta = self.opened["aa"].verdicts, self.opened["aa"].meta
        report.save(
            verdicts,
            "calibration",
            meta,
            title="Calibration",
            headline=self.headline,
            campaigns=self.campaigns,
            raw=[recorded()],
        )


FIGURES = {  # name: Calibration -> (data, drawing, what `say` is given)
    "blocks": lambda c: (
        c.each_block,
        figures.blocks(c.each_design, c.each_block, margin_pct=c.one("aa").study.margin_pct),
        (c.each_design, "overhead_pct", "design", "difference"),
    ),
    "rivals-live": lambda c: (
        c.live_rivals,
        figures.strip(
            c.live_rivals, "alarm_pct", by="label", ink="metric", axis="false alarms (line: 5 %)"
        ),
        (c.live_rivals, "alarm_pct", "label", "false alarms"),
    ),
    "bias": lambda c: (
        c.bias,
        figures.bias(c.bias),
        (c.bias, "bias_pct", "design", "duet less the truth"),
    ),
    "information": lambda c: (
        c.information,
        figures.information(c.information),
        (c.information, "times", "design", "information, in turn = 1", ""),
    ),
}


def _absent(question):
    """A sentence about a live campaign that is missing."""
    about = "other arrangements" if question == PILOT else f"the question `{question}`"
    return f"No campaign of {about} is recorded: what needs it is left out."


def _read(frame, columns):
    """The columns of a table as `TABLES` names them: metrics by their label, numbers rounded, a value
    with the interval that `findings.told` writes."""
    out = pd.DataFrame(index=frame.index)
    for text in columns.split("; "):
        head, _, of = text.partition(" = ")
        of = of or head
        ends = of.split() if of not in frame else [of]
        for name, end in zip(ends, ("", " lo", " hi"), strict=False):
            values = frame[name].map(metric_label) if name == "metric" else frame[name]
            out[head + end] = values.round(3) if values.dtype.kind == "f" else values
    return findings.told(out)


def say(frame, value, by, what, unit=" %"):
    """Alternative text: for every value of `by` the range of `value`."""
    parts = []
    for name, part in frame.groupby(by, sort=False):
        low, high = part[value].min(), part[value].max()
        span = f"{low:.1f}" if low == high else f"{low:.1f} to {high:.1f}"
        parts.append(f"{name}: {span}{unit}")
    return f"{what[0].upper()}{what[1:]}. " + "; ".join(parts) + "."


def say_power(frame):
    """Alternative text of a power curve."""
    parts = []
    for line, part in frame.sort_values("truth_pct").groupby("line"):
        at = (
            f"{100 * r.slower:.0f} % slower and {100 * r.same:.0f} % same at {r.truth_pct:.1f} %"
            for r in part.itertuples()
        )
        parts.append(f"{line}: {', '.join(at)}")
    return "; ".join(parts) + "."


def load(aa="", injected="", switched="", processor="", pilot="", controls=""):
    """The recorded synthetic figures and the campaigns called so; "" for the newest recorded one of
    that question, if there is any, of EQUAL for all, the newest first. controls: names of campaigns
    whose A/A controls count; "" for all recorded ones of studies."""
    given = dict(zip((*QUESTIONS, PILOT), (injected, aa, switched, processor, pilot), strict=True))
    folders = {q: results.named(names) or _recorded(q) for q, names in given.items()}
    opened = {q: results.load(found[0]) for q, found in folders.items() if found}
    earlier = tuple(results.load(f) for q in EQUAL for f in folders[q][1:])
    studied = [s for s in STUDIES if s != "calibration"]
    every = (f.name for s in studied for _, f in report.finished(s, paths.recorded()))
    every = results.names(controls) or sorted(every)
    return Calibration(truth.read(recorded()), opened, earlier, tuple(every))


def recorded():
    """Folder of the recorded synthetic figures."""
    return paths.recorded() / SYNTHETIC


def _recorded(question):
    """Folders of the recorded campaigns of a question, the newest first."""
    found = []
    for meta, folder in report.finished("calibration", paths.recorded()):
        alone = meta.get("key") == "injected" and all(w.get("at_once") for w in meta["workloads"])
        if (PILOT if alone else meta.get("key")) == question:
            found.append((meta["finished"], folder.name, folder))
    return tuple(folder for *_, folder in sorted(found, reverse=True))
