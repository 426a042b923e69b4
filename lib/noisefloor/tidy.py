"""Run folders -> one table. The only reader of campaigns; text becomes numbers in `parse`.

A campaign is a folder, or packed: then `inside` is the door to its runs. Tidy table: one row per run
and metric, columns `COLUMNS`, base units (s, B, 1/s).
"""

import contextlib
import hashlib
import io
import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path, PurePath

import numpy as np
import pandas as pd

from . import packed, parse
from .packed import Damaged, Place, inside
from .study import METRICS, StudyError, restored

COLUMNS = [
    *("study", "campaign", "workload", "threads", "block", "pair", "pair_id", "position", "arm"),
    *("metric", "value", "unit", "warmup", "run"),
]
FORMAT = 1  # of run.json and campaign.json; 1: first
CLIENTS = "clients.json"  # of a run that several clients made
SEAL = "SHA256SUMS"  # so that `sha256sum -c SHA256SUMS` checks it, too


# types of what is read of a campaign.json where it is there, and of a run.json always
_CAMPAIGN = dict.fromkeys(("created", "ended_because", "commit"), str)
_CAMPAIGN |= dict.fromkeys(("engine", "engines", "tools", "skipped", "pinned", "parameters"), dict)
_CAMPAIGN |= {"host": dict | str, "finished": str | None, "seed": int, "spent_s": int | float}
_HOST = {"memory_B": int | float | None, "cores": int | None}
_RUN = dict.fromkeys(("study", "campaign", "workload", "workload_tool", "pair_id", "arm"), str)
_RUN |= dict.fromkeys(("threads", "block", "pair", "position"), int)
_RUN |= {"warmup": bool, "slice_s": int | float, "warnings": list, "sha256": dict}


def _wrong(facts: dict, types: dict) -> str:
    """The first name whose value is of another type, or a number that no computer counts with; ""
    when there is none."""

    def fits(value, kind) -> bool:
        return isinstance(value, kind) and not (isinstance(value, int) and abs(value) >= 2**63)

    return next((k for k, kind in types.items() if k in facts and not fits(facts[k], kind)), "")


class Unusable(Exception):
    """A run whose tool printed a whole result that must not be averaged in."""


def meta(campaign: Path) -> dict:
    """campaign.json. Raises Damaged."""
    try:
        found = json.loads((campaign / "campaign.json").read_text())
        version = found["format"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as e:
        raise Damaged(f"{campaign.name}/campaign.json cannot be read ({e})") from None
    if version != FORMAT:
        raise Damaged(
            f"{campaign.name}/campaign.json has format {version}; this version reads {FORMAT}"
        )
    try:
        restored(found)
    except StudyError as e:
        raise Damaged(f"{campaign.name}/campaign.json is no campaign's: {e}") from None
    host = found.get("host")
    if "plan" in found and not _is_plan(found["plan"]):
        raise Damaged(f"{campaign.name}/campaign.json has a plan that declares no blocks and looks")
    if wrong := _wrong(found, _CAMPAIGN) or _wrong(host if isinstance(host, dict) else {}, _HOST):
        raise Damaged(f"{campaign.name}/campaign.json has a {wrong} of a wrong type")
    return found


def _is_plan(plan: object) -> bool:
    """Whether this is what `schedule.plan` makes."""
    if not isinstance(plan, dict) or not {"blocks", "looks", "pairs", "control"} <= plan.keys():
        return False
    looks, numbers = plan["looks"], [plan[k] for k in ("blocks", "pairs", "control")]
    if not isinstance(looks, list) or not looks:
        return False
    if not all(type(n) is int and 0 <= n < 10_000 for n in (*looks, *numbers)):
        return False
    return looks[0] > 0 and looks == sorted(set(looks)) and looks[-1] == plan["blocks"]


def _whole(place: Place) -> list[Place]:
    """Folders of a campaign that are named as whole runs are, and hold a run.json."""
    return [p for p in place.iterdir() if "." not in p.name and (p / "run.json").exists()]


def run_folders(campaign: Path) -> list[Place]:
    """The whole runs of a campaign, in the order they were made (unreadable ones come first), in a
    block by the clock: one that was set back between two blocks changes nothing."""

    def made(run: Place) -> tuple[int, str]:
        try:
            facts = read(run, verify=False)
        except Damaged:
            return -1, ""
        return facts["block"], facts["start"]

    return sorted(_whole(inside(campaign)), key=lambda p: (made(p), p.name))


def strays(campaign: Path) -> list[Place]:
    """Folders that are named as whole runs are, and have no run.json."""
    return sorted(
        p for p in inside(campaign).iterdir()
        if p.is_dir() and "." not in p.name and not (p / "run.json").exists()
    )  # fmt: skip


def sha256(path: Place) -> str:
    """Hex digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(run: Place, *, verify: bool = True) -> dict:
    """run.json of one run, its files checked against their sha256. Raises Damaged."""
    try:
        facts = json.loads((run / "run.json").read_text())
        if facts["format"] != FORMAT:
            raise ValueError(f"it has format {facts['format']}; this version reads {FORMAT}")
        datetime.fromisoformat(facts["start"])
        if wrong := next((k for k in _RUN if k not in facts), "") or _wrong(facts, _RUN):
            raise ValueError(f"its {wrong} is missing or of a wrong type")
        if verify and (link := next((p for p in run.iterdir() if p.is_symlink()), None)):
            raise ValueError(f"{link.name} is a link to somewhere else")
        for name, digest in facts["sha256"].items() if verify else ():
            if sha256(run / Path(name).name) != digest:
                raise Damaged(f"{run.name}/{name} was changed after the run (its sha256 differs)")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as e:
        raise Damaged(f"{run.name} cannot be read ({e})") from None
    return facts


def _sealed(campaign: Path) -> dict[str, Place]:
    """Name -> file of what holds the checksums and facts of a campaign: each whole run's run.json,
    and the files beside the runs."""
    place = inside(campaign)
    found = {f"{run.name}/run.json": run / "run.json" for run in _whole(place)}
    found |= {f.name: f for at in (place, campaign) for f in at.glob("*.json")}
    return {name: found[name] for name in sorted(found, key=lambda n: n.split("/"))}


def _sum(file: Place) -> str:
    """The sha256 of a file; "" where it cannot be read."""
    try:
        return sha256(file)
    except OSError:
        return ""


def seal(campaign: Path) -> None:
    """Write the checksums of a campaign that has ended into `SEAL`. A run's other files have
    theirs in its run.json."""
    partial = campaign / f"{SEAL}.partial"
    partial.write_text("".join(f"{sha256(f)}  {k}\n" for k, f in _sealed(campaign).items()))
    partial.replace(campaign / SEAL)


def broken(campaign: Path) -> list[str]:
    """What is not as it was when the campaign was sealed, and what lies beside its zip, a sentence a
    file; without a seal nothing is known to have changed."""
    beside = [f"{n} lies beside the zip and is not read" for n in packed.beside(campaign)]
    if not (campaign / SEAL).exists():
        return beside
    lines = (campaign / SEAL).read_text().splitlines()
    then = {k: v for v, _, k in (x.partition("  ") for x in lines)}
    now = {k: _sum(f) for k, f in _sealed(campaign).items()}
    return beside + [
        f"{name} was {'removed' if name not in now else 'added' if name not in then else 'changed'}"
        " after the campaign ended"
        for name in sorted(then | now)
        if then.get(name) != now.get(name)
    ]


def digest(folder: Path) -> str:
    """One sha256 of all files of a folder of raw data, their names included; packed it has the same."""
    files = packed.files(folder).items()
    lines = (f"{sha256(f)}  {name}\n" for name, f in files if PurePath(name).suffix != ".md")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def printed(run: Place) -> list[Place]:
    """What sysbench printed in a run: one text, or one of each client."""
    return sorted(run.glob("sysbench*.txt"), key=lambda p: (len(p.name), p.name))


def sysbench(run: Place) -> dict:
    """The parsed sysbench text of a run, that of several clients together. Raises
    parse.ParseError."""
    if not (run / CLIENTS).exists():
        return parse.sysbench((run / "sysbench.txt").read_bytes())
    starts = [c["start_s"] for c in json.loads((run / CLIENTS).read_text())]
    return parse.together([parse.sysbench(p.read_bytes()) for p in printed(run)], starts)


def metrics(facts: dict, run: Place) -> dict[str, float]:
    """Metric -> value in base units of one run. Raises ParseError, Unusable."""
    if facts["workload_tool"] == "restart":
        found = {m: facts[m] for m in ("restart_s", "recovery_s", "warmup_s")}
        return found | {"checkpoint_age": facts["checkpoint_age_B"], "data_size": facts["data_B"]}
    if facts["workload_tool"] in ("backup", "restore"):
        (took,) = parse.time((run / "time.txt").read_text())
        found = {"wall": took["real_s"], "user_sys": took["user_s"] + took["sys_s"]}
        if "prepare_s" in facts:
            found["wall_prepared"] = took["real_s"] + facts["prepare_s"]
        told = {"backup_size": "archive_B", "data_size": "data_B"}
        return found | {metric: facts[k] for metric, k in told.items() if k in facts}
    if facts["workload_tool"] == "speed":
        if rate := cipher_rate((run / "openssl.txt").read_text()):
            return {"cipher_rate": rate}
        raise Unusable("openssl speed printed no rate")
    out = sysbench(run)
    if facts["workload_tool"] == "duet":
        _served(out, facts)
        return {m: float(np.mean(v)) for m, v in windows(run).items()}
    if facts["workload_tool"] == "connect":
        n = out["events"]
        if not n:
            raise Unusable("no connection was made")
        found = {
            "connections_per_second": n / out["duration_s"],
            "cpu_per_connection": facts["usage"]["server"]["cpu_s"] / n,
            "connect_time": facts["threads"] * out["duration_s"] / n,  # finer than the printed mean
            "client_cpu_per_connection": facts["client_cpu_s"] / n,
        }
        found |= {"tunnel_setup": facts["tunnel_s"]} if "tunnel_s" in facts else {}
        return found | ({"round_trip": facts["rtt_s"]["median"]} if "rtt_s" in facts else {})
    n, used = out["transactions"], facts["usage"]
    if facts["workload_tool"] == "replica":
        return {
            "apply_rate": n / facts["apply_s"],
            "apply_cpu": (used["replica"]["cpu_s"] + used["source"]["cpu_s"]) / n,
        }
    _served(out, facts)
    if out["duration_s"] < 0.9 * facts["slice_s"]:
        raise Unusable(f"ended after {out['duration_s']:g} of {facts['slice_s']:g} s")
    server = used["server"]
    found = {
        "tps": out["tps"] if "clients" in out else n / out["duration_s"],  # finer than printed
        "cpu_per_transaction": server.get("cpu_s", np.nan) / n,  # unknown of a server elsewhere
        "mean_latency": out["latency"]["mean"],
        "max_latency": out["latency"]["max"],
        "binlog_bytes_per_transaction": server.get("binlog_B", np.nan) / n,
        "written_bytes_per_transaction": server.get("written_B", np.nan) / n,
        "read_bytes_per_transaction": server.get("read_B", np.nan) / n
        or np.nan,  # no ratio to nothing
    }
    found |= {k: facts["pool"][k] / n for k in ("queued", "stalled") if "pool" in facts}
    found |= {k: v / n for k, v in facts.get("disk", {}).items()}
    found |= {"retried": out["ignored_errors"] / n} if out["ignored_errors"] else {}
    if out.get("histogram_s") is not None and len(out["histogram_s"]):
        counted = (out["histogram_s"], out["histogram_counts"])
        for q in (95, 99):
            if counts_for(q / 100, n, facts["threads"]):
                found[f"p{q}"] = parse.quantile(*counted, q / 100)
    return found


BEYOND, A_CLIENT = 10, 30


def counts_for(q: float, transactions: float, threads: int) -> bool:
    """Whether a run is long enough for a quantile of its latency: `BEYOND` transactions took longer
    (200 for the 95th percentile, 1,000 for the 99th), and each client made `A_CLIENT`."""
    return transactions * (1 - q) >= BEYOND - 1e-9 and transactions >= A_CLIENT * threads


def cipher_rate(text: str) -> float:
    """Bytes a second in what `openssl speed -mr` printed, 0 where none stands there."""
    found = re.search(r"^\+F:.*:(\d+\.?\d*)$", text, re.M)
    return float(found[1]) if found else 0.0


def _served(out: dict, facts: dict) -> None:
    """Raise Unusable for a load that was not served."""
    n = out["transactions"]
    if out["reconnects"]:
        raise Unusable(f"{out['reconnects']} reconnects")
    if out["ignored_errors"] > facts.get("errors_most", 0.001) * n:
        raise Unusable(f"{out['ignored_errors']} errors in {n} transactions")
    if not n:
        raise Unusable("no transaction was finished")


def windows(run: Place) -> dict[str, np.ndarray]:
    """Metric -> its value in each window of a run of a duet, from the counters at their edges.
    Raises Unusable."""
    with (run / "windows.csv").open("rb") as file:
        edges = pd.read_csv(file).diff().iloc[1:]
    if edges.empty or not (edges[["t_s", "transactions"]] > 0).to_numpy().all():
        raise Unusable("a window without a transaction")
    n = edges["transactions"].to_numpy(float)
    found = {"tps": n / edges["t_s"].to_numpy()}
    for metric, column in _PER_TRANSACTION.items():
        if column in edges:
            found[metric] = edges[column].to_numpy() / n
    return found


_PER_TRANSACTION = {
    "cpu_per_transaction": "cpu_s",
    "written_bytes_per_transaction": "written_B",
    "read_bytes_per_transaction": "read_B",
    "binlog_bytes_per_transaction": "binlog_B",
}


def rows(run: Place) -> list[dict]:
    """Tidy rows of one run; of a duet's run, of each of its windows. Raises Damaged, ParseError,
    Unusable."""
    facts = read(run)
    try:
        if facts["workload_tool"] == "duet":
            return _windows(facts, run)
        found = {m: float(v) for m, v in metrics(facts, run).items()}
        if facts["slice_s"] > 0 and "steal_s" in facts:
            found["steal"] = facts["steal_s"] / facts["slice_s"]
    except parse.ParseError:
        raise
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as e:
        raise Damaged(f"{run.name} lacks what its tool leaves ({e!r})") from None
    key = {c: facts[c] for c in COLUMNS if c in facts}
    return [
        key | {"metric": m, "value": v, "unit": METRICS[m].unit, "run": run.name}
        for m, v in found.items()
        if np.isfinite(v)
    ]


def _windows(facts: dict, run: Place) -> list[dict]:
    """Tidy rows of the windows of a duet's run: each is a pair with the same one of the other run."""
    _served(sysbench(run), facts)
    key = {c: facts[c] for c in COLUMNS if c in facts}
    cell = facts["pair_id"].rpartition("-p")[0]
    out = []
    for metric, values in windows(run).items():
        same = {"metric": metric, "unit": METRICS[metric].unit, "run": run.name}
        for pair, value in enumerate(values, facts["pair"]):
            named = {"pair": pair, "pair_id": f"{cell}-p{pair:03d}"}
            out.append(key | same | named | {"value": float(value)})
    return out


def frame(found: list[dict], design: str) -> pd.DataFrame:
    """Tidy rows as a table; the design stands in ``attrs``."""
    table = pd.DataFrame(found, columns=COLUMNS).astype({"threads": "Int64", "warmup": bool})
    table.attrs["design"] = design
    return table


def table(campaign: Path) -> pd.DataFrame:
    """The tidy table of a campaign: runs of whole pairs and warm-ups. What is left out stands in
    ``attrs["problems"]`` (one sentence each)."""
    facts = meta(campaign)
    found, problems = [], []
    for run in run_folders(campaign):
        try:
            found += rows(run)
        except (Damaged, parse.ParseError, Unusable) as e:
            problems.append(f"{run.name}: {e}")
    result = _percentiles(frame(found, facts["design"]))
    pairs = result[~result["warmup"]].groupby("pair_id")["position"].nunique()
    half = set(pairs[pairs != 2].index)
    problems += [f"{p}: only one run of the pair is whole; not judged" for p in sorted(half)]
    result = result[result["warmup"] | ~result["pair_id"].isin(half)].reset_index(drop=True)
    problems += [f"{p.name}: it has no run.json; not judged" for p in strays(campaign)]
    problems += [
        f"{p.name}: a run that failed, was changed or lost its partner; kept, not judged"
        for why in ("failed", "unpaired", "damaged", "unproved")
        for p in sorted(inside(campaign).glob(f"*.{why}*"))
    ]
    problems += broken(campaign)
    result.attrs |= {"design": facts["design"], "problems": problems}
    return result


def _percentiles(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` without the percentiles of a thread count whose every run does not have them: the runs
    that lack one are the slower ones."""
    own = rows[~rows["warmup"]]
    key = ["workload", "threads"]
    every = own.groupby(key)["run"].nunique()
    for metric in ("p95", "p99"):
        there = own[own["metric"] == metric].groupby(key)["run"].nunique()
        short = every.index[every.gt(there.reindex(every.index, fill_value=0))]
        cell = pd.MultiIndex.from_frame(rows[key])
        rows = rows[~(rows["metric"].eq(metric).to_numpy() & cell.isin(short))]
    return rows.reset_index(drop=True)


def _runs(campaign: Path, *, warmup: bool) -> Iterator[tuple[dict, Place]]:
    """The runs as they were written; damaged ones stand among the problems of `table`."""
    for run in run_folders(campaign):
        with contextlib.suppress(Damaged):
            facts = read(run)
            if warmup or not facts["warmup"]:
                yield facts, run


def intervals(campaign: Path, workload: str = "") -> pd.DataFrame:
    """Per-second rows: run block arm workload threads warmup start_s t_s tps.

    `start_s` is the run's start in seconds since the campaign's first run. A run too short for a
    row of its own stands with its mean."""
    parts, zero = [], None
    keep = ["block", "arm", "workload", "threads", "warmup"]
    for facts, run in _runs(campaign, warmup=True):
        began = pd.Timestamp(facts["start"]).timestamp()
        zero = began if zero is None else zero
        if (workload and facts["workload"] != workload) or not printed(run):
            continue
        out = sysbench(run)
        mean = {"t_s": [out["duration_s"]], "tps": [out["tps"]]}
        seconds = out["intervals"] or mean
        part = pd.DataFrame({k: np.asarray(seconds[k]) for k in mean})
        parts.append(part.assign(run=run.name, start_s=began - zero, **{k: facts[k] for k in keep}))
    columns = ["t_s", "tps", "run", "start_s", *keep]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def warmups(campaign: Path) -> pd.DataFrame:
    """Throughput after each clean restart: columns run arm workload threads t_s tps."""
    parts = [
        pd.read_csv(io.BytesIO((run / "throughput.csv").read_bytes())).assign(
            run=run.name, **{k: facts[k] for k in ("arm", "workload", "threads")}
        )
        for facts, run in _runs(campaign, warmup=False)
        if (run / "throughput.csv").exists()
    ]
    columns = ["run", "arm", "workload", "threads", "t_s", "tps"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


def quantiles(campaign: Path, workload: str, threads: int) -> pd.DataFrame:
    """Latency quantiles of each arm: columns arm q value_s lo hi (median run, and the range that
    holds the middle half of the runs)."""
    found = []
    for facts, run in _runs(campaign, warmup=False):
        if facts["workload"] == workload and facts["threads"] == threads:
            out = sysbench(run)
            counted = (out["histogram_s"], out["histogram_counts"])
            found += [
                {"arm": facts["arm"], "q": q, "v": parse.quantile(*counted, q)}
                for q in QUANTILES
                if counts_for(q, out["transactions"], threads)
            ]
    grouped = pd.DataFrame(found, columns=["arm", "q", "v"]).groupby(["arm", "q"], sort=False)["v"]
    summary = grouped.quantile([0.25, 0.5, 0.75]).unstack()
    return summary.rename(columns={0.25: "lo", 0.5: "value_s", 0.75: "hi"}).reset_index()


def runs(campaign: Path) -> pd.DataFrame:
    """One row a run: what it was, how long it took, what the servers used, warnings."""
    columns = ["run", "workload", "threads", "block", "pair", "position", "arm", "warmup", "start"]
    columns += ["slice_s", "exit_code", "steal_s", "warnings"]
    found = [
        facts | {"run": run.name, "warnings": "; ".join(facts["warnings"])}
        for facts, run in _runs(campaign, warmup=True)
    ]
    return pd.DataFrame([{c: f.get(c) for c in columns} for f in found], columns=columns).astype(
        {"warmup": bool}
    )


def stages(campaign: Path) -> pd.DataFrame:
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
    found = pd.DataFrame(rows)
    return found.fillna({c: 0.0 for c in found if c.startswith(("runs", "waits"))})


def profiles(campaign: Path) -> pd.DataFrame:
    """What `perf` saw of each run: columns run campaign block pair_id arm function share (of the
    samples of the run)."""
    parts = []
    for facts, run in _runs(campaign, warmup=False):
        if (run / "perf.csv").exists():
            rows = pd.read_csv(io.BytesIO((run / "perf.csv").read_bytes()))
            rows["function"] += rows["of"].map({"k": " (kernel)"}).fillna("")
            share = rows.groupby("function")["samples"].sum() / rows["samples"].sum()
            kept = {k: facts[k] for k in ("campaign", "block", "pair_id", "arm")}
            parts.append(share.rename("share").reset_index().assign(run=run.name, **kept))
    columns = ["run", "campaign", "block", "pair_id", "arm", "function", "share"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def fact_file(campaign: Place, name: str) -> Place:
    """Where a campaign keeps what it measured once under this name."""
    return campaign / f"fact-{'-'.join(re.findall(r'[a-z0-9]+', name.lower()))}.json"


def fact(campaign: Path, name: str) -> pd.DataFrame:
    """Rows of what was measured once in a campaign; without rows when it was not."""
    path = fact_file(inside(campaign), name)
    return pd.DataFrame(json.loads(path.read_text()) if path.exists() else [])


def evidence(campaign: Path) -> pd.DataFrame:
    """Evidence counted over runs: columns arm, check, found, expected, runs."""
    found = []
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


def blocks(campaign: Path) -> list[Place]:
    """The files with what was found at the end of each block, in order."""
    found = (f for f in inside(campaign).iterdir() if re.fullmatch(r"block-\d+\.json", f.name))
    return sorted(found, key=lambda f: f.name)


def variables(campaign: Path) -> dict[str, dict[str, str]]:
    """Arm -> all global variables read back with one of its runs of the first workload."""
    found: dict[str, dict[str, str]] = {}
    place = inside(campaign)
    first = meta(campaign)["workloads"][0]["name"]  # another one sets variables for both arms
    for facts, run in _runs(campaign, warmup=True):
        told = "variables.json" in facts["sha256"] and facts["arm"] not in found
        if told and facts["workload"] == first:
            pointer = json.loads((run / "variables.json").read_text())
            found[facts["arm"]] = json.loads((place / Path(pointer["file"]).name).read_text())
    return found


_OWN = {  # differ between any two servers
    *("basedir", "character_sets_dir", "lc_messages_dir", "plugin_dir"),
    *("datadir", "general_log_file", "hostname", "innodb_undo_directory", "log_bin_basename"),
    *("log_bin_index", "log_error", "pid_file", "port", "relay_log", "relay_log_basename"),
    *("relay_log_index", "server_uuid", "slow_query_log_file", "socket", "tmpdir", "server_id"),
    *(
        "innodb_data_home_dir",
        "innodb_log_group_home_dir",
        "slave_load_tmpdir",
        "relay_log_info_file",
    ),
    *("replica_load_tmpdir", "file_key_management_filename", "innodb_temp_tablespaces_dir"),
}


def names_machine(variable: str) -> bool:
    """Whether a variable's value may name the server's machine, its folders or its users."""
    return variable in _OWN or bool(
        re.search(r"host|user|file$|path|dir$|_ca$|_cert$|_key$", variable)
    )


# of a build or its place, or sized by its own code: not a default that somebody could keep
_BUILD = re.compile(
    r"(innodb_)?version.*|build_id|.*dir|performance_schema_.*|group_replication_.*|optimizer_switch"
)


def pinnable(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """Values of `old` that `new` could be given: those that differ and belong to no build."""
    return {
        k: v
        for k, v in sorted(old.items())
        if k in new and new[k] != v and k not in _OWN and not _BUILD.fullmatch(k)
    }


def _without_common(values: pd.Series) -> pd.Series:
    """Lists such as optimizer_switch with only the items that they do not share."""
    items = [str(v).split(",") for v in values if pd.notna(v)]
    shared = set.intersection(*map(set, items)) if min(map(len, items)) > 1 else set()
    return values.map(
        lambda v: ",".join(i for i in v.split(",") if i not in shared), na_action="ignore"
    )


def differences(campaign: Path) -> pd.DataFrame:
    """Variables that differ between arms: columns variable, one per arm, asked (for)."""
    by_arm = pd.DataFrame(variables(campaign))
    arms = list(by_arm.columns)
    by_arm = by_arm[~by_arm.index.isin(_OWN)]
    values = by_arm.fillna("").to_numpy(object)
    differ = by_arm[(values != values[:, :1]).any(axis=1)]
    asked = {
        k
        for arm in meta(campaign)["arms"].values()
        for part in ("switch", "settings")
        for k in arm.get(part, ())
    }
    pinned = meta(campaign).get("pinned", {})
    asked |= {k for arm in pinned.values() for k in arm.get("settings", ())}
    if len(differ):
        differ = differ.apply(_without_common, axis=1)
    differ = differ.assign(asked=differ.index.isin(asked))
    return differ.rename_axis("variable").reset_index()[["variable", *arms, "asked"]]
