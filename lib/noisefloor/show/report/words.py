"""Words from a verdict table: every finding on a page is made here, none is written by hand."""

import math

from noisefloor.schedule import CONTENDED, NOT_JUDGED
from noisefloor.show.markup import TOLD, known
from noisefloor.show.rows import (
    as_list,
    contended,
    counted,
    is_control,
    is_joint,
    joint,
    metric_label,
    threads_label,
)
from noisefloor.stats import plan
from noisefloor.stats.runs import ONE_BY_ONE
from noisefloor.text import amounts

MARGIN = 2.0  # percent, where a table does not say
UNDECIDED = "cannot tell"
WHOLE = 2  # comparisons that a caption tells in whole sentences
FEW = 4  # of one word that it names one by one
QUIET = 1.0  # percent that a pair varies by on a quiet machine


class ReportError(Exception):
    """A page that cannot be made. One sentence; `code` 2 for a wrong request, else 1."""

    def __init__(self, sentence, code=1):
        super().__init__(sentence)
        self.code = code

    def __reduce__(self):
        return type(self), (str(self), self.code)


def margin_of(verdicts, campaign=None) -> float:
    """The margin by which verdicts were made, in percent."""
    return (campaign or {}).get("margin_pct") or verdicts.attrs.get("margin_pct") or MARGIN


# -- one comparison --------------------------------------------------------------------------------


def sentence(row, margin_pct=MARGIN) -> str:
    """One row of the verdict table in words: verdict, what is known, overhead, noise floor, what
    would settle it."""
    words = f"{_about(row)}: {row['verdict']}"
    if row["verdict"] == NOT_JUDGED:
        return f"{words}, both servers were loaded at once. Overhead {effect(row)}."
    words += f" ({limits(row)})" if limits(row) else ""
    more = "; ".join(filter(None, (effect(row), same(row), _floor(row))))
    todo = settle(row, margin_pct)
    return _sentences((words, *reasons(row, margin_pct), f"overhead {more}", todo))


def headline(row, margin_pct=MARGIN) -> str:
    """One row as a plain statement about the arm, for the top of a page."""
    arm, base, metric = row["arm"], row["baseline"], row["metric"]
    if row["verdict"] == NOT_JUDGED:
        return (
            f"{cost(metric)} beside it, with both servers loaded at once: {_overhead(row)}, "
            f"{NOT_JUDGED}."
        )
    if (effects := TOLD["effects"].get(metric)) and (does := row.get("does")):
        worse, better = (f"{does} {effect}" for effect in effects)  # as a DBA would say it
        of = effects[0].removeprefix("costs ")
        alike = f"{does} makes no difference to {of} that matters"
    else:
        than = TOLD["than"].get(metric, ("is slower than", "is faster than"))
        worse, better = (f"{arm} {words} {base}" for words in than)
        alike = f"{arm} or {base} makes no difference that matters"
    claim = {"slower": worse, "faster": better, "same": alike}.get(row["verdict"])
    why = reasons(row, margin_pct)
    if claim and any(ONE_BY_ONE in w for w in why):
        claim = f"on average, {claim}" if claim == alike else f"{claim} on average"
    elif not claim:
        claim, said = f"cannot tell whether {worse}", limits(row)
        although = ", although the interval says " if said.startswith("between") else ": "
        claim += f"{although}{said}" if said else ""
    ends = "; ".join(filter(None, (_overhead(row), same(row))))
    return _sentences((claim, *why, f"{_about(row)}: {ends}"))


def _overhead(row) -> str:
    """Its effect after the name of its metric, where `+5.4 %` alone would be taken for more TPS."""
    told = effect(row)
    return told if amounts.large(row["overhead_pct"], row["metric"]) else f"overhead {told}"


def _about(row) -> str:
    """`Transactions per second at 16 threads`."""
    where = threads_label(row["threads"], joint(row))
    return f"{metric_label(row['metric'])} {where}".strip()


def _sentences(parts) -> str:
    return " ".join(f"{upper(part)}." for part in parts if part)


def upper(text) -> str:
    """The text with a capital letter first."""
    return f"{text[:1].upper()}{text[1:]}"


def effect(row) -> str:
    """A row's overhead with its interval and, where it is not 95 %, the interval's level."""
    if not known(row.get("lo_pct")):
        n = f": {_counted(row)}" if known(row.get("n_arm")) else ""
        return f"{size(row)} ({amounts.NONE}{n})"
    ends = row["overhead_pct"], row["lo_pct"], row["hi_pct"]
    told = amounts.told(*ends, row["metric"], row.get("level"))
    return told.replace(" (", " under contention (", 1) if contended(row) else told


def size(row) -> str:
    """A row's overhead alone: `+14 %`, `+14 % under contention`."""
    told = amounts.overhead(row["overhead_pct"], row["metric"])
    return f"{told} under contention" if contended(row) else told


def cost(metric) -> str:
    """What a row is about, where it leads a page: `Processor time`."""
    return TOLD["costs"].get(metric, metric_label(metric))


def counts(row) -> str:
    """`16 threads`, `all threads`, or nothing."""
    return "all threads" if joint(row) else counted(row["threads"])


def limits(row) -> str:
    """What a row that cannot tell knows all the same: "at most 4.1 % slower, at most 1.3 %
    faster"."""
    if row["verdict"] != UNDECIDED:
        return ""
    return amounts.known(row.get("lo_pct"), row.get("hi_pct"), row["metric"])


def reasons(row, margin_pct=MARGIN) -> list[str]:
    """Warnings that belong right beside the verdict: why a row cannot tell although its interval
    excludes zero, lies within the margin, or does not exist; and that a joint effect does not
    stand for its thread counts."""
    notes = _notes(row)
    found = [w for w in notes if ONE_BY_ONE in w]
    if row["verdict"] == UNDECIDED and (_decides(row, margin_pct) or not known(row.get("lo_pct"))):
        found += [w for w in notes if w not in found][:1]
    return list(dict.fromkeys(found))


def _notes(row) -> list:
    """A row's warnings that are not said with its size."""
    return [w for w in as_list(row.get("warnings")) if w != CONTENDED]


def _decides(row, margin_pct=MARGIN) -> bool:
    """Whether the printed intervals alone would give a word."""
    lo, hi = row.get("lo_pct"), row.get("hi_pct")
    least = -100 * margin_pct / (100 + margin_pct)  # as far below, on the log scale
    ends = (lo, hi), (row.get("same_lo_pct"), row.get("same_hi_pct"))
    inside = any(known(low) and least < low and high < margin_pct for low, high in ends)
    return inside or (known(lo) and (lo > 0 or hi < 0))


def same(row) -> str:
    """What decided `same`, with its interval: `two one-sided tests at 5 %: −0.8 to +2.4 %`."""
    if row["verdict"] != "same" or not known(row.get("same_lo_pct")):
        return ""
    ends = amounts.interval(row["same_lo_pct"], row["same_hi_pct"], row["metric"])
    return f"two one-sided tests at 5 %: {ends}"


def _floor(row) -> str:
    if not known(row.get("noise_floor_pct")):
        return ""
    runs = f"these {_counted(row)}" if known(row.get("n_arm")) else "what was measured"
    return f"with {runs}, less than {amounts.size(row['noise_floor_pct'])} is noise"


def _counted(row, column="n_arm") -> str:
    """`1,200 pairs`, `1 run an arm`: what `n_arm` or `runs_needed` of a row counts."""
    n = int(row[column])
    return f"{n:,} {unit(row, n)}"


def unit(row, n=2) -> str:
    """What `n` and `runs_needed` of a row count, in the singular for one."""
    pairs = row.get("design") in ("switched", "side by side", "duet", "pairs", "unknown")
    return f"{'pair' if pairs else 'run'}{'' if n == 1 else 's'}{'' if pairs else ' an arm'}"


def measured(row) -> str:
    """`12 blocks, 48 pairs`: what a row rests on."""
    if not known(row.get("n_arm")):
        return ""
    blocks = row.get("blocks")
    return f"{int(blocks)} blocks, " * bool(known(blocks) and blocks > 1) + _counted(row)


def settle(row, margin_pct=MARGIN) -> str:
    """What would settle a row that cannot tell, as a clause."""
    if row.get("verdict") != UNDECIDED:
        return ""
    if planned := plan_text(row, margin_pct):
        return f"about {planned} would settle it"
    if joint(row):
        return "see the thread counts for what would settle it"
    if known(row.get("deciding_cv_pct")) and not _decides(row):
        cv = amounts.percent(row["deciding_cv_pct"], 2, sign=False)
        return f"significant only if run-to-run CV is below {cv}"
    return "more runs of this kind will not settle it"


def plan_text(row, margin_pct=MARGIN) -> str:
    """`48 pairs, 7 min (16 pairs, 2.3 min where a pair varies by 1 %)`: what would settle a row that
    cannot tell, here and on a quiet machine."""
    runs, minutes = row.get("runs_needed"), row.get("minutes_needed")
    if row.get("verdict") != UNDECIDED or not known(runs) or not math.isfinite(runs):
        return ""
    if not known(minutes) or not math.isfinite(minutes):
        return _counted(row, "runs_needed")
    words, quiet = _planned(row, runs, minutes), _quiet_pairs(row, margin_pct)
    if quiet and quiet < runs:
        words += f" ({_planned(row, quiet, minutes * quiet / runs)} where a pair varies by "
        words += f"{amounts.percent(QUIET, 0, sign=False)})"
    return words


def _planned(row, runs, minutes) -> str:
    return f"{int(runs):,} {unit(row, int(runs))}, {_minutes(minutes)}"


def _quiet_pairs(row, margin_pct) -> int | None:
    """Pairs that would settle a row where a pair varies by QUIET, in blocks of as many as here; None
    for what is no pairs."""
    if unit(row) != "pairs" or not known(row.get("level")) or not known(row.get("blocks")):
        return None
    value, margin = (math.log1p(x / 100) for x in (row["overhead_pct"], margin_pct))
    size, share = row["n_arm"] / row["blocks"], row["level"] / plan.OBRIEN
    blocks = plan.units_needed(value, QUIET / 100 / math.sqrt(size), margin, share=share)
    return blocks and math.ceil(blocks * size)


def _minutes(value) -> str:
    if value < 2:
        return f"{60 * value:.0f} s"
    if value < 10:
        return f"{value:.1f} min"
    return f"{value:.0f} min" if value < 180 else f"{value / 60:,.0f} h"


# -- several comparisons ---------------------------------------------------------------------------


def findings(verdicts) -> list[str]:
    """The rows of a verdict table in words, one sentence a comparison, controls last; workload and
    arm are named where there are several."""
    rows = verdicts.iloc[is_control(verdicts).to_numpy().argsort(kind="stable")]
    said = (sentence(row, margin_of(verdicts)) for row in rows.to_dict("records"))
    named = zip(_names(rows, verdicts), said, strict=True)
    return [": ".join(filter(None, both)) for both in named]


def finding(verdicts) -> str:
    """`findings` as one paragraph, for a caption; of more than a few comparisons only who got
    which verdict, and of the commonest verdict only how many did. The numbers are in the figure
    and in the data behind it."""
    if len(verdicts) <= WHOLE:
        return " ".join(findings(verdicts))
    said = []
    for metric, rows in verdicts.groupby("metric", sort=False):
        alike = rows["threads"].nunique() == 1 and not is_joint(rows).any()
        where = f" {threads_label(rows['threads'].iloc[0])}" if alike else ""
        few, many = [], []
        for word in ("slower", "faster", "same", UNDECIDED, NOT_JUDGED):
            chosen = rows[rows["verdict"].eq(word)]
            if len(chosen) > max(FEW, len(rows) / 2):
                who = f"{'all' if len(chosen) == len(rows) else 'the other'} {len(chosen)}"
                many.append(f"{upper(word)}: {who}{_together(chosen)}.")
            elif len(chosen):
                who = "; ".join(filter(None, _places(chosen, verdicts, alike)))
                few.append(f"{upper(word)}{who and f': {who}'}{_together(chosen)}.")
        least, most = int(rows["n_arm"].min()), int(rows["n_arm"].max())
        n = f"{f'{least} to ' if least < most else ''}{most} {unit(rows.iloc[0], most)}"
        if bare := int(rows["lo_pct"].isna().sum()):
            n += f", for {bare} of the {len(rows)} too few for an interval"
        said.append(f"{metric_label(metric)}{where}. {' '.join(few + many)} Each from {n}.")
    return " ".join(said)


def _together(rows) -> str:
    """What rows that cannot tell know together, and why some have no word although their intervals
    exclude zero."""
    rows = rows[rows["verdict"].eq(UNDECIDED) & rows["lo_pct"].notna()].to_dict("records")
    if not rows:
        return ""
    ends = min(r["lo_pct"] for r in rows), max(r["hi_pct"] for r in rows)
    why = [w for r in rows if _decides(r) for w in _notes(r)[:1]]
    apart = f"; {len(why)} only for this reason: {'; '.join(dict.fromkeys(why))}" if why else ""
    return f" ({amounts.known(*ends, rows[0]['metric'])}{apart})"


def _places(rows, among, alike) -> list[str]:
    """What the rows compare, in as few words as tell them apart `among` all; thread counts are
    left out where they are `alike`."""
    places: dict[str, list[str]] = {}
    for place, row in zip(_names(rows, among), rows.to_dict("records"), strict=True):
        places.setdefault(place, []).append("all" if joint(row) else str(row["threads"]))
    if alike:
        return list(places)
    return [
        f"{p}{' at ' if p else ''}{', '.join(counts)} thread{'s' * (counts != ['1'])}"
        for p, counts in places.items()
    ]


def _names(rows, among) -> list[str]:
    """What tells each of the rows from the others `among` all: workload and arm, where those have
    several, and whether it is the control."""
    own = among[~is_control(among)]
    names = [c for c in ("workload", "arm") if c in own and own[c].astype(str).nunique() > 1]
    found = []
    for row, control in zip(rows.to_dict("records"), is_control(rows), strict=True):
        told = [str(row[c]) for c in names if c != "arm" or not control]
        found.append(", ".join(["A/A control", *told] if control else told))
    return found


def leading(verdicts, choice=None) -> list:
    """The rows that a page leads with: a list of them, or the one that `primary` finds."""
    return choice if isinstance(choice, list) else [primary(verdicts, choice)]


def primary(verdicts, choice=None):
    """The row a page is about. `choice`: a dict of column values, or a metric's name; by default
    TPS (else the first metric), joint over thread counts where there is such a row, else the
    highest thread count; never the A/A control. Raises ReportError where there is none."""
    frame = verdicts[~is_control(verdicts)]
    wanted = {"metric": choice} if isinstance(choice, str) else choice or {}
    for column, value in wanted.items():
        frame = frame[frame[column].astype(object).eq(value)]
    if frame.empty:
        raise ReportError(f"no comparison in the verdict table matches {wanted or 'anything'}")
    if "metric" not in wanted:
        metric = "tps" if "tps" in set(frame["metric"]) else frame["metric"].iloc[0]
        frame = frame[frame["metric"].eq(metric)]
    if "workload" in frame:
        frame = frame[frame["workload"].astype(str).eq(str(frame["workload"].iloc[0]))]
    whole = frame[is_joint(frame)]
    each = frame.sort_values("threads", na_position="first")
    return whole.iloc[0] if len(whole) else each.iloc[-1]


# -- a campaign ------------------------------------------------------------------------------------


def when(campaign) -> str:
    """Date and minute of a campaign, from its facts."""
    found = campaign.get("date") or campaign.get("finished") or campaign.get("created") or ""
    return str(found)[:16].replace("T", " ").removesuffix(" 00:00")


def machine(campaign) -> str:
    """The machine of a campaign in a few words; never its host name."""
    host = campaign.get("host") or {}
    if isinstance(host, str):
        return host
    cores, memory = host.get("cores"), host.get("memory_B")
    cores, memory = cores and f"{cores} cores", memory and f"{memory / 2**30:.0f} GiB"
    parts = (host.get("cpu"), cores, memory, host.get("system"))
    return ", ".join(str(p) for p in parts if p)


def machines(campaign) -> list[str]:
    """The machines of a page's campaigns, that of its headline first."""
    hosts = [campaign.get("host"), *campaign.get("hosts", [])]
    return list(dict.fromkeys(machine({"host": h}) for h in hosts))


def engine(campaign) -> str:
    """The server of a campaign, `MySQL 9.7.4`."""
    several = {e["label"] for e in campaign.get("engines", {}).values()}
    if len(several) > 1:
        return " and ".join(sorted(several))
    what = campaign.get("engine") or ""
    return what["label"] if isinstance(what, dict) else str(what)


def where(campaign) -> list[tuple[str, str]]:
    """When, where and on what a campaign was measured, by what each is called in a box."""
    first, last = str(campaign.get("first") or "")[:10], when(campaign)
    told = f"{first} to {last[:10]}" if "" < first < last[:10] else last
    here, *others = machines(campaign)
    if others:
        here += f"; other questions: {'; '.join(others)}"
    told = told, here, engine(campaign)
    return list(zip(("Date", "Machine", "Server"), told, strict=True))
