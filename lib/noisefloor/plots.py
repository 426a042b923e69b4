"""Tables to figures: one theme, one colour an arm, everything a reader must know drawn in.

Each figure function takes frames in the shapes of the tidy and verdict tables and returns a
matplotlib Figure that carries `narrow`, the same figure drawn again for a phone. `show` turns it
into one piece of HTML: inline SVG whose colours follow the page (light, dark, print), caption,
alternative text and the data behind it.
"""

import base64
import hashlib
import html
import io
import math
import re
from functools import wraps

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from .study import METRICS

# Drawn colours are stand-ins: `svg` replaces each by a CSS variable with the light colour as
# fall-back, because no single ink reads on both white and black. Arms after Okabe and Ito,
# darkened or lightened until text in them has a contrast of 4.5:1 on either ground.
INK, MUTED, RULE, BAND = "#16191d", "#5c6670", "#d3d8dd", "#2e7f9e"
BASE, CONTROL = "#56616d", "#8b949e"
ARMS = ("#0067a3", "#b84a00", "#00755a", "#a03d74", "#846000")
CSS = {
    INK: "currentColor",
    MUTED: f"var(--nf-muted,{MUTED})",
    RULE: f"var(--nf-rule,{RULE})",
    BAND: f"var(--nf-band,{BAND})",
    BASE: f"var(--nf-base,{BASE})",
    CONTROL: f"var(--nf-control,{CONTROL})",
    **{c: f"var(--nf-arm{i},{c})" for i, c in enumerate(ARMS, 1)},
}
GLYPH = {"slower": "▲", "faster": "▼", "same": "=", "cannot tell": "?"}
WIDE, NARROW = 760, 360  # CSS pixels; one unit of the drawing is one pixel
AGAIN = " again"  # the A/A control is a second arm with the baseline's settings

_order: list[str] = []  # arms of the study at hand, baseline first, as `theme` was told


def theme(arms=()):
    """Set the style of every figure and, once for a notebook, the order of its arms (names or
    objects with a `name`, baseline first) so that an arm keeps its colour in all figures."""
    _order[:] = [getattr(a, "name", a) for a in arms]
    sns.set_theme(
        style="ticks",
        rc={
            "figure.dpi": 72,
            "figure.constrained_layout.use": True,
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
            "svg.fonttype": "none",
            "svg.hashsalt": "noisefloor",
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "font.size": 11,
            "axes.titlesize": 12,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.labelsize": 11,
            "xtick.labelsize": 11,
            "ytick.labelsize": 11,
            "text.color": INK,
            "axes.labelcolor": MUTED,
            "axes.edgecolor": RULE,
            "xtick.color": RULE,
            "ytick.color": RULE,
            "xtick.labelcolor": MUTED,
            "ytick.labelcolor": MUTED,
            "xtick.major.size": 4,
            "ytick.major.size": 0,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.spines.left": False,
            "axes.grid": True,
            "axes.grid.axis": "y",
            "axes.axisbelow": True,
            "grid.color": RULE,
            "grid.linewidth": 0.6,
            "lines.solid_capstyle": "round",
            "axes.unicode_minus": True,
        },
    )


def colours(frame) -> dict:
    """Colour of every arm in `frame`: grey for the baseline, light grey for its A/A control."""
    names, bases = list(_order), []
    if "baseline" in frame:
        bases = list(pd.unique(frame["baseline"].dropna()))
    for name in (*bases, *pd.unique(frame["arm"].dropna())):
        if name not in names:
            names.append(name)
    if not _order and not bases:  # no roles known: a control names its baseline, else by name
        names.sort(key=lambda n: (f"{n}{AGAIN}" not in names, str(n)))
    if not bases:
        bases = names[:1]
    inks = iter(ARMS * (1 + len(names) // len(ARMS)))
    return {
        n: BASE if n in bases else CONTROL if str(n).endswith(AGAIN) else next(inks) for n in names
    }


def percent(value, digits=1, sign=True) -> str:
    """A percentage as it is printed everywhere: real minus, no-break thin space, `+` when asked."""
    if value is None or pd.isna(value):
        return "not known"
    if math.isinf(value):
        return ("−" if value < 0 else "") + "∞"
    if abs(value) >= 100:
        digits = 0
    text = f"{abs(value):.{digits}f}"
    mark = "−" if value < 0 and float(text) else "+" if sign and float(text) else ""
    return f"{mark}{text}\u202f%"


def interval(lo, hi) -> str:
    """`lo to hi %`, or that there is none."""
    if pd.isna(lo) or pd.isna(hi):
        return "no interval"
    return f"{percent(lo)[:-2] if not math.isinf(lo) else percent(lo)} to {percent(hi)}"


def metric_label(name) -> str:
    """How a metric is called in text."""
    return METRICS[name].label if name in METRICS else str(name).replace("_", " ")


def threads_label(threads, joint=False) -> str:
    """`at 16 threads`, `over all thread counts`, or nothing."""
    if joint:
        return "over all thread counts"
    if pd.isna(threads):
        return ""
    return f"at {int(threads)} thread{'s' if int(threads) != 1 else ''}"


def is_control(frame) -> pd.Series:
    """Which rows of a verdict table compare the baseline with itself."""
    return frame["arm"].astype(str) == frame["baseline"].astype(str) + AGAIN


def is_joint(frame) -> pd.Series:
    """Which rows of a verdict table are the joint effect over thread counts."""
    if "joint" in frame:
        return frame["joint"].eq(True)
    return pd.Series(False, index=frame.index)


def _responsive(draw):
    """Give the Figure that `draw` returns a `narrow` callable: the same figure for a phone."""

    @wraps(draw)
    def drawn(*args, **options):
        if "svg.hashsalt" not in mpl.rcParams or mpl.rcParams["svg.hashsalt"] != "noisefloor":
            theme(_order)
        figure = draw(*args, **options)
        if not options.get("narrow"):
            figure.narrow = lambda: draw(*args, **{**options, "narrow": True})
        return figure

    return drawn


def _canvas(width, height, rows=1, columns=1, **grid):
    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.04, h_pad=0.06, wspace=0.04, hspace=0.05)
    return figure, figure.subplots(rows, columns, squeeze=False, **grid)


def _above(ax, text, title=""):
    """Panel title in bold, and under it what the y axis shows, set level instead of turned."""
    ax.set_title(title, pad=22 if title else 8)
    ax.text(0, 1, text, transform=ax.transAxes, va="bottom", ha="left", color=MUTED)


def _percent_axis(ax, axis="y"):
    which = getattr(ax, f"{axis}axis")
    which.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], min_n_ticks=3))
    which.set_major_formatter(
        FuncFormatter(lambda v, _: f"{'−' if v < 0 else '+' if v > 0 else ''}{abs(v):g}\u202f%")
    )


def _margin(ax, margin, axis="y", label=True):
    """The band inside which a difference does not matter, and the line of no difference."""
    span, line = (ax.axhspan, ax.axhline) if axis == "y" else (ax.axvspan, ax.axvline)
    span(-margin, margin, color=BAND, alpha=0.13, lw=0, zorder=0)
    line(0, color=MUTED, lw=0.9, zorder=1)
    if label and axis == "y":
        ax.text(
            *(0.995, -margin),
            f"within ±{margin:g}\u202f% counts as same",
            transform=ax.get_yaxis_transform(),
            ha="right",
            va="top",
            color=BAND,
            fontsize=10,
        )


def _limit(frame, margin, floor=0.0):
    """Half height of an overhead axis: everything that matters, not every endless interval."""
    centre = frame["overhead_pct"].abs().replace(np.inf, np.nan).max()
    ends = pd.concat([frame["lo_pct"].abs(), frame["hi_pct"].abs()]).replace(np.inf, np.nan)
    wanted = [margin * 2, floor * 1.15, (centre if pd.notna(centre) else 0) * 1.3]
    if ends.notna().any():
        wanted.append(min(ends.max() * 1.12, max(3 * margin, 3 * (centre or 0), 3 * ends.median())))
    return max(wanted)


def _whisker(ax, x, lo, hi, limit, colour, axis="y", width=5.0, alpha=0.38):
    """An interval as a thick bar; an end beyond the axis gets an arrow instead of a cap."""
    if pd.isna(lo) or pd.isna(hi):
        return
    ends = [max(lo, -limit), min(hi, limit)]
    across = [x, x]
    points = (across, ends) if axis == "y" else (ends, across)
    ax.plot(*points, color=colour, lw=width, alpha=alpha, zorder=3)
    for end, beyond, mark in ((ends[0], lo < -limit, 0), (ends[1], hi > limit, 1)):
        if beyond:
            shape = ("v^" if axis == "y" else "<>")[mark]
            spot = (x, end) if axis == "y" else (end, x)
            ax.plot(*spot, shape, color=colour, ms=6, zorder=4, clip_on=False)


@_responsive
def overhead(
    verdicts, metric="tps", *, margin_pct=2.0, published=None, by="metric", title="", narrow=False
) -> Figure:
    """Overhead against thread count: the signature figure.

    `verdicts`: verdict table; `metric`: a name or several (one panel each). `by`: the column that
    makes the panels when there is one metric (`workload`, `arm`, `study`). The A/A control is
    drawn in grey, the noise floor as a dashed pair of lines, the joint effect as a diamond at the
    right. `published`: columns threads, overhead_pct and optionally lo_pct, hi_pct, label.
    """
    metrics = [metric] if isinstance(metric, str) else list(metric)
    frame = verdicts[verdicts["metric"].isin(metrics)].copy()
    frame["joint"] = is_joint(frame)
    frame["control"] = is_control(frame)
    ink = colours(verdicts)
    if by == "metric" and len(metrics) == 1:
        by = next(
            (c for c in ("workload", "arm") if frame.loc[~frame["control"], c].nunique() > 1),
            "metric",
        )
    real = frame[~frame["control"]]
    keys = metrics if by == "metric" else list(pd.unique(real[by]))
    keys = [k for k in keys if k in set(frame[by])] or metrics[:1]
    columns = 1 if narrow else min(len(keys), 2)
    rows = math.ceil(len(keys) / columns)
    high = 300 if narrow or columns > 1 else 360
    figure, grid = _canvas(NARROW if narrow else WIDE, high * rows + 8, rows, columns)
    floors = frame["noise_floor_pct"].astype(float).replace(np.inf, np.nan)
    for ax, key in zip(grid.flat, keys, strict=False):
        panel = frame[(frame[by] == key) | ((by == "arm") & frame["control"])]
        drawn = frame if by != "metric" else panel
        floor = floors[drawn.index].median()
        limit = _limit(drawn, margin_pct, 0.0 if pd.isna(floor) else floor)
        if published is not None:
            limit = max(limit, 1.2 * published["overhead_pct"].abs().max())
        name = metric_label(key) if by == "metric" else str(key)
        small = narrow or columns > 1
        _overhead_panel(ax, panel, margin_pct, limit, ink, small, published)
        _above(ax, "overhead against the baseline", title or name)
    for ax in grid.flat[len(keys) :]:
        ax.set_visible(False)
    return figure


def _overhead_panel(ax, panel, margin, limit, ink, small, published):
    counts = sorted({int(t) for t in panel.loc[~panel["joint"], "threads"].dropna()})
    at = {t: math.log2(t) for t in counts}
    joint = panel["joint"].any() and len(counts) > 1
    last = max(at.values(), default=0.0)
    step = 1.0 if len(counts) < 2 else (last - min(at.values())) / (len(counts) - 1)
    end = last + 0.95 * step
    _margin(ax, margin)
    rest = panel[~panel["control"]]
    floor = rest[~rest["joint"]].set_index("threads")["noise_floor_pct"].astype(float)
    floor = floor.replace(np.inf, np.nan).dropna().groupby(level=0).max().sort_index()
    floor = floor[floor < limit]
    if len(floor):
        xs = [at[int(t)] for t in floor.index]
        xs = [xs[0] - 0.4 * step, *xs, xs[-1] + 0.4 * step]
        for sign in (1, -1):
            ys = sign * floor.to_numpy()[[0, *range(len(floor)), -1]]
            ax.plot(xs, ys, color=CONTROL, lw=1.1, ls=(0, (3, 3)), zorder=2)
        ax.text(
            *(xs[0], floor.iloc[0]),
            "noise floor: less could not be told from zero",
            **dict(ha="left", va="bottom", color=MUTED, fontsize=10),
        )
    arms = [a for a in pd.unique(rest["arm"])]
    wide = 0.16 * step
    offsets = {a: (i - (len(arms) - 1) / 2) * wide for i, a in enumerate(arms)}
    for row in panel.sort_values("control", ascending=False).itertuples():
        if row.joint and (not joint or row.control):
            continue
        if not row.joint and pd.isna(row.threads):
            continue
        colour = ink[row.arm]
        x = (end if row.joint else at[int(row.threads)]) + offsets.get(row.arm, 0.0)
        if row.control:
            x += 0.16 * step + max(offsets.values(), default=0.0)
        _whisker(ax, x, row.lo_pct, row.hi_pct, limit, colour, width=4 if row.control else 7)
        y = np.clip(row.overhead_pct, -limit, limit)
        mark = "D" if row.joint else "o"
        if row.control:
            ax.plot(x, y, mark, ms=5, mfc="none", mec=colour, mew=1.3, zorder=4)
            continue
        ax.plot(x, y, mark, ms=7, color=colour, zorder=5)
        top = min(row.hi_pct, limit) if pd.notna(row.hi_pct) else y
        ax.annotate(
            row.verdict,
            (x, max(top, y)),
            xytext=(0, 5),
            textcoords="offset points",
            **dict(ha="center", va="bottom", color=colour, fontsize=10 if small else 11),
            **dict(weight="bold", zorder=6, annotation_clip=False),
        )
    for arm in arms:
        line = rest[(rest["arm"] == arm) & ~rest["joint"]].dropna(subset=["threads"])
        line = line.sort_values("threads")
        xs = [at[int(t)] + offsets[arm] for t in line["threads"]]
        ax.plot(xs, line["overhead_pct"].clip(-limit, limit), color=ink[arm], lw=1, alpha=0.6)
    if published is not None and len(published):
        for row in published.itertuples():
            x = math.log2(row.threads) - 0.2 * step
            _whisker(
                *(ax, x, getattr(row, "lo_pct", None), getattr(row, "hi_pct", None)),
                *(limit, INK),
                width=1.2,
                alpha=1,
            )
            ax.plot(x, row.overhead_pct, "D", ms=6, mfc="none", mec=INK, mew=1.3, zorder=5)
            ax.annotate(
                getattr(row, "label", "published"),
                (x, row.overhead_pct),
                xytext=(-8, 0),
                textcoords="offset points",
                **dict(ha="right", va="center", fontsize=10, annotation_clip=False),
            )
        counts = sorted({*counts, *(int(t) for t in published["threads"])})
        at = {t: math.log2(t) for t in counts}
    first = min(at.values(), default=0.0)
    ax.set_xlim(
        first - 0.55 * step, (end if joint else max(at.values(), default=0.0)) + 0.55 * step
    )
    ax.set_ylim(-limit, limit * 1.18)
    ticks, names = [at[t] for t in counts], [str(t) for t in counts]
    if joint:
        ticks, names = [*ticks, end], [*names, "all"]
        ax.axvline(end - 0.5 * step, color=RULE, lw=0.8)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.set_xticklabels(names)
    ax.set_xlabel("threads (log scale)" + (", all = joint effect" if joint else ""))
    _percent_axis(ax)
    for y, text, va in ((0.965, "↑ slower", "top"), (0.02, "↓ faster", "bottom")):
        ax.text(0.005, y, text, transform=ax.transAxes, va=va, color=MUTED, fontsize=11)
    _key(ax, panel, ink, arms)


def _key(ax, panel, ink, arms):
    """Names of the arms beside their colours, at the top right, in the colour itself."""
    names = [*arms, *pd.unique(panel.loc[panel["control"], "arm"])]
    base = panel["baseline"].iloc[0] if len(panel) else ""
    if len(names) == 1 and names[0] not in arms:
        return
    for i, name in enumerate(names):
        text = f"{name} against {base}" if name in arms else f"{name} (A/A control)"
        ax.annotate(
            text,
            (1, 1),
            xycoords="axes fraction",
            xytext=(0, -4 - 15 * i),
            textcoords="offset points",
            **dict(ha="right", va="top", color=ink[name] if name in arms else MUTED, fontsize=10),
        )


@_responsive
def pairs(pairs_frame, path_frame=None, *, margin_pct=2.0, title="", narrow=False) -> Figure:
    """Each pair's overhead by pair number, restarts between blocks, and the running interval.

    `pairs_frame`: block, pair, overhead (log ratio, positive is worse) of one comparison, or of
    several thread counts (one panel each). `path_frame`: n, overhead_pct, lo_pct, hi_pct, verdict
    (and threads when there are several).
    """
    counts = list(pd.unique(pairs_frame["threads"])) if "threads" in pairs_frame else [pd.NA]
    columns = 1 if narrow or len(counts) == 1 else 2
    rows = math.ceil(len(counts) / columns)
    high = 270 if len(counts) > 1 or narrow else 330
    figure, grid = _canvas(NARROW if narrow else WIDE, high * rows, rows, columns)
    small = columns > 1 or narrow
    for ax, count in zip(grid.flat, counts, strict=False):
        chosen, path = pairs_frame, path_frame
        if len(counts) > 1:
            chosen = pairs_frame[pairs_frame["threads"].eq(count).fillna(False)]
            if path is not None and "threads" in path:
                path = path[path["threads"].eq(count).fillna(False)]
        _pairs_panel(ax, chosen, path, margin_pct, small)
        name = title or threads_label(count).removeprefix("at ")
        _above(ax, "overhead of each pair", name)
    for ax in grid.flat[len(counts) :]:
        ax.set_visible(False)
    return figure


def _pairs_panel(ax, frame, path, margin, small):
    frame = frame.sort_values(["block", "pair"])
    value = 100 * np.expm1(frame["overhead"].to_numpy(float))
    n = np.arange(1, len(frame) + 1)
    arm = frame["arm"].iloc[0] if "arm" in frame and len(frame) else ""
    ink = colours(frame).get(arm, ARMS[0]) if arm else ARMS[0]
    spread = np.nanquantile(np.abs(value), 0.95) if len(value) else margin
    limit = max(2.2 * margin, 1.25 * spread)
    if path is not None and len(path):
        final = path.iloc[-1]
        limit = max(
            limit, min(4 * limit, 1.2 * np.nanmax(np.abs([final.lo_pct, final.hi_pct, 0.0])))
        )
    _margin(ax, margin)
    blocks = frame["block"].to_numpy()
    edges = np.flatnonzero(blocks[1:] != blocks[:-1]) + 1.5
    for edge in edges:
        ax.axvline(edge, color=CONTROL, lw=0.8, ls=(0, (1, 3)), zorder=1)
    if len(edges):
        ax.annotate(
            "server restart" if not small else "restart",
            (edges[0], 0),
            xycoords=("data", "axes fraction"),
            xytext=(3, 3),
            textcoords="offset points",
            **dict(va="bottom", color=MUTED, fontsize=10),
        )
    inside = np.abs(value) <= limit
    ax.plot(n[inside], value[inside], "o", ms=5, color=ink, alpha=0.55, mew=0, zorder=3)
    for out, shape, y in (((value > limit), "^", limit), ((value < -limit), "v", -limit)):
        ax.plot(n[out], np.full(out.sum(), y), shape, ms=6, color=ink, zorder=3, clip_on=False)
    if path is not None and len(path):
        steps = path.dropna(subset=["lo_pct", "hi_pct"])
        ax.fill_between(
            steps["n"].to_numpy(float),
            steps["lo_pct"].clip(-10 * limit, 10 * limit).to_numpy(float),
            steps["hi_pct"].clip(-10 * limit, 10 * limit).to_numpy(float),
            color=ink,
            alpha=0.18,
            lw=0,
            zorder=2,
        )
        ax.plot(path["n"], path["overhead_pct"].clip(-limit, limit), color=ink, lw=2, zorder=4)
        word = str(final.verdict) if "verdict" in path else ""
        ax.plot(final.n, np.clip(final.overhead_pct, -limit, limit), "o", ms=8, color=ink, zorder=5)
        ax.axvline(final.n, color=ink, lw=1, zorder=2)
        ax.annotate(
            f"stopped after {int(final.n)} pairs: {word}".rstrip(": "),
            (final.n, 1),
            xycoords=("data", "axes fraction"),
            xytext=(-5, -2),
            textcoords="offset points",
            **dict(ha="right", va="top", color=ink, weight="bold", fontsize=10 if small else 11),
        )
    ax.set_ylim(-limit, limit)
    ax.set_xlim(0.2, max(len(frame), 5) + 0.8)
    ax.xaxis.set_major_locator(MaxNLocator(6 if small else 12, integer=True))
    ax.set_xlabel("pair (line and shade: estimate and interval so far)" if not small else "pair")
    _percent_axis(ax)


@_responsive
def timeline(intervals_frame, *, title="", narrow=False) -> Figure:
    """Transactions per second over time, one short line a run in its arm's colour.

    `intervals_frame`: run, arm, t_s, tps, warmup, and optionally start_s, the second at which the
    run began; without it the runs are laid end to end in the order of the table.
    """
    frame = intervals_frame.copy()
    if "start_s" not in frame:
        length = frame.groupby("run", sort=False)["t_s"].max()
        frame["start_s"] = frame["run"].map(length.cumsum().shift(fill_value=0.0))
    frame["x"] = (frame["start_s"] - frame["start_s"].min() + frame["t_s"]).astype(float)
    ink = colours(frame)
    figure, grid = _canvas(NARROW if narrow else WIDE, 300 if narrow else 320)
    ax = grid[0, 0]
    warm = frame["warmup"].eq(True) if "warmup" in frame else pd.Series(False, index=frame.index)
    for (arm, _), run in frame[~warm].groupby(["arm", "run"], sort=False):
        ax.plot(run["x"], run["tps"], color=ink[arm], lw=1.6, alpha=0.85)
    for _, run in frame[warm].groupby("run", sort=False):
        ax.plot(run["x"], run["tps"], color=CONTROL, lw=1, ls=(0, (2, 2)))
    judged = frame[~warm]
    order = [a for a in ink if a in set(judged["arm"])]
    for i, arm in enumerate(order):
        middle = judged.loc[judged["arm"] == arm, "tps"].median()
        ax.axhline(middle, color=ink[arm], lw=0.9, ls=(0, (5, 3)))
        ax.annotate(
            f"{arm}: median {middle:,.0f}",
            (1, 1),
            xycoords="axes fraction",
            xytext=(0, 6 + 15 * (len(order) - 1 - i)),
            textcoords="offset points",
            **dict(ha="right", va="bottom", color=ink[arm], weight="bold", annotation_clip=False),
        )
    if warm.any():
        ax.text(
            0.005,
            0.02,
            "dashed grey: warm-up, not judged",
            transform=ax.transAxes,
            color=MUTED,
            fontsize=10,
        )
    ax.set_ylim(0, frame["tps"].max() * 1.06)
    ax.set_xlim(0, frame["x"].max() * 1.01)
    ax.set_title(title, pad=22 if title else 10 + 15 * (len(order) - 1))
    ax.text(0, 1, "transactions per second", transform=ax.transAxes, va="bottom", color=MUTED)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    ax.set_xlabel(
        "seconds since the first run" if "start_s" in intervals_frame else "seconds of measuring"
    )
    return figure


@_responsive
def quantiles(frame, *, margin_pct=2.0, baseline=None, title="", narrow=False) -> Figure:
    """Latency quantiles of the arms on a log scale, and below them the ratio to the baseline.

    `frame`: arm, q (0.5 ... 0.999), value_s, and optionally lo, hi (seconds).
    """
    frame = frame.sort_values("q")
    ink = colours(frame)
    baseline = baseline or next(a for a in ink if a in set(frame["arm"]))
    width = NARROW if narrow else WIDE
    figure, grid = _canvas(width, 400, 2, 1, sharex=True, height_ratios=[2.2, 1])
    top, low = grid[:, 0]
    place = {q: -math.log10(1 - q) for q in pd.unique(frame["q"])}
    base = frame[frame["arm"] == baseline].set_index("q")["value_s"]
    ends = []
    for arm, part in frame.groupby("arm", sort=False):
        x = part["q"].map(place)
        top.plot(x, 1e3 * part["value_s"], "-o", color=ink[arm], ms=5, lw=1.8)
        if {"lo", "hi"} <= set(part) and part["lo"].notna().any():
            top.fill_between(
                x, 1e3 * part["lo"], 1e3 * part["hi"], color=ink[arm], alpha=0.18, lw=0
            )
        ends.append((1e3 * part["value_s"].iloc[-1], arm))
        if arm != baseline:
            ratio = 100 * (part.set_index("q")["value_s"] / base - 1)
            low.plot([place[q] for q in ratio.index], ratio, "-o", color=ink[arm], ms=5, lw=1.8)
    for i, (_, arm) in enumerate(sorted(ends)):
        top.annotate(
            str(arm),
            (0, 1),
            xycoords="axes fraction",
            xytext=(8, -18 - 15 * (len(ends) - 1 - i)),
            textcoords="offset points",
            **dict(ha="left", va="center", color=ink[arm], weight="bold"),
        )
    top.set_yscale("log")
    lo, hi = top.get_ylim()
    ticks = [m * 10**e for e in range(-4, 7) for m in (1, 2, 5) if lo <= m * 10**e <= hi]
    top.yaxis.set_major_locator(FixedLocator(ticks))
    top.yaxis.set_minor_locator(NullLocator())
    top.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}\u202fms"))
    _above(top, "latency (log scale)", title)
    _margin(low, margin_pct)
    seen = max((abs(v) for line in low.lines for v in line.get_ydata()), default=0)
    low.set_ylim(-max(2.2 * margin_pct, 1.2 * seen), max(2.2 * margin_pct, 1.2 * seen))
    _percent_axis(low)
    low.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    low.text(
        *(0, 1),
        f"difference from {baseline} (↑ slower)",
        transform=low.transAxes,
        va="bottom",
        color=MUTED,
    )
    low.xaxis.set_major_locator(FixedLocator(list(place.values())))
    low.set_xticklabels([f"p{100 * q:g}" for q in place])
    low.set_xlabel("quantile of the transactions")
    return figure


@_responsive
def dots(
    verdicts,
    *,
    by=("workload", "metric", "threads"),
    margin_pct=2.0,
    control=True,
    title="",
    narrow=False,
) -> Figure:
    """Forest plot: a row a comparison, with interval, margin band and verdict in words.

    `by`: the columns that name a row; those that never differ are left out of the label.
    """
    frame = verdicts if control else verdicts[~is_control(verdicts)]
    frame = frame.reset_index(drop=True)
    ink = colours(verdicts)
    names = [c for c in by if c in frame and frame[c].astype(str).nunique() > 1]
    if frame["arm"].nunique() > 1 and "arm" not in names:
        names.append("arm")
    joint = is_joint(frame)
    limit = _limit(frame, margin_pct)
    width = NARROW if narrow else WIDE
    step = 46 if narrow else 30
    figure, grid = _canvas(width, 64 + step * max(len(frame), 1) + (22 if title else 0))
    ax = grid[0, 0]
    _margin(ax, margin_pct, axis="x")
    labels = []
    for i, row in enumerate(frame.itertuples()):
        colour = ink[row.arm]
        _whisker(ax, i, row.lo_pct, row.hi_pct, limit, colour, axis="x", width=7)
        ax.plot(
            np.clip(row.overhead_pct, -limit, limit),
            i,
            "D" if joint[i] else "o",
            ms=7,
            color=colour,
            zorder=5,
        )
        labels.append(_row_name(frame.loc[i], names, joint[i]))
        words = f"{row.verdict}  {percent(row.overhead_pct)}"
        if narrow:
            ax.text(
                0, i - 0.36, labels[-1], transform=ax.get_yaxis_transform(), color=INK, va="center"
            )
            ax.text(
                1,
                i - 0.36,
                words,
                transform=ax.get_yaxis_transform(),
                ha="right",
                va="center",
                weight="bold",
            )
        else:
            ax.text(
                1.01, i, row.verdict, transform=ax.get_yaxis_transform(), va="center", weight="bold"
            )
            ax.text(
                1.145,
                i,
                f"{percent(row.overhead_pct)} ({interval(row.lo_pct, row.hi_pct)})",
                transform=ax.get_yaxis_transform(),
                va="center",
                color=MUTED,
            )
    ax.set_ylim(len(frame) - 0.4, -0.75 if narrow else -0.6)
    ax.set_xlim(-limit, limit)
    ax.yaxis.set_major_locator(FixedLocator(range(len(frame))))
    ax.set_yticklabels([] if narrow else labels)
    ax.tick_params(axis="y", labelcolor=INK)
    ax.grid(False, axis="y")
    ax.grid(True, axis="x")
    _percent_axis(ax, "x")
    ax.set_xlabel(f"overhead: ← faster, slower →   (shaded: ±{margin_pct:g}\u202f% counts as same)")
    ax.set_title(title)
    return figure


def _row_name(row, names, joint) -> str:
    parts = []
    for name in names:
        value = row[name]
        if name == "metric":
            value = metric_label(value)
        elif name == "threads":
            value = "all threads" if joint else threads_label(value).removeprefix("at ")
        if not pd.isna(value) and value != "":
            parts.append(str(value))
    return ", ".join(parts) or metric_label(row["metric"])


@_responsive
def runs(tidy, metric="cpu_per_transaction", *, title="", narrow=False) -> Figure:
    """Every run's value, a strip an arm within each thread count, the median as a line.

    `tidy`: rows of the tidy table; warm-up runs are left out.
    """
    frame = tidy[tidy["metric"].eq(metric)].copy()
    if "warmup" in frame:
        frame = frame[~frame["warmup"].eq(True)]
    spec = METRICS.get(metric)
    scale, unit = (spec.scale, spec.shown_unit) if spec else (1.0, "")
    frame["shown"] = frame["value"].astype(float) * scale
    frame["at"] = [threads_label(t).removeprefix("at ") or "all runs" for t in frame["threads"]]
    counts = list(frame.sort_values("threads")["at"].unique())
    ink = colours(frame)
    arms = [a for a in ink if a in set(frame["arm"])]
    figure, grid = _canvas(NARROW if narrow else WIDE, 300 if narrow else 320)
    ax = grid[0, 0]
    state = np.random.get_state()
    np.random.seed(0)  # seaborn jitters from the global state; the drawing must not change
    sns.stripplot(
        frame,
        **dict(x="at", y="shown", hue="arm", order=counts, hue_order=arms, palette=ink, ax=ax),
        **dict(dodge=True, jitter=0.18, size=4.5, alpha=0.6, legend=False, linewidth=0),
    )
    np.random.set_state(state)
    width = 0.8 / len(arms)
    for i, count in enumerate(counts):
        for j, arm in enumerate(arms):
            part = frame.loc[frame["at"].eq(count) & frame["arm"].eq(arm), "shown"]
            if len(part):
                x = i - 0.4 + width * (j + 0.5)
                ax.plot(
                    [x - 0.4 * width, x + 0.4 * width],
                    [part.median()] * 2,
                    color=ink[arm],
                    lw=2.5,
                    zorder=5,
                )
    for i, arm in enumerate(arms):
        ax.annotate(
            str(arm),
            (1, 1),
            xycoords="axes fraction",
            xytext=(0, 6 + 15 * (len(arms) - 1 - i)),
            textcoords="offset points",
            **dict(ha="right", va="bottom", color=ink[arm], weight="bold", annotation_clip=False),
        )
    if len(frame) and frame["shown"].min() > 0 and frame["shown"].max() > 20 * frame["shown"].min():
        ax.set_yscale("log")
    ax.set_xlabel("")
    ax.set_ylabel("")
    ax.set_title(title, pad=22 if title else 10 + 15 * (len(arms) - 1))
    name = f"{metric_label(metric)}{f', {unit}' if unit else ''}"
    ax.text(0, 1, name, transform=ax.transAxes, va="bottom", color=MUTED)
    return figure


def svg(figure, title="", description="", themed=True) -> str:
    """The figure as SVG text: same bytes for the same figure, text as text, no dates.

    `themed`: colours as CSS variables and `currentColor`, ids made unique, no fixed size, for
    embedding in a page; else a standalone file with plain colours."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "noisefloor"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", text, flags=re.S)
    text = re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), text)
    text = re.sub(r"'?DejaVu Sans'?(, *[^;\"]*)?", "system-ui, sans-serif", text)
    if not themed:
        return text
    text = text[text.index("<svg") :].replace("xlink:href", "href")
    text = re.sub(r": ?(#[0-9a-f]{6})\b", lambda m: ": " + CSS.get(m[1], m[1]), text)
    text = re.sub(r"\n\s*", "\n", text)
    prefix = "f" + hashlib.sha256((title + description + text).encode()).hexdigest()[:6]
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", text)
    # ids that nothing points to are only weight
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
    keep = {a or b for a, b in used}
    text = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in keep else "", text)
    box = re.search(r'viewBox="([^"]+)"', text)[1]
    label = ""
    inner = ""
    if title:
        label = f' aria-labelledby="{prefix}t{f" {prefix}d" if description else ""}"'
        inner = f'<title id="{prefix}t">{html.escape(title)}</title>'
        if description:
            inner += f'<desc id="{prefix}d">{html.escape(description)}</desc>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img"{label}>{inner}'
    return re.sub(r"<svg[^>]*>", lambda _: head, text, count=1).strip()


def alt(verdicts, metric=None) -> str:
    """Alternative text of a figure of verdicts: every comparison in words, from the table."""
    frame = verdicts if metric is None else verdicts[verdicts["metric"].eq(metric)]
    joint = is_joint(frame)
    parts = []
    for index, row in frame.iterrows():
        where = threads_label(row["threads"], joint[index])
        parts.append(
            f"{metric_label(row['metric'])}{f' {where}' if where else ''}, {row['arm']} against "
            f"{row['baseline']}: {row['verdict']}, {percent(row['overhead_pct'])} "
            f"({interval(row['lo_pct'], row['hi_pct'])})"
        )
    return "; ".join(parts) + "." if parts else "No comparison."


class Shown:
    """One figure as HTML, for the last line of a notebook cell."""

    def __init__(self, markup, text):
        self.markup, self.text = markup, text

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/html": self.markup, "text/plain": self.text}


def csv_link(frame, name) -> str:
    """A link that carries `frame` as CSV inside the page: nothing is fetched."""
    text = frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    data = base64.b64encode(text.encode()).decode()
    return (
        f'<a class="nf-data" download="{html.escape(name)}.csv" '
        f'href="data:text/csv;charset=utf-8;base64,{data}">data (CSV, {len(frame)} rows)</a>'
    )


def show(figure, alt="", caption="", data=None, title="", name="figure") -> Shown:
    """The figure as an HTML `<figure>`: inline SVG for wide and for narrow pages, caption, and
    `data` as a CSV link named `name`. `alt` says in words what the figure shows; a figure without
    it is refused."""
    if not alt:
        raise ValueError("a figure needs alternative text (alt=...); plots.alt(verdicts) makes it")
    title = title or caption.split(". ")[0] or "Figure"
    drawings = f'<div class="nf-wide">{svg(figure, title, alt)}</div>'
    if narrow := getattr(figure, "narrow", None):
        drawings += f'<div class="nf-narrow" style="display:none">{svg(narrow(), title, alt)}</div>'
    link = f" {csv_link(data, name)}" if data is not None and len(data) else ""
    words = f"<span>{html.escape(caption)}</span>" if caption else ""
    markup = f'<figure class="nf-figure">{drawings}<figcaption>{words}{link}</figcaption></figure>'
    return Shown(markup, f"{title}. {alt}")
