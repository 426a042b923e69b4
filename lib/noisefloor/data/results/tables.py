"""What a page shows of campaigns beside their verdicts: tables, and sentences."""

import numpy as np
import pandas as pd

from noisefloor.model import METRICS

# what a page leads with, the first of each that was measured
PROCESSOR = ("cpu_per_transaction", "cpu_per_connection", "user_sys")
THROUGHPUT = ("tps", "connections_per_second", "wall")
_CPU = "cpu_per_transaction"


def only(table: pd.DataFrame, **asked: str) -> pd.DataFrame:
    """The rows with these values; "" for all."""
    kept = np.ones(len(table), bool)
    for column, value in asked.items():
        if value:
            kept &= table[column].eq(value).to_numpy(bool)
    return table[kept]


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
        if self.more:
            found = (p.price(workload) for p in self._measured(workload, "tps"))
            return pd.concat(found, ignore_index=True)
        rows = self.of(workload, _CPU, control=False)
        middle = self._baseline(workload).reindex(columns=["tps", _CPU])
        rows = rows[~rows["joint"]].join(middle, on="threads")
        cores = rows["tps"] * rows[_CPU]
        found = rows[["threads", "arm"]].assign(
            **{"at TPS": rows["tps"].round(0), "baseline cores": cores.round(3)}
        )
        ends = {"more cores": "overhead_pct", "lo": "lo_pct", "hi": "hi_pct"}
        found = found.assign(**{k: (cores * rows[c] / 100).round(3) for k, c in ends.items()})
        return found.assign(verdict=rows["verdict"])

    def expectation(self) -> pd.DataFrame:
        """What the cipher alone takes, beside what was measured (CPU per transaction): columns
        threads, bytes a transaction (median of the baseline), MB_per_s of the cipher, cipher_us,
        cpu_ms, expected_pct, and overhead_pct, lo_pct, hi_pct of the headline; empty where no
        cipher was timed."""
        metric, rates = self.study.cipher.get("bytes"), self.meta.get("cipher_B_per_s")
        columns = ["threads", "bytes", "MB_per_s", "cipher_us", "cpu_ms", "expected_pct"]
        ends = ["overhead_pct", "lo_pct", "hi_pct"]
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
    def pinned(self) -> pd.DataFrame:
        """Values of the old version given to the new one: columns arm, variable, value, refused."""
        pinned = self.meta.get("pinned", {}).items()
        rows = [(arm, k, v, "") for arm, part in pinned for k, v in part["settings"].items()]
        rows += [(arm, k, "", why) for arm, part in pinned for k, why in part["refused"].items()]
        return pd.DataFrame(rows, columns=["arm", "variable", "value", "refused"])

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
            lts = found["from"].startswith("MySQL 8.0") and found["to"].startswith("MySQL 9")
            through = ": MySQL 9 opens the data of an LTS release alone; go through 8.4" * lts
            rows.append(("result", f"not in one step{through}"))
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
