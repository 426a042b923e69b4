"""The synthetic figures and the campaigns together: tables, goals, and sentences."""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from noisefloor import paths
from noisefloor.calibrate import heldout, live, truth
from noisefloor.calibrate.goals import goals_table
from noisefloor.data import results
from noisefloor.stats import scatter

SYNTHETIC = "calibration-synthetic"  # under data/raw/recorded
INSTRUMENTS = {
    "sysbench": "sysbench", "connect": "connections", "backup": "backups", "replica": "replicas",
    "restart": "restarts", "thread pool": "thread pools",
    "at a rate": "at a rate",
}  # fmt: skip
NO_TRUST = "Do not trust one machine boot for {}."
TRUSTED = "No kind of measurement is known whose repeats it predicts badly."


@dataclass(frozen=True)
class Calibration:
    """The synthetic figures (`truth.read`) and the campaigns that are there, opened."""

    figures: dict[str, Any]
    opened: tuple[results.Results, ...] = ()

    # What campaigns say; live.TooShort where there are none.
    identical = cached_property(lambda c: live.called(c.opened, control=False))
    controls = cached_property(lambda c: live.called(c.opened, control=True))
    slowdowns = cached_property(lambda c: live.slowdowns(c.opened))
    goals = cached_property(goals_table)

    @cached_property
    def repeats(self) -> pd.DataFrame:
        """Every recorded repeat, predicted from the sittings before it (`heldout.held_out`)."""
        frame = heldout.held_out(heldout.comparisons(self.opened))
        if frame.empty:
            raise live.TooShort("No question was measured in two sittings on one processor.")
        return frame

    @cached_property
    def two(self) -> pd.DataFrame:
        """What the fit behind two numbers says of each source when it is left out: columns metric, runs
        (long or short), source, groups, inside_pct, experimental."""
        fits = scatter.fits()["fits"].items()
        rows = [
            {"metric": metric, "runs": length} | source
            for metric, lengths in fits
            for length, fit in lengths.items()
            for source in fit["left_out"]
        ]
        return pd.DataFrame(rows)

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The synthetic cells with the names of their noise and scatter, and in percent: covered_pct,
        different_pct (of equal servers) and same_pct (false)."""
        cells = self.figures["cells"]
        n = cells["n"] / 100
        return cells.assign(
            noise_label=cells["noise"] + ", " + cells["dependence"].map("r {:g}".format),
            scatter=cells["name"],
            covered_pct=cells["covered"] / n,
            different_pct=(cells["larger_0"] + cells["smaller_0"]) / n,
            same_pct=(cells["same_2"] + cells["smaller_2"]) / n,
        )

    @cached_property
    def power(self) -> pd.DataFrame:
        """What campaigns say of true changes, the median cell of each scatter: columns scatter,
        truth_pct, named (the difference) and same, in percent."""
        rows = []
        for name, part in self.cells.groupby("scatter", sort=False):
            for t in truth.CELLS["truths_pct"]:
                shares = (100 * (part[f"{w}_{t}"] / part["n"]).median() for w in ("larger", "same"))
                rows.append((name, t, *shares))
        return pd.DataFrame(rows, columns=["scatter", "truth_pct", "named", "same"])

    @property
    def sentences(self) -> tuple[str, str, str, str]:
        """How often it reports a difference where there is none, what it misses, whether a repeat falls
        into the promised range, and where it must not be trusted."""
        false, missed = self.cells["different_pct"], self._missed.max()
        worst = self.power.set_index("scatter").query("truth_pct == 2")["named"].idxmin()
        return (
            f"Noisefloor reports a difference between equal servers in {false.median():.0f} of 100 "
            f"campaigns, at worst {math.ceil(false.max())}.",
            f"At worst ({worst}) it misses a real 2 % difference in {missed[2]:.0f} of 100 "
            f"campaigns, a 4 % one in {missed[4]:.0f}.",
            *self._repeated(),
        )

    @property
    def _missed(self) -> Any:
        """Share of campaigns that miss a true change, in percent, by change, over the scatters."""
        return (100 - self.power.set_index("truth_pct")["named"]).groupby(level=0)

    def _repeated(self) -> tuple[str, str]:
        try:
            repeats = self.repeats
        except live.TooShort:
            unknown = "Whether a repeat falls into its range is not known."
            return unknown, NO_TRUST.format("anything")
        inside, n = int(repeats["inside"].sum()), len(repeats)
        share = f"{100 * inside / n:.0f} %; goal 90 %"
        words = f"{inside} of {n} repeats fell into the promised range ({share})."
        bad = [INSTRUMENTS.get(r.instrument, r.instrument) for r in self._badly_predicted()]
        return words, NO_TRUST.format(" or ".join(bad)) if bad else TRUSTED

    def _badly_predicted(self) -> list[Any]:
        """The instruments whose repeats fall into their range less often than the goal says."""
        each = heldout.summary(self.repeats, "instrument")
        return list(each[each["share_pct"] < 90].itertuples())

    @property
    def headline(self) -> str:
        """The four sentences as one text."""
        return " ".join(self.sentences)


def open_calibration(campaigns: str = "") -> Calibration:
    """The recorded synthetic figures and the campaigns called so, "" for all recorded ones that came to
    their end."""
    folders = results.named(campaigns) or _recorded_folders()
    return Calibration(truth.read(recorded()), tuple(map(results.load, folders)))


def _recorded_folders() -> list[Path]:
    """The folders of all recorded campaigns that came to their end."""
    every = sorted(paths.recorded().glob("*/campaign.json"))
    return [f.parent for f in every if json.loads(f.read_text()).get("finished") != ""]


def recorded() -> Path:
    """Folder of the recorded synthetic figures."""
    return paths.recorded() / SYNTHETIC
