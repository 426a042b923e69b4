"""The figure of the page of published claims."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from noisefloor.show.markup import GLYPHS
from noisefloor.show.plots import canvas
from noisefloor.show.plots.canvas import ARMS, BAND, CONTROL, INK
from noisefloor.show.plots.verdicts import forest
from noisefloor.stats.verdict import CANNOT_TELL, SAME, kind
from noisefloor.text import amounts


@canvas.responsive
def claims(frame: pd.DataFrame, *, narrow: bool = False) -> Figure:
    """Forest of published claims: each change as a dot over a grey bar, the range in which two runs
    of one unchanged server differ. A dot is hollow for `cannot tell`; no interval, no bar.

    `frame`: rows of a verdict table with the columns `title` (a heading) and `label`. The axis is
    linear within the margin and logarithmic beyond, so that both 3 % and 300 % can be read.
    """
    row: Any
    frame = frame[frame["change_pct"].notna()]
    rows = []
    for row in frame.itertuples():
        glyph, size = GLYPHS[kind(row.verdict)], canvas.size(row)
        rows.append((row.title, row.label, f"{glyph} {size}", f"{glyph} {row.verdict}", size))
    words = "a dot in or without a grey bar may be chance; hollow: cannot tell; shaded: same"
    legend = [words] if narrow else [words, "published change"]  # beside the axis above
    figure, ax, places = forest(frame, rows, 252, 196, narrow, ", %", legend)
    margin, sizes = frame["margin_pct"].min(), frame[["change_pct"]]
    limit = 1.4 * canvas.away(sizes).max().max()
    there, back = _symlog(margin)
    ends = there(np.array(canvas.span(sizes, 2 * margin, limit)))
    low, high = back(ends + 0.05 * np.ptp(ends) * np.array([-1, 1]))
    ax.set_xscale("function", functions=(there, back))
    inks = {"worse": ARMS[1], "better": ARMS[0], SAME: BAND}
    for place, row in zip(places, frame.itertuples(), strict=True):
        if pd.notna(row.lo_pct):  # the interval, moved from the change to zero
            ends = [_less(end, row.change_pct) for end in (row.lo_pct, row.hi_pct)]
            canvas.whisker(ax, place, ends, limit, True, color=CONTROL, lw=9, alpha=0.55, zorder=2)
        ink = inks.get(kind(row.verdict), INK)
        face = "none" if row.verdict == CANNOT_TELL else ink
        ax.plot(row.change_pct, place, "o", ms=7, mec=ink, mew=1.6, zorder=5, mfc=face)
    ax.set_xlim(low, high)
    ticks = (-95, -75, -33, -10, -margin, 0, margin, 10, 50, 300, 1900)
    names = {t: amounts.tick(t).number for t in ticks}
    names |= {t: str(amounts.tick(t, times=True)) for t in ticks if amounts.large(t)}
    at = [t for t in ticks if low < t < high]
    canvas.ticks(ax.xaxis, at, lambda value, _: names[value])
    ax.tick_params(labeltop=not narrow)  # the first screen may end above the lower axis
    return figure


def _symlog(margin: float) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The function, and its inverse, of a scale that is linear within the margin and logarithmic
    beyond, on either side."""
    share = 0.8  # length of half of the margin, in decades of the axis

    def there(change: Any) -> Any:
        size = canvas.away(change) / margin
        far = np.where(size < 1, share * size, share + np.log10(np.maximum(size, 1)))
        return np.sign(change) * far

    def back(place: Any) -> Any:
        far = np.abs(place)
        size = margin * np.where(far < share, far / share, 10 ** np.maximum(far - share, 0))
        return np.where(place > 0, size, canvas.mirror(size))

    return there, back


def _less(end: float, change: float) -> Any:
    """The end of an interval around zero that is as far from it as `end` is from `change`."""
    of_end, of_change = np.log1p(np.maximum([end, change], -99.99) / 100)
    return 100 * np.expm1(of_end - of_change)
