"""Comparisons: against thread count, row by row, over campaigns, step by step."""

import math
import textwrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from noisefloor.model import AGAIN
from noisefloor.schedule import NOT_JUDGED
from noisefloor.show.markup import GLYPHS
from noisefloor.show.plots import canvas
from noisefloor.show.plots.canvas import ARMS, BAND, BASE, CONTROL, INK, MUTED, colours
from noisefloor.show.rows import SHORT, counted, is_control, is_joint, metric_label, threads_label
from noisefloor.text import amounts

ASIDE = 128  # pixels of a wide figure, for names at the right

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
        figure.get_layout_engine().set(rect=(0, 0, 1 - ASIDE / canvas.WIDE, 1))
    scales = [_reach(panel, margin_pct, list(published["overhead_pct"])) for panel in panels]
    if by != "metric" and max(s[2] for s in scales) <= 3 * min(s[2] for s in scales):
        lows, highs, limits = zip(*scales, strict=True)  # same metric, same scale
        scales = [(min(lows), max(highs), max(limits))] * len(scales)
    ink = colours(verdicts) | {"band": BAND, "floor": MUTED}
    for ax, key, panel, scale in zip(axes, keys, panels, scales, strict=True):
        canvas.band(ax, margin_pct)
        floor = _against_threads(ax, panel, scale, margin_pct, ink, narrow, published)
        names = {
            row.arm: f"{row.arm} {'(A/A control)' if row.control else f'against {row.baseline}'}"
            for row in sorted(panel.itertuples(), key=lambda row: row.arm.endswith(AGAIN))
        }
        name, colour = metric_label(key) if by == "metric" else str(key), INK
        if by == "arm":
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
    beside = [*beside, floor, canvas.mirror(floor)]
    return *canvas.span(panel[canvas.SIZES], margin, limit, beside), limit


def _against_threads(ax, panel, scale, margin, ink, small, published) -> list:
    """Draw one panel; the values of the noise floor in it."""
    low, high, limit = scale
    own, single = panel[~panel["control"]], panel[~panel["joint"] & panel["threads"].notna()]
    counts = sorted({int(t) for t in (*single["threads"], *published["threads"])})
    at = {t: math.log2(t) for t in counts}
    first, last = min(at.values(), default=0.0), max(at.values(), default=0.0)
    step = (last - first) / (len(at) - 1) if len(at) > 1 else 1.0
    joint = own[own["joint"]] if len(at) > 1 else own[:0]
    end = last + 0.95 * step  # the place of the joint effect
    arms = list(pd.unique(own["arm"]))
    place = {arm: 0.2 * step * (i - (len(arms) - 1) / 2) for i, arm in enumerate(arms)}
    lines = single[~single["control"]].sort_values("threads")
    floor = _floor_lines(ax, lines[lines["verdict"] != NOT_JUDGED], at, step, limit)
    floor += _floor_lines(ax, joint.assign(threads=0), {0: end}, step, limit)
    if not small:
        aside = {"va": "center", "linespacing": 1.15, "zorder": 7}
        right = ax.get_yaxis_transform()
        words = f"within ±{margin:g}\u202f%\ncounts as same"
        ax.words = [canvas.note(ax, words, (1, 0), (10, 0), right, color=BAND, **aside)]
        if floor:
            words = "noise floor:\nless is noise"
            ax.words.append(canvas.note(ax, words, (1, floor[-1]), (10, 0), right, **aside))
    beside = 0.14 * step + max(place.values(), default=0.0)
    for row in single[single["control"]].itertuples():
        x = at[int(row.threads)] + beside
        canvas.whisker(ax, x, (row.lo_pct, row.hi_pct), limit, color=ink[row.arm], lw=4)
        y = canvas.cut(row.overhead_pct, limit)
        ax.plot(x, y, "o", ms=5, mfc="none", mec=ink[row.arm], mew=1.3, zorder=4)
        canvas.remember(ax, [x], [y], [row.Index])
    crowded = len(at) * len(arms) > (7 if small else 10)  # no room for words, signs instead
    for arm, line in lines.groupby("arm", sort=False):
        xs = [at[int(t)] + place[arm] for t in line["threads"]]
        ys = canvas.cut(line["overhead_pct"], limit)
        ax.plot(xs, ys, color=ink[arm], lw=1, alpha=0.6, zorder=3)
        for x, row in zip(xs, line.itertuples(), strict=True):
            told = row._replace(verdict=GLYPHS[row.verdict]) if crowded else row
            canvas.judged(ax, x, told, limit, ink[arm], "o", small or crowded)
    for row in joint.itertuples():
        canvas.judged(ax, end + place[row.arm], row, limit, ink[row.arm], "D", small)
    named = {}  # a label is drawn once, at the rightmost point
    for row in published.itertuples():
        point = at[int(row.threads)] - 0.16 * step, row.overhead_pct
        named[getattr(row, "label", "published")] = point
        ends = getattr(row, "lo_pct", np.nan), getattr(row, "hi_pct", np.nan)
        canvas.whisker(ax, point[0], ends, limit, color=INK, lw=1.2, alpha=1)
        ax.plot(*point, "D", ms=6, mfc="none", mec=INK, mew=1.3, zorder=5)
    for words, point in named.items():
        side = "right" if point[0] > last - 0.5 * step and not len(joint) else "center"
        canvas.note(ax, words, point, (0, 9), va="bottom", color=INK, ha=side)
    wide, half = (300, 26) if small else (560, 46)  # pixels of the panel, of half a verdict
    room = max(0.55 * step, half * (end - first + step) / wide)
    begin, stop = first - room, (end if len(joint) else last) + room
    ax.set_xlim(begin, stop)
    canvas.scale(ax, low, high, 0.04, 0.2)  # room for points and words
    ticks, names, edge = list(at.values()), [], -math.inf
    for count, x in at.items():  # no name covers the last
        pixel, half = wide * x / (stop - begin), 4 * len(str(count))
        names.append(str(count) if pixel - half > edge + 4 else "")
        edge = pixel + half if names[-1] else edge
    words = ["threads (log scale)"]
    if len(joint):
        ticks, names, words = [*ticks, end], [*names, "all"], [f"{words[0]}; all: joint effect"]
        ax.axvline(end - 0.5 * step, color=canvas.RULE, lw=0.8)
    ax.set_xticks(ticks, names)
    if crowded:
        signs = (f"{mark} {word}".replace(" ", "\u00a0") for word, mark in GLYPHS.items())
        words.append(", ".join(signs))
    ax.set_xlabel("\n".join(textwrap.fill(line, 48 if small else 100) for line in words))
    return floor


def _floor_lines(ax, rows, at, step, limit) -> list:
    """The noise floor of each comparison as dashed lines above and below zero; its values."""
    floor = rows.set_index("threads")["noise_floor_pct"].astype(float).replace(np.inf, np.nan)
    floor = floor.dropna().groupby(level=0).max().sort_index()
    floor = floor[floor < limit]
    if floor.empty:
        return []
    xs = [at[int(t)] for t in floor.index]
    xs = [xs[0] - 0.4 * step, *xs, xs[-1] + 0.4 * step]
    ys = floor.to_numpy()[[0, *range(len(floor)), -1]]
    for line in (ys, canvas.mirror(ys)):
        ax.plot(xs, line, color=CONTROL, lw=1.1, ls=(0, (3, 3)), zorder=2)
    return list(ys)


# -- row by row ------------------------------------------------------------------------------------


@canvas.responsive
def dots(verdicts, *, by=("workload", "metric", "threads"), margin_pct=2.0, narrow=False) -> Figure:
    """Forest plot: a row a comparison, with interval, margin band and verdict in words.

    `by`: the columns that name a row; those that never differ are left out, and the first of
    several becomes a heading.
    """
    frame = verdicts.assign(joint=is_joint(verdicts))
    names = [c for c in by if c in frame and frame[c].astype(str).nunique() > 1]
    if frame.loc[~is_control(frame), "arm"].nunique() > 1 and "arm" not in names:
        names.append("arm")
    head = names.pop(0) if len(names) > 1 and frame[names[0]].nunique() < len(frame) else None
    if head:
        turn = {value: i for i, value in enumerate(pd.unique(frame[head]))}
        frame = frame.sort_values(head, key=lambda c: c.map(turn), kind="stable")
    named = [
        (_called(row, head) if head else "", _row_name(row, names))
        for row in frame.to_dict("records")
    ]
    return _intervals(frame, named, margin_pct, narrow)


def _called(row, column) -> str:
    """What the cell of a column is called in the name of a row."""
    if column == "threads":
        return "all threads" if row["joint"] else counted(row[column])
    if column == "metric":
        return metric_label(row[column])
    return "" if pd.isna(row[column]) else str(row[column])


def _row_name(row, names) -> str:
    again = row["arm"].endswith(AGAIN)
    parts = [
        SHORT.get(row[name], _called(row, name)) if name == "metric" else _called(row, name)
        for name in names
        if not (name == "arm" and again)
    ]
    parts += ["A/A control"] if again else []
    return ", ".join(filter(None, parts)) or metric_label(row["metric"])


@canvas.responsive
def history(frame, *, narrow=False) -> Figure:
    """How an overhead moved: for every comparison a row a campaign in order of date, named by its
    date, server build and, where they differ, machine.

    `frame`: verdict rows of several campaigns with the columns campaign, date, engine, machine and
    margin_pct, as `store.history` returns them.
    """
    frame = frame.sort_values("date", kind="stable")
    several = frame[["workload", "arm", "machine"]].nunique() > 1
    turn = frame.groupby(["workload", "metric", "threads", "joint"], sort=False, dropna=False)
    frame = frame.loc[turn.ngroup().sort_values(kind="stable").index]
    machines = list(pd.unique(frame["machine"]))
    named = []
    for row in frame.itertuples():
        what = f"{metric_label(row.metric)} {threads_label(row.threads, row.joint)}".strip()
        parts = [row.date[:10], row.engine, row.arm if several["arm"] else ""]
        parts += [f"machine {machines.index(row.machine) + 1}" if several["machine"] else ""]
        named.append(
            (
                f"{row.workload}: {what}" if several["workload"] else what,
                ", ".join(filter(None, parts)),
            )
        )
    told = [f"machine {i}: {m}" for i, m in enumerate(machines, 1) if several["machine"]]
    legend = [line for words in told for line in textwrap.wrap(words, 56 if narrow else 120)]
    return _intervals(frame, named, frame["margin_pct"].iloc[-1], narrow, legend)


def _intervals(frame, named, margin, narrow, legend=()) -> Figure:
    """A forest of the rows of a verdict table: each with its point and interval in the arm's colour.
    `named`: heading and name of each row."""
    ink, limit = colours(frame), canvas.farthest(frame, margin)
    rows = []
    for names, row in zip(named, frame.itertuples(), strict=True):
        sizes = row.overhead_pct, row.lo_pct, row.hi_pct
        factors = any(amounts.large(size, row.metric) for size in sizes)
        short = amounts.ratio if factors else amounts.told
        rows.append((*names, canvas.said(row, ", "), row.verdict, short(*sizes)))
    left = 34 + 7.4 * max((len(name) for _, name in named), default=10)
    figure, ax, places = _forest(rows, min(264, left), 272, margin, narrow, legend=legend)
    for place, row in zip(places, frame.itertuples(), strict=True):
        canvas.point(ax, place, row, limit, ink[row.arm], "D" if row.joint else "o", level=True)
    ticks = int(ax.bbox.width / 55)
    canvas.scale(ax, *canvas.span(frame[canvas.SIZES], margin, limit), 0.04, 0.04, "x", ticks)
    return figure


def _forest(rows, left, right, margin, narrow, unit="", legend=()):
    """A forest plot without its points: the figure, its axes, the height of each row.

    `rows`: (heading, name, verdict and size for a phone, verdict, numbers); `left` and `right`:
    pixels for the words beside the axes, for which a phone has no room; `legend`: lines below."""
    left, right = (20, 24) if narrow else (left, right)  # half a tick's name at least
    y, places, raised, heads, last = 0.0, [], [], [], ""
    for section, name, short, *_ in rows:
        if section != last:
            y += 0.15 if places else 0.0
            heads.append((y, section))
            y, last = y + 1.0, section
        beside = 6.2 * len(name) + 7.1 * len(short) <= canvas.NARROW - 24
        raised.append(0.65 if narrow and not beside else 0.0)  # a line of its own for the name
        y += raised[-1]
        places.append(y + 0.75 * narrow)
        y += 1.7 if narrow else 1.0
    ends = 6, 44 + 16 * len(legend)
    figure, ax = canvas.lined(y, 26, (left, right), ends, narrow, above=0.55)
    canvas.band(ax, margin, axis="x")
    at, style = ax.get_yaxis_transform(), {"color": INK, "va": "center", "fontsize": 12}
    bold, start, far = style | {"weight": "bold"}, 8 - left, {"ha": "right"}
    for spot, words in heads:
        canvas.note(ax, words, (0, spot), (start, 0), at, **bold)
    for place, up, (section, name, short, verdict, numbers) in zip(
        places, raised, rows, strict=True
    ):
        if narrow:
            line = place - 0.75
            canvas.note(ax, name, (0, line - up), (start, 0), at, **style)
            canvas.note(ax, short, (1, line), (right - 8, 0), at, **bold, **far)
            continue
        room = (left - 28) / 5.6  # characters of a line at ten points
        name = name if len(name) <= 1.2 * room else textwrap.fill(name, int(room))
        small = min(12, 12 * room / max(map(len, name.split("\n")))) - ("\n" in name)
        look = style | {"fontsize": small, "linespacing": 1.05}
        canvas.note(ax, name, (0, place), (start + 12 * bool(section), 0), at, **look)
        canvas.note(ax, verdict, (1, place), (12, 0), at, **bold)
        canvas.note(ax, numbers, (1, place), (right - 4, 0), at, **style | far | {"color": MUTED})
    middle = f"±{margin:g}\u202f% {'counts as' if ax.bbox.width > 260 else 'is'} same"
    below = {"at": "axes fraction", "va": "top"}
    canvas.note(ax, "← faster", (0, 0), (0, -26), ha="left", **below)
    canvas.note(ax, f"slower{unit} →", (1, 0), (0, -26), ha="right", **below)
    canvas.note(ax, middle, (0.5, 0), (0, -26), ha="center", color=BAND, **below)
    for i, line in enumerate(legend):
        canvas.note(ax, line, (0, 0), (start, -44 - 16 * i), **below)
    return figure, ax, places


@canvas.responsive
def claims(frame, *, margin_pct=2.0, narrow=False) -> Figure:
    """Forest of published claims: each effect as a dot over the grey bar of what its own data
    cannot tell from zero. A dot is hollow where there is no verdict; no bar, no noise floor.

    `frame`: rows of a verdict table with the columns `title` (a heading) and `label`. The axis is
    linear within the margin and logarithmic beyond, so that 3 % and 300 % both can be read.
    """
    frame = frame[frame["overhead_pct"].notna()]
    rows = []
    for row in frame.itertuples():
        glyph, size = GLYPHS[row.verdict], canvas.size(row)
        rows.append((row.title, row.label, f"{glyph} {size}", f"{glyph} {row.verdict}", size))
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
    names = {t: f"{t:+g}".replace("-", "−") if t else "0" for t in ticks}
    names |= {t: f"{1 + t / 100:g}×" for t in ticks if amounts.large(t)}
    at = [t for t in ticks if ends[0] < t < ends[1]]
    canvas.ticks(ax.xaxis, at, lambda value, _: names[value])
    return figure


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
    style = {"ha": "center", "va": "bottom", "color": INK, "weight": "bold", "zorder": 6}
    for x, row in enumerate(steps.itertuples()):
        colour = ink[row.arm] if row.step != "all together" else BASE
        low, high = sorted((row.start_pct, row.end_pct))
        ax.bar(x, high - low, 0.56, low, color=colour, alpha=0.75, lw=0, zorder=2)
        canvas.whisker(ax, x, (row.lo_pct, row.hi_pct), limit, color=INK, lw=2, alpha=1)
        if x + 1 < len(steps) and steps["start_pct"].iloc[x + 1] == row.end_pct:
            ax.plot([x - 0.28, x + 1.28], [row.end_pct] * 2, color=MUTED, lw=0.8, zorder=3)
        top = np.nanmax([high, canvas.cut(row.hi_pct, limit)])
        words, size = canvas.said(row, "\n"), 10 if narrow else 12
        canvas.note(ax, words, (x, top), (0, 5), fontsize=size, **style)
    canvas.scale(ax, *canvas.span(ends, margin_pct, limit), 0.06, 0.25)
    ax.set_xlim(-0.6, len(steps) - 0.4)
    names = [textwrap.fill(s, 10 if narrow else 24) for s in steps["step"]]
    ax.set_xticks(range(len(steps)), names)
    words = f"{canvas.shows(ax)} (↑ slower, ↓ faster)"
    words += "" if narrow else f"; in the band, ±{margin_pct:g}\u202f%, it counts as same"
    canvas.above(ax, words)
    return figure
