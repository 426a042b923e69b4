"""An ingested archive in the place of a campaign, and what its page shows."""

import re
import tomllib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import pandas as pd
import pyarrow.dataset as ds

from noisefloor import parse, paths, stats
from noisefloor.data import compare, ingest, results
from noisefloor.data.ingest import files
from noisefloor.data.pooled import CHOSEN, LABELS, Unknown, opened, parted, several, two_sides
from noisefloor.model import AGAIN, PROFILES, Arm, Study, Workload
from noisefloor.text import amounts


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
    changed = folder.stat().st_mtime_ns
    if label:
        two_sides(opened(folder, changed, label, where), label, baseline)
    given |= {"baseline": baseline, "label": label, "where": where}
    found = _opened(folder, changed, **given)
    if baseline and baseline not in set(found.tidy["arm"]):
        raise Unknown(f"baseline {baseline!r} is no arm of {folder.name}; nothing was opened")
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
    margin_pct: float = 2.0

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
    def tidy(self) -> pd.DataFrame:
        table = opened(self.folder, self.folder.stat().st_mtime_ns, self.label, self.where)
        table = parted(table, self.baseline)
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
                metrics = tuple(pd.unique(rows["metric"]))
                why = "As it was found."
                works.append(Workload(str(name), why, threads=threads, metrics=metrics))
        if not works:
            many = several(self.tidy, self.baseline) if self.baseline else []
            left = "; ".join(many or (self.left if self.baseline else []))
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

    def judge(self, *, workload="", metric="", margin_pct=0.0) -> pd.DataFrame:
        rows = self.judged(workload, metric)
        rows = rows[rows["workload"].isin([w.name for w in self.study.workloads])]
        found = stats.table(
            rows,
            margin_pct=margin_pct or self.study.margin_pct,
            baseline=self.study.baseline.name,
            series=self._series(rows) if metric in ("", *compare.HIGHER) else None,
            restarts=self.restarts,
            floor=self.floor,
        )
        key = ["workload", "arm"]
        differ = rows.drop_duplicates(key).set_index(key)["differ"]
        told = [differ.get(pair, "") for pair in found[key].itertuples(index=False, name=None)]
        found["warnings"] = [
            [*said, *([f"the arms differ in {what}, too"] if what else [])]
            for said, what in zip(found["warnings"], told, strict=True)
        ]
        return found.assign(question=self.study.key)

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
    def left(self) -> list[str]:
        """What was not compared with the baseline, and why, a sentence each."""
        runs, base, said = self.tidy.drop_duplicates("run"), self.baseline, []
        if twins := self.tidy.attrs.get("twins"):
            said.append(f"{twins} runs hold the same text as another one; each counts once")
        if zeros := self.tidy.attrs.get("zeros"):
            said.append(f"{zeros} numbers are 0, and have no ratio to another one")
        counts = runs[runs["arm"] == base].groupby("workload")["threads"].agg(set)
        there = runs["workload"].isin(counts.index)
        alone, rows = runs.loc[~there, "workload"], runs[there]
        if len(alone):
            said.append(
                f"{len(alone)} runs of {alone.nunique()} workloads have no run of {base} beside "
                f"them ({_few(alone)})"
            )
        single = rows.groupby("workload")["arm"].nunique().eq(1)
        if len(names := single[single].index):
            said.append(f"{len(names)} workloads are of {base} alone ({_few(names)})")
        noted = runs["warnings"].replace("", pd.NA).dropna()
        if len(noted):
            often = noted.value_counts().index[0]
            said.append(f"{len(noted)} runs have warnings of their own ({often})")
        apart = [
            t for w, t in zip(rows["workload"], rows["threads"], strict=True) if t not in counts[w]
        ]
        if apart:
            told = _few(sorted({int(t) for t in apart if pd.notna(t)}))
            said.append(f"{len(apart)} runs at thread counts that {base} has not ({told})")
        return said

    # -- for a page ------------------------------------------------------------------------------

    @property
    def lead_metric(self) -> str:
        """Throughput where there is any, else time."""
        there = set(self.verdicts["metric"])
        return next((m for m in compare.LABEL if m in there), self.verdicts["metric"].iloc[0])

    @property
    def counts(self) -> list[str]:
        """A sentence an arm: how many of its comparisons, each at one thread count, have which
        verdict."""
        rows, said = self.of(metric=self.lead_metric, control=False), []
        for arm, mine in rows[~rows["joint"].astype(bool)].groupby("arm", sort=False):
            words = ", ".join(f"{n} {w}" for w, n in mine["verdict"].value_counts().items())
            label = compare.LABEL.get(self.lead_metric, self.lead_metric)
            many = f"{len(mine)} comparison{'s' * (len(mine) > 1)}"
            said.append(f"{arm} against {self.baseline}, {label}, {many}: {words}.")
        return said

    @property
    def claimed(self) -> list[tuple[str, str]]:
        """What the authors of the runs say, and what the runs say of it: (claim, answer) of each."""
        rows = self.of(metric=self.lead_metric, control=False)
        return [
            (c["said"], _answer(_asserted(rows, c), c["word"]))
            for c in self.about.get("claims", ())
        ]

    def largest(self, rows: pd.DataFrame, most: int = 8) -> pd.DataFrame:
        """Rows of the workloads that rest on most runs, those with several thread counts first, in
        the order of the numbers in their names."""
        size = rows.groupby("workload")["n_arm"].sum()
        size += size.max() * rows.groupby("workload")["threads"].nunique().gt(1)
        kept = size.sort_values(ascending=False, kind="stable").index[:most]
        return in_order(rows[rows["workload"].isin(kept)])

    def summary(self, rows: pd.DataFrame, most: int = 40) -> pd.DataFrame:
        """The joint row of each comparison, or its only one, in the same order."""
        joint = rows["joint"].astype(bool)
        has = joint.groupby([rows[c] for c in ("workload", "metric", "arm")]).transform("any")
        return in_order(rows[joint | ~has]).head(most)

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
        for place in near:
            file = place / name
            if file.exists() and file.resolve().is_relative_to(place.resolve()):
                return _printed(file, run, name, row["line"])
        return {
            name: "The text is not beside the tables. Write into `texts` which folder was ingested."
        }


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
    return rows.sort_values(
        "workload",
        key=lambda c: c.str.replace(r"\d+", lambda n: n[0].zfill(9), regex=True),
        kind="stable",
    )


def _asserted(rows: pd.DataFrame, claim: dict) -> pd.DataFrame:
    """The rows that a claim is about: those of its arm at the thread counts that it names for what
    the workloads' names end with, or the joint effects of these."""
    joint, found = claim.get("joint", False), []
    rows = rows[rows["arm"].eq(claim["arm"]) & rows["joint"].astype(bool).eq(joint)]
    for end, (least, most) in claim["at"].items():
        there = rows["workload"].str.split(", ").str[-1].eq(end)
        found.append(rows[there & (rows["threads"].between(least, most).fillna(False) | joint)])
    return pd.concat(found)


def _answer(rows: pd.DataFrame, word: str) -> str:
    """What rows say of a claim that their verdict is `word`."""
    if rows.empty:
        return "not compared"
    if len(rows) == 1:
        r = rows.iloc[0]
        size = amounts.told(r["overhead_pct"], r["lo_pct"], r["hi_pct"], r["metric"], r["level"])
        return f"{r['verdict']}, {size}"
    counts = rows["verdict"].value_counts()
    others = ", ".join(f"{n} {w}" for w, n in counts.items() if w != word)
    ends = (amounts.overhead(f(rows["overhead_pct"])) for f in (min, max))
    share = f"{counts.get(word, 0)} of {len(rows)} {word}"
    return f"{share}{others and ', '}{others}; overheads {' to '.join(ends)}"


def _few(names) -> str:
    """The first few of many names, each shortened."""
    names = [n if len(n) <= 48 else f"{n[:47]}…" for n in dict.fromkeys(map(str, names))]
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


def _printed(file: Path, run: str, name: str, line: int) -> dict[str, str]:
    """The text of a run of an archive, without its secrets: a campaign's files, one packed,
    the run from `line` on in a log of several."""
    if file.is_dir():
        return results.Results(file).raw(run.removeprefix(f"{name}/"))
    try:
        with open(file, "rb") as opened:
            for inside, data in files.texts(opened, name, file.stat().st_size):
                names = (files.safe(inside), f"{files.safe(inside)}:{line}")
                if isinstance(data, bytes) and run in names:
                    text = dict(parse.runs(data)).get(line) or data.decode(errors="replace")
                    return {run: results.cut(parse.secrets.scrub(text)[0])}
    except OSError as e:
        return {run: f"It cannot be read: {e.strerror}."}
    return {run: "The file is there, but not this run: it changed since it was ingested."}
