"""`negative_curvature`: what it costs, what it refuses, and what it says when the function misbehaves."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import unsaddle
from unsaddle import FiniteSum, Function, Stream, numpy_function
from unsaddle.cost import Cost, Ledger
from unsaddle.curvature import Curvature, Status, auto, negative_curvature
from unsaddle.curvature.registry import EXTRACTORS, GRADIENT_ONLY
from unsaddle.objective import SampledFunction
from unsaddle.problems import prescribed_spectrum, spectra, zoo

SECOND_ORDER = frozenset(EXTRACTORS) - frozenset(GRADIENT_ONLY)
DOUBLE = torch.float64
SADDLE = torch.tensor([-1.0, 0.25, 0.5, 1.0, 2.0, 4.0], dtype=DOUBLE)
BOWL = torch.tensor([0.125, 0.25, 0.5, 1.0, 2.0, 4.0], dtype=DOUBLE)
ZERO = torch.zeros(6, dtype=DOUBLE)
KNOWN = {"gamma": 1.0, "smoothness": 4.0, "hessian_lipschitz": 0.0}


def diagonal(s: Tensor) -> Function:
    return Function(lambda x: (0.5 * (s * x * x).sum(), s * x), gradient=True, hvp=lambda x, v: s * v)


def diagonal_sum(s: Tensor, n: int) -> FiniteSum:
    """n components ½Σ w_i·s_j·x_j² with weights w_i that are all one: every sample is the whole."""
    return FiniteSum(
        lambda x, w: (0.5 * w.mean() * (s * x * x).sum(), w.mean() * s * x),
        torch.ones(n, dtype=s.dtype),
        gradient=True,
        hvp=lambda x, v, w: w.mean() * s * v,
    )


# --- What it costs --------------------------------------------------------------------------------------------------

# d = 6, δ = 0.05, γ = 1, L1 = 4, so η = 1/(2·L1) = 1/8 and log(d/δ²) = ln 2400 = 7.783224.
#   neon    t = ⌈7.783224/(1/8)⌉ = ⌈62.27⌉ = 63
#   neon+   t = ⌈2·7.783224/√(1/8)⌉ = ⌈44.03⌉ = 45
#   power   t = ⌈4·7.783224⌉ = ⌈31.13⌉ = 32 products
#   lanczos min(6, 1 + ⌈½·ln(2.75·2400)·√8⌉) = min(6, 14) = 6 products
#   oja     a plain function is one batch, so one round of 63 products, and one to judge the last iterate
#   first-order oja: two gradients a step, two to judge
# and one gradient at x, which every extractor starts with.
NOTHING = {
    "neon": Cost(gradients=1 + 63, samples=1 + 63),
    "neon+": Cost(gradients=1 + 45, samples=1 + 45),
    "power": Cost(gradients=1, samples=1, hessian_products=32, hessian_samples=32),
    "lanczos": Cost(gradients=1, samples=1, hessian_products=6, hessian_samples=6),
    "oja": Cost(gradients=1, samples=1, hessian_products=63 + 1, hessian_samples=63 + 1),
    "oja-first-order": Cost(gradients=1 + 2 * 63 + 2, samples=1 + 2 * 63 + 2),
}


@pytest.mark.parametrize("method", NOTHING)
def test_finding_nothing_costs_every_step_or_fewer_where_the_iterate_shrinks(method: str) -> None:
    result = negative_curvature(diagonal(BOWL), ZERO, extractor=method, **KNOWN)
    assert result.status is Status.NOTHING_FOUND
    if method in ("neon", "neon+"):
        steep = negative_curvature(diagonal(BOWL + 2.0), ZERO, extractor=method, **KNOWN | {"smoothness": 6.0})
        assert steep.cost.gradients < result.cost.gradients < NOTHING[method].gradients
    else:
        assert result.cost == NOTHING[method]


@pytest.mark.parametrize("method", NOTHING)
def test_finding_costs_the_steps_taken_and_six_gradients(method: str) -> None:
    result = negative_curvature(diagonal(SADDLE), ZERO, extractor=method, keep_history=True, **KNOWN)
    steps = len(result.history)
    assert result.status is Status.FOUND
    gradients, products = {
        "neon": (steps, 0),
        "neon+": (steps, 0),
        "power": (0, steps),
        "lanczos": (0, steps),
        "oja": (0, 63 + 1),  # All of a round, which is judged at its end.
        "oja-first-order": (2 * 63 + 2, 0),
    }[method]
    assert (result.cost.gradients, result.cost.hessian_products) == (1 + gradients + 6, products)
    assert result.cost == Cost(
        gradients=1 + gradients + 6,
        samples=1 + gradients + 6,
        hessian_products=products,
        hessian_samples=products,
    )
    assert 1 <= steps <= 63


@pytest.mark.parametrize("method", NOTHING)
def test_measuring_the_smoothness_costs_eight_gradients(method: str) -> None:
    known = negative_curvature(diagonal(BOWL), ZERO, gamma=1.0, extractor=method, smoothness=4.0)
    measured = negative_curvature(diagonal(BOWL), ZERO, gamma=1.0, extractor=method)
    assert 4.0 <= measured.smoothness <= 8.0
    # As many steps as its own estimate asks for.
    again = negative_curvature(diagonal(BOWL), ZERO, gamma=1.0, extractor=method, smoothness=measured.smoothness)
    if method in ("neon", "neon+"):  # The step that shows that there is nothing depends on the start.
        assert abs(measured.cost.gradients - 8 - again.cost.gradients) <= 5
    else:
        assert measured.cost == again.cost + Cost(gradients=8, samples=8)
    assert measured.status is known.status is Status.NOTHING_FOUND


@pytest.mark.parametrize("method", ["neon", "neon+", "power", "lanczos"])
def test_a_finite_sum_counts_every_component(method: str) -> None:
    one = negative_curvature(diagonal(SADDLE), ZERO, extractor=method, **KNOWN)
    all_of_them = negative_curvature(diagonal_sum(SADDLE, 50), ZERO, extractor=method, **KNOWN)
    assert all_of_them.cost == Cost(
        gradients=one.cost.gradients,
        samples=50 * one.cost.gradients,
        hessian_products=one.cost.hessian_products,
        hessian_samples=50 * one.cost.hessian_products,
    )


@pytest.mark.parametrize("method", ["neon", "neon+", "power", "lanczos"])
@pytest.mark.parametrize(("samples", "batches", "batch"), [(1, 4, 1), (3, 12, 1), (6, 24, 1), (7, 1, 50), (49, 1, 50)])
def test_fresh_samples_are_four_times_as_many_or_everything_at_two_gradients_a_batch(
    method: str, samples: int, batches: int, batch: int
) -> None:
    result = negative_curvature(
        diagonal_sum(SADDLE, 50), ZERO, extractor=method, samples=samples, keep_history=True, **KNOWN
    )
    assert result.status is Status.FOUND
    steps = len(result.history)
    steps, products = (0, steps) if method in SECOND_ORDER else (steps, 0)
    assert result.cost == Cost(
        gradients=1 + steps + 6 + 2 * batches,
        samples=samples * (1 + steps + 6) + 2 * batches * batch,
        hessian_products=products,
        hessian_samples=samples * products,
    )
    same, fresh = result.measurements
    assert (same.samples, same.fresh) == (samples, False)
    assert (fresh.samples, fresh.fresh) == (batches * batch, True)
    assert result.curvature == fresh.curvature


def test_all_samples_of_a_finite_sum_need_no_fresh_ones() -> None:
    result = negative_curvature(diagonal_sum(SADDLE, 50), ZERO, samples=50, **KNOWN)
    assert result.status is Status.FOUND
    assert len(result.measurements) == 1


@pytest.mark.slow
@pytest.mark.parametrize("smoothness", [4.0, None])
@pytest.mark.parametrize("samples", [None, 16])
@pytest.mark.parametrize("method", EXTRACTORS)
def test_a_budget_is_never_exceeded(method: str, samples: int | None, smoothness: float | None) -> None:
    for spectrum in (SADDLE, BOWL):
        for budget in (1, 2, 5, 6, 9, 13, 14, 20, 21, 22, 25, 30, 40, 60, 100):
            result = negative_curvature(
                diagonal_sum(spectrum, 20),
                ZERO,
                gamma=1.0,
                extractor=method,
                samples=samples,
                smoothness=smoothness,
                hessian_lipschitz=0.0,
                max_gradients=budget,
                seed=2,
            )
            assert result.cost.gradients + result.cost.hessian_products <= budget
            expected = {Status.BUDGET_SPENT, Status.FOUND if spectrum is SADDLE else Status.NOTHING_FOUND}
            assert result.status in expected
            if budget == 1:
                assert result.status is Status.BUDGET_SPENT
    ample = negative_curvature(
        diagonal_sum(SADDLE, 20), ZERO, extractor=method, samples=samples, max_gradients=10_000, seed=2, **KNOWN
    )
    assert ample.status is Status.FOUND


# --- History --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", EXTRACTORS)
def test_history_is_kept_only_if_asked_for(method: str) -> None:
    silent = negative_curvature(diagonal(SADDLE), ZERO, extractor=method, **KNOWN)
    result = negative_curvature(diagonal(SADDLE), ZERO, extractor=method, keep_history=True, **KNOWN)
    assert silent.history == ()
    assert silent.cost == result.cost
    spent = [calls for calls, _ in result.history]
    assert spent == sorted(set(spent))
    assert 1 <= spent[0] <= 4  # Krylov measures the noise first.
    assert spent[-1] <= result.cost.gradients + result.cost.hessian_products
    assert all(-1.0 - 1e-12 <= quotient <= 4.0 + 1e-12 for _, quotient in result.history)


@pytest.mark.parametrize("method", ["neon", "neon+", "power", "lanczos"])
def test_the_last_quotient_of_the_history_is_the_lowest_and_the_one_that_passed(method: str) -> None:
    result = negative_curvature(diagonal(SADDLE), ZERO, extractor=method, keep_history=True, **KNOWN)
    assert result.lowest == min(quotient for _, quotient in result.history)
    if method != "neon+":  # NCFind may return another vector than the one of the quotient.
        assert result.history[-1][1] == pytest.approx(result.curvature, abs=1e-9)


# --- Bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"objective": lambda x: x.sum()}, TypeError, r"wrap a callable as unsaddle\.Function"),
        ({"x": torch.zeros(6, dtype=torch.int64)}, TypeError, "x must be float32 or float64, got int64"),
        ({"x": torch.zeros(6, dtype=torch.bfloat16)}, TypeError, "x must be float32 or float64, got bfloat16"),
        ({"x": torch.zeros(2, 3)}, ValueError, r"x must have one dimension, got shape \(2, 3\)"),
        ({"x": torch.zeros(0)}, ValueError, "x is empty"),
        ({"x": {"a": 1.0}}, TypeError, "x must be a 1-D float tensor or array, or a list of numbers, got dict"),
        ({"gamma": 0.0}, ValueError, r"gamma must be a finite number > 0, got 0\.0; leave it out"),
        ({"gamma": -1.0}, ValueError, "gamma must be a finite number > 0"),
        ({"gamma": math.nan}, ValueError, "gamma must be a finite number > 0, got nan"),
        ({"gamma": True}, TypeError, "gamma must be a number, got True"),
        ({"delta": 0.0}, ValueError, "delta must be between 0 and 1"),
        ({"delta": 1.0}, ValueError, "delta must be between 0 and 1"),
        ({"smoothness": 0.0}, ValueError, "smoothness must be a finite number > 0.*leave it out to measure it"),
        ({"hessian_lipschitz": -1.0}, ValueError, "hessian_lipschitz must be a finite number >= 0"),
        ({"hessian_lipschitz": math.inf}, ValueError, "hessian_lipschitz must be a finite number >= 0"),
        ({"max_gradients": 0}, ValueError, "max_gradients must be at least 1"),
        ({"max_gradients": 1.5}, TypeError, "max_gradients must be an integer"),
        (
            {"extractor": "newton"},
            ValueError,
            r"extractor must be one of auto, .*neon, neon\+, .*lanczos, .*got 'newton'",
        ),
        ({"settings": "magic"}, ValueError, "settings must be one of practical, theory; got 'magic'"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
        ({"seed": 0.5}, TypeError, "seed must be an integer"),
        ({"samples": 21}, ValueError, "samples must be at most n = 20"),
        ({"samples": 0}, ValueError, "samples must be at least 1"),
    ],
)
def test_bad_input_is_refused_with_what_was_expected(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments = {"objective": diagonal_sum(SADDLE, 20), "x": ZERO} | change
    with pytest.raises(error, match=message):
        negative_curvature(arguments.pop("objective"), arguments.pop("x"), **arguments)


def test_a_function_has_nothing_to_sample() -> None:
    with pytest.raises(ValueError, match="samples must be at most n = 1, got 2; leave it out"):
        negative_curvature(diagonal(SADDLE), ZERO, samples=2)
    assert negative_curvature(diagonal(SADDLE), ZERO, samples=1, **KNOWN).found


@pytest.mark.parametrize("method", ["neon", "neon+"])
def test_theory_needs_hessian_lipschitz_and_a_budget(method: str) -> None:
    question = {"gamma": 1.0, "smoothness": 4.0, "extractor": method, "settings": "theory"}
    for missing in ({}, {"hessian_lipschitz": 0.0}):
        with pytest.raises(ValueError, match="settings='theory' needs hessian_lipschitz > 0"):
            negative_curvature(diagonal(SADDLE), ZERO, **question, **missing)
    with pytest.raises(ValueError, match=r"ask for up to .*e\+\d+ steps; pass max_gradients"):
        negative_curvature(diagonal(SADDLE), ZERO, **question, hessian_lipschitz=1.0)
    result = negative_curvature(diagonal(SADDLE), ZERO, **question, hessian_lipschitz=1.0, max_gradients=50)
    assert not result.found
    assert result.cost.gradients <= 50
    if method == "neon":  # NEON⁺'s printed test is rounding at its η = 1e-16, and calls NCFind for nothing.
        assert result.status is Status.BUDGET_SPENT


# --- Functions that misbehave ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("smoothness", [2.0, None])
@pytest.mark.parametrize("method", EXTRACTORS)
def test_not_finite_at_x_is_a_status(method: str, smoothness: float | None, bad: float) -> None:
    s = SADDLE * bad
    for f in (diagonal(s), Function(lambda x: (x.sum() * bad, SADDLE * x), gradient=True, hvp=lambda x, v: SADDLE * v)):
        result = negative_curvature(f, ZERO + 1.0, extractor=method, gamma=1.0, smoothness=smoothness)
        assert result.status is Status.NOT_FINITE
        assert result.cost.gradients == 1
    result = negative_curvature(diagonal(SADDLE), ZERO + math.nan, extractor=method, gamma=1.0, smoothness=smoothness)
    assert result.status is Status.NOT_FINITE


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("smoothness", [4.0, None])
@pytest.mark.parametrize("method", EXTRACTORS)
def test_not_finite_away_from_x_is_a_status(method: str, smoothness: float | None, bad: float) -> None:
    def edge(x: Tensor, g: Tensor) -> Tensor:
        return g * (1.0 if float(x.norm()) == 0.0 else bad)

    f = Function(
        lambda x: (0.5 * (SADDLE * x * x).sum(), edge(x, SADDLE * x)), gradient=True, hvp=lambda x, v: SADDLE * v
    )
    result = negative_curvature(f, ZERO, extractor=method, gamma=1.0, smoothness=smoothness, hessian_lipschitz=1.0)
    assert result.status is Status.NOT_FINITE
    assert not result.found


@pytest.mark.slow
@pytest.mark.parametrize("method", EXTRACTORS)
def test_a_function_that_ends_at_any_radius_never_gives_an_unmeasured_direction(method: str) -> None:
    """Also where it ends between the two radii of the measurement, so that one of them cannot be measured."""
    seen = set()
    for exponent in range(60):
        edge = 10.0 ** (-exponent / 5.0)

        def value_and_grad(x: Tensor, edge: float = edge) -> tuple[Tensor, Tensor]:
            return 0.5 * (SADDLE * x * x).sum(), SADDLE * x * (1.0 if float(x.norm()) < edge else math.nan)

        f = Function(value_and_grad, gradient=True, hvp=lambda x, v: SADDLE * v)
        result = negative_curvature(f, ZERO, extractor=method, gamma=1.0, smoothness=4.0, hessian_lipschitz=1.0)
        assert all(math.isfinite(m.error) for m in result.measurements) or not result.found
        seen.add(result.status)
    # krylov surveys the gradients around x, and comes as near as it has to.
    assert seen == {Status.FOUND} | (set() if method == "krylov" else {Status.NOT_FINITE})


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_fresh_sample_that_is_not_finite_is_a_status(bad: float) -> None:
    weights = torch.ones(100, dtype=DOUBLE)
    weights[50:] = bad
    objective = FiniteSum(lambda x, w: (0.0 * w.sum(), w.mean() * SADDLE * x), weights, gradient=True)
    statuses = [
        negative_curvature(objective, ZERO + 1.0, extractor="neon", samples=1, seed=seed, **KNOWN).status
        for seed in range(20)
    ]
    assert set(statuses) <= {Status.NOT_FINITE, Status.FOUND}  # Found where all the rows drawn happen to be good.
    assert statuses.count(Status.NOT_FINITE) >= 10


@pytest.mark.parametrize("method", EXTRACTORS)
def test_constant_and_affine_functions_are_flat(method: str) -> None:
    slope = torch.arange(6, dtype=DOUBLE)
    for f in (
        Function(lambda x: (torch.tensor(3.0), torch.zeros_like(x)), gradient=True, hvp=lambda x, v: 0.0 * v),
        Function(lambda x: (slope @ x, slope), gradient=True, hvp=lambda x, v: 0.0 * v),
        Function(lambda x: slope @ x),
    ):
        result = negative_curvature(f, ZERO + 1.0, extractor=method)
        assert result.status is Status.FLAT
        # At x, and one difference; Krylov then surveys, with nine gradients, two farther out, and takes it once more.
        spent = 2 + 8 * (method == "krylov")
        assert result.cost == Cost(gradients=spent, samples=spent)


@pytest.mark.parametrize("method", EXTRACTORS)
def test_in_one_dimension_both_signs_are_told_apart(method: str) -> None:
    x = torch.zeros(1, dtype=DOUBLE)
    for seed in range(20):
        question = {"gamma": 1.0, "smoothness": 1.0, "hessian_lipschitz": 0.5, "extractor": method, "seed": seed}
        down = negative_curvature(diagonal(torch.tensor([-1.0], dtype=DOUBLE)), x, **question)
        assert down.direction is not None
        assert abs(float(down.direction)) == 1.0
        assert down.curvature == pytest.approx(-1.0, rel=1e-9)
        up = negative_curvature(diagonal(torch.tensor([1.0], dtype=DOUBLE)), x, **question)
        assert up.status is Status.NOTHING_FOUND


# --- Forms of x -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", EXTRACTORS)
def test_every_form_of_the_same_x_gives_the_same_result(method: str) -> None:
    x = torch.linspace(-1.0, 1.0, 6, dtype=DOUBLE)
    plain = negative_curvature(diagonal(SADDLE), x, extractor=method, **KNOWN)
    assert plain.direction is not None
    strided = torch.stack([x, x + 1.0], dim=1)[:, 0]
    assert not strided.is_contiguous()
    read_only = x.numpy().copy()
    read_only.flags.writeable = False
    for form in (strided, x.clone().requires_grad_(), x.numpy(), read_only, np.repeat(x.numpy(), 2)[::2]):
        result = negative_curvature(diagonal(SADDLE), form, extractor=method, **KNOWN)
        assert result.direction is not None
        assert torch.equal(result.direction, plain.direction)
        assert not result.direction.requires_grad


def test_a_numpy_function_is_searched_without_hessian_products() -> None:
    s = SADDLE.numpy()
    f = numpy_function(lambda x: 0.5 * float(s @ x**2), jac=lambda x: s * x)
    assert negative_curvature(f, np.zeros(6), **KNOWN).curvature <= -0.5
    with pytest.raises(ValueError, match="no Hessian products"):
        negative_curvature(f, np.zeros(6), extractor="lanczos", **KNOWN)


# --- Gradients that share memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", GRADIENT_ONLY)
def test_a_gradient_that_is_x_itself_gives_the_same_result(method: str) -> None:
    x = torch.linspace(-1.0, 1.0, 6, dtype=DOUBLE)
    question = {"gamma": 0.5, "smoothness": 1.0, "extractor": method, "keep_history": True}
    aliasing = negative_curvature(Function(lambda x: (0.5 * x @ x, x), gradient=True), x, **question)
    honest = negative_curvature(Function(lambda x: (0.5 * x @ x, x.clone()), gradient=True), x, **question)
    assert aliasing.status is honest.status is Status.NOTHING_FOUND
    assert (aliasing.cost, aliasing.history) == (honest.cost, honest.history)
    assert torch.equal(x, torch.linspace(-1.0, 1.0, 6, dtype=DOUBLE))


@pytest.mark.parametrize("smoothness", [4.0, None])
@pytest.mark.parametrize("spectrum", [SADDLE, BOWL], ids=["saddle", "bowl"])
@pytest.mark.parametrize("method", GRADIENT_ONLY)
def test_a_gradient_that_reuses_one_buffer_gives_the_same_result(
    method: str, spectrum: Tensor, smoothness: float | None
) -> None:
    buffer = torch.empty(6, dtype=DOUBLE)

    def reusing(x: Tensor) -> tuple[Tensor, Tensor]:
        return 0.5 * (spectrum * x * x).sum(), torch.mul(spectrum, x, out=buffer)

    x = torch.linspace(-1.0, 1.0, 6, dtype=DOUBLE)
    question = {"gamma": 1.0, "extractor": method, "smoothness": smoothness, "keep_history": True}
    a = negative_curvature(Function(reusing, gradient=True), x, **question)
    b = negative_curvature(diagonal(spectrum), x, **question)
    assert (a.status, a.cost, a.history) == (b.status, b.cost, b.history)
    assert a.found == (spectrum is SADDLE)
    if a.direction is not None and b.direction is not None:
        assert torch.equal(a.direction, b.direction)


# --- Constants that are wrong ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("hessian_lipschitz", [0.0, 1.0, None])
@pytest.mark.parametrize("factor", [3.0, 4.0, 10.0, 100.0])
@pytest.mark.parametrize("method", EXTRACTORS)
def test_a_smoothness_that_is_too_small_is_noticed(method: str, factor: float, hessian_lipschitz: float | None) -> None:
    """λ_min = −γ, so "nothing found" would be wrong; found, or told that L1 is too small, is right."""
    s = torch.cat([torch.tensor([-0.1]), torch.linspace(0.0, 1.0, 199)]).double()
    for seed in range(3):
        result = negative_curvature(
            diagonal(s),
            torch.zeros(200, dtype=DOUBLE),
            gamma=0.1,
            extractor=method,
            smoothness=1.0 / factor,
            hessian_lipschitz=hessian_lipschitz,
            seed=seed,
        )
        assert result.status in (Status.FOUND, Status.SMOOTHNESS_EXCEEDED)
        if result.direction is not None:
            assert float(s @ result.direction**2) <= -0.05


def test_lanczos_with_a_smoothness_a_hundred_times_too_small_says_so() -> None:
    s = torch.cat([torch.tensor([-0.005]), torch.linspace(0.0, 1.0, 999)]).double()
    result = negative_curvature(
        diagonal(s), torch.zeros(1000, dtype=DOUBLE), gamma=0.005, extractor="lanczos", smoothness=0.01
    )
    assert result.status is Status.SMOOTHNESS_EXCEEDED


@pytest.mark.parametrize("method", EXTRACTORS)
def test_a_measured_smoothness_is_raised_until_it_holds(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unsaddle.measure.smoothness.smoothness", lambda product, like, generator: 0.2)
    result = negative_curvature(diagonal(SADDLE), ZERO, gamma=0.1, extractor=method, hessian_lipschitz=0.0)
    assert result.status is Status.FOUND
    assert float(SADDLE @ result.direction**2) <= -0.05


SADDLE_POINTS = [pytest.param(problem, problem.saddles[0], id=problem.name) for problem in zoo() if problem.saddles]


@pytest.mark.parametrize("method", ["neon", "neon+", "power", "lanczos"])
@pytest.mark.parametrize(("problem", "saddle"), SADDLE_POINTS)
def test_no_constant_has_to_be_known(problem: Any, saddle: Any, method: str) -> None:
    """γ is then a hundredth of the measured L1, which is below |λ_min| at the first saddle of every problem."""
    result = negative_curvature(problem.objective, saddle.point, extractor=method)
    assert result.status is Status.FOUND
    assert result.gamma == pytest.approx(result.smoothness / 100.0)
    v = result.direction
    truth = float(v @ problem.objective.sample(hessian=True).hvp(saddle.point, v))
    assert truth <= -result.gamma / 2.0
    assert abs(result.curvature - truth) <= result.measurements[-1].error


@pytest.mark.parametrize("method", GRADIENT_ONLY)
def test_a_gamma_below_the_rounding_of_float32_is_refused(method: str) -> None:
    s, x = SADDLE.float(), torch.full((6,), 100.0)
    result = negative_curvature(diagonal(s), x, gamma=1e-6, extractor=method, smoothness=4.0, hessian_lipschitz=1.0)
    if method == "krylov":  # What is seen counts: −1 stands out of the rounding.
        assert result.status is Status.FOUND
        assert abs(result.curvature + 1.0) <= max(result.measurements[-1].error, 1e-2)
    else:
        assert (result.status, result.cost.gradients) == (Status.PRECISION_TOO_LOW, 1)
    double = negative_curvature(
        diagonal(SADDLE), x.double(), gamma=0.5, extractor=method, smoothness=4.0, hessian_lipschitz=1.0
    )
    assert double.found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("hessian_lipschitz", [1e-3, 1e-2, None])
@pytest.mark.parametrize("method", EXTRACTORS)
def test_curvature_that_is_negative_only_far_away_is_not_called_found(
    method: str, hessian_lipschitz: float | None, seed: int
) -> None:
    """½‖x‖² − 500Σx⁴ bends down beyond |x_i| = 0.013, but not at 0, however small L2 is said to be."""

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        return 0.5 * x @ x - 500.0 * (x**4).sum(), x - 2000.0 * x**3

    f = Function(value_and_grad, gradient=True, hvp=lambda x, v: v - 6000.0 * x**2 * v)
    result = negative_curvature(
        f, ZERO, gamma=0.5, extractor=method, smoothness=1.0, hessian_lipschitz=hessian_lipschitz, seed=seed
    )
    assert not result.found


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("method", ["neon", "neon+"])
def test_a_cubic_ridge_has_no_curvature_and_none_is_found(method: str, dtype: torch.dtype) -> None:
    """−Σ|x|³/6 falls every way from 0, where its Hessian is zero: whatever is measured at a radius is truncation."""
    f = Function(lambda x: -(x.abs() ** 3).sum() / 6.0)
    for seed in range(20):
        result = negative_curvature(f, torch.zeros(5, dtype=dtype), extractor=method, seed=seed)
        assert not result.found


# --- Capabilities ---------------------------------------------------------------------------------------------------


class Spy:
    """A finite sum that remembers what was asked of it."""

    def __init__(self) -> None:
        self._objective = diagonal_sum(SADDLE, self.num_samples)
        self.given: list[SampledFunction] = []

    num_samples = 1000

    def sample(
        self,
        size: int | None = None,
        generator: torch.Generator | None = None,
        *,
        replacement: bool = False,
        hessian: bool = False,
        ledger: Ledger | None = None,
    ) -> SampledFunction:
        f = self._objective.sample(size, generator, replacement=replacement, hessian=hessian, ledger=ledger)
        self.given.append(f)
        return f


@pytest.mark.parametrize("method", ["auto", *GRADIENT_ONLY])
def test_a_gradient_only_extractor_is_given_functions_without_hessian_products(method: str) -> None:
    spy = Spy()
    result = negative_curvature(spy, ZERO, extractor=method, samples=16, seed=2, **KNOWN)
    assert result.found
    assert len(spy.given) >= 9
    assert not any(hasattr(f, "hvp") for f in spy.given)


@pytest.mark.parametrize("method", sorted(SECOND_ORDER))
def test_a_second_order_extractor_is_given_them_for_the_search_and_not_for_the_measurement(method: str) -> None:
    spy = Spy()
    result = negative_curvature(spy, ZERO, extractor=method, samples=16, seed=2, **KNOWN)
    assert result.found
    assert hasattr(spy.given[0], "hvp")
    assert not any(hasattr(f, "hvp") for f in spy.given[-8:])


def test_the_result_reads_as_a_line_and_a_table() -> None:
    found: Curvature = negative_curvature(diagonal(SADDLE), ZERO, extractor="neon", **KNOWN)
    lines = [line.split(maxsplit=1) for line in str(found).splitlines()]
    assert str(found).startswith("Negative curvature found and measured.\n")
    assert lines[-2:] == [["extractor", "neon"], ["cost", f"{found.cost.gradients} gradients"]]
    nothing = negative_curvature(diagonal(BOWL), ZERO, extractor="power", **KNOWN)
    assert "below -1" in str(nothing)
    assert str(nothing).endswith("1 gradient, 32 Hessian products")
    assert repr(nothing) == "<Curvature NOTHING_FOUND, power, 1 gradient, 32 Hessian products>"


def test_no_global_random_state_is_read_or_set() -> None:
    run: Callable[[], Curvature] = lambda: negative_curvature(diagonal(SADDLE), ZERO, **KNOWN)  # noqa: E731
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = run()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert torch.equal(run().direction, first.direction)


@pytest.mark.parametrize("where", [(0.0, 0.0), (0.0, 0.3), (-1.2, 0.7)])
def test_central_differences_are_reckoned_with(where: tuple[float, float]) -> None:
    """NumPy code without a gradient: its error is that of differences of values, far above rounding."""
    f = unsaddle.numpy_function(lambda z: z[0] ** 2 - z[1] ** 2)
    x = torch.tensor(where, dtype=torch.float64)
    found = [unsaddle.negative_curvature(f, x, seed=seed, delta=1e-3) for seed in range(20)]
    assert all(result.found for result in found)
    assert all(-2.0 - result.measurements[0].error - 1e-9 <= result.curvature < -1.9 for result in found)


@pytest.mark.parametrize("method", ["auto", "krylov"])
def test_theory_is_refused_where_there_is_none(method: str) -> None:
    f = unsaddle.Function(lambda x: (x * x).sum())
    with pytest.raises(ValueError, match="needs an extractor that the theory is about"):
        unsaddle.negative_curvature(f, torch.zeros(2), extractor=method, settings="theory")


def test_a_smaller_basis_is_taken_when_asked_for() -> None:
    problem = prescribed_spectrum(spectra.rank_one_negative(200, lowest=-0.02, largest=1.0))
    x = problem.saddles[0].point
    large, small = (negative_curvature(problem.objective, x, gamma=0.01, basis=basis) for basis in (150, 8))
    assert large.found
    assert small.found
    assert small.cost.gradients > large.cost.gradients  # Restarts cost steps.


def test_a_basis_that_cannot_hold_a_restart_is_refused() -> None:
    with pytest.raises(ValueError, match="basis must be"):
        negative_curvature(Function(lambda x: x @ x), torch.ones(3), basis=1)


def test_constants_that_were_measured_are_reported() -> None:
    f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 3 / 2)
    result = negative_curvature(f, torch.zeros(2, dtype=torch.float64))
    assert result.smoothness == pytest.approx(2.0, rel=1e-3)
    assert math.isnan(result.hessian_lipschitz)  # One gradient was enough, which tells nothing about L2.
    nothing = negative_curvature(Function(lambda x: x @ x + x[0] ** 3 / 6), torch.ones(2, dtype=torch.float64))
    assert nothing.status is Status.NOTHING_FOUND
    assert 0.0 <= nothing.hessian_lipschitz <= 1.0 + 1e-3
    assert 0.0 < nothing.relative_noise < 1e-13


def test_a_stream_needs_no_number_of_samples() -> None:
    stream = Stream(
        lambda x, t: ((x[0] - t) ** 2 - x[1] ** 2).mean(), lambda size, g: (torch.randn(size, generator=g),)
    )
    result = negative_curvature(stream, torch.zeros(2))
    assert result.found
    assert result.measurements[-1].fresh
    assert result.measurements[-1].deviation == pytest.approx(0.0, abs=1e-2)


def test_free_memory_is_that_of_the_machine_and_unknown_elsewhere() -> None:
    """As /proc has it, within what others take and free in between."""
    told = dict(line.split(":") for line in Path("/proc/meminfo").read_text().strip().split("\n"))
    free = int(told["MemFree"].split()[0]) << 10
    assert auto.free_memory(torch.device("cpu")) == pytest.approx(free, rel=0.5)
    assert auto.free_memory(torch.device("meta")) is None
