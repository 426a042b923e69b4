"""Two campaigns, or two arms, seen from each other."""

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from noisefloor import schedule, stats
from noisefloor.data.results.tables import PROCESSOR

_ENDS = ["overhead_pct", "lo_pct", "hi_pct"]
_STEPS = ["step", "arm", *_ENDS, "verdict", "blocks", "start_pct", "end_pct"]


def advice(rows: list[pd.Series], margin_pct: float) -> pd.DataFrame:
    """Who should switch it on: the two domains of the binlog document, each with what it advised
    and what the last judged row of `headlines` means for it. Columns domain, the document advised,
    this campaign says."""
    row = next(r for r in reversed(rows) if r["verdict"] != schedule.NOT_JUDGED or r is rows[0])
    of = "" if row.get("metric", "tps") == "tps" else " of processor time"
    most, least = row["hi_pct"], row["lo_pct"]
    known = pd.notna(most)
    cost = f"it costs at most {most:.1f} %{of}" if known and most > 0 else "no cost was resolved"
    ends = f"anything from {least:.1f} to {most:.1f} %{of} is possible".replace("-", "−")
    ends = ends if known else "too few pairs for an interval"
    said = {
        "same": f"Switch it on: the cost lies within ±{margin_pct:g} %{of}.",
        "faster": "Switch it on: no cost was found, the encrypted arm was not slower.",
        "slower": f"It is not free: between {least:.1f} and {most:.1f} %{of}. Switch it on where"
        " the log leaves the machine; else weigh it.",
    }.get(
        row["verdict"],
        f"Not decided here: {ends}. Measure longer before you rely on a cost of nothing.",
    )
    strict = f"Switch it on: {cost}, and that is the price of the rule."
    return pd.DataFrame(
        [
            ("finance, medicine", "required: a leak is a legal disaster", strict),
            ("other services", "recommended: the loss is slight with AES instructions", said),
        ],
        columns=["domain", "the document advised", "this campaign says"],
    )


def _logs(row: pd.Series | dict) -> tuple[float, float, float]:
    """Estimate, lo and hi of a row on the log scale."""
    return tuple(math.log1p(row[c] / 100) for c in _ENDS)


def _apart(before: tuple, now: tuple) -> tuple[float, float, float]:
    """How far `now` is from `before`, each (estimate, lo, hi) on the log scale: their errors are
    independent and add as squares."""
    step = now[0] - before[0]
    lo = step - math.hypot(now[0] - now[1], before[2] - before[0])
    return step, lo, step + math.hypot(now[2] - now[0], before[0] - before[1])


def _percent(logs: Iterable[float]) -> list[float]:
    return [100 * math.expm1(x) for x in logs]


def _word(logs: tuple, margin_pct: float) -> str:
    """The verdict of (estimate, lo, hi) on the log scale."""
    return stats.estimate.word_of(*logs[1:], math.log1p(margin_pct / 100))


def apart(first: pd.DataFrame, second: pd.DataFrame, margin_pct: float) -> pd.DataFrame:
    """What two campaigns, independent of each other, say about the same comparisons: columns arm,
    threads, first_pct, second_pct, difference_pct, lo_pct, hi_pct and verdict (of the second
    against the first), a row a comparison that both verdict tables hold."""
    same = ["workload", "metric", "threads", "joint", "baseline", "arm"]
    both = first[[*same, *_ENDS]].merge(second[[*same, *_ENDS]], on=same, suffixes=("", " then"))
    found = []
    for row in both.to_dict("records"):
        step = _apart(_logs(row), _logs({c: row[f"{c} then"] for c in _ENDS}))
        told = (row["arm"], "all" if row["joint"] else row["threads"])
        told += (row["overhead_pct"], row["overhead_pct then"])
        found.append((*told, *_percent(step), _word(step, margin_pct)))
    columns = ["arm", "threads", "first_pct", "second_pct", "difference_pct", "lo_pct", "hi_pct"]
    return pd.DataFrame(found, columns=[*columns, "verdict"])


class Differences:
    """The part of Results that sets its arms against each other."""

    def _joint(self, metric: str, one: list[str]) -> pd.DataFrame:
        """Rows of the first workload over all thread counts, each `one` once."""
        rows = self.of(self.main, metric, control=False)
        rows = rows[rows["joint"]] if rows["joint"].any() else rows
        return rows.drop_duplicates(one)

    def steps(self, metric: str = "tps", baseline: str = "") -> pd.DataFrame:
        """What each arm adds to the arm before it, from `baseline` ("": the study's) on, those that
        are pinned before the others, over all thread counts: columns step arm overhead_pct lo_pct
        hi_pct verdict blocks start_pct end_pct.

        An arm that was measured against the first is told from the one before it: their blocks are
        their own, so their errors are independent and add as squares. One that was measured against
        the last of these is a step by itself. `lo_pct` and `hi_pct` are where the step ends, given
        where it starts; the last row is where the chain ends, seen from the first: as judged,
        where its arm was measured against that."""
        rows, margin = self._joint(metric, ["baseline", "arm"]), self.study.margin_pct
        first, at = baseline or self.study.baseline.name, (0.0, 0.0, 0.0)
        pins = {a.name for a in self.study.arms if a.pin}
        chain, links = rows[rows["baseline"] == first], []  # (row, start, step, end)
        for i in sorted(chain.index, key=lambda i: chain.at[i, "arm"] not in pins):
            now = _logs(chain.loc[i])
            links.append((chain.loc[i], at, _apart(at, now), now))
            at = now
        after = rows["baseline"].isin([row["arm"] for row, *_ in links[-1:]])
        for _, row in rows[after].head(1).iterrows():
            step = _logs(row)
            now = _apart((-step[0], -step[2], -step[1]), at)  # from its end to its start
            links.append((row, at, step, now))
        found = []
        for row, at, step, now in links:
            told = _percent((step[0], at[0] + step[1], at[0] + step[2]))
            told += [_word(step, margin), row["blocks"], *_percent((at[0], now[0]))]
            found.append((row["arm"], row["arm"], *told))
        for row, _, _, end in links[-1:]:
            word = row["verdict"] if row["baseline"] == first else _word(end, margin)
            told = (*_percent(end), word, row["blocks"], 0.0, *_percent(end[:1]))
            found.append(("all together", row["arm"], *told))
        return pd.DataFrame(found, columns=_STEPS)

    def added_up(self, question: str, whole: str) -> pd.DataFrame:
        """The arms of a question one on top of the other, and `whole`, the arm that has them all,
        as it was measured, beside them: columns as `steps`. Empty where it was not answered."""
        rows = self.about(question)
        metric = next((m for m in PROCESSOR if m in set(rows["metric"])), "")
        rows = rows[rows["metric"].eq(metric) & rows["lo_pct"].notna()].drop_duplicates("arm")
        found, at = [], 0.0
        for row in rows[rows["arm"] != whole].to_dict("records"):
            start, (own, lo, hi) = at, _logs(row)
            at += own
            ends = _percent((start + lo, start + hi))
            told = (row["overhead_pct"], *ends, row["verdict"], row["blocks"])
            found.append((row["arm"], row["arm"], *told, *_percent((start, at))))
        for row in rows[rows["arm"] == whole].to_dict("records"):
            told = [row[c] for c in _STEPS[2:7]]
            found.append((f"{whole}, measured", whole, *told, 0.0, row["overhead_pct"]))
        return pd.DataFrame(found, columns=_STEPS)

    def effects(self, metric: str = "tps") -> pd.DataFrame:
        """What each variable changes on average over the values of the others, and what two of two
        values do beyond the sum of each alone: columns change, overhead_pct, lo_pct, hi_pct,
        verdict. Empty for a single arm.

        Weighted sums of the arms' log overheads. Arms share no run, so their errors are independent
        and the distances to the ends add as squares (MOVER: Zou and Donner 2008)."""
        columns = ["change", *_ENDS, "verdict"]
        rows = self._joint(metric, ["arm"]).set_index("arm")
        arms = self.study.compared
        if len(arms) < 3 or not {a.name for a in arms[1:]} <= set(rows.index):
            return pd.DataFrame(columns=columns)
        ends = rows.loc[[a.name for a in arms[1:]], _ENDS]
        logs = np.vstack([np.zeros(3), np.log1p(ends.to_numpy(float) / 100)])
        values = pd.DataFrame([dict(a.switch) | dict(a.settings) for a in arms])
        values = values.loc[:, values.nunique() > 1]  # others are held at one value
        weights = {}
        for name in values:
            base, *others = pd.unique(values[name])
            low = (values[name] == base).to_numpy(float)
            for value in others:
                high = (values[name] == value).to_numpy(float)
                weights[f"{name}: {base} to {value}"] = high / high.sum() - low / low.sum()
        if values.shape == (4, 2):
            weights["both, beyond the sum of each alone"] = np.array([1.0, -1.0, -1.0, 1.0])
        found = []
        for change, w in weights.items():
            of, w = logs[w != 0], w[w != 0]
            middle = w @ of[:, 0]
            reach = w[:, None] * (of[:, 1:] - of[:, :1])
            lo = middle - np.hypot.reduce(reach.min(axis=1))
            hi = middle + np.hypot.reduce(reach.max(axis=1))
            word = _word((middle, lo, hi), self.study.margin_pct)
            found.append((change, *100 * np.expm1([middle, lo, hi]), word))
        return pd.DataFrame(found, columns=columns)
