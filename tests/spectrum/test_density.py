"""Densities against those of spectra that are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from tests.objectives.in_float32 import InFloat32
from tests.spectrum.networks import crowded, dense, network, objective, pooled, rectified
from unsaddle import Function, ModelObjective, spectral_density
from unsaddle.problems import prescribed_spectrum
from unsaddle.spectrum import Density, Status
from unsaddle.spectrum.density import Quadrature, _is_outside


def distance(found: Density, spectrum: np.ndarray) -> float:
    """∫ |density − exact| for the spectrum smoothed by the same Gaussian."""
    away = (found.grid[:, None] - spectrum[None]) / found.width
    exact = np.exp(-0.5 * away**2).mean(axis=1) / (found.width * np.sqrt(2.0 * np.pi))
    return float(np.trapezoid(np.abs(found.density - exact), found.grid))


def random_spectrum(d: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(d)
    if kind == "uniform":
        return rng.uniform(-1.0, 1.0, d)
    return np.r_[rng.normal(0.0, 0.05, d - 10), np.linspace(1.0, 5.0, 10)]


@pytest.mark.parametrize("kind", ["uniform", "outliers"])
@pytest.mark.parametrize("d", [100, 1000, 5000])
def test_the_density_is_that_of_the_spectrum(d: int, kind: str) -> None:
    spectrum = random_spectrum(d, kind)
    problem = prescribed_spectrum(torch.from_numpy(spectrum))
    found = spectral_density(problem.objective, torch.zeros(d).double())
    assert distance(found, spectrum) <= 0.02
    assert abs(found.trace - spectrum.sum()) <= found.trace_error + 1e-6
    assert float(np.trapezoid(found.density, found.grid)) == pytest.approx(1.0, abs=1e-3)
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.exact == (d == 100 or (d, kind) == (1000, "uniform"))


def test_the_spread_covers_the_error() -> None:
    """Standard errors over probes: within two of them at most of the grid's points."""
    spectrum = random_spectrum(3000, "uniform")
    problem = prescribed_spectrum(torch.from_numpy(spectrum))
    found = spectral_density(problem.objective, torch.zeros(3000).double(), probes=12)
    away = (found.grid[:, None] - spectrum[None]) / found.width
    exact = np.exp(-0.5 * away**2).mean(axis=1) / (found.width * np.sqrt(2.0 * np.pi))
    inside = exact > 0.1
    assert (np.abs(found.density - exact) <= 2.2 * found.spread)[inside].mean() > 0.8  # t with 11 degrees of freedom.


def test_the_trace_is_within_its_error() -> None:
    """40 seeds at confidence 0.95: 2 may be off; 7 have a probability below 0.4 %."""
    spectrum = random_spectrum(3000, "outliers")
    problem, off = prescribed_spectrum(torch.from_numpy(spectrum)), 0
    for seed in range(40):
        found = spectral_density(problem.objective, torch.zeros(3000).double(), probes=4, steps=10, seed=seed)
        off += abs(found.trace - spectrum.sum()) > found.trace_error
    assert off <= 6


def test_the_cost_is_one_gradient_a_step() -> None:
    problem = prescribed_spectrum(torch.linspace(-1.0, 1.0, 3000))
    found = spectral_density(problem.objective, torch.zeros(3000).double(), probes=3, steps=20)
    assert found.cost.gradients == 9 + 3 * 20 + 3 + 2  # Each probe once more, and both ends.
    assert found.width == pytest.approx((found.nodes.max() - found.nodes.min()) / 20)  # Fewer steps resolve less.


def test_a_degenerate_hessian_is_known_in_full() -> None:
    found = spectral_density(Function(lambda x: x.square().sum()), torch.ones(30).double())
    assert found.exact
    assert found.trace == pytest.approx(60.0)
    assert found.nodes == pytest.approx(np.full(30, 2.0))


@pytest.mark.parametrize("seed", [5, 31])
def test_a_null_space_is_filled_with_zeros(seed: int) -> None:
    """Rounding in it was taken for directions, which were far from orthogonal, and ended in infinities."""
    torch.manual_seed(seed)
    layers = nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 1)
    rows = TensorDataset(torch.randn(12, 5).double(), torch.randn(12, 1).double())
    F = ModelObjective(nn.Sequential(*layers).double(), lambda m, b: (m(b[0]) - b[1]).square().mean(), rows)
    found = spectral_density(F)
    assert found.status is Status.CONVERGED
    assert len(found.nodes) == 154
    assert (np.abs(found.nodes) < 1e-9).sum() > 20


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_network_s_density_is_that_of_its_dense_hessian(dtype: torch.dtype) -> None:
    model = network(dtype).eval()
    found = spectral_density(objective(model, dtype))
    values = torch.linalg.eigvalsh(dense(model.double())).numpy()
    assert distance(found, values) <= 0.02
    assert found.trace == pytest.approx(values.sum(), rel=0.02)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_density_of_a_network_with_kinks_is_that_of_its_piece(dtype: torch.dtype) -> None:
    F, exact = rectified(dtype)
    values, found = torch.linalg.eigvalsh(exact).numpy(), spectral_density(F)
    assert found.status is Status.CONVERGED
    assert distance(found, values) <= 0.02
    assert abs(found.trace - values.sum()) <= found.trace_error <= 0.05 * values.sum()


def test_kinks_without_room_between_them_are_said_by_status() -> None:
    found = spectral_density(crowded(), torch.zeros(400).double(), probes=4, steps=20)
    assert found.status is Status.INACCURATE
    assert "kinks" in str(found)


def test_the_picture_and_the_sentence() -> None:
    problem = prescribed_spectrum(torch.linspace(-1.0, 1.0, 50))
    found = spectral_density(problem.objective, torch.zeros(50).double())
    assert "every eigenvalue" in str(found)
    assert found.plot().axes[0].get_yscale() == "log"


def test_what_is_not_finite_is_said() -> None:
    found = spectral_density(Function(lambda x: x.sum() * torch.nan), torch.ones(3))
    assert found.status is Status.NOT_FINITE
    assert "NaN" in str(found)


def test_a_probe_with_nodes_beyond_all_others_is_told_apart() -> None:
    """As one that crossed a kink: 15.2 for a spectrum that ends at 8.5."""
    even = np.full(3, 1.0 / 3.0)
    seen = [Quadrature(np.array([0.0, 1.0, 8.5]), even), Quadrature(np.array([0.1, 1.0, 8.4]), even)]
    assert _is_outside(Quadrature(np.array([0.0, 1.0, 15.2]), even), seen, 0.02)
    assert _is_outside(Quadrature(np.array([-1.0, 1.0, 8.0]), even), seen, 0.02)
    assert not _is_outside(Quadrature(np.array([0.0, 1.0, 8.6]), even), seen, 0.02)


@pytest.mark.parametrize("width", [1e-310, 1e-5, 1.5, 1e300])
def test_a_width_that_no_grid_can_have_is_refused(width: float) -> None:
    F = Function(lambda x: (x * x).sum() / 2.0)
    with pytest.raises(ValueError, match=r"width must be between 0\.0001 and 1, got"):
        spectral_density(F, torch.zeros(2, dtype=torch.float64), width=width)


def test_a_network_with_kinks_in_float32_is_asked_in_float64() -> None:
    _, F, truth = pooled()
    found = spectral_density(F)
    assert found.in_float64
    assert "float64, on a copy" in str(found)
    assert found.status is Status.CONVERGED
    assert distance(found, truth.numpy()) <= 0.02
    assert not spectral_density(InFloat32(F)).in_float64
