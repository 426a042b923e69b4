"""``make bench``: how fast it is, measured in one go and written into BENCHMARKS.md.

    python tests/bench/bench.py                 everything, within half an hour
    python tests/bench/bench.py start harness   some items, printed only
    python tests/bench/bench.py --quick         two rounds of everything, printed only

Every figure is a ratio within one round, in which what is compared takes turns; the table shows
the median of at least five rounds.
"""

import argparse
import importlib
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime

from bench_rounds import Item, say
from noisefloor import paths
from noisefloor.servers import doctor

ITEMS = {  # name: (heading, module, function)
    "ingest": ("Ingest", "bench_ingest", "ingest"),
    "reports": ("Reports", "bench_pages", "reports"),
    "start": ("Command start", "bench_answers", "start"),
    "harness": ("Harness", "bench_servers", "harness"),
    "verdict": ("Machine time to a verdict", "bench_servers", "verdict"),
    "rate": ("At a rate", "bench_rate", "at_rate"),
    "scale": ("Scale", "bench_ingest", "scale"),
}
TARGET = paths.root() / "BENCHMARKS.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("items", nargs="*", metavar="ITEM", help=f"of {', '.join(ITEMS)} [all]")
    parser.add_argument("--quick", action="store_true", help="two rounds, nothing is written")
    asked = parser.parse_args()
    if unknown := set(asked.items) - set(ITEMS):
        parser.error(f"{', '.join(sorted(unknown))}: known are {', '.join(ITEMS)}")
    began, found = time.monotonic(), {}
    for name in asked.items or ITEMS:
        start = time.monotonic()
        say(f"{name}: begins")
        try:
            _, module, function = ITEMS[name]
            found[name] = getattr(importlib.import_module(module), function)(asked.quick)
        except Exception as e:  # one item that fails must not cost the others
            say(f"{name}: {type(e).__name__}: {e}")
            found[name] = Item(text=f"Not measured: {type(e).__name__}: {str(e)[:300]}")
        say(f"{name}: {time.monotonic() - start:.0f} s")
    text = page(found, time.monotonic() - began)
    if asked.items or asked.quick:
        print(text)
    else:
        TARGET.write_text(text)
        say(f"written: {TARGET.name}")
    if any(item.text.startswith("Not measured") for item in found.values()):
        sys.exit(1)


def page(found: dict[str, Item], took: float) -> str:
    """The text of BENCHMARKS.md."""
    lines = [
        "# Benchmarks",
        "",
        f"`make bench` on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {took / 60:.0f} minutes. {machine()}",
        "",
        "Every figure is a ratio within one round, in which both sides take turns; median of the "
        "rounds, and their range. Load average of other work on the machine at the end: "
        f"{os.getloadavg()[2]:.1f} (15 minutes).",
        "",
        "| | Figure | Ratio | Range | Rounds | Goal | Met |",
        "|---|---|---:|---:|---:|---|---|",
    ]
    for name, item in found.items():
        for f in item.figures:
            low, high = min(f.ratios), max(f.ratios)
            met = {None: "–", True: "yes", False: "**no**"}[f.met]
            lines.append(
                f"| {ITEMS[name][0]} | {f.what} | {f.median:.3g} | {low:.3g} to {high:.3g} "
                f"| {len(f.ratios)} | {f.goal} | {met} |"
            )
    for name, item in found.items():
        says = [f"- {f.what}: {f.says}" for f in item.figures if f.says]
        lines += ["", f"## {ITEMS[name][0]}", "", *says]
        if item.text:
            lines += ["", item.text.strip()]
    return "\n".join(lines).rstrip() + "\n"


def machine() -> str:
    """The machine and the versions in a sentence or two."""
    host, tools = doctor.host_facts(), doctor.tools()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit = subprocess.run(
        ["git", "-C", paths.root(), "describe", "--always", "--dirty"],
        capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    return (
        f"{host.get('cpu') or platform.processor()}, {os.cpu_count()} cores, {memory:.0f} GB, Linux "
        f"{platform.release().split('-')[0]}; Python {platform.python_version()}, sysbench "
        f"{tools.get('sysbench') or 'none'}, commit {commit or 'unknown'}."
    )


if __name__ == "__main__":
    main()
