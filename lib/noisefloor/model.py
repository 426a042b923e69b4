"""What is compared: metrics, arms, workloads, profiles, studies, and the request for one."""

import csv
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin


@dataclass(frozen=True)
class Metric:
    """One measured quantity. Values are in `unit`; pages show value * `scale`, in `shown_unit`."""

    name: str
    label: str
    unit: str
    better: str  # "higher" or "lower"
    shown_unit: str = ""
    scale: float = 1.0
    judged: bool = True  # maximum latency is shown and never judged
    short: str = ""  # the label where room is short
    margin_pct: float = 2.0  # a difference that matters
    quick_pct: float = 5.0  # the same for a quick campaign
    larger: str = "faster"  # what a larger value is called
    smaller: str = "slower"
    quantile: float = 0.0  # 0.95 for the p95 of latency; 0: not a percentile
    kin: str = ""  # the metric whose recorded scatter is used where its own is not recorded
    terminal: str = ""  # the label in a line of text, where `short` is not clear enough

    def word(self, up: bool) -> str:
        """What a change to a larger value (`up`), or to a smaller one, is called."""
        return self.larger if up else self.smaller

    @property
    def in_line(self) -> str:
        """What it is called in a line of text."""
        return self.terminal or self.short or self.label.lower()

    @property
    def worse_up(self) -> bool:
        """Whether a larger value is worse."""
        return self.better == "lower"


def _metrics() -> dict[str, Metric]:
    """All metrics of metrics.csv, by name. The first ones come first in an answer."""
    with Path(__file__).with_name("metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = [f.name for f in fields(Metric) if f.type is float]
    metrics = {}
    for row in rows:  # its columns are the fields of Metric
        facts: dict[str, Any] = {**row, "judged": row["judged"] == "yes"}
        facts |= {name: float(row[name] or 0) for name in numbers}
        metrics[row["name"]] = Metric(**facts)
    return metrics


METRICS = _metrics()
QUANTILES = {m.name: m.quantile for m in METRICS.values() if m.quantile}  # of latency
BEYOND = 10  # transactions that must be slower than a percentile before it counts
_UNKNOWN = Metric("", "", "", "higher")  # for published claims, such as queries a second


def metric(name: str) -> Metric:
    """The metric called `name`; for an unknown name a nameless one whose larger values are better."""
    return METRICS.get(name, _UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One judged comparison: a row of a verdict table, with these columns. NaN: not known."""

    study: str
    workload: str
    metric: str
    threads: int | None = None  # None: without a thread count, or `joint`
    baseline: str
    arm: str
    n_baseline: int  # runs, or pairs
    n_arm: int
    change_pct: float
    lo_pct: float  # the ends of its interval
    hi_pct: float
    margin_pct: float
    verdict: str
    worse: bool
    together: int = 1  # how many intervals, with this one, hold at 95 % together
    known: str = ""  # the interval in words, for `cannot tell`
    chance: float = math.nan  # how often two runs of one unchanged server differ by so much
    restarted: str = ""  # the verdict if the server was restarted between the runs, if it differs
    restarted_lo_pct: float = math.nan
    restarted_hi_pct: float = math.nan
    runs_needed: float  # for a verdict: runs an arm, or pairs in all
    minutes_needed: float
    warnings: tuple[str, ...]
    control: bool  # whether it is the A/A control
    joint: bool = False  # whether it is about all thread counts
    blocks: int
    design: str


def leading(names: Iterable[str]) -> str:
    """The metric of `names` that leads an answer: throughput if there is any, else time; "" if no
    name is known."""
    there = set(names)
    return next((name for name in METRICS if name in there), "")


@dataclass(frozen=True)
class Arm:
    """One side of a comparison.

    `switch`: variables set by SQL on a live server (switched design); `settings`: my.cnf lines
    (side by side design); `options`: of sysbench, for this arm alone; `prepare`: SQL that makes
    this arm's data directory out of the loaded one, for every table if it has {table}; `how`:
    parameters of a tool with stages or routes (cipher, key, tunnel); `expect`: evidence name ->
    state that every run must show; `prove`: the same for slow evidence, once for every start of the
    server; `engine`: the arm's own build, "" for the study's; `environment`: variables of the
    server's process.
    """

    name: str
    switch: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    how: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, str] = field(default_factory=dict)
    prove: Mapping[str, str] = field(default_factory=dict)
    engine: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Workload:
    """What is measured, under the same conditions for both arms.

    `settings` are dynamic variables; `writes_per_s` and `reads_per_s` throttle the disk; `threads`
    are compared one by one (0: a workload without a thread count); `deciding`: the metrics that the
    question is about; `share`: the part of every table's rows that it touches; `slices`: thread count
    -> seconds of a slice, where the profile's are too few for its clients; `redo_mb`: what a crash
    recovery has to read; `events`: transactions that a replica catches up with; `errors`: the largest
    share of retried transactions (after deadlocks) with which a run counts; `arms`: those it is
    measured for, () for all; `only_at`: thread count -> the one arm that is measured there, where
    not all of them are; `sized`: whether its script takes ``--tables`` and ``--table-size``;
    `digest`: sha256 of the user's own script; `clients`: hosts that make the load, one sysbench each,
    0 for the measuring host alone; `rate`: transactions a second that each server is offered, 0 for as
    many as it can do. At a rate, `alone`: one server after the other; `arrivals`: ``own`` for each
    server, or ``same`` for both; `cores`: ``shared``, or ``swapped``: one core for each server with its
    client, and they change cores from pair to pair.
    """

    name: str
    why: str
    tool: str = "sysbench"
    script: str = "oltp_read_write"
    options: tuple[str, ...] = ("--rand-type=uniform",)
    threads: tuple[int, ...] = (4,)
    settings: Mapping[str, str] = field(default_factory=dict)
    writes_per_s: int | None = None
    reads_per_s: int | None = None
    metrics: tuple[str, ...] = (
        "tps",
        "cpu_per_transaction",
        "p95",
        "p99",
        "binlog_bytes_per_transaction",
    )
    deciding: tuple[str, ...] = ("tps", "cpu_per_transaction")
    share: float = 1.0
    slices: Mapping[str, int] = field(default_factory=dict)
    redo_mb: int = 0
    events: int = 0
    errors: float = 0.001
    arms: tuple[str, ...] = ()
    only_at: Mapping[str, str] = field(default_factory=dict)
    distance_ms: int | None = None  # of a link between client and server; None: the same machine
    sized: bool = True
    digest: str = ""
    clients: int = 0
    rate: int = 0
    alone: bool = False
    arrivals: str = "own"
    cores: str = "shared"

    @property
    def throttled(self) -> bool:
        """Whether the disk is made slow."""
        return bool(self.writes_per_s or self.reads_per_s)


@dataclass(frozen=True)
class Profile:
    """How long and how finely to measure one question. `slice_s` and `warmup_s` are whole seconds, as
    sysbench's --time takes them; `settle_s`: the longest wait for a server to settle.

    `blocks`: starts of the server that a campaign declares, for each arm; 0: it declared none;
    `quick`: whether the wider margins of the metrics apply."""

    name: str
    budget_min: float
    slice_s: float
    warmup_s: float
    settle_s: float
    blocks: int
    rows: int
    threads: tuple[int, ...]
    quick: bool = False


PROFILES = {
    p.name: p
    for p in (
        Profile("smoke", 0.35, 1, 1, 0.2, 2, 1_000, (4,), quick=True),
        Profile("quick", 2, 2, 1, 0.3, 8, 20_000, (4,), quick=True),
        Profile("standard", 20, 3, 60, 0.3, 10, 100_000, (4,)),
        Profile("full", 720, 300, 60, 10, 10, 100_000, (4,)),
    )
}

SAME, CANNOT_TELL, PROVISIONAL = "same", "cannot tell", "provisional"  # last: too few sittings
NO_WORD = (CANNOT_TELL, PROVISIONAL, "")  # these take the place of a verdict
SIDE_BY_SIDE = "side by side"  # the design of two servers; of one: switched
CONTROL_SUFFIX = " again"  # the A/A control: a verbatim copy of the baseline as an arm
TWICE = "the same twice"  # the name of the A/A control on pages


@dataclass(frozen=True)
class Study:
    """One question of a study: what a campaign compares, readable in one screen.

    `key`: the question's name, "" for a campaign that asked all of a study's questions at once;
    `question`: in words; `margin_pct`: the difference that matters, 0 for each metric's own;
    `sittings`: how many boots of a machine its answer needs; `upgrade`: also open the baseline's data
    directory with the arms' build; `kit`: which things its tools keep between runs (``backup``:
    archives; ``connections``: keys and tunnels; ...); `facts`: names of what the kit measures once a
    campaign; `cipher`: what an arm costs at least: ``name`` and ``option`` for openssl, ``bytes``: the
    metric whose bytes pass through it; `floor`: metric -> start-to-start CV in percent and degrees of
    freedom, for a server that is never restarted; `floor_from`: where that comes from, in words."""

    name: str
    title: str
    question: str
    baseline: Arm
    arms: tuple[Arm, ...]
    workloads: tuple[Workload, ...]
    design: str
    profile: Profile
    key: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    tables: int = 5
    keyring: bool = False
    margin_pct: float = 0.0
    sittings: int = 1
    upgrade: bool = False
    kit: str = ""
    facts: tuple[str, ...] = ()
    cipher: Mapping[str, str] = field(default_factory=dict)
    floor: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    floor_from: str = ""

    @property
    def control(self) -> Arm:
        """The A/A control arm."""
        return replace(self.baseline, name=self.baseline.name + CONTROL_SUFFIX)

    @property
    def compared(self) -> tuple[Arm, ...]:
        """The baseline and the arms."""
        return (self.baseline, *self.arms)

    @property
    def keys(self) -> set[str]:
        """The keys whose certificates a server presents ("P-256", "RSA 2048")."""
        return {a.how["key"] for a in self.compared if "key" in a.how}

    def workload(self, name: str) -> Workload:
        """The workload called `name`."""
        return {w.name: w for w in self.workloads}[name]


@dataclass(frozen=True)
class Request:
    """What a command or a notebook asks to be measured, and where.

    `question`: "" for the study's headline, "all" for every one; `engine`: "" for the study's own;
    `old`: the build that an upgrade comes from; `threads`, `budget_min`, `margin_pct`: () and 0 for
    the profile's, or each metric's own. Of an own study, `settings`: ``VARIABLE=VALUE,VALUE`` each;
    `workload`: a script of sysbench; `lua`: the path of the user's own script instead; `rate`: as
    `studies.ab.offered` takes it, 0 for the maximum; `capacity`: if `rate` is a share, the measured
    transactions a second that it is a share of. `server`: the URL of one that Noisefloor did not start;
    `allow`: which of its checks there may fail; `clients`: the address of the cluster whose workers
    make the load; `seed`: of all random choices, None for a new one."""

    study: str
    question: str = ""
    profile: str = "quick"
    engine: str = ""
    old: str = ""
    threads: tuple[int, ...] = ()
    margin_pct: float = 0.0
    budget_min: float = 0.0
    settings: tuple[str, ...] = ()
    workload: str = "oltp_read_write"
    lua: str = ""
    rate: int | str = 0
    capacity: int = 0
    allow: tuple[str, ...] = ()
    server: str = ""
    clients: str = ""
    seed: int | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """What campaign.json keeps of it: values that are not the default; no address, no path."""
        script = Path(self.lua).name
        kept = replace(self, study="", question="", server="", clients="", seed=None, lua=script)
        usual = vars(Request(""))
        return {name: value for name, value in vars(kept).items() if value != usual[name]}


@dataclass(frozen=True)
class Resolved:
    """What a request means on this machine, as far as it is known. `engine`: its kind; `rate`: in
    transactions a second, where a share of a capacity was asked for; `static`: the variables that only
    a start of the server sets; `sized`: whether the script takes ``--tables`` and ``--table-size``;
    `digest`: sha256 of the user's own script; `builds`: of an upgrade, name -> (kind, label)."""

    engine: str = ""
    rate: int = 0
    static: tuple[str, ...] = ()
    sized: bool = True
    digest: str = ""
    builds: Mapping[str, tuple[str, str]] = field(default_factory=dict)


class StudyError(ValueError):
    """A study or parameter that cannot be used; says what was given, what is allowed, what was done."""

    code = 2  # the command's exit code


def from_clients(study: Study, n: int) -> Study:
    """`study` with the load of its sysbench workloads divided over `n` client hosts.

    Raises StudyError unless its first workload is sysbench, at no rate and without the user's own
    script; also for a study with a kit, and for fewer threads than clients."""
    loads = [w for w in study.workloads if w.tool == "sysbench" and not (w.digest or w.rate)]
    if study.kit or not loads or study.workloads[0] not in loads:
        raise StudyError(
            f"{study.name}, {study.key}: --clients is for sysbench alone and at no rate, such as"
            " binlog-encryption --question headline; nothing was measured"
        )
    if few := [t for w in loads for t in w.threads if t < n]:
        raise StudyError(
            f"{few[0]} thread{'s' * (few[0] > 1)} cannot be divided over {n} clients: give"
            f" --threads, {n} or more; nothing was measured"
        )
    note = f" The load comes from {n} client{'s' * (n > 1)}."
    works = (replace(w, clients=n, why=w.why + note) if w in loads else w for w in study.workloads)
    return replace(study, kit="clients", workloads=tuple(works))


# what a client can measure; CPU per transaction where the server's process can be seen
_SEEN = ("tps", "p95", "p99", "mean_latency", "cpu_per_transaction")


def as_guest(
    study: Study, floor: Mapping[str, tuple[float, float]], floor_from: str, *, cpu: bool
) -> Study:
    """`study` on a server that Noisefloor did not start: what a client can measure there by setting
    variables. `floor`, `floor_from`: as in Study; they take the place of restarts. `cpu`: whether the
    CPU time of the server's process can be read. Raises StudyError for a study that needs more."""
    seen = _SEEN if cpu else _SEEN[:-1]
    works = tuple(
        replace(
            w,
            metrics=tuple(m for m in w.metrics if m in seen),
            deciding=tuple(m for m in w.deciding if m in seen),
        )
        for w in study.workloads
        if w.tool == "sysbench" and not w.throttled
    )
    arms = study.compared
    if study.design != "switched" or study.kit or not works or not all(a.switch for a in arms):
        raise StudyError(
            f"{study.name} needs servers of its own, which Noisefloor restarts; --server can measure"
            " `binlog-encryption` (MySQL) and `ab` with variables that a live server takes;"
            " nothing was measured"
        )
    base, *others = (replace(a, expect=dict(a.switch)) for a in arms)
    return replace(
        study,
        baseline=base,
        arms=tuple(others),
        workloads=works,
        settings={},
        keyring=False,
        floor={m: f for m, f in floor.items() if m in seen},
        floor_from=floor_from,
    )


def _is(value: Any, kind: Any) -> bool:
    """Whether a value has the type that a field of these dataclasses is declared with."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is tuple:
        each = inside[:1] * len(value) if inside[-1] is ... and type(value) is tuple else inside
        return type(value) is tuple and len(value) == len(each) and all(map(_is, value, each))
    if origin is Mapping:
        whole = isinstance(value, Mapping)
        return whole and all(_is(k, inside[0]) and _is(v, inside[1]) for k, v in value.items())
    if inside:  # int | None
        return any(_is(value, k) for k in inside)
    if kind is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    return type(value) is kind and all(
        _is(getattr(value, f.name), f.type) for f in (fields(kind) if is_dataclass(kind) else ())
    )


def _margin_pct(meta: Mapping[str, Any]) -> Any:
    """The margin in percent that the user asked for; 0 for each metric's own. Without a request,
    campaigns before 0.3 record the profile's."""
    if "sittings" in meta:
        return meta["margin_pct"]
    return (meta.get("parameters") or {}).get("margin_pct", 0.0) if "plan" in meta else 0.0


def study_of(meta: Mapping[str, Any]) -> Study:
    """The study as a campaign.json (`meta`) records it, whatever the study's file says now.

    Raises StudyError if it cannot be read, or has nothing to compare."""

    def built(kind: Any, given: Mapping[str, Any]) -> Any:
        known = {k: v for k, v in given.items() if k in kind.__dataclass_fields__}
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in known.items()})

    try:
        arms = {n: built(Arm, a) for n, a in meta["arms"].items()}
        for needed in ("settings", "tables", "keyring", "margin_pct"):
            meta[needed]
        others = (meta["baseline"], meta["control"])
        restated = {
            "name": meta["study"],
            "baseline": arms[meta["baseline"]],
            "arms": [a for n, a in arms.items() if n not in others],
            "workloads": [built(Workload, w) for w in meta["workloads"]],
            "profile": built(Profile, meta["profile"] | ({} if "plan" in meta else {"blocks": 0})),
            "margin_pct": _margin_pct(meta),
            "upgrade": meta.get("upgrade_path", False),
            "floor": {m: tuple(f) for m, f in meta.get("floor", {}).items()},
        }
        study: Study = built(Study, {**meta, **restated})
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise StudyError(f"the study in it cannot be read ({e!r})") from None
    typed = _is(study, Study) and all(_is(a, Arm) and a.name == n for n, a in arms.items())
    if not (typed and study.arms and study.workloads and all(w.threads for w in study.workloads)):
        raise StudyError(
            "the study in it has nothing to compare, no thread count, or a value of a wrong type"
        )
    if not 0 <= study.margin_pct < 100:
        raise StudyError("the margin in it is not below 100 %")
    return study
