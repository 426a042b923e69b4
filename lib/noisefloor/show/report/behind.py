"""What is below the answers on a study's page: the change in units, how it was measured, what it
depends on, all comparisons, the settings of the arms, and, folded, proofs and runs."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from noisefloor import studies
from noisefloor.data import results, tidy
from noisefloor.data.results import PROCESSOR, THROUGHPUT, Results
from noisefloor.model import METRICS, NO_WORD
from noisefloor.show.markup import TOLD, Shown, cell, has_value, piece, say
from noisefloor.show.report import statement, words
from noisefloor.show.report.answers import command
from noisefloor.show.report.pieces import (
    fold,
    html_table,
    joined_shown,
    provenance,
    remark,
    verdict_table,
)
from noisefloor.show.rows import ENDS, Row, arm_label, joint, metric_label
from noisefloor.text import amounts, upper
from noisefloor.text.amounts import percent

_SATURATED = 0.95  # of the highest throughput
_LISTS = TOLD["lists"]


# -- in units --------------------------------------------------------------------------------------


def absolute(r: Results) -> Shown | None:
    """The leading campaign of each question in units: its baseline, and the value after the change. Each
    has a table of its own; those of other questions are folded. None without a row."""
    first, *rest = (_units(r, part) for part in r.parts)
    rest = [table_ for table_ in rest if table_ is not None]
    more = fold(f"In units: {len(rest)} more question{'s' * (len(rest) > 1)}", *rest)
    return joined_shown(first, more)


def _units(r: Results, part: Results) -> Shown | None:
    """The table of one question: a row a metric, thread count and arm. The baseline is the median in
    the leading campaign's pairs; the value after the change of all sittings is computed from both as
    they are printed. None without a row."""
    work, rows = results.main_workload(part), []
    judged = r.of(work, control=False, question=part.study.key)
    judged = judged[~judged["joint"]]
    for metric in _LISTS["absolute"]:
        for row in judged[judged["metric"].eq(metric)].to_dict("records"):
            middle = results.baseline_in_units(part, row)
            value, lo, hi = (cell(middle * amounts.as_written(row[c], metric)) for c in ENDS)
            rows.append(
                {
                    "metric": f"{metric_label(metric)}, {METRICS[metric].shown_unit}",
                    "threads": row["threads"],
                    "arm": row["arm"],
                    row["baseline"]: cell(middle),
                    "with it": amounts.around(value, lo, hi) if has_value(row["lo_pct"]) else value,
                    "change": words.change(row),
                }
            )
    if not rows:
        return None
    caption = say(
        "absolute",
        main=upper(work),
        date=words.when(part.meta),
        on=words.generation(part.processor),
        machine=words.machine(part.meta),
    )
    frame = pd.DataFrame(rows)
    numbers = list(frame.columns[3:])
    if not any(work.threads[0] for work in part.study.workloads):  # nothing counts them
        frame = frame.drop(columns="threads")
    key = part.study.key
    name = f"absolute-{key}" if key else "absolute"
    return html_table(frame, caption, name=name, numbers=numbers)


def expectation(r: Results) -> Shown | None:
    """What the cipher alone should cost, beside what was measured; None where none was timed."""
    expected = results.expectation(r)
    if expected.empty:
        return None
    row: Any = expected.iloc[-1]
    least, most = expected["expected_pct"].min(), expected["expected_pct"].max()
    share = " to ".join(dict.fromkeys((percent(least, 2), percent(most, 2))))
    why = say("cipher", **row, kB=row["bytes"] / 1e3)
    measured = amounts.with_interval(row["change_pct"], row["lo_pct"], row["hi_pct"])
    noisy = row["hi_pct"] > 20 * max(most, 0.05)
    more = "cipher-more" if row["lo_pct"] > most else "cipher-noise" if noisy else ""
    more = say(more) if more else ""
    return Shown(piece("expected", r.study.cipher["name"], share, why, measured, more))


# -- how it was measured -----------------------------------------------------------------------------


def rule(r: Results) -> Shown:
    """A sentence: the rule, the margins of the page's metrics, how many comparisons have a word."""
    judged = r.verdicts[~r.verdicts["control"] & r.verdicts["verdict"].ne("")]
    margins: dict[float, list[str]] = {}
    for metric, margin in judged.groupby("metric", sort=False)["margin_pct"].first().items():
        margins.setdefault(margin, []).append(metric_label(str(metric), True))
    each = [
        f"{amounts.plus_minus(margin)} for {', '.join(names)}"
        for margin, names in sorted(margins.items())
    ]
    n = int((~judged["verdict"].isin(NO_WORD)).sum())
    return remark(say("rule", margins="; ".join(each), words=n, of=len(judged)))


def outcome(r: Results) -> Shown:
    """A table: what the leading campaign of each question declared before it measured, what it reached,
    and how much of the cores the host took meanwhile."""
    rows = pd.DataFrame([_outcome(part) for part in r.parts])
    machines = [words.machine(p.meta) for p in r.parts]
    if len(set(machines)) > 1:
        rows["machine"] = machines
    return html_table(rows, say("outcome"), name="outcome")


def _outcome(part: Results) -> dict[str, Any]:
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
    half = {"expected": plan.get("expected", {}).get(metric), "reached": reached}
    known = [f"{name} {width:.1f} %" for name, width in half.items() if width]
    return {
        "question": part.study.key or part.study.question,
        "measured": measured,
        "half width": f"{metric_label(metric, True)}: {', '.join(known) or 'not known'}",
        "minutes": f"{words.minutes(part):.0f}; measuring {meta.get('spent_s', 0) / 60:.3g} of"
        f" {part.study.profile.budget_min:.3g} at most",
        "steal": _steal(part),
        "waited": f"{meta['waited_s']:.0f} s" if "waited_s" in meta else "no gate then",
    }


def _steal(part: Results) -> str:
    """`OFF 3.1 %, ON 3.2 %`: the share of the cores that the host took, averaged over the runs of
    each arm."""
    host = part.meta.get("host")
    cores = (host.get("cores") if isinstance(host, dict) else None) or 1
    taken = part.judged(metric="steal").groupby("arm", sort=False)["value"].mean() / cores
    arms = [a.name for a in part.study.compared if a.name in taken]
    return ", ".join(f"{arm} {100 * taken[arm]:.1f} %" for arm in arms) or "not known"


# -- what it depends on ----------------------------------------------------------------------------


def transfers(r: Results) -> Shown:
    """A table in words of what the answer depends on: each processor, load, cipher, data and disk, and
    its price in processor time."""
    study, disk = r.study, (r.meta.get("host") or {}).get("disk") or {}
    fio = r.meta.get("disk") or {}
    rates, pool = r.meta.get("cipher_B_per_s"), study.settings.get("innodb_buffer_pool_size")
    facts = {
        "threads": _saturation(r),
        "cipher": study.cipher["name"] if rates else "",
        "rate": sorted(rates)[len(rates) // 2] / 1e6 if rates else 0,
        "data": f"{study.tables} table{'s' * (study.tables > 1)}",
        "rows": study.profile.rows * study.tables,
        "pool": f" The buffer pool has {pool}B." if pool else "",
        "virtual": disk.get("kind") == "virtual",
        "disk": fio.get("skipped") or (say("disk", **fio) if fio else ""),
        "library": r.meta.get("cipher_library") or "of this machine",
        "flags": ", ".join((r.meta.get("host") or {}).get("flags", ())),
        "openssl": "; ".join(
            f"{name}: {built['OpenSSL']}"
            for name, built in r.meta.get("builds", {}).items()
            if built.get("OpenSSL")
        ),
        "keyring": study.keyring,
    }
    leads = results.headlines(r)
    on: dict[str, list[str]] = {}
    for lead in leads:
        for place, clause in statement.on_each(lead, r):
            on.setdefault(place, []).append(f"{words.cost(lead['metric'])}: {clause}")
    rows = [(f"on {place}", f"{'; '.join(clauses)}.") for place, clauses in on.items()]
    rows += [
        (what, text.format(**facts)) for what, (of, text) in TOLD["transfers"].items() if facts[of]
    ]
    rows += _prices(r, leads)
    frame = pd.DataFrame(rows, columns=["what", "here"])
    return html_table(frame, "What this was measured on", name="transfers")


def _saturation(r: Results) -> str:
    """A sentence: which thread counts reach the same throughput, or that it still grows; else ""."""
    for rate in THROUGHPUT:
        rows = r.parts[0].judged(results.main_workload(r), rate)
        if rate == "wall" or rows.empty:
            continue
        rows = rows[rows["arm"] == r.study.baseline.name]
        middle = rows.groupby("threads")["value"].median()
        full = [str(t) for t in middle.index[middle >= _SATURATED * middle.max()]]
        if len(full) > 1:
            return say("saturated", f"{', '.join(full[:-1])} and {full[-1]}")
        return say("growing", *middle.index[-2:]) if len(middle) > 1 else ""
    return ""


def _prices(r: Results, leads: Sequence[Row]) -> list[tuple[str, str]]:
    """[(heading, sentence)]: what the change costs in processor time, on each processor where it was
    measured, and how readers compute their own percentage from it."""
    lead = next((x for x in leads if x["metric"] in TOLD["prices"]), None)
    prices: list[tuple[str, str]] = []
    placed = [] if lead is None else words.placed(lead, r)
    for row in (x for _, rows in placed for x in rows):
        campaigns = words.campaigns_behind(row, r)
        if not campaigns or not has_value(row["lo_pct"]):
            continue
        base = campaigns[-1].judged(row["workload"], row["metric"])
        base = base[base["arm"].eq(row["baseline"])]
        each, scale, unit = TOLD["prices"][row["metric"]]
        shown = scale / METRICS[row["metric"]].scale  # of the unit of the tables
        middle = results.baseline_in_units(campaigns[-1], row)
        whole = scale * base["value"].median() if joint(row) else shown * middle
        ends = (f"{whole * (amounts.as_written(row[c], row['metric']) - 1):.3g}" for c in ENDS)
        more, least, most = (f"{'+' * (float(x) > 0)}{cell(float(x))}" for x in ends)
        facts = {"arm": row["arm"], "each": each, "unit": unit, "more": more, "least": least}
        facts |= {"most": most, "whole": cell(float(f"{whole:.4g}")), "place": row["processor"]}
        facts["at"] = f" at {words.counts(row)}" if has_value(row["threads"]) else ""
        prices.append(("the price", say("price", **facts)))
        if len(prices) == 1:
            prices.append(("your percentage", say("price-yours", **facts)))
    return prices[:1] + prices[2:] + prices[1:2]


# -- all of it ----------------------------------------------------------------------------------------


def comparisons(r: Results) -> Shown | None:
    """The verdict table: throughput, processor time and deciding metrics; the rest folded."""
    deciding = {m for w in r.study.workloads for m in w.deciding}
    verdicts = r.verdicts
    main = {*PROCESSOR, *THROUGHPUT, *_LISTS["leading"]}
    first = verdicts["metric"].isin(deciding | main) & verdicts["lo_pct"].notna()
    rest, more = verdicts[~first], None
    if len(rest):
        more = fold(
            f"{len(rest)} more: other metrics, and comparisons without an interval",
            verdict_table(rest, name="more-verdicts"),
        )
    return joined_shown(verdict_table(verdicts[first], "The verdict table"), more)


def settings(r: Results) -> Shown | None:
    """The variables that matter and those that were asked for, as read back from the running
    servers: a column an arm, as its first question had it. None where nothing was read back."""
    by_arm = {
        a: of_arm for p in reversed(r.parts) for a, of_arm in tidy.variables(p.opened).items()
    }
    if not by_arm:
        return None
    every = r.study.compared
    wanted = {*_LISTS["settings"], *r.study.settings}
    wanted |= {k for a in every for k in (*a.switch, *a.settings)}
    names = sorted(wanted & set().union(*by_arm.values()))
    frame = pd.DataFrame(
        {a.name: [by_arm[a.name].get(n, "") for n in names] for a in every if a.name in by_arm},
        index=pd.Index(names, name="variable"),
    ).reset_index()
    return html_table(frame, "Settings in force, read back from the servers", name="settings")


def _configured(r: Results) -> Shown:
    """The my.cnf of each arm without its folders, to be copied; as comments what is set at run time, in
    the environment, or for another question."""
    blocks, every = [], [work for part in r.parts for work in part.study.workloads]
    under: dict[str, list[str]] = {}  # what is set -> the workloads that it is set for
    for work in every:
        for k, v in work.settings.items():
            under.setdefault(f"SET GLOBAL {k} = {v};", []).append(work.name)
    sets = [
        f"# {line}" if len(names) == len(every) else f"# {', '.join(dict.fromkeys(names))}: {line}"
        for line, names in under.items()
    ]
    for arm in r.study.compared:
        options = dict(r.study.settings) | dict(arm.settings)
        lines = [f"{k} = {v}" for k, v in options.items()]
        lines += [f"# {k}={v} in the environment" for k, v in arm.environment.items()]
        lines += [f"# SET GLOBAL {k} = {v};" for k, v in arm.switch.items()]
        lines += sets
        lines += dict.fromkeys(
            f"# {part.study.key}: {k} = {v}"
            for part in r.parts
            for k, v in part.study.settings.items()
            if options.get(k) != v and k not in arm.settings
        )
        blocks.append((arm_label(arm.name), "\n".join(["[mysqld]", *lines])))
    return Shown(piece("blocks", blocks))


def _again(r: Results) -> Shown:
    """The command that measures the page's first question again, with its versions and its seed."""
    study, meta = r.parts[0].study, r.meta
    line = command(r, study.key)
    seeded = study.name in studies.STUDIES or "commands" in meta.get("parameters", {})
    line += f" --seed {meta['seed']}" if seeded else ""
    versions = sorted({e["label"] for e in meta.get("engines", {}).values()})
    if meta.get("engine"):
        versions.append(f"sysbench {meta.get('tools', {}).get('sysbench', '')}".strip())
    versions += [f"Noisefloor at {meta['commit']}"] if meta.get("commit") else []
    return Shown(piece("again", line, ", ".join([*versions, f"seed {meta['seed']}"])))


def _folded(title: str, frame: pd.DataFrame, name: str) -> Shown | None:
    """A table behind a title, which is its caption, too."""
    return fold(title, html_table(frame, title, name=name))


def details(r: Results) -> Shown | None:
    """Doubts, settings, proofs and runs, each folded; then where the numbers come from."""
    doubts = (
        ("Left out on this machine", results.skipped(r), "left-out"),
        ("Warnings", results.warnings(r), "warnings"),
    )
    shown = [_folded(f"{title} ({len(of)})", of, name) for title, of, name in doubts if len(of)]
    if r.meta.get("engine"):
        shown += [
            fold("my.cnf of each arm", _configured(r)),
            fold("Settings of each arm", settings(r)),
            _folded(
                "Every variable that differs between the arms", results.differences(r), "variables"
            ),
            _folded("Proof that each arm was what it is called", results.evidence(r), "proofs"),
        ]
    return joined_shown(
        *shown,
        _folded("What was measured, and why", results.workloads(r), "workloads"),
        _folded(f"Every run ({len(r.runs)})", r.runs, "runs"),
        _again(r),
        provenance(r),
    )
