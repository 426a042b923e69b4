"""The synthetic figures and the campaigns together: tables, goals, and sentences."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from noisefloor import paths
from noisefloor.calibrate import heldout, live, truth
from noisefloor.calibrate.goals import goals_table, pct
from noisefloor.data import results
from noisefloor.stats import scatter
from noisefloor.stats.verdict import differs

SYNTHETIC = "calibration-synthetic"  # under data/raw/recorded
INSTRUMENTS = {
    "sysbench": "sysbench", "connect": "connections", "backup": "backups", "replica": "replicas",
    "restart": "restarts", "thread pool": "thread pools",
    "at a rate": "at a rate",
}  # fmt: skip
NO_TRUST = "Do not rely on a single sitting of {}: sittings differ by more than one of them shows."
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
        """How often it reports false differences, what it misses, whether a repeat lies in its range, and
        where it must not be trusted."""
        return self._wolf(), self._misses(), *self._repeated()

    def _wolf(self) -> str:
        share = self.cells["different_pct"]
        words = (
            f"Of two equal servers it says that they differ in {share.median():.1f} of 100 synthetic "
            f"campaigns ({share.max():.1f} in the worst of {len(share)} kinds of noise)"
        )
        try:
            wrong = [int(f["verdict"].map(differs).sum()) for f in (self.identical, self.controls)]
        except live.TooShort:
            return f"{words}."
        return (
            f"{words}, in {wrong[0]} of {len(self.identical)} recorded comparisons of identical servers "
            f"and in {wrong[1]} of {len(self.controls)} of a server with itself."
        )

    def _misses(self) -> str:
        missed = (100 - self.power.set_index("truth_pct")["named"]).groupby(level=0)
        small, large = (f"{missed.min()[t]:.0f} to {missed.max()[t]:.0f} %" for t in (2, 4))
        return (
            f"It misses a real change of 2 % in {small} of campaigns and one of 4 % in {large}, depending "
            "on how much runs and starts scatter."
        )

    def _repeated(self) -> tuple[str, str]:
        try:
            repeats = self.repeats
        except live.TooShort as e:
            words = f"Whether a repeat falls into its range is not known. {e}"
            return words, NO_TRUST.format("anything")
        inside, n = int(repeats["inside"].sum()), len(repeats)
        words = (
            f"A repeat on the same processor fell into the range predicted before it in {inside} of "
            f"{n} cases ({pct(inside / n)}); the goal is 90 %."
        )
        each = heldout.summary(repeats, "instrument")
        missed: Iterable[Any] = each[each["share_pct"] < 90].itertuples()
        bad = [
            f"{INSTRUMENTS.get(r.instrument, r.instrument)} ({r.inside} of {r.repeats} repeats inside)"
            for r in missed
        ]
        return words, NO_TRUST.format(" and ".join(bad)) if bad else TRUSTED

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
