"""From a run's text to the rows of the tidy table."""

import io
import json
import re
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from noisefloor import parse
from noisefloor.data.packed import Damaged, Place, inside
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

BEYOND, A_CLIENT = 10, 30
_PER_TRANSACTION = {
    "cpu_per_transaction": "cpu_s",
    "written_bytes_per_transaction": "written_B",
    "read_bytes_per_transaction": "read_B",
    "binlog_bytes_per_transaction": "binlog_B",
}


def printed(run: Place) -> list[Place]:
    """What sysbench printed in a run: one text, or one of each client."""
    return sorted(run.glob("sysbench*.txt"), key=lambda p: (len(p.name), p.name))


class Run:
    """A run's folder; its facts and what sysbench printed are read once."""

    def __init__(self, place: Place):
        self.place, self.name = place, place.name

    def __truediv__(self, name: str) -> Place:
        return self.place / name

    @cached_property
    def facts(self) -> dict:
        """run.json, the run's files checked against it. Raises Damaged."""
        return read(self.place)

    @cached_property
    def sysbench(self) -> dict:
        """The parsed text, that of several clients together. Raises parse.ParseError."""
        if not (self / CLIENTS).exists():
            return parse.sysbench((self / "sysbench.txt").read_bytes())
        starts = [c["start_s"] for c in json.loads((self / CLIENTS).read_text())]
        return parse.together([parse.sysbench(p.read_bytes()) for p in printed(self.place)], starts)


class Opened:
    """A campaign whose runs are read once, whatever is asked of it: every function of this package
    that takes a campaign's folder takes it as well."""

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def meta(self) -> dict:
        """campaign.json. Raises Damaged."""
        return meta(self.folder)

    @cached_property
    def runs(self) -> list[Run]:
        """The whole runs as in `run_folders`, damaged ones too."""
        return [Run(place) for place in run_folders(self.folder)]


def opened(campaign: Path | Opened) -> Opened:
    """A campaign's folder, opened."""
    return campaign if isinstance(campaign, Opened) else Opened(campaign)


def sysbench(run: Place | Run) -> dict:
    """What `Run.sysbench` is."""
    return (run if isinstance(run, Run) else Run(run)).sysbench


def metrics(facts: dict, run: Place | Run) -> dict[str, float]:
    """Metric -> value in base units of one run. Raises ParseError, Unusable."""
    tool = facts["workload_tool"]
    if tool == "restart":
        found = {m: facts[m] for m in ("restart_s", "recovery_s", "warmup_s")}
        return found | {"checkpoint_age": facts["checkpoint_age_B"], "data_size": facts["data_B"]}
    if tool in ("backup", "restore"):
        (took,) = parse.time((run / "time.txt").read_text())
        found = {"wall": took["real_s"], "user_sys": took["user_s"] + took["sys_s"]}
        if "prepare_s" in facts:
            found["wall_prepared"] = took["real_s"] + facts["prepare_s"]
        told = {"backup_size": "archive_B", "data_size": "data_B"}
        return found | {metric: facts[k] for metric, k in told.items() if k in facts}
    if tool == "speed":
        if rate := cipher_rate((run / "openssl.txt").read_text()):
            return {"cipher_rate": rate}
        raise Unusable("openssl speed printed no rate")
    out = sysbench(run)
    if tool == "duet":
        _served(out, facts)
        return {m: float(np.mean(v)) for m, v in windows(run).items()}
    if tool == "connect":
        return _connecting(out, facts)
    n, used = out["transactions"], facts["usage"]
    if tool == "replica":
        both = used["replica"]["cpu_s"] + used["source"]["cpu_s"]
        return {"apply_rate": n / facts["apply_s"], "apply_cpu": both / n}
    _served(out, facts)
    if out["duration_s"] < 0.9 * facts["slice_s"]:
        raise Unusable(f"ended after {out['duration_s']:g} of {facts['slice_s']:g} s")
    found = {
        "tps": out["tps"] if "clients" in out else n / out["duration_s"],  # finer than printed
        "mean_latency": out["latency"]["mean"],
        "max_latency": out["latency"]["max"],
    }
    # not known of a server elsewhere; there is no ratio to reading nothing
    found |= {m: used["server"].get(c, np.nan) / n for m, c in _PER_TRANSACTION.items()}
    found["read_bytes_per_transaction"] = found["read_bytes_per_transaction"] or np.nan
    found |= {k: facts["pool"][k] / n for k in ("queued", "stalled") if "pool" in facts}
    found |= {k: v / n for k, v in facts.get("disk", {}).items()}
    found |= {"retried": out["ignored_errors"] / n} if out["ignored_errors"] else {}
    if out.get("histogram_s") is not None and len(out["histogram_s"]):
        counted = (out["histogram_s"], out["histogram_counts"])
        for q in (95, 99):
            if counts_for(q / 100, n, facts["threads"]):
                found[f"p{q}"] = parse.quantile(*counted, q / 100)
    return found


def _connecting(out: dict, facts: dict) -> dict[str, float]:
    """The metrics of a run that did nothing but connect."""
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


def windows(run: Place | Run) -> dict[str, np.ndarray]:
    """Metric -> its value in each window of a run of a duet, from the counters at their edges.
    Raises Unusable."""
    edges = pd.read_csv(io.BytesIO((run / "windows.csv").read_bytes())).diff().iloc[1:]
    if edges.empty or not (edges[["t_s", "transactions"]] > 0).to_numpy().all():
        raise Unusable("a window without a transaction")
    n = edges["transactions"].to_numpy(float)
    found = {m: edges[c].to_numpy() / n for m, c in _PER_TRANSACTION.items() if c in edges}
    return {"tps": n / edges["t_s"].to_numpy()} | found


def rows(run: Place | Run) -> list[dict]:
    """Tidy rows of one run; of a duet's, of each of its windows, a pair with the same one of the
    other run. Raises Damaged, ParseError, Unusable."""
    run = run if isinstance(run, Run) else Run(run)
    facts = run.facts
    key = {c: facts[c] for c in COLUMNS if c in facts} | {"run": run.name}
    try:
        if facts["workload_tool"] == "duet":
            _served(run.sysbench, facts)
            cell = facts["pair_id"].rpartition("-p")[0]
            return [
                key
                | {"metric": m, "value": float(value), "unit": METRICS[m].unit}
                | {"pair": pair, "pair_id": f"{cell}-p{pair:03d}"}
                for m, values in windows(run).items()
                for pair, value in enumerate(values, facts["pair"])
            ]
        found = {m: float(v) for m, v in metrics(facts, run).items()}
        if facts["slice_s"] > 0 and "steal_s" in facts:
            found["steal"] = facts["steal_s"] / facts["slice_s"]
    except parse.ParseError:
        raise
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as e:
        raise Damaged(f"{run.name} lacks what its tool leaves ({e!r})") from None
    return [
        key | {"metric": m, "value": v, "unit": METRICS[m].unit}
        for m, v in found.items()
        if np.isfinite(v)
    ]


def frame(found: list[dict], design: str) -> pd.DataFrame:
    """Tidy rows as a table; the design stands in ``attrs``."""
    table = pd.DataFrame(found, columns=COLUMNS).astype({"threads": "Int64", "warmup": bool})
    table.attrs["design"] = design
    return table


def table(campaign: Path | Opened) -> pd.DataFrame:
    """The tidy table of a campaign: runs of whole pairs and warm-ups. What is left out stands in
    ``attrs["problems"]`` (one sentence each)."""
    campaign = opened(campaign)
    facts, folder = campaign.meta, campaign.folder
    found, problems = [], []
    for run in campaign.runs:
        try:
            found += rows(run)
        except (Damaged, parse.ParseError, Unusable) as e:
            problems.append(f"{run.name}: {e}")
    result = _percentiles(frame(found, facts["design"]))
    pairs = result[~result["warmup"]].groupby("pair_id")["position"].nunique()
    half = set(pairs[pairs != 2].index)
    problems += [f"{p}: only one run of the pair is whole; not judged" for p in sorted(half)]
    result = result[result["warmup"] | ~result["pair_id"].isin(half)].reset_index(drop=True)
    problems += [f"{p.name}: it has no run.json; not judged" for p in strays(folder)]
    problems += [
        f"{p.name}: a run that failed, was changed or lost its partner; kept, not judged"
        for why in ("failed", "unpaired", "damaged", "unproved")
        for p in sorted(inside(folder).glob(f"*.{why}*"))
    ]
    result.attrs |= {"design": facts["design"], "problems": problems + broken(folder)}
    return result


def _percentiles(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` without the percentiles of a thread count whose every run does not have them: the runs
    that lack one are the slower ones."""
    key = ["workload", "threads"]
    own, cell = rows[~rows["warmup"]], pd.MultiIndex.from_frame(rows[key])
    every = own.groupby(key)["run"].nunique()
    short = np.zeros(len(rows), bool)
    for metric in ("p95", "p99"):
        there = own[own["metric"] == metric].groupby(key)["run"].nunique()
        few = every.index[every.gt(there.reindex(every.index, fill_value=0))]
        short |= rows["metric"].eq(metric).to_numpy() & cell.isin(few)
    return rows[~short].reset_index(drop=True)
