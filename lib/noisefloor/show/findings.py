"""What the campaigns on backups and connections show: tables, and the first line of a page.

A figure `x` stands beside `x lo` and `x hi`, the ends of its 95 % interval: Student's t over the
means of blocks; two arms are compared in the pairs that they were measured in. `told` writes it
down. The tables may hold several campaigns of a study, one after the other.
"""

import math
import re

import numpy as np
import pandas as pd
from scipy import stats

from noisefloor import model
from noisefloor.show import plots
from noisefloor.show.plots import canvas
from noisefloor.show.plots.series import LIMITS
from noisefloor.show.rows import metric_label
from noisefloor.stats import verdict
from noisefloor.stats.estimate import Estimate, paired
from noisefloor.stats.verdict import CANNOT_TELL, NOT_YET, SAME
from noisefloor.text import amounts

CONNECTING = "sustained"  # the workload of connections alone, as fast as they are made
TUNNELS = ("SSH aes256-ctr", "ssh -N aes256-ctr")  # with a command at the far end, and without
STATES = ("runs", "waits for input", "waits for output", "waits otherwise")
MOST = 12  # functions that are shown
ORDER = ("worse", "better", SAME, CANNOT_TELL, NOT_YET)  # kinds of verdicts
FALSE = 0.05  # share of false discoveries among functions
_NOTHING = Estimate(math.nan, ((math.inf, 1),))


# -- figures and their intervals -------------------------------------------------------------------


def _keys(name: str) -> list[str]:
    return [name, f"{name} lo", f"{name} hi"]


def _mean(units) -> Estimate:
    """The mean of what independent blocks say; without a scatter for fewer than two."""
    units = [float(u) for u in units if np.isfinite(u)]
    if len(units) < 2:
        return Estimate(units[0], _NOTHING.parts) if units else _NOTHING
    return Estimate(math.fsum(units) / len(units), paired(units))


def _less(one: Estimate, other: Estimate) -> Estimate:
    """The difference of two estimates that know nothing of each other."""
    return Estimate(one.value - other.value, (*one.parts, *other.parts))


def _ends(found: Estimate) -> tuple[float, float, float]:
    """An estimate and its interval, NaN where there is none."""
    ends = found.ends()
    return found.value, *(ends if math.isfinite(found.half()) else (math.nan, math.nan))


def _figure(name: str, found: Estimate, of=lambda x: x) -> dict[str, float]:
    """The figure `name` with its interval, `of` what was estimated."""
    return dict(zip(_keys(name), map(of, _ends(found)), strict=True))


def _times(scale: float):
    """A logarithm as a number in other units."""
    return lambda log: scale * math.exp(log)


def _pct(log: float) -> float:
    return 100 * math.expm1(log)


def _own(tidy: pd.DataFrame) -> pd.DataFrame:
    """Rows that count: no warm-ups, no control, nothing without a logarithm."""
    control = tidy["arm"].str.endswith(model.AGAIN).astype(bool)
    return tidy[~tidy["warmup"].astype(bool) & ~control & (tidy["value"] > 0)]


def _log(rows: pd.DataFrame) -> Estimate:
    """The mean of the blocks, on the log scale."""
    logs = np.log(rows["value"].astype(float))
    return _mean(logs.groupby([rows["campaign"], rows["block"]]).mean())


def _ratio(rows: pd.DataFrame, arm: str, baseline: str) -> Estimate:
    """Log of `arm` over `baseline`: in pairs where there are any, else from two means that know
    nothing of each other."""
    one, other = (rows[rows["arm"] == a] for a in (arm, baseline))
    both = one.merge(other, on=["campaign", "pair_id"], suffixes=("", " there"))
    if len(both):
        return _log(both.assign(value=both["value"] / both["value there"]))
    return _less(_log(one), _log(other))


def told(frame: pd.DataFrame) -> pd.DataFrame:
    """The same for a page: every figure with its interval in one cell."""
    out = {}
    for name in map(str, frame):
        if f"{name} lo" in frame:
            share = name.endswith("_pct")  # more or less of it, not slower or faster
            head = re.sub("_(us|ms|s|MB)$", r", \1", name.removesuffix("_pct")).replace("_", " ")
            out[head] = [
                "" if pd.isna(x[0]) else amounts.told(*x, "user_sys") if share else _text(*x)
                for x in frame[_keys(name)].itertuples(index=False, name=None)
            ]
        elif not name.endswith((" lo", " hi")):
            out[name] = frame[name]
    return pd.DataFrame(out)


def _text(value: float, lo: float, hi: float) -> str:
    """`2.03 (1.98 to 2.09)`: to the second digit that is not known, five digits at the most. A number
    without an end is never reached."""
    if math.isinf(lo):
        return "never"
    reach = (hi - lo) / 2
    reach = max(reach, 1e-3 * abs(value)) if 0 < reach < math.inf else abs(value) / 10
    whole = all(float(x).is_integer() for x in (value, lo, hi) if math.isfinite(x))
    digits = 0 if whole or not 0 < reach < math.inf else max(0, 1 - math.floor(math.log10(reach)))

    def one(x: float) -> str:
        return "never" if math.isinf(x) else f"{x:,.{digits}f}".replace("-", amounts.MINUS)

    none = math.isnan(lo) or math.isnan(hi)
    return f"{one(value)} ({amounts.NONE if none else f'{one(lo)} to {one(hi)}'})"


# -- first lines -----------------------------------------------------------------------------------


def _judged(verdicts: pd.DataFrame, metric: str, workloads: tuple[str, ...]) -> pd.DataFrame:
    """Verdicts on a metric of the first of `workloads` that has any, against one baseline, one an arm:
    of the joint effect, else of the fewest threads; each question on its first processor."""
    rows = verdicts[~verdicts["control"].astype(bool) & (verdicts["metric"] == metric)]
    rows = rows[rows["processor"].eq(rows.groupby("question")["processor"].transform("first"))]
    first = next((w for w in workloads if w in set(rows["workload"])), "")
    rows = rows[rows["workload"] == first]
    rows = rows[rows["baseline"].isin(rows["baseline"][:1])]
    joint = rows["joint"].astype(bool)
    return rows[joint | ~rows["arm"].isin(rows["arm"][joint])].drop_duplicates("arm")


def _words(rows: pd.DataFrame) -> str:
    """`slower with A (+40.0 %, +36.0 to +45.0 %); same with B (...); so far 1 of 3 sittings: C (...)`."""
    said = {}
    for row in sorted(rows.itertuples(), key=lambda row: ORDER.index(_kind(row))):
        start = f"{row.verdict} with"
        if row.verdict == NOT_YET:
            start = f"{row.warnings[0].split(': ')[0]}:"
        said.setdefault(start, []).append(f"{row.arm} ({_size(row)})")
    return "; ".join(f"{start} {', '.join(arms)}" for start, arms in said.items())


def _kind(row) -> str:
    return verdict.kind(row.verdict, row.metric)


def _size(row) -> str:
    """A change and its interval, the word for its direction left out; of a row that cannot tell,
    what is known."""
    if row.verdict == CANNOT_TELL:
        return amounts.known(row.lo_pct, row.hi_pct, row.metric) or amounts.NONE
    return canvas.numbers(row).replace(" (", ", ").removesuffix(")")


# -- two conditions against each other -------------------------------------------------------------


def contrast(
    tidy: pd.DataFrame, baseline: str, arm: str, one: str, other: str, metrics: list[str]
) -> pd.DataFrame:
    """The effect of `arm` in two workloads that one campaign measured, and how far they lie apart: a
    row a metric, with the change in each workload and `apart_pct`, of `one` against `other`; all in
    percent, with 95 % intervals by Student's t over the means of blocks. Without rows where there is
    no such campaign."""
    rows, found = _own(tidy), []
    for metric in metrics:
        part = rows[rows["metric"].eq(metric) & rows["workload"].isin([one, other])]
        sides = (part[part["arm"].eq(a)] for a in (arm, baseline))
        both = next(sides).merge(next(sides), on=["campaign", "pair_id"], suffixes=("", " there"))
        logs = np.log(both["value"].astype(float) / both["value there"].astype(float))
        means = logs.groupby([both["workload"], both["campaign"], both["block"]]).mean()
        if means.index.get_level_values("workload").nunique() < 2:
            continue
        found.append(
            {"metric": metric_label(metric)}
            | _figure(f"{one}_pct", _mean(means[one]), _pct)
            | _figure(f"{other}_pct", _mean(means[other]), _pct)
            | _figure("apart_pct", _mean((means[one] - means[other]).dropna()), _pct)
        )
    return pd.DataFrame(found)


# -- backups ---------------------------------------------------------------------------------------


def _placed(stages: pd.DataFrame, tidy: pd.DataFrame) -> pd.DataFrame:
    """`tidy.stages` with the campaign and the block of each run."""
    return stages.merge(tidy.drop_duplicates("run")[["campaign", "block", "run"]], on="run")


def busy(stages: pd.DataFrame, workload: str, tidy: pd.DataFrame, threads: int = 0) -> pd.DataFrame:
    """Who is the bottleneck, from `tidy.stages`: means by arm and stage at a thread count (0: the
    most), columns arm, stage, cpu_s with its interval, wall_s, read_MB (from disk, where it is
    known), and the share of its time in each of `STATES` in percent. Of a run with several backups:
    all of them together."""
    found = []
    if stages.empty:
        return pd.DataFrame()
    part = stages[stages["workload"] == workload]
    part = _placed(part[part["threads"] == (threads or part["threads"].max())], tidy)
    part = part.assign(arm=part["arm"].str.removesuffix(model.AGAIN))
    states, known = [c for c in STATES if c in part], part["read_B"].notna().any()
    how = dict.fromkeys(("cpu_s", "wall_s", "read_B"), "sum") | dict.fromkeys(states, "mean")
    key = ["arm", "stage", "campaign", "block", "run"]
    part = part.groupby(key, sort=False).agg(how).reset_index()
    for (arm, stage), runs in part.groupby(["arm", "stage"], sort=False):
        cpu = _mean(runs.groupby(["campaign", "block"])["cpu_s"].mean())
        row = {"arm": arm, "stage": stage} | _figure("cpu_s", cpu)
        row |= {"wall_s": round(runs["wall_s"].mean(), 3)}
        row |= {"read_MB": round(runs["read_B"].mean() / 1e6)} if known else {}
        found.append(row | {c: round(100 * runs[c].mean()) for c in states})
    return pd.DataFrame(found)


def predicted(tidy: pd.DataFrame, stages: pd.DataFrame, speeds: pd.DataFrame) -> pd.DataFrame:
    """CPU of the openssl process: what the archive's bytes should take by the speed of the cipher in
    memory, against the one measured. speeds: arm, direction, B_per_s. Columns arm, direction, MB per
    s, and with their intervals archive_MB, predicted_s, measured_s; empty where no speed is known."""
    rows, found = _own(tidy), []
    sizes = rows[rows["metric"] == "backup_size"]
    if stages.empty or not {"arm", "direction", "B_per_s"} <= set(speeds):
        return pd.DataFrame()
    cpu = _placed(stages, tidy)
    cpu = cpu[cpu["stage"] == "openssl"]  # of every run, as rows of the tidy table
    cpu = _own(cpu.assign(warmup=False, value=cpu["cpu_s"]))
    for arm, direction, rate in speeds[["arm", "direction", "B_per_s"]].itertuples(index=False):
        size = sizes[sizes["arm"] == arm]
        own = size[size["workload"] == direction]
        size = _log(own if len(own) else size)
        used = _log(cpu[(cpu["workload"] == direction) & (cpu["arm"] == arm)])
        if np.isfinite([size.value, used.value]).all():
            found.append(
                {"arm": arm, "direction": direction, "MB per s": round(rate / 1e6)}
                | _figure("archive_MB", size, _times(1e-6))
                | _figure("predicted_s", size, _times(1 / rate))
                | _figure("measured_s", used, math.exp)
            )
    return pd.DataFrame(found)


def sizes(tidy: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Size of the archives: columns arm, archives, data to 1 (what of the data files became one byte)
    and, with their intervals, archive_MB and, in pairs, above_pct, how far it is above the baseline's."""
    made = tidy[tidy["workload"] == "backup"]
    rows = _own(made[made["metric"] == "backup_size"])
    whole = made[made["metric"] == "data_size"].set_index("run")["value"]
    found = []
    for arm in plots.colours(tidy):
        part = rows[rows["arm"] == arm]
        if len(part):
            more = _NOTHING if arm == baseline else _ratio(rows, arm, baseline)
            found.append(
                {"arm": arm, "archives": len(part)}
                | {"data to 1": round(float((part["run"].map(whole) / part["value"]).median()), 2)}
                | _figure("archive_MB", _log(part), _times(1e-6))
                | _figure("above_pct", more, _pct)
            )
    return pd.DataFrame(found)


def backup_answer(verdicts: pd.DataFrame) -> str:
    """What it costs, in short sentences: the time of a backup and of a restore; how large the archive
    of encrypted tables is, and only then its processor time; the latency beside a backup."""
    rows = verdicts[verdicts["joint"].astype(bool) | _at_most(verdicts)]
    ciphers = rows[~rows["arm"].str.contains(", ")]
    tables = rows[rows["arm"].str.endswith("encrypted tables")]
    asked = (
        ("Backup time", ciphers, "wall", ("backup",)),
        ("Restore time", ciphers, "wall", ("restore",)),
        ("Archive of encrypted tables", tables, "backup_size", ("backup",)),
        ("Its processor time", tables, "user_sys", ("backup",)),
        ("99th percentile beside it", rows, "p99", tuple(rows["workload"].unique())),
    )
    found = ((about, _judged(of, metric, works)) for about, of, metric, works in asked)
    return " ".join(f"{about}: {_words(said)}." for about, said in found if len(said))


def _at_most(verdicts: pd.DataFrame) -> pd.Series:
    """Which rows are of the most threads of their question and workload."""
    threads = pd.to_numeric(verdicts["threads"], errors="coerce").astype("Float64")
    most = threads.groupby([verdicts["question"], verdicts["workload"]]).transform("max")
    return threads.eq(most).fillna(False).astype(bool)


# -- profiles --------------------------------------------------------------------------------------


def grown(profiles: pd.DataFrame, tidy: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """The functions whose processor time differs most between `baseline` and the other arm: samples of
    a run as shares of its CPU per transaction, in pairs. Columns function, baseline_us, and with its
    interval more_us, the largest first.

    Those alone that differ with a share of false discoveries of at most 5 % (Benjamini and Hochberg
    1995) among all functions, by Student's t over the means of blocks. The A/A control counts where
    there is no other arm; this table of it must be empty: show it beside that of the arm."""
    if profiles.empty:
        return pd.DataFrame()
    own = tidy["metric"].eq("cpu_per_transaction") & tidy["run"].isin(set(profiles["run"]))
    cpu = tidy[own].set_index("run")["value"]
    others = profiles[~profiles["arm"].isin([baseline, baseline + model.AGAIN])]
    if len(others):
        profiles = profiles[profiles["pair_id"].isin(others["pair_id"])]
    rows = profiles.assign(us=1e6 * profiles["share"] * profiles["run"].map(cpu))
    rows["side"] = np.where(rows["arm"] == baseline, "base", "other")
    key = ["campaign", "block", "pair_id", "side"]
    wide = rows.pivot_table(
        index="function", columns=key, values="us", aggfunc="sum", fill_value=0.0
    )
    base, other = (wide.xs(s, axis=1, level="side") for s in ("base", "other"))
    both = base.columns.intersection(other.columns)
    more = (other[both] - base[both]).T.groupby(level=["campaign", "block"]).mean()
    more = more.loc[:, more.std() > 0]
    if more.empty:
        return pd.DataFrame()
    p = stats.ttest_1samp(more.to_numpy(), 0.0).pvalue
    found = []
    for function in more.columns[stats.false_discovery_control(p) <= FALSE]:
        before = round(float(base.loc[function, both].mean()), 2)
        row = {"function": function, f"{baseline}, µs": before}
        found.append(row | _figure("more_us", _mean(more[function])))
    found.sort(key=lambda r: -abs(r["more_us"]))
    return pd.DataFrame(found[:MOST])


# -- connections -----------------------------------------------------------------------------------


def distances(tidy: pd.DataFrame) -> pd.DataFrame:
    """What the round trips are read from: medians of each block, columns kind, distance_ms, campaign,
    block, rtt_s (of the link, measured before every run of any kind), connect_s; of the kinds that were
    measured at two distances at least."""
    ms = tidy["workload"].str.extract(r"^(\d+) ms away$")[0].astype(float)
    rows = _own(tidy.assign(distance_ms=ms, kind=tidy["arm"])[ms.notna() & tidy["threads"].eq(1)])
    link, order = ["campaign", "block", "distance_ms"], list(plots.colours(tidy))
    connect, trip = (rows[rows["metric"] == m] for m in ("connect_time", "round_trip"))
    both = connect.groupby(["kind", *link])["value"].median().rename("connect_s").reset_index()
    both = both.merge(trip.groupby(link)["value"].median().rename("rtt_s").reset_index(), on=link)
    both = both[both.groupby("kind")["distance_ms"].transform("nunique") > 1]
    return both.sort_values("kind", key=lambda k: k.map(order.index), kind="stable")


def round_trips(tidy: pd.DataFrame) -> pd.DataFrame:
    """The round trips that each kind of connection needs: the slope of the time to connect over the
    round-trip time between the two shorter distances, in each block; and the time that it predicts for
    the longest one against the one measured there. Columns kind, blocks, and with their intervals round
    trips, work_ms, rtt_ms, predicted_ms, measured_ms, off_pct, per_s_at_100_ms."""
    far = distances(tidy)
    known = sorted(far["distance_ms"].unique())
    if len(known) < 2:
        return pd.DataFrame()
    at = [*known[:2], known[-1] if len(known) > 2 else math.nan]
    found = []
    for kind, part in far.groupby("kind", sort=False):
        wide = part.pivot(index=["campaign", "block"], columns="distance_ms")
        x, y = (
            wide[c].reindex(columns=at).set_axis([0, 1, 2], axis=1) for c in ("rtt_s", "connect_s")
        )
        trips = (y[1] - y[0]) / (x[1] - x[0])
        work = y[0] - trips * x[0]
        then = work + trips * x[2]
        found.append(
            {"kind": kind, "blocks": int(trips.notna().sum())}
            | _figure("round trips", _mean(trips))
            | _figure("work_ms", _mean(1e3 * work))
            | _figure("rtt_ms", _mean(1e3 * x[2]))
            | _figure("predicted_ms", _mean(1e3 * then))
            | _figure("measured_ms", _mean(1e3 * y[2]))
            | _figure("off_pct", _mean(np.log((then / y[2]).where(then > 0))), _pct)
            | _figure("per_s_at_100_ms", _mean(1 / (work + 0.1 * trips)))
        )
    return pd.DataFrame(found)


def _both(tidy: pd.DataFrame, workload: str, metric: str, arm: str, baseline: str):
    """(Estimate of the baseline, of the ratio), on the log scale, at the fewest threads at which both
    were measured; None where they were not. A rate is turned into a time."""
    part = _own(tidy[(tidy["metric"] == metric) & (tidy["workload"] == workload)])
    part = part[part["arm"].isin([arm, baseline])]
    same = part.groupby(["campaign", "threads"])["arm"].transform("nunique") == 2
    part = part[same] if same.any() else part
    threads = part.groupby("threads")["arm"].nunique()
    if not (threads == 2).any():
        return None
    part = part[part["threads"] == threads.index[threads == 2].min()]
    if metric == "tps":
        part = part.assign(value=part["threads"].astype(float) / part["value"])
    return _log(part[part["arm"] == baseline]), _ratio(part, arm, baseline)


def break_even(tidy: pd.DataFrame, arm: str, baseline: str) -> pd.DataFrame:
    """How many transactions a connection must serve before `arm` costs less than each of `LIMITS`
    percent, in time and in server CPU, both at the fewest threads. Columns counted in, and with their
    intervals connect_ms and transaction_ms (the baseline's), extra_ms (of a connection, at the
    baseline's mean), transaction_extra_pct, then one column a limit; infinite where each transaction
    alone costs more.

    The ends of the last ones are those of the worst and the best case that the four intervals of a
    row allow: they hold the truth at least as often as each of these."""
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
            | _figure("connect_ms", made[0], _times(1e3))
            | _figure("extra_ms", made[1], lambda x, base=base: base * math.expm1(x))
            | _figure("transaction_ms", used[0], _times(1e3))
            | _figure("transaction_extra_pct", used[1], _pct)
        )
        connect, more, (q, q_lo, q_hi), each = map(_ends, (*made, *used))
        cases = list(zip(connect, more, (q, q_hi, q_lo), each, strict=True))
        for limit in LIMITS:
            keys = _keys(f"under {limit:g} %")
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


def signed(verdicts: pd.DataFrame, tidy: pd.DataFrame, rates: dict, arms) -> pd.DataFrame:
    """What a connection should cost the server at least, its one signature, beside what was measured:
    columns arm, key, expected_ms, and with its interval server CPU more_ms, against the baseline of
    the first comparison. rates: signatures a second by key; arms: those of the study."""
    keys = {a.name: a.how["key"] for a in arms if "key" in a.how}
    rows = _judged(verdicts, "cpu_per_connection", (CONNECTING,))
    found = []
    for row in rows.to_dict("records"):
        if (key := keys.get(row["arm"])) in rates:
            base = tidy[(tidy["metric"] == row["metric"]) & (tidy["workload"] == row["workload"])]
            beside = base[base["arm"] == row["arm"]]["campaign"]  # medians of one machine and day
            base = base[base["campaign"].isin(beside) & (base["arm"] == row["baseline"])]
            base = 1e3 * base["value"].median()
            more = [base * row[c] / 100 for c in ("change_pct", "lo_pct", "hi_pct")]
            found.append(
                {"arm": row["arm"], "key": key}
                | {"expected_ms": round(1e3 / float(np.median(rates[key])), 3)}
                | dict(zip(_keys("server CPU more_ms"), more, strict=True))
            )
    return pd.DataFrame(found)


_RATES = {
    "connections per second": ("connections_per_second", 1.0),
    "connect_ms": ("connect_time", 1e3),
    "mean_ms": ("mean_latency", 1e3),
    "p99_ms": ("p99", 1e3),
    "server CPU_ms": ("cpu_per_connection", 1e3),
    "client CPU_ms": ("client_cpu_per_connection", 1e3),
    "tunnel opened in_ms": ("tunnel_setup", 1e3),
}


def rates(tidy: pd.DataFrame, workload: str) -> pd.DataFrame:
    """A workload by campaign, thread count and arm: columns threads, arm, blocks, and with their
    intervals, as far as they were measured, connections per second and what one takes: time, and CPU
    of the server and of the client (with a tunnel both include its ends); a column campaign where there are several, because only
    arms of one campaign were measured beside each other."""
    rows = _own(tidy[tidy["workload"] == workload])
    rows = rows.assign(arm=pd.Categorical(rows["arm"], list(plots.colours(tidy))))
    found, key = [], ["campaign", "threads", "arm"]
    known = {name: of for name, of in _RATES.items() if of[0] in set(rows["metric"])}
    for which, part in rows.groupby(key, observed=True):
        row = dict(zip(key, which, strict=True)) | {"blocks": part["block"].nunique()}
        for name, (metric, scale) in known.items():
            row |= _figure(name, _log(part[part["metric"] == metric]), _times(scale))
        found.append(row)
    single = ["campaign"] if rows["campaign"].nunique() < 2 else []
    return pd.DataFrame(found).drop(columns=single, errors="ignore")


def native(tidy: pd.DataFrame) -> pd.DataFrame:
    """How many times as many connections a tunnel makes as TLS with a key of 4096 bits, which is what
    the source compares: columns threads, and with its interval times."""
    arms, found = (TUNNELS[0], "TLS 1.3, RSA 4096"), []
    rows = tidy[tidy["workload"].eq(CONNECTING) & tidy["metric"].eq("connections_per_second")]
    rows = _own(rows[rows["arm"].isin(arms)])
    for threads, part in rows.groupby("threads"):
        if part["arm"].nunique() == len(arms):
            found.append(
                {"threads": int(threads)} | _figure("times", _ratio(part, *arms), math.exp)
            )
    return pd.DataFrame(found)


def connection_answer(verdicts: pd.DataFrame, tidy: pd.DataFrame, even: pd.DataFrame) -> str:
    """What else a reader has to know of connections, as far as it was measured: short sentences on the
    two tunnels, on open connections (`even`: as `break_even`, which may be empty), on a post-quantum
    key exchange."""
    made, said = rates(tidy, CONNECTING), []
    ways = made.drop_duplicates("arm").set_index("arm") if len(made) else made  # the fewest threads
    if set(TUNNELS) <= set(ways.index):
        command, without = (_text(*ways.loc[a, _keys("connect_ms")]) for a in TUNNELS)
        said.append(
            f"Through ssh -N a connection takes {without} ms, through a tunnel with a command at its"
            f" far end {command} ms."
        )
    encrypted = verdicts[verdicts["arm"].str.startswith("TLS")]
    if len(pool := _judged(encrypted, "tps", ("pooled",))):
        text = f"Over open connections, transactions per second: {_words(pool)}"
        if len(even) and math.isfinite(even["under 5 % hi"].iloc[0]):
            needed = _text(*even[_keys("under 5 %")].iloc[0])
            text += f"; under 5 % of the time in all from {needed} transactions a connection"
        said.append(f"{text}.")
    hybrid = encrypted[encrypted["question"].eq("post-quantum")]
    for first in hybrid[:1].itertuples():
        cpu = _judged(hybrid, "cpu_per_connection", (first.workload,))
        said.append(f"Server CPU per connection, against {first.baseline}: {_words(cpu)}.")
    return " ".join(said)
