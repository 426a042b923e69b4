"""Tables and first lines, from small frames whose answers can be worked out by hand."""

import pandas as pd
import pytest

from noisefloor import findings


def test_round_trips_are_fitted_and_checked():
    far = pd.DataFrame(
        [
            {
                "kind": kind,
                "distance_ms": ms,
                "rtt_s": ms / 1e3,
                "connect_s": (work + trips * ms) / 1e3,
            }
            for kind, trips, work in (("plain", 3, 0.5), ("TLS", 5, 3.0))
            for ms in (0, 40, 170)
        ]
    )
    found = findings.round_trips(far).set_index("kind")
    assert found["round trips"].to_dict() == {"plain": 3.0, "TLS": 5.0}
    assert found["work_ms"].to_dict() == {"plain": 0.5, "TLS": 3.0}
    assert found["off_pct"].abs().max() == 0
    assert found.loc["TLS", "per_s_at_100_ms"] == pytest.approx(1 / 0.503, abs=0.01)
    far.loc[far["distance_ms"] == 170, "connect_s"] *= 2
    assert findings.round_trips(far)["off_pct"].tolist() == [-50.0, -50.0]


@pytest.mark.parametrize("far", [[], [{"skipped": "no namespaces here"}]])
def test_no_distance_no_round_trips(far):
    assert findings.round_trips(pd.DataFrame(far)).empty


def tidy(*rows):
    columns = ["workload", "arm", "threads", "metric", "value"]
    return pd.DataFrame(rows, columns=columns).assign(warmup=False)


@pytest.mark.parametrize(
    ("rate", "under_5", "under_1"),
    [(1000, "40", "299"), (990, "51", "never"), (900, "never", "never")],
)
def test_break_even(rate, under_5, under_1):
    """A connection costs 1 ms, with TLS 2 + 1.05; a query 1 ms at one thread, with TLS 1/rate."""
    t = tidy(
        ("100 connections", "plain", 1, "connect_time", 1e-3),
        ("100 connections", "TLS", 1, "connect_time", 4.0e-3),
        ("pooled", "plain", 1, "tps", 1000.0),
        ("pooled", "TLS", 1, "tps", float(rate)),
    )
    (row,) = findings.break_even(t, "TLS", "plain").to_dict("records")
    assert row["counted in"] == "time"
    n5, n1 = row["under 5 %"], row["under 1 %"]
    for said, limit in ((n5, 0.05), (n1, 0.01)):
        if (
            said != "never"
        ):  # by definition: at that many the cost is under the limit, not at one less
            n = int(said.replace(",", ""))
            cost = [(4 + k * 1000 / rate) / (1 + k) - 1 for k in (n - 1, n)]
            assert cost[0] > limit >= cost[1] - 1e-9
    assert (n5 == "never") == (under_5 == "never")
    assert (n1 == "never") == (under_1 == "never")


STAGES = pd.DataFrame(
    [
        {
            "run": r,
            "workload": "backup",
            "arm": a,
            "stage": s,
            "cpu_s": c,
            "wall_s": 2.0,
            "runs": c / 2,
        }
        for a, ssl in (("none", 0), ("aes", 0.1), ("sm4", 1.0))
        for r in ("1", "2", "3")
        for s, c in (("copy", 0.4), ("zstd", 1.2), ("openssl", ssl))
        if c
    ]
)


def test_who_is_busy():
    found = findings.busy(STAGES, "backup").set_index(["arm", "stage"])
    assert found.loc[("sm4", "openssl"), "cpu_s"] == 1.0
    assert found.loc[("sm4", "openssl"), "runs"] == 50
    assert ("none", "openssl") not in found.index


def test_predicted_from_speed():
    speed = pd.DataFrame([{"arm": "sm4", "direction": "backup", "bytes_per_s": 1e8}])
    size = tidy(("backup", "sm4", 2, "backup_size", 9e7))
    (row,) = findings.predicted(STAGES, size, speed).to_dict("records")
    assert (row["predicted_s"], row["measured_s"], row["archive_MB"]) == (0.9, 1.0, 90)


def test_sizes():
    t = tidy(
        *(("backup", "none", 2, "backup_size", v * 1e6) for v in (10, 10.2)),
        ("backup", "none again", 2, "backup_size", 10.1e6),
        ("backup", "aes", 2, "backup_size", 10.201e6),
    )
    none, aes = findings.sizes(t, "none").to_dict("records")
    assert (none["archives"], none["MB"], none["smallest"], none["largest"]) == (3, 10.1, 10, 10.2)
    assert aes["above the baseline, %"] == 1.0


def test_first_line_of_the_backup_page():
    verdicts = pd.DataFrame(
        [
            {"workload": "backup", "metric": "wall", "arm": a, "overhead_pct": o, "verdict": v}
            for a, o, v in (
                ("aes", 1.0, "same"),
                ("sm4", 40.0, "slower"),
                ("masked", 130.0, "slower"),
                ("chacha20", 1.0, "cannot tell"),
            )
        ]
    ).assign(control=False, joint=False, lo_pct=-1.3, hi_pct=4.1)
    said = findings.backup_answer(verdicts, STAGES)
    assert said.startswith(
        "Backup time: slower with sm4 (+40.0\u202f%), masked (2.3 times slower); same with aes "
        "(+1.0\u202f%); cannot tell with chacha20 (at most 4.1\u202f% slower, at most 1.3\u202f% "
        "faster). Who pays"
    )
    assert "1.00 s of CPU a backup with sm4, beside 1.20 s of zstd" in said
    assert said.endswith("Cheapest: aes, 10.0 times less of it.")


def test_first_line_of_the_connections_page():
    rows = [
        ("100 connections", arm, 1, metric, value)
        for arm, ms in (
            ("plain TCP", 0.25),
            ("plain TCP again", 0.1),  # the control is no way to make a connection cheaper
            ("TLS 1.3, RSA 2048", 2.0),
            ("TLS 1.3, P-256", 1.5),
        )
        for metric, value in (
            ("connections_per_second", 1e3 / ms),
            ("connect_time", ms / 1e3),
            ("cpu_per_connection", ms / 2e3),
            ("client_cpu_per_connection", ms / 4e3),
        )
    ]
    said = findings.connection_answer(tidy(*rows), "plain TCP", pd.DataFrame(), pd.DataFrame())
    assert "TLS 1.3, RSA 2048 takes 8.0 times as long as plain TCP (2.00 against 0.25 ms)" in said
    assert said.endswith("What makes it cheaper: TLS 1.3, P-256 (6.0 times).")
