"""The folders of the project: the only module that knows where things are."""

import os
import re
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class NotFound(Exception):
    """A campaign, notebook or folder that was asked for and is not there. One sentence."""

    code = 2


def root() -> Path:
    """The project folder: $NOISEFLOOR_HOME, else the nearest parent of this file or of the working
    directory that holds ``notebooks/`` and ``environment.yml``, else the working directory."""
    if home := os.environ.get("NOISEFLOOR_HOME"):
        return Path(home).resolve()
    for start in (Path(__file__).resolve(), Path.cwd() / "x"):
        for folder in start.parents:
            if (folder / "environment.yml").exists() and (folder / "notebooks").is_dir():
                return folder
    return Path.cwd()


def notebooks() -> Path:
    """Folder of the notebooks, one a study."""
    return root() / "notebooks"


def published() -> Path:
    """Folder of the facts from the literature, each with its source."""
    return root() / "data" / "raw" / "published"


def recorded() -> Path:
    """Folder of the project's own reference campaigns, committed."""
    return root() / "data" / "raw" / "recorded"


def runs() -> Path:
    """Folder of live campaigns: $NOISEFLOOR_RUNS, else ``data/raw/runs``."""
    return Path(os.environ.get("NOISEFLOOR_RUNS") or root() / "data" / "raw" / "runs")


def processed() -> Path:
    """Folder of tidy tables, a cache rebuilt from raw."""
    return root() / "data" / "processed"


def history() -> Path:
    """File of the results database, unless another one is named."""
    return processed() / "history.sqlite"


def reports() -> Path:
    """Folder of rendered pages: $NOISEFLOOR_REPORTS, else ``reports``."""
    return Path(os.environ.get("NOISEFLOOR_REPORTS") or root() / "reports")


def noise_file(name: str, local: bool = True) -> Path:
    """The file of a recorded scatter: `floor` (between starts of servers measured together), `levels`
    (between starts of one server) or `noise` (between pairs). `local`: that of this machine, if it was measured; else the library's."""
    mine = runs() / f"{name}.json"
    return mine if local and mine.exists() else Path(__file__).with_name(f"{name}.json")


def prebuilt() -> Path:
    """Folder of loaded data directories that are kept for the next campaigns: ``.loaded``."""
    return root() / ".loaded"


def engines() -> Path:
    """Folder of fetched server builds: $NOISEFLOOR_ENGINES, else ``.engines``."""
    return Path(os.environ.get("NOISEFLOOR_ENGINES") or root() / ".engines")


def campaign(name: str, *parents: Path) -> Path:
    """The folder of the campaign called `name` (a folder name, never a path), in the first of
    `parents` that has it. Without parents: `recorded`, then `runs`.

    Raises NotFound with the names that exist."""
    if not _NAME.fullmatch(name):
        raise NotFound(
            f"campaign {name!r} is not a folder name (letters, digits, '.', '_' and '-'); "
            "nothing was opened"
        )
    for parent in parents or (recorded(), runs()):
        if (parent / name / "campaign.json").exists():
            return parent / name
    names = ", ".join(campaigns()) or "none"
    raise NotFound(f"no campaign is called {name!r}; there are: {names}")


def campaigns(study: str = "") -> list[str]:
    """Names of all campaigns that begin with `study`, recorded ones first."""
    names = [
        p.parent.name
        for parent in (recorded(), runs())
        for p in sorted(parent.glob(f"{study}*/campaign.json"))
    ]
    return list(dict.fromkeys(names))  # one that was packed lies in both


def relative(path: Path | str) -> str:
    """`path` relative to the project folder, for pages and messages. Outside of it only the file's
    name, so that no home folder is named."""
    path = Path(path)
    return str(path.relative_to(root())) if path.is_relative_to(root()) else path.name
