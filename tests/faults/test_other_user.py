"""Throwaway servers as another user of the machine meets them: nothing to read, to connect to or to
stop; keys that are their owner's only, and gone at the end."""

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import COMMAND, ROOT, environment, mostly, moved
from noisefloor import paths
from noisefloor.servers import prebuilt
from noisefloor.servers.sandbox import sandbox

NOBODY = 65534
PYTHON = os.path.realpath(sys.executable)
AS_ROOT = ["sudo", "-n"] if os.geteuid() else []
AS_NOBODY = [*AS_ROOT, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]

# what each attempt ended with: the name of an errno, or "done"
ATTEMPTS = """
import ctypes, errno, json, os, socket, sys
pid, folder, short, files = json.loads(sys.argv[1])
def connect():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(short + "/" + os.path.basename(folder) + ".sock")
def trace():
    if ctypes.CDLL(None, use_errno=True).ptrace(16, pid, None, None):
        raise OSError(ctypes.get_errno(), "ptrace")
attempts = {
    "list the folder": lambda: os.listdir(folder),
    "list the folder of sockets": lambda: os.listdir(short),
    "connect": connect,
    "write into the folder": lambda: open(folder + "/x", "w"),
    "write beside the socket": lambda: open(short + "/x", "w"),
    "rename the folder of sockets": lambda: os.rename(short, short + "-x"),
    "environment": lambda: open(f"/proc/{pid}/environ").read(),
    "open files": lambda: os.listdir(f"/proc/{pid}/fd"),
    "memory": lambda: open(f"/proc/{pid}/mem", "rb"),
    "working directory": lambda: os.listdir(f"/proc/{pid}/cwd"),
    "stop it": lambda: os.kill(pid, 19),
    "end it": lambda: os.kill(pid, 15),
    "trace it": trace,
    **{"read " + f: lambda f=f: open(f, "rb").read(1) for f in files},
}
said = {}
for name, attempt in attempts.items():
    try:
        attempt()
        said[name] = "done"
    except OSError as e:
        said[name] = errno.errorcode[e.errno]
print(json.dumps(said))
"""


@pytest.fixture
def public(tmp_path_factory):
    """A project folder that every user of the machine may enter, as many are."""
    home = Path(tmp_path_factory.mktemp("public"))
    before = {}
    for folder in (home, *home.parents):
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & 0o027 != 0o005 and not mode & stat.S_ISVTX:
            before[folder] = mode
            folder.chmod((mode | 0o055) & ~0o022)
    yield home
    for folder, mode in before.items():
        if folder != home:
            folder.chmod(mode)


def as_nobody(pid: int, folder: Path, short: Path) -> dict[str, str]:
    """What another user's attempts on a process, its folder and that of its sockets ended with."""
    if subprocess.run([*AS_NOBODY, "true"], capture_output=True, check=False).returncode:
        pytest.skip("becoming another user needs root, or sudo that asks for no password")
    files = [str(p) for p in folder.rglob("*") if p.is_file()]
    given = json.dumps([pid, str(folder), str(short), files])
    argv = [*AS_NOBODY, PYTHON, "-IS", "-c", ATTEMPTS, given]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ran.returncode in (126, 127):
        pytest.skip(f"another user cannot run {PYTHON} here")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@mostly("mariadb")
def test_another_user_cannot_read_reach_or_stop_a_server(template, public):
    with moved(public), sandbox() as shop, template.copy(shop / "server") as server:
        assert os.stat(public).st_mode & 0o005 == 0o005
        said = as_nobody(server.pid, server.folder, (shop / "short").readlink())
        assert len(said) > 60
        assert {k: v for k, v in said.items() if v not in ("EACCES", "EPERM")} == {}
        assert server.query("SELECT 1 AS x") == [{"x": 1}]


def test_the_attempts_would_succeed_on_what_is_open(public):
    """The witness works: the same attempts on a folder that everybody may read."""
    open_to_all = public / "open"
    open_to_all.mkdir(mode=0o755)
    (open_to_all / "a").write_text("x")
    said = as_nobody(os.getpid(), open_to_all, public)
    assert said["list the folder"] == said[f"read {open_to_all / 'a'}"] == "done"
    assert said["connect"] == "ENOENT"


# -- keys ------------------------------------------------------------------------------------------


SECRETS = ("keyring", "passphrase", "client.cnf", "sysbench.cnf", "init.sql")


def keys(folder: Path) -> dict[Path, int]:
    """Mode of every file that holds a private key, a keyring or a passphrase."""
    found = {}
    every = (Path(parent, n) for parent, _, names in os.walk(folder) for n in names)
    for path in every:
        try:
            if path.is_symlink() or not path.is_file() or path.suffix in (".ibd", ".log"):
                continue
            with open(path, "rb") as file:
                if path.name in SECRETS or b"PRIVATE KEY" in file.read(100):
                    found[path] = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        except OSError:  # gone since
            continue
    return found


@mostly("mysql")
def test_every_key_of_a_server_is_its_owner_s_and_gone_with_it(template, shop):
    server = template.copy(shop / f"keys-{template.engine.kind}")
    with server:
        server.query("INSERT INTO noisefloor.hidden VALUES ('once more')")
        found = keys(server.folder)
        assert {"keyring", "client.cnf", "sysbench.cnf"} <= {p.name for p in found}
        assert {p.name for p, mode in found.items() if mode & 0o177} == set()
        if server.engine.kind == "mysql":
            assert {"server-key.pem", "ca-key.pem", "client-key.pem"} <= {p.name for p in found}
    server.remove()
    assert not server.folder.exists()
    assert not server.socket.exists()


def test_what_is_kept_of_a_loaded_server_is_its_owner_s_and_named(home, mysql, shop, monkeypatch):
    """Later campaigns copy it, with the passwords and the keyring that open it."""
    monkeypatch.setattr(prebuilt, "_WORTH_S", 0)
    server = mysql.sibling(shop / "loaded")
    prebuilt.take(server, ["content"], lambda: mysql.copy_to(server))
    server.remove()
    (folder,) = paths.prebuilt().iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {p.name for p, mode in keys(folder).items() if mode & 0o177} == set()
    words = (ROOT / "SECURITY.md").read_text()
    named = {p.name for p in folder.iterdir() if f"`{p.name}`" in words}
    assert named == {p.name for p in folder.iterdir()} - {"data"}
    assert {"keyring", "client.cnf", "sysbench.cnf"} == named


@pytest.mark.slow
def test_no_key_is_open_at_any_moment_of_a_campaign_with_tls_and_ssh(tmp_path):
    """Looked at all the time, from the first certificate to the end."""
    env = environment(tmp_path, TMPDIR=str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    argv = (*COMMAND, "run", "ssl-connections", "--question", "headline")
    argv += ("--profile", "smoke", "--budget", "0.1")
    seen: dict[Path, set[int]] = {}
    said = tmp_path / "said.txt"
    with said.open("w") as out, subprocess.Popen(argv, env=env, stdout=out, stderr=out) as command:
        while command.poll() is None:
            for place in (tmp_path / ".servers", tmp_path / "tmp"):
                for path, mode in keys(place).items():
                    seen.setdefault(path, set()).add(mode)
            time.sleep(0.05)
    assert command.returncode == 0, said.read_text()
    assert {"server-key.pem", "host", "client"} <= {p.name for p in seen}
    assert {str(p): modes for p, modes in seen.items() if any(m & 0o077 for m in modes)} == {}
    assert [p for p in seen if p.exists()] == []
    assert [p.name for p in (tmp_path / ".servers").iterdir()] == ["lock"]
    assert list((tmp_path / "tmp").iterdir()) == []
