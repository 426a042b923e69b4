"""What the page and the command say: every goal with its measured figure and bound.

`load` opens the recorded synthetic figures and whatever live campaigns there are; every table and
sentence of the page comes from here, and none is written by hand."""

import html
import json
import math
from dataclasses import dataclass
from functools import cached_property, wraps

import pandas as pd

from noisefloor import honest, paths, plots, report, results, stats, tidy
from noisefloor.calibration import figures, live, rivals, truth
from noisefloor.stats import synthetic

SYNTHETIC = "calibration-synthetic"  # under data/raw/recorded
QUESTIONS = ("injected", "aa", "switched")  # of the study `calibration`
LIMIT, UPPER = 0.05, 0.065  # of an error rate, and of its upper 95 % bound in every cell
SURE = 0.002  # two-sided: bounds of 99.9 % each
COVERAGE = (0.935, 0.97)
PRICE = {2.0: (12, 18, 13, 8, 8), 4.0: (50, 56, 44, 13, 8)}  # pairs, by pair sd and true overhead
CORE_SECONDS = 1200
KNOWN_PCT = 2.0  # overheads beyond it were put in
WORTH, HIDDEN = 0.8, 0.55  # of a covariate: standard error with it; share of an effect it may hide
FILES = ((4, False, 0.88), (4, True, 0.99), (10, False, 0.97))  # runs, restarts, share slower
FILES_SAME, FILES_UPPER = 0.9, 0.06
GOAL_COLUMNS = ["goal", "reached", "measured", "bound", "limit", "where"]


def _live(show):
    """Method that shows something of live campaigns: a sentence where they are not there or too short."""

    @wraps(show)
    def shown(self):
        try:
            return show(self)
        except live.TooShort as e:
            return plots.Shown(f"<p>{html.escape(str(e))}</p>", str(e))

    return shown


@dataclass(frozen=True)
class Calibration:
    """The synthetic figures (`truth.read`) and the live campaigns, a Results or None each."""

    figures: dict
    injected: results.Results | None = None
    aa: results.Results | None = None
    switched: results.Results | None = None
    pilot: results.Results | None = None  # arrangements of a duet, tried before `injected`

    @property
    def current(self):
        """Whether the synthetic figures were made by the rule as it is now."""
        return self.figures["facts"]["rule"] == truth.fingerprint()

    @cached_property
    def cells(self):
        """The synthetic cells with rates in percent and what they are called in figures."""
        cells = self.figures["cells"]
        wrong = cells["slower"] + cells["faster"]
        return cells.assign(
            noise_label=cells["noise"] + ", " + cells["dependence"],
            wrong=wrong,
            false_alarm_pct=100 * wrong / cells["n"],
            false_same_pct=100 * cells["same"] / cells["n"],
            coverage_pct=100 * cells["covered"] / cells["n"],
        )

    @cached_property
    def at_zero(self):
        """Cells whose truth is 0."""
        return self._cells(self.cells["truth_pct"] == 0, "wrong", "false_alarm_pct")

    @cached_property
    def at_margin(self):
        """Cells whose truth is the margin."""
        return self._cells(self.cells["truth_pct"] > 0, "same", "false_same_pct")

    @cached_property
    def coverage(self):
        """All cells, with what their intervals hold: where the campaign ended, and at its last look."""
        held = ("covered", "coverage_pct", "covered_last")
        return self._cells(self.cells["n"] > 0, *held)

    def _cells(self, kept, *counts):
        """Rows and columns of `cells` that one figure shows: a page carries them as CSV."""
        columns = [*truth.KEY, "noise_label", "truth_pct", "n", *counts]
        return self.cells.loc[kept, columns].reset_index(drop=True)

    @cached_property
    def components(self):
        """Start-to-start variance of the A/A campaign."""
        return live.components(self.one("aa"))

    @cached_property
    def machine_time(self):
        """Measured machine time to a verdict against ten and ten runs of five minutes."""
        return live.machine_time(self.one("aa"))

    @cached_property
    def identical(self):
        """The A/A interval of each design."""
        return live.identical(self.one("aa"), *([self.switched] if self.switched else []))

    @cached_property
    def known(self):
        """The true overhead of a round of hashing."""
        return live.truths(self.one("injected"))

    @cached_property
    def slowdowns(self):
        """Known slowdowns against what was found in turn."""
        return live.injected(self.one("injected"), self.known)

    @cached_property
    def bias(self):
        """The duets less what the rounds of each arm cost: what decides."""
        return live.bias(self.one("injected"), self.known)

    @cached_property
    def duets(self):
        """What each arrangement of a duet may say."""
        return live.says(self.one("injected"), self.bias)

    @cached_property
    def covariate(self):
        """The client's CPU as a covariate: of two identical servers, and of known slowdowns."""
        both = [live.covariate(self.one(q)) for q in ("aa", "injected")]
        return pd.concat(both, ignore_index=True)

    @cached_property
    def levelled(self):
        """Levelling for what the host takes away: of identical servers, and of known slowdowns."""
        both = [live.levelled(self.one(q)) for q in ("aa", "injected")]
        return pd.concat(both, ignore_index=True)

    @property
    def levelled_words(self):
        """What levelling does to the standard error, and to known slowdowns, in sentences."""
        c = self.levelled
        ratio = c.groupby("metric")["left_se_pct"].median() / c.groupby("metric")["se_pct"].median()
        told = ", ".join(f"{plots.metric_label(m)}: {x:.2f}" for m, x in ratio.items())
        known = c[c["overhead_pct"].abs() > KNOWN_PCT]
        moved = (known["left_pct"] - known["overhead_pct"]).abs() / known["se_pct"]
        words = f"Standard errors with levelling, those without being 1: {told}."
        if len(known):
            words += f" A known slowdown moves by {moved.max():.1f} standard errors at the most."
        return words

    @property
    def covariate_words(self):
        """What the client's CPU as a covariate would do, in a sentence."""
        c = self.covariate
        own = c["arm"].isin([a.name for a in self.aa.study.arms])
        ratio = (c["left_se_pct"] / c["se_pct"])[own].median()
        heavy = c.loc[c[~own].groupby("metric")["overhead_pct"].idxmax()]
        hidden, alarms = (
            (1 - heavy["left_pct"] / heavy["overhead_pct"]).max(),
            c["alarms"][own].max(),
        )
        good = ratio <= WORTH and hidden <= HIDDEN and alarms <= UPPER
        return (
            "With the client's CPU per transaction as a covariate the standard error of equal arms is "
            f"{ratio:.2f} times as large, sign flips alarm in {_pct(alarms)} at most, and {_pct(hidden)} "
            "of the largest slowdown disappears: "
            f"{'it could support `same` alone, and is not used' if good else 'it is left out'}."
        )

    @cached_property
    def goals(self):
        """Every goal: columns goal, reached ("yes", "no", "not measured"), measured,
        bound, limit, where."""
        rows = [
            *_errors(self),
            *_coverage(self),
            *_prices(self),
            *_files(self),
            *_proofs(self),
            *_of_live(self),
        ]
        return pd.DataFrame(rows, columns=GOAL_COLUMNS)

    @cached_property
    def rivals(self):
        """False alarms on the synthetic cells: the figures' table with a label and percent."""
        return labelled(self.figures["rivals"])

    @property
    def power_at_blocks(self):
        """Normal noise, a pair a block, `truth.POWER_BLOCKS` declared blocks: columns truth_pct, slower,
        same, line."""
        p = self.figures["prices"]
        return pd.DataFrame(
            {
                "truth_pct": p["truth_pct"],
                "slower": p["slower_at_blocks"] / p["n"],
                "same": p["same_at_blocks"] / p["n"],
                "line": [f"pair sd {sd:g} %" for sd in p["sd_pct"]],
            }
        )

    @property
    def price(self):
        """Pairs for 80 % right words, by pair sd and true overhead."""
        p = self.figures["prices"]
        return pd.DataFrame(
            {
                "sd of a pair": p["sd_pct"].map(_unsigned),
                "true overhead": p["truth_pct"].map(_unsigned),
                "pairs, one a block": p["pairs"].astype("Int64"),
                "goal": [_price_goal(*row) for row in zip(p["sd_pct"], p["truth_pct"], strict=True)],
                f"right after {truth.POWER_BLOCKS} blocks of one pair": (p["right_at_blocks"] / p["n"]).map(_pct),
                f"pairs, in {truth.POWER_BLOCKS} blocks": p["pairs_in_blocks"].astype("Int64"),
            }
        )  # fmt: skip

    @property
    def by_blocks(self):
        """Every error rate by the number of declared blocks: median and worst cell with its bound."""
        kinds = (
            ("false slower or faster", self.at_zero, "wrong"),
            (f"family of {truth.THREADS} thread counts", self.figures["families"], "count"),
            ("false same at the margin", self.at_margin, "same"),
            ("interval misses the truth", self.coverage.assign(missed=self.coverage["n"] - self.coverage["covered"]), "missed"),
        )  # fmt: skip
        rows = []
        for question, frame, count in kinds:
            for blocks, part in frame.groupby("blocks"):
                share = part[count] / part["n"]
                worst = part.loc[share.idxmax()]
                high = synthetic.clopper_pearson(worst[count], worst["n"])[1]
                rates = (_pct(share.median()), _pct(share.max()), _pct(high))
                rows.append((question, blocks, len(part), *rates, _cell_name(worst)))
        columns = ["question", "declared blocks", "cells", "median", "worst", "its bound", "where"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def files(self):
        """Files by their number of runs an arm: found at 5 %, and false alarms at no difference."""
        f = self.figures["files"]
        rows = []
        for (restarts, runs), part in f.groupby(["restarts", "runs"]):
            real, equal = part[part["effect"] > 0].iloc[0], part[part["effect"] == 0]
            alarms = (equal["slower"] + equal["faster"]) / equal["n"]
            same = equal.loc[equal["cv"] == real["cv"]].iloc[0]
            mode = "--restarts" if restarts else "default"
            rates = (real["slower"] / real["n"], same["same"] / same["n"], alarms.max())
            rows.append((mode, runs, *map(_pct, rates)))
        columns = ["mode", "runs an arm", "slower at 5 %", "same at 0 %", "most false alarms"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def mutants(self):
        """Each mutant and the rule in the same noise: columns mutant, mutant_pct, at_least_pct,
        rule_pct, exposed."""
        m = self.figures["mutants"]
        least = synthetic.clopper_pearson(m["count"], m["n"], SURE)[0]
        return pd.DataFrame(
            {
                "mutant": m["mutant"],
                "mutant_pct": 100 * m["value"],
                "at_least_pct": 100 * least,
                "rule_pct": 100 * m["rule"],
                "exposed": least > LIMIT,
            }
        )

    @property
    def headline(self):
        """The finding in one or two sentences."""
        worst = self.at_zero.loc[self.at_zero["false_alarm_pct"].idxmax()]
        bound = synthetic.clopper_pearson(worst["wrong"], worst["n"])[1]
        good = self.goals["reached"].iloc[0] == "yes"
        words = (
            f"The instrument is {'' if good else 'not '}honest: in the worst of "
            f"{len(self.at_zero)} kinds of noise it calls two equal arms different in "
            f"{worst['false_alarm_pct']:.1f} % of campaigns (bound {_pct(bound)}), three looks "
            "included."
        )
        if self.aa is not None:
            said = " and ".join(f"{plots.SHORT[r.metric]} {r.verdict}" for r in _called(self.aa))
            words += f" Of two identical servers on this machine it says: {said}."
        if self.injected is not None:
            words += f" {self.allowed}"
        missed = int((self.goals["reached"] == "no").sum())
        asked = int((self.goals["reached"] != "not measured").sum())
        return words + (
            f" It misses {missed} of {asked} goals; its page lists them."
            if missed
            else f" All {asked} goals are reached."
        )

    @property
    def allowed(self):
        """What a duet may say, in a sentence, and why an arrangement was not tried."""
        told = {
            honest.SIZE: "may say the word and the size of processor time",
            honest.WORD: "may say the word of processor time; its size is told as under contention",
            honest.NOTHING: "may say nothing",
        }
        try:
            best = self.duets.iloc[0]
            words = f"Two servers at once ({best['design']}) {told[best['says']]}."
            if best["says"] and best["shrinks"]:
                words += f" Up to {100 * best['shrinks']:.0f} % of a size may be missing."
        except live.TooShort as e:
            words = f"{e}."
        skipped = self.injected.meta.get("skipped", {}).items()
        return words + "".join(f" Not tried: {name} ({why})." for name, why in skipped)

    @property
    def box(self):
        """The box at the top of the page."""
        facts = self.figures["facts"]
        host = next((getattr(self, q).meta for q in self.campaigns), {})
        shown = [
            ("Campaigns", f"{int(self.cells['n'].sum()):,}"),
            ("Kinds of noise", f"{len(self.at_zero):,}"),
            ("Computed", facts["date"][:10]),
            ("Seed", str(facts["seed"])),
            ("Machine", report.machine(host)),
            ("Server", report.engine(host)),
        ]
        missed = self.goals[self.goals["reached"] == "no"]
        notes = [f"Missed: {g} ({m}; goal {w})" for g, m, w in zip(missed["goal"], missed["measured"], missed["limit"], strict=True)]  # fmt: skip
        notes += [s for s in (self.absent(q) for q in QUESTIONS) if s]
        if not self.current:
            notes.append(
                "The synthetic figures were made by an earlier version of the rule: run "
                "`noisefloor calibrate` again."
            )
        items = "".join(f"<div><dt>{k}</dt><dd>{html.escape(v)}</dd></div>" for k, v in shown if v)
        listed = "".join(f"<li>{html.escape(n)}</li>" for n in notes)
        return plots.Shown(
            f'<section class="nf-verdict nf-same" aria-label="Verdict"><p class="nf-headline">'
            f"{html.escape(self.headline)}</p><dl>{items}</dl>"
            + (f'<ul class="nf-notes">{listed}</ul>' if listed else "")
            + "</section>",
            self.headline,
        )

    @property
    def campaigns(self):
        """Parameter of the notebook -> name of the campaign that was opened."""
        opened = {q: getattr(self, q) for q in (*QUESTIONS, "pilot")}
        return {q: r.folder.name for q, r in opened.items() if r is not None}

    @property
    def provenance(self):
        """Where the figures come from."""
        meta = next((getattr(self, s).meta for s in self.campaigns), {})
        kept = {k: meta[k] for k in ("engine", "host", "commit") if k in meta}
        return kept | {"parameters": self.figures["facts"], "raw_files": self.campaigns}

    def one(self, question):
        """A live campaign. Raises live.TooShort where it is missing."""
        if lacking := self.absent(question):
            raise live.TooShort(lacking)
        return getattr(self, question)

    def absent(self, question):
        """A sentence when a live campaign is missing, else ""."""
        if getattr(self, question) is not None:
            return ""
        return f"No campaign of the question `{question}` is recorded: what needs it is left out."

    @_live
    def show_blocks(self):
        """Figure: the mean of every A/A block of each design, CPU per transaction."""
        found = self.identical[self.identical["metric"] == live.CPU].reset_index(drop=True)
        each = pd.concat(
            live.blocks(r, w.name, live.CPU).rename("log").rename_axis("block").reset_index()
            .assign(design=live.design(r, w.name))
            for r in (self.aa, self.switched) if r for w in r.study.workloads
        )  # fmt: skip
        return plots.show(
            figures.blocks(found, each, margin_pct=self.aa.study.margin_pct),
            title="Two identical servers, block by block",
            alt=say(found, "overhead_pct", "design", "difference"),
            caption="Mean of each block, all thread counts alike; the line is the mean of all, with its "
            "95 % interval.",
            data=each,
            name="blocks",
        )

    @_live
    def show_identical(self):
        """Table: the A/A interval of each design."""
        i = self.identical
        return report.table(
            pd.DataFrame(
                {
                    "design": i["design"],
                    "metric": i["metric"].map(plots.metric_label),
                    "threads": i["threads"],
                    "blocks": i["blocks"],
                    "difference": _with_interval(
                        i, "overhead_pct", "lo_pct", "hi_pct", 2, sign=True
                    ),
                    "holds 0": (i["lo_pct"] <= 0) & (i["hi_pct"] >= 0),
                }
            ),
            "Two identical servers, and one server against itself: mean difference of all blocks with "
            "its 95 % interval by Student's t.",
            name="identical",
        )

    @_live
    def show_components(self):
        """Table: start-to-start variance."""
        c = self.components
        return report.table(
            pd.DataFrame(
                {
                    "metric": c["metric"].map(plots.metric_label),
                    "blocks": c["blocks"],
                    "pairs": c["pairs"],
                    "sd of a pair": c["pair_sd_pct"].map(_unsigned),
                    "sd of block means": c["block_sd_pct"].map(_unsigned),
                    "start-to-start CV": _with_interval(c, "cv_pct", "lo_pct", "hi_pct", 2),
                    "by a mixed model": [_unsigned(v, 2) for v in c["mixed_pct"]],
                    "upper bound": [_unsigned(v, 2) for v in c["upper_pct"]],
                    "p, starts equal": c["p"].round(3),
                }
            ),
            "How much a server differs from start to start beyond what the pairs explain, with its "
            "95 % interval. Files of one start get the estimate, with the degrees of freedom that its "
            "one-sided upper bound implies.",
            name="components",
        )

    @_live
    def show_machine_time(self):
        """Table: measured machine time against the usual plan."""
        t = self.machine_time
        return report.table(
            pd.DataFrame(
                {
                    "metric": t["metric"].map(plots.metric_label),
                    "true overhead": t["truth_pct"].map(_unsigned),
                    "right verdict": (100 * t["right"]).map(_unsigned),
                    "wrong verdict": (100 * t["wrong"]).map(_unsigned),
                    "pairs": t["pairs"].round(1),
                    "measured minutes": t["minutes"].round(1),
                    "less than the usual plan": t["saved_pct"].map(_unsigned),
                }
            ),
            "Campaigns drawn from the real A/A blocks, shifted to the true overhead: mean time under "
            f"load to a verdict, against {live.REFERENCE_MIN:.0f} minutes for ten and ten runs of 300 s.",
            name="machine-time",
        )

    @_live
    def show_rivals(self):
        """Figure: the usual methods on the A/A campaign's own runs."""
        found = rivals_on(self.one("aa"))
        return plots.show(
            figures.strip(found, "alarm_pct", by="label", ink="metric", axis="false alarms (line: 5 %)"),
            title="False alarms of the usual methods on real A/A runs",
            alt=say(found, "alarm_pct", "label", "false alarms"),
            caption="Windows of ten runs an arm at every start; for the two that look more than once "
            "the whole campaign with its coins dealt anew.",
            data=found,
            name="rivals-live",
        )  # fmt: skip

    @_live
    def show_bias(self):
        """Figure: a duet less the pairs in turn, by effect."""
        return plots.show(
            figures.bias(self.bias),
            title="A duet against the truth",
            alt=say(self.bias, "bias_pct", "design", "duet less the truth"),
            caption="At once less the cost of the rounds, with its 95 % interval, as a share. "
            f"Inside the dark band a duet may say the size, inside the light one the word. {self.allowed}",
            data=self.bias,
            name="bias",
        )

    @_live
    def show_duets(self):
        """Table: what each arrangement of a duet found and may say."""
        b = self.bias.merge(self.duets, on=["design", "threads"])
        in_turn = live.bias(self.one("injected"))
        return report.table(
            pd.DataFrame(
                {
                    "design": b["design"],
                    "slowdown": b["arm"],
                    "blocks": b["blocks"],
                    "by its rounds": b["effect_pct"].map(plots.percent),
                    "duet less that": _with_interval(b, "bias_pct", "lo_pct", "hi_pct", sign=True),
                    "less in turn, same blocks": _with_interval(in_turn, "bias_pct", "lo_pct", "hi_pct", sign=True),
                    "allowed for a size": b["size_pct"].map(_unsigned),
                    "for a word": b["word_pct"].map(_unsigned),
                    "may say": b["says"].replace("", "nothing"),
                }
            ),
            "All in percent of a logarithm. The bound of the interval counts, at the worst of the "
            "slowdowns. The cost of a round follows from the heaviest arm in turn; a round costs the same "
            "in every arm. Pairs in turn of the same blocks are the wider reference.",
            name="duets",
        )  # fmt: skip

    @_live
    def show_arrangements(self):
        """Table: the arrangements of a duet that were tried."""
        if self.pilot is None:
            raise live.TooShort(
                "No campaign of other arrangements is recorded: what needs it is left out."
            )
        a = live.arrangements(self.pilot)
        return report.table(
            pd.DataFrame(
                {
                    "design": a["design"],
                    "blocks": a["blocks"],
                    "windows": a["windows"],
                    "sd of a window": a["window_sd_pct"].map(_unsigned),
                    "sd of block means": a["block_sd_pct"].map(_unsigned),
                }
            ),
            f"Arrangements that were tried first, CPU per transaction ({self.pilot.folder.name}). The "
            "quietest one is used; groups give each server and its client equal weight.",
            name="arrangements",
        )

    @_live
    def show_information(self):
        """Figure: information a minute."""
        found = live.information(self.one("injected"))
        return plots.show(
            figures.information(found),
            title="Information a minute",
            alt=say(found, "times", "design", "information, in turn = 1", unit=""),
            caption="CPU per transaction: one over the variance of a block mean and the minutes that it "
            "takes, in turn = 1, in the same blocks. Bars: 95 % interval (Morgan and Pitman).",
            data=found,
            name="information",
        )

    @_live
    def show_injected(self):
        """Table: known slowdowns against what was found in turn."""
        i = self.slowdowns
        return report.table(
            pd.DataFrame(
                {
                    "metric": i["metric"].map(plots.metric_label),
                    "slowdown": i["arm"],
                    "blocks": i["blocks"],
                    "truth": i["truth_pct"].map(plots.percent),
                    "found": _with_interval(i, "overhead_pct", "lo_pct", "hi_pct", sign=True),
                    "pieces that hold it": [f"{h} of {n}" for h, n in zip(i["held"], i["pieces"], strict=True)],
                }
            ),
            "Known slowdowns, in turn. The truth follows from the heaviest arm: a round of hashing costs "
            f"the same in every arm. A piece is a campaign of {live.PIECE} blocks.",
            name="injected",
        )  # fmt: skip

    @_live
    def show_levelled(self):
        """Table: pairs with and without levelling."""
        c = self.levelled
        return report.table(
            pd.DataFrame(
                {
                    "metric": c["metric"].map(plots.metric_label),
                    "arm": c["arm"],
                    "threads": c["threads"],
                    "blocks": c["blocks"],
                    "taken by the host": c["taken_pct"].map(
                        lambda v: "–" if pd.isna(v) else f"{v:.1f} %"
                    ),
                    "overhead": c["overhead_pct"].map(plots.percent),
                    "levelled": c["left_pct"].map(plots.percent),
                    "standard error": c["se_pct"].map(lambda v: _unsigned(v, 2)),
                    "standard error levelled": c["left_se_pct"].map(lambda v: _unsigned(v, 2)),
                }
            ),
            f"{self.levelled_words} Overheads are percent of a logarithm.",
            name="levelled",
        )

    @_live
    def show_covariate(self):
        """Table: the client's CPU as a covariate."""
        c = self.covariate
        return report.table(
            pd.DataFrame(
                {
                    "metric": c["metric"].map(plots.metric_label),
                    "arm": c["arm"],
                    "threads": c["threads"],
                    "blocks": c["blocks"],
                    "slope": c["slope"].round(2),
                    "overhead": c["overhead_pct"].map(plots.percent),
                    "with it": c["left_pct"].map(plots.percent),
                    "standard error": c["se_pct"].map(lambda v: _unsigned(v, 2)),
                    "standard error with it": c["left_se_pct"].map(lambda v: _unsigned(v, 2)),
                }
            ),
            f"{self.covariate_words} Overheads are percent of a logarithm.",
            name="covariate",
        )

    def save(self):
        """Store the A/A campaign's verdict table beside the page, for the index; an empty one where
        none is recorded."""
        nothing = pd.DataFrame(columns=stats.row.COLUMNS)
        report.save(
            nothing if self.aa is None else self.aa.verdicts,
            "calibration",
            {"date": self.figures["facts"]["date"]} if self.aa is None else self.aa.meta,
            title="Calibration",
            headline=self.headline,
            campaigns=self.campaigns,
            raw=[recorded()],
        )


def load(aa="", injected="", switched="", pilot=""):
    """The recorded synthetic figures and the campaigns called so; "" for the newest recorded one of
    that question, None inside where there is none."""
    given = {"injected": injected, "aa": aa, "switched": switched}
    opened = {q: _open(q, name) for q, name in given.items()}
    opened["pilot"] = _open("injected", pilot, duets=True)
    return Calibration(truth.read(recorded()), **opened)


def labelled(rates):
    """Rival rates with what they are called in figures, and percent."""
    ours = rates["rival"] == rivals.OURS
    return rates.assign(
        label=rates["rival"] + ", " + rates["order"], ours=ours, alarm_pct=100 * rates["value"]
    )


def rivals_on(r):
    """`rivals.on_files` of a campaign's pairs in turn at 4 threads, TPS and CPU per transaction,
    labelled. Raises live.TooShort."""
    every, rows = r.judged(r.main), []
    every = every[every["threads"] == 4]
    if every["pair_id"].nunique() < rivals.RUNS:
        raise live.TooShort(f"{r.folder.name} has fewer than {rivals.RUNS} pairs at 4 threads")
    seconds = tidy.intervals(r.folder, r.main)
    for metric in live.METRICS:
        kept = every[every["metric"] == metric]
        order = r.runs.set_index("run")["start"]
        kept = kept.assign(start=kept["run"].map(order)).sort_values("start").reset_index(drop=True)
        number = dict(zip(kept["run"], kept.index, strict=True))
        per_second = None
        if metric == "tps":
            mine = seconds[seconds["run"].isin(list(number))]
            per_second = pd.DataFrame({"run": mine["run"].map(number), "value": mine["tps"]})
        unit = "pair" if r.study.design == "switched" else "block"
        found = rivals.on_files(kept, per_second, unit=unit)
        rows += [row | {"metric": metric} for row in found]
    return labelled(pd.DataFrame(rows))


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
    parts = [
        f"{line}: "
        + ", ".join(
            f"{100 * r.slower:.0f} % slower and {100 * r.same:.0f} % same at {r.truth_pct:.1f} %"
            for r in part.sort_values("truth_pct").itertuples()
        )
        for line, part in frame.groupby("line", sort=False)
    ]
    return "; ".join(parts) + "."


def recorded():
    """Folder of the recorded synthetic figures."""
    return paths.recorded() / SYNTHETIC


def summary(goals):
    """The goals as lines of text."""
    lines = []
    for row in goals.itertuples():
        mark = {"yes": "reached", "no": "MISSED"}.get(row.reached, row.reached)
        bound = f" (bound {row.bound})" if row.bound else ""
        lines.append(f"{mark:<13} {row.goal}: {row.measured}{bound}, goal {row.limit}; {row.where}")
    return "\n".join(lines)


def _open(question, name, *, duets=False):
    """A campaign by its name, else the newest recorded one of a question (of duets alone, or not);
    None where there is none."""
    newest = ("", name)
    for file in () if name else paths.recorded().glob("*/campaign.json"):
        meta = json.loads(file.read_text())
        alone = all(w.get("at_once") for w in meta["workloads"])
        asked = (meta["study"], meta.get("key"), alone) == ("calibration", question, duets)
        if asked and meta["finished"]:
            newest = max(newest, (meta["finished"], file.parent.name))
    name = newest[1]
    return results.load(paths.campaign(name)) if name else None


def _called(aa):
    """Verdict rows of the pairs in turn of two identical servers, TPS and CPU, joint where there are."""
    rows = aa.of(aa.main, control=False)
    rows = rows[rows["metric"].isin(live.METRICS)]
    return list(rows[rows["joint"] | ~rows["joint"].any()].itertuples())


def _goal(name, limit, measured, bound, where, reached):
    word = "not measured" if reached is None else "yes" if reached else "no"
    return dict(zip(GOAL_COLUMNS, (name, word, measured, bound, limit, where), strict=True))


def _rate_goal(name, frame, count, where):
    """A goal about an error rate in every cell of a frame that counts it in `count` of n."""
    counts, n = frame[count], frame["n"]
    share, worst = counts / n, frame.loc[(counts / n).idxmax()]
    low = synthetic.clopper_pearson(counts, n, SURE)[0]
    high = synthetic.clopper_pearson(counts, n)[1]
    return _goal(
        name,
        f"median ≤ {_pct(LIMIT)}; in every cell the upper bound (95 %) ≤ {_pct(UPPER)} and the lower "
        f"one (99.9 %) ≤ {_pct(LIMIT)}",
        f"median {_pct(share.median())}, worst {_pct(share.max())}",
        f"{_pct(low.max())} to {_pct(high.max())}",
        f"worst of {len(frame)}: {where(worst)}",
        bool(share.median() <= LIMIT and high.max() <= UPPER and low.max() <= LIMIT),
    )


def _cell_name(row):
    return (
        f"{row['design']}, {row['blocks']} blocks, {row['noise']}, {row['dependence']}, drift "
        f"{row['drift']}, run CV {100 * row['cv']:g} %, block effect {100 * row['block_cv']:g} %"
    )


def _errors(c):
    yield _rate_goal("False slower or faster, every cell", c.at_zero, "wrong", _cell_name)
    name = f"The same in a family: {truth.THREADS} thread counts and their joint effect"
    yield _rate_goal(name, c.figures["families"], "count", _cell_name)
    yield _rate_goal("False same at the margin, every cell", c.at_margin, "same", _cell_name)


def _coverage(c):
    for name, column, limit, worst in (
        ("Interval holds the truth where the campaign ended, every cell", "covered",
         f"at least {_pct(COVERAGE[0])}", "idxmin"),
        ("Interval is no wider than promised at the last look, every cell", "covered_last",
         f"at most {_pct(COVERAGE[1])}", "idxmax"),
    ):  # fmt: skip
        share = c.coverage[column] / c.coverage["n"]
        row = c.coverage.loc[getattr(share, worst)()]
        low, high = synthetic.clopper_pearson(row[column], row["n"])
        missed = share < COVERAGE[0] if worst == "idxmin" else share > COVERAGE[1]
        where = f"missed in {missed.sum()} of {len(share)}; worst: {_cell_name(row)}"
        measured = f"{_pct(share.min())} to {_pct(share.max())}"
        yield _goal(name, limit, measured, f"{_pct(low)} to {_pct(high)}", where, not missed.any())


def _price_goal(sd, overhead):
    return PRICE[sd][truth.TRUTHS.index(overhead)]


def _prices(c):
    for sd, part in c.figures["prices"].groupby("sd_pct"):
        most = [_price_goal(sd, t) for t in part["truth_pct"]]
        yield _goal(
            f"Pairs for {100 * truth.RIGHT:.0f} % right words at a pair sd of {sd:g} %",
            f"at most {' / '.join(map(str, most))}",
            " / ".join("more" if math.isnan(k) else f"{k:.0f}" for k in part["pairs"]),
            "",
            f"true overhead {' / '.join(f'{t:g}' for t in part['truth_pct'])} %, one pair a block",
            bool((part["pairs"] <= most).all()),
        )


def _files(c):
    f = c.figures["files"]
    for runs, restarts, least in FILES:
        row = _file_cell(f, runs, restarts, 0.01, 0.05)
        yield _least_goal(f"Files: 5 % slower is found, {runs} runs an arm", row, "slower", least)
    row = _file_cell(f, 10, True, 0.01, 0.0)
    yield _least_goal("Files: equal arms are the same, 10 runs an arm", row, "same", FILES_SAME)
    equal = f[f["effect"] == 0].reset_index(drop=True)
    counts = equal["slower"] + equal["faster"]
    low = synthetic.clopper_pearson(counts, equal["n"], SURE)[0]
    high = synthetic.clopper_pearson(counts, equal["n"])[1]
    worst = equal.loc[counts.idxmax()]
    yield _goal(
        "Files: false slower or faster, every cell",
        f"≤ {_pct(LIMIT)}, bound ≤ {_pct(FILES_UPPER)}",
        _pct((counts / equal["n"]).max()),
        f"{_pct(low.max())} to {_pct(high.max())}",
        f"worst of {len(equal)}: {worst['runs']} runs, CV {100 * worst['cv']:g} %, {_mode(worst)}",
        bool((counts / equal["n"]).max() <= LIMIT and high.max() <= FILES_UPPER),
    )


def _file_cell(f, runs, restarts, cv, effect):
    kept = (f["runs"] == runs) & (f["restarts"] == restarts)
    return f[kept & (f["cv"] == cv) & (f["effect"] == effect)].iloc[0]


def _mode(row):
    return "--restarts" if row["restarts"] else "one start an arm, as assumed by default"


def _least_goal(name, row, word, least):
    share = row[word] / row["n"]
    low, high = synthetic.clopper_pearson(row[word], row["n"])
    where = f"CV {100 * row['cv']:g} %, {_mode(row)}"
    bounds = f"{_pct(low)} to {_pct(high)}"
    return _goal(name, f"at least {_pct(least)}", _pct(share), bounds, where, bool(share >= least))


def _proofs(c):
    m = c.mutants
    yield _goal(
        "Every mutant of the rule fails",
        f"more than {_pct(LIMIT)} false alarms",
        f"{m['mutant_pct'].min():.1f} % to {m['mutant_pct'].max():.1f} %",
        f"at least {m['at_least_pct'].min():.1f} %",
        f"weakest: {m.loc[m['at_least_pct'].idxmin(), 'mutant']}",
        bool(m["exposed"].all()),
    )
    facts = c.figures["facts"]
    if facts["full"]:
        spent = facts["core_seconds"]
        yield _goal(
            f"{truth.CAMPAIGNS:,} campaigns a cell, all cells in 10 minutes on two cores",
            f"{CORE_SECONDS // 60} core minutes", f"{spent / 60:.1f} core minutes", "",
            f"processor time of {facts['cells']:,} cells of {facts['campaigns']:,} campaigns, on cores: "
            f"{facts['cores']}",
            bool(spent <= CORE_SECONDS and facts["campaigns"] >= truth.CAMPAIGNS),
        )  # fmt: skip


def _of_live(c):
    """Goals of the live campaigns; `not measured` where they are not there or too short."""
    for name, limit, made in (
        ("A/A interval of each design", f"±{live.HALF_PCT} % in TPS or CPU", _width),
        ("The A/A campaign itself is not called slower or faster", "never", _never),
        ("Machine time against ten and ten runs of 300 s", "at least 50 % less, errors at most 5 %", _time),
        ("Interval holds known slowdowns", f"at least {_pct(COVERAGE[0])}", _held),
    ):  # fmt: skip
        try:
            measured, bound, where, reached = made(c)
        except live.TooShort as e:
            measured, bound, where, reached = "–", "", str(e), None
        yield _goal(name, limit, measured, bound, where, reached)


def _width(c):
    designs = c.identical.groupby("design", sort=False)
    half, blocks = designs["half_pct"].min(), designs["blocks"].min().min()
    measured = ", ".join(f"{name}: ±{v:.2f} %" for name, v in half.items())
    return (
        measured,
        "",
        f"{blocks} blocks",
        bool(half.max() <= live.HALF_PCT and blocks >= live.WHOLE),
    )


def _never(c):
    called = [r.metric for r in _called(c.one("aa")) if r.verdict in ("slower", "faster")]
    return ", ".join(called) or "never", "", "TPS and CPU, in turn", not called


def _time(c):
    time = c.machine_time
    worst = time.loc[time["saved_pct"].idxmin()]
    wrong, right = time["wrong"].max(), time["right"].min()
    return (
        f"{worst['saved_pct']:.0f} % less ({worst['minutes']:.1f} of {live.REFERENCE_MIN:.0f} min)",
        f"errors {_pct(wrong)}",
        f"{worst['metric']} at {worst['truth_pct']:.0f} %; right verdict in {_pct(right)} at least",
        bool(worst["saved_pct"] >= 50 and wrong <= LIMIT and right >= 0.9),
    )


def _held(c):
    held, n = c.slowdowns[["held", "pieces"]].sum()
    if not n:
        raise live.TooShort(f"less than {live.PIECE} blocks an arm")
    lo, hi = synthetic.clopper_pearson(held, n)
    where = f"pieces of {live.PIECE} blocks in turn, TPS and CPU"
    return f"{held} of {n}", f"{_pct(lo)} to {_pct(hi)}", where, bool(hi >= COVERAGE[0])


def _unsigned(value, digits=1):
    return plots.percent(value, digits, sign=False)


def _with_interval(frame, value, lo, hi, digits=1, sign=False):
    """Column of texts: value (lo to hi)."""
    return [
        f"{plots.percent(v, digits, sign)} "
        f"({plots.percent(a, digits, sign)[:-2]} to {plots.percent(b, digits, sign)})"
        if pd.notna(a) and pd.notna(b)
        else f"{plots.percent(v, digits, sign)} (no interval)"
        for v, a, b in zip(frame[value], frame[lo], frame[hi], strict=True)
    ]


def _pct(share):
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"
