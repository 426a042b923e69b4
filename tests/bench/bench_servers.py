"""What needs a server: the harness against bare sysbench, and the machine time to a verdict."""

import contextlib
import math
import os
import random
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench_rounds import Figure, Item, say
from noisefloor import model as study
from noisefloor import paths, schedule, studies
from noisefloor.data import compare, results, tidy
from noisefloor.measure import loading, workloads
from noisefloor.measure.campaign import POOLS, Campaign
from noisefloor.measure.folder import description, write_json
from noisefloor.measure.lock import alone
from noisefloor.measure.loop import DESIGNS
from noisefloor.measure.progress import Progress
from noisefloor.schedule import Cell
from noisefloor.servers import engines, innodb
from noisefloor.servers.sandbox import sandbox
from noisefloor.servers.server import Server
from noisefloor.stats import rule, scatter
from noisefloor.stats.estimate import Estimate, welch

PAIRS, SLICE_S = 30, 2  # of the harness
NEAR_PCT = 1.0
HALF = 0.5
RUNS, RUN_S = 10, 6  # the usual plan at a smaller scale, an arm
USUAL_S = 300  # a run of the usual plan
SLOWER, BUDGET_MIN = "+40 %", 0.7  # what is injected, and what one of our verdicts may take
DRAWS, USUAL = 1000, 200  # campaigns drawn, of our plan and of the usual one


@contextlib.contextmanager
def served(chosen: study.Study):
    """begin(study) -> (Campaign, ServerPool), with servers copied from one that is loaded once."""
    with tempfile.TemporaryDirectory(prefix="noisefloor-bench-") as runs, sandbox() as shop:
        say("loading a throwaway server")
        engine = engines.find("mysql")
        template = Server(engine, shop / "base", chosen.settings).initialise()
        with template:
            loading.fill_database(template, chosen)
            template.stop()
        with contextlib.ExitStack() as stack:

            def begin(asked: study.Study):
                folder = Path(runs) / f"c{len(os.listdir(runs))}"
                folder.mkdir()
                write_json(folder / "campaign.json", description(asked, engine, {}))
                campaign = Campaign(asked, folder, tidy.meta(folder), Progress())
                bench = POOLS[asked.kit](shop, {"": template}, asked)
                bench._count = 100 * len(os.listdir(runs))
                stack.callback(bench.close)
                return campaign, bench

            yield begin


def harness(quick: bool) -> Item:
    """TPS under the harness against bare sysbench on the same server, in coin-flipped pairs."""
    pairs = 6 if quick else PAIRS
    chosen = studies.load(study.Request("binlog-encryption", profile="quick"))
    cell = Cell(chosen.workloads[0], 4, chosen.baseline)
    with alone(say), served(chosen) as begin, tempfile.TemporaryDirectory() as texts:
        campaign, bench = begin(chosen)
        server = bench.fresh(chosen.baseline)
        server.start()
        bench.servers, campaign.block = [server], 0
        campaign.warm(bench, [(0, chosen.baseline)])
        argv = workloads.sysbench_argv(
            cell.workload, server.folder / "sysbench.cnf", tables=chosen.tables,
            rows=chosen.profile.rows, threads=4, seconds=SLICE_S,
        )  # fmt: skip

        def under(i: int) -> Path:
            name, place = f"pair-{i:03d}", {"pair": i, "position": 0, "slot": 0}
            made = campaign.slice(cell, chosen.baseline, SLICE_S, name, pair_id=name, **place)
            campaign.make_run(bench, made)
            return campaign.folder / name / "sysbench.txt"

        def bare(i: int) -> Path:
            innodb.settle(server, chosen.profile.settle_s)  # both begin with the same dirty pages
            file = Path(texts) / f"{i:03d}.txt"
            with open(file, "wb") as out:
                subprocess.run(argv, stdout=out, check=True)
            return file

        coin, logs = random.Random(time.time_ns()), {under: [], bare: []}
        for i in range(pairs):
            for side in coin.sample([under, bare], 2):
                logs[side].append(str(side(i)))
            if i % 10 == 9:
                say(f"harness: {i + 1} of {pairs} pairs")
        sides = compare.read_both(logs[bare], logs[under])
        rows = compare.rows(
            *sides, baseline="bare", arm="noisefloor", paired=True, restarts=True, margin_pct=NEAR_PCT
        )  # fmt: skip
    row = next(r for r in rows if r.metric == "tps")
    tps = [[r.values["tps"] for r in side] for side in sides]
    figure = Figure(
        "TPS under `noisefloor run` against bare sysbench",
        [b / a for a, b in zip(*tps, strict=True)],
        f"`same` within {NEAR_PCT:g} %",
        row.verdict == "same",
        f"`{row.verdict}`: {row.change_pct:+.2f} %, {row.lo_pct:+.2f} to "
        f"{row.hi_pct:+.2f} % ({pairs} coin-flipped pairs of {SLICE_S} s slices)",
    )
    if row.verdict == "cannot tell":
        needed = row.runs_needed
        figure.says += f"; {needed if needed > 0 else 'no number of'} pairs would decide it"
    return Item([figure])


def verdict(quick: bool) -> Item:
    """Machine time of our declared blocks against the usual 10 and 10 runs."""
    text = "| Truth | Plan | right | wrong | minutes |\n|---|---|---:|---:|---:|\n"
    figures, words = simulated(2 if quick else 5)
    item = Item(figures, text + words)
    item.figures.append(real(1 if quick else 5))
    return item


def simulated(rounds: int) -> tuple[list[Figure], str]:
    """Both plans on the noise of the newest recorded A/A campaign, at true differences of 0 and of
    the margin."""
    aa = results.load(max(paths.recorded().glob("calibration-aa-*")))
    pairs = aa.pairs(results.main_workload(aa), "tps", aa.study.arms[0].name)
    pairs = pairs[pairs["threads"] == 4]
    slice_s = aa.runs.loc[~aa.runs["warmup"], "slice_s"].median()
    margin_pct = study.METRICS["tps"].margin_pct
    usual_min, figures, lines = 2 * RUNS * USUAL_S / 60, [], ""
    for truth, word in ((0.0, "0 %"), (margin_pct, "the margin")):
        logs = math.log1p(truth / 100), math.log1p(margin_pct / 100)
        mine = [ours(pairs, slice_s, *logs, seed=i) for i in range(rounds)]
        theirs = [usual(pairs, slice_s, *logs, seed=i) for i in range(rounds)]
        # a plan that more often cannot tell is made again: minutes a right verdict, not a campaign;
        # one that is never right counts as if it were once, so the ratio is an upper bound
        ratios = [
            (minutes / max(right, 1 / DRAWS)) * (max(other, 1 / USUAL) / usual_min)
            for (right, _, minutes), (other, _) in zip(mine, theirs, strict=True)
        ]
        figures.append(
            Figure(
                f"minutes of measuring a right verdict on TPS costs, truth {word} (simulated from "
                "recorded runs)",
                ratios,
                f"at most {HALF}",
                float(np.median(ratios)) <= HALF,
            )
        )
        found = ("declared blocks", *np.mean(mine, axis=0))
        other = (f"{RUNS} and {RUNS} runs of {USUAL_S} s", *np.mean(theirs, axis=0), usual_min)
        for plan, right, wrong, minutes in (found, other):
            lines += f"| {word} | {plan} | {right:.1%} | {wrong:.1%} | {minutes:.0f} |\n"
        say(f"verdict: simulated, truth {word}: {found}")
    return figures, lines


def noise(pairs) -> np.ndarray:
    """What a slice of a recorded campaign scatters within its block, log scale."""
    within = pairs["change"] - pairs.groupby("block")["change"].transform("mean")
    return within.to_numpy() / math.sqrt(2)


def ours(pairs, slice_s: float, truth: float, margin: float, seed: int) -> tuple[float, ...]:
    """(share of right verdicts, of wrong ones, minutes) of a standard campaign of one comparison: its
    blocks, a start of both servers each, filled with pairs of recorded slices. Log scale."""
    rng, start, standard = (
        np.random.default_rng(seed),
        scatter.start_scatter("tps"),
        study.PROFILES["standard"],
    )
    block_s = 60 * standard.budget_min / standard.blocks - standard.warmup_s - schedule.STARTING_S
    size = (DRAWS, standard.blocks, int(block_s / 2 / (slice_s + schedule.LOST_S)), 2)
    drawn = rng.choice(noise(pairs), size)
    drawn = (drawn[..., 1] - drawn[..., 0]).mean(-1)
    drawn += rng.normal(0, math.sqrt(2) * start.cv, drawn.shape)
    code = rule.codes(*rule.block_interval(truth + drawn)[1:], margin)
    right = 1 if truth else 2
    wrong = ~np.isin(code, (right, 0))
    return float((code == right).mean()), float(wrong.mean()), standard.budget_min


def usual(pairs, slice_s: float, truth: float, margin: float, seed: int) -> tuple[float, float]:
    """(share of right verdicts, of wrong ones) of ten and ten runs of 300 s, each after a restart:
    a start's difference by the recorded scatter, and the mean of as many recorded slices."""
    rng, start = np.random.default_rng(seed), scatter.start_scatter("tps")
    runs = rng.choice(noise(pairs), (USUAL, 2, RUNS, round(USUAL_S / slice_s))).mean(-1)
    runs += rng.normal(0, start.cv, runs.shape)
    words = [
        Estimate(float(np.mean(b) - np.mean(a)) + truth, welch(a, b)).word("tps", margin)
        for a, b in runs
    ]
    right = "faster" if truth else "same"
    wrong = [w not in (right, "cannot tell") for w in words]
    return words.count(right) / USUAL, sum(wrong) / USUAL


def real(rounds: int) -> Figure:
    """A known slowdown on a real server: our verdicts, and the usual plan once."""
    chosen = studies.load(study.Request("calibration", "injected", profile="quick"))
    arm = next(a for a in chosen.arms if a.name == SLOWER)
    profile = replace(chosen.profile, budget_min=BUDGET_MIN)
    only = replace(chosen.workloads[0], metrics=("tps",), deciding=("tps",))
    chosen = replace(chosen, arms=(arm,), workloads=(only,), profile=profile)
    chosen = replace(chosen, design="switched")
    spent, words = [], []
    with alone(say), served(chosen) as begin:
        for i in range(rounds):
            campaign, bench = begin(chosen)
            DESIGNS["switched"](campaign, bench)
            bench.close()
            table = schedule.judge_campaign(
                chosen,
                campaign.table,
                campaign.plan,
                saturated={},
                pair_seconds=2 * chosen.profile.slice_s,
            )
            row = table[~table["control"]].iloc[0]
            words.append(row["verdict"])
            spent.append(campaign.meta["spent_s"])
            found = f"{row['change_pct']:+.1f} %, {row['lo_pct']:+.1f} to {row['hi_pct']:+.1f} %"
            say(
                f"verdict: round {i + 1} of {rounds}: {words[-1]} after {spent[-1]:.0f} s ({found})"
            )
        word, theirs, other = plan_of_ten(begin, chosen, arm)
    took = float(np.median(spent))
    said = ", ".join(f"{words.count(w)} × `{w}`" for w in dict.fromkeys(words))
    return Figure(
        f"seconds of measuring for real, work added that is called {SLOWER}, against {RUNS} and {RUNS} runs "
        f"of {RUN_S} s",
        [s / theirs for s in spent],
        f"at most {HALF}, and most verdicts right",
        took <= HALF * theirs and words.count("slower") > rounds / 2,
        f"{took:.0f} s, warm-ups and controls included ({said}; in the last round {found}), against "
        f"{theirs:.0f} s with one warm-up (`{word}`, {other})",
    )


def plan_of_ten(begin, chosen: study.Study, arm: study.Arm) -> tuple[str, float, str]:
    """(verdict on TPS, seconds of measuring, its change in words) of a warm-up, ten runs of one arm,
    then ten of the other."""
    _, bench = begin(chosen)
    server = bench.fresh(chosen.baseline)
    server.start()
    bench.servers = [server]
    workload = chosen.workloads[0]
    server.only(dict(workload.settings))
    logs, took = {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for a, runs in ((chosen.baseline, RUNS + 1), (arm, RUNS)):
            for i in range(runs):
                argv = workloads.sysbench_argv(
                    workload, server.folder / "sysbench.cnf", tables=chosen.tables,
                    rows=chosen.profile.rows, threads=workload.threads[0], seconds=RUN_S, options=a.options,
                )  # fmt: skip
                file = Path(folder) / f"{len(logs)}-{i}.txt"
                start = time.monotonic()
                with open(file, "wb") as out:
                    subprocess.run(argv, stdout=out, check=True)
                took += time.monotonic() - start
                logs.setdefault(a.name, []).append(str(file))
            say(f"verdict: {RUNS} runs of {RUN_S} s under {a.name!r}")
        names = (chosen.baseline.name, arm.name)
        sides = compare.read_both(logs[names[0]][1:], logs[names[1]])
        rows = compare.rows(*sides, baseline=names[0], arm=names[1], restarts=True)
    row = next(r for r in rows if r.metric == "tps")
    return row.verdict, took, f"{row.change_pct:+.1f} %"
