"""One run of the process: what it stops at, and what it proves."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from unsaddle.cost import Ledger
from unsaddle.problems import prescribed_spectrum
from unsaddle.spectrum.ends import Goal, Stop, _kept, errors, explore
from unsaddle.spectrum.hessian import Hessian, hessian_at
from unsaddle.spectrum.space import Space


def hessian(spectrum: np.ndarray, seed: int = 0) -> Hessian:
    problem = prescribed_spectrum(torch.from_numpy(spectrum), rotation_seed=seed)
    x = torch.zeros(len(spectrum), dtype=torch.float64)
    return hessian_at(problem.objective, x, None, torch.Generator().manual_seed(seed), Ledger())


@pytest.mark.parametrize("capacity", [12, 300])
def test_a_run_ends_with_the_ends_of_the_spectrum(capacity: int) -> None:
    spectrum = np.sort(np.random.default_rng(0).uniform(-1.0, 1.0, 400))
    H = hessian(spectrum)
    goal = Goal(lowest=3, highest=2, tolerance=1e-6)
    run = explore(H, Space(H.x), goal, capacity, torch.Generator().manual_seed(0))
    assert run.stop is Stop.DONE
    values = run.process.projection.values
    assert np.allclose([*values[:3], *values[-2:]], [*spectrum[:3], *spectrum[-2:]], atol=1e-6)
    assert run.steps == H.ledger.gradients - 9


def test_a_smaller_basis_takes_more_steps_for_the_same() -> None:
    spectrum = np.linspace(-1.0, 1.0, 400)
    steps = []
    for capacity in (12, 400):
        H = hessian(spectrum)
        steps.append(
            explore(H, Space(H.x), Goal(lowest=2, tolerance=1e-4), capacity, torch.Generator().manual_seed(0)).steps
        )
    assert steps[0] > steps[1]


def test_nothing_beyond_a_level_is_proven_and_something_is_found() -> None:
    spectrum = np.r_[-0.5, np.linspace(0.0, 1.0, 299)]
    H = hessian(spectrum)
    space, generator = Space(H.x), torch.Generator().manual_seed(0)
    run = explore(H, space, Goal(below=-0.1), 100, generator)
    assert (run.stop, run.low) == (Stop.DONE, 1)
    space.lock([run.process.vector(0)])
    run = explore(H, space, Goal(below=-0.1), 100, generator)
    assert (run.stop, run.low) == (Stop.DONE, 0)
    assert run.steps < 100


def test_proofs_at_a_level_err_no_more_often_than_delta() -> None:
    """200 starts at δ = 0.05, with an eigenvalue below the level: 10 may miss it; 21 have a probability below 0.2 %."""
    spectrum = np.r_[-0.11, np.linspace(0.0, 1.0, 199)]
    H, missed = hessian(spectrum), 0
    for seed in range(200):
        goal = Goal(below=-0.1, delta=0.05)
        missed += explore(H, Space(H.x), goal, 200, torch.Generator().manual_seed(seed)).low == 0
    assert missed <= 20


def test_patience_ends_a_run_that_sees_nothing() -> None:
    H = hessian(np.linspace(0.0, 1.0, 300))
    run = explore(H, Space(H.x), Goal(below=-1e-3, patience=7), 100, torch.Generator().manual_seed(0))
    assert (run.stop, run.steps) == (Stop.STEPS, 7)


def test_an_invariant_space_is_noticed() -> None:
    H = hessian(np.repeat([-1.0, 2.0, 3.0], 50))
    run = explore(H, Space(H.x), Goal(lowest=5), 100, torch.Generator().manual_seed(0))
    assert run.stop is Stop.EVERYTHING
    assert np.allclose(run.process.projection.values, [-1.0, 2.0, 3.0])


def test_errors_are_those_of_the_residual_or_of_temple_and_kato() -> None:
    """Against true eigenvalues: perturbed eigenvectors of a diagonal matrix."""
    rng = np.random.default_rng(0)
    diagonal = np.array([-1.0, 0.0, 2.0, 5.0])
    for _ in range(50):
        q, _ = np.linalg.qr(np.eye(4) + 0.02 * rng.normal(size=(4, 4)))
        values = np.array([v @ (diagonal * v) for v in q.T])
        residuals = np.array([np.linalg.norm(diagonal * v - t * v) for v, t in zip(q.T, values, strict=True)])
        assert (np.abs(values - diagonal) <= errors(values, residuals)).all()
        assert (errors(values, residuals) <= residuals).all()
    assert errors(np.array([3.0]), np.array([0.1])).tolist() == [0.0]
    assert math.isfinite(errors(np.array([3.0, 3.0]), np.array([0.1, 0.1])).max())


def test_what_was_locked_stays_out() -> None:
    """The restricted Hessian is zero along it, which is near the end of this spectrum: rounding along it would grow."""
    H = hessian(np.r_[np.full(7, -1.02), -0.98, np.full(2, -0.9), np.linspace(4.0, 800.0, 100)])
    space, generator = Space(H.x), torch.Generator().manual_seed(0)
    space.lock([explore(H, space, Goal(lowest=1), 110, generator).process.vector(0)])
    run = explore(H, space, Goal(lowest=109), 110, generator)
    basis = torch.stack([run.process.vector(i) for i in range(run.process.projection.size)])
    assert float((space.locked @ basis.T).abs().max()) < 1e-9
    space.lock(list(basis))
    if space.dimension:
        run = explore(H, space, Goal(lowest=109), 110, generator)
        basis = torch.stack([run.process.vector(i) for i in range(run.process.projection.size)])
        assert float((space.locked @ basis.T).abs().max()) < 1e-9


@pytest.mark.parametrize(
    ("capacity", "low", "high", "kept"),
    [
        (21, 2, 2, (2 + 5, 2 + 2)),  # Sixteen are left, eight of them go on: five below, two above.
        (20, 0, 0, (6, 3)),
        (12, 30, 5, (7, 3)),  # Too many are wanted: a quarter is left to the upper end.
        (12, 0, 30, (1, 10)),
    ],
)
def test_a_restart_keeps_what_is_wanted_and_half_of_the_rest(
    capacity: int, low: int, high: int, kept: tuple[int, int]
) -> None:
    assert _kept(capacity, low, high) == kept
    assert sum(kept) < capacity
