"""What the campaigns on backups and connections show: tables, and the first line of a page."""

import numpy as np
import pandas as pd

from . import amounts
from .plots import AGAIN

STATES = ("runs", "waits for input", "waits for output", "waits otherwise")

# -- backups ---------------------------------------------------------------------------------------


def busy(stages: pd.DataFrame, workload: str) -> pd.DataFrame:
    """Who is the bottleneck, from `tidy.stages`: means by arm and stage, columns arm, stage,
    cpu_s, wall_s, and the share of its time in each of `STATES` in percent."""
    part = stages[stages["workload"] == workload]
    part = part.assign(arm=part["arm"].str.removesuffix(AGAIN))
    found = part.groupby(["arm", "stage"], sort=False).mean(numeric_only=True).reset_index()
    shares = [c for c in STATES if c in found]
    found[shares] = (100 * found[shares]).round(0)
    return found[["arm", "stage", "cpu_s", "wall_s", *shares]].round(3)


def predicted(stages: pd.DataFrame, runs: pd.DataFrame, speed: pd.DataFrame) -> pd.DataFrame:
    """CPU of the openssl process: predicted from `openssl speed` for the archive's bytes, against
    the one measured. Columns arm, direction, archive_MB, speed_MB_per_s, predicted_s, measured_s.

    runs: rows of the tidy table (metric `backup_size`)."""
    size = runs[runs["metric"] == "backup_size"].groupby("arm")["value"].median()
    cpu = stages[stages["stage"] == "openssl"].groupby(["workload", "arm"])["cpu_s"].median()
    rows = [
        {
            "arm": x.arm,
            "direction": x.direction,
            "archive_MB": round(size[x.arm] / 1e6, 1),
            "speed_MB_per_s": round(x.bytes_per_s / 1e6),
            "predicted_s": round(size[x.arm] / x.bytes_per_s, 3),
            "measured_s": round(cpu[x.direction, x.arm], 3),
        }
        for x in speed.itertuples()
        if (x.direction, x.arm) in cpu.index and x.arm in size.index
    ]
    return pd.DataFrame(rows)


def sizes(tidy: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Size of the archives: columns arm, archives, MB (median), smallest and largest, and by how much
    the median is above the baseline's. A size hardly scatters, so it is shown and not judged."""
    rows = tidy[(tidy["metric"] == "backup_size") & ~tidy["warmup"]]
    rows = rows.assign(arm=rows["arm"].str.removesuffix(AGAIN))
    found = rows.groupby("arm", sort=False)["value"].agg(["count", "median", "min", "max"])
    more = 100 * (found["median"] / found["median"][baseline] - 1)
    shown = (found[["median", "min", "max"]] / 1e6).round(3)
    shown = shown.set_axis(["MB", "smallest", "largest"], axis=1).assign(more_pct=more.round(3))
    shown.insert(0, "archives", found["count"])
    return shown.rename(columns={"more_pct": "above the baseline, %"}).reset_index()


def backup_answer(verdicts: pd.DataFrame, stages: pd.DataFrame) -> str:
    """What it costs, which process pays it, what makes it cheaper: one line from the tables."""
    own = verdicts[~verdicts["control"] & ~verdicts["joint"] & (verdicts["metric"] == "wall")]
    own = own[~own["arm"].str.contains(", ")]  # the ciphers; their variants are in the figure
    costs = []
    for workload, rows in own.groupby("workload", sort=False):
        groups = [
            f"{verdict} with "
            + ", ".join(f"{r['arm']} ({_size(r)})" for r in part.to_dict("records"))
            for verdict in ("slower", "faster", "same", "cannot tell")
            if len(part := rows[rows["verdict"] == verdict])
        ]
        costs.append(f"{workload.capitalize()} time: {'; '.join(groups)}.")
    cpu = (
        stages[stages["workload"] == "backup"].groupby(["arm", "stage"])["cpu_s"].median().unstack()
    )
    text = " ".join(costs)
    if "openssl" in cpu:
        dear, cheap = cpu["openssl"].idxmax(), cpu["openssl"].idxmin()
        text += (
            f" Who pays: the openssl process, {cpu['openssl'][dear]:.2f} s of CPU a backup with"
            f" {dear}, beside {cpu['zstd'][dear]:.2f} s of zstd."
        )
        if dear != cheap:
            ratio = cpu["openssl"][dear] / max(cpu["openssl"][cheap], 1e-9)
            text += f" Cheapest: {cheap}, {ratio:.1f} times less of it."
    return text


def _size(row) -> str:
    """An overhead; of a row that cannot tell, what is known."""
    ends = row.get("lo_pct"), row.get("hi_pct"), row["metric"]
    limits = amounts.known(*ends) if row["verdict"] == "cannot tell" else ""
    return limits or amounts.overhead(row["overhead_pct"], row["metric"])


# -- connections -----------------------------------------------------------------------------------


def round_trips(rows: pd.DataFrame) -> pd.DataFrame:
    """From `distances`: the round trips that each kind of connection costs, fitted to the two
    shorter distances, and the time predicted for the longest against the one measured. Columns
    kind, round trips, work_ms, rtt_ms, predicted_ms, measured_ms, off_pct, per_s_at_100_ms."""
    if "kind" not in rows:
        return pd.DataFrame()
    found = []
    for kind, part in rows.groupby("kind", sort=False):
        part = part.sort_values("rtt_s")
        x, y = part["rtt_s"].to_numpy(float), part["connect_s"].to_numpy(float)
        trips = (y[1] - y[0]) / (x[1] - x[0])
        work = y[0] - trips * x[0]
        said = work + trips * x[2]
        found.append(
            {
                "kind": kind,
                "round trips": round(trips, 2),
                "work_ms": round(1e3 * work, 2),
                "rtt_ms": round(1e3 * x[2], 1),
                "predicted_ms": round(1e3 * said, 1),
                "measured_ms": round(1e3 * y[2], 1),
                "off_pct": round(100 * (said / y[2] - 1), 1),
                "per_s_at_100_ms": round(1 / (work + 0.1 * trips), 2),
            }
        )
    return pd.DataFrame(found)


def break_even(tidy: pd.DataFrame, arm: str, baseline: str, limits=(5.0, 1.0)) -> pd.DataFrame:
    """How many queries a connection must serve before `arm` costs less than each of `limits`
    percent, in time (one thread's) and in server CPU. Columns counted in, connect_ms, extra_ms,
    query_ms, query_extra_pct, then one column a limit; "never" where each query alone costs more.

    From medians: the time of a connection at one thread, of a pooled query at the fewest threads."""
    t = tidy[~tidy["warmup"]]

    def median(workload: str, metric: str, name: str) -> float:
        rows = t[(t["workload"] == workload) & (t["metric"] == metric)]
        rows = rows[(rows["arm"] == name) & (rows["threads"] == rows["threads"].min())]
        if rows.empty:
            return np.nan
        value = rows["value"].astype(float)
        return float((rows["threads"] / value if metric == "tps" else value).median())

    found = []
    for what, connecting, query in (
        ("time", ("100 connections", "connect_time"), ("pooled", "tps")),
        (
            "server CPU",
            ("100 connections", "cpu_per_connection"),
            ("pooled", "cpu_per_transaction"),
        ),
    ):
        c0, c1 = (median(*connecting, a) for a in (baseline, arm))
        q0, q1 = (median(*query, a) for a in (baseline, arm))
        if not np.isfinite([c0, c1, q0, q1]).all():
            continue
        row = {
            "counted in": what,
            "connect_ms": round(1e3 * c0, 3),
            "extra_ms": round(1e3 * (c1 - c0), 3),
            "query_ms": round(1e3 * q0, 4),
            "query_extra_pct": round(100 * (q1 / q0 - 1), 1),
        }
        for limit in limits:
            spare = limit / 100 * q0 - max(q1 - q0, 0.0)
            over = (c1 - c0) - limit / 100 * c0
            needed = 0 if over <= 0 else over / spare if spare > 0 else np.inf
            row[f"under {limit:g} %"] = (
                f"{np.ceil(needed):,.0f}" if np.isfinite(needed) else "never"
            )
        found.append(row)
    return pd.DataFrame(found)


def rates(tidy: pd.DataFrame, workload: str = "100 connections") -> pd.DataFrame:
    """Medians of a workload by thread count and arm: connections a second, and what one costs the
    server and the client in CPU (ms). With a tunnel both include its ends."""
    rows = tidy[(tidy["workload"] == workload) & ~tidy["warmup"]]
    rows = rows[~rows["arm"].str.endswith(AGAIN)]
    found = rows.pivot_table(
        index=["threads", "arm"], columns="metric", values="value", aggfunc="median"
    )
    return pd.DataFrame(
        {
            "connections per second": found["connections_per_second"].round(1),
            "ms": (1e3 * found["connect_time"]).round(3),
            "server CPU, ms": (1e3 * found["cpu_per_connection"]).round(3),
            "client CPU, ms": (1e3 * found["client_cpu_per_connection"]).round(3),
        }
    ).reset_index()


def connection_answer(
    tidy: pd.DataFrame, baseline: str, trips: pd.DataFrame, even: pd.DataFrame
) -> str:
    """What a connection costs, what pays it, what makes it cheaper: one line from the tables."""
    near = rates(tidy).set_index("arm")
    base = near.loc[baseline]

    def times(arm: str) -> str:
        return f"{base['connections per second'] / near['connections per second'][arm]:.1f} times"

    kinds = [a for a in near.index if a.startswith("TLS")]
    dear = near.loc[kinds, "ms"].idxmax()
    main = next((a for a in kinds if a == "TLS 1.3, RSA 2048"), dear)
    text = (
        f"What it costs: a connection with {main} takes {times(main)} as long as {baseline}"
        f" ({near['ms'][main]:.2f} against {base['ms']:.2f} ms)"
        + (f"; with {dear} {times(dear)}." if dear != main else ".")
        + f" Who pays: near, the processors of both ends (server {near['server CPU, ms'][main]:.2f}"
        f" against {base['server CPU, ms']:.2f} ms, client {near['client CPU, ms'][main]:.2f} against"
        f" {base['client CPU, ms']:.2f} ms)"
    )
    if len(trips):
        n = trips.set_index("kind")["round trips"]
        more = ", ".join(f"{k} {v:.1f}" for k, v in n.items())
        text += f"; far away, round trips ({more})"
    cheap = near.loc[[a for a in near.index if a not in (baseline, "socket")], "ms"].idxmin()
    text += f". What makes it cheaper: {cheap} ({times(cheap)})"
    if len(even):
        first = even.iloc[0]
        text += f", and a pool, which leaves {first['query_extra_pct']:+.1f} % for each query"
        if first["under 5 %"] != "never":
            text += f", under 5 % in all from {first['under 5 %']} queries a connection"
    return text + "."
