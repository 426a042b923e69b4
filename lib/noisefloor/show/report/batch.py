"""Many pages: planned, and made in parallel."""

import time
import tomllib
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

from noisefloor import paths
from noisefloor.data import results, tidy
from noisefloor.data.cluster import pool
from noisefloor.data.results import SHORT
from noisefloor.model import StudyError
from noisefloor.show.report.answers import asked, open_page
from noisefloor.show.report.arguments import CAMPAIGNS, checked, parameters
from noisefloor.show.report.notebooks import MEASURED_BY, notebook, of_questions, refused, studies
from noisefloor.show.report.pages import render, set_aside
from noisefloor.show.report.site import index
from noisefloor.show.report.words import ReportError, when
from noisefloor.studies import STUDIES, headline, load, page_of

_NAMED = ("mariadb-upgrade", "calibration", "published-claims")  # made when named, or recorded
_Job = tuple[str, dict[str, Any] | None, bool]  # study, its parameters, whether to measure first
_Result = tuple[str, Any, float]  # study; its page, or the sentence of what went wrong; seconds


def recorded_campaign(study: str) -> str | None:
    """The newest campaign of a study under ``data/raw/recorded`` that a page can lead with: one of its
    leading question, else of an earlier leading one or of all questions, else any."""
    leading = headline(study)[:1] if study in STUDIES else ()
    return _newest(study, paths.recorded(), leading=(*leading, "headline", ""))


def leading_campaign(study: str) -> str | None:
    """The campaign that leads a page, a pack or the explorer: a recorded one, else the newest live one."""
    return recorded_campaign(study) or _newest(study)


def _newest(study: str, *folders: Path, leading: Sequence[str] = ()) -> str | None:
    """The newest finished campaign of a study that is judged, by its own date, then name: recorded or
    live, or in the `folders` alone. With `leading`: one of the first of these questions that has any,
    and a short one only if there is no other."""
    turn = {key: -n for n, key in reversed([*enumerate(leading)])}
    every: list[tuple[dict[str, Any], Path]] = []
    for place in folders or (paths.recorded(), paths.runs()):
        for folder in (file.parent for file in place.glob("*/campaign.json")):
            facts = results.facts_of(folder)
            page = page_of(facts.get("study", folder.name), facts.get("key", ""))
            if facts and page == study and facts.get("finished") != "":
                every.append((facts, folder))
    whole = [one for one in every if (one[0].get("profile") or {}).get("name") not in SHORT]
    judged = [
        (turn.get(facts.get("key", ""), -len(turn)), when(facts), folder.name)
        for facts, folder in (whole if leading and whole else every)
        if not all(w.get("at_once") for w in facts.get("workloads") or [{}])
    ]
    return max(judged)[2] if judged else None


# -- what is to be made ----------------------------------------------------------------------------


def plan(
    names: Sequence[str] = (), profile: str | None = None, given: Mapping[str, Any] | None = None
) -> list[_Job]:
    """The jobs for `render_all`, all checked before anything runs. Profile `recorded`: each study with
    its newest recorded campaign and those on the same page, the questions with their own page, and
    the published archives; a study without a recorded campaign has None for parameters.
    Raises ReportError, code 2, for a wrong name or parameter, or a named study without a campaign."""
    archives = published_archives()
    every = (*studies(), *of_questions(), *archives)
    live = (study for study in studies() if study not in _NAMED)
    wanted = names or [*(every if profile == "recorded" else live)]
    books = {study: set(parameters(notebook(study))) for study in wanted}
    known, given = set().union(*books.values()), given or {}
    if not names and (wrong := next((name for name in given if name not in known), None)):
        raise refused(f"no study has a parameter {wrong!r}; there are: {', '.join(sorted(known))}")
    jobs: list[_Job] = []
    for study, has in books.items():
        # a parameter meant for all studies skips those without it
        values = {k: v for k, v in given.items() if names or k in has}
        if study in archives:
            jobs += plan_archive(archives[study] | values)
        else:
            jobs.append(_job(study, has, profile, values, bool(names)))
    return jobs


def published_archives() -> dict[str, dict[str, Any]]:
    """{page: parameters of its notebook} of the tables in data/raw/published/archives, as the
    about.toml beside them gives them."""
    by_page = {}
    for file in sorted(paths.published().glob("archives/*/about.toml")):
        given = tomllib.loads(file.read_text())["page"]
        by_page[f"archive-{file.parent.name}"] = {"table": str(file.parent)} | given
    return by_page


def _job(
    study: str, has: set[str], profile: str | None, values: dict[str, Any], named: bool
) -> _Job:
    """The job of a study whose notebook `has` these parameters; `named`: it was asked for."""
    source = notebook(study)
    if profile == "recorded" and (some := next((n for n in CAMPAIGNS if values.get(n)), "")):
        raise refused(f"--profile recorded takes no {some}, and {values[some]!r} was given")
    if values.get("campaign"):
        pass  # it keeps the parameters that it was made with
    elif profile == "recorded" and "campaign" in has:
        newest = recorded_campaign(study)
        if not newest and named:
            raise refused(f"{study} has no recorded campaign")
        if not newest:
            return study, None, False
        values["campaign"] = ", ".join(f.name for f in results.beside(paths.recorded() / newest))
    elif source.stem in MEASURED_BY and study != "own-study":  # a question of its user's
        checked(source, values)  # what is wrong with them is said first
        values["campaign"] = _newest(study)
        if not values["campaign"] or profile:
            raise refused(
                f"{study} is shown again from its newest campaign, of which there is "
                f"{values['campaign'] or 'none'}; `{measures(study)}` measures"
            )
    elif profile and "profile" in has:
        values["profile"] = profile
    values = checked(source, values)
    if study not in STUDIES or "profile" not in has or values.get("campaign"):
        return _page_name(study, values), values, False
    if study != "own-study":  # whose script is looked at first
        try:
            load(asked(study, _whole(study, values)))
        except StudyError as problem:
            raise ReportError(problem, problem.code) from None
    return study, values, True


def plan_archive(given: dict[str, Any]) -> list[_Job]:
    """`plan` for a page of an archive: `given` are the parameters of its notebook. Raises
    ReportError, code 2, for what is no archive."""
    folder = Path(given["table"]).absolute()
    if not (folder / "manifest.json").exists():
        raise refused(f"{given['table']} is no folder of tables of `noisefloor ingest`")
    if folder.is_relative_to(paths.root()):  # so that the page can be made again elsewhere
        folder = folder.relative_to(paths.root())
    name = f"archive-{folder.name}"
    return [(name, checked(notebook(name), given | {"table": str(folder)}), False)]


def measures(page: str) -> str:
    """The command that measures what a page shows."""
    study, question = of_questions().get(page, ("", ""))
    if study:
        return f"noisefloor run {study} --question {question}"
    return f"noisefloor {MEASURED_BY.get(notebook(page).stem, f'run {page}')}"


def _whole(study: str, values: dict[str, Any]) -> dict[str, Any]:
    """A value for each parameter of a study's notebook."""
    return {name: p.default for name, p in parameters(notebook(study)).items()} | values


def _page_name(study: str, values: dict[str, Any]) -> str:
    """The name of a page: the study's; of a user's own question that of its campaign."""
    if study not in MEASURED_BY or not values.get("campaign"):
        return study
    values.pop("lua", None)  # the campaign knows it, and its path may name somebody
    facts = tidy.meta(results.named(values["campaign"])[0])
    return page_of(facts["study"], facts.get("key", ""))


# -- made ------------------------------------------------------------------------------------------


def render_all(
    jobs: Sequence[_Job],
    out: Path | str | None = None,
    workers: int | None = None,
    timeout: float = 3600,
    say: Callable[[str], object] = print,
) -> list[_Result]:
    """Measure what is live, one study after another, render every job of `plan` in parallel processes,
    and write the index. A failure does not stop the others. Returns of each: study; its page, the error
    or "no recorded campaign"; seconds. `timeout`: seconds a cell; `say` is called with each as a line."""
    pages = Path(out or paths.reports()).resolve()
    pages.mkdir(parents=True, exist_ok=True)
    rows: list[_Result] = []
    ready: list[tuple[str, dict[str, Any]]] = []

    def done(row: _Result) -> None:
        if isinstance(row[1], ReportError):
            set_aside(row[0], pages)
        rows.append(row)
        say(_line(row))

    for study, values, live in jobs:
        if values is None:
            rows.append((study, "no recorded campaign", 0.0))
            continue
        if live:
            say(f"{study}: measuring")
            row = _timed(_measured, study, values)
            if isinstance(row[1], ReportError):
                done(row)
                continue
            study, values = row[1]
        ready.append((study, values))
    if len(ready) == 1:  # what kills it harms no other
        done(_timed(render, *ready.pop(), pages, timeout))
    with pool(workers=workers, apart=True) as executor:
        waiting = {
            executor.submit(_timed, render, *job, pages, timeout): job[0] for job in reversed(ready)
        }
        for task in as_completed(waiting):
            died = ReportError(f"{waiting[task]} stopped: its process was killed or died")
            done((waiting[task], died, 0.0) if task.exception() else task.result())
    index(out)
    return rows


def _measured(study: str, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """(study, parameters) of a page whose campaigns are measured now, in this process, where the
    progress can be seen."""
    from noisefloor.measure.campaign import FAILURES

    try:
        measured = open_page(study, _whole(study, values))
    except FAILURES as problem:
        raise ReportError(str(problem)) from None
    except Exception:  # a defect of ours: the others are measured all the same
        traceback.print_exc()
        raise
    values = values | {"campaign": ", ".join(r.folder.name for r in measured.every)}
    return _page_name(study, values), values


def _timed(task: Callable[..., Any], study: str, *given: Any) -> _Result:
    """The row of a study: what `task` returns, or the sentence of what went wrong."""
    start = time.monotonic()
    result: Any
    try:
        result = task(study, *given)
    except ReportError as problem:
        result = problem
    except Exception as problem:  # whatever it is, the other pages are still to be made
        result = ReportError(f"{study} stopped: {type(problem).__name__}: {problem}")
    return study, result, time.monotonic() - start


def _line(row: _Result, width: int = 0) -> str:
    study, result, seconds = row
    word = "skipped" if isinstance(result, str) else "failed"
    if isinstance(result, Path):
        word, result = "page", paths.relative(result)
    return f"{study:<{width}}  {word:<7}  {seconds:6.1f} s  {result}"


def summary(rows: Sequence[_Result], out: Path | str | None = None) -> str:
    """The rows of `render_all` as a plain table with times, and where the index is."""
    width = max((len(study) for study, _, _ in rows), default=0)
    lines = [_line(row, width) for row in sorted(rows, key=lambda r: r[0])]
    place = paths.relative(Path(out or paths.reports()).resolve() / "index.html")
    return "\n".join([*lines, f"{'':<{width}}  index              {place}"])
