"""What is printed and checked before anything is measured."""

import math
import shutil
from collections.abc import Mapping

from noisefloor import paths, schedule
from noisefloor.measure.campaign import Campaign, CampaignError
from noisefloor.measure.progress import minutes
from noisefloor.measure.server_pool import ServerPool
from noisefloor.model import METRICS, TWICE
from noisefloor.servers.prebuilt import size_of
from noisefloor.text import amounts


def values(*parts: Mapping[str, str]) -> dict[str, dict[str, None]]:
    """Variable -> the values that these settings give it, in their order."""
    by_name: dict[str, dict[str, None]] = {}
    for part in parts:
        for name, value in part.items():
            by_name.setdefault(name, {})[value] = None
    return by_name


def planned(campaign: Campaign) -> str:
    """The plan in words, before anything is measured."""
    study, plan = campaign.study, campaign.plan
    each = f" an arm, {len(study.arms)} arms" if len(study.arms) > 1 else ""
    if control := plan.get("control"):
        one = f" and {control} of {TWICE}"
        each += one if study.design != "switched" else f", each with a pair of {TWICE}"
    words = (
        f"plan: {plan['blocks']} blocks{each}, judged once, at the end; at most"
        f" {minutes(study.profile.budget_min * 60)} minutes of measuring"
    )
    if len(study.arms) > 1:
        words += f", of which the arms need {math.ceil(schedule.least_min(study, plan))} or more"
    half = ", ".join(f"{METRICS[m].label} {_half(h)}" for m, h in plan.get("expected", {}).items())
    words += f"; expected: {half or 'not known, no noise is recorded for it'}"
    return "; ".join([words, *schedule.too_few(study).values()])


def _half(pct: float) -> str:
    """Half of an interval's width: `±1.6 %`."""
    size = f"±{amounts.percent(pct, sign=False)}" if pct < 100 else "over ±100 %"
    return amounts.ascii_only(size)


_SERVER_B = 400 << 20  # what a server may add to its data: undo, temporary tables
_REDO_B = 2 << 30  # of redo log, which a server makes at its start
_LOG_B_PER_S = 10 << 20  # that a server may write of binary log; it is removed after each pair
_LOG_B = 1 << 30  # of one binary log, before the server begins a new one
_RUN_B = 200 << 10  # of a run's folder on disk, mostly what its tool printed
_MEMORY_B = 320 << 20  # of Noisefloor itself, with its libraries
RUN_MEMORY_B = 64 << 10  # of memory for a run's rows, with what fragmentation leaves unused


def room(campaign: Campaign, pool: ServerPool) -> str:
    """How much disk and memory the campaign takes at most, in words. Raises CampaignError if the
    disk has less."""
    study, profile = campaign.study, campaign.study.profile
    data = max(size_of(s.datadir) for s in pool.templates.values())
    servers = (1 if study.design == "switched" else 2) + pool.copies
    longest = max(schedule.slice_s(study, x) for x in schedule.cells(study))
    written = _LOG_B_PER_S * profile.budget_min * 60
    logs = _REDO_B + min(_LOG_B, written) + 2 * _LOG_B_PER_S * longest
    size = size_of(pool.folder) + servers * (data + _SERVER_B + logs)
    runs = max(0.0, campaign.left_s) / profile.slice_s
    needs = {pool.folder.parent: int(size), campaign.folder.parent: int(_RUN_B * (20 + runs))}
    for folder, size in needs.items():
        if (free := shutil.disk_usage(folder).free) < size:
            raise CampaignError(
                f"this campaign may need {size / 1e9:.1f} GB in {paths.relative(folder)}, where"
                f" {free / 1e9:.1f} GB are free; nothing was measured"
            )
    parts = [f"{size / 1e9:.2f} GB in {paths.relative(f)}" for f, size in needs.items()]
    memory = _MEMORY_B + RUN_MEMORY_B * (campaign.table["run"].nunique() + runs)
    parts.append(f"{memory / 1e9:.2f} GB of memory beside its servers")
    return f"takes at most {', '.join(parts)}"
