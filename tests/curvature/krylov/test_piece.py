"""The search in the piece between kinks: right on trained ReLU networks, silent where a lower precision is inside."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsaddle import Function, ModelObjective, is_minimum, negative_curvature
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.piece import _falls_beyond

DECAY = 1e-3


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    decay = sum((p.square().sum() for p in model.parameters()), torch.zeros(()))
    return nn.functional.cross_entropy(model(batch[0]), batch[1]) + DECAY * decay


@functools.cache
def trained(seed: int) -> tuple[ModelObjective, Tensor]:
    """A ReLU classifier where L-BFGS left it, in float64, and its Hessian by autograd: that of the piece it is in."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(200, 6, generator=generator).double()
    labels = (inputs[:, 0] * inputs[:, 1] + 0.5 * torch.randn(200, generator=generator) > 0.0).long()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, line_search_fn="strong_wolfe", tolerance_change=0.0)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(model, (inputs, labels))
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(closure)
    shapes = [(name, p.shape) for name, p in model.named_parameters()]

    def at(x: Tensor) -> Tensor:
        pieces = x.split([shape.numel() for _, shape in shapes])
        values = {name: piece.view(shape) for (name, shape), piece in zip(shapes, pieces, strict=True)}
        outputs = torch.func.functional_call(model, values, (inputs,))
        return nn.functional.cross_entropy(outputs, labels) + DECAY * x.square().sum()

    F = ModelObjective(model, loss, TensorDataset(inputs, labels), micro_batch=200)
    hessian = torch.autograd.functional.hessian(at, F.point)
    return F, (hessian + hessian.T) / 2.0


@pytest.mark.parametrize("seed", range(6))
def test_a_trained_relu_network_is_decided_by_the_piece_that_it_lies_in(seed: int) -> None:
    F, hessian = trained(seed)
    found = is_minimum(F)
    assert found.kind != "undecided"
    assert found.evidence.piece > 0.0
    assert "the piece of F between them" in found.reason
    lowest = float(torch.linalg.eigvalsh(hessian)[0])
    assert lowest >= -found.bound
    if found.direction is not None:
        v = found.direction
        assert abs(float(v @ hessian @ v) - found.curvature) <= 1e-6
    if found.kind == "minimum":
        assert lowest >= -found.gamma
    else:
        assert found.gradient_norm > found.eps


def on_kinks(dtype: torch.dtype, sizes: tuple[float, ...], lowest: float) -> tuple[Function, Tensor]:
    """A quadratic of 60 variables with its lowest eigenvalue, and kinks c·relu(wᵀ(y − x)) through x; and x."""
    generator = torch.Generator().manual_seed(1)
    w = torch.randn(len(sizes), 60, generator=generator, dtype=torch.float64)
    w = (w / w.norm(dim=1, keepdim=True)).to(dtype)
    x, c = torch.randn(60, generator=generator).to(dtype), torch.tensor(sizes).to(dtype)
    diagonal = torch.linspace(0.1, 1.0, 60).to(dtype)
    diagonal[0] = lowest

    def value(y: Tensor) -> Tensor:
        t = w @ (y - x)
        # Kinks are tilted: on neither side of them the gradient is zero.
        return 0.5 * (diagonal * (y - x) ** 2).sum() + c @ torch.relu(t) - 0.3 * (c @ t)

    return Function(value), x


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("sizes", [(1.0,), (0.5, 0.1, 0.2)])
def test_a_valley_of_kinks_is_a_minimum(dtype: torch.dtype, sizes: tuple[float, ...]) -> None:
    F, x = on_kinks(dtype, sizes, 0.1)
    found = is_minimum(F, x)
    assert found.kind == "minimum"
    assert found.evidence.kinks == len(sizes)
    assert f"x lies on {len(sizes)} kink" in found.reason
    assert found.gradient_norm <= 1e-5


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_valley_that_falls_along_itself_is_none(dtype: torch.dtype) -> None:
    F, x = on_kinks(dtype, (0.01, 0.004, 0.002), -0.5)
    found = is_minimum(F, x)
    assert found.kind == "saddle"
    assert found.direction is not None
    assert abs(float(found.direction[0])) > 0.9
    assert found.drop > 0.0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_one_ridge_among_valleys_is_the_way_down(dtype: torch.dtype) -> None:
    F, x = on_kinks(dtype, (0.5, -0.1, 0.2), 0.1)
    found = negative_curvature(F, x)
    assert found.direction is not None
    assert found.jump == pytest.approx(0.1, rel=1e-3)
    assert "Nearer to x the gradient jumps" in found.over_kinks
    f, s = F.sample(), 1e-2
    above, below = (float(f.value(x + sign * s * found.direction)) for sign in (1.0, -1.0))
    assert above + below < 2.0 * float(f.value(x)) - 1e-4


def test_negative_curvature_tells_that_nothing_was_found_between_kinks() -> None:
    F, hessian = trained(0)
    found = negative_curvature(F)
    assert found.piece > 0.0
    assert found.bound <= found.gamma
    assert float(torch.linalg.eigvalsh(hessian)[0]) >= -found.bound
    assert found.smoothness == pytest.approx(float(torch.linalg.eigvalsh(hessian)[-1]), rel=0.02)


@pytest.mark.parametrize(
    ("fun", "falls"),
    [(lambda z: z.sum() - z.square().sum(), True), (lambda z: -z.sum(), False), (lambda z: z.square().sum(), False)],
    ids=["bends down", "a slope", "bends up"],
)
def test_values_on_both_sides_tell_whether_f_bends_down(fun, falls) -> None:
    """A slope is no bend: one side makes up for the other."""
    f_hat = DisplacedFunction(Function(fun).sample(), torch.zeros(3, dtype=torch.float64))
    way = torch.ones(3, dtype=torch.float64)
    earlier = SimpleNamespace(vector=way, deciding=(), scale=SimpleNamespace(radius=0.1))
    assert _falls_beyond(f_hat, earlier) is falls
    assert not _falls_beyond(f_hat, SimpleNamespace(vector=None, deciding=()))
