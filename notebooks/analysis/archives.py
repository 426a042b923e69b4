"""The page of an archive: counts of its verdicts, its authors' claims, outliers, and versions in
their order."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from noisefloor.claims import agree, order
from noisefloor.data import ingest
from noisefloor.data.archive import Archive, in_order, judge_rows
from noisefloor.model import METRICS, leading
from noisefloor.show.rows import ENDS, counted
from noisefloor.stats.verdict import differs, kind
from noisefloor.text import Refusal, amounts

APART = 6.0  # an outlier is so many times the usual distance from the median of its arm
MOST_OUTLIERS = 12  # that are listed
_VERSION = re.compile(r"\d+(?:\.\d+)+")


def leading_metric(archive: Archive) -> str:
    """Throughput where there is any, else time."""
    return leading(archive.verdicts["metric"])


def main(archive: Archive) -> pd.DataFrame:
    """The verdict rows of the leading metric, as `Results.verdicts` has them, controls left out."""
    return archive.of(metric=leading_metric(archive), control=False)


def largest(rows: pd.DataFrame, most: int = 8) -> pd.DataFrame:
    """Rows of the `most` workloads with most runs (those with several thread counts come before others),
    sorted by name as in `in_order`."""
    size = rows.groupby("workload")["n_arm"].sum()
    size += size.max() * rows.groupby("workload")["threads"].nunique().gt(1)
    kept = size.sort_values(ascending=False, kind="stable").index[:most]
    return in_order(rows[rows["workload"].isin(kept)])


def summary(rows: pd.DataFrame, most: int = 40) -> pd.DataFrame:
    """One row a workload, metric and arm, sorted alike: the joint one, else that of the most threads."""
    key = ["workload", "metric", "arm"]
    last = rows.sort_values(["joint", "threads"]).drop_duplicates(key, keep="last")
    return in_order(last.sort_index()).head(most)


def named(archive: Archive, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of a verdict table with the names that about.toml has for arms and workloads: `AMD (m5a)` for
    `m5a`, `oltp_read_only, 2 vCPU` for `OLTP_READ_only, 2 vCPU`."""
    names = archive.about.get("names", {})

    def shown(text: str) -> str:
        return ", ".join(names.get(part, part) for part in text.split(", "))

    return rows.assign(**{c: rows[c].map(shown) for c in ("workload", "arm", "baseline")})


def arms_in_words(archive: Archive) -> list[str]:
    """A sentence for each arm: its verdicts, in how many of its comparisons (each at one thread count),
    and how large the changes with a direction are, all arms in one unit. The first sentence says at what
    the arms were compared."""
    rows, leads = named(archive, main(archive)), list[str]()
    rows, of = rows[~rows["joint"]], leading_metric(archive)
    times = amounts.in_times(*rows["change_pct"], metric=of)
    for (arm, base), mine in rows.groupby(["arm", "baseline"], sort=False):
        groups = sorted(mine.groupby("verdict"), key=lambda x: (not differs(str(x[0])), -len(x[1])))
        (word, changed), *others = groups
        first = f"{_sized(str(word), changed, times)} in {len(changed)}"
        if not leads:
            many = f"{len(mine)} comparison{'s' * (len(mine) > 1)}"
            first = f"{first} of {many}{_places(archive, mine, changed)}"
        more = (f"{_sized(str(word), part, times)} in {len(part)}" for word, part in others)
        name = f"{arm} against {base}, {METRICS[of].in_line}"
        leads.append(f"{name}: {', '.join([first, *more])}.")
    return leads


def _sized(word: str, rows: pd.DataFrame, times: bool) -> str:
    """`-9.1 to -35.5 %`, `1.4 to 2.9 times slower`; a verdict without a direction alone."""
    if times or not differs(word):
        return _spread(rows, times) if differs(word) else word
    changes = sorted(rows["change_pct"].astype(float), key=abs)
    return amounts.spread(changes[0], changes[-1], rows["metric"].iloc[0], times=False)


def _places(archive: Archive, rows: pd.DataFrame, changed: pd.DataFrame) -> str:
    """At what an arm was compared, in parentheses: ` (7 machine sizes × 8 thread counts)`; if only one or
    two of more workloads `changed`, these: ` (buffer pool 32G: 8 thread counts, 12G: 2)`."""
    sizes, counts = rows["workload"].nunique(), rows["threads"].nunique()
    ends = Counter(name.split(", ")[-1] for name in changed["workload"]).most_common()
    if len(ends) <= 2 < sizes and differs(changed["verdict"].iloc[0]):
        shared = ends[0][0].rpartition(" ")[0]
        (name, n), *more = ends
        first = f"{name}: {n} thread count{'s' * (n > 1)}"
        others = (f"{end.removeprefix(shared).strip()}: {k}" for end, k in more)
        return f" ({', '.join([first, *others])})"
    what = archive.about.get("sizes")
    whole = what and sizes * counts == len(rows)
    return f" ({sizes} {what} × {counts} thread counts)" if whole else ""


def contrary(archive: Archive) -> str:
    """In how many of the comparisons with better throughput the 95th percentile of latency is worse, and
    by how much at most, in a sentence; "" if there is none."""
    tps, p95 = (archive.of(metric=metric, control=False) for metric in ("tps", "p95"))
    key = ["workload", "arm", "threads"]
    tps, p95 = (rows[~rows["joint"].astype(bool)] for rows in (tps, p95))
    better = tps[tps["verdict"].map(kind).eq("better")]
    worse = p95[p95["worse"].astype(bool)]
    worse = worse[worse.set_index(key).index.isin(better.set_index(key).index)]
    if worse.empty:
        return ""
    row = worse.iloc[int(worse["change_pct"].astype(float).argmax())]
    of = f"But {METRICS['p95'].in_line} is worse in {len(worse)} of the {len(better)}"
    most = "at most " * (len(worse) > 1)
    where = f"{counted(row['threads'])}, {row['workload'].split(', ')[-1]}"
    return f"{of}: {most}{_with_ends(row)}, {where}."


def left_out(archive: Archive) -> pd.DataFrame:
    """What was not compared: a column."""
    return pd.DataFrame({"left out": archive.left})


def labels(archive: Archive) -> pd.DataFrame:
    """Labels of the runs: columns label, runs that have it, values."""
    counted_labels = ingest.manifest(archive.folder).get("labels", {})
    rows = [(name, n, k) for name, (n, k) in counted_labels.items()]
    return pd.DataFrame(rows, columns=["label", "runs", "values"])


def facts(archive: Archive) -> dict[str, Any]:
    """The archive, its source, and how its runs were compared."""
    names = ("name", "finished", "files", "runs", "problems", "kinds")
    manifest = ingest.manifest(archive.folder)
    return {
        "archive": {k: manifest.get(k) for k in names},
        **{k: archive.about.get(k) for k in ("source", "article", "licence")},
        "compared with": f"{archive.label}={archive.baseline}",
        "only": dict(archive.where),
        "margin_pct": archive.rule.margin_pct,
    }


# -- what the authors claim ------------------------------------------------------------------------


def claims(archive: Archive) -> pd.DataFrame:
    """What the authors of the runs claim, and whether their runs agree: columns what its authors say,
    that is (in the unit of the runs), their claim (a word of `claims.agree`), what their runs say.
    Raises Refusal for a claim in about.toml that cannot be read."""
    rows, base = main(archive), archive.baseline
    judged = [
        (claim["said"], *_answer(_asserted(rows, claim), claim, base))
        for claim in archive.about.get("claims", ())
    ]
    columns = ["what its authors say", "that is", "their claim", "what their runs say"]
    return pd.DataFrame(judged, columns=columns)


def agreed(archive: Archive, judged: pd.DataFrame) -> str:
    """How many claims agree, and which disagree: `Percona's conclusions: 7 agree, 1 disagrees (Graviton
    5 to 14 % ahead).`; "" without claims. judged: the table of `claims`."""
    words, told = judged["their claim"], archive.about.get("claims", ())
    pairs = zip(told, words, strict=False)  # of no words all are none
    wrong = [claim.get("short", claim["said"]) for claim, word in pairs if word == agree.DISAGREES]
    counts = agree.in_numbers(words)
    counts = re.sub("disagrees?", lambda word: f"{word[0]} ({'; '.join(wrong)})", counts)
    whose = archive.about.get("whose", "The authors'")
    every = "all " * (len(set(words)) == 1 < len(words))
    return f"{whose} conclusions: {every}{counts}." if counts else ""


def _asserted(rows: pd.DataFrame, claim: Mapping[str, Any]) -> pd.DataFrame:
    """The rows that a claim is about: those of its arm, and of its `at`, {last part of a workload's name:
    [least, most threads]}."""
    rows = rows[rows["arm"].eq(claim["arm"]) & ~rows["joint"]]
    ends = rows["workload"].str.split(", ").str[-1]
    return pd.concat(
        rows[ends.eq(end) & rows["threads"].between(least, most).fillna(False)]
        for end, (least, most) in claim["at"].items()
    )


def _theirs(claim: Mapping[str, Any], baseline: str) -> agree.Range:
    """The change that a claim names, of its arm against the baseline, in percent: (from, to). In the
    claim, `leader`: the arm that is ahead; `by`: from and to how many percent; `of`: the arm whose
    number these are a share of. Without `by`: any change in that direction. Raises Refusal for a claim
    that cannot be read."""
    arms, whose = (claim["arm"], baseline), claim.get("of", baseline)
    leader, by = claim.get("leader"), claim.get("by", [0, 0])
    of_leader = whose == leader
    if leader not in arms or whose not in arms or len(by) != 2 or (of_leader and max(by) >= 100):
        raise Refusal(
            f"about.toml, {claim['said']!r}: `leader` and `of` name one of {' and '.join(arms)}, `by`"
            " holds from and to how many percent, below 100 of the leader's own; nothing was judged"
        )
    ahead = leader == claim["arm"]
    if "by" not in claim:
        return (0.0, math.inf) if ahead else (-100.0, 0.0)
    ends = sorted(agree.change_of_claim(p, ahead=ahead, of_leader=of_leader) for p in claim["by"])
    return ends[0], ends[1]


def _answer(rows: pd.DataFrame, claim: Mapping[str, Any], baseline: str) -> tuple[str, str, str]:
    """(claim, word of `claims.agree`, answer): whether rows agree with a claim, both as changes of the
    arm against the baseline in one unit. A claim about a mean is compared with the mean change, whose
    interval is as wide as if the rows shared all of their errors."""
    theirs, rows = _theirs(claim, baseline), rows[rows["lo_pct"].notna()]
    if rows.empty:
        return "–", agree.NOT_COMPARABLE, "no runs of both with an interval"
    metric = rows["metric"].iloc[0]
    if claim.get("mean"):
        mean = 100 * np.expm1(np.log1p(rows[ENDS].astype(float) / 100).mean())
        rows = rows.head(1).assign(**mean.to_dict())
    words = [agree.agreement(theirs, (r["lo_pct"], r["hi_pct"])) for r in rows.to_dict("records")]
    limits = theirs if "by" in claim else ()
    times = amounts.in_times(*rows["change_pct"], *limits, metric=metric)
    that = amounts.words(metric)[theirs[1] <= 0]
    that = amounts.spread(*theirs, metric, times=times) if "by" in claim else that
    if claim.get("mean") or len(rows) == 1:
        return that, words[0], _with_ends(rows.iloc[0], times)
    broken = rows[[word == agree.DISAGREES for word in words]]
    here = f"{_spread(rows, times)}{_farthest(rows, theirs, times)}"
    if broken.empty:
        return that, agree.AGREES, f"at all {len(rows)}: {here}"
    places = ", ".join(
        f"{row['workload'].split(', ')[-1]} with {counted(row['threads'])} "
        f"{_spread(broken.loc[[index]], times)}"
        for index, row in broken.head(3).iterrows()
    )
    more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
    counts = f"not at {len(broken)} of {len(rows)}"
    return that, agree.DISAGREES, f"{counts} ({places}{more}): {here}"


def _farthest(rows: pd.DataFrame, theirs: agree.Range, times: bool) -> str:
    """The interval of the change that lies farthest outside of what is claimed; "" where none
    does."""
    change = rows["change_pct"].astype(float)
    out: Any = np.maximum(theirs[0] - change, change - theirs[1])
    if out.max() <= 0:
        return ""
    return f"; farthest from the claim {_with_ends(rows.loc[out.idxmax()], times)}"


def _spread(rows: pd.DataFrame, times: bool | None = None) -> str:
    """The smallest and the largest change of rows of one metric, as text."""
    changes = rows["change_pct"].astype(float)
    return amounts.spread(min(changes), max(changes), rows["metric"].iloc[0], times=times)


def _with_ends(row: pd.Series, times: bool | None = None) -> str:
    """A change with its interval, all in one unit: `-3.4 % (-9.4 to +2.9 %)`."""
    metric, change, ends = row["metric"], row["change_pct"], (row["lo_pct"], row["hi_pct"])
    times = amounts.in_times(change, *ends, metric=metric) if times is None else times
    first = amounts.spread(change, change, metric, times=times)
    return amounts.around(first, amounts.spread(*ends, metric, times=times))


# -- runs that lie apart ---------------------------------------------------------------------------


def outliers(archive: Archive) -> pd.DataFrame:
    """Outliers: runs far from the others of their arm at their thread count, farthest first, and the
    result without them: columns workload, threads, arm, this run, the others, it lies, without it. The
    limit depends on how far runs of all arms lie from the median of theirs (`APART`)."""
    metric, key = leading_metric(archive), ["workload", "threads", "arm"]
    rows = archive.judged(metric=metric)
    rows = rows[rows["workload"].isin([w.name for w in archive.study.workloads])]
    logs: Any = np.log(rows["value"].astype(float))
    groups = logs.groupby([rows[c] for c in key], dropna=False)
    away = logs - groups.transform("median")
    scale = 1.4826 * away[away.ne(0)].abs().median()
    margin = math.log1p(METRICS[metric].margin_pct / 100) if metric in METRICS else 0.0
    far = away.abs()[(away.abs() > max(APART * scale, margin)) & groups.transform("size").ge(3)]
    apart = []
    for index, row in rows.loc[far.nlargest(MOST_OUTLIERS).index].iterrows():
        others = rows.drop(index=index)
        mine = others[(others[key] == row[key]).all(axis=1)]["value"].astype(float)
        apart.append(
            {c: row[c] for c in key}
            | {
                "this run": f"{row['value']:,.5g}",
                "the others": ", ".join(f"{v:,.5g}" for v in mine),
                "it lies": amounts.change(100 * math.expm1(away[index]), metric),
                "without it": _without(archive, row, others, metric),
            }
        )
    return pd.DataFrame(apart, columns=[*key, "this run", "the others", "it lies", "without it"])


def _without(archive: Archive, run: pd.Series, others: pd.DataFrame, metric: str) -> str:
    """The verdict of a workload without one run and with it: `m6g: faster, +4.7 %, with it cannot tell,
    +0.7 %`, for the run's arm, or for all arms if it is the baseline's."""
    mine = others[others["workload"].eq(run["workload"])]
    now = judge_rows(archive, mine, metric)
    then = archive.of(run["workload"], metric, control=False)
    mentioned = run["arm"] != archive.baseline
    answers_by_arm = []
    for arm in [run["arm"]] if mentioned else [a.name for a in archive.study.arms]:
        without, whole = (_verdict(table, arm, run["threads"]) for table in (now, then))
        if without and whole:
            answers_by_arm.append(f"{arm}: {without}, with it {whole}")
    return "; ".join(answers_by_arm)


def _verdict(table: pd.DataFrame, arm: str, threads: Any) -> str:
    """`cannot tell, +0.7 % (-4.0 to +5.6 %)` of an arm at a thread count; "" where it has no row."""
    alone = ~table["joint"].astype(bool) & table["arm"].eq(arm)
    at = table["threads"].isna() if pd.isna(threads) else table["threads"].eq(threads)
    rows = table[alone & at]
    return "" if rows.empty else f"{rows['verdict'].iloc[0]}, {_with_ends(rows.iloc[0])}"


# -- versions in their order -----------------------------------------------------------------------


def trends(archive: Archive) -> pd.DataFrame:
    """The trend over arms that are versions (three or more), for each workload, by `claims.order.trend`:
    columns workload, runs, `in this order`.

    Thread counts that not every version has are left out; throughput is divided by its mean over
    versions. If the runs of a version may share one start, a version is one number. The order is that of
    the version numbers, so it does not depend on the results."""
    metric, lines = leading_metric(archive), []
    rows = archive.judged(metric=metric)
    versions = "version" in archive.label.split(",")
    for name in (w.name for w in archive.study.workloads if versions):
        mine = rows[rows["workload"].eq(name)]
        arms = _versions(mine["arm"], archive.baseline)
        mine = mine[mine["arm"].isin(arms)]
        common = mine.groupby("threads", dropna=False)["arm"].transform("nunique").eq(len(arms))
        mine = mine[common]
        logs: Any = np.log(mine["value"].astype(float))
        logs -= logs.groupby(mine["threads"], dropna=False).transform("mean")
        each = [logs[mine["arm"].eq(a)] for a in arms]
        means = [float(v.mean()) for v in each]
        one = not archive.rule.restarts  # number of a version
        values = [[m] if one else list(v) for v, m in zip(each, means, strict=True)]
        if len(mine) and (result := order.trend(values)):
            changes = [100 * math.expm1(m - means[0]) for m in means]
            words = result.in_words(arms, changes, metric)
            lines.append((name, len(mine), f"{', '.join(arms)}: {words}"))
    return pd.DataFrame(lines, columns=["workload", "runs", "in this order"])


def _versions(arms: pd.Series, baseline: str) -> Sequence[str]:
    """The arms that are versions of what the baseline is a version of, in the order of their
    numbers."""

    def bare(name: str) -> str:
        return _VERSION.sub("", name)

    def numbers(name: str) -> list[int]:
        version = _VERSION.search(name)
        return [int(n) for n in re.findall(r"\d+", version[0])] if version else []

    names = [a for a in pd.unique(arms) if bare(a) == bare(baseline) and _VERSION.search(a)]
    return sorted(names, key=numbers)
