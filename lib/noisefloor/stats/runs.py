"""Runs that are no campaign's (logs, archives, pairs from elsewhere) to verdict rows.

The same rows whoever asks: `compare`, `compare --from`, the explorer and the verdict table of runs
without pairs. No pandas and no scipy: the answer to a folder of logs has to be there at once."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from noisefloor.model import AGAIN, METRICS
from noisefloor.stats import estimate, plan, scatter
from noisefloor.stats.estimate import CANNOT_TELL, FASTER, SLOWER, Estimate, Parts
from noisefloor.stats.graph import ALPHA, JOINT, Graph, Name, sweep
from noisefloor.stats.row import Key, Row, row
from noisefloor.stats.scatter import Floor, Population, Start

PERCENTILES = ("p95", "p99")
# sysbench's histogram, as `parse.histogram` has it (importing that would import numpy)
BUCKET = math.log1p(0.01817)  # width of a bucket on the log scale
CLIP_S = 100.0  # its end
BUCKETS = "the percentiles lie in the same or the neighbouring histogram bucket (1.8 % wide)"
FEW = "too few pairs: Student's t decides, the signs of the pairs do not"
GIVEN = 11  # runs that a floor is taken to be known from
FLIPPED = 6  # pairs from which on their signs can reach 5 %
ONE_BY_ONE = "read them one by one, not their average"
OPPOSITE = f"the thread counts show opposite effects: {ONE_BY_ONE}"
UNKNOWN = ((math.inf, 1.0),)  # the variance of what is not known


@dataclass(frozen=True)
class Side:
    """The runs of one arm at one thread count: values in base units, above 0; where there is one
    run, its values per second, if it has any."""

    values: tuple[Any, ...]
    rates: Any = None


@dataclass
class Cell:
    """One comparison; `decided` gives it level and word when its family has spoken."""

    threads: Any
    n: tuple[int, int]
    estimate: Estimate
    sd: float = math.nan  # of one run, of one pair when paired
    only: str = ""  # why the verdict can only be `cannot tell`
    warnings: list[str] = field(default_factory=list)
    single: Population | None = None  # what single runs are held against
    signs: float = 0.0  # p of the sign flips of pairs
    level: float = ALPHA
    word: str = CANNOT_TELL

    @property
    def p(self) -> float:
        """Two-sided p of no difference; 1 when nothing is known about the scatter."""
        return max(self.estimate.p, self.signs)


def sign(metric: str) -> int:
    """+1 where a larger value is worse, else -1."""
    return -1 if metric not in METRICS or METRICS[metric].better == "higher" else 1


def judge(
    arms: Mapping[str, Mapping[Any, tuple[Side, Side]]],
    *,
    metric: str,
    baseline: str,
    study: str = "",
    workload: str = "",
    margin_pct: float = 2.0,
    paired: bool = False,
    restarts: bool = False,
    floor: Floor = None,
    own: bool = True,
    seconds: float | None = None,
    notes: Iterable[str] = (),
) -> list[Row]:
    """Verdict rows (dicts) of one metric of one workload: a family of 5 %, and one of its own for
    an arm that is a copy of the baseline.

    arms: {arm: {threads (None: unknown): (Side of the baseline, Side of the arm)}}; paired: the k-th
    values belong together; restarts: every run had a start of its own, so that no start-to-start
    scatter is added; floor: that scatter in percent, or entries by metric, else this machine's (own)
    or the recorded one; seconds: length of a run. ValueError for a value that has no logarithm."""
    start, out = None if restarts else scatter.start(metric, floor, own), []

    def cell(threads: Any, a: Side, b: Side) -> Cell:
        """The comparison of two sides, before its family has spoken."""
        logs = _logs(a.values, metric), _logs(b.values, metric)
        if min(map(len, logs)) > 1:
            return _repeated(threads, logs, metric, paired, start)
        known = scatter.population(metric, threads, seconds)
        if isinstance(floor, (int, float)) and floor:
            known = Population((floor / 100,) * GIVEN, 0)
        x, y = (math.fsum(side) / len(side) for side in logs)
        n, added = (len(logs[0]), len(logs[1])), (start.part,) if start else ()
        value = sign(metric) * (y - x)
        return single_cell(threads, n, value, metric, known, added, logs, (a.rates, b.rates))

    for copies in (False, True):
        cells: dict[Name, Cell] = {}
        for arm in (a for a in arms if (a == f"{baseline}{AGAIN}") is copies):
            found = [cell(threads, *sides) for threads, sides in arms[arm].items()]
            if len(found) > 1 and (joint := _joint(found, paired)):
                cells[arm, JOINT] = joint
            cells |= {(arm, "" if c.threads is None else c.threads): c for c in found}
        for (arm, threads), c in decided(cells, margin_pct, metric):
            key = study, workload, metric, baseline, arm
            out.append(verdict_row(c, key, margin_pct, threads is JOINT, notes, paired, seconds))
    return out


def _repeated(
    threads: Any, logs: Sequence[list[float]], metric: str, paired: bool, start: Start | None
) -> Cell:
    """The cell of several runs an arm, by their own scatter."""
    (x, y), worse = logs, sign(metric)
    n = len(x), len(y)
    value = worse * (math.fsum(y) / n[1] - math.fsum(x) / n[0])
    c = Cell(threads, n, Estimate(value, UNKNOWN))
    if paired:
        d = [worse * (v - u) for u, v in zip(x, y, strict=True)]
        parts = estimate.paired(d)
        c.sd = math.sqrt(parts[0][0] * len(d))
        if len(d) >= FLIPPED:
            from noisefloor.stats.flips import flips

            c.signs = float(flips(d))
    else:
        parts = estimate.welch(x, y)
        c.sd = math.sqrt(sum(v * k for (v, _), k in zip(parts, n, strict=True)) / 2)
        c.warnings.append(
            "the runs do not say in which order they were made: a drift of the machine would look "
            "like a difference"
        )
    if metric in PERCENTILES:
        if math.exp(max(*x, *y)) >= CLIP_S * 0.999:
            c.only = f"clipped at {CLIP_S:g} s, the end of sysbench's histogram"
    elif not sum(v for v, _ in parts) > 0:
        c.only = "the runs of an arm do not scatter at all: rounded or copied numbers"
    if start:
        c.warnings.append(start_note(start))
    if metric == "mean_latency":
        c.warnings.append("the same measurement as the throughput (Little's law), not a second one")
    parts += histogram(metric, n)
    c.estimate = Estimate(value, parts, (start.part,) if start else ())
    return c


def _logs(values: Iterable[Any], metric: str) -> list[float]:
    """Their logarithms; ValueError unless all are finite and above 0."""
    known = [float(v) for v in values]
    if bad := [v for v in known if not 0 < v < math.inf]:
        raise ValueError(
            f"{metric}: {bad[0]:g} has no logarithm (values must be above 0); nothing was judged"
        )
    return [math.log(v) for v in known]


def histogram(metric: str, n: Sequence[int]) -> Parts:
    """What sysbench's histogram rounds away of a percentile: a variance with its df; () of others."""
    return ((BUCKET**2 / 12 * sum(1 / k for k in n), math.inf),) if metric in PERCENTILES else ()


def start_note(start: Start) -> str:
    """What was added for the server starts, as a warning."""
    whose = "as given" if start.given else "as recorded"
    return (
        "nothing says that the server was restarted between the runs: a start-to-start CV of "
        f"{100 * start.cv:.2g} % is added, {whose}; --restarts leaves it out"
    )


def single_cell(
    threads: Any,
    n: tuple[int, int],
    value: float,
    metric: str,
    known: Population | None,
    added: Parts = (),
    logs: Sequence[Sequence[float]] = (),
    rates: Sequence[Any] = (None,),
) -> Cell:
    """A cell in which an arm has one run, or in which the scatter of several is not told (no
    `logs`): held against what runs of other servers scatter, and against the rows within them where
    both arms have `rates`, values per second."""
    c = Cell(threads, n, Estimate(value, UNKNOWN), single=known)
    several, parts = max(n) > 1, []  # type: bool, list[tuple[float, float]]
    for own in (x for x in logs if len(x) > 1):
        parts += estimate.paired(own)
        c.sd = math.sqrt(parts[-1][0] * len(own))
    if known:
        variance, df = known.part
        untold = [(variance / k, df) for k in n] if several and not logs else []
        # once for both arms: one percentile is known no better for being used twice
        parts += untold or [(variance * n.count(1), df)]
        parts += histogram(metric, n) if untold else ()
    if not several and all(r is not None for r in rates):
        from noisefloor.stats.within import within

        inside = [found for r in rates if (found := within(r))]
        if len(inside) == 2:
            parts += [(error**2, df) for error, df, _ in inside]
            c.warnings += [w for *_, found in inside for w in found]
            if not known:
                c.warnings.append(
                    "the interval comes from the rows within the runs: a lower bound, since it does "
                    "not hold what differs from run to run"
                )
    arms, its = "one run in one arm" if several else "one run an arm", "its scatter"
    if several and not logs:
        arms, its = "several runs an arm without their scatter", "that"
    if known:
        c.warnings.append(f"{arms}: {its} is taken to be {100 * known.high:.1f} % ({whose(known)})")
    else:
        c.only = f"{arms}: how much runs scatter is not known"
    c.estimate = Estimate(value, tuple(parts) or UNKNOWN, added if several else ())
    return c


def whose(known: Population) -> str:
    """Where a scatter comes from, in words."""
    if not known.sources:
        return "the floor given"
    like = f", {known.like}" if known.like else ""
    return (
        f"95th percentile of {len(known.cvs)} published groups of repeats{like}; their median is "
        f"{100 * known.typical:.1f} %"
    )


def _joint(cells: Sequence[Cell], paired: bool) -> Cell | None:
    """The mean effect over the thread counts that can be judged."""
    usable = [c for c in cells if not c.only and c.estimate.known]
    if len(usable) < 2 or len({len(c.estimate.start) for c in usable}) > 1:
        return None
    n = sum(c.n[0] for c in usable), sum(c.n[1] for c in usable)
    out = Cell(None, n, estimate.joint([c.estimate for c in usable]))
    if all(c.sd > 0 for c in usable):  # as of so many runs at one thread count
        own = sum(v for v, _ in out.estimate.parts)
        out.sd = math.sqrt(own * n[0]) if paired else math.sqrt(own / (1 / n[0] + 1 / n[1]))
    out.warnings = list(dict.fromkeys(w for c in usable for w in c.warnings))
    out.single = next((c.single for c in usable if c.single), None)
    if left := [str(c.threads) for c in cells if c not in usable]:
        out.warnings.insert(0, f"without {', '.join(left)} threads")
    return out


def decided(cells: Mapping[Name, Cell], margin_pct: float, metric: str) -> list[tuple[Name, Cell]]:
    """((arm, threads), cell) of a family, each cell with its level and word now, in order; joint
    effects last in their arm."""
    members: dict[str, list[Any]] = {}
    for arm, threads in cells:
        members.setdefault(arm, []).extend([] if threads is JOINT else [threads])
    graph, margin, spent = Graph(members), math.log1p(margin_pct / 100), {}
    for name in [n for n in graph.shares if n not in cells]:  # a joint effect that has no cell
        graph.reject(name)

    def passes(name: Name, share: float) -> bool:
        c = cells[name]
        spent[name] = share
        bucket = metric in PERCENTILES and name[1] is not JOINT
        if c.only or (bucket and abs(c.estimate.value) <= 1.001 * BUCKET):
            return False
        return c.p <= share

    rejected, places = set(sweep(graph, passes)), list(members)
    order = sorted(cells, key=lambda name: (places.index(name[0]), name[1] is JOINT))
    for name in order:
        c = cells[name]
        c.level = round(spent[name] if name in rejected else graph.shares[name], 6)
        if not c.only:
            c.word = c.estimate.word(margin, rejected=name in rejected)
            if c.word == CANNOT_TELL and c.estimate.p <= c.level:
                c.warnings.insert(0, BUCKETS if c.p <= c.level else FEW)
        if name[1] is JOINT:
            own = {t: m for t in members[name[0]] if not (m := cells[name[0], t]).only}
            sizes = [m.estimate for m in own.values()]
            ends = [(e.value - e.half(), e.value + e.half()) for e in sizes]
            if why := apart(c.word, {t: m.word for t, m in own.items()}, ends):
                c.warnings.insert(0, why)
    return [(name, cells[name]) for name in order]


def apart(word: str, own: Mapping[Any, str], ends: Iterable[tuple[float, float]]) -> str:
    """Why a joint effect with this word does not stand for its thread counts, `""` where it does.
    own: thread count -> its word; ends: their intervals."""
    low, high = zip(*ends, strict=True) if own else ((), ())
    if any(lo > 0 for lo in low) and any(hi < 0 for hi in high):
        return OPPOSITE
    unlike = {str(t): w for t, w in own.items() if w in (SLOWER, FASTER)}  # all in one direction
    if word in (SLOWER, FASTER) or not unlike:
        return ""
    found = f"{next(iter(unlike.values()))} at {', '.join(unlike)}"
    return f"the thread counts differ ({found}): {ONE_BY_ONE}"


def verdict_row(
    c: Cell,
    key: Key,
    margin_pct: float,
    joint: bool = False,
    notes: Iterable[str] = (),
    paired: bool = False,
    seconds: float | None = None,
) -> Row:
    """The row of a cell of a family that was `decided`. seconds: length of a run."""
    e = c.estimate
    warnings = [*([c.only] if c.only else []), *c.warnings, *notes]
    needed = max(c.n) if c.word != CANNOT_TELL else None
    if needed is None and c.sd > 0 and min(c.n) > 1:
        margin, sides, least = math.log1p(margin_pct / 100), 1 if paired else 2, max(c.n) + 1
        needed = plan.runs_needed(
            e.value, c.sd, margin, level=c.level, sides=sides, start=e.start, least=least
        )
        if needed is None and e.start:
            warnings.append(
                "more runs under the same server starts cannot settle it: restart the server between "
                "runs"
            )
    cv = math.nan if joint else estimate.deciding_cv(e.value, c.n, level=c.level)
    if c.single and c.word in (SLOWER, FASTER) and not math.isnan(cv) and c.single.sources:
        count = c.single.above(cv)
        warnings.insert(
            0,
            f"unless the server scatters by more than {100 * cv:.1f} % from run to run, which "
            f"{count} of {len(c.single.cvs)} published groups do",
        )
    half, same = e.half(c.level), e.half(2 * ALPHA)
    return row(
        key,
        c.n,
        (e.value, e.value - half, e.value + half, e.value - same, e.value + same),
        c.word,
        needed,
        2 * seconds if seconds else None,
        warnings,
        threads=c.threads,
        level=c.level,
        p=c.p if e.known else math.nan,
        deciding_cv_pct=100 * cv,
        joint=joint,
        blocks=1,
        design="pairs" if paired else "unpaired",
    )
