"""Perturbed gradient descent: noise once, where the gradient is small, and a wait to see whether it helped."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.baselines import constants
from unsaddle.baselines.guard import Guard
from unsaddle.baselines.samples import everything
from unsaddle.objective import SampledFunction
from unsaddle.options import Options, check_settings, settings_from
from unsaddle.run import REPORT_EVERY, Ending, Run, RunEnded
from unsaddle.theory import quadratics
from unsaddle.theory.start import unlucky_component

REACH = 1e-2
"""U, the displacement that a wait is long enough for, as a share of max(1, ‖x0‖): small enough for the function to be
quadratic there, as `theory.quadratics.trust_radius` has it. The noise is a tenth of it."""


@dataclass(frozen=True, kw_only=True)
class PgdSettings:
    """Constants of perturbed gradient descent."""

    step_size: float
    """η."""
    noise_radius: float
    """r, of the ball that the perturbation is drawn from."""
    gradient_threshold: float
    """g_th: perturb where the gradient is no larger."""
    value_threshold: float
    """f_th: a perturbation has helped if the value fell by this much."""
    wait: int
    """t_th: steps after which it must have."""
    noise_radius_multiplier: float = 1.0
    gradient_threshold_multiplier: float = 1.0
    value_threshold_multiplier: float = 1.0
    """Each constant is multiplied by its multiplier: the printed ones need 1e3 to 1e6 to make anything happen."""
    backtracking: bool = True
    """Halve η where the value does not fall as a step of 1/L1 makes it, and lengthen the wait as much."""
    gamma: float
    """γ: what the answer claims about the curvature."""
    smoothness: float | None = None
    """L1; measured if not given."""
    hessian_lipschitz: float | None = None
    """L2, for `theory`."""
    initial_gap: float | None = None
    """Δ = F(x0) − min F, for `theory`."""
    constant: float = 1.0
    """c, for `theory`: at most an unnamed absolute constant."""

    def __post_init__(self) -> None:
        thresholds = ("noise_radius", "gradient_threshold", "value_threshold")
        check_settings(self, positive=("step_size", *thresholds, "gamma", "constant"), counts=("wait",))
        multipliers = [f"{name}_multiplier" for name in thresholds]
        check_settings(self, positive=multipliers, hint="1 leaves the constant as it is")


def theory_settings(run: Run, options: Options) -> PgdSettings:
    """χ = 3·max(log(dL1Δ/(cε²δ)), 4), η = c/L1, r = √c·ε/(χ²L1), g_th = √c·ε/χ², f_th = c√(ε³/L2)/χ³,
    t_th = χL1/(c²√(L2ε)), γ = √(L2ε). Algorithm 2 of the paper.
    """
    L1, L2, gap = constants.needed(options, "smoothness", "hessian_lipschitz", "initial_gap")
    eps, known = options.eps, options.method_settings
    c = checks.positive(known.get("constant", 1.0), "constant")
    chi = 3.0 * max(math.log(vectors.dimension(run.x) * L1 * gap / (c * eps**2 * options.delta)), 4.0)
    return settings_from(
        PgdSettings,
        known,
        step_size=c / L1,
        noise_radius=math.sqrt(c) / chi**2 * eps / L1,
        gradient_threshold=math.sqrt(c) / chi**2 * eps,
        value_threshold=c / chi**3 * math.sqrt(eps**3 / L2),
        wait=math.ceil(chi / c**2 * L1 / math.sqrt(L2 * eps)),
        backtracking=False,
        gamma=math.sqrt(L2 * eps),
    )


def practical_settings(run: Run, options: Options, value0: float) -> PgdSettings:
    """η = 1/(2L1), g_th = ε, r = U/10, f_th = γU²/4, t_th = ⌈log(U/(r√τ))/log(1 + ηγ)⌉ with U = 1e-2·max(1, ‖x0‖).

    With probability 1 − δ the noise has a component of at least r√τ along a direction of curvature −γ, which grows by
    1 + ηγ a step: after t_th steps it has length U, and the value has fallen by γU²/2. U is at least so large that this
    is not drowned by rounding.
    """
    known = options.method_settings
    L1 = constants.smoothness(run, options)
    gamma = constants.curvature_sought(options, L1)
    eta = float(known.get("step_size", quadratics.step_size(smoothness=L1)))
    rounding = torch.finfo(run.x.dtype).eps * max(1.0, abs(value0))
    U = max(REACH * max(1.0, vectors.norm(run.x)), math.sqrt(100.0 * rounding / gamma))
    r = float(known.get("noise_radius", U / 10.0))
    tau = unlucky_component(dimension=vectors.dimension(run.x), delta=options.delta)
    growing = math.log(max(math.e, U / (max(r, 1e-300) * math.sqrt(tau))))
    return settings_from(
        PgdSettings,
        known,
        step_size=eta,
        noise_radius=r,
        gradient_threshold=options.eps,
        value_threshold=gamma * U**2 / 4.0,
        wait=math.ceil(growing / math.log1p(max(eta, 1e-300) * gamma)),
        gamma=gamma,
    )


def minimize(run: Run, options: Options) -> None:
    """Find a second-order stationary point of F with full gradients.

        if ‖∇F(x)‖ ≤ g_th and the last perturbation is more than t_th steps ago:
            x̃ = x;  x = x̃ + ξ,  ξ uniform in the ball of radius r
        if it is t_th steps ago and F(x) − F(x̃) > −f_th:  return x̃
        x ← x − η∇F(x)

    Jin, Ge, Netrapalli, Kakade, Jordan (2017), Algorithm 2. O(L1·Δ/ε²·log⁴) gradients for an ε-second-order
    stationary point, γ = √(L2ε), with probability 1 − δ.

    Letters: η = `step_size`, r = `noise_radius`, g_th = `gradient_threshold`, f_th = `value_threshold`, t_th = `wait`,
    Δ = `initial_gap`, c = `constant`.

    Departures, practical setting only: constants as in `practical_settings`; η is halved where a step does not lower F
    by η‖∇F‖²/4, which costs the gradient at the point that is thrown away. `escapes` counts perturbations that helped.

    Cost: one full gradient a step (its value comes with it), and one more a perturbation.
    """
    f = everything(run)
    x = run.x
    guard, seen = Guard(run), _At(f, x)
    guard.seen(x, seen.value)
    settings = theory_settings(run, options) if options.theory else practical_settings(run, options, seen.value)
    run.gamma, eta, t_th = settings.gamma, settings.step_size, settings.wait
    r = settings.noise_radius * settings.noise_radius_multiplier
    g_th = settings.gradient_threshold * settings.gradient_threshold_multiplier
    f_th = settings.value_threshold * settings.value_threshold_multiplier
    before, since, t = seen, math.inf, 0  # x̃ and t − t_noise
    while True:
        if seen.norm <= g_th and since > t_th:
            run.checked(seen.x, value=seen.value, gradient_norm=seen.norm, gradient_error=0.0, note="perturbed")
            before, since = seen, 0
            x = before.x + vectors.random_in_ball(x, r, run.generator)
            seen = _At(f, x)
        if since == t_th:
            if seen.value - before.value > -f_th:
                run.checked(before.x, value=before.value, gradient_norm=before.norm, gradient_error=0.0)
                raise RunEnded(Ending.SECOND_ORDER_POINT)
            note = f"a perturbation lowered the value within {t_th} steps"
            run.escaped(seen.x, value=seen.value, note=note)
        while True:
            after = _At(f, torch.sub(seen.x, seen.grad, alpha=eta))
            if not settings.backtracking or after.falls_from(seen, eta, guard.rounding(x.dtype)):
                break
            eta, t_th, since = eta / 2.0, 2 * t_th, 2 * since
        guard.seen(after.x, after.value)
        seen = after
        since, t = since + 1, t + 1
        if t % REPORT_EVERY == 0:
            run.checked(seen.x, value=seen.value, gradient_norm=seen.norm, gradient_error=0.0)


class _At:
    """A point with what was seen there."""

    def __init__(self, f: SampledFunction, x: Tensor) -> None:
        value, grad = f.value_and_grad(x)
        self.x, self.value, self.grad = x, float(value), grad.clone()
        self.norm = vectors.norm(grad)

    def falls_from(self, other: _At, eta: float, rounding: float) -> bool:
        """Whether the step from `other` lowered F by η‖∇F‖²/4, up to rounding; true for NaN, which η cannot help."""
        return not self.value > other.value - 0.25 * eta * other.norm**2 + rounding
