"""What a page shows of campaigns beside their verdicts: tables, sentences, and arms or campaigns
seen from each other."""

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from noisefloor import model, schedule, stats
from noisefloor.model import METRICS
from noisefloor.servers.kinds import mysql

# what a page leads with, the first of each that was measured
PROCESSOR = ("cpu_per_transaction", "cpu_per_connection", "user_sys")
THROUGHPUT = ("tps", "connections_per_second", "wall")
LATENCY = ("p99",)  # in place of throughput at a rate, which both arms reach
_CPU = "cpu_per_transaction"
_ENDS = ["change_pct", "lo_pct", "hi_pct"]
_STEPS = ["step", "arm", *_ENDS, "verdict", "blocks", "start_pct", "end_pct"]


def only(table: pd.DataFrame, **asked: str) -> pd.DataFrame:
    """The rows with these values; "" for all."""
    kept = np.ones(len(table), bool)
    for column, value in asked.items():
        if value:
            kept &= table[column].eq(value).to_numpy(bool)
    return table[kept]


def advice(rows: list[pd.Series]) -> pd.DataFrame:
    """Who should switch it on: the two domains of the binlog document, each with what it advised
    and what the first of `headlines` means for it. Columns domain, the document advised, measured
    here."""
    row = rows[0]  # processor time; the last one may be of latency
    sign = 1 if model.metric(row["metric"]).worse_up else -1  # a cost is a change for the worse
    least, most = sorted((sign * row["lo_pct"], sign * row["hi_pct"]))
    of = " of TPS" if row["metric"] == "tps" else " of processor time"
    known = pd.notna(most)
    cost = f"it costs at most {most:.1f} %{of}" if known and most > 0 else "no cost was found"
    ends = f"anything from {least:.1f} to {most:.1f} %{of} is possible".replace("-", "−")
    ends = ends if known else "too few pairs for an interval"
    said = {
        "same": f"Switch it on: the cost lies within ±{row['margin_pct']:g} %{of}.",
        "better": "Switch it on: no cost was found.",
        "worse": f"It costs between {least:.1f} and {most:.1f} %{of}. Switch it on where the log"
        " leaves the machine; else weigh it.",
    }.get(
        stats.verdict.kind(row["verdict"], row["metric"]),
        f"Not decided here: {ends}. Measure longer before you rely on a cost of nothing.",
    )
    strict = f"Switch it on: {cost}, and that is the price of the rule."
    return pd.DataFrame(
        [
            ("finance, medicine", "required: a leak is a legal disaster", strict),
            ("other services", "recommended: the loss is slight with AES instructions", said),
        ],
        columns=["domain", "the document advised", "measured here"],
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


def _step(name: str, row: dict, step: tuple, word: str, start: float = 0.0) -> tuple:
    """A row of `_STEPS`: a step (estimate, lo, hi) that begins at `start`, on the log scale."""
    ends = _percent((step[0], start + step[1], start + step[2], start, start + step[0]))
    return name, row["arm"], *ends[:3], word, row["blocks"], *ends[3:]


def _word(logs: tuple, margin_pct: float, metric: str) -> str:
    """The verdict of (estimate, lo, hi) on the log scale."""
    return stats.verdict.word(*logs[1:], math.log1p(margin_pct / 100), metric)


def apart(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """What two campaigns, independent of each other, say about the same comparisons: columns arm,
    threads, first_pct, second_pct, difference_pct, lo_pct, hi_pct and verdict (of the second
    against the first), a row a comparison that both verdict tables hold."""
    same = ["workload", "metric", "threads", "joint", "baseline", "arm"]
    both = first[[*same, *_ENDS, "margin_pct"]].merge(
        second[[*same, *_ENDS]], on=same, suffixes=("", " then")
    )
    found = []
    for row in both.to_dict("records"):
        step = _apart(_logs(row), _logs({c: row[f"{c} then"] for c in _ENDS}))
        told = (row["arm"], "all" if row["joint"] else row["threads"])
        told += (row["change_pct"], row["change_pct then"])
        word = _word(step, row["margin_pct"], row["metric"])
        found.append((*told, *_percent(step), word))
    columns = ["arm", "threads", "first_pct", "second_pct", "difference_pct", "lo_pct", "hi_pct"]
    return pd.DataFrame(found, columns=[*columns, "verdict"])


class Tables:
    """The part of Results that makes them."""

    def _baseline(self, workload: str) -> pd.DataFrame:
        """Medians of the baseline's runs of a workload: a row a thread count, a column a metric."""
        runs = only(self._judged, workload=workload, arm=self.study.baseline.name)
        return runs.groupby(["threads", "metric"])["value"].median().unstack()

    def price(self, workload: str) -> pd.DataFrame:
        """What an arm costs in processor cores at the throughput that the baseline reached: columns
        threads, arm, at TPS, baseline cores, more cores, lo, hi (the interval of CPU per
        transaction, at the baseline's median), verdict."""
        if len(self.parts) > 1:
            found = (p.price(workload) for p in self._measured(workload, "tps"))
            return pd.concat(found, ignore_index=True)
        rows = self.of(workload, _CPU, control=False)
        middle = self._baseline(workload).reindex(columns=["tps", _CPU])
        rows = rows[~rows["joint"]].join(middle, on="threads")
        cores = rows["tps"] * rows[_CPU]
        found = rows[["threads", "arm"]].assign(
            **{"at TPS": rows["tps"].round(0), "baseline cores": cores.round(3)}
        )
        ends = {"more cores": "change_pct", "lo": "lo_pct", "hi": "hi_pct"}
        found = found.assign(**{k: (cores * rows[c] / 100).round(3) for k, c in ends.items()})
        return found.assign(verdict=rows["verdict"])

    @property
    def load(self) -> pd.DataFrame:
        """What the leading campaign at a rate found at each rate: columns rate (offered, 1/s), arm,
        windows, saturated_pct (of the windows, of either arm), p50_s, p99_s, cpu_s (a transaction;
        medians, NaN where too many windows are saturated); empty without one."""
        columns = ["rate", "arm", "windows", "saturated_pct", "p50_s", "p99_s", "cpu_s"]
        at_rate = (p for p in self.parts if p.study.workloads[0].rate)
        part = next((p for p in at_rate if p.study.workloads[0].tool == "sysbench"), None)
        found = []
        for work in part.study.workloads if part else ():
            rows = part.judged(work.name)
            full = part.tidy.attrs.get("saturated", {}).get(work.name, {})
            pairs = rows.groupby(["metric", "pair_id"])["value"].transform("size")
            middle = rows[pairs.gt(1)].groupby(["arm", "metric"])["value"].median()
            for arm in (a.name for a in part.study.compared):
                counts = [full[a] for a in full if arm in (a, part.study.baseline.name)]
                windows = sum(n for _, n in counts)
                share = sum(n for n, _ in counts) / windows if windows else math.nan
                means = [
                    middle.get((arm, m), math.nan) if share <= schedule.MOST_SATURATED else math.nan
                    for m in ("p50", "p99", _CPU)
                ]
                found.append((work.rate, arm, windows, 100 * share, *means))
        return pd.DataFrame(found, columns=columns).sort_values("rate", kind="stable")

    def expectation(self) -> pd.DataFrame:
        """What the cipher alone takes, beside what was measured (CPU per transaction): columns
        threads, bytes a transaction (median of the baseline), MB_per_s of the cipher, cipher_us,
        cpu_ms, expected_pct, and change_pct, lo_pct, hi_pct of the headline; empty where no
        cipher was timed."""
        metric, rates = self.study.cipher.get("bytes"), self.meta.get("cipher_B_per_s")
        columns = ["threads", "bytes", "MB_per_s", "cipher_us", "cpu_ms", "expected_pct"]
        ends = _ENDS
        theirs = (
            self.meta.get("builds", {}).get(self.meta["engine"]["label"], {}).get("OpenSSL", "")
        )
        if (own := self.meta.get("cipher_library", "")) and f" {own} " not in f"{theirs} ":
            rates = []  # the server links another library than the one that was timed
        lead = next((x for x in self.headlines() if x["metric"] == _CPU), None)
        if not (metric and rates) or lead is None:
            return pd.DataFrame(columns=[*columns, *ends])
        rate = float(np.median(rates))
        base = self._baseline(self.main).reindex(columns=[metric, _CPU]).dropna().reset_index()
        used, cpu = base[metric], base[_CPU]
        values = (base["threads"].astype(int), used, rate / 1e6, 1e6 * used / rate, 1e3 * cpu)
        values += (100 * used / rate / cpu,)
        found = pd.DataFrame(dict(zip(columns, values, strict=True)))
        return found.assign(**{c: lead[c] for c in ends})

    def counted(self, workload: str, threads: int | None = None) -> str:
        """How many judged runs an arm of a workload (at one thread count) has, in words."""
        runs = self.runs[~self.runs["warmup"] & (self.runs["workload"] == workload)]
        runs = runs if threads is None else runs[runs["threads"] == threads]
        counts = runs.groupby("arm")["run"].nunique()
        if counts.empty:
            return "No run."
        least, most = counts.min(), counts.max()
        return f"{least if least == most else f'{least} to {most}'} runs an arm."

    def medians(self, workload: str, metrics: tuple[str, ...]) -> pd.DataFrame:
        """Medians of the runs as they are shown: columns threads, arm, runs, one a metric."""
        kept = only(self._judged, workload=workload)
        by = kept[kept["metric"].isin(metrics)].groupby(["threads", "arm"])
        found = {"runs": by["run"].nunique()}
        for m in metrics:
            middle = kept[kept["metric"] == m].groupby(["threads", "arm"])["value"].median()
            shown = f"{METRICS[m].label}, {METRICS[m].shown_unit}"
            found[shown] = (middle * METRICS[m].scale).round(4)
        return pd.concat(found, axis=1).reset_index()

    @property
    def maxima(self) -> pd.DataFrame:
        """Maximum latency of the first workload's runs in ms: columns threads, arm, runs, median,
        highest. Shown, never judged."""
        rows = only(self._judged, workload=self.main, metric="max_latency")
        found = rows.groupby(["threads", "arm"])["value"].agg(
            runs="count", median="median", highest="max"
        )
        return (found * [1, 1e3, 1e3]).round(1).astype({"runs": int}).reset_index()

    # -- proofs, and how it was measured

    @property
    def proofs(self) -> pd.DataFrame:
        """Where the rows can be read: a row an evidence, a column an arm, in how many runs."""
        seen = self.evidence
        seen = seen.assign(state=seen["found"] + " (" + seen["runs"].astype(str) + ")")
        names = [a.name for a in self.study.compared]
        by = seen.groupby(["evidence", "arm"])["state"]
        table = by.agg(lambda s: ", ".join(dict.fromkeys(s))).unstack()
        arms = [name for name in names if name in table]
        return table.reindex(columns=arms).fillna("not looked for").reset_index()

    @property
    def exposed(self) -> str:
        """In words: which arms encrypt something and leave rows readable elsewhere."""
        said = []
        for arm, part in self.evidence.groupby("arm", sort=False):
            clear = part[part["found"] == "plain"]["evidence"].unique()
            if len(clear) and (part["found"] == "encrypted").any():
                said.append(f"With {arm} the rows can still be read in the {', '.join(clear)}.")
        return " ".join(said) or "No arm that encrypts anything left rows readable elsewhere."

    @property
    def builds(self) -> pd.DataFrame:
        """How the compared builds were made: columns fact, one a build."""
        found = pd.DataFrame(self.meta.get("builds", {})).fillna("")
        return found.rename_axis("fact").reset_index()

    @property
    def upgrade(self) -> pd.DataFrame:
        """The old version's data directory, opened by the new one: columns fact, found."""
        if not (found := self.meta.get("upgrade")):
            return pd.DataFrame(columns=["fact", "found"])
        rows = [("from", found["from"]), ("to", found["to"])]
        if found.get("refused"):
            why = mysql.detour(found["from"], found["to"])
            rows.append(("result", f"not in one step: {why}" if why else "not in one step"))
        else:
            rows.append(("seconds until it answered", f"{found['took_s']:.1f}"))
            rows.append(("checksums of all tables, before and after", found["checksums"]))
        rows += [("the server said", line) for line in found.get("said", [])]
        return pd.DataFrame(rows, columns=["fact", "found"])

    @property
    def warnings(self) -> pd.DataFrame:
        """What makes the campaign less trustworthy: columns warning, runs."""
        said = self.runs["warnings"].str.split("; ").explode()
        said = said[said.fillna("") != ""].str.replace(r"[\d.]+", "…", regex=True)
        counted = said.value_counts().rename_axis("warning").reset_index(name="runs")
        problems = pd.DataFrame({"warning": self.tidy.attrs["problems"], "runs": 1})
        return pd.concat([counted, problems], ignore_index=True)

    @property
    def skipped(self) -> pd.DataFrame:
        """Workloads and arms that this machine does not allow: columns left out, reason."""
        skipped = self.meta.get("skipped", {})
        return pd.DataFrame(skipped.items(), columns=["left out", "reason"])

    @property
    def workloads(self) -> pd.DataFrame:
        """What was measured and why: columns workload, threads, why."""
        rows = [(w.name, ", ".join(map(str, w.threads)), w.why) for w in self.study.workloads]
        return pd.DataFrame(rows, columns=["workload", "threads", "why"])

    # -- arms set against each other

    def _joint(self, metric: str, one: list[str]) -> pd.DataFrame:
        """Rows of the capacity's workload, each `one` once: over all thread counts where every arm has
        such a row, else at the most threads."""
        rows = self.of(self.capacity.main, metric, control=False)
        joint, each = rows[rows["joint"]], rows[~rows["joint"]].sort_values("threads")
        whole = len(joint.drop_duplicates(one)) == len(rows.drop_duplicates(one))
        return (joint if whole else each).drop_duplicates(one, keep="last")

    def effects(self, metric: str = "tps") -> pd.DataFrame:
        """What each variable changes on average over the values of the others, and what two of two
        values do beyond the sum of each alone: columns setting, change_pct, lo_pct, hi_pct,
        verdict. Empty for a single arm.

        Weighted sums of the arms' log changes. Arms share no run, so their errors are independent
        and the distances to the ends add as squares (MOVER: Zou and Donner 2008)."""
        columns = ["setting", *_ENDS, "verdict"]
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
            word = _word((middle, lo, hi), schedule.margin_pct(self.study, metric), metric)
            found.append((change, *100 * np.expm1([middle, lo, hi]), word))
        return pd.DataFrame(found, columns=columns)
