"""HammerDB 3 and 4, TPROC-C: the result of a timed run, and the rows of its transaction counter."""

import re
from itertools import pairwise

import numpy as np

from noisefloor.parse.base import decoded, error, last_line, pieces, safe_line, with_line_feeds
from noisefloor.tools.base import Run

NAME = "HammerDB"
WRAPS = False
MUST = ("tool", "database", "rampup, minutes", "minutes")

_N = r"([0-9]{1,15})"
_RESULT = re.compile(  # 3.2 and before had TPM first
    r"\n[^\n]*?TEST RESULT : System achieved "
    rf"(?:{_N} NOPM from {_N} ([^\n]{{1,40}}?) TPM|{_N} ([^\n]{{1,40}}?) TPM at {_N} NOPM)"
    r"[ \t]*(?=\n|\Z)"
)
_BEGUN = "TEST RESULT :"
_SIGN = re.compile(
    r"TEST RESULT : |HammerDB CLI v|\nVuser [0-9]+:(?:RUNNING|FINISHED|Beginning rampup|Rampup )"
)
_FAILED = re.compile(
    r"\n[^\n]*(?:Error in Virtual User [0-9]+: |Vuser [0-9]+:FINISHED FAILED)[^\n]*"
)
_LAST = "\nALL VIRTUAL USERS COMPLETE"
_USERS = re.compile(rf"\n[^\n]*?(?<![0-9.,]){_N} Active Virtual Users configured")
_RAMPUP = re.compile(rf"\n[^\n]*?Beginning rampup time of {_N} minutes")
_PERIOD = re.compile(rf"\n[^\n]*?Timing test period of {_N} in minutes")
_BANNER = re.compile(r"\nHammerDB CLI v([0-9][0-9A-Za-z.]{0,20})")
_COUNTER = re.compile(
    rf"\n(?:hammerdb>)?{_N} [A-Za-z0-9 ]{{2,40}} tpm(?: @ [^\n]*)?[ \t]*(?=\n|\Z)"
)


def recognises(text: str) -> bool:
    return _SIGN.search(text) is not None


def split_runs(text: str | bytes) -> list[tuple[int, str]]:
    """The text is cut after the end of each run but the last (all virtual users complete)."""
    text = with_line_feeds(text)
    results = [m.start() for m in re.finditer(re.escape(_BEGUN), text)]
    begins = []
    for begin, following in pairwise(results):
        done = text.find(_LAST, begin, following)
        end = text.find("\n", max(done, begin) + 1, following)
        begins += [at] if (at := max(done, end)) >= 0 else []
    return pieces(text, begins)


def chore(text: str | bytes) -> str | None:
    """`schema build`, or None."""
    words = decoded(text)
    done = " SCHEMA COMPLETE" in words and _BEGUN not in words and not _FAILED.search(words)
    return "schema build" if done else None


def read_run(name: str, text: str) -> Run:
    text = with_line_feeds(text)
    results = list(_RESULT.finditer(text))
    if text.count(_BEGUN) > 1:
        at = text.find(_BEGUN, text.find(_BEGUN) + 1)
        raise error(text, at, "a second result; one text holds one run")
    if failed := _FAILED.search(text):
        ignored = "; its result is not taken" if results else ""
        why = f"a virtual user failed: {safe_line(failed[0].strip())}{ignored}"
        raise error(text, failed.start() + 1, why)
    if not results:
        cut = text.find(_BEGUN)
        why = "no result: the run failed, was ended, or the text is cut"
        why = why if cut < 0 else "a result of HammerDB that is not whole"
        raise error(text, last_line(text) if cut < 0 else cut, why)
    (result,) = results
    orders, transactions = (result[1], result[2]) if result[1] else (result[6], result[4])
    database = (result[3] or result[5]).strip()
    if not int(orders):
        raise error(text, result.start() + 1, "no order was made")
    values = {"new_orders_per_s": int(orders) / 60}
    if int(transactions):
        values["tps"] = int(transactions) / 60
    lines = (rule.search(text) for rule in (_USERS, _RAMPUP, _PERIOD))
    users, rampup, period = (int(line[1]) if line else None for line in lines)
    banner = _BANNER.search(text)
    keys = {"tool": NAME, "database": safe_line(database), "rampup, minutes": rampup}
    keys |= {"minutes": period, "HammerDB version": banner[1] if banner else None}
    keys = {k: v for k, v in keys.items() if v is not None}
    per_minute = np.array([float(m[1]) for m in _COUNTER.finditer(text)])
    return Run(
        name,
        values,
        users,
        keys,
        60.0 * period if period else None,
        must=MUST,  # no rows: the counter's include the ramp-up and have no reliable time stamp
        more={"most_tps": per_minute.max() / 60} if per_minute.size else {},
        workload="TPROC-C",
        version=banner[1] if banner else None,
    )
