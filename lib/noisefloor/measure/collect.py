"""Campaigns for notebooks and the command line. Measures what is missing, one campaign at a time
on a machine; the same parameters continue an interrupted one."""

from pathlib import Path
from typing import Any

from noisefloor.data import results
from noisefloor.measure import asking, course, elsewhere, loading
from noisefloor.measure.campaign import POOLS
from noisefloor.measure.progress import Progress, Say
from noisefloor.model import Study, StudyError, from_clients
from noisefloor.servers import engines


def obtain_campaigns(name: str, campaign: str = "", **asked: Any) -> tuple[Path, ...]:
    """The folders of the campaigns of a page: those called `campaign` (several with commas
    between), else what `measured` measures when it is `asked` so, and what was measured of its
    other questions. What a notebook calls.

    With `campaign` the other parameters do not matter: a campaign keeps those it was made with."""
    if campaign:
        return results.named(campaign)
    folders = measure_study(name, **asked)
    return results.beside(folders[0]) if folders else ()


def measure_study(
    name: str,
    question: str = "",
    clients: str = "",
    server: str = "",
    allow: tuple[str, ...] = (),
    dry: Say | None = None,
    seed: int | None = None,
    **parameters: Any,
) -> tuple[Path, ...]:
    """The campaigns that answer `question` of the study called `name` ("": its headline, "all":
    every one), measured now, one after the other. `clients`: the cluster whose workers load;
    `server` (its URL), `allow`, `dry`: as `elsewhere.measure_as_guest` takes them; `seed`: as
    `measure`. Raises one of `campaign.FAILURES`."""
    parameters = asking.completed(name, parameters, guest=bool(server))
    asked, hosts = asking.checked(name, question, parameters, clients, guest=bool(server))
    lua = parameters.get("lua", "")
    known = parameters | ({"lua": Path(lua).name} if lua else {})
    if server:
        (study,) = asked
        folder = elsewhere.measure_as_guest(
            study, server, tuple(allow), parameters=known, lua=lua, dry=dry
        )
        return (folder,) if folder else ()
    asked = asking.on_builds(name, question, parameters)
    lacking = _lacking(asked, parameters["engine"])
    if lacking and question != "all":
        raise StudyError(f"{next(iter(lacking.values()))}; nothing was measured")
    for key, why in lacking.items():
        Progress().say(f"{key} is left out: {why}")
    asked = [from_clients(study, hosts) if hosts else study for study in asked]
    return tuple(
        measure_campaign(study, parameters=known, lua=lua, address=clients, seed=seed)
        for study in asked
        if study.key not in lacking
    )


def measure_campaign(
    study: Study,
    *,
    parameters: dict[str, Any] | None = None,
    lua: str = "",
    address: str = "",
    seed: int | None = None,
) -> Path:
    """Measure the declared blocks, or until the budget is spent; the campaign's folder.

    `lua`: where the study's script of the user's own lies; `address`: of its clients; `seed`: of
    the coins (None: a new one). The same study and parameters continue a campaign that was
    interrupted. Raises EngineMissing, ServerError, EvidenceError, CampaignError: one sentence each,
    what was whole is kept."""
    progress, parameters = Progress(), parameters or {}
    builds = asking.builds_of(study, parameters, progress.say)
    with (
        course.machine(progress.say) as folder,
        course.open_campaign(study, builds, parameters, progress, seed) as campaign,
    ):
        labels = " and ".join(sorted({engines.label(builds[a.engine]) for a in study.compared}))
        progress.say(f"{labels}: initialising, loading {study.tables} tables")
        loading.place_script(lua, study, folder)
        pool = POOLS[study.kit](folder, loading.templates(study, builds, folder), study, address)
        course.carry_out(campaign, pool)
    return campaign.folder


def _lacking(asked: list[Study], engine: str) -> dict[str, str]:
    """Question -> why it cannot be measured here. Raises EngineMissing where one alone is asked."""
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
