"""The explorer: ask a campaign, or two side by side, by controls; verdicts, figures and the raw text
of every run follow. Nothing is measured, no server is needed.

`Question` is one state of the controls and everything that it shows; `Explorer` is the controls.
Where nobody can move them (papermill, an exported script) it shows the state it was opened with.
"""

import html
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from pathlib import Path

import anywidget
import ipywidgets
import pandas as pd
import traitlets

from . import compare, parse, paths, plots, report, results, stats, tidy
from .studies import STUDIES
from .study import METRICS, PROFILES, Arm, Study, Workload

LONGEST = 60_000  # characters of a raw file that are shown
LINES = 4  # arms that the figure over threads can show without crowding
MOST = 12  # arms that are shown before somebody chooses
LABELS = ("server", "version", "setting")  # of an archive's folders
HARD = ("campaign", *compare.REFUSED)  # across which nothing can be compared
PROBLEMS = (paths.NotFound, tidy.Damaged, parse.ParseError, ValueError, OSError)


class Unknown(ValueError):
    """Something was asked for that the campaign does not have. One sentence."""


# -- what can be opened ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Archive(results.Results):
    """Somebody's archive in the place of a campaign: the folder of tables of `noisefloor ingest`, or one
    Parquet file with the columns of the tidy table, of which only arm, metric, value and run must be
    there. `texts` is the folder that was ingested, "" where it lies beside the tables; in a single
    Parquet file `path` or `file` says where a run's raw text is.

    Where no arm is known the labels of the run's folders are its arm: server, version, setting.
    What else tells runs of an arm apart makes workloads of their own, so that they are never pooled."""

    baseline: str = ""
    texts: str = ""

    @cached_property
    def meta(self) -> dict:
        return {"campaign": self.folder.stem, "study": self.study.name, "title": self.study.title}

    @cached_property
    def tidy(self) -> pd.DataFrame:
        return _table(self.folder, self.folder.stat().st_mtime_ns)

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
        works = [
            Workload(
                str(name),
                "As it was found.",
                threads=tuple(sorted(int(t) for t in rows["threads"].dropna().unique())),
                metrics=tuple(pd.unique(rows["metric"])),
            )
            for name, rows in self.judged().groupby("workload", sort=False)
            if rows["arm"].nunique() > 1
        ]
        if not works:
            raise Unknown(
                f"{self.folder.name} holds no workload with two arms; nothing can be compared"
            )
        arms = list(pd.unique(self.tidy["arm"]))
        first = self.baseline or self.first(works[0].name)
        return Study(
            name=self.folder.stem,
            title=f"Archive {self.folder.stem}",
            question="What do these runs say?",
            baseline=Arm(first),
            arms=tuple(Arm(a) for a in arms if a not in (first, first + plots.AGAIN)),
            workloads=tuple(works),
            design=self.judged(works[0].name).attrs["design"] or stats.UNKNOWN,
            profile=PROFILES["standard"],
        )

    def judge(self, *, workload="", metric="", margin_pct=0.0) -> pd.DataFrame:
        rows = self.judged(workload, metric)
        return stats.table(
            rows,
            margin_pct=margin_pct or self.study.margin_pct,
            baseline=self.study.baseline.name,
            series=self._series(rows) if metric in compare.HIGHER else None,
        )

    def _series(self, rows: pd.DataFrame) -> dict:
        """The transactions per second of the runs that stand alone, as far as they are known."""
        alone = rows.groupby(["arm", "threads"], dropna=False)["run"].transform("nunique").eq(1)
        if not self.folder.is_dir() or not alone.any():
            return {}
        import pyarrow.dataset as ds

        from . import ingest

        asked = ds.field("run").isin(list(rows.loc[alone, "run"])) & ds.field("ok")
        columns = ["run", "tps", "events_per_s"]
        found = ingest.frame(self.folder, "intervals", columns=columns, filter=asked)
        rates = found["tps"].fillna(found["events_per_s"]).astype(float)
        return {run: part.to_numpy() for run, part in rates.groupby(found["run"])}

    def notes(self, workload: str) -> list[str]:
        """What the arms of a workload differ in beyond their name, as a sentence."""
        told = self.judged(workload)["differ"].iloc[0]
        return [f"The arms differ in {told}, too."] if told else []

    def raw(self, run: str) -> dict[str, str]:
        row = self.tidy[self.tidy["run"] == run].iloc[0]
        name = next((str(row[c]) for c in ("path", "file") if pd.notna(row.get(c))), run)
        near = [Path(self.texts)] if self.texts else [self.folder.parent]
        if self.folder.is_dir() and not self.texts:
            from . import ingest

            near.append(self.folder.parent / ingest.manifest(self.folder)["name"])
        for place in near:
            file = place / name
            if file.exists() and file.resolve().is_relative_to(place.resolve()):
                line = row["line"] if self.folder.is_dir() else None
                return _printed(file, run, name, line)
        return {
            name: "The text is not beside the tables. Write into `texts` which folder was ingested."
        }


def _printed(file: Path, run: str, name: str, line: int | None) -> dict[str, str]:
    """The text of a run of an archive, without its secrets: a campaign's files, one in a packed file,
    the run from `line` on in a log of several; all of a file that no line is known of."""
    if file.is_dir():
        return Campaign(file).raw(run.removeprefix(f"{name}/"))
    from .ingest import part, unpack

    try:
        with open(file, "rb") as opened_:
            for inside, data in unpack.texts(opened_, name, file.stat().st_size):
                names = (part.safe(inside), f"{part.safe(inside)}:{line}")
                if isinstance(data, bytes) and (line is None or run in names):
                    text = dict(parse.runs(data)).get(line) or data.decode(errors="replace")
                    return {run: _cut(parse.secrets.scrub(text)[0])}
    except OSError as e:
        return {run: f"It cannot be read: {e.strerror}."}
    return {run: "The file is there, but not this run: it changed since it was ingested."}


@lru_cache(maxsize=4)
def _table(file: Path, _changed: int) -> pd.DataFrame:
    """The tidy table of an archive, with a column `differ`: what its workload's arms differ in."""
    from . import ingest

    try:
        found = ingest.frame(file, "tidy") if file.is_dir() else pd.read_parquet(file)
    except ingest.NotATable as e:
        raise Unknown(str(e)) from None
    if missing := [c for c in ("arm", "metric", "value", "run") if c not in found]:
        raise Unknown(f"{file.name} has no column {missing[0]!r}; nothing was opened")
    kept = found["metric"].isin([m.name for m in METRICS.values() if m.judged])
    more = {c: None for c in (*tidy.COLUMNS, "design", "line") if c not in found}
    found = found[kept].assign(**more).reset_index(drop=True)
    if found.empty:
        raise Unknown(f"{file.name} holds no metric that can be judged")
    found["arm"] = found["arm"].fillna(_arms(found)).replace("", "all runs")
    found["workload"] = found["workload"].fillna("all runs")
    found["warmup"] = found["warmup"].eq(True)
    found["threads"] = found["threads"].astype("Int64")
    if file.is_dir():
        found = found[~found["run"].isin(_twins(file, found))]
    found["workload"], found["differ"] = _parted(found)
    return found.assign(study=file.stem, campaign=file.stem).reset_index(drop=True)


def _arms(found: pd.DataFrame) -> pd.Series:
    """What the labels of the folders call an arm: server and version, and the setting, as far as they
    tell any runs without an arm apart."""
    labels = found.reindex(columns=LABELS).astype("string").fillna("")
    several = labels[found["arm"].isna()].nunique().gt(1)
    kept = ["server", "version"] if several["server"] or several["version"] else []
    kept += ["setting"] if several["setting"] else []
    words = reduce(lambda a, b: a + " " + b, (labels[c] for c in kept or LABELS))
    return words.str.replace(r"\s+", " ", regex=True).str.strip()


def _twins(folder: Path, found: pd.DataFrame) -> pd.Series:
    """Runs of an archive that are the same text as another one: each counts once."""
    from . import ingest

    files = ingest.frame(folder, "files", columns=["file", "member", "sha256"])
    files = files[files["sha256"] != ""]
    inside = ("//" + files["member"]).where(files["member"] != "", "")
    text = pd.Series(files["sha256"].to_numpy(), index=files["file"] + inside)
    runs = found[["run", "line"]].drop_duplicates("run")
    names = [
        run.removesuffix(f":{line}") for run, line in zip(runs["run"], runs["line"], strict=True)
    ]
    runs = runs.assign(text=text[~text.index.duplicated()].reindex(names).to_numpy())
    return runs.loc[runs["text"].notna() & runs.duplicated(["text", "line"]), "run"]


def _parted(found: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """(workload, differ) of the rows of an archive: a workload's name with what tells runs of one arm
    apart, or runs that no comparison may mix, behind it; what its arms differ in beyond that."""
    runs = found.drop_duplicates("run").set_index("run")
    facts = {c: runs[c] for c in ("campaign", "host") if c in runs}
    if "buffer_pool_B" in runs:
        size = runs["buffer_pool_B"]
        facts["buffer pool"] = size.map(lambda b: f"{b / 2**30:g} GiB", na_action="ignore")
    if "path_threads" in runs:
        facts["threads in the path"] = runs["path_threads"].where(runs["threads"].isna())
    facts = pd.DataFrame(facts, index=runs.index)
    if "keys" in runs:
        keys = pd.DataFrame(list(map(json.loads, runs["keys"].fillna("{}"))), index=runs.index)
        facts = pd.concat([facts, keys], axis=1)
    facts = facts.astype("string")
    if not len(facts.columns):
        return found["workload"], pd.Series("", found.index)
    of = runs["workload"]
    within = facts.groupby([of, runs["arm"]]).transform("nunique", dropna=False)
    mixed = within.groupby(of).transform("max").gt(1) | facts.columns.isin(HARD)
    split = mixed & facts.groupby(of).transform("nunique", dropna=False).gt(1) & facts.notna()
    for name in facts:
        of = of + (f", {name} " + facts[name]).where(split[name], "")
    left = facts.groupby(of).nunique(dropna=False).gt(1)
    differ = left.apply(lambda row: ", ".join(left.columns[row]), axis=1)
    return found["run"].map(of), found["run"].map(of).map(differ)


class Campaign(results.Results):
    """A campaign with the raw text of its runs."""

    def notes(self, workload: str) -> list[str]:
        """Nothing: the arms of a campaign differ in what the study says."""
        return []

    def raw(self, run: str) -> dict[str, str]:
        """What the tools printed in a run, name of the file -> text; without any, run.json."""
        folder = tidy.inside(self.folder) / run
        files = sorted(folder.glob("*.txt")) or [folder / "run.json"]
        return {f"{run}/{f.name}": _text(f) for f in files}


def _text(file: tidy.Place) -> str:
    try:
        text = file.read_text(errors="replace")
    except OSError as e:
        return f"It cannot be read: {e.strerror}."
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "\n… (cut here)"


def is_archive(source: str) -> bool:
    """Whether `source` is the path of an archive, and no campaign's name."""
    return source.endswith(".parquet") or "/" in source or (Path(source) / "manifest.json").exists()


def opened(source: str, baseline: str = "", texts: str = "") -> Campaign | Archive:
    """The campaign of that name, or the archive of that path (from here or from the project's
    folder), compared with `baseline`, the text of its runs in the folder `texts`. Raises NotFound,
    Unknown, Damaged."""
    if not is_archive(source):
        folder = paths.campaign(source)
        return _campaign(folder, folder.stat().st_mtime_ns)
    file = next((f for f in (Path(source), paths.root() / source) if f.exists()), None)
    if file is None:
        raise paths.NotFound(f"nothing is called {source!r}; nothing was opened")
    if texts and not Path(texts).is_dir():
        raise paths.NotFound(f"texts {texts!r} is no folder; nothing was opened")
    found = _archive(file.resolve(), baseline, texts, file.stat().st_mtime_ns)
    if baseline and baseline not in set(found.tidy["arm"]):
        raise Unknown(f"baseline {baseline!r} is no arm of {file.name}; nothing was opened")
    return found


@lru_cache(maxsize=8)
def _campaign(folder: Path, _changed: int) -> Campaign:
    return Campaign(folder)


@lru_cache(maxsize=8)
def _archive(file: Path, baseline: str, texts: str, _changed: int) -> Archive:
    return Archive(file, baseline, texts)


def newest() -> str:
    """The newest recorded campaign of the first study that has one."""
    found = next(filter(None, map(report.recorded_campaign, STUDIES)), None)
    if not found:
        raise paths.NotFound("there is no recorded campaign; nothing was opened")
    return found


def listed() -> pd.DataFrame:
    """All campaigns, recorded ones first, then the archives that `noisefloor ingest` put into its own
    place: columns source, study, title, label (date, profile, server)."""
    rows = []
    for name in paths.campaigns():
        try:
            facts = tidy.meta(paths.campaign(name))
        except (tidy.Damaged, paths.NotFound):
            continue
        words = (_when(facts), facts["profile"]["name"], report.engine(facts))
        rows.append((name, facts["study"], facts["title"], ", ".join(filter(None, words))))
    for file in sorted(paths.processed().glob("*/manifest.json")):
        rows.append(_row(paths.shown(file.parent)))
    return pd.DataFrame(rows, columns=["source", "study", "title", "label"])


def _row(source: str) -> tuple:
    """The row of `listed` of an archive."""
    name = Path(source).stem
    return source, source, f"Archive {name}", name


def _when(facts) -> str:
    return str(facts.get("created") or facts.get("finished") or "")[:16].replace("T", " ")


def label(source: results.Results) -> str:
    """A campaign or archive in a few words: its date, else its name."""
    return _when(source.meta) or source.meta["campaign"]


# -- one state of the controls ---------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """One or two campaigns, asked about one workload and metric. `threads` and `arms`: those to show,
    () for all; what is not shown is judged with the rest, so that choosing makes no verdict."""

    sources: tuple[results.Results, ...]
    workload: str
    metric: str
    margin_pct: float = 2.0
    threads: tuple[int, ...] = ()
    arms: tuple[str, ...] = ()

    @cached_property
    def _there(self) -> list[results.Results]:
        """The sources that have the workload and metric."""
        return [s for s in self.sources if len(s.judged(self.workload, self.metric))]

    @cached_property
    def judged(self) -> pd.DataFrame:
        """The verdict table, one campaign after the other, with a column `campaign`."""
        asked = {"workload": self.workload, "metric": self.metric, "margin_pct": self.margin_pct}
        names = [label(s) for s in self.sources]
        if len(set(names)) < len(names):
            raise Unknown(f"Both are called {names[0]}: rename one, or they cannot be told apart.")
        parts = [s.judge(**asked).assign(campaign=label(s)) for s in self._there]
        if not parts:
            raise Unknown(f"{self.workload}: no run has {plots.metric_label(self.metric)}")
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The rows of `judged` that are shown. The joint effect is that of all thread counts."""
        table, counts = self.judged, set(self.threads)
        whole = not counts or counts >= set(table["threads"].dropna())
        seen = table["threads"].isin(counts) | (
            table["threads"].isna() & (whole | ~plots.is_joint(table))
        )
        kept = (seen | (not counts)) & (table["arm"].isin(self.arms) | (not self.arms))
        return table[kept].reset_index(drop=True)

    @cached_property
    def headline(self) -> str:
        """The main comparison of each campaign in words."""
        said = []
        for name, rows in self.verdicts.groupby("campaign", sort=False):
            if not plots.is_control(rows).all():
                start = f"{name}: " if len(self.sources) > 1 else ""
                said.append(start + report.headline(report.primary(rows, self.metric)))
        return " ".join(said) or "Nothing is left to show: choose an arm and a thread count."

    @cached_property
    def remarks(self) -> list[str]:
        """What a reader must know about what was asked."""
        said = list(dict.fromkeys(n for s in self._there for n in s.notes(self.workload)))
        declared = {f"{s.study.margin_pct:g}" for s in self.sources}
        if declared != {f"{self.margin_pct:g}"}:
            said.append(
                f"Before measuring, ±{' and ±'.join(sorted(declared))}\u202f% was declared as the"
                f" margin; with ±{self.margin_pct:g}\u202f% these are verdicts to explore with."
            )
        if len(self.verdicts) < len(self.judged):
            said.append(
                "What is not shown is still judged with the rest: choosing afterwards makes no"
                " verdict."
            )
        if len(self._there) < len(self.sources):
            said.append("Only one of the two has this workload and metric.")
        return said

    @cached_property
    def figure(self):
        """Overhead against threads, or a forest where that would say less or be crowded."""
        rows = self.verdicts
        arms = rows.loc[~plots.is_control(rows), "arm"].nunique()
        several = rows["threads"].nunique() > 1
        if several and 0 < arms <= (LINES if len(self.sources) == 1 else 1):
            by = "metric" if len(self.sources) == 1 else "campaign"
            return plots.overhead(rows, self.metric, margin_pct=self.margin_pct, by=by)
        return plots.dots(rows, by=("campaign", "threads"), margin_pct=self.margin_pct)

    @cached_property
    def apart(self) -> pd.DataFrame:
        """`results.apart` of the two campaigns; without rows for one."""
        parts = [rows for _, rows in self.verdicts.groupby("campaign", sort=False)]
        return results.apart(*parts, self.margin_pct) if len(parts) == 2 else pd.DataFrame()

    @cached_property
    def comparisons(self) -> list[tuple[str, int]]:
        """What has runs of its own: (words, row of `verdicts`), the study's own ones first."""
        rows = self.verdicts[~plots.is_joint(self.verdicts)]
        rows = rows.loc[plots.is_control(rows).sort_values(kind="stable").index]
        several = len(self.sources) > 1
        return [
            (
                ", ".join(
                    filter(
                        None,
                        (
                            row.campaign if several else "",
                            row.arm + (" (A/A control)" if row.control else ""),
                            plots.threads_label(row.threads).removeprefix("at "),
                        ),
                    )
                ),
                row.Index,
            )
            for row in rows.itertuples()
        ]

    def close(self, row: int) -> "Comparison":
        """One row of `verdicts`, seen from near."""
        verdict = self.verdicts.loc[row]
        source = next(s for s in self.sources if label(s) == verdict["campaign"])
        return Comparison(self, source, verdict)

    @cached_property
    def told(self) -> str:
        """The table of verdicts, and of the differences between two campaigns, as HTML."""
        parts = []
        for name, rows in self.verdicts.groupby("campaign", sort=False):
            source = next(s for s in self.sources if label(s) == name)
            facts = (name, report.machine(source.meta), report.engine(source.meta))
            words = ", ".join(dict.fromkeys(filter(None, facts)))
            parts.append(report.verdict_table_html(rows, words).markup)
        if len(self.apart):
            words = (
                "The second campaign against the first: how far the overheads are apart, in percent,"
                " with the interval of two independent measurements."
            )
            parts.append(report.table(self.apart, words, name="apart").markup)
        return "".join(parts)

    @cached_property
    def alt(self) -> str:
        """Alternative text of the figure."""
        if len(self.sources) == 1:
            return plots.alt(self.verdicts)
        parts = self.verdicts.groupby("campaign", sort=False)
        return " ".join(f"{name}: {plots.alt(rows)}" for name, rows in parts)

    @cached_property
    def still(self) -> str:
        """All of it as HTML that needs no controls."""
        remarks = "".join(f'<p class="nf-ask">{html.escape(r)}</p>' for r in self.remarks)
        if self.verdicts.empty:
            return f"<p>{html.escape(self.headline)}</p>{remarks}"
        shown = plots.show(
            self.figure,
            alt=self.alt,
            caption=self.headline,
            data=report.flat(self.verdicts),
            name="explored",
        )
        words, row = self.comparisons[0]
        near = self.close(row)
        close = plots.show(near.figure, alt=near.alt, caption=words, data=near.pairs, name="near")
        return (
            f"{shown.markup}{remarks}{self.told}{close.markup}{near.raw(near.runs['run'].iloc[0])}"
        )


@dataclass(frozen=True)
class Comparison:
    """The pairs and runs behind one row of a verdict table."""

    question: Question
    source: results.Results
    row: pd.Series

    @cached_property
    def _rows(self) -> pd.DataFrame:
        rows = self.source.judged(self.question.workload, self.question.metric)
        count = rows["threads"]
        same = count.isna() if pd.isna(self.row["threads"]) else count.eq(self.row["threads"])
        return rows[same.fillna(False) & rows["arm"].isin([self.row["baseline"], self.row["arm"]])]

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The pairs in the order of measuring; none where runs are not paired."""
        if self._rows["pair_id"].isna().all():
            return pd.DataFrame()
        every = self.source.judged(self.question.workload)
        plan = self.source.meta.get("plan") or {}
        found = stats.pairs(
            every[every["metric"].isin([self.question.metric, stats.verdicts.STEAL])],
            baseline=self.row["baseline"],
            levelled=bool(plan.get("levelled")),  # by all arms, as it was judged
        )
        same = (
            found["threads"].isna()
            if pd.isna(self.row["threads"])
            else found["threads"].eq(self.row["threads"])
        )
        found = found[same.fillna(False) & found["arm"].eq(self.row["arm"])]
        found = found.sort_values(["block", "pair"], ignore_index=True)
        found.attrs["design"] = self._rows.attrs.get("design") or self.source.study.design
        return found

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The runs, pair by pair: rows of the tidy table, with the columns point (row of the table
        that `figure` draws) and words."""
        rows, pairs = self._rows, self.pairs
        if len(pairs):
            mine = rows.loc[rows["arm"] == self.row["arm"], ["block", "pair", "pair_id"]]
            at = pairs[["block", "pair"]].reset_index(names="point").merge(mine)
            rows = rows.merge(at[["pair_id", "point"]], on="pair_id")
            rows = rows.sort_values(["point", "position"], ignore_index=True)
        else:
            rows = rows.reset_index(drop=True).assign(point=range(len(rows)))
        spec = METRICS[self.question.metric]
        words = [
            (f"pair {r.point + 1}, block {r.block}, " if len(pairs) else "")
            + f"{r.arm}: {r.value * spec.scale:,.5g} {spec.shown_unit}".rstrip()
            for r in rows.itertuples()
        ]
        return rows.assign(words=words)

    @cached_property
    def figure(self):
        """The pairs and the path to the verdict, or the single runs."""
        if not len(self.pairs):
            return plots.runs(self.runs, self.question.metric)
        margin = self.question.margin_pct
        path = stats.path(self.pairs, level=self.row["level"], margin_pct=margin)
        return plots.pairs(self.pairs, path, margin_pct=margin)

    @property
    def alt(self) -> str:
        """Alternative text of the figure."""
        return f"The runs behind it. {plots.alt(self.row.to_frame().T)}"

    def raw(self, run: str) -> str:
        """The text that was printed in a run, and in the other run of its pair, as HTML."""
        chosen = self.runs[self.runs["run"] == run]
        if chosen["pair_id"].notna().all():
            chosen = self.runs[self.runs["pair_id"].isin(chosen["pair_id"])]
        parts = []
        for one in chosen.itertuples():
            for name, text in self.source.raw(one.run).items():
                words, file = html.escape(one.words), html.escape(name)
                parts.append(
                    f'<section><h4>{words} <small>{file}</small></h4><pre tabindex="0" role="region" '
                    f'aria-label="{words}, {file}">{html.escape(text)}</pre></section>'
                )
        return f'<div class="nf-raws">{"".join(parts)}</div>'


# -- the controls ----------------------------------------------------------------------------------


class Picture(anywidget.AnyWidget):
    """A figure whose points can be clicked; `on_row` gets the row of the caller's table."""

    _esm = Path(__file__).parent / "template" / "picture.js"
    markup = traitlets.Unicode().tag(sync=True)
    spots = traitlets.List().tag(sync=True)
    chosen = traitlets.Int(-1).tag(sync=True)

    def draw(self, figure, alt: str) -> None:
        """Show `figure`; nothing for None."""
        with self.hold_sync():
            self.markup = plots.svg(figure, "Figure", alt) if figure else ""
            self.spots = plots.spots(figure) if figure else []
            self.chosen = -1

    def on_row(self, call) -> None:
        """Call `call(row)` when a point is clicked."""
        self.on_msg(lambda _, content, __: call(int(content["row"])))


class Explorer:
    """The controls and what follows them, for the last line of a notebook cell.

    `source` and `against`: campaigns by name or archives by path, "" for the newest recorded one and
    for none; `texts`: the folder that an archive was made from; the rest: what is asked first, empty
    for all or the page's own. Raises NotFound, Unknown, Damaged."""

    def __init__(
        self,
        source="",
        against="",
        *,
        workload="",
        metric="",
        threads=(),
        arms=(),
        margin_pct=0.0,
        texts="",
    ):
        source, self._texts = source or newest(), texts
        first = self._open(source)
        study = source if is_archive(source) else first.study.name
        self._listed = listed()
        for name in (n for n in (source, against) if is_archive(n)):
            self._open(name)
            known = self._listed[self._listed["study"] == study]
            if name not in set(known["source"]):
                row = _row(name)
                title = row[2] if study == name else first.study.title
                self._listed.loc[len(self._listed)] = (name, study, title, row[3])
        self._settled = False
        self._make()
        self._opened = ""
        titles = self._listed.drop_duplicates("study")[["title", "study"]]
        self.study.options = list(titles.itertuples(index=False, name=None))
        self.study.value = study
        self._fill_sources(source, against)
        self._fill()
        for control, value, name in (
            (self.workload, workload, "workload"),
            (self.metric, metric, "metric"),
        ):
            if value:
                _known(name, value, [v for _, v in control.options])
                control.value = value
                self._fill()
        for control, value, name in ((self.threads, threads, "threads"), (self.arms, arms, "arms")):
            if value:
                for one in value:
                    _known(name, one, [v for _, v in control.options])
                control.value = tuple(value)
        if margin_pct:
            self.margin.value = margin_pct
        self._settled = True
        self._answer()

    def _make(self) -> None:
        style = {"description_width": "6rem"}

        def control(kind, name, width="24rem", **more):
            wide = ipywidgets.Layout(width=width, max_width="100%")
            made = kind(description=name, style=style, layout=wide, **more)
            made.observe(self._moved, "value")
            return made

        drop, many = ipywidgets.Dropdown, ipywidgets.SelectMultiple
        self.study = control(drop, "Study")
        self.campaign = control(drop, "Campaign")
        self.against = control(drop, "Compare with")
        self.baseline = control(drop, "Baseline")
        self.workload = control(drop, "Workload")
        self.metric = control(drop, "Metric")
        self.threads = control(many, "Threads", rows=4)
        self.arms = control(many, "Arms", rows=4)
        self.margin = control(
            ipywidgets.BoundedFloatText, "Margin, ± %", min=0.1, max=99.0, step=0.5, value=2.0
        )
        self.comparison = control(drop, "Comparison", "26rem")
        self.run = control(drop, "Run", "26rem")
        self.status = ipywidgets.HTML()
        self.table = ipywidgets.HTML()
        self.raw = ipywidgets.HTML()
        self.overview, self.close = Picture(), Picture()
        self.overview.on_row(self._clicked)
        self.close.on_row(self._clicked_run)
        rows = ipywidgets.Layout(flex_flow="row wrap", width="100%")
        asked = (self.study, self.campaign, self.against, self.workload, self.metric, self.margin)
        asked += (self.threads, self.arms, self.baseline)
        self.panel = ipywidgets.VBox(
            [
                ipywidgets.HBox(asked, layout=rows),
                self.status,
                self.overview,
                self.table,
                ipywidgets.HBox([self.comparison, self.run], layout=rows),
                self.close,
                self.raw,
            ]
        )

    def _repr_mimebundle_(self, include=None, exclude=None):
        shown = self.panel._repr_mimebundle_()
        return {**shown, "text/html": self.question.still, "text/plain": self.question.headline}

    def _open(self, name: str, baseline: str = "") -> Campaign | Archive:
        return opened(name, baseline, self._texts if is_archive(name) else "")

    # what the controls offer

    def _fill_sources(self, source: str = "", against: str = "") -> None:
        rows = self._listed[self._listed["study"] == self.study.value]
        known = list(zip(rows["label"], rows["source"], strict=True))
        _offer(self.campaign, known, source or report.recorded_campaign(self.study.value))
        _offer(self.against, [("nothing", ""), *known], against)

    def _fill(self, anew: bool = False) -> None:
        """Offer what the chosen campaign has, and keep what is chosen where it is still there; `anew`
        for another study, which begins with its own first workload."""
        source, new = self._open(self.campaign.value), self._opened != self.campaign.value
        if new:
            self._opened, self.margin.value = self.campaign.value, source.study.margin_pct
        rows = source.judged()
        works = [w.name for w in source.study.workloads if w.name in set(rows["workload"])]
        if not works:
            raise Unknown("This campaign has no whole pair yet.")
        _offer(self.workload, [(w, w) for w in works], works[0] if anew else None)
        rows = source.judged(self.workload.value)
        if isinstance(source, Archive):
            there, held = list(pd.unique(rows["arm"])), self.baseline.value
            first = source.first(self.workload.value) if new or held not in there else held
            _offer(self.baseline, [(a, a) for a in there], first)
            source = self._open(self.campaign.value, self.baseline.value)
        else:
            _offer(self.baseline, [(source.study.baseline.name,) * 2])
        self.baseline.disabled = not isinstance(source, Archive)
        self.baseline.layout.display = "none" if self.baseline.disabled else None
        judged = source.study.workload(self.workload.value).metrics
        metrics = [m for m in judged if m in set(rows["metric"])]
        _offer(self.metric, [(plots.metric_label(m), m) for m in metrics])
        counts = sorted(int(t) for t in rows["threads"].dropna().unique())
        _offer(self.threads, [(str(t), t) for t in counts])
        seen = set(rows["arm"]) - {source.study.baseline.name}
        named = [a.name for a in (*source.study.arms, source.study.control) if a.name in seen]
        again = source.study.control.name
        _offer(self.arms, [(a + " (A/A control)" * (a == again), a) for a in named])
        plots.order([source.study.baseline, source.study.control, *source.study.arms])

    # what follows them

    def _moved(self, change) -> None:
        if not self._settled or change["new"] is None:
            return
        self._settled = False
        try:
            if change["owner"] is self.run:
                self._show_raw()
            elif change["owner"] is self.comparison:
                self._show_close()
            else:
                if anew := change["owner"] is self.study:
                    self._fill_sources()
                self._fill(anew)
                self._answer()
        except PROBLEMS as e:
            self._say(str(e))
        finally:
            self._settled = True

    def _asked(self) -> Question:
        base = "" if self.baseline.disabled else self.baseline.value
        names = [self.campaign.value]
        names += [self.against.value] * (self.against.value not in ("", self.campaign.value))
        return Question(
            tuple(self._open(n, base if is_archive(n) else "") for n in names),
            self.workload.value,
            self.metric.value,
            self.margin.value,
            tuple(self.threads.value),
            tuple(self.arms.value),
        )

    def _answer(self) -> None:
        self.question = q = self._asked()
        self._say(q.headline, *q.remarks)
        empty = q.verdicts.empty
        self.overview.draw(None if empty else q.figure, q.alt)
        self.table.value = "" if empty else q.told
        there = [] if empty else q.comparisons
        _offer(self.comparison, there, dict(there).get(self.comparison.label))
        self._show_close()

    def _say(self, first: str, *more: str) -> None:
        rest = "".join(f'<p class="nf-ask">{html.escape(m)}</p>' for m in more)
        self.status.value = (
            f'<div role="status"><p class="nf-headline">{html.escape(first)}</p>{rest}</div>'
        )

    def _show_close(self) -> None:
        row = self.comparison.value
        if row is None:
            self.close.draw(None, "")
            self.raw.value = ""
            _offer(self.run, [])
            return
        self.near = self.question.close(row)
        self.overview.chosen = row
        self.close.draw(self.near.figure, self.near.alt)
        runs = self.near.runs
        _offer(self.run, list(zip(runs["words"], runs["run"], strict=True)), runs["run"].iloc[0])
        self._show_raw()

    def _show_raw(self) -> None:
        runs = self.near.runs
        self.close.chosen = int(runs.loc[runs["run"] == self.run.value, "point"].iloc[0])
        self.raw.value = self.near.raw(self.run.value)

    def _clicked(self, row: int) -> None:
        if row in [v for _, v in self.comparison.options]:
            self.comparison.value = row

    def _clicked_run(self, point: int) -> None:
        at = self.near.runs[self.near.runs["point"] == point]
        mine = at[at["arm"] == self.near.row["arm"]]
        self.run.value = (mine if len(mine) else at)["run"].iloc[0]


def _offer(control, options: list, value=None) -> None:
    """Set what a control offers. It gets `value` where that is there, else keeps its own, else gets
    the first; where several can be chosen it keeps those that are left, or gets all."""
    options, before, held = [tuple(o) for o in options], list(control.options), control.value
    values = [v for _, v in options]
    if options != list(map(tuple, before)):
        control.options = options
        if isinstance(control, ipywidgets.SelectMultiple):
            kept = tuple(v for v in values if v in held) if len(held) < len(before) else ()
            control.value = kept or tuple(values[:MOST])
        elif values:
            control.value = next(v for v in (value, held, values[0]) if v in values)
    elif value in values:
        control.value = value


def _known(name: str, value, there: list) -> None:
    if value not in there:
        raise Unknown(
            f"{name} {value!r} is not in this campaign; there are: {', '.join(map(str, there))};"
            " nothing was shown"
        )
