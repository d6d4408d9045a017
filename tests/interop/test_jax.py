"""JAX functions: the same verdicts as torch's, in either precision, and no copies."""

import pytest
import torch

jax = pytest.importorskip("jax")
jnp = jax.numpy

import unsaddle  # noqa: E402
from unsaddle.interop.jax import function, to_jax  # noqa: E402


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request):
    with jax.enable_x64(request.param == torch.float64):
        yield request.param


def saddle(x):
    return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4


def test_value_gradient_and_product_are_the_closed_forms(dtype):
    f = function(saddle).sample(hessian=True)
    x, v = torch.tensor([1.0, 2.0], dtype=dtype), torch.tensor([3.0, 1.0], dtype=dtype)
    value, grad = f.value_and_grad(x)
    assert value.dtype == grad.dtype == dtype
    assert float(value) == float(f.value(x)) == 1.0
    assert grad.tolist() == [2.0, 4.0]
    assert f.hvp(x, v).tolist() == [6.0, 10.0]
    assert f.cost == unsaddle.Cost(
        gradients=1, values=1, hessian_products=1, samples=1, value_samples=1, hessian_samples=1
    )


@pytest.mark.slow
@pytest.mark.parametrize("jit", [True, False])
def test_verdicts_are_those_of_a_torch_function(dtype, jit):
    for point, kind in ([0.0, 0.0], "saddle"), ([0.0, 2.0**0.5], "minimum"), ([1.0, 1.0], "not stationary"):
        x = torch.tensor(point, dtype=dtype)
        assert unsaddle.is_minimum(function(saddle, jit=jit), x).kind == kind
        assert unsaddle.is_minimum(unsaddle.Function(saddle), x).kind == kind


def test_points_and_gradients_are_exchanged_without_copies(dtype):
    x = torch.ones(1000, dtype=dtype)
    seen = to_jax(x)
    assert seen.unsafe_buffer_pointer() == x.data_ptr()
    assert seen.dtype == (jnp.float64 if dtype == torch.float64 else jnp.float32)
    answers = []

    def answering(array):
        answers.append(jnp.sin(array))
        return answers[-1]

    oracle = function(lambda x: x.sum()).sample()._oracle
    oracle._both = lambda array: (jnp.sum(array), answering(array))
    grad = oracle.value_and_grad(x)[1]
    assert grad.data_ptr() == answers[0].unsafe_buffer_pointer()


def test_the_function_is_traced_once():
    traces = []

    def fun(x):
        traces.append(1)
        return (x**2).sum()

    f = function(fun).sample()
    for _ in range(5):
        f.grad(torch.ones(3))
    assert len(traces) == 1


def test_float64_without_x64_is_refused_rather_than_rounded():
    with jax.enable_x64(False), pytest.raises(TypeError, match="x is float64, but JAX computes in float32"):
        function(saddle).sample().grad(torch.zeros(2, dtype=torch.float64))


def test_minimize_leaves_the_saddle(dtype):
    solution = unsaddle.minimize(function(saddle), torch.zeros(2, dtype=dtype), method="neon-svrg")
    assert solution.success
    assert abs(abs(float(solution.x[1])) - 2.0**0.5) < 1e-2


def test_results_stay_when_the_function_is_called_again(dtype):
    f = function(lambda x: (x**3).sum()).sample()
    x = torch.ones(3, dtype=dtype)
    first = f.grad(x)
    x.mul_(2.0)
    f.grad(x)
    assert first.tolist() == [3.0, 3.0, 3.0]


def test_what_is_no_scalar_or_no_function_is_refused():
    with pytest.raises(ValueError, match=r"fun must return a scalar, got an array of shape \(2,\)"):
        function(lambda x: x).sample().value(torch.zeros(2))
    with pytest.raises(TypeError, match="fun must be"):
        function(3.0)
    with pytest.raises(ValueError, match="a JAX function has nothing to sample"):
        function(saddle).sample(2)
