"""What notebooks show of campaigns. campaign: `Results`; page: which share a page (`load`);
rows: which verdicts lead or answer; frames: data of runs; tables: what is computed from both."""
# ruff: noqa: F403

from noisefloor.data.results.campaign import *
from noisefloor.data.results.frames import *
from noisefloor.data.results.page import *
from noisefloor.data.results.rows import *
from noisefloor.data.results.tables import *
