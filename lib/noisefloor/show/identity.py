"""Finds and removes what identifies a machine or a person in text."""

import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from noisefloor import paths
from noisefloor.parse import secrets

HOST_FACTS = {  # what `doctor.host_facts` records of a machine; anything else may name it
    *("cpu", "processor", "cpu_settings", "cores", "memory_B", "aes", "flags", "virtual"),
    *("kernel", "system", "disk"),
    "boot",  # random: it identifies a sitting, not a machine or a person
}
_BEFORE, _AFTER = r"(?<![a-z0-9])", r"(?![a-z0-9])"
_NAMED = re.compile(
    rf"{_BEFORE}(?P<key>host[-_]?name|nodename|fqdn|host|user[-_]?name|logname|login|user)[\"']?"
    r"[ \t]{0,3}[=:][ \t]{0,3}[\"']?(?P<name>[a-z_][\w.-]{0,98}[a-z0-9]|\d{1,3}(?:\.\d{1,3}){3})",
    re.I,
)
_AT = re.compile(
    r"(?<![\w.-])(?P<user>[a-z_][\w.-]{0,63})(?::(?!//)\S{1,100})?@(?P<host>[a-z][\w.-]{1,98}\w)",
    re.I,
)
_HOMES = re.compile(
    r"(?:/(?:var/|export/|usr/)?home|/Users)/([\w.-]{1,64})|[a-z]:\\+Users\\+([^\\\"'\n]{1,64})"
    r"|/root(?![\w.-])",
    re.I,
)
_SECRET = re.compile(r"pass|pwd|secret|token|credential|(?:api|access|private)_?key", re.I)
_LOOPBACK = re.compile(r"127\..*|0\.0\.0\.0")


def _here() -> dict[str, str]:
    """{name: its replacement} of this process: host, user, secrets in its environment."""
    env = os.environ
    names = {env.get(v, ""): "some-user" for v in ("USER", "LOGNAME", "SUDO_USER", "USERNAME")}
    names[Path.home().name] = "some-user"
    for host in (platform.node(), env.get("HOSTNAME", "")):
        names |= {host: "some-host", host.partition(".")[0]: "some-host"}
    for name, value in env.items():
        if _SECRET.search(name) and name not in ("PWD", "OLDPWD") and len(value) > 5:
            names[value] = secrets.HIDDEN
    return names


def private_names(texts: Iterable[str], facts: Mapping[str, Any], public: str) -> dict[str, str]:
    """{name to hide: its replacement}: the names of this process, those that `texts` give as a host,
    a user or a home, and values of the host's `facts` beyond `HOST_FACTS`. Words of the `public` text
    (the library's own), loopback addresses and single characters are never hidden."""
    names = _here()
    for key, value in facts.items():
        if key not in HOST_FACTS and isinstance(value, str):
            names[value] = "some-host"
    for text in texts:
        for match in _NAMED.finditer(text):
            names[match["name"]] = "some-host" if match["key"][0] in "hHnNfF" else "some-user"
        for match in _AT.finditer(text):
            names |= {match["user"]: "some-user", match["host"]: "some-host"}
        for match in _HOMES.finditer(text):
            names[match[1] or match[2] or ""] = "some-user"
    words = {w for p in (r"[\w.-]+", r"\w+") for w in re.findall(p, public.casefold())}
    return {
        name: word
        for name, word in names.items()
        if len(name) > 1 and name.casefold() not in words and not _LOOPBACK.fullmatch(name)
    }


def without_folders(text: str, *scratch: Path) -> str:
    """`text` without the folders of this machine: the project and `scratch` become '.', the
    environment '.venv', the home '~'."""
    folders = [(folder, ".") for folder in (*scratch, paths.root(), Path(__file__).parents[3])]
    folders += [(Path(sys.prefix), ".venv"), (Path.home(), "~")]
    for folder, word in sorted(folders, key=lambda f: -len(str(f[0]))):  # inner ones first
        if len(str(folder)) > 1:
            text = re.sub(rf"(?<![\w.-]){re.escape(str(folder))}(?![\w-])", word, text)
    return text


def hide(text: str, names: dict[str, str]) -> str:
    """`text` with `names` replaced, and without secrets and home folders. Idempotent."""
    text = _HOMES.sub("~", without_folders(secrets.scrub(text)[0]))
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(f"{_BEFORE}{re.escape(name)}{_AFTER}", names[name], text, flags=re.I)
    return text


def hide_in(value: Any, names: dict[str, str]) -> Any:
    """A value read from JSON, with its texts hidden, and secrets under keys such as `password`."""
    if isinstance(value, dict):
        return {
            hide(k, names): secrets.HIDDEN
            if isinstance(v, str) and v and secrets.scrub(f"{k}={v}")[1]
            else hide_in(v, names)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [hide_in(v, names) for v in value]
    return hide(value, names) if isinstance(value, str) else value


def names_in(text: str, names: dict[str, str]) -> list[str]:
    """Those of the `names` in `text`, from six characters on: binary data hold others by chance."""
    long = [n for n in names if len(n) > 5]
    return [n for n in long if re.search(f"{_BEFORE}{re.escape(n)}{_AFTER}", text, flags=re.I)]
