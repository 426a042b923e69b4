"""Packs a finished campaign as one solid tar.xz beside its campaign.json, ready to be committed;
and unpacks it."""

import io
import lzma
import shutil
import tarfile
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from noisefloor import paths
from noisefloor.data import packed, tidy
from noisefloor.text import Refusal

# 16 MiB hold a whole campaign; with the 64 of this preset, packing takes 670 MiB of memory
_SMALLEST = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 2**24}


def _refused(why: str, code: int = 2) -> Refusal:
    """Why a campaign is not packed, as an error."""
    return Refusal(f"{why}; nothing was packed", code)


def pack(campaign: Path, out: Path | str | None = None) -> tuple[Path, int, int]:
    """Pack a finished campaign into the folder `out` (``data/raw/recorded/<its name>``), whole or
    not at all; the campaign stays where it is. Returns (that folder, files in the archive, their
    bytes before compression). Raises Refusal, Damaged."""
    out = Path(out or paths.recorded() / campaign.name).absolute()
    files = _whole(campaign)
    names = [name for name in files if name not in packed.BESIDE]
    digest, size = tidy.digest(campaign), sum(len(files[name].read_bytes()) for name in names)
    if out.exists() and any(out.iterdir()):
        if not packed.archive(out) or tidy.digest(out) != digest:
            raise _refused(
                f"{paths.relative(out)} is there already and does not hold the same, packed"
            )
        return out, len(names), size
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)

    contents = ((name, files[name].read_bytes()) for name in names)
    folders = ((f"{name}/", b"") for name in packed.empty(campaign))
    try:
        partial.mkdir(parents=True)
        write(partial / f"{campaign.name}.tar.xz", chain(contents, folders))
        for name in reversed(packed.BESIDE):  # campaign.json last: it makes a folder a campaign
            if name in files:
                (partial / name).write_bytes(files[name].read_bytes())
        if tidy.digest(partial) != digest:
            raise _refused(f"{campaign.name} was changed meanwhile", 1)
        partial.replace(out)
    except OSError as e:
        raise _refused(f"{paths.relative(out)} cannot be written ({e.strerror or e})", 1) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return out, len(names), size


def _whole(campaign: Path) -> dict[str, packed.Place]:
    """Name -> file of a finished campaign. Raises Refusal, Damaged if it changed since its end."""
    if not tidy.meta(campaign).get("finished", True):
        raise _refused(f"{campaign.name} has not ended")
    if link := next((p for p in campaign.rglob("*") if p.is_symlink()), None):
        raise _refused(f"{link.relative_to(campaign)} is a link to somewhere else", 1)
    if problems := tidy.broken(campaign):
        raise _refused(f"{problems[0]} ({len(problems)} of {campaign.name} in all)", 1)
    for run in tidy.run_folders(campaign):
        tidy.read(run)
    return packed.files(campaign)


def write(file: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Write a tar.xz of (name, content); a folder's name ends in /. Equal contents, equal bytes."""
    # files of one name side by side: the archive is 5 % smaller than run by run
    ordered = sorted(contents, key=lambda c: (c[0].rpartition("/")[2], c[0].split("/")))
    with (
        lzma.open(file, "wb", filters=[_SMALLEST]) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, content in ordered:
            entry = tarfile.TarInfo(name)  # without time and owner
            entry.size = len(content)
            if name.endswith("/"):
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry, io.BytesIO(content))


def unpack(campaign: Path, out: Path) -> Path:
    """Write a copy of a campaign, packed or not, as a folder of its files; returns `out`. Raises
    Damaged."""
    for name in packed.empty(campaign):
        (out / name).mkdir(parents=True)
    for name, file in packed.files(campaign).items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            content = file.read_bytes()
        except OSError as e:
            raise packed.Damaged(f"{campaign.name}/{name} cannot be read ({e.strerror})") from None
        (out / name).write_bytes(content)
    return out
