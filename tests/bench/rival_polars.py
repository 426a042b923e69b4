"""The tables of `noisefloor ingest` by polars.

python tests/bench/rival_polars.py TREE OUT
"""

import sys
from pathlib import Path

import polars as pl

from rival_forms import BUCKET, LABEL, METRICS, PATH, RATES, ROW, names

LINE, METRIC = pl.col("line"), pl.col("metric")


def matched(lines: pl.LazyFrame, form: str, of: str = "line") -> pl.LazyFrame:
    """Run and groups of the lines (or another column) that a form matches."""
    return lines.select("run", groups=pl.col(of).str.extract_groups(form)).unnest("groups")


def tables(lines: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
    """{name: table} of all lines (run, line)."""
    rows = matched(lines.filter(LINE.str.starts_with("[ ")), ROW)
    buckets = matched(lines.filter(LINE.str.contains(" |", literal=True)), BUCKET)
    labelled = LINE.str.starts_with(" ") & LINE.str.contains(": ", literal=True)
    metrics = pl.LazyFrame({"label": list(METRICS), "metric": list(METRICS.values())})
    summary = matched(lines.filter(labelled), LABEL).join(metrics, on="label")
    count, rate = pl.col("value").cast(pl.Float64), pl.col("rate").cast(pl.Float64)
    of_path = matched(lines.select("run").unique(), PATH, of="run")
    return {
        "intervals": rows.with_columns(pl.col(names(ROW)).cast(pl.Float32)).with_columns(
            pl.col("threads").cast(pl.Int32), pl.col("latency_s") / 1e3
        ),
        "histograms": buckets.with_columns(
            pl.col("value_s").cast(pl.Float64) / 1e3, pl.col("count").cast(pl.Int64)
        ),
        "summary": summary.select(
            "run",
            "metric",
            value=pl.when(METRIC.is_in(RATES))
            .then(rate)
            .when(METRIC.str.ends_with("latency"))
            .then(count / 1e3)
            .otherwise(count),
        ),
        "labels": of_path.with_columns(
            pl.col("repetition", "path_threads").cast(pl.Int32),
            pl.col("buffer_pool_B").cast(pl.Int64) * 2**30,
        ),
    }


def write(tree: Path, out: Path) -> None:
    """Write the tables of a tree into `out`."""
    lines = pl.scan_csv(
        tree / "**/*.txt", has_header=False, schema={"line": pl.String}, separator="\x01",
        quote_char=None, include_file_paths="run",
    )  # fmt: skip
    kept = lines.with_columns(pl.col("run").str.slice(len(str(tree)) + 1)).collect().lazy()
    for name, table in tables(kept).items():
        (out / name).mkdir(parents=True)
        table.sink_parquet(out / name / "0.parquet", compression="zstd", compression_level=1)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
