"""Commands that measure."""

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from noisefloor.cli import completion
from noisefloor.cli.base import (
    Sentence,
    examples,
    exit_on,
    fail_on_option,
    json_option,
    main,
    margin_option,
    print_comparisons,
    say,
    verbose_option,
)
from noisefloor.model import Request
from noisefloor.servers.kinds import USUAL

if TYPE_CHECKING:
    from noisefloor.data.results import Results


def _counts(ctx: click.Context, option: click.Parameter, given: str) -> tuple[Any, ...]:
    """Thread counts (`1,4,16`); other words stay text, which the study refuses with a message."""
    words = (t.strip() for t in given.split(",") if t.strip())
    return tuple(int(t) if t.isdecimal() else t for t in words)


# names, and how `click.option` declares them
_SHARED: tuple[tuple[list[str], dict[str, Any]], ...] = (
    (["--profile"], {"default": "quick", "help": "smoke, quick, standard or full. [quick]"}),
    (["--engine"], {"default": "", "help": "mysql, mariadb or a folder. [the study's, or mysql]"}),
    (["--threads"], {"default": "", "callback": _counts,
     "help": "Thread counts, such as 1,4,16. [the profile's]"}),
    (["--budget", "budget_min"], {"default": 0.0,
     "help": "Minutes of measuring for a question. [the profile's; ab: for each arm]"}),
    (["--server"], {"default": "", "metavar": "URL",
     "help": "Your own server, measured as a guest:"
     " mysql://USER@HOST:PORT/?read_default_file=FILE, mysql://USER@/?unix_socket=FILE, or `env` for the URL in $NOISEFLOOR_SERVER."
     " docs/own-server.md lists the privileges that it needs."}),
    (["--allow"], {"multiple": True, "metavar": "NAME",
     "help": "--server: measure although it is a replica or has one (replica), is busy or read-only,"
     " or its disk is full or cannot be seen (disk)."}),
    (["--dry-run", "dry"], {"is_flag": True,
     "help": "--server: print every statement; change nothing."}),
)  # fmt: skip


def _measuring(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of every measuring command: fields of `Request`, and the output."""
    command = margin_option(fail_on_option(verbose_option(json_option(command))))
    for names, how in reversed(_SHARED):
        command = click.option(*names, **how)(command)
    return command


@main.command(epilog=examples("doctor", "doctor --fetch mariadb"))
@json_option
@click.option(
    "--fetch",
    is_flag=False,
    flag_value=USUAL,
    default="",
    metavar="[ENGINE]",
    help="Download a server build first: mysql (the default), mysql-8.0, mariadb or mariadb-11.8.",
)
def doctor(as_json: bool, fetch: str) -> None:
    """Print what this machine can measure, what is missing, and how to get it."""
    import json

    from noisefloor.servers import doctor as examination
    from noisefloor.servers import engines

    if fetch not in ("", *engines.FINDERS):
        raise Sentence(
            f"--fetch knows {', '.join(engines.FINDERS)}, not {fetch!r}; nothing was done"
        )
    facts = examination.examine(fetch)
    say(json.dumps(facts, indent=2) if as_json else examination.text(facts))
    if fetch and "missing" in facts["engines"][fetch]:
        raise Sentence(facts["engines"][fetch]["missing"], exit_code=1)


@main.command(
    epilog=examples(
        "run tablespace-encryption --profile standard",
        "run tablespace-encryption --question restart",
        "run version-upgrade --old FOLDER --engine FOLDER",
    )
)
@click.argument("study", shell_complete=completion.studies)
@click.option(
    "--question",
    default="",
    metavar="KEY",
    shell_complete=completion.questions,
    help="A question of the study, or `all`. [its headline]",
)
@click.option("--old", default="", help="version-upgrade: the old build, a name or a FOLDER. [mysql-8.0]")  # fmt: skip
@click.option(
    "--clients",
    default="",
    metavar="ADDRESS",
    help="Dask workers that make the load, one sysbench each: tcp://HOST:PORT on this machine,"
    " tls:// elsewhere. [this host]",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), help="Seed of the order, as a page names it."
)
@_measuring
def run(
    study: str,
    old: str,
    margin: float | None,
    dry: bool,
    as_json: bool,
    verbose: bool,
    fail_on: list[str],
    **shared: Any,
) -> None:
    """Measure STUDY on throwaway servers. The same command continues an interrupted campaign.

    A study is a list of questions; each has its own campaign and its own budget. Without --question
    the headline is measured; a wrong name gives the list. The plan is printed first: blocks,
    minutes, and the expected half width. A campaign is judged once, at its end.

    With --server, binlog-encryption is measured on your own MySQL server, which is never restarted
    and whose settings are restored. Every other study needs servers that can be restarted.

    The answer comes first, then how often it was measured, what to do next and the command that
    makes the page; --verbose adds a sentence for each comparison.
    """
    from noisefloor import studies
    from noisefloor.show import report  # noqa: F401  # says what is missing before it measures

    if study == "own-study":
        raise Sentence(
            "own-study has its own command: noisefloor ab VARIABLE=OFF,ON; nothing was measured"
        )
    if old and study != "version-upgrade":
        raise Sentence(
            f"--old {old}: only version-upgrade takes it, not {study}; nothing was measured"
        )
    request = Request(study, old=old, margin_pct=margin or 0.0, **shared)
    studies.load(request)
    if results := _obtained(request, dry):
        page = studies.page_of(results.study.name, results.study.key)
        names = ",".join(campaign.folder.name for campaign in results.every)
        command = f"noisefloor report {page} -p campaign {names}"
        _print(results, command, as_json, verbose, fail_on)


def _obtained(request: Request, dry: bool) -> "Results | None":
    """The campaigns of a question, measured and opened; None for a dry run. SIGINT stops it, also if
    the shell that started it in the background made it ignore SIGINT."""
    if (request.allow or dry) and not request.server:
        raise Sentence("--allow and --dry-run go with --server URL; nothing was measured")
    if request.server and request.engine not in ("", USUAL):
        raise Sentence(
            f"--engine {request.engine}: --server measures the build of that server;"
            " nothing was measured"
        )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from noisefloor.data import results
    from noisefloor.measure import collect

    folders = collect.measure_study(request, say if dry else None)
    return None if dry else results.load(*folders)


def _print(r: "Results", page: str, as_json: bool, verbose: bool, fail_on: list[str]) -> None:
    """Print the answer, which names the `page`; with `verbose` also the other comparisons. Exit with
    code 3 where `fail_on` has a verdict of the comparison that the answer begins with."""
    from noisefloor.show import report

    answer = report.brief(r, page)
    if as_json:
        print_comparisons(report.records(r.verdicts), answer)
    else:
        say("\n".join([*answer, *(["", *report.findings(r.verdicts)] if verbose else ())]))
    exit_on(fail_on, _leading_verdicts(r))


def _leading_verdicts(r: "Results") -> list[str]:
    """The verdicts of the comparison that an answer begins with, for every arm: the joint one, or one
    for each thread count if there is none; `cannot tell` for one that is missing or provisional."""
    from noisefloor.data.results import headlines
    from noisefloor.model import CANNOT_TELL, NO_WORD

    for lead in headlines(r)[:1]:
        rows = r.of(lead["workload"], lead["metric"], control=False, question=lead["question"])
        joint = rows["joint"].astype(bool)
        rows = rows[joint | ~rows["arm"].isin(rows.loc[joint, "arm"])]
        return [CANNOT_TELL if word in NO_WORD else word for word in rows["verdict"]]
    return [CANNOT_TELL]


@main.command(epilog=examples("due", "due --verbose"))
@verbose_option
@json_option
def due(verbose: bool, as_json: bool) -> None:
    """List the questions that lack a sitting on this processor, most wanted first, with minutes.

    A sitting is one boot of one machine. A question that was measured since the last boot is not due.
    Three questions are listed, with --verbose all; none whose builds are not fetched yet.
    """
    import dataclasses
    import json

    from noisefloor.measure import due as lacking

    questions = lacking.due()
    if as_json:
        listed = [dataclasses.asdict(question) for question in questions]
        return say(json.dumps({"answer": lacking.in_short(questions), "due": listed}, indent=1))
    say(lacking.text(questions, len(questions) if verbose else lacking.MOST_WANTED))


@main.command(epilog=examples("measure", "measure --minutes 120"))
@json_option
@click.option("--minutes", type=click.FloatRange(1), default=60, show_default=True, help="Of the clock, in all.")  # fmt: skip
def measure(minutes: float, as_json: bool) -> None:
    """Measure what is due and fits into the MINUTES, and pack it into data/raw/recorded.

    A question that does not fit is not started. After an interruption the same command continues.
    For each campaign it prints the command that commits it.
    """
    import json

    from noisefloor import paths
    from noisefloor.measure import due as lacking

    campaigns = []
    for folder in lacking.measure(minutes, lambda text: say(text, err=True)):
        commit = f"git add {paths.relative(folder)} && git commit -m 'data: {folder.name}'"
        campaigns.append({"campaign": folder.name, "commit": commit})
        if not as_json:
            say(commit)
    if as_json:
        say(json.dumps(campaigns, indent=2))
    elif not campaigns:
        say(
            "nothing was measured: `noisefloor due` lists what is due and the minutes that it takes"
        )


@main.command(
    epilog=examples(
        "ab binlog_encryption=OFF,ON --threads 1,4,16",
        "ab sync_binlog=1,0 innodb_flush_log_at_trx_commit=1,2",
        "ab innodb_doublewrite=ON,OFF sync_binlog=0 --workload oltp_write_only",
        "ab sync_binlog=1,0 --rate 500",
        "ab sync_binlog=1,0 --server 'mysql://me@db.example/?read_default_file=me.cnf' --dry-run",
    )
)
@click.argument("settings", nargs=-1, required=True, metavar="VARIABLE=VALUE,VALUE...")
@click.option(
    "--workload", default="oltp_read_write", show_default=True, help="A script of sysbench."
)
@click.option(
    "--lua",
    default="",
    metavar="FILE",
    shell_complete=completion.files,
    help="Your own Lua script instead.",
)
@click.option("--rate", help="Transactions a second for each server, both at once, or a share of the baseline's maximum, such as 25%. [the maximum]")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False), help="Folder of the page. [reports/]")
@_measuring
def ab(
    rate: str | None,
    margin: float | None,
    out: str | None,
    dry: bool,
    as_json: bool,
    verbose: bool,
    fail_on: list[str],
    **shared: Any,
) -> None:
    """Measure a setting of any kind, or several together, and write the page.

    The first value of a variable is the baseline's. With several variables every combination is
    compared with the first one; a variable with one value has it in all arms. If a live server takes
    the values, one server is switched; otherwise there are two servers. Put a value with commas
    into single quotes. The same command continues an interrupted campaign.

    With --server your own server is measured as a guest: in a schema that Noisefloor creates and
    drops, with variables that are restored, without a restart.

    The answer comes first, then how often it was measured, what to do next and where the page is;
    --verbose adds a sentence for each comparison.
    """
    from noisefloor import paths
    from noisefloor.show import report

    number = 0 if rate is None else rate
    request = Request("own-study", rate=number, margin_pct=margin or 0.0, **shared)
    if (results := _obtained(request, dry)) is None:
        return
    job = (results.study.name, {"campaign": results.folder.name}, False)
    ((_, page, _),) = report.render_all([job], out, say=lambda line: say(line, err=True))
    where = "" if isinstance(page, report.ReportError) else paths.relative(page)
    _print(results, where, as_json, verbose, fail_on if where else [])
    if isinstance(page, report.ReportError):
        raise Sentence(page, 1)


@main.command(epilog=examples("calibrate --small", "calibrate --live"))
@click.option("--small", is_flag=True, help="One cell in 25, 1,000 campaigns each: seconds.")
@click.option("--seed", type=click.IntRange(1), help="The same seed gives the same figures. [that of calibrate/cells.toml]")  # fmt: skip
@click.option("--live", is_flag=True, help="Measure this machine first: about six hours.")
@click.option(
    "--profile",
    type=click.Choice(["smoke", "quick", "standard"]),
    default="standard",
    show_default=True,
    help="How long --live measures; later verdicts use the scatter of standard alone.",
)
@click.option(
    "--tables",
    is_flag=True,
    help="Only write the scatter of all recorded campaigns: of pairs, of starts, of sittings.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="Folder of the synthetic figures. [data/raw/recorded/; nowhere with --small]",
)
@json_option
def calibrate(
    small: bool,
    seed: int | None,
    live: bool,
    profile: str,
    tables: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Compute how often Noisefloor errs, on campaigns whose truth is known.

    Ten thousand campaigns for every kind of noise. With --live also two identical servers and known
    slowdowns on this machine; `compare` then uses their start-to-start scatter. A missed goal is an
    answer: exit code 0.
    """
    import functools
    import json

    from tqdm import tqdm

    # there is a process for each core: further threads of OpenBLAS would only compete with them
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from noisefloor import calibrate as calibration
    from noisefloor import paths, studies
    from noisefloor.data import results
    from noisefloor.measure import collect
    from noisefloor.show import report

    if tables:
        folder = paths.noise_file("noise", local=False).parent
        calibration.write_tables(calibration.open_calibration().opened, folder)
        return say(
            f"noise.json, floor.json, levels.json, tau.json and recovered.json are written into {paths.relative(folder)}"
        )
    opened = []
    if live:
        try:
            for question in studies.questions("calibration"):
                request = Request("calibration", question, profile)
                (folder,) = collect.measure_study(request)
                opened.append(results.load(folder))
            calibration.write_tables(opened, paths.runs(), machine=True)
        except calibration.TooShort as e:
            say(f"noisefloor: {e}", err=True)
    bar = functools.partial(tqdm, desc="calibrate", unit="cell", disable=None, leave=False)
    size: dict[str, Any] = {"n": 1000, "step": 25} if small else {}
    figures = calibration.measure(seed or 0, **size, progress=lambda jobs, n: bar(jobs, total=n))
    if out or not small:
        calibration.write(figures, out or calibration.recorded())
    result = calibration.Calibration(figures, tuple(opened))
    if as_json:
        facts = {**figures["facts"], "headline": result.headline}
        return say(json.dumps({**facts, "goals": report.records(result.goals)}, indent=1))
    sentences = "\n".join(result.sentences)
    say(f"{sentences}\n\n{calibration.summary(result.goals)}")
