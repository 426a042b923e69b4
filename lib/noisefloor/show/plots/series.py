"""Figures of what verdicts are computed from: pairs, runs and the seconds in them."""

import math
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from noisefloor.model import METRICS
from noisefloor.show.plots import canvas
from noisefloor.show.plots.canvas import CONTROL, MUTED, PAGE, Axes, Inks, Palette
from noisefloor.show.rows import arm_label, counted, metric_label

_SHADE = {"alpha": 0.18, "lw": 0}  # the range between two lines


def _present(ink: Inks, frame: pd.DataFrame) -> list[Any]:
    """The arms of `frame` in the order of their colours."""
    return [arm for arm in ink if arm in set(frame["arm"])]


# -- pairs -----------------------------------------------------------------------------------------


@canvas.responsive
def pairs_figure(
    pairs_frame: pd.DataFrame, *, palette: Palette = PAGE, narrow: bool = False
) -> Figure:
    """Each pair's change by pair number, the mean of each block as a line, dotted lines between blocks.

    `pairs_frame`: metric, baseline, arm, block, pair, change (log ratio) of one comparison, or of
    several thread counts (one panel each), as `stats.pairs` returns them.
    """
    parts = list(pairs_frame.groupby("threads", sort=False, dropna=False))
    high = 270 if narrow or len(parts) > 1 else 330
    columns = 1 if narrow else min(len(parts), 2)
    lines, small = math.ceil(len(parts) / columns), narrow or columns > 1
    figure, axes = canvas.sheet(narrow, high * lines + 8, lines, columns)
    for ax in axes[len(parts) :]:
        ax.set_visible(False)
    for ax, (count, chosen) in zip(axes, parts, strict=False):
        _pairs_panel(ax, chosen, palette, small)
        metric = chosen["metric"].iloc[0]
        canvas.above(
            ax, canvas.shows(ax, metric, "" if small else ", pair by pair"), counted(count)
        )
    return figure


def _pairs_panel(ax: Axes, frame: pd.DataFrame, palette: Palette, small: bool) -> None:
    frame = frame.sort_values(["block", "pair"])
    value = 100 * np.expm1(frame["change"].to_numpy(float))
    means = frame.groupby("block", sort=False)["change"].transform("mean").to_numpy(float)
    means = 100 * np.expm1(means)
    ink = palette.of(frame)[frame["arm"].iloc[0]]
    limit = 1.25 * max(np.quantile(canvas.away(value), 0.95), canvas.away(means).max(), 0.1)
    low = canvas.mirror(limit)
    ax.axhline(0, color=MUTED, lw=0.9, zorder=1)
    n = np.arange(1, len(frame) + 1)
    edges = np.flatnonzero(frame["block"].to_numpy()[1:] != frame["block"].to_numpy()[:-1]) + 1.5
    for edge in edges:
        ax.axvline(edge, color=CONTROL, lw=0.8, ls=(0, (1, 3)), zorder=1)
    for block in np.split(np.arange(len(frame)), (edges - 0.5).astype(int)):
        ends = n[block[0]] - 0.35, n[block[-1]] + 0.35
        ax.plot(ends, [means[block[0]]] * 2, color=ink, lw=2, zorder=4)
    inside = canvas.away(value) <= limit
    ax.plot(n[inside], value[inside], "o", ms=5, color=ink, alpha=0.55, mew=0, zorder=3)
    for out, shape, y in ((value > limit, "^", limit), (value < low, "v", low)):
        if out.any():
            ax.plot(n[out], np.full(out.sum(), y), shape, ms=6, color=ink, clip_on=False)
    canvas.remember(ax, n, canvas.cut(value, limit), frame.index)
    ax.set_xlim(0.2, max(len(frame), 5) + 0.8)
    ax.xaxis.set_major_locator(MaxNLocator(6 if small else 12, integer=True))
    ax.set_xlabel(f"pair (line: mean of a block{'; dotted: a new block' * bool(len(edges))})")
    seen = *canvas.cut(value, limit), -0.5, 0.5  # with zero, and no empty decades
    canvas.scale(ax, min(seen), max(seen), 0.08, 0.1, metric=frame["metric"].iloc[0])


# -- runs and seconds ------------------------------------------------------------------------------


@canvas.responsive
def runs_figure(
    tidy: pd.DataFrame,
    metric: str = "cpu_per_transaction",
    *,
    palette: Palette = PAGE,
    narrow: bool = False,
) -> Figure:
    """Every run's value, a strip an arm within each thread count, the median as a line.

    `tidy`: rows of the tidy table; warm-up runs are left out.
    """
    frame = tidy[tidy["metric"].eq(metric) & ~tidy["warmup"].eq(True)].copy()
    spec = METRICS.get(metric)
    scale, unit = (spec.scale, spec.shown_unit) if spec else (1.0, "")
    frame["shown"] = frame["value"].astype(float) * scale
    frame["at"] = [counted(t) or "all runs" for t in frame["threads"]]
    counts = list(frame.sort_values("threads")["at"].unique())
    ink = palette.of(frame)
    arms = _present(ink, frame)
    figure, (ax,) = canvas.sheet(narrow, 300)
    width, draw = 0.8 / max(len(arms), 1), np.random.RandomState(0)
    for (i, count), (j, arm) in product(enumerate(counts), enumerate(arms)):
        part = frame[(frame["at"] == count) & (frame["arm"] == arm)]
        if part.empty:
            continue
        x = i - 0.4 + width * (j + 0.5)
        xs = x + draw.uniform(-0.11, 0.11, len(part)) / len(arms)
        inks = [ink[arm]] * len(part)
        ax.scatter(xs, part["shown"], 4.5**2, inks, zorder=3, alpha=0.6, lw=0)
        canvas.remember(ax, xs, part["shown"], part.index)
        ends = x - 0.36 * width, x + 0.36 * width
        ax.plot(ends, [part["shown"].median()] * 2, color=ink[arm], lw=2.5, zorder=5)
    ax.set_xticks(range(len(counts)), counts)
    if len(counts) == 1:
        ax.set_xlim(-0.9, 0.9)
    if len(frame) and frame["shown"].min() > 0 and frame["shown"].max() > 20 * frame["shown"].min():
        ax.set_yscale("log")
    ax.set(xlabel="", ylabel="")
    name = f"{metric_label(metric)}{f', {unit}' if unit else ''} (line: median)"
    canvas.above(ax, name, "", {a: arm_label(str(a)) for a in arms}, ink, narrow)
    return figure


@canvas.responsive
def timeline(intervals: pd.DataFrame, *, narrow: bool = False) -> Figure:
    """Transactions per second over time, one short line a run in its arm's colour.

    `intervals`: run, arm, t_s, tps, warmup, start_s (the second at which the run began), as
    `tidy.intervals` returns them.
    """
    begun = (intervals["start_s"] - intervals["start_s"].min()).astype(float)
    frame = intervals.assign(x=(begun + intervals["t_s"]).astype(float))
    frame["warmup"] = frame["warmup"].eq(True)
    ink, judged = PAGE.of(frame), frame[~frame["warmup"]]
    figure, (ax,) = canvas.sheet(narrow, 308)
    runs = frame.sort_values("warmup", kind="stable").groupby(["warmup", "run"], sort=False)
    for (warm, _), run in runs:  # a row is a step over the second that it counts
        style = {"color": ink[run["arm"].iloc[0]], "lw": 1.5, "alpha": 0.85}
        style = {"color": CONTROL, "lw": 1, "ls": (0, (2, 2))} if warm else style
        x, y = run["x"].to_numpy(), run["tps"].to_numpy()
        ax.plot([x[0] - 1, *x], [y[0], *y], drawstyle="steps-pre", **style)
    names = {}
    for arm in _present(ink, judged):
        middle = judged.loc[judged["arm"].eq(arm), "tps"].median()
        ax.axhline(middle, color=ink[arm], lw=0.9, ls=(0, (5, 3)))
        names[arm] = f"{arm_label(arm)}: median {middle:,.0f}"
    if frame["warmup"].any():
        words = "dashed grey: warm-up, not counted"
        canvas.note(ax, words, (0, 0), (4, 3), "axes fraction", va="bottom")
    if len(judged):
        low, high = judged["tps"].quantile(0.002), judged["tps"].max()
        ax.set_ylim(0 if low < 0.5 * high else 0.92 * low, high * 1.02)
    ends = frame["x"].min() - 1, frame["x"].max() + 1
    ax.set(xlim=ends, xlabel="seconds since the first run")
    canvas.above(ax, "transactions per second", "", names, ink, narrow)
    ax.yaxis.set_major_formatter("{x:,.0f}")
    return figure


@canvas.responsive
def over_time(
    frame: pd.DataFrame, column: str, label: str, since: str, *, narrow: bool = False
) -> Figure:
    """A sampled value over time: of each arm the median and the middle half of its runs.

    `frame`: run, arm, t_s and `column`; `label`: what it is; `since`: from when its seconds count."""
    ink = PAGE.of(frame)
    figure, (ax,) = canvas.sheet(narrow, 300)
    step = frame.groupby("run")["t_s"].diff().median()
    names: dict[Any, str] = {}
    quartiles: Any = [0.25, 0.5, 0.75]
    for arm, part in frame.groupby("arm", sort=False):
        at = (part["t_s"] / step).round() * step
        spread = part.groupby(at)[column].quantile(quartiles).unstack()
        ax.fill_between(spread.index, spread[0.25], spread[0.75], color=ink[arm], **_SHADE)
        ax.plot(spread.index, spread[0.5], color=ink[arm], lw=1.6)
        names[arm] = f"{arm_label(str(arm))} ({part['run'].nunique()} runs)"
    ax.set(ylim=(0, None), xlabel=f"seconds since {since}")
    canvas.above(ax, label, "", names, ink, narrow)
    ax.yaxis.set_major_formatter("{x:,.0f}")
    return figure


@canvas.responsive
def quantiles_figure(frame: pd.DataFrame, baseline: str, *, narrow: bool = False) -> Figure:
    """Latency quantiles of the arms on a log scale, and below them the change from the `baseline`.

    `frame`: arm, q (0.5 ... 0.999), value_s, lo, hi (seconds).
    """
    frame = frame.sort_values("q")
    ink = PAGE.of(frame)
    figure, (top, low) = canvas.sheet(narrow, 400, 2, sharex=True, height_ratios=[2.1, 1])
    place = {q: -math.log10(1 - q) for q in pd.unique(frame["q"])}
    base = frame[frame["arm"].eq(baseline)].set_index("q")["value_s"]
    low.axhline(0, color=MUTED, lw=0.9, zorder=1)
    seen = 1.0
    for arm, part in frame.groupby("arm", sort=False):
        x, line = part["q"].map(place), {"color": ink[arm], "ms": 5, "lw": 1.8}
        top.plot(x, 1e3 * part["value_s"], "-o", **line)
        if part["lo"].notna().any():
            top.fill_between(x, 1e3 * part["lo"], 1e3 * part["hi"], color=ink[arm], **_SHADE)
        if arm != baseline:
            ratio = 100 * (part.set_index("q")["value_s"] / base - 1)
            low.plot([place[q] for q in ratio.index], ratio, "-o", **line)
            seen = max(seen, canvas.away(ratio).max())
    top.set_yscale("log")
    canvas.ticks(top.yaxis, canvas.round_numbers(*top.get_ylim()), "{x:g}\u202fms")
    names = {a: arm_label(str(a)) for a in _present(ink, frame)}
    canvas.above(top, "latency (log scale)", "", names, ink, narrow)
    reach = 1.25 * seen
    canvas.scale(low, canvas.mirror(reach), reach, most=4)
    canvas.above(low, canvas.shows(low, "p95", "" if narrow else f" from {baseline}"))
    low.set_xticks(list(place.values()), [f"p{100 * q:g}" for q in place])
    low.set_xlabel("quantile of the transactions")
    return figure
