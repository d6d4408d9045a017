"""The search in the base optimizer's moments: its answer is about the parameters themselves."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsaddle import ModelObjective
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Status
from unsaddle.torch_optim.in_moments import answered

D = 12


class Quadratic(nn.Module):
    """½xᵀHx + Σx⁴/24, H with one negative eigenvalue."""

    def __init__(self) -> None:
        super().__init__()
        axes, _ = torch.linalg.qr(torch.randn(D, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
        values = torch.linspace(0.1, 1.0, D, dtype=torch.float64)
        values[0] = -0.5
        self.h, self.x = axes @ torch.diag(values) @ axes.T, nn.Parameter(torch.zeros(D, dtype=torch.float64))

    def forward(self, rows: Tensor) -> Tensor:
        return self.x @ (self.h @ self.x) / 2.0 + (self.x**4).sum() / 24.0 + 0.0 * rows.sum()


def problem(optimizer: type[torch.optim.Optimizer]) -> tuple[Quadratic, ModelObjective, torch.optim.Optimizer]:
    """At the saddle, with moments over two orders of magnitude if the optimizer keeps them."""
    model = Quadratic()
    base = optimizer(model.parameters(), lr=0.0)
    model.x.grad = torch.logspace(-1.0, 1.0, D, dtype=torch.float64)
    base.step()
    model.x.grad = None
    data = TensorDataset(torch.zeros(2, 1, dtype=torch.float64))
    return model, ModelObjective(model, lambda m, batch: m(batch[0]), data), base


ALL = [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.SGD]


@pytest.mark.parametrize("optimizer", ALL)
def test_the_direction_and_its_curvature_are_those_of_the_parameters(optimizer: type[torch.optim.Optimizer]) -> None:
    model, objective, base = problem(optimizer)
    found, seen_at = answered(objective, objective.point, Question(), base)
    assert found.status is Status.FOUND
    v = found.direction
    assert v is not None
    assert float(v.norm()) == pytest.approx(1.0)
    assert found.curvature == pytest.approx(float(v @ model.h @ v), rel=1e-4)
    assert found.curvature < -found.gamma < 0.0
    assert seen_at.shape == v.shape


def test_the_moments_change_the_search_unless_gamma_is_given() -> None:
    _, objective, base = problem(torch.optim.Adam)
    none = torch.optim.SGD(objective.parameters.tensors, lr=0.0)  # type: ignore[union-attr]
    seen = [
        answered(objective, objective.point, question, optimizer)[0].smoothness
        for question, optimizer in ((Question(), base), (Question(), none), (Question(gamma=0.1), base))
    ]
    assert seen[0] != pytest.approx(seen[1], rel=0.1)
    assert seen[1] == pytest.approx(seen[2], rel=0.1)
