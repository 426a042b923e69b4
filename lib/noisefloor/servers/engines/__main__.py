"""What ``make setup`` calls: fetch the build that the studies need, and say which one it is."""

import sys

from noisefloor.servers.engines import EngineMissing, find, label
from noisefloor.servers.engines.build import say

try:
    engine = find()
except EngineMissing as error:
    say(str(error))
    sys.exit(1)
say(engine.note or f"{label(engine)} is ready")
