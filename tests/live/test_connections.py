"""Connections by every route, on a real server with real keys, sshd and namespaces."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import psutil
import pytest

from conftest import alive, campaigns, moved, until
from noisefloor import model as study
from noisefloor import parse, schedule, studies
from noisefloor.data import tidy
from noisefloor.measure import connections, tools
from noisefloor.servers import engines, evidence, wire
from noisefloor.servers.server import ServerError


def asked(question):
    return studies.load("ssl-connections", question=question, profile="standard")


ALL = [asked(question) for question in studies.questions("ssl-connections")]
BY_NAME = {a.name: a for s in ALL for a in s.compared}
CHOSEN = study.replace(ALL[0], arms=tuple(BY_NAME.values())[1:])  # every key and every tunnel


@pytest.fixture(scope="module", autouse=True)
def programs():
    if not all(map(shutil.which, ("sysbench", "openssl", "ssh", "ssh-keygen"))):
        pytest.skip("sysbench, openssl or ssh is missing")


@pytest.fixture(scope="module")
def bench(shop, mysql, tmp_path_factory):
    """The servers of a block of the study in progress, with its keys: it takes long to make them."""
    with moved(tmp_path_factory.mktemp("home")) as home, campaigns(shop, home) as begin:
        yield begin(CHOSEN, mysql)[1]


def here(program):
    try:
        return program()
    except engines.EngineMissing:
        return None


def slice_of(bench, arm, folder, threads=1, workload=CHOSEN.workloads[0]):
    folder.mkdir(exist_ok=True)
    server = bench.server_of(arm, 0, workload)
    server.only(arm.switch)
    chosen = bench.kit.study
    return tools.Slice(chosen, server, arm, workload, threads, 1, folder, kit=bench.kit)


def connected(bench, arm, tmp_path, threads=1, workload=CHOSEN.workloads[0]):
    """(what stands in run.json of connections under an arm, their metrics, what is proved by kind)."""
    place = tmp_path / schedule.slug(arm.name)
    bench.kit.ready(arm, workload)
    found = connections.connect(slice_of(bench, arm, place, threads, workload))
    assert found["exit_code"] == 0, (place / "sysbench.txt").read_text()
    facts = {"workload_tool": "connect", "threads": threads} | found
    kinds = {c["evidence"]: c["found"] for c in found["evidence"]}
    return found, tidy.metrics(facts, place), kinds


def test_the_baseline_s_key_has_its_certificate_too(campaign, mysql):
    bench = campaign(asked("native"), mysql)[1]
    assert asked("native").keys == {"RSA 4096"}
    assert (bench.kit.keys / "server RSA 4096-cert.pem").exists()


def test_every_route(bench, tmp_path):
    """Socket, TCP, both versions of TLS with every kind of key, a tunnel: what the session and the
    certificate say is what the arm says."""
    cpu = {}
    names = ("plain TCP", "socket", "TLS 1.2, RSA 2048", "TLS 1.3, RSA 4096", "TLS 1.3, P-256")
    tunnels = ("SSH aes256-ctr", "ssh -N aes256-ctr") if here(wire.sshd_program) else ()
    for name in (*names, "TLS 1.3, RSA 2048, P-256 offered", *tunnels):
        arm = BY_NAME[name]
        found, metric, kinds = connected(bench, arm, tmp_path)
        assert kinds["session"] == arm.how.get("tls", "no TLS")
        assert kinds.get("certificate") == arm.how.get("key")
        assert str(bench.folder) not in " ".join(found["argv"])
        # only a distance has round trips, only a tunnel an opening
        own = {"tunnel_setup"} if name in tunnels else set()
        assert metric.keys() - own == {
            "connections_per_second", "cpu_per_connection", "connect_time",
            "client_cpu_per_connection",
        }  # fmt: skip
        assert metric["connect_time"] * metric["connections_per_second"] == pytest.approx(1)
        cpu[name] = metric["cpu_per_connection"]
    assert cpu["TLS 1.3, RSA 4096"] > cpu["TLS 1.3, P-256"] > cpu["plain TCP"] > 0


def aborted(server):
    found = server.status("Aborted_connects", "Aborted_clients", "Ssl_session_cache_hits")
    return found["Aborted_connects"] + found["Aborted_clients"], found["Ssl_session_cache_hits"]


def test_a_client_that_keeps_its_context_or_its_session_logs_in(bench, tmp_path):
    """Every connection ends with a login, also those whose session is resumed."""
    hits = {}
    for name in ("all new", "context kept", "session resumed"):
        bench.kit.ready(BY_NAME[name], CHOSEN.workloads[0])
        lost, before = aborted(bench.servers[0])
        _, metric, kinds = connected(bench, BY_NAME[name], tmp_path, threads=2)
        assert kinds["session"] == "TLSv1.3"
        assert metric["client_cpu_per_connection"] > 0
        now, after = aborted(bench.servers[0])
        assert now - lost <= 1  # openssl s_client, which looks at the certificate and leaves
        hits[name] = after - before
    assert hits["all new"] == hits["context kept"] == 0 < hits["session resumed"]


def test_certificates_that_a_client_reads(bench, tmp_path):
    """None, one, or the system's: the client's processor time says which."""
    cpu = {}
    for name in ("TLS 1.3, P-256, no CA", "TLS 1.3, P-256", "TLS 1.3, P-256, the system's CAs"):
        _, metric, kinds = connected(bench, BY_NAME[name], tmp_path)
        cpu[name] = metric["client_cpu_per_connection"]
        assert kinds["client"].startswith("libmariadb ")
        assert kinds["key exchange"] not in ("", "not told")
        assert kinds["server's OpenSSL"].startswith("OpenSSL 3")
    none, _, system = cpu.values()
    assert system > 2 * none


def test_logins_of_users_that_the_server_does_not_know_yet(campaign, mysql, tmp_path):
    """A client ends with an error where the cache is not as its arm says; here it is."""
    chosen = studies.load("settings", question="password", profile="standard")
    _, bench = campaign(chosen, mysql)
    for arm in (chosen.baseline, *chosen.arms):
        ran = connected(bench, arm, tmp_path, workload=chosen.workloads[0])[1]
        assert ran["connections_per_second"] > 0, arm.name


def test_a_route_that_is_not_what_its_arm_says_is_an_error(bench, tmp_path):
    server = bench.servers[0]
    arm = BY_NAME["TLS 1.3, P-256"]
    bench.kit.serve(server, "RSA 2048")
    checks = connections._served(bench.kit, server, bench.kit.route(server, arm), arm)
    with pytest.raises(evidence.EvidenceError, match=r"should be P-256, but .* says RSA 2048"):
        evidence.agree(checks)
    said = "session:  \nThreads started!\n"  # a session without a cipher, under a TLS arm
    with pytest.raises(evidence.EvidenceError, match="says no TLS"):
        evidence.agree(connections._session(said, arm))
    said = "session: TLSv1.3 TLS_AES_128_GCM_SHA256\n"  # and the other way round
    with pytest.raises(evidence.EvidenceError, match="should be no TLS"):
        evidence.agree(connections._session(said, BY_NAME["plain TCP"]))
    server.script("SET GLOBAL tls_version = 'TLSv1.2'", "ALTER INSTANCE RELOAD TLS")
    one = slice_of(bench, study.Arm("TLS", how={"via": "tcp", "tls": "TLSv1.3"}), tmp_path / "off")
    assert connections.connect(one)["exit_code"]
    assert "FATAL" in (tmp_path / "off" / "sysbench.txt").read_text()
    server.script("SET GLOBAL tls_version = 'TLSv1.2,TLSv1.3'", "ALTER INSTANCE RELOAD TLS")


def test_pooled_sessions_say_what_they_are(bench, tmp_path):
    workload = asked("pooled").workload("pooled")
    for name, wanted in (("plain TCP", "no TLS"), ("TLS 1.3, RSA 2048", "TLSv1.3")):
        found = connections.pooled(
            slice_of(bench, BY_NAME[name], tmp_path / wanted.replace(" ", ""), 2, workload)
        )
        assert found["exit_code"] == 0
        assert [c["found"] for c in found["evidence"]] == [wanted]


def test_connections_at_a_rate(campaign, mysql, tmp_path):
    """In turn on one server, each offered the rate. A connection counts from the moment at which it
    was to begin: one client alone sees all that wait for it while the server stands still."""
    chosen = studies.load("ssl-connections", question="rate", profile="smoke")
    c, bench = campaign(chosen, mysql)
    work = chosen.workload("connections, 50 a second")
    cells = {x.arm.name: x for x in schedule.cells(chosen) if x.workload is work}
    arms = [n for n in cells if here(wire.sshd_program) or "SSH" not in n]
    for name in arms:
        c.pair(bench, cells[name])
    runs = [tidy.read(run) for run in tidy.run_folders(c.folder)]
    assert len({f["arrivals"] for f in runs}) == len(runs) == 2 * len(arms)
    assert all("--rate=50" in f["argv"] and f["rate"] == 50 for f in runs)
    table = tidy.table(c.folder)
    assert table.attrs["problems"] == []
    found = table.groupby(["metric", "arm"])["value"].mean()
    plain, tls = "plain TCP", "TLS 1.3, RSA 2048"
    for metric in ("cpu_per_connection", "client_cpu_per_connection", "mean_latency", "p50"):
        assert found[metric, tls] > found[metric, plain] > 0
    for arm in (plain, *arms):
        assert found["reached_rate", arm] == pytest.approx(50, rel=0.4)
        assert found["saturated", arm] == 0

    work = chosen.workload("connections, 100 a second")
    one = replace(slice_of(bench, BY_NAME[plain], tmp_path / "still", workload=work), seconds=3)
    pid = bench.servers[0].pid
    harm = [threading.Timer(1.0, os.kill, (pid, signal.SIGSTOP))]
    harm += [threading.Timer(1.3, os.kill, (pid, signal.SIGCONT))]
    for timer in harm:
        timer.start()
    told = connections.connect(one)
    took = tidy.metrics({"workload_tool": "connect", "threads": 1, "rate": 100} | told, one.folder)
    # 30 of 300 arrive meanwhile and wait 0.15 s on average: 15 ms in all; a closed loop has 1
    assert took["max_latency"] > 0.2
    assert took["mean_latency"] > 0.005


def test_a_tunnel_is_the_one_that_its_arm_says(bench):
    """Each with and without a command at its far end, both at once; asked for again it is the same."""
    if not here(wire.sshd_program):
        pytest.skip("sshd is missing")
    with_, without = (BY_NAME[n] for n in ("SSH aes256-ctr", "ssh -N aes256-ctr"))
    routes = [bench.kit.route(bench.servers[0], arm) for arm in (with_, without, with_)]
    assert ["-N" in r.tunnel.process.args for r in routes] == [False, True, False]
    assert routes[0].tunnel is routes[2].tunnel
    assert routes[0].port != routes[1].port


def link_or_skip(folder):
    if os.geteuid():
        pytest.skip("two namespaces with a cable between them need root")
    try:
        return wire.Link(folder)
    except (ServerError, engines.EngineMissing) as why:
        pytest.skip(str(why))


def test_distance(bench, tmp_path):
    """connect() over the link takes the delay that was asked for, a connection three times that; also
    the first one, which finds address and password known. A busy machine adds to a delay and takes
    nothing from it: of three tries one has to be as asked."""
    link_or_skip(tmp_path / "probe").close()
    workload = asked("distance").workload("40 ms away")
    arm = BY_NAME["plain TCP"]
    tries = []
    for i in range(3):
        place = tmp_path / str(i)
        place.mkdir()
        _, took, _ = connected(bench, arm, place, workload=workload)
        said = (place / schedule.slug(arm.name) / "sysbench.txt").read_bytes()
        slowest = parse.sysbench(said)["latency"]["max"] / took["round_trip"]
        trips = took["connect_time"] / took["round_trip"]
        tries.append((took["round_trip"], trips, slowest))
        assert took["round_trip"] > 0.038
        # asked for its password once more, the slowest would take five
        if took["round_trip"] < 0.06 and 2.7 < trips < 3.6 and slowest < 4:
            bench.kit.link.delay(0)  # from now on nothing waits
            assert bench.kit.link.rtt(bench.kit.far.port)["median"] < 0.02
            return
    pytest.fail(f"round trip in seconds, connection and the slowest one in round trips: {tries}")


def test_nothing_is_left_after_kill_9(tmp_path):
    """Namespaces, wire and sshd of a killed process are gone at once."""
    link_or_skip(tmp_path / "probe").close()
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom noisefloor.servers import wire\n"
        "place = Path(sys.argv[1])\nlink = wire.Link(place / 'link')\n"
        "sshd = wire.Sshd(place / 'sshd', link.hosts[1], link.server)\n"
        "tunnel = wire.Tunnel(sshd, 'aes256-ctr', (link.hosts[1], 9), enter=link.client)\n"
        "print('up', flush=True)\ntime.sleep(60)\n"
    )
    argv = [sys.executable, "-c", script, str(tmp_path)]
    owner = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert owner.stdout.readline() == "up\n"
    below = [p.pid for p in psutil.Process(owner.pid).children(recursive=True)]
    assert len(below) >= 4
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    until(lambda: not any(map(alive, below)), "end of all", 5)


def test_an_sshd_that_cannot_start_leaves_nothing_in_the_way(tmp_path):
    for _ in range(2):  # the second try says the same as the first
        with pytest.raises(ServerError, match="sshd did not start"):
            wire.Sshd(tmp_path / "sshd", "192.0.2.1")  # an address of nobody
    assert list(tmp_path.iterdir()) == []
