"""The files of a tree, and the texts in them: plain, compressed (gzip, bzip2, xz, zstd) or in an
archive (tar, zip).

The first bytes of a file say what it is, never its name. Nothing is written to disk, links and
devices are not followed, in a tree or in an archive, and the unpacked size is limited.
"""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

from noisefloor import parse, tools
from noisefloor.data.packed import LEAST_LIMIT, MOST_RATIO, WRONG
from noisefloor.parse.base import MOST, safe_line

HEAD = 512  # bytes that say what a file is
OPENED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # for files of others
LINKED = "campaign with a link or device"
_LEFT_OUT = (".git", ".hg", ".svn")
_MOST_DEPTH = 3  # an archive in a compressed file in an archive
_PIECE, _MOST_HEADER = 2**18, 2**20  # bytes to read at once, and of a tar's header at most
_DAMAGED = (  # what reading a damaged, cut or encrypted file raises
    *(*WRONG, zlib.error, zipfile.BadZipFile, struct.error),
    *(RuntimeError, NotImplementedError),  # a password; a kind of compression that Python lacks
)
_MODES = {stat.S_IFREG: "file", stat.S_IFLNK: "symbolic link"}
_KINDS = {
    b"\x89PNG": "picture",
    b"\xff\xd8\xff": "picture",
    b"GIF8": "picture",
    b"%PDF": "PDF",
    b"PAR1": "Parquet",
    b"SQLite format 3": "SQLite",
    b"\x7fELF": "program",
    **{bytes([0x80, n]): "pickle" for n in range(2, 6)},
}
Unit = tuple[str, int, int, str]  # of a tree: path below it, bytes, mtime in ns, what it is
_Text = tuple[str, bytes | Exception | None]  # name, content


def walk(root: Path, out: Path) -> Iterator[Unit]:
    """The Units of a tree, without `out`, sorted by name within a folder. What a unit is: "file",
    "campaign" (a whole folder of ours), or words for what is not read. A `root` that is a file is a
    tree of one."""
    if root.is_file():
        status = root.stat()
        yield root.name, status.st_size, status.st_mtime_ns, "file"
        return
    top = len(str(root)) + (str(root) != "/")
    unread: list[str] = []
    for folder, below, names in os.walk(root, onerror=lambda e: unread.append(e.filename)):
        if "campaign.json" in names and _ours(folder):
            below.clear()
            yield (folder[top:] or ".", *_whole(folder))
            continue
        links = [name for name in below if os.path.islink(os.path.join(folder, name))]
        kept = {*below} - {*_LEFT_OUT, *links}
        below[:] = sorted(n for n in kept if os.path.join(folder, n) != str(out))
        for path in (os.path.join(folder, name) for name in sorted([*links, *names])):
            with contextlib.suppress(OSError):  # gone since
                status = os.lstat(path)
                what = _MODES.get(stat.S_IFMT(status.st_mode), "no regular file")
                size = status.st_size if what == "file" else 0
                yield path[top:], size, status.st_mtime_ns, what
    yield from ((folder[top:], 0, 0, "unreadable folder") for folder in unread)


def _ours(folder: str) -> bool:
    """Whether a folder's campaign.json is a regular file and one of ours."""
    try:
        with open(os.open(os.path.join(folder, "campaign.json"), OPENED), "rb") as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            facts = json.loads(file.read(MOST) if regular else b"")
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and {"format", "study", "arms", "workloads"} <= facts.keys()


def _whole(folder: str) -> tuple[int, int, str]:
    """(bytes, newest mtime in ns, what it is as in `walk`) of all files below a campaign's folder.
    One that holds a link or a device is not read."""
    size, newest, what = 0, 0, "campaign"
    for parent, below, names in os.walk(folder):
        for path in (parent, *(os.path.join(parent, name) for name in (*below, *names))):
            with contextlib.suppress(OSError):  # gone since, or renamed: a run that became whole
                status = os.lstat(path)
                if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
                    what = LINKED
                size += status.st_size * stat.S_ISREG(status.st_mode)
                newest = max(newest, status.st_mtime_ns)
    return size, newest, what


def safe(name: str) -> str:
    """A path from a tree or an archive, fit to be shown: no secrets, nothing unprintable."""
    return safe_line(name.encode(errors="surrogateescape").decode(errors="replace"))


def kind(data: bytes) -> str:
    """In words what a file without a result is, by its content."""
    if name := next((name for magic, name in _KINDS.items() if data.startswith(magic)), None):
        return name
    if not data.strip():
        return "empty"
    if binary(data[:HEAD]):
        return "binary data"
    if tool := tools.unsupported(data):
        return f"{tool} output"
    head = data[:4096].lstrip()
    if head[:1] in b"{[" and data.rstrip()[-1:] in b"}]":
        return "notebook" if b'"cells"' in data and b'"nbformat"' in data else "JSON"
    if head[:5].lower() in (b"<html", b"<!doc", b"<svg ", b"<?xml"):
        return "page or picture (XML)"
    return "other text"


# -- the texts in a file ----------------------------------------------------------------------


class TooMuch(ValueError):
    """More comes out of a file than is allowed. One sentence."""


def _zstd(stream: IO[bytes]) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")


_PACKED: dict[bytes, Callable[[Any], Any]] = {  # first bytes -> what unpacks a stream
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _zstd,
}


def packed(head: bytes) -> bool:
    """Whether a file with these first bytes holds other files, or a compressed one."""
    return head.startswith((*_PACKED, b"PK\3\4")) or head[257:262] == b"ustar"


def binary(head: bytes) -> bool:
    """Whether a file's first bytes are no text. UTF-16 with a byte order mark is text."""
    return b"\0" in head and head[:2] not in (b"\xff\xfe", b"\xfe\xff")


def texts(stream: io.BufferedReader, name: str, size: int) -> Iterator[_Text]:
    """(name, content) of each file in an open one of `size` bytes; members of an archive are named
    ``archive//member``.

    The content of a binary file is its first bytes only; that of an unreadable one an exception of
    `_DAMAGED`; that of a link or a device None."""
    return _member(stream, name, [max(LEAST_LIMIT, MOST_RATIO * size)], 0)


def _member(stream: Any, name: str, left: list[int], depth: int) -> Iterator[_Text]:
    """As `texts`, for a file inside `depth` others: those are read on after damage, but not after
    TooMuch. left: how many bytes may still come out."""
    try:
        yield from _texts(stream, name, left, depth)
    except _DAMAGED as e:
        if depth and isinstance(e, TooMuch):
            raise
        yield name, e


def _texts(stream: Any, name: str, left: list[int], depth: int) -> Iterator[_Text]:
    head = stream.peek(HEAD)[:HEAD]
    if not packed(head):
        pieces = iter(partial(stream.read, _PIECE), b"")  # 64 MiB at once would take their time
        data = head if binary(head) else b"".join(islice(pieces, MOST // _PIECE + 1))
        most = f"larger than {MOST >> 20} MiB, the most that is read of one text"
        yield name, data if len(data) <= MOST else TooMuch(most)
    elif depth >= _MOST_DEPTH:
        yield name, TooMuch(f"packed more than {_MOST_DEPTH} times; not opened")
    elif head[257:262] == b"ustar":
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as tar:
            while (entry := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # it would keep them all
                inside = f"{name}//{entry.name}"
                if entry.isreg():
                    yield from _member(tar.extractfile(entry), inside, left, depth + 1)
                elif not entry.isdir():
                    yield inside, None
    elif head.startswith(b"PK\3\4"):
        data = stream.read(MOST + 1)
        if len(data) > MOST:
            raise TooMuch(f"a zip file larger than {MOST >> 20} MiB; not opened")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist():
                if not member.is_dir():
                    with archive.open(member) as file:
                        inside = f"{name}//{member.filename}"
                        yield from _member(_counted(file, left), inside, left, depth + 1)
    else:
        unpack = next(unpack for magic, unpack in _PACKED.items() if head.startswith(magic))
        yield from _texts(_counted(unpack(stream), left), name, left, depth + 1)


def printed(file: Path, name: str, run: str, line: int) -> str:
    """The text of a `run` that was ingested from `file` as `name`, without its secrets; in a log of
    several runs it begins at `line`. A sentence if the text is not there any more."""
    try:
        with open(file, "rb") as opened:
            for inside, data in texts(opened, name, file.stat().st_size):
                if isinstance(data, bytes) and run in (safe(inside), f"{safe(inside)}:{line}"):
                    return parse.scrub(_piece(data, line))[0]
    except OSError as e:
        return f"It cannot be read: {e.strerror}."
    return "The file is there, but not this run: it changed since it was ingested."


def _piece(data: bytes, line: int) -> str:
    """The text of the run that begins at a line; the whole text where it cannot be divided."""
    tool = tools.tool_of(data)
    with contextlib.suppress(parse.ParseError):
        piece = dict(tool.split_runs(data)).get(line) if tool else None
        if isinstance(piece, str):
            return piece
    return data.decode(errors="replace")


class _Header(tarfile.TarInfo):
    """A header that cannot ask for endless memory."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size > _MOST_HEADER and not (self.isreg() or self.issparse()):
            raise tarfile.ReadError("a header that is larger than headers are")
        return super()._proc_member(archive)  # type: ignore[misc]


class _Counted(io.RawIOBase):
    """An unpacking stream that raises TooMuch when more comes out than is allowed."""

    def __init__(self, stream: IO[bytes], left: list[int]):
        self.stream, self.left = stream, left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.stream.read(len(buffer))
        self.left[0] -= len(data)
        if self.left[0] < 0:
            raise TooMuch("more comes out of it than a packed result can hold; not read further")
        buffer[: len(data)] = data
        return len(data)


def _counted(stream: IO[bytes], left: list[int]) -> io.BufferedReader:
    """A reader of a `_Counted`, in pieces of tarfile's size: what comes before damage is not lost
    in a buffer."""
    return io.BufferedReader(_Counted(stream, left), tarfile.RECORDSIZE)
