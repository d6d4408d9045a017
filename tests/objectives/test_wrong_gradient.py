"""A gradient that is not that of the function is named; noise, kinks and flat functions are no mistakes."""

import numpy as np
import pytest
import torch

from unsaddle import is_minimum, numpy_function
from unsaddle.objectives.wrong_gradient import GradientCheck


def hidden_saddle(x):
    return float(x[0] ** 2 - x[1] ** 2 + 5.0)


WRONG = {
    "a sign": (hidden_saddle, lambda x: np.array([2.0 * x[0], 2.0 * x[1]])),
    "a factor": (lambda x: float(x @ x), lambda x: x),
    "a negative": (lambda x: float(x @ x), lambda x: -2.0 * x),
    "a component": (lambda x: float((x**4).sum() + x @ x), lambda x: 4.0 * x**3 + 2.0 * np.r_[0.0, x[1:]]),
}


@pytest.mark.parametrize("at", [0.0, 3.0])
@pytest.mark.parametrize(("fun", "jac"), WRONG.values(), ids=WRONG)
def test_a_wrong_jac_is_an_error_and_no_verdict(fun, jac, at):
    f = numpy_function(lambda x: fun(x - at), lambda x: jac(x - at))
    with pytest.raises(ValueError, match=r"jac is not the gradient of fun.* by jac but .* by values of fun; correct"):
        is_minimum(f, at + torch.zeros(2, dtype=torch.float64))


def noisy(x):
    return float(x @ x + 1e-6 * np.sin(1e9 * x.sum()))


RIGHT = {
    "smooth": (lambda x: float(np.cos(x).sum()), lambda x: -np.sin(x)),
    "of sixth order": (lambda x: float((x**6).sum()), lambda x: 6.0 * x**5),
    "a kink": (lambda x: float(np.abs(x).sum()), np.sign),
    "noise": (noisy, lambda x: 2.0 * x),
    "ends": (lambda x: float(np.sqrt(1e-4 - x @ x)), lambda x: -x / np.sqrt(1e-4 - x @ x)),
    "constant": (lambda x: 1.0, lambda x: 0.0 * x),
    "saturated": (lambda x: float(np.tanh(40.0 + x).sum()), lambda x: 1.0 / np.cosh(40.0 + x) ** 2),
    "quick": (lambda x: float(np.cos(1e4 * x).sum()), lambda x: -1e4 * np.sin(1e4 * x)),
}


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize(("fun", "jac"), RIGHT.values(), ids=RIGHT)
def test_a_right_jac_is_never_called_wrong(fun, jac):
    is_minimum(numpy_function(fun, jac), torch.zeros(3, dtype=torch.float64))
    is_minimum(numpy_function(fun, jac), torch.full((3,), 0.001, dtype=torch.float64))


FAR = np.linspace(3e7, 5e7, 40)


def textured(x):
    return float((5e-9 * (x - FAR) ** 2 - 1e-3 * np.cos(x - FAR + 1.0)).sum())


def names(factor, seed):
    """Whether a gradient that is off by a factor is called wrong."""
    check, beside = GradientCheck(textured), 1e5 * np.random.default_rng(seed).normal(size=40)
    try:
        for x in (FAR, FAR + beside):
            check.note(x, textured(x), factor * (1e-8 * (x - FAR) + 1e-3 * np.sin(x - FAR + 1.0)))
    except ValueError:
        return True
    return False


def test_a_fine_texture_is_no_mistake():
    """As FLETCBV3 of CUTEst at ‖x‖ = 4e8: gradients have it, and values farther out than a few units do not."""
    assert not any(names(1.0, seed) for seed in range(20))
    assert all(names(factor, seed) for factor in (-1.0, 3.0) for seed in range(20))


def test_a_smooth_function_pays_nothing_and_a_doubt_is_counted():
    calls = []

    def sixth(x):
        calls.append(1)
        return float((x**6).sum())

    smooth = is_minimum(numpy_function(lambda x: float(x @ x), lambda x: 2.0 * x), torch.zeros(3).double())
    assert smooth.cost.values == 0
    f = numpy_function(sixth, lambda x: 6.0 * x**5).sample()
    f.grad(torch.zeros(3).double())
    f.grad(torch.full((3,), 0.1).double())
    f.grad(torch.full((3,), 0.2).double())
    assert (f.cost.gradients, f.cost.values, len(calls)) == (3, 6, 9)
