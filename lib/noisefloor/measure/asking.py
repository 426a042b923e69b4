"""Turns a request into the studies that this machine can measure."""

from collections.abc import Callable
from dataclasses import replace

from noisefloor import parse, schedule, studies
from noisefloor.measure import ab
from noisefloor.measure import clients as client_hosts
from noisefloor.model import Request, Resolved, Study, from_clients
from noisefloor.servers import engines
from noisefloor.studies.ab import refused


def checked(request: Request) -> tuple[list[Study], Resolved, int]:
    """(the studies of the asked questions, before a build is looked for; what is known of the
    script; how many hosts of the request's cluster make the load, 0 for this machine). Raises
    StudyError for a wrong parameter, ServerError if the cluster cannot be used."""
    if parse.scrub("; ".join(request.settings))[1]:
        raise refused("a setting has a password, which the page would show")
    resolved = ab.script_facts(request) if request.study == "own-study" else Resolved()
    keys = _keys(request, request.engine)
    if request.server and request.clients:
        raise refused("--clients needs a server of its own")
    hosts = client_hosts.count(request.clients) if request.clients else 0
    asked = [studies.load(replace(request, question=key), resolved) for key in keys]
    for study in asked:
        schedule.check(from_clients(study, hosts) if hosts else study)
    if request.server and len(keys) > 1:
        raise refused("--server takes one question at a time")
    return asked, resolved, hosts


def on_builds(request: Request, resolved: Resolved) -> tuple[list[Study], Request]:
    """(the studies of the asked questions for the builds on this machine; the request, with the
    measured `capacity` if its rate is a share). A build may be of another kind than asked for: one
    given by its path, or a fall-back. Raises one of `campaign.FAILURES`."""
    engine = studies.engine_of(request.study, request.engine)
    builds = {name: engines.find(name) for name in (engine, request.old) if name}
    build = builds[engine]
    if studies.builds(request.study):  # two of them are compared, whatever the question
        labels = {name: (b.kind, engines.label(b)) for name, b in builds.items()}
        resolved = replace(resolved, builds=labels)
    else:
        resolved = replace(resolved, engine=build.kind)
    if request.study == "own-study":
        study = studies.load(request, resolved)  # with the settings of that kind
        resolved = replace(resolved, static=ab.static_variables(study, build))
        if "%" in str(request.rate):
            rate, capacity = ab.rate_of(request, resolved, build)
            resolved, request = replace(resolved, rate=rate), replace(request, capacity=capacity)
    if request.question == "all":  # a path may be of the other kind, which has other questions
        engine = resolved.engine or engine
    keys = _keys(request, engine)
    return [studies.load(replace(request, question=key), resolved) for key in keys], request


def _keys(request: Request, engine: str) -> tuple[str, ...]:
    """Keys of the questions to answer; ("",) for an own study. A guest answers one at a time."""
    name, question = request.study, request.question
    if question == "all":
        return tuple(studies.questions(name, engine)) or ("",)
    if request.server and not question:
        return tuple(studies.questions(name, engine))[:1] or ("",)
    return (question,) if question else studies.headline(name, engine)


# -- the builds that a study needs -----------------------------------------------------------------


def lacks(study: Study, engine: str, find: Callable[[str], engines.Engine] | None = None) -> str:
    """Why a build cannot do what an arm of the study needs, in words; "" if all can. find: looks a
    build up by its name. Raises EngineMissing for one that is not there."""
    find = find or engines.find
    for arm in study.compared:
        build = find(arm.engine or engine)
        if arm.expect.get("thread pool") == "on" and not build.thread_pool:
            return f"{engines.label(build)} has no thread pool, which {arm.name} needs"
        client = find(arm.how["client"]) if "client" in arm.how else None
        if client and not engines.brings_libraries(client):
            return f"{engines.label(client)} brings no libraries for the client of {arm.name}"
    return ""
