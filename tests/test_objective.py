"""The contract of every sampled function: what it counts, what it refuses, and what it leaves alone."""

import math
import re

import numpy as np
import pytest
import torch

from unsaddle.cost import Cost, Ledger
from unsaddle.objective import Objective, Oracle, SampledFunction, SecondOrderFunction, freeze
from unsaddle.objectives import FiniteSum, Function, Stream, numpy_function

A = torch.randn(10, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
V = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def point(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor([0.5, -1.5, 2.0], dtype=dtype)


# Every kind of objective, all of them the same F(x) = mean over rows a of (aᵀx)⁴/4 with some choice of rows.
def loss(x, rows):
    return ((rows @ x) ** 4).mean() / 4


def by_hand(x, rows):
    products = rows @ x
    return (products**4).mean() / 4, rows.T @ products**3 / len(rows)


def product_by_hand(x, v, rows):
    return rows.T @ (3 * (rows @ x) ** 2 * (rows @ v)) / len(rows)


def in_numpy(x):
    value, grad = by_hand(torch.from_numpy(x), A)
    return float(value), grad.numpy()


ROWS = FiniteSum(loss, A)
ROWS_BY_HAND = FiniteSum(by_hand, A, gradient=True, hvp=product_by_hand)
OBJECTIVES = {
    "function": (Function(lambda x: loss(x, A)), None),
    "function by hand": (
        Function(lambda x: by_hand(x, A), gradient=True, hvp=lambda x, v: product_by_hand(x, v, A)),
        None,
    ),
    "finite sum": (ROWS, None),
    "finite sum by hand": (ROWS_BY_HAND, None),
    "sampled sum": (ROWS, 4),
    "sampled sum by hand": (ROWS_BY_HAND, 4),
    "stream": (Stream(loss, lambda m, g: (torch.randn(m, 3, generator=g, dtype=torch.float64),)), 6),
    "numpy, both": (numpy_function(in_numpy, jac=True), None),
    "numpy, jac": (numpy_function(lambda x: in_numpy(x)[0], jac=lambda x: in_numpy(x)[1]), None),
}
every_objective = pytest.mark.parametrize("name", OBJECTIVES)
every_differentiable_objective = pytest.mark.parametrize("name", [k for k in OBJECTIVES if not k.startswith("numpy")])


def draw(name: str, **kwargs) -> SampledFunction:
    objective, size = OBJECTIVES[name]
    return objective.sample(size, rng(), **kwargs)


@every_objective
def test_every_kind_of_objective_follows_the_protocol(name):
    assert isinstance(OBJECTIVES[name][0], Objective)


@every_objective
def test_each_gradient_counts_once_with_its_samples_and_nothing_else(name):
    f = draw(name)
    f.value_and_grad(point())
    f.grad(point())
    assert f.cost == Cost(gradients=2, samples=2 * f.size)


@every_objective
def test_each_value_asked_for_alone_counts_once_with_its_samples_and_nothing_else(name):
    f = draw(name)
    for _ in range(3):
        f.value(point())
    assert f.cost == Cost(values=3, value_samples=3 * f.size)


@every_differentiable_objective
def test_each_hessian_product_counts_once_with_its_samples_and_nothing_else(name):
    f = draw(name, hessian=True)
    f.hvp(point(), V)
    f.hvp(point(), V)
    assert f.cost == Cost(hessian_products=2, hessian_samples=2 * f.size)


@every_objective
def test_drawing_a_sample_costs_nothing(name):
    assert draw(name).cost == Cost()


@every_objective
def test_counts_are_plain_integers(name):
    f = draw(name)
    f.grad(point())
    f.value(point())
    assert {type(getattr(f.cost, field)) for field in Cost.__dataclass_fields__} == {int}


@every_objective
def test_hvp_is_absent_unless_asked_for(name):
    assert not hasattr(draw(name), "hvp")
    assert hasattr(draw(name, hessian=True), "hvp")


@every_objective
def test_one_ledger_counts_several_samples_together(name):
    ledger = Ledger()
    first, second = draw(name, ledger=ledger), draw(name, ledger=ledger)
    first.grad(point())
    second.grad(point())
    second.value(point())
    n = first.size
    assert first.cost == second.cost == Cost(gradients=2, samples=2 * n, values=1, value_samples=n)


@every_objective
def test_samples_without_a_ledger_count_apart(name):
    first, second = draw(name), draw(name)
    first.grad(point())
    assert second.cost == Cost()


@every_objective
def test_a_frozen_function_answers_the_same_bits_at_every_call(name):
    f, other = draw(name), torch.ones(3, dtype=torch.float64)
    value, grad = f.value_and_grad(point())
    value, grad = value.clone(), grad.clone()
    f.value_and_grad(other)
    again = f.value_and_grad(point())
    assert torch.equal(value, again[0])
    assert torch.equal(grad, again[1])


@every_objective
def test_a_frozen_function_does_not_change_when_its_generator_advances(name):
    objective, size = OBJECTIVES[name]
    g = rng()
    f = objective.sample(size, g)
    before = f.grad(point()).clone()
    torch.rand(100, generator=g)
    objective.sample(size, g).grad(point())
    assert torch.equal(before, f.grad(point()))


@pytest.mark.parametrize("name", ["sampled sum", "sampled sum by hand", "stream"])
def test_same_seed_same_sample_and_other_seeds_differ(name):
    objective, size = OBJECTIVES[name]
    gradients = [objective.sample(size, rng(seed)).grad(point()) for seed in (0, 0, 1, 2)]
    assert torch.equal(gradients[0], gradients[1])
    assert not torch.equal(gradients[0], gradients[2])
    assert not torch.equal(gradients[2], gradients[3])


@every_objective
def test_no_global_randomness_is_read_or_set(name):
    state, legacy = torch.get_rng_state(), np.random.get_state()[1].copy()
    draw(name).grad(point())
    assert torch.equal(state, torch.get_rng_state())
    assert np.array_equal(legacy, np.random.get_state()[1])


@every_objective
def test_value_and_gradient_agree_with_central_differences(name):
    f, h = draw(name), 1e-5
    value, grad = f.value_and_grad(point())
    assert float(f.value(point())) == pytest.approx(float(value), rel=1e-15)
    for i, unit in enumerate(torch.eye(3, dtype=torch.float64)):
        slope = float(f.value(point() + h * unit) - f.value(point() - h * unit)) / (2 * h)
        assert float(grad[i]) == pytest.approx(slope, rel=1e-7)  # Truncation h²·f'''/6 and rounding 1e-16·f/h.


@every_differentiable_objective
def test_hessian_products_agree_with_differences_of_gradients(name):
    f, h, units = draw(name, hessian=True), 1e-5, torch.eye(3, dtype=torch.float64)
    dense = torch.stack([(f.grad(point() + h * e) - f.grad(point() - h * e)) / (2 * h) for e in units], dim=1)
    torch.testing.assert_close(f.hvp(point(), V), dense @ V, rtol=1e-7, atol=1e-7)


@every_objective
@pytest.mark.parametrize("requires_grad", [False, True])
def test_x_is_never_modified(name, requires_grad):
    f = draw(name, hessian=True)
    x = point().requires_grad_(requires_grad)
    bits, version = x.detach().clone().view(torch.int64), x._version
    f.value(x)
    f.value_and_grad(x)
    if not name.startswith("numpy"):
        v = V.clone()
        f.hvp(x, v)
        assert torch.equal(v, V)
    assert torch.equal(x.detach().view(torch.int64), bits)
    assert x._version == version
    assert x.grad is None
    assert x.requires_grad == requires_grad


@every_objective
def test_results_carry_no_graph_even_when_x_does(name):
    x = point().requires_grad_()
    f = draw(name)
    value, grad = f.value_and_grad(x * 1.0)
    assert not value.requires_grad
    assert not grad.requires_grad
    assert not f.value(x).requires_grad
    assert torch.equal(grad, draw(name).grad(point()))


@every_objective
def test_a_strided_x_and_a_numpy_x_give_the_answer_of_a_contiguous_one(name):
    f = draw(name)
    expected = f.grad(point())
    strided = torch.stack([point(), point()], dim=1)[:, 0]
    assert not strided.is_contiguous()
    assert torch.equal(f.grad(strided), expected)
    array = point().numpy().copy()
    array.flags.writeable = False
    assert torch.equal(f.grad(array), expected)


@every_objective
def test_gradients_are_right_where_the_caller_has_switched_autograd_off(name):
    f = draw(name)
    expected = f.grad(point())
    with torch.no_grad():
        assert torch.equal(f.grad(point()), expected)
    with torch.inference_mode():
        assert torch.equal(f.grad(point()), expected)


BAD_POINTS = [
    (torch.ones(3, dtype=torch.int64), TypeError, "x must be float32 or float64, got int64"),
    (torch.ones(3, dtype=torch.bfloat16), TypeError, "x must be float32 or float64, got bfloat16"),
    (torch.ones(3, device="meta", dtype=torch.float64), ValueError, "meta device"),
    ({"a": 1.0}, TypeError, "x must be a 1-D float tensor or array, or a list of numbers, got dict"),
    (torch.ones(3, 1, dtype=torch.float64), ValueError, "x must have one dimension, got shape (3, 1)"),
    (torch.empty(0, dtype=torch.float64), ValueError, "x is empty"),
    (torch.ones(3, dtype=torch.float64).to_sparse(), TypeError, "x must be a dense tensor"),
]


@every_objective
@pytest.mark.parametrize(("x", "error", "message"), BAD_POINTS)
def test_a_bad_x_is_refused_by_every_call_and_not_counted(name, x, error, message):
    f = draw(name, hessian=True)
    for call in (f.value, f.value_and_grad, f.grad, lambda x: f.hvp(x, V)):
        with pytest.raises(error, match=re.escape(message)):
            call(x)
    assert f.cost == Cost()


@every_differentiable_objective
@pytest.mark.parametrize(
    ("v", "error", "message"),
    [
        (torch.ones(4, dtype=torch.float64), ValueError, "v must have the shape of x, (3,), got (4,)"),
        (torch.ones(3), TypeError, "v must have the dtype of x, float64, got float32"),
        ([1.0, 2.0, 3.0], TypeError, "v must be a tensor, got list"),
        (torch.ones(3, dtype=torch.float64, device="meta"), ValueError, "v must be on the device of x, cpu, got meta"),
    ],
)
def test_a_bad_v_is_refused_and_not_counted(name, v, error, message):
    f = draw(name, hessian=True)
    with pytest.raises(error, match=re.escape(message)):
        f.hvp(point(), v)
    assert f.cost == Cost()


@every_objective
def test_not_a_number_goes_through_unharmed_and_is_counted(name):
    f = draw(name)
    value, grad = f.value_and_grad(torch.tensor([math.nan, 0.0, 0.0], dtype=torch.float64))
    assert math.isnan(float(value))
    assert bool(grad.isnan().any())
    assert f.cost == Cost(gradients=1, samples=f.size)


class Scripted(Oracle):
    """An oracle that answers what it was told to, or raises it."""

    def __init__(self, value=1.0, grad=None, product=None):
        self.answers = value, grad, product

    def _answer(self, i):
        if isinstance(self.answers[i], Exception):
            raise self.answers[i]
        return self.answers[i]

    def value(self, x):
        return self._answer(0)

    def value_and_grad(self, x):
        return self._answer(0), self._answer(1)

    def hvp(self, x, v):
        return self._answer(2)


@pytest.mark.parametrize(
    ("grad", "error", "message"),
    [
        (torch.ones(4), ValueError, "the gradient must have the shape of x, (3,), got (4,)"),
        (torch.ones(3, 1), ValueError, "got (3, 1)"),
        (torch.ones(3, dtype=torch.float64), TypeError, "the gradient must have the dtype of x, float32, got float64"),
        (np.ones(3, dtype=np.float32), TypeError, "the gradient must be a tensor, got ndarray"),
        (torch.ones(3, device="meta"), ValueError, "the gradient must be on the device of x, cpu, got meta"),
        (torch.ones(3).to_sparse(), TypeError, "the gradient must be a dense tensor"),
        (ArithmeticError("broken"), ArithmeticError, "broken"),
    ],
)
def test_an_oracle_with_a_bad_gradient_is_refused_and_not_counted(grad, error, message):
    f = SampledFunction(Scripted(grad=grad), 5)
    with pytest.raises(error, match=re.escape(message)):
        f.value_and_grad(torch.ones(3))
    assert f.cost == Cost()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (torch.ones(2), ValueError, "the objective must return a scalar, got a tensor of shape (2,)"),
        (None, TypeError, "the objective must return a scalar tensor, got NoneType"),
        (ArithmeticError("broken"), ArithmeticError, "broken"),
    ],
)
def test_an_oracle_with_a_bad_value_is_refused_and_not_counted(value, error, message):
    f = SampledFunction(Scripted(value=value, grad=torch.ones(3)), 5)
    for call in (f.value, f.value_and_grad, f.grad):
        with pytest.raises(error, match=re.escape(message)):
            call(torch.ones(3))
    assert f.cost == Cost()


@pytest.mark.parametrize(
    ("product", "error", "message"),
    [
        (torch.ones(2), ValueError, "the Hessian product must have the shape of x, (3,), got (2,)"),
        (torch.ones(3, dtype=torch.float64), TypeError, "the Hessian product must have the dtype of x"),
        (ArithmeticError("broken"), ArithmeticError, "broken"),
    ],
)
def test_an_oracle_with_a_bad_hessian_product_is_refused_and_not_counted(product, error, message):
    f = SecondOrderFunction(Scripted(product=product), 5)
    with pytest.raises(error, match=re.escape(message)):
        f.hvp(torch.ones(3), torch.ones(3))
    assert f.cost == Cost()


def test_a_failure_leaves_earlier_counts_in_place():
    def only_above_zero(x):
        if x.sum() <= 0:
            raise ArithmeticError("below zero")
        return x.sum()

    f = Function(only_above_zero).sample()
    f.grad(torch.ones(2))
    with pytest.raises(ArithmeticError, match="below zero"):
        f.grad(-torch.ones(2))
    assert f.cost == Cost(gradients=1, samples=1)


def test_freeze_gives_just_the_capability_that_was_asked_for():
    ledger = Ledger()
    assert type(freeze(Scripted(), 3, False, ledger)) is SampledFunction
    second_order = freeze(Scripted(), 3, True, ledger)
    assert type(second_order) is SecondOrderFunction
    assert second_order.size == 3
    assert second_order.ledger is ledger


def test_something_that_cannot_be_sampled_is_no_objective():
    assert not isinstance(lambda x: x.sum(), Objective)
