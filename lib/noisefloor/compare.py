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

from noisefloor import parse, paths, sheet
from noisefloor.stats import fixed

MOST_BYTES = 64 * 2**20  # a sysbench log of a day with a row a second has 13 MB
REFUSED = ("tool", "test", "statements a transaction", "tables", "table-size", "rate")
HIGHER = ("tps", "events_per_s")  # metrics of which more is better
PERCENTILES = ("p95", "p99")
BUCKET = math.log1p(parse.RESOLUTION)
FLOOR_OF = {"user_sys": "cpu_per_transaction"}  # whose floor a metric without its own takes
LABEL = {
    "tps": "TPS", "events_per_s": "events/s", "mean_latency": "mean latency", "p95": "p95 latency",
    "p99": "p99 latency", "wall": "wall time", "user_sys": "CPU time",
}  # fmt: skip
COLUMNS = (
    "study", "workload", "metric", "threads", "baseline", "arm", "n_baseline", "n_arm",
    "overhead_pct", "lo_pct", "hi_pct", "p", "p_adjusted", "verdict", "noise_floor_pct",
    "deciding_cv_pct", "runs_needed", "minutes_needed", "warnings",
)  # fmt: skip
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
            return [of_sysbench(path.name, parse.sysbench(text))]
        return [of_time(path.name, result) for result in parse.time(text)]
    except parse.ParseError as e:
        raise Refused(
            f"{path}, line {e.line}: {e.reason}; nothing was judged, give logs of whole runs", 1
        ) from None


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
    alpha=0.05,
):
    """Verdict rows (dicts with COLUMNS) of two lists of Run, a family of thread counts a metric.

    floor: {metric: {"cv_pct", "df"}}, the start-to-start CV that widens every interval unless the
    server was restarted between the runs (`restarts`); None takes `recorded_floor`. Raises Refused
    for runs that do not belong together."""
    floor = {} if restarts else recorded_floor() if floor is None else floor
    shared = _together(before, after, baseline, arm)
    a, b = _by_threads(before), _by_threads(after)
    counts = [t for t in a if t in b]
    if not counts:
        raise Refused(
            f"no thread count stands on both sides ({_listed(a)} in {baseline}, {_listed(b)} in "
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
        raise Refused("no number above 0 stands in all of these logs; nothing was judged", 1)
    out = []
    for metric in metrics:
        effects = [_effect(metric, t, a[t], b[t], paired, floor) for t in counts]
        adjusted = fixed.holm([e.p for e in effects])
        if len(effects) > 1 and all(e.estimate.known for e in effects):
            effects.append(_joint(effects))
            adjusted.append(effects[-1].p)
        out += [
            _row(e, p, metric, baseline, arm, margin_pct, alpha, workload, shared)
            for e, p in zip(effects, adjusted, strict=True)
        ]
    return out


def recorded_floor(own=True):
    """Start-to-start CVs, {metric: {"cv_pct", "df"}}: those that `noisefloor calibrate --live` has
    measured on this machine where `own`, else those of the recorded A/A campaign."""
    file = paths.floor() if own else paths.recorded_floor()
    text = file.read_text(encoding="utf-8")
    return {k: v for k, v in json.loads(text).items() if isinstance(v, dict)}


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
    return [m for m in each[0] if all(m in v and v[m] > 0 for v in each)]


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


@dataclass
class _Effect:
    """One comparison before Holm: its estimate and what has to be said about it."""

    threads: int | None
    n: tuple
    seconds: float | None
    paired: bool
    start: tuple  # the start-to-start part of the variance, () without
    value: float = 0.0  # log overhead
    parts: tuple = ((math.inf, 1.0),)  # what the runs themselves scatter
    sd: float = math.nan  # of one run (of one pair when paired)
    p: float = 1.0
    joint: bool = False
    only: str = ""  # why the verdict can only be `cannot tell`
    warnings: list = field(default_factory=list)

    @property
    def estimate(self):
        return fixed.Estimate(self.value, tuple(self.parts), tuple(self.start))


def _effect(metric, threads, a, b, paired, floor):
    """The _Effect of one metric at one thread count."""
    x, y = (np.log([r.values[metric] for r in side]) for side in (a, b))
    sign = -1 if metric in HIGHER else 1
    entry = floor.get(metric) or floor.get(FLOOR_OF.get(metric, "tps"))
    start = (fixed.floor(entry["cv_pct"], entry["df"]),) if entry else ()
    seconds = max((r.seconds or 0 for r in (*a, *b)), default=0) or None
    e = _Effect(threads, (len(x), len(y)), seconds, paired, start)
    e.value = float(sign * (y.mean() - x.mean()))
    if start and max(e.n) > 1:
        e.warnings.append(_start_warning(floor))
    if min(e.n) < 2:
        _single(e, metric, x, y, a, b)
    elif paired:
        e.sd = float((y - x).std(ddof=1))
        e.parts = ((e.sd**2 / len(x), len(x) - 1),)
        if len(x) < 6:
            e.warnings.append(f"{len(x)} pairs: sign flips of fewer than 6 cannot reach 5 %")
    else:
        e.sd = math.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2)
        e.parts = fixed.welch(x, y)
        e.warnings.append(
            "the logs do not say in which order the runs were made: a drift of the machine would "
            "look like a difference"
        )
        if min(e.n) < 4:
            e.warnings.append(
                f"{min(e.n)} runs an arm: a rank test of fewer than 4 cannot reach 5 %"
            )
    if min(e.n) > 1:
        if not sum(v for v, _ in e.parts) > 0 and metric not in PERCENTILES:
            e.only = "the runs of an arm do not scatter at all: rounded or copied numbers"
        if metric in PERCENTILES:
            e.parts += ((BUCKET**2 / 12 * (1 / len(x) + 1 / len(y)), math.inf),)
        e.p = e.estimate.p
        if paired and len(x) >= 6:
            e.p = max(e.p, fixed.sign_flips(y - x))
    if metric in PERCENTILES and not e.only:
        if math.exp(max(*x, *y)) >= parse.CLIP_S * 0.999:
            e.only = f"clipped at {parse.CLIP_S:g} s, the end of sysbench's histogram"
        elif 0 < abs(e.value) <= 1.001 * BUCKET:
            e.only = (
                "the percentiles lie in the same or the neighbouring histogram bucket (1.8 % wide)"
            )
    if metric == "mean_latency":
        e.warnings.append("the same measurement as the throughput (Little's law), not a second one")
    return e


def _start_warning(floor):
    cvs = {m: v["cv_pct"] for m, v in floor.items()}
    each = ", ".join(f"{LABEL.get(m, m.replace('_', ' '))} {cv:.2g} %" for m, cv in cvs.items())
    return (
        "nothing says that the server was restarted between the runs: the recorded start-to-start "
        f"scatter widens the intervals (CV: {each}); --restarts leaves it out"
    )


def _single(e, metric, x, y, a, b):
    """Fill in an effect where an arm has one run: an interval from its rows at best, no verdict."""
    e.only = "one run an arm: how much runs scatter is not known"
    inside = [fixed.within(r[0].rows) if r[0].rows is not None else None for r in (a, b)]
    if max(e.n) > 1:
        e.only = "one run in one arm: its own scatter is not known"
        e.sd = float((x if len(x) > 1 else y).std(ddof=1))
        e.parts = ((e.sd**2 * (1 / e.n[0] + 1 / e.n[1]), max(e.n) - 1),)
    elif metric in HIGHER and all(inside):
        e.parts = tuple((error**2, df) for error, df, _ in inside)
        e.warnings.append(
            "the interval comes from the rows within the runs: a lower bound, since it does not "
            "hold what differs from run to run"
        )
        e.warnings += [
            f"{r[0].name}: {w}" for r, i in zip((a, b), inside, strict=True) for w in i[2]
        ]


def _joint(effects):
    """Mean effect over thread counts; the start-to-start part is the same in all of them."""
    k, first = len(effects), effects[0]
    e = _Effect(None, tuple(sum(n) for n in zip(*(e.n for e in effects), strict=True)), first.seconds, first.paired, first.start)  # fmt: skip
    e.joint = True
    e.value = sum(e.value for e in effects) / k
    e.parts = tuple((v / k**2, df) for e in effects for v, df in e.parts)
    e.only = next((e.only for e in effects if e.only), "")
    e.warnings = list(dict.fromkeys(w for e in effects for w in e.warnings))
    e.p = e.estimate.p
    return e


def _row(e, p_adjusted, metric, baseline, arm, margin_pct, alpha, workload, shared):
    margin = math.log1p(margin_pct / 100)
    half = e.estimate.half(alpha)
    word = "cannot tell" if e.only else e.estimate.verdict(margin, p_adjusted, alpha)
    repeated = min(e.n) > 1 and e.estimate.known
    bounded = e.estimate.known
    warnings = [*([e.only] if e.only else []), *e.warnings, *shared]
    needed = min(e.n)
    if word == "cannot tell":
        start = sum(v for v, _ in e.start)
        needed = None
        if not e.joint:
            needed = fixed.runs_needed(
                e.value,
                e.sd,
                margin,
                paired=e.paired,
                start=start,
                least=max(e.n[0], 2),
                alpha=alpha,
            )
        if needed is None and start and repeated and not e.joint:
            warnings.append(
                "more runs under the same server starts cannot settle it: restart the servers "
                "between runs"
            )
    return {
        "study": "compare",
        "workload": workload,
        "metric": metric,
        "threads": e.threads,
        "baseline": baseline,
        "arm": arm,
        "n_baseline": e.n[0],
        "n_arm": e.n[1],
        "overhead_pct": fixed.percent(e.value),
        "lo_pct": fixed.percent(e.value - half) if bounded else None,
        "hi_pct": fixed.percent(e.value + half) if bounded else None,
        "p": e.p if repeated else None,
        "p_adjusted": p_adjusted if repeated else None,
        "verdict": word,
        "noise_floor_pct": fixed.percent(half) if repeated else None,
        "deciding_cv_pct": None if e.joint else fixed.deciding_cv(e.value, e.n, e.paired, alpha),
        "runs_needed": needed,
        "minutes_needed": needed * 2 * e.seconds / 60 if needed and e.seconds else None,
        "warnings": list(dict.fromkeys(warnings)),
        "joint": e.joint,
    }


def table(rows, form="text"):
    """The rows as text for a terminal or as a Markdown table; each warning once, by number.

    The verdict stands first: one short line a row, then what the numbers mean."""
    notes = list(dict.fromkeys(w for row in rows for w in row["warnings"]))
    head = ("metric", "threads", "verdict", "overhead", "interval", "runs", "noise floor", "notes")
    if all(row["threads"] is None for row in rows):
        head = tuple(h for h in head if h != "threads")
    cells = []
    for row in rows:
        cell = {
            "metric": LABEL.get(row["metric"], row["metric"]),
            "threads": "all" if row["joint"] else str(row["threads"] or ""),
            "verdict": row["verdict"],
            "overhead": percent(row["overhead_pct"]),
            "interval": "none"
            if row["lo_pct"] is None
            else f"{percent(row['lo_pct'])} to {percent(row['hi_pct'])}",
            "runs": f"{row['n_baseline']} / {row['n_arm']}",
            "noise floor": percent(row["noise_floor_pct"], sign=False),
            "notes": " ".join(map(str, sorted(1 + notes.index(w) for w in row["warnings"]))),
        }
        cells.append([cell[h] for h in head])
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
    """The verdicts of the first metric (throughput or wall time), then what would settle it."""
    first = [r for r in rows if r["metric"] == rows[0]["metric"]]
    parts = []
    for word in dict.fromkeys(r["verdict"] for r in first):
        where = ", ".join(_where(r) for r in first if r["verdict"] == word)
        parts.append(f"{word} ({where})" if len(first) > 1 else word)
    label = LABEL.get(first[0]["metric"], first[0]["metric"])
    text = f"{', '.join(parts)}: {first[0]['arm']} against {first[0]['baseline']}, {label}"
    plans = [_plan(r, len(first) > 1) for r in first if r["verdict"] == "cannot tell"]
    return "\n".join([text, *(f"  {p}" for p in plans if p)])


def _where(row):
    return "all threads" if row["joint"] else "" if row["threads"] is None else f"{row['threads']} threads"  # fmt: skip


def _plan(row, several):
    at = f" at {_where(row)}" if several and not row["joint"] else ""
    if row["runs_needed"]:
        minutes = f" ({row['minutes_needed']:.0f} min)" if row["minutes_needed"] else ""
        return f"To settle it{at}: {row['runs_needed']} runs an arm{minutes}, if they scatter as these do."
    if min(row["n_baseline"], row["n_arm"]) == 1 and row["deciding_cv_pct"]:
        return f"It would be real{at} if runs scattered by less than {row['deciding_cv_pct']:.2f} % (CV)."
    return ""


def percent(value, sign=True):
    """+3.7 %, with digits that mean something; `none` for a number that is not there."""
    if value is None or math.isnan(value):
        return "none"
    if math.isinf(value) or abs(value) > 9999:
        return f"{'-' if value < 0 else '+'}>9999 %"
    digits = 0 if abs(value) >= 99.95 else 1
    value = round(value, digits) + 0.0  # no minus before a zero
    return f"{value:{'+' if sign else ''}.{digits}f} %"


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
