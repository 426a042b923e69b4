"""Commands, project folders and real servers for the tests: one MySQL and one MariaDB, initialised
and loaded once for all workers. What is slow to import is imported where it is needed."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from noisefloor import paths
from noisefloor.cli import main
from noisefloor.measure import lock

# the command, for a process of its own
COMMAND = (sys.executable, "-c", "from noisefloor.cli import main; main(prog_name='noisefloor')")
ROOT, ENGINES = paths.root(), paths.engines()  # before a test moves the project folder
DATA = Path(__file__).parent / "data"
ENGINE_KINDS = ("mysql", "mariadb")
# modules in the order in which they begin, the longest first: no worker is left with one at the end
LONGEST = (
    *("campaign", "verified", "ab", "collect", "report", "backup", "store", "tools", "evidence"),
    *("rate", "ci", "pages", "explore", "server", "answers", "plots", "clients", "bad_input"),
    *("kill", "connections", "hostile", "time", "packaging", "bundle", "cluster", "notebooks"),
)


def measures_alone(folder: str) -> None:
    """No measurement here is to be trusted: it waits for those alone that have the same folder."""
    lock.NAME, lock.FOLDER = f"\0{folder}", folder


def pytest_configure(config):
    """A folder for what the workers share; they do not wait for each other's campaigns."""
    if "SHARED_BY_WORKERS" not in os.environ:
        made = tempfile.TemporaryDirectory("-tests", "noisefloor-", ignore_cleanup_errors=True)
        os.environ["SHARED_BY_WORKERS"] = made.name
        config.add_cleanup(lambda: os.environ.pop("SHARED_BY_WORKERS"))
        config.add_cleanup(made.cleanup)
    if folder := os.environ.get("NOISEFLOOR_LOCK"):
        measures_alone(folder)
    elif worker := os.environ.get("PYTEST_XDIST_WORKER"):
        own = Path(os.environ["SHARED_BY_WORKERS"]) / worker
        own.mkdir(exist_ok=True)
        measures_alone(str(own))


def pytest_collection_modifyitems(items):
    """The longest modules first."""
    turn = {f"test_{name}": n for n, name in enumerate(LONGEST)}
    items.sort(key=lambda item: turn.get(item.path.stem, len(turn)))


def shared(name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` fills for the first worker that asks; the others find it. It is there to
    be read and copied."""
    folder = Path(os.environ["SHARED_BY_WORKERS"]) / name
    with open(f"{folder}.lock", "w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        if not folder.exists():
            half = folder.with_name(f"{name}.partial")
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir()
            make(half)
            half.rename(folder)
    return folder


def noisefloor(*words) -> Result:
    """A command in this process, as somebody types it."""
    return CliRunner().invoke(main, [str(word) for word in words])


def done(*words, code=0) -> str:
    """What a command prints that has to end with this exit code."""
    said = noisefloor(*words)
    assert said.exit_code == code, said.output
    return said.output


def comparisons(*words) -> list[dict]:
    """The rows that `judge`, `compare` or `history` print as JSON."""
    said = noisefloor(*words, "--json")
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout)["comparisons"]


def documented(frame: str) -> list[str]:
    """The columns of a frame that the docs promise to an analyst."""
    text = (ROOT / "docs" / "reading-a-page.md").read_text()
    (line,) = (x for x in text.splitlines() if x.startswith(f"| `{frame}` |"))
    return re.findall(r"`(\w+)`", line.split("|")[3])


def refused(said: Result, code: int = 2, words: str = "") -> None:
    """A command ended with one sentence and nothing else."""
    assert said.exception is None or isinstance(said.exception, SystemExit), said.exception
    assert said.exit_code == code, said.output
    assert said.stdout == ""
    assert said.stderr.startswith("noisefloor: ")
    assert said.stderr.count("\n") == 1
    assert said.stderr[:-1].isprintable()
    assert words in said.stderr


@contextlib.contextmanager
def moved(home: Path):
    """The project folder is `home`; server builds stay where they are. Whatever this user's
    environment names, nothing is written to it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("REPORTS", "STORE"):
            patch.delenv(f"NOISEFLOOR_{name}", raising=False)
        patch.setenv("NOISEFLOOR_HOME", str(home))
        patch.setenv("NOISEFLOOR_ENGINES", str(ENGINES))
        patch.setenv("NOISEFLOOR_RUNS", str(home / "runs"))
        yield home


@pytest.fixture
def home(tmp_path):
    """An empty project folder, so that nothing of the real one is touched."""
    with moved(tmp_path):
        yield tmp_path


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """The private folder that the session's servers live in."""
    from noisefloor.servers.sandbox import sandbox

    with contextlib.ExitStack() as stack:
        with moved(tmp_path_factory.mktemp("home")):
            folder = stack.enter_context(sandbox())
        yield folder


def _template(shop: Path, name: str):
    from noisefloor import studies
    from noisefloor.measure import loading
    from noisefloor.model import Request
    from noisefloor.servers import engines
    from noisefloor.servers.server import Server

    chosen = studies.load(Request("binlog-encryption", profile="smoke", engine=name))
    engine = engines.find(name)

    def in_folder(folder: Path) -> Server:
        return Server(engine, folder / name, chosen.settings, keyring=engine.keyring)

    def make(folder: Path) -> None:
        (folder / "short").symlink_to((shop / "short").readlink())  # where its socket would be
        with in_folder(shop).initialise() as server:
            loading.fill_database(server, chosen)
            clause = "ENCRYPTION='Y'" if engine.kind == "mysql" else "ENCRYPTED=YES"
            server.script(
                f"CREATE TABLE noisefloor.hidden (word VARCHAR(80)) {clause * engine.keyring}",
                "INSERT INTO noisefloor.hidden VALUES ('under the key')",
            )
            server.stop()
        shutil.move(server.folder, folder)

    return in_folder(shared(name, make))


@pytest.fixture(scope="session")
def mysql(shop):
    """A stopped MySQL with a keyring and the smoke profile's tables, to copy from."""
    return _template(shop, "mysql")


@pytest.fixture(scope="session")
def mariadb(shop):
    """As `mysql`, a MariaDB."""
    return _template(shop, "mariadb")


@pytest.fixture(scope="session")
def newer(shop):
    """As `mysql`, a MariaDB 11.8."""
    return _template(shop, "mariadb-11.8")


@pytest.fixture(params=ENGINE_KINDS)
def template(request):
    """Both servers in turn."""
    return request.getfixturevalue(request.param)


def mostly(kind: str):
    """For what hardly depends on the engine: one of both servers, the other among the slow tests."""
    both = [k if k == kind else pytest.param(k, marks=pytest.mark.slow) for k in ENGINE_KINDS]
    return pytest.mark.parametrize("template", both, indirect=True)


@pytest.fixture
def copy(shop):
    """copy(template, settings, **options) -> a stopped copy, removed after the test."""
    made = []

    def fresh(template, settings=(), **options):
        name = f"c{sum(1 for _ in shop.iterdir())}"
        made.append(template.copy(shop / name, dict(settings), **options))
        return made[-1]

    yield fresh
    for server in made:
        server.remove()


@pytest.fixture
def own(template, copy):
    """A running copy of both servers in turn, for a test that harms it."""
    server = copy(template)
    server.start()
    return server


@pytest.fixture(scope="session")
def lent(shop):
    """lent(template): its running copy, for whoever leaves it as it was."""
    found = {}

    def server(template):
        name = template.engine.kind
        if name not in found:
            found[name] = template.copy(shop / f"running-{name}")
            found[name].start()
        return found[name]

    yield server
    for one in found.values():
        one.remove()


@pytest.fixture
def running(lent, template):
    """A running copy of both servers in turn, for tests that leave it as it was."""
    server = lent(template)
    yield server
    server.only({})


def environment(home: Path, **more: str) -> dict[str, str]:
    """What a command of its own finds around it that measures in the project folder `home`."""
    own = {"HOME": home, "RUNS": home / "runs", "ENGINES": ENGINES}
    return os.environ | {f"NOISEFLOOR_{k}": str(v) for k, v in own.items()} | more


def until(look, what: str, seconds: float = 60):
    """What `look` finds, once it finds something."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.02)
    return found


@contextlib.contextmanager
def signalled(name: str, times: int = 1, how=signal.SIGKILL, send=psutil.Process.send_signal):
    """Meanwhile the next so many children of that name get a signal, each a little after its start."""
    over, seen = threading.Event(), set()

    def look():
        while len(seen) < times and not over.wait(0.01):
            for child in psutil.Process().children():
                with contextlib.suppress(psutil.Error):
                    if child.name() == name and child.pid not in seen and len(seen) < times:
                        seen.add(child.pid)
                        if not over.wait(0.3):
                            send(child, how)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def planned(meta: dict, **changes) -> dict:
    """A campaign.json of an earlier plan as if it had been declared as campaigns are now."""
    declared = {"blocks": 2, "control": 1, "pairs": 2, "expected": {}} | changes
    return meta | {"plan": declared, "profile": meta["profile"] | {"blocks": declared["blocks"]}}


def arm_of(study, name: str):
    """The arm, baseline or control of a study that is called so."""
    return next(arm for arm in (*study.compared, study.control) if arm.name == name)


@contextlib.contextmanager
def campaigns(shop: Path, home: Path):
    """begin(study, template, *arms) -> (Campaign, ServerPool): a block with a running server for each of
    the arms, or with those of `bench`, and nothing measured yet."""
    from noisefloor.data import tidy
    from noisefloor.measure.campaign import POOLS, Campaign
    from noisefloor.measure.folder import description, write_json
    from noisefloor.measure.progress import Progress

    with contextlib.ExitStack() as stack:

        def begin(chosen, template, *arms, address="", bench=None):
            folder = home / "runs" / f"{chosen.name}-test"
            if not folder.exists():
                folder.mkdir(parents=True)
                meta = description(chosen, template.engine, {})
                write_json(folder / "campaign.json", meta)
            found = Campaign(chosen, folder, tidy.meta(folder), Progress())
            found.block += 1
            if bench:
                return found, bench
            place = shop / f"bench{sum(1 for _ in shop.iterdir())}"
            place.mkdir()
            bench = POOLS[chosen.kit](place, {"": template}, chosen, address)
            short = (shop / "short").readlink() / place.name  # sockets are named by their servers
            short.mkdir()
            (place / "short").symlink_to(short)
            stack.callback(shutil.rmtree, short, ignore_errors=True)
            stack.callback(shutil.rmtree, place, ignore_errors=True)
            stack.callback(bench.close)
            bench.servers = [bench.fresh(a) for a in arms or (chosen.baseline,)]
            for server in bench.servers:
                server.start()
            return found, bench

        yield begin


@pytest.fixture
def campaign(shop, home):
    """What `campaigns` gives, for one test."""
    with campaigns(shop, home) as begin:
        yield begin


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A project with the real notebook of binlog encryption, one recorded smoke campaign, sealed,
    and its page: (home, name of the campaign)."""
    from noisefloor.data import tidy
    from noisefloor.show import report

    name = "binlog-encryption-smoke-test"

    def make(home: Path) -> None:
        (home / "notebooks").mkdir()
        shutil.copy(ROOT / "notebooks" / "binlog-encryption.ipynb", home / "notebooks")
        (home / "notebooks" / "analysis").symlink_to(ROOT / "notebooks" / "analysis")
        (home / "environment.yml").touch()
        with moved(home):
            shutil.copytree(ROOT / "data" / "raw" / "published", paths.published())
            tidy.seal(shutil.copytree(DATA / "campaign", paths.recorded() / name))
            report.render("binlog-encryption", {"campaign": name})
            report.index()

    home = tmp_path_factory.mktemp("small") / "home"
    return shutil.copytree(shared("small", make), home, symlinks=True), name


def recorded_pages() -> list[str]:
    """The pages that `noisefloor report --profile recorded` makes: those with something on record."""
    from noisefloor.show import report

    return [name for name, given, _ in report.plan((), "recorded") if given is not None]


@pytest.fixture(scope="session")
def site() -> Path:
    """A project with all notebooks and recorded campaigns, every page rendered, as `noisefloor
    report --profile recorded` does: its folder."""
    from noisefloor.show import report

    def make(home: Path) -> None:
        for name in ("notebooks", "data", "environment.yml"):
            (home / name).symlink_to(ROOT / name)
        with moved(home):
            rows = report.render_all(report.plan((), "recorded"))
        assert [r for r in rows if isinstance(r[1], report.ReportError)] == []

    return shared("site", make)


@pytest.fixture
def browser():
    """A real browser, one a test: a running driver would be in the way of notebooks that are run in
    this process."""
    import lab

    with lab.browser() as opened:
        yield opened


@pytest.fixture
def recorded(tmp_path):
    """A recorded smoke campaign, free to be damaged."""
    return Path(shutil.copytree(DATA / "campaign", tmp_path / "campaign"))


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def command_lines() -> str:
    """What any user of the machine sees of the running processes."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return "\n".join(found)
