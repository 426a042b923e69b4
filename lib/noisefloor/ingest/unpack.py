"""A file -> the texts in it: plain, compressed (gzip, bzip2, xz, zstd) or an archive (tar, zip).

By its first bytes, never by its name. Nothing is written to disk, links and devices in an archive
are not followed, and how much may come out of a file is limited.
"""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator

MOST_BYTES = 64 * 2**20  # of one text: a sysbench log of a day with a row a second has 13 MB
MOST_RATIO, LEAST_LIMIT = 200, 2**28  # how much may come out of a packed file
MOST_DEPTH = 3  # an archive in a compressed file in an archive
HEAD = 512
MOST_HEADER = 2**20
DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,  # a zip with a password
    NotImplementedError,  # a zip with a method of its own
    struct.error,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
)


class TooMuch(ValueError):
    """More comes out of a file than is let out. One sentence."""


def _zstd(stream):
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")


_PACKED = {
    b"\x1f\x8b": lambda s: gzip.GzipFile(fileobj=s),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _zstd,
}


def packed(head: bytes) -> bool:
    """True when a file with these first bytes holds other files, or a compressed one."""
    return head.startswith((*_PACKED, b"PK\3\4")) or head[257:262] == b"ustar"


def binary(head: bytes) -> bool:
    """True when the first bytes of a file are no text (UTF-16 with a mark is one)."""
    return b"\0" in head and head[:2] not in (b"\xff\xfe", b"\xfe\xff")


def texts(stream, name: str, size: int) -> Iterator[tuple[str, bytes | Exception | None]]:
    """(name, content) of each file in an open one of `size` bytes; members of an archive are named
    ``archive//member``.

    The content is its first bytes only where these are binary; an exception of `DAMAGED` for one
    that cannot be read; None for what is no file (a link, a device)."""
    limit = [max(LEAST_LIMIT, MOST_RATIO * size)]
    try:
        yield from _texts(stream, name, limit, 0)
    except DAMAGED as e:
        yield name, e


def _texts(stream, name, left, depth):
    head = stream.read(HEAD)
    if not packed(head):
        yield name, _whole(head, stream)
        return
    if depth >= MOST_DEPTH:
        yield name, TooMuch(f"packed more than {MOST_DEPTH} times; not opened")
        return
    joined = _Joined(head, stream)
    if head[257:262] == b"ustar":
        yield from _tar(joined, name, left, depth)
    elif head.startswith(b"PK\3\4"):
        yield from _zip(joined, name, left, depth)
    else:
        opened = next(o for magic, o in _PACKED.items() if head.startswith(magic))
        yield from _texts(_Counted(opened(joined), left), name, left, depth + 1)


class _Header(tarfile.TarInfo):
    """A header that cannot ask for endless memory."""

    def _proc_member(self, archive):
        if self.size > MOST_HEADER and not (self.isreg() or self.issparse()):
            raise tarfile.ReadError("a header that is larger than headers are")
        return super()._proc_member(archive)


def _tar(stream, name, left, depth):
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive:
        while (member := archive.next()) is not None:
            archive.members.clear()  # it would keep them all
            inside = f"{name}//{member.name}"
            if member.isreg():
                yield from _member(archive.extractfile(member), inside, left, depth)
            elif not member.isdir():
                yield inside, None


def _zip(stream, name, left, depth):
    data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise TooMuch(f"a zip file larger than {MOST_BYTES >> 20} MiB; not opened")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                with archive.open(member) as one:
                    inside = f"{name}//{member.filename}"
                    yield from _member(_Counted(one, left), inside, left, depth)


def _member(stream, name, left, depth):
    """One file of an archive: a damaged one does not end the archive, too much of it does."""
    try:
        yield from _texts(stream, name, left, depth + 1)
    except TooMuch:
        raise
    except DAMAGED as e:
        yield name, e


def _whole(head: bytes, stream) -> bytes | TooMuch:
    if binary(head):
        return head
    data = head + stream.read(MOST_BYTES + 1 - len(head))
    if len(data) > MOST_BYTES:
        return TooMuch(f"larger than {MOST_BYTES >> 20} MiB, the most that is read of one text")
    return data


class _Joined:
    """A stream and its first bytes, which were looked at."""

    def __init__(self, head: bytes, stream):
        self.head, self.stream, self.closed = head, stream, False

    def read(self, n: int = -1) -> bytes:
        if not self.head:
            return self.stream.read(n)
        first = self.head if n is None or n < 0 else self.head[:n]
        self.head = self.head[len(first) :]
        more = -1 if n is None or n < 0 else n - len(first)
        return first + self.stream.read(more) if more else first


class _Counted:
    """An unpacking stream that ends with TooMuch when more came out than may."""

    def __init__(self, stream, left: list[int]):
        self.stream, self.left = stream, left

    def read(self, n: int = -1) -> bytes:
        if n is None or n < 0:
            n = MOST_BYTES + 1
        parts, here = [], 0
        while here < n and (more := self.stream.read(n - here)):
            parts.append(more)
            here += len(more)
        self.left[0] -= here
        if self.left[0] < 0:
            raise TooMuch("more comes out of it than a packed result can hold; not read further")
        return b"".join(parts)
