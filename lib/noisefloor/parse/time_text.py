"""Text of ``time`` in the forms of shells and GNU time -> list of dicts."""

import re
from dataclasses import dataclass
from functools import cached_property

from .base import error, last_line, plain, shown

_D = r"[0-9]{1,12}(?:[.,][0-9]{1,9})?"
_F = r"[0-9]{1,12}[.,][0-9]{1,9}"
_CLOCK = rf"(?:[0-9]{{1,9}}:)?(?:[0-9]{{1,9}}:)?{_F}|[0-9]{{1,9}}:[0-9]{{2}}:[0-9]{{2}}"
_HMS = rf"(?:(?:[0-9]{{1,9}}h ?)?[0-9]{{1,9}}m ?)?{_F}s"
_F2 = r"[0-9]{1,12}[.,][0-9]{2,6}"
_EXIT = (
    r"(?:\nCommand (?P<how>exited with non-zero status|terminated by signal|stopped by signal)"
    r" (?P<code>[0-9]{1,5}))?"
)
_GNU_V_REST = r"Average|Major|Minor|Voluntary|Involuntary|Swaps|File|Socket|Signals|Page"


@dataclass(frozen=True)
class _Form:
    """One form of ``time``: words without which it cannot be there, the beginning of a result
    (which must be inside a whole one), and the whole result."""

    hint: str
    opening: str
    whole: str

    @cached_property
    def opening_rule(self) -> re.Pattern | None:
        return re.compile(r"\n" + self.opening) if self.opening else None

    @cached_property
    def rule(self) -> re.Pattern:
        return re.compile(self.whole + r"[ \t]{0,20}(?=\n|\Z)")


_FORMS = {
    "GNU -v": _Form(
        " (seconds): ",
        r"[ \t]+(?:Command being timed:|User time \(sec|System time \(sec|Elapsed \(wall)",
        rf"{_EXIT}\n[ \t]+Command being timed: \"(?P<label>[^\n]*)\""
        rf"\n[ \t]+User time \(seconds\): (?P<user>{_F})"
        rf"\n[ \t]+System time \(seconds\): (?P<sys>{_F})"
        rf"\n[ \t]+Percent of CPU this job got: (?:(?P<cpu>{_D})|\?)%"
        rf"\n[ \t]+Elapsed \(wall clock\) time \(h:mm:ss or m:ss\): (?P<real>{_CLOCK})"
        rf"(?:\n[ \t]+(?:{_GNU_V_REST})[^\n]*"
        r"|\n[ \t]+Maximum resident set size \(kbytes\): (?P<rss>[0-9]{1,15}))*"
        r"\n[ \t]+Exit status: (?P<status>[0-9]{1,5})",
    ),
    "GNU": _Form(
        "user ",
        r"[0-9.,]{1,20}user [0-9.,]{1,20}s",
        rf"{_EXIT}\n(?P<user>{_F})user (?P<sys>{_F})system (?P<real>{_CLOCK})elapsed"
        rf" (?:(?P<cpu>{_D})|\?)%CPU"
        r" \([0-9]{1,15}avgtext\+[0-9]{1,15}avgdata (?P<rss>[0-9]{1,15})maxresident\)k"
        r"(?:\n[0-9]{1,15}inputs\+[0-9]{1,15}outputs \([^\n]{0,80}\)pagefaults [0-9]{1,15}swaps)?",
    ),
    "bash": _Form(
        "\nreal",
        r"(?:real|user|sys)[ \t]+[0-9]",
        rf"\nreal[ \t]+(?P<real>{_HMS})\nuser[ \t]+(?P<user>{_HMS})\nsys[ \t]+(?P<sys>{_HMS})",
    ),
    "POSIX": _Form(
        "\nreal",
        "",
        rf"{_EXIT}\nreal[ \t]+(?P<real>{_F2})\nuser[ \t]+(?P<user>{_F2})\nsys[ \t]+(?P<sys>{_F2})",
    ),
    "zsh": _Form(
        "s user ",
        r"[^\n]{0,4000}?[0-9]s user [0-9.,]{1,20}s",
        rf"\n(?P<label>[^\n]{{0,4000}}?)(?<![0-9.,:])(?P<user>{_F})s user (?P<sys>{_F})s system"
        rf" (?P<cpu>{_D})% cpu (?P<real>{_CLOCK}) total",
    ),
    "csh": _Form(
        "u ",
        r"[ \t]{0,99}[0-9.,]{1,20}u [0-9.,]{1,20}s [0-9]",
        rf"\n[ \t]{{0,99}}(?P<user>{_F})u (?P<sys>{_F})s (?P<real>{_CLOCK}) (?P<cpu>{_D})%"
        r"(?:[ \t]+[0-9]{1,15}\+[0-9]{1,15}k [0-9]{1,15}\+[0-9]{1,15}io [0-9]{1,15}pf\+[0-9]{1,15}w)?",
    ),
    "mksh": _Form(
        "s real ",
        r"[ \t]{1,99}[0-9hms.,]{1,40}s real[ \t]",
        rf"\n[ \t]+(?P<real>{_HMS}) real[ \t]+(?P<user>{_HMS}) user[ \t]+(?P<sys>{_HMS}) system",
    ),
    "BSD": _Form(
        " real ",
        r"[ \t]{1,99}[0-9.,]{1,40} real[ \t]",
        rf"\n[ \t]+(?P<real>{_F}) real[ \t]+(?P<user>{_F}) user[ \t]+(?P<sys>{_F}) sys",
    ),
    "times": _Form("m", "", rf"\n(?:{_HMS}) (?:{_HMS})\n(?P<user>{_HMS}) (?P<sys>{_HMS})"),
    # numbers without names: taken only when the percentage agrees with them (see _agree)
    "TIMEFORMAT": _Form(
        "%", "", rf"\n(?P<real>{_F}) (?P<user>{_F}) (?P<sys>{_F}) (?P<cpu>{_F})%(?=\n)"
    ),
    "GNU -f": _Form(
        "%",
        "",
        rf"{_EXIT}\n(?P<real>{_F}) (?P<user>{_F}) (?P<sys>{_F}) (?P<cpu>[0-9]{{1,9}})%"
        r"(?: (?P<rss>[0-9]{1,15}))?(?=\n)",
    ),
}
_UNNAMED = ("TIMEFORMAT", "GNU -f")


def looks_like_time(text: str | bytes) -> bool:
    """True when ``time`` printed (a part of) `text`. Never raises."""
    try:
        text = plain(text)
    except ValueError:
        return False
    return next(_openings(text), None) is not None or bool(_results(text))


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
    for opening in _openings(text):
        if not any(a <= opening.start() < b for a, b in spans):
            raise error(text, opening.start() + 1, "a result of `time` that is not whole")
    if not found:
        raise error(text, last_line(text), "no result of `time` in a form known here")
    return [_result(text, form, match) for form, match in found]


def _openings(text: str):
    """Matches of the first words of results, whole or not."""
    for form in _FORMS.values():
        if form.opening_rule and form.hint in text:
            yield from form.opening_rule.finditer(text)


def _results(text: str) -> list[tuple[str, re.Match]]:
    found: list[tuple[str, re.Match]] = []
    for form, parts in _FORMS.items():
        if parts.hint not in text:
            continue
        for match in parts.rule.finditer(text):
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
        "label": shown(label) or None,
        "line": text.count("\n", 0, match.start() + 1),
    }
