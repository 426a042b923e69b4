"""One comparison of pairs: estimate, interval, verdict, p and what more it would take.

Works on log overheads (positive is worse) in the order of measuring, with the block (server start)
that each pair belongs to. `judge` is the sequential test, `fixed` the classical one for a number of
pairs that was settled beforehand."""

import math
from dataclasses import replace

import numpy as np

from noisefloor.stats import sequential
from noisefloor.stats.fixed import sign_flips
from noisefloor.stats.outcome import Outcome, verdict
from noisefloor.stats.plan import DOUBT, FEWEST, t_quantile, t_tail, units_needed

ALIKE = "a lasting difference between two servers looks the same"


def judge(d, block, *, design, margin, alpha=0.05, floor=None, whose=""):
    """Outcome of the sequential test for one comparison; `sequential.decide` is the rule.

    floor: (start-to-start sd of one arm on the log scale, its degrees of freedom), added when the
    files do not say whether the servers were restarted, or the server never was: then `whose`
    says where the floor is from."""
    d, block = np.asarray(d, float), np.asarray(block)
    whole = sequential.means(d, block)[: sequential.complete(block)[-1]]
    differ = design == "switched" and bool(sequential.unequal(d, block)[-1])
    units = whole if design != "switched" else d
    lo, hi, p = _sequential(units, margin, alpha)
    if differ:
        lo_b, hi_b = (ends[-1] for ends in sequential.block_interval(d, block, alpha=alpha))
        lo, hi, p = min(lo, float(lo_b)), max(hi, float(hi_b)), max(p, min(1, 10 * t_p(whole)))
    code = sequential.decide(d, block, design=design, margin=margin, alpha=alpha)[-1]
    word = sequential.WORDS[int(code)]
    if word != verdict(lo, hi, margin):  # they agree but for the resolution of the interval
        word = "cannot tell"
    out = _outcome(d, block, units, whole, (lo, hi, p, word), design, differ, margin, alpha)
    return widened(out, floor, margin, alpha, whose) if floor else out


def fixed(d, block, *, design, margin, alpha=0.05, floor=None, whose=""):
    """Outcome of the classical analysis for a number of pairs settled beforehand.

    Interval: Student's t on the units; where the starts differ the wider one of pairs and block
    means. p: sign flips of the units; where the starts differ the larger one of that and Student's
    t on block means. `same` when the interval lies inside the margin: stricter than TOST."""
    d, block = np.asarray(d, float), np.asarray(block)
    whole = sequential.means(d, block)
    differ = design == "switched" and bool(sequential.unequal(d, block)[-1])
    units = whole if design != "switched" else d
    judged = [units, whole] if differ else [units]
    lo, hi = min((t_interval(u, alpha) for u in judged), key=lambda ends: ends[0] - ends[1])
    p = max(sign_flips(units), t_p(whole)) if differ else sign_flips(units)
    word = verdict(lo, hi, margin)
    if word in ("slower", "faster") and p > alpha:
        word = "cannot tell"
    out = _outcome(d, block, units, whole, (lo, hi, p, word), design, differ, margin, alpha)
    return widened(out, floor, margin, alpha, whose) if floor else out


def widened(outcome, floor, margin, alpha=0.05, whose=""):
    """The outcome with a start-to-start difference of both arms added to its uncertainty.

    floor: (sd of one arm's starts, degrees of freedom). Half widths add in quadrature; p becomes
    that of the estimate against the widened error."""
    sd, df = floor
    t = t_quantile(1 - alpha / 2, df)
    extra = t * math.sqrt(2) * sd
    middle = outcome.estimate
    lo = middle - math.hypot(middle - outcome.lo, extra)
    hi = middle + math.hypot(outcome.hi - middle, extra)
    toward_zero = middle - lo if middle > 0 else hi - middle
    p = max(outcome.p, 2 * t_tail(t * abs(middle) / toward_zero, df)) if toward_zero else 1.0
    word = verdict(lo, hi, margin)
    doubt = abs(middle) + math.hypot((hi - lo) / 2, DOUBT * extra)
    if word != outcome.verdict or (word == "same" and doubt >= margin):
        word = "cannot tell"
    note, way_out = (
        "one start, and nothing says whether the servers were dealt anew: a start-to-start CV of "
        f"{100 * sd:.2g} % is added",
        "more pairs under the same start cannot settle it: restart the server",
    )
    if whose:
        note = f"the server was not restarted: a start-to-start CV of {100 * sd:.2g} % is added, {whose}"
        way_out = (
            "more pairs on a server that is not restarted cannot settle it; throwaway servers can"
        )
    more = {"warnings": [*outcome.warnings, note]}
    if word != outcome.verdict:
        more["warnings"].append(way_out)
        more |= {"needed": math.inf, "best": math.inf}
    return replace(outcome, lo=lo, hi=hi, p=p, verdict=word, floor=(hi - lo) / 2, **more)


def centre(d):
    """Hodges-Lehmann location of d: the median of all pairwise means, hardly moved by stalls."""
    d = np.asarray(d, float)
    both = (d[:, None] + d)[np.triu(np.ones((len(d), len(d)), bool))]
    return float(np.median(both) / 2)


def t_interval(d, alpha=0.05):
    """(lo, hi) of Student's t for the mean of d; infinite for a single value."""
    d = np.asarray(d, float)
    if len(d) < 2:
        return -math.inf, math.inf
    half = t_quantile(1 - alpha / 2, len(d) - 1) * d.std(ddof=1) / math.sqrt(len(d))
    return float(d.mean() - half), float(d.mean() + half)


def t_p(d):
    """Two-sided p of Student's t for the mean of d; 1 for a single value."""
    if len(d) < 2:
        return 1.0
    error = np.std(d, ddof=1) / math.sqrt(len(d))
    return 2 * t_tail(abs(float(np.mean(d))) / error, len(d) - 1) if error else 0.0


def _sequential(units, margin, alpha):
    """(lo, hi, p) of independent units."""
    if not len(units):
        return -math.inf, math.inf, 1.0
    lo, hi = sequential.interval(units, margin=margin, alpha=alpha)
    e_value = float(sequential.against(units, 0.0, margin)[-1])
    return float(lo), float(hi), 1 / max(e_value, 1.0)


def _outcome(d, block, units, whole, read, design, differ, margin, alpha):
    lo, hi, p, word = read
    starts = len(dict.fromkeys(block.tolist()))
    side = design != "switched"
    warnings = []
    if len(units) < FEWEST:
        name = "blocks" if side else "pairs"
        warnings.append(
            f"{len(units)} {name if len(units) > 1 else name[:-1]}: fewer than {FEWEST} cannot reach 5 %"
        )
    if differ:
        warnings.append(
            "the starts differ by more than their pairs explain: the interval also holds for the "
            f"{starts} starts as units"
        )
    if starts == 1:
        warnings.append(
            "one server start only: "
            + ("the effect at another start is unknown" if design == "switched" else ALIKE)
        )
    elif starts < sequential.FEW_STARTS and not side:
        warnings.append(
            f"{starts} server starts: fewer than {sequential.FEW_STARTS} hardly show whether the "
            "effect differs from start to start"
        )
    estimate = centre(units if len(units) else d)
    if math.isfinite(lo + hi):
        estimate = min(max(estimate, lo), hi)
    basis = whole if side or differ else units
    each = len(d) / starts if side or differ else 1
    needed = best = cv = math.nan
    if len(basis) > 1:
        sd = float(np.std(basis, ddof=1))
        nearer = sd / math.sqrt(len(basis))
        needed = each * units_needed(estimate, sd, margin, alpha)
        if len(basis) >= 4:  # the sd of two or three units is too wild to give up on
            best = each * min(
                units_needed(e, sd, margin, alpha)
                for e in (abs(estimate) + nearer, max(abs(estimate) - nearer, 0))
            )
        t = t_quantile(1 - alpha / 2, len(basis) - 1)
        cv = abs(estimate) * math.sqrt(len(basis)) / (t * math.sqrt(2))
    return Outcome(
        estimate, lo, hi, p, word, len(d), len(d), starts, needed, best, cv, (hi - lo) / 2, warnings
    )
