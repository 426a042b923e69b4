"""Text of ``time`` in the forms of shells and GNU time -> list of dicts."""

import re
from collections.abc import Iterator

from noisefloor.parse.base import Result, error, last_line, safe_line, with_line_feeds
from noisefloor.parse.forms import FORMS, compiled

_END = r"[ \t]{0,20}(?=\n|\Z)"
_FORMS: dict[str, tuple[str, str, str]] = {  # hint, opening, whole
    name: (form["hint"], form["opening"], "".join(form["whole"]) + _END)
    for name, form in FORMS["time"].items()
}
_UNITS = {"hours": 3600, "mins": 60, "secs": 1, "millis": 1e-3, "micros": 1e-6}
_UNNAMED = ("TIMEFORMAT", "GNU -f")  # bare numbers: they count only if the percentage fits them


def looks_like_time(text: str | bytes) -> bool:
    """True when ``time`` printed (a part of) `text`. Never raises."""
    try:
        text = with_line_feeds(text)
    except ValueError:
        return False
    forms = _forms_in(text)
    return next(_openings(text, forms), None) is not None or bool(_results(text, forms))


def time(text: str | bytes) -> list[Result]:
    """All results of ``time`` in `text`, in its order.

    Each is a dict `format real_s user_s sys_s cpu_pct maxrss_B exit_code label line`: s, percent of
    one core, B; None for what the form does not print (`real_s` for the shell's ``times``, whose
    second line, the children, is taken). `exit_code` is negative for a signal. `format` is one of
    "bash" (ksh and busybox, too), "POSIX", "GNU", "GNU -v", "GNU -f", "TIMEFORMAT", "zsh", "csh",
    "mksh", "fish", "BSD", "times". A decimal comma is read as a point.

    Raises ParseError when there is no result or one is cut.
    """
    text = with_line_feeds(text)
    forms = _forms_in(text)
    results = _results(text, forms)
    for opening in _openings(text, forms):
        if not any(m.start() <= opening.start() < m.end() for _, m in results):
            raise error(text, opening.start() + 1, "a result of `time` that is not whole")
    if not results:
        raise error(text, last_line(text), "no result of `time` in a form known here")
    return [_result(text, form, match) for form, match in results]


def _forms_in(text: str) -> list[tuple[str, str, str]]:
    """(form, opening, whole) of the forms whose words are in the text."""
    return [(n, opening, whole) for n, (hint, opening, whole) in _FORMS.items() if hint in text]


def _openings(text: str, forms: list[tuple[str, str, str]]) -> Iterator[re.Match[str]]:
    """Matches of the first words of results, whole or not."""
    for _, opening, _ in forms:
        if opening:
            yield from compiled(opening).finditer(text)


def _results(text: str, forms: list[tuple[str, str, str]]) -> list[tuple[str, re.Match[str]]]:
    """(form, match) of each whole result; where several forms match, the first one counts."""
    results: list[tuple[str, re.Match[str]]] = []
    for name, _, whole in forms:
        for match in compiled(whole).finditer(text):
            begin, end = match.span()
            apart = all(m.end() <= begin or end <= m.start() for _, m in results)
            if apart and (name not in _UNNAMED or _agree(match)):
                results.append((name, match))
    return sorted(results, key=lambda result: result[1].start())


def _agree(match: re.Match[str]) -> bool:
    """True when the percentage is (user + sys) / real within what the shown digits leave open."""
    real, user, sys, cpu = (_seconds(match[name]) for name in ("real", "user", "sys", "cpu"))
    step = 10.0 ** -min(len(re.split("[.,]", match[name])[1]) for name in ("real", "user", "sys"))
    if real <= step:
        return cpu <= 100 * (user + sys + 2 * step) / step
    low = 100 * max(0.0, user + sys - 2 * step) / (real + step) - 1
    return low <= cpu <= 100 * (user + sys + 2 * step) / (real - step) + 1


def _seconds(clock: str) -> float:
    """s from 0m1.5s, 1h 2m 3.0s, 1:02:03, 24:45.89, 561.777."""
    clock = clock.replace(",", ".").replace(" ", "").removesuffix("s")
    clock = clock.replace("h", ":").replace("m", ":")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = 60 * seconds + float(part)
    return round(seconds, 9)


def _result(text: str, form: str, match: re.Match[str]) -> Result:
    part = match.groupdict(default="")

    def seconds(name: str) -> float | None:
        """A time of the result in s; None for one that the form does not print."""
        if not part.get(name):
            return None
        return round(_seconds(part[name]) * _UNITS[part.get(f"{name}_unit", "secs")], 9)

    signal = part.get("how", "").endswith("signal")
    code = part.get("code") if signal else part.get("status") or part.get("code")
    return {
        "format": form,
        "real_s": seconds("real"),
        "user_s": seconds("user"),
        "sys_s": seconds("sys"),
        "cpu_pct": _seconds(part["cpu"]) if part.get("cpu") else None,
        "maxrss_B": int(part["rss"]) * 1024 if part.get("rss") else None,
        "exit_code": (-1 if signal else 1) * int(code) if code else None,
        "label": safe_line(part.get("label", "").strip()) or None,
        "line": text.count("\n", 0, match.start() + 1),
    }
