"""A campaign from beginning to end: the lock on the machine, its folder, its blocks, its end."""

import contextlib
import fcntl
import os
import re
import resource
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median

from noisefloor import paths
from noisefloor.data import tidy
from noisefloor.measure import loop
from noisefloor.measure.campaign import Campaign, CampaignError
from noisefloor.measure.folder import REBOOTED, create, description, now, resumable
from noisefloor.measure.lock import alone
from noisefloor.measure.preflight import planned, room
from noisefloor.measure.progress import Progress, Say
from noisefloor.measure.server_pool import ServerPool
from noisefloor.model import Request, Study
from noisefloor.servers import guest
from noisefloor.servers.engines import Engine
from noisefloor.servers.sandbox import sandbox
from noisefloor.text.reasons import Reason, Why


@contextlib.contextmanager
def machine(say: Say, waits: bool = True) -> Iterator[Path]:
    """Lock the machine for one campaign (not if `waits` is False) and make a folder for its
    servers. An OSError inside, such as a full disk, becomes a CampaignError."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))  # a client has a socket each
    try:
        with alone(say) if waits else contextlib.nullcontext(), sandbox() as folder:
            yield folder
    except OSError as e:
        at = f" ({paths.relative(Path(os.fsdecode(e.filename)))})" if e.filename else ""
        raise CampaignError(
            f"{e.strerror or e}{at}: measuring stopped; whole runs are kept, the same command"
            " continues"
        ) from e


# -- how it begins ---------------------------------------------------------------------------------


@contextlib.contextmanager
def open_campaign(
    study: Study, builds: Mapping[str, Engine], request: Request, progress: Progress
) -> Iterator[Campaign]:
    """An interrupted campaign of the same study and build, else a new one, locked until the with
    block ends. On servers of our own, also removes the half-written campaigns of killed commands,
    and restores the servers that those measured as a guest. `builds`: by name, "": the study's."""
    for half in () if study.floor else paths.runs().glob("*.partial"):
        shutil.rmtree(half)  # killed before it was a campaign
    folder = resumable(study, builds[""], partial(end, study, progress), request.seed)
    if folder:
        progress.say(f"continuing {folder.name}")
    else:
        asked = "-".join(filter(None, (study.name, study.key, study.profile.name)))
        facts = description(study, builds[""], request.parameters, builds, request.seed)
        folder = create(asked, facts)
    if not study.floor:
        guest.restore_others("", progress.say)
    with tidy.locked(folder):
        yield Campaign(study, folder, tidy.meta(folder), progress)


def end(study: Study, progress: Progress, folder: Path) -> None:
    """End a campaign of another boot with what it has: each boot is a sitting of its own."""
    with contextlib.suppress(BlockingIOError), tidy.locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
        campaign = Campaign(study, folder, tidy.meta(folder), progress)
        campaign.save(finished=now(), ended_because=REBOOTED)
        tidy.seal(folder)
        progress.say(f"{folder.name} was begun in another boot: it ends with the blocks it has")


# -- how it goes on, and ends ----------------------------------------------------------------------


def carry_out(campaign: Campaign, pool: ServerPool) -> None:
    """Measure what is missing, on servers of its own, and seal the campaign. Raises
    CampaignError."""
    with cleaned_up(campaign, pool):
        campaign.progress.say(planned(campaign))
        campaign.progress.say(room(campaign, pool))
        campaign.prepare(pool)
        loop.DESIGNS[campaign.study.design](campaign, pool)
    finish(campaign)


@contextlib.contextmanager
def cleaned_up(campaign: Campaign, pool: ServerPool) -> Iterator[None]:
    """At the end, also after an error, end our servers and write campaign.json."""
    try:
        yield
    finally:
        pool.close(keep=bool(campaign.study.floor))
        with contextlib.suppress(OSError):  # a full disk is reported by what filled it
            campaign.save()


def finish(campaign: Campaign) -> None:
    """Say why it ended, and seal it. Raises CampaignError if nothing in it can be judged."""
    because = campaign.why_ended()
    campaign.save(finished=now(), ended_because=because)
    tidy.seal(campaign.folder)
    spent = f"{campaign.folder.name}: {because}, {campaign.meta['spent_s']:.0f} s of measuring"
    campaign.progress.finish(spent)
    if not any(campaign.done().values()):
        raise CampaignError(
            f"{spent}, and no pair of runs was whole: nothing can be judged; the same command"
            " measures again"
        )
    if full := _saturated(campaign):
        raise CampaignError(f"{spent}: {full}")


def _saturated(campaign: Campaign) -> str:
    """The sentence for a campaign with only saturated windows; "" for any other."""
    if not (full := campaign.saturated()):
        return ""
    texts = (file.read_text() for file in campaign.folder.glob("*-p[0-9]*/sysbench.txt"))
    reached = [float(tps) for text in texts for tps in re.findall(r"\btps: ([\d.]+)", text)]
    slowest = min(campaign.study.workloads, key=lambda w: w.rate)
    noun = "connections" if slowest.tool == "connect" else "transactions"
    return (
        f"{Reason(Why.SATURATED, full=full, windows=full)}; a server finished about"
        f" {median(reached or [0]):,.0f} of {slowest.rate:,} {noun} a second"
    )
