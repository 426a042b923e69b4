"""The command for continuous integration."""

import os
from pathlib import Path
from typing import Any

import click

from noisefloor.cli.base import (
    Sentence,
    clean,
    examples,
    exit_on,
    fail_on_option,
    main,
    margin_option,
    say,
)


@main.command(
    epilog=examples(
        "ci --commands 'python old.py' 'python new.py' --fail-on worse",
        "ci --logs before after --fail-on worse,cannot-tell --out result --page",
    )
)
@click.option(
    "--commands",
    nargs=2,
    metavar="A B",
    help="Two commands, timed in coin-flipped pairs with A once more in each, against itself.",
)
@click.option(
    "--logs",
    nargs=2,
    type=click.Path(file_okay=False),
    metavar="BEFORE AFTER",
    help="Two folders of logs.",
)
@click.option("--seconds", type=float, help="--commands: seconds of measuring. [45]")
@click.option("--timeout", "limit_s", type=float, help="--commands: seconds after which a run is ended, and nothing is judged. [600]")  # fmt: skip
@click.option("--shell", is_flag=True, help="--commands: run them in a shell.")
@click.option("--restarts", is_flag=True, help="--logs: the server was restarted between the runs.")
@click.option("--metric", default="", help="The metric that is judged. [throughput, else time]")
@margin_option
@fail_on_option
@click.option("--page", "wants_page", is_flag=True, help="Also make the page.")
@click.option("--out", type=click.Path(file_okay=False), help="Folder of comment.md and the page.")
def ci(
    commands: tuple[str, str] | None,
    logs: tuple[str, str] | None,
    seconds: float | None,
    limit_s: float | None,
    shell: bool,
    restarts: bool,
    metric: str,
    margin: float | None,
    fail_on: list[str],
    wants_page: bool,
    out: str | None,
) -> None:
    """Judge two commands, or two folders of logs, in a job of continuous integration.

    Prints the answer as Markdown, and appends it to the files that $GITHUB_STEP_SUMMARY and
    $GITHUB_OUTPUT name (outputs: verdict, comment, page). $GITHUB_EVENT_PATH says which commit is
    judged. --fail-on looks at one metric, because false alarms of several would add up. If A
    differs from itself, the verdict is `cannot tell`. docs/ci.md has the workflows.
    """
    from noisefloor.show import job
    from noisefloor.studies.timed import METRICS

    if bool(commands) == bool(logs):
        raise Sentence(
            "--commands A B or --logs BEFORE AFTER is needed, one of them; nothing was run"
        )
    asked = {"seconds": seconds, "limit_s": limit_s}
    how: dict[str, Any] = {name: s for name, s in asked.items() if s is not None}
    if logs and (shell or how):
        raise Sentence("--seconds, --timeout and --shell go with --commands; nothing was judged")
    if commands and restarts:
        raise Sentence("--restarts goes with --logs; nothing was run")
    if commands and metric not in ("", *METRICS):
        raise Sentence(f"--metric {metric}: {', '.join(METRICS)} are allowed; nothing was run")
    if wants_page and not out:
        raise Sentence("--page needs --out FOLDER; nothing was run")
    if wants_page:
        from noisefloor.show import report  # noqa: F401  # says what is missing before it measures
    file = os.environ.get("GITHUB_EVENT_PATH", "")
    about = job.event(file) if file else ""
    margin_pct, folder = margin or 0.0, Path(out) if out else None  # 0: the metric's own
    if commands:
        judged = job.judge_commands(*commands, shell=shell, margin_pct=margin_pct, **how)
    elif logs:
        judged = job.judge_logs(*logs, restarts=restarts, margin_pct=margin_pct)
    lead = judged.deciding(metric)
    made = job.page(judged, folder) if wants_page and folder else None
    page = made if isinstance(made, Path) else None
    parts = [clean(part) for part in job.comment(judged, lead, about)]
    words = ", ".join(dict.fromkeys(row.verdict for row in lead))
    say(job.write(parts, words, folder, page))
    exit_on(fail_on, (row.verdict for row in lead))
    if made is not None and page is None:
        raise Sentence(f"no page: {made}", 1)
