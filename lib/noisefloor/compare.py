"""Logs from anywhere to verdict rows: sysbench or `time` text, k runs an arm or pairs.

No pandas here: the answer to a folder of logs has to be there within a second.
"""

import csv
import io
import json
import math
import re
import textwrap
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from noisefloor import amounts, parse, sheet, stats
from noisefloor.stats.row import COLUMNS

MOST_BYTES = 64 * 2**20  # a sysbench log of a day with a row a second has 13 MB
REFUSED = ("tool", "test", "statements a transaction", "tables", "table-size", "rate")
HIGHER = ("tps", "events_per_s")  # metrics of which more is better
LABEL = {
    "tps": "TPS", "events_per_s": "events/s", "mean_latency": "mean latency", "p95": "p95 latency",
    "p99": "p99 latency", "wall": "wall time", "user_sys": "CPU time",
}  # fmt: skip
# options that say where and how long, not what; threads and duration are looked at by themselves
_PRIVATE = {
    "threads", "num-threads", "time", "max-time", "events", "max-requests", "report-interval",
    "histogram", "percentile", "rand-seed", "test", "rate", "db-driver", "verbosity", "debug",
    *(f"{server}-{what}" for server in ("mysql", "pgsql") for what in
      ("host", "port", "socket", "user", "password", "db")),
}  # fmt: skip


class Refused(Exception):
    """Logs that cannot be compared: one sentence. `code` 2 for wrong usage, 1 for a log that
    holds no measurement."""

    def __init__(self, message, code=2):
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Run:
    """What one log says about one run; values in base units (s, 1/s)."""

    name: str
    values: dict
    threads: int | None = None
    keys: dict = field(default_factory=dict)  # must agree before runs are pooled
    seconds: float | None = None
    rows: np.ndarray | None = None  # transactions per second, row by row
    notes: tuple = ()
    source: int = 0  # the same for all runs of one text


def runs(paths, arm, most_bytes=MOST_BYTES):
    """The runs in `paths` (files, or folders of them), in the order given.

    Raises Refused for what is missing, unreadable, too large, cut, failed or not a log."""
    found, seen = [], {}
    for path in _files(paths, arm):
        text = _text(path, most_bytes)
        if (twin := seen.setdefault(text, path)) is not path:
            raise Refused(
                f"{path} holds the same text as {twin}: one run cannot count twice; nothing was judged"
            )
        found += [replace(run, source=hash(text)) for run in _runs(path, text)]
    return found


def _files(paths, arm):
    files = []
    for path in map(Path, paths):
        if not path.is_dir():
            files.append(path)
            continue
        try:
            inside = sorted(p for p in path.iterdir() if p.is_file() and p.name[0] != ".")
        except OSError as e:
            raise Refused(f"{path} cannot be read ({e.strerror}); nothing was judged", 1) from None
        if not inside:
            raise Refused(f"{path} holds no file; nothing was judged")
        files += inside
    if not files:
        raise Refused(
            f"no file for {arm}: write `noisefloor compare before/*.txt -- after/*.txt`; "
            "nothing was judged"
        )
    return files


def _text(path, most_bytes):
    try:
        with open(path, "rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as e:
        raise Refused(f"{path} cannot be read ({e.strerror}); nothing was judged", 1) from None
    if len(data) > most_bytes:
        raise Refused(
            f"{path} is larger than {most_bytes >> 20} MiB, the most that is read of one log; "
            "nothing was judged"
        )
    return data


def _runs(path, text):
    kind = parse.kind(text)
    if kind is None:
        why = "binary data" if b"\0" in text[:8192] else "text of something else"
        raise Refused(
            f"{path} holds neither sysbench nor `time` output but "
            f"{why if text.strip() else 'nothing'}; nothing was judged",
            1,
        )
    try:
        if kind == "sysbench":
            pieces = parse.runs(text)
            names = [path.name] if len(pieces) == 1 else [f"{path.name}:{n}" for n, _ in pieces]
            return [of_sysbench(n, _whole(p)) for n, p in zip(names, pieces, strict=True)]
        return [of_time(path.name, result) for result in parse.time(text)]
    except parse.ParseError as e:
        raise Refused(
            f"{path}, line {e.line}: {e.reason}; nothing was judged, give logs of whole runs", 1
        ) from None


def _whole(piece):
    """The result of one run's text; an error speaks of lines of the whole log."""
    line, text = piece
    try:
        return parse.sysbench(text)
    except parse.ParseError as e:
        raise parse.ParseError(e.line + line - 1, e.text, e.reason) from None


def of_sysbench(name, d):
    """The Run of a result of `parse.sysbench`."""
    # rows of leaving threads are not used here, so that a word about them would only distract
    values, notes = {}, [w for w in d["warnings"] if not w.endswith("marked not ok")]
    database = bool(d["transactions"])
    values["tps" if database else "events_per_s"] = d["tps"] if database else d["events_per_s"]
    values["mean_latency"] = d["latency"]["mean"]
    for share in (95, 99):
        if d["histogram_counts"].size:
            values[f"p{share}"] = parse.quantile(
                d["histogram_s"], d["histogram_counts"], share / 100
            )
        elif share in d["latency"]["percentile"]:
            values[f"p{share}"] = d["latency"]["percentile"][share]
    for label in ("ignored_errors", "reconnects"):
        if d[label]:
            notes.append(f"{d[label]} {label.replace('_', ' ')}")
    keys = {"tool": "sysbench", "test": d["test"]}
    if database and d["reads"] is not None:
        each = (round(d[k] / d["transactions"]) for k in ("reads", "writes", "other"))
        keys["statements a transaction"] = "{} read, {} write, {} other".format(*each)
    keys |= {k: d["options"][k] for k in d["options"] if k not in _PRIVATE}
    keys |= {"sysbench version": d["version"], "rate": d["rate"] or "none"}
    rows = d["intervals"].get("tps" if database else "events_per_s")
    return Run(
        name,
        {k: v for k, v in values.items() if v is not None},
        d["threads"],
        {k: v for k, v in keys.items() if v is not None},
        d["duration_s"],
        rows[d["intervals"]["ok"]] if rows is not None else None,
        tuple(notes),
    )


def of_time(name, d):
    """The Run of a result of `parse.time`. Raises Refused for a command that failed."""
    if d["exit_code"]:
        raise Refused(
            f"{name}, line {d['line']}: the timed command ended with {d['exit_code']}, a failed run; "
            "nothing was judged",
            1,
        )
    values = {"wall": d["real_s"], "user_sys": d["user_s"] + d["sys_s"]}
    return Run(name, {k: v for k, v in values.items() if v is not None}, keys={"tool": "time"})


def sides(before, after, baseline="before", arm="after"):
    """The runs of both arms, from their files; Refused when a log stands on both sides."""
    first, second = runs(before, baseline), runs(after, arm)
    twice = {r.source for r in first} & {r.source for r in second}
    if twice:
        raise Refused(
            f"{sorted(r.name for r in first if r.source in twice)[0]} stands on both sides: one run "
            "cannot be compared with itself; nothing was judged"
        )
    return first, second


def rows(
    before,
    after,
    *,
    baseline="before",
    arm="after",
    paired=False,
    restarts=False,
    margin_pct=2.0,
    floor=None,
    own=True,
):
    """Verdict rows (dicts with COLUMNS) of two lists of Run, a family of thread counts a metric.

    floor: start-to-start CV in percent, which widens the intervals of what a server did unless it was
    restarted between the runs (`restarts`); None takes the recorded one, this machine's where `own`.
    Raises Refused for runs that do not belong together."""
    shared = _together(before, after, baseline, arm)
    a, b = _by_threads(before), _by_threads(after)
    counts = [t for t in a if t in b]
    if not counts:
        raise Refused(
            f"no thread count is on both sides ({_listed(a)} in {baseline}, {_listed(b)} in "
            f"{arm}); nothing was judged"
        )
    left = [f"{_listed(x)} only in {n}: left out" for x, n in ((set(a) - set(b), baseline), (set(b) - set(a), arm)) if x]  # fmt: skip
    shared += [f"threads {x}" for x in left]
    if paired and (odd := next((t for t in counts if len(a[t]) != len(b[t])), counts)) != counts:
        raise Refused(
            f"pairs need as many runs in {baseline} as in {arm}, and there are {len(a[odd])} and "
            f"{len(b[odd])}{f' at {odd} threads' if odd else ''}; nothing was judged"
        )
    keys = before[0].keys
    workload = keys.get("test") or keys.get("statements a transaction") or keys["tool"]
    metrics = _metrics(a, b, counts)
    if not metrics:
        raise Refused("no number above 0 is in all of these logs; nothing was judged", 1)
    spans = [r.seconds for t in counts for r in (*a[t], *b[t]) if r.seconds]
    out = []
    for metric in metrics:
        sides = {t: (_side(a[t], metric), _side(b[t], metric)) for t in counts}
        out += stats.runs.judge(
            {arm: sides},
            metric=metric,
            baseline=baseline,
            study="compare",
            workload=workload,
            margin_pct=margin_pct,
            paired=paired,
            restarts=restarts,
            floor=floor,
            own=own,
            seconds=max(spans, default=0) or None,
            notes=shared,
        )
    return out


def _side(found, metric):
    """The runs of one arm at one thread count, for `stats.runs`."""
    rates = found[0].rows if len(found) == 1 and metric in HIGHER else None
    return stats.runs.Side(tuple(r.values[metric] for r in found), rates)


def _listed(counts):
    return ", ".join("none" if t is None else str(t) for t in counts)


def _by_threads(side):
    groups = {}
    for run in sorted(side, key=lambda r: r.threads or 0):
        groups.setdefault(run.threads, []).append(run)
    return groups


def _metrics(a, b, counts):
    """Metrics that every run has; the others cannot be pooled."""
    each = [r.values for side in (a, b) for t in counts for r in side[t]]
    return [m for m in each[0] if all(0 < v.get(m, 0) < math.inf for v in each)]


def _together(before, after, baseline, arm):
    """Notes about keys that differ between runs; Refused for those that make a comparison senseless."""
    told, seen = {}, {}
    for run in (*before, *after):
        for note in run.notes:
            told.setdefault(re.sub(r"[0-9.]+", "#", note), []).append(f"{run.name}: {note}")
    notes = [
        f"{n[0]}{f' (and {len(n) - 1} more such logs)' if n[1:] else ''}" for n in told.values()
    ]
    for run in (*before, *after):
        for key, value in run.keys.items():
            seen.setdefault(key, {}).setdefault(str(value), []).append(run.name)
    spans = [r.seconds for r in (*before, *after) if r.seconds]
    if spans and max(spans) > 1.05 * min(spans):
        for run in (*before, *after):
            if run.seconds:
                span = f"{run.seconds:.3g} s"
                seen.setdefault("duration", {}).setdefault(span, []).append(run.name)
    for key, values in seen.items():
        if len(values) < 2:
            continue
        names = ", ".join(
            f"{value} in {who[0]}{f' and {len(who) - 1} more' if len(who) > 1 else ''}"
            for value, who in list(values.items())[:3]
        )
        if key in REFUSED:
            raise Refused(f"the logs differ in {key}: {names}; nothing was judged")
        notes.append(f"the logs differ in {key}: {names}")
    if set(seen.get("rate", {})) - {"none"}:
        notes.append("the runs had a fixed --rate: throughput is what was asked for")
    return notes


def table(rows, form="text"):
    """The rows as text for a terminal or as a Markdown table; each warning once, by number.

    The verdict comes first: one short line a row, then what the numbers mean."""
    notes = list(dict.fromkeys(w for row in rows for w in row["warnings"]))
    head = ("metric", "threads", "verdict", "overhead", "interval", "level", "runs", "notes")
    if all(row["threads"] is None for row in rows):
        head = tuple(h for h in head if h != "threads")
    cells = []
    for row in rows:
        cell = {
            "metric": LABEL.get(row["metric"], row["metric"]),
            "threads": "all" if row["joint"] else str(row["threads"] or ""),
            "verdict": row["verdict"],
            "overhead": amounts.overhead(row["overhead_pct"], row["metric"]),
            "interval": amounts.interval(row["lo_pct"], row["hi_pct"], row["metric"]),
            "level": amounts.confidence(row["level"]),
            "runs": f"{row['n_baseline']} / {row['n_arm']}",
            "notes": " ".join(map(str, sorted(1 + notes.index(w) for w in row["warnings"]))),
        }
        cells.append([amounts.plain(cell[h]) for h in head])
    if form == "markdown":
        lines = [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells)]
        return "\n".join([*lines, "", *(f"{i}. {n}" for i, n in enumerate(notes, 1))])
    width = [max(len(line[i]) for line in (head, *cells)) for i in range(len(head))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(line, width, strict=True)).rstrip() for line in (head, *cells)]  # fmt: skip
    marks = [
        textwrap.fill(f"{i:>3}  {n}", 96, subsequent_indent="     ", break_on_hyphens=False)
        for i, n in enumerate(notes, 1)
    ]
    return "\n".join([*lines, "", *marks])


def headline(rows):
    """The verdicts of the first metric (throughput or wall time), what is known where it cannot tell,
    and what would settle it."""
    first = [r for r in rows if r["metric"] == rows[0]["metric"]]
    parts = []
    for word in dict.fromkeys(r["verdict"] for r in first):
        where = ", ".join(_where(r) for r in first if r["verdict"] == word)
        parts.append(f"{word} ({where})" if len(first) > 1 else word)
    label = LABEL.get(first[0]["metric"], first[0]["metric"])
    text = f"{', '.join(parts)}: {first[0]['arm']} against {first[0]['baseline']}, {label}"
    open_ = [line for r in first if r["verdict"] == "cannot tell" for line in _open(r, first)]
    return amounts.plain("\n".join([text, *open_]))


def _where(row):
    return "all threads" if row["joint"] else "" if row["threads"] is None else f"{row['threads']} threads"  # fmt: skip


def _open(row, among):
    """What is known of a row that cannot tell, and what would settle it, in lines."""
    at = f"{_where(row)}. " if len(among) > 1 else ""
    said = [f"Known: {row['known']}." if row["known"] else ""]
    if row["runs_needed"] > 0:
        unit = "pairs" if row["design"] == "pairs" else "runs an arm"
        minutes = row["minutes_needed"]
        minutes = f" ({minutes:.0f} min)" if minutes > 0 else ""
        said.append(f"To settle it: {row['runs_needed']} {unit}{minutes}, if they scatter alike.")
    elif min(row["n_baseline"], row["n_arm"]) == 1 and row["deciding_cv_pct"] > 0:
        said.append(f"Significant only if run-to-run CV is below {row['deciding_cv_pct']:.2f} %.")
    text = " ".join(filter(None, said))
    return (
        textwrap.wrap(at + text, 92, initial_indent="  ", subsequent_indent="    ") if text else ()
    )


def as_json(rows):
    """The rows as JSON, with the keys of every verdict table."""

    def plain(value):
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps({"comparisons": [{k: plain(r[k]) for k in COLUMNS} for r in rows]}, indent=1)


def as_csv(rows):
    """The rows as CSV; warnings separated by ' | '."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    told = ({**r, "warnings": " | ".join(r["warnings"])} for r in rows)
    writer.writerows({k: sheet.cell(v) for k, v in r.items()} for r in told)
    return text.getvalue()


def names(before, after):
    """Names of the two arms: the folders that the files lie in when those tell them apart."""

    def folder(paths):
        parents = {(p if p.is_dir() else p.parent).name for p in map(Path, paths)}
        return parents.pop() if len(parents) == 1 else ""

    pair = folder(before), folder(after)
    return pair if all(pair) and pair[0] != pair[1] else ("before", "after")
