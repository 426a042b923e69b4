"""Comparisons: against thread count, over campaigns, row by row, step by step."""

import math
import textwrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from noisefloor.model import AGAIN
from noisefloor.schedule import NOT_JUDGED
from noisefloor.show.markup import GLYPHS
from noisefloor.show.plots import canvas
from noisefloor.show.plots.style import (
    ARMS,
    BAND,
    BASE,
    CONTROL,
    INK,
    MUTED,
    NARROW,
    RULE,
    WIDE,
    colours,
)
from noisefloor.show.rows import SHORT, counted, is_control, is_joint, metric_label, threads_label
from noisefloor.text import amounts

ASIDE = 128  # pixels of a wide figure, for names at the right


def _beside(arms) -> dict:
    """How far beside its place each arm is drawn, 1 from one to the next."""
    return {arm: i - (len(arms) - 1) / 2 for i, arm in enumerate(arms)}


def _arm_names(panel):
    names = {}
    for row, control in zip(panel.itertuples(), is_control(panel), strict=True):
        names[row.arm] = f"{row.arm} {'(A/A control)' if control else f'against {row.baseline}'}"
    return dict(sorted(names.items(), key=lambda item: item[0].endswith(AGAIN)))


# -- against thread count --------------------------------------------------------------------------


@canvas.responsive
def overhead(
    verdicts, metric="tps", *, margin_pct=2.0, published=None, by="metric", narrow=False
) -> Figure:
    """Overhead against thread count: the signature figure.

    `verdicts`: verdict table; `metric`: a name or several (one panel each). `by`: the column that
    makes the panels when there is one metric (`workload` or `arm` when these differ, `study`). The
    A/A control is drawn in grey, the noise floor as a dashed pair of lines, the joint effect as a
    diamond at the right. `published`: columns threads, overhead_pct and optionally lo_pct, hi_pct,
    label; drawn over ours.
    """
    metrics = [metric] if isinstance(metric, str) else list(metric)
    frame = verdicts[verdicts["metric"].isin(metrics)]
    frame = frame.assign(joint=is_joint(frame), control=is_control(frame))
    real = frame[~frame["control"]]
    if by == "metric" and len(metrics) == 1:
        by = next((c for c in ("workload", "arm") if c in real and real[c].nunique() > 1), by)
    keys = metrics if by == "metric" else pd.unique(real[by])
    keys = [k for k in keys if k in set(frame[by])]
    if not keys:
        raise ValueError(f"the verdict table has no row of metric {metric!r} to draw")
    if published is None:
        published = pd.DataFrame(columns=["threads", "overhead_pct"])
    panels = [frame[(frame[by] == k) | ((by == "arm") & frame["control"])] for k in keys]
    most = max(panel.loc[~panel["control"], "arm"].nunique() for panel in panels)
    high = (330 if narrow or len(keys) == 1 else 270) + 50 * max(most - 1, 0)
    figure, axes, _ = canvas.panels(len(keys), narrow, high, most=1)
    if not narrow:  # room at the right for the names of band and floor
        figure.get_layout_engine().set(rect=(0, 0, 1 - ASIDE / WIDE, 1))
    scales = [_reach(panel, margin_pct, list(published["overhead_pct"])) for panel in panels]
    if by != "metric" and max(s[2] for s in scales) <= 3 * min(s[2] for s in scales):
        lows, highs, limits = zip(*scales, strict=True)  # same metric, same scale
        scales = [(min(lows), max(highs), max(limits))] * len(scales)
    ink = colours(verdicts) | {"band": BAND, "floor": MUTED}
    for ax, key, panel, scale in zip(axes, keys, panels, scales, strict=True):
        canvas.band(ax, margin_pct)
        floor = _overhead_panel(ax, panel, scale, margin_pct, ink, narrow, published)
        name, names, colour = str(key), _arm_names(panel), INK
        if by == "metric":
            name = metric_label(key)
        elif by == "arm":
            name, colour = names.pop(key), ink[key]
        if narrow and ax is axes[0]:
            names["band"] = f"shaded: ±{margin_pct:g}\u202f% counts as same"
            names |= {"floor": "dashed: noise floor"} if floor else {}
        told = panel.loc[~panel["control"], "lo_pct"].notna().any()
        words = ", with its interval" if told else ", too few runs for an interval"
        words += " (↑ slower, ↓ faster)" if not narrow else " (↑ slower)" if told else ""
        name = textwrap.fill(name, 38 if narrow else 84)
        canvas.above(ax, canvas.shows(ax) + words, name, names, ink, narrow, colour)
    canvas.apart(figure)
    return figure


def _reach(panel, margin, beside) -> tuple[float, float, float]:
    """Lower and upper end of a panel, without the words in it, and what is beyond everything."""
    floor = panel["noise_floor_pct"].astype(float).replace(np.inf, np.nan)
    limit = canvas.farthest(panel, margin, np.nan_to_num(floor.median()))
    limit = max([limit, *(1.2 * canvas.away(x) for x in beside)])
    floor = 1.1 * floor[floor < limit].max()
    return *canvas.span(
        panel[canvas.SIZES], margin, limit, [*beside, floor, canvas.mirror(floor)]
    ), limit


def _overhead_panel(ax, panel, scale, margin, ink, small, published):
    """Draw one panel; the values of the noise floor in it."""
    low, high, limit = scale
    single = panel[~panel["joint"] & panel["threads"].notna()]
    counts = sorted({int(t) for t in (*single["threads"], *published["threads"])})
    at = {t: math.log2(t) for t in counts}
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
        ax.words = [canvas.note(ax, words, (1, 0), (10, 0), right, color=BAND, **aside)]
        if floor:
            words = "noise floor:\nless is noise"
            ax.words.append(canvas.note(ax, words, (1, floor[-1]), (10, 0), right, **aside))
    arms = pd.unique(panel.loc[~panel["control"], "arm"])
    place = {arm: i * 0.2 * step for arm, i in _beside(arms).items()}
    beside = 0.14 * step + max(place.values(), default=0.0)
    crowded = len(at) * len(arms) > (7 if small else 10)  # no room for words
    for row in single[single["control"]].itertuples():
        x = at[int(row.threads)] + beside
        canvas.whisker(ax, x, (row.lo_pct, row.hi_pct), limit, color=ink[row.arm], lw=4)
        y = canvas.cut(row.overhead_pct, limit)
        ax.plot(x, y, "o", ms=5, mfc="none", mec=ink[row.arm], mew=1.3, zorder=4)
        canvas.remember(ax, [x], [y], [row.Index])
    for arm, line in single[~single["control"]].sort_values("threads").groupby("arm", sort=False):
        xs = [at[int(t)] + place[arm] for t in line["threads"]]
        _line(ax, xs, line, limit, ink[arm], "o", small, crowded)
    for row in joint.itertuples():
        canvas.judged(ax, end + place[row.arm], row.Index, row, limit, ink[row.arm], "D", small)
    named = {}  # a label is drawn once, at the rightmost point
    for row in published.itertuples():
        x = at[int(row.threads)] - 0.16 * step
        ends = (getattr(row, "lo_pct", np.nan), getattr(row, "hi_pct", np.nan))
        canvas.whisker(ax, x, ends, limit, color=INK, lw=1.2, alpha=1)
        ax.plot(x, row.overhead_pct, "D", ms=6, mfc="none", mec=INK, mew=1.3, zorder=5)
        named[getattr(row, "label", "published")] = (x, row.overhead_pct)
    for words, point in named.items():
        side = "right" if point[0] > last - 0.5 * step and not len(joint) else "center"
        canvas.note(ax, words, point, (0, 9), va="bottom", color=INK, ha=side)
    wide, half = (300, 26) if small else (560, 46)  # pixels of the panel, of half a verdict
    room = max(0.55 * step, half * (end - first + step) / wide)
    begin, stop = first - room, (end if len(joint) else last) + room
    ax.set_xlim(begin, stop)
    canvas.scale(ax, low, high, 0.04, 0.2)  # room for points and words
    ticks, names = list(at.values()), _names_apart(at, wide / (stop - begin))
    if len(joint):
        ticks, names = [*ticks, end], [*names, "all"]
        ax.axvline(end - 0.5 * step, color=RULE, lw=0.8)
    ax.set_xticks(ticks, names)
    words = "threads (log scale)" + ("; all: joint effect" if len(joint) else "")
    ax.set_xlabel(_filled([words, *([_glyphs()] if crowded else [])], small))
    return floor


def _line(ax, xs, rows, limit, ink, mark, small, crowded):
    """Comparisons of one arm at the places `xs`, joined by a line; `crowded`: a sign for the word."""
    ax.plot(xs, canvas.cut(rows["overhead_pct"], limit), color=ink, lw=1, alpha=0.6, zorder=3)
    for x, row in zip(xs, rows.itertuples(), strict=True):
        told = row._replace(verdict=GLYPHS[row.verdict]) if crowded else row
        canvas.judged(ax, x, row.Index, told, limit, ink, mark, small or crowded)


def _glyphs() -> str:
    """What the marks stand for."""
    return ", ".join(f"{mark}\u00a0{word}".replace(" ", "\u00a0") for word, mark in GLYPHS.items())


def _filled(lines: list[str], small: bool) -> str:
    """Lines below an axis, broken where the figure ends."""
    return "\n".join(textwrap.fill(line, 48 if small else 100) for line in lines)


def _names_apart(at, pixels) -> list[str]:
    """The thread counts as tick labels, "" where one would cover the last; `pixels` a unit."""
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
        for line in (ys, canvas.mirror(ys)):
            ax.plot(xs, line, color=CONTROL, lw=1.1, ls=(0, (3, 3)), zorder=2)
        drawn += list(ys)
    return drawn


# -- over campaigns --------------------------------------------------------------------------------


@canvas.responsive
def history(frame, *, narrow=False) -> Figure:
    """How an overhead moved: a panel a comparison, a place a campaign in order of date, named by
    its date, server build and, where they differ, machine.

    `frame`: verdict rows of several campaigns with the columns campaign, date, engine, machine and
    margin_pct, as `store.history` returns them.
    """
    frame = frame.sort_values("date", kind="stable")
    what = ["workload", "metric", "threads", "joint"]
    panels = list(frame.groupby(what, sort=False, dropna=False))
    machines = list(pd.unique(frame["machine"]))
    figure, axes, small = canvas.panels(len(panels), narrow, 330)
    for ax, ((workload, metric, threads, joint), rows) in zip(axes, panels, strict=True):
        margin = rows["margin_pct"].iloc[-1]
        limit = canvas.farthest(rows, margin)
        canvas.band(ax, margin)
        words, left = f"within ±{margin:g}\u202f% counts as same", ax.get_yaxis_transform()
        canvas.note(ax, words, (0, -margin), (4, -3), left, color=BAND, va="top", zorder=7)
        places = rows.drop_duplicates(["campaign", "date"])
        at = {key: x for x, key in enumerate(zip(places["campaign"], places["date"], strict=True))}
        arms, ink = list(pd.unique(rows["arm"])), colours(rows)
        crowded = len(at) * len(arms) > (3 if small else 7)  # no room for words
        for arm, i in _beside(arms).items():
            mine = rows[rows["arm"] == arm]
            xs = [at[row.campaign, row.date] + i * 0.6 / len(arms) for row in mine.itertuples()]
            _line(ax, xs, mine, limit, ink[arm], "D" if joint else "o", small, crowded)
        names = [f"{row.date[:10]}\n{row.engine}" for row in places.itertuples()]
        if len(machines) > 1:
            which = [f"machine {machines.index(m) + 1}" for m in places["machine"]]
            names = [f"{name}\n{m}" for name, m in zip(names, which, strict=True)]
        turned = {"rotation": 90, "fontsize": 9} if len(at) > (3 if small else 6) else {}
        ax.set_xticks(range(len(at)), names, **turned)
        legend = [_glyphs()] if crowded else []
        legend += [f"machine {i}: {m}" for i, m in enumerate(machines, 1) if len(machines) > 1]
        ax.set_xlabel(_filled(legend, small), fontsize=10)
        ax.set_xlim(-0.6, len(at) - 0.4)
        canvas.scale(ax, *canvas.span(rows[canvas.SIZES], margin, limit), 0.12, 0.25)
        name = " ".join(filter(None, [metric_label(metric), threads_label(threads, joint)]))
        several = frame["workload"].nunique() > 1
        title = textwrap.fill(f"{workload}: {name}" if several else name, 44 if small else 90)
        words = f"{canvas.shows(ax)} (↑ slower, ↓ faster)"
        canvas.above(ax, words, title, _arm_names(rows), ink, small)
    canvas.apart(figure)
    return figure


# -- row by row ------------------------------------------------------------------------------------


@canvas.responsive
def dots(verdicts, *, by=("workload", "metric", "threads"), margin_pct=2.0, narrow=False) -> Figure:
    """Forest plot: a row a comparison, with interval, margin band and verdict in words.

    `by`: the columns that name a row; those that never differ are left out, and the first of
    several becomes a heading.
    """
    frame = verdicts
    names = [c for c in by if c in frame and frame[c].astype(str).nunique() > 1]
    if frame.loc[~is_control(frame), "arm"].nunique() > 1 and "arm" not in names:
        names.append("arm")
    head = names.pop(0) if len(names) > 1 and frame[names[0]].nunique() < len(frame) else None
    if head:
        turn = {value: i for i, value in enumerate(pd.unique(frame[head]))}
        frame = frame.sort_values(head, key=lambda c: c.map(turn), kind="stable")
    ink, limit = colours(verdicts), canvas.farthest(frame, margin_pct)
    found = list(zip(frame.iterrows(), is_joint(frame), strict=True))
    rows = [
        (_called(row, head, joint) if head else "", _row_name(row, names, joint), canvas.said(row, ", "),
         row.verdict, _numbers(row))
        for (_, row), joint in found
    ]  # fmt: skip
    left = 34 + 7.4 * max((len(name) for _, name, *_ in rows), default=10)
    figure, ax, places = _forest(rows, min(264, left), 272, margin_pct, narrow)
    for ((label, row), joint), place in zip(found, places, strict=True):
        mark = "D" if joint else "o"
        canvas.point(ax, place, label, row, limit, ink[row.arm], mark, level=True)
    ticks = int(ax.bbox.width / 55)
    canvas.scale(ax, *canvas.span(frame[canvas.SIZES], margin_pct, limit), 0.04, 0.04, "x", ticks)
    return figure


def _called(row, column, joint) -> str:
    """What the cell of a column is called in the name of a row."""
    if column == "threads":
        return "all threads" if joint else counted(row[column])
    if column == "metric":
        return metric_label(row[column])
    return "" if pd.isna(row[column]) else str(row[column])


def _row_name(row, names, joint) -> str:
    control, parts = row["arm"].endswith(AGAIN), []
    for name in names:
        value = _called(row, name, joint)
        value = SHORT.get(row[name], value) if name == "metric" else value
        parts += [] if name == "arm" and control else [value]
    parts += ["A/A control"] if control else []
    return ", ".join(filter(None, parts)) or metric_label(row["metric"])


def _numbers(row):
    """Overhead and interval of a row, short: as factors where one of them is told as a factor."""
    sizes = row.overhead_pct, row.lo_pct, row.hi_pct
    short = amounts.ratio if any(map(amounts.large, sizes)) else amounts.told
    return short(*sizes)


def _forest(rows, left, right, margin, narrow, unit=""):
    """A forest plot without its points: the figure, its axes, the height of each row.

    `rows`: (heading, name, verdict and size for a phone, verdict, numbers); `left` and `right`:
    pixels for the words beside the axes, for which a phone has no room."""
    left, right = (16, 24) if narrow else (left, right)
    y, places, raised, heads, last = 0.0, [], [], [], ""
    for section, name, short, *_ in rows:
        if section != last:
            y += 0.15 if places else 0.0
            heads.append((y, section))
            y, last = y + 1.0, section
        beside = 6.2 * len(name) + 7.1 * len(short) <= NARROW - 24
        raised.append(0.65 if narrow and not beside else 0.0)  # a line of its own for the name
        y += raised[-1]
        places.append(y + 0.75 * narrow)
        y += 1.7 if narrow else 1.0
    figure, ax = canvas.lined(y, 26, (left, right), (6, 44), narrow, above=0.55)
    canvas.band(ax, margin, axis="x")
    at, style = ax.get_yaxis_transform(), {"color": INK, "va": "center", "fontsize": 12}
    for spot, words in heads:
        canvas.note(ax, words, (0, spot), (-left + 8, 0), at, **style, weight="bold")
    for place, up, (section, name, short, verdict, numbers) in zip(
        places, raised, rows, strict=True
    ):
        if narrow:
            line = place - 0.75
            canvas.note(ax, name, (0, line - up), (8 - left, 0), at, **style)
            canvas.note(
                ax, short, (1, line), (right - 8, 0), at, ha="right", weight="bold", **style
            )
            continue
        room = (left - 28) / 5.6  # characters of a line at ten points
        name = name if len(name) <= 1.2 * room else textwrap.fill(name, int(room))
        small = min(12, 12 * room / max(map(len, name.split("\n")))) - ("\n" in name)
        shift = (-left + (20 if section else 8), 0)
        canvas.note(
            ax, name, (0, place), shift, at, **(style | {"fontsize": small, "linespacing": 1.05})
        )
        canvas.note(ax, verdict, (1, place), (12, 0), at, weight="bold", **style)
        far = {"ha": "right", "color": MUTED}
        canvas.note(ax, numbers, (1, place), (right - 4, 0), at, **(style | far))
    middle = f"±{margin:g}\u202f% {'counts as' if ax.bbox.width > 260 else 'is'} same"
    for x, words, side, ink in (
        (0, "← faster", "left", MUTED),
        (1, f"slower{unit} →", "right", MUTED),
        (0.5, middle, "center", BAND),
    ):
        canvas.note(ax, words, (x, 0), (0, -26), "axes fraction", va="top", ha=side, color=ink)
    return figure, ax, places


@canvas.responsive
def claims(frame, *, margin_pct=2.0, narrow=False) -> Figure:
    """Forest of published claims: each effect as a dot over the grey bar of what its own data
    cannot tell from zero. A dot is hollow where there is no verdict; no bar, no noise floor.

    `frame`: rows of a verdict table with the columns `title` (a heading) and `label`. The axis is
    linear within the margin and logarithmic beyond, so that 3 % and 300 % both can be read.
    """
    frame = frame[frame["overhead_pct"].notna()]
    rows = [
        (row.title, row.label, f"{GLYPHS[row.verdict]} {canvas.size(row)}",
         f"{GLYPHS[row.verdict]} {row.verdict}", canvas.size(row))
        for row in frame.itertuples()
    ]  # fmt: skip
    figure, ax, places = _forest(rows, 252, 196, margin_pct, narrow, ", %")
    beyond = 1.4 * canvas.away(frame["overhead_pct"]).max()
    ends = canvas.span(1.4 * frame[["overhead_pct"]], 2 * margin_pct, beyond)
    ax.set_xscale("symlog", linthresh=margin_pct, linscale=0.8)
    for place, row in zip(places, frame.itertuples(), strict=True):
        floor = row.noise_floor_pct
        if pd.notna(floor):
            bar = {"color": CONTROL, "lw": 9, "alpha": 0.55, "zorder": 2}
            ax.plot([canvas.mirror(floor), floor], [place] * 2, **bar)
        ink = {"slower": ARMS[1], "faster": ARMS[0], "same": BAND}.get(row.verdict, INK)
        face = "none" if row.verdict == "cannot tell" else ink
        ax.plot(row.overhead_pct, place, "o", ms=7, mec=ink, mew=1.6, zorder=5, mfc=face)
    ax.set_xlim(*ends)
    ticks = (-50, -10, -margin_pct, 0, margin_pct, 10, 50, 300, 1900)
    ax.xaxis.set_major_locator(FixedLocator([t for t in ticks if ends[0] < t < ends[1]]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(_claimed)
    return figure


def _claimed(value, _=None):
    if amounts.large(value):
        return f"{1 + value / 100:g}×"
    return f"{value:+g}".replace("-", "−") if value else "0"


# -- step by step ----------------------------------------------------------------------------------


@canvas.responsive
def waterfall(steps, *, margin_pct=2.0, narrow=False) -> Figure:
    """What each step adds to the overhead, one floating bar a step and the sum at the end.

    `steps`: step, arm, start_pct, end_pct (overhead against the baseline before and after it),
    lo_pct, hi_pct (where the end may lie, given the start), overhead_pct (the step's own), verdict;
    see `results.Results.steps`.
    """
    ink = colours(steps)
    figure, (ax,) = canvas.sheet(narrow, 330)
    ends = steps[["start_pct", "end_pct", "lo_pct", "hi_pct"]].astype(float)
    away = canvas.away(ends)
    limit = max(2 * margin_pct, 1.3 * away[["start_pct", "end_pct"]].max().max())
    limit = np.nanmax([limit, min(1.1 * away.max().max(), 3 * limit)])
    canvas.band(ax, margin_pct)
    for x, row in enumerate(steps.itertuples()):
        colour = ink[row.arm] if row.step != "all together" else BASE
        low, high = sorted((row.start_pct, row.end_pct))
        ax.bar(x, high - low, 0.56, low, color=colour, alpha=0.75, lw=0, zorder=2)
        canvas.whisker(ax, x, (row.lo_pct, row.hi_pct), limit, color=INK, lw=2, alpha=1)
        if x + 1 < len(steps) and steps["start_pct"].iloc[x + 1] == row.end_pct:
            ax.plot([x - 0.28, x + 1.28], [row.end_pct] * 2, color=MUTED, lw=0.8, zorder=3)
        top = np.nanmax([high, canvas.cut(row.hi_pct, limit)])
        style = {"ha": "center", "va": "bottom", "color": INK, "weight": "bold", "zorder": 6}
        canvas.note(
            ax, canvas.said(row, "\n"), (x, top), (0, 5), fontsize=10 if narrow else 12, **style
        )
    canvas.scale(ax, *canvas.span(ends, margin_pct, limit), 0.06, 0.25)
    ax.set_xlim(-0.6, len(steps) - 0.4)
    names = [textwrap.fill(s, 10 if narrow else 24) for s in steps["step"]]
    ax.set_xticks(range(len(steps)), names)
    words = f"{canvas.shows(ax)} (↑ slower, ↓ faster)"
    words += "" if narrow else f"; in the band, ±{margin_pct:g}\u202f%, it counts as same"
    canvas.above(ax, words)
    return figure
