"""SVRG and Hessian descent in turn, for finite sums. With NEON in its place: NEON-SVRG."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.baselines import constants, named_extractor
from unsaddle.baselines.guard import Guard
from unsaddle.baselines.lowest_curvature import lowest_curvature
from unsaddle.baselines.samples import everything
from unsaddle.escape import steps as escape
from unsaddle.first_order.anchor import anchor_at
from unsaddle.first_order.variance_reduced import InnerLoop, descend
from unsaddle.framework.plan import Evidence
from unsaddle.options import Options, check_settings, settings_from
from unsaddle.run import Ending, Run, RunEnded
from unsaddle.theory import extraction

SHORTEST_EPOCH = 10
"""Least steps of an epoch in the practical setting. For n = 1 the paper's n/b would be one."""


@dataclass(frozen=True, kw_only=True)
class SvrgHessianSettings:
    """Constants of SVRG-Hessian. The paper's letters are in `minimize`."""

    step_size: float
    batch_size: int
    steps: int
    """m, steps of an epoch."""
    epochs: int
    """Epochs of SVRG before Hessian descent, for settings='theory'. In practice it comes where ‖∇F‖ ≤ ε."""
    rounds: int | None = None
    """T, rounds of SVRG and Hessian descent. By default until Hessian descent finds nothing."""
    random_share: float = 0.0
    """q, the probability that Hessian descent starts at a random inner iterate, not at the last one."""
    gamma: float
    smoothness: float
    """L1. Measured if not given."""
    hessian_lipschitz: float | None = None
    """L2. The step along negative curvature has length |vᵀHv|/L2. Without L2 there is a line search on F."""
    initial_gap: float | None = None
    """Δ = F(x0) − min F, for settings='theory'."""

    def __post_init__(self) -> None:
        counts = ("batch_size", "steps", "epochs", "rounds")
        check_settings(self, positive=("step_size", "gamma", "smoothness"), counts=counts)
        check_settings(self, positive=("hessian_lipschitz",), hint="leave it out if it is not known")
        if not 0.0 <= self.random_share <= 1.0:
            raise ValueError(f"random_share must be in [0, 1], got {self.random_share!r}; it is a probability")


def theory_settings(n: int, dimension: int, options: Options) -> SvrgHessianSettings:
    """μ = 1/4, η = μb/(L1n^{2/3}), m = ⌊n/(3bμ)⌋, b = 1, q = 1/2, γ = √(L2ε), with all Θ-constants 1.

    L1·n^{2/3}Δ/(ε²mb) epochs give E‖∇F‖² ≤ ε². Each round lowers F by (cγ)³/(3L2²), so T = ⌈Δ·3L2²/(cγ)³⌉ + 1, where
    c = 1/2 for Lanczos, and that of Lemma 2 for a named extractor.
    """
    L1, L2, gap = constants.needed(options, "smoothness", "hessian_lipschitz", "initial_gap")
    known = options.method_settings
    mu, b = 0.25, checks.count(known.get("batch_size", 1), "batch_size")
    m = max(1, math.floor(n / (3.0 * b * mu)))
    gamma = math.sqrt(L2 * options.eps) if options.gamma is None else options.gamma
    epochs = max(1, math.ceil(L1 * n ** (2.0 / 3.0) * gap / (options.eps**2 * m * b)))
    epoch = {"step_size": mu * b / (L1 * n ** (2.0 / 3.0)), "batch_size": b, "steps": m, "random_share": 0.5}
    settings = settings_from(SvrgHessianSettings, known, **epoch, epochs=epochs, gamma=gamma)
    c = named_extractor.promised_fraction(options, settings, dimension)
    gain = extraction.escape_decrease(fraction=c, gamma=gamma, hessian_lipschitz=L2)
    return settings if settings.rounds is not None else replace(settings, rounds=math.ceil(gap / gain) + 1)


def practical_settings(n: int, run: Run, options: Options) -> SvrgHessianSettings:
    """b = ⌈n^{2/3}/5⌉, η = 1/(2L1), m = max(10, ⌈n/b⌉), as for the first-order methods."""
    known = options.method_settings
    L1 = constants.smoothness(run, options)
    b = int(known.get("batch_size", math.ceil(0.2 * n ** (2.0 / 3.0))))
    m, gamma = max(SHORTEST_EPOCH, math.ceil(n / b)), constants.curvature_sought(options, L1)
    defaults = {"step_size": 0.5 / L1, "batch_size": b, "steps": m, "epochs": 1, "gamma": gamma, "smoothness": L1}
    return settings_from(SvrgHessianSettings, known, **defaults)


def hessian_descent(run: Run, options: Options, x: Tensor, settings: SvrgHessianSettings) -> Evidence:
    """v with vᵀ∇²F(x)v ≤ −γ/2, or none: by Lanczos on everything, or by the extractor that the caller named."""
    if named_extractor.is_named(options):
        return named_extractor.extraction(run, options, x, settings)
    F, accuracy = everything(run, hessian=True), settings.gamma / 2.0
    q, v = lowest_curvature(run, F, x, smoothness=settings.smoothness, accuracy=accuracy, delta=options.delta)
    return Evidence(direction=v if q <= -accuracy else None, decided=True, curvature=q)


def minimize(run: Run, options: Options) -> None:
    """Finds a second-order stationary point of a finite sum: SVRG for the gradient, Lanczos for the curvature.

        for t = 1 … T:   (y, z) = SVRG(x), a random one of its iterates and the last;   u = y with probability q, else z
            v with vᵀHv ≤ λ_min + γ/2,  H = ∇²F(u);   if vᵀHv > −γ/2: return u
            w = u − (|vᵀHv|/L2)·sign(vᵀ∇F(u))·v;   x = the lower of w and u

    Reddi, Zaheer, Sra, Poczos, Bach, Salakhutdinov, Smola (2017), Algorithm 1 with SVRG (Reddi et al. 2016) and
    Hessian descent.

    With `extractor` "neon" or "neon+" this is NEON-SVRG as the NEON paper has it: v comes from NEON on samples, and no
    Hessian products are taken. Any other extractor may be named too. vᵀHv is then the curvature measured along v.

    Letters: η = `step_size`, b = `batch_size`, m = `steps`, q = `random_share`, T = `rounds`, γ = `gamma`.

    Departures of the practical setting: Hessian descent comes where ‖∇F(u)‖ ≤ ε, a gradient that is also the anchor of
    the next epoch. u is the last iterate. An epoch that did not lower F is undone, and η halved; F comes with the
    anchor's gradient. Without L2 a line search on F gives the length of the step.

    Cost: an epoch takes n + 2bm component gradients. A step of Lanczos takes n Hessian products of components. w, or
    each trial of the line search, takes n values.
    """
    f, n = everything(run), run.num_samples
    assert n is not None
    d = vectors.dimension(run.x)
    settings = theory_settings(n, d, options) if options.theory else practical_settings(n, run, options)
    run.gamma, eta = settings.gamma, settings.step_size
    seen = anchor_at(run.objective, run.x, None, run.generator)
    guard, epochs, rounds, y = Guard(run), 0, 0, seen.x
    guard.seen(seen.x, seen.value)
    while True:
        due = epochs >= settings.epochs if options.theory else seen.norm <= options.eps
        if not due:
            choose = int(torch.randint(settings.steps, (), generator=run.generator))
            loop = InnerLoop(batch_size=settings.batch_size, step_size=eta, num_steps=settings.steps)
            done = descend(run.objective, seen.x, seen.gradient, loop, run.generator, choose=choose)
            epochs += 1
            if not options.theory or int(torch.randint(epochs, (), generator=run.generator)) == 0:
                y = done.chosen  # So each epoch of a round is as likely as the others.
            last = not options.theory or epochs >= settings.epochs
            random = last and float(torch.rand((), generator=run.generator)) < settings.random_share
            after = anchor_at(run.objective, y if random else done.last, None, run.generator)
            if not options.theory and not guard.lowered(after.value, seen, eta):
                eta /= 2.0  # L1 was measured at x0. It is larger here.
                if eta < 1e-12 * settings.step_size:
                    raise RunEnded(Ending.DIVERGED)
                continue
            guard.seen(after.x, after.value)
            seen = after
            run.checked(seen.x, value=seen.value, gradient_norm=seen.norm, gradient_error=0.0)
            continue
        run.checked(seen.x, value=seen.value, gradient_norm=seen.norm, gradient_error=0.0)
        lowest = hessian_descent(run, options, seen.x, settings)
        q, v = lowest.curvature, lowest.direction
        run.extracted(curvature=q, error=lowest.error, note=lowest.note)
        rounds, epochs = rounds + 1, 0
        if v is None and not lowest.decided:
            raise RunEnded(Ending.CURVATURE_UNDECIDED)
        if v is None:
            raise RunEnded(Ending.SECOND_ORDER_POINT if seen.norm <= options.eps else Ending.OUTPUT)
        if settings.hessian_lipschitz is None:
            found = escape.by_guessed_lengths(f.value, seen.x, v, seen.value)
        else:
            w = escape.against_gradient(seen.x, v, seen.gradient, -q / settings.hessian_lipschitz)
            value = float(f.value(w))
            found = (w, value) if value < seen.value else None
        if found is None and not options.theory:
            raise RunEnded(Ending.CURVATURE_UNDECIDED)
        if found is not None:
            guard.seen(*found)
            length = vectors.norm(found[0] - seen.x)
            run.escaped(found[0], value=found[1], curvature=q, note=f"length {length:.3g}")
        if settings.rounds is not None and rounds >= settings.rounds:
            raise RunEnded(Ending.OUTPUT)
        seen = seen if found is None else anchor_at(run.objective, found[0], None, run.generator)
