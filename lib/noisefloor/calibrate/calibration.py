"""The synthetic figures and the campaigns together: tables, goals, and sentences."""

import json
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
    "connect": "connections", "backup": "backups", "replica": "replicas", "restart": "restarts",
    "thread pool": "thread pools",
}  # fmt: skip
SCATTERS = {"quiet": "quiet machine", "noisy": "noisy machine", "starts differ": "restarts differ"}
MOVING = "Results for {} change with each reboot: trust several."
TRUSTED = "No kind of measurement is known whose repeats it predicts badly."


@dataclass(frozen=True)
class Calibration:
    """The synthetic figures (`truth.read`) and the opened campaigns."""

    figures: dict[str, Any]
    opened: tuple[results.Results, ...] = ()

    # What campaigns say; each raises live.TooShort without campaigns for it.
    identical = cached_property(lambda c: live.called(c.opened, control=False))
    controls = cached_property(lambda c: live.called(c.opened, control=True))
    slowdowns = cached_property(lambda c: live.slowdowns(c.opened))
    at_rate = cached_property(lambda c: live.at_rate(c.opened))
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
        """How well the prediction for two numbers fits each source, if the fit leaves it out: columns
        metric, runs (long or short), source, groups, inside_pct, experimental."""
        fits = scatter.fits()["fits"].items()
        rows = [
            {"metric": metric, "runs": length} | source
            for metric, lengths in fits
            for length, fit in lengths.items()
            for source in fit["left_out"]
        ]
        return pd.DataFrame(rows)

    @cached_property
    def power(self) -> pd.DataFrame:
        """The words of campaigns by true change, in the median cell of each scatter: columns scatter,
        truth_pct, named (share that names the difference; at 0 any) and same, in percent."""
        rows = []
        cells = self.figures["cells"].replace({"name": SCATTERS})
        for name, part in cells.groupby("name", sort=False):
            for t in truth.CELLS["truths_pct"]:
                named = part[f"larger_{t}"] + (0 if t else part["smaller_0"])
                shares = (100 * (c / part["n"]).median() for c in (named, part[f"same_{t}"]))
                rows.append((name, t, *shares))
        return pd.DataFrame(rows, columns=["scatter", "truth_pct", "named", "same"])

    @property
    def sentences(self) -> tuple[str, str, str, str]:
        """How often it names a difference where there is none, how often a true one, whether a repeat
        falls into its range, and where it must not be trusted. The first two are from `power`."""
        low, high = (ends.map("{:.0f}".format) for ends in (self._named.min(), self._named.max()))
        return (
            f"Noisefloor raises {low[0]} to {high[0]} false alarms in 100 measurements of identical "
            "servers.",
            f"Of 100 real 2 % differences it typically finds {low[2]} to {high[2]}, of 4 % "
            f"differences {low[4]} to {high[4]}.",
            *self._repeated(),
        )

    @property
    def _named(self) -> Any:
        """Share of campaigns that name a difference, in percent, by true change, over the scatters."""
        return self.power.groupby("truth_pct")["named"]

    def _repeated(self) -> tuple[str, str]:
        try:
            repeats = self.repeats
        except live.TooShort:
            unknown = "Whether a repeat falls into its range is not known."
            return unknown, "Do not trust the results of one boot."
        inside, n = int(repeats["inside"].sum()), len(repeats)
        words = f"Real results, measured again: {inside} of {n} fell into the range given before"
        bad = [INSTRUMENTS.get(r.instrument, r.instrument) for r in self._badly_predicted()]
        trust = MOVING.format(" and ".join(bad)) if bad else TRUSTED
        return f"{words} ({100 * inside / n:.0f} %; goal 90 %).", trust

    def _badly_predicted(self) -> list[Any]:
        """The instruments whose repeats fall into their range less often than the goal says."""
        each = heldout.summary(self.repeats, "instrument")
        return list(each[each["share_pct"] < 90].itertuples())

    @property
    def headline(self) -> str:
        """The four sentences as one text."""
        return " ".join(self.sentences)


def open_calibration(campaigns: str = "") -> Calibration:
    """The recorded synthetic figures with the campaigns of these names ("": all recorded ones that
    finished)."""
    folders = results.named(campaigns) or _recorded_folders()
    return Calibration(truth.read(recorded()), tuple(map(results.load, folders)))


def _recorded_folders() -> list[Path]:
    """The folders of all recorded campaigns that finished."""
    every = sorted(paths.recorded().glob("*/campaign.json"))
    return [f.parent for f in every if json.loads(f.read_text()).get("finished") != ""]


def recorded() -> Path:
    """Folder of the recorded synthetic figures."""
    return paths.recorded() / SYNTHETIC
