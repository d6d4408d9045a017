"""SM, Algorithm 5: stochastic gradient, heavy-ball and Nesterov steps in one recurrence, eqs. (16) and (17)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Generator, Tensor

from unsaddle import checks, vectors
from unsaddle.first_order.anchor import Anchor, at_most
from unsaddle.first_order.method import FirstOrderMethod, Local, Pair, Plain
from unsaddle.first_order.premises import Premises
from unsaddle.objective import Objective
from unsaddle.options import check_settings
from unsaddle.theory import framework


@dataclass(frozen=True, kw_only=True)
class MomentumSettings:
    """Constants of SM. Letters: η = `step_size`, β = `momentum`, t + 1 = `num_steps`, b = `batch_size`."""

    step_size: float
    momentum: float
    s: float
    """0 for heavy ball, 1 for Nesterov, 1/(1 − β) for plain SGD, which takes steps of η/(1 − β)."""
    num_steps: int
    batch_size: int = 1

    def __post_init__(self) -> None:
        _check_momentum(self.momentum)
        checks.positive(self.step_size, "step_size", "leave it out to have it follow L1")
        if not 0.0 <= self.s <= 1.0 / (1.0 - self.momentum) * (1.0 + 1e-12):
            raise ValueError(f"s must be in [0, 1/(1 − β)], got {self.s} with momentum {self.momentum}")


@dataclass(frozen=True, kw_only=True)
class MomentumRound:
    """The result of t + 1 steps of SM. The last x and x^s, `last` and `last_s`, let a next round keep the velocity."""

    y: Tensor = field(repr=False)
    """x⁺ at a random step, which the theory tests."""
    z: Tensor = field(repr=False)
    """x⁺ after the last step."""
    last: Tensor = field(repr=False)
    last_s: Tensor = field(repr=False)


def sm(
    objective: Objective, x0: Tensor, settings: MomentumSettings, generator: Generator, companion: Tensor | None = None
) -> MomentumRound:
    """t + 1 steps of Algorithm 5 from x₀.

        x^s_{τ+1} = x_τ − sη∇f(x_τ; ξ_τ)
        x_{τ+1} = x_τ − η∇f(x_τ; ξ_τ) + β(x^s_{τ+1} − x^s_τ)
        x⁺_{τ+1} = x_{τ+1} + β/(1−β)·(x_{τ+1} − x_τ + sη∇f(x_τ; ξ_τ))        (the plus is erratum E10)

    For every s, x⁺_{τ+1} = x⁺_τ − η/(1−β)·∇f(x_τ; ξ_τ): momentum contains plain descent. y is x⁺ at a uniformly random
    one of the steps 0 … t, and z is the last x⁺. `companion` is the first x^s, x₀ by default. With that of an earlier
    round, SM keeps its velocity. Cost: (t+1)·b component gradients.
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
            # x^s_{τ+1} overwrites x_τ. Then x_{τ+1} = x^s_{τ+1} + β(x^s_{τ+1} − x^s_τ) + (s − 1)ηg overwrites x^s_τ.
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
        del g, f  # In this order: a vector that outlives its batch keeps the next batch from using that memory.
    return MomentumRound(y=y, z=plus, last=x, last_s=xs)


def corollary_1(premises: Premises, momentum: float, s: float, batch_size: int, num_steps: int) -> Plain:
    """SM with the constants of Corollary 1: (y, z) after t + 1 = `num_steps` steps of η.

        η = min(ε²/(6D), (1 − β)/(2·L1), √(2(1 − β)Cγ³/(3D(t + 1))))

    At the printed η = ε²/(6D) the corollary needs t + 1 ≤ 24DC(1 − β)γ³/ε⁴, so that 𝒜 loses at most Cγ³/2. For any C
    that NEON can promise, no t keeps to that. So η falls until the given t does, and t + 1 may be any count. Its lower
    bound C′/ε² asks for nothing: C′ is any constant, and ε_𝒜 follows it.

    By default t + 1 = 1, which allows the largest η. Then y = x₀: the only one of the steps 0 … t is step 0, and NEON-A
    tests where SM started. With a larger `num_steps`, y is x⁺ at a random one of them.

    D needs σ² ≥ E‖∇f(x; ξ)‖², the `second_moment`. It is not zero without noise: momentum carries ‖∇F‖ along. Only for
    plain SGD, s = 1/(1 − β) or β = 0, V may stand for it.
    """
    known, eps, gamma = premises.constants, premises.eps, premises.gamma
    checks.count(num_steps, "num_steps")
    is_sgd = momentum == 0.0 or math.isclose(s * (1.0 - momentum), 1.0)
    if known.second_moment is None and not is_sgd:
        raise ValueError(
            "settings='theory' needs second_moment for heavy ball and Nesterov: a bound on E‖∇f(x; ξ)‖², which is "
            "‖∇F(x)‖² + V; give it, or use SGD, for which variance is enough, or settings='practical'"
        )
    moment = known.variance if known.second_moment is None else known.second_moment
    scales = {"momentum": momentum, "smoothness": known.smoothness}
    noise = framework.momentum_noise_scale(variant=s, second_moment=moment, **scales)
    largest = framework.momentum_step_size(eps=eps, noise_scale=noise, **scales)

    def run(objective: Objective, x: Tensor, generator: Generator) -> Pair:
        step = largest
        if noise > 0.0:
            c = premises.escape_constant(vectors.dimension(x))
            admissible = framework.momentum_max_step_size(
                num_steps=num_steps, gamma=gamma, momentum=momentum, noise_scale=noise, escape_constant=c
            )
            step = min(step, admissible)
        settings = MomentumSettings(step_size=step, momentum=momentum, s=s, num_steps=num_steps, batch_size=batch_size)
        done = sm(objective, x, settings, generator)
        return done.y, done.z

    return run


ROUND = 20
"""Steps between tests. A test on a batch of the same size then adds a twentieth to the cost."""


@dataclass(kw_only=True)
class Sgd(FirstOrderMethod):
    """SGD with measured constants.

        b = max(16, 2kV/max(ε², ĝ²/4)),   η/(1−β) = 0.5k/L1,   k = 1, or 2.5 with momentum

    After each round of twenty steps, the value on the batch of the last test is computed again. If it rose, L1 is
    raised. If it rose too far, the round is undone. `HeavyBall` and `Nesterov` keep their velocity from round to round.
    y and z are the last x. In Algorithm 5, y is x⁺ at a random step and z the last x⁺.
    """

    batch_size: int | None = None
    step_size: float | None = None
    num_steps: int = ROUND
    _companion: Tensor | None = field(default=None, init=False, repr=False)
    _s: ClassVar[float] = 1.0

    @classmethod
    def theory(cls, premises: Premises, *, batch_size: int = 1, num_steps: int = 1) -> Plain:
        return corollary_1(premises, 0.0, cls._s, batch_size, num_steps)

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

    def advance(self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: Generator) -> Pair:
        beta, b = self._beta, self._batch(local)
        effective = 0.5 * self._gain / local.smoothness if self.step_size is None else self.step_size
        step = effective * (1.0 - beta)
        settings = MomentumSettings(step_size=step, momentum=beta, s=self._s, num_steps=self.num_steps, batch_size=b)
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
        # A rise above what a step could gain to first order means instability.
        return math.isfinite(value) and value - seen.value <= seen.norm**2 / local.smoothness * self.num_steps

    def forget(self) -> None:
        self._companion = None


@dataclass(kw_only=True)
class HeavyBall(Sgd):
    """Heavy ball: s = 0 and β = `momentum`. The rest is as in `Sgd`."""

    momentum: float = 0.9
    _s: ClassVar[float] = 0.0

    @classmethod
    def theory(cls, premises: Premises, *, batch_size: int = 1, num_steps: int = 1, momentum: float = 0.9) -> Plain:
        return corollary_1(premises, momentum, cls._s, batch_size, num_steps)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_momentum(self.momentum)

    @property
    def _beta(self) -> float:
        return self.momentum


@dataclass(kw_only=True)
class Nesterov(HeavyBall):
    """Nesterov's accelerated gradient: s = 1 and β = `momentum`. The rest is as in `Sgd`."""

    _s: ClassVar[float] = 1.0


def _check_momentum(momentum: float) -> None:
    if not 0.0 <= momentum < 1.0:
        raise ValueError(f"momentum must be in [0, 1), got {momentum}; 0.9 is usual")
