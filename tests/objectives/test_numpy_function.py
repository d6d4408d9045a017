"""Functions and gradients written in NumPy."""

import numpy as np
import pytest
import torch

from unsaddle.cost import Cost, Ledger
from unsaddle.objectives import numpy_function

X = torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64)


def quartic(x):
    return float((x**4).sum() / 4)


def cube(x):
    return x**3


def both(x):
    return quartic(x), cube(x)


KINDS = {"both": (both, True), "jac": (quartic, cube), "differences": (quartic, None)}
every_kind = pytest.mark.parametrize(("fun", "jac"), KINDS.values(), ids=KINDS)


@every_kind
def test_value_and_gradient_are_the_closed_forms_in_float64(fun, jac):
    f = numpy_function(fun, jac).sample()
    value, grad = f.value_and_grad(X)
    assert value.dtype == grad.dtype == torch.float64
    assert value.shape == ()
    assert float(value) == float(f.value(X)) == quartic(X.numpy())
    torch.testing.assert_close(grad, X**3, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("fun", "jac"), [KINDS["both"], KINDS["jac"]], ids=["both", "jac"])
def test_with_a_gradient_each_call_counts_once(fun, jac):
    f = numpy_function(fun, jac).sample()
    f.grad(X)
    f.value_and_grad(X)
    f.value(X)
    assert f.cost == Cost(gradients=2, samples=2, values=1, value_samples=1)


@pytest.mark.parametrize("d", [1, 3, 10])
def test_by_central_differences_a_gradient_also_counts_2d_values(d):
    calls = []
    f = numpy_function(lambda x: calls.append(1) or quartic(x)).sample()
    x = torch.ones(d, dtype=torch.float64)
    f.value_and_grad(x)
    assert len(calls) == 2 * d + 1  # The value itself comes with the gradient.
    assert f.cost == Cost(gradients=1, samples=1, values=2 * d, value_samples=2 * d)
    f.grad(x)
    f.value(x)
    assert f.cost == Cost(gradients=2, samples=2, values=4 * d + 1, value_samples=4 * d + 1)


def test_values_of_central_differences_go_into_the_shared_ledger():
    ledger, F = Ledger(), numpy_function(quartic)
    F.sample(ledger=ledger).grad(X)
    F.sample(ledger=ledger).grad(X)
    assert ledger.cost == Cost(gradients=2, samples=2, values=12, value_samples=12)


@pytest.mark.parametrize("successes", range(7))
def test_a_function_that_fails_during_central_differences_is_not_counted(successes):
    calls = []

    def fails(x):
        calls.append(1)
        if len(calls) > successes:
            raise ArithmeticError("broken")
        return 0.0

    f = numpy_function(fails).sample()
    with pytest.raises(ArithmeticError, match="broken"):
        f.grad(X)
    assert f.cost == Cost()


def test_jac_false_means_none():
    f = numpy_function(quartic, jac=False).sample()
    f.grad(X)
    assert f.cost.values == 6


def test_central_differences_are_accurate_at_large_and_small_coordinates():
    x = torch.tensor([1e6, -1e-6, 0.0], dtype=torch.float64)
    grad = numpy_function(lambda x: float(np.sin(x[0] / 1e6) + np.sin(x[1]) + np.sin(x[2]))).sample().grad(x)
    expected = torch.tensor([np.cos(1.0) / 1e6, np.cos(1e-6), 1.0], dtype=torch.float64)
    torch.testing.assert_close(grad, expected, rtol=1e-8, atol=0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_code_that_overwrites_its_argument_harms_neither_x_nor_the_answer(kind):
    def spoil(fun):
        def spoiled(x):
            answer = fun(x)
            x.fill(np.nan)
            return answer

        return spoiled

    fun, jac = KINDS[kind]
    x = X.clone()
    value, grad = numpy_function(spoil(fun), spoil(jac) if callable(jac) else jac).sample().value_and_grad(x)
    assert torch.equal(x, X)
    assert float(value) == quartic(X.numpy())
    torch.testing.assert_close(grad, X**3, rtol=1e-9, atol=1e-9)


def test_code_may_keep_its_argument():
    kept = []
    f = numpy_function(lambda x: kept.append(x) or quartic(x), jac=cube).sample()
    x = X.clone()
    f.grad(x)
    x.fill_(0.0)
    assert kept[0].tolist() == X.tolist()


def test_a_gradient_kept_and_overwritten_by_its_author_does_not_change():
    buffer = np.zeros(3)

    def jac(x):
        buffer[:] = x**3
        return buffer

    f = numpy_function(quartic, jac).sample()
    first = f.grad(X)
    f.grad(2 * X)
    torch.testing.assert_close(first, X**3)


def test_gradients_may_be_lists_or_of_other_real_types():
    x = torch.tensor([2.0, 3.0], dtype=torch.float64)
    for answer in ([8, 27], np.float32([8, 27]), np.array([8, 27]), np.array([8.0, 0.0, 27.0, 0.0])[::2]):
        assert numpy_function(quartic, lambda x, answer=answer: answer).sample().grad(x).tolist() == [8.0, 27.0]


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.array(2.0), np.array([2.0]), np.array([[2.0]])])
def test_a_value_may_be_a_single_number_in_any_shape(value):
    assert float(numpy_function(lambda x: value).sample().value(X)) == 2.0


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.ones(3), ValueError, r"fun must return a scalar, got an array of shape \(3,\)"),
        (np.empty(0), ValueError, r"fun must return a scalar, got an array of shape \(0,\)"),
        (None, TypeError, "fun must return a number, got NoneType"),
        (
            (1.0, np.ones(3)),
            TypeError,
            r"fun must return a number, got tuple; pass jac=True if it returns \(value",
        ),
        ("2.0", TypeError, "fun must return a number, got str"),
    ],
)
@pytest.mark.parametrize("jac", [None, cube])
def test_a_value_that_is_not_a_number_is_refused_and_not_counted(value, error, message, jac):
    f = numpy_function(lambda x: value, jac).sample()
    for call in (f.value, f.grad):
        with pytest.raises(error, match=message):
            call(X)
    assert f.cost == Cost()


@pytest.mark.parametrize("result", [1.0, [1.0, np.ones(3)], (1.0, np.ones(3), 0), None])
def test_with_jac_true_anything_but_value_and_gradient_is_refused(result):
    f = numpy_function(lambda x: result, jac=True).sample()
    for call in (f.value, f.grad):
        with pytest.raises(TypeError, match=r"with jac=True, fun must return \(value, gradient\), got"):
            call(X)
    assert f.cost == Cost()


@pytest.mark.parametrize("gradient", [np.ones(2), np.ones((3, 1)), 1.0, None])
def test_a_gradient_of_another_shape_is_refused_and_not_counted(gradient):
    for F in (numpy_function(quartic, lambda x: gradient), numpy_function(lambda x: (1.0, gradient), jac=True)):
        f = F.sample()
        with pytest.raises(ValueError, match=r"the gradient must have the shape of x, \(3,\), got"):
            f.grad(X)
        assert f.cost == Cost()


@every_kind
def test_x_in_float32_is_refused_and_not_counted(fun, jac):
    f = numpy_function(fun, jac).sample()
    for call in (f.value, f.value_and_grad):
        with pytest.raises(TypeError, match=r"works in float64, got x in torch.float32; use x.double\(\)"):
            call(X.float())
    assert f.cost == Cost()


@every_kind
def test_there_are_no_hessian_products(fun, jac):
    f = numpy_function(fun, jac).sample(hessian=True)
    with pytest.raises(ValueError, match=r"a NumPy function has gradients only, no Hessian products; use a method"):
        f.hvp(X, X)
    assert f.cost == Cost()


def test_a_numpy_function_is_its_own_only_sample():
    F = numpy_function(quartic)
    assert F.num_samples == 1
    assert F.sample(1).size == F.sample(None).size == 1
    with pytest.raises(ValueError, match="has nothing to sample, so size must be None or 1, got 2"):
        F.sample(2)
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        F.sample(0)
    with pytest.raises(TypeError, match="size must be an integer, got True"):
        F.sample(True)


def test_bad_arguments_are_refused():
    with pytest.raises(TypeError, match="fun must be callable, got ndarray"):
        numpy_function(np.ones(3))
    with pytest.raises(TypeError, match="jac must be a callable, True, or None, got str"):
        numpy_function(quartic, jac="2-point")
    with pytest.raises(TypeError, match="jac must be a function, got the class int"):
        numpy_function(lambda x: 0.0, int)


@pytest.mark.parametrize("wrong", ["fun", "jac"])
def test_an_error_of_the_function_itself_comes_through_with_a_note_of_what_it_was_called_with(wrong):
    fun, jac = (lambda x: x[2] if wrong == "fun" else x[0]), (lambda x: x[1:3] + x[2])
    with pytest.raises(IndexError) as raised:
        numpy_function(fun, jac).sample().grad(torch.zeros(2, dtype=torch.float64))
    (note,) = raised.value.__notes__
    assert note.startswith(f"The error came out of your own {wrong}(x), which was called with float64 of shape (2,).")
