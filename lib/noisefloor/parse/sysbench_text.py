"""sysbench text of 0.4, 0.5, 1.0 and 1.1 -> dict."""

import os
import re
import shlex

import numpy as np

from .base import error, last_line, plain, shown
from .checks import disagreements
from .secrets import scrub

_IMPOSSIBLE = 1e12
_STAMP = r"\[ *+[0-9]{1,9}(?:\.[0-9]{1,3})?s ?\] "
_N = r"[0-9]{1,9}+"
_F = r"[0-9]{1,25}+\.[0-9]{2}"
_ROWS = {
    # words that only this form has: (columns in the order of a row's numbers, form of a row)
    " qps: ": (
        "t threads tps qps reads writes other percentile ms err rec",
        rf"thds: {_N} tps: {_F} qps: {_F} \(r/w/o: {_F}/{_F}/{_F}\) lat \(ms,{_N}%\): {_F}"
        rf" err/s:? {_F} reconn/s:? {_F}",
    ),
    " eps: ": (
        "t threads eps percentile ms",
        rf"thds: {_N} eps: {_F} lat \(ms,{_N}%\): {_F}",
    ),
    ", reads: ": (
        "t threads tps reads writes ms percentile err rec",
        rf"threads: {_N}, tps: {_F}, reads: {_F}, writes: {_F}, response time: {_F}ms \({_N}%\)"
        rf", errors: {_F}, reconnects: *+{_F}",
    ),
    ", reads/s: ": (
        "t threads tps reads writes ms percentile",
        rf"threads: {_N}, tps: {_F}, reads/s: {_F}, writes/s: {_F}, response time: {_F}ms \({_N}%\)",
    ),
}
_ROWS = {
    hint: (tuple(columns.split()), re.compile(rf"(?:\n{_STAMP}{row} *+(?=\n))++"))
    for hint, (columns, row) in _ROWS.items()
}
_ROW_LIKE = re.compile(r"\n[ \t]{0,9}\[[^\n]{0,60}(?:thds|threads):[^\n]*")
_QUEUE = re.compile(rf"\n{_STAMP}queue length: ({_N}),? concurrency: ({_N}) *+(?=\n)")
_HISTOGRAM = re.compile(
    r"\nLatency histogram[^\n]*\n *value +-[^\n]*count *"
    r"((?:\n *+[0-9]{1,9}+\.[0-9]{3} \|\**+ *+[0-9]{1,15}+(?=\n))*+)"
)
_DIGITS = bytes(c if chr(c) in "0123456789." else 32 for c in range(256))
_COLUMNS = {
    "t": "t_s",
    "eps": "events_per_s",
    "reads": "reads_per_s",
    "writes": "writes_per_s",
    "other": "other_per_s",
    "err": "errors_per_s",
    "rec": "reconnects_per_s",
}

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
    r"(?:\n(?:[ \t][^\n]*+|[0-9.]++ MiB transferred[^\n]*+|(?:"
    + "|".join(map(re.escape, (*_HEADINGS, "Latency (ms):", "Threads fairness:")))
    + r")[^\n]*+|(?=\n|\Z)))++"
)
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
_HEAD = {
    "threads": re.compile(r"\nNumber of threads: ([0-9]{1,9})[ \t]*\n"),
    "rate": re.compile(r"\nTarget transaction rate: ([0-9]{1,12})/sec"),
    "report_interval": re.compile(r"\nReport intermediate results every ([0-9]{1,9}) second"),
    "warmup_s": re.compile(r"\nWarmup time: ([0-9]{1,9})s"),
}
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
    if isinstance(text, bytes):
        text = text.decode(
            "utf-16" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "replace"
        )
    text = text.replace("\0", "")
    if not (any(sign in text for sign in _SIGNS) or "sysbench" in text):
        return False
    return _SIGN.search("\n" + text.removeprefix("\ufeff").replace("\r", "")) is not None


def sysbench(text: str | bytes) -> dict:
    """One run from what sysbench printed.

    Returns `version test options threads rate report_interval warmup_s duration_s events
    transactions tps events_per_s queries qps reads writes other ignored_errors reconnects latency
    percentile histogram_s histogram_counts intervals queue checkpoints warnings cut`: times in s,
    rates in 1/s, None for what this kind of test does not print. `latency` is {min, mean, max,
    sum, percentile: {95: s}}. `intervals` is a dict of equally long arrays (t_s, threads, tps or
    events_per_s, qps, reads_per_s, writes_per_s, other_per_s, latency_s at `percentile`,
    errors_per_s, reconnects_per_s, and `ok`: False where threads were already leaving). `cut` is
    always False: a cut text raises.

    Raises ParseError for a failed run (with the first FATAL text), a cut text, two runs in one
    text, and any line of sysbench that is not whole.
    """
    text = plain(text)
    running = text.find(_RUNNING)
    start = max(0, text.rfind("\nsysbench ", 0, running)) if running >= 0 else 0
    if running >= 0 and (second := text.find(_RUNNING, running + 1)) >= 0:
        raise error(text, second + 1, "a second run begins here; one text holds one run")
    _refuse_failed(text, start)
    blocks = _blocks(text, start)
    warnings: list[str] = []
    top = max(0, running), (running + 3000 if running >= 0 else blocks[0][0] + 1)
    head = {
        name: int(found[1]) if (found := rule.search(text, *top)) else None
        for name, rule in _HEAD.items()
    }
    banner = _BANNER.search(text, start)
    summaries = [_summary(text, *block) for block in blocks]
    end = blocks[-1][0]
    if (late := _ROW_LIKE.search(text, blocks[-1][1])) is not None:
        raise error(text, late.start() + 1, "a row after the summary; one text holds one run")
    intervals, percentile = _intervals(text, start, end, warnings)
    histogram_s, counts = _histogram(text, start, end)
    result = {
        "version": banner[1].rstrip(":") if banner else None,
        **_echo(text, running if running >= 0 else end),
        **head,
        **summaries[-1],
        "percentile": percentile,
        "histogram_s": histogram_s,
        "histogram_counts": counts,
        "intervals": intervals,
        "queue": _queue(text, start, end),
        "checkpoints": summaries[:-1],
        "warnings": warnings,
        "cut": False,
    }
    _threads(text, result, end)
    result["warnings"] += disagreements(result)
    return result


def _refuse_failed(text: str, start: int) -> None:
    """Raises ParseError with sysbench's own first words about its failure."""
    at = min(
        (p for w in ("FATAL: ", "invalid option: ") if (p := text.find("\n" + w, start)) >= 0),
        default=-1,
    )
    if at < 0:
        return
    words = dict.fromkeys(
        w for w in text[at : at + 1000].split("\n") if w.startswith(("FATAL: ", "invalid option: "))
    )
    raise error(text, at + 1, "sysbench failed: " + shown("; ".join(list(words)[:2])))


def _blocks(text: str, start: int) -> list[tuple[int, int]]:
    """(begin, end) of each summary; all but the last one are checkpoint reports."""
    blocks, low = [], start
    while (at := text.find(_EVENTS, low)) >= 0:
        near = max(low, at - _LONGEST)
        begin = min((p for h in _HEADINGS if (p := text.find("\n" + h, near, at)) >= 0), default=-1)
        if begin < 0:
            raise error(text, at, "a part of a summary without its heading")
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
    for heading in ("SQL statistics:", "OLTP test statistics:", "General statistics:"):
        if (more := text.find("\n" + heading, low)) >= 0:
            raise error(text, more + 1, "a second summary begins here; one text holds one run")
    return [block[:2] for block in blocks]


def _summary(text: str, begin: int, end: int) -> dict:
    """The numbers of one summary."""
    got: dict[str, tuple] = {}
    percentiles: dict[float, float] = {}
    for found in _LABEL.finditer(text, begin, end):
        label = " ".join(found[1].lower().split())
        share = _PERCENTILE.fullmatch(label)
        rule = _MS if share else _LABELS.get(label)
        value = found[2].strip()
        if rule is None or value.startswith("IOPS="):
            continue
        match = rule.fullmatch(value)
        if match is None:
            raise error(
                text, found.start() + 1, f"{label!r} is not a whole number of sysbench's form"
            )
        if label in got:
            raise error(text, found.start() + 1, f"{label!r} stands twice in one summary")
        got[label] = match.groups()
        if share:
            percentiles[_share(share[1])] = float(match[1] + "e-3")
    return _named(text, end, got, percentiles)


def _share(label: str) -> int | float:
    """95 for "95", 99.9 for "99.9" and for the "999" of patched builds."""
    share = float(label)
    while share > 100:
        share /= 10
    share = round(share, 6)
    return int(share) if share == int(share) else share


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


def _numbers(rows: str) -> np.ndarray:
    """All numbers in ASCII `rows`, in order."""
    return np.array(rows.encode("ascii", "replace").translate(_DIGITS).split(), dtype=float)


def _intervals(text: str, start: int, end: int, warnings: list) -> tuple[dict, float | None]:
    """(columns of the interval rows, the percentile of their latency)."""
    first = text.find("\n[", start, end)
    if first < 0:
        return {}, None
    end = text.find("\n", text.rfind("\n[", first, end) + 1) + 1
    forms = [
        (columns, _numbers("".join(found)).reshape(-1, len(columns)))
        for hint, (columns, rule) in _ROWS.items()
        if text.find(hint, first, end) >= 0 and (found := rule.findall(text, first, end))
    ]
    columns, table = forms[0] if forms else ((), np.empty((0, 0)))
    words = text.count("thds: ", first, end) + text.count(" threads: ", first, end)
    if len(forms) > 1 or words != len(table):
        _refuse_rows(text, first, end, len(table))
    if not len(table):
        return {}, None
    column = dict(zip(columns, table.T, strict=True))
    late = np.flatnonzero(np.diff(column["t"]) < 0)
    if late.size:
        at = next(m for i, m in enumerate(_ROW_LIKE.finditer(text, first, end)) if i == late[0] + 1)
        raise error(text, at.start() + 1, "time runs backwards: two runs in one text")
    sane = (table < _IMPOSSIBLE).all(axis=1)
    if not sane.all():
        times = ", ".join(f"{t:g}" for t in column["t"][~sane][:5])
        warnings.append(
            f"{(~sane).sum()} rows with an impossible rate left out (an unsigned counter wrapped,"
            f" usually after a checkpoint), at {times} s"
        )
        column = {name: values[sane] for name, values in column.items()}
    shares = np.unique(column.pop("percentile"))
    percentile = _share(f"{shares[0]:g}") if shares.size == 1 and shares[0] > 0 else None
    latency = column.pop("ms") / 1e3
    if percentile is not None:
        column["latency_s"] = latency
    result = {_COLUMNS.get(name, name): values for name, values in column.items()}
    result["threads"] = result["threads"].astype(int)
    return result, percentile


def _refuse_rows(text: str, first: int, end: int, count: int) -> None:
    """Raises ParseError at the first row-like line that no format matches; returns when there is
    none (the words stood in somebody else's line)."""
    good = 0
    for like in _ROW_LIKE.finditer(text, first, end):
        if not any(rule.match(text, like.start(), end) for _, rule in _ROWS.values()):
            raise error(text, like.start() + 1, "an interval row that is not whole")
        good += 1
    if good != count:
        raise error(text, first + 1, "interval rows of two forms: two runs in one text")


def _histogram(text: str, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """(bucket values in s, events in each), both empty without --histogram."""
    at = text.find("\nLatency histogram", start)
    if at > end:
        raise error(text, at + 1, "a histogram after the summary; one text holds one run")
    if at < 0:
        return np.empty(0), np.empty(0, dtype=int)
    found = _HISTOGRAM.match(text, at)
    following = text[found.end() + 1 if found else at + 1 :][:300].split("\n", maxsplit=1)[0]
    if found is None or "|" in following:
        raise error(text, (found.end() if found else at) + 1, "a histogram row that is not whole")
    if (second := text.find("\nLatency histogram", found.end())) >= 0:
        raise error(text, second + 1, "a second histogram; one text holds one run")
    table = _numbers(found[1]).reshape(-1, 2)
    if (np.diff(table[:, 0]) <= 0).any():
        raise error(text, at + 1, "the histogram's values do not rise: two histograms in one")
    return table[:, 0] / 1e3, table[:, 1].astype(int)


def _queue(text: str, start: int, end: int) -> dict:
    """Columns of the second line that --rate adds to each row; {} without."""
    if text.find("queue length:", start, end) < 0:
        return {}
    rows = _numbers("".join(m[0] for m in _QUEUE.finditer(text, start, end + 1))).reshape(-1, 3)
    return {
        "t_s": rows[:, 0],
        "length": rows[:, 1].astype(int),
        "concurrency": rows[:, 2].astype(int),
    }


def _echo(text: str, end: int) -> dict:
    """{test, options} from the command line where the text shows it; secrets removed."""
    at = -1
    while (at := text.find("sysbench", at + 1, end)) >= 0:
        found = _ECHO.match(text, at)
        if found is None:
            continue
        line = scrub(found[1].replace("\\\n", " "))[0]
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
    if leaving := int((~rows["ok"]).sum()):
        result["warnings"].append(f"{leaving} rows with threads already leaving, marked not ok")


def _number(value: str | None) -> float | None:
    return float(value) if value and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value) else None
