"""NEON-A with the constants of Theorem 3 and its corollaries. They are there to be checked, not to be waited for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unsaddle.curvature.extract import find
from unsaddle.curvature.result import Status
from unsaddle.escape import steps as escape
from unsaddle.first_order.anchor import Anchor, anchor_at
from unsaddle.first_order.method import FirstOrderMethod, Local
from unsaddle.first_order.premises import ProblemConstants
from unsaddle.framework.plan import Evidence
from unsaddle.options import Options
from unsaddle.run import Ending, Run, RunEnded
from unsaddle.theory import extraction


@dataclass(frozen=True, kw_only=True)
class TheoryPlan:
    """Every constant from a theorem.

    - *Test*: |S| = 8G²(1 + 8·log(1/δ))/ε² (Lemma 3), or everything where there is less. The gradient is then known to
      ε/2, the test switches at a true norm in [ε/2, 3ε/2], and 𝒜 is called with ε/2 (E18).
    - *Extraction*: NEON or NEON⁺ with the settings of its theorem, on Lemma 2's |S2|.
    - *Escape*: cγ/L2 with a random sign, eq. (9).
    """

    options: Options
    constants: ProblemConstants

    def __post_init__(self) -> None:
        if self.options.gamma is None:
            raise ValueError("settings='theory' needs gamma; give it, or use settings='practical'")

    @property
    def _gamma(self) -> float:
        assert self.options.gamma is not None
        return self.options.gamma

    def begin(self, run: Run, x: Tensor, local: Local) -> None:
        local.smoothness, local.variance = self.constants.smoothness, self.constants.variance

    def test(self, run: Run, y: Tensor, method: FirstOrderMethod, local: Local) -> Anchor:
        size = None
        if self.constants.sub_gaussian > 0.0:
            size = extraction.gradient_sample_size(
                eps=self.options.eps / 2.0, sub_gaussian=self.constants.sub_gaussian, delta=self.options.delta
            )
        elif run.num_samples is None:
            raise ValueError("settings='theory' on a stream needs sub_gaussian, the scale of its gradients' noise")
        seen = anchor_at(run.objective, y, size, run.generator)
        local.gradient_norm = seen.norm
        return seen

    def is_small(self, run: Run, seen: Anchor) -> bool:
        return seen.norm <= self.options.eps

    def extract(self, run: Run, y: Tensor) -> Evidence:
        method = "neon+" if self.options.extractor == "auto" else self.options.extractor
        if method in ("neon", "neon+") and math.isinf(run.ledger.limit):
            raise ValueError(f"settings='theory' gives {method} more steps than can be waited for; pass max_samples")
        gamma, n = self._gamma, run.num_samples
        scales: dict[str, Any] = {"dimension": y.numel(), "smoothness": self.constants.smoothness, "gamma": gamma}
        size: int | None = extraction.sample_size(delta=self.options.delta, **scales)
        if n is not None and size is not None and size >= n:
            size = None
        found = find(
            run.objective,
            y,
            gamma=gamma,
            relative_gamma=math.nan,
            method=method,
            samples=size,
            delta=self.options.delta,
            smoothness=self.constants.smoothness,
            hessian_lipschitz=self.constants.hessian_lipschitz,
            basis=None,
            max_gradients=None if math.isinf(run.ledger.limit) else max(1, int(run.ledger.limit)),
            seed=int(torch.randint(2**31, (), generator=run.generator)),
            keep_history=False,
            settings="theory" if method in ("neon", "neon+") else "practical",
            ledger=run.ledger,
        )
        if found.status is Status.BUDGET_SPENT:
            raise RunEnded(Ending.BUDGET_SPENT)
        return Evidence(
            direction=found.direction,
            decided=found.direction is not None or found.status is Status.NOTHING_FOUND,
            curvature=found.lowest if found.direction is None else found.curvature,
            gamma=gamma,
            radius=found.radius,
            samples=size,
            note=f"{found.method}: {found.status.name}",
        )

    def escape(self, run: Run, y: Tensor, seen: Anchor, found: Evidence) -> Tensor | None:
        assert found.direction is not None
        ell = extraction.sampled_log_factor(
            dimension=y.numel(),
            smoothness=self.constants.smoothness,
            gamma=self._gamma,
            delta=self.options.delta,
        )
        length = extraction.escape_length(
            fraction=extraction.sampling_accuracy(log_factor=ell),
            gamma=self._gamma,
            hessian_lipschitz=self.constants.hessian_lipschitz,
        )
        return escape.at_random(y, found.direction, length, run.generator)

    def recover(self, run: Run, local: Local) -> bool:
        return False
