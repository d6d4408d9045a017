"""Points that are flat to second order along a direction: values say which way F goes there."""

import pytest
import torch

from unsaddle import Function, is_minimum

ROTATION = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q


def along_flat(term, shift=0.0):
    """x² + z² and a term of higher order in y, in turned coordinates."""

    def fun(x):
        y = ROTATION @ x
        return y[0] ** 2 + y[2] ** 2 + term(y[1]) + shift

    return Function(fun)


ZERO = torch.zeros(3, dtype=torch.float64)


@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize(
    ("term", "ways"),
    [(lambda y: -(y**4), "both ways"), (lambda y: y**3, "one way"), (lambda y: -(y**3) / 3 + y**4, "one way")],
    ids=["-y^4", "y^3", "y^4 - y^3/3"],
)
def test_a_fall_of_higher_order_is_no_minimum(term, ways, shift):
    verdict = is_minimum(along_flat(term, shift), ZERO)
    assert verdict.kind == "undecided"
    assert "So x is no minimum" in verdict.reason
    assert ways in verdict.reason


@pytest.mark.parametrize("at", [0.0, 1e-9, 1e-5, 1e-4])
@pytest.mark.parametrize(
    "term",
    [lambda y: y**4, lambda y: 0.0 * y, lambda y: y**4 + y**3 * 1e-9, lambda y: y**6],
    ids=["y^4", "nothing", "nearly y^4", "y^6"],
)
def test_a_minimum_that_is_flat_stays_one_also_a_little_off_it(term, at):
    verdict = is_minimum(along_flat(term), at * ROTATION[1])
    assert verdict.kind == "minimum"
    assert ("Along one direction F is flat" in verdict.reason) == (at < 1e-4 or term(torch.tensor(0.1)) < 1e-5)


def test_noise_along_a_flat_direction_is_no_fall():
    """Values are off by 1e-9, which the dtype does not tell."""
    noise = torch.Generator().manual_seed(1)

    def fun(x):
        y = ROTATION @ x
        value = y[0] ** 2 + y[2] ** 2 + 1e-9 * float(torch.randn((), generator=noise))
        return value, ROTATION.T @ (2 * y * torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64))

    kinds = {is_minimum(Function(fun, gradient=True), ZERO, seed=seed).kind for seed in range(20)}
    assert kinds == {"minimum"}


def test_a_fall_of_higher_order_is_seen_in_float32_too():
    verdict = is_minimum(Function(lambda x: x[1] ** 2 - 5.0 * x[0] ** 4), torch.zeros(2))
    assert verdict.kind == "undecided"
    assert "So x is no minimum" in verdict.reason
