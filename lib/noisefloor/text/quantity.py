"""Numbers (`1,234.5`, `1.2k`, `17.43ms`, `221 tps`), metrics and counts of runs, as people write
them. Plain Python; a mistake is a ValueError that says what is allowed."""

import math
import re

from noisefloor.model import METRICS

Given = float | str  # a number, or text with a unit
_MULTIPLES = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_TIMES = {
    "s": 1, "sec": 1, "seconds": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9,
    "min": 60,
}  # fmt: skip
_RATES = {"tps": "tps", "cps": "connections_per_second", "qps": "value", "eps": "value"}  # metrics
_GIVEN = re.compile(
    r"\+?([0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?|[0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?"
    r"\s*([kKMG]?)\s*([^0-9]*)"
)


def read(given: Given, what: str) -> tuple[float, float, str]:
    """(value in base units, size of its unit, kind) of a number, or of text as people write it.

    what: its name in an error; kind: "time", "tps", "cps", "qps", "eps" or "". Raises ValueError
    unless it is understood, finite and above 0."""
    text = str(given).strip()
    if text.endswith("%"):
        raise ValueError(
            f"{what} {text}: a percentage is no measurement; give the numbers themselves"
        )
    match = _GIVEN.fullmatch(text)
    unit = match[4].strip() if match else "?"
    kind = "time" if unit in _TIMES else unit.lower().removesuffix("/s")
    if not match or kind not in ("", "time", *_RATES) or (kind == "time" and match[3]):
        try:
            positive = 0 < float(text) < math.inf
        except ValueError:
            positive = True
        if positive:
            raise ValueError(
                f"{what} {text!r} is not understood: numbers such as 221.19, 1,234.5, 1.2k and 3M "
                "are allowed, with s, ms, us, ns, min, tps, qps, eps, cps, /s or no unit"
            )
        raise ValueError(f"{what} {text}: a number above 0 is needed; nothing was judged")
    size = _TIMES.get(unit, _MULTIPLES[match[3]])
    value = float(match[1].replace(",", "") + (match[2] or "")) * size
    if not 0 < value < math.inf:
        raise ValueError(f"{what} {text}: a number above 0 is needed; nothing was judged")
    return value, size, kind


def metric(name: str | None, kind: str) -> str:
    """The metric asked for (`name`), else the one that the kind of the numbers says. Raises
    ValueError for an unknown one, and for one of another unit."""
    if name is None:
        return "mean_latency" if kind == "time" else _RATES.get(kind, "tps")
    if name not in METRICS:
        raise ValueError(
            f"--metric {name!r}: known are {', '.join(METRICS)}; for anything else take `value`, "
            "with --lower-is-better where less is better"
        )
    unit = METRICS[name].unit
    if unit and kind and unit != ("s" if kind == "time" else "1/s"):
        named = "times" if kind == "time" else "rates"
        raise ValueError(f"{named} were given, but --metric {name} is in {unit}")
    return name


def counts(n: str | None, spread: str) -> tuple[int, int]:
    """Runs behind each of the two numbers, from "5" or "5,3". spread: the option that gave their
    scatter, "" for none; it needs two runs of each. Raises ValueError for anything else."""
    if n is None and spread:
        raise ValueError(
            f"{spread} was given without n: how many repetitions are behind it is needed"
        )
    try:
        runs = [int(k) for k in (n or "1").split(",")]
    except ValueError:
        runs = []
    if len(runs) not in (1, 2):
        raise ValueError(f"n {n}: one whole number or two (5 or 5,3) are allowed")
    if min(runs) < (least := 2 if spread else 1):
        raise ValueError(f"n = {min(runs)}: at least {least} is needed")
    return runs[0], runs[-1]
