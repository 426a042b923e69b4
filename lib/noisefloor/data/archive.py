"""An ingested archive in the place of a campaign, and which of its runs are compared.

Runs are pooled only if all their other labels agree. Labels that differ between runs of one arm
make separate workloads if the baseline has them as well, and separate arms if only other arms have
them.
"""

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.dataset as ds

from noisefloor import paths, stats, tools
from noisefloor.data import compare, ingest, results
from noisefloor.data.ingest import files
from noisefloor.model import CONTROL_SUFFIX, METRICS, PROFILES, Arm, Study, Workload
from noisefloor.text import Refusal
from noisefloor.text.reasons import Reason, Why, without

OF_PATHS = ("server", "version", "setting")  # the labels that make an arm, unless others are named
# labels in which runs of one arm agree
LABELS: tuple[str, ...] = (*OF_PATHS, "variant", "buffer_pool", "host")
LABELS += ("folder", "arm", "study", "campaign", "tool_version")
CHOSEN = (*LABELS, "workload", "threads")  # labels by which runs can be chosen
RUNS = [
    *("run", "workload", "arm", "threads", "differ", *LABELS[:7], "tool", "tool_version"),
    *("duration_s", "file", "line", "warnings"),
]  # of `Archive.runs`
MOST_VALUES = 12  # of a label that a refusal names
# facts that must be equal in both arms of a comparison
HARD = {"campaign", "tool", *(name for tool in tools.all_tools() for name in tool.MUST)}


def load(
    folder: str | Path,
    baseline: str = "",
    *,
    label: str = "",
    where: Iterable[tuple[str, str]] = (),
    texts: str = "",
    **rule: Any,
) -> "Archive":
    """The archive in `folder`. label: one of LABELS that makes the arms, or several separated by
    commas; "" for OF_PATHS. baseline: the arm that others are compared with; with a label, its value.
    where: (label, value) of the runs to judge; texts: as in Archive; rule: the fields of Rule.
    Raises Refusal."""
    folder, where = Path(folder), tuple(where)
    if not folder.exists() and (paths.root() / folder).exists():
        folder = paths.root() / folder
    if not ingest.manifest(folder).get("finished"):
        raise Refusal(
            f"the tables in {folder} are not whole, ingest was interrupted: run `noisefloor ingest` "
            "again; nothing was judged"
        )
    folder = folder.resolve()
    asked = [(name, LABELS) for name in label.split(",") if name]
    for name, known in (*asked, *((name, CHOSEN) for name, _ in where)):
        if name not in known:
            raise Refusal(f"{name!r} is not one of {', '.join(known)}; nothing was judged")
    given = {"baseline": baseline, "label": label, "where": where, "texts": texts}
    archive = _opened(folder, folder.stat().st_mtime_ns, **given, rule=Rule(**rule))
    runs = archive._named.rows.drop_duplicates("run")
    arms, called = set(runs["arm"]), f"--baseline {label}={baseline}" if label else baseline
    if baseline and baseline not in arms:
        there = _values(runs, label or "arm")
        raise Refusal(f"{called}: no run has it; {there}; nothing was judged")
    if label and len(arms) < 2:
        more = ", ".join(n for n in LABELS if runs[n].nunique() > 1)
        raise Refusal(
            f"{called}: all {len(runs)} runs have it, and another {label} is needed beside it; what "
            f"differs is: {more or 'nothing'}; nothing was judged"
        )
    return archive


@lru_cache(maxsize=8)
def _opened(folder: Path, _changed: int, **given: Any) -> "Archive":
    return Archive(folder, **given)


class Rule(NamedTuple):
    """How the runs of an archive are judged: arguments of `stats.runs.judge_runs`."""

    restarts: bool = False
    floor: float | str | None = None
    margin_pct: float = 0.0  # 0: each metric's own


_USUAL = Rule()


@dataclass(frozen=True)
class Archive(results.Results):
    """An archive in the place of a campaign: a folder of tables of `noisefloor ingest`. `texts` is
    the folder that was ingested, "" if it lies beside the tables; the other fields: as in `load`."""

    baseline: str = ""
    label: str = ""
    where: tuple[tuple[str, str], ...] = ()
    texts: str = ""
    rule: Rule = _USUAL

    @property
    def sources(self) -> tuple[Path, ...]:
        return (self.folder,)

    @cached_property
    def about(self) -> dict[str, Any]:
        """about.toml beside the tables: title (a question), how they were measured and what to do in
        words, source, licence, date, host, engine, names of arms and workloads, and the claims of the
        authors; {} without that file."""
        file = self.folder / "about.toml"
        return tomllib.loads(file.read_text()) if file.is_file() else {}

    @cached_property
    def meta(self) -> dict[str, Any]:
        described = {k: self.about[k] for k in ("date", "host", "engine") if k in self.about}
        return {
            "campaign": self.folder.stem,
            "study": self.study.name,
            "title": self.study.title,
            "date": ingest.manifest(self.folder)["finished"],
        } | described

    @cached_property
    def _named(self) -> "_Named":
        return _table(self.folder, self.folder.stat().st_mtime_ns, self.label, self.where)

    @cached_property
    def tidy(self) -> pd.DataFrame:
        table = _parted(self._named.rows, self.baseline, self.label)
        return table.assign(study=self.folder.stem, campaign=self.folder.stem)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row a run that can be compared, its workload and arm as they are judged: columns `RUNS`."""
        return self.judged().drop_duplicates("run")[RUNS].reset_index(drop=True)

    @cached_property
    def study(self) -> Study:
        """A study of all workloads with two arms that can be compared. Raises Refusal without one."""
        works = []
        for name, rows in self.judged().groupby("workload", sort=False):
            arms = set(rows["arm"])
            if len(arms) > 1 and (not self.baseline or self.baseline in arms):
                threads = tuple(sorted(int(t) for t in rows["threads"].dropna().unique()))
                metrics = tuple(pd.unique(rows["metric"]))
                why = "As it was found."
                works.append(Workload(str(name), why, threads=threads, metrics=metrics))
        if not works:
            left = "; ".join(self._several or (self.left if self.baseline else ()))
            raise Refusal(
                f"{self.folder.name} holds no workload with two arms that can be compared; "
                f"{left or 'nothing was left out'}; nothing was judged"
            )
        first = self.baseline or usual_baseline(self, works[0].name)
        others = (
            a for a in pd.unique(self.tidy["arm"]) if a not in (first, first + CONTROL_SUFFIX)
        )
        title = self.about.get("title", f"What do the runs of {self.folder.stem} say?")
        return Study(
            name=f"archive-{self.folder.stem}",
            title=title,
            question=title,
            baseline=Arm(first),
            arms=tuple(map(Arm, others)),
            workloads=tuple(works),
            design=_design(self.judged(works[0].name)),
            profile=PROFILES["standard"],
            margin_pct=self.rule.margin_pct,
        )

    @property
    def _several(self) -> list[str]:
        """What else to name with the baseline if its runs are of several servers, versions or
        settings and so cannot be pooled: one sentence; [] if they can."""
        runs = self.tidy[self.tidy["arm"] == self.baseline].drop_duplicates("run")
        many = [n for n in OF_PATHS if n != self.label and runs[n].nunique() > 1]
        if not many or not self.label or "," in self.label:
            return []
        name, values = many[0], runs[many[0]].dropna()
        return [
            f"the runs of {self.baseline} have {values.nunique()} values of {name}: name one, as in "
            f"--baseline {self.label}={self.baseline},{name}={values.iloc[0]}"
        ]

    def judge(
        self, *, workload: str = "", metric: str = "", margin_pct: float = 0.0
    ) -> pd.DataFrame:
        """The verdict table of one workload and metric ("" for all). The intervals of one workload,
        metric and arm, one a thread count, hold at 95 % together. margin_pct: 0 for the archive's."""
        rows = self.judged(workload, metric)
        rows = rows[rows["workload"].isin([w.name for w in self.study.workloads])]
        verdicts = judge_rows(self, rows, metric, margin_pct)
        key = ["workload", "arm"]
        first = rows.drop_duplicates(key).set_index(key)
        pairs = verdicts[key].itertuples(index=False, name=None)
        for warnings, pair in zip(verdicts["warnings"], pairs, strict=True):
            if what := first["differ"][pair]:
                warnings.append(Reason(Why.ARMS_DIFFER, what=what))
            if json.loads(first["keys"][pair]).get("rate", "none") != "none":
                warnings[:] = [*without(warnings, Why.SAME_AS_TPS), Reason(Why.FIXED_RATE)]
        return verdicts.assign(question=self.study.key, processor=self.processor)

    def _series(self, rows: pd.DataFrame) -> dict[str, Any]:
        """{run: its transactions in each second} of arms with a single run, as far as known."""
        key = ["workload", "arm", "threads"]
        alone = rows.groupby(key, dropna=False)["run"].transform("nunique").eq(1)
        if not alone.any():
            return {}
        asked = ds.field("run").isin(list(set(rows.loc[alone, "run"]))) & ds.field("ok")
        columns = ["run", "tps", "events_per_s"]
        seconds = ingest.frame(self.folder, "intervals", columns=columns, filter=asked)
        rates = seconds["tps"].fillna(seconds["events_per_s"]).astype(float)
        return {run: part.to_numpy() for run, part in rates.groupby(seconds["run"])}

    @cached_property
    def left(self) -> tuple[str, ...]:
        """What was not compared with the baseline, and why, a sentence each."""
        runs, base = self.tidy.drop_duplicates("run"), self.baseline
        threads = runs[runs["arm"] == base].groupby("workload")["threads"].agg(set)
        there = runs["workload"].isin(threads.index)
        alone, rows = runs.loc[~there, "workload"], runs[there]
        lone = rows.groupby("workload")["arm"].nunique().eq(1)
        single = lone[lone].index
        noted = runs.loc[runs["warnings"].fillna("") != "", "warnings"]
        pairs = zip(rows["workload"], rows["threads"], strict=True)
        apart = [count for workload, count in pairs if count not in threads[workload]]
        names = sorted({int(t) for t in apart if pd.notna(t)})
        often = noted.value_counts().index[0] if len(noted) else ""
        counts = {
            "runs hold the same text as another one; each counts once": self._named.twins,
            "numbers are 0, and have no ratio to another one": self._named.zeros,
            f"runs of {alone.nunique()} workloads have no run of {base} beside them"
            f" ({_few(alone)})": len(alone),
            f"workloads are of {base} alone ({_few(single)})": len(single),
            f"runs have warnings of their own ({often})": len(noted),
            f"runs at thread counts that {base} has not ({_few(names)})": len(apart),
        }
        return tuple(f"{n} {words}" for words, n in counts.items() if n)


def usual_baseline(archive: Archive, workload: str) -> str:
    """The baseline of a workload if none is named: by `stats.baseline_of`, else the first arm."""
    rows = archive.judged(workload)
    try:
        return stats.baseline_of(rows)
    except ValueError:
        return rows["arm"].iloc[0]


def judge_rows(
    archive: Archive, rows: pd.DataFrame, metric: str, margin_pct: float = 0.0
) -> pd.DataFrame:
    """The verdict table of rows of one metric, "" for all; margin_pct: 0 for the archive's."""
    return stats.table(
        rows,
        margin_pct=margin_pct or archive.study.margin_pct,
        baseline=archive.study.baseline.name,
        design=_design(rows),
        series=archive._series(rows),
        restarts=archive.rule.restarts,
        floor=archive.rule.floor,
        local=not archive.about,  # a published archive is judged the same on every machine
    )


def texts_of(source: results.Results, run: str) -> dict[str, str]:
    """Name -> printed text of a run of a campaign or an archive; a sentence if it is not there."""
    if not isinstance(source, Archive):
        return results.raw(source, run)
    row = source.tidy[source.tidy["run"] == run].iloc[0]
    name, beside = row["file"], source.folder.parent
    near = [beside, beside / ingest.manifest(source.folder)["name"]]
    near = [Path(source.texts)] if source.texts else near
    for file, place in ((place / name, place) for place in near):
        if file.exists() and file.resolve().is_relative_to(place.resolve()):
            if file.is_dir():  # a campaign
                return results.raw(results.Results(file), run.removeprefix(f"{name}/"))
            return {run: results.shortened(files.printed(file, name, run, row["line"]))}
    return {
        name: "The text is not beside the tables. Write into `texts` which folder was ingested."
    }


def asked(texts: Iterable[str]) -> list[tuple[str, str]]:
    """(label, value) of every ``LABEL=VALUE``. Of ``LABEL=VALUE,LABEL=VALUE`` the labels are joined
    by a comma, the values by a blank. Raises Refusal for anything else."""
    pairs = []
    for text in texts:
        parts = [part.partition("=") for part in re.split(r",(?=[a-z_]+=)", text)]
        if not all(name and value for name, _, value in parts):
            raise Refusal(f"{text}: LABEL=VALUE is needed, such as server=mysql; nothing was read")
        pairs.append((",".join(n for n, _, _ in parts), " ".join(v for *_, v in parts)))
    return pairs


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows sorted by workload, numbers in its name by size: 2G before 12G."""
    names = rows["workload"].str.replace(r"\d+", lambda n: n[0].zfill(9), regex=True)
    return rows.iloc[names.argsort(kind="stable").to_numpy()]


def _design(rows: pd.DataFrame) -> str:
    """The design of runs: the first that any of them names, else unknown."""
    return next(filter(None, rows["design"].dropna()), stats.UNKNOWN)


def _few(names: Iterable[Any]) -> str:
    """The first few of many names, each shortened."""
    short = [n if len(n) <= 48 else f"{n[:47]}…" for n in dict.fromkeys(map(str, names))]
    return ", ".join(short[:3]) + (" …" if len(short) > 3 else "")


# -- which runs are compared ---------------------------------------------------------------------


class _Named(NamedTuple):
    """The tidy table of an archive, with names of arms; each text counts once."""

    rows: pd.DataFrame
    twins: int  # runs that hold the text of another one
    zeros: int  # numbers that are 0


@lru_cache(maxsize=4)
def _table(folder: Path, _changed: int, label: str, where: tuple[tuple[str, str], ...]) -> _Named:
    rows = ingest.frame(folder, "tidy")
    kept = rows["metric"].isin([m.name for m in METRICS.values() if m.judged])
    if not kept.any():
        raise Refusal(f"{folder.name} holds no metric that can be judged; nothing was opened")
    rows = rows[kept]
    size = rows["buffer_pool_B"].map(lambda b: f"{b / 2**30:g}G", na_action="ignore")
    rows = rows.assign(buffer_pool=size, threads=rows["threads"].astype("Int64"))
    for name, value in (*where, *((n, "") for n in label.split(",") if n)):
        values = rows[name].astype("string").fillna("")
        kept = values.eq(value) if value else values.ne("")
        if not kept.any():
            asked = f"{name}={value}: no run has it; " if value else ""
            there = _values(rows.drop_duplicates("run"), name)
            raise Refusal(f"{asked}{there}; nothing was judged")
        rows = rows[kept]
    zeros = int(rows["value"].le(0).sum())
    rows = rows[rows["value"].gt(0)].reset_index(drop=True)
    if label:
        rows["arm"] = rows[label.split(",")].astype(str).agg(" ".join, axis=1)
    else:
        rows["arm"] = rows["arm"].fillna(_arms(rows)).replace("", "all runs")
    rows["workload"] = rows["workload"].fillna("all runs")
    rows["warmup"] = rows["warmup"].eq(True)
    twins = _twins(folder, rows)
    rows = rows[~rows["run"].isin(twins)].reset_index(drop=True)
    return _Named(rows, len(twins), zeros)


def _values(runs: pd.DataFrame, label: str) -> str:
    """The values of a label, and how many runs have each; if no run has it, the labels there are."""
    named = runs["arm"] if "," in label else runs[label]
    counts = named.dropna().astype(str).replace({"": pd.NA}).value_counts()
    if counts.empty:
        there = [n for n in LABELS if runs[n].notna().any()]
        return f"no run has a {label}, labels of these runs are: {', '.join(there) or 'none'}"
    listed = ", ".join(f"{value} ({n} runs)" for value, n in counts.head(MOST_VALUES).items())
    return f"{label} is: {listed}{' …' if len(counts) > MOST_VALUES else ''}"


def _arms(rows: pd.DataFrame) -> pd.Series:
    """Names of arms from labels of folders: server and version, and the setting, as far as they
    differ between runs without an arm; all of them if none differs."""
    labels = rows.reindex(columns=OF_PATHS).astype("string").fillna("")
    several = labels[rows["arm"].isna()].nunique().gt(1)
    kept = ["server", "version"] if several["server"] or several["version"] else []
    kept += ["setting"] if several["setting"] else []
    words = pd.Series("", labels.index, dtype="string")
    for name in kept or OF_PATHS:
        words = words + " " + labels[name]
    return words.str.split().str.join(" ")


def _twins(folder: Path, rows: pd.DataFrame) -> pd.Series:
    """Runs to leave out: of equal texts all but the one whose `variant` is missing or sorts first,
    and second copies of a campaign's run."""
    files = ingest.frame(folder, "files", columns=["file", "member", "sha256"])
    files = files[files["sha256"] != ""]
    inside = ("//" + files["member"]).where(files["member"] != "", "")
    text = pd.Series(files["sha256"].to_numpy(), index=files["file"] + inside)
    runs = rows[["run", "line", "variant", "file", "labels_from"]].drop_duplicates("run")
    runs = runs.sort_values("variant", na_position="first", kind="stable")
    pairs = zip(runs["run"], runs["line"], strict=True)
    names = pd.Series([run.removesuffix(f":{line}") for run, line in pairs], runs.index)
    ours = runs["labels_from"].eq("campaign")
    texts = text[~text.index.duplicated()].reindex(names.mask(ours, runs["file"]))
    at = runs["line"].astype(object).mask(ours, runs["run"].str.rpartition("/")[2])
    runs = runs.assign(text=texts.to_numpy(), at=at)
    return runs.loc[runs["text"].notna() & runs.duplicated(["text", "at"]), "run"]


def _facts(runs: pd.DataFrame, label: str) -> pd.DataFrame:
    """What is known of each run beside its arm, as text: a column a fact, "" where not known."""
    named = set(label.split(",")) if label else {*OF_PATHS, "arm"}
    if named & {"folder", "setting", "arm"}:
        named |= {"folder", "setting", "arm"}
    names = [n for n in (*LABELS[:6], "campaign", "tool") if n not in named]
    facts = runs[names].rename(columns={"buffer_pool": "buffer pool"})
    facts["threads in the path"] = runs["path_threads"].where(runs["threads"].isna())
    keys = pd.DataFrame(list(map(json.loads, runs["keys"])), index=runs.index)
    facts = pd.concat([facts.drop(columns=keys.columns, errors="ignore"), keys], axis=1)
    return facts.astype("string").fillna("").astype(object)


def _parted(rows: pd.DataFrame, baseline: str, label: str) -> pd.DataFrame:
    """The rows of an archive with full names. A workload's name ends with the facts that differ between
    runs of one arm, and with their duration if that differs; an arm's name with those that the baseline
    does not have. `differ` says in which other facts the arm differs from the baseline."""
    runs = rows.drop_duplicates("run").set_index("run")
    facts = _facts(runs, label)
    named = runs[["workload", "arm"]].astype(str)
    for _, part in facts.groupby(named["workload"], sort=False):
        base = named.loc[part.index, "arm"] == baseline
        for name in map(str, part):
            what = _tells(part[name], named.loc[part.index, "arm"], base, name in HARD)
            if what:
                has = part.index[part[name].ne("") & (~base | (what == "workload"))]
                before = ", " if name in ("setting", "variant") else f", {name} "
                before = " " if what == "arm" else before
                named.loc[has, what] += before + part.loc[has, name]
    for _, part in runs.groupby(named["workload"]):
        timed = part["metric"].isin(
            ["wall", "query_time", "mean_latency"]
        )  # their duration is a result
        logs = part[part["campaign"].isna() & ~timed]
        took, chosen = compare.durations(logs["duration_s"].fillna(0), logs["value"])
        if chosen and len(set(took)) > 1:
            lasted = [f", duration {t or compare.NOT_GIVEN}" for t in took]
            named.loc[logs.index, "workload"] += pd.Series(lasted, logs.index)
    differ = pd.Series("", runs.index)
    for _, part in facts.groupby(named["workload"], sort=False):
        base = named.loc[part.index, "arm"] == baseline
        for name in (n for n in map(str, part) if part[n].nunique() > 1):
            if not baseline:
                differ[part.index] += f", {name}"
            elif part.loc[base, name].nunique() == 1:
                theirs = part.loc[base, name].iloc[0]
                others = part.loc[~base & part[name].ne(theirs), name].replace("", "none")
                words = f"; {name.replace('_', ' ')} ({theirs or 'none'} and "
                differ[others.index] += words + others + ")"
    named["differ"] = differ.str[2:]
    return rows.assign(**{str(c): rows["run"].map(named[c]) for c in named})


def _tells(values: pd.Series, arm: pd.Series, base: pd.Series, hard: bool) -> str:
    """What a fact makes of its own: "workload", "arm" or "" for nothing. "arm": it differs within an
    arm, and the baseline has none of the other arms' values. `base`: which runs are the baseline's;
    `hard`: as in HARD."""
    if values.nunique() < 2:
        return ""
    inside = values.groupby(arm).nunique().gt(1).any()
    if hard or not base.any():
        return "workload" if hard or inside else ""
    shared = ({*values[base]} & {*values[~base]}) - {""}
    if values[base].nunique() > 1 or (shared and inside):
        return "workload"
    return "arm" if inside and not shared else ""
