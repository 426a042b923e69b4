"""Settings of the reader's own: what may be asked, what a server says to it, from question to page."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis import factors
from conftest import arm_of, done, environment
from noisefloor import model as study
from noisefloor import paths, schedule, studies
from noisefloor.data import results, tidy
from noisefloor.servers.server import SettingError
from noisefloor.studies.ab import asked
from noisefloor.text.answers import MOST_LINES

NOTEBOOKS = paths.notebooks()

# -- what may be asked -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (["binlog_encryption=OFF,ON"], {"binlog_encryption": ("OFF", "ON")}),
        ("sync_binlog=1,0", {"sync_binlog": ("1", "0")}),
        (["Sync-Binlog = 1 , 0", "a=5"], {"sync_binlog": ("1", "0"), "a": ("5",)}),
        (["sql_mode='ANSI,STRICT_ALL_TABLES',"], {"sql_mode": ("ANSI,STRICT_ALL_TABLES", "")}),
        (["sql_mode=,ANSI"], {"sql_mode": ("", "ANSI")}),
        (["optimizer_switch=mrr=on,mrr=off"], {"optimizer_switch": ("mrr=on", "mrr=off")}),
        (["x=-1,1"], {"x": ("-1", "1")}),
    ],
)
def test_what_is_asked_is_read(settings, found):
    assert asked(settings) == found


def own(settings: tuple[str, ...], server: str = "", **known) -> study.Study:
    """The study of these settings, with what is `known` of them on this machine."""
    asked = study.Request("own-study", settings=settings, server=server)
    return studies.load(asked, study.Resolved(**known))


@pytest.mark.parametrize("settings", [("x y=1,2",), ("x=1,2\ndatadir=/",), ()], ids=str)
def test_what_cannot_be_asked_is_one_sentence(settings):
    """And other questions: tests/data/refused.toml."""
    with pytest.raises(study.StudyError, match=r"(needed|compare).*; nothing was measured$"):
        own(settings)


def test_several_variables_make_every_combination_against_the_first():
    s = own(("a=1,2", "b=x,y,z", "c=9"))
    assert s.baseline.name == "a=1, b=x"
    names = ["b=y", "b=z", "a=2", "a=2, b=y", "a=2, b=z"]
    assert [a.name for a in s.arms] == names
    assert arm_of(s, "a=2, b=y").switch == {"a": "2", "b": "y"}
    assert arm_of(s, "b=y").switch == {"a": "1", "b": "y"}
    assert s.settings["c"] == "9"
    assert s.design == "switched"
    assert s.profile.budget_min == 5 * study.PROFILES["quick"].budget_min
    started = own(("a=1,2", "b=x,y"), static=("b",))
    assert started.design == "side by side"
    assert all(a.settings and not a.switch for a in (started.baseline, *started.arms))
    disk = ["disk_bytes_per_transaction" in x.workloads[0].metrics for x in (started, s)]
    assert disk == [True, False]  # a server that is switched may write what the other arm changed
    assert own(("a=1,2", "c=9"), static=("c",)).design == "switched"
    schedule.check(own(("a=1,-1",)))
    s = own(("binlog_encryption=OFF,ON",))  # proved on disk
    assert s.baseline.expect == {"binlog_encryption": "OFF", "binlog": "plain"}
    assert s.arms[0].expect == {"binlog_encryption": "ON", "binlog": "encrypted"}


# -- alone and together ----------------------------------------------------------------------------


class Told(results.Results):
    """Results whose verdict table is given."""

    def __init__(self, chosen, rows, verdict="faster"):
        super().__init__(Path())
        columns = ["arm", "change_pct", "lo_pct", "hi_pct"]
        table = pd.DataFrame(rows, columns=columns)
        table = table.assign(
            workload=chosen.workloads[0].name, metric="tps", question="", joint=False, control=False
        )
        table = table.assign(threads=4, processor=self.processor, verdict=verdict)
        self.__dict__ |= {"study": chosen, "verdicts": table}

    processor = "p"


def percent(log):
    return 100 * math.expm1(log)


@pytest.mark.parametrize("server", ["", "env"])
def test_main_effects_and_what_both_do_beyond_their_sum(server):
    s = own(("a=1,2", "b=x,y", "c=9"), server=server)
    logs = {"b=y": (0.10, 0.07, 0.14), "a=2": (0.30, 0.28, 0.32), "a=2, b=y": (0.50, 0.49, 0.53)}
    found = factors.effects(Told(s, [(k, *map(percent, v)) for k, v in logs.items()]))
    found = found.set_index("setting")
    assert list(found.index) == ["a: 1 to 2", "b: x to y", "both, beyond the sum of each alone"]
    middle = [(0.3 + 0.5 - 0.1) / 2, (0.1 + 0.5 - 0.3) / 2, 0.5 - 0.3 - 0.1]
    assert list(np.log1p(found["change_pct"] / 100)) == pytest.approx(middle)
    # an end of an effect is as far from its middle as the opposite ends of what is taken away
    below = [(0.02, 0.01, 0.04), (0.03, 0.01, 0.02), (0.01, 0.02, 0.04)]
    above = [(0.02, 0.03, 0.03), (0.04, 0.03, 0.02), (0.03, 0.02, 0.03)]
    share = (0.5, 0.5, 1)
    lo = [m - k * math.hypot(*w) for m, k, w in zip(middle, share, below, strict=True)]
    hi = [m + k * math.hypot(*w) for m, k, w in zip(middle, share, above, strict=True)]
    assert list(np.log1p(found["lo_pct"] / 100)) == pytest.approx(lo)
    assert list(np.log1p(found["hi_pct"] / 100)) == pytest.approx(hi)
    assert list(found["verdict"]) == ["faster", "faster", "faster"]


def test_effects_of_one_arm_are_none_and_unknown_ends_stay_unknown():
    one = own(("a=1,2",))
    assert factors.effects(Told(one, [("a=2", 1.0, 0.5, 1.5)])).empty
    two = own(("a=1,2,3",))
    found = factors.effects(Told(two, [("a=2", 1.0, math.nan, math.nan), ("a=3", 9.0, 8.0, 10.0)]))
    assert list(found["verdict"]) == ["cannot tell", "faster"]
    assert factors.effects(Told(two, [("a=2", 1.0, 0.5, 1.5)])).empty  # an arm without a row


def test_effects_of_arms_that_have_no_word_yet_have_none():
    """Their ends may be a range of boots, and no interval."""
    told = Told(own(("a=1,2,3",)), [("a=2", 5.0, 4.0, 6.0), ("a=3", 9.0, 8.0, 10.0)], "provisional")
    found = factors.effects(told)
    assert set(found["verdict"]) == {"provisional"}
    assert list(found["lo_pct"]) == pytest.approx([4.0, 8.0])


# -- what a server says to it ----------------------------------------------------------------------


def test_a_live_server_takes_it_or_not(running):
    assert running.takes("sync_binlog", ["0", "1"])
    assert running.takes("join_buffer_size", ["1M", "262144"])
    assert running.takes("optimizer_switch", ["mrr=off", "mrr=on"])
    before = running.variables()
    assert not running.takes("back_log", ["80"])
    assert running.variables() == before
    with pytest.raises(SettingError, match=r"no global variable sync_binlogg \(did you mean sync"):
        running.takes("sync_binlogg", ["0"])
    with pytest.raises(SettingError, match="sync_binlog: wanted banana"):
        running.takes("sync_binlog", ["0", "banana"])
    assert running.variables() == before


@pytest.mark.parametrize("value", ["OFF", "ON"])
def test_the_binary_log_is_switched_by_its_value(template, copy, value):
    server = copy(template, {"log_bin": value})
    server.start()  # reads it back
    assert server.variables()["log_bin"] == value


# -- from question to page -------------------------------------------------------------------------


def ab(home, *args, **more):
    """`noisefloor ab` in a project of its own, as a user calls it."""
    if not (home / "notebooks").exists():
        (home / "notebooks").symlink_to(NOTEBOOKS)
    argv = [Path(sys.executable).with_name("noisefloor"), "ab", *map(str, args)]
    how = {"capture_output": True, "text": True, "env": environment(home)}
    return subprocess.run(argv, check=False, **how, **more)


LUA = """
function thread_init()
   con = sysbench.sql.driver():connect()
end
function event()
   con:query("SELECT COUNT(*) FROM sbtest1 WHERE id < 50")
end
"""


def test_from_question_to_page_with_a_script_of_ones_own(home):
    (home / "mine.lua").write_text(LUA)
    words = ["sync_binlog=1,0", "--lua", home / "mine.lua", "--engine", "mariadb"]
    ran = ab(home, *words, "--profile", "smoke", "--budget", "0.08", "--json", cwd=home)
    assert ran.returncode == 0, ran.stderr
    printed = json.loads(ran.stdout)
    rows, answer = printed["comparisons"], printed["answer"]
    assert len(answer) <= MOST_LINES
    assert answer[-1] == f"All comparisons ({len(rows)}): reports/ab-sync-binlog.html"
    assert {r["arm"] for r in rows} == {"sync_binlog=0"}  # no A/A control in smoke
    assert "provisional" not in {r["verdict"] for r in rows}  # it stands for itself
    (folder,) = (home / "runs").glob("ab-sync-binlog-smoke-*")
    meta = tidy.meta(folder)
    assert meta["workloads"][0]["digest"] == tidy.sha256(home / "mine.lua")
    assert meta["parameters"]["lua"] == "mine.lua"
    checks = tidy.evidence(folder)
    assert {"sync_binlog"} == set(checks["evidence"])
    assert (checks["found"] == checks["expected"]).all()
    page = (home / "reports" / "ab-sync-binlog.html").read_text()
    assert re.search(r"<h1[^>]*>\s*sync_binlog: 1 or 0", page)
    assert "sync_binlog=0" in page
    assert str(home) not in page
    assert {p.name for p in (home / "reports").iterdir()} >= {
        f"ab-sync-binlog.{end}" for end in ("html", "ipynb", "csv", "json")
    }
    for file in folder.rglob("*"):
        assert not file.is_file() or str(home) not in file.read_text()


@pytest.mark.slow
def test_from_question_to_page_at_a_share_of_the_capacity(home):
    words = ["sync_binlog=1,0", "--rate", "25%", "--engine", "mariadb", "--profile", "smoke"]
    ran = ab(home, *words, "--budget", "0.6", "--json")
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"capacity [\d,]+ transactions a second; 25 % of it, to two", ran.stderr)
    assert re.search(
        r"; expected: 99th percentile latency (over )?±[\d.]+ %, Server CPU", ran.stderr
    )
    rows = json.loads(ran.stdout)["comparisons"]
    assert {"p99", "cpu_per_transaction"} <= {r["metric"] for r in rows}
    (folder,) = (home / "runs").glob("ab-sync-binlog-smoke-*")
    (work,) = tidy.meta(folder)["workloads"]
    page = (home / "reports" / "ab-sync-binlog.html").read_text()
    assert f"at {work['rate']:,} a second" in page
    assert "each server is offered 25\u202f% of that, both together 50\u202f%." in page


@pytest.mark.slow
def test_a_factorial_that_needs_starts_stands_side_by_side(home):
    words = ["innodb_read_io_threads=4,8", "sync_binlog=1,0", "--profile", "smoke"]
    ran = ab(home, *words, "--budget", "0.4", "--workload", "oltp_point_select")
    assert ran.returncode == 0, ran.stderr
    assert 1 < len(ran.stdout.splitlines()) <= MOST_LINES  # several arms
    (folder,) = (home / "runs").glob("ab-*")
    assert tidy.meta(folder)["design"] == "side by side"
    page = (home / "reports" / "ab-innodb-read-io-threads-sync-binlog.html").read_text()
    assert "both, beyond the sum of each alone" in page

    name = "ab-innodb-read-io-threads-sync-binlog"
    before = (home / "reports" / f"{name}.html").stat().st_mtime_ns
    done("report", name)
    assert (home / "reports" / f"{name}.html").stat().st_mtime_ns > before
    assert list((home / "runs").glob("ab-*")) == [folder]  # nothing was measured

    pack = home / "pack"
    done("bundle", name, "--out", pack)
    again = "noisefloor ab innodb_read_io_threads=4,8 sync_binlog=1,0 --workload oltp_point_select"
    assert f"`{again} --profile smoke --budget 0.4`" in (pack / "post.md").read_text()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("NOISEFLOOR", "PYTHON"))}
    argv = [sys.executable, pack / "rerender.py"]
    made = subprocess.run(argv, capture_output=True, text=True, env=clean, check=False)
    assert made.returncode == 0, made.stderr
    assert made.stdout.endswith(f"the page is again/{name}.html\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("binlog_encription=OFF,ON", "did you mean binlog_encryption?"),
        ("sync_binlog=1,banana", "sync_binlog: wanted banana"),
        ("innodb_page_cleaners=1,banana", "setting value 'banana' to 'innodb-page-cleaners'"),
    ],
)
def test_what_the_server_does_not_know_is_refused_before_measuring(home, question, says):
    ran = ab(home, question, "--profile", "smoke")
    assert ran.returncode == 2
    assert says in ran.stderr.splitlines()[-1]
    assert "nothing was measured" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (home / "runs").exists()
