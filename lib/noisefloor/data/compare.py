"""Logs of any known tool to verdict rows: several runs an arm, or pairs.

No pandas here, because a folder of logs is answered within a second.
"""

import csv
import io
import math
import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisefloor import parse, stats, tools
from noisefloor.model import METRICS, Comparison, leading
from noisefloor.parse.base import MOST
from noisefloor.stats.row import COLUMNS, as_dict
from noisefloor.stats.scatter import NO_SERVER
from noisefloor.stats.verdict import CANNOT_TELL, SAME, differs
from noisefloor.text import Refusal, amounts, answers, sheet
from noisefloor.text.reasons import Reason, Why, has, without
from noisefloor.tools import Run

WIDE = 40  # characters of a workload's name that fit beside its numbers
NOT_GIVEN = "not given"  # the value of a condition that a log does not name
Paths = Collection[str | Path]
# notes that change what an answer is about
MIND = (Why.THREADS_LEFT_OUT, Why.LOGS_DIFFER, Why.FIXED_RATE, Why.ARMS_DIFFER)


def _refused(why: str, code: int = 2) -> Refusal:
    """Logs that cannot be compared; code 1 for a log that holds no measurement."""
    return Refusal(f"{why}; nothing was judged", code)


# -- reading ------------------------------------------------------------------------


def read_both(before: Paths, after: Paths, verbose: bool = False) -> tuple[list[Run], list[Run]]:
    """The runs of both arms, from their logs (of a folder all its files), in the order given.

    Raises Refusal, which names five (verbose: all) of the logs that are missing, too large, cut,
    failed, no log, or there twice."""
    logs = _logs(before, "before"), _logs(after, "after")
    read: tuple[list[Run], list[Run]] = [], []
    seen: dict[bytes, Path] = {}
    bad: list[Refusal] = []
    for paths, runs in zip(logs, read, strict=True):
        for path in paths:
            try:
                runs += _runs(path, seen)
            except Refusal as e:
                bad.append(e)
    if not bad:
        return read
    named = [str(e) for e in (bad if verbose else bad[:5])]
    named += [f"and {len(bad) - len(named)} more"] if len(bad) > len(named) else []
    known = ", ".join(sorted(t.NAME for t in tools.all_tools()))
    known = f"allowed: logs of whole runs of {known}, up to {MOST >> 20} MiB"
    why = f"{len(bad)} of {sum(map(len, logs))} logs cannot be used: {'; '.join(named)}"
    raise _refused(f"{why} ({known})", max(e.code for e in bad))


def files(folder: Path) -> list[Path]:
    """The files in a folder that are read as logs, in the order of their names. Raises Refusal where
    there is none."""
    inside = sorted(p for p in folder.iterdir() if p.is_file() and p.name[0] != ".")
    if not inside:
        raise _refused(f"{folder} holds no file")
    return inside


def _logs(paths: Paths, arm: str) -> list[Path]:
    """The files of an arm, and those in its folders. Raises Refusal where there is none."""
    if not paths:
        raise _refused(f"no file for {arm}: write `noisefloor compare before/*.txt -- after/*.txt`")
    return [log for path in map(Path, paths) for log in (files(path) if path.is_dir() else [path])]


def _runs(path: Path, seen: dict[bytes, Path]) -> list[Run]:
    """The runs in one log. seen: {text: its log} of those that were read, to which it is added.
    Raises Refusal with the log and the reason."""
    try:
        with open(path, "rb") as file:
            text = file.read(MOST + 1)
    except OSError as e:
        raise Refusal(f"{path}: {e.strerror}", 1) from None
    if len(text) > MOST:
        raise Refusal(f"{path}: larger than {MOST >> 20} MiB")
    if text in seen:
        raise Refusal(f"{path}: the same text as {seen[text]}, and one run cannot count twice")
    tool = tools.tool_of(text)
    if tool is None:
        why = "binary data" if b"\0" in text[:8192] else "text of something else"
        why = f"{other} output" if (other := tools.unsupported(text)) else why
        raise Refusal(f"{path}: {why if text.strip() else 'empty'}", 1)
    if chore := tool.chore(text):
        raise Refusal(f"{path}: the log of a {tool.NAME} {chore}, not of a run", 1)
    first, read = 1, []
    try:
        pieces = tool.split_runs(text)
        for first, piece in pieces:
            name = path.name if len(pieces) == 1 else f"{path.name}:{first}"
            read.append(tool.read_run(name, piece))
    except parse.ParseError as e:
        raise Refusal(f"{path}, line {e.line + first - 1}: {e.reason}", 1) from None
    seen[text] = path
    return read


# -- judging ------------------------------------------------------------------------


def judge(
    before: Paths,
    after: Paths,
    named: Iterable[str | None] = ("", ""),
    verbose: bool = False,
    **rule: Any,
) -> list[Comparison]:
    """The verdict rows of the logs of two arms, named by `named`, else after their folders (`names`).
    verbose: as `read_both` takes it; rule: what `rows` takes. Raises Refusal."""
    baseline, arm = (a or b for a, b in zip(named, names(before, after), strict=True))
    if baseline == arm:
        raise Refusal(f"both arms are called {arm!r}: two names are needed; nothing was read")
    return rows(*read_both(before, after, verbose), baseline=baseline, arm=arm, **rule)


def rows(
    before: Sequence[Run],
    after: Sequence[Run],
    *,
    baseline: str = "before",
    arm: str = "after",
    paired: bool = False,
    **given: Any,
) -> list[Comparison]:
    """Comparisons of two lists of Run: one for each metric and thread count.

    paired: the k-th runs of both lists are a pair; given: margin_pct, restarts and floor, as
    `stats.runs.judge_runs` takes them. Raises Refusal for runs that cannot be compared."""
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
    each = [run.values for run in judged]  # a metric counts only if all runs have it
    metrics = [m for m in each[0] if all(0 < v.get(m, 0) < math.inf for v in each)]
    if not metrics:
        raise _refused("no number above 0 is in all of these logs", 1)
    lasted = [run.seconds or run.values.get("query_time", 0.0) for run in judged]
    out = []
    for metric in metrics:
        out += stats.runs.judge_runs(
            {arm: {t: (_side(a[t], metric), _side(b[t], metric)) for t in counts}},
            metric=metric,
            baseline=baseline,
            study="compare",
            workload=workload,
            paired=paired,
            seconds=max(lasted) or None,
            notes=notes,
            **given,
        )
    if has(notes, Why.FIXED_RATE):
        out = [replace(row, warnings=tuple(without(row.warnings, Why.SAME_AS_TPS))) for row in out]
    return out


def _side(of_arm: Sequence[Run], metric: str) -> stats.runs.Side:
    """The runs of one arm at one thread count, for `stats.runs`."""
    rates = of_arm[0].rows if len(of_arm) == 1 and not METRICS[metric].worse_up else None
    return stats.runs.Side(tuple(run.values[metric] for run in of_arm), rates)


def _by_threads(side: Sequence[Run]) -> dict[int | None, list[Run]]:
    counts = sorted({run.threads for run in side}, key=lambda t: t or 0)
    return {t: [run for run in side if run.threads == t] for t in counts}


def _together(judged: Sequence[Run]) -> list[str]:
    """Notes about conditions that differ between runs. Raises Refusal where they must be equal."""
    remarks: dict[str, list[str]] = {}
    for run in judged:
        for note in run.notes:
            remarks.setdefault(re.sub(r"[0-9.]+", "#", note), []).append(f"{run.name}: {note}")
    notes = [_and(n, " (and {} more such logs)") for n in remarks.values()]
    rates = [r.more.get("reached_rate") or r.values.get(leading(r.values), 0) for r in judged]
    took, chosen = durations([run.seconds for run in judged], rates)
    lasted = [{"duration": t} if t else {} for t in took]
    conditions = [{**run.keys, **more} for run, more in zip(judged, lasted, strict=True)]
    must = {key for run in judged for key in run.must} | ({"duration"} if chosen else set())
    for key in dict.fromkeys(key for keys in conditions for key in keys):
        values: dict[str, list[str]] = {}
        for run, keys in zip(judged, conditions, strict=True):
            values.setdefault(str(keys.get(key, NOT_GIVEN)), []).append(run.name)
        if len(values) > 1:
            few = list(values.items())[:3]
            names = ", ".join(f"{value} in {_and(who, ' and {} more')}" for value, who in few)
            if key in must:
                raise _refused(f"the logs differ in {key}: {names}")
            notes.append(Reason(Why.LOGS_DIFFER, key=key, values=names))
    if any(keys.get("rate", "none") != "none" for keys in conditions):
        notes.append(Reason(Why.FIXED_RATE))
    return notes


def durations(seconds: Iterable[float | None], rates: Iterable[float]) -> tuple[list[str], bool]:
    """(the duration of each run in words, the same for all within 5 %, "" where none is given;
    whether it was chosen, so that runs must agree in it: not if all made equally many
    transactions)."""
    spans, took, work = list[float](), list[str](), list[float]()
    for span, rate in zip(seconds, rates, strict=True):
        if span:
            spans.append(next((s for s in spans if abs(span - s) <= s / 20), span))
        took.append(f"{float(f'{spans[-1]:.3g}'):,g} s" if span else "")
        work.append((span or 0) * rate)
    return took, max(work, default=0) > 1.01 * min(work, default=0)


def _listed(counts: Iterable[int | None]) -> str:
    return ", ".join(NOT_GIVEN if t is None else str(t) for t in counts)


def _and(names: Sequence[str], more: str) -> str:
    return names[0] + (more.format(len(names) - 1) if names[1:] else "")


# -- in words ------------------------------------------------------------------------


def as_text(rows: Sequence[Comparison], form: str = "text") -> str:
    """The rows as a table, one line a row, for a terminal or (`form` "markdown") in Markdown. Below
    it each note stands once, with the number that its rows give."""
    by_row = [_notes(row) for row in rows]
    notes = list(dict.fromkeys(note for each in by_row for note in each))
    cells = [
        {
            "workload": row.workload,
            "arm": row.arm,
            "metric": METRICS[row.metric].in_line,
            "threads": "all" if row.joint else str(row.threads or ""),
            "verdict": row.verdict,
            "change": amounts.change(row.change_pct, row.metric),
            "95 % interval": amounts.interval(row.lo_pct, row.hi_pct, row.metric),
            "if restarted": answers.restarted(row),
            "runs": f"{row.n_baseline} / {row.n_arm}",
            "notes": " ".join(str(i) for i, n in enumerate(notes, 1) if n in each),
        }
        for row, each in zip(rows, by_row, strict=True)
    ]
    one = {name for name in ("workload", "arm") if len({getattr(row, name) for row in rows}) == 1}
    one |= {"threads"} if all(row.threads is None for row in rows) else set()
    one |= {"if restarted"} if not any(row.restarted for row in rows) else set()
    wide = form == "text" and max(len(row.workload) for row in rows) > WIDE
    above = wide and "workload" not in one  # in a line of its own above its rows
    one |= {"workload"} if wide else set()
    head = [name for name in cells[0] if name not in one]
    lines = [[amounts.ascii_only(cell[name]) for name in head] for cell in cells]
    if form == "markdown":
        safe = [[cell.replace("|", "\\|") for cell in line] for line in lines]
        grid = [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *safe)]
        return "\n".join([*grid, "", *(f"{i}. {n}" for i, n in enumerate(notes, 1))])
    marks = [_filled(f"{i:>3}  {n}", 5) for i, n in enumerate(notes, 1)]
    text, last = list[str](), ""
    works = ("", *(row.workload for row in rows))
    for line, work in zip(aligned([head, *lines]), works, strict=True):
        text += [_filled(work, 1)] if above and work != last else []
        text.append(f"  {line}" if above else line)
        last = work
    return "\n".join([*text, "", *marks])


def _notes(row: Comparison) -> list[str]:
    """The notes on a row, below the table."""
    notes = list(row.warnings)
    if row.restarted:
        notes.append(
            "`cannot tell` if an arm's runs share one server start; the other answer holds if the "
            "server was restarted between them (--restarts)"
        )
    if row.together > 1:
        notes.append(f"the intervals of these {row.together} rows hold 95 % together")
    return notes


def _filled(text: str, indent: int) -> str:
    return textwrap.fill(text, 96, subsequent_indent=" " * indent, break_on_hyphens=False)


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of cells as text, in columns."""
    width = [max(map(len, column)) for column in zip(*lines, strict=True)]
    cells = ([c.ljust(w) for c, w in zip(line, width, strict=True)] for line in lines)
    return ["  ".join(line).rstrip() for line in cells]


def _first(rows: Sequence[Comparison]) -> list[Comparison]:
    """The rows of the first metric: throughput or wall time."""
    lead = leading(row.metric for row in rows)
    return [row for row in rows if row.metric == lead]


def conclusion(rows: Sequence[Comparison]) -> list[str]:
    """The answer for the first metric, throughput or wall time, in at most four lines: the verdicts;
    the changes and the runs behind them; the other answer where runs may share a start of the
    server; what would decide it. With several workloads or arms: how many rows have each verdict."""
    lead = _first(rows)
    metric, arms = lead[0].metric, list(dict.fromkeys(row.arm for row in lead))
    several = _is_several(lead)
    who = f"{len(arms)} arms" if arms[1:] else arms[0]
    about = f"{who} against {lead[0].baseline}, {METRICS[metric].in_line}"
    others = [_as_restarted(row) for row in lead if row.restarted]
    shared = " if an arm's runs share one server start" if others else ""
    lines = [f"{_words(lead, several)}{shared}: {about}.", _why(lead, several)]
    if others:
        changes = "" if several else f": {_each_word(others)}"
        condition = "if the server was restarted between them (--restarts)"
        lines.append(f"{_words(others, several)} {condition}{changes}.")
    lines.append(_what_settles(lead))
    return [amounts.ascii_only(line) for line in lines if line]


def pointer(rows: Sequence[Comparison], left: Sequence[str] = ()) -> str:
    """The line below an answer without a table: what was `left` out, notes that change what the
    answer is about (MIND), which other metrics differ, and how much more `--verbose` prints."""
    notes = list(dict.fromkeys(note for row in rows for note in _notes(row)))
    mind = [note for note in notes if has([note], *MIND)]
    lead = _first(rows)
    several = _is_several(lead)
    others: dict[str, list[Comparison]] = {}
    for row in rows:
        another = row.metric != lead[0].metric and not has(row.warnings, Why.SAME_AS_TPS)
        if another and differs(row.verdict):
            others.setdefault(METRICS[row.metric].in_line, []).append(row)
    also = "; ".join(f"{label} {_words(same, several)}" for label, same in others.items())
    clauses = [f"Left out: {_and(left, ' (and {} more)')}."] if left else []
    clauses += [f"Mind: {_and(mind, ' (and {} more)')}."] if mind else []
    clauses += [f"Also {also}."] if also else []
    these = "all that was left out, " if left else ""
    more = f"{_many(len(rows), 'comparison')} and {_many(len(notes), 'note')}"
    return amounts.ascii_only(" ".join([*clauses, f"--verbose lists {these}{more}."]))


def _many(n: int, name: str) -> str:
    return f"{n:,} {name}{'s' * (n != 1)}"


def _is_several(rows: Sequence[Comparison]) -> bool:
    """Whether rows are about more than the thread counts of one comparison."""
    return len({(row.workload, row.arm) for row in rows}) > 1


def _by_word(rows: Iterable[Comparison]) -> dict[str, list[Comparison]]:
    """Rows by their verdict: those that name a direction first, `cannot tell` last."""
    by_word: dict[str, list[Comparison]] = {}
    for row in rows:
        by_word.setdefault(row.verdict, []).append(row)
    turn = {SAME: 1, CANNOT_TELL: 2}
    return dict(sorted(by_word.items(), key=lambda part: turn.get(part[0], 0)))


def _words(rows: Sequence[Comparison], several: bool) -> str:
    """`FASTER by 7.2 to 9.8 % at 16 and 64 threads, CANNOT TELL at 1 thread`; of several workloads
    or arms `3 FASTER by 7.2 to 9.8 %, 1 CANNOT TELL`."""
    parts = [(f"{word.upper()}{_size(same)}", same) for word, same in _by_word(rows).items()]
    if several:
        return ", ".join(f"{len(same)} {text}" for text, same in parts)
    return ", ".join(f"{text}{_at(same)}" for text, same in parts)


def _size(same: Sequence[Comparison]) -> str:
    """` by 7.2 to 9.8 %`, ` within ±2 %`: how large the changes of rows with one verdict are."""
    word, metric = same[0].verdict, same[0].metric
    if word == CANNOT_TELL:
        return ""
    if word == SAME:
        return f" within {amounts.plus_minus(same[0].margin_pct)}"
    changes = sorted((row.change_pct for row in same), key=amounts.factor)
    least, most = (amounts.size(change, metric) for change in (changes[0], changes[-1]))
    return f" by {amounts.from_to(least, most)}"


def _at(rows: Sequence[Comparison]) -> str:
    """` at 1, 4 and 16 threads`, ` over all thread counts`, or nothing."""
    counts = [str(row.threads) for row in rows if row.threads is not None]
    if not counts:
        return " over all thread counts" if rows[0].joint else ""
    if len(counts) == 1:
        return f" at {_many(int(counts[0]), 'thread')}"
    return f" at {', '.join(counts[:-1])} and {counts[-1]} threads"


def _why(lead: Sequence[Comparison], several: bool) -> str:
    """The changes with their intervals, and the runs behind them; for a single row also how often two
    runs differ as much by chance; and why a row cannot tell although its interval excludes zero."""
    together = lead[0].together == len(lead) > 1
    level = "95 % for all intervals together" if together else "95 % intervals"
    level = "95 % interval" if len(lead) == 1 else level
    bare = all(math.isnan(row.lo_pct) for row in lead)
    behind = _repeats(lead) if bare else f"{_repeats(lead)}, {level}"
    unsaid = [r for r in lead if r.verdict == CANNOT_TELL and not r.lo_pct <= 0 <= r.hi_pct]
    sentences = [f"{behind}." if several else f"{_each_word(lead)}; {behind}."]
    sentences += [answers.by_chance(row) for row in lead if len(lead) == 1]
    sentences += [f"{row.warnings[0]}." for row in unsaid[:1] if row.warnings]
    return " ".join(text[0].upper() + text[1:] for text in sentences if text)


def _each_word(rows: Sequence[Comparison]) -> str:
    """The changes by verdict; if there are several verdicts, each with its thread counts."""
    parts = _by_word(rows).values()
    return "; ".join(f"{_changes(same)}{_at(same) * (len(parts) > 1)}" for same in parts)


def _changes(same: Sequence[Comparison]) -> str:
    """`+7.2 to +9.8 % (+4.5 to +12.1 %)`: the changes of rows, and the outer ends of their intervals;
    of rows that cannot tell these ends in words."""
    metric, changes = same[0].metric, [row.change_pct for row in same]
    lo, hi = min(row.lo_pct for row in same), max(row.hi_pct for row in same)
    lo, hi = (math.nan, math.nan) if any(math.isnan(row.lo_pct) for row in same) else (lo, hi)
    in_words = same[0].verdict == CANNOT_TELL and lo <= 0 <= hi
    ends = (amounts.bounds if in_words else amounts.interval)(lo, hi, metric)
    return f"{amounts.spread(min(changes), max(changes), metric)} ({ends})"


def _repeats(rows: Sequence[Comparison]) -> str:
    """`10 runs of each`, `3 and 5 runs`, `4 to 6 pairs`: what changes rest on."""
    sides = list(dict.fromkeys((row.n_baseline, row.n_arm) for row in rows))
    least, *_, most = sorted(n for side in sides for n in side)
    if most == 1:
        return "one run of each"
    unit = _unit(rows[0])
    if least == most:
        return f"{most:,} {unit}"
    if len(sides) == 1:
        return f"{sides[0][0]:,} and {sides[0][1]:,} runs"
    return f"{least:,} to {most:,} {unit}"


def _unit(row: Comparison) -> str:
    """What a row counts: runs, or pairs, as in a campaign."""
    return "runs of each" if row.design == "unpaired" else "pairs"


def _as_restarted(row: Comparison) -> Comparison:
    """A row with its other answer: that for a server restarted between the runs."""
    lo, hi = row.restarted_lo_pct, row.restarted_hi_pct
    return replace(row, verdict=row.restarted, lo_pct=lo, hi_pct=hi)


def _what_settles(rows: Sequence[Comparison]) -> str:
    """What would decide the rows that cannot tell; "" without such rows, or if that is not known."""
    unsettled = [row for row in rows if row.verdict == CANNOT_TELL]
    known = [row for row in unsettled if row.runs_needed > 0 and not row.restarted]
    ways = []
    if any(min(row.n_baseline, row.n_arm) == 1 for row in unsettled):
        server = rows[0].metric not in NO_SERVER
        restarted = ", the server restarted between them (--restarts)" if server else ""
        ways.append(f"several runs of each{restarted}")
    elif any(row.restarted or has(row.warnings, Why.SHARED_STARTS) for row in unsettled):
        ways.append("restart the server between the runs (--restarts)")
    if known:
        longest = max(known, key=lambda row: row.runs_needed)
        took = f" ({longest.minutes_needed:.0f} min)" if longest.minutes_needed > 0 else ""
        needed = f"{longest.runs_needed:,.0f} {_unit(longest)} in all{took}"
        ways.append(f"{'up to ' * (len(known) > 1)}{needed}, if they scatter alike")
    return f"To settle it: {'; '.join(ways)}." if ways else ""


def as_csv(rows: Sequence[Comparison]) -> str:
    """The rows as CSV; warnings separated by ' | '."""
    text = io.StringIO()
    cells = (as_dict(row) | {"warnings": " | ".join(row.warnings)} for row in rows)
    lines = ([sheet.cell(v) for v in line] for line in (COLUMNS, *(c.values() for c in cells)))
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def names(before: Paths, after: Paths) -> tuple[str, str]:
    """Names of the two arms: those of their folders if these differ, else `before` and `after`."""

    def folder(paths: Paths) -> str:
        parents = {(p if p.is_dir() else p.parent).name for p in map(Path, paths)}
        return parents.pop() if len(parents) == 1 else ""

    pair = folder(before), folder(after)
    return pair if all(pair) and pair[0] != pair[1] else ("before", "after")
