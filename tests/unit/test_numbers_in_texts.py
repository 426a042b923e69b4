"""A number that a text says of a variable is the one that was set, or read back from the servers."""

import ast
import functools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from noisefloor import paths, studies
from noisefloor.data import tidy
from noisefloor.model import PROFILES

Values = Mapping[str, set[str]]
FILES = sorted(Path(studies.__file__).parent.glob("*.toml"))
SIZE = r"[\d.,]+ ?[KMG](?:i?B)?"
# how texts say a number without the name of its variable
PAIRS = {
    rf"\bpool (?:of|has) ({SIZE})": "innodb_buffer_pool_size",
    rf"({SIZE}) of (?:buffer )?pool": "innodb_buffer_pool_size",
    rf"({SIZE}) of redo": "innodb_redo_log_capacity",
    r"\bhash(?:es|ed)\b[^.]*? ([\d,]+) times": "caching_sha2_password_digest_rounds",
    r"\b([\d,]+) rounds": "caching_sha2_password_digest_rounds",
    r"(?i)at most ([\d,]+) reads": "reads_per_s",
    r"(?i)at most (?:[\d,]+ reads and )?([\d,]+) writes": "writes_per_s",
    r"\b([\d,]+) (?:of them )?a second on average": "rate",
}
NAMED = re.compile(r"\b([a-z]+(?:_[a-z0-9]+)+) ?= ?([A-Z0-9][\w.]*)")
PLURAL = {"rates": "rate"}
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def plain(value: object) -> str:
    """A value in one form: 10,000 and 10000 are the same, as are 1 GiB and 1G."""
    text = str(value).replace(",", "").strip().rstrip(".")
    if size := re.fullmatch(r"([\d.]+) ?([KMG])(?:i?B)?", text):
        return str(round(float(size[1]) * UNITS[size[2]]))
    return text.upper()


def values(fields: Mapping) -> Values:
    """Every value in a table of a study's file, and in what it holds, by its name."""
    found: dict[str, set[str]] = {}
    for name, value in fields.items():
        if isinstance(value, Mapping) and not (value and value.keys() <= PROFILES.keys()):
            for inner, there in values(value).items():
                found.setdefault(inner, set()).update(there)
            continue
        by_profile = value.values() if isinstance(value, Mapping) else [value]
        for one in by_profile:
            each = one if isinstance(one, list) else [one]
            for item in each:
                asked = name == "compare" and item.partition("=")
                for v in asked[2].split(",") if asked else [item]:
                    key = asked[0] if asked else PLURAL.get(name, name)
                    found.setdefault(key, set()).add(plain(v))
    return found


@functools.cache
def read_back(study: str) -> Values:
    """Variables as they were read back in the newest recorded campaign of a study."""
    names = [c for c in paths.campaigns(f"{study}-") if (paths.recorded() / c).is_dir()]
    metas = {c: tidy.meta(paths.campaign(c)) for c in names}
    for name in sorted(names, key=lambda c: str(metas[c].get("created")), reverse=True):
        if variables := tidy.variables(tidy.opened(paths.campaign(name))):
            every = {k for arm in variables.values() for k in arm}
            return {k: {plain(arm[k]) for arm in variables.values() if k in arm} for k in every}
    return {}


def said(text: str) -> Iterator[tuple[str, str]]:
    """(variable, value) of everything that a text says of one."""
    yield from NAMED.findall(text)
    for pattern, variable in PAIRS.items():
        for value in re.findall(pattern, text):
            yield variable, value


def problems(text: str, declared: Values, study: str) -> list[str]:
    """What a text says of variables that is neither declared nor was read back."""
    found = []
    for variable, value in said(text):
        known = declared.get(variable) or read_back(study).get(variable)
        if known is not None and plain(value) not in known:
            found.append(f"{variable} is said to be {value}, it is {', '.join(sorted(known))}")
        if known is None:
            found.append(f"{variable} is said to be {value}, which nothing declares or reads back")
    return found


def of_studies() -> Iterator[tuple[str, str, str, Values]]:
    """(place, study, text, what is declared where it stands) of the studies' files."""
    for file in FILES:
        whole = tomllib.loads(file.read_text())
        tables = [whole, *(whole[k] for k in ("mysql", "mariadb") if k in whole)]
        for table in tables:
            entries = {("file", file.stem): table} | {
                (part, name): fields
                for part in ("arms", "workloads", "questions")
                for name, fields in table.get(part, {}).items()
                if isinstance(fields, Mapping)
            }
            for (part, name), fields in entries.items():
                texts = [fields.get(key, "") for key in ("why", "asks", "does", "title")]
                text = "\n".join([*texts, *fields.get("advice", {}).values()])
                own = {} if part == "file" else values(fields)
                yield f"{file.stem}: {name}", file.stem, text, {**values(whole), **own}


def of_notebooks() -> Iterator[tuple[str, str, str, Values]]:
    """The same of the notebooks' prose, and of the words in their code."""
    known = {f.stem: values(tomllib.loads(f.read_text())) for f in FILES}
    for file in sorted(paths.notebooks().glob("*.ipynb")):
        for cell in json.loads(file.read_text())["cells"]:
            text = "".join(cell["source"])
            if file.stem in known and "parameters" not in cell["metadata"].get("tags", []):
                if cell["cell_type"] == "code":
                    nodes = ast.walk(ast.parse(text))
                    strings = (n.value for n in nodes if isinstance(n, ast.Constant))
                    text = "\n".join(s for s in strings if isinstance(s, str) and " " in s)
                yield f"{file.name}: {cell.get('id')}", file.stem, text, known[file.stem]


TEXTS = [t for t in (*of_studies(), *of_notebooks()) if any(said(t[2]))]


@pytest.mark.parametrize(("place", "study", "text", "declared"), TEXTS, ids=[t[0] for t in TEXTS])
def test_a_text_says_of_a_variable_what_it_is(place, study, text, declared):
    assert problems(text, declared, study) == [], place


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`caching_sha2_password` hashes a password 5,000 times before it keeps it.", 1),
        ("It hashes the password 10,000 times.", 0),
        ("5,000 rounds of SHA-256", 1),
        ("caching_sha2_password_digest_rounds = 5000", 1),
        ("caching_sha2_password_digest_rounds=10000", 0),
        ("Every commit is synced (sync_binlog=1).", 0),
        ("Nothing is synced (sync_binlog=0).", 1),
        ("A buffer pool of 1 GiB.", 0),
        ("A buffer pool of 23 MB.", 1),
        ("At most 3,000 reads and 200 writes a second.", 0),
        ("At most 3,000 reads and 3,000 writes a second.", 1),
        ("A setting_that_is_not_there=5.", 1),
    ],
)
def test_a_number_that_contradicts_the_variables_fails(text, wrong):
    """The page said 5,000 where its own variables have 10,000."""
    declared = {
        "sync_binlog": {"1"},
        "innodb_buffer_pool_size": {plain("1G")},
        "reads_per_s": {"3000"},
        "writes_per_s": {"200"},
    }
    assert len(problems(text, declared, "ssl-connections")) == wrong
