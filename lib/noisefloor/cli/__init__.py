"""The command line: parses and calls, nothing else. Imports stay inside the commands."""

from noisefloor.cli import database, logs, measuring, pages
from noisefloor.cli.base import main

__all__ = ["database", "logs", "main", "measuring", "pages"]
