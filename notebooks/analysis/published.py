"""The page of published claims: its first sentence, and how far the printed numbers agree."""

import os
import tomllib
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from noisefloor import claims, paths
from noisefloor.claims import agree
from noisefloor.claims.judged import by_threads, facts_of, published_facts, stated, trend
from noisefloor.show.markup import Shown, joined, piece
from noisefloor.show.report import statement, words
from noisefloor.show.report.pieces import html_table
from noisefloor.show.rows import threads_label
from noisefloor.stats.row import from_frame
from noisefloor.stats.verdict import CANNOT_TELL, SAME, kind
from noisefloor.text import amounts, answers

# the first lines of the page: kind of a verdict -> (name of its largest changes, how many are listed)
WORDS = {"worse": ("Worst", 2), "better": ("Best", 1)}
ADVICE = "repeat with and without on restarted servers"


def headline(verdicts: pd.DataFrame) -> str:
    """The sentences of `_counted` as one text. Raises paths.NotFound without comparisons."""
    return " ".join(_counted(verdicts))


def _counted(verdicts: pd.DataFrame) -> list[str]:
    """How many comparisons have which verdict; then a sentence each with the largest changes for the
    worse and for the better. Raises paths.NotFound without comparisons."""
    if verdicts.empty:
        raise paths.NotFound(f"no published numbers are in {paths.relative(paths.published())}")
    kinds = verdicts["verdict"].map(kind)
    counts, sources = Counter(kinds), verdicts["study"].nunique()
    each = ", ".join(f"{counts[k]} {k}" for k in (*WORDS, SAME, CANNOT_TELL) if counts[k])
    each = each.replace("worse", "worse than without the change")
    return [
        f"{len(verdicts)} comparisons from {sources} sources: {each}.",
        *(
            f"{name}: {_largest(verdicts[kinds.eq(k)], most)}."
            for k, (name, most) in WORDS.items()
            if counts[k]
        ),
    ]


def _largest(rows: pd.DataFrame, most: int) -> str:
    """The largest changes, one a source, with what was changed: `+59.3 % time (backup with sm4)`."""
    sizes = rows["change_pct"].astype(float).map(amounts.factor)
    far = rows.loc[sizes.sort_values(ascending=False).index].drop_duplicates("study")
    return ", ".join(f"{_amount(r)} ({_changed(r)})" for r in far.head(most).to_dict("records"))


def _changed(row: Any) -> str:
    """What was changed: `backup with sm4`, `native TLS against ssh tunnel`; the title if the baseline
    is only without it (`no ...`)."""
    noun = f", {statement.terms_of(row['metric']).noun}"
    if row["label"].endswith(noun):
        return str(row["label"].removesuffix(noun))
    without = row["baseline"].startswith("no ")
    return str(row["title"]) if without else f"{row['arm']} against {row['baseline']}"


def _amount(row: Any) -> str:
    """A change, and of which metric: `+5.4 % time`, `2.3 times the TPS`."""
    if amounts.large(row["change_pct"], row["metric"]):
        return statement.Part((row,)).amount()
    return f"{words.change(row)} {statement.terms_of(row['metric']).noun}"


def box(verdicts: pd.DataFrame) -> Shown:
    """The box at the top of the page: the verdicts of all comparisons, and the comparison that
    readers ask for first."""
    first, *sizes = _counted(verdicts)
    lines = [*sizes, *findings(verdicts)[:1]]
    inner = joined((piece("headline", first), piece("answer", (), lines, ADVICE, "")))
    return Shown(piece("box", inner), headline(verdicts))


def drawn(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The comparisons of the figure, each named with its metric: `32 threads, TPS`."""
    rows = verdicts[verdicts["key"]]
    nouns = (statement.terms_of(metric).noun for metric in rows["metric"])
    return rows.assign(
        label=[
            label if noun.lower() in label.lower() else f"{label}, {noun}"
            for label, noun in zip(rows["label"], nouns, strict=True)
        ]
    )


def others(verdicts: pd.DataFrame) -> Shown:
    """The findings below the box: all but the first, and whether claims agree with their numbers."""
    counts = agree.in_numbers(map(claims.of_itself, verdicts.to_dict("records")))
    sized = f"Claims that name a size, compared with the numbers that they rest on: {counts}."
    return Shown(piece("notes", [*findings(verdicts)[1:], sized]))


def findings(verdicts: pd.DataFrame) -> list[str]:
    """The answers that readers ask for, one sentence each, from the verdict table."""
    by_label = verdicts.set_index(["study", "label"], drop=False)

    def row(study: str, label: str) -> Any:
        return by_label.loc[(f"{study}-encryption", label)]

    def verdict(r: Any) -> str:
        return f"{r['verdict']}, {amounts.around(_amount(r), words.interval_text(r))}"

    tps, mid = row("binlog", "TPS"), row("tablespace", "32 threads")
    low, high = (row("tablespace", f"{t} threads together") for t in ("1 to 16", "64 to 2048"))
    backup, restore = (
        "; ".join(
            verdict(row("backup", f"{phase} with aes-128-cbc, {t}")) for t in ("time", "CPU time")
        )
        for phase in ("backup", "restore")
    )
    again = answers.restarted(from_frame(high))
    again = again and f"; {again}, if the server was restarted between the runs"
    theirs = facts_of(published_facts(), "binlog-encryption", metric="tps").set_index("arm")[
        "value"
    ]
    on, off = theirs["encryption on"], theirs["encryption off"]
    return [
        f"Binary log, unencrypted {off:.2f} TPS, encrypted {on:.2f}: {tps['verdict']}, {words.change(tps)}. "
        f"{answers.by_chance(from_frame(tps))}",
        "Binary log encryption: QPS and mean latency are the same measurement as TPS, and the 15.5 % "
        "in maximum latency is no evidence.",
        f"Tablespace encryption with heavy reads, 1 to 16 threads: {verdict(low)}. At 32 threads: "
        f"{verdict(mid)}. From 64 threads on: {verdict(high)}{again}.",
        f"A backup through aes-128-cbc: {backup}. The restore: {restore}. The document does not mention "
        "CPU time.",
        f"QPS of five versions: {trend(published_facts(), 'mdcallag-versions')[1]}.",
    ]


def archives() -> Shown:
    """The archives that were published with all of their runs: a table with links to their pages."""
    rows = []
    for file in sorted(paths.published().glob("archives/*/about.toml")):
        about, name = tomllib.loads(file.read_text()), f"archive-{file.parent.name}"
        page = paths.root() / "reports" / "published" / name / f"{name}.html"
        title = about["title"]
        if page.exists():
            title = piece("link", os.path.relpath(page, paths.reports()), title)
        rows.append((title, about["measured"], about["article"]))
    frame = pd.DataFrame(rows, columns=["archive", "measured", "source"])
    caption = "Archives whose own repeats say what can be told from noise."
    return html_table(frame, caption, name="archives", raw=("archive",))


def lost(facts: pd.DataFrame) -> pd.DataFrame:
    """Numbers that a source must have had and that its copies lost: one row each."""
    gone = facts[facts["printed"].isna()]
    gone = gone.assign(metric=gone["metric"].str.replace("_", " "))
    gone = gone.rename(columns={"where_in_source": "where"})
    return gone[["source", "arm", "metric", "threads", "where", "note"]]


# -- whether the numbers agree with each other -------------------------------------------------------


def checks(facts: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Numbers that must agree because they measure the same thing or were computed from each other:
    source check stated recomputed finding."""
    source, rows = "binlog-encryption", list[tuple[Any, ...]]()
    names = ("tps", "qps", "mean_latency", "max_latency")
    by: Any = {m: facts_of(facts, source, metric=m).set_index("arm")["value"] for m in names}
    law = "Little's law: mean latency is the same measurement as TPS, not a second witness"
    third = "QPS is TPS times 20, not a third witness"
    for arm, tps in by["tps"].items():
        latency = 4000 / by["mean_latency"][arm]
        rows.append((source, f"TPS, {arm}: 4 threads / mean latency", tps, latency, law))
        each = by["qps"][arm] / tps
        rows.append((source, f"queries a transaction, {arm}", 20.0, each, third))
    worst = by["max_latency"]
    rise = 100 * (worst["encryption on"] / worst["encryption off"] - 1)
    printed = stated(facts_of(facts, source, "max-latency"))
    finding = "computed correctly, and no evidence"
    rows.append((source, "rise of the maximum latency, %", printed, rise, finding))
    took: Any = times.set_index(["arm", "phase"]).sort_index()
    wall, user_sys = took["wall"], took["user_sys"]
    source = "backup-encryption"
    finding = "the document divides rounded seconds"
    for arm in ("aes-128-cbc", "sm4", "sm4-cbc"):
        for phase in ("backup", "restore"):
            exact = 100 * (wall[arm, phase] / wall["none", phase] - 1)
            printed = stated(facts_of(facts, source, f"{phase}-{arm}"))
            rows.append((source, f"{phase} with {arm}, % longer", printed, exact, finding))
    finding = "extra user + sys per second of wall time; the document read a monitor"
    for arm, printed in (("aes-128-cbc", 20.0), ("sm4", 50.0)):
        more = user_sys[arm, "backup"] - user_sys["none", "backup"]
        share = 100 * more / wall[arm, "backup"]
        check = f"CPU of openssl {arm} during the backup, %"
        rows.append((source, check, printed, share, finding))
    source = "tablespace-encryption"
    hard: Any = np.exp(-by_threads(facts, source, "io-bound"))
    ratio = facts_of(facts, source, "io-bound", "claimed_ratio").set_index("threads")["value"]
    at = (hard.round(2) - ratio).abs().idxmax()
    check = f"printed ratio that fits worst, {threads_label(int(at))}"
    finding = "all eleven printed ratios are the quotients of the two columns, rounded"
    rows.append((source, check, ratio[at], hard[at], finding))
    source, check = "version-upgrade", "rows a table: prepare command, run command"
    metrics = ("table_size_prepare", "table_size_run")
    sizes = (facts_of(facts, source, metric=m)["value"].iloc[0] for m in metrics)
    finding = "nine tenths of the rows that the run asks for were never made, if both commands are as used"
    rows.append((source, check, *sizes, finding))
    return pd.DataFrame(rows, columns=["source", "check", "stated", "recomputed", "finding"])
