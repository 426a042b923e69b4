"""Runs without pairs: k runs an arm, one run with rows per second, and how long a slice should be."""

import math

import numpy as np
import pandas as pd
from scipy import special


def table(tidy, *, margin, alpha, floor, controls, baseline, restarts):
    """Verdict rows for unpaired runs (see `stats.table`)."""
    raise NotImplementedError


def slice_seconds(cost_s, within_sd, tau_s, between_sd):
    """Cheapest length of a slice, in seconds: sqrt(C s_w^2 tau / s_r^2)."""
    return math.sqrt(cost_s * within_sd**2 * tau_s / between_sd**2)
