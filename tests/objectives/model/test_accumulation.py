"""Gradients that are added to a vector of the caller's while backward computes them."""

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from tests.objectives.traces import Everything
from unsaddle import Cost, FiniteSum, ModelObjective
from unsaddle.objectives.model.distributed import is_wrapped


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


X, Y = torch.randn(20, 3, generator=rng(1)), torch.randn(20, 1, generator=rng(2))
WORDS = torch.randint(10, (20, 3), generator=rng(3))
IMAGES = torch.randn(20, 3, 4, 4, generator=rng(4))


def regress(model, batch):
    return (model(batch[0]) - batch[1]).square().mean()


class Tied(nn.Module):
    """One layer used twice, one that is frozen, one that is not used at all."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.frozen, self.unused = nn.Linear(3, 3), nn.Linear(3, 1), nn.Linear(2, 2)
        self.again = self.layer
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.frozen(self.again(torch.tanh(self.layer(x))))


def channels_last():
    conv = nn.Conv2d(3, 2, 3).to(memory_format=torch.channels_last)
    return nn.Sequential(conv, nn.Flatten(), nn.Linear(8, 1))


MODELS = {
    "plain": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), X),
    "tied, frozen, unused": (Tied, X),
    "sparse": (lambda: nn.Sequential(nn.EmbeddingBag(10, 4, sparse=True), nn.Linear(4, 1)), WORDS),
    "channels last": (channels_last, IMAGES),
    "compiled": (lambda: torch.compile(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)), backend="aot_eager"), X),
    "in one of torch.distributed's kind": (lambda: nn.DataParallel(nn.Linear(3, 1)), X),
}
OPTIONS = {
    "as it is": {},
    "scaled": {"scaler": torch.amp.GradScaler("cpu", init_scale=1024.0)},
    "hooks": {"hooks": "run"},
}


def objective(name, **options):
    make, rows = MODELS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make()
    regress(model, (rows, Y)).backward()  # Gradients of its own, which must stay.
    return model, ModelObjective(model, regress, TensorDataset(rows, Y), micro_batch=7, **options)


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_added_is_the_gradient_and_no_trace_is_left(name, options):
    model, F = objective(name, **options)
    f = F.sample()
    u, start = (torch.randn(F.point.numel(), generator=rng(seed)) for seed in (5, 6))
    at_x, at_sum = f.grad(F.point).clone(), f.grad_at_sum(F.point, u, 0.1).clone()
    before, spent = Everything(model), f.cost
    close = {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(f.add_grad_at_sum(start.clone(), F.point, u, 0.1), start + at_sum, **close)
    torch.testing.assert_close(f.add_grad_at_sum(start.clone(), F.point, None, subtract=True), start - at_x, **close)
    torch.testing.assert_close(f.add_grad_at_sum(start.clone(), F.point, u, 0.1, afresh=True), at_sum, **close)
    out = u.clone()
    assert f.add_grad_at_sum(out, F.point, out, 0.1) is out
    torch.testing.assert_close(out, u + at_sum, **close)
    assert f.cost - spent == Cost(gradients=4, samples=80)
    before.check()


def test_any_function_can_be_asked_to_add():
    f = FiniteSum(lambda x, rows: 0.5 * (rows @ x).square().mean(), X.double()).sample()
    x, u = (torch.randn(3, generator=rng(seed), dtype=torch.float64) for seed in range(2))
    expected = f.grad(x + 2.0 * u)
    torch.testing.assert_close(f.add_grad_at_sum(u.clone(), x, u, 2.0, subtract=True), u - expected)
    torch.testing.assert_close(f.add_grad_at_sum(u.clone(), x, u, 2.0, subtract=True, afresh=True), -expected)
    assert f.cost.gradients == 3


@pytest.mark.parametrize("set_to_none", [False, True])
def test_a_loss_that_drops_gradients_is_told_so(set_to_none):
    """What was added before would be lost, within a sample of several micro batches as well."""
    model = nn.Linear(3, 1)

    def loss(model, batch):
        model.zero_grad(set_to_none=set_to_none)
        return regress(model, batch)

    F = ModelObjective(model, loss, TensorDataset(X, Y))
    f, out = F.sample(), torch.ones(4)
    assert torch.isfinite(f.grad(F.point)).all()  # One batch: nothing is lost.
    with pytest.raises(ValueError, match=r"leave \.grad alone"):
        f.add_grad_at_sum(out, F.point, None)
    several = ModelObjective(model, loss, TensorDataset(X, Y), micro_batch=10).sample()
    with pytest.raises(ValueError, match=r"leave \.grad alone"):
        several.grad(F.point)
    assert model.weight.grad is None


def test_a_loss_without_parameters_in_it_is_told_so():
    model, other = nn.Linear(3, 1), nn.Linear(3, 1)
    F = ModelObjective(model, lambda model, batch: other(batch[0]).mean(), TensorDataset(X, Y))
    with pytest.raises(ValueError, match="no parameter with a gradient"):
        F.sample().add_grad_at_sum(torch.ones(4), F.point, None)


def test_what_may_do_what_it_likes_with_gradients_is_known():
    assert is_wrapped(nn.Sequential(nn.DataParallel(nn.Linear(1, 1))))
    assert not is_wrapped(torch.compile(nn.Sequential(nn.Linear(1, 1), nn.Dropout()), backend="aot_eager"))
