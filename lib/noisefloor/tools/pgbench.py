"""pgbench of PostgreSQL 9.2 to 18: its summary, and the rows of --progress."""

import os
import re

import numpy as np

from noisefloor.parse.base import decoded, error, last_line, pieces, safe_line, with_line_feeds
from noisefloor.tools.base import Run, labelled

NAME = "pgbench"
WRAPS = False
MUST = ("tool", "test", "scaling factor", "query mode", "rate", "reconnects", "max tries")

_N, _R = r"([0-9]{1,18})", r"([0-9]{1,18}(?:\.[0-9]{1,9})?)"
_TYPE = "\ntransaction type: "
_SIGN = re.compile(
    r"\n(?:transaction type: |number of transactions actually processed: |pgbench \([A-Z0-9]"
    r"|progress: [0-9.]+ s, |pgbench: (?:error|fatal|warning)|tps = [0-9.]+ \()"
)
_INITIALIZED = re.compile(r"\n(?:dropping old tables|creating tables|generating data)[^\n]*\.\.\.")
_FIRST = re.compile(r"\n(?:pgbench \(|starting vacuum|progress: |transaction type: )")
_FAILED = re.compile(
    r"\n[^\n]*(?:Run was aborted; |pgbench: fatal: |client [0-9]+ (?:script [0-9]+ )?aborted "
    r"|pgbench: error: (?![^\n]{0,300}\npgbench: [^\n]{0,20}\(ignoring this error))[^\n]*",
    re.IGNORECASE,
)
_LABELS = {
    "version": r"pgbench \((?:PostgreSQL\) )?([0-9][^\n]{0,80}?)\)?",
    "type": r"transaction type: ([^\n]+)",
    "scaling factor": f"scaling factor: {_N}",
    "query mode": r"query mode: ([a-z]+)",
    "clients": f"number of clients: {_N}",
    "threads": f"number of threads: {_N}",
    "tries": f"maximum number of tries: {_N}",
    "duration": f"duration: {_N} s",
    "each": f"number of transactions per client: {_N}",
    "processed": rf"number of transactions actually processed: {_N}(?:/([0-9]{{1,18}}))?",
    "failed": rf"number of failed transactions: {_N} \({_R}%\)",
    "skipped": rf"number of transactions skipped: {_N} \({_R}%\)",
    "mean": rf"latency average(?: =|:) {_R} ms",
    "lag": rf"rate limit schedule lag: avg {_R} \(max {_R}\) ms",
    "tps": rf"tps = {_R} \((?:without initial connection time|excluding connections establishing"
    r"|including reconnection times)\)",
}
_NEEDED = ("type", "clients", "processed", "tps")
_PROGRESS = re.compile(r"\nprogress: [^\n]*")
_ROW = re.compile(
    rf"\nprogress: {_R} s, {_R} tps, lat (?:{_R}|-?nan) ms stddev (?:{_R}|-?nan)"
    r"(?:, [0-9]+ failed)?(?:, lag [0-9.]+ ms)?(?:, [0-9]+ skipped)?"
    r"(?:, [0-9]+ retried, [0-9]+ retries)?[ \t]*(?=\n|\Z)"
)


def recognises(text: str) -> bool:
    return any(rule.search(text) for rule in (_SIGN, _INITIALIZED))


def split_runs(text: str | bytes) -> list[tuple[int, str]]:
    """The text is cut above the first line of each run but the first."""
    text = with_line_feeds(text)
    begins, at = [], text.find(_TYPE)
    while at >= 0 and (following := text.find(_TYPE, at + 1)) >= 0:
        end = max(text.rfind("\ntps = ", at, following), at + 1)
        first = _FIRST.search(text, end, following + len(_TYPE))
        begins.append(first.start() if first else following)
        at = following
    return pieces(text, begins)


def chore(text: str | bytes) -> str | None:
    """`initialization` for the log of pgbench -i, or None."""
    words = "\n" + decoded(text).replace("\r", "")
    done = _INITIALIZED.search(words) and not (_SIGN.search(words) or _FAILED.search(words))
    return "initialization" if done else None


def read_run(name: str, text: str) -> Run:
    text = with_line_feeds(text)
    if failed := _FAILED.search(text):
        raise error(text, failed.start() + 1, f"pgbench failed: {safe_line(failed[0].strip())}")
    lines = labelled(text, _LABELS)
    if missing := [label for label in _NEEDED if label not in lines]:
        why = "no summary: the run failed, was killed, or the text is cut"
        if len(missing) < len(_NEEDED):
            why = f"the summary is cut, or a line of it is not whole: no {missing[0]!r}"
        raise error(text, last_line(text), why)

    def number_of(label: str, place: int = 1) -> float | None:
        value = lines[label][place] if label in lines else None
        return None if value is None else float(value)

    processed, wanted, tps = number_of("processed"), number_of("processed", 2), number_of("tps")
    if not processed or not tps:
        raise error(text, lines["processed"].start() + 1, "no transaction was processed")
    lost = (number_of("failed") or 0) + (number_of("skipped") or 0)
    if wanted is not None and processed + lost < wanted:
        why = f"{processed:.0f} of {wanted:.0f} transactions were processed: clients were lost"
        raise error(text, lines["processed"].start() + 1, why)
    seconds = number_of("duration") or processed / tps
    test = lines["type"][1].strip()
    test = safe_line(test if test.startswith("<") else os.path.basename(test))
    version = lines["version"][1] if "version" in lines else None
    # versions that try again print "failed", and the maximum number of tries only if there is one
    tries = lines["tries"][1] if "tries" in lines else "any" if "failed" in lines else "1"
    limited = "lag" in lines  # the rate itself is not printed
    values = {} if limited else {"tps": tps}
    if mean := number_of("mean"):
        values["mean_latency"] = mean / 1e3
    notes = [f"{number_of(k):.0f} {k} transactions" for k in ("failed", "skipped") if number_of(k)]
    notes += ["the rate of -R is not printed, so two rates look alike: no word on TPS"] * limited
    rows = _rows(text)
    if len(rows) and abs(processed / seconds / tps - 1) > 0.1:
        notes.append(
            f"{processed:.0f} transactions in {seconds:g} s are not the {tps:g} a second printed"
        )
    return Run(
        name,
        values,
        int(number_of("clients") or 0),
        {
            "tool": NAME,
            "test": test,
            **{k: lines[k][1] for k in ("scaling factor", "query mode") if k in lines},
            "rate": "limited" if limited else "none",
            "reconnects": "yes" if "reconnection" in lines["tps"][0] else "no",
            "max tries": tries,
            **({"pgbench version": version} if version else {}),
            **({"threads of pgbench": lines["threads"][1]} if "threads" in lines else {}),
        },
        seconds,
        rows[:, 1] if len(rows) else None,
        tuple(notes),
        MUST,
        more={"reached_rate": tps} if limited else {},
        workload=test,
        version=version,
        intervals=_table(rows),
    )


def _rows(text: str) -> np.ndarray:
    """Time in s, transactions a second and mean latency in ms of each row. Raises ParseError for
    one that is not whole."""
    lines, rows = list(_PROGRESS.finditer(text)), list(_ROW.finditer(text))
    if len(lines) != len(rows):
        whole = {row.start() for row in rows}
        cut = next(line for line in lines if line.start() not in whole)
        raise error(text, cut.start() + 1, "a row of --progress that is not whole")
    table = np.array([[float(row[n] or "nan") for n in (1, 2, 3)] for row in rows]).reshape(-1, 3)
    if (np.diff(table[:, 0]) < 0).any():
        raise error(text, rows[0].start() + 1, "time runs backwards: two runs in one text")
    return table


def _table(rows: np.ndarray) -> dict[str, np.ndarray]:
    if not len(rows):
        return {}
    return {
        "t_s": rows[:, 0],
        "tps": rows[:, 1],
        "latency_s": rows[:, 2] / 1e3,
        "ok": np.ones(len(rows), bool),
    }
