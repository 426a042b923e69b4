"""Names from others in a CSV: text for a spreadsheet, never a formula. Never imports pandas."""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# what spreadsheets take for a formula; a sign before a mere number (the arm "+5 %") makes none
_FORMULA = re.compile(
    r"\s*(?:[=@|%\uff1d\uff0b\uff0d\uff20]|[+-](?!\s*[0-9][0-9.,]*\s*%?\s*\Z))|[\t\r]"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def cell(value: Any) -> Any:
    """`value` for a CSV: text that would be a formula has an apostrophe before it,
    control characters are replaced. Other values are unchanged."""
    if not isinstance(value, str):
        return value
    value = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)
    return f"'{value}" if _FORMULA.match(value) else value


def cells(frame: "pd.DataFrame") -> "pd.DataFrame":
    """A copy of the frame whose texts and column names went through `cell`."""
    frame = frame.rename(columns=cell)
    for n, kind in enumerate(frame.dtypes):
        if kind.kind == "O":
            frame.isetitem(n, [cell(v) for v in frame.iloc[:, n]])
    return frame
