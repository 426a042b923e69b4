"""What leads a page: a comparison as one plain statement over its thread counts and processors."""

from collections.abc import Sequence
from dataclasses import dataclass

from noisefloor.data.results import Results
from noisefloor.show.markup import TOLD
from noisefloor.show.report import words
from noisefloor.show.rows import Row, counted, joint, metric_label, offered, threads_label
from noisefloor.stats.verdict import CANNOT_TELL, NOT_YET, SAME, differs
from noisefloor.text import amounts

_PLAIN = {SAME: "no difference that matters", CANNOT_TELL: "no difference seen"}


def headline_of(row: Row, r: Results | None = None) -> str:
    """One row as a plain statement about its arm, for the top of a page: what changes, with one
    interval, on every processor, and what would decide it.

    r: the results that the row is from. Where its thread counts have no joint row, each of them is
    told, those with one verdict together: never a word over counts that differ."""
    places = [(place, parts(rows)) for place, rows in words.placed(row, r)]
    here = places[0][1]
    clauses = [_on(place, there, here[0], row.get("does")) for place, there in places]
    undecided = [part.verdict for part in here] == [CANNOT_TELL]
    joiner = "; " if undecided or any(len(there) > 1 for _, there in places) else ", "
    left = words.settle_clause(row, r) if undecided else ""
    return words.sentences((joiner.join(clauses), *words.doubts(row), left))


def on_each(row: Row, r: Results) -> list[tuple[str, str]]:
    """[(processor, what changes there)] of a row's comparison: `+7.2 % CPU a transaction at 1, 4 and
    64 threads (+4.5 to +9.8 %, so far 1 of 3 sittings)`."""
    places = []
    for _, rows in words.placed(row, r):
        clauses = (
            f"{_PLAIN.get(part.verdict) or part.amount()} {part.at} ({part.inside})"
            for part in parts(rows)
        )
        places.append((str(rows[0].get("processor") or ""), ", ".join(clauses)))
    return places


# -- rows with one verdict -------------------------------------------------------------------------


def parts(rows: Sequence[Row]) -> list["Part"]:
    """Rows of thread counts, those with one verdict together, those that name a direction first."""
    by_word: dict[str, list[Row]] = {}
    for row in rows:
        by_word.setdefault(words.word(row), []).append(row)
    order = [SAME, CANNOT_TELL, NOT_YET]
    return sorted(
        (Part(tuple(same)) for same in by_word.values()),
        key=lambda part: order.index(part.verdict) if part.verdict in order else -1,
    )


@dataclass(frozen=True)
class Part:
    """Rows of one comparison at several thread counts, or its joint row, that have one verdict."""

    rows: tuple[Row, ...]

    @property
    def row(self) -> Row:
        """The rows as one: the first with the ends of all their intervals."""
        return words.union(self.rows)

    @property
    def verdict(self) -> str:
        """Their verdict."""
        return str(self.rows[0]["verdict"])

    @property
    def at(self) -> str:
        """`at 1, 4 and 16 threads`: the thread counts that they stand for; `at 200 a
        second`."""
        first = self.rows[0]
        if offered(first):
            return f"at {words.counts(first)}"
        each = [row["threads"] for row in self.rows if counted(row["threads"])]
        if joint(first):
            each = first.get("over", [])
        if not each:
            return threads_label(None, joint=True) if joint(first) else ""
        *others, last = map(str, each)
        return f"at {', '.join(others)} and {last} threads" if others else f"at {counted(each[0])}"

    @property
    def inside(self) -> str:
        """What stands in parentheses: their interval, and why there is no word yet."""
        return words.inside(self.row)

    def amount(self, whole: bool = True) -> str:
        """`3.1 to 6.5 % more TPS`, `8.6 times the CPU a connection`; without a word yet `+3.1 % TPS`.
        whole: with what it is of."""
        near, far = (
            f(self.rows, key=lambda row: amounts.factor(row["change_pct"])) for f in (min, max)
        )
        metric, up = far["metric"], far["change_pct"] > 0
        _, larger, smaller, noun = _terms(metric)
        size, least = (amounts.size(row["change_pct"], metric) for row in (far, near))
        of = larger if up else smaller
        of = of if whole else of.split()[0]
        if size.endswith(" times") and up:
            of = f"the {noun}" if whole else ""
        elif self.verdict == NOT_YET and not size.endswith(" times"):
            changes = [row["change_pct"] for row in self.rows]
            ends = amounts.interval(min(changes), max(changes), metric)
            size = least = ends if len(changes) > 1 else words.change(far)
            of = noun if whole else ""
        if least != size:
            unit = size.lstrip("0123456789.,")
            size = f"{least.removesuffix(unit)} to {size}"
        return f"{size} {of}".strip()

    def claim(self, does: str | None, where: str) -> str:
        """The whole clause: who does what. `does`: what the arm does, in the words of its study."""
        arm, base = self.rows[0]["arm"], self.rows[0]["baseline"]
        verb, _, _, noun = _terms(self.rows[0]["metric"])
        if self.verdict == CANNOT_TELL:
            alone = f"how {arm} differs from {base} in {noun}"
            what = f"what {does} does to {noun}" if does else alone
            return f"cannot tell {what}{where}: {words.limits(self.row) or amounts.NONE}"
        if self.verdict == SAME:
            either = does or f"{arm} or {base}"
            return f"{either} makes no difference to {noun} that matters{where} ({self.inside})"
        amount = self.amount()
        if not differs(self.verdict):
            return f"{does or f'{arm} against {base}'}: {amount}{where} ({self.inside})"
        than = "" if does else f" {'of' if ' times the ' in amount else 'than'} {base}"
        return f"{does or arm} {verb} {amount}{than}{where} ({self.inside})"


def _terms(metric: str) -> list[str]:
    """[verb, more of it, less of it, it] of a metric, as a sentence says it."""
    label = metric_label(metric)
    label = f"{label[:1].lower()}{label[1:]}"
    terms: list[str] = TOLD["terms"].get(
        metric, ["has", f"higher {label}", f"lower {label}", label]
    )
    return terms


def _on(place: str, there: Sequence[Part], lead: Part, does: str | None) -> str:
    """What is told of one processor: of that of `lead` a whole clause, of another what differs from
    it."""
    clauses: list[str] = []
    for part in there:
        leads = part.rows[0] is lead.rows[0]
        at = part.at if clauses or leads or part.at != lead.at else ""
        on = f"on {place}" if place and not clauses else ""
        where = "".join(f" {text}" for text in (at, on) if text)
        if leads:
            clauses.append(part.claim(does, where))
        else:
            what = _PLAIN.get(part.verdict) or part.amount(whole=lead.verdict in _PLAIN)
            clauses.append(f"{what}{where} ({part.inside})")
    return ", ".join(clauses)
