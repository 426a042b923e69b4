"""The calibration: its own arithmetic, what it proves, and the tables of recorded scatter.

The full one is recorded under data/raw/recorded; `make test` runs a small one."""

import ast
import html
import itertools
import json
import math
import re
import resource
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

import conftest
from analysis import calibration as page
from noisefloor import calibrate as calibration
from noisefloor import paths, schedule, stats, studies
from noisefloor.calibrate import goals, heldout, live, rivals, tables, truth
from noisefloor.data import design, results, tidy
from noisefloor.measure import collect
from noisefloor.model import Request
from noisefloor.stats import combine, scatter
from noisefloor.stats.runs import BUCKET

# --- the recorded figures ---------------------------------------------------------------------------

OF_CAMPAIGNS = ("heldout", "called", "known", "two", "told", "at_once")  # goals of recorded ones


@pytest.fixture(scope="module")
def recorded():
    return page.Page(truth.read(calibration.recorded()))  # each campaign takes a second to open


def reached(figures, **changed):
    """{goal: whether it is reached} with some of the figures changed."""
    return calibration.Calibration(figures | changed).goals.set_index("goal")["reached"]


def test_the_recorded_figures_are_those_of_the_rule_as_it_is(recorded):
    facts = recorded.figures["facts"]
    assert facts["rule"] == truth.fingerprint(), "run `noisefloor calibrate` and commit its figures"
    assert facts["campaigns"] >= 10_000
    assert facts["seed"] == truth.CELLS["seed"]
    assert facts["full"]
    assert sum(f.stat().st_size for f in calibration.recorded().iterdir()) < 1e6


def test_the_recorded_cells_are_the_full_cross_product(recorded):
    cells = recorded.figures["cells"]
    columns = ["noise", "dependence", "drift", "blocks", "name"]
    kinds = Counter(cells[columns].itertuples(index=False, name=None))
    lists = (truth.CELLS["cells"][c] for c in columns[:-1])
    names = [s["name"] for s in truth.CELLS["cells"]["scatter"]]
    assert kinds == Counter(itertools.product(*lists, names))
    assert len(cells) == 432
    assert (cells["n"] >= 10_000).all()


def test_every_goal_of_the_rule_is_reached(recorded):
    goals_of_figures = [g["name"] for g in goals.GOALS if g["by"] not in OF_CAMPAIGNS]
    assert set(recorded.goals.set_index("goal")["reached"][goals_of_figures]) == {"yes"}


def test_goals_compare_what_they_say(recorded):
    cells, rows = recorded.figures["cells"], recorded.goals.set_index("goal")
    share = cells["covered"] / cells["n"]
    row = rows.loc["The 95 % interval holds the truth"]
    assert row["measured"].startswith(f"least {100 * share.min():.1f} %")
    worst = cells.loc[share.idxmin()]
    assert row["where"].endswith(goals.cell_name(worst))
    high = scipy_stats.binomtest(int(worst["covered"]), int(worst["n"])).proportion_ci(0.998).high
    assert row["bound"] == f"at most {100 * high:.1f} %"
    wrong = (cells["larger_0"] + cells["smaller_0"]) / cells["n"]
    row = rows.loc["Equal servers: a difference is named"]
    assert row["measured"] == f"median {100 * wrong.median():.1f} %, most {100 * wrong.max():.1f} %"


@pytest.mark.parametrize(
    ("changed", "goal"),
    [
        ({"covered": 9300}, "The 95 % interval holds the truth"),
        ({"larger_0": 700}, "Equal servers: a difference is named"),
        ({"same_2": 700}, "A change as large as the margin: called same, or the other way"),
        ({"together": 9300}, "Four thread counts hold it together"),
    ],
)
def test_one_bad_cell_misses_its_goal(recorded, changed, goal):
    cells = recorded.figures["cells"].copy()
    for name, count in changed.items():
        cells.loc[7, name] = count
    assert reached(recorded.figures, cells=cells)[goal] == "no"


def test_a_cell_that_is_low_by_chance_alone_misses_nothing(recorded):
    cells = recorded.figures["cells"].assign(covered=9385)  # 93.9 %, of 10,000
    assert reached(recorded.figures, cells=cells)["The 95 % interval holds the truth"] == "yes"
    wide = recorded.figures["cells"].assign(covered=9750)
    assert reached(recorded.figures, cells=wide)["The 95 % interval holds the truth"] == "no"


def test_mistakes_of_files_and_mutants_are_seen(recorded):
    files = recorded.figures["files"].assign(slower=700)
    assert (
        reached(recorded.figures, files=files)["Files: equal servers are called faster or slower"]
        == "no"
    )
    mutants = recorded.figures["mutants"].assign(count=500)
    assert (
        reached(recorded.figures, mutants=mutants)[
            "Every mistake that is built into the rule shows"
        ]
        == "no"
    )


# --- a small calibration ----------------------------------------------------------------------------


def test_the_command_runs_a_small_calibration_and_writes_nothing():
    def kept():
        return {p: p.stat().st_mtime_ns for p in calibration.recorded().iterdir()}

    before = kept()
    printed = conftest.noisefloor("calibrate", "--small", "--seed", "2", "--json").stdout
    said = json.loads(printed[printed.index("{") :])
    assert (said["seed"], said["cells"]) == (2, math.ceil(432 / 25))
    rates = [
        g
        for g in said["goals"]
        if g["goal"].startswith(("Equal servers: a difference is named", "A change"))
    ]
    for goal in rates[:1]:  # 1,000 campaigns a cell: three standard errors of room
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
    monkeypatch.setattr(truth.inspect, "getsource", lambda m: source(m).replace("0.1", "0.2"))
    assert truth.fingerprint() != whole
    level = ("ALPHA = 0.05", "ALPHA = 0.10")
    monkeypatch.setattr(truth.inspect, "getsource", lambda m: source(m).replace(*level))
    assert truth.fingerprint() != whole


def test_fingerprint_is_the_same_whatever_fields_a_python_knows():
    assert truth._shape(ast.parse("def f(): ...").body[0])[:2] == ["FunctionDef", ("name", "f")]
    assert "list" not in repr(truth._shape(ast.parse("def f(): ...")))  # of decorators, of types


def test_rivals_decide_as_they_are_documented_and_fail_where_ours_holds():
    assert rivals.welch([1.00, 1.12, 0.93], [1.10, 1.21, 1.04]) > 0.05  # 10 % apart, three runs
    assert rivals.benchstat([1.0, 1.1, 1.2], [2.0, 2.1, 2.2]) == 1  # four samples are needed
    exact = rivals.benchstat([1.0, 1.1, 1.2, 1.3], [2.0, 2.1, 2.2, 2.3])
    assert exact == pytest.approx(2 / 70)  # 2 of the 70 orders
    given = {"drift": "linear", "cv": 0.015, "runs": 10, "seconds": 60}
    *others, ours = rivals.rates(given, 1500, np.random.default_rng(1)).values()
    assert min(others) > 0.4 * 1500
    assert rivals.bounds(ours, 1500)[0] < 0.05


# --- live campaigns, built with a known truth ------------------------------------------------------


def slow(arm, metric):
    """The log change of an arm whose heaviest one really costs 40 %."""
    change = math.log1p(0.4 * live.rounds(arm) / 7200)
    return -change if metric == "tps" else change


def campaign(question="injected", effect=slow, *, sd=0.01, block_sd=0.0, blocks=12, size=5, metrics=live.JUDGED, threads=(4,), seed=1):  # fmt: skip
    """A Results of a calibration question whose arms have these true log changes."""
    rng = np.random.default_rng(seed)
    chosen = studies.load(Request("calibration", question, profile="standard"))
    (work,) = (replace(w, threads=threads) for w in chosen.workloads)
    chosen, rows = replace(chosen, workloads=(work,)), []
    for (block, arm), t in itertools.product(enumerate(chosen.arms * blocks), threads):
        jump = dict(zip(metrics, rng.normal(0, block_sd, len(metrics)), strict=True))
        for pair, position in itertools.product(range(size), range(2)):
            key = {
                "study": "calibration", "campaign": question, "workload": work.name, "threads": t,
                "block": block, "pair": pair, "pair_id": f"{t}-{block}-{pair}", "warmup": False,
                "arm": (chosen.baseline.name, arm.name)[position], "position": position,
                "run": f"{t}-{block}-{pair}-{position}", "slice_s": 3,
            }  # fmt: skip
            for metric in metrics:
                change = (effect(arm, metric) + jump[metric]) * position
                value = math.exp(change + rng.normal(0, sd / math.sqrt(2)))
                rows.append(key | {"metric": metric, "value": value, "unit": ""})
    table = pd.DataFrame(rows).astype({"threads": "Int64"})
    opened = tidy.Opened(Path(f"calibration-{question}-built"))
    opened.tidy_runs = tidy.TidyRuns(table, [], {})
    out = results.Results(opened.folder)
    runs = table.drop_duplicates("run").assign(warnings="")
    meta = {"engine": {"label": "MySQL 9.7.4"}, "host": {"cpu": "a CPU", "cores": 2}}
    meta |= {"created": f"2026-01-{seed:02}", "asks": question, "spent_s": 540.0}
    vars(out).update(study=chosen, opened=opened, runs=runs, meta=meta)
    return out


def identical(question="aa", **more):
    return campaign(question, lambda arm, metric: 0.0, **more)


@pytest.mark.parametrize(("sd", "upper"), [(0.734, 2.044), (1.0, 1.2), (2.0, 2.02)])
def test_the_bound_implies_its_degrees_of_freedom(sd, upper):
    df = tables.implied_df(sd, upper)
    assert df * sd**2 / scipy_stats.chi2.ppf(0.05, df) == pytest.approx(upper**2)


def test_what_is_measured_on_this_machine_is_what_is_read_here(recorded, tmp_path, monkeypatch):
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(tmp_path))
    shipped = scatter.start_scatter("tps")
    opened = {
        "aa": identical(block_sd=0.03, threads=(1, 4)),
        "switched": identical("switched", sd=0.03, threads=(1, 4)),
        "injected": campaign(sd=0.002),
    }
    opened |= {q: at_once(q, 1.0) for q in studies.questions("calibration") if "rate-" in q}
    monkeypatch.setattr(results, "load", {r.folder: r for r in opened.values()}.get)
    monkeypatch.setattr(collect, "measure_study", lambda asked: (opened[asked.question].folder,))
    monkeypatch.setattr(calibration, "measure", lambda *given, **more: recorded.figures)
    monkeypatch.setattr(heldout, "comparisons", lambda opened: [])
    printed = conftest.done("calibrate", "--small", "--live")
    assert "Identical servers are called different: 0 of" in printed
    written = json.loads((tmp_path / "floor.json").read_text())
    own = scatter.start_scatter("tps")
    assert own != shipped
    assert (100 * own.cv, own.df) == pytest.approx((written["tps"]["cv_pct"], written["tps"]["df"]))
    assert own.cv == pytest.approx(0.03 / math.sqrt(2), rel=0.5)
    assert scatter.start_scatter("mean_latency").cv == own.cv
    for entry in (written[metric] for metric in live.JUDGED):
        assert entry["lo_pct"] <= entry["cv_pct"] <= entry["upper_pct"] <= entry["hi_pct"]
    alone = json.loads((tmp_path / "levels.json").read_text())["tps"]["cv_pct"]
    assert scatter.start_scatter("tps", "levels").cv == pytest.approx(alone / 100)
    assert scatter.start_scatter("backup_size", "levels") is None
    noise = json.loads((tmp_path / "noise.json").read_text())
    both = noise["oltp_read_write"]["tps"]["4"]
    assert noise["calibration: read/write"]["tps"]["4"] == pytest.approx(2.2, rel=0.2)
    assert scatter.pair_sds(("unheard of", "oltp_read_write"), "tps", [4]) == {4: both}
    assert not (tmp_path / "tau.json").exists()


def test_a_full_disk_leaves_the_tables_as_they_were(tmp_path):
    """A file may have 100 bytes, as on a disk that fills up while it is written."""
    calibration.write_tables([identical(block_sd=0.03)], tmp_path, machine=True)
    before = {name: (tmp_path / name).read_bytes() for name in ("noise.json", "floor.json")}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            calibration.write_tables([identical(block_sd=0.01)], tmp_path, machine=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_what_is_too_short_decides_nothing(tmp_path):
    with pytest.raises(live.TooShort, match="11 blocks of 12"):
        calibration.write_tables([identical(blocks=11)], tmp_path, machine=True)
    with pytest.raises(live.TooShort, match="two identical servers"):
        calibration.write_tables([campaign()], tmp_path)
    with pytest.raises(live.TooShort, match="5 whole blocks"):
        live.slowdowns([campaign(blocks=5)])
    with pytest.raises(live.TooShort, match="2 blocks of 2 pairs"):
        tables.squares(np.ones(6), np.zeros(6), np.zeros(6))
    assert not [*tmp_path.iterdir()]


def test_an_estimate_of_zero_is_written_as_it_is_and_takes_the_largest_of_the_others():
    built = identical(block_sd=0.02, metrics=("tps", "p99"))
    values = built.tidy["metric"] == "p99"
    middle = built.tidy[values].groupby(["block", "arm"])["value"].transform("mean")
    overall = built.tidy[values].groupby("arm")["value"].transform("mean")
    built.tidy.loc[values, "value"] *= overall / middle  # no block differs
    written = tables.floor(built)
    assert (written["p99"]["cv_pct"], written["p99"]["df"]) == (0, None)
    entries = {k: v for k, v in written.items() if isinstance(v, dict)}
    assert scatter.start_scatter("p99", entries).cv == pytest.approx(written["tps"]["cv_pct"] / 100)


def test_the_floor_of_several_campaigns_counts_one_whose_estimate_is_below_zero():
    above, below = (11, 0.0010, 0.0005, 100), (11, 0.0001, 0.0005, 100)
    assert tables.beyond([below])["cv_pct"] == 0
    assert tables.beyond([above])["cv_pct"] == pytest.approx(100 * math.sqrt(0.0005 / 2))
    assert tables.beyond([above, below])["cv_pct"] == pytest.approx(100 * math.sqrt(0.00005 / 2))
    noisy = (11, 0.0040, 0.0050, 100)  # its pairs tell a hundredth as much
    weighted = (0.0005 - 0.0010 / 100) / 1.01
    assert tables.beyond([above, noisy])["cv_pct"] == pytest.approx(100 * math.sqrt(weighted / 2))


@pytest.mark.parametrize("cv_pct", [0.0, 0.7, 1.5])
def test_the_floor_of_several_campaigns_holds_the_truth(cv_pct):
    rng, real = np.random.default_rng(3), 2 * (cv_pct / 100) ** 2
    shapes = [(57, 0.0016, 142), (11, 0.0013, 288), (11, 0.0005, 240), (23, 0.0018, 96)]
    bounds = pd.DataFrame(
        tables.beyond(
            [
                (k, (real + share) * rng.chisquare(k) / k, share * rng.chisquare(free) / free, free)
                for k, share, free in shapes
            ],
            seed=seed,
            draws=2000,
        )
        for seed in range(150)
    )
    assert ((bounds["lo_pct"] <= cv_pct) & (cv_pct <= bounds["hi_pct"])).mean() > 0.91
    assert (bounds["upper_pct"] >= cv_pct).mean() > 0.91


def test_squares_tell_pairs_from_starts():
    rng = np.random.default_rng(4)
    block = np.repeat(np.arange(400), 4)
    d = rng.normal(0, 0.01, 400)[block] + rng.normal(0, 0.02, 1600)
    k, between, share, free = tables.squares(d, block, np.zeros(1600))
    assert (k, free) == (399, 1200)
    assert share == pytest.approx(0.02**2 / 4, rel=0.1)
    assert between - share == pytest.approx(0.01**2, rel=0.25)
    both = tables.squares(np.r_[d, d], np.r_[block, block], np.repeat([1, 4], 1600))
    assert both == pytest.approx((399, between, share, 2400))  # a start serves both thread counts


def test_noise_is_the_scatter_of_a_pair_around_its_block():
    one = identical(sd=0.01, block_sd=0.05)
    two = identical("switched", sd=0.03, blocks=10, size=1, seed=2)
    short, slower = identical(sd=0.5, blocks=4, size=1), campaign(sd=0.02, blocks=4)
    alone = tables.noise([one])["calibration: read/write"]["tps"]
    assert alone == {"4": pytest.approx(1.0, rel=0.2)}  # not 5: the starts
    every = tables.noise([one, two, short, slower])
    mixed = math.sqrt((48 * 1.0**2 + 9 * 3.0**2) / 57)
    assert every["calibration: read/write"]["tps"]["4"] == pytest.approx(mixed, rel=0.3)
    arm = every["calibration: read/write, 4 threads"]["tps"]["4"]  # an arm's effect is not in it
    assert arm == pytest.approx(2.0, rel=0.2)
    assert every["source"] == "pairs of 4 campaigns"


def test_known_slowdowns_follow_from_the_heaviest_arm():
    table = live.slowdowns([campaign(blocks=24)])
    assert set(table["arm"]) == {"+3 %", "+15 %"}
    assert table["pieces"].tolist() == [4] * 4
    assert table["covered"].sum() >= 14
    cpu = table[(table["arm"] == "+15 %") & (table["metric"] == live.CPU)].iloc[0]
    assert cpu["truth_pct"] == pytest.approx(15, abs=0.5)
    assert cpu["lo_pct"] < 15 < cpu["hi_pct"]
    assert cpu["verdict"] == "more"
    tps = table[(table["arm"] == "+15 %") & (table["metric"] == "tps")].iloc[0]
    assert (tps["truth_pct"], tps["verdict"]) == (pytest.approx(-13, abs=0.5), "slower")


def at_once(question, share, sizes={"+10 %": 0.1, "+30 %": 0.3, "+100 %": 0.7}):  # noqa: B006
    """A campaign at a rate that tells this share of the true log changes."""
    effect = lambda arm, metric: share * sizes.get(arm.name, 0.0)  # noqa: E731
    return campaign(question, effect, metrics=live.SIZES, threads=(64,), sd=0.002)


def test_how_much_of_known_work_two_servers_at_once_tell():
    opened = [at_once("rate-work", 0.8), at_once("rate-cores", 1.0), at_once("rate-alone", 1.0)]
    table = live.at_rate(opened).set_index(["arrangement", "arm", "metric"])
    for arm in ("+30 %", "+100 %"):
        for metric in live.SIZES:
            assert table.loc[("shared cores", arm, metric), "told_pct"] == pytest.approx(80, abs=3)
            apart = table.loc[("a core for each, swapped", arm, metric)]
            assert apart["told_pct"] == pytest.approx(100, abs=3)
            assert apart["truth_pct"] == pytest.approx(apart["change_pct"], rel=0.05)
    alone = live.at_rate([opened[0]])
    assert alone["told_pct"].isna().all(), "nothing says how large the work is"


def test_the_share_that_is_told_is_that_of_all_arms_with_its_interval():
    work, alone = at_once("rate-work", 0.7), at_once("rate-alone", 1.0)
    told = live.recovered_share([work, alone])
    assert told.pop("source") == f"{work.folder.name} against {alone.folder.name}"
    assert told.keys() == set(live.SIZES)
    for share in told.values():
        assert share["lo_pct"] < 70 < share["hi_pct"]
        assert share["share_pct"] == pytest.approx(70, abs=1)
    nothing = at_once("rate-alone", 0.001)  # an effect of which nobody knows how large it is
    assert live.recovered_share([work, nothing]).keys() == {"source"}
    assert live.recovered_share([work]) == {}


def test_a_sleep_is_known_by_construction():
    r = at_once("rate-sleep", 1.0, {"1 ms of sleep": math.log(1.001)})
    row = live.at_rate([r]).set_index("metric").loc["mean_latency"]
    assert row["truth_pct"] == pytest.approx(0.1, rel=0.02)  # a mean of a second, here
    assert row["told_pct"] == pytest.approx(100, abs=150)
    same = live.at_rate([at_once("rate-same", 0.0)])
    assert (same["truth_pct"] == 0).all()
    with pytest.raises(live.TooShort, match="two servers at once"):
        live.at_rate([])


def test_identical_servers_are_called_by_their_joint_rows_or_thread_counts():
    rows = live.called(
        [identical(threads=(1, 4)), identical("switched"), campaign()], control=False
    )
    assert set(rows["design"]) == {"side by side", "switched"}
    assert len(rows[rows["design"] == "switched"]) == 2
    own = rows[rows["design"] == "side by side"]
    for _, part in own.groupby("metric"):
        assert part["threads"].tolist() in (["all"], [1, 4])
    with pytest.raises(live.TooShort, match="the same twice"):
        live.called([identical()], control=True)


def test_identical_servers_at_once_are_called_by_processor_time_and_p99():
    """At most each server's rate is reached: p99 stands for throughput. Under full load it does not."""
    for share, verdicts in ((0.0, {"same"}), (1.0, {"more", "slower"})):
        r = at_once("rate-same", share, {"other server": 0.3})
        rows = live.called([r], control=False)
        assert set(rows["metric"]) == {live.CPU, "p99"}
        assert set(rows["verdict"]) == verdicts
    full = live.called([identical(metrics=("tps", "p99"))], control=False)
    assert set(full["metric"]) == {"tps"}


def test_more_alarms_of_controls_than_equal_arms_raise_are_a_goal_missed():
    words = pd.Series(["slower", "faster", "same", *["cannot tell"] * 19], name="verdict")
    goal = {"rows": "controls"}
    for more, within in ((1, True), (2, False)):  # of 22, 3 may
        said = pd.concat([words[:-more], pd.Series(["more"] * more)], ignore_index=True)
        rows = SimpleNamespace(controls=pd.DataFrame({"verdict": said, "campaign": "c"}))
        measured, bound, _, word = goals.MEASURES["called"](rows, goal)
        assert (measured, bound, word) == (f"{2 + more} of 22", "at most 3", within)


def of_kind(by):
    """The goals of a kind, each with what measures it."""
    return [(g, goals.MEASURES[by]) for g in goals.GOALS if g["by"] == by]


@pytest.mark.parametrize(("share", "whole"), [(0.95, True), (0.7, False)])
def test_a_size_of_which_some_is_missing_is_a_goal_missed(share, whole):
    """On shared cores, as pages measure; the other arrangements decide nothing."""
    others = at_once("rate-cores", 0.5), at_once("rate-arrivals", 0.5), at_once("rate-alone", 1.0)
    c = calibration.Calibration({}, (at_once("rate-work", share), *others))
    ((goal, measure),) = of_kind("told")
    measured, bound, where, reached = measure(c, goal)
    assert reached == whole
    least, most = map(float, re.findall(r"(\d+) %", measured))
    assert least == pytest.approx(100 * share, abs=2) == most
    low, high = map(float, re.findall(r"\d+", bound))
    assert low <= least <= high
    assert where.startswith("least of 9: ")
    with pytest.raises(live.TooShort, match="known work"):
        measure(calibration.Calibration({}, (at_once("rate-work", share),)), goal)


@pytest.mark.parametrize(("start", "narrow"), [(0.0, True), (0.05, False)])
def test_identical_servers_at_once_whose_interval_is_wide_are_a_goal_missed(start, narrow):
    same = identical("rate-same", metrics=live.SIZES, threads=(64,), sd=0.002, block_sd=start)
    c = calibration.Calibration({}, (same,))
    table = same.alone().set_index("metric")
    for goal, measure in of_kind("at_once"):
        measured, _, where, reached = measure(c, goal)
        row = table.loc[goal["metric"]]
        half = round((row["hi_pct"] - row["lo_pct"]) / 2, 1)
        assert measured == f"±{half:g}\u202f% after 9 minutes"
        assert (reached, where) == (narrow, same.folder.name)
        with pytest.raises(live.TooShort, match="at once"):
            measure(calibration.Calibration({}, (at_once("rate-work", 1.0),)), goal)


# --- repeats, held out ------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def _designs():
    """The design of a campaign that is made here is what it asks."""
    real = design.design_of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            design, "design_of", lambda m: {"asks": m["asks"]} if "asks" in m else real(m)
        )
        yield


def sat(question, *sittings, study="binlog-encryption", threads=(1, 4), joint=True, metric="tps"):
    """Opened campaigns of a question, one a sitting: their log changes, by thread count the same."""
    chosen = studies.load(Request(study, question, profile="standard"))
    for n, change in enumerate(sittings):
        places = [(t, False) for t in threads] + [(pd.NA, True)] * joint
        rows = [
            {"workload": chosen.workloads[0].name, "metric": metric, "threads": t, "joint": whole,
             "arm": chosen.arms[0].name, "baseline": chosen.baseline.name, "control": False,
             "change_pct": 100 * math.expm1(change), "lo_pct": 100 * math.expm1(change - 0.02),
             "hi_pct": 100 * math.expm1(change + 0.02), "together": 1, "blocks": 10}
            for t, whole in places
        ]  # fmt: skip
        yield SimpleNamespace(
            study=chosen, folder=Path(f"{question}-{n}"), processor="a CPU",
            meta={"created": f"2026-01-{n:02}", "host": {"boot": f"boot {n}"}, "asks": question},
            alone=lambda rows=rows: pd.DataFrame(rows, columns=stats.row.COLUMNS), judged=lambda rows=rows: rows,
        )  # fmt: skip


def test_a_comparison_is_the_joint_row_or_the_most_threads_that_all_campaigns_have():
    (one,) = heldout.comparisons(sat("headline", 0.01, 0.02))
    assert (one.study, one.question, one.metric, one.instrument) == (
        "binlog-encryption", "headline", "tps", "sysbench"
    )  # fmt: skip
    assert [c.effect for c in one.sittings] == pytest.approx([0.01, 0.02])
    error = 0.02 / scipy_stats.t.ppf(0.975, 9)
    assert [math.sqrt(c.variance) for c in one.sittings] == pytest.approx([error] * 2)
    mixed = [*sat("headline", 0.01), *sat("headline", 0.5, 0.5, joint=False, threads=(4, 16))][::2]
    (same,) = heldout.comparisons(mixed)
    assert [c.effect for c in same.sittings] == pytest.approx([0.01, 0.5])
    assert not heldout.comparisons(sat("headline", 0.01, threads=(), joint=False))


def test_campaigns_of_one_sitting_count_once_and_those_of_another_design_apart():
    first, second = sat("headline", 0.01, 0.03)
    second.meta["host"] = first.meta["host"]
    (one,) = heldout.comparisons([first, second])
    assert [c.effect for c in one.sittings] == pytest.approx([0.02])
    second.meta["asks"] = "another"
    assert len(heldout.comparisons([first, second])) == 2


def test_a_repeat_is_predicted_from_those_before_it_and_never_from_itself():
    near, far = sat("headline", 0.0, 0.01, 0.01), sat("throttled", 0.0, 0.3)
    repeats = heldout.held_out(heldout.comparisons([*near, *far]))
    assert repeats["question"].tolist() == ["headline"] * 2 + ["throttled"]
    assert repeats["inside"].tolist() == [True, True, False]
    assert repeats["inside_tau"].tolist() == [True, True, False]  # the others scatter little
    assert repeats["half_pct"].iloc[0] == pytest.approx(2 * math.sqrt(2), rel=0.1)
    (row,) = heldout.summary(repeats, "instrument").itertuples()
    assert (row.repeats, row.inside) == (3, 2)
    low = scipy_stats.binomtest(2, 3).proportion_ci(0.95).low
    assert row.lo_pct == pytest.approx(100 * low)


def test_a_percentile_is_predicted_no_closer_than_half_a_bucket():
    sittings = tuple(combine.Campaign(x, 1e-8, 9) for x in (0.0, 0.4 * BUCKET))
    for metric, inside in (("p99", True), ("tps", False)):
        one = heldout.Repeats("a study", "a question", "a CPU", "sysbench", metric, sittings)
        (row,) = heldout.held_out([one]).itertuples()
        assert (row.inside, row.inside_tau) == (inside, inside)
        assert (row.half_pct == pytest.approx(50 * BUCKET)) == inside


def test_tau_is_that_of_all_questions_with_repeats():
    opened = [*sat("headline", 0.0, 0.1), *sat("throttled", 0.0, 0.12), *sat("replica", 0.05)]
    table = tables.tau(opened)
    entry = table["sysbench"]["tps"]
    assert (entry["questions"], entry["sittings"]) == (2, 4)
    every = [c.sittings for c in heldout.comparisons(opened)]
    assert entry["value"] == pytest.approx(combine.estimate_tau(every).value, abs=1e-6)
    assert table["source"] == "5 campaigns"


# --- the shipped tables -----------------------------------------------------------------------------


def shipped(name):
    return json.loads(paths.noise_file(name, local=False).read_text())


def test_the_shipped_tables_are_read():
    names = ("tablespace-encryption: larger than memory", "oltp_read_only")
    known = shipped("noise")[names[0]]["tps"]
    sds = scatter.pair_sds(names, "tps", [1, 4, 500])
    assert sds == {1: known["1"], 4: known["4"], 500: known["64"]}  # the nearest one recorded
    assert scatter.pair_sds(("unheard of",), "tps", [1, 4]) == {}
    for name in ("floor", "levels", "noise", "tau"):
        assert len(shipped(name)["source"]) < 200
    for entries in (e for e in shipped("tau").values() if isinstance(e, dict)):
        for entry in entries.values():
            assert entry["sittings"] >= 2 * entry["questions"] > 0
            assert 0 <= entry["df"] <= entry["sittings"] - entry["questions"] + 0.01


@pytest.mark.slow
def test_the_shipped_tables_are_those_of_the_recorded_campaigns(tmp_path):
    calibration.write_tables(calibration.open_calibration().opened, tmp_path)
    for name in ("floor", "levels", "noise", "tau", "recovered"):
        assert json.loads((tmp_path / f"{name}.json").read_text()) == shipped(name)


# --- the page ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(recorded):
    """With campaigns of every kind but an A/A control."""
    built = [identical(block_sd=0.005, threads=(1, 4)), campaign(sd=0.005), identical("switched")]
    built += [at_once("rate-sleep", 1.0), at_once("rate-work", 0.9)]
    c = page.Page(recorded.figures, tuple(built))
    vars(c).update(
        repeats=heldout.held_out(
            heldout.comparisons(
                [
                    *sat("headline", 0.0, 0.01),
                    *sat(
                        "login", 0.0, 0.3, study="ssl-connections", metric="connections_per_second"
                    ),
                ]
            )
        ),
        controls=c.identical,
    )
    return c


@pytest.mark.parametrize("name", page.TABLES)
def test_sections_show_what_there_is_and_say_what_there_is_not(whole, recorded, name):
    if name != "scatter-between-sittings":
        markup = whole.table(name, "Words.").markup
        assert "nf-table" in markup
        assert "nan" not in markup.split("</table>")[0].lower()
    bare = recorded.table(name, "Words.").markup
    live_ones = ("identical", "controls", "slowdowns", "repeats", "scatter", "at-a-rate")
    assert ("nf-table" in bare) is not name.startswith(live_ones)


@pytest.mark.parametrize(
    ("cores", "words"),
    [
        (0.5, "No arrangement showed at least 90 % of every known size; closest to 100 % were shared "
        "cores (70 to 70 %), then a core for each, swapped (50 to 50 %), then the same arrivals (40 to "
        "40 %)."),
        (0.95, "Only a core for each, swapped showed at least 90 % of every known size; closest to 100 % "
        "were a core for each, swapped (95 to 95 %), then shared cores (70 to 70 %), then the same "
        "arrivals (40 to 40 %)."),
    ],
)  # fmt: skip
def test_the_page_says_how_it_measures_why_and_how_much_of_a_size_is_missing(cores, words):
    opened = [at_once("rate-work", 0.7), at_once("rate-cores", cores)]
    alone = at_once("rate-alone", 1.0)  # which has no p99
    vars(alone)["tidy"] = alone.tidy[alone.tidy["metric"].ne("p99")]
    opened += [at_once("rate-arrivals", 0.4), alone]
    text = page.Page({}, tuple(opened)).shipped.text.replace("\u202f", " ")
    assert text.strip() == (
        "Pages measure on shared cores, with different arrivals at each server: the simplest arrangement. "
        f"{words} How much too small a difference can be on a page: CPU per transaction up to 30 %, mean "
        "latency up to 30 %; for p99 latency this is not known."
    )


def test_pages_measure_as_the_calibration_says(recorded):
    work = studies.load(Request("calibration", "rate-work")).workloads[0]
    assert (work.cores, work.arrivals) == ("shared", "own")
    others = {f.stem: f.read_text() for f in Path(studies.__file__).parent.glob("*.toml")}
    set_by = {name for name, text in others.items() if re.search("^(cores|arrivals) =", text, re.M)}
    assert set_by == {"calibration"}
    assert not recorded.shipped.markup


def test_figures_are_drawn(recorded):
    for value in ("different_pct", "same_pct", "covered_pct"):
        assert "<svg" in recorded.strip(value, "A title", "Words.", limit=6.0, axis="x").markup
    assert "<svg" in recorded.power_figure("Words.").markup


def test_the_page_begins_with_four_sentences(whole, recorded):
    wolf, finds, repeat, trust = whole.sentences
    # medians of the recorded cells, of each scatter the lines of the figure
    false = whole.cells.groupby("scatter")["different_pct"].median()
    at = whole.power.set_index("truth_pct")["named"]
    assert wolf == (
        f"Noisefloor raises {false.min():.0f} to {false.max():.0f} false alarms in 100 measurements "
        "of identical servers."
    )
    assert finds == (
        f"Of 100 real 2 % differences it typically finds {at[2].min():.0f} to {at[2].max():.0f}, "
        f"of 4 % differences {at[4].min():.0f} to {at[4].max():.0f}."
    )
    assert repeat == (
        "Real results, measured again: 1 of 2 fell into the range given before (50 %; goal 90 %)."
    )
    assert trust == "Results for connections change with each reboot: trust several."
    assert all(s in whole.box.text for s in whole.sentences)
    shown = html.unescape(re.sub("<[^>]+>", " ", whole.box.markup)).replace("\u202f", " ")
    n = int(whole.cells["n"].sum())
    did = f"What to do: {page.ADVICE}. {n:,} simulated measurements, 20"
    assert did in " ".join(shown.split())
    *_, unknown, nothing = recorded.sentences
    assert unknown == "Whether a repeat falls into its range is not known."
    assert nothing == "Do not trust the results of one boot."
    for sentence in (*whole.sentences, *recorded.sentences):
        assert len([word for word in sentence.split() if re.search(r"\w", word)]) <= 20
    said = f"How far can these results be trusted? {shown}"
    assert len([word for word in said.split() if re.search(r"\w", word)]) <= 90, said


def test_the_first_sentences_are_the_lines_of_the_figure(recorded):
    """At 0 % in both directions: each false alarm counts."""
    cells = recorded.figures["cells"].copy()
    quiet = cells["name"] == "quiet"
    cells["larger_0"], cells["smaller_0"] = cells["n"] * 0.03, cells["n"] * 0.04
    cells["larger_4"] = cells["n"] * quiet.map({True: 1.0, False: 0.9})
    c = page.Page(recorded.figures | {"cells": cells})
    assert set(c.power.query("truth_pct == 0")["named"].round(6)) == {7.0}
    assert "raises 7 to 7 false alarms" in c.sentences[0]
    assert c.sentences[1].endswith("of 4 % differences 90 to 100.")
    lines = ["quiet machine", "noisy machine", "restarts differ"]
    assert c.power["scatter"].unique().tolist() == lines


def test_what_the_sentences_rest_on_stands_below_them(whole, recorded):
    details = whole.details
    n = len(whole.identical)
    assert f"Of {n} recorded comparisons of identical servers 0 name a difference." in details
    assert any(d.startswith("Of 1 repeats of connections 0 lie inside") for d in details)
    low, high = whole.power.query("truth_pct == 2")["named"].agg(["max", "min"])
    assert f"a real 2 % in {100 - low:.0f} to {100 - high:.0f} % of campaigns" in details[1]
    below = whole.behind.markup.replace("\u202f", " ")
    assert [d for d in details if d not in below] == []
    assert "seed" in below
    assert details[2:] != recorded.details[2:]  # which say why there is none


def test_every_missed_goal_is_named(whole):
    missed = whole.goals[whole.goals["reached"] == "no"]
    assert whole.headline == " ".join(whole.sentences)
    for goal in missed["goal"]:
        assert goal.replace(" %", "\u202f%") in whole.behind.markup


def test_goals_of_campaigns_that_are_not_there_are_not_measured(recorded):
    unknown = recorded.goals[recorded.goals["reached"] == "not measured"]
    assert len(unknown) == 7
    assert unknown["where"].str.contains("recorded|two sittings").all()


def test_a_campaign_that_is_not_there_is_named():
    with pytest.raises(paths.NotFound, match="nothing-of-the-kind"):
        calibration.open_calibration("nothing-of-the-kind")


def test_all_recorded_campaigns_that_came_to_their_end_are_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "recorded", lambda: tmp_path)
    monkeypatch.setattr(truth, "read", lambda folder: {})
    for name, ended in (("b", "2026-11-01T00:00"), ("a", "2026-11-02T00:00"), ("c", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "campaign.json").write_text(json.dumps({"finished": ended}))
    assert [r.folder.name for r in calibration.open_calibration().opened] == ["a", "b"]


def test_kin_of_a_workload_with_known_work_is_its_script():
    chosen = studies.load(Request("calibration", "aa"))
    assert schedule.kin(chosen, chosen.workloads[0])[1] == "oltp_read_write"
