"""What calibration allows a duet to say of processor time: read by who plans, written by `calibrate`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from noisefloor import paths

SIZE, WORD, NOTHING = "size", "word", ""


@dataclass(frozen=True)
class Duet:
    """`says`: "size" (word and size), "word" (the size is told as under contention) or "" (a duet is
    not offered); `shrinks`: the share of an effect by which it may understate, 0 where it overstates;
    `threads`: of an arm, where that was found; `source`: the campaign."""

    says: str = NOTHING
    shrinks: float = 0.0
    threads: int = 4
    source: str = ""


def duet() -> Duet:
    """What `noisefloor calibrate --live` found on this machine, else in the recorded campaign."""
    found = json.loads(paths.known("duet").read_text(encoding="utf-8"))
    return Duet(**{k: v for k, v in found.items() if k in Duet.__dataclass_fields__})


def write(found: Duet, file: Path) -> Path:
    """Write what `duet` reads."""
    file.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    return file
