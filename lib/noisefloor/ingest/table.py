"""The tables of an ingested archive: folders of Parquet files, and manifest.json beside them.

``tidy`` one row per run and metric (the columns of tidy.COLUMNS, labels, warnings), ``intervals``
the rows printed while a run went on, ``histograms``, ``problems`` (file, line, reason), ``files``
what each file is. Plain types only: any reader of Parquet opens each folder as one table.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa

FORMAT = 1  # of the tables; 1: first
MANIFEST = "manifest.json"
NAME = "noisefloor table"

_S, _F, _I, _N = pa.string(), pa.float32(), pa.int32(), pa.int64()
_D, _B = pa.float64(), pa.bool_()
_RUN = {
    "study": _S, "campaign": _S, "workload": _S, "threads": _I, "block": _I, "pair": _I,
    "pair_id": _S, "position": _I, "arm": _S, "warmup": _B, "run": _S,
    "design": _S, "server": _S, "version": _S, "buffer_pool_B": _N, "setting": _S,
    "repetition": _I, "host": _S, "labels_from": _S, "path_threads": _I, "folder": _S, "file": _S,
    "line": _I, "tool": _S, "tool_version": _S, "duration_s": _D, "keys": _S, "warnings": _S,
}  # fmt: skip
RUN = tuple(_RUN)
ROWS = {
    "t_s": _F, "threads": _I, "tps": _F, "events_per_s": _F, "qps": _F, "reads_per_s": _F,
    "writes_per_s": _F, "other_per_s": _F, "latency_s": _F, "errors_per_s": _F,
    "reconnects_per_s": _F, "queue_length": _I, "concurrency": _I, "ok": _B,
}  # fmt: skip
TABLES = {
    "tidy": pa.schema({**_RUN, "metric": _S, "value": _D, "unit": _S}),
    "intervals": pa.schema({"run": _S, **ROWS}),
    "histograms": pa.schema({"run": _S, "value_s": _D, "count": _N}),
    "problems": pa.schema({"file": _S, "member": _S, "line": _I, "reason": _S}),
    "files": pa.schema(
        {"file": _S, "member": _S, "kind": _S, "size": _N, "sha256": _S, "runs": _I, "stamp": _N}
    ),
}


class _NoPandas:
    """Finds no pandas, which Arrow would import for its first array: that takes as long as reading
    500 files. What needs a data frame imports it later."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


sys.meta_path.insert(0, _NoPandas)
pa.array([0])
sys.meta_path.remove(_NoPandas)


class NotATable(Exception):
    """A folder that cannot be opened as an ingested archive: one sentence, with the way on."""


def manifest(folder: Path) -> dict:
    """manifest.json of an ingested archive. Raises NotATable, also for another format."""
    try:
        found = json.loads((Path(folder) / MANIFEST).read_text())
        name, version = found["what"], found["format"]
    except (OSError, ValueError, KeyError, TypeError):
        raise NotATable(
            f"{folder} is no table of `noisefloor ingest` (it has no readable {MANIFEST}); "
            "nothing was read"
        ) from None
    if name != NAME or version != FORMAT:
        raise NotATable(
            f"{folder} has format {version!r}, this version reads {FORMAT}: remove the folder and "
            "run `noisefloor ingest` again; nothing was read"
        )
    return found


def opened(folder: Path, name: str):
    """One of TABLES of an ingested archive, as an Arrow data set. Raises NotATable."""
    import pyarrow.dataset as ds

    manifest(folder)
    folder = Path(folder)
    parts = [
        str(folder / name / p.name)
        for p in sorted((folder / "files").glob("part-*.parquet"))  # what makes a part count
        if (folder / name / p.name).exists()
    ]
    return ds.dataset(parts, schema=TABLES[name], format="parquet")


def frame(folder: Path, name: str, **how):
    """One of TABLES as a pandas data frame; `how` as for Dataset.to_table (columns, filter)."""
    return opened(folder, name).to_table(**how).to_pandas()
