"""Sign flips: how often random signs put a mean as far from zero as it is."""

import functools

import numpy as np
from numpy.typing import ArrayLike

EXACT = 12  # units up to which every pattern of signs is tried
FLIPS = 20_000  # patterns drawn beyond that
CHUNK = 2_000_000  # numbers held at once


@functools.lru_cache(maxsize=16)
def _signs(n: int) -> np.ndarray:
    """[patterns, n] of +1 and -1: all, or the observed one and random ones."""
    if n <= EXACT:
        return 1.0 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    drawn = np.random.default_rng(n).choice([-1.0, 1.0], (FLIPS, n))
    drawn[0] = 1
    return drawn


def flips(units: ArrayLike, sides: int = 2) -> np.ndarray:
    """p of the mean under random signs of the units, [...]: 2: of a mean so far from zero, 1: of one
    so far above it. Exact up to 12 units, else 20,000 patterns, the observed one among them."""
    units = np.asarray(units, float)
    n, flat = units.shape[-1], units.reshape(-1, units.shape[-1])
    signs, out = _signs(n), np.empty(len(flat))
    if sides == 2 and n <= EXACT:
        signs = signs[: len(signs) // 2]  # the other half mirrors it
    step = max(1, CHUNK // len(signs))
    for at in range(0, len(flat), step):
        part = flat[at : at + step]
        moved, seen = signs @ part.T, part.sum(-1)
        if sides == 2:
            moved, seen = np.abs(moved), np.abs(seen)
        out[at : at + step] = (moved >= seen - 1e-9 * np.abs(part).sum(-1)).mean(0)
    return out.reshape(units.shape[:-1])
