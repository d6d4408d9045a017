"""A question at a point: the only argument of an extractor."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Cost, Ledger
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Candidate, Status
from unsaddle.measure import smoothness
from unsaddle.measure.direction import Scale
from unsaddle.objective import Objective, SampledFunction
from unsaddle.theory import extraction, quadratics

Observer = Callable[[int, Tensor], None]
"""Called with (step, iterate) at each step of an extractor. It must not keep or change the iterate."""

UNATTENDED_STEPS = 10**8
"""A run of more steps needs a budget: the theorems ask for 1e13."""

S = TypeVar("S", bound=Any)
"""Settings of an extractor: a frozen dataclass with `num_steps`."""


class Inconclusive(Exception):  # noqa: N818  (an outcome, not an error)
    """A constant that the extractor needs cannot be measured. `negative_curvature` returns the status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.value)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Search:
    """A question at a point, and what is known about the function there.

    A constant that was not given is measured at its first use, so an extractor pays only for those that it needs."""

    question: Question
    objective: Objective
    f: SampledFunction
    """F_S on a fixed sample, with `hvp` for second-order extractors."""
    f_hat: DisplacedFunction
    """f̂ of F_S at x, with ∇F_S(x) cached."""
    sampled: bool
    """Whether F_S is less than F."""
    basis: int
    """Vectors that a Krylov basis may hold."""
    reserve: int
    """Gradients of the budget that are kept for measuring a candidate."""
    before: Cost
    """The ledger's count when this search began."""
    generator: torch.Generator

    @property
    def x(self) -> Tensor:
        return self.f_hat.x

    @property
    def dimension(self) -> int:
        return vectors.dimension(self.x)

    @property
    def delta(self) -> float:
        """δ of the random start. Lemma 2 leaves it a third: as much is for the sample, and for fresh samples (E19)."""
        delta = self.question.delta
        return extraction.sampled_delta(delta=delta) if self.sampled and self.question.theory else delta

    @property
    def hessian_lipschitz(self) -> float | None:
        """L2; None if it was not given."""
        return self.question.hessian_lipschitz

    @property
    def ledger(self) -> Ledger:
        return self.f.ledger

    @property
    def cost(self) -> Cost:
        """The cost of this search so far."""
        return self.ledger.cost - self.before

    @cached_property
    def _seen_smoothness(self) -> float:
        """L1, given or measured with a few gradients."""
        if self.question.smoothness is not None:
            return self.question.smoothness
        if not self.affords(smoothness.SMOOTHNESS_STEPS):
            raise Inconclusive(Status.BUDGET_SPENT)
        # At the cube root of the precision, truncation and rounding balance.
        radius = torch.finfo(self.x.dtype).eps ** (1.0 / 3.0) * max(1.0, self.f_hat.x_norm)
        measured = smoothness.smoothness(lambda v: self.f_hat.replace_by_product(v, radius), self.x, self.generator)
        if not math.isfinite(measured):
            raise Inconclusive(Status.NOT_FINITE)
        if measured == 0.0:
            raise Inconclusive(Status.FLAT)
        return measured

    @cached_property
    def sample_share(self) -> float:
        """The share of γ that is looked for in F_S; sampling may hide the rest."""
        if not self.sampled:
            return 1.0
        if not self.question.theory:
            return 1.0 - self.question.sample_margin
        # Lemma 2: F_S has this share of γ for sure where F has −γ (E19).
        gamma, delta = self.question.gamma_at(self._seen_smoothness), self.question.delta
        largest = max(self._seen_smoothness, gamma)
        ell = extraction.sampled_log_factor(dimension=self.dimension, smoothness=largest, gamma=gamma, delta=delta)
        return extraction.sampled_gamma(gamma=1.0, accuracy=extraction.sampling_accuracy(log_factor=ell))

    @property
    def smoothness(self) -> float:
        """L1, but at least the curvature that is looked for."""
        seen, gamma = self._seen_smoothness, self.question.gamma
        return seen if gamma is None else max(seen, self.sample_share * gamma)

    @property
    def gamma(self) -> float:
        """The curvature looked for in F_S: γ, given or relative to L1, times `sample_share`."""
        return self.sample_share * self.question.gamma_at(self.smoothness)

    @property
    def noise(self) -> float:
        """σ, the rounding of a gradient, estimated from its size."""
        return quadratics.gradient_noise(
            dtype=self.x.dtype, grad_norm=self.f_hat.grad_norm, smoothness=self.smoothness, x_norm=self.f_hat.x_norm
        )

    @property
    def trust_radius(self) -> float:
        """U, within which f̂ is taken to be quadratic."""
        return quadratics.trust_radius(
            gamma=self.gamma, hessian_lipschitz=self.hessian_lipschitz, x_norm=self.f_hat.x_norm
        )

    @property
    def smallest_radius(self) -> float:
        """r_min: rounding drowns probes nearer to x."""
        return quadratics.smallest_radius(
            noise=self.noise, gamma=self.gamma, dtype=self.x.dtype, smoothness=self.smoothness
        )

    @property
    def noise_radius(self) -> float:
        """r, the radius of the noise."""
        self.check_precision()
        return quadratics.noise_radius(
            smallest=self.smallest_radius, trust=self.trust_radius, dimension=self.dimension, delta=self.delta
        )

    @property
    def measurement_radius(self) -> float:
        """The distance at which the curvature of a candidate is measured."""
        self.check_precision()
        return quadratics.measurement_radius(smallest=self.smallest_radius, trust=self.trust_radius)

    @property
    def scale(self) -> Scale:
        """The constants for measuring a candidate."""
        radius = self.measurement_radius
        # Probes go out to 4r. At x = 0 their rounding is the only noise.
        noise = self.noise + torch.finfo(self.x.dtype).eps * self.smoothness * 4.0 * radius
        return Scale(gamma=self.gamma, smoothness=self.smoothness, noise=noise, radius=radius)

    def check_precision(self) -> None:
        """Raises `Inconclusive` if no radius lies between rounding and truncation."""
        if self.smallest_radius > self.trust_radius / 5.0:
            raise Inconclusive(Status.PRECISION_TOO_LOW)

    @property
    def constants(self) -> dict[str, Any]:
        """γ, δ, d and L1, as keyword arguments."""
        return {"gamma": self.gamma, "delta": self.delta, "dimension": self.dimension, "smoothness": self.smoothness}

    def settings(self, theory: Callable[..., S]) -> S:
        """The settings that `theory` makes of γ, δ, d, L1 and L2."""
        constants = self.constants
        if not self.hessian_lipschitz:
            raise ValueError(
                f"settings='theory' needs hessian_lipschitz > 0, got {self.hessian_lipschitz}; "
                "give it, or use settings='practical'"
            )
        return theory(hessian_lipschitz=self.hessian_lipschitz, **constants)

    def within_budget(
        self, settings: S, run: Callable[[S], Candidate], *, calls_a_step: int = 1, extra_calls: int = 0
    ) -> Candidate:
        """Runs an extractor for the steps that the budget allows. `BUDGET_SPENT` if the budget ended the run."""
        left = self._steps_left(calls_a_step, extra_calls)
        if left is None and settings.num_steps > UNATTENDED_STEPS:
            raise ValueError(
                f"these settings ask for up to {settings.num_steps:.1e} steps; "
                "pass max_gradients to bound them, or use settings='practical'"
            )
        if left is None or settings.num_steps <= left:
            return run(settings)
        candidate = run(replace(settings, num_steps=left))
        return replace(candidate, status=Status.BUDGET_SPENT) if candidate.exhausted else candidate

    def affords(self, gradients: int) -> bool:
        """Whether the budget allows so many gradients more, beside the measurement."""
        left = self._steps_left(1, 0)
        return left is None or gradients <= left

    def _steps_left(self, calls_a_step: int, extra_calls: int) -> int | None:
        """The steps that the budget leaves; None without a budget."""
        if self.question.max_gradients is None:
            return None
        spent = self.cost.gradients + self.cost.hessian_products
        return max(0, self.question.max_gradients - self.reserve - spent - extra_calls) // calls_a_step
