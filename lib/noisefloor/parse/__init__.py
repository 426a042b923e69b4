"""Text of measuring tools to dicts: sysbench, ``time``, histograms. Pure: no disk, no servers.

Every function takes the text (or the bytes) that a tool printed and returns numbers in base units
(s, B, 1/s), or raises ParseError with the line, its text and the reason. Nothing is guessed:
damaged text gives no number.
"""
# ruff: noqa: F401

from noisefloor.parse.base import ParseError
from noisefloor.parse.rows import CLIP_S, RESOLUTION, quantile
from noisefloor.parse.secrets import HIDDEN, scrub
from noisefloor.parse.sysbench_text import split_runs, sysbench
from noisefloor.parse.time_text import time
from noisefloor.parse.together import histogram, together
