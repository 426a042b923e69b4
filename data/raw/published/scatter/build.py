"""Makes groups.csv by the rules of README.md: `build.py TABLES CLONES`.

TABLES/OWNER+NAME: what `noisefloor ingest` made of a clone. CLONES/OWNER+NAME: the clone itself.
"""

import hashlib
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from noisefloor.data import results, tidy

HERE = Path(__file__).parent
RECORDED = HERE.parents[1] / "recorded"
METRICS = ["tps", "events_per_s", "mean_latency", "p95", "p99", "cpu_per_transaction", "wall"]
METRICS += ["user_sys", "connections_per_second"]
MOST = 40  # groups of a source and metric
COLUMNS = ["source", "url", "licence", "server", "workload", "metric", "threads", "seconds", "n"]
COLUMNS += ["cv_pct", "restarts", "note"]
KEPT = ["licence", "restarts", "note"]
SAME = ["source", "server", "workload", "setting", "threads", "nominal", "metric"]

# What a path says: all of it is in the group's key but the number of the repeat.
PERCONA = r"benchmark_logs/(?P<server>[^/]+/[^/]+)/run\d_(?P<setting>Tier\d+G)_(?P<workload>RW)_"
ZIP = r"raw_results/(?P<server>\w+\.\w+)_\d{8}_\d{4}_.*OLTP_(?P<workload>READ_only)_test_\d+_"
TIDES = r"(?P<setting>tidesql-v4-5-6)-.*/(?P<server>innodb|tidesdb)_(?P<workload>\w+)_run\d"
TOOK = r"\| \d \| ([\d.]+)s \| ([\d.]+)s \| ([\d.]+)s \| \d+ MB"
NONE, LAB = "none stated", "Percona-Lab-results/"
RENTED = "AWS {}, MySQL; a rented machine for each repeat"
ARCHIVES = {  # source: pattern, licence, restarts, note
    LAB + "2021_10_arm_cpu_comparison": (ZIP, NONE, "yes", RENTED),
    LAB + "2021_10_arm_cpu_comparison_m6": (ZIP, NONE, "yes", RENTED),
    LAB + "2026-pgo": (PERCONA, NONE, "unknown", "MySQL 9.7 with and without PGO, {}"),
    LAB + "2026-ps-pgo": (PERCONA, NONE, "unknown", "{}"),
    LAB + "2026-ps-vs-mysql": (PERCONA, NONE, "no", "one after another, {}"),
    "tidesdb/tidesdb.github.io": (TIDES, "Apache-2.0", "no", "MariaDB 11.8.6, engine {}"),
}


def archives(tables: Path) -> pd.DataFrame:
    """Runs of the ingested archives; a text counts once, in the source that is first by name."""
    parts = []
    for source, (pattern, licence, restarts, note) in ARCHIVES.items():
        folder = tables / source.replace("/", "+")
        t, files = (pd.read_parquet(folder / name) for name in ("tidy", "files"))
        member = files["member"].where(files["member"] == "", "//" + files["member"])
        text = pd.Series(files["sha256"].to_numpy(), files["file"] + member)
        said = t["run"].str.extract(pattern)
        t = t.drop(columns=["server", "workload", "setting"]).join(said).assign(source=source)
        t = t[t["server"].notna() & ~t["warmup"].astype(bool)]
        known = t[["version", "buffer_pool_B", "tool_version", "keys"]]
        known = known.apply(lambda row: "|".join(map(str, row)), axis=1)
        t["setting"] = t.get("setting", "") + known
        t["text"] = t["run"].map(text) + ":" + t["line"].astype(str)
        t["note"] = [note.format(s) for s in t["server"]]
        parts.append(t.assign(licence=licence, restarts=restarts, seconds=t["duration_s"]))
    return pd.concat(parts).drop_duplicates(["text", "metric"]).sort_values(["source", "run"])


def printed(clones: Path) -> pd.DataFrame:
    """Runs of tables that print their repetitions."""
    parts = []
    source = "EvgeniyPatlan/tidesdb-mysql"
    for f in sorted((clones / source.replace("/", "+")).glob("bench/results/perf-*/results.csv")):
        t = pd.read_csv(f).dropna(subset="tps")
        t = t.assign(setting=f.parent.name + "|" + t["table_size"].astype(str), server=t["sut"])
        t = t.rename(columns={"p95_ms": "p95"}).melt(SAME[1:5], ["tps", "p95"], "metric")
        note = "engine TidesDB (experimental), " + t["setting"].str.replace("|", ", rows ")
        parts.append(t.assign(source=source, licence=NONE, restarts="no", seconds=15, note=note))
    source = "DockerDemos/vm-docker-bench"
    for f in sorted((clones / source.replace("/", "+")).glob("raw-results/*-bench_mysql-*.csv")):
        values = [float(x) for x in f.read_text().split()]
        server = "MySQL, " + f.name.split("-bench")[0].replace("_", " ")
        t = pd.DataFrame({"value": values, "server": server}).assign(workload="oltp read-only")
        t = t.assign(source=source, setting="", threads=8, metric="tps", seconds=60, note="")
        parts.append(t.assign(licence="GPL-3.0", restarts="yes", note="a new container each"))
    text = (clones / "HelgeSverre+dbdump" / "VERIFIED_PERFORMANCE.md").read_text()
    for i, part in enumerate(text.split("### Database ")[1:], 1):
        t = pd.DataFrame(re.findall(TOOK, part), columns=["wall", "user", "sys"]).astype(float)
        t = t.assign(server=f"MySQL, database {i}", workload="dump", licence=NONE, note="")
        parts.append(timed(t.assign(source="HelgeSverre/dbdump", restarts="no")))
    t = pd.read_csv(HERE.parent / "star-bnl.csv")
    t = t.pivot(index=["arm", "where_in_source"], columns="metric", values="value").reset_index()
    t = t.assign(server="TLS " + t["arm"], workload="database API", licence=NONE, note="")
    return pd.concat([*parts, timed(t.assign(source="star-bnl", restarts="unknown"))])


def timed(t: pd.DataFrame) -> pd.DataFrame:
    """Repeats of a command as `time` printed them; one client is one thread."""
    t = t.assign(user_sys=t["user"] + t["sys"], seconds=t["wall"], threads=1, setting="")
    t["note"], t["nominal"] = "time of one client", "as long as it took"
    return t.melt([c for c in t if c not in METRICS], ["wall", "user_sys"], "metric")


def campaigns() -> pd.DataFrame:
    """Runs of this project: A/A campaigns, and baseline and control of the others."""
    parts = []
    for folder in sorted(p.parent for p in RECORDED.glob("*/campaign.json")):
        facts, t = tidy.meta(folder), tidy.tidy_table(folder)
        t = t[~t["warmup"]].merge(results.Results(folder).runs[["run", "slice_s"]], on="run")
        if not facts["study"].startswith("calibration-aa"):
            pair = [facts["baseline"], f"{facts['baseline']} again"]
            cells = t.loc[t["arm"] == pair[1], ["workload", "threads"]].drop_duplicates()
            t = t[t["arm"].isin(pair)].merge(cells, on=["workload", "threads"])
        builds = {arm: e["label"] for arm, e in facts.get("engines", {}).items()}
        label = [builds.get(a.removesuffix(" again"), facts["engine"]["label"]) for a in t["arm"]]
        t = t.assign(server=label, setting=t["arm"], seconds=t["slice_s"], restarts="yes")
        took = t[t["metric"] == "wall"].set_index("run")["value"]
        t["seconds"] = t["run"].map(took).fillna(t["seconds"])
        note = "arm: " + t["arm"] + "; restarted between blocks"
        parts.append(t.assign(source=folder.name, licence="Apache-2.0", nominal="", note=note))
    return pd.concat(parts)


def url(source: str) -> str:
    """Where a source is."""
    ours = "published/star-bnl.csv" if source == "star-bnl" else f"recorded/{source}"
    return f"https://github.com/{source}" if "/" in source else f"data/raw/{ours}"


def groups(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a group of repeats, by the rules."""
    runs = runs[runs["metric"].isin(METRICS)].assign(setting=runs["setting"].fillna(""))
    rows = []
    for key, g in runs.groupby(SAME, sort=True):
        v = g["value"].to_numpy(float)
        if len(v) < 3 or g["seconds"].min() < 1 or v.min() <= 0 or len(set(v)) == 1:
            continue
        row = dict(zip(SAME, key, strict=True)) | g.iloc[0][KEPT].to_dict()
        row |= {"url": url(row["source"]), "n": len(v), "seconds": f"{g['seconds'].median():.3g}"}
        row["cv_pct"] = round(100 * np.log(v).std(ddof=1), 4)
        row["order"] = hashlib.sha256("\n".join(map(str, key)).encode()).hexdigest()
        rows.append(row)
    table = pd.DataFrame(rows).sort_values("order").groupby(["source", "metric"]).head(MOST)
    return table.sort_values(SAME, ignore_index=True)[COLUMNS]


def main(tables: Path, clones: Path) -> None:
    """Write groups.csv."""
    runs = pd.concat([archives(tables), printed(clones), campaigns()], ignore_index=True)
    # 900.08 and 900.36 s were asked for as 900 s
    runs["nominal"] = runs["nominal"].fillna(runs["seconds"].map(lambda s: f"{s:.2g}")).astype(str)
    groups(runs).to_csv(HERE / "groups.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
