"""The parsers, led by what each input reaches in them: atheris changes real logs byte by byte.

    python tests/faults/fuzz_guided.py FOLDER -runs=1000000        (pip install atheris)

FOLDER keeps the inputs that reached something new; a second call goes on from them. Everything
after it is libFuzzer's. What a parser may do is what ``fuzz.check`` says.
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["noisefloor.parse"]):
    import fuzz

if __name__ == "__main__":
    kept = Path(sys.argv[1])
    if not kept.exists():
        kept.mkdir(parents=True)
        for n, log in enumerate(fuzz.SHORT):
            (kept / f"log-{n}").write_text(log)
    atheris.Setup([sys.argv[0], "-max_len=8192", f"-artifact_prefix={kept}-", *sys.argv[2:], str(kept)], fuzz.check)  # fmt: skip
    atheris.Fuzz()
