"""The Morse index against prescribed spectra, deep linear networks and dense Hessians."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.objectives.in_float32 import InFloat32
from tests.spectrum.networks import dense, network, objective, pooled
from unsaddle import Function, morse_index
from unsaddle.problems import linear_network, prescribed_spectrum
from unsaddle.spectrum import Status


def spectrum_around(gamma: float, rng: np.random.Generator) -> np.ndarray:
    """Clusters on both sides of −γ, some of them degenerate."""
    d, below, above = int(rng.integers(20, 300)), int(rng.integers(0, 9)), int(rng.integers(0, 9))
    low = -gamma * (1.0 + rng.choice([0.02, 0.1, 0.5], below) * rng.uniform(0.8, 1.2, below))
    if below and rng.random() < 0.5:
        low[:] = low[0]
    near = -gamma * (1.0 - rng.choice([0.02, 0.1, 0.5], above))
    return np.r_[low, near, rng.uniform(0.0, 1.0, d - below - above)]


def test_the_index_is_exact_around_a_threshold() -> None:
    rng = np.random.default_rng(0)
    for seed in range(20):
        gamma = 10.0 ** rng.uniform(-3.0, -1.0)
        spectrum = spectrum_around(gamma, rng)
        problem = prescribed_spectrum(torch.from_numpy(spectrum), rotation_seed=seed)
        found = morse_index(problem.objective, torch.zeros(len(spectrum)).double(), gamma=gamma, seed=seed)
        truth = int((spectrum < -gamma).sum())
        assert (found.lower, found.upper) == (truth, truth), seed
        assert found.values == pytest.approx(np.sort(spectrum)[:truth], rel=0.02)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_linear_network_at_zero_has_as_many_ways_down_as_its_target_has_directions(dtype: torch.dtype) -> None:
    """At 0 the eigenvalues of two layers are ±σ_i, each `width` times."""
    problem = linear_network([2.0, 1.0, 0.5], width=4, inputs=6, outputs=5, dtype=dtype)
    saddle = problem.stationary_points[0]
    assert [morse_index(problem.objective, saddle.point, gamma=g).lower for g in (0.1, 0.7, 1.5, 2.5)] == [12, 8, 4, 0]
    assert morse_index(problem.objective, problem.stationary_points[1].point).upper == 0


def test_the_index_of_a_network_is_that_of_its_dense_hessian() -> None:
    model = network().eval()
    values = torch.linalg.eigvalsh(dense(model)).numpy()
    gamma = 0.01 * values[-1]
    found = morse_index(objective(model), gamma=float(gamma))
    assert found.lower <= (values < -gamma).sum() <= found.upper
    assert found.decided


def test_gamma_is_a_hundredth_of_the_largest_eigenvalue_by_default() -> None:
    problem = prescribed_spectrum([-1.0, -0.06, -0.04, 5.0, *np.linspace(0.0, 4.0, 60)])
    found = morse_index(problem.objective, torch.zeros(64).double())
    assert found.gamma == pytest.approx(0.05, rel=0.02)
    assert (found.lower, found.upper) == (2, 2)
    assert str(found).startswith("Morse index 2: ")


def test_an_eigenvalue_at_the_level_is_not_decided_in_float32() -> None:
    problem = prescribed_spectrum([-1.0, -0.5, *np.linspace(0.0, 1.0, 98)], dtype=torch.float32)
    found = morse_index(problem.objective, torch.zeros(100), gamma=0.5 + 1e-9)
    assert found.lower == 1
    assert found.upper >= 1


def test_more_ways_down_than_the_basis_holds_are_counted_in_turns() -> None:
    spectrum = np.r_[np.linspace(-1.0, -0.5, 30), np.linspace(0.2, 1.0, 270)]
    problem = prescribed_spectrum(spectrum)
    found = morse_index(problem.objective, torch.zeros(300).double(), gamma=0.1, basis=12)
    assert (found.lower, found.upper) == (30, 30)


def test_a_budget_leaves_the_upper_bound_open() -> None:
    problem = prescribed_spectrum(np.linspace(-0.2, 1.0, 2000))
    found = morse_index(problem.objective, torch.zeros(2000).double(), gamma=0.01, max_gradients=60)
    assert found.status is Status.BUDGET_SPENT
    assert found.lower <= 317 <= found.upper  # Of −0.2 + 1.2·i/1999, so many are below −0.01.
    assert not found.decided


def test_what_is_not_finite_is_not_decided() -> None:
    found = morse_index(Function(lambda x: x.sum() * torch.nan), torch.ones(3))
    assert (found.status, found.lower, found.upper) == (Status.NOT_FINITE, 0, 3)


def test_a_negative_gamma_is_refused() -> None:
    with pytest.raises(ValueError, match="gamma must be a finite number >= 0"):
        morse_index(Function(lambda x: x.sum()), torch.ones(3), gamma=-1.0)


@pytest.mark.parametrize("layers", [3, 4])
def test_where_the_hessian_is_zero_the_index_is_zero(layers: int) -> None:
    """Products at two radii contradict each other there, but by far less than gamma."""
    problem = linear_network([2.0, 1.0, 0.5], layers=layers, width=4, inputs=5, outputs=4)
    for seed in range(5):
        found = morse_index(
            problem.objective, torch.zeros_like(problem.stationary_points[1].point), gamma=1e-2, seed=seed
        )
        assert (found.lower, found.upper) == (0, 0)


def test_the_least_budget_is_a_survey_and_the_first_steps() -> None:
    f, x = Function(lambda x: x @ x / 2.0), torch.ones(9, dtype=torch.float64)
    with pytest.raises(ValueError, match="max_gradients must be at least 28, got 27"):
        morse_index(f, x, max_gradients=27)
    assert morse_index(f, x, max_gradients=28).cost.gradients <= 28


def test_the_index_of_a_network_with_kinks_is_decided_in_float64() -> None:
    _, F, truth = pooled()
    gamma = 0.01 * float(truth[-1])
    found = morse_index(F, gamma=gamma)
    assert (found.lower, found.upper) == (int((truth < -gamma).sum()),) * 2
    assert found.in_float64
    assert "float64, on a copy" in str(found)
    assert found.vectors.dtype is torch.float32


def test_an_index_that_float32_leaves_open_and_that_has_no_copy_is_looked_at_again() -> None:
    """A function that asks for float32 is found out by its copy only."""
    sizes = torch.cat([torch.linspace(-1.02, -0.98, 9), torch.linspace(0.0, 100.0, 200)])

    def fun(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32:
            raise RuntimeError("float32 only")
        return 0.5 * (sizes * x * x).sum()

    x = torch.linspace(1.0, 9.0, 209)
    found, alone = (morse_index(F, x, gamma=1.0) for F in (Function(fun), InFloat32(Function(fun))))
    assert (found.lower, found.upper) == (alone.lower, alone.upper)
    whole = morse_index(Function(lambda x: 0.5 * (sizes * x * x).sum()), x, gamma=1.001)
    assert (whole.lower, whole.upper, whole.in_float64) == (4, 4, True)
