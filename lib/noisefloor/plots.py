"""Tables to figures: one theme, one colour an arm, everything a reader must know drawn in.

Each figure function takes frames in the shapes of the tidy and verdict tables and returns a
matplotlib Figure that carries `narrow`, the same figure drawn again for a phone. `show` turns it
into one piece of HTML: inline SVG whose colours follow the page (light, dark, print), caption,
alternative text and the data behind it.
"""

import base64
import contextlib
import hashlib
import html
import io
import math
import os
import re
import textwrap
from functools import wraps
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from . import amounts, sheet
from .amounts import interval, percent  # noqa: F401
from .schedule import CONTENDED, NOT_JUDGED
from .study import METRICS

# Drawn colours are stand-ins: `svg` replaces each by a CSS variable with the light colour as
# fall-back, because no single ink reads on both white and black. Arms after Okabe and Ito,
# darkened or lightened until text in them has a contrast of 4.5:1 on either ground.
INK, MUTED, RULE, BAND = "#16191d", "#5c6670", "#d3d8dd", "#22718f"
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
GLYPH = {"slower": "▲", "faster": "▼", "same": "=", "cannot tell": "?", NOT_JUDGED: "○"}
SHORT = {  # metrics where room is short
    "tps": "TPS",
    "cpu_per_transaction": "CPU a transaction",
    "p95": "p95 latency",
    "p99": "p99 latency",
    "binlog_bytes_per_transaction": "binlog a transaction",
    "written_bytes_per_transaction": "written a transaction",
    "read_bytes_per_transaction": "read a transaction",
    "connections_per_second": "connections a second",
    "cpu_per_connection": "CPU a connection",
    "wall": "time",
    "wall_prepared": "time with prepare",
    "user_sys": "CPU time",
    "restart_s": "clean restart",
    "recovery_s": "crash recovery",
    "warmup_s": "warm-up",
}
SIZES = ["lo_pct", "overhead_pct", "hi_pct"]
WIDE, NARROW = 760, 360  # CSS pixels; one unit of the drawing is one pixel
ASIDE = 128  # of a wide figure, for names at the right
AGAIN = " again"  # the A/A control is a second arm with the baseline's settings

PARTS_CSS = Path(__file__).parent / "template" / "parts.css"
FIGURES = "NOISEFLOOR_FIGURES"  # a folder where `show` leaves its figures as files, too
LAB = '<style class="nf-lab">'  # how the output of `theme` begins; a page brings its own style

RC = {
    "figure.dpi": 72,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "noisefloor",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 12,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 12,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
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
}
_order: list[str] = []  # arms of the study at hand, baseline first, as `theme` was told


def theme(arms=()):
    """Set the style of every figure and, once for a notebook, the order of its arms (names or
    objects with a `name`, baseline first) so that an arm keeps its colour in all figures. In a
    notebook it also shows the style sheet that makes boxes, tables and captions look right."""
    order(arms)
    _style()
    with contextlib.suppress(ImportError):
        from IPython import get_ipython
        from IPython.display import HTML, display

        if get_ipython() is not None:
            display(HTML(_lab_css()))


def order(arms):
    """Set the order of the arms alone, as `theme` does."""
    _order[:] = [getattr(a, "name", a) for a in arms]


def _style():
    sns.set_theme(style="ticks", rc=RC)


def _lab_css() -> str:
    """The parts' style for JupyterLab, whose theme and not the system says light or dark, and whose own
    rules for what a cell shows give way."""
    inks, rules = re.split(r"(?=/\* verdict \*/)", PARTS_CSS.read_text())
    dark = 'body[data-jp-theme-light="false"]'
    inks = re.sub(
        r"@media screen and \(prefers-color-scheme: dark\) \{\s*:root",
        f"@media all {{ {dark}",
        inks,
    )
    page = "--nf-paper: var(--jp-layout-color0, #fff); counter-reset: figure table"
    return f"{LAB}{inks}body {{ {page} }} body[data-jp-theme-light] {{ {rules} }}</style>"


def colours(frame) -> dict:
    """Colour of every arm in `frame`: grey for the baseline, light grey for its A/A control."""
    names, bases = list(_order), []
    if "baseline" in frame:
        bases = list(pd.unique(frame["baseline"].dropna()))
    for name in (*bases, *pd.unique(frame["arm"].dropna())):
        if name not in names:
            names.append(name)
    if not _order and not bases:  # no roles known: a control names its baseline, else by name
        known = set(names)
        names.sort(key=lambda n: (f"{n}{AGAIN}" not in known, str(n)))
    if not bases:
        bases = names[:1]
    inks = iter(ARMS * (1 + len(names) // len(ARMS)))
    return {
        n: BASE if n in bases else CONTROL if str(n).endswith(AGAIN) else next(inks) for n in names
    }


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


def as_list(value) -> list:
    """A cell of warnings as a list, whether it holds a list, one sentence or nothing."""
    return list(value) if isinstance(value, (list, tuple)) else [value] if value else []


def contended(row) -> bool:
    """Whether a row's size is that of two servers which shared the machine."""
    return CONTENDED in as_list(row.get("warnings"))


def _responsive(draw):
    """Give the Figure that `draw` returns a `narrow` callable: the same figure for a phone."""

    @wraps(draw)
    def drawn(*args, **options):
        if mpl.rcParams["svg.hashsalt"] != RC["svg.hashsalt"]:
            _style()
        made = _nothing if getattr(args[0], "empty", False) else draw
        figure = made(*args, **options)
        if not options.get("narrow"):
            figure.narrow = lambda: made(*args, **{**options, "narrow": True})
        return figure

    return drawn


def _nothing(*_args, narrow=False, **_options) -> Figure:
    """Instead of a figure for which a campaign has no value: a sentence that says so."""
    figure = Figure(figsize=((NARROW if narrow else WIDE) / 72, 44 / 72))
    figure.text(0, 0.5, "No run of this campaign has a value for this figure.", va="center")
    return figure


def _canvas(size, rows=1, columns=1, **grid):
    figure = Figure(figsize=(size[0] / 72, size[1] / 72), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.04, h_pad=0.06, wspace=0.05, hspace=0.06)
    return figure, figure.subplots(rows, columns, squeeze=False, **grid)


def _panels(count, narrow, high, most=2):
    """A figure with `count` panels, `most` in a row where there is room, and the axes used."""
    columns = 1 if narrow else min(count, most)
    rows = math.ceil(count / columns)
    figure, grid = _canvas((NARROW if narrow else WIDE, high * rows + 8), rows, columns)
    for ax in grid.flat[count:]:
        ax.set_visible(False)
    return figure, list(grid.flat[:count]), narrow or columns > 1


def _mark(ax, xs, ys, rows):
    """Remember where rows of the caller's table (index labels) were drawn, for `spots`."""
    ax.points = [*getattr(ax, "points", ()), *zip(xs, ys, rows, strict=True)]


def spots(figure) -> list:
    """Where the points of a drawn figure are: [row, left, top], row being the index label in the
    table that the figure shows, left and top in percent of its size."""
    wide, high = figure.bbox.size
    found = []
    for ax in figure.axes:
        for x, y, row in getattr(ax, "points", ()):
            left, up = ax.transData.transform((x, y))
            found.append([int(row), round(100 * left / wide, 3), round(100 - 100 * up / high, 3)])
    return found


def _note(ax, text, xy, shift=(0, 0), at="data", **style):
    """Text at a point of the panel, moved by `shift` pixels; it takes no part in the layout."""
    style = {"color": MUTED, "fontsize": 11, "annotation_clip": False} | style
    note = ax.annotate(text, xy, shift, xycoords=at, textcoords="offset points", **style)
    note.set_in_layout(False)
    return note


def _above(ax, text, title="", names=(), ink=None, small=False, colour=INK):
    """Panel title in bold, under it what the y axis shows, set level instead of turned; the arms'
    names in their colours at the right, or on lines of their own in a `small` panel."""
    lines = zip(reversed(dict(names).values()), (text, title), strict=False)
    small = small or any(7.5 * len(a) + 8 * len(b) > 1.1 * ax.bbox.width for a, b in lines)
    beside = 0 if small else 2 if title else 1  # lines that the names can share
    high = 15 * max(len(names) - beside, 0)
    ax.set_title(title or " ", pad=(22 if title else 4) + high, color=colour)
    _note(ax, text, (0, 1), (0, 5), "axes fraction", fontsize=12, va="bottom")
    for i, (name, words) in enumerate(reversed(dict(names).items()) if names else ()):
        style = {"va": "bottom", "weight": "bold", "ha": "left" if small else "right"}
        style["color"] = ink[name] if ink[name] != CONTROL else MUTED
        shift = (0, 5 + 15 * (i + small))
        _note(ax, words, (0 if small else 1, 1), shift, "axes fraction", **style)


def _log(overhead):
    return np.log1p(np.maximum(overhead, -99.99) / 100)


def _percent(log):
    return 100 * np.expm1(log)


def _percent_axis(ax, axis="y", ticks=6):
    which = getattr(ax, f"{axis}axis")
    which.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10], min_n_ticks=3))
    which.set_major_formatter(
        FuncFormatter(lambda v, _: f"{'−' if v < 0 else '+' if v > 0 else ''}{abs(v):,.9g}\u202f%")
    )


def _axis(ax, low, high, below=0.0, above=0.0, axis="y", ticks=6):
    """Scale an axis to overheads from `low` to `high` percent, with shares of its length as room
    beyond: linear, or a log scale with factors as ticks where an overhead is told as a factor.
    Whether it is the latter."""
    log = amounts.large(low) or amounts.large(high)
    if log:
        getattr(ax, f"set_{axis}scale")("function", functions=(_log, _percent))
        low, high = _log(low), _log(high)
    ends = np.array([low - below * (high - low), high + above * (high - low)])
    getattr(ax, f"set_{axis}lim")(_percent(ends) if log else ends)
    if not log:
        _percent_axis(ax, axis, ticks)
        return False
    first, last = np.exp(ends)
    for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        at = [m * 10.0**e for e in range(-5, 9) for m in steps if first <= m * 10.0**e <= last]
        if len(at) <= ticks + 1:
            break
    which = getattr(ax, f"{axis}axis")
    which.set_major_locator(FixedLocator([100 * (f - 1) for f in at]))
    which.set_minor_locator(NullLocator())
    which.set_major_formatter(FuncFormatter(lambda v, _: f"{1 + v / 100:,.6g}×"))
    return True


def _is_log(ax):
    return ax.get_yscale() == "function"


def _overhead(ax):
    """What the y axis of `_axis` shows."""
    return "overhead as a factor" if _is_log(ax) else "overhead"


def _margin(ax, margin, axis="y", named=True):
    """The band inside which a difference does not matter, named, and the line of no difference."""
    span, line = (ax.axhspan, ax.axhline) if axis == "y" else (ax.axvspan, ax.axvline)
    span(-margin, margin, color=BAND, alpha=0.13, lw=0, zorder=0)
    line(0, color=MUTED, lw=0.9, zorder=1)
    if axis == "y" and named:
        words = f"within ±{margin:g}\u202f% counts as same"
        at = ax.get_yaxis_transform()
        _note(ax, words, (0, -margin), (4, -3), at, color=BAND, va="top", zorder=7)


def _away(overhead):
    """The size of an overhead whichever its direction: -50 % is as far away as +100 %."""
    return _percent(np.abs(_log(overhead)))


def _mirror(overhead):
    """The overhead that is as far away on the other side."""
    return _percent(-_log(overhead))


def _cut(overhead, limit):
    """Overheads, no farther away than `limit`."""
    return np.clip(overhead, _mirror(limit), limit)


def _limit(frame, margin, floor=0.0):
    """How far away an overhead may be on an axis: everything that matters, not every endless
    interval."""
    away = _away(frame[SIZES].astype(float))  # None where JSON has null
    away = away.replace(np.inf, np.nan)
    centre = np.nan_to_num(away["overhead_pct"].max())
    ends = away[["lo_pct", "hi_pct"]].stack().dropna()
    wanted = [margin * 2, floor * 1.15, centre * 1.3]
    if len(ends):
        wanted.append(min(ends.max() * 1.12, max(3 * margin, 3 * centre, 3 * ends.median())))
    return max(wanted)


def _whisker(ax, x, ends, limit, **style):
    """An interval as a thick bar; an end beyond the axis gets an arrow instead."""
    level = style.pop("level", False)
    style = {"lw": 7, "alpha": 0.38, "zorder": 3} | style
    if any(pd.isna(e) for e in ends):
        return
    cut = _cut(ends, limit)
    ax.plot(*((cut, [x, x]) if level else ([x, x], cut)), **style)
    for mark, end in enumerate(cut):
        if end != ends[mark]:
            spot = (end, x) if level else (x, end)
            shape = ("<>" if level else "v^")[mark]
            ax.plot(*spot, shape, color=style["color"], ms=6, zorder=4, clip_on=False)


@_responsive
def overhead(
    verdicts, metric="tps", *, margin_pct=2.0, published=None, by="metric", title="", narrow=False
) -> Figure:
    """Overhead against thread count: the signature figure.

    `verdicts`: verdict table; `metric`: a name or several (one panel each). `by`: the column that
    makes the panels when there is one metric (`workload` or `arm` when these differ, `study`). The
    A/A control is drawn in grey, the noise floor as a dashed pair of lines, the joint effect as a
    diamond at the right. `published`: columns threads, overhead_pct and optionally lo_pct, hi_pct,
    label; drawn over ours.
    """
    metrics = [metric] if isinstance(metric, str) else list(metric)
    frame = verdicts[verdicts["metric"].isin(metrics)].copy()
    frame["joint"], frame["control"] = is_joint(frame), is_control(frame)
    real = frame[~frame["control"]]
    if by == "metric" and len(metrics) == 1:
        several = [c for c in ("workload", "arm") if c in real and real[c].nunique() > 1]
        by = (several or ["metric"])[0]
    keys = metrics if by == "metric" else list(pd.unique(real[by]))
    keys = [k for k in keys if k in set(frame[by])]
    if not keys:
        raise ValueError(f"the verdict table has no row of metric {metric!r} to draw")
    panels = [frame[(frame[by] == k) | ((by == "arm") & frame["control"])] for k in keys]
    most = max(panel.loc[~panel["control"], "arm"].nunique() for panel in panels)
    high = (330 if narrow or len(keys) == 1 else 270) + 50 * max(most - 1, 0)
    figure, axes, _ = _panels(len(keys), narrow, high, most=1)
    if not narrow:  # room at the right for the names of band and floor
        figure.get_layout_engine().set(rect=(0, 0, 1 - ASIDE / WIDE, 1))
    scales = [_reach(panel, margin_pct, published) for panel in panels]
    if by != "metric" and max(s[2] for s in scales) <= 3 * min(s[2] for s in scales):
        lows, highs, limits = zip(*scales, strict=True)  # same metric, same scale
        scales = [(min(lows), max(highs), max(limits))] * len(scales)
    ink = colours(verdicts) | {"band": BAND, "floor": MUTED}
    for ax, key, panel, scale in zip(axes, keys, panels, scales, strict=True):
        _margin(ax, margin_pct, named=False)
        floor = _overhead_panel(ax, panel, (*scale, margin_pct), ink, narrow, published)
        name, names = (
            title or (metric_label(key) if by == "metric" else str(key)),
            _arm_names(panel),
        )
        colour = INK
        if by == "arm" and not title:
            name, colour = names.pop(key), ink[key]
        if narrow and ax is axes[0]:
            names["band"] = f"shaded: ±{margin_pct:g}\u202f% counts as same"
            names |= {"floor": "dashed: noise floor"} if floor else {}
        told = panel.loc[~panel["control"], "lo_pct"].notna().any()
        words = ", with its interval" if told else ", too few runs for an interval"
        words = _overhead(ax) + words
        words += " (↑ slower, ↓ faster)" if not narrow else " (↑ slower)" if told else ""
        name = textwrap.fill(name, 38 if narrow else 84)
        _above(ax, words, name, names, ink, narrow, colour)
    _apart(figure)
    return figure


def _reach(panel, margin, published) -> tuple[float, float, float]:
    """Lower and upper end of a panel, without the words in it, and what is beyond everything."""
    floor = panel["noise_floor_pct"].astype(float).replace(np.inf, np.nan)
    beside = [] if published is None else list(published["overhead_pct"])
    limit = _limit(panel, margin, np.nan_to_num(floor.median()))
    limit = max([limit, *(1.2 * _away(x) for x in beside)])
    floor = 1.1 * floor[floor < limit].max()
    return *_ends(panel[SIZES], margin, limit, [*beside, floor, _mirror(floor)]), limit


def _ends(frame, margin, limit, beside=()):
    """Lower and upper end of an axis for the overheads in `frame` and those `beside`."""
    values = [*_cut(frame.astype(float), limit).to_numpy().ravel(), *beside]
    return np.nanmin([_mirror(2 * margin), *values]), np.nanmax([2 * margin, *values])


def _apart(figure):
    """Raise the words of verdicts that would cover others, and the end of an axis that they would
    leave, as the layout places them."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # it stays as it is now
    for ax in figure.axes:
        notes = getattr(ax, "words", ())
        places = [note.xyann for note in notes]
        for _ in range(4):
            for note, place in zip(notes, places, strict=True):
                note.xyann = place
            beyond = (_raised(notes) - ax.bbox.y1) / ax.bbox.height
            if beyond <= 0:
                break
            ends = np.array(ax.get_ylim())
            ends = _log(ends) if _is_log(ax) else ends
            ends[1] += 1.1 * beyond * (ends[1] - ends[0])
            ax.set_ylim(_percent(ends) if _is_log(ax) else ends)


def _raised(notes):
    """Raise each of the notes above those that it would cover; the upper end of all."""
    placed = []
    for note in sorted(notes, key=lambda n: n.get_window_extent().y0):
        box = note.get_window_extent().expanded(1.06, 1)
        while any(box.overlaps(other) for other in placed):
            x, y = note.xyann
            note.xyann = (x, y + 2)
            box = box.translated(0, 2)
        placed.append(box)
    return max((box.y1 for box in placed), default=0.0)


def _arm_names(panel):
    names = {}
    for row in panel.itertuples():
        words = f"{row.arm} against {row.baseline}"
        names[row.arm] = f"{row.arm} (A/A control)" if row.control else words
    return dict(sorted(names.items(), key=lambda item: item[0].endswith(AGAIN)))


def _overhead_panel(ax, panel, scale, ink, small, published):
    """Draw one panel; the values of the noise floor in it."""
    low, high, limit, margin = scale
    single = panel[~panel["joint"] & panel["threads"].notna()]
    counts = {int(t) for t in single["threads"]}
    counts |= set() if published is None else {int(t) for t in published["threads"]}
    at = {t: math.log2(t) for t in sorted(counts)}
    first, last = min(at.values(), default=0.0), max(at.values(), default=0.0)
    step = (last - first) / (len(at) - 1) if len(at) > 1 else 1.0
    joint = panel[panel["joint"] & ~panel["control"]] if len(at) > 1 else panel[:0]
    end = last + 0.95 * step
    judged = single[~single["control"] & single["verdict"].ne(NOT_JUDGED)]
    floor = _floor_lines(ax, judged, at, step, limit, joint, end)
    if not small:
        aside = {"va": "center", "linespacing": 1.15, "zorder": 7}
        right = ax.get_yaxis_transform()
        words = f"within ±{margin:g}\u202f%\ncounts as same"
        band = _note(ax, words, (1, 0), (10, 0), right, color=BAND, **aside)
        ax.words = [band]
        if floor:
            words = "noise floor:\nless is noise"
            ax.words.append(_note(ax, words, (1, floor[-1]), (10, 0), right, **aside))
    arms = list(pd.unique(panel.loc[~panel["control"], "arm"]))
    place = {a: (i - (len(arms) - 1) / 2) * 0.2 * step for i, a in enumerate(arms)}
    beside = 0.14 * step + max(place.values(), default=0.0)
    for row in single[single["control"]].itertuples():
        x = at[int(row.threads)] + beside
        _whisker(ax, x, (row.lo_pct, row.hi_pct), limit, color=ink[row.arm], lw=4)
        y = _cut(row.overhead_pct, limit)
        ax.plot(x, y, "o", ms=5, mfc="none", mec=ink[row.arm], mew=1.3, zorder=4)
        _mark(ax, [x], [y], [row.Index])
    for arm, line in single[~single["control"]].sort_values("threads").groupby("arm", sort=False):
        xs = [at[int(t)] + place[arm] for t in line["threads"]]
        ys = _cut(line["overhead_pct"], limit)
        ax.plot(xs, ys, color=ink[arm], lw=1, alpha=0.6, zorder=3)
        for x, row in zip(xs, line.itertuples(), strict=True):
            _judged(ax, x, row, limit, ink[arm], "o", small)
    for row in joint.itertuples():
        _judged(ax, end + place[row.arm], row, limit, ink[row.arm], "D", small)
    named = {}  # a label is drawn once, at the rightmost point
    for row in () if published is None else published.itertuples():
        x = at[int(row.threads)] - 0.16 * step
        ends = (getattr(row, "lo_pct", np.nan), getattr(row, "hi_pct", np.nan))
        _whisker(ax, x, ends, limit, color=INK, lw=1.2, alpha=1)
        ax.plot(x, row.overhead_pct, "D", ms=6, mfc="none", mec=INK, mew=1.3, zorder=5)
        named[getattr(row, "label", "published")] = (x, row.overhead_pct)
    for words, point in named.items():
        side = (
            {"ha": "right"} if point[0] > last - 0.5 * step and not len(joint) else {"ha": "center"}
        )
        _note(ax, words, point, (0, 9), va="bottom", color=INK, **side)
    wide, half = (300, 26) if small else (560, 46)  # pixels of the panel, of half a verdict
    room = max(0.55 * step, half * (end - first + step) / wide)
    begin, stop = first - room, (end if len(joint) else last) + room
    ax.set_xlim(begin, stop)
    _axis(ax, low, high, 0.04, 0.2)  # room for points and words
    ticks, names = list(at.values()), _names_apart(at, wide / (stop - begin))
    if len(joint):
        ticks, names = [*ticks, end], [*names, "all"]
        ax.axvline(end - 0.5 * step, color=RULE, lw=0.8)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.set_xticklabels(names)
    ax.set_xlabel("threads (log scale)" + ("; all: joint effect" if len(joint) else ""))
    return floor


def _names_apart(at, pixels) -> list[str]:
    """The thread counts as tick labels, "" where one would cover the one before; `pixels` a unit."""
    names, edge = [], -math.inf
    for count, x in at.items():
        name = str(count) if pixels * x - 4 * len(str(count)) > edge + 4 else ""
        edge = pixels * x + 4 * len(name) if name else edge
        names.append(name)
    return names


def _floor_lines(ax, rows, at, step, limit, joint, end) -> list:
    """The noise floor of each comparison as dashed lines above and below zero, that of the joint
    effect at the place `end`; their values, the rightmost last."""
    drawn = []
    for part, places in ((rows, at), (joint.assign(threads=0), {0: end})):
        floor = part.set_index("threads")["noise_floor_pct"].astype(float).replace(np.inf, np.nan)
        floor = floor.dropna().groupby(level=0).max().sort_index()
        floor = floor[floor < limit]
        if floor.empty:
            continue
        xs = [places[int(t)] for t in floor.index]
        xs = [xs[0] - 0.4 * step, *xs, xs[-1] + 0.4 * step]
        ys = floor.to_numpy()[[0, *range(len(floor)), -1]]
        for line in (ys, _mirror(ys)):
            ax.plot(xs, line, color=CONTROL, lw=1.1, ls=(0, (3, 3)), zorder=2)
        drawn += list(ys)
    return drawn


def _judged(ax, x, row, limit, colour, mark, small):
    """One comparison: interval, point, and above them its verdict as a word and the overhead."""
    _whisker(ax, x, (row.lo_pct, row.hi_pct), limit, color=colour)
    y = _cut(row.overhead_pct, limit)
    ax.plot(x, y, mark, ms=7, color=colour, zorder=5)
    _mark(ax, [x], [y], [row.Index])
    top = y if pd.isna(row.hi_pct) else max(y, _cut(row.hi_pct, limit))
    style = {"color": colour, "weight": "bold", "ha": "center", "va": "bottom", "zorder": 6}
    style |= {"fontsize": 10 if small else 12, "linespacing": 1.1}
    words = row.verdict.replace(" ", "\n") if small else _said(row, "\n")
    ax.words = [*getattr(ax, "words", ()), _note(ax, words, (x, top), (0, 5), **style)]


def _said(row, between=" "):
    """Verdict and overhead of a row in a figure; a direction is named once."""
    return f"{row.verdict}{between}{_size(row)}"


def _size(row):
    size = amounts.overhead(row.overhead_pct, getattr(row, "metric", ""))
    return size.removesuffix(f" {row.verdict}")


@_responsive
def pairs(pairs_frame, path_frame=None, *, margin_pct=2.0, title="", narrow=False) -> Figure:
    """Each pair's overhead by pair number, restarts between blocks, and the running interval.

    `pairs_frame`: block, pair, overhead (log ratio, positive is worse) of one comparison, or of
    several thread counts (one panel each). `path_frame`: n, overhead_pct, lo_pct, hi_pct, verdict
    (and threads when there are several).
    """
    counts = list(pd.unique(pairs_frame["threads"])) if "threads" in pairs_frame else [pd.NA]
    figure, axes, small = _panels(len(counts), narrow, 270 if narrow or len(counts) > 1 else 330)
    for ax, count in zip(axes, counts, strict=True):
        chosen, path = pairs_frame, path_frame
        if len(counts) > 1:
            chosen = pairs_frame[pairs_frame["threads"].eq(count).fillna(False)]
            if path is not None and "threads" in path:
                path = path[path["threads"].eq(count).fillna(False)]
        _pairs_panel(ax, chosen, path, margin_pct, small)
        name = title or threads_label(count).removeprefix("at ")
        _above(
            ax, f"{_overhead(ax)}, pair by pair (↑ slower; shaded: ±{margin_pct:g}\u202f%)", name
        )
    return figure


def _pairs_panel(ax, frame, path, margin, small):
    frame = frame.sort_values(["block", "pair"])
    value = 100 * np.expm1(frame["overhead"].to_numpy(float))
    ink = colours(frame)[frame["arm"].iloc[0]] if "arm" in frame and len(frame) else ARMS[0]
    limit = max(2.2 * margin, 1.25 * np.quantile(_away(value), 0.95) if len(value) else 0)
    low = _mirror(limit)
    _margin(ax, margin, named=False)
    edges = np.flatnonzero(frame["block"].to_numpy()[1:] != frame["block"].to_numpy()[:-1]) + 1.5
    for edge in edges:
        ax.axvline(edge, color=CONTROL, lw=0.8, ls=(0, (1, 3)), zorder=1)
    if len(edges):
        words = "restart" if small else "dotted: server restart"
        _note(ax, words, (edges[0], 0), (3, 3), ax.get_xaxis_transform(), va="bottom")
    n = np.arange(1, len(frame) + 1)
    inside = _away(value) <= limit
    ax.plot(n[inside], value[inside], "o", ms=5, color=ink, alpha=0.55, mew=0, zorder=3)
    for out, shape, y in ((value > limit, "^", limit), (value < low, "v", low)):
        if out.any():
            ax.plot(n[out], np.full(out.sum(), y), shape, ms=6, color=ink, clip_on=False)
    _mark(ax, n, _cut(value, limit), frame.index)
    ax.set_xlim(0.2, max(len(frame), 5) + 0.8)
    if path is not None and len(path):
        _path(ax, path, limit, ink, small)
    ax.xaxis.set_major_locator(MaxNLocator(6 if small else 12, integer=True))
    ax.set_xlabel("pair" if small else "pair (line and shade: estimate and interval so far)")
    if amounts.large(limit) and len(value):  # no empty decades on the other side
        low = min(_mirror(2.2 * margin), _cut(value.min(), limit))
    _axis(ax, low, limit, 0.08, 0.1)


def _path(ax, path, limit, ink, small):
    """The running estimate with its narrowing interval, and where it stopped."""
    steps = path.dropna(subset=["lo_pct", "hi_pct"])
    ends = [_cut(steps[c].to_numpy(float), 5 * limit) for c in ("lo_pct", "hi_pct")]
    ax.fill_between(steps["n"].to_numpy(float), *ends, color=ink, alpha=0.18, lw=0, zorder=2)
    ax.plot(path["n"], _cut(path["overhead_pct"], limit), color=ink, lw=2, zorder=4)
    last = path.iloc[-1]
    n = int(last["n"])
    ax.plot(n, _cut(last.overhead_pct, limit), "o", ms=8, color=ink, zorder=5)
    ax.axvline(n, color=ink, lw=1, zorder=2)
    words = f"after {n} pair{'s' * (n != 1)}"
    words += f": {last.verdict}" if "verdict" in path else ""
    side, shift = ("right", -5) if n > sum(ax.get_xlim()) / 2 else ("left", 5)
    style = {"ha": side, "va": "top", "color": ink, "weight": "bold", "zorder": 7}
    style |= {"fontsize": 10 if small else 12}
    _note(ax, words, (n, 1), (shift, -2), ax.get_xaxis_transform(), **style)


@_responsive
def timeline(intervals_frame, *, title="", narrow=False) -> Figure:
    """Transactions per second over time, one short line a run in its arm's colour.

    `intervals_frame`: run, arm, t_s, tps, warmup, and optionally start_s, the second at which the
    run began; without it the runs are laid end to end in the order of the table. Several values
    of `threads` get a panel each.
    """
    frame = intervals_frame.copy()
    clock = "start_s" in frame
    if not clock:
        length = frame.groupby("run", sort=False)["t_s"].max()
        frame["start_s"] = frame["run"].map(length.cumsum().shift(fill_value=0.0))
    frame["x"] = (frame["start_s"] - frame["start_s"].min() + frame["t_s"]).astype(float)
    if "warmup" not in frame:
        frame["warmup"] = False
    ink = colours(frame)
    counts = list(pd.unique(frame["threads"])) if "threads" in frame else [pd.NA]
    several = len(counts) > 1
    figure, axes, small = _panels(len(counts), narrow, 270 if several else 300)
    for ax, count in zip(axes, counts, strict=True):
        part = frame[frame["threads"].eq(count).fillna(False)] if several else frame
        name = title or (threads_label(count).removeprefix("at ") if several else "")
        _timeline_panel(ax, part, ink, name, narrow or (small and several))
        ax.set_xlabel("seconds since the first run" if clock else "seconds of measuring")
    return figure


def _seconds(ax, run, **style):
    """Rows a second as steps, each over the second that it counts: one row is a line, too."""
    x, y = run["x"].to_numpy(), run["tps"].to_numpy()
    ax.plot([x[0] - 1, *x], [y[0], *y], drawstyle="steps-pre", **style)


def _timeline_panel(ax, frame, ink, title, small):
    warm = frame["warmup"].eq(True)
    judged = frame[~warm]
    for (arm, _), run in judged.groupby(["arm", "run"], sort=False):
        _seconds(ax, run, color=ink[arm], lw=1.5, alpha=0.85)
    for _, run in frame[warm].groupby("run", sort=False):
        _seconds(ax, run, color=CONTROL, lw=1, ls=(0, (2, 2)))
    names = {}
    for arm in (a for a in ink if a in set(judged["arm"])):
        middle = judged.loc[judged["arm"].eq(arm), "tps"].median()
        ax.axhline(middle, color=ink[arm], lw=0.9, ls=(0, (5, 3)))
        names[arm] = f"{arm}: median {middle:,.0f}"
    if warm.any():
        words = "dashed grey: warm-up, not judged"
        _note(ax, words, (0, 0), (4, 3), "axes fraction", va="bottom")
    if len(judged):
        low, high = judged["tps"].quantile(0.002), judged["tps"].max()
        ax.set_ylim(0 if low < 0.5 * high else 0.92 * low, high * 1.02)
    ax.set_xlim(frame["x"].min() - 1, frame["x"].max() + 1)
    _above(ax, "transactions per second", title, names, ink, small)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))


@_responsive
def quantiles(frame, *, margin_pct=2.0, baseline=None, title="", narrow=False) -> Figure:
    """Latency quantiles of the arms on a log scale, and below them the ratio to the baseline.

    `frame`: arm, q (0.5 ... 0.999), value_s, and optionally lo, hi (seconds).
    """
    frame = frame.sort_values("q")
    ink = colours(frame)
    baseline = baseline or next(a for a in ink if a in set(frame["arm"]))
    size = (NARROW if narrow else WIDE, 400)
    figure, grid = _canvas(size, 2, 1, sharex=True, height_ratios=[2.1, 1])
    top, low = grid[:, 0]
    place = {q: -math.log10(1 - q) for q in pd.unique(frame["q"])}
    base = frame[frame["arm"].eq(baseline)].set_index("q")["value_s"]
    _margin(low, margin_pct, named=False)
    seen = 0.0
    for arm, part in frame.groupby("arm", sort=False):
        x = part["q"].map(place)
        top.plot(x, 1e3 * part["value_s"], "-o", color=ink[arm], ms=5, lw=1.8)
        if {"lo", "hi"} <= set(part) and part["lo"].notna().any():
            band = {"color": ink[arm], "alpha": 0.18, "lw": 0}
            top.fill_between(x, 1e3 * part["lo"], 1e3 * part["hi"], **band)
        if arm != baseline:
            ratio = 100 * (part.set_index("q")["value_s"] / base - 1)
            low.plot([place[q] for q in ratio.index], ratio, "-o", color=ink[arm], ms=5, lw=1.8)
            seen = max(seen, _away(ratio).max())
    top.set_yscale("log")
    lo, hi = top.get_ylim()
    ticks = [m * 10.0**e for e in range(-4, 7) for m in (1, 2, 5) if lo <= m * 10.0**e <= hi]
    top.yaxis.set_major_locator(FixedLocator(ticks))
    top.yaxis.set_minor_locator(NullLocator())
    top.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}\u202fms"))
    names = {a: str(a) for a in ink if a in set(frame["arm"])}
    _above(top, "latency (log scale)", title, names, ink, narrow)
    reach = max(2.2 * margin_pct, 1.25 * seen)
    _axis(low, _mirror(reach), reach, ticks=4)
    words = "difference" if narrow else f"difference from {baseline}"
    _above(low, f"{words} (↑ slower; shaded: ±{margin_pct:g}\u202f%)")
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

    `by`: the columns that name a row; those that never differ are left out, and the first of
    several becomes a heading. `control`: whether the A/A comparisons are drawn too.
    """
    frame = verdicts if control else verdicts[~is_control(verdicts)]
    names = [c for c in by if c in frame and frame[c].astype(str).nunique() > 1]
    if frame.loc[~is_control(frame), "arm"].nunique() > 1 and "arm" not in names:
        names.append("arm")
    head = names.pop(0) if len(names) > 1 and frame[names[0]].nunique() < len(frame) else None
    if head:
        frame = frame.sort_values(
            head, key=lambda c: c.map({v: i for i, v in enumerate(pd.unique(c))}), kind="stable"
        )
    shown, frame = frame.index, frame.reset_index(drop=True)
    joint, ink, limit = is_joint(frame), colours(verdicts), _limit(frame, margin_pct)
    sections = [_section(v, head, joint[i]) for i, v in frame[head].items()] if head else ""
    rows = [
        (sections and sections[i], _row_name(frame.loc[i], names, joint[i]), _said(row, ", "),
         row.verdict, _numbers(row))
        for i, row in enumerate(frame.itertuples())
    ]  # fmt: skip
    left = 34 + 7.4 * max((len(name) for _, name, *_ in rows), default=10)
    figure, ax, places = _forest(rows, min(264, left), 272, margin_pct, title, narrow)
    for i, row in enumerate(frame.itertuples()):
        colour = ink[row.arm]
        _whisker(ax, places[i], (row.lo_pct, row.hi_pct), limit, color=colour, level=True)
        mark = {"ms": 7, "color": colour, "zorder": 5}
        ax.plot(_cut(row.overhead_pct, limit), places[i], "D" if joint[i] else "o", **mark)
    _mark(ax, _cut(frame["overhead_pct"].astype(float), limit), places, shown)
    ticks = int(ax.bbox.width / 55)
    _axis(ax, *_ends(frame[SIZES], margin_pct, limit), 0.04, 0.04, "x", ticks)
    return figure


def _forest(rows, left, right, margin, title, narrow, unit=""):
    """A forest plot without its points: the figure, its axes, the height of each row.

    `rows`: (heading, name, verdict and size for a phone, verdict, numbers); `left` and `right`:
    pixels for the words beside the axes, for which a phone has no room."""
    left, right = (16, 24) if narrow else (left, right)
    y, places, heads, last = 0.0, [], [], ""
    for section, name, short, *_ in rows:
        if section != last:
            y += 0.15 if places else 0.0
            heads.append((y, section))
            y, last = y + 1.0, section
        beside = 6.2 * len(name) + 7.1 * len(short) <= NARROW - 24
        y += 0.65 if narrow and not beside else 0.0
        places.append(y + 0.75 * narrow)
        y += 1.7 if narrow else 1.0
    width, top, foot, high = NARROW if narrow else WIDE, (26 if title else 6), 44, 26 * y
    wide, total = width - left - right, top + high + foot
    figure = Figure(figsize=(width / 72, total / 72), layout="none")
    ax = figure.add_axes([left / width, foot / total, wide / width, high / total])
    _margin(ax, margin, axis="x")
    at, style = ax.get_yaxis_transform(), {"color": INK, "va": "center", "fontsize": 12}
    for spot, words in heads:
        _note(ax, words, (0, spot), (-left + 8, 0), at, **style, weight="bold")
    for place, (section, name, short, verdict, numbers) in zip(places, rows, strict=True):
        if narrow:
            beside = 6.2 * len(name) + 7.1 * len(short) <= NARROW - 24
            above = place - 0.75
            _note(ax, name, (0, above - 0.65 * (not beside)), (8 - left, 0), at, **style)
            _note(ax, short, (1, above), (right - 8, 0), at, ha="right", weight="bold", **style)
            continue
        room = (left - 28) / 5.6  # characters of a line at ten points
        name = name if len(name) <= 1.2 * room else textwrap.fill(name, int(room))
        small = min(12, 12 * room / max(map(len, name.split("\n")))) - ("\n" in name)
        shift = (-left + (20 if section else 8), 0)
        _note(ax, name, (0, place), shift, at, **(style | {"fontsize": small, "linespacing": 1.05}))
        _note(ax, verdict, (1, place), (12, 0), at, weight="bold", **style)
        far = {"ha": "right", "color": MUTED}
        _note(ax, numbers, (1, place), (right - 4, 0), at, **(style | far))
    ax.set_ylim(y - 0.4, -0.55)
    ax.yaxis.set_major_locator(NullLocator())
    ax.grid(False, axis="y")
    ax.grid(True, axis="x")
    middle = f"±{margin:g}\u202f% {'counts as' if wide > 260 else 'is'} same"
    for x, words, side in (
        (0, "← faster", "left"),
        (1, f"slower{unit} →", "right"),
        (0.5, middle, "center"),
    ):
        ink = BAND if x == 0.5 else MUTED
        _note(ax, words, (x, 0), (0, -26), "axes fraction", va="top", ha=side, color=ink)
    ax.set_title(title)
    return figure, ax, places


def _numbers(row):
    """Overhead and interval of a row, short: as factors where one of them is told as a factor."""
    sizes = row.overhead_pct, row.lo_pct, row.hi_pct
    short = amounts.ratio if any(map(amounts.large, sizes)) else amounts.told
    return short(*sizes)


@_responsive
def history(frame, *, narrow=False) -> Figure:
    """How an overhead moved: a panel a comparison, a place a campaign in order of date, named by
    its date, server build and, where they differ, machine.

    `frame`: verdict rows of several campaigns with the columns campaign, date, engine, machine and
    margin_pct, as `store.history` returns them.
    """
    what = ["workload", "metric", "threads", "joint"]
    frame = frame.sort_values("date", kind="stable")
    panels = list(frame.groupby(what, sort=False, dropna=False))
    machines = list(pd.unique(frame["machine"]))
    figure, axes, small = _panels(len(panels), narrow, 330)
    for ax, ((workload, metric, threads, joint), rows) in zip(axes, panels, strict=True):
        margin = rows["margin_pct"].iloc[-1]
        limit = _limit(rows, margin)
        _margin(ax, margin)
        places = rows.drop_duplicates(["campaign", "date"])
        at = {key: x for x, key in enumerate(zip(places["campaign"], places["date"], strict=True))}
        arms, ink = list(pd.unique(rows["arm"])), colours(rows)
        crowded = len(at) * len(arms) > (3 if small else 7)  # no room for words
        for i, arm in enumerate(arms):
            aside = (i - (len(arms) - 1) / 2) * 0.6 / len(arms)
            mine = rows[rows["arm"] == arm]
            xs = [at[row.campaign, row.date] + aside for row in mine.itertuples()]
            ax.plot(xs, _cut(mine["overhead_pct"], limit), color=ink[arm], lw=1, alpha=0.6)
            for x, row in zip(xs, mine.itertuples(), strict=True):
                row = row._replace(verdict=GLYPH[row.verdict]) if crowded else row
                _judged(ax, x, row, limit, ink[arm], "D" if joint else "o", small or crowded)
        ax.xaxis.set_major_locator(FixedLocator(range(len(at))))
        names = [f"{row.date[:10]}\n{row.engine}" for row in places.itertuples()]
        if len(machines) > 1:
            which = [f"machine {machines.index(m) + 1}" for m in places["machine"]]
            names = [f"{name}\n{m}" for name, m in zip(names, which, strict=True)]
        turned = len(at) > (3 if small else 6)
        ax.set_xticklabels(names, **({"rotation": 90, "fontsize": 9} if turned else {}))
        legend = [", ".join(f"{g} {word}" for word, g in GLYPH.items())] if crowded else []
        legend += [f"machine {i}: {m}" for i, m in enumerate(machines, 1) if len(machines) > 1]
        lines = [textwrap.fill(line, 48 if small else 100) for line in legend]
        ax.set_xlabel("\n".join(lines), fontsize=10)
        ax.set_xlim(-0.6, len(at) - 0.4)
        _axis(ax, *_ends(rows[SIZES], margin, limit), 0.12, 0.25)
        name = " ".join(filter(None, [metric_label(metric), threads_label(threads, joint)]))
        several = frame["workload"].nunique() > 1
        title = textwrap.fill(f"{workload}: {name}" if several else name, 44 if small else 90)
        words = f"{_overhead(ax)} (↑ slower, ↓ faster)"
        _above(ax, words, title, _arm_names(rows), ink, small)
    _apart(figure)
    return figure


@_responsive
def claims(frame, *, margin_pct=2.0, title="", narrow=False) -> Figure:
    """Forest of published claims: each effect as a dot over the grey bar of what its own data
    cannot tell from zero. A dot is hollow where there is no verdict; no bar, no noise floor.

    `frame`: rows of a verdict table with the columns `title` (a heading) and `label`. The axis is
    linear within the margin and logarithmic beyond, so that 3 % and 300 % both can be read.
    """
    frame = frame[frame["overhead_pct"].notna()].reset_index(drop=True)
    rows = [
        (row.title, row.label, f"{GLYPH[row.verdict]} {_size(row)}",
         f"{GLYPH[row.verdict]} {row.verdict}", _size(row))
        for row in frame.itertuples()
    ]  # fmt: skip
    figure, ax, places = _forest(rows, 252, 196, margin_pct, title, narrow, ", %")
    beyond = 1.4 * _away(frame["overhead_pct"]).max()
    ends = _ends(1.4 * frame[["overhead_pct"]], 2 * margin_pct, beyond)
    ax.set_xscale("symlog", linthresh=margin_pct, linscale=0.8)
    for place, row in zip(places, frame.itertuples(), strict=True):
        floor = row.noise_floor_pct
        if pd.notna(floor):
            bar = {"color": CONTROL, "lw": 9, "alpha": 0.55, "zorder": 2}
            ax.plot([_mirror(floor), floor], [place] * 2, **bar)
        ink = {"slower": ARMS[1], "faster": ARMS[0], "same": BAND}.get(row.verdict, INK)
        face = "none" if row.verdict == "cannot tell" else ink
        ax.plot(row.overhead_pct, place, "o", ms=7, mec=ink, mew=1.6, zorder=5, mfc=face)
    ax.set_xlim(*ends)
    ticks = (-50, -10, -margin_pct, 0, margin_pct, 10, 50, 300, 1900)
    ax.xaxis.set_major_locator(FixedLocator([t for t in ticks if ends[0] < t < ends[1]]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(_claimed))
    return figure


def _claimed(value, _=None):
    if amounts.large(value):
        return f"{1 + value / 100:g}×"
    return f"{value:+g}".replace("-", "−") if value else "0"


def _section(value, name, joint) -> str:
    if name == "threads":
        return "all threads" if joint else threads_label(value).removeprefix("at ")
    return metric_label(value) if name == "metric" else str(value)


def _row_name(row, names, joint) -> str:
    parts = []
    for name in names:
        value = row[name]
        if name == "metric":
            value = SHORT.get(value, metric_label(value))
        elif name == "threads":
            value = _section(value, name, joint)
        if not pd.isna(value) and value != "" and (name != "arm" or not value.endswith(AGAIN)):
            parts.append(str(value))
    if str(row["arm"]).endswith(AGAIN):
        parts.append("A/A control")
    return ", ".join(parts) or metric_label(row["metric"])


@_responsive
def waterfall(steps, *, margin_pct=2.0, title="", narrow=False) -> Figure:
    """What each step adds to the overhead, one floating bar a step and the sum at the end.

    `steps`: step, arm, start_pct, end_pct (overhead against the baseline before and after it),
    lo_pct, hi_pct (where the end may lie, given the start), overhead_pct (the step's own), verdict;
    see `results.Results.steps`.
    """
    ink = colours(steps)
    figure, grid = _canvas((NARROW if narrow else WIDE, 330))
    ax = grid[0, 0]
    ends = steps[["start_pct", "end_pct", "lo_pct", "hi_pct"]].astype(float)
    away = _away(ends)
    limit = max(2 * margin_pct, 1.3 * away[["start_pct", "end_pct"]].max().max())
    limit = np.nanmax([limit, min(1.1 * away.max().max(), 3 * limit)])
    _margin(ax, margin_pct, named=False)
    for x, row in enumerate(steps.itertuples()):
        colour = ink[row.arm] if row.step != "all together" else BASE
        low, high = sorted((row.start_pct, row.end_pct))
        ax.bar(x, high - low, 0.56, low, color=colour, alpha=0.75, lw=0, zorder=2)
        _whisker(ax, x, (row.lo_pct, row.hi_pct), limit, color=INK, lw=2, alpha=1)
        if x + 1 < len(steps) and steps["start_pct"].iloc[x + 1] == row.end_pct:
            ax.plot([x - 0.28, x + 1.28], [row.end_pct] * 2, color=MUTED, lw=0.8, zorder=3)
        top = np.nanmax([high, _cut(row.hi_pct, limit)])
        style = {"ha": "center", "va": "bottom", "color": INK, "weight": "bold", "zorder": 6}
        _note(ax, _said(row, "\n"), (x, top), (0, 5), fontsize=10 if narrow else 12, **style)
    _axis(ax, *_ends(ends, margin_pct, limit), 0.06, 0.25)
    ax.set_xlim(-0.6, len(steps) - 0.4)
    ax.xaxis.set_major_locator(FixedLocator(range(len(steps))))
    ax.set_xticklabels([textwrap.fill(s, 10 if narrow else 24) for s in steps["step"]])
    words = f"{_overhead(ax)} (↑ slower, ↓ faster)"
    words += "" if narrow else f"; in the band, ±{margin_pct:g}\u202f%, it counts as same"
    _above(ax, words, title)
    return figure


@_responsive
def warmup(frame, *, title="", narrow=False) -> Figure:
    """Throughput after a restart: the median run of each arm and the middle half of its runs.

    `frame`: run, arm, t_s, tps."""
    ink = colours(frame)
    figure, grid = _canvas((NARROW if narrow else WIDE, 300))
    ax = grid[0, 0]
    step = frame.groupby("run")["t_s"].diff().median()
    names = {}
    for arm, part in frame.groupby("arm", sort=False):
        at = (part["t_s"] / step).round() * step
        spread = part.groupby(at)["tps"].quantile([0.25, 0.5, 0.75]).unstack()
        band = {"color": ink[arm], "alpha": 0.18, "lw": 0}
        ax.fill_between(spread.index, spread[0.25], spread[0.75], **band)
        ax.plot(spread.index, spread[0.5], color=ink[arm], lw=1.6)
        names[arm] = f"{arm} ({part['run'].nunique()} runs)"
    ax.set_ylim(0)
    ax.set_xlabel("seconds since the server answered again")
    _above(ax, "transactions per second", title, names, ink, narrow)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    return figure


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
    figure, grid = _canvas((NARROW if narrow else WIDE, 300))
    ax = grid[0, 0]
    state = np.random.get_state()
    np.random.seed(0)  # seaborn jitters from the global state; the drawing must not change
    data = {"x": "at", "y": "shown", "hue": "arm", "order": counts, "hue_order": arms}
    look = {"dodge": True, "jitter": 0.11, "size": 4.5, "alpha": 0.6, "linewidth": 0}
    sns.stripplot(frame, **data, **look, palette=ink, legend=False, ax=ax)
    np.random.set_state(state)
    dots = np.vstack([np.empty((0, 2)), *(c.get_offsets() for c in ax.collections)])
    width = 0.8 / max(len(arms), 1)
    for (count, arm), part in frame.groupby(["at", "arm"], sort=False):
        x = counts.index(count) - 0.4 + width * (arms.index(arm) + 0.5)
        ends = [x - 0.36 * width, x + 0.36 * width]
        ax.plot(ends, [part["shown"].median()] * 2, color=ink[arm], lw=2.5, zorder=5)
        drawn = dots[np.abs(dots[:, 0] - x) < width / 2]  # in the order of the table
        _mark(ax, *drawn.T, part.index)
    if len(counts) == 1:
        ax.set_xlim(-0.9, 0.9)
    if len(frame) and frame["shown"].min() > 0 and frame["shown"].max() > 20 * frame["shown"].min():
        ax.set_yscale("log")
    ax.set(xlabel="", ylabel="")
    name = f"{metric_label(metric)}{f', {unit}' if unit else ''} (line: median)"
    _above(ax, name, title, {a: str(a) for a in arms}, ink, narrow)
    return figure


@_responsive
def stages(frame, *, title="", narrow=False) -> Figure:
    """What each process of a pipe does with its time: a bar an arm and stage, divided into running
    and the kinds of waiting; its CPU seconds beside it.

    `frame`: arm, stage, cpu_s, wall_s, and shares in percent named `runs`, `waits for ...`.
    """
    looks = {
        "runs": (ARMS[1], 1.0),
        "waits for input": (ARMS[0], 0.35),
        "waits for output": (ARMS[2], 0.35),
        "waits otherwise": (CONTROL, 0.35),
    }
    arms = [a for a in colours(frame) if a in set(frame["arm"])]
    width, left, right = (NARROW, 104, 84) if narrow else (WIDE, 190, 150)
    top, foot = 54 + (16 if title else 0), 34
    high = 20 * (len(frame) + 1.2 * len(arms))
    total = top + high + foot
    figure = Figure(figsize=(width / 72, total / 72), layout="none")
    ax = figure.add_axes([left / width, foot / total, (width - left - right) / width, high / total])
    at, y = ax.get_yaxis_transform(), 0.0
    for arm in arms:
        _note(ax, arm, (0, y), (8 - left, 0), at, color=INK, weight="bold", va="center")
        y += 1
        for row in frame[frame["arm"] == arm].to_dict("records"):
            begin = 0.0
            for state, (colour, alpha) in looks.items():
                part = row.get(state, 0.0) * row["wall_s"] / 100
                if part > 0:
                    ax.barh(y, part, 0.74, begin, color=colour, alpha=alpha, lw=0)
                    begin += part
            size = {"va": "center", "color": INK}
            _note(ax, row["stage"], (0, y), (20 - left, 0), at, **size)
            share = f" ({100 * row['cpu_s'] / row['wall_s']:.0f}\u202f%)" if not narrow else ""
            _note(ax, f"{row['cpu_s']:.2f} s CPU{share}", (1, y), (8, 0), at, **size)
            y += 1
        y += 0.2
    ax.set_ylim(y - 0.4, -0.6)
    ax.set_xlim(0, 1.02 * frame["wall_s"].max())
    ax.yaxis.set_major_locator(NullLocator())
    ax.grid(False, axis="y")
    ax.grid(True, axis="x")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}\u202fs"))
    used = [(s, c) for s, (c, _) in looks.items() if s in frame and frame[s].sum() > 0]
    for i, (state, colour) in enumerate(used):
        shift = (8 - left + (i % 2 if narrow else i) * 150, 6 + (16 * (i // 2) if narrow else 0))
        _note(
            ax,
            f"■ {state}",
            (0, 1),
            shift,
            "axes fraction",
            color=colour if colour != CONTROL else MUTED,
            va="bottom",
        )
    ax.set_title(title, pad=30)
    return figure


@_responsive
def distance(rows, trips, *, title="", narrow=False) -> Figure:
    """Time to connect against round-trip time: points as measured, lines as predicted from the two
    shorter distances.

    `rows`: kind, rtt_s, connect_s; `trips`: kind, round trips, work_ms.
    """
    figure, grid = _canvas((NARROW if narrow else WIDE, 340))
    ax = grid[0, 0]
    kinds = list(pd.unique(rows["kind"]))
    ink = dict(zip(kinds, (BASE, *ARMS), strict=False))
    end = 1e3 * rows["rtt_s"].max()
    fitted = trips.set_index("kind")
    for kind, part in rows.groupby("kind", sort=False):
        line = [fitted["work_ms"][kind] + fitted["round trips"][kind] * x for x in (0.0, end)]
        ax.plot((0, end), line, color=ink[kind], lw=1.6)
        ax.plot(1e3 * part["rtt_s"], 1e3 * part["connect_s"], "o", ms=7, color=ink[kind])
    names = {k: f"{k}: {fitted['round trips'][k]:.1f} round trips" for k in kinds}
    _above(ax, "time to connect, ms (line: prediction)", title, names, ink, narrow)
    ax.set_xlabel("round trip between client and server, ms")
    ax.set_ylim(0)
    ax.set_xlim(-0.02 * end, 1.04 * end)
    return figure


@_responsive
def pooling(even, *, limits=(5.0, 1.0), title="", narrow=False) -> Figure:
    """What encryption costs by the queries that a connection serves, and the limits it falls under.

    `even`: a row a way of counting: `counted in`, connect_ms and query_ms of the baseline, extra_ms
    of a connection, query_extra_pct.
    """
    figure, grid = _canvas((NARROW if narrow else WIDE, 330))
    ax = grid[0, 0]
    served = np.logspace(0, 5, 120)
    ink = dict(zip(even["counted in"], ARMS, strict=False))
    for row in even.to_dict("records"):
        extra = row["extra_ms"] + served * row["query_ms"] * row["query_extra_pct"] / 100
        cost = 100 * extra / (row["connect_ms"] + served * row["query_ms"])
        ax.plot(served, cost, color=ink[row["counted in"]], lw=2)
    for limit in limits:
        ax.axhline(limit, color=BAND, lw=1, ls=(0, (4, 3)))
        words = f"{limit:g}\u202f%"
        _note(ax, words, (1, limit), (-4, 2), ax.get_yaxis_transform(), color=BAND, ha="right")
    ax.set_xscale("log")
    ax.set_yscale("symlog", linthresh=1, linscale=0.5)
    ax.set_ylim(bottom=min(0, even["query_extra_pct"].min()))
    ax.yaxis.set_major_locator(FixedLocator([0, 1, 5, 20, 100, 500, 2000]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}\u202f%"))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    ax.set_xlabel("queries that a connection serves")
    _above(ax, "what TLS adds", title, {k: f"counted in {k}" for k in ink}, ink, narrow)
    return figure


def svg(figure, title="", description="", themed=True) -> str:
    """The figure as SVG text: same bytes for the same figure, text as text, no dates.

    `themed`: colours as CSS variables and `currentColor`, ids made unique, no fixed size, for
    embedding in a page; else a standalone file with plain colours on white."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "noisefloor"}):
        ground = "none" if themed else "white"
        figure.savefig(buffer, format="svg", facecolor=ground, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", text, flags=re.S)
    text = re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), text)
    text = re.sub(r"'?DejaVu Sans'?(, *[^;\"]*)?", "system-ui, sans-serif", text)
    if not themed:
        named = f"<title>{html.escape(title)}</title>" if title else ""
        named += f"<desc>{html.escape(description)}</desc>" if description else ""
        named += "<style>text{paint-order:stroke;stroke:#fff;stroke-width:3px}</style>"
        return re.sub(r"(<svg[^>]*)>", lambda m: f'{m[1]} role="img">{named}', text, count=1)
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


def write(figure, file: Path, title="", alt="") -> None:
    """The figure as a file of its own, `.svg` or `.png` (two dots a pixel), with `title` and `alt`
    inside it."""
    part = file.with_name(f"{file.name}.partial")
    if file.suffix == ".svg":
        part.write_text(svg(figure, title, alt, themed=False))
    else:
        words = {k: v for k, v in {"Title": title, "Description": alt}.items() if v}
        figure.savefig(part, format="png", dpi=144, facecolor="white", metadata=words)
    part.replace(file)


def alt(verdicts, metric=None) -> str:
    """Alternative text of a figure of verdicts: every comparison in words, from the table."""
    frame = verdicts if metric is None else verdicts[verdicts["metric"].eq(metric)]
    joint = is_joint(frame)
    several = "workload" in frame and frame["workload"].nunique() > 1
    parts = []
    for index, row in frame.iterrows():
        where = [threads_label(row["threads"], joint[index])]
        where += ["both servers loaded at once"] if row.get("design") == "duet" else []
        where = ", ".join(filter(None, where))
        parts.append(
            f"{row['workload'] + ': ' if several else ''}{metric_label(row['metric'])}"
            f"{f' {where}' if where else ''}, {row['arm']} against {row['baseline']}: "
            f"{row['verdict']}, {amounts.told(row['overhead_pct'], row['lo_pct'], row['hi_pct'], row['metric'])}"
            f"{' under contention' if contended(row) else ''}"
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
    text = sheet.cells(frame).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    data = base64.b64encode(text.encode()).decode()
    return (
        f'<a class="nf-data" download="{html.escape(name)}.csv" '
        f'href="data:text/csv;charset=utf-8;base64,{data}">data (CSV, {len(frame)} row{"s" * (len(frame) != 1)})</a>'
    )


def caption_html(text) -> str:
    """A caption as HTML: percent signs stay with their number, a full stop at the end."""
    text = re.sub(r"(?<=\d) %", "\u202f%", text.strip())
    return html.escape(text if not text or text[-1] in ".?!:" else f"{text}.")


def show(figure, *, alt="", caption="", data=None, title="", name="figure") -> Shown:
    """The figure as an HTML `<figure>`: inline SVG for wide and for narrow pages, caption, and
    `data` as a CSV link named `name`. `alt` says in words what the figure shows; a figure without
    it is refused."""
    if not alt:
        raise ValueError("a figure needs alternative text (alt=...); plots.alt(verdicts) makes it")
    title = title or caption.split(". ")[0] or "Figure"
    if folder := os.environ.get(FIGURES):
        stem = Path(folder) / f"{1 + len([*Path(folder).glob('*.svg')]):02d}-{name}"
        for kind in (".svg", ".png"):
            write(figure, stem.with_name(stem.name + kind), title, alt)
    drawings = svg(figure, title, alt)
    if narrow := getattr(figure, "narrow", None):
        drawings = f'<div class="nf-wide">{drawings}</div>'
        drawings += f'<div class="nf-narrow" style="display:none">{svg(narrow(), title, alt)}</div>'
    link = f" {csv_link(data, name)}" if data is not None and len(data) else ""
    words = f"<span>{caption_html(caption)}</span>" if caption else ""
    markup = f'<figure class="nf-figure">{drawings}<figcaption>{words}{link}</figcaption></figure>'
    return Shown(markup, f"{title}. {alt}")
