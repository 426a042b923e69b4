"""Data of a page's runs beside the tidy table, one frame each."""

import math
from typing import Any

import pandas as pd

from noisefloor import stats
from noisefloor.data import design, tidy
from noisefloor.data.packed import Place
from noisefloor.data.results.campaign import Results, only
from noisefloor.model import METRICS
from noisefloor.servers.kinds import mysql

LONGEST = 60_000  # characters of a raw file that are shown


def shortened(text: str) -> str:
    """`text`, cut after `LONGEST` characters."""
    return text if len(text) <= LONGEST else text[:LONGEST] + "\n… (cut here)"


def stages(page: Results) -> pd.DataFrame:
    """What every process of a pipe did, as `tidy.stages` reads it."""
    table = page.frame(tidy.stages)
    return table.fillna({c: 0.0 for c in table if str(c).startswith(("runs", "waits"))})


def evidence(page: Results) -> pd.DataFrame:
    """Evidence counted over runs: columns arm, evidence, check, found, expected, runs."""
    keys = ["arm", "evidence", "check", "found", "expected"]
    return page.frame(tidy.evidence).groupby(keys, sort=False)["runs"].sum().reset_index()


def differences(page: Results) -> pd.DataFrame:
    """Variables that differ between arms: columns variable, one per arm, asked (for); each once, with
    the values of all arms."""
    table = page.frame(tidy.differences)
    by_name = table.groupby("variable", sort=False)
    values = by_name[[c for c in table if c not in ("variable", "asked")]].first()
    return values.assign(asked=by_name["asked"].any()).reset_index()


def quantiles(page: Results, workload: str, threads: int) -> pd.DataFrame:
    """Latency quantiles of each arm, as `tidy.quantiles` reads them; none without a p95."""
    part = page.measured(workload)
    if threads not in set(part.judged(workload, "p95")["threads"]):
        return pd.DataFrame(columns=["arm", "q", "value_s", "lo", "hi"])
    return tidy.quantiles(part.opened, workload, threads)


def intervals(page: Results, workload: str) -> pd.DataFrame:
    """Every second of a workload's runs, as `tidy.intervals` reads them."""
    return tidy.intervals(page.measured(workload).opened, workload)


def fact(page: Results, name: str) -> pd.DataFrame:
    """What the first leading campaign that has this fact measured once; empty without one."""
    tables = (tidy.measured_once(p.folder, name) for p in page.parts)
    return next((t for t in tables if len(t)), pd.DataFrame())


def raw(page: Results, run: str) -> dict[str, str]:
    """Name of the file -> text that a tool printed in a run of the first campaign; else run.json."""
    folder, texts = tidy.runs_folder(page.folder) / run, {}
    files: list[Place] = sorted(folder.glob("*.txt"))
    for file in files or [folder / "run.json"]:
        try:
            texts[f"{run}/{file.name}"] = shortened(file.read_text(errors="replace"))
        except OSError as e:
            texts[f"{run}/{file.name}"] = f"It cannot be read: {e.strerror}."
    return texts


def forest(page: Results) -> pd.DataFrame:
    """Every campaign's own verdict rows, for a forest: columns of `Results.alone` and campaign, date,
    processor, sitting, series (of the servers), steal_pct (of all cores' time, mean over runs)."""
    tables = []
    for campaign in page.every:
        meta = campaign.meta
        steal = campaign.judged(metric="steal")["value"]
        builds = dict.fromkeys(
            (meta.get("engines") or {}).get(arm.name, meta["engine"])["label"]
            for arm in campaign.study.compared
        )
        host = meta.get("host")
        cores = (host.get("cores") if isinstance(host, dict) else None) or 1
        about: dict[str, Any] = {
            "campaign": campaign.folder.name,
            "date": str(meta.get("finished") or design.began(meta))[:16],
            "processor": campaign.processor,
            "sitting": design.sitting_key(meta),
            "series": " and ".join(builds),
            "steal_pct": 100 * steal.mean() / cores if len(steal) else math.nan,
        }
        tables.append(campaign.alone().assign(**about))
    return pd.concat(tables, ignore_index=True)


def counted(page: Results, workload: str, threads: int | None = None) -> str:
    """How many judged runs an arm of a workload (at one thread count) has, in words."""
    runs = page.runs[~page.runs["warmup"] & (page.runs["workload"] == workload)]
    runs = runs if threads is None else runs[runs["threads"] == threads]
    counts = runs.groupby("arm")["run"].nunique()
    if counts.empty:
        return "No run."
    least, most = counts.min(), counts.max()
    return f"{least if least == most else f'{least} to {most}'} runs an arm."


def warnings(page: Results) -> pd.DataFrame:
    """What makes the campaign less trustworthy: columns warning, runs."""
    each = page.runs["warnings"].str.split("; ").explode()
    each = each[each.fillna("") != ""].str.replace(r"[\d.]+", "…", regex=True)
    counts = each.value_counts().rename_axis("warning").reset_index(name="runs")
    several = len(page.parts) > 1
    problems = [
        f"{part.study.key}/{problem}" if several else problem
        for part in page.parts
        for problem in part.opened.tidy_runs.problems
    ]
    left_out = pd.DataFrame({"warning": problems, "runs": 1})
    return pd.concat([counts, left_out], ignore_index=True)


def skipped(page: Results) -> pd.DataFrame:
    """Workloads and arms that this machine does not allow: columns left out, reason."""
    return pd.DataFrame(page.meta.get("skipped", {}).items(), columns=["left out", "reason"])


def workloads(page: Results) -> pd.DataFrame:
    """What was measured and why: columns workload, threads, why."""
    rows = [
        (w.name, ", ".join(str(t) for t in w.threads if t), w.why) for w in page.study.workloads
    ]
    return pd.DataFrame(rows, columns=["workload", "threads", "why"])


def builds(page: Results) -> pd.DataFrame:
    """How the compared builds were made: columns fact, one a build."""
    table = pd.DataFrame(page.meta.get("builds", {})).fillna("")
    return table.rename_axis("fact").reset_index()


def upgrade(page: Results) -> pd.DataFrame:
    """The old version's data directory, opened by the new one: columns fact, found."""
    if not (result := page.meta.get("upgrade")):
        return pd.DataFrame(columns=["fact", "found"])
    rows = [("from", result["from"]), ("to", result["to"])]
    if result.get("refused"):
        why = mysql.detour(result["from"], result["to"])
        rows.append(("result", f"not in one step: {why}" if why else "not in one step"))
    else:
        rows.append(("seconds until it answered", f"{result['took_s']:.1f}"))
        rows.append(("checksums of all tables, before and after", result["checksums"]))
    rows += [("the server said", line) for line in result.get("said", [])]
    return pd.DataFrame(rows, columns=["fact", "found"])


def proofs(page: Results) -> pd.DataFrame:
    """Each evidence by arm: a row an evidence, a column an arm, the states seen (in how many runs)."""
    seen = evidence(page)
    seen = seen.assign(state=seen["found"] + " (" + seen["runs"].astype(str) + ")")
    by_arm = seen.groupby(["evidence", "arm"])["state"]
    table = by_arm.agg(lambda states: ", ".join(dict.fromkeys(states))).unstack()
    arms = [arm.name for arm in page.study.compared if arm.name in table]
    return table.reindex(columns=arms).fillna("not looked for").reset_index()


def medians(page: Results, workload: str, metrics: tuple[str, ...]) -> pd.DataFrame:
    """Medians of the runs in shown units: columns threads, arm, runs, and one a metric."""
    kept = page.judged(workload)
    by_arm = kept[kept["metric"].isin(metrics)].groupby(["threads", "arm"])
    columns = {"runs": by_arm["run"].nunique()}
    for name in metrics:
        middle = only(kept, metric=name).groupby(["threads", "arm"])["value"].median()
        shown = f"{METRICS[name].label}, {METRICS[name].shown_unit}"
        columns[shown] = (middle * METRICS[name].scale).round(4)
    return pd.concat(columns, axis=1).reset_index()


def baseline_in_units(part: Results, row: Any) -> float:
    """The median of the baseline's runs in the pairs that a campaign compares with a row's arm, in the
    metric's shown unit, with four digits; NaN without a pair."""
    runs = part.judged(row["workload"], row["metric"])
    pairs: Any = stats.pairs(runs, baseline=row["baseline"]) if len(runs) else runs
    if not len(pairs):
        return math.nan
    compared = pairs[pairs["arm"].eq(row["arm"]) & pairs["threads"].eq(row["threads"])]
    blocks = stats.block_means(compared).index
    runs = runs[runs["threads"].eq(row["threads"]) & runs["block"].isin(blocks)]
    paired = runs.loc[runs["arm"].eq(row["arm"]), "pair_id"]
    base = runs[runs["arm"].eq(row["baseline"]) & runs["pair_id"].isin(paired)]
    return float(f"{base['value'].median() * METRICS[row['metric']].scale:.4g}")


def failed(page: Results) -> dict[str, int]:
    """Arm -> its judged runs whose command ended with an error."""
    runs = page.runs[~page.runs["warmup"]]
    counts = runs["exit_code"].ne(0).groupby(runs["arm"]).sum()
    return {str(arm): int(n) for arm, n in counts.items()}
