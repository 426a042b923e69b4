"""What is said, and checked, before anything is measured."""

import math
import shutil
from collections.abc import Callable, Mapping

from noisefloor import paths, schedule
from noisefloor.measure import workloads
from noisefloor.measure.bench import Bench
from noisefloor.measure.campaign import Campaign, CampaignError
from noisefloor.measure.progress import minutes
from noisefloor.model import METRICS, Study, StudyError
from noisefloor.servers import guest
from noisefloor.servers.kept import size_of
from noisefloor.servers.server import SettingError
from noisefloor.studies.own import SLOWLY


def values(*parts: Mapping[str, str]) -> dict[str, dict[str, None]]:
    """Variable -> the values that these settings give it."""
    found: dict[str, dict[str, None]] = {}
    for part in parts:
        for name, value in part.items():
            found.setdefault(name, {})[value] = None
    return found


def taken(study: Study, server: guest.Guest) -> None:
    """Raise StudyError for a variable of the study's that the live server does not take."""
    arms = study.compared
    wanted = values(*(w.settings for w in study.workloads), *(a.switch for a in arms))
    for name, given in wanted.items():
        try:
            live = name not in SLOWLY and server.takes(name, given)
        except SettingError as e:
            raise StudyError(f"{e}; nothing was measured") from None
        if not live:
            raise StudyError(
                f"{name} needs a start of the server to act, and one that Noisefloor did not start"
                " is never restarted; without --server it is measured on servers of its own;"
                " nothing was measured"
            )


def dry_run(study: Study, server: guest.Guest, say: Callable[[str], None]) -> None:
    """Say every statement that a campaign would send; those that change something are not sent."""
    arms = study.compared
    journal = paths.shown(server.journal.path)
    say("-- how each variable was is read and written to the journal before it is set:")
    say(f"-- {journal}")
    say("-- does the server take each value?")
    taken(study, server)
    say("-- a schema of its own, and the tables in it")
    server.move_in()
    first, options = study.workloads[0], server.folder / "sysbench.cnf"
    size = (study.tables, study.profile.rows)
    argv = workloads.prepare(options, first.script, *size, 2, first.sized)
    say(f"-- {' '.join(workloads.shown(argv))}")
    for w in study.workloads:
        for arm in arms:
            say(f"-- before each run of {w.name} under {arm.name}, where it is not so already:")
            server.only(dict(w.settings) | dict(arm.switch))
            server.settle(0)
        for threads in w.threads:
            argv = workloads.sysbench(
                w, options, tables=study.tables, rows=study.profile.rows, threads=threads,
                seconds=schedule.slice_s(study, schedule.Cell(w, threads, arms[0])),
            )  # fmt: skip
            say(f"-- {' '.join(workloads.shown(argv))}")
    say(f"-- what sysbench sends stands in its scripts; it uses the schema {workloads.SCHEMA}")
    say("-- at the end, however it ends:")
    say(f"SHOW TABLES FROM {workloads.SCHEMA};  -- is it the schema that was created?")


def planned(c: Campaign) -> str:
    """The plan in words, before anything is measured."""
    each = f" an arm, {len(c.study.arms)} arms" if len(c.study.arms) > 1 else ""
    if control := c.plan.get("control"):
        one = f" and {control} of the A/A control"
        each += one if c.study.design != "switched" else ", each with a pair of the A/A control"
    said = (
        f"plan: {c.plan['blocks']} blocks{each}, judged once, at the end; at most"
        f" {minutes(c.study.profile.budget_min * 60)} minutes of measuring"
    )
    if len(c.study.arms) > 1:
        said += f", of which the arms need {math.ceil(schedule.least_min(c.study, c.plan))} or more"
    half = ", ".join(
        f"{METRICS[m].label} {f'±{pct:.1f}' if pct < 100 else 'over ±100'} %"
        for m, pct in c.plan.get("expected", {}).items()
    )
    return f"{said}; expected: {half or 'not known, no A/A noise is recorded for it'}"


SERVER_B = 400 << 20  # what a server may add to its data: undo, temporary tables
REDO_B = 2 << 30  # of redo log that a server keeps, where it writes so much
LOG_B_PER_S = 10 << 20  # that a server may write of binary log; it is removed after each pair
LOG_B = 1 << 30  # when it begins a new one
RUN_B = 200 << 10  # of what a tool printed, with what stands beside it
MEMORY_B = 320 << 20  # of Noisefloor itself, with its libraries
RUN_MEMORY_B = 64 << 10  # of what is known of a run, and of what that leaves unused between


def room(c: Campaign, bench: Bench) -> str:
    """How much disk and memory the campaign takes at the most, in words. Raises CampaignError
    where the disk has less."""
    study, profile = c.study, c.study.profile
    data = max(size_of(s.datadir) for s in bench.templates.values())
    servers = 1 if study.design == "switched" else 2
    servers += bench.kit.copies
    longest = max(schedule.slice_s(study, x) for x in schedule.cells(study))
    written = LOG_B_PER_S * profile.budget_min * 60
    logs = min(LOG_B, written) + min(REDO_B, written) + 2 * LOG_B_PER_S * longest
    needs = size_of(bench.folder) + servers * (data + SERVER_B + logs)
    runs = max(0.0, c.left_s) / profile.slice_s
    needs = {bench.folder.parent: int(needs), c.folder.parent: int(RUN_B * (20 + runs))}
    for folder, size in needs.items():
        if (free := shutil.disk_usage(folder).free) < size:
            raise CampaignError(
                f"this campaign may need {size / 1e9:.1f} GB in {paths.shown(folder)}, where"
                f" {free / 1e9:.1f} GB are free; nothing was measured"
            )
    said = [f"{size / 1e9:.2f} GB in {paths.shown(f)}" for f, size in needs.items()]
    memory = MEMORY_B + RUN_MEMORY_B * (c.table["run"].nunique() + runs)
    said.append(f"{memory / 1e9:.2f} GB of memory beside its servers")
    return f"takes at most {', '.join(said)}"
