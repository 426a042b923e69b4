"""Parameters as studies that this machine can measure."""

from collections.abc import Callable, Mapping
from typing import Any

from noisefloor import parse, schedule, studies
from noisefloor.measure import ab
from noisefloor.measure import clients as client_hosts
from noisefloor.measure.progress import Say
from noisefloor.model import Study, StudyError, from_clients
from noisefloor.servers import engines, kinds


def completed(name: str, given: Mapping[str, Any], *, guest: bool) -> dict[str, Any]:
    """The parameters of the study called `name`, with its engine and, of an own study, what is to
    be known of its script. `guest`: on a server that Noisefloor did not start. Raises
    StudyError."""
    parameters = dict(given)
    parameters["engine"] = parameters.get("engine") or studies.default_engine(name)
    if parse.scrub("; ".join(parameters.get("settings", ())))[1]:
        raise StudyError(
            "a setting has a password, which the page would show; nothing was measured"
        )
    if name == "own-study":
        parameters |= ab.script_facts(parameters.get("workload", ""), parameters.get("lua", ""))
        parameters |= {"guest": True} if guest else {}
    return parameters


def checked(
    name: str, question: str, parameters: Mapping[str, Any], clients: str, *, guest: bool
) -> tuple[list[Study], int]:
    """The questions that are asked, before a build is looked for, and how many hosts of the cluster
    at `clients` load (0: this machine). Raises StudyError for a wrong parameter, ServerError where
    the cluster is not there."""
    keys = _keys(name, question, parameters["engine"], guest=guest)
    if guest and clients:
        raise StudyError("--clients needs a server of its own; nothing was measured")
    hosts = client_hosts.count(clients) if clients else 0
    asked = [studies.load(name, question=key, **parameters) for key in keys]
    for study in asked if hosts else ():
        from_clients(study, hosts)
    if guest and len(keys) > 1:
        raise StudyError("--server takes one question at a time; nothing was measured")
    return asked, hosts


def on_builds(name: str, question: str, parameters: Mapping[str, Any]) -> list[Study]:
    """The questions that are asked, as the builds on this machine make them: a path, or a
    fall-back, says itself what it is. Raises EngineMissing, StudyError, CampaignError."""
    engine = parameters["engine"]
    builds = {p: engines.find(parameters[p]) for p in ("engine", "old") if p in parameters}
    known: dict[str, Any] = {}
    if studies.builds(name):  # two of them are compared, whatever the question
        known["builds"] = {parameters[p]: (b.kind, engines.label(b)) for p, b in builds.items()}
    else:
        known["engine"] = builds["engine"].kind
        if name == "own-study":
            study = studies.load(name, **{**parameters, **known})  # with the settings of that kind
            known["static"] = ab.static_variables(study, builds["engine"])
            if "%" in str(parameters.get("rate")):
                known["rate"] = ab.rate_of({**parameters, **known}, builds["engine"])
    if question == "all":  # a path may be of the other kind, which has other questions
        engine = known.get("engine", engine)
    keys = _keys(name, question, engine)
    return [studies.load(name, question=key, **{**parameters, **known}) for key in keys]


def _keys(name: str, question: str, engine: str, *, guest: bool = False) -> tuple[str, ...]:
    """The questions to answer; on a guest the first, where the arms take turns."""
    if question == "all":
        return tuple(studies.questions(name, engine)) or ("",)
    if guest and not question:
        return tuple(studies.questions(name, engine))[:1] or ("",)
    return (question,) if question else studies.headline(name, engine)


# -- the builds that it needs ----------------------------------------------------------------------


def lacks(study: Study, engine: str, find: Callable[[str], engines.Engine] | None = None) -> str:
    """What a build of the study cannot do that its arms need, in words; "" for nothing. find: a
    build by its name. Raises EngineMissing for one that is not there."""
    find = find or engines.find
    for arm in study.compared:
        build = find(arm.engine or engine)
        if arm.expect.get("thread pool") == "on" and not build.thread_pool:
            return f"{engines.label(build)} has no thread pool, which {arm.name} needs"
        client = find(arm.how["client"]) if "client" in arm.how else None
        if client and not engines.brings_libraries(client):
            return f"{engines.label(client)} brings no libraries for the client of {arm.name}"
    return ""


def builds_of(study: Study, parameters: Mapping[str, Any], say: Say) -> dict[str, engines.Engine]:
    """The builds that a study's arms need, by the names in its file ("": the study's own); prints why
    another one was taken. Raises EngineMissing, StudyError for a study that
    cannot be measured."""
    schedule.check(study)
    names = {"", *(a.engine for a in study.compared)}
    builds = {n: engines.find(n or parameters.get("engine", kinds.USUAL)) for n in names}
    if note := builds[""].note:
        say(note)
    return builds
