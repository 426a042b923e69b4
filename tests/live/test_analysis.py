"""Tables and first lines, from small campaigns whose answers can be worked out by hand."""

import math
import re
import tomllib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from scipy import stats

from analysis import backups, binlog, connections, estimates, tablespaces, upgrade
from conftest import DATA
from noisefloor import paths
from noisefloor.data import results
from noisefloor.show import plots, report
from noisefloor.text import amounts

FIGURES = tomllib.loads((DATA / "amounts.toml").read_text())["figures"]
TURNS = {"base": (1, 1, -1, -1), "arm": (1, -1, 1, -1), "both": (1, -1, -1, 1)}  # add up to nothing


def tidy(workload, values, threads=1, campaign="c", wobble=0.01, drift=0.0):
    """A campaign of four blocks with a pair an arm: {arm: {metric: truth}}, the baseline first. The
    logs of its runs wobble around the truth, and drift with the block."""
    base, *others = values
    rows = []
    for block in range(4):
        for arm in (*others, f"{base} again"):
            for name in (base, arm):
                away = wobble * TURNS["base" if name == base else "arm"][block]
                away += drift * TURNS["both"][block]
                pair = f"{workload} t{threads} {arm} {block}"
                key = (block, pair, f"{pair} {name}", name)
                rows += [
                    (*key, metric, value * math.exp(away))
                    for metric, value in values.get(name, values[base]).items()
                ]
    warm = (0, "warm-up", "warm-up", *rows[0][3:5], 1e9)
    columns = ["block", "pair_id", "run", "arm", "metric", "value"]
    found = pd.DataFrame([warm, *rows], columns=columns).assign(warmup=lambda t: t.index == 0)
    return found.assign(campaign=campaign, workload=workload, threads=threads)


def of(metric, **arms):
    """What `tidy` takes, of one metric."""
    return {arm.replace("_", " "): {metric: value} for arm, value in arms.items()}


def joined(*tables):
    return pd.concat(tables, ignore_index=True)


def interval(row, name):
    return row[f"{name} lo"], row[f"{name} hi"]


@pytest.fixture(autouse=True)
def theme():
    plots.theme(["plain TCP", "TLS 1.3, RSA 2048", "TLS 1.3, P-256"])
    yield
    plots.theme()


@pytest.fixture(scope="module")
def recorded():
    """A campaign that was measured before studies had questions."""
    return results.load(paths.recorded() / "ssl-connections-standard-20261121-151554")


# -- figures ---------------------------------------------------------------------------------------

TWICE = of("connect_time", plain_TCP=2e-3, TLS=4e-3)


def test_an_interval_is_students_over_blocks():
    """Of the means of blocks on the log scale: pairs of one block do not count twice."""
    t = tidy("sustained", TWICE, 4)
    t = joined(t, t.assign(pair_id=t["pair_id"] + " once more"))
    row = connections.rates(t, "sustained").set_index("arm").loc["TLS"]
    logs = np.log(4) + 0.01 * np.array(TURNS["arm"])
    expected = stats.t.interval(0.95, 3, logs.mean(), stats.sem(logs))
    assert row["connect_ms"] == pytest.approx(4)
    assert np.log(interval(row, "connect_ms")) == pytest.approx(expected)
    assert row["blocks"] == 4


def test_one_block_has_no_interval():
    t = tidy("sustained", TWICE)
    found = connections.rates(t[t["block"] == 0], "sustained")
    assert np.isnan(found["connect_ms lo"]).all()
    assert estimates.written(found)["connect, ms"].tolist()[1] == "4.04 (no interval)"


@pytest.mark.parametrize(("name", "figure", "text"), FIGURES, ids=str)
def test_a_figure_is_told_with_its_interval(name, figure, text):
    keys = (name, f"{name} lo", f"{name} hi")
    frame = pd.DataFrame([dict(zip(keys, figure, strict=True)) | {"arm": "A"}])
    head = {"x_ms": "x, ms", "x_pct": "x"}[name]
    assert estimates.written(frame).to_dict("list") == {head: [text], "arm": ["A"]}


def test_arms_of_one_campaign_are_compared_in_pairs():
    """What drifts with the blocks is in both runs of a pair and cancels; without pairs it does not."""
    t = estimates.counting(tidy("x", of("tps", plain=100.0, TLS=90.0), drift=0.2))
    pairs = estimates.log_ratio(t, "TLS", "plain")
    apart = joined(t[t["arm"] == "plain"], t[t["arm"] == "TLS"].assign(campaign="another"))
    alone = estimates.log_ratio(apart, "TLS", "plain")
    assert [pairs.value, alone.value] == pytest.approx([math.log(0.9)] * 2)
    assert alone.half() > 5 * pairs.half() > 0


# -- connections -----------------------------------------------------------------------------------

FAR = {"plain TCP": (3, 5e-4), "TLS 1.3, RSA 2048": (5, 3e-3)}  # round trips, seconds of work


def away(longest=170, slower=1.0, threads=1):
    parts = []
    for ms in (1, 40, longest):
        rtt = (ms + 0.1) / 1e3
        by = slower if ms == longest else 1
        values = {
            kind: {"connect_time": by * (work + trips * rtt), "round_trip": rtt}
            for kind, (trips, work) in FAR.items()
        }
        parts.append(tidy(f"{ms} ms away", values, threads, wobble=1e-3))
    return joined(*parts)


def test_round_trips_are_fitted_and_checked():
    far = away()
    found = connections.round_trips(far)
    assert found["kind"].tolist() == list(FAR)  # the baseline first
    for row, (trips, work) in zip(found.to_dict("records"), FAR.values(), strict=True):
        assert row["blocks"] == 4
        assert row["round trips"] == pytest.approx(trips, rel=1e-3)
        lo, hi = interval(row, "round trips")
        assert trips * 0.99 < lo < trips < hi < trips * 1.01
        assert row["work_ms"] == pytest.approx(1e3 * work, rel=0.02)
        assert abs(row["off_pct"]) < 0.1
        assert row["per_s_at_100_ms"] == pytest.approx(1 / (work + 0.1 * trips), rel=1e-3)
        assert row["predicted_ms"] == pytest.approx(row["measured_ms"], rel=1e-3)
    slow = connections.round_trips(away(slower=2.0))
    assert slow["off_pct"].tolist() == pytest.approx([-50.0, -50.0], abs=0.1)
    assert (slow["off_pct hi"] < -49).all()
    assert connections.distance_figure(connections.distances(far), found)


def test_the_scatter_of_round_trips_is_that_of_blocks():
    far = away()
    out = far.eval("block == 2 and workload == '40 ms away' and metric == 'connect_time'")
    far.loc[out, "value"] *= 1.1
    row = connections.round_trips(far).iloc[0]
    points = connections.distances(far)
    points = points[points["kind"] == "plain TCP"].pivot(index="block", columns="distance_ms")
    took, trip = (points[c][40] - points[c][1] for c in ("connect_s", "rtt_s"))
    slope = took / trip
    expected = stats.t.interval(0.95, 3, slope.mean(), stats.sem(slope))
    assert interval(row, "round trips") == pytest.approx(expected)
    assert row["round trips hi"] - row["round trips lo"] > 0.4


def test_two_distances_predict_nothing_and_one_has_no_round_trips(recorded):
    far = away()
    row = connections.round_trips(far[far["workload"] != "170 ms away"]).iloc[0]
    assert row["round trips"] == pytest.approx(3, rel=1e-3)
    assert row[["predicted_ms", "measured_ms", "off_pct", "rtt_ms"]].isna().all()
    near = tidy("sustained", TWICE)
    one = far[far["workload"] == "40 ms away"]
    for t in (near, near.iloc[:0], one, away(threads=16), recorded.tidy):
        assert connections.round_trips(t).empty


@pytest.mark.parametrize(
    ("rate", "under_5", "under_1"),
    [(1000, 41, 306), (990, 52, math.inf), (900, math.inf, math.inf)],
)
def test_break_even(rate, under_5, under_1):
    """A connection costs 1 ms, with TLS 4; a transaction 1 ms at one thread, with TLS 1/rate."""
    made = tidy("sustained", of("connect_time", plain=1e-3, TLS=4e-3))
    used = tidy("pooled", of("tps", plain=1000.0, TLS=float(rate)), campaign="another")
    more = tidy("pooled", of("tps", plain=1.0, TLS=1.0), 16, "another")  # at more threads
    (row,) = connections.break_even(joined(made, used, more), "TLS", "plain").to_dict("records")
    assert row["counted in"] == "time"
    assert (row["connect_ms"], row["extra_ms"]) == pytest.approx((1, 3))
    assert row["transaction_extra_pct"] == pytest.approx(100 * (1000 / rate - 1))
    for name, limit in (("under 5 %", 0.05), ("under 1 %", 0.01)):
        if math.isfinite(n := row[name]):
            # by definition: at that many the cost is under the limit, not at one less
            cost = [(4 + k * 1000 / rate) / (1 + k) - 1 for k in (n - 1, n)]
            assert cost[0] > limit >= cost[1] - 1e-9
        lo, hi = interval(row, name)
        assert lo <= row[name] <= hi
        assert lo < hi or math.isinf(lo)
    assert math.isinf(row["under 5 %"]) == math.isinf(under_5)
    assert math.isinf(row["under 1 %"]) == math.isinf(under_1)


def test_break_even_needs_both_arms_and_a_pool():
    made = tidy("sustained", of("connect_time", plain=1e-3, TLS=4e-3), 4)
    used = tidy("pooled", of("tps", plain=1000.0, SSH=900.0))
    assert connections.break_even(made, "TLS", "plain").empty
    assert connections.break_even(joined(made, used), "TLS", "plain").empty


def test_rates_of_several_campaigns_stand_apart():
    """Only arms of one campaign were measured beside each other."""
    one = tidy("once", TWICE)
    two = tidy("once", of("connect_time", plain_TCP=3e-3), campaign="d")
    assert "campaign" not in connections.rates(one, "once")
    found = connections.rates(joined(one, two, tidy("sustained", TWICE, 4)), "once")
    assert found["campaign"].tolist() == ["c", "c", "d"]
    assert found["arm"].tolist() == ["plain TCP", "TLS", "plain TCP"]
    assert found["connect_ms"].tolist() == pytest.approx([2, 4, 3])
    assert connections.rates(one, "sustained").empty


def test_a_table_has_what_was_measured(recorded):
    """Latency at a rate has its verdicts, and a table of its own beside them."""
    fast = connections.rates(tidy("sustained", TWICE), "sustained")
    assert not {"server CPU_ms", "connections per second"} & set(fast)
    offered = of("cpu_per_connection", plain_TCP=2e-3, TLS=5e-3)
    row = connections.rates(
        tidy("connections, 200 a second", offered, 8), "connections, 200 a second"
    )
    assert row["server CPU_ms"].tolist() == pytest.approx([2, 5])
    assert "connect_ms" not in row
    old = connections.rates(recorded.tidy, "sustained")
    assert set(old["threads"]) == {1, 4, 16, 32}
    even = connections.break_even(recorded.tidy, "TLS 1.3, RSA 2048", "plain TCP")
    assert even["counted in"].tolist() == ["time", "server CPU"]
    assert connections.pooling_figure(even)


def test_how_many_connections_a_server_takes_is_told_of_the_arms_of_that_question(recorded):
    login = results.load(paths.campaign("ssl-connections-login-standard-20261130-065913"))
    assert len(connections.rates(login.tidy, "sustained"))
    assert connections.fastest(login).empty
    assert set(connections.fastest(recorded)["threads"]) == {1, 4, 16, 32}


def test_a_tunnel_against_a_key_of_4096_bits():
    """As the source compared them, at each thread count, from pairs with a third arm."""
    values = {"plain TCP": 4000.0, "TLS 1.3, RSA 4096": 150.0, "SSH aes256-ctr": 1500.0}
    made = {arm: {RATE: value} for arm, value in values.items()}
    t = joined(*(tidy("sustained", made, threads) for threads in (1, 16)))
    found = connections.native(t)
    assert found["threads"].tolist() == [1, 16]
    assert found["times"].tolist() == pytest.approx([10, 10], rel=1e-3)
    assert (found["times lo"] < 10).all()
    assert (found["times hi"] > 10).all()
    del made["TLS 1.3, RSA 4096"]
    assert connections.native(tidy("sustained", made)).empty


def verdicts(*rows, **more):
    """Rows of a verdict table: workload, metric, arm, change and its interval, verdict."""
    columns = ["workload", "metric", "arm", "change_pct", "lo_pct", "hi_pct", "verdict"]
    known = {"baseline": "plain TCP", "threads": 4, "control": False, "joint": False}
    known |= {"question": "headline", "processor": "A", "ranged": False}
    found = pd.DataFrame(rows, columns=columns).assign(**known | more)
    return found.assign(warnings=[[] for _ in rows])


RATE = "connections_per_second"


def test_a_signature_is_told_of_arms_whose_baseline_signs_nothing():
    """In units of the baseline at the thread count of the row, or at all of them."""
    cpu, kinds = "cpu_per_connection", ("plain TCP", "TLS 1.3, P-256")
    t = joined(
        *(
            tidy("sustained", {arm: {cpu: seconds} for arm in kinds}, n)
            for n, seconds in ((1, 1e-3), (16, 3e-3))
        )
    )
    keys = {arm: {"key": "P-256"} for arm in (kinds[1], "all new", "context kept")} | {kinds[0]: {}}
    arms = [SimpleNamespace(name=name, how=how) for name, how in keys.items()]
    row = ("sustained", cpu, "context kept", -3.0, -9.0, 3.0, "cannot tell")
    login = verdicts(row, baseline="all new", question="login", threads=1)
    asked = t, {"P-256": [40_000.0]}, arms
    assert connections.signed(login, *asked).empty
    row = ("sustained", cpu, kinds[1], 100.0, 90.0, 110.0, "more")
    for more, base in (({"threads": 1}, 1.0), ({"joint": True}, 2.0)):
        rows = joined(login, verdicts(row, **more))
        (found,) = connections.signed(rows, *asked).to_dict("records")
        assert (found["arm"], found["key"], found["expected_ms"]) == (kinds[1], "P-256", 0.025)
        assert found["server CPU more_ms"] == pytest.approx(base, rel=0.02)
        ends = (0.9 * base, 1.1 * base)
        assert interval(found, "server CPU more_ms") == pytest.approx(ends, rel=0.02)


def test_the_connections_page_tells_both_tunnels_where_both_were_measured():
    ways = {"plain TCP": 1e-3, "SSH aes256-ctr": 2e-3, "ssh -N aes256-ctr": 58e-3}
    ways = {arm: {"connect_time": s} for arm, s in ways.items()}
    made = joined(*(tidy("sustained", ways, n, wobble=1e-3) for n in (1, 16)))
    assert re.fullmatch(
        r"Through ssh -N a connection takes 58\.\d+ \(.*\) ms, through a tunnel with a command at its"
        r" far end 2\.\d+ \(.*\) ms\.",
        connections.tunnels_answer(made),
    )
    one = tidy("sustained", of("mean_latency", plain_TCP=2e-3, TLS=5e-3), 8)
    assert connections.tunnels_answer(one) == ""


def test_the_most_that_the_client_s_cpu_may_become_is_that_of_any_arm():
    cpu, ours = "client_cpu_per_connection", ("RSA", "P-256", "plain TCP again")
    ends = zip(ours, (809.0, 883.1, 990.0), strict=True)
    rows = [("w", cpu, arm, 700.0, 600.0, most, "provisional") for arm, most in ends]
    rows.append(("w", "cpu_per_connection", "RSA", 700.0, 600.0, 2000.0, "provisional"))
    said = connections.client_answer(verdicts(*rows), "headline")
    assert said == "Client CPU: at most 9.8 times."
    assert connections.client_answer(verdicts(*rows), "rate") == ""


@pytest.mark.parametrize(
    ("ranged", "sittings", "said"),
    [
        (False, 1, "provisional, boot 1 of 3: aes (+9.0 %, +8.0 to +10.0 %)"),
        (True, 3, "range of 3 boots: aes (+8.0 to +10.0 %)"),
    ],
)
def test_without_its_sittings_a_question_has_figures_and_no_word(ranged, sittings, said):
    row = "backup", "wall", "aes", 9.0, 8.0, 10.0, "provisional"
    rows = verdicts(row, ranged=ranged, sittings=sittings, asked=3)
    found = backups.backup_answer(rows)
    assert found.replace("\u202f", " ") == f"Backup time: {said}."


def test_one_baseline_a_sentence():
    """An arm that is held against another baseline does not stand in one sentence with the first."""
    one = verdicts(("backup", "wall", "aes", 9.0, 8.0, 10.0, "slower"))
    two = verdicts(("backup", "wall", "sm4", -75.0, -80.0, -66.7, "faster"), baseline="aes")
    said = backups.backup_answer(joined(one, two))
    assert "slower with aes" in said
    assert "sm4" not in said


# -- backups ---------------------------------------------------------------------------------------


def backed_up(workload="backup"):
    """Backups of three arms, and what their processes did: (tidy table, stages)."""
    truth = {"none": 9.0e7, "aes": 9.0e7, "sm4": 9.9e7}
    values = {a: {"backup_size": v, "wall": 2.0} for a, v in truth.items()}
    t = tidy(workload, values, 2, "b")
    runs = t[(t["metric"] == "wall") & ~t["warmup"]]
    cpu = {"none": {}, "aes": {"openssl": 0.1}, "sm4": {"openssl": 1.0}}
    stages = pd.DataFrame(
        [
            {"run": r.run, "workload": workload, "threads": 2, "arm": r.arm, "stage": stage}
            | {"cpu_s": c * r.value / 2, "wall_s": 2.0, "runs": c / 2, "waits for input": 1 - c / 2}
            | {"read_B": 5e6}
            for r in runs.itertuples()
            for stage, c in ({"zstd": 1.2} | cpu[r.arm.removesuffix(" again")]).items()
        ]
    )
    return t, stages


def test_who_is_busy():
    t, stages = backed_up()
    found = backups.busy(stages, "backup", t).set_index(["arm", "stage"])
    row = found.loc[("sm4", "openssl")]
    assert row["cpu_s"] == pytest.approx(1.0, rel=1e-3)
    lo, hi = interval(row, "cpu_s")
    assert 0.97 < lo < 1 < hi < 1.03
    assert (row["runs"], row["read_MB"]) == (50, 5)
    assert ("none", "openssl") not in found.index
    assert "none again" not in found.index
    assert backups.busy(stages, "restore", t).empty
    assert backups.busy(stages, "backup", t, threads=1).empty
    assert backups.busy(pd.DataFrame(), "backup", t).empty
    assert "read_MB" not in backups.busy(stages.assign(read_B=np.nan), "backup", t)  # not known


def test_each_number_of_threads_has_its_own_bottleneck_and_several_backups_of_a_run_add_up():
    t, stages = backed_up()
    more = joined(stages, stages.assign(threads=1, cpu_s=3 * stages["cpu_s"]))
    by = {n: backups.busy(more, "backup", t, threads=n) for n in (0, 1, 2)}
    assert by[0].equals(by[2])  # the most
    for n, times in ((1, 3), (2, 1)):
        row = by[n].set_index(["arm", "stage"]).loc[("sm4", "openssl")]
        assert row["cpu_s"] == pytest.approx(times, rel=1e-3)
    twice = backups.busy(joined(stages, stages), "backup", t).set_index(["arm", "stage"])
    assert twice.loc[("sm4", "openssl"), "cpu_s"] == pytest.approx(2.0, rel=1e-3)
    assert twice.loc[("sm4", "openssl"), "runs"] == 50


def bars(ax):
    """{colour: where its bars begin and how long they are, from top to bottom}."""
    found = {}
    for bar in ax.patches:
        size = round(bar.get_x(), 2), round(bar.get_width(), 2)
        found.setdefault(to_hex(bar.get_facecolor()), []).append(size)
    return found


def test_what_each_process_does_is_drawn_in_seconds():
    t, stages = backed_up()
    busy = backups.busy(stages, "backup", t)
    figure = backups.processes_figure(busy)
    panels = {ax.get_title(loc="left"): ax for ax in figure.axes}
    assert list(panels) == ["none", "aes", "sm4"]
    runs, waits = backups.STATES["runs"], backups.STATES["waits for input"]
    assert bars(panels["none"]) == {runs: [(0, 1.2)], waits: [(1.2, 0.8)]}
    assert bars(panels["sm4"]) == {runs: [(0, 1.2), (0, 1)], waits: [(1.2, 0.8), (1, 1)]}
    labels = [label.get_text() for label in panels["sm4"].get_yticklabels()]
    assert labels == ["zstd: 1.20 s CPU", "openssl: 1.00 s CPU"]
    shown = plots.show(figure, alt="in words", data=busy, name="stages").markup
    assert shown.count("<svg") == 2  # for a phone, too
    assert "stages.csv" in shown
    assert "var(--nf-arm2" in shown
    assert "#ffffff" not in shown


def test_the_bottleneck_is_the_process_that_runs_the_largest_share():
    t, stages = backed_up()
    busy = backups.busy(stages, "backup", t)
    zstd = "busiest: zstd, 60\u202f%"
    assert backups.busiest(busy) == {"none": zstd, "aes": zstd, "sm4": zstd}
    slow = busy["arm"].eq("sm4") & busy["stage"].eq("openssl")
    other = busy.assign(runs=busy["runs"].mask(slow, 90))
    assert backups.busiest(other)["sm4"] == "busiest: openssl, 90\u202f%"
    texts = [note.get_text() for note in backups.processes_figure(other).axes[2].texts]
    assert "busiest: openssl, 90\u202f%" in texts
    assert backups.busiest(pd.DataFrame()) == {}


def speeds(*rows):
    """The fact `speed` of a campaign."""
    return pd.DataFrame(rows, columns=["arm", "direction", "B_per_s"])


def test_predicted_from_the_speed_in_memory():
    t, stages = backed_up()
    known = speeds(("aes", "backup", 9e8), ("sm4", "backup", 1.1e8), ("sm4", "restore", 1.1e8))
    found = backups.predicted(t, stages, known)
    assert found["arm"].tolist() == ["aes", "sm4"]
    row = found.set_index("arm").loc["sm4"]
    assert row["direction"] == "backup"  # nothing was restored
    assert row["archive_MB"] == pytest.approx(99)
    assert row["MB per s"] == 110
    assert (row["predicted_s"], row["measured_s"]) == pytest.approx((0.9, 1.0))
    size, both = (np.ptp(np.log(interval(row, k))) for k in ("archive_MB", "predicted_s"))
    assert both == pytest.approx(size)
    assert backups.predicted(t, stages, pd.DataFrame()).empty  # without a speed
    assert backups.predicted(t, pd.DataFrame(), known).empty


def test_the_size_is_that_of_the_restored_archive_where_it_is_known():
    t, stages = backed_up()
    back, undone = backed_up("restore")
    back.loc[back["metric"] == "backup_size", "value"] *= 2
    known = speeds(("aes", "restore", 9e8))
    found = backups.predicted(joined(t, back), joined(stages, undone), known)
    assert found["direction"].tolist() == ["restore"]
    assert found["archive_MB"].tolist() == pytest.approx([180])


def test_sizes_are_compared_in_pairs():
    t, _ = backed_up()
    none, aes, sm4 = backups.sizes(t, "none").to_dict("records")
    assert [x["arm"] for x in (none, aes, sm4)] == ["none", "aes", "sm4"]
    assert none["archives"] == 12
    assert np.isnan(none["above_pct"])
    assert aes["archive_MB"] == pytest.approx(90)
    assert sm4["above_pct"] == pytest.approx(10)
    assert sm4["above_pct lo"] > 0 > aes["above_pct lo"]


def test_first_line_of_the_backup_page():
    """Backup, restore, the archive of encrypted tables before what it costs, and the load beside it:
    each arm with what is known of it, at the most threads of the compressor."""
    tables = "none, encrypted tables"
    own = verdicts(
        ("backup", "wall", "aes", 1.0, -0.5, 1.9, "same"),
        ("backup", "wall", "sm4", 40.0, 35.0, 45.0, "slower"),
        ("backup", "user_sys", "sm4", 90.0, 80.0, 99.0, "more"),
        baseline="none",
    )
    single = verdicts(
        ("backup", "wall", "aes", 9.0, 8.0, 9.9, "slower"), baseline="none", threads=1
    )
    apart = verdicts(
        ("backup", "user_sys", tables, -20.0, -25.0, -15.0, "less"),
        ("backup", "backup_size", tables, 350.0, 340.0, 360.0, "larger"),
        baseline="none, copied tables",
        question="encrypted-tables",
    )
    load = ("oltp_read_write, 100 a second", "p99")
    beside = verdicts(
        (*load, "plain backup", 50.0, 40.0, 60.0, "slower"), baseline="no backup", question="beside"
    )
    said = backups.backup_answer(joined(single, own, apart, beside)).replace("\u202f", " ")
    assert said == (
        "Backup time: slower with sm4 (+40.0 %, +35.0 to +45.0 %); same with aes (+1.0 %, −0.5 to"
        f" +1.9 %). Archive of encrypted tables: larger with {tables} (4.5 times, 4.4 to 4.6 times)."
        f" Its processor time: less with {tables} (−20.0 %, −25.0 to −15.0 %). 99th percentile beside"
        " it: slower with plain backup (+50.0 %, +40.0 to +60.0 %)."
    )


def test_first_line_of_a_restore_alone():
    rows = [("restore", "wall", "aes", 2.0, -1.3, 4.1, "cannot tell")]
    said = backups.backup_answer(verdicts(*rows))
    known = "at most 4.1\u202f% slower, at most 1.3\u202f% faster"
    assert said == f"Restore time: cannot tell with aes ({known})."


def profiled(more, functions=("memcpy", "row_search", "other")):
    """Profiles and CPU of eight blocks: memcpy costs `more` us a transaction in one arm; all functions
    scatter by 1 %."""
    draw, shares, cpu = np.random.default_rng(2), [], []
    for block in range(8):
        for arm, extra in (("plain", 0.0), ("encrypted", more)):
            run, pair = f"{block}{arm}", f"p{block}"
            used = {f: draw.normal(100, 1) for f in functions}
            used["memcpy"] += extra
            whole = sum(used.values())
            key = {"run": run, "campaign": "c", "block": block, "pair_id": pair, "arm": arm}
            shares += [key | {"function": f, "share": us / whole} for f, us in used.items()]
            cpu.append({"run": run, "metric": "cpu_per_transaction", "value": whole / 1e6})
    return pd.DataFrame(shares), pd.DataFrame(cpu)


def test_functions_that_take_more_time_are_found_in_pairs():
    shares, cpu = profiled(30.0)
    found = binlog.grown(shares, cpu, "plain")
    row = found.set_index("function").loc["memcpy"]
    assert row["more_us lo"] < 30 < row["more_us hi"]
    assert found["function"].iloc[0] == "memcpy"
    assert row["plain, µs"] == pytest.approx(100, rel=0.02)
    assert binlog.grown(shares[:0], cpu, "plain").empty
    assert binlog.grown(shares[shares["block"] == 0], cpu, "plain").empty  # nothing to judge by
    assert binlog.grown(binlog.alike(shares, "plain"), cpu, "plain").empty  # no control
    said = binlog.functions_answer(shares, cpu, "plain")
    assert said == f"Of 3 functions {len(found)} differ between the arms."


def test_among_many_functions_the_share_of_false_ones_is_held():
    """Of 2,000 that do not differ 100 would by their own intervals."""
    many = ("memcpy", *(f"f{i}" for i in range(2000)))
    found = binlog.grown(*profiled(30.0, many), "plain")
    assert found["function"].tolist()[:1] == ["memcpy"]
    assert len(found) < 3
    assert binlog.grown(*profiled(0.0, many), "plain").empty


def test_functions_are_counted_beside_those_of_two_plain_runs():
    def asked(between_arms, between_plain, function):
        shares, cpu = profiled(between_arms)
        plain, its = profiled(between_plain)
        plain["arm"] = plain["arm"].replace("encrypted", "plain again")
        both = joined(shares, plain.assign(run="a" + plain["run"], pair_id="a" + plain["pair_id"]))
        both["function"] = both["function"].replace("memcpy", function)
        cpu = joined(cpu, its.assign(run="a" + its["run"]))
        more = len(binlog.grown(both, cpu, "plain"))
        same = len(binlog.grown(binlog.alike(both, "plain"), cpu, "plain"))
        said = binlog.functions_answer(both, cpu, "plain")
        counts = f"Of 3 functions {more} differ between the arms, {same} between two plain runs."
        assert said.startswith(counts)
        return more, same, said.removeprefix(counts).strip()

    more, _, keys = asked(30.0, 0.0, "EVP_BytesToKey")
    assert more
    assert keys == "More time goes to setting up a key for each transaction: EVP_BytesToKey."
    assert asked(30.0, 0.0, "row_search_mvcc")[2] == ""
    assert asked(-30.0, 0.0, "EVP_BytesToKey")[2] == ""  # it takes less
    assert asked(0.0, 30.0, "EVP_BytesToKey")[1]  # a world in which plain runs differ is seen
    assert binlog.functions_answer(pd.DataFrame(columns=["arm"]), pd.DataFrame(), "plain") == ""


@pytest.mark.parametrize(
    ("slow", "free", "said"),
    [
        (99.0, 900.0, "the slow disk hides the cost, or a part of it"),
        (90.0, 990.0, "the slow disk does not hide the cost"),
        (95.0, 951.0, "cannot tell whether the slow disk hides the cost"),
    ],
)
def test_whether_a_slow_disk_hides_the_cost_is_decided_by_both_effects(slow, free, said):
    disk = tidy("slow", of("tps", plain=100.0, encrypted=slow))
    none = tidy("free", of("tps", plain=1000.0, encrypted=free), wobble=0.005)
    both = joined(disk, none)
    effects = binlog.contrast(both, "plain", "encrypted", "slow", "free", ["tps"])
    (row,) = effects.to_dict("records")
    assert row["slow_pct"] == pytest.approx(slow - 100)
    assert row["apart_pct"] == pytest.approx(100 * (10 * slow / free - 1))
    assert binlog.hides(effects, "free") == f"{row['metric']}: {said}."
    alone = binlog.contrast(disk, "plain", "encrypted", "slow", "free", ["tps"])
    assert binlog.hides(alone, "free") == ""


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (221.0, ""),
        (250.3, ""),
        (180.2, "The plain server made 180 TPS, outside 200 to 250."),
        (1310.0, "The plain server made 1,310 TPS, outside 200 to 250."),
    ],
)
def test_a_disk_that_is_not_as_slow_as_the_page_says_is_told(made, said):
    slow = tidy("slow", of("tps", plain=made, encrypted=1.0))
    free = tidy("free", of("tps", plain=5000.0, encrypted=5000.0))
    assert binlog.outside(joined(slow, free), "plain", "slow") == said
    assert binlog.outside(free, "plain", "slow") == ""


@pytest.mark.parametrize(
    ("took", "said"),
    [(131.0, ""), (119.7, ""), (14.1, "Catching up took 14 s, less than two minutes.")],
)
def test_a_backlog_of_less_than_two_minutes_is_told(took, said):
    runs = pd.DataFrame({
        "workload": ["replica", "replica", "replica", "in memory"],
        "warmup": [True, False, False, False],
        "slice_s": [1.0, took - 0.3, took + 0.3, 3.0],
    })  # fmt: skip
    assert binlog.short(runs, "replica") == said
    assert binlog.short(runs[runs["workload"].eq("in memory")], "replica") == ""


def test_the_recorded_campaigns_of_a_slow_disk_and_of_replicas_say_what_they_reached():
    names = ("throttled-standard-20261126-040056", "replica-standard-20261125-120426")
    r = results.load(*(paths.campaign(f"binlog-encryption-{name}") for name in names))
    assert re.fullmatch(r"The plain server made 3\d TPS, .*", binlog.outside(r.tidy, "plain", "throttled disk"))  # fmt: skip
    assert re.fullmatch(r"Catching up took 2\d s, .*", binlog.short(r.runs, "replica"))


def test_each_version_with_its_defaults_is_told_from_both_arms():
    r = results.load(paths.campaign("version-upgrade-rate-standard-20261129-195403"))
    table = upgrade.with_defaults(r).set_index("metric")
    cpu = table.loc["Server CPU per transaction"]
    old, new = (
        r.of(metric="cpu_per_transaction").set_index("arm").loc[f"MySQL {name}, its defaults"]
        for name in ("8.0", "9.7")
    )
    ratio = (1 + new["change_pct"] / 100) / (1 + old["change_pct"] / 100)
    assert cpu["difference_pct"] == pytest.approx(100 * (ratio - 1))
    assert cpu["lo_pct"] < cpu["difference_pct"] < cpu["hi_pct"] < -10
    size, ends = (
        amounts.change(cpu["difference_pct"]),
        amounts.interval(cpu["lo_pct"], cpu["hi_pct"]),
    )
    said = f"With each version's own defaults, on Zen 1: {size} CPU ({ends})."
    assert upgrade.of_defaults(r) == said
    alone = results.load(paths.campaign("version-upgrade-headline-standard-20261125-022441"))
    assert upgrade.with_defaults(alone).empty
    assert upgrade.of_defaults(alone) == ""


# -- tablespaces: their price, and rows that stay readable -----------------------------------------


@pytest.fixture(scope="module")
def smoke():
    return results.Results(DATA / "campaign")


def test_the_price_in_cores_is_throughput_times_cpu(smoke):
    work = results.main_workload(smoke)
    (row,) = tablespaces.price(smoke, work).to_dict("records")
    cpu = smoke.of(work, "cpu_per_transaction", control=False).iloc[0]
    assert row["verdict"] == cpu["verdict"]
    assert 0 < row["baseline cores"] < 64
    share = row["more cores"] / row["baseline cores"]
    assert share == pytest.approx(cpu["change_pct"] / 100, abs=0.01)


def test_the_price_of_a_question_is_that_of_all_its_campaigns(smoke):
    """Not of the one that leads it, judged by itself."""
    work = results.main_workload(smoke)
    other = SimpleNamespace(
        study=SimpleNamespace(key="writes"), processor="P", judged=lambda *_: pd.DataFrame()
    )
    told = smoke.verdicts.assign(lo_pct=-50.0, verdict="provisional")
    page = results.Results(smoke.folder)
    vars(page).update(parts=(smoke, other), verdicts=told)
    (row,) = tablespaces.price(page, work).to_dict("records")
    assert row["verdict"] == "provisional"
    assert row["lo"] == pytest.approx(-0.5 * row["baseline cores"], abs=1e-3)


def test_what_everything_costs_is_told_where_it_was_measured(smoke):
    page = results.load(paths.campaign("tablespace-encryption-writes-standard-20261126-025128"))
    found = tablespaces.everything(page)
    assert set(found["workload"]) == {"read and write", "write only"}
    assert set(found["metric"]) == {"cpu_per_transaction"}
    said = report.headline_of(report.primary(found), brief=True)
    assert "ncrypting everything" in said
    assert tablespaces.everything(smoke).empty


def test_an_arm_that_leaves_nothing_readable_is_not_told(smoke):
    page = results.load(paths.campaign("tablespace-encryption-rate-standard-20261129-132930"))
    said = tablespaces.exposed(page)
    assert re.fullmatch(r"With tables only the rows can still be read in the [\w, ]+\.", said)
    assert all(place in said for place in ("binlog", "redo log", "undo log"))
    assert tablespaces.exposed(smoke).startswith("No arm")
