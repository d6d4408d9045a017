"""Verdicts of searches in a metric: what they are without, or undecided; never wrong. The truth is a dense Hessian."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, rosen, rosen_der
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.data import TensorDataset

from tests.objectives.in_float32 import InFloat32
from unsaddle import FiniteSum, Function, ModelObjective, is_minimum, negative_curvature, numpy_function
from unsaddle.metric.given import as_map

D = 30


def case(
    seed: int, lowest: float, dtype: torch.dtype, orders: float = 0.0, at_zero: bool = False
) -> tuple[Function, Tensor, Tensor, Tensor]:
    """f(x) = g(Dx) at its stationary point; x; the sizes 1/D; ∇²f(x). Eigenvalues of ∇²g: 0.01 to 1, and `lowest`."""
    generator = torch.Generator().manual_seed(seed)
    axes, _ = torch.linalg.qr(torch.randn(D, D, generator=generator, dtype=torch.float64))
    values = 10.0 ** (-2.0 * torch.rand(D, generator=generator, dtype=torch.float64))
    values[0], values[-1] = 1.0, lowest
    scale = 10.0 ** (orders * torch.linspace(-0.5, 0.5, D, dtype=torch.float64))
    h = axes @ torch.diag(values) @ axes.T
    y = torch.randn(D, generator=generator, dtype=torch.float64)
    x, d, inner = ((0.0 if at_zero else 1.0) * y / scale).to(dtype), scale.to(dtype), h.to(dtype)
    centre = d * x

    def fun(x: Tensor) -> Tensor:
        u = d * x - centre
        return u @ (inner @ u) / 2.0 + (u**4).sum() / 24.0

    return Function(fun), x, 1.0 / scale, scale[:, None] * h * scale


def random_metric(seed: int, orders: float, kind: str) -> Tensor:
    """It has nothing to do with the function."""
    generator = torch.Generator().manual_seed(1000 + seed)
    sizes = 10.0 ** (orders * (torch.rand(D, generator=generator, dtype=torch.float64) - 0.5))
    if kind == "sizes":
        return sizes
    axes, _ = torch.linalg.qr(torch.randn(D, D, generator=generator, dtype=torch.float64))
    return axes @ torch.diag(sizes) @ axes.T


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["sizes", "inverse Hessian"])
@pytest.mark.parametrize("orders", [1.0, *(pytest.param(o, marks=pytest.mark.study) for o in (3.0, 6.0)), 12.0])
def test_a_metric_changes_no_verdict(dtype: torch.dtype, kind: str, orders: float) -> None:
    decided = 0
    for seed, lowest in enumerate([-0.7, -0.3, -0.1, -0.05, 0.02, 0.1]):
        f, x, _, h = case(seed, lowest, dtype)
        verdict = is_minimum(f, x, metric=random_metric(seed, orders, kind), seed=seed)
        assert verdict.kind in ("saddle" if lowest < 0.0 else "minimum", "undecided")
        least = float(torch.linalg.eigvalsh(h)[0])
        assert least >= -verdict.bound
        decided += verdict.kind != "undecided"
        if verdict.kind == "minimum":
            assert verdict.interval[0] <= least <= verdict.interval[1] + 1e-6
        elif verdict.direction is not None:
            v = verdict.direction.double()
            low, high = verdict.interval
            assert low - 1e-6 <= float(v @ h @ v) <= high + 1e-6
            end = x + verdict.length * verdict.direction
            here, there = (float(f.sample().value(at)) for at in (x, end))
            assert math.isclose(here - there, verdict.drop, rel_tol=1e-3)
    assert decided >= 5


def test_variables_over_eight_orders_of_magnitude_are_decided_in_float32() -> None:
    right = 0
    for seed in range(10):
        lowest = -(10.0 ** (-0.15 * seed)) if seed % 2 else 0.02
        f, x, sizes, _ = case(seed, lowest, torch.float32, orders=8.0)
        verdict = is_minimum(f, x, metric=sizes, seed=seed)
        assert verdict.kind in ("saddle" if lowest < 0.0 else "minimum", "undecided")
        right += verdict.kind != "undecided"
    assert right >= 9


@pytest.mark.parametrize("at_zero", [False, True])
def test_sizes_that_nobody_knows_are_measured(at_zero: bool) -> None:
    """Eight orders of magnitude in float32, and no metric is handed in."""
    right = 0
    for seed in range(10):
        lowest = -(10.0 ** (-0.15 * seed)) if seed % 2 else 0.02
        f, x, _, h = case(seed, lowest, torch.float32, orders=8.0, at_zero=at_zero)
        verdict, least = is_minimum(f, x, seed=seed), float(torch.linalg.eigvalsh(h)[0])
        assert verdict.kind != "not stationary"
        assert least >= -verdict.bound
        if verdict.kind == "saddle":
            assert verdict.direction is not None
            v = verdict.direction.double()
            assert float(v @ h @ v) < 0.0
        elif verdict.kind == "minimum":
            assert least >= -verdict.gamma
        right += verdict.kind != "undecided"
    assert right >= 9


def test_the_budget_bounds_the_attempt_in_measured_sizes() -> None:
    f, x, _, _ = case(1, -0.7, torch.float32, orders=8.0)
    alone, budget = InFloat32(f), 60
    without = is_minimum(alone, x).cost.gradients
    assert is_minimum(alone, x, max_gradients=budget).cost.gradients <= budget + 20 < without


def test_a_gamma_that_was_given_is_that_of_x() -> None:
    """λ_min = −0.05 is below −γ in x, and −5e-4 in the metric."""
    h = torch.linspace(0.1, 1.0, D, dtype=torch.float64)
    h[3] = -0.05
    sizes = torch.ones(D, dtype=torch.float64)
    sizes[3] = 0.1
    f = Function(lambda x: (h * x**2).sum() / 2.0 + (x**4).sum())
    verdict = is_minimum(f, torch.zeros(D, dtype=torch.float64), gamma=0.02, metric=sizes)
    assert (verdict.kind, verdict.gamma) == ("saddle", pytest.approx(0.02))
    assert verdict.curvature == pytest.approx(-0.05, rel=1e-3)


def test_an_eps_that_was_given_is_for_the_gradient_of_x() -> None:
    f, x, sizes, h = case(0, 0.1, torch.float64, orders=4.0)
    x = x + 1e-6 * sizes
    norm = float((h @ (1e-6 * sizes)).norm())
    for eps, kind in ((0.5 * norm, "not stationary"), (2.0 * norm, "minimum")):
        verdict = is_minimum(f, x, eps=eps, metric=sizes)
        assert verdict.kind == kind
        assert verdict.gradient_norm == pytest.approx(norm, rel=1e-4)
        assert "F(Sz)" not in verdict.reason
    without = is_minimum(f, x, metric=sizes)
    assert without.kind == "minimum"
    assert "those of F(Sz), in the metric" in without.reason


def test_on_samples_verdicts_are_those_of_everything() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = 0.1 * torch.randn(20000, D, generator=generator, dtype=torch.float64)
    sizes = random_metric(1, 2.0, "sizes")
    for lowest in (-0.5, 0.2):
        _, _, _, h = case(1, lowest, torch.float64)
        h = h + 0.3 * torch.eye(D, dtype=torch.float64) * (lowest > 0.0)

        def loss(x: Tensor, a: Tensor, h: Tensor = h) -> Tensor:
            return x @ (h @ x) / 2.0 + ((a @ x) ** 2).mean() / 2.0 + (x**4).sum()

        verdict = is_minimum(FiniteSum(loss, rows), torch.zeros(D, dtype=torch.float64), samples=1000, metric=sizes)
        assert verdict.kind == ("saddle" if lowest < 0.0 else "minimum")
        truth = torch.linalg.eigvalsh(h + rows.T @ rows / len(rows))
        assert float(truth[0]) >= -verdict.bound


def test_what_bfgs_leaves_behind_is_a_metric() -> None:
    """Rosenbrock's function in twelve variables is ill-conditioned."""
    result = minimize(rosen, np.full(12, 1.3), jac=rosen_der, method="BFGS", options={"gtol": 1e-8})
    f, x = numpy_function(rosen, rosen_der), torch.from_numpy(result.x)
    assert is_minimum(f, x, metric=result.hess_inv).kind == "minimum"


class Transformer(nn.Module):
    """One block over six of ten symbols: 276 parameters, so that a dense Hessian takes a second."""

    def __init__(self, symbols: int = 10, width: int = 4, length: int = 6) -> None:
        super().__init__()
        self.embedding, self.place = nn.Embedding(symbols, width), nn.Parameter(0.02 * torch.randn(length, width))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.head = nn.Linear(width, symbols, bias=False)
        self.register_buffer("later", torch.full((length, length), -math.inf).triu(1))

    def forward(self, symbols: Tensor) -> Tensor:
        x = self.embedding(symbols) + self.place
        q, k, v = self.attend(self.first(x)).chunk(3, -1)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + self.later).softmax(-1)
        x = x + self.out(weights @ v)
        y: Tensor = self.head(x + self.down(nn.functional.gelu(self.up(self.second(x)))))
        return y


def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    (rows,) = batch
    return nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def trained(seed: int, steps: int) -> tuple[ModelObjective, torch.optim.Adam, Tensor]:
    """A transformer after steps of Adam on rows of a Markov chain; its objective and Hessian."""
    torch.manual_seed(seed)
    model, common = Transformer().double(), 1.0 / torch.arange(1.0, 11.0)
    chain = torch.distributions.Dirichlet(0.3 * common).sample((10,))
    columns = [torch.multinomial(common, 64, replacement=True)]
    for _ in range(6):
        columns.append(torch.multinomial(chain[columns[-1]], 1)[:, 0])
    rows = torch.stack(columns, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model, (rows[torch.randint(64, (16,))],)).backward()
        optimizer.step()
    objective = ModelObjective(model, loss, TensorDataset(rows))
    shapes = {name: p.shape for name, p in model.named_parameters()}

    def flat(x: Tensor) -> Tensor:
        parts = torch.split(x, [shape.numel() for shape in shapes.values()])
        state = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
        return loss(lambda rows: functional_call(model, state, (rows,)), (rows,))  # type: ignore[arg-type]

    return objective, optimizer, torch.autograd.functional.hessian(flat, objective.point, vectorize=True)


def gradients(objective: ModelObjective, h: Tensor, metric: torch.optim.Adam | None, seed: int) -> float:
    """Gradients until the lowest curvature seen, in the metric if there is one, is 0.9 of the lowest there is."""
    scale, smallest = torch.ones(len(h), dtype=h.dtype), 1.0
    if metric is not None:
        scaling = as_map(metric, objective, objective.point)
        scale, smallest = scaling.apply(scale), scaling.smallest
    lowest = float(torch.linalg.eigvalsh(scale[:, None] * h * scale)[0])
    how = {"gamma": -0.95 * lowest / smallest**2, "seed": seed, "keep_history": True}
    found = negative_curvature(objective, extractor="krylov", metric=metric, **how)  # type: ignore[arg-type]
    assert found.direction is not None
    unit = float((found.direction / scale).norm()) ** 2  # 1/‖Sw‖² of the direction, which the history is in.
    return next((float(spent) for spent, seen in found.history if seen <= 0.9 * lowest * unit), math.inf)


@pytest.mark.study
def test_late_in_training_adams_second_moments_save_gradients() -> None:
    """Medians of five seeds after 1000 steps. Early on, so small a network shows its negative curvature anyway."""
    without, within = list[float](), list[float]()
    for seed in range(5):
        objective, adam, h = trained(seed, 1000)
        without.append(gradients(objective, h, None, seed))
        within.append(gradients(objective, h, adam, seed))
    assert statistics.median(within) < statistics.median(without), (within, without)
