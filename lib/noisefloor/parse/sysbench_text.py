"""sysbench text of 0.4, 0.5, 1.0 and 1.1 -> dict."""

import functools
import os
import re
import shlex
from typing import Any

from noisefloor.parse import rows as tables
from noisefloor.parse.base import (
    ParseError,
    Result,
    error,
    last_line,
    pieces,
    safe_line,
    share,
    with_line_feeds,
)
from noisefloor.parse.checks import disagreements
from noisefloor.parse.forms import FORMS, compiled
from noisefloor.parse.secrets import scrub

EVENTS = "total number of events:"
_RUNNING = "\nRunning the test with following options:"
_SUMMARY = compiled(
    r"(?:\n(?:[ \t][^\n]*+|[0-9.]++ Mi?B transferred[^\n]*+|Read [0-9.]++[KMGT]?b  Written [^\n]*+"
    r"|Number of unfinished transactions on forced shutdown: [0-9]+"
    r"|(?:<HEADING>|Latency \(ms\):|Threads fairness:)[^\n]*+|(?=\n|\Z)))++"
)
_HEADING = compiled("\n<HEADING>")
_SQL_HEADING = compiled("\n<SQL>")
_FIRST_HEADING = compiled("\n(?:<SQL>|General statistics:)")
_LABEL = re.compile(r"\n[ \t]*+([A-Za-z0-9/][A-Za-z0-9 ./()]*+):([^\n]*)")
_LABELS = {label: compiled(kind["value"]) for kind in FORMS["label"] for label in kind["of"]}
_LONGEST = 5000  # characters from a summary's heading to its events
_PERCENTILE = re.compile(r"(?:approx\. )?([0-9]{1,6}(?:\.[0-9]{1,4})?)(?:st|nd|rd|th)? percentile")
_BANNER = re.compile(r"\nsysbench v?([0-9]+\.[0-9]+[0-9A-Za-z.+-]{0,40})")
_HEAD = re.compile(
    r"\n(?:Number of threads: (?P<threads>[0-9]{1,9})[ \t]*+(?=\n)"
    r"|Target transaction rate: (?P<rate>[0-9]{1,12})/sec"
    r"|Report intermediate results every (?P<report_interval>[0-9]{1,9}) second"
    r"|Warmup time: (?P<warmup_s>[0-9]{1,9})s)"
)
_FORCED = r"The --(?:max-)?time limit has expired, forcing shutdown"  # the summary is still whole
FAILED = re.compile(rf"\n(?:FATAL: (?!{_FORCED})|invalid option: )")
_LATE = re.compile(rf"\n(?:FATAL: |WARNING: )?{_FORCED}")
_ECHO = re.compile(r"sysbench[ \t]{1,9}(?=-|[A-Za-z/.])((?:\\\n|[^\n]){1,8000})")


def sysbench(text: str | bytes) -> Result:
    """One run from what sysbench printed.

    Returns `version test options threads rate report_interval warmup_s duration_s events
    transactions tps events_per_s queries qps reads writes other ignored_errors reconnects latency
    percentile histogram_s histogram_counts intervals queue checkpoints warnings`: times in s,
    rates in 1/s, None for what this kind of test does not print. `latency` is {min, mean, max,
    sum, percentile: {95: s}}. `intervals` is a dict of equally long arrays (t_s, threads, tps or
    events_per_s, qps, reads_per_s, writes_per_s, other_per_s, latency_s at `percentile`,
    errors_per_s, reconnects_per_s, and `ok`: False for rows after --time or with fewer
    threads than the run).

    Raises ParseError for a failed run (with the first FATAL text), a cut text, two runs in one
    text, and any line of sysbench that is not whole.
    """
    text = with_line_feeds(text)
    rows = tables.block(text)
    if rows is not None:  # most of the text: the rest is looked at without it
        try:
            return _sysbench(text[: rows.begin] + text[rows.end :], rows)
        except ParseError:
            pass  # its line has to be found in the whole text
    return _sysbench(text, None)


def _sysbench(text: str, block: tables.Block | None) -> Result:
    """As `sysbench`; block: the rows of the text, where they were taken out of it."""
    running = text.find(_RUNNING)
    start = max(0, text.rfind("\nsysbench ", 0, running)) if running >= 0 else 0
    if running >= 0 and (second := text.find(_RUNNING, running + 1)) >= 0:
        raise error(text, second + 1, "a second run begins here; one text holds one run")
    if (failed := FAILED.search(text, start)) is not None:
        raise _failed(text, failed.start())
    spans = _spans(text, start)
    warnings: list[str] = []
    if _LATE.search(text, start):
        warnings.append("the time limit passed while clients were still busy: sysbench ended them")
    top = max(0, running), (running + 3000 if running >= 0 else spans[0][0] + 1)
    head: dict[Any, int | None] = dict.fromkeys(_HEAD.groupindex)
    for match in _HEAD.finditer(text, *top):
        if head[match.lastgroup] is None:
            head[match.lastgroup] = int(match[match.lastgroup or 0])
    banner = _BANNER.search(text, start)
    summaries = [_summary(text, *span) for span in spans]
    end = spans[-1][0]
    if (row := tables.STAMPED_LIKE.search(text, spans[-1][1])) is not None:
        raise error(text, row.start() + 1, "a row after the summary; one text holds one run")
    if block is None:
        rows, percentile = tables.intervals(text, start, end, warnings)
    elif start <= block.begin <= end:
        rows, percentile = tables.in_columns(block.columns, block.table, warnings)
    else:
        raise error(text, end, "rows that are not above the summary")
    shares = list(summaries[-1]["latency"]["percentile"])
    if percentile is None and "latency_s" in rows and len(shares) == 1:
        percentile = shares[0]
    if any([summary.pop("uncounted") for summary in summaries]):
        rows.pop("tps", None)
        warnings.append("0 transactions are counted: the events are taken")
    if "tps" in rows and summaries[-1]["transactions"] is None:
        raise error(text, end + 1, "rows of transactions, but a summary without them")
    histogram_s, counts = tables.read_histogram(text, start, end)
    result: Result = {
        "version": banner[1].rstrip(":") if banner else None,
        **_echo(text, running if running >= 0 else end),
        **head,
        **summaries[-1],
        "percentile": percentile,
        "histogram_s": histogram_s,
        "histogram_counts": counts,
        "intervals": rows,
        "queue": tables.queue(text, start, end),
        "checkpoints": summaries[:-1],
        "warnings": warnings,
    }
    _threads(text, result, end)
    result["warnings"] += disagreements(result)
    return result


def _failed(text: str, at: int) -> ParseError:
    """The ParseError with sysbench's own first words about its failure."""
    words = dict.fromkeys(
        w for w in text[at : at + 1000].split("\n") if w.startswith(("FATAL: ", "invalid option: "))
    )
    summary = "; its summary is not taken" if "\nGeneral statistics:" in text[at:] else ""
    return error(text, at + 1, f"sysbench failed: {safe_line('; '.join(list(words)[:2]))}{summary}")


def _spans(text: str, start: int) -> list[tuple[int, int]]:
    """(begin, end) of each summary; all but the last one are checkpoint reports."""
    spans: list[tuple[int, int]] = []
    low, checkpoint = start, True
    while (at := text.find(EVENTS, low)) >= 0:
        heading = _HEADING.search(text, max(low, at - _LONGEST), at)
        if heading is None:
            raise error(text, at, "a part of a summary without its heading")
        begin = heading.start()
        if (far := _SQL_HEADING.search(text, low, begin)) is not None:
            raise error(text, far.start() + 1, "a summary that does not go on as sysbench's does")
        summary = _SUMMARY.match(text, begin)
        if summary is None or summary.end() <= at:
            stop = summary.end() if summary else begin
            raise error(text, stop + 1, "a line inside the summary that is not sysbench's")
        if not checkpoint:
            raise error(text, begin + 1, "a second summary; one text holds one run")
        checkpoint = text.rfind("Checkpoint report:", low, begin) >= 0
        low = summary.end()
        spans.append((begin, low))
    if checkpoint:
        why = "checkpoint reports only: the run's own summary is missing"
        none = "no summary: the run failed, was killed, or the text is cut"
        raise error(text, last_line(text), why if spans else none)
    if (more := _FIRST_HEADING.search(text, low)) is not None:
        raise error(text, more.start() + 1, "a second summary begins here; one text holds one run")
    return spans


def _summary(text: str, begin: int, end: int) -> Result:
    """The numbers of one summary under our names; ParseError where one is missing."""
    values: dict[str, tuple[str, ...]] = {}  # label -> its numbers
    percentiles: dict[float, float] = {}
    for line in _LABEL.finditer(text, begin, end):
        label, rule, percentile = _label(line[1])
        value = line[2].strip()
        if rule is None or value.startswith("IOPS="):
            continue
        match, at = rule.fullmatch(value), line.start() + 1
        if match is None:
            raise error(text, at, f"{label!r} is not a whole number of sysbench's form")
        if label in values:
            raise error(text, at, f"{label!r} stands twice in one summary; one text holds one run")
        values[label] = match.groups()
        if percentile is not None:
            percentiles[percentile] = float(match[1] + "e-3")

    def number(labels: str, place: int = 0, power: str = "") -> Any:
        """The number of the first of the labels that is there; None without one."""
        for name in labels.split("|"):
            if name in values:
                digits = values[name][place] + power
                return float(digits) if "." in digits else int(digits)
        return None

    old = "total time taken by event execution"
    needed = ["total time|time elapsed", EVENTS[:-1], "min", "avg", "max", f"sum|{old}"]
    missing = [n.split("|")[0] for n in needed if values.keys().isdisjoint(n.split("|"))]
    if not percentiles and "percentile stats" not in values:
        missing.append("percentile")
    if missing:
        raise error(text, end - 1, f"the summary is cut: no {missing[0]!r}")
    events, duration = number(EVENTS[:-1]), number("total time|time elapsed")
    n, tps = number("transactions"), number("transactions", 1)
    eps = number("events/s (eps)|events per second")
    uncounted = n == 0 < events
    if uncounted:
        n = tps = None
    elif eps is None:
        eps = number("transactions|total operations", 1)
    if eps is None and duration > 0:
        eps = events / duration
    qps = number("queries", 1)
    parts = number("read/write requests", 1), number("other operations", 1)
    if qps is None and None not in parts:
        qps = round(sum(parts), 2)
    return {
        "uncounted": uncounted,
        "duration_s": duration,
        "events": events,
        "transactions": n,
        "tps": tps,
        "events_per_s": eps,
        "queries": number("queries|total"),
        "qps": qps,
        "reads": number("read"),
        "writes": number("write"),
        "other": number("other"),
        "ignored_errors": number("ignored errors|deadlocks"),
        "reconnects": number("reconnects"),
        "latency": {
            "min": number("min", power="e-3"),
            "mean": number("avg", power="e-3"),
            "max": number("max", power="e-3"),
            "sum": number(old) if old in values else number("sum", power="e-3"),
            "percentile": percentiles,
        },
        "events_per_thread": number("events (avg/stddev)"),
    }


@functools.lru_cache(256)
def _label(label: str) -> tuple[str, re.Pattern[str] | None, int | float | None]:
    """(a label of a summary in one form, the rule for its value, the percentile that it names)."""
    label = " ".join(label.lower().split())
    if match := _PERCENTILE.fullmatch(label):
        return label, _LABELS["min"], share(match[1])
    return label, _LABELS.get(label), None


def _echo(text: str, end: int) -> Result:
    """{test, options} from the command line where the text shows it; secrets removed."""
    for echo in _ECHO.finditer(text, 0, end):
        if " run" not in echo[1]:
            continue
        line = scrub(echo[1].replace("\\\n", " "))[0]
        line = "".join(c if c.isprintable() else " " for c in line)
        try:
            words = shlex.split(line)
        except ValueError:
            words = line.split()
        if "run" not in words:
            continue
        words = words[: words.index("run")]
        options = {
            name.removeprefix("--").replace("_", "-"): value
            for name, _, value in (w.partition("=") for w in words if w.startswith("--"))
        }
        names = [w for w in words if not w.startswith("-")]
        test = options.get("test") or (names[0] if names else "")
        return {"test": os.path.basename(test).removesuffix(".lua") or None, "options": options}
    return {"test": None, "options": {}}


def _threads(text: str, result: Result, end: int) -> None:
    """Sets `threads` and the rows' `ok`; ParseError where heading, rows and summary disagree."""
    rows, in_heading = result["intervals"], result["threads"]
    per_thread = result.pop("events_per_thread")
    for checkpoint in result["checkpoints"]:
        checkpoint.pop("events_per_thread")
    problem = ""
    if per_thread and not result["checkpoints"] and not result["warmup_s"]:
        counted = result["events"] / per_thread
        if in_heading and abs(counted / in_heading - 1) > 0.01:
            problem = f"the heading says {in_heading} threads, this summary is of {counted:.4g}"
        result["threads"] = in_heading or round(counted)
    if rows:
        most = int(rows["threads"].max(initial=0))
        result["threads"] = result["threads"] or most
        if most > result["threads"]:
            problem = problem or f"rows of {most} threads, a run of {result['threads']}"
        rows["ok"] = rows["threads"] == result["threads"]
        limit = result["options"].get("time") or result["options"].get("max-time") or ""
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", limit) and not result["warmup_s"]:
            rows["ok"] &= rows["t_s"] <= (float(limit) or float("inf"))
    if problem:
        raise error(text, end + 1, f"{problem}: two runs in one text")


def split_runs(text: str | bytes) -> list[tuple[int, str]]:
    """(number of its first line, text) of each run in a log; one piece when there is one run.

    The log is cut above the command line echo or the version line of each run but the first. Each
    piece is for `sysbench`, which refuses a log of several runs.
    """
    text = with_line_feeds(text)
    begins, at = [], text.find(_RUNNING)
    while at >= 0 and (following := text.find(_RUNNING, at + 1)) >= 0:
        cut = text.rfind("\nsysbench ", at + 1, following)
        cut = following if cut < 0 else cut
        above = text.rfind("\n", at + 1, cut)
        if above >= 0 and "sysbench " in text[above:cut]:
            cut = above
        begins.append(cut)
        at = following
    return pieces(text, begins)
