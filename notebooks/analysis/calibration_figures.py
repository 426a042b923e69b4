"""Figures of the calibration page, in the theme of `plots`: frames in, a Figure out."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from noisefloor.show.plots import canvas
from noisefloor.show.plots.canvas import ARMS, BAND, INK


@canvas.responsive
def strip(
    frame: pd.DataFrame,
    value: str,
    *,
    limit: float,
    least: bool = False,
    axis: str = "",
    narrow: bool = False,
) -> Figure:
    """One dot a cell along a percent axis, a row for each `noise_label`, a colour for each `scatter`
    (named above), and the worst value of each row in words. The band is the goal: up to `limit`, or
    from it to 100 (`least`)."""
    labels, kinds = list(pd.unique(frame["noise_label"])), list(pd.unique(frame["scatter"]))
    side = 30 + 7.0 * max(map(len, labels))
    left, each = (8, 42) if narrow else (side, 25)
    figure, ax = canvas.lined(len(labels), each, (left, 66), (30, 44), narrow)
    canvas.note(ax, axis, (0, 0), (0, -26), "axes fraction", va="top")
    lo, hi = (limit, 100.0) if least else (0.0, limit)
    ax.axvspan(lo, hi, color=BAND, alpha=0.13, lw=0, zorder=0)
    ax.axvline(limit, color=BAND, lw=1.2, zorder=1)
    spread = np.linspace(-0.26, 0.26, 7)
    at: Any = ax.get_yaxis_transform()
    for i, label in enumerate(labels):
        row = frame[frame["noise_label"] == label]
        y = i + (0.32 if narrow else 0.0)
        shift = spread[np.arange(len(row)) % 7]
        for kind, colour in zip(kinds, ARMS, strict=False):
            mine = (row["scatter"] == kind).to_numpy()
            _dots(ax, np.column_stack([row[value], y + shift])[mine], colour)
        place, moved = ((0, i - 0.28), (0, 0)) if narrow else ((0, i), (-left + 8, 0))
        canvas.note(ax, label, place, moved, at, va="center", color=INK, fontsize=12)
        worst = f"≥\u202f{row[value].min():.1f}" if least else f"≤\u202f{row[value].max():.1f}"
        canvas.note(ax, f"{worst}\u202f%", (1, y), (8, 0), at, va="center", color=INK)
    ends = [frame[value].min(), frame[value].max(), lo, hi]
    pad = 0.04 * (max(ends) - min(ends))
    ax.set_xlim(min(ends) - pad if least else 0, max(ends) + pad)
    _percents(ax)
    where = -left + 8
    for kind, colour in zip(kinds, ARMS, strict=False):
        style: dict[str, Any] = {"va": "bottom", "color": colour, "weight": "bold", "fontsize": 12}
        canvas.note(ax, kind, (0, 1), (where, 8), "axes fraction", **style)
        where += 6.6 * len(kind) + 18
    return figure


@canvas.responsive
def power(frame: pd.DataFrame, *, narrow: bool = False) -> Figure:
    """Share of campaigns that find a difference (solid) or say `same` (dashed) against the true
    change: columns truth_pct, named, same (percent) and scatter (a line each)."""
    figure, (ax,) = canvas.sheet(narrow, 318)
    ink = dict(zip(pd.unique(frame["scatter"]), ARMS, strict=False))
    for line, colour in ink.items():
        part = frame[frame["scatter"] == line].sort_values("truth_pct")
        ax.plot(part["truth_pct"], part["named"], "-o", color=colour, lw=2, ms=5)
        ax.plot(part["truth_pct"], part["same"], "--", color=colour, lw=1.2, alpha=0.8)
    ax.set_ylim(-3, 103)
    _percents(ax, "y")
    _percents(ax)
    gap = "\n" if narrow else " "
    ax.set_xlabel(f'real difference{gap}(solid: finds a difference; dashed: says "same")')
    canvas.above(ax, "simulated measurements", "", dict(zip(ink, ink, strict=True)), ink, narrow)
    return figure


def _dots(ax: Axes, points: np.ndarray, colour: str) -> None:
    """Points as one path of round caps: a tenth of the bytes of as many markers."""
    codes = np.tile([Path.MOVETO, Path.LINETO], len(points))
    path = Path(np.repeat(points, 2, axis=0), codes)
    path.should_simplify = False
    style: dict[str, Any] = {"ec": colour, "lw": 4, "alpha": 0.55, "capstyle": "round", "zorder": 3}
    ax.add_patch(PathPatch(path, fill=False, **style))


def _percents(ax: Axes, axis: str = "x") -> None:
    which = getattr(ax, f"{axis}axis")
    which.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    which.set_major_formatter(lambda v, _: f"{v:g}\u202f%")
