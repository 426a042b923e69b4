"""The licences of everything in requirements.txt, as the packages themselves state them.

python tests/licences.py          writes docs/licences.md (`make lock` does it, too)
"""

import functools
import re
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "licences.md"
HEAD = """# Licences of what Noisefloor is installed with

Made by `python tests/licences.py` from requirements.txt and the packages' own metadata; a test keeps
it so. Noisefloor itself is Apache-2.0 and holds no copy of any of them.

| Package | Licence |
|---|---|
"""
SHORT = {  # the long names of old metadata
    "BSD License": "BSD",
    "MIT License": "MIT",
    "Apache Software License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "GNU Lesser General Public License v3 or later (LGPLv3+)": "LGPL-3.0-or-later",
}
READ = {"axe-playwright-python": "MIT"}  # of packages that name none, but ship the text


def names() -> list[str]:
    """Packages of requirements.txt, on whatever platform."""
    text = (ROOT / "requirements.txt").read_text()
    return sorted(set(re.findall(r"(?m)^([a-z0-9][\w.-]*)==", text)))


@functools.cache
def licence(name: str) -> str:
    """What a package says of itself; "" for one that is not installed on this platform."""
    try:
        facts = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    if said := facts.get("License-Expression"):
        return said
    classes = [c.split(" :: ") for c in facts.get_all("Classifier", [])]
    classes = [c[-1] for c in classes if c[0] == "License" and c[-1] != "OSI Approved"]
    said = " and ".join(SHORT.get(c, c) for c in classes)
    plain = (facts.get("License") or "").strip().split("\n")[0]
    return said or SHORT.get(plain, plain) or READ.get(name, "not stated")


def table() -> str:
    """The text of docs/licences.md."""
    rows = [(name, licence(name) or "not installed on Linux") for name in names()]
    return HEAD + "".join(f"| {name} | {said} |\n" for name, said in rows)


if __name__ == "__main__":
    TABLE.write_text(table())
