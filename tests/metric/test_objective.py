"""F(Sz) is what it says: values, gradients, products and counts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsaddle import FiniteSum, Function, ModelObjective, is_minimum
from unsaddle.cost import Cost, Ledger
from unsaddle.metric.maps import diagonal
from unsaddle.metric.objective import MetricObjective
from unsaddle.objective import Evaluation, Observed

SIZES = torch.tensor([0.1, 1.0, 20.0], dtype=torch.float64)
X = torch.tensor([0.3, -2.0, 7.0], dtype=torch.float64)
U = torch.tensor([1.0, -0.5, 0.25], dtype=torch.float64)


def cubic(x: Tensor) -> Tensor:
    return (x**3).sum() / 3.0 + x[0] * x[1] * x[2]


def inside() -> tuple[MetricObjective, Tensor]:
    scaling = diagonal(SIZES)
    return MetricObjective(Function(cubic), scaling, X), scaling.apply(torch.ones_like(X))


def test_every_question_is_answered_as_by_autograd_through_the_map() -> None:
    objective, s = inside()
    f, z = objective.sample(hessian=True), objective.point
    torch.testing.assert_close(z, X / s)
    there = (z + 2.0 * U).requires_grad_()
    value = cubic(s * there)
    (grad,) = torch.autograd.grad(value, there)
    hessian = torch.autograd.functional.hessian(lambda z: cubic(s * z), there.detach())
    torch.testing.assert_close(f.value(there.detach()), value.detach())
    torch.testing.assert_close(f.value_and_grad(there.detach()), (value.detach(), grad))
    torch.testing.assert_close(f.value_and_grad_at_sum(z, U, 2.0), (value.detach(), grad))
    torch.testing.assert_close(f.grad_at_sum(z, U, 2.0), grad)
    torch.testing.assert_close(f.grad(there.detach()), grad)
    torch.testing.assert_close(f.add_grad_at_sum(U.clone(), z, U, 2.0, subtract=True), U - grad)
    torch.testing.assert_close(f.hvp(there.detach(), U), hessian @ U)  # type: ignore[attr-defined]
    assert f.cost == Cost(values=1, value_samples=1, gradients=5, samples=5, hessian_products=1, hessian_samples=1)


def test_at_its_point_the_function_is_evaluated_at_x_bit_for_bit() -> None:
    seen: list[Tensor] = []
    x = torch.rand(100, generator=torch.Generator().manual_seed(0))

    def fun(x: Tensor) -> Tensor:
        seen.append(x.detach().clone())
        return x.square().sum()

    objective = MetricObjective(Function(fun), diagonal(torch.logspace(-4, 4, 100)), x)
    objective.sample().grad(objective.point)
    assert torch.equal(seen[0], x)
    assert not torch.equal(objective.point * objective.scaling.apply(torch.ones(100)), x)


def test_samples_counts_and_observers_are_those_of_the_objective() -> None:
    rows, ledger, seen = torch.randn(50, 3, dtype=torch.float64), Ledger(), list[Evaluation]()
    plain = FiniteSum(lambda x, a: (a @ x).square().mean(), rows)
    objective = MetricObjective(Observed(plain, seen.append), diagonal(SIZES), X)
    assert objective.num_samples == 50
    f = objective.sample(10, torch.Generator().manual_seed(1), ledger=ledger)
    g = plain.sample(10, torch.Generator().manual_seed(1))
    torch.testing.assert_close(f.grad(objective.point), objective.scaling.apply(g.grad(X)))
    assert ledger.cost == Cost(gradients=1, samples=10)
    assert len(seen) == 1


def test_a_model_is_left_as_it_was_and_z_is_not_made_of_its_parameters() -> None:
    layer = nn.Linear(2, 1, dtype=torch.float64)
    before = [p.detach().clone() for p in layer.parameters()]
    data = TensorDataset(torch.ones(4, 2, dtype=torch.float64))
    plain = ModelObjective(layer, lambda m, batch: m(batch[0]).square().mean(), data)
    objective = MetricObjective(plain, diagonal(SIZES), plain.point)
    grad = objective.sample().grad_at_sum(objective.point, U, 0.5)
    moved = plain.point + 0.5 * objective.scaling.apply(U)
    torch.testing.assert_close(grad, objective.scaling.apply(plain.sample().grad(moved)))
    assert all(torch.equal(p, b) for p, b in zip(layer.parameters(), before, strict=True))
    assert objective.parameters is None
    objective.assign(objective.point + U)
    torch.testing.assert_close(plain.point, torch.cat([b.flatten() for b in before]) + objective.scaling.apply(U))


def test_an_error_that_the_oracle_knows_is_stretched() -> None:
    objective, _ = inside()
    with pytest.MonkeyPatch.context() as patch:
        f = objective.sample()
        patch.setattr(f._oracle._oracle, "gradient_error", lambda value, norm: 0.5 * norm)  # type: ignore[attr-defined]
        assert f.gradient_error(1.0, 3.0) == pytest.approx(1.5)


def test_a_gradient_that_is_no_vector_is_refused_as_without_a_metric() -> None:
    F = Function(lambda x: (x @ x, [1.0, 2.0]), gradient=True)
    for metric in (None, [1.0, 2.0]):
        with pytest.raises(TypeError, match="the gradient must be a tensor, got list"):
            is_minimum(F, torch.ones(2), metric=metric)


def test_it_has_no_copy_in_float64() -> None:
    """As its map has none."""
    objective, _ = inside()
    assert Function(cubic).doubles
    assert not objective.doubles
