"""What a study's page says of its questions: which were answered and how, and which were not; and the
figures that every such page has."""

import math
import re

import pandas as pd

from .. import amounts, plots, studies, tidy
from ..amounts import percent
from ..plots import is_control, is_joint, metric_label
from ..results import PROCESSOR, THROUGHPUT
from ..study import METRICS, PROFILES
from .pieces import badge, cell, escaped, table, verdict_box
from .saved import flat, save
from .words import finding, known, limits, size

ABSOLUTE = (
    *("tps", "cpu_per_transaction", "read_bytes_per_transaction", "written_bytes_per_transaction"),
    *("p95", "connections_per_second", "cpu_per_connection", "client_cpu_per_connection"),
    *("connect_time", "wall", "user_sys", "backup_size"),
)  # metrics that are told in their units
FEW = 6  # comparisons that the table of questions tells one by one
_MORE = ("apply_rate", "apply_cpu")  # answers that lead no page


def begin(r, arm="", answer=""):
    """The head of a study's page: the order of its arms, the tables beside the page, and the box with
    both costs of `arm`. `answer`: sentences below them."""
    plots.theme([r.study.baseline, *r.study.arms])
    leads = r.headlines(arm)
    save(r.verdicts, r.study.name, r.meta, title=r.study.title, primary=leads)
    return verdict_box(r.verdicts, r.meta, primary=leads, answer=answer)


def figure(drawn, rows, name, caption="", *, alt="", data=None):
    """A figure of rows of the verdict table: they give its alternative text (after `alt`), the caption
    where there is none, and the data. Without rows a sentence says that nothing was measured."""
    if not len(rows):
        return _sentence("Not measured here.")
    told = f"{alt} {plots.alt(rows)}".strip()
    own = rows[~is_control(rows)]
    caption = caption or finding(own if len(own) else rows)
    return plots.show(
        drawn, alt=told, caption=caption, data=flat(rows) if data is None else data, name=name
    )


def answer(r, question):
    """The answer to a question of the study: its comparisons as a figure with the verdicts in words;
    where it was not measured, the command that would."""
    rows = r.about(question)
    if rows.empty:
        return _sentence("Not measured here. To measure it:", command(r, question))
    rows = _told(r, rows)
    drawn = plots.dots(rows, margin_pct=r.study.margin_pct)
    asks = r.questions.get(question, "")
    return figure(drawn, rows, question, f"{asks} {finding(rows)}".strip())


def absolute(r):
    """What the arms of the first workload reached, in units: a row a thread count and arm."""
    judged = r.judged(r.main)
    arms = [a.name for a in (r.study.baseline, *r.study.arms)]
    metrics = [m for m in ABSOLUTE if m in set(judged["metric"])]
    rows = []
    for (threads, arm), part in judged[judged["arm"].isin(arms)].groupby(["threads", "arm"]):
        row = {"threads": threads, "arm": arm, "runs": part["run"].nunique()}
        for m in metrics:
            values = part.loc[part["metric"] == m, "value"] * METRICS[m].scale
            ends = [cell(float(v)) for v in values.quantile([0.25, 0.5, 0.75])]
            told = f"{ends[1]} ({ends[0]} to {ends[2]})" if len(values) else "–"
            row[f"{metric_label(m)}, {METRICS[m].shown_unit}"] = told
        rows.append(row)
    rows.sort(key=lambda row: (row["threads"], arms.index(row["arm"])))
    words = (
        f"What the arms reached ({r.main}): the median and the middle half of the runs (of the windows, "
        "where both servers are loaded at once). Percentages compare the two of a pair, not these medians"
    )
    return table(pd.DataFrame(rows), words, name="absolute")


def expectation(r):
    """What the cipher alone should cost, beside what was measured; nothing where none was timed."""
    found = r.expectation()
    if found.empty:
        return None
    least, most = found["expected_pct"].min(), found["expected_pct"].max()
    row = found.iloc[-1]
    told = (
        percent(most, 2)
        if f"{least:.2f}" == f"{most:.2f}"
        else f"{percent(least, 2)} to {percent(most, 2)}"
    )
    words = (
        f"<b>Expected</b> of {escaped(r.study.cipher['name'])} alone: {told} of the processor time. "
        f"At {row['threads']:.0f} threads a transaction has {row['bytes'] / 1e3:,.3g} kB to encrypt or "
        f"decrypt; at {row['MB_per_s']:,.0f} MB/s (openssl speed, on this machine) that takes "
        f"{row['cipher_us']:.2g} µs of {row['cpu_ms']:.3g} ms. <b>Measured:</b> "
        f"{escaped(amounts.told(row['overhead_pct'], row['lo_pct'], row['hi_pct']))}. The expectation "
        "leaves out what else a server does for it: a call for every write, copies, key set-up."
    )
    if row["lo_pct"] > most:
        words += " Here that is more than the cipher itself: even the lower end of the interval is."
    elif row["hi_pct"] > 20 * max(most, 0.05):
        words += (
            " The interval reaches far beyond what the cipher explains: that is the noise of this "
            "machine, not a cost that is likely."
        )
    return plots.Shown(f'<p class="nf-open">{words}</p>', re.sub("<[^>]+>", "", words))


def path(r):
    """How the first comparison of the page came to its verdict, pair by pair."""
    pairs = r.pairs(r.main, r.metric)
    drawn = plots.pairs(pairs, r.path(r.main, r.metric), margin_pct=r.study.margin_pct)
    words = (
        f"{metric_label(r.metric)}, pair by pair. Measuring ended because {r.meta['ended_because']}"
    )
    return figure(drawn, r.of(r.main, r.metric, control=False), "pairs", words, data=pairs)


def processor(r):
    """Server CPU per transaction of every run of the first workload."""
    metric = "cpu_per_transaction"
    runs = r.judged(r.main, metric)
    rows = r.of(r.main, metric, control=False)
    return figure(plots.runs(runs, metric), rows, "cpu", data=runs)


def latency(r):
    """Latency quantiles of the first workload, as far as its runs are long enough for them."""
    tail = r.quantiles(r.main, r.threads)
    if tail.empty:
        return _sentence(
            f"No percentile of latency: for the 95th a run needs {tidy.BEYOND * 20} transactions, for "
            f"the 99th {tidy.BEYOND * 100:,}, and for either {tidy.A_CLIENT} a client."
        )
    base = r.study.baseline.name
    drawn = plots.quantiles(tail, margin_pct=r.study.margin_pct, baseline=base)
    words = (
        f"Latency quantiles at {r.threads} threads: the median run, and the range of the middle half "
        f"of the runs. {r.counted(r.main, r.threads)}"
    )
    judged = r.of(r.main, "p99")
    judged = judged if len(judged) else r.of(r.main, "p95")
    return figure(drawn, judged, "latency", words, data=tail)


def timeline(r):
    """Throughput of the first workload in every second."""
    seconds = r.intervals(r.main)
    words = (
        f"Every second of every run at {r.threads} threads; warm-up slices are pale and not judged. "
        f"{r.counted(r.main, r.threads)}"
    )
    about = f"Transactions per second over the campaign at {r.threads} threads."
    drawn = plots.timeline(seconds[seconds["threads"] == r.threads])
    return figure(drawn, r.of(r.main, r.metric), "timeline", words, alt=about, data=seconds)


def questions(r):
    """All questions of the study, each with its verdicts or the command that measures it."""
    if not r.questions:
        return _sentence("One campaign of an earlier plan asked all questions at once.")
    rows = []
    for key, asks in r.questions.items():
        found = r.about(key)
        said = f"<code>{escaped(command(r, key))}</code>" if found.empty else _verdicts(r, found)
        rows.append((key, asks, said))
    frame = pd.DataFrame(rows, columns=["name", "question", "answer"])
    return table(frame, "The questions of this study", name="questions", raw=("answer",))


def outcome(r):
    """What each campaign declared before it measured, and what became of it."""
    words = (
        "Declared and measured. Half width: of the interval of a campaign's main comparison, and what "
        "the recorded noise let expect. Elapsed: the clock from the end of loading; in slices: the "
        "share of it in which a load ran"
    )
    return table(pd.DataFrame([_outcome(r, p) for p in r.parts]), words, name="outcome")


def _outcome(r, part) -> dict:
    """The row of one campaign."""
    meta, work = part.meta, part.study.workloads[0]
    plan, metric = meta.get("plan", {}), work.deciding[0]
    row = r.lead(part, (metric,))
    blocks = 0 if row is None else int(row["blocks"])
    design = "at once" if work.at_once else part.study.design
    declared = plan.get("blocks", blocks)
    of = f" of {declared}" if plan else ""
    measured = f"{design}, {blocks}{of} block{'s' * (declared != 1)}"
    pairs, unit = plan.get("pairs"), "pair"
    if work.at_once:
        pairs, unit = plan.get("windows"), "window"
    if not pairs and blocks:
        counts = len(work.threads) if row["joint"] else 1
        pairs = float(f"{row['n_arm'] / blocks / counts:.2g}")
    if pairs:
        measured += f", {pairs:g} {unit}{'s' * (pairs != 1)} each"
    reached = None
    if row is not None and known(row["lo_pct"]):  # on the log scale, as it is expected
        reached = 100 * (math.sqrt((100 + row["hi_pct"]) / (100 + row["lo_pct"])) - 1)
    width = {"expected": plan.get("expected", {}).get(metric), "reached": reached}
    spent, wall, slices = (meta.get(k, 0) / 60 for k in ("spent_s", "wall_s", "slices_s"))
    clock = {"budgeted": part.study.profile.budget_min, "measured": spent, "elapsed": wall}
    return {
        "question": part.study.key or part.study.question,
        "measured": measured,
        "half width": f"{plots.SHORT.get(metric, metric_label(metric))}: {_listed(width, '{:.1f} %')}",
        "minutes": _listed(clock, "{:.3g}"),
        "in slices": f"{100 * slices / wall:.0f} %" if wall and slices else "",
    }


def _listed(parts, how) -> str:
    """`expected 2.1 %, reached 2.4 %`: those that are known."""
    return ", ".join(f"{name} {how.format(v)}" for name, v in parts.items() if v) or "not known"


def _sentence(words, code=""):
    """Instead of a figure: words, and a command behind them."""
    shown = f" <code>{escaped(code)}</code>" if code else ""
    return plots.Shown(f'<p class="nf-open">{words}{shown}</p>', f"{words} {code}".strip())


def command(r, question) -> str:
    """The command that measures a question as the page's own campaign was measured."""
    s, given = r.study, r.meta.get("parameters", {})
    words = ["noisefloor run", s.name, *(["--question", question] if question else [])]
    if s.profile.name != "quick":
        words += ["--profile", s.profile.name]
    for name, usual in (("engine", studies.default_engine(s.name)), ("old", "mysql-8.0")):
        if (value := given.get(name) or usual) != usual:
            words += [f"--{name}", "FOLDER" if "/" in value else value]
    if s.margin_pct != PROFILES.get(s.profile.name, s.profile).margin_pct:
        words += ["--margin", f"{s.margin_pct:g}"]
    return " ".join(words)


def _told(r, rows) -> pd.DataFrame:
    """Those in the metrics that a question is about, workloads in the order of the study."""
    metrics = {m for w in r.study.workloads for m in w.deciding}
    order = [w.name for w in r.study.workloads]
    kept = rows[rows["metric"].isin(metrics | {*PROCESSOR, *THROUGHPUT, *_MORE})]
    return kept.sort_values("workload", key=lambda c: c.map(order.index), kind="stable")


def _verdicts(r, rows) -> str:
    """Verdicts in a few words, of several thread counts those over all of them: HTML."""
    rows = _told(r, rows)
    key = ["workload", "metric", "arm"]
    joint = rows[is_joint(rows)]
    alone = rows.set_index(key).index.isin(joint.set_index(key).index)
    rows = rows[is_joint(rows) | ~alone]
    if len(rows) > FEW:
        counts = rows["verdict"].value_counts()
        return ", ".join(f"{badge(word)} {n}" for word, n in counts.items())
    several = [c for c in ("workload", "arm") if rows[c].nunique() > 1]
    parts = []
    for row in rows.to_dict("records"):
        what = [str(row[c]) for c in several]
        what.append(plots.SHORT.get(row["metric"], metric_label(row["metric"])))
        said = f"{', '.join(what)}: {limits(row) or size(row)}"
        parts.append(f"{badge(row['verdict'])} {escaped(said)}")
    return "<br>".join(parts)
