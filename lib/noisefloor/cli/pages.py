"""Commands for pages, their checks and packs, and campaigns over time."""

from typing import Any

import click

from noisefloor.cli import completion
from noisefloor.cli.base import (
    Sentence,
    archive_options,
    examples,
    fail_on,
    json_option,
    main,
    print_answer,
    print_comparisons,
    say,
)

_timeout_option = click.option(
    "--timeout",
    type=click.IntRange(1),
    default=3600,
    show_default=True,
    help="Seconds a cell may take.",
)


@main.command(
    epilog=examples(
        "report --profile recorded",
        "report binlog-encryption --profile quick",
        "report --from TABLE --baseline server=mysql,version=8.4.8",
    )
)
@click.argument("studies", nargs=-1, metavar="[STUDY]...", shell_complete=completion.pages)
@click.option(
    "--profile",
    type=click.Choice(["smoke", "quick", "standard", "full", "recorded"]),
    help="How long to measure; `recorded` makes pages from data/raw/recorded alone, never from"
    " data/raw/runs, without a server.",
)
@click.option(
    "-p", "given", nargs=2, multiple=True, metavar="NAME VALUE", help="A notebook parameter."
)
@archive_options("Make a page of")
@click.option("--out", type=click.Path(file_okay=False), help="Folder of the pages. [reports/]")
@click.option("--jobs", type=click.IntRange(1), help="Processes for recorded campaigns. [cores]")
@_timeout_option
@click.option(
    "--publish",
    is_flag=True,
    help="Replace the published pages, in reports/published/: with --profile recorded or --from.",
)
def report(
    studies: tuple[str, ...],
    profile: str | None,
    given: tuple[tuple[str, str], ...],
    archive: str | None,
    baseline: str,
    where: tuple[str, ...],
    out: str | None,
    jobs: int | None,
    timeout: int,
    publish: bool,
) -> None:
    """Run notebooks and write their pages, verdict tables and the index.

    Without names: five studies are measured, one after another; with --profile recorded every page
    is made, in parallel. A page that fails does not stop the others; its last version is moved to
    previous/. Exit code 1 if a page failed, 2 (and nothing run) for a wrong parameter.
    """
    from noisefloor import paths
    from noisefloor.data import archive as labels
    from noisefloor.show import report as pages

    if bool(archive) != bool(baseline) or (archive and (studies or profile)):
        raise Sentence(
            "--from TABLE and --baseline LABEL=VALUE go together, without a study or a profile:"
            " noisefloor report --from TABLE --baseline server=mysql; nothing was run"
        )
    if publish and profile != "recorded" and not archive:
        raise Sentence("--publish goes with --profile recorded, or with --from; nothing was run")
    if archive:
        labels.asked([baseline, *where])  # refuses wrong ones before anything is made
        asked: dict[str, Any] = {"table": archive, "baseline": baseline, "where": list(where)}
        work = pages.plan_archive(dict(given) | asked)
    else:
        work = pages.plan(studies, profile, dict(given))
    rows = pages.render_all(work, out, jobs, timeout, say=lambda line: say(line, err=True))
    say(pages.summary(rows, out))
    failed = any(isinstance(result, pages.ReportError) for _, result, _ in rows)
    for study, result, _ in rows if publish else ():
        if isinstance(result, (str, pages.ReportError)):
            continue
        folder, changed = pages.publish(study, out)
        kept = "" if changed else "; it was there already, with the same content"
        say(f"published: {paths.relative(folder)}{kept}")
    if failed:
        raise SystemExit(1)


@main.command(
    epilog=examples(
        "verify reports/binlog-encryption.html",
        "verify reports/published/*",
    )
)
@click.argument(
    "reports", nargs=-1, required=True, metavar="REPORT...", shell_complete=completion.files
)
@json_option
def verify(reports: tuple[str, ...], as_json: bool) -> None:
    """Make a page again from its raw files, and compare every number.

    REPORT is a page or its folder. Every number of its text, tables, drawings and data is computed
    again with the notebook of this project, and the checksums of the raw files are checked. Exit
    code 1 if anything differs or is missing.
    """
    import json

    from noisefloor.show.report import verified

    results = []
    for page in verified.pages(*reports):
        results.append(verified.verify(page))
        if not as_json:
            say(verified.text(results[-1]))
    if as_json:
        say(json.dumps({"pages": results}, indent=1))
    if not all(result["equal"] for result in results):
        raise SystemExit(1)


@main.command(
    epilog=examples(
        "bundle binlog-encryption",
        "bundle settings-doublewrite --out post.zip",
    )
)
@click.argument("study", shell_complete=completion.packed)
@click.option("--out", type=click.Path(), help="Folder or FILE.zip. [reports/bundles/<campaign>/]")
@_timeout_option
def bundle(study: str, out: str | None, timeout: int) -> None:
    """Write the blog pack of STUDY's page (recorded campaigns first), or of a campaign (also `ab-…`).

    A Markdown post, its figures as SVG and PNG, an HTML fragment, the executed notebook, tables, raw
    files, and a script that computes every number again from them. Passwords, host names, user
    names and home folders are removed.
    """
    from tqdm import tqdm

    from noisefloor import paths
    from noisefloor.show import bundle as packs

    with tqdm(total=packs.STEPS, unit="step", disable=None, leave=False) as bar:

        def step(words: str) -> None:
            bar.set_description(words)
            bar.update()

        made = packs.make(study, out, timeout, step=step)
    say(paths.relative(made))


@main.command(
    epilog=examples(
        "pack binlog-encryption-quick-20261120-234729",
        "pack binlog-encryption-quick-20261120-234729 --out campaigns/binlog",
    )
)
@click.argument("campaign", shell_complete=completion.campaigns)
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="Folder of the packed campaign. [data/raw/recorded/CAMPAIGN]",
)
def pack(campaign: str, out: str | None) -> None:
    """Pack a finished CAMPAIGN as one tar.xz beside its campaign.json, ready to be committed.

    The archive has every file unchanged, also those of failed runs; all commands read it as it is.
    The campaign in data/raw/runs stays. The same campaign gives the same bytes.
    """
    from noisefloor import paths
    from noisefloor.data import pack as packs

    folder, files, size = packs.pack(paths.campaign(campaign, paths.runs(), paths.recorded()), out)
    say(f"{paths.relative(folder)}: {files:,} files, {size:,} bytes")


@main.command(
    epilog=examples(
        "store",
        "store --to 'mysql://me@db.example/results?read_default_file=me.cnf'",
    )
)
@click.argument("campaigns", nargs=-1, metavar="[CAMPAIGN]...", shell_complete=completion.campaigns)
@click.option("--to", "url", default="", metavar="URL", help="The database. [$NOISEFLOOR_STORE]")
def store(campaigns: tuple[str, ...], url: str) -> None:
    """Write campaigns and their verdicts into a database, for `history`.

    Without names: every campaign of data/raw/recorded and data/raw/runs. Without a URL:
    data/processed/history.sqlite. A campaign that is stored again is replaced. The schema must have
    no other tables. Put a password into an option file or $NOISEFLOOR_STORE, never into the command
    line.
    """
    from noisefloor import paths
    from noisefloor import store as database
    from noisefloor.data import tidy

    folders = [paths.campaign(name) for name in dict.fromkeys(campaigns or paths.campaigns())]
    place = database.address(url)
    database.prepare(place)
    failed = stored = 0
    for folder in folders:
        try:
            count = database.push(place, folder)
        except (database.StoreError, tidy.Damaged) as e:
            passed = not campaigns and isinstance(e, database.NothingToJudge)
            failed += not passed  # unfinished ones count only if they were named
            say(f"noisefloor: {e}", err=True)
        else:
            stored += 1
            say(f"{folder.name}: {count} comparison{'s' * (count != 1)}")
    say(f"{stored} of {len(folders)} campaigns are in {database.url_without_password(place)}")
    if failed:
        raise SystemExit(1)


@main.command(
    epilog=examples(
        "history binlog-encryption --fail-on outside",
        "history binlog-encryption --metric tps --threads 4 --plot tps.svg",
    )
)
@click.argument("study", shell_complete=completion.studies)
@click.option("--question", default="", metavar="KEY", help="A question of STUDY.", shell_complete=completion.questions)  # fmt: skip
@click.option("--metric", default="", help="Such as tps or p95.")
@click.option("--threads", type=click.IntRange(1), help="A thread count.")
@click.option("--arm", default="", help="Such as encrypted.")
@click.option("--from", "url", default="", metavar="URL", help="The database. [$NOISEFLOOR_STORE]")
@json_option
@click.option("--plot", type=click.Path(dir_okay=False), help="Draw it into FILE.svg or FILE.png.")
@fail_on("outside", "worse", "better", "cannot-tell")
def history(
    study: str,
    question: str,
    metric: str,
    threads: int | None,
    arm: str,
    url: str,
    as_json: bool,
    plot: str | None,
    fail_on: list[str],
) -> None:
    """Check whether the newest campaign of STUDY lies where earlier ones predict, and list all
    campaigns, over versions, machines and dates, with intervals.

    The newest campaign of the present design is compared with the prediction interval of the earlier
    sittings on the same processor. All comparisons share an error of 5 %: at most one check in 20
    raises a false alarm. Without --metric, --threads and --arm: the first comparisons of the study's
    page. Campaigns come from the database of `noisefloor store`. `cannot tell` is an answer: exit
    code 0.
    """
    from pathlib import Path

    from noisefloor import store as database
    from noisefloor.data import alarm
    from noisefloor.show import plots, report

    if plot and Path(plot).suffix not in (".svg", ".png"):
        raise Sentence(f"--plot {plot}: a file that ends in .svg or .png is needed")
    at = database.address(url)
    rows = database.history(at, study, question=question, metric=metric, threads=threads, arm=arm)
    try:
        if plot:
            plots.write(plots.history_figure(rows), Path(plot))
    except OSError as e:
        raise Sentence(f"{plot} cannot be written ({e.strerror})", 1) from None
    answer = report.alarm_lines(rows)
    if as_json:
        print_comparisons(report.records(rows), answer)
    else:
        print_answer([*answer, "", database.history_text(rows)])
    if alarm.answers(rows) & {*fail_on}:
        raise SystemExit(3)
