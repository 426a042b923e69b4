"""The rules of a notebook: it calls, shows and explains.

``python tests/notebook_rules.py [FILE ...]`` prints what breaks them; exit code 1 when anything does.
"""

import ast
import json
import re
import sys
from pathlib import Path

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_SQL = re.compile(
    r"\s*(SELECT\s.*\sFROM\s|(SET|SHOW)\s+(GLOBAL|SESSION|PERSIST|VARIABLES|STATUS|BINARY)\s"
    r"|(INSERT|DELETE|UPDATE|CREATE|DROP|ALTER)\s+(INTO|FROM|TABLE|USER|DATABASE|SCHEMA|INDEX)\s)",
    re.I | re.S,
)


def problems(notebook: dict) -> list[str]:
    """What breaks the rules in a notebook read from JSON, one sentence each."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    found = [
        f"cell {n} holds outputs or an execution count"
        for n, cell in enumerate(code, 1)
        if cell.get("outputs") or cell.get("execution_count")
    ]
    parameters = [c for c in code if "parameters" in c.get("metadata", {}).get("tags", [])]
    if len(parameters) != 1:
        found.append(f"{len(parameters)} cells are tagged parameters, one must be")
    found += [p for cell in parameters[:1] for p in _not_literal("".join(cell["source"]))]
    for n, cell in enumerate(code, 1):
        found += [f"cell {n} {problem}" for problem in _code("".join(cell["source"]))]
    return found


def _not_literal(source: str) -> list[str]:
    try:
        lines = ast.parse(source).body
    except SyntaxError:
        return []  # reported with its cell
    return [
        f"the parameters cell has more than names and literals: {ast.unparse(line)}"
        for line in lines
        if not _literal(line)
    ]


def _literal(line: ast.stmt) -> bool:
    if isinstance(line, ast.Expr):
        return isinstance(line.value, ast.Constant)
    if not isinstance(line, ast.Assign | ast.AnnAssign) or line.value is None:
        return False
    try:
        ast.literal_eval(line.value)
    except ValueError:
        return False
    return True


def _code(source: str) -> list[str]:
    if re.search(r"^\s*[%!]", source, re.M):
        return ["has a magic or a shell command"]
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return [f"is not Python (line {error.lineno})"]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS):
            found.append("defines a function or a class: that belongs in lib")
        elif isinstance(node, _LOOPS):
            found.append("has a loop: that belongs in lib")
        elif isinstance(node, ast.Attribute) and node.attr in ("path", "chdir"):
            if (name := ast.unparse(node)) in ("sys.path", "os.chdir"):
                found.append(f"uses {name}: the package is installed")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _SQL.match(node.value):
                found.append("holds SQL: only lib speaks it")
            if re.search(r"/(home|root)/", node.value):
                found.append("names somebody's home folder")
    return list(dict.fromkeys(found))


def main(names: list[str]) -> int:
    files = [Path(n) for n in names] or sorted(Path(__file__).parents[1].glob("notebooks/*.ipynb"))
    broken = [f"{f}: {p}" for f in files for p in problems(json.loads(f.read_text()))]
    print("\n".join(broken) or f"{len(files)} notebooks keep the rules")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
