"""The rules of a notebook: it computes and draws what one page shows, and explains it.

``python tests/notebook_rules.py [FILE ...]`` prints what breaks them; exit code 1 when anything does.
"""

import ast
import json
import re
import sys
from pathlib import Path

_LITERAL = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.UnaryOp, ast.USub, ast.expr_context)
LONGEST = 12  # lines of the functions, classes and loops of one cell
_BLOCKS = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.For, ast.AsyncFor, ast.While),
)
_SQL = re.compile(
    r"\s*(SELECT\s.*\sFROM\s|SELECT\s+@@|(SET|SHOW)\s+(GLOBAL|SESSION|PERSIST|VARIABLES|STATUS|BINARY)\b"
    r"|UPDATE\s.*\sSET\s"
    r"|(INSERT|DELETE|CREATE|DROP|ALTER)\s+(INTO|FROM|TABLE|USER|DATABASE|SCHEMA|INDEX)\s)",
    re.I | re.S,
)


def problems(notebook: dict) -> list[str]:
    """What breaks the rules in a notebook read from JSON, one sentence each."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    tagged = ["parameters" in cell.get("metadata", {}).get("tags", []) for cell in code]
    broken = [f"{sum(tagged)} cells are tagged parameters, one must be"] * (sum(tagged) != 1)
    for n, (cell, parameters) in enumerate(zip(code, tagged, strict=True), 1):
        if cell.get("outputs") or cell.get("execution_count"):
            broken.append(f"cell {n} holds outputs or an execution count")
        each = dict.fromkeys(_code("".join(cell["source"]), parameters))
        broken += [f"cell {n} {problem}" for problem in each]
    return broken


def _code(source: str, parameters: bool):
    """What breaks the rules in one cell."""
    if re.search(r"^\s*[%!]", source, re.M):
        yield "has a magic or a shell command"
        return
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        yield f"is not Python (line {error.lineno})"
        return
    for line in tree.body if parameters else ():
        value = getattr(line, "value", line)
        if not all(isinstance(part, _LITERAL) for part in ast.walk(value)):
            yield f"has more than names and literals in the parameters: {ast.unparse(line)}"
    blocks = [node for node in ast.walk(tree) if isinstance(node, _BLOCKS)]
    lines = {n for block in blocks for n in range(block.lineno, (block.end_lineno or 0) + 1)}
    if len(lines) > LONGEST:
        yield (
            f"has {len(lines)} lines of functions, classes and loops, {LONGEST} at most: "
            "longer analysis belongs in notebooks/analysis"
        )
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.path", "os.chdir"):
            yield f"uses {ast.unparse(node)}: the package is installed"
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _SQL.match(node.value):
                yield "holds SQL: only lib speaks it"
            if re.search(r"/(home|root)/", node.value):
                yield "names somebody's home folder"


def main(names: list[str]) -> int:
    files = [Path(n) for n in names] or sorted(Path(__file__).parents[1].glob("notebooks/*.ipynb"))
    broken = [f"{f}: {p}" for f in files for p in problems(json.loads(f.read_text()))]
    print("\n".join(broken) or f"{len(files)} notebooks keep the rules")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
