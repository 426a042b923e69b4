"""The rows of a verdict table: what they are, and their names."""

from typing import Any

import pandas as pd

from noisefloor.model import CONTROL_SUFFIX, METRICS, TWICE
from noisefloor.show.markup import TOLD, has_value

Row = Any  # of a verdict table: a dict or a Series
ENDS = ["change_pct", "lo_pct", "hi_pct"]  # a change and the ends of its interval


def metric_label(name: str, short: bool = False) -> str:
    """How a metric is called in text. `short`: where room is short."""
    if name not in METRICS:
        return str(name).replace("_", " ")
    return (short and METRICS[name].short) or METRICS[name].label


def threads_label(threads: Any, joint: bool = False) -> str:
    """`at 16 threads`, `over all thread counts`, or nothing."""
    if joint:
        return "over all thread counts"
    return f"at {many}" if (many := counted(threads)) else ""


def counted(threads: Any) -> str:
    """`16 threads`, or nothing where none are counted (0)."""
    if pd.isna(threads) or not threads:
        return ""
    return f"{int(threads)} thread{'s' if int(threads) != 1 else ''}"


def offered(row: Row) -> float:
    """Transactions a second that a row is about; 0 for as many as a server can do, or none known."""
    rate = row.get("rate")
    return rate if has_value(rate) else 0


def arm_label(arm: str) -> str:
    """How readers see an arm: the A/A control as `the same twice`, another by its name, which may have
    other words than the one in the design of recorded campaigns."""
    for designed, shown in TOLD["arms"].items():
        arm = arm.replace(designed, shown)
    return TWICE if arm.endswith(CONTROL_SUFFIX) else arm


def is_control(frame: pd.DataFrame) -> pd.Series:
    """Which rows of a verdict table compare the baseline with itself."""
    return frame["arm"].astype(str) == frame["baseline"].astype(str) + CONTROL_SUFFIX


def is_joint(frame: pd.DataFrame) -> pd.Series:
    """Which rows of a verdict table are the joint effect over thread counts."""
    return frame["joint"].eq(True) if "joint" in frame else pd.Series(False, index=frame.index)


def differing(frame: pd.DataFrame, *columns: str) -> list[str]:
    """Those of the columns that hold more than one value."""
    return [c for c in columns if c in frame and frame[c].astype(str).nunique() > 1]


def joint(row: Row) -> bool:
    """Whether a row is the joint effect over thread counts."""
    return has_value(row.get("joint")) and bool(row["joint"])
