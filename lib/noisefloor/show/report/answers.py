"""What a study's page says of its questions: which were answered and how, and which were not; the
figures that every such page has; and what stands behind them: all comparisons, what transfers to
another machine, the settings of the arms, and proofs and runs, folded."""

import math
import shlex

import pandas as pd

from noisefloor import studies
from noisefloor.data import results, tidy
from noisefloor.data.results import PROCESSOR, THROUGHPUT
from noisefloor.model import METRICS, PROFILES
from noisefloor.show import plots
from noisefloor.show.markup import TOLD, Shown, cell, joined, known, piece, say
from noisefloor.show.report.pieces import flat, provenance, save, table, verdict_box, verdict_table
from noisefloor.show.report.words import finding, limits, machine, machines, reasons, size, where
from noisefloor.show.rows import SHORT, is_control, is_joint, metric_label
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
    told = {"title": r.study.title, "primary": leads, "also": others, "raw": r.sources}
    save(r.verdicts, r.study.name, r.meta, **told)
    return verdict_box(r.verdicts, r.meta, primary=leads, answer=answer)


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
        (", ".join(row[c] for c in several), row["verdict"], amounts.overhead(row["overhead_pct"]))
        for row in rows.to_dict("records")
    ]
    inner = piece("archived", said[:FEW], chips if len(chips) <= FEW else [], claimed)
    most = rows["verdict"].mode()[0].replace(" ", "-")
    return Shown(piece("box", f"nf-{most}", inner, where(r.meta)), "\n".join(said))


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
    caption = caption or finding(own if len(own) else rows)
    data = flat(rows) if data is None else data
    return plots.show(drawn, alt=told, caption=caption, data=data, name=name)


def overhead(r, rows=None, name="overhead", caption="", *, alt="", metrics=COSTS, published=None):
    """Overhead against threads, of `rows` or of both costs that the first question is about, and
    over it what was `published`."""
    rows = r.costs(r.main, r.parts[0].study.key) if rows is None else rows
    drawn = plots.overhead(rows, metrics, margin_pct=r.study.margin_pct, published=published)
    return figure(drawn, rows, name, caption, alt=alt)


def dots(r, rows, name, caption="", *, alt="", **drawn):
    """Comparisons below each other. `drawn`: what `plots.dots` takes besides."""
    found = plots.dots(rows, margin_pct=r.study.margin_pct, **drawn)
    return figure(found, rows, name, caption, alt=alt)


def waterfall(r, steps, rows, name="waterfall"):
    """Steps that add up, drawn where there are more than two."""
    if len(steps) <= 2:
        return None
    drawn = plots.waterfall(steps, margin_pct=r.study.margin_pct)
    return figure(drawn, rows, name, data=steps)


def path(r):
    """How the first comparison of the page came to its verdict, pair by pair."""
    pairs = r.pairs(r.main, r.metric)
    drawn = plots.pairs(pairs, r.path(r.main, r.metric), margin_pct=r.study.margin_pct)
    words = say("path", metric=metric_label(r.metric), because=r.meta["ended_because"])
    return figure(drawn, r.of(r.main, r.metric, control=False), "pairs", words, data=pairs)


def processor(r):
    """Server CPU per transaction of every run of the first workload."""
    metric = "cpu_per_transaction"
    runs, rows = r.judged(r.main, metric), r.of(r.main, metric, control=False)
    return figure(plots.runs(runs, metric), rows, "cpu", data=runs)


def latency(r):
    """Latency quantiles of the first workload, as far as its runs are long enough for them."""
    counts = sorted(r.judged(r.main, "p95")["threads"].dropna().unique())
    threads = counts[-1] if counts and r.threads not in counts else r.threads
    tail = r.quantiles(r.main, threads)
    if tail.empty:
        return _sentence(say("no-latency", tidy.BEYOND * 20, tidy.BEYOND * 100, tidy.A_CLIENT))
    drawn = plots.quantiles(tail, margin_pct=r.study.margin_pct, baseline=r.study.baseline.name)
    words = say("latency", threads=threads, counted=r.parts[0].counted(r.main, threads))
    key = r.parts[0].study.key  # it is drawn of the first campaign
    judged = r.of(r.main, "p99", question=key)
    judged = judged if len(judged) else r.of(r.main, "p95", question=key)
    return figure(drawn, judged, "latency", words, data=tail)


def timeline(r):
    """Throughput of the first workload in every second."""
    seconds = r.intervals(r.main)
    words = say("timeline", threads=r.threads, counted=r.parts[0].counted(r.main, r.threads))
    about = say("timeline-alt", threads=r.threads)
    drawn = plots.timeline(seconds[seconds["threads"] == r.threads])
    return figure(drawn, r.of(r.main, r.metric), "timeline", words, alt=about, data=seconds)


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
    return dots(r, rows, name, f"{asks} {finding(rows)}".strip())


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
        return piece("badges", list(rows["verdict"].value_counts().items()), lines=False)
    several = [c for c in ("workload", "arm") if rows[c].nunique() > 1]
    parts = []
    for row in rows.to_dict("records"):
        what = [str(row[c]) for c in several]
        what.append(SHORT.get(row["metric"], metric_label(row["metric"])))
        told = "; ".join((limits(row) or size(row), *reasons(row, r.study.margin_pct)))
        parts.append((row["verdict"], f"{', '.join(what)}: {told}"))
    return piece("badges", parts, lines=True)


def command(r, question) -> str:
    """The command that measures a question as the page's own campaign was measured; of a page on
    its user's own question, that one."""
    s, given = r.study, r.meta.get("parameters", {})
    if "settings" in given:
        words = ["noisefloor", "ab", *given["settings"]]
        script = "lua" if given.get("lua") else "workload"
        words += [f"--{script}", given[script]] if given.get(script) else []
        words += ["--engine", kind] if (kind := r.meta["engine"]["kind"]) != "mysql" else []
        return shlex.join([*words, "--profile", s.profile.name])
    words = ["noisefloor run", s.name, *(["--question", question] if question else [])]
    if s.profile.name != "quick":
        words += ["--profile", s.profile.name]
    for name, usual in (("engine", studies.default_engine(s.name)), ("old", "mysql-8.0")):
        if (value := given.get(name) or usual) != usual:
            words += [f"--{name}", "FOLDER" if "/" in value else value]
    if s.margin_pct != PROFILES.get(s.profile.name, s.profile).margin_pct:
        words += ["--margin", f"{s.margin_pct:g}"]
    return " ".join(words)


def absolute(r):
    """What the arms of the first workload reached, in units: a row a processor, thread count and arm."""
    on = {p.study.key: machine(p.meta).partition(",")[0] for p in r.parts}
    judged, places = r.judged(r.main), [*dict.fromkeys(on.values())]
    if r.more:  # a run's name begins with the key of its question
        judged = judged.assign(processor=judged["run"].str.partition("/")[0].map(on))
    several = r.more and judged["processor"].nunique() > 1
    arms = [a.name for a in r.study.compared]
    metrics = [m for m in _LISTS["absolute"] if m in set(judged["metric"])]
    by = [*(["processor"] if several else []), "threads", "arm"]
    rows = []
    for key, part in judged[judged["arm"].isin(arms)].groupby(by):
        row = dict(zip(by, key, strict=True)) | {"runs": part["run"].nunique()}
        for m in metrics:
            values = part.loc[part["metric"] == m, "value"] * METRICS[m].scale
            ends = [cell(float(v)) for v in values.quantile([0.25, 0.5, 0.75])]
            told = f"{ends[1]} ({ends[0]} to {ends[2]})" if len(values) else "–"
            row[f"{metric_label(m)}, {METRICS[m].shown_unit}"] = told
        rows.append(row)
    rows.sort(key=lambda x: (x["threads"], arms.index(x["arm"])))
    if several:
        rows.sort(key=lambda x: places.index(x["processor"]))
    return table(pd.DataFrame(rows), say("absolute", main=r.main), name="absolute")


def expectation(r):
    """What the cipher alone should cost, beside what was measured; nothing where none was timed."""
    found = r.expectation()
    if found.empty:
        return None
    most, row = found["expected_pct"].max(), found.iloc[-1]
    share = " to ".join(dict.fromkeys((percent(found["expected_pct"].min(), 2), percent(most, 2))))
    why = say("cipher", **row, kB=row["bytes"] / 1e3)
    measured = amounts.told(row["overhead_pct"], row["lo_pct"], row["hi_pct"])
    noisy = row["hi_pct"] > 20 * max(most, 0.05)
    more = "cipher-more" if row["lo_pct"] > most else "cipher-noise" if noisy else ""
    more = say(more) if more else ""
    return Shown(piece("expected", r.study.cipher["name"], share, why, measured, more))


def outcome(r):
    """What each campaign declared before it measured, and what became of it."""
    rows = pd.DataFrame([_outcome(r, p) for p in r.parts])
    if len(machines(r.meta)) > 1:
        rows["machine"] = [machine(p.meta) for p in r.parts]
    return table(rows, say("outcome"), name="outcome")


def _outcome(r, part) -> dict:
    """The row of one campaign."""
    meta, work = part.meta, part.study.workloads[0]
    plan, metric = meta.get("plan", {}), work.deciding[0]
    row = r.lead(part, (metric,))
    blocks = 0 if row is None else int(row["blocks"])
    declared = plan.get("blocks", blocks)
    of = f" of {declared}" if plan else ""
    design = "at once" if work.at_once else part.study.design
    measured = f"{design}, {blocks}{of} block{'s' * (declared != 1)}"
    unit = "window" if work.at_once else "pair"
    if each := plan.get(f"{unit}s"):
        measured += f", {each:g} {unit}{'s' * (each != 1)} each"
    reached = None
    if row is not None and known(row["lo_pct"]):  # on the log scale, as it is expected
        reached = 100 * (math.sqrt((100 + row["hi_pct"]) / (100 + row["lo_pct"])) - 1)
    width = {"expected": plan.get("expected", {}).get(metric), "reached": reached}
    short = SHORT.get(metric, metric_label(metric))
    spent, wall, slices = (meta.get(k, 0) / 60 for k in ("spent_s", "wall_s", "slices_s"))
    clock = {"budgeted": part.study.profile.budget_min, "measured": spent, "elapsed": wall}
    return {
        "question": part.study.key or part.study.question,
        "measured": measured,
        "half width": f"{short}: {_listed(width, '.1f', ' %')}",
        "minutes": _listed(clock, ".3g"),
        "in slices": f"{100 * slices / wall:.0f} %" if wall and slices else "",
    }


def _listed(parts, digits, unit="") -> str:
    """`expected 2.1 %, reached 2.4 %`: those that are known."""
    told = (f"{name} {value:{digits}}{unit}" for name, value in parts.items() if value)
    return ", ".join(told) or "not known"


def _sentence(words, code=""):
    """Instead of a figure: words, and a command behind them."""
    return Shown(piece("sentence", words, code))


# -- what transfers --------------------------------------------------------------------------------


def transfers(r, arm=""):
    """What of the answer holds on another machine, and a formula for one's own: a table of words
    made from the campaign's numbers."""
    study, disk = r.study, (r.meta.get("host") or {}).get("disk") or {}
    rates, pool = r.meta.get("cipher_B_per_s"), study.settings.get("innodb_buffer_pool_size")
    facts = {
        "machine": machine(r.meta),
        "threads": _saturation(r),
        "cipher": study.cipher["name"] if rates else "",
        "rate": sorted(rates)[len(rates) // 2] / 1e6 if rates else 0,
        "data": f"{study.tables} table{'s' * (study.tables > 1)}",
        "rows": study.profile.rows * study.tables,
        "pool": f" The buffer pool has {pool}B." if pool else "",
        "virtual": disk.get("kind") == "virtual",
        "keyring": study.keyring,
    }
    rows = [
        (what, here.format(**facts), elsewhere)
        for what, (of, here, elsewhere) in TOLD["transfers"].items()
        if facts[of]
    ]
    if formula := _formula(r, arm):
        rows.append(("your number", *formula))
    frame = pd.DataFrame(rows, columns=["what", "here", "elsewhere"])
    return table(frame, "What transfers, and what does not", name="transfers")


def _saturation(r) -> str:
    """From which thread count on more threads bring hardly more throughput, in words."""
    for rate in THROUGHPUT:
        rows = r.judged(r.main, rate)
        if rate == "wall" or rows.empty:
            continue
        middle = rows[rows["arm"] == r.study.baseline.name].groupby("threads")["value"].median()
        full = [str(t) for t in middle.index[middle >= SATURATED * middle.max()]]
        if len(full) > 1:
            return say("saturated", f"{', '.join(full[:-1])} and {full[-1]}")
        return say("growing", *middle.index[-2:]) if len(middle) > 1 else ""
    return ""


def _formula(r, arm) -> tuple[str, str] | None:
    """(what it costs here in time of the processor, how to make one's own percentage of it)."""
    lead = next((x for x in r.headlines(arm) if x["metric"] in TOLD["prices"]), None)
    if lead is None or math.isnan(lead["lo_pct"]):
        return None
    base = r.judged(lead["workload"], lead["metric"])
    base = base[base["arm"] == lead["baseline"]]["value"].median()
    each, scale, unit = TOLD["prices"][lead["metric"]]
    more, least, most = (
        f"{'+' if lead[c] > 0 else ''}{cell(float(f'{scale * base * lead[c] / 100:.3g}'))}"
        for c in ("overhead_pct", "lo_pct", "hi_pct")
    )
    facts = {"arm": lead["arm"], "each": each, "unit": unit, "more": more, "least": least}
    facts |= {"most": most, "whole": cell(float(f"{scale * base:.3g}"))}
    facts["percent"] = percent(lead["overhead_pct"])
    return say("price", **facts), say("price-yours", **facts)


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
