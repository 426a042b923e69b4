"""Which runs of an archive are compared, and with which.

Runs are pooled only where everything else that is known of them agrees. What tells runs of one arm
apart, and is found in the baseline as well, makes workloads of their own; what only the other arms
have makes arms of their own.
"""

import json
from functools import lru_cache
from pathlib import Path

import pandas as pd

from noisefloor.data import compare, ingest
from noisefloor.model import METRICS

OF_PATHS = ("server", "version", "setting")  # what makes an arm where nobody says what does
_OTHERS = ("variant", "buffer_pool", "host", "folder", "arm", "study", "campaign", "tool_version")
LABELS = (*OF_PATHS, *_OTHERS)
CHOSEN = (*LABELS, "workload", "threads")  # what runs can be chosen by
MOST_VALUES = 12  # of a label that a refusal names
HARD = ("campaign", "tool", *compare.REFUSED)  # across which nothing can be compared


class Unknown(ValueError):
    """Something was asked for that is not there. One sentence."""

    code = 2


def two_sides(found: pd.DataFrame, label: str, baseline: str) -> None:
    """Raises Unknown where no run has the value of the baseline, or every run has it."""
    runs = found.drop_duplicates("run")
    arms, asked = set(runs["arm"]), f"--baseline {label}={baseline}"
    if baseline not in arms:
        raise Unknown(f"{asked}: no run has it; {_values(runs, label)}; nothing was judged")
    if len(arms) < 2:
        more = [n for n in LABELS if runs[n].nunique() > 1]
        raise Unknown(
            f"{asked}: all {len(runs)} runs have it, and another {label} is needed beside it; what "
            f"differs is: {', '.join(more) or 'nothing'}; nothing was judged"
        )


def _values(runs: pd.DataFrame, label: str) -> str:
    """Which values a label has, and in how many runs; without any, which labels there are."""
    named = runs["arm"] if "," in label else runs[label]
    counts = named.dropna().astype(str).replace("", pd.NA).value_counts()
    if counts.empty:
        there = [n for n in LABELS if runs[n].notna().any()]
        return f"no run has a {label}, labels of these runs are: {', '.join(there) or 'none'}"
    told = ", ".join(f"{value} ({n} runs)" for value, n in counts.head(MOST_VALUES).items())
    return f"{label} is: {told}{' …' if len(counts) > MOST_VALUES else ''}"


@lru_cache(maxsize=4)
def opened(folder: Path, _changed: int, label: str, where: tuple) -> pd.DataFrame:
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
    return words.str.replace(r"\s+", " ", regex=True).str.strip()


def _twins(folder: Path, found: pd.DataFrame) -> pd.Series:
    """Runs of an archive that are the same text as another one, whose file's name says least."""
    files = ingest.frame(folder, "files", columns=["file", "member", "sha256"])
    files = files[files["sha256"] != ""]
    inside = ("//" + files["member"]).where(files["member"] != "", "")
    text = pd.Series(files["sha256"].to_numpy(), index=files["file"] + inside)
    runs = found[["run", "line", "variant"]].drop_duplicates("run")
    runs = runs.sort_values("variant", na_position="first", kind="stable")
    names = [
        run.removesuffix(f":{line}") for run, line in zip(runs["run"], runs["line"], strict=True)
    ]
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


def parted(found: pd.DataFrame, baseline: str) -> pd.DataFrame:
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
                before = (
                    " "
                    if what == "arm"
                    else ", "
                    if name in ("setting", "variant")
                    else f", {name} "
                )
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


def several(found: pd.DataFrame, baseline: str) -> list[str]:
    """What to name with the baseline, where its runs are of several versions or settings and so
    cannot be pooled: a sentence, or none."""
    runs, label = found[found["arm"] == baseline].drop_duplicates("run"), found.attrs["label"]
    many = [n for n in OF_PATHS if n not in label.split(",") and runs[n].nunique() > 1]
    if not label or "," in label or not many:
        return []
    first = runs[many[0]].dropna().iloc[0]
    return [
        f"the runs of {baseline} have {runs[many[0]].nunique()} values of {many[0]}: name one, as in "
        f"--baseline {label}={baseline},{many[0]}={first}"
    ]


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
