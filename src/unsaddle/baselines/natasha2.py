"""Natasha 2: Oja's method for the curvature, in turn with Natasha 1.5 for the gradient. With NEON: NEON-Natasha."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.baselines import constants, named_extractor
from unsaddle.baselines.guard import Guard, end_at
from unsaddle.baselines.samples import batch, measured_anchor
from unsaddle.curvature import oja as oja_method
from unsaddle.curvature.power import second_order
from unsaddle.curvature.result import Candidate, Status
from unsaddle.escape import steps as escape
from unsaddle.first_order.anchor import Anchor
from unsaddle.first_order.natasha15 import Natasha15Settings, natasha15_epoch
from unsaddle.framework.plan import Evidence
from unsaddle.options import Options, check_settings, settings_from
from unsaddle.run import Ending, Run, RunEnded
from unsaddle.theory import extraction, quadratics

JUDGES = 1024
"""Fresh samples on which Oja's answer is judged. Everything if there are fewer."""

SHORTEST_SUB_EPOCH = 5
"""Least steps of a sub-epoch in the practical setting. For n = 1 the formula would give one."""


@dataclass(frozen=True, kw_only=True)
class Natasha2Settings:
    """Constants of Natasha 2. The paper's letters are in `minimize`."""

    step_size: float
    sigma: float
    """Weight of the regularisation towards the centre of a sub-epoch."""
    sub_epochs: int
    anchor_size: int | None = None
    """B. By default as many as V, ε and the gradient ask for, measured at every anchor."""
    batch_size: int | None = None
    """b, samples a step. By default ⌈B^{2/3}/5⌉. 1 in the paper."""
    steps: int | None = None
    """m, steps of a sub-epoch. By default B/(pb)."""
    first_order_steps: int | None = None
    """N1, epochs until the output is returned. By default the run goes on until nothing is found at ‖∇F‖ ≤ ε."""
    centre: str = "last"
    """As in `Natasha15Settings`."""
    always_extract: bool = False
    """Look for negative curvature before every epoch, as in the paper, and not only where ‖∇F‖ ≤ ε."""
    gamma: float
    """The curvature sought, δ in the paper."""
    smoothness: float
    """L1. Measured if not given."""
    hessian_lipschitz: float | None = None
    """L2. A step along negative curvature has length γ/L2, and a penalty keeps an epoch within γ/L2 of its start.
    Without L2 there is a line search and no penalty."""
    variance: float | None = None
    """V, for settings='theory'."""
    initial_gap: float | None = None
    """Δ = F(x0) − min F, for settings='theory'."""

    def __post_init__(self) -> None:
        counts = ("sub_epochs", "anchor_size", "batch_size", "steps", "first_order_steps")
        check_settings(self, positive=("step_size", "gamma", "smoothness"), counts=counts)
        check_settings(self, positive=("hessian_lipschitz",), hint="leave it out if it is not known")
        checks.not_negative(self.sigma, "sigma", "0 takes the regularisation away")


def theory_settings(run: Run, options: Options) -> Natasha2Settings:
    """Settings of Theorem 1, with δ for the curvature and all Θ-constants 1.

    L1δ/(Vε)^{1/3} ≥ L2:   L̃ = σ̃ = L2(Vε)^{1/3}/δ;   else   L̃ = L1,  σ̃ = max(VεL2³/(L1²δ³), εL1/√V)
    B = V/ε²;   p = (σ̃²V/(L̃²ε²))^{1/3};   m = B/p;   α = 1/(σ̃m);   N1 = σ̃Δ/(pε²)

    σ̃ may be below L1: the penalty keeps an epoch within about δ/L2 of y_k, where nothing below −δ was found.
    """
    L1, L2, V, gap = constants.needed(options, "smoothness", "hessian_lipschitz", "variance", "initial_gap")
    eps = options.eps
    delta = math.sqrt(eps) if options.gamma is None else options.gamma
    if L1 * delta / (V * eps) ** (1.0 / 3.0) >= L2:
        L_tilde = sigma = L2 * (V * eps) ** (1.0 / 3.0) / delta
    else:
        L_tilde, sigma = L1, max(V * eps * L2**3 / (L1**2 * delta**3), eps * L1 / math.sqrt(V))
    B = math.ceil(V / eps**2)
    p = max(1, math.ceil((sigma**2 * V / (L_tilde**2 * eps**2)) ** (1.0 / 3.0)))
    m = max(1, B // p)
    N1 = max(1, math.ceil(sigma * gap / (p * eps**2)))
    epoch = {"step_size": 1.0 / (sigma * m), "sigma": sigma, "sub_epochs": p, "anchor_size": B, "batch_size": 1}
    rest = {"steps": m, "first_order_steps": N1, "centre": "random", "always_extract": True, "gamma": delta}
    return settings_from(Natasha2Settings, options.method_settings, **epoch, **rest)


def practical_settings(run: Run, options: Options) -> Natasha2Settings:
    """α = 1/(2L1), σ̃ = max(γ, L1/10), p = 2; B = 4V/max(ε², ĝ²/4), b = ⌈B^{2/3}/5⌉, m = max(5, ⌈B/(pb)⌉)."""
    L1 = constants.smoothness(run, options)
    gamma = constants.curvature_sought(options, L1)
    defaults = {"step_size": 0.5 / L1, "sigma": max(gamma, 0.1 * L1), "sub_epochs": 2, "gamma": gamma, "smoothness": L1}
    return settings_from(Natasha2Settings, options.method_settings, **defaults)


def oja_settings(
    *, gamma: float, delta: float, dimension: int, smoothness: float, num_samples: int | None
) -> oja_method.OjaSettings:
    """Oja with b = ⌈2L1/γ⌉ samples a step, or everything. At this b the noise allows η = 1/(2L1).

    `oja.noise_limited_step` says why. Smaller batches take as many samples in all, and more steps. On everything one
    round is enough.
    """
    b = math.ceil(2.0 * smoothness / gamma)
    b = b if num_samples is None else min(b, num_samples)
    eta = quadratics.step_size(smoothness=smoothness)
    steps = quadratics.neon_num_steps(step_size=eta, gamma=gamma, dimension=dimension, delta=delta)
    rounds = 1 if b == num_samples else oja_method.num_rounds(delta)
    t = rounds * steps
    return oja_method.OjaSettings(step_size=eta, num_steps=t, steps_a_round=steps, batch=b, target=gamma / 2.0)


def oja(run: Run, options: Options, x: Tensor, gamma: float, smoothness: float) -> Candidate:
    """A direction whose curvature is below −γ/2 on fresh samples, or none. L1 is doubled while it proves too small.

    A curvature far below −γ needs far fewer steps than −γ. So the practical setting first tries a sixteenth and a
    quarter of the steps: this costs a third more where nothing is found, and saves nine tenths at most saddles.
    """
    judge = second_order(batch(run, JUDGES, hessian=True))
    n, d = run.num_samples, vectors.dimension(x)
    how: dict[str, Any] = {"gamma": gamma, "delta": options.delta, "dimension": d, "num_samples": n}
    while True:
        if options.theory:
            attempts = [oja_method.theory_settings(smoothness=smoothness, radius=None, **how)]
        else:
            full = oja_settings(smoothness=smoothness, **how)
            short = [math.ceil(full.steps_a_round / share) for share in (16, 4)]
            attempts = [*(replace(full, num_steps=t, steps_a_round=t) for t in short), full]
        for attempt in attempts:
            found = oja_method.oja(run.objective, x, partial(judge.hvp, x), attempt, run.generator, ledger=run.ledger)
            if found.status is not Status.NOTHING_FOUND:
                break
        if found.status is Status.NOT_FINITE:
            raise RunEnded(Ending.DIVERGED)
        if found.status is not Status.SMOOTHNESS_EXCEEDED:
            return found
        smoothness *= 2.0


def lowest(run: Run, options: Options, y: Tensor, settings: Natasha2Settings) -> Evidence:
    """Looks for negative curvature at y: by Oja, or by the extractor that the caller named."""
    if named_extractor.is_named(options):
        return named_extractor.extraction(run, options, y, settings)
    # L1 is measured here: backtracking may have raised it far above that, and Oja takes L1/γ steps.
    L1 = settings.smoothness if options.theory else constants.smoothness(run, options, y)
    found = oja(run, options, y, settings.gamma, L1)
    return Evidence(direction=found.vector, decided=True, curvature=found.lowest, note=found.status.name)


def step_length(options: Options, settings: Natasha2Settings, found: Evidence, hessian_lipschitz: float) -> float:
    """δ/L2, which lowers F where vᵀ∇²F(y)v ≤ −δ/2; and 2q/L2 for a measured −q above that.

    By theory with a named extractor it is cδ/L2, eq. (9), with the c of Lemma 2: of a longer step nothing is known.
    """
    gamma, L2 = settings.gamma, hessian_lipschitz
    if options.theory and named_extractor.is_named(options):
        assert found.direction is not None
        c = named_extractor.promised_fraction(options, settings, vectors.dimension(found.direction))
        return extraction.escape_length(fraction=c, gamma=gamma, hessian_lipschitz=L2)
    return min(gamma, -2.0 * found.curvature) / L2


def penalty_gradient(x: Tensor, centre: Tensor, radius: float, smoothness: float) -> Tensor | None:
    """∇[L1·(‖x − y‖ − R)₊²] = 2L1(‖x − y‖ − R)₊·(x − y)/‖x − y‖, where y is the centre. None within R."""
    out = x - centre
    distance = vectors.norm(out)
    if not distance > radius:
        return None
    return out.mul_(2.0 * smoothness * (distance - radius) / distance)


def minimize(run: Run, options: Options) -> None:
    """Finds a second-order stationary point online: Oja for negative curvature, Natasha 1.5 where there is none.

        v = Oja(y_k)
        vᵀ∇²F(y_k)v ≤ −δ/2:   y_{k+1} = y_k ± (δ/L2)v, the sign at random
        else:   (ŷ_k, y_{k+1}) = one epoch of Natasha 1.5 from y_k on F(x) + L1·(max(0, ‖x − y_k‖ − δ/L2))²
        after N1 epochs:   (y, ŷ) a random pair of them;   return SGD on F + L1·(…)² + σ̃‖x − ŷ‖²

    Allen-Zhu (2017), Algorithm 3. Õ(ε^{-3.25}) at δ = ε^{1/4}. Oja's Hessian products are counted apart from gradients.

    With `extractor` "neon" or "neon+" this is NEON-Natasha as the NEON paper has it: NEON on samples takes the place of
    Oja, and there are no Hessian products. Any other extractor may be named. `step_length` says how far to follow v.

    Letters: α = `step_size`, σ̃ = `sigma`, p = `sub_epochs`, B = `anchor_size`, b = `batch_size`, m = `steps`,
    N1 = `first_order_steps`, δ = `gamma`.

    Departures: Oja's answers are judged on 1024 samples, by theory too, and the first that passes is taken.

    Departures of the practical setting: v is sought only where ‖∇F(y_k)‖ ≤ ε, which the anchor's gradient shows for
    free. If there is none, the run ends there, without the final SGD. An epoch that did not lower F on the anchor's
    samples is undone, and L1 doubled. Without L2 there is a line search and no penalty.

    Cost: an epoch takes B + 2bmp component gradients, and B values to see whether it helped. A step of Oja takes b
    products of components, and a round at most 1024 more to be judged.
    """
    settings = theory_settings(run, options) if options.theory else practical_settings(run, options)
    run.gamma = gamma = settings.gamma
    alpha, L1, L2, n = settings.step_size, settings.smoothness, settings.hessian_lipschitz, run.num_samples
    radius = math.inf if L2 is None else gamma / L2
    y, epochs, guard, pairs = run.x, 0, Guard(run), []
    seen: Anchor | None = None
    while True:
        if seen is None:
            seen = measured_anchor(run, y, options.eps, settings.anchor_size)
            guard.seen(y, seen.value)
            run.checked(y, value=seen.value, gradient_norm=seen.norm, gradient_error=math.sqrt(seen.squared_error))
        small = seen.passes(options.eps)
        if small or settings.always_extract:
            found = lowest(run, options, y, settings)
            run.extracted(curvature=found.curvature, error=found.error, note=found.note)
            if found.direction is not None:
                y, seen = _escaped(run, options, seen, y, found, settings), None
                continue
            if small and settings.first_order_steps is None:
                raise RunEnded(Ending.SECOND_ORDER_POINT if found.decided else Ending.CURVATURE_UNDECIDED)
        B, p = seen.samples, settings.sub_epochs
        b = math.ceil(0.2 * B ** (2.0 / 3.0)) if settings.batch_size is None else settings.batch_size
        m = settings.steps or max(SHORTEST_SUB_EPOCH, math.ceil(B / (p * b)))
        b = b if n is None else min(b, n)
        epoch = Natasha15Settings(
            step_size=alpha, sigma=settings.sigma, sub_epochs=p, steps=m, batch_size=b, centre=settings.centre
        )
        penalty = None if L2 is None else partial(penalty_gradient, centre=y, radius=radius, smoothness=L1)
        y_next, centres = natasha15_epoch(run.objective, y, seen.gradient, epoch, run.generator, penalty=penalty)
        epochs += 1
        pairs.append((y, centres[_below(len(centres), run)]))
        if not options.theory and not guard.lowered(seen.value_at(y_next), seen, alpha):
            L1, alpha = 2.0 * L1, alpha / 2.0
            if alpha < 1e-12 * settings.step_size:
                raise RunEnded(Ending.DIVERGED)
            continue
        y, seen = y_next, None
        if settings.first_order_steps is not None and epochs >= settings.first_order_steps:
            _end(run, pairs[_below(len(pairs), run)], settings, radius, B)


def _escaped(
    run: Run, options: Options, seen: Anchor, y: Tensor, found: Evidence, settings: Natasha2Settings
) -> Tensor:
    """The point after a step along negative curvature."""
    v, L2 = found.direction, settings.hessian_lipschitz
    assert v is not None
    if L2 is None:
        moved = escape.by_guessed_lengths(seen.value_at, y, v, seen.value)
        if moved is None:
            raise RunEnded(Ending.CURVATURE_UNDECIDED)
        y_next = moved[0]
    else:
        y_next = escape.at_random(y, v, step_length(options, settings, found, L2), run.generator)
    run.escaped(y_next, curvature=found.curvature, note=f"length {vectors.norm(y_next - y):.3g}")
    return y_next


def _end(run: Run, pair: tuple[Tensor, Tensor], settings: Natasha2Settings, radius: float, steps: int) -> NoReturn:
    """Ends with SGD on F + L1·(‖x − y‖ − δ/L2)₊² + σ̃‖x − ŷ‖², strongly convex: B steps of 1/(L1 + 2σ̃(t + 1))."""
    (y, y_hat), L1, sigma = pair, settings.smoothness, settings.sigma
    x, guard = y_hat.clone(), Guard(run)
    for t in range(steps):
        value, g = batch(run, settings.batch_size or 1).value_and_grad(x)
        guard.seen(x, float(value))
        step = torch.add(g, x - y_hat, alpha=2.0 * sigma)
        extra = penalty_gradient(x, y, radius, L1)
        if extra is not None:
            step.add_(extra)
        x = torch.sub(x, step, alpha=1.0 / (L1 + 2.0 * sigma * (t + 1)))
    end_at(run, x, settings.anchor_size or steps)


def _below(count: int, run: Run) -> int:
    return int(torch.randint(count, (), generator=run.generator, device=run.generator.device))
