"""Real logs, damaged by the million: the parsers give a result or a ParseError, nothing else.

    python tests/faults/fuzz.py --inputs 10000000 --record .fuzz.json     (or: make fuzz)

Batch after batch, each with a seed of its own: the same seed damages the same logs in the same
way. A run that was stopped continues from its record. What broke is kept beside the record.
"""

import argparse
import json
import math
import random
import re
import sys
import time
import traceback
from pathlib import Path

import numpy as np

from noisefloor import parse, tools
from noisefloor.parse.base import decoded

DATA = Path(__file__).parents[1] / "data"
BATCH = 5_000
OUTCOMES = (*(tool.NAME for tool in tools.all_tools()), "refused")
SLOW_S = 0.25  # no input is longer than 200,000 characters: whatever takes this long is quadratic

# -- real logs, and damage to them -----------------------------------------------------------------


def _few_buckets(text: str) -> str:
    """A log with the first dozen buckets of its histogram: ten times as many inputs a second."""
    lines = text.split("\n")
    bars = [i for i, line in enumerate(lines) if " |" in line]
    return "\n".join(line for i, line in enumerate(lines) if i not in bars[12:])


KINDS = (
    "sysbench",
    "sysbench/by-hand",
    "time",
    "tools/pgbench",
    "tools/hammerdb",
    "tools/mysqlslap",
    "tools/sysbench",
)
OF_KIND = {k: [p.read_text() for p in sorted((DATA / k).glob("*.txt"))] for k in KINDS}
LOGS = [log for logs in OF_KIND.values() for log in logs]
SHORT_OF = {log: log if len(log) < 5_000 else _few_buckets(log) for log in LOGS}
SHORT = [SHORT_OF[log] for log in LOGS]
SCRAPS = [
    *("\0", "\r", "\n", "\r\n", "\t", " ", ".", ",", "-", "+", "e", "é", "٣", "²", "½", "\x85"),
    *("\u2028", "\ufeff", "\ud800", "\x1b[31m", "\x1b]0;x\x07", "inf", "nan", "1e9", "0x1F", "1_0"),
    *("9" * 30, "9" * 5000, "0" * 40, "-1", "1.", ".5", "99.99.99", "1,234.5", "%", "s", "ms"),
    *("thds: ", "SQL statistics:\n", "total number of events:", "FATAL: x\n", "real", "user ", "{"),
    *("Latency histogram", "Checkpoint report:\n", "[ 1s ] ", "sysbench ", "</script>", "=1+1"),
    *("|", "h "),
    *(
        "tps = ",
        "progress: 1.0 s, ",
        "transaction type: ",
        "TEST RESULT : ",
        "Vuser 1:",
        "Benchmark\n",
    ),
]
ENDS = ("\r\n", "\r", "\n\n", "\x0b", "\x85", " \n", "\r\r\n", "")
LONG = (" ", "0", "[", "a_", "x", ".", "-p ")
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
COMMON = ("cut", "behead", "splice", "append", "delete", "double", "move", "graft", "swap lines")
COMMON += ("insert", "overwrite", "any character", "digit", "digit", "number", "number")
RARE = ("decimal comma", "some decimal commas", "line ends", "case", "blanks")
BYTES = ["utf-8"] * 6 + ["utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252", "utf-7"]


def _span(r: random.Random, text: str) -> tuple[int, int]:
    """Two places in `text`, mostly near each other, often at the ends of lines."""
    i = r.randrange(len(text) + 1)
    j = r.randrange(len(text) + 1) if r.random() < 0.3 else i + r.randrange(1, 200)
    if r.random() < 0.5:
        i, j = (text.rfind("\n", 0, at) + 1 for at in (i, min(j, len(text))))
    return (i, j) if i <= j else (j, i)


def _digits(r: random.Random, text: str) -> str:
    """A number becomes another one of the text, or none."""
    if not (found := list(NUMBER.finditer(text))):
        return text
    here, there = r.choice(found), r.choice(found)[0]
    odd = ("0", "0.00", "1e5", "inf", "nan", "-" + here[0], here[0] + "e3")
    return text[: here.start()] + r.choice((there, there, *odd)) + text[here.end() :]


def _swapped(r: random.Random, text: str) -> str:
    lines = text.split("\n")
    x, y = r.randrange(len(lines)), r.randrange(len(lines))
    lines[x], lines[y] = lines[y], lines[x]
    return "\n".join(lines)


def _harmed(r: random.Random, text: str, harm: str) -> str:
    """The text after one harm."""
    at = r.randrange(len(text) + 1)
    (i, j), (k, _) = _span(r, text), _span(r, text)
    other = r.choice(SHORT)
    a, b = _span(r, other)
    rest = text[:i] + text[j:]
    return {
        "cut": lambda: text[:at],
        "behead": lambda: text[at:],
        "splice": lambda: text[:i] + other[a:],
        "append": lambda: text + r.choice(("", "\n", "rc=0\n")) + other,
        "delete": lambda: rest,
        "double": lambda: text[:j] + text[i:],
        "move": lambda: rest[:k] + text[i:j] + rest[k:],
        "graft": lambda: text[:k] + other[a:b] + text[k:],
        "swap lines": lambda: _swapped(r, text),
        "insert": lambda: text[:at] + r.choice(SCRAPS) + text[at:],
        "overwrite": lambda: text[:at] + r.choice(SCRAPS) + text[at + 1 :],
        "any character": lambda: text[:at] + chr(r.randrange(0x250)) + text[at + 1 :],
        "digit": lambda: text[:at] + re.sub("[0-9]", lambda m: str(r.randrange(10)), text[at:], count=1),
        "number": lambda: _digits(r, text),
        "decimal comma": lambda: text.replace(".", ","),
        "some decimal commas": lambda: re.sub(r"(?<=[0-9])\.(?=[0-9])", lambda m: r.choice(".,"), text),
        "line ends": lambda: text.replace("\n", r.choice(ENDS)),
        "case": getattr(text, r.choice(("upper", "lower", "title"))),
        "blanks": lambda: re.sub(" {2,}", lambda m: r.choice((" ", "\t", m[0])), text),
        "long line": lambda: text[:i] + r.choice(LONG) * 20_000 + text[i:],
    }[harm]()  # fmt: skip


def damaged(r: random.Random, kind: str = "") -> str | bytes:
    """A real log, of one of KINDS or of any, after one to four harms; one in four as bytes in some
    encoding. What is put into it may be of another kind."""
    whole, logs = r.random() < 0.02, OF_KIND[kind] if kind else LOGS
    text = r.choice(logs if whole else [SHORT_OF[log] for log in logs])
    for _ in range(r.choice((1, 1, 1, 2, 2, 3, 4))):
        chance = r.random()
        kinds = COMMON if chance < 0.9 else RARE if chance < 0.9995 else ("long line",)
        text = _harmed(r, text, r.choice(kinds))[:200_000]
    if r.random() < 0.75:
        return text
    data = text.encode(r.choice(BYTES), "replace")
    if data and r.random() < 0.3:
        i = r.randrange(len(data))
        data = data[:i] + bytes([r.randrange(256)]) + data[i + r.randrange(2) :]
    return data


# -- what must be true of every input --------------------------------------------------------------

CLOCK = re.compile(
    r"(?<![0-9.,:])(?<![0-9][hm])(?<![0-9][hm] )"
    r"(?:([0-9]{1,13}+)(h ?|:))?(?:([0-9]{1,13}+)(?:m ?|:))?([0-9]{1,13}+(?:[.,][0-9]{1,13}+)?+)(?![0-9.,])"
)
# a number with a sign, an exponent, a second point or a comma inside is none that sysbench printed
TOKEN = re.compile(r"(?<![0-9.,A-Za-z_-])[0-9]+(?:\.[0-9]+)?(?![.,]?[0-9])(?![eE][0-9+-])")
LOOSE = re.compile(r"(?<![0-9.])[0-9]+(?:\.[0-9]+)?(?!\.?[0-9])")
UNIT = re.compile(r"(?<![0-9])([0-9]+[.,][0-9]+) (hours|mins|secs|millis|micros)\b")  # of fish
UNITS = {"hours": 3600, "mins": 60, "secs": 1, "millis": 1e-3, "micros": 1e-6}
CSV = re.compile(r"^[0-9]+,[0-9]+,[0-9.]", re.MULTILINE)


class Broken(AssertionError):
    """A promise of the parsers that an input broke."""


def _same(value: float) -> float:
    """The number as it can be compared after a division by 1,000."""
    return float(f"{value:.11g}")


def _in_sysbench(text: str, found: dict) -> None:
    """Raise Broken for a number of `found` that the text does not hold."""
    rule = LOOSE if CSV.search(text) else TOKEN
    told = {_same(float(t)) for t in rule.findall(text)}

    def check(name, values, *scales):
        for value in values:
            if value is not None and not any(_same(value * s) in told for s in scales or (1,)):
                raise Broken(f"{name} {value!r} is not in the text")

    plain = ("duration_s", "events", "transactions", "tps", "queries", "reads", "writes", "other")
    plain += ("ignored_errors", "reconnects", "rate", "report_interval", "warmup_s")
    latency, rows = found["latency"], found["intervals"]
    for name in plain:
        check(name, [found[name]])
    check("latency", [latency["min"], latency["mean"], latency["max"]], 1e3)
    check("latency sum", [latency["sum"]], 1e3, 1)
    check("percentile", latency["percentile"].values(), 1e3)
    check("share", latency["percentile"], 1, 10, 100, 1e3, 1e4)
    for name, column in rows.items():
        if name != "ok":
            check(name, column.tolist(), *((1e3, 1e6) if name == "latency_s" else ()))
    check("bucket", found["histogram_s"].tolist(), 1e3)
    check("count", found["histogram_counts"].tolist())
    for name, column in found["queue"].items():
        check(name, column.tolist())
    if rows and len({len(column) for column in rows.values()}) != 1:
        raise Broken("columns of different lengths")
    # derived where the version does not print them
    if found["events_per_s"] is not None and _same(found["events_per_s"]) not in told:
        seconds = found["duration_s"]
        if not seconds or abs(found["events"] / seconds - found["events_per_s"]) > 1e-9:
            raise Broken("events_per_s is neither printed nor events over seconds")
    if found["qps"] is not None and _same(found["qps"]) not in told:
        rates = {float(x) for x in re.findall(r"\( *([0-9]+(?:\.[0-9]+)?) per sec", text)}
        if not any(abs(a + b - found["qps"]) < 0.006 for a in rates for b in rates):
            raise Broken("qps is neither printed nor a sum")
    for n in (found["threads"], found["percentile"]):
        if n is not None and not math.isfinite(n):
            raise Broken(f"{n} threads, or percentile")


def _in_time(text: str, found: list[dict]) -> None:
    clocks = set()
    for m in CLOCK.finditer(text):
        h, hour, minute, s = m.groups()
        seconds = float(s.replace(",", "."))
        if minute is not None:
            seconds += 60 * int(minute)
        if h is not None:  # `1:02` is a minute and two seconds, `1h 2` is not
            seconds += int(h) * (3600 if hour[0] == "h" or minute is not None else 60)
        clocks.add(_same(seconds))
    clocks |= {_same(float(n.replace(",", ".")) * UNITS[u]) for n, u in UNIT.findall(text)}
    for result in found:
        for name in ("real_s", "user_s", "sys_s", "cpu_pct"):
            if result[name] is not None and _same(result[name]) not in clocks:
                raise Broken(f"{name} {result[name]!r} is not in the text")
        size, code = result["maxrss_B"], result["exit_code"]
        if size is not None and not re.search(rf"(?<![0-9])0*{size // 1024}(?![0-9])", text):
            raise Broken(f"maxrss_B {size} is not in the text")
        if code is not None and not re.search(rf"(?<![0-9])0*{abs(code)}(?![0-9])", text):
            raise Broken(f"exit code {code} is not in the text")


def _in_log(text: str, run: tools.Run) -> None:
    """Raise Broken for a number of a run of another tool that the text does not hold."""
    told = {_same(float(t)) for t in LOOSE.findall(text)}
    columns = [column for name, column in run.intervals.items() if name != "ok"]
    values = [
        *run.values.values(),
        *run.more.values(),
        run.threads,
        *np.concatenate([*columns, []]),
    ]
    for value in values:  # as it is, in ms, or in minutes
        said = value is not None and math.isfinite(value)
        if said and not any(_same(value * scale) in told for scale in (1, 1e3, 60)):
            raise Broken(f"{value!r} is not in the text")


def _of_others(text: str | bytes) -> list[str]:
    """The tools beside sysbench and `time` that read the text. Raises Broken."""
    found = []
    for tool in tools.all_tools():
        if tool.NAME in ("sysbench", "time"):
            continue
        try:
            runs = [tool.read_run("x", piece) for _, piece in tool.split_runs(text)]
        except parse.ParseError as e:
            _fit(e, text)
            continue
        for run in runs:
            _in_log(decoded(text), run)
        found.append(tool.NAME)
    return found


def _fit(e: parse.ParseError, text: str | bytes) -> None:
    """Raise Broken for an error that is not fit for a terminal."""
    if not (e.text.isprintable() and str(e).isprintable() and len(str(e)) < 3_000):
        raise Broken("an error that is not fit for a terminal") from None
    if not 1 <= e.line <= 2 + len(text):
        raise Broken(f"an error in line {e.line}") from None


def _numbers(result):
    if isinstance(result, dict | list | tuple):
        for value in result.values() if isinstance(result, dict) else result:
            yield from _numbers(value)
    elif isinstance(result, np.ndarray | int | float):
        yield from np.ravel(result).tolist()


def check(text: str | bytes) -> str:
    """What the parsers made of one input: the first tool that read it, or "refused". Raises Broken, or
    whatever escaped from a parser."""
    kind = getattr(tools.tool_of(text), "NAME", None)
    outcome, found = "refused", []
    for name, read in (("sysbench", parse.sysbench), ("time", parse.time)):
        try:
            result = read(text)
        except parse.ParseError as e:
            _fit(e, text)
            continue
        if name == "sysbench":
            _in_sysbench(decoded(text), result)
        else:
            _in_time(decoded(text), result)
        if not all(math.isfinite(n) for n in _numbers(result)):
            raise Broken("a number that is not finite")
        found.append(name)
    found += _of_others(text)
    outcome = found[0] if found else outcome
    if kind is None and (odd := {*found} - {"sysbench"}):  # which reads a summary without its head
        raise Broken(f"read as {odd}, but of no tool")
    for tool in tools.all_tools():
        tool.chore(text)
        try:
            pieces = tool.split_runs(text)
        except parse.ParseError:
            continue
        lines = [line for line, _ in pieces]
        if tool.NAME != "time" and not (lines[0] == 1 and lines == sorted(lines)):
            raise Broken(f"{tool.NAME}: pieces out of order")
    return outcome


# -- many of them ----------------------------------------------------------------------------------


def batch(seed: str, inputs: int = BATCH, kind: str = "") -> dict:
    """Counts of one batch, its slowest input's seconds, and what broke (at most five)."""
    r = random.Random(seed)
    counts, slowest, broken = dict.fromkeys(OUTCOMES, 0), 0.0, []
    start = time.process_time()
    for _ in range(inputs):
        text = damaged(r, kind)
        began = time.process_time()
        try:
            counts[check(text)] += 1
        except Exception as e:
            where = traceback.extract_tb(e.__traceback__)[-1]
            said = f"{type(e).__name__}: {e} ({Path(where.filename).name}:{where.lineno})"
            broken.append((said, text))
        took = time.process_time() - began
        slowest = max(slowest, took)
        if took > SLOW_S:
            broken.append((f"Slow: {took:.1f} s for {len(text)} characters", text))
    spent = {"slowest_s": slowest, "cpu_s": time.process_time() - start}
    return {"inputs": inputs, **counts, **spent, "broken": broken[:5]}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("--inputs", type=int, default=10_000_000)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--kind", choices=KINDS, default="", help="damage logs of this kind alone")
    asked.add_argument("--record", type=Path, help="where counts are kept; a run continues from it")
    asked = asked.parse_args()
    from tqdm import tqdm

    total = {
        "seed": asked.seed,
        "kind": asked.kind,
        "batches": 0,
        "inputs": 0,
        **dict.fromkeys(OUTCOMES, 0),
    }
    total |= {"slowest_s": 0.0, "cpu_s": 0.0, "broken": 0}
    if asked.record and asked.record.exists():
        total |= json.loads(asked.record.read_text())
        if total["kind"] != asked.kind:
            raise SystemExit(f"{asked.record} counts logs of another kind; nothing was done")
    bar = tqdm(total=asked.inputs, initial=total["inputs"], unit="input", disable=None)
    for n in range(total["batches"], math.ceil(asked.inputs / BATCH)):
        found = batch(f"{total['seed']}-{n}", kind=asked.kind)
        for said, text in found.pop("broken"):
            total["broken"] += 1
            print(f"batch {n}: {said}", file=sys.stderr)
            if asked.record and total["broken"] < 200:
                kept = asked.record.with_suffix(f".broken-{total['broken']}")
                odd = isinstance(text, str)
                kept.write_bytes(text.encode("utf-8", "surrogatepass") if odd else text)
        total["slowest_s"] = max(total["slowest_s"], found.pop("slowest_s"))
        for name, value in found.items():
            total[name] += value
        total["batches"] = n + 1
        bar.update(found["inputs"])
        if asked.record:
            partial = asked.record.with_suffix(".partial")
            partial.write_text(json.dumps(total, indent=1) + "\n")
            partial.replace(asked.record)
    bar.close()
    print(json.dumps(total))
    raise SystemExit(bool(total["broken"]))


if __name__ == "__main__":
    main()
