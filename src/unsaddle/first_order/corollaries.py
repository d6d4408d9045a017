"""The first-order methods with the constants of Corollaries 1 to 3, of Reddi et al. and of Allen-Zhu.

Each is called with the target ε/2 (E18) and draws its own samples: it makes nothing of the look that the test took.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from unsaddle.first_order.anchor import anchor_at
from unsaddle.first_order.method import FirstOrderMethod, PlainMethod
from unsaddle.first_order.momentum import MomentumSettings, sm
from unsaddle.first_order.natasha15 import Natasha15Settings, natasha15_epoch
from unsaddle.first_order.scsg import scsg_epoch
from unsaddle.first_order.variance_reduced import InnerLoop, descend
from unsaddle.objective import Objective
from unsaddle.options import Options, refuse_unknown
from unsaddle.theory import extraction
from unsaddle.theory import framework as corollaries

Maker = Callable[[Options, "Known", int | None, Mapping[str, Any]], FirstOrderMethod]


class Known(Protocol):
    """The constants that a theorem takes as known."""

    @property
    def smoothness(self) -> float: ...
    @property
    def hessian_lipschitz(self) -> float: ...
    @property
    def variance(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class _Given:
    """Settings that the corollaries leave free."""

    batch_size: int = 1
    momentum: float = 0.9
    num_steps: int | None = None
    second_moment: float | None = None
    """σ² ≥ E‖∇f(x; ξ)‖² of SM; V by default, which is right for plain SGD."""
    sigma: float | None = None


def _given(settings: Mapping[str, Any]) -> _Given:
    known = tuple(_Given.__dataclass_fields__)
    refuse_unknown(settings, known, "with settings='theory' a method takes")
    return _Given(**settings)


def _momentum(variant: str) -> Maker:
    def make(options: Options, known: Known, n: int | None, settings: Mapping[str, Any]) -> FirstOrderMethod:
        given, eps = _given(settings), corollaries.first_order_target(eps=options.eps)
        beta = 0.0 if variant == "sgd" else given.momentum
        s = {"sgd": 1.0 / (1.0 - beta), "shb": 0.0, "snag": 1.0}[variant]
        moment = known.variance if given.second_moment is None else given.second_moment
        noise = corollaries.momentum_noise_scale(
            momentum=beta, variant=s, smoothness=known.smoothness, second_moment=moment
        )
        step = corollaries.momentum_step_size(eps=eps, momentum=beta, smoothness=known.smoothness, noise_scale=noise)
        steps = 1 if given.num_steps is None else given.num_steps

        def run(objective: Objective, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
            admissible = math.inf
            if noise > 0.0:
                # At η = ε²/(6D) the corollary's range of t is empty for any C that NEON can promise; this η fills it.
                admissible = corollaries.momentum_max_step_size(
                    num_steps=steps,
                    gamma=gamma,
                    momentum=beta,
                    noise_scale=noise,
                    escape_constant=_escape_constant(x.numel(), options, known),
                )
            chosen = MomentumSettings(
                step_size=min(step, admissible), momentum=beta, s=s, num_steps=steps, batch_size=given.batch_size
            )
            done = sm(objective, x, chosen, generator)
            return done.y, done.z

        gamma = _gamma(options)
        return PlainMethod(run)

    return make


def _msgd(options: Options, known: Known, n: int | None, settings: Mapping[str, Any]) -> FirstOrderMethod:
    _given(settings)
    eps = corollaries.first_order_target(eps=options.eps)
    size = _at_most(corollaries.msgd_sample_size(eps=eps, variance=known.variance), n)

    def run(objective: Objective, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        g = objective.sample(size, generator).grad(x)
        return x, torch.sub(x, g, alpha=1.0 / known.smoothness)

    return PlainMethod(run)


def _scsg(options: Options, known: Known, n: int | None, settings: Mapping[str, Any]) -> FirstOrderMethod:
    given, eps = _given(settings), corollaries.first_order_target(eps=options.eps)

    def run(objective: Objective, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        size = corollaries.scsg_anchor_size(
            eps=eps,
            gamma=gamma,
            batch_size=given.batch_size,
            variance=known.variance,
            smoothness=known.smoothness,
            escape_constant=_escape_constant(x.numel(), options, known),
            population=n,
        )
        step = corollaries.scsg_step_size(anchor_size=size, batch_size=given.batch_size, smoothness=known.smoothness)
        seen = anchor_at(objective, x, size, generator)
        last, _ = scsg_epoch(objective, seen, batch_size=given.batch_size, step_size=step, generator=generator)
        return last, last

    gamma = _gamma(options)
    return PlainMethod(run)


def _svrg(options: Options, known: Known, n: int | None, settings: Mapping[str, Any]) -> FirstOrderMethod:
    given = _given(settings)
    assert n is not None
    sizes = {"population": n, "batch_size": given.batch_size}
    step = corollaries.svrg_step_size(smoothness=known.smoothness, **sizes)
    steps = corollaries.svrg_num_steps(**sizes)

    def run(objective: Objective, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        h = objective.sample().grad(x).clone()
        before = int(torch.randint(steps, (), generator=generator))
        loop = InnerLoop(batch_size=given.batch_size, step_size=step, num_steps=before)
        y, _ = descend(objective, x, h, loop, generator)
        rest = InnerLoop(batch_size=given.batch_size, step_size=step, num_steps=steps - before)
        z, _ = descend(objective, x, h, rest, generator, start=y)
        return y, z

    return PlainMethod(run)


def _natasha(options: Options, known: Known, n: int | None, settings: Mapping[str, Any]) -> FirstOrderMethod:
    given, eps = _given(settings), corollaries.first_order_target(eps=options.eps)
    scales = {"eps": eps, "smoothness": known.smoothness, "variance": known.variance}
    sigma = corollaries.natasha_convexity(sigma=given.sigma or _gamma(options), **scales)
    size = _at_most(corollaries.natasha_anchor_size(eps=eps, variance=known.variance), n)
    sub_epochs = corollaries.natasha_num_sub_epochs(sigma=sigma, **scales)
    steps = corollaries.natasha_num_steps(anchor_size=(n or 1) if size is None else size, num_sub_epochs=sub_epochs)
    steps = max(2, steps)  # With one step, a random one of x_0 … x_{m−1} is x_0: it would never move.
    chosen = Natasha15Settings(
        step_size=corollaries.natasha_step_size(sigma=sigma, num_steps=steps),
        sigma=sigma,
        sub_epochs=sub_epochs,
        steps=steps,
        batch_size=given.batch_size,
        centre="random",
    )

    def run(objective: Objective, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        mean = objective.sample(size, generator).grad(x).clone()
        last, centres = natasha15_epoch(objective, x, mean, chosen, generator)
        return centres[int(torch.randint(len(centres), (), generator=generator))], last

    return PlainMethod(run)


def _gamma(options: Options) -> float:
    if options.gamma is None:
        raise ValueError("settings='theory' needs gamma; give it, or use settings='practical'")
    return options.gamma


def _escape_constant(dimension: int, options: Options, known: Known) -> float:
    """C, with the c that Lemma 2 promises of a direction found on samples."""
    ell = extraction.sampled_log_factor(
        dimension=dimension, smoothness=known.smoothness, gamma=_gamma(options), delta=options.delta
    )
    fraction = extraction.sampling_accuracy(log_factor=ell)
    return corollaries.escape_constant(fraction=fraction, hessian_lipschitz=known.hessian_lipschitz)


def _at_most(size: int, n: int | None) -> int | None:
    """The size, or None for everything where that is no more."""
    return None if n is not None and size >= n else size


THEORY_METHODS: dict[str, Maker] = {
    "sgd": _momentum("sgd"),
    "shb": _momentum("shb"),
    "snag": _momentum("snag"),
    "msgd": _msgd,
    "scsg": _scsg,
    "svrg": _svrg,
    "natasha": _natasha,
}
"""Makers by the name of the method."""
