"""Algorithms 1 to 3 as printed, against plain loops that were written from the paper alone, and by the public call."""

import math

import numpy as np
import pytest
import torch

from tests.curvature import plain_algorithms as plain
from tests.curvature.accelerated import at_zero, plus
from tests.curvature.quadratics import quadratic, random_symmetric, rng
from unsaddle import Function, NeonPlusSettings, NeonSettings, Status, negative_curvature, vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.printed import neon_as_printed, neon_plus_as_printed

DIMENSION = 8
OWN = {"step_size": 0.3, "num_steps": 60, "noise_radius": 1e-2, "trust_radius": 0.5}


def problem(seed, lowest, quartic):
    """½xᵀHx + bᵀx + c·Σx⁴ at a random x, as a function of torch and as (f, grad) of numpy."""
    hessian, generator = random_symmetric(DIMENSION, seed, lowest=lowest, largest=1.0), rng(seed)
    slope, x = (torch.randn(DIMENSION, generator=generator, dtype=torch.float64) for _ in range(2))
    f = Function(lambda x: 0.5 * x @ hessian @ x + slope @ x + quartic * (x**4).sum())
    H, b = hessian.numpy(), slope.numpy()
    by_numpy = (
        lambda z: 0.5 * z @ H @ z + b @ z + quartic * (z**4).sum(),
        lambda z: H @ z + b + 4.0 * quartic * z**3,
    )
    return f, x, by_numpy


def noise(settings, x, seed):
    return vectors.random_in_ball(x, settings.noise_radius, rng(seed)).numpy()


@pytest.mark.parametrize("lowest", [-1.0, -0.3, 0.05])
@pytest.mark.parametrize("decrease", [1e-6, 1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("quartic", [0.0, 0.02])
def test_neon_is_algorithm_1(lowest, decrease, quartic):
    found = 0
    for seed in range(4):
        f, x, (value, grad) = problem(seed, lowest, quartic)
        settings = NeonSettings(decrease=decrease, **OWN)
        expected = plain.neon(
            value, grad, x.numpy(), noise(settings, x, seed), t=60, decrease=decrease, trust_radius=0.5, step_size=0.3
        )
        candidate = neon_as_printed(DisplacedFunction(f.sample(), x), settings, rng(seed))
        if not expected.any():
            assert (candidate.status, candidate.vector) == (Status.NOTHING_FOUND, None)
        else:
            found += 1
            assert candidate.status is Status.FOUND
            assert np.allclose(candidate.vector.numpy(), expected, rtol=1e-9, atol=1e-12)
    if quartic == 0.0:  # Else the Hessian at x is not H.
        assert (found > 0) == (lowest < 0.0)


def exits(lowest, decrease, quartic, momentum, gamma, radius=1e-2, t=60):
    """Runs 10 seeds of both implementations, compares them, and returns the exits of the plain one.

    That has no guard against rounding, so where the iterates shrink it must not run long.
    """
    taken = []
    for seed in range(10):
        f, x, (value, grad) = problem(seed, lowest, quartic)
        settings = NeonPlusSettings(
            decrease=decrease,
            momentum=momentum,
            gamma=gamma,
            **OWN | {"noise_radius": radius, "trust_radius": 5.0, "num_steps": t},
        )
        own = {"decrease": decrease, "trust_radius": 5.0, "momentum": momentum, "step_size": 0.3, "gamma": gamma}
        expected, exit_ = plain.neon_plus(value, grad, x.numpy(), noise(settings, x, seed), t=t, **own)
        candidate = neon_plus_as_printed(DisplacedFunction(f.sample(), x), settings, rng(seed))
        taken.append(exit_)
        if exit_ == "nothing":
            assert (candidate.status, candidate.vector) == (Status.NOTHING_FOUND, None)
        else:
            assert candidate.status is Status.FOUND
            assert np.allclose(candidate.vector.numpy(), expected, rtol=1e-8, atol=1e-10)
    return taken


@pytest.mark.parametrize("quartic", [0.0, 0.02])
@pytest.mark.parametrize(
    ("expected", "how"),
    [
        ("ncfind y-u", {"lowest": -1.0, "decrease": 1e6, "momentum": 0.65, "gamma": 0.4}),
        ("ncfind y_j", {"lowest": -1.0, "decrease": 1e-9, "momentum": 0.65, "gamma": 0.4, "radius": 1.0, "t": 20}),
        ("best", {"lowest": -0.3, "decrease": 1e-6, "momentum": 0.4, "gamma": 1.2}),
        ("nothing", {"lowest": 0.05, "decrease": 1e-6, "momentum": 0.65, "gamma": 0.4, "t": 15}),
    ],
)
def test_neon_plus_is_algorithm_2_with_ncfind(expected, how, quartic):
    assert expected in exits(quartic=quartic, **how)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("distance", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_convex_functions_have_nothing(dtype, distance, offset):
    """Line 4 compares numbers that rounding rules once the iterates are short; f̂ ≤ −2𝓕 does so under an offset."""
    for seed in range(2):
        hessian = random_symmetric(DIMENSION, seed, lowest=0.01, largest=1.0).to(dtype)
        f = Function(lambda x, hessian=hessian: (0.5 * x @ hessian @ x + offset, hessian @ x), gradient=True)
        x = distance * torch.randn(DIMENSION, generator=rng(seed), dtype=torch.float64).to(dtype)
        own = OWN | {"num_steps": 200, "noise_radius": 0.1, "trust_radius": 10.0, "decrease": 1e-2}
        f_hat = DisplacedFunction(f.sample(), x)
        settings = NeonPlusSettings(momentum=0.8, gamma=0.1, **own)
        assert neon_plus_as_printed(f_hat, settings, rng(seed)).status is Status.NOTHING_FOUND
        assert neon_as_printed(f_hat, settings, rng(seed)).status is Status.NOTHING_FOUND


@pytest.mark.parametrize("algorithm", [neon_as_printed, neon_plus_as_printed])
def test_a_decrease_below_rounding_is_not_called_nothing(algorithm):
    """At ‖x‖ = 1e6, gradients are exact to 1e-10, so at r = 1e-8 f̂ is known to 1e-18 only."""
    status = set()
    for seed in range(20):
        hessian = random_symmetric(DIMENSION, seed, lowest=0.01, largest=1.0)
        x = 1e6 * torch.randn(DIMENSION, generator=rng(seed), dtype=torch.float64)
        own = {"step_size": 0.3, "num_steps": 200, "noise_radius": 1e-8, "trust_radius": 1.0, "decrease": 1e-24}
        settings = NeonPlusSettings(momentum=0.8, gamma=1e6, **own)
        status.add(algorithm(DisplacedFunction(quadratic(hessian).sample(), x), settings, rng(seed)).status)
    assert Status.PRECISION_TOO_LOW in status
    assert Status.FOUND not in status


@pytest.mark.parametrize(("algorithm", "times"), [(neon_as_printed, 2.5), (neon_plus_as_printed, 2.0)])
def test_the_best_iterate_is_returned_if_it_falls_by_so_many_times_the_decrease(algorithm, times):
    """f̂ ≤ −2.5𝓕, and −2𝓕 where NCFind does not end the run: γ is too large for it."""
    hessian = torch.diag(torch.tensor([-0.5, 1.0], dtype=torch.float64))

    def run(decrease):
        f_hat = DisplacedFunction(quadratic(hessian).sample(), torch.zeros(2, dtype=torch.float64))
        return algorithm(f_hat, NeonPlusSettings(momentum=0.4, gamma=1e6, decrease=decrease, **OWN), rng())

    u = run(1e-9).vector
    fall = -0.5 * float(u @ hessian @ u)
    assert run(0.99 * fall / times).status is Status.FOUND
    assert run(1.01 * fall / times).status is Status.NOTHING_FOUND


def test_neon_takes_t_gradients_and_a_value_and_neon_plus_one_more_and_a_value_a_step():
    for algorithm, gradients, values in ((neon_as_printed, 26, 1), (neon_plus_as_printed, 27, 25)):
        f = quadratic(torch.eye(5, dtype=torch.float64)).sample()
        f_hat = DisplacedFunction(f, torch.zeros(5, dtype=torch.float64))
        algorithm(f_hat, plus(num_steps=25, decrease=1e300), rng())
        assert (f.cost.gradients, f.cost.values) == (gradients, values)


@pytest.mark.parametrize("offset", [0.0, 1e9])
@pytest.mark.parametrize("algorithm", [neon_as_printed, neon_plus_as_printed])
def test_the_decrease_is_seen_where_values_cancel(algorithm, offset):
    """Under a value of 1e9, whose last digit is 1e-7, gradients tell that f̂ is −1e-4 or so."""
    hessian = torch.diag(torch.tensor([-1.0, 1.0], dtype=torch.float64))
    f = Function(lambda x: 0.5 * x @ hessian @ x + offset).sample()
    f_hat = DisplacedFunction(f, torch.zeros(2, dtype=torch.float64))
    own = {"step_size": 0.3, "num_steps": 15, "noise_radius": 1e-2, "trust_radius": 0.2, "hessian_lipschitz": 1.0}
    for decrease, status in ((1e-5, Status.FOUND), (0.02, Status.NOTHING_FOUND)):
        settings = NeonPlusSettings(momentum=0.3, gamma=1e9, decrease=decrease, **own)
        assert algorithm(f_hat, settings, rng(1)).status is status


@pytest.mark.parametrize("algorithm", [neon_as_printed, neon_plus_as_printed])
@pytest.mark.parametrize(("value", "slope"), [(math.inf, 1.0), (-math.inf, 1.0), (1.0, math.inf), (math.nan, 1.0)])
def test_what_is_not_finite_is_not_found(algorithm, value, slope):
    """Beyond a radius values, or gradients, are no numbers."""

    def cliff(x):
        far = x.norm() > 1.1
        return (torch.tensor(value) if far else -0.5 * x @ x), (torch.full_like(x, slope) if far else -x)

    f_hat = DisplacedFunction(Function(cliff, gradient=True).sample(), torch.zeros(4, dtype=torch.float64))
    found = algorithm(f_hat, plus(decrease=1e300, num_steps=100), rng())
    assert (found.status, found.vector) == (Status.NOT_FINITE, None)


def test_what_was_found_before_a_cliff_counts():
    def cliff(x):
        far = x.norm() > 1.1
        return (torch.tensor(math.nan) if far else -0.5 * x @ x), -x

    f_hat = DisplacedFunction(Function(cliff, gradient=True).sample(), torch.zeros(4, dtype=torch.float64))
    found = neon_as_printed(f_hat, NeonSettings(decrease=1e-3, **OWN | {"trust_radius": 1.0}), rng())
    assert found.status is Status.FOUND
    assert float(found.vector.norm()) <= 1.0


@pytest.mark.parametrize("algorithm", [neon_as_printed, neon_plus_as_printed])
def test_a_step_that_is_too_long_is_named(algorithm):
    f_hat = at_zero(torch.diag(torch.tensor([1.0, 100.0], dtype=torch.float64)))
    settings = plus(step_size=0.1, decrease=1e3, num_steps=30, noise_radius=1e-3)
    assert algorithm(f_hat, settings, rng()).status is Status.SMOOTHNESS_EXCEEDED


SADDLE = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
ORIGIN = torch.zeros(2, dtype=torch.float64)
CHOSEN = {"step_size": 0.1, "num_steps": 40, "noise_radius": 0.01, "trust_radius": 0.5, "decrease": 1e-2}


@pytest.mark.parametrize(
    ("extractor", "settings"),
    [("neon", NeonSettings(**CHOSEN)), ("neon+", NeonPlusSettings(momentum=0.6, gamma=1.5, **CHOSEN))],
)
def test_the_public_call_takes_your_own_constants(extractor, settings):
    result = negative_curvature(SADDLE, ORIGIN, extractor=extractor, settings=settings)
    assert (result.status, result.extractor) == (Status.FOUND, extractor)
    assert result.curvature <= -0.75
    assert result.cost.values > 0  # The printed tests compare values.
    nowhere = negative_curvature(
        SADDLE, torch.tensor([0.0, 2.0]).double().sqrt(), extractor=extractor, settings=settings
    )
    assert nowhere.status is Status.NOTHING_FOUND


def test_a_budget_shortens_them():
    settings = NeonPlusSettings(momentum=0.6, gamma=1.5, **CHOSEN | {"num_steps": 10**12})
    result = negative_curvature(SADDLE, ORIGIN, extractor="neon+", settings=settings, max_gradients=100)
    assert result.status in (Status.FOUND, Status.BUDGET_SPENT)
    assert result.cost.gradients <= 100


def test_settings_of_another_extractor_are_refused():
    with pytest.raises(
        TypeError, match=r"'neon\+' must be .* a NeonPlusSettings, got NeonSettings; use extractor='neon'"
    ):
        negative_curvature(SADDLE, ORIGIN, extractor="neon+", settings=NeonSettings(**CHOSEN))
    with pytest.raises(TypeError, match="'auto' must be 'practical', got NeonSettings; use extractor='neon'"):
        negative_curvature(SADDLE, ORIGIN, settings=NeonSettings(**CHOSEN))
    with pytest.raises(TypeError, match="must be 'practical', 'theory' or a NeonSettings, got dict"):
        negative_curvature(SADDLE, ORIGIN, extractor="neon", settings=CHOSEN)


@pytest.mark.parametrize(("extractor", "kind"), [("neon", NeonSettings), ("neon+", NeonPlusSettings)])
@pytest.mark.parametrize("radius", [1e-6, 1e-5, 1e-4, 1e-3])
def test_noise_shorter_than_the_spacing_of_x_is_named_and_misleads_nobody(extractor, kind, radius):
    """In float32 numbers near 100 are 8e-6 apart. There is a curvature of −1."""
    curvatures, x = torch.tensor([-1.0, 1.0, 1.0, 1.0, 1.0]), torch.full((5,), 100.0)
    f = Function(lambda x: 0.5 * (curvatures * (x - 100.0) ** 2).sum())
    own = {"step_size": 0.3, "num_steps": 60, "noise_radius": radius, "trust_radius": 1.0, "decrease": 1e-4}
    settings = kind(**own) if kind is NeonSettings else kind(momentum=0.5, gamma=0.9, **own)
    seen = {negative_curvature(f, x, extractor=extractor, settings=settings, seed=seed).status for seed in range(20)}
    assert seen <= {Status.FOUND, Status.PRECISION_TOO_LOW}
    assert (Status.FOUND in seen) == (radius >= 1e-5)


def test_nothing_passed_is_not_called_a_proof_with_your_own_constants():
    too_few = negative_curvature(SADDLE, ORIGIN, extractor="neon", settings=NeonSettings(**CHOSEN | {"num_steps": 1}))
    assert too_few.status is Status.NOTHING_FOUND
    assert math.isnan(too_few.delta)
    assert "follows from them alone" in str(too_few)
    assert "probability" not in str(too_few)


def test_two_gammas_are_refused():
    settings = NeonPlusSettings(momentum=0.6, gamma=1.5, **CHOSEN)
    with pytest.raises(ValueError, match=r"gamma must be that of the settings, 1.5, got 5.0; leave one of them out"):
        negative_curvature(SADDLE, ORIGIN, extractor="neon+", settings=settings, gamma=5.0)
