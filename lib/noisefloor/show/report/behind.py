"""What stands behind the answers of a study's page: the change in units, how it was measured, what it
depends on, all comparisons, the settings of the arms, and proofs and runs, folded."""

import math
import re

import numpy as np
import pandas as pd

from noisefloor import stats, studies
from noisefloor.data.results import PROCESSOR, THROUGHPUT
from noisefloor.model import METRICS
from noisefloor.show.markup import TOLD, Shown, cell, known, piece, say
from noisefloor.show.report import statement, words
from noisefloor.show.report.answers import command
from noisefloor.show.report.pieces import fold, provenance, remark, table, together, verdict_table
from noisefloor.show.rows import SHORT, joint, metric_label
from noisefloor.stats.verdict import CANNOT_TELL, NOT_YET
from noisefloor.text import amounts
from noisefloor.text.amounts import percent

SATURATED = 0.95  # of the highest throughput
_LISTS = TOLD["lists"]
_ENDS = ("change_pct", "lo_pct", "hi_pct")


_SIZES = {"GiB": 1 << 30, "MiB": 1 << 20}  # in which a variable's bytes are told


# -- in words --------------------------------------------------------------------------------------


def paragraph(r, text):
    """A paragraph in which every {variable} stands for the value that was read back from the servers
    (of arms that differ all of them): "hashes it {caching_sha2_password_digest_rounds} times". Such a
    text cannot disagree with its campaign. Raises ReportError for what was not read back."""

    def value(name):
        read = dict.fromkeys(v[name[1]] for v in r.variables.values() if name[1] in v)
        if not read:
            raise words.ReportError(
                f"{name[1]}: no such variable was read back in {r.folder.name}; no text was made"
            )
        return " or ".join(map(_value, read))

    return remark(re.sub(r"\{(\w+)\}", value, text))


def _value(text):
    """A variable's value as a page tells it: 10,000; 1 GiB; ON."""
    if not re.fullmatch(r"\d+", text):
        return text
    unit = next((u for u, size in _SIZES.items() if int(text) and int(text) % size == 0), "")
    return f"{int(text) // _SIZES[unit]:,} {unit}" if unit else f"{int(text):,}"


# -- in units --------------------------------------------------------------------------------------


def absolute(r):
    """What the leading campaign of each question is about, in units: its baseline, and what the
    change makes of it. Those of other questions are folded: never two campaigns in one table."""
    first, *rest = (_units(part) for part in r.parts)
    rest = [table_ for table_ in rest if table_ is not None]
    more = fold(f"In units: {len(rest)} more question{'s' * (len(rest) > 1)}", *rest)
    return together(first, more)


def _units(part):
    """The table of one campaign: a row a metric, thread count and arm. The baseline is that of the
    very pairs that the change is from, and what the change makes of it is computed from both as they
    are printed."""
    work, rows = part.main, []
    alone = part.alone()
    alone = alone[alone["workload"].eq(work) & ~alone["control"] & ~alone["joint"]]
    for metric in _LISTS["absolute"]:
        own, judged = alone[alone["metric"].eq(metric)], part.judged(work, metric)
        both = stats.pairs(judged, baseline=part.study.baseline.name) if len(own) else None
        for row in own.to_dict("records"):
            held = both[both["arm"].eq(row["arm"]) & both["threads"].eq(row["threads"])]
            blocks = stats.units(held).index
            runs = judged[judged["threads"].eq(row["threads"]) & judged["block"].isin(blocks)]
            mine = runs.loc[runs["arm"].eq(row["arm"]), "pair_id"]
            base = runs[runs["arm"].eq(row["baseline"]) & runs["pair_id"].isin(mine)]
            middle = float(f"{base['value'].median() * METRICS[metric].scale:.4g}")
            value, lo, hi = (cell(middle * _times(row[c], metric)) for c in _ENDS)
            rows.append(
                {
                    "metric": f"{metric_label(metric)}, {METRICS[metric].shown_unit}",
                    "threads": row["threads"],
                    "arm": row["arm"],
                    row["baseline"]: cell(middle),
                    "with it": f"{value} ({lo} to {hi})" if known(row["lo_pct"]) else value,
                    "change": words.change(row),
                }
            )
    if not rows:
        return None
    told = say(
        "absolute",
        main=words.upper(work),
        date=words.when(part.meta),
        machine=words.machine(part.meta),
    )
    frame = pd.DataFrame(rows)
    key = part.study.key
    return table(
        frame, told, name=f"absolute-{key}" if key else "absolute", numbers=frame.columns[3:]
    )


def _times(value, metric) -> float:
    """How many times as large a value is after a change, as the change is printed."""
    if not known(value):
        return math.nan
    if amounts.large(value, metric):
        factor = round(amounts.factor(value), 1 if amounts.factor(value) < 19.95 else 0)
        return factor if value > 0 else 1 / factor
    return 1 + round(value, 1) / 100


def expectation(r):
    """What the cipher alone should cost, beside what was measured; nothing where none was timed."""
    found = r.expectation()
    if found.empty:
        return None
    most, row = found["expected_pct"].max(), found.iloc[-1]
    share = " to ".join(dict.fromkeys((percent(found["expected_pct"].min(), 2), percent(most, 2))))
    why = say("cipher", **row, kB=row["bytes"] / 1e3)
    measured = amounts.told(row["change_pct"], row["lo_pct"], row["hi_pct"])
    noisy = row["hi_pct"] > 20 * max(most, 0.05)
    more = "cipher-more" if row["lo_pct"] > most else "cipher-noise" if noisy else ""
    more = say(more) if more else ""
    return Shown(piece("expected", r.study.cipher["name"], share, why, measured, more))


# -- how it was measured -----------------------------------------------------------------------------


def rule(r):
    """How a word is given: the margins of the page's metrics, how many words it prints."""
    judged = r.verdicts[~r.verdicts["control"]]
    margins: dict[float, list[str]] = {}
    for metric, margin in judged.groupby("metric", sort=False)["margin_pct"].first().items():
        margins.setdefault(margin, []).append(SHORT.get(metric, metric_label(metric)))
    told = [
        f"±{margin:g}\u202f% for {', '.join(names)}" for margin, names in sorted(margins.items())
    ]
    n = int((~judged["verdict"].isin((CANNOT_TELL, NOT_YET))).sum())
    facts = {"margins": "; ".join(told), "words": n, "of": len(judged)}
    return remark(say("rule", **facts))


def outcome(r):
    """What the leading campaign of each question declared before it measured, what became of it, and
    what the host took meanwhile."""
    rows = pd.DataFrame([_outcome(part) for part in r.parts])
    machines = [words.machine(p.meta) for p in r.parts]
    if len(set(machines)) > 1:
        rows["machine"] = machines
    return table(rows, say("outcome"), name="outcome")


def _outcome(part) -> dict:
    """The row of one campaign."""
    meta, work = part.meta, part.study.workloads[0]
    plan, metric = meta.get("plan", {}), work.deciding[0]
    rows = part.alone()
    rows = rows[rows["workload"].eq(work.name) & rows["metric"].eq(metric) & ~rows["control"]]
    blocks = int(rows["blocks"].max()) if len(rows) else 0
    declared = plan.get("blocks", blocks)
    measured = f"{part.study.design}, {blocks}{f' of {declared}' if plan else ''} block{'s' * (declared != 1)}"
    if each := plan.get("pairs"):
        measured += f", {each:g} pair{'s' * (each != 1)} each"
    lo, hi = (
        np.log1p(rows.loc[~rows["joint"], c].astype(float) / 100) for c in ("lo_pct", "hi_pct")
    )
    widest = ((hi - lo) / 2).max()
    reached = None if math.isnan(widest) else 100 * math.expm1(widest)
    width = {"expected": plan.get("expected", {}).get(metric), "reached": reached}
    short = SHORT.get(metric, metric_label(metric))
    return {
        "question": part.study.key or part.study.question,
        "measured": measured,
        "half width": f"{short}: {_listed(width, '.1f', ' %')}",
        "minutes": f"{words.minutes(part):.0f} of {part.study.profile.budget_min:.3g} at most",
        "steal": _steal(part),
        "waited": f"{meta['waited_s']:.0f} s" if "waited_s" in meta else "no gate then",
    }


def _steal(part) -> str:
    """`OFF 3.1 %, ON 3.2 %`: the share of the cores that the host took, in the mean of the runs of
    each arm."""
    host = part.meta.get("host")
    cores = (host.get("cores") if isinstance(host, dict) else None) or 1
    taken = part.judged(metric="steal").groupby("arm", sort=False)["value"].mean() / cores
    arms = [a.name for a in part.study.compared if a.name in taken]
    return ", ".join(f"{arm} {100 * taken[arm]:.1f} %" for arm in arms) or "not known"


def _listed(parts, digits, unit="") -> str:
    """`expected 2.1 %, reached 2.4 %`: those that are known."""
    told = (f"{name} {value:{digits}}{unit}" for name, value in parts.items() if value)
    return ", ".join(told) or "not known"


# -- what it depends on ----------------------------------------------------------------------------


def transfers(r, arm=""):
    """What the answer was measured on, processor by processor, and in time of the processor: a table
    of words made from the campaigns' numbers."""
    study, disk = r.study, (r.meta.get("host") or {}).get("disk") or {}
    rates, pool = r.meta.get("cipher_B_per_s"), study.settings.get("innodb_buffer_pool_size")
    facts = {
        "threads": _saturation(r),
        "cipher": study.cipher["name"] if rates else "",
        "rate": sorted(rates)[len(rates) // 2] / 1e6 if rates else 0,
        "data": f"{study.tables} table{'s' * (study.tables > 1)}",
        "rows": study.profile.rows * study.tables,
        "pool": f" The buffer pool has {pool}B." if pool else "",
        "virtual": disk.get("kind") == "virtual",
        "disk": _disk(r.meta.get("disk") or {}),
        "library": r.meta.get("cipher_library") or "of this machine",
        "flags": ", ".join((r.meta.get("host") or {}).get("flags", ())),
        "openssl": "; ".join(
            f"{name}: {built['OpenSSL']}"
            for name, built in r.meta.get("builds", {}).items()
            if built.get("OpenSSL")
        ),
        "keyring": study.keyring,
    }
    leads = r.headlines(arm)
    on: dict[str, list[str]] = {}
    for lead in leads:
        for place, told in statement.on_each(lead, r):
            on.setdefault(place, []).append(f"{words.cost(lead['metric'])}: {told}")
    rows = [(f"on {place}", f"{'; '.join(told)}.") for place, told in on.items()]
    rows += [
        (what, told.format(**facts)) for what, (of, told) in TOLD["transfers"].items() if facts[of]
    ]
    rows += _prices(r, leads)
    frame = pd.DataFrame(rows, columns=["what", "here"])
    return table(frame, "What this was measured on", name="transfers")


def _disk(facts) -> str:
    """What fio found, or why it did not; "" of a campaign that did not ask."""
    return facts.get("skipped") or (say("disk", **facts) if facts else "")


def _saturation(r) -> str:
    """From which thread count on more threads bring hardly more throughput, in words."""
    for rate in THROUGHPUT:
        rows = r.parts[0].judged(r.main, rate)
        if rate == "wall" or rows.empty:
            continue
        middle = rows[rows["arm"] == r.study.baseline.name].groupby("threads")["value"].median()
        full = [str(t) for t in middle.index[middle >= SATURATED * middle.max()]]
        if len(full) > 1:
            return say("saturated", f"{', '.join(full[:-1])} and {full[-1]}")
        return say("growing", *middle.index[-2:]) if len(middle) > 1 else ""
    return ""


def _prices(r, leads) -> list[tuple[str, str]]:
    """What the change costs in time of the processor, on each that it was measured on, and how to
    make one's own percentage of it."""
    lead = next((x for x in leads if x["metric"] in TOLD["prices"]), None)
    found: list[tuple[str, str]] = []
    for row in (x for _, rows in words.placed(lead, r) for x in rows) if lead is not None else ():
        campaigns = words.campaigns(row, r)
        if not campaigns or not known(row["lo_pct"]):
            continue
        base = campaigns[-1].judged(row["workload"], row["metric"])
        base = base[base["arm"].eq(row["baseline"])]
        base = base if joint(row) else base[base["threads"].eq(row["threads"])]
        each, scale, unit = TOLD["prices"][row["metric"]]
        whole = scale * base["value"].median()
        ends = (f"{whole * row[c] / 100:.3g}" for c in _ENDS)
        more, least, most = (f"{'+' * (float(x) > 0)}{cell(float(x))}" for x in ends)
        facts = {"arm": row["arm"], "each": each, "unit": unit, "more": more, "least": least}
        facts |= {"most": most, "whole": cell(float(f"{whole:.3g}")), "place": row["processor"]}
        facts["at"] = f" at {words.counts(row)}" if known(row["threads"]) else ""
        found.append(("the price", say("price", **facts)))
        if len(found) == 1:
            found.append(("your percentage", say("price-yours", **facts)))
    return found[:1] + found[2:] + found[1:2]


# -- all of it ----------------------------------------------------------------------------------------


def comparisons(r):
    """The verdict table: throughput, processor time and what decides; the rest folded."""
    deciding = {m for w in r.study.workloads for m in w.deciding}
    v = r.verdicts
    main = {*PROCESSOR, *THROUGHPUT, *_LISTS["leading"]}
    first = v["metric"].isin(deciding | main) & v["lo_pct"].notna()
    rest, more = v[~first], None
    if len(rest):
        more = fold(
            f"{len(rest)} more: other metrics, and comparisons without an interval",
            verdict_table(rest, name="more-verdicts"),
        )
    return together(verdict_table(v[first], "The verdict table"), more)


def settings(r):
    """The variables that matter and those that were asked for, as read back from the running
    servers: a column an arm."""
    found = {arm: values for p in r.parts for arm, values in p.variables.items()}
    if not found:
        return None
    every = r.study.compared
    wanted = {*_LISTS["settings"], *r.study.settings}
    wanted |= {k for a in every for k in (*a.switch, *a.settings)}
    names = sorted(wanted & set().union(*found.values()))
    frame = pd.DataFrame(
        {a.name: [found[a.name].get(n, "") for n in names] for a in every if a.name in found},
        index=pd.Index(names, name="variable"),
    ).reset_index()
    return table(frame, "Settings in force, read back from the servers", name="settings")


def configured(r):
    """What stands in each arm's my.cnf beside its folders, to be copied; and what is set while it
    runs."""
    blocks = []
    for arm in r.study.compared:
        lines = [f"{k} = {v}" for k, v in (dict(r.study.settings) | dict(arm.settings)).items()]
        lines += [f"# {k}={v} in the environment" for k, v in arm.environment.items()]
        lines += [f"# SET GLOBAL {k} = {v};" for k, v in arm.switch.items()]
        blocks.append((arm.name, "\n".join(["[mysqld]", *lines])))
    return Shown(piece("blocks", blocks))


def _again(r):
    """The command that measures the page's first question again, with its versions and its seed."""
    s, meta = r.parts[0].study, r.meta
    line = command(r, s.key)
    line += f" --seed {meta['seed']}" if s.name in studies.STUDIES else ""
    told = sorted({e["label"] for e in meta.get("engines", {}).values()})
    told.append(f"sysbench {meta.get('tools', {}).get('sysbench', '')}".strip())
    told += [f"Noisefloor at {meta['commit']}"] if meta.get("commit") else []
    return Shown(piece("again", line, ", ".join([*told, f"seed {meta['seed']}"])))


def details(r):
    """Doubts, settings, proofs and runs, each folded; then where the numbers come from."""
    warned, left = len(r.warnings), len(r.skipped)
    return together(
        fold(f"Left out on this machine ({left})", table(r.skipped)) if left else None,
        fold(f"Warnings ({warned})", table(r.warnings)) if warned else None,
        fold("my.cnf of each arm", configured(r)),
        fold("Settings of each arm", settings(r)),
        fold("Every variable that differs between the arms", table(r.differences)),
        fold("Proof that each arm was what it is called", table(r.evidence)),
        fold("What was measured, and why", table(r.workloads)),
        fold(f"Every run ({len(r.runs)})", table(r.runs)),
        _again(r),
        provenance(r),
    )
