"""Campaigns for notebooks and the command line, one at a time on a machine. The same request
continues a campaign that was interrupted; after a finished one it begins a new one."""

from pathlib import Path

from noisefloor import schedule, studies
from noisefloor.measure import asking, course, elsewhere, loading
from noisefloor.measure.campaign import POOLS
from noisefloor.measure.progress import Progress, Say
from noisefloor.model import Request, Study, StudyError, from_clients
from noisefloor.servers import engines


def measure_study(request: Request, dry: Say | None = None) -> tuple[Path, ...]:
    """Measure a campaign for each asked question, one after the other; their folders, () for a dry
    run. `dry`: as `elsewhere.measure_as_guest` takes it. Raises one of `campaign.FAILURES`."""
    asked, resolved, hosts = asking.checked(request)
    if request.server:
        (study,) = asked
        folder = elsewhere.measure_as_guest(study, request, dry)
        return (folder,) if folder else ()
    asked, request = asking.on_builds(request, resolved)
    lacking = _lacking(asked, studies.engine_of(request.study, request.engine))
    if lacking and request.question != "all":
        raise StudyError(f"{next(iter(lacking.values()))}; nothing was measured")
    for key, why in lacking.items():
        Progress().say(f"{key} is left out: {why}")
    asked = [from_clients(study, hosts) if hosts else study for study in asked]
    return tuple(measure_campaign(study, request) for study in asked if study.key not in lacking)


def measure_campaign(study: Study, request: Request) -> Path:
    """Measure the declared blocks, or until the budget is spent; the campaign's folder.

    The same study and request continue a campaign that was interrupted. Raises one of
    `campaign.FAILURES`: what was whole is kept."""
    progress = Progress()
    schedule.check(study)
    engine = studies.engine_of(request.study, request.engine)
    names = {"", *(a.engine for a in study.compared)}  # of builds; "": the study's own
    builds = {n: engines.find(n or engine) for n in names}
    if note := builds[""].note:
        progress.say(note)  # why another one was taken
    with (
        course.machine(progress.say) as folder,
        course.open_campaign(study, builds, request, progress) as campaign,
    ):
        labels = " and ".join(sorted({engines.label(builds[a.engine]) for a in study.compared}))
        progress.say(f"{labels}: initialising, loading {study.tables} tables")
        loading.place_script(request.lua, study, folder)
        templates = loading.templates(study, builds, folder)
        pool = POOLS[study.kit](folder, templates, study, request.clients)
        course.carry_out(campaign, pool)
    return campaign.folder


def _lacking(asked: list[Study], engine: str) -> dict[str, str]:
    """Question -> why it cannot be measured here. Raises EngineMissing if one question is asked."""
    lacking: dict[str, str] = {}
    for study in asked:
        try:
            why = asking.lacks(study, engine)
        except engines.EngineMissing as e:
            if len(asked) == 1:
                raise
            why = str(e)
        lacking |= {study.key: why} if why else {}
    return lacking
