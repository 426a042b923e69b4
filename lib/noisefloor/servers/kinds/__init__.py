"""The kinds of server, one module each: how to recognise a build, write its my.cnf and its keys,
and query it. Every module here is a kind."""

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

USUAL = "mysql"  # the kind if a version names none
Checks = Mapping[str, bool | None]  # check -> encrypted (True), plain (False) or neither (None)


class Kind(Protocol):
    """What a module of this package offers."""

    NAME: str
    MAKER: str  # its name on pages
    BUILDS: Mapping[str, str]  # names of its builds -> what a page calls them
    PACKAGES: tuple[str, ...]  # Debian's packages of the machine's own build; () if it is not used
    INSTALL: tuple[str, ...]  # scripts that make a data directory; none: mysqld --initialize
    KEYRING: str  # the plugin's file
    POOL: str  # the plugin's file; "" where every build has a pool
    REDO: str  # the variable that says how much redo log is kept
    LSN: tuple[str, str]  # status: the redo log written, and checkpointed
    RELOAD_TLS: str
    TLS: Mapping[str, str]  # my.cnf for the files ca.pem, server-cert.pem and server-key.pem
    REPLICA: str  # a statement that has a row on a replica alone
    TABLES: tuple[str, str]  # a check's name; SELECT of `v`, whether the table t.NAME is encrypted
    LOGS: Mapping[str, str]  # my.cnf that turns the binary log on; {} if it is on by default
    COPIERS: tuple[str, ...]  # programs that copy its files, the best first; tar after a clone

    def prints(self, version: str) -> bool:
        """Whether a server that prints this for --version is of this kind."""

    def binlog_status(self, version: str) -> str:
        """The statement that reports the position of the binary log."""

    def reset_binlog(self, version: str) -> str:
        """The statement that resets the binary log."""

    def binlog_encrypted(self, server: Any, name: str, head: bytes) -> Checks:
        """Whether a binary log is encrypted, by what the server says and its first bytes."""

    def keyring(self, server: Any) -> tuple[str, str]:
        """(a check's name, active or disabled)."""

    def settings(self, folder: Path, *, keyring: bool) -> Mapping[str, object]:
        """my.cnf of a throwaway server in a folder."""

    def write_keyring(self, folder: Path, datadir: Path) -> Mapping[Path, str]:
        """The files of a keyring, with what they hold."""


@functools.cache
def all_kinds() -> Mapping[str, Kind]:
    """All kinds by their name."""
    modules = [
        importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)
    ]
    return {kind.NAME: kind for kind in cast(list[Kind], modules)}


def printing(version: str) -> Kind:
    """The kind of a server that answers this to --version or VERSION(); MySQL if it names none."""
    others = (kind for name, kind in all_kinds().items() if name != USUAL and kind.prints(version))
    return next(others, all_kinds()[USUAL])
