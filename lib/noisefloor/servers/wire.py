"""The network between a client and a throwaway server: certificates, SSH tunnels, distance.

Keys are made for one campaign and readable by the owner only. Every process ends with this one;
namespaces and interfaces disappear with their processes, also after kill -9.
"""

import contextlib
import getpass
import os
import shutil
import socket as sockets
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from noisefloor.servers import engines, sandbox
from noisefloor.servers.sandbox import ServerError, clock, die_with_parent, free_port, secret_file

_KEYS = {
    "RSA 2048": ("rsa:2048",),
    "RSA 4096": ("rsa:4096",),
    "P-256": ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
}
_OFFERED = """openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = offered
[offered]
Groups = {}
"""


def certificates(folder: Path, names: list[str]) -> Path:
    """Make a folder (0700; keys 0600) with an authority, a server certificate for each key in
    `names` (of `_KEYS`), a client's, and ``openssl.cnf``; returns it. Raises ServerError."""
    folder.mkdir(mode=0o700)
    configuration(folder / "openssl.cnf")
    _certificate(folder, "cacert", _KEYS["RSA 2048"])
    signed = ("-CA", "cacert-cert.pem", "-CAkey", "cacert-key.pem")
    for name in names:
        _certificate(folder, f"server {name}", _KEYS[name], *signed)
    # sysbench looks for client-cert.pem, client-key.pem and cacert.pem in its working directory
    _certificate(folder, "client", _KEYS["P-256"], *signed)
    (folder / "cacert-cert.pem").rename(folder / "cacert.pem")
    return folder


def configuration(path: Path, groups: str = "") -> Path:
    """Write a configuration of OpenSSL that offers only `groups` for the key exchange, where any
    are named, and nothing of the machine's own; returns `path`."""
    return secret_file(path, _OFFERED.format(groups) if groups else "")


def _certificate(folder: Path, name: str, key: tuple[str, ...], *signed: str) -> None:
    argv = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-newkey", *key, *signed]
    argv += ["-subj", f"/CN=noisefloor {name}"]
    argv += ["-keyout", f"{name}-key.pem", "-out", f"{name}-cert.pem"]
    done = engines.output(*argv, cwd=folder, umask=0o077)
    if done.returncode:
        raise ServerError(f"openssl made no certificate: {engines.last_words(done)}")


def _start(
    argv: list[str], log: Path, ready: Callable[[int], bool], name: str, **options: Any
) -> subprocess.Popen[bytes]:
    """A started process, once `ready(pid)` is true. Raises ServerError if it ends, or in 15 s."""
    with open(log, "wb") as file:
        options |= {"stdin": subprocess.PIPE, "stdout": file, "stderr": file}
        process = subprocess.Popen(argv, preexec_fn=die_with_parent, **options)
    try:
        for _ in sandbox.looks(15):
            if ready(process.pid):
                return process
            if process.poll() is not None:
                break
        lines = log.read_text(errors="replace").strip().splitlines() or ["it printed nothing"]
        raise ServerError(f"{name} did not start: {lines[-1][:200]}")
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


_SSH = ("-F", "none", "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no", "-o",
        "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "ExitOnForwardFailure=yes",
        "-o", "Compression=no")  # fmt: skip


def sshd_program() -> str:
    """The machine's sshd, or one unpacked from its package, which would start a daemon if it were
    installed. Raises EngineMissing."""
    return engines.which("sshd") or str(engines.unpacked("openssh-server") / "usr/sbin/sshd")


class _Ends:
    process: subprocess.Popen[bytes]

    def close(self) -> None:
        """End the process; the session of a tunnel ends with its client."""
        _end(self.process)


class Sshd(_Ends):
    """A throwaway sshd with its own keys on `host`; `enter`: the argv prefix of a namespace."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", enter: tuple[str, ...] = ()):
        self.folder, self.host, self.port = folder, host, free_port()
        program = sshd_program()
        folder.mkdir(mode=0o700)
        for name in ("host", "client"):
            keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            if (made := engines.output(*keygen)).returncode:
                raise ServerError(f"ssh-keygen made no key: {engines.last_words(made)}")
        config = {
            "HostKey": folder / "host",
            "AuthorizedKeysFile": folder / "client.pub",
            "ListenAddress": f"{host}:{self.port}",
            "PermitRootLogin": "prohibit-password",
            "PasswordAuthentication": "no",
            "StrictModes": "no",
            "UsePAM": "no",
            "PidFile": "none",
            "MaxStartups": "100",
            "MaxSessions": "100",
            "LoginGraceTime": "20",
            "ClientAliveInterval": "10",
        }
        secret_file(folder / "config", "".join(f"{k} {v}\n" for k, v in config.items()))
        argv = [program, "-D", "-e", "-f", str(folder / "config")]
        argv = [*_rooted(folder), *argv] if os.geteuid() == 0 else argv
        log, before = folder / "sshd.log", _mounts()
        try:
            argv = [*enter, *argv]
            self.process = _start(argv, log, lambda _: b"listening" in log.read_bytes(), "sshd")
            if seen := {"/etc/passwd", "/run"} & (_mounts() - before):
                for place in seen:
                    subprocess.run(["umount", "-l", place], check=False)
                self.close()
                raise ServerError(
                    "sshd needs mounts of its own, and those of this chroot are shared"
                )
        except ServerError:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def _rooted(folder: Path) -> list[str]:
    """An argv prefix: as root, sshd needs a user and a folder, which its mount namespace hides from
    other processes. In a process namespace of its own its sessions end with it."""
    users = Path("/etc/passwd").read_text()
    if "\nsshd:" not in users:
        users += "sshd:x:65530:65534::/run/sshd:/usr/sbin/nologin\n"
    (folder / "passwd").write_text(users)
    # make mounts private first; that fails in a chroot, where / is no mount
    script = (
        'mount --make-rprivate / 2>&-; mount --bind "$0" /etc/passwd'
        ' && mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec "$@"'
    )
    unshare = ["unshare", "-m", "--propagation", "unchanged", "-p", "-f", "--kill-child=KILL"]
    return [*unshare, "sh", "-c", script, str(folder / "passwd")]


def _mounts() -> set[str]:
    """Mount points that this process sees."""
    return {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}


class Tunnel(_Ends):
    """`ssh -L` through `sshd` to `target` (host, port); it listens on `port` of the client's
    loopback. `command`: whether a command runs at the far end; else -N."""

    def __init__(
        self,
        sshd: Sshd,
        cipher: str,
        target: tuple[str, int],
        *,
        enter: tuple[str, ...] = (),
        command: bool = True,
    ):
        self.sshd, self.port = sshd, free_port()
        log = sshd.folder / f"ssh-{self.port}.log"
        argv = ["ssh", *_SSH, "-i", str(sshd.folder / "client"), "-c", cipher]
        argv += ["-L", f"127.0.0.1:{self.port}:{target[0]}:{target[1]}", "-p", str(sshd.port)]
        argv += [] if command else ["-N"]
        argv += [f"{getpass.getuser()}@{sshd.host}"]
        # cat ends with the connection, where a sleep would be left behind
        argv += ["echo up; exec cat"] if command else []
        began = time.monotonic()
        ready = (lambda _: "up" in log.read_text()) if command else self._listens
        self.process = _start([*enter, *argv], log, ready, "ssh")
        self.took_s = round(time.monotonic() - began, 4)  # until it is open

    def _listens(self, _: int) -> bool:
        with sockets.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def usage(self) -> dict[str, float]:
        """CPU seconds of the two ends so far: `client`, `server`."""
        far = psutil.Process(self.sshd.process.pid).children(recursive=True)
        return {"client": clock(self.process.pid), "server": sum(clock(p.pid) for p in far)}


_CONNECT = """
import socket, statistics, sys, time
took = []
for _ in range(6):
    began = time.monotonic()
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 30):
        took.append(time.monotonic() - began)
print(round(statistics.median(took[1:]), 6))
"""


class Link:
    """Two network namespaces with a cable between them whose delay can be set.

    `client` and `server` are argv prefixes that enter them. The delay is netem's where the kernel
    has it, else that of a second cable, through wirefilter. Raises ServerError or EngineMissing if
    neither works."""

    hosts = ("10.77.0.1", "10.77.0.2")

    def __init__(self, folder: Path):
        folder.mkdir(mode=0o700)
        self.folder, log = folder, folder / "namespace.log"
        self.wire: subprocess.Popen[bytes] | None = None
        self.ends: list[subprocess.Popen[bytes]] = []
        try:
            for _ in self.hosts:
                self.ends.append(_start(["unshare", "-n", "cat"], log, _apart, "a namespace"))
            self.client, self.server = (("nsenter", "-t", str(e.pid), "-n") for e in self.ends)
            self._cable()
            for end, enter in enumerate((self.client, self.server)):
                here, there = self.hosts[end], self.hosts[1 - end]
                _ip(enter, f"ip addr add {here}/24 dev nf{end}")
                for up in ("lo", f"nf{end}"):
                    _ip(enter, f"ip link set {up} up")
                if self.wire:  # not through the cable without delay
                    _ip(enter, f"ip route replace {there}/32 dev slow{end} src {here}")
        except BaseException:
            self.remove()
            raise

    def _cable(self) -> None:
        far = self.ends[1].pid
        _ip(self.client, f"ip link add nf0 type veth peer name nf1 netns {far}")
        with contextlib.suppress(ServerError):
            _ip(self.client, "tc qdisc add dev nf0 root netem delay 0ms")
            return
        program, libraries = engines.which("wirefilter"), ""
        if not program:
            prefix = engines.unpacked("vde-wirefilter", "libvdeplug2")
            program = str(prefix / "usr/bin/wirefilter")
            libraries = str(next(prefix.glob("usr/lib/*/libvdeplug.so.2")).parent)
        for name in ("slow0", "slow1"):
            (self.folder / name).write_text(f"tap://{name}\n")
        argv = [*self.client, program, "-v", f"{self.folder / 'slow0'}:{self.folder / 'slow1'}"]
        log, env = self.folder / "wirefilter.log", {**os.environ, "LD_LIBRARY_PATH": libraries}
        self.wire = _start(argv, log, self._has_far, "wirefilter", env=env, cwd=self.folder)
        _ip(self.client, f"ip link set slow1 netns {far}")
        for enter, name in ((self.client, "slow0"), (self.server, "slow1")):
            _ip(enter, f"ip link set {name} up")

    def _has_far(self, _: int) -> bool:
        with contextlib.suppress(ServerError):
            _ip(self.client, "ip link show slow1")
            return True
        return False

    def delay(self, round_trip_ms: int) -> None:
        """Delay packets from now on, by `round_trip_ms` there and back together. wirefilter takes
        whole milliseconds, so an odd one is added on the way there. It takes one command at a time,
        or a file of them."""
        if self.wire and self.wire.stdin:
            there = (round_trip_ms + 1) // 2
            delays = f"delay LR{there}\ndelay RL{round_trip_ms - there}\n"
            (self.folder / "delays").write_text(delays)
            self.wire.stdin.write(b"load delays\n")
            self.wire.stdin.flush()
            return
        for end, enter in enumerate((self.client, self.server)):
            half = f"{round_trip_ms / 2:g}ms"
            _ip(enter, f"tc qdisc replace dev nf{end} root netem delay {half}")

    def rtt(self, port: int) -> dict[str, float]:
        """Seconds that connect() to a port of the server's end takes: `median` of five."""
        argv = [*self.client, sys.executable, "-I", "-S", "-c", _CONNECT, self.hosts[1], port]
        done = engines.output(*argv, timeout=60)
        if done.returncode:
            raise ServerError(f"no connection over the link: {done.stderr.strip()[-200:]}")
        return {"median": float(done.stdout)}

    def remove(self) -> None:
        """End the processes that hold it and remove its folder."""
        for process in (self.wire, *self.ends):
            if process:
                _end(process)
        shutil.rmtree(self.folder, ignore_errors=True)


def _ip(enter: tuple[str, ...], command: str) -> None:
    """A command of iproute2 in a namespace. Raises ServerError."""
    program, *argv = command.split()
    done = engines.output(*enter, engines.which(program) or program, *argv)
    if done.returncode:
        why = done.stderr.strip() or f"exit code {done.returncode}"
        raise ServerError(f"no link between two namespaces: {program}: {why}")


def _apart(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    return False
