"""A campaign on a server that Noisefloor did not start, whose settings are restored."""

import json
from pathlib import Path
from typing import cast

from noisefloor import paths, schedule, stats
from noisefloor.measure import course, loading, loop, tools, workloads
from noisefloor.measure.campaign import warm_up
from noisefloor.measure.preflight import planned, values
from noisefloor.measure.progress import Progress, Say
from noisefloor.measure.server_pool import ServerPool
from noisefloor.model import Request, Study, as_guest
from noisefloor.servers import engines, guest, innodb
from noisefloor.servers.address import address as address_of
from noisefloor.servers.server import Server, SettingError
from noisefloor.servers.session import SCHEMA
from noisefloor.studies.ab import SLOWLY, refused


def measure_as_guest(study: Study, request: Request, dry: Say | None = None) -> Path | None:
    """As `collect.measure_campaign`, on the request's server. `dry`: takes every statement that would
    be sent; None is returned and nothing is changed."""
    allow = request.allow
    if unknown := set(allow) - set(guest.ALLOWED):
        known = ", ".join(guest.ALLOWED)
        raise refused(f"--allow {', '.join(sorted(unknown))}: there are {known}")
    where, progress = address_of(request.server), Progress()
    # a wrong study is reported before the server is asked anything
    schedule.check(as_guest(study, *_start_floor(), cpu=True))
    threads = max(t for w in study.workloads for t in w.threads)
    with course.machine(progress.say, waits=not dry) as folder:
        if not dry:
            guest.restore_others(where.url, progress.say)
        with guest.visit(where, folder / "guest", threads, allow, progress.say, dry) as theirs:
            study = as_guest(study, *_start_floor(theirs.near), cpu=bool(theirs.pid))
            if dry:
                _dry_run(study, theirs, dry)
                return None
            _taken(study, theirs)
            theirs.move_in()
            with course.open_campaign(study, {"": theirs.engine}, request, progress) as campaign:
                if not theirs.near:  # the machine that measures is not the one that is measured
                    campaign.save(host={"cpu": "a server elsewhere"})
                progress.say(f"{engines.label(theirs.engine)}: loading {study.tables} tables")
                loading.place_script(request.lua, study, folder)
                server = cast(Server, theirs)  # it has what a measurement asks of one
                loading.fill(server, study)
                pool = ServerPool(folder, {}, study)
                pool.servers = [server]
                with course.cleaned_up(campaign, pool):
                    progress.say(planned(campaign))
                    loop.as_guest(campaign, pool)
        course.finish(campaign)
    return campaign.folder


def _start_floor(near: bool = False) -> tuple[dict[str, tuple[float, float]], str]:
    """(metric -> (start-to-start CV in percent, degrees of freedom); in words, where these are from):
    as measured on this machine, else as recorded. `near`: whether the server is on this machine."""
    file = paths.noise_file("floor")
    known = json.loads(file.read_text(encoding="utf-8"))
    here = file != paths.noise_file("floor", local=False)
    whose = "as measured on this machine" if here else "as recorded on other machines"
    whose += ", not on the server's" if here and not near else ""
    metrics = (m for m, entry in known.items() if isinstance(entry, dict))
    starts = {m: start for m in metrics if (start := stats.scatter.start_scatter(m))}
    return {m: (100 * start.cv, float(start.df)) for m, start in starts.items()}, whose


def _taken(study: Study, server: guest.Guest) -> None:
    """Raise StudyError for a variable of the study that the live server does not take."""
    settings = (*(w.settings for w in study.workloads), *(a.switch for a in study.compared))
    for name, given in values(*settings).items():
        try:
            live = name not in SLOWLY and server.takes(name, given)
        except SettingError as e:
            raise refused(str(e)) from None
        if not live:
            raise refused(
                f"{name} needs a restart, and a server that Noisefloor did not start is never restarted;"
                " without --server it is measured on throwaway servers"
            )


def _dry_run(study: Study, server: guest.Guest, say: Say) -> None:
    """Say every statement that a campaign would send; those that change something are not sent."""

    def load(cell: schedule.Cell, seconds: float) -> None:
        made = (cell.arm, cell.workload, cell.threads, seconds, server.folder)
        argv = tools.load_argv(tools.Slice(study, cast(Server, server), *made), seconds)
        say(f"-- {' '.join(workloads.portable(argv))}")

    arms = study.compared
    journal = paths.relative(server.journal.path)
    say("-- the value of each variable is read and written to the journal before it is set:")
    say(f"-- {journal}")
    say("-- does the server take each value?")
    _taken(study, server)
    say("-- a schema of its own, the tables in it, and a warm-up")
    server.move_in()
    options, size = server.folder / "sysbench.cnf", (study.tables, study.profile.rows)
    argv = workloads.prepare_argv(options, study.workloads[0], *size)
    say(f"-- {' '.join(workloads.portable(argv))}")
    load(warm_up(study), study.profile.warmup_s)
    for w in study.workloads:
        for arm in arms:
            say(f"-- before each run of {w.name} under {arm.name}, where it is not so already:")
            server.only(dict(w.settings) | dict(arm.switch))
            innodb.settle(server, 0)
        for threads in w.threads:
            cell = schedule.Cell(w, threads, arms[0])
            load(cell, schedule.slice_s(study, cell))
    say(f"-- sysbench's statements are in its scripts; it uses the schema {SCHEMA}")
    say("-- at the end, however it ends:")
    say(f"SHOW TABLES FROM {SCHEMA};  -- is it the schema that was created?")
