"""The command line: parses and calls, nothing else. Imports stay inside the commands."""

from noisefloor.cli import ci, logs, measuring, pages, timing
from noisefloor.cli.base import main

__all__ = ["ci", "logs", "main", "measuring", "pages", "timing"]
