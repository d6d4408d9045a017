"""How far away F comes to rest, against Newton's step and points that are known; and verdicts that hang on it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from unsaddle import Function, ModelObjective, is_minimum, minimize
from unsaddle.cost import Ledger
from unsaddle.measure.rest import FAR, NEAR, STEPS, approaches, small_gradient

DOUBLE = torch.float64


def rosenbrock(x: Tensor) -> Tensor:
    return (1.0 - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2


def test_the_approaches_lead_to_newton_s_step_ever_farther_and_lower() -> None:
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(6, 6, generator=generator, dtype=DOUBLE)
    hessian, x = root @ root.T + torch.eye(6, dtype=DOUBLE), torch.randn(6, generator=generator, dtype=DOUBLE)
    f = Function(lambda y: y @ hessian @ y / 2.0)
    seen = [at for at, _ in zip(approaches(f.sample(), x, 1e-6), range(7), strict=False)]
    lengths = [float(at.step.norm()) for at in seen]
    assert lengths == sorted(lengths)
    assert seen[-1].step == pytest.approx(-x, abs=1e-6)
    for at in seen:
        value = float((x + at.step) @ hessian @ (x + at.step)) / 2.0
        assert float(x @ hessian @ x) / 2.0 - value == pytest.approx(at.fall, rel=1e-6, abs=1e-9)
        assert float((hessian @ (x + at.step)).norm()) == pytest.approx(at.rest, rel=1e-4, abs=1e-4)


def test_they_end_at_a_gradient_of_zero_and_at_negative_curvature() -> None:
    f = Function(lambda x: x[0] ** 2 - x[1] ** 2).sample()
    assert len(list(approaches(f, torch.zeros(2, dtype=DOUBLE), 1e-6))) == 1
    assert len(list(approaches(f, torch.tensor([0.0, 1.0], dtype=DOUBLE), 1e-6))) == 1


@pytest.mark.parametrize("off", [0.2, 2.0])
def test_a_gradient_is_small_up_to_where_rest_is_a_tenth_of_x_away(off: float) -> None:
    """The stiff part of the gradient is larger than the soft one, which leads far."""
    f = Function(lambda x: 5e3 * x[0] ** 2 + (x[1] - 1.0) ** 2 / 2.0).sample()
    x = torch.tensor([1e-3, 1.0 + off], dtype=DOUBLE)
    norm, size = float(f.grad(x).norm()), float(x.norm())
    small = small_gradient(f, x, radius=1e-8, eps=10.0)
    assert small == pytest.approx(norm * FAR * size / off, rel=1e-3)
    assert small < norm


def test_a_gradient_that_leads_nowhere_far_costs_two_gradients_and_two_values() -> None:
    ledger = Ledger()
    f = Function(lambda x: x @ x).sample(ledger=ledger)
    assert small_gradient(f, torch.full((3,), 1e-3, dtype=DOUBLE), radius=1e-8, eps=2e-3) == math.inf
    assert (ledger.gradients, ledger.values) == (2, 2)


def test_the_gradients_that_it_costs_are_bounded() -> None:
    curvatures, ledger = torch.logspace(0.0, -8.0, 200, dtype=DOUBLE), Ledger()
    f = Function(lambda x: (curvatures * x**2).sum()).sample(ledger=ledger)
    small_gradient(f, torch.full((200,), 1e-4, dtype=DOUBLE), radius=1e-8, eps=1e-12)
    assert ledger.gradients == 1 + STEPS


@pytest.mark.parametrize("wall", [0.0, 0.3])
def test_a_fall_that_values_do_not_show_does_not_count(wall: float) -> None:
    """The quadratic promises rest at a distance of 8. A wall is in between, at once or a third of the way to `FAR`."""

    def walled(x: Tensor) -> Tensor:
        return 5e3 * x[0] ** 2 + (x[1] - 1.0) ** 2 / 2.0 + 1e9 * (9.0 - wall - x[1]).relu() ** 4

    x = torch.tensor([0.0, 9.0], dtype=DOUBLE)
    assert small_gradient(Function(walled).sample(), x, radius=1e-8, eps=90.0) == math.inf


def test_what_is_below_its_error_is_not_followed() -> None:
    f = Function(lambda x: 5e3 * x[0] ** 2 + (x[1] - 1.0) ** 2 / 2.0).sample()
    x = torch.tensor([1e-2, 9.0], dtype=DOUBLE)
    assert small_gradient(f, x, radius=1e-8, eps=90.0, error=9.0) == math.inf
    assert small_gradient(f, x, radius=1e-8, eps=90.0, error=7.0) < math.inf


def test_a_slope_without_positive_curvature_is_not_small_if_values_fall() -> None:
    x = torch.zeros(2, dtype=DOUBLE)
    down = Function(lambda x: 5e3 * x[0] ** 2 + 1e-2 * x[1]).sample()
    assert small_gradient(down, x, radius=1e-8, eps=10.0) == pytest.approx(0.005)
    walled = Function(lambda x: 5e3 * x[0] ** 2 + 1e-2 * x[1] + 1e6 * x[1] ** 4).sample()
    assert small_gradient(walled, x, radius=1e-8, eps=10.0) == math.inf


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("first", "kind"), [(0.5, "not stationary"), (0.98, "not stationary"), (0.999, "minimum")])
def test_the_floor_of_a_valley_is_no_minimum(first: float, kind: str, dtype: torch.dtype) -> None:
    """Rosenbrock's valley: ε by L1 alone is above 1 there, and F falls to 0 along the floor."""
    verdict = is_minimum(Function(rosenbrock), torch.tensor([first, first**2], dtype=dtype))
    assert verdict.kind == kind
    assert (verdict.eps < verdict.gradient_norm) == (kind == "not stationary")


def test_minimize_goes_on_along_the_floor() -> None:
    solution = minimize(Function(rosenbrock), torch.tensor([0.9, 0.81], dtype=DOUBLE), max_samples=1_000_000)
    assert solution.success
    assert is_minimum(Function(rosenbrock), solution.x).kind == "minimum"
    assert float((solution.x - 1.0).norm()) < 2.0 * NEAR * float(solution.x.norm())


@pytest.mark.parametrize(("floor", "small"), [(0.0, 0.1), (1.0, math.inf)])
def test_nearer_than_that_the_fall_has_to_be_much(floor: float, small: float) -> None:
    """F comes to rest 0.05 away, and falls by 0.00125: all of it, or a thousandth."""
    f = Function(lambda x: 5e3 * x[0] ** 2 + (x[1] - 1.0) ** 2 / 2.0 + floor).sample()
    x = torch.tensor([0.0, 1.05], dtype=DOUBLE)
    assert small_gradient(f, x, radius=1e-8, eps=10.0) == pytest.approx(small * NEAR * 10.5, rel=1e-3)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.GELU])
@pytest.mark.parametrize("steps", [200, 1000])
def test_a_classifier_in_the_middle_of_training_is_no_minimum(activation: type[nn.Module], steps: int) -> None:
    """Without weight decay its loss goes on falling to zero, by a factor of 1e5 at least."""
    datasets = pytest.importorskip("sklearn.datasets")
    torch.manual_seed(1)
    rows, classes = (torch.tensor(part) for part in datasets.load_iris(return_X_y=True))
    rows = (rows - rows.mean(0)) / rows.std(0)
    model = nn.Sequential(nn.Linear(4, 16), activation(), nn.Linear(16, 3)).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows), classes).backward()
        optimizer.step()
    data = torch.utils.data.TensorDataset(rows, classes)
    objective = ModelObjective(model, lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]), data)
    assert is_minimum(objective).kind == "not stationary"


def test_negative_curvature_is_told_where_the_gradient_leads_far() -> None:
    """Along x₁ F bends down softly, and falls; along x₂ the gradient leads farther down."""

    def f(x: Tensor) -> Tensor:
        return 5e3 * x[0] ** 2 - x[1] ** 2 / 2.0 + x[1] ** 4 + (x[2] - 3.0) ** 2 / 2.0

    verdict = is_minimum(Function(f), torch.zeros(3, dtype=DOUBLE))
    assert verdict.kind == "not stationary"
    assert verdict.direction is not None
    assert verdict.curvature == pytest.approx(-1.0, rel=1e-3)
    assert verdict.drop == pytest.approx(1.0 / 16.0, rel=0.1)


@pytest.mark.parametrize(("size", "dtype"), [(1e-160, DOUBLE), (1e150, DOUBLE), (1e-30, torch.float32)])
def test_the_size_of_f_does_not_matter_where_its_square_underflows_or_overflows(
    size: float, dtype: torch.dtype
) -> None:
    f = Function(lambda x: size * ((x[0] - 3.0) ** 2 + 1e4 * x[1] ** 2))
    verdict = is_minimum(f, torch.zeros(2, dtype=dtype))
    assert verdict.kind == "not stationary"
    assert verdict.eps == pytest.approx(0.2 * size, rel=1e-3)
