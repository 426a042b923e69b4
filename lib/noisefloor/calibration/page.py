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
LIMIT, BOUND = 0.05, 0.06  # of an error rate, and of its upper 95 % bound
COVERAGE = (0.935, 0.97)
PRICE = {0.0: 8.5, 2.0: 10.5, 5.0: 6.5}  # pairs to a verdict at a pair sd of 2 %
SECONDS = 600
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
        """The synthetic cells with rates in percent: false_alarm, false_same, coverage, and what
        they are called in figures (`noise_label`)."""
        cells = self.figures["cells"]
        return cells.assign(
            noise_label=cells["noise"] + ", " + cells["dependence"],
            false_alarm_pct=100 * cells["wrong"] / cells["n"],
            false_same_pct=100 * cells["false_same"] / cells["n"],
            coverage_pct=100 * cells["covered"] / cells["n"],
            decided_pct=100 * (1 - cells["cannot_tell"] / cells["n"]),
        )

    @cached_property
    def at_zero(self):
        """Cells whose truth is 0."""
        return self._cells("wrong", "false_alarm_pct", self.cells["effect"] == 0)

    @cached_property
    def at_margin(self):
        """Cells whose truth is the margin."""
        return self._cells("false_same", "false_same_pct", self.cells["effect"] == truth.MARGIN)

    @cached_property
    def coverage(self):
        """All cells, with what their intervals hold."""
        return self._cells("covered", "coverage_pct", self.cells["effect"] >= 0)

    def _cells(self, count, rate, kept):
        """Rows and columns of `cells` that one figure shows: a page carries them as CSV."""
        columns = [*truth.KEY[:-1], "noise_label", "effect", "n", count, rate]
        return self.cells.loc[kept, columns].reset_index(drop=True)

    @cached_property
    def components(self):
        """Start-to-start variance of the A/A campaign."""
        return live.components(self.aa)

    @cached_property
    def alarms(self):
        """False alarms of the A/A pairs made into many campaigns."""
        return live.alarms(self.aa)

    @cached_property
    def windows(self):
        """The A/A campaign cut into campaigns of ten consecutive blocks."""
        return live.windows(self.aa)

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
    def power(self):
        """How often each known slowdown is found."""
        return live.power(self.switched, self.known)

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
        rows = [*_errors(self), *_coverage(self), *_prices(self), *_proofs(self), *_live(self)]
        return pd.DataFrame(rows, columns=GOAL_COLUMNS)

    @cached_property
    def rivals(self):
        """False alarms on the synthetic cells: the figures' table with a label and percent."""
        return labelled(self.figures["rivals"])

    @cached_property
    def rivals_live(self):
        """The same on the runs of the A/A campaign, TPS and CPU per transaction."""
        return rivals_on(self.aa)

    @property
    def synthetic_power(self):
        """Normal, independent noise without drift on one server: columns truth_pct, slower, same, line."""
        plain = {"design": "switched", "noise": "normal", "dependence": "iid", "drift": "none", "block_cv": 0}  # fmt: skip
        kept = self.cells[(self.cells[list(plain)] == list(plain.values())).all(axis=1)]
        return pd.DataFrame(
            {
                "truth_pct": 100 * kept["effect"],
                "slower": kept["slower"] / kept["n"],
                "same": kept["same"] / kept["n"],
                "line": [f"CV {100 * cv:g} %" for cv in kept["cv"]],
                "pairs_mean": kept["pairs_mean"],
            }
        )

    @property
    def rates(self):
        """What the grid does not ask: columns question, cases, least_pct, most_pct, bound_pct,
        where (the case of the most)."""
        rates = self.figures["rates"]
        kept = ~rates["question"].str.contains("mutant") & (
            rates["question"] != "pairs to a verdict"
        )
        rows = []
        for question, part in rates[kept].groupby("question", sort=False):
            least = question.startswith("coverage")
            worst = part.loc[part["value"].idxmin() if least else part["value"].idxmax()]
            rows.append(
                (
                    question, len(part), 100 * part["value"].min(), 100 * part["value"].max(),
                    100 * worst["lo" if least else "hi"], worst["case"],
                )
            )  # fmt: skip
        columns = ["question", "cases", "least_pct", "most_pct", "bound_pct", "worst case"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def price(self):
        """Mean pairs to the end of a campaign at a pair sd of 2 %: a row a truth, a column a design."""
        rates = self.figures["rates"]
        cases = rates[rates["question"] == "pairs to a verdict"]
        split = cases["case"].str.split(", ", n=1, expand=True)
        table = pd.DataFrame({"truth": split[0], "design": split[1], "pairs": cases["value"]})
        return table.pivot(index="truth", columns="design", values="pairs").reset_index()

    @property
    def mutants(self):
        """Each mutant and the rule in the same cell: columns mutant, mutant_pct, at_least_pct,
        rule_pct, exposed."""
        rates = self.figures["rates"].set_index(["question", "case"])
        rows = []
        for name in synthetic.MUTANTS:
            broken, whole = rates.loc[("mutant", name)], rates.loc[("the rule in the mutant's cell", name)]  # fmt: skip
            rows.append((name, 100 * broken["value"], 100 * broken["lo"], 100 * whole["value"], bool(broken["lo"] > LIMIT)))  # fmt: skip
        return pd.DataFrame(
            rows, columns=["mutant", "mutant_pct", "at_least_pct", "rule_pct", "exposed"]
        )

    @property
    def headline(self):
        """The finding in one or two sentences."""
        worst = self.at_zero.loc[self.at_zero["false_alarm_pct"].idxmax()]
        bound = 100 * synthetic.clopper_pearson(int(worst["wrong"]), int(worst["n"]))[1]
        honest = worst["false_alarm_pct"] <= 100 * LIMIT and bound <= 100 * BOUND
        words = (
            f"The instrument is {'' if honest else 'not '}honest: in the worst "
            f"of {len(self.at_zero)} kinds of noise it calls two equal arms different in "
            f"{worst['false_alarm_pct']:.1f} % of campaigns (bound {bound:.1f} %), looking after "
            "every pair."
        )
        if self.aa is not None:
            real = self.alarms[self.alarms["question"].str.contains("block")]
            row = real.loc[real["value"].idxmax()]
            words += (
                f" On this machine, real pairs of two identical servers raise a false alarm in "
                f"{100 * row['value']:.1f} % (bound {100 * row['hi']:.1f} %)."
            )
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
            ("Kinds of noise and effect", f"{len(self.cells):,}"),
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
        shown = pd.DataFrame(
            {
                "metric": c["metric"].map(plots.metric_label),
                "blocks": c["blocks"],
                "pairs": c["pairs"],
                "sd of a pair": c["pair_sd_pct"].map(_unsigned),
                "sd of block means": c["block_sd_pct"].map(_unsigned),
                "start-to-start CV": _with_interval(c, "cv_pct", "lo_pct", "hi_pct", 2),
                "default floor": [_unsigned(v, 2) for v in c["upper_pct"]],
                "p, starts equal": c["p"].round(3),
            }
        )
        return report.table(
            shown,
            "How much a server differs from start to start beyond what the pairs explain, with its "
            "95 % interval; the one-sided upper bound is the default floor.",
            name="components",
        )

    @_needs("aa")
    def show_alarms(self):
        """Table: false alarms of resampled A/A pairs."""
        a = self.alarms
        shown = pd.DataFrame(
            {
                "metric": a["case"].map(plots.metric_label),
                "judged": a["question"].str.split(", ").str[1],
                "false alarms": _with_interval(
                    100 * a[["value", "lo", "hi"]], "value", "lo", "hi", 2
                ),
                "same": (100 * a["same"]).map(_unsigned),
            }
        )
        return report.table(
            shown,
            f"{live.DRAWS:,} campaigns of {live.SHORT} blocks drawn from the real ones, their arms dealt "
            "anew: judged by blocks and, as a warning, by pairs.",
            name="alarms",
        )

    @_needs("aa")
    def show_windows(self):
        """Table: the A/A campaign as it was dealt, in pieces."""
        w = self.windows
        shown = pd.DataFrame(
            {
                "metric": w["metric"].map(plots.metric_label),
                "from block": w["from_block"] + 1,
                "pairs": w["pairs"],
                "difference": _with_interval(w, "overhead_pct", "lo_pct", "hi_pct", sign=True),
                "verdict": w["verdict"],
            }
        )
        return report.table(
            shown, "The A/A campaign cut into campaigns of ten blocks.", name="windows"
        )

    @_needs("aa")
    def show_machine_time(self):
        """Table: measured machine time against the usual plan."""
        t = self.machine_time
        shown = pd.DataFrame(
            {
                "metric": t["metric"].map(plots.metric_label),
                "true overhead": t["truth_pct"].map(_unsigned),
                "right verdict": (100 * t["right"]).map(_unsigned),
                "wrong verdict": (100 * t["wrong"]).map(_unsigned),
                "pairs": t["pairs"].round(1),
                "measured minutes": t["minutes"].round(1),
                "less than the usual plan": t["saved_pct"].map(_unsigned),
            }
        )
        return report.table(
            shown,
            "Campaigns drawn from the real A/A blocks, shifted to the true overhead: mean time under "
            f"load to a verdict, against {live.REFERENCE_MIN:.0f} minutes for ten and ten runs of 300 s.",
            name="machine-time",
        )

    @_needs("aa")
    def show_rivals(self):
        """Figure: the usual methods on the A/A campaign's own runs."""
        return plots.show(
            figures.strip(self.rivals_live, "alarm_pct", by="label", ink="metric", axis="false alarms (line: 5 %)"),
            title="False alarms of the usual methods on real A/A runs",
            alt=say(self.rivals_live, "alarm_pct", "label", "false alarms"),
            caption="Windows of ten runs an arm at every start; for the two that look after every pair "
            "the whole campaign with its coins dealt anew.",
            data=self.rivals_live,
            name="rivals-live",
        )  # fmt: skip

    @_needs("switched")
    def show_injected(self):
        """Table: known slowdowns against what was found."""
        i = self.injected
        shown = pd.DataFrame(
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
        )
        return report.table(
            shown,
            "Known slowdowns. The truth follows from the heaviest arm: a round of hashing costs the "
            "same in every arm. Bias: found less true, with a 95 % interval that knows both errors.",
            name="injected",
        )

    @_needs("switched")
    def show_power(self):
        """Figure: power on the live server."""
        frame = self.power.assign(line=self.power["metric"])
        frame = frame[frame["truth_pct"] < 20]
        return plots.show(
            figures.power(frame),
            title="Power on a live server",
            alt=say_power(frame),
            caption="Share of campaigns that end in slower (solid) or same (dashed): the pairs of each "
            "known slowdown drawn again, at most 64 a campaign, one server switched.",
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
            caption="One over the variance of a pair times its minutes, restarts counted; where two "
            "servers are measured the scatter between blocks counts. Bars: 95 % interval.",
            data=self.designs,
            name="information",
        )  # fmt: skip

    @_needs("switched", "side-by-side", "duet")
    def show_designs(self):
        """Table: the three designs in numbers."""
        d = self.designs
        shown = pd.DataFrame(
            {
                "design": d["design"],
                "metric": d["metric"].map(plots.metric_label),
                "pairs": d["pairs"],
                "blocks": d["blocks"],
                "sd of a pair": d["pair_sd_pct"].map(_unsigned),
                "seconds a pair": d["seconds_a_pair"].round(1),
                "information a minute": d["against_side_by_side"].map("{:.1f} times".format),
            }
        )
        return report.table(shown, "The three designs; side by side is 1.", name="designs")

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


def _rate_goal(name, rows, where):
    """A goal about the worst of several rates; rows: value, count, n."""
    worst = rows.loc[rows["value"].idxmax()]
    high = synthetic.clopper_pearson(int(worst["count"]), int(worst["n"]))[1]
    return _goal(
        name,
        f"≤ {_pct(LIMIT)}, bound ≤ {_pct(BOUND)}",
        _pct(worst["value"]),
        _pct(high),
        f"worst of {len(rows)}: {where(worst)}",
        bool(worst["value"] <= LIMIT and high <= BOUND),
    )


def _cell_name(row):
    return (
        f"{row['design']}, {row['noise']}, {row['dependence']}, drift {row['drift']}, run CV "
        f"{100 * row['cv']:g} %, block effect {100 * row['block_cv']:g} %"
    )


def _errors(c):
    zero = c.at_zero.assign(count=c.at_zero["wrong"], value=c.at_zero["wrong"] / c.at_zero["n"])
    edge = c.at_margin.assign(
        count=c.at_margin["false_same"], value=c.at_margin["false_same"] / c.at_margin["n"]
    )
    yield _rate_goal("False slower or faster, any look, every cell", zero, _cell_name)
    rates = c.figures["rates"]
    for question, name in (
        ("family-wise error", f"The same in a family of {truth.THREADS} thread counts"),
        ("family-wise error with the joint effect", "The same, its joint effect counted as well"),
    ):
        yield _rate_goal(name, rates[rates["question"] == question], lambda w: w["case"])
    yield _rate_goal("False same at the margin, every cell", edge, _cell_name)
    for question, name in (
        (
            "false same, noise underestimated",
            f"The same, noise underestimated {truth.DOUBT:g} times",
        ),
    ):
        yield _rate_goal(name, rates[rates["question"] == question], lambda w: w["case"])


def _coverage(c):
    limit = f"{_pct(COVERAGE[0])} to {_pct(COVERAGE[1])}"
    rates = c.figures["rates"]
    before = rates[rates["question"] == "coverage, pairs settled beforehand"]
    for name, value, n, where in (
        ("Interval holds the truth, at the stop, every cell", c.cells["covered"], c.cells["n"],
         f"{len(c.cells)} cells"),
        ("Interval for pairs settled beforehand", before["count"], before["n"],
         f"{len(before)} cells of 24 pairs"),
    ):  # fmt: skip
        share = value / n
        worst = share.idxmin()
        low = synthetic.clopper_pearson(int(value[worst]), int(n[worst]))[0]
        wide = int((share > COVERAGE[1]).sum())
        reached = bool(share.min() >= COVERAGE[0] and not wide)
        note = f"; wider than promised in {wide}" if wide else ""
        yield _goal(
            name, limit, f"{_pct(share.min())} to {_pct(share.max())}", f"at least {_pct(low)}",
            where + note, reached,
        )  # fmt: skip


def _prices(c):
    rates = c.figures["rates"]
    cases = rates[rates["question"] == "pairs to a verdict"].set_index("case")["value"]
    for effect, most in PRICE.items():
        name = f"{effect:g} %, "
        one, several = cases[name + "one start"], cases[name + "starts of 4 pairs"]
        side = cases[name + "side by side, blocks of 4 pairs"]
        where = f"{several:.1f} with restarts after 4 pairs, {side:.1f} side by side in blocks of 4"
        yield _goal(
            f"Pairs to a verdict at {effect:g} %, pair sd 2 %",
            f"at most {most:g}", f"{one:.1f}", "", where, bool(one <= most),
        )  # fmt: skip


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
        yield _goal(
            f"{truth.CAMPAIGNS:,} campaigns a cell, all cells in {SECONDS // 60} minutes on two cores",
            f"{SECONDS // 60} min", f"{facts['seconds'] / 60:.1f} min", "",
            f"{facts['cells']:,} cells of {facts['campaigns']:,} campaigns, {facts['cores']} cores",
            bool(facts["seconds"] <= SECONDS and facts["campaigns"] >= truth.CAMPAIGNS),
        )  # fmt: skip


def _live(c):
    if c.aa is None:
        for name, limit in (
            ("False alarms on real A/A pairs", f"at most {_pct(LIMIT)}"),
            ("Real A/A pairs", "at least 200"),
            ("Machine time against ten and ten runs of 300 s", "at least 50 % less"),
        ):
            yield _goal(name, limit, "–", "", "no A/A campaign is recorded", None)
    else:
        found = c.alarms[c.alarms["question"].str.contains("block")]
        yield _rate_goal("False alarms on real A/A pairs", found, lambda w: w["case"])
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
