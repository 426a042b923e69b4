"""What is looked up on this machine before a study of the user's own settings is measured: which
options its script takes, which variables need a server start, which rate is a share of a capacity."""

import contextlib
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from noisefloor import parse, paths, schedule, studies
from noisefloor.data import tidy
from noisefloor.measure import child, course, loading, tools
from noisefloor.measure.campaign import CampaignError
from noisefloor.measure.folder import resumable
from noisefloor.measure.preflight import values
from noisefloor.measure.progress import Progress
from noisefloor.model import Request, Resolved, Study, StudyError
from noisefloor.servers import engines
from noisefloor.servers.server import Server, ServerError
from noisefloor.studies.ab import SLOWLY, offered, refused, share_of

_WINDOWS = 3  # in a closed loop; their median is the capacity


def script_facts(request: Request) -> Resolved:
    """A Resolved with `sized` and `digest` ("" for a script of sysbench) of the request's script.
    Raises StudyError if it is no script, or asks no server anything."""
    workload, lua = request.workload, request.lua
    if lua and (Path(lua).suffix != ".lua" or not Path(lua).is_file()):
        raise refused(f"lua {lua}: the path of a Lua file (.lua) is needed")
    if not lua and not re.fullmatch(r"\w+", workload):
        raise refused(
            f"workload {workload!r}: the name of a sysbench script is needed, such as"
            " oltp_read_write; a file of your own is given as --lua"
        )
    name = str(Path(lua).resolve()) if lua else workload
    try:
        sized = loading.sized(name)
    except child.ToolError as e:
        raise refused(str(e)) from None
    return Resolved(sized=sized, digest=tidy.sha256(Path(lua)) if lua else "")


def static_variables(study: Study, build: engines.Engine) -> tuple[str, ...]:
    """The study's variables that need a server start: a live server refuses them or applies them only
    over time (`studies.ab.SLOWLY`). Tries each value on a server without data. Raises StudyError for
    a variable or value that this build does not have."""
    wanted = values(study.baseline.switch, *(a.switch for a in study.arms))
    progress = Progress()
    with course.machine(progress.say) as folder:
        progress.say(f"{engines.label(build)}: trying the values of {', '.join(wanted)}")
        try:
            server = Server(build, folder / "look", study.settings, keyring=True).initialise()
            with server:
                slow = [n for n in wanted if n in SLOWLY]
                others = (n for n in wanted if n not in slow)
                need_start = (*slow, *(n for n in others if not server.takes(n, wanted[n])))
                server.stop()
            for name in need_start:
                for value in wanted[name]:
                    with server.trial(folder / "try", {name: value}):
                        pass  # it started
        except ServerError as e:
            raise refused(str(e)) from None
    return need_start


def rate_of(request: Request, resolved: Resolved, build: engines.Engine) -> tuple[int, int]:
    """(rate, capacity), both in transactions a second, for a request whose rate is a share ("25%") of the
    capacity, which is measured now; (the campaign's own rate, 0) if a campaign will be continued.
    Raises one of `campaign.FAILURES`."""
    share = str(request.rate)
    for file in sorted(paths.runs().glob("ab-*/campaign.json"), reverse=True):
        with contextlib.suppress(tidy.Damaged, StudyError, LookupError, TypeError):
            begun = tidy.meta(file.parent)
            if begun["parameters"]["rate"] == share:
                frozen: int = begun["workloads"][0]["rate"]
                study = studies.load(request, replace(resolved, rate=frozen))
                if resumable(study, build, partial(course.end, study, Progress()), request.seed):
                    return frozen, 0
    _, percent = offered(share)
    study = studies.load(request, resolved)
    tps = _capacity(study, build, request.lua)
    per_s = share_of(tps, percent)
    Progress().say(
        f"capacity {tps:,.0f} transactions a second; {percent} % of it, to two digits: {per_s:,}"
    )
    return per_s, round(tps)


def _capacity(study: Study, build: engines.Engine, lua: str) -> float:
    """Transactions a second of the baseline in a closed loop, on a server of this build: the median of
    `_WINDOWS` slices with the study's most clients, after a warm-up. Raises CampaignError."""
    (work,), base, progress = study.workloads, study.baseline, Progress()
    clients = max(work.threads)
    length = schedule.slice_s(study, schedule.Cell(work, clients, base))
    with course.machine(progress.say) as folder:
        progress.say(f"{engines.label(build)}: measuring its capacity, {clients} clients")
        loading.place_script(lua, study, folder)
        template = loading.templates(study, {"": build}, folder)[""]
        with template.trial(folder / "capacity", base.settings) as server:
            server.only(dict(work.settings) | dict(base.switch))
            run = tools.Slice(study, server, base, work, clients, length, folder)
            texts = [
                child.run(tools.load_argv(run, seconds), 3 * seconds + child.PATIENCE_S)[1]
                for seconds in (study.profile.warmup_s, *[length] * _WINDOWS)
            ]
    try:
        windows = [parse.sysbench(text) for text in texts[1:]]
    except parse.ParseError as e:
        raise CampaignError(f"the capacity is not known: {e}; nothing was measured") from None
    return median(w["transactions"] / w["duration_s"] for w in windows)
