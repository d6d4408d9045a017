"""What a loss may be: its arguments in their order, the mean over the rows of a batch."""

import functools
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from unsaddle import ModelObjective, is_minimum

SUM = nn.CrossEntropyLoss(reduction="sum")


def data(rows=40):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(rows, 3, generator=generator)
    return TensorDataset(inputs, torch.randint(2, (rows,), generator=generator))


def network():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def helper(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="sum")


class Summed(nn.Module):
    def __init__(self):
        super().__init__()
        self.reduction = "sum"

    def forward(self, model, batch):
        return functional.cross_entropy(model(batch[0]), batch[1], reduction=self.reduction)


SUMS = {
    "a module": lambda model, batch: SUM(model(batch[0]), batch[1]),
    "a keyword": lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1], reduction="sum"),
    "a method": lambda model, batch: (model(batch[0]) ** 2).sum(),
    "a function": lambda model, batch: helper(model(batch[0]), batch[1]),
    "a partial": functools.partial(lambda model, batch, how: helper(model(batch[0]), batch[1]), how="sum"),
    "a loss module": Summed(),
}


@pytest.mark.parametrize("loss", SUMS.values(), ids=SUMS)
def test_a_loss_that_adds_up_its_rows_is_named_once(loss):
    objective = ModelObjective(network(), loss, data())
    with pytest.warns(RuntimeWarning, match=r"a sum over the rows.*on 8 rows.*reduction='mean'"):
        objective.sample()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objective.sample()


MEANS = {
    "the default": lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
    "divided": lambda model, batch: SUM(model(batch[0]), batch[1]) / len(batch[1]),
    "over outputs": lambda model, batch: (model(batch[0]) ** 2).sum(dim=1).mean(),
    "with a penalty": lambda model, batch: (
        functional.cross_entropy(model(batch[0]), batch[1]) + sum((p**2).sum() for p in model.parameters())
    ),
    "zero": lambda model, batch: 0.0 * (model(batch[0]) ** 2).sum(),
    "of one size of batches": lambda model, batch: (model(batch[0]).reshape(40, 2) ** 2).sum(),
}


@pytest.mark.parametrize("loss", MEANS.values(), ids=MEANS)
def test_other_losses_pass(loss):
    ModelObjective(network(), loss, data()).sample()


def test_a_loss_whose_code_knows_no_sum_is_not_called_for_this():
    calls = []

    def loss(model, batch):
        calls.append(len(batch[0]))
        return functional.cross_entropy(model(batch[0]), batch[1])

    ModelObjective(network(), loss, data()).sample()
    assert calls == []


def test_looking_for_a_sum_changes_nothing_in_the_model():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    before, random = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    with pytest.warns(RuntimeWarning, match="a sum over the rows"):
        ModelObjective(model.eval(), SUMS["a module"], data()).sample()
    ModelObjective(model.train(), MEANS["divided"], data()).sample()
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize("loss", [lambda batch, model: model(batch[0]).mean(), lambda x, net: net(x[0]).mean()])
def test_swapped_arguments_are_named(loss):
    with pytest.raises(TypeError, match="with the model second; swap its arguments"):
        ModelObjective(network(), loss, data())


def test_swapped_arguments_without_telling_names_leave_a_note():
    objective = ModelObjective(network(), lambda a, b: b(a[0]).mean(), data())
    with pytest.raises(TypeError) as raised:
        is_minimum(objective)
    assert "loss(model, batch), in this order" in raised.value.__notes__[0]


def test_a_loss_of_any_arguments_passes():
    objective = ModelObjective(network(), lambda *both: both[0](both[1][0]).square().mean(), data())
    assert objective.sample().grad(objective.point).isfinite().all()


def test_a_loss_that_returns_a_vector_is_told_to_take_the_mean():
    objective = ModelObjective(network(), lambda model, batch: model(batch[0])[:, 0], data())
    with pytest.raises(ValueError, match=r"the loss must return a scalar, got a tensor of shape \(40,\).*\.mean\(\)"):
        is_minimum(objective)
