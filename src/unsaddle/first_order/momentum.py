"""SM, Algorithm 5: stochastic gradient, heavy-ball and Nesterov steps in one recurrence, eqs. (16) and (17)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.first_order.anchor import Anchor, at_most
from unsaddle.first_order.method import FirstOrderMethod, Local, Plain
from unsaddle.first_order.premises import Premises
from unsaddle.objective import Objective
from unsaddle.options import check_settings
from unsaddle.theory import framework


@dataclass(frozen=True, kw_only=True)
class MomentumSettings:
    """Constants of SM."""

    step_size: float
    """η; plain SGD takes steps of η/(1 − β)."""
    momentum: float
    """β."""
    s: float
    """0 for heavy ball, 1 for Nesterov, 1/(1 − β) for plain SGD."""
    num_steps: int
    """t + 1."""
    batch_size: int = 1

    def __post_init__(self) -> None:
        _check_momentum(self.momentum)
        checks.positive(self.step_size, "step_size", "leave it out to have it follow L1")
        if not 0.0 <= self.s <= 1.0 / (1.0 - self.momentum) * (1.0 + 1e-12):
            raise ValueError(f"s must be in [0, 1/(1 − β)], got {self.s} with momentum {self.momentum}")


@dataclass(frozen=True, kw_only=True)
class MomentumRound:
    """What t + 1 steps of SM come to."""

    y: Tensor = field(repr=False)
    """x⁺ at a random step: what the theory tests."""
    z: Tensor = field(repr=False)
    """x⁺ after the last."""
    last: Tensor = field(repr=False)
    """The last iterate itself,"""
    last_s: Tensor = field(repr=False)
    """and its companion x^s: with both, the next round keeps the velocity."""


def sm(
    objective: Objective,
    x0: Tensor,
    settings: MomentumSettings,
    generator: torch.Generator,
    companion: Tensor | None = None,
) -> MomentumRound:
    """t + 1 steps of Algorithm 5 from x₀.

        x^s_{τ+1} = x_τ − sη∇f(x_τ; ξ_τ)
        x_{τ+1} = x_τ − η∇f(x_τ; ξ_τ) + β(x^s_{τ+1} − x^s_τ)
        x⁺_{τ+1} = x_{τ+1} + β/(1−β)·(x_{τ+1} − x_τ + sη∇f(x_τ; ξ_τ))        (the plus is erratum E10)

    and x⁺_{τ+1} = x⁺_τ − η/(1−β)·∇f(x_τ; ξ_τ), for every s: plain descent is hidden in momentum. y is x⁺ at a uniformly
    random step (the first included), z the last. Cost: (t+1)·b component gradients.

    Args:
        companion: x^s to start with, to go on with the velocity of an earlier round; x₀ by default.
    """
    eta, beta, s = settings.step_size, settings.momentum, settings.s
    x, xs = x0.clone(), (x0 if companion is None else companion).clone()
    chosen = int(torch.randint(settings.num_steps, (), generator=generator, device=generator.device))
    plus = y = x0
    for tau in range(settings.num_steps):
        f = objective.sample(settings.batch_size, generator)
        g = f.grad(x)
        wanted = tau + 1 in (chosen, settings.num_steps)  # x⁺ is needed at two steps only.
        if beta > 0.0:
            # x^s_{τ+1} in the memory of x; x_{τ+1} = x^s_{τ+1} + β(x^s_{τ+1} − x^s_τ) + (s − 1)ηg in that of x^s_τ.
            x = x.sub_(g, alpha=s * eta) if s != 0.0 else x
            xs.lerp_(x, 1.0 + beta)
            x, xs = xs.add_(g, alpha=(s - 1.0) * eta) if s != 1.0 else xs, x
        else:
            xs = torch.sub(x, g, alpha=s * eta) if wanted else xs
            x.sub_(g, alpha=eta)
        if tau == chosen:
            y = plus
        if wanted:
            plus = torch.add(x, torch.sub(x, xs), alpha=beta / (1.0 - beta))  # As x_τ − sηg is x^s_{τ+1}.
        del g, f  # In place, and freed in this order: a vector beside a batch keeps the next from having its memory.
    return MomentumRound(y=y, z=plus, last=x, last_s=xs)


def corollary_1(
    premises: Premises, *, momentum: float, s: float, batch_size: int, num_steps: int, second_moment: float | None
) -> Plain:
    """SM with the step size of Corollary 1; `second_moment` is σ² ≥ E‖∇f(x; ξ)‖², V by default: right for plain SGD."""
    known, eps, gamma = premises.constants, premises.eps, premises.gamma
    moment = known.variance if second_moment is None else second_moment
    noise = framework.momentum_noise_scale(
        momentum=momentum, variant=s, smoothness=known.smoothness, second_moment=moment
    )
    step = framework.momentum_step_size(eps=eps, momentum=momentum, smoothness=known.smoothness, noise_scale=noise)

    def run(objective: Objective, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        admissible = math.inf
        if noise > 0.0:
            # At η = ε²/(6D) the corollary's range of t is empty for any C that NEON can promise; this η fills it.
            admissible = framework.momentum_max_step_size(
                num_steps=num_steps,
                gamma=gamma,
                momentum=momentum,
                noise_scale=noise,
                escape_constant=premises.escape_constant(vectors.dimension(x)),
            )
        settings = MomentumSettings(
            step_size=min(step, admissible), momentum=momentum, s=s, num_steps=num_steps, batch_size=batch_size
        )
        done = sm(objective, x, settings, generator)
        return done.y, done.z

    return run


ROUND = 20
"""Steps between tests: one on a batch of the same size then costs a twentieth."""


@dataclass(kw_only=True)
class Sgd(FirstOrderMethod):
    """SGD with measured constants.

        b = max(16, 2kV/max(ε², ĝ²/4)),   η/(1−β) = 0.5k/L1,   k = 1, or 2.5 with momentum

    After each round of twenty steps the batch of the last test answers once more: where its value rose, L1 is raised,
    and where it rose out of all bounds the round is undone. Heavy ball and Nesterov's method, which differ in β and s
    alone, keep their velocity from round to round.
    """

    batch_size: int | None = None
    step_size: float | None = None
    num_steps: int = ROUND
    _companion: Tensor | None = field(default=None, init=False, repr=False)

    _s: ClassVar[float] = 1.0

    @classmethod
    def theory(
        cls, premises: Premises, *, batch_size: int = 1, num_steps: int = 1, second_moment: float | None = None
    ) -> Plain:
        free: dict[str, Any] = {"batch_size": batch_size, "num_steps": num_steps, "second_moment": second_moment}
        return corollary_1(premises, momentum=0.0, s=cls._s, **free)

    def __post_init__(self) -> None:
        counts = ("batch_size", "num_steps")
        check_settings(self, positive=("step_size",), counts=counts, hint="leave it out to have it follow L1")

    @property
    def _beta(self) -> float:
        return 0.0

    @property
    def _gain(self) -> float:
        return 2.5 if self._beta > 0.0 else 1.0

    def test_size(self, local: Local) -> int | None:
        return at_most(self._batch(local), local.num_samples)

    def _batch(self, local: Local) -> int:
        if self.batch_size is not None:
            return self.batch_size
        size = local.samples_for(2.0 * self._gain, at_least=16)
        return local.num_samples or 1 if size is None else size

    def advance(
        self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        effective = 0.5 * self._gain / local.smoothness if self.step_size is None else self.step_size
        settings = MomentumSettings(
            step_size=effective * (1.0 - self._beta),
            momentum=self._beta,
            s=self._s,
            num_steps=self.num_steps,
            batch_size=self._batch(local),
        )
        done = sm(objective, x, settings, generator, self._companion)
        self._companion = done.last_s
        if self.step_size is None and seen is not None and not self._kept(done.last, seen, local):
            self.forget()
            return x, x
        return done.last, done.last

    def _kept(self, x: Tensor, seen: Anchor, local: Local) -> bool:
        value = seen.value_at(x)
        if value <= seen.value + seen.rounding:
            local.smoothness *= 0.95
            return True
        local.smoothness *= 1.5
        # A step cannot raise F_S by more than it could gain to first order, but by instability.
        return math.isfinite(value) and value - seen.value <= seen.norm**2 / local.smoothness * self.num_steps

    def forget(self) -> None:
        self._companion = None


@dataclass(kw_only=True)
class HeavyBall(Sgd):
    """Heavy ball: s = 0, β = `momentum`, and all else as in `Sgd`."""

    momentum: float = 0.9

    _s: ClassVar[float] = 0.0

    @classmethod
    def theory(
        cls,
        premises: Premises,
        *,
        batch_size: int = 1,
        num_steps: int = 1,
        second_moment: float | None = None,
        momentum: float = 0.9,
    ) -> Plain:
        free: dict[str, Any] = {"batch_size": batch_size, "num_steps": num_steps, "second_moment": second_moment}
        return corollary_1(premises, momentum=momentum, s=cls._s, **free)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_momentum(self.momentum)

    @property
    def _beta(self) -> float:
        return self.momentum


@dataclass(kw_only=True)
class Nesterov(HeavyBall):
    """Nesterov's accelerated gradient: s = 1, β = `momentum`, and all else as in `Sgd`."""

    _s: ClassVar[float] = 1.0


def _check_momentum(momentum: float) -> None:
    if not 0.0 <= momentum < 1.0:
        raise ValueError(f"momentum must be in [0, 1), got {momentum}; 0.9 is usual")
