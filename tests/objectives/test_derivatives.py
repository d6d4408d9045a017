"""Derivatives by autograd and by hand."""

import re
import warnings

import pytest
import torch

from unsaddle.objectives.derivatives import Autograd, ByHand, SameDtype, check_callable, oracle

DTYPES = [torch.float32, torch.float64]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("dtype", DTYPES)
def test_autograd_finds_the_value_gradient_and_hessian_of_a_quadratic(dtype):
    A, x, v = (normal(*shape, seed=i, dtype=dtype) for i, shape in enumerate([(5, 5), (5,), (5,)]))
    A = A + A.T
    quadratic = Autograd(lambda x: 0.5 * x @ A @ x)
    value, grad = quadratic.value_and_grad(x)
    assert value.dtype == grad.dtype == dtype
    torch.testing.assert_close(value, 0.5 * x @ A @ x)
    torch.testing.assert_close(quadratic.value(x), value)
    torch.testing.assert_close(grad, A @ x)
    torch.testing.assert_close(quadratic.hvp(x, v), A @ v)


def test_autograd_hessian_products_equal_the_dense_hessian():
    x = normal(6)
    dense = torch.autograd.functional.hessian(rosenbrock, x)
    for seed in range(5):
        v = normal(6, seed=seed)
        torch.testing.assert_close(Autograd(rosenbrock).hvp(x, v), dense @ v, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize(
    "affine",
    [
        lambda x: x.sum(),
        lambda x: 3 * x[0] - x[1] + 2,
        lambda x: torch.arange(3.0).double() @ x,
        lambda x: x.relu().sum(),
    ],
)
def test_a_function_without_curvature_has_zero_hessian_products(affine):
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    product = Autograd(affine).hvp(x, torch.ones_like(x))
    assert torch.equal(product, torch.zeros_like(x))
    assert not product.requires_grad


def test_an_affine_function_of_a_trainable_weight_has_zero_hessian_products():
    # Here the gradient has a graph, but not one that leads to x.
    weight = normal(3).requires_grad_()
    assert torch.equal(Autograd(lambda x: weight @ x).hvp(normal(3), normal(3)), torch.zeros(3, dtype=torch.float64))


def test_coordinates_that_the_function_ignores_have_zero_derivatives():
    f, x = Autograd(lambda x: x[0] ** 2), torch.tensor([3.0, 5.0])
    assert f.value_and_grad(x)[1].tolist() == [6.0, 0.0]
    assert f.hvp(x, torch.ones(2)).tolist() == [2.0, 0.0]


WEIGHT = torch.ones(2, requires_grad=True)


@pytest.mark.parametrize(
    "independent",
    [
        lambda x: torch.tensor(4.0),
        lambda x: 4.0,
        lambda x: (x.detach() ** 2).sum() * 0 + 4,
        lambda x: (2 * WEIGHT).sum(),  # It has a graph, but not one that leads to x.
    ],
)
def test_a_function_that_does_not_depend_on_x_warns_and_has_zero_derivatives(independent):
    f, x = Autograd(independent), torch.ones(3)
    with pytest.warns(RuntimeWarning, match=r"does not depend on x through autograd.*look for detach\(\)"):
        value, grad = f.value_and_grad(x)
    assert float(value) == 4.0
    assert not value.requires_grad
    assert torch.equal(grad, torch.zeros(3))
    assert torch.equal(f.hvp(x, x), torch.zeros(3))
    assert WEIGHT.grad is None


def test_trainable_weights_inside_the_function_get_no_gradient_from_it():
    weight = torch.ones(3, requires_grad=True)
    f = Autograd(lambda x: (weight * x**2).sum())
    for _ in range(2):  # Twice: no graph may have been freed under our feet.
        value, grad = f.value_and_grad(torch.ones(3))
        product = f.hvp(torch.ones(3), torch.ones(3))
    assert weight.grad is None
    assert [t.requires_grad for t in (value, grad, product)] == [False] * 3
    assert grad.tolist() == product.tolist() == [2.0, 2.0, 2.0]


def test_a_value_alone_builds_no_graph():
    seen = []
    Autograd(lambda x: seen.append(torch.is_grad_enabled()) or x.sum()).value(torch.ones(2))
    assert seen == [False]


def test_a_point_made_in_inference_mode_can_be_differentiated():
    with torch.inference_mode():
        x = torch.tensor([1.0, 2.0])
    f = Autograd(lambda x: (x**2).sum())
    assert f.value_and_grad(x)[1].tolist() == [2.0, 4.0]
    assert f.hvp(x, torch.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("call", [Autograd.value, Autograd.value_and_grad, lambda f, x: f.hvp(x, x)])
@pytest.mark.parametrize(
    ("fun", "error", "message"),
    [
        (lambda x: x**2, ValueError, "the objective must return a scalar, got a tensor of shape (3,); reduce it"),
        (lambda x: None, TypeError, "the objective must return a scalar tensor, got NoneType"),
        (lambda x: (x.sum(), x), TypeError, "the objective must return a scalar tensor, got tuple"),
    ],
)
def test_a_loss_that_is_not_a_scalar_is_refused(call, fun, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call(Autograd(fun), torch.ones(3))


def test_a_scalar_in_a_tensor_of_one_entry_will_do():
    value, grad = Autograd(lambda x: (x**2).sum(dim=0, keepdim=True)).value_and_grad(torch.ones(3))
    assert value.shape == ()
    assert grad.tolist() == [2.0, 2.0, 2.0]


def test_a_gradient_by_hand_is_used_as_it_is():
    gradient = torch.tensor([7.0, 8.0])
    f = ByHand(lambda x: (x.sum(), gradient))
    value, grad = f.value_and_grad(torch.ones(2))
    assert float(value) == float(f.value(torch.ones(2))) == 2.0
    assert grad.data_ptr() == gradient.data_ptr()


def test_a_gradient_by_hand_with_a_graph_is_cut_off_from_it():
    weight = torch.ones(2, requires_grad=True)
    value, grad = ByHand(lambda x: ((weight * x).sum(), weight * 1)).value_and_grad(torch.ones(2))
    assert [t.requires_grad for t in (value, grad)] == [False] * 2


@pytest.mark.parametrize(
    ("result", "kind"),
    [(torch.tensor(1.0), "Tensor"), ([1.0, torch.ones(2)], "list"), ((1.0,), "tuple"), (None, "NoneType")],
)
def test_a_function_that_does_not_return_value_and_gradient_is_refused(result, kind):
    f = ByHand(lambda x: result)
    for call in (f.value, f.value_and_grad):
        with pytest.raises(TypeError, match=rf"must return \(value, gradient\), got {kind}; leave gradient out"):
            call(torch.ones(2))


def test_a_hessian_product_by_hand_is_preferred_to_autograd():
    def product(x, v):
        return 10 * v

    for f in (Autograd(lambda x: (x**2).sum(), product), ByHand(lambda x: (0.0, x), product)):
        assert f.hvp(torch.ones(2), torch.ones(2)).tolist() == [10.0, 10.0]


def test_without_its_own_formula_a_gradient_by_hand_has_no_hessian_products():
    with pytest.raises(ValueError, match=r"gradient by hand and no hvp; pass hvp=, or leave gradient out"):
        ByHand(lambda x: (0.0, x)).hvp(torch.ones(2), torch.ones(2))


def test_the_oracle_is_by_hand_just_when_the_gradient_is():
    assert isinstance(oracle(lambda x: x, True, None), ByHand)
    assert isinstance(oracle(lambda x: x, False, None), Autograd)


@pytest.mark.parametrize("call", [SameDtype.value, SameDtype.value_and_grad, lambda f, x: f.hvp(x, x)])
def test_x_and_floating_point_data_must_agree_in_dtype(call):
    rows = torch.ones(4, dtype=torch.int64), torch.ones(4, 2, dtype=torch.float64)
    f = SameDtype(Autograd(lambda x: (x**2).sum()), rows)
    call(f, torch.ones(2, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"x is torch.float32 on cpu, but data tensor 1 is torch.float64 on cpu;"):
        call(f, torch.ones(2))


def test_x_and_data_must_agree_in_device():
    f = SameDtype(Autograd(lambda x: (x**2).sum()), (torch.ones(4, device="meta"),))
    with pytest.raises(TypeError, match=r"x is torch.float32 on cpu, but data tensor 0 is torch.float32 on meta"):
        f.value(torch.ones(2))


def test_labels_of_any_integer_type_go_with_any_x():
    rows = torch.ones(4, dtype=torch.uint8), torch.ones(4, dtype=torch.bool)
    f = SameDtype(Autograd(lambda x: (x**2).sum()), rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(f.value(torch.ones(2))) == float(f.value(torch.ones(2, dtype=torch.float64))) == 2.0


def test_what_cannot_be_called_is_refused_by_name():
    check_callable(len, "loss")
    with pytest.raises(TypeError, match="loss must be callable, got Tensor"):
        check_callable(torch.ones(2), "loss")


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_function_that_writes_to_its_point_does_not_write_to_the_callers(by_hand):
    def fun(x):
        value, grad = x.square().sum(), 2.0 * x.detach()
        x.data.add_(1.0)
        return (value, grad) if by_hand else value

    f, x, u = oracle(fun, by_hand, None), torch.ones(3), torch.ones(3)
    f.value(x), f.value_and_grad(x), f.grad_at_sum(x, None, 1.0), f.value_and_grad_at_sum(x, u, 2.0)
    assert torch.equal(x, torch.ones(3))
    assert torch.equal(u, torch.ones(3))
    products = oracle(fun, by_hand, lambda x, v: x.data.add_(1.0))
    products.hvp(x, u)
    assert torch.equal(x, torch.ones(3))


def test_a_function_of_other_arguments_is_refused():
    with pytest.raises(TypeError, match=re.escape("draw must take (size, generator), got a function of (x)")):
        check_callable(lambda x: x, "draw", ["size", "generator"])
    for right in (lambda *a: a, lambda size, generator, more=0: 0, max, torch.add, torch.nn.MSELoss()):
        check_callable(right, "draw", ["size", "generator"])
