"""sysbench text of 0.4, 0.5, 1.0 and 1.1 -> dict."""

import functools
import os
import re
import shlex

from .base import MOST, ParseError, error, last_line, plain, share, shown
from .checks import disagreements
from .histogram import read_histogram
from .rows import Block, block, intervals, queue, refuse_rows_after
from .secrets import scrub

_HEADINGS = (
    "SQL statistics:",
    "OLTP test statistics:",
    "CPU speed:",
    "Total operations:",
    "Operations performed:",
    "File operations:",
    "Throughput:",
    "General statistics:",
    "Test execution summary:",
)
_SUMMARY = re.compile(
    r"(?:\n(?:[ \t][^\n]*+|[0-9.]++ Mi?B transferred[^\n]*+|Read [0-9.]++[KMGT]?b  Written [^\n]*+|(?:"
    + "|".join(map(re.escape, (*_HEADINGS, "Latency (ms):", "Threads fairness:")))
    + r")[^\n]*+|(?=\n|\Z)))++"
)
_HEADING = re.compile("\n(?:" + "|".join(map(re.escape, _HEADINGS)) + ")")
_SQL_HEADING = re.compile("\n(?:SQL statistics:|OLTP test statistics:)")
_FIRST_HEADING = re.compile("\n(?:SQL statistics:|OLTP test statistics:|General statistics:)")
_LABEL = re.compile(r"\n[ \t]*+([A-Za-z0-9/][A-Za-z0-9 ./()]*+):([^\n]*)")
_EVENTS = "total number of events:"
_LONGEST = 5000  # characters from a summary's heading to its events
_INT, _FLOAT = r"([0-9]{1,18})", r"([0-9]{1,25}\.[0-9]+)"
_RATE = re.compile(rf"{_INT} *\( *{_FLOAT} per sec(?:\.|ond)\)")
_WHOLE = re.compile(_INT)
_SECONDS = re.compile(r"([0-9]{1,12}\.[0-9]{4})s?")
_MS = re.compile(r"([0-9]{1,25}\.[0-9]{2})(?:ms)?")
_PER_S = re.compile(_FLOAT)
_MEAN_SD = re.compile(r"([0-9]{1,25}\.[0-9]{4})/([0-9]{1,25}\.[0-9]{2})")
_LABELS = {
    "read": _WHOLE,
    "write": _WHOLE,
    "other": _WHOLE,
    "total": _WHOLE,
    "transactions": _RATE,
    "queries": _RATE,
    "read/write requests": _RATE,
    "other operations": _RATE,
    "deadlocks": _RATE,
    "ignored errors": _RATE,
    "reconnects": _RATE,
    "total operations": _RATE,
    "events per second": _PER_S,
    "events/s (eps)": _PER_S,
    "total time": _SECONDS,
    "time elapsed": _SECONDS,
    "total number of events": _WHOLE,
    "total time taken by event execution": _SECONDS,
    "min": _MS,
    "avg": _MS,
    "max": _MS,
    "sum": _MS,
    "percentile stats": re.compile("(disabled)"),
    "events (avg/stddev)": _MEAN_SD,
    "execution time (avg/stddev)": _MEAN_SD,
}
_PERCENTILE = re.compile(r"(?:approx\. )?([0-9]{1,6}(?:\.[0-9]{1,4})?)(?:st|nd|rd|th)? percentile")
_BANNER = re.compile(r"\nsysbench v?([0-9]+\.[0-9]+[0-9A-Za-z.+-]{0,40})")
_HEAD = re.compile(
    r"\n(?:Number of threads: (?P<threads>[0-9]{1,9})[ \t]*+(?=\n)"
    r"|Target transaction rate: (?P<rate>[0-9]{1,12})/sec"
    r"|Report intermediate results every (?P<report_interval>[0-9]{1,9}) second"
    r"|Warmup time: (?P<warmup_s>[0-9]{1,9})s)"
)
_FAILED = re.compile(r"\n(?:FATAL: |invalid option: )")
_RUNNING = "\nRunning the test with following options:"
_ECHO = re.compile(r"sysbench[ \t]{1,9}(?=-|[A-Za-z/.])((?:\\\n|[^\n]){1,8000})")
_SIGNS = ("thds: ", "General statistics:", "Throughput:", "OLTP test statistics:", _RUNNING[1:])
_SIGN = re.compile(
    r"\n(?:sysbench v?[0-9]+\.[0-9]+[.: ]|Running the test with following options:"
    r"|SQL statistics:|OLTP test statistics:|General statistics:\n +total time:"
    r"|Throughput:\n +events/s \(eps\):|\[ *[0-9.]+s ?\] (?:thds|threads): )"
)


def looks_like_sysbench(text: str | bytes) -> bool:
    """True when sysbench printed (a part of) `text`. Never raises."""
    text = text[:MOST]
    if isinstance(text, bytes):
        text = text.decode(
            "utf-16" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "replace"
        )
    if "\0" in text:  # to look is twenty times as fast as to replace nothing
        text = text.replace("\0", "")
    if not (any(sign in text for sign in _SIGNS) or "sysbench" in text):
        return False
    if "\r" in text:
        text = text.replace("\r", "")
    return _SIGN.search("\n" + text.removeprefix("\ufeff")) is not None


def sysbench(text: str | bytes) -> dict:
    """One run from what sysbench printed.

    Returns `version test options threads rate report_interval warmup_s duration_s events
    transactions tps events_per_s queries qps reads writes other ignored_errors reconnects latency
    percentile histogram_s histogram_counts intervals queue checkpoints warnings cut`: times in s,
    rates in 1/s, None for what this kind of test does not print. `latency` is {min, mean, max,
    sum, percentile: {95: s}}. `intervals` is a dict of equally long arrays (t_s, threads, tps or
    events_per_s, qps, reads_per_s, writes_per_s, other_per_s, latency_s at `percentile`,
    errors_per_s, reconnects_per_s, and `ok`: False for rows after --time or with fewer
    threads than the run). `cut` is always False: a cut text raises.

    Raises ParseError for a failed run (with the first FATAL text), a cut text, two runs in one
    text, and any line of sysbench that is not whole.
    """
    text = plain(text)
    rows = block(text)
    if rows is not None:  # most of the text: the rest is looked at without it
        try:
            return _sysbench(text[: rows.begin] + text[rows.end :], rows)
        except ParseError:
            pass  # its line has to be found in the whole text
    return _sysbench(text, None)


def _sysbench(text: str, block: Block | None) -> dict:
    """As `sysbench`, of a `plain` text; without its rows when they are given."""
    running = text.find(_RUNNING)
    start = max(0, text.rfind("\nsysbench ", 0, running)) if running >= 0 else 0
    if running >= 0 and (second := text.find(_RUNNING, running + 1)) >= 0:
        raise error(text, second + 1, "a second run begins here; one text holds one run")
    _refuse_failed(text, start)
    blocks = _blocks(text, start)
    warnings: list[str] = []
    top = max(0, running), (running + 3000 if running >= 0 else blocks[0][0] + 1)
    head: dict[str, int | None] = dict.fromkeys(_HEAD.groupindex)
    for found in _HEAD.finditer(text, *top):
        if head[found.lastgroup] is None:
            head[found.lastgroup] = int(found[found.lastgroup])
    banner = _BANNER.search(text, start)
    summaries = [_summary(text, *block) for block in blocks]
    end = blocks[-1][0]
    refuse_rows_after(text, blocks[-1][1])
    if block is None:
        rows, percentile = intervals(text, start, end, warnings)
    elif start <= block.begin <= end:
        rows, percentile = block.intervals(warnings)
    else:
        raise error(text, end, "rows that are not above the summary")
    shares = list(summaries[-1]["latency"]["percentile"])
    if percentile is None and "latency_s" in rows and len(shares) == 1:
        percentile = shares[0]
    if "tps" in rows and summaries[-1]["transactions"] is None:
        raise error(text, end + 1, "rows of transactions, but a summary without them")
    histogram_s, counts = read_histogram(text, start, end)
    result = {
        "version": banner[1].rstrip(":") if banner else None,
        **_echo(text, running if running >= 0 else end),
        **head,
        **summaries[-1],
        "percentile": percentile,
        "histogram_s": histogram_s,
        "histogram_counts": counts,
        "intervals": rows,
        "queue": queue(text, start, end),
        "checkpoints": summaries[:-1],
        "warnings": warnings,
        "cut": False,
    }
    _threads(text, result, end)
    result["warnings"] += disagreements(result)
    return result


def _refuse_failed(text: str, start: int) -> None:
    """Raises ParseError with sysbench's own first words about its failure."""
    if (found := _FAILED.search(text, start)) is None:
        return
    at = found.start()
    words = dict.fromkeys(
        w for w in text[at : at + 1000].split("\n") if w.startswith(("FATAL: ", "invalid option: "))
    )
    raise error(text, at + 1, "sysbench failed: " + shown("; ".join(list(words)[:2])))


def _blocks(text: str, start: int) -> list[tuple[int, int]]:
    """(begin, end) of each summary; all but the last one are checkpoint reports."""
    blocks, low = [], start
    while (at := text.find(_EVENTS, low)) >= 0:
        near = max(low, at - _LONGEST)
        heading = _HEADING.search(text, near, at)
        if heading is None:
            raise error(text, at, "a part of a summary without its heading")
        begin = heading.start()
        if (far := _SQL_HEADING.search(text, low, begin)) is not None:
            raise error(text, far.start() + 1, "a summary that does not go on as sysbench's does")
        found = _SUMMARY.match(text, begin)
        if found is None or found.end() <= at:
            stop = found.end() if found else begin
            raise error(text, stop + 1, "a line inside the summary that is not sysbench's")
        checkpoint = text.rfind("Checkpoint report:", low, begin) >= 0
        if blocks and not blocks[-1][2]:
            raise error(text, begin + 1, "a second summary; one text holds one run")
        blocks.append((begin, found.end(), checkpoint))
        low = found.end()
    if not blocks:
        raise error(
            text, last_line(text), "no summary: the run failed, was killed, or the text is cut"
        )
    if blocks[-1][2]:
        raise error(
            text, last_line(text), "checkpoint reports only: the run's own summary is missing"
        )
    if (more := _FIRST_HEADING.search(text, low)) is not None:
        raise error(text, more.start() + 1, "a second summary begins here; one text holds one run")
    return [block[:2] for block in blocks]


def _summary(text: str, begin: int, end: int) -> dict:
    """The numbers of one summary."""
    got: dict[str, tuple] = {}
    percentiles: dict[float, float] = {}
    for found in _LABEL.finditer(text, begin, end):
        label, rule, share_ = _known(found[1])
        value = found[2].strip()
        if rule is None or value.startswith("IOPS="):
            continue
        match = rule.fullmatch(value)
        if match is None:
            raise error(
                text, found.start() + 1, f"{label!r} is not a whole number of sysbench's form"
            )
        if label in got:
            raise error(
                text,
                found.start() + 1,
                f"{label!r} stands twice in one summary; one text holds one run",
            )
        got[label] = match.groups()
        if share_ is not None:
            percentiles[share_] = float(match[1] + "e-3")
    return _named(text, end, got, percentiles)


@functools.lru_cache(256)
def _known(label: str) -> tuple[str, re.Pattern | None, int | float | None]:
    """(a label of a summary in one form, the rule for its value, the percentile that it names)."""
    label = " ".join(label.lower().split())
    found = _PERCENTILE.fullmatch(label)
    return (label, _MS, share(found[1])) if found else (label, _LABELS.get(label), None)


def _named(text: str, end: int, got: dict, percentiles: dict) -> dict:
    """The summary's numbers under our names; ParseError where one is missing."""

    def number(kind, *labels, place=0):
        return next((kind(got[name][place]) for name in labels if name in got), None)

    old = "total time taken by event execution" in got
    needed = [("total time", "time elapsed"), (_EVENTS[:-1],), ("min",), ("avg",), ("max",)]
    needed += [] if old else [("sum",)]
    missing = next((names for names in needed if not any(n in got for n in names)), None)
    if missing is None and not percentiles and "percentile stats" not in got:
        missing = ("percentile",)
    if missing:
        raise error(text, end - 1, f"the summary is cut: no {missing[0]!r}")
    duration = number(float, "total time", "time elapsed")
    events = number(int, "total number of events")
    queries = number(int, "queries", "total")
    qps = number(float, "queries", place=1)
    if qps is None and "read/write requests" in got and "other operations" in got:
        qps = round(float(got["read/write requests"][1]) + float(got["other operations"][1]), 2)
    eps = number(float, "events/s (eps)", "events per second")
    if eps is None:
        eps = number(float, "transactions", "total operations", place=1)
    if eps is None and duration > 0:
        eps = events / duration
    return {
        "duration_s": duration,
        "events": events,
        "transactions": number(int, "transactions"),
        "tps": number(float, "transactions", place=1),
        "events_per_s": eps,
        "queries": queries,
        "qps": qps,
        "reads": number(int, "read"),
        "writes": number(int, "write"),
        "other": number(int, "other"),
        "ignored_errors": number(int, "ignored errors", "deadlocks"),
        "reconnects": number(int, "reconnects"),
        "latency": {
            "min": _ms(got, "min"),
            "mean": _ms(got, "avg"),
            "max": _ms(got, "max"),
            "sum": number(float, "total time taken by event execution") if old else _ms(got, "sum"),
            "percentile": percentiles,
        },
        "events_per_thread": number(float, "events (avg/stddev)"),
    }


def _ms(got: dict, label: str) -> float:
    """A value printed in ms, in s."""
    return float(got[label][0] + "e-3")


def _echo(text: str, end: int) -> dict:
    """{test, options} from the command line where the text shows it; secrets removed."""
    at = -1
    while (at := text.find("sysbench", at + 1, end)) >= 0:
        found = _ECHO.match(text, at)
        if found is None:
            continue
        at = found.end() - 1
        if " run" not in found[1]:
            continue
        line = scrub(found[1].replace("\\\n", " "))[0]
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


def _threads(text: str, result: dict, end: int) -> None:
    """Sets `threads` and the rows' `ok`; ParseError where heading, rows and summary disagree."""
    rows = result["intervals"]
    each = result.pop("events_per_thread")
    told = result["threads"]
    for checkpoint in result["checkpoints"]:
        checkpoint.pop("events_per_thread")
    if each and not result["checkpoints"] and not result["warmup_s"]:
        counted = result["events"] / each
        if told and abs(counted / told - 1) > 0.01:
            raise error(
                text,
                end + 1,
                f"the heading says {told} threads, this summary is of {counted:.4g}: two runs in one text",
            )
        result["threads"] = told or round(counted)
    if not rows:
        return
    most = int(rows["threads"].max(initial=0))
    result["threads"] = result["threads"] or most
    if most > result["threads"]:
        raise error(
            text,
            end + 1,
            f"rows of {most} threads, a run of {result['threads']}: two runs in one text",
        )
    limit = _number(result["options"].get("time") or result["options"].get("max-time"))
    rows["ok"] = rows["threads"] == result["threads"]
    if limit and not result["warmup_s"]:
        rows["ok"] &= rows["t_s"] <= limit


def _number(value: str | None) -> float | None:
    return float(value) if value and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value) else None


def runs(text: str | bytes) -> list[tuple[int, str]]:
    """(number of its first line, text) of each run in a log that holds several.

    Cut above the command line echo or the version line of each run but the first; one piece when
    there is one run. Each piece is for `sysbench`, which refuses the log as a whole.
    """
    text = plain(text)
    if text.count(_RUNNING) < 2:
        return [(1, text[1:])]
    cuts, at = [0], text.find(_RUNNING)
    while at >= 0 and (following := text.find(_RUNNING, at + 1)) >= 0:
        cut = max(at + 1, text.rfind("\nsysbench ", at + 1, following))
        cut = following if cut == at + 1 else cut
        above = text.rfind("\n", at + 1, cut)
        if above >= 0 and "sysbench " in text[above:cut]:
            cut = above
        cuts.append(cut)
        at = following
    ends = [*cuts[1:], len(text)]
    return [
        (text.count("\n", 0, cut + 1), text[cut + 1 : end] + ("\n" if end < len(text) else ""))
        for cut, end in zip(cuts, ends, strict=True)
    ]
