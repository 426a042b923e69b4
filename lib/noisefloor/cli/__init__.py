"""The command line: parses and calls, nothing else. Imports stay inside the commands."""
# ruff: noqa: F401

from noisefloor.cli import ci, logs, measuring, pages, timing
from noisefloor.cli.base import main
