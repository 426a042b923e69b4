"""Figures of the calibration page, in the theme of `plots`: frames in, a Figure out."""

import math

import numpy as np
import pandas as pd
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator, NullLocator

from noisefloor.show.plots import canvas
from noisefloor.show.plots.canvas import ARMS, BAND, BASE, INK, MUTED
from noisefloor.show.rows import SHORT

MOST = 5.0  # percent of campaigns that may be told wrong
DESIGN_INK = {"switched": ARMS[0], "side by side": ARMS[1]}


@canvas.responsive
def strip(frame, value, *, by, ink=None, least=None, axis="", narrow=False):
    """One dot a cell along a percent axis, a row for every value of `by`, the extreme one in words.

    ink: column that colours the dots (its values are named above, at most five); least: what the
    numbers must be, by default at most MOST; axis: what they are."""
    labels = list(pd.unique(frame[by]))
    kinds = list(pd.unique(frame[ink])) if ink else [None]
    inks = (DESIGN_INK.get(k, c) for k, c in zip(kinds, ARMS * 2, strict=False))
    colour = dict(zip(kinds, inks, strict=True))
    side = 30 + 7.0 * max(map(len, labels))
    figure, ax, left, name_row = _named(
        labels, side, (66, 66), axis, top=30 if ink else 8, each=25, narrow=narrow
    )
    far = least is not None  # the extreme that matters is the lowest
    lo, hi = (least, 100.0) if far else (0.0, MOST)
    ax.axvspan(lo, hi, color=BAND, alpha=0.13, lw=0, zorder=0)
    ax.axvline(least if far else MOST, color=BAND, lw=1.2, zorder=1)
    spread = np.linspace(-0.26, 0.26, 7)
    for i, label in enumerate(labels):
        row = frame[frame[by] == label]
        y, many = i + (0.32 if narrow else 0.0), len(row) > 3
        shift = spread[np.arange(len(row)) % 7] * many
        for kind in kinds:
            mine = (row[ink] == kind).to_numpy() if ink else np.ones(len(row), bool)
            points = np.column_stack([row[value], y + shift])[mine]
            _dots(ax, points, colour[kind], *((4, 0.55) if many else (7, 1.0)))
        worst = row[value].min() if far else row[value].max()
        bound = ("≥\u202f" if far else "≤\u202f") if len(row) > 1 else ""
        name_row(i, label, f"{bound}{worst:.1f}\u202f%")
    ends = [frame[value].min(), frame[value].max(), lo, hi]
    pad = 0.04 * (max(ends) - min(ends))
    ax.set_xlim(min(ends) - pad if far else 0, max(ends) + pad)
    _percents(ax)
    where = -left + 8
    for kind in kinds if ink else ():
        style = {"va": "bottom", "color": colour[kind], "weight": "bold", "fontsize": 12}
        name = SHORT.get(kind, str(kind))
        canvas.note(ax, name, (0, 1), (where, 8), "axes fraction", **style)
        where += 9.0 * len(name) + 18
    return figure


@canvas.responsive
def blocks(found, each, *, margin_pct=2.0, narrow=False):
    """Mean of every A/A block (`each`: design, block, log), a panel a design, with the mean of all and
    its interval (`found`)."""
    figure, axes, small = canvas.panels(len(found), narrow, 250, most=3)
    reach = max(1.2 * margin_pct, 110 * each["log"].abs().max())
    for ax, row in zip(axes, found.itertuples(), strict=True):
        part = each[each["design"] == row.design]
        canvas.band(ax, margin_pct)
        ax.axhspan(row.lo_pct, row.hi_pct, color=ARMS[0], alpha=0.25, lw=0, zorder=2)
        ax.axhline(row.overhead_pct, color=ARMS[0], lw=1.6, zorder=3)
        ax.plot(part["block"] + 1, 100 * np.expm1(part["log"]), "o", ms=5, color=BASE, zorder=4)
        ax.set_ylim(-reach, reach)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.set_xlabel("block")
        canvas.percent_axis(ax)
        canvas.above(ax, f"difference (shaded: ±{margin_pct:g}\u202f%)", row.design, small=small)
    return figure


@canvas.responsive
def bias(frame, *, narrow=False):
    """A duet less the truth with its interval, in percent of the true overhead; a place a
    slowdown, a colour a design, the bands are what is allowed for a size and for a word."""
    figure, axes, _ = canvas.panels(1, narrow, 320)
    ax = axes[0]
    shares = ["bias_pct", "lo_pct", "hi_pct", "size_pct", "word_pct"]
    effect = frame["effect_pct"].clip(lower=0.1) / 100
    frame = frame.assign(**frame[shares].div(effect, axis=0).clip(-150, 150))
    names = {d: d for d in pd.unique(frame["design"])}
    ink = dict(zip(names, ARMS[1:], strict=False))
    arms = frame.drop_duplicates("arm").set_index("arm")
    for limit, alpha in (("word_pct", 0.13), ("size_pct", 0.2)):
        at = np.arange(len(arms))
        ax.bar(at, 2 * arms[limit], 0.7, -arms[limit], color=BAND, alpha=alpha, lw=0, zorder=0)
    ax.axhline(0, color=MUTED, lw=0.9, zorder=1)
    for k, (design, row) in enumerate(frame.groupby("design", sort=False)):
        where = arms.index.get_indexer(row["arm"]) + 0.18 * (k - (len(names) - 1) / 2)
        ax.vlines(where, row["lo_pct"], row["hi_pct"], color=ink[design], lw=6, alpha=0.38)
        ax.plot(where, row["bias_pct"], "o", color=ink[design], ms=7)
    ax.set_xticks(range(len(arms)), arms.index)
    ax.set_xlabel("slowdown that was put in")
    canvas.percent_axis(ax)
    canvas.above(ax, "share of the true overhead", "CPU per transaction", names, ink, narrow)
    return figure


@canvas.responsive
def power(frame, *, narrow=False):
    """Share of campaigns that end in a verdict other than `cannot tell`, or in `slower`, against
    the true overhead: columns truth_pct, slower, same (shares), and `line` (a line each)."""
    figure, axes, _ = canvas.panels(1, narrow, 310)
    ax = axes[0]
    ink = dict(zip(pd.unique(frame["line"]), ARMS * 2, strict=False))
    for line, colour in ink.items():
        part = frame[frame["line"] == line].sort_values("truth_pct")
        ax.plot(part["truth_pct"], 100 * part["slower"], "-o", color=colour, lw=2, ms=5)
        ax.plot(part["truth_pct"], 100 * part["same"], "--", color=colour, lw=1.2, alpha=0.8)
    ax.set_ylim(-3, 103)
    _percents(ax, "y")
    _percents(ax)
    ax.set_xlabel("true overhead (solid: slower; dashed: same)")
    canvas.above(ax, "campaigns that end so", "", dict(zip(ink, ink, strict=True)), ink, narrow)
    return figure


@canvas.responsive
def information(designs, *, narrow=False):
    """Information a minute of each design against pairs in turn, a dot with its interval (log)."""
    words = "information a minute, in turn = 1 (log scale)"
    names = list(designs["design"])
    figure, ax, _, name_row = _named(names, 250, (90, 8), words, top=8, each=28, narrow=narrow)
    ax.axvline(1, color=MUTED, lw=0.9)
    for i, row in enumerate(designs.itertuples()):
        y, ink = i + (0.32 if narrow else 0.0), ARMS[i % len(ARMS)]
        if not math.isnan(row.lo):
            ax.plot([row.lo, row.hi], [y, y], color=ink, lw=7, alpha=0.38)
        ax.plot(row.times, y, "o", ms=8, color=ink)
        name_row(i, row.design, "" if narrow else f"{row.times:.1f} times")
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ax.set_xlim(min(low, 0.4), max(high, 2.5))
    low, high = ax.get_xlim()
    ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= t <= high]
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    return figure


def _named(names, side, rights, axis, *, top, each, narrow):
    """(figure, axes, points left of the axes, name_row) of a figure with a row a name: name_row(i,
    name, words) writes both ends of a row. side: points for the names where they stand beside the
    axes; rights: for the words, wide and narrow; axis: what the numbers are."""
    left, each = (8, 42) if narrow else (side, each)
    figure, ax = canvas.lined(len(names), each, (left, rights[narrow]), (top, 44), narrow)
    canvas.note(ax, axis, (0, 0), (0, -26), "axes fraction", va="top")

    def name_row(i, name, words):
        at = ax.get_yaxis_transform()
        place = ((0, i - 0.28), (0, 0)) if narrow else ((0, i), (-left + 8, 0))
        canvas.note(ax, name, *place, at, va="center", color=INK, fontsize=12)
        end = (1, i + (0.32 if narrow else 0.0)), (8, 0)
        canvas.note(ax, words, *end, at, va="center", color=INK)

    return figure, ax, left, name_row


def _dots(ax, points, colour, size, alpha):
    """Points as one path of round caps: a tenth of the bytes of as many markers."""
    codes = np.tile([Path.MOVETO, Path.LINETO], len(points))
    path = Path(np.repeat(points, 2, axis=0), codes)
    path.should_simplify = False
    style = {"ec": colour, "lw": size, "alpha": alpha, "capstyle": "round", "zorder": 3}
    ax.add_patch(PathPatch(path, fill=False, **style))


def _percents(ax, axis="x"):
    which = getattr(ax, f"{axis}axis")
    which.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    which.set_major_formatter(lambda v, _: f"{v:g}\u202f%")
