"""Labels from the path of a result, and where they contradict its text.

Known layouts of archives (`layouts.toml`): ``<server>/<version>/run<N>_Tier<GB>G_<RW|RO>_<N>th``,
``res-<label>-<date>/<server><version>.BP<GB>/thr<threads>``, ``res.<server>/res.<threads>.ro.txt``,
``x.<dbms><version>_<build>.<settings>/sb.o.<test>.range<N>.pk1.dop<threads>``; and any other
folders.
"""

import functools
import re
import tomllib
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisefloor.text import Refusal
from noisefloor.tools import Run

NAMES = (
    *("server", "version", "buffer_pool_B", "setting", "variant", "repetition", "host", "workload"),
)
_GIVEN = (*(n.removesuffix("_B") for n in NAMES), "threads")  # what a pattern may name
_UNIT = {"m": 2**20, "g": 2**30, "t": 2**40}
_DBMS = {"my": "mysql", "fbmy": "fbmysql", "ma": "mariadb", "pg": "postgresql"}
_ACCESS = {"READ_ONLY": "RO", "READ_WRITE": "RW", "WRITE_ONLY": "WO"}
_LAYOUTS = tomllib.loads(Path(__file__).with_name("layouts.toml").read_text())
_PIECES = [re.compile(rule, re.I) for rule in (*_LAYOUTS.pop("pieces"), _LAYOUTS["access"])]
_RULES = {name: re.compile(rule, re.I) for name, rule in _LAYOUTS.items()}
ASIDE = ("access", "range_size")  # only compared with the text; no columns of the tables


@functools.cache
def edition() -> str:
    """A checksum of the code and the rules that read texts and paths: files that were read by
    others are read again."""
    library, crc = Path(__file__).parents[2], 0
    for folder in ("parse", "tools", "data/ingest"):
        for file in sorted((library / folder).glob("*.[pt][yo]*")):
            crc = zlib.crc32(file.read_bytes(), crc)
    return f"{crc:x}"


def patterns(file: str) -> tuple[str, ...]:
    """The patterns of a user's file of labels: a regular expression with named groups, or a TOML
    file with ``patterns``, a list of such.

    Raises Refusal for a file that holds none."""
    try:
        text = Path(file).read_text()
        given = tomllib.loads(text)["patterns"] if file.endswith(".toml") else [text.strip()]
        names = {name for pattern in given for name in re.compile(pattern).groupindex}
    except (OSError, ValueError, KeyError, TypeError, re.error) as e:
        raise Refusal(f"{file} holds no patterns of labels ({e}); nothing was read") from None
    if not names or names - {*_GIVEN}:
        raise Refusal(
            f"{file}: named groups are needed, such as (?P<server>[a-z]+), of: {', '.join(_GIVEN)};"
            " nothing was read"
        )
    return tuple(given)


def labels(path: str, given: tuple[str, ...] = ()) -> dict[str, Any]:
    """{name of the label: value} of a path with / between its parts: those of NAMES, path_threads,
    access ("RO", "RW", "WO") and range_size that it has.

    What is no label becomes `setting` (of folders) or `variant` (of the file's name): runs that
    differ there are no repeats of each other. given: what `patterns` returned; these are searched
    in the whole path, and their labels replace those of the layout."""
    folder, _, name = path.rpartition("/")
    of_folders, rest = _folders(folder)
    of_path = dict(of_folders)  # a copy: that one is cached
    of_name: dict[str, Any] = {}
    alone = name.removeprefix(folder.rpartition("/")[2])  # it often begins with its folder's name
    left = _taken(_RULES["workload"].sub("", alone), of_name)
    if "server" in of_path:
        of_name.pop("server", None)
    of_path |= of_name
    for label in ("workload", "host"):
        if match := _RULES[label].search(name) or _RULES[label].search(folder):
            of_path[label] = match[1]
    if words := [_access(word) for word in _RULES["access"].findall(path)]:
        of_path["access"] = " ".join(dict.fromkeys(words))
    of_path |= {k: v for k, v in (("setting", rest), ("variant", _variant(left))) if v}
    for pattern in given:
        if match := re.search(pattern, path):
            of_path |= _typed(match)
    return of_path


@functools.lru_cache(4096)
def _folders(path: str) -> tuple[dict[str, Any], str]:
    """(labels of the folders of a result, what else is in their names)."""
    of_folders: dict[str, Any] = {}
    rest: list[str] = []
    parts = path.split("/") if path else []
    for i, part in enumerate(parts):
        if short := _RULES["short"].fullmatch(part):
            of_folders["server"] = _DBMS[short[1].lower()]
            of_folders["version"] = _compact(short[1].lower(), short[2])
            part = ".".join(p for p in short.group(3, 4) if p)
        elif i and _RULES["version"].fullmatch(part):
            of_folders |= {"version": part, "server": parts[i - 1]}
            part = rest[-1] = ""
        rest.append(_taken(part, of_folders))
    return of_folders, "/".join(filter(None, rest))


def _taken(part: str, known: dict[str, Any]) -> str:
    """Put the labels of a folder's or a file's name into `known`; returns what is left of it."""
    part = _RULES["host"].sub("", _RULES["date"].sub("", part))
    if server := _RULES["server"].search(part):
        number = server[2]
        known["server"] = server[1].lower()
        known["version"] = number if "." in number else f"{number[0]}.{number[1:]}"
        part = part.replace(server[0], "", 1)
    elif "server" not in known and (server := _RULES["server_only"].search(part)):
        known["server"] = server[1].lower()
        part = part.replace(server[0], "", 1) if part != server[0] else part
    for rule in _PIECES:
        if match := rule.search(part):
            known |= _typed(match)
            part = part[: match.start()] + part[match.end() :]
    return re.sub(r"([-_. ])[-_. ]+", r"\1", part).strip("-_. ")


def _variant(left: str) -> str:
    """The words of a file's name that may be settings; `left`: the name without its labels."""
    words, before = [], False
    for word in re.split("[_. ]", left):
        kept = []
        for part in filter(None, word.split("-")):
            number = before and _RULES["counted"].fullmatch(part)
            before = not (part.isdigit() or _RULES["idle"].fullmatch(part))
            if before or number:
                kept.append(part)
        if kept:
            words.append("-".join(kept))
    return " ".join(words)


def _typed(match: re.Match[str]) -> dict[str, Any]:
    """The labels that a match names, in their types: numbers as int, a buffer pool in bytes. A
    label that should be a number and is none is left out."""
    values: dict[str, Any] = {}
    for label, value in match.groupdict(default="").items():
        if label == "buffer_pool":
            if size := re.fullmatch(r"([0-9]{1,6})([mgt]?)i?b?", value, re.I):
                values["buffer_pool_B"] = int(size[1]) * _UNIT[size[2].lower() or "g"]
        elif label in ("threads", "repetition", "range_size"):
            if re.fullmatch("[0-9]{1,9}", value):
                values["path_threads" if label == "threads" else label] = int(value)
        elif value:
            values[label] = value
    return values


def _access(word: str) -> str:
    """RO, RW or WO."""
    return _ACCESS.get(word.upper(), word.upper())


def _compact(dbms: str, digits: str) -> str:
    """8.0.32 from my8032, 10.2.44 from ma100244, 15.1 from pg151."""
    if dbms == "pg":
        return f"{digits[:2]}.{digits[2:]}" if digits[2:] else digits
    sizes = (2, 2) if dbms == "ma" and len(digits) > 4 else (2, 1) if dbms == "ma" else (1, 1)
    cuts = (digits[: sizes[0]], digits[sizes[0] : sum(sizes)], digits[sum(sizes) :])
    return ".".join(str(int(c)) for c in cuts if c)


def settled(of_path: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Labels of a path as its text corrects them: the workload, if the text names it, or if the
    path says RO, RW or WO and the text another one; `variant` without the text's thread count."""
    named = of_path.get("workload")
    access = _RULES["access"].search(named or "")
    denied = access and run.access and _access(access[1]) != run.access
    better = {"workload": run.workload or (run.access if denied else named)}
    if run.threads and "variant" in of_path:
        better["variant"] = re.sub(rf" {run.threads}(?=$| )", "", of_path["variant"])
    return better


def contradictions(of_path: Mapping[str, Any], run: Run) -> list[str]:
    """A sentence for each of threads, reads or writes, and range size in which a path and its text
    differ, with both values."""
    sentences = []
    threads = of_path.get("path_threads")
    if threads and run.threads and threads != run.threads:
        sentences.append(f"the path says {threads} threads, the text {run.threads}")
    if run.access and run.access not in of_path.get("access", run.access).split():
        sentences.append(f"the path says {of_path['access']}, the text {run.access}")
    size = run.options.get("range-size")
    if "range_size" in of_path and size and str(of_path["range_size"]) != size:
        sentences.append(f"the path says a range of {of_path['range_size']}, the text of {size}")
    return sentences
