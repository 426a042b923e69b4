"""What can be opened, and one state of the controls with everything that it shows."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import pandas as pd

from noisefloor import paths, stats
from noisefloor.data import archive, results, tidy
from noisefloor.data.archive import Unknown
from noisefloor.model import METRICS
from noisefloor.show import plots, report
from noisefloor.show.markup import joined, piece
from noisefloor.show.rows import counted, is_control, is_joint, metric_label
from noisefloor.studies import STUDIES
from noisefloor.text import Refusal

PROBLEMS = (Refusal, paths.NotFound, tidy.Damaged, ValueError, OSError)
LINES = 4  # arms that the figure over threads can show without crowding


# -- what can be opened ----------------------------------------------------------------------------


def is_archive(source: str) -> bool:
    """Whether `source` is the path of an archive, and no campaign's name."""
    return "/" in source or (Path(source) / "manifest.json").exists()


def opened(source: str, baseline: str = "", texts: str = "") -> results.Results:
    """The campaign of that name, or the archive of that path (from here or from the project's
    folder), compared with `baseline`, the text of its runs in the folder `texts`. Raises NotFound,
    NotATable, Unknown, Damaged."""
    if not is_archive(source):
        folder = paths.campaign(source)
        return _campaign(folder, folder.stat().st_mtime_ns)
    file = next((f for f in (Path(source), paths.root() / source) if f.exists()), None)
    if file is None:
        raise paths.NotFound(f"nothing is called {source!r}; nothing was opened")
    if texts and not Path(texts).is_dir():
        raise paths.NotFound(f"texts {texts!r} is no folder; nothing was opened")
    return archive.load(file, baseline, texts=texts)


@lru_cache(maxsize=8)
def _campaign(folder: Path, _changed: int) -> results.Results:
    return results.load(folder)


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
        rows.append(as_listed(paths.shown(file.parent)))
    return pd.DataFrame(rows, columns=["source", "study", "title", "label"])


def as_listed(source: str) -> tuple:
    """The row of `listed` of an archive."""
    name = Path(source).stem
    return source, source, f"Archive {name}", name


def _when(facts) -> str:
    return str(facts.get("created") or facts.get("finished") or "")[:16].replace("T", " ")


def _label(source: results.Results) -> str:
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
    def _named(self) -> dict[str, results.Results]:
        """The sources by what they are called."""
        names = [_label(s) for s in self.sources]
        if len(set(names)) < len(names):
            raise Unknown(f"Both are called {names[0]}: rename one, or they cannot be told apart.")
        return dict(zip(names, self.sources, strict=True))

    @cached_property
    def _there(self) -> dict[str, results.Results]:
        """Those that have the workload and metric."""
        asked = self.workload, self.metric
        return {name: s for name, s in self._named.items() if len(s.judged(*asked))}

    @cached_property
    def judged(self) -> pd.DataFrame:
        """The verdict table, one campaign after the other, with a column `campaign`."""
        asked = {"workload": self.workload, "metric": self.metric, "margin_pct": self.margin_pct}
        parts = [s.judge(**asked).assign(campaign=name) for name, s in self._there.items()]
        if not parts:
            raise Unknown(f"{self.workload}: no run has {metric_label(self.metric)}")
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The rows of `judged` that are shown. The joint effect is that of all thread counts."""
        table, counts = self.judged, set(self.threads)
        whole = not counts or counts >= set(table["threads"].dropna())
        alone = table["threads"].isna() & (whole | ~is_joint(table))
        kept = table["threads"].isin(counts) | alone | (not counts)
        kept &= table["arm"].isin(self.arms) | (not self.arms)
        return table[kept].reset_index(drop=True)

    @property
    def _parts(self):
        """(name, shown rows) of each campaign."""
        return self.verdicts.groupby("campaign", sort=False)

    @cached_property
    def headline(self) -> str:
        """The main comparison of each campaign in words."""
        said = []
        for name, rows in self._parts:
            if not is_control(rows).all():
                start = f"{name}: " if len(self.sources) > 1 else ""
                said.append(start + report.headline(report.primary(rows, self.metric)))
        return " ".join(said) or "Nothing is left to show: choose an arm and a thread count."

    @cached_property
    def remarks(self) -> list[str]:
        """What a reader must know about what was asked."""
        said = list(dict.fromkeys(n for s in self._there.values() for n in s.notes(self.workload)))
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
        rows, alone = self.verdicts, len(self.sources) == 1
        arms = rows.loc[~is_control(rows), "arm"].nunique()
        if rows["threads"].nunique() > 1 and 0 < arms <= (LINES if alone else 1):
            by = "metric" if alone else "campaign"
            return plots.overhead(rows, self.metric, margin_pct=self.margin_pct, by=by)
        return plots.dots(rows, by=("campaign", "threads"), margin_pct=self.margin_pct)

    @cached_property
    def alt(self) -> str:
        """Alternative text of the figure."""
        if len(self.sources) == 1:
            return plots.alt(self.verdicts)
        return " ".join(f"{name}: {plots.alt(rows)}" for name, rows in self._parts)

    @cached_property
    def apart(self) -> pd.DataFrame:
        """`results.apart` of the two campaigns; without rows for one."""
        parts = [rows for _, rows in self._parts]
        return results.apart(*parts, self.margin_pct) if len(parts) == 2 else pd.DataFrame()

    @cached_property
    def comparisons(self) -> list[tuple[str, int]]:
        """What has runs of its own: (words, row of `verdicts`), the study's own ones first."""
        rows = self.verdicts[~is_joint(self.verdicts)]
        rows = rows.loc[is_control(rows).sort_values(kind="stable").index]
        found = []
        for row in rows.itertuples():
            name = row.campaign if len(self.sources) > 1 else ""
            arm = row.arm + (" (A/A control)" if row.control else "")
            words = ", ".join(filter(None, (name, arm, counted(row.threads))))
            found.append((words, row.Index))
        return found

    def close(self, row: int) -> "Comparison":
        """One row of `verdicts`, seen from near."""
        verdict = self.verdicts.loc[row]
        return Comparison(self, self._named[verdict["campaign"]], verdict)

    @cached_property
    def told(self) -> str:
        """The table of verdicts, and of the differences between two campaigns, as HTML."""
        parts = []
        for name, rows in self._parts:
            meta = self._named[name].meta
            facts = (name, report.machine(meta), report.engine(meta))
            words = ", ".join(dict.fromkeys(filter(None, facts)))
            parts.append(report.verdict_table(rows, words).markup)
        if len(self.apart):
            words = (
                "The second campaign against the first: how far the overheads are apart, in percent,"
                " with the interval of two independent measurements."
            )
            parts.append(report.table(self.apart, words, name="apart").markup)
        return joined(parts)

    @cached_property
    def still(self) -> str:
        """All of it as HTML that needs no controls."""
        if self.verdicts.empty:
            return piece("asks", [self.headline, *self.remarks])
        data = report.flat(self.verdicts)
        given = {"alt": self.alt, "caption": self.headline, "data": data, "name": "explored"}
        shown = plots.show(self.figure, **given)
        words, row = self.comparisons[0]
        near = self.close(row)
        close = plots.show(near.figure, alt=near.alt, caption=words, data=near.pairs, name="near")
        raw = near.raw(near.runs["run"].iloc[0])
        remarks = piece("asks", self.remarks)
        return joined((shown.markup, remarks, self.told, close.markup, raw))


@dataclass(frozen=True)
class Comparison:
    """The pairs and runs behind one row of a verdict table."""

    question: Question
    source: results.Results
    row: pd.Series

    def _same(self, rows: pd.DataFrame) -> pd.Series:
        """Which rows have the thread count of this comparison, or none as it has none."""
        count = self.row["threads"]
        same = rows["threads"].isna() if pd.isna(count) else rows["threads"].eq(count)
        return same.fillna(False)

    @cached_property
    def _rows(self) -> pd.DataFrame:
        rows = self.source.judged(self.question.workload, self.question.metric)
        return rows[self._same(rows) & rows["arm"].isin([self.row["baseline"], self.row["arm"]])]

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The pairs in the order of measuring; none where runs are not paired."""
        if self._rows["pair_id"].isna().all():
            return pd.DataFrame()
        found = self.source.pairs(self.question.workload, self.question.metric, self.row["arm"])
        return found[self._same(found)].sort_values(["block", "pair"], ignore_index=True)

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
        found = [
            (one.words, name, text)
            for one in chosen.itertuples()
            for name, text in self.source.raw(one.run).items()
        ]
        return piece("raws", found)
