"""Every goal of ``goals.toml`` with its measured figure and bound."""

import math
import tomllib
from pathlib import Path

import pandas as pd
from scipy import stats

from noisefloor.calibrate import live, truth
from noisefloor.calibrate.rivals import bounds
from noisefloor.stats.estimate import ALPHA, FASTER, SLOWER

_KINDS = tomllib.loads(Path(__file__).with_name("goals.toml").read_text())
GOALS = [k | g | {"by": by} for by, k in _KINDS.items() for g in k.get("goals", [{}])]
SURE = 0.002  # two-sided: bounds of 99.9 % each
SHARES = ("least", "most", "upper", "more", "level")


def table(c):
    """Every goal of a Calibration: columns goal, reached ("yes", "no", "not measured"), measured,
    bound, limit, where. A goal of live campaigns that are not there or too short is not measured."""
    rows = []
    for goal in GOALS:
        try:
            measured, bound, where, reached = MEASURES[goal["by"]](c, goal)
            word = "yes" if reached else "no"
        except live.TooShort as e:
            measured, bound, where, word = "–", "", str(e), "not measured"
        told = {k: pct(v) if k in SHARES else v for k, v in goal.items()}
        told["pairs"] = " / ".join(map(str, goal.get("pairs", ())))
        rows.append((goal["name"], word, measured, bound, goal["limit"].format(**told), where))
    found = pd.DataFrame(rows, columns=["goal", "reached", "measured", "bound", "limit", "where"])
    return found[found["measured"] != ""].reset_index(drop=True)


def summary(goals):
    """The goals as lines of text."""
    lines = []
    for row in goals.itertuples():
        mark = {"yes": "reached", "no": "MISSED"}.get(row.reached, row.reached)
        bound = f" (bound {row.bound})" if row.bound else ""
        lines.append(f"{mark:<13} {row.goal}: {row.measured}{bound}, goal {row.limit}; {row.where}")
    return "\n".join(lines)


def called(aa):
    """Verdict rows of the pairs in turn of two identical servers, TPS and CPU, joint where there are."""
    rows = aa.of(aa.main, control=False)
    rows = rows[rows["metric"].isin(live.METRICS)]
    return list(rows[rows["joint"] | ~rows["joint"].any()].itertuples())


def pct(share):
    """A share in percent."""
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def price(sd, overhead):
    """How many pairs are allowed for a right word."""
    pairs = next(goal["pairs"] for goal in GOALS if goal.get("sd") == sd)
    return pairs[truth.TRUTHS.index(overhead)]


def cell_name(row):
    """What kind of noise a synthetic cell has."""
    return (
        f"{row['design']}, {row['blocks']} blocks, {row['noise']}, {row['dependence']}, drift "
        f"{row['drift']}, run CV {100 * row['cv']:g} %, block effect {100 * row['block_cv']:g} %"
    )


def _between(ends):
    return " to ".join(map(pct, ends))


def _worst(counts, n):
    """The bounds of an error rate that are held against limits: the highest lower one (99.9 %) and
    the highest upper one (95 %) of all cells."""
    return bounds(counts, n, SURE)[0].max(), bounds(counts, n)[1].max()


# How goals are measured: (measured, bound, where, whether it is reached) each.


def _rate(c, goal):
    """An error rate in every cell of a frame that counts it."""
    frame = getattr(c, goal["cells"])
    share = frame[goal["count"]] / frame["n"]
    low, high = _worst(frame[goal["count"]], frame["n"])
    return (
        f"median {pct(share.median())}, worst {pct(share.max())}",
        _between((low, high)),
        f"worst of {len(frame)}: {cell_name(frame.loc[share.idxmax()])}",
        max(share.median(), low) <= goal["most"] and high <= goal["upper"],
    )


def _coverage(c, goal):
    count, least, most = goal["by"], goal.get("least", 0.0), goal.get("most", 1.0)
    share = c.coverage[count] / c.coverage["n"]
    row = c.coverage.loc[share.idxmin() if "least" in goal else share.idxmax()]
    missed = (share < least) | (share > most)
    where = f"missed in {missed.sum()} of {len(share)}; worst: {cell_name(row)}"
    bound = _between(bounds(row[count], row["n"]))
    return _between((share.min(), share.max())), bound, where, not missed.any()


def _price(c, goal):
    prices = c.figures["prices"]
    part = prices[prices["sd_pct"] == goal["sd"]]
    return (
        " / ".join("more" if math.isnan(k) else f"{k:.0f}" for k in part["pairs"]),
        "",
        f"true overhead {' / '.join(f'{t:g}' for t in part['truth_pct'])} %, one pair a block",
        (part["pairs"] <= goal["pairs"]).all(),
    )


def _mode(row):
    return "--restarts" if row["restarts"] else "one start an arm, as assumed by default"


def _found(c, goal):
    f, word = c.figures["files"], goal["word"]
    kept = (f["runs"] == goal["runs"]) & (f["restarts"] == goal["restarts"])
    row = f[kept & (f["cv"] == 0.01) & (f["effect"] == goal["effect"])].iloc[0]
    share, bound = row[word] / row["n"], _between(bounds(row[word], row["n"]))
    return pct(share), bound, f"CV {100 * row['cv']:g} %, {_mode(row)}", share >= goal["least"]


def _files(c, goal):
    f = c.figures["files"]
    equal = f[f["effect"] == 0].reset_index(drop=True)
    counts = equal["slower"] + equal["faster"]
    share, worst = (counts / equal["n"]).max(), equal.loc[counts.idxmax()]
    low, high = _worst(counts, equal["n"])
    kind = f"{worst['runs']} runs, CV {100 * worst['cv']:g} %, {_mode(worst)}"
    reached = share <= goal["most"] and high <= goal["upper"]
    return pct(share), _between((low, high)), f"worst of {len(equal)}: {kind}", reached


def _mutants(c, goal):
    m = c.mutants
    return (
        f"{m['mutant_pct'].min():.1f} % to {m['mutant_pct'].max():.1f} %",
        f"at least {m['at_least_pct'].min():.1f} %",
        f"weakest: {m.loc[m['at_least_pct'].idxmin(), 'mutant']}",
        m["exposed"].all(),
    )


def _speed(c, goal):
    facts = c.figures["facts"]
    if not facts["full"]:
        return "", "", "", False  # a small calibration says nothing
    spent, whole = facts["core_seconds"] / 60, facts["campaigns"] >= truth.CAMPAIGNS
    where = (
        f"processor time of {facts['cells']:,} cells of {facts['campaigns']:,} campaigns, on cores: "
        f"{facts['cores']}"
    )
    return f"{spent:.1f} core minutes", "", where, spent <= goal["minutes"] and whole


def _width(c, goal):
    designs = c.identical.groupby("design", sort=False)
    half, blocks = designs["half_pct"].min(), designs["blocks"].min().min()
    measured = ", ".join(f"{name}: ±{v:.2f} %" for name, v in half.items())
    reached = half.max() <= goal["half_pct"] and blocks >= live.WHOLE
    return measured, "", f"{blocks} blocks", reached


def _never(c, goal):
    rows = [r for aa in c.every_aa for r in called(aa)]
    wrong = [r.metric for r in rows if r.verdict in (SLOWER, FASTER)]
    where = f"TPS and CPU, in turn: {len(rows)} verdicts of {len(c.every_aa)} campaigns"
    return ", ".join(wrong) or "never", "", where, not wrong


def _controls(c, goal):
    found = c.controls
    wrong, n = found["verdict"].isin([SLOWER, FASTER]).sum(), len(found)
    most = int(stats.binom.ppf(goal["level"], n, ALPHA))
    where = f"throughput and processor time, {found['campaign'].nunique()} campaigns"
    return f"{wrong} of {n}", f"at most {most}", where, wrong <= most


def _machine_time(c, goal):
    time = c.machine_time
    worst = time.loc[time["saved_pct"].idxmin()]
    wrong, right = time["wrong"].max(), time["right"].min()
    return (
        f"{worst['saved_pct']:.0f} % less ({worst['minutes']:.1f} of {live.REFERENCE_MIN:.0f} min)",
        f"errors {pct(wrong)}",
        f"{worst['metric']} at {worst['truth_pct']:.0f} %; right verdict in {pct(right)} at least",
        worst["saved_pct"] >= 50 and wrong <= goal["most"] and right >= 0.9,
    )


def _known(c, goal):
    held, n = c.slowdowns[["held", "pieces"]].sum()
    if not n:
        raise live.TooShort(f"less than {live.PIECE} blocks an arm")
    ends = bounds(held, n)
    where = f"pieces of {live.PIECE} blocks in turn, TPS and CPU"
    return f"{held} of {n}", _between(ends), where, ends[1] >= goal["least"]


MEASURES = {
    "rate": _rate, "covered": _coverage, "covered_last": _coverage, "price": _price,
    "found": _found, "files": _files, "mutants": _mutants, "speed": _speed, "width": _width,
    "never": _never, "controls": _controls, "machine_time": _machine_time, "known": _known,
}  # fmt: skip
