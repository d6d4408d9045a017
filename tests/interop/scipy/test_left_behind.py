"""Looks in the metric of what BFGS leaves behind. The truth is a dense Hessian."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize as scipy_minimize
from scipy.optimize import rosen, rosen_der

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Status
from unsaddle.interop.scipy import minimize
from unsaddle.interop.scipy.counted_function import CountedFunction
from unsaddle.interop.scipy.free_function import EndPoint, FreeFunction
from unsaddle.interop.scipy.left_behind import look_in_metric
from unsaddle.objectives.differences import Array

D = 60


def hessian(lowest: float, stiff: float = 1e3, seed: int = 0) -> Array:
    """Eigenvalues from 1 to `stiff`, evenly in logarithms, but the lowest; random axes."""
    axes, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((D, D)))
    values = np.geomspace(1.0, stiff, D)
    values[0] = lowest
    matrix: Array = axes * values @ axes.T
    return (matrix + matrix.T) / 2.0


def end_point(matrix: Array, inverse: Array | None, spent: int = 200) -> tuple[FreeFunction, Question]:
    """A quartic at its stationary point 0, after a run of BFGS that left `inverse`."""

    def jac(x: Array) -> Array:
        return np.asarray(matrix @ x + x**3)

    open_ends = np.full(D, -np.inf), np.full(D, np.inf)
    function = CountedFunction(lambda x: x @ matrix @ x / 2.0 + (x**4).sum() / 4.0, jac, (), *open_ends)
    at = EndPoint(function=function, x=np.zeros(D), value=0.0, start=np.ones(D), spent=spent, inverse=inverse)
    f = FreeFunction(at, at.free)
    question = Question(
        seen_counts=True, survey_first=True, extractor="krylov", keep_history=True, basis=D, probe_radius=f.first_radius
    )
    return f, question


def test_with_the_inverse_hessian_a_few_gradients_exclude_all_negative_curvature() -> None:
    matrix = hessian(1.0)
    f, question = end_point(matrix, np.linalg.inv(matrix))
    found = look_in_metric(f, question, Ledger())
    assert found is not None
    assert found.status is Status.NOTHING_FOUND
    assert f.at.function.njev <= 8
    assert found.bound <= 1e-4 * 1e3
    assert found.smoothness == pytest.approx(1e3, rel=1e-3)
    assert found.gamma == pytest.approx(0.01 * found.smoothness)


def test_a_bound_in_x_is_right_whatever_the_inverse_claims() -> None:
    """The inverse Hessian is that of another function: a look says nothing wrong, or goes without it."""
    found_so_often, nothing_so_often = 0, 0
    for seed in range(20):
        generator = np.random.default_rng(seed)
        lowest = float(generator.choice([-30.0, -3.0, -0.3, 0.3]))
        matrix, other = hessian(lowest, seed=seed), hessian(1.0, seed=seed)
        inverse = np.linalg.inv(other + 10.0 ** generator.uniform(-2, 3) * np.diag(generator.uniform(size=D)))
        found = look_in_metric(*end_point(matrix, inverse), Ledger())
        if found is None:
            continue
        assert lowest >= -found.bound
        if found.found:
            found_so_often += 1
            assert found.direction is not None
            v = found.direction.numpy()
            assert abs(v @ matrix @ v - found.curvature) <= found.measurements[-1].error + 1e-6
        else:
            nothing_so_often += 1
    assert found_so_often >= 5
    assert nothing_so_often >= 5


def test_a_saddle_that_bfgs_did_not_see_stands_out() -> None:
    """The direction of negative curvature was never walked, so its size is that of the first inverse Hessian, 1."""
    matrix, axes = hessian(-0.3), np.linalg.eigh(hessian(-0.3))[1]
    values = np.linalg.eigvalsh(matrix)
    values[0] = 1.0
    f, question = end_point(matrix, axes / values @ axes.T)
    found = look_in_metric(f, question, Ledger())
    assert found is not None
    assert found.status is Status.FOUND
    assert found.curvature == pytest.approx(-0.3, rel=0.1)


@pytest.mark.parametrize(
    "inverse", [None, np.eye(D), np.full((D, D), np.nan), -np.eye(D)], ids=["none", "identity", "nan", "negative"]
)
def test_what_says_nothing_is_left_out_and_costs_no_gradient_of_the_look_in_x(inverse: Array | None) -> None:
    f, question = end_point(hessian(1.0), inverse)
    ledger = Ledger()
    assert look_in_metric(f, question, ledger) is None
    assert ledger.gradients == 0
    q = vectors.random_direction(f.point, torch.Generator().manual_seed(question.seed))
    f.sample().grad(f.point)
    f.sample().grad_at_sum(f.point, q, f.first_radius)  # As the search in x begins.
    assert f.at.function.njev == 2


def test_short_runs_and_a_gamma_of_the_users_go_without() -> None:
    matrix = hessian(1.0)
    f, question = end_point(matrix, np.linalg.inv(matrix), spent=D)
    assert look_in_metric(f, question, Ledger()) is None
    f, _ = end_point(matrix, np.linalg.inv(matrix))
    assert look_in_metric(f, Question(gamma=1.0, probe_radius=f.first_radius), Ledger()) is None


def test_bfgs_promoted_takes_fewer_gradients_and_excludes_more() -> None:
    """Rosenbrock's chain of 60 variables, as SciPy has it."""
    x0 = np.full(D, 0.5)
    plain = scipy_minimize(rosen, x0, jac=rosen_der, method="BFGS")
    ours = minimize(rosen, x0, jac=rosen_der, method="BFGS")
    assert ours.success
    assert ours.verdict.kind == "minimum"
    assert ours.njev - plain.njev <= 10  # Without the metric an eighth of SciPy's, 15.
    assert ours.verdict.bound <= 1e-4 * ours.verdict.evidence.smoothness
