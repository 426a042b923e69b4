"""The command line: parses and calls, nothing else. Imports stay inside the commands."""

import contextlib
import errno
import os
import re

import click

# control characters, text direction, halves of a character: names from others cannot steer a terminal
_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def _say(text, **more):
    """Print `text`, whatever names it holds."""
    click.echo(_STEERS.sub("\N{REPLACEMENT CHARACTER}", str(text)), **more)


class Sentence(click.ClickException):
    """A user's mistake or a measurement that could not be made: one sentence, no traceback."""

    def __init__(self, message: str, exit_code: int = 2):
        from noisefloor.parse.secrets import scrub

        super().__init__(" ".join(scrub(str(message))[0].split()))
        self.exit_code = exit_code

    def show(self, file=None):
        _say(f"noisefloor: {self.message}", err=True)


_SOMEBODY_ELSES = (
    click.option(
        "--server",
        default="",
        metavar="URL",
        help="A server of your own, measured as a guest: mysql://USER@HOST:PORT/?read_default_file=FILE,"
        " mysql://USER@/?unix_socket=FILE, or `env` for the URL in $NOISEFLOOR_SERVER."
        " README.md, On a server of your own, tells the rights that it needs.",
    ),
    click.option(
        "--allow",
        multiple=True,
        metavar="NAME",
        help="--server: measure although it is a replica or has one (replica), busy, read-only, or"
        " its disk is full or unseen (disk).",
    ),
    click.option(
        "--dry-run", "dry", is_flag=True, help="--server: print every statement; change nothing."
    ),
)


def _own_server(command):
    """The options of a command that can measure on a server that Noisefloor did not start."""
    for option in reversed(_SOMEBODY_ELSES):
        command = option(command)
    return command


_cluster = click.option(
    "--cluster",
    default="",
    metavar="ADDRESS",
    help="Dask workers that share the work: tcp://HOST:PORT, tls://HOST:PORT or a scheduler file."
    " [the cores here]",
)


def _fail_on(command):
    """The option --fail-on of a command that judges; its value goes to `_failed`."""

    def words(ctx, option, given):
        found = [w.strip().replace("-", " ") for w in given.split(",") if w.strip()]
        if wrong := set(found) - {"slower", "faster", "cannot tell"}:
            raise Sentence(
                f"--fail-on {', '.join(sorted(wrong))}: slower, faster and cannot-tell are allowed "
                "(comma-separated); nothing was judged"
            )
        return found

    return click.option(
        "--fail-on",
        default="",
        metavar="WORDS",
        callback=words,
        help="Exit code 3 for one of these verdicts: slower,faster,cannot-tell.",
    )(command)


def _failed(words, verdicts):
    """Exit with code 3 when a verdict is one of the `words` of --fail-on."""
    if set(words) & set(verdicts):
        raise SystemExit(3)


class _Commands(click.Group):
    """Commands to which a wrong word in the command line is one sentence, too."""

    def make_context(self, *args, **more):
        with _one_sentence():
            return super().make_context(*args, **more)

    def invoke(self, ctx):
        with _one_sentence():
            return super().invoke(ctx)


@contextlib.contextmanager
def _one_sentence():
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as e:
        command = e.ctx.command_path if e.ctx else "noisefloor"
        said = e.format_message().rstrip(".")
        raise Sentence(
            f"{said}; nothing was done; `{command} --help` says what is allowed"
        ) from None
    except OSError as e:
        if e.errno == errno.EPIPE:
            raise
        from noisefloor import paths

        at = f" ({paths.shown(e.filename)})" if e.filename else ""
        raise Sentence(f"{e.strerror or e}{at}; it was left as it was", 1) from e


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="noisefloor")
def main():
    """What a change to a MySQL-family server really costs, with the evidence, and 'cannot tell'
    when the difference is noise."""


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--fetch",
    is_flag=False,
    flag_value="mysql",
    default="",
    metavar="[ENGINE]",
    help="Download a server build first: mysql (the default), mysql-8.0, mariadb or mariadb-11.8.",
)
def doctor(as_json, fetch):
    """What this machine can measure, what is missing, and how to get it."""
    import json

    from noisefloor import doctor as examination
    from noisefloor import engines

    if fetch not in ("", *engines.FINDERS):
        raise Sentence(
            f"--fetch knows {', '.join(engines.FINDERS)}, not {fetch!r}; nothing was done"
        )
    found = examination.examine(fetch)
    _say(json.dumps(found, indent=2) if as_json else examination.text(found))
    if fetch and "missing" in found["engines"][fetch]:
        raise Sentence(found["engines"][fetch]["missing"], exit_code=1)


class _TwoSides(click.Command):
    """A command whose files stand on both sides of `--`; options may stand anywhere."""

    def parse_args(self, ctx, args):
        ctx.meta["sides"] = args.count("--")
        return super().parse_args(ctx, [_SIDE if a == "--" else a for a in args])


_SIDE = "\0--"  # no file can have this name


@main.command(cls=_TwoSides, options_metavar="[OPTIONS]")
@click.argument("files", nargs=-1, metavar="BEFORE... -- AFTER...")
@click.option("--paired", is_flag=True, help="The logs are pairs, in the order given.")
@click.option("--restarts", is_flag=True, help="The server was restarted between the runs.")
@click.option(
    "--floor", type=float, metavar="CV", help="Start-to-start CV of a server, in %. [recorded]"
)
@click.option("--margin", default=2.0, show_default=True, help="Difference that matters, in %.")
@click.option("--baseline-name", help="Name of the first arm. [default: its folder's]")
@click.option("--arm-name", help="Name of the second arm. [default: its folder's]")
@click.option("--csv", "form", flag_value="csv", help="Print the verdict table as CSV.")
@click.option("--json", "form", flag_value="json", help="Print it as JSON.")
@click.option("--markdown", "form", flag_value="markdown", help="Print it as Markdown.")
@_fail_on
@click.option("--from", "archive", metavar="TABLE", help="Judge the tables of `noisefloor ingest`.")
@click.option("--baseline", metavar="LABEL=VALUE", help="--from: the arm that others are held against.")  # fmt: skip
@click.option("--where", multiple=True, metavar="LABEL=VALUE", help="--from: only runs with it.")
@click.option("--by", type=click.Choice(["threads"]), default="threads", help="--from: a row each.")
@click.pass_context
def compare(
    ctx, files, baseline_name, arm_name, form, fail_on, archive, baseline, where, by, **rule
):
    """Judge sysbench or `time` logs: two sets of files, two folders, or an ingested archive.

    \b
    noisefloor compare before/*.txt -- after/*.txt
    noisefloor compare --paired 1-off.txt 2-off.txt -- 1-on.txt 2-on.txt
    noisefloor compare before/ -- after/ --markdown --fail-on slower
    noisefloor compare --from TABLE --baseline server=mysql --where buffer_pool=12G --by threads

    Test, thread counts and duration are read from the logs; several thread counts are one family.
    Logs that do not belong together are refused. In an archive runs are pooled only where everything
    else that is known of them agrees. `cannot tell` is an answer: exit code 0.
    """
    from noisefloor import compare as logs

    if archive:
        if files or rule["paired"] or not baseline:
            raise Sentence(
                "--from needs --baseline LABEL=VALUE, and neither files nor --paired: "
                "noisefloor compare --from TABLE --baseline server=mysql; nothing was read"
            )
    elif baseline or where:
        raise Sentence("--baseline and --where go with --from TABLE; nothing was read")
    elif ctx.meta["sides"] != 1:
        raise Sentence(
            f"{ctx.meta['sides']} times `--` between the files, once is needed: "
            "noisefloor compare before/*.txt -- after/*.txt; nothing was read"
        )
    _margin(rule["margin"])
    _floor(rule["floor"], rule["restarts"])
    rule["margin_pct"] = rule.pop("margin")
    groups, left = (
        _archived(archive, baseline, where, rule)
        if archive
        else _two_sides(files, baseline_name, arm_name, rule)
    )
    every = [row for rows in groups for row in rows]
    if form == "json":
        _say(logs.as_json(every))
    elif form == "csv":
        _say(logs.as_csv(every), nl=False)
    else:
        for rows in groups:
            text = f"{logs.headline(rows)}\n\n" if form is None else ""
            _say(text + logs.table(rows, form or "text") + "\n" * bool(archive))
    for sentence in left:
        _say(
            f"left out: {sentence}" if form is None else f"noisefloor: {sentence}",
            err=form is not None,
        )
    _failed(fail_on, [row["verdict"] for row in every])


def _two_sides(files, baseline_name, arm_name, rule):
    """One group of verdict rows of two sets of files, and nothing left out."""
    from noisefloor import compare as logs

    at = files.index(_SIDE)
    before, after = files[:at], files[at + 1 :]
    names = logs.names(before, after)
    names = (baseline_name or names[0], arm_name or names[1])
    if names[0] == names[1]:
        raise Sentence(f"both arms are called {names[0]!r}: two names are needed; nothing was read")
    try:
        sides = logs.sides(before, after, *names)
        return [logs.rows(*sides, baseline=names[0], arm=names[1], **rule)], []
    except logs.Refused as e:
        raise Sentence(e, e.code) from None


def _archived(archive, baseline, where, rule):
    """The groups of verdict rows of an archive, and what was left out of them."""
    from noisefloor import compare as logs
    from noisefloor.ingest import NotATable, judged

    asked = [text.partition("=") for text in (baseline, *where)]
    if bad := next((n for n, _, v in asked if not n or not v), None):
        raise Sentence(f"{bad}: LABEL=VALUE is needed, such as server=mysql; nothing was read")
    (label, _, value), *rest = asked
    rule.pop("paired")
    try:
        return judged.pooled(archive, label, value, {n: v for n, _, v in rest}, **rule)
    except logs.Refused as e:
        raise Sentence(e, e.code) from None
    except NotATable as e:
        raise Sentence(e) from None


def _floor(floor, restarts):
    """Refuse a floor that is not a number of 0 and more, and one that is not used."""
    if floor is not None and not 0 <= floor < 100:
        raise Sentence(
            f"--floor {floor:g}: a CV of at least 0 and below 100 % is needed; nothing was judged"
        )
    if floor is not None and restarts:
        raise Sentence("--floor and --restarts exclude each other; nothing was judged")


def _margin(margin):
    """Refuse a margin that is not a positive number below 100."""
    if not 0 < margin < 100:
        raise Sentence(
            f"--margin {margin:g}: a margin above 0 and below 100 % is needed; nothing was judged"
        )


@main.command()
@click.argument("studies", nargs=-1, metavar="[STUDY]...")
@click.option(
    "--profile",
    type=click.Choice(["smoke", "quick", "standard", "full", "recorded"]),
    help="How long to measure; `recorded` renders each study's newest recorded campaign, without"
    " a server.",
)
@click.option(
    "-p", "given", nargs=2, multiple=True, metavar="NAME VALUE", help="A notebook parameter."
)
@click.option("--out", type=click.Path(file_okay=False), help="Folder of the pages. [reports/]")
@click.option("--jobs", type=click.IntRange(1), help="Processes for recorded campaigns. [cores]")
@_cluster
@click.option("--timeout", type=click.IntRange(1), default=3600, show_default=True, help="Seconds a cell may take.")  # fmt: skip
@click.option(
    "--publish", is_flag=True, help="Copy the pages to reports/published/, where they stay."
)
def report(studies, profile, given, out, jobs, cluster, timeout, publish):
    """Run notebooks and write their pages, verdict tables and the index.

    Without names: every study. Recorded campaigns are rendered in parallel, measurements run one
    after another; one that fails does not stop the others, and its page of last time is set aside
    under previous/. Exit code 1 when a page failed, 2 (and nothing run) for a wrong parameter.
    """
    from noisefloor import paths
    from noisefloor import report as pages
    from noisefloor.cluster import Unreachable

    try:
        work = pages.plan(studies, profile, dict(given))
    except pages.ReportError as e:
        raise Sentence(e, e.code) from None
    if cluster and (live := [study for study, _, live in work if live]):
        raise Sentence(
            f"--cluster renders what is recorded (--profile recorded), {live[0]} would be measured; "
            "nothing was run"
        )
    try:
        rows = pages.render_all(
            work, out, jobs, timeout, say=lambda line: _say(line, err=True), cluster=cluster
        )
    except Unreachable as e:
        raise Sentence(e, e.code) from None
    _say(pages.summary(rows, out))
    for study, result, _ in rows if publish else ():
        if not isinstance(result, (str, pages.ReportError)):
            try:
                _say(f"published: {paths.shown(pages.publish(study, out))}")
            except pages.ReportError as e:
                raise Sentence(e, e.code) from None
    if any(isinstance(result, pages.ReportError) for _, result, _ in rows):
        raise SystemExit(1)


@main.command()
@click.argument("reports", nargs=-1, required=True, metavar="REPORT...")
@click.option("--json", "as_json", is_flag=True, help="Print all differences as JSON.")
def verify(reports, as_json):
    """Does a page say what its raw files say? It is made again from them and compared.

    \b
    noisefloor verify reports/binlog-encryption.html
    noisefloor verify reports/published/*

    REPORT is a page, or the folder that it lies in. Every number of its text, tables, drawings and
    data is recomputed with the notebook of this project, and the raw files are held against their
    checksums. Exit code 1 when anything differs or is missing.
    """
    import json

    from noisefloor.report import ReportError, verified

    try:
        found = []
        for page in verified.pages(*reports):
            found.append(verified.verify(page))
            if not as_json:
                _say(verified.text(found[-1]))
    except ReportError as e:
        raise Sentence(e, e.code) from None
    if as_json:
        _say(json.dumps({"pages": found}, indent=1))
    if not all(one["equal"] for one in found):
        raise SystemExit(1)


@main.command()
@click.argument("study")
@click.option(
    "--out", type=click.Path(), help="A folder, or FILE.zip. [reports/bundles/<campaign>/]"
)
@click.option("--timeout", default=3600, show_default=True, help="Seconds a cell may take.")
def bundle(study, out, timeout):
    """The blog pack of STUDY's newest campaign, or of a campaign by its name (`ab-…` too).

    A Markdown post, its figures as SVG and PNG, a piece of HTML, the executed notebook, tables,
    raw files, and a script that computes every number again from them. Passwords, host names, user
    names and home folders are taken out.
    """
    from tqdm import tqdm

    from noisefloor import bundle as packs
    from noisefloor import paths, report, tidy

    bar = tqdm(total=packs.STEPS, unit="step", disable=None, leave=False)
    try:
        made = packs.make(
            study, out, timeout, step=lambda words: (bar.set_description(words), bar.update())
        )
    except (report.ReportError, tidy.Damaged) as e:
        raise Sentence(e, getattr(e, "code", 1)) from None
    finally:
        bar.close()
    _say(paths.shown(made))


@main.command()
@click.argument("campaign")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="Folder of the packed campaign. [data/raw/recorded/CAMPAIGN]",
)
def pack(campaign, out):
    """Make a finished CAMPAIGN one zip beside its campaign.json, as campaigns are committed.

    The zip holds every file as it was printed, those of failed runs too; all commands read it in
    place. The campaign in data/raw/runs stays. The same campaign gives the same bytes.
    """
    from tqdm import tqdm

    from noisefloor import pack as packs
    from noisefloor import paths, tidy

    with tqdm(desc="pack", unit="file", delay=2, disable=None, leave=False) as bar:

        def progress(done, total):
            bar.total = total
            bar.update(done - bar.n)

        try:
            folder, files, size = packs.pack(paths.campaign(campaign), out, progress=progress)
        except paths.NotFound as e:
            raise Sentence(f"{e}; nothing was packed") from None
        except (packs.Refused, tidy.Damaged) as e:
            raise Sentence(e, getattr(e, "code", 1)) from None
    _say(f"{paths.shown(folder)}: {files:,} files, {size:,} bytes")


@main.command()
@click.argument("study")
@click.option("--question", default="", metavar="KEY", help="A question of the study, or `all`. [its headline]")  # fmt: skip
@click.option(
    "--profile", default="quick", show_default=True, help="smoke, quick, standard or full."
)
@click.option("--engine", default="", help="mysql, mariadb or a folder. [the study's]")
@click.option("--old", default="", help="version-upgrade: the build to come from. [mysql-8.0]")
@click.option("--threads", default="", help="Thread counts, such as 1,4,16. [the profile's]")
@click.option("--margin", type=float, help="Difference that matters, in %. [quick: 5, else 2]")
@click.option("--budget", default=0.0, help="Minutes of measuring a question. [the profile's]")
@click.option(
    "--clients",
    default="",
    metavar="ADDRESS",
    help="Dask workers that load, one sysbench each: tcp://HOST:PORT on this machine, tls:// beyond"
    " it. [this host]",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), help="Deal the order again that a page names."
)
@_own_server
@click.option("--json", "as_json", is_flag=True, help="Print the verdict table as JSON.")
def run(
    study, question, profile, engine, old, threads, margin, budget, clients, seed, server, allow, dry, as_json
):  # fmt: skip
    """Measure STUDY on throwaway servers. The same command continues an interrupted campaign.

    \b
    noisefloor run tablespace-encryption --profile standard
    noisefloor run tablespace-encryption --question restart

    A study is a list of questions; each is a campaign of its own, with a budget of its own. Without
    --question the headline is measured; a wrong name is answered with the list. The plan is printed
    before anything is measured: blocks, looks, and the half width to expect.

    With --server binlog-encryption is measured on a MySQL server of your own, which is left as it
    was and never restarted; every other study needs servers that can be restarted.
    """
    import json

    from noisefloor import studies
    from noisefloor.study import StudyError

    if study == "own-study":
        raise Sentence("own-study asks a question of yours: noisefloor ab VARIABLE=OFF,ON")
    asked = _asked(profile, engine, threads, margin, budget)
    if old and study != "version-upgrade":
        raise Sentence(f"--old {old}: only version-upgrade compares two builds, not {study}")
    asked |= {"old": old} if old else {}
    try:
        studies.load(study, question="" if question == "all" else question, **asked)
    except StudyError as e:
        raise Sentence(e) from None
    from noisefloor import report, results

    whose = _guest(engine, server, allow, dry)
    folders = _obtained(study, question=question, clients=clients, seed=seed, **whose, **asked)
    if dry:
        return None
    found = results.load(*folders)
    if as_json:
        return _say(json.dumps({"comparisons": report.records(found.verdicts)}, indent=1))
    _say("\n".join(report.findings(found.verdicts)))


def _asked(profile, engine, threads, margin, budget):
    """The parameters that all studies share, from the command line."""
    try:
        counts = [int(t) for t in threads.split(",") if t.strip()]
    except ValueError:
        counts = [0]
    if any(t < 1 for t in counts):
        raise Sentence(f"--threads {threads}: whole numbers above 0, such as 1,4,16, are needed")
    if margin is not None:
        _margin(margin)
    asked = {"profile": profile, "engine": engine, "threads": counts}
    return asked | {"margin_pct": margin or 0.0, "budget_min": budget}


def _guest(engine, server, allow, dry):
    """What `collect.obtain` takes of the options of `_own_server`."""
    if (allow or dry) and not server:
        raise Sentence("--allow and --dry-run go with --server URL; nothing was measured")
    if server and engine not in ("", "mysql"):
        raise Sentence(
            f"--engine {engine}: a server that is there already (--server) is the build that it is;"
            " nothing was measured"
        )
    return {"server": server, "allow": allow, "dry": _say if dry else None}


def _obtained(study, **asked):
    """The folders of the campaigns that answer a question, measured now."""
    from noisefloor import collect

    try:
        return collect.measured(study, **asked)
    except collect.StudyError as e:
        raise Sentence(e) from None
    except collect.FAILURES as e:
        raise Sentence(e, 1) from None
    except KeyboardInterrupt:
        raise Sentence("stopped; whole runs are kept, the same command continues", 130) from None


@main.command()
@click.argument("settings", nargs=-1, required=True, metavar="VARIABLE=VALUE,VALUE...")
@click.option(
    "--workload", default="oltp_read_write", show_default=True, help="A script of sysbench."
)
@click.option("--lua", default="", metavar="FILE", help="A Lua script of your own instead.")
@click.option(
    "--profile", default="quick", show_default=True, help="smoke, quick, standard or full."
)
@click.option("--engine", default="mysql", show_default=True, help="mysql, mariadb or a folder.")
@click.option("--threads", default="", help="Thread counts, such as 1,4,16. [the profile's]")
@click.option("--margin", type=float, help="Difference that matters, in %. [quick: 5, else 2]")
@click.option("--budget", default=0.0, help="Minutes of measuring. [the profile's, for each arm]")
@_own_server
@click.option("--out", type=click.Path(file_okay=False), help="Folder of the page. [reports/]")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict table as JSON.")
def ab(
    settings,
    workload,
    lua,
    profile,
    engine,
    threads,
    margin,
    budget,
    server,
    allow,
    dry,
    out,
    as_json,
):
    """Measure a setting of any kind, or several together, and write the page.

    \b
    noisefloor ab binlog_encryption=OFF,ON --threads 1,4,16
    noisefloor ab sync_binlog=1,0 innodb_flush_log_at_trx_commit=1,2
    noisefloor ab innodb_doublewrite=ON,OFF sync_binlog=0 --workload oltp_write_only
    noisefloor ab sync_binlog=1,0 --server 'mysql://me@db.example/?read_default_file=me.cnf' --dry-run

    The first value of a variable is the baseline's. With several variables every combination is
    compared with the first one; a variable with one value is held at it. Where a live server takes
    the values one server is switched, else two stand side by side. A value that holds commas
    stands in single quotes. The same command continues an interrupted campaign.

    With --server a server of your own is measured as a guest: in a schema that Noisefloor creates
    and drops, with variables that are put back, without a restart.
    """
    import json

    from noisefloor import report, results

    asked = _asked(profile, engine, threads, margin, budget)
    asked |= {"settings": list(settings), "workload": workload, "lua": lua}
    folders = _obtained("own-study", **_guest(engine, server, allow, dry), **asked)
    if dry:
        return
    found = results.load(*folders)
    job = (found.study.name, {"campaign": folders[0].name}, False)
    ((_, page, _),) = report.render_all([job], out, say=lambda line: _say(line, err=True))
    if as_json:
        _say(json.dumps({"comparisons": report.records(found.verdicts)}, indent=1))
    else:
        _say("\n".join(report.findings(found.verdicts)))
    if isinstance(page, report.ReportError):
        raise Sentence(page, 1)


class _Above(click.Command):
    """A command that takes no negative number anywhere: `-5` is a mistake, not an option."""

    def parse_args(self, ctx, args):
        for arg in args:
            if re.match(r"-([0-9.]|inf|nan)", arg, re.I):
                raise Sentence(f"{arg}: a number above 0 is needed; nothing was judged")
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as e:
            raise Sentence(f"{e.format_message().rstrip('.')}; nothing was judged") from None


@main.command(cls=_Above, options_metavar="[OPTIONS]")
@click.argument("a")
@click.argument("b")
@click.option("--threads", type=int, help="Client threads of both runs.")
@click.option("--seconds", type=float, help="Length of one run.")
@click.option("--latency", nargs=2, metavar="A B", help="Mean latencies, in ms without a unit.")
@click.option("--metric", help="What the numbers are. [tps; mean_latency for times]")
@click.option("--lower-is-better", is_flag=True, help="A smaller number is the better one.")
@click.option("--margin", default=2.0, show_default=True, help="Difference that matters, in %.")
@click.option("--floor", type=float, metavar="CV", help="Run-to-run CV in %, from A/A runs. [published repeats]")  # fmt: skip
@click.option("--floor-runs", type=int, metavar="K", help="A/A runs behind --floor. [default: 10]")
@click.option("--sd", nargs=2, metavar="A B", help="Standard deviations of the runs.")
@click.option("--se", nargs=2, metavar="A B", help="Standard errors of the means.")
@click.option("--pm", nargs=2, metavar="A B", help="What follows a ± that nobody explains.")
@click.option("--n", metavar="N[,N]", help="Runs behind A and B. [1]")
@click.option("--restarts", is_flag=True, help="The server was restarted before every run.")
@_fail_on
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def judge(a, b, floor, floor_runs, margin, lower_is_better, fail_on, as_json, **given):
    """Judge two published numbers, A without and B with a change: is it noise?

    \b
    noisefloor judge 221.19 229.41 --threads 4 --seconds 300
    noisefloor judge 17.43ms 18.07ms --fail-on slower
    noisefloor judge 172 181 --metric wall --floor 0.2 --floor-runs 3
    noisefloor judge 980 1010 --sd 12 15 --n 5

    The verdict comes first, then what is known, the run-to-run scatter below which the difference
    is significant, and the shortest plan that would settle it. Numbers without their scatter are
    held against published repeats of runs. `cannot tell` is an answer: exit code 0.
    """
    from noisefloor.stats import two

    for name in ("threads", "seconds"):
        number = given[name]
        if number is not None and not 0 < number < float("inf"):
            raise Sentence(f"--{name} {number:g}: a number above 0 is needed; nothing was judged")
    if floor_runs is not None and floor is None:
        raise Sentence("--floor-runs without --floor: the CV itself is needed; nothing was judged")
    given |= {"floor_cv_pct": floor, "floor_runs": floor_runs, "margin_pct": margin}
    try:
        row, (first, *rest) = two.judge(a, b, better="lower" if lower_is_better else None, **given)
    except ValueError as e:
        text = str(e)
        raise Sentence(text if "nothing" in text else f"{text}; nothing was judged") from None
    if as_json:
        import json
        from math import isfinite

        known = {k: v if not isinstance(v, float) or isfinite(v) else None for k, v in row.items()}
        _say(json.dumps({"comparisons": [known]}, indent=1))
    else:
        word, gap = row["verdict"], click.wrap_text(first, 92, "", "  ")
        click.echo(f"{click.style(word, bold=True)}{gap[len(word) :]}\n")
        for line in rest:
            _say(click.wrap_text(line, 88, "  ", "    "))
    _failed(fail_on, [row["verdict"]])


@main.command()
@click.option("--small", is_flag=True, help="One cell in 25, 1,000 campaigns each: seconds.")
@click.option("--seed", type=click.IntRange(1), default=1, show_default=True, help="The same seed, the same figures.")  # fmt: skip
@click.option("--live", is_flag=True, help="Measure this machine first: about seven hours.")
@click.option(
    "--profile",
    type=click.Choice(["smoke", "quick", "standard"]),
    default="standard",
    show_default=True,
    help="How long --live measures.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="Folder of the synthetic figures. [data/raw/recorded/; nowhere with --small]",
)
@_cluster
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def calibrate(small, seed, live, profile, out, cluster, as_json):
    """Is the instrument honest? Error rates on campaigns whose truth is known.

    Ten thousand campaigns for every kind of noise, effect and design; with --live also two
    identical servers and known slowdowns on this machine: `compare` then takes its start-to-start
    scatter as its floor, and `run` lets two servers at once say what was found honest here. A goal
    that is missed is an answer: exit code 0.
    """
    import functools
    import json

    from tqdm import tqdm

    # a process a core: threads of their own inside each would only get in each other's way
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from noisefloor import calibration, collect, paths, report, results
    from noisefloor.cluster import Unreachable

    opened = {}
    if live:
        try:
            for question in calibration.QUESTIONS:
                (folder,) = collect.measured("calibration", question=question, profile=profile)
                opened[question] = results.load(folder)
            calibration.write_found(opened, paths.runs())
        except collect.FAILURES as e:
            raise Sentence(e, exit_code=1) from None
        except calibration.TooShort as e:
            _say(f"noisefloor: {e}", err=True)
    bar = functools.partial(tqdm, desc="calibrate", unit="cell", disable=None, leave=False)
    try:
        figures = calibration.measure(
            seed,
            **({"n": 1000, "step": 25} if small else {}),
            progress=lambda jobs, n: bar(jobs, total=n),
            cluster=cluster,
        )
    except Unreachable as e:
        raise Sentence(e, e.code) from None
    if out or not small:
        calibration.write(figures, out or calibration.recorded())
    found = calibration.Calibration(figures, **opened)
    if as_json:
        facts = {**figures["facts"], "headline": found.headline}
        _say(json.dumps({**facts, "goals": report.records(found.goals)}, indent=1))
        return
    _say(f"{found.headline}\n\n{calibration.summary(found.goals)}")


@main.command()
@click.argument("path")
@click.option("--out", metavar="FOLDER", help="Folder of the tables. [data/processed/NAME]")
@click.option("--jobs", type=click.IntRange(1), help="Processes. [cores]")
@_cluster
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def ingest(path, out, jobs, cluster, as_json):
    """Turn any tree of results into tables: sysbench and `time` logs, also compressed or in archives.

    \b
    noisefloor ingest ~/Percona-Lab-results --out tables
    noisefloor compare --from tables --baseline server=mysql --by threads

    What a file is, is decided by its text; its path gives labels only (server, version, buffer pool,
    threads). FOLDER then holds Parquet tables (tidy, intervals, histograms, problems, files) for
    pandas, DuckDB, Spark and `noisefloor compare --from`. The same command again reads only what is
    new or changed, and continues what was interrupted. Nothing in the tree is executed or changed.
    """
    import contextlib
    import json
    from pathlib import Path

    from tqdm import tqdm

    from noisefloor import cluster as places
    from noisefloor import paths
    from noisefloor.ingest import build

    folder = Path(out) if out else paths.processed() / (Path(path).resolve().name or "root")

    @contextlib.contextmanager
    def pool():
        with places.pool(cluster, jobs, sees=(path, folder)) as executor:
            yield executor

    try:
        if cluster:
            places.address(cluster)  # a small tree does not ask for it
        with tqdm(
            desc="ingest", unit="B", unit_scale=True, delay=2, disable=None, leave=False
        ) as bar:

            def progress(done, total):
                bar.total = total
                bar.update(done - bar.n)

            found = build.build(Path(path), folder, pool, progress=progress)
    except build.Refused as e:
        raise Sentence(e, e.code) from None
    except places.Unreachable as e:
        raise Sentence(e, e.code) from None
    except KeyboardInterrupt:
        raise Sentence("stopped; whole parts are kept, the same command continues", 130) from None
    if as_json:
        return _say(json.dumps(found, indent=1))
    kinds = ", ".join(f"{n} {kind}" for kind, n in found["kinds"].items())
    _say(f"{found['runs']} runs in {found['files']} files ({kinds or 'nothing'}); {found['read']} files were read")  # fmt: skip
    if found["problems"]:
        _say(f"{found['problems']} problems (file, line, reason): the table `problems`")
    _say(f"tables: {paths.shown(folder.resolve())}")


@main.command()
@click.argument("campaigns", nargs=-1, metavar="[CAMPAIGN]...")
@click.option("--to", "url", default="", metavar="URL", help="The database. [$NOISEFLOOR_STORE]")
def store(campaigns, url):
    """Put campaigns and their verdicts into a database, for `history`.

    \b
    noisefloor store
    noisefloor store --to 'mysql://me@db.example/results?read_default_file=me.cnf'

    Without names: every campaign of data/raw/recorded and data/raw/runs. Without a URL:
    data/processed/history.sqlite. A campaign that is stored again replaces itself. The database
    is one of its own: a schema that holds other tables is refused. A password stands in an option
    file or in $NOISEFLOOR_STORE, never in the command line.
    """
    from noisefloor import paths, tidy
    from noisefloor import store as database

    try:
        names = list(dict.fromkeys(campaigns or paths.campaigns()))
        folders = [paths.campaign(name) for name in names]
        place = database.address(url)
        database.prepare(place)
    except paths.NotFound as e:
        raise Sentence(f"{e}; nothing was stored") from None
    except database.StoreError as e:
        raise Sentence(e, e.code) from None
    failed = 0
    for folder in folders:
        try:
            count = database.push(place, folder)
        except (database.StoreError, tidy.Damaged) as e:
            failed += 1
            _say(f"noisefloor: {e}", err=True)
        else:
            _say(f"{folder.name}: {count} comparison{'s' * (count != 1)}")
    _say(f"{len(folders) - failed} of {len(folders)} campaigns are in {database.shown(place)}")
    if failed:
        raise SystemExit(1)


@main.command()
@click.argument("study")
@click.option("--metric", default="", help="Such as tps or p95.")
@click.option("--threads", type=click.IntRange(1), help="A thread count.")
@click.option("--arm", default="", help="Such as encrypted.")
@click.option("--from", "url", default="", metavar="URL", help="The database. [$NOISEFLOOR_STORE]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--plot", type=click.Path(dir_okay=False), help="Draw it into FILE.svg or FILE.png.")
def history(study, metric, threads, arm, url, as_json, plot):
    """How the overhead of STUDY moved over versions, machines and dates, with intervals.

    Without --metric, --threads and --arm: the comparison that the study's page begins with. What
    is listed was put into the database by `noisefloor store`.
    """
    import json
    from pathlib import Path

    from noisefloor import plots, report
    from noisefloor import store as database

    if plot and Path(plot).suffix not in (".svg", ".png"):
        raise Sentence(f"--plot {plot}: a file that ends in .svg or .png is needed")
    try:
        found = database.history(
            database.address(url), study, metric=metric, threads=threads, arm=arm
        )
        if plot:
            plots.write(plots.history(found), Path(plot))
    except database.StoreError as e:
        raise Sentence(e, e.code) from None
    except OSError as e:
        raise Sentence(f"{plot} cannot be written ({e.strerror})", 1) from None
    if as_json:
        return _say(json.dumps({"comparisons": report.records(found)}, indent=1))
    _say(database.text(found))
