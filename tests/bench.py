"""How long the command takes to answer, beside a bare ``import numpy``: ``make bench``.

The commands take turns, so that a busy minute of the machine slows all of them; what is printed is
the median of each round's ratio to ``import numpy`` in the same round.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

_ROUNDS = 11
_NOISEFLOOR = str(Path(sys.executable).parent / "noisefloor")
COMMANDS = {
    "import numpy": [sys.executable, "-c", "import numpy"],
    "noisefloor --help": [_NOISEFLOOR, "--help"],
    "noisefloor judge": [_NOISEFLOOR, "judge", "221.19", "229.41", "--threads", "4", "--seconds", "300"],
    "noisefloor doctor": [_NOISEFLOOR, "doctor"],
}  # fmt: skip


def seconds(argv: list[str]) -> float:
    """Wall seconds of one call. Raises CalledProcessError when it fails."""
    start = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    rounds = [{name: seconds(argv) for name, argv in COMMANDS.items()} for _ in range(_ROUNDS + 1)]
    print(f"{'command':20} {'median':>8} {'ratio':>6}   ({_ROUNDS} rounds, the first is left out)")
    for name in COMMANDS:
        took = statistics.median(r[name] for r in rounds[1:])
        ratio = statistics.median(r[name] / r["import numpy"] for r in rounds[1:])
        print(f"{name:20} {took * 1000:5.0f} ms {ratio:6.2f}")


if __name__ == "__main__":
    main()
