"""The calibration: its own arithmetic, what it proves, and the rivals' failures.

The full one is recorded under data/raw/recorded; `make test` runs a small one."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import stats as scipy_stats

from noisefloor import calibration, paths, plots, results, study
from noisefloor.calibration import figures, live, page, rivals, truth
from noisefloor.cli import main
from noisefloor.stats import scatter, synthetic

DATA = Path(__file__).parent / "data" / "aa-mysql97"
KINDS = list(itertools.product(truth.SCATTERS, synthetic.PAIRS, synthetic.NOISES, synthetic.DEPENDENCES, synthetic.DRIFTS))  # fmt: skip


# --- the recorded figures ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded():
    return calibration.load()


def test_the_recorded_figures_are_those_of_the_rule_as_it_is(recorded):
    facts = recorded.figures["facts"]
    assert facts["rule"] == truth.fingerprint(), "run `noisefloor calibrate` and commit its figures"
    assert facts["campaigns"] >= 10_000
    assert facts["full"]


def test_the_recorded_cells_are_the_full_cross_product(recorded):
    for cells, scatters in ((recorded.at_zero, 2), (recorded.at_margin, 2)):
        kinds = list(cells[truth.KEY[:5]].itertuples(index=False, name=None))
        assert sorted(kinds) == sorted(KINDS * scatters)
        assert (cells["n"] >= 10_000).all()
    assert set(recorded.cells["block_cv"]) == {0.0, 0.01, 0.02}
    families = recorded.figures["families"]
    kinds = set(families[truth.KEY[1:5]].itertuples(index=False, name=None))
    assert kinds == {kind[1:] for kind in KINDS}
    assert families.groupby(["design", "drift"]).size().nunique() == 1


def test_error_rates_hold_in_every_recorded_cell(recorded):
    goals = recorded.goals.set_index("goal")["reached"]
    for name in (
        "False slower or faster, every cell",
        "The same in a family: 4 thread counts and their joint effect",
        "False same at the margin, every cell",
        "Interval holds the truth where the campaign ended, every cell",
        "Pairs for 80 % right words at a pair sd of 2 %",
        "Pairs for 80 % right words at a pair sd of 4 %",
        "Files: equal arms are the same, 10 runs an arm",
        "Every mutant of the rule fails",
    ):
        assert goals[name] == "yes", name


def test_goals_compare_what_they_say(recorded):
    row = recorded.at_zero.loc[recorded.at_zero["false_alarm_pct"].idxmax()]
    goal = recorded.goals.iloc[0]
    assert goal["measured"].endswith(f"worst {100 * row['wrong'] / row['n']:.1f} %")
    high = scipy_stats.binomtest(int(row["wrong"]), int(row["n"])).proportion_ci(0.95).high
    assert goal["bound"].endswith(f" to {100 * high:.1f} %")
    prices = recorded.goals[recorded.goals["goal"].str.startswith("Pairs for")]
    for g in prices.itertuples():
        found = map(float, g.measured.split(" / "))
        limits = map(float, g.limit.removeprefix("at most ").split(" / "))
        held = all(a <= b for a, b in zip(found, limits, strict=True))
        assert held == (g.reached == "yes")


@pytest.mark.parametrize(
    ("counts", "reached"),
    [
        ([500] * 9, "yes"),
        ([510] * 9, "no"),  # the median
        ([450] * 8 + [580], "no"),  # the lower bound of 99.9 %
        ([450] * 8 + [565], "yes"),
    ],
)
def test_an_error_rate_is_held_by_its_median_and_by_both_bounds(counts, reached):
    frame = pd.DataFrame({"wrong": counts, "n": 10_000})
    goal = page._rate_goal("g", frame, "wrong", lambda row: "here")
    assert goal["reached"] == reached
    few = page._rate_goal("g", frame.assign(wrong=14, n=300), "wrong", lambda row: "here")
    assert few["reached"] == "no"  # 14 of 300 may be 7 % and more
    low = scipy_stats.binomtest(max(counts), 10_000).proportion_ci(0.998).low
    assert goal["bound"].startswith(f"{100 * low:.1f} %")


def test_missed_goals_of_files_and_of_the_interval_are_seen(recorded):
    files = recorded.figures["files"]
    worse = files.assign(slower=files["slower"] - 2000 * (files["effect"] > 0))
    c = page.Calibration(recorded.figures | {"files": worse})
    goals = c.goals.set_index("goal")["reached"]
    assert set(goals[goals.index.str.startswith("Files: 5 % slower")]) == {"no"}
    cells = recorded.figures["cells"]
    narrow = cells.assign(covered=cells["covered"].where(cells.index > 0, 9300))
    c = page.Calibration(recorded.figures | {"cells": narrow})
    held = c.goals.set_index("goal").loc["Interval holds the truth where the campaign ended, every cell"]  # fmt: skip
    assert held["reached"] == "no"
    assert held["measured"].startswith("93.0 %")


def test_headline_and_box_name_every_missed_goal(recorded):
    missed = recorded.goals[recorded.goals["reached"] == "no"]
    assert f"misses {len(missed)} of" in recorded.headline or missed.empty
    for goal in missed["goal"]:
        assert goal in recorded.box.markup


# --- a small calibration ----------------------------------------------------------------------------


def test_the_command_runs_a_small_calibration_and_writes_nothing(tmp_path, monkeypatch):
    before = {p: p.stat().st_mtime_ns for p in calibration.recorded().iterdir()}
    done = CliRunner().invoke(main, ["calibrate", "--small", "--seed", "2", "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout[done.stdout.index("{") :])
    assert said["seed"] == 2
    assert said["cells"] == 2 * len(truth.grid(25)) > 60
    rates = [g for g in said["goals"] if g["goal"].startswith("False")]
    assert len(rates) == 2
    for goal in rates:  # 1,000 campaigns a cell: three standard errors of room
        assert float(goal["measured"].split()[-2]) < 7.2
    assert {g["reached"] for g in said["goals"]} <= {"yes", "no", "not measured"}
    assert {p: p.stat().st_mtime_ns for p in calibration.recorded().iterdir()} == before


def test_figures_come_back_from_disk_and_do_not_depend_on_the_number_of_processes(tmp_path):
    one, two = (truth.measure(seed=3, n=40, step=200, workers=w) for w in (1, 2))
    for name in truth.FILES:
        pd.testing.assert_frame_equal(one[name], two[name])
    truth.write(one, tmp_path)
    back = truth.read(tmp_path)
    assert back["facts"] == one["facts"]
    for name in truth.FILES:
        pd.testing.assert_frame_equal(back[name], one[name], check_dtype=False, rtol=1e-5)


def test_fingerprint_sees_code_and_not_comments(monkeypatch):
    source = truth.inspect.getsource
    whole = truth.fingerprint()
    monkeypatch.setattr(truth.inspect, "getsource", lambda m: source(m) + "\n# a remark\n")
    assert truth.fingerprint() == whole
    monkeypatch.setattr(truth.inspect, "getsource", lambda m: source(m).replace("0.05", "0.06"))
    assert truth.fingerprint() != whole


def test_the_price_is_the_smallest_number_with_enough_right_words():
    row = truth._price({"sd_pct": 2.0, "truth_pct": 4.0}, 2000, [1])[0]
    assert row["pairs"] == 6  # five blocks are too few for the flips at the last look
    assert row["right"] >= 0.8 * 2000
    assert row["pairs_in_blocks"] == 12
    assert row["right_at_blocks"] == row["slower_at_blocks"]
    equal = truth._price({"sd_pct": 2.0, "truth_pct": 1.0}, 500, [1])[0]
    assert equal["right_at_blocks"] == equal["slower_at_blocks"] + equal["same_at_blocks"]


@pytest.mark.parametrize("holds", [{7, 8, 9, 10, 11, 12}, {5, 7, 8, 9, 10, 11, 12}, {12}, set()])
def test_the_smallest_number_that_holds(holds):
    found = truth._smallest(lambda k: k in holds, 12)
    assert found == min(holds) if holds else math.isnan(found)


# --- rivals -----------------------------------------------------------------------------------------


def test_pyperf_calls_single_runs_significant():
    assert rivals.pyperf([18.0], [18.0])
    assert rivals.pyperf([221.19], [229.41])


@pytest.mark.parametrize("seed", range(5))
def test_pyperf_is_the_pooled_t_test(seed):
    a, b = np.random.default_rng(seed).normal([[10], [11]], 1, (2, 8))
    assert rivals.pyperf(a, b) == (scipy_stats.ttest_ind(a, b).pvalue <= 0.05)


def test_hyperfine_calls_ten_percent_almost_the_same():
    a, b = [1.00, 1.12, 0.93], [1.10, 1.21, 1.04]  # 10 % apart, three runs each
    assert rivals.welch(a, b) > 0.05
    assert rivals.hyperfine(a, b) == "almost the same"


def test_benchstat_needs_four_samples_and_says_so():
    p, warning = rivals.benchstat([1.0, 1.1, 1.2], [2.0, 2.1, 2.2])
    assert p == 1
    assert "4 samples" in warning
    p, warning = rivals.benchstat([1.0, 1.1, 1.2, 1.3], [2.0, 2.1, 2.2, 2.3])
    assert p == pytest.approx(2 / 70)  # exact: 2 of the 70 orders
    assert not warning


@pytest.fixture(scope="module")
def on_noise():
    given = {"noise": "normal", "dependence": "iid", "drift": "linear"}
    rows = rivals.synthetic_rates(given, [1, 1], 1500)
    return pd.DataFrame(rows).set_index(["rival", "order"])


@pytest.mark.parametrize(
    ("rival", "order", "least"),
    [
        ("rows as replicates (Welch)", "one run an arm", 0.5),
        ("Welch on runs, hyperfine", "all A, then all B", 0.4),
        ("benchstat", "all A, then all B", 0.4),
        ("pyperf compare", "all A, then all B", 0.4),
        ("t-test after every pair (peeking)", "in pairs", 0.2),
    ],
)
def test_rivals_fail_where_ours_holds(on_noise, rival, order, least):
    assert on_noise.loc[(rival, order), "lo"] > least
    assert on_noise.loc[(rivals.OURS, "in pairs"), "lo"] < 0.05


def real(name, metric):
    """(runs, rows per second) of a recorded session of two identical servers."""
    runs = pd.read_csv(DATA / f"{name}.csv").sort_values("start_unix").reset_index(drop=True)
    value = {
        "tps": runs["transactions"] / runs["seconds"],
        "cpu": runs["server_cpu_s"] / runs["transactions"],
    }[metric]
    rows = pd.read_csv(DATA / "rows.csv").query("session == @name")
    at = dict(zip(runs["file"], runs.index, strict=True))
    rows = pd.DataFrame({"run": rows["file"].map(at), "value": rows["tps"]})
    return runs.assign(value=value), rows if metric == "tps" else None


@pytest.mark.parametrize(("name", "unit"), [("one-start", "pair"), ("blocks", "block")])
@pytest.mark.parametrize("metric", ["tps", "cpu"])
def test_rivals_on_two_identical_servers(name, unit, metric):
    found = pd.DataFrame(rivals.on_files(*real(name, metric), unit=unit))
    found = found.set_index(["rival", "order"])
    if metric == "tps":
        assert found.loc[("rows as replicates (Welch)", "one run an arm"), "lo"] > 0.05
    assert found.loc[("t-test after every pair (peeking)", "in pairs"), "lo"] > 0.15
    for tool in rivals.TESTS:
        assert found.loc[(tool, "all A, then all B"), "value"] > 0.2
    assert found.loc[(rivals.OURS, "in pairs"), "lo"] < 0.05


# --- live campaigns, built with a known truth ------------------------------------------------------


def campaign(name, effects, *, sd=0.01, block_sd=0.0, blocks=20, size=5, seconds=6.0, seed=1):
    """A Results of study `name` whose arms have exactly these true log overheads {arm: {metric: L}}."""
    rng = np.random.default_rng(seed)
    chosen = study.load(name, profile="standard")
    rows, runs, clock = [], [], pd.Timestamp("2026-01-01T00:00:00+00:00")
    for arm, by_metric in effects.items():
        for pair in range(blocks * size):
            block = pair // size
            if pair % size == 0:
                jump = {m: rng.normal(0, block_sd) for m in by_metric}
            key = {
                "study": name, "campaign": "c", "workload": "read/write", "threads": 4,
                "block": block, "pair": pair, "pair_id": f"{arm}-{pair}", "warmup": False,
            }  # fmt: skip
            for position, who in enumerate((chosen.baseline.name, arm)):
                run = f"{arm}-{pair}-{position}"
                clock += pd.Timedelta(seconds=seconds / 2)
                runs.append(key | {"run": run, "arm": who, "start": clock.isoformat(), "slice_s": 3, "warnings": ""})  # fmt: skip
                for metric, effect in by_metric.items():
                    worse = (effect + jump[metric]) * position + rng.normal(0, sd / math.sqrt(2))
                    sign = -1 if metric == "tps" else 1
                    rows.append(key | {"position": position, "arm": who, "metric": metric, "value": math.exp(sign * worse), "unit": "", "run": run})  # fmt: skip
    tidy = pd.DataFrame(rows).astype({"threads": "Int64"})
    tidy.attrs = {"design": chosen.design, "problems": []}
    out = results.Results(Path(f"{name}-built"))
    meta = {"engine": {"label": "MySQL 9.7.4"}, "host": {"cpu": "a CPU", "cores": 2}}
    vars(out).update(study=chosen, tidy=tidy, runs=pd.DataFrame(runs), meta=meta)
    return out


def slowdowns(name, metrics=live.METRICS, ratio=0.6, keep=None, **more):
    """The injected campaign in which 50 % (nominal) really cost `ratio`."""
    arms = [a for a in study.load(name, profile="standard").arms if keep is None or a.name in keep]
    heaviest = 4350
    return campaign(
        name,
        {
            a.name: {m: math.log1p(ratio * live._rounds(a) / heaviest) for m in metrics}
            for a in arms
        },
        **more,
    )


def identical(**more):
    return campaign("calibration-aa", {"other server": {m: 0.0 for m in live.METRICS}}, **more)


@pytest.mark.parametrize("start_cv", [0.0, 0.01, 0.03])
def test_a_mixed_model_finds_the_same_scatter_of_starts(start_cv):
    rng = np.random.default_rng(4)
    block = np.repeat(np.arange(40), 4)
    d = rng.normal(0, math.sqrt(2) * start_cv, 40)[block] + rng.normal(0, 0.02, 160)
    ours = live.start_to_start(d, block, draws=1000)["cv_pct"]
    assert live.mixed(d, block) == pytest.approx(ours, abs=0.15)


@pytest.mark.parametrize(("start_cv", "sd"), [(0.0, 0.03), (0.01, 0.02), (0.02, 0.01)])
def test_start_to_start_interval_holds_the_truth(start_cv, sd):
    rng = np.random.default_rng(7)
    block = np.repeat(np.arange(25), 5)
    found = []
    for i in range(150):
        jumps = rng.normal(0, math.sqrt(2) * start_cv, 25)
        d = rng.normal(0, sd, 125) + jumps[block]
        found.append(live.start_to_start(d, block, draws=4000, seed=i))
    frame = pd.DataFrame(found)
    held = (frame["lo_pct"] <= 100 * start_cv) & (100 * start_cv <= frame["hi_pct"])
    assert held.mean() > 0.91
    assert (frame["upper_pct"] >= 100 * start_cv).mean() > 0.9
    assert (frame["cv_pct"] ** 2).mean() ** 0.5 == pytest.approx(100 * start_cv, abs=0.4)
    if not start_cv:
        assert (frame["p"] < 0.05).mean() < 0.12


def test_one_block_says_nothing_about_starts():
    with pytest.raises(live.TooShort, match="2 blocks"):
        live.start_to_start(np.ones(6), np.zeros(6))


@pytest.mark.parametrize(("sd", "upper"), [(0.734, 2.044), (1.0, 1.2), (2.0, 2.02)])
def test_the_bound_implies_its_degrees_of_freedom(sd, upper):
    found = live.implied_df(sd, upper)
    assert found * sd**2 / scipy_stats.chi2.ppf(0.05, found) == pytest.approx(upper**2)
    assert live.implied_df(0.734, 2.044) == pytest.approx(3.2, abs=0.1)
    assert live.implied_df(0.0, upper) is None


def test_the_floor_file_is_what_stats_reads(tmp_path, monkeypatch):
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(tmp_path))
    shipped = scatter.start("tps")
    file = live.write_floor(identical(block_sd=0.03), tmp_path / "floor.json")
    written = json.loads(file.read_text())
    own = scatter.start("tps")
    assert own != shipped
    assert (100 * own.cv, own.df) == pytest.approx((written["tps"]["cv_pct"], written["tps"]["df"]))
    assert own.cv == pytest.approx(0.03 / math.sqrt(2), rel=0.5)
    assert scatter.start("mean_latency").cv == own.cv
    for metric in live.METRICS:
        entry = written[metric]
        assert entry["lo_pct"] <= entry["cv_pct"] <= entry["upper_pct"] <= entry["hi_pct"]
        assert entry["df"] == pytest.approx(
            live.implied_df(entry["cv_pct"], entry["upper_pct"]), abs=0.01
        )


def test_an_estimate_of_zero_is_written_as_it_is_and_takes_the_largest_of_the_others(tmp_path):
    built = campaign("calibration-aa", {"other server": {"tps": 0.0, "p99": 0.0}}, block_sd=0.02)
    values = built.tidy["metric"] == "p99"
    middle = built.tidy[values].groupby(["block", "arm"])["value"].transform("mean")
    overall = built.tidy[values].groupby("arm")["value"].transform("mean")
    built.tidy.loc[values, "value"] *= overall / middle  # no block differs
    written = live.floor(built)
    assert written["p99"]["cv_pct"] == 0
    assert written["p99"]["df"] is None
    entries = {k: v for k, v in written.items() if isinstance(v, dict)}
    assert scatter.start("p99", entries).cv == pytest.approx(written["tps"]["cv_pct"] / 100)


def test_the_shipped_floor_is_that_of_the_recorded_campaign():
    shipped = json.loads(paths.recorded_floor().read_text())
    assert shipped == live.floor(
        results.load(paths.campaign(shipped["source"].split()[1].rstrip(":")))
    )


def test_noise_is_the_scatter_of_a_pair_around_its_block(tmp_path, monkeypatch):
    folders = ["one", "two", "short"]
    built = {
        "one": identical(sd=0.01, block_sd=0.05),
        "two": identical(sd=0.03, blocks=10, size=1, seed=2),
        "short": identical(sd=0.5, blocks=4, size=1),
    }
    monkeypatch.setattr(live.results, "load", built.get)
    written = json.loads(live.noise(folders[:1], tmp_path / "noise.json").read_text())
    assert written["read/write"]["tps"] == {"4": pytest.approx(1.0, rel=0.2)}  # not 5: the starts
    both = json.loads(live.noise(folders, tmp_path / "noise.json").read_text())
    mixed = math.sqrt((80 * 1.0**2 + 9 * 3.0**2) / 89)
    assert both["read/write"]["tps"]["4"] == pytest.approx(mixed, rel=0.3)
    assert both["source"] == "A/A controls of one, two"


def test_the_shipped_noise_weights_the_joint_effect():
    shipped = json.loads(paths.recorded_noise().read_text())
    known = shipped["larger than memory"]["tps"]
    found = scatter.weights("larger than memory", "tps", [1, 4, 500])
    assert found[1] / found[4] == pytest.approx((known["4"] / known["1"]) ** 2)
    assert found[500] == pytest.approx(known["64"] ** -2)  # the nearest one that is recorded
    assert scatter.weights("unheard of", "tps", [1, 4]) == {}


def test_real_blocks_dealt_again_alarm_as_they_should():
    found = live.alarms(identical(block_sd=0.06), draws=3000).set_index(["unit", "metric"])
    for metric in live.METRICS:
        assert found.loc[("block", metric), "lo"] < 0.05
        assert found.loc[("pair", metric), "lo"] > 0.05


def test_windows_are_the_campaign_in_pieces():
    found = live.windows(identical(), blocks=10)
    assert found["from_block"].tolist() == [0, 10] * 2
    assert (found["blocks"] <= 10).all()
    assert (found["verdict"].isin(["same", "cannot tell"])).all()


def test_machine_time_counts_slices():
    found = live.machine_time(identical(sd=0.01), draws=300)
    assert found["minutes"].to_numpy() == pytest.approx(found["pairs"] * 6 / 60)
    assert (found["right"] > 0.9).all()
    assert (found["wrong"] < 0.08).all()
    assert (found["saved_pct"] > 70).all()


def test_truth_comes_from_the_heaviest_arm():
    r = slowdowns("calibration-switched", sd=0.01)
    known = live.truths(r)
    for metric in live.METRICS:
        ratio, se, rounds = known[metric]
        assert ratio == pytest.approx(0.6, abs=4 * se)
        assert rounds == 4350
    found = live.injected(r, known)
    assert set(found["arm"]) == {"+1 %", "+2 %", "+5 %", "+10 %"}
    assert found["held"].mean() >= 0.9
    five = found[(found["arm"] == "+5 %") & (found["metric"] == "tps")].iloc[0]
    assert five["truth_pct"] == pytest.approx(6, abs=0.2)
    assert five["bias_lo_pct"] < 0 < five["bias_hi_pct"]


def test_power_grows_with_the_truth():
    r = slowdowns("calibration-switched", sd=0.08)
    found = live.power(r, live.truths(r), draws=300).query("metric == 'tps'")
    found = found.sort_values("truth_pct")
    assert found["slower"].iloc[-1] == 1
    assert found["slower"].iloc[0] < 0.3
    assert np.allclose(found[["slower", "faster", "same", "cannot_tell"]].sum(axis=1), 1)


def test_information_a_minute_is_one_over_variance_and_time():
    switched = slowdowns("calibration-switched", sd=0.02, seconds=8, keep=("+5 %",))
    side = slowdowns("calibration-side-by-side", sd=0.02, seconds=8, blocks=40)
    duet = slowdowns("calibration-duet", sd=0.01, seconds=4, keep=("+5 %",), blocks=40)
    found = live.designs([switched, side, duet]).set_index(["design", "metric"])
    for metric in live.METRICS:
        assert found.loc[("switched", metric), "against_side_by_side"] == pytest.approx(1, rel=0.6)
        row = found.loc[("duet", metric)]
        assert row["lo"] < 8 < row["hi"]
        assert row["seconds_a_pair"] == pytest.approx(4, rel=0.05)
    dealt = slowdowns("calibration-side-by-side", sd=0.02, block_sd=0.03, seconds=8, blocks=40)
    worse = live.designs([dealt]).set_index("metric")
    assert worse["information"]["tps"] < 0.4 * found.loc[("side by side", "tps"), "information"]


def test_duet_is_refused_where_it_is_biased_and_offered_where_it_is_honest():
    known = {m: (0.6, 0.002, 4350) for m in live.METRICS}
    side = slowdowns("calibration-side-by-side", sd=0.03, blocks=40)
    duet = campaign(
        "calibration-duet",
        {
            "+5 %": {"tps": math.log1p(0.06) + 0.03, "cpu_per_transaction": math.log1p(0.06)},
            "+50 %": {"tps": math.log1p(0.6) - 0.25, "cpu_per_transaction": math.log1p(0.6) - 0.1},
        },
        sd=0.01, seconds=4,
    )  # fmt: skip
    found = live.injected(duet, known, heaviest=True)
    answer = live.decision(found, live.designs([side, duet]), 2.0).set_index("metric")
    assert answer["answer"]["tps"] == "refused"
    assert answer["up_to_pct"]["cpu_per_transaction"] == pytest.approx(6, abs=0.1)
    slow = live.designs([side, duet]).assign(against_side_by_side=0.5)
    assert set(live.decision(found, slow, 2.0)["answer"]) == {"refused"}


# --- the page ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(recorded):
    return page.Calibration(
        recorded.figures,
        aa=identical(block_sd=0.005, blocks=40),
        switched=slowdowns("calibration-switched"),
        side_by_side=slowdowns("calibration-side-by-side"),
        duet=slowdowns("calibration-duet"),
    )


SHOWN = [n for n in dir(page.Calibration) if n.startswith("show_") and n != "show_rivals"]


@pytest.mark.parametrize("name", SHOWN)
def test_sections_show_what_there_is_and_say_what_there_is_not(whole, recorded, name):
    there = getattr(whole, name)()
    assert "nf-figure" in there.markup or "nf-table" in there.markup
    assert "nan" not in there.markup.split("</svg>")[-1].lower().replace("nanosecond", "")
    bare = page.Calibration(recorded.figures)
    assert "is recorded: what needs it is left out" in getattr(bare, name)().markup


def test_live_goals_are_judged_when_there_are_campaigns(whole, recorded):
    assert "not measured" not in set(whole.goals["reached"])
    assert "two identical servers" in whole.headline
    bare = page.Calibration(recorded.figures).goals
    assert (bare["reached"] == "not measured").sum() == 3


@pytest.mark.parametrize(
    "draw",
    [
        lambda c: figures.strip(c.at_zero, "false_alarm_pct", by="noise_label", ink="design"),
        lambda c: figures.strip(
            c.coverage, "coverage_pct", by="noise_label", band=(93.5, 97), zero=False
        ),
        lambda c: figures.strip(c.rivals, "alarm_pct", by="label"),
        lambda c: figures.power(c.power_at_blocks),
        lambda c: figures.blocks(c.aa),
        lambda c: figures.bias(c.injected),
        lambda c: figures.information(c.designs),
    ],
)
def test_figures_draw_wide_and_narrow(whole, draw):
    figure = draw(whole)
    for one in (figure, figure.narrow()):
        text = plots.svg(one, "t", "d")
        assert "var(--nf-" in text
        assert len(text) < 300_000


def test_a_campaign_that_is_not_there_is_named():
    with pytest.raises(paths.NotFound, match="nothing-of-the-kind"):
        calibration.load(aa="nothing-of-the-kind")
