"""Questions in a metric: their answers are in the user's own variables, and right there."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from unsaddle import FiniteSum, Function, negative_curvature
from unsaddle.cost import Ledger
from unsaddle.curvature.posed import least_smoothness, posed
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Status
from unsaddle.metric.objective import MetricObjective

D = 20


def hessian(seed: int, lowest: float, d: int = D) -> Tensor:
    """Eigenvalues between 0.1 and 1, but the lowest; random axes."""
    generator = torch.Generator().manual_seed(seed)
    axes, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    values = torch.linspace(0.1, 1.0, d, dtype=torch.float64)
    values[0] = lowest
    return axes @ torch.diag(values) @ axes.T


def sizes(seed: int, orders: float, d: int = D) -> Tensor:
    return 10.0 ** (orders * (torch.rand(d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 0.5))


def function(h: Tensor) -> Function:
    return Function(lambda x: x @ (h @ x) / 2.0 + (x**4).sum() / 24.0)


ZERO = torch.zeros(D, dtype=torch.float64)
EXTRACTORS = ["auto", "krylov", "neon", "neon+", "lanczos"]


@pytest.mark.parametrize("extractor", EXTRACTORS)
@pytest.mark.parametrize("seed", range(3))
def test_the_direction_and_its_curvature_are_those_of_x(extractor: str, seed: int) -> None:
    h = hessian(seed, lowest=-0.5)
    found = negative_curvature(function(h), ZERO, extractor=extractor, metric=sizes(seed, 2.0), seed=seed)
    assert found.status is Status.FOUND
    v = found.direction
    assert v is not None
    assert math.isclose(float(v.norm()), 1.0, rel_tol=1e-9)
    assert abs(float(v @ h @ v) - found.curvature) <= found.measurements[-1].error + 1e-9
    assert found.curvature < 0.0
    assert found.cost.gradients + found.cost.hessian_products > 0


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_nothing_below_gamma_is_meant_in_x(extractor: str) -> None:
    """γ as given comes back, and with −γ/2 as λ_min nothing is found that is not there."""
    h = hessian(5, lowest=0.05)
    found = negative_curvature(function(h), ZERO, gamma=0.1, extractor=extractor, metric=sizes(5, 1.0))
    assert found.status is Status.NOTHING_FOUND
    assert math.isclose(found.gamma, 0.1)
    assert found.bound <= 0.1 * (1.0 + 1e-9)
    assert found.upper >= 0.05 - 1e-9
    assert all(math.isclose(float(v.norm()), 1.0, rel_tol=1e-9) for v in found.deciding)


@pytest.mark.parametrize("seed", range(20))
def test_a_bound_excludes_what_it_says_whatever_the_metric(seed: int) -> None:
    lowest = float(torch.linspace(-0.2, 0.1, 20)[seed])
    h, kind = hessian(seed, lowest), sizes(seed, 3.0)
    metric = kind if seed % 2 else torch.diag(kind) + 0.01 * torch.outer(kind, kind)
    found = negative_curvature(function(h), ZERO, metric=metric, seed=seed)
    assert lowest >= -found.bound
    assert lowest <= found.upper
    assert found.found == (lowest < 0.0)


def test_a_bound_in_the_metric_is_the_weaker_in_x_the_smaller_a_variable() -> None:
    """H = −b·S⁻² has the one eigenvalue −b in the metric, and −b/σ² in x: no smaller bound would be right."""
    objective, metric, b = function(hessian(0, 0.05)), sizes(0, 2.0), 1e-3
    asked = posed(objective, ZERO, Question(), metric)
    assert asked.scaling is not None
    inverse = torch.diag(asked.scaling.solve(torch.ones_like(ZERO)))
    in_x = -b * inverse @ inverse
    found = negative_curvature(asked.objective, asked.x, gamma=b)
    own = asked.own(replace(found, bound=b))
    assert own.bound == pytest.approx(-float(torch.linalg.eigvalsh(in_x)[0]))


def test_gamma_is_a_hundredth_of_the_largest_curvature_in_x_though_the_metric_hides_it() -> None:
    """The lowest eigenvalue is 5e-9 of the largest in the metric, and half of it in x."""
    values = torch.linspace(0.1, 1.0, D, dtype=torch.float64)
    values[0] = -0.5
    hiding = torch.ones(D, dtype=torch.float64)
    hiding[0], hiding[1] = 1e-4, 1e4
    found = negative_curvature(function(torch.diag(values)), ZERO, metric=hiding)
    assert found.status is Status.FOUND
    assert found.curvature < -0.4


def test_the_budget_bounds_all_of_it() -> None:
    h = hessian(0, lowest=0.05)
    for budget in (25, 40, 60, 100):
        found = negative_curvature(function(h), ZERO, metric=sizes(0, 2.0), max_gradients=budget)
        assert found.cost.gradients <= budget


def test_on_samples_the_direction_is_measured_on_fresh_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = 0.1 * torch.randn(4000, D, generator=generator, dtype=torch.float64)
    h = hessian(2, lowest=-0.5)
    rows = FiniteSum(lambda x, a: x @ (h @ x) / 2.0 + ((a @ x) ** 2).mean() / 2.0, noise)
    truth = h + noise.T @ noise / 4000.0
    found = negative_curvature(rows, ZERO, samples=300, metric=sizes(2, 2.0))
    assert found.status is Status.FOUND
    assert found.measurements[-1].fresh
    v = found.direction
    assert v is not None
    assert abs(float(v @ truth @ v) - found.curvature) <= 2.0 * found.measurements[-1].error


def test_without_a_metric_the_question_is_left_alone() -> None:
    objective, question = function(hessian(0, -0.5)), Question(gamma=0.1)
    asked = posed(objective, ZERO, question, None)
    assert (asked.objective, asked.x, asked.question) == (objective, ZERO, question)
    assert (asked.scaling, asked.smallest) == (None, 1.0)
    inside = posed(objective, ZERO, question, [0.5] + (D - 2) * [1.0] + [2.0])
    assert isinstance(inside.objective, MetricObjective)
    assert inside.question.gamma == pytest.approx(0.1 * 0.25)
    assert inside.without_metric().question is question
    assert inside.after(5).question == inside.question
    bounded = posed(objective, ZERO, Question(max_gradients=9), None).after(5)
    assert (bounded.question.max_gradients, bounded.own_question.max_gradients) == (4, 4)


@pytest.mark.parametrize(
    "constants", [{"smoothness": 1.0}, {"hessian_lipschitz": 1.0}, {"settings": "theory", "extractor": "neon"}]
)
def test_constants_of_x_are_refused_beside_a_metric(constants: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="with a metric, smoothness, hessian_lipschitz and settings must be left out"):
        negative_curvature(function(hessian(0, -0.5)), ZERO, metric=sizes(0, 1.0), **constants)


@pytest.mark.parametrize("beyond", [1.0, math.nan], ids=["a plane", "not finite"])
def test_of_no_curvature_no_smoothness_is_seen(beyond: float) -> None:
    """A plane is all rounding, and where F ends there is nothing to see."""
    slope = torch.linspace(1.0, 2.0, D, dtype=torch.float64)
    F = Function(lambda x: (slope @ x, slope * (beyond if float(x.norm()) > 0.0 else 1.0)), gradient=True)
    asked = posed(F, ZERO, Question(gamma=0.1), [0.5] + (D - 1) * [1.0])
    found = negative_curvature(function(hessian(0, 0.1)), ZERO, gamma=0.1)
    assert least_smoothness(asked, found, Ledger()) == 0.0
