"""Connections to a server by every route: TCP, TLS, SSH tunnel, near and far.

`ConnectionPool` is what a campaign keeps between its runs; `connect` and `pooled` measure."""

import functools
import math
import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from noisefloor import parse
from noisefloor.measure import child, loading, tools, workloads
from noisefloor.measure.child import Child, ToolError
from noisefloor.measure.server_pool import ServerPool
from noisefloor.measure.tools import NotHere, Slice, steal
from noisefloor.model import Arm, Workload
from noisefloor.servers import engines, wire
from noisefloor.servers.evidence import agree, check
from noisefloor.servers.sandbox import clock, secret_file
from noisefloor.servers.server import Server, ServerError
from noisefloor.servers.session import SCHEMA, Refused, option_file
from noisefloor.servers.wire import Link, Sshd, Tunnel

_DEFAULT_KEY = "RSA 2048"
# names of key exchange groups, by what OpenSSL prints, in lower case; other groups keep its name
_GROUPS = {"x25519": "X25519", "secp256r1": "P-256", "prime256v1": "P-256"}
_STRANGERS = 1000  # users a second of a slice: each logs in once, and not so many log in


@dataclass(frozen=True)
class _Route:
    """How a client reaches a server: `enter` is the argv prefix of its namespace."""

    host: str
    port: int | None
    enter: tuple[str, ...] = ()
    tunnel: Tunnel | None = None


class ConnectionPool(ServerPool):
    """Also keeps keys, tunnels, the link and the server at its far end."""

    tcp = True
    copies = 1  # of the server at the far end

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.kept = self.folder / "connections"
        self.kept.mkdir(mode=0o700)
        self.keys = wire.certificates(self.kept / "tls", sorted(self.study.keys | {_DEFAULT_KEY}))
        self.env = {**os.environ, "OPENSSL_CONF": str(self.keys / "openssl.cnf")}
        self.link: Link | None = None
        self.far: Server | None = None
        self.sshds: dict[bool, Sshd] = {}
        self.tunnels: dict[tuple[int | None, str, bool], Tunnel] = {}
        # by process: servers that accept any host, and how many strangers each has
        self.opened: set[int] = set()
        self.strangers: dict[int, int] = {}
        self.serving: dict[int, str] = {}  # server's process -> the key that it presents

    def _client(self, arm: Arm) -> dict[str, str]:
        """The client's environment under `arm`: which groups it offers for the key exchange."""
        if not (groups := arm.how.get("groups")):
            return self.env
        config = wire.configuration(self.keys / f"openssl-{groups}.cnf", groups)
        return self.env | {"OPENSSL_CONF": str(config)}

    # -- servers ---------------------------------------------------------------------------------

    def configure(self, server: Server) -> None:
        """Give a fresh server our certificates, and our configuration of OpenSSL instead of the
        machine's."""
        server.settings |= dict(self.study.settings)  # skip_name_resolve: no client waits for DNS
        server.environment |= {"OPENSSL_CONF": self.env["OPENSSL_CONF"]}
        self._place(server, _DEFAULT_KEY)
        shutil.copyfile(self.keys / "cacert.pem", server.datadir / "ca.pem")
        server.settings |= server.kind.TLS

    def _place(self, server: Server, key: str) -> None:
        for end in ("cert", "key"):
            text = (self.keys / f"server {key}-{end}.pem").read_text()
            secret_file(server.datadir / f"server-{end}.pem", text)

    def _serve(self, server: Server, key: str | None) -> None:
        """Let the running server present the certificate of `key`; None: any. Raises
        ServerError."""
        if key is None or self.serving.get(server.pid) == key:
            return
        self._place(server, key)
        try:
            server.query(server.kind.RELOAD_TLS)
        except Refused as e:
            raise ServerError(f"the server refused the certificate: {e}") from None
        self.serving[server.pid] = key

    def server(self, arm: Arm, workload: Workload) -> Server | None:
        """The server at the far end of the link if the workload has a distance, else None."""
        return None if workload.distance_ms is None else self._far(workload.distance_ms)

    def _far(self, distance_ms: int) -> Server:
        if self.link is None:
            if os.geteuid():
                raise ServerError("network namespaces with a cable between them need root")
            self.link = Link(self.kept / "link")
        if self.far is None:
            far = self.fresh(Arm(""), bind_address=self.link.hosts[1])
            far.engine = replace(far.engine, command=(*self.link.server, *far.engine.command))
            far.start()
            self.far = far
        self.link.delay(distance_ms)
        return self.far

    def _open(self, server: Server) -> None:
        """Let the measuring user log in from any host."""
        if server.pid not in self.opened:
            users = server.query("SELECT host AS h FROM mysql.user WHERE user = 'noisefloor'")
            if [u["h"] for u in users] != ["%"]:
                server.query("RENAME USER noisefloor@localhost TO noisefloor@'%'")
            self.opened.add(server.pid)

    def _forget(self, server: Server, strangers: int) -> None:
        """Make sure that the server has so many `strangers`, users with the measuring user's
        password, and empty its cache of passwords."""
        if (known := self.strangers.get(server.pid, 0)) < strangers:
            row = server.query(
                "SELECT HEX(authentication_string) AS a FROM mysql.user WHERE user = 'noisefloor'"
            )[0]
            hashed = f"'caching_sha2_password', 0x{row['a']}, '', '', ''"
            of_user, of_schema = (
                ", ".join(f"('%', 'stranger{n}', {more})" for n in range(known, strangers))
                for more in (hashed, f"'{SCHEMA}', 'Y'")
            )
            server.query(  # CREATE USER takes minutes for ten thousand
                "INSERT INTO mysql.user (Host, User, plugin, authentication_string, ssl_cipher, "
                f"x509_issuer, x509_subject) VALUES {of_user}"
            )
            server.query(f"INSERT INTO mysql.db (Host, User, Db, Select_priv) VALUES {of_schema}")
            self.strangers[server.pid] = strangers
        server.query("FLUSH PRIVILEGES")

    # -- routes ----------------------------------------------------------------------------------

    def ready(self, arm: Arm, workload: Workload) -> None:
        """Make sure that the arm can be measured here. Raises NotHere; or ServerError, which ends
        the campaign, if there is no link, or if the server did not start or has ended."""
        server = self.server(arm, workload) or self.servers[0]
        try:
            openssl(arm.how.get("client", ""))
            self.route(server, arm)
            self._serve(server, arm.how.get("key"))
        except (ServerError, engines.EngineMissing) as e:
            if server._ended(0):  # whatever the arm
                raise
            raise NotHere(arm.name, str(e)) from None

    def route(self, server: Server, arm: Arm) -> _Route:
        """The way to `server` under `arm`. Opens a tunnel when it is first needed, with `ssh -N` if
        the arm says that no command runs at the far end."""
        self._open(server)
        far = server is self.far
        link = self.link if far else None
        enter = link.client if link else ()
        host = link.hosts[1] if link else "127.0.0.1"
        if arm.how["via"] == "tcp":
            return _Route(host, server.port, enter)
        if far not in self.sshds:
            place = self.kept / f"sshd-{'far' if far else 'near'}"
            self.sshds[far] = Sshd(place, host, link.server if link else ())
        command = arm.how.get("command") != "no"
        key = (server.port, arm.how["cipher"], command)
        if key not in self.tunnels:
            assert server.port is not None  # `tcp` above
            there = (host, server.port)
            self.tunnels[key] = Tunnel(
                self.sshds[far], arm.how["cipher"], there, enter=enter, command=command
            )
        return _Route("127.0.0.1", self.tunnels[key].port, enter, self.tunnels[key])

    def _options(self, server: Server, route: _Route) -> Path:
        """The option file of the measuring user for a route."""
        where = (server.socket, route.port, route.host)
        text = option_file("noisefloor", server.password, *where)
        return secret_file(self.kept / "client.cnf", text)

    # -- ends ------------------------------------------------------------------------------------

    def end_block(self) -> None:
        """Ends the far server and all tunnels; the next block makes new ones."""
        self.serving = {}
        for tunnel in self.tunnels.values():
            tunnel.close()
        self.tunnels = {}
        if self.far:
            self.far.remove()
            self.far = None

    def discard(self) -> None:
        """End everything and remove the keys."""
        self.end_block()
        for sshd in self.sshds.values():
            sshd.close()
        self.sshds = {}
        if self.link:
            self.link.remove()
            self.link = None
        shutil.rmtree(self.kept, ignore_errors=True)


# -- the client ------------------------------------------------------------------------------------


@functools.cache
def openssl(client: str) -> str:
    """The version of the OpenSSL that a client has: of the build called `client`, "" for the
    machine's own. Raises EngineMissing where there is no such build."""
    return loading.openssl(engines.find(client) if client else None)


def _started(arm: Arm, argv: list[str]) -> list[str]:
    """argv with the libraries of the build whose client the arm has."""
    name = arm.how.get("client")
    return engines.beside(engines.find(name), *argv) if name else argv


# -- the measuring tools ---------------------------------------------------------------------------


def connect(run: Slice) -> dict[str, Any]:
    """Connections made and ended by sysbench with our own script; text in ``sysbench.txt``.

    Before the clock starts, measuring the round trips of a link resolves its address, and a session
    of the script puts the password into the server's cache. At a rate, usage is counted from the
    start of the clock, too, because many clients start and few of them work."""
    pool, route = run.pool, run.pool.route(run.server, run.arm)
    result: dict[str, Any] = {}
    pool._serve(run.server, run.arm.how.get("key"))
    if run.workload.distance_ms is not None:
        result["rtt_s"] = pool.link.rtt(run.server.port)
    if run.arm.how.get("cache") == "cold":
        pool._forget(run.server, _strangers(run))
    argv = _argv(run, route)
    stolen, tunnel = steal(), route.tunnel
    before, ends_before = run.server.usage(), tunnel.usage() if tunnel else {}
    limit, starting = 3 * run.seconds + 2 * child.PATIENCE_S, 0.0
    call = [*route.enter, *_started(run.arm, argv)]
    client = Child(call, run.folder / "sysbench.txt", env=pool._client(run.arm))

    def begun() -> None:
        nonlocal starting
        starting = clock(client.process.pid)
        before.update(run.server.usage())
        ends_before.update(tunnel.usage() if tunnel else {})

    code, text, cpu = client.wait(limit, begun if run.workload.rate else None)
    cpu -= starting
    used = {k: round(v - before[k], 6) for k, v in run.server.usage().items()}
    if tunnel:  # what the ends of a tunnel spend is spent for the connections
        result["tunnel_s"] = tunnel.took_s
        ends = tunnel.usage()
        used["sshd_cpu_s"] = round(ends["server"] - ends_before["server"], 6)
        used["cpu_s"] = round(used["cpu_s"] + used["sshd_cpu_s"], 6)
        cpu += ends["client"] - ends_before["client"]
    if not code:
        made = parse.sysbench(text)["events"]
        checks = [*_first(text, run.arm), _required(run.server, run.arm)]
        result |= _sessions(text, run.arm, made, checks)
    shown, usage = _shown(pool, argv), {"server": used}
    return result | tools.outcome(shown, code, usage, round(cpu, 6), stolen)


def _strangers(run: Slice) -> int:
    return math.ceil(_STRANGERS * run.seconds)


def _argv(run: Slice, route: _Route) -> list[str]:
    how = run.arm.how
    name, client = "connect.lua", [f"--tls={how.get('tls', 'none')}"]
    if keep := how.get("keep"):
        name, client = "handshake.lua", [f"--keep={keep}"]
    if how.get("cache") == "cold":
        client.append(f"--strangers={_strangers(run)}")
    client += [
        f"--ca={run.pool.keys / 'cacert.pem'}",
        f"--table-size={run.study.profile.rows}",
        f"--time={run.seconds:g}",
        *workloads.PRINTED,
        *run.workload.options,
    ]
    client += [f"--rate={run.workload.rate}"] if run.workload.rate else []
    client += [f"--rand-seed={run.facts['arrivals']}"] if "arrivals" in run.facts else []
    file = run.pool._options(run.server, route)
    return workloads.call(name, file, run.threads, *client, "run")


def _shown(pool: ConnectionPool, argv: list[str]) -> list[str]:
    return [a.replace(f"{pool.keys}/", "") for a in workloads.portable(argv)]


def _first(text: str, arm: Arm) -> list[dict[str, str]]:
    """Evidence from the session that the script opened before the clock started: TLS version as the
    server names it, the key of the certificate that the client got, and the client's OpenSSL."""
    session = re.search(r"^session: (\S*) (\S*)$", text, re.M)
    version, cipher = (session[1], session[2]) if session else ("not asked", "")
    wanted = arm.how.get("tls", "no TLS")
    asked = f"Ssl_version of a session, cipher {cipher}" if cipher else "Ssl_version of a session"
    lines = (
        re.search(pattern, text, re.M)
        for pattern in (r"^certificate: (.+)$", r"^client: .*\bOpenSSL (\d+\.\d+\.\w+)")
    )
    key, client = (line[1] if line else "not told" for line in lines)
    return [
        check("session", asked, wanted, version or "no TLS"),
        check("certificate", "the one that the client got", arm.how.get("key", "none"), key),
        check("client's OpenSSL", "in its process", openssl(arm.how.get("client", "")), client),
    ]


def _sessions(text: str, arm: Arm, made: int, checks: list[dict[str, Any]]) -> dict[str, Any]:
    """The part of run.json about the client's `made` sessions: `sessions`, how many of each kind,
    and `evidence`, which adds to `checks` that each has the arm's TLS version and group of the key
    exchange. Raises ToolError if not every session was looked at, EvidenceError."""
    kinds: Counter[str] = Counter()
    for n, version, group in re.findall(r"^sessions: (\d+) (\S+) (\S+)$", text, re.M):
        kind = f"{version}, {_GROUPS.get(group.lower(), group)}"
        kinds["no TLS" if version == "none" else kind] += int(n)
    if kinds.total() != made:
        raise ToolError(f"the sessions of {kinds.total()} of {made} connections were looked at")
    how = arm.how
    wanted = f"{how['tls']}, {how['group']}" if "tls" in how else "no TLS"
    several = len(kinds) > 1
    seen = " and ".join(f"{kind} ({n:,} times)" if several else kind for kind, n in kinds.items())
    proof = check("key exchange", "each session of the client", wanted, seen)
    return {"sessions": dict(kinds), "evidence": agree([*checks, proof])}


def _required(server: Server, arm: Arm) -> dict[str, str]:
    """Evidence that the server takes only encrypted connections if the arm has TLS, else any."""
    required = server.query("SELECT @@global.require_secure_transport AS v")[0]["v"]
    wanted = "encrypted" if "tls" in arm.how else "any"
    taken = "encrypted" if int(required) else "any"
    return check("connections taken", "require_secure_transport", wanted, taken)


def pooled(run: Slice) -> dict[str, Any]:
    """A script of sysbench over connections that stay open; text in ``sysbench.txt``."""
    pool, route = run.pool, run.pool.route(run.server, run.arm)
    pool._serve(run.server, run.arm.how.get("key"))
    ssl = ("--mysql-ssl=on",) if "tls" in run.arm.how else ()
    argv = tools.load_argv(run, run.seconds, pool._options(run.server, route), options=ssl)
    call = [*route.enter, *_started(run.arm, argv)]
    limit, out = 3 * run.seconds + child.PATIENCE_S, run.folder / "sysbench.txt"
    look = functools.partial(tools.meter, {"server": run.server})
    stolen, before, env = steal(), look(), pool._client(run.arm)
    # sysbench takes its certificates from the working directory; connecting is not counted
    code, text, cpu = child.run(
        call, limit, out, lambda: before.update(look()), env=env, cwd=pool.keys
    )
    used = tools.used(before, look())
    result = tools.outcome(_shown(pool, argv), code, used, cpu, stolen)
    return result if code else result | _sessions(text, run.arm, run.threads, [])
