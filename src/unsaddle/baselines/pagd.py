"""Perturbed accelerated gradient descent, with negative curvature exploitation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.baselines import constants
from unsaddle.baselines.guard import Guard
from unsaddle.baselines.pgd import PerturbationSettings, noise_growth
from unsaddle.baselines.samples import everything
from unsaddle.objective import SampledFunction
from unsaddle.options import Options, check_settings, settings_from
from unsaddle.run import REPORT_EVERY, Ending, Run, RunEnded


@dataclass(frozen=True, kw_only=True)
class PagdSettings(PerturbationSettings):
    """Constants of perturbed accelerated gradient descent."""

    momentum_loss: float
    """θ, in y = x + (1 − θ)v."""
    nonconvexity: float
    """γ of the paper, θ²/η. If F between x and y is less convex than −γ, negative curvature is exploited."""
    exploitation_radius: float
    decrease: float
    """𝓔. A perturbation has helped if the Hamiltonian fell by this much within the wait."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, positive=("exploitation_radius", "nonconvexity", "decrease"))
        if not 0.0 < self.momentum_loss <= 1.0:
            raise ValueError(f"momentum_loss must be in (0, 1], got {self.momentum_loss!r}; 1 is gradient descent")


def theory_settings(run: Run, options: Options) -> PagdSettings:
    """Eq. (3): κ = L1/√(L2ε), η = 1/(4L1), θ = 1/(4√κ), γ = θ²/η, s = γ/(4L2), r = ηεχ⁻⁵c⁻⁸, 𝒯 = √κ·χc.

    Also 𝓔 = √(ε³/L2)·χ⁻⁵c⁻⁷, with χ = max(1, log(dL1Δ/(L2εδ))).
    """
    L1, L2, gap = constants.needed(options, "smoothness", "hessian_lipschitz", "initial_gap")
    eps, known = options.eps, options.method_settings
    c = checks.positive(known.get("constant", 1.0), "constant")
    kappa, eta = L1 / math.sqrt(L2 * eps), 0.25 / L1
    theta = 0.25 / math.sqrt(kappa)
    chi = max(1.0, math.log(vectors.dimension(run.x) * L1 * gap / (L2 * eps * options.delta)))
    gamma, s = theta**2 / eta, theta**2 / eta / (4.0 * L2)
    wait, fall = math.ceil(math.sqrt(kappa) * chi * c), math.sqrt(eps**3 / L2) / (chi**5 * c**7)
    step = {"step_size": eta, "momentum_loss": theta, "nonconvexity": gamma, "exploitation_radius": s}
    noise = {"noise_radius": eta * eps / (chi**5 * c**8), "gradient_threshold": eps, "wait": wait, "decrease": fall}
    return settings_from(PagdSettings, known, **step, **noise, gamma=math.sqrt(L2 * eps), backtracking=False)


def growth(*, step_size: float, momentum_loss: float, gamma: float) -> float:
    """μ, the factor by which x grows a step along a direction of curvature −γ.

    It is the larger root of μ² − (2 − θ)(1 + ηγ)μ + (1 − θ)(1 + ηγ) = 0, from x₊ = (1 + ηγ)(x + (1 − θ)(x − x₋)).

    >>> round(growth(step_size=0.25, momentum_loss=0.025, gamma=0.01), 4)  # gradient descent: 1.0025
    1.041
    """
    a, b = (2.0 - momentum_loss) * (1.0 + step_size * gamma), (1.0 - momentum_loss) * (1.0 + step_size * gamma)
    return 0.5 * (a + math.sqrt(a * a - 4.0 * b))


def practical_settings(run: Run, options: Options, value0: float) -> PagdSettings:
    """√(L2ε) = γ throughout: κ = L1/γ, η = 1/(4L1), θ = 1/(4√κ), s = U, 𝓔 = γU²/4, 𝒯 = ⌈ln(U/(r√τ))/ln μ⌉.

    U, r and τ are those of `pgd.noise_growth`, and μ is `growth`.
    """
    known = options.method_settings
    L1 = constants.smoothness(run, options)
    gamma = constants.curvature_sought(options, L1)
    eta = float(known.get("step_size", 0.25 / L1))
    theta = float(known.get("momentum_loss", min(1.0, 0.25 * math.sqrt(gamma / L1))))
    U, r, needed = noise_growth(run, options, gamma, value0)
    wait = max(1, math.ceil(needed / math.log(growth(step_size=eta, momentum_loss=theta, gamma=gamma))))
    step = {"step_size": eta, "momentum_loss": theta, "nonconvexity": theta**2 / eta, "exploitation_radius": U}
    noise = {"noise_radius": r, "gradient_threshold": options.eps, "wait": wait, "decrease": gamma * U**2 / 4.0}
    return settings_from(PagdSettings, known, **step, **noise, gamma=gamma)


def exploit(value: Callable[[Tensor], float], x: Tensor, value_x: float, v: Tensor, radius: float) -> Tensor:
    """NCE(x, v, s): where x goes if F between x and y is not convex. The caller drops the momentum afterwards.

    If ‖v‖ ≥ s, x stays: without momentum the Hamiltonian loses ‖v‖²/(2η). Else x goes to the lower of x ± s·v/‖v‖.
    Departures: x stays if it is lower than both, since s may not come from a known L2, and for v = 0.

    Cost: two values, or none.
    """
    length = vectors.norm(v)
    if length >= radius or length == 0.0:
        return x
    trials = [torch.add(x, v, alpha=s * radius / length) for s in (1.0, -1.0)]
    values = [value(trial) for trial in trials]
    best = min(values)
    return trials[values.index(best)] if best < value_x else x


def minimize(run: Run, options: Options) -> None:
    """Finds a second-order stationary point of F with accelerated full gradients.

        if ‖∇F(x)‖ ≤ ε and there was no perturbation in the last 𝒯 steps:  x ← x + ξ,  ξ uniform in the ball of radius r
        y = x + (1 − θ)v;   x′ = y − η∇F(y);   v′ = x′ − x
        if F(x) ≤ F(y) + ∇F(y)·(x − y) − (γ/2)‖x − y‖²:   (x′, v′) = NCE(x, v, s)

    Jin, Netrapalli, Jordan (2017), Algorithms 1 and 2. Õ(ε^{-7/4}) gradients. The Hamiltonian F(x) + ‖v‖²/(2η) never
    rises. If it falls by less than 𝓔 in the 𝒯 steps after a perturbation, the point before it is returned.

    Letters: η = `step_size`, θ = `momentum_loss`, γ = `nonconvexity`, s = `exploitation_radius`, r = `noise_radius`,
    ε = `gradient_threshold`, 𝒯 = `wait`, 𝓔 = `decrease`, c = `constant`.

    NCE takes x and v from before the step. It is skipped for v = 0, where the test reads 0 ≤ 0. `escapes` counts
    exploitations that moved x, and perturbations that helped.

    Departures of the practical setting: its constants; and where the Hamiltonian rises though F was convex enough,
    which means η > 1/(2L1), η is halved and the momentum dropped.

    Cost: a step takes the gradient at y and the value at x, or the gradient at x if a perturbation may follow. An
    exploitation takes two values.
    """
    f, x, guard = everything(run), run.x, Guard(run)
    value_x, norm_x = _value_and_norm(f, x)
    guard.seen(x, value_x)
    settings = theory_settings(run, options) if options.theory else practical_settings(run, options, value_x)
    run.gamma = settings.gamma
    eta, theta, gamma, wait = settings.step_size, settings.momentum_loss, settings.nonconvexity, settings.wait
    v = torch.zeros_like(x)
    before, energy_before, since, t = (x, value_x, math.inf), math.inf, math.inf, 0
    while True:
        if since >= wait and norm_x <= settings.gradient_threshold:
            run.checked(x, value=value_x, gradient_norm=norm_x, gradient_error=0.0, note="perturbed")
            before, energy_before, since = (x, value_x, norm_x), _energy(value_x, v, eta), 0
            x = x + vectors.random_in_ball(x, settings.noise_radius, run.generator)
            value_x = float(f.value(x))
        y = torch.add(x, v, alpha=1.0 - theta)
        value_y, grad_y = f.value_and_grad(y)
        back = x - y
        slope, squared = vectors.dots((grad_y, back), (back, back))
        stepped = torch.sub(y, grad_y, alpha=eta)
        if squared > 0.0 and value_x <= float(value_y) + slope - 0.5 * gamma * squared:
            x_next = exploit(lambda z: float(f.value(z)), x, value_x, v, settings.exploitation_radius)
            v_next, exploited = torch.zeros_like(v), x_next is not x
        else:
            x_next, v_next, exploited = stepped, stepped - x, False
        if since + 1 >= wait:  # The next step asks how large the gradient is.
            value_next, norm_next = _value_and_norm(f, x_next)
        else:
            value_next, norm_next = float(f.value(x_next)), math.inf
        slack = guard.rounding(x.dtype)
        if settings.backtracking and _energy(value_next, v_next, eta) > _energy(value_x, v, eta) + slack:
            eta, theta, wait, v = eta / 2.0, theta / math.sqrt(2.0), math.ceil(math.sqrt(2.0) * wait), v.zero_()
            continue
        guard.seen(x_next, value_next)
        if exploited:
            run.escaped(x_next, value=value_next, note="negative curvature exploited along the momentum")
        x, v, value_x, norm_x = x_next, v_next, value_next, norm_next
        since, t = since + 1, t + 1
        if since == wait and math.isfinite(energy_before):
            if energy_before - _energy(value_x, v, eta) < settings.decrease:
                run.checked(before[0], value=before[1], gradient_norm=before[2], gradient_error=0.0)
                raise RunEnded(Ending.SECOND_ORDER_POINT)
            run.escaped(x, value=value_x, note=f"a perturbation lowered the Hamiltonian within {wait} steps")
        if t % REPORT_EVERY == 0:
            run.record("epoch", value=value_x)


def _value_and_norm(f: SampledFunction, x: Tensor) -> tuple[float, float]:
    value, grad = f.value_and_grad(x)
    return float(value), vectors.norm(grad)


def _energy(value: float, v: Tensor, eta: float) -> float:
    """The Hamiltonian, F(x) + ‖v‖²/(2η)."""
    return value + vectors.norm(v) ** 2 / (2.0 * eta)
