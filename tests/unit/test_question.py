"""The result of a question: designs, processors, sittings, and what they say together."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from noisefloor import paths, studies
from noisefloor.data import design, question, results
from noisefloor.model import Request
from noisefloor.stats import rule
from noisefloor.stats.runs import BUCKET
from noisefloor.text import amounts

GOLDEN = json.loads(Path(__file__).with_name("fingerprints.json").read_text())
ZEN = {"vendor": "AuthenticAMD", "family": 23, "model": 1, "stepping": 2}
BINLOG = studies.load(Request("binlog-encryption", profile="standard"))


def recorded():
    """{name: campaign.json} of all recorded campaigns."""
    files = sorted(paths.recorded().glob("*/campaign.json"))
    return {f.parent.name: json.loads(f.read_text()) for f in files}


# -- designs ---------------------------------------------------------------------------------------


def test_no_renaming_orphans_a_recorded_campaign():
    """What these campaigns asked is written down: a changed fingerprint is a changed design, or a
    mistake of ours. A new campaign is added by running this file."""
    found = {name: design.fingerprint(design.design_of(meta)) for name, meta in recorded().items()}
    assert {n: f for n, f in found.items() if n in GOLDEN} == {
        n: f for n, f in GOLDEN.items() if n in found
    }
    assert found.keys() <= GOLDEN.keys(), "python tests/unit/test_question.py adds the new ones"


def test_a_design_is_what_is_compared_and_not_how_it_is_told():
    meta = recorded()["binlog-encryption-headline-standard-20261124-123039"]
    own = design.design_of(meta)
    told = meta | {"title": "x", "question": "y", "seed": 1, "plan": meta["plan"] | {"blocks": 12}}
    told["engines"] = {
        a: e | {"version": "9.7.99", "label": "MySQL 9.7.99"} for a, e in meta["engines"].items()
    }
    assert design.design_of(told) == own
    other = json.loads(json.dumps(meta))
    other["settings"]["innodb_buffer_pool_size"] = "1G"
    other["engines"] = {a: e | {"version": "9.8.0"} for a, e in meta["engines"].items()}
    differ = design.differences(design.design_of(other), own)
    assert "server, innodb_buffer_pool_size (1G, here 256M)" in differ
    assert any("series (mysql 9.8, here mysql 9.7)" in d for d in differ)


def test_a_campaign_of_an_unknown_fingerprint_is_left_out_and_says_why():
    """Nobody asks what it asked, or its design is no more."""
    rate, *odd = (
        "binlog-encryption-rate-standard-20261129-110654",
        "binlog-encryption-no-sync-standard-20261124-134051",
        "binlog-encryption-headline-standard-20261124-123039",
    )
    r = results.load(*map(paths.campaign, (rate, *odd)))
    assert [x.folder.name for x in r.every] == [rate]
    other, gone = r.left  # in the order of time
    assert gone == f"{odd[0]} answers a question that its study does not ask any more"
    assert other.startswith(f"{odd[1]} has another design: ")


def test_each_server_of_somebody_else_is_a_question_with_sittings_of_its_own():
    """Of a server elsewhere nothing but its name tells it from another one."""
    meta = recorded()["binlog-encryption-headline-standard-20261124-123039"]
    meta |= {"host": {"cpu": "a server elsewhere"}}
    one, two = (meta | {"engine": meta["engine"] | {"origin": f"guest {n}"}} for n in "12")
    differ = design.differences(design.design_of(one), design.design_of(two))
    assert differ == ["server (guest 1, here guest 2)"]
    assert "server" not in design.design_of(meta)
    assert len({design.sitting_key(m) for m in (one, two, meta)}) == 3


@pytest.mark.parametrize(
    ("host", "called"),
    [
        ({"cpu": "AMD EPYC", "processor": ZEN}, "AMD EPYC 23/1/2"),
        ({"cpu": "AMD EPYC"}, "AMD EPYC, model not recorded"),
        ({"cpu": "Intel(R) Xeon(R) Processor"}, "Intel Xeon, model not recorded"),
        ({"cpu": "", "processor": ZEN}, "AuthenticAMD 23/1/2"),
        ({"cpu": "", "processor": {}}, "processor not known, model not recorded"),
        ("a rented server", "a rented server"),
        (None, "processor not known"),
    ],
)
def test_what_a_processor_is_called(host, called):
    assert design.processor_name({"host": host}) == called


def test_a_sitting_is_one_boot_or_where_it_is_not_recorded_a_day():
    day = {"created": "2026-11-24T10:00:00", "host": {"cpu": "AMD EPYC"}}
    later, other = day | {"created": "2026-11-24T23:00:00"}, day | {"host": {"cpu": "x"}}
    assert design.sitting_key(day) == design.sitting_key(later) != design.sitting_key(other)
    boot = {"created": "2026-11-24T10:00:00", "host": {"cpu": "AMD EPYC", "boot": "b1"}}
    assert (
        design.sitting_key(boot)
        == design.sitting_key(boot | {"created": "2026-11-25T01:00:00"})
        == "b1"
    )


SINCE = "20261129"  # the first day of the designs that are collected now
ABANDONED = {
    "binlog-encryption-no-sync-standard-20261129-020037"
}  # a question that nobody asks now
FROZEN = [n for n in sorted(GOLDEN) if n.split("-")[-2] >= SINCE and n not in ABANDONED]


@pytest.mark.parametrize("name", FROZEN)
def test_the_design_of_a_question_is_that_of_its_first_campaign(name):
    """A change of a design throws its campaigns away."""
    r = results.Results(paths.campaign(name))
    assert design.differences(design.design_of(r.opened.meta), results.page._present(r)) == []


# -- together --------------------------------------------------------------------------------------


def table(change=0.05, half=0.01, *, arm="encrypted", threads=4, joint=False, blocks=10, **more):
    """A verdict table of one comparison of TPS, by its log change and the half of its interval."""
    ends = {c: 100 * math.expm1(x) for c, x in (
        ("change_pct", change), ("lo_pct", change - half), ("hi_pct", change + half))}  # fmt: skip
    row = {
        "study": "binlog-encryption", "workload": "in memory", "metric": "tps",
        "threads": pd.NA if joint else threads, "joint": joint, "baseline": "plain", "arm": arm,
        "n_baseline": 40, "n_arm": 40, "blocks": blocks, "margin_pct": 2.0, "verdict": "faster",
        "worse": False, "together": 1, "known": "", "warnings": [], "control": False,
        "runs_needed": math.nan, "minutes_needed": math.nan, "design": "switched",
    }  # fmt: skip
    found = pd.DataFrame([row | ends | more])
    found["threads"] = found["threads"].astype("Int64")
    return found


def together(*tables, asked=1, processor="AMD"):
    """The combined row of tables of one sitting each."""
    from dataclasses import replace

    named = [(str(n), t) for n, t in enumerate(tables)]
    return question.combined(named, replace(BINLOG, sittings=asked), processor)


@pytest.fixture
def known(monkeypatch):
    """known(tau): so much is known of the scatter between sittings, from twelve questions."""

    def tau(value, questions=12):
        entry = {"value": value, "df": 20.0, "questions": questions}
        monkeypatch.setattr(question, "taus", lambda: {"sysbench": {"tps": entry}})

    tau(0.0, questions=3)
    return tau


def test_one_sitting_of_a_question_that_asks_for_one_has_its_own_interval_and_word(known):
    (row,) = together(table()).to_dict("records")
    assert row["verdict"] == "faster"
    assert row["lo_pct"] == pytest.approx(100 * math.expm1(0.04))
    assert row["next_lo_pct"] < row["lo_pct"]  # the next one has an error of its own
    assert (row["sittings"], row["asked"], row["ranged"]) == (1, 1, False)


def test_the_next_percentile_is_expected_no_closer_than_half_a_bucket(known):
    """Fifty rows judged together: each interval is wider than the range of the next campaign."""
    halves = {}
    for metric in ("p99", "cpu_per_transaction"):
        (row,) = together(table(0.05, BUCKET / 2, metric=metric, together=50)).to_dict("records")
        lo, hi = (math.log1p(row[c] / 100) for c in ("next_lo_pct", "next_hi_pct"))
        assert (lo + hi) / 2 == pytest.approx(0.05)
        halves[metric] = (hi - lo) / 2
    assert halves["p99"] == pytest.approx(BUCKET / 2)
    assert halves["cpu_per_transaction"] < 0.7 * BUCKET / 2


def test_a_question_has_no_word_before_its_sittings_are_there(known):
    known(0.002)
    for n, word in ((1, "provisional"), (2, "provisional"), (3, "faster")):
        (row,) = together(*[table(0.05 + 0.001 * i) for i in range(n)], asked=3).to_dict("records")
        assert row["verdict"] == word
        assert (f"provisional, boot {n} of 3" in row["warnings"]) == (word == "provisional")
        assert not math.isnan(row["lo_pct"])


def test_without_a_pooled_scatter_several_sittings_are_a_range_and_no_word(known):
    (row,) = together(table(0.05), table(0.09)).to_dict("records")
    assert row["ranged"]
    assert row["verdict"] == "provisional"
    assert row["lo_pct"] == pytest.approx(100 * math.expm1(0.04))
    assert row["hi_pct"] == pytest.approx(100 * math.expm1(0.10))
    assert row["change_pct"] == pytest.approx(100 * math.expm1(0.07))
    assert row["warnings"][0].startswith("range of 2 boots")


def test_the_scatter_between_sittings_is_in_the_interval_from_the_first_one_on(known):
    (alone,) = together(table(0.05)).to_dict("records")
    known(0.05)
    (row,) = together(table(0.05)).to_dict("records")
    assert row["lo_pct"] < 0 < alone["lo_pct"]
    assert row["verdict"] == "cannot tell"


def test_campaigns_of_one_sitting_count_once(known):
    known(0.02)
    named = [("a", table(0.05)), ("a", table(0.05)), ("b", table(0.05))]
    found = question.combined(named, BINLOG, "AMD").iloc[0]
    assert (found["sittings"], found["n_arm"], found["blocks"]) == (2, 120, 30)
    both = question.combined([named[0], named[2]], BINLOG, "AMD").iloc[0]
    width = found["hi_pct"] - found["lo_pct"]
    assert width == pytest.approx(both["hi_pct"] - both["lo_pct"], rel=0.25)


def test_what_is_known_is_of_all_sittings_and_nobody_says_how_many_runs_they_need(known):
    known(0.002)
    needs = {"verdict": "cannot tell", "runs_needed": 90, "minutes_needed": 9.0}
    assert together(table(0.01, 0.05, **needs)).iloc[0]["runs_needed"] == 90
    row = together(table(-0.03, 0.03), table(0.03, 0.03, known="its own", **needs)).iloc[0]
    assert row["verdict"] == "cannot tell"
    assert row["known"] == amounts.ascii_only(amounts.bounds(row["lo_pct"], row["hi_pct"], "tps"))
    assert np.isnan([row["runs_needed"], row["minutes_needed"]]).all()


def test_campaigns_of_one_start_of_a_guest_are_no_surer_than_one(known):
    """Its start moves all of them alike."""
    ends = ["change_pct", "lo_pct", "hi_pct"]
    one, five, ours = (
        question.combined([(sitting, table())] * n, BINLOG, "AMD").iloc[0][ends].tolist()
        for sitting, n in (("guest 1 boot", 1), ("guest 1 boot", 5), ("boot", 5))
    )
    assert five == pytest.approx(one)
    assert ours[2] - ours[1] < (one[2] - one[1]) / 2


def test_a_joint_row_stays_where_every_campaign_has_one_and_the_control_is_the_newest(known):
    whole = pd.concat([table(), table(joint=True)], ignore_index=True)
    control = table(0.3, arm="plain again", control=True)
    newest = pd.concat([whole, control], ignore_index=True)
    both = together(newest, newest)
    assert both["joint"].tolist() == [False, True, False]
    assert both["sittings"].tolist() == [2, 2, 1]
    assert together(table(), newest)["joint"].tolist() == [False, False]


@pytest.mark.parametrize("last", [False, True])
def test_a_campaign_of_one_block_is_left_out_beside_others(known, last):
    whole = pd.concat([table(), table(joint=True)], ignore_index=True)
    stub = table(lo_pct=math.nan, hi_pct=math.nan)
    found = together(*([whole, stub] if last else [stub, whole]), asked=3)
    assert found["joint"].tolist() == [False, True]
    assert found["sittings"].tolist() == [1, 1]
    assert together(stub)["sittings"].tolist() == [1]


def test_a_joint_row_goes_where_thread_counts_lie_on_opposite_sides_of_zero_together(known):
    """In no campaign by itself they do."""
    known(0.0)

    def campaign(high, low, arm="encrypted"):
        counts = (table(high, threads=1, arm=arm), table(low, threads=4, arm=arm))
        return pd.concat([*counts, table(0.0, joint=True, arm=arm)], ignore_index=True)

    apart = campaign(0.009, -0.009)
    assert (apart["lo_pct"].lt(0) & apart["hi_pct"].gt(0)).all()
    alike = campaign(0.009, 0.009, arm="another")
    both = together(*4 * [pd.concat([apart, alike], ignore_index=True)])
    assert both["joint"].groupby(both["arm"]).sum().to_dict() == {"another": 1, "encrypted": 0}
    first, second = both[both["arm"].eq("encrypted")].to_dict("records")
    assert second["hi_pct"] < 0 < first["lo_pct"]


def test_a_row_that_carries_no_word_gets_none_of_all_sittings(known):
    one, two = (together(*n * [table(verdict="")], asked=3).iloc[0] for n in (1, 2))
    known(0.002)
    three = together(*3 * [table(verdict="")], asked=3).iloc[0]
    for n, row in enumerate((one, two, three), 1):
        assert (row["verdict"], row["worse"], row["sittings"]) == ("", False, n)
        assert row["lo_pct"] > 0
        assert "provisional" not in " ".join(row["warnings"])
    assert two["warnings"][0].startswith("range of 2 boots")


def test_a_row_without_an_interval_stays_without_one(known):
    (row,) = together(table(half=math.nan, blocks=1, verdict="cannot tell")).to_dict("records")
    assert math.isnan(row["lo_pct"])
    assert row["verdict"] == "cannot tell"


def test_the_variance_of_a_row_is_the_one_behind_its_interval():
    units = np.random.default_rng(2).normal(0.03, 0.02, 10)
    for many in (1, 4):
        mean, _, hi = rule.block_interval(units, together=many)
        row = table(float(mean), float(hi - mean), together=many).iloc[0]
        found = question.campaign(row)
        assert found is not None
        assert (found.effect, found.variance) == pytest.approx((mean, units.var(ddof=1) / 10))
        assert found.df == 9


if __name__ == "__main__":  # adds the fingerprints of new campaigns
    new = {
        n: design.fingerprint(design.design_of(m)) for n, m in recorded().items() if n not in GOLDEN
    }
    text = json.dumps(GOLDEN | new, indent=1, sort_keys=True)
    Path(__file__).with_name("fingerprints.json").write_text(text + "\n")
