"""Samples that never run out."""

import math

import numpy as np
import pytest
import torch

from unsaddle.cost import Cost, Ledger
from unsaddle.objectives import Stream

MEAN = torch.tensor([1.0, -2.0], dtype=torch.float64)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def loss(x, z):
    return ((x - z) ** 2).sum(dim=1).mean() / 2


def by_hand(x, z):
    return loss(x, z), x - z.mean(dim=0)


def draw(size, generator):
    return (MEAN + torch.randn(size, 2, generator=generator, dtype=torch.float64),)


NOISE = Stream(loss, draw)
BY_HAND = Stream(by_hand, draw, gradient=True, hvp=lambda x, v, z: v)
X = torch.zeros(2, dtype=torch.float64)


@pytest.mark.parametrize("F", [NOISE, BY_HAND])
def test_value_gradient_and_hessian_product_are_those_of_the_drawn_rows(F):
    (z,) = draw(7, rng(3))
    f = F.sample(7, rng(3), hessian=True)
    value, grad = f.value_and_grad(X)
    torch.testing.assert_close(value, loss(X, z))
    torch.testing.assert_close(grad, X - z.mean(dim=0))
    torch.testing.assert_close(f.hvp(X, MEAN), MEAN)  # The Hessian is the identity.
    assert f.cost == Cost(gradients=1, samples=7, hessian_products=1, hessian_samples=7)


def test_rows_are_drawn_once_when_the_sample_is():
    calls = []
    F = Stream(lambda x, z: calls.append(z) or loss(x, z), lambda m, g: calls.append(m) or draw(m, g))
    f = F.sample(5, rng())
    assert calls == [5]
    f.value(X)
    f.value_and_grad(X)
    f.grad(X)
    assert len(calls) == 4
    assert all(z is calls[1] for z in calls[1:])


def test_gradients_of_fresh_samples_average_to_the_gradient_of_the_expectation():
    g, size, repeats = rng(), 10, 400
    mean = torch.stack([NOISE.sample(size, g).grad(X) for _ in range(repeats)]).mean(dim=0)
    # ∇F(0) = −E z, and each coordinate of a sampled gradient has variance 1/size: five standard errors.
    assert float((mean + MEAN).abs().max()) <= 5 / math.sqrt(size * repeats)


def test_consecutive_samples_of_one_generator_are_fresh():
    g = rng()
    assert not torch.equal(NOISE.sample(3, g).grad(X), NOISE.sample(3, g).grad(X))


def test_replacement_makes_no_difference():
    first, second = NOISE.sample(3, rng(), replacement=True), NOISE.sample(3, rng(), replacement=False)
    assert torch.equal(first.grad(X), second.grad(X))


def test_samples_of_different_size_share_a_ledger():
    ledger, g = Ledger(), rng()
    for size in (1, 10, 100):
        NOISE.sample(size, g, ledger=ledger).grad(X)
    assert ledger.cost == Cost(gradients=3, samples=111)


def test_a_size_from_numpy_is_counted_without_overflow():
    f = NOISE.sample(np.uint8(200), rng())
    f.grad(X)
    f.grad(X)
    assert f.cost == Cost(gradients=2, samples=400)


def test_several_tensors_of_rows_reach_the_loss_in_order():
    F = Stream(lambda x, a, b: (a @ x - b).mean(), lambda m, g: (torch.ones(m, 2), torch.full((m,), 5.0)))
    assert float(F.sample(3, rng()).value(torch.ones(2))) == -3.0


def test_a_stream_has_no_number_of_samples_and_no_everything():
    assert NOISE.num_samples is None
    with pytest.raises(ValueError, match="a Stream has no end, so 'everything' does not exist; say how many samples"):
        NOISE.sample(None, rng())


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (0, ValueError, "size must be at least 1, got 0"),
        (-3, ValueError, "size must be at least 1, got -3"),
        (2.5, TypeError, "size must be an integer, got 2.5"),
        (True, TypeError, "size must be an integer, got True"),
    ],
)
def test_a_bad_size_is_refused(size, error, message):
    with pytest.raises(error, match=message):
        NOISE.sample(size, rng())


def test_randomness_must_be_a_torch_generator():
    with pytest.raises(ValueError, match="drawing samples needs a generator, got None"):
        NOISE.sample(3)
    with pytest.raises(TypeError, match="drawing samples needs a generator, got 7"):
        NOISE.sample(3, 7)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (torch.ones(3, 2), TypeError, r"must return a tuple of tensors, got Tensor; write return \(rows,\)"),
        ([torch.ones(3, 2)], TypeError, r"must return a tuple of tensors, got list"),
        ((np.ones((3, 2)),), TypeError, r"must return a tuple of tensors"),
        (None, TypeError, r"must return a tuple of tensors, got NoneType"),
        ((torch.ones(3), torch.ones(4)), ValueError, r"must return 3 rows; tensor 1 has shape \(4,\)"),
        ((torch.tensor(1.0),), ValueError, r"must return 3 rows; tensor 0 has shape \(\)"),
    ],
)
def test_a_draw_that_does_not_return_its_rows_is_refused(rows, error, message):
    with pytest.raises(error, match=message):
        Stream(loss, lambda m, g: rows).sample(3, rng())


def test_x_in_another_precision_than_the_rows_is_refused_and_not_counted():
    f = NOISE.sample(3, rng())
    with pytest.raises(TypeError, match=r"x is torch.float32 on cpu, but data tensor 0 is torch.float64"):
        f.grad(X.float())
    assert f.cost == Cost()


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="loss must be callable, got NoneType"):
        Stream(None, draw)
    with pytest.raises(TypeError, match="draw must be callable, got Tensor"):
        Stream(loss, torch.ones(3))
