"""An ingested archive in the place of a campaign: which of its runs are compared, and with which.

Runs are pooled only where everything else that is known of them agrees. What tells runs of one arm
apart, and is found in the baseline as well, makes workloads of their own; what only the other arms
have makes arms of their own.
"""

import json
import math
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.dataset as ds

from noisefloor import paths, stats, tools
from noisefloor.data import compare, ingest, results
from noisefloor.data.ingest import files
from noisefloor.model import AGAIN, METRICS, PROFILES, Arm, Study, Workload
from noisefloor.stats import agree, trend
from noisefloor.text import Refusal, amounts, answers

OF_PATHS = ("server", "version", "setting")  # what makes an arm where nobody says what does
LABELS = (*OF_PATHS, "variant", "buffer_pool", "host")  # what runs of one arm agree in
LABELS += ("folder", "arm", "study", "campaign", "tool_version")
CHOSEN = (*LABELS, "workload", "threads")  # what runs can be chosen by
MOST_VALUES = 12  # of a label that a refusal names
MOST_OUTLIERS = 12  # runs that are told one by one
APART = 6.0  # times the usual distance of a run from the median of its arm
_VERSION = re.compile(r"\d+(?:\.\d+)+")
HARD = ("campaign", "tool", *tools.must())  # across which nothing can be compared


class Unknown(Refusal):
    """Something was asked for that is not there. One sentence."""

    code = 2


def load(folder, baseline="", *, label="", where=(), **given):
    """The archive in `folder`, with `baseline` as the arm that others are held against, or as the
    value of a `label` (of LABELS, or several with commas between them) that makes the arms. where:
    (label, value) of the runs to judge; given: the other fields of Archive. Raises Unknown,
    NotATable."""
    folder, where = Path(folder), tuple(where)
    if not folder.exists() and (paths.root() / folder).exists():
        folder = paths.root() / folder
    ingest.manifest(folder)  # refuses what is no table
    folder = folder.resolve()
    asked = [(name, LABELS) for name in label.split(",") if name]
    for name, known in (*asked, *((name, CHOSEN) for name, _ in where)):
        if name not in known:
            raise Unknown(f"{name!r} is not one of {', '.join(known)}; nothing was judged")
    given |= {"baseline": baseline, "label": label, "where": where}
    found = _opened(folder, folder.stat().st_mtime_ns, **given)
    runs = found._named.drop_duplicates("run")
    arms, called = set(runs["arm"]), f"--baseline {label}={baseline}" if label else baseline
    if baseline and baseline not in arms:
        there = _values(runs, label or "arm")
        raise Unknown(f"{called}: no run has it; {there}; nothing was judged")
    if label and len(arms) < 2:
        more = ", ".join(n for n in LABELS if runs[n].nunique() > 1)
        raise Unknown(
            f"{called}: all {len(runs)} runs have it, and another {label} is needed beside it; what "
            f"differs is: {more or 'nothing'}; nothing was judged"
        )
    return found


@lru_cache(maxsize=8)
def _opened(folder: Path, _changed: int, **given) -> "Archive":
    return Archive(folder, **given)


@dataclass(frozen=True)
class Archive(results.Results):
    """Somebody's archive in the place of a campaign: a folder of tables of `noisefloor ingest`.
    `texts` is the folder that was ingested, "" where it lies beside the tables. `restarts` and
    `floor`: as `stats.runs` takes them."""

    baseline: str = ""
    label: str = ""
    where: tuple = ()
    texts: str = ""
    restarts: bool = False
    floor: float | None = None
    margin_pct: float = 0.0  # 0: each metric's own

    @cached_property
    def manifest(self) -> dict:
        """What `noisefloor ingest` says of the tables."""
        return ingest.manifest(self.folder)

    @property
    def sources(self) -> tuple[Path, ...]:
        return (self.folder,)

    @cached_property
    def about(self) -> dict:
        """What about.toml beside the tables says of them: title, question, source, licence, date,
        host and engine in words, and the claims of their authors; {} without it."""
        file = self.folder / "about.toml"
        return tomllib.loads(file.read_text()) if file.is_file() else {}

    @cached_property
    def meta(self) -> dict:
        told = {k: self.about[k] for k in ("date", "host", "engine") if k in self.about}
        return {
            "campaign": self.folder.stem,
            "study": self.study.name,
            "title": self.study.title,
            "date": self.manifest["finished"],
        } | told

    @cached_property
    def _named(self) -> pd.DataFrame:
        return _table(self.folder, self.folder.stat().st_mtime_ns, self.label, self.where)

    @cached_property
    def tidy(self) -> pd.DataFrame:
        table = _parted(self._named, self.baseline)
        return table.assign(study=self.folder.stem, campaign=self.folder.stem)

    def judged(self, workload: str = "", metric: str = "") -> pd.DataFrame:
        rows = super().judged(workload, metric)
        rows.attrs["design"] = next(iter(rows["design"].dropna()), "")
        return rows

    def first(self, workload: str) -> str:
        """The arm that a workload is compared with where nobody said so."""
        rows = self.judged(workload)
        try:
            return stats.baseline_of(rows)
        except ValueError:
            return rows["arm"].iloc[0]

    @cached_property
    def study(self) -> Study:
        """The workloads that have something to compare, as if they had been planned."""
        works = []
        for name, rows in self.judged().groupby("workload", sort=False):
            arms = set(rows["arm"])
            if len(arms) > 1 and (not self.baseline or self.baseline in arms):
                threads = tuple(sorted(int(t) for t in rows["threads"].dropna().unique()))
                given = {"threads": threads, "metrics": tuple(pd.unique(rows["metric"]))}
                works.append(Workload(str(name), "As it was found.", **given))
        if not works:
            left = "; ".join(self._several or (self.left if self.baseline else ()))
            raise Unknown(
                f"{self.folder.name} holds no workload with two arms that can be compared; "
                f"{left or 'nothing was left out'}; nothing was judged"
            )
        first = self.baseline or self.first(works[0].name)
        others = (a for a in pd.unique(self.tidy["arm"]) if a not in (first, first + AGAIN))
        return Study(
            name=f"archive-{self.folder.stem}",
            title=self.about.get("title", f"Archive {self.folder.stem}"),
            question=self.about.get("question", "What do these runs say?"),
            baseline=Arm(first),
            arms=tuple(map(Arm, others)),
            workloads=tuple(works),
            design=self.judged(works[0].name).attrs["design"] or stats.UNKNOWN,
            profile=PROFILES["standard"],
            margin_pct=self.margin_pct,
        )

    @property
    def _several(self) -> list[str]:
        """What to name with the baseline, where its runs are of several versions or settings and so
        cannot be pooled: a sentence, or none."""
        runs = self.tidy[self.tidy["arm"] == self.baseline].drop_duplicates("run")
        many = [n for n in OF_PATHS if n != self.label and runs[n].nunique() > 1]
        if not many or not self.label or "," in self.label:
            return []
        name, values = many[0], runs[many[0]].dropna()
        return [
            f"the runs of {self.baseline} have {values.nunique()} values of {name}: name one, as in "
            f"--baseline {self.label}={self.baseline},{name}={values.iloc[0]}"
        ]

    def judge(self, *, workload="", metric="", margin_pct=0.0) -> pd.DataFrame:
        """The verdict table of one workload and metric ("" for all). The intervals of a workload, a
        metric and an arm, one a thread count, hold 95 % together. margin_pct: 0 for the archive's."""
        rows = self.judged(workload, metric)
        rows = rows[rows["workload"].isin([w.name for w in self.study.workloads])]
        found = self._table(rows, metric, margin_pct)
        key = ["workload", "arm"]
        differ = rows.drop_duplicates(key).set_index(key)["differ"]
        pairs = found[key].itertuples(index=False, name=None)
        for said, pair in zip(found["warnings"], pairs, strict=True):
            if what := differ.get(pair):
                said.append(f"the arms differ in {what}, too")
        return found.assign(question=self.study.key, processor=self.processor)

    def _table(self, rows: pd.DataFrame, metric: str, margin_pct: float = 0.0) -> pd.DataFrame:
        """The verdict table of these rows."""
        return stats.table(
            rows,
            margin_pct=margin_pct or self.study.margin_pct,
            baseline=self.study.baseline.name,
            series=self._series(rows) if metric in ("", *compare.HIGHER) else None,
            restarts=self.restarts,
            floor=self.floor,
        )

    def _series(self, rows: pd.DataFrame) -> dict:
        """The transactions per second of the runs that stand alone, as far as they are known."""
        key = ["workload", "arm", "threads"]
        alone = rows.groupby(key, dropna=False)["run"].transform("nunique").eq(1)
        if not alone.any():
            return {}
        asked = ds.field("run").isin(list(set(rows.loc[alone, "run"]))) & ds.field("ok")
        columns = ["run", "tps", "events_per_s"]
        found = ingest.frame(self.folder, "intervals", columns=columns, filter=asked)
        rates = found["tps"].fillna(found["events_per_s"]).astype(float)
        return {run: part.to_numpy() for run, part in rates.groupby(found["run"])}

    @cached_property
    def left(self) -> tuple[str, ...]:
        """What was not compared with the baseline, and why, a sentence each."""
        runs, base, attrs = self.tidy.drop_duplicates("run"), self.baseline, self.tidy.attrs
        counts = runs[runs["arm"] == base].groupby("workload")["threads"].agg(set)
        there = runs["workload"].isin(counts.index)
        alone, rows = runs.loc[~there, "workload"], runs[there]
        single = rows.groupby("workload")["arm"].nunique().eq(1)
        single, noted = (
            single[single].index,
            runs.loc[runs["warnings"].fillna("") != "", "warnings"],
        )
        pairs = zip(rows["workload"], rows["threads"], strict=True)
        apart = [threads for workload, threads in pairs if threads not in counts[workload]]
        names = sorted({int(t) for t in apart if pd.notna(t)})
        often = noted.value_counts().index[0] if len(noted) else ""
        said = {
            "runs hold the same text as another one; each counts once": attrs.get("twins", 0),
            "numbers are 0, and have no ratio to another one": attrs.get("zeros", 0),
            f"runs of {alone.nunique()} workloads have no run of {base} beside them"
            f" ({_few(alone)})": len(alone),
            f"workloads are of {base} alone ({_few(single)})": len(single),
            f"runs have warnings of their own ({often})": len(noted),
            f"runs at thread counts that {base} has not ({_few(names)})": len(apart),
        }
        return tuple(f"{n} {words}" for words, n in said.items() if n)

    # -- for a page ------------------------------------------------------------------------------

    @property
    def lead_metric(self) -> str:
        """Throughput where there is any, else time."""
        there = set(self.verdicts["metric"])
        return next((m for m in compare.LABEL if m in there), self.verdicts["metric"].iloc[0])

    @property
    def counts(self) -> list[str]:
        """A sentence an arm: how many of its comparisons, each at one thread count, have which
        verdict, and from which change to which."""
        rows, said = self.of(metric=self.lead_metric, control=False), []
        for arm, mine in rows[~rows["joint"]].groupby("arm", sort=False):
            times = amounts.in_times(*mine["change_pct"], metric=self.lead_metric)
            words = [
                f"{len(of)} {word} ({_spread(of, times)})"
                for word, of in sorted(mine.groupby("verdict"), key=lambda x: -len(x[1]))
            ]
            label = compare.LABEL.get(self.lead_metric, self.lead_metric)
            many = f"{len(mine)} comparison{'s' * (len(mine) > 1)}"
            said.append(f"{arm} against {self.baseline}, {label}, {many}: {', '.join(words)}.")
        return said

    @property
    def claimed(self) -> list[tuple[str, str]]:
        """What the authors of the runs say, and whether their runs agree: (claim, answer) of each."""
        rows = self.of(metric=self.lead_metric, control=False)
        return [
            (c["said"], _answer(_asserted(rows, c), c, self.baseline))
            for c in self.about.get("claims", ())
        ]

    @cached_property
    def outliers(self) -> pd.DataFrame:
        """Runs that lie apart from the others of their arm at their thread count, farthest first, and
        what would be said without them: a row a run. What is apart is told by how far runs of all arms
        lie from the median of theirs (`APART`)."""
        metric, key = self.lead_metric, ["workload", "threads", "arm"]
        names = [w.name for w in self.study.workloads]
        rows = self.judged(metric=metric)
        rows = rows[rows["workload"].isin(names)]
        logs = np.log(rows["value"].astype(float))
        groups = logs.groupby([rows[c] for c in key], dropna=False)
        away = logs - groups.transform("median")
        scale = 1.4826 * away[away.ne(0)].abs().median()
        margin = math.log1p(METRICS[metric].margin_pct / 100) if metric in METRICS else 0.0
        far = away.abs()[(away.abs() > max(APART * scale, margin)) & groups.transform("size").ge(3)]
        far = rows.loc[far.sort_values(ascending=False).index[:MOST_OUTLIERS]]
        found = []
        for index, row in far.iterrows():
            others = rows.drop(index=index)
            mine = others[(others[key] == row[key]).all(axis=1)]["value"].astype(float)
            found.append(
                {c: row[c] for c in key}
                | {
                    "this run": f"{row['value']:,.5g}",
                    "the others": ", ".join(f"{v:,.5g}" for v in mine),
                    "it lies": amounts.change(100 * math.expm1(away[index]), metric),
                    "without it": self._without(row, others, metric),
                }
            )
        return pd.DataFrame(
            found, columns=[*key, "this run", "the others", "it lies", "without it"]
        )

    def _without(self, run: pd.Series, others: pd.DataFrame, metric: str) -> str:
        """What the other runs of a workload say where one is left out: `m6g: faster, +4.7 %, with it
        cannot tell, +0.7 %` for each arm."""
        mine = others[others["workload"].eq(run["workload"])]
        mine.attrs["design"] = next(iter(mine["design"].dropna()), "")
        now, then = self._table(mine, metric), self.of(run["workload"], metric, control=False)
        told = []
        for arm in (
            [a.name for a in self.study.arms] if run["arm"] == self.baseline else [run["arm"]]
        ):
            here = (_row_of(table, arm, run["threads"]) for table in (now, then))
            told += [f"{arm}: {a}, with it {b}" for a, b in [tuple(here)] if a and b]
        return "; ".join(told)

    @cached_property
    def trends(self) -> pd.DataFrame:
        """Of arms that are versions, three or more, what each workload says of all of them in their
        order: columns workload, runs, in this order. A thread count that not every version has is
        left out, and throughput is taken against its mean over versions; where versions may have had
        one start each, a version is one number. The order is that of the version numbers, and so
        declared before anything was looked at."""
        metric, found = self.lead_metric, []
        rows = self.judged(metric=metric)
        for name in (w.name for w in self.study.workloads if "version" in self.label.split(",")):
            mine = rows[rows["workload"].eq(name)]
            arms = _versions(mine["arm"], self.baseline)
            mine = mine[mine["arm"].isin(arms)]
            there = mine.groupby("threads", dropna=False)["arm"].transform("nunique").eq(len(arms))
            mine = mine[there]
            logs = np.log(mine["value"].astype(float))
            logs -= logs.groupby(mine["threads"], dropna=False).transform("mean")
            each = [logs[mine["arm"].eq(a)] for a in arms]
            means = [float(v.mean()) for v in each]
            values = [list(v) if self.restarts else [m] for v, m in zip(each, means, strict=True)]
            if len(mine) and (told := trend.trend(values)):
                changes = [100 * math.expm1(m - means[0]) for m in means]
                how = {"decided": told.decided, "tau": told.tau, "chance": told.p}
                said = f"{', '.join(arms)}: {answers.in_order(arms, changes, metric, **how)}"
                found.append((name, len(mine), said))
        return pd.DataFrame(found, columns=["workload", "runs", "in this order"])

    def largest(self, rows: pd.DataFrame, most: int = 8) -> pd.DataFrame:
        """Rows of the workloads that rest on most runs, those with several thread counts first, in
        the order of the numbers in their names."""
        size = rows.groupby("workload")["n_arm"].sum()
        size += size.max() * rows.groupby("workload")["threads"].nunique().gt(1)
        kept = size.sort_values(ascending=False, kind="stable").index[:most]
        return in_order(rows[rows["workload"].isin(kept)])

    def summary(self, rows: pd.DataFrame, most: int = 40) -> pd.DataFrame:
        """One row a comparison, in the same order: the joint one, else that of the most threads."""
        key = ["workload", "metric", "arm"]
        last = rows.sort_values(["joint", "threads"]).drop_duplicates(key, keep="last")
        return in_order(last.sort_index()).head(most)

    @property
    def left_out(self) -> pd.DataFrame:
        """What was not compared: a column."""
        return pd.DataFrame({"left out": self.left})

    @property
    def held(self) -> pd.DataFrame:
        """Labels of the runs: columns label, runs that have it, values."""
        rows = [(name, n, k) for name, (n, k) in self.manifest.get("labels", {}).items()]
        return pd.DataFrame(rows, columns=["label", "runs", "values"])

    @property
    def facts(self) -> dict:
        """Where the numbers come from."""
        names = ("name", "finished", "files", "runs", "problems", "kinds")
        return {
            "archive": {k: self.manifest.get(k) for k in names},
            **{k: self.about.get(k) for k in ("source", "article", "licence")},
            "held against": f"{self.label}={self.baseline}",
            "only": dict(self.where),
            "margin_pct": self.margin_pct,
        }

    def notes(self, workload: str) -> list[str]:
        """What the arms of a workload differ in beyond their name, as a sentence."""
        told = [d for d in pd.unique(self.judged(workload)["differ"]) if d]
        return [f"The arms differ in {d}, too." for d in told]

    def raw(self, run: str) -> dict[str, str]:
        """What was printed in a run: name of the text -> text."""
        row = self.tidy[self.tidy["run"] == run].iloc[0]
        name, beside = row["file"], self.folder.parent
        near = [Path(self.texts)] if self.texts else [beside, beside / self.manifest["name"]]
        for file, place in ((place / name, place) for place in near):
            if file.exists() and file.resolve().is_relative_to(place.resolve()):
                if file.is_dir():  # a campaign
                    return results.Results(file).raw(run.removeprefix(f"{name}/"))
                return {run: results.cut(files.printed(file, name, run, row["line"]))}
        said = "The text is not beside the tables. Write into `texts` which folder was ingested."
        return {name: said}


def asked(texts) -> list[tuple[str, str]]:
    """(label, value) of every ``LABEL=VALUE``; of ``LABEL=VALUE,LABEL=VALUE`` both labels with a
    comma, both values with a blank between them. Raises Unknown for anything else."""
    found = []
    for text in texts:
        parts = [part.partition("=") for part in re.split(r",(?=[a-z_]+=)", text)]
        if not all(name and value for name, _, value in parts):
            raise Unknown(f"{text}: LABEL=VALUE is needed, such as server=mysql; nothing was read")
        found.append((",".join(n for n, _, _ in parts), " ".join(v for *_, v in parts)))
    return found


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows by workload, 2G before 12G."""
    names = rows["workload"].str.replace(r"\d+", lambda n: n[0].zfill(9), regex=True)
    return rows.iloc[names.argsort(kind="stable").to_numpy()]


def _asserted(rows: pd.DataFrame, claim: dict) -> pd.DataFrame:
    """The rows that a claim is about: those of its arm at the thread counts that it names for what
    the workloads' names end with."""
    rows, found = rows[rows["arm"].eq(claim["arm"]) & ~rows["joint"]], []
    for end, (least, most) in claim["at"].items():
        there = rows["workload"].str.split(", ").str[-1].eq(end)
        found.append(rows[there & rows["threads"].between(least, most).fillna(False)])
    return pd.concat(found)


def _theirs(claim: dict, baseline: str) -> agree.Range:
    """The change that a claim names, of its arm against the baseline, in percent. leader: who is
    ahead; by: from and to how many percent; of: whose number they are a share of. Without numbers:
    any change in that direction. Raises Unknown for a claim that cannot be read."""
    arms, whose = (claim["arm"], baseline), claim.get("of", baseline)
    leader, by = claim.get("leader"), claim.get("by", [0, 0])
    own = whose == leader
    if leader not in arms or whose not in arms or len(by) != 2 or (own and max(by) >= 100):
        raise Unknown(
            f"about.toml, {claim['said']!r}: `leader` and `of` name one of {' and '.join(arms)}, `by`"
            " holds from and to how many percent, below 100 of the leader's own; nothing was judged"
        )
    ahead = leader == claim["arm"]
    if "by" not in claim:
        return (0.0, math.inf) if ahead else (-100.0, 0.0)
    ends = sorted(agree.changed(p, ahead=ahead, own=own) for p in claim["by"])
    return ends[0], ends[1]


def _answer(rows: pd.DataFrame, claim: dict, baseline: str) -> str:
    """Whether rows agree with a claim, by the rule for all claims, both told as changes of the arm
    against the baseline in one unit. A claim about an average is held against the mean change, whose
    interval is as wide as if the rows shared all of their errors."""
    theirs, rows = _theirs(claim, baseline), rows[rows["lo_pct"].notna()]
    if rows.empty:
        return f"{agree.NOT_COMPARABLE}: no runs of both with an interval"
    metric, ends = rows["metric"].iloc[0], ["change_pct", "lo_pct", "hi_pct"]
    if claim.get("mean"):
        mean = 100 * np.expm1(np.log1p(rows[ends].astype(float) / 100).mean())
        rows = rows.head(1).assign(**mean.to_dict())
    said = [agree.word(theirs, (r["lo_pct"], r["hi_pct"])) for r in rows.to_dict("records")]
    limits = theirs if "by" in claim else ()
    times = amounts.in_times(*rows["change_pct"], *limits, metric=metric)
    unit = amounts.spread(*theirs, metric, times=times) if "by" in claim else ""
    that = f"that is {unit}; " if unit else ""
    if claim.get("mean") or len(rows) == 1:
        return f"{that}{said[0]}: {_told(rows.iloc[0], times)}"
    broken = rows[[w == agree.DISAGREES for w in said]]
    here = f"here {_spread(rows, times)}{_farthest(rows, theirs, times)}"
    if broken.empty:
        return f"{that}{agree.AGREES} at all {len(rows)}: {here}"
    places = ", ".join(
        f"{r['workload'].split(', ')[-1]} with {_counted(r['threads'])} {_spread(part, times)}"
        for (_, r), part in ((row, broken.loc[[row[0]]]) for row in broken.head(3).iterrows())
    )
    more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
    return f"{that}{agree.DISAGREES} at {len(broken)} of {len(rows)} ({places}{more}): {here}"


def _farthest(rows: pd.DataFrame, theirs: agree.Range, times: bool) -> str:
    """The interval of the change that lies farthest outside of what is claimed; "" where none
    does."""
    change = rows["change_pct"].astype(float)
    out = np.maximum(theirs[0] - change, change - theirs[1])
    if out.max() <= 0:
        return ""
    return f"; farthest from it {_told(rows.loc[out.idxmax()], times)}"


def _counted(threads) -> str:
    """`1 thread`, `16 threads`."""
    return f"{threads} thread{'s' * (threads != 1)}"


def _spread(rows: pd.DataFrame, times: bool | None = None) -> str:
    """From which change to which rows of one metric go."""
    ends = (f(rows["change_pct"].astype(float)) for f in (min, max))
    return amounts.spread(*ends, rows["metric"].iloc[0], times=times)


def _told(row: pd.Series, times: bool | None = None) -> str:
    """A change with its interval, all in one unit: `-3.4 % (-9.4 to +2.9 %)`."""
    metric, change, ends = row["metric"], row["change_pct"], (row["lo_pct"], row["hi_pct"])
    times = amounts.in_times(change, *ends, metric=metric) if times is None else times
    first = amounts.spread(change, change, metric, times=times)
    return f"{first} ({amounts.spread(*ends, metric, times=times)})"


def _row_of(table: pd.DataFrame, arm: str, threads) -> str:
    """`cannot tell, +0.7 % (-4.0 to +5.6 %)` of an arm at a thread count; "" where it has no row."""
    alone = ~table["joint"].astype(bool) & table["arm"].eq(arm)
    rows = table[
        alone & (table["threads"].isna() if pd.isna(threads) else table["threads"].eq(threads))
    ]
    if rows.empty:
        return ""
    return f"{rows['verdict'].iloc[0]}, {_told(rows.iloc[0])}"


def _versions(arms: pd.Series, baseline: str) -> list[str]:
    """The arms that are versions of what the baseline is a version of, in the order of their
    numbers."""

    def bare(name: str) -> str:
        return _VERSION.sub("", name)

    names = [a for a in pd.unique(arms) if bare(a) == bare(baseline) and _VERSION.search(a)]
    return sorted(names, key=lambda a: [int(n) for n in re.findall(r"\d+", _VERSION.search(a)[0])])


def _few(names) -> str:
    """The first few of many names, each shortened."""
    names = [n if len(n) <= 48 else f"{n[:47]}…" for n in dict.fromkeys(map(str, names))]
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


# -- which runs are compared ---------------------------------------------------------------------


@lru_cache(maxsize=4)
def _table(folder: Path, _changed: int, label: str, where: tuple) -> pd.DataFrame:
    """The tidy table of an archive, its arms named, each text once."""
    found = ingest.frame(folder, "tidy")
    kept = found["metric"].isin([m.name for m in METRICS.values() if m.judged])
    if not kept.any():
        raise Unknown(f"{folder.name} holds no metric that can be judged; nothing was opened")
    zeros = int(found["value"].le(0)[kept].sum())
    found = found[kept & found["value"].gt(0)]
    size = found["buffer_pool_B"].map(lambda b: f"{b / 2**30:g}G", na_action="ignore")
    found = found.assign(buffer_pool=size, threads=found["threads"].astype("Int64"))
    for name, value in (*where, *((n, "") for n in label.split(",") if n)):
        values = found[name].astype("string").fillna("")
        kept = values.eq(value) if value else values.ne("")
        if not kept.any():
            asked = f"{name}={value}: no run has it; " if value else ""
            there = _values(found.drop_duplicates("run"), name)
            raise Unknown(f"{asked}{there}; nothing was judged")
        found = found[kept]
    found = found.reset_index(drop=True)
    if label:
        found["arm"] = found[label.split(",")].astype(str).agg(" ".join, axis=1)
    else:
        found["arm"] = found["arm"].fillna(_arms(found)).replace("", "all runs")
    found["workload"] = found["workload"].fillna("all runs")
    found["warmup"] = found["warmup"].eq(True)
    twins = _twins(folder, found)
    found = found[~found["run"].isin(twins)].reset_index(drop=True)
    found.attrs |= {"twins": len(twins), "zeros": zeros, "label": label}
    return found


def _values(runs: pd.DataFrame, label: str) -> str:
    """Which values a label has, and in how many runs; without any, which labels there are."""
    named = runs["arm"] if "," in label else runs[label]
    counts = named.dropna().astype(str).replace("", pd.NA).value_counts()
    if counts.empty:
        there = [n for n in LABELS if runs[n].notna().any()]
        return f"no run has a {label}, labels of these runs are: {', '.join(there) or 'none'}"
    told = ", ".join(f"{value} ({n} runs)" for value, n in counts.head(MOST_VALUES).items())
    return f"{label} is: {told}{' …' if len(counts) > MOST_VALUES else ''}"


def _arms(found: pd.DataFrame) -> pd.Series:
    """What labels of folders call an arm: server and version, and the setting, as far as they
    tell any runs without an arm apart."""
    labels = found.reindex(columns=OF_PATHS).astype("string").fillna("")
    several = labels[found["arm"].isna()].nunique().gt(1)
    kept = ["server", "version"] if several["server"] or several["version"] else []
    kept += ["setting"] if several["setting"] else []
    words = pd.Series("", labels.index, dtype="string")
    for name in kept or OF_PATHS:
        words = words + " " + labels[name]
    return words.str.split().str.join(" ")


def _twins(folder: Path, found: pd.DataFrame) -> pd.Series:
    """Runs of an archive that are the same text as another one, whose file's name says least."""
    files = ingest.frame(folder, "files", columns=["file", "member", "sha256"])
    files = files[files["sha256"] != ""]
    inside = ("//" + files["member"]).where(files["member"] != "", "")
    text = pd.Series(files["sha256"].to_numpy(), index=files["file"] + inside)
    runs = found[["run", "line", "variant"]].drop_duplicates("run")
    runs = runs.sort_values("variant", na_position="first", kind="stable")
    pairs = zip(runs["run"], runs["line"], strict=True)
    names = [run.removesuffix(f":{line}") for run, line in pairs]
    runs = runs.assign(text=text[~text.index.duplicated()].reindex(names).to_numpy())
    return runs.loc[runs["text"].notna() & runs.duplicated(["text", "line"]), "run"]


def _facts(runs: pd.DataFrame, label: str) -> pd.DataFrame:
    """What else is known of each run, as text: a column a fact, "" where it is not known."""
    own = set(label.split(",")) if label else {*OF_PATHS, "arm"}
    if own & {"folder", "setting", "arm"}:
        own |= {"folder", "setting", "arm"}
    names = [n for n in (*LABELS[:6], "campaign", "tool") if n not in own]
    facts = runs[names].rename(columns={"buffer_pool": "buffer pool"})
    facts["threads in the path"] = runs["path_threads"].where(runs["threads"].isna())
    keys = pd.DataFrame(list(map(json.loads, runs["keys"])), index=runs.index)
    facts = pd.concat([facts.drop(columns=keys.columns, errors="ignore"), keys], axis=1)
    return facts.astype("string").fillna("").astype(object)


def _parted(found: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """The rows of an archive: a workload's name with what tells runs of one arm apart behind it, an
    arm's with what the baseline does not have, and in `differ` what the arm differs in from its
    baseline beyond that."""
    runs = found.drop_duplicates("run").set_index("run")
    facts = _facts(runs, found.attrs["label"])
    named = runs[["workload", "arm"]].astype(str)
    for _, part in facts.groupby(named["workload"], sort=False):
        base = named.loc[part.index, "arm"] == baseline
        for name in part:
            what = _tells(part[name], named.loc[part.index, "arm"], base, name in HARD)
            if what:
                has = part.index[part[name].ne("") & (~base | (what == "workload"))]
                before = ", " if name in ("setting", "variant") else f", {name} "
                before = " " if what == "arm" else before
                named.loc[has, what] += before + part.loc[has, name]
    differ = pd.Series("", runs.index)
    for _, part in facts.groupby(named["workload"], sort=False):
        base = named.loc[part.index, "arm"] == baseline
        for name in (n for n in part if part[n].nunique() > 1):
            if not baseline:
                differ[part.index] += f", {name}"
            elif part.loc[base, name].nunique() == 1:
                theirs = part.loc[base, name].iloc[0]
                others = part.loc[~base & part[name].ne(theirs), name].replace("", "none")
                words = f"; {name.replace('_', ' ')} ({theirs or 'none'} and "
                differ[others.index] += words + others + ")"
    named["differ"] = differ.str[2:]
    return found.assign(**{c: found["run"].map(named[c]) for c in named})


def _tells(values: pd.Series, arm: pd.Series, base: pd.Series, hard: bool) -> str:
    """Whether a fact makes workloads of its own ("workload"), or arms ("arm"): where it differs
    inside an arm, and the baseline has none of the values of the others."""
    if values.nunique() < 2:
        return ""
    inside = values.groupby(arm).nunique().gt(1).any()
    if hard or not base.any():
        return "workload" if hard or inside else ""
    shared = ({*values[base]} & {*values[~base]}) - {""}
    if values[base].nunique() > 1 or (shared and inside):
        return "workload"
    return "arm" if inside and not shared else ""
