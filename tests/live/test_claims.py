import copy
import math
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import stats

from analysis import published, published_figures, upgrade
from noisefloor import claims, paths
from noisefloor.model import METRICS
from noisefloor.stats import row as verdict_row
from noisefloor.stats import scatter, two, verdict
from noisefloor.text import amounts
from noisefloor.text.reasons import Why, has

FACTS, TIMES = claims.published_facts(), claims.times()
START = scatter.Start(0.0073, 3)


def judged(margin_pct=0.0, facts=FACTS, times=TIMES, start=START):
    return claims.judge_claims(facts, times, margin_pct, start)


VERDICTS = judged()


def row(study, label, verdicts=VERDICTS):
    kept = verdicts[(verdicts["study"] == study) & (verdicts["label"] == label)]
    assert len(kept) == 1, (study, label)
    return kept.iloc[0]


# facts


@pytest.mark.parametrize("path", sorted(paths.published().glob("*.csv")), ids=lambda p: p.stem)
def test_a_file_of_facts_is_tidy(path):
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert list(frame.columns) == claims.judged.FACTS
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
    assert r["change_pct"] == pytest.approx(100 * (229.41 / 221.19 - 1))
    asked = verdict_row.as_dict(two.judge_two(221.19, 229.41, threads=4, seconds=300)[0])
    for key in set(verdict_row.COLUMNS) - {"study", "workload", "baseline", "arm"}:
        same = (
            pytest.approx(asked[key], nan_ok=True) if isinstance(asked[key], float) else asked[key]
        )
        assert r[key] == same, key
    assert r["known"].startswith("at most ")
    assert 0.1 < r["chance"] < 0.3


@pytest.mark.parametrize(
    ("study", "label", "change", "reason"),
    [
        ("binlog-encryption", "maximum latency", 15.5, "a maximum is one transaction"),
        ("version-upgrade", "32 cores", 100, "hearsay"),
        ("alibaba-tde", "low concurrency", -20, "a bound is no number"),
        ("alibaba-tde", "high concurrency", -5, "a bound is no number"),
        ("ssl-connections", "over a long distance", math.nan, "both tables are lost"),
    ],
)
def test_what_is_no_evidence_is_refused_with_its_reason(study, label, change, reason):
    r = row(study, label)
    assert r["verdict"] == "cannot tell"
    assert r["change_pct"] == pytest.approx(change, abs=0.05, nan_ok=True)
    assert r["warnings"][0].startswith(reason)
    assert pd.isna(r[["lo_pct", "hi_pct", "chance", "runs_needed", "minutes_needed"]]).all()
    assert r["together"] == 1


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
        effect = math.log(encrypted / plain)
        assert r["verdict"] == ("cannot tell" if threads == 32 else "slower")
        half = stats.t.ppf(1 - 0.05 / 11 / 2, df) * error  # eleven thread counts together
        assert r["lo_pct"] == pytest.approx(100 * math.expm1(effect - half), rel=1e-4)
        assert r["hi_pct"] == pytest.approx(100 * math.expm1(effect + half), rel=1e-4)
    assert row("tablespace-encryption", "1 to 16 threads together")["verdict"] == "slower"


def test_one_server_start_an_arm_cannot_show_that_arms_are_the_same():
    study, steady = "tablespace-encryption", judged(start=scatter.Start(0.001, 200))
    for label in ("64 to 2048 threads together", "all data in memory"):
        r = row(study, label)
        assert (r["verdict"], r["restarted"]) == ("cannot tell", "same")
        assert -2 < r["restarted_lo_pct"] < r["restarted_hi_pct"] < 2
        assert row(study, label, steady)["verdict"] == "same"
        assert row(study, label, steady)["restarted"] == ""
        assert f"{label}: same, " in claims.claims_table(VERDICTS, study).markup


def test_one_cipher_under_two_names_is_the_floor_of_the_backups():
    gaps = [math.log(273.858 / 273.006), math.log(370.457 / 369.693)]
    error = math.sqrt(np.mean(np.square(gaps)))
    r = row("backup-encryption", "backup with aes-128-cbc, time")
    effect = math.log(180.913 / 171.668)
    half = stats.t.ppf(1 - 0.05 / 4 / 2, 2) * error  # four wall times of the document together
    assert r["lo_pct"] == pytest.approx(100 * math.expm1(effect - half))
    assert r["hi_pct"] == pytest.approx(100 * math.expm1(effect + half))
    assert r["verdict"] == "slower"
    restore = math.log(270.357 / 268.512)
    ends = [100 * math.expm1(restore + sign * half) for sign in (-1, 1)]
    r = row("backup-encryption", "restore with aes-128-cbc, time")
    assert r[["lo_pct", "hi_pct"]].tolist() == pytest.approx(ends)
    assert ends[1] > 2  # beyond the margin
    assert r["verdict"] == "cannot tell"
    assert row("backup-encryption", "restore with aes-128-cbc, CPU time")["verdict"] == "more"


USED = {  # user + sys of each run, s
    "TLS off": (561.777 + 159.042, 556.853 + 159.315, 559.709 + 158.053),
    "TLS weak": (622.817 + 203.822, 699.388 + 202.783, 701.501 + 199.549),
    "TLS strong": (713.456 + 199.420, 714.638 + 212.304, 715.786 + 203.253),
}


@pytest.mark.parametrize(
    ("label", "base", "arm", "word"),
    [
        ("weak cipher, time", (1485.89, 1430.06, 1442.37), (1690.64, 1707.83, 1733.16), "slower"),
        ("strong cipher, time", (1485.89, 1430.06, 1442.37), (1724.23, 1794.05, 1830.62), "slower"),
        ("compression added, time", (1724.23, 1794.05, 1830.62), (1747.26, 1694.63, 1746.14), "cannot tell"),
        ("weak cipher, CPU time", USED["TLS off"], USED["TLS weak"], "cannot tell"),
        ("strong cipher, CPU time", USED["TLS off"], USED["TLS strong"], "more"),
    ],
)  # fmt: skip
def test_three_repetitions_are_judged_by_welch(label, base, arm, word):
    r = row("star-bnl", label)
    expected = stats.ttest_ind(np.log(arm), np.log(base), equal_var=False)
    interval = expected.confidence_interval(1 - 0.05 / 3)  # three comparisons together
    assert r["lo_pct"] == pytest.approx(100 * math.expm1(interval.low), rel=1e-4)
    assert r["hi_pct"] == pytest.approx(100 * math.expm1(interval.high), rel=1e-4)
    assert r["verdict"] == word


def singles(v):
    """Rows of one number an arm, of which nothing shows the scatter."""
    single = v["study"].isin(["binlog-encryption", "version-upgrade", "mdcallag-versions"])
    return v[single & v["scatter_from"].ne("none: no numbers") & v["metric"].ne("max_latency")]


@pytest.mark.parametrize(("times_wider", "decided"), [(0.05, 7), (1, 2), (20, 0)])
def test_single_numbers_are_held_against_published_repeats(times_wider, decided, monkeypatch):
    fits = copy.deepcopy(scatter.fits())
    for fit in (fit for lengths in fits["fits"].values() for fit in lengths.values()):
        fit["log_ratios"] = [times_wider * x for x in fit["log_ratios"]]
    monkeypatch.setattr(scatter, "fits", lambda: fits)
    v = judged()
    kept = singles(v)
    assert len(kept) == 7
    assert (kept["verdict"] != "cannot tell").sum() == decided
    assert kept["scatter_from"].str.match(r"\d+ groups of repeats of \d+ sources, median CV ").all()
    assert (kept["known"] != "").eq(kept["verdict"] == "cannot tell").all()
    own = VERDICTS["study"].isin(["tablespace-encryption", "backup-encryption", "star-bnl"])
    assert (v["verdict"] == VERDICTS["verdict"])[own].all()  # what shows its own scatter stays


def test_the_chance_of_a_single_number_is_that_of_two_unchanged_servers():
    kept = singles(VERDICTS)
    assert kept["chance"].between(0, 1, inclusive="neither").all()
    assert VERDICTS.drop(kept.index)["chance"].isna().all()
    assert (kept["chance"] < 0.05)[kept["verdict"] != "cannot tell"].all()
    text = claims.claims_table(VERDICTS, "binlog-encryption").markup
    assert "how often two runs of the same, unchanged server differ by as much" in text
    assert "about one time in five" in text


def test_without_published_repeats_single_numbers_cannot_be_told(monkeypatch):
    monkeypatch.setattr(scatter, "prediction", lambda *_: None)
    kept = singles(judged())
    assert set(kept["verdict"]) == {"cannot tell"}
    assert set(kept["scatter_from"]) == {"none: one number an arm, no control"}
    assert kept[["lo_pct", "hi_pct", "chance"]].isna().all(axis=None)


def test_a_number_far_beyond_what_is_predicted_has_its_word():
    tunnel = row("ssl-connections", "native, against an SSH tunnel")
    assert tunnel["verdict"] == "slower"
    assert tunnel["change_pct"] == pytest.approx(100 * (100 / 470 - 1))  # the nearest ends
    assert tunnel["hi_pct"] < -50


def test_the_rows_of_a_table_hold_95_percent_together():
    named = VERDICTS["label"].str.endswith("together") | VERDICTS["label"].eq("all data in memory")
    assert (VERDICTS["joint"] == named).all()
    refused = VERDICTS["lo_pct"].isna()
    sizes = (
        VERDICTS[~refused]
        .groupby(["study", "metric", "joint"])["together"]
        .agg(["min", "max", "size"])
    )
    assert sizes["min"].eq(sizes["size"]).all()
    assert sizes["max"].eq(sizes["size"]).all()
    assert sizes["size"].to_dict()["tablespace-encryption", "tps", False] == 11
    assert sizes["size"].to_dict()["tablespace-encryption", "tps", True] == 3
    assert sizes["size"].to_dict()["binlog-encryption", "tps", False] == 1
    for source in claims.TITLES:
        text, kept = (
            claims.claims_table(VERDICTS, source).markup,
            VERDICTS[VERDICTS["study"] == source],
        )
        several = sorted({n for n in kept["together"] if n > 1})
        said = "Intervals: 95 %" + " and".join(f" for {n} rows together" for n in several) + "."
        assert (said in text) == kept["lo_pct"].notna().any()


def test_every_row_keeps_the_rules_of_a_verdict_table():
    v = VERDICTS
    assert list(v) == claims.judged.COLUMNS
    for r in v.to_dict("records"):
        metric = r["metric"]
        margin = METRICS[metric].margin_pct if metric in METRICS else 2.0
        lo, hi = (math.log1p(r[end] / 100) for end in ("lo_pct", "hi_pct"))
        assert r["margin_pct"] == margin
        assert r["verdict"] == verdict.word(lo, hi, math.log1p(margin / 100), metric)
        assert r["worse"] == verdict.worse(r["verdict"], metric)
    assert set(v["verdict"]) == {"slower", "faster", "more", "less", "same", "cannot tell"}
    open_ = v[v["lo_pct"].notna() & (v["verdict"] == "cannot tell")]
    assert (open_["known"] != "").all()
    more = open_["runs_needed"] > open_[["n_baseline", "n_arm"]].max(axis=1)
    assert (more | open_["minutes_needed"].ge(20)).all()
    assert open_["settle"].str[:1].str.isdigit().all()
    assert v["why"].ne("").all()
    assert v.loc[v["verdict"] == "cannot tell", "settle"].ne("").all()
    assert v.loc[v["verdict"] != "cannot tell", "settle"].eq("").all()


def test_a_wider_margin_makes_no_difference_real():
    before = VERDICTS.set_index(["study", "label", "metric"])["verdict"]
    for margin in (0.5, 10):
        words = judged(margin).set_index(["study", "label", "metric"])["verdict"]
        for name, word in words.items():
            less, more = (word, before[name]) if margin < 1 else (before[name], word)
            assert more in (less, "same")  # margins of 1 to 5 % before
    assert (words == "same").sum() > (before == "same").sum()


def test_verdicts_come_from_the_files(tmp_path):
    """Another number in the folder of facts gives another verdict: nothing is written into code."""
    folder = shutil.copytree(paths.published(), tmp_path / "published")
    path = folder / "tablespace-encryption.csv"
    path.write_text(path.read_text().replace("8250.61", "7250.61"))
    v = judged(facts=claims.published_facts(folder), times=claims.times(folder))
    assert v.set_index("label")["verdict"]["32 threads"] == "slower"


def test_the_claims_of_one_source_are_judged_as_among_all():
    for source in claims.TITLES:
        alone = claims.judge_claims(FACTS, TIMES, 0.0, START, study=source)
        among = VERDICTS[VERDICTS["study"] == source].reset_index(drop=True)
        pd.testing.assert_frame_equal(alone, among, check_dtype=False)


# consistency, and the page


def test_numbers_that_are_one_measurement_agree():
    checks = published.checks(FACTS, TIMES)
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
    lost = published.lost(FACTS)
    assert set(lost["source"]) >= {"version-upgrade", "ssl-connections", "binlog-encryption"}
    assert len(lost) == FACTS["printed"].isna().sum() > 10


def test_a_project_without_published_numbers_shows_its_own_alone(tmp_path):
    nothing = claims.published_facts(tmp_path)
    v = judged(facts=nothing, times=claims.times(tmp_path))
    assert list(v) == claims.judged.COLUMNS
    assert (
        len(v)
        == len(claims.published_by_threads(nothing))
        == len(upgrade.across(v, "upgrade-16", [64]))
        == 0
    )
    with pytest.raises(paths.NotFound, match="no published numbers are in"):
        published.headline(v)


def test_the_headline_counts_and_says_how_large_of_which_metric():
    counts = VERDICTS["verdict"].value_counts()
    worse, better = counts["slower"] + counts["more"], counts["faster"] + counts["less"]
    assert amounts.ascii_only(published.headline(VERDICTS)) == (
        f"{len(VERDICTS)} comparisons from 9 sources: {worse} worse than without the change, "
        f"{better} better, {counts['same']} same, {counts['cannot tell']} cannot tell. "
        "Worst: 4.7 times fewer connections a second (native TLS against ssh tunnel), "
        "+59.3 % time (backup with sm4). Best: 2.3 times the TPS (Thread pool at 512 threads)."
    )
    none = VERDICTS[VERDICTS["verdict"].eq("cannot tell")]
    assert published.headline(none).endswith(f": {len(none)} cannot tell.")


def test_a_row_of_the_figure_names_its_metric_once():
    names = set(published.drawn(VERDICTS)["label"])
    assert {"TPS", "1 to 16 threads together, TPS", "backup with aes-128-cbc, time"} <= names
    assert {"5.6.51 to 9.7.0, QPS", "native, against an SSH tunnel, connections a second"} <= names


def test_the_page_begins_with_one_answer_and_tells_the_others_below():
    shown = published.box(VERDICTS).markup
    assert shown.startswith('<section class="nf-verdict')
    said = " ".join(re.sub("<[^>]+>", " ", shown).split())
    for words in (published.headline(VERDICTS), f"What to do: {published.ADVICE}."):
        assert " ".join(words.split()) in said
    assert "nf-sign" not in shown  # no sign: the sentences have the words
    known = [claims.of_itself(r) for r in VERDICTS.to_dict("records")]
    agree, bare = known.count("agrees"), known.count("not comparable")
    assert agree + bare + known.count("–") == len(VERDICTS)
    below = published.others(VERDICTS).markup
    assert f"numbers that they rest on: {agree} agree, {bare} not comparable." in below
    said = f"Which published claims are more than noise? {said}"
    assert len([word for word in said.split() if re.search(r"\w", word)]) <= 90, said
    findings = [*map(amounts.ascii_only, published.findings(VERDICTS))]
    first, maximum, tablespace, backup, versions = findings
    assert first.startswith(
        "Binary log, unencrypted 221.19 TPS, encrypted 229.41: cannot tell, +3.7 %. Two runs"
    )
    assert "differ by at least that much about one time in five" in first
    assert first.partition(" %")[0] in amounts.ascii_only(shown)
    assert "in maximum latency is no evidence" in maximum
    assert "if the server was restarted between the runs" in tablespace
    assert "more, +7.8" in backup
    assert "each slower than the one before, -36.9 % from 5.6.51 to 9.7.0" in versions
    below = amounts.ascii_only(published.others(VERDICTS).markup)
    assert [f for f in findings if f in below] == findings[1:]


def test_versions_in_falling_order_are_not_nothing():
    """No pair of neighbours can be told; the order of five can: two of its 120 are so steady."""
    found, said = claims.trend(FACTS, "mdcallag-versions")
    assert found.p == pytest.approx(2 / math.factorial(5))
    assert found.tau == pytest.approx(-1)
    assert "about one time in 60" in said
    assert said in claims.claims_table(VERDICTS, "mdcallag-versions").text + str(
        claims.claims_table(VERDICTS, "mdcallag-versions").markup
    )
    swapped = FACTS.copy()
    here = swapped["arm"].eq("8.0.45") & swapped["source"].eq("mdcallag-versions")
    swapped.loc[here, "value"] = 30_000
    found, said = claims.trend(swapped, "mdcallag-versions")
    assert not found.decided
    assert said.startswith("no order can be told, ")
    assert claims.trend(FACTS, "star-bnl") == (None, "")


def test_what_a_source_says_and_what_its_numbers_say_stand_in_one_unit():
    for each in VERDICTS.to_dict("records"):
        sizes = [told for told in claims._sizes(each).values() if told != "–"]
        assert len({"times" in told for told in sizes}) <= 1, each["label"]
    up_to, ratio, null = (
        claims._sizes(row("tablespace-encryption", label))
        for label in ("1 to 16 threads together", "1 thread", "64 to 2048 threads together")
    )
    assert amounts.ascii_only(up_to["that is"]) == "at most -9.0 %"  # "up to 9 % penalty"
    assert amounts.ascii_only(ratio["that is"]) == "-8.3 %"  # "ratio 1.09"
    assert null["that is"] == "no change"  # a claim, too
    assert amounts.ascii_only(up_to["change"]) == "-8.1 % TPS"
    time = claims._sizes(row("backup-encryption", "backup with aes-128-cbc, time"))
    assert amounts.ascii_only(time["change"]) == "+5.4 % time"
    tunnel = claims._sizes(row("ssl-connections", "native, against an SSH tunnel"))
    assert tunnel["change"] == "4.7 times slower (connections a second)"
    lost = claims._sizes(row("ssl-connections", "over a long distance"))
    assert set(lost.values()) == {"–"}


@pytest.mark.parametrize(
    ("study", "label", "word"),
    [
        ("binlog-encryption", "TPS", "agrees"),
        ("binlog-encryption", "maximum latency", "not comparable"),
        ("tablespace-encryption", "1 to 16 threads together", "agrees"),
        ("tablespace-encryption", "64 to 2048 threads together", "agrees"),
        ("backup-encryption", "size of the backup", "agrees"),
        ("star-bnl", "weak cipher, time", "–"),
        ("version-upgrade", "32 cores", "not comparable"),
    ],
)
def test_a_claim_is_held_against_its_own_numbers(study, label, word):
    assert claims.of_itself(row(study, label)) == word


def test_a_claim_that_is_not_what_the_numbers_say_disagrees():
    told = dict(row("backup-encryption", "backup with sm4, time")) | {"claimed_pct": 40.0}
    assert claims.of_itself(told) == "disagrees"


def test_each_source_can_be_shown_and_drawn():
    for source in claims.TITLES:
        shown = claims.claims_table(VERDICTS, source).markup
        kept = VERDICTS[VERDICTS["study"] == source]
        assert shown.count("<tr>") == len(kept) + 1
        for why in kept["why"]:
            assert why.split(",")[0].split("`")[0].split("'")[0] in shown
    figure = published_figures.claims(VERDICTS[VERDICTS["key"]])
    words = [t.get_text() for t in figure.axes[0].texts]
    assert any(
        w.startswith("a dot in or without a grey bar may be chance; hollow: ") for w in words
    )
    ticks = figure.axes[0].xaxis.get_major_ticks()
    assert all(
        t.label2.get_visible() for t in ticks
    )  # above: the first screen ends before the foot
    drawn = VERDICTS[VERDICTS["key"] & VERDICTS["change_pct"].notna()]
    assert sum(w == "? cannot tell" for w in words) == (drawn["verdict"] == "cannot tell").sum()
    assert set(drawn["label"]) <= set(words)


def campaign_of(study, metric, arm, *rows):
    """An opened campaign with one comparison: its joint row on processors A, B, …; a row is (lo, hi,
    verdict) and what differs from that of a question that is answered."""
    made = []
    for processor, (lo, hi, word, more) in zip("AB", rows, strict=False):
        made.append({
            "question": "headline", "workload": "one", "metric": metric, "baseline": "none",
            "arm": arm, "threads": pd.NA, "joint": True, "processor": processor, "verdict": word,
            "change_pct": (lo + hi) / 2, "lo_pct": lo, "hi_pct": hi, "next_lo_pct": math.nan,
            "next_hi_pct": math.nan, "warnings": [], "ranged": False, **more,
        })  # fmt: skip
    measured = pd.DataFrame(made)
    workloads = (SimpleNamespace(name="one"),)
    study = SimpleNamespace(name=study, margin_pct=0.0, key="", workloads=workloads)
    lead = measured[measured["processor"] == "A"]
    parts = (SimpleNamespace(study=study),)
    return SimpleNamespace(study=study, verdicts=measured, of=lambda *_, **__: lead, parts=parts)


HOLDS, BREAKS, SO_FAR = "Agrees:", "Disagrees:", "Agrees so far:"


@pytest.mark.parametrize(
    ("lo", "hi", "verdict", "word"),
    [
        (-7.0, -3.9, "slower", HOLDS),
        (-1.5, 0.5, "same", HOLDS),
        (-12.0, -9.5, "slower", BREAKS),
        (-4.0, 3.0, "cannot tell", HOLDS),
        (2.5, 4.0, "faster", BREAKS),
    ],
)
def test_up_to_nine_percent_is_a_limit_that_a_smaller_change_keeps(lo, hi, verdict, word):
    r = campaign_of("tablespace-encryption", "tps", "tables only", (lo, hi, verdict, {}))
    said = amounts.ascii_only(claims.stands(r, "1 to 16 threads together", arm="tables only"))
    label = "1 to 16 threads together; that is at most -9.0 %"
    assert f"up to 9 % penalty ({label}). {word} " in said


def test_tls_against_a_tunnel_is_not_compared_with_tls_against_plain_tcp():
    """Which is all that a page has whose tunnels were skipped."""
    rows = (-85.7, -83.3, "slower", {"baseline": "plain TCP"})
    r = campaign_of("ssl-connections", "connections_per_second", "TLS 1.3, RSA 4096", rows)
    why = "theirs is a maximum"
    said = claims.stands(r, "native, against an SSH tunnel", arm="TLS 1.3, RSA 4096")
    assert said == f"A blog (MySQL 5.6): TLS 22-100/s, SSH 470-480/s. Not comparable: {why}."


NEXT = {"next_lo_pct": 4.0, "next_hi_pct": 9.0}
EARLY = {
    "warnings": ["provisional, boot 1 of 3"],
    "sittings": 1,
    "asked": 3,
    "ranged": False,
}
EXPECTED = "a repeat should give +4.0 to +9.0 %"


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        ([(5.5, 7.5, "slower", {})], f"{BREAKS} here +6.5 % (+5.5 to +7.5 %)."),
        ([(5.5, 7.5, "slower", NEXT)], f"{HOLDS} {EXPECTED}."),
        (
            [(5.5, 7.5, "slower", NEXT), (3.0, 7.0, "slower", {})],
            f"{HOLDS} {EXPECTED} on A; here +5.0 % (+3.0 to +7.0 %) on B.",
        ),
        (
            [(5.5, 7.5, "slower", {}), (1.0, 7.0, "provisional", EARLY)],
            f"{BREAKS} here +6.5 % (+5.5 to +7.5 %) on A. {SO_FAR} here +4.0 % (+1.0 to +7.0 %) on B.",
        ),
    ],
)
def test_a_claim_is_held_against_every_processor_and_what_comes_next(rows, answer):
    r = campaign_of("backup-encryption", "wall", "aes-128-cbc", *rows)
    label = "backup with aes-128-cbc, time"
    said = amounts.ascii_only(claims.stands(r, label, arm="aes-128-cbc"))
    assert said == f"A blog (innobackupex): 5.23 % longer (backup with aes-128-cbc). {answer}"


@pytest.mark.parametrize(
    ("ends", "verdict", "ahead", "word"),
    [
        ((-1.5, 0.5), "same", {}, HOLDS),
        ((0.3, 0.9), "same", {}, BREAKS),  # as on the page of the claims: 0 lies beyond
        ((-4.0, 3.0), "cannot tell", {}, HOLDS),
        ((-9.0, -4.0), "slower", {}, BREAKS),
        ((-3.0, -0.5), "slower", {}, BREAKS),
        ((-3.0, -0.5), "slower", {"next_lo_pct": -4.0, "next_hi_pct": 0.5}, HOLDS),
        ((0.3, 0.9), "provisional", {}, "Disagrees so far:"),
    ],
)
def test_that_there_is_no_difference_is_a_claim(ends, verdict, ahead, word):
    r = campaign_of("tablespace-encryption", "tps", "tables only", (*ends, verdict, ahead))
    said = claims.stands(r, "64 to 2048 threads together", arm="tables only")
    assert f"(64 to 2048 threads together; that is no change). {word} " in said
    numbers = {"claimed_pct": 0.0, "limit": "", "lo_pct": ends[0], "hi_pct": ends[1]}
    assert ahead or word.lower().startswith(claims.of_itself(numbers))  # one rule on both pages


def test_another_version_is_not_comparable_and_says_why():
    r = campaign_of("version-upgrade", "tps", "9.7", (-3.0, -1.0, "slower", {}))
    said = amounts.ascii_only(claims.stands(r, "4 cores", arm="9.7"))
    why = "other versions, cores, thread pool"
    assert said == f"A blog (MySQL 8.0.42, 8.4.5): about 16 % faster. Not comparable: {why}."


def at(threads, lo, hi, verdict):
    """A row of one thread count, as `campaign_of` takes it."""
    return (lo, hi, verdict, {"joint": False, "threads": threads})


def counted(*rows, of=("tablespace-encryption", "tps", "tables only")):
    """An opened campaign with a row for each thread count."""
    each = [campaign_of(*of, row) for row in rows]
    first = each[0]
    first.verdicts = pd.concat([r.verdicts for r in each], ignore_index=True)
    first.of = lambda *_, **__: first.verdicts
    return first


def test_a_claim_about_thread_counts_is_held_against_these():
    r = counted(
        at(4, -7.0, -4.0, "slower"), at(64, -0.5, 0.5, "same"), at(128, -3.0, -2.1, "slower")
    )
    low, high = (
        amounts.ascii_only(claims.stands(r, label, arm="tables only"))
        for label in ("1 to 16 threads together", "64 to 2048 threads together")
    )
    assert low.endswith(f"{HOLDS} here -5.5 % (-7.0 to -4.0 %).")
    assert f"{HOLDS} here 0.0 % (-0.5 to +0.5 %) at 64 threads." in high
    assert high.endswith(f"{BREAKS} here -2.5 % (-3.0 to -2.1 %) at 128 threads.")
    r = counted(at(4, -7.0, -4.0, "slower"))
    beyond = claims.stands(r, "64 to 2048 threads together", arm="tables only")
    why = "full load not measured here"
    assert beyond == f"A blog (Percona 8.0): no difference. Not comparable: {why}."
    assert claims.stands(r, "a claim of nobody", arm="tables only") == ""


@pytest.mark.parametrize(
    ("of", "label"),
    [
        (("backup-encryption", "wall", "aes-128-cbc"), "backup with aes-128-cbc, time"),
        (("binlog-encryption", "tps", "encrypted"), "TPS"),
    ],
)
def test_a_source_with_four_threads_is_held_against_four(of, label):
    joint = (20.0, 30.0, "slower", {})
    r = counted(at(1, 8.0, 9.0, "slower"), at(4, -1.0, 6.0, "cannot tell"), joint, of=of)
    said = amounts.ascii_only(claims.stands(r, label))
    assert said.endswith(f"). {HOLDS} here +2.5 % (-1.0 to +6.0 %).")


def test_thread_counts_that_have_no_joint_row_are_told_as_a_range():
    each = {"joint": False, "threads": 4}
    r = campaign_of("tablespace-encryption", "tps", "on", (-3.0, 1.0, "cannot tell", each))
    more = r.verdicts.assign(threads=16, change_pct=2.0, lo_pct=1.0, hi_pct=3.0, verdict="faster")
    r.verdicts = pd.concat([r.verdicts, more], ignore_index=True)
    label = "all data in memory"
    said = amounts.ascii_only(claims.stands(r, label, claimed=0.0))
    assert said == (
        f"A blog (Percona 8.0): no difference ({label}; that is no change). {HOLDS} here -1.0 % "
        f"(-3.0 to +1.0 %) at 4 threads. {BREAKS} here +2.0 % (+1.0 to +3.0 %) at 16 threads."
    )


def test_what_the_caption_says_of_scatter_is_not_said_again():
    hidden = Why.UNLESS_STARTS_SCATTER, Why.RESTARTS_UNKNOWN, Why.PREDICTED
    assert any(has(warnings, *hidden) for warnings in VERDICTS["warnings"])
    for _, kept in VERDICTS.groupby("study"):
        lines = claims.reasons(kept)
        assert not [
            x for x in lines if x.startswith(("Holds unless", "Nothing says that the server"))
        ]
