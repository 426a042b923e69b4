"""Campaigns for who asks: the notebooks and the command line. Measures what is missing, one
campaign at a time on a machine; the same parameters continue one that was interrupted."""

import contextlib
import json
import os
import re
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from noisefloor import parse, paths, schedule, stats, studies
from noisefloor.data import results, tidy
from noisefloor.measure import child, loading, loop, tools
from noisefloor.measure import clients as client_hosts
from noisefloor.measure.bench import Bench
from noisefloor.measure.campaign import Campaign, CampaignError
from noisefloor.measure.child import ToolError
from noisefloor.measure.folder import description, now, resumable, write_json
from noisefloor.measure.loading import templates
from noisefloor.measure.lock import alone
from noisefloor.measure.preflight import dry_run, planned, room, taken, values
from noisefloor.measure.progress import Progress
from noisefloor.model import Study, StudyError, as_guest, from_clients
from noisefloor.servers import engines, evidence, guest, kinds
from noisefloor.servers.address import address as address_of
from noisefloor.servers.server import Server, ServerError
from noisefloor.servers.workshop import workshop
from noisefloor.studies.own import SLOWLY, offered, share_of

# what can go wrong with a measurement, each one sentence for its reader
FAILURES = (
    engines.EngineMissing,
    ServerError,
    evidence.EvidenceError,
    CampaignError,
    StudyError,
    tidy.Damaged,
    paths.NotFound,
)
_FOUND = {"sized", "digest", "guest"}  # parameters that nobody gives
WINDOWS = 3  # in a closed loop, whose median is a capacity


# -- one campaign ----------------------------------------------------------------------------------


def measure(
    study: Study,
    *,
    parameters: dict | None = None,
    lua: str = "",
    address: str = "",
    seed: int | None = None,
) -> Path:
    """Measure the declared blocks, or until the budget is spent; the campaign's folder.

    `lua`: where the study's script of the user's own lies; `address`: of its clients; `seed`: of
    the coins (None: a new one). The same study and parameters continue a campaign that was
    interrupted. Raises EngineMissing, ServerError, EvidenceError, CampaignError: one sentence each,
    what was whole is kept."""
    progress = Progress()
    schedule.check(study)
    parameters = json.loads(json.dumps(parameters or {}))
    names = {"", *(a.engine for a in study.compared)}
    builds = {n: engines.find(n or parameters.get("engine", kinds.USUAL)) for n in names}
    if note := builds[""].note:
        progress.say(note)
    with _machine(progress) as shop:
        for half in paths.runs().glob("*.partial"):  # killed before it was a campaign
            shutil.rmtree(half)
        campaign = _campaign(study, builds, parameters, progress, seed)
        guest.restore_others("", progress.say)
        used = {engines.label(builds[a.engine]) for a in study.compared}
        labels = " and ".join(sorted(used))
        progress.say(f"{labels}: initialising, loading {study.tables} tables")
        if lua:
            shutil.copyfile(lua, shop / study.workloads[0].script)
        bench = Bench(shop, templates(study, builds, shop), study, address)
        with _ended(campaign, bench):
            progress.say(planned(campaign))
            progress.say(room(campaign, bench))
            campaign.prepare(bench)
            loop.DESIGNS[study.design](campaign, bench)
        _finish(campaign)
    return campaign.folder


def measure_as_guest(
    study: Study,
    server: str,
    allow: tuple[str, ...] = (),
    *,
    parameters: dict,
    lua: str = "",
    dry: Callable[[str], None] | None = None,
) -> Path | None:
    """As `measure`, on a server that Noisefloor did not start (a URL), which is left as it was.

    `allow`: what is measured all the same, by name (`guest.ALLOWED`). `dry`: takes every statement
    that would be sent; None is returned and nothing is changed."""
    if unknown := set(allow) - set(guest.ALLOWED):
        raise StudyError(
            f"--allow {', '.join(sorted(unknown))}: there are {', '.join(guest.ALLOWED)};"
            " nothing was measured"
        )
    where, progress = address_of(server), Progress()
    # a wrong study is said before anybody's server is asked anything
    floor, whose = _start_floor(where.near)
    schedule.check(as_guest(study, floor, whose, cpu=True))
    threads = max(t for w in study.workloads for t in w.threads)
    with _machine(progress, waits=not dry) as shop:
        if not dry:
            guest.restore_others(where.url, progress.say)
        with guest.visit(where, shop / "guest", threads, allow, progress.say, dry) as theirs:
            study = as_guest(study, floor, whose, cpu=bool(theirs.pid))
            if dry:
                return dry_run(study, theirs, dry)
            taken(study, theirs)
            theirs.move_in()
            campaign = _campaign(study, {"": theirs.engine}, parameters, progress)
            if not where.near:  # the machine that measures is not the one that is measured
                campaign.save(host={"cpu": "a server elsewhere"})
            progress.say(f"{engines.label(theirs.engine)}: loading {study.tables} tables")
            if lua:
                shutil.copyfile(lua, shop / study.workloads[0].script)
            loading.fill(theirs, study)
            bench = Bench(shop, {}, study)
            bench.servers = [theirs]
            with _ended(campaign, bench):
                progress.say(planned(campaign))
                loop.as_guest(campaign, bench)
        _finish(campaign)
    return campaign.folder


@contextlib.contextmanager
def _machine(progress: Progress, waits: bool = True) -> Iterator[Path]:
    """The machine for one campaign alone, and a folder for its servers. A disk that is full is told
    in one sentence."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))  # a client has a socket each
    try:
        with alone(progress.say) if waits else contextlib.nullcontext(), workshop() as shop:
            yield shop
    except OSError as e:
        at = f" ({paths.shown(Path(os.fsdecode(e.filename)))})" if e.filename else ""
        raise CampaignError(
            f"{e.strerror or e}{at}: measuring stopped; whole runs are kept, the same command"
            " continues"
        ) from e


def _campaign(
    study: Study,
    builds: Mapping[str, engines.Engine],
    parameters: dict,
    progress: Progress,
    seed: int | None = None,
) -> Campaign:
    """An interrupted campaign of the same study and build, else a new one."""
    folder = resumable(study, builds[""], progress.say)
    if folder:
        progress.say(f"continuing {folder.name}")
    else:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        asked = "-".join(filter(None, (study.name, study.key, study.profile.name)))
        folder = paths.runs() / f"{asked}-{stamp}"
        new = folder.with_name(f"{folder.name}.partial")
        new.mkdir(parents=True)
        facts = description(study, builds[""], parameters, builds)
        write_json(new / "campaign.json", facts | ({} if seed is None else {"seed": seed}))
        new.rename(folder)
    return Campaign(study, folder, tidy.meta(folder), progress)


@contextlib.contextmanager
def _ended(c: Campaign, bench: Bench) -> Iterator[None]:
    """However it ends, our servers end with it, and what is known is written down."""
    try:
        yield
    finally:
        bench.close(keep=bool(c.study.floor))
        with contextlib.suppress(OSError):  # a full disk is told of where it was met
            c.save()


def _finish(c: Campaign) -> None:
    because = c.why_ended()
    c.save(finished=now(), ended_because=because)
    tidy.seal(c.folder)
    said = f"{c.folder.name}: {because}, {c.meta['spent_s']:.0f} s of measuring"
    c.progress.close(said)
    if not any(c.done().values()):
        raise CampaignError(
            f"{said}, and no pair of runs was whole: nothing can be judged; the same command"
            " measures anew"
        )
    if full := _saturated(c):
        raise CampaignError(f"{said}: {full}")


def _saturated(c: Campaign) -> str:
    """What is said of a campaign with no window that was not saturated; "" of another."""
    table = c.table[~c.table["warmup"]]
    full = table[table["metric"].eq("saturated") & table["value"].gt(0)]["pair_id"].nunique()
    if full < table["pair_id"].nunique():
        return ""
    texts = (file.read_text() for file in c.folder.glob("*-p[0-9]*/sysbench.txt"))
    reached = [float(tps) for text in texts for tps in re.findall(r"\btps: ([\d.]+)", text)]
    rate = min(w.rate for w in c.study.workloads)
    return (
        f"{schedule.SATURATED[True].format(full, full)}; a server finished about"
        f" {median(reached or [0]):,.0f} of {rate:,} transactions a second"
    )


def _start_floor(near: bool) -> tuple[dict[str, tuple[float, float]], str]:
    """Metric -> (start-to-start CV in percent, degrees of freedom), of this machine where it was
    measured, else as recorded; and whose that is, in words. `near`: whether the server is here."""
    file = paths.known("floor")
    found = json.loads(file.read_text(encoding="utf-8"))
    campaign = found["source"].partition(":")[0]
    whose = f"as measured on the machine of the recorded {campaign}, not on the server's"
    if file != paths.known("floor", own=False):
        whose = f"as measured on this machine ({campaign}){'' if near else ', not on the server'}"
    starts = {m: stats.scatter.start(m) for m, f in found.items() if isinstance(f, dict)}
    return {m: (100 * start.cv, float(start.df)) for m, start in starts.items()}, whose


# -- the campaigns of a study ----------------------------------------------------------------------


def obtain(name: str, campaign: str = "", **asked) -> tuple[Path, ...]:
    """The folders of the campaigns of a page: those called `campaign` (several with commas
    between), else what `measured` measures when it is `asked` so, and what was measured of its
    other questions. What a notebook calls.

    With `campaign` the other parameters do not matter: a campaign keeps those it was made with."""
    if campaign:
        return tuple(paths.campaign(c.strip()) for c in campaign.split(","))
    found = measured(name, **asked)
    return results.beside(found[0]) if found else ()


def measured(
    name: str,
    question: str = "",
    clients: str = "",
    server: str = "",
    allow: tuple[str, ...] = (),
    dry: Callable[[str], None] | None = None,
    seed: int | None = None,
    **parameters,
) -> tuple[Path, ...]:
    """The campaigns that answer `question` of the study called `name` ("": its headline, "all":
    every one), measured now, one after the other. `clients`: the cluster whose workers load;
    `server`, `allow`, `dry`: as `measure_as_guest` takes them; `seed`: as `measure`."""
    engine = parameters["engine"] = parameters.get("engine") or studies.default_engine(name)
    if parse.scrub("; ".join(parameters.get("settings", ())))[1]:
        raise StudyError(
            "a setting holds a password, which would stand on the page; nothing was measured"
        )
    lua = parameters.get("lua", "")
    if name == "own-study":
        parameters |= _script(parameters.get("workload", ""), lua)
        parameters |= {"guest": True} if server else {}
    keys = _keys(name, question, engine, guest=bool(server))
    if server and clients:
        raise StudyError("--clients needs a server of its own; nothing was measured")
    several = client_hosts.count(clients) if clients else 0
    for key in keys:  # a wrong parameter is said before a build is looked for
        chosen = studies.load(name, question=key, **parameters)
        if several:
            from_clients(chosen, several)
    known = parameters | ({"lua": Path(lua).name} if lua else {})
    if server:
        if len(keys) > 1:
            raise StudyError("--server takes one question at a time; nothing was measured")
        known = {k: v for k, v in known.items() if k not in _FOUND | {"engine"}}
        known |= {"allow": list(allow)} if allow else {}
        made = measure_as_guest(chosen, server, tuple(allow), parameters=known, lua=lua, dry=dry)
        return (made,) if made else ()
    # a path, or a fall-back: the build says what it is
    kind = {}
    found = {p: engines.find(parameters[p]) for p in ("engine", "old") if p in parameters}
    if studies.builds(name):  # two of them are compared, whatever the question
        builds = {parameters[p]: (b.kind, engines.label(b)) for p, b in found.items()}
        kind = {"builds": builds}
    else:
        kind = {"engine": found["engine"].kind}
        if name == "own-study":
            own = studies.load(name, **(parameters | kind))  # with the settings of that kind
            kind["static"] = _static(own, found["engine"])
            if "%" in str(parameters.get("rate")):
                parameters["rate"] = _frozen(parameters | kind, found["engine"])
    if question == "all":  # a path may be of the other kind, which has other questions
        keys = _keys(name, question, kind.get("engine", engine))
    asked = [studies.load(name, question=key, **(parameters | kind)) for key in keys]
    lacking = _lacking(asked, engine)
    if lacking and question != "all":
        raise StudyError(f"{next(iter(lacking.values()))}; nothing was measured")
    for key, why in lacking.items():
        Progress().say(f"{key} is left out: {why}")
    asked = [from_clients(one, several) if several else one for one in asked]
    more = {"parameters": known, "lua": lua, "address": clients, "seed": seed}
    return tuple(measure(one, **more) for one in asked if one.key not in lacking)


def lacks(study: Study, engine: str, find: Callable[[str], engines.Engine] | None = None) -> str:
    """What a build of the study cannot do that its arms need, in words; "" for nothing. find: a build
    by its name. Raises EngineMissing for one that is not there."""
    find = find or engines.find
    for arm in study.compared:
        build = find(arm.engine or engine)
        if arm.expect.get("thread pool") == "on" and not build.thread_pool:
            return f"{engines.label(build)} has no thread pool, which {arm.name} needs"
        client = find(arm.how["client"]) if "client" in arm.how else None
        if client and not engines.brings_libraries(client):
            return f"{engines.label(client)} brings no libraries for the client of {arm.name}"
    return ""


def _lacking(asked: list[Study], engine: str) -> dict[str, str]:
    """Question -> why it cannot be measured here. Raises EngineMissing where one alone is asked."""
    found = {}
    for one in asked:
        try:
            why = lacks(one, engine)
        except engines.EngineMissing as e:
            if len(asked) == 1:
                raise
            why = str(e)
        found |= {one.key: why} if why else {}
    return found


def _keys(name: str, question: str, engine: str, *, guest: bool = False) -> tuple[str, ...]:
    """The questions to answer; on a guest the first, where the arms take turns."""
    if question == "all":
        return tuple(studies.questions(name, engine)) or ("",)
    if guest and not question:
        return tuple(studies.questions(name, engine))[:1] or ("",)
    return (question,) if question else studies.headline(name, engine)


def _script(workload: str, lua: str) -> dict:
    """What is to be known of an own study's script before anything is measured. Raises
    StudyError."""
    if lua and (Path(lua).suffix != ".lua" or not Path(lua).is_file()):
        raise StudyError(
            f"lua {lua}: the path of a Lua file (.lua) is needed; nothing was measured"
        )
    if not lua and not re.fullmatch(r"\w+", workload or "oltp_read_write"):
        raise StudyError(
            f"workload {workload!r}: the name of a sysbench script is needed, such as"
            " oltp_read_write; a file of your own is given as --lua; nothing was measured"
        )
    script = str(Path(lua).resolve()) if lua else workload or "oltp_read_write"
    try:
        found = {"sized": loading.sized(script)}
    except ToolError as e:
        raise StudyError(f"{e}; nothing was measured") from None
    return found | ({"digest": tidy.sha256(Path(lua))} if lua else {})


def _static(study: Study, build: engines.Engine) -> tuple[str, ...]:
    """The study's variables that only a start of the server sets, each value tried on a server
    without data. Raises StudyError for a variable or value that this build does not have."""
    wanted = values(study.baseline.switch, *(a.switch for a in study.arms))
    progress = Progress()
    with alone(progress.say), workshop() as shop:
        progress.say(f"{engines.label(build)}: trying the values of {', '.join(wanted)}")
        try:
            server = Server(build, shop / "look", study.settings, keyring=True).initialise()
            with server:
                slow = [n for n in wanted if n in SLOWLY]
                others = (n for n in wanted if n not in slow)
                static = (*slow, *(n for n in others if not server.takes(n, wanted[n])))
                server.stop()
            for name in static:
                for value in wanted[name]:
                    with server.trial(shop / "try", {name: value}):
                        pass  # it started
        except ServerError as e:
            raise StudyError(f"{e}; nothing was measured") from None
    return static


def _frozen(parameters: dict, build: engines.Engine) -> int:
    """The transactions a second that a share of a capacity ("25%") stands for: those of the
    campaign that is continued, else of the capacity as it is measured now."""
    share = parameters["rate"]
    for file in sorted(paths.runs().glob("ab-*/campaign.json"), reverse=True):
        with contextlib.suppress(tidy.Damaged, StudyError, LookupError, TypeError):
            begun = tidy.meta(file.parent)
            if begun["parameters"]["rate"] == share:
                rate = begun["workloads"][0]["rate"]
                study = studies.load("own-study", **(parameters | {"rate": rate}))
                if resumable(study, build, lambda _: None):
                    return rate
    _, percent = offered(share)
    study = studies.load("own-study", **parameters)
    tps = _capacity(study, build, parameters.get("lua", ""))
    rate = share_of(tps, percent)
    Progress().say(
        f"capacity {tps:,.0f} transactions a second; {percent} % of it, to two digits: {rate:,}"
    )
    return rate


def _capacity(study: Study, build: engines.Engine, lua: str) -> float:
    """Transactions a second of the baseline alone in a closed loop, with the study's clients, data
    and length of windows: the median of some, after a warm-up. Raises CampaignError."""
    (work,), base, progress = study.workloads, study.baseline, Progress()
    clients = max(work.threads)
    length = schedule.slice_s(study, schedule.Cell(work, clients, base))
    with _machine(progress) as shop:
        progress.say(f"{engines.label(build)}: measuring its capacity, {clients} clients")
        if lua:
            shutil.copyfile(lua, shop / work.script)
        template = templates(study, {"": build}, shop)[""]
        with template.trial(shop / "capacity", base.settings) as server:
            server.only(dict(work.settings) | dict(base.switch))
            s = tools.Slice(study, server, base, work, clients, length, shop)
            texts = [
                child.run(tools.load_argv(s, seconds), 3 * seconds + child.PATIENCE_S)[1]
                for seconds in (study.profile.warmup_s, *[length] * WINDOWS)
            ]
    try:
        found = [parse.sysbench(text) for text in texts[1:]]
    except parse.ParseError as e:
        raise CampaignError(f"the capacity is not known: {e}; nothing was measured") from None
    return median(f["transactions"] / f["duration_s"] for f in found)
