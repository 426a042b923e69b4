"""What a person must hold in the head to change one thing does not grow, and the rules of CONTRIBUTING
about where things go are kept."""

import ast
import re
from pathlib import Path

import pytest

import house

TESTS = house.ROOT / "tests"

# -- measures --------------------------------------------------------------------------------------

# what `tests/house.py` counts, at most; a smaller value is written down here
MOST = {
    "public names of the largest class": 28,
    "public functions, classes and methods": 1127,
    "definitions that share one name": 6,
    "assignments to found / said / told": 0,
    "functions without all types": 0,
    "places that branch on English prose": 2,
    "imports of the worst module": 31,
    "if mysql / mariadb outside the engines": 0,
    "lines of one page's analysis in the library": 0,
    "lines of the statistics": 1_500,
    "lines of the library": 27_929,
}
BAD = """
class A:
    found: int
    def close(self): return self.found == "ended early"
class B(bad.A):
    def close(self, kind): return kind == "mariadb"
said = 1
"""


@pytest.fixture(scope="module")
def library():
    return house.modules()


@pytest.fixture(scope="module")
def today(library):
    return house.measures(library)


def test_every_measure_has_a_limit(today):
    assert set(today) == set(MOST)


@pytest.mark.parametrize("name", MOST)
def test_no_measure_grows(today, name):
    assert today[name].value <= MOST[name], today[name].worst


def test_what_is_counted():
    counted = house.measures([house.Module("stats/bad.py", BAD)])
    assert {name: measure.value for name, measure in counted.items()} == {
        "public names of the largest class": 2,
        "public functions, classes and methods": 4,
        "definitions that share one name": 2,
        "assignments to found / said / told": 2,
        "functions without all types": 2,
        "places that branch on English prose": 1,
        "imports of the worst module": 0,
        "if mysql / mariadb outside the engines": 1,
        "lines of one page's analysis in the library": 0,
        "lines of the statistics": 7,
        "lines of the library": 7,
    }


# words that say nothing of what they name
RIDDLES = {"found", "said", "told", "held", "kept", "dealt", "own", "kit", "shop", "bench"}


def test_no_public_name_is_a_riddle(library):
    modules = {Path(module.path).stem for module in library}
    defined = {name for module in library for name in module.top}
    inside = {n for module in library for cls in module.classes for n in house.members(cls)}
    assert (modules | defined | inside) & RIDDLES == {"kit"}  # a key of the studies' files


# -- where things go: which modules do what, as CONTRIBUTING says ----------------------------------

STARTERS = {
    *("subprocess.Popen", "subprocess.run", "subprocess.call", "subprocess.check_call"),
    *("subprocess.check_output", "asyncio.create_subprocess_exec", "os.posix_spawn"),
    *("asyncio.create_subprocess_shell", "os.posix_spawnp", "os.system", "os.popen"),
    *("engines.output", "build.run"),
}
LOADS = {"sysbench", "perf", "pgbench", "mysqlslap"}
DISK = {"os", "io", "pathlib", "shutil", "tempfile", "sqlite3", "noisefloor.paths"}
CHANGES = ("clear", "update", "pop", "popitem", "setdefault")
TAG = re.compile(
    r"</?(?:a|b|body|br|button|code|details|div|em|fig\w+|h[1-6r]|head|html|i|img|input|li|ol|p|pre"
    r"|script|section|span|strong|style|summary|svg|table|t[dhr]|ul)\b[^<>]*>"
)


def dotted(node: ast.AST | None) -> str:
    """`os.environ.clear` of what stands so in code; ".read_text" after anything but a name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def starts_a_program(module: house.Module) -> bool:
    borrowed = {
        f"{(n.module or '').rpartition('.')[2]}.{alias.name}"
        for n in module.nodes
        if isinstance(n, ast.ImportFrom)
        for alias in n.names
    }
    used = {dotted(n) for n in module.nodes if isinstance(n, ast.Attribute)}
    return bool(STARTERS & (borrowed | used))


def touches_the_disk(module: house.Module) -> bool:
    calls = {dotted(n.func) for n in module.nodes if isinstance(n, ast.Call)}
    read = {name for name in calls if re.search(r"(^|\.)(open|read_\w+|write_\w+|to_csv)$", name)}
    return bool(read or DISK & module.imports(DISK))


def changes_its_environment(module: house.Module) -> bool:
    if "environ" not in module.source:
        return False
    changes = {f"os.environ.{name}" for name in CHANGES}
    for node in module.nodes:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        whole = [t.value if isinstance(t, ast.Subscript) else t for t in targets]
        if "os.environ" in map(dotted, whole) or dotted(node) in changes:
            return True
    return False


def written(module: house.Module) -> list[str]:
    """The strings of a module but for docstrings and patterns; what is filled in is an x."""
    nodes = module.nodes
    patterns = (
        part
        for call in nodes
        if isinstance(call, ast.Call) and dotted(call.func).startswith("re.")
        for pattern in call.args[:1]
        for part in ast.walk(pattern)
    )
    left = {id(n.value) for n in nodes if isinstance(n, ast.Expr)} | {*map(id, patterns)}
    left |= {id(part) for n in nodes if isinstance(n, ast.JoinedStr) for part in n.values}
    return [filled(n) for n in nodes if id(n) not in left]


def filled(node: ast.AST) -> str:
    """The text of a string; "" of anything else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(filled(part) or "x" for part in node.values)
    text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if text else ""


def writes_html(module: house.Module) -> bool:
    return "<" in module.source and any(map(TAG.search, written(module)))


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (starts_a_program, "import subprocess\nsubprocess.run(['ls'])"),
        (starts_a_program, "from noisefloor.servers.engines import output"),
        (touches_the_disk, "from noisefloor import paths"),
        (touches_the_disk, "pd.read_csv(name)"),
        (touches_the_disk, "with open(name) as file: pass"),
        (changes_its_environment, "os.environ.clear()"),
        (changes_its_environment, "os.environ['A'] = 'b'"),
        (changes_its_environment, "del os.environ['A']"),
        (changes_its_environment, "os.environ |= given"),
        (writes_html, "x = f'<div class=\"{look}\">{text}'"),
        (writes_html, "text + '</table>'"),
    ],
)
def test_what_breaks_a_rule_is_seen(rule, code):
    assert rule(house.Module("stats/bad.py", code))
    assert not rule(house.Module("stats/good.py", "import re\nre.sub('<p>', '', dict(os.environ))"))


def those(library, rule) -> list[str]:
    return [module.path for module in library if rule(module)]


def test_only_two_packages_start_programs_and_one_of_them_loads_servers(library):
    starting = [m for m in library if starts_a_program(m)]
    assert {m.package for m in starting} == {"measure", "servers"}
    named = {m.path: set(written(m)) for m in library if m.package == "servers"}
    assert [path for path, texts in named.items() if texts & LOADS] == []
    assert [path for path, texts in named.items() if "fio" in texts] == ["servers/disk.py"]


def test_statistics_touch_no_disk_but_for_tables_of_scatter(library):
    statistics = [m for m in library if m.package == "stats"]
    assert those(statistics, touches_the_disk) == ["stats/scatter.py"]


def test_html_is_in_templates(library):
    """But for the style element of JupyterLab."""
    assert those(library, writes_html) == ["show/plots/canvas.py"]


def test_an_environment_is_not_changed_on_the_way(library):
    """But for that of a child as it begins, and for a setting of a library before it is loaded."""
    assert those(library, changes_its_environment) == ["cli/measuring.py", "data/cluster.py"]


WAY = {
    *("cli/measuring.py", "show/report/answers.py", "show/report/batch.py", "studies/__init__.py"),
    *("studies/ab.py", "measure/due.py", "measure/collect.py", "measure/asking.py"),
    *("measure/ab.py", "measure/course.py", "measure/elsewhere.py"),
}


def test_from_a_command_to_its_campaign_a_request_is_handed_down(library):
    """Not keywords of any name, of which a misspelt one is an error late, or none."""
    way = [m for m in library if m.path in WAY]
    assert len(way) == len(WAY)
    taking = {f.name for m in way for f in m.functions if f.args.kwarg}
    assert taking == {"run", "ab"}  # what click gives them are fields of a `Request`


# -- unit tests need no server and draw nothing ----------------------------------------------------

DRAWS = ("matplotlib", "seaborn", "playwright", "noisefloor.show.plots", "analysis")
HEAVY = {"shop", "template", "small", "site", "browser"}  # fixtures with servers, pages, a browser


def fixtures(module: house.Module) -> dict[str, set[str]]:
    """{test or fixture: the fixtures that it asks for}."""
    asked = {}
    for f in module.functions:
        given: set[str] = set()
        marks = [d for d in f.decorator_list if "parametrize" in ast.unparse(d)]
        for names in (n for mark in marks for n in ast.walk(mark.args[0])):
            if isinstance(names, ast.Constant):
                given |= set(names.value.replace(" ", "").split(","))
        if f.name.startswith("test_") or any("fixture" in ast.unparse(d) for d in f.decorator_list):
            asked[f.name] = {a.arg for a in f.args.args} - given
    return asked


@pytest.fixture(scope="module")
def heavy():
    """The fixtures of all tests that start a server or draw a page."""
    shared = house.Module("conftest.py", (TESTS / "conftest.py").read_text())
    names = set(HEAVY)
    for name, asked in fixtures(shared).items():  # each stands below those that it asks for
        names |= {name} if asked & names else set()
    assert {"mysql", "own", "campaign"} <= names
    return names


@pytest.mark.parametrize("module", house.modules(TESTS / "unit"), ids=lambda m: m.path)
def test_a_unit_test_needs_no_server_and_draws_nothing(module, heavy):
    asked = fixtures(module)
    shared = {name for names in asked.values() for name in names} - set(asked)
    assert shared & heavy == set()
    assert [name for name in module.imports({*DRAWS}) if name.startswith(DRAWS)] == []
