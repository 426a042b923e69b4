"""What all commands share: options, exit codes, and one sentence for a mistake."""

import contextlib
import errno
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, TypeVar

import click

from noisefloor.cli import completion

# control characters, text direction, lone surrogates: names from others must not control a terminal
_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_WORD = re.compile(r"[A-Z]+(?: [A-Z]+)*(?![a-z])")  # a verdict, where an answer begins with it


def say(text: object, **more: Any) -> None:
    """Print `text`, cleaned (`clean`); `more` goes to `click.echo`."""
    click.echo(clean(text), **more)


def print_answer(lines: Iterable[str]) -> None:
    """Print the lines of an answer, a verdict at its beginning in bold."""
    text = clean("\n".join(lines))
    word = match[0] if (match := _WORD.match(text)) else ""
    click.echo(f"{click.style(word, bold=True)}{text[len(word) :]}")


def clean(text: object) -> str:
    """`text` without characters that control a terminal."""
    return _STEERS.sub("\N{REPLACEMENT CHARACTER}", str(text))


_EXTRAS = {  # the extra that installs a package; `lab` has all others
    **dict.fromkeys(("MySQLdb", "psutil", "sqlalchemy"), "measure"),
    **dict.fromkeys(("dask", "distributed"), "cluster"),
}


class Sentence(click.ClickException):
    """A user's mistake or a failed measurement: one sentence, no traceback."""

    def __init__(self, message: object, exit_code: int = 2):
        from noisefloor.parse.secrets import scrub

        super().__init__(" ".join(scrub(str(message))[0].split()))
        self.exit_code = exit_code  # type: ignore[misc]  # click reads the instance's

    def show(self, file: IO[Any] | None = None) -> None:
        say(f"noisefloor: {self.message}", err=True)


_Function = TypeVar("_Function", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
verbose_option = click.option(
    "--verbose",
    is_flag=True,
    help="After the answer print all rows and all notes.",
)


def fail_on(*kinds: str) -> Callable[[_Function], _Function]:
    """The option --fail-on of a command with these kinds of answers; its value is a list of them."""

    def named(ctx: click.Context, option: click.Parameter, given: str) -> list[str]:
        words = [w.strip() for w in given.split(",") if w.strip()]
        if wrong := sorted(set(words) - {*kinds, "cannot tell"}):
            raise Sentence(
                f"--fail-on {', '.join(wrong)}: {', '.join(kinds[:-1])} and {kinds[-1]} are allowed"
                " (comma-separated); nothing was judged"
            )
        return [w.replace("-", " ") for w in words]

    about = f"Exit code 3 for one of these answers: {','.join(kinds)}."
    return click.option("--fail-on", default="", metavar="WORDS", callback=named, help=about)


fail_on_option = fail_on("worse", "better", "cannot-tell")


def percent(ctx: click.Context, option: click.Parameter, given: float | None) -> float | None:
    """A margin, above 0 and below 100 %; or a --floor, which may be 0. Raises Sentence."""
    if given is not None and not (0 < given < 100 or (given == 0 and option.name == "floor")):
        least = "of at least 0" if option.name == "floor" else "above 0"
        raise Sentence(
            f"--{option.name} {given:g}: a number {least} and below 100 is needed; nothing was judged"
        )
    return given


margin_option = click.option(
    "--margin",
    type=float,
    callback=percent,
    help="The smallest difference that matters, in %. [CPU 1, latency 10, else 2]",
)


def archive_options(use: str) -> Callable[[_Function], _Function]:
    """The options for the tables of an ingested archive; use: how their help begins."""
    table = click.option("--from", "archive", metavar="TABLE", shell_complete=completion.files, help=f"{use} tables of `noisefloor ingest`.")  # fmt: skip
    baseline = click.option("--baseline", default="", metavar="LABEL=VALUE", help="--from: the arm that the others are compared with.")  # fmt: skip
    where = click.option("--where", multiple=True, metavar="LABEL=VALUE", help="--from: only runs with this label.")  # fmt: skip

    def given(command: _Function) -> _Function:
        return table(baseline(where(command)))

    return given


def print_comparisons(rows: Iterable[Mapping[Any, Any]], answer: Sequence[str] = ()) -> None:
    """Print verdict rows as JSON, after the lines of the answer if there is one. Unknown values are
    null."""

    def plain(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    document: dict[str, Any] = {"answer": list(answer)} if answer else {}
    document["comparisons"] = [{name: plain(value) for name, value in row.items()} for row in rows]
    say(json.dumps(document, indent=1))


def exit_on(kinds: Iterable[str], verdicts: Iterable[str]) -> None:
    """Exit with code 3 if one of the verdicts is of one of these kinds (`verdict.kind`)."""
    from noisefloor.stats import verdict

    if set(kinds) & set(map(verdict.kind, verdicts)):
        raise SystemExit(3)


class Command(click.Command):
    """A command whose help ends with examples: the lines of its epilog."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for line in (self.epilog or "").split("\n"):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def examples(*lines: str) -> str:
    """The examples of a command, as its epilog."""
    return "\n".join(f"noisefloor {line}" for line in lines)


class _Commands(click.Group):
    """The commands; a wrong command line gives one sentence."""

    command_class = Command

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with _one_sentence():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with _one_sentence():
            return super().invoke(ctx)


@contextlib.contextmanager
def _one_sentence() -> Iterator[None]:
    """Turn every mistake inside into a Sentence; a bug of Noisefloor keeps its traceback."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as e:
        command = e.ctx.command_path if e.ctx else "noisefloor"
        why = f"{e.format_message().rstrip('.')}; nothing was done"
        raise Sentence(f"{why}; `{command} --help` says what is allowed") from None
    except KeyboardInterrupt:
        raise Sentence(
            "stopped; what was finished is kept, the same command continues", 130
        ) from None
    except ModuleNotFoundError as e:
        package = (e.name or "noisefloor").partition(".")[0]
        if package == "noisefloor" or package in sys.stdlib_module_names:
            raise
        extra = _EXTRAS.get(package, "lab")
        raise Sentence(
            f"this needs {e.name}, which is not installed: pip install 'noisefloor[{extra}]'; nothing"
            " was done",
            1,
        ) from None
    except click.ClickException:
        raise
    except OSError as e:
        if e.errno == errno.EPIPE:
            raise
        from noisefloor import paths

        at = f" ({paths.relative(e.filename)})" if e.filename else ""
        raise Sentence(f"{e.strerror or e}{at}; it was left as it was", 1) from e
    except Exception as e:
        if type(e).__module__.partition(".")[0] != "noisefloor":
            raise
        raise Sentence(e, getattr(e, "code", 1)) from None  # our own errors are one sentence


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="noisefloor")
def main() -> None:
    """Measure what a change to a MySQL-family server really costs, with the evidence, and say
    'cannot tell' when the difference may be noise."""
