"""Published claims: the facts of ``data/raw/published``, the claims about them, and what pages show of
both.

Every source is judged by its own controls where it has any: the in-memory table of the tablespace
document, the two names of one cipher in the backup document, the repetitions of STAR. Single numbers
without a control are held against the reference population of run-to-run scatter, as `judge` does.
"""

import math
import os
import tomllib

import numpy as np
import pandas as pd

from noisefloor import paths
from noisefloor.claims.judged import COLUMNS as COLUMNS
from noisefloor.claims.judged import FACTS as FACTS
from noisefloor.claims.judged import TITLES, by_threads, facts, judge, of, stated, times
from noisefloor.show import report
from noisefloor.show.markup import Shown, joined, piece
from noisefloor.show.rows import is_control, threads_label
from noisefloor.stats.estimate import CANNOT_TELL, FASTER, SAME, SLOWER
from noisefloor.text import amounts


def headline(verdicts):
    """How many comparisons have which verdict, in one sentence. Raises paths.NotFound."""
    if verdicts.empty:
        raise paths.NotFound(f"no published numbers are in {paths.shown(paths.published())}")
    counts = verdicts["verdict"].value_counts()
    words = [f"{counts[w]} {w}" for w in (SLOWER, FASTER, SAME) if w in counts]
    return (
        f"{len(verdicts)} comparisons from {verdicts['study'].nunique()} published sources: for "
        f"{counts.get(CANNOT_TELL, 0)} of them nobody can tell whether the difference is noise; "
        f"{', '.join(words)}."
    )


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
        return f"{r['verdict']}, {amounts.overhead(r['overhead_pct'], r['metric'])}"

    tps, mid = row("binlog", "TPS"), row("tablespace", "32 threads")
    low, high = (row("tablespace", f"{t} threads together") for t in ("1 to 16", "64 to 2048"))
    backup, restore = (
        [said(row("backup", f"{phase} with aes-128-cbc, {t}")) for t in ("time", "CPU time")]
        for phase in ("backup", "restore")
    )
    known = f" It is {tps['known']}." if tps["known"] else ""
    return [
        f"221.19 TPS without and 229.41 with binary log encryption: {said(tps)}.{known} Significant "
        f"only if run-to-run CV is below {tps['deciding_cv_pct']:.1f} %. QPS and mean latency are the "
        "same measurement, the 15.5 % in maximum latency is no evidence.",
        f"Tablespace encryption with heavy reads, 1 to 16 threads: {said(low)} "
        f"({amounts.interval(low['lo_pct'], low['hi_pct'])}). At 32 threads: {said(mid)}, {mid['known']}. "
        f"From 64 threads on: {said(high)}, {high['known']}.",
        f"A backup through aes-128-cbc: {backup[0]} in time and {backup[1]} in CPU. The restore: "
        f"{restore[0]} in time, but {restore[1]} in CPU, which the document does not mention.",
    ]


def here(r):
    """The claims of a study's source, judged by the margin of opened campaigns."""
    judged = judge(facts(), times(), r.study.margin_pct)
    return judged[judged["study"].eq(r.study.name)]


def stands(r, label, *, arm="", question="", claimed=None, least=False):
    """Whether a claim of a study's source holds in opened campaigns, in a sentence; "" where nothing
    comparable was measured. label: of the claim; arm: where it is looked for, by default the first;
    question: that answers it, by default the headline's; claimed: in percent, where the source prints
    none; least: its numbers are ranges, of which the nearest ends are compared."""
    theirs = here(r)
    theirs = theirs[theirs["label"].eq(label)]
    rows = r.of("" if question else r.main, control=False, question=question or None)
    rows = rows[rows["metric"].isin(theirs["metric"]) & (rows["arm"].eq(arm) | (not arm))]
    rows = rows[rows["lo_pct"].notna()]
    if theirs.empty or rows.empty:
        return ""
    said = theirs.iloc[0]
    row = (rows[rows["joint"]] if rows["joint"].any() else rows).iloc[0]
    if claimed is None:
        claimed = said["claimed_pct"] if pd.notna(said["claimed_pct"]) else said["overhead_pct"]
    measured = amounts.told(row["overhead_pct"], row["lo_pct"], row["hi_pct"], row["metric"])
    holds, fails = "fits what was measured here", "is not what was measured here"
    most = said["said"].startswith("up to ")  # which a smaller cost does not break, as a larger
    limit = most or least  # one does not break ranges
    inside = (least or row["lo_pct"] <= claimed) and (most or claimed <= row["hi_pct"])
    if row["verdict"] == CANNOT_TELL:
        holds, fails = "cannot be told apart from that here", "does not fit what was measured here"
    elif limit or not claimed:
        holds, fails = "holds here", "does not hold here"
        inside = inside if limit else row["verdict"] == SAME
    word = holds if inside else fails
    return f"The source says: {said['said']} ({label}). That {word}: {measured}."


def shown(verdicts, source):
    """The claims of one source as a table for reading, with the reasons below it."""
    kept = verdicts[verdicts["study"] == source]

    def told(form, *values, **how):
        return form(*values, **how) if pd.notna(values[0]) else "–"

    rows = [
        {
            "compared": r["label"],
            "verdict": report.badge(r["verdict"]),
            "overhead": told(amounts.overhead, r["overhead_pct"], r["metric"]),
            "claimed": r["said"],
            "interval": told(amounts.interval, r["lo_pct"], r["hi_pct"], r["metric"]),
            "known": r["known"] or "–",
            "CV limit": told(amounts.percent, r["deciding_cv_pct"], digits=2, sign=False),
            "to settle it": told("{:.0f} pairs".format, r["runs_needed"]),
        }
        for r in kept.assign(
            runs_needed=kept["runs_needed"].where(kept["verdict"] == CANNOT_TELL)
        ).to_dict("records")
    ]
    floors = dict.fromkeys("; ".join(kept["floor_from"]).split("; "))
    caption = f"{TITLES[source]}. Noise floor from: {'; '.join(floors)}."
    right = ("overhead", "interval", "CV limit", "to settle it")
    name, frame = f"claims-{source}", pd.DataFrame(rows)
    table = report.table(frame, caption, name=name, numbers=right, raw=("verdict",))
    return Shown(joined((table.markup, piece("notes", reasons(kept)))), table.text)


def archives():
    """The published archives that their own runs judge: a table with links to their pages."""
    rows = []
    for file in sorted(paths.published().glob("archives/*/about.toml")):
        about, name = tomllib.loads(file.read_text()), f"archive-{file.parent.name}"
        pages = sorted(paths.root().glob(f"reports/published/{name}-*/{name}.html"))
        title = about["title"]
        if pages:
            title = piece("link", os.path.relpath(pages[-1], paths.reports()), title)
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
    weakest = kept[kept["verdict"].ne(CANNOT_TELL)]["warnings"].explode().dropna()
    return lines + [
        f"{w[0].upper()}{w[1:]}." for w in dict.fromkeys(weakest) if "holds unless" not in w
    ]


def lost(facts):
    """What the copies lost: one row a number that a source must have had."""
    gone = facts[facts["printed"].isna()]
    return gone[["source", "arm", "metric", "threads", "where_in_source", "note"]]


# --- beside our own ---------------------------------------------------------------------------------


def beside(facts, claim="io-bound", label="published", threads=None):
    """A published table of tablespace encryption by thread count, to be drawn over our own: threads
    overhead_pct label. With `threads` those alone: nothing is drawn where nothing was measured."""
    d = by_threads(facts, "tablespace-encryption", claim) if len(facts) else pd.Series()
    found = d.index.astype(int) if threads is None else [t for t in d.index if t in set(threads)]
    return _drawn((t, 100 * math.expm1(d[t]), label) for t in found)


def across(verdicts, claim, threads, label="published"):
    """One published number for all thread counts, to be drawn over our own: threads overhead_pct
    label."""
    size = verdicts.loc[verdicts["claim_id"] == claim, "overhead_pct"].to_list()
    return _drawn((int(t), x, label) for t in threads for x in size[:1])


def _drawn(rows):
    return pd.DataFrame(rows, columns=["threads", "overhead_pct", "label"])


def over(ours, published):
    """Rows of our verdict table with the published ones of the same metric and arm below each other,
    their workloads told apart: to be drawn together."""
    metric = ours["metric"].iloc[0] if len(ours) else ""
    theirs = published[(published["metric"] == metric) & published["arm"].isin(set(ours["arm"]))]
    both = [
        f.assign(workload=f["workload"].astype(str) + end)
        for f, end in ((ours[~is_control(ours)], ", here"), (theirs, ", published"))
    ]
    kept = [c for c in ours.columns if c in theirs.columns]
    return pd.concat([f[kept] for f in both], ignore_index=True).sort_values(
        ["arm", "workload"], ignore_index=True
    )


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
    hard = np.exp(by_threads(facts, source, "io-bound"))
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
