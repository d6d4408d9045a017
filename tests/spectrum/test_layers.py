"""Layer by layer: the blocks of a dense Hessian."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.spectrum.networks import dense, network, objective, pooled, rectified
from unsaddle import Function, spectrum_by_layer


def test_extremes_and_traces_are_those_of_the_blocks() -> None:
    model = network().eval()
    found = spectrum_by_layer(objective(model), lowest=2, highest=2)
    hessian, start = dense(model), 0
    assert [layer.name for layer in found.layers] == ["body.0", "body.1", "body.5", "head"]
    for layer in found.layers:
        d = layer.pairs.dimension
        block = hessian[start : start + d, start : start + d]
        values = torch.linalg.eigvalsh(block).numpy()
        assert layer.pairs.values == pytest.approx(np.r_[values[:2], values[-2:]], abs=1e-5 * np.abs(values).max())
        assert layer.density is not None
        assert layer.density.trace == pytest.approx(values.sum(), rel=1e-4)
        outside = layer.pairs.vectors.clone()
        outside[:, start : start + d] = 0.0
        assert float(outside.abs().max()) == 0.0
        start += d
    assert start == hessian.shape[0]
    assert len(found.plot().axes) == 1 + 4
    assert str(found).splitlines()[0].split() == ["d", "lowest", "highest", "trace"]


def test_groups_by_pattern_by_name_and_by_optimizer() -> None:
    model = network().eval()
    F = objective(model)
    by_pattern = spectrum_by_layer(F, groups=["*.weight", "head.*"], density=False)
    assert [layer.name for layer in by_pattern.layers] == ["*.weight", "head.*"]
    assert by_pattern["head.*"].parameters == ("head.weight", "head.bias")
    named = spectrum_by_layer(F, groups={"all": "*"}, density=False)
    values = torch.linalg.eigvalsh(dense(model)).numpy()
    assert named["all"].pairs.values == pytest.approx([values[0], values[-1]], rel=1e-4)
    optimizer = torch.optim.SGD([{"params": model.body.parameters()}, {"params": model.head.parameters(), "lr": 0.1}])
    split = spectrum_by_layer(F, groups=optimizer, density=False)
    assert [(layer.name, layer.pairs.dimension) for layer in split.layers] == [("group 0", 174), ("group 1", 21)]


def test_wrong_groups_say_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"no parameter is called tail\.\*; there are body\.0\.weight"):
        spectrum_by_layer(objective(network()), groups="tail.*")
    with pytest.raises(TypeError, match="layers need a model"):
        spectrum_by_layer(Function(lambda x: x.sum()), torch.ones(3))
    other = torch.optim.SGD([torch.ones(2, requires_grad=True)])
    with pytest.raises(ValueError, match="pass the one that trains this model"):
        spectrum_by_layer(objective(network()), groups=other)


def test_whether_densities_are_wanted_is_true_or_false() -> None:
    with pytest.raises(TypeError, match="density must be True or False, got 'no'"):
        spectrum_by_layer(objective(network()), density="no")


@pytest.mark.parametrize(
    "groups", [5, [5], {"a": 5}, {"a": ["*", 5]}, [None], [["*"]], torch.ones(2), {"a": torch.ones(())}]
)
def test_groups_that_are_no_names_are_refused(groups: object) -> None:
    with pytest.raises(TypeError, match="groups must be"):
        spectrum_by_layer(objective(network().eval()), groups=groups, density=False)


def test_a_basis_that_is_too_small_is_refused() -> None:
    with pytest.raises(ValueError, match="basis must be"):
        spectrum_by_layer(objective(network().eval()), basis=2, density=False)


@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_a_network_with_kinks_are_those_of_its_piece(seed: int) -> None:
    F, exact = rectified(torch.float32, seed)
    start = 0
    for layer in spectrum_by_layer(F, density=False, seed=seed).layers:
        d = layer.pairs.dimension
        values = torch.linalg.eigvalsh(exact[start : start + d, start : start + d]).numpy()
        assert layer.pairs.values[-1] == pytest.approx(values[-1], rel=0.02)
        start += d


def test_layers_of_a_network_with_kinks_are_asked_in_float64() -> None:
    _, F, _ = pooled()
    found = spectrum_by_layer(F)
    assert all(layer.pairs.in_float64 for layer in found.layers)
    assert "float64, on a copy" in str(found)
    assert all(layer.pairs.vectors.dtype is torch.float32 for layer in found.layers)
