"""The page of connections: round trips by distance, how many transactions a connection must serve
before TLS costs little, and two figures."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.estimates import (
    above,
    block_mean,
    columns_of,
    counting,
    figure,
    leading_rows,
    log_mean,
    log_ratio,
    number_text,
    scaled,
    to_percent,
    with_ends,
)
from noisefloor.data.results import Results
from noisefloor.model import Arm
from noisefloor.show.plots import canvas
from noisefloor.show.plots.canvas import ARMS, BAND, PAGE
from noisefloor.show.rows import is_control
from noisefloor.stats.estimate import Estimate
from noisefloor.text import amounts

LIMITS = (5.0, 1.0)  # percent of extra cost, for the break-even
CONNECTING = "sustained"  # the workload of connections alone, as fast as possible
TUNNELS = ("SSH aes256-ctr", "ssh -N aes256-ctr")  # with a command at the far end, and without


def distances(tidy: pd.DataFrame) -> pd.DataFrame:
    """The data of `round_trips`: medians of each block, columns kind, distance_ms, campaign, block, rtt_s
    (of the link, measured before every run), connect_s. Only kinds that were measured at two distances
    or more."""
    ms = tidy["workload"].str.extract(r"^(\d+) ms away$")[0].astype(float)
    rows = counting(
        tidy.assign(distance_ms=ms, kind=tidy["arm"])[ms.notna() & tidy["threads"].eq(1)]
    )
    link, order = ["campaign", "block", "distance_ms"], list(PAGE.of(tidy))
    connect, trip = (rows[rows["metric"] == m] for m in ("connect_time", "round_trip"))
    both = connect.groupby(["kind", *link])["value"].median().rename("connect_s").reset_index()
    both = both.merge(trip.groupby(link)["value"].median().rename("rtt_s").reset_index(), on=link)
    both = both[both.groupby("kind")["distance_ms"].transform("nunique") > 1]
    return both.sort_values("kind", key=lambda k: k.map(order.index), kind="stable")


def round_trips(tidy: pd.DataFrame) -> pd.DataFrame:
    """The round trips that each kind of connection needs: in each block the slope of the time to connect
    over the round-trip time, between the two shortest distances; and the time that this predicts for the
    longest distance, against the measured one. Columns kind, blocks, and with their intervals round
    trips, work_ms, rtt_ms, predicted_ms, measured_ms, off_pct, per_s_at_100_ms."""
    far = distances(tidy)
    known = sorted(far["distance_ms"].unique())
    if len(known) < 2:
        return pd.DataFrame()
    at = [*known[:2], known[-1] if len(known) > 2 else math.nan]
    found = []
    for kind, part in far.groupby("kind", sort=False):
        wide: Any = part.pivot(index=["campaign", "block"], columns="distance_ms")
        x, y = (
            wide[c].reindex(columns=at).set_axis([0, 1, 2], axis=1) for c in ("rtt_s", "connect_s")
        )
        trips = (y[1] - y[0]) / (x[1] - x[0])
        work = y[0] - trips * x[0]
        then = work + trips * x[2]
        found.append(
            {"kind": kind, "blocks": int(trips.notna().sum())}
            | figure("round trips", block_mean(trips))
            | figure("work_ms", block_mean(1e3 * work))
            | figure("rtt_ms", block_mean(1e3 * x[2]))
            | figure("predicted_ms", block_mean(1e3 * then))
            | figure("measured_ms", block_mean(1e3 * y[2]))
            | figure("off_pct", block_mean(np.log((then / y[2]).where(then > 0))), to_percent)
            | figure("per_s_at_100_ms", block_mean(1 / (work + 0.1 * trips)))
        )
    return pd.DataFrame(found)


def _both(
    tidy: pd.DataFrame, workload: str, metric: str, arm: str, baseline: str
) -> tuple[Estimate, Estimate] | None:
    """(Estimate of the baseline, of the ratio), on the log scale, at the fewest threads at which both
    were measured; None if there are none. TPS are converted to seconds a transaction."""
    part = counting(tidy[(tidy["metric"] == metric) & (tidy["workload"] == workload)])
    part = part[part["arm"].isin([arm, baseline])]
    same = part.groupby(["campaign", "threads"])["arm"].transform("nunique") == 2
    part = part[same] if same.any() else part
    threads = part.groupby("threads")["arm"].nunique()
    if not (threads == 2).any():
        return None
    part = part[part["threads"] == threads.index[threads == 2].min()]
    if metric == "tps":
        part = part.assign(value=part["threads"].astype(float) / part["value"])
    return log_mean(part[part["arm"] == baseline]), log_ratio(part, arm, baseline)


def break_even(tidy: pd.DataFrame, arm: str, baseline: str) -> pd.DataFrame:
    """How many transactions a connection must serve before `arm` costs less than each of `LIMITS`
    percent, in time and in server CPU, both at the fewest threads. Columns counted in, and with their
    intervals connect_ms and transaction_ms (the baseline's), extra_ms (of a connection, at the
    baseline's mean), transaction_extra_pct, then one column a limit; infinite if each transaction alone
    costs more.

    The ends of these last columns are the best and the worst case that the four intervals of a row
    allow, so they are wider than a 95 % interval."""
    found = []
    for counted, connecting, serving in (
        ("time", "connect_time", "tps"),
        ("server CPU", "cpu_per_connection", "cpu_per_transaction"),
    ):
        made = _both(tidy, CONNECTING, connecting, arm, baseline)
        used = _both(tidy, "pooled", serving, arm, baseline)
        if not made or not used:
            continue
        base = 1e3 * math.exp(made[0].value)
        row = (
            {"counted in": counted}
            | figure("connect_ms", made[0], scaled(1e3))
            | figure("extra_ms", made[1], above(base))
            | figure("transaction_ms", used[0], scaled(1e3))
            | figure("transaction_extra_pct", used[1], to_percent)
        )
        connect, more, (q, q_lo, q_hi), each = map(with_ends, (*made, *used))
        cases = list(zip(connect, more, (q, q_hi, q_lo), each, strict=True))
        for limit in LIMITS:
            keys = columns_of(f"under {limit:g} %")
            row |= {k: _needed(limit / 100, *x) for k, x in zip(keys, cases, strict=True)}
        found.append(row)
    return pd.DataFrame(found)


def _needed(limit: float, connect: float, more: float, served: float, each: float) -> float:
    """Transactions that bring the extra cost under `limit`, from four logarithms."""
    if not np.isfinite([connect, more, served, each]).all():
        return math.nan
    over = math.exp(connect) * (math.expm1(more) - limit)
    spare = math.exp(served) * (limit - max(math.expm1(each), 0.0))
    if over <= 0:
        return 0.0
    return float(math.ceil(over / spare)) if spare > 0 else math.inf


def signed(
    verdicts: pd.DataFrame,
    tidy: pd.DataFrame,
    rates: Mapping[str | None, list[float]],
    arms: Sequence[Arm],
) -> pd.DataFrame:
    """The least that a connection should cost the server, its one signature, and what was measured:
    columns arm, key, expected_ms, and with its interval server CPU more_ms, against the first baseline
    that signs nothing. rates: key -> signatures a second, repeats; arms: those of the study."""
    keys = {a.name: a.how["key"] for a in arms if "key" in a.how}
    unsigned = verdicts[~verdicts["baseline"].isin(keys)]
    rows = leading_rows(unsigned, "cpu_per_connection", (CONNECTING,))
    measured = counting(tidy[tidy["workload"].eq(CONNECTING)])
    found = []
    for row in rows.to_dict("records"):
        if (key := keys.get(row["arm"])) in rates:
            base = measured[measured["metric"] == row["metric"]]
            base = base if row["joint"] else base[base["threads"] == row["threads"]]
            beside = base[base["arm"] == row["arm"]]["campaign"]  # medians of one machine and day
            base = base[base["campaign"].isin(beside) & (base["arm"] == row["baseline"])]
            base = 1e3 * base["value"].median()
            more = [base * row[c] / 100 for c in ("change_pct", "lo_pct", "hi_pct")]
            found.append(
                {"arm": row["arm"], "key": key}
                | {"expected_ms": round(1e3 / float(np.median(rates[key])), 3)}
                | dict(zip(columns_of("server CPU more_ms"), more, strict=True))
            )
    return pd.DataFrame(found)


_RATES = {
    "connections per second": ("connections_per_second", 1.0),
    "connect_ms": ("connect_time", 1e3),
    "server CPU_ms": ("cpu_per_connection", 1e3),
    "client CPU_ms": ("client_cpu_per_connection", 1e3),
    "tunnel opened in_ms": ("tunnel_setup", 1e3),
}


def rates(tidy: pd.DataFrame, workload: str) -> pd.DataFrame:
    """A workload by campaign, thread count and arm: columns threads, arm, blocks, and with their
    intervals the measured ones of `_RATES`: connections per second, and for one connection the time and
    the CPU of server and client (a tunnel's ends included). With several campaigns also a column
    campaign, because only arms of one campaign were measured in pairs."""
    rows = counting(tidy[tidy["workload"] == workload])
    rows = rows.assign(arm=pd.Categorical(rows["arm"], list(PAGE.of(tidy))))
    found, key = [], ["campaign", "threads", "arm"]
    known = {name: of for name, of in _RATES.items() if of[0] in set(rows["metric"])}
    for which, part in rows.groupby(key, observed=True):
        row = dict(zip(key, which, strict=True)) | {"blocks": part["block"].nunique()}
        for name, (metric, scale) in known.items():
            row |= figure(name, log_mean(part[part["metric"] == metric]), scaled(scale))
        found.append(row)
    single = ["campaign"] if rows["campaign"].nunique() < 2 else []
    return pd.DataFrame(found).drop(columns=single, errors="ignore")


def fastest(page: Results) -> pd.DataFrame:
    """`rates` of connections as fast as possible, for the question `headline` (maximum throughput); of a
    campaign that asked all questions at once, for all its arms."""
    asked = [p.folder.name for p in page.parts if p.study.key in ("headline", "")]
    return rates(page.tidy[page.tidy["campaign"].isin(asked)], CONNECTING)


def native(tidy: pd.DataFrame) -> pd.DataFrame:
    """How many times as many connections a tunnel makes as TLS with a key of 4096 bits, the comparison
    of the source: columns threads, and with its interval times."""
    arms, found = (TUNNELS[0], "TLS 1.3, RSA 4096"), []
    rows = tidy[tidy["workload"].eq(CONNECTING) & tidy["metric"].eq("connections_per_second")]
    rows = counting(rows[rows["arm"].isin(arms)])
    groups: Any = rows.groupby("threads")
    for threads, part in groups:
        if part["arm"].nunique() == len(arms):
            found.append(
                {"threads": int(threads)} | figure("times", log_ratio(part, *arms), math.exp)
            )
    return pd.DataFrame(found)


def client_answer(verdicts: pd.DataFrame, question: str) -> str:
    """The upper limit of the client's extra CPU a connection, over all arms of a question, in a
    sentence; "" if it was not measured, or is not above 0."""
    metric = "client_cpu_per_connection"
    rows = verdicts[verdicts["metric"].eq(metric) & verdicts["question"].eq(question)]
    most = rows.loc[~is_control(rows), "hi_pct"].max()
    return f"Client CPU: at most {amounts.change(most, metric, 'more')}." if most > 0 else ""


def tunnels_answer(tidy: pd.DataFrame) -> str:
    """How long a connection takes through each kind of tunnel, in a sentence; "" if one of them was not
    measured."""
    made = rates(tidy, CONNECTING)
    ways = made.drop_duplicates("arm").set_index("arm") if len(made) else made  # the fewest threads
    if not set(TUNNELS) <= set(ways.index):
        return ""
    command, without = (number_text(*ways.loc[a, columns_of("connect_ms")]) for a in TUNNELS)
    return (
        f"Through ssh -N a connection takes {without} ms, through a tunnel with a command at its far end"
        f" {command} ms."
    )


# -- figures ---------------------------------------------------------------------------------------


@canvas.responsive
def distance_figure(rows: pd.DataFrame, trips: pd.DataFrame, *, narrow: bool = False) -> Figure:
    """Time to connect against round-trip time: points as measured, lines as predicted from the two
    shorter distances.

    `rows`: kind, rtt_s, connect_s; `trips`: kind, round trips, work_ms.
    """
    drawn, (ax,) = canvas.sheet(narrow, 340)
    end, fitted = 1e3 * rows["rtt_s"].max(), trips.set_index("kind")
    names: dict[Any, str] = {}
    ink = PAGE.of(rows.rename(columns={"kind": "arm"}))
    for kind, part in rows.groupby("kind", sort=False):
        work, needed = fitted.loc[kind, ["work_ms", "round trips"]]
        ax.plot((0, end), (work, work + needed * end), color=ink[kind], lw=1.6)
        ax.plot(1e3 * part["rtt_s"], 1e3 * part["connect_s"], "o", ms=7, color=ink[kind])
        names[kind] = f"{kind}: {needed:.1f} round trips"
    canvas.above(ax, "time to connect, ms (line: prediction)", "", names, ink, narrow)
    ax.set(ylim=(0, None), xlim=(-0.02 * end, 1.04 * end))
    ax.set_xlabel("round trip between client and server, ms")
    return drawn


@canvas.responsive
def pooling_figure(even: pd.DataFrame, *, narrow: bool = False) -> Figure:
    """The cost of encryption against the transactions that a connection serves, with lines at LIMITS.

    `even`: the table of `break_even`: `counted in`, connect_ms and transaction_ms of the baseline,
    extra_ms of a connection, transaction_extra_pct.
    """
    drawn, (ax,) = canvas.sheet(narrow, 330)
    served = np.logspace(0, 5, 120)
    ink = dict(zip(even["counted in"], ARMS, strict=False))
    for row in even.to_dict("records"):
        work = served * row["transaction_ms"]
        extra = row["extra_ms"] + work * row["transaction_extra_pct"] / 100
        cost = 100 * extra / (row["connect_ms"] + work)
        ax.plot(served, cost, color=ink[row["counted in"]], lw=2)
    for limit in LIMITS:
        ax.axhline(limit, color=BAND, lw=1, ls=(0, (4, 3)))
        words, at = f"{limit:g}\u202f%", ax.get_yaxis_transform()
        canvas.note(ax, words, (1, limit), (-4, 2), at, color=BAND, ha="right")
    ax.set_xscale("log")
    ax.set_yscale("symlog", linthresh=1, linscale=0.5)
    ax.set_ylim(bottom=min(0, even["transaction_extra_pct"].min()))
    canvas.ticks(ax.yaxis, [0, 1, 5, 20, 100, 500, 2000], "{x:g}\u202f%")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_xlabel("transactions that a connection serves")
    canvas.above(ax, "what TLS adds", "", {k: f"counted in {k}" for k in ink}, ink, narrow)
    return drawn
