"""Backups: the bottleneck of the pipe, the expected time of the cipher, the size of archives,
and the answer of the page."""

import math

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.estimates import (
    NOTHING,
    block_mean,
    counting,
    figure,
    in_words,
    leading_rows,
    log_mean,
    log_ratio,
    scaled,
    to_percent,
)
from noisefloor import model
from noisefloor.show.plots import canvas
from noisefloor.show.plots.canvas import ARMS, CONTROL, PAGE
from noisefloor.show.rows import is_control

STATES = {  # of a process, and the colour of each
    "runs": ARMS[1],
    "waits for input": ARMS[0],
    "waits for output": ARMS[2],
    "waits otherwise": CONTROL,
}


def _placed(stages: pd.DataFrame, tidy: pd.DataFrame) -> pd.DataFrame:
    """`tidy.stages` with the campaign and the block of each run."""
    return stages.merge(tidy.drop_duplicates("run")[["campaign", "block", "run"]], on="run")


def busy(stages: pd.DataFrame, workload: str, tidy: pd.DataFrame, threads: int = 0) -> pd.DataFrame:
    """The processes of a pipe, from `tidy.stages`: means by arm and stage at a thread count (0: the
    most), columns arm, stage, cpu_s with its interval, wall_s, read_MB (from disk, if it is known), and
    the share of its time in each of `STATES` in percent. If a run has several backups: their sum, and
    the mean of the shares."""
    found = []
    if stages.empty:
        return pd.DataFrame()
    part = stages[stages["workload"] == workload]
    part = _placed(part[part["threads"] == (threads or part["threads"].max())], tidy)
    part = part.assign(arm=part["arm"].str.removesuffix(model.CONTROL_SUFFIX))
    states, known = [c for c in STATES if c in part], part["read_B"].notna().any()
    how = dict.fromkeys(("cpu_s", "wall_s", "read_B"), "sum") | dict.fromkeys(states, "mean")
    key = ["arm", "stage", "campaign", "block", "run"]
    part = part.groupby(key, sort=False).agg(how).reset_index()
    for (arm, stage), runs in part.groupby(["arm", "stage"], sort=False):
        cpu = block_mean(runs.groupby(["campaign", "block"])["cpu_s"].mean())
        row = {"arm": arm, "stage": stage} | figure("cpu_s", cpu)
        row |= {"wall_s": round(runs["wall_s"].mean(), 3)}
        row |= {"read_MB": round(runs["read_B"].mean() / 1e6)} if known else {}
        found.append(row | {c: round(100 * runs[c].mean()) for c in states})
    return pd.DataFrame(found)


def busiest(busy: pd.DataFrame) -> dict[str, str]:
    """{arm: its busiest process, and how much of its time that runs, in words}; `busy`: a table of it."""
    if "runs" not in busy:
        return {}
    rows = busy.loc[busy.groupby("arm", sort=False)["runs"].idxmax()]
    return {
        row["arm"]: f"busiest: {row['stage']}, {row['runs']:.0f}\u202f%"
        for row in rows.to_dict("records")
    }


@canvas.responsive
def processes_figure(busy: pd.DataFrame, *, narrow: bool = False) -> Figure:
    """What each process of a pipe does with its time, from the table of `busy`: a panel an arm, named
    with its busiest process; a bar a process, divided into running and the kinds of waiting."""
    states, bottleneck = [state for state in STATES if state in busy], busiest(busy)
    frame = busy.melt(["arm", "stage", "cpu_s", "wall_s"], states, "state", "share_pct")
    each = zip(frame["stage"], frame["cpu_s"], strict=True)
    frame["process"] = [f"{stage}: {cpu:.2f} s CPU" for stage, cpu in each]
    frame["seconds"] = frame["wall_s"] * frame["share_pct"] / 100
    seen = set(frame.loc[frame["seconds"] > 0, "state"])
    ink = {
        state: to_rgba(colour, 1 if state == "runs" else 0.35)
        for state, colour in STATES.items()
        if state in seen
    }
    arms = [arm for arm in PAGE.of(busy) if arm in set(busy["arm"])]
    bars = [busy["arm"].eq(arm).sum() for arm in arms]
    high = 26 * sum(bars) + 50 * len(arms) + (80 if narrow else 60)
    figure, panels = canvas.sheet(narrow, high, len(arms), sharex=True, height_ratios=bars)
    for ax, arm in zip(panels, arms, strict=True):
        sns.histplot(
            frame[frame["arm"] == arm],
            y="process",
            weights="seconds",
            hue="state",
            hue_order=[*reversed(ink)],  # the last one begins at zero
            palette=ink,
            multiple="stack",
            shrink=0.74,
            alpha=None,
            linewidth=0,
            legend=False,
            ax=ax,
        )
        ax.set(xlabel="", ylabel="")
        ax.grid(visible=False)
        canvas.above(ax, bottleneck.get(arm, ""), arm)
    panels[-1].xaxis.set_major_formatter("{x:g}\u202fs")
    legend = [Patch(facecolor=ink[state], linewidth=0, label=state) for state in ink]
    figure.legend(handles=legend, loc="outside upper left", ncols=2 if narrow else 4, frameon=False)
    return figure


def predicted(tidy: pd.DataFrame, stages: pd.DataFrame, speeds: pd.DataFrame) -> pd.DataFrame:
    """CPU time of the openssl process: that expected for the archive's bytes from the speed of the
    cipher in memory, and that measured. speeds: arm, direction, B_per_s. Columns arm, direction, MB per
    s, and with their intervals archive_MB, predicted_s, measured_s; empty if no speed is known."""
    rows, found = counting(tidy), []
    sizes = rows[rows["metric"] == "backup_size"]
    if stages.empty or not {"arm", "direction", "B_per_s"} <= set(speeds):
        return pd.DataFrame()
    cpu = _placed(stages, tidy)
    cpu = cpu[cpu["stage"] == "openssl"]  # of every run, as rows of the tidy table
    cpu = counting(cpu.assign(warmup=False, value=cpu["cpu_s"]))
    for arm, direction, rate in speeds[["arm", "direction", "B_per_s"]].itertuples(index=False):
        size = sizes[sizes["arm"] == arm]
        same = size[size["workload"] == direction]
        size = log_mean(same if len(same) else size)
        used = log_mean(cpu[(cpu["workload"] == direction) & (cpu["arm"] == arm)])
        if np.isfinite([size.value, used.value]).all():
            found.append(
                {"arm": arm, "direction": direction, "MB per s": round(rate / 1e6)}
                | figure("archive_MB", size, scaled(1e-6))
                | figure("predicted_s", size, scaled(1 / rate))
                | figure("measured_s", used, math.exp)
            )
    return pd.DataFrame(found)


def sizes(tidy: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Size of the archives: columns arm, archives, data to 1 (bytes of data files for one byte of the
    archive) and, with their intervals, archive_MB and, in pairs, above_pct (above the baseline's)."""
    made = tidy[tidy["workload"] == "backup"]
    rows = counting(made[made["metric"] == "backup_size"])
    whole = made[made["metric"] == "data_size"].set_index("run")["value"]
    found = []
    for arm in PAGE.of(tidy):
        part = rows[rows["arm"] == arm]
        if len(part):
            more = NOTHING if arm == baseline else log_ratio(rows, arm, baseline)
            found.append(
                {"arm": arm, "archives": len(part)}
                | {"data to 1": round(float((part["run"].map(whole) / part["value"]).median()), 2)}
                | figure("archive_MB", log_mean(part), scaled(1e-6))
                | figure("above_pct", more, to_percent)
            )
    return pd.DataFrame(found)


def backup_answer(verdicts: pd.DataFrame) -> str:
    """The answer of the page in short sentences: the time of a backup and of a restore; the size of the
    archive of encrypted tables and its processor time; the latency beside a backup."""
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
    found = ((about, leading_rows(of, metric, works)) for about, of, metric, works in asked)
    return " ".join(f"{about}: {in_words(said)}." for about, said in found if len(said))


def _at_most(verdicts: pd.DataFrame) -> pd.Series:
    """Which rows are of the most threads of their question and workload."""
    threads = pd.to_numeric(verdicts["threads"], errors="coerce").astype("Float64")
    most = threads.groupby([verdicts["question"], verdicts["workload"]]).transform("max")
    return threads.eq(most).fillna(False).astype(bool)


def over(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Rows of our verdict table and the published rows of the same metric and arm, for one figure. The
    workloads' names get the endings ", here" and ", published"."""
    metric = ours["metric"].iloc[0] if len(ours) else ""
    theirs = published[(published["metric"] == metric) & published["arm"].isin(set(ours["arm"]))]
    both = [
        f.assign(workload=f["workload"].astype(str) + end)
        for f, end in ((ours[~is_control(ours)], ", here"), (theirs, ", published"))
    ]
    rows = pd.concat(both, ignore_index=True).reindex(columns=ours.columns)
    alone = {"sittings": 1, "asked": 1, "ranged": False}  # a document has no sittings
    rows = rows.fillna({k: v for k, v in alone.items() if k in rows})
    return rows.sort_values(["arm", "workload"], ignore_index=True)
