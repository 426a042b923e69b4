"""How much a person must hold in the head to change one thing: the measures of the code, and their
goals. ``python tests/house.py`` prints the table; exit code 1 while a goal is missed.

What a reader of source cannot count (how many files a change touches) is not here: it is measured by
making the change."""

import ast
import re
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "lib" / "noisefloor"
EMPTY = ("found", "said", "told")  # names that say nothing of what is in them
ENGINES = ("servers/engines/", "servers/kinds/")
ENGINE_NAMES = {"mysql", "mariadb"}
TEXT_METHODS = {
    *("startswith", "endswith", "replace", "removeprefix", "removesuffix"),
    *("partition", "rpartition", "split", "rsplit", "count", "index", "find", "contains"),
}
ASKED = re.compile(r"from noisefloor\.notebook import ([\w, ]+)")  # by a notebook
CONTROLS = {"explore"}  # of one notebook, and no analysis
READS_TEXT = ("parse/", "tools/", "data/ingest/")  # whose work is to read what others wrote

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Measure(NamedTuple):
    value: int
    goal: int
    worst: str = ""  # the name or the file where it is


def public(name: str) -> bool:
    return not name.startswith("_")


@dataclass(frozen=True)
class Module:
    """A file of the library."""

    path: str
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return [n for n in ast.walk(self.tree) if not isinstance(n, ast.expr_context)]

    @property
    def package(self) -> str:
        """The part of the library that it belongs to: `stats`."""
        return self.path.split("/", maxsplit=1)[0].removesuffix(".py")

    @property
    def lines(self) -> int:
        return self.source.count("\n")

    @cached_property
    def functions(self) -> list[Function]:
        return [n for n in self.nodes if isinstance(n, Function)]

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        return [n for n in self.nodes if isinstance(n, ast.ClassDef)]

    @property
    def top(self) -> list[str]:
        """Public functions and classes that the module defines."""
        defined = (n.name for n in self.tree.body if isinstance(n, Function | ast.ClassDef))
        return [name for name in defined if public(name)]

    def imports(self, ours: set[str]) -> set[str]:
        """The modules that it imports; ours: the names of the library's modules."""
        names: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Import):
                names |= {a.name for a in node.names}
            elif isinstance(node, ast.ImportFrom):
                full = {f"{node.module}.{a.name}" for a in node.names}
                names |= (full & ours) or {str(node.module)}
        return names


def methods_of(cls: ast.ClassDef) -> set[str]:
    """Public methods and properties of a class."""
    return {n.name for n in cls.body if isinstance(n, Function) and public(n.name)}


def members(cls: ast.ClassDef) -> set[str]:
    """Its fields as well."""
    fields = (n.target for n in cls.body if isinstance(n, ast.AnnAssign))
    return methods_of(cls) | {f.id for f in fields if isinstance(f, ast.Name) and public(f.id)}


def largest(modules: list[Module]) -> tuple[int, str]:
    """(public names, name) of the largest class, those of its bases in the library included."""
    classes = {c.name: c for m in modules for c in m.classes}

    def all_of(cls: ast.ClassDef) -> set[str]:
        names = {ast.unparse(b).rpartition(".")[2] for b in cls.bases} - {cls.name}
        return members(cls).union(*(all_of(classes[n]) for n in names & classes.keys()))

    return max((len(all_of(c)), name) for name, c in classes.items())


def typed(function: Function) -> bool:
    a = function.args
    arguments = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    named = [x for x in arguments if x.arg not in ("self", "cls")]
    returns = function.returns is not None or function.name == "__init__"
    return returns and all(x.annotation for x in named)


def prose(node: ast.AST) -> bool:
    """A literal of several words."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return " " in text.strip() and len(re.findall("[A-Za-z]+", text)) > 1


def branches_on_prose(node: ast.AST) -> bool:
    """Whether code compares, searches or replaces a literal of several words."""
    if isinstance(node, ast.Compare):
        return any(map(prose, (node.left, *node.comparators)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in TEXT_METHODS and any(map(prose, node.args[:1]))
    return False


def names_an_engine(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    parts = [p for side in (node.left, *node.comparators) for p in ast.walk(side)]
    return any(isinstance(p, ast.Constant) and p.value in ENGINE_NAMES for p in parts)


def assigned(node: ast.AST) -> bool:
    stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    return stored and node.id in EMPTY


def of_one_page(modules: list[Module], ours: set[str]) -> list[Module]:
    """Modules of packages that no other one uses, and only one notebook."""
    books = (b.read_text() for b in (ROOT / "notebooks").glob("*.ipynb"))
    asked = Counter(n for b in books for n in set(", ".join(ASKED.findall(b)).split(", ")))
    used = {
        name.split(".")[1]
        for m in modules
        for name in m.imports(ours) & ours
        if name.split(".")[1] != m.package
    }
    alone = {name for name, times in asked.items() if times == 1} - used - CONTROLS
    return [m for m in modules if m.package in alone]


def measures(modules: list[Module]) -> dict[str, Measure]:
    """{measure: what it is today, and its goal}."""
    size, name = largest(modules)
    top = sum(len(m.top) for m in modules)
    methods = sum(len(methods_of(c)) for m in modules for c in m.classes)
    functions = [f for m in modules for f in m.functions]
    names = Counter(f.name for f in functions if public(f.name))
    empty = Counter(m.path for m in modules for n in m.nodes if assigned(n))
    untyped = Counter(m.path for m in modules for f in m.functions if not typed(f))
    others = [m for m in modules if not m.path.startswith(READS_TEXT)]
    prose = [f"{m.path}:{n.lineno}" for m in others for n in m.nodes if branches_on_prose(n)]
    outside = [m for m in modules if not m.path.startswith(ENGINES)]
    engines = Counter(m.path for m in outside for n in m.nodes if names_an_engine(n))
    ours = {
        f"noisefloor.{m.path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"
        for m in modules
    }
    imports, importer = max((len(m.imports(ours)), m.path) for m in modules)
    of_one = of_one_page(modules, ours)
    return {
        "public names of the largest class": Measure(size, 15, name),
        "public functions, classes and methods": Measure(top + methods, 600, f"{top} + {methods}"),
        "definitions that share one name": Measure(max(names.values()), 2, most_in(names)),
        f"assignments to {' / '.join(EMPTY)}": Measure(empty.total(), 29, most_in(empty)),
        "functions without all types": Measure(
            untyped.total(), 0, f"of {len(functions)} {most_in(untyped)}"
        ),
        "places that branch on English prose": Measure(len(prose), 0, ", ".join(prose[:3])),
        "imports of the worst module": Measure(imports, 10, importer),
        "if mysql / mariadb outside the engines": Measure(engines.total(), 0, " ".join(engines)),
        "lines of one page's analysis in the library": Measure(
            sum(m.lines for m in of_one), 0, " ".join(m.path for m in of_one)
        ),
        "lines of the statistics": Measure(
            sum(m.lines for m in modules if m.package == "stats"), 1_500
        ),
        "lines of the library": Measure(sum(m.lines for m in modules), 17_000),
    }


def most_in(counts: Counter[str]) -> str:
    return counts.most_common(1)[0][0] if counts else ""


def modules(folder: Path = LIBRARY) -> list[Module]:
    files = sorted(folder.rglob("*.py"))
    return [Module(f.relative_to(folder).as_posix(), f.read_text()) for f in files]


def main() -> int:
    table = measures(modules())
    for name, measure in table.items():
        print(f"{name:46}{measure.value:8,}{measure.goal:8,}  {measure.worst}")
    return int(any(measure.value > measure.goal for measure in table.values()))


if __name__ == "__main__":
    sys.exit(main())
