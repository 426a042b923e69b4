"""Which campaigns ask the same: the design of each, its processor and its sitting.

A design is a list of named values, written here name by name, so a campaign keeps its
fingerprint when classes change. tests/unit/fingerprints.json has those of all recorded
campaigns."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from noisefloor.model import SIDE_BY_SIDE, Arm, Study, Workload, study_of

_VERSION = 1  # of the list of values below; 1: first
Design = dict[str, Any]  # name of a value -> value
NOT_RECORDED = "model not recorded"
GUEST = "guest "  # begins the name of a server that Noisefloor did not start


def design(study: Study, builds: Mapping[str, Mapping[str, str]]) -> Design:
    """What a campaign of `study` compares and under which load. builds: arm -> the kind and version
    of its server. Only the series of a version counts: a patch release is the same design."""
    values: Design = {
        "version": _VERSION,
        "study": study.name,
        "question": study.key,
        "profile": study.profile.name,
        "instrument": f"{_how(study)}, {study.design}",
        "rows": study.profile.rows,
        "tables": study.tables,
        "seconds of a slice": study.profile.slice_s,
        "seconds of warm-up": study.profile.warmup_s,
        "keyring": study.keyring,
        "baseline": study.baseline.name,
    }
    values |= {f"server, {k}": v for k, v in study.settings.items()}
    for arm in study.compared:
        values |= {f"{arm.name}, {k}": v for k, v in _arm(arm).items()}
        values[f"{arm.name}, series"] = series(builds.get(arm.name, {}))
    for work in study.workloads:
        values |= {f"{work.name}, {k}": v for k, v in _workload(work).items()}
    return {k: v for k, v in values.items() if v not in (None, "", (), {}, [], False)}


def _how(study: Study) -> str:
    if any(w.tool == "replica" for w in study.workloads) and study.design == SIDE_BY_SIDE:
        return "at once"
    return "at a rate" if any(w.rate for w in study.workloads) else "in turn"


def _arm(arm: Arm) -> Design:
    return {
        **{f"variable {k}": v for k, v in arm.switch.items()},
        **{f"setting {k}": v for k, v in arm.settings.items()},
        **{f"environment {k}": v for k, v in arm.environment.items()},
        **{f"told {k}": v for k, v in arm.how.items()},
        "options": list(arm.options),
        "prepared by": list(arm.prepare),
    }


def _workload(work: Workload) -> Design:
    return {
        "tool": work.tool,
        "script": work.script,
        "options": list(work.options),
        "threads": list(work.threads),
        **{f"at {t} threads only": arm for t, arm in work.only_at.items()},
        **{f"variable {k}": v for k, v in work.settings.items()},
        "writes a second": work.writes_per_s,
        "reads a second": work.reads_per_s,
        "share of the rows": work.share if work.share != 1 else None,
        "seconds of a slice": dict(work.slices),
        "redo to recover, MB": work.redo_mb,
        "transactions to apply": work.events,
        "distance, ms": work.distance_ms,
        "digest of the script": work.digest,
        "clients": work.clients,
        "transactions offered a second": work.rate,
        "alone": work.alone,
        "arrivals": work.arrivals if work.arrivals != "own" else None,
        "cores": work.cores if work.cores != "shared" else None,
    }


def series(build: Mapping[str, str]) -> str:
    """`mysql 9.7` for MySQL 9.7.4: the part of a version that belongs to a design."""
    numbers = re.findall(r"\d+", build.get("version", ""))[:2]
    return f"{build.get('kind', '')} {'.'.join(numbers)}".strip()


def design_of(meta: Mapping[str, Any]) -> Design:
    """The design of a campaign, from its campaign.json; that of a guest names its server. Raises
    StudyError."""
    study, engines = study_of(meta), meta.get("engines") or {}
    usual = meta.get("engine") or {}
    values = design(study, {a.name: engines.get(a.name, usual) for a in study.compared})
    for name, arm in meta["arms"].items():  # of campaigns before 0.3
        values |= {f"{name}, values of": arm["pin"]} if arm.get("pin") else {}
    if any(w.get("at_once") for w in meta["workloads"]):  # of campaigns before 0.3
        values["instrument"] = f"{values['instrument']}, and both at once in a closed loop"
    return values | ({"server": name} if (name := _guest(meta)) else {})


def _guest(meta: Mapping[str, Any]) -> str:
    """`guest` and a digest, for a server that Noisefloor did not start; "" for any other."""
    origin = str((meta.get("engine") or {}).get("origin", ""))
    return origin if origin.startswith(GUEST) else ""


def fingerprint(values: Design) -> str:
    """Twelve hex digits of a digest: equal designs have the same."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def differences(one: Design, other: Design) -> list[str]:
    """The values in which two designs differ: `rows (100000, here 200000)` for each."""
    names = [k for k in {**other, **one} if one.get(k) != other.get(k)]
    return [f"{k} ({_shown(one.get(k))}, here {_shown(other.get(k))})" for k in names]


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# -- where and when --------------------------------------------------------------------------------


def processor_name(meta: Mapping[str, Any]) -> str:
    """The processor of a campaign with family, model and stepping: `AMD EPYC 23/1/2`; if only the
    name was recorded, `AMD EPYC, model not recorded`."""
    host = meta.get("host")
    if not isinstance(host, dict):
        return str(host or "processor not known")
    name = re.sub(r"\((R|TM)\)| (Processor|CPU)\b", "", str(host.get("cpu") or "")).strip()
    numbers = host.get("processor") or {}
    model = "/".join(str(v) for k, v in numbers.items() if k != "vendor")
    name = name or str(numbers.get("vendor") or "") or "processor not known"
    return f"{name} {model}" if model else f"{name}, {NOT_RECORDED}"


def began(meta: Mapping[str, Any]) -> str:
    """When a campaign began, "" where it does not say."""
    return str(meta.get("created") or "")


def sitting_key(meta: Mapping[str, Any]) -> str:
    """The key that campaigns of one sitting share: the boot of the machine, or, if it was not
    recorded, day and processor. The name of a guest comes before it."""
    host = meta.get("host")
    boot = host.get("boot") if isinstance(host, dict) else ""
    day = f"{str(meta.get('created') or meta.get('date') or '')[:10]} {processor_name(meta)}"
    return f"{_guest(meta)} {boot or day}".strip()


def instrument(study: Study, workload: str) -> str:
    """The name under which the scatter between sittings of a workload is known: its tool's, `at a
    rate`, or `thread pool`."""
    pools = any(a.expect.get("thread pool") == "on" for a in study.compared)
    work = study.workload(workload)
    tool = "at a rate" if work.rate else work.tool
    return "thread pool" if pools and tool == "sysbench" else tool
