"""The gradient of a verdict: which one it is, in a metric and without, and what counts as small."""

from __future__ import annotations

import pytest
import torch

from unsaddle import Function
from unsaddle.cost import Ledger
from unsaddle.curvature.extract import answer_posed
from unsaddle.curvature.posed import posed
from unsaddle.curvature.question import Question
from unsaddle.judgement.measured_gradient import Gradient, measured_gradient

DOUBLE = torch.float64
SIZES = torch.tensor([1.0, 4.0], dtype=DOUBLE)
X = torch.tensor([3.0, 0.0], dtype=DOUBLE)


def measured(dtype: torch.dtype = DOUBLE, eps: float | None = None, metric: torch.Tensor | None = None) -> Gradient:
    """Of ½x² + ½·16·y², with ∇F = (3, 0) and L1 = 16 at x."""
    f = Function(lambda x: (x[0] ** 2 + 16.0 * x[1] ** 2) / 2.0)
    asked, found = answer_posed(posed(f, X.to(dtype), Question(survey_first=True), metric), Ledger())
    generator, ledger = torch.Generator().manual_seed(0), Ledger()
    sampled = asked.objective.sample(ledger=ledger)
    return measured_gradient(asked, found, sampled, eps, None, 0.05, generator, ledger)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_norm_is_known_to_rounding_and_eps_follows_l1(dtype: torch.dtype) -> None:
    seen = measured(dtype)
    assert seen.least <= 3.0 <= seen.most
    assert 0.0 < seen.error < 1e3 * torch.finfo(dtype).eps * 3.0 * 16.0
    assert seen.eps == pytest.approx(1e-3 * 16.0 * 3.0, rel=1e-2)
    assert (seen.follows_l1, seen.in_metric, seen.unit) == (True, True, 1.0)


def test_in_a_metric_the_norm_is_that_of_the_search_unless_eps_is_given() -> None:
    """With x = Sz, S = diag(1, 4) over its geometric mean: S∇F = (1.5, 0)."""
    assert measured(metric=SIZES).norm == pytest.approx(1.5, rel=1e-6)
    own = measured(metric=SIZES, eps=0.5)
    assert own.norm == pytest.approx(3.0, rel=1e-6)
    assert (own.eps, own.follows_l1, own.in_metric) == (0.5, False, False)
    assert own.unit == pytest.approx(0.5)


def test_the_judge_takes_what_is_known() -> None:
    seen = measured(eps=0.25)
    assert seen.known == {"gradient_norm": seen.norm, "gradient_error": seen.error, "eps": 0.25}
