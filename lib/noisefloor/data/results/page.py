"""Which campaigns are on one page."""

import fcntl
import json
from collections import Counter
from pathlib import Path
from typing import Any

from noisefloor import paths, studies
from noisefloor.data import design, tidy
from noisefloor.data.results.campaign import Beside, Results
from noisefloor.model import StudyError
from noisefloor.text import Refusal

SHORT = ("smoke", "quick")  # profiles whose campaigns are not combined with earlier ones
Facts = dict[str, Any]  # of campaign.json


def load(*folders: Path) -> Results:
    """The results of a campaign's folder, or of all campaigns of a study's page, the headline's first.

    Each question keeps the campaigns of one design: its study's present one, if the newest of all
    campaigns has the present design of its question, else that of the question's newest campaign. Its
    newest campaign leads it, if possible one on the processor that the first question has most
    campaigns of. Raises StudyError for campaigns of several studies."""
    if len(folders) == 1:
        return Results(folders[0])
    opened = [Results(f) for f in dict.fromkeys(folders)]
    if len(about := dict.fromkeys(r.study.name for r in opened)) > 1:
        raise StudyError(f"a page is about one study, not about {' and '.join(about)}")
    questions: dict[str, list[Results]] = {}
    for campaign in opened:
        questions.setdefault(campaign.study.key, []).append(campaign)
    newest = max(opened, key=lambda r: design.began(r.opened.meta))
    current = design.design_of(newest.opened.meta) == _present(newest)
    leads, others, apart, at = [], [], [], ""
    for asked in questions.values():
        asked.sort(key=lambda r: (design.began(r.opened.meta), r.folder.name))
        designs = [design.design_of(r.opened.meta) for r in asked]
        wanted = _present(asked[-1]) if current else designs[-1]
        alike = [r for r, has in zip(asked, designs, strict=True) if has == wanted]
        for campaign, has in zip(asked, designs, strict=True):
            if has != wanted:
                apart.append(
                    (design.began(campaign.opened.meta), campaign.folder, _why(has, wanted))
                )
        if not alike:
            continue
        there = Counter(r.processor for r in alike)
        at = at or max(there, key=lambda p: (there[p], p == alike[-1].processor))
        lead = next((r for r in reversed(alike) if r.processor == at), alike[-1])
        leads.append(lead.folder)
        others += [r.folder for r in alike if r is not lead]
    left = tuple((folder, why) for _, folder, why in sorted(apart))  # whatever the order given
    return Results(leads[0], Beside(tuple(leads[1:]), tuple(others), left))


def _present(campaign: Results) -> design.Design | None:
    """The design that the question of a campaign has now, with the campaign's builds; None if its
    study does not ask it any more, or is the user's own."""
    meta = campaign.opened.meta
    usual, engines = meta.get("engine") or {}, meta.get("engines") or {}
    old = (meta.get("parameters") or {}).get("old") or ""
    if (now := studies.present(campaign.study, usual.get("kind", ""), old)) is None:
        return None
    return design.design(now, {arm.name: engines.get(arm.name, usual) for arm in now.compared})


def _why(has: design.Design, wanted: design.Design | None) -> str:
    """Why a campaign with the design `has` is left out. wanted: the design that is kept, if any."""
    if wanted is None:
        return "answers a question that its study does not ask any more"
    values = design.differences(has, wanted)
    more = f" and {len(values) - 3} more" if len(values) > 3 else ""
    return f"has another design: {'; '.join(values[:3])}{more}"


def names(text: str) -> list[str]:
    """The names of campaigns in a comma-separated text."""
    return [n.strip() for n in text.split(",") if n.strip()]


def named(text: str) -> tuple[Path, ...]:
    """The folders of the campaigns in a comma-separated text, by `folder_of`."""
    return tuple(map(folder_of, names(text)))


def folder_of(campaign: str | Path) -> Path:
    """The folder of a campaign, given by name or as a path. Raises paths.NotFound, and Refusal while
    it is measured or can be continued: nobody sees an estimate before its end."""
    folder = campaign if isinstance(campaign, Path) else paths.campaign(campaign)
    try:
        with tidy.locked(folder, fcntl.LOCK_SH | fcntl.LOCK_NB):
            facts = facts_of(folder)
            if facts.get("finished") != "" or not facts.get("engine"):  # nothing continues `time`
                return folder
        state = "has not ended, and the command that began it continues it"
    except BlockingIOError:
        facts = tidy.meta(folder)
        budget_min, spent_min = facts["profile"]["budget_min"], facts["spent_s"] / 60
        left = f"{max(budget_min - spent_min, 0.0):.1f} of {budget_min:.1f} minutes of measuring"
        state = f"is still being measured: at most {left} are left"
    raise Refusal(f"{folder.name} {state}; it is judged once, at its end")


def beside(folder: Path) -> tuple[Path, ...]:
    """The campaigns on the page of `folder`: itself, and the finished ones beside it that answer a
    question of that page with the same builds, profile and margin, in the order of questions and time.
    For a short campaign: itself, and the newest of each other question. A campaign of all questions at
    once is alone on its page."""
    leading = facts_of(folder)
    if not leading.get("key"):
        return (folder,)
    every = {f.parent: facts_of(f.parent) for f in folder.parent.glob("*/campaign.json")}
    kept: dict[str, list[Path]] = {leading["key"]: [folder]}
    for other, facts in sorted(every.items(), key=lambda item: _ended(*item), reverse=True):
        alike = _alike(facts) == _alike(leading) and facts.get("key")
        if other == folder or not alike or facts.get("finished") == "" or not _is_judged(facts):
            continue
        of_question = kept.setdefault(facts["key"], [])
        if not of_question or _profile(leading) not in SHORT:
            of_question.append(other)
    order = dict.fromkeys([k for k in asked_by(leading) if k in kept] + [*kept])
    return tuple(f for key in order for f in sorted(kept[key], key=lambda f: _ended(f, every[f])))


def asked_by(facts: Facts) -> dict[str, str]:
    """{key: question} that the study of a campaign has now; {} if there is no such study now."""
    try:
        return studies.questions(facts["study"], facts["engine"]["kind"])
    except (StudyError, KeyError):
        return {}


def facts_of(folder: Path) -> Facts:
    """campaign.json, unchecked; {} if it cannot be read or is no JSON object."""
    try:
        facts = json.loads((folder / "campaign.json").read_text())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _alike(facts: Facts) -> tuple[Any, ...]:
    """The values that campaigns of one page share: page, builds, profile and margin."""
    given = facts.get("parameters") or {}
    builds = design.series(facts.get("engine") or {}), given.get("old") or studies.OLD
    page = studies.page_of(facts.get("study") or "", facts.get("key") or "")
    return page, builds, _profile(facts), given.get("margin_pct") or 0.0


def _profile(facts: Facts) -> str:
    return str((facts.get("profile") or {}).get("name", ""))


def _is_judged(facts: Facts) -> bool:
    """Whether anything of a campaign is judged: two servers at once in a closed loop are not."""
    return not all(w.get("at_once") for w in facts.get("workloads", ()))


def _ended(folder: Path, facts: Facts) -> tuple[str, str]:
    return str(facts.get("finished") or facts.get("created") or ""), folder.name
