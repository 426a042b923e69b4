"""Results over time: campaigns and their verdict tables in a database (SQLite, MySQL, MariaDB).

The schema has no other tables (one that has is refused), and is never on the server under test.
Every value is a bound parameter.
"""

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import sqlalchemy as sa

from noisefloor import model, paths, studies
from noisefloor.data import alarm, design, question, results, tidy
from noisefloor.data.compare import aligned
from noisefloor.show.markup import has_value
from noisefloor.show.report.words import effect, engine, machine, primary, when, word
from noisefloor.show.rows import Row, metric_label, threads_label
from noisefloor.text import Refusal

VARIABLE = "NOISEFLOOR_STORE"  # for a URL with a password: no other user can read it there
VERSION = 4  # of the tables below
_COMPARISON = ["question", *question.COMPARISON]  # columns with one value over time
_DRIVERS = {"sqlite": "sqlite", "mysql": "mysql+mysqldb", "mariadb": "mysql+mysqldb"}
_OPTIONS = {"read_default_file", "read_default_group", "unix_socket"}
_OPTIONS |= {"ssl_ca", "ssl_cert", "ssl_key", "ssl_mode"}
_ALLOWED = "sqlite:///FILE, mysql://USER@HOST/SCHEMA and mariadb://USER@HOST/SCHEMA"
_ENDLESS = 1e308  # an endless interval, in databases whose numbers have no infinity


class StoreError(Refusal):
    """A database that cannot be used."""

    code = 1


class NothingToJudge(StoreError):
    """A campaign that has not ended, or without a pair."""


class _Number(sa.TypeDecorator[float]):
    """A number of a verdict table; infinity is kept as +-1e308."""

    impl, cache_ok = sa.Double, True

    def process_bind_param(self, value: float | None, dialect: sa.Dialect) -> float | None:
        return value if value is None else max(-_ENDLESS, min(_ENDLESS, float(value)))

    def process_result_value(self, value: float | None, dialect: sa.Dialect) -> float | None:
        if value is None or abs(value) < _ENDLESS:
            return value
        return math.copysign(math.inf, value)


_META = sa.MetaData()


def _table(name: str, *keys: sa.Column[Any], columns: list[tuple[Any, str]]) -> sa.Table:
    """A table with these key columns, and with others given as (type, names)."""
    others = (sa.Column(column, kind) for kind, names in columns for column in names.split())
    mysql: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}
    return sa.Table(name, _META, *keys, *others, **mysql, mysql_collate="utf8mb4_bin")


_schema = _table("noisefloor", columns=[(sa.Integer, "schema_version")])
_campaign = _table(
    "campaign",
    sa.Column("id", sa.String(64), primary_key=True),
    columns=[
        (sa.Text, "name study title question profile design baseline"),
        (sa.Text, "engine machine created finished measured"),
        (sa.Text, "processor sitting fingerprint facts"),  # facts: campaign.json without its host
        (sa.Integer, "asked"),  # sittings that its question takes
    ],
)
_verdict = _table(
    "verdict",
    sa.Column("campaign", sa.ForeignKey("campaign.id"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    columns=[
        (sa.Text, "workload metric"),
        (sa.Integer, "threads"),
        (sa.Text, "baseline arm verdict known warnings"),
        (sa.Integer, "n_baseline n_arm blocks together"),
        (_Number, "change_pct lo_pct hi_pct margin_pct runs_needed minutes_needed"),
        (sa.Boolean, "worse control joint"),
        (sa.Text, "engine"),
    ],
)


def address(given: str = "") -> sa.URL:
    """The database: `given`, else $NOISEFLOOR_STORE, else ``data/processed/history.sqlite``.

    A password comes from the environment or from an option file (``?read_default_file=``), never
    from the command line. Raises StoreError, which never repeats the URL."""
    text = given or os.environ.get(VARIABLE) or ""
    if not text:
        return sa.URL.create("sqlite", database=str(paths.history()))
    name = "the URL" if given else f"${VARIABLE}"

    def wrong(why: str) -> StoreError:
        return StoreError(f"{why}; nothing was done", 2)

    url: sa.URL | None = None
    with contextlib.suppress(sa.exc.ArgumentError, ValueError):
        url = sa.make_url(text)
    kind = url.drivername.removesuffix("+mysqldb") if url else ""
    if url is None or kind not in _DRIVERS:
        raise wrong(f"{name} is not a database's; allowed are {_ALLOWED}")
    if given and url.password is not None:
        raise wrong(
            "a password in the command line can be seen by every user of the machine: put the URL"
            f" into ${VARIABLE}, or add ?read_default_file=FILE with a [client] section"
        )
    options = _OPTIONS if kind != "sqlite" else set()
    if odd := sorted(k for k, v in url.query.items() if k not in options or not isinstance(v, str)):
        allowed = ", ".join(sorted(options)) or "none"
        raise wrong(f"{name} has the option {odd[0]!r}; allowed: {allowed}")
    if not url.database or url.database == ":memory:" or (kind == "sqlite" and url.host):
        what = "file" if kind == "sqlite" else "schema"
        raise wrong(f"{name} names no {what}; allowed are {_ALLOWED}")
    file = url.query.get("read_default_file")
    if file and not os.access(str(file), os.R_OK):
        raise wrong(f"the option file {file} cannot be read")
    return url.set(drivername=_DRIVERS[kind])


def url_without_password(url: sa.URL) -> str:
    """The database in a message: no password, no path of this machine."""
    if url.drivername == "sqlite":
        return paths.relative(Path(url.database or "").resolve())
    return url.set(query={}, drivername="mysql").render_as_string(hide_password=True)


@contextlib.contextmanager
def _connected(url: sa.URL, *, writing: bool) -> Iterator[sa.Connection]:
    """A connection in one transaction, one writer at a time. Raises StoreError."""
    more = {"connect_timeout": 10, "charset": "utf8mb4"} if url.drivername != "sqlite" else {}
    database = sa.create_engine(url, poolclass=sa.NullPool, connect_args=more)
    if url.drivername == "sqlite":
        # as SQLAlchemy's manual has it: Python's driver must not begin transactions by itself
        sa.event.listen(database, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
        begin = "BEGIN IMMEDIATE" if writing else "BEGIN"
        sa.event.listen(database, "begin", lambda connection: connection.exec_driver_sql(begin))
    try:
        with database.begin() as connection:
            if writing and url.drivername != "sqlite":  # ends with the connection
                name = f"noisefloor {url.database}"[:64]
                if connection.scalar(sa.select(sa.func.get_lock(name, 20))) != 1:
                    raise StoreError(
                        f"{url_without_password(url)} is being written to; nothing was stored"
                    )
            yield connection
    except sa.exc.SQLAlchemyError as e:
        orig = getattr(e, "orig", None)
        why = str(orig.args[-1] if orig is not None and orig.args else e).splitlines()[0]
        end = "nothing was stored" if writing else "nothing was read"
        raise StoreError(
            f"the database {url_without_password(url)} cannot be used ({why}); {end}"
        ) from None


def _made(connection: sa.Connection, url: sa.URL) -> bool:
    """Whether our tables are there. Raises StoreError for other tables, and for another version."""
    there = sa.inspect(connection)
    version: int | None = VERSION
    ours: set[str] = set()
    names = {*there.get_table_names(), *there.get_view_names()}
    if _schema.name in names:
        columns = [column["name"] for column in there.get_columns(_schema.name)]
        if columns == _schema.columns.keys():
            ours = set(_META.tables)
            # None where `prepare` was killed
            version = connection.scalar(sa.select(_schema.c.schema_version))
    if version not in (VERSION, None):
        raise StoreError(
            f"{url_without_password(url)} has schema version {version}, this Noisefloor knows {VERSION}:"
            " use another database, or the Noisefloor that made it; nothing was changed"
        )
    if foreign := sorted(names - ours):
        raise StoreError(
            f"{url_without_password(url)} holds tables that Noisefloor did not make ({', '.join(foreign[:3])}):"
            " give it a schema of its own; nothing was changed"
        )
    return bool(ours) and version is not None


def prepare(url: sa.URL) -> None:
    """Create the tables if they do not exist. Raises StoreError."""
    if url.drivername == "sqlite" and Path(url.database or "") == paths.history():
        with contextlib.suppress(OSError):  # SQLite says it better
            paths.history().parent.mkdir(parents=True, exist_ok=True)
    with _connected(url, writing=True) as connection:
        if not _made(connection, url):
            # the version's table first: it marks the others as ours, also after a kill
            _META.create_all(connection, tables=[_schema])
            _META.create_all(connection)
            connection.execute(_schema.insert().values(schema_version=VERSION))


def push(url: sa.URL, folder: Path) -> int:
    """Store a campaign and its own verdict table; an earlier copy of it is replaced. Returns the
    number of comparisons. Raises StoreError, tidy.Damaged."""
    row, verdicts = _rows(folder)
    prepare(url)
    with _connected(url, writing=True) as connection:
        connection.execute(_verdict.delete().where(_verdict.c.campaign == row["id"]))
        connection.execute(_campaign.delete().where(_campaign.c.id == row["id"]))
        connection.execute(_campaign.insert(), row)
        connection.execute(_verdict.insert(), verdicts)
    return len(verdicts)


def _rows(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The row of a campaign, and those of its comparisons. Raises StoreError, tidy.Damaged."""
    facts, campaign = tidy.meta(folder), results.load(folder)
    if missing := [k for k in ("created", "seed") if k not in facts]:
        raise StoreError(f"{folder.name}/campaign.json has no {missing[0]!r}; it was not stored")
    if facts.get("finished") == "":  # nobody sees an estimate before that
        raise NothingToJudge(f"{folder.name} has not ended; it was not stored")
    if not tidy.run_folders(folder):
        raise StoreError(f"{folder.name} holds no run; it was not stored")
    if changed := tidy.broken(folder):
        raise StoreError(f"{folder.name}: {changed[0]}; it was not stored")
    # not the folder: a campaign may be copied, and a machine may reuse a folder's name
    key = f"{campaign.study.name} {facts['created']} {facts['seed']}"
    row: dict[str, Any] = {column.name: facts.get(column.name) for column in _campaign.columns}
    row |= {"id": hashlib.sha256(key.encode("utf-8", "replace")).hexdigest(), "name": folder.name}
    row |= {"profile": facts["profile"]["name"], "engine": engine(facts), "machine": machine(facts)}
    row |= {"measured": when(facts), "question": campaign.study.key}
    row |= {"processor": campaign.processor, "sitting": design.sitting_key(campaign.meta)}
    row |= {"fingerprint": design.fingerprint(design.design_of(campaign.meta))}
    row |= {"facts": json.dumps({k: v for k, v in facts.items() if k != "host"})}
    builds = {arm: build["label"] for arm, build in facts.get("engines", {}).items()}
    table = campaign.alone()
    if table.empty:
        raise NothingToJudge(f"{folder.name} holds no pair to judge; it was not stored")
    row["asked"] = int(campaign.verdicts["asked"].max())
    table = table.assign(campaign=row["id"], position=table.index)
    table["engine"] = [builds.get(arm, row["engine"]) for arm in table["arm"]]
    every: list[dict[Any, Any]] = [row, *table[list(_verdict.columns.keys())].to_dict("records")]
    row, *verdicts = ({column: _cell(v) for column, v in cells.items()} for cells in every)
    return row, verdicts


def _cell(value: Any) -> Any:
    """A value as a driver takes it: no NaN, no NumPy, no lone surrogate; a list as one text."""
    if isinstance(value, (list, tuple)):
        value = "; ".join(map(str, value))
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return (value.item() if hasattr(value, "item") else value) if has_value(value) else None


def history(
    url: sa.URL,
    study: str,
    *,
    question: str = "",
    metric: str = "",
    threads: int | None = None,
    arm: str = "",
) -> pd.DataFrame:
    """The stored changes of a study over time, comparison by comparison: verdict rows of each campaign
    by itself, by date, with the columns campaign, date, engine (the arm's), machine, processor and
    profile; then, without a campaign, the combined result of the newest design on each processor,
    with the columns of `question.MORE`. The columns of `alarm.checked` say whether the newest campaign
    lies where the sittings before it predict.

    question: "" for all. Without metric, threads and arm: the comparisons that the page of the newest
    campaign leads with. A/A controls only where `arm` names one. Raises StoreError, which lists what
    is stored."""
    frame = alarm.marked(_campaigns(url, study, question))
    alone = frame.assign(asked=1, sittings=1, ranged=False)
    kept = pd.concat([alone, *_together(frame)], ignore_index=True)
    kept = kept if arm else kept[~kept["control"]]
    if not (metric or threads or arm):
        kept = kept[_leading(kept, frame, study)]
    for column, value in (("metric", metric), ("threads", threads), ("arm", arm)):
        if value:
            there = ", ".join(map(str, kept[column].dropna().unique()))
            kept = kept[kept[column].eq(value).fillna(False)]
            if kept.empty:
                why = f"no stored comparison of {study} has {column} {value}"
                raise StoreError(f"{why}; there are: {there}", 2)
    order = kept.groupby(_COMPARISON, sort=False, dropna=False).ngroup()
    kept = kept.loc[order.sort_values(kind="stable").index]
    kept = alarm.checked(
        kept.reset_index(drop=True),
        lambda row: design.instrument(_study_of(row), row["workload"]),
    )
    return kept.drop(columns=["created", "position", "facts", "present", "newest"])


def _campaigns(url: sa.URL, study: str, question: str) -> pd.DataFrame:
    """The verdict rows of a study's campaigns about a question ("" for any), in the order of time.
    Raises StoreError, which lists what is stored."""
    if url.drivername == "sqlite" and not Path(url.database or "").exists():
        raise StoreError(f"{url_without_password(url)} does not exist; `noisefloor store` makes it")
    with _connected(url, writing=False) as connection:
        if not _made(connection, url):
            raise StoreError(
                f"{url_without_password(url)} has no results; `noisefloor store` puts them there"
            )
        facts = ["study", "question", "profile", "design", "machine", "created"]
        facts += ["processor", "sitting", "fingerprint", "facts", "asked"]
        both = sa.select(
            _campaign.c.name.label("campaign"),
            _campaign.c.measured.label("date"),
            *(_campaign.c[name] for name in facts),
            *(column for column in _verdict.columns if column.name != "campaign"),
        ).join_from(_campaign, _verdict)
        frame = pd.read_sql(both.where(_campaign.c.study == study), connection)
        stored = connection.scalars(sa.select(_campaign.c.study).distinct()).all()
    if frame.empty:
        there = ", ".join(sorted(stored)) or "none"
        raise StoreError(
            f"no campaign of {study!r} is stored in {url_without_password(url)}; there are: {there}",
            2,
        )
    questions = ", ".join(q or "all of them at once" for q in frame["question"].unique())
    frame = frame[frame["question"].eq(question)] if question else frame
    if frame.empty:
        raise StoreError(
            f"no stored campaign of {study} has the question {question}; there are: {questions}", 2
        )
    numbers = [column.name for column in _verdict.columns if isinstance(column.type, _Number)]
    frame = frame.astype({"threads": "Int64"} | dict.fromkeys(numbers, float))
    return frame.sort_values(["created", "campaign", "position"], ignore_index=True)


def _leading(rows: pd.DataFrame, campaigns: pd.DataFrame, study: str) -> pd.Series:
    """Whether each row of a history belongs to the comparisons that the page of the newest campaign
    leads with, on its processor."""
    keys = studies.headline(study) if study in studies.STUDIES else ()
    wanted = (campaigns[campaigns["question"].isin(k)] for k in (keys, ("", "headline")))
    newest = next((f for f in wanted if len(f)), campaigns).iloc[-1]
    both = rows[rows["campaign"].isna() & rows["fingerprint"].eq(newest["fingerprint"])]
    about = pd.Series(False, index=rows.index)
    elsewhere = ~rows["processor"].isin(both["processor"])
    for processor, measured in both.groupby("processor", sort=False):
        here = elsewhere | rows["processor"].eq(processor)
        for one in results.lead_rows(measured, _study_of(newest)) or [primary(measured)]:
            same = ["question", "workload", "metric", "arm", "joint"]
            same += ["threads"] * has_value(one["threads"])
            about |= here & (rows[same] == one[same]).all(axis=1).astype(bool)
    return about


def _study_of(row: Row) -> model.Study:
    """The study of a row's campaign. Raises StoreError where the database is damaged."""
    try:
        return model.study_of(json.loads(row["facts"]))
    except (ValueError, TypeError) as e:
        raise StoreError(
            f"what is stored of {row['campaign']} cannot be read ({e}): store it again with"
            f" `noisefloor store {row['campaign']}`; nothing was checked"
        ) from None


def _together(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The combined result of the newest design of each question and profile, one table for each
    processor. frame: rows of `_campaigns` in the order of time."""
    newest = frame.groupby(["question", "profile"])["fingerprint"].transform("last")
    alike = frame[frame["fingerprint"] == newest]
    warnings: list[Any] = [text.split("; ") if text else [] for text in alike["warnings"]]
    alike = alike.assign(warnings=warnings)
    for (_, processor), rows in alike.groupby(["fingerprint", "processor"], sort=False):
        tables = [part for _, part in rows.groupby(["campaign", "sitting"], sort=False)]
        last = tables[-1].iloc[0]
        study = replace(_study_of(last), sittings=int(last["asked"]))
        repeats = [(table["sitting"].iloc[0], table) for table in tables]
        combined = question.combined(repeats, study, str(processor))
        yield combined.assign(campaign=None, date="", machine=str(processor))


def history_text(frame: pd.DataFrame) -> str:
    """The rows of `history` for a terminal: a heading for each comparison, below it a line for each
    campaign, and one for the combined result of each processor."""
    rows = frame.to_dict("records")
    cells = [
        [_when(row), row["engine"], row["profile"], word(row), effect(row), row["machine"]]
        for row in rows
    ]
    several = frame["question"].nunique() > 1
    lines, last = [], ""
    for row, line in zip(rows, aligned([[c or "" for c in each] for each in cells]), strict=True):
        what = f"{metric_label(row['metric'])} {threads_label(row['threads'], row['joint'])}"
        head = f"{what.strip()}, {row['workload']}: {row['arm']} against {row['baseline']}"
        head += f" ({row['question']})" if several and row["question"] else ""
        lines += [] if head == last else [*([""] if last else []), head]
        lines.append(f"  {line}")
        last = head
    return "\n".join(lines)


def _when(row: Mapping[Any, Any]) -> str:
    """The date of a campaign; for a combined result the number of sittings."""
    n = row["sittings"]
    return row["date"] if has_value(row["campaign"]) else f"{n} sitting{'s' * (n > 1)}"
