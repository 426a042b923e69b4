"""What else runs say: seconds, quantiles, evidence, variables."""

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from noisefloor import parse
from noisefloor.data.packed import Damaged, Place, inside
from noisefloor.data.tidy.numbers import Opened, Run, counts_for, opened, printed

QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


def _runs(campaign: Path | Opened, *, warmup: bool, file: str = "") -> Iterator[tuple[dict, Run]]:
    """The runs as they were written, those that hold `file` where one is named; damaged ones stand
    among the problems of `table`."""
    for run in opened(campaign).runs:
        with contextlib.suppress(Damaged):
            wanted = warmup or not run.facts["warmup"]
            if wanted and (not file or (run / file).exists()):
                yield run.facts, run


def _joined(parts: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    """The parts one after the other; no row without any."""
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _csv(run: Run, file: str) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO((run / file).read_bytes())).assign(run=run.name)


def intervals(campaign: Path | Opened, workload: str = "") -> pd.DataFrame:
    """Per-second rows: run block arm workload threads warmup start_s t_s tps.

    `start_s` is the run's start in seconds since the campaign's first run. A run too short for a
    row of its own stands with its mean."""
    parts, zero = [], None
    keep = ["block", "arm", "workload", "threads", "warmup"]
    for facts, run in _runs(campaign, warmup=True):
        began = pd.Timestamp(facts["start"]).timestamp()
        zero = began if zero is None else zero
        if (workload and facts["workload"] != workload) or not printed(run.place):
            continue
        out = run.sysbench
        mean = {"t_s": [out["duration_s"]], "tps": [out["tps"]]}
        seconds = out["intervals"] or mean
        part = pd.DataFrame({k: np.asarray(seconds[k]) for k in mean})
        parts.append(part.assign(run=run.name, start_s=began - zero, **{k: facts[k] for k in keep}))
    return _joined(parts, ["t_s", "tps", "run", "start_s", *keep])


def warmups(campaign: Path | Opened) -> pd.DataFrame:
    """Throughput after each clean restart: columns run arm workload threads t_s tps."""
    keep, file = ["arm", "workload", "threads"], "throughput.csv"
    found = _runs(campaign, warmup=False, file=file)
    parts = [_csv(run, file).assign(**{k: facts[k] for k in keep}) for facts, run in found]
    return _joined(parts, ["run", *keep, "t_s", "tps"])


def quantiles(campaign: Path | Opened, workload: str, threads: int) -> pd.DataFrame:
    """Latency quantiles of each arm: columns arm q value_s lo hi (median run, and the range that
    holds the middle half of the runs)."""
    found = []
    for facts, run in _runs(campaign, warmup=False):
        if facts["workload"] == workload and facts["threads"] == threads:
            out = run.sysbench
            counted = (out["histogram_s"], out["histogram_counts"])
            found += [
                (facts["arm"], q, parse.quantile(*counted, q))
                for q in QUANTILES
                if counts_for(q, out["transactions"], threads)
            ]
    grouped = pd.DataFrame(found, columns=["arm", "q", "v"]).groupby(["arm", "q"], sort=False)["v"]
    summary = grouped.quantile([0.25, 0.5, 0.75]).unstack()
    return summary.rename(columns={0.25: "lo", 0.5: "value_s", 0.75: "hi"}).reset_index()


def runs(campaign: Path | Opened) -> pd.DataFrame:
    """One row a run: what it was, how long it took, what the servers used, warnings."""
    columns = ["run", "workload", "threads", "block", "pair", "position", "arm", "warmup", "start"]
    columns += ["slice_s", "exit_code", "steal_s", "warnings"]
    found = [
        facts | {"run": run.name, "warnings": "; ".join(facts["warnings"])}
        for facts, run in _runs(campaign, warmup=True)
    ]
    return pd.DataFrame(found, columns=columns).astype({"warmup": bool})


def stages(campaign: Path | Opened) -> pd.DataFrame:
    """What every process of a pipe did: run workload arm stage cpu_s wall_s, and the share of its
    looks in each state (runs, waits for input, waits for output, waits otherwise)."""
    rows = []
    for facts, run in _runs(campaign, warmup=False):
        for x in facts.get("stages", ()):
            looks = sum(x["states"].values()) or 1
            rows.append(
                {"run": run.name, "workload": facts["workload"], "arm": facts["arm"]}
                | {"stage": x["name"], "cpu_s": x["user_s"] + x["sys_s"], "wall_s": x["wall_s"]}
                | {k: n / looks for k, n in x["states"].items()}
            )
    return pd.DataFrame(rows)


def profiles(campaign: Path | Opened) -> pd.DataFrame:
    """What `perf` saw of each run: columns run campaign block pair_id arm function share (of the
    samples of the run)."""
    parts, keep, file = [], ["campaign", "block", "pair_id", "arm"], "perf.csv"
    for facts, run in _runs(campaign, warmup=False, file=file):
        rows = _csv(run, file)
        rows["function"] += rows["of"].map({"k": " (kernel)"}).fillna("")
        share = rows.groupby("function")["samples"].sum() / rows["samples"].sum()
        part = share.rename("share").reset_index()
        parts.append(part.assign(run=run.name, **{k: facts[k] for k in keep}))
    return _joined(parts, ["run", *keep, "function", "share"])


def fact_file(campaign: Place, name: str) -> Place:
    """Where a campaign keeps what it measured once under this name."""
    return campaign / f"fact-{'-'.join(re.findall(r'[a-z0-9]+', name.lower()))}.json"


def fact(campaign: Path | Opened, name: str) -> pd.DataFrame:
    """Rows of what was measured once in a campaign; without rows when it was not."""
    path = fact_file(inside(opened(campaign).folder), name)
    return pd.DataFrame(json.loads(path.read_text()) if path.exists() else [])


def evidence(campaign: Path | Opened) -> pd.DataFrame:
    """Evidence counted over runs: columns arm, check, found, expected, runs."""
    campaign, found = opened(campaign), []
    for facts, run in _runs(campaign, warmup=True):
        checks = facts.get("replica_evidence", []) + facts.get("evidence", [])
        if "evidence.json" in facts["sha256"]:
            checks += json.loads((run / "evidence.json").read_text())["checks"]
        found += [c | {"arm": facts["arm"]} for c in checks]
    for file in blocks(campaign):
        for arm, seen in json.loads(file.read_text()).items():
            found += [c | {"arm": arm} for c in seen["checks"]]
    columns = ["arm", "evidence", "check", "found", "expected"]
    counted = pd.DataFrame(found, columns=columns).value_counts().reset_index(name="runs")
    return counted.sort_values("arm", kind="stable", ignore_index=True)


def blocks(campaign: Path | Opened) -> list[Place]:
    """The files with what was found at the end of each block, in order."""
    held = inside(opened(campaign).folder).iterdir()
    return sorted(f for f in held if re.fullmatch(r"block-\d+\.json", f.name))


# -- variables -------------------------------------------------------------------------------------


def variables(campaign: Path | Opened) -> dict[str, dict[str, str]]:
    """Arm -> all global variables read back with one of its runs of the first workload."""
    found: dict[str, dict[str, str]] = {}
    campaign = opened(campaign)
    place = inside(campaign.folder)
    first = campaign.meta["workloads"][0]["name"]  # another one sets variables for both arms
    for facts, run in _runs(campaign, warmup=True):
        told = "variables.json" in facts["sha256"] and facts["arm"] not in found
        if told and facts["workload"] == first:
            pointer = json.loads((run / "variables.json").read_text())
            found[facts["arm"]] = json.loads((place / Path(pointer["file"]).name).read_text())
    return found


_OWN = {  # differ between any two servers
    "basedir", "character_sets_dir", "datadir", "file_key_management_filename",
    "general_log_file", "hostname", "innodb_data_home_dir", "innodb_log_group_home_dir",
    "innodb_temp_tablespaces_dir", "innodb_undo_directory", "lc_messages_dir", "log_bin_basename",
    "log_bin_index", "log_error", "pid_file", "plugin_dir", "port", "relay_log",
    "relay_log_basename", "relay_log_index", "relay_log_info_file", "replica_load_tmpdir",
    "server_id", "server_uuid", "slave_load_tmpdir", "slow_query_log_file", "socket", "tmpdir",
}  # fmt: skip
# of a build or its place, or sized by its own code: not a default that somebody could keep
_BUILD = re.compile(
    r"(innodb_)?version.*|build_id|.*dir|optimizer_switch|(performance_schema|group_replication)_.*"
)
_NAMES = re.compile(r"host|user|file$|path|dir$|_ca$|_cert$|_key$")


def names_machine(variable: str) -> bool:
    """Whether a variable's value may name the server's machine, its folders or its users."""
    return variable in _OWN or bool(_NAMES.search(variable))


def pinnable(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """Values of `old` that `new` could be given: those that differ and belong to no build."""
    differ = (k for k in sorted(old) if k in new and new[k] != old[k])
    return {k: old[k] for k in differ if k not in _OWN and not _BUILD.fullmatch(k)}


def _without_common(values: pd.Series) -> pd.Series:
    """Lists such as optimizer_switch with only the items that they do not share."""
    items = [str(v).split(",") for v in values if pd.notna(v)]
    shared = set.intersection(*map(set, items)) if min(map(len, items)) > 1 else set()
    return values.map(
        lambda v: ",".join(i for i in v.split(",") if i not in shared), na_action="ignore"
    )


def differences(campaign: Path | Opened) -> pd.DataFrame:
    """Variables that differ between arms: columns variable, one per arm, asked (for)."""
    campaign = opened(campaign)
    by_arm = pd.DataFrame(variables(campaign))
    arms = list(by_arm.columns)
    by_arm = by_arm[~by_arm.index.isin(_OWN)]
    values = by_arm.fillna("").to_numpy(object)
    differ = by_arm[(values != values[:, :1]).any(axis=1)]
    told = [*campaign.meta["arms"].values(), *campaign.meta.get("pinned", {}).values()]
    asked = {k for arm in told for part in ("switch", "settings") for k in arm.get(part, ())}
    if len(differ):
        differ = differ.apply(_without_common, axis=1)
    differ = differ.assign(asked=differ.index.isin(asked))
    return differ.rename_axis("variable").reset_index()[["variable", *arms, "asked"]]
