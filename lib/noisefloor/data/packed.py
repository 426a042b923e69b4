"""A packed campaign, read in place: one zip beside its campaign.json. `inside` is the door to its files,
and to those of a folder; nothing is unpacked to disk, and a zip that could do harm is not opened."""

import errno
import fnmatch
import functools
import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

BESIDE = ("campaign.json", "SHA256SUMS")  # the zip, where everybody can read them
MOST_BYTES = 2 * 2**30  # that come out of one campaign
MOST_RATIO, LEAST_LIMIT = 200, 2**28  # how much that may be of a zip's own size
# RuntimeError: a zip with a password, or packed by a method that is not known
WRONG = (OSError, ValueError, EOFError, RuntimeError, struct.error, zlib.error, zipfile.BadZipFile)


class Damaged(Exception):
    """Raw data that are not what was written: a file is missing, edited or unreadable."""


class Member:
    """A file or folder in a packed campaign: what is asked of a Path, where it can be answered."""

    __slots__ = ("at", "name", "zip")

    def __init__(self, everything: "_Zip", at: str = ""):
        self.zip, self.at, self.name = everything, at, at.rpartition("/")[2]

    def __truediv__(self, name: str) -> "Member":
        return Member(self.zip, f"{self.at}/{name}" if self.at else name)

    def __lt__(self, other: "Member") -> bool:
        return self.at.split("/") < other.at.split("/")

    def __str__(self) -> str:
        return f"{self.zip.path.name}/{self.at}"

    def exists(self) -> bool:
        return self.at in self.zip.files or self.is_dir()

    def is_dir(self) -> bool:
        return self.at in self.zip.folders

    def is_symlink(self) -> bool:
        return False

    def iterdir(self) -> Iterator["Member"]:
        return (self / name for name in self.zip.folders.get(self.at, ()))

    def glob(self, pattern: str) -> Iterator["Member"]:
        """What is called so in this folder itself."""
        return (m for m in self.iterdir() if fnmatch.fnmatchcase(m.name, pattern))

    def read_bytes(self) -> bytes:
        if (entry := self.zip.files.get(self.at)) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        try:
            with self.zip.open(entry) as file:
                return file.read(entry.file_size + 1)  # never more than it says; its CRC is checked
        except WRONG as e:
            raise OSError(errno.EIO, f"it is damaged ({e})", str(self)) from None

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return io.TextIOWrapper(io.BytesIO(self.read_bytes()), encoding, errors).read()


Place = Path | Member


class _Zip(zipfile.ZipFile):
    """The zip of a campaign: its files, and its folders with the names in each. Raises Damaged."""

    def __init__(self, path: Path):
        self.path, self.files = path, {}
        self.folders: dict[str, dict[str, None]] = {"": {}}
        try:
            super().__init__(path)
        except WRONG as e:
            raise Damaged(f"{path.name} cannot be read ({e})") from None
        if why := self._filled(path.stat().st_size):
            self.close()
            raise Damaged(f"{path.name} {why}; it was not opened")

    def _filled(self, own: int) -> str:
        """Find the files and folders; what keeps it from being opened, or nothing."""
        total = sum(entry.file_size for entry in self.infolist())
        if total > min(MOST_BYTES, max(LEAST_LIMIT, MOST_RATIO * own)):
            return f"would unpack {own:,} bytes to {total:,}, more than a campaign can hold"
        for entry in self.infolist():
            name = entry.filename.removesuffix("/")
            if wrong := self._wrong(entry, name):
                return f"holds {name!r}, {wrong}"
            if entry.is_dir():
                self.folders.setdefault(name, {})
            else:
                self.files[name] = entry
            while name:
                folder, _, last = name.rpartition("/")
                self.folders.setdefault(folder, {})[last] = None
                name = folder
        return ""

    def _wrong(self, entry: zipfile.ZipInfo, name: str) -> str:
        if "\\" in name or {"", ".", ".."} & set(name.split("/")):
            return "a name that would leave the folder"
        if name in self.files:
            return "twice"
        if entry.flag_bits & 1:
            return "which has a password"
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            return "which is not deflated"
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            return "which is a link or a device"
        return ""


@functools.lru_cache(maxsize=4)
def _opened(path: Path, *_changed) -> Member:
    return Member(_Zip(path))


def archive(campaign: Path) -> Path | None:
    """The zip of a packed campaign. Raises Damaged for several."""
    found = sorted(campaign.glob("*.zip"))
    if len(found) > 1:
        raise Damaged(f"{campaign.name} holds {len(found)} zips; a packed campaign has one")
    return found[0] if found else None


def inside(campaign: Path) -> Place:
    """What holds a campaign's runs: its folder, or its zip where it is packed. Raises Damaged."""
    if (path := archive(campaign)) is None:
        return campaign
    s = path.lstat()
    if not stat.S_ISREG(s.st_mode):
        raise Damaged(f"{path.name} is no regular file; it was not opened")
    # of this process: one that was forked would share the place where it reads
    return _opened(path, s.st_ino, s.st_size, s.st_mtime_ns, os.getpid())


def files(campaign: Path) -> dict[str, Place]:
    """Name -> file of all files of a folder in the order of their names, those of its zip in the
    place of the zip; without halves (``*.partial``). Raises Damaged."""
    own = archive(campaign)
    loose = (f for f in campaign.rglob("*") if f.is_file() and f != own)
    found: dict[str, Place] = {str(f.relative_to(campaign)): f for f in loose}
    if own:
        place = inside(campaign)
        found |= {name: place / name for name in place.zip.files}
    whole = (name for name in found if ".partial/" not in f"{name}/")
    return {name: found[name] for name in sorted(whole, key=lambda n: n.split("/"))}


def beside(campaign: Path) -> list[str]:
    """Names of what lies loose in the folder of a packed campaign and belongs into its zip."""
    if (own := archive(campaign)) is None:
        return []
    loose = (p.name for p in campaign.iterdir() if p != own and p.suffix != ".md")
    return sorted(name for name in loose if name not in BESIDE)


def empty(campaign: Path) -> list[str]:
    """Names of the folders of a campaign that hold nothing. Raises Damaged."""
    place = inside(campaign)
    if place is not campaign:
        return sorted(name for name, held in place.zip.folders.items() if name and not held)
    folders = (p for p in campaign.rglob("*") if p.is_dir() and not any(p.iterdir()))
    return sorted(str(p.relative_to(campaign)) for p in folders)
