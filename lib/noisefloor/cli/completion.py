"""The names that the Tab key offers: studies, questions, pages and campaigns.

They come from file names and TOML alone, because pandas would take too long to import."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from noisefloor import paths

_STUDIES = Path(__file__).parents[1] / "studies"
_NOT_PAGES = {"explore", "own-study", "time", "archive"}
files = click.Path().shell_complete  # for an argument whose text is a path


def _read(study: object) -> dict[str, Any]:
    """The file of a study; {} if there is no such study."""
    file = _STUDIES / f"{study}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _names() -> list[str]:
    return sorted(file.stem for file in _STUDIES.glob("*.toml"))


def _begin(names: Iterable[str], text: str) -> list[str]:
    return [name for name in names if name.startswith(text)]


def studies(ctx: click.Context, option: click.Parameter, text: str) -> list[str]:
    """The studies whose names begin with `text`."""
    return _begin(_names(), text)


def questions(ctx: click.Context, option: click.Parameter, text: str) -> list[str]:
    """The questions of the study in the command line, and `all`."""
    study = ctx.params.get("study") or next(iter(ctx.args), "")
    known = _read(study).get("questions", {})
    return _begin([*known, *(["all"] if known else [])], text)


def pages(ctx: click.Context, option: click.Parameter, text: str) -> list[str]:
    """The pages of studies and questions."""
    books = {file.stem for file in paths.notebooks().glob("*.ipynb")} - _NOT_PAGES
    read = ((study, _read(study)) for study in _names())
    more = {f"{s}-{key}" for s, file in read if file.get("own_pages") for key in file["questions"]}
    return _begin(sorted(books | more), text)


def campaigns(ctx: click.Context, option: click.Parameter, text: str) -> list[str]:
    """The campaigns that were recorded or measured here."""
    return _begin(paths.campaigns(), text)


def packed(ctx: click.Context, option: click.Parameter, text: str) -> list[str]:
    """The names that `bundle` takes: pages and campaigns."""
    return [*pages(ctx, option, text), *campaigns(ctx, option, text)]
