"""Sentences from a verdict table. Every finding on a page comes from here."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any

import pandas as pd

from noisefloor.data import design
from noisefloor.data.results import SHORT, baseline_in_units
from noisefloor.model import METRICS, TWICE
from noisefloor.show.markup import TOLD, cell, has_value
from noisefloor.show.rows import (
    Row,
    arm_label,
    counted,
    differing,
    is_control,
    is_joint,
    joint,
    metric_label,
    offered,
    threads_label,
)
from noisefloor.stats.verdict import CANNOT_TELL, PROVISIONAL, SAME, differs, kind
from noisefloor.text import Refusal, amounts, upper
from noisefloor.text.reasons import Reason, Why, has

if TYPE_CHECKING:
    from noisefloor.data.results import Results

Facts = Mapping[str, Any]  # of campaign.json
WHOLE = 2  # a caption of so many comparisons has a sentence for each
FEW = 4  # comparisons with one verdict that a longer caption names one by one
_MODEL = re.compile(rf"(?P<name>.*?)(?: (\d+)/(\d+)/(\d+)|, {design.NOT_RECORDED})$")
# the order of the verdicts in a caption
KINDS = ("worse", "better", SAME, CANNOT_TELL, PROVISIONAL, "")


class ReportError(Refusal):
    """A page that cannot be made. One sentence; `code` 2 for a wrong request, else 1."""

    code = 1


# -- one comparison --------------------------------------------------------------------------------


def sentence(row: Row) -> str:
    """One row of the verdict table in sentences: verdict, change with its interval, what would decide
    it."""
    verdict = row["verdict"]
    size = amounts.change(row["change_pct"], row["metric"], known=verdict)
    answer = f"{verdict}, {amounts.around(size, interval_text(row))}"
    if verdict in (PROVISIONAL, ""):
        answer = amounts.around(change(row), inside(row))
    about = f"{metric_label(row['metric'])} {at(row)}".strip()
    return sentences((f"{about}: {answer}", *doubts(row), settle_clause(row)))


def at(row: Row) -> str:
    """`at 100 TPS`, `at 16 threads`; "" without either."""
    return f"at {counts(row)}" if offered(row) else threads_label(row["threads"], joint(row))


def sentences(parts: Iterable[str]) -> str:
    """Clauses as sentences; those that are empty are left out."""
    return " ".join(f"{upper(part)}." for part in parts if part)


def change(row: Row) -> str:
    """A row's change alone: `+14.0 %`, `8.4 times slower`."""
    return amounts.change(row["change_pct"], row["metric"])


def effect(row: Row) -> str:
    """A row's change with its interval: `+1.0 % (−1.2 to +3.4 %)`."""
    return amounts.around(change(row), interval_text(row))


def interval_text(row: Row) -> str:
    """The interval after a change: `−1.2 to +3.4 %`, `7 to 10.9 times`, or `no interval: 1 pair`."""
    if not has_value(row.get("lo_pct")):
        n = f": {_counted(row)}" if has_value(row.get("n_arm")) else ""
        return f"{amounts.NONE}{n}"
    return amounts.interval_beside(row["change_pct"], row["lo_pct"], row["hi_pct"], row["metric"])


def inside(row: Row, brief: bool = False) -> str:
    """What stands in the parentheses of a statement: the interval (without signs if the verdict names a
    direction), and why there is no word yet; brief: without the number of boots."""
    lo, hi, ends = row["lo_pct"], row["hi_pct"], interval_text(row)
    if differs(row["verdict"]) and has_value(lo) and (lo > 0 or hi < 0):
        return amounts.sizes(lo, hi, row["metric"])
    if row["verdict"] not in (PROVISIONAL, ""):
        return ends
    if brief or not row["verdict"]:
        return f"range {ends}" if row.get("ranged") else ends
    if not row.get("ranged"):
        return f"{ends}, {word(row)}"
    return f"{word(row)}{', range' if row['sittings'] < row['asked'] else ':'} {ends}"


def cost(metric: str) -> str:
    """The name of a metric at the top of a page: `Processor time`."""
    return TOLD["costs"].get(metric, metric_label(metric))


def counts(row: Row) -> str:
    """`100 TPS`, `200 a second`, `16 threads`, `all thread counts`, or ""."""
    if rate := offered(row):
        return f"{rate:,.0f} {TOLD['loads'].get(row['metric'], 'a second')}"
    return "all thread counts" if joint(row) else counted(row["threads"])


def word(row: Row) -> str:
    """A row's verdict; of a provisional one the reason: `provisional, boot 1 of 3`, `range of 2
    boots`."""
    if row["verdict"] != PROVISIONAL:
        return row["verdict"]
    n, asked = int(row["sittings"]), int(row["asked"])
    return Reason(Why.SO_FAR, sittings=n, asked=asked) if n < asked else f"range of {n} boots"


def undecided(row: Row) -> bool:
    """Whether a row may be a change for the better or for the worse: it is `cannot tell` or provisional,
    and its interval contains zero."""
    lo, hi = row.get("lo_pct"), row.get("hi_pct")
    return row["verdict"] in (CANNOT_TELL, PROVISIONAL) and has_value(lo) and bool(lo <= 0 <= hi)


def limits(row: Row) -> str:
    """The interval of a row that cannot tell, in words: `between 1.3 % faster and 4.1 % slower`, the
    better end first; "" for other rows, and without an interval."""
    lo, hi, metric = row.get("lo_pct"), row.get("hi_pct"), row["metric"]
    if row["verdict"] != CANNOT_TELL or not has_value(lo):
        return ""
    return either(row) if lo <= 0 <= hi else amounts.bounds(lo, hi, metric)


def change_in_units(row: Row, r: "Results | None") -> str:
    """`CPU: 3.637 → 3.688 ms`: the baseline of the newest campaign behind a row, and the baseline times the
    row's change; of an `undecided` row the baseline alone, `MySQL 8.0: 135 ms`; "" for several
    processors or thread counts, and for metrics that are given in percent alone."""
    behind, noun = campaigns_behind(row, r), TOLD["in_units"].get(row["metric"])
    alone = [len(rows) for _, rows in placed(row, r)] == [1] and has_value(row["threads"])
    if not behind or not alone or noun is None:
        return ""
    middle = baseline_in_units(behind[-1], row)
    if math.isnan(middle):
        return ""
    unit = METRICS[row["metric"]].shown_unit
    if undecided(row):
        return f"{arm_label(row['baseline'])}: {cell(middle)} {unit}"
    after = middle * amounts.as_written(row["change_pct"], row["metric"])
    return upper(f"{noun}: {cell(middle)} → {cell(after)} {unit}")


def either(row: Row) -> str:
    """The ends of an interval that contains zero: `between 1.3 % faster and 4.1 % slower`, the better
    end first."""
    lo, hi, metric = row["lo_pct"], row["hi_pct"], row["metric"]
    larger, smaller = amounts.words(metric)
    ends = [(lo, smaller), (hi, larger)]
    if kind(smaller) == "worse":
        ends.reverse()
    sizes = [(amounts.size(end, metric), name) for end, name in ends]
    none = amounts.size(0)
    best, worst = ("no change" if size == none else f"{size} {name}" for size, name in sizes)
    return f"between {best} and {worst}"


def doubts(row: Row) -> list[str]:
    """Clauses beside a verdict: why there is no interval, or why the row cannot tell although its interval
    excludes zero; and the verdict if the server was restarted between the runs."""
    lo, hi = row.get("lo_pct"), row.get("hi_pct")
    unsaid = row["verdict"] == CANNOT_TELL and (not has_value(lo) or lo > 0 or hi < 0)
    clauses = list(row.get("warnings", ()))[:1] if unsaid else []
    if again := row.get("restarted"):
        ends = amounts.interval(row["restarted_lo_pct"], row["restarted_hi_pct"], row["metric"])
        clauses.append(f"{again} ({ends}) if the server was restarted between the runs")
    return clauses


def union(part: Sequence[Row]) -> dict[Any, Any]:
    """The first of rows with the outer ends of all their intervals; NaN if one has no interval."""
    lo, hi = ([x[end] for x in part] for end in ("lo_pct", "hi_pct"))
    bare = not all(map(has_value, lo))
    return {
        **part[0],
        "lo_pct": math.nan if bare else min(lo),
        "hi_pct": math.nan if bare else max(hi),
    }


def _counted(row: Row) -> str:
    """`1,200 pairs`, `1 run an arm`: what `n_arm` of a row counts."""
    n = int(row["n_arm"])
    return f"{n:,} {unit(row, n)}"


def unit(row: Row, n: int = 2) -> str:
    """What `n_arm` and `runs_needed` of a row count: `pairs`, `runs an arm`; singular for an `n` of 1."""
    pairs = row.get("design") != "unpaired"
    return f"{'pair' if pairs else 'run'}{'' if n == 1 else 's'}{'' if pairs else ' an arm'}"


# -- how it was measured, and what would decide it -------------------------------------------------


def campaigns_behind(row: Row, r: "Results | None") -> list["Results"]:
    """The campaigns of `r` behind a row, the newest last; [] if it rests on none (logs, archives)."""
    if r is None or not has_value(row.get("sittings")):
        return []
    return r.by_processor.get((row["question"], row["processor"]), [])


def _of_question(row: Row, campaign: Facts, r: "Results | None") -> Facts:
    """The facts of the newest campaign behind a row, with the days (`first`, `finished`) and the `hosts`
    of all campaigns of its question; without a campaign behind it `campaign` as it is."""
    behind = campaigns_behind(row, r)
    if not behind or r is None:
        return campaign
    every = [each.meta for each in r.every if each.study.key == row["question"]]
    ended = sorted(str(meta.get("finished") or "") for meta in every)
    more = {"first": ended[0], "finished": ended[-1], "hosts": [m.get("host") for m in every]}
    return behind[-1].meta | more


def minutes(campaign: "Results") -> float:
    """Minutes by the clock from the beginning to the end of a campaign."""
    meta = campaign.meta
    try:
        began, ended = (datetime.fromisoformat(meta[k]) for k in ("created", "finished"))
    except (KeyError, ValueError):
        return float(meta.get("wall_s", 0.0)) / 60
    return (ended - began).total_seconds() / 60


def effort(row: Row, r: "Results | None" = None) -> str:
    """How much was measured: `3 times on 2 days, 46 minutes`; without campaigns `12 pairs`."""
    behind = campaigns_behind(row, r)
    if not behind:
        return _counted(row) if has_value(row.get("n_arm")) else ""
    days = len({design.began(each.meta)[:10] for each in behind})
    times = f"{len(behind)} times on {days} day{'s' * (days > 1)}"
    return f"{times if behind[1:] else 'once'}, {_clock(sum(map(minutes, behind)))}"


def settle_clause(row: Row, r: "Results | None" = None) -> str:
    """What would decide a row that cannot tell, as a clause; "" for other rows, or if it is not known."""
    if row.get("verdict") != CANNOT_TELL:
        return ""
    behind, n = campaigns_behind(row, r), row.get("sittings")
    longer = r is None or not behind or r.study.profile.name in SHORT
    if has_value(row.get("lo_pct")) and has_value(n) and (n > 1 or not longer):
        half = math.log((100 + row["hi_pct"]) / (100 + row["lo_pct"])) / 2
        left = amounts.size(100 * math.expm1(half * math.sqrt(n / (n + 1))))
        took = f" ({_clock(median(map(minutes, behind)))})" if behind else ""
        return f"a repeat on another boot{took} would narrow it to about ±{left}"
    needed, clock = row.get("runs_needed"), row.get("minutes_needed")
    if not has_value(needed) or not math.isfinite(needed):
        return ""
    if unit(row).startswith("run"):
        return f"{int(needed):,} runs an arm would decide it"
    times = needed / row["n_arm"]
    times = f"{times:.1f}".removesuffix(".0") if times < 10 else f"{times:,.0f}"
    took = f" ({_clock(clock)} of measuring)" if has_value(clock) and math.isfinite(clock) else ""
    return f"a campaign {times} times as long{took} would decide it"


def _clock(value: float) -> str:
    if value < 2:
        return f"{60 * value:.0f} seconds"
    return f"{value:.0f} minutes" if value < 180 else f"{value / 60:,.0f} hours"


# -- several comparisons ---------------------------------------------------------------------------


def findings(verdicts: pd.DataFrame) -> list[str]:
    """The rows of a verdict table in words, one sentence a comparison, controls last; workload, arm
    and processor are named where there are several."""
    rows = verdicts.iloc[is_control(verdicts).to_numpy().argsort(kind="stable")]
    named = zip(_names(rows, verdicts), map(sentence, rows.to_dict("records")), strict=True)
    return [": ".join(filter(None, both)) for both in named]


def finding(verdicts: pd.DataFrame) -> str:
    """`findings` as one paragraph, for a caption; of more than WHOLE comparisons: which of them have each
    verdict, or how many if these are more than FEW and more than half. The numbers are in the figure
    and in the data behind it."""
    several = "together" in verdicts and verdicts["together"].max() > 1
    which = "them" if verdicts["metric"].nunique() == 1 else "one metric"
    level = f"Intervals: 95 % for all of {which} together." if several else ""
    if len(verdicts) <= WHOLE:
        return " ".join(filter(None, [*findings(verdicts), level]))
    by_metric: dict[str, list[str]] = {}  # text: the metrics that it is true of
    for metric, rows in verdicts.groupby("metric", sort=False):
        alike = rows["threads"].nunique() == 1 and not is_joint(rows).any()
        first = rows.iloc[0].to_dict() | {"metric": verdicts["metric"].iloc[0]}
        place = at(first) if alike and not _at_rates(rows) else ""
        where = f" {place}" if place else ""
        few, many = [], []
        names = rows.apply(word, axis=1).replace("", "without a verdict")
        turn = rows["verdict"].map(lambda verdict: KINDS.index(kind(verdict)))
        for name in dict.fromkeys(names.loc[turn.sort_values(kind="stable").index]):
            chosen = rows[names.eq(name)]
            if len(chosen) > max(FEW, len(rows) / 2):
                who = f"{'all' if len(chosen) == len(rows) else 'the other'} {len(chosen)}"
                many.append(f"{upper(name)}: {who}{_together(chosen)}.")
            elif len(chosen):
                who = "; ".join(filter(None, _at_places(chosen, verdicts, alike)))
                few.append(f"{upper(name)}{who and f': {who}'}{_together(chosen)}.")
        full = rows["warnings"].map(lambda notes: has(notes, Why.SATURATED))
        if bare := int((rows["lo_pct"].isna() & ~full).sum()):
            many.append(
                f"For {bare} of the {len(rows)} too few {unit(rows.iloc[0])} for an interval."
            )
        by_metric.setdefault(f"{where}. {' '.join(few + many)}", []).append(
            metric_label(str(metric))
        )
    lines = [f"{'; '.join(metrics)}{what}" for what, metrics in by_metric.items()]
    return " ".join([*lines, *filter(None, [level])])


def _together(rows: pd.DataFrame) -> str:
    """` (between ... and ...)`: the outer ends of the rows that cannot tell; "" without such rows."""
    open_ = rows[rows["verdict"].eq(CANNOT_TELL) & rows["lo_pct"].notna()].to_dict("records")
    between = limits(union(open_)) if open_ else ""
    return f" ({between})" if between else ""


def _at_places(rows: pd.DataFrame, among: pd.DataFrame, alike: bool) -> list[str]:
    """The shortest names that tell the rows from the others `among` all; thread counts are left out
    if they are `alike`."""
    places: dict[str, list[str]] = {}
    for place, row in zip(_names(rows, among), rows.to_dict("records"), strict=True):
        places.setdefault(place, []).append("all" if joint(row) else str(row["threads"]))
    if alike:
        return list(places)
    return [
        f"{p}{' at ' if p else ''}{', '.join(counts)} thread{'s' * (counts != ['1'])}"
        for p, counts in places.items()
    ]


def _names(rows: pd.DataFrame, among: pd.DataFrame) -> list[str]:
    """The name of each row: workload, arm and processor, as far as these differ `among` all; of the
    control `the same twice`."""
    arms = among[~is_control(among)]
    differ = differing(arms, "workload", "arm", "processor")
    rates, names = _at_rates(among), []
    for row, control in zip(rows.to_dict("records"), is_control(rows), strict=True):
        values = row | {"workload": counts(row)} if rates else row
        parts = [str(values[c]) for c in differ if c != "arm" or not control]
        names.append(", ".join([TWICE, *parts] if control else parts))
    return names


def _at_rates(rows: pd.DataFrame) -> bool:
    """Whether all rows are at a rate, and the rates differ."""
    return "rate" in rows and rows["rate"].nunique() > 1 and bool(rows["rate"].gt(0).all())


def placed(row: Row, r: "Results | None", apart: bool = False) -> list[tuple[str, list[Row]]]:
    """[(short name of a processor, rows)] of a row's comparison, its own processor first; the name is ""
    if there is only one. rows: the joint row (`over`: its counts), else, or if `apart`, one a count."""
    if r is None:
        return [("", [row])]
    v = r.verdicts
    for column in ("question", "workload", "metric", "baseline", "arm"):
        v = v[v[column].eq(row[column])]
    on = v["processor"] if "processor" in v else v["arm"].str[:0]
    names = [*dict.fromkeys([row.get("processor", ""), *on])]
    places: list[tuple[str, list[Row]]] = []
    for name, short in short_names(names).items():
        rows = v[on.eq(name)]
        each, whole = rows[~is_joint(rows)].sort_values("threads"), rows[is_joint(rows)]
        counts: list[Any] = [[*each["threads"]]] * len(whole)
        over = whole.assign(over=counts)
        kept = (each if apart or not len(whole) else over).to_dict("records")
        places.append((short if len(names) > 1 else "", kept))
    return places


def short_names(processors: Sequence[str]) -> dict[str, str]:
    """{processor: its name in a sentence}, with its generation or model only if several would have one
    name: `AMD EPYC`, `Zen 3`, `AMD EPYC (family 23, model 1, stepping 2)`."""
    names = {}
    for processor in processors:
        others = [_forms(other) for other in processors if other != processor]
        forms = enumerate(_forms(processor))
        alone = (form for n, form in forms if all(form != other[n] for other in others))
        names[processor] = next(alone, processor)
    return names


def generation(processor: str) -> str:
    """What the maker of a processor calls its generation, `Zen 3`; else its name and model."""
    return _forms(processor)[1]


def _forms(processor: str) -> tuple[str, str, str]:
    """(name, generation, name with model) of a processor; an unknown one is the next longer one."""
    if not (parts := _MODEL.match(processor)):
        return processor, processor, processor
    name, family, model, stepping = parts.groups()
    if not family:
        return name, processor, processor
    whole = f"{name} (family {family}, model {model}, stepping {stepping})"
    return name, TOLD["generations"].get(f"{name} {family}/{model}", whole), whole


def leading(verdicts: pd.DataFrame, choice: Any = None) -> list[Row]:
    """The rows that a page leads with: `choice` if it is a list, else the one that `primary` finds."""
    return choice if isinstance(choice, list) else [primary(verdicts, choice)]


def primary(verdicts: pd.DataFrame, choice: Mapping[str, Any] | str | None = None) -> pd.Series:
    """The row a page is about. `choice`: a dict of column values, or a metric's name; by default
    TPS (else the first metric). Of the first workload, question and processor: the joint row over
    thread counts, else that of the highest count; never the A/A control. Raises ReportError if there
    is none."""
    frame = verdicts[~is_control(verdicts)]
    wanted = {"metric": choice} if isinstance(choice, str) else dict(choice or {})
    for column, value in wanted.items():
        frame = frame[frame[column].astype(object).eq(value)]
    if frame.empty:
        raise ReportError(f"no comparison in the verdict table matches {wanted or 'anything'}")
    if "metric" not in wanted:
        metric = "tps" if "tps" in set(frame["metric"]) else frame["metric"].iloc[0]
        frame = frame[frame["metric"].eq(metric)]
    for column in filter(frame.columns.__contains__, ("workload", "question", "processor")):
        frame = frame[frame[column].astype(str).eq(str(frame[column].iloc[0]))]
    whole = frame[is_joint(frame)]
    each = frame.sort_values("threads", na_position="first")
    return whole.iloc[0] if len(whole) else each.iloc[-1]


# -- a campaign ------------------------------------------------------------------------------------


def when(campaign: Facts) -> str:
    """Date and minute of a campaign, from its facts: `2026-11-29 22:04`; "" if they have none."""
    dates = (campaign.get(key) for key in ("date", "finished", "created"))
    return str(next(filter(None, dates), ""))[:16].replace("T", " ").removesuffix(" 00:00")


def machine(campaign: Facts, brief: bool = False) -> str:
    """The machine of a campaign in a few words, never with its host name; brief: processor and cores
    alone."""
    host = campaign.get("host") or {}
    if isinstance(host, str):
        return host
    cores, memory = host.get("cores"), host.get("memory_B")
    cores, memory = cores and f"{cores} cores", memory and f"{memory / 2**30:.0f} GiB"
    parts = (host.get("cpu"), cores, *(() if brief else (memory, host.get("system"))))
    return ", ".join(str(p) for p in parts if p)


def _machines(campaign: Facts) -> list[str]:
    """The machines of a page's campaigns in a few words, the headline's first; if all have one processor,
    which the sentences do not name, with its generation."""
    hosts = [campaign.get("host"), *campaign.get("hosts", [])]
    name, *others = dict.fromkeys(design.processor_name({"host": h}) for h in hosts)
    if not others and (chip := generation(name)) in TOLD["generations"].values():
        maker, *_ = name.split()
        hosts = [h | {"cpu": chip if maker in chip else f"{maker} {chip}"} for h in hosts]
    return list(dict.fromkeys(machine({"host": h}, brief=True) for h in hosts))


def engine(campaign: Facts) -> str:
    """The server of a campaign, `MySQL 9.7.4`."""
    several = {e["label"] for e in campaign.get("engines", {}).values()}
    if len(several) > 1:
        return " and ".join(sorted(several))
    what = campaign.get("engine") or ""
    return what["label"] if isinstance(what, dict) else str(what)


def dates(campaign: Facts) -> str:
    """The day of a campaign, or the first and the last day of a page's campaigns."""
    first, last = str(campaign.get("first") or "")[:10], when(campaign)[:10]
    return f"{first}–{last}" if "" < first < last else last


def where(campaign: Facts) -> str:
    """When, on what and with which server a campaign was measured: `2026-11-29, AMD EPYC, 2 cores, MySQL
    9.7.4`."""
    parts = dates(campaign), "; ".join(_machines(campaign)), engine(campaign)
    return ", ".join(filter(None, parts))


def measured(row: Row, campaign: Facts, r: "Results | None" = None) -> str:
    """How often a row was measured, when and where: `Measured 3 times on 2 days, 115 minutes: 2026-11-29,
    AMD EPYC, 2 cores, MySQL 9.7.4.`; of a provisional one `Provisional, boot 1 of 3: ...`."""
    often, place = effort(row, r), where(_of_question(row, campaign, r))
    if row["verdict"] == PROVISIONAL:
        boots = [int(rows[0]["sittings"]) for _, rows in placed(row, r) if rows]
        alike, asked = [*dict.fromkeys(boots)], int(row["asked"])
        so_far = Reason(Why.SO_FAR, sittings=" and ".join(map(str, alike)), asked=asked)
        waits = so_far if min(boots) < asked else word(row)
        return sentences([f"{waits}{place and f': {place}'}"])
    clause = f"Measured {often}{f': {place}' if often and place else place}"
    return sentences([clause if often or place else ""])
