"""The careful search: noise, jumps and memory choose its radii."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from unsaddle import Function, is_minimum
from unsaddle.curvature import Status
from unsaddle.curvature.extract import answer
from unsaddle.curvature.krylov.quadratic import _hessian_jumps
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature

DOUBLE = torch.float64
ASKED = Question(extractor="krylov")
SURVEYED = Question(extractor="krylov", survey_first=True)


def hessian(lowest: float, d: int = 30) -> Tensor:
    g = torch.Generator().manual_seed(0)
    rotation, _ = torch.linalg.qr(torch.randn(d, d, generator=g, dtype=DOUBLE))
    spectrum = torch.linspace(0.1, 1.0, d, dtype=DOUBLE)
    spectrum[0] = lowest
    return rotation @ torch.diag(spectrum) @ rotation.T


def point(d: int = 30) -> Tensor:
    return torch.randn(d, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)


def found(grad: object, question: Question, lowest: float) -> Curvature:
    """The answer on ½(x − x₀)ᵀH(x − x₀), whose gradient is `grad(H(x − x₀), x)`."""
    h, x0 = hessian(lowest), point()

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x - x0
        return 0.5 * z @ h @ z, grad(h @ z, x)  # type: ignore[operator]

    return answer(Function(value_and_grad, gradient=True), x0, question)


@pytest.mark.parametrize("lowest", [-0.3, 0.1])
@pytest.mark.parametrize("question", [ASKED, SURVEYED], ids=["asked", "surveyed"])
def test_the_radius_follows_the_noise_that_is_met(question: Question, lowest: float) -> None:
    """An error of 1e-6 that is the same at the same x. The first radius, 1e-9 of ‖x‖, sees nothing else."""

    def rough(grad: Tensor, x: Tensor) -> Tensor:
        return grad + 1e-6 * torch.sin(1e18 * x) / math.sqrt(len(x))

    seen = found(rough, question, lowest)
    assert seen.status is (Status.FOUND if lowest < 0.0 else Status.NOTHING_FOUND)
    assert seen.radius > 1e-6
    if lowest < 0.0:
        assert seen.curvature == pytest.approx(lowest, rel=0.05)


@pytest.mark.parametrize("lowest", [-0.3, 0.1])
def test_a_solver_that_starts_where_it_ended_is_searched_from_both_sides(lowest: float) -> None:
    last = torch.zeros(30, dtype=DOUBLE)

    def remembered(grad: Tensor, x: Tensor) -> Tensor:
        nonlocal last
        if float((grad - last).norm()) > 1e-6:
            last = grad + 3e-7 * torch.sin(1e6 * grad) / math.sqrt(len(x))
        return last.clone()

    seen = found(remembered, SURVEYED, lowest)
    assert seen.status is (Status.FOUND if lowest < 0.0 else Status.NOTHING_FOUND)
    assert seen.curvature == pytest.approx(lowest, rel=0.05) or lowest > 0.0


def test_what_is_found_at_the_first_radius_takes_one_gradient_to_confirm() -> None:
    seen = found(lambda grad, x: grad, ASKED, -1.0)
    steps = seen.cost.gradients - 2
    assert seen.status is Status.FOUND
    assert len(found(lambda grad, x: grad, Question(extractor="krylov", keep_history=True), -1.0).history) == steps


def test_kinks_beside_x_are_left_out_next_to_it() -> None:
    """Σ|w·z − b| with |b| from 1e-6 on: a search at 1e-9 sees none of them."""
    g = torch.Generator().manual_seed(2)
    w, b = (
        torch.randn(40, 30, generator=g, dtype=DOUBLE),
        10.0 ** (-6.0 + 3.0 * torch.rand(40, generator=g, dtype=DOUBLE)),
    )
    x0 = point()

    def bent(grad: Tensor, x: Tensor) -> Tensor:
        return grad + 1e-3 * ((w @ (x - x0) - b).sign() + 1.0) @ w

    seen = found(bent, ASKED, -0.3)
    assert seen.status is Status.FOUND
    assert seen.curvature == pytest.approx(-0.3, rel=0.05)


@pytest.mark.parametrize("part_of_f", [True, False])
def test_structure_that_is_narrow_beside_a_large_x_counts_if_values_have_it_too(part_of_f: bool) -> None:
    """As in FLETCBV3 of CUTEst: ‖x‖ = 4e8, and waves have a length of 2π. From ‖x‖/1000 on they average out."""
    x0, soft = 1e8 * point(), 1e-8

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x - x0
        waves = torch.cos(z).sum() if part_of_f else torch.zeros((), dtype=DOUBLE)
        return 0.5 * soft * z @ z + waves, soft * z - torch.sin(z)

    verdict = is_minimum(Function(value_and_grad, gradient=True), x0)
    around = verdict.evidence.survey
    assert around is not None
    assert 0.0 < around.narrow < 1.0 < around.nearest
    if part_of_f:
        assert verdict.kind == "saddle"
        assert verdict.curvature == pytest.approx(-1.0, rel=1e-3)
    else:
        assert verdict.kind != "saddle"


def kinks_at_all_distances(nearest: float) -> object:
    """Concave kinks along one w. Over every length beyond the nearest of them f bends by −0.4 more than next to x.

    They are on one side of x.
    """
    places = nearest * 1.02 ** torch.arange(int(math.log(1e-2 / nearest) / 0.02), dtype=DOUBLE)
    w = torch.linalg.eigh(hessian(-0.3))[1][:, 1]
    jumps, x0 = 0.8 * 0.02 * places, point()

    def bent(grad: Tensor, x: Tensor) -> Tensor:
        return grad - (jumps * (w @ (x - x0) > places)).sum() * w

    return bent


@pytest.mark.parametrize("nearest", [1e-10, 1e-18])
def test_a_direction_over_kinks_says_over_which_distance_f_bends_so(nearest: float) -> None:
    """The nearest kinks are nearer than the first radius, or than rounding of x. The Hessian at x is positive."""
    seen = found(kinks_at_all_distances(nearest), SURVEYED, 0.05)
    assert seen.status is Status.FOUND
    assert seen.curvature < -0.2
    assert "over a distance" in seen.over_kinks


@pytest.mark.parametrize(
    ("even", "far_even", "jumps"), [(0.8, 0.8, True), (0.4, 0.4, False), (0.8, 3.0, False), (3.0, 0.8, False)]
)
def test_an_even_part_that_stays_beyond_half_of_gamma_is_a_jump_of_the_hessian(
    even: float, far_even: float, jumps: bool
) -> None:
    """A third derivative grows with the radius, and rounding falls."""
    assert _hessian_jumps(even, far_even, 1.0) is jumps
