"""Commands about campaigns over time."""

import click

from noisefloor.cli.base import Sentence, _comparisons, _say, main


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
    from noisefloor import paths
    from noisefloor import store as database
    from noisefloor.data import tidy

    try:
        names = list(dict.fromkeys(campaigns or paths.campaigns()))
        folders = [paths.campaign(name) for name in names]
        place = database.address(url)
        database.prepare(place)
    except paths.NotFound as e:
        raise Sentence(f"{e}; nothing was stored") from None
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
    from pathlib import Path

    from noisefloor import store as database
    from noisefloor.show import plots, report

    if plot and Path(plot).suffix not in (".svg", ".png"):
        raise Sentence(f"--plot {plot}: a file that ends in .svg or .png is needed")
    found = database.history(database.address(url), study, metric=metric, threads=threads, arm=arm)
    try:
        if plot:
            plots.write(plots.history(found), Path(plot))
    except OSError as e:
        raise Sentence(f"{plot} cannot be written ({e.strerror})", 1) from None
    if as_json:
        return _comparisons(report.records(found))
    _say(database.text(found))
