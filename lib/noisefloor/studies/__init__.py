"""The studies, one TOML file each. A study is a list of questions; a campaign answers one.

A value may be a table by profile (``{quick = 2, standard = 3}``); the table of an engine
(``[mariadb]``) replaces whole fields above it."""

import dataclasses
import functools
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisefloor import schedule
from noisefloor.model import (
    PROFILES,
    SIDE_BY_SIDE,
    Arm,
    Profile,
    Request,
    Resolved,
    Study,
    StudyError,
    Workload,
)
from noisefloor.servers.kinds import USUAL
from noisefloor.servers.kinds import all_kinds as server_kinds
from noisefloor.studies.ab import LEADS, MANY, ab_study, at_rate, refused

_FIRST = (
    *("binlog-encryption", "tablespace-encryption", "version-upgrade", "backup-encryption"),
    *("ssl-connections", "settings", "own-study", "calibration"),
)
_FILES = {file.stem for file in Path(__file__).parent.glob("*.toml")}
STUDIES = (*_FIRST, *sorted(_FILES - {*_FIRST}))  # a new file is a new study
_THREADS_MOST = 2048  # the servers of the studies take 2,200 connections
_BUILDS = {n: words for kind in server_kinds().values() for n, words in kind.BUILDS.items()}
OLD = "mysql-8.0"  # the old build of version-upgrade, unless another is named
# what `how` of an arm takes, by the study's kit: key -> its values, () for any;
# docs/add-a-study.md says what they mean
HOW: dict[str, dict[str, tuple[str, ...]]] = {
    "backup": {"cipher": ()},
    "connections": {
        "via": ("tcp", "tunnel"),
        "tls": ("TLSv1.2", "TLSv1.3"),
        "key": ("RSA 2048", "RSA 4096", "P-256"),
        "group": (),
        "groups": (),
        "client": (),
        "keep": ("nothing", "context", "session"),
        "cache": ("cold",),
        "cipher": (),
        "command": ("no",),
    },
}
_TOGETHER = ({"tls", "key", "group"},)  # all of them, or none
_OF_PROFILE = {"budget_min", "slice_s", "warmup_s", "rows", "blocks"}
_EVERY = _OF_PROFILE | {"advice", "asks", "sittings"}
_EITHER = _EVERY | {"design", "engine", "kit", "settings", "upgrade"}
# the keys that a study's file may have, and those of an entry of its tables
_KEYS: dict[str, set[str]] = {
    "": _EITHER
    | {"arms", "cipher", "headline", "keyring", "own_pages", "questions", "tables", "title"}
    | {"workloads", *server_kinds()},
    "arms": {f.name for f in dataclasses.fields(Arm)} - {"name"} | {"does", "like"},
    "workloads": {f.name for f in dataclasses.fields(Workload)} - {"name"},
    "questions": _EITHER | {"arms", "facts", "rates", "workloads"},
}
_WITHIN = {  # the keys of tables whose keys are neither profiles nor thread counts
    "advice": {"worse", "better", "same", "open", "any"},
    "cipher": {"name", "option", "bytes"},
}
_LOAD = {"rate", "workload"}
_COMPARED = _EVERY | _LOAD | {"compare"}  # of a question about settings
_OF_AN_OWN_STUDY = _LOAD | {"settings", "lua"}
HEADLINE_SITTINGS = 3  # that a headline needs; another question declares a number, or needs one


def load(request: Request, resolved: Resolved | None = None) -> Study:
    """The Study of a request's question ("" and "all": the study's first one), with what is `resolved`
    on this machine. Raises StudyError."""
    name, profile, threads = request.study, request.profile, request.threads
    resolved = resolved or Resolved()
    _known(name)
    _allowed(request.margin_pct, request.budget_min, threads)
    if profile not in PROFILES:
        raise refused(f"profile {profile!r} is not one of {', '.join(PROFILES)}")
    chosen = PROFILES[profile]
    chosen = replace(chosen, budget_min=request.budget_min or chosen.budget_min)
    if name == "own-study":
        return ab_study(request, resolved, chosen, declared=bool(request.budget_min))
    file = _file(name, resolved.engine or request.engine, request.old, resolved.builds)
    _spelt(name, file)
    if others := _OF_AN_OWN_STUDY & request.parameters.keys():
        raise refused(f"{name} has no parameter {min(others)!r}")
    known = file["questions"]
    key = next(iter(known)) if request.question in ("", "all") else request.question
    if key not in known:
        raise refused(f"{name} has no question {key!r}; it has: {', '.join(known)}")
    if "compare" in known[key]:
        return _compared(request, resolved, key, file, chosen)
    asked = {k: _of(profile, v) for k, v in known[key].items()}
    kit, its = asked.get("kit", file.get("kit", "")), asked.get("engine", "")
    if its:  # it replaces the study's engine
        file = _file(name, its)
    base, *arms = (_arm(n, file["arms"], its) for n in asked.get("arms", file["arms"]))
    for arm in (base, *arms):
        _how(name, arm, kit)
    works = tuple(_workload(n, file["workloads"][n], chosen, threads) for n in asked["workloads"])
    if rates := asked.get("rates"):
        works = tuple(w for work in works for w in _at_rates(work, rates, threads, arms))
    lengths = _lengths(profile, file, key, request.budget_min)
    settings = file["settings"] | asked.get("settings", {})
    study = Study(
        name=name,
        title=file["title"],
        question=asked["asks"],
        key=key,
        baseline=base,
        arms=tuple(arms),
        workloads=works,
        design=asked.get("design", file.get("design", SIDE_BY_SIDE)),
        profile=replace(chosen, **lengths),
        settings={k: _of(profile, v) for k, v in settings.items()} | MANY,
        tables=file.get("tables", 5),
        keyring=file.get("keyring", False),
        margin_pct=float(request.margin_pct),
        sittings=_sittings(file, key, profile),
        upgrade=asked.get("upgrade", False),
        kit=kit,
        facts=tuple(asked.get("facts", ())),
        cipher=file.get("cipher", {}),
    )
    if not request.budget_min and "budget_min" not in lengths:
        minutes = _minutes(study, leads=key in file.get("headline", list(known)[:1]))
        study = replace(study, profile=replace(study.profile, budget_min=minutes))
    return study


def present(asked: Study, engine: str = "", old: str = "") -> Study | None:
    """A question as its study asks it now; None if no study asks it now, or it is the user's own."""
    if asked.name not in STUDIES or not asked.key:
        return None
    try:
        return load(Request(asked.name, asked.key, asked.profile.name, engine, old))
    except StudyError:
        return None


def _at_rates(
    work: Workload, rates: Sequence[int], threads: tuple[int, ...], arms: Sequence[Arm]
) -> Iterator[Workload]:
    """`work` at each rate: at the first one, which gives the answer, for all arms; at the others,
    for the figure of the load, with the first arm only."""
    first, *others = rates
    yield at_rate(work, first, threads, LEADS if others else 1)
    for rate in others:
        yield at_rate(work, rate, threads, only=arms[0].name if len(arms) > 1 else "")


def _lengths(profile: str, file: Mapping[str, Any], key: str, budget_min: float) -> dict[str, Any]:
    """The fields of Profile that a study and its question declare; the user's budget comes first."""
    lengths = _declared(profile, file) | _declared(profile, file["questions"][key])
    if budget_min:
        lengths.pop("budget_min", None)
    if profile in ("smoke", "full"):  # one length for all
        lengths.pop("slice_s", None)
    return lengths


def _compared(
    request: Request, resolved: Resolved, key: str, file: Mapping[str, Any], profile: Profile
) -> Study:
    """A question about settings, as `noisefloor ab` would ask it; every value is in my.cnf."""
    asked = {k: _of(profile.name, v) for k, v in file["questions"][key].items()}
    lengths = _lengths(profile.name, file, key, request.budget_min)
    its_own = {k: asked[k] for k in _LOAD & asked.keys()} | {"settings": tuple(asked["compare"])}
    static = tuple(text.partition("=")[0] for text in asked["compare"])
    study = ab_study(
        replace(request, **its_own),
        replace(resolved, static=static),
        replace(profile, **lengths),
        declared=bool(request.budget_min) or "budget_min" in lengths,
    )
    asks, sittings = asked["asks"], _sittings(file, key, profile.name)
    return replace(study, name=request.study, key=key, title=asks, question=asks, sittings=sittings)


def _sittings(file: Mapping[str, Any], key: str, profile: str) -> int:
    """How many sittings a question needs for a verdict; with a short profile one."""
    if profile in ("smoke", "quick"):
        return 1
    leads = key in file.get("headline", list(file["questions"])[:1])
    usual = file.get("sittings", HEADLINE_SITTINGS if leads else 1)
    return file["questions"][key].get("sittings", usual)


def _minutes(study: Study, *, leads: bool) -> float:
    """The budget of a question that declares none; leads: whether it is a headline question."""
    whole = study.profile.budget_min
    if study.profile.name == "quick":
        return max(whole * len(study.arms), schedule.quickest_min(study))
    if study.profile.name == "standard" and not leads:
        compared = sum(not cell.control for cell in schedule.cells(study))
        return min(whole, 5 + 5 * compared)
    return whole


def questions(name: str, engine: str = "") -> dict[str, str]:
    """{key: question in words} of a study, in the order of its file; {} for `own-study`."""
    _known(name)
    if name == "own-study":
        return {}
    return {k: q["asks"] for k, q in _file(name, engine)["questions"].items()}


def page_of(name: str, question: str) -> str:
    """The name of the page that shows a question: its study's, or one of its own, such as
    settings-doublewrite."""
    alone = bool(question) and name in _FILES and _read(name).get("own_pages", False)
    return f"{name}-{question}" if alone else name


def own_pages() -> dict[str, tuple[str, str]]:
    """{name of a page: (study, question)} of the questions that have a page of their own."""
    every = ((n, q) for n in STUDIES for q in questions(n))
    return {page: (n, q) for n, q in every if (page := page_of(n, q)) != n}


def headline(name: str, engine: str = "") -> tuple[str, ...]:
    """The questions that `run STUDY` measures and its page leads with; ("",) for `own-study`."""
    known = list(questions(name, engine))
    if not known:
        return ("",)
    return tuple(k for k in _file(name, engine).get("headline", known[:1]) if k in known)


def does(name: str, arm: str, engine: str = "", old: str = "") -> str:
    """What somebody does who chooses an arm, as the subject of a sentence ("encrypting the tables"); ""
    if the study's file does not say."""
    if name not in _FILES:
        return ""
    return _file(name, engine, old).get("arms", {}).get(arm, {}).get("does", "")


def asks(name: str, question: str = "", was: str = "", now: str = "") -> str:
    """The title of a page: the question of its study, or of `question` if that has a page of its own; ""
    for an unknown study. was, now: names of the compared builds, for a title that contains them."""
    if name not in _FILES:
        return ""
    file = _read(name)
    alone = file.get("own_pages", False) and question in file["questions"]
    text = (file["questions"][question] if alone else file)["asks"]
    return _filled(text, {"was": was, "now": now})


def advice(name: str, question: str, kind: str) -> str:
    """What a reader should do if the first cost of a page is of this kind (worse, better, same, open),
    with {most} for its upper limit; a question may have its own. The README shows the clause before the
    first semicolon. "" if the study's file does not say."""
    if name not in _FILES:
        return ""
    file = _read(name)
    texts = file["questions"].get(question, {}).get("advice") or file.get("advice", {})
    return texts.get(kind) or texts.get("any", "")


def builds(name: str) -> bool:
    """Whether a study compares two builds, which its questions name."""
    return name in _FILES and bool(_read(name).get("upgrade"))


def engine_of(name: str, asked: str = "") -> str:
    """The engine `asked` for, else that of the study called `name`, else the usual one."""
    return asked or (USUAL if name == "own-study" else _read(name).get("engine", USUAL))


# -- what may be asked -----------------------------------------------------------------------------


def _known(name: str) -> None:
    if name not in STUDIES:
        raise StudyError(f"no study is called {name!r}; there are: {', '.join(STUDIES)}")


def _allowed(margin_pct: Any, budget_min: Any, threads: Any) -> None:
    """Raise StudyError for a number that nothing can be measured with."""
    if not (type(margin_pct) in (int, float) and 0 <= margin_pct < 100):
        raise refused(
            f"margin_pct {margin_pct!r}: a number above 0 and below 100 is needed (0: the profile's)"
        )
    if not (type(budget_min) in (int, float) and 0 <= budget_min <= 100_000):
        raise refused(
            f"budget_min {budget_min!r}: minutes from 0 (the profile's) to 100,000 are needed"
        )
    whole = isinstance(threads, list | tuple)
    if not (whole and all(type(t) is int and 1 <= t <= _THREADS_MOST for t in threads)):
        raise refused(
            f"threads {threads!r}: a list of whole numbers from 1 to {_THREADS_MOST}, such as"
            " [1, 4, 16], is needed"
        )


# -- the files -------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def _read(name: str) -> dict[str, Any]:
    text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _file(
    name: str, engine: str = "", old: str = "", builds: Mapping[str, tuple[str, str]] = {}
) -> dict[str, Any]:
    """The study's file, with the fields of the engine's table in place of its own, and the builds'
    names filled in."""
    file = _read(name)
    engine, old = engine or file.get("engine", USUAL), old or OLD
    kinds = {e: builds[e][0] if e in builds else e for e in (engine, old)}
    kind = next((k for k in server_kinds() if kinds[engine].startswith(k)), kinds[engine])
    file = _over({k: v for k, v in file.items() if k not in _BUILDS}, file.get(kind, {}))
    names = {"cores": str(os.cpu_count())}
    if file.get("upgrade"):
        was, now = (_called(e, builds.get(e, ("", ""))[1]) for e in (old, engine))
        if was == now:
            was, now = f"{was} (old)", f"{now} (new)"
        names |= {"was": was, "now": now, "old": old, "engine": engine}
    return _filled(file, names)


def _over(file: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`file` with the fields of `more` in place of its own; an entry that is false is removed."""
    out = {**file, **more}
    for part in {"arms", "workloads", "questions"} & more.keys():
        both = dict(file[part])
        for entry, fields in more[part].items():
            both[entry] = both.get(entry, {}) | fields if fields is not False else False
        out[part] = {entry: fields for entry, fields in both.items() if fields is not False}
    return out


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    """`value` with `names` in place of {was}, {now}, {cores} and so on, in keys as well."""
    if isinstance(value, str):
        for name, words in names.items():
            value = value.replace(f"{{{name}}}", words)
        return value
    if isinstance(value, dict):
        return {_filled(k, names): _filled(v, names) for k, v in value.items()}
    return [_filled(v, names) for v in value] if isinstance(value, list) else value


def _called(engine: str, label: str) -> str:
    """The usual name of a build, unless its label has another one; of a path its last part."""
    usual = _BUILDS.get(engine, "")
    if usual and (not label or label.startswith(usual)):
        return usual
    return label or engine.rstrip("/").rpartition("/")[2]


def _of(profile: str, value: Any) -> Any:
    """The value for a profile: of a table by profile its own, else standard's, else the first."""
    if isinstance(value, dict) and value and value.keys() <= PROFILES.keys():
        return value.get(profile, value.get("standard", next(iter(value.values()))))
    return value


def _declared(profile: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of Profile that a study or a question declares for a profile."""
    known = {k: v for k, v in fields.items() if k in _OF_PROFILE}
    return {k: _of(profile, v) for k, v in known.items() if not isinstance(v, dict) or profile in v}


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}


def _arm(name: str, arms: Mapping[str, Any], engine: str = "") -> Arm:
    fields = ({"engine": engine} if engine else {}) | arms[name]
    while like := fields.pop("like", ""):
        fields = arms[like] | fields
    fields.pop("does", None)  # words for the page
    return Arm(name, **_tuples(fields))


def _spelt(study: str, file: Mapping[str, Any]) -> None:
    """Raise StudyError for a key of a study's file that nothing reads."""
    for part, keys in _KEYS.items():
        for entry, given in (file.get(part, {}) if part else {"the file": file}).items():
            where = f"{part}.{entry}" if part else entry
            compared = part == "questions" and "compare" in given
            _only(_COMPARED if compared else keys, given, f"{study}: {where}")
            for key, value in given.items() if part != "arms" else ():  # theirs name variables
                if isinstance(value, dict) and key != "settings" and (part or key not in _KEYS):
                    known = _WITHIN.get(key, {*PROFILES, *filter(str.isdigit, value)})
                    _only(known, value, f"{study}: {key} in {where}")


def _only(known: set[str], given: Iterable[str], where: str) -> None:
    if wrong := next((key for key in given if key not in known), ""):
        raise refused(f"{where} has {wrong!r}; {', '.join(sorted(known))} are allowed")


def _how(study: str, arm: Arm, kit: str) -> None:
    """Raise StudyError for keys of an arm's `how` that its tools do not know."""
    known = HOW.get(kit, {})
    for key, value in arm.how.items():
        if key not in known:
            takes = f"{', '.join(known)} are allowed" if known else "its tools take none"
            raise refused(f"{study}: the arm {arm.name!r} has {key!r} in how; {takes}")
        if known[key] and value not in known[key]:
            allowed = " or ".join(known[key])
            raise refused(
                f"{study}: the arm {arm.name!r} has {key} = {value!r}: {allowed} is needed"
            )
    for keys in _TOGETHER:
        if (given := keys & arm.how.keys()) and given != keys:
            lacks = " and ".join(sorted(keys - given))
            raise refused(
                f"{study}: the arm {arm.name!r} has {' and '.join(sorted(given))} in how, and no {lacks}"
            )


def _workload(
    name: str, fields: Mapping[str, Any], profile: Profile, threads: tuple[int, ...]
) -> Workload:
    known = {k: _of(profile.name, v) for k, v in fields.items()}
    if threads:  # named by the user: every arm is measured at each of them
        known |= {"threads": threads, "only_at": {}}
    known.setdefault("threads", profile.threads)
    return Workload(name, **_tuples(known))
