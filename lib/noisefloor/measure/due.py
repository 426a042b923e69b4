"""Which questions lack a sitting on this processor; measures as many of them as time allows."""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from noisefloor import paths, studies
from noisefloor.data import design, pack, tidy
from noisefloor.measure import asking, collect
from noisefloor.measure.campaign import FAILURES
from noisefloor.measure.folder import REBOOTED, now
from noisefloor.model import Request, Study, StudyError
from noisefloor.servers import doctor, engines
from noisefloor.text import Refusal

PROFILE = "standard"  # of published campaigns
STARTING_MIN = 2.0  # the start and the packing of a campaign, about
_LOADED = 3e6  # rows that are loaded a minute, about
MOST_WANTED = 3  # questions that `due` lists unless all are asked for
_GATE = 1.1  # times the budget, on a host that is never quiet
_OTHERS = ("own-study", "calibration")  # measured by users; by `noisefloor calibrate --live`


@dataclass(frozen=True)
class Due:
    """A question that lacks sittings on this processor. `asks`: the question in words; `sittings`:
    how many it has here, of `asked`; `minutes`: that one more takes, at most."""

    study: str
    question: str
    asks: str
    sittings: int
    asked: int
    minutes: float
    headline: bool


def due() -> list[Due]:
    """The questions that lack a sitting on this processor, the most wanted first: headlines, then
    those with the fewest sittings, then the shortest. Without those that were measured in this boot,
    and without those whose builds are not here."""
    host = {"host": doctor.host_facts(), "created": now()}
    here, boot = design.processor_name(host), design.sitting_key(host)
    campaigns = _campaigns()
    lacking = []
    for study, fingerprint in _questions():
        mine = [c for c in campaigns if (c["fingerprint"], c["processor"]) == (fingerprint, here)]
        sat = {c["sitting"] for c in mine if c["runs"]}
        if boot in {c["sitting"] for c in mine} or len(sat) >= study.sittings:
            continue
        name, key, minutes = study.name, study.key, _minutes(study)
        took = [c["minutes"] for c in campaigns if c["question"] == (name, key)]
        took = [m for m in took if m < 2 * minutes]  # a longer one was interrupted
        leads = key in studies.headline(name)
        minutes = max([minutes, *took[-1:]])
        lacking.append(Due(name, key, study.question, len(sat), study.sittings, minutes, leads))
    return sorted(lacking, key=lambda d: (not d.headline, d.sittings, d.minutes))


def _questions() -> Iterator[tuple[Study, str]]:
    """Every question of a published page whose builds are here, and its design's fingerprint."""
    find = functools.cache(functools.partial(engines.find, fetch=False))
    for name in (s for s in studies.STUDIES if s not in _OTHERS):
        for key in studies.questions(name):
            with contextlib.suppress(StudyError, engines.EngineMissing):
                study = studies.load(Request(name, key, PROFILE))
                yield study, design.fingerprint(design.design(study, _builds(study, find)))


def _minutes(study: Study) -> float:
    """Wall-clock minutes that a campaign takes at most, about. They include loading its tables once,
    and once more for each different `prepare` of its arms."""
    loads = 1 + len({arm.prepare for arm in study.arms if arm.prepare})
    loading = loads * study.tables * study.profile.rows / _LOADED
    return round(study.profile.budget_min * _GATE + STARTING_MIN + loading, 1)


def _builds(study: Study, find: Callable[[str], engines.Engine]) -> dict[str, dict[str, str]]:
    """The build of each arm, as campaign.json would hold it. Raises EngineMissing, StudyError for
    one that lacks what an arm needs."""
    builds = {}
    if why := asking.lacks(study, studies.engine_of(study.name), find):
        raise StudyError(why)
    for arm in study.compared:
        name = studies.engine_of(study.name, arm.engine)
        build = find(name)
        if build.kind != name.partition("-")[0]:  # a fall-back answers another question
            raise StudyError(build.note)
        builds[arm.name] = {"kind": build.kind, "version": build.version}
    return builds


def _campaigns() -> list[dict[str, Any]]:
    """What is known of every finished campaign that can be read, the oldest first."""
    campaigns: list[dict[str, Any]] = []
    for name in paths.campaigns():
        with contextlib.suppress(tidy.Damaged, StudyError, KeyError, TypeError, ValueError):
            meta = tidy.meta(folder := paths.campaign(name))
            if not meta.get("finished"):
                continue
            began, ended = (datetime.fromisoformat(meta[k]) for k in ("created", "finished"))
            campaigns.append(
                {
                    "folder": folder,
                    "created": meta["created"],
                    "question": (meta["study"], meta.get("key", "")),
                    "fingerprint": design.fingerprint(design.design_of(meta)),
                    "processor": design.processor_name(meta),
                    "sitting": design.sitting_key(meta),
                    "runs": meta.get("slices_s", 0.0) > 0 and meta.get("ended_because") != REBOOTED,
                    "minutes": round((ended - began).total_seconds() / 60, 1),
                }
            )
    return sorted(campaigns, key=lambda c: c["created"])


def measure(minutes: float, say: Callable[[str], None]) -> Iterator[Path]:
    """Measure what is due and fits into `minutes`, the most wanted first; yields each campaign's
    packed folder in data/raw/recorded. What does not fit is not begun. Campaigns that a killed
    command measured and did not pack are packed first."""
    began = time.monotonic()
    for folder in _unpacked():
        yield from _packed(folder, say)
    later: list[float] = []  # minutes of what does not fit
    for asked in due():
        left = max(0.0, minutes - (time.monotonic() - began) / 60)
        what = f"{asked.study}, {asked.question}: {asked.minutes:.0f} minutes"
        if asked.minutes > left:
            later.append(asked.minutes)
            continue
        say(f"{what} at the most")
        try:
            (folder,) = collect.measure_study(Request(asked.study, asked.question, PROFILE))
        except FAILURES as problem:  # the others are measured all the same
            say(str(problem))
        else:
            yield from _packed(folder, say)
    if later:
        noun = f"question{'s' * (len(later) > 1)}"
        say(f"not begun: {len(later)} {noun} of {min(later):.0f} minutes or more (noisefloor due)")


def _packed(campaign: Path, say: Callable[[str], None]) -> Iterator[Path]:
    """Pack a campaign and yield its packed folder; says why if it cannot be packed."""
    try:
        folder, *_ = pack.pack(campaign)
    except (Refusal, tidy.Damaged) as problem:
        say(str(problem))
    else:
        yield folder


def _unpacked() -> list[Path]:
    """Folders of campaigns that answer a question of a published page and are not packed yet."""
    known = {fingerprint for _, fingerprint in _questions()}
    mine = [c["folder"] for c in _campaigns() if c["fingerprint"] in known and c["runs"]]
    return [f for f in mine if not (paths.recorded() / f.name).exists()]


def in_short(lacking: list[Due]) -> list[str]:
    """How much is due, and the command that measures it: two lines, or one where nothing is."""
    if not lacking:
        return ["nothing is due: every question whose builds are here has its sittings"]
    whole = sum(d.minutes for d in lacking)
    many = "1 question lacks" if len(lacking) == 1 else f"{len(lacking)} questions lack"
    return [
        f"{many} a sitting on this processor, {whole / 60:.1f} hours",
        "to measure what fits into an hour: make measure MINUTES=60",
    ]


def text(lacking: list[Due], most: int) -> str:
    """The lines of `in_short` for a terminal, with the first `most` questions between them."""
    first, *command = in_short(lacking)
    shown = {f"{d.study}, {d.question}": d for d in lacking[:most]}
    wide = max(map(len, shown), default=0)
    lines = [
        f"  {name:<{wide}}  {d.sittings} of {d.asked} sitting{' s'[d.asked > 1]}  {d.minutes:>4.0f} min"
        for name, d in shown.items()
    ]
    more = f" (--verbose lists all {len(lacking)})" if len(lacking) > most else ""
    return "\n".join([first, *lines, *(f"{line}{more}" for line in command)])
