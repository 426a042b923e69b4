"""What a study's page says of its questions: which were answered and how, and which were not; the
figures that every such page has; and what stands behind them: all comparisons, what transfers to
another machine, the settings of the arms, and proofs and runs, folded."""

import math
import shlex

import numpy as np
import pandas as pd

from noisefloor import stats, studies
from noisefloor.data import results, tidy
from noisefloor.data.results import PROCESSOR, THROUGHPUT
from noisefloor.model import METRICS
from noisefloor.show import plots
from noisefloor.show.markup import TOLD, Shown, cell, joined, kind, known, piece, say
from noisefloor.show.report import words
from noisefloor.show.report.pieces import flat, provenance, save, table, verdict_box, verdict_table
from noisefloor.show.rows import SHORT, is_control, is_joint, joint, metric_label
from noisefloor.stats.verdict import CANNOT_TELL, NOT_YET
from noisefloor.text import amounts
from noisefloor.text.amounts import percent

FEW = 6  # comparisons that the table of questions tells one by one
MANY = 20  # more of them are drawn over all thread counts alone
COSTS = ["tps", "cpu_per_transaction"]
SATURATED = 0.95  # of the highest throughput
_LISTS = TOLD["lists"]


# -- the campaigns of a page -----------------------------------------------------------------------


def asked(given) -> dict:
    """What a new campaign is asked for: those of a notebook's parameters that say what is measured,
    and on whose server."""
    found = {name: given[name] for name in _LISTS["asked"] if name in given}
    return found | ({"server": "env"} if given.get("guest") else {})


def opened(study, given):
    """The campaigns of a study's page, opened, measured now where `given` names none. `given`: a
    notebook's variables, of which its parameters are taken."""
    from noisefloor.measure import collect

    return results.load(*collect.obtain(study, given.get("campaign", ""), **asked(given)))


def begin(r, arm="", answer=""):
    """The head of a study's page: the order of its arms, the tables beside the page, and the box
    with both costs of `arm`. `answer`: sentences below them."""
    plots.theme(r.study.compared)
    leads, others = r.headlines(arm), r.also()
    facts = r.meta | {"hosts": [each.meta.get("host") for each in r.every]}
    told = {"title": r.study.title, "primary": leads, "also": others, "raw": r.sources}
    save(r.verdicts, r.study.name, facts, r=r, **told)
    return verdict_box(r.verdicts, facts, primary=leads, answer=answer, r=r)


def archived(r):
    """The head of an archive's page: how many comparisons have which verdict, their joint effects,
    and what the authors of the runs say beside what the runs say. Of one comparison as of a study."""
    said, claimed = r.counts, r.claimed
    rows = r.summary(r.of(metric=r.lead_metric, control=False))
    if len(rows) == 1:
        return begin(r, answer=" ".join(f"{claim}: {found}." for claim, found in claimed))
    plots.theme([r.study.baseline, *r.study.arms])
    told = {"title": r.study.title, "headline": " ".join(said)}
    save(r.verdicts, r.study.name, r.meta, primary=[], raw=r.sources, **told)
    several = [c for c in ("workload", "arm") if rows[c].nunique() > 1]
    chips = [
        (", ".join(row[c] for c in several), row["verdict"], words.word(row), words.change(row))
        for row in rows.to_dict("records")
    ]
    inner = piece("archived", said[:FEW], chips if len(chips) <= FEW else [], claimed)
    look = f"nf-{kind(rows['verdict'].mode()[0])}".replace(" ", "-")
    return Shown(piece("box", look, inner, words.where(r.meta)), "\n".join(said))


# -- figures ---------------------------------------------------------------------------------------


def figure(drawn, rows, name, caption="", *, alt="", data=None):
    """A figure of rows of the verdict table: they give its alternative text (after `alt`), the
    caption where there is none, and the data. Of no rows a sentence says that nothing was measured;
    None for rows: nothing."""
    if rows is None:
        return None
    if not len(rows):
        return _sentence("Not measured here.")
    told = f"{alt} {plots.alt(rows)}".strip()
    own = rows[~is_control(rows)]
    caption = caption or words.finding(own if len(own) else rows)
    data = flat(rows) if data is None else data
    return plots.show(drawn, alt=told, caption=caption, data=data, name=name)


def threads(r, rows=None, name="threads", caption="", *, alt="", metrics=COSTS, published=None):
    """The change against thread counts, of `rows` or of both costs that the first question is about,
    and over it what was `published`."""
    rows = r.costs(r.main, r.parts[0].study.key) if rows is None else rows
    drawn = plots.threads(rows, metrics, published=published) if len(rows) else None
    return figure(drawn, rows, name, caption, alt=alt)


def sittings(r, arm=""):
    """The campaigns of each comparison that the page leads with, one by one, with what they say
    together, processor by processor; and folded which campaigns were left out. Nothing for a single
    campaign of a question that asks for no other."""
    found = []
    for row in r.headlines(arm) if len(r.every) > 1 or r.of()["asked"].max() > 1 else ():
        found.append(_forest(r, row))
        if any(len(rows) > 1 for _, rows in words.placed(row, r)[1:]) and joint(row):
            most = r.of(row["workload"], row["metric"], question=row["question"])
            most = most[most["arm"].eq(row["arm"]) & ~is_joint(most)].sort_values("threads")
            found.append(_forest(r, most.iloc[-1]))
    left = Shown(piece("notes", r.left)) if r.left else None
    return _together(*found, fold(f"Campaigns left out ({len(r.left)})", left))


def _forest(r, row):
    """The figure of one comparison."""
    both = pd.DataFrame([row, *r.elsewhere(row)]).reset_index(drop=True)
    each = r.forest
    for column in ("question", "workload", "metric", "arm", "joint"):
        each = each[each[column].eq(row[column])]
    each = each[each["threads"].eq(row["threads"])] if known(row["threads"]) else each
    at = words.counts(row).replace(" ", "-")
    return plots.show(
        plots.sittings(each, both),
        alt=plots.sittings_alt(each, both),
        caption=say("sittings", told=words.finding(both)),
        data=flat(each),
        name=f"sittings-{row['metric'].replace('_', '-')}-{at}",
        title=f"Sittings: {words.cost(row['metric'])}, {words.counts(row)}",
    )


def dots(r, rows, name, caption="", *, alt="", **drawn):
    """Comparisons below each other. `drawn`: what `plots.dots` takes besides."""
    return figure(plots.dots(rows, **drawn), rows, name, caption, alt=alt)


def waterfall(r, steps, rows, name="waterfall"):
    """Steps that add up, drawn where there are more than two. rows: of the steps' metric."""
    if len(steps) <= 2:
        return None
    of = rows.iloc[0][["metric", "margin_pct", "sittings", "asked", "ranged"]]
    return figure(plots.waterfall(steps.assign(**of)), rows, name, data=steps)


def pairs(r):
    """Every pair of the first comparison of the page, and the means of its blocks."""
    first = r.parts[0]
    found = first.pairs(r.main, r.metric)
    told = say("pairs", metric=metric_label(r.metric), because=first.meta["ended_because"])
    rows = r.of(r.main, r.metric, control=False, question=first.study.key)
    rows = rows[rows["arm"].isin(found["arm"])]
    return figure(plots.pairs(found), rows, "pairs", told, data=found)


def processor(r):
    """Server CPU per transaction of every run of the first workload."""
    metric = "cpu_per_transaction"
    first = r.parts[0]
    runs, rows = first.judged(r.main, metric), r.of(r.main, metric, False, first.study.key)
    return figure(plots.runs(runs, metric), rows, "cpu", data=runs)


def latency(r):
    """Latency quantiles of the first workload, as far as its runs are long enough for them."""
    counts = sorted(r.judged(r.main, "p95")["threads"].dropna().unique())
    threads = counts[-1] if counts and r.threads not in counts else r.threads
    tail = r.quantiles(r.main, threads)
    if tail.empty:
        return _sentence(say("no-latency", tidy.BEYOND * 20, tidy.BEYOND * 100, tidy.A_CLIENT))
    drawn = plots.quantiles(tail, baseline=r.study.baseline.name)
    told = say("latency", threads=threads, counted=r.parts[0].counted(r.main, threads))
    key = r.parts[0].study.key  # it is drawn of the first campaign
    judged = r.of(r.main, "p99", question=key)
    judged = judged if len(judged) else r.of(r.main, "p95", question=key)
    return figure(drawn, judged, "latency", told, data=tail)


def timeline(r):
    """Throughput of the first workload in every second."""
    seconds = r.intervals(r.main)
    told = say("timeline", threads=r.threads, counted=r.parts[0].counted(r.main, r.threads))
    about = say("timeline-alt", threads=r.threads)
    drawn = plots.timeline(seconds[seconds["threads"] == r.threads])
    return figure(drawn, r.of(r.main, r.metric), "timeline", told, alt=about, data=seconds)


# -- what was asked, and answered ------------------------------------------------------------------


def some(frame, caption):
    """A table, or nothing where it has no rows."""
    return table(frame, caption) if len(frame) else None


def answer(r, question, metrics=()):
    """The answer to a question of the study: its comparisons as a figure with the verdicts in
    words, of `metrics` alone where they are given; where it was not measured, the command that
    would. Of very many comparisons those over all thread counts."""
    rows = r.about(question)
    if rows.empty:
        return _sentence("Not measured here. To measure it:", command(r, question))
    if metrics:
        rows = pd.concat([rows[rows["metric"] == m] for m in metrics])
    else:
        rows = _asked_about(r, rows)
    if len(rows) > MANY:
        rows = _over_all(rows)
    asks = r.questions.get(question, "")
    name = "-".join([question, *metrics[:1]])
    return dots(r, rows, name, f"{asks} {words.finding(rows)}".strip())


def questions(r):
    """All questions of the study, each with its verdicts or the command that measures it."""
    if not r.questions:
        return _sentence("One campaign of an earlier plan asked all questions at once.")
    rows = []
    for key, asks in r.questions.items():
        found = r.about(key)
        said = piece("command", command(r, key)) if found.empty else _verdicts(r, found)
        rows.append((key, asks, said))
    frame = pd.DataFrame(rows, columns=["name", "question", "answer"])
    return table(frame, "The questions of this study", name="questions", raw=("answer",))


def _asked_about(r, rows) -> pd.DataFrame:
    """Those in the metrics that a question is about, workloads in the order of the study."""
    metrics = {m for w in r.study.workloads for m in w.deciding}
    order = [w.name for w in r.study.workloads]
    kept = rows[rows["metric"].isin(metrics | {*PROCESSOR, *THROUGHPUT, *_LISTS["more"]})]
    return kept.sort_values("workload", key=lambda c: c.map(order.index), kind="stable")


def _over_all(rows) -> pd.DataFrame:
    """Of several thread counts the rows over all of them."""
    key = ["workload", "metric", "arm"]
    joint = rows[is_joint(rows)]
    alone = rows.set_index(key).index.isin(joint.set_index(key).index)
    return rows[is_joint(rows) | ~alone]


def _verdicts(r, rows):
    """Verdicts in a few words, of several thread counts those over all of them."""
    rows = _over_all(_asked_about(r, rows))
    if len(rows) > FEW:
        return piece("badges", _counted(rows), lines=False)
    several = [c for c in ("workload", "arm") if rows[c].nunique() > 1]
    parts = []
    for row in rows.to_dict("records"):
        what = [str(row[c]) for c in several]
        what.append(SHORT.get(row["metric"], metric_label(row["metric"])))
        told = "; ".join((words.limits(row) or words.change(row), *words.doubts(row)))
        parts.append((row["verdict"], words.word(row), f"{', '.join(what)}: {told}"))
    return piece("badges", parts, lines=True)


def _counted(rows) -> list:
    """How often each verdict is given."""
    counts = rows.assign(word=rows.apply(words.word, axis=1)).groupby(["verdict", "word"]).size()
    turn = counts.sort_values(ascending=False, kind="stable")
    return [(verdict, word, n) for (verdict, word), n in turn.items()]


def command(r, question) -> str:
    """The command that measures a question as the page's own campaign was measured; of a page on
    its user's own question, that one."""
    s, given = r.study, r.meta.get("parameters", {})
    if "settings" in given:
        line = ["noisefloor", "ab", *given["settings"]]
        script = "lua" if given.get("lua") else "workload"
        line += [f"--{script}", given[script]] if given.get(script) else []
        line += ["--engine", engine] if (engine := r.meta["engine"]["kind"]) != "mysql" else []
        return shlex.join([*line, "--profile", s.profile.name])
    line = ["noisefloor run", s.name, *(["--question", question] if question else [])]
    if s.profile.name != "quick":
        line += ["--profile", s.profile.name]
    for name, usual in (("engine", studies.default_engine(s.name)), ("old", "mysql-8.0")):
        if (value := given.get(name) or usual) != usual:
            line += [f"--{name}", "FOLDER" if "/" in value else value]
    if s.margin_pct:
        line += ["--margin", f"{s.margin_pct:g}"]
    return " ".join(line)


def absolute(r):
    """What the leading campaign of each question is about, in units: its baseline, and what the
    change makes of it. Those of other questions are folded: never two campaigns in one table."""
    first, *rest = (_units(part) for part in r.parts)
    rest = [table_ for table_ in rest if table_ is not None]
    more = fold(f"In units: {len(rest)} more question{'s' * (len(rest) > 1)}", *rest)
    return _together(first, more)


def _units(part):
    """The table of one campaign: a row a metric, thread count and arm. The baseline is that of the
    very pairs that the change is from, and what the change makes of it is computed from both as they
    are printed."""
    work, rows = part.main, []
    alone = part.alone()
    alone = alone[alone["workload"].eq(work) & ~alone["control"] & ~alone["joint"]]
    for metric in _LISTS["absolute"]:
        own, judged = alone[alone["metric"].eq(metric)], part.judged(work, metric)
        both = stats.pairs(judged, baseline=part.study.baseline.name) if len(own) else None
        for row in own.to_dict("records"):
            held = both[both["arm"].eq(row["arm"]) & both["threads"].eq(row["threads"])]
            blocks = stats.units(held).index
            runs = judged[judged["threads"].eq(row["threads"]) & judged["block"].isin(blocks)]
            mine = runs.loc[runs["arm"].eq(row["arm"]), "pair_id"]
            base = runs[runs["arm"].eq(row["baseline"]) & runs["pair_id"].isin(mine)]
            middle = float(f"{base['value'].median() * METRICS[metric].scale:.4g}")
            value, lo, hi = (cell(middle * _times(row[c], metric)) for c in _ENDS)
            rows.append(
                {
                    "metric": f"{metric_label(metric)}, {METRICS[metric].shown_unit}",
                    "threads": row["threads"],
                    "arm": row["arm"],
                    row["baseline"]: cell(middle),
                    "with it": f"{value} ({lo} to {hi})" if known(row["lo_pct"]) else value,
                    "change": words.change(row),
                }
            )
    if not rows:
        return None
    told = say(
        "absolute", main=words.upper(work), date=words.when(part.meta), machine=machine(part)
    )
    frame = pd.DataFrame(rows)
    key = part.study.key
    return table(
        frame, told, name=f"absolute-{key}" if key else "absolute", numbers=frame.columns[3:]
    )


_ENDS = ("change_pct", "lo_pct", "hi_pct")


def machine(part) -> str:
    """The machine of a campaign."""
    return words.machine(part.meta)


def _times(value, metric) -> float:
    """How many times as large a value is after a change, as the change is printed."""
    if not known(value):
        return math.nan
    if amounts.large(value, metric):
        factor = round(amounts.factor(value), 1 if amounts.factor(value) < 19.95 else 0)
        return factor if value > 0 else 1 / factor
    return 1 + round(value, 1) / 100


def expectation(r):
    """What the cipher alone should cost, beside what was measured; nothing where none was timed."""
    found = r.expectation()
    if found.empty:
        return None
    most, row = found["expected_pct"].max(), found.iloc[-1]
    share = " to ".join(dict.fromkeys((percent(found["expected_pct"].min(), 2), percent(most, 2))))
    why = say("cipher", **row, kB=row["bytes"] / 1e3)
    measured = amounts.told(row["change_pct"], row["lo_pct"], row["hi_pct"])
    noisy = row["hi_pct"] > 20 * max(most, 0.05)
    more = "cipher-more" if row["lo_pct"] > most else "cipher-noise" if noisy else ""
    more = say(more) if more else ""
    return Shown(piece("expected", r.study.cipher["name"], share, why, measured, more))


def rule(r):
    """How a word is given: the margins of the page's metrics, how many words it prints."""
    judged = r.verdicts[~r.verdicts["control"]]
    margins: dict[float, list[str]] = {}
    for metric, margin in judged.groupby("metric", sort=False)["margin_pct"].first().items():
        margins.setdefault(margin, []).append(SHORT.get(metric, metric_label(metric)))
    told = [
        f"±{margin:g}\u202f% for {', '.join(names)}" for margin, names in sorted(margins.items())
    ]
    n = int((~judged["verdict"].isin((CANNOT_TELL, NOT_YET))).sum())
    facts = {"margins": "; ".join(told), "words": n, "of": len(judged)}
    return _sentence(say("rule", **facts))


def outcome(r):
    """What the leading campaign of each question declared before it measured, what became of it, and
    what the host took meanwhile."""
    rows = pd.DataFrame([_outcome(part) for part in r.parts])
    if len({machine(p) for p in r.parts}) > 1:
        rows["machine"] = [machine(p) for p in r.parts]
    return table(rows, say("outcome"), name="outcome")


def _outcome(part) -> dict:
    """The row of one campaign."""
    meta, work = part.meta, part.study.workloads[0]
    plan, metric = meta.get("plan", {}), work.deciding[0]
    rows = part.alone()
    rows = rows[rows["workload"].eq(work.name) & rows["metric"].eq(metric) & ~rows["control"]]
    blocks = int(rows["blocks"].max()) if len(rows) else 0
    declared = plan.get("blocks", blocks)
    measured = f"{part.study.design}, {blocks}{f' of {declared}' if plan else ''} block{'s' * (declared != 1)}"
    if each := plan.get("pairs"):
        measured += f", {each:g} pair{'s' * (each != 1)} each"
    lo, hi = (
        np.log1p(rows.loc[~rows["joint"], c].astype(float) / 100) for c in ("lo_pct", "hi_pct")
    )
    widest = ((hi - lo) / 2).max()
    reached = None if math.isnan(widest) else 100 * math.expm1(widest)
    width = {"expected": plan.get("expected", {}).get(metric), "reached": reached}
    short = SHORT.get(metric, metric_label(metric))
    return {
        "question": part.study.key or part.study.question,
        "measured": measured,
        "half width": f"{short}: {_listed(width, '.1f', ' %')}",
        "minutes": f"{words.minutes(part):.0f} of {part.study.profile.budget_min:.3g} at most",
        "steal": _steal(part),
        "waited": f"{meta['waited_s']:.0f} s" if "waited_s" in meta else "no gate then",
    }


def _steal(part) -> str:
    """`OFF 3.1 %, ON 3.2 %`: the share of the cores that the host took, in the mean of the runs of
    each arm."""
    host = part.meta.get("host")
    cores = (host.get("cores") if isinstance(host, dict) else None) or 1
    taken = part.judged(metric="steal").groupby("arm", sort=False)["value"].mean() / cores
    arms = [a.name for a in part.study.compared if a.name in taken]
    return ", ".join(f"{arm} {100 * taken[arm]:.1f} %" for arm in arms) or "not known"


def _listed(parts, digits, unit="") -> str:
    """`expected 2.1 %, reached 2.4 %`: those that are known."""
    told = (f"{name} {value:{digits}}{unit}" for name, value in parts.items() if value)
    return ", ".join(told) or "not known"


def _sentence(words, code=""):
    """Instead of a figure: words, and a command behind them."""
    return Shown(piece("sentence", words, code))


# -- what it depends on ----------------------------------------------------------------------------


def transfers(r, arm=""):
    """What the answer was measured on, processor by processor, and in time of the processor: a table
    of words made from the campaigns' numbers."""
    study, disk = r.study, (r.meta.get("host") or {}).get("disk") or {}
    rates, pool = r.meta.get("cipher_B_per_s"), study.settings.get("innodb_buffer_pool_size")
    facts = {
        "threads": _saturation(r),
        "cipher": study.cipher["name"] if rates else "",
        "rate": sorted(rates)[len(rates) // 2] / 1e6 if rates else 0,
        "data": f"{study.tables} table{'s' * (study.tables > 1)}",
        "rows": study.profile.rows * study.tables,
        "pool": f" The buffer pool has {pool}B." if pool else "",
        "virtual": disk.get("kind") == "virtual",
        "keyring": study.keyring,
    }
    leads = r.headlines(arm)
    on: dict[str, list[str]] = {}
    for lead in leads:
        for place, told in words.on_each(lead, r):
            on.setdefault(place, []).append(f"{words.cost(lead['metric'])}: {told}")
    rows = [(f"on {place}", f"{'; '.join(told)}.") for place, told in on.items()]
    rows += [
        (what, told.format(**facts)) for what, (of, told) in TOLD["transfers"].items() if facts[of]
    ]
    rows += _prices(r, leads)
    frame = pd.DataFrame(rows, columns=["what", "here"])
    return table(frame, "What this was measured on", name="transfers")


def _saturation(r) -> str:
    """From which thread count on more threads bring hardly more throughput, in words."""
    for rate in THROUGHPUT:
        rows = r.parts[0].judged(r.main, rate)
        if rate == "wall" or rows.empty:
            continue
        middle = rows[rows["arm"] == r.study.baseline.name].groupby("threads")["value"].median()
        full = [str(t) for t in middle.index[middle >= SATURATED * middle.max()]]
        if len(full) > 1:
            return say("saturated", f"{', '.join(full[:-1])} and {full[-1]}")
        return say("growing", *middle.index[-2:]) if len(middle) > 1 else ""
    return ""


def _prices(r, leads) -> list[tuple[str, str]]:
    """What the change costs in time of the processor, on each that it was measured on, and how to
    make one's own percentage of it."""
    lead = next((x for x in leads if x["metric"] in TOLD["prices"]), None)
    found: list[tuple[str, str]] = []
    for row in (x for _, rows in words.placed(lead, r) for x in rows) if lead is not None else ():
        campaigns = words.campaigns(row, r)
        if not campaigns or not known(row["lo_pct"]):
            continue
        base = campaigns[-1].judged(row["workload"], row["metric"])
        base = base[base["arm"].eq(row["baseline"])]
        base = base if joint(row) else base[base["threads"].eq(row["threads"])]
        each, scale, unit = TOLD["prices"][row["metric"]]
        whole = scale * base["value"].median()
        ends = (f"{whole * row[c] / 100:.3g}" for c in _ENDS)
        more, least, most = (f"{'+' * (float(x) > 0)}{cell(float(x))}" for x in ends)
        facts = {"arm": row["arm"], "each": each, "unit": unit, "more": more, "least": least}
        facts |= {"most": most, "whole": cell(float(f"{whole:.3g}")), "place": row["processor"]}
        facts["at"] = f" at {words.counts(row)}" if known(row["threads"]) else ""
        found.append(("the price", say("price", **facts)))
        if len(found) == 1:
            found.append(("your percentage", say("price-yours", **facts)))
    return found[:1] + found[2:] + found[1:2]


# -- folded ----------------------------------------------------------------------------------------


def fold(title, *shown):
    """These pieces of a page behind a line that opens them; without any, nothing."""
    inner = _together(*shown)
    return Shown(piece("fold", title, inner.markup), f"{title}\n{inner.text}") if inner else None


def _together(*shown):
    """Several pieces as one, for the last line of a cell; nothing where there is none."""
    there = [s for s in shown if s is not None]
    return (
        Shown(joined(s.markup for s in there), "\n".join(s.text for s in there)) if there else None
    )


def comparisons(r):
    """The verdict table: throughput, processor time and what decides; the rest folded."""
    deciding = {m for w in r.study.workloads for m in w.deciding}
    v = r.verdicts
    main = {*PROCESSOR, *THROUGHPUT, *_LISTS["leading"]}
    first = v["metric"].isin(deciding | main) & v["lo_pct"].notna()
    rest, more = v[~first], None
    if len(rest):
        more = fold(
            f"{len(rest)} more: other metrics, and comparisons without an interval",
            verdict_table(rest, name="more-verdicts"),
        )
    return _together(verdict_table(v[first], "The verdict table"), more)


def settings(r):
    """The variables that matter and those that were asked for, as read back from the running
    servers: a column an arm."""
    found = {arm: values for p in r.parts for arm, values in p.variables.items()}
    if not found:
        return None
    every = r.study.compared
    wanted = {*_LISTS["settings"], *r.study.settings}
    wanted |= {k for a in every for k in (*a.switch, *a.settings)}
    names = sorted(wanted & set().union(*found.values()))
    frame = pd.DataFrame(
        {a.name: [found[a.name].get(n, "") for n in names] for a in every if a.name in found},
        index=pd.Index(names, name="variable"),
    ).reset_index()
    return table(frame, "Settings in force, read back from the servers", name="settings")


def _again(r):
    """The command that measures the page's first question again, with its versions and its seed."""
    s, meta = r.parts[0].study, r.meta
    line = command(r, s.key)
    line += f" --seed {meta['seed']}" if s.name in studies.STUDIES else ""
    told = sorted({e["label"] for e in meta.get("engines", {}).values()})
    told.append(f"sysbench {meta.get('tools', {}).get('sysbench', '')}".strip())
    told += [f"Noisefloor at {meta['commit']}"] if meta.get("commit") else []
    return Shown(piece("again", line, ", ".join([*told, f"seed {meta['seed']}"])))


def details(r):
    """Doubts, settings, proofs and runs, each folded; then where the numbers come from."""
    warned, left = len(r.warnings), len(r.skipped)
    return _together(
        fold(f"Left out on this machine ({left})", table(r.skipped)) if left else None,
        fold(f"Warnings ({warned})", table(r.warnings)) if warned else None,
        fold("Settings of each arm", settings(r)),
        fold("Every variable that differs between the arms", table(r.differences)),
        fold("Proof that each arm was what it is called", table(r.evidence)),
        fold("What was measured, and why", table(r.workloads)),
        fold(f"Every run ({len(r.runs)})", table(r.runs)),
        _again(r),
        provenance(r),
    )
