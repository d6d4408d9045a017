"""SM, Algorithm 5: stochastic gradient, heavy-ball and Nesterov steps in one recurrence, eqs. (16) and (17)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.first_order.anchor import Anchor
from unsaddle.first_order.method import Local
from unsaddle.objective import Objective


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
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum}; 0.9 is usual")
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


ROUND = 20
"""Steps between looks: a look at a batch of the same size then costs a twentieth."""


@dataclass
class Momentum:
    """SGD, heavy ball or Nesterov with measured constants.

        b = max(16, 2kV/max(ε², ĝ²/4)),   η/(1−β) = 0.5k/L1,   k = 1, or 2.5 with momentum

    The velocity is kept from round to round. After each round of twenty steps the batch of the last look answers once
    more: where its value rose, L1 is raised, and where it rose out of all bounds the round is undone.
    """

    momentum: float
    s: float
    step_size: float | None = None
    batch_size: int | None = None
    num_steps: int = ROUND
    _companion: Tensor | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum}; 0.9 is usual")

    @property
    def _gain(self) -> float:
        return 2.5 if self.momentum > 0.0 else 1.0

    def test_size(self, local: Local) -> int | None:
        size = self._batch(local)
        return None if local.num_samples is not None and size >= local.num_samples else size

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
            step_size=effective * (1.0 - self.momentum),
            momentum=self.momentum,
            s=self.s,
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
