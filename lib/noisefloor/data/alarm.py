"""Does the newest campaign lie where the earlier sittings predict? Separately for each processor.

The range is that of the pages (`question.no_closer`). All comparisons of one check share an error of
5 % (Bonferroni): a check of unchanged servers raises a false alarm in at most one of 20 cases."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from noisefloor.data import question
from noisefloor.model import metric as metric_of
from noisefloor.stats import combine, verdict
from noisefloor.stats.row import percent
from noisefloor.text.reasons import Reason, Why

INSIDE, WORSE, BETTER = "inside", "worse", "better"
EXPECTED = ["expected_lo_pct", "expected_hi_pct"]
COLUMNS: dict[str, Any]
COLUMNS = {"answer": "", **dict.fromkeys(EXPECTED, math.nan), "before": 0, "why": ""}


@dataclass(frozen=True)
class _Check:
    """One comparison on one processor: its newest campaign, and the sittings before. row: its label in
    the table; why: why there is no answer, "" if there is one."""

    row: Any
    metric: str
    newest: combine.Campaign | None
    before: list[combine.Campaign]
    tau: combine.Tau | None
    why: str

    def answer(self, checks: int) -> tuple[Any, ...]:
        """Values of COLUMNS. checks: how many share the error of 5 %."""
        if self.why or self.newest is None:
            return verdict.CANNOT_TELL, math.nan, math.nan, len(self.before), str(self.why)
        one = combine.predicted(self.newest, self.before, self.tau, checks)
        one = question.no_closer(self.metric, self.newest.effect, one)
        worse = (one.side > 0) == metric_of(self.metric).worse_up
        word = (WORSE if worse else BETTER) if one.side else INSIDE
        return word, percent(one.lo), percent(one.hi), one.before, ""


def marked(campaigns: pd.DataFrame) -> pd.DataFrame:
    """The rows of campaigns (in the order of time) with two more columns. present: the campaign has the
    design of its question's last one; newest: it is the last one of that design on its processor."""
    last = campaigns.groupby("question")["fingerprint"].transform("last")
    present = campaigns["fingerprint"].eq(last)
    each = campaigns["campaign"] + campaigns["sitting"].astype(str)  # machines may share a name
    key = [campaigns["question"], campaigns["processor"]]
    newest = each.eq(each[present].groupby(key).transform("last").reindex(each.index))
    return campaigns.assign(present=present, newest=newest & present)


def checked(rows: pd.DataFrame, instrument: Callable[[Mapping[Any, Any]], str]) -> pd.DataFrame:
    """Verdict rows with COLUMNS, filled in the rows of the newest campaigns: answer (inside, worse or
    better than expected, cannot tell), the range that the earlier sittings predict in percent, their
    number, and why there is no answer.

    rows: of `marked`, in the order of time, each with its sitting; rows without a campaign get empty
    COLUMNS. instrument: row -> the name of `design.instrument`."""
    out = rows.assign(**COLUMNS)
    alike = rows[rows["campaign"].notna() & rows["present"].eq(True)].astype({"newest": bool})
    keys = ["question", "processor", *question.COMPARISON]
    groups = (part for _, part in alike.groupby(keys, sort=False, dropna=False))
    checks = [_check(part, instrument) for part in groups if part["newest"].any()]
    able = sum(not check.why for check in checks)
    for check in checks:
        for column, value in zip(COLUMNS, check.answer(able), strict=True):
            out.loc[check.row, column] = value
    return out


def _check(campaigns: pd.DataFrame, instrument: Callable[[Mapping[Any, Any]], str]) -> _Check:
    """The check of one comparison, from its campaigns. Those in the sitting of the newest one are
    not earlier sittings."""
    label = campaigns.index[campaigns["newest"].to_numpy()][-1]
    *_, row = campaigns.loc[[label]].to_dict("records")
    others = campaigns[campaigns["sitting"].ne(row["sitting"])].to_dict("records")
    before = question.sittings((other["sitting"], other) for other in others)
    newest = question.campaign(row)
    tau = question.tau(instrument(row), row["metric"]) if newest and before else None
    least = min((int(other["blocks"]) for other in others), default=0)
    why = ""
    if newest is None:
        why = Reason(Why.NO_INTERVAL)
    elif not before:
        why = Reason(Why.FIRST_SITTING)
    elif tau is None and len(before) == 1:
        why = Reason(Why.SECOND_SITTING)
    elif int(row["blocks"]) < least:
        why = Reason(Why.FEWER_BLOCKS, blocks=int(row["blocks"]), least=least)
    return _Check(label, row["metric"], newest, before, tau, why)


def answers(rows: pd.DataFrame) -> set[str]:
    """What --fail-on may name of `checked` rows; `cannot tell` where none was checked."""
    words = {*rows["answer"]} - {""} or {verdict.CANNOT_TELL}
    return words | ({"outside"} if words & {WORSE, BETTER} else set())
