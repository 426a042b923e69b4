"""The calibration: its own arithmetic, what it proves, and the rivals' failures.

The full one is recorded under data/raw/recorded; `make test` runs a small one."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

import conftest
from noisefloor import calibrate as calibration
from noisefloor import paths, schedule, stats, studies
from noisefloor.calibrate import found as found_here
from noisefloor.calibrate import goals, live, page, rivals, truth
from noisefloor.data import results
from noisefloor.measure import collect
from noisefloor.stats import honest, scatter, synthetic
from test_stats_verdicts import stolen

DATA = conftest.DATA / "aa-mysql97"
KINDS = list(itertools.product(truth.SCATTERS, synthetic.PAIRS, synthetic.NOISES, synthetic.DEPENDENCES, synthetic.DRIFTS))  # fmt: skip


# --- the recorded figures ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded():
    return replace(calibration.load(), every=())  # each campaign takes a second to open


def reached(figures, **changed):
    """{goal: whether it is reached} with some of the figures changed."""
    return page.Calibration(figures | changed).goals.set_index("goal")["reached"]


def test_the_recorded_figures_are_those_of_the_rule_as_it_is(recorded):
    facts = recorded.figures["facts"]
    assert facts["rule"] == truth.fingerprint(), "run `noisefloor calibrate` and commit its figures"
    assert facts["campaigns"] >= 10_000
    assert facts["full"]


def test_the_recorded_cells_are_the_full_cross_product(recorded):
    for cells in (recorded.at_zero, recorded.at_margin):
        kinds = list(cells[truth.KEY[:5]].itertuples(index=False, name=None))
        assert sorted(kinds) == sorted(KINDS * 2)  # two scatters
        assert (cells["n"] >= 10_000).all()
    assert set(recorded.at_zero["block_cv"]) == {0.0, 0.01, 0.02}
    families = recorded.figures["families"]
    kinds = set(families[truth.KEY[1:5]].itertuples(index=False, name=None))
    assert kinds == {kind[1:] for kind in KINDS}
    assert families.groupby(["design", "drift"]).size().nunique() == 1


@pytest.mark.parametrize(
    "goal",
    [
        "False slower or faster, every cell",
        "The same where the minutes end after 70 % of the blocks",
        "The same in a family: 4 thread counts and their joint effect",
        "False same at the margin, every cell",
        "Interval holds the truth where the campaign ended, every cell",
        "Pairs for 80 % right words at a pair sd of 2 %",
        "Pairs for 80 % right words at a pair sd of 4 %",
        "Files: equal arms are the same, 10 runs an arm",
        "Every mutant of the rule fails",
    ],
)
def test_error_rates_hold_in_every_recorded_cell(recorded, goal):
    assert recorded.goals.set_index("goal")["reached"][goal] == "yes"


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
    ("counts", "n", "held"),
    [
        ([500] * 9, 10_000, True),
        ([510] * 9, 10_000, False),  # the median
        ([450] * 8 + [580], 10_000, False),  # the lower bound of 99.9 %
        ([450] * 8 + [565], 10_000, True),
        ([14] * 9, 300, False),  # may be 7 % and more
    ],
)
def test_an_error_rate_is_held_by_its_median_and_by_both_bounds(recorded, counts, n, held):
    cells = SimpleNamespace(at_zero=recorded.at_zero.head(9).assign(wrong=counts, n=n))
    _, bound, where, found = goals.MEASURES["rate"](cells, goals.GOALS[0])
    assert (found, where.partition(":")[0]) == (held, "worst of 9")
    low = scipy_stats.binomtest(max(counts), n).proportion_ci(0.998).low
    assert bound.startswith(f"{100 * low:.1f} %")


def test_missed_goals_of_files_and_of_the_interval_are_seen(recorded):
    files, cells = recorded.figures["files"], recorded.figures["cells"]
    worse = files.assign(slower=files["slower"] - 2000 * (files["effect"] > 0))
    found = reached(recorded.figures, files=worse)
    assert set(found[found.index.str.startswith("Files: 5 % slower")]) == {"no"}
    narrow = cells.assign(covered=cells["covered"].where(cells.index > 0, 9300))
    found = reached(recorded.figures, cells=narrow)
    assert found["Interval holds the truth where the campaign ended, every cell"] == "no"


def test_headline_and_box_name_every_missed_goal(recorded):
    missed = recorded.goals[recorded.goals["reached"] == "no"]
    assert f"misses {len(missed)} of" in recorded.headline or missed.empty
    for goal in missed["goal"]:
        assert goal in recorded.box.markup


# --- a small calibration ----------------------------------------------------------------------------


def test_the_command_runs_a_small_calibration_and_writes_nothing():
    def kept():
        return {p: p.stat().st_mtime_ns for p in calibration.recorded().iterdir()}

    before = kept()
    printed = conftest.noisefloor("calibrate", "--small", "--seed", "2", "--json").stdout
    said = json.loads(printed[printed.index("{") :])
    assert (said["seed"], said["cells"]) == (2, 2 * len(truth.grid(25)))
    rates = [g for g in said["goals"] if g["goal"].startswith("False")]
    assert len(rates) == 2
    for goal in rates:  # 1,000 campaigns a cell: three standard errors of room
        assert float(goal["measured"].split()[-2]) < 7.2
    assert {g["reached"] for g in said["goals"]} <= {"yes", "no", "not measured"}
    assert kept() == before


def test_figures_come_back_from_disk_and_do_not_depend_on_the_number_of_processes(tmp_path):
    one, two = (truth.measure(seed=3, n=40, step=200, workers=w) for w in (1, 2))
    truth.write(one, tmp_path)
    back = truth.read(tmp_path)
    assert back["facts"] == one["facts"]
    for name in truth.FILES:
        pd.testing.assert_frame_equal(one[name], two[name])
        pd.testing.assert_frame_equal(back[name], one[name], check_dtype=False, rtol=1e-5)


def test_fingerprint_sees_code_and_not_comments(monkeypatch):
    source, whole = truth.inspect.getsource, truth.fingerprint()
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


def test_rivals_decide_as_they_are_documented():
    assert rivals.pyperf([18.0], [18.0])  # single runs are significant
    assert not rivals.pyperf([1.0, 1.2], [1.1, 1.3])
    assert rivals.welch([1.00, 1.12, 0.93], [1.10, 1.21, 1.04]) > 0.05  # 10 % apart, three runs
    assert rivals.benchstat([1.0, 1.1, 1.2], [2.0, 2.1, 2.2]) == 1  # four samples are needed
    found = rivals.benchstat([1.0, 1.1, 1.2, 1.3], [2.0, 2.1, 2.2, 2.3])
    assert found == pytest.approx(2 / 70)  # exact: 2 of the 70 orders


@pytest.fixture(scope="module")
def on_noise():
    given = {"noise": "normal", "dependence": "iid", "drift": "linear"}
    rows = rivals.synthetic_rates(given, 1500, [1, 1])
    return pd.DataFrame(rows).set_index(["rival", "order"])


@pytest.mark.parametrize(
    ("rival", "least"),
    [
        (rivals.ROWS, 0.5),
        *(((tool, "all A, then all B"), 0.4) for tool in rivals.TESTS),
        (rivals.PEEKING, 0.2),
    ],
)
def test_rivals_fail_where_ours_holds(on_noise, rival, least):
    assert on_noise.loc[rival, "lo"] > least
    assert on_noise.loc[rivals.OURS, "lo"] < 0.05


@pytest.mark.parametrize("name", ["one-start", "blocks"])
@pytest.mark.parametrize("metric", ["tps", "cpu"])
def test_rivals_on_two_identical_servers(name, metric):
    runs = (
        pd.read_csv(DATA / f"{name}.csv").sort_values("start_unix").rename(columns={"file": "run"})
    )
    if name == "one-start":
        runs["block"] = runs["pair"]
    cpu = runs["server_cpu_s"] / runs["transactions"]
    runs["value"] = runs["transactions"] / runs["seconds"] if metric == "tps" else cpu
    rows = pd.read_csv(DATA / "rows.csv").query("session == @name")
    rates = {run: part.to_numpy() for run, part in rows.groupby("file")["tps"]}
    found = rivals.on_files(runs, rates if metric == "tps" else {})
    found = pd.DataFrame(found).set_index(["rival", "order"])
    if metric == "tps":
        assert found.loc[rivals.ROWS, "lo"] > 0.05
    assert found.loc[rivals.PEEKING, "lo"] > 0.15
    for tool in rivals.TESTS:
        assert found.loc[(tool, "all A, then all B"), "value"] > 0.2
    assert found.loc[rivals.OURS, "lo"] < 0.05


# --- live campaigns, built with a known truth ------------------------------------------------------


def slow(arm, metric):
    """The log overhead of an arm whose heaviest one really costs 40 %."""
    return math.log1p(0.4 * live.rounds(arm) / 7200)


def campaign(question="injected", effect=slow, *, at_once=1.0, sd=0.01, block_sd=0.0, blocks=12, size=5, metrics=live.METRICS, threads=(4,), seed=1):  # fmt: skip
    """A Results of a question whose arms have these true log overheads, `at_once` times as large in a
    duet (a number, or one by thread count)."""
    rng = np.random.default_rng(seed)
    chosen = studies.load("calibration", question=question, profile="standard")
    works = [replace(w, threads=(2, 4) if w.at_once else threads) for w in chosen.workloads]
    chosen = replace(chosen, workloads=tuple(works))
    clock, rows, runs = pd.Timestamp("2026-01-01T00:00:00+00:00"), [], []
    cells = [(w, t) for w in sorted(works, key=lambda w: not w.at_once) for t in w.threads]
    for (block, arm), (work, t) in itertools.product(enumerate(chosen.arms * blocks), cells):
        factor = at_once[t] if isinstance(at_once, dict) and work.at_once else at_once
        jump = dict(zip(metrics, rng.normal(0, block_sd, len(metrics)), strict=True))
        for pair in range(size):
            key = {
                "study": "calibration", "campaign": question, "workload": work.name, "threads": t,
                "block": block, "pair": pair, "pair_id": f"{work.name}-{t}-{block}-{pair}", "warmup": False,
            }  # fmt: skip
            for position, who in enumerate((chosen.baseline.name, arm.name)):
                run = f"{work.name}-{t}-{block}-{0 if work.at_once else pair}-{position}"
                key |= {"run": run, "arm": who, "position": position}
                if not (work.at_once and pair):
                    start = clock - pd.Timedelta(seconds=3.5 * (work.at_once and position))
                    runs.append(key | {"start": start.isoformat(), "slice_s": 3, "warnings": ""})
                    clock += pd.Timedelta(seconds=3.5)
                for metric in metrics:
                    real = effect(arm, metric) * (factor if work.at_once else 1.0) + jump[metric]
                    worse = real * position + rng.normal(0, sd / math.sqrt(2))
                    value = math.exp(-worse if metric == "tps" else worse)
                    rows.append(key | {"metric": metric, "value": value, "unit": ""})
    tidy = pd.DataFrame(rows).astype({"threads": "Int64"})
    tidy.attrs = {"design": chosen.design, "problems": []}
    out = results.Results(Path(f"{question}-built"))
    host = {"cpu": "a CPU", "cores": 2}
    meta = {"engine": {"label": "MySQL 9.7.4"}, "host": host, "skipped": {"at once": "not here"}}
    vars(out).update(study=chosen, tidy=tidy, runs=pd.DataFrame(runs), meta=meta)
    return out


def identical(question="aa", **more):
    return campaign(question, lambda arm, metric: 0.0, **more)


@pytest.mark.parametrize("start_cv", [0.0, 0.01, 0.03])
def test_a_mixed_model_finds_the_same_scatter_of_starts(start_cv):
    rng = np.random.default_rng(4)
    block = np.repeat(np.arange(40), 4)
    d = rng.normal(0, math.sqrt(2) * start_cv, 40)[block] + rng.normal(0, 0.02, 160)
    ours = live.start_to_start(d, block, draws=1000)["cv_pct"]
    pairs = pd.DataFrame({"overhead": d, "block": block, "threads": 4})
    assert live.mixed(pairs) == pytest.approx(ours, abs=0.15)


@pytest.mark.parametrize(("start_cv", "sd"), [(0.0, 0.03), (0.01, 0.02), (0.02, 0.01)])
@pytest.mark.parametrize("counts", [1, 3])
def test_start_to_start_interval_holds_the_truth(start_cv, sd, counts):
    rng = np.random.default_rng(7)
    block, threads = np.repeat(np.arange(25), 5 * counts), np.tile(np.arange(counts), 125)
    found = []
    for i in range(150):
        jumps = rng.normal(0, math.sqrt(2) * start_cv, 25)
        d = rng.normal(0, sd, 125 * counts) + jumps[block] + threads
        found.append(live.start_to_start(d, block, threads, draws=4000, seed=i))
    frame = pd.DataFrame(found)
    held = (frame["lo_pct"] <= 100 * start_cv) & (100 * start_cv <= frame["hi_pct"])
    assert held.mean() > 0.91
    assert (frame["upper_pct"] >= 100 * start_cv).mean() > 0.9
    assert (frame["cv_pct"] ** 2).mean() ** 0.5 == pytest.approx(100 * start_cv, abs=0.4)
    if not start_cv:
        assert (frame["p"] < 0.05).mean() < 0.12


@pytest.mark.parametrize(("sd", "upper"), [(0.734, 2.044), (1.0, 1.2), (2.0, 2.02)])
def test_the_bound_implies_its_degrees_of_freedom(sd, upper):
    found = found_here.implied_df(sd, upper)
    assert found * sd**2 / scipy_stats.chi2.ppf(0.05, found) == pytest.approx(upper**2)
    assert found_here.implied_df(0.734, 2.044) == pytest.approx(3.2, abs=0.1)


def test_what_is_found_on_this_machine_is_what_is_read_here(recorded, tmp_path, monkeypatch):
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(tmp_path))
    shipped = scatter.start("tps")
    asked = ("calibration: read/write", "oltp_read_write"), "tps", [1, 4]
    opened = {
        "aa": identical(block_sd=0.03, threads=(1, 4)),
        "switched": identical("switched", sd=0.03, threads=(1, 4)),
        "injected": campaign(at_once=1.2, sd=0.002),
        "processor": identical("processor"),
    }
    monkeypatch.setattr(results, "load", {r.folder: r for r in opened.values()}.get)
    monkeypatch.setattr(
        collect, "measured", lambda study, question, profile: (opened[question].folder,)
    )
    monkeypatch.setattr(calibration, "measure", lambda *given, **more: recorded.figures)
    printed = conftest.done("calibrate", "--small", "--live")
    assert (
        "says which arm takes more processor time; how much is told as under contention" in printed
    )
    written = json.loads((tmp_path / "floor.json").read_text())
    own = scatter.start("tps")
    assert own != shipped
    assert (100 * own.cv, own.df) == pytest.approx((written["tps"]["cv_pct"], written["tps"]["df"]))
    assert own.cv == pytest.approx(0.03 / math.sqrt(2), rel=0.5)
    assert scatter.start("mean_latency").cv == own.cv
    for entry in (written[metric] for metric in live.METRICS):
        assert entry["lo_pct"] <= entry["cv_pct"] <= entry["upper_pct"] <= entry["hi_pct"]
        ends = [(entry["cv_pct"] + x, entry["upper_pct"] - x) for x in (-5e-4, 5e-4)]  # rounded
        low, high = (found_here.implied_df(*end) for end in ends)
        assert low <= entry["df"] <= high
    noise = json.loads((tmp_path / "noise.json").read_text())
    both = noise["oltp_read_write"]["tps"]["4"]
    assert both == noise["calibration: read/write"]["tps"]["4"] == pytest.approx(2.2, rel=0.2)
    assert scatter.pair_sds(("unheard of", "oltp_read_write"), "tps", [4]) == {4: both}
    alike = noise["calibration: at once"]["cpu_per_transaction"]["4"]
    assert alike == pytest.approx(1.0, rel=0.2)
    duet = studies.load("version-upgrade", question="processor")
    (named, other) = schedule.kin(duet, duet.workloads[0])
    assert (named, other) == ("version-upgrade: read/write, at once", "calibration: at once")
    assert scatter.pair_sds(("unheard of", other), "cpu_per_transaction", [4]) == {4: alike}
    assert scatter.pair_sds(("unheard of",), "cpu_per_transaction", [4]) == {}
    assert scatter.pair_sds(*asked)[4] == both
    assert honest.duet().says == "word"
    assert honest.duet().source.startswith("campaign injected-built")


def test_what_is_too_short_decides_nothing(tmp_path):
    opened = {"aa": identical(), "injected": campaign(blocks=11)}
    with pytest.raises(live.TooShort, match="11 whole blocks of 12"):
        found_here.write_found(opened, tmp_path)
    assert not [*tmp_path.iterdir()]
    assert live.allowed(campaign(at_once=2.0)).says == ""
    with pytest.raises(live.TooShort, match="2 whole blocks"):
        live.machine_time(identical(blocks=2))
    with pytest.raises(live.TooShort, match="2 blocks"):
        live.start_to_start(np.ones(6), np.zeros(6))


def test_an_estimate_of_zero_is_written_as_it_is_and_takes_the_largest_of_the_others():
    built = identical(block_sd=0.02, metrics=("tps", "p99"))
    values = built.tidy["metric"] == "p99"
    middle = built.tidy[values].groupby(["workload", "block", "arm"])["value"].transform("mean")
    overall = built.tidy[values].groupby("arm")["value"].transform("mean")
    built.tidy.loc[values, "value"] *= overall / middle  # no block differs
    written = found_here.floor(built)
    assert (written["p99"]["cv_pct"], written["p99"]["df"]) == (0, None)
    entries = {k: v for k, v in written.items() if isinstance(v, dict)}
    assert scatter.start("p99", entries).cv == pytest.approx(written["tps"]["cv_pct"] / 100)


def test_the_floor_of_several_campaigns_counts_one_whose_estimate_is_below_zero():
    above, below = (11, 0.0010, 0.0005, 100), (11, 0.0001, 0.0005, 100)
    assert live.beyond([below])["cv_pct"] == 0
    assert live.beyond([above])["cv_pct"] == pytest.approx(100 * math.sqrt(0.0005 / 2))
    assert live.beyond([above, below])["cv_pct"] == pytest.approx(100 * math.sqrt(0.00005 / 2))
    noisy = (11, 0.0040, 0.0050, 100)  # its pairs tell a hundredth as much
    weighted = (0.0005 - 0.0010 / 100) / 1.01
    assert live.beyond([above, noisy])["cv_pct"] == pytest.approx(100 * math.sqrt(weighted / 2))


@pytest.mark.parametrize("truth", [0.0, 0.7, 1.5])
def test_the_floor_of_several_campaigns_holds_the_truth(truth):
    rng, real = np.random.default_rng(3), 2 * (truth / 100) ** 2
    shapes = [(57, 0.0016, 142), (11, 0.0013, 288), (11, 0.0005, 240), (23, 0.0018, 96)]
    found = []
    for seed in range(150):
        parts = [
            (k, (real + share) * rng.chisquare(k) / k, share * rng.chisquare(free) / free, free)
            for k, share, free in shapes
        ]
        found.append(live.beyond(parts, seed=seed, draws=2000))
    found = pd.DataFrame(found)
    assert ((found["lo_pct"] <= truth) & (truth <= found["hi_pct"])).mean() > 0.91
    assert (found["upper_pct"] >= truth).mean() > 0.91
    if truth == 1.5:
        assert (found["cv_pct"] ** 2).mean() ** 0.5 == pytest.approx(truth, rel=0.1)


def test_a_floor_is_pooled_from_the_pairs_of_its_campaigns():
    one, two = (identical(block_sd=0.02, metrics=("tps",), seed=seed) for seed in (1, 2))
    alone, other, both = (found_here.floor(*r)["tps"] for r in ((one,), (two,), (one, two)))
    assert min(alone["cv_pct"], other["cv_pct"]) < both["cv_pct"]
    assert both["cv_pct"] < max(alone["cv_pct"], other["cv_pct"])
    assert both["df"] > max(alone["df"], other["df"])
    assert both["lo_pct"] < both["cv_pct"] < both["upper_pct"] < both["hi_pct"]
    implied = found_here.implied_df(both["cv_pct"], both["upper_pct"])
    assert implied == pytest.approx(both["df"], rel=0.02)


def test_the_shipped_floor_is_that_of_every_recorded_campaign_of_two_identical_servers():
    every = sorted(paths.recorded().glob("calibration-aa-*"))
    assert json.loads(paths.known("floor", own=False).read_text()) == found_here.floor(
        *map(results.load, every)
    )


def test_noise_is_the_scatter_of_a_pair_around_its_block(monkeypatch):
    built = {
        "one": identical(sd=0.01, block_sd=0.05),
        "two": identical("switched", sd=0.03, blocks=10, size=1, seed=2),
        "short": identical(sd=0.5, blocks=4, size=1),
        "slow": campaign(sd=0.02, blocks=4),
    }
    monkeypatch.setattr(live.results, "load", built.get)
    written = found_here.noise(["one"])
    alone = written["calibration: read/write"]["tps"]
    assert alone == {"4": pytest.approx(1.0, rel=0.2)}  # not 5: the starts
    both = found_here.noise([*built])
    assert set(both["calibration: at once"]["cpu_per_transaction"]) == {"2", "4"}
    mixed = math.sqrt((48 * 1.0**2 + 9 * 3.0**2) / 57)
    assert both["calibration: read/write"]["tps"]["4"] == pytest.approx(mixed, rel=0.3)
    slow = both["calibration: read/write, 4 threads"]["tps"]["4"]  # an arm's effect is not in it
    assert slow == pytest.approx(2.0, rel=0.2)
    assert both["source"] == "pairs of one, two, slow"


def test_the_shipped_noise_weights_the_joint_effect():
    shipped = json.loads(paths.known("noise", own=False).read_text())
    names = ("tablespace-encryption: larger than memory", "oltp_read_only")
    known = shipped[names[0]]["tps"]
    found = scatter.pair_sds(names, "tps", [1, 4, 500])
    assert found == {1: known["1"], 4: known["4"], 500: known["64"]}  # the nearest one recorded
    assert scatter.pair_sds(("unheard of", *names), "tps", [1, 4, 500]) == found
    assert scatter.pair_sds(("unheard of",), "tps", [1, 4]) == {}


def test_the_interval_of_two_identical_servers_is_of_their_blocks():
    r = identical(block_sd=0.02, sd=0.001, threads=(1, 4))
    others = identical("switched"), identical("processor")
    found = live.identical(r, *others).set_index(["design", "metric"])
    assert set(found.index) == {
        *itertools.product(("in turn", "switched"), live.METRICS), ("at once", live.CPU)
    }  # fmt: skip
    row = found.loc[("in turn", "tps")]
    means = r.pairs("read/write", "tps").groupby("block")["overhead"].mean()
    half = scipy_stats.t.ppf(0.975, 11) * means.sem()
    assert row["half_pct"] == pytest.approx(100 * half)
    assert row["threads"] == "1, 4"
    assert live.identical(r)["blocks"].unique().tolist() == [12]


def test_a_noisy_day_tells_less_of_two_identical_servers():
    quiet, loud = identical(sd=0.01), identical(sd=0.05, seed=2)
    alone, both = live.identical(quiet), live.identical(loud, quiet)
    assert both["blocks"].unique().tolist() == [24]
    assert (both["half_pct"] < 1.1 * alone["half_pct"]).all()


@pytest.mark.parametrize("start_sd", [0.0, 0.01])
def test_campaigns_added_up_hold_the_truth_as_often_as_they_say(start_sd):
    rng, held = np.random.default_rng(8), 0
    for _ in range(800):
        days = [
            (rng.normal(0, math.hypot(sd, start_sd), k), sd**2 * rng.chisquare(200) / 200)
            for sd, k in ((0.03, 12), (0.01, 12), (0.02, 8))
        ]
        told = live._added([(units.tolist(), explained) for units, explained in days])
        held += abs(told.value) <= told.half()
    assert 0.93 < held / 800 < 0.975


def test_machine_time_counts_slices():
    found = live.machine_time(identical(sd=0.01), draws=300)
    assert found["minutes"].to_numpy() == pytest.approx(found["pairs"] * 6 / 60)
    assert (found["right"] > 0.9).all()
    assert (found["wrong"] < 0.08).all()
    assert (found["saved_pct"] > 70).all()


def test_machine_time_draws_from_the_blocks_of_all_campaigns():
    quiet, loud = identical(sd=0.01), identical(sd=0.2)
    alone, both = (live.machine_time(*r, draws=300) for r in ((quiet,), (quiet, loud)))
    assert (both["pairs"] > 1.2 * alone["pairs"]).all()


def test_truth_comes_from_the_heaviest_arm():
    r = campaign(blocks=24)
    known = live.truths(r)
    for ratio, half, rounds in (known[metric] for metric in live.METRICS):
        assert ratio == pytest.approx(0.4, abs=1.5 * half)
        assert rounds == 7200
    found = live.injected(r, known)
    assert set(found["arm"]) == {"+3 %", "+15 %"}
    assert found["pieces"].tolist() == [4] * 4
    assert found["held"].sum() >= 14
    three = found[(found["arm"] == "+3 %") & (found["metric"] == "tps")].iloc[0]
    assert three["truth_pct"] == pytest.approx(3.6, abs=0.12)
    assert three["lo_pct"] < 3.6 < three["hi_pct"]
    other = live.injected(r, known | {m: (2 * k[0], *k[1:]) for m, k in known.items()})
    assert other["held"].sum() < 4


@pytest.mark.parametrize(
    ("at_once", "says", "shrinks"),
    [(1.0, "size", 0.0), (1.2, "word", 0.0), (0.8, "word", 0.2), (1.6, "", 0.0), (0.4, "", 0.6)],
)
@pytest.mark.parametrize("by_rounds", [False, True])
def test_a_duet_may_say_what_its_bias_allows(at_once, says, shrinks, by_rounds):
    r = campaign(at_once=at_once, sd=0.002)
    found = live.bias(r, live.truths(r) if by_rounds else None)
    assert len(found) == 2 * 3  # arrangements and slowdowns
    heavy = found[found["arm"] == "+40 %"]
    real = 100 * (at_once - 1) * math.log(1.4)
    assert ((heavy["lo_pct"] < real + 0.2) & (heavy["hi_pct"] > real - 0.2)).all()
    rows = live.says(r, found)
    assert set(rows["says"]) == {says}
    assert rows["shrinks"].to_numpy() == pytest.approx([shrinks] * 2, abs=0.08)


def test_the_cost_of_a_round_is_the_narrower_reference():
    r = campaign(sd=0.03)
    r.tidy.loc[r.tidy["workload"] == r.main, "value"] **= 3
    own, rounds = live.bias(r), live.bias(r, live.truths(r))
    widths = [f["hi_pct"] - f["lo_pct"] for f in (own, rounds)]
    lighter = own["arm"] != "+40 %"
    assert (widths[1] < widths[0])[lighter].all()
    assert widths[1][~lighter].tolist() == widths[0][~lighter].tolist()


def test_the_most_honest_arrangement_wins_and_is_what_studies_measure(tmp_path, monkeypatch):
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(tmp_path))
    r = campaign(at_once={2: 1.2, 4: 1.0}, sd=0.002)
    found = live.says(r, live.bias(r))
    assert found["says"].tolist() == ["size", "word"]
    assert found["threads"].tolist() == [4, 2]
    allowed = live.allowed(r)
    for threads, asked in ((4, {}), (2, {}), (16, {"threads": (16,)})):
        honest.write(replace(allowed, threads=min(threads, 4)), tmp_path / "duet.json")
        (work,) = studies.load("binlog-encryption", question="processor", **asked).workloads
        assert work.threads == (threads,)
    assert allowed.threads == 4


def test_a_level_that_was_not_measured_allows_nothing():
    r = campaign(sd=0.002)
    lost = (r.tidy["workload"] == "at once") & (r.tidy["threads"] == 2)
    lost &= r.tidy["pair_id"].isin(r.tidy.loc[r.tidy["arm"] == "+15 %", "pair_id"])
    vars(r)["tidy"] = r.tidy[~lost]
    vars(r).pop("_judged", None)
    found = live.says(r, live.bias(r))
    assert found["says"].tolist() == ["size", ""]
    assert np.isinf(found["worst"].iloc[1])


def test_information_a_minute_is_one_over_variance_and_time():
    r = campaign(sd=0.02, blocks=24)
    quiet = (r.tidy["workload"] == "at once") & (r.tidy["threads"] == 2)
    r.tidy.loc[quiet, "value"] **= 0.5  # half the scatter
    found = live.information(r).set_index("design")
    took = live.minutes(r)
    assert took[r.main, 4] == pytest.approx(5 * 7 / 60, rel=0.05)
    assert took["at once", 2] == pytest.approx(7 / 60, rel=0.05)  # two runs at once, then a gap
    assert found.loc["in turn", "times"] == 1
    real = 4 * took[r.main, 4] / took["at once", 2]
    for threads, times in ((2, real), (4, real / 4)):
        row = found.loc[f"at once, {threads} threads"]
        assert row["lo"] < times < row["hi"]


def test_levelling_makes_pairs_steadier_and_keeps_a_known_slowdown():
    """What the host took slowed every run by 1.5 times its share."""
    r = campaign(sd=0.005)
    rng = np.random.default_rng(3)
    one = r.tidy.drop_duplicates("run")
    taken = pd.Series(np.minimum(rng.pareto(1.5, len(one)) * 0.03, 1.0), one["run"])
    moved = 1.5 * r.tidy["run"].map(taken) * r.tidy["metric"].map({"tps": -1}).fillna(1)
    slower = r.tidy.assign(value=r.tidy["value"] * np.exp(moved))
    steal = one.assign(metric="steal", value=one["run"].map(taken))
    vars(r)["tidy"] = pd.concat([slower, steal], ignore_index=True)
    found = live.levelled(r)
    assert (found["left_se_pct"] < 0.5 * found["se_pct"]).all()
    for row in found.query("metric == 'cpu_per_transaction'").itertuples():
        real = 100 * slow(r.study.arm(row.arm), "cpu_per_transaction")
        assert abs(row.left_pct - real) < 4 * row.left_se_pct
    assert found["taken_pct"].iloc[0] == pytest.approx(100 * taken.median(), rel=0.2)


# --- the page ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(recorded):
    opened = {
        "aa": identical(block_sd=0.005, threads=(1, 4)),
        "injected": campaign(sd=0.005),
        "switched": identical("switched"),
        "pilot": campaign(sd=0.005, blocks=2),
    }
    return page.Calibration(recorded.figures, opened, every=calibration.load().every[-1:])


@pytest.fixture(scope="module")
def short(recorded):
    opened = {"aa": identical(blocks=1), "injected": campaign(blocks=1)}
    return page.Calibration(recorded.figures, opened)


def shown(c, name):
    """A table or a figure of the page, by its name."""
    return c.table(name, "Words.") if name in page.TABLES else c.figure(name, "A title", "Words.")


@pytest.mark.parametrize("name", sorted({*page.TABLES, *page.FIGURES}))
def test_sections_show_what_there_is_and_say_what_there_is_not(whole, short, name):
    if name != "rivals-live":  # which needs raw files
        there = shown(whole, name)
        assert "nf-figure" in there.markup or "nf-table" in there.markup
        assert "nan" not in there.markup.split("</svg>")[-1].lower().replace("nanosecond", "")
    bare = page.Calibration(short.figures)
    assert "is recorded: what needs it is left out" in shown(bare, name).markup
    assert "<svg" not in shown(short, name).markup


def test_live_goals_are_judged_when_there_are_campaigns(whole, short):
    assert "not measured" not in set(whole.goals["reached"])
    assert "two identical servers" in whole.headline
    assert "says which arm takes more processor time, and how much" in whole.headline
    assert "Not tried: at once (not here)." in whole.allowed
    bare = page.Calibration(short.figures)
    assert (bare.goals["reached"] == "not measured").sum() == 5
    assert "fewer than 2 whole blocks" in short.headline
    assert (short.goals["reached"] == "not measured").sum() == 4


def test_more_alarms_of_controls_than_equal_arms_raise_are_a_goal_missed():
    words = pd.Series(["slower", "faster", "same", *["cannot tell"] * 19], name="verdict")
    goal = {"level": 0.95}
    for more, reached in ((1, True), (2, False)):  # of 22, 3 may
        said = pd.concat([words[:-more], pd.Series(["slower"] * more)], ignore_index=True)
        found = SimpleNamespace(controls=pd.DataFrame({"verdict": said, "campaign": "c"}))
        measured, bound, _, word = goals.MEASURES["controls"](found, goal)
        assert (measured, bound, word) == (f"{2 + more} of 22", "at most 3", reached)


def test_a_campaign_that_is_not_there_is_named():
    with pytest.raises(paths.NotFound, match="nothing-of-the-kind"):
        calibration.load(aa="nothing-of-the-kind")


def test_the_newest_recorded_campaign_of_a_question_is_opened_and_of_equal_servers_all(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(paths, "recorded", lambda: tmp_path)
    monkeypatch.setattr(page.results, "load", lambda folder: folder.name)
    for name, key, ended in (
        ("calibration-aa-1", "aa", "2026-11-01T00:00"),
        ("calibration-aa-0", "aa", "2026-11-02T00:00"),
        ("calibration-injected-1", "injected", "2026-11-03T00:00"),
        ("pilot", "injected", "2026-11-04T00:00"),
        ("calibration-switched-1", "switched", ""),  # not at its end
        ("calibration-processor-1", "processor", "2026-11-05T00:00"),
    ):
        (tmp_path / name).mkdir()
        works = [{"at_once": True}, {"at_once": name in ("pilot", "calibration-processor-1")}]
        facts = {"study": "calibration", "key": key, "finished": ended, "workloads": works}
        (tmp_path / name / "campaign.json").write_text(json.dumps(facts))
    monkeypatch.setattr(page.truth, "read", lambda folder: {})
    found = calibration.load()
    assert found.opened == {
        "injected": "calibration-injected-1", "aa": "calibration-aa-0",
        "processor": "calibration-processor-1", "pilot": "pilot",
    }  # fmt: skip
    assert found.earlier == ("calibration-aa-1",)


def test_equal_arms_levelled_raise_no_more_alarms_than_they_may():
    """Five per cent of 150 campaigns of equal arms, each judged once: at most 16 by the binomial."""
    alarms = 0
    for seed in range(150):
        found = stats.pairs(stolen(0.0, 1.2, blocks=8, seed=seed), levelled=True)
        means = found.groupby("block")["overhead"].mean()
        alarms += scipy_stats.ttest_1samp(means, 0).pvalue < 0.05
    assert 1 <= alarms <= 16
