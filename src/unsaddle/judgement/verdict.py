"""The verdict: minimum, saddle, not stationary or undecided, with how sure and why."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.cost import Cost, Ledger
from unsaddle.curvature.extract import RELATIVE_GAMMA, find, some_samples
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement.second_look import ROUNDINGS, STAIRCASE, coarse_noise, is_staircase, repeats
from unsaddle.measure import batches
from unsaddle.measure.noise import GradientNoise
from unsaddle.objective import Objective
from unsaddle.ranks import with_its_ranks
from unsaddle.theory.quadratics import stationary_gradient

if TYPE_CHECKING:
    from matplotlib.figure import Figure

START_DELTA = 1e-4
"""δ spent on the random start by default, if δ/2 is more: a verdict should not be spoiled by an unlucky start, and the
steps grow only with log(1/δ). The confidence stated stays 1 − δ."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What `is_minimum` found."""

    kind: str
    """"minimum", "saddle", "not stationary" or "undecided"."""
    gradient_norm: float
    """‖∇F(x)‖, from fresh samples where there are any."""
    gradient_error: float
    """How far it may be off: by sampling, at the confidence stated, and by rounding."""
    eps: float
    """What counts as stationary."""
    curvature: float
    """Of a saddle: measured along the direction. Else the lowest that was seen, and not a bound."""
    interval: tuple[float, float]
    """Of a saddle: where the curvature along the direction lies, at the confidence stated. Of a minimum: where the
    lowest eigenvalue lies. Else (nan, nan)."""
    direction: Tensor | None = field(repr=False)
    """Of a saddle: a unit vector along which, both ways, the function falls."""
    gamma: float
    """The curvature looked for; nan where there was none to look for."""
    confidence: float
    """1 − δ: over the random start and, where there was sampling, the samples. Structure narrower than the resolution
    is outside of it."""
    resolution: float
    """The probe radius: structure narrower than this around x is invisible."""
    gradient_variance: float
    """V, the variance of one sample's gradient; 0 where nothing was sampled."""
    hessian_deviation: float
    """The deviation of one sample's curvature along the directions that decide; 0 where nothing was sampled."""
    cost: Cost
    reason: str
    """Why, in a sentence; where it is undecided, with what would decide it."""
    evidence: Curvature = field(repr=False)
    """The extraction that it rests on."""
    _objective: Objective = field(repr=False)
    _x: Tensor = field(repr=False)

    def __bool__(self) -> bool:
        """Whether it is a minimum, so that `if is_minimum(f, x):` means what it says."""
        return self.kind == "minimum"

    def __str__(self) -> str:
        head = {
            "minimum": f"A minimum, {'to first order' if math.isnan(self.gamma) else 'up to a curvature of -gamma'}.",
            "saddle": "A saddle.",
            "not stationary": "Not stationary.",
            "undecided": "Undecided.",
        }[self.kind]
        seen = self.gradient_error > 0.01 * max(self.gradient_norm, self.eps)
        error = f" ± {self.gradient_error:.2g}" if seen else ""
        counts = "" if math.isnan(self.eps) else f"; up to {self.eps:.3g} counts as stationary"
        sought = (
            "Looked"
            if math.isnan(self.gamma)
            else f"Looked for curvature below {-self.gamma:.3g}, at resolution {self.resolution:.2g},"
        )
        gradients, products = self.cost.gradients, self.cost.hessian_products
        work = [f"{gradients} gradients ({self.cost.samples} samples)"] if gradients or not products else []
        work += [f"{products} Hessian products"] if products else []
        return (
            f"{head} {self.reason} The gradient norm is {self.gradient_norm:.3g}{error}{counts}. {sought} with "
            f"{' and '.join(work)}."
        )

    def plot(self) -> Figure:
        """The loss along ± the direction with the quadratic that was predicted, and curvature against gradients spent.

        Needs matplotlib, of the extra `plot`. Evaluates the objective at some points along the direction.
        """
        from unsaddle.judgement.plots import plot_verdict

        return plot_verdict(self)


@with_its_ranks
def is_minimum(
    objective: Objective,
    x: Tensor | None = None,
    *,
    eps: float | None = None,
    gamma: float | None = None,
    delta: float = 0.05,
    samples: int | None = None,
    max_gradients: int | None = None,
    start_delta: float | None = None,
    seed: int = 0,
) -> Verdict:
    """Decide whether x is a minimum of F, a saddle, or not stationary; or say what would decide it.

    Args:
        objective: what to look at.
        x: where; may be left out for an objective that has a `point` of its own.
        eps: gradients up to this norm count as zero. By default 1e-3·L1·max(1, ‖x‖).
        gamma: curvatures down to −γ are let pass. By default a hundredth of L1.
        delta: the probability of a wrong verdict.
        samples: |S|; None for everything, or for 1024 where samples never run out.
        max_gradients: a bound on the gradients that look for a direction. What is found is then checked with some more.
        start_delta: the part of δ that is spent on the random start: more of it for fewer gradients. By default 1e-4,
            or δ/2 if that is less; where nothing is sampled all of δ may be.
        seed: of the samples and the random start.

    Returns:
        - *saddle*: a direction whose curvature, measured again (on fresh samples, where F was sampled), has its
          interval below zero;
        - *minimum*: the gradient is small, and no eigenvalue is below −γ, at confidence 1 − δ over the random start and
          the Hessian's sampling error, which is estimated;
        - *not stationary*: the gradient is not small;
        - *undecided*: with the reason and what to do.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    >>> is_minimum(f, torch.tensor([0.0, 0.0])).kind
    'saddle'
    >>> is_minimum(f, torch.tensor([0.0, 2.0]).sqrt()).kind
    'minimum'
    """
    if not isinstance(objective, Objective):
        raise TypeError(
            f"objective must be a Function, FiniteSum, Stream or the like, got {type(objective).__name__}; "
            "wrap a callable as unsaddle.Function(fun), a model as unsaddle.ModelObjective(model, loss, data)"
        )
    x = checks.point_of(objective, x)
    eps = None if eps is None else checks.positive(eps, "eps", "leave it out to have it follow L1")
    delta = checks.probability(delta, "delta")
    samples, n = some_samples(objective, samples), objective.num_samples
    stochastic = n is None or (samples is not None and samples < n)
    # On a sample, half of γ is kept for the difference between F_S and F.
    share = 0.5 if stochastic else 1.0
    found = find(
        objective,
        x,
        gamma=None if gamma is None else share * checks.positive(gamma, "gamma"),
        relative_gamma=share * RELATIVE_GAMMA,
        method="auto",
        samples=samples,
        delta=min(delta / 2.0, START_DELTA) if start_delta is None else checks.probability(start_delta, "start_delta"),
        smoothness=None,
        hessian_lipschitz=None,
        basis=None,
        max_gradients=max_gradients,
        seed=seed,
        keep_history=True,
        settings="practical",
    )
    ledger = Ledger()
    generator = torch.Generator().manual_seed(seed + 1)
    gradient_norm, gradient_error, variance = found.gradient_norm, 0.0, 0.0
    coarse: GradientNoise | None = None
    if math.isfinite(found.noise):
        if stochastic:
            seen = batches.gradient(
                objective, x, samples=samples or batches.BATCHES, generator=generator, ledger=ledger
            )
            gradient_norm, gradient_error, variance = seen.norm, seen.error(delta / 2.0), seen.variance
        if x.dtype == torch.float32:
            coarse = coarse_noise(objective, x, samples, generator, ledger)
        gradient_error += ROUNDINGS * max(found.noise, 0.0 if coarse is None else coarse.noise)
    if eps is None:
        eps = stationary_gradient(smoothness=found.smoothness, x_norm=vectors.norm(x))
    slack = deviation = 0.0
    if stochastic and found.status is Status.NOTHING_FOUND:
        size = samples or batches.BATCHES
        slack, deviation = _hessian_slack(objective, x, found, size, delta / 2.0, generator, ledger)
    elif found.measurements and found.measurements[-1].fresh:
        deviation = found.measurements[-1].deviation
    kind, reason = _decide(found, gradient_norm, gradient_error, eps, slack, _draw_more(slack, found.gamma, samples, n))
    if coarse is not None and kind != "undecided":
        f = objective.sample(samples, generator, ledger=ledger)
        if is_staircase(f, x, found, coarse, kind, gradient_norm - gradient_error - eps, generator):
            kind, reason = "undecided", STAIRCASE
    if kind == "undecided" and found.status in (Status.NOT_CONFIRMED, Status.NOT_QUADRATIC):
        same = repeats(objective, x, found, samples, generator, ledger)
        reason = reason if same else _sentence(Status.NOT_DETERMINISTIC)
    return _assembled(
        objective,
        x,
        found,
        kind=kind,
        reason=reason,
        gradient_norm=gradient_norm,
        gradient_error=gradient_error,
        eps=eps,
        slack=slack,
        share=share,
        delta=delta,
        gradient_variance=variance,
        hessian_deviation=deviation,
        cost=found.cost + ledger.cost,
    )


def conclude(objective: Objective, x: Tensor, found: Curvature, *, eps: float, delta: float) -> Verdict:
    """The verdict that an extraction of the caller's own gives, for a function without samples, in float64."""
    error = ROUNDINGS * found.noise
    kind, reason = _decide(found, found.gradient_norm, error, eps, 0.0, "")
    return _assembled(
        objective,
        x,
        found,
        kind=kind,
        reason=reason,
        gradient_norm=found.gradient_norm,
        gradient_error=error,
        eps=eps,
        slack=0.0,
        share=1.0,
        delta=delta,
        gradient_variance=0.0,
        hessian_deviation=0.0,
        cost=found.cost,
    )


def _assembled(
    objective: Objective,
    x: Tensor,
    found: Curvature,
    *,
    kind: str,
    slack: float,
    share: float,
    delta: float,
    **fields: Any,
) -> Verdict:
    """The verdict with what follows from its evidence."""
    measured = found.measurements[-1] if found.measurements else None
    interval = (math.nan, math.nan)
    if kind == "saddle" and measured is not None:
        interval = (measured.curvature - measured.error, measured.curvature + measured.error)
    elif kind == "minimum":
        # The Ritz value is above λ_min but for the error of products, of which the checks of "nothing" let γ/2 pass.
        interval = (-found.gamma / share, found.lowest + found.gamma / 2.0 + slack)
    return Verdict(
        kind=kind,
        curvature=measured.curvature if kind == "saddle" and measured is not None else found.lowest,
        interval=interval,
        direction=found.direction if kind == "saddle" else None,
        gamma=found.gamma / share,
        confidence=1.0 - delta,
        resolution=found.radius,
        evidence=found,
        _objective=objective,
        _x=x,
        **fields,
    )


def _draw_more(slack: float, gamma: float, samples: int | None, n: int | None) -> str:
    """How many samples would decide: the error falls with their square root."""
    factor = (slack / gamma) ** 2 if gamma > 0.0 else math.inf
    if n is not None and samples is not None and not factor * samples < n:
        return "look at everything: leave samples out"
    return f"draw {math.ceil(factor)} times as many samples" if math.isfinite(factor) else "draw more samples"


def _decide(found: Curvature, norm: float, error: float, eps: float, slack: float, more: str) -> tuple[str, str]:
    """The verdict and its reason, from the evidence."""
    if found.status in (Status.NOT_FINITE, Status.NOT_DETERMINISTIC):
        return "undecided", f"{_sentence(found.status)}"
    if not math.isfinite(norm + error + slack):
        return "undecided", _sentence(Status.NOT_FINITE)
    if norm - error > eps:
        return "not stationary", "The gradient is not small: follow it."
    if found.status is Status.FOUND:
        at = found.measurements[-1]
        strong = " All of that interval is below -gamma." if at.curvature + at.error < -found.gamma else ""
        return "saddle", f"The curvature along the direction is {at.curvature:.4g} ± {at.error:.2g}.{strong}"
    if found.status is not Status.NOTHING_FOUND:
        return "undecided", _sentence(found.status)
    if norm + error > eps:
        return "undecided", (
            f"The gradient may or may not be small: it is known to {error:.2g} only. Draw more samples where there are "
            "any, use a higher precision, or pass eps."
        )
    if slack > found.gamma:
        return "undecided", (
            f"Nothing was found on the sample, but its Hessian may be off by {slack:.2g}: {more}, or raise gamma."
        )
    sampled = f", and the Hessian's sampling error of {slack:.2g} is allowed for" if slack else ""
    negative = found.lowest < -found.noise / found.radius
    hint = (
        f" That is negative, though not below -gamma: pass gamma={-found.lowest / 2.0:.1g} to have it decided."
        if negative
        else ""
    )
    return "minimum", f"Nothing below -gamma was found; the lowest curvature seen is {found.lowest:.3g}{sampled}.{hint}"


def _sentence(status: Status) -> str:
    return status.value[0].upper() + status.value[1:] + "."


def _hessian_slack(
    objective: Objective,
    x: Tensor,
    found: Curvature,
    samples: int,
    delta: float,
    generator: torch.Generator,
    ledger: Ledger,
) -> tuple[float, float]:
    """How far λ_min(F_S) may lie above λ_min(F), at confidence 1 − δ, and the deviation of one sample's curvature.

    With v* the lowest eigenvector of ∇²F(x), fixed before S was drawn, λ_min(F_S) ≤ v*ᵀ∇²F_S v*, whose error is that
    of a mean of independent numbers: no dimension enters. v* is not known; the largest spread along the lowest
    directions that are known stands for it. A one-sided t-interval."""
    functions = batches.batches(objective, samples, generator, ledger)
    seen = [batches.curvature_on(functions, x, v, found.radius) for v in found.deciding[:-1] or found.deciding]
    return max(along.error(delta) for along in seen), max(along.deviation for along in seen)
