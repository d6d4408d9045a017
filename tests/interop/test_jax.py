"""JAX functions: the same verdicts as torch's, in either precision, and no copies."""

import pytest
import torch

jax = pytest.importorskip("jax")
jnp = jax.numpy

import unsaddle  # noqa: E402
from unsaddle.interop import jax as in_jax  # noqa: E402
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


@pytest.mark.parametrize("result", [int, object(), "a", {}, 10**30, 1j, None])
def test_what_is_no_real_number_is_refused(result):
    with pytest.raises(TypeError, match="fun must return a real number, got"):
        function(lambda x: result, jit=False).sample().value_and_grad(torch.zeros(2))


@pytest.mark.parametrize("result", [3, True])
def test_a_constant_has_no_gradient(result):
    value, grad = function(lambda x: result, jit=False).sample().value_and_grad(torch.zeros(2))
    assert (float(value), grad.tolist()) == (float(result), [0.0, 0.0])


def of_tree(p):
    return jnp.sum(p["a"] ** 2) - p["b"][0][0, 1] ** 2 + p["b"][0][0, 1] ** 4 / 4 + p["b"][0][0, 0] ** 2


def tree(at, dtype):
    kind = jnp.float64 if dtype == torch.float64 else jnp.float32
    return {"a": jnp.zeros(3, dtype=kind), "b": [jnp.array([[0.0, at]], dtype=kind)]}


def test_a_jax_array_is_a_point_of_any_function(dtype):
    kind = jnp.float64 if dtype == torch.float64 else jnp.float32
    assert unsaddle.is_minimum(function(saddle), jnp.zeros(2, dtype=kind)).kind == "saddle"


def test_a_pytree_is_taken_and_given_back_in_kind(dtype):
    x = tree(0.0, dtype)
    verdict = in_jax.is_minimum(of_tree, x)
    assert verdict.kind == "saddle"
    found = in_jax.negative_curvature(of_tree, x)
    for direction in verdict.direction, found.direction:
        assert jax.tree.structure(direction) == jax.tree.structure(x)
        assert jax.tree.map(jnp.shape, direction) == jax.tree.map(jnp.shape, x)
        assert abs(float(direction["b"][0][0, 1])) == pytest.approx(1.0, abs=1e-3)
    solution = in_jax.minimize(of_tree, x)
    assert abs(float(solution.x["b"][0][0, 1])) == pytest.approx(2.0**0.5, abs=0.05)
    assert in_jax.is_minimum(of_tree, tree(2.0**0.5, dtype)).kind == "minimum"
    assert float(x["b"][0][0, 1]) == 0.0


def test_an_array_of_two_dimensions_is_given_back_as_one():
    verdict = in_jax.is_minimum(lambda x: saddle(x[0]), jnp.zeros((1, 2)), jit=False)
    assert verdict.direction.shape == (1, 2)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (jnp.zeros(2, dtype=jnp.int32), "got int32"),
        ({"a": jnp.zeros(2), "b": jnp.zeros(1, dtype=jnp.bfloat16)}, "got bfloat16 and float32"),
        ({}, "got no leaves"),
        ([object()], "got leaves that are none"),
    ],
    ids=["integers", "mixed", "empty", "objects"],
)
def test_pytrees_that_are_no_points_are_refused(x, message):
    with pytest.raises(TypeError, match=message):
        in_jax.is_minimum(of_tree, x)


def wells(p):
    """b.w is the way down, and b.c is none."""
    return (p["a"] ** 2).sum() + (p["b"]["c"] ** 2).sum() + (-(p["b"]["w"] ** 2) + p["b"]["w"] ** 4 / 4).sum()


TREE = {"a": jnp.zeros((2, 2)), "b": {"c": jnp.zeros(()), "w": jnp.zeros(1)}}


@pytest.mark.parametrize("ask", [in_jax.is_minimum, in_jax.negative_curvature])
def test_where_names_the_leaves_of_a_pytree_and_pictures_are_drawn(ask):
    found = ask(wells, TREE)
    where = found.where()
    assert where.names[0] == "b.w"
    assert set(where.names) == {"a", "b.c", "b.w"}
    assert where.shares[0] == pytest.approx(1.0, abs=1e-3)
    assert dict(zip(where.names, where.sizes, strict=True)) == {"a": 4 / 6, "b.c": 1 / 6, "b.w": 1 / 6}
    pytest.importorskip("matplotlib", reason="pictures need the extra plot")
    assert found.plot() is not None
    assert "<img" in found._repr_html_()


def test_where_of_an_array_names_variables():
    verdict = in_jax.is_minimum(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4, jnp.zeros(2))
    assert verdict.where().names[0] == "x[1]"


def test_a_leaf_that_is_not_finite_is_named():
    broken = {"a": jnp.zeros((2, 2)), "b": {"c": jnp.array(jnp.nan), "w": jnp.zeros(1)}}
    assert "the parameter b.c" in in_jax.is_minimum(wells, broken).reason


def test_an_error_of_the_function_itself_comes_through_with_a_note_of_what_it_was_called_with():
    with pytest.raises(KeyError) as raised:
        in_jax.is_minimum(lambda p: p["a"] * p["c"], {"a": 0.0, "b": jnp.zeros(3)})
    assert "called with {a: float32 of shape (), b: float32 of shape (3,)}" in raised.value.__notes__[0]
    with pytest.raises(TypeError) as raised:
        function(lambda x: (jnp.eye(3) @ x).sum()).sample().grad(torch.zeros(2))
    assert "called with float32 of shape (2,)" in raised.value.__notes__[0]
