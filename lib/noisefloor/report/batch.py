"""Many pages: what is to be made, made in parallel, published."""

import json
import os
import re
import shutil
import time
import traceback
from concurrent.futures import as_completed
from itertools import count
from pathlib import Path

from .. import paths, results, tidy
from ..cluster import pool
from ..studies import STUDIES, load
from ..study import StudyError
from .given import checked, parameters
from .overview import index
from .pages import PARTS, notebook, render, set_aside, studies
from .words import ReportError, when


def recorded_campaign(study) -> str | None:
    """The newest campaign of a study under ``data/raw/recorded`` that a page can lead with, by its own
    date, then name: one of the headline or of all questions, else any."""
    return newest_campaign(study, paths.recorded(), leading=("", "headline"))


def newest_campaign(study, *folders, leading=()) -> str | None:
    """The newest finished campaign of a study, by its own date, then name: recorded or live, or in
    the `folders` alone; one of the `leading` questions where there is any."""
    found = []
    for folder in folders or (paths.recorded(), paths.runs()):
        for file in folder.glob("*/campaign.json"):
            facts = json.loads(file.read_text())
            if facts.get("study", file.parent.name) == study and facts.get("finished") != "":
                leads = facts.get("key", "") in leading
                found.append((leads, when(facts), file.parent.name))
    return max(found)[2] if found else None


def plan(names=(), profile=None, given=None) -> list:
    """What `render_all` will do: (study, parameters, live) for each, all checked before anything
    runs. Profile `recorded` stands for each study's newest recorded campaign, with those of its other
    questions."""
    jobs = []
    for study in names or studies():
        source = notebook(study)
        known = parameters(source)
        values = dict(given or {})
        if not names:  # a parameter meant for all studies skips those without it
            values = {k: v for k, v in values.items() if k in known}
        if profile == "recorded" and "campaign" in known:
            values.setdefault("campaign", _completed(recorded_campaign(study)))
            if not values["campaign"]:
                if names:
                    raise ReportError(f"{study} has no recorded campaign; nothing was run", 2)
                jobs.append((study, None, False))
                continue
        elif source.stem == "own-study" != study and not values.get("campaign"):
            values["campaign"] = newest_campaign(study)  # which asks one question
            if not values["campaign"] or profile:
                raise ReportError(
                    f"{study} is shown again from its newest campaign, of which there is "
                    f"{values['campaign'] or 'none'}; `noisefloor ab VARIABLE=OFF,ON` measures; "
                    "nothing was run",
                    2,
                )
        elif profile and "profile" in known:
            values["profile"] = profile
        live = "profile" in known and not values.get("campaign")
        values = checked(source, values)
        if live:
            _allowed(study, values)
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
    if len(ready) == 1 and not cluster:  # what kills it harms no other
        study, values = ready.pop()
        rows.append(_timed(study, values, pages, timeout))
        say(_line(rows[-1]))
    with pool(cluster, workers, apart=True, sees=sees) as executor:
        waiting = {
            executor.submit(_timed, study, values, pages, timeout): study for study, values in ready
        }
        for done in as_completed(waiting):
            rows.append(_result(done, waiting[done], pages))
            say(_line(rows[-1]))
    index(out)
    return rows


def _completed(name) -> str:
    """A campaign's name with those of the campaigns that its page shows beside it."""
    return ", ".join(f.name for f in results.beside(paths.campaign(name))) if name else ""


def _page_name(study, values) -> str:
    """The name of a page: the study's, or that of the question which own-study was asked."""
    if study != "own-study" or not values.get("campaign"):
        return study
    values.pop("lua", None)  # the campaign knows it, and a path tells where
    return tidy.meta(results.named(values["campaign"])[0])["study"]


def _asked(study, values) -> dict:
    """What the notebook of a study would ask a new campaign for."""
    asked = {name: p.default for name, p in parameters(notebook(study)).items()} | values
    asked.pop("campaign", None)
    return asked


def _allowed(study, values):
    """Raise ReportError when nothing can be measured with these values."""
    if study in STUDIES and study != "own-study":  # whose script has to be looked at first
        asked = _asked(study, values)
        if asked.get("question") == "all":
            del asked["question"]
        try:
            load(study, **asked)
        except StudyError as problem:
            said = str(problem).removesuffix("; nothing was measured")
            raise ReportError(f"{said}; nothing was run", 2) from None


def _measure(study, values) -> str:
    """Names of the campaigns of a page that is measured now, in this process, where the progress
    can be seen."""
    from .. import collect

    try:
        return ", ".join(f.name for f in collect.obtain(study, **_asked(study, values)))
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
    whole = target.with_name(f"{name}.partial")
    shutil.rmtree(whole, ignore_errors=True)
    whole.mkdir(parents=True)
    for part in PARTS:
        shutil.copy2(out / f"{study}{part}", whole / f"{study}{part}")
    page = whole / f"{study}.html"
    page.write_text(_moved(page.read_text(), out, whole))
    whole.rename(target)
    newest = _newest()
    index(target.parent, [page for page, _ in newest])
    _tell_readme(newest)
    return target


def _moved(text, out, target) -> str:
    """The HTML of a page of `out` as it stands in `target`: its links lead where they led."""

    def link(found):
        href = found[1]
        if href == "index.html":
            return "../index.html"
        return href if (target / href).exists() else os.path.relpath(out / href, target)

    return re.sub(r'(?<=<a href=")((?!#|\w+:)[^"]+)', link, text)


def _newest() -> list:
    """The newest published page of every study, with its facts, by name."""
    found = {}
    files = paths.root().glob("reports/published/*/*.json")
    for file in sorted(files, key=lambda f: [int(n) for n in re.findall(r"\d+", f.parent.name)]):
        facts = json.loads(file.read_text())
        found[facts["study"]] = (file.with_suffix(".html"), facts)
    return [found[study] for study in sorted(found)]


_FINDINGS = re.compile(r"(?<=<!-- findings -->\n).*?(?=<!-- /findings -->)", re.S)


def _tell_readme(newest):
    """Write the headline of every study's newest published page into the README."""
    lines = [
        f"- **[{facts['title']}]({paths.shown(page)})**: {facts['headline']}\n"
        for page, facts in newest
        if facts.get("headline")
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
