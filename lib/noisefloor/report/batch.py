"""Many pages, and the index over them."""

import json
import re
import shutil
import time
import traceback
from concurrent.futures import as_completed
from itertools import count
from pathlib import Path

import pandas as pd

from .. import paths, plots, tidy
from ..cluster import pool
from ..plots import interval, is_control, metric_label, percent
from ..study import STUDIES
from .given import checked, parameters
from .pages import PARTS, notebook, render, set_aside, shell, studies, write_whole
from .pieces import badge, boxed, escaped
from .words import ReportError, when


def recorded_campaign(study) -> str | None:
    """The newest campaign of a study under ``data/raw/recorded``, by its own date, then name."""
    return newest_campaign(study, paths.recorded())


def newest_campaign(study, *folders) -> str | None:
    """The newest finished campaign of a study, by its own date, then name: recorded or live, or in
    the `folders` alone."""
    found = []
    for folder in folders or (paths.recorded(), paths.runs()):
        for file in folder.glob("*/campaign.json"):
            facts = json.loads(file.read_text())
            if facts.get("study", file.parent.name) == study and facts.get("finished") != "":
                found.append((when(facts), file.parent.name))
    return max(found)[1] if found else None


def plan(names=(), profile=None, given=None) -> list:
    """What `render_all` will do: (study, parameters, live) for each, all checked before anything
    runs. Profile `recorded` stands for each study's newest recorded campaign."""
    jobs = []
    for study in names or studies():
        source = notebook(study)
        known = parameters(source)
        values = dict(given or {})
        if not names:  # a parameter meant for all studies skips those without it
            values = {k: v for k, v in values.items() if k in known}
        if profile == "recorded" and "campaign" in known:
            values.setdefault("campaign", recorded_campaign(study))
            if not values["campaign"]:
                if names:
                    raise ReportError(f"{study} has no recorded campaign; nothing was run", 2)
                jobs.append((study, None, False))
                continue
        elif profile and "profile" in known:
            values["profile"] = profile
        live = "profile" in known and not values.get("campaign")
        values = checked(source, values)
        jobs.append((study if live else _page_name(study, values), values, live))
    if not names:
        everything = {n for s in studies() for n in parameters(notebook(s))}
        for name in set(given or {}) - everything:
            raise ReportError(
                f"no study has a parameter {name!r}; there are: {', '.join(sorted(everything))}; "
                "nothing was run",
                2,
            )
    return jobs


def render_all(jobs, out=None, workers=None, timeout=3600, say=print, cluster="") -> list:
    """Measure what is live, one study after another, then render every job of `plan` in parallel
    processes, or on the workers of a Dask `cluster`. One failure does not stop the others. Returns
    rows (study, result, seconds), result being a path or the sentence of what went wrong, and
    writes the index. Raises cluster.Unreachable."""
    rows = [(s, "no recorded campaign", 0.0) for s, values, _ in jobs if values is None]
    jobs = [j for j in jobs if j[1] is not None]
    ready = [(study, values) for study, values, live in jobs if not live]
    for study, values, live in jobs:
        if live and study not in STUDIES:  # the notebook measures in a way of its own
            say(f"{study}: measuring")
            rows.append(_timed(study, values, out, timeout, True))
            say(_line(rows[-1]))
        elif live:
            say(f"{study}: measuring")
            start = time.monotonic()
            try:
                values = values | {"campaign": _measure(study, values)}
                ready.append((_page_name(study, values), values))
            except ReportError as problem:
                set_aside(study, Path(out or paths.reports()).resolve())
                rows.append((study, problem, time.monotonic() - start))
                say(_line(rows[-1]))
    pages = Path(out or paths.reports()).resolve()
    pages.mkdir(parents=True, exist_ok=True)
    sees = (pages, paths.notebooks(), paths.recorded())
    with pool(cluster, workers, apart=True, sees=sees) as executor:
        waiting = {
            executor.submit(_timed, study, values, pages, timeout): study for study, values in ready
        }
        for done in as_completed(waiting):
            rows.append(_result(done, waiting[done], pages))
            say(_line(rows[-1]))
    index(out)
    return rows


def _page_name(study, values) -> str:
    """The name of a page: the study's, or that of the question which own-study was asked."""
    if study != "own-study" or not values.get("campaign"):
        return study
    values.pop("lua", None)  # the campaign knows it, and a path tells where
    return tidy.meta(paths.campaign(values["campaign"]))["study"]


def _measure(study, values) -> str:
    """Name of the campaign measured now, in this process, where its progress can be seen."""
    from .. import collect

    known = parameters(notebook(study))
    asked = {name: p.default for name, p in known.items()} | values
    asked.pop("campaign", None)
    try:
        return collect.obtain(study, **asked).name
    except collect.FAILURES as problem:
        raise ReportError(problem) from None
    except Exception as defect:  # of ours: the others are measured all the same
        traceback.print_exc()
        raise ReportError(f"a defect stopped it: {type(defect).__name__}: {defect}") from None


def _result(done, study, out):
    """The row of a finished task; what killed its process harms no other page."""
    if done.exception() is None:
        return done.result()
    set_aside(study, out)
    return study, ReportError(f"{study} stopped: its process was killed or died"), 0.0


def _timed(study, values, out, timeout, progress=False):
    start = time.monotonic()
    try:
        result = render(study, values, out, timeout, progress)
    except ReportError as problem:
        result = problem
    except Exception as problem:  # whatever it is, the other pages are still to be made
        result = ReportError(f"{study} stopped: {type(problem).__name__}: {problem}")
    return study, result, time.monotonic() - start


def _line(row) -> str:
    study, result, seconds = row
    if isinstance(result, ReportError):
        return f"{study}: failed after {seconds:.0f} s: {result}"
    return (
        f"{study}: {paths.shown(result) if isinstance(result, Path) else result} ({seconds:.0f} s)"
    )


def publish(study, out=None) -> Path:
    """Copy a rendered page with its notebook and verdict table to
    ``reports/published/<study>-<date of the measurement>/``; that folder's path. A second
    measurement of the same day gets ``-2``.

    What is published stays: ReportError when this verdict table is there already."""
    out = Path(out or paths.reports()).resolve()
    table = (out / f"{study}.json").read_text()
    date = (json.loads(table).get("date") or time.strftime("%Y-%m-%d"))[:10]
    for n in count(1):
        name = f"{study}-{date}" + (f"-{n}" if n > 1 else "")
        target = paths.root() / "reports" / "published" / name
        if not target.exists():
            break
        if (target / f"{study}.json").read_text() == table:
            raise ReportError(f"{paths.shown(target)} is there already and is kept as it is", 1)
    target.mkdir(parents=True)
    for part in PARTS:
        shutil.copy2(out / f"{study}{part}", target / f"{study}{part}")
    _tell_readme()
    return target


_FINDINGS = re.compile(r"(?<=<!-- findings -->\n).*?(?=<!-- /findings -->)", re.S)


def _tell_readme():
    """Write the headline of every study's newest published page into the README."""
    newest = {}
    for file in sorted(paths.root().glob("reports/published/*/*.json")):
        facts = json.loads(file.read_text())
        if facts.get("headline"):
            newest[facts["study"]] = (file.with_suffix(".html"), facts)
    lines = [
        f"- **[{facts['title']}]({paths.shown(page)})**: {facts['headline']}\n"
        for page, facts in newest.values()
    ]
    readme = paths.root() / "README.md"
    readme.write_text(_FINDINGS.sub(lambda _: "".join(lines), readme.read_text()))


def summary(rows, out=None) -> str:
    """The rows of `render_all` as a plain table with times, and where the index is."""
    width = max((len(study) for study, _, _ in rows), default=0)
    lines = []
    for study, result, seconds in sorted(rows, key=lambda r: r[0]):
        word = "page" if isinstance(result, Path) else "failed"
        word = "skipped" if isinstance(result, str) else word
        what = paths.shown(result) if isinstance(result, Path) else result
        lines.append(f"{study:<{width}}  {word:<7}  {seconds:6.1f} s  {what}")
    place = paths.shown(Path(out or paths.reports()).resolve() / "index.html")
    return "\n".join([*lines, f"{'':<{width}}  index              {place}"])


def index(out=None) -> Path:
    """``reports/index.html`` from the verdict tables beside the pages: every study with its
    verdicts in words and as a small forest plot, machine, date, and links."""
    out = Path(out or paths.reports()).resolve()
    out.mkdir(parents=True, exist_ok=True)
    cards, lines = [], []
    first = "published-claims"  # what others measured comes before what we measured
    for file in sorted(out.glob("*.html"), key=lambda f: (f.stem != first, f.stem)):
        if file.stem == "index":
            continue
        beside = out / f"{file.stem}.json"
        facts = json.loads(beside.read_text()) if beside.exists() else {}
        cards.append(_card(file, facts))
        if facts.get("primary"):
            lines.append(_overview(file.stem, facts))
    failed = [
        f'<li><a href="{escaped(f.name)}">{escaped(f.name.removesuffix(".failed.ipynb"))}</a>: '
        "the last rendering failed; the notebook shows where</li>"
        for f in sorted(out.glob("*.failed.ipynb"))
    ]
    archive = [
        f'<li><a href="published/{escaped(p.parent.name)}/{escaped(p.name)}">{escaped(p.parent.name)}</a></li>'
        for p in sorted(out.glob("published/*/*.html"))
    ]
    body = "".join(cards) or "<p>No page has been rendered yet.</p>"
    if len(lines) > 1:
        heads = ("Study", "Verdict", "Overhead", "Interval", "Noise floor", "Measured")
        head = "".join(f'<th scope="col">{h}</th>' for h in heads)
        body = boxed("The main comparison of every study.", head, lines, "", " nf-lines") + body
    if failed:
        body += f'<h2 id="failed">Failed</h2><ul>{"".join(failed)}</ul>'
    if archive:
        body += f'<h2 id="published">Published pages</h2><ul>{"".join(archive)}</ul>'
    page = shell(
        title="What does it really cost?",
        description="Verdicts on changes to MySQL-family servers, each with its interval, its "
        "noise floor and the raw evidence.",
        body=body,
        contents=[],
        links=[],
        kind="index",
    )
    write_whole(out / "index.html", page)
    return out / "index.html"


def _overview(study, facts) -> str:
    row = facts["primary"]
    cells = (
        f'<a href="{escaped(study)}.html">{escaped(facts["title"])}</a>',
        badge(row["verdict"]),
        escaped(percent(row["overhead_pct"])),
        escaped(interval(row["lo_pct"], row["hi_pct"])),
        escaped(percent(row["noise_floor_pct"], sign=False)),
        escaped(str(facts.get("date") or "–")[:10]),
    )
    return "<tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"


def _card(file, facts) -> str:
    study = file.stem
    title = facts.get("title") or study.replace("-", " ").capitalize()
    links = " · ".join(
        f'<a href="{escaped(study + part)}">{word}<span class="nf-sr"> of {escaped(title)}</span></a>'
        for part, word in (
            (".html", "page"),
            (".ipynb", "notebook"),
            (".csv", "CSV"),
            (".json", "JSON"),
        )
        if (file.parent / (study + part)).exists()
    )
    where = " · ".join(str(facts[k]) for k in ("engine", "machine", "date") if facts.get(k))
    figure = ""
    rows = pd.DataFrame(facts.get("comparisons") or [])
    if len(rows):
        rows["threads"] = rows["threads"].astype("Int64")
        main = facts["primary"]
        rows = rows[~is_control(rows) & rows["metric"].eq(main["metric"])].head(8)
        margin = facts.get("margin_pct") or 2.0
        drawn = plots.dots(rows, by=("workload", "threads"), margin_pct=margin)
        words = f"{metric_label(main['metric'])}."
        figure = plots.show(drawn, alt=plots.alt(rows), caption=words, title=title).markup
    head = f'<p class="nf-word">{badge(facts["verdict"])}</p>' if facts.get("verdict") else ""
    words = f"<p>{escaped(facts['headline'])}</p>" if facts.get("headline") else ""
    return (
        f'<section class="nf-card"><h2 id="{escaped(study)}"><a href="{escaped(study)}.html">{escaped(title)}</a></h2>'
        f'{head}{words}{figure}<p class="nf-meta">{escaped(where)}</p><p class="nf-links">{links}</p></section>'
    )
