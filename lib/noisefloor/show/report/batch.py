"""Many pages: planned, made in parallel; the index, with every study's verdict in words, in
numbers and as a small drawing; and publishing."""

import json
import math
import os
import re
import shutil
import time
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

from noisefloor import paths
from noisefloor.data import results, tidy
from noisefloor.data.cluster import pool
from noisefloor.data.results import SHORT
from noisefloor.model import StudyError
from noisefloor.show.markup import piece, say
from noisefloor.show.plots.canvas import away
from noisefloor.show.report import words
from noisefloor.show.report.answers import asked, open_page
from noisefloor.show.report.arguments import CAMPAIGNS, checked, parameters
from noisefloor.show.report.layout import PUBLISHED, facts_of, shell
from noisefloor.show.report.notebooks import MEASURED_BY, notebook, of_questions, refused, studies
from noisefloor.show.report.pages import PARTS, placed, render, set_aside
from noisefloor.show.report.pieces import drawing
from noisefloor.show.report.statement import parts
from noisefloor.show.report.words import ReportError, when
from noisefloor.stats.verdict import NOT_YET, SAME, differs
from noisefloor.studies import STUDIES, headline, load, page_of
from noisefloor.text import amounts, upper

_LAST = ("published-claims", "calibration")  # what others measured, and whether to believe us
_NAMED = ("mariadb-upgrade",)  # measured where it is named: a second pair of builds
_TICKS = (-50, -10, 0, 10, 100)  # of the small scale, in percent
_FARTHEST = 1000.0  # percent, which the small scale ends at
_Job = tuple[str, dict[str, Any] | None, bool]  # study, its parameters, whether it measures first
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
    live, or in the `folders` alone. With `leading` a short one only where there is no other, and one of
    the first of these questions that has any."""
    turn = {key: -n for n, key in reversed([*enumerate(leading)])}
    every = [*_finished(study, *(folders or (paths.recorded(), paths.runs())))]
    whole = [one for one in every if (one[0].get("profile") or {}).get("name") not in SHORT]
    judged = [
        (turn.get(facts.get("key", ""), -len(turn)), when(facts), folder.name)
        for facts, folder in (whole if leading and whole else every)
        if not all(w.get("at_once") for w in facts.get("workloads") or [{}])
    ]
    return max(judged)[2] if judged else None


def _finished(study: str, *folders: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """(campaign.json, folder) of every campaign of a study's page in `folders` that came to its
    end."""
    for file in (f for folder in folders for f in folder.glob("*/campaign.json")):
        facts = json.loads(file.read_text())
        page = page_of(facts.get("study", file.parent.name), facts.get("key", ""))
        if page == study and facts.get("finished") != "":
            yield facts, file.parent


# -- what is to be made ----------------------------------------------------------------------------


def plan(
    names: Sequence[str] = (), profile: str | None = None, given: Mapping[str, Any] | None = None
) -> list[_Job]:
    """What `render_all` will do, all checked before anything runs. Profile `recorded`: each
    study's recorded campaigns, all that are on the page of its newest one, the questions with their
    own page, and the published archives; one without any has None for parameters.
    Raises ReportError, code 2, for a wrong name or parameter."""
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
    about.toml beside them has it."""
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
        wanted = asked(_whole(study, values))
        if wanted.get("question") == "all":
            del wanted["question"]
        try:
            load(study, **wanted)
        except StudyError as problem:
            raise ReportError(problem, problem.code) from None
    return study, values, True


def plan_archive(given: dict[str, Any]) -> list[_Job]:
    """`plan` for a page of an archive: `given` are the parameters of its notebook. Raises
    ReportError, code 2, for what is no archive."""
    folder = Path(given["table"]).absolute()
    if not (folder / "manifest.json").exists():
        raise refused(f"{given['table']} is no folder of tables of `noisefloor ingest`")
    given["table"] = str(folder)
    if folder.is_relative_to(paths.root()):  # so that the page can be made again elsewhere
        given["table"] = str(folder.relative_to(paths.root()))
    name = f"archive-{folder.name}"
    return [(name, checked(notebook(name), given), False)]


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
    """The name of a page: the study's, or that of the question of its user's."""
    if study not in MEASURED_BY or not values.get("campaign"):
        return study
    values.pop("lua", None)  # the campaign knows it, and a path tells where
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
    """Measure what is live, one study after another, then render every job of `plan` in parallel
    processes. One failure does not stop the others. Returns what became of each, and writes the
    index. `timeout`: seconds a cell; `say` is called with each result."""
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
        waiting = {executor.submit(_timed, render, *job, pages, timeout): job[0] for job in ready}
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


# -- the index -------------------------------------------------------------------------------------


def index(out: Path | str | None = None, pages: Sequence[Path] | None = None) -> Path:
    """Write ``index.html`` in `out` (default ``reports/``) over `pages`, by default those in `out`:
    one table from the JSON beside them. Links are relative, so it works from a disk and from any
    web server. Returns its path."""
    out = Path(out or paths.reports()).resolve()
    out.mkdir(parents=True, exist_ok=True)
    pages = [p for p in out.glob("*.html") if p.stem != "index"] if pages is None else pages
    facts = {page: facts_of(page) for page in pages}
    ordered = sorted(pages, key=lambda page: _turn(page.stem, facts[page]))
    rows = [_row(page, facts[page], out) for page in ordered]
    failed = [(f.name, f.name.removesuffix(".failed.ipynb")) for f in out.glob("*.failed.ipynb")]
    every = paths.root() / PUBLISHED / "index.html"
    published = os.path.relpath(every, out) if out != every.parent and every.exists() else ""
    short = [f for f in facts.values() if f.get("profile") in SHORT]
    compared = [c for f in facts.values() for c in f.get("comparisons", ()) if not c.get("control")]
    totals = {
        "yours": _yours(short),
        "published": published,
        "words": sum(differs(c["verdict"]) or c["verdict"] == SAME for c in compared),
        "of": len(compared),
    }
    body = piece("index", rows, {t: _x(t) for t in _TICKS}, sorted(failed), totals, amounts)
    title = "What does it really cost?"
    page = shell(title=title, description=say("index"), body=body, kind="index")
    placed(out, {"index.html": page.encode()})
    return out / "index.html"


def _yours(short: Sequence[Mapping[str, Any]]) -> str:
    """When the short campaigns of an index were made, and how long each took."""
    if not short:
        return ""
    days = sorted({str(facts.get("date"))[:10] for facts in short})
    took = max(facts.get("minutes") or 0 for facts in short)
    return say(
        "yours", days=" to ".join(dict.fromkeys((days[0], days[-1]))), minutes=max(1, round(took))
    )


def _x(value: float) -> float:
    """Place of a change on the small scale, 200 wide: linear near zero, logarithmic beyond."""
    size = min(away(value), _FARTHEST)
    return round(100 + math.copysign(15.3 * math.log1p(size / 2), value), 1)


def _row(page: Path, facts: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """What the index tells of a page; of those in `_LAST`, which are about many comparisons, their
    sentence alone."""
    leads = [] if page.stem in _LAST else facts.get("leads", [])
    answers = [*map(_answer, leads, _sentences(facts, "brief"))]
    waiting = [upper(words.word(x)) for x in leads[:1] if x["verdict"] == NOT_YET]
    theirs = paths.root() / PUBLISHED / page.stem / f"{page.stem}.html"
    repeats = facts.get("profile") in SHORT and theirs.parent != page.parent
    return {
        "href": os.path.relpath(page, out),
        "title": facts.get("title") or page.stem.replace("-", " ").capitalize(),
        "answers": answers or [{"sentence": facts.get("headline") or ""}],
        "advice": facts.get("advice") or "",
        "measured": [*waiting, leads and facts.get("measured"), str(facts.get("date") or "")[:10]],
        "published": _sentences(facts_of(theirs)) if repeats else [],
        "theirs": os.path.relpath(theirs, out),
    }


def _answer(lead: dict[str, Any], sentence: str) -> dict[str, Any]:
    """A lead of a page: its sentence, and what is drawn of it: on each processor one interval for the
    thread counts that have one verdict, with the names of processors and thread counts that differ."""
    on: dict[str, list[dict[str, Any]]] = {}
    for row in (*(lead.get("counts") or [lead]), *lead.get("others", [])):
        if row["change_pct"] is not None:
            on.setdefault(str(row.get("processor") or ""), []).append(row)
    strips = []
    names = words.short_names([*on])
    for name, rows in on.items():
        each = parts(rows)
        for part in each:
            named = names[name] * (len(on) > 1), part.at * (len(each) > 1)
            strips.append((drawing(part.row, _x), ", ".join(filter(None, named))))
    return {"sentence": sentence, "strips": strips}


# -- published -------------------------------------------------------------------------------------

_FIRST = 6  # pages that the README tells of
_FINDINGS = re.compile(r"(?<=<!-- findings -->\n).*?(?=<!-- /findings -->)", re.S)


def publish(study: str, out: Path | str | None = None) -> tuple[Path, bool]:
    """Replace the published page of a study, with its notebook and verdict table, in
    ``reports/published/<study>/``: (that folder, whether anything in it changed). The index and the
    README's findings are written again."""
    out = Path(out or paths.reports()).resolve()
    target = paths.root() / PUBLISHED / study
    whole, old = (target.with_name(f"{study}.{part}") for part in ("partial", "old"))
    if old.exists() and not target.exists():  # what a killed command left
        old.rename(target)
    for left in (whole, old):
        shutil.rmtree(left, ignore_errors=True)
    whole.mkdir(parents=True)
    for part in PARTS:
        shutil.copy2(out / f"{study}{part}", whole / f"{study}{part}")
    page = whole / f"{study}.html"
    page.write_text(_moved(page.read_text(), out, whole))
    if target.exists() and _contents(whole) == _contents(target):
        shutil.rmtree(whole)
        return target, False
    if target.exists():
        target.rename(old)
    whole.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    index(target.parent, [page for page, _ in _published_pages()])
    readme = paths.root() / "README.md"
    readme.write_text(_FINDINGS.sub(lambda _: published_findings(), readme.read_text()))
    return target, True


def published_findings() -> str:
    """The README's findings in Markdown: the first cost of each of the published pages that the index
    begins with, a line a page. An archive's page, which leads with no comparison, says the first sentence
    of its headline; those about comparisons of all kinds (`_LAST`) are left out."""
    pages = [(page, facts) for page, facts in _published_pages() if facts.get("headline")]
    costs = [(page, facts) for page, facts in pages if page.stem not in _LAST]
    return "".join(_finding(page, facts) for page, facts in costs[:_FIRST])


def _finding(page: Path, facts: Mapping[str, Any]) -> str:
    title, leads = facts["title"] or facts["study"], facts.get("leads")
    first = _sentences(facts, "brief")[0] if leads else facts["headline"].split(". ")[0]
    texts = words.sentences((first.rstrip("."), facts.get("advice") or ""))
    waits = " *(provisional)*" * bool(leads and leads[0]["verdict"] == NOT_YET)
    return f"- [{title}]({paths.relative(page)}) {texts}{waits}\n"


def _sentences(facts: Mapping[str, Any], which: str = "headlines") -> list[str]:
    """What the rows say that a page leads with, each with its change in units; which: `brief` without
    how often they were measured."""
    headlines = facts.get(which, [])
    in_units = facts.get("units") or [""] * len(headlines)
    return [f"{h} {u}{'.' * bool(u)}".strip() for h, u in zip(headlines, in_units, strict=True)]


def _published_pages() -> list[tuple[Path, dict[str, Any]]]:
    """(page, what lies beside it as JSON) of all that is published, in the order of their index."""
    pages = [(page, facts_of(page)) for page in (paths.root() / PUBLISHED).glob("*/*.html")]
    whole = [(p, facts) for p, facts in pages if p.stem == p.parent.name == facts.get("study")]
    return sorted(whole, key=lambda one: _turn(one[0].stem, one[1]))


def _contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def _moved(text: str, out: Path, target: Path) -> str:
    """The HTML of a page of `out`, moved to `target`: its links still lead to the same files."""

    def link(match: re.Match[str]) -> str:
        href = match[1]
        if href == "index.html":
            return "../index.html"
        return href if (target / href).exists() else os.path.relpath(out / href, target)

    return re.sub(r'(?<=<a href=")((?!#|\w+:)[^"]+)', link, text)


def _turn(study: str, facts: Mapping[str, Any]) -> tuple[bool, bool, bool, float, float, str]:
    """The place of a page: what was measured here before archives, and these before `_LAST`; what has a
    word before what has none; what differs most for sure first, then what may."""
    leads = facts.get("leads", ())
    decided = [r for r in leads if differs(r["verdict"])]
    kept = [r for r in decided or leads if r["change_pct"] is not None]
    ends = ((r["lo_pct"], r["hi_pct"]) for r in kept if r.get("lo_pct") is not None)
    sure = max((min(map(away, both)) for both in ends if min(both) * max(both) > 0), default=0.0)
    largest = max((away(r["change_pct"]) for r in kept), default=0.0)
    return study in _LAST, study.startswith("archive-"), not decided, -sure, -largest, study
