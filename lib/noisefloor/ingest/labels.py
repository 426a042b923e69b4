"""What the path of a result says about it: labels, and where they contradict the text.

The layouts met in archives: ``benchmark_logs/<server>/<version>/run<N>_Tier<GB>G_<RW|RO>_<threads>th``,
``res-<label>-<date>/<server><version>.BP<GB>/thr<threads>``, ``res.<server>/res.<threads>.ro.txt``,
``x.<dbms><version>_<build>.<settings>/sb.o.<test>.range<N>.pk1.dop<threads>``; and any other folders.
"""

import functools
import re

NAMES = ("server", "version", "buffer_pool_B", "setting", "repetition")
_BEGIN, _END = r"(?<![a-z0-9])", r"(?![a-z0-9])"
_UNIT = {"m": 2**20, "g": 2**30, "t": 2**40}
_DBMS = {"my": "mysql", "fbmy": "fbmysql", "ma": "mariadb", "pg": "postgresql"}
_SHORT = re.compile(r"x\.(fbmy|my|ma|pg)(\d{2,6})(?:_([^.]{1,99}))?(?:\.(.{1,200}))?", re.I)
_VERSION = re.compile(r"\d{1,2}\.\d{1,2}(?:\.\d{1,3})?(?:[-_.].{1,99})?")
_SERVER = re.compile(
    r"(?<![a-z])(mysql|mariadb|percona-server|percona|pxc|ps|fbmysql|postgresql|postgres)"
    r"[-_]?v?(\d{1,2}(?:\.\d{1,3}){1,2}(?:-\d{1,3})?|[4-9]\d)(?![0-9])",
    re.I,
)
_SERVER_ONLY = re.compile(r"(?<![a-z])(mysql|mariadb|percona-server|postgresql)(?![a-z])", re.I)
_DATE = re.compile(
    r"(?<!\d)\d{4}-\d\d-\d\d(?:[-_T ]\d\d[-_:.]?\d\d(?:[-_:.]?\d\d)?)?|(?<!\d)\d{8}[-_T]\d{4,6}(?!\d)"
)
_RULES = (
    ("threads", re.compile(rf"{_BEGIN}(?:dop|threads?[-_.]?|thds?|thr)(\d{{1,6}}){_END}", re.I)),
    ("threads", re.compile(rf"{_BEGIN}(\d{{1,6}})[-_]?(?:th|thr|thds|threads?){_END}", re.I)),
    ("threads", re.compile(r"^res\.(\d{1,6})(?=\.)", re.I)),
    ("buffer_pool_B", re.compile(rf"{_BEGIN}(?:tier|bp)(\d{{1,5}})([mgt])b?{_END}", re.I)),
    ("buffer_pool_B", re.compile(r"(?<![A-Za-z0-9])BP(\d{1,5})()(?![A-Za-z0-9])")),
    ("repetition", re.compile(rf"{_BEGIN}(?:run|rep|iter|trial)[-_.]?(\d{{1,5}}){_END}", re.I)),
    ("access", re.compile(rf"{_BEGIN}(ro|rw|wo|read_only|read_write|write_only){_END}", re.I)),
    ("range_size", re.compile(rf"{_BEGIN}range(\d{{1,9}}){_END}", re.I)),
)
_ACCESS = {"read_only": "RO", "read_write": "RW", "write_only": "WO"}
# settings that stand in names of files; anything else there (log1, 00-A) only tells runs apart
_IN_NAME = re.compile(rf"{_BEGIN}(tp(?:off|\d{{1,5}})|os\d{{1,5}}|pk[01]){_END}", re.I)
_TEST = re.compile(r"sb\.(?:o|time)\.(.{1,99}?)\.range\d")


@functools.lru_cache(4096)
def _folders(path: str) -> tuple[dict, str]:
    """(labels of the folders of a result, what of their names is none)."""
    found, rest = {}, []
    parts = path.split("/") if path else []
    for i, part in enumerate(parts):
        if short := _SHORT.fullmatch(part):
            found["server"] = _DBMS[short[1].lower()]
            found["version"] = _compact(short[1].lower(), short[2])
            part = ".".join(p for p in short.group(3, 4) if p)
        elif i and _VERSION.fullmatch(part):
            found |= {"version": part, "server": parts[i - 1]}
            if rest and rest[-1] == parts[i - 1]:
                rest.pop()
            part = ""
        part = _taken(part, found)
        if part:
            rest.append(part)
    return found, "/".join(rest)


def labels(path: str) -> dict:
    """{name of the label: value} of a path with / between its parts: NAMES, and threads, access
    ("RO", "RW", "WO") and range_size, which the text knows better. What is not there is not said."""
    folder, _, name = path.rpartition("/")
    found, rest = _folders(folder)
    found = dict(found)
    own: dict = {}
    _taken(name, own)
    found |= own if "server" not in found else {k: v for k, v in own.items() if k != "server"}
    more = [m[1] for m in (_TEST.match(name),) if m] + _IN_NAME.findall(name)
    if setting := " ".join(p for p in (rest, *more) if p):
        found["setting"] = setting
    return found


def _taken(part: str, found: dict) -> str:
    """What is left of one folder's name when its labels were put into `found`."""
    part = _DATE.sub("", part)
    if (server := _SERVER.search(part)) is not None:
        number = server[2]
        found["server"] = server[1].lower()
        found["version"] = number if "." in number else f"{number[0]}.{number[1:]}"
        part = part.replace(server[0], "", 1)
    elif "server" not in found and (server := _SERVER_ONLY.search(part)) is not None:
        found["server"] = server[1].lower()
        part = part.replace(server[0], "", 1) if part != server[0] else part
    for label, rule in _RULES:
        if (match := rule.search(part)) is None:
            continue
        if label == "access":
            word = match[1].lower()
            found[label] = _ACCESS.get(word, word.upper())
        elif label == "buffer_pool_B":
            found[label] = int(match[1]) * _UNIT[match[2].lower() or "g"]
        else:
            found[label] = int(match[1])
        part = part[: match.start()] + part[match.end() :]
    return re.sub(r"([-_. ])[-_. ]+", r"\1", part).strip("-_. ")


def _compact(dbms: str, digits: str) -> str:
    """8.0.32 from my8032, 10.2.44 from ma100244, 15.1 from pg151."""
    if dbms == "pg":
        return f"{digits[:2]}.{digits[2:]}" if digits[2:] else digits
    sizes = (2, 2) if dbms == "ma" and len(digits) > 4 else (2, 1) if dbms == "ma" else (1, 1)
    cuts = (digits[: sizes[0]], digits[sizes[0] : sum(sizes)], digits[sum(sizes) :])
    return ".".join(str(int(c)) for c in cuts if c)


def contradictions(found: dict, run: dict) -> list[str]:
    """One sentence for each label in which the path of a result of `parse.sysbench` and its text
    do not agree, with both values."""
    said = []
    if "threads" in found and run["threads"] and found["threads"] != run["threads"]:
        said.append(f"the path says {found['threads']} threads, the text {run['threads']}")
    reads, writes = run["reads"], run["writes"]
    if "access" in found and run["transactions"] and None not in (reads, writes):
        text = "RW" if reads and writes else "WO" if writes else "RO"
        if found["access"] != text:
            said.append(f"the path says {found['access']}, the text {text}")
    size = run["options"].get("range-size")
    if "range_size" in found and size and str(found["range_size"]) != size:
        said.append(f"the path says a range of {found['range_size']}, the text of {size}")
    return said
