"""The search on quadratics with prescribed spectra, in coordinates that are the identity: what it counts and proves."""

import math

import numpy as np
import pytest
import torch

pytest.importorskip("ase")

from unsaddle import Function
from unsaddle.cost import Ledger
from unsaddle.interop.ase.coordinates import Coordinates
from unsaddle.interop.ase.search import CENTRAL, Probes, measured, search

D = 30


def quadratic(values, seed=0, noise=0.0, quartic=0.0):
    """½xᵀHx with these eigenvalues, turned at random; forces with an error of `noise` that repeats at no point."""
    turned = np.linalg.qr(np.random.default_rng(seed).normal(size=(D, D)))[0]
    matrix = torch.from_numpy(turned @ np.diag(values) @ turned.T)
    random = np.random.default_rng(seed + 1)

    def both(x):
        g = matrix @ x + quartic * x**3
        value = 0.5 * x @ matrix @ x + quartic * (x**4).sum() / 4.0
        return value, g + noise * torch.from_numpy(random.normal(size=D)) / math.sqrt(D)

    return Function(both, gradient=True), turned


def looked(function, budget=2 * (D + 3), seed=0):
    ledger = Ledger()
    space = Coordinates(np.eye(D), 0, 1.0)
    probes = Probes(function.sample(ledger=ledger), torch.zeros(D, dtype=torch.float64), space)
    found = search(probes, space, delta=1e-3, budget=budget, generator=torch.Generator().manual_seed(seed))
    return found, ledger.gradients, probes


def spectrum(lowest):
    return np.concatenate([[lowest], np.linspace(0.5, 1.5, D - 1)])


@pytest.mark.parametrize("seed", range(5))
def test_a_minimum_is_proven_long_before_the_end(seed):
    found, calls, _ = looked(quadratic(spectrum(0.5), seed)[0], seed=seed)
    assert found.bound == 0.0
    assert found.motion is None
    assert calls == len(found.history) + 2 < D / 2


@pytest.mark.parametrize("energy", [np.nan, np.inf, -1e308])
def test_energies_that_are_no_use_are_left_out(energy):
    function, turned = quadratic(spectrum(-0.01), 0)
    f, calls = function.sample(), []

    def both(x):
        calls.append(x)
        value, grad = f.value_and_grad(x)
        return (torch.tensor(energy, dtype=x.dtype) if len(calls) > 4 else value), grad

    found, *_ = looked(Function(both, gradient=True))
    assert found.motion.curvature == pytest.approx(-0.01, rel=0.3)
    assert abs(found.motion.direction @ turned[:, 0]) > 0.8


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lowest", [-0.5, -0.05, -0.01])
def test_negative_curvature_is_found_and_measured(lowest, seed):
    function, turned = quadratic(spectrum(lowest), seed)
    found, calls, _ = looked(function, seed=seed)
    assert found.motion.is_negative
    assert found.motion.curvature == pytest.approx(lowest, rel=0.3)
    assert abs(found.motion.direction @ turned[:, 0]) > 0.8
    assert calls <= D + 4


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lowest", [-0.05, 0.05])
def test_forces_with_noise_are_decided_by_looking_at_everything(lowest, seed):
    """An error of 2 % of a probe's change: products alone would leave it open, motions measured from both sides do
    not."""
    found, calls, _ = looked(quadratic(spectrum(lowest), seed, noise=2e-4)[0], seed=seed)
    assert (found.motion is not None and found.motion.is_negative) == (lowest < 0.0)
    assert found.bound < 0.1 or lowest < 0.0
    assert calls <= 2 * (D + 3)


def test_forces_that_remember_are_compared_with_those_after_a_move():
    """The first answer is off, as that of a solver that had not moved."""
    function, _ = quadratic(spectrum(0.5))
    wrong, answers = torch.full((D,), 1e-3, dtype=torch.float64), []

    def both(x):
        value, grad = function.sample().value_and_grad(x)
        answers.append(1)
        return value, grad + wrong if len(answers) == 1 else grad

    found, _, probes = looked(Function(both, gradient=True))
    assert probes.noise == pytest.approx(1e-3 * math.sqrt(D))
    assert found.bound == 0.0


def test_a_measurement_takes_out_what_a_straight_line_adds():
    """f⁗ = 6·100 along each coordinate: forces at ±t alone would be off by t²·100."""
    function, turned = quadratic(spectrum(-0.03), quartic=100.0)
    space = Coordinates(np.eye(D), 0, 1.0)
    probes = Probes(function.sample(), torch.zeros(D, dtype=torch.float64), space)
    _, motion = measured(probes, turned[:, 0])
    t = CENTRAL / space.movement(turned[:, 0])
    alone = -0.03 + t**2 * 100.0 * float((turned[:, 0] ** 4).sum())
    assert alone > 0.0
    assert motion.curvature == pytest.approx(-0.03, abs=1e-6)
    assert motion.is_negative


def test_without_a_fall_of_the_energy_there_is_no_negative_curvature():
    """Forces of a saddle, energies of a bowl: whatever is wrong there, it is no saddle."""
    function, turned = quadratic(spectrum(-0.5))
    wrong = Function(lambda x: (0.1 * (x @ x), function.sample().grad(x)), gradient=True)
    space = Coordinates(np.eye(D), 0, 1.0)
    probes = Probes(wrong.sample(), torch.zeros(D, dtype=torch.float64), space)
    assert not measured(probes, turned[:, 0])[1].is_negative


def test_the_search_goes_on_if_what_looks_clear_is_not():
    """Forces are clearly those of a saddle after few steps, but energies have their veto: all motions are looked at."""
    function, _ = quadratic(spectrum(-0.5))
    found, calls, _ = looked(Function(lambda x: (0.1 * (x @ x), function.sample().grad(x)), gradient=True))
    assert len(found.history) == D
    assert math.isfinite(found.bound)
    assert not found.motion.is_negative
    assert calls <= 2 * (D + 3)


def test_a_budget_that_ends_too_early_excludes_nothing():
    found, calls, _ = looked(quadratic(spectrum(1e-4))[0], budget=6)
    assert math.isinf(found.bound)
    assert calls <= 6
