"""Words from a verdict table: every finding on a page is made here, none is written by hand."""

import json
import math
from pathlib import Path

import pandas as pd

from .. import paths
from ..plots import interval, is_control, is_joint, metric_label, percent, threads_label

_WORDS = {  # how a worse or better value is said, by metric; else "slower" and "faster"
    "cpu_per_transaction": ("takes more server CPU than", "takes less server CPU than"),
    "apply_cpu": ("takes more replica CPU than", "takes less replica CPU than"),
    "user_sys": ("takes more CPU time than", "takes less CPU time than"),
    "binlog_bytes_per_transaction": ("writes more than", "writes less than"),
    "written_bytes_per_transaction": ("writes more than", "writes less than"),
    "read_bytes_per_transaction": ("reads more than", "reads less than"),
    "restart_s": ("answers later after a restart than", "answers sooner after a restart than"),
    "recovery_s": ("answers later after a crash than", "answers sooner after a crash than"),
}


class ReportError(Exception):
    """A page that cannot be made. One sentence; `code` 2 for a wrong request, else 1."""

    def __init__(self, sentence, code=1):
        super().__init__(sentence)
        self.code = code

    def __reduce__(self):
        return type(self), (str(self), self.code)


def sentence(row) -> str:
    """One row of the verdict table in words: verdict, overhead, noise floor, what would settle it."""
    row = dict(row)
    where = threads_label(row["threads"], joint(row))
    overhead = f"Overhead {percent(row['overhead_pct'])}"
    if known(row.get("lo_pct")):
        overhead += f" ({interval(row['lo_pct'], row['hi_pct'])})"
    elif known(row.get("n_arm")):
        n = int(row["n_arm"])
        overhead += f" (no interval: {n} {unit(row, n)})"
    parts = [
        f"{metric_label(row['metric'])}{f' {where}' if where else ''}: {row['verdict']}.",
        overhead + (f"; {_floor(row)}" if _floor(row) else "") + ".",
    ]
    if plan := settle(row):
        parts.append(plan[0].upper() + plan[1:] + ".")
    return " ".join(parts)


def findings(verdicts) -> list[str]:
    """The rows of a verdict table in words, one sentence a comparison, controls last; workload and
    arm are named where there are several."""
    own = verdicts[~is_control(verdicts)]
    names = [c for c in ("workload", "arm") if c in own and own[c].astype(str).nunique() > 1]
    words = []
    for control, rows in verdicts.groupby(is_control(verdicts)):
        for row in rows.to_dict("records"):
            told = [row[c] for c in names if c != "arm" or not control]
            start = ", ".join([*(["A/A control"] if control else []), *map(str, told)])
            words.append(f"{start}{': ' if start else ''}{sentence(row)}")
    return words


FEW = 4  # comparisons that a caption tells one by one


def finding(verdicts) -> str:
    """`findings` as one paragraph, for a caption; of more than a few comparisons only who got
    which verdict, and of the commonest verdict only how many did: the numbers stand in the figure
    and in the data behind it."""
    if len(verdicts) <= FEW:
        return " ".join(findings(verdicts))
    said = []
    for metric, rows in verdicts.groupby("metric", sort=False):
        alike = rows["threads"].nunique() == 1 and not is_joint(rows).any()
        where = f" {threads_label(rows['threads'].iloc[0])}" if alike else ""
        parts, rest = [], ""
        for word in ("slower", "faster", "same", "cannot tell"):
            chosen = rows[rows["verdict"].eq(word)]
            if len(chosen) > max(FEW, len(rows) / 2):
                who = "all" if len(chosen) == len(rows) else "the other"
                rest = f"{word[0].upper()}{word[1:]}: {who} {len(chosen)}."
            elif len(chosen):
                who = "; ".join(_places(chosen, verdicts, alike))
                parts.append(f"{word[0].upper()}{word[1:]}: {who}.")
        least, most = int(rows["n_arm"].min()), int(rows["n_arm"].max())
        n = f"{least} to {most}" if least < most else str(most)
        n += f" {unit(rows.iloc[0].to_dict(), most)}"
        if bare := int(rows["lo_pct"].isna().sum()):
            n += f", for {bare} of the {len(rows)} too few for an interval"
        said.append(
            f"{metric_label(metric)}{where}. {' '.join([*parts, rest]).strip()} Each from {n}."
        )
    return " ".join(said)


def _places(rows, among, alike) -> list[str]:
    """What the rows compare, in as few words as tell them apart `among` all; thread counts are
    left out where they are `alike`."""
    own = among[~is_control(among)]
    names = [c for c in ("workload", "arm") if c in own and own[c].astype(str).nunique() > 1]
    places: dict[str, list[str]] = {}
    for row, control in zip(rows.to_dict("records"), is_control(rows), strict=True):
        told = [str(row[c]) for c in names if c != "arm" or not control]
        place = ", ".join([*(["A/A control"] if control else []), *told])
        count = "all" if joint(row) else str(row["threads"])
        places.setdefault(place, []).append(count)
    if alike:
        return list(places)
    return [
        f"{p}{' at ' if p else ''}{', '.join(counts)} thread{'s' * (counts != ['1'])}"
        for p, counts in places.items()
    ]


def headline(row) -> str:
    """One row as a plain statement about the arm, for the top of a page."""
    row = dict(row)
    arm, base = row["arm"], row["baseline"]
    where = threads_label(row["threads"], joint(row))
    what = f"{metric_label(row['metric'])}{f' {where}' if where else ''}"
    size = f"{percent(row['overhead_pct'])} overhead"
    if known(row.get("lo_pct")):
        size += f" ({interval(row['lo_pct'], row['hi_pct'])})"
    worse, better = _WORDS.get(row["metric"], ("is slower than", "is faster than"))
    claim = {
        "slower": f"{arm} {worse} {base}.",
        "faster": f"{arm} {better} {base}.",
        "same": f"{arm} or {base} makes no difference that matters.",
    }.get(row["verdict"], f"Cannot tell whether {arm} {worse} {base}.")
    return f"{claim[0].upper()}{claim[1:]} {what}: {size}."


def primary(verdicts, choice=None):
    """The row a page is about. `choice`: a row, an index label, a dict of column values, or a
    metric name; by default TPS (else the first metric), joint over thread counts where there is
    such a row, else the highest thread count; never the A/A control. Of an arm or a workload that
    the budget bought no pair of, a row of what was measured instead, with a warning that says so."""
    frame = verdicts[~is_control(verdicts)]
    missing = []
    if isinstance(choice, pd.Series):
        return choice
    if isinstance(choice, int):
        return verdicts.loc[choice]
    wanted = choice if isinstance(choice, dict) else {"metric": choice} if choice else {}
    for column, value in wanted.items():
        found = frame[frame[column].astype(object).eq(value)]
        if found.empty and column in ("arm", "workload") and len(frame):
            missing.append(f"no whole pair of {value} was measured: this is about another {column}")
        else:
            frame = found
    if frame.empty:
        raise ReportError(f"no comparison in the verdict table matches {wanted or 'anything'}")
    if "metric" not in wanted:
        names = set(frame["metric"])
        frame = frame[frame["metric"].eq("tps" if "tps" in names else frame["metric"].iloc[0])]
    if "workload" in frame:
        frame = frame[frame["workload"].astype(str).eq(str(frame["workload"].iloc[0]))]
    joint = frame[is_joint(frame)]
    row = (
        joint.iloc[0] if len(joint) else frame.sort_values("threads", na_position="first").iloc[-1]
    )
    if missing:
        row = row.copy()
        row["warnings"] = [*missing, *as_list(row.get("warnings"))]
    return row


def as_list(value) -> list:
    """A cell of warnings as a list, whether it holds a list, one sentence or nothing."""
    return list(value) if isinstance(value, (list, tuple)) else [value] if value else []


def known(value) -> bool:
    """Whether a cell of a verdict table holds something."""
    return value is not None and (isinstance(value, str) or not pd.isna(value))


def joint(row) -> bool:
    """Whether a row is the joint effect over thread counts."""
    return known(row.get("joint")) and bool(row["joint"])


def _floor(row) -> str:
    if not known(row.get("noise_floor_pct")):
        return ""
    n = row.get("n_arm")
    runs = f"these {int(n)} {unit(row)}" if known(n) else "what was measured"
    return f"with {runs}, less than {percent(row['noise_floor_pct'], sign=False)} is noise"


def unit(row, n=2) -> str:
    """What `n` and `runs_needed` of a row count, in the singular for one."""
    pairs = row.get("design") in ("switched", "side by side", "duet")
    return f"{'pair' if pairs else 'run'}{'' if n == 1 else 's'}{'' if pairs else ' an arm'}"


def settle(row) -> str:
    """What would settle a row that cannot tell, as a clause."""
    plan = plan_text(row)
    if row.get("verdict") != "cannot tell" or plan:
        return f"about {plan} would settle it" if plan else ""
    if known(row.get("deciding_cv_pct")):
        cv = percent(row["deciding_cv_pct"], 2, sign=False)
        return f"a run-to-run scatter (CV) below {cv} would make the difference real"
    return "no plan within reach would settle it"


def plan_text(row) -> str:
    """`48 pairs, 7 min`: what would settle a row that cannot tell."""
    parts = []
    if row.get("verdict") == "cannot tell":
        runs, minutes = row.get("runs_needed"), row.get("minutes_needed")
        if known(runs) and math.isfinite(runs):
            parts.append(f"{int(runs):,} {unit(row, int(runs))}")
        if known(minutes) and math.isfinite(minutes):
            parts.append(_minutes(minutes))
    return ", ".join(parts)


def _minutes(value) -> str:
    if value < 2:
        return f"{60 * value:.0f} s"
    if value < 10:
        return f"{value:.1f} min"
    return f"{value:.0f} min" if value < 180 else f"{value / 60:,.0f} h"


def campaign_facts(what) -> dict:
    """campaign.json as a dict, from a folder, a campaign's name, or such a dict (or nothing)."""
    if isinstance(what, str) and what:
        what = paths.campaign(what)
    if isinstance(what, Path):
        facts = json.loads((what / "campaign.json").read_text())
        return {"campaign": what.name, "raw_files": paths.shown(what), **facts}
    return dict(what or {})


def when(campaign) -> str:
    """Date and minute of a campaign."""
    for key in ("date", "finished", "ended", "created", "started"):
        if campaign.get(key):
            return str(campaign[key])[:16].replace("T", " ").removesuffix(" 00:00")
    return ""


def machine(campaign) -> str:
    """The machine of a campaign in a few words; never its host name."""
    host = campaign.get("host") or {}
    if isinstance(host, str):
        return host
    memory = host.get("memory_B")
    memory = f"{memory / 2**30:.0f} GiB" if memory else ""
    cores = f"{host['cores']} cores" if host.get("cores") else ""
    parts = [host.get("cpu"), cores, memory, host.get("system") or host.get("os")]
    return ", ".join(str(p) for p in parts if p)


def engine(campaign) -> str:
    """The server of a campaign, `MySQL 9.7.4`."""
    several = {e["label"] for e in campaign.get("engines", {}).values()}
    if len(several) > 1:
        return " and ".join(sorted(several))
    what = campaign.get("engine") or ""
    if isinstance(what, dict):
        kind = {"mysql": "MySQL", "mariadb": "MariaDB"}.get(what.get("kind"), what.get("kind", ""))
        return what.get("label") or f"{kind} {what.get('version', '')}".strip()
    return str(what)
