"""The result of a question: all of its campaigns on one processor, combined. Numpy and scipy alone.

Campaigns of one sitting (one boot of one machine) are averaged and count once. Sittings are
combined as in a random-effects meta-analysis. Effects are log ratios, arm over baseline; variances
are squared standard errors; tau is the standard deviation of the true effect from one sitting to
the next."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from noisefloor.stats.verdict import ALPHA

QUESTIONS = 10  # fewest questions with repeats from which tau is pooled
_FINEST = 1e-5  # smallest standard error (0.001 %): bytes may repeat exactly


@dataclass(frozen=True)
class Campaign:
    """A campaign, or the mean of a sitting: effect (log ratio), variance (its squared standard
    error) and df (blocks - 1). Raises ValueError unless both are finite, variance >= 0 and df > 0."""

    effect: float
    variance: float
    df: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.effect) and 0 <= self.variance < math.inf and self.df > 0):
            raise ValueError(
                f"A campaign with effect {self.effect}, variance {self.variance} and {self.df} "
                "degrees of freedom cannot be combined; it needs two blocks and finite values."
            )


@dataclass(frozen=True)
class Tau:
    """Scatter between the sittings of one instrument and metric: value (sd, log scale), its degrees
    of freedom (0 for a value of 0) and how many questions with repeats it comes from."""

    value: float
    df: float
    questions: int


@dataclass(frozen=True)
class Combined:
    """A question on one processor, log scale: mean with its 95 % interval, 95 % range of the next
    campaign, tau in use (NaN: unknown), number of sittings. ranged: lo and hi are the range of the
    sittings' own intervals and allow no word."""

    mean: float
    lo: float
    hi: float
    next_lo: float
    next_hi: float
    tau: float
    sittings: int
    ranged: bool


@dataclass(frozen=True)
class Prediction:
    """A campaign and the range that the sittings before it predict, log scale: the ends of the range,
    side (-1: the campaign lies below it, 0: inside, 1: above) and how many sittings were before."""

    lo: float
    hi: float
    side: int
    before: int


def mean_of_sitting(campaigns: Sequence[Campaign]) -> Campaign:
    """The mean of the campaigns of one sitting (equal weights; df by Satterthwaite 1946)."""
    effects, variances, dfs = _arrays(campaigns)
    df = variances.sum() ** 2 / (variances**2 / dfs).sum()
    return Campaign(float(effects.mean()), float(variances.sum() / len(effects) ** 2), float(df))


def estimate_tau(questions: Sequence[Sequence[Campaign]]) -> Tau | None:
    """Tau from the sittings of each question; None where no question has two.

    Restricted maximum likelihood of a mixed model with a mean for each question and known variances
    (Viechtbauer 2005); statsmodels' MixedLM takes no known variances. Degrees of freedom: 2 tau^4
    over the variance of tau^2 (Satterthwaite; expected information). They are sittings - questions
    where standard errors are far below tau, and fewer elsewhere."""
    from scipy import optimize

    repeated = [_arrays(sittings) for sittings in questions if len(sittings) > 1]
    if not repeated:
        return None
    effects, variances, _ = map(np.concatenate, zip(*repeated, strict=True))
    sizes = [len(part[0]) for part in repeated]
    starts = np.cumsum([0, *sizes[:-1]])

    def deviance(tau: float) -> Any:
        weights = 1 / (variances + tau**2)
        total, moment = np.add.reduceat([weights, weights * effects], starts, axis=1)
        squares = weights * (effects - np.repeat(moment / total, sizes)) ** 2
        return (squares - np.log(weights)).sum() + np.log(total).sum()

    # a grid first: where standard errors span decades the likelihood has more than one peak
    ends = math.log(_FINEST), math.log(max(2 * _FINEST, np.ptp(effects)))
    tau = math.exp(optimize.brute(lambda x: deviance(math.exp(x.item())), (ends,), Ns=15).item())
    if deviance(0.0) < deviance(tau) + 1e-9:
        return Tau(0.0, 0.0, len(repeated))
    powers = (variances + tau**2) ** -np.array([[1.0], [2.0], [3.0]])
    one, two, three = np.add.reduceat(powers, starts, axis=1)
    information = (two - 2 * three / one + (two / one) ** 2).sum() / 2
    return Tau(tau, float(2 * tau**4 * information), len(repeated))


def pooled_tau(questions: Sequence[Sequence[Campaign]]) -> Tau | None:
    """`estimate_tau` of an instrument and metric; None if fewer than QUESTIONS have repeats."""
    tau = estimate_tau(questions)
    return tau if tau and tau.questions >= QUESTIONS else None


def intervals_with_tau(
    effects: Any, variances: Any, dfs: Any, tau: Tau | None, together: int = 1, checks: int = 1
) -> tuple[Any, Any, Any, Any]:
    """(mean, half width of its interval, half width of the prediction, tau in use), each [...],
    from arrays [..., sittings].

    The square of the larger of pooled and own tau is added to each variance. Mean and standard error
    are those of statsmodels' combine_effects, which takes no tau and only one question. Student's t
    has degrees of freedom by Satterthwaite over the sittings' variances and the pooled tau.
    together: number of intervals that all contain the truth in 95 % of cases (Bonferroni); checks:
    the same of predictions. The prediction adds tau^2 and the median variance. Their errors count
    as fully correlated with those of the mean: exact for one sitting, cautious for more.

    Without a pooled tau (None), several sittings have their mean (equal weights) without an interval
    (NaN); their own tau predicts the next, with sittings - 1 degrees of freedom."""
    squared, typical, n = _own(effects, variances), np.median(variances, -1), effects.shape[-1]
    if tau is None and n > 1:
        used = np.sqrt(squared)
        error = used**2 + typical + (variances + used[..., None] ** 2).sum(-1) / n**2
        ahead = special.stdtrit(n - 1, 1 - ALPHA / checks / 2) * np.sqrt(error)
        return effects.mean(-1), np.full_like(ahead, math.nan), ahead, used
    tau = tau or Tau(0.0, 0.0, 0)
    between = np.maximum(tau.value**2, squared)
    weights = 1 / (variances + between[..., None])
    total = weights.sum(-1)
    share = weights / total[..., None]
    shares = (share**2).sum(-1)  # how much of tau^2 is in the variance of the mean
    within = np.sqrt(((share**2 * variances) ** 2 / dfs).sum(-1))
    within_next = within + typical / np.sqrt(np.median(dfs, -1))
    tau_error = tau.value**4 / tau.df if tau.value else 0.0

    def half_width(variance: Any, errors: Any, taus: Any, level: float) -> Any:
        df = variance**2 / np.maximum(errors**2 + taus**2 * tau_error, 1e-9 * variance**2)
        return special.stdtrit(df, 1 - level / 2) * np.sqrt(variance)

    of_mean = half_width(1 / total, within, shares, ALPHA / together)
    of_next = half_width(1 / total + typical + between, within_next, shares + 1, ALPHA / checks)
    return (share * effects).sum(-1), of_mean, of_next, np.sqrt(between)


def combine_sittings(
    sittings: Sequence[Campaign], tau: Tau | None, together: int = 1, checks: int = 1
) -> Combined:
    """The result of a question, from its sittings (one or more) and the pooled tau, by
    `intervals_with_tau`.

    Without a pooled tau, one sitting has its own interval, and its error alone predicts the next;
    several have the range of their own intervals. Raises ValueError without a sitting."""
    y, v, dfs = _arrays(sittings)
    n, ranged = len(y), tau is None and len(y) > 1
    mean, half, ahead, used = map(float, intervals_with_tau(y, v, dfs, tau, together, checks))
    lo, hi = mean - half, mean + half
    if ranged:
        reach = special.stdtrit(dfs, 1 - ALPHA / together / 2) * np.sqrt(v)
        lo, hi = float((y - reach).min()), float((y + reach).max())
    used = used if tau or ranged else math.nan
    return Combined(mean, lo, hi, mean - ahead, mean + ahead, used, n, ranged)


def predicted(
    campaign: Campaign, before: Sequence[Campaign], tau: Tau | None, checks: int = 1
) -> Prediction:
    """A campaign against the range that the sittings before it (one or more) predict.

    checks: number of such ranges that all contain their campaign in 95 % of cases (Bonferroni).
    Raises ValueError without a sitting."""
    both = combine_sittings(before, tau, checks=checks)
    side = int(campaign.effect > both.next_hi) - int(campaign.effect < both.next_lo)
    return Prediction(both.next_lo, both.next_hi, side, both.sittings)


def held_out(sittings: Sequence[Campaign], tau: Tau | None) -> list[Prediction]:
    """Each sitting of a question but the first, predicted from those before it (in order of time)."""
    return [predicted(one, sittings[:n], tau) for n, one in enumerate(sittings) if n]


def _arrays(campaigns: Sequence[Campaign]) -> tuple[Any, Any, Any]:
    """Effects, variances (_FINEST squared at least) and degrees of freedom. Raises ValueError."""
    if not campaigns:
        raise ValueError("No campaign was given; one or more can be combined.")
    rows = np.array([(c.effect, max(c.variance, _FINEST**2), c.df) for c in campaigns])
    return rows[:, 0], rows[:, 1], rows[:, 2]


def _own(effects: Any, variances: Any) -> Any:
    """tau^2 of each question, [...], by Paule and Mandel: Newton's steps of DerSimonian and Kacker
    (2007) from 0, which only go up."""
    between = np.zeros((*effects.shape[:-1], 1))
    for _ in range(100):
        weights = 1 / (variances + between)
        means = np.average(effects, -1, weights, keepdims=True)
        squares = weights * (effects - means) ** 2
        excess = (squares.sum(-1, keepdims=True) - effects.shape[-1] + 1).clip(0)
        if (excess < 1e-9).all():
            break
        between = between + excess / (weights * squares).sum(-1, keepdims=True).clip(1e-300)
    return between[..., 0]
