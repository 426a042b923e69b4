"""Every goal of ``goals.toml`` with its measured figure and bound."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from scipy import stats

from noisefloor.calibrate import live
from noisefloor.calibrate.rivals import bounds
from noisefloor.model import METRICS
from noisefloor.stats.verdict import ALPHA, differs
from noisefloor.text import amounts

if TYPE_CHECKING:
    from noisefloor.calibrate.calibration import Calibration

Goal = Mapping[str, Any]
Measured = tuple[str, str, str, bool]  # measured, bound, where, whether it is reached
_KINDS = tomllib.loads(Path(__file__).with_name("goals.toml").read_text(encoding="utf-8"))
GOALS = [k | g | {"by": by} for by, k in _KINDS.items() for g in k.get("goals", [{}])]
SURE = 0.002  # two-sided: each bound is at 99.9 %, as the most extreme of hundreds of cells counts
SHARES = ("least", "most", "median", "more")


def goals_table(c: "Calibration") -> pd.DataFrame:
    """Every goal of a Calibration: columns goal, reached ("yes", "no", "not measured": its campaigns
    are missing), measured, bound, limit, where."""
    rows = []
    for goal in GOALS:
        try:
            measured, bound, where, reached = MEASURES[goal["by"]](c, goal)
            word = "yes" if reached else "no"
        except live.TooShort as e:
            measured, bound, where, word = "–", "", str(e), "not measured"
        limit = goal["limit"].format(**{k: pct(v) if k in SHARES else v for k, v in goal.items()})
        rows.append((goal["name"], word, measured, bound, limit, where))
    return pd.DataFrame(rows, columns=["goal", "reached", "measured", "bound", "limit", "where"])


def summary(goals: pd.DataFrame) -> str:
    """The goals as lines of text."""
    row: Any
    lines = []
    for row in goals.itertuples():
        mark = {"yes": "reached", "no": "MISSED"}.get(row.reached, row.reached)
        bound = f" (bound {row.bound})" if row.bound else ""
        lines.append(f"{mark:<13} {row.goal}: {row.measured}{bound}, goal {row.limit}; {row.where}")
    return "\n".join(lines)


def pct(share: float) -> str:
    """A share as text, in percent."""
    return f"{100 * share:.3g} %" if share in (0, 1) else f"{100 * share:.1f} %"


def cell_name(row: Any) -> str:
    """What kind of noise a synthetic cell has."""
    return (
        f"{row['blocks']} blocks, {row['noise']}, autocorrelation {row['dependence']:g}, drift "
        f"{row['drift']}, run CV {100 * row['cv']:g} %, starts {100 * row['start']:g} %"
    )


# How goals are measured.


def _covered(c: "Calibration", goal: Goal) -> Measured:
    """How often intervals hold the truth, in every cell."""
    cells = c.figures["cells"]
    counts, n = cells[goal["count"]], cells[goal["of"]]
    share, high = counts / n, bounds(counts, n, SURE)[1]
    least = share.idxmin()
    measured = f"least {pct(share.min())}, median {pct(share.median())}, most {pct(share.max())}"
    where = f"least of {len(share)} cells: {cell_name(cells.loc[least])}"
    reached = high.min() >= goal["least"] and share.median() <= goal["median"]
    return measured, f"at most {pct(high.min())}", where, reached


def _false_words(c: "Calibration", goal: Goal) -> Measured:
    """How often a word is wrong, in every cell."""
    cells = c.figures["cells"]
    counts = cells[goal["counts"]].sum(axis=1)
    share, low = counts / cells["n"], bounds(counts, cells["n"], SURE)[0]
    measured = f"median {pct(share.median())}, most {pct(share.max())}"
    where = f"most of {len(share)} cells: {cell_name(cells.loc[share.idxmax()])}"
    reached = low.max() <= goal["most"] and share.median() <= goal["median"]
    return measured, f"at least {pct(low.max())}", where, reached


def _files(c: "Calibration", goal: Goal) -> Measured:
    files = c.figures["files"]
    equal = files[files["effect"] == 0]
    counts = equal["faster"] + equal["slower"]
    share, low = counts / equal["n"], bounds(counts, equal["n"], SURE)[0]
    worst = equal.loc[share.idxmax()]
    how = "--restarts" if worst["restarts"] else "one start an arm"
    where = f"most of {len(equal)}: {worst['runs']} runs, CV {100 * worst['cv']:g} %, {how}"
    return pct(share.max()), f"at least {pct(low.max())}", where, low.max() <= goal["most"]


def _mutants(c: "Calibration", goal: Goal) -> Measured:
    mutants = c.figures["mutants"]
    counts, n = mutants["count"], mutants["n"]
    share, low = counts / n, bounds(counts, n, SURE)[0]
    weakest = mutants.loc[share.idxmin(), "mutant"]
    where = f"weakest: {weakest}; the rule: {pct((mutants['rule'] / n).max())}"
    measured = f"{pct(share.min())} to {pct(share.max())}"
    return measured, f"at least {pct(low.min())}", where, low.min() > goal["more"]


def _sittings(c: "Calibration", goal: Goal) -> Measured:
    sittings = c.figures["sittings"]
    share = sittings[goal["count"]] / sittings["n"]
    worst = sittings.loc[share.idxmin()]
    where = (
        f"least of {len(sittings)}: {worst['sittings']:.0f} sittings, {100 * worst['tau']:g} % "
        f"between them, standard error {100 * worst['se']:g} %"
    )
    measured = f"least {pct(share.min())}, median {pct(share.median())}"
    low, high = bounds(worst[goal["count"]], worst["n"])
    return measured, f"{pct(low)} to {pct(high)}", where, share.min() >= goal["least"]


def _heldout(c: "Calibration", goal: Goal) -> Measured:
    repeats = c.repeats
    inside, n = int(repeats["inside"].sum()), len(repeats)
    low, high = bounds(inside, n)
    with_tau = int(repeats["inside_tau"].sum())
    about = repeats[["study", "question"]].drop_duplicates()
    where = f"one a metric of {len(about)} questions; {with_tau} with the scatter of the other questions added"
    return f"{inside} of {n}", f"{pct(low)} to {pct(high)}", where, inside / n >= goal["least"]


def _called(c: "Calibration", goal: Goal) -> Measured:
    rows = getattr(c, goal["rows"])
    wrong, n = int(rows["verdict"].map(differs).sum()), len(rows)
    most = int(stats.binom.ppf(0.95, n, ALPHA))
    where = f"throughput, processor time and p99 at a rate, {rows['campaign'].nunique()} campaigns"
    return f"{wrong} of {n}", f"at most {most}", where, wrong <= most


def _known(c: "Calibration", goal: Goal) -> Measured:
    covered, n = c.slowdowns[["covered", "pieces"]].sum()
    low, high = bounds(covered, n)
    where = f"pieces of {live.PIECE} blocks, TPS and CPU"
    return f"{covered} of {n}", f"{pct(low)} to {pct(high)}", where, high >= goal["least"]


def _two(c: "Calibration", goal: Goal) -> Measured:
    sources = c.two[~c.two["experimental"]]
    least: Any = sources["inside_pct"].idxmin()
    worst = sources.loc[least]
    where = f"{worst['metric']}, {worst['runs']} runs, {worst['source']}"
    measured = f"least {worst['inside_pct']:.1f} %, median {sources['inside_pct'].median():.1f} %"
    return measured, "", where, worst["inside_pct"] >= 100 * goal["least"]


def _told(c: "Calibration", goal: Goal) -> Measured:
    """The share of a known difference that is measured as pages measure: on shared cores."""
    known = c.at_rate.dropna(subset="told_pct").sort_values("told_pct")
    known = known[known["arrangement"].isin((live.SHIPPED, live.AT_ONCE["rate-sleep"]))]
    if known.empty:
        raise live.TooShort(live.NONE.format("of known work, at once and in turn,"))
    worst: Any = known.iloc[0]
    share, half = worst["told_pct"], worst["half_pct"]
    where = f"least of {len(known)}: {METRICS[worst['metric']].label}, {worst['arm']}"
    measured = f"least {share:.0f} %, most {known['told_pct'].max():.0f} %"
    bound = f"{share - half:.0f} to {share + half:.0f} %"
    return measured, bound, where, share >= 100 * goal["least"]


def _at_once(c: "Calibration", goal: Goal) -> Measured:
    """How narrow the newest campaign of two identical servers at a rate is."""
    rows = c.at_rate[c.at_rate["arrangement"].eq(live.AT_ONCE["rate-same"])]
    rows = rows[rows["metric"].eq(goal["metric"])]
    if rows.empty:
        raise live.TooShort(live.NONE.format("of two identical servers at once"))
    half = float((rows["hi_pct"] - rows["lo_pct"]).iloc[0]) / 2
    newest = live.asks(c.opened, "rate-same")[-1]
    measured = (
        f"{amounts.plus_minus(round(half, 1))} after {newest.meta['spent_s'] / 60:.0f} minutes"
    )
    return measured, "", newest.folder.name, half <= goal["most_pct"]


MEASURES: dict[str, Callable[["Calibration", Goal], Measured]] = {
    "covered": _covered, "false_words": _false_words, "files": _files, "mutants": _mutants,
    "sittings": _sittings, "heldout": _heldout, "called": _called, "known": _known, "two": _two,
    "told": _told, "at_once": _at_once,
}  # fmt: skip
