"""Evaluations in a row: a model that is held is put back once, at the end."""

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from tests.objectives.traces import Everything
from unsaddle import ModelObjective, negative_curvature
from unsaddle.objective import Observed


def objective() -> tuple[nn.Module, ModelObjective]:
    """With something of everything that an evaluation may change."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    model[3].weight.grad = torch.ones(1, 4)
    model[0].bias.requires_grad_(False)
    data = TensorDataset(torch.randn(8, 3), torch.randn(8, 1))
    return model, ModelObjective(model, lambda model, batch: (model(batch[0]) - batch[1]).square().mean(), data)


def test_evaluations_are_the_same_inside_and_everything_is_as_before_afterwards():
    model, F = objective()
    f, x = F.sample(), F.point
    u = torch.randn_like(x)
    apart = [f.grad_at_sum(x, u, scale) for scale in (0.1, -0.2, 0.0)] + [f.grad(x), f.value(x)]
    added = f.add_grad_at_sum(torch.ones_like(x), x, u, 0.1)
    before = Everything(model)
    with f.held():
        held = [f.grad_at_sum(x, u, scale) for scale in (0.1, -0.2, 0.0)] + [f.grad(x), f.value(x)]
        assert torch.equal(f.add_grad_at_sum(torch.ones_like(x), x, u, 0.1), added)
    assert all(torch.equal(a, b) for a, b in zip(apart, held, strict=True))
    before.check()


def test_inside_the_model_is_not_put_back_after_each_evaluation():
    _, F = objective()
    f, x = F.sample(), F.point
    with f.held():
        f.grad_at_sum(x, torch.ones_like(x), 1.0)
        assert not F.parameters.is_at(x)
    assert F.parameters.is_at(x)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_everything_is_as_before_if_something_is_raised_inside(error):
    model, F = objective()
    f, x = F.sample(), F.point
    before = Everything(model)

    def moved(then: type[BaseException] | None) -> None:
        with f.held():
            f.grad_at_sum(x, torch.ones_like(x), 1.0)
            if then is not None:
                raise then

    with pytest.raises(error):
        moved(error)
    before.check()
    moved(None)  # It can be held again.
    before.check()


def test_inside_the_point_is_that_of_before_and_other_samples_can_be_evaluated():
    model, F = objective()
    f, x = F.sample(), F.point
    other = F.sample(4, torch.Generator().manual_seed(1))
    expected, before = other.grad(x), Everything(model)
    with f.held(), f.held():
        f.grad_at_sum(x, torch.ones_like(x), 1.0)
        assert F.point is x
        assert torch.equal(other.grad(x), expected)
        with other.held():
            assert torch.equal(other.grad(x), expected)
        f.grad_at_sum(x, torch.ones_like(x), 1.0)
    before.check()


def test_a_loss_that_evaluates_the_model_elsewhere_leaves_it_where_it_is():
    model, inside = nn.Linear(2, 1), []
    data = TensorDataset(torch.eye(2))

    def loss(model, batch):
        if inside:
            f = inside.pop()
            f.grad_at_sum(F.point, torch.ones_like(F.point), 5.0)
            inside.append(f)
        return model(batch[0]).square().mean()

    F = ModelObjective(model, loss, data)
    f, x = F.sample(), F.point
    u = torch.ones_like(x)
    expected = f.grad_at_sum(x, u, 1.0)
    inside.append(f)
    with f.held():
        assert torch.equal(f.grad_at_sum(x, u, 1.0), expected)
        assert torch.equal(f.grad_at_sum(x, u, 1.0), expected)
    assert F.parameters.is_at(x)


def test_an_observer_finds_the_model_as_before_after_each_evaluation():
    _, F = objective()
    x, homes = F.point, []
    found = negative_curvature(Observed(F, lambda _: homes.append(F.parameters.is_at(x))), max_gradients=60)
    assert len(homes) == found.cost.gradients
    assert all(homes)


def test_a_search_saves_the_model_once(monkeypatch):
    from unsaddle.objectives.model import restore

    _, F = objective()
    saved, original = [], restore.Saved.__init__

    def counted(self, *args):
        saved.append(self)
        original(self, *args)

    monkeypatch.setattr(restore.Saved, "__init__", counted)
    found = negative_curvature(F, max_gradients=60)
    assert found.cost.gradients == 6
    assert len(saved) == 1
