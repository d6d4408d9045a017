"""A closure as an objective: replayed, without a trace, and refused where it does not mean one function."""

import random

import pytest
import torch
from torch import nn

from tests.objectives.traces import Everything
from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.torch_optim.closure import ClosureObjective


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 1))


def objective(model, loss_of, backward=True):
    def closure():
        model.zero_grad()
        loss = loss_of()
        if backward:
            loss.backward()
        return loss

    return ClosureObjective(closure, FlatParameters(model.named_parameters()))


BATCH = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))


def test_the_same_dropout_answers_every_time_and_nothing_is_left_behind():
    model = network()
    model(BATCH).sum().backward()
    f = objective(model, lambda: model(BATCH).square().mean())
    before = Everything(model)
    x = f.point.clone()
    f.check()
    value, grad = f.sample().value_and_grad(x)
    again, grad_again = f.sample().value_and_grad(x)
    assert float(value) == float(again)
    assert torch.equal(grad, grad_again)
    assert float(f.sample().value(x + 0.1)) != float(value)
    before.check()


def test_buffers_of_the_first_evaluation_are_restored_though_the_model_was_not_named():
    model = network()
    f = objective(model, lambda: model(BATCH).square().mean())
    mean = model[1].running_mean.clone()
    f.check()
    assert torch.equal(model[1].running_mean, mean)


@pytest.mark.slow
def test_buffers_of_a_compiled_model_are_restored_as_well():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    compiled = torch.compile(model, backend="aot_eager")
    f = objective(model, lambda: compiled(BATCH).square().mean())
    before = Everything(model)
    f.check()
    f.sample().value_and_grad(f.point)
    before.check()


def test_what_a_closure_draws_from_global_generators_is_replayed():
    model = nn.Linear(3, 1)
    f = objective(model, lambda: model(torch.randn(4, 3) * random.random()).square().mean())
    f.check()
    once, again = (f.sample().value_and_grad(f.point) for _ in range(2))
    assert torch.equal(once[0], again[0])
    assert torch.equal(once[1], again[1])


def test_every_call_is_counted_also_those_that_raise():
    model = nn.Linear(3, 1)
    f = objective(model, lambda: model(BATCH).square().mean())
    f.check()
    f.sample().value(f.point)
    f.sample().grad(f.point)
    assert f.evaluations == 3


def test_a_closure_that_changes_its_batch_is_refused():
    model = nn.Linear(3, 1)
    rows = iter(BATCH.split(1))
    f = objective(model, lambda: model(next(rows)).square().mean())
    f.check()
    with pytest.raises(ValueError, match=r"the closure changes its batch: .* fetch the batch outside of it"):
        f.sample().value_and_grad(f.point)


def test_a_closure_without_backward_is_refused_and_the_model_is_as_it_was():
    model = network()
    before = Everything(model)
    f = objective(model, lambda: model(BATCH).square().mean(), backward=False)
    with pytest.raises(ValueError, match="the closure left no parameter with a gradient"):
        f.check()
    before.check()


def test_a_closure_that_returns_nan_is_refused_and_the_model_is_as_it_was():
    model = network()
    before = Everything(model)
    with pytest.raises(ValueError, match=r"returned a loss of nan .* there is nothing to probe here"):
        objective(model, lambda: model(BATCH).sum() * float("nan")).check()
    before.check()


def test_what_a_closure_raises_comes_through_and_the_model_is_as_it_was():
    model = network()
    before = Everything(model)

    def fail():
        model(BATCH)
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        objective(model, fail).check()
    before.check()


def test_a_closure_that_steps_an_optimizer_is_refused():
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = model(BATCH).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    weight = model.weight.detach().clone()
    with pytest.raises(RuntimeError, match="the closure changed 'weight' while it was evaluated"):
        ClosureObjective(closure, FlatParameters(model.named_parameters())).check()
    assert torch.equal(model.weight, weight)


@pytest.mark.parametrize(("returned", "error"), [(None, TypeError), (torch.ones(3), ValueError)])
def test_a_closure_that_returns_no_loss_is_refused(returned, error):
    model = nn.Linear(3, 1)

    def closure():
        model(BATCH).sum().backward()
        return returned

    with pytest.raises(error, match="the closure must return a scalar"):
        ClosureObjective(closure, FlatParameters(model.named_parameters())).check()


def test_something_that_is_no_closure_is_refused():
    with pytest.raises(TypeError, match=r"expected a closure .* got Tensor"):
        ClosureObjective(torch.ones(1), FlatParameters(nn.Linear(1, 1).parameters()))
    with pytest.raises(TypeError, match=r"expected a closure .* got type"):
        ClosureObjective(nn.Linear, FlatParameters(nn.Linear(1, 1).parameters()))
    with pytest.raises(TypeError, match=r"a closure must take \(\), got a function of \(x\)"):
        ClosureObjective(lambda x: x, FlatParameters(nn.Linear(1, 1).parameters()))


def test_there_are_no_hessian_products():
    model = nn.Linear(3, 1)
    f = objective(model, lambda: model(BATCH).square().mean()).sample(hessian=True)
    with pytest.raises(ValueError, match="a closure has gradients only"):
        f.hvp(torch.zeros(4), torch.zeros(4))
