"""Points that are flat to second order along a direction: values say which way F goes there."""

import re

import pytest
import torch
from torch import nn

from benchmarks.verdict_cases.flat import flat
from benchmarks.verdicts import falls_by_higher_order
from unsaddle import Function, ModelObjective, is_minimum
from unsaddle.judgement.flat_direction import extrapolated_curvature

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
    is_told = "Along one direction the curvature is zero" in verdict.reason
    assert is_told == (at < 1e-4 or term(torch.tensor(0.1)) < 1e-5)


def test_noise_along_a_flat_direction_is_no_fall():
    """Values are off by 1e-9, which the dtype does not tell."""
    noise = torch.Generator().manual_seed(1)

    def fun(x):
        y = ROTATION @ x
        value = y[0] ** 2 + y[2] ** 2 + 1e-9 * float(torch.randn((), generator=noise))
        return value, ROTATION.T @ (2 * y * torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64))

    kinds = {is_minimum(Function(fun, gradient=True), ZERO, seed=seed).kind for seed in range(20)}
    assert kinds == {"minimum"}


def lower_by(verdict, f, x):
    """How far F is lower at the point that an undecided verdict names."""
    length = float(re.search(r"Go on from x \+ ([0-9.e+-]+)·v", verdict.reason)[1])
    f = f.sample()
    return float(f.value(x)) - float(f.value(x + length * verdict.evidence.deciding[0]))


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x[1] ** 2 - 5.0 * x[0] ** 4,
        lambda x: x[1] ** 2 + x[0] ** 3 + x[0] ** 4,
        lambda x: x[1] ** 2 + x[0] ** 5,
        lambda x: (x[0] - x[1] ** 2) * (x[0] - 3.0 * x[1] ** 2),
    ],
    ids=["x² - 5y⁴", "x² + y³ + y⁴", "x² + y⁵", "along a curve"],
)
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_fall_of_higher_order_is_seen_in_float32_too(fun, size):
    f, x = Function(lambda x: size * fun(x)), torch.zeros(2)
    verdict = is_minimum(f, x)
    assert verdict.kind == "undecided"
    assert "So x is no minimum" in verdict.reason
    assert lower_by(verdict, f, x) > 0.0


@pytest.mark.parametrize("share", [1e-5, 1e-4, 1e-3])
def test_a_soft_minimum_beside_a_cubic_term_stays_one_in_float32(share):
    """F is lower than at x from a distance of 2·share on, where values do not show that it rises first."""
    f = Function(lambda x: 0.5 * x[0] ** 2 + 0.5 * share * x[1] ** 2 + 0.25 * x[1] ** 3 + 1.0)
    assert is_minimum(f, torch.zeros(2)).kind == "minimum"


def zero_network(layers, activation, convolves):
    """A network whose weights are all zero, and whose last bias fits the mean."""
    generator = torch.Generator().manual_seed(layers)
    x = torch.randn(64, 1, 4, 4, generator=generator)
    y = torch.tanh(x.flatten(1).sum(1, keepdim=True))
    first = [nn.Conv2d(1, 3, 3, padding=1), activation(), nn.Flatten()] if convolves else [nn.Flatten()]
    width = 48 if convolves else 16
    inner = [part for _ in range(layers - 1 - convolves) for part in (nn.LazyLinear(8), activation())]
    model = nn.Sequential(*first, *inner, nn.Linear(8, 1))
    model(x[:1])
    assert width == next(m for m in model if isinstance(m, nn.Linear)).in_features
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    model[-1].bias.data += y.mean()
    return model, x, y


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("convolves", [False, True], ids=["MLP", "CNN"])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.GELU])
@pytest.mark.parametrize("layers", [3, 4])
def test_a_network_that_begins_at_zero_is_no_minimum(layers, activation, convolves, dtype):
    """F is flat to the order of the layers less one."""
    model, x, y = zero_network(layers, activation, convolves)
    f = ModelObjective(model.to(dtype), lambda m, b: ((m(b[0]) - b[1]) ** 2).mean(), [(x.to(dtype), y.to(dtype))])
    verdict = is_minimum(f)
    assert verdict.kind == "undecided"
    assert "So x is no minimum" in verdict.reason
    assert lower_by(verdict, f, f.point) > 1e-9


def test_what_is_named_is_lower_in_a_metric_too():
    f, x = along_flat(lambda y: y**3), ZERO
    verdict = is_minimum(f, x, metric=torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64))
    assert verdict.kind == "undecided"
    assert lower_by(verdict, f, x) > 0.0


def test_a_stiff_minimum_costs_no_evaluation_more():
    f = Function(lambda x: (x**2).sum() + (x**4).sum())
    assert is_minimum(f, torch.zeros(5, dtype=torch.float64)).cost.gradients == 11


@pytest.mark.parametrize("power", [1, 2, 3])
def test_the_curvature_is_extrapolated_over_any_power(power):
    f = Function(lambda x: x[0] ** 2 / 2.0 + x[0].abs() ** (2 + power)).sample()
    one, zero = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    value, error = extrapolated_curvature(f, zero, one, 0.1)
    assert value == pytest.approx(1.0, abs=1e-6)
    assert abs(value - 1.0) <= error


def test_benchmarks_verdicts_reads_the_lower_point_that_the_reason_names():
    case = flat(0, "float64")
    verdict = is_minimum(case.objective, case.x, seed=case.seed)
    assert verdict.kind == "undecided"
    assert falls_by_higher_order(verdict, case)
