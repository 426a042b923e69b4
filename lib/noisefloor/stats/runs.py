"""Runs that are no campaign's (logs, archives, pairs from elsewhere) to verdict rows.

The same rows whoever asks: `compare`, `compare --from`, the explorer and the verdict table of runs
without pairs. No pandas and no scipy: the answer to a folder of logs has to be there at once."""

import math
from dataclasses import dataclass, field

from noisefloor.study import METRICS

from . import estimate, plan, scatter
from .estimate import CANNOT_TELL, FASTER, SLOWER, Estimate
from .graph import ALPHA, JOINT, Graph, sweep
from .row import row

PERCENTILES = ("p95", "p99")
# sysbench's histogram, as `parse.histogram` has it (importing that would import numpy)
BUCKET = math.log1p(0.01817)  # width of a bucket on the log scale
CLIP_S = 100.0  # its end
BUCKETS = "the percentiles lie in the same or the neighbouring histogram bucket (1.8 % wide)"
FEW = "too few pairs: Student's t decides, the signs of the pairs do not"
GIVEN = 11  # runs that a floor is taken to be known from
FLIPPED = 6  # pairs from which on their signs can reach 5 %
OPPOSITE = "the thread counts show opposite effects: read them one by one, not their average"


@dataclass(frozen=True)
class Side:
    """The runs of one arm at one thread count: values in base units, above 0; where there is one
    run, its values per second, if it has any."""

    values: tuple
    rates: object = None

    def __len__(self):
        return len(self.values)


@dataclass
class Cell:
    """One comparison before its family has spoken."""

    threads: object
    n: tuple
    estimate: Estimate
    sd: float = math.nan  # of one run, of one pair when paired
    only: str = ""  # why the verdict can only be `cannot tell`
    warnings: list = field(default_factory=list)
    single: object = None  # the population that single runs are held against
    signs: float = 0.0  # p of the sign flips of pairs

    @property
    def p(self):
        """Two-sided p of no difference; 1 when nothing is known about the scatter."""
        return max(self.estimate.p, self.signs)


def sign(metric):
    """+1 where a larger value is worse, else -1."""
    return -1 if metric not in METRICS or METRICS[metric].better == "higher" else 1


def positive(values, metric):
    """The values as floats; ValueError unless all are finite and above 0 (a ratio needs that)."""
    values = [float(v) for v in values]
    bad = [v for v in values if not (math.isfinite(v) and v > 0)]
    if bad:
        raise ValueError(
            f"{metric}: {bad[0]:g} has no logarithm (values must be above 0); nothing was judged"
        )
    return values


def judge(
    arms,
    *,
    metric,
    baseline,
    study="",
    workload="",
    margin_pct=2.0,
    paired=False,
    restarts=False,
    floor=None,
    own=True,
    seconds=None,
    notes=(),
    again="",
    alpha=ALPHA,
):
    """Verdict rows (dicts) of one metric of one workload: one family of 5 %.

    arms: {arm: {threads (None: unknown): (Side of the baseline, Side of the arm)}}. paired: the k-th
    values belong together. restarts: every run had a start of its own, so that no start-to-start
    scatter is added. floor: that scatter in percent, or entries by metric; own: look for this
    machine's. seconds: length of a run; again: name of an arm that is a copy of the baseline, a
    family of its own. ValueError for a value that has no logarithm."""
    asked = {"metric": metric, "paired": paired, "floor": floor, "seconds": seconds}
    asked["start"] = None if restarts else scatter.start(metric, floor, own)
    out = []
    for names in ([a for a in arms if a != again], [a for a in arms if a == again]):
        cells = {}
        for arm in names:
            found = [_cell(t, *sides, **asked) for t, sides in arms[arm].items()]
            if len(found) > 1 and (all_ := _joint(found, paired)):
                cells[arm, JOINT] = all_
            cells |= {(arm, place(c.threads)): c for c in found}
        for (arm, threads), c, level, word in decided(cells, margin_pct, metric, alpha):
            key = (study, workload, metric, baseline, arm)
            joint = threads is JOINT
            out.append(
                verdict_row(
                    c, key, level, word, joint, arm == again, margin_pct, paired, seconds, notes
                )
            )
    return out


def place(threads):
    return "" if threads is None else threads


def _cell(threads, a, b, *, metric, paired, floor, seconds, start):
    worse = sign(metric)
    x, y = ([math.log(v) for v in positive(side.values, metric)] for side in (a, b))
    n = len(x), len(y)
    value = worse * (math.fsum(y) / n[1] - math.fsum(x) / n[0])
    added = (start.part,) if start else ()
    if min(n) < 2:
        known = scatter.population(metric, threads, seconds)
        if isinstance(floor, (int, float)) and floor:
            known = scatter.Population((floor / 100,) * GIVEN, 0)
        return single_cell(threads, (x, y), value, (a, b), known, added)
    c = Cell(threads, n, None)
    if paired:
        d = [worse * (v - u) for u, v in zip(x, y, strict=True)]
        parts = estimate.paired(d)
        c.sd = math.sqrt(parts[0][0] * len(d))
        if len(d) >= FLIPPED:
            from .flips import flips

            c.signs = float(flips(d))
    else:
        parts = estimate.welch(x, y)
        c.sd = math.sqrt(sum(v * k for (v, _), k in zip(parts, n, strict=True)) / 2)
        c.warnings.append(
            "the runs do not say in which order they were made: a drift of the machine would look "
            "like a difference"
        )
    if not sum(v for v, _ in parts) > 0 and metric not in PERCENTILES:
        c.only = "the runs of an arm do not scatter at all: rounded or copied numbers"
    if metric in PERCENTILES:
        parts += ((BUCKET**2 / 12 * (1 / n[0] + 1 / n[1]), math.inf),)
        if math.exp(max(*x, *y)) >= CLIP_S * 0.999:
            c.only = f"clipped at {CLIP_S:g} s, the end of sysbench's histogram"
    if start:
        c.warnings.append(start_note(start))
    if metric == "mean_latency":
        c.warnings.append("the same measurement as the throughput (Little's law), not a second one")
    c.estimate = Estimate(value, parts, added)
    return c


def start_note(start):
    whose = "as given" if start.source == "given" else "as recorded"
    return (
        "nothing says that the server was restarted between the runs: a start-to-start CV of "
        f"{100 * start.cv:.2g} % is added, {whose}; --restarts leaves it out"
    )


def single_cell(threads, logs, value, sides, known, added):
    """A cell in which an arm has one run: held against what runs of other servers scatter."""
    n = tuple(map(len, logs))
    c, parts = Cell(threads, n, None, single=known), []
    for own in (x for x in logs if len(x) > 1):
        parts += estimate.paired(own)
        c.sd = math.sqrt(parts[-1][0] * len(own))
    if known:  # once for both arms: one percentile is known no better for being used twice
        variance, df = known.part
        parts.append((variance * n.count(1), df))
    if max(n) == 1 and all(side.rates is not None for side in sides):
        from .within import within

        inside = [within(side.rates) for side in sides]
        if all(inside):
            parts += [(error**2, df) for error, df, _ in inside]
            c.warnings += [w for *_, found in inside for w in found]
            if not known:
                c.warnings.append(
                    "the interval comes from the rows within the runs: a lower bound, since it does "
                    "not hold what differs from run to run"
                )
    arms = "one run an arm" if max(n) == 1 else "one run in one arm"
    if known:
        c.warnings.append(
            f"{arms}: its scatter is taken to be {100 * known.high:.1f} % ({whose(known)})"
        )
    else:
        c.only = f"{arms}: how much runs scatter is not known"
    c.estimate = Estimate(value, tuple(parts) or ((math.inf, 1.0),), added if max(n) > 1 else ())
    return c


def whose(known):
    if not known.sources:
        return "the floor given"
    like = f", {known.like}" if known.like else ""
    return (
        f"95th percentile of {len(known.cvs)} published groups of repeats{like}; their median is "
        f"{100 * known.typical:.1f} %"
    )


def _joint(cells, paired):
    """The mean effect over the thread counts that can be judged."""
    usable = [c for c in cells if not c.only and c.estimate.known]
    if len(usable) < 2 or len({len(c.estimate.start) for c in usable}) > 1:
        return None
    n = tuple(sum(c.n[i] for c in usable) for i in (0, 1))
    out = Cell(None, n, estimate.joint([c.estimate for c in usable]))
    if all(c.sd > 0 for c in usable):  # as of so many runs at one thread count
        own = sum(v for v, _ in out.estimate.parts)
        out.sd = math.sqrt(own * n[0]) if paired else math.sqrt(own / (1 / n[0] + 1 / n[1]))
    out.warnings = list(dict.fromkeys(w for c in usable for w in c.warnings))
    out.single = next((c.single for c in usable if c.single), None)
    if left := [c for c in cells if c not in usable]:
        out.warnings.insert(0, f"without {', '.join(str(c.threads) for c in left)} threads")
    return out


def decided(cells, margin_pct, metric, alpha):
    """((arm, threads), cell, level, word) of a family, in order; joint effects last in their arm."""
    if not cells:
        return
    members = {}
    for arm, threads in cells:
        members.setdefault(arm, []).extend([] if threads is JOINT else [threads])
    graph, margin, spent = Graph(members, alpha), math.log1p(margin_pct / 100), {}
    for name in list(graph.shares):  # an arm whose joint effect cannot be formed
        if name not in cells:
            graph.reject(name)

    def passes(name, share):
        c = cells[name]
        spent[name] = share
        bucket = metric in PERCENTILES and name[1] is not JOINT
        if c.only or (bucket and abs(c.estimate.value) <= 1.001 * BUCKET):
            return False
        return c.p <= share

    rejected = set(sweep(graph, passes))
    for (arm, threads), c in sorted(cells.items(), key=lambda i: _turn(i[0], cells)):
        name = (arm, threads)
        level = round(spent[name] if name in rejected else graph.shares[name], 6)
        word = CANNOT_TELL if c.only else c.estimate.word(margin, rejected=name in rejected)
        if word == CANNOT_TELL and not c.only and c.estimate.p <= level:
            c.warnings.insert(0, BUCKETS if c.p <= level else FEW)
        if threads is JOINT:
            _opposite(c, [x for k, x in cells.items() if k[0] == arm and k[1] is not JOINT])
        yield name, c, level, word


def _turn(name, cells):
    order = list(dict.fromkeys(arm for arm, _ in cells))
    return order.index(name[0]), name[1] is JOINT


def _opposite(joint, members):
    ends = [(c.estimate.value, c.estimate.half()) for c in members if not c.only]
    if any(v > half for v, half in ends) and any(v < -half for v, half in ends):
        joint.warnings.insert(0, OPPOSITE)


def verdict_row(c, key, level, word, joint, control, margin_pct, paired, seconds, notes):
    e, margin = c.estimate, math.log1p(margin_pct / 100)
    half, half_same = e.half(level), e.half(2 * ALPHA)
    warnings = [*([c.only] if c.only else []), *c.warnings, *notes]
    needed = max(c.n) if word != CANNOT_TELL else None
    if needed is None and c.sd > 0 and min(c.n) > 1:
        sides = 1 if paired else 2
        needed = plan.runs_needed(
            e.value, c.sd, margin, level=level, sides=sides, start=e.start, least=max(c.n) + 1
        )
        if needed is None and e.start:
            warnings.append(
                "more runs under the same server starts cannot settle it: restart the server between "
                "runs"
            )
    cv = math.nan if joint else estimate.deciding_cv(e.value, c.n, level=level)
    if c.single and word in (SLOWER, FASTER) and not math.isnan(cv) and c.single.sources:
        count = c.single.above(cv)
        warnings.insert(
            0,
            f"unless the server scatters by more than {100 * cv:.1f} % from run to run, which "
            f"{count} of {len(c.single.cvs)} published groups do",
        )
    each = 2 * seconds / 60 if seconds else None
    return row(
        key=key,
        threads=c.threads,
        n=c.n,
        value=e.value,
        ends=(e.value - half, e.value + half),
        level=level,
        same_ends=(e.value - half_same, e.value + half_same),
        p=c.p if e.known else math.nan,
        word=word,
        needed=needed,
        minutes=needed * each if needed and each and word == CANNOT_TELL else None,
        deciding_cv=cv,
        warnings=warnings,
        control=control,
        joint=joint,
        design="pairs" if paired else "unpaired",
    )
