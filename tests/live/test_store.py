"""Campaigns in real databases: SQLite, MySQL and MariaDB."""

import json
import re
import shutil
import socket
import sqlite3
import subprocess
import sys

import pandas as pd
import pytest
import sqlalchemy as sa

from conftest import comparisons, done, refused
from conftest import noisefloor as run
from noisefloor import paths, store
from noisefloor.data import results, tidy
from noisefloor.show import plots

STUDY = "binlog-encryption"
ODD = "x'; DROP TABLE campaign; -- \"`%s :name \\ \N{SNOWMAN} \N{PILE OF POO}\n\x00 end"


SERVERS = ["mysql", pytest.param("mariadb", marks=pytest.mark.slow)]


@pytest.fixture(params=["sqlite", *SERVERS])
def empty(request, tmp_path):
    """The URL of an empty database: a file, and a schema on both servers, which have one driver."""
    if request.param == "sqlite":
        yield store.address(f"sqlite:///{tmp_path / 'history.sqlite'}")
        return
    server = request.getfixturevalue("lent")(request.getfixturevalue(request.param))
    server.script("CREATE DATABASE team")
    yield store.address(team(server))
    server.script("DROP DATABASE team")


def team(server):
    """The URL of its schema `team`; the password stands in the option file."""
    kind = server.engine.kind
    return f"{kind}://root@localhost/team?read_default_file={server.folder / 'client.cnf'}"


def ask(url, statement):
    """Rows of a statement, on a connection of the test's own."""
    with sa.create_engine(url, poolclass=sa.pool.NullPool).begin() as c:
        found = c.exec_driver_sql(statement)
        return [tuple(r) for r in found] if found.returns_rows else []


def edited(campaign, **facts):
    """A campaign whose campaign.json says something else."""
    file = campaign / "campaign.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))
    return campaign


def test_the_verdict_table_comes_back_as_it_was(empty, recorded):
    was = results.load(recorded).alone()
    assert store.push(empty, recorded) == len(was)
    was = was[~was["control"] & (was["metric"] == "tps")].reset_index(drop=True)
    found = store.history(empty, STUDY, metric="tps")
    own = found[found["campaign"].notna()].reset_index(drop=True)
    assert list(own["engine"]) == ["MySQL 9.7.4"] * len(was)
    assert set(own["date"]) == {"2026-11-20 23:47"}
    same = ["threads", "verdict", "change_pct", "lo_pct", "hi_pct", "margin_pct", "worse", "n_arm"]
    pd.testing.assert_frame_equal(own[same], was[same], check_dtype=False)
    whole = results.load(recorded).verdicts  # of one campaign, on its one processor
    whole = whole[~whole["control"] & (whole["metric"] == "tps")].reset_index(drop=True)
    both = found[found["campaign"].isna()].reset_index(drop=True)
    same += ["processor", "sittings", "asked", "ranged", "next_lo_pct", "next_hi_pct"]
    pd.testing.assert_frame_equal(both[same], whole[same], check_dtype=False)


@pytest.mark.slow
def test_the_result_of_a_question_is_that_of_all_its_campaigns(tmp_path):
    """As its page has it: of each processor all campaigns of the newest design."""
    newest = paths.campaign("binlog-encryption-headline-standard-20261125-132426")
    folders = [f for f in results.beside(newest) if "headline" in f.name]
    assert len(folders) > 2
    url = store.address(f"sqlite:///{tmp_path / 'x.sqlite'}")
    for folder in folders:
        store.push(url, folder)
    found = store.history(url, STUDY, metric="tps", arm="encrypted")
    both = found[found["campaign"].isna()]
    was = results.load(*folders).verdicts
    was = was[was["metric"].eq("tps") & was["arm"].eq("encrypted")]
    key = ["processor", "threads", "joint"]
    same = [*key, "verdict", "change_pct", "lo_pct", "sittings", "asked", "next_lo_pct"]
    ours, theirs = (t[same].sort_values(key, ignore_index=True) for t in (both, was))
    pd.testing.assert_frame_equal(ours, theirs, check_dtype=False)
    assert set(ours["sittings"]) == {1, 2}
    first = store.history(url, STUDY)  # what its page leads with
    assert set(first["metric"]) == {"tps", "cpu_per_transaction"}
    tps = first[first["metric"].eq("tps") & first["joint"]]
    assert tps["campaign"].isna().tolist() == [False, False, True]
    assert "provisional, boot 2 of 3" in store.history_text(first)
    answers = first[first["answer"].ne("")]
    assert set(answers["answer"]) == {"cannot tell"}  # two sittings here, one there
    assert set(answers["processor"]) == set(was["processor"])


def test_the_same_campaign_twice_is_one_row_also_from_another_folder(empty, recorded):
    store.push(empty, recorded)
    before = ask(empty, "SELECT * FROM verdict ORDER BY position")
    store.push(empty, recorded)
    assert ask(empty, "SELECT * FROM verdict ORDER BY position") == before
    moved = recorded.rename(recorded.with_name("moved"))
    store.push(empty, moved)
    assert ask(empty, "SELECT name FROM campaign") == [("moved",)]
    assert len(ask(empty, "SELECT * FROM verdict")) == len(before)


def test_a_campaign_that_was_changed_after_its_end_is_not_stored(recorded, tmp_path):
    url = store.address(f"sqlite:///{tmp_path / 'changed.sqlite'}")
    assert not tidy.broken(recorded)
    tidy.seal(recorded)
    (file, *_) = sorted(recorded.glob("*/run.json"))
    file.write_text(file.read_text().replace("{", "{ ", 1))
    with pytest.raises(
        store.StoreError, match="was changed after the campaign ended; it was not stored"
    ):
        store.push(url, recorded)


def test_odd_strings_come_back_as_they_were(empty, recorded, monkeypatch):
    table = results.load(recorded).alone()
    table.loc[:, ["arm", "workload"]] = ODD
    table["control"] = False
    table["hi_pct"], table["lo_pct"] = float("inf"), float("-inf")
    monkeypatch.setattr(results.Results, "alone", lambda *_, **__: table)
    edited(recorded, title=ODD + "\ud800", study=ODD)
    store.push(empty, recorded)
    found = store.history(empty, ODD, metric="tps", arm=ODD)
    assert set(found["arm"]) == set(found["workload"]) == {ODD}
    assert set(found["hi_pct"]) == {float("inf")}
    assert set(found["lo_pct"]) == {float("-inf")}
    with pytest.raises(store.StoreError, match="there are"):
        store.history(empty, ODD.upper())


def test_a_first_start_that_was_interrupted_goes_on(empty, recorded):
    ask(empty, "CREATE TABLE noisefloor (schema_version INTEGER)")
    store.push(empty, recorded)
    assert store.history(empty, STUDY, metric="tps")["campaign"].tolist() == [recorded.name, None]


@pytest.mark.parametrize("version", [1, 99])
def test_another_version_is_left_alone(empty, recorded, version):
    store.prepare(empty)
    ask(empty, f"UPDATE noisefloor SET schema_version = {version}")
    ask(empty, "CREATE TABLE of_the_future (x INTEGER)")
    for use in (lambda: store.push(empty, recorded), lambda: store.history(empty, STUDY)):
        with pytest.raises(store.StoreError, match=f"version {version}, this Noisefloor knows 4"):
            use()
    assert ask(empty, "SELECT * FROM campaign") == []


@pytest.mark.parametrize("name", ["sbtest1", "campaign", "noisefloor"])
def test_a_schema_with_tables_of_others_is_left_alone(empty, recorded, name):
    ask(empty, f"CREATE TABLE {name} (x INTEGER)")
    for use in (lambda: store.prepare(empty), lambda: store.push(empty, recorded)):
        with pytest.raises(store.StoreError, match=rf"did not make \({name}\): give it a schema"):
            use()
    assert sa.inspect(sa.create_engine(empty)).get_table_names() == [name]


@pytest.mark.parametrize("empty", SERVERS, indirect=True)
def test_two_writers_at_once_store_one_campaign(empty, recorded, tmp_path):
    """In a file, and then on a server."""
    code = "import sys; from pathlib import Path; from noisefloor import store\n"
    code += "for url in sys.argv[2:]:\n    store.push(store.address(url), Path(sys.argv[1]))"
    urls = [f"sqlite:///{tmp_path / 'both.sqlite'}"]
    urls += [empty.set(drivername="mysql").render_as_string()]
    argv = [sys.executable, "-c", code, str(recorded), *urls]
    both = [subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [p.communicate()[1] for p in both] == ["", ""]
    for url in (store.address(urls[0]), empty):
        assert ask(url, "SELECT name FROM campaign") == [("campaign",)]
        assert ask(url, "SELECT schema_version FROM noisefloor") == [(store.VERSION,)]


# -- addresses -------------------------------------------------------------------------------------


def test_the_url_may_hold_a_password_in_the_environment_and_no_message_shows_it(home, monkeypatch):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"mysql://me:hunter2@127.0.0.1:{s.getsockname()[1]}/results"
        monkeypatch.setenv(store.VARIABLE, url)
        result = run("store")
    assert result.exit_code == 1
    assert re.fullmatch(
        r"noisefloor: the database mysql://me:\*\*\*@127.0.0.1:\d+/results cannot be used"
        r" \(.*\); nothing was stored\n",
        result.output,
    )
    monkeypatch.setenv(store.VARIABLE, "nonsense hunter2")
    assert "hunter2" not in run("store").output


@pytest.mark.parametrize("content", [b"not a database, but longer than a header" * 9, b"", None])
def test_a_file_that_is_no_database_is_one_sentence(home, recorded, content):
    file = home / "x" / "history.sqlite"
    if content:
        file.parent.mkdir()
        file.write_bytes(content)
    elif content == b"":
        file.mkdir(parents=True)
    result = run("store", "--to", f"sqlite:///{file}")
    assert result.exit_code == 1
    assert re.fullmatch(r"noisefloor: the database .* cannot be used \(.*\); .*\n", result.output)
    assert not content or file.read_bytes() == content


# -- commands --------------------------------------------------------------------------------------


@pytest.fixture
def project(home, recorded):
    """A project folder with two campaigns, one recorded and one of the day after."""
    shutil.copytree(recorded, paths.recorded() / f"{STUDY}-1")
    later = shutil.copytree(recorded, paths.runs() / f"{STUDY}-2")
    host = json.loads((later / "campaign.json").read_text())["host"] | {"cpu": "Other"}
    engine = {"label": "MySQL 9.8.0", "kind": "mysql", "version": "9.8.0"}
    times = {"created": "2026-11-21T10:00:00.000+00:00", "finished": None}
    edited(later, **times, host=host, engine=engine)
    return home


def test_all_campaigns_are_stored_and_their_history_is_listed(project):
    said = done("store").splitlines()[-1]
    assert said == "2 of 2 campaigns are in data/processed/history.sqlite"
    answer, advice, blank, *lines = done("history", STUDY).splitlines()
    assert answer.startswith("CANNOT TELL: the campaign of 2026-11-21: ")
    assert advice.endswith(f": noisefloor run {STUDY} --profile smoke, then noisefloor store")
    assert blank == ""
    assert lines[0].endswith("threads, in memory: encrypted against plain")
    lines = lines[: lines.index("")]  # of the first comparison
    assert [line.split()[:4] for line in lines[1:]] == [
        ["2026-11-20", "23:47", "MySQL", "9.7.4"],
        ["2026-11-21", "10:00", "MySQL", "9.8.0"],
        ["1", "sitting", "MySQL", "9.8.0"],  # of the newest design
    ]
    assert "Other" in lines[2]
    assert lines[3].endswith("Other, model not recorded")
    rows = comparisons("history", STUDY, "--metric", "p95")
    assert [r["campaign"] for r in rows] == [f"{STUDY}-1", f"{STUDY}-2", None]
    assert {r["metric"] for r in rows} == {"p95"}
    controls = comparisons("history", STUDY, "--arm", "plain again")
    assert {r["arm"] for r in controls} == {"plain again"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["no-such"], f"no campaign of 'no-such' is stored in data/processed/history.sqlite; there are: {STUDY}"),
        ([STUDY, "--metric", "tpx"], "has metric tpx; there are: binlog_bytes_per_transaction, cpu_per_transaction, p95"),
        ([STUDY, "--question", "x"], "has the question x; there are: all of them at once"),
        ([STUDY, "--threads", "3"], "has threads 3; there are: 2"),
        ([STUDY, "--metric", "tps", "--arm", "x"], "has arm x; there are: encrypted, plain again"),
        ([STUDY, "--plot", "x.pdf"], "a file that ends in .svg or .png is needed"),
    ],
)  # fmt: skip
def test_what_is_not_stored_is_one_sentence_that_names_what_is(project, args, said):
    run("store", f"{STUDY}-1")
    refused(run("history", *args), words=said)


def test_nothing_is_made_by_asking(home):
    result = run("history", STUDY)
    assert result.exit_code == 1
    assert result.output == (
        "noisefloor: data/processed/history.sqlite does not exist; `noisefloor store` makes it\n"
    )
    assert not paths.processed().exists()
    file = home / "new.sqlite"
    sqlite3.connect(file).close()
    assert "has no results" in run("history", STUDY, "--from", f"sqlite:///{file}").output


def test_one_damaged_campaign_does_not_stop_the_others(project):
    edited(paths.runs() / f"{STUDY}-2", format=99)
    empty = paths.runs() / "no-run"
    empty.mkdir()
    shutil.copy(paths.recorded() / f"{STUDY}-1" / "campaign.json", empty)
    file = (
        shutil.copytree(paths.recorded() / f"{STUDY}-1", paths.runs() / "no-seed") / "campaign.json"
    )
    file.write_text(file.read_text().replace('"seed"', '"seeds"'))
    result = run("store")
    assert result.exit_code == 1
    for said in (
        "has format 99",
        "no-run holds no run; it was not stored",
        "no-seed/campaign.json has no 'seed'; it was not stored",
        "1 of 4 campaigns are in",
    ):
        assert said in result.output
    assert run("store", "no-such").exit_code == 2


def test_a_campaign_that_has_not_ended_is_left_out(project):
    """Its estimate is seen at its end, and not before."""
    edited(paths.runs() / f"{STUDY}-2", finished="")
    said = f"noisefloor: {STUDY}-2 has not ended; it was not stored\n"
    every, named = run("store"), run("store", f"{STUDY}-2")
    assert (every.exit_code, every.stderr) == (0, said)
    assert every.stdout.endswith("1 of 2 campaigns are in data/processed/history.sqlite\n")
    assert (named.exit_code, named.stderr) == (1, said)
    assert set(store.history(store.address(), STUDY)["campaign"].dropna()) == {f"{STUDY}-1"}


def test_the_plot_is_a_file_of_its_own(project):
    run("store")
    for name, starts in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG")):
        done("history", STUDY, "--plot", project / name)
        assert (project / name).read_bytes().startswith(starts)
    assert sorted(p.name for p in project.glob("a.*")) == ["a.png", "a.svg"]
    refused(run("history", STUDY, "--plot", project / "no" / "a.svg"), 1, "cannot be written")


def test_the_figure_names_dates_builds_and_machines(project):
    run("store")
    figure = plots.history_figure(store.history(store.address(), STUDY, metric="tps"))
    words = [t.get_text() for t in figure.axes[0].texts]
    builds = "2026-11-20, MySQL 9.7.4, machine 1", "2026-11-21, MySQL 9.8.0, machine 2"
    assert set(builds) <= set(words)
    assert any(t.startswith("machine 2: Other") for t in words)
    assert "1 boot, Other, model not recorded" in words
    assert words.count("cannot tell") == 3
    assert figure.narrow().axes


# -- the newest campaign against those before it ---------------------------------------------------


@pytest.fixture
def sittings(home, recorded, monkeypatch):
    """sittings(1.0, 1.2): the recorded campaign on as many days, each after a restart of the machine,
    with these changes in percent of everything that it measured."""

    def stored(*changes):
        table = results.load(recorded).alone()
        host = json.loads((recorded / "campaign.json").read_text())["host"]
        for n, change in enumerate(changes):
            folder = shutil.copytree(recorded, paths.runs() / f"{STUDY}-{n}")
            created = f"2026-11-2{n}T10:00:00.000+00:00"
            edited(folder, created=created, finished=None, host=host | {"boot": f"boot {n}"})
            ends = {"change_pct": change, "lo_pct": change - 0.5, "hi_pct": change + 0.5}
            known = table.assign(**ends, blocks=10, together=1, verdict="same")
            monkeypatch.setattr(
                results.Results, "alone", lambda *_, known=known, **__: known.copy()
            )
            store.push(store.address(), folder)

    return stored


def test_a_newest_campaign_that_those_before_it_predict_is_no_alarm(sittings, tmp_path):
    sittings(1.0, 1.2, 0.9, 1.1)
    text = done("history", STUDY, "--fail-on", "outside,cannot-tell", "--plot", tmp_path / "a.svg")
    assert text.startswith(
        "INSIDE: the campaign of 2026-11-23 lies where the 3 sittings before it predict ("
    )
    assert text.splitlines()[1] == ""  # nothing is to be settled
    rows = [row for row in comparisons("history", STUDY) if row["answer"]]
    assert {(row["campaign"], row["answer"]) for row in rows} == {(f"{STUDY}-3", "inside")}
    assert {row["metric"] for row in rows} == {"tps", "cpu_per_transaction"}
    assert all(row["expected_lo_pct"] < 1.0 < row["expected_hi_pct"] for row in rows)
    assert {row["before"] for row in rows} == {3}


def test_a_newest_campaign_outside_is_exit_code_3(sittings):
    sittings(1.0, 1.2, 0.9, 30.0)
    for words, code in (("worse", 3), ("better", 3), ("outside", 3), ("cannot-tell", 0)):
        text = done("history", STUDY, "--fail-on", words, code=code)
        answer, advice, *_ = text.splitlines()
        assert answer.startswith("OUTSIDE: the campaign of 2026-11-23 does not lie where the 3 ")
        assert "CPU per transaction at 2 threads +30.0 % is worse than the expected " in answer
        assert "TPS at 2 threads +30.0 % is better than the expected " in answer
        assert advice.startswith("To settle it: another sitting")
    assert done("history", STUDY)  # nobody asked to fail
    printed = json.loads(done("history", STUDY, "--json", "--fail-on", "worse", code=3))
    assert printed["answer"] == [answer, advice]
    assert run("history", STUDY, "--fail-on", "cannot-tell", "--arm", "plain again").exit_code == 0


def test_one_campaign_cannot_be_held_against_anything(sittings):
    sittings(1.0)
    text = done("history", STUDY)
    assert text.startswith(
        "CANNOT TELL: the campaign of 2026-11-20: only one sitting of this design on this processor."
    )
    done("history", STUDY, "--fail-on", "outside")
    done("history", STUDY, "--fail-on", "cannot-tell", code=3)
    refused(
        run("history", STUDY, "--fail-on", "slower"), 2, "outside, worse, better and cannot-tell"
    )


@pytest.mark.parametrize("facts", ["{", "[]", "null", "{}"])
def test_a_damaged_campaign_in_the_database_is_one_sentence(sittings, facts):
    sittings(1.0, 1.1)
    ask(store.address(), f"UPDATE campaign SET facts = '{facts}' WHERE name = '{STUDY}-1'")
    words = f"what is stored of {STUDY}-1 cannot be read"
    refused(run("history", STUDY, "--fail-on", "outside"), 1, words)


def test_the_figure_has_a_band_where_the_newest_campaign_is_expected(sittings):
    sittings(1.0, 1.2, 0.9, 30.0)
    rows = store.history(store.address(), STUDY, metric="tps")
    for figure in ((drawn := plots.history_figure(rows)), drawn.narrow()):
        (band,) = [line for line in figure.axes[0].lines if line.get_linewidth() == 16]
        newest = rows[rows["answer"].eq("better")].iloc[0]
        ends = newest["expected_lo_pct"], newest["expected_hi_pct"]
        assert tuple(band.get_xdata()) == pytest.approx(ends)
        assert any("grey band" in text.get_text() for text in figure.axes[0].texts)
