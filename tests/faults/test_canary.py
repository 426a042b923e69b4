"""A password that a user put somewhere is found nowhere else: in no file, no command line of any
process, nothing that is printed, no page. Each place has a word of its own, so that a failure says
which one leaked."""

import base64
import contextlib
import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from conftest import COMMAND, DATA, ENGINES, ROOT, noisefloor, refused
from live import watched
from noisefloor import model as study
from noisefloor import store
from noisefloor.data import tidy
from noisefloor.servers.address import VARIABLE as SERVER_VARIABLE

BIRD = re.compile(rb"zq7vogel\w*", re.I)
HOME, OPTIONS, ENVIRONMENT, SERVER, CLIENT, LUA, PRINTED, LOG, SCRIPT = (
    f"Zq7Vogel{place}X4"
    for place in (
        *("Home", "Options", "Environment", "Server", "Client"),
        *("Lua", "Printed", "Log", "Script"),
    )
)
STUDY = "binlog-encryption"

# it prints a password that it was given, and the one that sysbench holds
MINE = f"""
-- password={LUA}
local token = "{LUA}"
function thread_init()
   con = sysbench.sql.driver():connect()
   print("connected with password={PRINTED}")
   print("connected as " .. tostring(sysbench.opt.mysql_password))
end
function event()
   con:query("SELECT COUNT(*) FROM sbtest1 WHERE id < 50 /* " .. token .. " */")
end
"""


def birds(data: bytes, depth: int = 2) -> set[str]:
    """Canaries in bytes: plain, as UTF-16, in base64, in gzip, in members of a zip."""
    found = {m.decode() for m in BIRD.findall(data)}
    found |= {m.decode() for m in BIRD.findall(data.replace(b"\0", b""))}
    if not depth:
        return found
    packed = re.findall(rb"(?:[A-Za-z0-9+/]{4}){5,}[A-Za-z0-9+/]{0,3}", data)
    inside = [base64.b64decode(m[: len(m) - (len(m) % 4 == 1)] + b"==") for m in packed]
    with contextlib.suppress(OSError, EOFError):
        inside.append(gzip.decompress(data))
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(data)) as archive:
        inside += [archive.read(n) for n in archive.namelist()]
    return found.union(*(birds(i, depth - 1) for i in inside))


def nests(*folders: Path, but: tuple[Path, ...] = ()) -> dict[str, set[str]]:
    """Files below the folders whose name or content holds a canary."""
    found = {}
    for file in (p for folder in folders for p in folder.rglob("*") if p not in but):
        seen = birds(str(file.name).encode())
        with contextlib.suppress(OSError):  # a socket, or gone since
            if file.is_file() and not file.is_symlink():
                seen |= birds(file.read_bytes())
                if file.suffix == ".parquet":
                    seen |= birds(pd.read_parquet(file).to_csv().encode())
        if seen:
            found[str(file)] = seen
    return found


# -- the witnesses work ----------------------------------------------------------------------------


def test_a_canary_is_found_wherever_it_hides(tmp_path):
    word = LOG.encode()
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("page.html", b"data:;base64," + base64.b64encode(b"<p>" + word))
    (tmp_path / "b.gz").write_bytes(gzip.compress(word))
    (tmp_path / "c.txt").write_bytes(LOG.encode("utf-16"))
    (tmp_path / f"{LOG}.txt").touch()
    pd.DataFrame({"x": [LOG] * 3}).to_parquet(tmp_path / "d.parquet", compression="zstd")
    (tmp_path / "e.txt").write_text("zq7 vogel " + " ".join("A" * n for n in range(19, 30)))
    found = nests(tmp_path)
    assert sorted(Path(f).name for f in found) == [f"{LOG}.txt", "a.zip", "b.gz", "c.txt", "d.parquet"]  # fmt: skip
    assert set.union(*found.values()) == {LOG}


def test_a_command_line_is_seen():
    with watched() as (seen, _):
        subprocess.run([sys.executable, "-c", "import time; time.sleep(.3)", LOG], check=True)
    assert any(LOG in line for line in seen)


# -- in a command line: refused, and not repeated --------------------------------------------------

URL = f"mysql://me:{CLIENT}@db.example/results"
REFUSED = tomllib.loads((DATA / "refused.toml").read_text())["with_password"]


@pytest.mark.parametrize("line", REFUSED)
def test_a_password_in_the_command_line_is_not_repeated(line, home):
    shutil.copytree(ROOT / "notebooks", home / "notebooks")
    before = {p: p.stat().st_mtime_ns for p in home.rglob("*") if p.is_file()}
    ran = noisefloor(*line.replace("URL", URL).replace("PASSWORD", CLIENT).split())
    assert ran.exit_code in (1, 2), ran.output
    refused(ran, ran.exit_code)
    assert not BIRD.search(ran.output.encode()), ran.output
    assert before == {p: p.stat().st_mtime_ns for p in home.rglob("*") if p.is_file()}


# -- in a whole campaign ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lived(tmp_path_factory, mysql, shop):
    """Every command after the other on a real server, with a password in every place that takes
    one: (its folder, what was printed, the command lines seen, the files that were planted)."""
    home = tmp_path_factory.mktemp("canary")
    folders = {n: home / n for n in ("user", "tmp", "before", "after", "archive")}
    for folder in folders.values():
        folder.mkdir()
    shutil.copytree(ROOT / "notebooks", home / "notebooks")
    for name in ("environment.yml", "CITATION.cff", "LICENSE"):
        shutil.copyfile(ROOT / name, home / name)
    shutil.copytree(ROOT / "data" / "raw" / "published", home / "data" / "raw" / "published")
    shutil.copytree(DATA / "campaign", home / "data" / "raw" / "recorded" / f"{STUDY}-smoke-test")
    mine, options, own = home / "mine.lua", folders["user"] / "me.cnf", folders["user"] / ".my.cnf"
    mine.write_text(MINE)
    own.write_text(f"[client]\nuser=me\npassword={HOME}\n[mysql]\npassword={HOME}\n")
    echo = f"+ sysbench oltp_read_write --mysql-password={LOG} --threads=4 --time=10 run\n"
    planted = [mine, options, own]
    for log in sorted((DATA / "compare").glob("00-*-*.txt")):
        side = "before" if log.stem.endswith("A") else "after"
        planted += [folders[side] / log.name, folders["archive"] / f"{side}-{log.name}"]
        for copy in planted[-2:]:
            copy.write_text(echo + log.read_text())
    planted.append(folders["archive"] / "run.sh")
    planted[-1].write_text(f"mysql -uroot -p{SCRIPT} -e 'select 1'\n")
    planted += [folders["archive"] / "failed.txt", folders["archive"] / "packed.gz"]
    planted[-2].write_text(f"sysbench 1.0.20\nFATAL: mysql://me:{LOG}@db refused\n")
    planted[-1].write_bytes(gzip.compress(planted[3].read_bytes()))

    team = mysql.copy(shop / "team", tcp=True)
    with team:
        for user, password in (("env", ENVIRONMENT), ("file", OPTIONS)):
            team.script(
                f"CREATE DATABASE {user}_results",
                f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY '{password}'",
                f"GRANT ALL ON {user}_results.* TO {user}@'127.0.0.1'",
            )
        place = f"127.0.0.1:{team.port}"
        options.write_text(f"[client]\nuser=file\npassword={OPTIONS}\n")
        by_file = f"mysql://file@{place}/file_results?read_default_file={options}"
        refused = f"mysql://env@{place}/env_results?read_default_file={own}"
        env = os.environ | {
            "HOME": str(folders["user"]),
            "TMPDIR": str(folders["tmp"]),
            "NOISEFLOOR_HOME": str(home),
            "NOISEFLOOR_ENGINES": str(ENGINES),
            store.VARIABLE: f"mysql://env:{ENVIRONMENT}@{place}/env_results",
            SERVER_VARIABLE: f"mysql://me:{SERVER}@127.0.0.1:9/",
            "MYSQL_PWD": CLIENT,
        }
        for name in ("NOISEFLOOR_RUNS", "NOISEFLOOR_REPORTS"):
            env.pop(name, None)
        said = []

        def run(*argv, code=0, also=()):
            ran = subprocess.run([*COMMAND, *map(str, argv)], env=env, cwd=home, capture_output=True, text=True, timeout=900, check=False)  # fmt: skip
            said.append(ran.stdout + ran.stderr)
            assert ran.returncode in (code, *also), said[-1]
            assert "Traceback" not in said[-1], said[-1]
            return ran.stdout

        with watched() as (lines, looks):
            run("ab", "sync_binlog=1,0", "--lua", mine, "--engine", "mariadb",
                "--profile", "smoke", "--budget", "0.08")  # fmt: skip
            (campaign,) = (home / "data" / "raw" / "runs").glob("ab-*")
            run("report", "own-study", "-p", "campaign", campaign.name, "--jobs", "1")
            run("report", "own-study", "-p", "engine", "/nowhere", "-p", "lua", mine, code=1)
            run("store")
            run("history", "ab-sync-binlog", "--json")
            run("store", "--to", by_file)
            run("history", "ab-sync-binlog", "--from", by_file, "--plot", home / "history.svg")
            run("store", "--to", refused, code=1)
            for form in ("--json", "--csv", "--markdown"):
                run("compare", folders["before"], "--", folders["after"], form)
            run("ingest", folders["archive"], "--out", home / "tables", "--json")
            run("compare", "--from", home / "tables", "--baseline", "file=x", code=2)
            run("bundle", STUDY, "--out", home / "pack.zip")
            run("verify", home / "reports" / "ab-sync-binlog.html", also=(1,))
            run("doctor", "--json")
        for user in ("env", "file"):
            rows = team.query(f"SELECT GROUP_CONCAT(name) AS n FROM {user}_results.campaign")
            said.append(rows[0]["n"])
        leaked = nests(team.folder)
    team.remove()
    return {"home": home, "campaign": campaign, "said": said, "lines": lines, "looks": looks,
            "planted": tuple(planted), "leaked": leaked}  # fmt: skip


@pytest.mark.slow
def test_no_password_is_in_any_file_after_a_whole_campaign(lived):
    assert all(lived["campaign"].name in names for names in lived["said"][-2:])  # stored by both
    planted = nests(lived["home"])
    assert {str(p) for p in lived["planted"]} <= set(planted)
    assert nests(lived["home"], but=lived["planted"]) == {}
    assert lived["leaked"] == {}  # nor in what the server wrote whose password it is
    assert len(list(lived["home"].rglob("*.html"))) >= 2


@pytest.mark.slow
def test_no_password_was_printed_or_in_a_command_line(lived):
    assert not BIRD.search("\n".join(lived["said"]).encode())
    assert sum("sysbench" in line for line in lived["lines"]) > 1
    assert any("ipykernel" in line for line in lived["lines"])
    assert max(b - a for a, b in pairwise(lived["looks"])) < 5
    assert [line for line in lived["lines"] if BIRD.search(line.encode())] == []


@pytest.mark.slow
def test_what_a_script_of_one_s_own_prints_is_kept_without_passwords(lived):
    texts = [p.read_text() for p in lived["campaign"].glob("*/sysbench.txt")]
    assert texts
    assert all("connected with password=***" in t and "connected as ***" in t for t in texts)
    assert tidy.opened(lived["campaign"]).tidy_runs.problems == []
