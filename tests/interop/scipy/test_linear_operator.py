"""The Hessian for SciPy: eigsh, and linear solves, on its products."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import eigsh, minres

from unsaddle.interop.scipy import hessian_operator
from unsaddle.problems import prescribed_spectrum


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-5), (torch.float32, 1e-3)])
def test_eigsh_finds_the_prescribed_spectrum(dtype: torch.dtype, tolerance: float) -> None:
    spectrum = np.linspace(-1.0, 2.0, 80)
    problem = prescribed_spectrum(torch.from_numpy(spectrum), dtype=dtype)
    H = hessian_operator(problem.objective, torch.zeros(80, dtype=dtype))
    assert (H.shape, H.dtype) == ((80, 80), np.dtype(str(dtype).removeprefix("torch.")))
    found = eigsh(H, k=3, which="SA", tol=1e-4, return_eigenvectors=False, v0=np.ones(80, dtype=H.dtype))
    assert np.sort(found) == pytest.approx(spectrum[:3], abs=tolerance)


def test_a_newton_step_by_minres() -> None:
    spectrum = np.linspace(1.0, 2.0, 30)
    problem = prescribed_spectrum(torch.from_numpy(spectrum), scale=1e-3)
    x = torch.ones(30, dtype=torch.float64)
    H = hessian_operator(problem.objective, x.numpy())
    step, flag = minres(H, -problem.objective.sample().grad(x).numpy(), rtol=1e-8)
    assert flag == 0
    after = problem.objective.sample().grad(x + torch.from_numpy(step))
    assert float(after.norm()) < 0.01 * float(problem.objective.sample().grad(x).norm())


def test_costs_and_torch_products_are_at_hand() -> None:
    problem = prescribed_spectrum(torch.linspace(-1.0, 1.0, 20))
    H = hessian_operator(problem.objective, torch.zeros(20, dtype=torch.float64))
    before, v = H.torch.cost.gradients, torch.ones(20, dtype=torch.float64)
    assert (H @ v.numpy()) == pytest.approx(H.torch(v).numpy())
    assert H.torch.cost.gradients == before + 2


@pytest.mark.parametrize("x", [np.array(["a", "b"]), np.zeros((2, 2)), np.array([1j]), np.array(["1", None], object)])
def test_an_array_that_is_no_point_is_refused_in_our_words(x: np.ndarray) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^x must (be float32|have one dimension)"):
        hessian_operator(prescribed_spectrum(torch.linspace(-1.0, 1.0, 4)).objective, x)


def test_a_complex_vector_is_refused() -> None:
    H = hessian_operator(prescribed_spectrum(torch.linspace(-1.0, 1.0, 4)).objective, torch.zeros(4).double())
    with pytest.raises(TypeError, match="the operator takes real vectors, got a complex one"):
        H @ (1j * np.ones(4))
