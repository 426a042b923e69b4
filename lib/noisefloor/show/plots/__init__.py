"""Tables to figures: one theme, one colour an arm, everything a reader must know drawn in.

Each figure function takes frames in the shapes of the tidy and verdict tables and returns a
matplotlib Figure that carries `narrow`, the same figure drawn again for a phone. `show` turns it
into one piece of HTML: inline SVG whose colours follow the page (light, dark, print), caption,
alternative text and the data behind it.
"""
# ruff: noqa: F401

from noisefloor.show.plots.canvas import spots
from noisefloor.show.plots.picture import alt, show, svg, write
from noisefloor.show.plots.series import (
    distance,
    pairs,
    pooling,
    quantiles,
    runs,
    stages,
    timeline,
    warmup,
)
from noisefloor.show.plots.style import LAB, PARTS_CSS, colours, order, theme
from noisefloor.show.plots.verdicts import claims, dots, history, overhead, waterfall
