"""Continuous integration: judges two commands or two folders of logs, and gives the runner a
summary, a comment and outputs. Nothing is sent anywhere."""

import functools
import json
import math
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from noisefloor.data import compare
from noisefloor.model import Comparison, leading
from noisefloor.stats.row import from_frame
from noisefloor.stats.verdict import CANNOT_TELL, differs
from noisefloor.text import Refusal, amounts
from noisefloor.text.reasons import Reason, Why, has

MOST = 60_000  # characters of a comment; GitHub refuses one of 65,536
A, B = "A", "B"  # the arms of two commands, as `studies.timed` calls them


@dataclass(frozen=True)
class Judged:
    """What a job compared. For two commands: `control`, the rows of A against itself, and
    `campaign`, the folder of both. For two folders of `logs`: `rule`, the parameters of their page."""

    rows: list[Comparison]
    control: Sequence[Comparison] = ()
    commands: tuple[str, ...] = ()
    campaign: Path | None = None
    logs: tuple[str, ...] = ()
    rule: Mapping[str, Any] = field(default_factory=dict)

    def deciding(self, metric: str = "") -> list[Comparison]:
        """The rows of one metric: those that the verdict of the job is about. "": throughput where
        there is any, else time. Raises Refusal for a metric without a row."""
        there = list(dict.fromkeys(row.metric for row in self.rows))
        name = metric or leading(there)
        if name not in there:
            raise Refusal(f"--metric {name}: {', '.join(there)} are there; nothing was judged")
        return [row for row in self.rows if row.metric == name]


# -- judging ---------------------------------------------------------------------------------------


def judge_logs(before: str, after: str, **rule: Any) -> Judged:
    """Judge two folders of logs. Runners are shared machines, whose speed changes between both.
    rule: margin_pct and restarts, as `compare.rows` takes them. Raises Refusal."""
    for name in (before, after):
        if not name or not Path(name).is_dir():
            raise Refusal(f"--logs {name!r} is no folder; nothing was judged")
    rows = compare.judge([before], [after], floor="levels", **rule)
    return Judged(rows, logs=(before, after), rule={"shared_host": True, **rule})


def judge_commands(a: str, b: str, *, seconds: float = 45.0, **how: Any) -> Judged:
    """Time two commands in pairs, A once more in each, and judge them. how: as `timing.measure`
    takes it. Raises what that raises, and Refusal (code 130) if it was stopped."""
    from noisefloor.data import results
    from noisefloor.measure import timing

    folder = timing.measure((a, b), seconds=seconds, control=True, **how)
    table = results.load(folder).alone().assign(threads=None)
    rows = [from_frame(row) for row in table.to_dict("records")]
    if not rows or any(has(row.warnings, Why.ENDED_EARLY) for row in rows):
        raise Refusal("stopped before the declared blocks were measured; nothing was judged", 130)
    control = [row for row in rows if row.control]
    compared = [row for row in rows if not row.control]
    return Judged(with_control(compared, control), control, (a, b), folder)


def with_control(rows: Sequence[Comparison], control: Sequence[Comparison]) -> list[Comparison]:
    """The rows; `cannot tell` in each metric in which A differed from itself (`control`)."""
    alarms = {row.metric: row for row in control if differs(row.verdict)}
    return [_in_doubt(row, alarms[row.metric]) if row.metric in alarms else row for row in rows]


def _in_doubt(row: Comparison, alarm: Comparison) -> Comparison:
    """The row with `cannot tell` in place of its verdict, and the reason."""
    note = Reason(Why.CONTROL_DIFFERS, itself=amounts.ascii_only(_change(alarm)))
    row = replace(row, runs_needed=math.nan, minutes_needed=math.nan)
    return replace(row, verdict=CANNOT_TELL, worse=False, warnings=(note, *row.warnings))


def _change(row: Comparison) -> str:
    return amounts.with_interval(row.change_pct, row.lo_pct, row.hi_pct, row.metric)


# -- its page --------------------------------------------------------------------------------------


def page(judged: Judged, out: Path) -> Path | Refusal:
    """Write the page of what was judged into the folder `out`, for logs also their tables.
    Returns its path; the Refusal if it could not be made."""
    from noisefloor.show import report

    try:
        ((_, made, _),) = report.render_all([_page_job(judged, out)], out, say=lambda _: None)
    except Refusal as problem:  # the verdict does not need a page
        return problem
    assert not isinstance(made, str)  # nothing recorded was asked for
    return made


def _page_job(judged: Judged, out: Path) -> tuple[str, dict[str, Any] | None, bool]:
    """The job that `report.render_all` takes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from noisefloor.data import cluster, ingest, results
    from noisefloor.data.ingest import build
    from noisefloor.show import report

    if campaign := judged.campaign:
        return results.load(campaign).study.name, {"campaign": campaign.name}, False
    tables, workload = out / "logs", judged.rows[0].workload
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "noisefloor-ci")
        for name, side in zip(("before", "after"), judged.logs, strict=True):
            (tree / name).mkdir(parents=True)
            for n, file in enumerate(compare.files(Path(side)), 1):
                shutil.copy(file, tree / name / f"run{n}.txt")
        if (tables / ingest.MANIFEST).exists() and ingest.manifest(tables)["name"] == tree.name:
            shutil.rmtree(tables)  # of an earlier job
        build.build(tree, tables, functools.partial(cluster.pool, "", 1))
    for part in ingest.parts(tables, "tidy"):  # one workload, as in `compare`, not one a command
        rows = pq.read_table(part).drop_columns("workload")
        pq.write_table(rows.append_column("workload", pa.repeat(workload, len(rows))), part)
    given: dict[str, Any] = {"table": str(tables), "baseline": "folder=before", **judged.rule}
    return report.plan_archive(given)[0]


# -- in words --------------------------------------------------------------------------------------


def event(file: str) -> str:
    """What a runner's event file says of the job: `pull request 12, 1a2b3c4`; "" if it names no
    request and no commit. Raises Refusal for a file that is no JSON object."""
    try:
        facts = json.loads(Path(file).read_bytes())
    except (OSError, ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise Refusal(
            f"{Path(file).name}, which GITHUB_EVENT_PATH names, is no event: the JSON object of a"
            " runner is needed; nothing was run"
        )
    request = facts.get("pull_request")
    request = request if isinstance(request, dict) else {}
    head = request.get("head")
    number, commit = request.get("number"), facts.get("after")
    commit = head.get("sha") if isinstance(head, dict) else commit
    named = [f"pull request {number}"] if type(number) is int else []
    named += [str(commit)[:7]] if re.fullmatch(r"[0-9a-f]{7,64}", str(commit)) else []
    return ", ".join(named)


def comment(judged: Judged, lead: Sequence[Comparison], about: str = "") -> list[str]:
    """Paragraphs of Markdown, the table of all rows last. lead: the rows that the verdict is about;
    about: what `event` says of the job."""
    first, *rest = compare.conclusion(lead)
    parts = [f"## Noisefloor{about and f': {about}'}", f"**{first}**", *rest]
    for row in judged.control:
        if row.metric == lead[0].metric:
            seen = f"{A} against itself, {row.n_arm} pairs: {row.verdict}, {_change(row)}."
            parts.append(amounts.ascii_only(seen))
    if judged.commands:
        named = zip((A, B), judged.commands, strict=True)
        lines = [line for arm, text in named for line in f"{arm}: {text}".splitlines()]
        parts.append("\n".join(f"    {line}" for line in lines))
    return [*parts, compare.as_text(judged.rows, "markdown").strip()]


# -- to the runner ---------------------------------------------------------------------------------


def write(parts: Sequence[str], word: str, out: Path | None, page: Path | None) -> str:
    """Write `comment.md` into the folder `out`, and the summary and the outputs to the files that
    $GITHUB_STEP_SUMMARY and $GITHUB_OUTPUT name. word: the verdict. Returns the whole text."""
    text = "\n\n".join(parts)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / "comment.md").write_text(f"{text}\n", encoding="utf-8")
    short = text if len(text) <= MOST else "\n\n".join([*parts[:-1], "All rows: comment.md."])
    outputs = {"verdict": word, "page": str(page or ""), "comment": short}
    _append("GITHUB_STEP_SUMMARY", text)
    end = f"noisefloor-{secrets.token_hex(16)}"  # no value can contain this end mark
    lines = (f"{name}<<{end}\n{value}\n{end}" for name, value in outputs.items())
    _append("GITHUB_OUTPUT", "\n".join(lines))
    return text


def _append(variable: str, text: str) -> None:
    """Append to the file that a variable names, if it does."""
    if name := os.environ.get(variable):
        with open(name, "a", encoding="utf-8") as file:
            file.write(f"{text}\n")
