"""Logs from anywhere to verdict rows: sysbench or `time` text, k runs an arm or pairs.

No pandas here: the answer to a folder of logs has to be there within a second.
"""

import csv
import io
import math
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from noisefloor import parse, stats, tools
from noisefloor.parse.base import MOST
from noisefloor.stats.row import COLUMNS, Row
from noisefloor.stats.verdict import CANNOT_TELL
from noisefloor.text import Refusal, amounts, answers, sheet
from noisefloor.text.reasons import Reason, Why, has
from noisefloor.tools import Run

HIGHER = ("tps", "events_per_s", "new_orders_per_s")  # metrics of which more is better
LABEL = {
    "new_orders_per_s": "new orders/s", "tps": "TPS", "events_per_s": "events/s", "mean_latency": "mean latency", "p95": "p95 latency",
    "p99": "p99 latency", "wall": "wall time", "user_sys": "CPU time",
    "user_cpu": "user", "sys_cpu": "sys", "peak_memory": "peak memory",
}  # fmt: skip
WIDE = 40  # characters of a workload's name that fit beside its numbers
Paths = Collection[str | Path]
SCREEN, NOTES = 16, 5  # rows of a table, and notes, that fit onto a screen


class Refused(Refusal):
    """Logs that cannot be compared; 1 for a log that holds no measurement."""

    code = 2


def _refused(why: str, code: int = 2) -> Refused:
    return Refused(f"{why}; nothing was judged", code)


# -- reading ------------------------------------------------------------------------


def read_both(
    before: Paths, after: Paths, baseline: str = "before", arm: str = "after"
) -> tuple[list[Run], list[Run]]:
    """The runs of both arms, from their files; Refused when a log stands on both sides."""
    seen: dict[bytes, Path] = {}
    return read_runs(before, baseline, seen), read_runs(after, arm, seen)


def read_runs(paths: Paths, arm: str, seen: dict[bytes, Path] | None = None) -> list[Run]:
    """The runs in `paths` (files, or folders of them), in the order given. seen: {text: its path}
    of the other arm.

    Raises Refused for what is missing, unreadable, too large, cut, failed, no log or not alone."""
    if not paths:
        raise _refused(f"no file for {arm}: write `noisefloor compare before/*.txt -- after/*.txt`")
    read: list[Run] = []
    seen = {} if seen is None else seen
    for path, text in _texts(paths):
        if text in seen:
            twin = seen[text]
            raise _refused(f"{path} holds the same text as {twin}: one run cannot count twice")
        seen[text] = path
        read += _runs(path, text)
    return read


def _texts(paths: Paths) -> Iterator[tuple[Path, bytes]]:
    """(path, content) of files, and of the files in folders."""
    for path in map(Path, paths):
        try:
            if path.is_dir():
                inside = sorted(p for p in path.iterdir() if p.is_file() and p.name[0] != ".")
                if not inside:
                    raise _refused(f"{path} holds no file")
                yield from _texts(inside)
                continue
            with open(path, "rb") as file:
                text = file.read(MOST + 1)
        except OSError as e:
            raise _refused(f"{path} cannot be read ({e.strerror})", 1) from None
        if len(text) > MOST:
            most = f"{MOST >> 20} MiB, the most that is read of one log"
            raise _refused(f"{path} is larger than {most}")
        yield path, text


def _runs(path: Path, text: bytes) -> list[Run]:
    """The runs in one log."""
    tool = tools.tool_of(text)
    if tool is None:
        why = "binary data" if b"\0" in text[:8192] else "text of something else"
        if other := tools.unsupported(text):
            why = f"{other} output"
        why = why if text.strip() else "nothing"
        known = ", ".join(sorted(t.NAME for t in tools.all_tools()))
        raise _refused(f"{path} holds {why}: noisefloor reads what these print: {known}", 1)
    if chore := tool.chore(text):
        raise _refused(f"{path} is the log of a {tool.NAME} {chore}, not of a run", 1)
    first, read = 1, []
    try:
        pieces = tool.runs(text)
        for first, piece in pieces:
            name = path.name if len(pieces) == 1 else f"{path.name}:{first}"
            read.append(tool.run(name, piece))
        return read
    except parse.ParseError as e:
        line = e.line + first - 1
        why = f"{path}, line {line}: {e.reason}; nothing was judged, give logs of whole runs"
        raise Refused(why, 1) from None


# -- judging ------------------------------------------------------------------------


def rows(
    before: Sequence[Run],
    after: Sequence[Run],
    *,
    baseline: str = "before",
    arm: str = "after",
    paired: bool = False,
    **given: Any,
) -> list[Row]:
    """Verdict rows (dicts with COLUMNS) of two lists of Run: one a metric and thread count.

    given: margin_pct, restarts and floor, as `stats.runs` takes them. Raises Refused for runs that
    do not belong together."""
    notes = _together([*before, *after])
    a, b = _by_threads(before), _by_threads(after)
    counts = [t for t in a if t in b]
    if not counts:
        there = f"{_listed(a)} in {baseline}, {_listed(b)} in {arm}"
        raise _refused(f"no thread count is on both sides ({there})")
    for name, mine, other in ((baseline, a, b), (arm, b, a)):
        if left := [t for t in mine if t not in other]:
            notes.append(Reason(Why.THREADS_LEFT_OUT, threads=_listed(left), arm=name))
    if odd := [t for t in counts if paired and len(a[t]) != len(b[t])]:
        there = f"{len(a[odd[0]])} and {len(b[odd[0]])}"
        there += f" at {odd[0]} threads" if odd[0] else ""
        raise _refused(f"pairs need as many runs in {baseline} as in {arm}, and there are {there}")
    keys = before[0].keys
    workload = keys.get("test") or keys.get("statements a transaction") or keys["tool"]
    judged = [run for side in (a, b) for t in counts for run in side[t]]
    each = [run.values for run in judged]  # what one of them has not cannot be pooled
    metrics = [m for m in each[0] if all(0 < v.get(m, 0) < math.inf for v in each)]
    if not metrics:
        raise _refused("no number above 0 is in all of these logs", 1)
    out = []
    for metric in metrics:
        out += stats.runs.judge_runs(
            {arm: {t: (_side(a[t], metric), _side(b[t], metric)) for t in counts}},
            metric=metric,
            baseline=baseline,
            study="compare",
            workload=workload,
            paired=paired,
            seconds=max((run.seconds for run in judged if run.seconds), default=None),
            notes=notes,
            **given,
        )
    return out


def _side(of_arm: Sequence[Run], metric: str) -> stats.runs.Side:
    """The runs of one arm at one thread count, for `stats.runs`."""
    rates = of_arm[0].rows if len(of_arm) == 1 and metric in HIGHER else None
    return stats.runs.Side(tuple(run.values[metric] for run in of_arm), rates)


def _by_threads(side: Sequence[Run]) -> dict[int | None, list[Run]]:
    counts = sorted({run.threads for run in side}, key=lambda t: t or 0)
    return {t: [run for run in side if run.threads == t] for t in counts}


def _together(judged: Sequence[Run]) -> list[str]:
    """Notes about keys that differ between runs; Refused for those that make it senseless."""
    remarks: dict[str, list[str]] = {}
    seen: dict[str, dict[str, list[str]]] = {}
    spans = [run.seconds for run in judged if run.seconds]
    apart = bool(spans) and max(spans) > 1.05 * min(spans)
    for run in judged:
        for note in run.notes:
            remarks.setdefault(re.sub(r"[0-9.]+", "#", note), []).append(f"{run.name}: {note}")
        span = {"duration": f"{run.seconds:.3g} s"} if apart and run.seconds else {}
        for key, value in {**run.keys, **span}.items():
            seen.setdefault(key, {}).setdefault(str(value), []).append(run.name)
    notes = [_and(n, " (and {} more such logs)") for n in remarks.values()]
    for key, values in seen.items():
        if len(values) > 1:
            few = list(values.items())[:3]
            names = ", ".join(f"{value} in {_and(who, ' and {} more')}" for value, who in few)
            if any(key in run.must for run in judged):
                raise _refused(f"the logs differ in {key}: {names}")
            notes.append(Reason(Why.LOGS_DIFFER, key=key, values=names))
    if set(seen.get("rate", {})) - {"none"}:
        notes.append(Reason(Why.FIXED_RATE))
    return notes


def _listed(counts: Iterable[int | None]) -> str:
    return ", ".join("none" if t is None else str(t) for t in counts)


def _and(names: Sequence[str], more: str) -> str:
    return names[0] + (more.format(len(names) - 1) if names[1:] else "")


# -- in words ------------------------------------------------------------------------


def as_text(rows: Sequence[Row], form: str = "text", most: int | None = None) -> str:
    """The rows as text for a terminal or as a Markdown table; each warning once, by number, `most` of
    them.

    The verdict comes first: one short line a row, then what the numbers mean."""
    by_row = [_notes(row) for row in rows]
    counts = Counter(note for each in by_row for note in each)
    notes = sorted(counts, key=counts.__getitem__, reverse=True)[:most] if most else list(counts)
    cells = [
        {
            "workload": row["workload"],
            "arm": row["arm"],
            "metric": LABEL.get(row["metric"], row["metric"]),
            "threads": "all" if row["joint"] else str(row["threads"] or ""),
            "verdict": row["verdict"],
            "change": amounts.change(row["change_pct"], row["metric"]),
            "95 % interval": amounts.interval(row["lo_pct"], row["hi_pct"], row["metric"]),
            "if restarted": answers.restarted(row),
            "runs": f"{row['n_baseline']} / {row['n_arm']}",
            "notes": " ".join(str(i) for i, n in enumerate(notes, 1) if n in each),
        }
        for row, each in zip(rows, by_row, strict=True)
    ]
    one = {name for name in ("workload", "arm") if len({row[name] for row in rows}) == 1}
    one |= {"threads"} if all(not (row["joint"] or row["threads"]) for row in rows) else set()
    one |= {"if restarted"} if not any(row["restarted"] for row in rows) else set()
    wide = form == "text" and max(len(row["workload"]) for row in rows) > WIDE
    above = wide and "workload" not in one  # in a line of its own above its rows
    one |= {"workload"} if wide else set()
    head = [name for name in cells[0] if name not in one]
    lines = [[amounts.ascii_only(cell[name]) for name in head] for cell in cells]
    if form == "markdown":
        grid = [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines)]
        return "\n".join([*grid, "", *(f"{i}. {n}" for i, n in enumerate(notes, 1))])
    marks = [_filled(f"{i:>3}  {n}", 5) for i, n in enumerate(notes, 1)]
    if left := len(counts) - len(notes):
        marks.append(f"     {left} more notes: --json has all")
    text: list[str] = []
    last = None
    for line, work in zip(
        aligned([head, *lines]), (None, *(r["workload"] for r in rows)), strict=True
    ):
        text += [_filled(work, 1)] if above and work != last else []
        text.append(f"  {line}" if above else line)
        last = work
    return "\n".join([*text, "", *marks])


def _notes(row: Row) -> list[str]:
    """What is to be said of a row below the table."""
    notes = list(row["warnings"])
    if row["restarted"]:
        notes.append(
            "`cannot tell` if an arm's runs share one server start; the other answer holds if the "
            "server was restarted between them (--restarts)"
        )
    if row["together"] > 1:
        notes.append(f"the intervals of these {row['together']} rows hold 95 % together")
    return notes


def _filled(text: str, indent: int) -> str:
    return textwrap.fill(text, 96, subsequent_indent=" " * indent, break_on_hyphens=False)


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of cells as text, the columns below each other."""
    width = [max(map(len, column)) for column in zip(*lines, strict=True)]
    cells = ([c.ljust(w) for c, w in zip(line, width, strict=True)] for line in lines)
    return ["  ".join(line).rstrip() for line in cells]


def _first(rows: Sequence[Row]) -> list[Row]:
    """The rows of the first metric: throughput or wall time."""
    there = {row["metric"] for row in rows}
    lead = next((m for m in LABEL if m in there), rows[0]["metric"])
    return [row for row in rows if row["metric"] == lead]


def first_screen(rows: Sequence[Row]) -> list[Row]:
    """The rows that come first, a screen at most: those of the first metric."""
    return _first(rows)[:SCREEN]


def conclusion(rows: Sequence[Row]) -> str:
    """The verdicts of the first metric, what is known where it cannot tell, and what would settle
    it; of several workloads or arms how many rows have which verdict."""
    first = _first(rows)
    label = LABEL.get(first[0]["metric"], first[0]["metric"])
    arms = list(dict.fromkeys(r["arm"] for r in first))
    if len(arms) > 1 or len({r["workload"] for r in first}) > 1:
        words = _counted(r["verdict"].upper() for r in first)
        who = f"{len(arms)} arms" if arms[1:] else arms[0]
        lines = [f"{words}: {who} against {first[0]['baseline']}, {label}"]
        if others := _counted(r["restarted"] for r in first if r["restarted"]):
            restarted = "if the server was restarted between an arm's runs (--restarts)"
            lines.append(f"  Of these {others} {restarted}.")
        return amounts.ascii_only("\n".join(lines))
    parts = []
    for word in dict.fromkeys(r["verdict"] for r in first):
        where = ", ".join(_where(r) for r in first if r["verdict"] == word)
        parts.append(f"{word.upper()} ({where})" if len(first) > 1 else word.upper())
    lines = [f"{', '.join(parts)}: {first[0]['arm']} against {first[0]['baseline']}, {label}"]
    for row in first:
        if text := _open(row):
            text = f"{_where(row)}: {text}" if len(first) > 1 else text
            lines += textwrap.wrap(text, 92, initial_indent="  ", subsequent_indent="    ")
    return amounts.ascii_only("\n".join(lines))


def _counted(words: Iterable[str]) -> str:
    """How often each word: "3 faster, 1 slower"."""
    return ", ".join(f"{n} {word}" for word, n in Counter(words).most_common())


def _where(row: Row) -> str:
    if row["joint"]:
        return "all threads"
    return "" if row["threads"] is None else f"{row['threads']} threads"


def _open(row: Row) -> str:
    """What is known of a row that cannot tell, and what would settle it."""
    if row["verdict"] != CANNOT_TELL:
        return ""
    other = answers.if_restarted(row)
    parts = [other and f"cannot tell if an arm's runs share one server start; {other}."]
    parts += [answers.by_chance(row), row["known"] and f"Known: {row['known']}."]
    if row["runs_needed"] > 0 and not other:
        unit = "pairs" if row["design"] == "pairs" else "runs an arm"
        took = f" ({row['minutes_needed']:.0f} min)" if row["minutes_needed"] > 0 else ""
        parts.append(f"To settle it: {row['runs_needed']} {unit}{took}, if they scatter alike.")
    if has(row["warnings"], Why.SHARED_STARTS):
        parts.append("To settle it: restart the server between the runs (--restarts).")
    return " ".join(part[0].upper() + part[1:] for part in parts if part)


def as_csv(rows: Sequence[Row]) -> str:
    """The rows as CSV; warnings separated by ' | '."""
    text = io.StringIO()
    cells = ([" | ".join(row[c]) if c == "warnings" else row[c] for c in COLUMNS] for row in rows)
    lines = ([sheet.cell(value) for value in line] for line in (COLUMNS, *cells))
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def names(before: Paths, after: Paths) -> tuple[str, str]:
    """Names of the two arms: the folders that the files lie in when those tell them apart."""

    def folder(paths: Paths) -> str:
        parents = {(p if p.is_dir() else p.parent).name for p in map(Path, paths)}
        return parents.pop() if len(parents) == 1 else ""

    pair = folder(before), folder(after)
    return pair if all(pair) and pair[0] != pair[1] else ("before", "after")
