"""Probing leaves no trace."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from tests.objectives.traces import Everything
from unsaddle.objectives.model import restore as module_under_test
from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.objectives.model.replay import Replayed
from unsaddle.objectives.model.restore import untouched
from unsaddle.objectives.model.rng import RandomState


def network() -> nn.Module:
    """With something of everything that an evaluation may change."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    model[3].weight.grad = torch.ones(1, 4)
    model[0].bias.requires_grad_(False)
    model[2].eval()
    return model


def change_everything(model: nn.Module, flat: FlatParameters) -> None:
    flat.assign(torch.randn(flat.dimension))
    model(torch.randn(5, 3)).sum().backward()
    model[1].running_mean = torch.full((4,), float("nan"))  # Another tensor under the same name.
    model.eval()
    random.random()
    np.random.rand()


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
def test_everything_is_as_before_whatever_happens_inside(error):
    model = network()
    flat = FlatParameters(model.named_parameters())
    before = Everything(model)

    def probe():
        with untouched(flat, [model]):
            change_everything(model, flat)
            if error is not None:
                raise error

    if error is None:
        probe()
    else:
        with pytest.raises(error):
            probe()
    before.check()


def test_everything_is_as_before_also_if_ctrl_c_comes_while_it_is_put_back(monkeypatch):
    model = network()
    flat = FlatParameters(model.named_parameters())
    before = Everything(model)
    same_bits, calls = module_under_test.same_bits, []

    def interrupted(a, b):
        calls.append(a)
        if len(calls) == 2:  # Parameters and gradients are back, buffers in part.
            raise KeyboardInterrupt
        return same_bits(a, b)

    monkeypatch.setattr(module_under_test, "same_bits", interrupted)
    with pytest.raises(KeyboardInterrupt), untouched(flat, [model]):
        change_everything(model, flat)
    before.check()


def test_inside_gradients_start_from_none_and_random_numbers_where_they_were():
    model = network()
    expected = torch.random.fork_rng()
    with expected:
        number = float(torch.rand(()))
    with untouched(FlatParameters(model.named_parameters()), [model]):
        assert all(p.grad is None for p in model.parameters())
        assert float(torch.rand(())) == number


def test_all_random_numbers_can_be_started_from_a_seed_without_seeding_any():
    def draw():
        return float(torch.rand(())), random.random(), float(np.random.rand())

    flat = FlatParameters([nn.Parameter(torch.zeros(2))])
    with untouched(flat, start=RandomState.seeded(7)):
        first = draw()
    with untouched(flat, start=RandomState.seeded(7)):
        assert draw() == first
    with untouched(flat, start=RandomState.seeded(8)):
        assert draw() != first
    with RandomState.seeded(7).in_force():
        torch.manual_seed(7)
        assert float(torch.rand(())) == first[0]  # As torch itself would seed.


def test_tensors_that_are_plain_attributes_are_put_back_too():
    class Averaging(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.average = nn.Parameter(torch.ones(2)), torch.zeros(2)

        def forward(self):
            self.average += self.weight.detach()
            self.average = self.average.clone()

    model = Averaging()
    average = model.average
    with untouched(FlatParameters(model.parameters()), [model]):
        model()
    assert model.average is average
    assert average.tolist() == [0.0, 0.0]


def test_an_expanded_buffer_is_no_obstacle():
    model = nn.Linear(2, 2)
    model.register_buffer("positions", torch.arange(3.0).expand(4, 3))
    model.register_buffer("adjacency", torch.eye(2).to_sparse())
    flat = FlatParameters(model.parameters())
    with untouched(flat, [model]):
        flat.assign(torch.zeros(6))
    assert not flat.is_at(torch.zeros(6))


def test_legacy_weight_norm_and_spectral_norm_are_left_as_they_were():
    with pytest.warns(FutureWarning, match="weight_norm"):
        model = nn.Sequential(nn.utils.weight_norm(nn.Linear(2, 2)), nn.utils.spectral_norm(nn.Linear(2, 2)))
    model(torch.ones(1, 2))
    weights = [layer.weight for layer in model]
    before = Everything(model)
    flat = FlatParameters(model.named_parameters())
    with untouched(flat, [model]):
        flat.assign(flat.point() * 2.0)
        model(torch.ones(1, 2)).sum().backward()
    before.check()
    assert all(layer.weight is weight for layer, weight in zip(model, weights, strict=True))


def test_a_closure_needs_nothing_but_its_parameters():
    model, x = nn.Linear(2, 1), torch.ones(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    flat = FlatParameters([p for group in optimizer.param_groups for p in group["params"]])
    before = Everything(model)
    value, grad = Replayed(lambda backward: closure(), flat, what="the closure").value_and_grad(torch.ones(3))
    before.check()
    assert float(value) == 9.0
    assert grad.tolist() == [6.0, 6.0, 6.0]


def replay(run, model):
    flat = FlatParameters(model.named_parameters())
    return Replayed(run, flat, [model], what="the closure").value_and_grad(flat.point())


def test_a_closure_that_does_not_call_backward_is_refused():
    model = network()
    before = Everything(model)
    with pytest.raises(
        ValueError, match=r"the closure left no parameter with a gradient: expected it to call backward"
    ):
        replay(lambda backward: model(torch.randn(5, 3)).mean(), model)
    before.check()


def test_a_closure_that_steps_is_refused_and_undone():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = Everything(model)

    def closure(backward):
        loss = model(torch.randn(5, 3)).mean()
        loss.backward()
        optimizer.step()
        return loss

    with pytest.raises(RuntimeError, match=r"the closure changed '\d.\w+' while it was evaluated"):
        replay(closure, model)
    before.check(versions=False)


@pytest.mark.parametrize(("answer", "message"), [(None, "got NoneType"), (torch.ones(2), r"shape \(2,\)")])
def test_a_closure_that_does_not_return_its_loss_is_refused(answer, message):
    model = network()
    before = Everything(model)
    with pytest.raises((TypeError, ValueError), match=f"the closure must return a scalar.*{message}"):
        replay(lambda backward: answer, model)
    before.check()


def test_products_are_not_to_be_had():
    model = nn.Linear(1, 1)
    flat = FlatParameters(model.parameters())
    with pytest.raises(ValueError, match="gradients only, no Hessian products"):
        Replayed(lambda backward: torch.zeros(()), flat).hvp(flat.point(), flat.point())
