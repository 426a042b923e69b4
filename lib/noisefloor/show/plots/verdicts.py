"""Comparisons: against thread count and load, row by row, over campaigns."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from noisefloor.data.alarm import EXPECTED
from noisefloor.model import CONTROL_SUFFIX
from noisefloor.schedule import MOST_SATURATED
from noisefloor.show.markup import GLYPHS, say
from noisefloor.show.plots import canvas
from noisefloor.show.plots.canvas import BAND, CONTROL, INK, MUTED, PAGE, Axes, Inks, Palette
from noisefloor.show.rows import (
    ENDS,
    Row,
    arm_label,
    counted,
    differing,
    is_control,
    is_joint,
    metric_label,
    threads_label,
)
from noisefloor.stats.verdict import kind
from noisefloor.text import amounts

_ASIDE = 128  # pixels of a wide figure, for names at the right

# -- against thread count --------------------------------------------------------------------------


@canvas.responsive
def threads_figure(
    verdicts: pd.DataFrame,
    metric: str | Sequence[str] = "tps",
    *,
    published: pd.DataFrame | None = None,
    by: str = "metric",
    palette: Palette = PAGE,
    narrow: bool = False,
) -> Figure:
    """Change against thread count: the signature figure. `metric`: a name or several (a panel
    each); `by`: the column that makes the panels of one metric (`workload` or `arm` when these
    differ, `study`). The A/A control is grey, the joint effect a diamond at the right.
    `published`: columns threads, change_pct and optionally lo_pct, hi_pct, label; drawn over ours.
    Raises ValueError where no row has the metric."""
    metrics = [metric] if isinstance(metric, str) else list(metric)
    frame = verdicts[verdicts["metric"].isin(metrics)]
    frame = frame.assign(joint=is_joint(frame), control=is_control(frame))
    real = frame[~frame["control"]]
    if by == "metric" and len(metrics) == 1:
        by = next(iter(differing(real, "workload", "arm")), by)
    keys = metrics if by == "metric" else list(pd.unique(real[by]))
    keys = [key for key in keys if key in set(frame[by])]
    if not keys:
        raise ValueError(f"the verdict table has no row of metric {metric!r} to draw")
    if published is None:
        published = pd.DataFrame(columns=["threads", "change_pct"])
    panels = [frame[(frame[by] == key) | ((by == "arm") & frame["control"])] for key in keys]
    most = max(panel.loc[~panel["control"], "arm"].nunique() for panel in panels)
    columns = 1 if narrow or len(published) else min(len(keys), 2)
    lines, small = math.ceil(len(keys) / columns), narrow or columns > 1
    high = (330 if small or len(keys) == 1 else 270) + 50 * max(most - 1, 0)
    figure, axes = canvas.sheet(narrow, high * lines + 8, lines, columns)
    for ax in axes[len(keys) :]:
        ax.set_visible(False)
    if not small:  # room at the right for the name of the band
        engine: Any = figure.get_layout_engine()
        engine.set(rect=(0, 0, 1 - _ASIDE / canvas.WIDE, 1))
    scales = [_reach(panel, list(published["change_pct"])) for panel in panels]
    if by != "metric" and max(s[2] for s in scales) <= 3 * min(s[2] for s in scales):
        lows, highs, limits = zip(*scales, strict=True)  # one metric, one scale
        scales = [(min(lows), max(highs), max(limits))] * len(scales)
    ink = palette.of(verdicts) | {"band": BAND, "base": MUTED}
    for ax, key, panel, scale in zip(axes, keys, panels, scales, strict=False):
        margin, shown = panel["margin_pct"].max(), panel["metric"].iloc[0]
        canvas.band(ax, margin)
        _against_threads(ax, panel, scale, ink, small, published, not narrow)
        rows: list[Any] = [*panel.itertuples()]
        names = {
            row.arm: arm_label(row.arm) + ("" if row.control else f" against {row.baseline}")
            for row in sorted(rows, key=lambda row: row.arm.endswith(CONTROL_SUFFIX))
        }
        name, colour = metric_label(key) if by == "metric" else str(key), INK
        if by == "arm":
            name, colour = names.pop(key), ink[key]
        if small and (ax is axes[0] or by == "metric"):
            names["band"] = f"shaded: {_same(margin)}"
        if small and ax is axes[0] and any(map(canvas.is_range, rows)):
            names["base"] = "thin bar: range of the boots"
        words = canvas.shows(ax, shown, "" if small else _bars(panel[~panel["control"]]))
        words = words if by == "metric" else f"{metric_label(shown, True)}: {words}"
        name = textwrap.fill(name, 38 if small else 84)
        canvas.above(ax, words, name, names, ink, small, colour)
    canvas.apart(figure)
    return figure


def _bars(rows: pd.DataFrame) -> str:
    """What the bars of a panel are."""
    if rows["lo_pct"].isna().all():
        return ", too few runs for an interval"
    ranges = any(canvas.is_range(row) for row in rows.itertuples())
    return f", 95{amounts.PERCENT} interval{'; thin: range of the boots' * ranges}"


def _same(margin: float, between: str = " ") -> str:
    """What the band means."""
    return f"within {amounts.plus_minus(margin)}{between}counts as same"


def _reach(panel: pd.DataFrame, beside: Sequence[float]) -> tuple[float, float, float]:
    """(lower end, upper end, limit where changes are cut) of a panel without the words in it."""
    real = panel[~panel["control"]] if not panel["control"].all() else panel
    limit = max([canvas.farthest(real), *(1.2 * canvas.away(x) for x in beside)])
    return *canvas.span(real[ENDS], panel["margin_pct"].max(), limit, beside), limit


def _against_threads(
    ax: Axes,
    panel: pd.DataFrame,
    scale: tuple[float, float, float],
    ink: Inks,
    small: bool,
    published: pd.DataFrame,
    sized: bool,
) -> None:
    """Draw one panel; sized: with changes beside the words."""
    row: Any
    low, high, limit = scale
    real, single = panel[~panel["control"]], panel[~panel["joint"] & panel["threads"].notna()]
    counts = sorted({int(t) for t in (*single["threads"], *published["threads"])})
    at = {t: math.log2(t) for t in counts}
    first, last = min(at.values(), default=0.0), max(at.values(), default=0.0)
    step = (last - first) / (len(at) - 1) if len(at) > 1 else 1.0
    joint = real[real["joint"]] if len(at) > 1 else real[:0]
    end = last + 0.95 * step  # the place of the joint effect
    arms = list(pd.unique(real["arm"]))
    place = {arm: 0.2 * step * (i - (len(arms) - 1) / 2) for i, arm in enumerate(arms)}
    lines = single[~single["control"]].sort_values("threads")
    if not small:
        aside = {"va": "center", "linespacing": 1.15, "zorder": 7, "color": BAND}
        words, at_right = _same(panel["margin_pct"].max(), "\n"), ax.get_yaxis_transform()
        ax.words = [canvas.note(ax, words, (1, 0), (10, 0), at_right, **aside)]
    wide, half = (300, 26) if small else (560, 46)  # pixels of the panel, of half a verdict
    room = max(0.55 * step, half * (end - first + step) / wide)
    begin, stop = first - room, (end if len(joint) else last) + room
    word = (half + 6) * (stop - begin) / wide
    beside = word if 2.2 * word < step else 0.14 * step  # beside the words, where these leave room
    beside += max(place.values(), default=0.0)
    for row in single[single["control"]].itertuples():
        x, ends = at[int(row.threads)] + beside, (low, high)
        canvas.whisker(ax, x, (row.lo_pct, row.hi_pct), ends, color=ink[row.arm], lw=4)
        y = canvas.cut(row.change_pct, ends)
        ax.plot(x, y, "o", ms=5, mfc="none", mec=ink[row.arm], mew=1.3, zorder=4)
        canvas.remember(ax, [x], [y], [row.Index])
    crowded = len(at) * len(arms) > (7 if small else 10)  # no room for words, signs instead
    gap = min(np.diff([*at.values()]), default=step) * wide / (stop - begin)
    short = small or crowded or gap < 2 * half  # words that fit between two neighbours
    for arm, line in lines.groupby("arm", sort=False):
        xs = [at[int(t)] + place[arm] for t in line["threads"]]
        ys = canvas.cut(line["change_pct"], limit)
        ax.plot(xs, ys, color=ink[arm], lw=1, alpha=0.6, zorder=3)
        for x, row in zip(xs, line.itertuples(), strict=True):
            words = GLYPHS.get(kind(row.verdict), "") if crowded else _words(row, short, sized)
            canvas.judged(ax, x, row, limit, ink[arm], "o", words, short)
    for row in joint.itertuples():
        x, words = end + place[row.arm], _words(row, small, sized)
        canvas.judged(ax, x, row, limit, ink[row.arm], "D", words, small)
    named: dict[str, tuple[float, float]] = {}  # a label is drawn once, at the rightmost point
    for row in published.itertuples():
        point = at[int(row.threads)] - 0.16 * step, row.change_pct
        named[getattr(row, "label", "published")] = point
        ends = getattr(row, "lo_pct", np.nan), getattr(row, "hi_pct", np.nan)
        canvas.whisker(ax, point[0], ends, limit, color=INK, lw=1.2, alpha=1)
        ax.plot(*point, "D", ms=6, mfc="none", mec=INK, mew=1.3, zorder=5)
    for words, point in named.items():
        side = "right" if point[0] > last - 0.5 * step and not len(joint) else "center"
        style = {"va": "bottom", "color": INK, "ha": side}
        ax.words = [*getattr(ax, "words", ()), canvas.note(ax, words, point, (0, 9), **style)]
    ax.set_xlim(begin, stop)
    metric = panel["metric"].iloc[0]
    canvas.scale(ax, low, high, 0.04, 0.2, metric=metric)  # room for points and words
    ticks, names, edge = list(at.values()), [], -math.inf
    for count, x in at.items():  # no name covers the last
        pixel, half = wide * x / (stop - begin), 4 * len(str(count))
        names.append(str(count) if pixel - half > edge + 4 else "")
        edge = pixel + half if names[-1] else edge
    label = ["threads (log scale)"]
    if len(joint):
        ticks, names, label = [*ticks, end], [*names, "all"], [f"{label[0]}; all: over all of them"]
        ax.axvline(end - 0.5 * step, color=canvas.RULE, lw=0.8)
    ax.set_xticks(ticks, names)
    if crowded:
        there = set(lines["verdict"].map(kind))
        signs = (f"{mark} {name}" for name, mark in GLYPHS.items() if name in there)
        label.append(", ".join(sign.replace(" ", "\u00a0") for sign in signs))
    ax.set_xlabel("\n".join(textwrap.fill(line, 48 if small else 100) for line in label))


def _words(row: Any, short: bool, sized: bool = False) -> str:
    """Verdict and change of a point; `short`: in short lines, with the change only if `sized`."""
    word = canvas.verdict_label(row, True)  # the thin bar shows that it is a range
    word = textwrap.fill(word, 7, break_long_words=False) if short else word
    return f"{word}\n{canvas.size(row)}".strip() if sized or not short else word


# -- against load ----------------------------------------------------------------------------------


@canvas.responsive
def load_figure(
    latencies: pd.DataFrame,
    rows: pd.DataFrame,
    *,
    capacity: float = 0.0,
    noun: str = "transactions",
    narrow: bool = False,
) -> Figure:
    """Latency of every arm against the offered load, and beside it (on a phone below it) the change
    of p99. `latencies`: as `results.load_curve` returns them; `rows`: verdict rows of p99 with the
    column rate; `capacity`: transactions a second that the baseline reaches at most, 0 where not
    measured; `noun`: what is offered."""
    row: Any
    ink = PAGE.of(rows if len(rows) else latencies)
    shape: Any = {"rows": 2, "height_ratios": [1.5, 1]}
    shape = shape if narrow else {"columns": 2, "width_ratios": [1.25, 1]}
    figure, (top, low) = canvas.sheet(narrow, 470 if narrow else 340, sharex=True, **shape)
    rates = sorted(latencies["rate"].unique())
    end = 1.16 * max(rates[-1], capacity)  # room for half a word
    names: dict[Any, str] = {}
    for arm, part in latencies.groupby("arm", sort=False):
        line = {"color": ink[arm], "ms": 6, "lw": 1.8}
        top.plot(part["rate"], 1e3 * part["p99_s"], "-o", **line)
        top.plot(part["rate"], 1e3 * part["p50_s"], "--o", mfc="none", **line)
        names[arm] = arm_label(str(arm))
    top.set_yscale("log")
    values = 1e3 * latencies[["p50_s", "p99_s"]].to_numpy(float)
    if np.isfinite(values).any():
        ends = 0.7 * np.nanmin(values), 1.4 * np.nanmax(values)
        top.set_ylim(*ends)
        canvas.ticks(top.yaxis, canvas.round_numbers(*ends), "{x:g}\u202fms")
    at_foot = top.get_xaxis_transform()
    full = latencies["saturated_pct"] > 100 * MOST_SATURATED
    for rate in latencies.loc[full & latencies["p50_s"].isna(), "rate"].unique():
        canvas.note(top, "saturated", (rate, 0), (0, 6), at_foot, ha="center", color=MUTED)
    if capacity:
        top.axvline(capacity, color=MUTED, lw=1.2, ls=(0, (4, 3)))
        words = f"capacity of one alone: {capacity:,.0f}"
        canvas.note(top, words, (capacity, 1), (-6, -4), at_foot, ha="right", va="top")
    unit = "latency (solid: p99, dashed: p50)"
    canvas.above(top, unit, "", names, ink, narrow)
    rows = rows[rows["rate"].isin(latencies.loc[latencies["p99_s"].notna(), "rate"])]
    if len(rows):
        margin, limit = rows["margin_pct"].max(), canvas.farthest(rows)
        canvas.band(low, margin)
        arms = list(pd.unique(rows["arm"]))
        place = {arm: 0.03 * end * (i - (len(arms) - 1) / 2) for i, arm in enumerate(arms)}
        alike = {canvas.verdict_label(row, True) for row in rows.itertuples()}
        short = narrow or len(rows) > 4
        once = alike.pop() if short and len(alike) == 1 else ""  # one word for all, above them
        for row in rows.itertuples():
            words = "" if once else _words(row, short)
            canvas.judged(
                low, row.rate + place[row.arm], row, limit, ink[row.arm], "o", words, True
            )
        canvas.scale(low, *canvas.span(rows[ENDS], margin, limit), 0.08, 0.3, metric="p99")
        lines = {MUTED: once and f"all points: {once}", BAND: f"shaded: {_same(margin)}"}
        lines = {ink: words for ink, words in lines.items() if words}
        canvas.above(
            low, f"p99: {canvas.shows(low, 'p99')}", "", lines, {x: x for x in lines}, True
        )
    low.set_xlim(0, end)
    canvas.ticks(low.xaxis, rates, "{x:,.0f}")
    top.tick_params(labelbottom=True)  # on a phone the first screen ends above the lower panel
    for ax in (low,) if narrow else (top, low):
        ax.set_xlabel(f"offered {noun} a second")
    canvas.apart(figure)
    return figure


# -- row by row ------------------------------------------------------------------------------------


@canvas.responsive
def dots(
    verdicts: pd.DataFrame,
    *,
    by: Sequence[str] = ("workload", "metric", "threads"),
    palette: Palette = PAGE,
    narrow: bool = False,
) -> Figure:
    """Forest plot: a row a comparison, with interval, margin band and verdict in words.

    `by`: the columns that name a row; those that never differ are left out, and the first of
    several becomes a heading.
    """
    frame = verdicts.assign(joint=is_joint(verdicts))
    names = differing(frame, *by)
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
    marks = ["D" if joint else "o" for joint in frame["joint"]]
    legend = [say("twice")] if is_control(frame).any() else []
    return _intervals(frame, named, palette, narrow, marks, legend)


def _called(row: Row, column: str, short: bool = False) -> str:
    """The text of a column's value in the name of a row."""
    if column == "threads":
        return "all thread counts" if row["joint"] else counted(row[column])
    if column == "metric":
        return metric_label(row[column], short)
    return "" if pd.isna(row[column]) else arm_label(str(row[column]))


def _row_name(row: Row, names: Sequence[str]) -> str:
    again = row["arm"].endswith(CONTROL_SUFFIX) and "arm" not in names
    parts = [_called(row, name, True) for name in [*names, *["arm"] * again]]
    return ", ".join(filter(None, parts)) or metric_label(row["metric"])


@canvas.responsive
def history_figure(frame: pd.DataFrame, *, narrow: bool = False) -> Figure:
    """How a change moved: for every comparison a row a campaign in order of date, named by its date,
    server build and, if they differ, machine; below them, as diamonds, what the campaigns of each
    processor say together. A grey band behind the newest campaign is the range that those before it
    predict.

    `frame`: verdict rows with the columns campaign, date, engine, machine, processor and sittings, as
    `store.history` returns them.
    """
    row: Any
    single = frame[frame["campaign"].notna()]
    several = single[["question", "workload", "arm", "machine"]].nunique() > 1
    machines = list(pd.unique(single["machine"]))
    named = []
    for row in frame.itertuples():
        what = f"{metric_label(row.metric, narrow)} {threads_label(row.threads, row.joint)}".strip()
        if pd.isna(row.campaign):
            parts = [sittings_label(row.sittings), row.processor]
        else:
            parts = [row.date[:10], row.engine]
            parts += [f"machine {machines.index(row.machine) + 1}"] if several["machine"] else []
        parts[2:2] = [arm_label(row.arm)] if several["arm"] else []
        what = f"{row.workload}: {what}" if several["workload"] else what
        what += f" ({row.question})" if several["question"] and row.question else ""
        named.append((what, ", ".join(parts)))
    lines = [f"machine {i}: {m}" for i, m in enumerate(machines, 1) if several["machine"]]
    if frame.reindex(columns=EXPECTED).notna().any(axis=None):
        lines.insert(0, "grey band: where the sittings before it predict the newest campaign")
    marks = ["D" if missing else "o" for missing in frame["campaign"].isna()]
    return _intervals(frame, named, PAGE, narrow, marks, lines)


def sittings_label(sittings: float) -> str:
    """What the result of a question is called: `3 boots together`."""
    return "1 boot" if sittings == 1 else f"{int(sittings)} boots together"


@canvas.responsive
def sittings_figure(each: pd.DataFrame, both: pd.DataFrame, *, narrow: bool = False) -> Figure:
    """Forest of the campaigns of one comparison, processor by processor: each by itself, named by its
    date, builds and the share of the cores that the host took; below them as a diamond what they say
    together, and as a thin bar the range in which the next campaign is expected.

    `each`: rows of `results.forest`; `both`: rows of the verdict table, one a processor.
    """
    days = each["processor"] + each["date"].str[:10]
    shown = 10 if narrow or days.is_unique else 16  # characters of a date
    rows, named = [], []
    for whole in both.to_dict("records"):
        on = whole["processor"]
        mine = each[each["processor"] == on].sort_values("date", kind="stable")
        for row in mine.to_dict("records"):
            date = row["date"][:shown].replace("T", " ")
            steal = f"steal {row['steal_pct']:.1f}\u202f%" * bool(pd.notna(row["steal_pct"]))
            named.append((on, ", ".join(filter(None, (date, row["series"], steal)))))
            rows.append(row | {"verdict": "", "mark": "o"})  # the word is given for all together
        named.append((on, sittings_label(whole["sittings"])))
        rows.append(whole | {"mark": "D"})
        if pd.notna(whole["next_lo_pct"]):
            ends = {"lo_pct": whole["next_lo_pct"], "hi_pct": whole["next_hi_pct"], "mark": ""}
            named.append((on, "expected of the next campaign"))
            rows.append(whole | ends | {"change_pct": math.nan, "verdict": ""})
    return _intervals(pd.DataFrame(rows), named, PAGE, narrow, [row["mark"] for row in rows])


def _intervals(
    frame: pd.DataFrame,
    named: Sequence[tuple[str, str]],
    palette: Palette,
    narrow: bool,
    marks: Sequence[str],
    legend: Sequence[str] = (),
) -> Figure:
    """A forest of the rows of a verdict table: each with its point and interval in the arm's colour.
    `named`: heading and name of each row; `marks`: the shape of each point, "" for a range alone."""
    row: Any
    ink, limit = palette.of(frame), canvas.farthest(frame)
    rows = [
        (*names, *_sizes(row, mark))
        for names, row, mark in zip(named, frame.itertuples(), marks, strict=True)
    ]
    right = min(310, 28 + max(7.7 * len(row[3]) + 6.7 * len(row[4]) for row in rows))
    left = 34 + 6.6 * max(len(name) for _, name in named)
    left = min(300, left, canvas.WIDE - right - 190)
    figure, ax, places = forest(frame, rows, left, right, narrow, legend=legend)
    expected = frame.reindex(columns=EXPECTED).to_numpy(float)  # of the newest campaigns alone
    band: dict[str, Any] = {"color": CONTROL, "lw": 16, "alpha": 0.45, "zorder": 2}
    band["solid_capstyle"] = "butt"  # a round end would reach beyond the range
    for place, row, mark, ahead in zip(places, frame.itertuples(), marks, expected, strict=True):
        canvas.whisker(ax, place, list(ahead), limit, True, **band)
        if mark:
            canvas.point(ax, place, row, limit, ink[row.arm], mark, level=True)
        else:
            ends = row.lo_pct, row.hi_pct
            canvas.whisker(ax, place, ends, limit, True, color=ink[row.arm], lw=2, alpha=0.8)
    ticks, metric = int(ax.bbox.width / 55), frame["metric"].iloc[0]
    beside = canvas.cut(expected, limit).ravel()
    ends = canvas.span(frame[ENDS], frame["margin_pct"].min(), limit, beside)
    canvas.scale(ax, *ends, 0.04, 0.04, "x", ticks, metric)
    return figure


def _sizes(row: Any, mark: str) -> tuple[str, str, str]:
    """The text beside a row of a forest: word and size for a phone; word, size with its ends."""
    word, numbers = canvas.verdict_label(row), amounts.short(canvas.numbers(row))
    if not mark:
        return numbers, "", numbers
    size = numbers if canvas.is_range(row) else canvas.size(row)
    return ", ".join(filter(None, (word, size))), word, numbers


def forest(
    frame: pd.DataFrame,
    rows: Sequence[tuple[str, str, str, str, str]],
    left: float,
    right: float,
    narrow: bool,
    unit: str = "",
    legend: Sequence[str] = (),
) -> tuple[Figure, Axes, list[float]]:
    """A forest plot without its points: the figure, its axes, the height of each row.

    `rows`: (heading, name, verdict and size for a phone, verdict, numbers) of each row of `frame`;
    `left` and `right`: pixels for the words beside the axes, for which a phone has no room; `legend`:
    lines above."""
    legend = [part for line in legend for part in textwrap.wrap(line, 56 if narrow else 120)]
    left, right = (20, 24) if narrow else (left, right)  # half a tick's name at least
    places: list[float] = []
    y, raised, heads, last = 0.0, [], [], ""
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
    ends = 6 + 16 * len(legend), 44
    figure, ax = canvas.lined(y, 26, (left, right), ends, narrow, above=0.55)
    canvas.bands(ax, places, frame["margin_pct"])
    at, style = ax.get_yaxis_transform(), {"color": INK, "va": "center", "fontsize": 12}
    bold, start, far = style | {"weight": "bold"}, 8 - left, {"ha": "right"}
    for spot, words in heads:
        canvas.note(ax, words, (0, spot), (start, 0), at, **bold)
    for place, up, (section, name, short, verdict, numbers) in zip(
        places, raised, rows, strict=True
    ):
        if narrow:
            line = place - 0.75
            look = style | {"fontsize": min(12, 1.9 * (canvas.NARROW - 24) / max(len(name), 1))}
            canvas.note(ax, name, (0, line - up), (start, 0), at, **look)
            canvas.note(ax, short, (1, line), (right - 8, 0), at, **bold, **far)
            continue
        room = (left - 28) / 5.6  # characters of a line at ten points
        name = name if len(name) <= 1.2 * room else textwrap.fill(name, int(room))
        small = min(12, 10.8 * room / max(map(len, name.split("\n"))))
        look = style | {"fontsize": small, "linespacing": 1.05}
        canvas.note(ax, name, (0, place), (start + 12 * bool(section), 0), at, **look)
        canvas.note(ax, verdict, (1, place), (12, 0), at, **bold)
        canvas.note(ax, numbers, (1, place), (right - 4, 0), at, **style | far | {"color": MUTED})
    directions = {amounts.words(metric) for metric in frame["metric"]}
    larger, smaller = directions.pop() if len(directions) == 1 else ("larger", "smaller")
    margins = frame["margin_pct"].unique()
    shade = amounts.plus_minus(margins[0]) if len(margins) == 1 else "shaded:"
    room = ax.bbox.width / 6.2 - len(f"← {smaller}{larger}{unit} →")  # characters between the ends
    middles = (f"{shade} counts as same", f"{shade} same", "same")
    middle = next((words for words in middles if len(words) < room - 2), "")
    below = {"at": "axes fraction", "va": "top"}
    canvas.note(ax, f"← {smaller}", (0, 0), (0, -26), ha="left", **below)
    canvas.note(ax, f"{larger}{unit} →", (1, 0), (0, -26), ha="right", **below)
    canvas.note(ax, middle, (0.5, 0), (0, -26), ha="center", color=BAND, **below)
    for i, text in enumerate(reversed(legend)):
        canvas.note(ax, text, (0, 1), (start, 6 + 16 * i), "axes fraction", va="bottom")
    return figure, ax, places
