"""Perturbed gradient descent: noise where the gradient is small, then a wait to see whether it helped."""

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
"""U as a share of max(1, ‖x0‖): the noise must grow to U within a wait. The function is quadratic within it, as in
`theory.quadratics.trust_radius`."""


@dataclass(frozen=True, kw_only=True)
class PerturbationSettings:
    """Constants that PGD and PAGD share. The letters of each paper are in each `minimize`."""

    step_size: float
    noise_radius: float
    """Radius of the ball that the perturbation is drawn from."""
    gradient_threshold: float
    """Perturb where the gradient is no larger."""
    wait: int
    """Steps between perturbations. The last one must have helped by then."""
    backtracking: bool = True
    """Halve η, and lengthen the wait, where a step does not lower F (PGD) or raises the Hamiltonian (PAGD)."""
    gamma: float
    """γ: the answer claims that no curvature is below −γ."""
    smoothness: float | None = None
    """L1. Measured if not given."""
    hessian_lipschitz: float | None = None
    """L2, for settings='theory'."""
    initial_gap: float | None = None
    """Δ = F(x0) − min F, for settings='theory'."""
    constant: float = 1.0
    """c, for settings='theory': an absolute constant that the paper does not name."""

    def __post_init__(self) -> None:
        positive = ("step_size", "noise_radius", "gradient_threshold", "gamma", "constant")
        check_settings(self, positive=positive, counts=("wait",))


@dataclass(frozen=True, kw_only=True)
class PgdSettings(PerturbationSettings):
    """Constants of perturbed gradient descent.

    Three of them have multipliers: the printed constants need 1e3 to 1e6 to make anything happen.
    """

    value_threshold: float
    """f_th. A perturbation has helped if the value fell by this much."""
    noise_radius_multiplier: float = 1.0
    gradient_threshold_multiplier: float = 1.0
    value_threshold_multiplier: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, positive=("value_threshold",))
        multipliers = [f"{name}_multiplier" for name in ("noise_radius", "gradient_threshold", "value_threshold")]
        check_settings(self, positive=multipliers, hint="1 leaves the constant as it is")


def theory_settings(run: Run, options: Options) -> PgdSettings:
    """Algorithm 2: η = c/L1, r = √c·ε/(χ²L1), g_th = √c·ε/χ², f_th = c√(ε³/L2)/χ³, t_th = χL1/(c²√(L2ε)).

    Also γ = √(L2ε), with χ = 3·max(log(dL1Δ/(cε²δ)), 4).
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


def noise_growth(run: Run, options: Options, gamma: float, value0: float) -> tuple[float, float, float]:
    """U = 1e-2·max(1, ‖x0‖), r = U/10, and ln(U/(r√τ)), the growth that takes noise of radius r to the length U.

    With probability 1 − δ the noise has a component of at least r√τ along a direction of curvature −γ. U is larger if
    rounding would hide a change of γU² in the value.
    """
    rounding = torch.finfo(run.x.dtype).eps * max(1.0, abs(value0))
    U = max(REACH * max(1.0, vectors.norm(run.x)), math.sqrt(100.0 * rounding / gamma))
    r = float(options.method_settings.get("noise_radius", U / 10.0))
    tau = unlucky_component(dimension=vectors.dimension(run.x), delta=options.delta)
    return U, r, math.log(max(math.e, U / (r * math.sqrt(tau))))


def practical_settings(run: Run, options: Options, value0: float) -> PgdSettings:
    """η = 1/(2L1), g_th = ε, f_th = γU²/4, t_th = ⌈ln(U/(r√τ))/ln(1 + ηγ)⌉, with U, r and τ of `noise_growth`.

    Along curvature −γ the noise grows by 1 + ηγ a step. After t_th steps the value has fallen by γU²/2.
    """
    L1 = constants.smoothness(run, options)
    gamma = constants.curvature_sought(options, L1)
    eta = float(options.method_settings.get("step_size", quadratics.step_size(smoothness=L1)))
    U, r, growth = noise_growth(run, options, gamma, value0)
    wait, fall = max(1, math.ceil(growth / math.log1p(eta * gamma))), gamma * U**2 / 4.0
    noise = {"noise_radius": r, "gradient_threshold": options.eps, "value_threshold": fall, "wait": wait}
    return settings_from(PgdSettings, options.method_settings, step_size=eta, **noise, gamma=gamma)


def minimize(run: Run, options: Options) -> None:
    """Finds a second-order stationary point of F with full gradients.

        if ‖∇F(x)‖ ≤ g_th and the last perturbation is more than t_th steps ago:
            x̃ = x;  x = x̃ + ξ,  ξ uniform in the ball of radius r
        if it is t_th steps ago and F(x) − F(x̃) > −f_th:  return x̃
        x ← x − η∇F(x)

    Jin, Ge, Netrapalli, Kakade, Jordan (2017), Algorithm 2. O(L1·Δ/ε²·log⁴) gradients for an ε-second-order
    stationary point, γ = √(L2ε), with probability 1 − δ. `escapes` counts perturbations that helped.

    Letters: η = `step_size`, r = `noise_radius`, g_th = `gradient_threshold`, f_th = `value_threshold`, t_th = `wait`,
    Δ = `initial_gap`, c = `constant`.

    Departures of the practical setting: its constants; and η is halved where a step does not lower F by η‖∇F‖²/4,
    which wastes the gradient at the point that is thrown away.

    Cost: one full gradient a step, with its value, and one more a perturbation.
    """
    f, x = everything(run), run.x
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
            run.escaped(seen.x, value=seen.value, note=f"a perturbation lowered the value within {t_th} steps")
        while True:
            after = _At(f, torch.sub(seen.x, seen.grad, alpha=eta))
            if not settings.backtracking or after.falls_from(seen, eta, guard.rounding(x.dtype)):
                break
            eta, t_th, since = eta / 2.0, 2 * t_th, 2 * since
        guard.seen(after.x, after.value)
        seen, since, t = after, since + 1, t + 1
        if t % REPORT_EVERY == 0:
            run.checked(seen.x, value=seen.value, gradient_norm=seen.norm, gradient_error=0.0)


class _At:
    """A point with its value and gradient."""

    def __init__(self, f: SampledFunction, x: Tensor) -> None:
        value, grad = f.value_and_grad(x)
        self.x, self.value, self.grad = x, float(value), grad.clone()
        self.norm = vectors.norm(grad)

    def falls_from(self, other: _At, eta: float, rounding: float) -> bool:
        """Whether the step from `other` lowered F by η‖∇F‖²/4, up to rounding. True for NaN: halving η cannot help."""
        return not self.value > other.value - 0.25 * eta * other.norm**2 + rounding
