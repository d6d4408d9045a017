"""Products between kinks against Hessians by autograd, which are those of the piece that x lies in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from benchmarks.networks import along, in_double
from benchmarks.trained_networks import BATCH, networks, trained
from tests.objectives.in_float32 import InFloat32
from tests.spectrum.networks import crowded, rectified
from unsaddle import Function, ModelObjective, eigenpairs, morse_index, spectral_density
from unsaddle.cost import Ledger
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.kinks import between_kinks
from unsaddle.spectrum import Status, hessian_operator
from unsaddle.spectrum.hessian import hessian_at

DTYPES = [(torch.float64, 1e-6), (torch.float32, 2e-2)]


def random(d: int, seed: int, dtype: torch.dtype) -> Tensor:
    v = torch.randn(d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)
    return v / v.norm()


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_products_are_those_of_the_piece_that_x_lies_in(dtype: torch.dtype, tolerance: float) -> None:
    F, exact = rectified(dtype)
    H = hessian_operator(F)
    for seed in range(5):
        v = random(H.dimension, seed, dtype)
        assert (H(v).double() - exact @ v.double()).norm() <= tolerance * (exact @ v.double()).norm()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_eigenpairs_are_those_of_the_piece_and_their_errors_hold(dtype: torch.dtype, seed: int) -> None:
    F, exact = rectified(dtype, seed)
    values = torch.linalg.eigvalsh(exact).numpy()
    found = eigenpairs(F, lowest=2, highest=2)
    off = np.abs(found.values - np.r_[values[:2], values[-2:]])
    assert (off <= found.errors + 1e-5 * np.abs(values).max()).all()
    assert (off <= 0.01 * np.abs(found.values)).all()
    assert found.status is Status.CONVERGED


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_index_is_that_of_the_piece(dtype: torch.dtype) -> None:
    F, exact = rectified(dtype)
    found = morse_index(F)
    truth = int((torch.linalg.eigvalsh(exact) < -found.gamma).sum())
    assert truth > 3
    assert found.lower <= truth <= found.upper <= found.lower + 2


def test_without_room_between_kinks_the_index_ends_and_leaves_its_upper_bound_open() -> None:
    found = morse_index(crowded(), torch.zeros(400).double())
    assert found.upper == 400
    assert found.lower == 0
    assert found.status is Status.INACCURATE
    assert found.cost.gradients < 1000


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_where_x_lies_on_a_kink_products_are_taken_beside_it(dtype: torch.dtype) -> None:
    """Rounding decides on which side of the kink each point is."""
    d = 300
    sizes, normal = torch.linspace(-1.0, 2.0, d, dtype=dtype), random(d, 1, dtype)
    x = random(d, 2, dtype) * 5.0
    on = float(normal @ x)
    F = Function(lambda y: 0.5 * (sizes * y * y).sum() + (normal @ y - on).relu())
    H = hessian_operator(F, x)
    for seed in range(3, 8):
        v = random(d, seed, dtype)
        assert (H(v) - sizes * v).norm() <= (1e-5 if dtype == torch.float64 else 0.05) * (sizes * v).norm()


def test_a_product_between_kinks_takes_two_gradients_where_its_first_radius_has_none() -> None:
    F = InFloat32(rectified(torch.float64)[0])
    assert F.point is not None
    hessian = hessian_at(F, F.point, None, torch.Generator().manual_seed(0), Ledger())
    assert hessian.between is not None
    before, out = hessian.ledger.gradients, torch.empty_like(F.point)
    hessian.multiply(random(len(out), 0, torch.float64), out, 0.0)
    assert hessian.ledger.gradients == before + 2


def test_a_staircase_has_no_gap_between_kinks() -> None:
    """Within a step the gradient is constant but for a scale, and its products are clean, linear, and wrong."""
    scale, x = torch.linspace(1.0, 2.0, 100, dtype=torch.float64), torch.linspace(0.5, 1.5, 100, dtype=torch.float64)

    def rounded(y: Tensor) -> tuple[Tensor, Tensor]:
        step = 2.0**-14 * (scale * y).abs().max()
        return (scale * y * y).sum() / 2.0, (scale * y / step).round() * step

    for seed in range(5):
        f_hat = DisplacedFunction(Function(rounded, gradient=True).sample(), x)
        generator = torch.Generator().manual_seed(seed)
        q = f_hat.product(random(100, seed, torch.float64), 1e-9)
        assert between_kinks(f_hat, q / q.norm(), generator) is None


def test_what_kinks_spoil_is_looked_for_again_between_them() -> None:
    """The first comparison is along one vector, where a trained network may have no kinks. The pairs meet them."""
    pytest.importorskip("sklearn")
    torch.manual_seed(0)
    network = networks()["MLP, ReLU"]()
    trained(network, 300, 0)
    batch = tuple(part[:BATCH] for part in network.rows)
    F = ModelObjective(network.model, network.loss, TensorDataset(*batch))
    found = eigenpairs(F, lowest=1, highest=1, seed=1)
    for value, error, v in zip(found.values, found.errors, found.vectors, strict=True):
        exact = along(*in_double(network, batch), v)
        assert abs(value - exact) <= max(error, 1e-3 * abs(exact))
        assert error <= 0.01 * abs(value)
    assert found.status is Status.CONVERGED
    density = spectral_density(F, seed=12)  # Without the second look, its lowest node is twice as low.
    assert density.status is Status.CONVERGED
    assert [density.nodes.min(), density.nodes.max()] == pytest.approx(found.values, rel=1e-2)
