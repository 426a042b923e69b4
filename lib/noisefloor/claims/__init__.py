"""Published claims: the facts of ``data/raw/published``, the claims about them, and what pages show of
both.

Every source is judged by its own controls where it has any: the in-memory table of the tablespace
document, the two names of one cipher in the backup document, the repetitions of STAR. For single
numbers without a control it is predicted what such runs may differ by, as `noisefloor judge` does.
"""

import math
import os
import tomllib
from collections import Counter

import numpy as np
import pandas as pd

from noisefloor import paths
from noisefloor.claims.judged import COLUMNS as COLUMNS
from noisefloor.claims.judged import FACTS as FACTS
from noisefloor.claims.judged import TITLES, by_threads, facts, judge, of, stated, times
from noisefloor.show import report
from noisefloor.show.markup import Shown, joined, piece
from noisefloor.show.report import words
from noisefloor.show.rows import is_control, threads_label
from noisefloor.stats.verdict import CANNOT_TELL, NOT_YET, SAME, kind
from noisefloor.text import amounts, answers


def headline(verdicts):
    """How many comparisons have which verdict, in one sentence. Raises paths.NotFound."""
    if verdicts.empty:
        raise paths.NotFound(f"no published numbers are in {paths.shown(paths.published())}")
    counts = Counter(map(kind, verdicts["verdict"], verdicts["metric"]))
    return (
        f"{len(verdicts)} comparisons from {verdicts['study'].nunique()} published sources: for "
        f"{counts[CANNOT_TELL]} of them nobody can tell whether the difference is noise; "
        f"{counts['worse']} are changes for the worse, {counts['better']} for the better, and "
        f"{counts[SAME]} too small to matter."
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
    ]


def here(r):
    """The claims of a study's source, judged by the margins of opened campaigns."""
    judged = judge(facts(), times(), r.study.margin_pct)
    return judged[judged["study"].eq(r.study.name)]


def stands(r, label, *, arm="", question="", claimed=None, least=False):
    """Whether a claim of a study's source holds in opened campaigns, processor by processor, in
    words; "" where nothing comparable was measured. Its number has to lie in the range in which the
    next campaign is to be expected, where that is known, else in the interval.

    label: of the claim; arm: where it is looked for, by default the first; question: that answers
    it, by default the headline's; claimed: in percent, where the source prints none; least: its
    numbers are ranges, of which the nearest ends are compared."""
    theirs = here(r)
    theirs = theirs[theirs["label"].eq(label)]
    part = r.capacity
    asked = ("", question) if question else (part.main, part.study.key)
    rows = r.of(asked[0], control=False, question=asked[1])
    rows = rows[rows["metric"].isin(theirs["metric"]) & (rows["arm"].eq(arm) | (not arm))]
    rows = rows[rows["lo_pct"].notna()]
    if theirs.empty or rows.empty:
        return ""
    source = theirs.iloc[0]
    if claimed is None:
        claimed = source["claimed_pct"] if pd.notna(source["claimed_pct"]) else source["change_pct"]
    most = source["said"].startswith("up to ")  # a smaller change does not break it
    found = {}
    for processor, measured in words.placed(rows.iloc[0], r):
        alike = {}
        for row in (row for row in measured if pd.notna(row["lo_pct"])):
            alike.setdefault(_holds(row, claimed, most, least), []).append(row)
        for word, part in alike.items():
            at = _at(part) if len(measured) > 1 else ""
            where = "".join(f" {w}" for w in (at, processor and f"on {processor}") if w)
            found.setdefault(word, []).append(_measured(part, where))
    told = (f"{word}: {'; '.join(parts)}." for word, parts in found.items())
    return " ".join([f"The source says: {source['said']} ({label}).", *told])


def _at(part):
    """`at 1, 4, 16 threads`"""
    counts = ", ".join(str(row["threads"]) for row in part)
    return threads_label(part[0]["threads"]) if len(part) == 1 else f"at {counts} threads"


def _measured(part, where):
    """The change of rows of thread counts; without a word yet, why."""
    first, *others = sorted(part, key=lambda row: row["change_pct"])
    told = f"{words.change(first)} to {words.change(others[-1])}" if others else words.effect(first)
    return f"{told}{where}" + f", {words.word(first)}" * (first["verdict"] == NOT_YET)


def _holds(row, claimed, most, least):
    """What a row says of a claimed change in percent. most: a limit that a smaller change keeps;
    least: one that a larger change keeps."""
    if row["verdict"] == NOT_YET:
        return "Measured here"
    lo, hi = (row[end] for end in ("lo_pct", "hi_pct"))
    if pd.notna(row["next_lo_pct"]):
        lo, hi = (row[end] for end in ("next_lo_pct", "next_hi_pct"))
    near, far = (lo, hi) if claimed >= 0 else (-hi, -lo)  # in the direction of the claim
    inside = (least or near <= abs(claimed)) and (most or abs(claimed) <= far)
    if row["verdict"] == CANNOT_TELL:
        return f"That {'cannot be told apart from' if inside else 'does not fit'} what was measured here"
    if most or least or not claimed:
        holds = inside if most or least else row["verdict"] == SAME
        return "That holds here" if holds else "That does not hold here"
    return f"That {'fits' if inside else 'is not'} what was measured here"


def shown(verdicts, source):
    """The claims of one source as a table for reading, with the reasons below it."""
    kept = verdicts[verdicts["study"] == source]

    def told(form, *values):
        return form(*values) if pd.notna(values[0]) else "–"

    rows = [
        {
            "compared": r["label"],
            "verdict": report.badge(r["verdict"]),
            "change": told(amounts.change, r["change_pct"], r["metric"]),
            "claimed": r["said"],
            "interval": told(amounts.interval, r["lo_pct"], r["hi_pct"], r["metric"]),
            "by chance": answers.often(r["chance"]) if r["chance"] < 1 else "–",
            "to settle it": r["settle"] if r["settle"][:1].isdigit() else "–",
        }
        for r in kept.to_dict("records")
    ]
    scatter = "; ".join(dict.fromkeys("; ".join(kept["scatter_from"]).split("; ")))
    caption = f"{TITLES[source]}. Scatter from: {scatter}. {_level(kept)}"
    right = ("change", "interval")
    name, frame = f"claims-{source}", pd.DataFrame(rows)
    if not kept["chance"].lt(1).any():
        frame = frame.drop(columns="by chance", errors="ignore")
    else:
        caption += " By chance: how often two runs of the same, unchanged server differ by as much."
    table = report.table(frame, caption, name=name, numbers=right, raw=("verdict",))
    return Shown(joined((table.markup, piece("notes", reasons(kept)))), table.text)


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
