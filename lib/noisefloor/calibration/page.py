"""What the page and the command say: every goal with its measured figure and bound.

`load` opens the recorded synthetic figures and whatever live campaigns there are; every table and
sentence of the page comes from here, and none is written by hand."""

import html
import math
from dataclasses import dataclass
from functools import cached_property, wraps

import pandas as pd

from noisefloor import paths, plots, report, results, tidy
from noisefloor.calibration import figures, live, rivals, truth
from noisefloor.stats import synthetic

SYNTHETIC = "calibration-synthetic"  # under data/raw/recorded
STUDIES = ("aa", "switched", "side-by-side", "duet")
LIMIT, UPPER = 0.05, 0.065  # of an error rate, and of its upper 95 % bound in every cell
SURE = 0.002  # two-sided: bounds of 99.9 % each
COVERAGE = (0.935, 0.97)
PRICE = {2.0: (12, 18, 13, 8, 8), 4.0: (50, 56, 44, 13, 8)}  # pairs, by pair sd and true overhead
CORE_SECONDS = 1200
FILES = ((4, False, 0.88), (4, True, 0.99), (10, False, 0.97))  # runs, restarts, share slower
FILES_SAME, FILES_UPPER = 0.9, 0.06
GOAL_COLUMNS = ["goal", "reached", "measured", "bound", "limit", "where"]


def _needs(*studies):
    """Method of Calibration that shows something of live campaigns: a sentence where one is absent."""

    def wrapped(show):
        @wraps(show)
        def shown(self):
            lacking = next((s for s in map(self.absent, studies) if s), "")
            if not lacking:
                try:
                    return show(self)
                except live.TooShort as e:
                    lacking = str(e)
            return plots.Shown(f"<p>{html.escape(lacking)}</p>", lacking)

        return shown

    return wrapped


@dataclass(frozen=True)
class Calibration:
    """The synthetic figures (`truth.read`) and the live campaigns, a Results or None each."""

    figures: dict
    aa: results.Results | None = None
    switched: results.Results | None = None
    side_by_side: results.Results | None = None
    duet: results.Results | None = None

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
        return live.components(self.aa)

    @cached_property
    def machine_time(self):
        """Measured machine time to a verdict against ten and ten runs of five minutes."""
        return live.machine_time(self.aa)

    @cached_property
    def known(self):
        """The true overhead of a round of hashing."""
        return live.truths(self.switched)

    @cached_property
    def injected(self):
        """Known slowdowns against what was found, all designs; the heaviest arm only for duet."""
        parts = [
            live.injected(r, self.known, heaviest=r is self.duet)
            for r in (self.switched, self.side_by_side, self.duet)
            if r is not None
        ]
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def designs(self):
        """Information a minute of the three designs; the A/A pairs are side by side as well."""
        found = (self.switched, self.side_by_side or self.aa, self.duet)
        return live.designs([r for r in found if r is not None])

    @cached_property
    def decision(self):
        """Where duet is offered and where it is refused."""
        own = self.injected[self.injected["design"] == "duet"]
        return live.decision(own, self.designs, self.duet.study.margin_pct)

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
            *_live(self),
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
        honest = self.goals["reached"].iloc[0] == "yes"
        words = (
            f"The instrument is {'' if honest else 'not '}honest: in the worst of "
            f"{len(self.at_zero)} kinds of noise it calls two equal arms different in "
            f"{worst['false_alarm_pct']:.1f} % of campaigns (bound {_pct(bound)}), three looks "
            "included."
        )
        if self.aa is not None:
            found = self.aa.verdicts[~self.aa.verdicts["control"]]
            found = found[found["metric"].isin(live.METRICS)]
            said = " and ".join(f"{plots.SHORT.get(r.metric, r.metric)} {r.verdict}" for r in found.itertuples())  # fmt: skip
            words += f" Of two identical servers on this machine it says: {said}."
        missed = int((self.goals["reached"] == "no").sum())
        asked = int((self.goals["reached"] != "not measured").sum())
        return words + (
            f" It misses {missed} of {asked} goals; its page lists them."
            if missed
            else f" All {asked} goals are reached."
        )

    @property
    def box(self):
        """The box at the top of the page."""
        facts = self.figures["facts"]
        host = next((r.meta for r in (self.aa, self.switched) if r is not None), {})
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
        notes += [s for s in (self.absent(n) for n in STUDIES) if s]
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
        opened = {s: getattr(self, s) for s in (s.replace("-", "_") for s in STUDIES)}
        return {s: r.folder.name for s, r in opened.items() if r is not None}

    @property
    def provenance(self):
        """Where the figures come from."""
        meta = next((getattr(self, s).meta for s in self.campaigns), {})
        kept = {k: meta[k] for k in ("engine", "host", "commit") if k in meta}
        return kept | {"parameters": self.figures["facts"], "raw_files": self.campaigns}

    def absent(self, study):
        """A sentence when a live campaign is missing, else ""."""
        if getattr(self, study.replace("-", "_")) is not None:
            return ""
        return f"No campaign of calibration-{study} is recorded: what needs it is left out."

    @_needs("aa")
    def show_blocks(self):
        """Figure: the mean of every A/A block."""
        found = self.aa.verdicts[~self.aa.verdicts["control"]]
        pairs = pd.concat([self.aa.pairs(self.aa.main, m) for m in live.METRICS])
        return plots.show(
            figures.blocks(self.aa),
            title="Two identical servers, block by block",
            alt=plots.alt(found),
            caption=f"Mean of each block with its standard error; the line is the mean of all. "
            f"{report.finding(found[found['metric'].isin(live.METRICS)])}",
            data=pairs,
            name="blocks",
        )

    @_needs("aa")
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

    @_needs("aa")
    def show_alarms(self):
        """Table: false alarms of resampled A/A blocks."""
        a = live.alarms(self.aa)
        rates = 100 * a[["value", "lo", "hi"]]
        return report.table(
            pd.DataFrame(
                {
                    "metric": a["metric"].map(plots.metric_label),
                    "unit": a["unit"],
                    "false alarms": _with_interval(rates, "value", "lo", "hi", 2),
                    "same": (100 * a["same"]).map(_unsigned),
                }
            ),
            f"{live.DRAWS:,} campaigns of {live.SHORT} blocks drawn from the real ones, their arms dealt "
            "anew. With the block as the unit this checks the code: fair coins over fixed data are "
            "exact by construction. With the pair as the unit it shows what the starts do.",
            name="alarms",
        )

    @_needs("aa")
    def show_windows(self):
        """Table: the A/A campaign as it was dealt, in pieces."""
        w = live.windows(self.aa)
        return report.table(
            pd.DataFrame(
                {
                    "metric": w["metric"].map(plots.metric_label),
                    "from block": w["from_block"] + 1,
                    "blocks": w["blocks"],
                    "difference": _with_interval(w, "overhead_pct", "lo_pct", "hi_pct", sign=True),
                    "verdict": w["verdict"],
                }
            ),
            "The A/A campaign cut into campaigns of ten blocks.",
            name="windows",
        )

    @_needs("aa")
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

    @_needs("aa")
    def show_rivals(self):
        """Figure: the usual methods on the A/A campaign's own runs."""
        found = rivals_on(self.aa)
        return plots.show(
            figures.strip(found, "alarm_pct", by="label", ink="metric", axis="false alarms (line: 5 %)"),
            title="False alarms of the usual methods on real A/A runs",
            alt=say(found, "alarm_pct", "label", "false alarms"),
            caption="Windows of ten runs an arm at every start; for the two that look more than once "
            "the whole campaign with its coins dealt anew.",
            data=found,
            name="rivals-live",
        )  # fmt: skip

    @_needs("switched")
    def show_injected(self):
        """Table: known slowdowns against what was found."""
        i = self.injected
        return report.table(
            pd.DataFrame(
                {
                    "metric": i["metric"].map(lambda m: plots.SHORT.get(m, m)),
                    "design": i["design"],
                    "pairs": i["pairs"],
                    "truth": i["truth_pct"].map(plots.percent),
                    "found": _with_interval(i, "overhead_pct", "lo_pct", "hi_pct", sign=True),
                    "verdict": i["verdict"],
                    "holds the truth": i["held"],
                    "bias": _with_interval(i, "bias_pct", "bias_lo_pct", "bias_hi_pct", sign=True),
                }
            ),
            "Known slowdowns. The truth follows from the heaviest arm: a round of hashing costs the "
            "same in every arm. Bias: found less true, with a 95 % interval that knows both errors.",
            name="injected",
        )

    @_needs("switched")
    def show_power(self):
        """Figure: power on the live server."""
        frame = live.power(self.switched, self.known)
        frame = frame[frame["truth_pct"] < 20].assign(line=frame["metric"])
        return plots.show(
            figures.power(frame),
            title="Power on a live server",
            alt=say_power(frame),
            caption="Share of campaigns that end in slower (solid) or same (dashed): the blocks of each "
            f"known slowdown drawn again as campaigns of {live.SHORT} blocks, one server switched.",
            data=frame,
            name="power-live",
        )

    @_needs("switched")
    def show_bias(self):
        """Figure: found less true, by design."""
        return plots.show(
            figures.bias(self.injected, margin_pct=self.switched.study.margin_pct),
            title="Bias under known slowdowns",
            alt=say(self.injected, "bias_pct", "design", "found less true"),
            caption="What each design found less what is true, with its 95 % interval.",
            data=self.injected,
            name="bias",
        )

    @_needs("switched", "side-by-side", "duet")
    def show_information(self):
        """Figure: information a minute."""
        return plots.show(
            figures.information(self.designs),
            title="Information a minute",
            alt=say(self.designs, "against_side_by_side", "design", "information, side by side = 1", unit=""),
            caption="One over the variance of a pair times its minutes, restarts and the scatter between "
            "blocks counted. Bars: 95 % interval.",
            data=self.designs,
            name="information",
        )  # fmt: skip

    @_needs("switched", "side-by-side", "duet")
    def show_designs(self):
        """Table: the three designs in numbers."""
        d = self.designs
        return report.table(
            pd.DataFrame(
                {
                    "design": d["design"],
                    "metric": d["metric"].map(plots.metric_label),
                    "pairs": d["pairs"],
                    "blocks": d["blocks"],
                    "sd of a pair": d["pair_sd_pct"].map(_unsigned),
                    "seconds a pair": d["seconds_a_pair"].round(1),
                    "information a minute": d["against_side_by_side"].map("{:.1f} times".format),
                }
            ),
            "The three designs; side by side is 1.",
            name="designs",
        )

    @_needs("switched", "side-by-side", "duet")
    def show_decision(self):
        """Table: where duet is offered."""
        d = self.decision.drop(columns="up_to_pct")
        return report.table(
            d.assign(metric=d["metric"].map(plots.metric_label)),
            "Duet is offered where the interval of its bias stays within the margin up to the effect "
            "named, and a minute of it tells more than a minute side by side; else it is refused.",
            name="decision",
        )

    def save(self):
        """Store the A/A campaign's verdict table beside the page, for the index."""
        if self.aa is not None:
            report.save(
                self.aa.verdicts,
                "calibration",
                self.aa.meta,
                title="Calibration",
                headline=self.headline,
                campaigns=self.campaigns,
                raw=[recorded()],
            )


def load(aa="", switched="", side_by_side="", duet=""):
    """The recorded synthetic figures and the campaigns called so; "" for the newest recorded one of
    that study, None inside where there is none."""
    given = dict(zip(STUDIES, (aa, switched, side_by_side, duet), strict=True))
    opened = {
        study.replace("-", "_"): _open(f"calibration-{study}", name)
        for study, name in given.items()
    }
    return Calibration(truth.read(recorded()), **opened)


def labelled(rates):
    """Rival rates with what they are called in figures, and percent."""
    ours = rates["rival"] == rivals.OURS
    return rates.assign(
        label=rates["rival"] + ", " + rates["order"], ours=ours, alarm_pct=100 * rates["value"]
    )


def rivals_on(r):
    """`rivals.on_files` of a campaign, TPS and CPU per transaction, labelled."""
    seconds = tidy.intervals(r.folder, r.main)
    rows = []
    for metric in live.METRICS:
        kept = r.tidy[(r.tidy["metric"] == metric) & ~r.tidy["warmup"]]
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


def _open(study, name):
    name = name or report.recorded_campaign(study)
    return results.load(paths.campaign(name)) if name else None


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


def _live(c):
    if c.aa is None:
        for name, limit in (
            ("Real A/A pairs", "at least 200"),
            ("Machine time against ten and ten runs of 300 s", "at least 50 % less"),
        ):
            yield _goal(name, limit, "–", "", "no A/A campaign is recorded", None)
    else:
        pairs, blocks = c.components["pairs"].max(), c.components["blocks"].max()
        yield _goal("Real A/A pairs", "at least 200", f"{pairs}", "", f"{blocks} blocks", bool(pairs >= 200))  # fmt: skip
        called = c.aa.verdicts[c.aa.verdicts["verdict"].isin(["slower", "faster"])]
        called = called[~called["control"]]
        yield _goal(
            "The A/A campaign itself is not called slower or faster", "never",
            ", ".join(called["metric"]) or "never", "", f"{len(c.components)} metrics",
            not len(called),
        )  # fmt: skip
        time = c.machine_time
        worst = time.loc[time["saved_pct"].idxmin()]
        wrong = time["wrong"].max()
        yield _goal(
            "Machine time against ten and ten runs of 300 s",
            "at least 50 % less, errors at most 5 %",
            f"{worst['saved_pct']:.0f} % less ({worst['minutes']:.1f} of {live.REFERENCE_MIN:.0f} min)",
            f"errors {_pct(wrong)}",
            f"{worst['metric']} at {worst['truth_pct']:.0f} %; right verdict in {_pct(time['right'].min())} at least",
            bool(worst["saved_pct"] >= 50 and wrong <= LIMIT and time["right"].min() >= 0.9),
        )  # fmt: skip
    if c.switched is None:
        yield _goal("Interval holds known slowdowns", f"at least {_pct(COVERAGE[0])}", "–", "", "no campaign with known slowdowns is recorded", None)  # fmt: skip
    else:
        own = c.injected[c.injected["design"] != "duet"]
        held, n = int(own["held"].sum()), len(own)
        lo, hi = synthetic.clopper_pearson(held, n)
        yield _goal(
            "Interval holds known slowdowns", f"at least {_pct(COVERAGE[0])}",
            f"{held} of {n}", f"{_pct(lo)} to {_pct(hi)}",
            f"overheads of {own['truth_pct'].min():.1f} to {own['truth_pct'].max():.1f} % on a live server",
            bool(hi >= COVERAGE[0] and held / n >= 0.9),
        )  # fmt: skip


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
