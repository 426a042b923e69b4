"""Published claims: the facts of ``data/raw/published``, the claims about them, and what pages show of
both.

Every source is judged by its own controls where it has any: the in-memory table of the tablespace
document, the two names of one cipher in the backup document, the repetitions of STAR. For single
numbers without a control it is predicted what such runs may differ by, as `noisefloor judge` does.
"""

import itertools
import math
import os
import tomllib
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd

from noisefloor import paths
from noisefloor.claims.judged import COLUMNS as COLUMNS
from noisefloor.claims.judged import FACTS as FACTS
from noisefloor.claims.judged import (
    SOURCES,
    TITLES,
    by_threads,
    facts,
    judge,
    of,
    stated,
    times,
    trend,
)
from noisefloor.show import report
from noisefloor.show.markup import Shown, joined, piece
from noisefloor.show.report import words
from noisefloor.show.rows import is_control, is_joint, threads_label
from noisefloor.stats import agree
from noisefloor.stats.verdict import CANNOT_TELL, NOT_YET, SAME, differs, kind
from noisefloor.text import amounts, answers


def headline(verdicts):
    """How many comparisons have which verdict, and how large they are, in one sentence. Raises
    paths.NotFound."""
    if verdicts.empty:
        raise paths.NotFound(f"no published numbers are in {paths.shown(paths.published())}")
    kinds = verdicts.apply(lambda r: kind(r["verdict"], r["metric"]), axis=1)
    ordered = [s for s in pd.unique(verdicts["study"]) if _falls_or_rises(s)]
    steps = kinds.eq(CANNOT_TELL) & verdicts["study"].isin(ordered)
    kinds[steps] = "steps"
    counts = Counter(kinds)
    by = {k: _factors(verdicts.loc[kinds.eq(k), "change_pct"]) for k in counts}
    told = {k: f"{counts[k]}{by.get(k, '')}" for k in ("worse", "better", SAME, CANNOT_TELL)}
    more = f"; {counts['steps']} more are steps of an order that is no chance" if any(steps) else ""
    return (
        f"{len(verdicts)} comparisons from {verdicts['study'].nunique()} published sources: changes "
        f"for the worse {told['worse']}, for the better {told['better']}, too small to matter "
        f"{counts[SAME]}, and {told[CANNOT_TELL]} of which nobody can tell whether they are "
        f"noise{more}."
    )


def _falls_or_rises(source):
    """Whether the arms of a source stand in an order that is no chance."""
    found, _ = trend(facts(), source)
    return found is not None and found.decided


def _factors(changes):
    """From how small to how large changes of any metric are, in one unit: ` (1.05 to 4.7 times)`."""
    sizes = sorted(map(amounts.factor, changes.dropna().astype(float)))
    ends = dict.fromkeys(f"{v:.3g}" for v in sizes[:: max(1, len(sizes) - 1)])
    return f" ({' to '.join(ends)} times)" if ends else ""


def box(verdicts):
    """The box at the top of the page: the headline and the findings."""
    share = f"{(verdicts['verdict'] == CANNOT_TELL).sum()} of {len(verdicts)}"
    said = headline(verdicts)
    inner = joined((piece("counted", CANNOT_TELL, share), piece("headline", said)))
    return Shown(piece("box", "nf-cannot-tell", inner, (), findings(verdicts)), said)


def findings(verdicts):
    """The answers that readers ask for, one sentence each, from the verdict table."""
    v = verdicts.set_index(["study", "label"])

    def row(study, label):
        return v.loc[(f"{study}-encryption", label)]

    def said(r):
        return f"{r['verdict']}, {words.effect(r)}"

    tps, mid = row("binlog", "TPS"), row("tablespace", "32 threads")
    low, high = (row("tablespace", f"{t} threads together") for t in ("1 to 16", "64 to 2048"))
    backup, restore = (
        "; ".join(
            f"{t} {said(row('backup', f'{phase} with aes-128-cbc, {t}'))}"
            for t in ("time", "CPU time")
        )
        for phase in ("backup", "restore")
    )
    again = answers.restarted(high)
    again = again and f"; {again}, if the server was restarted between the runs"
    return [
        f"221.19 TPS without and 229.41 with binary log encryption: {said(tps)}. "
        f"{answers.by_chance(tps)} QPS and mean latency are the same measurement, the 15.5 % in "
        "maximum latency is no evidence.",
        f"Tablespace encryption with heavy reads, 1 to 16 threads: {said(low)}. At 32 threads: "
        f"{said(mid)}. From 64 threads on: {said(high)}{again}.",
        f"A backup through aes-128-cbc: {backup}. The restore: {restore}. The document does not mention "
        "CPU time.",
        f"Point queries of five versions: {trend(facts(), 'mdcallag-versions')[1]}.",
    ]


def here(r):
    """The claims of a study's source, judged by the margins of opened campaigns."""
    judged = judge(facts(), times(), r.study.margin_pct)
    return judged[judged["study"].eq(r.study.name)]


def stands(r, label, *, arm="", question="", claimed=None):
    """Whether a claim of a study's source agrees with opened campaigns, processor by processor, in
    words, by the rule of `stats.agree`; "" where nothing comparable was measured. Its number is held
    against the range in which the next campaign is to be expected, where that is known, else against
    the interval; that there is no difference agrees where our word names none.

    label: of the claim; arm: where it is looked for, by default the first; question: that answers
    it, by default the headline's; claimed: in percent, where the source prints none."""
    theirs = here(r)
    theirs = theirs[theirs["label"].eq(label)]
    part = r.capacity
    asked = ("", question) if question else (part.main, part.study.key)
    rows = r.of(asked[0], control=False, question=asked[1])
    rows = rows[rows["metric"].isin(theirs["metric"]) & (rows["arm"].eq(arm) | (not arm))]
    rows = rows[rows["lo_pct"].notna()]
    if theirs.empty or rows.empty:
        return ""
    source = theirs.iloc[0].to_dict()
    rows, seen = _about(source, rows, r)
    if rows.empty:
        return ""
    if claimed is None:
        claimed = source["claimed_pct"] if pd.notna(source["claimed_pct"]) else source["change_pct"]
    limits = {"most": source["limit"] == "most", "least": source["limit"] == "least"}
    found = {}
    for processor, measured in words.placed(rows.iloc[0], seen):
        alike = {}
        for row in (row for row in measured if pd.notna(row["lo_pct"])):
            alike.setdefault(_agrees(row, source, claimed, limits), []).append(row)
        for word, part in alike.items():
            at = _at(part) if len(measured) > 1 else ""
            where = "".join(f" {w}" for w in (at, processor and f"on {processor}") if w)
            found.setdefault(word, []).append(_measured(part, where))
    told = (f"{word}: {'; '.join(parts)}." for word, parts in found.items())
    unit = _unit(claimed, source["metric"], limits)
    return " ".join([f"The source says: {source['said']} ({label}; {unit}).", *told])


def _about(source, rows, r):
    """(rows, what holds all rows) of the thread counts that a claim is about."""
    each = rows[~is_joint(rows)]
    if pd.isna(source["from_threads"]) or each.empty:
        return rows, r
    low, high = source["from_threads"], source["to_threads"]
    every = r.verdicts[~is_joint(r.verdicts)]
    there = every[every["threads"].between(low, high).fillna(False)]
    return each[each["threads"].between(low, high)], SimpleNamespace(verdicts=there)


def _unit(claimed, metric, limits):
    """A claimed change in the unit of ours: `that is -9.0 to 0.0 %`."""
    if not claimed:
        return "that is no change"
    low, high = agree.claimed(claimed, **limits)
    if limits["least"]:
        return f"that is {amounts.change(claimed, metric)} or more"
    return f"that is {amounts.spread(low, high, metric)}"


def _at(part):
    """`at 1, 4, 16 threads`"""
    counts = ", ".join(str(row["threads"]) for row in part)
    return threads_label(part[0]["threads"]) if len(part) == 1 else f"at {counts} threads"


def _measured(part, where):
    """The change of rows of thread counts, of one with the range of the next campaign; without a
    word yet, why."""
    first, *others = sorted(part, key=lambda row: row["change_pct"])
    if others:
        told = amounts.spread(first["change_pct"], others[-1]["change_pct"], first["metric"])
    else:
        told = words.effect(first)
        if pd.notna(first["next_lo_pct"]):
            ends = first["next_lo_pct"], first["next_hi_pct"], first["metric"]
            told = f"{told.removesuffix(')')}; next campaign {amounts.interval(*ends)})"
    return f"{told}{where}" + f", {words.word(first)}" * (first["verdict"] == NOT_YET)


def _agrees(row, source, claimed, limits):
    """What a row says of a claimed change in percent."""
    if source["not_comparable"]:
        return f"Not comparable ({source['not_comparable']}); measured here"
    if row["verdict"] == NOT_YET:
        return "Measured here"
    ours = row["lo_pct"], row["hi_pct"]
    if pd.notna(row["next_lo_pct"]):
        ours = row["next_lo_pct"], row["next_hi_pct"]
    word = agree.word(agree.claimed(claimed, **limits), ours)
    if not claimed:  # our own word says whether there is a difference
        word = agree.DISAGREES if differs(row["verdict"]) else agree.AGREES
    return f"{word.capitalize()} with what was measured here"


def shown(verdicts, source):
    """The claims of one source as a table for reading, with the reasons below it."""
    kept = verdicts[verdicts["study"] == source]

    rows = [
        {
            "compared": r["label"],
            "they say": r["said"],
            **_sizes(r),
            "verdict": report.badge(r["verdict"]),
            "their claim": _itself(r),
            "by chance": answers.often(r["chance"]) if r["chance"] < 1 else "–",
            "to settle it": r["settle"] if r["settle"][:1].isdigit() else "–",
        }
        for r in kept.to_dict("records")
    ]
    scatter = "; ".join(dict.fromkeys("; ".join(kept["scatter_from"]).split("; ")))
    caption = f"{TITLES[source]}. Scatter from: {scatter}. {_level(kept)}"
    right = ("that is", "change", "interval")
    name, frame = f"claims-{source}", pd.DataFrame(rows)
    if not kept["chance"].lt(1).any():
        frame = frame.drop(columns="by chance", errors="ignore")
    else:
        caption += " By chance: how often two runs of the same, unchanged server differ by as much."
    table = report.table(frame, caption, name=name, numbers=right, raw=("verdict",))
    return Shown(
        joined((table.markup, piece("notes", [*_together(source), *reasons(kept)]))), table.text
    )


def _sizes(row):
    """What a source says, what its numbers say, and the interval of that: changes of the metric's own
    value, all three in one unit."""
    low, high = agree.claimed(row["claimed_pct"], most=row["limit"] == "most")
    both = {
        "that is": (low, high),
        "change": (row["change_pct"],) * 2,
        "interval": (row["lo_pct"], row["hi_pct"]),
    }
    times = amounts.in_times(*itertools.chain(*both.values()), metric=row["metric"])
    return {
        name: amounts.spread(*ends, row["metric"], times=times) if all(map(pd.notna, ends)) else "–"
        for name, ends in both.items()
    }


def _itself(row):
    """Whether what a source says agrees with its own numbers, by the rule for all claims."""
    if pd.isna(row["claimed_pct"]):
        return "–"
    if pd.isna(row["lo_pct"]):
        return agree.NOT_COMPARABLE  # why stands below the table
    theirs = agree.claimed(row["claimed_pct"], most=row["limit"] == "most")
    return agree.word(theirs, (row["lo_pct"], row["hi_pct"]))


def _together(source):
    """What arms that stand in an order say together, beside their pairs."""
    _, said = trend(facts(), source)
    return [f"{', '.join(SOURCES[source]['ordered'])}, in this order: {said}."] if said else []


def _level(kept):
    """How many intervals hold the truth in 95 % of cases at once, in a sentence."""
    several = [f" for {n} rows together" for n in sorted(set(kept["together"])) if n > 1]
    return f"Intervals: 95 %{' and'.join(several)}." if kept["lo_pct"].notna().any() else ""


def archives():
    """The archives whose own runs judge them: a table with links to their published pages."""
    rows = []
    for file in sorted(paths.published().glob("archives/*/about.toml")):
        about, name = tomllib.loads(file.read_text()), f"archive-{file.parent.name}"
        page = paths.root() / "reports" / "published" / name / f"{name}.html"
        title = about["title"]
        if page.exists():
            title = piece("link", os.path.relpath(page, paths.reports()), title)
        rows.append((title, about["question"], about["article"]))
    frame = pd.DataFrame(rows, columns=["archive", "asked", "source"])
    caption = "Archives whose own repeats say what can be told from noise."
    return report.table(frame, caption, name="archives", raw=("archive",))


def reasons(kept):
    """Why each verdict is what it is, what would settle it, and what to mind: sentences."""
    lines = []
    for why, group in kept.groupby("why", sort=False):
        names = [*group["label"]] if len(group) < len(kept) or len(kept) == 1 else ["all"]
        names = names if len(names) < 4 else [names[0], "…", names[-1]]
        other = dict.fromkeys(s for s in group["settle"] if s and not s[0].isdigit())
        settle = f" To settle it: {'; '.join(other)}." if other else ""
        lines.append(f"{', '.join(names)}: {why}.{settle}".replace(", …,", " …"))
    for r in kept[kept["restarted"] != ""].to_dict("records"):
        again = f"{answers.restarted(r)}, if the server was restarted between the runs"
        lines.append(f"{r['label']}: {again}.")
    weakest = kept[kept["verdict"].ne(CANNOT_TELL)]["warnings"].explode().dropna()
    hidden = ("holds unless", "--restarts", "predicted from")  # the caption names the scatter
    return lines + [
        f"{w[0].upper()}{w[1:]}."
        for w in dict.fromkeys(weakest)
        if not any(part in w for part in hidden)
    ]


def lost(facts):
    """What the copies lost: one row a number that a source must have had."""
    gone = facts[facts["printed"].isna()]
    return gone[["source", "arm", "metric", "threads", "where_in_source", "note"]]


# --- beside our own ---------------------------------------------------------------------------------


def beside(facts, claim="io-bound", label="published", threads=None):
    """A published table of tablespace encryption by thread count, to be drawn over our own: threads
    change_pct label. With `threads` those alone: nothing is drawn where nothing was measured."""
    d = by_threads(facts, "tablespace-encryption", claim) if len(facts) else pd.Series()
    found = d.index.astype(int) if threads is None else [t for t in d.index if t in set(threads)]
    return _drawn((t, 100 * math.expm1(d[t]), label) for t in found)


def across(verdicts, claim, threads, label="published"):
    """One published number for all thread counts, to be drawn over our own: threads change_pct
    label."""
    size = verdicts.loc[verdicts["claim_id"] == claim, "change_pct"].to_list()
    return _drawn((int(t), x, label) for t in threads for x in size[:1])


def _drawn(rows):
    return pd.DataFrame(rows, columns=["threads", "change_pct", "label"])


def over(ours, published):
    """Rows of our verdict table with the published ones of the same metric and arm below each other,
    their workloads told apart: to be drawn together."""
    metric = ours["metric"].iloc[0] if len(ours) else ""
    theirs = published[(published["metric"] == metric) & published["arm"].isin(set(ours["arm"]))]
    both = [
        f.assign(workload=f["workload"].astype(str) + end)
        for f, end in ((ours[~is_control(ours)], ", here"), (theirs, ", published"))
    ]
    found = pd.concat(both, ignore_index=True).reindex(columns=ours.columns)
    alone = {"sittings": 1, "asked": 1, "ranged": False}  # a document has no sittings
    found = found.fillna({k: v for k, v in alone.items() if k in found})
    return found.sort_values(["arm", "workload"], ignore_index=True)


# --- what the numbers say about each other ----------------------------------------------------------


def checks(facts, times):
    """Numbers that must agree because they measure the same thing or were computed from each other:
    source check stated recomputed finding."""
    source, rows = "binlog-encryption", []
    names = ("tps", "qps", "mean_latency", "max_latency")
    by = {m: of(facts, source, metric=m).set_index("arm")["value"] for m in names}
    law = "Little's law: mean latency is the same measurement as TPS, not a second witness"
    third = "QPS is TPS times 20, not a third witness"
    for arm, tps in by["tps"].items():
        latency = 4000 / by["mean_latency"][arm]
        rows.append((source, f"TPS, {arm}: 4 threads / mean latency", tps, latency, law))
        each = by["qps"][arm] / tps
        rows.append((source, f"queries a transaction, {arm}", 20.0, each, third))
    worst = by["max_latency"]
    rise = 100 * (worst["encryption on"] / worst["encryption off"] - 1)
    printed, said = stated(of(facts, source, "max-latency")), "computed correctly, and no evidence"
    rows.append((source, "rise of the maximum latency, %", printed, rise, said))
    source, took = "backup-encryption", times.set_index(["arm", "phase"]).sort_index()
    for arm in ("aes-128-cbc", "sm4", "sm4-cbc"):
        for phase in ("backup", "restore"):
            exact = 100 * (took["wall"][arm, phase] / took["wall"]["none", phase] - 1)
            printed = stated(of(facts, source, f"{phase}-{arm}"))
            said = "the document divides rounded seconds"
            rows.append((source, f"{phase} with {arm}, % longer", printed, exact, said))
    for arm, printed in (("aes-128-cbc", 20.0), ("sm4", 50.0)):
        more = took["user_sys"][arm, "backup"] - took["user_sys"]["none", "backup"]
        share, check = (
            100 * more / took["wall"][arm, "backup"],
            f"CPU of openssl {arm} during the backup, %",
        )
        said = "extra user + sys per second of wall time; the document read a monitor"
        rows.append((source, check, printed, share, said))
    source = "tablespace-encryption"
    hard = np.exp(-by_threads(facts, source, "io-bound"))
    ratio = of(facts, source, "io-bound", "claimed_ratio").set_index("threads")["value"]
    at = (hard.round(2) - ratio).abs().idxmax()
    check = f"printed ratio that fits worst, {threads_label(int(at))}"
    said = "all eleven printed ratios are the quotients of the two columns, rounded"
    rows.append((source, check, ratio[at], hard[at], said))
    source, check = "version-upgrade", "rows a table: prepare command, run command"
    sizes = [
        of(facts, source, metric=f"table_size_{s}")["value"].iloc[0] for s in ("prepare", "run")
    ]
    said = "nine tenths of the rows that the run asks for were never made, if both commands are as used"
    rows.append((source, check, *sizes, said))
    return pd.DataFrame(rows, columns=["source", "check", "stated", "recomputed", "finding"])
