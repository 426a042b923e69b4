"""Sentences for the terminal: does the newest campaign lie where earlier sittings predict?"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from noisefloor import studies
from noisefloor.data.alarm import BETTER, EXPECTED, INSIDE, WORSE
from noisefloor.show.report.words import short_names
from noisefloor.show.rows import Row, differing, metric_label, threads_label
from noisefloor.stats.verdict import CANNOT_TELL
from noisefloor.text import amounts
from noisefloor.text.answers import MOST_LINES

FEW = 3  # comparisons that a line names one by one


def alarm_lines(history: pd.DataFrame) -> list[str]:
    """The answer in at most five lines: one for each newest campaign, those outside first, then what
    would decide it. history: rows with the columns of `alarm.checked`."""
    rows = history[history["answer"].ne("")]
    if rows.empty:
        return ["CANNOT TELL: the newest campaign did not measure this."]
    names = [str(name) for name in rows["processor"].unique()]
    on = short_names(names) if len(names) > 1 else {}
    several = differing(rows, "workload", "arm")
    campaigns = [
        _line(part.to_dict("records"), several, f" on {on[str(processor)]}" if on else "")
        for (_, processor, _), part in rows.groupby(
            ["question", "processor", "campaign"], sort=False
        )
    ]
    campaigns.sort(key=lambda line: not line.startswith("OUTSIDE"))
    open_ = rows[rows["answer"].ne(INSIDE)]
    advice = [_another_sitting(open_.iloc[-1])] if len(open_) else []
    most = MOST_LINES - len(advice)
    if len(campaigns) > most:
        left = len(campaigns) - most + 1
        campaigns[most - 1 :] = [f"And {left} more campaigns: --json has them."]
    return [amounts.ascii_only(line) for line in (*campaigns, *advice)]


def _line(rows: Sequence[Mapping[Any, Any]], several: Sequence[str], where: str) -> str:
    """The line of one campaign, over all its comparisons. several: columns that name a comparison
    beside its metric; where: the processor, if there are several."""
    by_answer: dict[str, list[str]] = {}
    for row in rows:
        by_answer.setdefault(row["answer"], []).append(_comparison(row, several))
    inside = _few(by_answer.get(INSIDE, []))
    outside = _few([*by_answer.get(WORSE, []), *by_answer.get(BETTER, [])])
    unknown = _few(by_answer.get(CANNOT_TELL, []))
    campaign, n = f"the campaign of {rows[0]['date'][:10]}{where}", max(r["before"] for r in rows)
    predict = f"the {n} sittings before it predict" if n > 1 else "the sitting before it predicts"
    if outside:
        rest = f" Inside: {inside}." if inside else ""
        return f"OUTSIDE: {campaign} does not lie where {predict}: {outside}.{rest}"
    if inside:
        rest = f" Cannot tell: {unknown}." if unknown else ""
        return f"INSIDE: {campaign} lies where {predict} ({inside}).{rest}"
    reasons = {row["why"] for row in rows}
    return f"CANNOT TELL: {campaign}: {reasons.pop() if len(reasons) == 1 else unknown}."


def _comparison(row: Mapping[Any, Any], several: Sequence[str]) -> str:
    """`CPU per transaction +1.4 %, expected +0.9 to +1.8 %`."""
    metric, place = row["metric"], "" if row["joint"] else threads_label(row["threads"])
    name = f"{metric_label(metric, True)} {place}".strip()
    name = ", ".join([name, *(str(row[column]) for column in several)])
    if row["answer"] == CANNOT_TELL:
        return f"{name}: {row['why']}"
    lo, hi = (row[end] for end in EXPECTED)
    ends = amounts.interval(lo, hi, metric)
    change = f"{name} {amounts.change(row['change_pct'], metric)}"
    if row["answer"] == INSIDE:
        return f"{change}, expected {ends}"
    return f"{change} is {row['answer']} than the expected {ends}"


def _few(parts: Sequence[str]) -> str:
    """The first parts of a list, and how many more there are."""
    more = [f"{len(parts) - FEW} more"] if len(parts) > FEW else []
    return "; ".join([*parts[:FEW], *more])


def _another_sitting(row: Row) -> str:
    """How to measure the comparison of a row once more."""
    question = f" --question {row['question']}" if row["question"] else ""
    run = f"noisefloor run {row['study']}{question} --profile {row['profile']}"
    command = f": {run}, then noisefloor store" if row["study"] in studies.STUDIES else ""
    return f"To settle it: another sitting, after a restart of the machine{command}"
