"""The command `time`."""

from typing import Any

import click

from noisefloor.cli.base import (
    Sentence,
    examples,
    exit_on,
    fail_on_option,
    json_option,
    main,
    margin_option,
    print_answer,
    print_comparisons,
    say,
    verbose_option,
)


@main.command(
    "time",
    epilog=examples(
        "time 'gzip -kf access.log' 'zstd -kf access.log'",
        "time 'sort -n numbers | uniq' 'sort -nu numbers' --shell --seconds 60",
    ),
)
@click.argument("a", metavar="'COMMAND A'")
@click.argument("b", metavar="'COMMAND B'")
@click.option("--seconds", type=float, default=30.0, show_default=True, help="Seconds of measuring; at least eight blocks.")  # fmt: skip
@click.option("--shell", is_flag=True, help="Run each as `/bin/sh -c COMMAND`. [no shell]")
@click.option("--ignore-failure", is_flag=True, help="Time a command whatever its exit code.")
@click.option("--timeout", "limit_s", type=float, default=600.0, show_default=True, help="Seconds after which a run is ended; then nothing is judged.")  # fmt: skip
@margin_option
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="Seed of the order, as a page names it.")  # fmt: skip
@click.option("--page", is_flag=True, help="Also write the page into reports/.")
@verbose_option
@fail_on_option
@json_option
def time(
    a: str,
    b: str,
    margin: float | None,
    page: bool,
    verbose: bool,
    fail_on: list[str],
    as_json: bool,
    **given: Any,
) -> None:
    """Time two commands in pairs, in random order: does B take more than A, or is it noise?

    Measures wall time, user, sys and peak memory. A block is ten consecutive pairs, or fewer if a
    pair takes long. Output of the commands is read and thrown away; they get no input. A command
    that fails or hangs is an error, and nothing is judged. After Ctrl-C the whole pairs are judged.
    --fail-on looks at the wall time.
    """
    from noisefloor import paths
    from noisefloor.data import compare, results
    from noisefloor.measure import timing
    from noisefloor.stats.row import as_dict, from_frame
    from noisefloor.studies.timed import METRICS
    from noisefloor.text import answers

    if page:
        from noisefloor.show import report  # what is missing is said before it measures
    folder = timing.measure((a, b), margin_pct=margin or 0.0, **given)
    campaign = results.load(folder)
    table: list[dict[Any, Any]] = campaign.verdicts.to_dict("records")
    baselines = {row["metric"]: results.baseline_in_units(campaign, row) for row in table}
    rows = [from_frame(row | {"threads": None}) for row in table]
    rows.sort(key=lambda row: METRICS.index(row.metric))
    most = timing.MOST_BLOCKS * timing.PAIRS
    by_metric = {row.metric: row for row in rows}
    answer = answers.timed(by_metric, baselines, results.failed(campaign), most)
    if as_json:
        print_comparisons(map(as_dict, rows), answer)
    elif verbose:
        print_answer(
            [*answer, "", compare.as_text(rows), "", f"The runs: {paths.relative(folder)}"]
        )
    else:
        print_answer(answer)
    if page:
        job = (campaign.study.name, {"campaign": folder.name}, False)
        ((_, made, _),) = report.render_all([job], say=lambda line: say(line, err=True))
        if isinstance(made, report.ReportError):
            raise Sentence(made, 1)
    exit_on(fail_on, [rows[0].verdict])
