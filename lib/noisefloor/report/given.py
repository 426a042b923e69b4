"""A notebook's parameters, checked in one sentence before anything runs."""

import ast
import difflib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from .. import paths, results
from ..parse import secrets
from .words import ReportError

_CAMPAIGNS = ("campaign", "aa", "switched", "side_by_side", "duet")  # their names, or ""
_OPENED = ("source", "against")  # a campaign's name or the path of an archive


@dataclass(frozen=True)
class Parameter:
    """One line of a notebook's parameters cell."""

    name: str
    default: object
    help: str = ""

    @property
    def like(self) -> object:
        """A value of the right type: the default, or the list that the help of an empty one names."""
        named = re.search(r"such as (\[[\d, ]+\])", self.help)
        return ast.literal_eval(named[1]) if self.default == [] and named else self.default


def parameters(notebook) -> dict:
    """Name to Parameter, read from the cell tagged `parameters` (literals only, one a line, a
    trailing comment is the help). papermill's own inspection is not used: it stumbles over '='
    inside a string. A notebook without such a cell has none."""
    try:
        cells = json.loads(Path(notebook).read_text()).get("cells", [])
        source = next(
            ("".join(c["source"]) for c in cells if "parameters" in c["metadata"].get("tags", [])),
            "",
        )
        nodes = ast.parse(source).body
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SyntaxError) as e:
        raise ReportError(
            f"{Path(notebook).name} is no notebook that can be read ({e}); nothing was run", 2
        ) from None
    lines, found = source.splitlines(), {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target = node.target
        else:
            continue
        if not isinstance(target, ast.Name):
            continue
        try:
            value = ast.literal_eval(node.value)
        except ValueError:
            raise ReportError(
                f"the parameters cell of {Path(notebook).name} assigns {ast.unparse(node)!r}, "
                "which is not a literal; nothing was run"
            ) from None
        rest = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
        found[target.id] = Parameter(target.id, value, rest.partition("#")[2].strip())
    return found


def checked(notebook, given) -> dict:
    """`given` values (text as from a command line, or Python values) in the types of the
    notebook's defaults. Raises ReportError in one sentence for a wrong name, a wrong type, or a
    campaign that does not exist."""
    known = parameters(notebook)
    study = Path(notebook).stem
    result = {}
    for name, value in (given or {}).items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ReportError(
                f"{study} has no parameter {name!r}{hint}; it has: "
                f"{', '.join(known) or 'none'}; nothing was run",
                2,
            )
        result[name] = _typed(study, known[name], value)
        if secrets.scrub(str(result[name]))[1]:
            raise ReportError(
                f"parameter {name!r} of {study} holds a password, which the page would print;"
                " nothing was run",
                2,
            )
    for name in (*_CAMPAIGNS, *_OPENED):
        given_file = name in _OPENED and re.search(r"/|\.parquet$", result.get(name, ""))
        if result.get(name) and not given_file:  # a file is looked for by the notebook itself
            try:
                results.named(result[name])
            except paths.NotFound as problem:
                raise ReportError(f"{problem}; nothing was run", 2) from None
    return result


def _typed(study, parameter, value):
    want = parameter.like
    if isinstance(value, str) and not isinstance(want, str):
        value = _literal(value)
    if isinstance(want, (list, tuple)):
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        kinds = {type(v) for v in want} or {str, int, float}
        if all(any(_fits(i, k) for k in kinds) for i in items):
            return items
    elif isinstance(want, float) and _fits(value, float):
        return float(value)
    elif want is None or _fits(value, type(want)):
        return value
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    words |= {dict: "a dict"}
    kind = words.get(type(want)) or ("a list" + (f" like {json.dumps(want)}" if want else ""))
    raise ReportError(
        f"parameter {parameter.name!r} of {study} was given {value!r}; it is {kind}; nothing was run",
        2,
    )


def _fits(value, kind) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    return isinstance(value, (int, float) if kind is float else kind)


def _literal(text):
    plain = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in plain:
        return plain[text.lower()]
    for attempt in (text, f"[{text}]"):
        try:
            return ast.literal_eval(attempt)
        except (ValueError, SyntaxError):
            continue
    return text
