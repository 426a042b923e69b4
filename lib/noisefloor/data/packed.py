"""A packed campaign: one solid tar.xz beside its campaign.json. `runs_folder` opens its runs, and
`files` all of its files, packed or not. The archive is read once, into memory; nothing is unpacked
to disk, and a harmful archive is not opened."""

import errno
import fnmatch
import io
import lzma
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

BESIDE = ("campaign.json", "SHA256SUMS")  # files that stay outside of the archive, to be read
_KIND = ".tar.xz"
MOST_BYTES = 2 * 2**30  # that may come out of one archive
MOST_RATIO, LEAST_LIMIT = 200, 2**28  # the same: times its own size, but at least these bytes
MOST_KEPT = 2**28  # bytes of opened archives that a process keeps in memory
_MOST_NAME, _MOST_DEEP = 2**10, 8  # bytes of a name, and folders in it
_PIECE, _MOST_DICTIONARY = 2**20, 2**27  # bytes to decompress at once; memory of the decompressor
WRONG = (OSError, ValueError, EOFError, lzma.LZMAError, tarfile.TarError)


class Damaged(Exception):
    """Raw data that are not what was written: a file is missing, edited or unreadable."""


class _Member:
    """A file or folder in a packed campaign, with the methods of a Path that readers need."""

    __slots__ = ("archive", "at", "name")

    def __init__(self, archive: "_Archive", at: str = ""):
        self.archive, self.at, self.name = archive, at, at.rpartition("/")[2]

    def __truediv__(self, name: str) -> "_Member":
        return _Member(self.archive, f"{self.at}/{name}" if self.at else name)

    def __lt__(self, other: "_Member") -> bool:
        return self.at.split("/") < other.at.split("/")

    def __str__(self) -> str:
        return f"{self.archive.path.name}/{self.at}"

    def exists(self) -> bool:
        return self.at in self.archive.files or self.is_dir()

    def is_dir(self) -> bool:
        return self.at in self.archive.folders

    def is_symlink(self) -> bool:
        return False

    def iterdir(self) -> Iterator["_Member"]:
        return (self / name for name in self.archive.folders.get(self.at, ()))

    def glob(self, pattern: str) -> Iterator["_Member"]:
        """The matching names in this folder, not below it."""
        return (m for m in self.iterdir() if fnmatch.fnmatchcase(m.name, pattern))

    def read_bytes(self) -> bytes:
        content = self.archive.files.get(self.at)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return bytes(content)

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return io.TextIOWrapper(io.BytesIO(self.read_bytes()), encoding, errors).read()


Place = Path | _Member


class _Archive:
    """The archive of a campaign: its files, and its folders with the names in each. Raises
    Damaged."""

    def __init__(self, path: Path):
        self.path = path
        self.files: dict[str, memoryview] = {}
        self.folders: dict[str, dict[str, None]] = {"": {}}
        try:
            limit = min(MOST_BYTES, max(LEAST_LIMIT, MOST_RATIO * path.stat().st_size))
            for name, content in _tar(path, limit):
                self._add(name, content)
        except Damaged as e:
            raise Damaged(f"{path.name} {e}; it was not opened") from None
        except WRONG as e:
            raise Damaged(f"{path.name} cannot be read ({e}); it was not opened") from None
        self.size = sum(2**10 + len(content) for content in self.files.values())  # with headers

    def _add(self, entry: str, content: memoryview) -> None:
        """Add a file; or a folder: its name ends in /."""
        name = entry.removesuffix("/")
        parts = name.split("/")
        if "\\" in name or {"", ".", ".."} & set(parts):
            raise Damaged(f"holds {name!r}, a name that would leave the folder")
        if len(parts) > _MOST_DEEP:
            raise Damaged(f"holds {name!r}, deeper than {_MOST_DEEP} folders")
        if name in self.files or (name == entry and name in self.folders):
            raise Damaged(f"holds {name!r}, twice")
        if name == entry:
            self.files[name] = content
        else:
            self.folders.setdefault(name, {})
        while name:
            folder, _, last = name.rpartition("/")
            if folder in self.files:
                raise Damaged(f"holds {folder!r}, twice")
            self.folders.setdefault(folder, {})[last] = None
            name = folder


def _tar(path: Path, limit: int) -> Iterator[tuple[str, memoryview]]:
    """(name, content) of all that is in a tar.xz. Python's own reader ends at a bad header as if
    the tar ended there, and follows headers that ask for endless memory or time: this one knows
    files, folders and GNU's long names, and nothing else. Raises Damaged, WRONG."""
    data, at, long = memoryview(_decompressed(path, limit)), 0, ""
    while any(block := data[at : at + tarfile.BLOCKSIZE]):
        head = tarfile.TarInfo.frombuf(bytes(block), "utf-8", "strict")
        name, start = long or head.name, at + tarfile.BLOCKSIZE
        at = start + -(-head.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        if at > len(data) or head.size < 0:
            raise Damaged("ends in the middle of a file")
        content, long = data[start : start + head.size], ""
        if head.type == tarfile.GNUTYPE_LONGNAME and head.size <= _MOST_NAME:
            long = bytes(content).rstrip(b"\0").decode()
        elif head.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
            yield name, content
        elif head.type == tarfile.DIRTYPE:
            yield f"{name.removesuffix('/')}/", content
        else:
            raise Damaged(f"holds {name!r}, which is no file and no folder")
    if len(data) - at < 2 * tarfile.BLOCKSIZE:
        raise Damaged("ends before its tar does")
    if len(data) - at > 2 * tarfile.RECORDSIZE or any(data[at:]):
        raise Damaged("holds something behind the end of its tar")


def _decompressed(path: Path, limit: int) -> bytearray:
    """What is in an xz file of one stream, never more than `limit`. Raises Damaged, WRONG."""
    data, stream = bytearray(), lzma.LZMADecompressor(lzma.FORMAT_XZ, _MOST_DICTIONARY)
    with path.open("rb") as file:
        while not stream.eof:
            piece = file.read(_PIECE) if stream.needs_input else b""
            if stream.needs_input and not piece:
                raise Damaged("is cut short")
            data += stream.decompress(piece, _PIECE)
            if len(data) > limit:
                raise Damaged(f"holds more than {limit:,} bytes, more than a campaign can hold")
        if stream.unused_data or file.read(1):
            raise Damaged("holds something behind its end")
    return data


_kept: dict[tuple[object, ...], _Member] = {}  # the last one is the one used last


def _opened(path: Path, *changed: int) -> _Member:
    """A whole archive; it is read again only if it changed, or if many others were read since."""
    key = (path, *changed)
    _kept[key] = place = _kept.pop(key, None) or _Member(_Archive(path))
    for old in list(_kept)[:-1]:
        if sum(member.archive.size for member in list(_kept.values())) > MOST_KEPT:
            _kept.pop(old, None)
    return place


def archive(campaign: Path) -> Path | None:
    """The archive of a packed campaign, None for one that is not packed. Raises Damaged for
    several."""
    archives = sorted(p for p in campaign.glob("*") if p.name.endswith(_KIND))
    if len(archives) > 1:
        raise Damaged(f"{campaign.name} holds {len(archives)} archives; a packed campaign has one")
    return archives[0] if archives else None


def runs_folder(campaign: Path) -> Place:
    """The folder that holds a campaign's runs: its own, or that in its archive. Raises Damaged."""
    if (path := archive(campaign)) is None:
        return campaign
    now = path.lstat()
    if not stat.S_ISREG(now.st_mode):
        raise Damaged(f"{path.name} is no regular file; it was not opened")
    return _opened(path, now.st_ino, now.st_size, now.st_mtime_ns)


def files(campaign: Path) -> dict[str, Place]:
    """Name -> file of all files of a campaign, sorted by name: the archive's members instead of the
    archive, and no unfinished ones (``*.partial``). Raises Damaged."""
    path = archive(campaign)
    loose = (f for f in campaign.rglob("*") if f.is_file() and f != path)
    by_name: dict[str, Place] = {str(f.relative_to(campaign)): f for f in loose}
    if isinstance(place := runs_folder(campaign), _Member):
        by_name |= {name: place / name for name in place.archive.files}
    whole = (name for name in by_name if ".partial/" not in f"{name}/")
    return {name: by_name[name] for name in sorted(whole, key=lambda n: n.split("/"))}


def loose_files(campaign: Path) -> list[str]:
    """Names of files beside the archive of a packed campaign that belong into it, except *.md."""
    if (path := archive(campaign)) is None:
        return []
    loose = (p.name for p in campaign.iterdir() if p != path and p.suffix != ".md")
    return sorted(name for name in loose if name not in BESIDE)


def empty(campaign: Path) -> list[str]:
    """Names of the folders of a campaign that hold nothing. Raises Damaged."""
    place = runs_folder(campaign)
    if isinstance(place, _Member):
        return sorted(name for name, names in place.archive.folders.items() if name and not names)
    folders = (p for p in campaign.rglob("*") if p.is_dir() and not any(p.iterdir()))
    return sorted(str(p.relative_to(campaign)) for p in folders)
