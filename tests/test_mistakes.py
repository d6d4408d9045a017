"""Mistakes that users make, at the public functions: taken, or refused in our own words and before any evaluation."""

import inspect
import math
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import unsaddle
from unsaddle import FiniteSum, Function, is_minimum, minimize, negative_curvature
from unsaddle.methods import method_names

SADDLE = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
ZERO = torch.zeros(2, dtype=torch.float64)
PUBLIC = (is_minimum, negative_curvature, minimize)
by_name = pytest.mark.parametrize("ask", PUBLIC, ids=lambda ask: ask.__name__)


@pytest.mark.parametrize("x", [[0.0, 0.0], [0, 0], (0.0, 0.0), np.zeros(2, dtype=int)], ids=str)
def test_a_list_is_a_point(x):
    assert is_minimum(SADDLE, x).kind == "saddle"
    assert negative_curvature(SADDLE, x).curvature == pytest.approx(-2.0, rel=1e-4)
    assert minimize(SADDLE, x).escapes == 1


@by_name
@pytest.mark.parametrize("as_x", [nn.Module.state_dict, lambda model: list(model.parameters())])
def test_a_model_s_parameters_are_left_out(ask, as_x):
    model = nn.Linear(2, 1)
    F = unsaddle.ModelObjective(model, lambda model, batch: model(batch).square().mean(), [torch.ones(3, 2)])
    with pytest.raises(TypeError, match=r"out to take a model's parameters as they are, or pass objective.point"):
        ask(F, as_x(model))


@by_name
@pytest.mark.parametrize("seed", [np.int64(3), 2**64 - 1])
def test_any_seed_is_taken(ask, seed):
    ask(SADDLE, ZERO, seed=seed)


@by_name
@pytest.mark.parametrize("kind", [Function, FiniteSum, unsaddle.ModelObjective])
def test_a_class_is_no_objective(ask, kind):
    with pytest.raises(TypeError, match=f"got the class {kind.__name__}"):
        ask(kind, ZERO)


def test_a_class_is_no_function_either():
    with pytest.raises(TypeError, match="fun must be a function, got the class Linear; pass an instance"):
        Function(torch.nn.Linear)
    with pytest.raises(TypeError, match="loss must be a function, got the class CrossEntropyLoss"):
        unsaddle.ModelObjective(torch.nn.Linear(1, 1), torch.nn.CrossEntropyLoss, [])
    with pytest.raises(TypeError, match="method must be a name or a function, got the class SGD"):
        minimize(SADDLE, ZERO, method=torch.optim.SGD)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda flag: unsaddle.is_minimum(SADDLE, ZERO, progress=flag), "progress"),
        (lambda flag: unsaddle.negative_curvature(SADDLE, ZERO, keep_history=flag), "keep_history"),
        (lambda flag: minimize(SADDLE, ZERO, progress=flag), "progress"),
        (lambda flag: unsaddle.eigenpairs(SADDLE, ZERO, progress=flag), "progress"),
        (lambda flag: unsaddle.eigenpairs(SADDLE, ZERO, copies=flag), "copies"),
        (lambda flag: unsaddle.morse_index(SADDLE, ZERO, progress=flag), "progress"),
        (lambda flag: unsaddle.spectral_density(SADDLE, ZERO, progress=flag), "progress"),
        (lambda flag: unsaddle.Function(torch.sum, gradient=flag), "gradient"),
        (lambda flag: unsaddle.FiniteSum(lambda x, t: x @ t[0], ZERO, gradient=flag), "gradient"),
        (lambda flag: unsaddle.Neon(torch.optim.SGD([torch.ones(1, requires_grad=True)]), escape=flag), "escape"),
    ],
)
@pytest.mark.parametrize("flag", ["no", np.ones(2)])
def test_a_flag_is_true_or_false(call, name, flag):
    with pytest.raises(TypeError, match=f"{name} must be True or False, got"):
        call(flag)


@pytest.mark.parametrize("callback", [5, "print", [], torch.nn.Linear])
def test_a_callback_has_to_be_callable(callback):
    with pytest.raises(TypeError, match="callback must take a Snapshot, got"):
        minimize(SADDLE, ZERO, callback=callback)


@pytest.mark.parametrize(
    "fun",
    [lambda x: np.sum(x**2), lambda x: np.cos(x).sum(), lambda x: float(np.sum(np.asarray(x) ** 2))],
    ids=["np.sum", "np.cos", "np.asarray"],
)
def test_numpy_inside_a_function_is_named_with_the_way_out(fun):
    with pytest.raises(TypeError, match=r"the objective calls NumPy .* unsaddle.numpy_function\(fun, jac\)"):
        is_minimum(Function(fun), ZERO)


@pytest.mark.parametrize(
    ("fun", "gradient", "message"),
    [
        (lambda x: (x @ x, 2 * x), False, "is it \\(value, gradient\\)\\? Pass gradient=True"),
        (lambda x: (x @ x, 2 * x.numpy()), True, "got ndarray; for NumPy code use unsaddle.numpy_function"),
        (lambda x: (x + 0j).sum(), False, "must return a real number, got complex128"),
    ],
    ids=["both", "a NumPy gradient", "complex"],
)
def test_what_a_function_returns_is_checked(fun, gradient, message):
    with pytest.raises(TypeError, match=message):
        is_minimum(Function(fun, gradient=gradient), ZERO)


def test_the_callers_own_errors_stay_as_they_are():
    with pytest.raises(ZeroDivisionError):
        is_minimum(Function(lambda x: x.sum() * (1 / 0)), ZERO, gamma=1e-300)
    with pytest.raises(TypeError, match="unsupported operand"):
        is_minimum(Function(lambda x: x.sum() + None), ZERO)


EXTREMES = (5e-324, 1e-300, 1e-150, 1e150, 1e300)


@by_name
@pytest.mark.parametrize("name", ["eps", "gamma", "delta"])
@pytest.mark.parametrize("value", EXTREMES)
def test_extreme_numbers_are_taken_or_refused(ask, name, value):
    """The default method and extractor compute with them."""
    if ask is negative_curvature and name == "eps":
        pytest.skip("no such argument")
    if name == "delta" and not 1e-300 <= value < 1.0:
        with pytest.raises(ValueError, match="delta must be between 0 and 1"):
            ask(SADDLE, ZERO, delta=value)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ask(SADDLE, ZERO, **{name: value})
    assert not math.isnan(result.cost.gradients)


@pytest.mark.slow
@pytest.mark.parametrize("method", method_names())
def test_extreme_numbers_make_no_method_fail_in_its_arithmetic(method):
    rows = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    F = FiniteSum(lambda x, a: (a @ x).square().mean() / 2 + (x**4).sum() - x[0] ** 2, rows)
    refused = []
    for name, value in ((name, value) for name in ("eps", "gamma", "delta") for value in EXTREMES):
        try:
            minimize(F, [0.1, 0.0, 0.2], method=method, max_samples=500, **{name: value})
        except ValueError as error:
            refused.append((name, str(error)))
    assert all(name in said for name, said in refused)
    assert len(refused) < 12


@pytest.mark.parametrize("name", ["eps", "gamma", "delta"])
@pytest.mark.parametrize("size", [1e-300, 1e300])
@pytest.mark.parametrize("ask", [*PUBLIC, unsaddle.morse_index], ids=lambda ask: ask.__name__)
def test_sizes_at_the_end_of_the_numbers_are_taken_or_refused(ask, name, size):
    """No ZeroDivisionError and no OverflowError comes out."""
    if name not in inspect.signature(ask).parameters:
        pytest.skip(f"{ask.__name__} has no {name}")
    if name == "delta" and size > 1.0:
        with pytest.raises(ValueError, match="delta must be between 0 and 1"):
            ask(SADDLE, ZERO, delta=size)
    else:
        assert ask(SADDLE, ZERO, **{name: size}).cost.gradients > 0
