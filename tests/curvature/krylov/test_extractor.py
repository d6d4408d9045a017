"""Krylov at a radius that is known: a gradient for each eigenvalue; the careful search where that does not decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from unsaddle import Function
from unsaddle.cost import Ledger
from unsaddle.curvature import Status
from unsaddle.curvature.extract import answer
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature
from unsaddle.measure.direction import SAME_SAMPLE_GRADIENTS

DOUBLE = torch.float64
QUICK = Question(extractor="krylov", probe_radius=1e-6, keep_history=True)
CAREFUL = Question(extractor="krylov", keep_history=True)


def quadratic(eigenvalues: list[float]) -> Function:
    """Rotated, with each eigenvalue ten times."""
    spectrum = torch.tensor(eigenvalues, dtype=DOUBLE).repeat_interleave(10)
    generator = torch.Generator().manual_seed(0)
    rotation, _ = torch.linalg.qr(torch.randn(len(spectrum), len(spectrum), dtype=DOUBLE, generator=generator))
    hessian = rotation @ torch.diag(spectrum) @ rotation.T
    return Function(lambda x: 0.5 * x @ hessian @ x)


def found_at(f: Function, question: Question, d: int) -> Curvature:
    ledger = Ledger()
    found = answer(f, torch.ones(d, dtype=DOUBLE), question, ledger)
    assert found.cost == ledger.cost
    return found


@pytest.mark.parametrize(("distinct", "quick", "careful"), [(1, 4, 11), (2, 5, 16), (3, 6, 17), (4, 5, 18), (6, 7, 20)])
def test_nothing_takes_a_gradient_for_each_eigenvalue_beside_the_one_at_x(
    distinct: int, quick: int, careful: int
) -> None:
    """With fewer than four there is not enough to compare, and two more are taken along the start.

    The careful search takes five for the survey, and eight to check; four, where the lowest is the highest.
    """
    f = quadratic([float(i + 1) for i in range(distinct)])
    for question, gradients in ((QUICK, quick), (CAREFUL, careful)):
        found = found_at(f, question, 10 * distinct)
        assert found.status is Status.NOTHING_FOUND
        assert len(found.history) == distinct
        assert found.cost.gradients == gradients
        assert found.lowest == pytest.approx(1.0)


def test_the_start_comes_with_the_curvature_along_it() -> None:
    f = quadratic([1.0, 2.0, 3.0])
    found = found_at(f, QUICK, 30)
    assert found.start is not None
    x = torch.ones(30, dtype=DOUBLE)
    product = f.sample(hessian=True).hvp(x, found.start)  # type: ignore[attr-defined]
    assert found.history[0][1] == pytest.approx(float(found.start @ product), rel=1e-6)
    assert found_at(f, CAREFUL, 30).start is None


@pytest.mark.parametrize("lowest", [-1.0, -0.1])
def test_what_is_found_is_measured_once(lowest: float) -> None:
    f = quadratic([lowest, 1.0, 2.0])
    found = found_at(f, QUICK, 30)
    assert found.status is Status.FOUND
    assert found.curvature == pytest.approx(lowest, rel=0.05)
    assert found.direction is not None
    assert float(found.direction.norm()) == pytest.approx(1.0)
    assert len(found.measurements) == 1
    assert found.cost.gradients == 1 + 3 + SAME_SAMPLE_GRADIENTS


def kink(x: Tensor) -> Tensor:
    return (x - 1.0).abs().sum()


def power(x: Tensor) -> Tensor:
    return ((x - 1.0).abs() ** 1.5).sum()


@pytest.mark.parametrize("fun", [kink, power])
def test_where_products_do_not_add_up_the_careful_search_has_the_word(fun: Callable[[Tensor], Tensor]) -> None:
    """In one dimension both go the same way, after one product and two gradients that prove not to be linear."""
    quick, careful = (found_at(Function(fun), question, 1) for question in (QUICK, CAREFUL))
    assert quick.status is careful.status is Status.NOT_QUADRATIC
    assert quick.cost.gradients == careful.cost.gradients + 3
    for seed in range(5):
        for d in (2, 3, 30):
            found = found_at(Function(fun), replace(QUICK, seed=seed), d)
            assert found.status in (Status.NOT_QUADRATIC, Status.NOT_CONFIRMED)
            assert found.start is None


def test_a_budget_holds_for_both_searches() -> None:
    """20 are kept for measuring what is found, and two for the check along the start."""
    f = quadratic([float(i + 1) for i in range(40)])
    question = replace(QUICK, gamma=1e-3)
    for budget, spent in (1, 1), (22, 1), (27, 5), (37, 15):
        found = found_at(f, replace(question, max_gradients=budget), 400)
        assert found.status is Status.BUDGET_SPENT
        assert found.cost.gradients == spent
    assert found_at(f, replace(question, max_gradients=42), 400).status is Status.NOTHING_FOUND


@pytest.mark.parametrize("step", [1e-8, 1e-7])
def test_no_probe_is_nearer_than_the_smallest_radius(step: float) -> None:
    """Such steps are invisible to a shift by some roundings of x. A survey sees them, and probes from farther out."""
    scale = torch.linspace(1.0, 2.0, 20, dtype=DOUBLE)

    def stepped(x: Tensor) -> Tensor:
        return torch.round((x - 1.0) / step) * step

    f = Function(lambda x: ((scale * stepped(x) ** 2).sum() / 2.0, scale * stepped(x)), gradient=True)
    by_itself = found_at(f, CAREFUL, 20)
    assert by_itself.status is Status.NOTHING_FOUND
    assert by_itself.radius > 10.0 * step
    farther = found_at(f, replace(CAREFUL, smallest_radius=1e-5), 20)
    assert farther.status is Status.NOTHING_FOUND
    assert farther.radius == 1e-5


@pytest.mark.parametrize("name", ["probe_radius", "smallest_radius"])
@pytest.mark.parametrize("radius", [0.0, -1.0, float("inf"), float("nan")])
def test_a_radius_that_is_none_is_refused(name: str, radius: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a finite number > 0"):
        Question(**{name: radius})  # type: ignore[arg-type]
