"""The questions of a study on its page: which have an answer, and what it is; and the figures
that every such page has."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from noisefloor import paths, schedule, studies
from noisefloor.data import results, tidy
from noisefloor.data.archive import Archive
from noisefloor.data.results import LATENCY, PROCESSOR, THROUGHPUT, Results
from noisefloor.model import Request, Study, StudyError
from noisefloor.servers.kinds import USUAL
from noisefloor.show import plots
from noisefloor.show.markup import TOLD, Shown, has_value, joined, piece, say
from noisefloor.show.report import words
from noisefloor.show.report.pieces import (
    flat,
    fold,
    html_table,
    joined_shown,
    remark,
    save,
    verdict_box,
)
from noisefloor.show.rows import ENDS, arm_label, differing, is_control, is_joint, metric_label

FEW = 6  # comparisons that the table of questions lists one by one; sentences of an archive's box
MANY = 20  # of more comparisons a figure draws only those over all thread counts
COSTS = [*THROUGHPUT, *PROCESSOR]
_LISTS = TOLD["lists"]


# -- the campaigns of a page -----------------------------------------------------------------------


def asked(study: str, given: Mapping[str, Any]) -> Request:
    """The Request for a new campaign of a study, from a notebook's variables (`given`). Raises
    StudyError if one of those that say what is measured has no value."""
    spare = {"settings", "workload", "lua", "rate", "allow"}  # of an own study
    spare = {"question"} if study == "own-study" else spare
    spare |= {"old"} if study != "version-upgrade" else set()
    gone = {*_LISTS["asked"]} - {*given} - spare
    if names := ", ".join(sorted(gone)):
        raise StudyError(f"parameters without a value (misspelt?): {names}; nothing was measured")
    chosen = {name: given[name] for name in _LISTS["asked"] if name in given}
    chosen = {k: tuple(v) if isinstance(v, list) else v for k, v in chosen.items()}
    return Request(study, **chosen, server="env" if given.get("guest") else "")


def open_page(study: str, given: Mapping[str, Any]) -> Results:
    """The campaigns of a study's page, opened. `given`: a notebook's variables. Its parameter
    `campaign` names them, with commas between, and they keep what they were made with. If it is empty,
    what the others ask for is measured now, and opened with the study's other questions."""
    if campaign := given.get("campaign", ""):
        return results.load(*results.named(campaign))
    from noisefloor.measure import collect

    first, *_ = collect.measure_study(asked(study, given))
    return results.load(*results.beside(first))


def begin(r: Results, arm: str = "", answer: str = "") -> Shown:
    """The head of a study's page: set the colours of its arms, store the tables beside the page, and
    return the box with both costs of `arm` (default: the first). `answer`: sentences below them."""
    plots.theme(r.study.compared)
    leads = results.headlines(r, arm)
    page, first = studies.page_of(r.study.name, r.study.key), results.leading(r).study
    was, engine = first.baseline.name, r.meta.get("engine")
    label = engine.get("label", "") if isinstance(engine, dict) else ""  # an archive's is a text
    was = label if was == label.partition(" ")[0] else was  # a product's name gets its version
    asks = studies.asks(r.study.name, r.study.key, was, first.arms[0].name)
    save(r.verdicts, page, r.meta, r=r, title=asks or r.study.title, raw=r.sources, primary=leads)
    return verdict_box(r.verdicts, r.meta, primary=leads, answer=answer, r=r)


def archived(
    r: Archive, rows: pd.DataFrame, leads: Sequence[str], agreed: str, contrary: str
) -> Shown:
    """The head of an archive's page: a sentence for each arm (`leads`), if its claims `agreed`, what
    is `contrary` to its sentences, and from its about.toml the advice and how often it was measured. If
    `rows`, its comparisons, are only one: as `begin`."""
    lines = [*filter(None, (agreed, contrary))]
    if len(rows) == 1:
        return begin(r, answer=" ".join(lines))
    names = r.about.get("names", {})
    plots.theme([names.get(arm.name, arm.name) for arm in (r.study.baseline, *r.study.arms)])
    headline, advice = " ".join(filter(None, [*leads, contrary])), r.about.get("advice", "")
    page: dict[str, Any] = {"title": r.study.title, "headline": headline, "advice": advice}
    save(r.verdicts, r.study.name, r.meta, primary=[], raw=r.sources, **page)
    often, where = r.about.get("measured"), words.where(r.meta)
    measured = f"Measured {often}: {where}." if often else where
    shown = [piece("headline", sentence) for sentence in leads[:FEW]]
    shown.append(piece("answer", (), lines, advice, measured))
    return Shown(piece("box", joined(shown)), headline)


# -- figures ---------------------------------------------------------------------------------------


def figure(
    drawn: Any,
    rows: pd.DataFrame | None,
    name: str,
    caption: str = "",
    *,
    alt: str = "",
    data: pd.DataFrame | None = None,
) -> Shown | None:
    """A figure of rows of the verdict table: these give its alternative text (after `alt`), and the
    caption and the data if none are given. No row: a sentence that says so; None for rows: None."""
    if rows is None:
        return None
    if not len(rows):
        return remark("No figure: this was not measured.")
    arms = rows[~is_control(rows)]
    caption = caption or words.finding(arms if len(arms) else rows)
    data = flat(rows) if data is None else data
    alt = f"{alt} {plots.alt(rows)}".strip()
    return plots.show(drawn, alt=alt, caption=caption, data=data, name=name)


def threads_section(
    r: Results,
    rows: pd.DataFrame | None = None,
    name: str = "threads",
    caption: str = "",
    *,
    alt: str = "",
    metrics: Sequence[str] = COSTS,
    published: pd.DataFrame | None = None,
) -> Shown | None:
    """The change against thread counts: of `rows`, or of both costs at maximum throughput, with what was
    `published` over it; if that was not measured, the command that would."""
    part = results.capacity(r)
    if part.study.workloads[0].rate and (rows is None or rows.empty):
        return answer(r, "headline")
    rows = results.costs(r, results.main_workload(part), part.study.key) if rows is None else rows
    drawn = plots.threads_figure(rows, metrics, published=published) if len(rows) else None
    return figure(drawn, rows, name, caption, alt=alt)


def lead_figure(r: Results) -> Shown | None:
    """The figure that a page begins with: latency against the offered load with the change of p99, and a
    field that takes the reader's own load; where nothing was measured at a rate, the change against
    thread counts."""
    if (part := results.at_a_rate(r)) is None:
        return threads_section(r)
    points, work = results.load_curve(r), part.study.workloads[0]
    on = words.generation(part.processor)
    noun, both = TOLD["offered"][work.tool], schedule.at_once(part.study, work)
    rows = r.of(control=False, question=part.study.key)
    rows = rows[rows["rate"].gt(0)].sort_values("rate", kind="stable")
    p99, cpu = (rows[rows["metric"].isin(of)] for of in (LATENCY, PROCESSOR))
    field = reader(points, cpu, p99, noun)
    each = html_table(results.each_load(r), say("windows", on=on), name="windows")
    windows = fold("Each load in units", each)
    if points["rate"].nunique() == 1:
        alone = rows[rows["metric"].isin(("mean_latency", "p95", *LATENCY, *PROCESSOR))]
        caption, given = words.finding(alone) + shared() * both, part.meta.get("parameters", {})
        if capacity := given.get("capacity"):
            share = int(given["rate"].rstrip("%"))
            caption += say("share", share=share, capacity=capacity, both=2 * share)
        few = schedule.too_few(part.study, part.meta.get("plan", {}).get("pairs", 0))
        caption += " " + words.sentences(w for m, w in few.items() if m not in {*alone["metric"]})
        return joined_shown(figure(plots.dots(alone), alone, "load", caption), field, windows)
    points = _changed(points, p99)
    drawn = plots.load_figure(points, p99, capacity=results.highest_tps(r), noun=noun)
    how = "both at the same time" if both else "one after the other"
    caption = say("load", words.finding(p99), noun=noun, on=on, how=how) + shared() * both
    full = points[points["saturated_pct"] > 0]
    caption += "".join(
        f" At {rate:,} a second {share:.0f} % of the windows were saturated."
        for rate, share in full.groupby("rate")["saturated_pct"].max().items()
    )
    shown = figure(drawn, p99, "load", caption, alt=say("load-alt", noun=noun), data=points)
    return joined_shown(shown, field, windows)


def _changed(points: pd.DataFrame, p99: pd.DataFrame) -> pd.DataFrame:
    """A load curve, with p99 of each arm as the baseline's times its change, as in the tables."""
    key = ["rate", "arm"]
    changes = p99.drop_duplicates(key).set_index(key)["change_pct"]
    base = points[points["arm"].isin(p99["baseline"])].set_index("rate")["p99_s"]
    change = points.set_index(key).index.map(changes.to_dict())
    changed = points["rate"].map(base) * (1 + pd.Series(change, points.index) / 100)
    return points.assign(p99_s=changed.where(pd.notna(change), points["p99_s"]))


def shared() -> str:
    """A sentence: how much of a known difference shows where two servers share the cores, as
    calibrated; "" if that is not known."""
    known = json.loads(paths.noise_file("recovered", local=False).read_text(encoding="utf-8"))
    both = [known.get(m) for m in ("mean_latency", PROCESSOR[0])]
    if not all(both):
        return ""
    latency, cpu = ({k.removesuffix("_pct"): v for k, v in x.items()} for x in both)
    return say("shared", cpu=cpu["share"], **latency)


def reader(load: pd.DataFrame, cpu: pd.DataFrame, p99: pd.DataFrame, noun: str) -> Shown | None:
    """The field into which a reader types how many (`noun`) a second: cores, CPU hours a month and
    milliseconds of each arm, and what it adds to the baseline. An arm is the baseline times its change.
    load: as `load_curve` returns it; cpu, p99: verdict rows with the column rate. None without CPU."""
    if cpu.empty:
        return None
    base = cpu["baseline"].iloc[0]
    plain = load[load["arm"].eq(base) & load["cpu_s"].notna()].set_index("rate")
    if plain.empty:
        return None
    arms = []
    for arm in pd.unique(cpu["arm"]):
        points = []
        for rate in plain.index:
            changes = []
            for of in (cpu, p99):
                one = of[of["arm"].eq(arm) & of["rate"].eq(rate)]
                changes += [_known(1 + one[c].iloc[0] / 100) if len(one) else None for c in ENDS]
            points.append([int(rate), *changes])
        arms.append({"name": arm_label(arm), "points": points})
    known = zip(plain.index, plain["cpu_s"], 1e3 * plain["p99_s"], strict=True)
    points = [[int(rate), cpu_s, _known(p99_ms)] for rate, cpu_s, p99_ms in known]
    data = {"name": base, "points": points, "arms": arms}
    on = words.generation(cpu["processor"].iloc[0])
    return Shown(piece("reader", json.dumps(data), points[len(points) // 2][0], noun, on), "")


def _known(value: float) -> float | None:
    """A number for JSON, which has no NaN."""
    return float(value) if has_value(value) else None


def sittings_section(r: Results, arm: str = "") -> Shown:
    """Forests of the comparisons that the page leads with: each campaign, and all together, processor by
    processor; folded: which campaigns were left out. If there is one campaign of a question that asks
    for no other: a sentence."""
    forests = []
    for row in results.headlines(r, arm) if len(r.every) > 1 or r.of()["asked"].max() > 1 else ():
        forests.append(_forest(r, row))
        if any(len(rows) > 1 for _, rows in words.placed(row, r)[1:]) and row["joint"]:
            most = r.of(row["workload"], row["metric"], question=row["question"])
            most = most[most["arm"].eq(row["arm"]) & ~is_joint(most)].sort_values("threads")
            forests.append(_forest(r, most.iloc[-1]))
    left = Shown(piece("notes", r.left)) if r.left else None
    shown = joined_shown(*forests, fold(f"Campaigns left out ({len(r.left)})", left))
    return shown or remark("This page rests on one campaign.")


def _forest(r: Results, row: pd.Series) -> Shown:
    """The figure of one comparison."""
    both = pd.DataFrame([row, *results.elsewhere(r, row)]).reset_index(drop=True)
    each = results.forest(r)
    for column in ("question", "workload", "metric", "arm", "joint"):
        each = each[each[column].eq(row[column])]
    each = each[each["threads"].eq(row["threads"])] if has_value(row["threads"]) else each
    at = words.counts(row).replace(" ", "-")
    return plots.show(
        plots.sittings_figure(each, both),
        alt=plots.sittings_alt(each, both),
        caption=say("sittings", told=words.finding(both)),
        data=flat(each),
        name=f"sittings-{row['metric'].replace('_', '-')}-{at}",
        title=f"Boots: {words.cost(row['metric'])}, {words.counts(row)}",
    )


def pairs_section(r: Results) -> Shown | None:
    """Every pair of the first comparison of the page, and the means of its blocks."""
    first, workload, metric = r.parts[0], results.main_workload(r), results.main_metric(r)
    each = first.pairs(workload, metric)
    caption = say("pairs", metric=metric_label(metric), because=first.meta["ended_because"])
    rows = r.of(workload, metric, control=False, question=first.study.key)
    rows = rows[rows["arm"].isin(each["arm"])]
    return figure(plots.pairs_figure(each), rows, "pairs", caption, data=each)


def processor_section(r: Results) -> Shown | None:
    """Server CPU per transaction of every run of the first workload."""
    first, workload, metric = r.parts[0], results.main_workload(r), PROCESSOR[0]
    runs = first.judged(workload, metric)
    rows = r.of(workload, metric, False, first.study.key)
    return figure(plots.runs_figure(runs, metric), rows, "cpu", data=runs)


def latency(r: Results) -> Shown | None:
    """Latency quantiles of the first workload, as far as its runs are long enough for them."""
    workload, threads = results.main_workload(r), results.main_threads(r)
    counts = sorted(r.judged(workload, "p95")["threads"].dropna().unique())
    threads = counts[-1] if counts and threads not in counts else threads
    tail = results.quantiles(r, workload, threads)
    if tail.empty:
        return remark(say("no-latency", tidy.BEYOND * 20, tidy.BEYOND * 100, tidy.A_CLIENT))
    first = r.parts[0]  # it is drawn of the first campaign
    drawn = plots.quantiles_figure(tail, baseline=r.study.baseline.name)
    counted, on = results.counted(first, workload, threads), words.generation(first.processor)
    caption = say("latency", threads=threads, on=on, counted=counted)
    judged = (r.of(workload, metric, question=first.study.key) for metric in ("p99", "p95"))
    rows = next((rows for rows in judged if len(rows)), r.of(workload, "p95")[:0])
    return figure(drawn, rows, "latency", caption, data=tail)


def timeline(r: Results) -> Shown | None:
    """Throughput of the first workload in every second."""
    workload, threads = results.main_workload(r), results.main_threads(r)
    seconds = results.intervals(r, workload)
    many = results.counted(r.parts[0], workload, threads)
    caption = say("timeline", threads=threads, counted=many)
    about = say("timeline-alt", threads=threads)
    drawn = plots.timeline(seconds[seconds["threads"] == threads])
    rows = r.of(workload, results.main_metric(r))
    return figure(drawn, rows, "timeline", caption, alt=about, data=seconds)


# -- what was asked, and answered ------------------------------------------------------------------


def some(frame: pd.DataFrame, caption: str) -> Shown | None:
    """A table, or nothing where it has no rows."""
    return html_table(frame, caption) if len(frame) else None


def answer(r: Results, question: str, metrics: Sequence[str] = ()) -> Shown | None:
    """The answer to a question of the study: a figure of its comparisons, with the verdicts in words.
    metrics: these alone; (): those that the question is about. If it was not measured: the command
    that would. Of more than MANY comparisons only those over all thread counts."""
    rows = results.answering(r, question)
    if rows.empty:
        return remark("This question is not measured yet. To measure it:", command(r, question))
    if metrics:
        rows = pd.concat([rows[rows["metric"] == m] for m in metrics])
    else:
        rows = _asked_about(r, rows)
    if len(rows) > MANY:
        rows = _over_all(rows)
    rows = rows.sort_values("rate", kind="stable")
    asks = results.questions(r).get(question, "")
    name = "-".join([question, *metrics[:1]])
    return figure(plots.dots(rows), rows, name, f"{asks} {words.finding(rows)}".strip())


def questions_section(r: Results) -> Shown:
    """All questions of the study, each with its verdicts or the command that measures it."""
    if not results.questions(r):
        return remark("One campaign of an earlier plan asked all questions at once.")
    rows = []
    for key, asks in results.questions(r).items():
        judged = results.answering(r, key)
        answer = piece("command", command(r, key)) if judged.empty else _verdicts(r, judged)
        rows.append((key, asks, answer))
    frame = pd.DataFrame(rows, columns=["name", "question", "answer"])
    return html_table(frame, "The questions of this study", name="questions", raw=("answer",))


def _asked_about(r: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows in the metrics that the study is about, workloads in the order of the study."""
    metrics = {m for w in r.study.workloads for m in w.deciding}
    order = [w.name for w in r.study.workloads]
    kept = rows[rows["metric"].isin(metrics | {*PROCESSOR, *THROUGHPUT, *_LISTS["more"]})]
    return kept.sort_values("workload", key=lambda c: c.map(order.index), kind="stable")


def _over_all(rows: pd.DataFrame) -> pd.DataFrame:
    """The joint rows, and those of comparisons without a joint row."""
    key = ["workload", "metric", "arm"]
    joint = rows[is_joint(rows)]
    alone = rows.set_index(key).index.isin(joint.set_index(key).index)
    return rows[is_joint(rows) | ~alone]


def _verdicts(r: Results, rows: pd.DataFrame) -> str:
    """Verdicts in a few words, of several thread counts those over all of them."""
    rows = _over_all(_asked_about(r, rows[rows["verdict"].ne("")]))
    if len(rows) > FEW:
        return piece("badges", _counted(rows), lines=False)
    several = differing(rows, "workload", "arm")
    parts = []
    for row in rows.to_dict("records"):
        what = [str(row[c]) for c in several]
        what.append(metric_label(row["metric"], True))
        size = "; ".join((words.limits(row) or words.change(row), *words.doubts(row)))
        parts.append((row["verdict"], words.word(row), f"{', '.join(what)}: {size}"))
    return piece("badges", parts, lines=True)


def _counted(rows: pd.DataFrame) -> list[tuple[str, str, int]]:
    """[(verdict, its word, how often it is given)], the most frequent first."""
    counts = rows.assign(word=rows.apply(words.word, axis=1)).groupby(["verdict", "word"]).size()
    turn: Iterable[Any] = counts.sort_values(ascending=False, kind="stable").items()
    return [(verdict, word, n) for (verdict, word), n in turn]


def command(r: Results, question: str) -> str:
    """The command that measures a question as the page's own campaign was measured; for a page on
    the user's own question, the command of that. It lacks ``--allow`` and ``--clients``; for another
    question than the campaign's it lacks ``--threads`` and ``--budget``, too."""
    s, given = r.study, r.meta.get("parameters", {})
    if "commands" in given:
        line = ["noisefloor", "time", "--seconds", f"{given['seconds']:g}"]
        line += ["--timeout", f"{given['timeout']:g}"]
        line += ["--margin", f"{given['margin']:g}"] if given["margin"] else []
        line += ["--shell"] if given["shell"] else []
        line += ["--ignore-failure"] if given["ignore_failure"] else []
        return shlex.join([*line, *given["commands"]])
    if "settings" in given:
        line = ["noisefloor", "ab", *given["settings"]]
        script = "lua" if given.get("lua") else "workload"
        line += [f"--{script}", given[script]] if given.get(script) else []
        engine = USUAL if s.floor_from else r.meta["engine"]["kind"]  # a guest has its own
        line += ["--engine", engine] if engine != USUAL else []
        line += ["--rate", str(rate)] if (rate := given.get("rate")) else []
        return shlex.join([*line, "--profile", s.profile.name, *_options(s, given)])
    line = ["noisefloor run", s.name, *(["--question", question] if question else [])]
    if s.profile.name != "quick":
        line += ["--profile", s.profile.name]
    for name, usual in (("engine", studies.engine_of(s.name)), ("old", studies.OLD)):
        if (value := given.get(name) or usual) != usual:
            line += [f"--{name}", "FOLDER" if "/" in value else value]
    return " ".join([*line, *_options(s, given if question == s.key else {})])


def _options(study: Study, given: Mapping[str, Any]) -> list[str]:
    """The options that `run` and `ab` share, as far as a campaign with these parameters had them."""
    threads, budget = ",".join(map(str, given.get("threads", ()))), given.get("budget_min")
    line = ["--threads", threads] if threads else []
    line += ["--margin", f"{study.margin_pct:g}"] if study.margin_pct else []
    line += ["--budget", f"{budget:g}"] if budget else []
    return [*line, "--server", "URL"] if study.floor_from else line
