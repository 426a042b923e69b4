"""From a run's text to the rows of the tidy table; and the other data of runs: seconds, quantiles,
evidence, variables."""

import contextlib
import io
import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from noisefloor import model, parse
from noisefloor.data.packed import Damaged, Place, runs_folder
from noisefloor.data.tidy import rates
from noisefloor.data.tidy.folders import (
    CLIENTS,
    COLUMNS,
    Unusable,
    broken,
    meta,
    read,
    run_folders,
    strays,
)
from noisefloor.model import METRICS
from noisefloor.parse.base import Result

BEYOND, A_CLIENT = rates.BEYOND, 30
_DUET = "duet"  # tool of campaigns before 0.3: two servers at once in a closed loop
DRAWN = tuple(sorted({0.75, 0.9, *model.QUANTILES.values()}))  # of the latency figure
_AT_TIMES = ("user_sys", "user_cpu", "sys_cpu", "peak_memory")  # some runs lack them
_PER_TRANSACTION = {
    "cpu_per_transaction": "cpu_s",
    "written_bytes_per_transaction": "written_B",
    "read_bytes_per_transaction": "read_B",
    "binlog_bytes_per_transaction": "binlog_B",
}


def printed(run: Place) -> list[Place]:
    """The files with sysbench's output of a run: one, or one for each client."""
    return sorted(run.glob("sysbench*.txt"), key=lambda p: (len(p.name), p.name))


class Run:
    """A run's folder; its facts and what sysbench printed are read once."""

    def __init__(self, place: Place):
        self.place, self.name = place, place.name

    def __truediv__(self, name: str) -> Place:
        return self.place / name

    @cached_property
    def facts(self) -> dict[str, Any]:
        """run.json, the run's files checked against it. Raises Damaged."""
        return read(self.place)

    @cached_property
    def sysbench(self) -> Result:
        """The parsed output of sysbench, of several clients combined. Raises parse.ParseError."""
        if not (self / CLIENTS).exists():
            return parse.sysbench((self / "sysbench.txt").read_bytes())
        starts = [client["start_s"] for client in json.loads((self / CLIENTS).read_text())]
        return parse.together([parse.sysbench(p.read_bytes()) for p in printed(self.place)], starts)


class TidyRuns(NamedTuple):
    """A campaign's runs. table: columns `COLUMNS`, runs of whole pairs and warm-ups."""

    table: pd.DataFrame
    problems: list[str]  # a sentence for each run that was left out, and each file that changed
    saturated: dict[str, dict[str, list[int]]]  # as in `rates`; empty where none was


class Opened:
    """A campaign whose runs are read only once. Most functions below take it, or its folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def meta(self) -> dict[str, Any]:
        """campaign.json. Raises Damaged."""
        return meta(self.folder)

    @cached_property
    def runs(self) -> list[Run]:
        """The runs of `run_folders`, damaged ones too."""
        return [Run(place) for place in run_folders(self.folder)]

    @cached_property
    def tidy_runs(self) -> TidyRuns:
        """Its tidy table, what was left out of it, and which windows were saturated. Raises
        Damaged."""
        facts, folder = self.meta, self.folder
        measured: list[dict[str, Any]] = []
        problems: list[str] = []
        for run in self.runs:
            try:
                measured += rows(run)
            except (Damaged, parse.ParseError, Unusable) as e:
                problems.append(f"{run.name}: {e}")
        if any(w.get("at_once") for w in facts["workloads"]):
            problems.append("two servers at once in a closed loop: measured, and not compared")
        result = _in_every_run(frame(measured))
        pairs = result[~result["warmup"]].groupby("pair_id")["position"].nunique()
        half = set(pairs[pairs < 2].index)
        problems += [f"{p}: only one run of the pair is whole; not compared" for p in sorted(half)]
        result = result[result["warmup"] | ~result["pair_id"].isin(half)].reset_index(drop=True)
        full = rates.saturated(result, facts["baseline"])
        result = rates.by_block(result, self.runs)
        problems += [f"{p.name}: it has no run.json; not compared" for p in strays(folder)]
        for why in ("failed", "unpaired", "damaged", "unproved"):
            kept: list[Place] = sorted(runs_folder(folder).glob(f"*.{why}*"))
            problems += [
                f"{p.name}: a run that failed, was changed or lost its partner; kept, not compared"
                for p in kept
            ]
        return TidyRuns(result, problems + broken(folder), full)


def opened(campaign: Path | Opened) -> Opened:
    """A campaign's folder, opened; an opened one as it is."""
    return campaign if isinstance(campaign, Opened) else Opened(campaign)


def metrics(facts: dict[str, Any], run: Place | Run) -> dict[str, float]:
    """Metric -> value in base units of one run; facts: its run.json. Raises ParseError and
    Unusable."""
    tool = facts["workload_tool"]
    if tool == "restart":
        values = {m: facts[m] for m in ("restart_s", "recovery_s", "warmup_s")}
        return values | {"checkpoint_age": facts["checkpoint_age_B"], "data_size": facts["data_B"]}
    if tool in ("backup", "restore"):
        (took,) = parse.time((run / "time.txt").read_text())
        values = {"wall": took["real_s"], "user_sys": took["user_s"] + took["sys_s"]}
        if "prepare_s" in facts:
            values["wall_prepared"] = took["real_s"] + facts["prepare_s"]
        sizes = {"backup_size": "archive_B", "data_size": "data_B"}
        return values | {metric: facts[k] for metric, k in sizes.items() if k in facts}
    if tool == "speed":
        if per_s := cipher_rate((run / "openssl.txt").read_text()):
            return {"cipher_rate": per_s}
        raise Unusable("openssl speed printed no rate")
    if tool == "time":
        return _timed(facts["took"])
    if "applied" in facts:
        return _applied(facts["applied"], facts)
    if facts.get("queue_full"):
        return {"saturated": 1.0}
    out = (run if isinstance(run, Run) else Run(run)).sysbench
    if tool == "connect":
        return _connecting(out, facts)
    n, used = out["transactions"], facts["usage"]
    if tool == "replica":
        return _applied(n, facts)
    _served(out, facts)
    if out["duration_s"] < 0.9 * facts["slice_s"]:
        raise Unusable(f"ended after {out['duration_s']:g} of {facts['slice_s']:g} s")
    values = {
        "tps": out["tps"] if "clients" in out else n / out["duration_s"],  # finer than printed
        "mean_latency": out["latency"]["mean"],
        "max_latency": out["latency"]["max"],
    }
    # NaN if unknown (a server elsewhere), or if nothing was read: 0 has no ratio
    values |= {m: used["server"].get(x, np.nan) / n for m, x in _PER_TRANSACTION.items()}
    values["read_bytes_per_transaction"] = values["read_bytes_per_transaction"] or np.nan
    values |= {k: facts["pool"][k] / n for k in ("queued", "stalled") if "pool" in facts}
    values |= {k: v / n for k, v in facts.get("disk", {}).items()}
    if "disk_written_B" in facts:
        values["disk_bytes_per_transaction"] = facts["disk_written_B"] / n
    values |= {"retried": out["ignored_errors"] / n} if out["ignored_errors"] else {}
    if rate := facts.get("rate"):
        return values | rates.window(out, rate, facts["threads"])
    if out.get("histogram_s") is not None and len(out["histogram_s"]):
        counted = (out["histogram_s"], out["histogram_counts"])
        for name, q in model.QUANTILES.items():
            if METRICS[name].judged and counts_for(q, n, facts["threads"]):
                values[name] = parse.quantile(*counted, q)
    return values


def _timed(took: dict[str, Any]) -> dict[str, float]:
    """The metrics of a run of a command, without zeros (a system may count whole ticks), and without
    peak memory that is not above `least_B`, that of the process that started it."""
    values = {"wall": took["real_s"], "user_sys": took["user_s"] + took["sys_s"]}
    values |= {"user_cpu": took["user_s"], "sys_cpu": took["sys_s"]}
    if took["least_B"] and took["maxrss_B"] > took["least_B"]:
        values["peak_memory"] = took["maxrss_B"]
    return {metric: value for metric, value in values.items() if value > 0}


def _applied(n: float, facts: dict[str, Any]) -> dict[str, float]:
    """The metrics of a run in which a replica applied `n` transactions."""
    used = facts["usage"]
    cpu_s = used["replica"]["cpu_s"] + used["source"]["cpu_s"]
    return {"apply_rate": n / facts["apply_s"], "apply_cpu": cpu_s / n}


def _connecting(out: Result, facts: dict[str, Any]) -> dict[str, float]:
    """The metrics of a run that made connections, as fast as it could or at a rate."""
    n = out["events"]
    if not n:
        raise Unusable("no connection was made")
    values = {
        "connections_per_second": n / out["duration_s"],
        "cpu_per_connection": facts["usage"]["server"]["cpu_s"] / n,
        "connect_time": facts["threads"] * out["duration_s"] / n,  # finer than the printed mean
        "client_cpu_per_connection": facts["client_cpu_s"] / n,
    }
    if rate := facts.get("rate"):  # throughput is then what was offered
        values = {m: values[m] for m in ("cpu_per_connection", "client_cpu_per_connection")}
        values |= {f"{m}_latency": out["latency"][m] for m in ("mean", "max")}
        values |= rates.window(out | {"transactions": n}, rate, facts["threads"])
    values |= {"tunnel_setup": facts["tunnel_s"]} if "tunnel_s" in facts else {}
    return values | ({"round_trip": facts["rtt_s"]["median"]} if "rtt_s" in facts else {})


def counts_for(q: float, transactions: float, threads: int) -> bool:
    """Whether a run is long enough for a quantile of its latency: `BEYOND` transactions exceed it
    (of 200 for the 95th percentile, of 1,000 for the 99th), and each client made `A_CLIENT`."""
    return transactions * (1 - q) >= BEYOND - 1e-9 and transactions >= A_CLIENT * threads


def cipher_rate(text: str) -> float:
    """Bytes a second in the text of `openssl speed -mr`, 0 if there are none."""
    rate = re.search(r"^\+F:.*:(\d+\.?\d*)$", text, re.M)
    return float(rate[1]) if rate else 0.0


def _served(out: Result, facts: dict[str, Any]) -> None:
    """Raise Unusable for a load that was not served."""
    n = out["transactions"]
    if out["reconnects"]:
        raise Unusable(f"{out['reconnects']} reconnects")
    if out["ignored_errors"] > facts.get("errors_most", 0.001) * n:
        raise Unusable(f"{out['ignored_errors']} errors in {n} transactions")
    if not n:
        raise Unusable("no transaction was finished")


def rows(run: Place | Run) -> list[dict[str, Any]]:
    """Tidy rows of one run; none of one that is not compared (`_DUET`). Raises Damaged, ParseError,
    Unusable."""
    run = run if isinstance(run, Run) else Run(run)
    facts = run.facts
    if facts["workload_tool"] == _DUET:
        return []
    key = {c: facts[c] for c in COLUMNS if c in facts} | {"run": run.name}
    try:
        values = {m: float(v) for m, v in metrics(facts, run).items()}
        if facts["slice_s"] > 0 and "steal_s" in facts:
            values["steal"] = facts["steal_s"] / facts["slice_s"]
        return [
            key | {"metric": m, "value": value, "unit": METRICS[m].unit}
            for m, value in values.items()
            if np.isfinite(value)
        ]
    except parse.ParseError:
        raise
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as e:
        raise Damaged(f"{run.name} lacks what its tool leaves ({e!r})") from None


def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Tidy rows as a table."""
    return pd.DataFrame(rows, columns=COLUMNS).astype({"threads": "Int64", "warmup": bool})


def tidy_table(campaign: Path | Opened) -> pd.DataFrame:
    """The table of `Opened.tidy_runs`."""
    return opened(campaign).tidy_runs.table


def _in_every_run(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` without those percentiles, CPU times and peak memory that not every run of a workload
    and thread count has: the runs that lack one are the slower or the smaller ones, so the others
    would be no fair sample."""
    key = ["workload", "threads"]
    judged, cell = rows[~rows["warmup"]], pd.MultiIndex.from_frame(rows[key])
    every = judged.groupby(key)["run"].nunique()
    short = np.zeros(len(rows), bool)
    for metric in (*model.QUANTILES, *_AT_TIMES):
        there = judged[judged["metric"] == metric].groupby(key)["run"].nunique()
        few = every.index[every.gt(there.reindex(every.index, fill_value=0))]
        short |= rows["metric"].eq(metric).to_numpy() & cell.isin(few)
    return rows[~short].reset_index(drop=True)


# -- what else runs say ---------------------------------------------------------------------------


def _runs(
    campaign: Path | Opened, *, warmup: bool, file: str = ""
) -> Iterator[tuple[dict[str, Any], Run]]:
    """(facts, run) of each run, or only of those with `file`; warm-ups only if `warmup`. Damaged runs
    are left out: `Opened.tidy_runs` lists them as problems."""
    for run in opened(campaign).runs:
        with contextlib.suppress(Damaged):
            wanted = warmup or not run.facts["warmup"]
            if wanted and (not file or (run / file).exists()):
                yield run.facts, run


def _joined(parts: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    """The parts one after the other; an empty table without any."""
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _csv(run: Run, file: str) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO((run / file).read_bytes())).assign(run=run.name)


def intervals(campaign: Path | Opened, workload: str = "") -> pd.DataFrame:
    """Per-second rows: t_s tps run start_s block arm workload threads warmup. workload: "" for all.

    `start_s` is the run's start in seconds since the campaign's first run. A run too short for a
    row has one with its mean."""
    parts: list[pd.DataFrame] = []
    zero: float | None = None
    keep = ["block", "arm", "workload", "threads", "warmup"]
    for facts, run in _runs(campaign, warmup=True):
        began = pd.Timestamp(facts["start"]).timestamp()
        zero = began if zero is None else zero
        other = (workload and facts["workload"] != workload) or facts.get("queue_full")
        if other or not printed(run.place):
            continue
        out = run.sysbench
        mean = {"t_s": [out["duration_s"]], "tps": [out["tps"]]}
        seconds = out["intervals"] or mean
        part = pd.DataFrame({k: np.asarray(seconds[k]) for k in mean})
        parts.append(part.assign(run=run.name, start_s=began - zero, **{k: facts[k] for k in keep}))
    return _joined(parts, ["t_s", "tps", "run", "start_s", *keep])


def warmups(campaign: Path | Opened) -> pd.DataFrame:
    """Throughput after each clean restart: columns run arm workload threads t_s tps."""
    return _samples(campaign, "throughput.csv", "tps")


def lags(campaign: Path | Opened) -> pd.DataFrame:
    """How many transactions each replica was behind while it caught up: columns run arm workload
    threads t_s behind."""
    return _samples(campaign, "lag.csv", "behind")


def _samples(campaign: Path | Opened, file: str, column: str) -> pd.DataFrame:
    """What a tool wrote over time into `file`, with the facts of each run."""
    keep = ["arm", "workload", "threads"]
    runs = _runs(campaign, warmup=False, file=file)
    parts = [_csv(run, file).assign(**{k: facts[k] for k in keep}) for facts, run in runs]
    return _joined(parts, ["run", *keep, "t_s", column])


def quantiles(campaign: Path | Opened, workload: str, threads: int) -> pd.DataFrame:
    """Latency quantiles of each arm: columns arm q value_s lo hi: median and quartiles over runs; at a
    rate over blocks, without saturated windows."""
    rows: list[tuple[str, float, float]] = []
    blocks: dict[tuple[str, int], list[Result]] = {}
    for facts, run in _runs(campaign, warmup=False):
        if facts["workload"] != workload or facts["threads"] != threads or facts.get("queue_full"):
            continue
        out = run.sysbench
        if rate := facts.get("rate"):
            if not rates.window(out, rate, threads)["saturated"]:
                blocks.setdefault((facts["arm"], facts["block"]), []).append(out)
            continue
        counted = (out["histogram_s"], out["histogram_counts"])
        rows += [
            (facts["arm"], q, parse.quantile(*counted, q))
            for q in DRAWN
            if counts_for(q, out["transactions"], threads)
        ]
    for (arm, _), texts in blocks.items():
        rows += [(arm, q, v) for q, v in rates.pooled_quantiles(texts, DRAWN).items()]
    table = pd.DataFrame(rows, columns=["arm", "q", "v"]).astype({"q": float, "v": float})
    grouped = table.groupby(["arm", "q"], sort=False)["v"]
    summary = grouped.quantile(np.array([0.25, 0.5, 0.75])).unstack()
    return summary.rename(columns={0.25: "lo", 0.5: "value_s", 0.75: "hi"}).reset_index()


def run_table(campaign: Path | Opened) -> pd.DataFrame:
    """One row a run, damaged ones left out: columns run workload threads block pair position arm
    warmup start slice_s exit_code steal_s warnings (one text)."""
    columns = ["run", "workload", "threads", "block", "pair", "position", "arm", "warmup", "start"]
    columns += ["slice_s", "exit_code", "steal_s", "warnings"]
    rows = [
        facts | {"run": run.name, "warnings": "; ".join(facts["warnings"])}
        for facts, run in _runs(campaign, warmup=True)
    ]
    return pd.DataFrame(rows, columns=columns).astype({"warmup": bool})


def stages(campaign: Path | Opened) -> pd.DataFrame:
    """What every process of a pipe did: columns run workload threads arm stage cpu_s wall_s, the
    share of samples in each state (runs, waits for input, waits for output, waits otherwise), and
    read_B, the bytes that it read from disk (NaN in earlier campaigns)."""
    rows = []
    for facts, run in _runs(campaign, warmup=False):
        for stage in facts.get("stages", ()):
            looks = sum(stage["states"].values()) or 1
            rows.append(
                {c: facts[c] for c in ("workload", "threads", "arm")}
                | {"run": run.name, "read_B": stage.get("read_B", np.nan), "stage": stage["name"]}
                | {"cpu_s": stage["user_s"] + stage["sys_s"], "wall_s": stage["wall_s"]}
                | {k: n / looks for k, n in stage["states"].items()}
            )
    return pd.DataFrame(rows)


def profiles(campaign: Path | Opened) -> pd.DataFrame:
    """The samples of `perf` in each run: columns run campaign block pair_id arm function share (of
    the run's samples)."""
    parts, keep, file = [], ["campaign", "block", "pair_id", "arm"], "perf.csv"
    for facts, run in _runs(campaign, warmup=False, file=file):
        rows = _csv(run, file)
        rows["function"] += rows["of"].map({"k": " (kernel)"}).fillna("")
        share = rows.groupby("function")["samples"].sum() / rows["samples"].sum()
        part = share.rename("share").reset_index()
        parts.append(part.assign(run=run.name, **{k: facts[k] for k in keep}))
    return _joined(parts, ["run", *keep, "function", "share"])


def fact_file(campaign: Place, name: str) -> Place:
    """The file in which a campaign keeps what it measured once under this name."""
    return campaign / f"fact-{'-'.join(re.findall(r'[a-z0-9]+', name.lower()))}.json"


def measured_once(campaign: Path | Opened, name: str) -> pd.DataFrame:
    """What a campaign measured once under this name; an empty table if it did not."""
    path = fact_file(runs_folder(opened(campaign).folder), name)
    return pd.DataFrame(json.loads(path.read_text()) if path.exists() else [])


def evidence(campaign: Path | Opened) -> pd.DataFrame:
    """Evidence counted over runs: columns arm, evidence, check, found, expected, runs."""
    campaign = opened(campaign)
    rows: list[dict[str, Any]] = []
    for facts, run in _runs(campaign, warmup=True):
        checks = facts.get("replica_evidence", []) + facts.get("evidence", [])
        if "evidence.json" in facts["sha256"]:
            checks += json.loads((run / "evidence.json").read_text())["checks"]
        rows += [check | {"arm": facts["arm"]} for check in checks]
    for file in blocks(campaign):
        for arm, seen in json.loads(file.read_text()).items():
            rows += [check | {"arm": arm} for check in seen["checks"]]
    columns = ["arm", "evidence", "check", "found", "expected"]
    counted = pd.DataFrame(rows, columns=columns).value_counts().reset_index(name="runs")
    return counted.sort_values("arm", kind="stable", ignore_index=True)


def blocks(campaign: Path | Opened) -> list[Place]:
    """The files of the evidence that was collected at the end of each block, in order."""
    files = runs_folder(opened(campaign).folder).iterdir()
    return sorted(f for f in files if re.fullmatch(r"block-\d+\.json", f.name))


# -- variables -------------------------------------------------------------------------------------


def variables(campaign: Path | Opened) -> dict[str, dict[str, str]]:
    """Arm -> all global variables, as read back with one of its runs. All are of one workload, because
    a workload may set variables of its own: the first one that has them for most arms. They are read
    with the first workload of a block, which is random."""
    campaign = opened(campaign)
    place = runs_folder(campaign.folder)
    of_workload: dict[str, dict[str, Run]] = {w["name"]: {} for w in campaign.meta["workloads"]}
    for facts, run in _runs(campaign, warmup=True):
        if "variables.json" in facts["sha256"]:
            of_workload.setdefault(facts["workload"], {}).setdefault(facts["arm"], run)
    by_arm = {}
    for arm, run in max(of_workload.values(), key=len).items():
        pointer = json.loads((run / "variables.json").read_text())
        by_arm[arm] = json.loads((place / Path(pointer["file"]).name).read_text())
    return by_arm


_OWN = {  # differ between any two servers
    "basedir", "character_sets_dir", "datadir", "file_key_management_filename",
    "general_log_file", "hostname", "innodb_data_home_dir", "innodb_log_group_home_dir",
    "innodb_temp_tablespaces_dir", "innodb_undo_directory", "lc_messages_dir", "log_bin_basename",
    "log_bin_index", "log_error", "pid_file", "plugin_dir", "port", "relay_log",
    "relay_log_basename", "relay_log_index", "relay_log_info_file", "replica_load_tmpdir",
    "server_id", "server_uuid", "slave_load_tmpdir", "slow_query_log_file", "socket", "tmpdir",
}  # fmt: skip
_NAMES = re.compile(
    r"address|networks|host|user|file$|path|dir$|_(ca|cert|key|priv)$|^(group_replication|wsrep)_"
)


def names_machine(variable: str) -> bool:
    """Whether a variable's value may name the server's machine, its folders or its users."""
    return variable in _OWN or bool(_NAMES.search(variable))


def _without_common(values: pd.Series) -> pd.Series:
    """One variable's values; of lists such as optimizer_switch only the items not shared by all."""
    items = [str(v).split(",") for v in values if pd.notna(v)]
    shared = set.intersection(*map(set, items)) if min(map(len, items)) > 1 else set()
    return values.map(
        lambda v: ",".join(i for i in v.split(",") if i not in shared), na_action="ignore"
    )


def differences(campaign: Path | Opened) -> pd.DataFrame:
    """Variables that differ between arms: columns variable, one an arm, asked (for)."""
    campaign = opened(campaign)
    by_arm = pd.DataFrame(variables(campaign))
    arms = list(by_arm.columns)
    by_arm = by_arm[~by_arm.index.isin(_OWN)]
    values = by_arm.fillna("").to_numpy(object)
    differ = by_arm[(values != values[:, :1]).any(axis=1)]
    planned = campaign.meta["arms"].values()
    asked = {k for arm in planned for part in ("switch", "settings") for k in arm.get(part, ())}
    if len(differ):
        differ = differ.apply(_without_common, axis=1)
    differ = differ.assign(asked=differ.index.isin(asked))
    return differ.rename_axis("variable").reset_index()[["variable", *arms, "asked"]]
