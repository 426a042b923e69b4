"""What notebooks show of campaigns: the opened campaigns of a page (`load`), their verdicts and
runs (`Results`), and functions that make frames and rows of them.

campaign: Results; page: which campaigns are on one page; rows: which verdicts lead or answer;
frames: data of the runs; tables: what is computed from both."""
# ruff: noqa: F403

from noisefloor.data.results.campaign import *
from noisefloor.data.results.frames import *
from noisefloor.data.results.page import *
from noisefloor.data.results.rows import *
from noisefloor.data.results.tables import *
