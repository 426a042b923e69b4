"""The first sentence of a page: a comparison over its thread counts and processors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from noisefloor import studies
from noisefloor.data.results import PROCESSOR, SHORT, Results, headlines
from noisefloor.model import metric as metric_of
from noisefloor.show.markup import TOLD, has_value
from noisefloor.show.report import words
from noisefloor.show.rows import Row, counted, is_control, is_joint, joint, metric_label, offered
from noisefloor.stats.verdict import CANNOT_TELL, PROVISIONAL, SAME, differs
from noisefloor.text import amounts

_PLAIN = {SAME: "no difference that matters", CANNOT_TELL: "no difference seen"}


def headline_of(
    row: Row, r: Results | None = None, *, brief: bool = False, after: Row | None = None
) -> str:
    """One row as a plain statement about its arm, for the top of a page: what changes, with one
    interval, on every processor, and what would decide it.

    r: the results that the row is from; brief: without the number of boots, and the first sentence
    with the worst and the best case of its page; after: the row of the sentence before, whose arm is
    not named again. If the thread counts have no joint row, the sentence names each of them, those
    with one verdict together: never one word for counts that differ. More than two processors with
    one verdict have one range, in a second sentence two, too."""
    places = [(place, parts(rows, brief)) for place, rows in words.placed(row, r)]
    several, open_ones, elsewhere = len(places) > 1, list[Row](), ""
    again = after is not None and all(after[c] == row[c] for c in ("arm", "baseline"))
    whole = parts([x for _, there in places for p in there for x in p.rows], brief)
    if len(places) > (1 if again else 2) and len(whole) == 1:  # no room for an interval each
        *names, last = sorted(place for place, _ in places)
        places = [("" if again else f"{', '.join(names)} and {last}", whole)]
    if again:  # room is short: the first processor alone, with its name
        places = places[:1]
    elif several and (open_ones := _open_rows(row, r, places)):
        if firm := [(at, kept) for at, x in places if (kept := [p for p in x if not p.open])]:
            partly = [place for place, there in places if any(p.open for p in there)]
            alone = len(partly) == 1 and partly[0] not in dict(firm)
            where = f"on {partly[0]}" if alone else "elsewhere"
            elsewhere = f"{where} {CANNOT_TELL}, {words.either(words.union(open_ones))}"
        places = firm or [("", [Part(tuple(open_ones), brief)])]
    here = places[0][1]
    does = "it" if again else row.get("does")
    before = parts(words.placed(after, r)[0][1], brief) if again and after is not None else []
    one_each = bool(before) and all(len(there) == 1 for _, there in places)
    same_load = one_each and all(_load(there) == _load(before) for _, there in places)
    if same_load and after is not None and r is not None and offered(after):
        same_load = not extremes(after, r)[1]  # these name another load
    clauses = [_on(place, there, here[0], does, same_load) for place, there in places]
    undecided = [part.verdict for part in here] == [CANNOT_TELL]
    joiner = "; " if undecided or any(len(there) > 1 for _, there in places) else ", "
    left = words.settle_clause(row, r) if undecided else ""
    shown = [*(part.row for _, there in places for part in there), *open_ones]
    room = brief and not (again and several)  # else the case may be another processor's
    cases = extremes(row, r, shown)[1] if room and r is not None else ""
    answer = ", ".join(filter(None, (joiner.join(clauses), elsewhere, cases)))
    return words.sentences((answer, *words.doubts(row), left))


def _load(there: Sequence["Part"]) -> Any:
    """The rate of parts, else all their thread counts: to see if two sentences are about one load."""
    return offered(there[0].rows[0]) or sorted({t for p in there for t in p._counts})


def _open_rows(
    row: Row, r: Results | None, places: Sequence[tuple[str, Sequence["Part"]]]
) -> list[Row]:
    """The rows of single thread counts, on all processors, that the open parts of a sentence stand for;
    none where no part is open."""
    every = [part for _, there in places for part in there]
    firm = [p for p in every if not p.open]
    named = {(x.get("processor"), str(t)) for p in firm for x in p.rows for t in p._counts}
    each = [x for _, rows in words.placed(row, r, apart=True) for x in rows]
    kept = [x for x in each if (x.get("processor"), str(x["threads"])) not in named]
    open_rows = [x for p in every if p.open for x in p.rows]
    return [x for x in kept if words.undecided(x)] or open_rows if open_rows else []


def on_each(row: Row, r: Results) -> list[tuple[str, str]]:
    """[(processor, what changes there)] of a row's comparison: `+7.2 % CPU per transaction at 1, 4 and
    64 threads (+4.5 to +9.8 %, provisional, boot 1 of 3)`."""
    places = []
    for _, rows in words.placed(row, r):
        clauses = (
            f"{_PLAIN.get(part.verdict) or part.amount()} {part.at} ({part.inside})"
            for part in parts(rows)
        )
        places.append((str(rows[0].get("processor") or ""), ", ".join(clauses)))
    names = words.short_names([name for name, _ in places])
    return [(names[name], clauses) for name, clauses in places]


def extremes(row: Row, r: Results, shown: Sequence[Row] = ()) -> tuple[float, str]:
    """(the worst end, in percent, of all intervals of the row's metric and arm on its page, on any
    processor; the worst and the best case, as the end of the row's sentence). A worst case has an end
    beyond those of `shown` (default: the row on each processor), `at 150 TPS on Zen 1 possibly +3.1 %`; a
    best case is wholly beyond them, `best +0.2 % at 64 threads (reads)`."""
    metric, sign = row["metric"], 1 if metric_of(row["metric"]).worse_up else -1
    better, worse = ("lo_pct", "hi_pct")[::sign]
    shown = shown or [x for _, rows in words.placed(row, r) for x in rows]
    whole = words.union([x for x in shown if has_value(x["lo_pct"])] or [row])
    rows = r.verdicts[r.verdicts["metric"].eq(metric) & r.verdicts["arm"].eq(row["arm"])]
    rows = rows[rows["lo_pct"].notna() & ~is_joint(rows) & ~is_control(rows)]
    cases = rows.sort_values(worse, ascending=sign > 0).to_dict("records")
    on = [*dict.fromkeys(rows["processor"])] if "processor" in rows else []
    names = words.short_names(on) if len(on) > 1 else {}
    most, clauses = whole[worse], list[str]()
    for each in cases[-1:]:
        if sign * (each[worse] - most) > 0:
            end, most = amounts.change(most, metric), each[worse]
            if amounts.change(most, metric) != end:
                clauses.append(
                    f"{_beside(each, row, names)} possibly {amounts.change(most, metric)}".strip()
                )
    for each in cases[:1]:
        if sign * (whole[better] - each[worse]) > 0:
            clauses.append(f"best {words.change(each)}{_beside(each, row, names)}")
    return most, ", ".join(clauses)


def _beside(each: Row, row: Row, names: Mapping[str, str]) -> str:
    """The place of `each`, with what differs from `row`: ` at 150 TPS on Zen 1`, ` at 16 threads (writes)`;
    names: {processor: as the sentence names it}, if there are several."""
    at = words.counts(each)
    load, usual = (x["workload"].removesuffix(f", {offered(x):,.0f} a second") for x in (each, row))
    on = names.get(each.get("processor"), "")
    return f"{at and f' at {at}'}{f' ({load})' * (load != usual)}{on and f' on {on}'}"


def advice(row: Row, r: Results) -> str:
    """What a reader should do: the study's advice for `worse`, `better`, `same` (within the margin) or
    `open`, over all processors together. These texts name processor time, so a row of another metric
    has the advice for `any`. "" if the study says nothing."""
    rows = [x for _, rows in words.placed(row, r) for x in rows if has_value(x["lo_pct"])]
    if not rows:
        return ""
    whole = words.union(rows)
    if row["metric"] not in PROCESSOR:
        kind = "any"
    elif _within(whole):
        kind = SAME
    elif whole["lo_pct"] > 0 or whole["hi_pct"] < 0:
        kind = "worse" if (whole["lo_pct"] > 0) == metric_of(row["metric"]).worse_up else "better"
    else:
        kind = "open"
    most = amounts.size(extremes(row, r)[0], row["metric"])
    return studies.advice(r.study.name, r.study.key, kind).format(most=most)


def brief(r: Results, page: str) -> list[str]:
    """What campaigns say, in at most five lines for a terminal: what changes, how often it was
    measured, what to do next, and where all comparisons are (`page`; "" for nowhere)."""
    leads = headlines(r)
    first: Row = leads[0] if leads else r.verdicts.iloc[0]
    alike = r.of(first["workload"], control=False, question=first["question"])
    if alike["arm"].nunique() > 1:
        lines = [words.finding(alike[alike["metric"].eq(row["metric"])]) for row in leads]
    else:
        lines = [headline_of(row, r, brief=True) for row in leads]
    lines = lines or words.findings(r.verdicts)[:1]
    sittings, asked = int(first["sittings"]), int(first["asked"])
    (processor,) = words.short_names([first["processor"]]).values()
    where = f"boot{'s' * (asked > 1)} on {processor}"
    lines.append(f"Measured {words.effort(first, r)}: {sittings} of {asked} {where}.")
    lines.append(_next_step(r, sittings < asked))
    if page:
        lines.append(f"All comparisons ({len(r.verdicts)}): {page}")
    return [amounts.ascii_only(line) for line in lines]


def _next_step(r: Results, lacking: bool) -> str:
    """The command that would add most to what is known. lacking: whether boots are missing."""
    if r.study.profile.name in SHORT:
        return "For narrower intervals: the same command with --profile standard."
    pack = f"noisefloor pack {r.folder.name if len(r.every) == 1 else 'CAMPAIGN'}"
    again = "Another boot: restart the machine, then run the same command. " if lacking else ""
    return f"{again}To commit this one: {pack}"


# -- rows with one verdict -------------------------------------------------------------------------


def parts(rows: Sequence[Row], brief: bool = False) -> list["Part"]:
    """Rows of thread counts as parts: one a verdict, of provisional rows one for each side of zero;
    those that name a direction first."""
    alike: dict[Any, list[Row]] = {}
    for row in rows:
        side = (words.undecided(row), row["lo_pct"] > 0) if row["verdict"] == PROVISIONAL else ()
        alike.setdefault((words.word(row), side), []).append(row)
    order = [SAME, CANNOT_TELL, PROVISIONAL]
    return sorted(
        (Part(tuple(same), brief) for same in alike.values()),
        key=lambda p: (order.index(p.verdict) if p.verdict in order else -1, p.open),
    )


@dataclass(frozen=True)
class Part:
    """Rows of one comparison at several thread counts, or its joint row, that have one verdict."""

    rows: tuple[Row, ...]
    brief: bool = False  # without the number of boots

    @property
    def row(self) -> Row:
        """The rows as one: the first with the outer ends of all their intervals."""
        return words.union(self.rows)

    @property
    def verdict(self) -> str:
        """Their verdict."""
        return str(self.rows[0]["verdict"])

    @property
    def open(self) -> bool:
        """Whether it has no word yet, and may lie on either side of zero."""
        return self.verdict == PROVISIONAL and words.undecided(self.row)

    @property
    def _counts(self) -> list[Any]:
        """Their thread counts; of a joint row those that it averages."""
        if joint(self.rows[0]):
            return list(self.rows[0].get("over", []))
        return [*dict.fromkeys(row["threads"] for row in self.rows if counted(row["threads"]))]

    @property
    def at(self) -> str:
        """`at 1, 4 and 16 threads`: their thread counts; `at 100 TPS`."""
        first = self.rows[0]
        if offered(first) or not self._counts:
            return words.at(first)
        *others, last = map(str, self._counts)
        over = "averaged over" if joint(first) else "at"
        return f"{over} {', '.join(others)} and {last} threads" if others else words.at(first)

    @property
    def inside(self) -> str:
        """The parentheses: their interval, and why there is no word yet."""
        return words.inside(self.row, self.brief)

    @property
    def _far(self) -> Row:
        """Its row with the largest change."""
        return max(self.rows, key=lambda row: amounts.factor(row["change_pct"]))

    @property
    def multiplied(self) -> bool:
        """Whether the change is written as a multiple: `8.6 times the CPU per connection`."""
        change = self._far["change_pct"]
        return bool(change > 0 and amounts.large(change, self._far["metric"]))

    def amount(self, whole: bool = True) -> str:
        """`3.1 to 6.5 % more TPS`, `8.6 times the CPU per connection`; without a word yet `+3.1 % TPS`.
        whole: with the metric."""
        metric, change = self._far["metric"], self._far["change_pct"]
        terms = terms_of(metric)
        word = terms.more if change > 0 else terms.less
        of = f"{word} {terms.of}" if whole else word
        changes = [row["change_pct"] for row in self.rows]
        least = amounts.size(min(changes, key=amounts.factor), metric)
        size = amounts.from_to(least, amounts.size(change, metric))
        if self.multiplied:
            of = f"the {terms.noun}" if whole else ""
        elif self.verdict in (PROVISIONAL, "") and not amounts.large(change, metric):
            several = amounts.interval(min(changes), max(changes), metric)
            size = several if len(changes) > 1 else words.change(self._far)
            of = terms.noun if whole else ""
        return f"{size} {of}".strip()

    def beside(self, where: str, whole: bool) -> str:
        """The clause of another thread count or processor than the one that the sentence begins with."""
        if self.open:
            return f"{words.either(self.row)}{where}"
        return f"{_PLAIN.get(self.verdict) or self.amount(whole)}{where} ({self.inside})"

    def claim(self, does: str | None, where: str) -> str:
        """The whole clause: who does what. `does`: what the arm does, in the words of its study."""
        arm, base = self.rows[0]["arm"], self.rows[0]["baseline"]
        of = f" of {base}" * (self.multiplied and does != "it")
        verb, _, _, noun, _ = terms_of(self.rows[0]["metric"])
        if self.verdict == CANNOT_TELL:
            alone = f"how {arm} differs from {base} in {noun}"
            what = f"what {does} does to {noun}" if does else alone
            return f"cannot tell {what}{where}: {words.limits(self.row) or amounts.NONE}"
        if self.verdict == SAME:
            either = does or f"{arm} or {base}"
            return f"{either} makes no difference to {noun} that matters{where} ({self.inside})"
        if not differs(self.verdict):
            who = "" if does == "it" else does or f"{arm} against {base}"
            if words.undecided(self.row):
                why = "" if self.brief else f" ({words.word(self.row)})"
                what = f"{who and f'{who}, '}{noun}{where}: {CANNOT_TELL}"
                if _within(self.row):
                    so_far = "" if self.brief else " so far"
                    what = f"{who and f'{who}: '}{_PLAIN[SAME]}{so_far} in {noun}{where}"
                return f"{what}, {words.either(self.row)}{why}"
            return f"{who and f'{who}: '}{self.amount()}{of}{where} ({self.inside})"
        than = of or ("" if does else f" than {base}")
        return f"{does or arm} {verb} {self.amount()}{than}{where} ({self.inside})"


def _within(row: Row) -> bool:
    """Whether an interval lies wholly inside the margin of its metric."""
    return all(abs(row[end]) <= row["margin_pct"] for end in ("lo_pct", "hi_pct"))


class _Terms(NamedTuple):
    """How a sentence says a metric: "takes", "more", "less", "CPU per transaction"; `of`: the words
    after more and less."""

    verb: str
    more: str
    less: str
    noun: str
    of: str


def terms_of(metric: str) -> _Terms:
    """How a sentence says a change of a metric."""
    label = metric_label(metric)
    terms = TOLD["terms"].get(metric, ["has", "higher", "lower", label[:1].lower() + label[1:]])
    verb, more, less, noun = terms[:4]
    return _Terms(verb, more, less, noun, terms[-1])


def _on(place: str, there: Sequence[Part], lead: Part, does: str | None, same_load: bool) -> str:
    """The words for one processor: a whole clause for the part `lead`, shorter ones for the others.
    same_load: the load is that of the sentence before."""
    clauses: list[str] = []
    for part in there:
        leads = part.rows[0] is lead.rows[0]
        at = part.at if clauses or leads or part.at != lead.at else ""
        if leads and same_load:
            at = "there" * bool(offered(part.rows[0]))
        on = f"on {place}" if place and not clauses else ""
        where = "".join(f" {text}" for text in (at, on) if text)
        if leads:
            clauses.append(part.claim(does, where))
        else:
            clauses.append(part.beside(where, whole=lead.verdict in _PLAIN))
    return ", ".join(clauses)
