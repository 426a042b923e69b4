"""Labels for the rows of a verdict table, and which kind each row is."""

from typing import Any

import pandas as pd

from noisefloor.model import CONTROL_SUFFIX, METRICS, TWICE
from noisefloor.show.markup import TOLD, has_value

Row = Any  # of a verdict table: a dict or a Series
ENDS = ["change_pct", "lo_pct", "hi_pct"]  # a change and the ends of its interval


def metric_label(name: str, short: bool = False) -> str:
    """The label of a metric; of an unknown one its name. `short`: its short label, if it has one."""
    if name not in METRICS:
        return str(name).replace("_", " ")
    return (short and METRICS[name].short) or METRICS[name].label


def threads_label(threads: Any, joint: bool = False) -> str:
    """`at 16 threads`, `over all thread counts`; "" if no threads are counted."""
    if joint:
        return "over all thread counts"
    return f"at {many}" if (many := counted(threads)) else ""


def counted(threads: Any) -> str:
    """`16 threads`; "" if none are counted (0 or missing)."""
    if pd.isna(threads) or not threads:
        return ""
    return f"{int(threads)} thread{'s' if int(threads) != 1 else ''}"


def offered(row: Row) -> float:
    """The load that a row is offered, 1/s; 0 at maximum throughput, or without the column rate."""
    rate = row.get("rate")
    return rate if has_value(rate) else 0


def arm_label(arm: str) -> str:
    """The name of an arm for readers: of an A/A control `the same twice`. Words of recorded designs
    that readers did not understand are replaced (`arms` in pages.toml)."""
    for designed, shown in TOLD["arms"].items():
        arm = arm.replace(designed, shown)
    return TWICE if arm.endswith(CONTROL_SUFFIX) else arm


def is_control(frame: pd.DataFrame) -> pd.Series:
    """A mask: the rows of a verdict table that compare the baseline with itself."""
    return frame["arm"].astype(str) == frame["baseline"].astype(str) + CONTROL_SUFFIX


def is_joint(frame: pd.DataFrame) -> pd.Series:
    """A mask: the rows of a verdict table that are the joint effect over thread counts."""
    return frame["joint"].eq(True) if "joint" in frame else pd.Series(False, index=frame.index)


def differing(frame: pd.DataFrame, *columns: str) -> list[str]:
    """Those of the columns that hold more than one value."""
    return [c for c in columns if c in frame and frame[c].astype(str).nunique() > 1]


def joint(row: Row) -> bool:
    """Whether a row is the joint effect over thread counts."""
    return has_value(row.get("joint")) and bool(row["joint"])
