"""Commands that judge numbers and logs."""

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from noisefloor.cli import completion
from noisefloor.cli.base import (
    Command,
    Sentence,
    archive_options,
    examples,
    exit_on,
    fail_on_option,
    json_option,
    main,
    margin_option,
    percent,
    print_answer,
    print_comparisons,
    say,
    verbose_option,
)

if TYPE_CHECKING:
    from noisefloor.model import Comparison

_SIDE = "\0--"  # stands for `--`; no file can have this name


class _TwoSides(Command):
    """A command with files on both sides of `--`; options may be anywhere."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_SIDE if arg == "--" else arg for arg in args])


@main.command(
    cls=_TwoSides,
    options_metavar="[OPTIONS]",
    epilog=examples(
        "compare before/*.txt -- after/*.txt",
        "compare --paired 1-off.txt 2-off.txt -- 1-on.txt 2-on.txt",
        "compare before/ -- after/ --markdown --fail-on worse",
        "compare --from TABLE --baseline server=mysql --where buffer_pool=12G",
        "compare --from TABLE --baseline server=mysql,version=8.0.45",
    ),
)
@click.argument("files", nargs=-1, metavar="BEFORE... -- AFTER...", shell_complete=completion.files)
@click.option("--paired", is_flag=True, help="The logs are pairs, in the order given.")
@click.option("--restarts", is_flag=True, help="The server was restarted between the runs.")
@click.option(
    "--floor",
    type=float,
    metavar="CV",
    callback=percent,
    help="Start-to-start CV of a server, in %. [recorded]",
)
@margin_option
@click.option("--baseline-name", help="Name of the first arm. [default: its folder's]")
@click.option("--arm-name", help="Name of the second arm. [default: its folder's]")
@click.option("--csv", "form", flag_value="csv", help="Print the verdict table as CSV.")
@click.option("--json", "form", flag_value="json", help="Print answer and table as JSON.")
@click.option("--markdown", "form", flag_value="markdown", help="Print both as Markdown.")
@verbose_option
@fail_on_option
@archive_options("Judge the")
def compare(
    files: tuple[str, ...],
    margin: float | None,
    baseline_name: str | None,
    arm_name: str | None,
    form: str | None,
    verbose: bool,
    fail_on: list[str],
    archive: str | None,
    baseline: str,
    where: tuple[str, ...],
    **rule: Any,
) -> None:
    """Judge logs of benchmarks or of `time`: two sets of files, two folders, or an ingested archive.

    The answer comes first, then why, and what to do; --verbose adds the table and all
    notes. Test, thread counts and duration are read from the logs. The intervals of several thread
    counts hold at 95 % together. If the runs of an arm may share one start of the server, there are
    two answers; --fail-on takes the cautious one, unless --restarts is given, of the metric in the
    first line. Logs that do not belong together are refused. Runs of an archive are pooled only if
    all their other labels agree. `cannot tell` is an answer: exit code 0.
    """
    from noisefloor.data import compare as logs
    from noisefloor.model import leading
    from noisefloor.stats.row import as_dict

    if archive and (files or rule["paired"] or not baseline):
        raise Sentence(
            "--from needs --baseline LABEL=VALUE, and neither files nor --paired: "
            "noisefloor compare --from TABLE --baseline server=mysql; nothing was read"
        )
    if not archive and (baseline or where):
        raise Sentence("--baseline and --where go with --from TABLE; nothing was read")
    if not archive and files.count(_SIDE) != 1:
        raise Sentence(
            f"{files.count(_SIDE)} times `--` between the files, once is needed: "
            "noisefloor compare before/*.txt -- after/*.txt; nothing was read"
        )
    if rule["floor"] is not None and rule["restarts"]:
        raise Sentence("--floor and --restarts exclude each other; nothing was judged")
    rule["margin_pct"] = margin or 0.0  # 0: the metric's own
    if archive:
        rows, left = _archived(archive, baseline, where, rule)
    else:
        at, named = files.index(_SIDE), (baseline_name, arm_name)
        rows, left = logs.judge(files[:at], files[at + 1 :], named, verbose, **rule), []
    answer = logs.conclusion(rows)
    if form == "json":
        print_comparisons(map(as_dict, rows), answer)
    elif form == "csv":
        say(logs.as_csv(rows), nl=False)
    elif form == "markdown":
        say("\n".join([*answer, "", logs.as_text(rows, form)]))
    elif verbose:
        print_answer([*answer, "", logs.as_text(rows)])
    else:
        print_answer([*answer, logs.pointer(rows, left)])
    if left and (form or verbose):
        text = click.wrap_text(f"Left out: {'; '.join(left)}.", 96, "", "  ")
        say(text if form else f"\n{text}", err=form is not None)
    lead = leading(row.metric for row in rows)
    exit_on(fail_on, (row.verdict for row in rows if row.metric == lead))


def _archived(
    folder: str, baseline: str, where: Iterable[str], rule: dict[str, Any]
) -> tuple[list["Comparison"], list[str]]:
    """(the comparisons of an archive, what was left out)."""
    from noisefloor.data import archive, ingest
    from noisefloor.stats.row import from_frame

    (label, value), *rest = archive.asked([baseline, *where])
    rule.pop("paired")
    opened = archive.load(folder, value, label=label, where=rest, **rule)
    table = archive.in_order(opened.judge())
    if table.empty:
        raise Sentence(
            f"{baseline}: no other arm has a metric and a thread count in common with it; nothing was"
            " judged"
        )
    rows = [from_frame(row) for row in table.to_dict("records")]
    left, problems = [*opened.left], ingest.manifest(opened.folder)["problems"]
    if problems:
        left.insert(0, f"{problems:,} problems (file, line, reason): the table `problems`")
    return rows, left


class _Above(Command):
    """A command without negative numbers: `-5` is a mistake, not an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for arg in args:
            if re.match(r"-([0-9.]|inf|nan)", arg, re.I) and not ctx.resilient_parsing:
                raise Sentence(f"{arg}: a number above 0 is needed; nothing was judged")
        return super().parse_args(ctx, args)


@main.command(
    cls=_Above,
    options_metavar="[OPTIONS]",
    epilog=examples(
        "judge 221.19 229.41 --threads 4 --seconds 300",
        "judge 17.43ms 18.07ms --fail-on worse",
        "judge 172 181 --metric wall --floor 0.2 --floor-runs 3",
        "judge 980 1010 --sd 12 15 --n 5",
    ),
)
@click.argument("a")
@click.argument("b")
@click.option("--threads", type=click.IntRange(1), help="Client threads of both runs.")
@click.option("--seconds", type=float, help="Length of one run.")
@click.option("--latency", nargs=2, metavar="A B", help="Mean latencies, in ms without a unit.")
@click.option("--metric", help="The metric of the numbers. [tps; mean_latency for times]")
@click.option("--lower-is-better", is_flag=True, help="Smaller numbers are better.")
@margin_option
@click.option("--floor", "floor_cv_pct", type=float, metavar="CV", help="Run-to-run CV in %, of one unchanged server. [published repeats]")  # fmt: skip
@click.option("--floor-runs", type=int, metavar="K", help="Runs behind --floor. [default: 10]")
@click.option("--sd", nargs=2, metavar="A B", help="Standard deviations of the runs.")
@click.option("--se", nargs=2, metavar="A B", help="Standard errors of the means.")
@click.option("--pm", nargs=2, metavar="A B", help="Numbers after an unexplained ±.")
@click.option("--n", metavar="N[,N]", help="Runs behind A and B. [1]")
@click.option("--restarts", is_flag=True, help="The server was restarted before every run.")
@verbose_option
@fail_on_option
@json_option
def judge(
    a: str,
    b: str,
    margin: float | None,
    lower_is_better: bool,
    verbose: bool,
    fail_on: list[str],
    as_json: bool,
    **given: Any,
) -> None:
    """Judge two published numbers, A without and B with a change: is it noise?

    The answer comes first, then why, what is known, and what to do. The difference between
    two runs of one unchanged server is predicted from published repeats: of a minute and more, or of
    shorter ones if --seconds is below 60. `cannot tell` is an answer: exit code 0.
    """
    from noisefloor.stats import two
    from noisefloor.stats.row import as_dict

    seconds = given["seconds"]
    if seconds is not None and not 0 < seconds < float("inf"):
        raise Sentence(f"--seconds {seconds:g}: a number above 0 is needed; nothing was judged")
    if given["floor_runs"] is not None and given["floor_cv_pct"] is None:
        raise Sentence("--floor-runs without --floor: the CV itself is needed; nothing was judged")
    try:
        better = "lower" if lower_is_better else None
        row, lines = two.judge_two(a, b, better=better, margin_pct=margin, **given)
    except ValueError as e:
        text = str(e)
        raise Sentence(text if "nothing" in text else f"{text}; nothing was judged") from None
    if as_json:
        print_comparisons([as_dict(row)], lines)
    else:
        print_answer([*lines, *(f"Note: {note}." for note in row.warnings * verbose)])
    exit_on(fail_on, [row.verdict])


@main.command(
    epilog=examples(
        "ingest ~/Percona-Lab-results --out tables",
        "ingest logs --labels labels.toml",
    )
)
@click.argument("path", shell_complete=completion.files)
@click.option(
    "--out",
    metavar="FOLDER",
    shell_complete=completion.files,
    help="Folder of the tables. [data/processed/NAME]",
)
@click.option(
    "--labels",
    "rules",
    default="",
    metavar="FILE",
    shell_complete=completion.files,
    help="Labels from paths: a regular expression with named groups such as (?P<server>[a-z]+), or"
    " a TOML file with `patterns`, a list of them.",
)
@click.option("--jobs", type=click.IntRange(1), help="Processes. [cores]")
@click.option(
    "--cluster",
    default="",
    metavar="ADDRESS",
    help="Dask workers that share the work: tcp://HOST:PORT, tls://HOST:PORT or a scheduler file."
    " [the cores here]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def ingest(
    path: str, out: str | None, rules: str, jobs: int | None, cluster: str, as_json: bool
) -> None:
    """Turn any tree of results into tables: logs of all tools that `compare` reads, also compressed or in archives.

    The text of a file says which tool wrote it; its path gives labels only (server, version, buffer
    pool, threads). FOLDER gets Parquet tables (tidy, intervals, histograms, problems, files) for
    pandas, DuckDB, Spark and `noisefloor compare --from`. The same command again reads only new and
    changed files (with those that were read together with them), and continues an interrupted
    ingest. Nothing in the tree is executed or changed.
    """
    from functools import partial
    from pathlib import Path

    from tqdm import tqdm

    from noisefloor import paths
    from noisefloor.data import cluster as places
    from noisefloor.data.ingest import build

    folder = Path(out) if out else paths.processed() / (Path(path).resolve().name or "root")
    if cluster:
        places.address(cluster)  # check it, because a small tree does not use it
    pool = partial(places.pool, cluster, jobs, sees=(path, folder))
    how = {"desc": "ingest", "unit": "B", "unit_scale": True, "delay": 2, "leave": False}
    with tqdm(disable=None, **how) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        tables = build.build(Path(path), folder, pool, rules=rules, progress=progress)
    if as_json:
        return say(json.dumps(tables, indent=1))
    runs = tables["runs"]
    kinds = ", ".join(f"{n} {kind}" for kind, n in tables["kinds"].items())
    say(
        f"{runs} runs in {tables['files']} files ({kinds or 'nothing'});"
        f" {tables['read']} files were read"
    )
    labels = [f"{n} {k} of {runs} ({v} values)" for n, (k, v) in tables["labels"].items()]
    if labels:
        say(f"labels: {', '.join(labels)}")
    if tables["problems"]:
        say(f"{tables['problems']} problems (file, line, reason): the table `problems`")
    say(f"tables: {paths.relative(folder.resolve())}")
