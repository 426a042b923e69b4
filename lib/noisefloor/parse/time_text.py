"""Text of ``time`` in the forms of shells and GNU time -> list of dicts."""

import re

from .base import error, last_line, plain
from .secrets import scrub

_D = r"[0-9]{1,12}(?:[.,][0-9]{1,9})?"
_F = r"[0-9]{1,12}[.,][0-9]{1,9}"
_CLOCK = rf"(?:[0-9]{{1,9}}:)?(?:[0-9]{{1,9}}:)?{_F}|[0-9]{{1,9}}:[0-9]{{2}}:[0-9]{{2}}"
_HMS = rf"(?:[0-9]{{1,9}}h ?)?(?:[0-9]{{1,9}}m ?)?{_F}s"
_END = r"[ \t]*(?=\n|\Z)"
_EXIT = (
    r"(?:\nCommand (?P<how>exited with non-zero status|terminated by signal) (?P<code>[0-9]{1,5}))?"
)
_FORMS = {
    "GNU -v": re.compile(
        r"(?:\nCommand (?P<how>exited with non-zero status|terminated by signal|stopped by signal) (?P<code>[0-9]{1,5}))?"
        rf"\n[ \t]+Command being timed: \"(?P<label>[^\n]*)\""
        rf"\n[ \t]+User time \(seconds\): (?P<user>{_F})"
        rf"\n[ \t]+System time \(seconds\): (?P<sys>{_F})"
        rf"\n[ \t]+Percent of CPU this job got: (?:(?P<cpu>{_D})|\?)%"
        rf"\n[ \t]+Elapsed \(wall clock\) time \(h:mm:ss or m:ss\): (?P<real>{_CLOCK})"
        r"(?:\n[ \t]+(?:Average|Major|Minor|Voluntary|Involuntary|Swaps|File|Socket|Signals|Page)[^\n]*"
        r"|\n[ \t]+Maximum resident set size \(kbytes\): (?P<rss>[0-9]{1,15}))*"
        r"\n[ \t]+Exit status: (?P<status>[0-9]{1,5})" + _END
    ),
    "GNU": re.compile(
        rf"{_EXIT}\n(?P<user>{_F})user (?P<sys>{_F})system (?P<real>{_CLOCK})elapsed (?:(?P<cpu>{_D})|\?)%CPU"
        r" \([0-9]{1,15}avgtext\+[0-9]{1,15}avgdata (?P<rss>[0-9]{1,15})maxresident\)k"
        rf"(?:\n[0-9]{{1,15}}inputs\+[0-9]{{1,15}}outputs \([^\n]{{0,80}}\)pagefaults [0-9]{{1,15}}swaps)?{_END}"
    ),
    "bash": re.compile(
        rf"\nreal[ \t]+(?P<real>{_HMS})\nuser[ \t]+(?P<user>{_HMS})\nsys[ \t]+(?P<sys>{_HMS}){_END}"
    ),
    "POSIX": re.compile(
        rf"{_EXIT}\nreal[ \t]+(?P<real>[0-9]{{1,12}}[.,][0-9]{{2,6}})\nuser[ \t]+(?P<user>[0-9]{{1,12}}[.,][0-9]{{2,6}})"
        rf"\nsys[ \t]+(?P<sys>[0-9]{{1,12}}[.,][0-9]{{2,6}}){_END}"
    ),
    "zsh": re.compile(
        rf"\n(?P<label>[^\n]{{0,4000}}?)[ \t]*(?<![0-9.,:])(?P<user>{_F})s user (?P<sys>{_F})s system (?P<cpu>{_D})% cpu (?P<real>{_CLOCK}) total{_END}"
    ),
    "csh": re.compile(
        rf"\n[ \t]*(?P<user>{_F})u (?P<sys>{_F})s (?P<real>{_CLOCK}) (?P<cpu>{_F})%(?:[ \t]+[0-9]+\+[0-9]+k [0-9]+\+[0-9]+io [0-9]+pf\+[0-9]+w)?{_END}"
    ),
    "mksh": re.compile(
        rf"\n[ \t]+(?P<real>{_HMS}) real[ \t]+(?P<user>{_HMS}) user[ \t]+(?P<sys>{_HMS}) system{_END}"
    ),
    "BSD": re.compile(
        rf"\n[ \t]+(?P<real>{_F}) real[ \t]+(?P<user>{_F}) user[ \t]+(?P<sys>{_F}) sys{_END}"
    ),
    "times": re.compile(rf"\n(?:{_HMS}) (?:{_HMS})\n(?P<user>{_HMS}) (?P<sys>{_HMS}){_END}"),
    # numbers without names: taken only when the percentage agrees with them (see _agree)
    "TIMEFORMAT": re.compile(
        rf"\n(?P<real>{_F}) (?P<user>{_F}) (?P<sys>{_F}) (?P<cpu>{_F})%{_END}"
    ),
    "GNU -f": re.compile(
        rf"{_EXIT}\n(?P<real>{_F}) (?P<user>{_F}) (?P<sys>{_F}) (?P<cpu>[0-9]{{1,9}})%(?: (?P<rss>[0-9]{{1,15}})(?=\n))?{_END}"
    ),
}
_UNNAMED = ("TIMEFORMAT", "GNU -f")
# a line that only `time` prints: each must be inside a result, or the result is cut
_OPENING = re.compile(
    r"\n(?:real[ \t]+[0-9]|user[ \t]+[0-9]|sys[ \t]+[0-9]|[ \t]+(?:Command being timed:|User time \(seconds\)|System time \(seconds\)|Elapsed \(wall|Exit status: [0-9])"
    r"|[0-9.,]{1,20}user [0-9.,]{1,20}s|[0-9.,]{1,20}u [0-9.,]{1,20}s [0-9]"
    r"|[^\n]{0,4000}?[0-9]s user [0-9.,]{1,20}s system|[ \t]+[0-9hms.,]{1,40} real[ \t]+[0-9])"
)
_HINTS = ("real", "user", "time", "elapsed", "u ", "% ", "%\n", "0m")
_NAMED_HINTS = {
    "GNU -v": "Command being timed",
    "GNU": "elapsed",
    "bash": "\nreal",
    "POSIX": "\nreal",
    "zsh": "% cpu ",
    "csh": "u ",
    "mksh": " real",
    "BSD": " real",
    "times": "m",
    "TIMEFORMAT": "%",
    "GNU -f": "%",
}


def looks_like_time(text: str | bytes) -> bool:
    """True when ``time`` printed (a part of) `text`. Never raises."""
    try:
        text = plain(text)
    except ValueError:
        return False
    if not any(hint in text for hint in _HINTS):
        return False
    return bool(_OPENING.search(text)) or bool(_results(text))


def time(text: str | bytes) -> list[dict]:
    """All results of ``time`` in `text`, in its order.

    Each a dict `format real_s user_s sys_s cpu_pct maxrss_B exit_code label line`: s, percent of
    one core, B; None for what the form does not print (`real_s` for the shell's ``times``, whose
    second line, the children, is taken). `exit_code` is negative for a signal. `format` is one of
    "bash" (ksh and busybox, too), "POSIX", "GNU", "GNU -v", "GNU -f", "TIMEFORMAT", "zsh", "csh",
    "mksh", "BSD", "times". A decimal comma is read as a point.

    Raises ParseError when there is no result or one is cut.
    """
    text = plain(text)
    found = _results(text)
    spans = [m.span() for _, m in found]
    for opening in _OPENING.finditer(text):
        if not any(a <= opening.start() < b for a, b in spans):
            raise error(text, opening.start() + 1, "a result of `time` that is not whole")
    if not found:
        raise error(text, last_line(text), "no result of `time` in a form known here")
    return [_result(text, form, match) for form, match in found]


def _results(text: str) -> list[tuple[str, re.Match]]:
    found: list[tuple[str, re.Match]] = []
    for form, rule in _FORMS.items():
        if _NAMED_HINTS[form] not in text:
            continue
        for match in rule.finditer(text):
            if form in _UNNAMED and not _agree(match):
                continue
            if not any(m.start() < match.end() and match.start() < m.end() for _, m in found):
                found.append((form, match))
    return sorted(found, key=lambda f: f[1].start())


def _agree(match: re.Match) -> bool:
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


def _result(text: str, form: str, match: re.Match) -> dict:
    part = match.groupdict()
    code = part.get("status") or part.get("code")
    signal = (part.get("how") or "").endswith("signal")
    exit_code = -int(part["code"]) if signal else int(code) if code else None
    label = (part.get("label") or "").strip()
    return {
        "format": form,
        "real_s": _seconds(part["real"]) if part.get("real") else None,
        "user_s": _seconds(part["user"]),
        "sys_s": _seconds(part["sys"]),
        "cpu_pct": _seconds(part["cpu"]) if part.get("cpu") else None,
        "maxrss_B": int(part["rss"]) * 1024 if part.get("rss") else None,
        "exit_code": exit_code,
        "label": scrub(label)[0] or None,
        "line": text.count("\n", 0, match.start() + 1),
    }
