"""Eigenpairs against prescribed spectra, dense Hessians and SciPy's eigsh."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import unsaddle
from tests.objectives.in_float32 import InFloat32
from tests.objectives.traces import Everything
from tests.spectrum.networks import dense, loss, network, objective, pooled
from unsaddle import FiniteSum, Function, ModelObjective, eigenpairs
from unsaddle.problems import prescribed_spectrum
from unsaddle.spectrum import Status


def quadratic(spectrum: np.ndarray, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Function, torch.Tensor]:
    problem = prescribed_spectrum(torch.from_numpy(spectrum), rotation_seed=seed, dtype=dtype)
    return problem.objective, torch.zeros(len(spectrum), dtype=dtype)


def ends(spectrum: np.ndarray, lowest: int, highest: int) -> np.ndarray:
    ordered = np.sort(spectrum)
    return np.r_[ordered[:lowest], ordered[len(ordered) - highest :]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("d", [3, 40, 500])
def test_values_vectors_errors_and_the_bound(d: int, dtype: torch.dtype) -> None:
    spectrum = np.r_[-1.0, -0.5, np.random.default_rng(d).uniform(0.0, 1.0, d - 3), 3.0]
    F, x = quadratic(spectrum, dtype=dtype)
    found = eigenpairs(F, x, lowest=2, highest=1)
    truth = ends(spectrum, 2, 1)
    assert found.status is Status.CONVERGED
    assert found.values == pytest.approx(truth, rel=1e-3)
    assert (np.abs(found.values - truth) <= found.errors + 1e-6).all()
    rest = np.sort(spectrum)[2:-1]
    assert not rest.size or (found.bound[0] <= rest[0] and rest[-1] <= found.bound[1])
    v = found.vectors.double()
    assert v.shape == (3, d)
    assert torch.allclose(v @ v.T, torch.eye(3, dtype=torch.float64), atol=1e-5)
    assert (found.lowest, found.dimension, found.samples, len(found)) == (2, d, 1, 3)


@pytest.mark.parametrize("copies", [2, 5])
@pytest.mark.parametrize("d", [50, 300])
def test_degenerate_and_clustered_eigenvalues_are_all_found(d: int, copies: int) -> None:
    """One start sees one vector of each eigenspace: without another look, the copies would be missing."""
    spectrum = np.random.default_rng(copies).uniform(0.0, 1.0, d)
    spectrum[:copies], spectrum[copies : copies + 3], spectrum[-2:] = -1.0, (-0.9, -0.8999, -0.8), 2.0
    F, x = quadratic(spectrum)
    found = eigenpairs(F, x, lowest=copies + 3, highest=2)
    assert found.values == pytest.approx(ends(spectrum, copies + 3, 2), abs=1e-4)


def test_without_another_look_copies_are_missing_and_nothing_is_said_of_the_rest() -> None:
    spectrum = np.r_[-1.0, -1.0, -0.6, np.linspace(0.0, 1.0, 297)]
    F, x = quadratic(spectrum)
    with_it, without = (eigenpairs(F, x, lowest=2, copies=copies) for copies in (True, False))
    assert with_it.values == pytest.approx([-1.0, -1.0], rel=1e-2)
    assert without.values == pytest.approx([-1.0, -0.6], abs=1e-2)
    assert without.bound == (-math.inf, math.inf)
    assert without.cost.gradients < with_it.cost.gradients


def test_the_bound_holds_over_many_seeds() -> None:
    """60 spectra at δ = 0.05: 3 may be wrong; 9 have a probability below 0.4 %."""
    wrong = 0
    for seed in range(60):
        spectrum = np.random.default_rng(seed).uniform(-1.0, 1.0, 150)
        spectrum[1] = spectrum[0] = spectrum.min() - 0.05
        F, x = quadratic(spectrum, seed)
        found = eigenpairs(F, x, lowest=2, highest=1, seed=seed)
        rest = np.sort(spectrum)[2:-1]
        wrong += not (found.bound[0] <= rest[0] and rest[-1] <= found.bound[1])
    assert wrong <= 9


def test_a_small_basis_is_kept_to_and_finds_the_same() -> None:
    spectrum = np.random.default_rng(0).uniform(-1.0, 1.0, 400)
    F, x = quadratic(spectrum)
    small, large = (eigenpairs(F, x, lowest=3, highest=2, basis=basis, tolerance=1e-4) for basis in (14, 200))
    assert small.values == pytest.approx(large.values, rel=1e-3)
    assert small.memory <= 14 + 2 + 3 * 5 < large.memory
    assert small.cost.gradients > large.cost.gradients


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_network_with_batch_norm_and_dropout_is_left_as_it_was(dtype: torch.dtype) -> None:
    model = network(dtype).train()
    loss(model, (torch.zeros(4, 8, dtype=dtype), torch.zeros(4, dtype=torch.long))).backward()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    grads, state = [p.grad.clone() for p in model.parameters()], torch.get_rng_state()
    found = eigenpairs(objective(model, dtype), lowest=2, highest=2)
    assert found.status in (Status.CONVERGED, Status.INACCURATE)
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())
    assert all(torch.equal(a, p.grad) for a, p in zip(grads, model.parameters(), strict=True))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-4), (torch.float32, 1e-2)])
def test_a_network_s_eigenvalues_are_those_of_its_dense_hessian(dtype: torch.dtype, tolerance: float) -> None:
    model = network(dtype).eval()
    found = eigenpairs(objective(model, dtype), lowest=3, highest=3)
    truth = ends(torch.linalg.eigvalsh(dense(model.double())).numpy(), 3, 3)
    assert np.abs(found.values - truth).max() <= tolerance * np.abs(truth).max()
    assert (np.abs(found.values - truth) <= found.errors + 1e-5 * np.abs(truth).max()).all()


def test_under_autocast_errors_cover_the_truth() -> None:
    model = network(torch.float32).eval()

    def under_autocast(model, batch):  # type: ignore[no-untyped-def]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss(model, batch).float()

    found = eigenpairs(objective(model, torch.float32, loss=under_autocast), highest=1, lowest=0)
    truth = float(torch.linalg.eigvalsh(dense(model.double()))[-1])
    assert abs(found.values[0] - truth) <= max(found.errors[0], 0.05 * truth)


def test_samples_state_their_error() -> None:
    """Curvature 1 ± 2 along the first variable: a sample of 64 is off by 0.25 in the mean."""
    generator = torch.Generator().manual_seed(0)
    a = torch.ones(4000, 3, dtype=torch.float64) * torch.tensor([5.0, 1.0, 2.0])
    a[:, 0] += 2.0 * torch.randn(4000, generator=generator, dtype=torch.float64)
    F = FiniteSum(lambda x, a: 0.5 * (a * x * x).sum(1).mean(), a)
    found = eigenpairs(F, torch.ones(3, dtype=torch.float64), lowest=0, highest=1, samples=64)
    truth = float(a[:, 0].mean())
    assert found.samples == 64
    assert 1e-3 < abs(found.values[0] - truth) <= found.sampling_errors[0] < 2.0
    assert eigenpairs(F, torch.ones(3, dtype=torch.float64)).sampling_errors.tolist() == [0.0]


def test_a_metric_means_the_generalised_problem() -> None:
    scale = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    sizes = torch.tensor([-1.0, 3.0, 5.0], dtype=torch.float64)
    F = Function(lambda x: 0.5 * (sizes * x * x).sum())
    found = eigenpairs(F, torch.ones(3, dtype=torch.float64), lowest=1, highest=1, metric=scale)
    assert found.values == pytest.approx([-0.25, 20.0], rel=1e-5)  # The geometric mean of the sizes is 1.
    assert found.vectors[1].abs().tolist() == pytest.approx([0.0, 0.0, 1.0], abs=1e-6)


def test_a_budget_ends_the_search_and_is_kept() -> None:
    F, x = quadratic(np.random.default_rng(0).uniform(-1.0, 1.0, 3000))
    found = eigenpairs(F, x, lowest=2, max_gradients=40)
    assert found.status is Status.BUDGET_SPENT
    assert found.cost.gradients <= 40 + 2 * 2
    assert math.isinf(found.bound[0])


def test_wrong_arguments_say_what_to_do() -> None:
    F, x = quadratic(np.linspace(-1.0, 1.0, 5))
    with pytest.raises(ValueError, match="ask for at least one"):
        eigenpairs(F, x, lowest=0)
    with pytest.raises(ValueError, match="basis must be at least"):
        eigenpairs(F, x, lowest=2, basis=1)
    with pytest.raises(TypeError, match="wrap a callable"):
        eigenpairs(lambda x: x.sum(), x)


def test_a_function_that_is_not_finite_is_said_to_be_so() -> None:
    found = eigenpairs(Function(lambda x: x.sum() * math.nan), torch.ones(3))
    assert (found.status, len(found)) == (Status.NOT_FINITE, 0)
    assert "NaN" in str(found)


def test_a_function_that_is_finite_only_at_x_is_said_to_be_so() -> None:
    found = eigenpairs(Function(lambda x: torch.where(x[0] == 1.0, 1.0, math.nan) * x.sum()), torch.ones(90).double())
    assert found.status is Status.NOT_FINITE


def test_the_table_and_the_picture() -> None:
    F, x = quadratic(np.r_[-1.0, np.linspace(0.0, 1.0, 99)])
    found = unsaddle.eigenpairs(F, x, lowest=1, highest=2)
    lines = str(found).splitlines()
    assert lines[0] == "1 lowest and 2 highest of 100 eigenvalues."
    assert lines[1].split()[:2] == ["lowest", "-1"]
    assert lines[2].split()[0] == "highest"
    assert lines[3].split()[:2] == ["all", "others"]
    assert f"{found.cost.gradients} gradients" in lines[-1]
    assert [axes.get_title() for axes in found.plot().axes] == ["lowest eigenvalues", "highest eigenvalues"]


def test_more_pairs_than_a_first_run_can_see_are_looked_for() -> None:
    """One run sees one vector of each eigenspace; here it sees three values, and eight pairs are wanted."""
    F = Function(lambda x: (torch.tensor([1.0, 2.0, 3.0], dtype=x.dtype).repeat(20) * x * x).sum() / 2.0)
    found = eigenpairs(F, torch.zeros(60, dtype=torch.float64), lowest=8)
    assert found.values == pytest.approx([1.0] * 8, rel=1e-3)


@pytest.mark.parametrize("call", ["eigenpairs", "morse_index", "spectral_density"])
def test_any_integer_is_a_seed(call: str) -> None:
    F, x = quadratic(np.array([-1.0, 1.0, 2.0]))
    for seed in (2**64 + 3, np.int64(3)):
        getattr(unsaddle, call)(F, x, seed=seed)
    with pytest.raises(TypeError, match="seed must be"):
        getattr(unsaddle, call)(F, x, seed=1.5)


def test_the_least_budget_is_a_survey_and_a_step_for_each_pair() -> None:
    f, x = Function(lambda x: x @ x / 2.0), torch.ones(9, dtype=torch.float64)
    with pytest.raises(ValueError, match="max_gradients must be at least 15, got 14"):
        eigenpairs(f, x, lowest=1, highest=1, max_gradients=14)
    assert len(eigenpairs(f, x, lowest=1, highest=1, max_gradients=15).values) == 2


@pytest.mark.parametrize("seed", [0, 1, 4, 66])
def test_no_copy_of_a_degenerate_eigenvalue_is_missed(seed: int) -> None:
    """With 4 and 66, a look that ends after a third of the steps of the first run misses the third copy of -1."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 5))
    low = np.repeat(-np.linspace(1.0, 0.5, k), rng.integers(1, 4, k))
    high = np.repeat(np.sort(rng.uniform(1.2, 5.0, k)), rng.integers(1, 4, k))
    spectrum = np.sort(np.r_[low, rng.uniform(-0.4, 0.9, 1000), high])
    problem = prescribed_spectrum(torch.from_numpy(spectrum))
    found = eigenpairs(problem.objective, torch.zeros(len(spectrum)).double(), lowest=3, highest=3, seed=seed)
    assert found.values == pytest.approx(np.r_[spectrum[:3], spectrum[-3:]], rel=0.01)


def test_a_crowd_at_the_ends_does_not_keep_a_small_basis_busy() -> None:
    """Fifty eigenvalues within a per cent of each end: any ten of them are the ten lowest, to the tolerance."""
    spectrum = np.cos(np.linspace(0.0, np.pi, 1200))
    problem = prescribed_spectrum(torch.from_numpy(spectrum))
    found = eigenpairs(problem.objective, torch.zeros(1200).double(), lowest=10, highest=10, basis=50)
    assert found.values == pytest.approx(np.repeat([-1.0, 1.0], 10), rel=0.01)
    assert found.cost.gradients < 2000


@pytest.fixture(scope="module")
def kinked() -> tuple[nn.Module, ModelObjective, np.ndarray]:
    model, F, truth = pooled()
    return model, F, truth.numpy()


def test_the_pairs_of_a_network_with_kinks_are_asked_for_in_float64(kinked: Any) -> None:
    model, F, truth = kinked
    trace = Everything(model)
    found = eigenpairs(F, lowest=5, highest=5)
    trace.check(versions=False)
    assert found.status is Status.CONVERGED
    assert found.in_float64
    assert "float64, on a copy" in str(found)
    assert found.vectors.dtype is torch.float32
    assert found.values == pytest.approx(ends(truth, 5, 5), rel=1e-2)
    assert (np.abs(found.values[:, None] - truth).min(axis=1) <= found.errors + 1e-6 * truth[-1]).all()
    assert found.cost.gradients < 400


def test_a_network_with_kinks_that_has_no_copy_is_asked_between_them(kinked: Any) -> None:
    _, F, truth = kinked
    found = eigenpairs(InFloat32(F), lowest=0, highest=2)
    assert not found.in_float64
    assert "float64, on a copy" not in str(found)
    assert found.values == pytest.approx(ends(truth, 0, 2), rel=2e-2)


def test_rounding_that_exceeds_the_tolerance_is_left_out_in_float64() -> None:
    sizes, x = torch.cat([torch.tensor([-2e-2, -1e-2]), torch.linspace(0.0, 1.0, 300)]), torch.linspace(1.0, 9.0, 302)
    F = Function(lambda x: 0.5 * (sizes * x * x).sum())
    found, alone = (eigenpairs(f, x, lowest=2, tolerance=1e-4) for f in (F, InFloat32(F)))
    assert alone.status is Status.INACCURATE
    assert found.status is Status.CONVERGED
    assert found.in_float64
