"""The mode of a model is said where it matters, and nowhere else."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsaddle import ModelObjective, is_minimum
from unsaddle.objectives.model.mode import mode


@pytest.mark.parametrize(
    "layer",
    [nn.Dropout(0.5), nn.Dropout2d(0.5), nn.GRU(2, 2, 2, dropout=0.5), nn.MultiheadAttention(2, 1, dropout=0.5)],
    ids=lambda layer: type(layer).__name__,
)
def test_dropout_is_seen_wherever_torch_has_it(layer: nn.Module) -> None:
    assert mode(layer.train().modules()) == "train: dropout is on"
    assert mode(layer.eval().modules()) == "eval: dropout is off"


@pytest.mark.parametrize(
    "layer",
    [nn.Linear(2, 2), nn.Dropout(0.0), nn.LayerNorm(2), nn.GRU(2, 2), nn.BatchNorm1d(2, track_running_stats=False)],
    ids=str,
)
def test_layers_that_compute_the_same_in_both_are_not_mentioned(layer: nn.Module) -> None:
    assert mode(layer.train().modules()) == ""
    assert mode(layer.eval().modules()) == ""


def test_layers_in_different_modes_are_told_apart() -> None:
    layers = nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    layers[0].eval()
    assert mode(layers.modules()).startswith("mixed: dropout is on, batch norm takes the statistics of each batch in")
    layers[1].eval()
    assert mode(layers.modules()) == "mixed: dropout is on, batch norm takes its running statistics"


def test_the_verdict_has_a_row_for_it() -> None:
    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        out: Tensor = model(batch[0])
        return (out - 1.0).square().mean()

    data = TensorDataset(torch.randn(16, 3, generator=torch.Generator().manual_seed(0)))
    model = nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.1))
    asked = ModelObjective(model, loss, data)
    train = is_minimum(asked)
    assert "train: dropout is on\n" in str(train)
    model.eval()
    assert "eval: dropout is off\n" in str(is_minimum(asked))
    assert train.model_mode == "train: dropout is on"  # As it was when it was asked.
    assert "mode" not in dict(is_minimum(ModelObjective(model[0], loss, data))._rows())
