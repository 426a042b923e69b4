"""The parameters of a notebook, checked before anything runs."""

import ast
import difflib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from noisefloor import paths
from noisefloor.data import results
from noisefloor.parse import secrets
from noisefloor.show.report.notebooks import refused
from noisefloor.text import Refusal

CAMPAIGNS = ("campaign", "campaigns")  # parameters that name campaigns; "" for none
_OPENED = ("source", "against")  # a campaign's name or the path of an archive
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, SyntaxError)


class _Parameter(NamedTuple):
    """One line of a notebook's parameters cell; `like`: a value of its type, for an empty list the
    one in its comment."""

    name: str
    default: Any
    like: Any


def parameters(notebook: Path) -> dict[str, _Parameter]:
    """The parameters of a notebook by name, read from the cell tagged `parameters` (literals only,
    one a line, a trailing comment is the help); none without such a cell. Raises ReportError for
    what is no notebook, or no literal. papermill's own inspection is not used: it stumbles over '='
    inside a string."""
    declared: dict[str, _Parameter] = {}
    try:
        cells = json.loads(notebook.read_text()).get("cells", [])
        tagged = (c["source"] for c in cells if "parameters" in c["metadata"].get("tags", []))
        source = "".join(next(tagged, ""))
        nodes = ast.parse(source).body
    except _UNREADABLE as e:
        raise refused(f"{notebook.name} is no notebook that can be read ({e})") from None
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                pass
            case _:
                continue
        try:
            default = like = ast.literal_eval(value)
        except ValueError:
            what = f"the parameters cell of {notebook.name} assigns {ast.unparse(node)!r}"
            raise refused(f"{what}, which is not a literal") from None
        line = source.splitlines()[(node.end_lineno or 0) - 1]
        if default == [] and (named := re.search(r"#.*such as (\[[\d, ]+\])", line)):
            like = ast.literal_eval(named[1])
        declared[name] = _Parameter(name, default, like)
    return declared


def checked(notebook: Path, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """`given` values (text as from a command line, or Python values) in the types of the
    notebook's defaults. Raises ReportError in one sentence for a wrong name, a wrong type, a
    password, or a campaign that does not exist or has not ended."""
    known, study, result = parameters(notebook), notebook.stem, {}
    for name, value in (given or {}).items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            has = ", ".join(known) or "none"
            raise refused(f"{study} has no parameter {name!r}{hint}; it has: {has}")
        result[name] = _typed(study, known[name], value)
        if secrets.scrub(str(result[name]))[1]:
            words = f"parameter {name!r} of {study} holds a password, which the page would print"
            raise refused(words)
    for name in (*CAMPAIGNS, *_OPENED):
        given_file = name in _OPENED and re.search(r"/|\.parquet$", result.get(name, ""))
        if result.get(name) and not given_file:  # a file is looked for by the notebook itself
            try:
                results.named(result[name])
            except (paths.NotFound, Refusal) as problem:
                raise refused(problem) from None
    return result


def _typed(study: str, parameter: _Parameter, value: Any) -> Any:
    """A value in the type of a parameter."""
    want = parameter.like
    if isinstance(value, str) and not isinstance(want, str):
        value = _literal(value)
    if isinstance(want, list):
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        if {*map(type, items)} <= ({*map(type, want)} or {str, int, float}):
            return items
    elif want is None or type(value) is type(want):
        return value
    elif type(want) is float and type(value) is int:
        return float(value)
    like = f" like {json.dumps(want)}" if want else ""
    kind = _KINDS.get(type(want), f"a list{like}")
    raise refused(f"parameter {parameter.name!r} of {study} was given {value!r}; it is {kind}")


def _literal(text: str) -> Any:
    """What a text from a command line means: a literal, or a list without its brackets."""
    for attempt in (text, text.capitalize(), f"[{text}]"):  # true, false, none
        try:
            return ast.literal_eval(attempt)
        except (ValueError, SyntaxError):
            continue
    return text
