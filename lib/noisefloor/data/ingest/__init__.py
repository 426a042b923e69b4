"""Any tree of results -> tables: folders of Parquet files, and manifest.json beside them.

``tidy`` one row per run and metric (the columns of tidy.COLUMNS, labels, warnings), ``intervals``
the rows printed while a run went on, ``histograms``, ``problems`` (file, line, reason), ``files``
what each file is; `tables.toml` has the columns. Plain types only: any reader of Parquet opens each
folder as one table. Modules: `labels` (a path -> labels), `files` (a tree -> files -> texts), `part`
(files -> rows), `build` (a tree -> the tables).
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from noisefloor.text import Refusal

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.dataset as ds

FORMAT = 1  # of the tables; 1: first
MANIFEST = "manifest.json"
NAME = "noisefloor table"

_COLUMNS = tomllib.loads(Path(__file__).with_name("tables.toml").read_text())
TABLES = {  # `files` comes last: a part counts when it is there
    name: pa.schema({column: getattr(pa, kind)() for column, kind in columns.items()})
    for name, columns in _COLUMNS.items()
}
_ONCE = pa.dictionary(pa.int32(), pa.string())  # a repeated text is stored once
_STORED = {
    name: pa.schema({f.name: _ONCE if f.type == pa.string() else f.type for f in schema})
    if name in ("tidy", "intervals", "histograms")
    else schema
    for name, schema in TABLES.items()
}


class _NoPandas:
    """Hides pandas from Arrow, which imports it for its first array, whatever that is made of: this
    takes as long as reading 500 files. Arrow has no option against it; it would load a lazy module at
    once, because it asks for its version; and None in sys.modules breaks it. Code that needs a data
    frame imports pandas later."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


sys.meta_path.insert(0, _NoPandas)
try:
    pa.array([0])
finally:
    sys.meta_path.remove(_NoPandas)


def manifest(folder: Path) -> dict[str, Any]:
    """manifest.json of an ingested archive. Raises Refusal without one, or for another format."""
    try:
        facts: dict[str, Any] = json.loads((Path(folder) / MANIFEST).read_text())
        name, version = facts["what"], facts["format"]
    except (OSError, ValueError, KeyError, TypeError):
        raise Refusal(
            f"{folder} is no table of `noisefloor ingest` (it has no readable {MANIFEST}); "
            "nothing was read"
        ) from None
    if name != NAME or version != FORMAT:
        raise Refusal(
            f"{folder} has format {version!r}, this version reads {FORMAT}: remove the folder and "
            "run `noisefloor ingest` again; nothing was read"
        )
    return facts


def parts(folder: Path, name: str) -> list[Path]:
    """The files of one of TABLES, sorted; only of whole parts: those with a ``files`` table."""
    whole = sorted(Path(folder, "files").glob("part-*.parquet"))
    return [file for p in whole if (file := Path(folder, name, p.name)).exists()]


def opened(folder: Path, name: str) -> "ds.Dataset":
    """One of TABLES of an ingested archive, as an Arrow data set. Raises Refusal."""
    from pyarrow.dataset import dataset

    manifest(folder)
    return dataset(list(map(str, parts(folder, name))), schema=TABLES[name], format="parquet")


def frame(folder: Path, name: str, **how: Any) -> "pd.DataFrame":
    """One of TABLES as a pandas data frame; `how` as for Dataset.to_table (columns, filter). Raises
    Refusal."""
    return opened(folder, name).to_table(**how).to_pandas()


def writer(path: Path, name: str) -> pq.ParquetWriter:
    """A Parquet file for one of TABLES, plain types only."""
    text = [f.name for f in TABLES[name] if f.type == pa.string()]
    return pq.ParquetWriter(
        path,
        _STORED[name],
        compression="zstd",
        compression_level=1,
        use_dictionary=[*text, "value_s"] if name != "files" else False,
        store_schema=False,  # else a repeated text would come back as a category
        write_statistics=[n for n in TABLES[name].names if n in ("run", "file", "metric")],
    )


def arrow(name: str, rows: list[tuple[int, dict[str, Any]]]) -> pa.Table:
    """An Arrow table for `writer`. rows: as they are collected, (how many, {column: one value for
    all of them, or an array with a value for each}). Raises KeyError for a column that the table
    does not have."""
    for _, cells in rows:
        if strange := cells.keys() - set(TABLES[name].names):
            raise KeyError(f"{', '.join(sorted(strange))}: no column of the table {name}")
    counts, columns = [n for n, _ in rows], []
    each = pa.array(np.repeat(np.arange(len(rows)), counts))
    for field in _STORED[name]:
        given = [cells.get(field.name) for _, cells in rows]
        if any(isinstance(values, np.ndarray) for values in given):
            whole = [
                np.full(n, np.nan) if values is None else values
                for n, values in zip(counts, given, strict=True)
            ]
            column = pa.array(np.concatenate(whole), from_pandas=True)
            columns.append(column.cast(field.type, safe=False))
        else:
            columns.append(pa.array(given, field.type).take(each))
    return pa.table(columns, schema=_STORED[name])
