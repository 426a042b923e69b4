"""The folders of a campaign: read, checked, sealed."""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any

from noisefloor.data import packed
from noisefloor.data.packed import Damaged, Place, runs_folder
from noisefloor.model import StudyError, study_of

COLUMNS = [
    *("study", "campaign", "workload", "threads", "block", "pair", "pair_id", "position", "arm"),
    *("metric", "value", "unit", "warmup", "run"),
]
FORMAT = 1  # of run.json and campaign.json; 1: first
CLIENTS = "clients.json"  # of a run that several clients made
SEAL = "SHA256SUMS"  # so that `sha256sum -c SHA256SUMS` checks it, too

# types of the values that are read: of a campaign.json if they are there, of a run.json always
_CAMPAIGN: dict[str, Any] = {
    **dict.fromkeys(("created", "ended_because", "commit"), str),
    **dict.fromkeys(("engine", "engines", "tools", "skipped", "pinned", "parameters"), dict),
    **{"host": dict | str, "finished": str | None, "seed": int, "spent_s": int | float},
}
_HOST = {"memory_B": int | float | None, "cores": int | None, "processor": dict, "boot": str}
_BUILD = dict.fromkeys(("kind", "version", "label"), str)
_RUN: dict[str, Any] = {
    **dict.fromkeys(("study", "campaign", "workload", "workload_tool", "pair_id", "arm"), str),
    **dict.fromkeys(("threads", "block", "pair", "position"), int),
    **{"warmup": bool, "slice_s": int | float, "warnings": list, "sha256": dict},
}
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError)


def _wrong(facts: Mapping[str, Any], types: Mapping[str, Any], bits: int = 63) -> str:
    """The first name whose value is of another type, or an integer of more than `bits` bits; ""
    where there is none."""

    def fits(value: Any, kind: Any) -> bool:
        return isinstance(value, kind) and not (isinstance(value, int) and abs(value) >> bits)

    return next((k for k, kind in types.items() if k in facts and not fits(facts[k], kind)), "")


class Unusable(Exception):
    """A run with a whole result that must not count, for example one with too many errors."""


def meta(campaign: Path) -> dict[str, Any]:
    """campaign.json, checked. Raises Damaged."""
    name = f"{campaign.name}/campaign.json"
    try:
        facts: dict[str, Any] = json.loads((campaign / "campaign.json").read_text())
        version = facts["format"]
    except _UNREADABLE as e:
        raise Damaged(f"{name} cannot be read ({e})") from None
    if version != FORMAT:
        raise Damaged(f"{name} has format {version}; this version reads {FORMAT}")
    try:
        study_of(facts)
    except StudyError as e:
        raise Damaged(f"{name} is no campaign's: {e}") from None
    if "plan" in facts and not _is_plan(facts["plan"]):
        raise Damaged(f"{name} has a plan that declares no blocks")
    host = facts["host"] if isinstance(facts.get("host"), dict) else {}
    wrong = _wrong(facts, _CAMPAIGN) or _wrong(host, _HOST)
    if not wrong:
        builds = [facts.get("engine", {}), *facts.get("engines", {}).values()]
        whole = all(isinstance(b, dict) and not _wrong(b, _BUILD) for b in builds)
        wrong = "" if whole else "server build"
    if wrong:
        raise Damaged(f"{name} has a {wrong} of a wrong type")
    return facts


def _is_plan(plan: Any) -> bool:
    """Whether this is a plan as `schedule.plan` makes it."""
    try:
        numbers = [plan[k] for k in ("blocks", "pairs", "control")]
        return all(type(n) is int and 0 <= n < 10_000 for n in numbers) and numbers[0] > 0
    except (TypeError, KeyError):
        return False


def run_folders(campaign: Path) -> list[Place]:
    """The whole runs of a campaign: unreadable ones, then block by block, in a block by start time,
    so that a clock that was set back between blocks changes nothing."""

    def made(run: Place) -> tuple[int, str]:
        try:
            facts = read(run, verify=False)
        except Damaged:
            return -1, ""
        return facts["block"], facts["start"]

    return sorted(strays(campaign, whole=True), key=made)


def strays(campaign: Path, *, whole: bool = False) -> list[Place]:
    """Folders with the name of a whole run but without run.json; with `whole`: those with it."""
    named = (p for p in runs_folder(campaign).iterdir() if "." not in p.name and p.is_dir())
    return sorted(p for p in named if (p / "run.json").exists() is whole)


def sha256(path: Place) -> str:
    """Hex digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(run: Place, *, verify: bool = True) -> dict[str, Any]:
    """run.json of one run; with `verify` its files are checked against their sha256. Raises
    Damaged."""
    try:
        if link := next((p for p in run.iterdir() if p.is_symlink()), None):
            raise ValueError(f"{link.name} is a link to somewhere else")
        facts: dict[str, Any] = json.loads((run / "run.json").read_text())
        if facts["format"] != FORMAT:
            raise ValueError(f"it has format {facts['format']}; this version reads {FORMAT}")
        datetime.fromisoformat(facts["start"])
        if wrong := next((k for k in _RUN if k not in facts), "") or _wrong(facts, _RUN, 31):
            raise ValueError(f"its {wrong} is missing, too large or of a wrong type")
        for name, digest in facts["sha256"].items() if verify else ():
            if sha256(run / Path(name).name) != digest:
                raise Damaged(f"{run.name}/{name} was changed after the run (its sha256 differs)")
    except _UNREADABLE as e:
        raise Damaged(f"{run.name} cannot be read ({e})") from None
    return facts


# -- locked, sealed --------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(folder: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Lock a folder until the with block or the process ends; a campaign is locked while it is
    measured. `how`: as `fcntl.flock` takes it; with LOCK_NB it raises BlockingIOError."""
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, how)
        yield
    finally:
        os.close(place)


def _sealed(campaign: Path) -> dict[str, Place]:
    """Name -> file of what is sealed: each whole run's run.json, which has the checksums of the
    run's other files, and the JSON files beside the runs."""
    files = {f"{run.name}/run.json": run / "run.json" for run in strays(campaign, whole=True)}
    files |= {
        f.name: f for place in (runs_folder(campaign), campaign) for f in place.glob("*.json")
    }
    return {name: files[name] for name in sorted(files, key=lambda n: n.split("/"))}


def _sum(file: Place) -> str:
    """The sha256 of a file; "" where it cannot be read."""
    try:
        return sha256(file)
    except OSError:
        return ""


def seal(campaign: Path) -> None:
    """Write the checksums of a finished campaign into `SEAL`."""
    partial = campaign / f"{SEAL}.partial"
    partial.write_text("".join(f"{sha256(f)}  {k}\n" for k, f in _sealed(campaign).items()))
    partial.replace(campaign / SEAL)


def broken(campaign: Path) -> list[str]:
    """A sentence for each file that was changed, added or removed since the campaign was sealed, or
    that lies beside its archive. Without a seal changes are not detected."""
    problems = [
        f"{n} lies beside the archive and is not read" for n in packed.loose_files(campaign)
    ]
    if (campaign / SEAL).exists():
        lines = (campaign / SEAL).read_text().splitlines()
        then = {k: v for v, _, k in (x.partition("  ") for x in lines)}
        now = {k: _sum(f) for k, f in _sealed(campaign).items()}
        for name in sorted(k for k in then | now if then.get(k) != now.get(k)):
            what = "removed" if name not in now else "changed" if name in then else "added"
            problems.append(f"{name} was {what} after the campaign ended")
    return problems


def digest(folder: Path) -> str:
    """One sha256 of all files of a folder of raw data but ``*.md``, with their names; the same when
    packed. Raises Damaged."""
    files = packed.files(folder).items()
    lines = (f"{sha256(f)}  {name}\n" for name, f in files if PurePath(name).suffix != ".md")
    return hashlib.sha256("".join(lines).encode()).hexdigest()
