"""A plain function."""

import math

import numpy as np
import pytest
import torch

from unsaddle.cost import Cost
from unsaddle.objectives import Function


def saddle(x):
    return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4


def saddle_by_hand(x):
    return saddle(x), torch.stack([2 * x[0], -2 * x[1] + x[1] ** 3])


def hessian_by_hand(x, v):
    return torch.stack([2 * v[0], (-2 + 3 * x[1] ** 2) * v[1]])


BOTH = [Function(saddle), Function(saddle_by_hand, gradient=True, hvp=hessian_by_hand)]


@pytest.mark.parametrize("F", BOTH)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_gradient_and_hessian_product_of_the_saddle_are_the_closed_forms(F, dtype):
    f = F.sample(hessian=True)
    x, v = torch.tensor([3.0, 2.0], dtype=dtype), torch.tensor([1.0, -1.0], dtype=dtype)
    value, grad = f.value_and_grad(x)
    assert value.dtype == grad.dtype == dtype
    assert float(value) == float(f.value(x)) == 9.0
    assert grad.tolist() == f.grad(x).tolist() == [6.0, 4.0]
    assert f.hvp(x, v).tolist() == [2.0, -10.0]


@pytest.mark.parametrize("F", BOTH)
def test_a_run_of_mixed_calls_is_counted_exactly(F):
    f, x = F.sample(hessian=True), torch.ones(2)
    f.value(x)
    f.value_and_grad(x)
    f.grad(x)
    f.hvp(x, x)
    f.hvp(x, x)
    f.hvp(x, x)
    assert f.cost == Cost(gradients=2, samples=2, values=1, value_samples=1, hessian_products=3, hessian_samples=3)


def test_one_call_of_the_oracle_is_one_call_of_the_function():
    calls = []
    f = Function(lambda x: calls.append("f") or (x**2).sum(), hvp=lambda x, v: calls.append("hvp") or 2 * v)
    f = f.sample(hessian=True)
    x = torch.ones(2)
    f.value(x)
    f.value_and_grad(x)
    f.grad(x)
    assert calls == ["f"] * 3
    f.hvp(x, x)
    assert calls == ["f"] * 3 + ["hvp"]


def test_a_function_is_its_own_only_sample():
    F = Function(saddle)
    assert F.num_samples == 1
    for size in (None, 1, np.int64(1)):
        for replacement in (False, True):
            assert F.sample(size, replacement=replacement).size == 1


def test_a_function_needs_no_generator_and_leaves_one_alone():
    g = torch.Generator().manual_seed(0)
    state = g.get_state()
    Function(saddle).sample(1, g).grad(torch.ones(2))
    assert torch.equal(g.get_state(), state)


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (2, ValueError, "has nothing to sample, so size must be None or 1, got 2"),
        (0, ValueError, "size must be at least 1, got 0"),
        (1.0, TypeError, "size must be an integer, got 1.0"),
        (True, TypeError, "size must be an integer, got True"),
    ],
)
def test_any_other_size_is_refused(size, error, message):
    with pytest.raises(error, match=message):
        Function(saddle).sample(size)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="fun must be callable, got float"):
        Function(3.0)


def test_a_gradient_by_hand_of_the_wrong_dtype_is_refused_and_not_counted():
    f = Function(lambda x: (x.sum(), torch.ones(2, dtype=torch.float64)), gradient=True).sample()
    with pytest.raises(TypeError, match="the gradient must have the dtype of x, float32, got float64"):
        f.grad(torch.ones(2))
    assert f.cost == Cost()


def test_a_gradient_by_hand_of_the_wrong_shape_is_refused_and_not_counted():
    f = Function(lambda x: (x.sum(), torch.ones(2, 1)), gradient=True).sample()
    with pytest.raises(ValueError, match=r"the gradient must have the shape of x, \(2,\), got \(2, 1\)"):
        f.grad(torch.ones(2))
    assert f.cost == Cost()


def test_asking_for_a_hessian_product_that_nobody_wrote_is_refused_and_not_counted():
    f = Function(saddle_by_hand, gradient=True).sample(hessian=True)
    with pytest.raises(ValueError, match="pass hvp="):
        f.hvp(torch.ones(2), torch.ones(2))
    assert f.cost == Cost()


def test_an_objective_that_does_not_depend_on_x_warns_and_counts_its_gradient():
    f = Function(lambda x: torch.tensor(2.0)).sample()
    with pytest.warns(RuntimeWarning, match="does not depend on x"):
        grad = f.grad(torch.ones(2))
    assert torch.equal(grad, torch.zeros(2))
    assert f.cost == Cost(gradients=1, samples=1)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("by_hand", [False, True])
def test_gradients_that_are_not_finite_are_passed_on(bad, by_hand):
    if by_hand:
        f = Function(lambda x: (bad, torch.full_like(x, bad)), gradient=True).sample()
    else:
        f = Function(lambda x: (bad * x).sum()).sample()
    value, grad = f.value_and_grad(torch.ones(2))
    assert not math.isfinite(float(value))
    assert not bool(grad.isfinite().any())


def test_one_coordinate_is_enough():
    f = Function(lambda x: (x**3).sum()).sample(hessian=True)
    x = torch.tensor([2.0])
    assert f.grad(x).tolist() == [12.0]
    assert f.hvp(x, torch.ones(1)).tolist() == [12.0]


@pytest.mark.parametrize("by_hand", [False, True])
def test_an_error_of_the_function_itself_comes_through_with_a_note_of_what_it_was_called_with(by_hand):
    f = Function(lambda x: (x[2], x) if by_hand else x[2], gradient=by_hand).sample()
    with pytest.raises(IndexError) as raised:
        f.grad(torch.zeros(2))
    assert raised.traceback[-1].name == "<lambda>"
    (note,) = raised.value.__notes__
    assert note.startswith("The error came out of your own fun(x), which was called with float32 of shape (2,).")
