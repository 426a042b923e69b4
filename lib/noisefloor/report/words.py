"""Words from a verdict table: every finding on a page is made here, none is written by hand."""

import json
import math
from pathlib import Path

import pandas as pd

from .. import amounts, paths
from ..plots import as_list, contended, is_control, is_joint, metric_label, threads_label
from ..schedule import CONTENDED, NOT_JUDGED
from ..stats.runs import OPPOSITE

MARGIN = 2.0  # percent, where a table does not say
UNDECIDED = "cannot tell"
_COSTS = {  # what a metric is a measure of, where it leads a page
    **dict.fromkeys(("cpu_per_transaction", "cpu_per_connection", "user_sys"), "Processor time"),
    **dict.fromkeys(("tps", "connections_per_second"), "Throughput"),
}
_WORDS = {  # how a worse or better value is said, by metric; else "slower" and "faster"
    "cpu_per_transaction": ("takes more server CPU than", "takes less server CPU than"),
    "apply_cpu": ("takes more replica CPU than", "takes less replica CPU than"),
    "cpu_per_connection": ("takes more server CPU than", "takes less server CPU than"),
    "user_sys": ("takes more CPU time than", "takes less CPU time than"),
    "binlog_bytes_per_transaction": ("writes more than", "writes less than"),
    "written_bytes_per_transaction": ("writes more than", "writes less than"),
    "read_bytes_per_transaction": ("reads more than", "reads less than"),
    "restart_s": ("answers later after a restart than", "answers sooner after a restart than"),
    "recovery_s": ("answers later after a crash than", "answers sooner after a crash than"),
}


_EFFECTS = {  # what a change costs or brings, where it is said what is done
    **dict.fromkeys(
        ("cpu_per_transaction", "cpu_per_connection", "user_sys"),
        ("costs processor time", "saves processor time"),
    ),
    **dict.fromkeys(("tps", "connections_per_second"), ("costs throughput", "brings throughput")),
    "wall": ("costs time", "saves time"),
}


class ReportError(Exception):
    """A page that cannot be made. One sentence; `code` 2 for a wrong request, else 1."""

    def __init__(self, sentence, code=1):
        super().__init__(sentence)
        self.code = code

    def __reduce__(self):
        return type(self), (str(self), self.code)


def sentence(row, margin_pct=MARGIN) -> str:
    """One row of the verdict table in words: verdict, what is known, overhead, noise floor, what would
    settle it."""
    row = dict(row)
    where = threads_label(row["threads"], joint(row))
    words = f"{metric_label(row['metric'])}{f' {where}' if where else ''}: {row['verdict']}"
    if row["verdict"] == NOT_JUDGED:
        return f"{words}, both servers were loaded at once. Overhead {overhead(row)}."
    more = [overhead(row), _same(row), _floor(row)]
    parts = [
        f"{words}{f' ({limits(row)})' if limits(row) else ''}",
        *reasons(row, margin_pct),
        f"overhead {'; '.join(filter(None, more))}",
        settle(row),
    ]
    return " ".join(f"{upper(part)}." for part in parts if part)


def overhead(row) -> str:
    """A row's overhead with its interval and, where it is not 95 %, the interval's level."""
    if not known(row.get("lo_pct")):
        n = f": {int(row['n_arm'])} {unit(row, row['n_arm'])}" if known(row.get("n_arm")) else ""
        return f"{size(row)} ({amounts.NONE}{n})"
    ends = row["overhead_pct"], row["lo_pct"], row["hi_pct"]
    told = amounts.told(*ends, row["metric"], row.get("level"))
    return told.replace(" (", " under contention (", 1) if contended(row) else told


def size(row) -> str:
    """A row's overhead alone: `+14 %`, `+14 % under contention`."""
    end = " under contention" if contended(row) else ""
    return amounts.overhead(row["overhead_pct"], row["metric"]) + end


def cost(metric) -> str:
    """What a row is about, where it leads a page: `Processor time`."""
    return _COSTS.get(metric, metric_label(metric))


def limits(row) -> str:
    """What a row that cannot tell knows all the same: "at most 4.1 % slower, at most 1.3 % faster"."""
    if row["verdict"] != UNDECIDED:
        return ""
    return amounts.known(row.get("lo_pct"), row.get("hi_pct"), row["metric"])


def reasons(row, margin_pct=MARGIN) -> list[str]:
    """Warnings that belong right beside the verdict: why a row cannot tell although its interval
    excludes zero, lies within the margin, or does not exist; and that a joint effect averages
    opposite ones."""
    notes = _notes(row)
    found = [OPPOSITE] if any(OPPOSITE in w for w in notes) else []
    if row["verdict"] == UNDECIDED and (_decides(row, margin_pct) or not known(row.get("lo_pct"))):
        found += notes[:1]
    return list(dict.fromkeys(found))


def _notes(row) -> list:
    """A row's warnings that are not said with its size."""
    return [w for w in as_list(row.get("warnings")) if w != CONTENDED]


def _decides(row, margin_pct=MARGIN) -> bool:
    """Whether the printed intervals alone would give a word."""
    lo, hi = row.get("lo_pct"), row.get("hi_pct")
    least = -100 * margin_pct / (100 + margin_pct)  # as far below, on the log scale
    inside = [
        known(low) and least < low and high < margin_pct
        for low, high in ((lo, hi), (row.get("same_lo_pct"), row.get("same_hi_pct")))
    ]
    return any(inside) or (known(lo) and (lo > 0 or hi < 0))


def same(row) -> str:
    """The interval of the two one-sided tests, which decides `same`."""
    if row["verdict"] != "same" or not known(row.get("same_lo_pct")):
        return ""
    return amounts.interval(row["same_lo_pct"], row["same_hi_pct"], row["metric"])


def _same(row) -> str:
    return same(row) and f"two one-sided tests at 5 %: {same(row)}"


def upper(text) -> str:
    """The text with a capital letter first."""
    return f"{text[:1].upper()}{text[1:]}"


def findings(verdicts) -> list[str]:
    """The rows of a verdict table in words, one sentence a comparison, controls last; workload and
    arm are named where there are several."""
    own = verdicts[~is_control(verdicts)]
    names = [c for c in ("workload", "arm") if c in own and own[c].astype(str).nunique() > 1]
    margin = verdicts.attrs.get("margin_pct") or MARGIN
    words = []
    for control, rows in verdicts.groupby(is_control(verdicts)):
        for row in rows.to_dict("records"):
            told = [row[c] for c in names if c != "arm" or not control]
            start = ", ".join([*(["A/A control"] if control else []), *map(str, told)])
            words.append(f"{start}{': ' if start else ''}{sentence(row, margin)}")
    return words


FEW = 4  # comparisons that a caption tells one by one


def finding(verdicts) -> str:
    """`findings` as one paragraph, for a caption; of more than a few comparisons only who got
    which verdict, and of the commonest verdict only how many did. The numbers are in the figure and
    in the data behind it."""
    if len(verdicts) <= FEW:
        return " ".join(findings(verdicts))
    said = []
    for metric, rows in verdicts.groupby("metric", sort=False):
        alike = rows["threads"].nunique() == 1 and not is_joint(rows).any()
        where = f" {threads_label(rows['threads'].iloc[0])}" if alike else ""
        parts, rest = [], ""
        for word in ("slower", "faster", "same", UNDECIDED, NOT_JUDGED):
            chosen = rows[rows["verdict"].eq(word)]
            if len(chosen) > max(FEW, len(rows) / 2):
                who = f"{'all' if len(chosen) == len(rows) else 'the other'} {len(chosen)}"
                rest = f"{upper(word)}: {who}{_together(chosen)}."
            elif len(chosen):
                who = "; ".join(_places(chosen, verdicts, alike))
                parts.append(f"{upper(word)}: {who}{_together(chosen)}.")
        least, most = int(rows["n_arm"].min()), int(rows["n_arm"].max())
        n = f"{least} to {most}" if least < most else str(most)
        n += f" {unit(rows.iloc[0].to_dict(), most)}"
        if bare := int(rows["lo_pct"].isna().sum()):
            n += f", for {bare} of the {len(rows)} too few for an interval"
        said.append(
            f"{metric_label(metric)}{where}. {' '.join([*parts, rest]).strip()} Each from {n}."
        )
    return " ".join(said)


def _together(rows) -> str:
    """What rows that cannot tell know together, and why some have no word although their intervals
    exclude zero."""
    rows = rows[rows["verdict"].eq(UNDECIDED) & rows["lo_pct"].notna()].to_dict("records")
    if not rows:
        return ""
    ends = min(r["lo_pct"] for r in rows), max(r["hi_pct"] for r in rows)
    why = [w for r in rows if _decides(r) for w in _notes(r)[:1]]
    apart = f"; {len(why)} only for this reason: {'; '.join(dict.fromkeys(why))}" if why else ""
    return f" ({amounts.known(*ends, rows[0]['metric'])}{apart})"


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


def headline(row, margin_pct=MARGIN) -> str:
    """One row as a plain statement about the arm, for the top of a page."""
    row = dict(row)
    arm, base = row["arm"], row["baseline"]
    where = threads_label(row["threads"], joint(row))
    what = f"{metric_label(row['metric'])}{f' {where}' if where else ''}"
    worse, better = _WORDS.get(row["metric"], ("is slower than", "is faster than"))
    if row["verdict"] == NOT_JUDGED:
        return (
            f"{cost(row['metric'])} beside it, with both servers loaded at once: {overhead(row)}, "
            f"{NOT_JUDGED}."
        )
    claims = {
        "slower": f"{arm} {worse} {base}",
        "faster": f"{arm} {better} {base}",
        "same": f"{arm} or {base} makes no difference that matters",
    }
    if row["metric"] in _EFFECTS and (does := row.get("does")):  # as a DBA would say it
        claims = dict(zip(claims, (f"{does} {e}" for e in _EFFECTS[row["metric"]]), strict=False))
        what_of = claims["slower"].rpartition(" costs ")[2]
        claims["same"] = f"{does} makes no difference to {what_of} that matters"
    claim = claims.get(row["verdict"])
    if not claim:
        claim, said = f"cannot tell whether {claims['slower']}", limits(row)
        although = ", although the interval says " if said.startswith("between") else ": "
        claim += f"{although}{said}" if said else ""
    ends = "; ".join(filter(None, [overhead(row), _same(row)]))
    parts = [claim, *reasons(row, margin_pct), f"{what}: {ends}"]
    return " ".join(f"{upper(part)}." for part in parts)


def leading(verdicts, choice=None) -> list:
    """The rows that a page leads with: `choice` as `primary` takes it, or a list of such."""
    return [primary(verdicts, c) for c in (choice if isinstance(choice, list) else [choice])]


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
        row["warnings"] = [*as_list(row.get("warnings")), *missing]
    return row


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
    return f"with {runs}, less than {amounts.size(row['noise_floor_pct'])} is noise"


def unit(row, n=2) -> str:
    """What `n` and `runs_needed` of a row count, in the singular for one."""
    pairs = row.get("design") in ("switched", "side by side", "duet", "pairs", "unknown")
    return f"{'pair' if pairs else 'run'}{'' if n == 1 else 's'}{'' if pairs else ' an arm'}"


def measured(row) -> str:
    """`12 blocks, 48 pairs`: what a row rests on."""
    if not known(row.get("n_arm")):
        return ""
    blocks, n = row.get("blocks"), f"{int(row['n_arm']):,} {unit(row, row['n_arm'])}"
    return f"{int(blocks)} blocks, {n}" if known(blocks) and blocks > 1 else n


def settle(row) -> str:
    """What would settle a row that cannot tell, as a clause."""
    if row.get("verdict") != UNDECIDED:
        return ""
    if plan := plan_text(row):
        return f"about {plan} would settle it"
    if joint(row):
        return "see the thread counts for what would settle it"
    if known(row.get("deciding_cv_pct")) and not _decides(row):
        cv = amounts.percent(row["deciding_cv_pct"], 2, sign=False)
        return f"significant only if run-to-run CV is below {cv}"
    return "more runs of this kind will not settle it"


def plan_text(row) -> str:
    """`48 pairs, 7 min`: what would settle a row that cannot tell."""
    parts = []
    if row.get("verdict") == UNDECIDED:
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
        return str(what.get("label") or f"{kind} {what.get('version', '')}".strip())
    return str(what)
