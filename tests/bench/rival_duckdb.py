"""The tables of `noisefloor ingest` by DuckDB: `read_csv` for lines, `regexp_extract` for numbers.

python tests/bench/rival_duckdb.py TREE OUT
"""

import sys
from pathlib import Path

import duckdb

from rival_forms import BUCKET, LABEL, METRICS, PATH, RATES, ROW, names


def matched(form: str, where: str) -> str:
    """Run and groups of the lines that a form matches; where: what only these lines have."""
    groups = f"unnest(regexp_extract(line, '{form}', {names(form)}))"
    return f"select run, {groups} from lines where {where}"


def queries() -> dict[str, str]:
    """{table: its query}, from the table `lines` (run, line)."""
    as_number = dict.fromkeys(names(ROW), "{0}::float")
    as_number |= {"threads": "{0}::int", "latency_s": "({0}::double / 1e3)::float"}
    rates = ", ".join(f"{form.format(c)} as {c}" for c, form in as_number.items())
    metrics = ", ".join(str(both) for both in METRICS.items())
    return {
        "intervals": f"""
            select run, {rates}
            from ({matched(ROW, "starts_with(line, '[ ')")})""",
        "histograms": f"""
            select run, value_s::double / 1e3 as value_s, count::bigint as count
            from ({matched(BUCKET, "contains(line, ' |')")})""",
        "summary": f"""
            select run, metric, case when metric in {RATES} then try_cast(rate as double)
                when metric like '%latency' then value::double / 1e3 else value::double end as value
            from ({matched(LABEL, "starts_with(line, ' ') and contains(line, ': ')")})
            join (values {metrics}) as metrics(label, metric) using (label)""",
        "labels": f"""
            select * replace (repetition::int as repetition, path_threads::int as path_threads,
                buffer_pool_B::bigint * {2**30} as buffer_pool_B)
            from (select run, unnest(regexp_extract(run, '{PATH}', {names(PATH)}))
                from (select distinct run from lines))""",
    }


def write(tree: Path, out: Path) -> None:
    """Write the tables of a tree into `out`."""
    with duckdb.connect() as db:
        db.execute(f"""
            create table lines as select filename[{len(str(tree)) + 2}:] as run, line
            from read_csv('{tree}/**/*.txt', columns = {{'line': 'VARCHAR'}}, delim = e'\\x01',
                quote = '', escape = '', header = false, auto_detect = false, filename = true)
        """)
        for name, query in queries().items():
            (out / name).mkdir(parents=True)
            file = out / name / "0.parquet"
            db.execute(f"copy ({query}) to '{file}' (compression zstd, compression_level 1)")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
