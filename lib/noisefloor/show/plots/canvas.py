"""The theme, colours, canvas, scales and marks that figures share."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from noisefloor.model import CONTROL_SUFFIX, Arm
from noisefloor.show.markup import TEMPLATE
from noisefloor.show.rows import ENDS
from noisefloor.stats.verdict import PROVISIONAL
from noisefloor.text import amounts

_RC = mpl.rc_params_from_file(TEMPLATE / "figures.mplstyle", use_default_template=False)
# Drawn colours are stand-ins: `svg` replaces each by a CSS variable with the light colour as
# fall-back, because no single ink reads on both white and black. Arms after Okabe and Ito,
# darkened or lightened until text in them has a contrast of 4.5:1 on either ground.
INK, MUTED, RULE = _RC["text.color"], _RC["axes.labelcolor"], _RC["grid.color"]
BAND, BASE, CONTROL = "#22718f", "#56616d", "#8b949e"
ARMS = ("#0067a3", "#b84a00", "#00755a", "#a03d74", "#846000")
_NAMES = {"muted": MUTED, "rule": RULE, "band": BAND, "base": BASE, "control": CONTROL}
_NAMES |= {f"arm{i}": ink for i, ink in enumerate(ARMS, 1)}
CSS = {INK: "currentColor"} | {ink: f"var(--nf-{name},{ink})" for name, ink in _NAMES.items()}
WIDE, NARROW = 760, 360  # CSS pixels; one unit of the drawing is one pixel
PARTS_CSS = TEMPLATE / "parts.css"
LAB = '<style class="nf-lab">'  # how the output of `theme` begins; a page brings its own style
Axes = Any  # matplotlib's, which remember `points` and `words` for us
Inks = dict[Any, str]  # the colour of each arm
_P = ParamSpec("_P")


@dataclass
class Palette:
    """Colours by the place of an arm in its study. `arms`: in order, baseline first; () where the
    order is not known."""

    arms: Sequence[Arm | str] = ()

    def of(self, frame: pd.DataFrame) -> Inks:
        """Colour of every arm of the study and of `frame`: grey for the baseline, light grey for
        its A/A control."""
        order = [arm if isinstance(arm, str) else arm.name for arm in self.arms]
        bases = list(pd.unique(frame["baseline"].dropna())) if "baseline" in frame else []
        names = list(dict.fromkeys([*order, *bases, *pd.unique(frame["arm"].dropna())]))
        if not order and not bases:  # no roles known: a control names its baseline, else by name
            known = set(names)
            names.sort(key=lambda n: (f"{n}{CONTROL_SUFFIX}" not in known, str(n)))
        bases = bases or names[:1]
        inks = iter(ARMS * (1 + len(names) // len(ARMS)))
        return {
            n: BASE if n in bases else CONTROL if str(n).endswith(CONTROL_SUFFIX) else next(inks)
            for n in names
        }


PAGE = Palette()  # of the current notebook, set by `theme`


def theme(arms: Sequence[Arm | str] = ()) -> None:
    """Set the style of every figure and, once for a notebook, the `arms` of its palette (baseline
    first), so that an arm keeps its colour in all figures. In a notebook it also shows the style
    sheet that makes boxes, tables and captions look right."""
    PAGE.arms = arms
    _style()
    from IPython import get_ipython
    from IPython.display import HTML, display

    if get_ipython() is not None:
        display(HTML(_lab_css()))  # type: ignore[no-untyped-call]


def _style() -> None:
    sns.set_theme(style="ticks", rc=_RC)


def _lab_css() -> str:
    """The style of the parts for JupyterLab: its theme, not the system, says light or dark,
    and its own rules for output are overridden."""
    inks, rules = re.split(r"(?=/\* verdict \*/)", PARTS_CSS.read_text())
    system = r"@media screen and \(prefers-color-scheme: dark\) \{\s*:root"
    inks = re.sub(system, '@media all { body[data-jp-theme-light="false"]', inks)
    page = "--nf-paper: var(--jp-layout-color0, #fff); counter-reset: figure table"
    return f"{LAB}{inks}body {{ {page} }} body[data-jp-theme-light] {{ {rules} }}</style>"


# -- canvas and scales -------------------------------------------------------------------------------


def responsive(draw: Callable[_P, Figure]) -> Callable[_P, Figure]:
    """Give the Figure that `draw` returns a `narrow` callable: the same figure for a phone."""

    @wraps(draw)
    def drawn(*args: _P.args, **options: _P.kwargs) -> Figure:
        if mpl.rcParams["svg.hashsalt"] != "noisefloor":  # not in our style
            _style()
        made: Callable[..., Figure] = _nothing if getattr(args[0], "empty", False) else draw
        figure: Any = made(*args, **options)
        if not options.get("narrow"):
            figure.narrow = lambda: made(*args, **{**options, "narrow": True})
        return figure

    return drawn


def _nothing(*_args: object, narrow: bool = False, **_options: object) -> Figure:
    """A sentence in place of a figure for which a campaign has no value."""
    figure = Figure(figsize=((NARROW if narrow else WIDE) / 72, 44 / 72))
    figure.text(0, 0.5, "No run of this campaign has a value for this figure.", va="center")
    return figure


def sheet(
    narrow: bool, high: float, rows: int = 1, columns: int = 1, **grid: Any
) -> tuple[Figure, list[Axes]]:
    """A figure `high` pixels high, and its axes row by row."""
    size = (NARROW if narrow else WIDE) / 72, high / 72
    figure = Figure(figsize=size, layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.04, h_pad=0.06, wspace=0.05, hspace=0.06)
    return figure, list(figure.subplots(rows, columns, squeeze=False, **grid).flat)


def lined(
    count: float,
    each: float,
    sides: tuple[float, float],
    ends: tuple[float, float],
    narrow: bool,
    above: float = 0.6,
) -> tuple[Figure, Axes]:
    """A figure for `count` rows, `each` pixels high, and its axes, on which a row's place is its
    number from the top. `sides`, `ends`: pixels left and right, above and below the axes."""
    width, high = NARROW if narrow else WIDE, each * count
    wide, total = width - sum(sides), high + sum(ends)
    size = width / 72, total / 72
    figure = Figure(figsize=size, layout="none")  # type: ignore[arg-type]
    ax = figure.add_axes((sides[0] / width, ends[1] / total, wide / width, high / total))
    ax.set_ylim(count - 0.4, -above)
    ax.yaxis.set_major_locator(NullLocator())
    ax.grid(False, axis="y")
    ax.grid(True, axis="x")
    return figure, ax


def remember(ax: Axes, xs: Iterable[float], ys: Iterable[float], rows: Iterable[Any]) -> None:
    """Remember where rows of the caller's table (index labels) were drawn, for `spots`."""
    ax.points = [*getattr(ax, "points", ()), *zip(xs, ys, rows, strict=True)]


def spots(figure: Figure) -> list[list[float]]:
    """Where the points of a drawn figure are: [row, left, top], row being the index label in the
    table that the figure shows, left and top in percent of its size."""
    wide, high = figure.bbox.size
    places = []
    for ax in figure.axes:
        for x, y, row in getattr(ax, "points", ()):
            left, up = ax.transData.transform((x, y))
            places.append([int(row), round(100 * left / wide, 3), round(100 - 100 * up / high, 3)])
    return places


def note(
    ax: Axes,
    text: str,
    xy: tuple[Any, Any],
    shift: tuple[float, float] = (0, 0),
    at: Any = "data",
    **style: Any,
) -> Annotation:
    """Text at a point of the panel, moved by `shift` pixels; it takes no part in the layout."""
    style = {"color": MUTED, "fontsize": 11, "annotation_clip": False} | style
    note = ax.annotate(text, xy, shift, xycoords=at, textcoords="offset points", **style)
    note.set_in_layout(False)
    return note


def above(
    ax: Axes,
    text: str,
    title: str = "",
    names: Mapping[Any, str] = {},
    ink: Mapping[Any, str] = {},
    small: bool = False,
    colour: str = INK,
) -> None:
    """Panel title in bold, under it what the y axis shows, set level instead of turned; the arms'
    names in their colours at the right, or on lines of their own in a `small` panel."""
    names = dict(names)
    lines = zip(reversed(names.values()), (text, title), strict=False)
    small = small or any(7.5 * len(a) + 8 * len(b) > 1.1 * ax.bbox.width for a, b in lines)
    beside = 0 if small else 2 if title else 1  # lines that the names can share
    high = 15 * max(len(names) - beside, 0)
    ax.set_title(title or " ", pad=(22 if title else 4) + high, color=colour)
    note(ax, text, (0, 1), (0, 5), "axes fraction", fontsize=12, va="bottom")
    for i, (name, words) in enumerate(reversed(names.items())):
        style = {"va": "bottom", "weight": "bold", "ha": "left" if small else "right"}
        style["color"] = ink[name] if ink[name] != CONTROL else MUTED
        shift = (0, 5 + 15 * (i + small))
        note(ax, words, (0 if small else 1, 1), shift, "axes fraction", **style)


def _log(change: Any) -> Any:
    return np.log1p(np.maximum(change, -99.99) / 100)


def _percent(log: Any) -> Any:
    return 100 * np.expm1(log)


def scale(
    ax: Axes,
    low: float,
    high: float,
    below: float = 0.0,
    above: float = 0.0,
    axis: str = "y",
    most: int = 6,
    metric: str = "",
) -> None:
    """Scale an axis to changes of a metric from `low` to `high` percent, with shares of its length as
    room beyond: linear, or a log scale with factors as ticks if a change is written as a factor."""
    log = amounts.large(low, metric) or amounts.large(high, metric)
    if log:
        getattr(ax, f"set_{axis}scale")("function", functions=(_log, _percent))
        low, high = _log(low), _log(high)
    which = getattr(ax, f"{axis}axis")
    ends = np.array([low - below * (high - low), high + above * (high - low)])
    getattr(ax, f"set_{axis}lim")(_percent(ends) if log else ends)
    if not log:
        which.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10], min_n_ticks=3))
        which.set_major_formatter(lambda v, _: str(amounts.tick(v)))
        return
    for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        first, last = np.exp(ends)
        smaller = [1 / f for f in round_numbers(1, 1 / first, steps) if f > 1]
        factors = [*smaller, *round_numbers(max(first, 1), last, steps)]
        if len(factors) <= most + 2:
            break
    at = [100 * (f - 1) for f in factors]
    ticks(which, at, lambda v, _: str(amounts.tick(v, times=True)))


def round_numbers(first: float, last: float, steps: Sequence[float] = (1, 2, 5)) -> list[float]:
    """Round numbers from `first` to `last`, for a log scale."""
    return [m * 10.0**e for e in range(-5, 9) for m in steps if first <= m * 10.0**e <= last]


def ticks(which: Any, at: Sequence[float], form: str | Callable[[float, Any], str]) -> None:
    """Ticks of an axis at these places and nowhere else; `form` writes them, as in matplotlib."""
    which.set_major_locator(FixedLocator(at))
    which.set_minor_locator(NullLocator())
    which.set_major_formatter(form)


def _is_log(ax: Axes) -> bool:
    return ax.get_yscale() == "function"


def shows(ax: Axes, metric: str, more: str = "") -> str:
    """What the y axis of `scale` shows: `change (↑ faster, ↓ slower)`."""
    larger, smaller = amounts.words(metric)
    what = "change as a factor" if _is_log(ax) else "change"
    return f"{what}{more} (↑ {larger}, ↓ {smaller})"


def band(ax: Axes, margin: float, axis: str = "y") -> None:
    """The band inside which a difference does not matter, and the line of no difference."""
    span, line = (ax.axhspan, ax.axhline) if axis == "y" else (ax.axvspan, ax.axvline)
    span(mirror(margin), margin, color=BAND, alpha=0.13, lw=0, zorder=0)
    line(0, color=MUTED, lw=0.9, zorder=1)


def bands(ax: Axes, places: Sequence[float], margins: pd.Series) -> None:
    """The band of each row of a forest."""
    if len(set(margins)) == 1:
        band(ax, margins.iloc[0], "x")
        return
    for place, margin in zip(places, margins, strict=True):
        ends = [mirror(margin)] * 2, [margin] * 2
        ax.fill_betweenx([place - 0.5, place + 0.5], *ends, color=BAND, alpha=0.13, lw=0, zorder=0)
    ax.axvline(0, color=MUTED, lw=0.9, zorder=1)


def away(change: Any) -> Any:
    """The size of a change (percent) in either direction: -50 % is as far away as +100 %."""
    return _percent(np.abs(_log(change)))


def mirror(change: Any) -> Any:
    """The change that is as far away on the other side."""
    return _percent(-_log(change))


def cut(change: Any, limit: float | tuple[float, float]) -> Any:
    """Changes clipped to `limit` in both directions (`away`), or to (lower, upper) ends."""
    return np.clip(change, *(limit if isinstance(limit, tuple) else (mirror(limit), limit)))


def farthest(frame: pd.DataFrame) -> float:
    """The limit of an axis for the changes in `frame`, in percent (`away`): the changes and the margin
    fit, very long intervals are cut."""
    far = away(frame[ENDS].astype(float)).replace(np.inf, np.nan)  # None where JSON has null
    centre, margin = np.nan_to_num(far["change_pct"].max()), frame["margin_pct"].min()
    ends = far[["lo_pct", "hi_pct"]].max(axis=1).dropna()
    wanted = [margin * 2, centre * 1.3]
    if len(ends):
        usual = ends.quantile(0.5, interpolation="lower")
        wanted.append(min(ends.max() * 1.12, max(3 * margin, 3 * centre, 3 * usual)))
    return max(wanted)


def span(
    frame: pd.DataFrame, margin: float, limit: float, beside: Iterable[float] = ()
) -> tuple[float, float]:
    """(lower, upper) end of an axis for the changes in `frame`, cut at `limit`, and those `beside`."""
    values = [*cut(frame.astype(float), limit).to_numpy().ravel(), *beside]
    return np.nanmin([mirror(2 * margin), *values]), np.nanmax([2 * margin, *values])


def whisker(
    ax: Axes,
    x: float,
    ends: Sequence[Any],
    limit: float | tuple[float, float],
    level: bool = False,
    **style: Any,
) -> None:
    """An interval as a thick bar at `x`; an end beyond the axis is an arrow. level: horizontal."""
    style = {"lw": 7, "alpha": 0.38, "zorder": 3} | style
    if any(pd.isna(e) for e in ends):
        return
    drawn = cut(ends, limit)
    ax.plot(*((drawn, [x, x]) if level else ([x, x], drawn)), **style)
    for mark, end in enumerate(drawn):
        if end != ends[mark]:
            spot = (end, x) if level else (x, end)
            shape = ("<>" if level else "v^")[mark]
            ax.plot(*spot, shape, color=style["color"], ms=6, zorder=4, clip_on=False)


def point(
    ax: Axes, x: float, row: Any, limit: float, ink: str, mark: str = "o", level: bool = False
) -> float:
    """One comparison, a named tuple of its row: interval, or thinner the range of its sittings, and
    point. Returns the change at which the point is drawn."""
    style = {"lw": 2, "alpha": 0.8} if is_range(row) else {}
    whisker(ax, x, (row.lo_pct, row.hi_pct), limit, level, color=ink, **style)
    y = cut(row.change_pct, limit)
    spot = (y, x) if level else (x, y)
    ax.plot(*spot, mark, ms=7, color=ink, zorder=5)
    remember(ax, [spot[0]], [spot[1]], [row.Index])
    return y


def is_range(row: Any) -> bool:
    """Whether the ends of a row are the range of its sittings, not an interval."""
    return row.verdict in (PROVISIONAL, "") and getattr(row, "ranged", 0) == 1


def verdict_label(row: Any, short: bool = False) -> str:
    """The verdict of a row; `range of 3 boots` (short: `3 boots`) while it is not known how much boots
    scatter."""
    if is_range(row):
        return f"{'' if short else 'range of '}{row.sittings:.0f} boots"
    return row.verdict


def size(row: Any) -> str:
    """The change of a row, the word for its direction left out."""
    return amounts.change(row.change_pct, row.metric, known=row.verdict)


def change_and_interval(row: Any) -> list[str]:
    """The change of a row and its interval, the word for its direction left out where that is the
    verdict; of a range its ends alone."""
    if pd.isna(row.change_pct) or is_range(row):
        return [amounts.interval(row.lo_pct, row.hi_pct, row.metric)]
    of = row.change_pct, row.lo_pct, row.hi_pct, row.metric
    return [size(row), amounts.interval_beside(*of, known=row.verdict)]


def numbers(row: Any) -> str:
    """Change and interval in one text: `+1.0 % (−1.2 to +3.4 %)`."""
    return amounts.around(*change_and_interval(row))


def judged(
    ax: Axes, x: float, row: Any, limit: float, ink: str, mark: str, words: str, small: bool
) -> None:
    """One comparison: interval, point, and `words` above them."""
    y = point(ax, x, row, limit, ink, mark)
    top = y if pd.isna(row.hi_pct) else max(y, cut(row.hi_pct, limit))
    style = {"color": ink, "weight": "bold", "ha": "center", "va": "bottom", "zorder": 6}
    style |= {"fontsize": 10 if small else 12, "linespacing": 1.1}
    ax.words = [*getattr(ax, "words", ()), note(ax, words, (x, top), (0, 5), **style)]


def apart(figure: Figure) -> None:
    """Raise the words of verdicts that would cover others, and the upper end of an axis that they
    would leave; then the layout is fixed."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout stays as it is now
    axes: list[Axes] = figure.axes
    for ax in axes:
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


def _raised(notes: Iterable[Annotation]) -> float:
    """Raise each of the notes above those that it would cover. Returns their upper end (pixels)."""
    placed: list[Any] = []
    for note in sorted(notes, key=lambda n: n.get_window_extent().y0):
        box = note.get_window_extent().expanded(1.06, 1)
        while any(box.overlaps(other) for other in placed):
            x, y = note.xyann
            note.xyann = (x, y + 2)
            box = box.translated(0, 2)
        placed.append(box)
    return max((box.y1 for box in placed), default=0.0)
