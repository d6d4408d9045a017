"""The small side of Krylov: the relation it keeps, and that what it excludes is not there. The truth is dense."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from unsaddle.curvature.krylov.projection import Array, Projection


def extend(projection: Projection, products: Sequence[float], b: float) -> None:
    """One step of the projection: a column, b, and the Ritz pairs."""
    projection.extend(products)
    projection.follow(b)
    projection.take(projection.solved())


class Lanczos:
    """Lanczos with thick restarts on a dense matrix, in exact products, with the basis at hand."""

    def __init__(self, hessian: Array, start: Array, capacity: int) -> None:
        self.hessian, self.capacity = hessian, capacity
        self.start = start / np.linalg.norm(start)
        self.basis = [self.start]
        self.projection = Projection(capacity)

    @property
    def q(self) -> Array:
        """The basis without the vector that comes next."""
        return np.stack(self.basis[: self.projection.size], axis=1)

    @property
    def m(self) -> Array:
        p = self.projection
        return np.asarray(p.vectors @ np.diag(p.values) @ p.vectors.T)

    def step(self) -> None:
        w = self.hessian @ self.basis[-1]
        q = np.stack(self.basis, axis=1)
        h = np.zeros(q.shape[1])
        for _ in range(2):
            again = q.T @ w
            w, h = w - q @ again, h + again
        b = float(np.linalg.norm(w))
        extend(self.projection, h.tolist(), b)
        self.basis.append(w / b)

    def restart(self, keep: int) -> None:
        """A third of them from the high end, as far as that goes."""
        following, q = self.basis[-1], self.q
        kept = q @ self.projection.restart(keep - keep // 3, keep // 3)
        self.basis = [*kept.T, following]


def matrix(spectrum: Array, seed: int) -> tuple[Array, Array]:
    """A symmetric matrix with this spectrum, and its eigenvectors."""
    rotation, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(spectrum), len(spectrum))))
    return (rotation * spectrum) @ rotation.T, rotation


def steps(lanczos: Lanczos, total: int, keep: int) -> Iterator[int]:
    for step in range(total):
        lanczos.step()
        yield step
        if lanczos.projection.size == lanczos.capacity:
            lanczos.restart(keep)


GAMMA = 0.1
SPECTRA = {
    "one at −γ": np.concatenate([[-GAMMA], np.linspace(0.0, 1.0, 39)]),
    "one far below −γ": np.concatenate([[-8.0 * GAMMA], np.linspace(0.0, 1.0, 39)]),
    "several below −γ": np.concatenate([[-0.5, -0.3, -0.11, -0.1001, -GAMMA], np.linspace(-0.04, 1.0, 35)]),
    "a crowd just above −γ": np.concatenate([[-GAMMA], np.linspace(-0.09, 0.2, 38), [1.0]]),
}


@pytest.mark.slow
@pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA)
@pytest.mark.parametrize(("capacity", "keep"), [(30, 8), (10, 4), (5, 2), (3, 1)])
def test_the_bound_holds_for_every_eigenvector_below_at_every_step_and_restart(
    spectrum: Array, capacity: int, keep: int
) -> None:
    """Starts with a component of 1 down to 1e-6 along what is below, so that the bound has time to fall."""
    checked = 0
    for seed in range(20):
        hessian, eigenvectors = matrix(spectrum, seed)
        components = np.random.default_rng(seed + 100).normal(size=len(spectrum))
        components[spectrum <= -GAMMA] *= 10.0 ** -(seed % 7)
        lanczos = Lanczos(hessian, eigenvectors @ components, capacity)
        hidden = np.square(eigenvectors.T @ lanczos.start)[spectrum <= -GAMMA]
        for _ in steps(lanczos, 28, keep):
            bound = lanczos.projection.log_missed(GAMMA)
            assert np.log(hidden).max() <= bound + 1e-6
            checked += math.isfinite(bound)
    assert checked >= 20


def test_the_bound_is_attained_at_minus_gamma_when_the_basis_is_all_but_everything() -> None:
    """Equality needs Σc_i² = 1 over the basis and the next vector."""
    spectrum = np.concatenate([[-GAMMA], np.linspace(0.3, 1.0, 5)])
    hessian, eigenvectors = matrix(spectrum, 0)
    lanczos = Lanczos(hessian, eigenvectors @ np.array([1e-3, 1.0, 1.0, 1.0, 1.0, 1.0]), 10)
    bounds = [lanczos.projection.log_missed(GAMMA) for _ in steps(lanczos, 5, 4)]
    assert len(bounds) == 5
    assert bounds[-1] == pytest.approx(2.0 * math.log(abs(eigenvectors[:, 0] @ lanczos.start)), abs=1e-6)


@pytest.mark.parametrize("keep", [1, 3, 5])
def test_restarts_keep_the_lanczos_relation(keep: int) -> None:
    hessian, _ = matrix(SPECTRA["several below −γ"], 3)
    lanczos = Lanczos(hessian, np.random.default_rng(4).normal(size=40), 8)
    for _ in steps(lanczos, 40, keep):
        p, q = lanczos.projection, lanczos.q
        assert q.T @ q == pytest.approx(np.eye(p.size), abs=1e-12)
        assert lanczos.m == pytest.approx(q.T @ hessian @ q, abs=1e-12)
        last = np.eye(p.size)[-1]
        right = q @ lanczos.m + p.next_norm * np.outer(lanczos.basis[-1], last)
        assert hessian @ q == pytest.approx(right, abs=1e-12)
        residuals = np.linalg.norm(hessian @ (q @ p.vectors) - q @ p.vectors * p.values, axis=0)
        assert p.residuals == pytest.approx(residuals, abs=1e-12)
        assert p.asymmetry < 1e-12


def test_the_bound_holds_at_a_gamma_that_grew_past_ritz_values_of_earlier_bases() -> None:
    """With γ relative to L1, a basis can be left with a Ritz value below −γ as it was then and above −γ as it is later.

    Its factor must not be left out: next to the lowest Ritz value it is above one.
    """
    spectrum = np.concatenate([[-0.3], np.linspace(-0.15, 1.0, 39)])
    passed_by = 0
    for seed in range(50):
        hessian, eigenvectors = matrix(spectrum, seed)
        components = np.random.default_rng(seed).normal(size=40)
        components[0] *= 1e-4
        lanczos = Lanczos(hessian, eigenvectors @ components, 6)
        hidden = 2.0 * math.log(abs(eigenvectors[:, 0] @ lanczos.start))
        for step in steps(lanczos, 30, 3):
            low = -float(lanczos.projection.values[0])
            for gamma in (0.05, 0.15, 0.2, 0.29, 0.3):
                bound = lanczos.projection.log_missed(gamma)
                assert hidden <= bound + 1e-6
                assert (bound == math.inf) == (low >= gamma)
                passed_by += step > 6 and 0.05 <= low < gamma
    assert passed_by >= 100


def test_products_that_are_not_symmetric_show() -> None:
    projection = Projection(4)
    extend(projection, [1.0], 0.5)
    extend(projection, [0.7, 2.0], 0.1)
    assert projection.asymmetry == pytest.approx(0.2)
    assert projection.values.sum() == pytest.approx(3.0)
    assert projection.vectors @ np.diag(projection.values) @ projection.vectors.T == pytest.approx(
        np.array([[1.0, 0.6], [0.6, 2.0]])
    )


@pytest.mark.parametrize("seed", range(10))
def test_the_smallest_gamma_that_is_excluded_falls_with_the_steps_and_is_rarely_too_small(seed: int) -> None:
    """It is the root of `log_missed` in γ: there the bound holds, and just below it does not."""
    rng = np.random.default_rng(seed)
    spectrum = np.concatenate([[-0.02], np.linspace(0.0, 1.0, 59)])
    lanczos = Lanczos(np.diag(spectrum), rng.standard_normal(60), 40)
    allowed, excluded = math.log(1e-8), []
    for _ in range(30):
        lanczos.step()
        gamma = lanczos.projection.excluded(allowed, 2.0)
        excluded.append(gamma)
        if math.isfinite(gamma):
            assert lanczos.projection.log_missed(gamma) <= allowed
            assert lanczos.projection.log_missed(gamma / 1.02) > allowed
            assert gamma >= 0.02 or lanczos.start[0] ** 2 <= 1e-8
    known = [gamma for gamma in excluded if math.isfinite(gamma)]
    assert len(known) >= 10
    assert known == sorted(known, reverse=True)
    assert known[-1] <= 0.2


@pytest.mark.parametrize("capacity", [8, 40])
def test_the_bound_at_a_level_holds_for_every_eigenvector(capacity: int) -> None:
    """At its own eigenvalue each eigenvector's component in the start is within the bound, also between Ritz values."""
    spectrum = np.linspace(-1.0, 1.0, 30)
    hessian, vectors = matrix(spectrum, seed=3)
    lanczos = Lanczos(hessian, np.random.default_rng(4).normal(size=30), capacity)
    for _ in steps(lanczos, 20, keep=4):
        for value, v in zip(spectrum, vectors.T, strict=True):
            component = math.log(float(lanczos.start @ v) ** 2)
            assert component <= lanczos.projection.log_missed_at(value) + 1e-6
    assert lanczos.projection.log_missed_at(2.0) < lanczos.projection.log_missed_at(1.05)


def test_at_a_ritz_value_nothing_is_excluded() -> None:
    projection = Projection(2)
    extend(projection, [1.0], 0.5)
    assert projection.log_missed_at(1.0) == math.inf
    assert projection.log_missed_at(0.0) < 0.0
