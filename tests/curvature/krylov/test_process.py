"""The Krylov process: an orthonormal basis, the Ritz pairs of its space, restarts, and where it ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.curvature.quadratics import random_symmetric
from unsaddle.curvature.krylov.process import KrylovProcess, _orthogonalise

DOUBLE = torch.float64


def process_of(hessian: Tensor, capacity: int, seed: int = 0) -> KrylovProcess:
    start = torch.randn(hessian.shape[0], generator=torch.Generator().manual_seed(seed), dtype=hessian.dtype)
    return KrylovProcess(lambda q, out: out.copy_(hessian @ q), start / start.norm(), capacity)


@pytest.mark.parametrize("steps", [1, 5, 12])
def test_ritz_pairs_are_those_of_the_dense_krylov_space(steps: int) -> None:
    hessian = random_symmetric(40, seed=1)
    process = process_of(hessian, capacity=12)
    krylov = process._basis[0].clone().unsqueeze(1)
    for k in range(steps):
        assert process.expand()
        if k + 1 < steps:
            krylov = torch.cat([krylov, hessian @ krylov[:, -1:]], dim=1)
            krylov[:, -1] -= krylov[:, :-1] @ torch.linalg.lstsq(krylov[:, :-1], krylov[:, -1:]).solution[:, 0]
    basis, _ = torch.linalg.qr(krylov)
    dense = torch.linalg.eigvalsh(basis.T @ hessian @ basis)
    assert process.projection.values == pytest.approx(dense.numpy(), abs=1e-9)
    v = process.vector(0)
    assert float(v.norm()) == pytest.approx(1.0, abs=1e-12)
    assert float(v @ hessian @ v) == pytest.approx(float(dense[0]), abs=1e-9)


def test_a_restart_keeps_the_ends_of_the_spectrum_and_goes_on() -> None:
    hessian = random_symmetric(60, seed=2)
    process = process_of(hessian, capacity=20)
    while not process.full:
        assert process.expand()
    lowest, highest = process.projection.values[[0, -1]]
    process.restart()
    assert not process.full
    for _ in range(200):
        assert process.expand()
        if process.full:
            process.restart()
    eigenvalues = torch.linalg.eigvalsh(hessian)
    assert float(eigenvalues[0]) - 1e-12 <= process.projection.values[0] <= lowest
    assert highest <= process.projection.values[-1] <= float(eigenvalues[-1]) + 1e-12
    assert process.projection.values[0] == pytest.approx(float(eigenvalues[0]), abs=1e-9)
    assert process.largest <= float(eigenvalues.abs().max()) * (1.0 + 1e-9)


def test_it_is_exhausted_where_the_space_is_invariant_or_everything() -> None:
    two = torch.diag(torch.tensor([1.0, 1.0, 1.0, 3.0, 3.0], dtype=DOUBLE))
    process = process_of(two, capacity=5)
    assert process.expand()
    assert not process.exhausted
    assert process.expand()
    assert process.exhausted
    process = process_of(random_symmetric(4, seed=0), capacity=10)
    steps = 0
    while not process.exhausted:
        steps += process.expand()
    assert steps == 4


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_product_that_is_not_finite_leaves_all_as_it_was(bad: float) -> None:
    hessian, factor = random_symmetric(10, seed=0), [1.0, 1.0, bad]
    start = torch.eye(10, dtype=DOUBLE)[0]
    process = KrylovProcess(lambda q, out: out.copy_(factor.pop(0) * (hessian @ q)), start, 5)
    assert process.expand()
    assert process.expand()
    values, largest = process.projection.values.copy(), process.largest
    assert not process.expand()
    assert np.array_equal(process.projection.values, values)
    assert process.largest == largest


def test_what_is_nearly_inside_the_basis_is_made_orthogonal_to_full_precision() -> None:
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(200, 15, generator=generator, dtype=torch.float64))[0].T.contiguous()
    for new in (1e-6, 1e-10, 1e-14):
        w = basis.T @ torch.randn(15, generator=generator, dtype=torch.float64)
        w += new * torch.randn(200, generator=generator, dtype=torch.float64)
        for coupled in (0, 13, 14):
            rows = torch.cat([basis, w.unsqueeze(0)])
            products, length, _ = _orthogonalise(rows, coupled)
            assert products == pytest.approx((basis @ w).tolist(), rel=1e-12)
            assert length == pytest.approx(float(rows[-1].norm()), rel=1e-6)
            assert float((basis @ rows[-1]).norm()) <= 1e-13 * length


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_basis_stays_orthonormal_over_restarts_whatever_the_error_of_products(
    dtype: torch.dtype, noise: float
) -> None:
    generator = torch.Generator().manual_seed(3)
    size, capacity = 300, 20
    values = torch.cat([torch.tensor([-1.0, 100.0]), torch.logspace(-4, 1, size - 2)]).to(dtype)

    def product(q: Tensor, out: Tensor) -> None:
        out.copy_(values * q + noise * torch.randn(size, generator=generator, dtype=dtype))

    start = torch.randn(size, generator=generator, dtype=dtype)
    process = KrylovProcess(product, start / start.norm(), capacity)
    for _ in range(100):
        process.expand()
        q = process._basis[: process.projection.size + 1]
        off = q @ q.T - torch.eye(len(q), dtype=dtype)
        assert float(off.abs().max()) <= 50.0 * torch.finfo(dtype).eps
        if process.full:
            process.restart()


def test_ritz_pairs_may_be_computed_later() -> None:
    hessian = random_symmetric(40, seed=1)
    at_once, later = process_of(hessian, capacity=12), process_of(hessian, capacity=12)
    for _ in range(10):
        assert at_once.expand()
        assert later.expand(solve=False)
    assert later.projection.values.size == 0
    later.solve()
    assert np.array_equal(later.projection.values, at_once.projection.values)
    assert later.largest == at_once.largest


def test_a_restart_keeps_what_it_is_told_to() -> None:
    process = process_of(random_symmetric(60, seed=2), capacity=20)
    while not process.full:
        process.expand()
    values = process.projection.values
    process.restart(lowest=2, highest=3)
    assert process.projection.size == 5
    process.expand()
    assert process.projection.values[0] <= values[0] + 1e-9
    assert process.projection.values[-1] >= values[-1] - 1e-9


def test_a_process_stays_in_the_subspace_that_it_is_projected_on() -> None:
    """The map is zero outside of it, next to the end of the spectrum, which rounding would find."""
    size = 120
    diagonal = torch.cat([torch.zeros(1), torch.linspace(1.0, 1000.0, size - 1)]).to(DOUBLE)

    def project(w: Tensor) -> Tensor:
        w[0] = 0.0
        return w

    def leaking(q: Tensor, out: Tensor) -> None:
        project(out.copy_(diagonal * q))
        out[0] += 1e-16  # As rounding does.

    start = project(torch.ones(size, dtype=DOUBLE))
    seen = []
    for subspace in (None, project):
        process = KrylovProcess(leaking, start / start.norm(), size, subspace)
        for _ in range(size - 2):
            process.expand(solve=False)
        seen.append(float(process._basis[: size - 1, 0].abs().max()))
    assert seen[0] > 1e-3
    assert seen[1] < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e2, 1e6])
def test_the_basis_stays_orthonormal_beside_large_locked_vectors_that_are_inexact(
    dtype: torch.dtype, size: float
) -> None:
    """Three locked vectors, a per cent off, with eigenvalues far beyond the rest."""
    generator = torch.Generator().manual_seed(4)
    values = torch.cat([torch.full((3,), 100.0 * size), torch.linspace(-1.0, 100.0, 300)]).to(dtype)
    locked = torch.eye(3, 303, dtype=dtype) + 0.01 * torch.randn(3, 303, generator=generator, dtype=dtype) / 303**0.5
    locked = torch.linalg.qr(locked.T.double()).Q.T.to(dtype)

    def project(v: Tensor) -> Tensor:
        return v.sub_(locked.T @ (locked @ v))

    start = project(project(torch.randn(303, generator=generator, dtype=dtype)))
    process = KrylovProcess(lambda q, out: torch.mul(values, q, out=out), start / start.norm(), 20, project)
    for _ in range(60):
        assert process.expand()
        q = process._basis[: process.projection.size + 1]
        off = q @ q.T - torch.eye(len(q), dtype=dtype)
        assert float(off.abs().max()) <= 100.0 * torch.finfo(dtype).eps
        assert float((locked @ q.T).abs().max()) <= 100.0 * torch.finfo(dtype).eps
        if process.full:
            process.restart()


def test_a_basis_vector_of_millions_of_entries_has_the_length_one() -> None:
    values = torch.linspace(0.0, 1.0, 4_000_000)
    start = torch.randn(4_000_000, generator=torch.Generator().manual_seed(0))
    start.div_(float(start.double().norm()))
    process = KrylovProcess(lambda q, out: torch.mul(values, q, out=out), start, 3)
    for _ in range(2):
        assert process.expand()
        q = process._basis[process.projection.size].double()
        assert float(q.norm()) == pytest.approx(1.0, abs=2e-6)
