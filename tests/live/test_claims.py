import math
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import stats

from noisefloor import claims, paths
from noisefloor.show import plots
from noisefloor.stats import row as verdict_row
from noisefloor.stats import scatter, two

FACTS, TIMES = claims.facts(), claims.times()
START = scatter.Start(0.0073, 3)


def judged(margin_pct=2.0, facts=FACTS, times=TIMES, start=START):
    return claims.judge(facts, times, margin_pct, start)


VERDICTS = judged()


def row(study, label, verdicts=VERDICTS):
    kept = verdicts[(verdicts["study"] == study) & (verdicts["label"] == label)]
    assert len(kept) == 1, (study, label)
    return kept.iloc[0]


# facts


@pytest.mark.parametrize("path", sorted(paths.published().glob("*.csv")), ids=lambda p: p.stem)
def test_a_file_of_facts_is_tidy(path):
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert list(frame.columns) == claims.FACTS
    assert set(frame["source"]) == {path.stem}
    assert (frame[["where_in_source", "metric"]] != "").all(axis=None)
    # a number that is not there says that it is lost or not stated; a source without an address too
    empty = frame.loc[frame["value"] == "", "note"]
    assert empty.str.contains("lost in the copy|not stated").all()
    assert frame.loc[frame["url"] == "", "note"].str.contains("address").all()
    assert not frame.duplicated(["claim_id", "arm", "threads", "metric", "where_in_source", "note", "value"]).any()  # fmt: skip


def test_no_secret_came_along():
    for path in paths.published().rglob("*"):
        if path.is_file() and ".ruff_cache" not in path.parts:
            rows = path.suffix == ".parquet"
            text = str(pq.read_table(path).to_pylist()) if rows else path.read_text()
            assert not re.search(r"[0-9A-F]{32}|-pass |password=", text), path


def test_every_source_has_a_title_and_a_verdict():
    files = {p.stem for p in paths.published().glob("*.csv")}
    assert files == set(claims.TITLES) == set(VERDICTS["study"])
    named = set(FACTS["claim_id"].dropna())
    context = {"qps", "mean-latency", "upgrade-confounders", "cipher-cpu"}
    same_cipher = {n for n in named if n.endswith(("sm4-cbc", "baseline"))}
    assert named - set(VERDICTS["claim_id"]) - context - same_cipher == set()


def test_raw_time_outputs_agree_with_the_facts():
    for r in TIMES.itertuples():
        kept = FACTS[(FACTS["source"] == "backup-encryption") & (FACTS["arm"] == r.arm)]
        value = kept.set_index("metric")["value"]
        assert r.wall == pytest.approx(value[f"{r.phase}_real"])
        assert r.user_sys == pytest.approx(value[f"{r.phase}_user"] + value[f"{r.phase}_sys"])
    assert len(TIMES) == 8


# verdicts


def test_the_published_example():
    r = row("binlog-encryption", "TPS")
    assert r["verdict"] == "cannot tell"
    assert r["overhead_pct"] == pytest.approx(100 * (221.19 / 229.41 - 1))
    asked, _ = two.judge(221.19, 229.41, threads=4, seconds=300)
    for key in set(verdict_row.COLUMNS) - {"study", "workload", "baseline", "arm"}:
        same = pytest.approx(asked[key]) if isinstance(asked[key], float) else asked[key]
        assert r[key] == same, key
    assert r["known"].startswith("at most ")


def test_a_maximum_is_refused():
    r = row("binlog-encryption", "maximum latency")
    assert r["verdict"] == "cannot tell"
    assert r["overhead_pct"] == pytest.approx(15.5, abs=0.05)
    assert math.isnan(r["deciding_cv_pct"])
    assert math.isnan(r["runs_needed"])


def test_nine_percent_is_real_and_three_percent_is_not():
    disk = {1: (389.11, 423.47), 4: (1531.48, 1673.2), 16: (5583.04, 6055), 32: (8250.61, 8479.61)}
    memory = np.log(
        np.array([567.65, 2275.12, 8584.06, 13513.39, 19821.48, 19587.56, 19307.82, 18693.93,
                  18372.13, 18453.69, 18332.59])
        / np.array([578.91, 2289.13, 8304.1, 13324.02, 20007.22, 19613.82, 19254.68, 18694.05,
                    18431.97, 18571.43, 18509.73])
    )  # fmt: skip
    own = float(np.mean(memory**2))  # what is known to be zero, so 11 degrees of freedom
    start = 2 * START.cv**2
    error = math.sqrt(own + start)
    df = error**4 / (own**2 / 11 + start**2 / START.df)
    for threads, (encrypted, plain) in disk.items():
        r = row("tablespace-encryption", f"{threads} thread{'s' if threads > 1 else ''}")
        effect = math.log(plain / encrypted)
        assert r["p"] == pytest.approx(2 * stats.t.sf(effect / error, df))
        assert r["verdict"] == ("cannot tell" if threads == 32 else "slower")
        half = stats.t.ppf(1 - r["level"] / 2, df) * error
        assert r["lo_pct"] == pytest.approx(100 * math.expm1(effect - half), rel=1e-4)
        assert r["noise_floor_pct"] == pytest.approx(100 * math.expm1(half), rel=1e-4)
    assert row("tablespace-encryption", "1 to 16 threads together")["verdict"] == "slower"


def test_one_server_start_an_arm_cannot_show_that_arms_are_the_same():
    study, steady = "tablespace-encryption", judged(start=scatter.Start(0.001, 200))
    for label in ("64 to 2048 threads together", "all data in memory"):
        assert row(study, label)["verdict"] == "cannot tell"
        assert row(study, label, steady)["verdict"] == "same"


def test_one_cipher_under_two_names_is_the_floor_of_the_backups():
    gaps = [math.log(273.858 / 273.006), math.log(370.457 / 369.693)]
    error = math.sqrt(np.mean(np.square(gaps)))
    r = row("backup-encryption", "backup with aes-128-cbc, time")
    effect = math.log(180.913 / 171.668)
    half = stats.t.ppf(1 - r["level"] / 2, 2) * error
    assert r["level"] < 0.05  # four comparisons of the document's wall times are one family
    assert r["lo_pct"] == pytest.approx(100 * math.expm1(effect - half))
    assert r["hi_pct"] == pytest.approx(100 * math.expm1(effect + half))
    assert r["verdict"] == "slower"
    assert row("backup-encryption", "restore with aes-128-cbc, time")["verdict"] == "same"
    assert row("backup-encryption", "restore with aes-128-cbc, CPU time")["verdict"] == "slower"


@pytest.mark.parametrize(
    ("label", "base", "arm", "word"),
    [
        ("weak cipher, time", (1485.89, 1430.06, 1442.37), (1690.64, 1707.83, 1733.16), "slower"),
        ("strong cipher, time", (1485.89, 1430.06, 1442.37), (1724.23, 1794.05, 1830.62), "slower"),
        ("compression added, time", (1724.23, 1794.05, 1830.62), (1747.26, 1694.63, 1746.14), "cannot tell"),
    ],
)  # fmt: skip
def test_three_repetitions_are_judged_by_welch(label, base, arm, word):
    r = row("star-bnl", label)
    expected = stats.ttest_ind(np.log(arm), np.log(base), equal_var=False)
    interval = expected.confidence_interval(1 - r["level"])
    assert r["p"] == pytest.approx(expected.pvalue)
    assert r["lo_pct"] == pytest.approx(100 * math.expm1(interval.low), rel=1e-4)
    assert r["hi_pct"] == pytest.approx(100 * math.expm1(interval.high), rel=1e-4)
    assert r["verdict"] == word


SINGLE = ("binlog-encryption", "version-upgrade", "mdcallag-versions", "alibaba-tde")


def judged_with(cv_pct, folder, monkeypatch):
    """The verdicts if every one of 100 published groups of repeats scattered by cv_pct."""
    (folder / "scatter").mkdir()
    lines = [f"s,{m},,,5,{cv_pct}" for m in ("tps", "wall") for _ in range(100)]
    text = "\n".join(["source,metric,threads,seconds,n,cv_pct", *lines])
    (folder / "scatter" / "groups.csv").write_text(text if cv_pct else "")
    monkeypatch.setattr(paths, "published", lambda: folder)
    v = judged()
    return v, v[v["study"].isin(SINGLE) & v["claim_id"].ne("max-latency")]


@pytest.mark.parametrize(("cv_pct", "decided"), [(0.2, 10), (2, 6), (40, 0)])
def test_single_numbers_are_held_against_published_repeats(cv_pct, decided, tmp_path, monkeypatch):
    v, kept = judged_with(cv_pct, tmp_path, monkeypatch)
    assert len(kept) == 10
    assert (kept["verdict"] != "cannot tell").sum() == decided
    assert kept["floor_from"].str.startswith("reference population: 95th percentile of 100").all()
    assert (kept["known"] != "").eq(kept["verdict"] == "cannot tell").all()
    for warnings, word in zip(kept["warnings"], kept["verdict"], strict=True):
        assert (word == "cannot tell") != any(w.startswith("unless the server") for w in warnings)
    own = VERDICTS["study"].isin(["tablespace-encryption", "backup-encryption", "star-bnl"])
    assert (v["verdict"] == VERDICTS["verdict"])[own].all()  # what shows its own scatter stays


def test_without_published_repeats_single_numbers_cannot_be_told(tmp_path, monkeypatch):
    _, kept = judged_with(None, tmp_path, monkeypatch)
    assert set(kept["verdict"]) == {"cannot tell"}
    assert set(kept["floor_from"]) == {"none: one number an arm, no control"}
    assert kept["noise_floor_pct"].isna().all()
    assert kept["deciding_cv_pct"].gt(0).all()


def test_a_number_that_is_lost_is_no_verdict():
    assert row("ssl-connections", "over a long distance")["verdict"] == "cannot tell"
    tunnel = row("ssl-connections", "native, against an SSH tunnel")
    assert tunnel["verdict"] == "slower"
    assert tunnel["lo_pct"] > 100


def test_a_family_is_a_table_with_its_means_first():
    v = VERDICTS.set_index(["study", "label"])["level"]
    binlog, upgrade = v["binlog-encryption", "TPS"], v["version-upgrade", "4 cores"]
    assert binlog == upgrade == v["alibaba-tde", "low concurrency"] == 0.05
    ladder = VERDICTS[VERDICTS["study"] == "mdcallag-versions"].set_index("label")["level"]
    if row("mdcallag-versions", "5.6.51 to 9.7.0")["verdict"] == "cannot tell":
        assert ladder["5.6.51 to 9.7.0"] == 0.04
        assert ladder.drop("5.6.51 to 9.7.0").eq(0.0025).all()
    wall = VERDICTS[VERDICTS["study"].eq("star-bnl") & VERDICTS["metric"].eq("wall")]
    assert sorted(wall["level"]) == pytest.approx([0.05 / 3, 0.025, 0.05], abs=1e-5)  # Holm


def test_every_row_keeps_the_rules_of_a_verdict_table():
    v = VERDICTS
    assert set(v["verdict"]) <= {"slower", "faster", "same", "cannot tell"}
    assert list(v) == claims.COLUMNS
    told = v["lo_pct"].notna()
    assert told[v["verdict"] != "cannot tell"].all()
    inside = (v["same_lo_pct"] > -2 / 1.02) & (v["same_hi_pct"] < 2)
    assert (inside == (v["verdict"] == "same")).all()
    assert (v.loc[v["verdict"] == "slower", "lo_pct"] > 0).all()
    assert (v.loc[v["verdict"] == "faster", "hi_pct"] < 0).all()
    open_ = v[told & (v["verdict"] == "cannot tell")]
    assert (open_["lo_pct"] <= 0).all()
    assert (open_["hi_pct"] >= 0).all()
    assert (open_["known"] != "").all()
    assert (open_["runs_needed"] > open_[["n_baseline", "n_arm"]].max(axis=1)).all()
    differ = v[v["verdict"].isin(["slower", "faster"])]
    assert (differ["p"] <= differ["level"]).all()
    assert v["why"].ne("").all()
    assert v.loc[v["verdict"] == "cannot tell", "settle"].ne("").all()


def test_a_wider_margin_makes_no_difference_real():
    before = VERDICTS.set_index(["study", "label", "metric"])["verdict"]
    for margin in (0.5, 10):
        words = judged(margin).set_index(["study", "label", "metric"])["verdict"]
        for name, word in words.items():
            assert {word, before[name]} != {"slower", "faster"}
    assert (words == "same").sum() > (before == "same").sum()


def test_verdicts_come_from_the_files(tmp_path):
    """Another number in the folder of facts gives another verdict: nothing is written into code."""
    folder = shutil.copytree(paths.published(), tmp_path / "published")
    path = folder / "tablespace-encryption.csv"
    path.write_text(path.read_text().replace("8250.61", "7250.61"))
    v = judged(facts=claims.facts(folder), times=claims.times(folder))
    assert v.set_index("label")["verdict"]["32 threads"] == "slower"


# consistency, and the page


def test_numbers_that_are_one_measurement_agree():
    checks = claims.checks(FACTS, TIMES)
    little = checks[checks["check"].str.contains("mean latency")]
    assert len(little) == 2
    assert (abs(little["recomputed"] / little["stated"] - 1) < 0.001).all()
    queries = checks[checks["check"].str.contains("queries a transaction")]
    assert queries["recomputed"].tolist() == pytest.approx([20, 20], abs=0.001)
    by_hand = {
        "rise of the maximum latency, %": 15.524,
        "backup with aes-128-cbc, % longer": 5.385,
        "backup with sm4, % longer": 59.528,
        "restore with sm4, % longer": 37.967,
    }
    got = checks.set_index("check")["recomputed"]
    for check, value in by_hand.items():
        assert got[check] == pytest.approx(value, abs=0.001)


def test_lost_numbers_are_listed_not_filled_in():
    lost = claims.lost(FACTS)
    assert set(lost["source"]) >= {"version-upgrade", "ssl-connections", "binlog-encryption"}
    assert len(lost) == FACTS["printed"].isna().sum() > 10


def test_a_project_without_published_numbers_shows_its_own_alone(tmp_path):
    nothing = claims.facts(tmp_path)
    v = judged(facts=nothing, times=claims.times(tmp_path))
    assert list(v) == claims.COLUMNS
    assert len(v) == len(claims.beside(nothing)) == len(claims.across(v, "upgrade-16", [64])) == 0
    with pytest.raises(paths.NotFound, match="no published numbers are in"):
        claims.headline(v)


def test_the_headline_counts():
    counts = VERDICTS["verdict"].value_counts()
    text = claims.headline(VERDICTS)
    assert f"{len(VERDICTS)} comparisons from 9 published sources" in text
    assert f"for {counts['cannot tell']} of them" in text
    assert f"{counts['slower']} slower" in text
    assert claims.box(VERDICTS).markup.startswith('<section class="nf-verdict')
    assert "cannot tell, −3.6" in claims.findings(VERDICTS)[0]
    assert "It is at most " in claims.findings(VERDICTS)[0]


def test_each_source_can_be_shown_and_drawn():
    for source in claims.TITLES:
        shown = claims.shown(VERDICTS, source).markup
        kept = VERDICTS[VERDICTS["study"] == source]
        assert shown.count("<tr>") == len(kept) + 1
        for why in kept["why"]:
            assert why.split(",")[0].split("`")[0].split("'")[0] in shown
    figure = plots.claims(VERDICTS[VERDICTS["key"]])
    words = [t.get_text() for t in figure.axes[0].texts]
    drawn = VERDICTS[VERDICTS["key"] & VERDICTS["overhead_pct"].notna()]
    assert sum(w == "? cannot tell" for w in words) == (drawn["verdict"] == "cannot tell").sum()
    assert set(drawn["label"]) <= set(words)


def campaign_of(study, metric, arm, lo, hi, verdict):
    """An opened campaign with one comparison."""
    columns = ["metric", "arm", "joint", "overhead_pct", "lo_pct", "hi_pct", "verdict"]
    measured = pd.DataFrame([[metric, arm, True, (lo + hi) / 2, lo, hi, verdict]], columns=columns)
    study = SimpleNamespace(name=study, margin_pct=2.0)
    return SimpleNamespace(study=study, main="io-bound", of=lambda *_, **__: measured)


@pytest.mark.parametrize(
    ("lo", "hi", "verdict", "word"),
    [
        (3.9, 7.0, "slower", "holds here"),
        (-0.5, 1.5, "same", "holds here"),
        (9.5, 12.0, "slower", "does not hold here"),
        (-3.0, 4.0, "cannot tell", "cannot be told apart from that here"),
    ],
)
def test_up_to_nine_percent_is_a_limit_that_a_smaller_cost_keeps(lo, hi, verdict, word):
    r = campaign_of("tablespace-encryption", "tps", "tables only", lo, hi, verdict)
    said = claims.stands(r, "1 to 16 threads together", arm="tables only")
    assert f"up to 9 % penalty (1 to 16 threads together). That {word}: " in said


@pytest.mark.parametrize(
    ("lo", "hi", "verdict", "word"),
    [
        (500.0, 600.0, "slower", "holds here"),  # the nearest ends are 4.7 times apart
        (350.0, 400.0, "slower", "holds here"),
        (200.0, 300.0, "slower", "does not hold here"),
    ],
)
def test_ranges_are_a_limit_that_a_larger_cost_keeps(lo, hi, verdict, word):
    metric, label = "connections_per_second", "native, against an SSH tunnel"
    r = campaign_of("ssl-connections", metric, "TLS 1.3, RSA 4096", lo, hi, verdict)
    said = claims.stands(r, label, question="native", least=True)
    assert (
        f"100 or 22 connections a second, through a tunnel 470 to 480 ({label}). That {word}: "
        in said
    )
