"""Makes the tables here anew: `build.py CLONES`.

CLONES/OWNER+NAME: clones of the sources that each about.toml names. Kept is what the runs of the
database say, as numbers; per-second rows, histograms and the logs themselves are not."""

import json
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisefloor.data.cluster import pool
from noisefloor.data.ingest import MANIFEST, TABLES, build, opened

HERE = Path(__file__).parent
VCPU = {"large": 2, "xlarge": 4, **{f"{n}xlarge": 4 * n for n in (2, 4, 8, 12, 16)}}


def main(clones: Path) -> None:
    for file in sorted(HERE.glob("*/about.toml")):
        source = tomllib.loads(file.read_text())["source"]
        labels = file.with_name("labels.re")
        rules = str(labels) if labels.exists() else ""
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch, "tables")
            clone = clones / "+".join(source.rsplit("/", 2)[1:])
            build.build(clone, out, lambda: pool("", None, sees=()), rules=rules)
            reduced(out, file.parent)


def reduced(out: Path, to: Path) -> None:
    """Write what is kept of the tables in `out` into the folder `to`."""
    tidy = opened(out, "tidy").to_table()
    databases = tidy.filter(pc.equal(tidy["metric"], "tps"))["run"]
    tidy = tidy.filter(pc.is_in(tidy["run"], databases))
    # the run that fills the buffer pool asks for other rows
    tidy = tidy.filter(pc.invert(pc.match_substring(tidy["run"], "Preparation")))
    sizes = [f"{VCPU[s]} vCPU" if s in VCPU else s for s in tidy["setting"].to_pylist()]
    tidy = tidy.set_column(tidy.schema.get_field_index("setting"), "setting", pa.array(sizes))
    files = opened(out, "files").to_table()
    kept = {
        "tidy": tidy.sort_by([("run", "ascending"), ("metric", "ascending")]),
        "files": files.filter(pc.greater(files["runs"], 0)).sort_by([("file", "ascending")]),
        "problems": opened(out, "problems").to_table(),
    }
    for name, schema in TABLES.items():
        shutil.rmtree(to / name, ignore_errors=True)
        (to / name).mkdir()
        rows = kept.get(name, schema.empty_table()).cast(schema)
        pq.write_table(
            rows, to / name / "part-000000.parquet", compression="zstd", store_schema=False
        )
    runs = pc.count_distinct(tidy["run"]).as_py()
    facts = json.loads((out / MANIFEST).read_text())
    facts |= {"runs": runs, "labels": build.held(to)}
    (to / MANIFEST).write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
